"""Bringing data onto a common scale."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from pgfa import checks

Matrix = TypeVar("Matrix")


def standardise(X: Matrix) -> Matrix:
    """Shift and scale each column to mean 0 and standard deviation 1 over its observed entries.

    NaN stays NaN. A column whose observed entries are all the same is only shifted, to zero. A pandas table comes back
    as a table with the same labels.

    Parameters
    ----------
    X
        Matrix of shape (N, D), an array or a pandas table.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> pgfa.standardise([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]])
    array([[-1.,  0.],
           [ 1.,  0.],
           [nan,  0.]])
    """
    values = checks.numeric_matrix("X", X, missing=True)
    for column in values.T:
        observed = column[~np.isnan(column)]
        if observed.size == 0:
            continue
        # Compared first: rounding in the mean would give a constant column a tiny spread.
        if observed.min() == observed.max():
            column[~np.isnan(column)] = 0.0
        else:
            column -= observed.mean()
            column /= observed.std()
    if hasattr(X, "index") and hasattr(X, "columns"):
        return type(X)(values, index=X.index, columns=X.columns)  # type: ignore[call-arg]
    return values  # type: ignore[return-value]
