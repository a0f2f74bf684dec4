"""All owners of a column flip another column together, with the values of the first integrated out.

What two or three rows alone have in common can be told in two ways: as it is, beside a feature that all of them own, or
with the values of that feature added to it and without the feature. No row can pass from one to the other by itself,
because the values of the column must suit the other owners too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pgfa import checks
from pgfa._compile import compiled
from pgfa.columns import LEAST_POWER, draw_number_of_moves, read_residual

if TYPE_CHECKING:
    from pgfa.models.base import Model
    from pgfa.priors.base import Prior
    from pgfa.state import State


@dataclass(frozen=True)
class JointFlip:
    """Let all owners of a column take up another one at once, or give it up.

    Parameters
    ----------
    rate
        How many columns an iteration tries, each with all others; a fraction is the probability of one more.
    most_owners
        Columns with more owners than this are left out: so many rows hardly ever agree.

    Notes
    -----
    A column is chosen among those in use. Every other one that all of its owners have, or none of them, is flipped for
    them or not, as the posterior has it with the values of the column integrated out; these are drawn anew at the end.
    Columns that nobody else owns are left alone, so that those in use stay the same. It takes models whose data are
    Gaussian in the values of the features, like `LinearGaussian`.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.IndianBuffet(), column_moves=[pgfa.JointFlip()], seed=1)
    >>> chain.step(5)
    """

    rate: float = 10.0
    most_owners: int = 10

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)
        checks.whole("most_owners", self.most_owners, at_least=1)

    def apply(self, model: Model, prior: Prior, state: State, rng: np.random.Generator, power: float) -> State:
        """Make the moves of one iteration."""
        if power < LEAST_POWER:
            return state
        used = np.flatnonzero(state.Z.any(axis=0))
        if used.size < 2:
            return state
        log_mass = prior.log_column_mass(state.num_rows, state.alpha)
        columns = rng.choice(used, size=draw_number_of_moves(self.rate, rng))
        flip_together(model.column_view(state.parameters, power), state.Z, columns, log_mass, self.most_owners, rng)
        return state


@compiled
def flip_together(view, Z, columns, log_mass, most_owners, rng):  # type: ignore[no-untyped-def]
    """Flip other columns for the owners of each of these columns; Z and V change in place."""
    num_dims = view.V.shape[1]
    owners = np.empty(most_owners, dtype=np.int64)
    residual = np.empty(num_dims)
    is_observed = np.empty(num_dims)
    num_observed = np.empty(num_dims)
    total = np.empty(num_dims)
    counts = np.zeros(Z.shape[1], dtype=np.int64)
    for n in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            counts[k] += Z[n, k]
    for i in range(columns.size):
        column = columns[i]
        size = counts[column]
        if size > most_owners:
            continue
        _find_owners(Z, column, owners)
        num_observed[:] = 0.0
        total[:] = 0.0
        for j in range(size):
            n = owners[j]
            read_residual(view, Z[n], columns[i : i + 1], n, residual, is_observed)
            for d in range(num_dims):
                num_observed[d] += is_observed[d]
                total[d] += residual[d]
        for k in range(Z.shape[1]):
            have = 0
            for j in range(size):
                have += Z[owners[j], k]
            if k == column or counts[k] == have or (have > 0 and have < size):
                continue
            sign = 1 - 2 * Z[owners[0], k]
            after = counts[k] + sign * size
            gain = log_mass[after] - log_mass[counts[k]] + _gain_in_evidence(view, k, sign, num_observed, total)
            if np.log(rng.random()) < -np.log1p(np.exp(-gain)):
                counts[k] = after
                for j in range(size):
                    Z[owners[j], k] = 1 - Z[owners[j], k]
                for d in range(num_dims):
                    total[d] -= sign * num_observed[d] * view.V[k, d]
        for d in range(num_dims):
            precision = view.tau_v + view.tau_x * num_observed[d]
            view.V[column, d] = view.tau_x * total[d] / precision + rng.standard_normal() / np.sqrt(precision)


@compiled(allocates=False)
def _find_owners(Z, column, owners):  # type: ignore[no-untyped-def]
    count = 0
    for n in range(Z.shape[0]):
        if Z[n, column] == 1:
            owners[count] = n
            count += 1


@compiled(allocates=False)
def _gain_in_evidence(view, k, sign, num_observed, total):  # type: ignore[no-untyped-def]
    """Of a column whose owners have these residuals in total, if all of them take column k up (or give it up)."""
    gain = 0.0
    for d in range(total.size):
        step = sign * view.V[k, d]
        # The sum of squared residuals, and its part that the column explains.
        gain += step * (total[d] - 0.5 * num_observed[d] * step)
        explained = view.tau_x / (view.tau_v + view.tau_x * num_observed[d])
        rest = total[d] - num_observed[d] * step
        gain += 0.5 * explained * (rest * rest - total[d] * total[d])
    return view.tau_x * gain
