"""Benchmarks: ``python -m benchmarks``. A suite is a file here with a function under `@suite`."""

import sys
from pathlib import Path

# The oracle that the samplers are timed against lives with the tests that hold it to the truth.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
