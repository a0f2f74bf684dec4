"""The demonstration: each model on real data that come with the package, one file a data set."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from pgfa.demo.show import Stage
from pgfa.report.text import plain

#: Each show is the function `show` of the module of that name.
SHOWS = ("mice", "law-firm", "leukaemia")


def run_demo(
    out: Path, *, seed: int = 1, draws: int = 150, only: Sequence[str] = (), console: Console | None = None
) -> None:
    """Fit each data set, say what was found, and write tables and pictures to a folder of its own in `out`.

    Parameters
    ----------
    draws
        Draws of each of two chains, after about as many iterations of warm-up.
    only
        Names of the shows to give; all of them unless given.
    """
    console = console or Console(highlight=False)
    for name in only or SHOWS:
        stage = Stage(console=console, out=out / name, seed=seed, draws=draws)
        importlib.import_module(f"pgfa.demo.{name.replace('-', '_')}").show(stage)
        console.print(plain(f"Written to {stage.out}: {', '.join(stage.written)}"), soft_wrap=True)
        console.print()
    console.print(
        plain("Your own data: pgfa fit linear-gaussian|relational|pyclone FILE; see pgfa fit --help."), style="bold"
    )
