"""Moves of the unnormalised prevalences V.

Every move is proposed and accepted one sample at a time, and acts on the sums of groups of populations that carry the
same mutations there (see `pgfa.models.pyclone_posterior`). How a group divides its sum, and the sum of the sample, are
independent of the data and drawn exactly at the end.

The moves of one sample, on u = log V of its groups:

- *single*: random walk on one group after the other;
- *block*: random walk on a few groups at once;
- *exchange*: how two groups divide what they have together, by slice sampling;
- *permutation*: the values of the sample in random order;
- *multiple-try*: the best of several random walks on all groups, balanced by as many from there;
- *langevin*: a step along the gradient, with noise shaped by the Fisher information, both at the present point
  (simplified manifold Langevin); neither correlated groups nor shares near zero are hard for it;
- *copies*: a share is multiplied by what it would take to explain the same reads with another number of mutant copies.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import literal_unroll

from pgfa._compile import compiled, implements
from pgfa.models.pyclone_likelihood import INFORMATION, SCORE, sample_log_likelihood, sample_slopes
from pgfa.models.pyclone_posterior import (
    LOWEST_LOG,
    copy_point,
    copy_values,
    evaluate,
    gather,
    is_sane,
    log_prior,
    predict,
    restrict,
)
from pgfa.models.pyclone_shares import SMALLEST
from pgfa.samplers.base import shuffle
from pgfa.small_matrices import factorise, solve_lower, solve_upper

NUM_TRIES = 5
LARGEST_BLOCK = 4


class Single(NamedTuple):
    step: float
    repeats: int


class Block(NamedTuple):
    step: float
    repeats: int


class Exchange(NamedTuple):
    step: float
    repeats: int


class Permutation(NamedTuple):
    step: float
    repeats: int


class MultipleTry(NamedTuple):
    step: float
    repeats: int


class Langevin(NamedTuple):
    step: float
    repeats: int


class Copies(NamedTuple):
    step: float
    repeats: int


#: The kinds of moves by the names that users give.
MOVES: dict[str, Any] = {
    "single": Single,
    "block": Block,
    "exchange": Exchange,
    "permutation": Permutation,
    "multiple-try": MultipleTry,
    "langevin": Langevin,
    "copies": Copies,
}

#: First step sizes, of the moves that have one, and the acceptance rates that they aim at.
FIRST_STEPS = {"single": 0.2, "block": 0.1, "multiple-try": 0.1, "langevin": 1.0}
TARGETS = {"single": 0.44, "block": 0.3, "multiple-try": 0.4, "langevin": 0.6}


# --- the moves --------------------------------------------------------------------------------------------------------


def move_sample(kind: Any, target: Any, m: int, point: Any, proposal: Any, reserve: Any, rng: Any) -> Any:
    """Move a point whose V and u are set; returns how many proposals were accepted and how many were made."""
    raise NotImplementedError


@compiled(allocates=False)
def _accept(target, m, point, proposal, log_correction, rng):  # type: ignore[no-untyped-def]
    """Metropolis-Hastings: evaluate proposal.u and go there or stay."""
    if not is_sane(proposal.u):
        return False
    evaluate(target, m, proposal)
    if np.log(rng.random()) < proposal.value[0] - point.value[0] + log_correction:
        copy_point(proposal, point)
        return True
    return False


@implements(move_sample, Single, allocates=False)
def _move_single(kind, target, m, point, proposal, reserve, rng):  # type: ignore[no-untyped-def]
    evaluate(target, m, point)
    count = point.u.size
    accepted = 0
    for _ in range(kind.repeats):
        shuffle(target.order, count, rng)
        for i in range(count):
            copy_values(point.u, proposal.u)
            proposal.u[target.order[i]] += kind.step * rng.standard_normal()
            accepted += _accept(target, m, point, proposal, 0.0, rng)
    return accepted, kind.repeats * count


@implements(move_sample, Block, allocates=False)
def _move_block(kind, target, m, point, proposal, reserve, rng):  # type: ignore[no-untyped-def]
    evaluate(target, m, point)
    count = point.u.size
    accepted = 0
    proposed = 0
    for _ in range(kind.repeats):
        shuffle(target.order, count, rng)
        for first in range(0, count, LARGEST_BLOCK):
            copy_values(point.u, proposal.u)
            for i in range(first, min(first + LARGEST_BLOCK, count)):
                proposal.u[target.order[i]] += kind.step * rng.standard_normal()
            accepted += _accept(target, m, point, proposal, 0.0, rng)
            proposed += 1
    return accepted, proposed


@implements(move_sample, Permutation, allocates=False)
def _move_permutation(kind, target, m, point, proposal, reserve, rng):  # type: ignore[no-untyped-def]
    evaluate(target, m, point)
    count = point.u.size
    accepted = 0
    for _ in range(kind.repeats):
        shuffle(target.order, count, rng)
        for k in range(count):
            proposal.u[k] = point.u[target.order[k]]
        accepted += _accept(target, m, point, proposal, 0.0, rng)
    return accepted, kind.repeats


@implements(move_sample, Copies, allocates=False)
def _move_copies(kind, target, m, point, proposal, reserve, rng):  # type: ignore[no-untyped-def]
    """Multiply a share by a ratio of copies. What it gains is another's loss, or everyone's in proportion.

    Where few mutations tell of a group, its share is known only up to the genotype: with twice the copies half of it
    does as well, and nothing in between.
    """
    evaluate(target, m, point)
    count = point.u.size
    accepted = 0
    if count < 2:
        return 0, 0
    for _ in range(kind.repeats):
        shuffle(target.order, count, rng)
        for i in range(count):
            k = target.order[i]
            copies = 1 + int(rng.random() * 3)
            log_ratio = np.log(copies / (copies + 1.0))
            if rng.random() < 0.5:
                log_ratio = -log_ratio
            copy_values(point.u, proposal.u)
            proposal.u[k] += log_ratio
            log_correction = 0.0
            partner = int(rng.random() * count)
            if partner != k:
                left = point.v[partner] - point.v[k] * np.expm1(log_ratio)
                if not left > SMALLEST:
                    continue
                proposal.u[partner] = np.log(left)
                # The map scales V of k by the ratio and shifts that of its partner, whose u scales with its own V.
                log_correction = point.u[partner] - proposal.u[partner]
            accepted += _accept(target, m, point, proposal, log_correction, rng)
    return accepted, kind.repeats * count


@compiled(allocates=False)
def _walk(u, step, out, rng):  # type: ignore[no-untyped-def]
    for k in range(u.size):
        out[k] = u[k] + step * rng.standard_normal()


@compiled(allocates=False)
def _log_sum(a, b):  # type: ignore[no-untyped-def]
    return max(a, b) + np.log1p(np.exp(-abs(a - b))) if max(a, b) > -np.inf else -np.inf


@implements(move_sample, MultipleTry, allocates=False)
def _move_multiple_try(kind, target, m, point, proposal, reserve, rng):  # type: ignore[no-untyped-def]
    """Draw several, choose one by its density, and weigh them against as many from there, the present one included."""
    evaluate(target, m, point)
    accepted = 0
    for _ in range(kind.repeats):
        forward = -np.inf
        for _ in range(NUM_TRIES):
            _walk(point.u, kind.step, proposal.u, rng)
            if is_sane(proposal.u):
                evaluate(target, m, proposal)
                forward = _log_sum(forward, proposal.value[0])
                if np.log(rng.random()) < proposal.value[0] - forward:
                    copy_point(proposal, reserve)
        if forward == -np.inf:
            continue
        backward = point.value[0]
        for _ in range(NUM_TRIES - 1):
            _walk(reserve.u, kind.step, proposal.u, rng)
            if is_sane(proposal.u):
                evaluate(target, m, proposal)
                backward = _log_sum(backward, proposal.value[0])
        if np.log(rng.random()) < forward - backward:
            copy_point(reserve, point)
            accepted += 1
    return accepted, kind.repeats


# --- exchange ---------------------------------------------------------------------------------------------------------


@compiled(liberty="arithmetic", allocates=False)
def _divide(target, m, point, k, h, whole, total, x, phi):  # type: ignore[no-untyped-def]
    """Log density where group k has x of what it and h have together; prevalences go to phi."""
    if not SMALLEST < x < whole - SMALLEST:
        return -np.inf
    step = (x - point.v[k]) / total
    num_lanes = target.layout.sample_start[m + 1] - target.layout.sample_start[m]
    for i in range(num_lanes):
        phi[i] = point.phi[i] + step * (target.z[k, i] - target.z[h, i])
    log_lik = sample_log_likelihood(target.layout, target.density, m, phi, target.scratch)
    return target.power * log_lik + (target.shape[k] - 1.0) * np.log(x) + (target.shape[h] - 1.0) * np.log(whole - x)


@compiled(liberty="arithmetic", allocates=False)
def _first_width(target, m, k, h, whole, total):  # type: ignore[no-untyped-def]
    """Width of the first interval of the slice: a few standard deviations by data and Z, not by where V is."""
    begin = target.layout.sample_start[m]
    information = 0.0
    for i in range(target.layout.sample_start[m + 1] - begin):
        information += abs(target.z[k, i] - target.z[h, i]) * target.information[begin + i]
    information *= target.power
    return min(whole, 3.0 * total / np.sqrt(information)) if information > 0.0 else whole


@implements(move_sample, Exchange, allocates=False)
def _move_exchange(kind, target, m, point, proposal, reserve, rng):  # type: ignore[no-untyped-def]
    """Each group meets another one. Returns evaluations for acceptances: a slice always moves."""
    predict(target, m, point)
    count = point.u.size
    if count < 2:
        return 0, 0
    total = 0.0
    for k in range(count):
        total += point.v[k]
    evaluations = 0
    phi = proposal.phi
    num_pairs = count if count > 2 else 1
    for _ in range(kind.repeats):
        shuffle(target.order, count, rng)
        for j in range(num_pairs):
            k, h = target.order[j], target.order[(j + 1) % count]
            x = point.v[k]
            whole = x + point.v[h]
            width = _first_width(target, m, k, h, whole, total)
            level = _divide(target, m, point, k, h, whole, total, x, phi) - rng.standard_exponential()
            low = x - rng.random() * width
            high = low + width
            while low > 0.0 and _divide(target, m, point, k, h, whole, total, low, phi) > level:
                low -= width
                evaluations += 1
            while high < whole and _divide(target, m, point, k, h, whole, total, high, phi) > level:
                high += width
                evaluations += 1
            low, high = max(low, 0.0), min(high, whole)
            # Far fewer rounds do; the bound is for intervals that rounding has emptied.
            for _ in range(200):
                y = low + rng.random() * (high - low)
                evaluations += 1
                if _divide(target, m, point, k, h, whole, total, y, phi) > level:
                    copy_values(phi, point.phi)
                    point.v[k] = y
                    point.v[h] = whole - y
                    break
                if y < x:
                    low = y
                else:
                    high = y
    return evaluations, kind.repeats * num_pairs


# --- Langevin ---------------------------------------------------------------------------------------------------------


@compiled(liberty="arithmetic", allocates=False)
def shape_proposals(target, m, point):  # type: ignore[no-untyped-def]
    """Set V, prevalences, log density, its gradient in u, the Cholesky factor of the metric, and the drift of a point.

    With J = diag(F) - F F' the derivative of the shares in u, the metric is J' Z' diag(information) Z J from the
    likelihood plus the shapes of the Gamma priors, which are their expected curvatures.
    """
    predict(target, m, point)
    log_lik = sample_slopes(target.layout, target.density, m, point.phi, target.scratch)
    point.value[0] = target.power * log_lik + log_prior(target, point)

    count = point.u.size
    num_lanes = target.layout.sample_start[m + 1] - target.layout.sample_start[m]
    score, information, z = target.scratch[SCORE], target.scratch[INFORMATION], target.z
    F, by_share, products, metric = target.vectors[0], target.vectors[1], target.vectors[2], target.metric
    total = 0.0
    for k in range(count):
        total += point.v[k]
    mean_score = 0.0
    for k in range(count):
        F[k] = point.v[k] / total
        value = 0.0
        for i in range(num_lanes):
            value += z[k, i] * score[i]
        by_share[k] = value
        products[k] = 0.0
        mean_score += F[k] * value
    for k in range(count):
        for h in range(k + 1):
            value = 0.0
            for i in range(num_lanes):
                value += z[k, i] * z[h, i] * information[i]
            metric[k, h] = value
            products[k] += value * F[h]
            if h < k:
                products[h] += value * F[k]
    mean_product = 0.0
    for k in range(count):
        mean_product += F[k] * products[k]
    for k in range(count):
        point.gradient[k] = target.power * F[k] * (by_share[k] - mean_score)
        point.gradient[k] += target.shape[k] - target.rate * point.v[k]
        for h in range(k + 1):
            curvature = metric[k, h] - products[k] - products[h] + mean_product
            point.factor[k, h] = target.power * F[k] * F[h] * curvature
        point.factor[k, k] += target.shape[k]
    factorise(point.factor[:count, :count], 1e-12)
    solve_lower(point.factor, point.gradient, point.drift)
    solve_upper(point.factor, point.drift, point.drift)


@compiled(allocates=False)
def _log_proposal(point, u, step):  # type: ignore[no-untyped-def]
    """Log density, up to a constant, with which a Langevin step from `point` arrives at u."""
    value = 0.0
    for j in range(u.size):
        # (L' r)_j for the deviation r from the mean of the step
        product = 0.0
        for i in range(j, u.size):
            product += point.factor[i, j] * (u[i] - point.u[i] - 0.5 * step * step * point.drift[i])
        value += np.log(point.factor[j, j]) - 0.5 * product * product / (step * step)
    return value


@implements(move_sample, Langevin, allocates=False)
def _move_langevin(kind, target, m, point, proposal, reserve, rng):  # type: ignore[no-untyped-def]
    shape_proposals(target, m, point)
    step = kind.step
    accepted = 0
    for _ in range(kind.repeats):
        for k in range(point.u.size):
            proposal.u[k] = rng.standard_normal()
        solve_upper(point.factor, proposal.u, proposal.u)
        for k in range(point.u.size):
            proposal.u[k] = point.u[k] + 0.5 * step * step * point.drift[k] + step * proposal.u[k]
        if not is_sane(proposal.u):
            continue
        shape_proposals(target, m, proposal)
        log_ratio = proposal.value[0] - point.value[0]
        log_ratio += _log_proposal(proposal, point.u, step) - _log_proposal(point, proposal.u, step)
        if np.log(rng.random()) < log_ratio:
            copy_point(proposal, point)
            copy_values(proposal.gradient, point.gradient)
            copy_values(proposal.drift, point.drift)
            for k in range(point.u.size):
                copy_values(proposal.factor[k], point.factor[k])
            accepted += 1
    return accepted, kind.repeats


# --- all samples ------------------------------------------------------------------------------------------------------


@compiled(allocates=False)
def _redraw(target, point, Z, V, rng):  # type: ignore[no-untyped-def]
    """Draw the sum of each sample, and how its groups divide their shares: the data say nothing of these."""
    num_features, num_samples = V.shape
    sums = target.vectors[0]
    for m in range(num_samples):
        count = gather(target, Z, V, m, point.v)
        total = 0.0
        for g in range(count):
            total += point.v[g]
            sums[g] = 0.0
        scale = max(rng.gamma(num_features * target.base_shape, 1.0 / target.rate), SMALLEST) / total
        for k in range(num_features):
            V[k, m] = max(rng.gamma(target.base_shape, 1.0), SMALLEST)
            sums[target.group[k]] += V[k, m]
        for k in range(num_features):
            g = target.group[k]
            V[k, m] = max(V[k, m] / sums[g] * point.v[g] * scale, SMALLEST)


@compiled(allocates=False)
def update_prevalences(kinds, target, point, proposal, reserve, Z, V, tally, rng):  # type: ignore[no-untyped-def]
    """Apply one kind of move after the other to every sample of V, in place, and draw what the data say nothing of.

    `tally` counts how many proposals of each kind were accepted, and how many were made.
    """
    i = 0
    for kind in literal_unroll(kinds):
        _move_all(kind, target, point, proposal, reserve, Z, V, tally[i], rng)
        i += 1  # noqa: SIM113 (what is unrolled cannot be enumerated)
    _redraw(target, point, Z, V, rng)


@compiled(allocates=False)
def _move_all(kind, target, point, proposal, reserve, Z, V, tally, rng):  # type: ignore[no-untyped-def]
    """Apply one kind of move to every sample of V."""
    before = target.vectors[3]
    for m in range(V.shape[1]):
        count = gather(target, Z, V, m, point.v)
        here = restrict(point, count)
        for g in range(count):
            here.u[g] = min(max(np.log(here.v[g]), LOWEST_LOG + 1.0), -LOWEST_LOG - 1.0)
            before[g] = here.v[g]
        accepted, proposed = move_sample(
            kind, target, m, here, restrict(proposal, count), restrict(reserve, count), rng
        )
        tally[0] += accepted
        tally[1] += proposed
        # Members of a group keep their proportions here; `_redraw` draws these anew.
        for k in range(V.shape[0]):
            g = target.group[k]
            V[k, m] = max(V[k, m] * (here.v[g] / before[g]), SMALLEST)
