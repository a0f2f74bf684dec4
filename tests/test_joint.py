"""The chain as a whole: prior recovery, Geweke's test, the enumerated buffet, and kernels broken on purpose."""

from __future__ import annotations

from collections import namedtuple
from functools import cache, partial

import numpy as np
import pytest
from exactness import (
    SIGNIFICANCE,
    all_matrices,
    assert_from_the_prior,
    buffet_class,
    chi_square_p_value,
    everyday,
    half,
    joint_p_values,
    left_ordered,
    left_ordered_classes,
)
from scipy import stats

import pgfa
from pgfa import inference
from pgfa._compile import implements
from pgfa.models import gaussian_rows
from pgfa.models.linear_gaussian import draw_loadings
from pgfa.rows import (
    begin_row,
    draw_feature,
    draw_singletons,
    flip,
    flipped,
    integrate_singletons,
    propose_singletons,
    spawn,
    start,
    weigh_singletons,
)

PRIORS = {
    "finite": pgfa.BetaBernoulli(3, alpha_shape=2.0),
    "buffet": pgfa.IndianBuffet(alpha_shape=2.0, alpha_rate=2.0),
}
HIDE = np.array([[0, 0], [0, 1], [1, 1], [0, 0]], dtype=bool)


def template(**options):
    """Four rows, two columns; precisions with tame priors so that the statistics have moments to speak of."""
    return pgfa.LinearGaussian(np.zeros((4, 2)), tau_v_prior=(4.0, 3.0), tau_x_prior=(4.0, 2.0), **options)


def statistics(state, X):
    V = state.parameters["V"]
    return {
        "alpha": state.alpha,
        "tau_v": state.parameters["tau_v"],
        "tau_x": state.parameters["tau_x"],
        "used features": float(state.Z.any(axis=0).sum()),
        "ones": float(state.Z.sum()),
        "owners of the first row's features": float((state.Z[0] @ state.Z.T).sum()),
        "first column of V": float(np.sum(V[:, 0])),
        "squares of used V": float(np.sum(V[state.Z.any(axis=0)] ** 2)),
        "X": float(X[0, 0]),
        "squares of X": float(np.sum(X**2)),
        "X with its mean": float(np.sum(X * (state.Z @ V))),
        "intercept": float(np.sum(state.parameters.get("intercept", 0.0))),
    }


def lowest(p_values: dict[str, float]) -> float:
    return min(p_values.values())


SAMPLERS = [pgfa.Gibbs(), pgfa.RowGibbs(), pgfa.ParticleGibbs(3), pgfa.DiscreteParticleFilter(3)]


#: Also without the other updates: an exact draw of V right after a sweep covers up much of what the sweep did wrong.
UPDATES = [("features", "parameters", "concentration"), ("features",)]
EACH_UPDATE = {"all updates": UPDATES[0], "features alone": UPDATES[1]}


@pytest.mark.parametrize(
    ("prior", "intercept", "update"), half(PRIORS, {"centred": False, "intercept": True}, EACH_UPDATE)
)
def test_geweke(prior, intercept, update):
    sampler = pgfa.Mixture([(1, sampler) for sampler in SAMPLERS])
    model = template(intercept=intercept, intercept_prior=(0.5, 2.0))
    p_values = joint_p_values(
        model, prior, sampler, statistics, num_replicates=2500, num_rounds=8, seed=14, hide=HIDE, update=update
    )
    assert lowest(p_values) > SIGNIFICANCE, p_values


@pytest.mark.slow
@pytest.mark.parametrize("update", UPDATES, ids=len)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_geweke_at_length(prior, sampler, update):
    p_values = joint_p_values(
        template(), prior, sampler, statistics, num_replicates=12_000, num_rounds=20, seed=12, hide=HIDE, update=update
    )
    assert lowest(p_values) > SIGNIFICANCE, p_values


@pytest.mark.slow
@pytest.mark.parametrize("update", UPDATES, ids=len)
def test_geweke_with_singletons_from_the_prior(update):
    model = template(singletons="prior")
    p_values = joint_p_values(
        model,
        PRIORS["buffet"],
        pgfa.DiscreteParticleFilter(3),
        statistics,
        num_replicates=4000,
        num_rounds=8,
        seed=13,
        hide=HIDE,
        update=update,
    )
    assert lowest(p_values) > SIGNIFICANCE, p_values


