"""Moves of the unnormalised prevalences V and of the beta-binomial precision.

Given Z the samples are independent, so every move is proposed and accepted one sample at a time. Within a sample only the
shares F = V / sum(V) reach the likelihood; given these the sum is Gamma-distributed, and drawn exactly at the end.

Moves of one sample, all on u = log V:

- *single*: random walk on one entry after the other;
- *block*: random walk on a few entries at once;
- *exchange*: random walk on how two populations divide what they have together;
- *permutation*: the values of the sample in random order;
- *multiple-try*: the best of several random walks on all entries, balanced by as many from there;
- *langevin*: a step along the gradient, with noise shaped by the Fisher information, both of them at the present point (simplified
  manifold Langevin). In coordinates shaped this way neither correlated populations nor shares near zero are hard.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled
from pgfa.models.pyclone_genotypes import SampleLayout
from pgfa.models.pyclone_likelihood import (
    Density,
    Scratch,
    depth_terms,
    make_scratch,
    sample_log_likelihood,
    sample_slopes,
)
from pgfa.samplers.base import shuffle

SINGLE, BLOCK, EXCHANGE, PERMUTATION, MULTIPLE_TRY, LANGEVIN, COPIES = range(7)

#: The names users give, in the order of the codes above.
MOVES = ("single", "block", "exchange", "permutation", "multiple-try", "langevin", "copies")

#: Acceptance rates that step sizes aim at; a permutation has no step size.
TARGETS = {"single": 0.44, "block": 0.3, "multiple-try": 0.4, "langevin": 0.6}

NUM_TRIES = 5
NUM_GRID = 32
LARGEST_BLOCK = 4

#: Shares below this are nothing, and their logarithms would soon not be finite.
_LOWEST_LOG = -600.0


class Point(NamedTuple):
    """Where a sample stands: u = log V, V, prevalences of its mutations, and what shapes a Langevin proposal."""

    u: NDArray[np.float64]
    v: NDArray[np.float64]
    phi: NDArray[np.float64]
    gradient: NDArray[np.float64]
    factor: NDArray[np.float64]
    drift: NDArray[np.float64]
    value: NDArray[np.float64]


class Target(NamedTuple):
    """The posterior of one sample: data, prior of V, power of the likelihood, and working memory.

    `z` holds Z by population and lane for the sample at hand, and `value[0]` of a point its log density.
    """

    layout: SampleLayout
    density: Density
    shape: NDArray[np.float64]
    rate: float
    power: float
    z: NDArray[np.float64]
    information: NDArray[np.float64]
    scratch: Scratch
    order: NDArray[np.int64]
    shares: NDArray[np.float64]
    metric: NDArray[np.float64]


def make_target(
    layout: SampleLayout, density: Density, information: NDArray[np.float64], rate: float, power: float, num_features: int
) -> Target:
    """Memory for the moves of all samples in turn."""
    widest = max(int(np.diff(layout.sample_start).max(initial=0)), 1)
    return Target(
        layout,
        density,
        np.empty(num_features),
        rate,
        power,
        z=np.zeros((num_features, widest)),
        information=information,
        scratch=make_scratch(widest),
        order=np.arange(num_features),
        shares=np.empty((3, num_features)),
        metric=np.empty((num_features, num_features)),
    )


@compiled
def _restrict_target(target, count):  # type: ignore[no-untyped-def]
    return Target(
        target.layout,
        target.density,
        target.shape[:count],
        target.rate,
        target.power,
        target.z[:count],
        target.information,
        target.scratch,
        target.order[:count],
        target.shares[:, :count],
        target.metric[:count, :count],
    )


@compiled
def _restrict_point(point, count):  # type: ignore[no-untyped-def]
    return Point(
        point.u[:count],
        point.v[:count],
        point.phi,
        point.gradient[:count],
        point.factor[:count, :count],
        point.drift[:count],
        point.value,
    )


def make_point(num_features: int, num_lanes: int) -> Point:
    return Point(
        u=np.empty(num_features),
        v=np.empty(num_features),
        phi=np.empty(num_lanes),
        gradient=np.empty(num_features),
        factor=np.empty((num_features, num_features)),
        drift=np.empty(num_features),
        value=np.empty(1),
    )


@compiled(liberty="arithmetic")
def predict(z, v, num_lanes, phi):  # type: ignore[no-untyped-def]
    """Prevalence of each lane: the shares of the populations that carry it, added up."""
    total = 0.0
    for k in range(v.size):
        total += v[k]
    for i in range(num_lanes):
        phi[i] = 0.0
    for k in range(v.size):
        share = v[k] / total
        for i in range(num_lanes):
            phi[i] += share * z[k, i]


@compiled
def log_prior(target, point):  # type: ignore[no-untyped-def]
    """Log density of u up to a constant: a Gamma density of V and the Jacobian."""
    value = 0.0
    for k in range(point.u.size):
        value += target.shape[k] * point.u[k] - target.rate * point.v[k]
    return value


@compiled
def evaluate(target, m, point):  # type: ignore[no-untyped-def]
    """Set V, the prevalences and the log density of a point from its u."""
    for k in range(point.u.size):
        point.v[k] = np.exp(point.u[k])
    num_lanes = target.layout.sample_start[m + 1] - target.layout.sample_start[m]
    predict(target.z, point.v, num_lanes, point.phi)
    log_lik = sample_log_likelihood(target.layout, target.density, m, point.phi, target.scratch)
    point.value[0] = target.power * log_lik + log_prior(target, point)


@compiled
def is_sane(u):  # type: ignore[no-untyped-def]
    for k in range(u.size):
        if not _LOWEST_LOG < u[k] < -_LOWEST_LOG:
            return False
    return True


@compiled
def accept(target, m, point, proposal, log_correction, rng):  # type: ignore[no-untyped-def]
    """Metropolis-Hastings: evaluate proposal.u and go there or stay."""
    if not is_sane(proposal.u):
        return False
    evaluate(target, m, proposal)
    if np.log(rng.random()) < proposal.value[0] - point.value[0] + log_correction:
        copy_point(proposal, point)
        return True
    return False


@compiled
def copy_point(source, destination):  # type: ignore[no-untyped-def]
    destination.u[:] = source.u
    destination.v[:] = source.v
    destination.phi[:] = source.phi
    destination.value[0] = source.value[0]


@compiled
def move_single(target, m, point, proposal, step, rng):  # type: ignore[no-untyped-def]
    accepted = 0
    shuffle(target.order, target.order.size, rng)
    for k in target.order:
        proposal.u[:] = point.u
        proposal.u[k] += step * rng.standard_normal()
        accepted += accept(target, m, point, proposal, 0.0, rng)
    return accepted, target.order.size


@compiled
def move_block(target, m, point, proposal, step, rng):  # type: ignore[no-untyped-def]
    accepted = 0
    proposed = 0
    num_features = target.order.size
    shuffle(target.order, num_features, rng)
    for first in range(0, num_features, LARGEST_BLOCK):
        proposal.u[:] = point.u
        for k in target.order[first : first + LARGEST_BLOCK]:
            proposal.u[k] += step * rng.standard_normal()
        accepted += accept(target, m, point, proposal, 0.0, rng)
        proposed += 1
    return accepted, proposed


@compiled(liberty="arithmetic")
def _exchange_value(target, m, point, k, l, whole, total, x, phi):  # type: ignore[no-untyped-def]
    """Log density where population k has x of what it and l have together."""
    if not 1e-280 < x < whole - 1e-280:
        return -np.inf
    step = (x - point.v[k]) / total
    num_lanes = target.layout.sample_start[m + 1] - target.layout.sample_start[m]
    for i in range(num_lanes):
        phi[i] = point.phi[i] + step * (target.z[k, i] - target.z[l, i])
    log_lik = sample_log_likelihood(target.layout, target.density, m, phi, target.scratch)
    return target.power * log_lik + (target.shape[k] - 1.0) * np.log(x) + (target.shape[l] - 1.0) * np.log(whole - x)


@compiled
def move_exchange(target, m, point, proposal, rng):  # type: ignore[no-untyped-def]
    """Each population meets another one, and how they divide what they have together is drawn by slice sampling.

    The width of the first interval comes from the data and Z alone.
    """
    num_features = target.order.size
    if num_features < 2:
        return 0, 0
    begin = target.layout.sample_start[m]
    num_lanes = target.layout.sample_start[m + 1] - begin
    total = 0.0
    for k in range(num_features):
        total += point.v[k]
    shuffle(target.order, num_features, rng)
    evaluations = 0
    for j in range(num_features if num_features > 2 else 1):
        k, l = target.order[j], target.order[(j + 1) % num_features]
        information = 0.0
        for i in range(num_lanes):
            information += abs(target.z[k, i] - target.z[l, i]) * target.information[begin + i]
        whole = point.v[k] + point.v[l]
        x = point.v[k]
        width = whole
        if target.power * information > 0.0:
            width = min(whole, 3.0 * total / np.sqrt(target.power * information))
        level = _exchange_value(target, m, point, k, l, whole, total, x, proposal.phi) - rng.standard_exponential()
        low = x - rng.random() * width
        high = low + width
        while low > 0.0 and _exchange_value(target, m, point, k, l, whole, total, low, proposal.phi) > level:
            low -= width
            evaluations += 1
        while high < whole and _exchange_value(target, m, point, k, l, whole, total, high, proposal.phi) > level:
            high += width
            evaluations += 1
        low = max(low, 0.0)
        high = min(high, whole)
        for _ in range(100):
            y = low + rng.random() * (high - low)
            evaluations += 1
            if _exchange_value(target, m, point, k, l, whole, total, y, proposal.phi) > level:
                point.phi[:] = proposal.phi
                point.v[k] = y
                point.v[l] = whole - y
                break
            if y < x:
                low = y
            else:
                high = y
    for k in range(num_features):
        point.u[k] = np.log(point.v[k])
    return evaluations, num_features


@compiled
def move_copies(target, m, point, proposal, rng):  # type: ignore[no-untyped-def]
    """A share as it would be had its mutations one copy more or less; another population, or all of them, give or take.

    Where few mutations tell of a population, its share is known only up to the genotype: half of it with twice the copies
    does as well, and nothing in between.
    """
    num_features = target.order.size
    if num_features < 2:
        return 0, 0
    shuffle(target.order, num_features, rng)
    accepted = 0
    for k in target.order:
        copies = 1 + int(rng.random() * 3)
        log_ratio = np.log(copies / (copies + 1.0))
        if rng.random() < 0.5:
            log_ratio = -log_ratio
        partner = int(rng.random() * num_features)
        proposal.u[:] = point.u
        proposal.u[k] += log_ratio
        log_correction = 0.0
        if partner != k:
            left = point.v[k] + point.v[partner] - point.v[k] * np.exp(log_ratio)
            if not left > 1e-280:
                continue
            proposal.u[partner] = np.log(left)
            # The map scales V of k by the ratio; in u of the partner the volume scales with its V.
            log_correction = point.u[partner] - proposal.u[partner]
        accepted += accept(target, m, point, proposal, log_correction, rng)
    return accepted, num_features


@compiled
def move_permutation(target, m, point, proposal, rng):  # type: ignore[no-untyped-def]
    shuffle(target.order, target.order.size, rng)
    for k in range(target.order.size):
        proposal.u[k] = point.u[target.order[k]]
    return accept(target, m, point, proposal, 0.0, rng), 1


@compiled
def move_multiple_try(target, m, point, proposal, reserve, step, rng):  # type: ignore[no-untyped-def]
    """Draw several, choose one by its density, and weigh them against as many drawn from it, the present point included."""
    forward = -np.inf
    for _ in range(NUM_TRIES):
        walk(point.u, step, proposal.u, rng)
        if not is_sane(proposal.u):
            continue
        evaluate(target, m, proposal)
        forward = np.logaddexp(forward, proposal.value[0])
        if np.log(rng.random()) < proposal.value[0] - forward:
            copy_point(proposal, reserve)
    if forward == -np.inf:
        return False, 1
    backward = point.value[0]
    for _ in range(NUM_TRIES - 1):
        walk(reserve.u, step, proposal.u, rng)
        if is_sane(proposal.u):
            evaluate(target, m, proposal)
            backward = np.logaddexp(backward, proposal.value[0])
    if np.log(rng.random()) < forward - backward:
        copy_point(reserve, point)
        return True, 1
    return False, 1


@compiled
def walk(u, step, out, rng):  # type: ignore[no-untyped-def]
    for k in range(u.size):
        out[k] = u[k] + step * rng.standard_normal()


# --- Langevin -------------------------------------------------------------------------------------------------------


@compiled(liberty="arithmetic")
def shape_proposals(target, m, point):  # type: ignore[no-untyped-def]
    """Set the log density of a point, its gradient in u, the Cholesky factor of the metric, and the drift.

    With J = diag(F) - F F' the derivative of the shares in u, the metric is J' Z' diag(information) Z J from the likelihood plus
    the shape of the Gamma prior on the diagonal, which is its expected curvature.
    """
    num_features = point.u.size
    num_lanes = target.layout.sample_start[m + 1] - target.layout.sample_start[m]
    for k in range(num_features):
        point.v[k] = np.exp(point.u[k])
    predict(target.z, point.v, num_lanes, point.phi)
    log_lik = sample_slopes(target.layout, target.density, m, point.phi, target.scratch)
    point.value[0] = target.power * log_lik + log_prior(target, point)

    score, information, z = target.scratch.score, target.scratch.information, target.z
    F, by_share, products, metric = target.shares[0], target.shares[1], target.shares[2], target.metric
    total = 0.0
    for k in range(num_features):
        total += point.v[k]
    mean_score = 0.0
    for k in range(num_features):
        F[k] = point.v[k] / total
        value = 0.0
        for i in range(num_lanes):
            value += z[k, i] * score[i]
        by_share[k] = value
        mean_score += F[k] * value
    for k in range(num_features):
        products[k] = 0.0
    for k in range(num_features):
        for l in range(k + 1):
            value = 0.0
            for i in range(num_lanes):
                value += z[k, i] * z[l, i] * information[i]
            metric[k, l] = value
            products[k] += value * F[l]
            if l < k:
                products[l] += value * F[k]
    mean_product = 0.0
    for k in range(num_features):
        mean_product += F[k] * products[k]
    for k in range(num_features):
        point.gradient[k] = target.power * F[k] * (by_share[k] - mean_score) + target.shape[k] - target.rate * point.v[k]
        for l in range(k + 1):
            curvature = metric[k, l] - products[k] - products[l] + mean_product
            point.factor[k, l] = target.power * F[k] * F[l] * curvature
        point.factor[k, k] += target.shape[k]
    factorise(point.factor)
    solve(point.factor, point.gradient, point.drift)


@compiled(liberty="arithmetic")
def factorise(A):  # type: ignore[no-untyped-def]
    """Replace the lower triangle of a positive definite matrix by its Cholesky factor."""
    for i in range(A.shape[0]):
        for j in range(i + 1):
            value = A[i, j]
            for k in range(j):
                value -= A[i, k] * A[j, k]
            A[i, j] = np.sqrt(max(value, 1e-12)) if i == j else value / A[j, j]


@compiled(liberty="arithmetic")
def solve_transposed(L, x):  # type: ignore[no-untyped-def]
    """x = inverse of L' times x, in place."""
    for i in range(x.size - 1, -1, -1):
        value = x[i]
        for j in range(i + 1, x.size):
            value -= L[j, i] * x[j]
        x[i] = value / L[i, i]


