"""Many chains at once: on the cores of this machine or on a cluster, saved as they go."""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import xarray as xr
from threadpoolctl import threadpool_limits

from pgfa import checks
from pgfa.inference.chain import Chain, ColumnMoves, check_column_moves
from pgfa.inference.diagnostics import warn_of_problems
from pgfa.inference.progress import Display
from pgfa.inference.run import ChainResult, Plan, Progress, finished_iterations, run_chain
from pgfa.inference.tree import build_tree
from pgfa.inference.warmup import annealing_share, check_anneal
from pgfa.models.base import Model
from pgfa.priors.base import Prior
from pgfa.samplers.base import RowSampler
from pgfa.samplers.column_moves import ColumnMove, default_column_moves
from pgfa.samplers.discrete_particle_filter import DiscreteParticleFilter
from pgfa.specs import (
    describe_column_moves,
    describe_prior,
    describe_sampler,
    make_column_moves,
    make_prior,
    make_sampler,
)
from pgfa.state import State
from pgfa.storage.store import RunStore, StoreError


class NoDrawsError(RuntimeError):
    """A run that ended in its warm-up."""


def sample(
    model: Model,
    prior: Prior,
    sampler: RowSampler | None = None,
    *,
    draws: int = 1000,
    warmup: int | None = None,
    chains: int = 4,
    cores: int | None = None,
    seed: int | None = None,
    thin: int = 1,
    anneal: bool | float = True,
    starts: int | None = None,
    renew: bool = True,
    column_moves: bool | Sequence[ColumnMove] = True,
    save_warmup: bool = False,
    progress: bool = True,
    check: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_interval: float = 5.0,
    max_time: float | None = None,
    executor: Any = None,
    initial: State | Sequence[State] | None = None,
) -> xr.DataTree:
    """Draw from the posterior with several chains.

    Parameters
    ----------
    model, prior, sampler
        What to fit and how; the discrete particle filter unless a sampler is given.
    draws
        Draws kept from each chain.
    warmup
        Iterations before the first draw. They tune step sizes, raise the power of the likelihood from 0 to 1 (see
        `anneal`), try several starts (see `starts`) and renew features (see `renew`), so that chains do not get stuck
        in the mode nearest to them. As many as suit the model unless given: 500, and 1000 for `Relational`.
    chains
        Number of chains, each from its own start.
    cores
        Threads to run them in; as many as chains or cores, whichever is less, unless given. Draws do not depend on it.
    seed
        A whole number. The same seed gives the same draws, whatever `cores` and `executor` are.
    thin
        Keep every thin-th iteration.
    anneal
        Share of the warm-up that is annealed: True for what suits the model, False for none, or a
        number between 0 and 1.
    starts
        How many starts each chain tries in its warm-up; the best goes on. Together they take as many iterations as one
        would. As many as suit the model unless given, fewer in a short warm-up, and one where `initial` is given.
    renew
        Whether features are renewed in the warm-up, for models that can guess at what is missing (`LinearGaussian`,
        `Relational`): copies of a chain with one feature renewed go on in its place if they do better.
    column_moves
        Moves of whole columns after each sweep over the rows, for models that have them: True for a mixture that brings
        chains home from almost any start, a sequence of `ColumnBlock`, `SingletonExchange`, `JointFlip` and
        `ThreeAndTwo`, or False for none, those that a model makes of its own accord included.
    save_warmup
        Keep the warm-up as well, in groups of its own.
    progress
        Show a line for each chain.
    check
        Warn where the chains disagree or are too short.
    checkpoint
        Folder of a Zarr store to which draws and the state of every chain are saved as the run goes on; `resume`
        continues from it.
    checkpoint_interval
        Seconds between saves.
    max_time
        Seconds after which all chains end, at equal length.
    executor
        A ``dask.distributed.Client``: chains run on its cluster instead of in threads.
    initial
        A state to start all chains from, or one for each chain; drawn from the prior unless given.

    Returns
    -------
    xarray.DataTree
        Groups posterior (Z padded to the largest number of features, num_features, alpha, the model's parameters; NaN
        where a draw has no such feature), sample_stats, observed_data and constant_data. Interrupted by Ctrl-C, what
        has been drawn so far.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> fit = pgfa.sample(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(2), draws=20, warmup=20, chains=2, seed=1,
    ...                   progress=False, check=False)
    >>> dict(fit["posterior"]["Z"].sizes)
    {'chain': 2, 'draw': 20, 'row': 20, 'feature': 2}
    """
    sampler = DiscreteParticleFilter() if sampler is None else sampler
    _check_kinds(model, prior, sampler)
    chains = checks.whole("chains", chains, at_least=1)
    seed = _check_seed(seed)
    plan = Plan(
        prior=prior,
        sampler=sampler,
        column_moves=_choose_column_moves(column_moves, model, prior),
        draws=checks.whole("draws", draws, at_least=1),
        warmup=model.warmup if warmup is None else checks.whole("warmup", warmup, at_least=0),
        thin=checks.whole("thin", thin, at_least=1),
        annealed_share=annealing_share(check_anneal("anneal", anneal), model),
        starts=model.warmup_starts if starts is None else checks.whole("starts", starts, at_least=1),
        renewal=model.renewal if checks.truth("renew", renew) else 0,
        save_warmup=bool(save_warmup),
        checkpoint=None if checkpoint is None else str(checks.path("checkpoint", checkpoint).absolute()),
        checkpoint_interval=checks.non_negative("checkpoint_interval", checkpoint_interval),
    )
    initial_states = _check_initial(model, prior, initial, chains)
    settings = {
        "model": type(model).__name__,
        "prior": repr(prior),
        "sampler": repr(sampler),
        "column_moves": [repr(move) for move in plan.column_moves or ()],
        "chains": chains,
        "seed": seed,
        **{name: getattr(plan, name) for name in _STORED_PLAN},
    }
    if plan.checkpoint is not None:
        _create_store(plan, model, settings, initial_states)
    return _run(
        model, plan, chains, seed, initial_states, settings,
        cores=cores, progress=progress, check=check, max_time=max_time, executor=executor,
    )  # fmt: skip


