"""The relational model: formulas, row view, extremes, constructors, predictions, bad input."""

from __future__ import annotations

import json
import warnings

import networkx as nx
import numpy as np
import oracle_relational
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import pgfa
from pgfa._compile import compiled
from pgfa.link_prediction import LinkPrediction, area_under_curve, average_precision
from pgfa.models import relational_rows
from pgfa.models.relational_rows import link_rows
from pgfa.rows import begin_row, draw_feature, end_row, flip, flipped, spawn, start


@compiled
def begin(rows, n):
    begin_row(rows, n)


@compiled
def call_start(rows, n, z, block):
    begin_row(rows, n)
    return start(rows, n, z, block)


@compiled
def call_flipped(rows, n, k, sign, block, log_lik, count, out):
    flipped(rows, n, k, sign, block, log_lik, count, out)


@compiled
def call_flip(rows, n, k, sign, block):
    flip(rows, n, k, sign, block)


@compiled
def call_spawn(rows, n, k, sign, block, parents, flips, count, out):
    spawn(rows, n, k, sign, block, parents, flips, count, out)


@compiled
def call_end(rows, n, z):
    end_row(rows, n, z)


@compiled
def call_draw_feature(rows, k, rng):
    draw_feature(rows, k, rng)


def random_problem(seed, num_nodes, num_features, symmetric, self_links, scale, missing=0.2, bias=0.0):
    rng = np.random.default_rng(seed)
    Z = (rng.random((num_nodes, num_features)) < 0.4).astype(np.uint8)
    V = scale * rng.normal(size=(num_features, num_features))
    X = (rng.random((num_nodes, num_nodes)) < 0.4).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    if symmetric:
        V, X = np.triu(V) + np.triu(V, 1).T, np.triu(X) + np.triu(X, 1).T
    model = pgfa.Relational(X, symmetric, self_links, bias=bias != 0.0)
    parameters = {"V": V, "tau": 0.7} | ({"bias": bias} if bias else {})
    return model, Z, parameters


def plain_log_likelihood(model, Z, parameters):
    """The formula, entry by entry."""
    X, V = model.X, parameters["V"]
    total = 0.0
    for i in range(len(X)):
        for j in range(i if model.symmetric else 0, len(X)):
            if not np.isnan(X[i, j]):
                score = parameters.get("bias", 0.0)
                score += sum(Z[i, k] * Z[j, m] * V[k, m] for k in range(len(V)) for m in range(len(V)))
                total += X[i, j] * score - np.logaddexp(0.0, score)
    return total