@compiled(liberty="arithmetic")
def solve(L, b, x):  # type: ignore[no-untyped-def]
    """x = inverse of (L L') times b."""
    for i in range(b.size):
        value = b[i]
        for j in range(i):
            value -= L[i, j] * x[j]
        x[i] = value / L[i, i]
    solve_transposed(L, x)


@compiled
def log_proposal(point, u, step):  # type: ignore[no-untyped-def]
    """Log density, up to a constant, with which a Langevin step from `point` arrives at u."""
    num_features = u.size
    value = 0.0
    for j in range(num_features):
        # (L' r)_j for the deviation r from the mean of the step
        product = 0.0
        for i in range(j, num_features):
            product += point.factor[i, j] * (u[i] - point.u[i] - 0.5 * step * step * point.drift[i])
        value += np.log(point.factor[j, j]) - 0.5 * product * product / (step * step)
    return value


@compiled
def move_langevin(target, m, point, proposal, step, rng):  # type: ignore[no-untyped-def]
    """One step; `point` must come from `shape_proposals`, and so does what it is afterwards."""
    num_features = point.u.size
    for k in range(num_features):
        proposal.u[k] = rng.standard_normal()
    solve_transposed(point.factor, proposal.u)
    for k in range(num_features):
        proposal.u[k] = point.u[k] + 0.5 * step * step * point.drift[k] + step * proposal.u[k]
    if not is_sane(proposal.u):
        return False
    shape_proposals(target, m, proposal)
    log_ratio = proposal.value[0] - point.value[0]
    log_ratio += log_proposal(proposal, point.u, step) - log_proposal(point, proposal.u, step)
    if np.log(rng.random()) < log_ratio:
        copy_point(proposal, point)
        point.gradient[:] = proposal.gradient
        point.factor[:] = proposal.factor
        point.drift[:] = proposal.drift
        return True
    return False


