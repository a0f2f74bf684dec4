"""Warm-up: how the power of the likelihood rises, so that chains escape the modes that they start in."""

from __future__ import annotations

from typing import Any

from pgfa import checks

#: Share of the warm-up over which the power rises, unless the user says otherwise.
DEFAULT_SHARE = 0.6


def annealing_share(anneal: Any) -> float:
    """Share of the warm-up that is annealed, from True, False or a number between 0 and 1."""
    if isinstance(anneal, bool):
        return DEFAULT_SHARE if anneal else 0.0
    return checks.unit_interval("anneal", anneal)


def power_at(iteration: int, warmup: int, share: float) -> float:
    """Power of the likelihood at an iteration: linear over the annealed share of the warm-up, then one."""
    length = round(share * warmup)
    return 1.0 if iteration >= length else (iteration + 1.0) / (length + 1.0)
