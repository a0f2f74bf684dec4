"""Row view of the latent feature relational model.

Node n with features z has the scores ``bias + sum_k z_k a_k`` with the other nodes, where a_k depends on the other
node's features alone: ``a_k = sum_l v_kl z_jl`` for the link from n to j and ``sum_l v_lk z_jl`` for the link from j to
n. Its log likelihood is the sum of ``x s - log(1 + e^s)`` over its known links.

- The first part is linear in z: one number ``pull[k]`` for each feature.
- For the second, a particle carries ``e^s`` for every cell, a cell being a group of nodes with equal features and a
  direction. A flip multiplies it by ``e^(a_k)`` or ``e^(-a_k)``, both tabulated. To evaluate a flip is to multiply
  factors ``1 + e^s e^(a_k)``; exponents are taken out after every eight, so that one logarithm does for all cells.
- A node that shares its features with many others shares its cells with them. Cells then have weights, hence a
  logarithm each, which pays where there are several nodes to a group. Otherwise every node is its own group.
- Cells without a known link have ``e^s = 0`` and so a factor 1.
- Where scores could grow so large that e^s over- or underflows, particles carry the scores themselves.
- The link of n with itself has the score ``bias + z' V z``: particles also carry ``sum_l z_l (v_kl + v_lk)``, all k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled, implements
from pgfa.models.network import Groups, Network, join_group, make_groups
from pgfa.rows import begin_row, draw_feature, end_row, flip, flipped, spawn, start
from pgfa.vector_math import exp, log, softplus, split

#: Cells in a column of the tables, one to a lane; their factors are multiplied before exponents are taken out.
CELLS_PER_COLUMN = 8
#: Lanes are filled up to a multiple of this, which suits the vector registers.
_STRIDE = 4
#: Products of CELLS_PER_COLUMN factors stay finite while scores are below this.
_HIGHEST_IN_PRODUCT = 85.0
#: Exponentials of scores stay finite, and normal, while their sizes are below this.
_HIGHEST_EXPONENT = 690.0
#: So many mantissas below 2 have a finite product.
_MOST_MANTISSAS = 1000

#: How the cells of the row at hand are evaluated, from the fastest to the safest.
PRODUCT, WEIGHTED, ADDITIVE = range(3)


class Predictors(NamedTuple):
    """A block of particles: e^s (or s) of each cell, and in the header the linear part and the link with itself."""

    cells: NDArray[np.float64]
    header: NDArray[np.float64]


class LinkRows(NamedTuple):
    """Rows and columns of a network for fixed weights V. Tables have shape (features, lanes, columns)."""

    network: Network
    V: NDArray[np.float64]
    tau: float
    bias: float
    symmetric: bool
    grouped: bool
    fitted_singletons: bool
    groups: Groups
    scores: NDArray[np.float64]
    up: NDArray[np.float64]
    down: NDArray[np.float64]
    #: Sums over the features of the positive and of the negative scores, by group and direction.
    highest: NDArray[np.float64]
    lowest: NDArray[np.float64]
    ones: NDArray[np.float64]
    #: Of the row at hand: known links in each cell, linear part, mode and number of columns in use.
    weight: NDArray[np.float64]
    pull: NDArray[np.float64]
    linked_owners: NDArray[np.float64]
    linked_members: NDArray[np.int64]
    mode: NDArray[np.int64]
    columns: NDArray[np.int64]
    #: Memory for births and deaths.
    fit_mean: NDArray[np.float64]
    fit_slope: NDArray[np.float64]
    fit_step: NDArray[np.float64]
    fit_factor: NDArray[np.float64]

    def make_block(self, num_particles: int) -> Any:
        return Predictors(
            cells=np.zeros((num_particles, *self.weight.shape)),
            header=np.zeros((num_particles, self.V.shape[0] + 2)),
        )


#: Nodes to a group from which on sharing pays; see docs/relational.md for the measurement.
NODES_PER_GROUP = 5.0


def link_rows(
    network: Network,
    Z: Any,
    V: Any,
    tau: float,
    bias: float,
    symmetric: bool,
    *,
    fitted_singletons: bool = True,
    grouped: bool | None = None,
) -> LinkRows:
    """The rows of a network for these parameters; whether nodes are grouped is decided by their number unless given."""
    num_nodes, num_features = Z.shape
    groups = make_groups(Z)
    if grouped is None:
        grouped = num_nodes >= NODES_PER_GROUP * groups.top[0]
    if not grouped:
        groups = make_groups(Z, alone=True)
    num_directions = 1 if symmetric else 2
    columns = _columns_for(num_directions * num_nodes)
    shape = (num_features, CELLS_PER_COLUMN, columns)
    rows = LinkRows(
        network, V, tau, bias, symmetric, bool(grouped), fitted_singletons, groups,
        scores=np.zeros(shape),
        up=np.ones(shape),
        down=np.ones(shape),
        highest=np.zeros((num_nodes, num_directions)),
        lowest=np.zeros((num_nodes, num_directions)),
        ones=np.ones((CELLS_PER_COLUMN, columns)),
        weight=np.zeros((CELLS_PER_COLUMN, columns)),
        pull=np.zeros(num_features),
        linked_owners=np.zeros((2, num_features)),
        linked_members=np.zeros(num_nodes, dtype=np.int64),
        mode=np.zeros(1, dtype=np.int64),
        columns=np.zeros(1, dtype=np.int64),
        fit_mean=np.zeros(num_features),
        fit_slope=np.zeros(num_features),
        fit_step=np.zeros(num_features),
        fit_factor=np.zeros((num_features, num_features)),
    )  # fmt: skip
    _store_all(rows)
    return rows


@compiled(allocates=False)
def _columns_for(num_cells):  # type: ignore[no-untyped-def]
    """Columns that hold so many cells, in whole strides."""
    per_stride = CELLS_PER_COLUMN * _STRIDE
    return _STRIDE * ((num_cells + per_stride - 1) // per_stride)


# --- tables ----------------------------------------------------------------------------------------------------------


@compiled(liberty="arithmetic", allocates=False)
def _store_all(rows):  # type: ignore[no-untyped-def]
    for group in range(rows.groups.top[0]):
        _score_group(rows, group)
    for k in range(rows.V.shape[0]):
        for lane in range(CELLS_PER_COLUMN):
            for c in range(rows.scores.shape[2]):
                _exponentiate(rows, k, lane, c)


@compiled(allocates=False)
def _store_group(rows, group):  # type: ignore[no-untyped-def]
    """Tabulate what every feature contributes to the scores with the nodes of a group."""
    _score_group(rows, group)
    num_directions = rows.highest.shape[1]
    for direction in range(num_directions):
        cell = num_directions * group + direction
        for k in range(rows.V.shape[0]):
            _exponentiate(rows, k, cell % CELLS_PER_COLUMN, cell // CELLS_PER_COLUMN)


@compiled(allocates=False)
def _score_group(rows, group):  # type: ignore[no-untyped-def]
    for direction in range(rows.highest.shape[1]):
        rows.highest[group, direction] = 0.0
        rows.lowest[group, direction] = 0.0
        for k in range(rows.V.shape[0]):
            _score_cell(rows, k, group, direction)


@compiled(allocates=False)
def _score_cell(rows, k, group, direction):  # type: ignore[no-untyped-def]
    cell = rows.highest.shape[1] * group + direction
    z = rows.groups.vectors[group]
    score = 0.0
    for j in range(z.size):
        if z[j] == 1:
            score += rows.V[k, j] if direction == 0 else rows.V[j, k]
    rows.highest[group, direction] += max(score, 0.0)
    rows.lowest[group, direction] += min(score, 0.0)
    rows.scores[k, cell % CELLS_PER_COLUMN, cell // CELLS_PER_COLUMN] = score


@compiled(liberty="arithmetic", allocates=False)
def _exponentiate(rows, k, lane, c):  # type: ignore[no-untyped-def]
    # What is clipped here is not used: scores of that size are added, not multiplied.
    clipped = min(max(rows.scores[k, lane, c], -_HIGHEST_EXPONENT), _HIGHEST_EXPONENT)
    rows.up[k, lane, c] = exp(clipped)
    rows.down[k, lane, c] = exp(-clipped)


@implements(end_row, LinkRows, allocates=False)
def _end_row(rows, n, z):  # type: ignore[no-untyped-def]
    groups = rows.groups
    before = groups.group_of[n]
    same = True
    for k in range(z.size):
        same = same and groups.vectors[before, k] == z[k]
    if same:
        return
    if rows.grouped:
        groups.members[before] -= 1
        new = join_group(groups, n, z)
        if new >= 0:
            _store_group(rows, new)
    else:
        for k in range(z.size):
            groups.vectors[n, k] = z[k]
        _store_group(rows, n)


@implements(draw_feature, LinkRows, allocates=False)
def _draw_feature(rows, k, rng):  # type: ignore[no-untyped-def]
    V = rows.V
    scale = 1.0 / np.sqrt(rows.tau)
    for j in range(V.shape[0]):
        V[k, j] = scale * rng.standard_normal()
        if rows.symmetric:
            V[j, k] = V[k, j]
        elif j != k:
            V[j, k] = scale * rng.standard_normal()
    store_feature(rows, k)


@compiled(allocates=False)
def store_feature(rows, k):  # type: ignore[no-untyped-def]
    """Take note of new weights of feature k, which nobody owns: only its own line of the tables changes."""
    num_directions = rows.highest.shape[1]
    for group in range(rows.groups.top[0]):
        for direction in range(num_directions):
            cell = num_directions * group + direction
            before = rows.scores[k, cell % CELLS_PER_COLUMN, cell // CELLS_PER_COLUMN]
            rows.highest[group, direction] -= max(before, 0.0)
            rows.lowest[group, direction] -= min(before, 0.0)
            _score_cell(rows, k, group, direction)
            _exponentiate(rows, k, cell % CELLS_PER_COLUMN, cell // CELLS_PER_COLUMN)


# --- the row at hand -------------------------------------------------------------------------------------------------


@compiled(liberty="arithmetic", allocates=False)
def _count_linked_owners(rows, n, direction):  # type: ignore[no-untyped-def]
    """For each feature, the nodes that own it and are linked with n."""
    network, groups = rows.network, rows.groups
    counts = rows.linked_owners[direction]
    for k in range(counts.size):
        counts[k] = 0.0
    first, last = network.link_start[direction, n], network.link_start[direction, n + 1]
    if not rows.grouped:
        for i in range(first, last):
            z = groups.vectors[network.links[i]]
            for k in range(counts.size):
                counts[k] += z[k]
        return
    for group in range(groups.top[0]):
        rows.linked_members[group] = 0
    for i in range(first, last):
        rows.linked_members[groups.group_of[network.links[i]]] += 1
    for group in range(groups.top[0]):
        linked = rows.linked_members[group]
        if linked > 0:
            z = groups.vectors[group]
            for k in range(counts.size):
                counts[k] += linked * z[k]


@implements(begin_row, LinkRows, liberty="arithmetic", allocates=False)
def _begin_row(rows, n):  # type: ignore[no-untyped-def]
    network, groups = rows.network, rows.groups
    num_directions = rows.highest.shape[1]
    num_features = rows.V.shape[0]
    highest = 0.0
    lowest = 0.0
    for group in range(groups.top[0]):
        members = groups.members[group]
        for direction in range(num_directions):
            cell = num_directions * group + direction
            rows.weight[cell % CELLS_PER_COLUMN, cell // CELLS_PER_COLUMN] = members
            if members > 0:
                highest = max(highest, rows.highest[group, direction])
                lowest = min(lowest, rows.lowest[group, direction])
    rows.columns[0] = _columns_for(num_directions * groups.top[0])
    if max(highest + rows.bias, -lowest - rows.bias) > _HIGHEST_EXPONENT:
        rows.mode[0] = ADDITIVE
    elif rows.grouped or highest + rows.bias > _HIGHEST_IN_PRODUCT:
        rows.mode[0] = WEIGHTED
    else:
        rows.mode[0] = PRODUCT

    for direction in range(num_directions):
        cell = num_directions * groups.group_of[n] + direction
        rows.weight[cell % CELLS_PER_COLUMN, cell // CELLS_PER_COLUMN] -= 1.0
        for i in range(network.hole_start[direction, n], network.hole_start[direction, n + 1]):
            cell = num_directions * groups.group_of[network.holes[i]] + direction
            rows.weight[cell % CELLS_PER_COLUMN, cell // CELLS_PER_COLUMN] -= 1.0
        _count_linked_owners(rows, n, direction)
    for k in range(num_features):
        pull = 0.0
        for j in range(num_features):
            pull += rows.V[k, j] * rows.linked_owners[0, j] + rows.V[j, k] * rows.linked_owners[1, j]
        rows.pull[k] = pull


@implements(start, LinkRows, liberty="arithmetic", allocates=False)
def _start(rows, n, z, block):  # type: ignore[no-untyped-def]
    columns = rows.columns[0]
    cells, header = block.cells[0], block.header[0]
    additive = rows.mode[0] == ADDITIVE
    first = rows.bias if additive else exp(rows.bias)
    for lane in range(CELLS_PER_COLUMN):
        for c in range(columns):
            cells[lane, c] = first if rows.weight[lane, c] > 0.0 else 0.0
    linear = 0.0
    for k in range(z.size):
        if z[k] == 1:
            linear += rows.pull[k]
            for lane in range(CELLS_PER_COLUMN):
                if additive:
                    for c in range(columns):
                        cells[lane, c] += rows.scores[k, lane, c]
                else:
                    for c in range(columns):
                        cells[lane, c] *= rows.up[k, lane, c]
    header[0] = linear
    log_lik = linear
    if rows.network.diagonal[n] >= 0:
        own_score = rows.bias
        for k in range(z.size):
            both = 0.0
            for j in range(z.size):
                both += (rows.V[k, j] + rows.V[j, k]) * z[j]
            header[2 + k] = both
            own_score += 0.5 * z[k] * both
        header[1] = own_score
        log_lik += rows.network.diagonal[n] * own_score - softplus(own_score)

    return log_lik - _sum_logs(rows.mode[0], cells, rows.ones, rows.weight, 0.0, rows.weight, columns)


@compiled(liberty="arithmetic", allocates=False)
def _multiply(cells, factor, c):  # type: ignore[no-untyped-def]
    return (
        (1.0 + cells[0, c] * factor[0, c])
        * (1.0 + cells[1, c] * factor[1, c])
        * (1.0 + cells[2, c] * factor[2, c])
        * (1.0 + cells[3, c] * factor[3, c])
        * (1.0 + cells[4, c] * factor[4, c])
        * (1.0 + cells[5, c] * factor[5, c])
        * (1.0 + cells[6, c] * factor[6, c])
        * (1.0 + cells[7, c] * factor[7, c])
    )


@compiled(liberty="arithmetic", allocates=False)
def _log_product(cells, factor, columns):  # type: ignore[no-untyped-def]
    """Sum of log(1 + cell * factor) over all cells."""
    total = 0.0
    if columns > _MOST_MANTISSAS:
        for c in range(columns):
            total += log(_multiply(cells, factor, c))
        return total
    exponent = 0
    mantissa = 1.0
    for c in range(columns):
        e, m = split(_multiply(cells, factor, c))
        exponent += e
        mantissa *= m
    return log(mantissa) + 0.6931471805599453 * (exponent - 1023 * columns)


@compiled(liberty="arithmetic", allocates=False)
def _log_weighted(cells, factor, weight, columns):  # type: ignore[no-untyped-def]
    total = 0.0
    for lane in range(CELLS_PER_COLUMN):
        for c in range(columns):
            total += weight[lane, c] * log(1.0 + cells[lane, c] * factor[lane, c])
    return total


@compiled(liberty="arithmetic", allocates=False)
def _log_additive(cells, scores, sign, weight, columns):  # type: ignore[no-untyped-def]
    total = 0.0
    for lane in range(CELLS_PER_COLUMN):
        for c in range(columns):
            total += weight[lane, c] * softplus(cells[lane, c] + sign * scores[lane, c])
    return total


@compiled(liberty="arithmetic", allocates=False)
def _sum_logs(mode, cells, factor, scores, sign, weight, columns):  # type: ignore[no-untyped-def]
    """Sum of log(1 + e^s) over the known links of the row at hand, after a flip."""
    if mode == PRODUCT:
        return _log_product(cells, factor, columns)
    if mode == WEIGHTED:
        return _log_weighted(cells, factor, weight, columns)
    return _log_additive(cells, scores, sign, weight, columns)


@implements(flipped, LinkRows, liberty="arithmetic", allocates=False)
def _flipped(rows, n, k, sign, block, log_lik, count, out):  # type: ignore[no-untyped-def]
    mode, columns = rows.mode[0], rows.columns[0]
    factor = rows.up[k] if sign > 0.0 else rows.down[k]
    pull = sign * rows.pull[k]
    for i in range(count):
        logs = _sum_logs(mode, block.cells[i], factor, rows.scores[k], sign, rows.weight, columns)
        out[i] = block.header[i, 0] + pull - logs
    link = rows.network.diagonal[n]
    if link >= 0:
        for i in range(count):
            own_score = block.header[i, 1] + sign * block.header[i, 2 + k] + rows.V[k, k]
            out[i] += link * own_score - softplus(own_score)


@implements(flip, LinkRows, liberty="arithmetic", allocates=False)
def _flip(rows, n, k, sign, block):  # type: ignore[no-untyped-def]
    _flip_particle(rows, n, k, sign, block, 0)


@compiled(liberty="arithmetic", allocates=False)
def _flip_particle(rows, n, k, sign, block, i):  # type: ignore[no-untyped-def]
    cells, header = block.cells[i], block.header[i]
    columns = rows.columns[0]
    if rows.mode[0] == ADDITIVE:
        for lane in range(CELLS_PER_COLUMN):
            for c in range(columns):
                cells[lane, c] += sign * rows.scores[k, lane, c]
    else:
        factor = rows.up[k] if sign > 0.0 else rows.down[k]
        for lane in range(CELLS_PER_COLUMN):
            for c in range(columns):
                cells[lane, c] *= factor[lane, c]
    header[0] += sign * rows.pull[k]
    if rows.network.diagonal[n] >= 0:
        header[1] += sign * header[2 + k] + rows.V[k, k]
        for j in range(rows.V.shape[0]):
            header[2 + j] += sign * (rows.V[k, j] + rows.V[j, k])


@implements(spawn, LinkRows, liberty="arithmetic", allocates=False)
def _spawn(rows, n, k, sign, block, parents, flips, count, out):  # type: ignore[no-untyped-def]
    columns = rows.columns[0]
    for i in range(count):
        old, new = block.cells[parents[i]], out.cells[i]
        for lane in range(CELLS_PER_COLUMN):
            for c in range(columns):
                new[lane, c] = old[lane, c]
        for j in range(block.header.shape[1]):
            out.header[i, j] = block.header[parents[i], j]
        if flips[i] == 1:
            _flip_particle(rows, n, k, sign, out, i)
