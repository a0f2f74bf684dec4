"""From a model to a report: what fit, resume and demo do alike, and how they end.

Exit codes: 0 all went well, 1 something unexpected, 2 a file or option that cannot be used, 130 stopped by Ctrl-C
(143 by SIGTERM), with everything drawn so far saved.
"""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from pgfa.cli.options import BadOption, RunOptions

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console

    from pgfa.models.base import Model
    from pgfa.report import Notes

RUN, NOTES = "run.zarr", "fit.json"


def make_console(*, stderr: bool = False) -> Console:
    """A console; where nobody looks, lines may be as long as tables need."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=max(console.width, 120))


def say(text: str, style: str = "") -> None:
    """A message to the person at the terminal, apart from the results."""
    from pgfa.report.text import plain

    for line in text.split("\n"):
        make_console(stderr=True).print(plain(line), style=style, soft_wrap=True)


def give_up(text: str, code: int) -> NoReturn:
    """Say what is wrong and end, without a traceback."""
    say(text, style="bold red" if code == 2 else "")
    raise typer.Exit(code)


@contextmanager
def input_errors() -> Iterator[None]:
    """What is wrong with the user's files and options is said plainly and ends with code 2."""
    try:
        yield
    except (ValueError, OSError) as error:
        give_up(f"Error: {error}", 2)


@dataclass
class Stop:
    """Which signal, if any, has asked for an end."""

    signal: int = 0


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Inside, Ctrl-C and SIGTERM stop the chains after their present iteration, and we know that they did."""
    stop = Stop()

    def note(number: int, frame: Any) -> None:
        if not stop.signal:
            say("\nStopping after the present iteration, and saving ...")
        stop.signal = number
        raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one line each, without the code that they come from."""
    before = warnings.showwarning
    warnings.showwarning = lambda message, *_, **__: say(f"Note: {message}", style="yellow")
    try:
        yield
    finally:
        warnings.showwarning = before


# --- folders --------------------------------------------------------------------------------------------------------


def prepare(out: Path, model: Model, source: Path, *, overwrite: bool) -> Path:
    """The place of the store in a folder that has none yet, and none of the files that the run will write.

    What an earlier run has left goes if `overwrite`; what is not of a run of ours stays, and we do not begin.
    """
    from pgfa.report import file_names
    from pgfa.storage import RunStore, StoreError

    path = out / RUN
    if out.exists() and not out.is_dir():
        raise BadOption(f"{out} is a file: --out must be a folder")
    written = [*file_names(model), NOTES]
    # Of an earlier run, which may have been of another model, all files go.
    replaced = file_names() if overwrite and (path.exists() or has_notes(out)) else []
    for name in {*written, *replaced}:
        if (out / name).exists() and source.exists() and (out / name).samefile(source):
            raise BadOption(
                f"--out {out}: the run would write its {name} over the input {source}; choose another --out"
            )
    if path.exists():
        try:
            RunStore(path).settings()
        except StoreError:
            raise BadOption(f"{path} exists and is not a run of pgfa: choose another --out") from None
        if not overwrite:
            raise BadOption(
                f"{out} holds a run already: go on with it (pgfa resume {shlex.quote(str(out))}), choose another "
                f"--out, or say "
                "--overwrite"
            )
        shutil.rmtree(path)
    elif not has_notes(out):
        _refuse_files(out, written, "which is of no run of pgfa: choose another --out, or move it away")
    elif not overwrite:
        _refuse_files(out, [name for name in written if name != NOTES], "choose another --out, or say --overwrite")
    with naming_out(out):
        for name in replaced:
            (out / name).unlink(missing_ok=True)
        out.mkdir(parents=True, exist_ok=True)
    return path


def _refuse_files(out: Path, names: list[str], what_to_do: str) -> None:
    found = [name for name in names if (out / name).exists()]
    if found:
        raise BadOption(f"{out} holds {' and '.join(found)}, which this run would write over; {what_to_do}")


@contextmanager
def naming_out(out: Path) -> Iterator[None]:
    """Where nothing can be written, the option is named that led there."""
    try:
        yield
    except OSError as error:
        raise BadOption(f"--out {out}: cannot write there ({error.strerror or error})") from None


def find_run(folder: Path) -> tuple[Path, Path]:
    """The folder of a fit and the store in it, given either."""
    if not folder.exists():
        raise BadOption(f"{folder} does not exist")
    if (folder / RUN).exists():
        return folder, folder / RUN
    if (folder / "zarr.json").exists():
        return folder.resolve().parent, folder
    raise BadOption(f"{folder} holds no run: expected a folder that pgfa fit wrote, with {RUN} in it")


