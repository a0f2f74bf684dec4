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


@suite("relational", daily=True)
def compare_with_oracle(quick: bool) -> Result:
    repeats = 5 if quick else 21
    rows = []
    for crowded in (False, True):
        for name, (sampler, row_kernel, required) in SAMPLERS.items():
            truth, chain = start_chain(NUM_NODES, NUM_FEATURES, sampler, "features", crowded)
            ours = median_milliseconds(lambda chain=chain: chain.step(5), repeats) / 5
            plain = time_oracle_sweep(truth, row_kernel, quick)
            rows.append(_row(truth, name, ours, plain, None if crowded else required))
        truth, chain = start_chain(NUM_NODES, NUM_FEATURES, pgfa.Gibbs(), "parameters", crowded)
        ours = median_milliseconds(lambda chain=chain: chain.step(5), repeats) / 5
        state = truth.state
        update = partial(
            oracle_relational.update_parameters, truth.data, state.Z.astype(float), state.parameters["V"], 0.25,
            np.random.default_rng(1),
        )  # fmt: skip
        plain = median_milliseconds(update, 3 if quick else 9)
        rows.append(_row(truth, "parameters", ours, plain, None if crowded else REQUIRED_OF_PARAMETERS))
    return Result(
        "Relational model: one sweep over the nodes, and one update of the parameters",
        pd.DataFrame(rows),
        [
            f"{NUM_NODES} nodes, directed, {NUM_FEATURES} features, 5% of the pairs missing, finite prior, "
            f"{NUM_PARTICLES} particles; medians on one core, in milliseconds, after compilation.",
            "First a network drawn from the prior with alpha = 2, where many nodes own the same features, which pgfa "
            "makes use of; then one in which every node owns about three in ten, and no two the same.",
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
        _, chain = start_chain(num_nodes, num_features, SAMPLERS["DiscreteParticleFilter"][0], "features", True)
        row["all_different_ms"] = median_milliseconds(chain.step, repeats)
        _, chain = start_chain(num_nodes, num_features, pgfa.Gibbs(), "parameters")
        row["parameters_ms"] = median_milliseconds(chain.step, repeats)
        rows.append(row)
    table = pd.DataFrame(rows)
    return Result(
        "Relational model: how the time of a sweep grows with nodes and with features",
        table,
        [
            f"Directed networks drawn from the prior with alpha = 2, {NUM_PARTICLES} particles; `all_different` is the "
            "discrete particle filter in networks where every node owns three features in ten. A sweep visits N nodes, "
            "each with 2 N links, once for every feature and particle: it grows with N² and with K, and with N alone "
            "where nodes own the same features and share their evaluation.",
        ],
        picture=draw_growth(table),
    )


def draw_growth(table: pd.DataFrame) -> Figure:
    """Two panels with logarithmic axes; a dotted line shows what is to be expected."""
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    for axes, (along, power) in zip(figure.subplots(1, 2, sharey=True), (("nodes", 2), ("features", 1))):
        part = table[table["along"] == along]
        labels = {
            "Gibbs": "Gibbs",
            "DiscreteParticleFilter": "DiscreteParticleFilter",
            "all_different": "the same, no nodes alike",
            "parameters": "parameters",
        }
        for colour, (name, label) in zip(COLOURS, labels.items()):
            axes.loglog(part[along], part[f"{name}_ms"], "o-", color=colour, markersize=4, label=label)
        x = part[along].to_numpy(dtype=float)
        expected = part["all_different_ms"].iloc[-1] * (x / x[-1]) ** power
        axes.loglog(x, expected, ":", color="0.5", label=f"proportional to {'N²' if power == 2 else 'K'}")
        fixed = f"{part['features'].iloc[0]} features" if along == "nodes" else f"{part['nodes'].iloc[0]} nodes"
        axes.set(xlabel=f"number of {along} ({fixed})")
        axes.set_xticks(part[along], [str(value) for value in part[along]], minor=False)
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        # The lines of measurements are the same in both panels, the dotted one is not.
        handles = axes.lines if along == "nodes" else axes.lines[-1:]
        axes.legend(handles=handles, frameon=False, fontsize=8, loc="upper left" if along == "nodes" else "lower right")
    figure.axes[0].set(ylabel="milliseconds")
    return figure


def start_chain(
    num_nodes: int, num_features: int, sampler: Any, update: str, crowded: bool = False
) -> tuple[pgfa.Simulation, pgfa.Chain]:
    """A chain that starts from the truth and has made its first iterations, compilation included."""
    prior = pgfa.BetaBernoulli(num_features)
    # Popularities of 0.3, give or take a little, instead of alpha / K on average.
    drawn_from = pgfa.BetaBernoulli(num_features, a=30.0, b=70.0) if crowded else prior
    truth = pgfa.simulate("relational", drawn_from, rng=1, num_rows=num_nodes, missing=0.05)
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


def _row(truth: pgfa.Simulation, name: str, ours: float, plain: float, required: float | None) -> dict[str, Any]:
    ratio = plain / ours
    Z = truth.state.Z
    return {
        "used": int(Z.any(axis=0).sum()),
        "owned": float(Z.sum(axis=1).mean()),
        "vectors": len(np.unique(Z, axis=0)),
        "what": name,
        "pgfa_ms": ours,
        "numpy_ms": plain,
        "ratio": ratio,
        "required": required,
        "met": required is None or ratio >= required,
    }
