"""Moves of whole columns in the latent feature relational model.

Chains are caught in allocations whose columns are sums or differences of the true ones, or their complements, with
weights that make up for it: no row at a time can mend that, as all owners of a column would have to move at once, and
the weights with them. Here columns are replaced, and all of their weights drawn anew from a Normal approximation of the
posterior given Z and the other weights:

- column a by its symmetric difference with another column b;
- now and then a column by its complement;
- now and then three columns by two, or two by three (see `pgfa.samplers.three_and_two`).

The approximation depends on neither the old weights nor the new ones, so that the Metropolis-Hastings ratio needs the
densities of the two approximations and the chances of choosing the move and its reverse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled
from pgfa.models.network import Groups, Network, make_groups
from pgfa.models.relational_weights import Cells, count_links, make_cells
from pgfa.samplers.three_and_two import Proposal, propose_three, propose_two
from pgfa.small_matrices import factorise, solve_lower, solve_upper
from pgfa.vector_math import exp, softplus

#: Shares of the proposals that replace a column by its complement, and three columns by two or two by three.
_COMPLEMENTS = 0.1
_THREE_AND_TWO = 0.2
#: Newton steps towards the mode, and the size of a step that is close enough. More would be no more exact.
_MOST_STEPS = 6
_SMALL_STEP = 0.2
#: Second derivatives, for each pair of nodes and feature, beyond which exchanges are proposed the more seldom the more
#: there are: where no two nodes are alike, three proposals would take ten times as long as the sweep.
_MUCH_WORK = 1.0


class Regression(NamedTuple):
    """The weights of some columns as a logistic regression, given all other weights.

    The score of cell c is ``base[c]`` plus the sum over i from start[c] to start[c + 1] of ``times[i]`` times the
    weight with number ``which[i]``. `links` holds the number of linked pairs that each weight counts for.
    """

    known: NDArray[np.float64]
    base: NDArray[np.float64]
    start: NDArray[np.int64]
    which: NDArray[np.int64]
    times: NDArray[np.float64]
    links: NDArray[np.float64]


@compiled
def _list_weights(cells, place, num_weights):  # type: ignore[no-untyped-def]
    """Which weights count for which cells, and how many times.

    Cells for which none does are listed as well: a complement changes which these are.
    """
    size, num_features = cells.vectors.shape
    owned = np.empty((size, num_features), dtype=np.int64)
    num_owned = np.zeros(size, dtype=np.int64)
    num_moving = np.zeros(size, dtype=np.int64)
    is_moving = np.zeros(num_features, dtype=np.bool_)
    for k in range(num_features):
        is_moving[k] = place[k, k] >= 0
    for g in range(size):
        for k in range(num_features):
            if cells.vectors[g, k] == 1:
                owned[g, num_owned[g]] = k
                num_owned[g] += 1
                num_moving[g] += 1 if is_moving[k] else 0
    room = 0
    num_cells = 0
    for g in range(size):
        for h in range(size):
            if cells.known[g * size + h] > 0.0:
                num_cells += 1
                room += num_moving[g] * num_owned[h] + num_owned[g] * num_moving[h]
    known = np.empty(num_cells)
    base = np.empty(num_cells)
    start = np.zeros(num_cells + 1, dtype=np.int64)
    which = np.empty(room, dtype=np.int64)
    times = np.empty(room)
    seen = np.full(num_weights, -1)
    cell = 0
    top = 0
    for g in range(size):
        for h in range(size):
            if cells.known[g * size + h] <= 0.0:
                continue
            for i in range(num_owned[g]):
                for j in range(num_owned[h]):
                    weight = place[owned[g, i], owned[h, j]]
                    if weight < 0:
                        continue
                    if seen[weight] >= start[cell]:  # of a symmetric network, as (j, i) before
                        times[seen[weight]] += 1.0
                        continue
                    seen[weight] = top
                    which[top] = weight
                    times[top] = 1.0
                    top += 1
            known[cell] = cells.known[g * size + h]
            base[cell] = cells.score[g * size + h]
            cell += 1
            start[cell] = top
    return known, base, start, which[:top], times[:top]


@compiled(liberty="arithmetic", allocates=False)
def _log_density(regression, weights, tau, power):  # type: ignore[no-untyped-def]
    """Log density of the weights given the links, up to what does not depend on them or on the exchanged column."""
    total = 0.0
    for w in range(weights.size):
        total += power * regression.links[w] * weights[w] - 0.5 * tau * weights[w] * weights[w]
    for c in range(regression.known.size):
        score = regression.base[c]
        for i in range(regression.start[c], regression.start[c + 1]):
            score += regression.times[i] * weights[regression.which[i]]
        total -= power * regression.known[c] * softplus(score)
    return total


@compiled(liberty="arithmetic", allocates=False)
def _differentiate(regression, weights, tau, power, slope, curvature):  # type: ignore[no-untyped-def]
    """Gradient of the log density, and the lower triangle of minus its second derivatives."""
    for w in range(weights.size):
        slope[w] = power * regression.links[w] - tau * weights[w]
        for v in range(w):
            curvature[w, v] = 0.0
        curvature[w, w] = tau
    which, times = regression.which, regression.times
    for c in range(regression.known.size):
        first, last = regression.start[c], regression.start[c + 1]
        score = regression.base[c]
        for i in range(first, last):
            score += times[i] * weights[which[i]]
        e = exp(-abs(score))
        p = (1.0 if score >= 0.0 else e) / (1.0 + e)
        expected = power * regression.known[c] * p
        for i in range(first, last):
            w = which[i]
            slope[w] -= expected * times[i]
            factor = expected * (1.0 - p) * times[i]
            for j in range(first, i + 1):
                v = which[j]
                curvature[max(w, v), min(w, v)] += factor * times[j]


@compiled
def _approximate(regression, tau, power):  # type: ignore[no-untyped-def]
    """Mode of the weights, and the Cholesky factor of the precision there, by Newton steps from zero."""
    num_weights = regression.links.size
    mode = np.zeros(num_weights)
    trial = np.empty(num_weights)
    slope = np.empty(num_weights)
    factor = np.zeros((num_weights, num_weights))
    height = _log_density(regression, mode, tau, power)
    for _ in range(_MOST_STEPS):
        _differentiate(regression, mode, tau, power, slope, factor)
        factorise(factor)
        solve_lower(factor, slope, slope)
        solve_upper(factor, slope, slope)
        share = 1.0
        for _ in range(6):
            for w in range(num_weights):
                trial[w] = mode[w] + share * slope[w]
            trial_height = _log_density(regression, trial, tau, power)
            if trial_height >= height:
                break
            share *= 0.5
        longest = 0.0
        for w in range(num_weights):
            longest = max(longest, abs(trial[w] - mode[w]))
            mode[w] = trial[w]
        height = trial_height
        if longest < _SMALL_STEP:
            break
    _differentiate(regression, mode, tau, power, slope, factor)
    factorise(factor)
    return mode, factor


@compiled(allocates=False)
def _log_normal(weights, mode, factor):  # type: ignore[no-untyped-def]
    """Log density of the approximation, but for powers of 2 pi."""
    total = 0.0
    for i in range(weights.size):
        length = 0.0
        for j in range(i, weights.size):
            length += factor[j, i] * (weights[j] - mode[j])
        total += np.log(factor[i, i]) - 0.5 * length * length
    return total


def _regress(
    network: Network,
    groups: Groups,
    Z: NDArray[np.uint8],
    V: NDArray[np.float64],
    bias: float,
    symmetric: bool,
    place: NDArray[np.int64],
    weights: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> Regression:
    cells: Cells = make_cells(network, groups, np.where(place >= 0, 0.0, V), bias, symmetric)
    links = np.zeros(V.shape)
    count_links(network, Z, symmetric, links)
    known, base, start, which, times = _list_weights(cells, place, weights[0].size)
    return Regression(known, base, start, which, times, links[weights])


def _chance(groups: Groups, columns: list[int]) -> float:
    """Chance that new weights for these columns are tried at all, by the work that it would be."""
    vectors = groups.vectors[: groups.top[0]].astype(float)
    owned = vectors.sum(axis=1)
    moving = vectors[:, columns].sum(axis=1)
    work = 2.0 * ((moving @ moving) * (owned @ owned) + (moving @ owned) ** 2)
    # Columns that nobody owns must not count: how many of them there are is no part of the state where it grows.
    num_nodes, num_used = groups.group_of.size, np.count_nonzero(vectors.any(axis=0))
    return min(1.0, _MUCH_WORK * num_nodes**2 * num_used / work)


def _place(num_features: int, columns: list[int], symmetric: bool) -> NDArray[np.int64]:
    """Numbers of the weights of these columns, and -1 for all others."""
    place = np.full((num_features, num_features), -1)
    touched = np.zeros((num_features, num_features), dtype=bool)
    touched[columns] = True
    touched[:, columns] = True
    if symmetric:
        touched &= np.triu(np.ones_like(touched))
    place[touched] = np.arange(np.count_nonzero(touched))
    return np.maximum(place, place.T) if symmetric else place


def _weights_of(place: NDArray[np.int64], symmetric: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of each of the numbered weights, in the order of their numbers."""
    source, target = np.nonzero(np.triu(place + 1) if symmetric else place + 1)
    return source, target


