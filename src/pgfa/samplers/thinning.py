"""Thinning of weighted particles: the heavy stay as they are, the light survive at random with a common weight."""

from __future__ import annotations

import numpy as np

from pgfa._compile import compiled
from pgfa.vector_math import exp, log

#: How close together the bounds of the threshold must be before exponentials are taken.
_WIDTH = 16.0


@compiled(liberty="arithmetic", allocates=False)
def _bracket(log_weight, count, num_kept):  # type: ignore[no-untyped-def]
    """Bounds between which the num_kept-th largest weight lies, or a single value above it, at most `_WIDTH` apart.

    Three bounds are tried in each pass: that is hardly dearer than one, and quarters the distance.
    """
    low = log_weight[0]
    high = log_weight[0]
    for i in range(1, count):
        low = min(low, log_weight[i])
        high = max(high, log_weight[i])
    high += 1.0
    while high - low > _WIDTH:
        quarter = 0.25 * (high - low)
        first, second, third = low + quarter, low + 2.0 * quarter, low + 3.0 * quarter
        from_first = 0
        from_second = 0
        from_third = 0
        for i in range(count):
            from_first += 1 if log_weight[i] >= first else 0
            from_second += 1 if log_weight[i] >= second else 0
            from_third += 1 if log_weight[i] >= third else 0
        if from_third >= num_kept:
            low = third
        elif from_second >= num_kept:
            low, high = second, third
        elif from_first >= num_kept:
            low, high = first, second
        else:
            high = first
    return low, high


@compiled(liberty="arithmetic", allocates=False)
def find_threshold(log_weight, count, num_kept, weights):  # type: ignore[no-untyped-def]
    """Solve sum_i min(1, c w_i) = num_kept for c, where more than num_kept weights are given.

    Returns c and the logarithm of the unit of `weights`, which is set to exp(log_weight - unit), cut off far above
    the threshold 1 / c.

    Weights may differ by thousands of orders of magnitude, so the unit matters. The threshold lies above the
    num_kept-th largest weight, and by no more than a factor `count`: once that weight is bracketed to a few units,
    nothing that matters over- or underflows. Newton's method does the rest: particles that reach 1 are set aside and c
    is solved anew on the others. The sum is concave in c, so that from the second step on c only grows, and so does
    the number of those set aside, until it does not.
    """
    low, high = _bracket(log_weight, count, num_kept)
    heavy = 0
    rest = 0.0
    for i in range(count):
        weights[i] = exp(min(log_weight[i] - low, 100.0))
        is_heavy = log_weight[i] >= high
        heavy += 1 if is_heavy else 0
        rest += 0.0 if is_heavy else weights[i]
    c = (num_kept - heavy) / rest
    is_first = True
    while True:
        before = heavy
        heavy = 0
        rest = 0.0
        for i in range(count):
            is_heavy = c * weights[i] >= 1.0
            heavy += 1 if is_heavy else 0
            rest += 0.0 if is_heavy else weights[i]
        # Where num_kept reach 1 the others are below rounding error, and c is right as it stands.
        if heavy == before or (heavy < before and not is_first) or heavy >= num_kept:
            return c, low
        is_first = False
        c = (num_kept - heavy) / rest


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
        Numbers and log weights of the survivors; room for num_kept + 3 of them, one more than there can be.

    Returns
    -------
    Number of survivors, and the place of the kept one among them.
    """
    c, unit = find_threshold(log_weight, count, num_kept, weights)
    light_log_weight = unit - log(c)
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

    # One that reaches the threshold but for rounding counts as light: where the kept one is light, it may have to go.
    heavy_log_weight = light_log_weight + 1e-7
    kept_is_light = kept >= 0 and log_weight[kept] <= heavy_log_weight
    share_of_kept = min(c * weights[kept], 1.0) if kept_is_light else 0.0
    cumulative = 0.0
    for i in range(count):
        cumulative += min(c * weights[i], 1.0) * (log_weight[i] <= heavy_log_weight)
        weights[i] = cumulative
    # The grid point that the kept one's own stretch holds: rounding must neither lose it nor give it to a neighbour.
    most = int(np.ceil(cumulative - 1e-6))
    offset = rng.random()
    own = most
    if kept_is_light:
        point = max(weights[kept] - (1.0 - offset) * share_of_kept, 0.0)
        own = min(int(point), most - 1)
        offset = point - own

    # No branches, which nobody could predict: every particle is written, and the next one over it if it is to die.
    last = chosen.size - 1
    survivors = 0
    kept_place = -1
    before = 0
    for i in range(count):
        is_heavy = log_weight[i] > heavy_log_weight
        # Grid points below the running sum: until the kept one those before its own, from there on that as well.
        reached = min(max(int(np.ceil(weights[i] - offset)), 0), most)
        reached = max(reached, own + 1) if kept_is_light and i >= kept else min(reached, own)
        chosen[survivors] = i
        new_log_weight[survivors] = max(log_weight[i], light_log_weight)
        kept_place = survivors if i == kept else kept_place
        survivors = min(survivors + int(is_heavy | (reached > before) | (i == kept)), last)
        before = reached
    if survivors == 0:  # without a kept one, rounding or the floor may have lost everything
        chosen[0] = 0
        for i in range(1, count):
            if log_weight[i] > log_weight[chosen[0]]:
                chosen[0] = i
        new_log_weight[0] = 0.0
        survivors = 1
    return survivors, kept_place
