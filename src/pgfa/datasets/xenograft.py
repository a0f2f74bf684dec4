"""Mutations in a leukaemia, and in mice that were given cells of it."""

from __future__ import annotations

from pgfa.datasets.base import Dataset, read_table


def load_xenograft() -> Dataset:
    """Read counts of 41 mutations in 13 samples of one patient's leukaemia: at diagnosis, at relapse, and in 11 mice.

    The table has the columns that `pgfa.PyClone` expects. Experts built a tree of clones by hand: which of its five
    clones carries a mutation is in `design`, with a row for each mutation. It is no ground truth, but nothing that a
    model has seen.

    Examples
    --------
    >>> from pgfa.datasets import load_xenograft
    >>> leukaemia = load_xenograft()
    >>> leukaemia.data["mutation_id"].nunique(), leukaemia.data["sample_id"].nunique()
    (41, 13)
    >>> leukaemia.design.shape
    (41, 5)
    """
    return Dataset(
        data=read_table("xenograft", "counts.csv.gz"),
        design=read_table("xenograft", "expert_clones.csv.gz").set_index("mutation_id"),
        description="Leukaemia SJBALL031: read counts of 41 mutations at diagnosis, at relapse, and in 11 mice that "
        "were given cells of the relapse",
        credit="S. M. Dobson et al. (2020), Cancer Discovery 10: 568-587; J. A. Wintersinger et al. (2022), Blood "
        "Cancer Discovery 3: 208-219. From the repository of Orchard by E. Kulman",
        licence="MIT",
    )
