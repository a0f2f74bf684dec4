"""Element-wise Gibbs: one entry of Z after the other, the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import implements
from pgfa.rows import RowView, flip, flipped, start
from pgfa.samplers.base import RowSampler, logistic, update_row


@dataclass(frozen=True)
class Gibbs(RowSampler):
    """Element-wise Gibbs sampler: the entries of a row, one at a time, in random order.

    Cheap, and easily stuck where features are correlated: to exchange one feature for another a row must pass through
    owning both or neither.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(2), pgfa.Gibbs(), seed=1)
    >>> chain.step(5)
    """

    def make_kernel(self, rows: RowView, num_columns: int, *, warmup: bool = False) -> GibbsKernel:
        return GibbsKernel(block=rows.make_block(1), log_lik=np.zeros(1), flipped_log_lik=np.zeros(1))


class GibbsKernel(NamedTuple):
    block: NDArray[np.float64]
    log_lik: NDArray[np.float64]
    flipped_log_lik: NDArray[np.float64]


@implements(update_row, GibbsKernel, allocates=False)
def _update_row(kernel, rows, n, z, log_odds, columns, num_columns, power, rng):  # type: ignore[no-untyped-def]
    kernel.log_lik[0] = start(rows, n, z, kernel.block)
    for t in range(num_columns):
        k = columns[t]
        sign = 1.0 - 2.0 * z[k]
        flipped(rows, n, k, sign, kernel.block, kernel.log_lik, 1, kernel.flipped_log_lik)
        log_ratio = sign * log_odds[k] + power * (kernel.flipped_log_lik[0] - kernel.log_lik[0])
        if rng.random() < logistic(log_ratio):
            flip(rows, n, k, sign, kernel.block)
            kernel.log_lik[0] = kernel.flipped_log_lik[0]
            z[k] = 1 - z[k]
