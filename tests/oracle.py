"""The method in plain NumPy: slow, short, and as close to the published pseudo-code as its corrections allow.

The compiled samplers are compared with this file, in their results by the tests and in their speed by the benchmarks.
Nothing here is shared with them. A row kernel knows the model only through ``log_likelihood(z)``, which is called once
for each vector that is considered. Vectors are float arrays of zeros and ones.

Names: z is the present row and rho[k] the prior probability that it owns feature k; sigma lists the columns to update
in the order in which they are visited (the others are held); xi is a partial path along sigma; bar is the test path.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from scipy.special import betaln, gammaln

LogLikelihood = Callable[[np.ndarray], float]

TEST_PATHS = ("zeros", "ones", "random", "unconditional", "conditional", "two-stage")


def log_bernoulli(bit: float, rho: float) -> float:
    return float(np.log(rho) if bit == 1.0 else np.log1p(-rho))


def draw_from_log_weights(log_weights: np.ndarray, rng: np.random.Generator) -> int:
    weights = np.exp(log_weights - log_weights.max())
    return int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right"))


# --- Gibbs ----------------------------------------------------------------------------------------------------------


def gibbs_row(log_likelihood: LogLikelihood, rho, z, sigma, rng) -> np.ndarray:
    """One entry after the other, each from its conditional distribution."""
    z = z.copy()
    for k in sigma:
        z[k] = 0.0
        log_p0 = log_bernoulli(0.0, rho[k]) + log_likelihood(z)
        z[k] = 1.0
        log_p1 = log_bernoulli(1.0, rho[k]) + log_likelihood(z)
        z[k] = 1.0 if rng.random() < 1.0 / (1.0 + np.exp(min(log_p0 - log_p1, 700.0))) else 0.0
    return z


def row_gibbs_row(log_likelihood: LogLikelihood, rho, z, sigma, rng) -> np.ndarray:
    """The whole row from its conditional distribution, by enumeration."""
    log_odds = np.log(rho[sigma]) - np.log1p(-rho[sigma])
    vectors = np.array(list(product((0.0, 1.0), repeat=len(sigma))))
    candidate = z.copy()
    log_p = vectors @ log_odds
    for j, vector in enumerate(vectors):
        candidate[sigma] = vector
        log_p[j] += log_likelihood(candidate)
    candidate[sigma] = vectors[draw_from_log_weights(log_p, rng)]
    return candidate


# --- test paths -----------------------------------------------------------------------------------------------------


def draw_test_path(name: str, z, sigma, rng, run_pilot) -> np.ndarray:
    """What is assumed of the columns not visited yet; `run_pilot(bar)` is an unconditional run with test path bar."""
    T = len(sigma)
    if name == "zeros":
        return np.zeros(T)
    if name == "ones":
        return np.ones(T)
    if name == "random":
        return rng.integers(0, 2, size=T).astype(float)
    if name == "unconditional":
        return run_pilot(np.zeros(T))
    if name == "conditional":
        return z[sigma]
    if name == "two-stage":
        return run_pilot(z[sigma])
    raise ValueError(f"no test path is called {name!r}")


def complete_vector(z, sigma, bar, t: int, xi) -> np.ndarray:
    """The whole vector after t columns: xi where it is decided, the test path elsewhere on sigma, z outside it."""
    vector = z.copy()
    vector[sigma[:t]] = xi[:t]
    vector[sigma[t:]] = bar[t:]
    return vector


# --- particle Gibbs -------------------------------------------------------------------------------------------------


def particle_gibbs_row(
    log_likelihood: LogLikelihood, rho, z, sigma, rng, *, num_particles=20, threshold=0.5, beta=1.0, test_path="zeros"
) -> np.ndarray:
    """The whole row by conditional sequential Monte Carlo with the fully adapted proposal."""

    def run(bar, present):
        return run_smc(log_likelihood, rho, z, sigma, bar, present, rng, num_particles, threshold, beta)

    bar = draw_test_path(test_path, z, sigma, rng, lambda first: run(first, None))
    new = z.copy()
    new[sigma] = run(bar, z[sigma])
    return new


def run_smc(log_likelihood, rho, z, sigma, bar, present, rng, P, threshold, beta) -> np.ndarray:
    """Draw a path along sigma. Where `present` is given, the first particle follows it."""
    T = len(sigma)
    xi = np.zeros((P, T))
    log_lik = np.zeros(P)
    log_w = np.zeros(P)
    power = 0.0
    for t in range(T):
        ancestors = np.arange(P)
        if t > 0:
            w = np.exp(log_w - log_w.max())
            w /= w.sum()
            if 1.0 / (P * np.sum(w**2)) < threshold:
                ancestors = rng.choice(P, size=P, p=w)
                if present is not None:
                    ancestors[0] = 0
                log_w = np.zeros(P)
        xi, log_lik, log_w = xi[ancestors], log_lik[ancestors], log_w[ancestors]

        previous_power, power = power, ((t + 1) / T) ** beta
        for i in range(P):
            # Both values of the next column: the ratio of successive targets, and the likelihood that goes into it.
            child_log_lik, log_ratio = np.empty(2), np.empty(2)
            for bit in (0, 1):
                xi[i, t] = bit
                child_log_lik[bit] = log_likelihood(complete_vector(z, sigma, bar, t + 1, xi[i]))
                log_ratio[bit] = log_bernoulli(bit, rho[sigma[t]]) + power * child_log_lik[bit]
            log_ratio -= previous_power * log_lik[i]
            increment = np.logaddexp(log_ratio[0], log_ratio[1])
            is_conditional = present is not None and i == 0
            bit = int(present[t]) if is_conditional else int(rng.random() < np.exp(log_ratio[1] - increment))
            xi[i, t] = bit
            log_lik[i] = child_log_lik[bit]
            log_w[i] += increment
    return xi[draw_from_log_weights(log_w, rng)]


# --- discrete particle filter ---------------------------------------------------------------------------------------


def dpf_row(
    log_likelihood: LogLikelihood, rho, z, sigma, rng, *, num_particles=20, beta=1.0, test_path="zeros"
) -> np.ndarray:
    """The whole row by the discrete particle filter."""

    def run(bar, present):
        return run_dpf(log_likelihood, rho, z, sigma, bar, present, rng, num_particles, beta)

    bar = draw_test_path(test_path, z, sigma, rng, lambda first: run(first, None))
    new = z.copy()
    new[sigma] = run(bar, z[sigma])
    return new


def run_dpf(log_likelihood, rho, z, sigma, bar, present, rng, M, beta) -> np.ndarray:
    """Draw a path along sigma. Where `present` is given, the first particle follows it."""
    T = len(sigma)
    xi = np.zeros((1, T))
    log_lik = np.zeros(1)
    log_w = np.zeros(1)
    power = 0.0
    for t in range(T):
        if len(xi) > M:
            survivors, log_w = thin(log_w, M, rng, keep_first=present is not None)
            xi, log_lik = xi[survivors], log_lik[survivors]

        previous_power, power = power, ((t + 1) / T) ** beta
        children, child_log_lik, child_log_w = [], [], []
        for i in range(len(xi)):
            first = int(present[t]) if present is not None and i == 0 else 0
            for bit in (first, 1 - first):
                child = xi[i].copy()
                child[t] = bit
                value = log_likelihood(complete_vector(z, sigma, bar, t + 1, child))
                children.append(child)
                child_log_lik.append(value)
                log_ratio = log_bernoulli(bit, rho[sigma[t]]) + power * value - previous_power * log_lik[i]
                child_log_w.append(log_w[i] + log_ratio)
        xi, log_lik, log_w = np.array(children), np.array(child_log_lik), np.array(child_log_w)
    return xi[draw_from_log_weights(log_w, rng)]


def thin(log_w, M: int, rng, keep_first: bool) -> tuple[np.ndarray, np.ndarray]:
    """Keep every particle with c w >= 1 as it is, and each of the others with probability c w and weight 1 / c."""
    log_c = find_log_threshold(log_w, M)
    share = np.exp(np.minimum(log_c + log_w, 0.0))
    survives = rng.random(len(log_w)) < share
    if keep_first:
        survives[0] = True
    survivors = np.flatnonzero(survives)
    if survivors.size == 0:  # only in a pilot run, where nobody is sure to survive
        survivors = np.array([int(np.argmax(log_w))])
    return survivors, np.maximum(log_w, -log_c)[survivors]


def find_log_threshold(log_w, M: int) -> float:
    """log c with sum_i min(1, c w_i) = M; infinity, which keeps everything, where at most M weights are positive.

    With the weights in descending order, c = (M - h) / (sum of all but the h largest) for the least h for which this
    leaves the next weight below 1 / c. Weights are in units of the M-th largest, next to which the root lies.
    """
    if np.count_nonzero(log_w > -np.inf) <= M:
        return np.inf
    descending = np.sort(log_w)[::-1]
    unit = descending[M - 1]
    w = np.exp(np.minimum(descending - unit, 700.0))
    rest = np.cumsum(w[::-1])[::-1]
    c = (M - np.arange(M)) / rest[:M]
    is_root = c * w[:M] < 1.0
    # Where all M largest reach 1, what is left is below rounding error beside the M-th.
    return float(np.log(c[np.argmax(is_root)]) - unit) if is_root.any() else -unit


# --- priors ---------------------------------------------------------------------------------------------------------


def fbb_log_mass(Z, a: float, b: float) -> float:
    """Finite Beta-Bernoulli: prod_k B(m_k + a, N - m_k + b) / B(a, b)."""
    N, m = len(Z), Z.sum(axis=0)
    return float(sum(betaln(m_k + a, N - m_k + b) - betaln(a, b) for m_k in m))


def fbb_predictive(counts, N: int, a: float, b: float) -> np.ndarray:
    """Probability that a row owns each feature; counts are those of the N - 1 other rows."""
    return (counts + a) / (N - 1 + a + b)


def ibp_log_mass(Z, alpha: float) -> float:
    """Indian buffet process: alpha^K / K! exp(-alpha H_N) prod_k Gamma(m_k) Gamma(N - m_k + 1) / Gamma(N + 1)."""
    N = len(Z)
    m = [m_k for m_k in Z.sum(axis=0) if m_k > 0]
    harmonic = sum(1.0 / n for n in range(1, N + 1))
    log_mass = len(m) * np.log(alpha) - gammaln(len(m) + 1) - alpha * harmonic
    return float(log_mass + sum(gammaln(m_k) + gammaln(N - m_k + 1) - gammaln(N + 1) for m_k in m))


def ibp_predictive(counts, N: int) -> np.ndarray:
    """Probability that a row owns each feature of the others; zero for its own singletons, which are held."""
    return counts / N


# --- linear Gaussian model ------------------------------------------------------------------------------------------


def log_normal(x, mean, precision: float) -> float:
    return float(np.sum(0.5 * np.log(precision / (2.0 * np.pi)) - 0.5 * precision * (x - mean) ** 2))


def log_gamma_density(x: float, shape: float, rate: float) -> float:
    return float(shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * np.log(x) - rate * x)


def lg_log_density(X, Z, V, tau_v: float, tau_x: float) -> float:
    """log p(X, V, tau_v, tau_x | Z) with Gamma(1, 1) priors on the precisions; NaN entries of X are left out."""
    observed = ~np.isnan(X)
    log_density = log_normal(X[observed], (Z @ V)[observed], tau_x) + log_normal(V, 0.0, tau_v)
    return log_density + log_gamma_density(tau_v, 1.0, 1.0) + log_gamma_density(tau_x, 1.0, 1.0)


def lg_row_log_likelihood(x, V, tau_x: float) -> LogLikelihood:
    """Log likelihood of one row as a function of its feature vector."""
    observed = ~np.isnan(x)
    x, V = x[observed], np.ascontiguousarray(V[:, observed])
    constant = 0.5 * x.size * np.log(tau_x / (2.0 * np.pi))

    def log_likelihood(z: np.ndarray) -> float:
        residual = x - z @ V
        return constant - 0.5 * tau_x * (residual @ residual)

    return log_likelihood


def lg_sweep(X, Z, V, tau_x: float, predictive, row_kernel, rng, rows=None) -> np.ndarray:
    """Update rows of Z one after the other and return the new matrix.

    Parameters
    ----------
    predictive
        Function of the counts of the other rows, the prior probability of each feature. Zero holds a column.
    row_kernel
        One of the row kernels, with the signature of `gibbs_row`.
    rows
        Which rows to update; all unless given.
    """
    Z = np.array(Z, dtype=float)
    for n in range(len(X)) if rows is None else rows:
        rho = predictive(Z.sum(axis=0) - Z[n])
        sigma = rng.permutation(np.flatnonzero(rho > 0.0))
        if sigma.size > 0:
            Z[n] = row_kernel(lg_row_log_likelihood(X[n], V, tau_x), rho, Z[n], sigma, rng)
    return Z


def lg_update_parameters(X, Z, tau_v: float, tau_x: float, rng) -> tuple[np.ndarray, float, float]:
    """Draw V given the precisions, then tau_v and tau_x given V, each from its conditional distribution."""
    K, D = Z.shape[1], X.shape[1]
    V = np.empty((K, D))
    for d in range(D):
        observed = ~np.isnan(X[:, d])
        Z_d, x_d = Z[observed], X[observed, d]
        covariance = np.linalg.inv(tau_v * np.eye(K) + tau_x * Z_d.T @ Z_d)
        V[:, d] = rng.multivariate_normal(tau_x * covariance @ Z_d.T @ x_d, covariance)
    observed = ~np.isnan(X)
    tau_v = rng.gamma(1.0 + 0.5 * V.size, 1.0 / (1.0 + 0.5 * np.sum(V**2)))
    squares = np.sum((X - Z @ V)[observed] ** 2)
    tau_x = rng.gamma(1.0 + 0.5 * observed.sum(), 1.0 / (1.0 + 0.5 * squares))
    return V, tau_v, tau_x
