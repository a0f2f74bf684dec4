"""One chain: seeds, what moves, states that do not fit, the paper's toy example."""

from __future__ import annotations

import numpy as np
import pytest

import pgfa

X = np.random.default_rng(0).normal(size=(30, 4))
MODEL = pgfa.LinearGaussian(X)
STATE = pgfa.State(
    Z=np.tile([1, 0], (30, 1)), alpha=2.0, parameters={"V": np.ones((2, 4)), "tau_v": 0.25, "tau_x": 25.0}
)
PRIORS = [pgfa.BetaBernoulli(2), pgfa.IndianBuffet()]


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
@pytest.mark.parametrize(
    "sampler",
    [
        pgfa.Gibbs(),
        pgfa.RowGibbs(),
        pgfa.ParticleGibbs(5),
        pgfa.DiscreteParticleFilter(5),
        pgfa.Mixture([(1, pgfa.Gibbs()), (1, pgfa.RowGibbs())]),
    ],
    ids=repr,
)
def test_the_same_seed_gives_the_same_draws(prior, sampler):
    first, second, other = (pgfa.Chain(MODEL, prior, sampler, seed=seed) for seed in (7, 7, 8))
    for chain in (first, second, other):
        chain.step(10)
    assert np.array_equal(first.state.Z, second.state.Z)
    assert np.array_equal(first.state.parameters["V"], second.state.parameters["V"])
    assert first.log_density() == second.log_density() != other.log_density()


def test_steps_add_up():
    first, second = (pgfa.Chain(MODEL, pgfa.IndianBuffet(), seed=3) for _ in range(2))
    first.step(6)
    for _ in range(3):
        second.step(2)
    assert first.log_density() == second.log_density()
    assert first.num_iterations == second.num_iterations == 6


@pytest.mark.parametrize("seed", [np.random.SeedSequence(5), np.random.default_rng(5), 5])
def test_seeds_of_every_kind(seed):
    chain = pgfa.Chain(MODEL, pgfa.BetaBernoulli(2), seed=seed)
    expected = pgfa.Chain(MODEL, pgfa.BetaBernoulli(2), seed=5)
    assert np.array_equal(chain.state.Z, expected.state.Z)


@pytest.mark.parametrize("what", ["features", "parameters", "concentration"])
@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_only_what_is_asked_for_moves(prior, what):
    chain = pgfa.Chain(MODEL, prior, seed=1, update=(what,), state=STATE)
    before = chain.state
    chain.step(5)
    after = chain.state
    assert np.array_equal(before.Z, after.Z) == (what != "features")
    assert (before.parameters["tau_x"] == after.parameters["tau_x"]) == (what != "parameters")
    assert (before.alpha == after.alpha) == (what != "concentration")


def test_the_state_handed_in_and_out_is_a_copy():
    given = STATE.copy()
    chain = pgfa.Chain(MODEL, pgfa.BetaBernoulli(2), seed=1, state=given)
    seen = chain.state
    chain.step(5)
    assert np.array_equal(given.Z, STATE.Z) and np.array_equal(seen.Z, STATE.Z)
    assert np.array_equal(given.parameters["V"], STATE.parameters["V"])
    chain.state.Z[:] = 1
    assert not chain.state.Z.all()
    assert chain.state.Z.dtype == np.uint8


def test_unused_columns_are_dropped_under_the_buffet():
    chain = pgfa.Chain(MODEL, pgfa.IndianBuffet(), seed=1, state=STATE)
    assert chain.state.Z.shape == (30, 1)
    assert chain.state.parameters["V"].shape == (1, 4)


def test_conditional_test_path_must_be_asked_for():
    """By hand it takes warmup=True; without it the draws are those of zeros."""

    def run(test_path, warmup):
        sampler = pgfa.DiscreteParticleFilter(2, test_path=test_path)
        chain = pgfa.Chain(MODEL, pgfa.BetaBernoulli(6, a=3.0), sampler, seed=2, update="features")
        chain.step(3, warmup=warmup)
        return chain.state.Z

    assert np.array_equal(run("conditional", False), run("zeros", False))
    assert np.array_equal(run("two-stage", False), run("zeros", False))
    assert not np.array_equal(run("conditional", True), run("zeros", True))


def test_step_sizes_adapt_in_warmup_only():
    chain = pgfa.Chain(MODEL, pgfa.BetaBernoulli(2), seed=2)
    start = chain.step_sizes["alpha"].value
    chain.step(50)
    assert chain.step_sizes["alpha"].value == start
    chain.step(50, warmup=True)
    tuned = chain.step_sizes["alpha"].value
    assert tuned != start
    chain.step(50)
    assert chain.step_sizes["alpha"].value == tuned
    assert 0.0 < chain.step_sizes["alpha"].acceptance_rate < 1.0


def test_singleton_proposals_are_counted():
    chain = pgfa.Chain(pgfa.LinearGaussian(X, singletons="collapsed"), pgfa.IndianBuffet(), seed=2)
    chain.step(100)
    assert 0 < chain.num_singletons_accepted < chain.num_singleton_proposals


