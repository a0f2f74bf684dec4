"""Files of users as they stand: text or Parquet, compressed or not, cells and where they are."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: Cells that stand for a missing value, after spaces around them are removed.
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})

#: How many problems are listed before the rest is only counted.
MAX_LISTED = 10

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_DELIMITER_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars", " ": "spaces"}
_PARQUET = (".parquet", ".pq")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class TableError(ValueError):
    """A file that cannot be used as it is."""


@dataclass
class Cells:
    """A table as it stands in its file: text, or the typed values of Parquet.

    Attributes
    ----------
    name
        The file, as the user wrote it.
    columns
        Names of the columns; None where the file has no header.
    values
        The cells, column by column.
    lines
        For each row the line of the file that it begins on.
    unit
        What `lines` counts: "line", or "row" where a file has no lines.
    problems
        What is wrong so far, as pairs of a row and a sentence.
    """

    name: str
    columns: list[str] | None
    values: list[list[Any]]
    lines: Sequence[int]
    unit: str = "line"
    problems: list[tuple[int, str]] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        return len(self.lines)

    def column_name(self, index: int) -> str:
        """A column as it is called in messages."""
        return repr(self.columns[index]) if self.columns is not None else str(index + 1)

    def place(self, row: int) -> str:
        """A row as it is called in messages."""
        return f"{self.unit} {self.lines[row]}"

    def complain(self, row: int, text: str) -> None:
        """Take down a problem; `refuse_problems` raises them all together."""
        self.problems.append((row, f"{self.place(row)}, {text}"))

    def refuse_problems(self, advice: str = "") -> None:
        """Raise what has been taken down, in the order of the file, up to ten problems."""
        if not self.problems:
            return
        listed = [text for _, text in sorted(self.problems, key=lambda problem: problem[0])[:MAX_LISTED]]
        if len(self.problems) > MAX_LISTED:
            listed.append(f"and {len(self.problems) - MAX_LISTED} more")
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        raise TableError(
            "\n".join([f"{self.name} has {count}:", *(f"  {text}" for text in listed), *filter(None, [advice])])
        )


# --- files ----------------------------------------------------------------------------------------------------------


def read_cells(path: str | Path, *, delimiter: str | None = None, header: bool = True) -> Cells:
    """Read CSV, TSV or Parquet, compressed with gzip or not, and check nothing but its shape.

    Parameters
    ----------
    path
        The file. Columns are separated by commas in .csv and by tabs in .tsv and .tab; in files with another ending by
        whichever of comma, tab and semicolon its first line has.
    delimiter
        The character between columns, where the ending does not say it.
    header
        Whether the first line holds the names of the columns.
    """
    path = Path(path)
    name = str(path)
    content = _read_bytes(path, name)
    ending = Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    if ending in _PARQUET or content[:4] == b"PAR1":
        return _cells_of_parquet(content, name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TableError(f"{name}, line {line}: not text in UTF-8. Save the table as CSV in UTF-8.") from None
    if "\0" in text:
        raise TableError(f"{name} is not a text file: expected CSV, TSV or Parquet")
    if not text.strip():
        raise TableError(f"{name} is empty: expected a table")
    if delimiter is None:
        delimiter = _DELIMITERS.get(ending) or _delimiter_of(text, name)
    return _cells_of_text(text, name, delimiter, header)


def _read_bytes(path: Path, name: str) -> bytes:
    if path.is_dir():
        raise TableError(f"{name} is a folder: expected a file")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"{name} does not exist") from None
    except OSError as error:
        raise TableError(f"{name} cannot be read: {error.strerror}") from None
    if content[:2] != b"\x1f\x8b":
        if path.suffix.lower() == ".gz":
            raise TableError(f"{name} is called .gz, but is not compressed with gzip")
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        raise TableError(f"{name} is damaged: it cannot be decompressed") from None


def _delimiter_of(text: str, name: str) -> str:
    first = text.lstrip("\r\n").splitlines()[0]
    found = [candidate for candidate in ",\t;" if candidate in first]
    if len(found) != 1:
        raise TableError(
            f"{name}, line 1: cannot tell what separates the columns. Call the file .csv (commas) or .tsv (tabs), or "
            f"say "
            "it with --delimiter."
        )
    return found[0]


def _cells_of_text(text: str, name: str, delimiter: str, header: bool) -> Cells:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    begins = 1
    try:
        for row in reader:
            rows.append([cell.strip() for cell in row])
            lines.append(begins)
            begins = reader.line_num + 1
    except csv.Error as error:
        raise TableError(f"{name}, line {begins}: {error}. Is a quotation mark left open?") from None
    while not any(rows[-1]):
        del rows[-1], lines[-1]
    while not any(rows[0]):
        del rows[0], lines[0]
    _refuse_wrong_delimiter(rows, name, delimiter)
    columns: list[str] | None = None
    if header:
        columns, rows, lines = rows[0], rows[1:], lines[1:]
        if not rows:
            raise TableError(f"{name} has a header and no rows")
        # R leaves out the name of the column that holds the names of rows.
        if len(rows[0]) == len(columns) + 1:
            columns = ["", *columns]
        _check_names(columns, name)
    width = len(columns) if columns is not None else len(rows[0])
    cells = Cells(name, columns, [], lines)
    for i, row in enumerate(rows):
        if len(row) != width:
            found = "is empty" if not any(row) else f"has {len(row)} {'cell' if len(row) == 1 else 'cells'}"
            cells.problems.append((i, f"{cells.place(i)} {found}, expected {width}"))
    cells.refuse_problems()
    cells.values = [list(column) for column in zip(*rows)]
    return cells


def _refuse_wrong_delimiter(rows: list[list[str]], name: str, delimiter: str) -> None:
    if len(rows[0]) > 1:
        return
    for other, word in _DELIMITER_NAMES.items():
        if other not in (delimiter, " ") and other in rows[0][0]:
            raise TableError(
                f"{name}, line 1: expected columns separated by {_DELIMITER_NAMES.get(delimiter, repr(delimiter))}, "
                f"found "
                f"none of these, but {rows[0][0].count(other)} {word}. Give --delimiter {other!r} if these separate "
                f"the columns."
            )


def _check_names(columns: list[str], name: str) -> None:
    if all(NUMBER.fullmatch(column) for column in columns):
        raise TableError(
            f"{name}, line 1: expected the names of the columns, found only numbers. Add a line with names, or say "
            "--no-header if the data begin on the first line."
        )
    for j, column in enumerate(columns):
        if column == "" and j > 0:
            raise TableError(f"{name}, line 1: column {j + 1} has no name")
        if column in columns[:j]:
            raise TableError(f"{name}, line 1: two columns are called {column!r}; names must be different")


def _cells_of_parquet(content: bytes, name: str) -> Cells:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise TableError(
            f"{name} is a Parquet file, and reading these needs pyarrow: pip install pyarrow, or save the table as CSV"
        ) from None
    try:
        frame = parquet.read_table(io.BytesIO(content)).to_pandas()
    except (pyarrow.ArrowException, OSError, ValueError):
        raise TableError(f"{name} is damaged: it cannot be read as Parquet") from None
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(names=[str(frame.index.name or "")])
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise TableError(f"{name} is empty: expected a table")
    columns = [str(column) for column in frame.columns]
    for j, column in enumerate(columns):
        if column in columns[:j]:
            raise TableError(f"{name}: two columns are called {column!r}; names must be different")
    values = [frame.iloc[:, j].tolist() for j in range(frame.shape[1])]
    return Cells(name, columns, values, range(1, len(frame) + 1), unit="row")


# --- cells ----------------------------------------------------------------------------------------------------------


def is_missing(cell: Any) -> bool:
    return cell in MISSING if isinstance(cell, str) else cell is None or cell is pd.NA or cell != cell


def as_number(cell: Any) -> float | None:
    """The number in a cell, NaN where it is missing, None where it is neither."""
    if isinstance(cell, str):
        if NUMBER.fullmatch(cell):
            number = float(cell)
            return number if np.isfinite(number) else None
        return np.nan if cell in MISSING else None
    if is_missing(cell):
        return np.nan
    if isinstance(cell, (int, float, np.integer, np.floating)) and np.isfinite(cell):
        return float(cell)
    return None


def numbers_in(cells: Cells, index: int, expected: str, is_right: Callable[[float], bool]) -> list[float]:
    """The numbers of a column; what is none, or not as expected, is taken down as a problem."""
    numbers = []
    wrong = []
    for i, cell in enumerate(cells.values[index]):
        number = as_number(cell)
        if number is None or not (number != number or is_right(number)):
            wrong.append(i)
            number = np.nan
        numbers.append(number)
    if wrong and len(wrong) == sum(not is_missing(cell) for cell in cells.values[index]) and len(wrong) > 1:
        first = wrong[0]
        cells.problems.append(
            (-1, f"column {cells.column_name(index)}: no cell is {expected} ({cells.place(first)} has "
                 f"{shorten(cells.values[index][first])})")
        )  # fmt: skip
    else:
        for i in wrong:
            cells.complain(
                i, f"column {cells.column_name(index)}: expected {expected}, got {shorten(cells.values[index][i])}"
            )
    return numbers


def shorten(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else text[:57] + "..."


def label_of(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


def is_blank(cell: Any) -> bool:
    """Whether there is no label in a cell. "NA" is one: somebody's name, or a country's."""
    return cell == "" if isinstance(cell, str) else is_missing(cell)


def find_column(cells: Cells, wanted: str) -> int:
    """A column by its name or, where there is no header, by its number from 1."""
    known = cells.columns if cells.columns is not None else [str(j + 1) for j in range(len(cells.values))]
    if wanted not in known:
        listed = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
        raise TableError(f"{cells.name} has no column {wanted!r}; it has {listed}")
    return known.index(wanted)
