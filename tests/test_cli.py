"""The command line: from files to draws, tables and pictures, and every way in which that can end."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

import pgfa
from pgfa.cli import app
from pgfa.cli.options import BadOption, PriorName, RunOptions, SamplerName, parse_seconds
from pgfa.cli.running import default_out
from pgfa.demo import run_demo
from pgfa.demo.show import choose_held_out, shares_of_levels
from pgfa.report import file_names, make_fit
from pgfa.report.base import findings_of

QUICK = ["--sampler", "gibbs", "--no-column-moves", "--chains", "2", "--no-progress", "--seed", "1"]
SHORT = [*QUICK, "--draws", "20", "--warmup", "10"]
COMMANDS = [
    *(
        f"{command} {model}"
        for command in ("fit", "simulate")
        for model in ("linear-gaussian", "relational", "pyclone")
    ),
    *("resume", "summary", "demo"),
]

#: So that a process of its own finds this pgfa, wherever it is started.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(pgfa.__file__).parents[1])}


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def flat(text):
    """Output without the breaks of lines that a narrow terminal makes."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table with known features, labels that mean mischief, and holes."""
    rng = np.random.default_rng(0)
    Z = np.repeat([[1, 0], [0, 1], [1, 1], [0, 0]], 6, axis=0)
    X = Z @ np.array([[5.0, 0.0, 5.0], [0.0, 5.0, -5.0]]) + 0.1 * rng.normal(size=(24, 3))
    table = pd.DataFrame(X, columns=["[red]dose[/red]", "=1+1", "b$c$"])
    table.insert(0, "name", [f"row {n}" for n in range(24)])
    table.loc[0, "name"] = "[bold]zero[/bold]"
    table.loc[1, "name"] = "=HYPERLINK(A1)"
    table.loc[2, "name"] = "esc\x1b[31mape"
    table.iloc[3, 1] = np.nan
    path = tmp_path_factory.mktemp("data") / "levels.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("fit") / "new" / "folder"
    length = ["--chains", 4, "--draws", 100, "--warmup", 100, "--seed", 3]
    return run("fit", "linear-gaussian", data, "--features", 2, *QUICK, *length, "--out", out), out


# --- fit ------------------------------------------------------------------------------------------------------------


def test_fit_writes_draws_tables_and_pictures(fitted):
    _, out = fitted
    tables = {"diagnostics", "features", "owners", "trace", "loadings", "loadings_sd", "imputed"}
    names = {path.name for path in out.iterdir()}
    assert names == {f"{name}.csv" for name in tables} | {
        "trace.png", "owners.png", "loadings.png", "run.zarr", "fit.json"
    }  # fmt: skip
    assert names - {"run.zarr", "fit.json"} == set(file_names(pgfa.LinearGaussian(np.eye(2))))
    for path in out.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    tree = pgfa.load(out / "run.zarr")
    assert dict(tree["posterior"]["Z"].sizes) == {"chain": 4, "draw": 100, "row": 24, "feature": 2}
    assert len(pd.read_csv(out / "trace.csv")) == 400


def test_fit_finds_the_features_and_fills_the_hole(fitted):
    _, out = fitted
    # One entry at a time, chains may be stuck; the best draw is not.
    tree = pgfa.load(out / "run.zarr")
    best = pgfa.summarise(tree, chains=[pgfa.summarise(tree).chain])
    truth = np.repeat([[1, 0], [0, 1], [1, 1], [0, 0]], 6, axis=0)
    assert {tuple(column) for column in best.reference.Z.T} == {tuple(column) for column in truth.T}
    assert best.owners.index[5] == "row 5"
    assert pd.read_csv(out / "owners.csv")["name"][5] == "row 5"
    imputed = pd.read_csv(out / "imputed.csv")
    assert imputed["name"].tolist() == ["row 3"]
    assert imputed["column"].tolist() == ["[red]dose[/red]"]
    assert imputed["mean"][0] == pytest.approx(5.0, abs=0.6)
    assert 0.05 < imputed["sd"][0] < 1.0
    loadings = pd.read_csv(out / "loadings.csv")
    assert loadings["column"].tolist() == ["[red]dose[/red]", "'=1+1", "b$c$"]
    assert list(loadings.columns) == ["column", "F1", "F2"]


