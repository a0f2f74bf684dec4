"""The contract between column moves and models: data that are Gaussian in the values of the features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
