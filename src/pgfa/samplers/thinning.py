"""Thinning of weighted particles: the heavy stay as they are, the light survive at random with a common weight."""

from __future__ import annotations

import numpy as np

from pgfa import lanes
from pgfa._compile import compiled
from pgfa.lanes import LANES
from pgfa.samplers.base import find_highest
from pgfa.vector_math import exp, log

#: How close together the bounds of the threshold must be before exponentials are taken.
_WIDTH = 32.0
#: A light particle with a smaller chance of surviving is lost in the rounding of the sum of all chances.
_NOTHING = 2.0**-60
#: Weights are cut off at e to this power times the threshold's lower bound.
_FAR_ABOVE = 100.0


@compiled(allocates=False)
def _bounds(log_weight, count, num_kept, num_pairs):  # type: ignore[no-untyped-def]
    """Bounds between which the num_kept-th largest weight lies; fewer than num_kept weights reach the upper one.

    With `num_pairs`, weights i and i + num_pairs belong together. As many weights as there are pairs are no less than
    the least of the larger ones, and as many no more than the greatest of the smaller ones: where most pairs have a
    good one and a bad one, that says nearly all, in one pass.
    """
    if num_pairs == 0:
        least = lanes.spread(np.inf)
        greatest = lanes.spread(-np.inf)
        for i in range(0, count, LANES):
            these = lanes.load(log_weight, i)
            greatest = lanes.larger(greatest, these)
            least = lanes.smaller(least, lanes.choose(lanes.places(i) < count, these, np.inf))
        return lanes.lowest(least), lanes.highest(greatest) + 1.0
    least = lanes.spread(np.inf)
    least_of_larger = lanes.spread(np.inf)
    greatest = lanes.spread(-np.inf)
    greatest_of_smaller = lanes.spread(-np.inf)
    for i in range(0, num_pairs, LANES):
        first, second = lanes.load(log_weight, i), lanes.load(log_weight, num_pairs + i)
        is_pair = lanes.places(i) < num_pairs
        larger = lanes.larger(first, second)
        smaller = lanes.smaller(first, second)
        least = lanes.smaller(least, lanes.choose(is_pair, smaller, np.inf))
        least_of_larger = lanes.smaller(least_of_larger, lanes.choose(is_pair, larger, np.inf))
        greatest = lanes.larger(greatest, larger)
        greatest_of_smaller = lanes.larger(greatest_of_smaller, lanes.choose(is_pair, smaller, -np.inf))
    low = lanes.lowest(least_of_larger)
    high = lanes.highest(greatest_of_smaller)
    high = max(low, high) if num_pairs <= num_kept else lanes.highest(greatest)
    low = low if num_pairs >= num_kept else lanes.lowest(least)
    return low, high + 1.0


@compiled(allocates=False)
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
        for i in range(0, count, LANES):
            these = lanes.load(log_weight, i)
            from_first += lanes.count(these >= first)
            from_second += lanes.count(these >= second)
            from_third += lanes.count(these >= third)
        if from_third >= num_kept:
            low = third
        elif from_second >= num_kept:
            low, high = second, third
        elif from_first >= num_kept:
            low, high = first, second
        else:
            high = first
    return low, high


@compiled(liberty="fused", allocates=False)
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
    lanes.store(log_weight, count, lanes.spread(-np.inf))
    low, high = _bounds(log_weight, count, num_kept, num_pairs)
    low, high = _bracket(log_weight, count, num_kept, low, high)
    heavy = 0
    rest = lanes.spread(0.0)
    for i in range(0, count, LANES):
        these = lanes.load(log_weight, i)
        w = exp(lanes.smaller(these - low, _FAR_ABOVE))
        lanes.store(weights, i, w)
        is_heavy = these >= high
        heavy += lanes.count(is_heavy)
        rest += lanes.choose(is_heavy, 0.0, w)
    c = (num_kept - heavy) / lanes.total(rest)
    is_first = True
    while True:
        before = heavy
        heavy = 0
        rest = lanes.spread(0.0)
        for i in range(0, count, LANES):
            w = lanes.load(weights, i)
            is_heavy = c * w >= 1.0
            heavy += lanes.count(is_heavy)
            rest += lanes.choose(is_heavy, 0.0, w)
        # Where num_kept reach 1 the others are below rounding error, and c is right as it stands.
        if heavy == before or (heavy < before and not is_first) or heavy >= num_kept:
            return c, low
        is_first = False
        c = (num_kept - heavy) / lanes.total(rest)


@compiled(allocates=False)
def _log_total(log_weight, count):  # type: ignore[no-untyped-def]
    """Logarithm of the total weight."""
    highest = find_highest(log_weight, count)
    total = lanes.spread(0.0)
    for i in range(0, count, LANES):
        total += exp(lanes.load(log_weight, i) - highest)
    return highest + np.log(lanes.total(total))


