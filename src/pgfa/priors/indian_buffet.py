"""The Indian buffet process: as many features as the data ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma, gammaln

from pgfa import checks
from pgfa.adaptation import StepSize
from pgfa.priors.base import Prior

#: Matrices of more features than this are not drawn: they would take minutes and all memory.
_MOST_FEATURES = 10_000


def harmonic(num_rows: int) -> float:
    """H_N = 1 + 1/2 + ... + 1/N, the expected number of features at alpha = 1."""
    return float(digamma(num_rows + 1) + np.euler_gamma)


class IndianBuffet(Prior):
    """Indian buffet process: the number of features is part of what is learnt.

    A priori the number of used features is Poisson with mean ``alpha * H_N``, ``H_N = 1 + 1/2 + ... + 1/N``.

    Parameters
    ----------
    alpha_shape, alpha_rate
        Gamma prior of the concentration alpha.

    Examples
    --------
    >>> import numpy as np
    >>> from pgfa import IndianBuffet
    >>> Z = IndianBuffet().sample(np.random.default_rng(1), num_rows=10, alpha=2.0)
    >>> bool(Z.any(axis=0).all())
    True
    >>> round(IndianBuffet().log_prob([[1]], alpha=1.0), 4)  # one dish of a Poisson(1) number
    -1.0
    """

    grows = True

    def __init__(self, *, alpha_shape: float = 1.0, alpha_rate: float = 1.0) -> None:
        super().__init__(alpha_shape, alpha_rate)

    def __repr__(self) -> str:
        return "IndianBuffet()"

    def log_prob(self, Z: Any, alpha: float = 1.0) -> float:
        """Normalised log probability; columns that nobody uses do not count.

        It is the mass of the features in the uniformly random order that the paper uses: alpha^K / K! exp(-alpha H_N)
        times a Beta function for each column.
        """
        num_rows, owners = self._owners(Z)
        owners = owners[owners > 0]
        alpha = checks.positive("alpha", alpha)
        columns = gammaln(owners) + gammaln(num_rows - owners + 1) - gammaln(num_rows + 1)
        return float(
            owners.size * np.log(alpha) - gammaln(owners.size + 1) - alpha * harmonic(num_rows) + np.sum(columns)
        )

    def sample(self, rng: np.random.Generator, num_rows: int, alpha: float = 1.0) -> NDArray[np.uint8]:
        """Draw a matrix; its columns come in order of their first owner."""
        num_rows = checks.whole("num_rows", num_rows, at_least=1)
        expected = checks.positive("alpha", alpha) * harmonic(num_rows)
        if expected > _MOST_FEATURES:
            raise ValueError(
                f"alpha must be at most {_MOST_FEATURES / harmonic(num_rows):.0f} for a matrix of {num_rows} rows, got "
                f"{alpha:g}: about {expected:.3g} features would be drawn (alpha times H_N), and {_MOST_FEATURES} are "
                "the most"
            )
        births = rng.poisson(alpha / np.arange(1, num_rows + 1))
        first_owner = np.repeat(np.arange(num_rows), births)
        # Later rows follow a Polya urn, hence are independent given a popularity drawn from Beta(1, n).
        popularity = rng.beta(1.0, first_owner + 1.0)
        Z = (rng.random((num_rows, first_owner.size)) < popularity).astype(np.uint8)
        row = np.arange(num_rows)[:, np.newaxis]
        Z[row < first_owner] = 0
        Z[row == first_owner] = 1
        return Z

    def predictive(self, counts: Any, num_rows: int, alpha: float = 1.0) -> NDArray[np.float64]:
        """Probability that a row owns each feature of the others; its new features are Poisson(alpha / N) in number."""
        return np.asarray(counts, dtype=float) / num_rows

    def singleton_rate(self, num_rows: int, alpha: float) -> tuple[float, int]:
        return float(np.log(checks.positive("alpha", alpha) / num_rows)), 0

    def log_column_mass(self, num_rows: int, alpha: float) -> NDArray[np.float64]:
        """As a Poisson process of columns: alpha times a Beta function each; a column without owners is no column."""
        owners = np.arange(1, num_rows + 1)
        return np.concatenate([[0.0], np.log(alpha) + betaln(owners, num_rows - owners + 1)])

    def placeholder(self, alpha: float, num_features: int) -> tuple[float, float]:
        return alpha / (num_features + 1.0), 1.0

    def update_alpha(
        self, Z: NDArray[np.uint8], alpha: float, rng: np.random.Generator, step_size: StepSize, *, warmup: bool = False
    ) -> float:
        """Exact draw from the Gamma posterior given the number of used features."""
        num_used = int(np.count_nonzero(Z.any(axis=0)))
        return float(rng.gamma(self.alpha_shape + num_used, 1.0 / (self.alpha_rate + harmonic(Z.shape[0]))))
