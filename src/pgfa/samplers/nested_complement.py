"""Replace a column by its complement within a column that contains it, which leaves the data's mean as it is.

Where all owners of column b also own column a, the rows that own a without b could as well own a column instead of
them, with the values of b added to those of a, and taken off. Chains that have chosen the worse of two ways to say the
same find no merge that the other way would offer, and moves that redraw both columns row by row seldom come across it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa._compile import compiled
from pgfa.columns import LEAST_POWER
from pgfa.state import State

if TYPE_CHECKING:
    from pgfa.models.base import Model
    from pgfa.priors.base import Prior


@dataclass(frozen=True)
class NestedComplement:
    """Propose to replace column b by what it leaves of a column a that contains it.

    Parameters
    ----------
    rate
        Proposals an iteration; a fraction is the probability of one more.

    Notes
    -----
    The new values are ``V_a + V_b`` and ``-V_b``. The mean of every row stays as it is, and the map undoes itself and
    keeps volumes, so that what decides are the prior of the columns, that of the values, and the number of such pairs
    to choose from before and after. It takes models whose data are Gaussian in the values of the features, like
    `LinearGaussian`.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> moves = [pgfa.ColumnBlock(2, "users"), pgfa.NestedComplement()]
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(4), column_moves=moves, seed=1)
    >>> chain.step(5)
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)

    def apply(self, model: Model, prior: Prior, state: State, rng: np.random.Generator, power: float) -> State:
        """Make the proposals of one iteration; Z and V change in place."""
        if power < LEAST_POWER:
            return state
        view = model.column_view(state.parameters, power)
        log_mass = prior.log_column_mass(state.num_rows, state.alpha)
        Z, V = state.Z, view.V
        shared = count_shared(Z)
        whole, fraction = divmod(self.rate, 1.0)
        for _ in range(int(whole) + int(rng.random() < fraction)):
            pairs = nested_pairs(shared)
            if not len(pairs):
                break
            a, b = pairs[rng.integers(len(pairs))]
            new_shared = shared.copy()
            new_shared[b] = new_shared[:, b] = shared[a] - shared[b]
            new_shared[b, b] = shared[a, a] - shared[b, b]
            log_ratio = log_mass[new_shared[b, b]] - log_mass[shared[b, b]]
            log_ratio += np.log(len(pairs) / len(nested_pairs(new_shared)))
            together = V[a] + V[b]
            log_ratio -= 0.5 * view.tau_v * float(together @ together - V[a] @ V[a])
            if np.log(rng.random()) < log_ratio:
                Z[:, b] = Z[:, a] - Z[:, b]
                V[a], V[b] = together, -V[b]
                shared = new_shared
        return state


@compiled
def count_shared(Z):  # type: ignore[no-untyped-def]
    """Number of rows that own both of two columns, for all pairs."""
    num_columns = Z.shape[1]
    shared = np.zeros((num_columns, num_columns), dtype=np.int64)
    for n in range(Z.shape[0]):
        for a in range(num_columns):
            if Z[n, a] == 1:
                for b in range(num_columns):
                    shared[a, b] += Z[n, b]
    return shared


def nested_pairs(shared: NDArray[np.int64]) -> NDArray[np.intp]:
    """Pairs (a, b) of columns where a has all owners of b and others as well; `shared` counts common owners."""
    owners = np.diag(shared)
    return np.argwhere((shared == owners) & (owners > 0) & (owners[:, None] > owners))