def test_the_summary_is_shown_with_labels_as_they_are(fitted):
    result, _ = fitted
    for text in ("R-hat", "log density", "F1", "agreement", "row 4", "explain", "imputed.csv"):
        assert text in result.stdout
    assert "[bold]zero[/bold]" in flat(result.stdout)
    assert "[red]dose[/red]" in flat(result.stdout)
    assert "\x1b[31mape" not in result.output
    assert "LinearGaussian(24 rows, 3 columns, 1 entries missing)" in flat(result.stderr)


def test_labels_in_tables_are_no_formulae(fitted):
    _, out = fitted
    assert "'=HYPERLINK(A1)" in (out / "owners.csv").read_text()
    assert "'=1+1" in (out / "loadings.csv").read_text()
    assert not any(line.startswith(("=", "-cmd", "@")) for line in (out / "owners.csv").read_text().splitlines())


def test_features_and_owners_fit_together(fitted):
    _, out = fitted
    features, owners = pd.read_csv(out / "features.csv"), pd.read_csv(out / "owners.csv")
    assert features["feature"].tolist() == list(owners.columns[1:])
    np.testing.assert_allclose(features["expected_owners"], owners[features["feature"]].sum())
    assert features["owners_in_best_draw"].is_monotonic_decreasing
    assert features["agreement"].between(0.0, 1.0).all()


def test_diagnostics_call_rows_by_their_labels(fitted):
    _, out = fitted
    quantities = pd.read_csv(out / "diagnostics.csv")["quantity"]
    pairs = quantities[quantities.str.startswith("shared_features")]
    assert len(pairs) > 5
    label = r"(row \d+|.*zero.*|=HYPER.*|esc.*)"
    assert pairs.str.fullmatch(rf"shared_features\[{label}, {label}\]").all()


def test_standardised_columns_are_filled_in_the_units_of_the_file(data, tmp_path):
    options = ["--features", 2, *QUICK, "--draws", 100, "--warmup", 200, "--out", tmp_path]
    run("fit", "linear-gaussian", data, "--standardise", "--intercept", *options)
    assert pd.read_csv(tmp_path / "imputed.csv")["mean"][0] == pytest.approx(5.0, abs=1.0)
    assert set(json.loads((tmp_path / "fit.json").read_text())["scale"]) == {"[red]dose[/red]", "=1+1", "b$c$"}
    assert "intercept" in pd.read_csv(tmp_path / "loadings.csv").columns


@pytest.mark.parametrize("name", ["t.tsv", "t.csv.gz", "t.parquet"])
def test_other_formats_give_the_same_draws(data, fitted, tmp_path, name):
    table = pd.read_csv(data)
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        table.to_parquet(tmp_path / name)
    else:
        table.to_csv(tmp_path / name, index=False, sep="\t" if "tsv" in name else ",")
    options = ["--features", 2, *SHORT, "--no-anneal"]
    run("fit", "linear-gaussian", data, *options, "--out", tmp_path / "a")
    run("fit", "linear-gaussian", tmp_path / name, *options, "--out", tmp_path / "b")
    assert (tmp_path / "a" / "owners.csv").read_text() == (tmp_path / "b" / "owners.csv").read_text()


def test_a_warning_where_columns_are_off_centre(tmp_path):
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": [10.0, 11.0, 10.5], "b": [7.0, 7.1, 7.2]}).to_csv(path, index=False)
    result = run("fit", "linear-gaussian", path, "--features", 1, *SHORT, "--out", tmp_path / "out")
    assert "consider --intercept" in flat(result.stderr)


# --- other models ---------------------------------------------------------------------------------------------------


