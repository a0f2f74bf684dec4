"""One sweep of each sampler on the linear Gaussian model, beside the same sweep in plain NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import oracle
import pandas as pd

import pgfa
from benchmarks.suites import Result, median_milliseconds, suite

NUM_ROWS = 1000
NUM_COLUMNS = 10
NUM_PARTICLES = 20

#: Sampler, row kernel of the oracle, and the ratio that is required of it.
SAMPLERS: dict[str, tuple[Any, Any, float]] = {
    "Gibbs": (pgfa.Gibbs(), oracle.gibbs_row, 100.0),
    "RowGibbs": (pgfa.RowGibbs(), oracle.row_gibbs_row, 150.0),
    "ParticleGibbs": (
        pgfa.ParticleGibbs(NUM_PARTICLES),
        partial(oracle.particle_gibbs_row, num_particles=NUM_PARTICLES),
        150.0,
    ),
    "DiscreteParticleFilter": (
        pgfa.DiscreteParticleFilter(NUM_PARTICLES),
        partial(oracle.dpf_row, num_particles=NUM_PARTICLES),
        150.0,
    ),
}

#: Which samplers are timed at which number of features, and whether the requirement stands there.
CASES = [
    (5, "Gibbs", True),
    (5, "RowGibbs", True),
    (5, "ParticleGibbs", False),
    (5, "DiscreteParticleFilter", False),
    (20, "Gibbs", True),
    (20, "ParticleGibbs", True),
    (20, "DiscreteParticleFilter", True),
]


@suite("linear-gaussian", daily=True)
def compare_with_oracle(quick: bool) -> Result:
    rows = []
    for num_features, name, is_required in CASES:
        sampler, row_kernel, required = SAMPLERS[name]
        truth, chain = start_chain(num_features, sampler, "features")
        ours = median_milliseconds(lambda chain=chain: chain.step(5), 5 if quick else 21) / 5
        plain = time_oracle_sweep(truth, num_features, row_kernel, quick)
        rows.append(_row(num_features, name, ours, plain, required if is_required else None))
    for num_features in (5, 20):
        truth, chain = start_chain(num_features, pgfa.Gibbs(), "parameters")
        ours = median_milliseconds(lambda chain=chain: chain.step(20), 5 if quick else 21) / 20
        rng = np.random.default_rng(1)
        Z = truth.state.Z.astype(float)
        update = partial(oracle.lg_update_parameters, truth.data, Z, 0.25, 25.0, rng)
        rows.append(_row(num_features, "parameters", ours, median_milliseconds(update, 5 if quick else 21), None))
    return Result(
        "Linear Gaussian model: one sweep over the rows, and one update of the parameters",
        pd.DataFrame(rows),
        [
            f"{NUM_ROWS} rows, {NUM_COLUMNS} columns, 10% missing, finite prior, {NUM_PARTICLES} particles; medians on "
            "one core, in milliseconds, after compilation.",
            "The sweep in plain NumPy (`tests/oracle.py`) is timed on some of the rows and scaled up to all of them.",
        ],
    )


def start_chain(num_features: int, sampler: Any, update: str) -> tuple[pgfa.Simulation, pgfa.Chain]:
    """A chain that starts from the truth and has made its first iterations, compilation included."""
    prior = pgfa.BetaBernoulli(num_features)
    truth = pgfa.simulate("linear-gaussian", prior, rng=1, num_rows=NUM_ROWS, num_columns=NUM_COLUMNS)
    chain = pgfa.Chain(truth.model, prior, sampler, seed=1, state=truth.state, update=update)
    chain.step(5)
    return truth, chain


def time_oracle_sweep(truth: pgfa.Simulation, num_features: int, row_kernel: Any, quick: bool) -> float:
    """Milliseconds of a whole sweep in plain NumPy, from rows spread evenly over the matrix."""
    state = truth.state
    num_timed, repeats = (10, 3) if quick else (40, 5)
    timed = np.linspace(0, NUM_ROWS - 1, num_timed).astype(int)
    predictive = partial(oracle.fbb_predictive, N=NUM_ROWS, a=state.alpha / num_features, b=1.0)
    rng = np.random.default_rng(1)
    Z = state.Z.astype(float)

    def sweep(rows: Any) -> None:
        oracle.lg_sweep(truth.data, Z, state.parameters["V"], 25.0, predictive, row_kernel, rng, rows)

    sweep(timed[:2])
    return median_milliseconds(lambda: sweep(timed), repeats) * NUM_ROWS / num_timed


def _row(num_features: int, name: str, ours: float, plain: float, required: float | None) -> dict[str, Any]:
    ratio = plain / ours
    return {
        "features": num_features,
        "what": name,
        "pgfa_ms": ours,
        "numpy_ms": plain,
        "ratio": ratio,
        "required": required,
        "met": required is None or ratio >= required,
    }