# --- formulas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [0.0, -1.3])
@pytest.mark.parametrize("self_links", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_log_density_is_the_plain_formula(symmetric, self_links, bias):
    model, Z, parameters = random_problem(1, 7, 3, symmetric, self_links, 1.5, bias=bias)
    assert model.log_likelihood(Z, parameters) == pytest.approx(plain_log_likelihood(model, Z, parameters), rel=1e-12)
    weights = parameters["V"][np.triu_indices(3)] if symmetric else parameters["V"]
    expected = stats.norm.logpdf(weights, scale=0.7**-0.5).sum() + stats.gamma.logpdf(0.7, 1.0)
    expected += stats.norm.logpdf(bias, 0.0, 0.1**-0.5) if bias else 0.0
    assert model.log_prior(parameters) == pytest.approx(expected, rel=1e-12)
    prior = pgfa.BetaBernoulli(3)
    chain = pgfa.Chain(model, prior, seed=1, state=pgfa.State(Z, 1.7, parameters))
    total = plain_log_likelihood(model, Z, parameters) + expected + prior.log_prob(Z, 1.7) - 1.7
    assert chain.log_density() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("symmetric", [True, False])
def test_log_density_is_that_of_the_oracle(symmetric):
    model, Z, parameters = random_problem(2, 12, 4, symmetric, True, 1.0)
    expected = oracle_relational.log_density(model.X, Z.astype(float), parameters["V"], 0.7, symmetric)
    assert model.log_likelihood(Z, parameters) + model.log_prior(parameters) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_nodes=st.integers(1, 40),
    num_features=st.integers(1, 5),
    symmetric=st.booleans(),
    self_links=st.booleans(),
    grouped=st.booleans(),
    scale=st.sampled_from([0.5, 5.0, 30.0, 400.0]),
    bias=st.sampled_from([0.0, -2.0, 50.0, -900.0]),
)
def test_rows_are_differences_of_the_log_likelihood(
    seed, num_nodes, num_features, symmetric, self_links, grouped, scale, bias
):
    """Start, flip, look ahead and spawn in all modes, while rows change and caches follow."""
    model, Z, parameters = random_problem(
        seed, num_nodes, num_features, symmetric, self_links, scale, missing=0.1 + 0.8 * (seed % 2), bias=bias
    )
    rng = np.random.default_rng(seed)
    rows = link_rows(model._network, Z, parameters["V"], 0.7, bias, symmetric, grouped=grouped)
    block, next_block = rows.make_block(3), rows.make_block(3)
    W = Z.copy()
    for n in rng.permutation(num_nodes)[:8]:
        base = model.log_likelihood(W, parameters)
        tolerance = 1e-9 * max(1.0, abs(base))

        def difference(z, n=n, base=base):
            other = W.copy()
            other[n] = z
            return model.log_likelihood(other, parameters) - base

        first = call_start(rows, n, W[n], block)
        z = W[n].copy()
        out = np.empty(3)
        for k in rng.permutation(num_features):
            sign = 1.0 - 2.0 * z[k]
            flipped_z = z.copy()
            flipped_z[k] ^= 1
            call_flipped(rows, n, k, sign, block, np.zeros(3), 1, out)
            assert out[0] - first == pytest.approx(difference(flipped_z), abs=tolerance)
            if rng.random() < 0.6:
                call_flip(rows, n, k, sign, block)
                z = flipped_z
        k, m = rng.integers(num_features, size=2)
        sign = 1.0 - 2.0 * z[k]
        call_spawn(rows, n, k, sign, block, np.zeros(2, dtype=np.int64), np.array([1, 0]), 2, next_block)
        children = [z.copy(), z.copy()]
        children[0][k] ^= 1
        if k != m:
            sign = 1.0 - 2.0 * z[m]
            call_flipped(rows, n, m, sign, next_block, np.zeros(3), 2, out)
            for child, value in zip(children, out):
                child[m] ^= 1
                assert value - first == pytest.approx(difference(child), abs=tolerance)
        W[n] = children[0]
        call_end(rows, n, W[n])


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_drawn_features_enter_the_caches(symmetric, grouped):
    model, Z, parameters = random_problem(3, 9, 4, symmetric, True, 1.0)
    Z[:, 2] = 0
    rows = link_rows(model._network, Z, parameters["V"], 0.7, 0.0, symmetric, grouped=grouped)
    before = parameters["V"].copy()
    call_draw_feature(rows, 2, np.random.default_rng(1))
    V = parameters["V"]
    keep = [0, 1, 3]
    assert np.array_equal(V[np.ix_(keep, keep)], before[np.ix_(keep, keep)])
    assert (V[2] != before[2]).all()
    assert (V[:, 2] != before[:, 2]).all()
    assert np.array_equal(V, V.T) == symmetric
    fresh = link_rows(model._network, Z, V, 0.7, 0.0, symmetric, grouped=grouped)
    for name in ("scores", "up", "down", "highest", "lowest"):
        np.testing.assert_allclose(getattr(rows, name), getattr(fresh, name), rtol=1e-12, atol=1e-12)


def test_products_of_very_many_cells():
    """More columns of cells than mantissas whose product is finite."""
    num_nodes = 4 * relational_rows._MOST_MANTISSAS + 100
    rng = np.random.default_rng(0)
    Z = np.zeros((num_nodes, 1), dtype=np.uint8)
    Z[::2] = 1
    X = np.full((num_nodes, num_nodes), np.nan)
    X[0], X[:, 0] = rng.integers(2, size=(2, num_nodes))
    model = pgfa.Relational(X)
    rows = link_rows(model._network, Z, np.array([[1.5]]), 1.0, 0.0, False, grouped=False)
    block, out = rows.make_block(1), np.empty(1)
    first = call_start(rows, 0, np.zeros(1, dtype=np.uint8), block)
    call_flipped(rows, 0, 0, 1.0, block, np.zeros(1), 1, out)
    gain = X * 1.5 * Z[:, 0] - np.logaddexp(0.0, 1.5 * Z[:, 0]) + np.log(2.0)
    gain_of_column = X[1:, 0] * 1.5 * Z[1:, 0] - np.logaddexp(0.0, 1.5 * Z[1:, 0]) + np.log(2.0)
    assert out[0] - first == pytest.approx(gain[0].sum() + gain_of_column.sum(), rel=1e-10)


# --- extremes --------------------------------------------------------------------------------------------------------

