"""Protein levels in the cortex of mice, with and without Down syndrome."""

from __future__ import annotations

from pgfa.datasets.base import Dataset, read_table


def load_mice_protein() -> Dataset:
    """Levels of 77 proteins in the cortex of 72 mice, 15 measurements each, 1.7% of the entries missing.

    The mice are control or trisomic (a model of Down syndrome), were given memantine or saline, and were stimulated to
    learn (context before shock, C/S) or not (S/C): eight classes, which are in `design` together with the mouse.

    The levels are on very different scales: use `pgfa.standardise` before fitting a linear Gaussian model.

    Examples
    --------
    >>> from pgfa.datasets import load_mice_protein
    >>> mice = load_mice_protein()
    >>> mice.data.shape
    (1080, 77)
    >>> list(mice.design.columns)
    ['mouse', 'genotype', 'treatment', 'behaviour', 'class']
    """
    table = read_table("mice_protein", "mice_protein.csv.gz").set_index("MouseID")
    design = table[["Genotype", "Treatment", "Behavior", "class"]].copy()
    design.columns = ["genotype", "treatment", "behaviour", "class"]
    design.insert(0, "mouse", [label.rsplit("_", 1)[0] for label in table.index])
    data = table.drop(columns=["Genotype", "Treatment", "Behavior", "class"]).astype(float)
    data.columns = [name.removesuffix("_N") for name in data.columns]
    data.index.name = design.index.name = "measurement"
    return Dataset(
        data=data,
        design=design,
        description="Mice protein expression: nuclear levels of 77 proteins in the cortex of 38 control and 34 "
        "trisomic mice, 15 measurements a mouse, in a 2 x 2 x 2 design of genotype, treatment and behaviour",
        credit="C. Higuera, K. J. Gardiner, K. J. Cios (2015). Mice Protein Expression. UCI Machine Learning "
        "Repository. https://doi.org/10.24432/C50S3Z",
        licence="CC BY 4.0",
    )
