"""Protein levels of mice, by the linear Gaussian model: features, and levels that were held out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pgfa import plots
from pgfa.datasets import load_mice_protein
from pgfa.demo.show import NUM_CHAINS, Stage, choose_held_out
from pgfa.metrics import rmse
from pgfa.models import LinearGaussian
from pgfa.preprocessing import standardise
from pgfa.priors import BetaBernoulli
from pgfa.state import State
from pgfa.summary import states_of

NUM_FEATURES = 10
HELD_OUT = 0.05

#: For each property of the design, the level whose share among the owners of a feature is shown.
LEVELS = {"genotype": "Ts65Dn", "treatment": "Memantine", "behaviour": "C/S"}


def show(stage: Stage) -> None:
    """Fit, and compare with what was held out and with the design of the study."""
    mice = load_mice_protein()
    stage.introduce(mice)
    full = standardise(mice.data)
    rng = np.random.default_rng(stage.seed)
    held_out = choose_held_out(full.to_numpy(), HELD_OUT, rng)
    model = LinearGaussian(full.mask(held_out), intercept=True)
    stage.say(f"Columns are standardised; {int(held_out.sum())} entries are held out.")
    starts = [make_neutral_state(model, rng) for _ in range(NUM_CHAINS)]
    fit = stage.fit(
        model, BetaBernoulli(NUM_FEATURES), row_name="measurement", warmup=0.7, initial=starts, column_moves=False
    )

    filled = model.impute(states_of(fit.tree, at_most=200))
    column_means = np.broadcast_to(np.nanmean(model.X, axis=0), full.shape)
    errors = pd.DataFrame(
        {
            "prediction": ["the model", "column means"],
            "rmse": [rmse(full, filled, held_out), rmse(full, column_means, held_out)],
        }
    )
    stage.compare(
        "Error of entries held out, in standard deviations",
        ["predicted by", "RMSE"],
        [[str(row.prediction), f"{row.rmse:.3f}"] for row in errors.itertuples()],
    )
    stage.tell_who_owns_what(fit, mice.design, LEVELS)
    stage.write("held_out", errors)
    title = "Who owns which feature\n(control or trisomic - behaviour - memantine or saline)"
    stage.write("owners", plots.allocation(fit.summary.owners.to_numpy(), mice.design["class"], title=title))


def make_neutral_state(model: LinearGaussian, rng: np.random.Generator) -> State:
    """Random owners of features that have no effect yet.

    From a draw of the prior, whose features point anywhere in 77 dimensions, every row would begin by giving all of
    them up. Here the values of the features are learnt before any row has to decide.
    """
    Z = (rng.random((model.num_rows, NUM_FEATURES)) < 0.5).astype(np.uint8)
    parameters = {"V": np.zeros((NUM_FEATURES, model.num_columns)), "tau_v": 1.0, "tau_x": 1.0}
    parameters["intercept"] = np.zeros(model.num_columns)
    return State(Z, float(NUM_FEATURES), parameters)
