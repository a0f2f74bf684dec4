"""Models in a user's own file: the Poisson example is held to what ours are held to."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from functools import cache

import numpy as np
import pytest
import xarray as xr
from exactness import SIGNIFICANCE, chi_square_p_value, count_ends, enumerate_posterior, half, joint_p_values
from poisson_counts import PoissonCounts
from scipy import stats

import pgfa
from pgfa.storage import StoreError

SAMPLERS = [pgfa.Gibbs(), pgfa.RowGibbs(), pgfa.ParticleGibbs(3), pgfa.DiscreteParticleFilter(3)]
PRIORS = {
    "finite": pgfa.BetaBernoulli(3, alpha_shape=2.0),
    "buffet": pgfa.IndianBuffet(alpha_shape=2.0, alpha_rate=2.0),
}
QUIET = {"progress": False, "check": False}


class Hierarchical(pgfa.AdditiveModel):
    """Gaussian data with a scale for each feature and a noise precision: every kind of parameter there is."""

    positive = ("scale", "tau")

    @property
    def feature_shapes(self):
        return {"V": (self.num_columns,), "scale": ()}

    @staticmethod
    def row_log_likelihood(data, parameters, n, predictor):
        predictor += parameters.shift  # in place: it is a copy
        total = 0.0
        for d in range(predictor.size):
            if not np.isnan(data.X[n, d]):
                total += 0.5 * np.log(parameters.tau / (2.0 * np.pi))
                total -= 0.5 * parameters.tau * (data.X[n, d] - predictor[d]) ** 2
        return total

    @staticmethod
    def feature_log_prior(data, parameters, k):
        scale = parameters.scale[k]
        total = 3.0 * np.log(2.0) - np.log(2.0) + 2.0 * np.log(scale) - 2.0 * scale
        for v in parameters.V[k]:
            total -= 0.5 * np.log(2.0 * np.pi) + np.log(scale) + 0.5 * (v / scale) ** 2
        return total

    @staticmethod
    def draw_feature(data, parameters, k, rng):
        parameters.scale[k] = rng.gamma(3.0, 0.5)
        for d in range(parameters.V.shape[1]):
            parameters.V[k, d] = parameters.scale[k] * rng.standard_normal()

    def draw_shared(self, rng):
        return {"shift": rng.normal(size=self.num_columns), "tau": rng.gamma(4.0, 0.5)}

    def shared_log_prior(self, parameters):
        log_prior = stats.norm.logpdf(parameters["shift"]).sum()
        return log_prior + stats.gamma.logpdf(parameters["tau"], 4.0, scale=0.5)

    def sample_data(self, Z, parameters, rng):
        mean = Z @ parameters["V"] + parameters["shift"]
        return mean + rng.normal(size=mean.shape) / np.sqrt(parameters["tau"])


def test_log_density_against_a_plain_formula():
    rng = np.random.default_rng(0)
    X = rng.poisson(4.0, size=(10, 3)).astype(float)
    X[2, 1] = np.nan
    model = PoissonCounts(X, shape=1.5, rate=0.7)
    chain = pgfa.Chain(model, pgfa.BetaBernoulli(4), seed=1)
    Z, V, baseline = chain.state.Z, chain.state.parameters["V"], chain.state.parameters["baseline"]
    expected = np.nansum(stats.poisson.logpmf(np.nan_to_num(X), Z @ V + baseline)[~np.isnan(X)])
    expected += stats.gamma.logpdf(V, 1.5, scale=1 / 0.7).sum() + stats.expon.logpdf(baseline).sum()
    expected += chain.prior.log_prob(Z, chain.state.alpha) + chain.prior.log_prob_alpha(chain.state.alpha)
    assert chain.log_density() == pytest.approx(expected, rel=1e-12)


# --- exactness ------------------------------------------------------------------------------------------------------


@cache
def problem(prior_name):
    """Few rows with a hole, and the enumerated posterior of their features."""
    num_rows = 2 if prior_name == "finite" else 3
    parameters = {"V": np.array([[2.0, 0.5], [1.0, 1.5], [0.3, 2.5]]), "baseline": np.array([0.4, 0.8])}
    X = np.array([[3.0, np.nan], [2.0, 4.0], [1.0, 2.0]])[:num_rows]
    prior = pgfa.BetaBernoulli(3, b=0.7) if prior_name == "finite" else pgfa.IndianBuffet()
    model = PoissonCounts(X)
    posterior = enumerate_posterior(model, prior, parameters, 2.0, 3, restrict_to_used=prior_name == "buffet")
    return model, prior, parameters, posterior


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("prior_name", PRIORS)
def test_samplers_against_the_enumerated_posterior(prior_name, sampler):
    model, prior, parameters, posterior = problem(prior_name)
    assert posterior.max() < 0.3
    counts = count_ends(model, prior, sampler, parameters, 2.0, 3, posterior, num_replicates=60_000, seed=5)
    assert chi_square_p_value(counts, posterior) > SIGNIFICANCE


def test_power_of_the_likelihood():
    model, prior, parameters, _ = problem("finite")
    posterior = enumerate_posterior(model, prior, parameters, 2.0, 3, power=0.3)
    options = {"num_replicates": 60_000, "seed": 5, "power": 0.3}
    counts = count_ends(model, prior, pgfa.DiscreteParticleFilter(3), parameters, 2.0, 3, posterior, **options)
    assert chi_square_p_value(counts, posterior) > SIGNIFICANCE


def statistics(state, X):
    V = state.parameters["V"]
    used = state.Z.any(axis=0)
    return {
        "alpha": state.alpha,
        "used features": float(used.sum()),
        "ones": float(state.Z.sum()),
        "owners of the first row's features": float((state.Z[0] @ state.Z.T).sum()),
        "sum of V": float(V.sum()),
        "squares of used V": float(np.sum(V[used] ** 2)),
        "baseline": float(state.parameters["baseline"][0]),
        "X": float(X[0, 0]),
        "squares of X": float(np.sum(np.square(X))),
        "X with its mean": float(np.sum(X * (state.Z @ V))),
    }


@pytest.mark.parametrize(
    ("prior", "update"),
    half(PRIORS, {"features alone": ("features",), "all updates": ("features", "parameters", "concentration")}),
)
def test_geweke(prior, update):
    p_values = joint_p_values(
        PoissonCounts(np.zeros((4, 2))),
        prior,
        pgfa.Mixture([(1, sampler) for sampler in SAMPLERS]),
        statistics,
        num_replicates=2500,
        num_rounds=8,
        seed=11,
        hide=np.array([[0, 0], [0, 1], [1, 1], [0, 0]], dtype=bool),
        update=update,
    )
    assert min(p_values.values()) > SIGNIFICANCE, p_values


@pytest.mark.slow
@pytest.mark.parametrize("update", [("features", "parameters", "concentration"), ("features",)], ids=len)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_geweke_at_length(prior, sampler, update):
    p_values = joint_p_values(
        PoissonCounts(np.zeros((4, 2))), prior, sampler, statistics,
        num_replicates=12_000, num_rounds=20, seed=12, update=update,
    )  # fmt: skip
    assert min(p_values.values()) > SIGNIFICANCE, p_values


@pytest.mark.slow
def test_every_kind_of_parameter():
    report = pgfa.check_model(Hierarchical(np.zeros((4, 2))), progress=False)
    assert report.passed, str(report)


@pytest.mark.parametrize("power", [pytest.param(0.0, marks=pytest.mark.slow), 0.4, 1.0])
def test_the_random_walk_forgets_its_start_and_finds_the_posterior(power):
    """One feature that all rows own, over a negligible baseline: its posterior is a Gamma distribution."""
    rng = np.random.default_rng(3)
    X = rng.poisson([2.0, 7.0], size=(5, 2)).astype(float)
    X[0, 0] = np.nan
    model = PoissonCounts(X, shape=2.0, rate=0.5)
    Z = np.ones((5, 1), dtype=np.uint8)
    shape = 2.0 + power * np.nansum(X, axis=0)
    rate = 0.5 + power * np.sum(~np.isnan(X), axis=0)
    ends = []
    for _ in range(3000):
        parameters = {"V": np.array([[1.0, 30.0]]), "baseline": np.full(2, 1e-12)}
        for _ in range(60):
            model.random_walk(Z, parameters, rng, ["V"], power=power)
        ends.append(parameters["V"][0])
    for d, values in enumerate(np.transpose(ends)):
        assert stats.kstest(values, stats.gamma(shape[d], scale=1.0 / rate[d]).cdf).pvalue > SIGNIFICANCE


def test_features_that_nobody_owns_are_drawn_from_their_prior():
    rng = np.random.default_rng(4)
    model = PoissonCounts(np.ones((3, 1)))
    draws = []
    for _ in range(3000):
        parameters = {"V": np.full((2, 1), 50.0), "baseline": np.ones(1)}
        model.update_parameters(np.array([[1, 0]] * 3, dtype=np.uint8), parameters, rng)
        draws.append(parameters["V"][1, 0])
    assert stats.kstest(draws, stats.gamma(2.0, scale=2.0).cdf).pvalue > SIGNIFICANCE


def test_step_sizes_are_tuned_in_warmup_only():
    X = np.random.default_rng(0).poisson(200.0, size=(50, 3))
    chain = pgfa.Chain(PoissonCounts(X), pgfa.BetaBernoulli(2), seed=1)
    chain.step(100, warmup=True)
    tuned = {name: size.value for name, size in chain.step_sizes.items()}
    assert tuned["V"] < 0.4
    chain.step(20)
    assert {name: size.value for name, size in chain.step_sizes.items()} == tuned
    assert 0.2 < chain.step_sizes["V"].acceptance_rate < 0.7


# --- sample, stores, other processes --------------------------------------------------------------------------------


def simulated(num_rows=30):
    rng = np.random.default_rng(2)
    blank = PoissonCounts(np.zeros((num_rows, 4)))
    Z = rng.integers(0, 2, size=(num_rows, 2)).astype(np.uint8)
    return blank.with_data(blank.sample_data(Z, blank.sample_parameters(rng, 2), rng))


def assert_same_draws(first, second):
    for name in first["posterior"].data_vars:
        xr.testing.assert_equal(first["posterior"][name], second["posterior"][name])


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(3), pgfa.IndianBuffet()], ids=repr)
def test_sample_store_and_resume(prior, tmp_path):
    model = simulated()
    options = {"draws": 12, "warmup": 8, "chains": 3, "seed": 1, **QUIET}
    reference = pgfa.sample(model, prior, cores=1, **options)
    assert_same_draws(reference, pgfa.sample(model, prior, cores=3, **options))
    assert reference["posterior"]["V"].dims == ("chain", "draw", "feature", "column")
    assert reference["posterior"]["baseline"].shape == (3, 12, 4)
    assert {"acceptance_V", "acceptance_baseline"} <= set(reference["sample_stats"].data_vars)

    path = tmp_path / "run"
    with pytest.raises(RuntimeError, match="before the first draw"):
        pgfa.sample(model, prior, checkpoint=path, checkpoint_interval=0.0, max_time=1e-6, **options)
    assert_same_draws(reference, pgfa.resume(path, model=model, **QUIET))
    assert_same_draws(reference, pgfa.resume(path, model=model, **QUIET))  # finished: only read
    with pytest.raises(StoreError, match=r"run of the model PoissonCounts, which is not one of pgfa's: give model="):
        pgfa.resume(path, **QUIET)


def test_a_run_is_not_resumed_with_a_model_that_does_not_fit(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(RuntimeError, match="before the first draw"):
        pgfa.sample(simulated(), pgfa.IndianBuffet(), draws=5, warmup=5, checkpoint=path, max_time=1e-6, **QUIET)
    with pytest.raises(ValueError, match="must be a binary matrix with 20 rows"):
        pgfa.resume(path, model=simulated(20), **QUIET)


SCRIPT = """
    import sys
    import numpy as np
    import pgfa

    class Model(pgfa.AdditiveModel):
        @staticmethod
        def row_log_likelihood(data, parameters, n, predictor):
            return -PRECISION * np.sum((data.X[n] - predictor) ** 2)

        @staticmethod
        def feature_log_prior(data, parameters, k):
            return -0.5 * np.sum(parameters.V[k] ** 2)

        @staticmethod
        def draw_feature(data, parameters, k, rng):
            for d in range(parameters.V.shape[1]):
                parameters.V[k, d] = rng.standard_normal()

        def sample_data(self, Z, parameters, rng):
            raise NotImplementedError

    if __name__ == "__main__":
        model = Model(np.random.default_rng(0).normal(size=(20, 2)))
        chain = pgfa.Chain(model, pgfa.IndianBuffet(), pgfa.Gibbs(), seed=1, update="features")
        chain.step(30)
        if len(sys.argv) > 1:
            import cloudpickle
            with open(sys.argv[1], "wb") as file:
                cloudpickle.dump(model, file)
        print(model.log_likelihood(np.ones((20, 1), dtype=np.uint8), {"V": np.ones((1, 2))}), chain.log_density())
