"""The data sets of the paper's comparisons."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import xarray as xr

import pgfa

#: Model, number of features (none: Indian buffet process), and sizes.
SETTINGS: dict[str, tuple[str, int | None, dict[str, Any]]] = {
    "lg-5": ("linear-gaussian", 5, {"num_rows": 1000, "num_columns": 10}),
    "lg-20": ("linear-gaussian", 20, {"num_rows": 1000, "num_columns": 10}),
    "lg-ibp": ("linear-gaussian", None, {"num_rows": 1000, "num_columns": 10}),
    "lfrm-5": ("relational", 5, {"num_rows": 100, "tau": 0.25, "missing": 0.05}),
    "lfrm-20": ("relational", 20, {"num_rows": 100, "tau": 0.25, "missing": 0.05}),
    "lfrm-ibp": ("relational", None, {"num_rows": 100, "tau": 0.25, "missing": 0.05}),
    "pyclone-4": ("pyclone", 4, {"num_rows": 200, "num_samples": 4}),
    "pyclone-8": ("pyclone", 8, {"num_rows": 200, "num_samples": 10}),
    "pyclone-12": ("pyclone", 12, {"num_rows": 200, "num_samples": 10}),
}


def make_prior(name: str) -> pgfa.BetaBernoulli | pgfa.IndianBuffet:
    """The prior that the data of a setting are drawn from and fitted with."""
    num_features = SETTINGS[name][1]
    return pgfa.IndianBuffet() if num_features is None else pgfa.BetaBernoulli(num_features)


def simulate(name: str, seed: int) -> tuple[pgfa.Simulation, pgfa.BetaBernoulli | pgfa.IndianBuffet]:
    """Data of one of the settings, with the truth behind them, and their prior."""
    model, _, sizes = SETTINGS[name]
    prior = make_prior(name)
    return pgfa.simulate(model, prior, rng=np.random.default_rng(seed), alpha=2.0, **sizes), prior


def sample_quietly(
    model: pgfa.models.Model, prior: pgfa.BetaBernoulli | pgfa.IndianBuffet, **settings: Any
) -> xr.DataTree:
    """`pgfa.sample` without a bar and without complaints, which a table is to show."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pgfa.sample(model, prior, progress=False, check=False, **settings)
