"""All commands, and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

import pgfa
from pgfa.cli import demo, experiment, fit, resume, simulate, summary
from pgfa.cli.options import Command, Group, unwrapped


class InOrder(Group):
    """Commands in the order in which a newcomer needs them."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return ["fit", "resume", "summary", "simulate", "experiment", "demo"]


app = typer.Typer(
    cls=InOrder,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pgfa {pgfa.__version__}")
        raise typer.Exit


@app.callback(
    epilog="A first try: [bold]pgfa demo[/], or [bold]pgfa simulate linear-gaussian --out data.csv[/] and then "
    "[bold]pgfa fit linear-gaussian data.csv[/]."
)
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Bayesian feature allocation: every row of a table owns some of a set of hidden features.

    Tables go in as CSV, TSV or Parquet, compressed with gzip or not. Draws, tables and pictures come out in a folder.
    """


app.add_typer(fit.app, name="fit")
app.command("resume", cls=Command, help=unwrapped(resume.resume.__doc__))(resume.resume)
app.command("summary", cls=Command, help=unwrapped(summary.summary.__doc__))(summary.summary)
app.add_typer(simulate.app, name="simulate")
app.add_typer(experiment.app, name="experiment")
app.command("demo", cls=Command, help=unwrapped(demo.demo.__doc__))(demo.demo)
