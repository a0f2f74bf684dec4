"""The finite Beta-Bernoulli prior: K features, each with its own Beta-distributed popularity."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from pgfa import checks
from pgfa.adaptation import StepSize
from pgfa.priors.base import Prior


class BetaBernoulli(Prior):
    """Finite Beta-Bernoulli prior with the popularities of the features integrated out.

    Every feature k has a popularity drawn from Beta(a, b), and every row owns it with that probability.

    Parameters
    ----------
    num_features
        Number of columns K of Z. Some of them may stay empty.
    a, b
        Parameters of the Beta distribution. Without `a`, it is alpha / K with alpha Gamma-distributed and learnt; the
        limit of many features is then the Indian buffet process.
    alpha_shape, alpha_rate
        Gamma prior of alpha. Plays no part when `a` is given.

    Examples
    --------
    >>> import numpy as np
    >>> from pgfa import BetaBernoulli
    >>> prior = BetaBernoulli(num_features=3)
    >>> Z = prior.sample(np.random.default_rng(1), num_rows=5, alpha=2.0)
    >>> Z.shape
    (5, 3)
    >>> round(BetaBernoulli(num_features=1, a=1.0).log_prob([[1], [0]]), 4)  # 1/6
    -1.7918
    """

    grows = False

    def __init__(
        self,
        num_features: int,
        a: float | None = None,
        b: float = 1.0,
        *,
        alpha_shape: float = 1.0,
        alpha_rate: float = 1.0,
    ) -> None:
        super().__init__(alpha_shape, alpha_rate)
        self.num_features = checks.whole("num_features", num_features, at_least=1)
        self.a = None if a is None else checks.positive("a", a)
        self.b = checks.positive("b", b)

    def __repr__(self) -> str:
        a = "" if self.a is None else f", a={self.a:g}"
        return f"BetaBernoulli(num_features={self.num_features}{a}, b={self.b:g})"

    @property
    def has_concentration(self) -> bool:
        return self.a is None

    def _a(self, alpha: float) -> float:
        return checks.positive("alpha", alpha) / self.num_features if self.a is None else self.a

    def check(self, Z: NDArray[np.uint8]) -> None:
        if Z.shape[1] != self.num_features:
            raise ValueError(
                f"Z must have {self.num_features} columns, one for each feature of the prior, got {Z.shape[1]}"
            )

    def log_prob(self, Z: Any, alpha: float = 1.0) -> float:
        num_rows, owners = self._owners(Z)
        return self._log_prob(owners, num_rows, self._a(alpha))

    def _log_prob(self, owners: NDArray[np.int64], num_rows: int, a: float) -> float:
        return float(np.sum(betaln(owners + a, num_rows - owners + self.b) - betaln(a, self.b)))

    def sample(self, rng: np.random.Generator, num_rows: int, alpha: float = 1.0) -> NDArray[np.uint8]:
        num_rows = checks.whole("num_rows", num_rows, at_least=1)
        popularity = rng.beta(self._a(alpha), self.b, size=self.num_features)
        return (rng.random((num_rows, self.num_features)) < popularity).astype(np.uint8)

    def predictive(self, counts: Any, num_rows: int, alpha: float = 1.0) -> NDArray[np.float64]:
        a = self._a(alpha)
        return (np.asarray(counts, dtype=float) + a) / (num_rows - 1 + a + self.b)

    def singleton_rate(self, num_rows: int, alpha: float) -> tuple[float, int]:
        return float(np.log(self._a(alpha)) - np.log(num_rows - 1 + self.b)), self.num_features

    def log_column_mass(self, num_rows: int, alpha: float) -> NDArray[np.float64]:
        owners = np.arange(num_rows + 1)
        return np.asarray(betaln(owners + self._a(alpha), num_rows - owners + self.b), dtype=np.float64)

    def placeholder(self, alpha: float, num_features: int) -> tuple[float, float]:
        return self._a(alpha), self.b

    def update_alpha(
        self, Z: NDArray[np.uint8], alpha: float, rng: np.random.Generator, step_size: StepSize, *, warmup: bool = False
    ) -> float:
        """Random-walk Metropolis on log alpha; nothing moves when `a` is given."""
        if self.a is not None:
            return alpha
        owners = Z.sum(axis=0, dtype=np.int64)
        proposal = float(alpha * np.exp(step_size.value * rng.standard_normal()))
        log_ratio = self._log_target(owners, Z.shape[0], proposal) - self._log_target(owners, Z.shape[0], alpha)
        accepted = np.log(rng.random()) < log_ratio
        step_size.record(int(accepted), 1, adapt=warmup)
        return proposal if accepted else alpha

    def _log_target(self, owners: NDArray[np.int64], num_rows: int, alpha: float) -> float:
        """Log posterior density of log alpha up to a constant; the last term but one is the Jacobian with the prior."""
        if not 0.0 < alpha < np.inf:
            return -np.inf
        log_prior_of_log_alpha = self.alpha_shape * np.log(alpha) - self.alpha_rate * alpha
        return self._log_prob(owners, num_rows, alpha / self.num_features) + log_prior_of_log_alpha
