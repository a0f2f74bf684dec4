"""What draws of the PyClone model say of populations and mutations, in tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa.state import State, iterate_states

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PopulationSummary:
    """Populations and mutations over many draws.

    Attributes
    ----------
    cellular_prevalence
        For each mutation and sample the share of tumour cells that carry the mutation: mutation_id, sample_id, mean,
        lower, upper.
    population_prevalence
        For each population and sample its share of the tumour cells: population, sample_id, mean, lower, upper.
    carriers
        For each mutation and population the probability that the population carries the mutation: mutation_id,
        population, probability.
    allocation
        Table of zeros and ones, mutations by populations: where that probability is above one half.
    notes
        What was merged, what was left out and why.
    """

    cellular_prevalence: pd.DataFrame
    population_prevalence: pd.DataFrame
    carriers: pd.DataFrame
    allocation: pd.DataFrame
    notes: list[str]

    @property
    def Z(self) -> NDArray[np.uint8]:
        """The allocation as a matrix, mutations in the order of the model's rows."""
        return self.allocation.to_numpy(dtype=np.uint8)


def shares_of(V: Floats) -> Floats:
    """F = V divided by the sums of its columns; no rows where V has none."""
    return V / V.sum(axis=0) if V.shape[0] else V


def merge_same_columns(state: State) -> State:
    """Make columns of Z that are the same one, with what they have added up; in order of first appearance.

    Columns that nobody owns are the same as well: one of them is left, if there are any.
    """
    if state.num_features == 0:
        return state.copy()
    columns, first, group = np.unique(state.Z, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    V = np.zeros((columns.shape[1], state.parameters["V"].shape[1]))
    np.add.at(V, group.ravel(), state.parameters["V"])
    merged = state.copy()
    merged.Z = np.ascontiguousarray(columns[:, order])
    merged.parameters["V"] = V[order]
    return merged


def _match(Z: NDArray[np.uint8], reference: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of columns of Z and of the reference such that, in all, they differ as little as possible."""
    from scipy.optimize import linear_sum_assignment

    Z = Z.astype(float)
    distance = Z.sum(axis=0)[:, np.newaxis] + reference.sum(axis=0) - 2.0 * Z.T @ reference
    # A reference of probabilities: the expected number of differences, for entries on and off.
    return linear_sum_assignment(distance)


def align(states: list[State]) -> tuple[NDArray[np.uint8], Floats]:
    """Z of shape (draws, N, K) and F of shape (draws, K, M), columns of all draws in the order of a typical one.

    The typical draw is, among those with the commonest number of columns, the one nearest to the mean of all once they
    have been matched to the last of them. Columns of a draw beyond those matched are left out, and a draw with fewer
    has zeros.
    """
    sizes = np.array([state.num_features for state in states])
    commonest = np.bincount(sizes).argmax()
    candidates = [state for state in states if state.num_features == commonest]
    reference = candidates[-1].Z
    if commonest > 0:
        matched = [state.Z[:, _order(state.Z, reference)] for state in candidates]
        mean = np.mean(matched, axis=0)
        reference = matched[int(np.argmin([np.sum((Z - mean) ** 2) for Z in matched]))]
    num_rows, num_samples = states[0].num_rows, states[0].parameters["V"].shape[1]
    Z = np.zeros((len(states), num_rows, commonest), dtype=np.uint8)
    F = np.zeros((len(states), commonest, num_samples))
    for i, state in enumerate(states):
        own, other = _match(state.Z, reference.astype(float))
        Z[i][:, other] = state.Z[:, own]
        F[i][other] = shares_of(state.parameters["V"])[own]
    return Z, F


def _order(Z: NDArray[np.uint8], reference: NDArray[np.uint8]) -> NDArray[np.intp]:
    own, other = _match(Z, reference.astype(float))
    return own[np.argsort(other)]


def summarise(
    mutation_ids: list[Any], sample_ids: list[Any], draws: Any, level: float, min_prevalence: float
) -> PopulationSummary:
    """Tables of what the draws say; see `PyClone.summarise`."""
    import pandas as pd

    if not 0.0 < checks.real("level", level) < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    checks.unit_interval("min_prevalence", min_prevalence)
    states = list(iterate_states(draws, {"V": (0,)}))
    tails = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
    notes: list[str] = []

    Z, F = align(states)
    probability = Z.mean(axis=0) if len(Z) else np.zeros(Z.shape[1:])
    groups = _group(probability > 0.5, F, min_prevalence, notes)
    num_left_out = sum(state.num_features for state in states) - sum(min(s.num_features, Z.shape[2]) for s in states)
    if num_left_out:
        notes.append(
            f"{num_left_out / len(states):.2g} populations a draw were not matched with any of the typical draw's "
            "and are left out"
        )
    shares = np.stack([F[:, group].sum(axis=1) for group in groups], axis=1) if groups else F[:, :0]
    carried = (
        np.stack([probability[:, group].mean(axis=1) for group in groups], axis=1) if groups else probability[:, :0]
    )
    by_share = np.argsort(-shares.mean(axis=(0, 2))) if groups else np.zeros(0, dtype=int)
    shares, carried = shares[:, by_share], carried[:, by_share]
    populations = np.arange(1, shares.shape[1] + 1)

    return PopulationSummary(
        cellular_prevalence=_prevalence_table(mutation_ids, sample_ids, states, tails),
        population_prevalence=pd.DataFrame(
            {
                "population": np.repeat(populations, len(sample_ids)),
                "sample_id": list(sample_ids) * populations.size,
                **_moments(shares.reshape(len(states), -1), tails),
            }
        ),
        carriers=pd.DataFrame(
            {
                "mutation_id": [mutation for mutation in mutation_ids for _ in populations],
                "population": np.tile(populations, len(mutation_ids)),
                "probability": carried.ravel(),
            }
        ),
        allocation=pd.DataFrame(
            (carried > 0.5).astype(np.uint8), index=pd.Index(mutation_ids, name="mutation_id"), columns=populations
        ),
        notes=notes,
    )


def _group(allocation: NDArray[np.bool_], F: Floats, min_prevalence: float, notes: list[str]) -> list[list[int]]:
    """Populations to report, each a list of columns that carry the same mutations."""
    mean = F.mean(axis=0)
    groups: dict[bytes, list[int]] = {}
    empty, rare = [], []
    for k in range(allocation.shape[1]):
        if not allocation[:, k].any():
            empty.append(k)
        elif mean[k].max(initial=0.0) < min_prevalence:
            rare.append(k)
        else:
            groups.setdefault(allocation[:, k].tobytes(), []).append(k)
    if empty:
        share = mean[empty].sum(axis=0).max(initial=0.0)
        notes.append(
            f"{_many(len(empty))} most likely without any mutation left out; together at most {share:.1%} of a sample"
        )
    if rare:
        share = mean[rare].sum(axis=0).max(initial=0.0)
        notes.append(
            f"{_many(len(rare))} below {min_prevalence:.1%} of every sample left out; "
            f"together at most {share:.1%} of a sample"
        )
    merged = [group for group in groups.values() if len(group) > 1]
    if merged:
        sizes = " and ".join(str(len(group)) for group in merged)
        notes.append(f"populations that carry the same mutations merged: {sizes} into one each")
    return list(groups.values())


def _many(count: int) -> str:
    return "1 population" if count == 1 else f"{count} populations"


def _moments(values: Floats, tails: tuple[float, float]) -> dict[str, Floats]:
    """Mean and interval over the first axis."""
    lower, upper = np.quantile(values, tails, axis=0)
    return {"mean": values.mean(axis=0), "lower": lower, "upper": upper}


def _prevalence_table(
    mutation_ids: list[Any], sample_ids: list[Any], states: list[State], tails: tuple[float, float]
) -> pd.DataFrame:
    import pandas as pd

    shape = (len(mutation_ids), len(sample_ids))
    columns = {name: np.empty(shape) for name in ("mean", "lower", "upper")}
    shares = [shares_of(state.parameters["V"]) for state in states]
    # One sample at a time, so that long runs of many mutations fit into memory.
    for m in range(shape[1]):
        values = np.array([state.Z @ F[:, m] for state, F in zip(states, shares)], dtype=np.float32)
        for name, column in _moments(np.clip(values, 0.0, 1.0), tails).items():
            columns[name][:, m] = column
    return pd.DataFrame(
        {
            "mutation_id": [mutation for mutation in mutation_ids for _ in sample_ids],
            "sample_id": list(sample_ids) * shape[0],
            **{name: column.ravel() for name, column in columns.items()},
        }
    )
