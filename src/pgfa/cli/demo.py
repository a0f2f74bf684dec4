"""`pgfa demo`: the models on real data that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for pictures and tables.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the chains and of the entries held out.")] = 1,
    iterations: Annotated[int, typer.Option(min=9, help="Iterations of each chain, a third of them warm-up.")] = 900,
) -> None:
    """Find features in the protein levels of mice, and fill in levels that were held out."""
    from pgfa.demo import run_demo

    run_demo(out, seed=seed, iterations=iterations)
