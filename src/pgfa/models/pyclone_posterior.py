"""The posterior of the unnormalised prevalences V, one sample at a time.

Given Z the samples are independent. Within a sample only the shares F = V / sum(V) reach the likelihood, and
populations that carry the same mutations reach it through their sum alone. The moves of V therefore act on points
u = log V of the sums of such groups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled
from pgfa.models.pyclone_genotypes import SampleLayout
from pgfa.models.pyclone_likelihood import (
    BEST,
    INFORMATION,
    NUM_LANE_SCRATCH,
    TOTAL,
    Density,
    sample_log_likelihood,
    sample_slopes,
)

#: Prevalences at which the information of each count is tried out.
NUM_GRID = 32

#: Shares below this are nothing, and their logarithms would soon not be finite.
LOWEST_LOG = -600.0


class Point(NamedTuple):
    """Where a sample stands: u = log V and V of its groups, prevalences of its lanes, what shapes Langevin proposals.

    `value[0]` is its log density.
    """

    u: NDArray[np.float64]
    v: NDArray[np.float64]
    phi: NDArray[np.float64]
    gradient: NDArray[np.float64]
    drift: NDArray[np.float64]
    factor: NDArray[np.float64]
    value: NDArray[np.float64]


class Target(NamedTuple):
    """The posterior of one sample after the other: data, prior of V, power of the likelihood, and working memory.

    `z` says which group has which lane, `shape` is that of each group's Gamma prior, `group` is the group of each
    population, `information` what each lane of the data tells of its prevalence.
    """

    layout: SampleLayout
    density: Density
    information: NDArray[np.float64]
    base_shape: float
    rate: float
    power: float
    z: NDArray[np.float64]
    shape: NDArray[np.float64]
    group: NDArray[np.int64]
    order: NDArray[np.int64]
    scratch: NDArray[np.float64]
    vectors: NDArray[np.float64]
    metric: NDArray[np.float64]


def make_target(
    layout: SampleLayout,
    density: Density,
    information: NDArray[np.float64],
    shape: float,
    rate: float,
    power: float,
    num_features: int,
) -> Target:
    """The posterior given everything but V."""
    widest = max(int(np.diff(layout.sample_start).max()), 1)
    return Target(
        layout,
        density,
        information,
        shape,
        rate,
        power,
        z=np.zeros((num_features, widest)),
        shape=np.empty(num_features),
        group=np.empty(num_features, dtype=np.int64),
        order=np.arange(num_features),
        scratch=np.empty((NUM_LANE_SCRATCH, widest)),
        vectors=np.empty((4, num_features)),
        metric=np.empty((num_features, num_features)),
    )


def make_point(target: Target) -> Point:
    """Memory for a point."""
    num_features, num_lanes = target.z.shape
    return Point(
        u=np.empty(num_features),
        v=np.empty(num_features),
        phi=np.zeros(num_lanes),
        gradient=np.empty(num_features),
        drift=np.empty(num_features),
        factor=np.empty((num_features, num_features)),
        value=np.empty(1),
    )


@compiled
def reference_information(layout, num_samples):  # type: ignore[no-untyped-def]
    """Binomial Fisher information of each lane at its own best prevalence on a grid: a function of the data alone."""
    density = Density(False, 1.0)
    size = layout.row.size
    best = np.full(size, -np.inf)
    information = np.zeros(size)
    widest = 1
    for m in range(num_samples):
        widest = max(widest, layout.sample_start[m + 1] - layout.sample_start[m])
    scratch = np.empty((NUM_LANE_SCRATCH, widest))
    phi = np.empty(widest)
    for m in range(num_samples):
        for j in range(NUM_GRID + 1):
            phi[:] = j / NUM_GRID
            sample_slopes(layout, density, m, phi, scratch)
            begin = layout.sample_start[m]
            for i in range(layout.sample_start[m + 1] - begin):
                value = scratch[BEST, i] + np.log(scratch[TOTAL, i])
                if value > best[begin + i]:
                    best[begin + i] = value
                    information[begin + i] = scratch[INFORMATION, i]
    return information


# --- groups and points ------------------------------------------------------------------------------------------------


@compiled(allocates=False)
def gather(target, Z, V, m, v):  # type: ignore[no-untyped-def]
    """Put populations with the same mutations in sample m together and add up V; returns how many groups."""
    layout, z, group = target.layout, target.z, target.group
    begin = layout.sample_start[m]
    num_lanes = layout.sample_start[m + 1] - begin
    count = 0
    for k in range(Z.shape[1]):
        for i in range(num_lanes):
            z[count, i] = Z[layout.row[begin + i], k]
        group[k] = count
        for g in range(count):
            i = 0
            while i < num_lanes and z[g, i] == z[count, i]:
                i += 1
            if i == num_lanes:
                group[k] = g
                break
        if group[k] == count:
            target.shape[count] = 0.0
            v[count] = 0.0
            target.order[count] = count
            count += 1
        target.shape[group[k]] += target.base_shape
        v[group[k]] += V[k, m]
    return count


@compiled(allocates=False)
def restrict(point, count):  # type: ignore[no-untyped-def]
    """The same memory for fewer groups."""
    return Point(
        point.u[:count],
        point.v[:count],
        point.phi,
        point.gradient[:count],
        point.drift[:count],
        point.factor,
        point.value,
    )


@compiled(allocates=False)
def copy_values(source, destination):  # type: ignore[no-untyped-def]
    """Element by element: an assignment to a slice might have to allocate."""
    for i in range(source.size):
        destination[i] = source[i]


@compiled(allocates=False)
def copy_point(source, destination):  # type: ignore[no-untyped-def]
    copy_values(source.u, destination.u)
    copy_values(source.v, destination.v)
    copy_values(source.phi, destination.phi)
    destination.value[0] = source.value[0]


@compiled(liberty="arithmetic", allocates=False)
def predict(target, m, point):  # type: ignore[no-untyped-def]
    """V from u, and prevalences: the shares of the groups that carry a mutation, added up."""
    num_lanes = target.layout.sample_start[m + 1] - target.layout.sample_start[m]
    total = 0.0
    for k in range(point.u.size):
        point.v[k] = np.exp(point.u[k])
    for k in range(point.u.size):
        total += point.v[k]
    for i in range(num_lanes):
        point.phi[i] = 0.0
    for k in range(point.u.size):
        share = point.v[k] / total
        for i in range(num_lanes):
            point.phi[i] += share * target.z[k, i]


@compiled(allocates=False)
def log_prior(target, point):  # type: ignore[no-untyped-def]
    """Log density of u up to a constant: Gamma densities of V and the Jacobian."""
    value = 0.0
    for k in range(point.u.size):
        value += target.shape[k] * point.u[k] - target.rate * point.v[k]
    return value


@compiled(allocates=False)
def evaluate(target, m, point):  # type: ignore[no-untyped-def]
    """Set V, the prevalences and the log density of a point from its u."""
    predict(target, m, point)
    log_lik = sample_log_likelihood(target.layout, target.density, m, point.phi, target.scratch)
    point.value[0] = target.power * log_lik + log_prior(target, point)


@compiled(allocates=False)
def is_sane(u):  # type: ignore[no-untyped-def]
    """Whether all logarithms are such that their exponentials are neither nothing nor infinite."""
    sane = True
    for k in range(u.size):
        sane = sane and LOWEST_LOG < u[k] < -LOWEST_LOG
    return sane