def _propose(
    Z: NDArray[np.uint8], log_column_mass: NDArray[np.float64], grows: bool, rng: np.random.Generator
) -> Proposal | None:
    """Columns to be replaced, chosen among those that somebody owns, or None where nothing comes of it.

    Without an owner only the third column of three may end. With one column in use there is nothing but its complement,
    and from two on the shares of the kinds are the same for all Z.
    """
    used = np.flatnonzero(Z.any(axis=0))
    if used.size == 0:
        return None
    kind = rng.random()
    if used.size == 1 or kind < _COMPLEMENTS:
        a = int(rng.choice(used))
        return _replace(Z, a, 1 - Z[:, a], [a])
    if kind < _COMPLEMENTS + _THREE_AND_TWO:
        propose = propose_two if kind < _COMPLEMENTS + 0.5 * _THREE_AND_TWO else propose_three
        return propose(Z, log_column_mass, grows, bool(rng.random() < 0.5), rng)
    a, b = (int(k) for k in rng.choice(used, size=2, replace=False))
    # The weights of b move as well: what it had in common with a counts elsewhere now.
    return _replace(Z, a, Z[:, a] ^ Z[:, b], [a, b])


def _replace(Z: NDArray[np.uint8], a: int, column: NDArray[np.uint8], moving: list[int]) -> Proposal | None:
    """An exchange that undoes itself, so that the way back is as likely as the way there."""
    if not column.any():
        return None
    new_Z = Z.copy()
    new_Z[:, a] = column
    return Proposal(new_Z, moving, 0.0)


