"""`pgfa demo`: the models on real data that come with the package."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Show(StrEnum):
    mice = "mice"
    law_firm = "law-firm"
    leukaemia = "leukaemia"


def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for pictures and tables.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the chains, and of what is held out.")] = 1,
    draws: Annotated[
        int, typer.Option(min=4, metavar="N", help="Draws of each chain; more of them take longer.")
    ] = 150,
    only: Annotated[
        list[Show] | None,
        typer.Option(
            metavar="NAME",
            help="This data set only (mice, law-firm or leukaemia); may be given several times.",
            show_default="all",
        ),
    ] = None,
) -> None:
    """Fit real data that come with pgfa, in about a minute: proteins of mice, lawyers and their friends, a leukaemia.

    Each gets a folder with tables and pictures. Example: [bold]pgfa demo --only law-firm --out first-try[/]
    """
    from pgfa.cli.running import make_console, plain_warnings
    from pgfa.demo import run_demo

    with plain_warnings():
        run_demo(out, seed=seed, draws=draws, only=[show.value for show in only or []], console=make_console())
