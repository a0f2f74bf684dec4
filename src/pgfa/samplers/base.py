"""What every row sampler offers, and the compiled helpers that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from pgfa._compile import compiled
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


@compiled(liberty="arithmetic", allocates=False)
def exponentiate(log_weights, count, weights):  # type: ignore[no-untyped-def]
    """Set weights to exp(log_weights - max) and return their sum and the maximum."""
    highest = log_weights[0]
    for i in range(1, count):
        highest = max(highest, log_weights[i])
    for i in range(count):
        weights[i] = exp(log_weights[i] - highest)
    total = 0.0
    for i in range(count):
        total += weights[i]
    return total, highest


@compiled(allocates=False)
def draw_index(weights, count, total, rng):  # type: ignore[no-untyped-def]
    """Draw an index with probability proportional to its weight; never one of weight zero."""
    u = rng.random() * total
    chosen = 0
    for i in range(count):
        if weights[i] > 0.0:
            chosen = i
            u -= weights[i]
            if u < 0.0:
                break
    return chosen
