"""What a second core is worth: two chains in two threads beside one chain alone."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
from threadpoolctl import threadpool_limits

import pgfa
from benchmarks.settings import simulate
from benchmarks.suites import Result, suite

#: Two threads must get this many times as much done as one.
REQUIRED = 1.85
#: Iterations a timing: about half a second each.
CASES = {"lg-20": 30, "lfrm-20": 25, "pyclone-8": 20}


@suite("cores")
def compare_threads(quick: bool) -> Result:
    repeats = 3 if quick else 9
    rows = []
    for name, length in CASES.items():
        truth, prior = simulate(name, seed=1)
        chains = [pgfa.Chain(truth.model, prior, seed=seed, state=truth.state) for seed in (1, 2)]
        for chain in chains:
            chain.step(3)
        alone, together = [], []
        with threadpool_limits(limits=1), ThreadPoolExecutor(max_workers=2) as pool:
            for _ in range(repeats):  # in turns, so that a slower minute of the machine hits both
                alone.append(_seconds(pool, chains[:1], length))
                together.append(_seconds(pool, chains, length))
        # The best of each, since what else runs on the machine can only take time away.
        gain = 2.0 * min(alone) / min(together)
        rows.append(
            {
                "data": name,
                "one_ms": 1000.0 * min(alone) / length,
                "two_ms": 1000.0 * min(together) / length,
                "throughput": gain,
                "required": REQUIRED,
                "met": gain >= REQUIRED,
            }
        )
    return Result(
        "Cores: two chains in two threads",
        pd.DataFrame(rows),
        [
            "Wall-clock milliseconds of a whole iteration (DPF and parameters) of one chain that runs alone, and of "
            "each of two that run at once. The throughput is that of both, relative to one; needs two idle cores."
        ],
    )


def _seconds(pool: ThreadPoolExecutor, chains: list[pgfa.Chain], length: int) -> float:
    begin = time.perf_counter()
    for future in [pool.submit(chain.step, length) for chain in chains]:
        future.result()
    return time.perf_counter() - begin
