"""Do the parts of a model fit together? Deterministic tests of its structure and of its row view."""

from __future__ import annotations

import numpy as np

from pgfa._compile import compiled
from pgfa.inference.chain import Chain
from pgfa.models.base import Model
from pgfa.priors import IndianBuffet
from pgfa.rows import begin_row, draw_feature, end_row, flip, flipped, spawn, start
from pgfa.samplers import Gibbs
from pgfa.state import State, select_features

#: Log likelihoods that should agree may differ by this much, relative to their size.
_TOLERANCE = 1e-7
#: Rows that are looked at, at most.
_MOST_ROWS = 20
#: An update that has not moved a parameter in so many calls never will.
_PATIENCE = 50


class Problem(Exception):
    """Something that is wrong with a model, in plain words."""


def draw_state(model: Model, rng: np.random.Generator, num_features: int) -> State:
    """Parameters from their prior, and a matrix half of whose entries are ones."""
    Z = rng.integers(0, 2, size=(model.num_rows, num_features), dtype=np.uint8)
    return State(Z, 1.0, model.sample_parameters(rng, num_features))


def simulate_data(model: Model, state: State, rng: np.random.Generator) -> Model:
    """The model for data drawn from this state."""
    return model.with_data(model.sample_data(state.Z, state.parameters, rng))


def _agree(first: float, second: float, size: float = 0.0) -> bool:
    return bool(abs(first - second) <= _TOLERANCE * (1.0 + max(abs(first), abs(second), size)))


# --- structure ------------------------------------------------------------------------------------------------------


def check_draws(model: Model, state: State) -> None:
    """Parameters drawn from the prior have the right shapes and finite densities."""
    num_features = state.num_features
    checked = model.check_parameters(state.parameters, num_features)
    for name, value in state.parameters.items():
        if name not in checked or not np.array_equal(checked[name], value):
            raise Problem(f"check_parameters changes {name!r} as drawn by sample_parameters")
    for name, axes in model.feature_axes.items():
        if name not in state.parameters:
            raise Problem(f"feature_axes names {name!r}, which sample_parameters does not draw")
        shape = np.shape(state.parameters[name])
        if any(axis >= len(shape) or shape[axis] != num_features for axis in axes):
            raise Problem(f"{name!r} has shape {shape}, but by feature_axes its axes {axes} have length {num_features}")
    for density, value in (
        ("log_prior", model.log_prior(state.parameters)),
        ("log_likelihood", model.log_likelihood(state.Z, state.parameters)),
    ):
        if not np.isfinite(value):
            raise Problem(f"{density} is {value} for {num_features} features drawn from the prior: it must be finite")


def check_order(model: Model, state: State) -> None:
    """Densities do not depend on the order of the features."""
    other = select_features(state, model.feature_axes, np.arange(state.num_features)[::-1])
    log_prior = [model.log_prior(s.parameters) for s in (state, other)]
    log_likelihood = [model.log_likelihood(s.Z, s.parameters) for s in (state, other)]
    for density, (first, second) in (("log_prior", log_prior), ("log_likelihood", log_likelihood)):
        if not _agree(first, second):
            raise Problem(f"{density} depends on the order of the features: is a parameter missing in feature_axes?")


def check_update(model: Model, state: State, rng: np.random.Generator) -> None:
    """Updates move every parameter, in place, and nothing else."""
    state = state.copy()
    before, step_sizes = state.copy(), model.make_step_sizes()
    still = set(before.parameters)
    for _ in range(_PATIENCE):
        model.update_parameters(state.Z, state.parameters, rng, step_sizes=step_sizes)
        if set(state.parameters) != set(before.parameters):
            raise Problem("update_parameters adds or removes parameters")
        still = {name for name in still if np.array_equal(state.parameters[name], before.parameters[name])}
    if not np.array_equal(state.Z, before.Z):
        raise Problem("update_parameters changes Z")
    if still:
        raise Problem(
            f"update_parameters has not moved {', '.join(sorted(still))} in {_PATIENCE} calls: "
            "it must change the parameters in place, and what never moves is a constant"
        )
    model.check_parameters(state.parameters, state.num_features)


def check_seeds(model: Model) -> None:
    """The same seed gives the same chain."""
    ends = []
    for _ in range(2):
        chain = Chain(model, IndianBuffet(), Gibbs(), seed=1)
        chain.step(3)
        ends.append(chain.state)
    first, second = ends
    if not np.array_equal(first.Z, second.Z) or any(
        not np.array_equal(value, second.parameters[name]) for name, value in first.parameters.items()
    ):
        raise Problem("the same seed does not give the same draws: all random numbers must come from rng")


# --- rows -----------------------------------------------------------------------------------------------------------