@pytest.mark.parametrize("prior", [pgfa.IndianBuffet(), pgfa.BetaBernoulli(6)], ids=repr)
def test_rows_whose_singletons_came_or_went_are_counted(prior):
    chain = pgfa.Chain(pgfa.LinearGaussian(np.pad(X, ((0, 0), (0, 1))) * 4.0), prior, seed=2)
    chain.step(300)
    assert 0 < chain.num_singletons_accepted <= chain.num_singleton_proposals < 300 * X.shape[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Z": np.zeros((29, 2))}, r"state.Z must be a binary matrix with 30 rows.*got shape \(29, 2\)"),
        ({"Z": np.full((30, 2), 2)}, "state.Z has 2 in row 0, column 0: expected 0 or 1"),
        ({"Z": np.full((30, 2), "a")}, "state.Z must hold zeros and ones"),
        ({"Z": np.zeros((30, 3))}, "Z must have 2 columns"),
        ({"Z": np.zeros(30)}, "state.Z must be a binary matrix"),
        ({"alpha": -1.0}, "state.alpha must be a positive finite number"),
        ({"alpha": np.nan}, "state.alpha must be a finite number"),
        ({"parameters": {"V": np.ones((2, 4)), "tau_v": 1.0}}, "parameters must be V, tau_v, tau_x, got V, tau_v"),
        (
            {"parameters": {"V": np.ones((3, 4)), "tau_v": 1.0, "tau_x": 1.0}},
            r"parameters\['V'\] must have shape \(2, 4\)",
        ),
        (
            {"parameters": {"V": np.full((2, 4), np.nan), "tau_v": 1.0, "tau_x": 1.0}},
            r"parameters\['V'\] must hold finite",
        ),
        (
            {"parameters": {"V": np.ones((2, 4)), "tau_v": 0.0, "tau_x": 1.0}},
            r"parameters\['tau_v'\] must be a positive",
        ),
    ],
)
def test_states_that_do_not_fit(change, message):
    fields = {"Z": STATE.Z, "alpha": STATE.alpha, "parameters": STATE.parameters, **change}
    with pytest.raises(ValueError, match=message):
        pgfa.Chain(MODEL, pgfa.BetaBernoulli(2), seed=1, state=pgfa.State(**fields))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": X}, r"model must be a Model, got ndarray of shape .*; did you mean pgfa\.LinearGaussian\(X\)\?$"),
        ({"model": [[1.0, 2.0]]}, r"model must be a Model, got \[\[1.0, 2.0\]\]; did you mean"),
        ({"model": pgfa.LinearGaussian}, "model must be a Model, got <class"),
        ({"prior": "ibp"}, "prior must be a Prior"),
        ({"sampler": "dpf"}, "sampler must be a RowSampler"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"seed": 1.5}, "seed must be"),
        ({"update": ("feature",)}, "update must be one of 'features'"),
        ({"state": {"Z": 1}}, "state must be a pgfa.State"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        pgfa.Chain(**{"model": MODEL, "prior": pgfa.BetaBernoulli(2), "seed": 1, **arguments})


def test_bad_steps():
    chain = pgfa.Chain(MODEL, pgfa.BetaBernoulli(2), seed=1)
    with pytest.raises(ValueError, match="count must be a whole number"):
        chain.step(-1)
    with pytest.raises(ValueError, match="power must lie between 0 and 1"):
        chain.step(power=1.5)


def test_a_model_that_does_not_fit_the_state_is_refused():
    chain = pgfa.Chain(MODEL, pgfa.BetaBernoulli(2), seed=1)
    with pytest.raises(ValueError, match=r"state\.Z must be a binary matrix with 3 rows"):
        chain.model = pgfa.LinearGaussian(np.zeros((3, 4)))
    assert chain.model is MODEL


# --- the paper's toy example: two features alike ---------------------------------------------------------------------


def toy_chain(sampler):
    rng = np.random.default_rng(1)
    Z = np.repeat([[1, 0], [0, 1]], 50, axis=0)
    V = np.full((2, 1), 100.0)
    X = Z @ V + rng.normal(size=(100, 1)) / np.sqrt(25.0)
    state = pgfa.State(Z, 1.0, {"V": V, "tau_v": 0.25, "tau_x": 25.0})
    prior = pgfa.BetaBernoulli(2, a=0.5, b=1.0)
    return pgfa.Chain(pgfa.LinearGaussian(X), prior, sampler, seed=2, update="features", state=state)


def test_toy_gibbs_never_leaves_fifty_fifty():
    chain = toy_chain(pgfa.Gibbs())
    for _ in range(100):
        chain.step(10)
        assert chain.state.Z.sum(axis=0).tolist() == [50, 50]


@pytest.mark.parametrize("sampler", [pgfa.RowGibbs(), pgfa.DiscreteParticleFilter()], ids=repr)
def test_toy_row_samplers_collect_every_row_in_one_feature(sampler):
    chain = toy_chain(sampler)
    before = chain.log_density()
    for _ in range(2000):
        chain.step()
        if sorted(chain.state.Z.sum(axis=0)) == [0, 100]:
            break
    assert sorted(chain.state.Z.sum(axis=0)) == [0, 100]
    assert chain.num_iterations < 1000
    assert chain.log_density() > before + 50
