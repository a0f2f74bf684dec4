"""What the column moves of the linear Gaussian model cost, and where chains end without some of them."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import pgfa
from benchmarks.settings import make_prior, sample_quietly, simulate
from benchmarks.suites import Result, suite
from pgfa.experiments.definition import load
from pgfa.experiments.parts import simulate_data
from pgfa.priors.base import Prior
from pgfa.samplers.column_moves import ColumnMove, default_column_moves

#: Sweeps of the discrete particle filter that the column moves of an iteration may cost, about.
ALLOWED_SWEEPS = 2.0
#: A chain this many nats below the best has told the features in another way.
FAR = 20.0
#: Draws that say where a chain has ended.
LAST = 20
LEFT_OUT: dict[str, tuple[type, ...]] = {
    "nothing": (),
    "SingletonExchange": (pgfa.SingletonExchange,),
    "ThreeAndTwo": (pgfa.ThreeAndTwo,),
    "JointFlip": (pgfa.JointFlip,),
    "all three": (pgfa.SingletonExchange, pgfa.ThreeAndTwo, pgfa.JointFlip),
}


@suite("column-moves")
def measure_cost(quick: bool) -> Result:
    repeats = 30 if quick else 300
    rows = [row for name in ("lg-5", "lg-20", "lg-ibp") for row in _time_moves(name, repeats)]
    return Result(
        "Column moves: time in sweeps of the discrete particle filter",
        pd.DataFrame(rows),
        [
            f"What a move costs in an iteration at its default rate, on data of the settings at their truth, mean of "
            f"{repeats} iterations; the sweep is timed with the update of the parameters, 0.1 ms. "
            f"Required: all together at most {ALLOWED_SWEEPS:.0f} sweeps of 20 particles.",
        ],
    )


def _time_moves(name: str, repeats: int) -> list[dict[str, object]]:
    simulation, prior = simulate(name, seed=1)
    # With the parameters, as in `pgfa.sample`: the sweep then leaves columns out that nobody else owns.
    chain = pgfa.Chain(simulation.model, prior, seed=0, state=simulation.state, update=("features", "parameters"))
    chain.step()
    begun = time.thread_time()
    chain.step(repeats)
    sweep = (time.thread_time() - begun) / repeats
    moves = default_column_moves(simulation.model, prior)
    costs = {repr(move): _time_move(move, simulation, prior, repeats) / sweep for move in moves}
    costs["all"] = sum(costs.values())
    return [
        {"data": name, "move": move, "sweeps": cost, "met": move != "all" or cost <= ALLOWED_SWEEPS}
        for move, cost in costs.items()
    ]


def _time_move(move: ColumnMove, simulation: pgfa.Simulation, prior: Prior, repeats: int) -> float:
    """Mean and not median: a move with a low rate does nothing most of the time."""
    rng = np.random.default_rng(0)
    # So that it is compiled, however seldom it is made.
    state = replace(move, rate=1.0).apply(simulation.model, prior, simulation.state.copy(), rng, 1.0)
    begun = time.thread_time()
    for _ in range(repeats):
        state = move.apply(simulation.model, prior, state, rng, 1.0)
    return (time.thread_time() - begun) / repeats


@suite("column-arrival")
def measure_arrival(quick: bool) -> Result:
    length = {"draws": 20, "warmup": 30, "chains": 2} if quick else {"draws": 200, "warmup": 200, "chains": 8}
    prior = make_prior("lg-ibp")
    data = {"benchmarks, set 1": simulate("lg-ibp", 1)[0], "experiment, set 3": simulate_data(load("lg-ibp"), 2)}
    rows = []
    for label, simulation in list(data.items())[: 1 if quick else None]:
        truth = pgfa.Chain(simulation.model, prior, seed=0, state=simulation.state).log_density()
        ends = {left_out: _run_without(kinds, simulation, prior, length) for left_out, kinds in LEFT_OUT.items()}
        best = max(density.max() for density, _ in ends.values())
        for left_out, (density, used) in ends.items():
            rows.append(
                {
                    "data": label,
                    "left_out": left_out,
                    "at_the_best": f"{np.count_nonzero(density > best - FAR)} of {density.size}",
                    "best_nats_above_truth": density.max() - truth,
                    "worst": density.min() - truth,
                    "true_features": np.count_nonzero(simulation.state.Z.any(axis=0)),
                    "features": f"{used.min():.0f} to {used.max():.0f}",
                }
            )
    return Result(
        "Column moves: where chains end without some of them",
        pd.DataFrame(rows),
        [
            f"Two data sets of the setting lg-ibp; {length['chains']} chains with {length['warmup']} iterations of "
            f"annealed warm-up and {length['draws']} draws. Log density is the mean over the last {LAST} draws; a "
            f"chain is at the best if it ends within {FAR:.0f} nats of the highest of all on these data.",
        ],
    )


def _run_without(
    kinds: tuple[type, ...], simulation: pgfa.Simulation, prior: Prior, length: dict[str, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log density and number of features with which chains end."""
    moves = [move for move in default_column_moves(simulation.model, prior) if not isinstance(move, kinds)]
    fit = sample_quietly(simulation.model, prior, seed=1, column_moves=moves, **length)
    last = fit["sample_stats"].isel(draw=slice(-LAST, None))
    return last["lp"].mean("draw").to_numpy(), last["used_features"].mean("draw").to_numpy()
