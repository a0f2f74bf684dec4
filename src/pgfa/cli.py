"""The command `pgfa`. What is heavy is imported by the command that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import pgfa

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pgfa {pgfa.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Bayesian feature allocation: every row of the data owns a subset of latent features."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for pictures and tables.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the chains and of the entries held out.")] = 1,
    iterations: Annotated[int, typer.Option(min=9, help="Iterations of each chain, a third of them warm-up.")] = 900,
) -> None:
    """Find features in the protein levels of mice, and fill in levels that were held out."""
    from pgfa.demo import run_demo

    run_demo(out, seed=seed, iterations=iterations)
