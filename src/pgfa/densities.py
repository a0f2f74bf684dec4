"""Distributions of the parameters, in the parametrisation of the paper: shape and rate, mean and precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln


def log_gamma(x: float, shape: float, rate: float) -> float:
    """Log density of Gamma(shape, rate) at x."""
    return float(shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * np.log(x) - rate * x)


def draw_gamma(rng: np.random.Generator, shape: float, rate: float) -> float:
    """A draw from Gamma(shape, rate) that never rounds to zero, which would be no precision at all."""
    return max(float(rng.gamma(shape, 1.0 / rate)), np.finfo(float).tiny)


def log_normal(x: Any, mean: float, precision: float) -> float:
    """Log density of independent Normal(mean, precision) entries at the array x, summed."""
    deviation = np.asarray(x) - mean
    return float(
        0.5 * deviation.size * np.log(precision / (2.0 * np.pi)) - 0.5 * precision * np.vdot(deviation, deviation)
    )
