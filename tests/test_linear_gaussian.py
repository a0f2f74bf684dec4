"""The linear Gaussian model: density, parameter updates, prediction, hard cases, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from exactness import SIGNIFICANCE
from scipy import stats

import pgfa

SAMPLERS = [pgfa.Gibbs(), pgfa.RowGibbs(), pgfa.ParticleGibbs(), pgfa.DiscreteParticleFilter()]


def small_problem(seed=0, intercept=False):
    rng = np.random.default_rng(seed)
    Z = rng.integers(0, 2, size=(12, 3)).astype(np.uint8)
    parameters = {"V": rng.normal(size=(3, 4)), "tau_v": 0.7, "tau_x": 2.5}
    if intercept:
        parameters["intercept"] = rng.normal(size=4)
    X = Z @ parameters["V"] + parameters.get("intercept", 0.0) + rng.normal(size=(12, 4)) / np.sqrt(2.5)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[3] = np.nan
    return X, Z, parameters


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(3), pgfa.BetaBernoulli(3, a=0.5), pgfa.IndianBuffet()], ids=repr)
def test_log_density_against_a_plain_formula(prior, intercept):
    X, Z, parameters = small_problem(intercept=intercept)
    model = pgfa.LinearGaussian(
        X, intercept, tau_v_prior=(2.0, 3.0), tau_x_prior=(1.5, 0.5), intercept_prior=(0.3, 2.0)
    )
    chain = pgfa.Chain(model, prior, seed=0, state=pgfa.State(Z, 1.8, parameters))
    V, tau_v, tau_x = parameters["V"], parameters["tau_v"], parameters["tau_x"]
    expected = 0.0
    for n in range(12):
        for d in range(4):
            if not np.isnan(X[n, d]):
                mean = sum(Z[n, k] * V[k, d] for k in range(3))
                mean += parameters["intercept"][d] if intercept else 0.0
                expected += stats.norm.logpdf(X[n, d], mean, tau_x**-0.5)
    expected += stats.norm.logpdf(V, 0.0, tau_v**-0.5).sum()
    expected += stats.gamma.logpdf(tau_v, 2.0, scale=1 / 3.0) + stats.gamma.logpdf(tau_x, 1.5, scale=1 / 0.5)
    if intercept:
        expected += stats.norm.logpdf(parameters["intercept"], 0.3, 2.0**-0.5).sum()
    expected += prior.log_prob(Z, 1.8)
    if prior.has_concentration:
        expected += stats.gamma.logpdf(1.8, 1.0)
    assert chain.log_density() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("through", ["products", "residuals"])
@pytest.mark.parametrize("intercept", [False, True])
def test_row_views_agree_with_the_likelihood(through, intercept, monkeypatch):
    """Flips, spawned particles and fresh starts all give the differences of the model's own log likelihood."""
    import numba

    from pgfa.models import linear_gaussian
    from pgfa.rows import begin_row, flip, flipped, spawn, start

    if through == "residuals":
        monkeypatch.setattr(linear_gaussian, "_FEATURES_PER_DIMENSION", 0)
    X, Z, parameters = small_problem(intercept=intercept)
    X[5, :3] = np.nan  # mostly missing
    model = pgfa.LinearGaussian(X, intercept)
    rows = model.rows(Z, parameters)

    @numba.njit
    def evaluate(rows, n, z, k, block, children):
        log_lik, out = np.empty(2), np.empty(2)
        begin_row(rows, n)
        log_lik[0] = start(rows, n, z, block)
        sign = 1.0 - 2.0 * z[k]
        flipped(rows, n, k, sign, block, log_lik, 1, out)
        by_flip = out[0]
        spawn(rows, n, k, sign, block, np.array([0, 0]), np.array([0, 1]), 2, children)
        log_lik[1] = by_flip
        flipped(rows, n, 0, 1.0 - 2.0 * z[0], children, log_lik, 2, out)
        flip(rows, n, k, sign, block)
        log_lik[0] = by_flip
        back = np.empty(1)
        flipped(rows, n, k, -sign, block, log_lik, 1, back)
        return log_lik[0], by_flip, out[0], out[1], back[0]

    for n in range(12):
        for k in (1, 2):

            def change(z, n=n):
                changed = Z.copy()
                changed[n] = z
                return model.log_likelihood(changed, parameters) - model.log_likelihood(Z, parameters)

            base = evaluate(rows, n, Z[n], k, rows.make_block(1), rows.make_block(2))
            z_flip, z_other, z_both = Z[n].copy(), Z[n].copy(), Z[n].copy()
            z_flip[k] ^= 1
            z_other[0] ^= 1
            z_both[k] ^= 1
            z_both[0] ^= 1
            origin = base[4]  # flipped and flipped back
            assert base[1] - origin == pytest.approx(change(z_flip), abs=1e-9)
            assert base[2] - origin == pytest.approx(change(z_other), abs=1e-9)
            assert base[3] - origin == pytest.approx(change(z_both), abs=1e-9)


