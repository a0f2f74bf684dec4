"""The likelihood of the PyClone model against its plain definition, and the arithmetic below it."""

from __future__ import annotations

import numpy as np
import oracle_pyclone as plain
import pandas as pd
import pytest
from scipy.special import digamma, gammaln

import pgfa
from pgfa._compile import compiled
from pgfa.models.pyclone_likelihood import INFORMATION, NUM_LANE_SCRATCH, SCORE, sample_log_likelihood, sample_slopes
from pgfa.models.pyclone_simulation import allele_fraction
from pgfa.models.pyclone_table import OPTIONAL, REQUIRED, read_counts
from pgfa.rows import begin_row, flip, flipped, spawn, start
from pgfa.vector_math import log, log_rising, log_rising_slope

PRECISIONS = [None, 400.0, 3.0, 2e4]


# --- arithmetic ------------------------------------------------------------------------------------------------------


@compiled(liberty="arithmetic")
def logs(x, out):
    for i in range(x.size):
        out[i] = log(x[i])


@compiled(liberty="arithmetic")
def risings(x, count, out, slopes):
    for i in range(x.size):
        out[i] = log_rising(x[i], count[i])
        slopes[i] = log_rising_slope(x[i], count[i])


def test_logarithms():
    rng = np.random.default_rng(1)
    near_one = 1.0 + rng.uniform(-1e-3, 1e-3, 100_000)
    x = np.concatenate([np.exp(rng.uniform(-600, 600, 100_000)), near_one, [1.0, 0.5, 2.0]])
    out = np.empty_like(x)
    logs(x, out)
    exact = np.log(x.astype(np.longdouble))
    scale = np.maximum(np.abs(exact), np.finfo(float).tiny)
    assert np.max(np.abs(out - exact) / scale) < 3e-16
    assert out[-3] == 0.0


def test_rising_factorials():
    rng = np.random.default_rng(2)
    x = np.exp(rng.uniform(np.log(1e-5), np.log(1e6), 20_000))
    count = np.floor(np.exp(rng.uniform(0.0, np.log(3e4), x.size))) * (rng.random(x.size) < 0.9)
    out, slopes = np.empty_like(x), np.empty_like(x)
    risings(x, count, out, slopes)
    assert np.all(np.abs(out[count == 0]) < 1e-15)
    reference = gammaln(x + count) - gammaln(x)
    scale = 1.0 + np.abs(reference) + np.abs(gammaln(x))
    assert np.max(np.abs(out - reference) / scale) < 1e-12
    small = count < 40
    pairs = zip(x[small].astype(np.longdouble), count[small])
    factors = [np.log(a + np.arange(int(b), dtype=np.longdouble)).sum() for a, b in pairs]
    assert np.max(np.abs(out[small] - factors) / (1.0 + np.abs(factors))) < 1e-10
    gaps = digamma(x + count) - digamma(x)
    assert np.max(np.abs(slopes - gaps) / (1.0 + np.abs(digamma(x)))) < 1e-7


# --- entries ----------------------------------------------------------------------------------------------------------


