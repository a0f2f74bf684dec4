"""Particle Gibbs: a whole row by conditional sequential Monte Carlo over its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import checks, lanes
from pgfa._compile import compiled, implements
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
from pgfa.vector_math import exp, log


@dataclass(frozen=True)
class ParticleGibbs(RowSampler):
    """Particle Gibbs update of a whole row, with the fully adapted proposal.

    The update is exact whatever the number of particles: more of them mix better per sweep, never "more correctly".

    Parameters
    ----------
    num_particles
        Particles, the present row included; at least 2.
    annealing_power
        Power beta of the intermediate targets: after t of T columns the likelihood counts with power (t / T) ** beta.
        Zero turns annealing off.
    resample_threshold
        Resample where the relative effective sample size falls below this; 0 never resamples.
    resampling
        ``"multinomial"`` as in the paper, or ``"stratified"``, which is less noisy.
    test_path
        What a particle assumes of columns not decided yet: ``"zeros"``, ``"ones"``, ``"random"``, ``"unconditional"``,
        and in warm-up only ``"conditional"`` and ``"two-stage"`` (zeros take their place after it).
    ancestor_sampling
        Whenever particles are resampled, draw anew which of them the rest of the present row continues. The update
        stays exact, and the columns that come first move more often; it costs about twice as much. With multinomial
        resampling only.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> sampler = pgfa.ParticleGibbs(num_particles=10, resampling="stratified")
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(4), sampler, seed=1)
    >>> chain.step(5)
    """

    num_particles: int = 20
    annealing_power: float = 1.0
    resample_threshold: float = 0.5
    resampling: str = "multinomial"
    test_path: str = "zeros"
    ancestor_sampling: bool = False

    def __post_init__(self) -> None:
        checks.whole("num_particles", self.num_particles, at_least=2)
        checks.non_negative("annealing_power", self.annealing_power)
        checks.unit_interval("resample_threshold", self.resample_threshold)
        checks.one_of("resampling", self.resampling, ("multinomial", "stratified"))
        check_test_path(self.test_path)
        if checks.truth("ancestor_sampling", self.ancestor_sampling) and self.resampling != "multinomial":
            raise ValueError('ancestor_sampling works with resampling="multinomial" only')

    def make_kernel(self, rows: RowView, num_columns: int, *, warmup: bool = False) -> ParticleGibbsKernel:
        places = lanes.padded(self.num_particles)
        return ParticleGibbsKernel(
            num_particles=int(self.num_particles),
            annealing_power=float(self.annealing_power),
            resample_threshold=float(self.resample_threshold),
            stratified=self.resampling == "stratified",
            test_path_code=code_of(self.test_path, warmup=warmup),
            block=rows.make_block(self.num_particles),
            next_block=rows.make_block(self.num_particles),
            completions=make_completions(rows, self.num_particles if self.ancestor_sampling else 0),
            values=np.zeros((8, places)),
            parents=np.zeros(places, dtype=np.int64),
            flips=np.zeros(places, dtype=np.int64),
            history=np.zeros((num_columns, places), dtype=np.int64),
            present=np.zeros(num_columns, dtype=np.int64),
            test_path=np.zeros(num_columns, dtype=np.int64),
            path=np.zeros(num_columns, dtype=np.int64),
        )


class ParticleGibbsKernel(NamedTuple):
    """Settings, and memory for whole vectors of particles; `history` holds 2 * parent + bit."""

    num_particles: int
    annealing_power: float
    resample_threshold: float
    stratified: bool
    test_path_code: int
    block: NDArray[np.float64]
    next_block: NDArray[np.float64]
    completions: Completions
    values: NDArray[np.float64]
    parents: NDArray[np.int64]
    flips: NDArray[np.int64]
    history: NDArray[np.int64]
    present: NDArray[np.int64]
    test_path: NDArray[np.int64]
    path: NDArray[np.int64]


@compiled(allocates=False)
def _resample_multinomial(weights, count, total, kept, rng, parents):  # type: ignore[no-untyped-def]
    """Independent ancestors; the kept particle (if any) is its own, in its own slot."""
    for j in range(count):
        parents[j] = draw_index(weights, count, total, rng)
    if kept >= 0:
        parents[kept] = kept
    return kept


@compiled(allocates=False)
def _resample_stratified(weights, count, total, kept, rng, parents):  # type: ignore[no-untyped-def]
    """One ancestor from each of `count` equal slices of the cumulative weight; returns the kept particle's new slot.

    Given that the kept particle has a child, the slot of that child is the slice of a point drawn uniformly from the
    kept particle's own stretch, and the other slices are as they were.
    """
    slot = -1
    if kept >= 0:
        before = 0.0
        for i in range(kept):
            before += weights[i]
        slot = min(count - 1, int((before + rng.random() * weights[kept]) / total * count))
    i = 0
    cumulative = weights[0]
    last = count - 1
    while last > 0 and weights[last] == 0.0:
        last -= 1
    for j in range(count):
        u = (j + rng.random()) * total / count
        while cumulative <= u and i < last:
            i += 1
            cumulative += weights[i]
        parents[j] = i
    if slot >= 0:
        parents[slot] = kept
    return slot


@compiled(liberty="fused", allocates=False)
def _weigh_children(  # type: ignore[no-untyped-def]
    log_lik, flipped_log_lik, count, odds_if_same, odds_if_flipped, previous_power, present_power, increment, flip_prob
):
    """For each particle the log weight that its next step adds, and the probability that this step is a flip."""
    for i in range(0, count, LANES):
        likelihood = lanes.load(log_lik, i)
        same = odds_if_same + present_power * likelihood
        other = odds_if_flipped + present_power * lanes.load(flipped_log_lik, i)
        better = lanes.larger(same, other)
        e = exp(lanes.smaller(same, other) - better)
        lanes.store(increment, i, better - previous_power * likelihood + log(1.0 + e))
        lanes.store(flip_prob, i, lanes.choose(other > same, 1.0, e) / (1.0 + e))


implements(update_row, ParticleGibbsKernel, allocates=False)(update_row_by_particles)


@implements(run_filter, ParticleGibbsKernel, allocates=False)
def _run_filter(kernel, rows, n, z, log_odds, columns, num_columns, power, conditional, rng):  # type: ignore[no-untyped-def]
    block, next_block = kernel.block, kernel.next_block
    num_particles = kernel.num_particles
    parents, flips, test_path = kernel.parents, kernel.flips, kernel.test_path
    log_lik, flipped_log_lik, log_weight = kernel.values[0], kernel.values[1], kernel.values[2]
    next_log_lik, increment, flip_prob = kernel.values[3], kernel.values[4], kernel.values[5]
    weights, next_log_weight = kernel.values[6], kernel.values[7]

    # All particles share the root, so the first column is evaluated once.
    count = 1
    kept = 0 if conditional else -1
    completes = conditional and kernel.completions.log_lik.size > 0
    if completes:
        start_completions(kernel.completions, rows, n, z, columns, num_columns, kernel.present, test_path)
    log_lik[0] = start(rows, n, z, block)
    log_weight[0] = 0.0
    previous_power = 0.0
    for t in range(num_columns):
        k = columns[t]
        sign = 1.0 - 2.0 * test_path[t]
        present_power = power * annealed((t + 1.0) / num_columns, kernel.annealing_power)
        odds_if_same = log_odds[k] * test_path[t]
        odds_if_flipped = log_odds[k] * (1 - test_path[t])
        flipped(rows, n, k, sign, block, log_lik, count, flipped_log_lik)
        _weigh_children(
            log_lik, flipped_log_lik, count, odds_if_same, odds_if_flipped, previous_power, present_power, increment,
            flip_prob,
        )  # fmt: skip

        resampled = False
        if t == 0:
            for j in range(num_particles):
                parents[j] = 0
        else:
            for j in range(count):
                parents[j] = j
            total = exponentiate(log_weight, count, weights)
            squares = 0.0
            for i in range(count):
                squares += weights[i] * weights[i]
            if total * total < kernel.resample_threshold * count * squares:
                resampled = True
                if kernel.stratified:
                    kept = _resample_stratified(weights, count, total, kept, rng, parents)
                else:
                    kept = _resample_multinomial(weights, count, total, kept, rng, parents)
                if completes:
                    parents[kept] = draw_ancestor(
                        kernel.completions, t, log_weight, log_lik, count, previous_power, power, weights, rng
                    )

        for j in range(num_particles):
            chance = flip_prob[parents[j]]
            # A random number could not tell such probabilities from 0 or 1.
            is_certain = abs(chance - 0.5) >= 0.5 - 2.0**-54
            u = 0.5 if is_certain else rng.random()
            flips[j] = 1 if u < chance else 0
        if kept >= 0:
            flips[kept] = kernel.present[t] ^ test_path[t]
        for j in range(0, num_particles, LANES):
            parent, flip = lanes.load(parents, j), lanes.load(flips, j)
            likelihoods = lanes.gather(log_lik, parent), lanes.gather(flipped_log_lik, parent)
            weight_before = lanes.choose(resampled, 0.0, lanes.gather(log_weight, parent))
            lanes.store(next_log_lik, j, lanes.choose(flip == 1, likelihoods[1], likelihoods[0]))
            lanes.store(next_log_weight, j, weight_before + lanes.gather(increment, parent))
            lanes.store(kernel.history[t], j, parent + parent + (flip ^ test_path[t]))
        if t + 1 < num_columns:
            if completes:
                spawn_completions(
                    kernel.completions, rows, n, k, t, kernel.present[t], test_path[t], parents, flips, count,
                    num_particles,
                )  # fmt: skip
            spawn(rows, n, k, sign, block, parents, flips, num_particles, next_block)
            block, next_block = next_block, block
        log_lik, next_log_lik = next_log_lik, log_lik
        log_weight, next_log_weight = next_log_weight, log_weight
        count = num_particles
        previous_power = present_power

    total = exponentiate(log_weight, count, weights)
    j = draw_index(weights, count, total, rng)
    trace_path(kernel.history, num_columns, j, kernel.path)
