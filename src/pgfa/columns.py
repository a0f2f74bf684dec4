"""The contract between column moves and models: data that are Gaussian in the values of the features.

And what the column moves share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled

#: Below this power of the likelihood the data say nothing that a column move could use.
LEAST_POWER = 1e-6


class ColumnView(NamedTuple):
    """Row n of the data is Normal(intercept + z_n V, tau_x) where observed, and V is Normal(0, tau_v).

    The table has the fields X (zero where missing), row_start and missing_in_row: see
    `pgfa.models.gaussian_rows.Table`.
    """

    table: Any
    V: NDArray[np.float64]
    intercept: NDArray[np.float64]
    tau_v: float
    tau_x: float


def draw_number_of_moves(rate: float, rng: np.random.Generator) -> int:
    """So many moves as the rate says; a fraction is the probability of one more."""
    whole, fraction = divmod(rate, 1.0)
    return int(whole) + int(rng.random() < fraction)


@compiled(liberty="arithmetic", allocates=False)
def read_residual(view, z, left_out, n, residual, is_observed):  # type: ignore[no-untyped-def]
    """Residual of row n, which is z, without the columns left out, and which of its entries are observed."""
    num_dims = residual.size
    table = view.table
    for d in range(num_dims):
        residual[d] = table.X[n, d] - view.intercept[d]
        is_observed[d] = 1.0
    for k in range(z.size):
        is_left_out = False
        for g in left_out:
            is_left_out |= g == k
        if z[k] == 1 and not is_left_out:
            for d in range(num_dims):
                residual[d] -= view.V[k, d]
    for i in range(table.row_start[n], table.row_start[n + 1]):
        residual[table.missing_in_row[i]] = 0.0
        is_observed[table.missing_in_row[i]] = 0.0
