"""What a suite is, how it is found, and how time is measured."""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import pandas as pd

import benchmarks

Suite = Callable[[bool], "Result"]


@dataclass
class Result:
    """One table of measurements, with its title and what the reader has to know.

    A table that holds what was measured to requirements has a boolean column `met`. A picture, a matplotlib Figure,
    goes where the table goes.
    """

    title: str
    table: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    picture: Any = None

    @property
    def num_missed(self) -> int:
        return int((~self.table["met"].astype(bool)).sum()) if "met" in self.table else 0


SUITES: dict[str, Suite] = {}
#: Those that a quick run makes unless told otherwise: what a change of compiled code is likely to move.
DAILY: list[str] = []


def suite(name: str, *, daily: bool = False) -> Callable[[Suite], Suite]:
    """Let `python -m benchmarks` find a function that takes `quick` and returns a `Result`."""

    def register(function: Suite) -> Suite:
        SUITES[name] = function
        if daily:
            DAILY.append(name)
        return function

    return register


def find_suites() -> dict[str, Suite]:
    """Import every file of this folder, and return what registered itself, in alphabetical order."""
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if not module.name.startswith("__"):
            importlib.import_module(f"benchmarks.{module.name}")
    return dict(sorted(SUITES.items()))


def median_milliseconds(work: Callable[[], object], repeats: int) -> float:
    """Median time of a call. The clock counts only this thread, so that other processes do not count."""
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        work()
        times.append(time.thread_time() - begin)
    return 1000.0 * statistics.median(times)


def describe_machine() -> str:
    """Model of the CPU and versions of the libraries."""
    libraries = ("numba", "numpy", "scipy", "pgfa")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in libraries)
    return f"{_cpu_model()}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}"


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
