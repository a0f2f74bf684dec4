"""Allele counts drawn from the model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pgfa.models.pyclone_table import Counts

Floats = NDArray[np.float64]


def allele_fraction(counts: Counts, phi: Floats, copies: NDArray[np.int64], is_after: NDArray[np.bool_]) -> Floats:
    """Expected share of reads with the mutation, for each entry of the counts, given prevalence and genotype.

    Written out as in the definition of the model; the coefficients of the likelihood are another form of it.
    """
    t, eps = counts.tumour_content, counts.error_rate
    variant = (counts.major + counts.minor).astype(float)
    reference = np.where(is_after, variant, counts.normal)
    mutant_fraction = np.minimum(1.0 - eps, copies / variant)
    mutant = (1.0 - t) * counts.normal * eps + t * (1.0 - phi) * reference * eps + t * phi * variant * mutant_fraction
    return mutant / ((1.0 - t) * counts.normal + t * (1.0 - phi) * reference + t * phi * variant)


def draw_reads(
    xi: Floats, depth: NDArray[np.int64], precision: float | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Reads with the mutation: binomial, or beta-binomial where there is a precision."""
    if precision is not None:
        xi = rng.beta(np.maximum(precision * xi, 1e-300), np.maximum(precision * (1.0 - xi), 1e-300))
    return rng.binomial(depth, xi)


def draw_alt_counts(counts: Counts, phi: Floats, precision: float | None, rng: np.random.Generator) -> Floats:
    """Reads with the mutation, of shape (N, M), at the depths of `counts`; NaN where these have no entry."""
    total = counts.major + counts.minor
    num_genotypes = counts.major + (total != counts.normal)
    genotype = rng.integers(0, np.maximum(num_genotypes, 1))
    is_after = genotype >= counts.major
    copies = np.where(is_after, 1, genotype + 1)
    told = total > 0
    depth = counts.ref + counts.alt
    alt = np.zeros(depth.size)
    entries = counts._replace(**{name: getattr(counts, name)[told] for name in Counts._fields[2:]})
    xi = allele_fraction(entries, phi[entries.mutation, entries.sample], copies[told], is_after[told])
    alt[told] = draw_reads(xi, depth[told], precision, rng)
    matrix = np.full(phi.shape, np.nan)
    matrix[counts.mutation, counts.sample] = alt
    return matrix


def simulate_counts(
    phi: Floats,
    precision: float | None,
    mean_depth: float,
    tumour_content: float,
    error_rate: float,
    rng: np.random.Generator,
) -> Counts:
    """Counts for all mutations and samples as in the paper: two copies, of which one or two are of the major allele.

    Mutant copies are uniform up to the major copy number, which is what the likelihood assumes as well.
    """
    num_rows, num_samples = phi.shape
    mutation, sample = (index.ravel() for index in np.indices(phi.shape))
    depth = rng.poisson(mean_depth, size=phi.size)
    major = rng.integers(1, 3, size=phi.size)
    counts = Counts(
        mutation_ids=[f"mutation_{n + 1}" for n in range(num_rows)],
        sample_ids=[f"sample_{m + 1}" for m in range(num_samples)],
        mutation=mutation,
        sample=sample,
        ref=depth,
        alt=np.zeros_like(depth),
        major=major,
        minor=2 - major,
        normal=np.full(phi.size, 2),
        tumour_content=np.full(phi.size, tumour_content),
        error_rate=np.full(phi.size, error_rate),
    )
    alt = draw_alt_counts(counts, phi, precision, rng).ravel().astype(np.int64)
    return counts._replace(alt=alt, ref=depth - alt)
