"""Descriptions of priors and samplers in plain words (JSON), and back: only what is on a list here can be made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from pgfa.priors import BetaBernoulli, IndianBuffet, Prior
from pgfa.samplers import (
    ColumnBlock,
    ColumnMove,
    DiscreteParticleFilter,
    Gibbs,
    HammingBall,
    JointFlip,
    LocallyBalanced,
    MetropolisFlips,
    Mixture,
    ParticleGibbs,
    RowGibbs,
    RowSampler,
    SingletonExchange,
    ThreeAndTwo,
)

_PRIORS: dict[str, tuple[type[Prior], tuple[str, ...]]] = {
    "BetaBernoulli": (BetaBernoulli, ("num_features", "a", "b", "alpha_shape", "alpha_rate")),
    "IndianBuffet": (IndianBuffet, ("alpha_shape", "alpha_rate")),
}
_SAMPLERS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (DiscreteParticleFilter, Gibbs, HammingBall, LocallyBalanced, MetropolisFlips, ParticleGibbs, RowGibbs)
}

_COLUMN_MOVES: dict[str, Any] = {
    kind.__name__: kind for kind in (ColumnBlock, JointFlip, SingletonExchange, ThreeAndTwo)
}


def describe_prior(prior: Prior) -> dict[str, Any]:
    """Name and settings of a prior."""
    name = type(prior).__name__
    if name not in _PRIORS or type(prior) is not _PRIORS[name][0]:
        raise ValueError(f"a run with the prior {prior!r} cannot be stored: only priors of pgfa can")
    return {"name": name, **{option: getattr(prior, option) for option in _PRIORS[name][1]}}


def make_prior(description: dict[str, Any]) -> Prior:
    """The prior that was described."""
    options = dict(description)
    kind, _ = _PRIORS[options.pop("name")]
    return kind(**options)


def describe_column_moves(moves: Sequence[ColumnMove] | Literal[False]) -> list[dict[str, Any]] | None:
    """Names and settings of column moves; None where there are none at all."""
    return None if moves is False else [{"name": type(move).__name__, **asdict(move)} for move in moves]


def make_column_moves(descriptions: list[dict[str, Any]] | None) -> tuple[ColumnMove, ...] | Literal[False]:
    """The column moves that were described."""
    if descriptions is None:
        return False
    moves = []
    for description in descriptions:
        options = dict(description)
        moves.append(_COLUMN_MOVES[options.pop("name", "ColumnBlock")](**options))
    return tuple(moves)


def describe_sampler(sampler: RowSampler) -> dict[str, Any]:
    """Name and settings of a sampler."""
    if isinstance(sampler, Mixture):
        return {"name": "Mixture", "parts": [[float(weight), describe_sampler(part)] for weight, part in sampler.parts]}
    name = type(sampler).__name__
    if _SAMPLERS.get(name) is not type(sampler):
        raise ValueError(f"a run with the sampler {sampler!r} cannot be stored: only samplers of pgfa can")
    return {"name": name, **asdict(sampler)}  # type: ignore[call-overload]


def make_sampler(description: dict[str, Any]) -> RowSampler:
    """The sampler that was described."""
    options = dict(description)
    name = options.pop("name")
    if name == "Mixture":
        return Mixture([(weight, make_sampler(part)) for weight, part in options["parts"]])
    sampler: RowSampler = _SAMPLERS[name](**options)
    return sampler
