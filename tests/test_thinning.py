"""Thinning of weighted particles: the threshold solves its equation, and particles survive as often as they should."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from pgfa.lanes import padded
from pgfa.samplers.thinning import find_threshold, thin


def thin_by(log_weight, num_kept, kept, rng, num_pairs=0):
    """Survivors, their log weights, and the place of the kept one."""
    size = log_weight.size
    places, room = padded(size), padded(num_kept + 3)
    chosen, new_log_weight = np.full(room, -1), np.full(room, np.nan)
    count, place = thin(
        with_room(log_weight), size, num_kept, num_pairs, -np.inf, kept, rng, np.full(places, np.nan),
        np.full(places, -1), chosen, new_log_weight,
    )  # fmt: skip
    return chosen[:count], new_log_weight[:count], place


def threshold_of(log_weight, num_kept, num_pairs=0):
    room = with_room(log_weight)
    return find_threshold(room, log_weight.size, num_kept, num_pairs, np.full(room.size, np.nan))


def with_room(numbers):
    """Whole vectors, and rubbish in what is left of them."""
    return np.concatenate([numbers, np.full(padded(numbers.size) - numbers.size, np.nan)])


def survival(log_weight, c, unit):
    """min(1, c w), without overflow."""
    return np.exp(np.minimum(log_weight - unit + np.log(c), 0.0))


log_weights = st.lists(st.floats(-5000.0, 5000.0), min_size=3, max_size=60)


@settings(max_examples=300, deadline=None)
@given(log_weights, st.integers(1, 59), st.sampled_from([1.0, 0.01, 0.0]))
def test_threshold_solves_its_equation(values, num_kept, scale):
    """At any spread, that of equal weights included."""
    log_weight = scale * np.array(values)
    num_kept = min(num_kept, log_weight.size - 1)
    for num_pairs in (0, log_weight.size // 2) if log_weight.size % 2 == 0 else (0,):
        c, unit = threshold_of(log_weight, num_kept, num_pairs)
        assert np.isfinite(c) and c > 0.0
        assert survival(log_weight, c, unit).sum() == pytest.approx(num_kept, rel=1e-9)


@settings(max_examples=300, deadline=None)
@given(log_weights, st.integers(2, 59), st.integers(-1, 59), st.sampled_from([1.0, 0.01, 0.0]), st.integers(0, 99))
def test_survivors_fit_into_their_memory_and_the_kept_one_is_among_them(values, num_kept, kept, scale, seed):
    log_weight = scale * np.array(values)
    num_kept = min(num_kept, log_weight.size - 1)
    kept = min(kept, log_weight.size - 1)
    chosen, new_log_weight, place = thin_by(log_weight, num_kept, kept, np.random.default_rng(seed))
    assert num_kept - 1 <= chosen.size <= num_kept + 2
    assert np.unique(chosen).size == chosen.size
    assert np.all(new_log_weight >= log_weight[chosen] - 1e-7)
    assert (place == -1) if kept == -1 else (chosen[place] == kept)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-300.0, 300.0), st.floats(0.0, 900.0), st.booleans()), min_size=2, max_size=30),
    st.integers(-4, 4), st.integers(-1, 59), st.sampled_from([1.0, 0.01, 0.0]), st.integers(0, 99),
)  # fmt: skip
def test_pairs_change_nothing_but_the_time(pairs, excess, kept, scale, seed):
    """Pairs of a good one and a bad one, in either order; about as many are kept as there are pairs."""
    first = [good - (worse if swapped else 0.0) for good, worse, swapped in pairs]
    second = [good - (0.0 if swapped else worse) for good, worse, swapped in pairs]
    log_weight = scale * np.array(first + second)
    num_kept = min(max(len(pairs) + excess, 1), log_weight.size - 1)
    kept = min(kept, log_weight.size - 1)
    thresholds = [unit - np.log(c) for c, unit in (threshold_of(log_weight, num_kept, n) for n in (0, len(pairs)))]
    heavy = [np.count_nonzero(log_weight > threshold + 1e-7) for threshold in thresholds]
    assert heavy[0] == heavy[1]
    if heavy[0] < num_kept:  # otherwise any threshold does that parts the heavy from what is below rounding error
        assert thresholds[0] == pytest.approx(thresholds[1], abs=1e-9)
    found = [thin_by(log_weight, num_kept, kept, np.random.default_rng(seed), n)[0].tolist() for n in (0, len(pairs))]
    assert found[0][: heavy[0]] == found[1][: heavy[0]]


@pytest.mark.parametrize(("scale", "num_pairs"), [(0.5, 0), (2.0, 6), (30.0, 0), (30.0, 6)])
def test_particles_survive_as_often_as_they_should_with_the_weight_that_makes_up_for_it(scale, num_pairs):
    rng = np.random.default_rng(1)
    log_weight = scale * rng.normal(size=12)
    c, unit = threshold_of(log_weight, 5)
    expected = survival(log_weight, c, unit)
    times = np.zeros(12)
    num_trials = 40_000
    for _ in range(num_trials):
        chosen, new_log_weight, _ = thin_by(log_weight, 5, -1, rng, num_pairs)
        times[chosen] += 1
        lightest = np.maximum(log_weight[chosen], unit - np.log(c))
        np.testing.assert_allclose(new_log_weight, lightest, rtol=1e-12, atol=1e-9)
    error = np.sqrt(np.maximum(expected * (1.0 - expected), 1e-9) / num_trials)
    assert np.all(np.abs(times / num_trials - expected) < 4.5 * error + 1e-9)


def test_given_that_one_survives_the_others_do_as_if_it_had_survived_by_itself():
    """The law of the survivors given the kept one is that of unconditional thinning given that it survives."""
    rng = np.random.default_rng(2)
    log_weight = 0.7 * rng.normal(size=14)
    c, unit = threshold_of(log_weight, 5)
    light = np.flatnonzero(survival(log_weight, c, unit) < 1.0)

    def count_sets(kept, num_trials):
        sets = Counter()
        for _ in range(num_trials):
            # In the order of the survivors, which must not tell the kept one either.
            sets[tuple(thin_by(log_weight, 5, kept, rng)[0].tolist())] += 1
        return sets

    free = count_sets(-1, 120_000)
    num_compared = 0
    for kept in light.tolist():
        conditional = count_sets(kept, 10_000)
        keys = [key for key in free if kept in key]
        assert conditional.keys() <= set(keys)
        if len(keys) > 1:
            table = np.array([[sets[key] for key in keys] for sets in (conditional, free)])
            assert chi2_contingency(table).pvalue > 1e-4
            num_compared += 1
    assert num_compared >= 4


@pytest.mark.parametrize("kept", [0, 3, 11, 29])
@pytest.mark.parametrize("depth", [5.0, 60.0, 300.0, 5000.0])
def test_a_kept_one_of_hardly_any_weight_takes_a_place_and_nobody_elses(kept, depth):
    """Its grid point is its own, however little of the grid it covers: no neighbour survives by rounding."""
    rng = np.random.default_rng(3)
    for scale in (0.1, 3.0, 100.0, 2000.0):
        for _ in range(300):
            log_weight = scale * rng.normal(size=30)
            log_weight[kept] = log_weight.min() - depth
            chosen, new_log_weight, place = thin_by(log_weight, 20, kept, rng)
            assert chosen[place] == kept
            assert chosen.size == 20
            lightest = new_log_weight[place]
            others = np.delete(np.arange(30), kept)
            assert set(others[log_weight[others] > lightest + 1e-6]) <= set(chosen.tolist())
            assert np.all(log_weight[chosen][np.arange(20) != place] > lightest - 40.0)