# --- prior recovery --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_iterations", [40, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_without_data_the_prior_comes_back(prior, num_iterations):
    """From a fixed start far from typical, so that this shows both that the chain moves and where it goes."""
    num_rows, num_replicates = 5, 1000
    model = pgfa.LinearGaussian(np.full((num_rows, 2), np.nan), tau_v_prior=(4.0, 3.0), tau_x_prior=(4.0, 2.0))
    Z = np.ones((num_rows, 3), dtype=np.uint8)
    state = pgfa.State(Z, 0.3, {"V": np.full((3, 2), 2.0), "tau_v": 3.0, "tau_x": 0.5})
    rng = np.random.default_rng(3)
    ends = []
    for _ in range(num_replicates):
        chain = pgfa.Chain(model, prior, pgfa.DiscreteParticleFilter(3), seed=rng, state=state)
        chain.step(num_iterations)
        ends.append(chain.state)
    assert (
        stats.kstest([end.parameters["tau_v"] for end in ends], stats.gamma(4.0, scale=1 / 3).cdf).pvalue > SIGNIFICANCE
    )
    assert (
        stats.kstest([end.parameters["tau_x"] for end in ends], stats.gamma(4.0, scale=1 / 2).cdf).pvalue > SIGNIFICANCE
    )
    scaled = np.concatenate([(end.parameters["V"] * np.sqrt(end.parameters["tau_v"])).ravel() for end in ends])
    assert stats.kstest(scaled, stats.norm.cdf).pvalue > SIGNIFICANCE
    assert_from_the_prior(ends, prior, rng, np.random.default_rng(4), 20_000)


# --- the priors with the values of the features integrated out -------------------------------------------------------


def log_evidence(X, Z, tau_v, tau_x):
    """log p(X | Z) with V integrated out."""
    covariance = Z @ Z.T / tau_v + np.eye(len(X)) / tau_x
    return sum(
        stats.multivariate_normal.logpdf(x[seen], cov=covariance[np.ix_(seen, seen)])
        for x in X.T
        if (seen := ~np.isnan(x)).any()
    )


ALPHA, TAU_V, TAU_X = 0.7, 0.8, 4.0


@cache
def enumerated(prior_name):
    """Data of three rows, their prior, all matrices, how to look one up, and the posterior given alpha and precisions.

    Under the buffet matrices are classes up to the order of columns; under the finite prior each column has its place.
    """
    rng = np.random.default_rng(8)
    X = rng.normal(size=(3, 2)) + np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    X[2, 0] = np.nan
    if prior_name == "buffet":
        prior, key_of = pgfa.IndianBuffet(), left_ordered
        found = [buffet_class(prior, multiset, 3, ALPHA) for multiset in left_ordered_classes(3, max_columns=6)]
        matrices = [Z for Z, _ in found]
        log_prob = np.array([log_mass for _, log_mass in found])
    else:
        prior, key_of = pgfa.BetaBernoulli(4, b=0.8), np.ndarray.tobytes
        matrices = list(all_matrices(3, 4))
        log_prob = np.array([prior.log_prob(Z, ALPHA) for Z in matrices])
    log_prob += [log_evidence(X, Z.astype(int), TAU_V, TAU_X) for Z in matrices]
    prob = np.exp(log_prob - log_prob.max())
    index = {key_of(np.ascontiguousarray(Z)): i for i, Z in enumerate(matrices)}
    return X, prior, matrices, lambda Z: index.get(key_of(Z), -1), prob / prob.sum()


def enumeration_p_value(
    make_model, sampler, update=("features", "parameters"), num_replicates=8000, prior_name="buffet"
):
    """Births, deaths, rows and V together, at fixed precisions and concentration: smallest p-value for Z and for fit.

    Without an exact draw of V at the end of each iteration, misfit also shows values that do not go with their rows.
    """
    X, prior, matrices, index_of, prob = enumerated(prior_name)
    held = 1e12  # a Gamma prior as narrow as this holds the precision
    model = make_model(X, tau_v_prior=(held, held / TAU_V), tau_x_prior=(held, held / TAU_X))
    counts = np.zeros(len(matrices) + 1, dtype=np.int64)
    misfit = []
    rng = np.random.default_rng(9)
    for first in rng.choice(len(matrices), size=num_replicates, p=prob):
        Z = matrices[first].copy()
        V = np.zeros((Z.shape[1], 2))
        draw_loadings(model._table, Z, V, np.zeros(2), TAU_V, TAU_X, False, 0.0, 1.0, rng)
        state = pgfa.State(Z, ALPHA, {"V": V, "tau_v": TAU_V, "tau_x": TAU_X})
        chain = pgfa.Chain(model, prior, sampler, seed=rng, state=state, update=update)
        chain.step(4)
        counts[index_of(chain.state.Z)] += 1
        misfit.append([np.nansum((X - s.Z @ s.parameters["V"]) ** 2) for s in (state, chain.state)])
    assert counts[-1] <= 5, "more than six columns: hardly ever"
    return min(chi_square_p_value(counts[:-1], prob), stats.ks_2samp(*np.transpose(misfit)).pvalue)


