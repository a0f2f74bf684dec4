"""Real tumours: what `examples/pyclone_tumours.py` reports, held to what is known of them."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import pgfa

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = runpy.run_path(str(ROOT / "examples" / "pyclone_tumours.py"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not EXAMPLE["DATA"].is_dir(),
        reason="the real data are not here: expected the folder shared/data beside the project",
    ),
]

load, fit = EXAMPLE["load"], EXAMPLE["fit"]


def test_ids_tell_nothing():
    table = load("mixing").table
    assert not any("variant" in column or column == "genotypes" for column in table.columns)
    assert table["mutation_id"].str.fullmatch(r"m\d+").all()


@pytest.mark.parametrize("density", ["binomial", "beta-binomial"])
def test_four_people_are_told_apart(density):
    measured, summary = fit(load("mixing"), density, pgfa.BetaBernoulli(4))
    assert measured["F"] == 1.0
    assert summary.Z.shape == (136, 4)


@pytest.mark.parametrize("prior", [pgfa.BetaBernoulli(8), pgfa.IndianBuffet()], ids=repr)
def test_too_many_populations_and_any_number_of_them(prior):
    """Deep counts vary more than a binomial would; with the beta-binomial density nothing is left to explain."""
    measured, _ = fit(load("mixing"), "beta-binomial", prior)
    assert measured["F"] >= 0.95


@pytest.mark.parametrize("num_features", [4, 6])
@pytest.mark.parametrize("name", ["mixing", "xenograft"])
def test_particles_are_at_least_as_good_as_single_entries(name, num_features):
    tumour, prior = load(name), pgfa.BetaBernoulli(num_features)
    scores = [
        fit(tumour, "beta-binomial", prior, sampler)[0]["F"]
        for sampler in (pgfa.Gibbs(), pgfa.DiscreteParticleFilter(20))
    ]
    assert scores[1] >= scores[0] - 0.01


def test_a_large_tumour_with_missing_samples():
    tumour = load("tracerx")
    measured, summary = fit(tumour, "beta-binomial", pgfa.BetaBernoulli(10), draws=10, warmup=20, chains=2)
    assert len(summary.cellular_prevalence) == 2458 * 3 > len(tumour.table)
    assert np.isfinite(measured["log density"])
    assert summary.cellular_prevalence["mean"].between(0.0, 1.0).all()
