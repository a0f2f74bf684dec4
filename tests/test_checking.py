"""check_model passes models that are right, and finds what is wrong with those that are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from poisson_counts import PoissonCounts
from test_documentation import ROOT, code_blocks

import pgfa
from pgfa.checking import suite
from pgfa.checking.report import Check, CheckFailed, ModelReport

BLANK = np.zeros((4, 2))
QUICK = ("structure", "rows")


def outcomes(model, *tests, **options):
    report = pgfa.check_model(model, tests=tests, progress=False, **options)
    print(report)  # shown where the test fails
    return {check.name: check for check in report.checks}


# --- models that are right ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "replicates"),
    [
        (PoissonCounts(BLANK), 500),
        pytest.param(PoissonCounts(BLANK), suite._QUICK.replicates, marks=pytest.mark.slow),
        pytest.param(
            pgfa.LinearGaussian(BLANK, intercept=True, tau_v_prior=(4.0, 3.0), tau_x_prior=(4.0, 2.0)),
            suite._QUICK.replicates,
            marks=pytest.mark.slow,
        ),
    ],
    ids=repr,
)
def test_models_that_are_right_pass(model, replicates, monkeypatch):
    """Every day with fewer replicates; models that are wrong are looked at with at least as many as users get."""
    monkeypatch.setattr(suite, "_QUICK", replace(suite._QUICK, replicates=replicates))
    report = pgfa.check_model(model, progress=False)
    assert report.passed, str(report)
    assert not report.skipped
    names = [check.name for check in report.checks]
    assert names[:3] == ["structure", "rows", "enumeration, Gibbs"]
    assert ("joint law, buffet, column moves" in names) == model.has_column_moves


@pytest.mark.slow
def test_the_better_update_of_the_documentation_is_exact():
    names = {}
    for block in code_blocks(ROOT / "docs" / "your-own-model.md"):
        if "class " in block:
            exec(compile(block, "your-own-model.md", "exec"), names)
    found = outcomes(names["FasterCounts"](BLANK), *QUICK, "joint law")
    assert {check.outcome for check in found.values()} == {"passed"}


@pytest.mark.slow
@pytest.mark.parametrize("model", [PoissonCounts(BLANK), pgfa.LinearGaussian(BLANK)], ids=repr)
def test_models_that_are_right_pass_thoroughly(model):
    report = pgfa.check_model(model, thorough=True, progress=False)
    assert report.passed, str(report)
    assert "enumeration, RowGibbs" in [check.name for check in report.checks]


def test_large_models_are_made_small():
    X = np.random.default_rng(0).poisson(3.0, size=(500, 2)).astype(float)
    X[3, 1] = np.nan
    found = outcomes(PoissonCounts(X), *QUICK, "enumeration")
    assert {check.outcome for check in found.values()} == {"passed"}


class Exposed(PoissonCounts):
    """Has a constant for each row, so that data of fewer rows do not fit it."""

    def sample_data(self, Z, parameters, rng):
        return rng.poisson(np.ones((self.num_rows, 1)) * (parameters["baseline"] + Z @ parameters["V"]))


def test_what_cannot_be_made_small_is_skipped_with_a_reason():
    report = pgfa.check_model(Exposed(np.zeros((40, 2))), progress=False)
    words = {check.name: check.words for check in report.skipped}
    assert "cannot be made smaller than 40 rows" in words["enumeration, Gibbs"]
    assert "give one with few" in words["joint law, buffet, all updates"]
    assert report.passed and "8 tests could not be run" in report.verdict


def test_statistics_of_the_user_are_looked_at(monkeypatch):
    monkeypatch.setattr(suite, "_QUICK", replace(suite._QUICK, replicates=50))
    seen = []

    def statistics(state, data):
        seen.append(data.shape)
        return {"constant": 1.0}

    outcomes(pgfa.LinearGaussian(BLANK), "joint law", statistics=statistics)
    assert set(seen) == {(4, 2)}


# --- models that are wrong ------------------------------------------------------------------------------------------


class WrongUpdate(PoissonCounts):
    """Walks on the logarithm of V and forgets what the change of variable costs."""

    def update_parameters(self, Z, parameters, rng, *, power=1.0, step_sizes=None, warmup=False):
        self.random_walk(Z, parameters, rng, ["baseline"], power=power, step_sizes=step_sizes, warmup=warmup)
        V = parameters["V"]
        for entry in np.ndindex(V.shape):
            before = self.log_prior(parameters) + power * self.log_likelihood(Z, parameters)
            old = V[entry]
            V[entry] *= np.exp(0.5 * rng.standard_normal())
            after = self.log_prior(parameters) + power * self.log_likelihood(Z, parameters)
            if np.log(rng.random()) >= after - before:
                V[entry] = old


@pytest.mark.parametrize("prior", ["finite", pytest.param("buffet", marks=pytest.mark.slow)])
def test_a_wrong_update_of_parameters_is_found(prior, monkeypatch):
    monkeypatch.setattr(suite, "_QUICK", replace(suite._QUICK, replicates=3000))  # enough for 1e-8 at any seed
    monkeypatch.setattr(suite, "_PRIORS", {prior: suite._PRIORS[prior]})
    found = outcomes(WrongUpdate(BLANK), *QUICK, "joint law")
    assert found["structure"].outcome == found["rows"].outcome == "passed"
    assert found[f"joint law, {prior}, features alone"].outcome == "passed"
    check = found[f"joint law, {prior}, all updates"]
    assert check.outcome == "failed" and check.p_value < 1e-8
    assert "look at update_parameters" in check.words


class IgnoresPower(PoissonCounts):
    def update_parameters(self, Z, parameters, rng, *, power=1.0, step_sizes=None, warmup=False):
        self.random_walk(Z, parameters, rng, step_sizes=step_sizes, warmup=warmup)


def test_an_update_that_ignores_the_power_of_the_likelihood_is_found():
    found = outcomes(IgnoresPower(np.full((4, 2), 20.0)), "prior")
    assert all(check.outcome == "failed" and check.p_value < 1e-8 for check in found.values())


class WrongData(PoissonCounts):
    """Draws counts that are more spread out than the likelihood has it."""

    def sample_data(self, Z, parameters, rng):
        mean = parameters["baseline"] + Z @ parameters["V"]
        return rng.poisson(rng.gamma(2.0, mean / 2.0))


@pytest.mark.slow
def test_data_that_are_not_drawn_from_the_likelihood_are_found():
    found = outcomes(WrongData(BLANK), *QUICK, "prior", "joint law")
    assert all(found[name].outcome == "passed" for name in ("structure", "rows", "prior, finite", "prior, buffet"))
    for prior in ("finite", "buffet"):
        check = found[f"joint law, {prior}, features alone"]
        assert check.outcome == "failed" and check.p_value < 1e-8
        assert "sample_data does not draw from the likelihood" in check.words


class WrongDraws(PoissonCounts):
    """Takes the rate of the features' prior for its scale."""

    @staticmethod
    def draw_feature(data, parameters, k, rng):
        for d in range(parameters.V.shape[1]):
            parameters.V[k, d] = rng.gamma(data.shape, data.rate)


