"""Ancestor sampling: which particle does the rest of the present row continue?

A conditional filter carries the present row along, and the columns that come first hardly ever leave it once the
particles have few ancestors in common. The remedy [1]_: whenever particles have been resampled or thinned, the
particle that the remaining columns of the present row continue is drawn anew, in proportion to

    weight * final target (particle, rest of the present row) / target of the filter so far (particle).

For particle Gibbs that is a Gibbs step on an index of the extended target. The same holds for the discrete filter: the
probability of the surviving set given that it contains a particle is its unconditional probability divided by the
probability of that particle's survival so far, and weight over target is one over the latter.

The particles' *completions*, their decided columns followed by those of the present row, are kept in a block of their
own, so that one flip a particle and column evaluates them.

.. [1] F. Lindsten, M. I. Jordan, T. B. Schon (2014). Particle Gibbs with ancestor sampling. JMLR 15.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import lanes
from pgfa._compile import compiled
from pgfa.rows import RowView, flipped, spawn, start
from pgfa.samplers.base import draw_index, exponentiate


class Completions(NamedTuple):
    """The completed particles before even and before odd columns, and their log likelihoods; of size 0 if not used."""

    even: Any
    odd: Any
    log_lik: NDArray[np.float64]
    flipped_log_lik: NDArray[np.float64]
    log_weights: NDArray[np.float64]
    changes: NDArray[np.int64]


def make_completions(rows: RowView, capacity: int) -> Completions:
    """Memory for that many particles."""
    return Completions(
        even=rows.make_block(max(capacity, 1)),
        odd=rows.make_block(max(capacity, 1)),
        log_lik=np.empty((2, capacity)),
        flipped_log_lik=np.empty(capacity),
        log_weights=np.zeros(lanes.padded(capacity)),
        changes=np.zeros(capacity, dtype=np.int64),
    )


@compiled(allocates=False)
def start_completions(completions, rows, n, z, columns, num_columns, present, test_path):  # type: ignore[no-untyped-def]
    """The root, completed, is the present row; z holds the test path before and after."""
    for t in range(num_columns):
        z[columns[t]] = present[t]
    completions.log_lik[0, 0] = start(rows, n, z, completions.even)
    for t in range(num_columns):
        z[columns[t]] = test_path[t]


@compiled(allocates=False)
def spawn_completions(completions, rows, n, k, t, present_bit, test_bit, parents, flips, count, num_children):  # type: ignore[no-untyped-def]
    """Follow the step of the filter at its t-th column, k, in which child j differs from the test path by flips[j]."""
    source, target = (completions.even, completions.odd) if t % 2 == 0 else (completions.odd, completions.even)
    log_lik, next_log_lik = completions.log_lik[t % 2], completions.log_lik[1 - t % 2]
    sign = 1.0 - 2.0 * present_bit
    flipped(rows, n, k, sign, source, log_lik, count, completions.flipped_log_lik)
    for j in range(num_children):
        completions.changes[j] = flips[j] ^ test_bit ^ present_bit
        parent = parents[j]
        next_log_lik[j] = completions.flipped_log_lik[parent] if completions.changes[j] == 1 else log_lik[parent]
    spawn(rows, n, k, sign, source, parents, completions.changes, num_children, target)


@compiled(allocates=False)
def draw_ancestor(completions, t, log_weight, log_lik, count, power_so_far, power, weights, rng):  # type: ignore[no-untyped-def]
    """The particle that the present row continues from its t-th column on."""
    complete = completions.log_lik[t % 2]
    for i in range(count):
        # Priors of decided columns cancel, those of the others are the same for all particles.
        completions.log_weights[i] = log_weight[i] + power * complete[i] - power_so_far * log_lik[i]
    total = exponentiate(completions.log_weights, count, weights)
    return draw_index(weights, count, total, rng)