@pytest.mark.parametrize("through", ["products", "residuals"])
@pytest.mark.parametrize("num_columns", [6, 4])
def test_particles_of_a_filter_keep_what_later_columns_need(through, num_columns, monkeypatch):
    """Columns decided in a given order, some of them held, give the differences of the model's own log likelihood."""
    import numba

    from pgfa.models import linear_gaussian
    from pgfa.rows import begin_row, flipped, follow, spawn, start

    if through == "residuals":
        monkeypatch.setattr(linear_gaussian, "_FEATURES_PER_DIMENSION", 0)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5, 4))
    X[1, 2] = np.nan
    model = pgfa.LinearGaussian(X)
    Z = rng.integers(0, 2, size=(5, 6)).astype(np.uint8)
    parameters = {"V": rng.normal(size=(6, 4)), "tau_v": 1.0, "tau_x": 2.0}
    rows = model.rows(Z, parameters)

    @numba.njit
    def decide(rows, n, z, columns, flips, block, next_block):
        log_lik, out = np.empty(1), np.empty(1)
        begin_row(rows, n)
        follow(rows, n, columns, columns.size)
        first = log_lik[0] = start(rows, n, z, block)
        for t in range(columns.size):
            k = columns[t]
            sign = 1.0 - 2.0 * z[k]
            flipped(rows, n, k, sign, block, log_lik, 1, out)
            log_lik[0] = out[0] if flips[t] == 1 else log_lik[0]
            spawn(rows, n, k, sign, block, np.zeros(1, np.int64), flips[t : t + 1], 1, next_block)
            block, next_block = next_block, block
        return log_lik[0] - first

    for n in range(5):
        columns = rng.permutation(6)[:num_columns]
        flips = rng.integers(0, 2, size=num_columns)
        changed = Z.copy()
        changed[n, columns] ^= flips.astype(np.uint8)
        expected = model.log_likelihood(changed, parameters) - model.log_likelihood(Z, parameters)
        found = decide(rows, n, Z[n], columns, flips, rows.make_block(1), rows.make_block(1))
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_loadings_are_drawn_from_their_posterior(intercept):
    """Moments of V (and the intercept) against the regression of each column on its observed rows."""
    X, Z, parameters = small_problem(intercept=intercept)
    prior_mean, prior_precision = 0.4, 1.5
    model = pgfa.LinearGaussian(X, intercept, intercept_prior=(prior_mean, prior_precision))
    rng = np.random.default_rng(1)
    draws = []
    for _ in range(20_000):
        current = {
            name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in parameters.items()
        }
        model.update_parameters(Z, current, rng, power=0.6)
        draws.append(np.vstack([current["V"], current["intercept"]]) if intercept else current["V"])
    draws = np.array(draws)
    design = np.column_stack([Z, np.ones(12)]) if intercept else Z.astype(float)
    precision = np.diag([0.7] * 3 + [prior_precision] * intercept)
    pull = np.array([0.0] * 3 + [prior_precision * prior_mean] * intercept)
    for d in range(4):
        seen = ~np.isnan(X[:, d])
        A = precision + 0.6 * 2.5 * design[seen].T @ design[seen]
        mean = np.linalg.solve(A, pull + 0.6 * 2.5 * design[seen].T @ X[seen, d])
        covariance = np.linalg.inv(A)
        standardised = (draws[:, :, d] - mean) @ np.linalg.cholesky(A)
        for column in standardised.T:
            assert stats.kstest(column, "norm").pvalue > SIGNIFICANCE
        assert np.cov(draws[:, :, d].T) == pytest.approx(covariance, abs=5 * covariance.max() / np.sqrt(20_000) * 1.5)


