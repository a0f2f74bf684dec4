"""Exchanges of whole columns in the relational model, held to exact distributions; and what they are for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from exactness import SIGNIFICANCE, all_matrices, chi_square_p_value, joint_p_values
from scipy.special import log_expit, logsumexp
from test_relational_exactness import HIDE, PRIORS, lowest, statistics, template

import pgfa
from pgfa.models import relational_columns
from pgfa.models.network import make_groups
from pgfa.models.relational_columns import exchange_columns

TAU = 0.3
HELD = 1e12  # a Gamma prior as narrow as this holds the precision
X = np.array([[1.0, 0.0, 1.0], [1.0, np.nan, 0.0], [1.0, 0.0, 0.0]])
PRIOR = pgfa.BetaBernoulli(2, a=0.8, b=1.3)


def enumerate_with_weights_summed_out(model):
    """Posterior of Z, of three nodes and two features, by Gauss-Hermite quadrature over the weights."""
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
    data = np.triu(X) + np.triu(X, 1).T if symmetric else X
    model = pgfa.Relational(data, symmetric, tau_prior=(HELD, HELD / TAU), column_moves=column_moves)
    posterior = enumerate_with_weights_summed_out(model)
    chain = pgfa.Chain(model, PRIOR, pgfa.Gibbs(), seed=4)
    index = {Z.tobytes(): i for i, Z in enumerate(np.ascontiguousarray(all_matrices(3, 2), dtype=np.uint8))}
    counts = np.zeros(len(posterior), dtype=np.int64)
    for _ in range(num_draws):
        chain.step(thin)
        counts[index[np.ascontiguousarray(chain.state.Z).tobytes()]] += 1
    rate = chain.step_sizes["columns"].acceptance_rate
    assert rate > 0.02
    return chi_square_p_value(counts, posterior)


@pytest.mark.parametrize("symmetric", [False, True])
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


@pytest.mark.parametrize("much_work", [1.0, 0.1])
@pytest.mark.parametrize("kind", ["directed", "symmetric with bias"])
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_joint_distribution(prior, kind, much_work, monkeypatch):
    """Where little work counts as much, most exchanges are not tried, and how often hangs on the state."""
    monkeypatch.setattr(relational_columns, "_MUCH_WORK", much_work)
    symmetric = kind != "directed"
    p_values = joint_p_values(
        template(symmetric, self_links=not symmetric, bias=symmetric, column_moves=4), prior, pgfa.Gibbs(), statistics,
        num_replicates=500, num_rounds=5, seed=15, update=("features",), hide=HIDE | HIDE.T if symmetric else HIDE,
    )  # fmt: skip
    assert lowest(p_values) > SIGNIFICANCE, p_values


def without_density(monkeypatch):
    monkeypatch.setattr(relational_columns, "_log_normal", lambda *arguments: 0.0)


def without_prior_of_columns(monkeypatch):
    monkeypatch.setattr(PRIOR.__class__, "log_column_mass", lambda self, num_rows, alpha: np.zeros(num_rows + 1))


def with_one_sided_chance(monkeypatch):
    there = []

    def chance(groups, a, b):
        """Few ones, many tries; but the way back is taken to be as likely as the way there."""
        there.append(0.5 ** groups.vectors[: groups.top[0]].sum())
        return there[-1] if len(there) % 2 else there[-2]

    monkeypatch.setattr(relational_columns, "_chance", chance)


@pytest.mark.parametrize("slip", [without_density, without_prior_of_columns, with_one_sided_chance])
def test_slips_are_noticed(slip, monkeypatch):
    monkeypatch.setattr(relational_columns, "_COMPLEMENTS", 0.4)
    slip(monkeypatch)
    assert p_value(False) < 1e-6


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
    settings = {"tau": 1.0, "bias": 0.0, "symmetric": False, "log_column_mass": np.zeros(5), "power": 1.0}
    same_Z, same_V, accepted = exchange_columns(
        model._network, Z, V, num_proposals=3, rng=np.random.default_rng(1), **settings
    )
    assert same_Z is Z and same_V is V and accepted == 0


def test_crowded_networks_are_tried_seldom():
    rng = np.random.default_rng(3)
    crowded = make_groups((rng.random((100, 20)) < 0.3).astype(np.uint8))
    sparse = make_groups(np.eye(20, dtype=np.uint8).repeat(5, axis=0))
    assert relational_columns._chance(crowded, 0, 1) < 0.25
    assert relational_columns._chance(sparse, 0, 1) == 1.0


def test_number_of_proposals_is_checked():
    with pytest.raises(ValueError, match="column_moves"):
        pgfa.Relational(np.eye(3), column_moves=-1)
