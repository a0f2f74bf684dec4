"""The discrete particle filter (DPF): both values of every column, and a thinning that keeps the heavy particles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import checks, lanes
from pgfa._compile import implements
from pgfa.lanes import LANES
from pgfa.rows import RowView, flipped, spawn, start
from pgfa.samplers.ancestors import (
    Completions,
    draw_ancestor,
    make_completions,
    spawn_completions,
    start_completions,
)
from pgfa.samplers.base import RowSampler, draw_index, exponentiate, update_row
from pgfa.samplers.particles import annealed, run_filter, trace_path, update_row_by_particles
from pgfa.samplers.test_paths import check_test_path, code_of
from pgfa.samplers.thinning import thin


@dataclass(frozen=True)
class DiscreteParticleFilter(RowSampler):
    """Discrete particle filter update of a whole row: the default sampler.

    Each particle is continued with both values of the next column. Where this makes too many, heavy particles are kept
    as they are and light ones are thinned at random to a common weight; the present row always survives. With
    ``2 ** K <= num_particles`` the update is the exact row Gibbs draw.

    Parameters
    ----------
    num_particles
        Particles kept after thinning; at least 2.
    annealing_power
        Power beta of the intermediate targets: after t of T columns the likelihood counts with power (t / T) ** beta.
        Zero turns annealing off.
    test_path
        What a particle assumes of columns not decided yet: ``"zeros"``, ``"ones"``, ``"random"``, ``"unconditional"``,
        and in warm-up only ``"conditional"`` and ``"two-stage"`` (zeros take their place after it).
    ancestor_sampling
        After each thinning draw anew which survivor the rest of the present row continues. The update stays exact, and
        the columns that come first move more often; it costs about twice as much.

    Notes
    -----
    The light particles are thinned by systematic sampling, where the paper decides on each one independently. Each
    still survives with the same probability, which is all that exactness needs, but their number no longer varies and
    one random number does for all. Two things keep this exact: particles stay in an order that does not depend on which
    one is the present row, and given that the present row survives, the offset of the systematic grid is drawn from its
    conditional distribution.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> sampler = pgfa.DiscreteParticleFilter(num_particles=10)
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(8), sampler, seed=1)
    >>> chain.step(5)
    """

    num_particles: int = 20
    annealing_power: float = 1.0
    test_path: str = "zeros"
    ancestor_sampling: bool = False

    def __post_init__(self) -> None:
        checks.whole("num_particles", self.num_particles, at_least=2)
        checks.non_negative("annealing_power", self.annealing_power)
        check_test_path(self.test_path)
        checks.truth("ancestor_sampling", self.ancestor_sampling)

    def make_kernel(self, rows: RowView, num_columns: int, *, warmup: bool = False) -> DiscreteKernel:
        # Rounding in the systematic grid can let one particle more survive, and the present row yet another.
        capacity = self.num_particles + 3
        places, children = lanes.padded(capacity), lanes.padded(2 * capacity)
        return DiscreteKernel(
            num_particles=int(self.num_particles),
            annealing_power=float(self.annealing_power),
            test_path_code=code_of(self.test_path, warmup=warmup),
            block=rows.make_block(capacity),
            next_block=rows.make_block(capacity),
            completions=make_completions(rows, capacity if self.ancestor_sampling else 0),
            log_lik=np.zeros(places),
            log_weight=np.zeros(places),
            child_log_lik=np.zeros(children),
            child_log_weight=np.zeros(children),
            weights=np.zeros(children),
            light=np.zeros(children, dtype=np.int64),
            chosen=np.zeros(places, dtype=np.int64),
            parents=np.zeros(places, dtype=np.int64),
            flips=np.zeros(places, dtype=np.int64),
            history=np.zeros((num_columns, places), dtype=np.int64),
            present=np.zeros(num_columns, dtype=np.int64),
            test_path=np.zeros(num_columns, dtype=np.int64),
            path=np.zeros(num_columns, dtype=np.int64),
        )


class DiscreteKernel(NamedTuple):
    """Settings, and memory for whole vectors of particles and children; `history` holds 2 * parent + bit."""

    num_particles: int
    annealing_power: float
    test_path_code: int
    block: NDArray[np.float64]
    next_block: NDArray[np.float64]
    completions: Completions
    log_lik: NDArray[np.float64]
    log_weight: NDArray[np.float64]
    child_log_lik: NDArray[np.float64]
    child_log_weight: NDArray[np.float64]
    weights: NDArray[np.float64]
    light: NDArray[np.int64]
    chosen: NDArray[np.int64]
    parents: NDArray[np.int64]
    flips: NDArray[np.int64]
    history: NDArray[np.int64]
    present: NDArray[np.int64]
    test_path: NDArray[np.int64]
    path: NDArray[np.int64]


implements(update_row, DiscreteKernel, allocates=False)(update_row_by_particles)


@implements(run_filter, DiscreteKernel, allocates=False)
def _run_filter(kernel, rows, n, z, log_odds, columns, num_columns, power, conditional, rng):  # type: ignore[no-untyped-def]
    block, next_block = kernel.block, kernel.next_block
    log_lik, log_weight = kernel.log_lik, kernel.log_weight
    child_log_lik, child_log_weight = kernel.child_log_lik, kernel.child_log_weight
    chosen, parents, flips = kernel.chosen, kernel.parents, kernel.flips

    count = 1
    kept = 0 if conditional else -1
    completes = conditional and kernel.completions.log_lik.size > 0
    if completes:
        start_completions(kernel.completions, rows, n, z, columns, num_columns, kernel.present, kernel.test_path)
    log_lik[0] = start(rows, n, z, block)
    log_weight[0] = 0.0
    previous_power = 0.0
    for t in range(num_columns):
        k = columns[t]
        test_bit = kernel.test_path[t]
        sign = 1.0 - 2.0 * test_bit
        present_power = power * annealed((t + 1.0) / num_columns, kernel.annealing_power)
        odds_if_same = log_odds[k] * test_bit
        odds_if_flipped = log_odds[k] * (1 - test_bit)

        # Children 0 .. count-1 agree with the test path in this column, children count .. 2 count - 1 do not. This
        # order does not depend on which particle is the kept one, as the systematic thinning requires. What is written
        # beyond `count` the second half takes the place of.
        for i in range(0, count, LANES):
            likelihood = lanes.load(log_lik, i)
            base = lanes.load(log_weight, i) - previous_power * likelihood
            lanes.store(child_log_lik, i, likelihood)
            lanes.store(child_log_weight, i, base + odds_if_same + present_power * likelihood)
        flipped(rows, n, k, sign, block, log_lik, count, child_log_lik[count:])
        for i in range(0, count, LANES):
            base = lanes.load(log_weight, i) - previous_power * lanes.load(log_lik, i)
            likelihood = lanes.load(child_log_lik, count + i)
            lanes.store(child_log_weight, count + i, base + odds_if_flipped + present_power * likelihood)
        if kept >= 0 and kernel.present[t] != test_bit:
            kept += count
        num_children = 2 * count

        if t + 1 == num_columns:
            total = exponentiate(child_log_weight, num_children, kernel.weights)
            drawn = draw_index(kernel.weights, num_children, total, rng)
            kernel.history[t, 0] = 2 * (drawn % count) + (test_bit ^ (drawn // count))
        else:
            if num_children > kernel.num_particles:
                survivors, kept = thin(
                    child_log_weight, num_children, kernel.num_particles, count, -np.inf, kept, rng, kernel.weights,
                    kernel.light, chosen, log_weight,
                )  # fmt: skip
            else:
                survivors = num_children
                for j in range(0, survivors, LANES):
                    lanes.store(chosen, j, lanes.places(j))
                    lanes.store(log_weight, j, lanes.load(child_log_weight, j))
            history = kernel.history[t]
            for j in range(0, survivors, LANES):
                child = lanes.choose(lanes.places(j) < survivors, lanes.load(chosen, j), 0)
                flip = lanes.choose(child >= count, 1, 0)
                parent = lanes.choose(child >= count, child - count, child)
                lanes.store(log_lik, j, lanes.gather(child_log_lik, child))
                lanes.store(flips, j, flip)
                lanes.store(parents, j, parent)
                lanes.store(history, j, parent + parent + (flip ^ test_bit))
            spawn(rows, n, k, sign, block, parents, flips, survivors, next_block)
            block, next_block = next_block, block
            if completes:
                spawn_completions(
                    kernel.completions, rows, n, k, t, kernel.present[t], test_bit, parents, flips, count, survivors
                )
                kept = draw_ancestor(
                    kernel.completions, t + 1, log_weight, log_lik, survivors, present_power, power, kernel.weights, rng
                )
            count = survivors
        previous_power = present_power
    trace_path(kernel.history, num_columns, 0, kernel.path)
