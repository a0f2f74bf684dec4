"""What a linear Gaussian fit found: what each feature adds to the columns, and the entries that were missing."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pgfa import plots
from pgfa.models.linear_gaussian import LinearGaussian
from pgfa.report.base import NUM_PREDICTIVE_DRAWS, Findings, Fit, reporter
from pgfa.report.text import number, show
from pgfa.summary import states_of

_NUM_COLUMNS_SHOWN = 4


@reporter("LinearGaussian", files=("loadings.csv", "loadings.png", "loadings_sd.csv", "imputed.csv"))
def report_linear_gaussian(fit: Fit) -> Findings:
    """Loadings, imputed entries, and how much of the data the features explain."""
    model, names = fit.model, fit.summary.names
    assert isinstance(model, LinearGaussian)
    columns = list(range(1, model.num_columns + 1)) if model.column_labels is None else model.column_labels
    posterior = fit.tree["posterior"].dataset
    mean, sd = fit.summary.mean_and_sd(posterior["V"])
    unit = "standard deviations" if fit.notes.scale else "value"

    loadings = pd.DataFrame(mean.T, columns=names)
    spread = pd.DataFrame(sd.T, columns=names)
    if model.intercept:
        intercept, intercept_sd = fit.summary.mean_and_sd(posterior["intercept"])
        loadings.insert(0, "intercept", intercept)
        spread.insert(0, "intercept", intercept_sd)
    for table in (loadings, spread):
        table.insert(0, "column", pd.Series(columns, dtype=object))

    predicted, deviation = _predict(fit, model)
    findings = Findings(
        feature_column=("what it adds most to", [_strongest(mean[k], columns) for k in range(len(names))]),
        tables={"loadings": loadings, "loadings_sd": spread},
        figures={
            "loadings": plots.loadings(
                np.nan_to_num(mean), columns, title="What each feature adds to each column", unit=unit
            )
        },
    )
    X, missing = model.X, model.missing
    centred = X - np.nanmean(np.where(missing.all(axis=0), 0.0, X), axis=0)
    total = float(np.nansum(centred**2))
    explained = 1.0 - float(np.nansum((X - predicted) ** 2)) / total if total > 0.0 else float("nan")
    noise = 1.0 / np.sqrt(float(posterior["tau_x"].mean()))
    in_units = " standard deviations" if fit.notes.scale else ""
    if np.isfinite(explained):
        share = f"{explained:.0%}" if explained > 0.0 else "nothing"
        findings.sentences.append(f"The features explain {share} of the variance within columns.")
    findings.sentences.append(f"The noise has standard deviation {number(noise)}{in_units}.")
    if missing.any():
        findings.tables["imputed"] = _imputed(fit, model, columns, predicted, deviation)
        findings.sentences.append(
            f"{int(missing.sum())} missing entries are filled in, with their uncertainty, in imputed.csv."
        )
    return findings


def _strongest(values: np.ndarray, columns: list[object]) -> str:
    order = np.argsort(-np.abs(np.nan_to_num(values)), kind="stable")[:_NUM_COLUMNS_SHOWN]
    return ", ".join(f"{show(columns[d])} {'+' if values[d] >= 0 else '-'}{number(abs(values[d]), 2)}" for d in order)


def _predict(fit: Fit, model: LinearGaussian) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every entry under the posterior predictive distribution."""
    count = 0
    mean = squares = np.zeros((model.num_rows, model.num_columns))
    noise = 0.0
    for state in states_of(fit.tree, at_most=NUM_PREDICTIVE_DRAWS):
        count += 1
        expected = model.mean(state)
        deviation = expected - mean
        mean = mean + deviation / count
        squares = squares + deviation * (expected - mean)
        noise += 1.0 / state.parameters["tau_x"]
    return mean, np.sqrt(squares / count + noise / count)


def _imputed(
    fit: Fit, model: LinearGaussian, columns: list[object], mean: np.ndarray, deviation: np.ndarray
) -> pd.DataFrame:
    """Missing entries in the units of the user's file."""
    places = np.argwhere(model.missing)
    scale = fit.notes.scale
    shift_and_size = np.array([scale.get(str(column), [0.0, 1.0]) for column in columns])
    shift, size = shift_and_size[places[:, 1], 0], shift_and_size[places[:, 1], 1]
    rows = list(fit.summary.owners.index)
    n, d = places[:, 0], places[:, 1]
    return pd.DataFrame(
        {
            fit.notes.row_name: pd.Series([rows[i] for i in n], dtype=object),
            "column": pd.Series([columns[j] for j in d], dtype=object),
            "mean": shift + size * mean[n, d],
            "sd": size * deviation[n, d],
        }
    )
