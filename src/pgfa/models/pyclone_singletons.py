"""Populations that only one mutation has, born and dying under the Indian buffet process.

The shares of a sample add up to one, so a new population takes its share from others and the likelihood of *every* row
changes. What it takes is drawn from a density that has looked at all of them.

A proposal for row n removes its singletons and puts others in their place. Call the state without them the *rest*. Everything the
proposal depends on is a function of the rest and of a *donor* drawn at random: either all populations of the rest give in proportion,
or one of them gives and gets back. So this is an independence sampler given rest and donor, and with the number of new singletons
drawn from its prior the ratio is that of ``prior(V) likelihood / proposal(V)``.

The likelihood sees only the sum T of what the singletons have in a sample, and given the rest the samples are independent. So the
best proposal is one-dimensional: the density of T given rest and data. It is tabulated in r = logit of T's share, on a coarse grid
that is refined twice around its highest point, made piecewise exponential, and mixed with a little of the prior so that no value of T
is out of reach. How T is divided among several singletons is drawn from the prior.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled, implements
from pgfa.models.pyclone_likelihood import NUM_SCRATCH, add_entries
from pgfa.models.pyclone_rows import CloneRows, normalise
from pgfa.rows import propose_singletons

#: Knots of the coarse grid and of each refinement, and the ends of the coarse grid on the logit scale.
NUM_KNOTS = 24
NUM_LEVELS = 3
LOWEST, HIGHEST = -16.0, 7.0

#: How often the sum is drawn from the prior instead of the tabulated density.
PRIOR_WEIGHT = 0.05

#: Stands for "all populations of the rest give in proportion".
EVERYONE = -1


class Memory(NamedTuple):
    """What a proposal works on, for one sample after the other.

    `rest` holds V of the rest without the donor and zero elsewhere; knots, likelihoods, heights and masses make up the
    table; lanes, logits and values are for evaluations side by side.
    """

    rest: NDArray[np.float64]
    knots: NDArray[np.float64]
    likelihoods: NDArray[np.float64]
    heights: NDArray[np.float64]
    masses: NDArray[np.float64]
    logits: NDArray[np.float64]
    values: NDArray[np.float64]
    phi: NDArray[np.float64]
    lanes: NDArray[np.float64]


@compiled
def _make_memory(num_features, num_samples):  # type: ignore[no-untyped-def]
    capacity = NUM_KNOTS * NUM_LEVELS
    return Memory(
        np.zeros(num_features),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(NUM_KNOTS + 2),
        np.empty(NUM_KNOTS + 2),
        np.empty((num_samples, NUM_KNOTS + 2)),
        np.empty((3 + NUM_SCRATCH, NUM_KNOTS + 2)),
    )


@compiled
def _log_gamma_density(x, shape, rate):  # type: ignore[no-untyped-def]
    return shape * np.log(rate) - math.lgamma(shape) + (shape - 1.0) * np.log(x) - rate * x


@compiled
def _softplus(x):  # type: ignore[no-untyped-def]
    return max(x, 0.0) + np.log1p(np.exp(-abs(x)))


@compiled
def _sum_at(r, donor, pool):  # type: ignore[no-untyped-def]
    """T at logit r: beside a rest of sum `pool` if everyone gives, or out of a `pool` divided with the donor."""
    if donor == EVERYONE:
        return pool * np.exp(r)
    return pool / (1.0 + np.exp(-r))


@compiled
def _log_jacobian(r, donor, pool):  # type: ignore[no-untyped-def]
    """log of dT / dr."""
    if donor == EVERYONE:
        return np.log(pool) + r
    return np.log(pool) - _softplus(r) - _softplus(-r)


@compiled
def _log_prior_of_sum(r, donor, pool, count, shape, rate):  # type: ignore[no-untyped-def]
    """Log prior density in r of what changes with T: the singletons' sum and, if one population gives, its own value."""
    total = _sum_at(r, donor, pool)
    value = _log_gamma_density(total, count * shape, rate) + _log_jacobian(r, donor, pool)
    if donor != EVERYONE:
        value += _log_gamma_density(pool / (1.0 + np.exp(r)), shape, rate)
    return value


@compiled
def _log_prior_proposal(r, donor, pool, count, shape, rate):  # type: ignore[no-untyped-def]
    """Log density in r of the prior's share of the proposal: Gamma, or Beta where a pool is divided."""
    if donor == EVERYONE:
        return _log_prior_of_sum(r, donor, pool, count, shape, rate)
    a, b = count * shape, shape
    normaliser = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return normaliser - a * _softplus(-r) - b * _softplus(r)


@compiled
def _draw_from_prior(donor, pool, count, shape, rate, rng):  # type: ignore[no-untyped-def]
    own = rng.gamma(count * shape, 1.0 / rate)
    other = pool if donor == EVERYONE else rng.gamma(shape, 1.0 / rate)
    return min(max(np.log(max(own, 1e-290)) - np.log(max(other, 1e-290)), -600.0), 600.0)


