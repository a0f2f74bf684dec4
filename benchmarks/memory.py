"""A million rows: what a sweep needs beside the data."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd

from benchmarks.suites import Result, suite

#: Beside the data (X and Z) a chain may hold this share of their size.
ALLOWED = 0.4

RUN = """
import time
import numpy as np
import pgfa

def memory(what):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024

small = pgfa.Chain(pgfa.LinearGaussian(np.zeros((10, 20))), pgfa.BetaBernoulli(20), seed=1)
small.step()
rng = np.random.default_rng(1)
before = memory("VmRSS")
N, D, K = {num_rows}, 20, 20
Z = np.zeros((N, K), dtype=np.uint8)
V = rng.normal(size=(K, D)) * 2.0
X = np.empty((N, D))
for n in range(0, N, 10_000):
    Z[n : n + 10_000] = rng.random((min(10_000, N - n), K)) < 0.1
    X[n : n + 10_000] = Z[n : n + 10_000] @ V + 0.2 * rng.standard_normal((min(10_000, N - n), D))
model = pgfa.LinearGaussian(X)
state = pgfa.State(Z=Z, alpha=2.0, parameters={{"V": V, "tau_v": 0.25, "tau_x": 25.0}})
data = (X.nbytes + Z.nbytes) / 2**20
del X, Z
chain = pgfa.Chain(model, pgfa.BetaBernoulli(K), seed=1, state=state)
del state
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the peak so far
began = time.perf_counter()
chain.step(10)
print(data, memory("VmHWM") - before, time.perf_counter() - began)
"""


@suite("memory")
def measure_sweeps(quick: bool) -> Result:
    num_rows = 100_000 if quick else 1_000_000
    output = subprocess.run(
        [sys.executable, "-c", RUN.format(num_rows=num_rows)], check=True, capture_output=True, text=True
    ).stdout
    data, used, seconds = map(float, output.split())
    row = {
        "rows": num_rows,
        "data_mb": data,
        "peak_mb": used,
        "ratio": used / data,
        "seconds": seconds,
        "met": used <= (1.0 + ALLOWED) * data,
    }
    return Result(
        "Memory: ten iterations with the DPF on many rows",
        pd.DataFrame([row]),
        [
            "20 dimensions, 20 features, complete data. The peak is the most that was held while the chain ran, "
            "less what it held before the data came. Needs Linux.",
            f"Required: at most {1.0 + ALLOWED} times the data.",
        ],
    )
