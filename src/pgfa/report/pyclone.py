"""What a PyClone fit found: populations of cells, their shares of each sample, and the prevalence of each mutation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pgfa import plots
from pgfa.report.base import NUM_PREDICTIVE_DRAWS, Findings, Fit, reporter
from pgfa.report.text import number
from pgfa.summary import states_of


@reporter("PyClone")
def report_pyclone(fit: Fit) -> Findings:
    """Shares of populations, and in which share of the cells each mutation is found."""
    names = fit.summary.names
    mutations = list(fit.summary.owners.index)
    posterior = fit.tree["posterior"].dataset
    V = posterior["V"]
    dim = str(V.dims[-1])
    samples: list[Any] = list(posterior[dim].values) if dim in posterior.coords else list(range(1, V.sizes[dim] + 1))
    mean, sd = fit.summary.mean_and_sd(V / V.sum("feature", skipna=True))

    count = 0
    prevalence = squares = np.zeros((len(mutations), len(samples)))
    for state in states_of(fit.tree, at_most=NUM_PREDICTIVE_DRAWS):
        count += 1
        drawn = state.parameters["V"]
        phi = state.Z @ (drawn / drawn.sum(axis=0))
        deviation = phi - prevalence
        prevalence = prevalence + deviation / count
        squares = squares + deviation * (phi - prevalence)

    def by_sample(values: np.ndarray) -> pd.DataFrame:
        table = pd.DataFrame(values.T, columns=names)
        table.insert(0, "sample_id", pd.Series(samples, dtype=object))
        return table

    rows, columns = np.divmod(np.arange(prevalence.size), len(samples))
    long_table = pd.DataFrame(
        {
            "mutation_id": pd.Series([mutations[n] for n in rows], dtype=object),
            "sample_id": pd.Series([samples[m] for m in columns], dtype=object),
            "prevalence": prevalence.ravel(),
            "sd": np.sqrt(squares / max(count, 1)).ravel(),
        }
    )
    largest = [int(np.nanargmax(row)) if np.isfinite(row).any() else 0 for row in mean]
    findings = Findings(
        feature_column=(
            "share of the cells",
            [f"up to {mean[k, m]:.0%} ({samples[m]})" for k, m in enumerate(largest)],
        ),
        tables={"populations": by_sample(mean), "populations_sd": by_sample(sd), "prevalences": long_table},
        figures={
            "populations": plots.populations(
                np.nan_to_num(mean), samples, title="Of which populations each sample consists"
            ),
            "prevalences": plots.prevalences(
                prevalence,
                mutations,
                samples,
                owners=fit.summary.owners,
                title="In which share of the cells a mutation is",
            ),
        },
    )
    findings.sentences.append(
        "A feature is a population of cells, and its owners are the mutations that these cells carry."
    )
    if "precision" in posterior:
        findings.sentences.append(
            f"The read counts scatter with beta-binomial precision {number(float(posterior['precision'].mean()))}; the "
            "lower it is, the more they scatter beyond binomial noise."
        )
    return findings
