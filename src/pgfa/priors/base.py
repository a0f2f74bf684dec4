"""What every prior over feature matrices offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa.adaptation import StepSize
from pgfa.densities import log_gamma


class Prior(ABC):
    """A prior on Z with a Gamma-distributed concentration alpha (shape and rate)."""

    #: Whether features are born and die (the number of columns is part of the state).
    grows: bool

    def __init__(self, alpha_shape: float = 1.0, alpha_rate: float = 1.0) -> None:
        self.alpha_shape = checks.positive("alpha_shape", alpha_shape)
        self.alpha_rate = checks.positive("alpha_rate", alpha_rate)

    @property
    def has_concentration(self) -> bool:
        """Whether alpha is part of the model."""
        return True

    @abstractmethod
    def log_prob(self, Z: Any, alpha: float = 1.0) -> float:
        """Normalised log probability of the matrix Z given alpha."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, num_rows: int, alpha: float = 1.0) -> NDArray[np.uint8]:
        """Draw a matrix with `num_rows` rows given alpha."""

    @abstractmethod
    def predictive(self, counts: Any, num_rows: int, alpha: float = 1.0) -> NDArray[np.float64]:
        """Probability that a row owns each feature, given how many of the *other* rows own it.

        Parameters
        ----------
        counts
            For each feature, the number of owners among the other ``num_rows - 1`` rows.
        num_rows
            Number of rows in all.
        """

    def log_odds(self, num_rows: int, alpha: float) -> NDArray[np.float64]:
        """Prior log odds of owning a feature, for 0, 1, ..., num_rows - 1 owners among the other rows."""
        probability = self.predictive(np.arange(num_rows), num_rows, alpha)
        with np.errstate(divide="ignore"):
            return np.log(probability) - np.log1p(-probability)

    @abstractmethod
    def singleton_rate(self, num_rows: int, alpha: float) -> tuple[float, int]:
        """Prior of how many features a row has all to itself, given how many columns other rows own.

        Returns
        -------
        Log odds of owning a column without another owner and the number of columns in all, of which those without
        another owner may be singletons; or, where features come and go, the logarithm of the expected number of
        singletons and zero.
        """

    @abstractmethod
    def log_column_mass(self, num_rows: int, alpha: float) -> NDArray[np.float64]:
        """Log prior mass of a column with 0, 1, ..., num_rows owners, up to a constant that all states share."""

    @abstractmethod
    def placeholder(self, alpha: float, num_features: int) -> tuple[float, float]:
        """Pseudo-counts of owners and others that resemble the prior of a column; they guide column moves."""

    @abstractmethod
    def update_alpha(
        self, Z: NDArray[np.uint8], alpha: float, rng: np.random.Generator, step_size: StepSize, *, warmup: bool = False
    ) -> float:
        """Move alpha given Z, leaving its posterior invariant."""

    def log_prob_alpha(self, alpha: float) -> float:
        """Log density of the Gamma prior at alpha; zero where the prior on Z has no concentration."""
        if not self.has_concentration:
            return 0.0
        return log_gamma(alpha, self.alpha_shape, self.alpha_rate)

    def sample_alpha(self, rng: np.random.Generator) -> float:
        """Draw alpha from its prior."""
        return float(rng.gamma(self.alpha_shape, 1.0 / self.alpha_rate)) if self.has_concentration else 1.0

    def check(self, Z: NDArray[np.uint8]) -> None:
        """Refuse a matrix that this prior cannot have produced."""

    def _owners(self, Z: Any) -> tuple[int, NDArray[np.int64]]:
        """Number of rows, and the number of owners of each column."""
        matrix = checks.binary_matrix("Z", Z, np.shape(Z)[0] if np.ndim(Z) else 0)
        if matrix.shape[0] == 0:
            raise ValueError("Z must have at least one row")
        self.check(matrix)
        return matrix.shape[0], matrix.sum(axis=0, dtype=np.int64)
