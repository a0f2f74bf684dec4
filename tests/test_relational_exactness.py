"""The relational model held to exact distributions: enumeration, quadrature, prior recovery, Geweke's test."""

from __future__ import annotations

from collections import namedtuple
from functools import cache

import numpy as np
import pytest
from exactness import (
    SIGNIFICANCE,
    all_matrices,
    assert_from_the_prior,
    buffet_class,
    chi_square_p_value,
    count_ends,
    enumerate_posterior,
    everyday,
    half,
    joint_p_values,
    left_ordered,
    left_ordered_classes,
    rebuild,
)
from scipy import stats

import pgfa
from pgfa._compile import implements
from pgfa.models import relational, relational_rows, relational_singletons
from pgfa.models.network import Network, make_network
from pgfa.models.relational_rows import ADDITIVE, PRODUCT, WEIGHTED, LinkRows, link_rows
from pgfa.models.relational_weights import move_weights
from pgfa.rows import begin_row, draw_feature, end_row, flip, flipped, propose_singletons, spawn, start

SAMPLERS = [
    pgfa.Gibbs(),
    pgfa.ParticleGibbs(3),
    pgfa.DiscreteParticleFilter(3),
    pgfa.RowGibbs(),
    pgfa.ParticleGibbs(3, test_path="ones", resampling="stratified"),
    pgfa.DiscreteParticleFilter(3, test_path="random"),
]


def at_length(value):
    return pytest.param(value, marks=pytest.mark.slow)


@implements(rebuild, LinkRows)
def _look_anew(rows, Z):
    for n in range(Z.shape[0]):
        end_row(rows, n, Z[n])


# --- rows against enumeration ----------------------------------------------------------------------------------------

#: symmetric, self_links, bias, missing
KINDS = {
    "directed": (False, True, False, False),
    "directed without diagonal": (False, False, False, False),
    "directed with holes": (False, True, False, True),
    "directed with holes and bias": (False, False, True, True),
    "symmetric": (True, True, False, False),
    "symmetric without diagonal": (True, False, False, False),
    "symmetric with holes": (True, True, False, True),
    "symmetric with holes and bias": (True, False, True, True),
}


@cache
def problem(kind: str, size: float = 1.0):
    """Three nodes, three features. With a larger `size` the third feature has weights that hardly allow it."""
    symmetric, self_links, bias, missing = KINDS[kind]
    rng = np.random.default_rng(3)
    V = 1.3 * rng.normal(size=(3, 3))
    V[2] += size - 1.0
    V[:, 2] += size - 1.0
    X = np.array([[1.0, 1, 0], [0, 0, 1], [1, 0, 0]])
    if missing:
        X[0, 1] = X[2, 2] = np.nan
    if symmetric:
        V = np.triu(V) + np.triu(V, 1).T
        X = np.triu(X) + np.triu(X, 1).T
    parameters = {"V": V, "tau": 0.5} | ({"bias": -0.4} if bias else {})
    return pgfa.Relational(X, symmetric, self_links, bias), parameters


def p_value(sampler, kind, *, size=1.0, prior=None, power=1.0, model=None, num_replicates=12_000, **options) -> float:
    truth, parameters = problem(kind, size)
    prior = pgfa.BetaBernoulli(3, b=0.7) if prior is None else prior
    posterior = enumerate_posterior(truth, prior, parameters, 2.0, 3, restrict_to_used=prior.grows, power=power)
    assert posterior.max() < 0.5
    counts = count_ends(
        truth if model is None else model, prior, sampler, parameters, 2.0, 3, posterior,
        num_replicates=num_replicates, seed=5, power=power, **options,
    )  # fmt: skip
    return chi_square_p_value(counts, posterior)