#: What the store has to know of the plan beside prior and sampler.
_STORED_PLAN = ("draws", "warmup", "thin", "annealed_share", "starts", "renewal", "save_warmup", "checkpoint_interval")


def resume(
    checkpoint: str | os.PathLike[str],
    *,
    model: Model | None = None,
    cores: int | None = None,
    progress: bool = True,
    check: bool = True,
    max_time: float | None = None,
    executor: Any = None,
) -> xr.DataTree:
    """Go on with a run that was interrupted; the result is what the uninterrupted run would have given.

    Parameters
    ----------
    checkpoint
        Folder that `sample` saved to. A finished run is read, not run again.
    model
        Only for models of your own, which the store cannot rebuild.
    cores, progress, check, max_time, executor
        As in `sample`.

    Examples
    --------
    >>> import numpy as np, pgfa, tempfile
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit = pgfa.sample(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(2), draws=20, warmup=20, chains=2, seed=1,
    ...                       progress=False, check=False, checkpoint=f"{folder}/run")
    ...     again = pgfa.resume(f"{folder}/run", progress=False, check=False)
    >>> bool((again["posterior"]["Z"] == fit["posterior"]["Z"]).all())
    True
    """
    store, settings, plan = _open_store(checkpoint)
    if model is None:
        model = _rebuild_model(store, settings)
    chains = int(settings["chains"])
    initial = [_start_from(store, i) if settings["has_initial"] else None for i in range(chains)]
    return _run(
        model, plan, chains, int(settings["seed"]), initial, _public(settings),
        cores=cores, progress=progress, check=check, max_time=max_time, executor=executor,
    )  # fmt: skip


def load(checkpoint: str | os.PathLike[str], *, model: Model | None = None) -> xr.DataTree:
    """Read the draws that a run has saved so far, without going on with it; it may be running still.

    Parameters
    ----------
    checkpoint
        Folder that `sample` saved to.
    model
        Only for models of your own, which the store cannot rebuild.

    Examples
    --------
    >>> import numpy as np, pgfa, tempfile
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit = pgfa.sample(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(2), draws=20, warmup=20, chains=2, seed=1,
    ...                       progress=False, check=False, checkpoint=f"{folder}/run")
    ...     saved = pgfa.load(f"{folder}/run")
    >>> saved["posterior"].sizes["draw"]
    20
    """
    store, settings, _ = _open_store(checkpoint)
    if model is None:
        model = _rebuild_model(store, settings)
    warmup_segments, segments = _segments_of_store(store, int(settings["chains"]))
    if not any(segments):
        raise StoreError(f"{store.path} holds no draws yet: its chains are still warming up")
    return build_tree(model, warmup_segments, segments, _public(settings), store)


def load_model(checkpoint: str | os.PathLike[str]) -> Model:
    """The model that a stored run fits, with its data."""
    store, settings, _ = _open_store(checkpoint)
    return _rebuild_model(store, settings)


