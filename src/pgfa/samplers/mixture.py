"""A random choice between samplers, made anew for each sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgfa import checks
from pgfa.rows import RowView
from pgfa.samplers.base import RowSampler


@dataclass(frozen=True, init=False)
class Mixture(RowSampler):
    """Use one of several samplers for each sweep, chosen at random.

    The choice does not look at the state, so the mixture is exact if its parts are.

    Parameters
    ----------
    parts
        Pairs of a positive weight and a sampler.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> sampler = pgfa.Mixture([(9, pgfa.Gibbs()), (1, pgfa.DiscreteParticleFilter())])
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(4), sampler, seed=1)
    >>> chain.step(5)
    """

    parts: tuple[tuple[float, RowSampler], ...]

    def __init__(self, parts: Sequence[tuple[float, RowSampler]]) -> None:
        try:
            pairs = tuple((weight, sampler) for weight, sampler in parts)
        except (TypeError, ValueError):
            raise ValueError("parts must be pairs of a weight and a sampler") from None
        if not pairs:
            raise ValueError("parts must hold at least one pair of a weight and a sampler")
        for weight, sampler in pairs:
            checks.positive("weight of a part", weight)
            if not isinstance(sampler, RowSampler):
                raise ValueError(f"parts must be pairs of a weight and a sampler, got {sampler!r} for a sampler")
        object.__setattr__(self, "parts", pairs)

    def choose(self, rng: np.random.Generator) -> RowSampler:
        weights = np.array([weight for weight, _ in self.parts], dtype=float)
        return self.parts[rng.choice(len(self.parts), p=weights / weights.sum())][1].choose(rng)

    def make_kernel(self, rows: RowView, num_columns: int, *, warmup: bool = False) -> Any:
        raise TypeError("a Mixture makes no kernel itself: ask the sampler that choose() returns")
