"""Thinning of weighted particles: the heavy stay as they are, the light survive at random with a common weight."""

from __future__ import annotations

import numpy as np

from pgfa._compile import compiled
from pgfa.vector_math import exp, log

#: How close together the bounds of the threshold must be before exponentials are taken.
_WIDTH = 32.0
#: A light particle with a smaller chance of surviving is lost in the rounding of the sum of all chances.
_NOTHING = 2.0**-60


@compiled(liberty="arithmetic", allocates=False)
def _bounds(log_weight, count, num_kept, num_pairs):  # type: ignore[no-untyped-def]
    """Bounds between which the num_kept-th largest weight lies; fewer than num_kept weights reach the upper one.

    With `num_pairs`, weights i and i + num_pairs belong together. As many weights as there are pairs are no less than
    the least of the larger ones, and as many no more than the greatest of the smaller ones: where most pairs have a
    good one and a bad one, that says nearly all, in one pass.
    """
    if num_pairs == 0:
        low = log_weight[0]
        high = log_weight[0]
        for i in range(1, count):
            low = min(low, log_weight[i])
            high = max(high, log_weight[i])
        return low, high + 1.0
    least = np.inf
    least_of_larger = np.inf
    greatest = -np.inf
    greatest_of_smaller = -np.inf
    other = log_weight[num_pairs:]
    for i in range(num_pairs):
        larger = max(log_weight[i], other[i])
        smaller = min(log_weight[i], other[i])
        least = min(least, smaller)
        least_of_larger = min(least_of_larger, larger)
        greatest = max(greatest, larger)
        greatest_of_smaller = max(greatest_of_smaller, smaller)
    low = least_of_larger if num_pairs >= num_kept else least
    high = max(least_of_larger, greatest_of_smaller) if num_pairs <= num_kept else greatest
    return low, high + 1.0


@compiled(liberty="arithmetic", allocates=False)
def _bracket(log_weight, count, num_kept, low, high):  # type: ignore[no-untyped-def]
    """Draw the bounds of the num_kept-th largest weight together, to at most `_WIDTH`.

    Three bounds are tried in each pass: that is hardly dearer than one, and quarters the distance.
    """
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
def find_threshold(log_weight, count, num_kept, num_pairs, weights):  # type: ignore[no-untyped-def]
    """Solve sum_i min(1, c w_i) = num_kept for c, where more than num_kept weights are given.

    Returns c and the logarithm of the unit of `weights`, which is set to exp(log_weight - unit), cut off far above
    the threshold 1 / c.

    Weights may differ by thousands of orders of magnitude, so the unit matters. The threshold lies above the
    num_kept-th largest weight, and by no more than a factor `count`: once that weight is bracketed to a few units,
    nothing that matters over- or underflows. Newton's method does the rest: particles that reach 1 are set aside and c
    is solved anew on the others. The sum is concave in c, so that from the second step on c only grows, and so does
    the number of those set aside, until it does not.
    """
    low, high = _bounds(log_weight, count, num_kept, num_pairs)
    low, high = _bracket(log_weight, count, num_kept, low, high)
    for i in range(count):
        weights[i] = exp(min(log_weight[i] - low, 100.0))
    heavy = 0
    rest = 0.0
    for i in range(count):
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
def thin(  # type: ignore[no-untyped-def]
    log_weight, count, num_kept, num_pairs, floor, kept, rng, weights, light, chosen, new_log_weight
):
    """Choose survivors among `count` weighted particles, about `num_kept` of them.

    Each survives with probability min(1, c w) and weight max(w, 1 / c). The light are thinned by systematic sampling:
    one random offset decides for all. Their order must not depend on which particle is `kept` (the one that has to
    survive, or -1), and the offset is drawn given that the kept one survives: then the choice has the law of an
    unconditional choice given that it contains the kept one, which is what exactness asks for. The same goes for the
    order of the survivors: first the heavy, then the light, both in the order in which they are given.

    Parameters
    ----------
    num_pairs
        Where the particles come in pairs, i and i + num_pairs, of which mostly one is much heavier: their number. Zero
        where they do not. It changes nothing but the time.
    floor
        Logarithm of the least threshold, relative to the total weight: particles far below it are given up even where
        there would be room. Minus infinity for none.
    weights, light
        Room for `count` numbers each.
    chosen, new_log_weight
        Numbers and log weights of the survivors; room for num_kept + 3 of them, one more than there can be.

    Returns
    -------
    Number of survivors, and the place of the kept one among them.
    """
    c, unit = find_threshold(log_weight, count, num_kept, num_pairs, weights)
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
    # Places are unsigned, which spares the compiler the question whether they count from the end. No branches, which
    # nobody could predict: every particle is written to both lists, and where it does not belong the next one over it.
    last = np.uint64(chosen.size - 1)
    survivors = np.uint64(0)
    num_light = np.uint64(0)
    kept_place = np.uint64(0)
    least_weight = _NOTHING / c
    for i in range(count):
        is_kept = i == kept
        is_light = log_weight[i] <= heavy_log_weight
        chosen[survivors] = i
        light[num_light] = i
        kept_place = survivors if is_kept else kept_place
        survivors = min(survivors + np.uint64(not is_light), last)
        num_light += np.uint64(is_light & ((weights[i] > least_weight) | is_kept))
    for j in range(np.int64(survivors)):
        new_log_weight[j] = log_weight[chosen[j]]

    cumulative = 0.0
    place_of_kept = -1
    for j in range(np.int64(num_light)):
        place_of_kept = j if light[j] == kept else place_of_kept
        cumulative += min(c * weights[light[j]], 1.0)
        weights[j] = cumulative  # behind the weights still to be read: the light stand in order
    # The grid point that the kept one's own stretch holds: rounding must neither lose it nor give it to a neighbour.
    most = int(np.ceil(cumulative - 1e-6))
    offset = rng.random()
    own = most
    if kept_is_light:
        own_share = weights[place_of_kept] - (weights[place_of_kept - 1] if place_of_kept > 0 else 0.0)
        point = max(weights[place_of_kept] - (1.0 - offset) * own_share, 0.0)
        own = min(int(point), most - 1)
        offset = point - own
    before = 0
    for j in range(np.int64(num_light)):
        # Grid points below the running sum: until the kept one those before its own, from there on that as well.
        reached = min(max(int(np.ceil(weights[j] - offset)), 0), most)
        reached = max(reached, own + 1) if kept_is_light and j >= place_of_kept else min(reached, own)
        is_kept = j == place_of_kept
        chosen[survivors] = light[j]
        new_log_weight[survivors] = light_log_weight
        kept_place = survivors if is_kept else kept_place
        survivors = min(survivors + np.uint64((reached > before) | is_kept), last)
        before = reached
    if survivors == 0:  # without a kept one, rounding or the floor may have lost everything
        chosen[0] = 0
        for i in range(1, count):
            if log_weight[i] > log_weight[chosen[0]]:
                chosen[0] = i
        new_log_weight[0] = 0.0
        survivors = np.uint64(1)
    return np.int64(survivors), np.int64(kept_place) if kept >= 0 else -1
