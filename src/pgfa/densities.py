"""Log densities of the parameters' priors, in the parametrisation of the paper: shape and rate, mean and precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln


def log_gamma(x: float, shape: float, rate: float) -> float:
    """Log density of Gamma(shape, rate) at x."""
    return float(shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * np.log(x) - rate * x)


def log_normal(x: Any, mean: float, precision: float) -> float:
    """Log density of independent Normal(mean, precision) entries at the array x, summed."""
    deviation = np.asarray(x) - mean
    return float(
        0.5 * deviation.size * np.log(precision / (2.0 * np.pi)) - 0.5 * precision * np.vdot(deviation, deviation)
    )
