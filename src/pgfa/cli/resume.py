"""`pgfa resume`: go on with a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgfa.cli.options import Cores, MaxTime, NoProgress
from pgfa.cli.running import find_run, finish, input_errors, iterations_of, read_notes, say

if TYPE_CHECKING:
    import xarray as xr


def resume(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder that pgfa fit wrote to.", show_default=False)],
    cores: Cores = None,
    max_time: MaxTime = None,
    no_progress: NoProgress = False,
) -> None:
    """Go on with a fit that was stopped, by Ctrl-C, --max-time or a crash. The draws are those of a run without a
    break.

    A finished fit is only summarised again. Example: [bold]pgfa resume levels-fit[/]
    """
    with input_errors():
        folder, path = find_run(out)
        from pgfa.inference import sampling

        model = sampling.load_model(path)
        done, wanted = iterations_of(path)
        notes = read_notes(folder)
    say("The run is finished." if done >= wanted else f"Going on after {done} of {wanted} iterations.")

    def draw() -> xr.DataTree:
        return sampling.resume(path, model=model, cores=cores, progress=not no_progress, check=False, max_time=max_time)

    finish(draw, model, notes, folder)
