"""`pgfa simulate`: data with a known truth, in the form that `pgfa fit` reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgfa.cli.options import BadOption, Command, Group, takes
from pgfa.cli.running import input_errors, make_console, naming_out

if TYPE_CHECKING:
    import pandas as pd

    from pgfa.priors.base import Prior
    from pgfa.simulation import Simulation

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Draw a data set from a model, and write down the truth behind it.",
)


@dataclass(frozen=True)
class SimulationOptions:
    """What to draw, whatever the model."""

    out: Annotated[Path, typer.Option(dir_okay=False, help="File for the data: .csv or .tsv, with .gz if you like.")]
    features: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="K", help="Number of features.", show_default="drawn from the Indian buffet process"
        ),
    ] = None
    alpha: Annotated[
        float, typer.Option(min=1e-9, metavar="X", help="Concentration: the larger, the more features a row owns.")
    ] = 2.0
    seed: Annotated[
        int | None, typer.Option(min=0, help="The same seed gives the same data.", show_default="random")
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there already.")] = False

    def make_prior(self) -> Prior:
        from pgfa.priors import BetaBernoulli, IndianBuffet

        return IndianBuffet() if self.features is None else BetaBernoulli(self.features)


Rows = Annotated[int, typer.Option(min=1, metavar="N", help="Number of rows.")]
Missing = Annotated[float, typer.Option(min=0.0, max=1.0, metavar="X", help="Share of the entries that go missing.")]


@app.command(
    "linear-gaussian",
    cls=Command,
    epilog="Example: [bold]pgfa simulate linear-gaussian --features 5 --seed 1 --out data.csv[/]",
)
@takes(SimulationOptions)
def simulate_linear_gaussian(
    rows: Rows = 100,
    columns: Annotated[int, typer.Option(min=1, metavar="N", help="Number of columns.")] = 10,
    tau_v: Annotated[float, typer.Option(min=1e-9, metavar="X", help="Precision of the values of features.")] = 0.25,
    tau_x: Annotated[float, typer.Option(min=1e-9, metavar="X", help="Precision of the noise.")] = 25.0,
    missing: Missing = 0.1,
    intercept: Annotated[bool, typer.Option("--intercept", help="Add a mean for each column.")] = False,
    options: SimulationOptions = None,  # type: ignore[assignment]
) -> None:
    """A table of numbers, each row the sum of its features plus noise."""
    _simulate(
        "linear-gaussian", options, _matrix, num_rows=rows, num_columns=columns, tau_v=tau_v, tau_x=tau_x,
        missing=missing, intercept=intercept,
    )  # fmt: skip


@app.command(
    "relational",
    cls=Command,
    epilog="Example: [bold]pgfa simulate relational --rows 60 --symmetric --out network.csv[/]",
)
@takes(SimulationOptions)
def simulate_relational(
    rows: Rows = 60,
    symmetric: Annotated[bool, typer.Option("--symmetric", help="Links have no direction.")] = False,
    tau: Annotated[float, typer.Option(min=1e-9, metavar="X", help="Precision of the weights.")] = 0.25,
    bias: Annotated[float | None, typer.Option(help="Added to all scores.", show_default="none")] = None,
    missing: Missing = 0.05,
    options: SimulationOptions = None,  # type: ignore[assignment]
) -> None:
    """A network as a square table of 0, 1 and missing; nodes have no links with themselves."""
    _simulate(
        "relational", options, _network, num_rows=rows, symmetric=symmetric, self_links=False, tau=tau, bias=bias,
        missing=missing
    )  # fmt: skip


@app.command(
    "pyclone",
    cls=Command,
    epilog="Example: [bold]pgfa simulate pyclone --rows 100 --samples 6 --features 4 --out mutations.tsv[/]",
)
@takes(SimulationOptions)
def simulate_pyclone(
    rows: Rows = 100,
    samples: Annotated[int, typer.Option(min=1, metavar="N", help="Number of samples.")] = 4,
    depth: Annotated[float, typer.Option(min=1.0, metavar="X", help="Mean number of reads.")] = 1000.0,
    missing: Missing = 0.0,
    options: SimulationOptions = None,  # type: ignore[assignment]
) -> None:
    """Read counts of mutations in the columns of PyClone-VI."""
    _simulate("pyclone", options, _counts, num_rows=rows, num_samples=samples, mean_depth=depth, missing=missing)


# --- tables ---------------------------------------------------------------------------------------------------------

#: The data as a table, the labels of its rows, and the labels of the columns of V.
Tables = tuple["pd.DataFrame", list[str], list[str]]


def _matrix(truth: Simulation) -> Tables:
    import pandas as pd

    rows = [f"row {n + 1}" for n in range(truth.data.shape[0])]
    columns = [f"column {d + 1}" for d in range(truth.data.shape[1])]
    table = pd.DataFrame(truth.data, columns=columns)
    table.insert(0, "row", rows)
    return table, rows, columns


def _network(truth: Simulation) -> Tables:
    import pandas as pd

    nodes = [f"node {n + 1}" for n in range(truth.data.shape[0])]
    table = pd.DataFrame(truth.data, columns=nodes).astype("Int64")
    table.insert(0, "node", nodes)
    return table, nodes, feature_names(truth.state.num_features)


def _counts(truth: Simulation) -> Tables:
    mutations, samples = (list(dict.fromkeys(truth.data[name])) for name in ("mutation_id", "sample_id"))
    return truth.data, mutations, samples


def _simulate(
    model_name: str, options: SimulationOptions, to_tables: Callable[[Simulation], Tables], **sizes: Any
) -> None:
    with input_errors():
        if _split_name(options.out)[1] not in (".csv", ".tsv"):
            raise BadOption(f"--out must end with .csv or .tsv, and perhaps .gz, got {options.out}")
        there = [str(path) for path in _paths(options.out) if path.exists()]
        if there and not options.overwrite:
            verb = "exists" if len(there) == 1 else "exist"
            raise BadOption(f"{' and '.join(there)} {verb} already: choose another --out, or say --overwrite")
        from pgfa.simulation import simulate

        truth = simulate(model_name, options.make_prior(), rng=options.seed, alpha=options.alpha, **sizes)
        written = _write(truth, options.out, *to_tables(truth))
    from pgfa.report.text import plain

    console = make_console()
    console.print(f"{truth.state.num_rows} rows with {truth.state.num_features} features:")
    for path, what in written:
        console.print(plain(f"  {path}: {what}"), soft_wrap=True)


def _split_name(path: Path) -> tuple[str, str]:
    """Name and ending of a file that may be compressed."""
    name = Path(path.name[:-3] if path.name.lower().endswith(".gz") else path.name)
    return name.stem, name.suffix.lower()


def _write(
    truth: Simulation, out: Path, data: pd.DataFrame, rows: list[str], columns: list[str]
) -> list[tuple[Path, str]]:
    """The data, and beside them who owns which feature and what these do."""
    import pandas as pd

    from pgfa.io import write_table

    names = feature_names(truth.state.num_features)
    owners = pd.DataFrame(truth.state.Z, columns=names)
    owners.insert(0, "row", rows)
    values = pd.DataFrame(truth.state.parameters["V"], columns=columns)
    values.insert(0, "feature", names)
    paths = _paths(out)
    with naming_out(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        for path, table in zip(paths, (data, owners, values)):
            write_table(table, path)
    return list(zip(paths, ("the data", "who owns which feature", "what the features do")))


def _paths(out: Path) -> tuple[Path, Path, Path]:
    """The files for the data, the owners and the values of the features."""
    stem, _ = _split_name(out)
    return out, out.with_name(f"{stem}-truth-owners.csv"), out.with_name(f"{stem}-truth-values.csv")


def feature_names(num_features: int) -> list[str]:
    """F1, F2, ..."""
    return [f"F{k + 1}" for k in range(num_features)]
