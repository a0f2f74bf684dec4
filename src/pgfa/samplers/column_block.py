"""Column moves: particle Gibbs over rows, for a few columns at a time, with their values integrated out.

Row updates, however good, keep the columns that they are given. Chains from the prior often end with columns that are
sums, differences or shares of the true ones, and no row at a time can repair that. The move here takes up to three
columns, forgets their values, and lays out all of their entries anew, row after row, with a discrete particle filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from pgfa import checks
from pgfa._compile import compiled
from pgfa.columns import LEAST_POWER, draw_number_of_moves, read_residual
from pgfa.samplers.base import draw_index, exponentiate, shuffle
from pgfa.samplers.thinning import thin
from pgfa.state import State, add_features, drop_unused_features

if TYPE_CHECKING:
    from pgfa.models.base import Model
    from pgfa.priors.base import Prior

#: Particles below this share of the total weight are given up (see `thin`).
_FLOOR = float(np.log(1e-12))


@dataclass(frozen=True)
class ColumnBlock:
    """Redraw all entries of a few columns at once, with their values integrated out.

    Parameters
    ----------
    num_columns
        Columns that are moved together: 1, 2 or 3. One column can be born, die or be laid out anew; two or three can
        exchange what they hold.
    rows
        ``"all"``, or ``"users"``: only rows that own one of the columns, and that will own one of them afterwards. The
        latter needs two columns or more.
    num_particles
        Particles kept after thinning; at least 2.
    rate
        How many such moves an iteration makes; a fraction is the probability of one more.

    Notes
    -----
    Columns are chosen among those in use and one empty slot, and the choice depends on how many are in use; the weight
    of the final particles pays for that, so that the move is exact without an accept step. It takes models whose data
    are Gaussian in the values of the features, like `LinearGaussian`.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> moves = [pgfa.ColumnBlock(1, "all"), pgfa.ColumnBlock(2, "users")]
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.IndianBuffet(), column_moves=moves, seed=1)
    >>> chain.step(5)
    """

    num_columns: int = 2
    rows: str = "users"
    num_particles: int = 12
    rate: float = 1.0

    def __post_init__(self) -> None:
        if checks.whole("num_columns", self.num_columns, at_least=1) > 3:
            raise ValueError(f"num_columns must be 1, 2 or 3, got {self.num_columns}")
        checks.one_of("rows", self.rows, ("all", "users"))
        if self.rows == "users" and self.num_columns == 1:
            raise ValueError("rows='users' needs num_columns of at least 2: the users of one column all keep it")
        checks.whole("num_particles", self.num_particles, at_least=2)
        checks.positive("rate", self.rate)

    def apply(self, model: Model, prior: Prior, state: State, rng: np.random.Generator, power: float) -> State:
        """Make the moves of one iteration."""
        if power < LEAST_POWER:
            return state
        log_mass = prior.log_column_mass(state.num_rows, state.alpha)
        owners = state.Z.sum(axis=0, dtype=np.int64)
        for _ in range(draw_number_of_moves(self.rate, rng)):
            used, empty = np.flatnonzero(owners > 0), np.flatnonzero(owners == 0)
            # One empty column, whichever, stands for all of them.
            candidates = used.size + (1 if prior.grows or empty.size else 0)
            if candidates < self.num_columns:
                continue
            chosen = rng.choice(candidates, size=self.num_columns, replace=False)
            if empty.size == 0 and chosen.max() == used.size:
                state = add_features(state, model.feature_axes, 1)
                owners = np.append(owners, 0)
                empty = np.array([owners.size - 1])
            group = np.array([used[i] if i < used.size else rng.choice(empty) for i in chosen], dtype=np.int64)
            self._move(model, prior, state, group, owners, rng, power, log_mass)
            owners[group] = state.Z[:, group].sum(axis=0)
        return drop_unused_features(state, model.feature_axes) if prior.grows else state

    def _move(
        self,
        model: Model,
        prior: Prior,
        state: State,
        group: NDArray[np.int64],
        owners: NDArray[np.int64],
        rng: np.random.Generator,
        power: float,
        log_mass: NDArray[np.float64],
    ) -> None:
        if self.rows == "users":
            moved = np.flatnonzero(state.Z[:, group].any(axis=1))
        else:
            moved = np.arange(state.num_rows)
        if moved.size == 0:
            return
        num_outside = int(np.count_nonzero(owners) - np.count_nonzero(owners[group]))
        num_slots = None if prior.grows else state.num_features
        # Not the number of columns in use, which the move may change: its reverse must see the same placeholder.
        a, b = prior.placeholder(state.alpha, num_outside + self.num_columns)
        view = model.column_view(state.parameters, power)
        move_columns(
            _make_workspace(self, moved.size, *view.V.shape), view, state.Z, group, moved, self.rows == "users", a, b,
            log_mass, _log_selection(self.num_columns, num_outside, num_slots), rng,
        )  # fmt: skip


def _log_selection(size: int, num_outside: int, num_slots: int | None) -> NDArray[np.float64]:
    """Log probability of choosing these very columns, when 0, 1, ..., size of them are in use.

    `num_outside` other columns are in use. With a fixed number of columns in all (`num_slots`), the empty slot stands
    for any of those not in use; without, it is a new column.
    """
    log_prob = np.full(size + 1, -np.inf)
    for in_use in range(size + 1):
        empties = size - in_use
        num_used = num_outside + in_use
        num_empty = 1 if num_slots is None else num_slots - num_used
        offered = min(num_empty, 1)
        if empties <= offered and num_used + offered >= size:
            ways = comb(num_empty, empties) if num_slots is not None else 1.0
            log_prob[in_use] = -np.log(ways) - np.log(comb(num_used + offered, size))
    return log_prob


class Workspace(NamedTuple):
    """Memory of one move; moments are (particle, component, dimension), `history` is parent * 2^q + pattern."""

    num_particles: int
    means: NDArray[np.float64]
    next_means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    next_covariances: NDArray[np.float64]
    counts: NDArray[np.int64]
    next_counts: NDArray[np.int64]
    log_placeholder: NDArray[np.float64]
    next_log_placeholder: NDArray[np.float64]
    log_weight: NDArray[np.float64]
    child_log_weight: NDArray[np.float64]
    child_log_prior: NDArray[np.float64]
    weights: NDArray[np.float64]
    chosen: NDArray[np.int64]
    history: NDArray[np.int32]
    residual: NDArray[np.float64]
    is_observed: NDArray[np.float64]
    order: NDArray[np.int64]


def _make_workspace(block: ColumnBlock, num_rows: int, num_features: int, num_dims: int) -> Workspace:
    size = block.num_columns
    capacity = block.num_particles + 3
    children = capacity * 2**size
    pairs = size * (size + 1) // 2
    return Workspace(
        num_particles=block.num_particles,
        means=np.zeros((capacity, size, num_dims)),
        next_means=np.zeros((capacity, size, num_dims)),
        covariances=np.zeros((capacity, pairs, num_dims)),
        next_covariances=np.zeros((capacity, pairs, num_dims)),
        counts=np.zeros((capacity, size), dtype=np.int64),
        next_counts=np.zeros((capacity, size), dtype=np.int64),
        log_placeholder=np.zeros(capacity),
        next_log_placeholder=np.zeros(capacity),
        log_weight=np.zeros(capacity),
        child_log_weight=np.zeros(children),
        child_log_prior=np.zeros(children),
        weights=np.zeros(children),
        chosen=np.zeros(capacity, dtype=np.int64),
        history=np.zeros((num_rows, children), dtype=np.int32),
        residual=np.zeros(num_dims),
        is_observed=np.zeros(num_dims),
        order=np.zeros(num_rows, dtype=np.int64),
    )


@compiled
def _pair(i, j):  # type: ignore[no-untyped-def]
    """Place of entry (i, j), i >= j, of a symmetric matrix stored by its lower triangle."""
    return i * (i + 1) // 2 + j


@compiled(liberty="arithmetic")
def _log_predictive(mean, covariance, pattern, residual, is_observed, tau_x):  # type: ignore[no-untyped-def]
    """Log density of a row given the rows before it, relative to what it would be without the columns."""
    size, num_dims = mean.shape
    total = 0.0
    product = 1.0
    for d in range(num_dims):
        predicted = 0.0
        spread = 0.0
        for i in range(size):
            if (pattern >> i) & 1:
                predicted += mean[i, d]
                spread += covariance[_pair(i, i), d]
                for j in range(i):
                    if (pattern >> j) & 1:
                        spread += 2.0 * covariance[_pair(i, j), d]
        ratio = 1.0 + tau_x * spread * is_observed[d]
        surprise = residual[d] - predicted * is_observed[d]
        total += tau_x * (residual[d] * residual[d] - surprise * surprise / ratio)
        product *= ratio
        # One logarithm serves several factors, as long as their product cannot overflow.
        if product > 1e100:
            total -= np.log(product)
            product = 1.0
    return 0.5 * (total - np.log(product))


@compiled(liberty="arithmetic")
def _absorb(mean, covariance, pattern, residual, is_observed, tau_x):  # type: ignore[no-untyped-def]
    """Condition the values of the columns on one more row, in place."""
    size, num_dims = mean.shape
    for d in range(num_dims):
        if is_observed[d] == 0.0:
            continue
        g0 = 0.0
        g1 = 0.0
        g2 = 0.0
        predicted = 0.0
        for j in range(size):
            if (pattern >> j) & 1:
                predicted += mean[j, d]
                g0 += covariance[_pair(j, 0), d]
                if size > 1:
                    g1 += covariance[_pair(max(j, 1), min(j, 1)), d]
                if size > 2:
                    g2 += covariance[_pair(2, j), d]
        spread = 0.0
        for i in range(size):
            if (pattern >> i) & 1:
                spread += g0 if i == 0 else (g1 if i == 1 else g2)
        scale = tau_x / (1.0 + tau_x * spread)
        surprise = scale * (residual[d] - predicted)
        for i in range(size):
            gi = g0 if i == 0 else (g1 if i == 1 else g2)
            mean[i, d] += gi * surprise
            for j in range(i + 1):
                gj = g0 if j == 0 else (g1 if j == 1 else g2)
                covariance[_pair(i, j), d] -= scale * gi * gj


@compiled
def move_columns(work, view, Z, group, moved, never_none, a, b, log_mass, log_selection, rng):  # type: ignore[no-untyped-def]
    """Lay out the columns of `group` anew for the rows in `moved`, and draw their values; Z and V change in place.

    Parameters
    ----------
    never_none
        Whether each of these rows must end with at least one of the columns.
    a, b
        Pseudo-counts of the placeholder prior that guides the particles on their way.
    log_mass
        Log prior mass of a column with 0, 1, ..., N owners, which takes the placeholder's place at the end.
    log_selection
        Log probability of choosing this group when 0, 1, ... of its columns are in use.
    """
    size = group.size
    num_patterns = 1 << size
    num_moved = moved.size
    num_dims = view.V.shape[1]
    num_outside = Z.shape[0] - num_moved
    first_pattern = 1 if never_none else 0
    means, next_means = work.means, work.next_means
    covariances, next_covariances = work.covariances, work.next_covariances
    counts, next_counts = work.counts, work.next_counts
    log_placeholder, next_log_placeholder = work.log_placeholder, work.next_log_placeholder
    log_weight, child_log_weight = work.log_weight, work.child_log_weight
    child_log_prior = work.child_log_prior
    residual, is_observed, chosen = work.residual, work.is_observed, work.chosen

    order = work.order
    for t in range(num_moved):
        order[t] = moved[t]
    shuffle(order, num_moved, rng)

    means[0] = 0.0
    covariances[0] = 0.0
    for i in range(size):
        for d in range(num_dims):
            covariances[0, _pair(i, i), d] = 1.0 / view.tau_v
    counts[0] = 0
    log_placeholder[0] = 0.0
    log_weight[0] = 0.0
    count = 1
    kept = 0
    for t in range(num_moved):
        n = order[t]
        read_residual(view, Z[n], group, n, residual, is_observed)
        present = 0
        for i in range(size):
            present += int(Z[n, group[i]]) << i
        pretended = t + (t / num_moved) * num_outside + a + b
        # Children are laid out pattern by pattern: an order that does not depend on which particle is the kept one.
        num_children = 0
        for pattern in range(first_pattern, num_patterns):
            if pattern == present:
                kept += num_children
            for p in range(count):
                log_prior = 0.0
                for i in range(size):
                    share = (counts[p, i] + a) / pretended
                    log_prior += np.log(share) if (pattern >> i) & 1 else np.log1p(-share)
                child_log_prior[num_children] = log_prior
                gain = 0.0
                if pattern != 0:
                    gain = _log_predictive(means[p], covariances[p], pattern, residual, is_observed, view.tau_x)
                child_log_weight[num_children] = log_weight[p] + log_prior + gain
                num_children += 1

        if num_children > work.num_particles:
            survivors, kept = thin(
                child_log_weight, num_children, work.num_particles, _FLOOR, kept, rng, work.weights, chosen, log_weight
            )
        else:
            survivors = num_children
            for j in range(survivors):
                chosen[j] = j
                log_weight[j] = child_log_weight[j]
        for j in range(survivors):
            child = chosen[j]
            parent = child % count
            pattern = first_pattern + child // count
            next_means[j] = means[parent]
            next_covariances[j] = covariances[parent]
            for i in range(size):
                next_counts[j, i] = counts[parent, i] + ((pattern >> i) & 1)
            next_log_placeholder[j] = log_placeholder[parent] + child_log_prior[child]
            work.history[t, j] = parent * num_patterns + pattern
            if pattern != 0:
                _absorb(next_means[j], next_covariances[j], pattern, residual, is_observed, view.tau_x)
        count = survivors
        means, next_means = next_means, means
        covariances, next_covariances = next_covariances, covariances
        counts, next_counts = next_counts, counts
        log_placeholder, next_log_placeholder = next_log_placeholder, log_placeholder

    for p in range(count):
        in_use = 0
        log_weight[p] -= log_placeholder[p]
        for i in range(size):
            log_weight[p] += log_mass[counts[p, i]]
            in_use += 1 if counts[p, i] > 0 else 0
        log_weight[p] += log_selection[in_use]
    total, _ = exponentiate(log_weight, count, work.weights)
    final = draw_index(work.weights, count, total, rng)

    for d in range(num_dims):
        _draw_values(means[final], covariances[final], d, view.V, group, rng)
    particle = final
    for t in range(num_moved - 1, -1, -1):
        entry = work.history[t, particle]
        for i in range(size):
            Z[order[t], group[i]] = (entry >> i) & 1
        particle = entry // num_patterns


@compiled
def _draw_values(mean, covariance, d, V, group, rng):  # type: ignore[no-untyped-def]
    """Draw the values of the columns in dimension d from their Normal posterior; the Cholesky factor is written out."""
    e0 = rng.standard_normal()
    l00 = np.sqrt(max(covariance[0, d], 0.0))
    V[group[0], d] = mean[0, d] + l00 * e0
    if group.size > 1:
        e1 = rng.standard_normal()
        l10 = covariance[1, d] / l00 if l00 > 0.0 else 0.0
        l11 = np.sqrt(max(covariance[2, d] - l10 * l10, 0.0))
        V[group[1], d] = mean[1, d] + l10 * e0 + l11 * e1
        if group.size > 2:
            e2 = rng.standard_normal()
            l20 = covariance[3, d] / l00 if l00 > 0.0 else 0.0
            l21 = (covariance[4, d] - l20 * l10) / l11 if l11 > 0.0 else 0.0
            l22 = np.sqrt(max(covariance[5, d] - l20 * l20 - l21 * l21, 0.0))
            V[group[2], d] = mean[2, d] + l20 * e0 + l21 * e1 + l22 * e2