EXTREMES = {
    "all ones": np.ones((6, 6)),
    "all zeros": np.zeros((6, 6)),
    "two nodes": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "one node": np.array([[1.0]]),
    "nothing known": np.full((5, 5), np.nan),
    "isolated node": np.pad(np.ones((4, 4)), ((0, 1), (0, 1))),
    "node without data": np.pad(np.ones((4, 4)), ((0, 1), (0, 1)), constant_values=np.nan),
}
SAMPLERS = [pgfa.Gibbs(), pgfa.RowGibbs(), pgfa.ParticleGibbs(4), pgfa.DiscreteParticleFilter(4)]


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(3), pgfa.IndianBuffet()], ids=repr)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_networks_run(name, symmetric, prior):
    for self_links in (True, False):
        for sampler in SAMPLERS:
            model = pgfa.Relational(EXTREMES[name], symmetric, self_links, bias=True)
            chain = pgfa.Chain(model, prior, sampler, seed=1)
            chain.step(15, warmup=True, power=0.5)
            chain.step(15)
            state = chain.state
            assert np.isfinite(chain.log_density())
            assert np.isfinite(state.parameters["V"]).all()
            assert np.array_equal(state.parameters["V"], state.parameters["V"].T) or not symmetric
            assert np.isfinite(model.predict_links(state).probability).sum() >= (len(EXTREMES[name]) > 1)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("score", [-1000.0, 1000.0, -1e6, 1e6])
