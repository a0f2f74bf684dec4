"""What a PyClone fit found: populations of cells, their shares of each sample, and the prevalence of each mutation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from pgfa import plots
from pgfa.report.base import NUM_PREDICTIVE_DRAWS, Findings, Fit, reporter
from pgfa.report.text import number, show
from pgfa.state import State
from pgfa.summary import states_of

#: Ends of the credible intervals.
_TAILS = (0.025, 0.975)


@reporter("PyClone", files=("populations.csv", "populations.png", "prevalences.csv", "prevalences.png"))
def report_pyclone(fit: Fit) -> Findings:
    """Shares of populations, and in which share of the cells each mutation is found."""
    mutations = list(fit.summary.owners.index)
    posterior = fit.tree["posterior"].dataset
    V = posterior["V"]
    dim = str(V.dims[-1])
    samples: list[Any] = list(posterior[dim].values) if dim in posterior.coords else list(range(1, V.sizes[dim] + 1))

    groups = group_populations(fit)
    names = names_of_groups(fit, groups)
    shares = _shares(fit, V, groups)
    prevalences = _prevalences(list(states_of(fit.tree, at_most=NUM_PREDICTIVE_DRAWS)), mutations, samples)
    phi = prevalences["mean"].to_numpy().reshape(len(mutations), len(samples))
    mean = shares.mean(axis=0)
    findings = Findings(
        feature_column=("share of the cells", _largest_shares(fit, groups, names, mean, samples)),
        tables={"populations": _population_table(shares, names, samples), "prevalences": prevalences},
        figures={
            "populations": plots.populations(
                mean, samples, feature_labels=names, title="Of which populations each sample consists"
            ),
            "prevalences": plots.prevalences(
                phi, mutations, samples, owners=fit.summary.owners, title="In which share of the cells a mutation is"
            ),
        },
    )
    findings.sentences.append(
        "A feature is a population of cells, and its owners are the mutations that these cells carry. How common each "
        "population and each mutation is, with 95% intervals, is in populations.csv and prevalences.csv."
    )
    if "precision" in posterior:
        findings.sentences.append(
            f"The read counts scatter with beta-binomial precision {number(float(posterior['precision'].mean()))}; the "
            "lower it is, the more they scatter beyond binomial noise."
        )
    return findings


def names_of_groups(fit: Fit, groups: list[list[int]]) -> list[str]:
    """Names of populations, those of the features that they consist of joined."""
    return ["+".join(fit.summary.names[k] for k in group) for group in groups]


def group_populations(fit: Fit) -> list[list[int]]:
    """Features that carry the same mutations are one population: the counts do not tell how cells are divided."""
    names = fit.summary.names
    of_group = {name: group for group in fit.summary.duplicates for name in group}
    return [
        [names.index(other) for other in of_group.get(name, [name])]
        for name in names
        if of_group.get(name, [name])[0] == name
    ]


def _shares(fit: Fit, V: xr.DataArray, groups: list[list[int]]) -> NDArray[np.float64]:
    """Share of each population in each sample, for every draw; none where a draw has no such population."""
    num_chains, num_draws = V.shape[:2]
    shares = np.zeros((num_chains * num_draws, len(groups), V.shape[3]))
    for c in range(num_chains):
        drawn = np.asarray(V[c].values)
        F = drawn / np.nansum(drawn, axis=1, keepdims=True)
        for d in range(num_draws):
            for g, group in enumerate(groups):
                columns = [k for k in fit.summary.columns[c, d, group] if k >= 0]
                shares[c * num_draws + d, g] = F[d, columns].sum(axis=0)
    return shares


def _largest_shares(
    fit: Fit, groups: list[list[int]], names: list[str], mean: NDArray[np.float64], samples: list[Any]
) -> list[str]:
    texts = [""] * len(fit.summary.names)
    for group, name, share in zip(groups, names, mean):
        m = int(np.argmax(share))
        together = f"{name}: " if len(group) > 1 else ""
        for k in group:
            texts[k] = f"{together}up to {share[m]:.0%} ({show(samples[m])})"
    return texts


def _population_table(shares: NDArray[np.float64], names: list[str], samples: list[Any]) -> pd.DataFrame:
    lower, upper = np.quantile(shares, _TAILS, axis=0)
    return pd.DataFrame(
        {
            "population": np.repeat(np.array(names, dtype=object), len(samples)),
            "sample_id": pd.Series(samples * len(names), dtype=object),
            "mean": shares.mean(axis=0).ravel(),
            "lower": lower.ravel(),
            "upper": upper.ravel(),
        }
    )


def _prevalences(states: list[State], mutations: list[Any], samples: list[Any]) -> pd.DataFrame:
    shape = (len(mutations), len(samples))
    mean, lower, upper = np.empty(shape), np.empty(shape), np.empty(shape)
    # One sample at a time, so that many mutations fit into memory.
    for m in range(len(samples)):
        phi = np.zeros((len(states), len(mutations)))
        for i, state in enumerate(states):
            v = state.parameters["V"][:, m]
            phi[i] = state.Z @ (v / v.sum()) if v.size else 0.0
        mean[:, m] = phi.mean(axis=0)
        lower[:, m], upper[:, m] = np.quantile(phi, _TAILS, axis=0)
    return pd.DataFrame(
        {
            "mutation_id": pd.Series([mutation for mutation in mutations for _ in samples], dtype=object),
            "sample_id": pd.Series(samples * len(mutations), dtype=object),
            "mean": mean.ravel(),
            "lower": lower.ravel(),
            "upper": upper.ravel(),
        }
    )
