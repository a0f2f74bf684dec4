"""Experiments: definitions, chains at equal time, runs that are stopped and go on, the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from pgfa.cli import app
from pgfa.experiments import parts, runner, task
from pgfa.experiments.definition import SHIPPED, DefinitionError, load, parse, slug
from pgfa.experiments.task import Key, all_keys, grid, run_task
from pgfa.inference.warmup import WarmingChain

TINY = """
title = "Tiny"
times = [1, 2]
update = ["features"]
metrics = ["largest_feature"]

[data]
simulation = "equal-features"
num_rows = 10

[initial]
from = "truth"

[prior]
name = "BetaBernoulli"
num_features = 2
a = 0.5

[scales.smoke]
times = [0.01, 0.02]
warmup = 0

[[samplers]]
label = "Gibbs"
name = "Gibbs"

[[samplers]]
label = "RG"
name = "RowGibbs"

[[findings]]
says = "RG is better"
checks = [{ kind = "better", samplers = ["RG"], than = ["Gibbs"], times = "all" }]
"""


def tiny(text: str = TINY, **options):
    return parse(text, source="tiny.toml", name="tiny").at_scale("smoke", **options)


# --- definitions ------------------------------------------------------------------------------------------------------


def test_all_experiments_of_the_paper_are_there():
    assert len(SHIPPED) == 17
    for name in SHIPPED:
        experiment = load(name)
        assert experiment.findings
        labels = [entry.label for entry in experiment.samplers]
        assert "Gibbs" in labels
        assert any(entry.ours for entry in experiment.samplers)
        if name != "toy":
            assert {"DPF annealed", "pgfa default"} <= set(labels)


def test_sizes_and_times_of_the_scales():
    experiment = load("lg-20")
    paper = experiment.at_scale("paper")
    assert paper.num_chains == 80 * len(paper.samplers)
    assert paper.times == (1.0, 10.0, 100.0)
    laptop = [load(name).at_scale("laptop") for name in SHIPPED]
    assert all(e.num_chains == 16 * len(e.samplers) for e in laptop)
    assert sum(runner.estimate(e, workers=2) for e in laptop) < 2.75 * 3600
    assert experiment.at_scale("smoke", times=[0.1]).times == (0.1,)
    assert [e.label for e in experiment.at_scale("smoke", samplers=["dpf", "Gibbs"]).samplers] == ["Gibbs", "DPF"]


@pytest.mark.parametrize("name", ["toy", "lg-ibp", "lfrm-ibp", "pyclone-4"])
def test_parts_can_be_made(name):
    parts.check_parts(load(name).at_scale("smoke"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "Tiny"', 'title = "Tiny', ["tiny.toml", "TOML", "line 2"]),
        ('title = "Tiny"', "", ["tiny.toml", "'title'"]),
        ('title = "Tiny"', "title = 3", ["tiny.toml", "title", "text", "3"]),
        ("times = [1, 2]", "times = [2, 1]", ["times", "increase"]),
        ("times = [1, 2]", 'times = ["a"]', ["times", "'a'"]),
        ("times = [1, 2]", "times = [1, 2]\nnonsense = 1", ["tiny.toml", "nonsense", "it takes"]),
        ('update = ["features"]', 'update = ["feature"]', ["update", "'feature'"]),
        ('metrics = ["largest_feature"]', 'metrics = ["auc"]', ["metrics", "'auc'", "held_out_auc"]),
        ('metrics = ["largest_feature"]', 'metrics = ["held_out_auc"]', ["metrics", "LinearGaussian"]),
        ('simulation = "equal-features"', 'simulation = "nix"', ["[data]", "'nix'", "linear-gaussian"]),
        ("num_rows = 10", "num_row = 10", ["[data]", "'num_row'", "num_rows"]),
        ("num_rows = 10", "num_rows = -1", ["[data]", "num_rows", "-1"]),
        ('from = "truth"', 'from = "nowhere"', ["[initial]", "from", "'nowhere'"]),
        ('from = "truth"', "beta = 1.0", ["[initial]", "'beta'"]),
        ('name = "BetaBernoulli"', "", ["[data.prior]", "name"]),
        ('name = "BetaBernoulli"', 'name = "Poisson"', ["Poisson", "IndianBuffet"]),
        ("a = 0.5", "c = 0.5", ["prior]", "'c'"]),
        ("[scales.smoke]", "[scales.huge]", ["[scales]", "'huge'", "laptop"]),
        ("warmup = 0", "warmup = 0.5", ["[scales.smoke]", "warmup"]),
        ("warmup = 0", "speed = 1", ["[scales.smoke]", "'speed'"]),
        ('name = "RowGibbs"', 'name = "Magic"', ["[samplers 2]", "name", "'Magic'", "ParticleGibbs"]),
        ('name = "RowGibbs"', 'name = "RowGibbs"\nnum_particles = 3', ["[[samplers]]", "'RG'", "num_particles"]),
        ('name = "RowGibbs"', 'name = "ParticleGibbs"\nnum_particles = 0', ["'RG'", "num_particles", "0"]),
        ('label = "RG"', 'label = "Gibbs"', ["[[samplers]]", "'Gibbs' and 'Gibbs'"]),
        ('label = "RG"', 'label = "gibbs "', ["[[samplers]]", "'gibbs '"]),
        ('kind = "better"', 'kind = "nicer"', ["[findings 1.checks]", "kind", "'nicer'"]),
        ('samplers = ["RG"]', 'samplers = ["DPF"]', ["[findings 1.checks]", "samplers", "'DPF'"]),
        ('times = "all"', 'times = "soon"', ["[findings 1.checks]", "times", "'soon'"]),
        ('than = ["Gibbs"], ', "", ["[findings 1.checks]", "'than'"]),
        ("[prior]", "[model]\nnonsense = 1\n[prior]", ["[model]", "nonsense"]),
    ],
)
def test_what_is_wrong_with_a_definition_is_said_with_file_table_and_key(old, new, words):
    assert old in TINY
    with pytest.raises(DefinitionError) as caught:
        parts.check_parts(tiny(TINY.replace(old, new)))
    for word in ["tiny.toml", *words]:
        assert word in str(caught.value)


def test_names_and_files_that_do_not_exist(tmp_path):
    with pytest.raises(DefinitionError, match=r"no experiment 'lg-6'.*lg-5"):
        load("lg-6")
    with pytest.raises(DefinitionError, match=r"none\.toml cannot be read"):
        load(tmp_path / "none.toml")
    (tmp_path / "own.toml").write_text(TINY)
    assert load(tmp_path / "own.toml").name == "own"
    with pytest.raises(ValueError, match=r"no sampler 'PG'.*Gibbs, RG"):
        tiny(samplers=["PG"])


def test_the_definition_of_the_documentation_works():
    page = (Path(__file__).parents[1] / "docs" / "experiments.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    parts.check_parts(parse(text, source="docs", name="docs").at_scale("laptop"))


def test_slugs_are_safe_in_paths():
    assert slug("PG 0.5") == "pg-0.5"
    assert slug("../../etc") == "etc"
    assert slug("ÄÖ") == "sampler"


# --- one chain --------------------------------------------------------------------------------------------------------


def test_the_grid_holds_the_times_and_grows():
    points = grid((0.05, 0.5, 5.0))
    assert {0.05, 0.5, 5.0} <= set(points)
    assert (np.diff(np.log(points)) > 0.5 * np.log(10) / 12 - 1e-9).all()
    assert points[0] == pytest.approx(0.005)
    assert points[-1] == 5.0
    assert len(points) < 50


def test_every_sampler_has_the_same_data_and_start_and_its_own_stream():
    experiment = load("lg-5").at_scale("smoke")
    first, again = parts.simulate_data(experiment, 0), parts.simulate_data(experiment, 0)
    np.testing.assert_array_equal(first.data, again.data)
    assert not np.array_equal(first.complete, parts.simulate_data(experiment, 1).complete)
    start = parts.draw_start(experiment, 0, first)
    assert (start.alpha, start.parameters["tau_v"], start.parameters["tau_x"]) == (1.0, 1.0, 1.0)
    np.testing.assert_array_equal(start.Z, parts.draw_start(experiment, 0, again).Z)
    assert not np.array_equal(start.parameters["V"], parts.draw_start(experiment, 1, first).parameters["V"])
    seeds = {tuple(parts.chain_seed(experiment, *key).generate_state(2)) for key in all_keys(experiment)}
    assert len(seeds) == experiment.num_chains


@pytest.mark.parametrize("name", ["lg-5", "lfrm-5", "pyclone-4"])
def test_only_samplers_that_ask_for_moves_of_columns_have_them(name):
    experiment = load(name).at_scale("smoke")
    truth = parts.simulate_data(experiment, 0)
    start = parts.draw_start(experiment, 0, truth)
    for entry in experiment.samplers:
        model = parts.make_model(experiment, entry, truth)
        chain = parts.make_chain(experiment, entry, model, start, 1)
        assert (chain.column_moves is not False) == (entry.label == "pgfa default")


def test_paper_moves_are_for_the_papers_samplers():
    experiment = load("pyclone-4").at_scale("smoke")
    truth = parts.simulate_data(experiment, 0)
    models = {entry.label: parts.make_model(experiment, entry, truth) for entry in experiment.samplers}
    assert models["DPF"].column_moves == models["DPF annealed"].column_moves == 0
    assert models["pgfa default"].column_moves > 0
    assert models["pgfa default"].moves != models["DPF"].moves
    linear = load("lg-20").at_scale("smoke")
    truth = parts.simulate_data(linear, 0)
    start = parts.draw_start(linear, 0, truth)
    for entry in linear.samplers:
        chain = parts.make_chain(linear, entry, parts.make_model(linear, entry, truth), start, 1)
        assert bool(chain.column_moves) == (entry.label == "pgfa default")


def test_the_start_of_a_finite_chain_fits_an_infinite_prior():
    experiment = load("lg-ibp").at_scale("smoke")
    truth = parts.simulate_data(experiment, 0)
    start = parts.draw_start(experiment, 0, truth)
    assert truth.state.num_features == 20
    entry = experiment.samplers[0]
    chain = parts.make_chain(experiment, entry, parts.make_model(experiment, entry, truth), start, 1)
    assert np.isfinite(task.log_density_of(chain, truth.state))


def test_a_chain_is_traced_on_the_grid():
    experiment = tiny()
    result = run_task(experiment, Key("RG", 1, 0, 0))
    trace = result["trace"]
    assert trace["time"] == list(grid(experiment.times))
    assert np.all(np.diff(trace["iteration"]) >= 0)
    assert trace["iteration"][-1] == result["num_iterations"] - 1
    assert result["seconds"] >= 0.02
    relative = [
        (value - result["true_log_density"]) / abs(result["true_log_density"]) for value in trace["log_density"]
    ]
    np.testing.assert_allclose(trace["relative_log_density"], relative)
    assert trace["largest_feature"][-1] >= 0.8
    assert result["seed"]["spawn_key"] == list(parts.chain_seed(experiment, "RG", 1, 0, 0).spawn_key)
    json.dumps(result, allow_nan=False)


def test_states_are_those_in_force_at_the_time(monkeypatch):
    """An iteration that takes from 0.1 s to 2.1 s leaves its mark only on what comes after 2.1 s."""
    experiment = tiny(times=[1.0, 4.0])
    clock = iter(np.cumsum([0.0, 0.1, 0.0, 2.0, 0.0, 2.0]))
    monkeypatch.setattr(task.time, "thread_time", lambda: next(clock))
    truth = parts.simulate_data(experiment, 0)
    entry = experiment.samplers[0]
    chain = parts.make_chain(experiment, entry, parts.make_model(experiment, entry, truth), truth.state, 1)
    monkeypatch.setattr(chain, "step", lambda **_: None)
    run = WarmingChain(lambda number, seed: chain, np.random.SeedSequence(1), warmup=0)
    rows, seconds = task._trace(experiment, entry, run, lambda state: {})
    assert seconds == pytest.approx(4.1)
    iterations = {row["time"]: row["iteration"] for row in rows}
    assert iterations[1.0] == 1
    assert iterations[4.0] == 2


def test_compiling_is_not_counted():
    with task._compiler_clock() as clock:
        started = time.thread_time()
        numba.njit(lambda x: np.sort(x).sum() + np.linalg.norm(x))(np.ones(3))
        elapsed = time.thread_time() - started
    assert 0.9 * elapsed < clock.seconds <= elapsed
    before = clock.seconds
    numba.njit(lambda x: x + 1)(1)
    assert clock.seconds == before


def score_truth(name: str, metric: str):
    experiment = load(name).at_scale("smoke")
    truth = parts.simulate_data(experiment, 0)
    model = parts.make_model(experiment, experiment.samplers[0], truth)
    return parts.score_all(experiment, model, truth.state, truth)[metric], truth


def test_scores_of_the_truth():
    value, truth = score_truth("lg-5", "rmse_missing")
    errors = (truth.complete - truth.state.Z @ truth.state.parameters["V"])[np.isnan(truth.data)]
    assert value == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert score_truth("pyclone-4", "b_cubed")[0] == 1.0
    assert score_truth("toy", "largest_feature")[0] == 0.5

    value, truth = score_truth("lfrm-5", "reconstruction_error")
    Z = truth.state.Z.astype(float)
    scores = Z @ truth.state.parameters["V"] @ Z.T
    assert value == pytest.approx(np.mean((scores >= 0) != (truth.complete == 1)))
    held_out = np.isnan(truth.data)
    links, others = scores[held_out & (truth.complete == 1)], scores[held_out & (truth.complete == 0)]
    pairs = np.sign(links[:, None] - others)
    assert score_truth("lfrm-5", "held_out_auc")[0] == pytest.approx(np.mean(0.5 + 0.5 * pairs))


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_is_complete_and_is_not_run_again(tmp_path):
    experiment = tiny()
    ran = runner.run(experiment, tmp_path / "run")
    assert ran == all_keys(experiment)
    assert runner.run(experiment, tmp_path / "run") == []
    damaged = tmp_path / "run" / ran[2].path
    damaged.write_text(damaged.read_text()[:100])
    assert runner.run(experiment, tmp_path / "run") == [ran[2]]
    assert not list(tmp_path.rglob("*.part"))


def test_samplers_can_be_added_later(tmp_path):
    runner.run(tiny(samplers=["RG"]), tmp_path / "run")
    assert {key.sampler for key in runner.run(tiny(), tmp_path / "run")} == {"Gibbs"}


def test_chains_of_a_sampler_that_was_changed_are_run_again(tmp_path):
    runner.run(tiny(), tmp_path / "run")
    changed = tiny(TINY.replace('name = "RowGibbs"', 'name = "RowGibbs"\nmax_columns = 10'))
    assert {key.sampler for key in runner.run(changed, tmp_path / "run")} == {"RG"}


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    runner.prepare(tiny(), tmp_path / "run")
    with pytest.raises(runner.RunError, match=r"times: \[0.01, 0.02\] there, \[0.03\] here"):
        runner.check(tiny(times=[0.03]), tmp_path / "run")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(runner.RunError, match="not empty"):
        runner.check(tiny(), tmp_path / "photos")
    with pytest.raises(runner.RunError, match="is a file"):
        runner.check(tiny(), tmp_path / "photos" / "cat.jpg")
    (tmp_path / "run" / "experiment.json").write_text("{")
    with pytest.raises(runner.RunError, match="damaged"):
        runner.check(tiny(), tmp_path / "run")


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    """The chains written before the kill stay as they are; afterwards every chain is there once."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY.replace("times = [0.01, 0.02]", "times = [0.1, 0.3]"))
    command = [sys.executable, "-m", "pgfa", "experiment", "run", str(path), "--scale", "smoke", "--workers", "0"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out"), "--no-progress"], stderr=subprocess.PIPE, env=os.environ
    )
    folder = tmp_path / "out" / "tiny"
    deadline = time.monotonic() + 300
    while len(list(folder.rglob("*restart*.json"))) < 2:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    experiment = load(path).at_scale("smoke")
    before = {file: file.read_bytes() for file in folder.rglob("*restart*.json")}
    assert 2 <= len(before) < experiment.num_chains

    runner.run(experiment, folder)
    after = {file: file.read_bytes() for file in folder.rglob("*restart*.json")}
    assert set(after) == {folder / key.path for key in all_keys(experiment)}
    assert all(after[file] == content for file, content in before.items())
    assert runner.missing_chains(experiment, folder) == []