@pytest.mark.parametrize(
    "sampler", [SAMPLERS[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SAMPLERS[1:-1]), SAMPLERS[-1]], ids=repr
)
def test_buffet_against_the_enumerated_posterior(sampler):
    assert enumeration_p_value(pgfa.LinearGaussian, sampler) > SIGNIFICANCE


@pytest.mark.parametrize("sampler", everyday(SAMPLERS), ids=repr)
def test_buffet_against_the_enumerated_posterior_without_draws_of_V(sampler):
    assert enumeration_p_value(pgfa.LinearGaussian, sampler, ("features",)) > SIGNIFICANCE


@pytest.mark.parametrize("sampler", [SAMPLERS[0], SAMPLERS[-1]], ids=repr)
def test_finite_prior_against_the_enumerated_posterior(sampler):
    """Which columns come and go matters here: each has its place, and those in use are not always the first."""
    assert enumeration_p_value(pgfa.LinearGaussian, sampler, prior_name="finite") > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("prior_name", ["finite", "buffet"])
@pytest.mark.parametrize("singletons", ["gibbs", "collapsed", "prior"])
def test_each_way_to_move_singletons_at_length(singletons, prior_name):
    p_value = enumeration_p_value(
        partial(pgfa.LinearGaussian, singletons=singletons), pgfa.DiscreteParticleFilter(3), num_replicates=40_000,
        prior_name=prior_name,
    )  # fmt: skip
    assert p_value > SIGNIFICANCE


# --- broken on purpose: the tests above must notice ------------------------------------------------------------------


def broken_rows(name):
    """The rows of the linear Gaussian model, all but what deals with singletons."""
    kind = namedtuple(name, gaussian_rows.GramRows._fields)
    kind.make_block = gaussian_rows.GramRows.make_block
    for generic, body in [
        (gaussian_rows.store_feature, gaussian_rows._gram_store_feature),
        (begin_row, gaussian_rows._gram_begin_row),
        (start, gaussian_rows._gram_start),
        (flipped, gaussian_rows._gram_flipped),
        (flip, gaussian_rows._gram_flip),
        (spawn, gaussian_rows._gram_spawn),
        (draw_feature, gaussian_rows._draw_feature),
    ]:
        implements(generic, kind)(body)
    return kind


DrawnFromThePrior = broken_rows("DrawnFromThePrior")
NotDrawnAgain = broken_rows("NotDrawnAgain")
NotFlattened = broken_rows("NotFlattened")
NotNormalised = broken_rows("NotNormalised")
ValuesFromThePrior = broken_rows("ValuesFromThePrior")


@implements(propose_singletons, DrawnFromThePrior)
def _propose_singletons_carelessly(rows, n, z, old, new, block, power, rng):
    accepted = gaussian_rows.propose_singletons_collapsed(rows, n, z, old, new, power, rng)
    if accepted:
        for k in new:
            draw_feature(rows, k, rng)
    return accepted


@implements(integrate_singletons, NotFlattened)
def _integrate_singletons_at_full_power(rows, count, power):
    return power


for kind in (NotDrawnAgain, NotFlattened):
    implements(propose_singletons, kind)(gaussian_rows._propose_singletons)
implements(integrate_singletons, NotDrawnAgain)(gaussian_rows._integrate_singletons)
implements(draw_singletons, NotFlattened)(gaussian_rows._draw_singletons)


@implements(weigh_singletons, NotNormalised)
def _weigh_singletons_without_their_variance(rows, n, z, fewest, count, power, out):
    gaussian_rows._weigh_singletons(rows, n, z, fewest, count, power, out)
    observed = rows.V.shape[1] - (rows.table.row_start[n + 1] - rows.table.row_start[n])
    for i in range(count):
        out[i] += 0.5 * observed * np.log(1.0 + (fewest + i) * power * rows.tau_x / rows.tau_v)


