"""Hamming-ball rows: an exact draw among all vectors that differ little from a random neighbour of the present one."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import checks, lanes
from pgfa._compile import compiled, implements
from pgfa.rows import RowView, flip, flipped, start
from pgfa.samplers.base import RowSampler, draw_index, exponentiate, shuffle, update_row


@dataclass(frozen=True)
class HammingBall(RowSampler):
    """Hamming-ball update of a row [1]_.

    A centre is drawn uniformly from the vectors that differ from the present row in at most `radius` entries, then the
    row is drawn exactly from those that differ from the centre in at most as many. That is a Gibbs step on the row and
    its centre together, so it is exact. The cost grows with the number of columns to the power of the radius.

    Parameters
    ----------
    radius
        In how many entries a vector may differ from the centre. A move reaches twice as far.

    References
    ----------
    .. [1] M. K. Titsias, C. Yau (2014). Hamming ball auxiliary sampling for factorial hidden Markov models. NIPS 27.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(6), pgfa.HammingBall(2), seed=1)
    >>> chain.step(5)
    """

    radius: int = 2

    def __post_init__(self) -> None:
        checks.whole("radius", self.radius, at_least=1)

    def make_kernel(self, rows: RowView, num_columns: int, *, warmup: bool = False) -> HammingBallKernel:
        radius = min(self.radius, num_columns)
        num_vectors = sum(comb(num_columns, distance) for distance in range(radius + 1))
        if num_vectors > MOST_VECTORS:
            raise ValueError(
                f"radius {self.radius} with {num_columns} columns makes {num_vectors} vectors a row, "
                f"more than {MOST_VECTORS}: choose a smaller radius"
            )
        return HammingBallKernel(
            radius=int(self.radius),
            block=rows.make_block(1),
            log_lik=np.zeros(radius + 1),
            flipped_log_lik=np.zeros(1),
            log_prior=np.zeros(radius + 1),
            places=np.zeros(radius + 1, dtype=np.int64),
            order=np.zeros(num_columns, dtype=np.int64),
            log_weights=np.zeros(lanes.padded(num_vectors)),
            weights=np.zeros(lanes.padded(num_vectors)),
        )


#: A row with more vectors than this in its ball would take a second or more.
MOST_VECTORS = 2_000_000


class HammingBallKernel(NamedTuple):
    """Settings and memory; `log_lik`, `log_prior` and `places` belong to the vectors on the way from the centre."""

    radius: int
    block: NDArray[np.float64]
    log_lik: NDArray[np.float64]
    flipped_log_lik: NDArray[np.float64]
    log_prior: NDArray[np.float64]
    places: NDArray[np.int64]
    order: NDArray[np.int64]
    log_weights: NDArray[np.float64]
    weights: NDArray[np.float64]


@compiled(allocates=False)
def _draw_distance(num_columns, radius, rng):  # type: ignore[no-untyped-def]
    """Distance from the present row of a vector drawn uniformly from its ball."""
    total = 0.0
    size = 1.0
    for distance in range(radius + 1):
        total += size
        size *= (num_columns - distance) / (distance + 1.0)
    u = rng.random() * total
    size = 1.0
    for distance in range(radius):
        if u < size:
            return distance
        u -= size
        size *= (num_columns - distance) / (distance + 1.0)
    return radius


@compiled(allocates=False)
def _toggle(kernel, rows, n, z, k):  # type: ignore[no-untyped-def]
    """Flip column k of the vector at hand and of its predictor."""
    flip(rows, n, k, 1.0 - 2.0 * z[k], kernel.block)
    z[k] = 1 - z[k]


@compiled(allocates=False)
def _visit(kernel, rows, n, z, log_odds, columns, num_columns, radius, power, chosen):  # type: ignore[no-untyped-def]
    """Walk through the ball around z, depth first, and take down the weight of each vector, relative to the centre's.

    With `chosen` >= 0 nothing is evaluated: the walk stops at the vector of that number, which z is then.
    """
    log_lik, log_prior, places = kernel.log_lik, kernel.log_prior, kernel.places
    weighs = chosen < 0
    if weighs:
        kernel.log_weights[0] = 0.0
        log_prior[0] = 0.0
    if chosen == 0:
        return
    count = 1
    depth = 0
    places[0] = 0
    while depth >= 0:
        if places[depth] == num_columns:
            depth -= 1
            if depth >= 0:
                k = columns[places[depth]]
                if weighs:
                    _toggle(kernel, rows, n, z, k)
                else:
                    z[k] = 1 - z[k]
                places[depth] += 1
            continue
        k = columns[places[depth]]
        if weighs:
            sign = 1.0 - 2.0 * z[k]
            flipped(rows, n, k, sign, kernel.block, log_lik[depth:], 1, kernel.flipped_log_lik)
            prior = log_prior[depth] + sign * log_odds[k]
            kernel.log_weights[count] = prior + power * (kernel.flipped_log_lik[0] - log_lik[0])
        elif count == chosen:
            z[k] = 1 - z[k]
            return
        count += 1
        if depth + 1 < radius:
            if weighs:
                log_lik[depth + 1] = kernel.flipped_log_lik[0]
                log_prior[depth + 1] = prior
                _toggle(kernel, rows, n, z, k)
            else:
                z[k] = 1 - z[k]
            places[depth + 1] = places[depth] + 1
            depth += 1
        else:
            places[depth] += 1


@implements(update_row, HammingBallKernel, allocates=False)
def _update_row(kernel, rows, n, z, log_odds, columns, num_columns, power, rng):  # type: ignore[no-untyped-def]
    radius = min(kernel.radius, num_columns)
    for i in range(num_columns):
        kernel.order[i] = columns[i]
    shuffle(kernel.order, num_columns, rng)
    for i in range(_draw_distance(num_columns, radius, rng)):
        z[kernel.order[i]] = 1 - z[kernel.order[i]]
    kernel.log_lik[0] = start(rows, n, z, kernel.block)
    _visit(kernel, rows, n, z, log_odds, columns, num_columns, radius, power, -1)
    num_vectors = 1
    size = 1.0
    for distance in range(radius):
        size *= (num_columns - distance) / (distance + 1.0)
        num_vectors += round(size)
    total = exponentiate(kernel.log_weights, num_vectors, kernel.weights)
    chosen = draw_index(kernel.weights, num_vectors, total, rng)
    _visit(kernel, rows, n, z, log_odds, columns, num_columns, radius, power, chosen)
