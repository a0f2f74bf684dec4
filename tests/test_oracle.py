"""The oracle itself: every kernel against an enumerated conditional, every formula against another way to write it.

Only then is agreement with it worth anything. Draws are independent: each starts from an exact draw of the target.
"""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from itertools import product

import numpy as np
import oracle
import pytest
from exactness import SIGNIFICANCE, chi_square_p_value, half
from scipy import optimize, stats

import pgfa
from pgfa.samplers.sweep import sweep

VALID_TEST_PATHS = {name: name for name in ("zeros", "ones", "random", "unconditional")}
BETAS = {"0": 0.0, "1": 1.0, "3": 3.0}


@cache
def small_row():
    """A row of three features that can stand in for each other, one entry missing, and its enumerated conditional."""
    V = np.array([[1.2, 0.6, 9.0], [0.9, 1.1, 9.0], [-0.7, 0.8, 9.0]])
    x = np.array([0.9, 1.0, np.nan])
    rho = np.array([0.3, 0.5, 0.6])
    log_likelihood = oracle.lg_row_log_likelihood(x, V, tau_x=4.0)
    vectors = np.array(list(product((0.0, 1.0), repeat=3)))
    prob = np.array([np.exp(log_likelihood(z)) * np.prod(np.where(z == 1, rho, 1 - rho)) for z in vectors])
    return log_likelihood, rho, vectors, prob / prob.sum()


def p_value(kernel, *, num_draws=2000, num_steps=2, start=None, seed=1):
    """p value of where replicates end that start from the conditional, or all from the vector with index `start`."""
    log_likelihood, rho, vectors, prob = small_row()
    rng = np.random.default_rng(seed)
    counts = np.zeros(len(vectors), dtype=int)
    place = np.array([4, 2, 1])
    for _ in range(num_draws):
        z = vectors[rng.choice(len(vectors), p=prob) if start is None else start]
        for _ in range(num_steps):
            z = kernel(log_likelihood, rho, z, rng.permutation(3), rng)
        counts[int(z @ place)] += 1
    return chi_square_p_value(counts, prob)


def test_the_target_is_not_trivial():
    prob = small_row()[3]
    assert prob.max() < 0.6
    assert prob.min() > 1e-3


@pytest.mark.parametrize("kernel", [oracle.gibbs_row, oracle.row_gibbs_row])
def test_gibbs_and_row_gibbs(kernel):
    assert p_value(kernel, num_draws=6000) > SIGNIFICANCE


@pytest.mark.parametrize(("test_path", "beta"), half(VALID_TEST_PATHS, BETAS))
def test_particle_gibbs(test_path, beta):
    kernel = partial(oracle.particle_gibbs_row, num_particles=3, threshold=0.9, beta=beta, test_path=test_path)
    assert p_value(kernel) > SIGNIFICANCE


@pytest.mark.parametrize("num_particles", [2, 6])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_particle_gibbs_at_any_threshold(threshold, num_particles):
    assert p_value(partial(oracle.particle_gibbs_row, num_particles=num_particles, threshold=threshold)) > SIGNIFICANCE


@pytest.mark.parametrize(("test_path", "beta", "num_particles"), half(VALID_TEST_PATHS, BETAS, {"2": 2, "3": 3}))
def test_discrete_particle_filter(test_path, beta, num_particles):
    kernel = partial(oracle.dpf_row, num_particles=num_particles, beta=beta, test_path=test_path)
    assert p_value(kernel) > SIGNIFICANCE


def test_discrete_particle_filter_with_room_for_all_is_row_gibbs():
    """One step from a fixed vector is then already a draw of the conditional."""
    kernel = partial(oracle.dpf_row, num_particles=8)
    assert p_value(kernel, num_steps=1, start=0, num_draws=6000) > SIGNIFICANCE


@pytest.mark.parametrize(
    "kernel",
    [oracle.gibbs_row, partial(oracle.particle_gibbs_row, num_particles=4), partial(oracle.dpf_row, num_particles=2)],
    ids=["gibbs", "particle Gibbs", "discrete particle filter"],
)
def test_kernels_forget_their_start(kernel):
    assert p_value(kernel, start=7, num_steps=20, num_draws=800) > SIGNIFICANCE


