"""Column moves against enumerated posteriors with the values of the features integrated out, and against the prior."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

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
from scipy import stats
from test_joint import EACH_UPDATE, HIDE, PRIORS, lowest, statistics, template

import pgfa
from pgfa.models.linear_gaussian import draw_loadings
from pgfa.samplers import column_block, joint_flip, singleton_exchange, three_and_two

KINDS = [
    pgfa.ColumnBlock(1, "all", 2),
    pgfa.ColumnBlock(2, "all", 3),
    pgfa.ColumnBlock(2, "users", 2),
    pgfa.ColumnBlock(3, "all", 3),
    pgfa.ColumnBlock(3, "users", 2),
    pgfa.ThreeAndTwo(1.0),
    pgfa.JointFlip(2.0, most_owners=3),
]
EXCHANGE = pgfa.SingletonExchange(2, rate=2.0)
X = np.array([[1.1, -0.2], [0.8, 1.3], [np.nan, 0.9], [0.4, -0.6]])
TAU_V, TAU_X, ALPHA = 0.8, 4.0, 1.5
INTERCEPT = np.array([0.2, -0.1])


def log_evidence(Z):
    """log p(X | Z) with V integrated out."""
    covariance = Z @ Z.T / TAU_V + np.eye(len(X)) / TAU_X
    total = 0.0
    for d in range(X.shape[1]):
        seen = ~np.isnan(X[:, d])
        total += stats.multivariate_normal.logpdf(
            X[seen, d], np.full(seen.sum(), INTERCEPT[d]), covariance[np.ix_(seen, seen)]
        )
    return total


@cache
def finite_problem():
    prior = pgfa.BetaBernoulli(3, b=0.8)
    matrices = all_matrices(4, 3)
    log_prob = np.array([prior.log_prob(Z, ALPHA) + log_evidence(Z.astype(int)) for Z in matrices])
    prob = np.exp(log_prob - log_prob.max())
    return prior, [Z for Z in matrices], prob / prob.sum(), {Z.tobytes(): i for i, Z in enumerate(matrices)}


@cache
def buffet_problem():
    prior = pgfa.IndianBuffet()
    classes = left_ordered_classes(4, max_columns=4)
    matrices, log_prob = [], []
    for multiset in classes:
        Z, log_mass = buffet_class(prior, multiset, 4, 0.25)
        matrices.append(Z)
        log_prob.append(log_mass + log_evidence(Z.astype(int)))
    prob = np.exp(np.array(log_prob) - max(log_prob))
    return prior, matrices, prob / prob.sum(), {multiset: i for i, multiset in enumerate(classes)}


def p_value(prior_name, moves, *, num_replicates, num_moves, seed=3):
    """Smallest p-value for Z and for how well the values fit, after moves from exact draws."""
    prior, matrices, prob, index = finite_problem() if prior_name == "finite" else buffet_problem()
    alpha = ALPHA if prior_name == "finite" else 0.25
    model = pgfa.LinearGaussian(X, intercept=True)
    centred = pgfa.LinearGaussian(X - INTERCEPT)
    counts = np.zeros(len(matrices), dtype=np.int64)
    misfit = []
    rng = np.random.default_rng(seed)
    num_lost = 0
    for start in rng.choice(len(matrices), size=num_replicates, p=prob):
        Z = matrices[start].copy()
        V = np.zeros((Z.shape[1], 2))
        draw_loadings(centred._table, Z, V, np.zeros(2), TAU_V, TAU_X, False, 0.0, 1.0, rng)
        state = pgfa.State(Z, alpha, {"V": V, "tau_v": TAU_V, "tau_x": TAU_X, "intercept": INTERCEPT})
        misfit.append([measure_misfit(state)])
        for _ in range(num_moves):
            state = moves[rng.integers(len(moves))].apply(model, prior, state, rng, 1.0)
        misfit[-1].append(measure_misfit(state))
        key = state.Z.tobytes() if prior_name == "finite" else left_ordered(state.Z)
        if key in index:
            counts[index[key]] += 1
        else:
            num_lost += 1
    assert num_lost <= num_replicates / 500, "more columns than enumerated: hardly ever"
    return min(chi_square_p_value(counts, prob), stats.ks_2samp(*np.transpose(misfit)).pvalue)


def measure_misfit(state):
    """Squared residuals, which show values that do not go with their columns."""
    return float(np.nansum((X - INTERCEPT - state.Z @ state.parameters["V"]) ** 2))


@pytest.mark.parametrize(
    ("move", "prior_name"), half({repr(move): move for move in KINDS}, {name: name for name in ("finite", "buffet")})
)
def test_each_kind_alone(prior_name, move):
    assert p_value(prior_name, [move], num_replicates=5000, num_moves=3) > SIGNIFICANCE


@pytest.mark.slow
def test_births_and_deaths_of_single_columns():
    """With two particles what guides them matters most: it must not depend on whether the column is in use now."""
    assert p_value("buffet", [KINDS[0]], num_replicates=15_000, num_moves=5, seed=4) > SIGNIFICANCE


@pytest.mark.parametrize("most_owners", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("prior_name", ["finite", "buffet"])
def test_exchange_of_singletons_alone(prior_name, most_owners):
    move = replace(EXCHANGE, most_owners=most_owners)
    assert p_value(prior_name, [move], num_replicates=10_000, num_moves=3) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior_name", "wrong"), [("buffet", "rate"), ("buffet", "prior"), ("finite", "rate"), ("finite", "prior")]
)
def test_exchange_at_wrong_odds_is_noticed(prior_name, wrong, monkeypatch):
    def careless(kernel, rows, Z, owners, log_odds, column, row, log_rate, is_finite, most_owners, rng):
        log_rate += 0.4 * (wrong == "rate")
        log_odds = log_odds + 1.0 * (wrong == "prior")
        return honest(kernel, rows, Z, owners, log_odds, column, row, log_rate, is_finite, most_owners, rng)

    honest = singleton_exchange.exchange
    monkeypatch.setattr(singleton_exchange, "exchange", careless)
    assert p_value(prior_name, [EXCHANGE], num_replicates=15_000, num_moves=3) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("prior_name", ["finite", "buffet"])
def test_three_and_two_at_wrong_odds_are_noticed(prior_name, monkeypatch):
    def careless(*arguments):
        proposal = honest(*arguments)
        return proposal and proposal._replace(log_ratio=0.0)

    honest = three_and_two.propose_three
    monkeypatch.setattr(three_and_two, "_ELSEWHERE", 0.3)
    monkeypatch.setattr(three_and_two, "propose_three", careless)
    assert p_value(prior_name, [pgfa.ThreeAndTwo(6.0)], num_replicates=10_000, num_moves=3) < 1e-6


@pytest.mark.parametrize("prior_name", [pytest.param("finite", marks=pytest.mark.slow), "buffet"])
def test_three_and_two_with_many_rows_elsewhere(prior_name, monkeypatch):
    monkeypatch.setattr(three_and_two, "_ELSEWHERE", 0.3)
    assert p_value(prior_name, [pgfa.ThreeAndTwo(6.0)], num_replicates=10_000, num_moves=3) > SIGNIFICANCE


def without_prior(view, Z, columns, log_mass, *rest):
    honest_flips(view, Z, columns, np.zeros_like(log_mass), *rest)


def without_new_values(view, *rest):
    honest_flips(view._replace(V=view.V.copy()), *rest)


honest_flips = joint_flip.flip_together


@pytest.mark.parametrize("careless", [without_prior, without_new_values])
def test_careless_joint_flips_are_noticed(careless, monkeypatch):
    monkeypatch.setattr(joint_flip, "flip_together", careless)
    assert p_value("finite", [pgfa.JointFlip(2.0, 3)], num_replicates=10_000, num_moves=3) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("move", [*KINDS, KINDS], ids=str)
@pytest.mark.parametrize("prior_name", ["finite", "buffet"])
def test_each_kind_alone_and_mixed_at_length(prior_name, move):
    moves = [*move, EXCHANGE] if isinstance(move, list) else [move]
    assert p_value(prior_name, moves, num_replicates=40_000, num_moves=5, seed=4) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("prior_name", ["finite", "buffet"])
def test_exchange_of_singletons_at_length(prior_name):
    assert p_value(prior_name, [EXCHANGE], num_replicates=100_000, num_moves=5, seed=4) > SIGNIFICANCE


@pytest.mark.parametrize(("prior", "update"), half(PRIORS, dict(reversed(EACH_UPDATE.items()))))
def test_geweke_with_row_sweeps(prior, update):
    assert geweke_p_value(prior, update, num_replicates=1200) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("update", EACH_UPDATE.values(), ids=EACH_UPDATE)
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_geweke_with_row_sweeps_at_length(prior, update):
    assert geweke_p_value(prior, update, num_replicates=6000) > SIGNIFICANCE


def geweke_p_value(prior, update, num_replicates):
    p_values = joint_p_values(
        template(intercept=True, intercept_prior=(0.5, 2.0)), prior, pgfa.DiscreteParticleFilter(3), statistics,
        num_replicates=num_replicates, num_rounds=6, seed=21, hide=HIDE, update=update, column_moves=[*KINDS, EXCHANGE],
    )  # fmt: skip
    print(p_values)  # shown where the test fails
    return lowest(p_values)


def prior_recovery_p_value(prior, num_replicates=1500):
    """Does the prior come back where all data are missing?"""
    model = pgfa.LinearGaussian(np.full((5, 2), np.nan))
    rng = np.random.default_rng(3)
    ends = []
    for _ in range(num_replicates):
        chain = pgfa.Chain(model, prior, pgfa.Gibbs(), seed=rng, column_moves=[*KINDS, EXCHANGE])
        chain.step(5)
        ends.append(chain.state.Z)
    direct = [prior.sample(rng, 5, prior.sample_alpha(rng)) for _ in range(20_000)]
    p_values = []
    for statistic in (lambda Z: Z.any(axis=0).sum(), lambda Z: Z.sum(), lambda Z: (Z.sum(axis=0) == 1).sum()):
        mine, theirs = ([int(statistic(Z)) for Z in draws] for draws in (ends, direct))
        p_values.append(stats.ks_2samp(mine, theirs).pvalue)
    return min(p_values)


SIX = pgfa.BetaBernoulli(6, alpha_shape=4.0, alpha_rate=1.0)


@pytest.mark.parametrize("prior", [pytest.param(SIX, marks=pytest.mark.slow), PRIORS["buffet"]], ids=repr)
def test_without_data_the_prior_comes_back(prior):
    assert prior_recovery_p_value(prior) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("prior", [SIX, PRIORS["buffet"]], ids=repr)
def test_a_choice_that_is_not_paid_for_is_noticed(prior, monkeypatch):
    def free(size, num_outside, num_slots):
        log_prob = honest(size, num_outside, num_slots)
        return np.where(np.isfinite(log_prob), 0.0, log_prob)

    honest = column_block._log_selection
    monkeypatch.setattr(column_block, "_log_selection", free)
    assert prior_recovery_p_value(prior) < SIGNIFICANCE / 100


@pytest.mark.parametrize(("size", "num_outside", "num_slots"), [(1, 2, 5), (2, 1, 4), (3, 0, 3), (2, 2, None)])
def test_the_choice_of_columns_has_the_stated_probability(size, num_outside, num_slots):
    """Against counting: for a state with given use, how likely is one particular group?"""
    log_prob = column_block._log_selection(size, num_outside, num_slots)
    for in_use in range(size + 1):
        num_used = num_outside + in_use
        num_empty = 1 if num_slots is None else num_slots - num_used
        empties = size - in_use
        if num_empty < 0 or empties > min(num_empty, 1):
            assert log_prob[in_use] == -np.inf or num_empty < 0
            continue
        candidates = num_used + min(num_empty, 1)
        rng = np.random.default_rng(1)
        group = set(range(in_use)) | ({num_used} if empties else set())
        hits = 0
        for _ in range(20_000):
            chosen = set(rng.choice(candidates, size=size, replace=False).tolist())
            hits += chosen == group and (not empties or rng.integers(num_empty) == 0)
        expected = np.exp(log_prob[in_use])
        assert abs(hits / 20_000 - expected) < 5 * np.sqrt(expected / 20_000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pgfa.ColumnBlock(4), "num_columns must be 1, 2 or 3"),
        (lambda: pgfa.ColumnBlock(1, "users"), "rows='users' needs num_columns of at least 2"),
        (lambda: pgfa.ColumnBlock(2, "some"), "rows must be one of 'all', 'users'"),
        (lambda: pgfa.ColumnBlock(2, "all", 1), "num_particles"),
        (lambda: pgfa.ColumnBlock(2, "all", 3, 0.0), "rate must be a positive"),
        (lambda: pgfa.SingletonExchange(1), "num_particles"),
        (lambda: pgfa.SingletonExchange(rate=-1.0), "rate must be a positive"),
        (lambda: pgfa.SingletonExchange(most_owners=0), "most_owners"),
        (
            lambda: pgfa.Chain(pgfa.LinearGaussian([[1.0]]), pgfa.IndianBuffet(), column_moves=["q"]),
            "column_moves must be ColumnBlocks",
        ),
    ],
)
def test_bad_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()