def test_imputation_and_prediction():
    rng = np.random.default_rng(2)
    Z = rng.integers(0, 2, size=(200, 2)).astype(np.uint8)
    V = np.array([[2.0, -1.0, 3.0], [0.0, 4.0, 1.0]])
    complete = Z @ V + 0.1 * rng.normal(size=(200, 3))
    X = complete.copy()
    hidden = rng.random(X.shape) < 0.1
    X[hidden] = np.nan
    model = pgfa.LinearGaussian(X)
    truth = pgfa.State(Z, 2.0, {"V": V, "tau_v": 0.2, "tau_x": 100.0})
    chain = pgfa.Chain(model, pgfa.BetaBernoulli(2), seed=3, state=truth)
    states = []
    for _ in range(20):
        chain.step()
        states.append(chain.state)
    filled = model.impute(states)
    assert np.array_equal(filled[~hidden], X[~hidden])
    assert np.sqrt(np.mean((filled[hidden] - complete[hidden]) ** 2)) < 0.2
    replicated = model.posterior_predictive(states, rng=1)
    assert replicated.shape == (20, 200, 3)
    assert np.sqrt(np.mean((replicated - complete) ** 2)) < 0.3
    assert np.array_equal(np.isnan(model.X), hidden)
    with pytest.raises(ValueError, match="at least one state"):
        model.impute([])


def test_labels_of_a_table_are_kept():
    table = pd.DataFrame({"u": [1.0, 2.0], "v": [np.nan, 3.0]}, index=["first", "second"])
    model = pgfa.LinearGaussian(table)
    assert model.row_labels == ["first", "second"]
    assert model.column_labels == ["u", "v"]


def test_the_callers_data_are_left_alone():
    X = np.array([[1.0, np.nan], [2.0, 3.0]])
    model = pgfa.LinearGaussian(X)
    assert np.isnan(X[0, 1])
    X[0, 0] = 77.0
    assert model.X[0, 0] == 1.0


HARD_CASES = {
    "one row": np.array([[1.0, -2.0, 0.5]]),
    "one column": np.linspace(-1, 1, 20)[:, np.newaxis],
    "one entry": np.array([[0.3]]),
    "large": 1e6 * np.random.default_rng(0).normal(size=(30, 3)),
    "small": 1e-6 * np.random.default_rng(0).normal(size=(30, 3)),
    "far from zero": 1e6 + np.random.default_rng(0).normal(size=(30, 3)),
    "duplicate rows": np.repeat(np.random.default_rng(0).normal(size=(3, 4)), 10, axis=0),
    "constant columns": np.column_stack([np.ones(25), np.zeros(25), np.random.default_rng(0).normal(size=25)]),
    "rows missing": np.where(np.arange(40)[:, np.newaxis] < 2, np.nan, np.random.default_rng(0).normal(size=(40, 3))),
    "a column missing": np.column_stack([np.full(20, np.nan), np.random.default_rng(0).normal(size=(20, 2))]),
    "all missing": np.full((6, 3), np.nan),
}


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(3), pgfa.IndianBuffet()], ids=repr)
@pytest.mark.parametrize("name", HARD_CASES)
def test_hard_cases_run_and_stay_finite(name, prior):
    sampler = pgfa.Mixture([(1, sampler) for sampler in SAMPLERS])
    chain = pgfa.Chain(pgfa.LinearGaussian(HARD_CASES[name], intercept=True), prior, sampler, seed=4)
    for _ in range(20):
        chain.step(2)
        assert np.isfinite(chain.log_density())


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_more_than_64_features(sampler):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 3))
    sampler = pgfa.RowGibbs(8) if isinstance(sampler, pgfa.RowGibbs) else sampler
    chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(100), sampler, seed=4)
    with pytest.warns() if isinstance(sampler, pgfa.RowGibbs) else _no_warning():
        chain.step(5)
    assert np.isfinite(chain.log_density())
    assert chain.state.Z.shape == (15, 100)


def _no_warning():
    import contextlib

    return contextlib.nullcontext()


