"""Friendship among lawyers, by the relational model: features, and links that were held out."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pgfa.datasets import load_lazega
from pgfa.demo.show import Stage, choose_held_out
from pgfa.link_prediction import area_under_curve
from pgfa.models import Relational
from pgfa.priors import BetaBernoulli
from pgfa.summary import states_of

NUM_FEATURES = 5
HELD_OUT = 0.1

LEVELS = {"status": "partner", "office": "Boston", "practice": "litigation", "gender": "woman"}


def show(stage: Stage) -> None:
    """Fit, and compare with what was held out and with what is known of the lawyers."""
    firm = load_lazega("friendship")
    stage.introduce(firm)
    X = firm.data.to_numpy()
    held_out = choose_held_out(X, HELD_OUT, np.random.default_rng(stage.seed))
    model = Relational(firm.data.mask(held_out), self_links=False, bias=True)
    stage.say(f"Of {int((~np.isnan(X)).sum())} pairs {int(held_out.sum())} are held out.")
    fit = stage.fit(model, BetaBernoulli(NUM_FEATURES), row_name="lawyer", warmup=2.0)

    probability = model.predict_links(states_of(fit.tree, at_most=200)).probability
    truth = X[held_out]
    scores = pd.DataFrame(
        {
            "prediction": ["the model", "how many links both have"],
            "auc": [
                area_under_curve(truth, probability[held_out]),
                area_under_curve(truth, popularity(model.X)[held_out]),
            ],
        }
    )
    stage.compare(
        "How often a link held out is told from a pair without one (area under the curve)",
        ["predicted by", "AUC"],
        [[str(row.prediction), f"{row.auc:.3f}"] for row in scores.itertuples()],
    )
    stage.tell_who_owns_what(fit, firm.design, LEVELS)
    stage.write("held_out", scores)


def popularity(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """A score for each pair from the share of links that its ends have, and nothing else."""
    return np.add.outer(np.nanmean(X, axis=1), np.nanmean(X, axis=0))