@pytest.mark.parametrize(
    ("test_path", "num_draws"), [("conditional", 3000), pytest.param("two-stage", 12_000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kernel", [oracle.particle_gibbs_row, oracle.dpf_row])
def test_test_paths_that_look_at_the_row_are_seen_to_be_wrong(kernel, test_path, num_draws):
    biased = partial(kernel, num_particles=2, beta=0.0, test_path=test_path)
    assert p_value(biased, num_steps=6, num_draws=num_draws) < SIGNIFICANCE


def test_a_slip_in_the_weights_would_be_seen():
    """Light survivors that keep their own weight, as a careless reading would have it."""

    def careless_thin(log_w, M, rng, keep_first):
        survivors, _ = careful_thin(log_w, M, rng, keep_first)
        return survivors, log_w[survivors]

    careful_thin = oracle.thin
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "thin", careless_thin)
        assert p_value(partial(oracle.dpf_row, num_particles=2), num_steps=6, num_draws=3000) < SIGNIFICANCE


def test_columns_outside_sigma_are_held():
    log_likelihood, rho, _, _ = small_row()
    rng = np.random.default_rng(0)
    z, sigma = np.array([1.0, 0.0, 1.0]), np.array([2, 0])
    for kernel in (oracle.gibbs_row, oracle.row_gibbs_row, oracle.particle_gibbs_row, oracle.dpf_row):
        ends = {tuple(kernel(log_likelihood, rho, z, sigma, rng)) for _ in range(60)}
        assert len(ends) > 1
        assert all(end[1] == 0.0 for end in ends)
    np.testing.assert_array_equal(z, [1.0, 0.0, 1.0])


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("M", [1, 2, 7])
def test_threshold_solves_its_equation(spread, M):
    rng = np.random.default_rng(2)
    for _ in range(20):
        log_w = spread * rng.normal(size=12) - 500.0
        log_c = oracle.find_log_threshold(log_w, M)

        def excess(x, log_w=log_w):
            return np.minimum(1.0, np.exp(np.minimum(x + log_w, 0.0))).sum() - M

        assert excess(log_c) == pytest.approx(0.0, abs=1e-9)
        root = optimize.brentq(excess, -log_w.max() - 50.0, -log_w.min() + 50.0)
        assert excess(root) == pytest.approx(excess(log_c), abs=1e-9)


def test_threshold_at_the_edges():
    assert oracle.find_log_threshold(np.array([0.0, -np.inf, -1.0]), 2) == np.inf
    # Ties, and weights that differ by more than floating point can hold.
    assert oracle.find_log_threshold(np.zeros(4), 2) == pytest.approx(np.log(0.5))
    assert oracle.find_log_threshold(np.array([0.0, 0.0, -5000.0]), 2) == pytest.approx(0.0)
    assert oracle.find_log_threshold(np.array([5000.0, 0.0, 0.0]), 2) == pytest.approx(np.log(0.5))


# --- formulas -------------------------------------------------------------------------------------------------------


def test_masses_agree_with_the_priors():
    rng = np.random.default_rng(4)
    for _ in range(10):
        Z = (rng.random((7, 4)) < rng.random(4)).astype(np.uint8)
        assert oracle.fbb_log_mass(Z, 0.3, 1.4) == pytest.approx(pgfa.BetaBernoulli(4, a=0.3, b=1.4).log_prob(Z))
        assert oracle.ibp_log_mass(Z, 1.7) == pytest.approx(pgfa.IndianBuffet().log_prob(Z, 1.7))


def test_the_finite_mass_sums_to_one_and_gives_the_predictive():
    matrices = [np.array(bits).reshape(3, 2) for bits in product((0, 1), repeat=6)]
    assert sum(np.exp(oracle.fbb_log_mass(Z, 0.4, 1.3)) for Z in matrices) == pytest.approx(1.0)
    Z = np.array([[1, 0], [1, 1], [0, 1]])
    rho = oracle.fbb_predictive((Z.sum(axis=0) - Z[2]).astype(float), 3, 0.4, 1.3)
    for k in (0, 1):
        on, off = Z.copy(), Z.copy()
        on[2, k], off[2, k] = 1, 0
        log_odds = oracle.fbb_log_mass(on, 0.4, 1.3) - oracle.fbb_log_mass(off, 0.4, 1.3)
        assert log_odds == pytest.approx(np.log(rho[k] / (1 - rho[k])))


def test_the_buffet_mass_gives_the_predictive():
    Z = np.array([[1, 0], [1, 1], [0, 1]])
    rho = oracle.ibp_predictive((Z.sum(axis=0) - Z[2]).astype(float), 3)
    for k in (0, 1):
        on, off = Z.copy(), Z.copy()
        on[2, k], off[2, k] = 1, 0
        log_odds = oracle.ibp_log_mass(on, 1.7) - oracle.ibp_log_mass(off, 1.7)
        assert log_odds == pytest.approx(np.log(rho[k] / (1 - rho[k])))


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(4, b=0.8), pgfa.IndianBuffet()], ids=repr)
def test_log_density_agrees_with_the_chain(prior):
    truth = pgfa.simulate("linear-gaussian", pgfa.BetaBernoulli(4), rng=3, num_rows=30, num_columns=5)
    chain = pgfa.Chain(truth.model, prior, seed=1, state=truth.state)
    state = chain.state
    Z, alpha = state.Z, state.alpha
    mass = oracle.ibp_log_mass(Z, alpha) if prior.grows else oracle.fbb_log_mass(Z, alpha / 4, 0.8)
    log_density = oracle.lg_log_density(truth.data, Z, **state.parameters) + mass
    log_density += oracle.log_gamma_density(alpha, 1.0, 1.0)
    assert chain.log_density() == pytest.approx(log_density, rel=1e-12)