def edge_table():
    """Depth 0, no mutant reads and nothing else, few and many copies, hardly any tumour and nothing else."""
    rng = np.random.default_rng(3)
    rows = []
    for depth in (0, 1, 7, 300, 12_000):
        for alt in {0, depth, depth // 3}:
            for t in (0.01, 0.4, 1.0):
                for major, minor, normal in ((1, 0, 1), (1, 1, 2), (2, 0, 2), (2, 1, 2), (5, 2, 2), (1, 0, 2)):
                    eps = rng.choice([1e-3, 1e-2, 1e-6])
                    rows.append((f"m{len(rows)}", "s", depth - alt, alt, major, minor, normal, t, eps))
    return pd.DataFrame(rows, columns=[*REQUIRED, *OPTIONAL])


def plain_entries(table, phi, precision):
    """Log likelihood of each row of the table at this prevalence; zero without reads."""
    arguments = table[[*REQUIRED[2:], *OPTIONAL]].itertuples(index=False)
    return np.array([plain.entry_log_likelihood(phi, *row, precision) if row[0] + row[1] else 0.0 for row in arguments])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_entry_is_as_defined(precision):
    """Prevalence 0, 1, one part in 1e15 above it, and between; through the rows and through the whole likelihood."""
    table = edge_table()
    model = pgfa.PyClone(table, "binomial" if precision is None else "beta-binomial")
    for phi in (0.0, 1e-9, 0.25, 0.999, 1.0):
        V = np.array([[max(phi, 1e-30)], [max(1.0 - phi, 1e-30)]])
        parameters = {"V": V} if precision is None else {"V": V, "precision": precision}
        Z = np.zeros((len(table), 2), dtype=np.uint8)
        Z[:, 0] = 1
        share = V[0, 0] / V.sum()
        entries = plain_entries(table, share, precision)
        total = model.log_likelihood(Z, parameters)
        assert np.isfinite(total)
        assert total == pytest.approx(entries.sum(), rel=1e-10)

        # Differences between prevalences, row by row: constants that no sampler needs drop out.
        rows = model.rows(Z, parameters)
        block = rows.make_block(4)
        found = np.array([_difference(rows, n, block) for n in range(len(table))])
        nothing = plain_entries(table, 0.0, precision)
        assert np.all(np.isfinite(found))
        np.testing.assert_allclose(found, entries - nothing, rtol=1e-9, atol=1e-8)


@compiled
def _difference(rows, n, block):
    """Log likelihood of row n with the first feature less that without any."""
    z = np.zeros(2, dtype=np.uint8)
    nothing = start(rows, n, z, block)
    z[0] = 1
    return start(rows, n, z, block) - nothing


def test_prevalences_beyond_one_by_rounding():
    table = edge_table()
    for density, precision in (("binomial", {}), ("beta-binomial", {"precision": 400.0})):
        model = pgfa.PyClone(table, density)
        layout = model._layouts.by_sample
        num_lanes = layout.row.size
        values = []
        for phi in (1.0, 1.0 + 4e-16, 1.0 + 1e-12, -1e-12, 0.0):
            scratch = np.empty((NUM_LANE_SCRATCH, num_lanes))
            values.append(
                sample_log_likelihood(layout, model._density_of(precision), 0, np.full(num_lanes, phi), scratch)
            )
        assert np.all(np.isfinite(values))
        assert values[0] == values[1] == values[2] and values[3] == values[4]


def test_fractions_of_the_simulation_are_as_defined():
    table = edge_table()
    counts = read_counts(table)
    rng = np.random.default_rng(4)
    phi = rng.random(len(table))
    for copies, is_after in ((1, False), (1, True)):
        ours = allele_fraction(counts, phi, np.full(len(table), copies), np.full(len(table), is_after))
        for n, r in enumerate(table.itertuples()):
            reference = r.major_cn + r.minor_cn if is_after else r.normal_cn
            theirs = plain.expected_fraction(
                phi[n], reference, copies, r.major_cn, r.minor_cn, r.normal_cn, r.tumour_content, r.error_rate
            )
            assert ours[n] == pytest.approx(theirs, rel=1e-12)


# --- whole models -----------------------------------------------------------------------------------------------------


def tumour(num_rows=6, num_samples=3, num_features=4, seed=5, density="binomial"):
    """A model with varied copy numbers and purity, a missing entry and one without reads, and a state for it."""
    rng = np.random.default_rng(seed)
    rows = []
    for n in range(num_rows):
        for m in range(num_samples):
            if (n, m) == (1, 2):
                continue
            major = int(rng.integers(1, 4))
            depth = 0 if (n, m) == (2, 0) else int(rng.integers(5, 40))
            alt = int(rng.integers(0, depth + 1))
            minor, normal = int(rng.integers(0, major + 1)), int(rng.integers(1, 3))
            rows.append((f"m{n}", f"s{m}", depth - alt, alt, major, minor, normal, 0.3 + 0.3 * m, 0.01))
    table = pd.DataFrame(rows, columns=[*REQUIRED, *OPTIONAL])
    model = pgfa.PyClone(table, density)
    Z = rng.integers(0, 2, size=(num_rows, num_features), dtype=np.uint8)
    return table, model, Z, model.sample_parameters(rng, num_features)


@pytest.mark.parametrize("density", ["binomial", "beta-binomial"])
def test_likelihood_of_a_model(density):
    table, model, Z, parameters = tumour(density=density)
    expected = plain.log_likelihood(table, Z, parameters["V"], parameters.get("precision"))
    assert model.log_likelihood(Z, parameters) == pytest.approx(expected, rel=1e-11)
    nobody = {**parameters, "V": np.zeros((0, 3))}
    expected = plain.log_likelihood(table, Z[:, :0], nobody["V"], parameters.get("precision"))
    assert model.log_likelihood(Z[:, :0], nobody) == pytest.approx(expected, rel=1e-11)


@compiled
def _walk(rows, n, z, block, other, changes, found):
    """Flip one feature after the other in two particles, checking every function of the contract on the way."""
    begin_row(rows, n)
    log_lik = np.zeros(2)
    out = np.zeros(2)
    log_lik[0] = start(rows, n, z, block)
    found[0] = log_lik[0]
    parents = np.zeros(2, dtype=np.int64)
    flips = np.zeros(2, dtype=np.int64)
    for t in range(changes.size):
        k = changes[t]
        sign = 1.0 - 2.0 * z[k]
        flipped(rows, n, k, sign, block, log_lik, 1, out)
        found[1 + t] = out[0]
        flips[1] = 1
        spawn(rows, n, k, sign, block, parents, flips, 2, other)
        flipped(rows, n, k, -sign, other[:, 1:], log_lik, 1, out[1:])
        found[1 + changes.size + t] = out[1]
        flip(rows, n, k, sign, block)
        z[k] = 1 - z[k]


@pytest.mark.parametrize("density", ["binomial", "beta-binomial"])
def test_rows_agree_with_the_whole(density):
    _, model, Z, parameters = tumour(density=density)
    rows = model.rows(Z, parameters)
    changes = np.array([0, 2, 1, 0, 3, 2])
    for n in range(model.num_rows):
        found = np.zeros(1 + 2 * changes.size)
        _walk(rows, n, Z[n].copy(), rows.make_block(1), rows.make_block(2), changes, found)
        expected = []
        candidate = Z.copy()
        for k in [None, *changes]:
            if k is not None:
                candidate[n, k] = 1 - candidate[n, k]
            expected.append(model.log_likelihood(candidate, parameters))
        differences = np.array(expected) - expected[0]
        np.testing.assert_allclose(found[: changes.size + 1] - found[0], differences, rtol=1e-9, atol=1e-9)
        # Flipped there and back again.
        np.testing.assert_allclose(found[changes.size + 1 :] - found[0], differences[:-1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("density", ["binomial", "beta-binomial"])
def test_slopes(density):
    _, model, _, parameters = tumour(num_rows=40, density=density)
    layout, law = model._layouts.by_sample, model._density_of(parameters)
    scratch = np.empty((NUM_LANE_SCRATCH, layout.row.size))
    rng = np.random.default_rng(6)
    for m in range(3):
        size = layout.sample_start[m + 1] - layout.sample_start[m]
        phi = rng.uniform(0.05, 0.95, size)
        value = sample_slopes(layout, law, m, phi, scratch)
        score, information = scratch[SCORE, :size].copy(), scratch[INFORMATION, :size].copy()
        assert value == pytest.approx(sample_log_likelihood(layout, law, m, phi, scratch), rel=1e-12)
        assert np.all(information > 0.0)
        for i in range(size):
            ends = []
            for sign in (1.0, -1.0):
                moved = phi.copy()
                moved[i] += sign * 1e-5
                ends.append(sample_log_likelihood(layout, law, m, moved, scratch))
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(score[i], rel=1e-4, abs=1e-4)


def test_log_prior():
    from scipy import stats

    _, model, _, parameters = tumour(density="beta-binomial")
    expected = stats.gamma.logpdf(parameters["V"], 1.0).sum()
    expected += stats.gamma.logpdf(parameters["precision"], 160.0, scale=2.5)
    assert model.log_prior(parameters) == pytest.approx(expected, rel=1e-12)
    assert 160.0 * 2.5 == 400.0 and 160.0 * 2.5**2 == 1000.0
