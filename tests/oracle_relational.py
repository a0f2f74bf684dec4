"""The relational model in plain NumPy, for the tests and the benchmarks: nothing is shared with the compiled code.

As the method reads: the likelihood of a vector of row n is that of row n and column n of the matrix, from products with
all of Z; weights are moved one at a time by a random walk that evaluates the whole likelihood.
"""

from __future__ import annotations

import numpy as np
from oracle import LogLikelihood, log_gamma_density, log_normal


def counted(X, symmetric: bool) -> np.ndarray:
    """Entries that enter the likelihood: the known ones, every pair once."""
    known = ~np.isnan(X)
    return np.triu(known) if symmetric else known


def log_likelihood(X, Z, V, bias: float = 0.0, symmetric: bool = False) -> float:
    scores = Z @ V @ Z.T + bias
    terms = X * scores - np.logaddexp(0.0, scores)
    return float(terms[counted(X, symmetric)].sum())


def log_density(X, Z, V, tau: float, symmetric: bool = False) -> float:
    """log p(X, V, tau | Z) with a Gamma(1, 1) prior on tau."""
    weights = V[np.triu_indices(len(V))] if symmetric else V
    return log_likelihood(X, Z, V, 0.0, symmetric) + log_normal(weights, 0.0, tau) + log_gamma_density(tau, 1.0, 1.0)


def row_log_likelihood(X, Z, V, n: int, symmetric: bool = False) -> LogLikelihood:
    """Log likelihood of row and column n as a function of the feature vector of node n."""
    Z = Z.copy()
    row_known, column_known = ~np.isnan(X[n]), ~np.isnan(X[:, n])
    column_known[n] = False
    if symmetric:
        column_known[:] = False

    def evaluate(z: np.ndarray) -> float:
        Z[n] = z
        row, column = z @ V @ Z.T, Z @ V @ z
        row_terms = X[n] * row - np.logaddexp(0.0, row)
        column_terms = X[:, n] * column - np.logaddexp(0.0, column)
        return float(row_terms[row_known].sum() + column_terms[column_known].sum())

    return evaluate


def sweep(X, Z, V, predictive, row_kernel, rng, rows=None) -> np.ndarray:
    """Update rows of Z one after the other and return the new matrix; the arguments are those of `oracle.lg_sweep`."""
    Z = np.array(Z, dtype=float)
    for n in range(len(X)) if rows is None else rows:
        rho = predictive(Z.sum(axis=0) - Z[n])
        sigma = rng.permutation(np.flatnonzero(rho > 0.0))
        if sigma.size > 0:
            Z[n] = row_kernel(row_log_likelihood(X, Z, V, n), rho, Z[n], sigma, rng)
    return Z


def update_parameters(X, Z, V, tau: float, rng, scale: float = 1.0) -> tuple[np.ndarray, float]:
    """Each weight by a random walk on the whole likelihood, then tau from its conditional distribution."""
    V = V.copy()
    present = log_likelihood(X, Z, V) + log_normal(V, 0.0, tau)
    for k in range(len(V)):
        for j in range(len(V)):
            before = V[k, j]
            V[k, j] += scale * rng.standard_normal()
            proposed = log_likelihood(X, Z, V) + log_normal(V, 0.0, tau)
            if np.log(rng.random()) < proposed - present:
                present = proposed
            else:
                V[k, j] = before
    return V, rng.gamma(1.0 + 0.5 * V.size, 1.0 / (1.0 + 0.5 * np.sum(V**2)))