class WrongBirths(WrongDraws):
    """Draws parameters as it should, but not those of new features."""

    def sample_parameters(self, rng, num_features):
        V = rng.gamma(self.data.shape, 1.0 / self.data.rate, size=(num_features, self.num_columns))
        return {"V": V, **self.draw_shared(rng)}


@pytest.mark.slow
def test_draws_that_do_not_fit_the_density_of_the_prior_are_found():
    found = outcomes(WrongDraws(BLANK), "prior", "joint law")
    for name in ("prior, buffet", "joint law, finite, all updates", "joint law, buffet, all updates"):
        assert found[name].outcome == "failed" and found[name].p_value < 1e-8
    assert "do not fit the draws of parameters" in found["prior, buffet"].words


@pytest.mark.slow
def test_new_features_from_the_wrong_prior_are_found():
    found = outcomes(WrongBirths(BLANK), *QUICK, "joint law")
    assert found["joint law, finite, features alone"].outcome == "passed"
    check = found["joint law, buffet, features alone"]
    assert check.outcome == "failed" and check.p_value < 1e-8
    assert "new features are not drawn from the prior" in check.words


class WrongRows(pgfa.LinearGaussian):
    """Tells the samplers of another noise than the likelihood has."""

    def rows(self, Z, parameters):
        return super().rows(Z, parameters | {"tau_x": 2.0 * parameters["tau_x"]})


