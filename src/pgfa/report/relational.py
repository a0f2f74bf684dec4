"""What a relational fit found: which features attract each other, and links that are not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pgfa import plots
from pgfa.report.base import NUM_PREDICTIVE_DRAWS, Findings, Fit, reporter
from pgfa.report.text import number, show
from pgfa.summary import states_of

#: Networks of more nodes than this get no table of all link probabilities.
_LARGEST_TABLE = 1000
_NUM_SHOWN = 5


@reporter("Relational", files=("weights.csv", "link_probability.csv", "unknown_links.csv", "network.png"))
def report_relational(fit: Fit) -> Findings:
    """Weights between features, probabilities of links, and the likeliest of those that are unknown."""
    model: Any = fit.model
    names = fit.summary.names
    labels = list(fit.summary.owners.index)
    posterior = fit.tree["posterior"].dataset
    mean, sd = fit.summary.mean_and_sd(posterior["V"])
    prediction = model.predict_links(states_of(fit.tree, at_most=NUM_PREDICTIVE_DRAWS))

    weights = [
        {"from": names[k], "to": names[m], "mean": mean[k, m], "sd": sd[k, m]}
        for k in range(len(names))
        for m in range(k if model.symmetric else 0, len(names))
    ]
    findings = Findings(
        feature_column=("its owners link", [_strongest(k, mean, names, model.symmetric) for k in range(len(names))]),
        tables={"weights": pd.DataFrame(weights, columns=["from", "to", "mean", "sd"])},
        figures={"network": plots.network(model.X, prediction.probability, fit.summary.owners, labels=labels)},
    )
    if len(labels) <= _LARGEST_TABLE:
        table = pd.DataFrame(prediction.probability, columns=pd.Index(labels, dtype=object))
        table.insert(0, "from", pd.Series(labels, dtype=object), allow_duplicates=True)
        findings.tables["link_probability"] = table
    findings.sentences += _how_well(model, prediction.probability)
    if "bias" in posterior:
        bias = float(posterior["bias"].mean())
        findings.sentences.append(
            f"A node without features has each link with probability {number(1.0 / (1.0 + np.exp(-bias)))}."
        )
    unknown = prediction.unknown_links()
    if unknown:
        by_label = {position: label for position, label in enumerate(labels)} if model.row_labels is None else None
        pairs = [(by_label[i], by_label[j], p) if by_label else (i, j, p) for i, j, p in unknown]
        findings.tables["unknown_links"] = pd.DataFrame(
            {
                "from": pd.Series([pair[0] for pair in pairs], dtype=object),
                "to": pd.Series([pair[1] for pair in pairs], dtype=object),
                "probability": [pair[2] for pair in pairs],
            }
        )
        arrow = "-" if model.symmetric else "→"
        likeliest = ", ".join(f"{show(i)} {arrow} {show(j)} ({p:.2f})" for i, j, p in pairs[:_NUM_SHOWN])
        findings.sentences.append(
            f"{len(pairs)} links are unknown; the likeliest are {likeliest}. All are in unknown_links.csv."
        )
    return findings


def _strongest(k: int, mean: np.ndarray, names: list[str], symmetric: bool) -> str:
    """To the owners of which features, more or less than others do."""
    order = [m for m in np.argsort(-np.abs(np.nan_to_num(mean[k])), kind="stable") if np.isfinite(mean[k, m])][:3]
    arrow = "- " if symmetric else "→ "
    return ", ".join(f"{arrow}{names[m]} {'+' if mean[k, m] >= 0 else '-'}{number(abs(mean[k, m]), 2)}" for m in order)


def _how_well(model: Any, probability: np.ndarray) -> list[str]:
    """In a sentence, where there are both links and pairs without one to be told apart."""
    from pgfa.link_prediction import area_under_curve

    known = ~np.isnan(model.X) & ~np.isnan(probability)
    if np.unique(model.X[known]).size < 2:
        return []
    auc = area_under_curve(model.X[known], probability[known])
    return [
        f"A known link is given a higher probability than a known absence of one in {auc:.1%} of the cases "
        "(these links were seen in the fit; unseen ones are predicted less well)."
    ]