def exchange_columns(
    network: Network,
    Z: NDArray[np.uint8],
    V: NDArray[np.float64],
    *,
    tau: float,
    bias: float,
    symmetric: bool,
    grows: bool,
    log_column_mass: NDArray[np.float64],
    power: float,
    num_proposals: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.uint8], NDArray[np.float64], int]:
    """Propose exchanges of columns; returns Z, V (new arrays where anything was accepted) and how many were accepted.

    Where the number of columns `grows`, there may be one more afterwards, or one that nobody owns any more.
    """
    accepted = 0
    groups = make_groups(Z)
    for _ in range(num_proposals):
        proposal = _propose(Z, log_column_mass, grows, rng)
        if proposal is None:
            continue
        new_Z, columns = proposal.Z, proposal.columns
        if new_Z.shape != Z.shape:
            # Weights of a column without owners cancel from the ratio, so that they may be anything.
            Z, V = np.pad(Z, ((0, 0), (0, 1))), np.pad(V, (0, 1))
            groups = make_groups(Z)
        new_groups = make_groups(new_Z)
        chance, chance_back = _chance(groups, columns), _chance(new_groups, columns)
        if rng.random() >= chance:
            continue
        place = _place(V.shape[0], columns, symmetric)
        weights = _weights_of(place, symmetric)
        before = _regress(network, groups, Z, V, bias, symmetric, place, weights)
        after = _regress(network, new_groups, new_Z, V, bias, symmetric, place, weights)
        old_mode, old_factor = _approximate(before, tau, power)
        new_mode, new_factor = _approximate(after, tau, power)
        old_weights = V[weights]
        noise = rng.standard_normal(old_weights.size)
        solve_upper(new_factor, noise, noise)
        new_weights = new_mode + noise

        log_ratio = proposal.log_ratio + np.log(chance_back / chance) + proposal.prior_gain(Z, log_column_mass)
        log_ratio += _log_density(after, new_weights, tau, power) - _log_density(before, old_weights, tau, power)
        log_ratio += _log_normal(old_weights, old_mode, old_factor) - _log_normal(new_weights, new_mode, new_factor)
        if np.log(rng.random()) < log_ratio:
            Z, V, groups = new_Z, V.copy(), new_groups
            V[weights] = new_weights
            if symmetric:
                V[weights[::-1]] = new_weights
            accepted += 1
    return Z, V, accepted
