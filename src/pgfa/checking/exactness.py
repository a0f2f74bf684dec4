"""Does a kernel leave a known distribution as it found it?

Replicates are independent. Each one starts from an exact draw of the target, runs a few sweeps, and reports where it
ended; under a correct kernel these ends are again independent draws of the target, so that a chi-square or
Kolmogorov-Smirnov test has honest p values and no autocorrelation to argue about. A wrong kernel drifts away within the
sweeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pgfa._compile import compiled, implements
from pgfa.inference.chain import Chain
from pgfa.models.base import Model, Parameters
from pgfa.priors.base import Prior
from pgfa.samplers.base import RowSampler
from pgfa.samplers.sweep import sweep
from pgfa.state import State

#: A correct kernel fails a test with this probability; where seeds are fixed, in practice never.
SIGNIFICANCE = 1e-4

Statistics = Callable[[State, Any], dict[str, float]]


# --- enumeration ----------------------------------------------------------------------------------------------------


def all_matrices(num_rows: int, num_columns: int) -> NDArray[np.uint8]:
    """All binary matrices; the one at index i has the bits of i, row by row, lowest first."""
    size = num_rows * num_columns
    bits = (np.arange(2**size)[:, np.newaxis] >> np.arange(size)) & 1
    return bits.reshape(-1, num_rows, num_columns).astype(np.uint8)


def enumerate_posterior(
    model: Model,
    prior: Prior,
    parameters: Parameters,
    alpha: float,
    num_columns: int,
    *,
    restrict_to_used: bool = False,
    power: float = 1.0,
) -> NDArray[np.float64]:
    """Posterior probability of each matrix with parameters fixed; optionally only of those without an empty column.

    The mass of the Indian buffet process does not depend on the order of the columns, so restricted to matrices with
    exactly these columns, all used, it is a distribution over labelled matrices as well.
    """
    matrices = all_matrices(model.num_rows, num_columns)
    log_prob = np.array([prior.log_prob(Z, alpha) + power * model.log_likelihood(Z, parameters) for Z in matrices])
    if restrict_to_used:
        log_prob[~np.all(matrices.any(axis=1), axis=1)] = -np.inf
    prob = np.exp(log_prob - log_prob.max())
    return prob / prob.sum()


def rebuild(rows: Any, Z: Any) -> None:
    """Make a row view that remembers Z forget what it remembers and look at Z anew."""
    raise NotImplementedError


@implements(rebuild, None)
def _nothing_to_rebuild(rows, Z):  # type: ignore[no-untyped-def]
    pass


@compiled
def _count_ends(kernel, rows, Z, cumulative, fixed_start, log_odds, births, block, num_sweeps, power, rng, counts):  # type: ignore[no-untyped-def]
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
    model: Model,
    prior: Prior,
    sampler: RowSampler,
    parameters: Parameters,
    alpha: float,
    num_columns: int,
    target: NDArray[np.float64],
    *,
    num_replicates: int,
    seed: int,
    num_sweeps: int = 3,
    start: int | None = None,
    warmup: bool = False,
    power: float = 1.0,
) -> NDArray[np.int64]:
    """How often each matrix is where a replicate ends. Starts are drawn from `target` unless given as an index.

    All replicates share one row view, so one that remembers Z has to implement `rebuild`.
    """
    rng = np.random.default_rng(seed)
    Z = np.zeros((model.num_rows, num_columns), dtype=np.uint8)
    rows = model.rows(Z, parameters)
    kernel = sampler.make_kernel(rows, num_columns, warmup=warmup)
    counts = np.zeros(1 + target.size, dtype=np.int64)
    counts[0] = num_replicates
    fixed_start = -1 if start is None else start
    _count_ends(
        kernel, rows, Z, np.cumsum(target), fixed_start, prior.log_odds(model.num_rows, alpha), None,
        rows.make_block(1), num_sweeps, power, rng, counts,
    )  # fmt: skip
    return counts[1:]


def count_ends_of_any_model(
    model: Model,
    prior: Prior,
    sampler: RowSampler,
    parameters: Parameters,
    alpha: float,
    num_columns: int,
    target: NDArray[np.float64],
    *,
    num_replicates: int,
    seed: int,
    num_sweeps: int = 3,
) -> NDArray[np.int64]:
    """As `count_ends`, but slower: every replicate has a row view of its own, so nothing need be known of views."""
    rng = np.random.default_rng(seed)
    matrices = all_matrices(model.num_rows, num_columns)
    bits = 1 << np.arange(matrices[0].size)
    log_odds = prior.log_odds(model.num_rows, alpha)
    counts = np.zeros(target.size, dtype=np.int64)
    for code in rng.choice(target.size, size=num_replicates, p=target):
        Z = matrices[code].copy()
        rows = model.rows(Z, parameters)
        kernel = sampler.make_kernel(rows, num_columns)
        owners = Z.sum(axis=0, dtype=np.int64)
        for _ in range(num_sweeps):
            sweep(kernel, rows, Z, owners, log_odds, None, rows.make_block(1), 1.0, rng)
        counts[int(Z.ravel() @ bits)] += 1
    return counts


def chi_square_p_value(counts: NDArray[Any], prob: NDArray[np.float64], least_expected: float = 10.0) -> float:
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


# --- the joint law of state and data --------------------------------------------------------------------------------


def joint_p_values(
    model: Model,
    prior: Prior,
    sampler: RowSampler,
    statistics: Statistics,
    *,
    num_replicates: int,
    num_rounds: int,
    seed: int,
    hide: NDArray[np.bool_] | None = None,
    warmup: bool = False,
    power: float = 1.0,
    **chain_options: Any,
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
    power
        Power of the likelihood in the chain's updates: one, or zero. With zero the chain ignores the data and must
        leave the prior as it is.
    """
    rng = np.random.default_rng(seed)

    def observe(state: State) -> Model:
        data = model.sample_data(state.Z, state.parameters, rng)
        if hide is not None:
            data = np.array(data, dtype=float)
            data[hide] = np.nan
        return model.with_data(data)

    def draw(num_rounds: int) -> dict[str, float]:
        chain = Chain(model, prior, sampler, seed=rng, **chain_options)
        for _ in range(num_rounds):
            if power > 0.0:
                chain.model = observe(chain.state)
            chain.step(warmup=warmup, power=power)
        state = chain.state
        return statistics(state, model.sample_data(state.Z, state.parameters, rng))

    ends = [draw(num_rounds) for _ in range(num_replicates)]
    direct = [draw(0) for _ in range(4 * num_replicates)]
    return {name: float(stats.ks_2samp([d[name] for d in direct], [e[name] for e in ends]).pvalue) for name in ends[0]}
