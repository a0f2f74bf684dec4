"""From allele counts to the coefficients of the likelihood.

A mutation of prevalence phi is seen in a read with probability ``xi = (A + B phi) / (C + D phi)``, where the
coefficients follow from tumour content, copy numbers and the genotype of the mutated cells. The genotype is not known:
the likelihood is a uniform mixture over

- the mutation came before the copy-number change: cells without it are as normal, cells with it have 1, ..., major
  copies;
- the mutation came after it (told apart only where the copy number has changed): cells without it have the tumour's
  copy number, and cells with it one copy.

All genotypes of the first kind share the denominator, which the coefficients here are divided by at phi = 0: it
becomes ``1 + slope phi``. In those of the second kind it is constant, hence 1. So what is left for each genotype is
``p0 + p1 phi`` for mutant reads and ``q0 + q1 phi`` for the others, which add up to the denominator.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from pgfa.models.pyclone_table import Counts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


#: Rows of `reads`: reads with the mutation, reads without it, and the slope of the denominator.
ALT, REF, SLOPE = range(3)

#: Rows of `coefficients`: the numerators are p0 + p1 phi with and q0 + q1 phi without the mutation.
P0, P1, Q0, Q1 = range(4)

#: Columns of `groups`: first lane, first coefficient, number of genotypes, and how many of these are of the first kind.
LANE, COEFFICIENT, GENOTYPES, BEFORE = range(4)


class RowLayout(NamedTuple):
    """Entries (observed mutations in samples) by mutation: row n owns entries row_start[n] to row_start[n + 1].

    Entry e has the coefficients from genotype_start[e] to genotype_start[e + 1]. Few arrays with several rows, here and
    below, because each array that a compiled function is handed costs time when it is compiled and when it is called.
    """

    row_start: Ints
    sample: Ints
    reads: Floats
    genotype_start: Ints
    coefficients: Floats


class SampleLayout(NamedTuple):
    """The same entries sample by sample, called lanes here, so that loops over them vectorise.

    Within a sample lanes are sorted into groups with the same number of genotypes; the one after the last group closes
    the list. Coefficients of the i-th lane of a group of size s, for its j-th genotype, stand at j * s + i from the
    group's first.
    """

    sample_start: Ints
    row: Ints
    entry: Ints
    reads: Floats
    group_start: Ints
    groups: Ints
    coefficients: Floats


class Layouts(NamedTuple):
    """All that compiled code needs to know of the data."""

    by_row: RowLayout
    by_sample: SampleLayout
    num_samples: int


def _expand(counts: Counts) -> tuple[Ints, Ints, Floats, Floats]:
    """First genotype of each entry (and one past the last), number of the first kind, slopes, and coefficients."""
    total = counts.major + counts.minor
    num_genotypes = counts.major + (total != counts.normal)
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
    coefficients = np.empty((4, entry.size))
    coefficients[P0] = eps
    coefficients[P1] = t * (variant * mutant_fraction - reference * eps) / at_zero
    coefficients[Q0] = 1.0 - eps
    coefficients[Q1] = t * (variant * (1.0 - mutant_fraction) - reference * (1.0 - eps)) / at_zero
    slope = counts.tumour_content * (total - counts.normal) / counts.normal
    return genotype_start, counts.major, slope, coefficients


def make_layouts(counts: Counts) -> Layouts:
    """Arrange the entries by row and by sample; entries without reads say nothing and are left out."""
    counts = with_reads(counts)
    num_rows, num_samples = len(counts.mutation_ids), len(counts.sample_ids)
    genotype_start, num_before, slope, coefficients = _expand(counts)
    reads = np.stack([counts.alt, counts.ref, slope])
    row_start = np.searchsorted(counts.mutation, np.arange(num_rows + 1))
    by_row = RowLayout(row_start, counts.sample, reads, genotype_start, coefficients)

    num_genotypes = np.diff(genotype_start)
    order = np.lexsort((counts.mutation, num_before, num_genotypes, counts.sample))
    keys = np.stack([counts.sample, num_genotypes, num_before])[:, order]
    is_first = np.any(np.diff(keys, axis=1, prepend=-1) != 0, axis=0)
    first = np.flatnonzero(is_first)
    sizes = np.diff(first, append=order.size)
    groups = np.zeros((first.size + 1, 4), dtype=np.int64)
    groups[:, LANE] = np.append(first, order.size)
    groups[1:, COEFFICIENT] = np.cumsum(sizes * keys[1][first])
    groups[:-1, GENOTYPES], groups[:-1, BEFORE] = keys[1][first], keys[2][first]
    by_genotype = [
        genotype_start[order[lane : lane + size]] + j
        for lane, size, count in zip(first, sizes, keys[1][first])
        for j in range(count)
    ]
    by_sample = SampleLayout(
        sample_start=np.searchsorted(keys[0], np.arange(num_samples + 1)),
        row=counts.mutation[order],
        entry=order.astype(np.int64),
        reads=np.ascontiguousarray(reads[:, order]),
        group_start=np.searchsorted(keys[0][first], np.arange(num_samples + 1)),
        groups=groups,
        coefficients=np.ascontiguousarray(coefficients[:, np.concatenate([np.zeros(0, dtype=np.int64), *by_genotype])]),
    )
    return Layouts(by_row, by_sample, num_samples)


def with_reads(counts: Counts) -> Counts:
    """Only the entries that have any."""
    told = counts.ref + counts.alt > 0
    return counts._replace(**{name: getattr(counts, name)[told] for name in Counts._fields[2:]})


def log_constant(counts: Counts) -> float:
    """What the likelihood owes to binomial coefficients and to the uniform weights of the genotypes."""
    counts = with_reads(counts)
    num_genotypes = counts.major + (counts.major + counts.minor != counts.normal)
    choose = gammaln(counts.ref + counts.alt + 1.0) - gammaln(counts.ref + 1.0) - gammaln(counts.alt + 1.0)
    return float(np.sum(choose - np.log(num_genotypes)))


def put_reads(counts: Counts, layouts: Layouts, alt_counts: Floats) -> tuple[Counts, Layouts]:
    """The same depths and genotypes with other reads: alt_counts of shape (N, M), ignored where there are no data."""
    shape = (len(counts.mutation_ids), len(counts.sample_ids))
    if alt_counts.shape != shape:
        raise ValueError(f"data must have shape {shape}, mutations by samples, got {alt_counts.shape}")
    alt = alt_counts[counts.mutation, counts.sample]
    depth = counts.ref + counts.alt
    wrong = ~((alt >= 0) & (alt <= depth) & (alt == np.floor(alt)))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"data must hold whole numbers up to the depth: row {counts.mutation[i]}, column {counts.sample[i]} "
            f"is {alt[i]} of {depth[i]}"
        )
    counts = counts._replace(alt=alt.astype(np.int64), ref=depth - alt.astype(np.int64))
    told = with_reads(counts)
    by_row, by_sample = layouts.by_row, layouts.by_sample
    reads = np.stack([told.alt, told.ref, by_row.reads[SLOPE]])
    by_row = by_row._replace(reads=reads)
    by_sample = by_sample._replace(reads=np.ascontiguousarray(reads[:, by_sample.entry]))
    return counts, layouts._replace(by_row=by_row, by_sample=by_sample)
