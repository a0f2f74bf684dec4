"""Thinning of weighted particles: the heavy stay as they are, the light survive at random with a common weight."""

from __future__ import annotations

import numpy as np

from pgfa._compile import compiled
from pgfa.vector_math import exp


@compiled(liberty="arithmetic", allocates=False)
def _count_from(log_weight, count, bound):  # type: ignore[no-untyped-def]
    reached = 0
    for i in range(count):
        reached += 1 if log_weight[i] >= bound else 0
    return reached


@compiled(liberty="arithmetic", allocates=False)
def find_threshold(log_weight, count, num_kept, weights):  # type: ignore[no-untyped-def]
    """Solve sum_i min(1, c w_i) = num_kept for c, where more than num_kept weights are given.

    Returns c and the logarithm of the unit of `weights`, which is set to exp(log_weight - unit), or to infinity where a
    weight is certain to reach the threshold 1 / c.

    Weights may differ by thousands of orders of magnitude, so the unit matters. The threshold lies above the
    num_kept-th largest weight, and by no more than a factor `count`: bisection brackets that weight to a few units,
    after which nothing that matters over- or underflows. Then, starting from c = num_kept / sum(w), the particles that
    reach 1 are set aside and c is solved anew on the rest, until no more of them do.
    """
    low = log_weight[0]
    high = log_weight[0]
    for i in range(1, count):
        low = min(low, log_weight[i])
        high = max(high, log_weight[i])
    high += 1.0
    while high - low > 16.0:
        middle = low + 0.5 * (high - low)
        if _count_from(log_weight, count, middle) >= num_kept:
            low = middle
        else:
            high = middle

    certain = high + np.log(count)
    for i in range(count):
        weights[i] = exp(min(log_weight[i] - low, 100.0))
    for i in range(count):
        weights[i] = np.inf if log_weight[i] >= certain else weights[i]
    c = np.inf
    num_heavy = -1
    while True:
        heavy = 0
        rest = 0.0
        for i in range(count):
            is_heavy = weights[i] == np.inf if num_heavy < 0 else c * weights[i] >= 1.0
            heavy += 1 if is_heavy else 0
            rest += 0.0 if is_heavy else weights[i]
        # Where num_kept reach 1 the others are below rounding error, and c is right as it stands.
        if heavy <= num_heavy or heavy >= num_kept:
            return c, low
        num_heavy = heavy
        c = (num_kept - num_heavy) / rest


@compiled(allocates=False)
def thin(log_weight, count, num_kept, floor, kept, rng, weights, chosen, new_log_weight):  # type: ignore[no-untyped-def]
    """Choose survivors among `count` weighted particles, about `num_kept` of them.

    Each survives with probability min(1, c w) and weight max(w, 1 / c). The light are thinned by systematic sampling:
    one random offset decides for all. Their order must not depend on which particle is `kept` (the one that has to
    survive, or -1), and the offset is drawn given that the kept one survives: then the choice has the law of an
    unconditional choice given that it contains the kept one, which is what exactness asks for.

    Parameters
    ----------
    floor
        Logarithm of the least threshold, relative to the total weight: particles far below it are given up even where
        there would be room. Minus infinity for none.
    chosen, new_log_weight
        Numbers and log weights of the survivors; room for num_kept + 3 of them.

    Returns
    -------
    Number of survivors, and the place of the kept one among them.
    """
    c, unit = find_threshold(log_weight, count, num_kept, weights)
    light_log_weight = unit - np.log(c)
    if floor > -np.inf:
        highest = log_weight[0]
        for i in range(1, count):
            highest = max(highest, log_weight[i])
        total = 0.0
        for i in range(count):
            total += exp(log_weight[i] - highest)
        least = highest + np.log(total) + floor
        if least > light_log_weight:
            light_log_weight = least
            unit = least
            c = 1.0
            for i in range(count):
                weights[i] = exp(min(log_weight[i] - least, 100.0))

    offset = rng.random()
    if kept >= 0 and c * weights[kept] < 1.0:
        before = 0.0
        for i in range(kept):
            if c * weights[i] < 1.0:
                before += c * weights[i]
        offset = before + offset * c * weights[kept]
        offset -= np.floor(offset)

    capacity = chosen.size
    survivors = 0
    kept_place = -1
    cumulative = 0.0
    grid = offset
    for i in range(count):
        share = c * weights[i]
        if share >= 1.0:
            survives = True
            log_weight_if_so = log_weight[i]
        else:
            cumulative += share
            survives = cumulative > grid
            if survives:
                grid += 1.0
            log_weight_if_so = light_log_weight
        if i == kept:
            survives = True
            kept_place = survivors
        # Room is always left for the kept one, should rounding ever fill the memory.
        if survives and (survivors < capacity - 1 or i == kept):
            chosen[survivors] = i
            new_log_weight[survivors] = log_weight_if_so
            survivors += 1
    if survivors == 0:  # without a kept one, rounding or the floor may have lost everything
        chosen[0] = 0
        for i in range(1, count):
            if log_weight[i] > log_weight[chosen[0]]:
                chosen[0] = i
        new_log_weight[0] = 0.0
        survivors = 1
    return survivors, kept_place
