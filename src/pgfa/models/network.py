"""A binary network with holes, as lists, and the grouping of its nodes by feature vector."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled


class Network(NamedTuple):
    """For each node, whom it is linked with and with whom that is unknown; the node itself is left out of both lists.

    Direction 0 runs along the rows of the matrix, direction 1 along its columns; a symmetric network has no second. The
    list of node n in direction d is ``links[link_start[d, n]:link_start[d, n + 1]]``, in ascending order.
    """

    link_start: NDArray[np.int64]
    links: NDArray[np.int32]
    hole_start: NDArray[np.int64]
    holes: NDArray[np.int32]
    #: 1 and 0 where the link of a node with itself is known, -1 where it is not.
    diagonal: NDArray[np.int8]


def make_network(X: NDArray[np.float64], symmetric: bool) -> Network:
    """Index the ones and the NaN of a square matrix."""
    others = ~np.eye(X.shape[0], dtype=bool)
    matrices = (X,) if symmetric else (X, X.T)
    link_start, links = _list_ones([(matrix == 1.0) & others for matrix in matrices])
    hole_start, holes = _list_ones([np.isnan(matrix) & others for matrix in matrices])
    diagonal = np.diagonal(X)
    known = ~np.isnan(diagonal)
    return Network(
        link_start, links, hole_start, holes, np.where(known, np.where(known, diagonal, 0.0), -1.0).astype(np.int8)
    )


def _list_ones(matrices: list[NDArray[np.bool_]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    starts, lists = [], []
    first = 0
    for matrix in matrices:
        starts.append(first + np.concatenate([[0], np.cumsum(matrix.sum(axis=1))]))
        lists.append(np.nonzero(matrix)[1])
        first += lists[-1].size
    return np.array(starts, dtype=np.int64), np.concatenate(lists).astype(np.int32)


def dense(network: Network) -> NDArray[np.float64]:
    """The matrix that `make_network` was given."""
    num_nodes = network.diagonal.size
    X = np.zeros((num_nodes, num_nodes))
    for n in range(num_nodes):
        X[n, network.links[network.link_start[0, n] : network.link_start[0, n + 1]]] = 1.0
        X[n, network.holes[network.hole_start[0, n] : network.hole_start[0, n + 1]]] = np.nan
    np.fill_diagonal(X, np.where(network.diagonal < 0, np.nan, network.diagonal))
    return X


class Groups(NamedTuple):
    """Nodes by feature vector: `members` counts them and `top[0]` says how many groups were ever in use."""

    group_of: NDArray[np.int64]
    members: NDArray[np.int64]
    vectors: NDArray[np.uint8]
    hashes: NDArray[np.int64]
    top: NDArray[np.int64]


def make_groups(Z: NDArray[np.uint8], *, alone: bool = False) -> Groups:
    """The distinct rows of Z; with `alone` every node is its own group."""
    num_nodes, num_features = Z.shape
    groups = Groups(
        group_of=np.arange(num_nodes),
        members=np.full(num_nodes, 1 if alone else 0, dtype=np.int64),
        vectors=Z.copy() if alone else np.zeros((num_nodes, num_features), dtype=np.uint8),
        hashes=np.zeros(num_nodes, dtype=np.int64),
        top=np.array([num_nodes if alone else 0]),
    )
    if not alone:
        _fill_groups(groups, Z)
    return groups


@compiled(allocates=False)
def _fill_groups(groups, Z):  # type: ignore[no-untyped-def]
    for n in range(Z.shape[0]):
        join_group(groups, n, Z[n])


@compiled(allocates=False)
def hash_vector(z):  # type: ignore[no-untyped-def]
    """The same for equal vectors, and almost never the same for others."""
    value = 0
    for k in range(z.size):
        if z[k] == 1:
            # A multiplicative mix of the column's number, by the constants of SplitMix64.
            mixed = (k + 1) * -7046029254386353131
            mixed = (mixed ^ ((mixed >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
            value ^= mixed ^ ((mixed >> 27) & 0x1FFFFFFFFF)
    return value


@compiled(allocates=False)
def join_group(groups, n, z):  # type: ignore[no-untyped-def]
    """Put node n, which is in no group, into that of vector z; returns its number if it is new, and -1 otherwise."""
    code = hash_vector(z)
    free = -1
    for g in range(groups.top[0]):
        if groups.members[g] == 0:
            free = g if free < 0 else free
        elif groups.hashes[g] == code:
            same = True
            for k in range(z.size):
                same = same and groups.vectors[g, k] == z[k]
            if same:
                groups.group_of[n] = g
                groups.members[g] += 1
                return -1
    if free < 0:
        free = groups.top[0]
        groups.top[0] += 1
    groups.group_of[n] = free
    groups.members[free] = 1
    groups.hashes[free] = code
    for k in range(z.size):
        groups.vectors[free, k] = z[k]
    return free
