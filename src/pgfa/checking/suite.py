"""Is a model right? Its parts are held against each other, and its chains against laws that are known exactly."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa.checking import consistency
from pgfa.checking.consistency import Problem, draw_state, simulate_data
from pgfa.checking.exactness import (
    SIGNIFICANCE,
    Statistics,
    chi_square_p_value,
    count_ends_of_any_model,
    enumerate_posterior,
    joint_p_values,
)
from pgfa.checking.report import Check, CheckFailed, ModelReport
from pgfa.inference.chain import UPDATES
from pgfa.models.base import Model
from pgfa.priors import BetaBernoulli, IndianBuffet, Prior
from pgfa.samplers import ColumnBlock, DiscreteParticleFilter, Gibbs, Mixture, ParticleGibbs, RowGibbs, RowSampler
from pgfa.state import State, select_features

TESTS = ("structure", "rows", "enumeration", "prior", "joint law")

#: Rows and features of the small problems on which chains are run.
_ROWS, _FEATURES = 4, 3
#: Rows of a problem all of whose matrices are enumerated, and how many entries of Z such a problem may have.
_ENUMERATED_ROWS, _MOST_ENUMERATED = 2, 12
#: A model that cannot be made smaller and has more rows than this would take too long.
_MOST_ROWS = 30

_PRIORS = {
    "finite": BetaBernoulli(_FEATURES, alpha_shape=2.0),
    "buffet": IndianBuffet(alpha_shape=2.0, alpha_rate=2.0),
}
_COLUMN_MOVES = (ColumnBlock(1, "all", num_particles=3), ColumnBlock(2, "users", num_particles=3))


@dataclass(frozen=True)
class _Effort:
    """How much is run."""

    samplers: tuple[RowSampler, ...]
    trials: int
    replicates: int
    rounds: int
    enumerated_replicates: int


_QUICK = _Effort((Gibbs(), DiscreteParticleFilter(3)), 5, 1500, 6, 10_000)
_THOROUGH = _Effort((Gibbs(), RowGibbs(), ParticleGibbs(3), DiscreteParticleFilter(3)), 30, 8000, 15, 60_000)


def check_model(
    model: Model,
    *,
    tests: Iterable[str] = TESTS,
    thorough: bool = False,
    seed: int = 0,
    statistics: Statistics | None = None,
    raise_on_failure: bool = False,
    progress: bool = True,
) -> ModelReport:
    """Put a model, one of pgfa's or your own, through the tests that pgfa's samplers and models have to pass.

    - *structure*: what is drawn from the prior fits the model, densities are finite and do not depend on the order of
      the features, updates move every parameter and nothing else.
    - *rows*: what the samplers are told of single rows agrees with the likelihood of the whole.
    - *enumeration*: with two rows, samplers visit all feature matrices as often as the enumerated posterior says.
    - *prior*: with the likelihood turned off, chains keep the prior.
    - *joint law*: where data are drawn anew after every iteration, state and data keep their joint law [1]_. This is
      the test that finds a wrong update of the parameters, data drawn from another likelihood than the one that is
      fitted, or new features drawn from another prior.

    Parameters
    ----------
    model
        The model. Its data matter little; chains are run on small data sets drawn from it. Where it cannot be made
        smaller by ``model.with_data(model.sample_data(...))``, give one with few rows.
    tests
        Which of the above to run. Structure and rows take seconds, once everything is compiled.
    thorough
        Run all samplers, and for much longer: many minutes instead of about one.
    seed
        Seed of all tests.
    statistics
        Function of a `State` and a data set that returns further numbers by name whose law is to be tested.
    raise_on_failure
        Raise `CheckFailed` where a test fails.
    progress
        Say on the standard error stream what is being tested.

    Returns
    -------
    ModelReport
        Prints as a table; `passed` says whether no test failed. A model that is right fails with a probability of about
        one in a thousand. One that is wrong by little may pass: `thorough` finds less.

    References
    ----------
    .. [1] J. Geweke (2004). Getting it right: joint distribution tests of posterior simulators. JASA 99.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> model = pgfa.LinearGaussian(np.zeros((4, 2)))
    >>> report = pgfa.check_model(model, tests=("structure", "rows"), progress=False)
    >>> report.passed
    True
    """
    if not isinstance(model, Model):
        raise ValueError(f"model must be a Model, got {model!r}")
    chosen = {checks.one_of("tests", test, TESTS) for test in ((tests,) if isinstance(tests, str) else tests)}
    effort = _THOROUGH if thorough else _QUICK
    run = _Run(model, chosen, effort, checks.whole("seed", seed, at_least=0), statistics, bool(progress))
    report = run.report()
    if raise_on_failure and not report.passed:
        raise CheckFailed(f"\n{report}")
    return report


class _Skip(Exception):
    """Why something cannot be tested."""


@dataclass
class _Run:
    """All tests of one model, in the order of what they rely on."""

    model: Model
    chosen: set[str]
    effort: _Effort
    seed: int
    statistics: Statistics | None
    progress: bool

    def report(self) -> ModelReport:
        began = time.perf_counter()
        self.checks: list[Check] = []
        self._do("structure", self._structure, "draws fit, densities are finite, every parameter moves")
        self._do("rows", self._rows, "what samplers are told of single rows agrees with the likelihood")
        for sampler in self.effort.samplers:
            name = f"enumeration, {type(sampler).__name__}"
            self._do(name, partial(self._enumeration, sampler), "matrices are visited as often as they should be")
        for name, prior in _PRIORS.items():
            test = partial(self._joint, prior, UPDATES, 0.0)
            self._do(f"prior, {name}", test, "with the likelihood turned off, chains keep the prior")
        for name, prior in _PRIORS.items():
            for what, update in (("features alone", ("features",)), ("all updates", UPDATES)):
                test = partial(self._joint, prior, update, 1.0)
                self._do(f"joint law, {name}, {what}", test, "state and data keep their joint law")
            if self.model.has_column_moves:
                test = partial(self._joint, prior, ("features",), 1.0, column_moves=_COLUMN_MOVES)
                self._do(f"joint law, {name}, column moves", test, "state and data keep their joint law")
        return ModelReport(repr(self.model), tuple(self.checks), time.perf_counter() - began)

    def _do(self, name: str, test: Callable[[], tuple[float, str] | None], claim: str) -> None:
        """Run one test and take down what came of it; nothing that the model's own code raises gets out."""
        if name.split(",")[0] not in self.chosen:
            return
        broken = next((check.name for check in self.checks if check.outcome == "failed"), "")
        if broken in ("structure", "rows"):
            self.checks.append(Check(name, "skipped", None, f"{broken} must be right first"))
            return
        if self.progress:
            print(f"checking {self.model!r}: {name}", file=sys.stderr, flush=True)
        try:
            p_value, complaint = test() or (None, "")
        except _Skip as reason:
            self.checks.append(Check(name, "skipped", None, str(reason)))
        except Problem as problem:
            self.checks.append(Check(name, "failed", None, str(problem)))
        except Exception as error:
            self.checks.append(Check(name, "failed", None, _in_one_line(error)))
        else:
            failed = p_value is not None and p_value < SIGNIFICANCE
            self.checks.append(Check(name, "failed" if failed else "passed", p_value, complaint if failed else claim))

    def _structure(self) -> None:
        rng = np.random.default_rng(self.seed)
        for num_features in (0, 1, _FEATURES):
            state = draw_state(self.model, rng, num_features)
            consistency.check_draws(self.model, state)
        consistency.check_order(self.model, state)
        small = self._small(_ROWS)
        state = draw_state(small, rng, _FEATURES)
        simulated = simulate_data(small, state, rng)
        if simulated.num_rows != small.num_rows:
            raise Problem(f"with_data(sample_data(...)) has {simulated.num_rows} rows instead of {small.num_rows}")
        consistency.check_draws(simulated, state)
        consistency.check_update(simulated, state, rng)
        consistency.check_seeds(simulated)

    def _rows(self) -> None:
        rng = np.random.default_rng(self.seed + 1)
        consistency.check_rows(self.model, draw_state(self.model, rng, _FEATURES), rng)
        small = self._small(_ROWS)
        for _ in range(self.effort.trials):
            state = draw_state(small, rng, _FEATURES)
            simulated = simulate_data(small, state, rng)
            consistency.check_rows(simulated, state, rng)
            consistency.check_new_feature(simulated, state, rng)

    def _enumeration(self, sampler: RowSampler) -> tuple[float, str]:
        small = self._small(_ENUMERATED_ROWS)
        if small.num_rows * _FEATURES > _MOST_ENUMERATED:
            raise _Skip(f"the model cannot be made smaller than {small.num_rows} rows, too many to enumerate")
        rng = np.random.default_rng(self.seed + 2)
        prior = BetaBernoulli(_FEATURES)
        problems = []
        for _ in range(20):
            state = draw_state(small, rng, _FEATURES)
            simulated = simulate_data(small, state, rng)
            posterior = enumerate_posterior(simulated, prior, state.parameters, 2.0, _FEATURES)
            problems.append((simulated, state.parameters, posterior))
        # The most spread out posterior shows most; a single possible matrix would show nothing.
        simulated, parameters, posterior = min(problems, key=lambda problem: float(np.sum(problem[2] ** 2)))
        counts = count_ends_of_any_model(
            simulated, prior, sampler, parameters, 2.0, _FEATURES, posterior,
            num_replicates=self.effort.enumerated_replicates, seed=self.seed + 3,
        )  # fmt: skip
        return chi_square_p_value(counts, posterior), "matrices are not visited as often as their posterior says"

    def _joint(self, prior: Prior, update: tuple[str, ...], power: float, **options: Any) -> tuple[float, str]:
        small = self._small(_ROWS)
        if small.num_rows > _MOST_ROWS:
            raise _Skip(f"{small.num_rows} rows are too many, and the model cannot be made smaller: give one with few")

        def statistics(state: State, data: Any) -> dict[str, float]:
            values = _statistics(small, state, data if power else None)
            return values | (self.statistics(state, data) if self.statistics is not None and power else {})

        p_values = joint_p_values(
            small, prior, Mixture([(1.0, sampler) for sampler in self.effort.samplers]), statistics,
            num_replicates=self.effort.replicates, num_rounds=self.effort.rounds, seed=self.seed + 4,
            update=update, power=power, **options,
        )  # fmt: skip
        worst = min(p_values, key=lambda name: p_values[name])
        return min(1.0, len(p_values) * p_values[worst]), f"{worst} drifts away: {_suspects(prior, update, power)}"

    def _small(self, num_rows: int) -> Model:
        """The model for data of few rows, or as it is where it cannot be made smaller."""
        if self.model.num_rows <= num_rows:
            return self.model
        rng = np.random.default_rng(self.seed)
        Z = np.ones((num_rows, 1), dtype=np.uint8)
        try:
            small = self.model.with_data(self.model.sample_data(Z, self.model.sample_parameters(rng, 1), rng))
            small.sample_data(Z, small.sample_parameters(rng, 1), rng)
        except Exception:
            return self.model
        return small if small.num_rows == num_rows else self.model


