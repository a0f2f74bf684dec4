"""Exchanges of whole columns in the relational model, held to exact distributions; and what they are for."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from exactness import (
    SIGNIFICANCE,
    all_matrices,
    buffet_class,
    chi_square_p_value,
    half,
    joint_p_values,
    left_ordered,
    left_ordered_classes,
)
from scipy.special import log_expit, logsumexp
from test_relational_exactness import HIDE, PRIORS, lowest, statistics, template

import pgfa
from pgfa.models import relational_columns
from pgfa.models.network import make_groups
from pgfa.models.relational_columns import exchange_columns
from pgfa.samplers import three_and_two

TAU = 0.3
HELD = 1e12  # a Gamma prior as narrow as this holds the precision
X = np.array([[1.0, 0.0, 1.0], [1.0, np.nan, 0.0], [1.0, 0.0, 0.0]])
PRIOR = pgfa.BetaBernoulli(2, a=0.8, b=1.3)


def data_of(symmetric):
    return np.triu(X) + np.triu(X, 1).T if symmetric else X


@cache
def enumerate_with_weights_summed_out(symmetric):
    """Posterior of Z, of three nodes and two features, by Gauss-Hermite quadrature over the weights."""
    model = pgfa.Relational(data_of(symmetric), symmetric)
    num_weights = 3 if model.symmetric else 4
    points, masses = np.polynomial.hermite_e.hermegauss(22)
    grid = np.array(list(product(points, repeat=num_weights))) / np.sqrt(TAU)
    log_mass = np.log(np.array(list(product(masses, repeat=num_weights)))).sum(axis=1)
    V = grid[:, [0, 1, 1, 2]].reshape(-1, 2, 2) if model.symmetric else grid.reshape(-1, 2, 2)
    known = model.observed & (np.triu(np.ones((3, 3), dtype=bool)) if model.symmetric else True)
    log_prob = []
    for Z in all_matrices(3, 2):
        scores = np.einsum("ik,pkl,jl->pij", Z.astype(float), V, Z.astype(float), optimize=True)[:, known]
        log_likelihood = np.where(model.X[known] == 1.0, log_expit(scores), log_expit(-scores)).sum(axis=1)
        log_prob.append(PRIOR.log_prob(Z) + logsumexp(log_likelihood + log_mass))
    return np.exp(np.array(log_prob) - logsumexp(log_prob))


def p_value(symmetric, *, num_draws=12_000, thin=2, column_moves=3):
    """A chain that exchanges columns more than it does anything else, against the posterior."""
    model = pgfa.Relational(data_of(symmetric), symmetric, tau_prior=(HELD, HELD / TAU), column_moves=column_moves)
    posterior = enumerate_with_weights_summed_out(symmetric)
    chain = pgfa.Chain(model, PRIOR, pgfa.Gibbs(), seed=4)
    index = {Z.tobytes(): i for i, Z in enumerate(np.ascontiguousarray(all_matrices(3, 2), dtype=np.uint8))}
    counts = np.zeros(len(posterior), dtype=np.int64)
    for _ in range(num_draws):
        chain.step(thin)
        counts[index[np.ascontiguousarray(chain.state.Z).tobytes()]] += 1
    rate = chain.step_sizes["columns"].acceptance_rate
    assert rate > 0.02
    return chi_square_p_value(counts, posterior)


@pytest.mark.parametrize("symmetric", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_against_the_enumerated_posterior(symmetric, monkeypatch):
    monkeypatch.setattr(relational_columns, "_COMPLEMENTS", 0.4)
    assert p_value(symmetric) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("much_work", [1.0, 0.1])
@pytest.mark.parametrize("symmetric", [False, True])
def test_against_the_enumerated_posterior_at_length(symmetric, much_work, monkeypatch):
    monkeypatch.setattr(relational_columns, "_COMPLEMENTS", 0.4)
    monkeypatch.setattr(relational_columns, "_MUCH_WORK", much_work)
    assert p_value(symmetric, num_draws=20_000, thin=6) > SIGNIFICANCE


@pytest.mark.parametrize(
    ("prior", "symmetric", "much_work"),
    half(PRIORS, {"directed": False, "symmetric with bias": True}, {"much": 1.0, "little": 0.1}),
)
def test_joint_distribution(prior, symmetric, much_work, monkeypatch):
    """Where little work counts as much, most exchanges are not tried, and how often hangs on the state."""
    monkeypatch.setattr(relational_columns, "_MUCH_WORK", much_work)
    p_values = joint_p_values(
        template(symmetric, self_links=not symmetric, bias=symmetric, column_moves=4), prior, pgfa.Gibbs(), statistics,
        num_replicates=500, num_rounds=5, seed=15, update=("features",), hide=HIDE | HIDE.T if symmetric else HIDE,
    )  # fmt: skip
    assert lowest(p_values) > SIGNIFICANCE, p_values


# --- three columns for two, and back ----------------------------------------------------------------------------------

FEW = np.full((3, 3), np.nan)
FEW[[0, 1, 2, 1], [1, 0, 2, 2]] = [1.0, 1.0, 0.0, 1.0]


@cache
def quadrature_in_four_dimensions():
    points, masses = np.polynomial.hermite_e.hermegauss(16)
    grid = np.stack(np.meshgrid(*[points] * 4), axis=-1).reshape(-1, 4)
    return grid, sum(np.meshgrid(*[np.log(masses)] * 4)).ravel()


@cache
def log_evidence_of_shared(shared):
    source, target = np.nonzero(~np.isnan(FEW))
    scaled = np.array(shared) / np.sqrt(TAU)
    values, vectors = np.linalg.eigh(scaled[np.ix_(source, source)] * scaled[np.ix_(target, target)])
    grid, log_mass = quadrature_in_four_dimensions()
    sign = np.where(FEW[source, target] == 1.0, 1.0, -1.0)
    scores = grid * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    return float(logsumexp(log_expit(sign * scores).sum(axis=1) + log_mass))


def log_evidence_of_few(Z):
    """Weights summed out: the scores of the four known pairs are Normal, whatever the number of features."""
    return log_evidence_of_shared(tuple(map(tuple, (Z.astype(int) @ Z.T.astype(int)).tolist())))


@cache
def finite_posterior_of_few():
    prior = pgfa.BetaBernoulli(3, a=1.5, b=1.0)
    matrices = np.ascontiguousarray(all_matrices(3, 3), dtype=np.uint8)
    log_prob = np.array([prior.log_prob(Z) + log_evidence_of_few(Z) for Z in matrices])
    return prior, {Z.tobytes(): i for i, Z in enumerate(matrices)}, np.exp(log_prob - logsumexp(log_prob))


@cache
def buffet_posterior_of_few():
    prior = pgfa.IndianBuffet()
    classes = left_ordered_classes(3, max_columns=5)
    log_prob = []
    for multiset in classes:
        Z, log_mass = buffet_class(prior, multiset, 3, 0.8)
        log_prob.append(log_mass + log_evidence_of_few(Z))
    return prior, {multiset: i for i, multiset in enumerate(classes)}, np.exp(np.array(log_prob) - logsumexp(log_prob))


def p_value_of_few(name, monkeypatch, *, num_draws=5000, thin=1):
    """Against a chain that does little else: sweeps in between would cover up what such rare moves do wrong."""
    monkeypatch.setattr(relational_columns, "_THREE_AND_TWO", 0.8)
    monkeypatch.setattr(three_and_two, "_ELSEWHERE", 0.3)
    prior, index, posterior = finite_posterior_of_few() if name == "finite" else buffet_posterior_of_few()
    model = pgfa.Relational(FEW, tau_prior=(HELD, HELD / TAU), column_moves=20)
    start = pgfa.State(np.eye(3, dtype=np.uint8), 0.8, {"V": np.zeros((3, 3)), "tau": TAU})
    chain = pgfa.Chain(model, prior, pgfa.Gibbs(), seed=5, state=start, update=("features", "parameters"))
    counts = np.zeros(posterior.size, dtype=np.int64)
    num_lost = 0
    for _ in range(num_draws):
        chain.step(thin)
        Z = np.ascontiguousarray(chain.state.Z)
        found = index.get(Z.tobytes() if name == "finite" else left_ordered(Z))
        if found is None:
            num_lost += 1
        else:
            counts[found] += 1
    assert num_lost <= num_draws / 30, "more columns than enumerated: seldom"
    return chi_square_p_value(counts, posterior)


@pytest.mark.parametrize("name", [pytest.param("finite", marks=pytest.mark.slow), "buffet"])
def test_three_for_two_against_the_enumerated_posterior(name, monkeypatch):
    assert p_value_of_few(name, monkeypatch, num_draws=3000) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("name", ["finite", "buffet"])
def test_three_for_two_against_the_enumerated_posterior_at_length(name, monkeypatch):
    assert p_value_of_few(name, monkeypatch, num_draws=20_000, thin=3) > SIGNIFICANCE


@pytest.mark.parametrize(
    ("name", "num_draws"), [("finite", 2500), pytest.param("buffet", 5000, marks=pytest.mark.slow)]
)
def test_a_choice_of_thirds_that_is_not_paid_for_is_noticed(name, num_draws, monkeypatch):
    honest = relational_columns._propose

    def careless(*arguments):
        proposal = honest(*arguments)
        return proposal and proposal._replace(log_ratio=0.0)

    monkeypatch.setattr(relational_columns, "_propose", careless)
    assert p_value_of_few(name, monkeypatch, num_draws=num_draws) < 1e-6


@pytest.mark.parametrize("through", [False, True])
def test_thirds_are_rated_by_the_rows_that_are_elsewhere(through):
    Z = (np.random.default_rng(2).random((9, 4)) < 0.5).astype(np.uint8)
    log_mass = -0.1 * np.arange(10.0) ** 2
    triples, log_weight, gain = three_and_two.rate_thirds(Z, log_mass, through, 0.02)
    assert len(triples) == 4 * 3 * (2 if through else 1)
    for (third, a, b), value, gained in zip(triples, log_weight - gain, gain, strict=True):
        whole_a = Z[:, a] if through else Z[:, a] ^ Z[:, third]
        whole_b = Z[:, b] ^ Z[:, third] ^ (Z[:, a] if through else 0)
        should = [whole_b & (1 - whole_a)] if through else [whole_a & whole_b, whole_a | whole_b]
        right = [(Z[:, third] == expected).sum() for expected in should]
        assert value == pytest.approx(np.log(np.mean([0.98**count * 0.02 ** (9 - count) for count in right])))
        before, after = (
            log_mass[np.sum(columns, axis=1)].sum() for columns in (Z.T[[third, a, b]], [whole_a, whole_b])
        )
        assert gained == pytest.approx(after - before)


def test_two_columns_told_as_three_are_put_together():
    """From the union of two columns and what each has alone: sweeps stay there, three for two finds the way."""
    rng = np.random.default_rng(1)
    Z = (rng.random((60, 2)) < 0.6).astype(np.uint8)
    V = 1.5 * rng.normal(size=(2, 2))
    data = (rng.random((60, 60)) < 1.0 / (1.0 + np.exp(-(Z.astype(float) @ V @ Z.T)))).astype(float)
    three = np.stack([Z[:, 0] | Z[:, 1], Z[:, 1] & ~Z[:, 0], Z[:, 0] & ~Z[:, 1]], axis=1).astype(np.uint8)
    scores = {}
    for column_moves in (0, 3):
        model = pgfa.Relational(data, column_moves=column_moves)
        start = pgfa.State(three, 1.0, {"V": np.zeros((3, 3)), "tau": 0.4})
        settled = pgfa.Chain(model, pgfa.IndianBuffet(), seed=1, state=start, update="parameters")
        settled.step(50)
        chain = pgfa.Chain(model, pgfa.IndianBuffet(), seed=1, state=settled.state)
        chain.step(60)
        scores[column_moves] = pgfa.metrics.b_cubed(Z, chain.state.Z).f
    assert scores[0] < 0.9
    assert scores[3] > 0.95


# --- slips ------------------------------------------------------------------------------------------------------------


def without_density(monkeypatch):
    monkeypatch.setattr(relational_columns, "_log_normal", lambda *arguments: 0.0)


def without_prior_of_columns(monkeypatch):
    monkeypatch.setattr(PRIOR.__class__, "log_column_mass", lambda self, num_rows, alpha: np.zeros(num_rows + 1))


def with_one_sided_chance(monkeypatch):
    there = []

    def chance(groups, columns):
        """Few ones, many tries; but the way back is taken to be as likely as the way there."""
        there.append(0.5 ** groups.vectors[: groups.top[0]].sum())
        return there[-1] if len(there) % 2 else there[-2]

    monkeypatch.setattr(relational_columns, "_chance", chance)


@pytest.mark.parametrize(
    "slip",
    [
        pytest.param(without_density, marks=pytest.mark.slow),
        pytest.param(without_prior_of_columns, marks=pytest.mark.slow),
        pytest.param(with_one_sided_chance, marks=pytest.mark.slow),
    ],
)
def test_slips_are_noticed(slip, monkeypatch):
    monkeypatch.setattr(relational_columns, "_COMPLEMENTS", 0.4)
    monkeypatch.setattr(relational_columns, "_THREE_AND_TWO", 0.0)
    enumerate_with_weights_summed_out(False)  # before the slip, for it is kept
    slip(monkeypatch)
    assert p_value(False, num_draws=24_000 if slip is with_one_sided_chance else 12_000) < 1e-6


def test_exchanged_columns_are_put_right():
    """From columns that are symmetric differences of the true ones: rows alone stay there, exchanges find the way."""
    rng = np.random.default_rng(1)
    Z = (rng.random((60, 4)) < 0.5).astype(np.uint8)
    V = 1.5 * rng.normal(size=(4, 4))
    data = (rng.random((60, 60)) < 1.0 / (1.0 + np.exp(-(Z.astype(float) @ V @ Z.T)))).astype(float)
    wrong = Z.copy()
    wrong[:, 0] ^= Z[:, 1]
    wrong[:, 2] ^= Z[:, 3]
    prior = pgfa.BetaBernoulli(4)
    scores = {}
    for column_moves in (0, 5):
        model = pgfa.Relational(data, column_moves=column_moves)
        start = pgfa.State(wrong, 1.0, {"V": np.zeros((4, 4)), "tau": 0.4})
        settled = pgfa.Chain(model, prior, seed=1, state=start, update="parameters")
        settled.step(50)
        chain = pgfa.Chain(model, prior, seed=1, state=settled.state)
        chain.step(100)
        scores[column_moves] = pgfa.metrics.b_cubed(Z, chain.state.Z).f
    assert scores[0] < 0.9
    assert scores[5] > 0.95


def test_no_proposals_without_columns():
    model = pgfa.Relational(np.eye(4))
    Z, V = np.zeros((4, 2), dtype=np.uint8), np.zeros((2, 2))
    settings = {
        "tau": 1.0,
        "bias": 0.0,
        "symmetric": False,
        "grows": False,
        "log_column_mass": np.zeros(5),
        "power": 1.0,
    }
    same_Z, same_V, accepted = exchange_columns(
        model._network, Z, V, num_proposals=3, rng=np.random.default_rng(1), **settings
    )
    assert same_Z is Z and same_V is V and accepted == 0


def test_crowded_networks_are_tried_seldom():
    rng = np.random.default_rng(3)
    crowded = make_groups((rng.random((100, 20)) < 0.3).astype(np.uint8))
    sparse = make_groups(np.eye(20, dtype=np.uint8).repeat(5, axis=0))
    assert relational_columns._chance(crowded, [0, 1]) < 0.25
    assert relational_columns._chance(sparse, [0, 1]) == 1.0


def test_number_of_proposals_is_checked():
    with pytest.raises(ValueError, match="column_moves"):
        pgfa.Relational(np.eye(3), column_moves=-1)
