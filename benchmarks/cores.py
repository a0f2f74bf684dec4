"""What a second core is worth: two chains in two threads beside one chain alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import pgfa
from benchmarks.settings import simulate
from benchmarks.suites import Result, suite
from pgfa._compile import compiled

#: Two threads must get this many times as much done as one.
REQUIRED = 1.85
#: Iterations a timing, about a second of them. Not all take as long, and of two runs at once the longer counts.
CASES = {"lg-20": 60, "lfrm-20": 40, "pyclone-8": 80}
#: Turns of the bare loop: about as long.
TURNS = 400_000_000


@compiled(allocates=False)
def turn(x, count):  # type: ignore[no-untyped-def]
    """Arithmetic in registers, which shares nothing with another thread but the machine: the logistic map."""
    for _ in range(count):
        x = 3.9 * x * (1.0 - x)
    return x


@suite("cores")
def compare_threads(quick: bool) -> Result:
    repeats = 1 if quick else 9
    turn(0.3, 1)
    bare = _compare("arithmetic in registers", [lambda: turn(0.3, TURNS)] * 2, repeats)
    rows = [bare | {"required": float("nan"), "met": True}]
    for name, length in CASES.items():
        truth, prior = simulate(name, seed=1)
        chains = [pgfa.Chain(truth.model, prior, seed=seed, state=truth.state) for seed in (1, 2)]
        for chain in chains:
            chain.step(3)
        row = _compare(name, [lambda chain=chain, length=length: chain.step(length) for chain in chains], repeats)
        rows.append(row | {"required": REQUIRED, "met": row["throughput"] >= REQUIRED})
    return Result(
        "Cores: two chains in two threads",
        pd.DataFrame(rows),
        [
            "Wall-clock milliseconds of some whole iterations of a chain that runs "
            "alone, and of each of two that run at once, medians over rounds. The throughput is that of both, relative "
            "to one, in the same round; needs two idle cores. The first row is what the machine itself allows: two "
            "threads that share no memory at all. Pinned is the throughput with each thread held to a core of "
            "its own: threads that hand Python's lock to each other may be put on the same core for a while.",
        ],
    )


def _compare(name: str, jobs: Sequence[Callable[[], Any]], repeats: int) -> dict[str, Any]:
    """Time of a job alone, of two at once, and of two at once on cores of their own."""
    alone, together, pinned = np.empty((3, repeats))
    with threadpool_limits(limits=1), ThreadPoolExecutor(max_workers=2) as pool:
        for i in range(repeats):
            alone[i] = np.mean([_seconds(pool, [job]) for job in jobs])  # one may have more to do than the other
            together[i] = _seconds(pool, jobs)
            pinned[i] = _seconds(pool, [_on_core(place, job) for place, job in enumerate(jobs)])
    # Compared within each round: the machine's pace may change from one to the next.
    return {
        "data": name,
        "one_ms": 1000.0 * np.median(alone),
        "two_ms": 1000.0 * np.median(together),
        "throughput": np.median(2.0 * alone / together),
        "throughput_pinned": np.median(2.0 * alone / pinned),
    }


def _on_core(place: int, job: Callable[[], Any]) -> Callable[[], Any]:
    """The job, held to one of the cores that this process may use; only where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        return job

    def pinned() -> None:
        allowed = os.sched_getaffinity(0)  # those of this thread
        os.sched_setaffinity(0, {sorted(allowed)[place % len(allowed)]})
        try:
            job()
        finally:
            os.sched_setaffinity(0, allowed)

    return pinned


def _seconds(pool: ThreadPoolExecutor, jobs: Sequence[Callable[[], Any]]) -> float:
    begin = time.perf_counter()
    for future in [pool.submit(job) for job in jobs]:
        future.result()
    return time.perf_counter() - begin
