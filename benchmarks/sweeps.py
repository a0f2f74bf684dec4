"""One sweep of each sampler and one update of the parameters on the data of the paper, beside published code."""

from __future__ import annotations

from typing import Any

import pandas as pd

import pgfa
from benchmarks.growth import time_features
from benchmarks.settings import simulate
from benchmarks.suites import Result, suite

SAMPLERS: dict[str, Any] = {
    "Gibbs": pgfa.Gibbs(),
    "RowGibbs": pgfa.RowGibbs(),
    "ParticleGibbs": pgfa.ParticleGibbs(20),
    "DiscreteParticleFilter": pgfa.DiscreteParticleFilter(20),
    "parameters": pgfa.Gibbs(),
}
#: Milliseconds of published research code on a core like ours, and those that we want; in the order of `SAMPLERS`.
PUBLISHED_AND_WANTED: dict[str, list[tuple[float, float] | None]] = {
    "lg-5": [(89, 0.4), (943, 2), (1430, 4), (481, 1.5), (4.7, 0.5)],
    "lg-20": [(274, 1), None, (5850, 20), (6660, 16), (6.5, 1)],
    "lg-ibp": [(242, 1.5), None, (3100, 15), (2380, 12), (5, 1)],
    "lfrm-5": [(22, 0.4), (170, 2), (372, 6), (137, 2), (122, 2)],
    "lfrm-20": [(63, 1.5), None, (1460, 25), (1740, 25), (2000, 20)],
    "pyclone-4": [(47, 0.8), (148, 2), (893, 12), (214, 2.5), (350, 5)],
    "pyclone-8": [(124, 3), None, (2435, 40), (1593, 20), (1200, 10)],
    "pyclone-12": [(231, 5), None, (4222, 65), (2586, 35), (1500, 15)],
}


@suite("sweeps", daily=True)
def time_sweeps(quick: bool) -> Result:
    rows = []
    for name, cells in PUBLISHED_AND_WANTED.items():
        truth, prior = simulate(name, seed=1)
        for (label, sampler), cell in zip(SAMPLERS.items(), cells, strict=True):
            if cell is None:
                continue
            update = "parameters" if label == "parameters" else "features"
            chain = pgfa.Chain(
                truth.model, prior, sampler, seed=1, state=truth.state, update=update, column_moves=False
            )
            ours = time_features(chain, 9 if quick else 41)
            published, wanted = cell
            rows.append(
                {
                    "data": name,
                    "what": label,
                    "pgfa_ms": ours,
                    "wanted_ms": wanted,
                    "published_ms": published,
                    "times_faster": published / ours,
                    "met": ours <= wanted,
                }
            )
    return Result(
        "Sweeps: the data of the paper",
        pd.DataFrame(rows),
        [
            "One sweep over all rows, 20 particles, annealing power 1, zeros, and one update of the parameters, from "
            "the truth; medians on one core, in milliseconds, after compilation. Under the buffet births and deaths "
            "count as well; moves of whole columns do not.",
            "Published: research code in Python, timed on a core like this one; its ratio is a guide and no more.",
        ],
    )