def test_networks_from_both_formats(tmp_path):
    team = np.repeat([0, 1], 6)
    X = (team[:, None] == team).astype(float)
    X[0, 1] = np.nan
    names = [f"n{i}" for i in range(12)]
    table = pd.DataFrame(X, columns=names).astype("Int64")
    table.insert(0, "node", names)
    for i in range(12):
        table.loc[i, names[i]] = 0
    table.to_csv(tmp_path / "n.csv", index=False)
    edges = [(names[i], names[j], X[i, j]) for i in range(12) for j in range(12) if i != j and X[i, j] != 0]
    pd.DataFrame(edges, columns=["source", "target", "value"]).to_csv(tmp_path / "e.csv", index=False)
    options = ["--features", 2, "--bias", *SHORT]
    result = run("fit", "relational", tmp_path / "n.csv", *options, "--out", tmp_path / "a")
    run("fit", "relational", tmp_path / "e.csv", "--format", "edges", *options, "--no-renew", "--out", tmp_path / "b")
    for out in ("a", "b"):
        unknown = pd.read_csv(tmp_path / out / "unknown_links.csv")
        assert unknown[["from", "to"]].to_numpy().tolist() == [["n0", "n1"]]
        assert (tmp_path / out / "network.png").exists()
    renewals = [json.loads(pgfa.load(tmp_path / out / "run.zarr").attrs["settings"])["renewal"] for out in ("a", "b")]
    assert renewals == [pgfa.Relational.renewal, 0]
    assert "n0 → n1" in flat(result.stdout)
    written = {path.name for path in (tmp_path / "a").iterdir()} - {"run.zarr", "fit.json"}
    assert written == set(file_names(pgfa.Relational(X)))
    probability = pd.read_csv(tmp_path / "a" / "link_probability.csv")
    assert list(probability.columns) == ["from", *names]
    weights = pd.read_csv(tmp_path / "a" / "weights.csv")
    assert set(weights.columns) == {"from", "to", "mean", "sd"}


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("a,b\n0,1\n2,0\n", (), "line 3, column 'a': expected 0 or 1, got '2'"),
        ("a,b\n0,1\n0,0\n", ("--symmetric",), "is not symmetric"),
        ("a,b\n1,1\n0,0\n", (), "say --self-links"),
        ("a,b\n0,1\n0,0\n", ("--format", "edges"), "no column 'source'"),
    ],
)
def test_networks_that_cannot_be_used(tmp_path, text, arguments, message):
    (tmp_path / "n.csv").write_text(text)
    result = run("fit", "relational", tmp_path / "n.csv", *arguments, *SHORT, "--out", tmp_path / "out", code=2)
    assert message in flat(result.stderr)


def test_read_counts(tmp_path):
    pytest.importorskip("pgfa.models.pyclone", reason="the PyClone model is not there yet")
    path = tmp_path / "mutations.tsv"
    run("simulate", "pyclone", "--rows", 12, "--samples", 2, "--features", 2, "--seed", 1, "--out", path)
    result = run("fit", "pyclone", path, "--features", 2, *SHORT, "--out", tmp_path / "out")
    assert "population" in result.stdout
    written = {path.name for path in (tmp_path / "out").iterdir()} - {"run.zarr", "fit.json"}
    assert written == set(file_names(pgfa.PyClone(pd.read_csv(path, sep="\t"))))
    prevalences = pd.read_csv(tmp_path / "out" / "prevalences.csv")
    assert len(prevalences) == 24
    assert (prevalences["lower"] <= prevalences["upper"]).all()
    assert prevalences["mean"].between(0.0, 1.0 + 1e-9).all()
    lines = path.read_text().splitlines()
    lines[2] = lines[2].replace("mutation_1\tsample_2\t", "mutation_1\tsample_2\tx")
    path.write_text("\n".join(lines))
    result = run("fit", "pyclone", path, *SHORT, "--out", tmp_path / "bad", code=2)
    assert "line 3, column ref_counts: expected a whole number" in flat(result.stderr)
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        (["linear-gaussian"], "a,b\nNA,\n,NaN\n", "t.csv has not a single value: every entry is missing"),
        (["relational"], "a,b\nNA,\n,NA\n", "t.csv has not a single value"),
        (["relational"], "a\n0\n", "t.csv: of no pair of nodes it is known whether they are linked"),
        (["relational"], "a,b\n0,\n,0\n", "t.csv: of no pair of nodes"),
        (["relational", "--format", "edges", "--symmetric"], "source,target,value\na,b,\n", "t.csv: of no pair"),
        (
            ["relational", "--format", "edges", "--no-self-links"],
            "source,target\na,a\n",
            "t.csv has links of nodes with themselves only",
        ),
        (
            ["pyclone", "--delimiter", ","],
            "mutation_id,sample_id,ref_counts,alt_counts,major_cn,minor_cn,normal_cn\nm,s,0,0,1,1,2\n",
            "t.csv has not a single read",
        ),
    ],
)
def test_tables_in_which_nothing_is_observed(tmp_path, command, text, message):
    (tmp_path / "t.csv").write_text(text)
    result = run("fit", command[0], tmp_path / "t.csv", *command[1:], *SHORT, "--out", tmp_path / "out", code=2)
    assert message in flat(result.stderr)
    assert not (tmp_path / "out").exists()