# --- checks ---------------------------------------------------------------------------------------------------------


def _check_kinds(model: Any, prior: Any, sampler: Any) -> None:
    for name, value, kind in (("model", model, Model), ("prior", prior, Prior), ("sampler", sampler, RowSampler)):
        checks.of_kind(name, value, kind)


def _choose_column_moves(column_moves: Any, model: Model, prior: Prior) -> ColumnMoves:
    return default_column_moves(model, prior) if column_moves is True else check_column_moves(column_moves, model)


def _check_seed(seed: Any) -> int:
    """A seed that can be written down: drawn from the system where none is given."""
    if seed is None:
        return int(np.random.SeedSequence().entropy % 2**63)  # type: ignore[operator]
    return checks.whole("seed", seed, at_least=0)


def _check_initial(model: Model, prior: Prior, initial: Any, chains: int) -> list[State | None]:
    if initial is None:
        return [None] * chains
    expected = f"initial must be a State or one State for each of the {chains} chains, got"
    if not isinstance(initial, (State, Iterable)):
        raise ValueError(f"{expected} {initial!r}")
    states = [initial] * chains if isinstance(initial, State) else list(initial)
    if len(states) != chains:
        raise ValueError(f"{expected} {len(states)}")
    return [Chain(model, prior, seed=0, state=state).state for state in states]


# --- stores ---------------------------------------------------------------------------------------------------------


def _create_store(plan: Plan, model: Model, settings: dict[str, Any], initial: list[State | None]) -> None:
    assert plan.checkpoint is not None
    try:
        words, arrays = model.describe()
    except NotImplementedError:
        words, arrays = {}, {}
    stored = {
        **settings,
        "model_description": words,
        "prior_description": describe_prior(plan.prior),
        "sampler_description": describe_sampler(plan.sampler),
        "column_moves_description": describe_column_moves(plan.column_moves),
        "has_initial": initial[0] is not None,
    }
    for i, start in enumerate(initial):
        if start is not None:
            arrays = arrays | {f"initial-{i}-Z": start.Z, f"initial-{i}-alpha": np.array(start.alpha)}
            arrays |= {f"initial-{i}-parameter-{name}": np.asarray(value) for name, value in start.parameters.items()}
    RunStore.create(plan.checkpoint, stored, arrays)


