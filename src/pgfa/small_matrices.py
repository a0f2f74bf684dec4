"""Cholesky factors of matrices too small for a library call to pay."""

from __future__ import annotations

import numpy as np

from pgfa._compile import compiled


@compiled(liberty="arithmetic", allocates=False)
def factorise(A, least=-np.inf):  # type: ignore[no-untyped-def]
    """Replace the lower triangle of a positive definite matrix by its Cholesky factor.

    Squares on its diagonal are no smaller than `least`, for matrices that rounding may have made singular.
    """
    for i in range(A.shape[0]):
        for j in range(i + 1):
            value = A[i, j]
            for k in range(j):
                value -= A[i, k] * A[j, k]
            A[i, j] = np.sqrt(max(value, least)) if i == j else value / A[j, j]


@compiled(liberty="arithmetic", allocates=False)
def solve_lower(factor, b, x):  # type: ignore[no-untyped-def]
    """Solve factor x = b; x may be b."""
    for i in range(b.size):
        value = b[i]
        for j in range(i):
            value -= factor[i, j] * x[j]
        x[i] = value / factor[i, i]


@compiled(liberty="arithmetic", allocates=False)
def solve_upper(factor, b, x):  # type: ignore[no-untyped-def]
    """Solve factor' x = b; x may be b."""
    for i in range(b.size - 1, -1, -1):
        value = b[i]
        for j in range(i + 1, b.size):
            value -= factor[j, i] * x[j]
        x[i] = value / factor[i, i]
