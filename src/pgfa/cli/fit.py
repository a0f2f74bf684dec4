"""`pgfa fit`: from a table on disk to draws, tables and pictures."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgfa.cli.options import BadOption, Command, Delimiter, Group, NoHeader, RunOptions, takes
from pgfa.cli.running import default_out, input_errors, run_fit, say

if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode="rich", help="Fit a model to a table.")

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="CSV, TSV or Parquet, compressed with gzip or not.", show_default=False)
]
IndexColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column with the labels of the rows.",
        show_default="the first, if it has no name or no numbers",
    ),
]

Drop = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Column to leave out; may be given several times.")
]


class NetworkFormat(StrEnum):
    adjacency = "adjacency"
    edges = "edges"


class DensityName(StrEnum):
    binomial = "binomial"
    beta_binomial = "beta-binomial"


@app.command(
    "linear-gaussian",
    cls=Command,
    epilog="Example: [bold]pgfa fit linear-gaussian levels.csv --standardise --intercept --features 8[/]",
)
@takes(RunOptions)
def fit_linear_gaussian(
    file: File,
    intercept: Annotated[bool, typer.Option("--intercept", help="Add a mean for each column.")] = False,
    standardise: Annotated[
        bool, typer.Option("--standardise", help="Bring each column to mean 0 and standard deviation 1 first.")
    ] = False,
    index_column: IndexColumn = None,
    drop: Drop = None,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    run: RunOptions = RunOptions(),  # noqa: B008
) -> None:
    """A table of numbers: each row is the sum of the features it owns, plus noise.

    FILE has a row for each observation and a column for each thing measured. Empty cells, NA and NaN are missing
    values, which are filled in.
    """
    from pgfa import io

    with input_errors():
        table = io.read_matrix(
            file, index_column=index_column, drop=drop or (), delimiter=delimiter, header=not no_header
        )
        from pgfa.models import LinearGaussian
        from pgfa.preprocessing import standardise as to_standard
        from pgfa.report import Notes

        describe_table(table, str(file))
        if standardise:
            notes = Notes(source=str(file), row_name=str(table.index.name or "row"), scale=scale_of(table))
            model = LinearGaussian(to_standard(table), intercept)
        else:
            notes = Notes(source=str(file), row_name=str(table.index.name or "row"))
            model = LinearGaussian(table, intercept)
            if not intercept and is_off_centre(table):
                say(
                    "Note: the columns are not centred on zero; consider --intercept, or --standardise.", style="yellow"
                )
    run_fit(model, notes, run, run.out or default_out(file))


@app.command(
    "relational",
    cls=Command,
    epilog="Example: [bold]pgfa fit relational friends.csv --format edges --symmetric --bias[/]",
)
@takes(RunOptions)
def fit_relational(
    file: File,
    format: Annotated[
        NetworkFormat,
        typer.Option(
            metavar="NAME",
            help="[bold]adjacency[/]: a square table of 0, 1 and missing, row i and column j for a link from i to j. "
            "[bold]edges[/]: columns source, target and, perhaps, value.",
        ),
    ] = NetworkFormat.adjacency,
    symmetric: Annotated[bool, typer.Option("--symmetric", help="Links have no direction.")] = False,
    self_links: Annotated[
        bool | None,
        typer.Option(
            "--self-links/--no-self-links",
            help="Whether links of nodes with themselves count.",
            show_default="not; must be said if there are any",
        ),
    ] = None,
    bias: Annotated[
        bool, typer.Option("--bias", help="Let nodes without features have links too. Sparse networks need it.")
    ] = False,
    index_column: IndexColumn = None,
    drop: Drop = None,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    run: RunOptions = RunOptions(),  # noqa: B008
) -> None:
    """A network: two nodes are linked or not according to the features of both.

    Missing entries are links of which nothing is known; they are predicted.
    """
    from pgfa import io

    with input_errors():
        from pgfa.models import Relational
        from pgfa.report import Notes

        if format is NetworkFormat.adjacency:
            table = io.read_adjacency(
                file,
                symmetric=symmetric,
                self_links=self_links,
                index_column=index_column,
                drop=drop or (),
                delimiter=delimiter,
                header=not no_header,
            )
            model = Relational(table, symmetric, bool(self_links), bias)
        else:
            if index_column is not None:
                raise BadOption("--index-column has no meaning for --format edges; --drop leaves a column out")
            edges = io.read_edges(
                file,
                symmetric=symmetric,
                self_links=self_links,
                drop=drop or (),
                delimiter=delimiter,
                header=not no_header,
            )
            model = Relational.from_edges(edges, symmetric, bool(self_links), bias)
        if model.num_pairs == 0:
            raise io.TableError(
                f"{file}: of no pair of nodes it is known whether they are linked; expected some 0 or 1"
            )
        if not bias and model.num_links < 0.2 * model.num_pairs:
            say("Note: the network is sparse; consider --bias.", style="yellow")
    run_fit(model, Notes(source=str(file), row_name="node"), run, run.out or default_out(file))


@app.command(
    "pyclone",
    cls=Command,
    epilog="Example: [bold]pgfa fit pyclone mutations.tsv --features 6 --density beta-binomial[/]",
)
@takes(RunOptions)
def fit_pyclone(
    file: File,
    density: Annotated[
        DensityName,
        typer.Option(
            metavar="NAME",
            help="Noise of read counts: binomial, or beta-binomial where they vary more, as most real ones do.",
        ),
    ] = DensityName.beta_binomial,
    delimiter: Delimiter = None,
    run: RunOptions = RunOptions(),  # noqa: B008
) -> None:
    """Read counts of mutations: which populations of cells carry which mutation.

    FILE has a row for each mutation and sample, and the columns of PyClone-VI: mutation_id, sample_id, ref_counts,
    alt_counts, major_cn, minor_cn, normal_cn and, perhaps, tumour_content and error_rate.
    """
    from pgfa import io

    with input_errors():
        from pgfa.models import PyClone
        from pgfa.report import Notes

        records = io.read_records(file, delimiter=delimiter)
        try:
            model = PyClone(records, density=density.value)
        except ValueError as error:
            # The model knows a table with labels of rows; the user, a file with lines.
            text = re.sub(r"row '((?:line|row) \d+)'", r"\1", str(error)).removeprefix("table ")
            raise io.TableError(f"{file} {text}") from None
    run_fit(model, Notes(source=str(file), row_name="mutation_id"), run, run.out or default_out(file))


# --- tables ---------------------------------------------------------------------------------------------------------


def describe_table(table: pd.DataFrame, source: str) -> None:
    """Say what was read, so that a wrong guess about labels is seen at once."""
    from pgfa.report.text import show

    labels = "numbered" if table.index.dtype != object else f"labels from column {show(table.index.name)!r}"
    if table.index.dtype == object and table.index.name is None:
        labels = "labels from the first column"
    missing = int(table.isna().to_numpy().sum())
    say(f"{show(source)}: {len(table)} rows ({labels}), {table.shape[1]} columns, {missing} entries missing")


def scale_of(table: pd.DataFrame) -> dict[str, list[float]]:
    """Mean and standard deviation of each column, as `pgfa.standardise` takes them out; NaN where nothing is
    observed."""
    scale: dict[str, list[float]] = {}
    for name in table.columns:
        observed = table[name].dropna()
        if observed.empty:
            continue
        is_constant = observed.min() == observed.max()
        scale[str(name)] = [float(observed.mean()), 1.0 if is_constant else float(observed.std(ddof=0))]
    return scale


def is_off_centre(table: pd.DataFrame) -> Any:
    """Whether most columns are further from zero than they scatter."""
    observed = table.dropna(axis=1, how="all")
    return bool((observed.mean().abs() > observed.std(ddof=0)).mean() > 0.5)