def write_notes(out: Path, notes: Notes) -> None:
    (out / NOTES).write_text(json.dumps({"format": 1, **asdict(notes)}, indent=1) + "\n", encoding="utf-8")


def has_notes(out: Path) -> bool:
    """Whether a run has begun in this folder, if only to be cut short or taken away later."""
    try:
        return {"format", "source", "row_name", "scale"} <= set(json.loads((out / NOTES).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return False


def read_notes(out: Path) -> Notes:
    """What was noted about the table; nothing where the file is missing or not ours, for the draws stand without it."""
    from pgfa.report import Notes

    try:
        found = json.loads((out / NOTES).read_text(encoding="utf-8"))
        scale = {str(name): [float(pair[0]), float(pair[1])] for name, pair in found["scale"].items()}
        return Notes(source=str(found["source"]), row_name=str(found["row_name"]), scale=scale)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return Notes()


# --- running --------------------------------------------------------------------------------------------------------


def run_fit(model: Model, notes: Notes, run: RunOptions, out: Path) -> None:
    """Draw, save, and report; the end of every `pgfa fit`."""
    with input_errors():
        prior, sampler = run.make_prior(), run.make_sampler()
        path = prepare(out, model, Path(notes.source), overwrite=run.overwrite)
        with naming_out(out):
            write_notes(out, notes)
    say(f"{model!r}, prior {prior!r}, sampler {sampler!r}")
    say("The first iteration compiles, which takes a while once.")

    def draw() -> xr.DataTree:
        from pgfa.inference.sampling import sample

        return sample(
            model, prior, sampler, draws=run.draws, warmup=run.warmup, thin=run.thin, chains=run.chains,
            cores=run.cores, seed=run.seed, anneal=not run.no_anneal, starts=run.starts,
            renew=not run.no_renew, column_moves=not run.no_column_moves,
            progress=not run.no_progress, check=False, checkpoint=path, max_time=run.max_time,
        )  # fmt: skip

    finish(draw, model, notes, out)


def finish(draw: Callable[[], xr.DataTree], model: Model, notes: Notes, out: Path) -> None:
    """Draw, report on what there is, and say how to go on where there is more to come."""
    from pgfa.inference.sampling import NoDrawsError
    from pgfa.storage import StoreError

    how_to_go_on = f"pgfa resume {shlex.quote(str(out))}"
    with plain_warnings(), stoppable() as stop:
        try:
            tree = draw()
        except StoreError as error:
            give_up(f"Error: {error}", 2)
        except KeyboardInterrupt:
            give_up(
                f"Stopped at once. All but the last seconds is saved; go on with: {how_to_go_on}", 128 + stop.signal
            )
        except NoDrawsError:
            why, code = ("Stopped", 128 + stop.signal) if stop.signal else ("The time was up", 1)
            give_up(f"{why} before the first draw. The warm-up is saved; go on with: {how_to_go_on}", code)
    report(tree, model, notes, out)
    if stop.signal:
        give_up(f"Stopped early. Everything is saved; go on with: {how_to_go_on}", 128 + stop.signal)
    done, wanted = iterations_of(out / RUN)
    if done < wanted:
        say(f"The time was up after {done} of {wanted} iterations. Go on with: {how_to_go_on}")


def report(
    tree: xr.DataTree, model: Model, notes: Notes, out: Path, *, chains: list[int] | None = None, write: bool = True
) -> None:
    """Print what was found and write tables and pictures."""
    from pgfa.report import make_fit, print_report, write_report
    from pgfa.report.base import findings_of
    from pgfa.report.text import plain

    fit = make_fit(tree, model, notes, chains=chains)
    findings = findings_of(fit)
    console = make_console()
    print_report(fit, console, findings=findings)
    if write:
        written = write_report(fit, out, findings=findings)
        console.print()
        console.print(plain(f"In {out}: {', '.join(written)}; draws in {RUN}"), soft_wrap=True)


def iterations_of(path: Path) -> tuple[int, int]:
    """How many iterations the chain that is least far has done, and how many it should."""
    from pgfa.inference.run import finished_iterations
    from pgfa.storage import RunStore

    store = RunStore(path)
    settings = store.settings()
    done = min(finished_iterations(store, i) for i in range(int(settings["chains"])))
    return done, int(settings["warmup"]) + int(settings["draws"]) * int(settings["thin"])


def default_out(file: Path) -> Path:
    """A folder named after the file, in the present folder."""
    name = file.name
    for ending in (".gz", ".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq"):
        name = name[: -len(ending)] if name.lower().endswith(ending) else name
    return Path(f"{name or 'pgfa'}-fit")
