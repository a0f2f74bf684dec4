"""Updates of the weights V and the bias of the latent feature relational model.

Nodes with equal features have equal scores, so that pairs of nodes are first counted into *cells*, one for each pair of
groups. A weight v_kl touches only the cells of the owners of k with the owners of l.

Given everything else, the log density of one weight is concave and smooth. A proposal is drawn from the Normal
distribution that matches its slope and curvature at the present value (a Newton step plus noise of the right size), and
accepted by Metropolis and Hastings. No scale needs tuning, weights that no data touch are drawn from their prior, and the
power of the likelihood simply multiplies slope and curvature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled
from pgfa.models.network import Groups, Network, make_groups
from pgfa.vector_math import exp, log

#: Newton steps are cut at this many standard deviations of the proposal, so that a chain far out finds its way back.
_LONGEST_STEP = 2.5


class Cells(NamedTuple):
    """Pairs of groups: known pairs of nodes, score, link probability and log(1 + e^score).

    In a symmetric network the pair of groups (g, h) stands in row min(g, h), column max(g, h).
    """

    known: NDArray[np.float64]
    score: NDArray[np.float64]
    probability: NDArray[np.float64]
    softplus: NDArray[np.float64]


def make_cells(network: Network, groups: Groups, V: Any, bias: float, symmetric: bool) -> Cells:
    """Count the pairs of nodes between groups, and score them."""
    size = int(groups.top[0])
    cells = Cells(*(np.zeros((size, size)) for _ in Cells._fields))
    _count_pairs(network, groups, symmetric, cells.known)
    _score_cells(groups, V, bias, cells)
    return cells


@compiled
def _count_pairs(network, groups, symmetric, known):  # type: ignore[no-untyped-def]
    size = known.shape[0]
    group_of = groups.group_of
    for g in range(size):
        for h in range(size):
            if not symmetric:
                known[g, h] = groups.members[g] * groups.members[h]
            elif g < h:
                known[g, h] = groups.members[g] * groups.members[h]
            elif g == h:
                known[g, h] = groups.members[g] * (groups.members[g] + 1) // 2
    for n in range(group_of.size):
        g = group_of[n]
        if network.diagonal[n] < 0:
            known[g, g] -= 1.0
        for i in range(network.hole_start[0, n], network.hole_start[0, n + 1]):
            other = network.holes[i]
            h = group_of[other]
            if not symmetric:
                known[g, h] -= 1.0
            elif n < other:
                known[min(g, h), max(g, h)] -= 1.0


@compiled
def _score_cells(groups, V, bias, cells):  # type: ignore[no-untyped-def]
    size = cells.known.shape[0]
    num_features = V.shape[0]
    towards = np.empty(num_features)
    for h in range(size):
        for k in range(num_features):
            towards[k] = 0.0
            for j in range(num_features):
                if groups.vectors[h, j] == 1:
                    towards[k] += V[k, j]
        for g in range(size):
            score = bias
            for k in range(num_features):
                if groups.vectors[g, k] == 1:
                    score += towards[k]
            cells.score[g, h] = score
    for g in range(size):
        for h in range(size):
            s = cells.score[g, h]
            e = exp(-abs(s))
            cells.probability[g, h] = (1.0 if s >= 0.0 else e) / (1.0 + e)
            cells.softplus[g, h] = max(s, 0.0) + log(1.0 + e)


@compiled
def count_links(network, Z, symmetric, links):  # type: ignore[no-untyped-def]
    """For each weight, in how many scores of linked pairs it counts; returns the number of linked pairs.

    In a symmetric network an off-diagonal weight counts twice where both nodes own both features; the sum stands above the
    diagonal.
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


@compiled
def list_cells(groups, known, k, j, symmetric, index, times):  # type: ignore[no-untyped-def]
    """List the cells whose score holds weight (k, j), and how many times; returns their number."""
    size = known.shape[0]
    count = 0
    for g in range(size):
        owns_k = groups.vectors[g, k]
        owns_j = groups.vectors[g, j]
        if owns_k == 0 and (not symmetric or owns_j == 0):
            continue
        for h in range(g if symmetric else 0, size):
            held = owns_k * groups.vectors[h, j]
            if symmetric and k != j:
                held += owns_j * groups.vectors[h, k]
            if held > 0 and known[g, h] > 0.0:
                index[count] = g * size + h
                times[count] = held
                count += 1
    return count