def _suspects(prior: Prior, update: tuple[str, ...], power: float) -> str:
    """Where to look first."""
    if power == 0.0:
        more = " and of new features" if prior.grows else ""
        return f"update_parameters and log_prior do not fit the draws of parameters{more}"
    if update == UPDATES:
        return "if features alone pass, look at update_parameters"
    more = ", or new features are not drawn from the prior" if prior.grows else ""
    return f"sample_data does not draw from the likelihood{more}"


def _in_one_line(error: Exception) -> str:
    """An error in few words; those of the compiler run to pages, and what matters follows the last such line."""
    text = str(error).rpartition("raised a specific error:")[2]
    lines = [line.strip() for line in text.splitlines() if line.strip(" ^")]
    telling = [line for line in lines if "Failed in nopython mode" not in line and not line.startswith("During:")]
    return f"{type(error).__name__}: {' | '.join(telling[:4])}"


def _statistics(model: Model, state: State, data: Any) -> dict[str, float]:
    """Numbers that do not depend on the order of features; without data, those of the state alone."""
    used = np.flatnonzero(state.Z.any(axis=0))
    values = {
        "alpha": state.alpha,
        "number of used features": float(used.size),
        "number of ones in Z": float(state.Z.sum(dtype=np.int64)),
        "features shared with the first row": float((state.Z.astype(np.int64) @ state.Z[0]).sum()),
        "log prior": model.log_prior(state.parameters),
    }
    in_use = select_features(state, model.feature_axes, used).parameters
    for name, value in state.parameters.items():
        if name in model.feature_axes:
            values[f"sum of {name} in use"] = float(np.sum(in_use[name]))
            values[f"squares of {name} in use"] = float(np.sum(np.square(in_use[name])))
        elif np.ndim(value):
            values[f"first of {name}"] = float(np.ravel(value)[0])
        values[f"sum of {name}"] = float(np.sum(value))
    if data is not None:
        values["log likelihood"] = model.with_data(data).log_likelihood(state.Z, state.parameters)
        numbers = _numbers(data)
        if numbers.size:
            values["first of the data"] = float(numbers[0])
            values["sum of the data"] = float(np.sum(numbers))
            values["squares of the data"] = float(np.sum(np.square(numbers)))
    return values


def _numbers(data: Any) -> NDArray[np.float64]:
    """The finite numbers in a data set; none where it is not made of numbers."""
    try:
        numbers = np.asarray(data.select_dtypes("number") if hasattr(data, "select_dtypes") else data, dtype=float)
    except (TypeError, ValueError):
        return np.empty(0)
    return numbers[np.isfinite(numbers)]
