"""What many draws say together about features, which have no names of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from pgfa import checks
from pgfa.state import State

#: Draws are read from disk in pieces of about this many bytes.
_PIECE = 64_000_000


@dataclass(frozen=True)
class Summary:
    """Features of the best draw, and how far the other draws agree on them; made by `summarise`.

    Attributes
    ----------
    owners
        For each row of the data and each feature the share of draws in which the row owns the feature.
    reference
        The draw with the highest log density, its unused features left out, the feature with most owners first.
    chain, draw
        Where that draw is.
    log_density
        Its log density.
    agreement
        For each feature how alike its owners are in the reference and in the other draws: the number of rows that own
        it in both, divided by the number that own it in either, averaged over the draws. One where all draws have it
        exactly.
    agreement_by_chain
        The mean of that over the features, for each chain.
    columns
        For each chain, draw and feature the column of that draw that corresponds to it, or -1 where none does.
    duplicates
        Groups of features with exactly the same owners in the reference. Which of them is which cannot be told, so
        what is said of one of them (but not of their sum) may be said of another.
    """

    owners: pd.DataFrame
    reference: State
    chain: int
    draw: int
    log_density: float
    agreement: NDArray[np.float64]
    agreement_by_chain: NDArray[np.float64]
    columns: NDArray[np.int64]
    duplicates: list[list[str]]

    @property
    def names(self) -> list[str]:
        """F1, F2, ..."""
        return [str(name) for name in self.owners.columns]

    def mean_and_sd(self, values: xr.DataArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of a parameter over the draws, its features put in the order of the reference.

        Parameters
        ----------
        values
            A variable of the posterior with axes chain, draw and then others, of which some run over features. A draw
            without a feature has no say in the values of that feature.
        """
        over = [axis - 2 for axis, dim in enumerate(values.dims) if str(dim).startswith("feature")]
        count = mean = squares = np.zeros(())
        for c, d, drawn in _each_draw(values):
            match = self.columns[c, d]
            aligned = np.asarray(drawn, dtype=float)
            for axis in over:
                aligned = np.take(aligned, np.maximum(match, 0), axis=axis)
                shape = [1] * aligned.ndim
                shape[axis] = match.size
                aligned = np.where(np.reshape(match >= 0, shape), aligned, np.nan)
            known = ~np.isnan(aligned)
            count = count + known
            deviation = np.where(known, aligned - mean, 0.0)
            mean = mean + deviation / np.maximum(count, 1)
            squares = squares + deviation * np.where(known, aligned - mean, 0.0)
        with np.errstate(invalid="ignore"):
            return np.where(count > 0, mean, np.nan), np.sqrt(squares / np.where(count > 0, count, np.nan))


def summarise(tree: xr.DataTree, *, chains: Sequence[int] | None = None) -> Summary:
    """Say who owns which feature, over all draws.

    Feature 3 of one draw has nothing to do with feature 3 of another: the columns of Z can be exchanged at will. Here
    the features get their names from one draw, the reference: the one with the highest log density. The columns of
    each other draw are then paired with those of the reference such that as many owners as possible are the same (an
    assignment problem, solved by the Hungarian method; the pairing also minimises the number of entries in which the
    two matrices differ, a feature without partner counting as owned by nobody in the other draw). What is averaged
    over draws, such as the probability that a row owns a feature, is averaged over features paired in this way.

    That is a description of the draws near one explanation of the data. Where chains have found different
    explanations the probabilities mix them: `agreement_by_chain` shows it, and `chains` restricts the summary.
    Quantities that need no names (how many features two rows share, predictions of the data) are safer to average.

    Parameters
    ----------
    tree
        Draws, from `pgfa.sample` or `pgfa.resume`.
    chains
        Labels of the chains to look at; all unless given.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> from pgfa.summary import summarise
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([[5.0, 0, 0], [0, 5, 0]], 10, axis=0) + 0.1 * rng.normal(size=(20, 3))
    >>> fit = pgfa.sample(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(2), draws=50, warmup=50, chains=2, seed=1,
    ...                   progress=False, check=False)
    >>> summarise(fit).owners.shape
    (20, 2)
    """
    checks.draws("tree", tree)
    posterior, stats = tree["posterior"].dataset, tree["sample_stats"].dataset
    kept = choose_chains(posterior, chains)
    lp = np.asarray(stats["lp"].values, dtype=float)[kept]
    best = np.unravel_index(int(np.argmax(np.where(np.isnan(lp), -np.inf, lp))), lp.shape)
    c, draw = int(kept[best[0]]), int(best[1])
    reference = _order_by_owners(_state(posterior, c, draw), posterior)
    columns = np.full((*lp.shape, reference.num_features), -1, dtype=np.int64)
    shared = np.zeros((reference.num_rows, reference.num_features))
    likeness = np.zeros(columns.shape)
    Z_reference = reference.Z.astype(np.float32)
    in_reference = Z_reference.sum(axis=0)
    num_features = posterior["num_features"].values[kept]
    for i, j, Z in _each_draw(posterior["Z"].isel(chain=kept)):
        drawn = Z[:, : num_features[i, j]].astype(np.float32)
        match, overlap = _match(Z_reference, drawn)
        columns[i, j] = match
        found = match >= 0
        shared[:, found] += drawn[:, match[found]]
        union = in_reference[found] + drawn[:, match[found]].sum(axis=0) - overlap[found]
        likeness[i, j, found] = overlap[found] / union
    names = [f"F{k + 1}" for k in range(reference.num_features)]
    labels = posterior["row"].values if "row" in posterior.coords else np.arange(1, reference.num_rows + 1)
    owners = pd.DataFrame(shared / lp.size, index=pd.Index(list(labels), dtype=object), columns=names)
    by_chain = likeness.mean(axis=(1, 2)) if names else np.ones(len(kept))
    whole = np.full((posterior.sizes["chain"], *columns.shape[1:]), -1, dtype=np.int64)
    whole[kept] = columns
    return Summary(
        owners=owners,
        reference=reference,
        chain=int(posterior["chain"].values[c]),
        draw=draw,
        log_density=float(lp[best]),
        agreement=likeness.mean(axis=(0, 1)),
        agreement_by_chain=by_chain,
        columns=whole,
        duplicates=_duplicates(reference.Z, names),
    )


