"""Thinning of weighted particles: the threshold solves its equation, and particles survive as often as they should."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from pgfa.samplers.thinning import find_threshold, thin


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
    c, unit = find_threshold(log_weight, log_weight.size, num_kept, np.empty(log_weight.size))
    assert np.isfinite(c) and c > 0.0
    assert survival(log_weight, c, unit).sum() == pytest.approx(num_kept, rel=1e-9)


@settings(max_examples=300, deadline=None)
@given(log_weights, st.integers(2, 59), st.integers(-1, 59), st.sampled_from([1.0, 0.01, 0.0]), st.integers(0, 99))
def test_survivors_fit_into_their_memory_and_the_kept_one_is_among_them(values, num_kept, kept, scale, seed):
    log_weight = scale * np.array(values)
    num_kept = min(num_kept, log_weight.size - 1)
    kept = min(kept, log_weight.size - 1)
    chosen, new_log_weight = np.full(num_kept + 3, -1), np.empty(num_kept + 3)
    count, place = thin(
        log_weight, log_weight.size, num_kept, -np.inf, kept, np.random.default_rng(seed),
        np.empty(log_weight.size), chosen, new_log_weight,
    )  # fmt: skip
    assert num_kept - 1 <= count <= num_kept + 2
    assert np.all(np.diff(chosen[:count]) > 0)
    assert np.all(new_log_weight[:count] >= log_weight[chosen[:count]])
    assert (place == -1) if kept == -1 else (chosen[place] == kept)


@pytest.mark.parametrize("scale", [0.5, 2.0, 30.0])
def test_particles_survive_as_often_as_they_should_with_the_weight_that_makes_up_for_it(scale):
    rng = np.random.default_rng(1)
    log_weight = scale * rng.normal(size=12)
    chosen, new_log_weight, weights = np.zeros(8, dtype=np.int64), np.empty(8), np.empty(12)
    c, unit = find_threshold(log_weight, 12, 5, weights)
    expected = survival(log_weight, c, unit)
    times = np.zeros(12)
    num_trials = 40_000
    for _ in range(num_trials):
        count, _ = thin(log_weight, 12, 5, -np.inf, -1, rng, weights, chosen, new_log_weight)
        times[chosen[:count]] += 1
        lightest = np.maximum(log_weight[chosen[:count]], unit - np.log(c))
        np.testing.assert_allclose(new_log_weight[:count], lightest, rtol=1e-12, atol=1e-9)
    error = np.sqrt(np.maximum(expected * (1.0 - expected), 1e-9) / num_trials)
    assert np.all(np.abs(times / num_trials - expected) < 4.5 * error + 1e-9)


def test_given_that_one_survives_the_others_do_as_if_it_had_survived_by_itself():
    """The law of the survivors given the kept one is that of unconditional thinning given that it survives."""
    rng = np.random.default_rng(2)
    log_weight = 0.7 * rng.normal(size=14)
    chosen, new_log_weight, weights = np.zeros(8, dtype=np.int64), np.empty(8), np.empty(14)
    c, unit = find_threshold(log_weight, 14, 5, weights)
    light = np.flatnonzero(survival(log_weight, c, unit) < 1.0)

    def count_sets(kept, num_trials):
        sets = Counter()
        for _ in range(num_trials):
            count, _ = thin(log_weight, 14, 5, -np.inf, kept, rng, weights, chosen, new_log_weight)
            sets[tuple(chosen[:count].tolist())] += 1
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
    chosen, new_log_weight, weights = np.zeros(23, dtype=np.int64), np.empty(23), np.empty(30)
    for scale in (0.1, 3.0, 100.0, 2000.0):
        for _ in range(300):
            log_weight = scale * rng.normal(size=30)
            log_weight[kept] = log_weight.min() - depth
            count, place = thin(log_weight, 30, 20, -np.inf, kept, rng, weights, chosen, new_log_weight)
            assert chosen[place] == kept
            assert count == 20
            lightest = new_log_weight[place]
            others = np.delete(np.arange(30), kept)
            assert set(others[log_weight[others] > lightest + 1e-6]) <= set(chosen[:count].tolist())
            assert np.all(log_weight[chosen[:count]][np.arange(count) != place] > lightest - 40.0)
