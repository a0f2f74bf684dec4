"""Row view of the PyClone model: the prevalences of one mutation in all samples are the predictor."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled, implements
from pgfa.models.pyclone_genotypes import Layouts
from pgfa.models.pyclone_likelihood import NUM_SCRATCH, Density, add_entries
from pgfa.rows import begin_row, flip, flipped, spawn, start


class CloneRows(NamedTuple):
    """Mutations for given population prevalences.

    Under the Indian buffet process a new population takes its share of a sample from all the others, so that a
    proposal for one row looks at all of them: `Z` is the matrix that the sweep changes, and columns without owner have
    V = 0.
    """

    layouts: Layouts
    density: Density
    Z: NDArray[np.uint8]
    V: NDArray[np.float64]
    F: NDArray[np.float64]
    nothing: NDArray[np.float64]
    shape: float
    rate: float
    informed: bool

    def make_block(self, num_particles: int) -> NDArray[np.float64]:
        """One line of prevalences for each sample, and below them working memory."""
        return np.empty((self.layouts.num_samples + NUM_SCRATCH + 1, num_particles))


def clone_rows(
    layouts: Layouts, density: Density, Z: Any, V: Any, shape: float, rate: float, informed: bool
) -> CloneRows:
    """The rows for these parameters."""
    rows = CloneRows(layouts, density, Z, V, np.empty_like(V), np.zeros(V.shape[1]), shape, rate, informed)
    normalise(V, rows.F)
    return rows


@compiled(allocates=False, brief=True)
def normalise(V, F):  # type: ignore[no-untyped-def]
    """F = V divided by the sum of its column; zero where that is zero."""
    num_features, num_samples = V.shape
    for m in range(num_samples):
        total = 0.0
        for k in range(num_features):
            total += V[k, m]
        scale = 1.0 / total if total > 0.0 else 0.0
        for k in range(num_features):
            F[k, m] = V[k, m] * scale


@implements(begin_row, CloneRows, allocates=False)
def _begin_row(rows, n):  # type: ignore[no-untyped-def]
    pass


@implements(start, CloneRows, allocates=False)
def _start(rows, n, z, block):  # type: ignore[no-untyped-def]
    num_samples = rows.layouts.num_samples
    for m in range(num_samples):
        block[m, 0] = 0.0
    for k in range(z.size):
        if z[k] == 1:
            for m in range(num_samples):
                block[m, 0] += rows.F[k, m]
    layout = rows.layouts.by_row
    scratch, log_lik, nothing = block[num_samples:], block[num_samples + NUM_SCRATCH], rows.nothing
    log_lik[0] = 0.0
    first, last = layout.row_start[n], layout.row_start[n + 1]
    add_entries(layout, rows.density, first, last, block, nothing, 0.0, 1, scratch, log_lik)
    return log_lik[0]


@implements(flipped, CloneRows, allocates=False)
def _flipped(rows, n, k, sign, block, log_lik, count, out):  # type: ignore[no-untyped-def]
    layout = rows.layouts.by_row
    scratch = block[rows.layouts.num_samples :]
    for i in range(count):
        out[i] = 0.0
    first, last = layout.row_start[n], layout.row_start[n + 1]
    add_entries(layout, rows.density, first, last, block, rows.F[k], sign, count, scratch, out)


@implements(flip, CloneRows, liberty="arithmetic", allocates=False)
def _flip(rows, n, k, sign, block):  # type: ignore[no-untyped-def]
    for m in range(rows.layouts.num_samples):
        block[m, 0] += sign * rows.F[k, m]


@implements(spawn, CloneRows, liberty="arithmetic", allocates=False)
def _spawn(rows, n, k, sign, block, parents, flips, count, out):  # type: ignore[no-untyped-def]
    for m in range(rows.layouts.num_samples):
        step = sign * rows.F[k, m]
        for i in range(count):
            out[m, i] = block[m, parents[i]] + step * flips[i]
