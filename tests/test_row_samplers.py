"""Row samplers against enumerated posteriors, for every option."""

from __future__ import annotations

import warnings
from functools import cache, partial

import numpy as np
import pytest
from exactness import SIGNIFICANCE, all_matrices, chi_square_p_value, count_ends, enumerate_posterior, third
from scipy.stats import chisquare

import pgfa
from pgfa import lanes
from pgfa.models import linear_gaussian
from pgfa.models.gaussian_rows import GramRows, ResidualRows
from pgfa.samplers.base import draw_index

VALID_TEST_PATHS = ("zeros", "ones", "random", "unconditional")
INVALID_TEST_PATHS = ("conditional", "two-stage")
ANNEALING_POWERS = (0.0, 1.0, 3.0)
NUM_REPLICATES = 60_000
#: Test paths, annealing powers, numbers of particles: any two values together every day, all three in the slow suite.
SETTINGS = third(
    *({str(value): value for value in values} for values in (VALID_TEST_PATHS, ANNEALING_POWERS, (2, 3, 20)))
)


@cache
def problem(num_rows: int, num_columns: int, prior_name: str):
    """A small model with correlated features and a missing entry, its prior and its enumerated posterior."""
    rng = np.random.default_rng(17)
    V = rng.normal(size=(num_columns, 2)) + 0.5
    X = rng.normal(size=(num_rows, 2)) + 0.5 * V.sum(axis=0)
    X[0, 1] = np.nan
    parameters = {"V": V, "tau_v": 1.0, "tau_x": 5.0}
    prior = pgfa.BetaBernoulli(num_columns, b=0.7) if prior_name == "finite" else pgfa.IndianBuffet()
    model = pgfa.LinearGaussian(X)
    posterior = enumerate_posterior(model, prior, parameters, 2.0, num_columns, restrict_to_used=prior_name == "buffet")
    return model, prior, parameters, posterior


def p_value(sampler, *, num_rows, num_columns, prior_name="finite", num_replicates=NUM_REPLICATES, **options) -> float:
    model, prior, parameters, posterior = problem(num_rows, num_columns, prior_name)
    counts = count_ends(
        model, prior, sampler, parameters, 2.0, num_columns, posterior, num_replicates=num_replicates, seed=5, **options
    )
    return chi_square_p_value(counts, posterior)


def sizes(num_particles: int) -> dict[str, int]:
    """Sizes at which that many particles have to be thinned out."""
    return {"num_rows": 1, "num_columns": 7} if num_particles == 20 else {"num_rows": 2, "num_columns": 3}


def test_gibbs():
    assert p_value(pgfa.Gibbs(), num_rows=2, num_columns=3) > SIGNIFICANCE


@pytest.mark.parametrize("max_columns", [1, 2, 16])
def test_row_gibbs_whole_and_in_blocks(max_columns):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert p_value(pgfa.RowGibbs(max_columns), num_rows=2, num_columns=3) > SIGNIFICANCE


@pytest.mark.parametrize(("test_path", "annealing_power", "num_particles"), SETTINGS)
def test_discrete_particle_filter(test_path, annealing_power, num_particles):
    sampler = pgfa.DiscreteParticleFilter(num_particles, annealing_power, test_path)
    assert p_value(sampler, **sizes(num_particles)) > SIGNIFICANCE


@pytest.mark.parametrize("resampling", ["multinomial", "stratified"])
@pytest.mark.parametrize(("test_path", "annealing_power", "num_particles"), SETTINGS)
def test_particle_gibbs(test_path, annealing_power, num_particles, resampling):
    sampler = pgfa.ParticleGibbs(num_particles, annealing_power, 0.5, resampling, test_path)
    assert p_value(sampler, **sizes(num_particles)) > SIGNIFICANCE


@pytest.mark.parametrize("resampling", ["multinomial", "stratified"])
@pytest.mark.parametrize("num_particles", [2, 3, 20])
@pytest.mark.parametrize("resample_threshold", [0.0, 0.9, 1.0])
def test_particle_gibbs_at_any_threshold(resample_threshold, num_particles, resampling):
    sampler = pgfa.ParticleGibbs(num_particles, 1.0, resample_threshold, resampling)
    assert p_value(sampler, **sizes(num_particles)) > SIGNIFICANCE


@pytest.mark.parametrize("num_particles", [2, 3, 20])
@pytest.mark.parametrize(("test_path", "annealing_power"), [("zeros", 0.0), ("random", 1.0), ("zeros", 3.0)])
@pytest.mark.parametrize(
    "kind", [pgfa.DiscreteParticleFilter, partial(pgfa.ParticleGibbs, resample_threshold=0.9)], ids=["dpf", "pg"]
)
def test_ancestor_sampling(kind, test_path, annealing_power, num_particles):
    sampler = kind(num_particles, annealing_power=annealing_power, test_path=test_path, ancestor_sampling=True)
    assert p_value(sampler, **sizes(num_particles)) > SIGNIFICANCE


