"""Column moves: particle Gibbs over rows, for a few columns at a time, with their values integrated out.

Row updates, however good, keep the columns that they are given. Chains from the prior often end with columns that are
sums, differences or shares of the true ones, and no row at a time can repair that. The move here takes up to three
columns, forgets their values, and lays out all of their entries anew, row after row, with a discrete particle filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from pgfa import checks
from pgfa.columns import LEAST_POWER, draw_number_of_moves
from pgfa.samplers.column_filter import make_workspace, move_columns
from pgfa.state import State, add_features, drop_unused_features

if TYPE_CHECKING:
    from pgfa.models.base import Model
    from pgfa.priors.base import Prior


@dataclass(frozen=True)
class ColumnBlock:
    """Redraw all entries of a few columns at once, with their values integrated out.

    Parameters
    ----------
    num_columns
        Columns that are moved together: 1, 2 or 3. One column can be born, die or be laid out anew; two or three can
        exchange what they hold.
    rows
        ``"all"``, or ``"users"``: only rows that own one of the columns, and that will own one of them afterwards. The
        latter needs two columns or more.
    num_particles
        Particles kept after thinning; at least 2.
    rate
        How many such moves an iteration makes; a fraction is the probability of one more.

    Notes
    -----
    Columns are chosen among those in use and one empty slot, and the choice depends on how many are in use; the weight
    of the final particles pays for that, so that the move is exact without an accept step. It takes models whose data
    are Gaussian in the values of the features, like `LinearGaussian`.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> moves = [pgfa.ColumnBlock(1, "all"), pgfa.ColumnBlock(2, "users")]
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.IndianBuffet(), column_moves=moves, seed=1)
    >>> chain.step(5)
    """

    num_columns: int = 2
    rows: str = "users"
    num_particles: int = 12
    rate: float = 1.0

    def __post_init__(self) -> None:
        if checks.whole("num_columns", self.num_columns, at_least=1) > 3:
            raise ValueError(f"num_columns must be 1, 2 or 3, got {self.num_columns}")
        checks.one_of("rows", self.rows, ("all", "users"))
        if self.rows == "users" and self.num_columns == 1:
            raise ValueError("rows='users' needs num_columns of at least 2: the users of one column all keep it")
        checks.whole("num_particles", self.num_particles, at_least=2)
        checks.positive("rate", self.rate)

    def apply(self, model: Model, prior: Prior, state: State, rng: np.random.Generator, power: float) -> State:
        """Make the moves of one iteration."""
        if power < LEAST_POWER:
            return state
        log_mass = prior.log_column_mass(state.num_rows, state.alpha)
        owners = state.Z.sum(axis=0, dtype=np.int64)
        for _ in range(draw_number_of_moves(self.rate, rng)):
            used, empty = np.flatnonzero(owners > 0), np.flatnonzero(owners == 0)
            # One empty column, whichever, stands for all of them.
            candidates = used.size + (1 if prior.grows or empty.size else 0)
            if candidates < self.num_columns:
                continue
            chosen = rng.choice(candidates, size=self.num_columns, replace=False)
            if empty.size == 0 and chosen.max() == used.size:
                state = add_features(state, model.feature_axes, 1)
                owners = np.append(owners, 0)
                empty = np.array([owners.size - 1])
            group = np.array([used[i] if i < used.size else rng.choice(empty) for i in chosen], dtype=np.int64)
            self._move(model, prior, state, group, owners, rng, power, log_mass)
            owners[group] = state.Z[:, group].sum(axis=0)
        return drop_unused_features(state, model.feature_axes) if prior.grows else state

    def _move(
        self,
        model: Model,
        prior: Prior,
        state: State,
        group: NDArray[np.int64],
        owners: NDArray[np.int64],
        rng: np.random.Generator,
        power: float,
        log_mass: NDArray[np.float64],
    ) -> None:
        if self.rows == "users":
            moved = np.flatnonzero(state.Z[:, group].any(axis=1))
        else:
            moved = np.arange(state.num_rows)
        if moved.size == 0:
            return
        num_outside = int(np.count_nonzero(owners) - np.count_nonzero(owners[group]))
        num_slots = None if prior.grows else state.num_features
        # Not the number of columns in use, which the move may change: its reverse must see the same placeholder.
        a, b = prior.placeholder(state.alpha, num_outside + self.num_columns)
        view = model.column_view(state.parameters, power)
        work = make_workspace(self.num_particles, group.size, moved.size, view.V.shape[1])
        move_columns(
            work, view, state.Z, group, moved, self.rows == "users", a, b, log_mass,
            _log_selection(self.num_columns, num_outside, num_slots), rng,
        )  # fmt: skip


def _log_selection(size: int, num_outside: int, num_slots: int | None) -> NDArray[np.float64]:
    """Log probability of choosing these very columns, when 0, 1, ..., size of them are in use.

    `num_outside` other columns are in use. With a fixed number of columns in all (`num_slots`), the empty slot stands
    for any of those not in use; without, it is a new column.
    """
    log_prob = np.full(size + 1, -np.inf)
    for in_use in range(size + 1):
        empties = size - in_use
        num_used = num_outside + in_use
        num_empty = 1 if num_slots is None else num_slots - num_used
        offered = min(num_empty, 1)
        if empties <= offered and num_used + offered >= size:
            ways = comb(num_empty, empties) if num_slots is not None else 1.0
            log_prob[in_use] = -np.log(ways) - np.log(comb(num_used + offered, size))
    return log_prob
