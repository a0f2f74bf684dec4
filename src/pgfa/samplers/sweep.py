"""One sweep over all rows of Z: a single compiled call."""

from __future__ import annotations

import numpy as np

from pgfa._compile import compiled
from pgfa.rows import begin_row, end_row
from pgfa.samplers.base import shuffle, update_row
from pgfa.samplers.singletons import has_room, move_singletons, power_for_shared


@compiled
def sweep(kernel, rows, Z, owners, log_odds_table, births, block, power, rng, first_row=0):  # type: ignore[no-untyped-def]
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
        How the number of a row's singletons moves (see `pgfa.samplers.singletons`), or None where columns without
        another owner are like any other, so that nothing about singletons is compiled.
    block
        Memory for one particle.
    power
        Power of the likelihood.
    first_row
        Where to begin.

    Returns
    -------
    The row that would be next (one in the middle where there are too few columns without owner to go on), number of
    rows whose singletons might have changed, and number of those where they did.
    """
    lists = np.empty((3, Z.shape[1]), dtype=np.int64)
    log_odds = np.empty(Z.shape[1])
    return _update_rows(kernel, rows, Z, owners, log_odds_table, births, block, power, rng, first_row, lists, log_odds)


@compiled(allocates=False)
def _update_rows(  # type: ignore[no-untyped-def]
    kernel, rows, Z, owners, log_odds_table, births, block, power, rng, first_row, lists, log_odds
):
    """Body of `sweep`, apart from it because it makes no arrays: it need not count references to those that it has.

    A row calls half a dozen functions with forty arrays each, so that counting would take as long as the work.
    """
    num_rows, num_columns = Z.shape
    columns, own, empty = lists[0], lists[1], lists[2]
    tried = 0
    changed = 0
    for n in range(first_row, num_rows):
        z = Z[n]
        free = 0
        num_own = 0
        num_empty = 0
        for k in range(num_columns):
            others = owners[k] - z[k]
            log_odds[k] = log_odds_table[others]
            if births is not None and others == 0:
                if z[k] == 1:
                    own[num_own] = k
                    num_own += 1
                else:
                    empty[num_empty] = k
                    num_empty += 1
            elif log_odds[k] > -np.inf:
                columns[free] = k
                free += 1
        if births is not None and not has_room(births, num_empty, num_columns - num_empty):
            return n, tried, changed
        for k in range(num_columns):
            owners[k] -= z[k]
        begin_row(rows, n)
        integrated = False
        if free > 0:
            shuffle(columns, free, rng)
            row_power = power
            if births is not None and num_own > 0:
                power_if_integrated = power_for_shared(births, rows, num_own, power)
                integrated = power_if_integrated >= 0.0
                if integrated:
                    row_power = power_if_integrated
                    for i in range(num_own):
                        z[own[i]] = 0
            update_row(kernel, rows, n, z, log_odds, columns, free, row_power, rng)
            if integrated:
                for i in range(num_own):
                    z[own[i]] = 1
        if births is not None:
            was_tried, was_changed = move_singletons(
                births, rows, n, z, own, num_own, empty, num_empty, num_columns - num_own - num_empty, integrated,
                block, power, rng,
            )  # fmt: skip
            tried += was_tried
            changed += was_changed
        for k in range(num_columns):
            owners[k] += z[k]
        end_row(rows, n, z)
    return num_rows, tried, changed
