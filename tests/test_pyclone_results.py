"""What the PyClone model hands back: tables with the user's ids, simulated data, and runs that can be resumed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pgfa
from pgfa.models.pyclone_summary import align

QUIET = {"progress": False, "check": False}


@pytest.fixture(scope="module")
def truth():
    return pgfa.simulate(
        "pyclone", pgfa.BetaBernoulli(3, a=1.0), rng=4, num_rows=30, num_samples=3, missing=0.1, mean_depth=500.0
    )


@pytest.fixture(scope="module")
def fit(truth):
    return pgfa.sample(truth.model, pgfa.BetaBernoulli(3), draws=40, warmup=80, chains=2, seed=1, **QUIET)


def states_by_hand(num_draws=50, *, seed=1, swap=True):
    """Draws of four columns, two of which are the same and one of which hardly any cell has, in random order."""
    rng = np.random.default_rng(seed)
    Z = np.array([[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 1, 0], [0, 0, 1, 1]], dtype=np.uint8)
    states = []
    for _ in range(num_draws):
        F = np.array([[0.3, 0.1], [0.2, 0.3], [0.495, 0.595], [0.005, 0.005]])
        V = F * rng.gamma(5.0, size=2) * np.exp(0.01 * rng.standard_normal((4, 2)))
        order = rng.permutation(4) if swap else np.arange(4)
        states.append(pgfa.State(Z[:, order], 1.0, {"V": V[order]}))
    return states


def model_for(num_rows=5):
    table = [(f"mutation {n}", m, 50, 10, 1, 1, 2) for n in range(num_rows) for m in (7, 3)]
    names = ["mutation_id", "sample_id", "ref_counts", "alt_counts", "major_cn", "minor_cn", "normal_cn"]
    return pgfa.PyClone(pd.DataFrame(table, columns=names))


# --- summaries --------------------------------------------------------------------------------------------------------


def test_labels_that_switch_are_put_right():
    Z, F = align(states_by_hand())
    assert np.all(Z[0] == Z)
    # Which of two columns with the same mutations is which, nobody can say; their sum is what it was.
    same = [k for k in range(4) if Z[0, :, k].tolist() == [1, 1, 0, 1, 0]]
    assert len(same) == 2
    assert F[:, same].sum(axis=1) == pytest.approx(np.broadcast_to([0.5, 0.4], (50, 2)), abs=0.02)


def test_populations_with_the_same_mutations_are_merged_and_the_summary_says_so():
    model = model_for()
    summary = model.summarise(states_by_hand())
    assert summary.allocation.index.tolist() == model.mutation_ids
    assert sorted(map(tuple, summary.Z.T)) == [(0, 0, 1, 1, 1), (1, 1, 0, 1, 0)]
    assert "populations that carry the same mutations merged: 2 into one each" in summary.notes
    assert any(note.startswith("1 population below 2.0% of every sample left out") for note in summary.notes)

    populations = summary.population_prevalence
    assert populations["sample_id"].tolist() == [7, 3, 7, 3]
    merged = 1 + [tuple(column) for column in summary.Z.T].index((1, 1, 0, 1, 0))
    shares = populations[populations["population"] == merged]
    assert shares["mean"].to_numpy() == pytest.approx([0.5, 0.4], abs=0.01)
    assert np.all((shares["lower"] < shares["mean"]) & (shares["mean"] < shares["upper"]))
    carriers = summary.carriers.set_index(["mutation_id", "population"])["probability"]
    assert carriers[("mutation 0", merged)] == 1.0 and carriers[("mutation 2", merged)] == 0.0

    everything = model.summarise(states_by_hand(), min_prevalence=0.0)
    assert everything.Z.shape[1] == 3


def test_prevalences_of_mutations_do_not_depend_on_what_is_reported():
    states = states_by_hand()
    model = model_for()
    table = model.cellular_prevalence(states, level=0.5)
    assert table.columns.tolist() == ["mutation_id", "sample_id", "mean", "lower", "upper"]
    by_hand = np.array([s.Z @ (s.parameters["V"] / s.parameters["V"].sum(axis=0)) for s in states])
    assert table["mean"].to_numpy() == pytest.approx(by_hand.mean(axis=0).ravel(), rel=1e-5)
    assert table["lower"].to_numpy() == pytest.approx(np.quantile(by_hand, 0.25, axis=0).ravel(), rel=1e-5)
    assert table["upper"].to_numpy() == pytest.approx(np.quantile(by_hand, 0.75, axis=0).ravel(), rel=1e-5)
    assert table["mutation_id"].tolist()[:3] == ["mutation 0", "mutation 0", "mutation 1"]


def test_probabilities_are_shares_of_draws():
    states = states_by_hand(swap=False)
    for state in states[:20]:
        state.Z[0, 2] = 1
    carriers = model_for().carriers(states)
    assert 0.4 in carriers["probability"].round(12).tolist()


def test_merging_one_state():
    state = states_by_hand(1)[0]
    model = model_for()
    merged = model.merge_duplicates(state)
    assert merged.Z.shape == (5, 3)
    assert model.prevalence(merged) == pytest.approx(model.prevalence(state), rel=1e-12)
    assert state.Z.shape == (5, 4)


def test_draws_of_different_sizes_and_of_none():
    states = states_by_hand(9)
    states += [pgfa.State(states[0].Z[:, :k], 1.0, {"V": states[0].parameters["V"][:k]}) for k in (0, 1, 3)]
    summary = model_for().summarise(states)
    assert 1 <= summary.Z.shape[1] <= 4
    nothing = model_for().summarise([pgfa.State(np.zeros((5, 0), np.uint8), 1.0, {"V": np.zeros((0, 2))})])
    assert nothing.Z.shape == (5, 0)
    assert (nothing.cellular_prevalence["mean"] == 0.0).all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"level": 1.0}, "level must lie between 0 and 1"), ({"min_prevalence": -0.1}, "min_prevalence must")],
)
def test_settings_of_the_summary_are_checked(options, expected):
    with pytest.raises(ValueError, match=expected):
        model_for().summarise(states_by_hand(2), **options)
    with pytest.raises(ValueError, match="states must hold States only"):
        model_for().summarise([1, 2])


def test_a_fit_finds_the_truth_and_speaks_of_the_users_ids(truth, fit):
    summary = truth.model.summarise(fit)
    assert pgfa.metrics.b_cubed(truth.state.Z, summary.Z).f > 0.95
    table = summary.cellular_prevalence
    # Mutations that lack a sample have a prevalence there all the same.
    assert len(table) == 90 > len(truth.data)
    assert table["mutation_id"].iloc[0] == "mutation_1" and table["sample_id"].iloc[1] == "sample_2"
    F = truth.state.parameters["V"] / truth.state.parameters["V"].sum(axis=0)
    assert np.abs(table["mean"].to_numpy() - (truth.state.Z @ F).ravel()).mean() < 0.03
    assert fit["posterior"]["row"].values[0] == "mutation_1"
    assert fit["posterior"]["V"].dims == ("chain", "draw", "feature", "sample")
    assert np.isnan(fit["observed_data"]["alt_counts"]).sum() == 9


# --- simulated data ---------------------------------------------------------------------------------------------------


def test_simulated_tables_are_as_the_paper_has_them():
    simulated = pgfa.simulate("pyclone", pgfa.BetaBernoulli(4), rng=1, num_rows=200, num_samples=4)
    table = simulated.data
    assert len(table) == 800
    depth = table["ref_counts"] + table["alt_counts"]
    assert depth.mean() == pytest.approx(1000.0, abs=5.0) and depth.std() == pytest.approx(np.sqrt(1000.0), rel=0.1)
    assert set(table["major_cn"]) == {1, 2} and (table["major_cn"] + table["minor_cn"] == 2).all()
    again = pgfa.simulate("pyclone", pgfa.BetaBernoulli(4), rng=1, num_rows=200, num_samples=4)
    pd.testing.assert_frame_equal(table, again.data)


# --- stores -----------------------------------------------------------------------------------------------------------


def test_a_described_model_is_the_same_model():
    """The first mutation lacks the second sample, so the order of the samples is not that of the stored entries."""
    names = ["mutation_id", "sample_id", "ref_counts", "alt_counts", "major_cn", "minor_cn", "normal_cn"]
    rows = [(1, "a", 30, 9, 2, 1, 2), (2, "b", 20, 5, 1, 1, 2), (1, "c", 25, 5, 1, 0, 1), (2, "a", 9, 9, 3, 0, 2)]
    options = {"v_prior": (0.7, 2.0), "precision_prior": (3.0, 0.1), "moves": ("single", "copies"), "column_moves": 2}
    model = pgfa.PyClone(pd.DataFrame(rows, columns=names), "beta-binomial", **options)
    words, arrays = model.describe()
    again = pgfa.PyClone.from_description(words, arrays)
    assert again.sample_ids == ["a", "b", "c"] and again.mutation_ids == [1, 2]
    assert again.describe()[0] == words
    state = pgfa.Chain(model, pgfa.BetaBernoulli(3), seed=2).state
    assert again.log_likelihood(state.Z, state.parameters) == model.log_likelihood(state.Z, state.parameters)


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(3), pgfa.IndianBuffet()], ids=repr)
def test_a_resumed_run_equals_the_uninterrupted_one(prior, truth, tmp_path, monkeypatch):
    from pgfa.inference import run

    model = truth.model.with_data(truth.data)
    options = {"draws": 8, "warmup": 6, "chains": 2, "seed": 3, **QUIET}
    reference = pgfa.sample(model, prior, **options)
    path = tmp_path / "run"
    alive = pgfa.Chain.step
    steps = []

    def step_and_die(chain, *args, **kwargs):
        steps.append(1)
        if len(steps) > 9:
            raise RuntimeError("died")
        return alive(chain, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(run.Chain, "step", step_and_die)
        with pytest.raises(RuntimeError, match="died"):
            pgfa.sample(model, prior, cores=1, checkpoint=path, checkpoint_interval=0.0, **options)
    resumed = pgfa.resume(path, **QUIET)
    for name in ("Z", "V", "alpha", "num_features"):
        np.testing.assert_array_equal(resumed["posterior"][name].values, reference["posterior"][name].values)
    assert resumed["posterior"]["row"].values.tolist() == model.mutation_ids
    pd.testing.assert_frame_equal(
        model.summarise(resumed).population_prevalence, model.summarise(reference).population_prevalence
    )


def test_moves_of_whole_populations_can_be_turned_off():
    truth = pgfa.simulate("pyclone", pgfa.BetaBernoulli(3), rng=2, num_rows=12, num_samples=2)
    never = pgfa.PyClone(truth.data, column_moves=0)
    ends = []
    for model, column_moves in ((truth.model, False), (never, ()), (truth.model, ())):
        chain = pgfa.Chain(model, pgfa.BetaBernoulli(3), seed=1, column_moves=column_moves)
        chain.step(20)
        ends.append(chain.state.parameters["V"])
    np.testing.assert_array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[0], ends[2])


@pytest.mark.parametrize("sampler", [pgfa.DiscreteParticleFilter(), pgfa.ParticleGibbs()], ids=repr)
def test_particles_that_differ_by_thousands_in_log_weight_do_not_lead_astray(sampler):
    """With deep counts the present row often has next to no weight half way; it must not drag others along."""
    prior = pgfa.BetaBernoulli(8)
    truth = pgfa.simulate("pyclone", prior, rng=1, num_rows=60, num_samples=10)
    chain = pgfa.Chain(truth.model, prior, sampler, seed=0, state=truth.state, update="features", column_moves=False)
    reference = chain.log_density()
    for _ in range(5):
        chain.step()
        assert chain.log_density() > reference - 0.1 * abs(reference)
