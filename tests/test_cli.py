"""The command line: the demonstration from end to end, short."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

import pgfa
from pgfa.cli import app
from pgfa.demo import choose_held_out, run_demo


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Output and folder of a short run."""
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    result = CliRunner().invoke(app, ["demo", "--out", str(out), "--iterations", "12", "--seed", "3"])
    assert result.exit_code == 0, result.output
    return result.output, out


def test_demo_writes_pictures_and_tables(demo):
    _, out = demo
    names = {path.name for path in out.iterdir()}
    tables = {"chains.csv", "features.csv", "trace.csv", "allocation.csv", "loadings.csv"}
    assert names == tables | {"trace.png", "allocation.png", "loadings.png"}
    for path in out.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5000


def test_demo_tables_fit_together(demo):
    _, out = demo
    features, Z, V = (pd.read_csv(out / f"{name}.csv") for name in ("features", "allocation", "loadings"))
    assert Z.shape == (1080, 1 + len(features))
    assert V.shape == (77, 1 + len(features))
    assert Z[features["feature"]].sum().tolist() == features["owners"].tolist()
    assert features["owners"].is_monotonic_decreasing
    classes = features.filter(regex=r"^share_[ct]-").sum(axis=1)
    np.testing.assert_allclose(classes, 1.0)
    trace = pd.read_csv(out / "trace.csv")
    assert len(trace) == 2 * 12
    assert np.isfinite(trace["log_density"]).all()
    assert (trace.groupby("chain")["power"].last() == 1.0).all()


def test_demo_beats_column_means_even_when_short(demo):
    _, out = demo
    error = pd.read_csv(out / "chains.csv").set_index("estimate")["rmse"]
    assert error["column means"] == pytest.approx(1.0, abs=0.05)
    assert error["both chains"] < 0.85 * error["column means"]


def test_demo_says_what_it_does_and_credits_the_data(demo):
    output, _ = demo
    for text in ("Higuera", "10.24432/C50S3Z", "chain 2, iteration 12: log density", "RMSE", "loadings.png"):
        assert text in output


def test_demo_has_a_progress_bar_on_a_terminal(tmp_path):
    stream = io.StringIO()
    run_demo(tmp_path, seed=1, iterations=9, console=Console(file=stream, force_terminal=True, width=100))
    assert "18/18" in stream.getvalue()


def test_the_same_seed_gives_the_same_results(demo, tmp_path):
    _, out = demo
    run_demo(tmp_path, seed=3, iterations=12, console=Console(file=io.StringIO()))
    assert (tmp_path / "trace.csv").read_text() == (out / "trace.csv").read_text()
    assert (tmp_path / "allocation.csv").read_text() == (out / "allocation.csv").read_text()


def test_held_out_entries_are_observed_ones():
    X = np.ones((20, 10))
    X[:, :5] = np.nan
    held_out = choose_held_out(X, 0.1, np.random.default_rng(0))
    assert held_out.sum() == 10
    assert not np.isnan(X[held_out]).any()


@pytest.mark.parametrize("arguments", [["--iterations", "3"], ["--seed", "-1"], ["--iterations", "many"]])
def test_demo_refuses_nonsense(arguments):
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert result.exit_code == 2


def test_demo_refuses_to_write_into_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    assert CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")]).exit_code == 2


def test_version_and_help():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"pgfa {pgfa.__version__}"
    assert "demo" in CliRunner().invoke(app, ["--help"]).output


def test_the_command_starts_without_loading_the_compiler():
    heavy = ("numba", "scipy", "pandas", "matplotlib")
    code = f"import sys, pgfa.cli; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
