"""Do chains that start in different places agree, at the default length and with nothing turned on?"""

from __future__ import annotations

import time

import pandas as pd
import xarray as xr

import pgfa
from benchmarks.settings import SETTINGS, sample_quietly, simulate
from benchmarks.suites import Result, suite

#: Chains agree where R-hat is below this.
ALLOWED = 1.05
DATA_SETS = (1, 2)


@suite("agreement")
def measure_agreement(quick: bool) -> Result:
    # In full, the defaults of `pgfa.sample`.
    length = {"draws": 50, "warmup": 50, "chains": 2} if quick else {"draws": 1000, "warmup": 500, "chains": 4}
    names = [name for name in SETTINGS if name.startswith("lg-")]
    rows = []
    for name in names[:1] if quick else names:
        for seed in DATA_SETS[:1] if quick else DATA_SETS:
            simulation, prior = simulate(name, seed)
            begun = time.perf_counter()
            fit = sample_quietly(simulation.model, prior, seed=seed, **length)
            elapsed = time.perf_counter() - begun
            rows.append({"data": f"{name}, set {seed}"} | _describe(fit) | {"seconds": elapsed})
    table = pd.DataFrame(rows)
    table["met"] = table[["r_hat_log_density", "r_hat_features", "largest_r_hat_of_pairs"]].max(axis=1) < ALLOWED
    return Result(
        "Agreement: R-hat of chains that start apart",
        table,
        [
            "`pgfa.sample(model, prior)` with nothing turned on or off: from draws of the prior, "
            f"{length['chains']} chains with {length['warmup']} iterations of warm-up and {length['draws']} draws "
            "each. R-hat is rank-normalised; pairs are pairs of rows, and what is compared is the number of features "
            f"that they share. Required: below {ALLOWED} throughout.",
        ],
    )


def _describe(fit: xr.DataTree) -> dict[str, float]:
    table = pgfa.diagnose(fit)
    pairs = table[table.index.str.startswith("shared_features")]
    return {
        "r_hat_log_density": table.loc["lp", "r_hat"],
        "r_hat_features": table.loc["used_features", "r_hat"],
        "largest_r_hat_of_pairs": pairs["r_hat"].max(),
        "pairs_below": float((pairs["r_hat"] < ALLOWED).mean()),
        "least_effective_draws": table["ess_bulk"].min(),
    }
