"""Exchange of singletons for columns of a few other rows, with all that the row shares laid out anew.

Two rows that alone have a feature often end with a singleton each, which takes up part of what they share with
everybody else. To meet in one column both rows must change several entries at once, and the
values of the column, known from one or two rows with holes, must suit them both. So here these values are integrated
out, and whether the row joins the column is decided last, for every vector that a particle filter has kept so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa._compile import compiled, implements
from pgfa.columns import LEAST_POWER, ColumnView, draw_number_of_moves, read_residual
from pgfa.rows import flip, flipped, spawn, start
from pgfa.samplers.base import shuffle, update_row
from pgfa.samplers.discrete_particle_filter import DiscreteParticleFilter
from pgfa.state import State, add_features, drop_unused_features

if TYPE_CHECKING:
    from pgfa.models.base import Model
    from pgfa.priors.base import Prior

#: Columns without owner that are laid in store for new singletons.
_SPARE = 2


@dataclass(frozen=True)
class SingletonExchange:
    """Let rows give a singleton up for a column that a few other rows own, or the reverse.

    Parameters
    ----------
    num_particles
        Particles of the filter that lays out what the row shares with others.
    rate
        How many columns an iteration tries; a fraction is the probability of one more.
    most_owners
        Columns with more other owners than this are left to the row sweeps: their values are well known.

    Notes
    -----
    A column is chosen among those in use, and each row in turn that owns it or has a singleton is updated. What is held
    is the number of singletons of the row, plus one if it owns the column; the values of all of these are integrated
    out, and drawn anew afterwards. The choice of the column depends on how many are in use, which the odds pay for.
    It takes models whose data are Gaussian in the values of the features, like `LinearGaussian`.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> chain = pgfa.Chain(
    ...     pgfa.LinearGaussian(X), pgfa.IndianBuffet(), column_moves=[pgfa.SingletonExchange()], seed=1
    ... )
    >>> chain.step(5)
    """

    num_particles: int = 20
    rate: float = 10.0
    most_owners: int = 5

    def __post_init__(self) -> None:
        checks.whole("num_particles", self.num_particles, at_least=2)
        checks.positive("rate", self.rate)
        checks.whole("most_owners", self.most_owners, at_least=1)

    def apply(self, model: Model, prior: Prior, state: State, rng: np.random.Generator, power: float) -> State:
        """Make the moves of one iteration."""
        if power < LEAST_POWER:
            return state
        log_odds = prior.log_odds(state.num_rows, state.alpha)
        log_rate, _ = prior.singleton_rate(state.num_rows, state.alpha)
        owners = state.Z.sum(axis=0, dtype=np.int64)
        workspace = None
        for _ in range(draw_number_of_moves(self.rate, rng)):
            used = np.flatnonzero(owners)
            if used.size == 0:
                break
            column = int(rng.choice(used))
            row = 0
            while row < state.num_rows and 0 < owners[column] <= self.most_owners + 1:
                if prior.grows and owners.all():
                    state = add_features(state, model.feature_axes, _SPARE)
                    owners = np.append(owners, np.zeros(_SPARE, dtype=np.int64))
                    workspace = None
                if workspace is None:
                    rows = _make_rows(model.column_view(state.parameters, power))
                    kernel = DiscreteParticleFilter(self.num_particles).make_kernel(rows, state.num_features)
                    workspace = kernel, rows
                row = exchange(
                    *workspace, state.Z, owners, log_odds, column, row, log_rate, not prior.grows, self.most_owners,
                    rng,
                )  # fmt: skip
        return drop_unused_features(state, model.feature_axes) if prior.grows else state


class ExchangeRows(NamedTuple):
    """One row and one column, whose values are integrated out together with those of the row's singletons.

    The residual of the row without them is Normal in each dimension: with mean zero where the row does not own the
    column and with `joined_mean` where it does. Precisions are zero where the row is missing. `normaliser` has their
    logarithms summed, and `column` and `variance` (that of the column's values given its other owners) describe the
    column. `residual` and `is_observed` are memory for the rows of its other owners.
    """

    data: ColumnView
    centred: NDArray[np.float64]
    apart_precision: NDArray[np.float64]
    joined_precision: NDArray[np.float64]
    joined_mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    normaliser: NDArray[np.float64]
    column: NDArray[np.int64]
    residual: NDArray[np.float64]
    is_observed: NDArray[np.float64]

    def make_block(self, num_particles: int) -> NDArray[np.float64]:
        # Residuals, and last whether the row owns the column.
        return np.empty((num_particles, self.centred.size + 1))


def _make_rows(view: ColumnView) -> ExchangeRows:
    num_dims = view.V.shape[1]
    return ExchangeRows(
        view,
        centred=np.zeros(num_dims),
        apart_precision=np.zeros(num_dims),
        joined_precision=np.zeros(num_dims),
        joined_mean=np.zeros(num_dims),
        variance=np.zeros(num_dims),
        normaliser=np.zeros(2),
        column=np.zeros(1, dtype=np.int64),
        residual=np.zeros(num_dims),
        is_observed=np.zeros(num_dims),
    )


@compiled(liberty="arithmetic", allocates=False)
def _log_likelihood(rows, particle, k, step, joined):  # type: ignore[no-untyped-def]
    """Log likelihood of a particle with the values of column k taken off `step` times."""
    total = 0.0
    if joined == 1.0:
        for d in range(rows.centred.size):
            surprise = particle[d] - step * rows.data.V[k, d] - rows.joined_mean[d]
            total += rows.joined_precision[d] * surprise * surprise
        return 0.5 * (rows.normaliser[1] - total)
    for d in range(rows.centred.size):
        surprise = particle[d] - step * rows.data.V[k, d]
        total += rows.apart_precision[d] * surprise * surprise
    return 0.5 * (rows.normaliser[0] - total)


@implements(start, ExchangeRows, liberty="arithmetic", allocates=False)
def _start(rows, n, z, block):  # type: ignore[no-untyped-def]
    num_dims = rows.centred.size
    for d in range(num_dims):
        block[0, d] = rows.centred[d]
    for k in range(z.size):
        if z[k] == 1 and k != rows.column[0]:
            for d in range(num_dims):
                block[0, d] -= rows.data.V[k, d]
    block[0, num_dims] = z[rows.column[0]]
    return _log_likelihood(rows, block[0], 0, 0.0, block[0, num_dims])


@implements(flipped, ExchangeRows, allocates=False)
def _flipped(rows, n, k, sign, block, log_lik, count, out):  # type: ignore[no-untyped-def]
    num_dims = rows.centred.size
    for i in range(count):
        if k == rows.column[0]:
            out[i] = _log_likelihood(rows, block[i], k, 0.0, block[i, num_dims] + sign)
        else:
            out[i] = _log_likelihood(rows, block[i], k, sign, block[i, num_dims])


@implements(flip, ExchangeRows, allocates=False)
def _flip(rows, n, k, sign, block):  # type: ignore[no-untyped-def]
    _change(rows, k, sign, block[0])


@implements(spawn, ExchangeRows, allocates=False)
def _spawn(rows, n, k, sign, block, parents, flips, count, out):  # type: ignore[no-untyped-def]
    for i in range(count):
        for d in range(block.shape[1]):
            out[i, d] = block[parents[i], d]
        if flips[i] == 1:
            _change(rows, k, sign, out[i])


@compiled(liberty="arithmetic", allocates=False)
def _change(rows, k, sign, particle):  # type: ignore[no-untyped-def]
    num_dims = rows.centred.size
    if k == rows.column[0]:
        particle[num_dims] += sign
    else:
        for d in range(num_dims):
            particle[d] -= sign * rows.data.V[k, d]


@compiled
def exchange(kernel, rows, Z, owners, log_odds_table, column, first_row, log_rate, is_finite, most_owners, rng):  # type: ignore[no-untyped-def]
    """Update the rows from `first_row` on that own the column or have a singleton; Z, owners and V change in place.

    Parameters
    ----------
    log_rate
        Log odds or logarithm of the rate of singletons: see `Prior.singleton_rate`.
    is_finite
        Whether the number of columns is fixed.

    Returns
    -------
    The row that would be next: one in the middle, where no column without owner is left for a new singleton.
    """
    num_rows, num_columns = Z.shape
    columns = np.empty(num_columns, dtype=np.int64)
    log_odds = np.empty(num_columns)
    singletons = np.empty(num_columns, dtype=np.int64)
    before = np.empty(num_columns, dtype=Z.dtype)
    rows.column[0] = column
    for n in range(first_row, num_rows):
        z = Z[n]
        others = owners[column] - z[column]
        if others < 1 or others > most_owners:
            continue
        count = 0
        spare = -1
        num_empty = 0
        for k in range(num_columns):
            if owners[k] == 0:
                # Any of them with the same probability: under a finite prior each column has its place.
                num_empty += 1
                if rng.random() * num_empty < 1.0:
                    spare = k
            elif owners[k] == 1 and z[k] == 1:
                singletons[count] = k
                count += 1
        num_used = num_columns - num_empty
        held = count + z[column]
        if held == 0:
            continue
        if spare < 0 and not is_finite:
            return n
        # Columns that a last singleton may be in, given the others.
        choices = num_empty + count - (held - 1) if is_finite else 1
        if choices == 0:
            continue

        free = 0
        for k in range(num_columns):
            before[k] = z[k]
            others = owners[k] - z[k]
            if others > 0:
                log_odds[k] = log_odds_table[others]
                if k != column:
                    columns[free] = k
                    free += 1
        shuffle(columns, free, rng)
        columns[free] = column
        # One singleton fewer, among `held` by the prior, and one column fewer to choose from.
        used_if_joined = num_used - (1 - z[column])
        log_odds[column] += np.log(held / choices) - log_rate + np.log((used_if_joined + 1) / used_if_joined)
        for i in range(count):
            z[singletons[i]] = 0
        _read_column(rows, Z, n)
        _read_row(rows, n, held)
        update_row(kernel, rows, n, z, log_odds, columns, free + 1, 1.0, rng)

        if z[column] > before[column]:
            shuffle(singletons, count, rng)
            count -= 1
            _draw_from_prior(rows, singletons[count], rng)
        elif z[column] < before[column]:
            singletons[count] = spare
            count += 1
        for i in range(count):
            z[singletons[i]] = 1
        for k in range(num_columns):
            owners[k] += np.int64(z[k]) - np.int64(before[k])
        _draw_values(rows, n, z, singletons[:count], rng)
    return num_rows


@compiled(allocates=False)
def _draw_from_prior(rows, k, rng):  # type: ignore[no-untyped-def]
    """Draw the values of a column that nobody owns any more."""
    for d in range(rows.centred.size):
        rows.data.V[k, d] = rng.standard_normal() / np.sqrt(rows.data.tau_v)


@compiled(allocates=False)
def _read_column(rows, Z, n):  # type: ignore[no-untyped-def]
    """Posterior of the column's values given its owners other than row n."""
    data, column = rows.data, rows.column[0]
    num_dims = rows.centred.size
    mean, variance = rows.joined_mean, rows.variance
    # Until the end, the precision and the precision times the mean.
    for d in range(num_dims):
        variance[d] = data.tau_v
        mean[d] = 0.0
    for m in range(Z.shape[0]):
        if Z[m, column] == 0 or m == n:
            continue
        read_residual(data, Z[m], rows.column, m, rows.residual, rows.is_observed)
        for d in range(num_dims):
            variance[d] += data.tau_x * rows.is_observed[d]
            mean[d] += data.tau_x * rows.residual[d]
    for d in range(num_dims):
        variance[d] = 1.0 / variance[d]
        mean[d] *= variance[d]


@compiled(allocates=False)
def _read_row(rows, n, held):  # type: ignore[no-untyped-def]
    """Residual of row n before any feature, and the precisions with which the row sees it."""
    data = rows.data
    rows.normaliser[0] = 0.0
    rows.normaliser[1] = 0.0
    first, last = data.table.row_start[n], data.table.row_start[n + 1]
    apart = 1.0 / data.tau_x + held / data.tau_v
    for d in range(rows.centred.size):
        if first < last and data.table.missing_in_row[first] == d:
            first += 1
            rows.centred[d] = 0.0
            rows.apart_precision[d] = 0.0
            rows.joined_precision[d] = 0.0
            continue
        joined = apart - 1.0 / data.tau_v + rows.variance[d]
        rows.centred[d] = data.table.X[n, d] - data.intercept[d]
        rows.apart_precision[d] = 1.0 / apart
        rows.joined_precision[d] = 1.0 / joined
        rows.normaliser[0] -= np.log(apart)
        rows.normaliser[1] -= np.log(joined)


@compiled(allocates=False)
def _draw_values(rows, n, z, singletons, rng):  # type: ignore[no-untyped-def]
    """Draw the values of the column and of the singletons given the row: their priors, moved by what the row says."""
    data, column = rows.data, rows.column[0]
    spread = 1.0 / data.tau_v
    for d in range(rows.centred.size):
        surprise = rows.centred[d] - np.sqrt(1.0 / data.tau_x) * rng.standard_normal()
        data.V[column, d] = rows.joined_mean[d] + np.sqrt(rows.variance[d]) * rng.standard_normal()
        for k in singletons:
            data.V[k, d] = np.sqrt(spread) * rng.standard_normal()
        for k in range(z.size):
            if z[k] == 1:
                surprise -= data.V[k, d]
        precision = rows.joined_precision[d] if z[column] == 1 else rows.apart_precision[d]
        if z[column] == 1:
            data.V[column, d] += rows.variance[d] * precision * surprise
        for k in singletons:
            data.V[k, d] += spread * precision * surprise
