"""Every kernel of the PyClone model against what it must leave invariant; and kernels broken on purpose."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from exactness import (
    SIGNIFICANCE,
    all_matrices,
    assert_from_the_prior,
    chi_square_p_value,
    count_ends,
    enumerate_posterior,
    everyday,
    joint_p_values,
)
from scipy import stats

import pgfa
from pgfa._compile import implements
from pgfa.models import pyclone_columns, pyclone_posterior, pyclone_rows, pyclone_updates
from pgfa.models.pyclone_columns import _change_owners, weigh_column, weigh_split
from pgfa.models.pyclone_rows import CloneRows
from pgfa.models.pyclone_shares import EVERYONE
from pgfa.models.pyclone_table import OPTIONAL, REQUIRED
from pgfa.models.pyclone_updates import MOVES, Copies, Exchange, Langevin, move_sample
from pgfa.rows import begin_row, draw_feature, flip, flipped, propose_singletons, spawn, start
from pgfa.samplers import three_and_two
from pgfa.small_matrices import solve_upper

COLUMNS = [*REQUIRED, *OPTIONAL]
DENSITIES = ["binomial", "beta-binomial"]
DENSITIES_AND_POWERS = [
    ("binomial", 1.0),
    ("beta-binomial", 0.3),
    pytest.param("binomial", 0.3, marks=pytest.mark.slow),
    pytest.param("beta-binomial", 1.0, marks=pytest.mark.slow),
]
SAMPLERS = [pgfa.Gibbs(), pgfa.ParticleGibbs(3), pgfa.DiscreteParticleFilter(3), pgfa.RowGibbs()]
PRIORS = {
    "finite": pgfa.BetaBernoulli(3, alpha_shape=2.0),
    "buffet": pgfa.IndianBuffet(alpha_shape=2.0, alpha_rate=2.0),
}


def small_table():
    """Four mutations in two samples, shallow, with one entry missing and one without reads."""
    spec = [
        ("m0", "s0", 20, 2, 0, 2, 1.0),
        ("m0", "s1", 10, 1, 1, 2, 0.5),
        ("m1", "s0", 15, 3, 1, 2, 0.8),
        ("m1", "s1", 0, 2, 1, 2, 1.0),
        ("m2", "s0", 8, 1, 0, 1, 0.3),
        ("m2", "s1", 30, 2, 2, 2, 1.0),
        ("m3", "s0", 12, 4, 0, 2, 0.6),
    ]
    rows = [
        (n, m, depth - depth // 3, depth // 3, major, minor, normal, t, 0.01)
        for n, m, depth, major, minor, normal, t in spec
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def template(**options):
    return pgfa.PyClone(small_table(), v_prior=(1.5, 1.0), precision_prior=(4.0, 0.3), **options)


# --- rows, at fixed V -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("density", "power"), DENSITIES_AND_POWERS)
@pytest.mark.parametrize("sampler", everyday(SAMPLERS), ids=repr)
@pytest.mark.parametrize("name", PRIORS)
def test_rows_leave_the_enumerated_posterior(name, sampler, density, power):
    prior = pgfa.BetaBernoulli(3) if name == "finite" else pgfa.IndianBuffet()
    table = small_table()
    model = pgfa.PyClone(table[table["mutation_id"] != "m3"], density)
    rng = np.random.default_rng(5)
    parameters = {"V": rng.gamma(2.0, size=(3, 2))} | ({"precision": 20.0} if density == "beta-binomial" else {})
    target = enumerate_posterior(model, prior, parameters, 1.3, 3, restrict_to_used=name == "buffet", power=power)
    options = {"num_replicates": 20_000, "num_sweeps": 2, "power": power}
    counts = count_ends(model, prior, sampler, parameters, 1.3, 3, target, seed=3, **options)
    assert chi_square_p_value(counts, target) > SIGNIFICANCE

    # From one matrix, to see that the sampler moves at all, and where to.
    options = {"num_replicates": 2000, "num_sweeps": 60, "power": power, "start": int(np.argmax(target))}
    counts = count_ends(model, prior, sampler, parameters, 1.3, 3, target, seed=4, **options)
    matrices = all_matrices(3, 3)
    found, expected = (np.tensordot(p, matrices, axes=1) for p in (counts / counts.sum(), target))
    assert np.abs(found - expected).max() < 0.05


# --- V, where its posterior is one-dimensional ------------------------------------------------------------------------


def one_dimensional(model, Z, power, precision, grid=20_001):
    """Shares of the first of two populations in a sample, and their distribution function, on a grid."""
    shape = model.v_prior[0]
    r = np.linspace(1e-7, 1.0 - 1e-7, grid)
    log_lik = np.empty((grid, model.num_samples))
    parts = [model.with_data(pd.DataFrame(model.table[model.table["sample_id"] == m])) for m in model.sample_ids]
    rows = [[model.mutation_ids.index(n) for n in part.mutation_ids] for part in parts]
    for j, share in enumerate(r):
        V = np.array([[share], [1.0 - share]])
        for m, part in enumerate(parts):
            log_lik[j, m] = part.log_likelihood(Z[rows[m]], {"V": V} | precision)
    log_density = power * log_lik + (shape - 1.0) * (np.log(r) + np.log1p(-r))[:, np.newaxis]
    density = np.exp(log_density - log_density.max(axis=0))
    return r, np.cumsum(density, axis=0) / density.sum(axis=0)


@pytest.mark.parametrize(("density", "power"), DENSITIES_AND_POWERS)
@pytest.mark.parametrize("move", MOVES)
def test_moves_of_V_leave_its_posterior(move, density, power):
    model = template(density=density, moves=(move, move))
    precision = {"precision": 15.0} if density == "beta-binomial" else {}
    Z = np.array([[1, 0], [0, 1], [1, 1], [1, 0]], dtype=np.uint8)
    r, cumulative = one_dimensional(model, Z, power, precision, grid=2001)
    rng = np.random.default_rng(7)
    sizes = model.make_step_sizes()
    for size in sizes.values():
        size.value = 0.7
    ends, sums = [], []
    for _ in range(3000):
        share = np.array([np.interp(rng.random(), cumulative[:, m], r) for m in range(2)])
        parameters = {"V": np.stack([share, 1.0 - share]) * rng.gamma(3.0, size=2)} | precision
        for _ in range(3):
            # The precision would move too, and with it the target: it is put back.
            model.update_parameters(Z, parameters, rng, power=power, step_sizes=sizes)
            parameters |= precision
        V = parameters["V"]
        ends.append(V[0] / V.sum(axis=0))
        sums.append(V.sum(axis=0))
    for m in range(2):
        quantiles = np.interp([end[m] for end in ends], r, cumulative[:, m])
        assert stats.kstest(quantiles, "uniform").pvalue > SIGNIFICANCE
        assert stats.kstest([s[m] for s in sums], stats.gamma(3.0).cdf).pvalue > SIGNIFICANCE


def test_precision_leaves_its_posterior():
    model = template(density="beta-binomial", moves=("exchange",))
    Z = np.array([[1, 0], [0, 1], [1, 1], [1, 0]], dtype=np.uint8)
    V = np.array([[1.0, 2.0], [3.0, 1.0]])
    grid = np.exp(np.linspace(np.log(0.01), np.log(200.0), 4001))
    log_density = np.array([0.6 * model.log_likelihood(Z, {"V": V, "precision": s}) for s in grid])
    log_density += stats.gamma.logpdf(grid, 4.0, scale=1.0 / 0.3) + np.log(grid)
    cumulative = np.cumsum(np.exp(log_density - log_density.max()))
    cumulative /= cumulative[-1]
    rng = np.random.default_rng(8)
    sizes = model.make_step_sizes()
    sizes["precision"].value = 0.8
    ends = []
    for _ in range(3000):
        parameters = {"V": V.copy(), "precision": float(np.interp(rng.random(), cumulative, grid))}
        for _ in range(4):
            model.update_parameters(Z, parameters, rng, power=0.6, step_sizes=sizes)
            parameters["V"] = V.copy()
        ends.append(parameters["precision"])
    assert stats.kstest(np.interp(ends, grid, cumulative), "uniform").pvalue > SIGNIFICANCE


# --- the number of populations ----------------------------------------------------------------------------------------


@cache
def two_mutations():
    """A model of two mutations in one sample, a concentration, and the log likelihood of each at prevalences phi."""
    rows = [("m0", "s0", 9, 11, 1, 1, 2, 1.0, 0.01), ("m1", "s0", 20, 4, 2, 1, 2, 0.9, 0.01)]
    model = pgfa.PyClone(pd.DataFrame(rows, columns=COLUMNS), v_prior=(0.8, 1.0))
    singles = [model.with_data(pd.DataFrame(model.table.iloc[[n]])) for n in range(2)]
    phi = np.linspace(1e-9, 1.0 - 1e-9, 4001)
    curves = [
        [single.log_likelihood(np.array([[1, 0]], dtype=np.uint8), {"V": np.array([[p], [1.0 - p]])}) for p in phi]
        for single in singles
    ]
    for single, curve in zip(singles, curves):
        curve[0] = single.log_likelihood(np.zeros((1, 0), dtype=np.uint8), {"V": np.zeros((0, 1))})
    return model, 1.5, curves, phi


@cache
def buffet_problem(power, num_draws=100_000):
    """Two mutations in one sample: how many populations have the first only, the second only, both.

    Under the buffet these numbers are independent Poisson variables with mean alpha / 2, and given them what each kind
    has together is Dirichlet-distributed: so the posterior is known up to integrals, done here by brute force.
    """
    model, alpha, curves, phi = two_mutations()
    most = 11
    rng = np.random.default_rng(9)
    classes = [counts for counts in product(range(most + 1), repeat=3) if sum(counts) <= most]
    log_prob, particles = [], []
    for counts in classes:
        shape = 0.8 * np.array(counts)
        V = np.where(shape > 0, rng.gamma(np.maximum(shape, 1e-9), size=(num_draws // (1 + sum(counts)), 3)), 0.0)
        total = np.maximum(V.sum(axis=1), 1e-300)
        log_lik = np.interp((V[:, 0] + V[:, 2]) / total, phi, curves[0])
        log_lik += np.interp((V[:, 1] + V[:, 2]) / total, phi, curves[1])
        best = (power * log_lik).max()
        weights = np.exp(power * log_lik - best)
        log_prob.append(stats.poisson.logpmf(counts, alpha / 2).sum() + best + np.log(weights.mean()))
        particles.append((V, np.cumsum(weights) / weights.sum()))
    prob = np.exp(np.array(log_prob) - max(log_prob))
    return model, alpha, classes, prob / prob.sum(), particles


def draw_start(classes, prob, particles, rng):
    """An exact draw of Z and V, up to the brute force above."""
    i = rng.choice(len(classes), p=prob)
    V, cumulative = particles[i]
    sums = V[min(np.searchsorted(cumulative, rng.random()), len(V) - 1)]
    columns, values = [], []
    for kind, count, total in zip(([1, 0], [0, 1], [1, 1]), classes[i], sums):
        parts = rng.gamma(0.8, size=count)
        columns += [kind] * count
        values += list(total * parts / parts.sum()) if count else []
    Z = np.array(columns, dtype=np.uint8).reshape(-1, 2).T
    return Z, np.maximum(np.array(values), 1e-280).reshape(-1, 1)


def buffet_p_value(power, num_replicates, *, singletons="informed", column_moves=0, kind=pgfa.PyClone, sweeps=True):
    """Exact draws of features and V, a few iterations, and the number of populations of each kind after them."""
    model, alpha, classes, prob, particles = buffet_problem(power)
    model = kind(model.table, v_prior=model.v_prior, singletons=singletons, column_moves=column_moves)
    rng = np.random.default_rng(10)
    counts = np.zeros(len(classes), dtype=np.int64)
    index = {c: i for i, c in enumerate(classes)}
    for _ in range(num_replicates):
        Z, V = draw_start(classes, prob, particles, rng)
        state = pgfa.State(Z, alpha, {"V": V})
        chain = pgfa.Chain(
            model, pgfa.IndianBuffet(), pgfa.DiscreteParticleFilter(3), seed=rng, update="features", state=state
        )
        if sweeps:
            chain.step(4, power=power)
            Z = chain.state.Z
        else:
            Z = model.move_columns(state, chain.prior, rng, power=power).Z
        end = (int(np.sum(Z[0] > Z[1])), int(np.sum(Z[1] > Z[0])), int(np.sum(Z[0] & Z[1])))
        # Where the classes end hardly anybody ought to be.
        counts[index.get(end, len(classes) - 1)] += 1
    return chi_square_p_value(counts, prob)


@pytest.mark.parametrize(("column_moves", "power"), [pytest.param(0, 1.0, marks=pytest.mark.slow), (4, 0.35)])
def test_buffet_with_two_mutations(column_moves, power):
    assert buffet_p_value(power, 2500, column_moves=column_moves) > SIGNIFICANCE


#: One in so many moves is a birth or death: only these, or only splits and mergers.
@pytest.mark.parametrize("birth_every", [1.0, pytest.param(np.inf, marks=pytest.mark.slow)])
def test_buffet_with_moves_of_whole_populations_alone(birth_every, monkeypatch):
    monkeypatch.setattr(pyclone_columns, "BIRTH_EVERY", birth_every)
    assert buffet_p_value(1.0, 2500, column_moves=12, sweeps=False) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.35])
@pytest.mark.parametrize(("singletons", "column_moves"), [("informed", 0), ("prior", 0), ("informed", 4)])
def test_buffet_with_two_mutations_at_length(singletons, column_moves, power):
    assert buffet_p_value(power, 12_000, singletons=singletons, column_moves=column_moves) > SIGNIFICANCE


def regrouping_p_value(density, power, monkeypatch, num_replicates=5000, num_moves=10):
    """Nothing but regroupings, which leave V as it is, against the posterior of Z given V."""
    monkeypatch.setattr(three_and_two, "_ELSEWHERE", 0.3)
    prior, table = pgfa.BetaBernoulli(3, a=1.5), small_table()
    model = pgfa.PyClone(table[table["mutation_id"] != "m3"], density)
    rng = np.random.default_rng(6)
    parameters = {"V": rng.gamma(2.0, size=(3, 2))} | ({"precision": 20.0} if density == "beta-binomial" else {})
    target = enumerate_posterior(model, prior, parameters, 1.3, 3, power=power)
    matrices = np.ascontiguousarray(all_matrices(3, 3), dtype=np.uint8)
    index = {Z.tobytes(): i for i, Z in enumerate(matrices)}
    counts = np.zeros(target.size, dtype=np.int64)
    num_accepted = 0
    log_mass = prior.log_column_mass(3, 1.3)
    given = pyclone_columns.Given(lambda Z, V: model.rows(Z, parameters | {"V": V}), prior, 1.3, log_mass, power)
    for code in rng.choice(target.size, size=num_replicates, p=target):
        Z = matrices[code].copy()
        for _ in range(num_moves):
            Z, V, accepted = pyclone_columns.regroup(given, Z, parameters["V"], rng)
            assert V is parameters["V"]
            num_accepted += accepted
        counts[index[Z.tobytes()]] += 1
    assert num_accepted > 0.03 * num_replicates
    return chi_square_p_value(counts, target)


@pytest.mark.parametrize(("density", "power"), DENSITIES_AND_POWERS)
def test_regroupings_leave_the_enumerated_posterior(density, power, monkeypatch):
    assert regrouping_p_value(density, power, monkeypatch) > SIGNIFICANCE


@pytest.mark.parametrize("name", ["propose_two", "propose_three"])
def test_regroupings_whose_choice_is_not_paid_for_are_found_out(name, monkeypatch):
    honest = getattr(pyclone_columns, name)

    def careless(*arguments):
        proposal = honest(*arguments)
        return proposal and proposal._replace(log_ratio=0.0)

    monkeypatch.setattr(pyclone_columns, name, careless)
    assert regrouping_p_value("beta-binomial", 0.3, monkeypatch) < 1e-6


def twins_p_value(num_replicates=6000, num_moves=6):
    """Exact draws of Z with three columns and V, then nothing but twins emptied and made."""
    prior = pgfa.BetaBernoulli(3, a=1.5)
    model, alpha, curves, phi = two_mutations()
    rng = np.random.default_rng(12)
    matrices = np.ascontiguousarray(all_matrices(2, 3), dtype=np.uint8)
    log_prob, particles = [], []
    for Z in matrices:
        V = rng.gamma(0.8, size=(20_000, 3))
        prevalences = V @ Z.T / V.sum(axis=1, keepdims=True)
        log_lik = sum(np.interp(prevalences[:, n], phi, curves[n]) for n in range(2))
        weights = np.exp(log_lik - log_lik.max())
        log_prob.append(prior.log_prob(Z, alpha) + log_lik.max() + np.log(weights.mean()))
        particles.append((V, np.cumsum(weights) / weights.sum()))
    prob = np.exp(np.array(log_prob) - max(log_prob))
    prob /= prob.sum()
    index = {Z.tobytes(): i for i, Z in enumerate(matrices)}
    counts = np.zeros(prob.size, dtype=np.int64)
    num_accepted = 0
    log_mass = prior.log_column_mass(2, alpha)
    given = pyclone_columns.Given(lambda Z, V: model.rows(Z, {"V": V}), prior, alpha, log_mass, 1.0)
    for i in rng.choice(prob.size, size=num_replicates, p=prob):
        draws, cumulative = particles[i]
        V = draws[min(np.searchsorted(cumulative, rng.random()), len(draws) - 1)][:, np.newaxis]
        Z = matrices[i].copy()
        for _ in range(num_moves):
            Z, V, accepted = pyclone_columns.empty_or_make_twin(given, Z, V, rng)
            num_accepted += accepted
        counts[index[Z.tobytes()]] += 1
    assert num_accepted > 0.2 * num_replicates
    return chi_square_p_value(counts, prob)


def test_twins_that_are_emptied_and_made_leave_the_enumerated_posterior():
    assert twins_p_value() > SIGNIFICANCE


def twin_without_choice(given, Z, V, k, donor, owners, log_ratio, rng):
    """Forgets how many twins there were to choose from."""
    sizes = owners.sum(), Z[:, k].sum()
    return _change_owners(given, Z, V, k, donor, owners, given.log_mass[sizes[0]] - given.log_mass[sizes[1]], rng)


def twin_without_prior(given, Z, V, k, donor, owners, log_ratio, rng):
    """Forgets the prior of Z."""
    sizes = owners.sum(), Z[:, k].sum()
    return _change_owners(
        given, Z, V, k, donor, owners, log_ratio - given.log_mass[sizes[0]] + given.log_mass[sizes[1]], rng
    )


def twin_without_jacobian(rows, k, others, donor, *arguments):
    """Forgets that shares are drawn as logits."""
    log_weight, logits, pools = weigh_column(rows, k, others, donor, *arguments)
    return log_weight + np.logaddexp(0.0, logits).sum() + np.logaddexp(0.0, -logits).sum(), logits, pools


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_change_owners", twin_without_choice),
        pytest.param("_change_owners", twin_without_prior, marks=pytest.mark.slow),
        pytest.param("weigh_column", twin_without_jacobian, marks=pytest.mark.slow),
    ],
)
def test_twins_without_corrections_are_found_out(name, wrong, monkeypatch):
    monkeypatch.setattr(pyclone_columns, name, wrong)
    assert twins_p_value() < 1e-6


def test_a_population_torn_into_twins_is_put_together():
    """Splits and mergers cannot, since none of the two has a mutation alone."""
    rng = np.random.default_rng(4)
    prior = pgfa.BetaBernoulli(4)
    truth = pgfa.simulate("pyclone", prior, rng=rng, num_rows=60, num_samples=4)
    Z = np.zeros((60, 4), dtype=np.uint8)
    Z[:, :2] = rng.random((60, 2)) < 0.6
    V = np.array([[1.0], [1.0], [0.3], [0.3]]) * rng.uniform(0.5, 1.5, size=(4, 4))
    model = truth.model.with_data(truth.model.sample_data(Z, {"V": V}, rng))
    torn = np.stack([Z[:, 0], Z[:, 1], Z[:, 1], Z[:, 3]], axis=1)
    halves = np.stack([V[0], 0.5 * V[1], 0.5 * V[1], V[2] + V[3]])
    given = pyclone_columns.Given(lambda Z, V: model.rows(Z, {"V": V}), prior, 1.0, prior.log_column_mass(60, 1.0), 1.0)
    for move, mends in ((pyclone_columns.split_or_merge, False), (pyclone_columns.empty_or_make_twin, True)):
        here = torn, halves
        for _ in range(100):
            *here, _ = move(given, *here, rng)
        assert np.array_equal(here[0][:, [0]], Z[:, [0]])
        assert (np.count_nonzero(here[0].any(axis=0)) == 2) == mends


def test_two_populations_told_as_three_are_put_together(monkeypatch):
    """One that has what both have in common, and as many cells as both together: only all three find the way back."""
    rng = np.random.default_rng(2)
    num_rows, num_samples = 150, 10
    Z = np.zeros((num_rows, 4), dtype=np.uint8)
    Z[:, :2] = rng.random((num_rows, 2)) < 0.8
    V = rng.uniform(0.5, 1.5, size=(4, num_samples))
    V[2:] += 1.5
    prior = pgfa.BetaBernoulli(4)
    other = pgfa.simulate("pyclone", prior, rng=rng, num_rows=num_rows, num_samples=num_samples).model
    model = other.with_data(other.sample_data(Z, {"V": V}, rng))
    common = Z[:, 0] & Z[:, 1]
    three = np.stack([Z[:, 0] ^ common, Z[:, 1] ^ common, common, Z[:, 3]], axis=1)
    start = pgfa.State(three, 1.0, {"V": np.stack([V[0], V[1], V[0] + V[1], V[2] + V[3] - V[0] - V[1]])})
    scores = {}
    for every in (np.inf, 3):
        monkeypatch.setattr(pyclone_columns, "REGROUPING_EVERY", every)
        chain = pgfa.Chain(model, prior, seed=1, state=start)
        chain.step(60)
        scores[every] = pgfa.metrics.b_cubed(Z, chain.state.Z).f
    assert scores[np.inf] < 0.9
    assert scores[3] > 0.95


@pytest.mark.parametrize(
    ("name", "density", "num_replicates", "num_iterations"),
    [
        ("finite", "beta-binomial", 120, 50),
        ("buffet", "binomial", 120, 50),
        pytest.param("finite", "binomial", 600, 100, marks=pytest.mark.slow),
        pytest.param("buffet", "beta-binomial", 600, 100, marks=pytest.mark.slow),
    ],
)
def test_at_power_zero_the_prior_comes_back(name, density, num_replicates, num_iterations):
    """With data that say a lot, from a fixed start far from typical: nothing may look at them.

    But for the precision, which walks too slowly to forget where it came from, and so starts from its prior.
    """
    prior, num_rows = PRIORS[name], 5
    rng = np.random.default_rng(11)
    truth = pgfa.simulate("pyclone", pgfa.BetaBernoulli(2, a=1.0), rng=3, num_rows=num_rows, num_samples=2)
    model = pgfa.PyClone(truth.data, density, v_prior=(1.5, 2.0), precision_prior=(4.0, 0.3))
    ends = []
    for _ in range(num_replicates):
        parameters = model.sample_parameters(rng, 3) | {"V": np.full((3, 2), 4.0)}
        state = pgfa.State(np.ones((num_rows, 3)), 0.3, parameters)
        chain = pgfa.Chain(model, prior, pgfa.DiscreteParticleFilter(3), seed=rng, state=state)
        chain.step(num_iterations, power=0.0)
        ends.append(chain.state)
    V = np.concatenate([end.parameters["V"].ravel() for end in ends])
    assert stats.kstest(V, stats.gamma(1.5, scale=0.5).cdf).pvalue > SIGNIFICANCE
    if density == "beta-binomial":
        precision = [end.parameters["precision"] for end in ends]
        assert stats.kstest(precision, stats.gamma(4.0, scale=1.0 / 0.3).cdf).pvalue > SIGNIFICANCE
    assert_from_the_prior(ends, prior, rng, np.random.default_rng(12), 10_000)


# --- the joint law ----------------------------------------------------------------------------------------------------


def statistics(state, X):
    V, Z = state.parameters["V"], state.Z
    F = V / V.sum(axis=0) if len(V) else V
    phi, X, used = Z @ F, np.nan_to_num(X), Z.any(axis=0)
    return {
        "alpha": state.alpha,
        "precision": float(state.parameters.get("precision", 0.0)),
        "used features": float(used.sum()),
        "ones": float(Z.sum()),
        "singletons": float((Z.sum(axis=0) == 1).sum()),
        "owners of the first row's features": float((Z[0] @ Z.T).sum()),
        "sum of V": float(V[:, 0].sum()),
        "log V": float(np.log(V[used]).sum()),
        "least share": float(F.min(initial=1.0)),
        "squares of used shares": float(np.sum(F[used] ** 2)),
        "prevalences": float(phi.sum()),
        "first prevalence": float(phi[0, 0]),
        "squares of prevalences": float(np.sum(phi**2)),
        "reads": float(X.sum()),
        "reads with prevalences": float(np.sum(X * phi)),
    }


def lowest(p_values):
    return min(p_values.values())


#: Also without the other updates: draws of V right after a sweep cover up much of what the sweep did wrong.
UPDATES = [("features", "parameters", "concentration"), ("features",)]


@pytest.mark.parametrize(
    ("name", "density", "update"),
    [
        ("finite", "beta-binomial", UPDATES[0]),
        ("buffet", "binomial", UPDATES[0]),
        ("finite", "binomial", UPDATES[1]),
        ("buffet", "beta-binomial", UPDATES[1]),
    ],
)
def test_geweke(name, density, update):
    sampler = pgfa.Mixture([(1, sampler) for sampler in SAMPLERS])
    p_values = joint_p_values(
        template(density=density, column_moves=2), PRIORS[name], sampler, statistics,
        num_replicates=700, num_rounds=5, seed=13, update=update,
    )  # fmt: skip
    assert lowest(p_values) > SIGNIFICANCE, p_values


@pytest.mark.slow
@pytest.mark.parametrize("update", UPDATES, ids=len)
@pytest.mark.parametrize("column_moves", [0, 3])
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_geweke_at_length(prior, density, column_moves, update):
    p_values = joint_p_values(
        template(density=density, column_moves=column_moves), prior, pgfa.DiscreteParticleFilter(3), statistics,
        num_replicates=3000, num_rounds=8, seed=14, update=update,
    )  # fmt: skip
    assert lowest(p_values) > SIGNIFICANCE, p_values


@pytest.mark.slow
@pytest.mark.parametrize("move", MOVES)
def test_geweke_of_each_move(move):
    model = template(density="beta-binomial", moves=(move,))
    p_values = joint_p_values(
        model, PRIORS["finite"], pgfa.Gibbs(), statistics,
        num_replicates=4000, num_rounds=8, seed=15, update="parameters",
    )  # fmt: skip
    assert lowest(p_values) > SIGNIFICANCE, p_values


# --- broken on purpose ------------------------------------------------------------------------------------------------


class SelfishRows(NamedTuple):
    """A row view whose singletons look at their own row only, though they take their share from all."""

    inner: CloneRows
    Z: np.ndarray
    V: np.ndarray

    def make_block(self, num_particles):
        return self.inner.make_block(num_particles)


for _generic, _body in (
    (begin_row, lambda rows, n: begin_row(rows.inner, n)),
    (start, lambda rows, n, z, block: start(rows.inner, n, z, block)),
    (
        flipped,
        lambda rows, n, k, sign, block, log_lik, count, out: flipped(
            rows.inner, n, k, sign, block, log_lik, count, out
        ),
    ),
    (flip, lambda rows, n, k, sign, block: flip(rows.inner, n, k, sign, block)),
    (
        spawn,
        lambda rows, n, k, sign, block, parents, flips, count, out: spawn(
            rows.inner, n, k, sign, block, parents, flips, count, out
        ),
    ),
):
    implements(_generic, SelfishRows)(_body)


@implements(draw_feature, SelfishRows)
def _draw_feature(rows, k, rng):
    for m in range(rows.V.shape[1]):
        rows.V[k, m] = rng.gamma(rows.inner.shape, 1.0 / rows.inner.rate)


@implements(propose_singletons, SelfishRows)
def _propose_selfishly(rows, n, z, old, new, block, power, rng):
    log_ratio = -start(rows, n, z, block)
    for k in new:
        draw_feature(rows, k, rng)
        z[k] = 1
    saved = rows.V[old].copy()
    for k in old:
        z[k] = 0
        rows.V[k] = 0.0
    pyclone_rows.normalise(rows.V, rows.inner.F)
    log_ratio += start(rows, n, z, block)
    accepted = np.log(rng.random()) < power * log_ratio
    for k in new:
        z[k] = 0
        if not accepted:
            rows.V[k] = 0.0
    for i in range(old.size):
        z[old[i]] = 1
        if not accepted:
            rows.V[old[i]] = saved[i]
    pyclone_rows.normalise(rows.V, rows.inner.F)
    return accepted


class SelfishModel(pgfa.PyClone):
    def rows(self, Z, parameters):
        inner = super().rows(Z, parameters)
        return SelfishRows(inner, Z, parameters["V"])

    def with_data(self, data):
        model = super().with_data(data)
        model.__class__ = SelfishModel
        return model


@pytest.mark.slow
def test_singletons_that_look_at_their_own_row_only_are_found_out():
    assert buffet_p_value(1.0, 2500, kind=SelfishModel) < SIGNIFICANCE


def split_without_jacobian(rows, k, h, *arguments):
    """Forgets that shares are drawn on the logit scale."""
    log_weight, split, merged = weigh_split(rows, k, h, *arguments)
    jacobian = np.log(rows.V[k] + rows.V[h]) - np.logaddexp(0.0, split) - np.logaddexp(0.0, -split)
    return log_weight - jacobian.sum(), split, merged


def split_without_choices(rows, k, h, anchor, owners, choices, *arguments):
    """Forgets that each owner but the anchor had a choice of three."""
    log_weight, split, merged = weigh_split(rows, k, h, anchor, owners, choices, *arguments)
    return log_weight - np.log(3.0) * (owners.size - 1), split, merged


def birth_without_jacobian(rows, k, others, donor, *arguments):
    """Forgets that, where everyone gives, the new share is drawn on the logarithmic scale."""
    log_weight, logits, pools = weigh_column(rows, k, others, donor, *arguments)
    jacobian = logits + np.log(pools) if donor == EVERYONE else np.zeros(1)
    return log_weight - jacobian.sum(), logits, pools


@pytest.mark.parametrize(
    ("name", "wrong", "birth_every"),
    [
        ("weigh_split", split_without_jacobian, np.inf),
        ("weigh_split", split_without_choices, np.inf),
        ("weigh_column", birth_without_jacobian, 1.0),
    ],
)
def test_moves_of_whole_populations_without_their_corrections_are_found_out(name, wrong, birth_every, monkeypatch):
    monkeypatch.setattr(pyclone_columns, name, wrong)
    monkeypatch.setattr(pyclone_columns, "BIRTH_EVERY", birth_every)
    assert buffet_p_value(1.0, 1500, column_moves=12, sweeps=False) < SIGNIFICANCE


class NoJacobian(NamedTuple):
    step: float
    repeats: int


@implements(move_sample, NoJacobian)
def _move_without_jacobian(kind, target, m, point, proposal, reserve, rng):
    """Halves or doubles a share as `Copies` does, and forgets what that does to volumes."""
    pyclone_posterior.evaluate(target, m, point)
    for k in range(point.u.size):
        proposal.u[:] = point.u
        partner = (k + 1) % point.u.size
        left = point.v[partner] + point.v[k] * (0.5 if rng.random() < 0.5 else -1.0)
        if left > 0.0:
            proposal.u[k] += np.log(0.5) if left > point.v[partner] else np.log(2.0)
            proposal.u[partner] = np.log(left)
            pyclone_updates._accept(target, m, point, proposal, 0.0, rng)
    return 0, 1


class SilentLangevin(NamedTuple):
    step: float
    repeats: int


@implements(move_sample, SilentLangevin)
def _move_without_drift_back(kind, target, m, point, proposal, reserve, rng):
    """Langevin steps that are accepted as if they were symmetric."""
    pyclone_updates.shape_proposals(target, m, point)
    for k in range(point.u.size):
        proposal.u[k] = rng.standard_normal()
    solve_upper(point.factor, proposal.u, proposal.u)
    for k in range(point.u.size):
        proposal.u[k] = point.u[k] + 0.5 * point.drift[k] + proposal.u[k]
    pyclone_updates._accept(target, m, point, proposal, 0.0, rng)
    return 0, 1


@pytest.mark.parametrize(("name", "wrong"), [("copies", NoJacobian), ("langevin", SilentLangevin)])
def test_moves_of_V_without_their_corrections_are_found_out(name, wrong, monkeypatch):
    monkeypatch.setitem(MOVES, name, wrong)
    with pytest.raises(AssertionError):
        test_moves_of_V_leave_its_posterior(name, "binomial", 1.0)


def test_kinds_are_what_they_say():
    assert MOVES["copies"] is Copies and MOVES["exchange"] is Exchange and MOVES["langevin"] is Langevin
