"""Tables that models are fitted to, read from files of users."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from pgfa.io.cells import Cells, TableError, as_number, find_column, is_blank, label_of, numbers_in, read_cells, shorten

_HOW_TO_SAY_MISSING = "Leave a cell empty, or write NA, where a value is missing."

_HOW_TO_DROP = "A column that is no part of the data is left out with --drop NAME."


def read_matrix(
    path: str | Path,
    *,
    index_column: str | None = None,
    drop: Iterable[str] = (),
    delimiter: str | None = None,
    header: bool = True,
    expected: str = "a number",
    is_right: Callable[[float], bool] = lambda number: True,
) -> pd.DataFrame:
    """Read a matrix of numbers with the labels of its rows and columns, NaN where a value is missing.

    Labels of rows are in `index_column` if that is given; otherwise in the first column, if that has no name or holds
    not a single number. Rows and columns without labels are numbered from 1.

    Parameters
    ----------
    path, delimiter, header
        As in `read_cells`.
    index_column
        Name of the column with the labels of rows (its number from 1, where the file has no header).
    drop
        Columns to leave out.
    expected, is_right
        What numbers are allowed, in words and as a test.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pgfa.io import read_matrix
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "mice.csv")
    ...     _ = path.write_text("mouse,BCL2,DYRK1A\\nm1,0.5,1\\nm2,NA,2\\n")
    ...     table = read_matrix(path)
    >>> table.loc["m1", "BCL2"], table.shape
    (np.float64(0.5), (2, 2))
    """
    cells = read_cells(path, delimiter=delimiter, header=header)
    dropped = {find_column(cells, name) for name in drop}
    kept = [j for j in range(len(cells.values)) if j not in dropped]
    of_labels = _index_of_labels(cells, index_column, kept)
    kept = [j for j in kept if j != of_labels]
    if not kept:
        raise TableError(f"{cells.name} has no columns of numbers: only labels are left")
    labels = None if of_labels is None else _labels(cells, of_labels)
    values = np.array([numbers_in(cells, j, expected, is_right) for j in kept]).T
    cells.refuse_problems(f"{_HOW_TO_SAY_MISSING} {_HOW_TO_DROP}")
    if np.isnan(values).all():
        raise TableError(
            f"{cells.name} has not a single value: every entry is missing. Expected {expected} in some of them"
        )
    row_name = None if of_labels is None or cells.columns is None else cells.columns[of_labels] or None
    return pd.DataFrame(
        values,
        index=pd.RangeIndex(1, cells.num_rows + 1) if labels is None else pd.Index(labels, name=row_name, dtype=object),
        columns=[j + 1 for j in kept]
        if cells.columns is None
        else pd.Index([cells.columns[j] for j in kept], dtype=object),
    )


def read_adjacency(
    path: str | Path,
    *,
    symmetric: bool = False,
    self_links: bool | None = None,
    index_column: str | None = None,
    drop: Iterable[str] = (),
    delimiter: str | None = None,
    header: bool = True,
) -> pd.DataFrame:
    """Read a square table of 0, 1 and missing: the entry in row i and column j says whether i has a link to j.

    Links of nodes with themselves are refused where `self_links` is None: then it has to be said whether they count.
    """
    name = str(path)
    table = read_matrix(
        path, index_column=index_column, drop=drop, delimiter=delimiter, header=header,
        expected="0 or 1", is_right=lambda number: number in (0.0, 1.0),
    )  # fmt: skip
    if table.shape[0] != table.shape[1]:
        raise TableError(
            f"{name} has {table.shape[0]} rows and {table.shape[1]} columns: expected a square table, with a row and "
            f"a column "
            "for each node. Is it a list of edges (--format edges)?"
        )
    if not header and not isinstance(table.index, pd.RangeIndex):
        table.columns = table.index
    elif isinstance(table.index, pd.RangeIndex):
        table.index = table.columns
    for i, (row, column) in enumerate(zip(table.index, table.columns)):
        if row != column:
            raise TableError(
                f"{name}: rows and columns must have the same labels in the same order, but row {i + 1} is {row!r} "
                f"and column "
                f"{i + 1} is {column!r}"
            )
    X = table.to_numpy()
    if self_links is None and (np.diagonal(X) == 1.0).any():
        loops = table.index[np.diagonal(X) == 1.0]
        raise TableError(
            f"{name}: {shorten(loops[0])}{' and others are' if len(loops) > 1 else ' is'} linked with itself: say "
            f"--self-links if "
            "such links count, --no-self-links if not"
        )
    unlike = (X != X.T) & ~(np.isnan(X) & np.isnan(X.T))
    if symmetric and unlike.any():
        i, j = np.argwhere(unlike)[0]
        first, second = table.index[i], table.index[j]
        raise TableError(
            f"{name} is not symmetric: row {first!r}, column {second!r} is {_show_entry(X[i, j])}, row {second!r}, "
            f"column "
            f"{first!r} is {_show_entry(X[j, i])}. Leave --symmetric out if links have a direction."
        )
    return table


def _show_entry(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:g}"


def read_edges(
    path: str | Path,
    *,
    symmetric: bool = False,
    self_links: bool | None = None,
    drop: Iterable[str] = (),
    delimiter: str | None = None,
    header: bool = True,
) -> pd.DataFrame:
    """Read a list of edges: columns source, target and, if there is one, value (1 link, 0 no link, missing unknown).

    Without a header the columns come in this order. Other columns are refused unless they are in `drop`: a weight of 0
    may well mean that there is no link. Edges of nodes with themselves are left out where `self_links` is False, and
    refused where it is None.
    """
    cells = read_cells(path, delimiter=delimiter, header=header)
    dropped = {find_column(cells, name) for name in drop}
    kept = [j for j in range(len(cells.values)) if j not in dropped]
    if cells.columns is None:
        if len(kept) not in (2, 3):
            raise TableError(
                f"{cells.name} has {len(kept)} columns: expected source, target and, perhaps, value. {_HOW_TO_DROP}"
            )
        places = dict(zip(("source", "target", "value"), kept))
    else:
        places = {cells.columns[j]: j for j in reversed(kept) if cells.columns[j] in ("source", "target", "value")}
        lacking = [name for name in ("source", "target") if name not in places]
        if lacking:
            raise TableError(
                f"{cells.name} has no column {lacking[0]!r}: a list of edges has the columns source, target and, "
                f"perhaps, value; "
                f"found {', '.join(map(repr, cells.columns[:20]))}. Is it a square table (--format adjacency)?"
            )
        further = [cells.columns[j] for j in kept if j not in places.values()]
        if further:
            listed = ", ".join(map(repr, further[:20]))
            raise TableError(
                f"{cells.name} has {'a column' if len(further) == 1 else 'columns'} {listed}: a list of edges has the "
                f"columns source, target and, perhaps, value (1 link, 0 no link, missing unknown). {_HOW_TO_DROP}"
            )
    ends: dict[str, list[str]] = {}
    for role in ("source", "target"):
        ends[role] = [label_of(cell) for cell in cells.values[places[role]]]
        for i, cell in enumerate(cells.values[places[role]]):
            if is_blank(cell):
                cells.complain(i, f"column {role}: expected the name of a node, got nothing")
    value = [1.0] * cells.num_rows
    if "value" in places:
        value = numbers_in(cells, places["value"], "0 or 1", lambda number: number in (0.0, 1.0))
    first_line: dict[tuple[str, str], int] = {}
    for i, (source, target) in enumerate(zip(ends["source"], ends["target"])):
        if source == target and self_links is None:
            cells.complain(i, f"node {shorten(source)} is linked with itself: say --self-links if such links count, "
                              "--no-self-links if not")  # fmt: skip
        pair = (source, target) if not symmetric else (min(source, target), max(source, target))
        before = first_line.setdefault(pair, i)
        if value[before] != value[i] and not (np.isnan(value[before]) and np.isnan(value[i])):
            cells.complain(i, f"{shorten(source)} and {shorten(target)}: value {_show_entry(value[i])}, but "
                              f"{_show_entry(value[before])} on {cells.place(before)}")  # fmt: skip
    cells.refuse_problems("" if "value" not in places else "An empty value, or NA, means that a link is unknown.")
    table = pd.DataFrame({**ends, "value": value}, dtype=object)
    if self_links is False:
        table = table[table["source"] != table["target"]]
        if table.empty:
            raise TableError(
                f"{cells.name} has links of nodes with themselves only, and --no-self-links leaves these out: expected "
                "at least one edge between two nodes"
            )
    table["value"] = table["value"].astype(float)
    return table.reset_index(drop=True)


def read_records(path: str | Path, *, delimiter: str | None = None) -> pd.DataFrame:
    """Read a table with a header as it stands; the labels of its rows say where in the file they are."""
    cells = read_cells(path, delimiter=delimiter)
    assert cells.columns is not None
    table = pd.DataFrame(dict(zip(cells.columns, cells.values)), dtype=object)
    table.index = pd.Index([cells.place(i) for i in range(cells.num_rows)], dtype=object)
    return table


# --- labels of rows ---------------------------------------------------------------------------------------------------


def _labels(cells: Cells, index: int) -> list[str]:
    """The labels in a column: none missing, all different."""
    seen: dict[str, int] = {}
    labels = []
    for i, cell in enumerate(cells.values[index]):
        label = label_of(cell)
        if is_blank(cell):
            cells.complain(i, f"column {cells.column_name(index)}: expected the label of the row, got nothing")
        elif label in seen:
            cells.complain(
                i,
                f"column {cells.column_name(index)}: the label {shorten(label)} is that of "
                f"{cells.place(seen[label])} too; labels of rows must be different",
            )
        else:
            seen[label] = i
        labels.append(label)
    return labels


def _index_of_labels(cells: Cells, index_column: str | None, candidates: list[int]) -> int | None:
    """The column with the labels of rows: the one that is asked for, or else the first if it has no name or no
    numbers."""
    if index_column is not None:
        return find_column(cells, index_column)
    if not candidates or candidates[0] != 0:
        return None
    if cells.columns is not None and cells.columns[0] == "":
        return 0
    read = [as_number(cell) for cell in cells.values[0]]
    has_text = any(number is None for number in read)
    has_numbers = any(number is not None and number == number for number in read)
    return 0 if has_text and not has_numbers else None