def states_of(tree: xr.DataTree, *, chains: Sequence[int] | None = None, at_most: int | None = None) -> Iterator[State]:
    """The draws as states, one after the other; `at_most` so many, evenly spaced.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> from pgfa.summary import states_of
    >>> model = pgfa.LinearGaussian(np.random.default_rng(0).normal(size=(20, 3)))
    >>> fit = pgfa.sample(model, pgfa.IndianBuffet(), draws=20, warmup=20, chains=2, seed=1,
    ...                   progress=False, check=False)
    >>> model.impute(states_of(fit, at_most=10)).shape
    (20, 3)
    """
    posterior = tree["posterior"].dataset
    kept = choose_chains(posterior, chains)
    places = [(int(c), d) for c in kept for d in range(posterior.sizes["draw"])]
    if at_most is not None and len(places) > at_most:
        places = [places[i] for i in np.linspace(0, len(places) - 1, at_most).round().astype(int)]
    for c, d in places:
        yield _state(posterior, c, d)


def choose_chains(posterior: xr.Dataset, chains: Sequence[int] | None) -> NDArray[np.int64]:
    """Places of chains, given by their labels, among those of the posterior."""
    labels = [int(label) for label in posterior["chain"].values]
    if chains is None:
        return np.arange(len(labels))
    unknown = [chain for chain in chains if chain not in labels]
    if unknown or not list(chains):
        known = ", ".join(map(str, labels))
        raise ValueError(f"chains must be among {known}, got {', '.join(map(str, unknown)) or 'none'}")
    return np.array([labels.index(chain) for chain in dict.fromkeys(chains)])


def _each_draw(values: xr.DataArray) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Chain, draw and values, read piece by piece where they are on disk."""
    num_chains, num_draws = values.shape[:2]
    size = max(1, int(np.prod(values.shape[2:]))) * values.dtype.itemsize
    length = max(1, _PIECE // size)
    for c in range(num_chains):
        for start in range(0, num_draws, length):
            piece = values[c, start : start + length].values
            for i in range(piece.shape[0]):
                yield c, start + i, piece[i]


def _state(posterior: xr.Dataset, c: int, d: int) -> State:
    drawn = posterior.isel(chain=c, draw=d)
    K = int(drawn["num_features"])
    parameters: dict[str, Any] = {}
    for name, values in drawn.data_vars.items():
        if name not in ("Z", "num_features", "alpha"):
            own = values.isel({dim: slice(0, K) for dim in values.dims if str(dim).startswith("feature")}).values
            parameters[str(name)] = np.array(own) if own.ndim else own.item()
    return State(np.array(drawn["Z"].values[:, :K]), float(drawn["alpha"]), parameters)


def _order_by_owners(state: State, posterior: xr.Dataset) -> State:
    """The features in use, the one with most owners first; ties in the order of their first owners."""
    owners = state.Z.sum(axis=0, dtype=np.int64)
    used = [k for k in range(state.num_features) if owners[k]]
    order = np.array(sorted(used, key=lambda k: (-owners[k], np.flatnonzero(state.Z[:, k]).tolist())), dtype=np.intp)
    parameters = dict(state.parameters)
    for name, value in parameters.items():
        for axis, dim in enumerate(posterior[name].dims[2:]):
            if str(dim).startswith("feature"):
                value = np.take(value, order, axis=axis)
        parameters[name] = value
    return State(np.ascontiguousarray(state.Z[:, order]), state.alpha, parameters)


def _match(reference: NDArray[np.float32], drawn: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For each column of the reference its partner, or -1, and how many owners they share."""
    from scipy.optimize import linear_sum_assignment

    overlap = np.asarray(reference.T @ drawn, dtype=float)
    match = np.full(reference.shape[1], -1, dtype=np.int64)
    common = np.zeros(reference.shape[1])
    # Where columns differ in |A| + |B| - 2 |A and B| rows, the most alike are those with most owners in common;
    # partners that share nobody are as good as none.
    for k, other in zip(*linear_sum_assignment(overlap, maximize=True)):
        if overlap[k, other] > 0.0:
            match[k], common[k] = other, overlap[k, other]
    return match, common


def _duplicates(Z: NDArray[np.uint8], names: list[str]) -> list[list[str]]:
    groups: dict[bytes, list[str]] = {}
    for k, name in enumerate(names):
        groups.setdefault(Z[:, k].tobytes(), []).append(name)
    return [group for group in groups.values() if len(group) > 1]
