"""The particle filter over rows behind `ColumnBlock`: a few columns laid out anew, with their values integrated out.

A particle is a layout of the rows so far. It carries the Normal posterior of the columns' values given these rows, one
mean and covariance matrix for each dimension, since different rows miss different dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa import lanes
from pgfa._compile import compiled
from pgfa.columns import read_residual
from pgfa.samplers.base import draw_index, exponentiate, shuffle
from pgfa.samplers.thinning import thin
from pgfa.vector_math import log

#: Particles below this share of the total weight are given up (see `thin`).
_FLOOR = float(np.log(1e-12))
#: Dimensions come in stretches of this many, so that loops over them are whole vectors; the last ones are unobserved.
_STRETCH = 16
#: Determinants above this are turned to logarithms before the next stretch could make them overflow.
_LARGE = 1e60


class Workspace(NamedTuple):
    """Memory of one move.

    Moments are (particle, component, dimension), covariances by their lower triangles; `history` holds parent * 2^q +
    pattern.
    """

    num_particles: int
    means: NDArray[np.float64]
    next_means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    next_covariances: NDArray[np.float64]
    owners: NDArray[np.float64]
    next_owners: NDArray[np.float64]
    log_placeholder: NDArray[np.float64]
    next_log_placeholder: NDArray[np.float64]
    log_odds: NDArray[np.float64]
    log_weight: NDArray[np.float64]
    child_log_prior: NDArray[np.float64]
    child_determinant: NDArray[np.float64]
    child_log_weight: NDArray[np.float64]
    weights: NDArray[np.float64]
    light: NDArray[np.int64]
    chosen: NDArray[np.int64]
    history: NDArray[np.int32]
    residual: NDArray[np.float64]
    is_observed: NDArray[np.float64]
    gain: NDArray[np.float64]
    order: NDArray[np.int64]


def make_workspace(num_particles: int, num_columns: int, num_rows: int, num_dims: int) -> Workspace:
    """Memory to move so many columns of so many rows."""
    capacity = num_particles + 3
    places, children = lanes.padded(capacity), lanes.padded(capacity * 2**num_columns)
    pairs = num_columns * (num_columns + 1) // 2
    width = -(-num_dims // _STRETCH) * _STRETCH
    return Workspace(
        num_particles=num_particles,
        means=np.zeros((capacity, num_columns, width)),
        next_means=np.zeros((capacity, num_columns, width)),
        covariances=np.zeros((capacity, pairs, width)),
        next_covariances=np.zeros((capacity, pairs, width)),
        owners=np.zeros((num_columns, capacity)),
        next_owners=np.zeros((num_columns, capacity)),
        log_placeholder=np.zeros(capacity),
        next_log_placeholder=np.zeros(capacity),
        log_odds=np.zeros((2, num_columns, capacity)),
        log_weight=np.zeros(places),
        child_log_prior=np.zeros(children),
        child_determinant=np.zeros(children),
        child_log_weight=np.zeros(children),
        weights=np.zeros(children),
        light=np.zeros(children, dtype=np.int64),
        chosen=np.zeros(places, dtype=np.int64),
        history=np.zeros((num_rows, capacity), dtype=np.int32),
        residual=np.zeros(width),
        is_observed=np.zeros(width),
        gain=np.zeros((2 + num_columns, width)),
        order=np.zeros(num_rows, dtype=np.int64),
    )


@compiled(allocates=False, inline=True)
def _pair(i, j):  # type: ignore[no-untyped-def]
    """Place of entry (i, j), i >= j, of a symmetric matrix stored by its lower triangle."""
    return i * (i + 1) // 2 + j


@compiled(allocates=False, inline=True)
def _columns_of(pattern):  # type: ignore[no-untyped-def]
    """The columns of a pattern in ascending order, and how many there are; the last is repeated up to three."""
    first = 0 if pattern & 1 else (1 if pattern & 2 else 2)
    rest = pattern & (pattern - 1)
    if rest == 0:
        return first, first, first, 1
    if rest & (rest - 1) == 0:
        second = 1 if rest & 2 else 2
        return first, second, second, 2
    return 0, 1, 2, 3


@compiled(liberty="arithmetic", allocates=False)
def _predict(mean, covariance, pattern, residual, is_observed, tau_x):  # type: ignore[no-untyped-def]
    """Log density of a row with this pattern given the rows before it, relative to that without the columns, in parts.

    Twice the density without its determinant, and the determinant.
    """
    i, j, k, size = _columns_of(pattern)
    total = 0.0
    determinant = 1.0
    for first in range(0, residual.size, _STRETCH):
        last = first + _STRETCH
        r, seen = residual[first:last], is_observed[first:last]
        m_i, c_ii = mean[i, first:last], covariance[_pair(i, i), first:last]
        m_j, c_jj, c_ij = mean[j, first:last], covariance[_pair(j, j), first:last], covariance[_pair(j, i), first:last]
        m_k, c_kk = mean[k, first:last], covariance[_pair(k, k), first:last]
        c_ik, c_jk = covariance[_pair(k, i), first:last], covariance[_pair(k, j), first:last]
        quadratic = 0.0
        if size == 1:
            for d in range(_STRETCH):
                ratio = 1.0 + tau_x * seen[d] * c_ii[d]
                surprise = r[d] - seen[d] * m_i[d]
                quadratic += r[d] * r[d] - surprise * surprise / ratio
                determinant *= ratio
        elif size == 2:
            for d in range(_STRETCH):
                ratio = 1.0 + tau_x * seen[d] * (c_ii[d] + c_jj[d] + 2.0 * c_ij[d])
                surprise = r[d] - seen[d] * (m_i[d] + m_j[d])
                quadratic += r[d] * r[d] - surprise * surprise / ratio
                determinant *= ratio
        else:
            for d in range(_STRETCH):
                spread = c_ii[d] + c_jj[d] + c_kk[d] + 2.0 * (c_ij[d] + c_ik[d] + c_jk[d])
                ratio = 1.0 + tau_x * seen[d] * spread
                surprise = r[d] - seen[d] * (m_i[d] + m_j[d] + m_k[d])
                quadratic += r[d] * r[d] - surprise * surprise / ratio
                determinant *= ratio
        total += tau_x * quadratic
        if determinant > _LARGE:
            total -= np.log(determinant)
            determinant = 1.0
    return total, determinant


@compiled(liberty="arithmetic", allocates=False)
def _absorb(mean, covariance, pattern, residual, is_observed, tau_x, gain, out_mean, out_covariance):  # type: ignore[no-untyped-def]
    """Condition the values of the columns on one more row: Kalman's update, for every dimension."""
    size, width = mean.shape
    scale, surprise = gain[0], gain[1]
    for d in range(width):
        scale[d] = 0.0
        surprise[d] = residual[d]
    for i in range(size):
        g = gain[2 + i]
        for d in range(width):
            g[d] = 0.0
        for j in range(size):
            if (pattern >> j) & 1:
                c = covariance[_pair(max(i, j), min(i, j))]
                for d in range(width):
                    g[d] += c[d]
        if (pattern >> i) & 1:
            m = mean[i]
            for d in range(width):
                scale[d] += g[d]
                surprise[d] -= is_observed[d] * m[d]
    for d in range(width):
        scale[d] = tau_x * is_observed[d] / (1.0 + tau_x * is_observed[d] * scale[d])
        surprise[d] *= scale[d]
    for i in range(size):
        m, g, out = mean[i], gain[2 + i], out_mean[i]
        for d in range(width):
            out[d] = m[d] + g[d] * surprise[d]
        for j in range(i + 1):
            h, c, out = gain[2 + j], covariance[_pair(i, j)], out_covariance[_pair(i, j)]
            for d in range(width):
                out[d] = c[d] - scale[d] * g[d] * h[d]