# --- all samples ----------------------------------------------------------------------------------------------------


@compiled
def gather_groups(target, Z, V, m, shape, group, point):  # type: ignore[no-untyped-def]
    """Put populations with the same mutations in sample m together, and load what they have; returns the number of groups.

    The likelihood sees only the sum of each group. A sum of Gamma variables is Gamma, and how it is divided is independent
    of it: that is drawn exactly later.
    """
    layout, z = target.layout, target.z
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
            point.v[count] = 0.0
            count += 1
        target.shape[group[k]] += shape
        point.v[group[k]] += V[k, m]
    for g in range(count):
        point.u[g] = np.log(point.v[g])
        target.order[g] = g
    return count


@compiled
def scatter_groups(target, group, v, shape, V, m, rng):  # type: ignore[no-untyped-def]
    """Draw the sum of column m of V, and how each group divides its share."""
    num_features = V.shape[0]
    total = 0.0
    for g in range(v.size):
        total += v[g]
    scale = max(rng.gamma(num_features * shape, 1.0 / target.rate), 1e-200) / total
    sums = np.zeros(v.size)
    for k in range(num_features):
        V[k, m] = max(rng.gamma(shape, 1.0), 1e-290)
        sums[group[k]] += V[k, m]
    for k in range(num_features):
        V[k, m] = max(V[k, m] / sums[group[k]] * v[group[k]] * scale, 1e-290)


