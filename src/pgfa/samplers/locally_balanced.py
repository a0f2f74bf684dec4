"""Locally balanced rows: flips proposed in proportion to a balanced function of what they would gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import checks, lanes
from pgfa._compile import compiled, implements
from pgfa.rows import RowView, flip, flipped, start
from pgfa.samplers.base import RowSampler, draw_index, logistic, update_row


@dataclass(frozen=True)
class LocallyBalanced(RowSampler):
    """Locally balanced Metropolis-Hastings update of a row [1]_.

    Each step weighs the flips of all entries by Barker's function r / (1 + r) of the ratio r of target densities, draws
    one of them, and accepts it with the ratio of the total weights before and after.

    Parameters
    ----------
    num_steps
        Steps a row; each evaluates all flips twice.

    References
    ----------
    .. [1] G. Zanella (2020). Informed proposals for local MCMC in discrete spaces. JASA 115.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(6), pgfa.LocallyBalanced(), seed=1)
    >>> chain.step(5)
    """

    num_steps: int = 4

    def __post_init__(self) -> None:
        checks.whole("num_steps", self.num_steps, at_least=1)

    def make_kernel(self, rows: RowView, num_columns: int, *, warmup: bool = False) -> LocallyBalancedKernel:
        return LocallyBalancedKernel(
            num_steps=int(self.num_steps),
            block=rows.make_block(1),
            log_lik=np.zeros(1),
            flipped_log_lik=np.zeros((2, num_columns)),
            weights=np.zeros((2, lanes.padded(num_columns))),
        )


class LocallyBalancedKernel(NamedTuple):
    """Settings, and memory for the flips of the present vector and of the proposed one."""

    num_steps: int
    block: NDArray[np.float64]
    log_lik: NDArray[np.float64]
    flipped_log_lik: NDArray[np.float64]
    weights: NDArray[np.float64]


@compiled(allocates=False)
def _weigh_flips(kernel, rows, n, z, log_odds, columns, num_columns, power, side):  # type: ignore[no-untyped-def]
    """Weights of all flips of z, whose log likelihood is at hand, and their total."""
    total = 0.0
    for i in range(num_columns):
        k = columns[i]
        sign = 1.0 - 2.0 * z[k]
        out = kernel.flipped_log_lik[side, i:]
        flipped(rows, n, k, sign, kernel.block, kernel.log_lik, 1, out)
        kernel.weights[side, i] = logistic(sign * log_odds[k] + power * (out[0] - kernel.log_lik[0]))
        total += kernel.weights[side, i]
    return total


@implements(update_row, LocallyBalancedKernel, allocates=False)
def _update_row(kernel, rows, n, z, log_odds, columns, num_columns, power, rng):  # type: ignore[no-untyped-def]
    here = 0
    kernel.log_lik[0] = start(rows, n, z, kernel.block)
    total = _weigh_flips(kernel, rows, n, z, log_odds, columns, num_columns, power, here)
    for _ in range(kernel.num_steps):
        if total == 0.0:  # all flips underflow: none would ever be drawn
            break
        i = draw_index(kernel.weights[here], num_columns, total, rng)
        k = columns[i]
        before = kernel.log_lik[0]
        flip(rows, n, k, 1.0 - 2.0 * z[k], kernel.block)
        z[k] = 1 - z[k]
        kernel.log_lik[0] = kernel.flipped_log_lik[here, i]
        total_there = _weigh_flips(kernel, rows, n, z, log_odds, columns, num_columns, power, 1 - here)
        # The ratio of the targets cancels against that of the balanced weights.
        if rng.random() * total_there < total:
            here = 1 - here
            total = total_there
        else:
            flip(rows, n, k, 1.0 - 2.0 * z[k], kernel.block)
            z[k] = 1 - z[k]
            kernel.log_lik[0] = before
