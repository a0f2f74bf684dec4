"""The moves of whole columns, and which of them a chain makes where nobody says."""

from __future__ import annotations

from pgfa.samplers.column_block import ColumnBlock
from pgfa.samplers.singleton_exchange import SingletonExchange
from pgfa.samplers.three_and_two import ThreeAndTwo

ColumnMove = ColumnBlock | SingletonExchange | ThreeAndTwo

#: What the rates assume where the number of features is not known beforehand.
_TYPICAL_FEATURES = 15


def default_column_moves(num_features: int | None) -> tuple[ColumnMove, ...]:
    """A mixture of moves that brings chains home, at about the cost of two sweeps of the discrete particle filter.

    Parameters
    ----------
    num_features
        Number of columns, or None where it is part of the state. Fewer columns need fewer moves. (The rates must not
        follow the state: that would spoil the invariance.)
    """
    scale = min(1.0, (_TYPICAL_FEATURES if num_features is None else num_features) ** 2 / 400.0)
    moves = (
        ColumnBlock(1, "all", num_particles=30, rate=2.0 * scale),
        ColumnBlock(2, "users", num_particles=12, rate=2.0 * scale),
        ColumnBlock(2, "all", num_particles=12, rate=scale),
        ColumnBlock(3, "users", num_particles=12, rate=2.0 * scale),
        ThreeAndTwo(rate=2.0 * scale**0.5),
    )
    return (*moves, SingletonExchange()) if num_features is None else moves