@compiled
def update_prevalences(
    whole_target, whole_point, whole_proposal, whole_reserve, Z, V, shape, moves, steps, counts, rng
):  # type: ignore[no-untyped-def]
    """Apply the moves, given by their codes, to every sample of V, in place.

    Row j of `counts` gains the numbers of accepted and of proposed moves of kind j; `steps[j]` is the step size of that kind.
    """
    num_features, num_samples = V.shape
    if num_features == 0:
        return
    group = np.empty(num_features, dtype=np.int64)
    for m in range(num_samples):
        num_groups = gather_groups(whole_target, Z, V, m, shape, group, whole_point)
        target = _restrict_target(whole_target, num_groups)
        point = _restrict_point(whole_point, num_groups)
        proposal = _restrict_point(whole_proposal, num_groups)
        reserve = _restrict_point(whole_reserve, num_groups)
        is_current = False
        is_shaped = False
        for kind in moves:
            step = steps[kind]
            accepted = 0
            proposed = 0
            if kind == LANGEVIN and not is_shaped:
                shape_proposals(target, m, point)
                is_current = True
            if not is_current:
                evaluate(target, m, point)
            is_shaped = kind == LANGEVIN
            is_current = kind != EXCHANGE
            if kind == LANGEVIN:
                accepted = 1 if move_langevin(target, m, point, proposal, step, rng) else 0
                proposed = 1
            elif kind == SINGLE:
                accepted, proposed = move_single(target, m, point, proposal, step, rng)
            elif kind == BLOCK:
                accepted, proposed = move_block(target, m, point, proposal, step, rng)
            elif kind == EXCHANGE:
                accepted, proposed = move_exchange(target, m, point, proposal, rng)
            elif kind == COPIES:
                accepted, proposed = move_copies(target, m, point, proposal, rng)
            elif kind == PERMUTATION:
                is_accepted, proposed = move_permutation(target, m, point, proposal, rng)
                accepted = 1 if is_accepted else 0
            else:
                is_accepted, proposed = move_multiple_try(target, m, point, proposal, reserve, step, rng)
                accepted = 1 if is_accepted else 0
            counts[kind, 0] += accepted
            counts[kind, 1] += proposed
        scatter_groups(target, group, point.v, shape, V, m, rng)