@pytest.mark.parametrize("num_replicates", [12_000, at_length(100_000)])
@pytest.mark.parametrize("sampler", everyday(SAMPLERS), ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_rows(kind, sampler, num_replicates):
    assert p_value(sampler, kind, num_replicates=num_replicates) > SIGNIFICANCE


@pytest.fixture
def grouping(monkeypatch):
    """Share evaluations between nodes with equal features even where there are hardly any."""
    monkeypatch.setattr(relational_rows, "NODES_PER_GROUP", 0.0)


@pytest.mark.parametrize("sampler", everyday(SAMPLERS), ids=repr)
@pytest.mark.parametrize("kind", ["directed with holes and bias", "symmetric with holes"])
def test_rows_with_shared_evaluations(kind, sampler, grouping):
    model, parameters = problem(kind)
    assert model.rows(np.zeros((3, 3), dtype=np.uint8), parameters).grouped
    assert p_value(sampler, kind) > SIGNIFICANCE


@pytest.mark.parametrize("sampler", everyday(SAMPLERS), ids=repr)
@pytest.mark.parametrize("size", [-60.0, 60.0, -500.0, 500.0])
def test_rows_with_enormous_weights(size, sampler):
    assert p_value(sampler, "directed with holes", size=size) > SIGNIFICANCE


@pytest.mark.parametrize("sampler", everyday(SAMPLERS), ids=repr)
@pytest.mark.parametrize("size", [60.0, -500.0])
def test_rows_with_enormous_weights_and_shared_evaluations(size, sampler, grouping):
    assert p_value(sampler, "symmetric with holes", size=size) > SIGNIFICANCE


@pytest.mark.parametrize("sampler", everyday(SAMPLERS), ids=repr)
@pytest.mark.parametrize("kind", ["directed with holes", "symmetric"])
def test_likelihood_power(kind, sampler):
    assert p_value(sampler, kind, power=0.3) > SIGNIFICANCE


@pytest.mark.parametrize("sampler", everyday(SAMPLERS), ids=repr)
@pytest.mark.parametrize("kind", ["directed with holes", "symmetric without diagonal"])
def test_non_singletons_of_the_buffet(kind, sampler):
    assert p_value(sampler, kind, prior=pgfa.IndianBuffet()) > SIGNIFICANCE


@pytest.mark.parametrize("sampler", everyday(SAMPLERS), ids=repr)
def test_rows_forget_their_start(sampler):
    full = int(np.flatnonzero(all_matrices(3, 3).all(axis=(1, 2)))[0])
    num_sweeps = 200 if isinstance(sampler, pgfa.Gibbs) else 40
    result = p_value(sampler, "directed with holes", start=full, num_sweeps=num_sweeps, num_replicates=4000)
    assert result > SIGNIFICANCE


# --- rows broken on purpose ------------------------------------------------------------------------------------------


class OneEyed(pgfa.Relational):
    """Looks at the row of a node but not at its column."""

    def rows(self, Z, parameters):
        network = self._network
        link_start, hole_start = network.link_start.copy(), network.hole_start.copy()
        link_start[1] = link_start[1, 0]
        hole_start[1] = hole_start[1, 0]
        blind = Network(link_start, network.links, hole_start, network.holes, network.diagonal)
        return link_rows(blind, Z, parameters["V"], 1.0, 0.0, False)


class Twice(pgfa.Relational):
    """Counts the pairs of a symmetric network in both directions."""

    def rows(self, Z, parameters):
        return link_rows(make_network(self.X, False), Z, parameters["V"], 1.0, 0.0, False)


class Unlooking(pgfa.Relational):
    """Leaves out the links of nodes with themselves."""

    def rows(self, Z, parameters):
        network = self._network._replace(diagonal=np.full_like(self._network.diagonal, -1))
        return link_rows(network, Z, parameters["V"], 1.0, 0.0, self.symmetric)


@pytest.mark.parametrize(("broken", "kind"), [(OneEyed, "directed"), (Twice, "symmetric"), (Unlooking, "directed")])
def test_broken_rows_are_noticed(broken, kind):
    model, _ = problem(kind)
    assert p_value(pgfa.Gibbs(), kind, model=broken(model.X, model.symmetric)) < 1e-12


# --- weights against quadrature --------------------------------------------------------------------------------------


def draw_from_grid(log_density, grid, size, rng):
    """Draws of a density on a fine grid, and its distribution function."""
    density = np.exp(log_density - log_density.max())
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    cumulative /= cumulative[-1]
    return np.interp(rng.random(size), cumulative, grid), lambda x: np.interp(x, grid, cumulative)


@pytest.mark.parametrize("power", [1.0, 0.35, 0.0])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("of_bias", [False, True])
def test_one_weight(of_bias, symmetric, power):
    """One feature, some owners: the weight, or with nothing else the bias, has a density on the line."""
    rng = np.random.default_rng(7)
    X = (rng.random((6, 6)) < 0.2).astype(float)
    X[1, 2] = X[2, 1] = np.nan
    X = np.triu(X) + np.triu(X, 1).T if symmetric else X
    model = pgfa.Relational(X, symmetric, bias=of_bias, bias_prior=(0.3, 0.5))
    Z = np.zeros((6, 0 if of_bias else 1), dtype=np.uint8)
    Z[:4] = 1
    tau = 0.4
    grid = np.linspace(-25.0, 25.0, 5001)
    if of_bias:
        states = [{"V": np.zeros((0, 0)), "tau": tau, "bias": b} for b in grid]
        log_prior = stats.norm.logpdf(grid, 0.3, 1.0 / np.sqrt(0.5))
    else:
        states = [{"V": np.array([[v]]), "tau": tau} for v in grid]
        log_prior = stats.norm.logpdf(grid, 0.0, 1.0 / np.sqrt(tau))
    log_density = log_prior + power * np.array([model.log_likelihood(Z, state) for state in states])
    starts, distribution = draw_from_grid(log_density, grid, 10_000, rng)
    ends, from_afar = [], []
    for begins, out in ((starts, ends), (np.full(1500, 9.0), from_afar)):
        for value in begins:
            V = np.zeros((0, 0)) if of_bias else np.array([[value]])
            bias = move_weights(
                model._network, Z, V, tau, value if of_bias else 0.0, symmetric,
                model.bias_prior if of_bias else None, power, 2 if out is ends else 60, rng,
            )  # fmt: skip
            out.append(bias if of_bias else V[0, 0])
    assert np.mean(np.array(ends) != starts) > 0.8
    assert stats.kstest(ends, distribution).pvalue > SIGNIFICANCE
    assert stats.kstest(from_afar, distribution).pvalue > SIGNIFICANCE


# --- the whole chain -------------------------------------------------------------------------------------------------

PRIORS = {
    "finite": pgfa.BetaBernoulli(3, alpha_shape=2.0),
    "buffet": pgfa.IndianBuffet(alpha_shape=2.0, alpha_rate=2.0),
}
HIDE = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], dtype=bool)
TAU_PRIOR = (4.0, 3.0)


