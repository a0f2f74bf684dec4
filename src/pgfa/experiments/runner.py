"""All chains of an experiment on a Dask cluster, each written when it ends: a stopped run goes on where it was."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pgfa import checks
from pgfa.experiments.definition import Experiment
from pgfa.experiments.parts import check_parts
from pgfa.experiments.task import Key, all_keys, grid, run_task

SETTINGS = "experiment.json"

#: What a chain costs beside its own time, in seconds: simulating, scoring, sending; measured roughly.
_OVERHEAD = 0.5

#: How often a chain is tried again where a worker is lost under it or it fails.
_RETRIES = 3


class RunError(ValueError):
    """A folder that does not hold what it should."""


def seconds_of_chain(experiment: Experiment) -> float:
    """Seconds that a chain takes, with all that belongs to it."""
    return experiment.times[-1] + _OVERHEAD


def estimate(experiment: Experiment, workers: int) -> float:
    """Seconds that the chains will take, once everything is compiled."""
    return seconds_of_chain(experiment) * experiment.num_chains / max(workers, 1)


def run(
    experiment: Experiment,
    out: Path,
    *,
    client: Any = None,
    bar: Bar | None = None,
    on_done: Callable[[Key], None] | None = None,
) -> list[Key]:
    """Run all chains that the folder does not hold yet; returns those that were run.

    Parameters
    ----------
    experiment
        At its scale (`Experiment.at_scale`).
    out
        Folder of this experiment. It must be new, or hold a run of the same definition.
    client
        Where to run, from `connect`; in this process unless given.
    bar
        Shows how far it is.
    on_done
        Called for every chain that has been written.
    """
    check(experiment, out)
    prepare(experiment, out)
    waiting = missing_chains(experiment, out)
    if not waiting:
        return []
    for key, result in _results(experiment, waiting, client):
        write_chain(out, key, result)
        if bar is not None:
            bar.advance(experiment)
        if on_done is not None:
            on_done(key)
    return waiting


def _results(experiment: Experiment, waiting: list[Key], client: Any) -> Iterator[tuple[Key, dict[str, Any]]]:
    if client is None:
        for key in waiting:
            yield key, run_task(experiment, key)
        return
    import distributed

    # Results come back to this process, which writes them: workers elsewhere need not see the folder. Dask runs the
    # chains of a worker that is lost on another one.
    futures = {client.submit(run_task, experiment, key, pure=False, retries=_RETRIES): key for key in waiting}
    try:
        for future in distributed.as_completed(list(futures)):
            yield futures.pop(future), future.result()
    finally:
        client.cancel(list(futures))


@contextmanager
def connect(workers: int | None = None, scheduler: str | None = None) -> Iterator[Any]:
    """A Dask client for `run`.

    Parameters
    ----------
    workers
        Processes on this machine, one chain at a time each; as many as there are cores unless given. With 0 there is no
        client, and chains run in this process.
    scheduler
        Address of a running Dask scheduler to use instead; its workers should have one thread each.
    """
    workers = num_workers(workers)
    if workers == 0 and scheduler is None:
        yield None
        return
    try:
        import distributed
    except ImportError:
        raise RunError("running on several workers needs Dask: pip install 'pgfa[experiments]'") from None
    with ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            address = _local_cluster(workers)
            stack.enter_context(address)
        try:
            client = stack.enter_context(distributed.Client(address, timeout="20s"))
        except (OSError, TimeoutError, ValueError) as error:
            raise RunError(f"no Dask scheduler answers at {scheduler}: {error}") from None
        yield client


def _local_cluster(workers: int) -> Any:
    import distributed

    # Ctrl-C in a terminal reaches workers too, which would complain at length: they inherit that it is ignored.
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    try:
        # A limit of memory would make Dask restart workers; its pages of status must not be open to others.
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=None,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            silence_logs=50,
        )
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


def num_workers(workers: int | None) -> int:
    """As many as there are cores unless given."""
    return os.cpu_count() or 1 if workers is None else checks.whole("workers", workers, at_least=0)


def check_installed() -> None:
    """Whether what a report will need is there, before chains run for hours."""
    if importlib.util.find_spec("scikit_posthocs") is None:
        raise RunError("the tests of experiments need scikit-posthocs: pip install 'pgfa[experiments]'")


# --- the folder -------------------------------------------------------------------------------------------------------


def check(experiment: Experiment, out: Path) -> None:
    """What can be wrong before anything runs: a definition that does not work, a folder of something else."""
    check_parts(experiment)
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file: expected a folder")
    path = out / SETTINGS
    if path.exists():
        found = read_settings(out)
        if found.get("fingerprint") != experiment.fingerprint():
            raise RunError(
                f"{out} holds a run of {_difference(found, experiment)}: choose another folder, or remove it"
            )
    elif out.exists() and any(out.iterdir()):
        raise RunError(f"{out} is not empty and holds no experiment: choose another folder")


def prepare(experiment: Experiment, out: Path) -> None:
    """Make the folder and say in it what it is for."""
    path = out / SETTINGS
    if not path.exists():
        write_atomically(path, {"format": 1, "fingerprint": experiment.fingerprint(), **asdict(experiment)})


def _difference(found: dict[str, Any], experiment: Experiment) -> str:
    """In few words, what another run has that this one has not."""
    now = json.loads(json.dumps(asdict(experiment)))
    for name in ("name", "scale", "times", "seed", "data", "prior", "model", "warmup", "update", "metrics"):
        if found.get(name) != now[name]:
            return f"another definition ({name}: {found.get(name)} there, {now[name]} here)"
    return "another definition"


def read_settings(out: Path) -> dict[str, Any]:
    """What the folder says of its run."""
    path = out / SETTINGS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise RunError(f"{out} holds no experiment: run it first") from None
    except ValueError:
        raise RunError(f"{path} is damaged: remove the folder and run again") from None
    if not isinstance(found, dict) or found.get("format") != 1:
        raise RunError(f"{path} is not of this version of pgfa")
    return found


def missing_chains(experiment: Experiment, out: Path) -> list[Key]:
    """The chains that are still to be run; a damaged file counts as none."""
    return [key for key in all_keys(experiment) if read_chain(experiment, out, key) is None]


def read_chain(experiment: Experiment, out: Path, key: Key) -> dict[str, Any] | None:
    """What was kept of a chain, or None where there is nothing whole of this very run and sampler."""
    try:
        found = json.loads((out / key.path).read_text(encoding="utf-8"))
        whole = (
            found["fingerprint"] == experiment.fingerprint()
            and found["settings"] == json.loads(json.dumps(experiment.entry(key.sampler).what_it_does()))
            and tuple(found[name] for name in Key._fields) == tuple(key)
            and len(found["trace"]["time"]) == len(grid(experiment.times))
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if whole else None


def write_chain(out: Path, key: Key, result: dict[str, Any]) -> None:
    write_atomically(out / key.path, result)


def write_atomically(path: Path, content: dict[str, Any]) -> None:
    """Write JSON under another name first: a file of this name is always whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class Bar:
    """A progress bar with the time left, on standard error, for one experiment or several.

    Parameters
    ----------
    waiting
        Experiments with the number of chains of each that are still to be run.
    """

    def __init__(self, waiting: list[tuple[Experiment, int]]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._done = {experiment.name: 0 for experiment, _ in waiting}
        self._counts = {experiment.name: count for experiment, count in waiting}
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[chains]}, left"),
            TimeRemainingColumn(), console=Console(stderr=True), speed_estimate_period=1200.0,
        )  # fmt: skip
        # In units of time, for a chain of one experiment may take a hundred times as long as one of another.
        total = sum(count * seconds_of_chain(experiment) for experiment, count in waiting)
        self._task = self._progress.add_task("", total=total, chains=f"{sum(self._counts.values())} chains")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, experiment: Experiment) -> None:
        """A chain of this experiment has been written."""
        name = experiment.name
        self._done[name] += 1
        text = f"{self._done[name]}/{self._counts[name]} chains"
        self._progress.update(
            self._task, advance=seconds_of_chain(experiment), description=name, chains=text
        )  # fmt: skip
