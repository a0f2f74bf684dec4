"""Simulated data: the right shapes, the right distributions, and the same data for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import pgfa
from pgfa.simulation import Simulation, simulator


def draw(prior=None, rng=1, **settings):
    sizes = {"num_rows": 200, "num_columns": 10} | settings
    return pgfa.simulate("linear-gaussian", prior or pgfa.BetaBernoulli(5), rng=rng, **sizes)


def test_shapes_and_holes():
    truth = draw()
    assert isinstance(truth, Simulation)
    assert truth.data.shape == truth.complete.shape == (200, 10)
    assert truth.state.Z.shape == (200, 5)
    assert truth.state.alpha == 2.0
    assert (truth.state.parameters["tau_v"], truth.state.parameters["tau_x"]) == (0.25, 25.0)
    missing = np.isnan(truth.data)
    assert missing.sum() == 200
    assert not np.isnan(truth.complete).any()
    np.testing.assert_array_equal(truth.data[~missing], truth.complete[~missing])
    np.testing.assert_array_equal(truth.model.X, truth.data)


def test_the_truth_is_a_state_that_a_chain_can_start_from():
    for prior in (pgfa.BetaBernoulli(5), pgfa.IndianBuffet()):
        truth = draw(prior, intercept=True, num_rows=20)
        chain = pgfa.Chain(truth.model, prior, seed=1, state=truth.state)
        np.testing.assert_array_equal(chain.state.Z, truth.state.Z)
        assert np.isfinite(chain.log_density())


def test_data_scatter_about_their_mean_with_the_given_precision():
    truth = draw(num_rows=2000, tau_x=4.0, intercept=True, missing=0.0)
    noise = 2.0 * (truth.complete - truth.model.mean(truth.state))
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    assert not np.isnan(truth.data).any()


def test_features_have_the_given_precision():
    truth = draw(pgfa.BetaBernoulli(200), num_rows=2, num_columns=50, tau_v=0.04)
    assert stats.kstest(0.2 * truth.state.parameters["V"].ravel(), "norm").pvalue > 1e-3


def test_the_same_seed_gives_the_same_data():
    np.testing.assert_array_equal(draw(rng=3).data, draw(rng=np.random.default_rng(3)).data)
    assert not np.array_equal(draw(rng=3).complete, draw(rng=4).complete)


def test_everything_or_nothing_may_be_missing():
    assert np.isnan(draw(missing=1.0).data).all()
    assert not np.isnan(draw(missing=0).data).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"num_row": 3},
            r"simulate\('linear-gaussian', ...\) has no argument 'num_row': it takes num_rows, num_columns",
        ),
        ({"num_rows": 0}, "num_rows must be a whole number of at least 1, got 0"),
        ({"num_rows": 2.5}, "num_rows must be a whole number of at least 1, got 2.5"),
        ({"num_columns": "3"}, "num_columns must be a whole number"),
        ({"alpha": -1.0}, "alpha must be a positive finite number"),
        ({"tau_v": 0.0}, "tau_v must be a positive finite number"),
        ({"tau_x": float("nan")}, "tau_x must be a finite number"),
        ({"missing": 1.5}, "missing must lie between 0 and 1"),
        ({"intercept": "yes"}, "intercept must be True or False"),
        ({"rng": "seed"}, "rng must be a whole number"),
        ({"prior": "IBP"}, "prior must be a Prior"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        draw(**arguments)


def test_sizes_that_are_needed_are_asked_for():
    with pytest.raises(ValueError, match="needs num_rows and num_columns"):
        pgfa.simulate("linear-gaussian", pgfa.IndianBuffet())


def test_unknown_models_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"model_name must be one of .*'linear-gaussian'.*, got 'linear'"):
        pgfa.simulate("linear", pgfa.IndianBuffet())


def test_a_model_registers_itself(monkeypatch):
    import pgfa.simulation

    monkeypatch.setattr(pgfa.simulation, "_SIMULATORS", {})

    @simulator("mine")
    def simulate_mine(prior, rng, *, num_rows):
        return num_rows

    assert pgfa.simulate("mine", pgfa.IndianBuffet(), num_rows=7) == 7
