"""Row views of the linear Gaussian model.

Given V, the log likelihood of row n is ``-tau_x / 2 * |r|^2`` with the residual ``r = x - intercept - z V`` over its
observed entries. Flipping feature k changes it by ``± tau_x v_k . r - tau_x / 2 |v_k|^2``. Two views keep what is
needed for that:

- `GramRows` carries ``tau_x v_k . r`` for all k. A flip is evaluated by looking one number up, and made by subtracting
  a row of the Gram matrix ``tau_x V V'``: nothing depends on the number of dimensions. Where a filter says in which
  order it decides the columns, they are put into that order, and each step carries the columns that come after it.
- `ResidualRows` carries r itself: better where there are many more features than dimensions, and where the data are so
  large beside the noise that products of them would lose the digits that matter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled, implements
from pgfa.lanes import LANES
from pgfa.rows import (
    begin_row,
    draw_feature,
    draw_singletons,
    flip,
    flipped,
    follow,
    integrate_singletons,
    propose_singletons,
    propose_singletons_from_prior,
    spawn,
    start,
    weigh_singletons,
)
from pgfa.vector_math import subtract_multiple


class Table(NamedTuple):
    """A data matrix with holes: zero where missing, and lists of what is missing by row and by column."""

    X: NDArray[np.float64]
    row_start: NDArray[np.int64]
    missing_in_row: NDArray[np.int32]
    column_start: NDArray[np.int64]
    missing_in_column: NDArray[np.int32]


def make_table(X: NDArray[np.float64]) -> Table:
    """Index the missing entries of a matrix and set them to zero, in place."""
    missing = np.isnan(X)
    row, column = np.nonzero(missing)
    by_column = np.argsort(column, kind="stable")
    row_start = np.concatenate([[0], np.cumsum(missing.sum(axis=1))]).astype(np.int64)
    column_start = np.concatenate([[0], np.cumsum(missing.sum(axis=0))]).astype(np.int64)
    X[missing] = 0.0
    return Table(X, row_start, column.astype(np.int32), column_start, row[by_column].astype(np.int32))


class GramRows(NamedTuple):
    """Rows seen through products of features: `row_gram` and `projection` are those of the row at hand.

    Feature k of a particle stands at ``place[k]`` of the block. Once a filter has said in which order it decides the
    columns, they stand in that order, as do the products in `ordered_gram`; before that, in their own.
    """

    table: Table
    V: NDArray[np.float64]
    intercept: NDArray[np.float64]
    tau_v: float
    tau_x: float
    collapsed: bool
    V_by_column: NDArray[np.float64]
    gram: NDArray[np.float64]
    shift: NDArray[np.float64]
    row_gram: NDArray[np.float64]
    projection: NDArray[np.float64]
    is_complete: NDArray[np.bool_]
    present: NDArray[np.float64]
    is_ordered: NDArray[np.bool_]
    place: NDArray[np.int64]
    feature_at: NDArray[np.int64]
    ordered_gram: NDArray[np.float64]
    residual: NDArray[np.float64]

    def make_block(self, num_particles: int) -> NDArray[np.float64]:
        return np.zeros((num_particles, self.ordered_gram.shape[1]))


class ResidualRows(NamedTuple):
    """Rows seen through residuals: `row_V` and `row_half_norm` leave out what is missing in the row at hand."""

    table: Table
    V: NDArray[np.float64]
    intercept: NDArray[np.float64]
    tau_v: float
    tau_x: float
    collapsed: bool
    half_norm: NDArray[np.float64]
    row_V: NDArray[np.float64]
    row_half_norm: NDArray[np.float64]
    centred: NDArray[np.float64]
    is_complete: NDArray[np.bool_]
    residual: NDArray[np.float64]

    def make_block(self, num_particles: int) -> NDArray[np.float64]:
        return np.empty((self.V.shape[1], num_particles))


def gram_rows(table: Table, V: Any, intercept: Any, tau_v: float, tau_x: float, collapsed: bool) -> GramRows:
    """The rows of a table for these parameters, seen through products of features."""
    num_features = V.shape[0]
    width = -(-num_features // LANES) * LANES
    rows = GramRows(
        table, V, intercept, tau_v, tau_x, collapsed,
        V_by_column=np.empty((V.shape[1], num_features)),
        gram=np.empty((num_features, num_features)),
        shift=np.empty(num_features),
        row_gram=np.zeros((num_features, width)),
        projection=np.empty(num_features),
        is_complete=np.zeros(1, dtype=np.bool_),
        present=np.empty(num_features),
        is_ordered=np.zeros(1, dtype=np.bool_),
        place=np.arange(num_features),
        feature_at=np.arange(num_features),
        ordered_gram=np.zeros((num_features, width)),
        residual=np.empty(V.shape[1]),
    )  # fmt: skip
    _store_all(rows)
    return rows


def residual_rows(table: Table, V: Any, intercept: Any, tau_v: float, tau_x: float, collapsed: bool) -> ResidualRows:
    """The rows of a table for these parameters, seen through residuals."""
    rows = ResidualRows(
        table, V, intercept, tau_v, tau_x, collapsed,
        half_norm=np.empty(V.shape[0]),
        row_V=np.empty(V.shape),
        row_half_norm=np.empty(V.shape[0]),
        centred=np.empty(V.shape[1]),
        is_complete=np.zeros(1, dtype=np.bool_),
        residual=np.empty(V.shape[1]),
    )  # fmt: skip
    _store_all(rows)
    return rows


def store_feature(rows: Any, k: int) -> None:
    """Take note that V[k] has changed."""
    raise NotImplementedError


@compiled(allocates=False)
def _store_all(rows):  # type: ignore[no-untyped-def]
    for k in range(rows.V.shape[0]):
        store_feature(rows, k)


# --- through products of features -----------------------------------------------------------------------------------


@implements(store_feature, GramRows, liberty="arithmetic", allocates=False)
def _gram_store_feature(rows, k):  # type: ignore[no-untyped-def]
    num_features, num_dims = rows.V.shape
    rows.is_complete[0] = False
    shift = 0.0
    for d in range(num_dims):
        shift += rows.V[k, d] * rows.intercept[d]
    for d in range(num_dims):
        rows.V_by_column[d, k] = rows.V[k, d]
    rows.shift[k] = rows.tau_x * shift
    for j in range(num_features):
        product = 0.0
        for d in range(num_dims):
            product += rows.V[j, d] * rows.V[k, d]
        rows.gram[j, k] = rows.tau_x * product
        rows.gram[k, j] = rows.tau_x * product


@implements(begin_row, GramRows, liberty="arithmetic", allocates=False)
def _gram_begin_row(rows, n):  # type: ignore[no-untyped-def]
    table, tau, gram, projection = rows.table, rows.tau_x, rows.row_gram, rows.projection
    num_features, num_dims = rows.V.shape
    first, last = table.row_start[n], table.row_start[n + 1]
    x = table.X[n]
    if rows.is_ordered[0]:
        rows.is_ordered[0] = False
        for k in range(num_features):
            rows.place[k] = k
    if 2 * (last - first) <= num_dims:
        for k in range(num_features):
            product = 0.0
            for d in range(num_dims):
                product += rows.V[k, d] * x[d]
            projection[k] = tau * product - rows.shift[k]
        if not rows.is_complete[0]:
            for k in range(num_features):
                for j in range(num_features):
                    gram[k, j] = rows.gram[k, j]
            rows.is_complete[0] = True
        for i in range(first, last):
            d = table.missing_in_row[i]
            v = rows.V_by_column[d]
            rows.is_complete[0] = False
            for k in range(num_features):
                scaled = tau * v[k]
                projection[k] += scaled * rows.intercept[d]
                for j in range(num_features):
                    gram[k, j] -= scaled * v[j]
    else:
        # Mostly missing: sum what is there instead of subtracting what is not.
        rows.is_complete[0] = False
        for k in range(num_features):
            projection[k] = 0.0
            for j in range(num_features):
                gram[k, j] = 0.0
        for d in range(num_dims):
            if first < last and table.missing_in_row[first] == d:
                first += 1
                continue
            v = rows.V_by_column[d]
            for k in range(num_features):
                scaled = tau * v[k]
                projection[k] += scaled * (x[d] - rows.intercept[d])
                for j in range(num_features):
                    gram[k, j] += scaled * v[j]


@implements(follow, GramRows, allocates=False)
def _gram_follow(rows, n, columns, num_columns):  # type: ignore[no-untyped-def]
    place, feature_at = rows.place, rows.feature_at
    num_features = place.size
    rows.is_ordered[0] = True
    for k in range(num_features):
        place[k] = -1
    for t in range(num_columns):
        place[columns[t]] = num_features - num_columns + t
    held = 0
    for k in range(num_features):
        if place[k] < 0:  # not to be decided, so that nothing needs it: among those that are decided already
            place[k] = held
            held += 1
        feature_at[place[k]] = k
    for i in range(held, num_features):
        products = rows.row_gram[feature_at[i]]
        for j in range(i + 1, num_features):
            rows.ordered_gram[i, j] = products[feature_at[j]]


@implements(start, GramRows, liberty="arithmetic", allocates=False, inline=True)
def _gram_start(rows, n, z, block):  # type: ignore[no-untyped-def]
    num_features = z.size
    present = rows.present
    for j in range(num_features):
        present[j] = rows.projection[j]
    for k in range(num_features):
        if z[k] == 1:
            for j in range(num_features):
                present[j] -= rows.row_gram[k, j]
    log_lik = 0.0
    for k in range(num_features):
        if z[k] == 1:
            log_lik += 0.5 * (rows.projection[k] + present[k])
    for j in range(num_features):
        block[0, rows.place[j]] = present[j]
    return log_lik


@implements(flipped, GramRows, liberty="arithmetic", allocates=False)
def _gram_flipped(rows, n, k, sign, block, log_lik, count, out):  # type: ignore[no-untyped-def]
    curvature = 0.5 * rows.row_gram[k, k]
    place = rows.place[k]
    for i in range(count):
        out[i] = log_lik[i] + sign * block[i, place] - curvature


@implements(flip, GramRows, liberty="arithmetic", allocates=False)
def _gram_flip(rows, n, k, sign, block):  # type: ignore[no-untyped-def]
    for j in range(block.shape[1]):
        block[0, j] -= sign * rows.row_gram[k, j]


@implements(spawn, GramRows, allocates=False)
def _gram_spawn(rows, n, k, sign, block, parents, flips, count, out):  # type: ignore[no-untyped-def]
    place = rows.place[k]
    first = 0
    products = rows.row_gram[k]
    if rows.is_ordered[0]:
        first = (place + 1) // LANES * LANES
        products = rows.ordered_gram[place]
    for i in range(count):
        subtract_multiple(out[i], block[parents[i]], sign * flips[i], products, first)


# --- through residuals ----------------------------------------------------------------------------------------------


@implements(store_feature, ResidualRows, liberty="arithmetic", allocates=False)
def _residual_store_feature(rows, k):  # type: ignore[no-untyped-def]
    rows.is_complete[0] = False
    norm = 0.0
    for d in range(rows.V.shape[1]):
        norm += rows.V[k, d] * rows.V[k, d]
    rows.half_norm[k] = 0.5 * rows.tau_x * norm


@implements(begin_row, ResidualRows, liberty="arithmetic", allocates=False)
def _residual_begin_row(rows, n):  # type: ignore[no-untyped-def]
    table = rows.table
    num_features, num_dims = rows.V.shape
    for d in range(num_dims):
        rows.centred[d] = table.X[n, d] - rows.intercept[d]
    if not rows.is_complete[0]:
        for k in range(num_features):
            rows.row_half_norm[k] = rows.half_norm[k]
            for d in range(num_dims):
                rows.row_V[k, d] = rows.V[k, d]
        rows.is_complete[0] = True
    first, last = table.row_start[n], table.row_start[n + 1]
    if first == last:
        return
    rows.is_complete[0] = False
    for i in range(first, last):
        d = table.missing_in_row[i]
        rows.centred[d] = 0.0
        for k in range(num_features):
            rows.row_V[k, d] = 0.0
    for k in range(num_features):
        norm = 0.0
        for d in range(num_dims):
            norm += rows.row_V[k, d] * rows.row_V[k, d]
        rows.row_half_norm[k] = 0.5 * rows.tau_x * norm


@implements(start, ResidualRows, liberty="arithmetic", allocates=False, inline=True)
def _residual_start(rows, n, z, block):  # type: ignore[no-untyped-def]
    num_dims = rows.V.shape[1]
    for d in range(num_dims):
        block[d, 0] = rows.centred[d]
    for k in range(z.size):
        if z[k] == 1:
            for d in range(num_dims):
                block[d, 0] -= rows.row_V[k, d]
    squares = 0.0
    for d in range(num_dims):
        squares += block[d, 0] * block[d, 0]
    return -0.5 * rows.tau_x * squares


@implements(flipped, ResidualRows, liberty="arithmetic", allocates=False)
def _residual_flipped(rows, n, k, sign, block, log_lik, count, out):  # type: ignore[no-untyped-def]
    for i in range(count):
        out[i] = log_lik[i] - rows.row_half_norm[k]
    for d in range(block.shape[0]):
        step = sign * rows.tau_x * rows.row_V[k, d]
        for i in range(count):
            out[i] += step * block[d, i]


@implements(flip, ResidualRows, liberty="arithmetic", allocates=False)
def _residual_flip(rows, n, k, sign, block):  # type: ignore[no-untyped-def]
    for d in range(block.shape[0]):
        block[d, 0] -= sign * rows.row_V[k, d]


@implements(spawn, ResidualRows, liberty="arithmetic", allocates=False)
def _residual_spawn(rows, n, k, sign, block, parents, flips, count, out):  # type: ignore[no-untyped-def]
    for d in range(block.shape[0]):
        step = sign * rows.row_V[k, d]
        for i in range(count):
            out[d, i] = block[d, parents[i]] - step * flips[i]


# --- new features, the same for both --------------------------------------------------------------------------------


def _draw_feature(rows, k, rng):  # type: ignore[no-untyped-def]
    scale = 1.0 / np.sqrt(rows.tau_v)
    for d in range(rows.V.shape[1]):
        rows.V[k, d] = scale * rng.standard_normal()
    store_feature(rows, k)


def _propose_singletons(rows, n, z, old, new, block, power, rng):  # type: ignore[no-untyped-def]
    if rows.collapsed:
        return propose_singletons_collapsed(rows, n, z, old, new, power, rng)
    return propose_singletons_from_prior(rows, n, z, old, new, block, power, rng)


def _integrate_singletons(rows, count, power):  # type: ignore[no-untyped-def]
    if not rows.collapsed:
        return -1.0
    # The noise has variance 1 / (power tau_x), and the sum of the singletons' values count / tau_v beside it.
    return power * rows.tau_v / (rows.tau_v + count * power * rows.tau_x)


def _draw_singletons(rows, n, z, singletons, power, rng):  # type: ignore[no-untyped-def]
    _draw_values(rows, n, z, singletons, singletons, power, rng)


def _weigh_singletons(rows, n, z, fewest, count, power, out):  # type: ignore[no-untyped-def]
    table = rows.table
    num_observed = rows.V.shape[1] - (table.row_start[n + 1] - table.row_start[n])
    tau = power * rows.tau_x
    squares = tau * _sum_squares(rows, n, z)
    for i in range(count):
        # With s of them, an observed entry of the residual has so many times the variance of the noise.
        variance = 1.0 + (fewest + i) * tau / rows.tau_v
        out[i] = -0.5 * (num_observed * np.log(variance) + squares / variance)


for _kind in (GramRows, ResidualRows):
    implements(draw_feature, _kind, allocates=False)(_draw_feature)
    implements(integrate_singletons, _kind, allocates=False)(_integrate_singletons)
    implements(draw_singletons, _kind, allocates=False)(_draw_singletons)
    implements(propose_singletons, _kind, allocates=False)(_propose_singletons)
    implements(weigh_singletons, _kind, allocates=False)(_weigh_singletons)


@compiled(allocates=False)
def propose_singletons_collapsed(rows, n, z, old, new, power, rng):  # type: ignore[no-untyped-def]
    """Accept on the likelihood with the singletons' values integrated out, then draw these from their posterior.

    With k singletons each observed entry of the residual is Normal with variance ``1 / tau_x + k / tau_v``.
    """
    table = rows.table
    num_dims = rows.V.shape[1]
    tau = power * rows.tau_x
    noise = 1.0 / tau if tau > 0.0 else 0.0
    spread = 1.0 / rows.tau_v
    if tau > 0.0:
        squares = 0.0
        first, last = table.row_start[n], table.row_start[n + 1]
        num_observed = num_dims - (last - first)
        for d in range(num_dims):
            if first < last and table.missing_in_row[first] == d:
                first += 1
                continue
            residual = _residual_without(rows, n, z, old, d)
            squares += residual * residual
        old_variance = noise + old.size * spread
        new_variance = noise + new.size * spread
        log_ratio = -0.5 * num_observed * np.log(new_variance / old_variance)
        log_ratio -= 0.5 * squares * (1.0 / new_variance - 1.0 / old_variance)
        if np.log(rng.random()) >= log_ratio:
            return False
    _draw_values(rows, n, z, old, new, power, rng)
    return True


@compiled(allocates=False)
def _draw_values(rows, n, z, left_out, singletons, power, rng):  # type: ignore[no-untyped-def]
    """Draw the values of columns that row n alone owns, or will own, from their posterior, without those left out."""
    if singletons.size == 0:
        return
    table = rows.table
    tau = power * rows.tau_x
    noise = 1.0 / tau if tau > 0.0 else 0.0
    spread = 1.0 / rows.tau_v
    gain = spread / (noise + singletons.size * spread)
    first, last = table.row_start[n], table.row_start[n + 1]
    for d in range(rows.V.shape[1]):
        is_missing = first < last and table.missing_in_row[first] == d
        if is_missing:
            first += 1
        # A draw from the prior, moved by what the residual says of the sum of the new values.
        surprise = 0.0
        for k in singletons:
            rows.V[k, d] = np.sqrt(spread) * rng.standard_normal()
            surprise -= rows.V[k, d]
        if tau > 0.0 and not is_missing:
            surprise += _residual_without(rows, n, z, left_out, d) - np.sqrt(noise) * rng.standard_normal()
            for k in singletons:
                rows.V[k, d] += gain * surprise
    for k in singletons:
        store_feature(rows, k)


@compiled(allocates=False)
def _residual_without(rows, n, z, left_out, d):  # type: ignore[no-untyped-def]
    residual = rows.table.X[n, d] - rows.intercept[d]
    for k in range(z.size):
        if z[k] == 1:
            residual -= rows.V[k, d]
    for k in left_out:
        residual += rows.V[k, d]
    return residual


@compiled(liberty="arithmetic", allocates=False)
def _sum_squares(rows, n, z):  # type: ignore[no-untyped-def]
    """Squared residuals of row n, which is z, summed over what is observed."""
    table, residual = rows.table, rows.residual
    num_dims = residual.size
    for d in range(num_dims):
        residual[d] = table.X[n, d] - rows.intercept[d]
    for k in range(z.size):
        if z[k] == 1:
            for d in range(num_dims):
                residual[d] -= rows.V[k, d]
    for i in range(table.row_start[n], table.row_start[n + 1]):
        residual[table.missing_in_row[i]] = 0.0
    squares = 0.0
    for d in range(num_dims):
        squares += residual[d] * residual[d]
    return squares
