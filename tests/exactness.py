"""Harness for exactness: does a kernel leave a known distribution as it found it?

Replicates are independent. Each one starts from an exact draw of the target, runs a few sweeps, and reports where it
ended; under a correct kernel these ends are again independent draws of the target, so that a chi-square or
Kolmogorov-Smirnov test has honest p values and no autocorrelation to argue about. A wrong kernel drifts away within the
sweeps. That a kernel moves at all is checked by starting every replicate from the same matrix instead.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy import stats

import pgfa
from pgfa._compile import compiled, implements
from pgfa.samplers.sweep import NO_BIRTHS, sweep

#: A correct kernel fails a test with this probability; seeds are fixed, so in practice never.
SIGNIFICANCE = 1e-4


def rebuild(rows: Any, Z: Any) -> None:
    """Make a row view that remembers Z forget what it remembers and look at Z anew."""
    raise NotImplementedError


@implements(rebuild, None)
def _nothing_to_rebuild(rows, Z):
    pass


def all_matrices(num_rows: int, num_columns: int) -> np.ndarray:
    """All binary matrices; the one at index i has the bits of i, row by row, lowest first."""
    size = num_rows * num_columns
    bits = (np.arange(2**size)[:, np.newaxis] >> np.arange(size)) & 1
    return bits.reshape(-1, num_rows, num_columns).astype(np.uint8)


def enumerate_posterior(
    model, prior, parameters, alpha, num_columns, *, restrict_to_used=False, power=1.0
) -> np.ndarray:
    """Posterior probability of each matrix with parameters fixed; optionally only of those without an empty column.

    The mass of the Indian buffet process does not depend on the order of the columns, so restricted to matrices with
    exactly these columns, all used, it is a distribution over labelled matrices as well.
    """
    matrices = all_matrices(model.num_rows, num_columns)
    log_prob = np.array([prior.log_prob(Z, alpha) + power * model.log_likelihood(Z, parameters) for Z in matrices])
    if restrict_to_used:
        log_prob[~matrices.any(axis=1).all(axis=1)] = -np.inf
    prob = np.exp(log_prob - log_prob.max())
    return prob / prob.sum()


@compiled
def _count_ends(kernel, rows, Z, cumulative, fixed_start, log_odds, births, block, num_sweeps, power, rng, counts):
    num_rows, num_columns = Z.shape
    owners = np.empty(num_columns, dtype=np.int64)
    for _ in range(counts[0]):
        code = (
            fixed_start
            if fixed_start >= 0
            else np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
        )
        for n in range(num_rows):
            for k in range(num_columns):
                Z[n, k] = (code >> (n * num_columns + k)) & 1
        for k in range(num_columns):
            owners[k] = 0
            for n in range(num_rows):
                owners[k] += Z[n, k]
        rebuild(rows, Z)
        for _ in range(num_sweeps):
            sweep(kernel, rows, Z, owners, log_odds, births, block, power, rng)
        code = 0
        for n in range(num_rows):
            for k in range(num_columns):
                code |= np.int64(Z[n, k]) << (n * num_columns + k)
        counts[1 + code] += 1


def count_ends(
    model,
    prior,
    sampler,
    parameters,
    alpha,
    num_columns,
    target,
    *,
    num_replicates,
    seed,
    num_sweeps=3,
    start=None,
    warmup=False,
    power=1.0,
) -> np.ndarray:
    """How often each matrix is where a replicate ends. Starts are drawn from `target` unless given as an index."""
    rng = np.random.default_rng(seed)
    Z = np.zeros((model.num_rows, num_columns), dtype=np.uint8)
    rows = model.rows(Z, parameters)
    kernel = sampler.make_kernel(rows, num_columns, warmup=warmup)
    counts = np.zeros(1 + target.size, dtype=np.int64)
    counts[0] = num_replicates
    _count_ends(
        kernel,
        rows,
        Z,
        np.cumsum(target),
        -1 if start is None else start,
        prior.log_odds(model.num_rows, alpha),
        NO_BIRTHS,
        rows.make_block(1),
        num_sweeps,
        power,
        rng,
        counts,
    )
    return counts[1:]


def chi_square_p_value(counts: np.ndarray, prob: np.ndarray, least_expected: float = 10.0) -> float:
    """p value of counts against probabilities; rare cells are lumped together. Impossible cells must stay empty."""
    total = counts.sum()
    if counts[prob == 0].sum() > 0:
        return 0.0
    order = np.argsort(-prob)
    expected = prob[order] * total
    observed = counts[order].astype(float)
    num_common = int(np.searchsorted(-expected, -least_expected, side="right"))
    if num_common < expected.size:
        expected = np.append(expected[:num_common], expected[num_common:].sum())
        observed = np.append(observed[:num_common], observed[num_common:].sum())
        if expected[-1] < least_expected and expected.size > 1:
            expected[-2] += expected[-1]
            observed[-2] += observed[-1]
            expected, observed = expected[:-1], observed[:-1]
    if expected.size == 1:
        return 1.0
    statistic = np.sum((observed - expected) ** 2 / expected)
    return float(stats.chi2.sf(statistic, expected.size - 1))


def left_ordered(Z: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Columns as a sorted tuple of tuples: the same for matrices that differ in the order of columns only."""
    return tuple(sorted(tuple(int(bit) for bit in column) for column in Z.T))


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


def joint_p_values(
    model, prior, sampler, statistics, *, num_replicates, num_rounds, seed, hide=None, warmup=False, **chain_options
) -> dict[str, float]:
    """Geweke's joint-distribution test with independent replicates.

    The prior draws a state and the likelihood draws data; then rounds of one iteration of the chain and a fresh draw of
    the data follow. All along the pair of state and data has the joint law of prior and likelihood, so statistics of it
    at the end are compared with those of direct draws.

    Parameters
    ----------
    statistics
        Function of a state and complete data that returns a dictionary of numbers.
    hide
        Mask of entries that the chain does not see.
    """
    rng = np.random.default_rng(seed)

    def observe(state):
        data = model.sample_data(state.Z, state.parameters, rng)
        if hide is not None:
            data = np.array(data, dtype=float)
            data[hide] = np.nan
        return model.with_data(data)

    def draw(num_rounds):
        chain = pgfa.Chain(model, prior, sampler, seed=rng, **chain_options)
        for _ in range(num_rounds):
            chain.model = observe(chain.state)
            chain.step(warmup=warmup)
        state = chain.state
        return statistics(state, model.sample_data(state.Z, state.parameters, rng))

    ends = [draw(num_rounds) for _ in range(num_replicates)]
    direct = [draw(0) for _ in range(4 * num_replicates)]
    return {name: float(stats.ks_2samp([d[name] for d in direct], [e[name] for e in ends]).pvalue) for name in ends[0]}
