"""Many chains: reproducible, resumable, interruptible, diagnosed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import xarray as xr
from exactness import half

import pgfa
from pgfa.inference import warmup
from pgfa.inference.diagnostics import DiagnosticWarning, complaints
from pgfa.inference.recording import widen
from pgfa.inference.run import run_chain
from pgfa.inference.warmup import Turn, WarmingChain, plan_turns, power_at
from pgfa.specs import describe_column_moves, describe_sampler, make_column_moves, make_sampler
from pgfa.storage import StoreError

MODEL = pgfa.simulate(
    "linear-gaussian", pgfa.BetaBernoulli(3), rng=np.random.default_rng(0), num_rows=40, num_columns=4
).model
QUIET = {"progress": False, "check": False}
SHORT = {"draws": 12, "warmup": 8, "chains": 3, "seed": 1, **QUIET}
PRIORS = [pgfa.BetaBernoulli(3), pgfa.IndianBuffet()]


def assert_same_draws(first: xr.DataTree, second: xr.DataTree) -> None:
    assert set(first["posterior"].data_vars) == set(second["posterior"].data_vars)
    for name in first["posterior"].data_vars:
        xr.testing.assert_identical(
            first["posterior"][name].drop_attrs().load(), second["posterior"][name].drop_attrs().load()
        )
    stats = [tree["sample_stats"].to_dataset().drop_vars("time").load() for tree in (first, second)]
    xr.testing.assert_equal(*stats)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_draws_depend_on_the_seed_alone(prior, tmp_path):
    reference = pgfa.sample(MODEL, prior, cores=1, **SHORT)
    assert_same_draws(reference, pgfa.sample(MODEL, prior, cores=3, **SHORT))
    stored = pgfa.sample(MODEL, prior, checkpoint=tmp_path / "run", checkpoint_interval=0.0, **SHORT)
    assert_same_draws(reference, stored)
    other = pgfa.sample(MODEL, prior, **{**SHORT, "seed": 2})
    assert not np.array_equal(reference["sample_stats"]["lp"], other["sample_stats"]["lp"])
    chains = reference["sample_stats"]["lp"].values
    assert not np.array_equal(chains[0], chains[1])


def test_the_tree_has_the_schema_of_arviz():
    import arviz_stats

    fit = pgfa.sample(MODEL, pgfa.IndianBuffet(), save_warmup=True, **SHORT)
    assert {"posterior", "sample_stats", "observed_data", "constant_data", "warmup_posterior"} <= set(fit.children)
    posterior = fit["posterior"]
    width = int(posterior["num_features"].max())
    assert dict(posterior["Z"].sizes) == {"chain": 3, "draw": 12, "row": 40, "feature": width}
    assert posterior["Z"].dtype == np.uint8
    assert dict(posterior["V"].sizes) == {"chain": 3, "draw": 12, "feature": width, "column": 4}
    absent = np.arange(width) >= posterior["num_features"].values[..., np.newaxis]
    assert np.array_equal(np.isnan(posterior["V"].values).all(axis=-1), absent)
    assert not posterior["Z"].values.transpose(0, 1, 3, 2)[absent].any()
    assert fit["warmup_posterior"].sizes["draw"] == 8
    assert np.array_equal(np.isnan(fit["observed_data"]["X"]), MODEL.missing)
    assert json.loads(fit.attrs["settings"])["seed"] == 1
    assert "alpha" in arviz_stats.summary(fit, var_names=["alpha"]).index


def test_thinning_keeps_every_other_iteration():
    dense = pgfa.sample(MODEL, PRIORS[0], **{**SHORT, "draws": 20})
    thin = pgfa.sample(MODEL, PRIORS[0], thin=2, **{**SHORT, "draws": 10})
    assert np.array_equal(dense["posterior"]["Z"][:, 1::2], thin["posterior"]["Z"])


def test_labels_survive():
    import pandas as pd

    table = pd.DataFrame(MODEL.X, index=[f"mouse {n}" for n in range(40)], columns=list("abcd"))
    fit = pgfa.sample(pgfa.LinearGaussian(table), PRIORS[0], **SHORT)
    assert fit["posterior"]["row"].values[7] == "mouse 7"
    assert fit["posterior"]["V"].sel(column="c").shape == (3, 12, 3)


def test_initial_states():
    state = pgfa.Chain(MODEL, PRIORS[0], seed=9).state
    same = pgfa.sample(MODEL, PRIORS[0], initial=state, **SHORT)
    each = pgfa.sample(MODEL, PRIORS[0], initial=[state] * 3, **SHORT)
    assert_same_draws(same, each)
    with pytest.raises(ValueError, match="one State for each of the 3 chains, got 2"):
        pgfa.sample(MODEL, PRIORS[0], initial=[state] * 2, **SHORT)


# --- warm-up --------------------------------------------------------------------------------------------------------


def test_the_power_rises_and_stays_at_one():
    powers = [power_at(i, 60) for i in range(110)]
    assert powers[0] < 0.02 and powers[59] < 1.0 and set(powers[60:]) == {1.0}
    assert np.all(np.diff(powers) >= 0)
    assert {power_at(i, 0) for i in range(5)} == {1.0}
    powers = np.array([power_at(i, 60, 1e-4) for i in range(110)])
    assert 1e-4 < powers[0] < 1.2e-4 and set(powers[60:]) == {1.0}
    assert np.allclose(np.diff(np.log(powers[:61])), -np.log(1e-4) / 61.0)


def test_starts_share_the_warmup():
    turns = plan_turns(500, 0.6, starts=4)
    assert [turn.begin for turn in turns] == [0, 75, 150, 225, 300, 350, 400]
    assert [turn.annealed for turn in turns] == [75] * 4 + [0] * 3
    assert all(turn.annealed == 0 for turn in plan_turns(500, 0.0, starts=4)), "not annealed where nothing is"
    assert len(plan_turns(100, 0.6, starts=4)) == 2 + 3, "no more starts than have 25 iterations each"
    assert len(plan_turns(60, 0.6, starts=4)) == len(plan_turns(0, 0.6, starts=4)) == 1


def test_renewals_fill_the_warmup():
    turns = plan_turns(500, 0.25, renewal=10)
    renewals = [turn.begin for turn in turns if turn.task == "renew"]
    assert turns[0] == Turn(0, 125, "start") and turns[-1] == Turn(425, 0, "settle")
    assert renewals == list(range(135, 425, 10)), "after a turn to settle, and with time left at the end"
    assert [turn.task for turn in plan_turns(500, 0.6, starts=3, renewal=50)] == ["start"] * 3 + [
        "settle", "renew", "settle",
    ]  # fmt: skip
    assert plan_turns(30, 0.25, renewal=10) == plan_turns(30, 0.25), "no room"


class Runner:
    """Stands in for a chain: its log density is that of its start, and grows by its own pace."""

    class model:
        first_power = 0.0

    def __init__(self, number, heights, paces):
        self.number, self.height, self.pace = number, heights[number], paces[number]
        self.powers = []

    def step(self, *, warmup, power):
        self.powers.append(power)
        self.height += self.pace

    def log_density(self):
        return self.height


@pytest.mark.parametrize(
    ("heights", "paces", "winner"),
    [
        ([0, 9, 2, 3], [0, 0, 0, 0], 1),
        ([0, 9, 8, 3], [0, 0, 1, 0], 2),  # the second best overtakes when its turn comes
        ([9, 8, 0, 0], [0, 0, 0, 0.3], 3),  # best of all only at the end of its turn
        ([5, 0, 0, 4], [0, 0, 0, 0], 0),
    ],
)
def test_the_best_start_goes_on(heights, paces, winner, monkeypatch):
    monkeypatch.setattr(pgfa.Chain, "log_density", lambda runner: runner.height)
    made = []

    def make(number, seed):
        made.append((number, seed.spawn_key))
        return Runner(number, heights, paces)

    run = WarmingChain(make, np.random.SeedSequence(1, spawn_key=(7,)), warmup=500, share=0.6, starts=4)
    while run.iteration < 600:
        run.step()
    assert run.chain.number == winner
    assert made == [(0, (7,)), (1, (7, 1)), (2, (7, 2)), (3, (7, 3))]
    assert len(run.chain.powers) == 75 + 50 + 200 and set(run.chain.powers[75:]) == {1.0}
    assert np.all(np.diff(run.chain.powers[:75]) > 0)


@pytest.mark.parametrize(("gains", "height"), [([3, -1, 2], 5), ([-1, -2, -3], 0), ([1, 1, 1], 3), ([1, -5, -5], 1)])
def test_a_renewal_stays_only_where_it_is_better(gains, height, monkeypatch):
    monkeypatch.setattr(pgfa.Chain, "log_density", lambda runner: runner.height)

    class Challenger(Runner):
        def follow(self, other):
            self.height = other.height

        def renew_feature(self):
            self.height += gains[self.number - 1]

    run = WarmingChain(
        lambda number, seed: Challenger(number, [0] * 4, [0] * 4), np.random.SeedSequence(1), warmup=50, renewal=10
    )
    while run.iteration < 50:
        run.step()
    assert run.chain.height == height


NETWORK = pgfa.Relational((np.random.default_rng(3).random((12, 12)) < 0.3).astype(float), self_links=False)


def test_renewals_of_a_run():
    options = SHORT | {"warmup": 60}
    on, default, off = (
        pgfa.sample(NETWORK, PRIORS[0], **settings, **options) for settings in ({"renew": True}, {}, {"renew": False})
    )
    assert_same_draws(on, default)
    assert not np.array_equal(on["sample_stats"]["lp"], off["sample_stats"]["lp"])
    assert [json.loads(fit.attrs["settings"])["renewal"] for fit in (on, off)] == [10, 0]
    with pytest.raises(ValueError, match="renew must be"):
        pgfa.sample(NETWORK, PRIORS[0], renew="often", **options)


def test_starts_of_a_run():
    options = SHORT | {"warmup": 90}
    one, two, default = (pgfa.sample(MODEL, PRIORS[0], starts=starts, **options) for starts in (1, 2, None))
    assert not np.array_equal(one["sample_stats"]["lp"], two["sample_stats"]["lp"])
    assert_same_draws(two, default)  # linear Gaussian chains try four, of which a short warm-up has room for two
    assert [json.loads(fit.attrs["settings"])["starts"] for fit in (one, two, default)] == [1, 2, 4]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_kind_of_move_that_was_never_proposed_has_no_rate(lazy, tmp_path, monkeypatch):
    """Neither in some chains as a whole, nor in some of the segments that a chain was saved in."""
    from pgfa.inference import tree

    network = pgfa.Relational((np.random.default_rng(3).random((5, 5)) < 0.3).astype(float), self_links=False)
    options = {"draws": 3, "warmup": 0, "chains": 3, "seed": 0, **QUIET}
    fit = pgfa.sample(network, PRIORS[0], **options)
    rate = fit["sample_stats"]["acceptance_columns"].values
    proposed = ~np.isnan(rate)
    assert proposed.any() and not proposed.any(axis=1).all() and not proposed[:, 0].all(), "else this shows nothing"
    if lazy:
        monkeypatch.setattr(tree, "_LARGEST_IN_MEMORY", 0)
    stored = pgfa.sample(network, PRIORS[0], checkpoint=tmp_path / "run", checkpoint_interval=0.0, **options)
    for found in (stored, pgfa.load(tmp_path / "run")):
        assert set(found["sample_stats"].data_vars) == set(fit["sample_stats"].data_vars)
        np.testing.assert_array_equal(found["sample_stats"]["acceptance_columns"].values, rate)
        assert (found["sample_stats"]["acceptance_columns"].chunks is not None) == lazy


def test_a_given_start_is_the_only_one():
    state = pgfa.Chain(MODEL, PRIORS[0], seed=9).state
    options = SHORT | {"warmup": 120}
    one, many = (pgfa.sample(MODEL, PRIORS[0], initial=state, starts=starts, **options) for starts in (1, 3))
    assert_same_draws(one, many)


@pytest.mark.parametrize("starts", [0, 2.5, "two"])
def test_starts_are_checked(starts):
    with pytest.raises(ValueError, match="starts must be"):
        pgfa.sample(MODEL, PRIORS[0], starts=starts, **SHORT)


def test_annealing_can_be_turned_off_and_matters():
    on, off = (pgfa.sample(MODEL, PRIORS[0], anneal=anneal, **SHORT) for anneal in (True, False))
    assert not np.array_equal(on["sample_stats"]["lp"], off["sample_stats"]["lp"])


# --- stores ---------------------------------------------------------------------------------------------------------


class Died(Exception):
    pass


def by_name(*values):
    return {repr(value): value for value in values}


def assert_deaths_change_nothing(prior, deaths, length, path, monkeypatch, model=MODEL):
    """Chains that die after some iterations, with whatever they had saved by then."""
    from pgfa.inference import sampling

    length = length | {"chains": 2}
    reference = pgfa.sample(model, prior, **length)
    options = {**length, "checkpoint": path, "checkpoint_interval": 0.0}
    alive = sampling.run_chain

    def mortal(deadline):
        def run(data, plan, index, *arguments, progress, **keywords):
            def should_stop():
                if progress.iteration >= deadline + index:
                    raise Died
                return False

            return run_chain(data, plan, index, *arguments, progress=progress, should_stop=should_stop)

        return run

    for i, deadline in enumerate(deaths):
        monkeypatch.setattr(sampling, "run_chain", mortal(deadline))
        with contextlib.suppress(Died):
            pgfa.sample(model, prior, **options) if i == 0 else pgfa.resume(path, **QUIET)
    monkeypatch.setattr(sampling, "run_chain", alive)
    assert_same_draws(reference, pgfa.resume(path, **QUIET))
    monkeypatch.setattr(sampling, "run_chain", None)
    assert_same_draws(reference, pgfa.resume(path, **QUIET))  # finished: only read


@pytest.mark.parametrize(("deaths", "prior"), half(by_name([3], [8], [9, 14], [17, 18]), by_name(*PRIORS)))
def test_resumption_equals_the_uninterrupted_run(prior, deaths, tmp_path, monkeypatch):
    assert_deaths_change_nothing(prior, deaths, SHORT, tmp_path / "run", monkeypatch)


@pytest.mark.parametrize(("deaths", "prior"), half(by_name([10], [9, 13], [8, 12, 15]), by_name(*PRIORS)))
def test_resumption_between_thinned_draws(prior, deaths, tmp_path, monkeypatch):
    """Draws are at iterations 11, 14, 17 and 20, and their acceptance rates count from the draw before."""
    length = SHORT | {"draws": 4, "thin": 3}
    assert_deaths_change_nothing(prior, deaths, length, tmp_path / "run", monkeypatch)


@pytest.mark.parametrize(("deaths", "prior"), half(by_name([2, 8], [12, 15], [16, 21]), by_name(*PRIORS)))
def test_resumption_among_several_starts(prior, deaths, tmp_path, monkeypatch):
    """Starts begin at 0, 3, 7 and 10, the best two have their turns at 14 and 16, and the better goes on at 18."""
    monkeypatch.setattr(warmup, "LEAST_ITERATIONS", 2)
    assert [turn.begin for turn in plan_turns(24, 0.6, 4)] == [0, 3, 7, 10, 14, 16, 18]
    length = SHORT | {"warmup": 24, "draws": 4, "starts": 4}
    assert_deaths_change_nothing(prior, deaths, length, tmp_path / "run", monkeypatch)


@pytest.mark.parametrize(("deaths", "prior"), half(by_name([7, 18], [21, 25], [26, 31]), by_name(*PRIORS)))
def test_resumption_among_renewals(prior, deaths, tmp_path, monkeypatch):
    """Features are renewed at iterations 16, 22 and 28, and the better chain goes on from 34."""
    monkeypatch.setattr(pgfa.Relational, "renewal", 6)
    monkeypatch.setattr(pgfa.Relational, "annealed_share", 0.25)
    assert [turn.begin for turn in plan_turns(40, 0.25, renewal=6) if turn.task == "renew"] == [16, 22, 28]
    length = SHORT | {"warmup": 40, "draws": 4}
    assert_deaths_change_nothing(prior, deaths, length, tmp_path / "run", monkeypatch, NETWORK)


def test_moves_that_are_not_proposed_at_first_have_a_rate_later(tmp_path):
    options = SHORT | {"warmup": 0}
    reference = pgfa.sample(NETWORK, PRIORS[1], **options)
    missing = np.isnan(reference["sample_stats"]["acceptance_columns"].values)
    assert missing[:, 0].any() and not missing.all()
    path = tmp_path / "run"
    assert_same_draws(reference, pgfa.sample(NETWORK, PRIORS[1], checkpoint=path, checkpoint_interval=0.0, **options))


def test_chains_beside_a_failed_one_are_waited_for_in_peace(monkeypatch):
    """Without taking the interpreter from them all the time to look whether they are done."""
    from pgfa.inference import sampling

    def run(model, plan, index, *arguments, should_stop, **keywords):
        if index == 0:
            raise Died
        while not should_stop():
            time.sleep(0.01)
        time.sleep(0.5)

    looks = []
    monkeypatch.setattr(sampling, "run_chain", run)
    monkeypatch.setattr(sampling, "wait", lambda *a, wait=sampling.wait, **k: looks.append(a) or wait(*a, **k))
    with pytest.raises(Died):
        pgfa.sample(MODEL, PRIORS[0], cores=3, **SHORT)
    assert 2 <= len(looks) < 50


def test_an_initial_state_is_stored(tmp_path, monkeypatch):
    state = pgfa.Chain(MODEL, PRIORS[0], seed=9).state
    reference = pgfa.sample(MODEL, PRIORS[0], initial=state, **SHORT)
    path = tmp_path / "run"
    pgfa.sample(MODEL, PRIORS[0], initial=state, checkpoint=path, **SHORT)
    for chain in path.glob("chain-*"):
        shutil.rmtree(chain)
    assert_same_draws(reference, pgfa.resume(path, **QUIET))


SCRIPT = """
import sys, numpy as np, pgfa