@compiled(allocates=False)
def _fill(values, number):  # type: ignore[no-untyped-def]
    for d in range(values.size):
        values[d] = number


@compiled(allocates=False)
def _copy_moments(mean, covariance, out_mean, out_covariance):  # type: ignore[no-untyped-def]
    for i in range(mean.shape[0]):
        for d in range(mean.shape[1]):
            out_mean[i, d] = mean[i, d]
    for i in range(covariance.shape[0]):
        for d in range(mean.shape[1]):
            out_covariance[i, d] = covariance[i, d]


@compiled(liberty="arithmetic", allocates=False)
def _weigh_patterns(work, means, covariances, owners, count, first_pattern, placed, a, b, tau_x):  # type: ignore[no-untyped-def]
    """Log placeholder priors and log weights of all children: pattern by pattern, and in each particle by particle.

    An order that does not depend on which particle is the kept one. `placed` counts the rows so far, as the placeholder
    does.
    """
    size = owners.shape[0]
    log_prior, determinant, log_weight = work.child_log_prior, work.child_determinant, work.child_log_weight
    log_all = np.log(placed + a + b)
    for i in range(size):
        absent, present, owned = work.log_odds[0, i], work.log_odds[1, i], owners[i]
        for p in range(count):
            absent[p] = log(placed - owned[p] + b) - log_all
            present[p] = log(owned[p] + a) - log_all
    child = 0
    for pattern in range(first_pattern, 1 << size):
        prior = log_prior[child : child + count]
        for p in range(count):
            prior[p] = 0.0
        for i in range(size):
            odds = work.log_odds[(pattern >> i) & 1, i]
            for p in range(count):
                prior[p] += odds[p]
        for p in range(count):
            total, determinant[child + p] = 0.0, 1.0
            if pattern != 0:
                total, determinant[child + p] = _predict(
                    means[p], covariances[p], pattern, work.residual, work.is_observed, tau_x
                )
            log_weight[child + p] = work.log_weight[p] + 0.5 * total
        child += count
    for c in range(child):
        log_weight[c] += log_prior[c] - 0.5 * log(determinant[c])
    return child