def test_parameter_update_draws_from_the_conditional():
    """Against the regression of all entries of X on all entries of V at once."""
    rng = np.random.default_rng(5)
    Z = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [0, 0]], dtype=float)
    X = rng.normal(size=(5, 2)) + Z @ np.array([[1.0, -1.0], [0.5, 2.0]])
    X[1, 0] = X[4, 1] = np.nan
    tau_v, tau_x = 0.7, 2.5
    observed = ~np.isnan(X).ravel()
    design = np.kron(Z, np.eye(2))[observed]
    precision = tau_v * np.eye(4) + tau_x * design.T @ design
    mean = np.linalg.solve(precision, tau_x * design.T @ X.ravel()[observed])
    whiten = np.linalg.cholesky(precision).T
    whitened, uniform_v, uniform_x = [], [], []
    for _ in range(2000):
        V, new_tau_v, new_tau_x = oracle.lg_update_parameters(X, Z, tau_v, tau_x, rng)
        whitened.append(whiten @ (V.ravel() - mean))
        squares = np.nansum((X - Z @ V) ** 2)
        uniform_v.append(stats.gamma.cdf(new_tau_v, 1 + 2, scale=1 / (1 + np.sum(V**2) / 2)))
        uniform_x.append(stats.gamma.cdf(new_tau_x, 1 + 4, scale=1 / (1 + squares / 2)))
    for column in np.transpose(whitened):
        assert stats.kstest(column, "norm").pvalue > SIGNIFICANCE
    assert stats.chi2.cdf(np.sum(np.square(whitened)), 8000) == pytest.approx(0.5, abs=0.49995)
    assert stats.kstest(uniform_v, "uniform").pvalue > SIGNIFICANCE
    assert stats.kstest(uniform_x, "uniform").pvalue > SIGNIFICANCE


# --- the compiled samplers beside the oracle ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row_kernel", "sampler"),
    [
        (oracle.gibbs_row, pgfa.Gibbs()),
        (oracle.row_gibbs_row, pgfa.RowGibbs()),
        (partial(oracle.particle_gibbs_row, num_particles=3), pgfa.ParticleGibbs(3)),
        (
            partial(oracle.particle_gibbs_row, num_particles=4, threshold=0.9, beta=2.0, test_path="ones"),
            pgfa.ParticleGibbs(4, annealing_power=2.0, resample_threshold=0.9, test_path="ones"),
        ),
        (partial(oracle.dpf_row, num_particles=8), pgfa.DiscreteParticleFilter(8)),
    ],
    ids=["gibbs", "row Gibbs", "particle Gibbs", "particle Gibbs with options", "discrete particle filter"],
)
@pytest.mark.parametrize("prior_name", ["finite", "buffet"])
def test_one_sweep_from_the_same_matrix_has_the_same_law(prior_name, row_kernel, sampler):
    """Not only the target but the transitions agree, except for those of the discrete particle filter when it thins.

    Under the buffet a row's singletons are held: the move that replaces them is not part of the row kernels.
    """
    rng = np.random.default_rng(6)
    V = np.array([[1.0, 0.5], [0.8, 0.9], [-0.5, 0.7]])
    X = np.array([[1.0, 0.9], [0.4, np.nan], [1.5, 1.2]])
    Z = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 0]], dtype=np.uint8)
    if prior_name == "finite":
        prior, predictive = pgfa.BetaBernoulli(3, a=0.5, b=1.2), partial(oracle.fbb_predictive, N=3, a=0.5, b=1.2)
    else:
        prior, predictive = pgfa.IndianBuffet(), partial(oracle.ibp_predictive, N=3)
    rows = pgfa.LinearGaussian(X).rows(Z, {"V": V, "tau_v": 1.0, "tau_x": 3.0})
    kernel = sampler.make_kernel(rows, 3)
    log_odds, block = prior.log_odds(3, 1.5), rows.make_block(1)

    def sweep_compiled():
        new = Z.copy()
        sweep(kernel, rows, new, new.sum(axis=0, dtype=np.int64), log_odds, None, block, 1.0, rng)
        return new

    def count(draw):
        return Counter("".join(str(int(bit)) for bit in np.ravel(draw())) for _ in range(2000))

    expected = count(lambda: oracle.lg_sweep(X, Z, V, 3.0, predictive, row_kernel, rng))
    found = count(sweep_compiled)
    table = np.array([[counts[end] for end in sorted(expected | found)] for counts in (expected, found)])
    common = table.sum(axis=0) >= 20
    table = np.column_stack([table[:, common], table[:, ~common].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    assert table.shape[1] > 5
    assert stats.chi2_contingency(table).pvalue > SIGNIFICANCE
