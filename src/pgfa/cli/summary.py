"""`pgfa summary`: what a run has found so far."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from pgfa.cli.running import find_run, input_errors, iterations_of, read_notes, report, say


def summary(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder that pgfa fit wrote to.", show_default=False)],
    chain: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Look at this chain only; may be given several times.", show_default="all"),
    ] = None,
    no_write: Annotated[
        bool, typer.Option("--no-write", help="Leave tables and pictures as they are; otherwise they are written anew.")
    ] = False,
) -> None:
    """Show what a fit has found, finished or not: diagnostics, features and their owners.

    Nothing is drawn, and the fit may be running still. Example: [bold]pgfa summary levels-fit --chain 2[/]
    """
    with input_errors():
        folder, path = find_run(out)
        from pgfa.inference.sampling import load, load_model
        from pgfa.storage import StoreError
        from pgfa.summary import choose_chains

        model = load_model(path)
        for attempt in range(3):
            try:
                tree = load(path, model=model)
                break
            except StoreError:
                # A run that is going on replaces its snapshots; what was there a moment ago may be gone.
                if attempt == 2:
                    raise
                time.sleep(0.2)
        choose_chains(tree["posterior"].dataset, chain)
        done, wanted = iterations_of(path)
        notes = read_notes(folder)
    if done < wanted:
        say(f"The run is not finished: {done} of {wanted} iterations are saved.")
    report(tree, model, notes, folder, chains=chain, write=not no_write)