def test_a_lost_worker_costs_its_running_chains_only(tmp_path):
    pytest.importorskip("distributed")
    experiment = tiny(TINY.replace("times = [0.01, 0.02]", "times = [0.1, 0.2]"))
    done: list[Key] = []
    with runner.connect(workers=1) as client:

        def lose_the_worker(key: Key) -> None:
            done.append(key)
            if len(done) == 2:
                (pid,) = client.run(os.getpid).values()
                os.kill(pid, signal.SIGKILL)

        ran = runner.run(experiment, tmp_path / "run", client=client, on_done=lose_the_worker)
    assert sorted(done) == sorted(ran) == sorted(all_keys(experiment))
    assert runner.missing_chains(experiment, tmp_path / "run") == []


def test_a_scheduler_that_is_not_there_is_said_to_be_missing():
    pytest.importorskip("distributed")
    with (
        pytest.raises(runner.RunError, match=r"no Dask scheduler answers at nonsense://"),
        runner.connect(scheduler="nonsense://nowhere"),
    ):
        pass


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    """The toy experiment at the smoke scale, by the command line, in this process."""
    pytest.importorskip("scikit_posthocs")
    out = tmp_path_factory.mktemp("experiments")
    arguments = ["experiment", "run", "toy", "--scale", "smoke", "--workers", "0", "--no-progress", "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.count("agrees") == 2
    return out / "toy"


def test_a_smoke_run_writes_everything(toy):
    pytest.importorskip("pyarrow")
    traces = pd.read_csv(toy / "traces.csv.gz")
    columns = ["time", "iteration", "log_density", "relative_log_density", "num_features", "largest_feature"]
    assert traces.columns.tolist() == ["experiment", "scale", "sampler", "data", "start", "restart", *columns]
    assert len(traces) == 12 * len(grid(load("toy").at_scale("smoke").times))
    pd.testing.assert_frame_equal(pd.read_parquet(toy / "traces.parquet"), traces, check_dtype=False)
    assert len(pd.read_csv(toy / "chains.csv")) == 12
    for name in ("friedman-paper", "nemenyi-paper", "friedman-all", "nemenyi-all", "verdicts", "arrivals"):
        for ending in ("csv", "tex", "html"):
            assert (toy / "tables" / f"{name}.{ending}").stat().st_size > 0
    for metric in ("relative_log_density", "largest_feature"):
        for kind in ("box", "trace"):
            assert (toy / "figures" / f"{kind}-{metric}.png").read_bytes().startswith(b"\x89PNG")
    report = (toy / "report.md").read_text()
    assert "Gibbs never leaves" in report
    assert "| agrees |" in report
    assert "How soon they arrive" not in report, "they begin at the truth"
    assert "How fast they are" in report
    assert not any(name in report for name in ("p_sign", "median_difference", "rank_difference", "chi_square"))
    assert "| share of rows in the largest feature | 0.05 |" in report
    assert "<table>" in (toy / "report.html").read_text()
    assert pd.read_csv(toy / "tables" / "verdicts.csv")["verdict"].tolist() == ["agrees", "agrees"]


def test_a_report_can_be_made_again(toy):
    (toy / "report.md").unlink()
    result = CliRunner().invoke(app, ["experiment", "report", "toy", "--scale", "smoke", "--out", str(toy.parent)])
    assert result.exit_code == 0, result.output
    assert (toy / "report.md").exists()


def test_all_of_them_are_reported_on_together(toy, monkeypatch):
    """What has been run is not run again; here, all of them are one."""
    monkeypatch.setattr("pgfa.experiments.definition.SHIPPED", ("toy",))
    result = CliRunner().invoke(app, ["experiment", "run-all", "--scale", "smoke", "--out", str(toy.parent)])
    assert result.exit_code == 0, result.output
    assert "All chains are there already" in result.output
    page = (toy.parent / "report.html").read_text()
    assert '<a href="toy/report.html">' in page
    assert "agrees: 2" in page
    assert len(pd.read_csv(toy.parent / "tables" / "arrivals.csv")) == 3


def test_all_that_were_run_are_reported_on_again(toy):
    result = CliRunner().invoke(app, ["experiment", "report", "--scale", "smoke", "--out", str(toy.parent)])
    assert result.exit_code == 0, result.output
    assert "Gibbs never leaves" in result.output
    assert "[toy](toy/report.md)" in (toy.parent / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "--scale", "smoke"], "holds no experiment"),
        (["run", "nix", "--scale", "smoke"], "no experiment 'nix'"),
        (["run", "toy", "--scale", "smoke", "--times", "1,x"], "1,10,100"),
        (["run", "toy", "--scale", "smoke", "--times", "2,1"], "times must increase"),
        (["run", "toy", "--scale", "smoke", "--samplers", "PG"], "no sampler 'PG'"),
        (["report", "toy", "--scale", "smoke"], "holds no experiment"),
        (["run", "toy", "--scale", "huge"], "huge"),
    ],
)
def test_wrong_commands_end_with_code_2_and_a_reason(arguments, words, tmp_path):
    result = CliRunner().invoke(app, ["experiment", *arguments, "--out", str(tmp_path)], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


def test_the_list_names_them_all():
    result = CliRunner().invoke(app, ["experiment", "list"])
    assert result.exit_code == 0
    assert all(name in result.output for name in SHIPPED)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_every_experiment_at_the_smoke_scale(name, tmp_path):
    pytest.importorskip("scikit_posthocs")
    arguments = ["experiment", "run", name, "--scale", "smoke", "--workers", "0", "--no-progress"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    experiment = load(name).at_scale("smoke")
    traces = pd.read_csv(tmp_path / name / "traces.csv.gz")
    metrics = ["log_density", "relative_log_density", *experiment.metrics]
    assert traces[metrics].notna().all().all()
    assert runner.missing_chains(experiment, tmp_path / name) == []