@implements(draw_singletons, ValuesFromThePrior)
def _draw_singletons_from_the_prior(rows, n, z, singletons, power, rng):
    for k in singletons:
        draw_feature(rows, k, rng)


for kind in (NotNormalised, ValuesFromThePrior):
    implements(integrate_singletons, kind)(gaussian_rows._integrate_singletons)
implements(draw_singletons, NotNormalised)(gaussian_rows._draw_singletons)
implements(weigh_singletons, ValuesFromThePrior)(gaussian_rows._weigh_singletons)


class Careless(pgfa.LinearGaussian):
    def __init__(self, data, kind, *, singletons="collapsed", **options):
        super().__init__(data, singletons=singletons, **options)
        self.kind = kind

    def rows(self, Z, parameters):
        V, tau_v, tau_x = parameters["V"], parameters["tau_v"], parameters["tau_x"]
        return self.kind(*gaussian_rows.gram_rows(self._table, V, self._intercept_of(parameters), tau_v, tau_x, True))

    def with_data(self, data):
        options = {"tau_v_prior": self.tau_v_prior, "tau_x_prior": self.tau_x_prior, "singletons": self.singletons}
        return Careless(data, self.kind, **options)


@pytest.mark.slow
def test_singletons_drawn_from_the_prior_are_noticed():
    p_values = joint_p_values(
        Careless(np.zeros((4, 2)), DrawnFromThePrior, tau_v_prior=(4.0, 3.0), tau_x_prior=(4.0, 2.0)),
        PRIORS["buffet"],
        pgfa.DiscreteParticleFilter(3),
        statistics,
        num_replicates=8000,
        num_rounds=8,
        seed=11,
        hide=HIDE,
        update=("features",),
    )
    assert lowest(p_values) < 1e-10, p_values


@pytest.mark.slow
@pytest.mark.parametrize("kind", [NotDrawnAgain, NotFlattened])
def test_careless_integration_of_singletons_is_noticed(kind):
    p_value = enumeration_p_value(partial(Careless, kind=kind), pgfa.DiscreteParticleFilter(3), ("features",), 16_000)
    assert p_value < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [NotNormalised, ValuesFromThePrior])
def test_careless_numbers_of_singletons_are_noticed(kind):
    make_model = partial(Careless, kind=kind, singletons="gibbs")
    p_value = enumeration_p_value(make_model, pgfa.DiscreteParticleFilter(3), ("features",), 16_000)
    assert p_value < 1e-10


def test_singletons_at_the_wrong_rate_are_noticed(monkeypatch):
    careful = inference.chain.make_conditional
    monkeypatch.setattr(inference.chain, "make_conditional", lambda log_rate, *rest: careful(log_rate + 0.3, *rest))
    p_value = enumeration_p_value(pgfa.LinearGaussian, pgfa.DiscreteParticleFilter(3), prior_name="finite")
    assert p_value < 1e-10


def test_singletons_that_prefer_the_first_columns_are_noticed(monkeypatch):
    class NotRandom(pgfa.Chain):
        def _columns_at_hand(self, state):
            is_used = state.Z.any(axis=0)
            return np.concatenate([np.flatnonzero(is_used), np.flatnonzero(~is_used)[:2]])

    monkeypatch.setattr(pgfa, "Chain", NotRandom)
    p_value = enumeration_p_value(pgfa.LinearGaussian, pgfa.DiscreteParticleFilter(3), prior_name="finite")
    assert p_value < 1e-10


class Unnormalised(pgfa.BetaBernoulli):
    """Forgets that the normaliser of the mass depends on alpha."""

    def _log_target(self, owners, num_rows, alpha):
        from scipy.special import betaln

        a = alpha / self.num_features
        return super()._log_target(owners, num_rows, alpha) + self.num_features * betaln(a, self.b)


def test_a_dropped_normaliser_is_noticed():
    p_values = joint_p_values(
        template(),
        Unnormalised(3, alpha_shape=2.0),
        pgfa.DiscreteParticleFilter(3),
        statistics,
        num_replicates=1500,
        num_rounds=8,
        seed=11,
        hide=HIDE,
    )
    assert lowest(p_values) < 1e-10, p_values
