"""Scores of a fit against the truth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import checks

#: Rows of the pairwise tables of `b_cubed` that are held at once.
_CHUNK = 256


def relative_log_density(log_density: Any, true: float) -> Any:
    """Log density relative to that of the truth, ``(l - l_true) / |l_true|``: above zero is better than the truth.

    Parameters
    ----------
    log_density
        A number or an array of them.
    true
        Log density of the true state, which must not be zero.

    Examples
    --------
    >>> from pgfa.metrics import relative_log_density
    >>> relative_log_density(-110.0, true=-100.0)
    -0.1
    """
    reference = checks.real("true", true)
    if reference == 0.0:
        raise ValueError("true must not be zero: nothing is relative to it")
    relative = (np.asarray(log_density, dtype=float) - reference) / abs(reference)
    return float(relative) if relative.ndim == 0 else relative


def rmse(truth: Any, estimate: Any, where: Any = None) -> float:
    """Root mean square error over some entries.

    Parameters
    ----------
    truth, estimate
        Arrays of the same shape.
    where
        Which entries count; all of them unless given. At least one must, and no NaN may be among them.

    Examples
    --------
    >>> import numpy as np
    >>> from pgfa.metrics import rmse
    >>> rmse([1.0, 2.0, np.nan], [1.0, 4.0, 5.0], where=[False, True, False])
    2.0
    """
    expected, found = np.asarray(truth, dtype=float), np.asarray(estimate, dtype=float)
    if expected.shape != found.shape:
        raise ValueError(f"truth and estimate must have the same shape, got {expected.shape} and {found.shape}")
    chosen = np.ones(expected.shape, dtype=bool) if where is None else np.asarray(where)
    if chosen.dtype != bool or chosen.shape != expected.shape:
        raise ValueError(f"where must be boolean of shape {expected.shape}, got {chosen.dtype} of shape {chosen.shape}")
    if not chosen.any():
        raise ValueError("where must choose at least one entry")
    errors = expected[chosen] - found[chosen]
    if np.isnan(errors).any():
        raise ValueError("truth and estimate must not be NaN where they are compared")
    return float(np.sqrt(np.mean(errors**2)))


class BCubed(NamedTuple):
    """Extended B-Cubed scores: `f` is the harmonic mean of `precision` and `recall`."""

    f: float
    precision: float
    recall: float


def b_cubed(Z_true: Any, Z: Any) -> BCubed:
    """Extended B-Cubed agreement of two feature matrices, whatever the order and number of their columns.

    Take a row and another that shares at least one feature with it in `Z` (the row itself is one of them). Their
    precision is the number of features that they share in both matrices at most, ``min(shared, shared_true)``, over the
    number that they share in `Z`. This is averaged over the other rows, then over all rows. Recall is the same with the
    two matrices exchanged.

    A row without any feature in `Z` shares nothing with anybody, itself included: it claims nothing and does not enter
    the precision. In the same way a row without any feature in `Z_true` does not enter the recall. Where no row enters
    an average it is 1: of nothing claimed, nothing is wrong. (Such a score pays with the other average.)

    Parameters
    ----------
    Z_true, Z
        Binary matrices with the same number of rows.

    References
    ----------
    Amigó, Gonzalo, Artiles and Verdejo (2009). A comparison of extrinsic clustering evaluation metrics based on formal
    constraints. Information Retrieval 12, 461-486.

    Examples
    --------
    >>> from pgfa.metrics import b_cubed
    >>> b_cubed([[1, 0], [1, 1]], [[0, 1], [1, 1]])
    BCubed(f=1.0, precision=1.0, recall=1.0)
    >>> b_cubed([[1, 0], [0, 1]], [[1], [1]])  # two features lumped together
    BCubed(f=0.6666666666666666, precision=0.5, recall=1.0)
    """
    true = checks.binary_matrix("Z_true", Z_true, np.shape(Z_true)[0] if np.ndim(Z_true) else 0)
    found = checks.binary_matrix("Z", Z, true.shape[0])
    # Counts of shared features are small whole numbers, exact in single precision.
    L, C = true.astype(np.float32), found.astype(np.float32)
    precisions, recalls = [], []
    for first in range(0, true.shape[0], _CHUNK):
        rows = slice(first, first + _CHUNK)
        shared_true, shared = L[rows] @ L.T, C[rows] @ C.T
        both = np.minimum(shared_true, shared)
        precisions.append(_mean_over_sharers(both, shared))
        recalls.append(_mean_over_sharers(both, shared_true))
    precision, recall = _mean_or_one(np.concatenate(precisions)), _mean_or_one(np.concatenate(recalls))
    f = 2.0 * precision * recall / (precision + recall) if precision + recall > 0.0 else 0.0
    return BCubed(f, precision, recall)


def _mean_over_sharers(both: NDArray[np.float32], shared: NDArray[np.float32]) -> NDArray[np.float64]:
    """For each row that shares features with anybody, the mean over those others of both / shared."""
    others = np.count_nonzero(shared, axis=1)
    has_any = others > 0
    ratio = np.divide(both, np.maximum(shared, 1.0), dtype=np.float64)
    return ratio.sum(axis=1)[has_any] / others[has_any]


def _mean_or_one(scores: NDArray[np.float64]) -> float:
    return float(scores.mean()) if scores.size else 1.0
