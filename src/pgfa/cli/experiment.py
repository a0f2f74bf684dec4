"""`pgfa experiment`: the paper's comparisons of samplers, or your own, run and reported."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgfa.cli.options import RUN_PANEL, Command, Group, NoProgress
from pgfa.cli.running import give_up, input_errors, make_console, say

if TYPE_CHECKING:
    from pgfa.experiments.definition import Experiment
    from pgfa.experiments.report import Report
    from pgfa.experiments.verdicts import Verdict

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Compare samplers at equal time: the experiments of the paper, or your own.",
)


class Scale(StrEnum):
    smoke = "smoke"
    laptop = "laptop"
    paper = "paper"


def parse_times(text: str) -> list[float]:
    """Seconds separated by commas."""
    try:
        return [float(part) for part in str(text).split(",")]
    except ValueError:
        raise typer.BadParameter(f"expected seconds separated by commas, such as 1,10,100, got {text!r}") from None


Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="One of [bold]pgfa experiment list[/], or a TOML file.", show_default=False),
]
NameOrAll = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="One of [bold]pgfa experiment list[/], or a TOML file; all that were run unless given.",
        show_default=False,
    ),
]
ScaleOption = Annotated[
    Scale,
    typer.Option(
        metavar="NAME",
        help="[bold]smoke[/]: seconds, says nothing. [bold]laptop[/]: 16 chains a sampler, 15 minutes or less. "
        "[bold]paper[/]: 80 chains a sampler, for a cluster.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        file_okay=False, help="Folder; each experiment has one below it.", show_default="out/experiments/SCALE"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Processes, one chain at a time each; 0 for none but this one.",
        show_default="all cores",
        rich_help_panel=RUN_PANEL,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A running Dask scheduler, such as tcp://node:8786.",
        rich_help_panel=RUN_PANEL,
    ),
]
Times = Annotated[
    Any,
    typer.Option(
        parser=parse_times,
        metavar="SECONDS",
        help="Times of comparison, such as 1,10,100.",
        show_default="those of the scale",
        rich_help_panel=RUN_PANEL,
    ),
]
Samplers = Annotated[
    str | None,
    typer.Option(
        metavar="LABELS", help="Only these, separated by commas.", show_default="all", rich_help_panel=RUN_PANEL
    ),
]


@app.command("list", cls=Command)
def list_experiments() -> None:
    """Show all experiments of the paper, with the time that each takes."""
    from rich.table import Table

    from pgfa.experiments.definition import SHIPPED, load
    from pgfa.experiments.runner import estimate, num_workers

    cores = num_workers(None)
    table = Table(box=None, pad_edge=False)
    for column in ("name", "title", "samplers", f"laptop scale, {cores} cores", "paper scale, core hours"):
        table.add_column(column)
    laptop, paper = 0.0, 0.0
    for name in SHIPPED:
        experiment = load(name)
        seconds = estimate(experiment.at_scale("laptop"), cores)
        hours = estimate(experiment.at_scale("paper"), 1) / 3600.0
        laptop, paper = laptop + seconds, paper + hours
        table.add_row(name, experiment.title, str(len(experiment.samplers)), duration(seconds), f"{hours:.1f}")
    table.add_row("", "all of them", "", duration(laptop), f"{paper:.0f}")
    make_console().print(table)


@app.command("run", cls=Command, epilog="Example: [bold]pgfa experiment run lg-5 --scale laptop[/]")
def run_experiment(
    name: Name,
    scale: ScaleOption = Scale.laptop,
    out: Out = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    times: Times = None,
    samplers: Samplers = None,
    no_progress: NoProgress = False,
) -> None:
    """Run an experiment and report on it. What has been run already is kept: the same command goes on."""
    from pgfa.experiments import runner

    with stopping(), ExitStack() as stack:
        with input_errors():
            experiment = _at_scale(name, scale, times, samplers)
            folder = _folder(out, scale)
            client, bar = stack.enter_context(_ready([experiment], folder, workers, scheduler, no_progress))
        runner.run(experiment, folder / experiment.name, client=client, bar=bar)
        found = _report(_at_scale(name, scale, times, None), folder).verdicts
    _show(found, folder / experiment.name)


@app.command("report", cls=Command, epilog="Example: [bold]pgfa experiment report lg-5 --scale laptop[/]")
def report_experiment(name: NameOrAll = None, scale: ScaleOption = Scale.laptop, out: Out = None) -> None:
    """Report on what has been run so far, finished or not: on one experiment, or on all of the paper's together."""
    from pgfa.experiments.definition import SHIPPED
    from pgfa.experiments.report import write_summary
    from pgfa.experiments.runner import RunError

    with input_errors():
        folder = _folder(out, scale)
        names = [shipped for shipped in SHIPPED if (folder / shipped).exists()] if name is None else [name]
        if not names:
            raise RunError(f"{folder} holds no experiment of the paper: run one first")
        reports = [_report(_as_run(each, scale, folder), folder) for each in names]
        if name is None:
            write_summary(reports, folder)
    where = folder if name is None else folder / reports[0].experiment.name
    _show([verdict for report in reports for verdict in report.verdicts], where)