@compiled
def _log_mass(width, low, high):  # type: ignore[no-untyped-def]
    """log of the integral over a stretch of an exponential with these log values at its ends."""
    top = max(low, high)
    gap = abs(high - low)
    return top + np.log(width) + (np.log(-np.expm1(-gap) / gap) if gap > 1e-8 else -0.5 * gap)


@compiled
def _tabulate(knots, heights, count, masses):  # type: ignore[no-untyped-def]
    """Log masses of the stretches between knots; returns the log of their sum."""
    highest = -np.inf
    for j in range(count - 1):
        masses[j] = _log_mass(knots[j + 1] - knots[j], heights[j], heights[j + 1])
        highest = max(highest, masses[j])
    total = 0.0
    for j in range(count - 1):
        total += np.exp(masses[j] - highest)
    return highest + np.log(total)


@compiled
def _draw_from_table(knots, heights, count, masses, log_total, rng):  # type: ignore[no-untyped-def]
    u = rng.random()
    j = 0
    for i in range(count - 1):
        mass = np.exp(masses[i] - log_total)
        if mass > 0.0:
            j = i
            if u < mass:
                break
            u -= mass
    width = knots[j + 1] - knots[j]
    gap = heights[j + 1] - heights[j]
    u = rng.random()
    if abs(gap) < 1e-8:
        return knots[j] + u * width
    if gap > 0.0:
        return knots[j + 1] + width * np.log(u + (1.0 - u) * np.exp(-gap)) / gap
    return knots[j] + width * np.log(u + (1.0 - u) * np.exp(gap)) / gap


@compiled
def _log_table_density(r, knots, heights, count, log_total):  # type: ignore[no-untyped-def]
    if not knots[0] <= r <= knots[count - 1]:
        return -np.inf
    j = min(np.searchsorted(knots[:count], r, side="right") - 1, count - 2)
    part = (r - knots[j]) / (knots[j + 1] - knots[j])
    return heights[j] + part * (heights[j + 1] - heights[j]) - log_total


@compiled(liberty="arithmetic")
def _log_likelihoods(rows, n, m, donor, pool, count, memory):  # type: ignore[no-untyped-def]
    """Set values[i] to the log likelihood of sample m, over all rows, with the singletons' sum at logits[i].

    The last value, at `count`, is that without singletons. Rows whose prevalence is the same throughout are left out.
    """
    layout, Z, rest = rows.layouts.by_sample, rows.Z, memory.rest
    phi, singletons, gifts, scale = memory.phi, memory.lanes[0], memory.lanes[1], memory.lanes[2]
    scratch = memory.lanes[3:]
    logits, values = memory.logits, memory.values
    fixed = 0.0
    for k in range(rest.size):
        fixed += rest[k]
    for i in range(count + 1):
        is_without = i == count
        singletons[i] = 0.0 if is_without else _sum_at(logits[i], donor, pool)
        gifts[i] = 0.0
        if donor != EVERYONE:
            gifts[i] = pool if is_without else pool / (1.0 + np.exp(logits[i]))
        whole = fixed + (singletons[i] if donor == EVERYONE else pool)
        scale[i] = 1.0 / whole if whole > 0.0 else 0.0
        values[i] = 0.0
    for lane in range(layout.sample_start[m], layout.sample_start[m + 1]):
        row = layout.row[lane]
        base = 0.0
        for k in range(rest.size):
            base += Z[row, k] * rest[k]
        gives = 1.0 if donor != EVERYONE and Z[row, donor] == 1 else 0.0
        if row != n and gives == 0.0 and (donor != EVERYONE or base == 0.0):
            continue
        owns = 1.0 if row == n else 0.0
        for i in range(count + 1):
            phi[m, i] = (base + gives * gifts[i] + owns * singletons[i]) * scale[i]
        entry = layout.entry[lane]
        add_entries(
            rows.layouts.by_row, rows.density, entry, entry + 1, phi, rows.nothing, 0.0, count + 1, scratch, values
        )


@compiled
def _insert(memory, count, num_more):  # type: ignore[no-untyped-def]
    """Add the logits and their values to the table, in order, unless they are there already; returns its new size."""
    knots, likelihoods = memory.knots, memory.likelihoods
    for i in range(num_more):
        j = np.searchsorted(knots[:count], memory.logits[i])
        if j < count and knots[j] == memory.logits[i]:
            continue
        for l in range(count, j, -1):
            knots[l] = knots[l - 1]
            likelihoods[l] = likelihoods[l - 1]
        knots[j] = memory.logits[i]
        likelihoods[j] = memory.values[i]
        count += 1
    return count


@compiled
def _explore(rows, n, m, donor, pool, power, memory):  # type: ignore[no-untyped-def]
    """Fill the table with likelihoods: a coarse grid, then twice a finer one between the neighbours of the best knot.

    What is best counts the prior of one singleton, whatever their number: the table must be the same in both directions.
    """
    count = 0
    low, high = LOWEST, HIGHEST
    for level in range(NUM_LEVELS):
        if level > 0:
            best = 0
            highest = -np.inf
            for j in range(count):
                prior = _log_prior_of_sum(memory.knots[j], donor, pool, 1, rows.shape, rows.rate)
                if power * memory.likelihoods[j] + prior > highest:
                    highest = power * memory.likelihoods[j] + prior
                    best = j
            low, high = memory.knots[max(best - 1, 0)], memory.knots[min(best + 1, count - 1)]
        width = (high - low) / (NUM_KNOTS - 1)
        for j in range(NUM_KNOTS):
            memory.logits[j] = low + j * width
        _log_likelihoods(rows, n, m, donor, pool, NUM_KNOTS, memory)
        count = _insert(memory, count, NUM_KNOTS)
    return count