def _open_store(checkpoint: str | os.PathLike[str]) -> tuple[RunStore, dict[str, Any], Plan]:
    """A store with its settings and plan, or a StoreError that says what is wrong with it."""
    store = RunStore(checks.path("checkpoint", checkpoint))
    settings = store.settings()
    try:
        _ = int(settings["chains"]), int(settings["seed"]), settings["model"], settings["model_description"]
        plan = Plan(
            prior=make_prior(settings["prior_description"]),
            sampler=make_sampler(settings["sampler_description"]),
            column_moves=make_column_moves(settings["column_moves_description"]),
            checkpoint=str(store.path.absolute()),
            **{name: settings[name] for name in _STORED_PLAN},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{store.path} is damaged: its settings do not make sense ({error!r})") from error
    return store, settings, plan


def _public(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if not name.endswith("_description")}


def _start_from(store: RunStore, index: int) -> State:
    arrays = store.model_arrays()
    prefix = f"initial-{index}-parameter-"
    parameters = {
        name.removeprefix(prefix): values if values.ndim else float(values)
        for name, values in arrays.items()
        if name.startswith(prefix)
    }
    return State(arrays[f"initial-{index}-Z"], float(arrays[f"initial-{index}-alpha"]), parameters)


def _rebuild_model(store: RunStore, settings: dict[str, Any]) -> Model:
    import pgfa.models

    name, words = settings["model"], settings["model_description"]
    kind = getattr(pgfa.models, name, None) if name in pgfa.models.__all__ else None
    if kind is None:
        raise StoreError(
            f"{store.path} is a run of the model {name}, which is not one of pgfa's: give model=... as well"
        )
    arrays = {key: values for key, values in store.model_arrays().items() if not key.startswith("initial-")}
    try:
        rebuilt: Model = kind.from_description(words, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{store.path} is damaged: its model cannot be rebuilt ({error!r})") from error
    return rebuilt


def _segments_of_store(store: RunStore, chains: int) -> tuple[list[list[Any]], list[list[Any]]]:
    warmup: list[list[Any]] = []
    main: list[list[Any]] = []
    for i in range(chains):
        opened = store.open_segments(i)
        of_warmup = [bool(store.read_array(segment["is_warmup"])) for segment in opened]
        warmup.append([segment for segment, is_warmup in zip(opened, of_warmup) if is_warmup])
        main.append([segment for segment, is_warmup in zip(opened, of_warmup) if not is_warmup])
    return warmup, main


# --- running --------------------------------------------------------------------------------------------------------


def _run(
    model: Model,
    plan: Plan,
    chains: int,
    seed: int,
    initial: list[State | None],
    settings: dict[str, Any],
    *,
    cores: int | None,
    progress: bool,
    check: bool,
    max_time: float | None,
    executor: Any,
) -> xr.DataTree:
    if max_time is not None:
        checks.positive("max_time", max_time)
    available = os.cpu_count() or 1
    cores = min(chains, available) if cores is None else checks.whole("cores", cores, at_least=1)
    seeds = np.random.SeedSequence(seed).spawn(chains)
    store = RunStore(plan.checkpoint) if plan.checkpoint else None
    if store is not None and all(finished_iterations(store, i) >= plan.num_iterations for i in range(chains)):
        results = [ChainResult([], []) for _ in range(chains)]
    elif executor is not None:
        results = _run_on_cluster(executor, model, plan, seeds, initial, max_time)
    else:
        results = _run_in_threads(model, plan, seeds, initial, cores, progress, max_time)
    if store is not None:
        warmup_segments, segments = _segments_of_store(store, chains)
    else:
        warmup_segments = [result.warmup_segments for result in results]
        segments = [result.segments for result in results]
    num_without = sum(not chain for chain in segments)
    if num_without == chains:
        raise NoDrawsError("the run ended before the first draw: allow more time, or ask for a shorter warm-up")
    if num_without:
        warnings.warn(f"{num_without} of {chains} chains had no draws yet and are left out", stacklevel=4)
    tree = build_tree(model, warmup_segments, segments, settings, store)
    if check:
        warn_of_problems(tree)
    return tree


def _run_in_threads(
    model: Model,
    plan: Plan,
    seeds: list[np.random.SeedSequence],
    initial: list[State | None],
    cores: int,
    progress: bool,
    max_time: float | None,
) -> list[ChainResult]:
    stop = threading.Event()
    began = time.monotonic()
    watched = [Progress() for _ in seeds]
    # With fewer cores than chains these run in waves, each of which gets its share of the time.
    num_waves = math.ceil(len(seeds) / cores)

    def run(i: int) -> ChainResult:
        deadline = math.inf if max_time is None else began + max_time * (i // cores + 1) / num_waves
        return run_chain(
            model, plan, i, seeds[i], initial[i],
            progress=watched[i], should_stop=lambda: stop.is_set() or time.monotonic() > deadline,
        )  # fmt: skip

    with (
        threadpool_limits(limits=1),
        ThreadPoolExecutor(max_workers=cores) as pool,
        Display(watched, plan.num_iterations, plan.warmup, enabled=progress) as display,
    ):
        futures: list[Future[ChainResult]] = [pool.submit(run, i) for i in range(len(seeds))]
        try:
            # Only those still running are waited for: with a failed one among them there would be no wait at all.
            running = set(futures)
            while running:
                ended, running = wait(running, timeout=0.1, return_when=FIRST_EXCEPTION)
                display.update()
                if any(future.exception() for future in ended):
                    stop.set()
        except KeyboardInterrupt:
            stop.set()
        except BaseException:
            stop.set()
            raise
        return [future.result() for future in futures]


def _run_on_cluster(
    client: Any,
    model: Model,
    plan: Plan,
    seeds: list[np.random.SeedSequence],
    initial: list[State | None],
    max_time: float | None,
) -> list[ChainResult]:
    """Chains as tasks of a Dask cluster; a task whose worker dies is run again, from the chain's last snapshot."""
    if not hasattr(client, "scatter") or not hasattr(client, "submit"):
        raise ValueError(f"executor must be a dask.distributed.Client, got {client!r}")
    sent = client.scatter(model, broadcast=True, hash=False)
    futures = [
        client.submit(_run_as_task, sent, plan, i, seed, start, max_time, pure=False, retries=3)
        for i, (seed, start) in enumerate(zip(seeds, initial))
    ]
    results: list[ChainResult] = client.gather(futures)
    return results


def _run_as_task(
    model: Model, plan: Plan, index: int, seed: np.random.SeedSequence, start: State | None, max_time: float | None
) -> ChainResult:
    deadline = math.inf if max_time is None else time.monotonic() + max_time
    with threadpool_limits(limits=1):
        return run_chain(model, plan, index, seed, start, should_stop=lambda: time.monotonic() > deadline)