def test_enormous_scores(score, sampler):
    """A chain that starts with absurd weights neither overflows nor stays there."""
    rng = np.random.default_rng(0)
    X = (rng.random((8, 8)) < 0.5).astype(float)
    state = pgfa.State(np.ones((8, 2), dtype=np.uint8), 1.0, {"V": np.full((2, 2), score), "tau": 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = pgfa.Relational(X)
        chain = pgfa.Chain(model, pgfa.BetaBernoulli(2), sampler, seed=1, state=state)
        assert np.isfinite(chain.log_density())
        before = chain.log_density()
        chain.step(100)
        assert np.isfinite(chain.log_density())
        assert chain.log_density() > 0.5 * before
        probability = model.predict_links([state, chain.state]).probability
    assert np.isfinite(probability).all()


def test_scores_of_a_thousand_have_the_right_likelihood():
    Z = np.ones((3, 1), dtype=np.uint8)
    for x in (0.0, 1.0):
        model = pgfa.Relational(np.full((3, 3), x))
        for v in (-1000.0, 1000.0):
            expected = 9 * (x * v - max(v, 0.0))
            assert model.log_likelihood(Z, {"V": np.array([[v]]), "tau": 1.0}) == pytest.approx(expected)


def test_no_features_at_all():
    model = pgfa.Relational(np.eye(4))
    state = pgfa.State(np.zeros((4, 0), dtype=np.uint8), 1.0, {"V": np.zeros((0, 0)), "tau": 1.0})
    assert model.log_likelihood(state.Z, state.parameters) == pytest.approx(-16 * np.log(2.0))
    assert (model.predict_links(state).probability == 0.5).all()
    chain = pgfa.Chain(model, pgfa.IndianBuffet(), seed=1, state=state)
    most = 0
    for _ in range(200):
        chain.step()
        most = max(most, chain.state.num_features)
    assert most > 0


def test_a_chain_finds_what_was_simulated():
    """Two teams that link among themselves: seen in the features, and in what is held out."""
    prior = pgfa.BetaBernoulli(4)
    truth = pgfa.simulate("relational", prior, rng=4, num_rows=60, missing=0.1)
    expected = pgfa.Chain(truth.model, prior, state=truth.state).log_density()
    chain = pgfa.Chain(truth.model, prior, seed=1)
    for power in np.linspace(0.0, 1.0, 60):
        chain.step(warmup=True, power=power)
    states = []
    for _ in range(60):
        chain.step()
        states.append(chain.state)
    assert pgfa.metrics.relative_log_density(chain.log_density(), expected) > -0.05
    best = truth.model.predict_links(truth.state).score(truth.complete)
    found = truth.model.predict_links(states).score(truth.complete)
    assert found.auc > best.auc - 0.05


# --- simulation and storage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [None, -1.0])
@pytest.mark.parametrize("self_links", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_simulate(symmetric, self_links, bias):
    truth = pgfa.simulate(
        "relational", pgfa.BetaBernoulli(5), rng=1, num_rows=40, symmetric=symmetric, self_links=self_links, bias=bias,
        tau=0.5, missing=0.1,
    )  # fmt: skip
    model = truth.model
    pairs = {(True, True): 820, (True, False): 780, (False, True): 1600, (False, False): 1560}[symmetric, self_links]
    assert model.num_pairs == pairs - round(0.1 * pairs)
    assert truth.state.parameters["tau"] == 0.5
    assert np.array_equal(truth.data, truth.data.T, equal_nan=True) == symmetric
    assert np.isnan(np.diagonal(truth.complete)).all() != self_links
    known = ~np.isnan(truth.data)
    assert (truth.data[known] == truth.complete[known]).all()
    assert np.array_equal(model.X, truth.data, equal_nan=True)
    chain = pgfa.Chain(model, pgfa.BetaBernoulli(5), seed=1, state=truth.state)
    assert np.isfinite(chain.log_density())


def test_simulated_links_have_the_stated_probability():
    model = pgfa.Relational(np.zeros((30, 30)), symmetric=True, bias=True)
    Z = np.repeat([[1, 0], [0, 1]], 15, axis=0).astype(np.uint8)
    parameters = {"V": np.array([[2.0, -1.0], [-1.0, 0.5]]), "tau": 1.0, "bias": -0.5}
    rng = np.random.default_rng(2)
    draws = np.array([model.sample_data(Z, parameters, rng) for _ in range(300)])
    for i, j, score in ((0, 1, 1.5), (0, 20, -1.5), (20, 21, 0.0)):
        probability = 1.0 / (1.0 + np.exp(-score))
        block = draws[:, i // 15 * 15 : i // 15 * 15 + 15, j // 15 * 15 : j // 15 * 15 + 15]
        assert abs(block.mean() - probability) < 0.02


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_described_model_comes_back(symmetric):
    truth = pgfa.simulate("relational", pgfa.BetaBernoulli(3), rng=1, num_rows=9, symmetric=symmetric, missing=0.2)
    labels = [f"node {i}" for i in range(9)]
    model = pgfa.Relational(
        pd.DataFrame(truth.data, labels, labels), symmetric, False, True,
        tau_prior=(2.0, 3.0), bias_prior=(-1.0, 2.0), singletons="prior",
    )  # fmt: skip
    words, arrays = model.describe()
    again = pgfa.Relational.from_description(words, arrays)
    assert again.describe()[0] == words
    assert again.row_labels == labels
    assert np.array_equal(again.X, model.X, equal_nan=True)


def test_sample_and_predict_with_labels():
    labels = list("abcdefgh")
    truth = pgfa.simulate("relational", pgfa.BetaBernoulli(3), rng=1, num_rows=8, self_links=False, missing=0.2)
    model = pgfa.Relational(pd.DataFrame(truth.data, labels, labels), self_links=False)
    for prior in (pgfa.BetaBernoulli(3), pgfa.IndianBuffet()):
        fit = pgfa.sample(model, prior, draws=15, warmup=10, chains=2, seed=1, progress=False, check=False)
        assert list(fit["posterior"]["row"].values) == labels
        assert fit["posterior"]["V"].dims == ("chain", "draw", "feature", "feature_2")
        prediction = model.predict_links(fit)
        Z, V, K = (fit["posterior"][name].values for name in ("Z", "V", "num_features"))
        expected = np.zeros((8, 8))
        for chain in range(2):
            for draw in range(15):
                k = K[chain, draw]
                z = Z[chain, draw, :, :k].astype(float)
                expected += 1.0 / (1.0 + np.exp(-z @ V[chain, draw, :k, :k] @ z.T)) / 30
        np.fill_diagonal(expected, np.nan)
        np.testing.assert_allclose(prediction.probability, expected, rtol=1e-10)
        table = prediction.to_frame()
        assert list(table.index) == list(table.columns) == labels
        unknown = prediction.unknown_links()
        assert len(unknown) == np.isnan(truth.data).sum() - 8
        assert {end for source, target, _ in unknown for end in (source, target)} <= set(labels)
        assert [p for *_, p in unknown] == sorted((p for *_, p in unknown), reverse=True)


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(3), pgfa.IndianBuffet()], ids=repr)
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(prior, tmp_path, monkeypatch):
    """Labels, bias and random stream come back from the store; nodes of a graph may well be tuples."""
    graph = nx.grid_2d_graph(3, 3)
    model = pgfa.Relational.from_networkx(graph, bias=True, unobserved=[((0, 0), (2, 2))])
    options = {"draws": 12, "warmup": 8, "chains": 2, "seed": 1, "cores": 1}
    quiet = {"progress": False, "check": False}
    reference = pgfa.sample(model, prior, **options, **quiet)
    whole = pgfa.Relational.update_parameters
    calls = []

    def mortal(self, *arguments, **keywords):
        calls.append(None)
        if len(calls) > 30:
            raise InterruptedError
        whole(self, *arguments, **keywords)

    path = tmp_path / "run"
    monkeypatch.setattr(pgfa.Relational, "update_parameters", mortal)
    with pytest.raises(InterruptedError):
        pgfa.sample(model, prior, checkpoint=path, checkpoint_interval=0.0, **options, **quiet)
    monkeypatch.setattr(pgfa.Relational, "update_parameters", whole)
    resumed = pgfa.resume(path, **quiet)
    for name in reference["posterior"].data_vars:
        assert np.array_equal(resumed["posterior"][name], reference["posterior"][name], equal_nan=name == "V")
    labels = [str(node) for node in graph.nodes]
    for fit in (reference, resumed):
        assert list(fit["posterior"]["row"].values) == labels
        assert list(fit["observed_data"]["column"].values) == labels
    words, arrays = model.describe()
    assert pgfa.Relational.from_description(json.loads(json.dumps(words)), arrays).row_labels == list(graph.nodes)


@pytest.mark.parametrize("labels", [["a", "b"], [3, 1], [(0, 1), ("x", 2)], [pd.Timestamp("2020-01-01"), 2.5]])
def test_labels_reach_the_result(labels):
    model = pgfa.Relational.from_edges([labels])
    fit = pgfa.sample(model, pgfa.BetaBernoulli(2), draws=2, warmup=2, chains=1, seed=1, progress=False, check=False)
    plain = all(isinstance(label, (str, int)) for label in labels)
    assert list(fit["posterior"]["row"].values) == (labels if plain else [str(label) for label in labels])
    words, _ = model.describe()
    assert json.loads(json.dumps(words)) is not None
    assert model.predict_links(fit).unknown_links() == []
    assert list(model.predict_links(fit).to_frame().columns) == labels


# --- constructors ----------------------------------------------------------------------------------------------------


def test_edges_and_matrices_agree():
    X = np.array([[0.0, 1, 0], [np.nan, 0, 1], [0, 1, 0]])
    rows = [("a", "b"), ("b", "a", np.nan), ("b", "c", 1), ("c", "b", 1.0), ("a", "c", 0), ("b", "c")]
    table = pd.DataFrame([(*row, 1)[:3] for row in rows], columns=["source", "target", "value"])
    for edges in (rows, iter(rows), table, table[["value", "target", "source"]]):
        model = pgfa.Relational.from_edges(edges)
        expected = X.copy()
        np.fill_diagonal(expected, np.nan)
        assert model.row_labels == ["a", "b", "c"]
        assert np.array_equal(model.X, expected, equal_nan=True)
        assert not model.symmetric
        assert not model.self_links


def test_edges_with_given_nodes_unknown_unless_listed():
    edges = np.array([[3, 1], [1, 1]])
    model = pgfa.Relational.from_edges(edges, symmetric=True, self_links=True, nodes=[1, 2, 3], unlisted=np.nan)
    expected = np.full((3, 3), np.nan)
    expected[0, 0] = expected[0, 2] = expected[2, 0] = 1.0
    assert np.array_equal(model.X, expected, equal_nan=True)
    assert model.row_labels == [1, 2, 3]
    assert model.num_links == 2


def test_graphs():
    graph = nx.Graph([("x", "y"), ("y", "z")])
    graph.add_node("alone")
    model = pgfa.Relational.from_networkx(graph, unobserved=[("x", "z")], bias=True)
    assert model.symmetric
    assert not model.self_links
    assert model.bias
    assert model.row_labels == ["x", "y", "z", "alone"]
    assert (model.num_pairs, model.num_links) == (5, 2)
    directed = nx.DiGraph()
    directed.add_edge(1, 2, known=1)
    directed.add_edge(2, 1, known=float("nan"))
    model = pgfa.Relational.from_networkx(directed, value="known", tau_prior=(2.0, 1.0))
    assert not model.symmetric
    assert np.array_equal(model.X, [[np.nan, 1], [np.nan, np.nan]], equal_nan=True)
    assert model.tau_prior == (2.0, 1.0)
    looped = nx.Graph([(0, 0), (0, 1)])
    assert pgfa.Relational.from_networkx(looped, self_links=True).X[0, 0] == 1.0
    parallel = nx.MultiGraph([(0, 1), (0, 1)])
    assert pgfa.Relational.from_networkx(parallel).num_links == 1


def test_the_diagonal_counts_or_not():
    X = np.eye(4)
    assert pgfa.Relational(X).num_links == 4
    assert pgfa.Relational(X, self_links=False).num_links == 0
    assert pgfa.Relational(X, self_links=False).num_pairs == 12
    assert pgfa.Relational(X, symmetric=True).num_pairs == 10
    assert repr(pgfa.Relational(X)) == "Relational(4 nodes, directed, 4 links, 12 known absent)"


# --- predictions -----------------------------------------------------------------------------------------------------


def test_area_under_curve_and_average_precision_by_definition():
    rng = np.random.default_rng(0)
    for _ in range(20):
        truth, score = rng.integers(2, size=30), rng.integers(8, size=30) / 8.0
        links, others = score[truth == 1], score[truth == 0]
        wins = (links[:, None] > others).mean() + 0.5 * (links[:, None] == others).mean()
        assert area_under_curve(truth, score) == pytest.approx(wins)
        precision = [(truth[score >= s] == 1).mean() for s in links]
        assert average_precision(truth, score) == pytest.approx(np.mean(precision))
    assert np.isnan(area_under_curve([1, 1], [0.2, 0.3]))
    assert np.isnan(average_precision([0, 0], [0.2, 0.3]))


@pytest.mark.parametrize("symmetric", [True, False])
def test_scores_of_a_prediction(symmetric):
    X = np.array([[0.0, 1, np.nan], [1, 0, np.nan], [np.nan, np.nan, 1]])
    truth = np.array([[0.0, 1, 1], [1, 0, 0], [1, 0, 1]])
    probability = np.array([[0.1, 0.9, 0.7], [0.9, 0.6, 0.2], [0.7, 0.2, 0.8]])
    scores = LinkPrediction(probability, X, symmetric, None).score(truth)
    assert scores.num_pairs == (2 if symmetric else 4)
    assert scores.num_links == (1 if symmetric else 2)
    assert scores.log_likelihood == pytest.approx((np.log(0.7) + np.log(0.8)) * (1 if symmetric else 2))
    assert scores.auc == 1.0
    assert scores.average_precision == 1.0
    assert scores.reconstruction_error == 1
    assert LinkPrediction(probability, X, symmetric, None).reconstruction_error(1.0 - truth) == (5 if symmetric else 8)
    sure = LinkPrediction(np.where(truth == 1, 0.0, 1.0), X, symmetric, None).score(truth)
    assert np.isfinite(sure.log_likelihood)


def test_a_prediction_is_not_scored_on_what_does_not_count():
    model = pgfa.Relational(np.array([[1.0, np.nan], [1.0, 1.0]]), self_links=False)
    state = pgfa.State(np.ones((2, 1), dtype=np.uint8), 1.0, {"V": np.array([[-3.0]]), "tau": 1.0})
    scores = model.predict_links(state).score(np.ones((2, 2)))
    assert scores.num_pairs == 1
    assert scores.reconstruction_error == 2


# --- bad input -------------------------------------------------------------------------------------------------------

OK = np.zeros((3, 3))


def frame(rows, columns):
    return pd.DataFrame(np.zeros((len(rows), len(columns))), list(rows), list(columns))


def state_of(V, tau=1.0, **more):
    return pgfa.State(np.zeros((3, 2)), parameters={"V": V, "tau": tau, **more})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pgfa.Relational(np.zeros((3, 4))), r"X must be square, .* got shape \(3, 4\)"),
        (lambda: pgfa.Relational(np.zeros(3)), "X must be a matrix"),
        (lambda: pgfa.Relational(np.zeros((0, 0))), "at least one row"),
        (lambda: pgfa.Relational([[0, 2], [0, 0]]), "X has 2 in row 0, column 1: expected 0, 1 or NaN"),
        (lambda: pgfa.Relational([[0, np.inf], [0, 0]]), "X has inf in row 0, column 1"),
        (lambda: pgfa.Relational([["0", "1"], ["1", "0"]]), "X must hold numbers"),
        (lambda: pgfa.Relational([[0, 1], [0, 0]], symmetric=True), "symmetric, but has 1 in row 0, column 1 and 0"),
        (lambda: pgfa.Relational([[0, 1], [np.nan, 0]], symmetric=True), "declared symmetric, but has 1 .* and nan"),
        (lambda: pgfa.Relational(frame("abc", "abd")), "row 2 is 'c', column 2 is 'd'"),
        (lambda: pgfa.Relational(frame("aba", "aba")), "labels of X must differ, but 'a' is at positions 0 and 2"),
        (lambda: pgfa.Relational(frame("ab", "abc")), "X must be square"),
        (lambda: pgfa.Relational(OK, symmetric="yes"), "symmetric must be True or False"),
        (lambda: pgfa.Relational(OK, self_links=1), "self_links must be True or False"),
        (lambda: pgfa.Relational(OK, bias=0.5), "bias must be True or False"),
        (lambda: pgfa.Relational(OK, tau_prior=(1.0, 0.0)), r"tau_prior\[1\] \(rate\) must be a positive"),
        (lambda: pgfa.Relational(OK, tau_prior=2.0), "tau_prior must be a pair"),
        (lambda: pgfa.Relational(OK, bias_prior=(0.0, -1.0)), r"bias_prior\[1\] \(precision\)"),
        (lambda: pgfa.Relational(OK, singletons="none"), "singletons must be one of 'fitted', 'prior'"),
        (lambda: pgfa.Relational.from_edges([]), "edges must hold at least one edge"),
        (lambda: pgfa.Relational.from_edges([("a",)]), r"edges, row 0 must be \(source, target\)"),
        (lambda: pgfa.Relational.from_edges(["ab"]), r"edges, row 0 must be \(source, target\)"),
        (lambda: pgfa.Relational.from_edges([3]), r"edges, row 0 must be \(source, target\)"),
        (lambda: pgfa.Relational.from_edges([("a", None)]), "edges, row 0: target must be a label"),
        (lambda: pgfa.Relational.from_edges([("a", ["b"])]), "edges, row 0: target must be a label"),
        (lambda: pgfa.Relational.from_edges([("a", "b", 2)]), "edges, row 0: value must be 0, 1 or NaN .* got 2"),
        (lambda: pgfa.Relational.from_edges([("a", "b", "1")]), "edges, row 0: value must be 0, 1 or NaN"),
        (lambda: pgfa.Relational.from_edges([("a", "b"), ("c", "c")]), "row 1: 'c' is linked with itself"),
        (lambda: pgfa.Relational.from_edges([("a", "b"), ("a", "b", 0)]), "rows 0 and 1 contradict each other"),
        (lambda: pgfa.Relational.from_edges([("a", "b"), ("b", "a", np.nan)], True), "rows 0 and 1 contradict"),
        (lambda: pgfa.Relational.from_edges([("a", "b")], nodes=["a", "c"]), "row 0: target 'b' is not among nodes"),
        (lambda: pgfa.Relational.from_edges([("a", "b")], nodes=["a", "b", "a"]), "nodes must differ, but 'a'"),
        (lambda: pgfa.Relational.from_edges([("a", "b")], unlisted=2), "unlisted must be 0, 1 or NaN"),
        (lambda: pgfa.Relational.from_edges(pd.DataFrame({"from": ["a"], "to": ["b"]})), "columns source and target"),
        (
            lambda: pgfa.Relational.from_edges(pd.DataFrame({"source": ["a"], "target": ["b"], "weight": [0.0]})),
            "may have value .* and no others: leave 'weight' out",
        ),
        (lambda: pgfa.Relational.from_networkx("graph"), "graph must be a networkx Graph"),
        (lambda: pgfa.Relational.from_networkx(nx.Graph([(0, 0)])), "linked with itself"),
        (lambda: pgfa.Relational.from_networkx(nx.Graph([(0, 1)]), value="w"), "edge 0, 1 has no attribute 'w'"),
        (lambda: pgfa.Relational.from_networkx(nx.Graph([(0, 1)]), unobserved=[(0, 5)]), "5 is not a node of"),
        (lambda: pgfa.Relational.from_networkx(nx.Graph([(0, 1)]), unobserved=[0]), "unobserved must hold pairs"),
        (lambda: pgfa.Relational.from_networkx(nx.Graph([(0, 1)]), unobserved=[(0, 1)]), "contradict each other"),
        (lambda: pgfa.simulate("relational", pgfa.BetaBernoulli(2)), "needs num_rows"),
        (lambda: pgfa.simulate("relational", pgfa.BetaBernoulli(2), num_rows=3, missing=2.0), "missing"),
        (lambda: pgfa.Relational(OK).predict_links([]), "states must hold at least one state"),
        (lambda: pgfa.Relational(OK).predict_links(3), "states must be a State, several of them or the result"),
        (lambda: pgfa.Relational(OK).predict_links([3]), "states must hold States only"),
        (lambda: pgfa.Relational(np.eye(4)).predict_links(state_of(np.eye(2))), "state.Z must be a binary matrix"),
    ],
)  # fmt: skip
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (state_of(np.zeros((2, 3))), r"parameters\['V'\] must have shape \(2, 2\)"),
        (state_of(np.array([[0.0, 1], [2, 0]])), r"parameters\['V'\] must be symmetric"),
        (state_of(np.zeros((2, 2)), tau=0.0), r"parameters\['tau'\] must be a positive"),
        (state_of(np.zeros((2, 2)), bias=0.0), "parameters must be V, tau, got V, bias, tau"),
        (state_of(np.full((2, 2), np.nan)), "finite numbers only"),
    ],
)
def test_bad_states(state, message):
    with pytest.raises(ValueError, match=message):
        pgfa.Chain(pgfa.Relational(OK, symmetric=True), pgfa.BetaBernoulli(2), state=state)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (np.zeros((2, 2)), r"X_true must have shape \(3, 3\)"),
        (np.full((3, 3), 0.5), "X_true has 0.5 in row 0, column 0"),
        (np.full((3, 3), np.nan), "nothing was held out"),
        (frame("abd", "abd"), "X_true must carry the labels of the model"),
    ],
)
def test_bad_truths(truth, message):
    X = pd.DataFrame([[0, np.nan, 0], [0, 0, 0], [0, 0, 0]], list("abc"), list("abc"))
    state = pgfa.State(np.zeros((3, 1), dtype=np.uint8), parameters={"V": np.zeros((1, 1)), "tau": 1.0})
    with pytest.raises(ValueError, match=message):
        pgfa.Relational(X).predict_links(state).score(truth)


