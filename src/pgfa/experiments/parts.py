"""The parts of a chain made from a definition: data, start, model, prior, sampler. The same for every sampler."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

import pgfa
from pgfa import checks
from pgfa.experiments.definition import DefinitionError, Entry, Experiment
from pgfa.inference.chain import Chain, ColumnMoves
from pgfa.models.base import Model
from pgfa.models.linear_gaussian import LinearGaussian
from pgfa.priors.base import Prior
from pgfa.samplers.base import RowSampler
from pgfa.samplers.column_moves import default_column_moves
from pgfa.simulation import Simulation, simulate, simulator
from pgfa.specs import make_prior, make_sampler
from pgfa.state import State

# What the seeds are for; each stream of random numbers is its own branch below the seed of the experiment.
_DATA, _START, _CHAIN = range(3)


@simulator("equal-features")
def simulate_equal_features(
    prior: Prior,
    rng: np.random.Generator,
    *,
    num_rows: int,
    num_columns: int = 1,
    value: float = 100.0,
    tau_v: float = 0.25,
    tau_x: float = 25.0,
    alpha: float = 1.0,
) -> Simulation:
    """Linear Gaussian data of features that are all the same, each owned by an equal share of the rows and by no other.

    Rows may use one feature as well as another, so a prior that likes popular features wants all rows in one of them.
    """
    num_rows = checks.whole("num_rows", num_rows, at_least=1)
    num_features = getattr(prior, "num_features", None)
    if num_features is None:
        raise ValueError("equal features need a prior with a given number of features")
    Z = np.eye(num_features, dtype=np.uint8)[np.arange(num_rows) * num_features // num_rows]
    V = np.full((num_features, checks.whole("num_columns", num_columns, at_least=1)), checks.real("value", value))
    parameters = {"V": V, "tau_v": checks.positive("tau_v", tau_v), "tau_x": checks.positive("tau_x", tau_x)}
    state = State(Z, checks.positive("alpha", alpha), parameters)
    complete = LinearGaussian(np.zeros((num_rows, V.shape[1]))).sample_data(Z, parameters, rng)
    return Simulation(complete, complete, state, LinearGaussian(complete))


def seed_of(experiment: Experiment, *branch: int) -> np.random.SeedSequence:
    """The random stream of a branch."""
    return np.random.SeedSequence(experiment.seed, spawn_key=branch)


def chain_seed(experiment: Experiment, label: str, data: int, start: int, restart: int) -> np.random.SeedSequence:
    """The random stream of a chain; it does not depend on which other samplers there are."""
    return seed_of(experiment, _CHAIN, zlib.crc32(label.encode()), data, start, restart)


def prior_of(experiment: Experiment, description: dict[str, Any], table: str) -> Prior:
    """The prior that a table describes."""
    try:
        return make_prior(description)
    except KeyError as error:
        missing = error.args[0]
        what = "needs the key 'name'" if missing == "name" else f"has no prior {missing!r}"
        raise DefinitionError(f"{experiment.source}: [{table}] {what}: BetaBernoulli or IndianBuffet") from None
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{experiment.source}: [{table}] {_plain(error)}") from None


def simulate_data(experiment: Experiment, index: int) -> Simulation:
    """One of the data sets, with its truth."""
    sizes = dict(experiment.data)
    prior = prior_of(experiment, experiment.data_prior, "data.prior")
    try:
        return simulate(sizes.pop("simulation"), prior, rng=seed_of(experiment, _DATA, index), **sizes)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{experiment.source}: [data] {error}") from None


def draw_start(experiment: Experiment, index: int, truth: Simulation) -> State:
    """One of the sets of initial values: the truth, or a draw from the prior with the hyper-parameters of [initial].

    The draw is the state of a simulation with these hyper-parameters; its data are thrown away. It does not depend on
    the data set, as in the paper every set of initial values is used for every data set.
    """
    overrides = dict(experiment.initial)
    if overrides.pop("from") == "truth":
        return truth.state.copy()
    sizes = experiment.data | overrides
    prior = prior_of(experiment, experiment.prior, "prior")
    try:
        return simulate(sizes.pop("simulation"), prior, rng=seed_of(experiment, _START, index), **sizes).state
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{experiment.source}: [initial] {error}") from None


def make_model(experiment: Experiment, entry: Entry, truth: Simulation) -> Model:
    """The model of the simulation with the settings of [model] and, for the paper's samplers, [paper_moves]."""
    settings = experiment.model | (experiment.paper_moves if entry.paper_moves else {})
    try:
        model: Model = type(truth.model)(truth.data, **settings)  # type: ignore[call-arg]
    except (TypeError, ValueError) as error:
        table = "model] or [paper_moves" if experiment.paper_moves else "model"
        raise DefinitionError(f"{experiment.source}: [{table}] {_plain(error)}") from None
    return model


def make_chain(experiment: Experiment, entry: Entry, model: Model, start: State | None, seed: Any) -> Chain:
    """A chain of this sampler from these initial values, or from a draw of the prior."""
    prior = prior_of(experiment, experiment.prior, "prior")
    moves: ColumnMoves = default_column_moves(model, prior) if entry.column_moves else False
    try:
        sampler: RowSampler | None = None
        if entry.name != "default":
            sampler = make_sampler({"name": entry.name, **entry.settings})
        elif entry.settings:
            raise ValueError(f"name 'default' takes no settings, got {', '.join(entry.settings)}")
        return Chain(
            model, prior, sampler, seed=seed, update=experiment.update, column_moves=moves, state=start
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{experiment.source}: [[samplers]] {entry.label!r}: {_plain(error)}") from None


def check_parts(experiment: Experiment) -> None:
    """Make every part once, so that what is wrong with a definition is known before anything runs."""
    truth = simulate_data(experiment, 0)
    start = draw_start(experiment, 0, truth)
    for entry in experiment.samplers:
        model = make_model(experiment, entry, truth)
        make_chain(experiment, entry, model, start, 0)
        score_all(experiment, model, truth.state, truth)


def score_all(experiment: Experiment, model: Model, state: State, truth: Simulation) -> dict[str, float]:
    """The metrics of the experiment for one state."""
    from pgfa.experiments.scores import SCORES

    try:
        return {name: SCORES[name].compute(model, state, truth) for name in experiment.metrics}
    except AttributeError:
        kind = type(model).__name__
        raise DefinitionError(f"{experiment.source}: metrics {list(experiment.metrics)} are not for {kind}") from None


def versions() -> dict[str, str]:
    """What the numbers depend on beside the definition."""
    import platform

    import numba

    return {
        "pgfa": pgfa.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
    }


def _plain(error: Exception) -> str:
    """What Python says of a wrong keyword, without the name of the function that took it."""
    return str(error).replace(".__init__() got an unexpected keyword argument", " has no setting")
