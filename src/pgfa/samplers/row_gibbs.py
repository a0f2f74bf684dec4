"""Row Gibbs: an exact draw of a whole row from all of its 2^K vectors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import checks, lanes
from pgfa._compile import compiled, implements
from pgfa.rows import RowView, flip, flipped, start
from pgfa.samplers.base import RowSampler, draw_index, exponentiate, update_row


@dataclass(frozen=True)
class RowGibbs(RowSampler):
    """Exact Gibbs draw of a whole row, by enumeration of its vectors in Gray-code order (one flip each).

    Parameters
    ----------
    max_columns
        With more columns than this, each update draws a random block of that many exactly and holds the others, which
        is still a valid Gibbs step. The cost doubles with each column.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(2), pgfa.RowGibbs(), seed=1)
    >>> chain.step(5)
    """

    max_columns: int = 16

    def __post_init__(self) -> None:
        if checks.whole("max_columns", self.max_columns, at_least=1) > 24:
            raise ValueError(f"max_columns must be at most 24 (2^24 vectors a row), got {self.max_columns}")

    def make_kernel(self, rows: RowView, num_columns: int, *, warmup: bool = False) -> RowGibbsKernel:
        if num_columns > self.max_columns:
            _warn_of_blocks(self.max_columns)
        num_vectors = 2 ** min(num_columns, self.max_columns)
        return RowGibbsKernel(
            max_columns=self.max_columns,
            block=rows.make_block(1),
            log_lik=np.zeros(1),
            flipped_log_lik=np.zeros(1),
            log_weights=np.zeros(lanes.padded(num_vectors)),
            weights=np.zeros(lanes.padded(num_vectors)),
        )


_warned_of_blocks: set[int] = set()


def _warn_of_blocks(max_columns: int) -> None:
    if max_columns not in _warned_of_blocks:
        _warned_of_blocks.add(max_columns)
        warnings.warn(
            f"RowGibbs has more columns than max_columns={max_columns}: each row update draws a random block of "
            f"{max_columns} columns exactly and holds the others. This is valid, but mixes more slowly; "
            "DiscreteParticleFilter moves whole rows at any number of columns.",
            stacklevel=2,
        )


class RowGibbsKernel(NamedTuple):
    max_columns: int
    block: NDArray[np.float64]
    log_lik: NDArray[np.float64]
    flipped_log_lik: NDArray[np.float64]
    log_weights: NDArray[np.float64]
    weights: NDArray[np.float64]


@compiled(allocates=False)
def _changed_bit(i):  # type: ignore[no-untyped-def]
    """The bit in which the i-th and the (i-1)-th Gray code differ: the number of trailing zeros of i."""
    bit = 0
    while i & 1 == 0:
        i >>= 1
        bit += 1
    return bit


@implements(update_row, RowGibbsKernel, allocates=False)
def _update_row(kernel, rows, n, z, log_odds, columns, num_columns, power, rng):  # type: ignore[no-untyped-def]
    size = min(num_columns, kernel.max_columns)
    num_vectors = 1 << size
    # The walk starts at the present vector, so weights are relative to its own.
    kernel.log_lik[0] = start(rows, n, z, kernel.block)
    first_log_lik = kernel.log_lik[0]
    log_prior = 0.0
    kernel.log_weights[0] = 0.0
    for i in range(1, num_vectors):
        k = columns[_changed_bit(i)]
        sign = 1.0 - 2.0 * z[k]
        flipped(rows, n, k, sign, kernel.block, kernel.log_lik, 1, kernel.flipped_log_lik)
        flip(rows, n, k, sign, kernel.block)
        kernel.log_lik[0] = kernel.flipped_log_lik[0]
        log_prior += sign * log_odds[k]
        z[k] = 1 - z[k]
        kernel.log_weights[i] = log_prior + power * (kernel.log_lik[0] - first_log_lik)
    total = exponentiate(kernel.log_weights, num_vectors, kernel.weights)
    chosen = draw_index(kernel.weights, num_vectors, total, rng)
    # The walk has ended one flip of the highest bit away from where it began.
    at_end = num_vectors >> 1
    code = chosen ^ (chosen >> 1)
    for bit in range(size):
        if ((code ^ at_end) >> bit) & 1:
            z[columns[bit]] = 1 - z[columns[bit]]