def test_scores_want_vectors_of_zeros_and_ones():
    with pytest.raises(ValueError, match="vectors of equal length"):
        area_under_curve([0, 1], [0.1])
    with pytest.raises(ValueError, match="zeros and ones"):
        average_precision([0, 2], [0.1, 0.2])
    with pytest.raises(ValueError, match="NaN"):
        area_under_curve([0, 1], [0.1, np.nan])


def test_without_networkx_one_is_told_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match="pip install"):
        pgfa.Relational.from_networkx(None)


# --- guesses ---------------------------------------------------------------------------------------------------------


def two_teams(symmetric):
    """A network of two teams, and everybody's team."""
    team = np.repeat([False, True], 15)
    X = np.triu(np.random.default_rng(4).random((30, 30)) < np.where(team[:, None] == team, 0.9, 0.1)).astype(float)
    return pgfa.Relational(X + np.triu(X, 1).T, symmetric=symmetric), team


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_renewed_feature_is_the_one_that_is_missing(symmetric):
    """Two teams that a state with one feature for everybody does not tell apart."""
    model, team = two_teams(symmetric)
    Z = np.zeros((30, 3), dtype=np.uint8)
    Z[:, 0] = 1
    state = pgfa.State(Z=Z, alpha=1.0, parameters={"V": np.zeros((3, 3)), "tau": 0.25})
    right, gains = [], []
    for seed in range(60):
        chain = pgfa.Chain(model, pgfa.BetaBernoulli(3), seed=seed, state=state)
        chain.renew_feature()
        after = chain.state
        model.check_parameters(after.parameters, after.num_features)
        if not np.array_equal(after.Z[:, 0], Z[:, 0]):
            continue
        new = after.Z[:, 1:].any(axis=1)
        right.append(max(np.mean(new == team), np.mean(new != team)) >= 0.9)
        gains.append(model.log_likelihood(after.Z, after.parameters) - model.log_likelihood(Z, state.parameters))
    assert 40 <= len(right) < 60, "mostly an empty one makes room, now and then the one in use"
    assert np.mean(right) >= 0.75
    assert np.median(gains) > 50.0


