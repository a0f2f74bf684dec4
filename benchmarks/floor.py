"""The floor under a sweep: its predictors and likelihoods alone, with nothing decided, drawn or weighed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import pgfa
from benchmarks.growth import time_features
from benchmarks.settings import SETTINGS, simulate
from benchmarks.suites import Result, median_milliseconds, suite
from pgfa._compile import compiled
from pgfa.rows import begin_row, flipped, follow, spawn, start

NUM_PARTICLES = 20
#: A sweep may take this many times its bare arithmetic.
ALLOWED = 2.5
SAMPLERS: dict[str, Any] = {
    "ParticleGibbs": pgfa.ParticleGibbs(NUM_PARTICLES),
    "DiscreteParticleFilter": pgfa.DiscreteParticleFilter(NUM_PARTICLES),
}


@compiled(allocates=False)
def bare_sweep(rows, Z, columns, block, next_block, parents, flips, log_lik, out, doubles):  # type: ignore[no-untyped-def]
    """Evaluate and write as many particles as a filter does, column by column: one, then all, or one, two, four, ..."""
    num_rows, num_columns = Z.shape
    most = parents.size
    total = 0.0
    for n in range(num_rows):
        begin_row(rows, n)
        follow(rows, n, columns, num_columns)
        log_lik[0] = start(rows, n, Z[n], block)
        count = 1
        here, there = block, next_block
        for k in range(num_columns):
            sign = 1.0 - 2.0 * Z[n, k]
            flipped(rows, n, k, sign, here, log_lik, count, out)
            total += out[0]
            children = min(2 * count, most) if doubles else most
            if k + 1 < num_columns:
                spawn(rows, n, k, sign, here, parents, flips, children, there)
                here, there = there, here
            count = children
    return total


def time_floor(truth: pgfa.Simulation, repeats: int, doubles: bool) -> float:
    """Milliseconds of the bare arithmetic of one sweep; particles double at each column, or are all there at once."""
    Z, parameters = truth.state.Z.copy(), truth.state.parameters
    rows: Any = truth.model.rows(Z, parameters)
    # Child j of particle j // 2; none is flipped, for only then do predictors stay those of the rows.
    parents = np.arange(NUM_PARTICLES) // 2
    flips = np.zeros(NUM_PARTICLES, dtype=np.int64)
    blocks = rows.make_block(NUM_PARTICLES), rows.make_block(NUM_PARTICLES)
    for block in blocks:
        for array in block if isinstance(block, tuple) else (block,):
            array[...] = 0  # what is read before it is written must not be denormal
    log_lik, out = np.zeros(NUM_PARTICLES), np.zeros(NUM_PARTICLES)
    columns = np.arange(Z.shape[1])

    def work() -> None:
        bare_sweep(rows, Z, columns, *blocks, parents, flips, log_lik, out, doubles)

    work()
    return median_milliseconds(work, repeats)


@suite("floor", daily=True)
def compare_with_floor(quick: bool) -> Result:
    repeats = 5 if quick else 21
    rows = []
    for name in SETTINGS:
        truth, prior = simulate(name, seed=1)
        for label, sampler in SAMPLERS.items():
            floor = time_floor(truth, repeats, doubles=label == "DiscreteParticleFilter")
            chain = pgfa.Chain(
                truth.model, prior, sampler, seed=1, state=truth.state, update="features", column_moves=False
            )
            sweep = time_features(chain, repeats)
            rows.append(
                {
                    "data": name,
                    "sampler": label,
                    "sweep_ms": sweep,
                    "floor_ms": floor,
                    "ratio": sweep / floor,
                    "met": sweep <= ALLOWED * floor,
                }
            )
    table = pd.DataFrame(rows)
    return Result(
        "Floor: a sweep beside its bare arithmetic",
        table,
        [
            f"{NUM_PARTICLES} particles, annealing power 1, zeros; medians on one core. The floor evaluates and writes "
            "the predictors of as many particles as the sampler does (particle Gibbs has all of them from the second "
            "column on, the discrete filter doubles them), and neither weighs nor draws.",
            f"Required: at most {ALLOWED} times the floor. Where it is missed, the arithmetic is so little (through "
            "products of features a likelihood is one number looked up) that weighing and choosing take more.",
        ],
        picture=draw_floors(table),
    )


def draw_floors(table: pd.DataFrame) -> Figure:
    """Bars of the time of a sweep, the part that is bare arithmetic in a darker colour."""
    figure = Figure(figsize=(9.0, 3.0), layout="constrained")
    panels = figure.subplots(1, len(SAMPLERS), sharey=True)
    for axes, (sampler, part) in zip(panels, table.groupby("sampler", sort=False)):
        places = np.arange(len(part))
        axes.bar(places, part["sweep_ms"], color="tab:orange", alpha=0.5, label="sweep")
        axes.bar(places, part["floor_ms"], color="tab:orange", label="bare arithmetic")
        for place, (_, row) in zip(places, part.iterrows()):
            axes.annotate(f"{row['ratio']:.1f}", (place, row["sweep_ms"]), ha="center", va="bottom", fontsize=8)
        axes.set_title(str(sampler), fontsize=10)
        axes.set_xticks(places, part["data"], rotation=45, ha="right")
        axes.set_ylabel("milliseconds")
        axes.label_outer()
        axes.margins(y=0.12)
    panels[0].legend(frameon=False, fontsize=8)
    return figure
