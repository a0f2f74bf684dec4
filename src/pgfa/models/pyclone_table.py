"""Reading and checking a table of allele counts in PyClone-VI's columns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

#: Columns that every table must have.
REQUIRED = ("mutation_id", "sample_id", "ref_counts", "alt_counts", "major_cn", "minor_cn", "normal_cn")

#: Columns that may be left out, and what they are then.
OPTIONAL = {"tumour_content": 1.0, "error_rate": 0.001}

#: How many problems are listed before the rest is only counted.
MAX_LISTED = 10

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LARGEST_COUNT = 2.0**53


class Counts(NamedTuple):
    """One entry for each observed pair of a mutation and a sample, ordered by mutation and then by sample."""

    mutation_ids: list[Any]
    sample_ids: list[Any]
    mutation: NDArray[np.int64]
    sample: NDArray[np.int64]
    ref: NDArray[np.int64]
    alt: NDArray[np.int64]
    major: NDArray[np.int64]
    minor: NDArray[np.int64]
    normal: NDArray[np.int64]
    tumour_content: NDArray[np.float64]
    error_rate: NDArray[np.float64]


class _Source(NamedTuple):
    """Columns as they were handed in, and how to name a place in them."""

    name: str
    columns: dict[str, Sequence[Any]]
    num_rows: int
    place: Callable[[int], str]
    problems: list[tuple[int, str]]


def read_counts(table: Any) -> Counts:
    """Counts from a pandas table or the path of a TSV file.

    Mutations and samples are numbered in order of their first appearance. A mutation without a row for some sample is
    kept.

    Raises
    ------
    ValueError
        Names the file, line and column of up to ten problems at once.
    """
    if isinstance(table, (str, os.PathLike)):
        source = _read_file(Path(table))
    elif hasattr(table, "columns") and hasattr(table, "index"):
        source = _from_frame(table)
    else:
        raise ValueError(f"table must be a pandas table or the path of a TSV file, got {type(table).__name__}")
    missing = [name for name in REQUIRED if name not in source.columns]
    if missing:
        raise ValueError(
            f"{source.name} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; expected at least "
            f"{', '.join(REQUIRED)} and found {', '.join(map(str, source.columns)) or 'none'}"
        )
    if source.num_rows == 0:
        raise ValueError(f"{source.name} has a header and no rows: expected one row for each mutation and sample")
    return _check(source)


def _read_file(path: Path) -> _Source:
    name = str(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not a text file in UTF-8: expected a TSV file") from None
    except OSError as error:
        raise type(error)(
            f"table must be the path of a TSV file, but {name} cannot be read: {error.strerror}"
        ) from None
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise ValueError(f"{name} is empty: expected a header and one row for each mutation and sample")
    header = [cell.strip() for cell in lines[0].split("\t")]
    repeated = sorted({cell for cell in header if header.count(cell) > 1})
    if repeated:
        raise ValueError(f"{name}, line 1: the column {repeated[0]} appears more than once")
    problems = []
    rows = []
    for i, line in enumerate(lines[1:]):
        cells = line.split("\t")
        if len(cells) != len(header):
            problems.append((i, f"{len(cells)} fields, expected {len(header)} separated by tabs"))
            cells = (cells + [""] * len(header))[: len(header)]
        rows.append([cell.strip() for cell in cells])
    columns: dict[str, Sequence[Any]] = {cell: [row[j] for row in rows] for j, cell in enumerate(header)}
    if problems:
        raise ValueError(_describe(name, problems, lambda i: f"line {i + 2}"))
    return _Source(name, columns, len(rows), lambda i: f"line {i + 2}", [])


def _from_frame(frame: Any) -> _Source:
    labels = list(frame.index)
    if not frame.columns.is_unique:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"table has the column {repeated} more than once")
    wanted = [name for name in (*REQUIRED, *OPTIONAL) if name in frame.columns]
    columns: dict[str, Sequence[Any]] = {name: frame[name].tolist() for name in wanted}
    found = columns if all(name in columns for name in REQUIRED) else {name: () for name in frame.columns}
    return _Source("table", dict(found), len(labels), lambda i: f"row {labels[i]!r}", [])


def _describe(name: str, problems: list[tuple[int, str]], place: Callable[[int], str]) -> str:
    lines = [f"{place(i)}, {text}" for i, text in sorted(problems, key=lambda problem: problem[0])[:MAX_LISTED]]
    if len(problems) > MAX_LISTED:
        lines.append(f"and {len(problems) - MAX_LISTED} more")
    return f"{name} has {len(problems)} problem{'s' * (len(problems) > 1)}:\n  " + "\n  ".join(lines)


def _number(cell: Any) -> float:
    """A finite float, or NaN for anything that is not plainly a number."""
    if isinstance(cell, str):
        return float(cell) if _NUMBER.fullmatch(cell) else np.nan
    if isinstance(cell, (bool, np.bool_)) or not isinstance(cell, (int, float, np.integer, np.floating)):
        return np.nan
    return float(cell) if np.isfinite(cell) else np.nan


def _numbers(
    source: _Source, name: str, expected: str, is_right: Callable[[NDArray[np.float64]], NDArray[np.bool_]]
) -> NDArray[np.float64]:
    cells = source.columns[name]
    known: dict[str, float] = {}
    values = np.empty(len(cells))
    for i, cell in enumerate(cells):
        # Counts repeat, and text is slow to read.
        if isinstance(cell, str):
            values[i] = known[cell] if cell in known else known.setdefault(cell, _number(cell))
        else:
            values[i] = _number(cell)
    with np.errstate(invalid="ignore"):
        wrong = np.isnan(values) | ~is_right(values)
    for i in np.flatnonzero(wrong).tolist():
        source.problems.append((i, f"column {name}: expected {expected}, got {cells[i]!r}"))
    return np.where(wrong, np.nan, values)


def _whole(source: _Source, name: str, at_least: int) -> NDArray[np.float64]:
    return _numbers(
        source,
        name,
        f"a whole number of at least {at_least}",
        lambda x: (x >= at_least) & (x == np.floor(x)) & (x <= _LARGEST_COUNT),
    )


def _identifiers(source: _Source, name: str) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct ids in order of appearance, and for each row the number of its id."""
    numbers: dict[Any, int] = {}
    codes = np.empty(source.num_rows, dtype=np.int64)
    for i, cell in enumerate(source.columns[name]):
        plain = cell.item() if isinstance(cell, np.generic) else cell
        if isinstance(plain, (str, int, float)) and plain != "" and plain == plain:
            codes[i] = numbers.setdefault(plain, len(numbers))
        else:
            source.problems.append((i, f"column {name}: expected an identifier (text or a number), got {cell!r}"))
            codes[i] = -1
    return list(numbers), codes