def test_nothing_is_said_of_what_cannot_be_measured(tmp_path):
    (tmp_path / "c.csv").write_text("a,b\n1,1\n1,1\n1,1\n")
    result = run("fit", "linear-gaussian", tmp_path / "c.csv", "--features", 1, *SHORT, "--out", tmp_path / "a")
    assert "nan" not in result.stdout and "The noise has" in flat(result.stdout)
    (tmp_path / "n.csv").write_text("a,b\n,1\n1,\n")
    result = run("fit", "relational", tmp_path / "n.csv", "--features", 1, *SHORT, "--out", tmp_path / "b")
    assert "nan" not in result.stdout and "cases" not in result.stdout


def test_features_that_explain_nothing():
    X = np.array([[1.0, 5.0], [1.5, 5.5], [1.0, 5.2]])
    model = pgfa.LinearGaussian(X)
    tree = pgfa.sample(
        model, pgfa.BetaBernoulli(1), pgfa.Gibbs(), draws=4, warmup=0, chains=1, seed=1, progress=False, check=False
    )
    tree["posterior"]["V"][:] = 50.0
    tree["posterior"]["Z"][:] = 1
    said = findings_of(make_fit(tree, model)).sentences
    assert "The features explain nothing of the variance within columns." in said


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "levels.csv does not exist"),
        ("", "levels.csv is empty: expected a table"),
        ("a;b\n1;2\n", "expected columns separated by commas"),
        ("a,b\n1,x\n2,3\n", "line 2, column 'b': expected a number, got 'x'"),
        ("a,[red]b\n1,[/red]\n2,3\n", "column '[red]b': expected a number, got '[/red]'"),
    ],
)
def test_a_bad_file_is_named_and_nothing_else_is_said(tmp_path, text, message):
    path = tmp_path / "levels.csv"
    if text is not None:
        path.write_text(text)
    result = run("fit", "linear-gaussian", path, *SHORT, "--out", tmp_path / "out", code=2)
    assert message in flat(result.stderr)
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prior", "finite"], "--prior finite needs the number of features"),
        (["--prior", "ibp", "--features", "3"], "--features is for --prior finite"),
        (
            ["--features", "2", "--sampler", "gibbs", "--particles", "5"],
            "--particles has no meaning for --sampler gibbs",
        ),
        (["--features", "2", "--max-columns", "5"], "--max-columns has no meaning for --sampler dpf"),
        (["--drop", "nothing"], "has no column 'nothing'"),
        (["--index-column", "nothing"], "has no column 'nothing'"),
        (["--features", "0"], "--features"),
        (["--sampler", "magic"], "magic"),
        (["--max-time", "soon"], "expected a time such as"),
        (["--delimiter", "::"], "expected one character"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_options_that_make_no_sense(data, tmp_path, arguments, message):
    result = run("fit", "linear-gaussian", data, *arguments, "--out", tmp_path / "out", code=2)
    assert message in flat(result.stderr).replace("│ ", "")
    assert not (tmp_path / "out").exists()


def test_options_choose_prior_and_sampler():
    assert repr(RunOptions().make_prior()) == repr(pgfa.IndianBuffet())
    assert repr(RunOptions(features=3).make_prior()) == repr(pgfa.BetaBernoulli(3))
    with pytest.raises(BadOption):
        RunOptions(prior=PriorName.finite).make_prior()
    assert RunOptions(particles=7).make_sampler() == pgfa.DiscreteParticleFilter(num_particles=7)
    options = RunOptions(sampler=SamplerName.pg, particles=5, resample_threshold=0.2, annealing_power=2.0)
    assert options.make_sampler() == pgfa.ParticleGibbs(num_particles=5, resample_threshold=0.2, annealing_power=2.0)
    assert RunOptions(sampler=SamplerName.row_gibbs, max_columns=4).make_sampler() == pgfa.RowGibbs(max_columns=4)
    assert RunOptions(sampler=SamplerName.gibbs).make_sampler() == pgfa.Gibbs()


def test_times_and_folders():
    assert [parse_seconds(text) for text in ("90", "30s", "1.5m", "2h", "1d")] == [90, 30, 90, 7200, 86400]
    for name in ("levels.csv", "levels.tsv.gz", "levels.parquet", "dir/levels.CSV", "levels"):
        assert default_out(Path(name)) == Path("levels-fit")


def test_an_earlier_run_is_not_overwritten_by_accident(fitted, data, tmp_path):
    _, out = fitted
    before = (out / "owners.csv").read_text()
    result = run("fit", "linear-gaussian", data, "--features", 2, *SHORT, "--out", out, code=2)
    assert "holds a run already" in flat(result.stderr)
    assert (out / "owners.csv").read_text() == before
    run("fit", "linear-gaussian", data, "--features", 2, *SHORT, "--out", tmp_path)
    run("fit", "linear-gaussian", data, "--features", 1, *SHORT, "--out", tmp_path, "--overwrite")
    assert pgfa.load(tmp_path / "run.zarr")["posterior"].sizes["feature"] == 1
    (tmp_path / "other" / "run.zarr").mkdir(parents=True)
    (tmp_path / "other" / "run.zarr" / "precious").write_text("do not delete")
    arguments = ("--out", tmp_path / "other", "--overwrite")
    result = run("fit", "linear-gaussian", data, "--features", 2, *SHORT, *arguments, code=2)
    assert "is not a run of pgfa" in flat(result.stderr)
    assert (tmp_path / "other" / "run.zarr" / "precious").exists()
    (tmp_path / "file").write_text("")
    run("fit", "linear-gaussian", data, *SHORT, "--out", tmp_path / "file", code=2)


def test_files_that_are_of_no_run_are_never_written_over(data, tmp_path):
    command = ["fit", "linear-gaussian", data, "--features", 2, *SHORT, "--out", tmp_path]
    (tmp_path / "trace.csv").write_text("mine")
    (tmp_path / "weights.csv").write_text("written for networks only, so that it is in nobody's way")
    for options in ([], ["--overwrite"]):
        assert "holds trace.csv, which this run would write over" in flat(run(*command, *options, code=2).stderr)
    assert (tmp_path / "trace.csv").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"trace.csv", "weights.csv"}
    own = tmp_path / "owners.csv"
    own.write_bytes(data.read_bytes())
    command[2] = own
    for options in ([], ["--overwrite"]):
        assert f"write its owners.csv over the input {own}" in flat(run(*command, *options, code=2).stderr)
    assert own.read_bytes() == data.read_bytes()


