"""Metropolis-Hastings flips of one or several entries of a row at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa._compile import implements
from pgfa.rows import RowView, flip, flipped, start
from pgfa.samplers.base import RowSampler, update_row


@dataclass(frozen=True)
class MetropolisFlips(RowSampler):
    """Metropolis-Hastings update of a row by flips of random sets of entries.

    With ``max_flips=1`` every entry is proposed once, in random order: metropolised Gibbs [1]_, which moves more often
    than Gibbs and costs the same. With more, each proposal flips a set of entries, after the multi-flip moves of [2]_:
    its size is drawn uniformly from 1 to `max_flips`, its entries uniformly, so that the proposal is symmetric.

    Parameters
    ----------
    max_flips
        Entries that one proposal flips, at most.

    References
    ----------
    .. [1] J. S. Liu (1996). Peskun's theorem and a modified discrete-state Gibbs sampler. Biometrika 83.
    .. [2] E. Meeds, Z. Ghahramani, R. M. Neal, S. T. Roweis (2007). Modeling dyadic data with binary latent factors.
       NIPS 19.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(4), pgfa.MetropolisFlips(3), seed=1)
    >>> chain.step(5)
    """

    max_flips: int = 1

    def __post_init__(self) -> None:
        checks.whole("max_flips", self.max_flips, at_least=1)

    def make_kernel(self, rows: RowView, num_columns: int, *, warmup: bool = False) -> MetropolisFlipsKernel:
        return MetropolisFlipsKernel(
            max_flips=int(self.max_flips),
            block=rows.make_block(1),
            log_lik=np.zeros(1),
            flipped_log_lik=np.zeros(1),
            order=np.zeros(num_columns, dtype=np.int64),
        )


class MetropolisFlipsKernel(NamedTuple):
    max_flips: int
    block: NDArray[np.float64]
    log_lik: NDArray[np.float64]
    flipped_log_lik: NDArray[np.float64]
    order: NDArray[np.int64]


@implements(update_row, MetropolisFlipsKernel, allocates=False)
def _update_row(kernel, rows, n, z, log_odds, columns, num_columns, power, rng):  # type: ignore[no-untyped-def]
    order = kernel.order
    for i in range(num_columns):
        order[i] = columns[i]
    most = min(kernel.max_flips, num_columns)
    kernel.log_lik[0] = start(rows, n, z, kernel.block)
    # As many entries are flipped and evaluated as in one pass of Gibbs, on average.
    evaluated = 0
    while evaluated < num_columns:
        size = 1 if most == 1 else 1 + int(rng.random() * most)
        before = kernel.log_lik[0]
        log_prior = 0.0
        for i in range(size):
            if most == 1:
                j = evaluated  # the columns come in random order: one after the other
            else:
                j = i + int(rng.random() * (num_columns - i))
                order[i], order[j] = order[j], order[i]
                j = i
            k = order[j]
            sign = 1.0 - 2.0 * z[k]
            flipped(rows, n, k, sign, kernel.block, kernel.log_lik, 1, kernel.flipped_log_lik)
            flip(rows, n, k, sign, kernel.block)
            kernel.log_lik[0] = kernel.flipped_log_lik[0]
            log_prior += sign * log_odds[k]
            z[k] = 1 - z[k]
        if np.log(rng.random()) >= log_prior + power * (kernel.log_lik[0] - before):
            for i in range(size):
                k = order[evaluated] if most == 1 else order[i]
                flip(rows, n, k, 1.0 - 2.0 * z[k], kernel.block)
                z[k] = 1 - z[k]
            kernel.log_lik[0] = before
        evaluated += size
