"""Effective draws a second, which is what a sampler is for: a sweep that costs half and mixes a tenth is no gain."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import pgfa
from benchmarks.settings import SETTINGS, simulate
from benchmarks.suites import Result, suite
from pgfa.inference.recording import watched_pairs

SAMPLERS: dict[str, Any] = {
    "Gibbs": pgfa.Gibbs(),
    "RowGibbs": pgfa.RowGibbs(),
    "ParticleGibbs": pgfa.ParticleGibbs(20),
    "DPF, 10 particles": pgfa.DiscreteParticleFilter(10),
    "DPF, 20 particles": pgfa.DiscreteParticleFilter(20),
    "DPF, 40 particles": pgfa.DiscreteParticleFilter(40),
    "DPF, ancestors": pgfa.DiscreteParticleFilter(20, ancestor_sampling=True),
    "MetropolisFlips": pgfa.MetropolisFlips(),
    "HammingBall": pgfa.HammingBall(),
    "LocallyBalanced": pgfa.LocallyBalanced(),
}
#: Row Gibbs goes through all 2^K rows: with more features than this it does not belong among the others.
MOST_FEATURES = 8


@suite("information")
def measure_information(quick: bool) -> Result:
    seconds = 0.3 if quick else 5.0
    rows = []
    for name in ("lg-5", "lfrm-5", "pyclone-4") if quick else SETTINGS:
        num_features = SETTINGS[name][1]
        truth, prior = simulate(name, seed=1)
        for label, sampler in SAMPLERS.items():
            if label == "RowGibbs" and (num_features is None or num_features > MOST_FEATURES):
                continue
            chain = pgfa.Chain(truth.model, prior, sampler, seed=1, state=truth.state)
            rows.append({"data": name, "sampler": label} | effective_draws(chain, seconds))
    return Result(
        "Information: effective draws a second",
        pd.DataFrame(rows),
        [
            "Each chain starts from the truth behind the data, which is a draw from the posterior, and runs for "
            f"{seconds:g} seconds of CPU time: row sweep, parameters, and under the buffet births, deaths. Effective "
            "draws are those of arviz-stats (bulk), each second, of the log density, of the number of features in use, "
            "and of the number of features that two rows share (median over pairs of rows). No number: it never moved.",
            "Fewer than a hundred iterations say little, and a chain that cannot leave the mode it starts from looks "
            "better than it is.",
        ],
    )


def effective_draws(chain: pgfa.Chain, seconds: float) -> dict[str, float]:
    """Effective draws a second of CPU time, after compilation and some iterations that tune the parameters' steps."""
    pairs = watched_pairs(chain.model.num_rows)
    chain.step(20, warmup=True)
    spent, densities, used, shared = 0.0, [], [], []
    while spent < seconds:
        begin = time.thread_time()
        chain.step()
        spent += time.thread_time() - begin
        Z = chain.state.Z
        densities.append(chain.log_density())
        used.append(np.count_nonzero(Z.any(axis=0)))
        shared.append((Z[pairs[:, 0]] & Z[pairs[:, 1]]).sum(axis=1))
    by_pair = [_effective(values) for values in np.array(shared).T]
    return {
        "iterations": len(densities),
        "log_density": _effective(np.array(densities)) / spent,
        "features": _effective(np.array(used)) / spent,
        "shared": float(np.nanmedian(by_pair)) / spent if np.isfinite(by_pair).any() else float("nan"),
    }


def _effective(values: np.ndarray) -> float:
    import arviz_stats

    if len(values) < 8 or np.ptp(values) == 0:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = xr.Dataset({"x": (("chain", "draw"), np.asarray(values, dtype=float)[None])})
        return float(arviz_stats.ess(dataset, method="bulk")["x"])