@pytest.mark.parametrize("max_flips", [1, 2, 5])
def test_metropolis_flips(max_flips):
    assert p_value(pgfa.MetropolisFlips(max_flips), num_rows=2, num_columns=3) > SIGNIFICANCE


@pytest.mark.parametrize("radius", [1, 2, 3, 9])
def test_hamming_ball(radius):
    assert p_value(pgfa.HammingBall(radius), num_rows=1, num_columns=7) > SIGNIFICANCE


@pytest.mark.parametrize("num_steps", [1, 5])
def test_locally_balanced(num_steps):
    assert p_value(pgfa.LocallyBalanced(num_steps), num_rows=2, num_columns=3) > SIGNIFICANCE


SAMPLERS = [
    pgfa.Gibbs(),
    pgfa.RowGibbs(),
    pgfa.ParticleGibbs(3),
    pgfa.ParticleGibbs(3, resampling="stratified"),
    pgfa.DiscreteParticleFilter(2),
    pgfa.DiscreteParticleFilter(3),
]


RIVALS = [
    pgfa.MetropolisFlips(),
    pgfa.MetropolisFlips(3),
    pgfa.HammingBall(1),
    pgfa.LocallyBalanced(),
    pgfa.ParticleGibbs(3, ancestor_sampling=True),
    pgfa.DiscreteParticleFilter(3, ancestor_sampling=True),
]

#: Samplers that draw all entries of a row together, and so forget where they began.
WHOLE_ROWS = (pgfa.RowGibbs, pgfa.ParticleGibbs, pgfa.DiscreteParticleFilter)


@pytest.mark.parametrize("sampler", SAMPLERS + RIVALS, ids=repr)
def test_non_singletons_of_the_buffet(sampler):
    """Rows move only columns that others own, so that columns never die: the prior restricted to used columns."""
    assert p_value(sampler, num_rows=3, num_columns=3, prior_name="buffet") > SIGNIFICANCE


@pytest.mark.parametrize(
    "sampler", [*SAMPLERS, *(pytest.param(rival, marks=pytest.mark.slow) for rival in RIVALS)], ids=repr
)
def test_samplers_forget_their_start(sampler):
    num_columns = 3
    matrices = all_matrices(2, num_columns)
    start = int(np.flatnonzero(matrices.all(axis=(1, 2)))[0])
    num_sweeps = 60 if isinstance(sampler, WHOLE_ROWS) else 200
    result = p_value(
        sampler, num_rows=2, num_columns=num_columns, start=start, num_sweeps=num_sweeps, num_replicates=20_000
    )
    assert result > SIGNIFICANCE


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_likelihood_power(sampler):
    model, prior, parameters, _ = problem(2, 3, "finite")
    posterior = enumerate_posterior(model, prior, parameters, 2.0, 3, power=0.3)
    counts = count_ends(
        model, prior, sampler, parameters, 2.0, 3, posterior, num_replicates=NUM_REPLICATES, seed=6, power=0.3
    )
    assert chi_square_p_value(counts, posterior) > SIGNIFICANCE


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_rows_seen_through_residuals(sampler, monkeypatch):
    model, _, parameters, _ = problem(2, 3, "finite")
    Z = np.zeros((2, 3), dtype=np.uint8)
    assert isinstance(model.rows(Z, parameters), GramRows)
    monkeypatch.setattr(linear_gaussian, "_FEATURES_PER_DIMENSION", 0)
    assert isinstance(model.rows(Z, parameters), ResidualRows)
    assert p_value(sampler, num_rows=2, num_columns=3) > SIGNIFICANCE


@pytest.mark.parametrize("test_path", INVALID_TEST_PATHS)
@pytest.mark.parametrize("kind", [pgfa.ParticleGibbs, pgfa.DiscreteParticleFilter])
def test_test_paths_that_look_at_the_row_are_wrong_and_the_test_sees_it(kind, test_path):
    sampler = kind(num_particles=2, annealing_power=0.0, test_path=test_path)
    assert p_value(sampler, num_rows=2, num_columns=3, warmup=True) < 1e-12


@pytest.mark.parametrize("test_path", INVALID_TEST_PATHS)
@pytest.mark.parametrize("kind", [pgfa.ParticleGibbs, pgfa.DiscreteParticleFilter])
def test_outside_warmup_zeros_take_the_place_of_such_test_paths(kind, test_path):
    assert p_value(kind(num_particles=2, test_path=test_path), num_rows=2, num_columns=3) > SIGNIFICANCE


