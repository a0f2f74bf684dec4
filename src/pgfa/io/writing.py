"""Tables for users, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pgfa.io.cells import NUMBER


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe in front.

    Numbers stay what they are, also where they are written as text.

    Examples
    --------
    >>> safe_cell("=1+1"), safe_cell("-0.5"), safe_cell("BCL2"), safe_cell(-1.5)
    ("'=1+1", '-0.5', 'BCL2', -1.5)
    """
    if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") and not NUMBER.fullmatch(value):
        return "'" + value
    return value


def write_table(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table as CSV, or as TSV or with gzip if the name says so; see `safe_cell` for text."""
    path = Path(path)
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    safe = table.copy()
    safe.columns = pd.Index([safe_cell(column) for column in table.columns], dtype=object)
    texts = list(safe.columns)
    for j in range(safe.shape[1]):
        if safe.dtypes.iloc[j].kind not in "fiub":
            cells = [safe_cell(cell) for cell in safe.iloc[:, j]]
            safe.isetitem(j, np.array(cells, dtype=object))
            texts += cells
    # The writer quotes a cell that breaks lines only where it breaks them by the character that ends rows.
    breaks = any(isinstance(text, str) and "\r" in text for text in texts)
    text = safe.to_csv(
        index=False,
        sep="\t" if ".tsv" in endings else ",",
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if breaks else csv.QUOTE_MINIMAL,
    )
    content = text.encode()
    path.write_bytes(gzip.compress(content, mtime=0) if endings[-1:] == [".gz"] else content)