@compiled
def _weigh(rows, n, m, donor, pool, number, r, is_drawn, size, power, memory, rng):  # type: ignore[no-untyped-def]
    """Log of prior times likelihood over proposal density, for `number` singletons whose sum in sample m is at logit r.

    With `is_drawn` r is drawn from the proposal first. Returns the weight and r. `size` is that of the table, 0 if there is none.
    """
    shape, rate = rows.shape, rows.rate
    if number == 0:
        _log_likelihoods(rows, n, m, donor, pool, 0, memory)
        log_weight = power * memory.values[0]
        if donor != EVERYONE:
            log_weight += _log_gamma_density(pool, shape, rate)
        return log_weight, 0.0

    log_total = 0.0
    if size > 0:
        for j in range(size):
            prior = _log_prior_of_sum(memory.knots[j], donor, pool, number, shape, rate)
            memory.heights[j] = power * memory.likelihoods[j] + prior
        log_total = _tabulate(memory.knots, memory.heights, size, memory.masses)
    if is_drawn:
        if size > 0 and rng.random() >= PRIOR_WEIGHT:
            r = _draw_from_table(memory.knots, memory.heights, size, memory.masses, log_total, rng)
        else:
            r = _draw_from_prior(donor, pool, number, shape, rate, rng)
    log_q = _log_prior_proposal(r, donor, pool, number, shape, rate)
    if size > 0:
        log_table = _log_table_density(r, memory.knots, memory.heights, size, log_total)
        log_q = np.logaddexp(np.log(PRIOR_WEIGHT) + log_q, np.log1p(-PRIOR_WEIGHT) + log_table)
    memory.logits[0] = r
    _log_likelihoods(rows, n, m, donor, pool, 1, memory)
    return power * memory.values[0] + _log_prior_of_sum(r, donor, pool, number, shape, rate) - log_q, r


@compiled
def _list_rest(V, old, members):  # type: ignore[no-untyped-def]
    """The populations that are alive and not among the old singletons; returns how many there are."""
    count = 0
    for k in range(V.shape[0]):
        is_old = False
        for l in old:
            is_old = is_old or l == k
        if not is_old and V[k, 0] > 0.0:
            members[count] = k
            count += 1
    return count


@compiled
def _sum_over(V, m, columns):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in columns:
        total += V[k, m]
    return total


@implements(propose_singletons, CloneRows)
def _propose_singletons(rows, n, z, old, new, block, power, rng):  # type: ignore[no-untyped-def]
    V = rows.V
    num_features, num_samples = V.shape
    members = np.empty(num_features, dtype=np.int64)
    rest = members[: _list_rest(V, old, members)]
    donor = EVERYONE
    if rows.informed:
        choice = int(rng.random() * (rest.size + 1))
        donor = rest[choice] if choice < rest.size else EVERYONE
    is_tabulated = rows.informed and power > 0.0 and rest.size > 0

    memory = _make_memory(num_features, num_samples)
    pools = np.empty(num_samples)
    drawn = np.empty(num_samples)
    log_ratio = 0.0
    for m in range(num_samples):
        for k in rest:
            memory.rest[k] = 0.0 if k == donor else V[k, m]
        old_sum = _sum_over(V, m, old)
        if rest.size == 0:
            pool = 1.0  # Singletons have all of the sample, however large they are.
        elif donor == EVERYONE:
            pool = _sum_over(V, m, rest)
        else:
            pool = V[donor, m] + old_sum
        pools[m] = pool
        old_logit = 0.0
        if old.size > 0:
            old_logit = np.log(old_sum) - np.log(pool if donor == EVERYONE else V[donor, m])
        size = _explore(rows, n, m, donor, pool, power, memory) if is_tabulated else 0
        forward, drawn[m] = _weigh(rows, n, m, donor, pool, new.size, 0.0, True, size, power, memory, rng)
        backward, _ = _weigh(rows, n, m, donor, pool, old.size, old_logit, False, size, power, memory, rng)
        log_ratio += forward - backward
    if not np.log(rng.random()) < log_ratio:
        return False

    for m in range(num_samples):
        for k in old:
            V[k, m] = 0.0
        if donor != EVERYONE:
            V[donor, m] = pools[m] / (1.0 + np.exp(drawn[m])) if new.size > 0 else pools[m]
        for k in new:
            V[k, m] = max(rng.gamma(rows.shape, 1.0), 1e-290)
        scale = _sum_at(drawn[m], donor, pools[m]) / _sum_over(V, m, new) if new.size > 0 else 0.0
        for k in new:
            V[k, m] = max(V[k, m] * scale, 1e-290)
    normalise(V, rows.F)
    return True
