"""The likelihood of allele counts as a function of prevalence, compiled, in two directions.

Along *particles*: one entry, many candidate prevalences, for the row samplers. Along *lanes*: one sample, all of its
entries, for the updates of the prevalences. Either way the loops are plain arithmetic that vectorises.

Log likelihoods here leave out what does not depend on prevalence: binomial coefficients, the weights of the genotypes
and, for the beta-binomial density, Gamma functions of precision and depth alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled
from pgfa.models.pyclone_genotypes import (
    ALT,
    BEFORE,
    COEFFICIENT,
    GENOTYPES,
    LANE,
    P0,
    P1,
    Q0,
    Q1,
    REF,
    SLOPE,
    SampleLayout,
)
from pgfa.vector_math import exp, log, log_rising, log_rising_slope


class Density(NamedTuple):
    """Binomial, or beta-binomial with a precision."""

    is_beta: bool
    precision: float


#: Rows of working memory, one number for each particle or lane: prevalences, the highest term of the mixture over
#: genotypes, the sum of all terms relative to it, and what else a function says that it leaves there.
PHI, BEST, TOTAL, SCORE, INFORMATION = range(5)

#: How many of these rows `add_entries` needs, and how many the functions of lanes.
NUM_SCRATCH, NUM_LANE_SCRATCH = 3, 5


@compiled(liberty="fused", allocates=False, inline=True)
def _clip(phi):  # type: ignore[no-untyped-def]
    """Sums of shares leave the unit interval by rounding."""
    return min(max(phi, 0.0), 1.0)


@compiled(liberty="fused", allocates=False, inline=True)
def _binomial(p, q, alt, ref):  # type: ignore[no-untyped-def]
    return alt * log(p) + ref * log(q)


@compiled(liberty="fused", allocates=False, inline=True)
def _beta_binomial(p, q, inverse, precision, alt, ref):  # type: ignore[no-untyped-def]
    scale = precision * inverse
    return log_rising(scale * p, alt) + log_rising(scale * q, ref)


@compiled(liberty="fused", allocates=False, inline=True)
def _mix(best, total, term):  # type: ignore[no-untyped-def]
    """Add exp(term) to exp(best) * total; returns the new pair. No exponent is ever positive."""
    difference = term - best
    ratio = exp(-abs(difference))
    is_better = difference > 0.0
    return max(best, term), (total * ratio + 1.0 if is_better else total + ratio)


# --- along particles ------------------------------------------------------------------------------------------------


@compiled(liberty="arithmetic", allocates=False)
def add_entries(layout, density, first_entry, last_entry, predictor, shift, sign, count, scratch, out):  # type: ignore[no-untyped-def]
    """Add to out[i], for i below `count`, the log likelihood of some entries.

    Prevalences are predictor[m, i] + sign * shift[m], where m is the sample of the entry. The rows of `scratch` are
    working memory of at least `count` numbers each.
    """
    reads, coefficients = layout.reads, layout.coefficients
    phi, best, total = scratch[PHI], scratch[BEST], scratch[TOTAL]
    is_beta, precision = density.is_beta, density.precision
    for entry in range(first_entry, last_entry):
        alt, ref, slope, m = reads[ALT, entry], reads[REF, entry], reads[SLOPE, entry], layout.sample[entry]
        first, last = layout.genotype_start[entry], layout.genotype_start[entry + 1]
        step = sign * shift[m]
        for i in range(count):
            phi[i] = _clip(predictor[m, i] + step)

        # Where the copy number has changed, the last genotype is the one that came after the change.
        last_before = last - 1 if slope != 0.0 else last
        for g in range(first, last):
            a, b, c, d = coefficients[P0, g], coefficients[P1, g], coefficients[Q0, g], coefficients[Q1, g]
            this_slope = slope if g < last_before else 0.0
            if g == last_before and not is_beta:
                for i in range(count):
                    best[i] -= (alt + ref) * log(1.0 + slope * phi[i])
            if g == first:
                if is_beta:
                    for i in range(count):
                        inverse = 1.0 / (1.0 + this_slope * phi[i])
                        best[i] = _beta_binomial(a + b * phi[i], c + d * phi[i], inverse, precision, alt, ref)
                else:
                    for i in range(count):
                        best[i] = _binomial(a + b * phi[i], c + d * phi[i], alt, ref)
                for i in range(count):
                    total[i] = 1.0
            elif is_beta:
                for i in range(count):
                    inverse = 1.0 / (1.0 + this_slope * phi[i])
                    term = _beta_binomial(a + b * phi[i], c + d * phi[i], inverse, precision, alt, ref)
                    best[i], total[i] = _mix(best[i], total[i], term)
            else:
                for i in range(count):
                    term = _binomial(a + b * phi[i], c + d * phi[i], alt, ref)
                    best[i], total[i] = _mix(best[i], total[i], term)
        if last - first == 1:
            for i in range(count):
                out[i] += best[i]
        else:
            for i in range(count):
                out[i] += best[i] + log(total[i])


# --- along lanes ----------------------------------------------------------------------------------------------------


@compiled(liberty="arithmetic", allocates=False)
def sample_log_likelihood(layout, density, m, predictor, scratch):  # type: ignore[no-untyped-def]
    """Log likelihood of sample m; predictor[i] is the prevalence of its i-th lane."""
    coefficients, groups = layout.coefficients, layout.groups
    is_beta, precision = density.is_beta, density.precision
    begin = layout.sample_start[m]
    log_lik = 0.0
    for group in range(layout.group_start[m], layout.group_start[m + 1]):
        lane = groups[group, LANE]
        size = groups[group + 1, LANE] - lane
        alt, ref, slope = layout.reads[ALT, lane:], layout.reads[REF, lane:], layout.reads[SLOPE, lane:]
        phi, best, total, term = scratch[PHI], scratch[BEST], scratch[TOTAL], scratch[SCORE]
        num_genotypes, num_before = groups[group, GENOTYPES], groups[group, BEFORE]
        for i in range(size):
            phi[i] = _clip(predictor[lane - begin + i])
            best[i] = 0.0
            total[i] = 1.0
        for j in range(num_genotypes):
            at = groups[group, COEFFICIENT] + j * size
            a, b, c, d = coefficients[P0, at:], coefficients[P1, at:], coefficients[Q0, at:], coefficients[Q1, at:]
            steepness = 1.0 if j < num_before else 0.0
            if j == num_before and not is_beta:
                for i in range(size):
                    best[i] -= (alt[i] + ref[i]) * log(1.0 + slope[i] * phi[i])
            if is_beta:
                for i in range(size):
                    inverse = 1.0 / (1.0 + steepness * slope[i] * phi[i])
                    p, q = a[i] + b[i] * phi[i], c[i] + d[i] * phi[i]
                    term[i] = _beta_binomial(p, q, inverse, precision, alt[i], ref[i])
            else:
                for i in range(size):
                    term[i] = _binomial(a[i] + b[i] * phi[i], c[i] + d[i] * phi[i], alt[i], ref[i])
            if j == 0:
                for i in range(size):
                    best[i] = term[i]
            else:
                for i in range(size):
                    best[i], total[i] = _mix(best[i], total[i], term[i])
        if num_genotypes == 1:
            for i in range(size):
                log_lik += best[i]
        else:
            for i in range(size):
                log_lik += best[i] + log(total[i])
    return log_lik


@compiled(liberty="fused", allocates=False, inline=True)
def _blend(value, ratio, is_better, term):  # type: ignore[no-untyped-def]
    """A weighted sum whose weights are relative to the best term so far, as in `_mix`."""
    return value * ratio + term if is_better else value + ratio * term


@compiled(liberty="arithmetic", allocates=False)
def sample_slopes(layout, density, m, predictor, scratch):  # type: ignore[no-untyped-def]
    """Log likelihood of sample m, and for each lane its derivative and about how much it tells of the prevalence.

    Derivatives are left in row SCORE of the working memory and Fisher informations in row INFORMATION. The latter are
    those of the genotypes averaged over their posterior, and for the beta-binomial density of a binomial with as much
    variance: they only shape proposals. The likelihoods themselves are left as BEST + log(TOTAL).
    """
    coefficients, groups = layout.coefficients, layout.groups
    is_beta, precision = density.is_beta, density.precision
    begin = layout.sample_start[m]
    log_lik = 0.0
    for group in range(layout.group_start[m], layout.group_start[m + 1]):
        lane = groups[group, LANE]
        size = groups[group + 1, LANE] - lane
        here = lane - begin
        alt, ref, slope = layout.reads[ALT, lane:], layout.reads[REF, lane:], layout.reads[SLOPE, lane:]
        phi, best, total = scratch[PHI, here:], scratch[BEST, here:], scratch[TOTAL, here:]
        score, information = scratch[SCORE, here:], scratch[INFORMATION, here:]
        num_before = groups[group, BEFORE]
        for i in range(size):
            phi[i] = _clip(predictor[here + i])
            best[i] = -1e300
            total[i] = 0.0
            score[i] = 0.0
            information[i] = 0.0
        for j in range(groups[group, GENOTYPES]):
            at = groups[group, COEFFICIENT] + j * size
            a, b, c, d = coefficients[P0, at:], coefficients[P1, at:], coefficients[Q0, at:], coefficients[Q1, at:]
            steepness = 1.0 if j < num_before else 0.0
            for i in range(size):
                p, q = a[i] + b[i] * phi[i], c[i] + d[i] * phi[i]
                bend = steepness * slope[i]
                depth = alt[i] + ref[i]
                inverse = 1.0 / (1.0 + bend * phi[i])
                rate = (b[i] - p * bend * inverse) * inverse
                known = depth * rate * rate / (p * q * inverse * inverse)
                if is_beta:
                    x, y = precision * p * inverse, precision * q * inverse
                    term = log_rising(x, alt[i]) + log_rising(y, ref[i])
                    derivative = precision * rate * (log_rising_slope(x, alt[i]) - log_rising_slope(y, ref[i]))
                    known *= (precision + 1.0) / (precision + depth)
                else:
                    term = alt[i] * log(p) + ref[i] * log(q) + depth * log(inverse)
                    derivative = (alt[i] / p - ref[i] / q) * rate / inverse
                difference = term - best[i]
                ratio = exp(-abs(difference))
                is_better = difference > 0.0
                best[i] = max(best[i], term)
                total[i] = _blend(total[i], ratio, is_better, 1.0)
                score[i] = _blend(score[i], ratio, is_better, derivative)
                information[i] = _blend(information[i], ratio, is_better, known)
        for i in range(size):
            log_lik += best[i] + log(total[i])
        for i in range(size):
            score[i] /= total[i]
            information[i] /= total[i]
    return log_lik


@compiled(liberty="arithmetic", allocates=False)
def depth_terms(layout, precision, m):  # type: ignore[no-untyped-def]
    """The part of the beta-binomial log likelihood of sample m that depends on precision and depth alone."""
    total = 0.0
    for i in range(layout.sample_start[m], layout.sample_start[m + 1]):
        total -= log_rising(precision, layout.reads[ALT, i] + layout.reads[REF, i])
    return total


@compiled(allocates=False)
def _total_log_likelihood(layout, density, Z, F, scratch, phi):  # type: ignore[no-untyped-def]
    """Log likelihood of all samples, with the terms of precision and depth."""
    num_features, num_samples = F.shape
    total = 0.0
    for m in range(num_samples):
        begin = layout.sample_start[m]
        for i in range(layout.sample_start[m + 1] - begin):
            n = layout.row[begin + i]
            phi[i] = 0.0
            for k in range(num_features):
                if Z[n, k] == 1:
                    phi[i] += F[k, m]
        total += sample_log_likelihood(layout, density, m, phi, scratch)
        if density.is_beta:
            total += depth_terms(layout, density.precision, m)
    return total


def varying_log_likelihood(
    layout: SampleLayout, density: Density, Z: NDArray[np.uint8], F: NDArray[np.float64]
) -> float:
    """Log likelihood of all reads but for what depends on neither Z nor any parameter."""
    widest = max(int(np.diff(layout.sample_start).max()), 1)
    scratch = np.empty((NUM_LANE_SCRATCH, widest))
    return float(_total_log_likelihood(layout, density, Z, F, scratch, np.empty(widest)))
