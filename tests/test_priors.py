"""Priors on Z: mass, sampling, predictive probabilities, concentration."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from exactness import SIGNIFICANCE, all_matrices, buffet_class, chi_square_p_value, left_ordered, left_ordered_classes
from scipy import stats

import pgfa
from pgfa.adaptation import StepSize
from pgfa.priors.indian_buffet import harmonic


def buffet_class_prob(prior, multiset, num_rows, alpha):
    """Probability of a multiset of columns."""
    _, log_prob = buffet_class(prior, multiset, num_rows, alpha)
    return np.exp(log_prob)


@pytest.mark.parametrize(("a", "b"), [(None, 1.0), (None, 0.4), (0.7, 2.0)])
def test_finite_mass_sums_to_one(a, b):
    prior = pgfa.BetaBernoulli(2, a=a, b=b)
    assert sum(np.exp(prior.log_prob(Z, 1.7)) for Z in all_matrices(3, 2)) == pytest.approx(1.0)


def test_buffet_mass_sums_to_one():
    prior = pgfa.IndianBuffet()
    total = sum(buffet_class_prob(prior, multiset, 2, 0.6) for multiset in left_ordered_classes(2, 9))
    assert total == pytest.approx(1.0, abs=1e-7)


def test_finite_mass_in_closed_form():
    # One column, a = alpha = 2, b = 1, owners 2 of 3: B(4, 2) / B(2, 1) = (1/20) / (1/2).
    assert pgfa.BetaBernoulli(1).log_prob([[1], [1], [0]], alpha=2.0) == pytest.approx(np.log(0.1))


def test_buffet_ignores_columns_that_nobody_uses():
    prior = pgfa.IndianBuffet()
    assert prior.log_prob([[1, 0], [0, 0]], 1.3) == pytest.approx(prior.log_prob([[1], [0]], 1.3))
    assert prior.log_prob(np.zeros((4, 0)), 1.3) == pytest.approx(-1.3 * (1 + 1 / 2 + 1 / 3 + 1 / 4))


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(2), pgfa.BetaBernoulli(2, a=0.5, b=2.0)], ids=repr)
def test_finite_samples_follow_the_mass(prior):
    rng = np.random.default_rng(1)
    matrices = all_matrices(2, 2)
    prob = np.array([np.exp(prior.log_prob(Z, 1.5)) for Z in matrices])
    codes = Counter(prior.sample(rng, 2, 1.5).tobytes() for _ in range(20_000))
    counts = np.array([codes[Z.tobytes()] for Z in matrices])
    assert chi_square_p_value(counts, prob) > SIGNIFICANCE


def test_buffet_samples_follow_the_mass():
    prior, rng = pgfa.IndianBuffet(), np.random.default_rng(2)
    classes = left_ordered_classes(3, 5)
    prob = np.array([buffet_class_prob(prior, multiset, 3, 0.8) for multiset in classes])
    seen = Counter(left_ordered(prior.sample(rng, 3, 0.8)) for _ in range(40_000))
    counts = np.array([seen[multiset] for multiset in classes] + [0])
    counts[-1] = 40_000 - counts.sum()
    assert chi_square_p_value(counts, np.append(prob, 1 - prob.sum())) > SIGNIFICANCE


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(3, b=0.6), pgfa.IndianBuffet()], ids=repr)
def test_predictive_probabilities_are_ratios_of_the_mass(prior):
    rng = np.random.default_rng(5)
    num_rows, alpha = 5, 1.4
    Z = rng.integers(0, 2, size=(num_rows, 3)).astype(np.uint8)
    Z[:2] = 1
    for n in range(num_rows):
        counts = Z.sum(axis=0) - Z[n]
        predicted = prior.predictive(counts, num_rows, alpha)
        table = prior.log_odds(num_rows, alpha)
        for k in range(3):
            on, off = Z.copy(), Z.copy()
            on[n, k], off[n, k] = 1, 0
            log_odds = prior.log_prob(on, alpha) - prior.log_prob(off, alpha)
            assert np.log(predicted[k] / (1 - predicted[k])) == pytest.approx(log_odds)
            assert table[counts[k]] == pytest.approx(log_odds)


def test_buffet_holds_columns_without_other_owners():
    assert pgfa.IndianBuffet().log_odds(4, 1.0)[0] == -np.inf


def test_concentration_of_the_buffet_is_drawn_from_its_posterior():
    prior, rng = pgfa.IndianBuffet(alpha_shape=1.5, alpha_rate=0.5), np.random.default_rng(3)
    Z = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=np.uint8)
    draws = [prior.update_alpha(Z, 1.0, rng, StepSize()) for _ in range(4000)]
    posterior = stats.gamma(1.5 + 2, scale=1 / (0.5 + 11 / 6))
    assert stats.kstest(draws, posterior.cdf).pvalue > SIGNIFICANCE


def test_concentration_of_the_finite_prior_follows_its_posterior():
    """Independent replicates from exact draws (by quadrature) of the posterior."""
    prior, rng = pgfa.BetaBernoulli(3, b=0.8, alpha_shape=2.0, alpha_rate=0.7), np.random.default_rng(4)
    Z = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 0]], dtype=np.uint8)
    grid = np.linspace(1e-4, 60, 60_001)
    log_density = np.array([prior.log_prob(Z, a) + prior.log_prob_alpha(a) for a in grid[::30]])
    density = np.exp(np.interp(grid, grid[::30], log_density) - log_density.max())
    cumulative = np.cumsum(density) / density.sum()
    ends = []
    for u in rng.random(4000):
        alpha = float(np.interp(u, cumulative, grid))
        for _ in range(5):
            alpha = prior.update_alpha(Z, alpha, rng, StepSize())
        ends.append(alpha)
    assert stats.kstest(ends, lambda x: np.interp(x, grid, cumulative)).pvalue > SIGNIFICANCE


def test_no_concentration_when_a_is_given():
    prior = pgfa.BetaBernoulli(2, a=0.5)
    Z = np.zeros((3, 2), dtype=np.uint8)
    assert prior.update_alpha(Z, 1.7, np.random.default_rng(0), StepSize()) == 1.7
    assert prior.log_prob(Z, 1.0) == prior.log_prob(Z, 9.0)
    assert prior.log_prob_alpha(3.0) == 0.0


def test_harmonic_numbers():
    assert harmonic(1) == pytest.approx(1.0)
    assert harmonic(100) == pytest.approx(sum(1 / n for n in range(1, 101)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pgfa.BetaBernoulli(0), "num_features must be a whole number of at least 1"),
        (lambda: pgfa.BetaBernoulli(2.0), "num_features"),
        (lambda: pgfa.BetaBernoulli(2, a=-1.0), "a must be a positive finite number"),
        (lambda: pgfa.BetaBernoulli(2, b=np.inf), "b must be a finite number"),
        (lambda: pgfa.IndianBuffet(alpha_shape=0.0), "alpha_shape must be a positive finite number"),
        (lambda: pgfa.IndianBuffet(alpha_rate=np.nan), "alpha_rate"),
        (lambda: pgfa.IndianBuffet().log_prob([[1]], alpha=-1.0), "alpha must be a positive"),
        (lambda: pgfa.BetaBernoulli(2).log_prob([[1], [0]]), "Z must have 2 columns"),
        (lambda: pgfa.IndianBuffet().log_prob([[2]]), "Z has 2 in row 0, column 0: expected 0 or 1"),
        (lambda: pgfa.IndianBuffet().log_prob([1, 0]), "Z must be a binary matrix"),
        (lambda: pgfa.IndianBuffet().log_prob(np.zeros((0, 2))), "at least one row"),
        (lambda: pgfa.IndianBuffet().sample(np.random.default_rng(0), 0), "num_rows"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