def test_many_particles_make_the_discrete_filter_the_row_gibbs_draw():
    """With room for all vectors nothing is thinned, so that one sweep forgets the row altogether."""
    posterior = problem(1, 4, "finite")[3]
    for start in (0, 15):
        result = p_value(pgfa.DiscreteParticleFilter(16), num_rows=1, num_columns=4, start=start, num_sweeps=1)
        assert result > SIGNIFICANCE
    assert posterior.max() < 0.9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pgfa.DiscreteParticleFilter(num_particles=1), "num_particles must be a whole number of at least 2"),
        (lambda: pgfa.ParticleGibbs(num_particles=1), "num_particles must be a whole number of at least 2"),
        (lambda: pgfa.ParticleGibbs(num_particles=2.5), "num_particles"),
        (lambda: pgfa.ParticleGibbs(resample_threshold=1.5), "resample_threshold must lie between 0 and 1"),
        (lambda: pgfa.ParticleGibbs(resampling="residual"), "resampling must be one of 'multinomial', 'stratified'"),
        (lambda: pgfa.DiscreteParticleFilter(annealing_power=-1.0), "annealing_power"),
        (lambda: pgfa.DiscreteParticleFilter(annealing_power=np.nan), "annealing_power"),
        (lambda: pgfa.DiscreteParticleFilter(test_path="twos"), "test_path must be one of 'zeros'"),
        (lambda: pgfa.DiscreteParticleFilter(ancestor_sampling=1), "ancestor_sampling must be True or False"),
        (lambda: pgfa.ParticleGibbs(resampling="stratified", ancestor_sampling=True), "multinomial"),
        (lambda: pgfa.MetropolisFlips(0), "max_flips must be a whole number of at least 1"),
        (lambda: pgfa.HammingBall(0), "radius must be a whole number of at least 1"),
        (lambda: pgfa.LocallyBalanced(0), "num_steps must be a whole number of at least 1"),
        (lambda: pgfa.RowGibbs(max_columns=0), "max_columns"),
        (lambda: pgfa.RowGibbs(max_columns=40), "max_columns must be at most 24"),
        (lambda: pgfa.Mixture([]), "parts must hold at least one"),
        (lambda: pgfa.Mixture([(0.0, pgfa.Gibbs())]), "weight of a part must be a positive finite number"),
        (lambda: pgfa.Mixture([(1.0, "gibbs")]), "parts must be pairs of a weight and a sampler"),
        (lambda: pgfa.Mixture(3), "parts must be pairs"),
    ],
)
def test_bad_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="num_particle"):
        pgfa.DiscreteParticleFilter(num_particle=3)


def test_row_gibbs_says_once_that_it_updates_blocks():
    from pgfa.samplers import row_gibbs

    row_gibbs._warned_of_blocks.discard(3)
    X = np.random.default_rng(0).normal(size=(5, 2))
    chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(5), pgfa.RowGibbs(max_columns=3), seed=1)
    with pytest.warns(UserWarning, match="random block of 3 columns"):
        chain.step(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain.step(3)


def test_a_mixture_uses_its_parts_in_proportion():
    gibbs, row_gibbs = pgfa.Gibbs(), pgfa.RowGibbs()
    mixture = pgfa.Mixture([(3.0, gibbs), (1.0, row_gibbs)])
    rng = np.random.default_rng(1)
    share = np.mean([mixture.choose(rng) is gibbs for _ in range(4000)])
    assert abs(share - 0.75) < 0.03


@pytest.mark.parametrize("size", [1, 7, 8, 20, 33])
def test_indices_are_drawn_in_proportion_to_their_weights(size):
    """Whatever stands behind the weights, and also where their sum was rounded up."""
    rng = np.random.default_rng(size)
    weights = np.full(lanes.padded(size), 1e9)
    weights[:size] = rng.exponential(size=size) * (rng.random(size) < 0.6)
    weights[size // 2] = 1.0
    total = weights[:size].sum()
    drawn = np.array([draw_index(weights, size, total, rng) for _ in range(20_000)])
    expected = 20_000 * weights[:size] / total
    counts = np.bincount(drawn, minlength=size)
    assert np.all(counts[expected == 0.0] == 0)
    if size > 1:
        used = expected > 0.0
        assert chisquare(counts[used], expected[used]).pvalue > 1e-4
    assert {draw_index(weights, size, 1e6 * total, rng) for _ in range(50)} == {np.flatnonzero(weights[:size])[-1]}
