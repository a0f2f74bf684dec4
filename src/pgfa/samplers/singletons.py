"""Features that a row has all to itself: how their number is moved once the features that it shares have been.

There are two ways. `Proposals` come from the prior and are accepted or not, which needs nothing of a model. Where the
model can integrate the parameters of singletons out (`Model.integrates_singletons`), their number is drawn from its
conditional distribution instead (`Conditional`). Then columns without another owner never go through the row kernel,
whatever the prior: of a finite number of columns most may be empty, and each would cost as much as one in use.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled, implements
from pgfa.lanes import LANES, padded
from pgfa.rows import draw_feature, draw_singletons, integrate_singletons, propose_singletons, weigh_singletons
from pgfa.samplers.base import draw_index, exponentiate, shuffle

#: A row's number of singletons is drawn anew among so many consecutive ones.
WINDOW = 3
#: Columns without owner that a row must find, so that there is room for all of these numbers.
ROOM = WINDOW - 1


class Proposals(NamedTuple):
    """Number of singletons that each row proposes to have, drawn from its prior.

    There must be at least as many columns without owner as proposals in all.
    """

    counts: NDArray[np.int64]


class Conditional(NamedTuple):
    """The prior of the number of singletons of a row, whichever row that is.

    Parameters
    ----------
    log_rate
        Log odds of owning a column without another owner; where their number is free, the logarithm of the expected
        number of singletons.
    num_columns
        Number of columns in all, with or without owners; zero where it is free.
    shift
        Numbers are divided into windows of three, 0 to 2 and so on, in which they are drawn anew; with a shift of one
        the first window is 0 and 1, and what was a border no longer is.
    log_weights, weights
        Memory.
    """

    log_rate: float
    num_columns: int
    shift: int
    log_weights: NDArray[np.float64]
    weights: NDArray[np.float64]


def propose_births(num_rows: int, alpha: float, rng: np.random.Generator) -> Proposals:
    """Proposals for every row under the Indian buffet process."""
    return Proposals(rng.poisson(alpha / num_rows, size=num_rows))


def make_conditional(log_rate: float, num_columns: int, rng: np.random.Generator) -> Conditional:
    """The prior of the number of singletons, with a random shift."""
    return Conditional(
        float(log_rate), num_columns, int(rng.integers(2)), np.zeros(padded(LANES)), np.zeros(padded(LANES))
    )


def has_room(births: Any, num_empty: int, num_used: int) -> bool:
    """Whether there are enough columns without owner for what a row may come to have."""
    raise NotImplementedError


def power_for_shared(births: Any, rows: Any, count: int, power: float) -> float:
    """Power of the likelihood for the features that a row with `count` singletons shares; negative to hold these."""
    raise NotImplementedError


def move_singletons(
    births: Any, rows: Any, n: int, z: Any, own: Any, num_own: int, empty: Any, num_empty: int, num_shared: int,
    integrated: bool, block: Any, power: float, rng: Any,
) -> tuple[int, int]:  # fmt: skip
    """Move the number of singletons of row n, which is z, and their parameters.

    Parameters
    ----------
    own, num_own
        The row's singletons. Room for all columns.
    empty, num_empty
        Columns without owner.
    num_shared
        Number of columns that other rows own.
    integrated
        Whether the parameters of the singletons were integrated out in what came before.

    Returns
    -------
    Whether a change was tried, and whether it was made: 0 or 1.
    """
    raise NotImplementedError


@implements(has_room, Proposals, allocates=False)
def _proposals_have_room(births, num_empty, num_used):  # type: ignore[no-untyped-def]
    return True


@implements(has_room, Conditional, allocates=False)
def _conditional_has_room(births, num_empty, num_used):  # type: ignore[no-untyped-def]
    all_are_here = births.num_columns > 0 and num_empty + num_used == births.num_columns
    return all_are_here or num_empty >= ROOM


@implements(power_for_shared, Proposals, allocates=False)
@implements(power_for_shared, Conditional, allocates=False)
def _integrate(births, rows, count, power):  # type: ignore[no-untyped-def]
    return integrate_singletons(rows, count, power)


@implements(move_singletons, Proposals, allocates=False)
def _propose(  # type: ignore[no-untyped-def]
    births, rows, n, z, own, num_own, empty, num_empty, num_shared, integrated, block, power, rng
):
    if integrated:
        draw_singletons(rows, n, z, own[:num_own], power, rng)
    num_new = min(births.counts[n], num_empty)
    if num_own == 0 and num_new == 0:
        return 0, 0
    if not propose_singletons(rows, n, z, own[:num_own], empty[:num_new], block, power, rng):
        return 1, 0
    for i in range(num_own):
        z[own[i]] = 0
    for i in range(num_new):
        z[empty[i]] = 1
    return 1, 1


@implements(move_singletons, Conditional, allocates=False)
def _draw_number(  # type: ignore[no-untyped-def]
    births, rows, n, z, own, num_own, empty, num_empty, num_shared, integrated, block, power, rng
):
    for i in range(num_own):
        z[own[i]] = 0
    number = _draw_within_window(births, rows, n, z, num_own, num_shared, power, rng)
    # Which columns they are must not depend on the order of columns, since under a finite prior each has its place.
    kept = min(number, num_own)
    shuffle(own, num_own, rng)
    for i in range(kept, num_own):
        draw_feature(rows, own[i], rng)
    for i in range(kept, number):
        j = i - kept + int(rng.random() * (num_empty - (i - kept)))
        own[i], empty[j] = empty[j], empty[i - kept]
    for i in range(number):
        z[own[i]] = 1
    if number > 0:
        draw_singletons(rows, n, z, own[:number], power, rng)
    return np.int64(num_own > 0 or number > 0), np.int64(number != num_own)


@compiled(allocates=False)
def _draw_within_window(births, rows, n, z, present, num_shared, power, rng):  # type: ignore[no-untyped-def]
    """Draw the number of singletons given that it stays in the window of the present one."""
    window = (present + births.shift) // WINDOW
    fewest = max(window * WINDOW - births.shift, 0)
    most = (window + 1) * WINDOW - births.shift - 1
    num_free = births.num_columns - num_shared
    if births.num_columns > 0:
        most = min(most, num_free)
    count = most - fewest + 1
    log_weights = births.log_weights
    weigh_singletons(rows, n, z, fewest, count, power, log_weights)
    log_prior = 0.0
    for i in range(1, count):
        # One more, in any of the columns that are left; where their number is free, in none that has to be told.
        choices = num_free - (fewest + i - 1) if births.num_columns > 0 else 1
        log_prior += births.log_rate + np.log(choices / (fewest + i))
        log_weights[i] += log_prior
    total = exponentiate(log_weights, count, births.weights)
    return fewest + draw_index(births.weights, count, total, rng)
