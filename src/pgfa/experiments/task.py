"""One chain of an experiment, timed by the processor time of its own thread, and what is kept of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numba.core import event
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pgfa import metrics
from pgfa.experiments.definition import Entry, Experiment, slug
from pgfa.experiments.parts import chain_seed, draw_start, make_chain, make_model, score_all, simulate_data, versions
from pgfa.inference.chain import Chain
from pgfa.inference.warmup import WarmingChain, annealing_share
from pgfa.models.base import Model
from pgfa.state import State

#: Points in time at which traces are kept, for each factor of ten.
_POINTS_PER_DECADE = 12

#: The first of them, as a share of the first time at which samplers are compared.
_FIRST_POINT = 0.1

#: Iterations on copies before the clock starts, so that everything is compiled by then.
_DRY_ITERATIONS = 3


class Key(NamedTuple):
    """Which chain."""

    sampler: str
    data: int
    start: int
    restart: int

    @property
    def path(self) -> str:
        """Where its trace is kept, below the folder of the run."""
        return f"chains/{slug(self.sampler)}/data{self.data}-start{self.start}-restart{self.restart}.json"


def all_keys(experiment: Experiment) -> list[Key]:
    """Every chain of an experiment, block by block: what is compared is run at about the same time."""
    num_data, num_starts, num_restarts = experiment.sizes
    return [
        Key(entry.label, data, start, restart)
        for restart in range(num_restarts)
        for data in range(num_data)
        for start in range(num_starts)
        for entry in experiment.samplers
    ]


def grid(times: tuple[float, ...]) -> NDArray[np.float64]:
    """Logarithmically spaced times, the given ones among them.

    Examples
    --------
    >>> points = grid((1.0, 10.0))
    >>> bool(1.0 in points and 10.0 in points), round(float(points[0]), 3)
    (True, 0.1)
    """
    first, last = _FIRST_POINT * times[0], times[-1]
    count = int(np.ceil(np.log10(last / first) * _POINTS_PER_DECADE)) + 1
    points = np.geomspace(first, last, count)
    # A point that nearly is one of the times gives way to it.
    apart = np.all(np.abs(np.log(points[:, None] / np.array(times))) > 0.5 * np.log(10) / _POINTS_PER_DECADE, axis=1)
    return np.unique(np.concatenate([points[apart], times]))


class _CompilerClock(event.Listener):
    """Processor time that numba has taken in this thread, to compile or to load what was compiled before."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._started = 0.0

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._started = time.thread_time()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.thread_time() - self._started


@contextmanager
def _compiler_clock() -> Iterator[_CompilerClock]:
    clock = _CompilerClock()
    event.register("numba:compiler_lock", clock)
    try:
        yield clock
    finally:
        event.unregister("numba:compiler_lock", clock)


def log_density_of(chain: Chain, state: State) -> float:
    """Log density of a state other than the present one."""
    return Chain(chain.model, chain.prior, seed=0, state=state).log_density()


def run_task(experiment: Experiment, key: Key) -> dict[str, Any]:
    """Run one chain; returns its trace and all that is needed to run it again, ready to be written as JSON."""
    entry = experiment.entry(key.sampler)
    with threadpool_limits(1):
        truth = simulate_data(experiment, key.data)
        start = draw_start(experiment, key.start, truth)
        model = make_model(experiment, entry, truth)
        seed = chain_seed(experiment, *key)
        run = WarmingChain(
            lambda number, seed: make_chain(experiment, entry, model, start if number == 0 else None, seed), seed,
            warmup=experiment.warmup, share=annealing_share(entry.anneal, model),
            starts=model.warmup_starts if entry.starts else 1, renewal=model.renewal if entry.renew else 0,
        )  # fmt: skip
        reference = log_density_of(run.chain, truth.state)
        _compile(experiment, entry, model, [start, truth.state])

        def score(state: State) -> dict[str, float]:
            log_density = log_density_of(run.chain, state)
            return {
                "log_density": log_density,
                "relative_log_density": metrics.relative_log_density(log_density, reference),
                "num_features": int(np.count_nonzero(state.Z.any(axis=0))),
                **score_all(experiment, model, state, truth),
            }

        score(start)
        rows, seconds = _trace(experiment, entry, run, score)
    return {
        "format": 1,
        "experiment": experiment.name,
        "fingerprint": experiment.fingerprint(),
        **key._asdict(),
        "settings": entry.what_it_does(),
        "seed": {"entropy": seed.entropy, "spawn_key": list(seed.spawn_key)},
        "true_log_density": reference,
        "true_num_features": int(np.count_nonzero(truth.state.Z.any(axis=0))),
        "num_iterations": run.iteration,
        "seconds": seconds,
        "versions": versions(),
        "trace": {name: [row[name] for row in rows] for name in rows[0]},
    }


def _compile(experiment: Experiment, entry: Entry, model: Model, states: list[State]) -> None:
    """A few iterations on copies, from every state given: they may need different compiled code."""
    for state in states:
        chain = make_chain(experiment, entry, model, state, 0)
        for _ in range(_DRY_ITERATIONS):
            chain.step(warmup=True, power=0.5 if entry.anneal else 1.0)
            chain.log_density()


def _trace(experiment: Experiment, entry: Entry, run: WarmingChain, score: Any) -> tuple[list[dict[str, Any]], float]:
    """Step until the last time has passed. At each point of the grid the state then in force is scored: that after the
    last iteration that was complete by then. Scoring, copying and compiling do not count."""
    points = list(grid(experiment.times))
    rows: list[dict[str, Any]] = []
    seconds = 0.0
    with _compiler_clock() as compiler:
        while points:
            iteration, before = run.iteration, run.chain.state
            compiling = compiler.seconds
            started = time.thread_time()
            run.step(warmup=entry.warmup_only or run.is_warmup)
            seconds += time.thread_time() - started - (compiler.seconds - compiling)
            scores = score(before) if seconds > points[0] else {}
            while points and seconds > points[0]:
                rows.append({"time": float(points.pop(0)), "iteration": iteration, **scores})
    return rows, seconds