def template(symmetric=False, self_links=True, bias=False, *, column_moves=1, **options):
    priors = {"tau_prior": TAU_PRIOR, "bias_prior": (-0.5, 1.0)}
    return pgfa.Relational(
        np.zeros((4, 4)), symmetric, self_links, bias, column_moves=column_moves, **priors, **options
    )


def statistics(state, X):
    V, Z = state.parameters["V"], state.Z.astype(float)
    used = np.flatnonzero(Z.any(axis=0))
    own = V[np.ix_(used, used)]
    scores = Z @ V @ Z.T
    known = ~np.isnan(X)
    return {
        "alpha": state.alpha,
        "tau": state.parameters["tau"],
        "bias": state.parameters.get("bias", 0.0),
        "used features": float(used.size),
        "singletons": float((Z.sum(axis=0) == 1).sum()),
        "ones": float(Z.sum()),
        "features that the first two share": float(Z[0] @ Z[1]),
        "weights": float(own.sum()),
        "squares of weights": float(np.sum(own**2)),
        "diagonal weights": float(np.trace(own)),
        "unlike weights": float(np.sum(np.abs(own - own.T))),
        "links": float(np.nansum(X)),
        "links with their scores": float(np.sum((X * scores)[known])),
        "scores of the first": float(scores[0, 1:].sum()),
        "scores with themselves": float(np.trace(scores)),
        "lonely": float(np.sum(Z.sum(axis=1) == 0)),
    }


CHAINS = {
    "directed": {"model": template(), "hide": HIDE},
    "directed without diagonal, with bias": {"model": template(self_links=False, bias=True), "hide": HIDE},
    "symmetric": {"model": template(symmetric=True), "hide": HIDE | HIDE.T},
    "symmetric without diagonal": {"model": template(symmetric=True, self_links=False), "hide": HIDE | HIDE.T},
}
#: Also one part at a time, for what one does wrong another may cover up.
UPDATES = [("features", "parameters", "concentration"), ("features",), ("parameters",)]
MIXTURE = pgfa.Mixture([(1, sampler) for sampler in SAMPLERS])


def lowest(p_values: dict[str, float]) -> float:
    return min(p_values.values())


@pytest.mark.parametrize(("kind", "prior"), half({kind: kind for kind in CHAINS}, PRIORS))
def test_geweke(kind, prior):
    assert_joint_law(kind, prior, UPDATES[0])


@pytest.mark.slow
@pytest.mark.parametrize("update", UPDATES[1:], ids="+".join)
@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_geweke_of_one_part_at_a_time(prior, kind, update):
    assert_joint_law(kind, prior, update)


def assert_joint_law(kind, prior, update):
    p_values = joint_p_values(
        sampler=MIXTURE, prior=prior, statistics=statistics, num_replicates=1000, num_rounds=6, seed=11,
        update=update, **CHAINS[kind],
    )  # fmt: skip
    assert lowest(p_values) > SIGNIFICANCE, p_values


