"""Mutations of a leukaemia, by the PyClone model: populations of cells beside the clones that experts found."""

from __future__ import annotations

import pandas as pd

from pgfa.datasets import load_xenograft
from pgfa.demo.show import Stage
from pgfa.metrics import b_cubed
from pgfa.models import PyClone
from pgfa.priors import BetaBernoulli
from pgfa.report.pyclone import group_populations, names_of_groups

NUM_FEATURES = 6


def show(stage: Stage) -> None:
    """Fit, and compare with the clones of the experts."""
    leukaemia = load_xenograft()
    stage.introduce(leukaemia)
    model = PyClone(leukaemia.data, density="beta-binomial")
    fit = stage.fit(model, BetaBernoulli(NUM_FEATURES), row_name="mutation_id", warmup=2.0)

    mutations = list(fit.summary.owners.index)
    expert = leukaemia.design.loc[mutations]
    groups = group_populations(fit)
    names = names_of_groups(fit, groups)
    found = fit.summary.reference.Z[:, [group[0] for group in groups]]
    score = b_cubed(expert.to_numpy(), found)
    stage.say(
        "The populations of the best draw, those with the same mutations taken as one, agree with the clones that "
        f"experts built by hand, which the model has not seen, with a B-Cubed F of {score.f:.2f} (precision "
        f"{score.precision:.2f}, recall {score.recall:.2f})."
    )
    overlap = found.T.astype(float) @ expert.to_numpy()
    union = found.sum(axis=0)[:, None] + expert.to_numpy().sum(axis=0)[None, :] - overlap
    likeness = pd.DataFrame(overlap / union, columns=list(expert.columns))
    stage.compare(
        "Mutations in common with the clones of the experts, as a share of those in either",
        ["population", *map(str, expert.columns)],
        [[name, *(f"{value:.2f}" for value in row)] for name, row in zip(names, likeness.to_numpy())],
    )
    likeness.insert(0, "population", names)
    stage.write("experts", likeness)
