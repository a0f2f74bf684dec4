"""What every row sampler offers, and the compiled helpers that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from pgfa import lanes
from pgfa._compile import compiled
from pgfa.lanes import LANES
from pgfa.rows import RowView
from pgfa.vector_math import exp


class RowSampler(ABC):
    """A way to move one row of Z given the others, leaving its conditional distribution invariant.

    A sampler holds nothing but its settings. For a sweep it makes a *kernel*: a NamedTuple of settings and working
    memory on which `update_row` is dispatched.
    """

    @abstractmethod
    def make_kernel(self, rows: RowView, num_columns: int, *, warmup: bool = False) -> Any:
        """Settings and memory for one sweep over rows that have up to `num_columns` columns."""

    def choose(self, rng: np.random.Generator) -> RowSampler:
        """The sampler to use for the next sweep: itself, unless it is a mixture."""
        return self


def update_row(
    kernel: Any, rows: Any, n: int, z: Any, log_odds: Any, columns: Any, num_columns: int, power: float, rng: Any
) -> None:
    """Move the entries ``columns[:num_columns]`` of row n, which is z, in place.

    Parameters
    ----------
    kernel
        Settings and memory of the sampler.
    rows
        Row view of the model, for which `begin_row` has been called.
    log_odds
        Prior log odds of each column for this row.
    columns
        Columns in random order; entries of z elsewhere are held.
    power
        Power of the likelihood, between 0 and 1.
    """
    raise NotImplementedError


@compiled(allocates=False)
def shuffle(values, count, rng):  # type: ignore[no-untyped-def]
    """Put the first `count` values into uniformly random order."""
    for i in range(count - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        values[i], values[j] = values[j], values[i]


@compiled(allocates=False)
def logistic(x):  # type: ignore[no-untyped-def]
    """1 / (1 + exp(-x)) without overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + np.exp(-x))
    e = np.exp(x)
    return e / (1.0 + e)


@compiled(allocates=False)
def find_highest(log_weights, count):  # type: ignore[no-untyped-def]
    """The largest of the first `count` numbers; what follows them in their last vector becomes minus infinity.

    They need room for ``lanes.padded(count)`` numbers.
    """
    lanes.store(log_weights, count, lanes.spread(-np.inf))
    greatest = lanes.spread(-np.inf)
    for i in range(0, count, LANES):
        greatest = lanes.larger(greatest, lanes.load(log_weights, i))
    return lanes.highest(greatest)


@compiled(allocates=False)
def exponentiate(log_weights, count, weights):  # type: ignore[no-untyped-def]
    """Set weights to exp(log_weights - max) and return their sum.

    Both need room for ``lanes.padded(count)`` numbers.
    """
    highest = find_highest(log_weights, count)
    total = lanes.spread(0.0)
    for i in range(0, count, LANES):
        these = exp(lanes.load(log_weights, i) - highest)
        lanes.store(weights, i, these)
        total += these
    return lanes.total(total)


@compiled(allocates=False)
def draw_index(weights, count, total, rng):  # type: ignore[no-untyped-def]
    """Draw an index with probability proportional to its weight; never one of weight zero.

    They need room for ``lanes.padded(count)`` numbers.
    """
    u = rng.random() * total
    before = 0.0
    chosen = 0
    for i in range(0, count, LANES):
        sums = before + lanes.running_total(lanes.choose(lanes.places(i) < count, lanes.load(weights, i), 0.0))
        chosen += lanes.count(sums <= u)
        before = lanes.last(sums)
    # Where the sum of all was rounded up: the last one that has any weight.
    chosen = min(chosen, count - 1)
    while chosen > 0 and weights[chosen] == 0.0:
        chosen -= 1
    return chosen
