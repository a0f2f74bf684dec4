"""Who asks whom for advice, befriends whom and works with whom in a law firm."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pgfa import checks
from pgfa.datasets.base import Dataset, read_table

RELATIONS = ("advice", "friendship", "work")
_CODES = {
    "status": {1: "partner", 2: "associate"},
    "gender": {1: "man", 2: "woman"},
    "office": {1: "Boston", 2: "Hartford", 3: "Providence"},
    "practice": {1: "litigation", 2: "corporate"},
    "law_school": {1: "Harvard or Yale", 2: "Connecticut", 3: "other"},
}


def load_lazega(relation: str = "friendship") -> Dataset:
    """Directed links among the 71 lawyers of a firm with three offices.

    An entry of one in row i and column j says that lawyer i named lawyer j. The diagonal is missing: nobody was asked
    about themselves. Status, gender, office, years with the firm, age, practice and law school are in `design`.

    Parameters
    ----------
    relation
        ``"advice"`` (892 links), ``"friendship"`` (575) or ``"work"`` (1104).

    Examples
    --------
    >>> from pgfa.datasets import load_lazega
    >>> firm = load_lazega("advice")
    >>> firm.data.shape, int(firm.data.sum().sum())
    ((71, 71), 892)
    >>> firm.design["office"].value_counts().to_dict()
    {'Boston': 48, 'Hartford': 19, 'Providence': 4}
    """
    checks.one_of("relation", relation, RELATIONS)
    design = read_table("lazega", "attributes.csv.gz")
    links = read_table("lazega", "links.csv.gz")
    links = links[links["relation"] == relation]
    for name, words in _CODES.items():
        design[name] = design[name].map(words)
    labels = pd.Index([f"lawyer {n + 1}" for n in range(len(design))], name="lawyer", dtype=object)
    X = np.zeros((len(design), len(design)))
    X[links["source"] - 1, links["target"] - 1] = 1.0
    np.fill_diagonal(X, np.nan)
    design.index = labels
    return Dataset(
        data=pd.DataFrame(X, index=labels, columns=labels),
        design=design,
        description=f"Lazega's law firm: {relation} among 71 lawyers, partners and associates of three offices",
        credit="E. Lazega (2001). The Collegial Phenomenon. Oxford University Press. From the package networkdata by "
        "D. Schoch",
        licence="MIT",
    )
