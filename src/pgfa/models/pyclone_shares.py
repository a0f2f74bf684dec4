"""How much of each sample a population takes from others: its density given the data, tabulated, to propose from.

The shares of a sample add up to one, so a population that comes or goes takes its share from others and changes the
likelihood of their owners. Either *everyone* gives in proportion, or one *donor* divides what it has, its *pool*. The
likelihood sees only T, what the newcomers have together in the sample, and given everything else the samples are
independent. So the density to propose T from is one-dimensional.

It is tabulated in r, the logit of T's share: on a coarse grid that is refined twice around its highest point, made
piecewise exponential, and mixed with a little of the prior so that no T is out of reach. Proposals from it are exact
whatever the table looks like, since they are weighed with the density of the table itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled
from pgfa.models.pyclone_likelihood import NUM_SCRATCH, add_entries
from pgfa.vector_math import softplus

#: Knots of the coarse grid and of each refinement, and the ends of the coarse grid on the logit scale.
NUM_KNOTS = 24
NUM_LEVELS = 3
LOWEST, HIGHEST = -16.0, 7.0

#: How often T is drawn from the prior instead of the table.
PRIOR_WEIGHT = 0.05

#: Stands for "all populations give in proportion".
EVERYONE = -1

#: V is never below this: a population that is alive has V > 0.
SMALLEST = 1e-290


class Shares(NamedTuple):
    """Who takes and who gives, and memory for the table of one sample after the other.

    For each row, `owns` says whether it owns the newcomers, `gives` whether it owns the donor, and `counts` whether the
    likelihood looks at it. `rest` holds V of the populations that neither give by name nor come, and zero elsewhere.
    """

    owns: NDArray[np.float64]
    gives: NDArray[np.float64]
    counts: NDArray[np.bool_]
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
def make_shares(num_rows, num_features, num_samples):  # type: ignore[no-untyped-def]
    """Nobody owns the newcomers, nobody owns the donor, and every row counts."""
    capacity = NUM_KNOTS * NUM_LEVELS
    return Shares(
        np.zeros(num_rows),
        np.zeros(num_rows),
        np.ones(num_rows, dtype=np.bool_),
        np.zeros(num_features),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(NUM_KNOTS + 1),
        np.empty(NUM_KNOTS + 1),
        np.empty((num_samples, NUM_KNOTS + 1)),
        np.empty((3 + NUM_SCRATCH, NUM_KNOTS + 1)),
    )


# --- the scale of r ---------------------------------------------------------------------------------------------------


@compiled(allocates=False)
def log_gamma_density(x, shape, rate):  # type: ignore[no-untyped-def]
    return shape * np.log(rate) - math.lgamma(shape) + (shape - 1.0) * np.log(x) - rate * x


@compiled(allocates=False)
def taken_at(r, donor, pool):  # type: ignore[no-untyped-def]
    """T at logit r: beside a `pool` of all others if everyone gives, or out of the donor's `pool`."""
    if donor == EVERYONE:
        return pool * np.exp(r)
    return pool / (1.0 + np.exp(-r))


@compiled(allocates=False)
def left_at(r, pool):  # type: ignore[no-untyped-def]
    """What the donor keeps of its pool."""
    return pool / (1.0 + np.exp(r))


@compiled(allocates=False)
def log_prior(r, donor, pool, count, shape, rate):  # type: ignore[no-untyped-def]
    """Log prior density in r of what changes with it: T of `count` newcomers and, if there is a donor, its own V."""
    value = log_gamma_density(taken_at(r, donor, pool), count * shape, rate) + np.log(pool)
    if donor == EVERYONE:
        return value + r
    return value + log_gamma_density(left_at(r, pool), shape, rate) - softplus(r) - softplus(-r)


@compiled(allocates=False)
def _log_prior_proposal(r, donor, pool, count, shape, rate):  # type: ignore[no-untyped-def]
    """The prior as a density of r: Gamma, or Beta where a pool is divided."""
    if donor == EVERYONE:
        return log_prior(r, donor, pool, count, shape, rate)
    a, b = count * shape, shape
    return math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) - a * softplus(-r) - b * softplus(r)


@compiled(allocates=False)
def _draw_from_prior(donor, pool, count, shape, rate, rng):  # type: ignore[no-untyped-def]
    taken = rng.gamma(count * shape, 1.0 / rate)
    left = pool if donor == EVERYONE else rng.gamma(shape, 1.0 / rate)
    return min(max(np.log(max(taken, SMALLEST)) - np.log(max(left, SMALLEST)), -600.0), 600.0)


