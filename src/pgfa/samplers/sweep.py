"""One sweep over all rows of Z: a single compiled call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled
from pgfa.rows import begin_row, draw_singletons, end_row, integrate_singletons, propose_singletons
from pgfa.samplers.base import shuffle, update_row


@compiled
def sweep(kernel, rows, Z, owners, log_odds_table, births, block, power, rng):  # type: ignore[no-untyped-def]
    """Update every row of Z once, in place.

    Parameters
    ----------
    kernel, rows
        Sampler and model.
    owners
        Number of owners of each column; kept up to date.
    log_odds_table
        Prior log odds of owning a column with 0, 1, ... other owners; minus infinity holds such columns as they are.
    births
        Number of singletons that each row proposes to have, drawn from its prior, or None where the number of columns
        is fixed, so that nothing about singletons is compiled. There must be at least as many columns without owner as
        births in all.
    block
        Memory for one particle.
    power
        Power of the likelihood.

    Returns
    -------
    Number of proposals that would change a row's singletons, and how many were accepted.
    """
    lists = np.empty((3, Z.shape[1]), dtype=np.int64)
    return _update_rows(kernel, rows, Z, owners, log_odds_table, births, block, power, rng, lists, np.empty(Z.shape[1]))


@compiled(allocates=False)
def _update_rows(kernel, rows, Z, owners, log_odds_table, births, block, power, rng, lists, log_odds):  # type: ignore[no-untyped-def]
    """Body of `sweep`, apart from it because it makes no arrays: it need not count references to those that it has.

    A row calls half a dozen functions with forty arrays each, so that counting would take as long as the work.
    """
    num_rows, num_columns = Z.shape
    columns, old, new = lists[0], lists[1], lists[2]
    proposed = 0
    accepted = 0
    for n in range(num_rows):
        z = Z[n]
        free = 0
        num_old = 0
        num_new = 0
        for k in range(num_columns):
            others = owners[k] - z[k]
            owners[k] = others
            log_odds[k] = log_odds_table[others]
            if log_odds[k] > -np.inf:
                columns[free] = k
                free += 1
            if births is not None:
                if others == 0 and z[k] == 1:
                    old[num_old] = k
                    num_old += 1
                elif others == 0 and num_new < births[n]:
                    new[num_new] = k
                    num_new += 1
        begin_row(rows, n)
        if free > 0:
            shuffle(columns, free, rng)
            row_power = -1.0
            if births is not None and num_old > 0:
                row_power = integrate_singletons(rows, num_old, power)
            integrated = row_power >= 0.0
            if integrated:
                for i in range(num_old):
                    z[old[i]] = 0
            update_row(kernel, rows, n, z, log_odds, columns, free, row_power if integrated else power, rng)
            if births is not None and integrated:
                for i in range(num_old):
                    z[old[i]] = 1
                draw_singletons(rows, n, z, old[:num_old], power, rng)
        if births is not None and (num_old > 0 or num_new > 0):
            proposed += 1
            if propose_singletons(rows, n, z, old[:num_old], new[:num_new], block, power, rng):
                accepted += 1
                for i in range(num_old):
                    z[old[i]] = 0
                for i in range(num_new):
                    z[new[i]] = 1
        for k in range(num_columns):
            owners[k] += z[k]
        end_row(rows, n, z)
    return proposed, accepted


def draw_births(num_rows: int, alpha: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each row the number of singletons that it will propose to have."""
    return rng.poisson(alpha / num_rows, size=num_rows)