def test_tables_of_another_model_go_with_its_run(data, tmp_path):
    out = tmp_path / "out"
    run("simulate", "relational", "--rows", 8, "--features", 2, "--seed", 5, "--out", tmp_path / "n.csv")
    run("fit", "relational", tmp_path / "n.csv", "--features", 2, *SHORT, "--out", out)
    of_networks = {"weights.csv", "link_probability.csv", "unknown_links.csv", "network.png"}
    assert of_networks <= {path.name for path in out.iterdir()}
    (out / "thoughts.txt").write_text("mine")
    run("fit", "linear-gaussian", data, "--features", 2, *SHORT, "--out", out, "--overwrite")
    names = {path.name for path in out.iterdir()}
    assert not of_networks & names
    assert {"loadings.csv", "thoughts.txt"} <= names
    # Without its draws it is a run no longer, but the tables are known to be of one.
    shutil.rmtree(out / "run.zarr")
    command = ["fit", "linear-gaussian", data, "--features", 2, *SHORT, "--out", out]
    assert "or say --overwrite" in flat(run(*command, code=2).stderr)
    run(*command, "--overwrite")


@pytest.mark.skipif(not Path("/proc").exists(), reason="a folder in which nobody can write")
def test_a_folder_that_cannot_be_made_is_named(data):
    result = run("fit", "linear-gaussian", data, "--features", 2, *SHORT, "--out", "/proc/nowhere", code=2)
    assert "--out /proc/nowhere: cannot write there" in flat(result.stderr)
    result = run("simulate", "linear-gaussian", "--features", 2, "--out", "/proc/nowhere/x.csv", code=2)
    assert "--out /proc/nowhere/x.csv: cannot write there" in flat(result.stderr)


