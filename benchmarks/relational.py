"""One sweep and one update of the weights of the relational model beside plain NumPy, and how both grow."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import oracle
import oracle_relational
import pandas as pd
from matplotlib.figure import Figure

import pgfa
from benchmarks.suites import Result, median_milliseconds, suite
from pgfa.plots import COLOURS

NUM_NODES = 100
NUM_FEATURES = 20
NUM_PARTICLES = 20

#: Sampler, row kernel of the oracle, and the ratio that is required of it.
SAMPLERS: dict[str, tuple[Any, Any, float | None]] = {
    "Gibbs": (pgfa.Gibbs(), oracle.gibbs_row, None),
    "ParticleGibbs": (
        pgfa.ParticleGibbs(NUM_PARTICLES),
        partial(oracle.particle_gibbs_row, num_particles=NUM_PARTICLES),
        50.0,
    ),
    "DiscreteParticleFilter": (
        pgfa.DiscreteParticleFilter(NUM_PARTICLES),
        partial(oracle.dpf_row, num_particles=NUM_PARTICLES),
        50.0,
    ),
}
REQUIRED_OF_PARAMETERS = 80.0

NODES = (25, 50, 100, 200, 400, 800)
FEATURES = (5, 10, 20, 40, 80)


@suite("relational")
def compare_with_oracle(quick: bool) -> Result:
    repeats = 5 if quick else 21
    rows = []
    for name, (sampler, row_kernel, required) in SAMPLERS.items():
        truth, chain = start_chain(NUM_NODES, NUM_FEATURES, sampler, "features")
        ours = median_milliseconds(lambda chain=chain: chain.step(5), repeats) / 5
        rows.append(_row(name, ours, time_oracle_sweep(truth, row_kernel, quick), required))
    truth, chain = start_chain(NUM_NODES, NUM_FEATURES, pgfa.Gibbs(), "parameters")
    ours = median_milliseconds(lambda: chain.step(20), repeats) / 20
    state = truth.state
    update = partial(
        oracle_relational.update_parameters, truth.data, state.Z.astype(float), state.parameters["V"], 0.25,
        np.random.default_rng(1),
    )  # fmt: skip
    rows.append(_row("parameters", ours, median_milliseconds(update, 3 if quick else 9), REQUIRED_OF_PARAMETERS))
    return Result(
        "Relational model: one sweep over the nodes, and one update of the parameters",
        pd.DataFrame(rows),
        [
            f"{NUM_NODES} nodes, directed, {NUM_FEATURES} features, 5% of the pairs missing, finite prior, "
            f"{NUM_PARTICLES} particles; medians on one core, in milliseconds, after compilation.",
            "The sweep in plain NumPy (`tests/oracle_relational.py`) is timed on some of the nodes and scaled up to "
            "all. Its update of the parameters moves every weight once, that of pgfa three times.",
        ],
    )


@suite("relational-growth")
def measure_growth(quick: bool) -> Result:
    rows = []
    sizes = [(num_nodes, 10) for num_nodes in NODES] + [(100, num_features) for num_features in FEATURES]
    for along, (num_nodes, num_features) in zip(["nodes"] * len(NODES) + ["features"] * len(FEATURES), sizes):
        row: dict[str, Any] = {"along": along, "nodes": num_nodes, "features": num_features}
        repeats = 3 if quick or num_nodes > 200 else 11
        for name in ("Gibbs", "DiscreteParticleFilter"):
            _, chain = start_chain(num_nodes, num_features, SAMPLERS[name][0], "features")
            row[f"{name}_ms"] = median_milliseconds(chain.step, repeats)
        _, chain = start_chain(num_nodes, num_features, pgfa.Gibbs(), "parameters")
        row["parameters_ms"] = median_milliseconds(chain.step, repeats)
        row["used"] = int(chain.state.Z.any(axis=0).sum())
        rows.append(row)
    table = pd.DataFrame(rows)
    return Result(
        "Relational model: how the time of a sweep grows with nodes and with features",
        table,
        [
            f"Directed networks simulated with alpha = 2, of whose features only some are used; {NUM_PARTICLES} "
            "particles. A sweep visits N nodes, each with up to 2 N known links, once for every feature and particle: "
            "it grows with N² and with K.",
        ],
        picture=draw_growth(table),
    )


def draw_growth(table: pd.DataFrame) -> Figure:
    """Two panels with logarithmic axes; a dotted line shows what is to be expected."""
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    for axes, (along, power) in zip(figure.subplots(1, 2, sharey=True), (("nodes", 2), ("features", 1))):
        part = table[table["along"] == along]
        for colour, name in zip(COLOURS, ("Gibbs", "DiscreteParticleFilter", "parameters")):
            axes.loglog(part[along], part[f"{name}_ms"], "o-", color=colour, markersize=4, label=name)
        x = part[along].to_numpy(dtype=float)
        expected = part["DiscreteParticleFilter_ms"].iloc[-1] * (x / x[-1]) ** power
        axes.loglog(x, expected, ":", color="0.5", label=f"proportional to {'N²' if power == 2 else 'K'}")
        fixed = f"{part['features'].iloc[0]} features" if along == "nodes" else f"{part['nodes'].iloc[0]} nodes"
        axes.set(xlabel=f"number of {along} ({fixed})")
        axes.set_xticks(part[along], [str(value) for value in part[along]], minor=False)
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.axes[0].set(ylabel="milliseconds")
    return figure


def start_chain(num_nodes: int, num_features: int, sampler: Any, update: str) -> tuple[pgfa.Simulation, pgfa.Chain]:
    """A chain that starts from the truth and has made its first iterations, compilation included."""
    prior = pgfa.BetaBernoulli(num_features)
    truth = pgfa.simulate("relational", prior, rng=1, num_rows=num_nodes, missing=0.05)
    chain = pgfa.Chain(truth.model, prior, sampler, seed=1, state=truth.state, update=update)
    chain.step(3)
    return truth, chain


def time_oracle_sweep(truth: pgfa.Simulation, row_kernel: Any, quick: bool) -> float:
    """Milliseconds of a whole sweep in plain NumPy, from nodes spread evenly over the network."""
    state = truth.state
    num_timed, repeats = (10, 3) if quick else (30, 5)
    timed = np.linspace(0, NUM_NODES - 1, num_timed).astype(int)
    predictive = partial(oracle.fbb_predictive, N=NUM_NODES, a=state.alpha / NUM_FEATURES, b=1.0)
    rng = np.random.default_rng(1)
    Z = state.Z.astype(float)

    def sweep(rows: Any) -> None:
        oracle_relational.sweep(truth.data, Z, state.parameters["V"], predictive, row_kernel, rng, rows)

    sweep(timed[:2])
    return median_milliseconds(lambda: sweep(timed), repeats) * NUM_NODES / num_timed


def _row(name: str, ours: float, plain: float, required: float | None) -> dict[str, Any]:
    ratio = plain / ours
    return {
        "what": name,
        "pgfa_ms": ours,
        "numpy_ms": plain,
        "ratio": ratio,
        "required": required,
        "met": required is None or ratio >= required,
    }
