"""What a report is made of, and how each model adds its own part.

A model's part is a function from a `Fit` to `Findings`, in a file of its own, registered under the name of the
model's class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from pgfa.models.base import Model
from pgfa.summary import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Predictions are averaged over at most this many draws, evenly spaced.
NUM_PREDICTIVE_DRAWS = 200


@dataclass(frozen=True)
class Notes:
    """What the draws do not know about the table that was fitted.

    Attributes
    ----------
    source
        The file, as the user wrote it.
    row_name
        What the rows are called, which heads their labels in tables.
    scale
        For each column its mean and standard deviation, where the table was standardised before fitting.
    """

    source: str = ""
    row_name: str = "row"
    scale: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """A fit to be reported on."""

    model: Model
    tree: xr.DataTree
    summary: Summary
    notes: Notes

    @property
    def chains(self) -> list[int]:
        """Labels of the chains."""
        return [int(chain) for chain in np.asarray(self.tree["posterior"].dataset["chain"])]


@dataclass
class Findings:
    """The part of a report that only one model can write.

    Attributes
    ----------
    feature_column
        Heading and, for each feature, text of one more column in the table of features.
    sentences
        What was found, in words.
    tables
        To be written as CSV, by name.
    figures
        To be written as PNG, by name.
    """

    feature_column: tuple[str, list[str]] | None = None
    sentences: list[str] = field(default_factory=list)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)


_REPORTERS: dict[str, Callable[[Any], Findings]] = {}

#: For each model the names of all files that its part of the report may consist of.
_FILES: dict[str, tuple[str, ...]] = {}
#: The same for the part that every model has.
_COMMON_FILES = ("diagnostics.csv", "features.csv", "owners.csv", "owners.png", "trace.csv", "trace.png")


def reporter(
    model_name: str, *, files: tuple[str, ...] = ()
) -> Callable[[Callable[[Any], Findings]], Callable[[Any], Findings]]:
    """Let a report find what to say about a model by the name of its class.

    Parameters
    ----------
    files
        Names of all tables and pictures that the findings may hold, with .csv or .png: they have to be known before
        anything is drawn, so that nobody's files are written over.
    """

    def register(function: Callable[[Any], Findings]) -> Callable[[Any], Findings]:
        _REPORTERS[model_name], _FILES[model_name] = function, files
        return function

    return register


def file_names(model: Model | None = None) -> list[str]:
    """Names of all files that a report on a model may consist of; on any model, unless one is given."""
    own = [_FILES.get(type(model).__name__, ())] if model is not None else list(_FILES.values())
    return sorted({*_COMMON_FILES, *(name for names in own for name in names)})


def findings_of(fit: Fit) -> Findings:
    """What the model of a fit has to say; nothing for models that are not ours."""
    function = _REPORTERS.get(type(fit.model).__name__)
    return Findings() if function is None else function(fit)