X = np.random.default_rng(0).normal(size=(300, 6))
options = dict(draws=40, warmup=50, chains=2, seed=3, progress=False, check=False)
pgfa.sample(pgfa.LinearGaussian(X), pgfa.IndianBuffet(), checkpoint=sys.argv[1], checkpoint_interval=0.0, **options)
"""


def test_kill_9_loses_nothing_that_was_saved(tmp_path):
    path = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)])
    deadline = time.monotonic() + 120
    while len(list(path.glob("chain-1/segment-*"))) < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    X = np.random.default_rng(0).normal(size=(300, 6))
    options = {"draws": 40, "warmup": 50, "chains": 2, "seed": 3, **QUIET}
    reference = pgfa.sample(pgfa.LinearGaussian(X), pgfa.IndianBuffet(), **options)
    assert_same_draws(reference, pgfa.resume(path, **QUIET))


def test_a_store_is_never_overwritten(tmp_path):
    path = tmp_path / "run"
    pgfa.sample(MODEL, PRIORS[0], checkpoint=path, **SHORT)
    with pytest.raises(StoreError, match="holds a run already"):
        pgfa.sample(MODEL, PRIORS[0], checkpoint=path, **SHORT)
    foreign = tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").write_text("meow")
    with pytest.raises(StoreError, match="holds something else"):
        pgfa.sample(MODEL, PRIORS[0], checkpoint=foreign, **SHORT)
    with pytest.raises(StoreError, match="not a run of pgfa"):
        pgfa.resume(foreign, **QUIET)
    with pytest.raises(StoreError, match="not a run of pgfa"):
        pgfa.resume(tmp_path / "nowhere", **QUIET)


def _cut_root(path):
    (path / "zarr.json").write_text('{"attributes": ')


def _other_version(path):
    root = json.loads((path / "zarr.json").read_text())
    root["attributes"]["version"] = 99
    (path / "zarr.json").write_text(json.dumps(root))


def _lose_setting(path):
    root = json.loads((path / "zarr.json").read_text())
    del root["attributes"]["settings"]["draws"]
    (path / "zarr.json").write_text(json.dumps(root))


def _flip_bits(path):
    file = next((path / "chain-0").glob("segment-00000/alpha/c/*"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def _lose_chunk(path):
    next((path / "chain-0").glob("segment-00000/alpha/c/*")).unlink()


def _lose_segment(path):
    shutil.rmtree(path / "chain-1" / "segment-00000")


def _lose_array(path):
    shutil.rmtree(path / "chain-0" / "segment-00000" / "V")


def _lose_data(path):
    shutil.rmtree(path / "model" / "X")


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "run"
    pgfa.sample(MODEL, PRIORS[0], checkpoint=path, checkpoint_interval=0.0, **SHORT)
    return path


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut_root, r"its zarr\.json cannot be read"),
        (_other_version, "format version 99"),
        (_lose_setting, "settings do not make sense"),
        (_flip_bits, "alpha cannot be read"),
        (_lose_chunk, "chunks are missing"),
        (_lose_segment, "segment 0 of chain 1 is missing"),
        (_lose_array, "a segment has no array V"),
        (_lose_data, "its model cannot be rebuilt"),
    ],
)
def test_damaged_stores_are_refused_with_a_reason(damage, message, intact, tmp_path):
    path = shutil.copytree(intact, tmp_path / "run")
    damage(path)
    with pytest.raises(StoreError, match=message):
        pgfa.resume(path, **QUIET)


# --- time and interruption --------------------------------------------------------------------------------------------


def test_large_draws_are_saved_before_they_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("pgfa.inference.run._MOST_BYTES", 5 * MODEL.num_rows)
    stored = pgfa.sample(MODEL, PRIORS[0], checkpoint=tmp_path / "run", checkpoint_interval=1e6, **SHORT)
    assert len(list((tmp_path / "run" / "chain-0").glob("segment-*"))) >= SHORT["draws"]
    assert_same_draws(stored, pgfa.sample(MODEL, PRIORS[0], **SHORT))


def test_a_time_budget_ends_chains_at_equal_length():
    options = {**SHORT, "draws": 10_000_000, "warmup": 5, "cores": 2}
    full = pgfa.sample(MODEL, PRIORS[0], **{**options, "draws": 5})  # compiles, so that the budget goes into draws
    began = time.monotonic()
    fit = pgfa.sample(MODEL, PRIORS[0], max_time=4.0, **options)
    assert time.monotonic() - began < 20
    assert fit["posterior"].sizes["chain"] == 3
    assert 5 < fit["posterior"].sizes["draw"] < 10_000_000
    assert np.array_equal(full["posterior"]["Z"], fit["posterior"]["Z"][:, :5])


INTERRUPTED = """
import os, signal, threading, numpy as np, pgfa