"""


def run_script(folder, precision, *arguments, main=True):
    """Run a user's file, as a script or as a module that another script imports."""
    source = textwrap.dedent(SCRIPT).replace("PRECISION", str(precision))
    (folder / "my_model.py").write_text(source)
    if not main:
        start = source[source.index('if __name__ == "__main__":') :]
        (folder / "start.py").write_text(f"import sys, numpy as np, pgfa\nfrom my_model import Model\n{start}")
    file = folder / ("my_model.py" if main else "start.py")
    result = subprocess.run(
        [sys.executable, str(file), *arguments],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    return tuple(float(word) for word in result.stdout.split())


@pytest.mark.parametrize("main", [pytest.param(True, marks=pytest.mark.slow), False], ids=["script", "module"])
def test_an_edited_function_is_compiled_anew(main, tmp_path):
    first = run_script(tmp_path, 0.5, main=main)
    edited = run_script(tmp_path, 5.0, main=main)
    assert edited[0] == pytest.approx(10 * first[0])
    assert edited[1] != first[1]
    # What was compiled for pgfa's own classes is kept, and nothing that names the user's: others could not load it.
    kept = list((tmp_path / "cache").rglob("*.nb*"))
    assert kept and not any(b"my_model" in file.read_bytes() for file in kept)


def test_a_model_defined_in_a_script_can_be_sent_to_another_process(tmp_path):
    """As a cluster does; the functions of a script's own classes travel by value."""
    import cloudpickle

    *_, log_density = run_script(tmp_path, 0.5, str(tmp_path / "model.pickle"))
    model = cloudpickle.loads((tmp_path / "model.pickle").read_bytes())
    chain = pgfa.Chain(model, pgfa.IndianBuffet(), pgfa.Gibbs(), seed=1, update="features")
    chain.step(30)
    assert chain.log_density() == log_density


def test_labels_survive():
    import pandas as pd

    table = pd.DataFrame([[1, 2], [3, 4]], index=["first", "second"], columns=["u", "v"])
    fit = pgfa.sample(PoissonCounts(table), pgfa.BetaBernoulli(2), draws=3, warmup=2, chains=1, seed=1, **QUIET)
    assert fit["posterior"]["row"].values.tolist() == ["first", "second"]
    assert fit["posterior"]["V"].sel(column="v").shape == (1, 3, 2)


# --- bad models and bad input ---------------------------------------------------------------------------------------


class Strict(PoissonCounts):
    """Rules some counts out altogether."""

    @staticmethod
    def row_log_likelihood(data, parameters, n, predictor):
        return -np.inf if data.X[n, 0] > predictor[0] else 0.0


def test_an_impossible_row_is_an_error_and_not_a_silent_nan():
    chain = pgfa.Chain(Strict(np.full((3, 2), 5.0)), pgfa.BetaBernoulli(2), pgfa.Gibbs(), seed=1)
    with pytest.raises(ValueError, match=r"row_log_likelihood returned infinity or NaN: it must return a finite"):
        chain.step(1)


class Unfinished(pgfa.AdditiveModel):
    @staticmethod
    def row_log_likelihood(data, parameters, n, predictor):
        return 0.0


class WrongArguments(PoissonCounts):
    @staticmethod
    def feature_log_prior(data, parameters):
        return 0.0


class TakenName(PoissonCounts):
    positive = ("V",)

    def draw_shared(self, rng):
        return {"alpha": 1.0}


class UnknownPositive(PoissonCounts):
    positive = ("V", "baselines")


class FlatFeature(PoissonCounts):
    @property
    def feature_shapes(self):
        return {"V": ()}


ONE = np.ones((1, 1))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Unfinished(ONE), TypeError, "abstract"),
        (
            lambda: WrongArguments(ONE),
            ValueError,
            r"WrongArguments.feature_log_prior must be a @staticmethod of \(data, ",
        ),
        (lambda: TakenName(ONE).make_step_sizes(), ValueError, "'alpha': that name is taken"),
        (
            lambda: UnknownPositive(ONE).make_step_sizes(),
            ValueError,
            "positive names 'baselines', which is no parameter",
        ),
        (lambda: FlatFeature(ONE).make_step_sizes(), ValueError, "must give V the shape of a vector"),
        (lambda: PoissonCounts([1.0, 2.0]), ValueError, "X must be a matrix"),
        (lambda: PoissonCounts([[1.0, np.inf]]), ValueError, "X has inf in row 0, column 1"),
        (
            lambda: PoissonCounts(ONE, shape="two"),
            ValueError,
            "shape must be a number or an array of numbers, got 'two'",
        ),
        (lambda: Hierarchical(ONE, _hidden=1.0), ValueError, "may not begin with an underscore"),
        (lambda: PoissonCounts(ONE).with_data(np.ones((2, 3))), ValueError, "data must have 1 columns, got 3"),
        (
            lambda: PoissonCounts(ONE).random_walk(ONE, {"V": ONE}, None, ["W"]),
            ValueError,
            "names must be one of 'V', 'baseline', got 'W'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"V": np.ones((2, 1))}, "parameters must be V, baseline, got V"),
        ({"V": np.ones((2, 2)), "baseline": np.ones(1)}, r"parameters\['V'\] must have shape \(2, 1\), got \(2, 2\)"),
        ({"V": np.ones((2, 1)), "baseline": 1.0}, r"parameters\['baseline'\] must have shape \(1,\), got \(\)"),
        ({"V": -np.ones((2, 1)), "baseline": np.ones(1)}, r"parameters\['V'\] must be positive"),
    ],
)
def test_states_that_do_not_fit_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        pgfa.Chain(PoissonCounts(ONE), pgfa.BetaBernoulli(2), state=pgfa.State(np.ones((1, 2)), 1.0, parameters))


def test_models_with_the_same_functions_share_machine_code():
    class Renamed(PoissonCounts):
        pass

    assert type(Renamed(ONE).data) is type(PoissonCounts(ONE).data)
    assert type(Strict(ONE).data) is not type(PoissonCounts(ONE).data)