def test_no_features_under_the_buffet():
    X = np.random.default_rng(0).normal(size=(10, 2))
    empty = pgfa.State(np.zeros((10, 0)), 0.5, {"V": np.zeros((0, 2)), "tau_v": 1.0, "tau_x": 1.0})
    chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.IndianBuffet(), seed=1, state=empty)
    assert np.isfinite(chain.log_density())
    seen = set()
    for _ in range(200):
        chain.step()
        seen.add(chain.state.num_features)
        assert np.isfinite(chain.log_density())
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": [1.0, 2.0]}, r"X must be a matrix \(two dimensions\), got shape \(2,\)"),
        ({"X": np.zeros((0, 3))}, "X must have at least one row and one column"),
        ({"X": np.zeros((3, 0))}, "X must have at least one row and one column"),
        ({"X": [[1.0, np.inf]]}, "X has inf in row 0, column 1: expected a finite number or NaN"),
        ({"X": [["a", "b"]]}, "X must hold numbers"),
        ({"X": np.array([[1.0, "b"]], dtype=object)}, "row 0, column 1 is 'b'"),
        ({"X": [[1.0], [1.0, 2.0]]}, "X must be a matrix of numbers"),
        ({"X": [[1j]]}, "X must hold numbers"),
        ({"X": [[1.0]], "intercept": "yes"}, "intercept must be True or False"),
        ({"X": [[1.0]], "tau_v_prior": (0.0, 1.0)}, r"tau_v_prior\[0\] \(shape\) must be a positive"),
        ({"X": [[1.0]], "tau_x_prior": (1.0, np.nan)}, r"tau_x_prior\[1\] \(rate\) must be a finite"),
        ({"X": [[1.0]], "tau_x_prior": 3.0}, "tau_x_prior must be a pair"),
        ({"X": [[1.0]], "intercept_prior": (0.0, -1.0)}, r"intercept_prior\[1\]"),
        ({"X": [[1.0]], "singletons": "none"}, "singletons must be one of"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        pgfa.LinearGaussian(**arguments)


# --- guesses ---------------------------------------------------------------------------------------------------------


def test_a_guess_finds_the_missing_feature_in_spite_of_outliers_and_holes():
    rng = np.random.default_rng(3)
    Z = (rng.random((300, 3)) < 0.4).astype(np.uint8)
    V = 3.0 * rng.standard_normal((3, 12))
    X = Z @ V + 0.3 * rng.standard_normal((300, 12))
    X[:4] += 100.0 * rng.standard_normal(12)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = pgfa.LinearGaussian(X, intercept=True)
    parameters = {"V": V[:2], "tau_v": 0.1, "tau_x": 10.0, "intercept": 0.4 * V[2]}
    state = pgfa.State(Z=Z[:, :2], alpha=1.0, parameters=parameters)
    right = []
    for seed in range(10):
        owners = model.guess_owners(state, np.random.default_rng(seed))
        right.append(np.mean(owners[4:] == Z[4:, 2]))
    assert all(max(share, 1.0 - share) > 0.99 for share in right), "the feature or its complement"


def test_nothing_is_left_to_guess_where_residuals_are_zero():
    model = pgfa.LinearGaussian(np.zeros((5, 2)))
    state = pgfa.State(Z=np.zeros((5, 1)), alpha=1.0, parameters={"V": np.ones((1, 2)), "tau_v": 1.0, "tau_x": 1.0})
    assert not model.guess_owners(state, np.random.default_rng(1)).any()


@pytest.mark.parametrize(("intercept", "idlest"), [(False, 2), (True, 1)])
def test_with_an_intercept_a_feature_of_everybody_is_idle(intercept, idlest):
    Z = np.zeros((10, 3), dtype=np.uint8)
    Z[:5, 0], Z[:, 1], Z[:2, 2] = 1, 1, 1
    assert pgfa.LinearGaussian(np.eye(10), intercept).find_idlest(Z) == idlest


def test_columns_wasted_on_outliers_are_renewed():
    """Without renewals all chains here, annealed, end with columns that outliers alone own."""
    rng = np.random.default_rng(3)
    truth = (rng.random((150, 4)) < 0.5).astype(np.uint8)
    X = truth @ (1.5 * rng.standard_normal((4, 15))) + 0.5 * rng.standard_normal((150, 15))
    X[:3] += 12.0 * rng.standard_normal(15)
    model, prior = pgfa.LinearGaussian(X, intercept=True), pgfa.BetaBernoulli(4)
    options = {"draws": 1, "warmup": 200, "chains": 4, "starts": 1, "seed": 1, "progress": False, "check": False}
    options["column_moves"] = False  # quicker, and the renewals have to do it alone
    stuck, renewed = (
        pgfa.sample(model, prior, renew=renew, **options)["sample_stats"]["lp"].to_numpy() for renew in (False, True)
    )
    assert renewed.min() > stuck.max() + 300.0
