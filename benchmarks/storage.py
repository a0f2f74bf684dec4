"""Memory and disk of a long run that is saved as it goes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

from benchmarks.suites import Result, suite

LIMITS = {"memory_mb": 1000.0, "disk_mb": 200.0}

RUN = """
import resource, sys
import numpy as np
import pgfa
prior = pgfa.BetaBernoulli(20)
truth = pgfa.simulate("linear-gaussian", prior, rng=1, num_rows={num_rows}, num_columns=10)
fit = pgfa.sample(
    truth.model, prior, pgfa.Gibbs(), draws={draws}, warmup=20, chains=4, seed=1, column_moves=False, anneal=False,
    progress=False, check=False, checkpoint=sys.argv[1],
)
print(fit["posterior"]["Z"].shape[1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@suite("storage")
def measure_run(quick: bool) -> Result:
    num_rows, draws = (1000, 100) if quick else (10_000, 1000)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run.zarr"
        script = RUN.format(num_rows=num_rows, draws=draws)
        output = subprocess.run(
            [sys.executable, "-c", script, str(store)], check=True, capture_output=True, text=True
        ).stdout
        disk = sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / 1e6
    memory = float(output.split()[1])
    found = {"memory_mb": memory, "disk_mb": disk}
    rows = [
        {"what": what, "measured": value, "limit": LIMITS[what], "met": value <= LIMITS[what]}
        for what, value in found.items()
    ]
    return Result(
        "Storage: four chains with every draw kept",
        pd.DataFrame(rows),
        [
            f"{num_rows} rows, 20 features, 10 dimensions, 4 chains of {draws} draws in two threads, streamed to disk. "
            "Memory is the most that the process ever held, returned draws and interpreter with its libraries included."
        ],
    )
