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


def power_at(iteration: int, warmup: int, share: float, first_power: float = 0.0) -> float:
    """Power of the likelihood at an iteration: rising over the annealed share of the warm-up, then one.

    It rises linearly from zero, or by a constant factor from `first_power` where that is given.
    """
    length = round(share * warmup)
    if iteration >= length:
        return 1.0
    risen = (iteration + 1.0) / (length + 1.0)
    return risen if first_power == 0.0 else float(first_power ** (1.0 - risen))
