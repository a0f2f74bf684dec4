"""What annealed warm-up, column moves and several starts gain: shares of chains that arrive, from the same starts.

    python -m benchmarks.warmup [--starts 16] [--data lg-5 lg-20 lfrm-20 pyclone-8]

A chain has arrived where its last log density is within 2% of that of the truth behind the data, or above it. The
posterior itself may lie elsewhere, so chains that start at the truth are run as well.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import pgfa
from benchmarks.settings import sample_quietly, simulate
from pgfa.experiments.report import NEAR_TRUTH

SETTINGS = {
    "plain": {"anneal": False, "starts": 1, "renew": False, "column_moves": False},
    "annealed": {"anneal": True, "starts": 1, "renew": False, "column_moves": False},
    "column moves": {"anneal": True, "starts": 1, "renew": False, "column_moves": True},
    "default": {},
    "from the truth": {"anneal": False, "starts": 1, "renew": False, "column_moves": False},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--data", nargs="+", default=["lg-5", "lg-20", "lfrm-20", "pyclone-8"])
    parser.add_argument("--only", nargs="+", choices=SETTINGS, help="some of the ways to start")
    options = parser.parse_args()
    print("| data | warm-up | arrived | median relative log density | seconds a chain |")
    print("| --- | --- | --- | --- | --- |")
    for name in options.data:
        simulation, prior = simulate(name, seed=1)
        truth = pgfa.Chain(simulation.model, prior, seed=0, state=simulation.state).log_density()
        for label, settings in SETTINGS.items():
            if options.only and label not in options.only:
                continue
            initial = simulation.state if label == "from the truth" else None
            began = time.perf_counter()
            fit = sample_quietly(
                simulation.model, prior, draws=options.draws, warmup=options.warmup, chains=options.starts, seed=7,
                initial=initial, **settings,
            )  # fmt: skip
            seconds = (time.perf_counter() - began) * 2 / options.starts
            last = np.asarray(fit["sample_stats"]["lp"][:, -20:].mean("draw"))
            relative = pgfa.metrics.relative_log_density(last, truth)
            print(
                f"| {name} | {label} | {np.count_nonzero(relative > NEAR_TRUTH)} of {options.starts} "
                f"| {np.median(relative):.3f} | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
