"""The PyClone model in plain NumPy: slow, straight from its definition, and nothing shared with the package."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp


def genotypes(major: int, minor: int, normal: int) -> list[tuple[int, int]]:
    """Copy number of the cells without the mutation, and mutant copies of those with it, all equally likely."""
    total = major + minor
    before = [(normal, copies) for copies in range(1, major + 1)]
    return before + ([(total, 1)] if total != normal else [])


def expected_fraction(phi, reference, copies, major, minor, normal, t, eps):
    """Share of mutant reads among all, for prevalence phi."""
    total = major + minor
    mu = np.minimum(1.0 - eps, copies / total)
    mutant = (1.0 - t) * normal * eps + t * (1.0 - phi) * reference * eps + t * phi * total * mu
    return mutant / ((1.0 - t) * normal + t * (1.0 - phi) * reference + t * phi * total)


def entry_log_likelihood(phi, ref, alt, major, minor, normal, t=1.0, eps=0.001, precision=None) -> float:
    """log p(alt | depth, phi) of one mutation in one sample, by scipy's own distributions."""
    terms = []
    for reference, copies in genotypes(major, minor, normal):
        xi = expected_fraction(phi, reference, copies, major, minor, normal, t, eps)
        if precision is None:
            terms.append(stats.binom.logpmf(alt, ref + alt, xi))
        else:
            terms.append(stats.betabinom.logpmf(alt, ref + alt, precision * xi, precision * (1.0 - xi)))
    return float(logsumexp(terms) - np.log(len(terms)))


def log_likelihood(table, Z, V, precision=None) -> float:
    """Log likelihood of a whole table, its mutations and samples numbered in order of appearance."""
    rows = {name: n for n, name in enumerate(dict.fromkeys(table["mutation_id"]))}
    samples = {name: m for m, name in enumerate(dict.fromkeys(table["sample_id"]))}
    phi = np.asarray(Z, dtype=float) @ (V / V.sum(axis=0)) if len(V) else np.zeros((len(rows), len(samples)))
    total = 0.0
    for entry in table.to_dict("records"):
        if entry["ref_counts"] + entry["alt_counts"] == 0:
            continue
        total += entry_log_likelihood(
            min(phi[rows[entry["mutation_id"]], samples[entry["sample_id"]]], 1.0),
            entry["ref_counts"],
            entry["alt_counts"],
            entry["major_cn"],
            entry["minor_cn"],
            entry["normal_cn"],
            entry.get("tumour_content", 1.0),
            entry.get("error_rate", 0.001),
            precision,
        )
    return total


# --- for the benchmark ------------------------------------------------------------------------------------------------


class Row:
    """One mutation in all of its samples, its genotypes laid out as arrays (samples by genotypes)."""

    def __init__(self, entries) -> None:
        self.alt = np.array([entry["alt_counts"] for entry in entries], dtype=float)[:, np.newaxis]
        self.ref = np.array([entry["ref_counts"] for entry in entries], dtype=float)[:, np.newaxis]
        lists = [genotypes(entry["major_cn"], entry["minor_cn"], entry["normal_cn"]) for entry in entries]
        width = max(map(len, lists))
        shape = (len(entries), width)
        self.reference, self.copies = np.ones(shape), np.ones(shape)
        self.log_weight = np.full(shape, -np.inf)
        for m, genotypes_here in enumerate(lists):
            for g, (reference, copies) in enumerate(genotypes_here):
                self.reference[m, g], self.copies[m, g] = reference, copies
                self.log_weight[m, g] = -np.log(len(genotypes_here))

        def column(name, default):
            return np.array([float(entry.get(name, default)) for entry in entries])[:, np.newaxis]

        self.major, self.minor, self.normal = (column(name, 0.0) for name in ("major_cn", "minor_cn", "normal_cn"))
        self.t, self.eps = column("tumour_content", 1.0), column("error_rate", 0.001)
        depth = self.ref + self.alt
        self.constant = gammaln(depth + 1.0) - gammaln(self.alt + 1.0) - gammaln(self.ref + 1.0)

    def log_likelihoods(self, phi, precision=None) -> np.ndarray:
        """Of each sample, for prevalences phi of all samples."""
        phi = np.clip(phi, 0.0, 1.0)[:, np.newaxis]
        xi = expected_fraction(phi, self.reference, self.copies, self.major, self.minor, self.normal, self.t, self.eps)
        if precision is None:
            terms = self.alt * np.log(xi) + self.ref * np.log1p(-xi)
        else:
            a, b = precision * xi, precision * (1.0 - xi)
            terms = betaln(self.alt + a, self.ref + b) - betaln(a, b)
        terms = terms + self.log_weight
        best = terms.max(axis=1, keepdims=True)
        return (self.constant + best + np.log(np.exp(terms - best).sum(axis=1, keepdims=True)))[:, 0]