def _check(source: _Source) -> Counts:
    mutation_ids, mutation = _identifiers(source, "mutation_id")
    sample_ids, sample = _identifiers(source, "sample_id")
    ref = _whole(source, "ref_counts", 0)
    alt = _whole(source, "alt_counts", 0)
    major = _whole(source, "major_cn", 0)
    minor = _whole(source, "minor_cn", 0)
    normal = _whole(source, "normal_cn", 1)
    optional = {
        name: np.full(source.num_rows, default) for name, default in OPTIONAL.items() if name not in source.columns
    }
    tumour_content = optional.get("tumour_content")
    if tumour_content is None:
        tumour_content = _numbers(
            source, "tumour_content", "a number above 0 and at most 1", lambda x: (x > 0.0) & (x <= 1.0)
        )
    error_rate = optional.get("error_rate")
    if error_rate is None:
        error_rate = _numbers(source, "error_rate", "a number above 0 and below 0.5", lambda x: (x > 0.0) & (x < 0.5))

    for i in np.flatnonzero(major < minor).tolist():
        source.problems.append((i, f"column major_cn: expected at least minor_cn ({minor[i]:g}), got {major[i]:g}"))
    for i in np.flatnonzero((major + minor == 0) & (ref + alt > 0)).tolist():
        source.problems.append(
            (i, f"column major_cn: total copy number 0, yet {ref[i] + alt[i]:g} reads; expected at least one copy")
        )
    first_row: dict[tuple[int, int], int] = {}
    for i, pair in enumerate(zip(mutation.tolist(), sample.tolist(), strict=True)):
        if min(pair) < 0:
            continue
        if pair in first_row:
            source.problems.append(
                (i, f"column mutation_id: mutation {mutation_ids[pair[0]]!r} in sample {sample_ids[pair[1]]!r} "
                    f"appears a second time, first on {source.place(first_row[pair])}; expected one row for each")
            )  # fmt: skip
        else:
            first_row[pair] = i
    if source.problems:
        raise ValueError(_describe(source.name, source.problems, source.place))

    if not (ref + alt).any():
        raise ValueError(f"{source.name} has not a single read: expected ref_counts or alt_counts above 0 in some row")

    order = np.lexsort((sample, mutation))
    return Counts(
        mutation_ids,
        sample_ids,
        mutation[order],
        sample[order],
        ref[order].astype(np.int64),
        alt[order].astype(np.int64),
        major[order].astype(np.int64),
        minor[order].astype(np.int64),
        normal[order].astype(np.int64),
        tumour_content[order],
        error_rate[order],
    )


def write_counts(counts: Counts) -> pd.DataFrame:
    """The table that `read_counts` would read these from."""
    import pandas as pd

    return pd.DataFrame(
        {
            "mutation_id": [counts.mutation_ids[n] for n in counts.mutation],
            "sample_id": [counts.sample_ids[m] for m in counts.sample],
            "ref_counts": counts.ref,
            "alt_counts": counts.alt,
            "major_cn": counts.major,
            "minor_cn": counts.minor,
            "normal_cn": counts.normal,
            "tumour_content": counts.tumour_content,
            "error_rate": counts.error_rate,
        }
    )
