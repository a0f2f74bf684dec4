"""Scores of one state against the truth, by the names that definitions use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pgfa import metrics
from pgfa.models.base import Model
from pgfa.simulation import Simulation
from pgfa.state import State


class Score(NamedTuple):
    """A score: what it is called in tables and figures, whether more is better, and how it is computed."""

    title: str
    higher_is_better: bool
    compute: Callable[[Any, State, Simulation], float]


def rmse_missing(model: Any, state: State, truth: Simulation) -> float:
    """Root mean square error of the expected data where they went missing."""
    return metrics.rmse(truth.complete, model.mean(state), where=model.missing)


def reconstruction_error(model: Any, state: State, truth: Simulation) -> float:
    """Share of all entries, missing or not, that are on the wrong side of one half."""
    wrong = model.predict_links(state).reconstruction_error(truth.complete)
    return float(wrong / np.count_nonzero(~np.isnan(truth.complete)))


def held_out_auc(model: Any, state: State, truth: Simulation) -> float:
    """Area under the ROC curve of the links that went missing."""
    return float(model.predict_links(state).score(truth.complete).auc)


def b_cubed(model: Model, state: State, truth: Simulation) -> float:
    """Extended B-Cubed F of the feature matrix."""
    return metrics.b_cubed(truth.state.Z, state.Z).f


def largest_feature(model: Model, state: State, truth: Simulation) -> float:
    """Share of the rows that own the most popular feature."""
    return float(state.Z.mean(axis=0).max(initial=0.0))


SCORES: dict[str, Score] = {
    "rmse_missing": Score("RMSE of missing entries", False, rmse_missing),
    "reconstruction_error": Score("reconstruction error", False, reconstruction_error),
    "held_out_auc": Score("held-out AUC", True, held_out_auc),
    "b_cubed": Score("B-Cubed F", True, b_cubed),
    "largest_feature": Score("share of rows in the largest feature", True, largest_feature),
}


def title_of(metric: str) -> str:
    """What a column of the traces is called in tables and figures."""
    return SCORES[metric].title if metric in SCORES else "relative log density"


def higher_is_better(metric: str) -> bool:
    """Whether more of it is better; the log density counts as a score here."""
    return SCORES[metric].higher_is_better if metric in SCORES else True