@pytest.mark.parametrize(
    ("singletons", "symmetric"), half({"fitted": "fitted", "prior": "prior"}, {"directed": False, "symmetric": True})
)
def test_geweke_of_rows_and_singletons(symmetric, singletons):
    """Features alone move: a draw of V right after a sweep would cover up what the sweep did wrong."""
    p_values = joint_p_values(
        template(symmetric, singletons=singletons), PRIORS["buffet"], pgfa.DiscreteParticleFilter(3), statistics,
        num_replicates=1000, num_rounds=6, seed=13, update=("features",),
    )  # fmt: skip
    assert lowest(p_values) > SIGNIFICANCE, p_values


@pytest.mark.slow
@pytest.mark.parametrize("update", UPDATES[:2], ids="+".join)
@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_geweke_at_length(prior, kind, update):
    p_values = joint_p_values(
        sampler=MIXTURE, prior=prior, statistics=statistics, num_replicates=4000, num_rounds=12, seed=12,
        update=update, **CHAINS[kind],
    )  # fmt: skip
    assert lowest(p_values) > SIGNIFICANCE, p_values


@pytest.mark.parametrize(
    ("num_replicates", "num_iterations"), [(250, 80), pytest.param(1500, 120, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("prior", [at_length(PRIORS["finite"]), PRIORS["buffet"]], ids=repr)
def test_without_data_the_prior_comes_back(prior, num_replicates, num_iterations):
    """From a fixed start far from typical, so that this shows both that the chain moves and where it goes."""
    num_rows, symmetric = 5, prior.grows
    data = np.full((num_rows, num_rows), np.nan)
    model = pgfa.Relational(data, symmetric, bias=True, tau_prior=TAU_PRIOR, column_moves=1)
    state = pgfa.State(
        np.ones((num_rows, 3), dtype=np.uint8), 0.3, {"V": np.full((3, 3), 2.0), "tau": 3.0, "bias": 9.0}
    )
    rng = np.random.default_rng(3)
    ends = []
    for _ in range(num_replicates):
        chain = pgfa.Chain(model, prior, pgfa.DiscreteParticleFilter(3), seed=rng, state=state)
        chain.step(num_iterations)
        ends.append(chain.state)
    taus = [end.parameters["tau"] for end in ends]
    assert stats.kstest(taus, stats.gamma(TAU_PRIOR[0], scale=1.0 / TAU_PRIOR[1]).cdf).pvalue > SIGNIFICANCE
    biases = [end.parameters["bias"] for end in ends]
    assert stats.kstest(biases, stats.norm(0.0, 1.0 / np.sqrt(0.1)).cdf).pvalue > SIGNIFICANCE
    scaled = np.concatenate([model._free_weights(end.parameters["V"]) * np.sqrt(end.parameters["tau"]) for end in ends])
    assert stats.kstest(scaled, stats.norm.cdf).pvalue > SIGNIFICANCE
    assert_from_the_prior(ends, prior, rng, np.random.default_rng(4), 20_000)


# --- the buffet, enumerated with its weights summed out --------------------------------------------------------------


@cache
def buffet_posterior(symmetric: bool):
    """Two nodes; weights are integrated out by averaging the likelihood over many draws of them.

    The likelihood of two nodes lies between 0 and 1 and is smooth in the weights, so that the average is good to three
    digits: less than the replicates' own noise.
    """
    X = np.array([[1.0, 0.0], [0.0, np.nan]])
    alpha, tau = 0.8, 0.15
    prior = pgfa.IndianBuffet()
    classes = left_ordered_classes(2, max_columns=6)
    rng = np.random.default_rng(21)
    model = pgfa.Relational(X, symmetric)
    log_prob = []
    for multiset in classes:
        Z, log_mass = buffet_class(prior, multiset, 2, alpha)
        V = rng.standard_normal((40_000, len(multiset), len(multiset))) / np.sqrt(tau)
        if symmetric:
            V = np.triu(V) + np.swapaxes(np.triu(V, 1), 1, 2)
        # Each draw also with the opposite sign: halves the noise at no cost.
        scores = np.concatenate([Z @ V @ Z.T, -(Z @ V @ Z.T)])
        terms = X * scores - np.logaddexp(0.0, scores)
        pairs = [(0, 0), (0, 1)] if symmetric else [(0, 0), (0, 1), (1, 0)]
        likelihood = np.exp(sum(terms[:, i, j] for i, j in pairs)).mean()
        log_prob.append(log_mass + np.log(likelihood))
    prob = np.exp(np.array(log_prob) - max(log_prob))
    return model, alpha, tau, prior, classes, prob / prob.sum()


@pytest.mark.parametrize(
    ("num_replicates", "num_iterations"), [(1000, 20), pytest.param(4000, 40, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("singletons", ["fitted", at_length("prior")])
@pytest.mark.parametrize("symmetric", [False, at_length(True)])
def test_buffet_against_the_enumerated_posterior(symmetric, singletons, num_replicates, num_iterations):
    """Births, deaths, rows and weights together, at fixed tau and concentration, from a fixed start."""
    model, alpha, tau, prior, classes, prob = buffet_posterior(symmetric)
    held = 1e12  # a Gamma prior as narrow as this holds the precision
    model = pgfa.Relational(model.X, symmetric, tau_prior=(held, held / tau), singletons=singletons, column_moves=1)
    index = {multiset: i for i, multiset in enumerate(classes)}
    counts = np.zeros(len(classes) + 1, dtype=np.int64)
    rng = np.random.default_rng(9)
    first = pgfa.State(np.ones((2, 1), dtype=np.uint8), alpha, {"V": np.array([[1.0]]), "tau": tau})
    for _ in range(num_replicates):
        chain = pgfa.Chain(model, prior, MIXTURE, seed=rng, state=first, update=("features", "parameters"))
        chain.step(num_iterations)
        counts[index.get(left_ordered(chain.state.Z), -1)] += 1
    assert counts[-1] <= 5, "more than six columns: hardly ever"
    assert chi_square_p_value(counts[:-1], prob) > SIGNIFICANCE


# --- births broken on purpose ----------------------------------------------------------------------------------------


CarelessRows = namedtuple("CarelessRows", LinkRows._fields)
CarelessRows.make_block = LinkRows.make_block
for generic, body in [
    (begin_row, relational_rows._begin_row),
    (start, relational_rows._start),
    (flipped, relational_rows._flipped),
    (flip, relational_rows._flip),
    (spawn, relational_rows._spawn),
    (end_row, relational_rows._end_row),
    (draw_feature, relational_rows._draw_feature),
]:
    implements(generic, CarelessRows)(body)


@implements(propose_singletons, CarelessRows)
def _propose_carelessly(rows, n, z, old, new, block, power, rng):
    """Draws the weights of a new feature from the fit, and accepts as if they came from the prior."""
    log_ratio = -start(rows, n, z, block)
    for k in old:
        z[k] = 0
    for direction in range(rows.highest.shape[1]):
        relational_singletons._fit(rows, z, direction, power)
        for k in new:
            relational_singletons._draw(rows, k, direction, rng)
    for k in new:
        relational_rows.store_feature(rows, k)
        z[k] = 1
    begin_row(rows, n)
    log_ratio += start(rows, n, z, block)
    for k in old:
        z[k] = 1
    for k in new:
        z[k] = 0
    return np.log(rng.random()) < power * log_ratio


class Careless(pgfa.Relational):
    def rows(self, Z, parameters):
        return CarelessRows(*super().rows(Z, parameters))

    def with_data(self, data):
        return Careless(data, **self._settings())


@pytest.mark.slow
def test_careless_births_are_noticed():
    p_values = joint_p_values(
        Careless(np.zeros((4, 4)), tau_prior=TAU_PRIOR), PRIORS["buffet"], pgfa.DiscreteParticleFilter(3), statistics,
        num_replicates=2000, num_rounds=6, seed=13, update=("features",),
    )  # fmt: skip
    assert lowest(p_values) < 1e-10, p_values


def test_a_wrong_prior_of_the_weights_is_noticed(monkeypatch):
    """Weights moved as if their prior were twice as wide."""

    def careless(network, Z, V, tau, *rest):
        return move_weights(network, Z, V, 0.25 * tau, *rest)

    monkeypatch.setattr(relational, "move_weights", careless)
    p_values = joint_p_values(
        sampler=MIXTURE, prior=PRIORS["finite"], statistics=statistics, num_replicates=1000, num_rounds=6, seed=11,
        **CHAINS["directed"],
    )  # fmt: skip
    assert lowest(p_values) < 1e-10, p_values


def test_the_modes_of_evaluation_are_all_reached(grouping):
    """What the tests above with enormous weights are about."""
    from test_relational import begin

    Z = np.ones((3, 3), dtype=np.uint8)
    modes = set()
    for size, grouped in ((1.0, False), (1.0, True), (60.0, False), (500.0, False)):
        model, parameters = problem("directed with holes", size)
        rows = link_rows(model._network, Z, parameters["V"], 1.0, 0.0, False, grouped=grouped)
        begin(rows, 0)
        modes.add((size, grouped, int(rows.mode[0])))
    assert modes == {
        (1.0, False, PRODUCT), (1.0, True, WEIGHTED), (60.0, False, WEIGHTED), (500.0, False, ADDITIVE),
    }  # fmt: skip