@compiled(liberty="arithmetic")
def _slope_and_curvature(cells, index, times, count):  # type: ignore[no-untyped-def]
    """Sums of known * times * p and known * times^2 * p (1 - p)."""
    known, probability = cells.known.ravel(), cells.probability.ravel()
    slope = 0.0
    curvature = 0.0
    for c in range(count):
        p = probability[index[c]]
        term = known[index[c]] * times[c] * p
        slope += term
        curvature += term * times[c] * (1.0 - p)
    return slope, curvature


@compiled(liberty="arithmetic")
def _evaluate(cells, index, times, count, step, work):  # type: ignore[no-untyped-def]
    """The same, and the change of the sum of log(1 + e^score), after a step; new values of the cells go to `work`."""
    known, score, softplus = cells.known.ravel(), cells.score.ravel(), cells.softplus.ravel()
    for c in range(count):
        work[0, c] = score[index[c]] + step * times[c]
    slope = 0.0
    curvature = 0.0
    change = 0.0
    for c in range(count):
        s = work[0, c]
        e = exp(-abs(s))
        p = (1.0 if s >= 0.0 else e) / (1.0 + e)
        f = max(s, 0.0) + log(1.0 + e)
        work[1, c] = p
        work[2, c] = f
    for c in range(count):
        term = known[index[c]] * times[c] * work[1, c]
        slope += term
        curvature += term * times[c] * (1.0 - work[1, c])
        change += known[index[c]] * (work[2, c] - softplus[index[c]])
    return slope, curvature, change


@compiled
def _cut(step, scale):  # type: ignore[no-untyped-def]
    return min(max(step, -_LONGEST_STEP * scale), _LONGEST_STEP * scale)


@compiled
def _move(cells, index, times, count, value, links, mean, precision, power, work, rng):  # type: ignore[no-untyped-def]
    """One Metropolis-Hastings step for a weight or the bias; returns its new value.

    Its prior is Normal(mean, precision) and `links` is the derivative of the sum of the scores of linked pairs.
    """
    slope, curvature = _slope_and_curvature(cells, index, times, count)
    h = precision + power * curvature
    drift = _cut((power * (links - slope) - precision * (value - mean)) / h, 1.0 / np.sqrt(h))
    noise = rng.standard_normal()
    step = drift + noise / np.sqrt(h)
    proposal = value + step

    slope, curvature, change = _evaluate(cells, index, times, count, step, work)
    h_back = precision + power * curvature
    drift_back = _cut((power * (links - slope) - precision * (proposal - mean)) / h_back, 1.0 / np.sqrt(h_back))
    log_ratio = power * (links * step - change)
    log_ratio -= 0.5 * precision * ((proposal - mean) ** 2 - (value - mean) ** 2)
    log_ratio += 0.5 * np.log(h_back / h) - 0.5 * h_back * (step + drift_back) ** 2 + 0.5 * noise**2
    if np.log(rng.random()) >= log_ratio:
        return value
    score, probability, softplus = cells.score.ravel(), cells.probability.ravel(), cells.softplus.ravel()
    for c in range(count):
        score[index[c]] = work[0, c]
        probability[index[c]] = work[1, c]
        softplus[index[c]] = work[2, c]
    return proposal


@compiled
def _move_all(
    cells, groups, V, tau, bias, links, num_links, power, symmetric, has_bias, bias_mean, bias_precision, sweeps, rng
):  # type: ignore[no-untyped-def]
    size = cells.known.shape[0]
    num_features = V.shape[0]
    index = np.empty(size * size, dtype=np.int64)
    times = np.empty(size * size)
    work = np.empty((3, size * size))
    for _ in range(sweeps):
        if has_bias:
            count = 0
            for cell in range(size * size):
                if cells.known[cell // size, cell % size] > 0.0:
                    index[count] = cell
                    times[count] = 1.0
                    count += 1
            bias = _move(
                cells, index, times, count, bias, num_links, bias_mean, bias_precision, power, work, rng
            )
        for k in range(num_features):
            for j in range(k if symmetric else 0, num_features):
                count = list_cells(groups, cells.known, k, j, symmetric, index, times)
                V[k, j] = _move(cells, index, times, count, V[k, j], links[k, j], 0.0, tau, power, work, rng)
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
    sweeps: int,
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
            cells, groups, V, tau, bias, links, float(num_links), power, symmetric, bias_prior is not None, mean, precision,
            sweeps, rng,
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
