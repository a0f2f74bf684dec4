"""Dispatch at compile time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from pgfa._compile import compiled, implements


class Mixed(NamedTuple):
    values: np.ndarray
    scale: float


class AllAlike(NamedTuple):
    first: np.ndarray
    second: np.ndarray


class Unknown(NamedTuple):
    first: np.ndarray


def total(thing):
    raise NotImplementedError


@implements(total, Mixed)
def _total_of_mixed(thing):
    return thing.scale * thing.values.sum()


@implements(total, AllAlike, inline=True)
def _total_of_all_alike(thing):
    return thing.first.sum() + thing.second.sum()


@implements(total, None)
def _total_of_anything_else(thing):
    return -1.0


@compiled
def call_total(thing):
    return total(thing)


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (Mixed(np.ones(3), 2.0), 6.0),
        # Tuples whose fields all have one type are another type to the compiler.
        (AllAlike(np.ones(3), np.ones(4)), 7.0),
        (Unknown(np.ones(3)), -1.0),
    ],
)
def test_the_class_of_the_first_argument_chooses_the_body(thing, expected):
    assert call_total(thing) == expected