def make_rows(table) -> list[Row]:
    """All mutations of a table without missing entries, samples in the same order throughout."""
    entries = table.to_dict("records")
    num_samples = table["sample_id"].nunique()
    return [Row(entries[a:b]) for a, b in pairwise(range(0, len(entries) + 1, num_samples))]


def row_log_likelihood(row: Row, F, precision=None) -> Callable[[np.ndarray], float]:
    """Log likelihood of one mutation as a function of its feature vector."""

    def evaluate(z: np.ndarray) -> float:
        return float(row.log_likelihoods(z @ F, precision).sum())

    return evaluate


def sweep(rows, Z, V, predictive, row_kernel, rng, which=None, precision=None) -> np.ndarray:
    """Update rows of Z one after the other and return the new matrix."""
    Z = np.array(Z, dtype=float)
    F = V / V.sum(axis=0)
    for n in range(len(rows)) if which is None else which:
        rho = predictive(Z.sum(axis=0) - Z[n])
        sigma = rng.permutation(np.flatnonzero(rho > 0.0))
        Z[n] = row_kernel(row_log_likelihood(rows[n], F, precision), rho, Z[n], sigma, rng)
    return Z


def update_parameters(rows, Z, V, rng, *, a=1.0, b=1.0, step=0.1, num_tries=5, block=4, precision=None) -> np.ndarray:
    """Random walks on single entries and on blocks, a permutation and a multiple-try step, accepted sample by sample.

    The likelihood is asked row by row: one call for each mutation gives that of all of its samples.
    """
    V = V.copy()
    K, M = V.shape

    def log_densities(V):
        phi = Z @ (V / V.sum(axis=0))
        log_lik = sum(row.log_likelihoods(phi[n], precision) for n, row in enumerate(rows))
        return log_lik + np.sum(a * np.log(V) - b * V, axis=0)

    def accept(V, present, proposal):
        new = log_densities(proposal)
        accepted = np.log(rng.random(M)) < new - present
        return np.where(accepted, proposal, V), np.where(accepted, new, present)

    present = log_densities(V)
    for k in rng.permutation(K):
        proposal = V.copy()
        proposal[k] *= np.exp(step * rng.standard_normal(M))
        V, present = accept(V, present, proposal)
    for first in range(0, K, block):
        proposal = V.copy()
        proposal[first : first + block] *= np.exp(step * rng.standard_normal(proposal[first : first + block].shape))
        V, present = accept(V, present, proposal)
    V, present = accept(V, present, rng.permuted(V, axis=0))

    tries = [V * np.exp(step * rng.standard_normal(V.shape)) for _ in range(num_tries)]
    forward = np.array([log_densities(x) for x in tries])
    chosen = np.array([rng.choice(num_tries, p=np.exp(w - logsumexp(w))) for w in forward.T])
    proposal = np.array(tries)[chosen, :, np.arange(M)].T
    others = [proposal * np.exp(step * rng.standard_normal(V.shape)) for _ in range(num_tries - 1)]
    backward = np.array([present, *(log_densities(x) for x in others)])
    accepted = np.log(rng.random(M)) < logsumexp(forward, axis=0) - logsumexp(backward, axis=0)
    return np.where(accepted, proposal, V)