def test_what_nobody_expected_ends_with_one(data, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("a bug")

    monkeypatch.setattr("pgfa.inference.sampling.sample", fail)
    result = CliRunner().invoke(app, ["fit", "linear-gaussian", str(data), *SHORT, "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert isinstance(result.exception, ValueError)


# --- resume and summary ---------------------------------------------------------------------------------------------


class SteadyClock:
    """A clock on which every look takes a second: how far a run gets does not hang on how busy the machine is."""

    def __init__(self):
        self.seconds = 0

    def monotonic(self):
        self.seconds += 1
        return self.seconds


def test_a_run_that_was_cut_short_goes_on_to_the_same_end(data, tmp_path, monkeypatch):
    options = ["--features", 2, *QUICK, "--cores", 1, "--draws", 300, "--warmup", 20]
    run("fit", "linear-gaussian", data, *options, "--out", tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr("pgfa.inference.sampling.time", SteadyClock())
        result = run("fit", "linear-gaussian", data, *options, "--out", tmp_path / "cut", "--max-time", "200s")
    assert "The time was up after" in flat(result.stderr)
    assert 50 < pgfa.load(tmp_path / "cut" / "run.zarr")["posterior"].sizes["draw"] < 100
    assert f"pgfa resume {tmp_path / 'cut'}" in flat(result.stderr)
    result = run("resume", tmp_path / "cut", "--no-progress")
    assert "Going on after" in flat(result.stderr)
    for name in ("owners.csv", "features.csv", "imputed.csv", "diagnostics.csv", "loadings.csv"):
        assert (tmp_path / "cut" / name).read_text() == (tmp_path / "whole" / name).read_text(), name
    result = run("resume", tmp_path / "cut" / "run.zarr", "--no-progress")
    assert "The run is finished." in result.stderr


def test_time_that_is_up_in_warmup(data, tmp_path):
    options = ["--features", 2, *QUICK, "--draws", 5, "--warmup", 1000000, "--max-time", "0.2"]
    result = run("fit", "linear-gaussian", data, *options, "--out", tmp_path, code=1)
    assert "before the first draw" in flat(result.stderr)
    assert "pgfa resume" in flat(result.stderr)
    result = run("summary", tmp_path, code=2)
    assert "holds no draws yet" in flat(result.stderr)


def test_summary_shows_what_fit_showed(fitted, tmp_path):
    shown, out = fitted
    before = (out / "owners.csv").read_text()
    again = run("summary", out)
    assert again.stdout == shown.stdout
    assert (out / "owners.csv").read_text() == before
    one = run("summary", out, "--chain", 1, "--no-write")
    assert "chain 1" in one.stdout and "chain 0" not in one.stdout
    assert "one chain cannot show" in flat(one.stdout).lower()
    assert "chains must be among 0, 1, 2, 3, got 7" in flat(run("summary", out, "--chain", 7, code=2).stderr)


def test_summary_does_without_the_notes(fitted, tmp_path):
    _, out = fitted
    shutil.copytree(out, tmp_path / "copy")
    (tmp_path / "copy" / "fit.json").write_text('{"scale": 3}')
    run("summary", tmp_path / "copy")
    assert pd.read_csv(tmp_path / "copy" / "owners.csv").columns[0] == "row"


@pytest.mark.parametrize("command", ["resume", "summary"])
def test_folders_without_a_run(command, tmp_path):
    assert "does not exist" in run(command, tmp_path / "nowhere", code=2).stderr
    assert "holds no run" in flat(run(command, tmp_path, code=2).stderr)
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "run.zarr" / "zarr.json").write_text("{broken")
    assert "is damaged" in flat(run(command, tmp_path, code=2).stderr)


# --- simulate -------------------------------------------------------------------------------------------------------


def test_simulated_tables_can_be_fitted(tmp_path):
    path = tmp_path / "new" / "data.csv.gz"
    result = run(
        "simulate", "linear-gaussian", "--rows", 30, "--columns", 4, "--features", 3, "--seed", 5, "--out", path
    )
    assert "30 rows with 3 features" in result.stdout
    truth = pgfa.simulate("linear-gaussian", pgfa.BetaBernoulli(3), rng=5, num_rows=30, num_columns=4)
    np.testing.assert_array_equal(pgfa.io.read_matrix(path).to_numpy(), truth.data)
    owners = pd.read_csv(tmp_path / "new" / "data-truth-owners.csv", index_col=0)
    np.testing.assert_array_equal(owners.to_numpy(), truth.state.Z)
    values = pd.read_csv(tmp_path / "new" / "data-truth-values.csv", index_col=0)
    np.testing.assert_allclose(values.to_numpy(), truth.state.parameters["V"])
    run("fit", "linear-gaussian", path, "--features", 3, *SHORT, "--out", tmp_path / "out")


def test_simulated_networks_can_be_fitted(tmp_path):
    path = tmp_path / "n.tsv"
    run("simulate", "relational", "--rows", 15, "--symmetric", "--features", 2, "--seed", 5, "--out", path)
    network = pgfa.io.read_adjacency(path, symmetric=True)
    assert network.shape == (15, 15)
    assert np.isnan(np.diagonal(network)).all()
    run("fit", "relational", path, "--symmetric", "--features", 2, *SHORT, "--out", tmp_path / "out")


def test_simulate_replaces_nothing_unless_told_to(tmp_path):
    command = ["simulate", "linear-gaussian", "--rows", 5, "--features", 2, "--seed", 1, "--out", tmp_path / "x.csv"]
    values = tmp_path / "x-truth-values.csv"
    values.write_text("mine")
    assert f"{values} exists already" in flat(run(*command, code=2).stderr)
    assert values.read_text() == "mine"
    assert not (tmp_path / "x.csv").exists()
    run(*command, "--overwrite")
    assert values.read_text() != "mine"


@pytest.mark.parametrize("model", ["linear-gaussian", "relational", "pyclone"])
def test_simulate_refuses_more_features_than_anybody_has_room_for(model, tmp_path):
    command = ["simulate", model, "--rows", 5, "--seed", 1, "--out", tmp_path / "x.csv"]
    for alpha in ("1e5", "1e200"):
        result = run(*command, "--alpha", alpha, code=2)
        assert "alpha must be at most 4380 for a matrix of 5 rows" in flat(result.stderr)
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("arguments", [[], ["--out", "x.parquet"], ["--out", "x.csv", "--rows", "0"]])
def test_simulate_refuses_nonsense(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("simulate", "linear-gaussian", *arguments, code=2)
    assert not list(tmp_path.iterdir())


# --- demo -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    return run("demo", "--out", out, "--draws", 12, "--only", "mice", "--only", "law-firm", "--seed", 3), out


def test_demo_writes_pictures_and_tables(demo):
    result, out = demo
    assert {path.name for path in out.iterdir()} == {"mice", "law-firm"}
    for name in ("mice/loadings.png", "law-firm/network.png", "mice/groups.csv", "law-firm/held_out.csv"):
        assert (out / name).stat().st_size > 50
    for text in ("Higuera", "10.24432/C50S3Z", "Lazega", "RMSE", "AUC", "loadings.png", "partner"):
        assert text in flat(result.stdout)


def test_all_tables_of_the_demo_count_the_same_owners(demo):
    result, out = demo
    for name in ("mice", "law-firm"):
        features, groups = pd.read_csv(out / name / "features.csv"), pd.read_csv(out / name / "groups.csv")
        assert groups["owners"].tolist()[1:] == features["owners"].tolist()
        assert features["owners"].tolist() != features["owners_in_best_draw"].tolist(), "else this shows nothing"
    assert flat(result.stdout).count("Owners are rows that own the feature in more than half of the draws") == 2


def test_demo_beats_its_baselines_even_when_short(demo):
    _, out = demo
    error = pd.read_csv(out / "mice" / "held_out.csv").set_index("prediction")["rmse"]
    assert error["column means"] == pytest.approx(1.0, abs=0.05)
    assert error["the model"] < 0.85 * error["column means"]
    score = pd.read_csv(out / "law-firm" / "held_out.csv").set_index("prediction")["auc"]
    assert score["the model"] > score["how many links both have"]


def test_the_same_seed_gives_the_same_demo(demo, tmp_path):
    _, out = demo
    run_demo(tmp_path, seed=3, draws=12, only=["law-firm"], console=Console(file=io.StringIO()))
    for name in ("trace.csv", "owners.csv", "held_out.csv"):
        assert (tmp_path / "law-firm" / name).read_text() == (out / "law-firm" / name).read_text()


def test_demo_of_read_counts(tmp_path):
    pytest.importorskip("pgfa.models.pyclone", reason="the PyClone model is not there yet")
    result = run("demo", "--out", tmp_path, "--draws", 12, "--only", "leukaemia")
    assert "B-Cubed F" in flat(result.stdout)
    experts = pd.read_csv(tmp_path / "leukaemia" / "experts.csv")
    assert experts.drop(columns="population").to_numpy().max() > 0.8


def test_held_out_entries_are_observed_ones():
    X = np.ones((20, 10))
    X[:, :5] = np.nan
    held_out = choose_held_out(X, 0.1, np.random.default_rng(0))
    assert held_out.sum() == 10
    assert not np.isnan(X[held_out]).any()


def test_shares_of_groups_among_owners():
    Z = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.uint8)
    design = pd.DataFrame({"sex": ["f", "f", "f", "m"]})
    shares = shares_of_levels(Z, ["F1", "F2"], design, {"sex": "f"})
    assert shares["f"].tolist() == [0.75, 1.0, 0.5]
    assert shares["owners"].tolist() == [4, 2, 2]
    nobody = shares_of_levels(np.zeros((4, 1), dtype=np.uint8), ["F1"], design, {"sex": "f"})
    assert nobody["owners"].tolist() == [4, 0]
    assert nobody["f"].isna().tolist() == [False, True]


def test_demo_refuses_nonsense(tmp_path):
    (tmp_path / "file").write_text("")
    for arguments in (["--draws", "1"], ["--seed", "-1"], ["--only", "cats"], ["--out", tmp_path / "file"]):
        run("demo", *arguments, code=2)


# --- the command as a process -----------------------------------------------------------------------------------------


def test_version_and_help():
    assert run("--version").output.strip() == f"pgfa {pgfa.__version__}"
    for command in ([], ["fit"], ["simulate"]):
        assert "Usage" in run(*command, "--help").output
    assert "bool" not in run("fit", "relational", "--help").output.lower(), "flags take no value"
    for command in COMMANDS:
        assert f"Example: pgfa {command}" in flat(run(*command.split(), "--help").output.replace("│", ""))


def test_the_documentation_names_no_option_that_is_not_there():
    page = Path(__file__).resolve().parents[1] / "docs" / "command-line.md"
    known = " ".join(run(*command.split(), "--help").output for command in ["", *COMMANDS])
    named = set(re.findall(r"(?<![-\w])--[a-z][-a-z]*", page.read_text()))
    assert len(named) > 25
    assert not {option for option in named if not re.search(rf"{option}(?![-\w])", known)}


def test_the_command_starts_without_loading_the_compiler():
    heavy = ("numba", "scipy", "pandas", "matplotlib", "xarray", "numpy")
    code = f"import sys, pgfa.cli; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_bad_file_in_a_process_of_its_own(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,3\n")
    command = [sys.executable, "-m", "pgfa", "fit", "linear-gaussian", "t.csv"]
    result = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: t.csv has 1 problem:\n  line 2, column 'b': expected a number, got 'x'\n")
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_run_that_is_interrupted_saves_and_says_how_to_go_on(data, tmp_path, number, code):
    out = tmp_path / "my fit"
    command = [sys.executable, "-m", "pgfa", "fit", "linear-gaussian", str(data), "--features", "2", "--out", str(out)]
    command += [*QUICK, "--draws", "100000000", "--warmup", "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        deadline = time.monotonic() + 300.0
        # The end of the warm-up is always saved.
        while not list(out.glob("run.zarr/chain-1/snapshot-*")) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == code, stderr
    assert f"go on with: pgfa resume '{out}'" in flat(stderr)
    assert "Traceback" not in stderr
    assert "Features of the best draw" in stdout
    assert pgfa.load(out / "run.zarr")["posterior"].sizes["draw"] > 10
    assert (out / "owners.csv").exists()