#: How `_probe` finds the log likelihood of a row, and which of two features are flipped then.
_WAYS = (
    ("start", ()),
    ("flipped", (1,)),
    ("spawn, then flipped", (0,)),
    ("spawn, then flipped", (0, 1)),
    ("flip, then flipped", ()),
    ("start", (1,)),
)


@compiled
def _probe(rows, n, z, features, block, children, out):  # type: ignore[no-untyped-def]
    """Write the log likelihoods of row n found by each of `_WAYS`."""
    log_lik = np.empty(2)
    found = np.empty(2)
    j, k = features
    sign = 1.0 - 2.0 * z[k]
    begin_row(rows, n)
    log_lik[0] = start(rows, n, z, block)
    out[0] = log_lik[0]
    flipped(rows, n, k, sign, block, log_lik, 1, found)
    out[1] = found[0]
    log_lik[1] = found[0]
    spawn(rows, n, k, sign, block, np.array([0, 0]), np.array([0, 1]), 2, children)
    flipped(rows, n, j, 1.0 - 2.0 * z[j], children, log_lik, 2, found)
    out[2] = found[0]
    out[3] = found[1]
    flip(rows, n, k, sign, block)
    log_lik[0] = log_lik[1]
    flipped(rows, n, k, -sign, block, log_lik, 1, found)
    out[4] = found[0]
    z[k] = 1 - z[k]
    out[5] = start(rows, n, z, block)
    z[k] = 1 - z[k]


@compiled
def _end_row(rows, n, z):  # type: ignore[no-untyped-def]
    end_row(rows, n, z)


def check_rows(model: Model, state: State, rng: np.random.Generator) -> None:
    """Whatever the way to a feature vector, the row log likelihood changes as that of the whole data does.

    Rows move one after the other, as in a sweep, so that views which remember Z are tested as well.
    """
    Z, parameters = state.Z.copy(), state.parameters
    rows = model.rows(Z, parameters)
    found = np.empty(len(_WAYS))
    for n in np.sort(rng.permutation(model.num_rows)[:_MOST_ROWS]).tolist():
        features = rng.choice(Z.shape[1], size=2, replace=False)
        _probe(rows, n, Z[n], features, rows.make_block(1), rows.make_block(2), found)
        expected = np.empty(len(_WAYS))
        for i, (_, flips) in enumerate(_WAYS):
            other = Z.copy()
            other[n, features[list(flips)]] ^= 1
            expected[i] = model.log_likelihood(other, parameters)
        size = float(np.max(np.abs(expected)))
        for (way, _), mine, whole in zip(_WAYS, found - found[0], expected - expected[0]):
            if not _agree(mine, whole, size):
                raise Problem(
                    f"row {n}: by {way} its log likelihood changes by {mine:.6g}, that of the whole data by {whole:.6g}"
                )
        if rng.random() < 0.5:
            Z[n, features[1]] ^= 1
        _end_row(rows, n, Z[n])


@compiled
def _probe_new_feature(rows, n, z, k, block, rng, out):  # type: ignore[no-untyped-def]
    """Draw feature k anew and write the log likelihoods of row n without and with it."""
    draw_feature(rows, k, rng)
    begin_row(rows, n)
    for bit in range(2):
        z[k] = bit
        out[bit] = start(rows, n, z, block)
    z[k] = 0


def check_new_feature(model: Model, state: State, rng: np.random.Generator) -> None:
    """The draw of a feature that nobody owns changes its parameters, no others, and is noticed by the rows."""
    state = state.copy()
    Z, before = state.Z, state.copy()
    k, n = int(rng.integers(Z.shape[1])), int(rng.integers(model.num_rows))
    Z[:, k] = 0
    rows = model.rows(Z, state.parameters)
    found = np.empty(2)
    _probe_new_feature(rows, n, Z[n], k, rows.make_block(1), rng, found)
    others = np.delete(np.arange(Z.shape[1]), k)
    kept, now = (select_features(s, model.feature_axes, others).parameters for s in (before, state))
    for name, value in kept.items():
        if not np.array_equal(value, now[name]):
            raise Problem(f"the draw of one new feature changes {name!r} of other features")
    if all(np.array_equal(before.parameters[name], state.parameters[name]) for name in model.feature_axes):
        raise Problem("the draw of a new feature changes none of its parameters")
    with_it = Z.copy()
    with_it[n, k] = 1
    without, whole = (model.log_likelihood(matrix, state.parameters) for matrix in (Z, with_it))
    if not _agree(found[1] - found[0], whole - without, max(abs(without), abs(whole))):
        raise Problem(
            f"a new feature changes the log likelihood of row {n} by {found[1] - found[0]:.6g}, "
            f"that of the whole data by {whole - without:.6g}"
        )
