"""Step sizes that are tuned during warm-up and held after it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class StepSize:
    """Scale of a random-walk proposal, moved towards a target acceptance rate by Robbins-Monro steps.

    Adapting for ever would spoil the invariance of the chain, so callers do it in warm-up only.
    """

    value: float = 1.0
    target: float = 0.44
    num_adaptations: int = 0
    num_proposed: int = 0
    num_accepted: int = 0

    def record(self, accepted: int, proposed: int, *, adapt: bool) -> None:
        """Count proposals and, in warm-up, move the scale."""
        if proposed == 0:
            return
        self.num_proposed += proposed
        self.num_accepted += accepted
        if adapt:
            self.num_adaptations += 1
            gain = min(1.0, 5.0 / math.sqrt(self.num_adaptations))
            self.value = min(max(self.value * math.exp(gain * (accepted / proposed - self.target)), 1e-8), 1e8)

    @property
    def acceptance_rate(self) -> float:
        """Share of proposals accepted so far; NaN before the first."""
        return self.num_accepted / self.num_proposed if self.num_proposed else float("nan")