# --- likelihoods ------------------------------------------------------------------------------------------------------


@compiled(liberty="arithmetic", allocates=False)
def log_likelihoods(rows, m, donor, pool, count, shares):  # type: ignore[no-untyped-def]
    """Set values[i] to the log likelihood of sample m with T at logits[i]; the value after the last is that for T = 0.

    Rows that own neither newcomers nor donor are left out where their prevalence is the same throughout.
    """
    layout, Z, rest = rows.layouts.by_sample, rows.Z, shares.rest
    taken, left, scale = shares.lanes[0], shares.lanes[1], shares.lanes[2]
    scratch = shares.lanes[3:]
    fixed = 0.0
    for k in range(rest.size):
        fixed += rest[k]
    for i in range(count + 1):
        taken[i] = taken_at(shares.logits[i], donor, pool) if i < count else 0.0
        left[i] = 0.0
        if donor != EVERYONE:
            left[i] = left_at(shares.logits[i], pool) if i < count else pool
        whole = fixed + (taken[i] if donor == EVERYONE else pool)
        scale[i] = 1.0 / whole if whole > 0.0 else 0.0
        shares.values[i] = 0.0
    for lane in range(layout.sample_start[m], layout.sample_start[m + 1]):
        row = layout.row[lane]
        owns, gives = shares.owns[row], shares.gives[row]
        if not shares.counts[row] or (donor != EVERYONE and owns == 0.0 and gives == 0.0):
            continue
        base = 0.0
        for k in range(rest.size):
            base += Z[row, k] * rest[k]
        if owns == 0.0 and gives == 0.0 and base == 0.0:
            continue
        for i in range(count + 1):
            shares.phi[m, i] = (base + gives * left[i] + owns * taken[i]) * scale[i]
        entry = layout.entry[lane]
        add_entries(
            rows.layouts.by_row,
            rows.density,
            entry,
            entry + 1,
            shares.phi,
            rows.nothing,
            0.0,
            count + 1,
            scratch,
            shares.values,
        )


# --- the table --------------------------------------------------------------------------------------------------------


@compiled(allocates=False)
def _insert(shares, count, num_more):  # type: ignore[no-untyped-def]
    """Add the logits and their values to the table, in order, unless they are there already; returns its new size."""
    knots, likelihoods = shares.knots, shares.likelihoods
    for i in range(num_more):
        j = np.searchsorted(knots[:count], shares.logits[i])
        if j < count and knots[j] == shares.logits[i]:
            continue
        for h in range(count, j, -1):
            knots[h] = knots[h - 1]
            likelihoods[h] = likelihoods[h - 1]
        knots[j] = shares.logits[i]
        likelihoods[j] = shares.values[i]
        count += 1
    return count


@compiled(allocates=False)
def explore(rows, m, donor, pool, power, shares):  # type: ignore[no-untyped-def]
    """Fill the table with likelihoods, finer twice over between the neighbours of its highest knot; returns its size.

    The height counts the prior of one newcomer, whatever their number: the same table serves all numbers.
    """
    count = 0
    low, high = LOWEST, HIGHEST
    for level in range(NUM_LEVELS):
        if level > 0:
            best = 0
            highest = -np.inf
            for j in range(count):
                height = power * shares.likelihoods[j]
                height += log_prior(shares.knots[j], donor, pool, 1, rows.shape, rows.rate)
                if height > highest:
                    highest = height
                    best = j
            low, high = shares.knots[max(best - 1, 0)], shares.knots[min(best + 1, count - 1)]
        for j in range(NUM_KNOTS):
            shares.logits[j] = low + j * (high - low) / (NUM_KNOTS - 1)
        log_likelihoods(rows, m, donor, pool, NUM_KNOTS, shares)
        count = _insert(shares, count, NUM_KNOTS)
    return count


@compiled(allocates=False)
def _log_mass(width, low, high):  # type: ignore[no-untyped-def]
    """log of the integral over a stretch of an exponential with these log values at its ends."""
    gap = abs(high - low)
    return max(low, high) + np.log(width) + (np.log(-np.expm1(-gap) / gap) if gap > 1e-8 else -0.5 * gap)


