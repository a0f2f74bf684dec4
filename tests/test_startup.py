"""Compiled code on disk: found again, kept where folders can be written, shared by processes that start at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = """
import numpy as np, pgfa
from pgfa import _compile
X = np.random.default_rng(0).normal(size=(20, 3))
chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(3), pgfa.Gibbs(), seed=1)
chain.step(3)
print(_compile._CACHE_DIRECTORY)
print(repr(chain.log_density()))
"""


def start(script, tmp_path, **environment):
    inherited = {key: value for key, value in os.environ.items() if key not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={**inherited, "HOME": str(tmp_path / "home"), **{key: str(value) for key, value in environment.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result_of(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out.splitlines()


def test_nothing_heavy_is_imported():
    script = "import sys, pgfa; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.split())
    heavy = {"matplotlib", "pandas", "xarray", "arviz_stats", "dask", "networkx", "sklearn", "zarr", "typer", "rich"}
    assert not heavy & loaded


def test_models_bring_no_part_of_scipy_but_its_special_functions():
    script = "import sys, pgfa; pgfa.PyClone, pgfa.Relational, pgfa.LinearGaussian; print(*sys.modules)"
    loaded = set(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.split())
    assert "scipy.special" in loaded and not {"scipy.optimize", "scipy.stats", "scipy.cluster"} & loaded


@pytest.mark.slow
def test_eight_processes_at_once_share_one_cache(tmp_path):
    processes = [start(SWEEP, tmp_path, NUMBA_CACHE_DIR=tmp_path / "cache") for _ in range(8)]
    assert len({tuple(result_of(process)) for process in processes}) == 1
    before = sorted((tmp_path / "cache").rglob("*.nbc"))
    result_of(start(SWEEP, tmp_path, NUMBA_CACHE_DIR=tmp_path / "cache"))
    assert before and sorted((tmp_path / "cache").rglob("*.nbc")) == before  # the ninth compiles nothing


@pytest.mark.slow
def test_folders_that_cannot_be_written_are_passed_over(tmp_path):
    # A file where the folder should be stops everybody, even an administrator whom permissions do not stop.
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    cache, density = result_of(start(SWEEP, tmp_path, NUMBA_CACHE_DIR=blocked, XDG_CACHE_HOME=tmp_path / "user"))
    assert Path(cache).is_relative_to(tmp_path / "user")

    # Neither cache nor home nor package can be written: everything is compiled anew, and runs.
    nowhere = {"NUMBA_CACHE_DIR": blocked, "XDG_CACHE_HOME": blocked}
    script = "import tempfile\ndef refuse(*a, **k): raise PermissionError\ntempfile.TemporaryFile = refuse\n" + SWEEP
    assert result_of(start(script, tmp_path, **nowhere)) == ["None", density]
