"""Draws of all chains as an xarray DataTree in the ArviZ schema."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

import pgfa
from pgfa.inference.recording import feature_axes_of_draws, watched_pairs, widen
from pgfa.models.base import Model
from pgfa.storage.store import RunStore, StoreError

#: Draws on disk of more than this many bytes stay there and are read on demand.
_LARGEST_IN_MEMORY = 256_000_000

_STAT = "stat_"
#: Shares of proposals that were accepted: the only arrays that a segment may be without.
_RATE = "stat_acceptance_"


def build_tree(
    model: Model,
    warmup_segments: list[list[Any]],
    segments: list[list[Any]],
    settings: dict[str, Any],
    store: RunStore | None = None,
) -> xr.DataTree:
    """Put chains side by side, cut to the length of the shortest; chains without draws are left out.

    Parameters
    ----------
    segments
        For each chain its segments; for each of these a dictionary of arrays, in memory or of a store.
    """
    groups: dict[str, xr.Dataset] = {}
    for prefix, chains in (("", segments), ("warmup_", warmup_segments)):
        kept = [i for i, chain in enumerate(chains) if chain]
        if not kept:
            continue
        posterior, stats = _datasets(model, [chains[i] for i in kept], kept, store)
        groups[f"{prefix}posterior"], groups[f"{prefix}sample_stats"] = posterior, stats
    attributes = {
        "inference_library": "pgfa",
        "inference_library_version": pgfa.__version__,
        "seed": str(settings.get("seed")),
        "settings": json.dumps(settings),
    }
    for dataset in groups.values():
        dataset.attrs.update(attributes)
    observed = model.observed_data()
    if observed:
        coords = model.coords()
        groups["observed_data"] = xr.Dataset(
            {name: (dims, values) for name, (dims, values) in observed.items()},
            coords={dim: labels for dim, labels in coords.items() if any(dim in dims for dims, _ in observed.values())},
        )
    pairs = watched_pairs(model.num_rows)
    groups["constant_data"] = xr.Dataset({"watched_pairs": (("pair", "end"), pairs)})
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(attributes)
    return tree


def _datasets(
    model: Model, chains: list[list[Any]], numbers: list[int], store: RunStore | None
) -> tuple[xr.Dataset, xr.Dataset]:
    length = min(sum(segment["alpha"].shape[0] for segment in chain) for chain in chains)
    width = max(segment["Z"].shape[2] for chain in chains for segment in chain)
    axes = feature_axes_of_draws(model.feature_axes)
    dims = {"Z": ("row", "feature"), **model.parameter_dims}
    coords: dict[str, Any] = {"chain": numbers, "draw": np.arange(length), "feature": np.arange(width)}
    posterior: dict[str, Any] = {}
    stats: dict[str, Any] = {}
    names = sorted({name for chain in chains for segment in chain for name in segment} - {"is_warmup"})
    for name in names:
        values = _join(chains, name, axes.get(name, ()), width, length, store)
        if name.startswith(_STAT):
            stat = name.removeprefix(_STAT)
            stats[stat] = (("chain", "draw", *(("pair",) if stat == "shared_features" else ())), values)
        else:
            own = dims.get(name, tuple(f"{name}_dim_{i}" for i in range(values.ndim - 2)))
            posterior[name] = (("chain", "draw", *own), values)
    used = {dim for own, _ in posterior.values() for dim in own}
    coords.update({dim: labels for dim, labels in model.coords().items() if dim in used})
    if "feature_2" in used:
        coords["feature_2"] = np.arange(width)
    dataset = xr.Dataset(posterior, coords={dim: values for dim, values in coords.items() if dim in used})
    return dataset, xr.Dataset(stats, coords={"chain": numbers, "draw": np.arange(length)})


def _join(
    chains: list[list[Any]], name: str, axes: tuple[int, ...], width: int, length: int, store: RunStore | None
) -> Any:
    parts = [[_part(segment, name, store) for segment in chain] for chain in chains]
    size = sum(part.size * part.dtype.itemsize for chain in parts for part in chain)
    if store is not None and size > _LARGEST_IN_MEMORY:
        import dask.array as lazy

        def read(part: Any) -> Any:
            return part if isinstance(part, np.ndarray) else lazy.from_zarr(part)

        joined = [lazy.concatenate([widen(read(part), axes, width) for part in chain])[:length] for chain in parts]
        return lazy.stack(joined)
    arrays = []
    for chain in parts:
        present = [part if store is None or isinstance(part, np.ndarray) else store.read_array(part) for part in chain]
        arrays.append(np.concatenate([widen(part, axes, width) for part in present])[:length])
    return np.stack(arrays)


def _part(segment: Any, name: str, store: RunStore | None) -> Any:
    """What a segment holds of a variable: NaN where it has no acceptance rate, as nothing had been proposed yet."""
    if name in segment:
        return segment[name]
    if not name.startswith(_RATE):
        raise StoreError(f"{store.path if store else 'a run'} is damaged: a segment has no array {name}")
    return np.full(segment["alpha"].shape[0], np.nan)