@pytest.mark.parametrize("symmetric", [True, False])
def test_under_the_buffet_features_are_renewed_or_go(symmetric, monkeypatch):
    model, team = two_teams(symmetric)
    Z = np.column_stack([np.ones(30), team, np.arange(30) < 3]).astype(np.uint8)
    V = np.diag([1.0, 2.0, 3.0])
    state = pgfa.State(Z=Z, alpha=1.0, parameters={"V": V, "tau": 0.25})
    guesses = []
    guess = pgfa.Relational.guess_owners
    monkeypatch.setattr(pgfa.Relational, "guess_owners", lambda *arguments: guesses.append(1) or guess(*arguments))
    gone, replaced = 0, np.zeros(3, dtype=int)
    for seed in range(80):
        guesses.clear()
        chain = pgfa.Chain(model, pgfa.IndianBuffet(), seed=seed, state=state)
        chain.renew_feature()
        after = chain.state
        model.check_parameters(after.parameters, after.num_features)
        if not guesses:
            gone += 1
            assert after.num_features == 2
            assert all(any(np.array_equal(column, old) for old in Z.T) for column in after.Z.T)
        elif after.num_features == 3:  # a guess that nobody owns is no feature
            stays = [np.array_equal(column, old) for column, old in zip(after.Z.T, Z.T)]
            assert sum(stays) >= 2
            replaced += ~np.array(stays)  # none of them where the guess was the column itself
    assert 25 <= gone <= 55
    assert 0 < replaced[0] < replaced[2], "mostly the one with the fewest owners makes room"


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(2), pgfa.IndianBuffet()], ids=repr)
def test_models_without_a_guess_are_left_alone(prior):
    model = pgfa.simulate("pyclone", pgfa.BetaBernoulli(2), rng=1, num_rows=4, num_samples=2).model
    chain = pgfa.Chain(model, prior, seed=1)
    before = chain.state
    assert before.num_features > 0
    for _ in range(10):
        chain.renew_feature()
    assert np.array_equal(chain.state.Z, before.Z)
    assert all(np.array_equal(chain.state.parameters[name], value) for name, value in before.parameters.items())
