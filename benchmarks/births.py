"""Does the number of features come out the same under the buffet, whether chains start with none or with too many?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import pgfa
from benchmarks.settings import sample_quietly
from benchmarks.suites import Result, suite

#: Simulated with so many features and fitted under the Indian buffet process.
NUM_FEATURES = 6
SIZES: dict[str, dict[str, Any]] = {
    "linear-gaussian": {"num_rows": 500, "num_columns": 10, "missing": 0.1},
    "relational": {"num_rows": 100, "tau": 0.25, "missing": 0.05},
    "pyclone": {"num_rows": 200, "num_samples": 10},
}
STARTS = {"truth": 1, "no features": 0, "three times as many": 3}
DATA_SETS = (1, 2)


@suite("births")
def measure_births(quick: bool) -> Result:
    # In full, as long as `pgfa.sample` runs by default.
    length = {"draws": 30, "warmup": 30, "chains": 2} if quick else {"draws": 1000, "warmup": 500, "chains": 2}
    rows = []
    for name, sizes in list(SIZES.items())[: 1 if quick else None]:
        for seed in DATA_SETS[:1] if quick else DATA_SETS:
            prior = pgfa.BetaBernoulli(NUM_FEATURES)
            simulation = pgfa.simulate(name, prior, rng=np.random.default_rng(seed), alpha=2.0, **sizes)
            used = np.count_nonzero(simulation.state.Z.any(axis=0))
            rows.append({"data": f"{name}, set {seed}", "true_features": used} | _compare(simulation, seed, length))
    return Result(
        "Births: features in use under the buffet, from different starts",
        pd.DataFrame(rows),
        [
            f"Simulated with {NUM_FEATURES} features, of which some may have no owner, and fitted under the Indian "
            f"buffet process: mean number of features in use over {length['chains']} chains of {length['draws']} draws "
            f"after {length['warmup']} iterations of annealed warm-up, which start from the truth, without features, "
            "and with three times as many, laid out at random. The spread is the standard deviation over the draws of "
            "the chains from the truth.",
            "Required: means within two such spreads, or within half a feature where the posterior has hardly any.",
        ],
    )


def _compare(simulation: pgfa.Simulation, seed: int, length: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for label, times in STARTS.items():
        initial = repeat_features(simulation.model, simulation.state, times, np.random.default_rng(seed))
        fit = sample_quietly(simulation.model, pgfa.IndianBuffet(), seed=seed, initial=initial, **length)
        used = fit["sample_stats"]["used_features"].to_numpy()
        found[f"from {label}"] = used.mean()
        if label == "truth":
            found["spread"] = used.std()
    allowed = max(2.0 * found["spread"], 0.5)
    found["met"] = all(abs(found[f"from {label}"] - found["from truth"]) <= allowed for label in STARTS)
    return found


def repeat_features(model: Any, state: pgfa.State, times: int, rng: np.random.Generator) -> pgfa.State:
    """A state with `times` as many features; where that is not the same number, rows own three in ten at random."""
    if times == 1:
        return state
    Z = (rng.random((state.num_rows, times * state.num_features)) < 0.3).astype(np.uint8)
    which = np.tile(np.arange(state.num_features), times)
    parameters = dict(state.parameters)
    for name, axes in model.feature_axes.items():
        for axis in axes:
            parameters[name] = np.take(parameters[name], which, axis=axis)
    return pgfa.State(Z, state.alpha, parameters)
