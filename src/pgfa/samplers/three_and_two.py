"""Three columns for two, and back.

Chains often tell two features as three columns: what the two have in common, or all that they have between them, and
what each has alone; or the first of them, the first without the second, and the second without the first. Only all
three together find the way back. A proposal puts two of them together again and lets the third die:

- *both*: the third is taken off both others (by symmetric difference), and should hold what these then have in common,
  or all that they have;
- *through*: the first stays, the second becomes the symmetric difference of all three, and the third should hold what
  that has beyond the first.

The reverse draws the third column: row by row as it should be, but for a few rows that are elsewhere. Which three are
put together is drawn in proportion to the probability that the third would be drawn from the two, and to what the prior
of the columns gains: without the latter, columns with hardly any owners would always be the first choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa._compile import compiled
from pgfa.columns import LEAST_POWER, draw_number_of_moves, read_residual
from pgfa.small_matrices import factorise, solve_lower, solve_upper
from pgfa.state import State, add_features, drop_unused_features

if TYPE_CHECKING:
    from pgfa.models.base import Model
    from pgfa.priors.base import Prior

#: Chance of a row to be elsewhere than it should in a third column.
_ELSEWHERE = 0.02
#: Log chance, in all and for each row, of drawing a third column below which it is not worth the work to go on.
_LEAST_LOG_CHANCE = -40.0
_LEAST_LOG_CHANCE_OF_ROW = -0.1


class Proposal(NamedTuple):
    """New columns, which ones differ, and the log ratio of the chances to propose the way back and the way there."""

    Z: NDArray[np.uint8]
    columns: list[int]
    log_ratio: float

    def prior_gain(self, old_Z: NDArray[np.uint8], log_mass: NDArray[np.float64]) -> float:
        """What the columns gain in log prior mass; `old_Z` has as many of them."""
        new, old = (matrix[:, self.columns].sum(axis=0, dtype=np.int64) for matrix in (self.Z, old_Z))
        return float(np.sum(log_mass[new] - log_mass[old]))


def propose_two(
    Z: NDArray[np.uint8], log_mass: NDArray[np.float64], grows: bool, through: bool, rng: np.random.Generator
) -> Proposal | None:
    """Put two columns together again with a third, which ends without owners; None where nothing comes of it."""
    used = np.flatnonzero(Z.any(axis=0))
    if used.size < 3:
        return None
    triples, log_weight, gain = rate_thirds(np.ascontiguousarray(Z[:, used]), log_mass, through, _ELSEWHERE)
    log_total = float(np.logaddexp.reduce(log_weight))
    if log_total < _least_log_chance(Z):
        return None
    chosen = int(rng.choice(gain.size, p=np.exp(log_weight - log_total)))
    third, a, b = (int(used[i]) for i in triples[chosen])
    new_Z = Z.copy()
    _exchange(new_Z, a, b, third, through)
    new_Z[:, third] = 0
    if not (new_Z[:, a].any() and new_Z[:, b].any()):
        return None
    num_slots = 1 if grows else Z.shape[1] - used.size + 1
    log_ratio = log_total - gain[chosen] - np.log(_num_pairs(used.size - 1, through) * num_slots)
    return Proposal(new_Z, [a, b, third], log_ratio)


def propose_three(
    Z: NDArray[np.uint8], log_mass: NDArray[np.float64], grows: bool, through: bool, rng: np.random.Generator
) -> Proposal | None:
    """Draw a third column for two that there are; where none is without owners and Z `grows`, a new one comes last."""
    in_use = Z.any(axis=0)
    used, empty = np.flatnonzero(in_use), np.flatnonzero(~in_use)
    new_Z = Z.copy()
    if grows and empty.size == 0:
        new_Z = np.pad(Z, ((0, 0), (0, 1)))
        empty = np.array([Z.shape[1]])
    if used.size < 2 or empty.size == 0:
        return None
    a, b = (int(k) for k in rng.choice(used, size=2, replace=False))
    third = int(rng.choice(empty))
    if through:
        expected = Z[:, b] & (1 - Z[:, a])
    else:
        expected = Z[:, a] & Z[:, b] if rng.random() < 0.5 else Z[:, a] | Z[:, b]
    new_Z[:, third] = np.where(rng.random(Z.shape[0]) < _ELSEWHERE, 1 - expected, expected)
    _exchange(new_Z, a, b, third, through)
    if not new_Z[:, [a, b, third]].any(axis=0).all():
        return None
    _, log_weight, _ = rate_thirds(np.ascontiguousarray(new_Z[:, new_Z.any(axis=0)]), log_mass, through, _ELSEWHERE)
    log_total = float(np.logaddexp.reduce(log_weight))
    if log_total < _least_log_chance(Z):
        return None
    num_slots = 1 if grows else empty.size
    back = log_mass[Z[:, [a, b]].sum(axis=0)].sum() + log_mass[0] - log_mass[new_Z[:, [a, b, third]].sum(axis=0)].sum()
    log_ratio = float(back) + np.log(_num_pairs(used.size, through) * num_slots) - log_total
    return Proposal(new_Z, [a, b, third], log_ratio)


def _exchange(Z: NDArray[np.uint8], a: int, b: int, third: int, through: bool) -> None:
    """Pass between three columns and two, with the third kept; the way there and the way back are the same."""
    if through:
        Z[:, b] ^= Z[:, a] ^ Z[:, third]
    else:
        Z[:, a] ^= Z[:, third]
        Z[:, b] ^= Z[:, third]


def _num_pairs(count: int, through: bool) -> int:
    return count * (count - 1) // (1 if through else 2)


def _least_log_chance(Z: NDArray[np.uint8]) -> float:
    return _LEAST_LOG_CHANCE + _LEAST_LOG_CHANCE_OF_ROW * Z.shape[0]


@compiled
def _count_together(Z):  # type: ignore[no-untyped-def]
    """Number of rows that own all of three columns, for all triples."""
    num_rows, size = Z.shape
    together = np.zeros((size, size, size))
    for n in range(num_rows):
        for a in range(size):
            if Z[n, a] == 0:
                continue
            for b in range(size):
                if Z[n, b] == 0:
                    continue
                for c in range(size):
                    together[a, b, c] += Z[n, c]
    return together


@compiled
def rate_thirds(Z, log_mass, through, elsewhere):  # type: ignore[no-untyped-def]
    """All choices of a third column and two others, the log weight of each, and the part of it that is the prior's.

    The log weight is the log probability of drawing the third from those two, where each row may be `elsewhere` than
    expected with that probability, plus the gain in log prior mass if it dies.
    """
    num_rows, size = Z.shape
    together = _count_together(Z)
    capacity = size * size * size
    triples = np.empty((capacity, 3), dtype=np.int64)
    log_weight = np.empty(capacity)
    gain = np.empty(capacity)
    count = 0
    for third in range(size):
        for a in range(size):
            for b in range(0 if through else a + 1, size):
                if third == a or third == b or a == b:
                    continue
                owners_a, owners_b, owners_third = together[a, a, a], together[b, b, b], together[third, third, third]
                with_a, with_b, of_both = together[third, third, a], together[third, third, b], together[a, a, b]
                all_three = together[third, a, b]
                if through:
                    log_chance = _log_chance(with_a + owners_b - of_both, num_rows, elsewhere)
                    new_a = owners_a
                    new_b = owners_a + owners_b + owners_third - 2.0 * (with_a + with_b + of_both) + 4.0 * all_three
                else:
                    in_common = with_a + with_b + of_both - 2.0 * all_three
                    all_of_both = owners_a + owners_b - of_both - with_a - with_b + 2.0 * all_three
                    log_chance = np.logaddexp(
                        _log_chance(in_common, num_rows, elsewhere), _log_chance(all_of_both, num_rows, elsewhere)
                    ) - np.log(2.0)
                    new_a = owners_a + owners_third - 2.0 * with_a
                    new_b = owners_b + owners_third - 2.0 * with_b
                triples[count, 0], triples[count, 1], triples[count, 2] = third, a, b
                gain[count] = log_mass[int(new_a)] + log_mass[int(new_b)] + log_mass[0]
                gain[count] -= log_mass[int(owners_a)] + log_mass[int(owners_b)] + log_mass[int(owners_third)]
                log_weight[count] = log_chance + gain[count]
                count += 1
    return triples[:count], log_weight[:count], gain[:count]


@compiled(allocates=False)
def _log_chance(misplaced, num_rows, elsewhere):  # type: ignore[no-untyped-def]
    return misplaced * np.log(elsewhere) + (num_rows - misplaced) * np.log1p(-elsewhere)


@dataclass(frozen=True)
class ThreeAndTwo:
    """Propose to put three columns together to two, or to tell two as three, with their values integrated out.

    Parameters
    ----------
    rate
        Proposals an iteration; a fraction is the probability of one more.

    Notes
    -----
    Accepted or not by Metropolis and Hastings, with the values of the three columns integrated out; these are drawn
    anew on acceptance. It takes models whose data are Gaussian in the values of the features, like `LinearGaussian`.
    `Relational` makes such moves of its own accord.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> moves = [pgfa.ColumnBlock(2, "users"), pgfa.ThreeAndTwo()]
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(4), column_moves=moves, seed=1)
    >>> chain.step(5)
    """

    rate: float = 2.0

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)

    def apply(self, model: Model, prior: Prior, state: State, rng: np.random.Generator, power: float) -> State:
        """Make the proposals of one iteration."""
        if power < LEAST_POWER:
            return state
        log_mass = prior.log_column_mass(state.num_rows, state.alpha)
        for _ in range(draw_number_of_moves(self.rate, rng)):
            propose = propose_two if rng.random() < 0.5 else propose_three
            proposal = propose(state.Z, log_mass, prior.grows, bool(rng.random() < 0.5), rng)
            if proposal is None:
                continue
            if proposal.Z.shape != state.Z.shape:
                state = add_features(state, model.feature_axes, 1)
            view, group = model.column_view(state.parameters, power), np.array(proposal.columns)
            layouts = np.stack([state.Z[:, group], proposal.Z[:, group]])
            gram, moments = _regress(view, state.Z, group, layouts)
            log_evidence = [_weigh(view, gram[i], moments[i]) for i in range(2)]
            log_ratio = proposal.log_ratio + log_evidence[1] - log_evidence[0]
            log_ratio += proposal.prior_gain(state.Z, log_mass)
            if np.log(rng.random()) < log_ratio:
                state.Z[:, group] = layouts[1]
                noise = rng.standard_normal(moments[1].shape)
                for d in range(noise.shape[0]):
                    solve_upper(gram[1, d], moments[1, d] + noise[d], noise[d])
                view.V[group] = noise.T
        return drop_unused_features(state, model.feature_axes) if prior.grows else state


@compiled
def _regress(view, Z, group, layouts):  # type: ignore[no-untyped-def]
    """Products of the group's columns with each other and with the residuals, for each layout of them and dimension."""
    num_rows, num_dims = view.table.X.shape
    num_layouts, _, size = layouts.shape
    gram = np.zeros((num_layouts, num_dims, size, size))
    moments = np.zeros((num_layouts, num_dims, size))
    residual = np.empty(num_dims)
    is_observed = np.empty(num_dims)
    for n in range(num_rows):
        if not layouts[:, n].any():
            continue
        read_residual(view, Z[n], group, n, residual, is_observed)
        for layout in range(num_layouts):
            z = layouts[layout, n]
            for i in range(size):
                if z[i] == 0:
                    continue
                for d in range(num_dims):
                    moments[layout, d, i] += residual[d]
                    for j in range(size):
                        gram[layout, d, i, j] += is_observed[d] * z[j]
    return gram, moments


@compiled(allocates=False)
def _weigh(view, gram, moments):  # type: ignore[no-untyped-def]
    """Log evidence of the columns given the rest, up to a constant, from their products.

    These are overwritten for a draw of the values: the products by Cholesky factors of the precisions, and the moments
    by what these factors, transposed, take to the means.
    """
    total = 0.0
    for d in range(moments.shape[0]):
        for i in range(moments.shape[1]):
            moments[d, i] *= view.tau_x
            for j in range(moments.shape[1]):
                gram[d, i, j] *= view.tau_x
            gram[d, i, i] += view.tau_v
        factorise(gram[d])
        solve_lower(gram[d], moments[d], moments[d])
        for i in range(moments.shape[1]):
            total += 0.5 * moments[d, i] * moments[d, i] - np.log(gram[d, i, i])
    return total