@compiled(allocates=False)
def _choose_light(light, shares, num_light, place_of_kept, light_log_weight, rng, chosen, new_log_weight, survivors):  # type: ignore[no-untyped-def]
    """Systematic sampling of the light; returns the number of survivors, and how many precede the kept one.

    Parameters
    ----------
    shares
        Chances of surviving; their running sums take their place.
    place_of_kept
        Where among the light the kept one is, or -1.
    survivors
        How many have been chosen before.
    """
    cumulative = 0.0
    for j in range(0, num_light, LANES):
        share = lanes.choose(lanes.places(j) < num_light, lanes.load(shares, j), 0.0)
        sums = cumulative + lanes.running_total(share)
        lanes.store(shares, j, sums)
        cumulative = lanes.last(sums)
    # The grid point that the kept one's own stretch holds: rounding must neither lose it nor give it to a neighbour.
    most = np.ceil(cumulative - 1e-6)
    offset = rng.random()
    own = most
    first_from_own = num_light
    if place_of_kept >= 0:
        first_from_own = place_of_kept
        own_share = shares[place_of_kept] - (shares[place_of_kept - 1] if place_of_kept > 0 else 0.0)
        point = max(shares[place_of_kept] - (1.0 - offset) * own_share, 0.0)
        own = min(np.floor(point), most - 1.0)
        offset = point - own
    last_chosen = chosen.size - LANES
    before = 0.0
    kept_place = survivors
    for j in range(0, num_light, LANES):
        # Grid points below the running sum: until the kept one those before its own, from there on that as well.
        here = lanes.places(j)
        reached = lanes.larger(lanes.ceil(lanes.load(shares, j) - offset), 0.0)
        reached = lanes.choose(
            here < first_from_own,
            lanes.smaller(reached, own),
            lanes.larger(lanes.smaller(reached, most), own + 1.0),
        )
        survives = ((reached > lanes.shifted(reached, before)) | (here == place_of_kept)) & (here < num_light)
        lanes.store_marked(chosen, survivors, survives, lanes.load(light, j))
        lanes.store(new_log_weight, survivors, lanes.spread(light_log_weight))
        kept_place += lanes.count(survives & (here < place_of_kept))
        survivors = min(survivors + lanes.count(survives), last_chosen)
        before = lanes.last(reached)
    return survivors, kept_place


@compiled(liberty="fused", allocates=False)
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
    log_weight, weights, light
        Room for ``lanes.padded(count)`` numbers each.
    num_pairs
        Where the particles come in pairs, i and i + num_pairs, of which mostly one is much heavier: their number. Zero
        where they do not. It changes nothing but the time.
    floor
        Logarithm of the least threshold, relative to the total weight: particles far below it are given up even where
        there would be room. Minus infinity for none.
    chosen, new_log_weight
        Numbers and log weights of the survivors; room for ``lanes.padded(num_kept + 3)`` of them: there are at most
        num_kept + 2.

    Returns
    -------
    Number of survivors, and the place of the kept one among them.
    """
    c, unit = find_threshold(log_weight, count, num_kept, num_pairs, weights)
    light_log_weight = unit - log(c)
    if floor > -np.inf:
        least = floor + _log_total(log_weight, count)
        if least > light_log_weight:
            light_log_weight = least
            c = 1.0
            for i in range(0, count, LANES):
                lanes.store(weights, i, exp(lanes.smaller(lanes.load(log_weight, i) - least, _FAR_ABOVE)))

    # One that reaches the threshold but for rounding counts as light: where the kept one is light, it may have to go.
    heavy_weight = (1.0 + 1e-7) / c
    least_weight = _NOTHING / c
    kept_is_light = kept >= 0 and weights[kept] <= heavy_weight
    last_chosen = chosen.size - LANES
    survivors = 0
    num_light = 0
    heavy_before_kept = 0
    light_before_kept = 0
    for i in range(0, count, LANES):
        w = lanes.load(weights, i)
        here = lanes.places(i)
        is_heavy = w > heavy_weight
        is_light = (w <= heavy_weight) & ((w > least_weight) | (here == kept))
        lanes.store_marked(chosen, survivors, is_heavy, here)
        lanes.store_marked(new_log_weight, survivors, is_heavy, lanes.load(log_weight, i))
        survivors = min(survivors + lanes.count(is_heavy), last_chosen)
        heavy_before_kept += lanes.count(is_heavy & (here < kept))
        # The light are put in front of what is still to be read.
        lanes.store_marked(light, num_light, is_light, here)
        lanes.store_marked(weights, num_light, is_light, lanes.smaller(c * w, 1.0))
        num_light += lanes.count(is_light)
        light_before_kept += lanes.count(is_light & (here < kept))
    survivors, kept_place = _choose_light(
        light, weights, num_light, light_before_kept if kept_is_light else -1, light_log_weight, rng, chosen,
        new_log_weight, survivors,
    )  # fmt: skip
    if survivors == 0:  # without a kept one, rounding or the floor may have lost everything
        chosen[0] = 0
        for i in range(1, count):
            if log_weight[i] > log_weight[chosen[0]]:
                chosen[0] = i
        new_log_weight[0] = 0.0
        survivors = 1
    if kept < 0:
        return survivors, -1
    return survivors, kept_place if kept_is_light else heavy_before_kept
