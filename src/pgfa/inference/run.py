"""One chain of a run, from its start or its last snapshot to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgfa.inference.chain import Chain, ColumnMoves
from pgfa.inference.recording import Recorder, Segment, watched_pairs
from pgfa.inference.warmup import WarmingChain
from pgfa.models.base import Model
from pgfa.priors.base import Prior
from pgfa.samplers.base import RowSampler
from pgfa.state import State
from pgfa.storage.store import RunStore


@dataclass(frozen=True)
class Plan:
    """What every chain of a run does."""

    prior: Prior
    sampler: RowSampler
    column_moves: ColumnMoves
    draws: int
    warmup: int
    thin: int
    annealed_share: float
    starts: int
    renewal: int
    save_warmup: bool
    checkpoint: str | None
    checkpoint_interval: float

    @property
    def num_iterations(self) -> int:
        return self.warmup + self.draws * self.thin


@dataclass
class Progress:
    """Where a chain stands, for those who watch."""

    iteration: int = 0
    log_density: float = float("nan")
    num_features: int = 0
    iterations_per_second: float = float("nan")
    #: "running", or how it ended: "done" or "stopped".
    status: str = "running"


@dataclass
class ChainResult:
    """Draws of one chain in segments; where the run is stored, the segments are on disk and these lists are empty."""

    warmup_segments: list[Segment]
    segments: list[Segment]


#: Seconds between looks at the log density for the progress display.
_LOOK = 0.5
#: Where a run is stored, draws are saved before they take more memory than this, however short the interval so far.
_MOST_BYTES = 16_000_000


def run_chain(
    model: Model,
    plan: Plan,
    index: int,
    seed: np.random.SeedSequence,
    initial: State | None,
    *,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> ChainResult:
    """Run one chain to its end, or until told to stop; from its last snapshot where there is one."""
    progress = progress or Progress()

    def make_chain(_: int, seed: np.random.SeedSequence) -> Chain:
        return Chain(model, plan.prior, plan.sampler, seed=seed, state=initial, column_moves=plan.column_moves)

    run = WarmingChain(
        make_chain, seed, warmup=plan.warmup, share=plan.annealed_share,
        starts=plan.starts if initial is None else 1, renewal=plan.renewal,
    )  # fmt: skip
    result = ChainResult([], [])
    store = RunStore(plan.checkpoint) if plan.checkpoint else None
    num_segments, seconds_before, tallies = 0, 0.0, None
    if store is not None and (snapshot := store.load_snapshot(index)) is not None:
        num_segments, words, arrays = snapshot
        run.restore(words["run"], arrays)
        seconds_before = words["seconds"]
        tallies = words.get("tallies")  # stores of earlier versions have none
        store.drop_after(index, num_segments)
    recorder = Recorder(run.chain, watched_pairs(model.num_rows), tallies)

    started = last_look = last_save = time.perf_counter()
    first_iteration = run.iteration
    compiled = started

    def speed() -> float:
        # Counted from the end of the first iteration, which may compile for longer than all others take.
        num_iterations, seconds = run.iteration - first_iteration - 1, time.perf_counter() - compiled
        return num_iterations / seconds if num_iterations > 0 and seconds > 0.0 else float("nan")

    def save() -> None:
        nonlocal num_segments, last_save
        is_warmup = run.iteration <= plan.warmup
        if len(recorder):
            segment = recorder.take()
            if store is not None:
                store.add_segment(index, num_segments, segment | {"is_warmup": np.array(is_warmup)})
                num_segments += 1
            else:
                (result.warmup_segments if is_warmup else result.segments).append(segment)
        if store is not None:
            words, arrays = run.snapshot()
            seconds = seconds_before + time.perf_counter() - started
            # With thinning draws and saves fall apart: acceptance rates count from the last draw all the same.
            stored = {"run": words, "seconds": seconds, "tallies": recorder.tallies}
            store.save_snapshot(index, num_segments, stored, arrays)
        last_save = time.perf_counter()

    while run.iteration < plan.num_iterations and not should_stop():
        iteration, is_warmup = run.iteration, run.is_warmup
        run.step()
        now = time.perf_counter()
        if iteration == first_iteration:
            compiled = now
        since_warmup = run.iteration - plan.warmup
        if (is_warmup and plan.save_warmup) or (not is_warmup and since_warmup % plan.thin == 0):
            recorder.add(run.chain, seconds_before + now - started)
        progress.iteration = run.iteration
        if now - last_look > _LOOK:
            last_look = now
            progress.log_density = run.chain.log_density()
            progress.num_features = int(np.count_nonzero(run.chain._state.Z.any(axis=0)))
            progress.iterations_per_second = speed()
        is_due = now - last_save > plan.checkpoint_interval or recorder.num_bytes > _MOST_BYTES
        if run.iteration == plan.warmup:
            recorder.follow(run.chain)
        # A segment holds either warm-up or draws, so the end of the warm-up is always saved.
        if run.iteration == plan.warmup or (store is not None and is_due):
            save()
    save()
    progress.log_density = run.chain.log_density()
    progress.num_features = int(np.count_nonzero(run.chain._state.Z.any(axis=0)))
    progress.iterations_per_second = speed()
    progress.status = "done" if run.iteration >= plan.num_iterations else "stopped"
    return result


def finished_iterations(store: RunStore, index: int) -> int:
    """How many iterations of a chain are saved."""
    snapshot: Any = store.load_snapshot(index)
    return 0 if snapshot is None else int(snapshot[1]["run"]["iteration"])
