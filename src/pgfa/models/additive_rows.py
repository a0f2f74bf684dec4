"""Row view of models that users write: the features of a row add up to a predictor, and the user says the rest.

The user's functions are declared here and implemented for the class of the model's data with
`pgfa._compile.implements`. They are handed a predictor of their own, never a particle of the block, so that one which
changes it in place does no harm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled, implements
from pgfa.rows import begin_row, draw_feature, flip, flipped, spawn, start


def user_row_log_likelihood(data: Any, parameters: Any, n: int, predictor: Any) -> float:
    """Log likelihood of row n whose features add up to `predictor`."""
    raise NotImplementedError


def user_feature_log_prior(data: Any, parameters: Any, k: int) -> float:
    """Log prior density of the parameters of feature k."""
    raise NotImplementedError


def user_draw_feature(data: Any, parameters: Any, k: int, rng: Any) -> None:
    """Draw the parameters of feature k from their prior, in place."""
    raise NotImplementedError


class AdditiveRows(NamedTuple):
    """Rows for fixed parameters; a particle of the block is a predictor.

    `lowest` is the least value that an entry of V may have: draws of positive features must not be rounded to zero.
    """

    data: Any
    parameters: Any
    V: NDArray[np.float64]
    lowest: float
    scratch: NDArray[np.float64]

    def make_block(self, num_particles: int) -> NDArray[np.float64]:
        return np.empty((num_particles, self.V.shape[1]))


@compiled(allocates=False)
def evaluate(rows, n):  # type: ignore[no-untyped-def]
    """Log likelihood of row n at the predictor in the view's scratch, which may be overwritten."""
    value = user_row_log_likelihood(rows.data, rows.parameters, n, rows.scratch)
    if not np.isfinite(value):
        raise ValueError(
            "row_log_likelihood returned infinity or NaN: it must return a finite number for every choice "
            "of features (where that makes the data impossible, a very low one such as -1e6)"
        )
    return value


@implements(begin_row, AdditiveRows, allocates=False)
def _begin_row(rows, n):  # type: ignore[no-untyped-def]
    pass


@implements(start, AdditiveRows, allocates=False)
def _start(rows, n, z, block):  # type: ignore[no-untyped-def]
    num_dims = rows.V.shape[1]
    for d in range(num_dims):
        block[0, d] = 0.0
    for k in range(z.size):
        if z[k] == 1:
            for d in range(num_dims):
                block[0, d] += rows.V[k, d]
    for d in range(num_dims):
        rows.scratch[d] = block[0, d]
    return evaluate(rows, n)


@implements(flipped, AdditiveRows, allocates=False)
def _flipped(rows, n, k, sign, block, log_lik, count, out):  # type: ignore[no-untyped-def]
    for i in range(count):
        for d in range(rows.V.shape[1]):
            rows.scratch[d] = block[i, d] + sign * rows.V[k, d]
        out[i] = evaluate(rows, n)


@implements(flip, AdditiveRows, allocates=False)
def _flip(rows, n, k, sign, block):  # type: ignore[no-untyped-def]
    for d in range(rows.V.shape[1]):
        block[0, d] += sign * rows.V[k, d]


@implements(spawn, AdditiveRows, allocates=False)
def _spawn(rows, n, k, sign, block, parents, flips, count, out):  # type: ignore[no-untyped-def]
    for i in range(count):
        parent = parents[i]
        step = sign * flips[i]
        for d in range(rows.V.shape[1]):
            out[i, d] = block[parent, d] + step * rows.V[k, d]


@implements(draw_feature, AdditiveRows, allocates=False)
def _draw_feature(rows, k, rng):  # type: ignore[no-untyped-def]
    user_draw_feature(rows.data, rows.parameters, k, rng)
    for d in range(rows.V.shape[1]):
        rows.V[k, d] = max(rows.V[k, d], rows.lowest)


@compiled(allocates=False)
def draw_features(rows, rng):  # type: ignore[no-untyped-def]
    """Draw all features from their prior."""
    for k in range(rows.V.shape[0]):
        draw_feature(rows, k, rng)


@compiled(allocates=False)
def features_log_prior(rows):  # type: ignore[no-untyped-def]
    """Log prior density of all features."""
    total = 0.0
    for k in range(rows.V.shape[0]):
        total += user_feature_log_prior(rows.data, rows.parameters, k)
    return total


@compiled
def add_up(Z, V, predictors):  # type: ignore[no-untyped-def]
    """Write the predictors of all rows."""
    predictors[:] = 0.0
    for n in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            if Z[n, k] == 1:
                for d in range(V.shape[1]):
                    predictors[n, d] += V[k, d]


@compiled
def rows_log_likelihood(rows, predictors):  # type: ignore[no-untyped-def]
    """Log likelihood of all rows at these predictors, finite or not."""
    total = 0.0
    for n in range(predictors.shape[0]):
        rows.scratch[:] = predictors[n]
        total += user_row_log_likelihood(rows.data, rows.parameters, n, rows.scratch)
    return total