@compiled
def total_log_likelihood(layout, density, Z, F, scratch, phi):  # type: ignore[no-untyped-def]
    """Log likelihood of all samples, with the terms of precision and depth."""
    num_features, num_samples = F.shape
    total = 0.0
    for m in range(num_samples):
        begin = layout.sample_start[m]
        for i in range(layout.sample_start[m + 1] - begin):
            n = layout.row[begin + i]
            phi[i] = 0.0
            for k in range(num_features):
                if Z[n, k] == 1:
                    phi[i] += F[k, m]
        total += sample_log_likelihood(layout, density, m, phi, scratch)
        if density.is_beta:
            total += depth_terms(layout, density.precision, m)
    return total


@compiled(liberty="arithmetic")
def reference_information(layout, num_samples):  # type: ignore[no-untyped-def]
    """Binomial Fisher information of each lane at its own best prevalence, found on a grid: a function of the data alone."""
    density = Density(False, 1.0)
    size = layout.row.size
    best = np.full(size, -np.inf)
    information = np.zeros(size)
    widest = 1
    for m in range(num_samples):
        widest = max(widest, layout.sample_start[m + 1] - layout.sample_start[m])
    scratch = Scratch(np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest))
    phi = np.empty(widest)
    for m in range(num_samples):
        for j in range(NUM_GRID + 1):
            phi[:] = j / NUM_GRID
            sample_slopes(layout, density, m, phi, scratch)
            begin = layout.sample_start[m]
            for i in range(layout.sample_start[m + 1] - begin):
                value = scratch.best[i] + np.log(scratch.total[i])
                if value > best[begin + i]:
                    best[begin + i] = value
                    information[begin + i] = scratch.information[i]
    return information