@compiled(allocates=False)
def move_columns(work, view, Z, group, moved, never_none, a, b, log_mass, log_selection, rng):  # type: ignore[no-untyped-def]
    """Lay out the columns of `group` anew for the rows in `moved`, and draw their values; Z and V change in place.

    Parameters
    ----------
    never_none
        Whether each of these rows must end with at least one of the columns.
    a, b
        Pseudo-counts of the placeholder prior that guides the particles on their way.
    log_mass
        Log prior mass of a column with 0, 1, ..., N owners, which takes the placeholder's place at the end.
    log_selection
        Log probability of choosing this group when 0, 1, ... of its columns are in use.
    """
    size = group.size
    num_patterns = 1 << size
    num_moved = moved.size
    num_dims = view.V.shape[1]
    num_outside = Z.shape[0] - num_moved
    first_pattern = 1 if never_none else 0
    means, next_means = work.means, work.next_means
    covariances, next_covariances = work.covariances, work.next_covariances
    owners, next_owners = work.owners, work.next_owners
    log_placeholder, next_log_placeholder = work.log_placeholder, work.next_log_placeholder
    log_weight, chosen = work.log_weight, work.chosen

    order = work.order
    for t in range(num_moved):
        order[t] = moved[t]
    shuffle(order, num_moved, rng)

    for i in range(size):
        owners[i, 0] = 0.0
        _fill(means[0, i], 0.0)
        for j in range(i + 1):
            _fill(covariances[0, _pair(i, j)], 1.0 / view.tau_v if i == j else 0.0)
    log_placeholder[0] = 0.0
    log_weight[0] = 0.0
    count = 1
    kept = 0
    for t in range(num_moved):
        n = order[t]
        read_residual(view, Z[n], group, n, work.residual[:num_dims], work.is_observed[:num_dims])
        present = 0
        for i in range(size):
            present += int(Z[n, group[i]]) << i
        kept += count * (present - first_pattern)
        placed = t + (t / num_moved) * num_outside
        num_children = _weigh_patterns(work, means, covariances, owners, count, first_pattern, placed, a, b, view.tau_x)
        if num_children > work.num_particles:
            survivors, kept = thin(
                work.child_log_weight, num_children, work.num_particles, 0, _FLOOR, kept, rng, work.weights,
                work.light, chosen, log_weight,
            )  # fmt: skip
        else:
            survivors = num_children
            for j in range(survivors):
                chosen[j] = j
                log_weight[j] = work.child_log_weight[j]
        for j in range(survivors):
            child = chosen[j]
            parent = child % count
            pattern = first_pattern + child // count
            for i in range(size):
                next_owners[i, j] = owners[i, parent] + ((pattern >> i) & 1)
            next_log_placeholder[j] = log_placeholder[parent] + work.child_log_prior[child]
            work.history[t, j] = parent * num_patterns + pattern
            if pattern == 0:
                _copy_moments(means[parent], covariances[parent], next_means[j], next_covariances[j])
            else:
                _absorb(
                    means[parent], covariances[parent], pattern, work.residual, work.is_observed, view.tau_x, work.gain,
                    next_means[j], next_covariances[j],
                )  # fmt: skip
        count = survivors
        means, next_means = next_means, means
        covariances, next_covariances = next_covariances, covariances
        owners, next_owners = next_owners, owners
        log_placeholder, next_log_placeholder = next_log_placeholder, log_placeholder

    for p in range(count):
        in_use = 0
        log_weight[p] -= log_placeholder[p]
        for i in range(size):
            log_weight[p] += log_mass[int(owners[i, p])]
            in_use += 1 if owners[i, p] > 0 else 0
        log_weight[p] += log_selection[in_use]
    total = exponentiate(log_weight, count, work.weights)
    final = draw_index(work.weights, count, total, rng)

    for d in range(num_dims):
        _draw_values(means[final], covariances[final], d, view.V, group, rng)
    particle = final
    for t in range(num_moved - 1, -1, -1):
        entry = work.history[t, particle]
        for i in range(size):
            Z[order[t], group[i]] = (entry >> i) & 1
        particle = entry // num_patterns


@compiled(allocates=False)
def _draw_values(mean, covariance, d, V, group, rng):  # type: ignore[no-untyped-def]
    """Draw the values of the columns in dimension d from their Normal posterior; the Cholesky factor is written out."""
    e0 = rng.standard_normal()
    l00 = np.sqrt(max(covariance[0, d], 0.0))
    V[group[0], d] = mean[0, d] + l00 * e0
    if group.size > 1:
        e1 = rng.standard_normal()
        l10 = covariance[1, d] / l00 if l00 > 0.0 else 0.0
        l11 = np.sqrt(max(covariance[2, d] - l10 * l10, 0.0))
        V[group[1], d] = mean[1, d] + l10 * e0 + l11 * e1
        if group.size > 2:
            e2 = rng.standard_normal()
            l20 = covariance[3, d] / l00 if l00 > 0.0 else 0.0
            l21 = (covariance[4, d] - l20 * l10) / l11 if l11 > 0.0 else 0.0
            l22 = np.sqrt(max(covariance[5, d] - l20 * l20 - l21 * l21, 0.0))
            V[group[2], d] = mean[2, d] + l20 * e0 + l21 * e1 + l22 * e2
