"""Updates of the weights V and the bias of the latent feature relational model.

Nodes with equal features have equal scores, so that pairs of nodes are first counted into *cells*, one for each pair of
groups. A weight v_kl touches only the cells of the owners of k with the owners of l.

Given everything else, the log density of one weight is concave and smooth. A proposal is drawn from the Normal
distribution that matches its slope and curvature at the present value (a Newton step plus noise of the right size), and
accepted by Metropolis and Hastings. No scale needs tuning, weights that no data touch are drawn from their prior, and
the power of the likelihood simply multiplies slope and curvature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled
from pgfa.models.network import Groups, Network, make_groups
from pgfa.vector_math import exp, log

#: Newton steps are cut at this many standard deviations of the proposal, so that a chain far out finds its way back.
_LONGEST_STEP = 2.0


class Cells(NamedTuple):
    """Pairs of groups (g, h), at position ``g * size + h``: known pairs of nodes, score, link probability, softplus.

    In a symmetric network only the pairs with g <= h are in use. The groups that own feature k are
    ``owners[k, :num_owners[k]]``.
    """

    vectors: NDArray[np.uint8]
    owners: NDArray[np.int64]
    num_owners: NDArray[np.int64]
    known: NDArray[np.float64]
    score: NDArray[np.float64]
    probability: NDArray[np.float64]
    softplus: NDArray[np.float64]


def make_cells(network: Network, groups: Groups, V: Any, bias: float, symmetric: bool) -> Cells:
    """Count the pairs of nodes between groups, and score them."""
    size = int(groups.top[0])
    vectors = groups.vectors[:size]
    cells = Cells(
        vectors,
        np.empty((V.shape[0], size), dtype=np.int64),
        np.zeros(V.shape[0], dtype=np.int64),
        *np.zeros((4, size * size)),
    )
    _list_owners(cells)
    _count_pairs(network, groups, symmetric, cells.known)
    _score_cells(cells, V, bias, np.empty(V.shape[0]))
    return cells


@compiled(allocates=False)
def _list_owners(cells):  # type: ignore[no-untyped-def]
    for g in range(cells.vectors.shape[0]):
        for k in range(cells.vectors.shape[1]):
            if cells.vectors[g, k] == 1:
                cells.owners[k, cells.num_owners[k]] = g
                cells.num_owners[k] += 1


@compiled(allocates=False)
def _count_pairs(network, groups, symmetric, known):  # type: ignore[no-untyped-def]
    size = groups.top[0]
    group_of = groups.group_of
    for g in range(size):
        for h in range(size):
            if not symmetric or g < h:
                known[g * size + h] = groups.members[g] * groups.members[h]
            elif g == h:
                known[g * size + h] = groups.members[g] * (groups.members[g] + 1) // 2
    for n in range(group_of.size):
        g = group_of[n]
        if network.diagonal[n] < 0:
            known[g * size + g] -= 1.0
        for i in range(network.hole_start[0, n], network.hole_start[0, n + 1]):
            other = network.holes[i]
            h = group_of[other]
            if not symmetric:
                known[g * size + h] -= 1.0
            elif n < other:
                known[min(g, h) * size + max(g, h)] -= 1.0


@compiled(liberty="arithmetic", allocates=False)
def _score_cells(cells, V, bias, towards):  # type: ignore[no-untyped-def]
    size, num_features = cells.vectors.shape
    for h in range(size):
        for k in range(num_features):
            total = 0.0
            for j in range(num_features):
                total += V[k, j] * cells.vectors[h, j]
            towards[k] = total
        for g in range(size):
            score = bias
            for k in range(num_features):
                score += towards[k] * cells.vectors[g, k]
            cells.score[g * size + h] = score
    _link(cells.score, size * size, cells.probability, cells.softplus)


@compiled(liberty="arithmetic", allocates=False)
def _link(score, count, probability, softplus):  # type: ignore[no-untyped-def]
    """1 / (1 + e^-s) and log(1 + e^s)."""
    for c in range(count):
        s = score[c]
        e = exp(-abs(s))
        probability[c] = (1.0 if s >= 0.0 else e) / (1.0 + e)
        softplus[c] = max(s, 0.0) + log(1.0 + e)


@compiled
def count_links(network, Z, symmetric, links):  # type: ignore[no-untyped-def]
    """For each weight, in how many scores of linked pairs it counts; returns the number of linked pairs.

    In a symmetric network an off-diagonal weight counts twice where both nodes own both features; the sum stands above
    the diagonal.
    """
    num_nodes, num_features = Z.shape
    owned = np.empty((num_nodes, num_features), dtype=np.int64)
    num_owned = np.zeros(num_nodes, dtype=np.int64)
    for n in range(num_nodes):
        for k in range(num_features):
            if Z[n, k] == 1:
                owned[n, num_owned[n]] = k
                num_owned[n] += 1
    links[:] = 0.0
    total = 0
    for n in range(num_nodes):
        for i in range(network.link_start[0, n] - 1, network.link_start[0, n + 1]):
            is_self = i < network.link_start[0, n]
            if is_self and network.diagonal[n] != 1:
                continue
            other = n if is_self else network.links[i]
            if symmetric and other < n:
                continue
            total += 1
            for a in range(num_owned[n]):
                for b in range(num_owned[other]):
                    k, j = owned[n, a], owned[other, b]
                    if symmetric and k > j:
                        k, j = j, k
                    links[k, j] += 1.0
    return total


@compiled(allocates=False)
def list_cells(cells, k, j, symmetric, index, times):  # type: ignore[no-untyped-def]
    """List the cells with known pairs whose score holds weight (k, j), and how many times; returns their number."""
    size = cells.vectors.shape[0]
    count = 0
    for a in range(cells.num_owners[k]):
        g = cells.owners[k, a]
        for b in range(cells.num_owners[j]):
            h = cells.owners[j, b]
            cell = g * size + h
            held = 1.0
            if symmetric:
                is_mutual = cells.vectors[h, k] == 1 and cells.vectors[g, j] == 1
                if g > h and is_mutual:
                    continue  # met as (h, g)
                if g > h:
                    cell = h * size + g
                elif is_mutual and k != j:
                    held = 2.0
            if cells.known[cell] > 0.0:
                index[count] = cell
                times[count] = held
                count += 1
    return count


@compiled(liberty="arithmetic", allocates=False)
def _slope_and_curvature(known, probability, index, times, count):  # type: ignore[no-untyped-def]
    """Sums of known * times * p and known * times^2 * p (1 - p)."""
    slope = 0.0
    curvature = 0.0
    for c in range(count):
        p = probability[index[c]]
        term = known[index[c]] * times[c] * p
        slope += term
        curvature += term * times[c] * (1.0 - p)
    return slope, curvature


@compiled(liberty="arithmetic", allocates=False)
def _evaluate(cells, index, times, count, step, new):  # type: ignore[no-untyped-def]
    """The same after a step, and the change of the sum of log(1 + e^score); `new` gets what the cells would hold."""
    for c in range(count):
        new[0, c] = cells.score[index[c]] + step * times[c]
    _link(new[0], count, new[1], new[2])
    slope = 0.0
    curvature = 0.0
    change = 0.0
    for c in range(count):
        known = cells.known[index[c]]
        term = known * times[c] * new[1, c]
        slope += term
        curvature += term * times[c] * (1.0 - new[1, c])
        change += known * (new[2, c] - cells.softplus[index[c]])
    return slope, curvature, change


@compiled(allocates=False)
def _drift(value, links, slope, mean, precision, power, curvature):  # type: ignore[no-untyped-def]
    """The Newton step from a value, and the curvature of the log density there."""
    h = precision + power * curvature
    step = (power * (links - slope) - precision * (value - mean)) / h
    longest = _LONGEST_STEP / np.sqrt(h)
    return min(max(step, -longest), longest), h


@compiled(allocates=False)
def _move(cells, index, times, count, value, links, mean, precision, power, new, rng):  # type: ignore[no-untyped-def]
    """One Metropolis-Hastings step for a weight or the bias; returns its new value.

    Its prior is Normal(mean, precision) and `links` is the derivative of the sum of the scores of linked pairs.
    """
    if count == 0:
        return mean + rng.standard_normal() / np.sqrt(precision)
    slope, curvature = _slope_and_curvature(cells.known, cells.probability, index, times, count)
    drift, h = _drift(value, links, slope, mean, precision, power, curvature)
    noise = rng.standard_normal()
    step = drift + noise / np.sqrt(h)
    proposal = value + step

    slope, curvature, change = _evaluate(cells, index, times, count, step, new)
    drift_back, h_back = _drift(proposal, links, slope, mean, precision, power, curvature)
    log_ratio = power * (links * step - change)
    log_ratio -= 0.5 * precision * ((proposal - mean) ** 2 - (value - mean) ** 2)
    log_ratio += 0.5 * np.log(h_back / h) - 0.5 * h_back * (step + drift_back) ** 2 + 0.5 * noise**2
    if np.log(rng.random()) >= log_ratio:
        return value
    for c in range(count):
        cells.score[index[c]] = new[0, c]
        cells.probability[index[c]] = new[1, c]
        cells.softplus[index[c]] = new[2, c]
    return proposal


@compiled
def _move_all(  # type: ignore[no-untyped-def]
    cells, V, tau, bias, links, num_links, power, symmetric, has_bias, bias_mean, bias_precision, passes, rng
):
    num_features = V.shape[0]
    index = np.empty(cells.known.size, dtype=np.int64)
    times = np.ones(cells.known.size)
    new = np.empty((3, cells.known.size))
    for _ in range(passes):
        if has_bias:
            count = 0
            for cell in range(cells.known.size):
                if cells.known[cell] > 0.0:
                    index[count] = cell
                    times[count] = 1.0
                    count += 1
            bias = _move(cells, index, times, count, bias, num_links, bias_mean, bias_precision, power, new, rng)
        for k in range(num_features):
            for j in range(k if symmetric else 0, num_features):
                count = list_cells(cells, k, j, symmetric, index, times)
                V[k, j] = _move(cells, index, times, count, V[k, j], links[k, j], 0.0, tau, power, new, rng)
                if symmetric:
                    V[j, k] = V[k, j]
    return bias


def move_weights(
    network: Network,
    Z: NDArray[np.uint8],
    V: NDArray[np.float64],
    tau: float,
    bias: float,
    symmetric: bool,
    bias_prior: tuple[float, float] | None,
    power: float,
    passes: int,
    rng: np.random.Generator,
) -> float:
    """Move every weight, in place, and the bias if it has a prior (mean and precision); returns the bias."""
    groups = make_groups(Z)
    cells = make_cells(network, groups, V, bias, symmetric)
    links = np.zeros(V.shape)
    num_links = count_links(network, Z, symmetric, links)
    mean, precision = (0.0, 1.0) if bias_prior is None else bias_prior
    return float(
        _move_all(
            cells, V, tau, bias, links, float(num_links), power, symmetric, bias_prior is not None, mean, precision,
            passes, rng,
        )
    )  # fmt: skip


def sum_of_log_likelihoods(
    network: Network, Z: NDArray[np.uint8], V: NDArray[np.float64], bias: float, symmetric: bool
) -> float:
    """Log likelihood of all known links."""
    cells = make_cells(network, make_groups(Z), V, bias, symmetric)
    links = np.zeros(V.shape)
    num_links = count_links(network, Z, symmetric, links)
    return float(bias * num_links + np.vdot(links, V) - np.vdot(cells.known, cells.softplus))
