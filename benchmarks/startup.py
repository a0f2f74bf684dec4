"""From `import pgfa` to the end of the first sweep, in a fresh process, with and without compiled code on disk."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

import pandas as pd

from benchmarks.suites import Result, suite

LIMITS = {"cold": 30.0, "warm": 2.0}

FIRST_SWEEP = """
import time
begin = time.perf_counter()
import numpy as np
import pgfa
imported = time.perf_counter()
data = {data}
chain = pgfa.Chain({model}(data), pgfa.BetaBernoulli({features}), seed=1)
chain.step()
print(imported - begin, time.perf_counter() - begin)
"""

#: Data, model and number of features of each first sweep.
MODELS = {
    "linear Gaussian": ("np.random.default_rng(0).normal(size=(1000, 10))", "pgfa.LinearGaussian", 20),
    "relational": ("(np.random.default_rng(0).random((50, 50)) < 0.2).astype(float)", "pgfa.Relational", 10),
    "PyClone": (
        "pgfa.simulate('pyclone', pgfa.BetaBernoulli(4), rng=1, num_rows=50, num_samples=4).data",
        "pgfa.PyClone",
        4,
    ),
}


@suite("startup")
def time_first_sweep(quick: bool) -> Result:
    rows = []
    for name in list(MODELS)[: 1 if quick else None]:
        with tempfile.TemporaryDirectory() as cache:
            for state, repeats in (("cold", 1), ("warm", 1 if quick else 5)):
                times = [_run(cache, *MODELS[name]) for _ in range(repeats)]
                total = statistics.median(total for _, total in times)
                rows.append(
                    {
                        "model": name,
                        "cache": state,
                        "import_s": statistics.median(imported for imported, _ in times),
                        "first_sweep_s": total,
                        "limit_s": LIMITS[state],
                        "met": total <= LIMITS[state],
                    }
                )
    return Result(
        "Start: from `import pgfa` to the end of the first sweep",
        pd.DataFrame(rows),
        ["Fresh processes, wall-clock seconds. Cold: nothing compiled on disk. Warm: as every later process finds it."],
    )


def _run(cache: str, data: str, model: str, features: int) -> tuple[float, float]:
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    program = FIRST_SWEEP.format(data=data, model=model, features=features)
    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    ).stdout
    imported, total = map(float, output.split())
    return imported, total
