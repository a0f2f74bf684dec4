"""Warm-up: the power of the likelihood rises, of several starts the best goes on, and idle features are renewed.

All of it is for chains to escape the modes that they would otherwise be stuck in. None of it touches what comes after:
a chain may start anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pgfa import checks
from pgfa.inference.chain import Chain
from pgfa.models.base import Model

#: Share of the warm-up that several starts have in all where nothing is annealed.
_SHARE_OF_STARTS = 0.6
#: Features are renewed until this share of the warm-up is over; the rest is for the chain to settle.
_RENEWED_SHARE = 0.85
#: No more starts are tried than can have this many iterations each.
LEAST_ITERATIONS = 25
#: How many of the starts go on once all have been tried, in turns, until the best of them goes on alone.
_FINALISTS = 2


def check_anneal(name: str, anneal: Any) -> bool | float:
    """True, False or a number between 0 and 1."""
    return anneal if isinstance(anneal, bool) else checks.unit_interval(name, anneal)


def annealing_share(anneal: bool | float, model: Model) -> float:
    """Share of the warm-up that is annealed: what suits the model for True, none for False."""
    if isinstance(anneal, bool):
        return model.annealed_share if anneal else 0.0
    return anneal


def power_at(iteration: int, length: int, first_power: float = 0.0) -> float:
    """Power of the likelihood at an iteration: rising over an annealed stretch of this length, then one.

    It rises linearly from zero, or by a constant factor from `first_power` where that is given.
    """
    if iteration >= length:
        return 1.0
    risen = (iteration + 1.0) / (length + 1.0)
    return risen if first_power == 0.0 else float(first_power ** (1.0 - risen))


class Turn(NamedTuple):
    """A stretch of iterations that belongs to one chain; in the first `annealed` of them the power rises."""

    begin: int
    annealed: int
    #: "start" afresh, "recall" one that has waited, "renew" a feature of the best, or "settle" for the best.
    task: str


def plan_turns(warmup: int, share: float, starts: int = 1, renewal: int = 0) -> list[Turn]:
    """Who has which iterations of the warm-up, and what follows it.

    Every start has its part of the annealed share. Then there are two ways on. Without renewals, the best two starts
    have a part each of half of what is left, and the better one goes on. With renewals the best start goes on, and is
    challenged every `renewal` iterations by a copy of itself with one feature renewed. All of it takes as many
    iterations as the warm-up of a single start.

    Examples
    --------
    >>> plan_turns(100, 0.6)
    [Turn(begin=0, annealed=60, task='start')]
    >>> [turn.begin for turn in plan_turns(100, 0.6, starts=2)]
    [0, 30, 60, 70, 80]
    >>> [turn.begin for turn in plan_turns(100, 0.3, renewal=15)]
    [0, 45, 60, 75]
    """
    starts = max(min(starts, round((share or _SHARE_OF_STARTS) * warmup) // LEAST_ITERATIONS), 1)
    length = round((share if starts == 1 else share or _SHARE_OF_STARTS) * warmup)
    bounds = [i * length // starts for i in range(starts + 1)]
    heats = [Turn(begin, end - begin if share else 0, "start") for begin, end in pairwise(bounds)]
    if renewal > 0:
        # The first challenge comes when the winner of the heats has had as many iterations to settle as a challenger.
        begins = [length, *range(length + renewal, round(_RENEWED_SHARE * warmup) + 1, renewal)]
        challenges = [Turn(begin, 0, "renew") for begin in begins[1:-1]]
        first = [] if starts == 1 else [Turn(length, 0, "settle")]
        last = [Turn(begins[-1], 0, "settle")] if challenges else []
        return [*heats, *first, *challenges, *last]
    if starts == 1:
        return heats
    part = (warmup - length) // (2 * _FINALISTS)
    finals = [Turn(length + i * part, 0, "recall") for i in range(_FINALISTS)]
    return [*heats, *finals, Turn(length + _FINALISTS * part, 0, "settle")]


class WarmingChain:
    """A chain that looks for a good place before it stays there: several starts, and renewed features.

    Parameters
    ----------
    make_chain
        Makes a chain from the number of the turn and a seed.
    seed
        Seed of the first start, from which those of all others are derived.
    warmup, share, starts, renewal
        See `plan_turns`.

    Attributes
    ----------
    chain
        The one whose turn it is.
    iteration
        Iterations made so far by all chains together.
    """

    def __init__(
        self,
        make_chain: Callable[[int, np.random.SeedSequence], Chain],
        seed: np.random.SeedSequence,
        *,
        warmup: int,
        share: float = 0.0,
        starts: int = 1,
        renewal: int = 0,
    ) -> None:
        self.warmup = warmup
        self.iteration = 0
        self._make_chain = make_chain
        self._seed = seed
        self._turns = plan_turns(warmup, share, starts, renewal)
        self._waiting: list[Chain] = []
        self.chain = make_chain(0, seed)

    @property
    def is_warmup(self) -> bool:
        """Whether the next iteration belongs to the warm-up."""
        return self.iteration < self.warmup

    def step(self, *, warmup: bool | None = None) -> None:
        """One iteration of the chain whose turn it is; `warmup` allows what is valid in warm-up only for longer."""
        number = max(i for i, turn in enumerate(self._turns) if turn.begin <= self.iteration)
        turn = self._turns[number]
        if turn.begin == self.iteration and number > 0:
            self._change(number, turn.task)
        power = power_at(self.iteration - turn.begin, turn.annealed, self.chain.model.first_power)
        self.chain.step(warmup=self.is_warmup if warmup is None else warmup, power=power)
        self.iteration += 1

    def _change(self, number: int, task: str) -> None:
        if task == "recall" and self._turns[number - 1].task == "recall":
            # The other finalist: the one that has waited, whichever is ahead.
            self.chain, self._waiting = self._waiting[0], [self.chain]
            return
        ranked = sorted([*self._waiting, self.chain], key=Chain.log_density, reverse=True)
        if task == "start":
            self._waiting = ranked[:_FINALISTS]
            self.chain = self._make_chain(number, self._seed_of(number))
        elif task == "recall":
            self.chain, *self._waiting = ranked[:_FINALISTS]
        elif task == "renew":
            self._waiting = ranked[:1]
            self.chain = self._make_chain(number, self._seed_of(number))
            self.chain.follow(ranked[0])
            self.chain.renew_feature()
        else:
            self.chain, self._waiting = ranked[0], []

    def _seed_of(self, number: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self._seed.entropy, spawn_key=(*self._seed.spawn_key, number))

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that is needed to go on later, like `Chain.snapshot`, those who wait included."""
        words, arrays = self.chain.snapshot()
        waiting = []
        for i, chain in enumerate(self._waiting):
            others, values = chain.snapshot()
            waiting.append(others)
            arrays |= {f"waiting-{i}-{name}": value for name, value in values.items()}
        return {"iteration": self.iteration, "chain": words, "waiting": waiting}, arrays

    def restore(self, words: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Go back to a snapshot; what follows is what followed then."""
        self.iteration = words["iteration"]
        own = {name: value for name, value in arrays.items() if not name.startswith("waiting-")}
        self.chain.restore(words["chain"], own)
        self._waiting = []
        for i, others in enumerate(words["waiting"]):
            chain = self._make_chain(0, self._seed)
            prefix = f"waiting-{i}-"
            values = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
            chain.restore(others, values)
            self._waiting.append(chain)