@compiled(allocates=False)
def raise_table(rows, donor, pool, number, size, power, shares):  # type: ignore[no-untyped-def]
    """Set heights and masses for `number` newcomers; returns the log of the total mass."""
    for j in range(size):
        prior = log_prior(shares.knots[j], donor, pool, number, rows.shape, rows.rate)
        shares.heights[j] = power * shares.likelihoods[j] + prior
    highest = -np.inf
    for j in range(size - 1):
        shares.masses[j] = _log_mass(shares.knots[j + 1] - shares.knots[j], shares.heights[j], shares.heights[j + 1])
        highest = max(highest, shares.masses[j])
    total = 0.0
    for j in range(size - 1):
        total += np.exp(shares.masses[j] - highest)
    return highest + np.log(total) if size > 0 else 0.0


@compiled(allocates=False)
def _draw_from_table(size, log_total, shares, rng):  # type: ignore[no-untyped-def]
    u = rng.random()
    chosen = 0
    for j in range(size - 1):
        mass = np.exp(shares.masses[j] - log_total)
        if mass > 0.0:
            chosen = j
            if u < mass:
                break
            u -= mass
    low, high = shares.knots[chosen], shares.knots[chosen + 1]
    gap = shares.heights[chosen + 1] - shares.heights[chosen]
    u = rng.random()
    if abs(gap) < 1e-8:
        return low + u * (high - low)
    # Invert the exponential from its higher end, where nothing underflows.
    distance = (high - low) * np.log(u + (1.0 - u) * np.exp(-abs(gap))) / abs(gap)
    return high + distance if gap > 0.0 else low - distance


@compiled(allocates=False)
def _log_table_density(r, size, log_total, shares):  # type: ignore[no-untyped-def]
    if not shares.knots[0] <= r <= shares.knots[size - 1]:
        return -np.inf
    j = min(np.searchsorted(shares.knots[:size], r, side="right") - 1, size - 2)
    part = (r - shares.knots[j]) / (shares.knots[j + 1] - shares.knots[j])
    return shares.heights[j] + part * (shares.heights[j + 1] - shares.heights[j]) - log_total


@compiled(allocates=False)
def draw_logit(rows, donor, pool, number, size, log_total, shares, rng):  # type: ignore[no-untyped-def]
    """A draw from the table, or now and then (and always where its size is zero) from the prior."""
    if size > 0 and rng.random() >= PRIOR_WEIGHT:
        return _draw_from_table(size, log_total, shares, rng)
    return _draw_from_prior(donor, pool, number, rows.shape, rows.rate, rng)


@compiled(allocates=False)
def log_density_of_draw(rows, r, donor, pool, number, size, log_total, shares):  # type: ignore[no-untyped-def]
    """Log density with which `draw_logit` gives r."""
    log_q = _log_prior_proposal(r, donor, pool, number, rows.shape, rows.rate)
    if size == 0:
        return log_q
    log_table = _log_table_density(r, size, log_total, shares)
    return np.logaddexp(np.log(PRIOR_WEIGHT) + log_q, np.log1p(-PRIOR_WEIGHT) + log_table)


@compiled(allocates=False)
def weigh(rows, m, donor, pool, number, r, is_drawn, size, power, shares, rng):  # type: ignore[no-untyped-def]
    """Log of prior times likelihood over proposal density, for `number` newcomers with T at logit r; and r.

    With `is_drawn` r is drawn from the proposal first. `size` is that of the table, zero if the prior proposes. Without
    newcomers there is nothing to draw and the weight is prior times likelihood.
    """
    if number == 0:
        log_likelihoods(rows, m, donor, pool, 0, shares)
        log_weight = power * shares.values[0]
        if donor != EVERYONE:
            log_weight += log_gamma_density(pool, rows.shape, rows.rate)
        return log_weight, 0.0
    log_total = raise_table(rows, donor, pool, number, size, power, shares)
    if is_drawn:
        r = draw_logit(rows, donor, pool, number, size, log_total, shares, rng)
    log_q = log_density_of_draw(rows, r, donor, pool, number, size, log_total, shares)
    shares.logits[0] = r
    log_likelihoods(rows, m, donor, pool, 1, shares)
    return power * shares.values[0] + log_prior(r, donor, pool, number, rows.shape, rows.rate) - log_q, r


@compiled(allocates=False)
def settle(rows, m, donor, pool, r, new):  # type: ignore[no-untyped-def]
    """Write what the donor keeps in sample m, and T to the newcomers in the proportion that V[new] has at present."""
    V = rows.V
    if donor != EVERYONE:
        V[donor, m] = max(left_at(r, pool), SMALLEST) if new.size > 0 else pool
    total = 0.0
    for k in new:
        total += V[k, m]
    for k in new:
        V[k, m] = max(V[k, m] / total * taken_at(r, donor, pool), SMALLEST)
