"""What exchanges of whole columns do for relational chains that have settled in a wrong mode."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

import pgfa
from benchmarks.settings import simulate
from benchmarks.suites import Result, suite
from pgfa.experiments.report import NEAR_TRUTH
from pgfa.metrics import relative_log_density

#: Networks of the setting lfrm-ibp whose chains get stuck.
NETWORKS = (1, 2, 6)
NUM_CHAINS = 6
EXCHANGES = (0, 3, 6)


@suite("relational-columns")
def measure_exchanges(quick: bool) -> Result:
    seeds = NETWORKS[:1] if quick else NETWORKS
    num_chains, length = (2, 40) if quick else (NUM_CHAINS, 300)
    return Result(
        "Relational model: chains that had settled, with and without exchanges of columns",
        pd.DataFrame([row for seed in seeds for row in _go_on(seed, num_chains, length)]),
        [
            f"Networks of the setting lfrm-ibp (100 nodes). {num_chains} chains each settle in {length} iterations "
            f"without exchanges, the first half of them annealed, and then make {length} more with so many exchanges "
            f"proposed in each. Home is within {-NEAR_TRUTH:.0%} of the true log density.",
        ],
    )


def _go_on(seed: int, num_chains: int, length: int) -> list[dict[str, object]]:
    """Let settled chains of one network go on, each time from the same states."""
    truth, prior = simulate("lfrm-ibp", seed)
    true_density = pgfa.Chain(truth.model, prior, seed=0, state=truth.state).log_density()
    settled = []
    for chain_seed in range(num_chains):
        chain = pgfa.Chain(_with_exchanges(truth.model, 0), prior, seed=chain_seed)
        for power in np.linspace(0.0, 1.0, length // 2):
            chain.step(warmup=True, power=power)
        chain.step(length - length // 2)
        settled.append(chain)
    home_before = _count_home([relative_log_density(chain.log_density(), true_density) for chain in settled])
    rows = []
    for num_exchanges in EXCHANGES:
        model = _with_exchanges(truth.model, num_exchanges)
        relative, elapsed = [], 0.0
        for chain_seed, before in enumerate(settled):
            chain = pgfa.Chain(model, prior, seed=100 + chain_seed, state=before.state)
            chain.step()
            begun = time.thread_time()
            chain.step(length)
            elapsed += time.thread_time() - begun
            relative.append(relative_log_density(chain.log_density(), true_density))
        rows.append(
            {
                "network": seed,
                "exchanges": num_exchanges,
                "home_before": home_before,
                "home": _count_home(relative),
                "median_relative_log_density": np.median(relative),
                "ms_an_iteration": 1000.0 * elapsed / (num_chains * length),
            }
        )
    return rows


def _with_exchanges(model: pgfa.Relational, num_exchanges: int) -> pgfa.Relational:
    return pgfa.Relational(model.X, model.symmetric, column_moves=num_exchanges)


def _count_home(relative: list[float]) -> int:
    return int(np.count_nonzero(np.array(relative) >= NEAR_TRUTH))
