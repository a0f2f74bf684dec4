"""What tests of exactness share: `pgfa.checking.exactness`, and classes of matrices up to the order of columns.

That a kernel moves at all is checked by starting every replicate from the same matrix instead of a draw of the target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import pgfa
from pgfa.checking.exactness import (
    SIGNIFICANCE,
    all_matrices,
    chi_square_p_value,
    count_ends,
    enumerate_posterior,
    joint_p_values,
    rebuild,
)
from pgfa.priors.indian_buffet import harmonic

__all__ = [
    "SIGNIFICANCE",
    "all_matrices",
    "assert_from_the_prior",
    "chi_square_p_value",
    "count_ends",
    "enumerate_posterior",
    "everyday",
    "half",
    "joint_p_values",
    "left_ordered",
    "left_ordered_classes",
    "rebuild",
    "third",
]


def half(*factors: Mapping[str, Any]) -> list[Any]:
    """All combinations of the factors' values, for `parametrize`: one half for every day, the other for the slow suite.

    Every value is in both halves, and with three factors of two values each so is every pair of values.
    """
    return _one_in(2, factors)


def third(*factors: Mapping[str, Any]) -> list[Any]:
    """As `half`, with a third for every day: with three factors of at least three values each, every pair is in it."""
    return _one_in(3, factors)


def _one_in(number: int, factors: tuple[Mapping[str, Any], ...]) -> list[Any]:
    return [
        pytest.param(
            *(factor[name] for factor, (_, name) in zip(factors, chosen)),
            id="-".join(name for _, name in chosen),
            marks=[pytest.mark.slow] if sum(place for place, _ in chosen) % number else [],
        )
        for chosen in product(*(enumerate(factor) for factor in factors))
    ]


def everyday(samplers: Sequence[Any]) -> list[Any]:
    """Samplers for `parametrize`: every day the default one.

    The others are for the slow suite. They take long to compile, and Geweke's test has all of them every day.
    """
    default = pgfa.DiscreteParticleFilter
    return [s if isinstance(s, default) else pytest.param(s, marks=pytest.mark.slow) for s in samplers]


def assert_from_the_prior(
    ends: Sequence[pgfa.State], prior: Any, rng: np.random.Generator, direct_rng: np.random.Generator, num_direct: int
) -> None:
    """Whether alpha and Z at the ends of chains have the law that direct draws have."""
    num_rows = ends[0].num_rows
    alpha = np.array([end.alpha for end in ends])
    gamma = stats.gamma(prior.alpha_shape, scale=1.0 / prior.alpha_rate)
    assert stats.kstest(alpha, gamma.cdf).pvalue > SIGNIFICANCE
    direct = [prior.sample(direct_rng, num_rows, prior.sample_alpha(direct_rng)) for _ in range(num_direct)]
    for statistic in (lambda Z: Z.any(axis=0).sum(), lambda Z: Z.sum(), lambda Z: (Z.sum(axis=0) == 1).sum()):
        mine = [int(statistic(end.Z)) for end in ends]
        theirs = [int(statistic(Z)) for Z in direct]
        assert stats.ks_2samp(mine, theirs).pvalue > SIGNIFICANCE
    if prior.grows:
        used = np.array([end.num_features for end in ends])
        # Randomised probability integral transform of K ~ Poisson(alpha H_N) given alpha.
        poisson = stats.poisson(alpha * harmonic(num_rows))
        uniform = poisson.cdf(used - 1) + rng.random(used.size) * poisson.pmf(used)
        assert stats.kstest(uniform, "uniform").pvalue > SIGNIFICANCE


def left_ordered(Z: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Columns as a sorted tuple of tuples: the same for matrices that differ in the order of columns only."""
    return tuple(sorted(tuple(int(bit) for bit in column) for column in Z.T))


def buffet_class(prior: Any, multiset: tuple[tuple[int, ...], ...], num_rows: int, alpha: float) -> tuple[Any, float]:
    """A matrix with these columns, and the log prior probability of all matrices with the same.

    The mass of one order of the columns times the number of orders that look different.
    """
    Z = np.array(multiset, dtype=np.uint8).reshape(len(multiset), num_rows).T.copy()
    orders = gammaln(len(multiset) + 1) - sum(gammaln(m + 1) for m in Counter(multiset).values())
    return Z, float(prior.log_prob(Z, alpha) + orders)


def left_ordered_classes(num_rows: int, max_columns: int) -> list[tuple[tuple[int, ...], ...]]:
    """All multisets of up to `max_columns` non-empty columns."""
    columns = [column for column in product((0, 1), repeat=num_rows) if any(column)]
    classes: list[tuple[tuple[int, ...], ...]] = [()]
    frontier: list[tuple[tuple[int, ...], ...]] = [()]
    for _ in range(max_columns):
        frontier = [
            (*multiset, column) for multiset in frontier for column in columns if not multiset or column >= multiset[-1]
        ]
        classes += frontier
    return classes
