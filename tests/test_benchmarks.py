"""The benchmark runner: finds its suites, says what was missed, writes what it measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return pytest.importorskip("benchmarks.__main__")


def test_every_file_of_the_folder_is_a_suite(benchmarks):
    expected = {"linear-gaussian", "pyclone", "relational", "relational-growth", "startup"}
    assert expected <= benchmarks.find_suites().keys()


def test_a_table_in_the_documentation(benchmarks):
    table = pd.DataFrame(
        {"what": ["a", "b"], "ratio": [163.25, 0.12345], "required": [150.0, float("nan")], "met": [True, False]}
    )
    result = benchmarks.Result("Title", table, ["A note."])
    text = benchmarks.to_markdown("A machine", [result])
    assert "## Title\n\nA machine.\n\nA note.\n\n| what | ratio | required | met |\n| --- | --- | --- | --- |\n" in text
    assert "| a | 163 | 150 | yes |\n| b | 0.123 |  | no |\n" in text
    assert result.num_missed == 1


def test_sections_that_were_not_measured_again_stay(benchmarks):
    old, new = (benchmarks.Result("Title", pd.DataFrame({"a": [value]})) for value in (1, 2))
    other = benchmarks.Result("Another", pd.DataFrame({"a": [3]}))
    text = benchmarks.to_markdown("New machine", [new], benchmarks.to_markdown("Old machine", [old, other]))
    assert text == benchmarks.to_markdown("Old machine", [other], benchmarks.to_markdown("New machine", [new]))
    assert "| 2 |" in text and "| 3 |" in text and "| 1 |" not in text
    assert text.index("Another\n\nOld machine") < text.index("Title\n\nNew machine")


def test_a_picture_in_the_documentation(benchmarks):
    result = benchmarks.Result("Model: how it grows", pd.DataFrame({"a": [1]}), picture=object())
    assert "![Model: how it grows](benchmark-model-how-it-grows.png)" in benchmarks.to_markdown("", [result])


def test_the_machine_is_named_with_its_libraries(benchmarks):
    assert "numba" in benchmarks.describe_machine()


def test_unknown_suites_are_refused():
    command = [sys.executable, "-m", "benchmarks", "nothing"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert "choose from" in finished.stderr


@pytest.mark.slow
def test_a_quick_run_measures_and_writes():
    command = [sys.executable, "-m", "benchmarks", "--quick", "linear-gaussian"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    table = pd.read_csv(ROOT / "bench-out" / "linear-gaussian.csv")
    assert (table["pgfa_ms"] > 0).all()
    assert (table["ratio"] > 1).all()


@pytest.mark.parametrize("name", ["lg-5", "lfrm-5", "pyclone-4"])
def test_every_model_has_a_floor(name, benchmarks):
    """Whatever its predictors are made of."""
    from benchmarks.floor import time_floor
    from benchmarks.settings import simulate

    assert time_floor(simulate(name, seed=1)[0], repeats=1, doubles=True) > 0.0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot hold a thread to a core")
def test_a_thread_is_held_to_one_core_and_let_go(benchmarks):
    from benchmarks.cores import _on_core

    before, during = os.sched_getaffinity(0), []
    _on_core(1, lambda: during.append(os.sched_getaffinity(0)))()
    assert len(during[0]) == 1 and during[0] <= before
    assert os.sched_getaffinity(0) == before


def test_the_first_page_counts_chains_by_where_they_end_and_when_they_first_come_near(benchmarks):
    from benchmarks.first_page import describe

    from pgfa.experiments.definition import load

    def trace(sampler, start, densities, b_cubed):
        times = [0.1, 1.0, 10.0]
        part = {"sampler": sampler, "data": 0, "start": start, "restart": 0, "time": times, "b_cubed": b_cubed}
        return pd.DataFrame(
            part | {"relative_log_density": densities, "log_density": [-100 + 100 * d for d in densities]}
        )

    traces = pd.concat(
        [
            trace("DPF", 0, [-1.0, -0.5, -0.5], 0.5),
            trace("DPF", 1, [-1.0, -0.5, -0.01], 0.75),
            trace("pgfa default", 0, [-1.0, -0.01, 0.1], 1.0),
            trace("pgfa default", 1, [-0.02, -0.01, -0.03], 0.9),
            trace("pgfa default", 2, [-1.0, -0.5, -0.5], 0.8),
        ],
        ignore_index=True,
    )
    row = describe(load("lg-5").at_scale("laptop"), traces)
    assert (row["Gibbs"], row["DPF"], row["pgfa"], row["pgfa, at some time"]) == ("", 1, 1, 2)
    assert (row["half of them after"], row["all but one after"]) == ("1 s", "1 s")
    assert (row["near the best: paper's best"], row["near the best: pgfa"]) == (0, 1)
    assert (row["B-Cubed F: DPF"], row["B-Cubed F: pgfa"], row["least"]) == ("0.625", "0.900", "0.800")
