"""From allele counts to the coefficients of the likelihood.

A mutation of prevalence phi is seen in a read with probability ``xi = (A + B phi) / (C + D phi)``, where the coefficients
follow from tumour content, copy numbers and the genotype of the mutated cells. The genotype is not known: the likelihood is
a uniform mixture over

- the mutation came before the copy-number change: cells without it are as normal, cells with it have 1, ..., major copies;
- the mutation came after it (told apart only where the copy number has changed): cells without it have the tumour's copy
  number, and cells with it one copy.

All genotypes of the first kind share the denominator, which the coefficients here are divided by at phi = 0: it becomes
``1 + slope phi``. In those of the second kind it is constant, hence 1. So what is left for each genotype is ``p0 + p1 phi`` for
mutant reads and ``q0 + q1 phi`` for the others, which add up to the denominator.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from pgfa.models.pyclone_table import Counts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Genotypes(NamedTuple):
    """Coefficients of every entry (an observed mutation in a sample), one stretch of genotypes an entry."""

    p0: Floats
    p1: Floats
    q0: Floats
    q1: Floats


class RowLayout(NamedTuple):
    """Entries mutation by mutation: row n owns entries row_start[n] to row_start[n + 1]."""

    row_start: Ints
    sample: Ints
    alt: Floats
    ref: Floats
    slope: Floats
    genotype_start: Ints
    genotypes: Genotypes


class SampleLayout(NamedTuple):
    """The same entries sample by sample, so that loops over them vectorise.

    Within a sample entries are sorted into groups with the same number of genotypes. Coefficient i of genotype j of a group
    that begins at lane l, with coefficients from c on and of size s, stands at ``c + j * s + i - l``.
    """

    sample_start: Ints
    row: Ints
    entry: Ints
    alt: Floats
    ref: Floats
    slope: Floats
    group_start: Ints
    group_lane: Ints
    group_coefficient: Ints
    group_genotypes: Ints
    group_has_after: NDArray[np.bool_]
    genotypes: Genotypes


class Layouts(NamedTuple):
    """All that compiled code needs to know of the data."""

    by_row: RowLayout
    by_sample: SampleLayout
    num_samples: int


def _expand(counts: Counts) -> tuple[Ints, NDArray[np.bool_], Floats, Genotypes]:
    """First genotype of each entry (and one past the last), whether it has one of the second kind, slopes, coefficients."""
    total = counts.major + counts.minor
    has_after = total != counts.normal
    num_genotypes = counts.major + has_after
    genotype_start = np.concatenate([[0], np.cumsum(num_genotypes)]).astype(np.int64)
    entry = np.repeat(np.arange(total.size), num_genotypes)
    copies = np.arange(entry.size) - genotype_start[entry] + 1
    is_after = copies > counts.major[entry]
    copies = np.where(is_after, 1, copies)

    t, eps = counts.tumour_content[entry], counts.error_rate[entry]
    normal, variant = counts.normal[entry].astype(float), total[entry].astype(float)
    reference = np.where(is_after, variant, normal)
    mutant_fraction = np.minimum(1.0 - eps, copies / variant)
    at_zero = (1.0 - t) * normal + t * reference
    p0 = np.full(entry.size, eps)
    p1 = t * (variant * mutant_fraction - reference * eps) / at_zero
    q0 = 1.0 - eps
    q1 = t * (variant * (1.0 - mutant_fraction) - reference * (1.0 - eps)) / at_zero
    slope = counts.tumour_content * (total - counts.normal) / counts.normal
    return genotype_start, has_after, slope, Genotypes(p0, p1, q0, q1)


def _take(genotypes: Genotypes, order: Ints) -> Genotypes:
    return Genotypes(*(np.ascontiguousarray(field[order]) for field in genotypes))


def make_layouts(counts: Counts) -> Layouts:
    """Arrange the entries by row and by sample; entries without reads say nothing and are left out."""
    told = counts.ref + counts.alt > 0
    counts = counts._replace(**{name: getattr(counts, name)[told] for name in Counts._fields[2:]})
    num_rows, num_samples = len(counts.mutation_ids), len(counts.sample_ids)
    genotype_start, has_after, slope, genotypes = _expand(counts)
    alt, ref = counts.alt.astype(float), counts.ref.astype(float)
    by_row = RowLayout(
        np.searchsorted(counts.mutation, np.arange(num_rows + 1)), counts.sample, alt, ref, slope, genotype_start, genotypes
    )

    num_genotypes = np.diff(genotype_start)
    order = np.lexsort((counts.mutation, has_after, num_genotypes, counts.sample))
    keys = np.stack([counts.sample, num_genotypes, has_after])[:, order]
    first = np.flatnonzero(np.concatenate([[True], np.any(np.diff(keys, axis=1) != 0, axis=0)])[: order.size])
    sizes = np.diff(np.concatenate([first, [order.size]]))
    coefficient_order = [
        genotype_start[order[l : l + s]] + j
        for l, s in zip(first, sizes, strict=True)
        for j in range(num_genotypes[order[l]])
    ]
    by_sample = SampleLayout(
        sample_start=np.searchsorted(keys[0], np.arange(num_samples + 1)),
        row=counts.mutation[order],
        entry=order.astype(np.int64),
        alt=alt[order],
        ref=ref[order],
        slope=slope[order],
        group_start=np.searchsorted(keys[0][first], np.arange(num_samples + 1)),
        group_lane=np.concatenate([first, [order.size]]).astype(np.int64),
        group_coefficient=np.concatenate([[0], np.cumsum(sizes * keys[1][first])]).astype(np.int64),
        group_genotypes=keys[1][first].astype(np.int64),
        group_has_after=keys[2][first].astype(bool),
        genotypes=_take(genotypes, np.concatenate([np.empty(0, dtype=np.int64), *coefficient_order])),
    )
    return Layouts(by_row, by_sample, num_samples)


def log_constant(counts: Counts) -> float:
    """What the likelihood owes to binomial coefficients and to the uniform weights of the genotypes."""
    told = counts.ref + counts.alt > 0
    ref, alt, major = (x[told].astype(float) for x in (counts.ref, counts.alt, counts.major))
    num_genotypes = major + (counts.major + counts.minor != counts.normal)[told]
    choose = gammaln(ref + alt + 1.0) - gammaln(ref + 1.0) - gammaln(alt + 1.0)
    return float(np.sum(choose - np.log(num_genotypes)))
