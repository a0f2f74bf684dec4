"""Draws of one chain, collected into segments: dictionaries of arrays that all begin with the axis of draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgfa.inference.chain import Chain
from pgfa.state import FeatureAxes, State

Segment = dict[str, NDArray[Any]]

#: How many pairs of rows are watched: the number of features that two rows share does not depend on labels.
_NUM_PAIRS = 20


def watched_pairs(num_rows: int) -> NDArray[np.int64]:
    """Pairs of rows, the same for all chains, of shape (number of pairs, 2)."""
    if num_rows < 2:
        return np.zeros((0, 2), dtype=np.int64)
    rng = np.random.default_rng(num_rows)
    pairs = {tuple(sorted(rng.choice(num_rows, size=2, replace=False).tolist())) for _ in range(_NUM_PAIRS)}
    return np.array(sorted(pairs), dtype=np.int64)


class Recorder:
    """Collects draws of a chain, `num_bytes` of them so far, until they are taken as a segment.

    `tallies` holds how many proposals of each kind had been accepted and made at the last draw; those of a chain that
    is resumed between two draws are given.
    """

    def __init__(
        self, chain: Chain, pairs: NDArray[np.int64], tallies: dict[str, tuple[int, int]] | None = None
    ) -> None:
        self._axes = chain.model.feature_axes
        self._pairs = pairs
        self._states: list[State] = []
        self._stats: list[dict[str, Any]] = []
        self.num_bytes = 0
        self.follow(chain)
        if tallies is not None:
            self.tallies = tallies

    def follow(self, chain: Chain) -> None:
        """Count what is accepted of this chain's proposals from here on."""
        self._chain = chain
        self.tallies = self._tallies(chain)

    def __len__(self) -> int:
        return len(self._states)

    def add(self, chain: Chain, seconds: float) -> None:
        """Take down the present state of the chain and how it got there."""
        state = chain.state
        shared = np.einsum("pk,pk->p", state.Z[self._pairs[:, 0]], state.Z[self._pairs[:, 1]], dtype=np.int64)
        if chain is not self._chain:
            self.follow(chain)
        tallies = self._tallies(chain)
        rates = {}
        for name, (accepted, proposed) in tallies.items():
            before = self.tallies.get(name, (0, 0))
            num_proposed = proposed - before[1]
            rates[f"acceptance_{name}"] = (accepted - before[0]) / num_proposed if num_proposed else np.nan
        self.tallies = tallies
        self._states.append(state)
        self.num_bytes += state.Z.nbytes + sum(np.asarray(value).nbytes for value in state.parameters.values())
        used = int(np.count_nonzero(state.Z.any(axis=0)))
        numbers = {"lp": chain.log_density(), "time": seconds, "used_features": used, "shared_features": shared}
        self._stats.append(numbers | rates)

    @staticmethod
    def _tallies(chain: Chain) -> dict[str, tuple[int, int]]:
        tallies = {name: (size.num_accepted, size.num_proposed) for name, size in chain.step_sizes.items()}
        if chain.prior.grows:
            tallies["singletons"] = (chain.num_singletons_accepted, chain.num_singleton_proposals)
        return {name: tally for name, tally in tallies.items() if tally[1] > 0 or name == "singletons"}

    def take(self) -> Segment:
        """All draws since the last call, padded to their largest number of features; the recorder is empty then."""
        states, stats = self._states, self._stats
        self._states, self._stats, self.num_bytes = [], [], 0
        num_features = np.array([state.num_features for state in states], dtype=np.int64)
        width = int(num_features.max(initial=0))
        segment: Segment = {
            "Z": stack_padded([state.Z for state in states], (1,), width),
            "num_features": num_features,
            "alpha": np.array([state.alpha for state in states]),
        }
        for name in states[0].parameters:
            segment[name] = stack_padded([state.parameters[name] for state in states], self._axes.get(name, ()), width)
        for name in {name for entry in stats for name in entry}:
            shape = np.shape(stats[-1].get(name, np.nan))
            segment[f"stat_{name}"] = np.array([entry.get(name, np.full(shape, np.nan)) for entry in stats])
        return segment


def stack_padded(values: list[Any], axes: tuple[int, ...], width: int) -> NDArray[Any]:
    """Stack arrays whose `axes` run over features, padded there: zeros in Z, NaN in what no feature has."""
    first = np.asarray(values[0])
    if not axes:
        return np.stack([np.asarray(value) for value in values])
    shape = [width if axis in axes else size for axis, size in enumerate(first.shape)]
    stacked = np.full((len(values), *shape), np.nan if first.dtype.kind == "f" else 0, dtype=first.dtype)
    for i, value in enumerate(values):
        corner: tuple[Any, ...] = (i, *(slice(0, size) for size in np.shape(value)))
        stacked[corner] = value
    return stacked


def widen(values: Any, axes: tuple[int, ...], width: int) -> Any:
    """Pad the feature axes of a stack (in memory or lazy) to a common width."""
    if not axes or all(values.shape[axis + 1] == width for axis in axes):
        return values
    pads = [(0, width - size if axis - 1 in axes else 0) for axis, size in enumerate(values.shape)]
    fill = np.nan if values.dtype.kind == "f" else 0
    if isinstance(values, np.ndarray):
        return np.pad(values, pads, constant_values=fill)
    import dask.array as lazy

    if values.size == 0:  # without any feature there is nothing to pad, which Dask divides by
        shape = [size + after for size, (_, after) in zip(values.shape, pads)]
        return lazy.full(shape, fill, dtype=values.dtype)
    return lazy.pad(values, pads, constant_values=fill)


def feature_axes_of_draws(axes: FeatureAxes) -> dict[str, tuple[int, ...]]:
    """The axes over features of every recorded variable, Z included."""
    return {"Z": (1,), **axes}