def test_rows_that_do_not_fit_the_likelihood_are_found():
    report = pgfa.check_model(WrongRows(BLANK), progress=False)
    found = {check.name: check for check in report.checks}
    assert found["rows"].outcome == "failed"
    assert "by flipped its log likelihood changes by" in found["rows"].words
    assert {check.words for check in report.skipped} == {"rows must be right first"}


class NeverMoves(PoissonCounts):
    def update_parameters(self, Z, parameters, rng, *, power=1.0, step_sizes=None, warmup=False):
        parameters = {name: value.copy() for name, value in parameters.items()}
        self.random_walk(Z, parameters, rng, power=power)


class GlobalStream(PoissonCounts):
    def draw_shared(self, rng):
        return {"baseline": np.random.exponential(size=self.num_columns)}  # noqa: NPY002


class Unordered(PoissonCounts):
    """Cares for the order of features."""

    def log_prior(self, parameters):
        V = parameters["V"]
        return super().log_prior(parameters) + (float(V[0, 0]) if len(V) else 0.0)


class ForgetsMissing(PoissonCounts):
    @staticmethod
    def row_log_likelihood(data, parameters, n, predictor):
        return -np.sum((data.X[n] - predictor) ** 2)


class DoesNotCompile(PoissonCounts):
    @staticmethod
    def row_log_likelihood(data, parameters, n, predictor):
        return data.Y[n, 0]


class DrawsNothing(PoissonCounts):
    @staticmethod
    def draw_feature(data, parameters, k, rng):
        pass

    def sample_parameters(self, rng, num_features):
        return {"V": rng.gamma(2.0, 2.0, size=(num_features, self.num_columns)), **self.draw_shared(rng)}


class OtherRows(PoissonCounts):
    def sample_data(self, Z, parameters, rng):
        return np.zeros((7, self.num_columns))


@pytest.mark.parametrize(
    ("model", "test", "words"),
    [
        (NeverMoves(BLANK), "structure", "has not moved V, baseline in 50 calls"),
        (GlobalStream(BLANK), "structure", "all random numbers must come from rng"),
        (Unordered(BLANK), "structure", "log_prior depends on the order of the features"),
        (ForgetsMissing([[1.0, np.nan]]), "structure", "log_likelihood is nan for 0 features"),
        (DoesNotCompile(BLANK), "structure", "TypingError: Unknown attribute 'Y' of type DoesNotCompileData"),
        (OtherRows(BLANK), "structure", "has 7 rows instead of 4"),
        (DrawsNothing(BLANK), "rows", "the draw of a new feature changes none of its parameters"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, pgfa.AdditiveModel) else None,
)
def test_what_does_not_fit_together_is_found(model, test, words):
    found = outcomes(model, *QUICK)
    assert found[test].outcome == "failed"
    assert words in found[test].words


# --- report and arguments -------------------------------------------------------------------------------------------


def test_a_failure_can_be_raised():
    with pytest.raises(CheckFailed, match=r"(?s)structure +failed.*rows +skipped"):
        pgfa.check_model(NeverMoves(BLANK), tests=QUICK, raise_on_failure=True, progress=False)


def test_the_report_as_table_and_in_words():
    checks = (
        Check("structure", "passed", None, "fits"),
        Check("joint law", "failed", 1e-9, "drifts [away]"),
        Check("enumeration", "skipped", None, "too large"),
    )
    report = ModelReport("Model(3 rows)", checks, 1.5)
    assert not report.passed
    assert report.failed == checks[1:2] and report.skipped == checks[2:]
    assert report.to_frame().loc["joint law", "p_value"] == 1e-9
    text = str(report)
    assert "drifts [away]" in text and text.endswith("Model(3 rows) failed: joint law")
    assert repr(report) == "<ModelReport: Model(3 rows) failed: joint law>"
    assert ModelReport("M", checks[:1], 1.5).verdict == "M passed in 2 s"


def test_progress_goes_to_the_standard_error_stream(capsys):
    pgfa.check_model(pgfa.LinearGaussian(BLANK), tests="structure")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.endswith(": structure\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": BLANK}, "model must be a Model"),
        ({"tests": ("rows", "columns")}, "tests must be one of 'structure'"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        pgfa.check_model(**{"model": pgfa.LinearGaussian(BLANK), **arguments})