X = np.random.default_rng(0).normal(size=(100, 6))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
threading.Timer(float(os.environ["AFTER"]), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
options = dict(draws=10_000_000, warmup=5, chains=2, seed=3, check=False)
fit = pgfa.sample(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(3), **options)
print("chains", fit["posterior"].sizes["chain"], "finite", bool(np.isfinite(fit["sample_stats"]["lp"]).all()))
"""


def test_ctrl_c_returns_what_has_been_drawn():
    pgfa.sample(MODEL, PRIORS[0], **SHORT)  # so that the other process finds everything compiled
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "AFTER": "12"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "chains 2 finite True"
    assert "chain 1, stopped, iteration" in result.stderr  # plain lines, as this is no terminal


def test_an_end_before_the_first_draw_is_an_error():
    with pytest.raises(RuntimeError, match="ended before the first draw"):
        pgfa.sample(MODEL, PRIORS[0], max_time=0.05, **{**SHORT, "warmup": 10_000_000})


def test_errors_of_a_chain_reach_the_caller(monkeypatch):
    def broken(*arguments, **keywords):
        raise FloatingPointError("what a pity")

    monkeypatch.setattr(type(MODEL), "update_parameters", broken)
    with pytest.raises(FloatingPointError, match="what a pity"):
        pgfa.sample(MODEL, PRIORS[0], **SHORT)


# --- diagnostics ----------------------------------------------------------------------------------------------------


def test_chains_that_disagree_are_warned_of():
    states = []
    for seed in (1, 2):
        state = pgfa.Chain(MODEL, PRIORS[0], seed=seed).state
        state.Z[:] = 0
        state.Z[:, 0] = seed - 1
        states.append(state)
    with pytest.warns(DiagnosticWarning) as caught:
        pgfa.sample(
            MODEL, PRIORS[0], draws=20, warmup=0, chains=2, seed=1, initial=states, progress=False, sampler=pgfa.Gibbs()
        )
    assert any("too short" in str(warning.message) for warning in caught)


def fake_tree(values):
    """A tree whose log density is given."""
    chains, draws = values.shape
    posterior = xr.Dataset({"alpha": (("chain", "draw"), np.ones((chains, draws)))})
    stats = xr.Dataset(
        {
            "lp": (("chain", "draw"), values),
            "used_features": (("chain", "draw"), np.full((chains, draws), 3)),
            "shared_features": (("chain", "draw", "pair"), np.tile([[[1, 2]]], (chains, draws, 1))),
        }
    )
    constant = xr.Dataset({"watched_pairs": (("pair", "end"), [[0, 1], [1, 2]])})
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats, "constant_data": constant})


def test_diagnostics_of_good_bad_and_constant_quantities():
    rng = np.random.default_rng(0)
    good = rng.normal(size=(4, 500))
    table = pgfa.diagnose(fake_tree(good))
    assert abs(table.loc["lp", "r_hat"] - 1.0) < 0.02 and table.loc["lp", "ess_bulk"] > 1000
    assert table.loc["alpha", "r_hat"] == 1.0 and np.isnan(table.loc["alpha", "ess_bulk"])
    assert complaints(table, 4) == []

    apart = pgfa.diagnose(fake_tree(good + np.arange(4)[:, np.newaxis] * 5))
    assert apart.loc["lp", "r_hat"] > 1.5
    assert any("chains disagree" in text and "lp" in text for text in complaints(apart, 4))

    stuck = pgfa.diagnose(fake_tree(np.repeat([[1.0], [2.0]], 100, axis=1)))
    assert stuck.loc["lp", "r_hat"] == np.inf
    assert any("the worst, ∞, is that of" in text for text in complaints(stuck, 2))

    slow = pgfa.diagnose(fake_tree(np.cumsum(rng.normal(size=(4, 200)), axis=1)))
    assert any("too short" in text for text in complaints(slow, 4))


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draws": 0}, "draws must be a whole number of at least 1"),
        ({"warmup": -1}, "warmup"),
        ({"chains": 0}, "chains"),
        ({"thin": 0}, "thin"),
        ({"cores": 0}, "cores"),
        ({"seed": -3}, "seed"),
        ({"anneal": 2.0}, "anneal must lie between 0 and 1"),
        ({"max_time": -1.0}, "max_time must be a positive"),
        ({"executor": 3}, "executor must be a dask"),
        ({"initial": 3}, "initial must be a State or one State for each of the 3 chains, got 3"),
        ({"checkpoint": 5}, "checkpoint must be the path of a folder, got 5"),
    ],
)
def test_bad_arguments(change, message):
    with pytest.raises(ValueError, match=message):
        pgfa.sample(MODEL, PRIORS[0], **{**SHORT, **change})


@pytest.mark.parametrize("thing", [3, None, np.zeros(2), xr.DataTree()])
def test_things_that_are_no_draws(thing):
    for function in (pgfa.diagnose, pgfa.summarise):
        with pytest.raises(ValueError, match=r"tree must be the draws that pgfa\.sample or pgfa\.load returns, got"):
            function(thing)
    for function in (pgfa.load, pgfa.resume):
        with pytest.raises(ValueError, match="checkpoint must be the path of a folder, got 5"):
            function(5)


def test_bad_models_and_samplers():
    with pytest.raises(ValueError, match=r"model must be a Model, got ndarray of shape \(3, 2\); did you mean"):
        pgfa.sample(np.zeros((3, 2)), PRIORS[0], **SHORT)
    with pytest.raises(ValueError, match="sampler must be a RowSampler"):
        pgfa.sample(MODEL, PRIORS[0], sampler="dpf", **SHORT)


def test_without_a_seed_the_one_used_is_recorded():
    fit = pgfa.sample(MODEL, PRIORS[0], **{**SHORT, "seed": None})
    again = pgfa.sample(MODEL, PRIORS[0], **{**SHORT, "seed": int(fit.attrs["seed"])})
    assert_same_draws(fit, again)


# --- a cluster ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


def test_a_cluster_gives_the_same_draws(client):
    reference = pgfa.sample(MODEL, PRIORS[1], **SHORT)
    assert_same_draws(reference, pgfa.sample(MODEL, PRIORS[1], executor=client, **SHORT))


def test_a_worker_killed_in_mid_run_changes_nothing(client, tmp_path):
    import threading

    path = tmp_path / "run"
    options = {**SHORT, "draws": 60, "chains": 2}
    reference = pgfa.sample(MODEL, PRIORS[1], **options)

    def kill_one_worker():
        deadline = time.monotonic() + 60
        while len(list(path.glob("chain-0/segment-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        pids = client.run(os.getpid)
        os.kill(next(iter(pids.values())), signal.SIGKILL)

    killer = threading.Thread(target=kill_one_worker)
    killer.start()
    fit = pgfa.sample(MODEL, PRIORS[1], executor=client, checkpoint=path, checkpoint_interval=0.0, **options)
    killer.join()
    assert_same_draws(reference, fit)


@pytest.mark.parametrize(
    "sampler",
    [
        pgfa.DiscreteParticleFilter(7, ancestor_sampling=True),
        pgfa.HammingBall(3),
        pgfa.LocallyBalanced(2),
        pgfa.Mixture([(2.0, pgfa.MetropolisFlips(3)), (1.0, pgfa.ParticleGibbs(5, ancestor_sampling=True))]),
    ],
    ids=repr,
)
def test_samplers_come_back_from_their_descriptions(sampler):
    assert make_sampler(json.loads(json.dumps(describe_sampler(sampler)))) == sampler


@pytest.mark.parametrize("moves", [False, (), (pgfa.ColumnBlock(2, "users"),)])
def test_column_moves_come_back_from_their_descriptions(moves):
    assert make_column_moves(json.loads(json.dumps(describe_column_moves(moves)))) == moves


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_holes_are_filled_from_the_result(prior):
    fit = pgfa.sample(MODEL, prior, **SHORT)
    Z, V = fit["posterior"]["Z"].values.astype(float), np.nan_to_num(fit["posterior"]["V"].values)
    mean = np.einsum("cdnk,cdkm->nm", Z, V) / (Z.shape[0] * Z.shape[1])
    filled = MODEL.impute(fit)
    np.testing.assert_allclose(filled[MODEL.missing], mean[MODEL.missing])
    assert np.array_equal(filled[~MODEL.missing], MODEL.X[~MODEL.missing])


def test_lines_of_progress_leave_out_what_is_not_known_yet(capsys):
    from pgfa.inference.progress import Display
    from pgfa.inference.run import Progress

    first = Progress(iteration=1, log_density=-3.25, num_features=2, iterations_per_second=float("nan"))
    later = Progress(iteration=5, log_density=-2.0, num_features=3, iterations_per_second=10.0)
    with Display([first, later], 20, 10, enabled=True):
        pass
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "chain 0, warm-up, iteration 1/20, log density -3.2, 2 features"
    assert lines[1] == "chain 1, warm-up, iteration 5/20, log density -2.0, 3 features, 10.0 it/s, 0:02 left"


@pytest.mark.parametrize("size", [0, 2])
def test_draws_are_padded_alike_in_memory_and_on_disk(size):
    """Also those without any feature."""
    import dask.array

    values = np.ones((4, size, 3))
    padded = widen(values, (0,), 5)
    np.testing.assert_array_equal(padded[:, :size], values)
    assert padded.shape == (4, 5, 3) and np.isnan(padded[:, size:]).all()
    np.testing.assert_array_equal(widen(dask.array.from_array(values), (0,), 5).compute(), padded)
