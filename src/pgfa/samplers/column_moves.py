"""The moves of whole columns, and which of them a chain makes where nobody says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgfa.samplers.column_block import ColumnBlock
from pgfa.samplers.joint_flip import JointFlip
from pgfa.samplers.singleton_exchange import SingletonExchange
from pgfa.samplers.three_and_two import ThreeAndTwo

if TYPE_CHECKING:
    from pgfa.models.base import Model
    from pgfa.priors.base import Prior

ColumnMove = ColumnBlock | JointFlip | SingletonExchange | ThreeAndTwo

#: What the rates assume where the number of features is not known beforehand.
_TYPICAL_FEATURES = 15
#: Share of the rates that were tried, two moves of most kinds an iteration, with which they take about two sweeps.
_MOST = 0.85
#: With more dimensions than this, moves that work on each of them are made the more seldom the more there are.
_MANY_DIMENSIONS = 22


def default_column_moves(model: Model, prior: Prior) -> tuple[ColumnMove, ...]:
    """A mixture of moves that brings chains home, at about the cost of two sweeps of the discrete particle filter.

    Fewer columns need fewer moves, and with many dimensions these cost more beside a sweep. (The rates must not follow
    the state: that would spoil the invariance.) None for models whose data are not Gaussian in the features.
    """
    if not model.has_column_moves:
        return ()
    num_features = getattr(prior, "num_features", _TYPICAL_FEATURES)
    few = min(_MOST, num_features**2 / 400.0)
    scale = few * min(1.0, _MANY_DIMENSIONS / max(getattr(model, "num_columns", 1), 1))
    return (
        ColumnBlock(1, "all", num_particles=30, rate=2.0 * scale),
        ColumnBlock(2, "users", num_particles=12, rate=2.0 * scale),
        ColumnBlock(2, "all", num_particles=12, rate=scale),
        ColumnBlock(3, "users", num_particles=12, rate=2.0 * scale),
        ThreeAndTwo(rate=2.0 * few**0.5),
        SingletonExchange(rate=20.0),
        JointFlip(),
    )