@app.command("run-all", cls=Command, epilog="Example: [bold]pgfa experiment run-all --scale laptop[/]")
def run_all(
    scale: ScaleOption = Scale.laptop,
    out: Out = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    times: Times = None,
    no_progress: NoProgress = False,
) -> None:
    """Run all experiments of the paper, one after the other, and report on them together."""
    from pgfa.experiments import runner
    from pgfa.experiments.definition import SHIPPED
    from pgfa.experiments.report import write_summary

    reports: list[Report] = []
    with stopping(), ExitStack() as stack:
        with input_errors():
            experiments = [_at_scale(name, scale, times, None) for name in SHIPPED]
            folder = _folder(out, scale)
            client, bar = stack.enter_context(_ready(experiments, folder, workers, scheduler, no_progress))
        for experiment in experiments:
            runner.run(experiment, folder / experiment.name, client=client, bar=bar)
            reports.append(_report(experiment, folder))
            write_summary(reports, folder)
    _show([verdict for report in reports for verdict in report.verdicts], folder)


# --- what they share --------------------------------------------------------------------------------------------------


def _at_scale(name: str, scale: Scale, times: Any, samplers: str | None) -> Experiment:
    from pgfa.experiments.definition import load

    chosen = None if samplers is None else samplers.split(",")
    return load(name).at_scale(scale.value, times=times, samplers=chosen)


def _as_run(name: str, scale: Scale, folder: Path) -> Experiment:
    """The experiment with the times that a folder holds chains of."""
    from pgfa.experiments.runner import RunError, read_settings

    experiment = _at_scale(name, scale, None, None)
    settings = read_settings(folder / experiment.name)
    experiment = _at_scale(name, scale, settings.get("times"), None)
    if settings.get("fingerprint") != experiment.fingerprint():
        raise RunError(f"{folder / experiment.name} holds a run of another definition of {experiment.name}")
    return experiment


def _folder(out: Path | None, scale: Scale) -> Path:
    return out or Path("out") / "experiments" / scale.value


def _report(experiment: Experiment, folder: Path) -> Report:
    from pgfa.experiments.report import write_report

    return write_report(experiment, folder / experiment.name)


@contextmanager
def _ready(
    experiments: list[Experiment], folder: Path, workers: int | None, scheduler: str | None, no_progress: bool
) -> Iterator[tuple[Any, Any]]:
    """Check everything, say how long it will take, and connect; a client and a bar where they are wanted."""
    from pgfa.experiments import runner

    runner.check_installed()
    for experiment in experiments:
        runner.check(experiment, folder / experiment.name)
    waiting = [
        (experiment, len(runner.missing_chains(experiment, folder / experiment.name))) for experiment in experiments
    ]
    chains = sum(count for _, count in waiting)
    seconds = sum(count * runner.seconds_of_chain(experiment) for experiment, count in waiting)
    with ExitStack() as stack:
        client = None
        if chains:
            client = stack.enter_context(runner.connect(workers, scheduler))
            threads = list(client.nthreads().values()) if scheduler is not None else [1] * runner.num_workers(workers)
            _say_estimate(chains, seconds, threads, scheduler)
            if not no_progress:
                yield client, stack.enter_context(runner.Bar(waiting))
                return
        else:
            say("All chains are there already.")
        yield client, None


def _say_estimate(chains: int, seconds: float, threads: list[int], scheduler: str | None) -> None:
    if scheduler is not None and not threads:
        say(f"{chains} chains, {duration(seconds)} of processor time. No worker is there yet: waiting.", style="yellow")
        return
    count = max(len(threads), 1)
    say(
        f"{chains} chains on {count} {'core' if count == 1 else 'cores'}: about {duration(seconds / count)}, and what "
        "compiling takes the first time"
    )
    if any(number > 1 for number in threads):
        say("Note: some workers have several threads; their chains would disturb each other's times.", style="yellow")


def _show(found: list[Verdict], folder: Path) -> None:
    from rich.table import Table

    from pgfa.report.text import number, plain

    console = make_console()
    if found:
        table = Table(box=None, pad_edge=False)
        for column in ("experiment", "the paper found", "we", "p", "p of signs", "wins"):
            table.add_column(column)
        for verdict in found:
            words = (verdict.experiment, verdict.finding, verdict.verdict)
            numbers = (verdict.p, verdict.p_sign, verdict.wins)
            table.add_row(*(plain(word) for word in (*words, *map(number, numbers))))
        console.print(table)
    console.print(plain(f"In {folder}: report.html, report.md and what they are made of"), soft_wrap=True)


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def stopping() -> Iterator[None]:
    """Ctrl-C and SIGTERM end quietly: every chain that was complete has been written."""
    received = signal.SIGINT

    def note(number: int, frame: Any) -> None:
        nonlocal received
        received = signal.Signals(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield
    except KeyboardInterrupt:
        give_up("Stopped. Complete chains are kept; the same command goes on from here.", 128 + received)
    finally:
        signal.signal(signal.SIGTERM, before)
