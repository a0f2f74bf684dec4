"""The one contract between samplers and models: the likelihood of one row.

A model hands the samplers a *row view*, a NamedTuple of arrays for fixed parameters. The likelihood of row n depends on
its feature vector z only through a *predictor* that is additive over features, so turning one feature on or off costs
one vector addition and one evaluation. A sampler keeps the predictors of many candidate vectors ("particles") side by
side in a *block*, an array whose layout is the row view's own business.

The functions below are declared here, called by samplers from compiled code, and implemented for each row view with
`pgfa._compile.implements`. Log likelihoods are those of row n up to a constant that does not depend on z, and finite.

Conventions: `n` is the row, `k` a column, `sign` is +1 where the feature is turned on and -1 where it is turned off,
and `count` says how many particles of the block are in use.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled, implements


class RowView(Protocol):
    """What every row view offers to Python; the compiled functions do the rest."""

    def make_block(self, num_particles: int) -> NDArray[np.float64]:
        """Memory for the predictors of that many particles."""


def begin_row(rows: Any, n: int) -> None:
    """Prepare whatever is needed to evaluate vectors for row n."""
    raise NotImplementedError


def follow(rows: Any, n: int, columns: Any, num_columns: int) -> None:
    """Take note that a filter will decide ``columns[:num_columns]`` of row n in this order, each once, and no others.

    From then on, and until the next `begin_row`, the particles that `spawn` writes need hold no more than what columns
    still to be decided depend on, and `flip` is not called.
    """
    raise NotImplementedError


def start(rows: Any, n: int, z: Any, block: Any) -> float:
    """Write the predictor of vector z as particle 0 of the block and return its log likelihood."""
    raise NotImplementedError


def flipped(rows: Any, n: int, k: int, sign: float, block: Any, log_lik: Any, count: int, out: Any) -> None:
    """Set out[i] to the log likelihood of particle i with feature k flipped; log_lik[i] is its present value."""
    raise NotImplementedError


def flip(rows: Any, n: int, k: int, sign: float, block: Any) -> None:
    """Flip feature k of particle 0, in place."""
    raise NotImplementedError


def spawn(rows: Any, n: int, k: int, sign: float, block: Any, parents: Any, flips: Any, count: int, out: Any) -> None:
    """Write particle j of `out` as particle parents[j] of `block`, with feature k flipped where flips[j] is 1."""
    raise NotImplementedError


def end_row(rows: Any, n: int, z: Any) -> None:
    """Take note that row n is now z."""
    raise NotImplementedError


def draw_feature(rows: Any, k: int, rng: Any) -> None:
    """Draw the parameters of feature k, which nobody uses, from their prior."""
    raise NotImplementedError


def propose_singletons(rows: Any, n: int, z: Any, old: Any, new: Any, block: Any, power: float, rng: Any) -> bool:
    """Propose to replace the columns `old`, which only row n uses, by the unused columns `new`.

    The number of new columns comes from its prior, so what is left of the Metropolis-Hastings ratio is the likelihood
    of the row, raised to `power`. Draws the parameters of the new columns and says whether the proposal is accepted;
    the caller changes Z. Every row view has the prior proposals below; one that can integrate the parameters out does
    better.
    """
    raise NotImplementedError


def integrate_singletons(rows: Any, count: int, power: float) -> float:
    """Power that the row's likelihood has, up to a constant, once the parameters of its singletons are integrated out.

    The features that a row shares with others are then updated as if it had no singletons, at this power, and
    `draw_singletons` follows. Without that, a row whose singleton does the work of a shared feature hardly ever takes
    the shared one: it would have to own both for a while, or neither. Negative where a model cannot do it.

    Parameters
    ----------
    count
        Number of singletons of the row at hand, at least one.
    power
        Power of the likelihood given the singletons.
    """
    raise NotImplementedError


def draw_singletons(rows: Any, n: int, z: Any, singletons: Any, power: float, rng: Any) -> None:
    """Draw the parameters of these columns, which row n alone owns, given the rest."""
    raise NotImplementedError


def weigh_singletons(rows: Any, n: int, z: Any, fewest: int, count: int, power: float, out: Any) -> None:
    """Set out[i] to the log likelihood of row n with ``fewest + i`` singletons whose parameters are integrated out.

    For i below `count`, raised to `power`, and up to a constant. The vector z has no singletons. Row views of models
    with `integrates_singletons` implement it.
    """
    raise NotImplementedError


@implements(end_row, None, allocates=False)
def _forget_row(rows, n, z):  # type: ignore[no-untyped-def]
    pass


@implements(follow, None, allocates=False)
def _keep_all_columns(rows, n, columns, num_columns):  # type: ignore[no-untyped-def]
    pass


@compiled(allocates=False)
def propose_singletons_from_prior(rows, n, z, old, new, block, power, rng):  # type: ignore[no-untyped-def]
    """Metropolis-Hastings step with the parameters of the new columns drawn from their prior."""
    log_ratio = -start(rows, n, z, block)
    for k in new:
        draw_feature(rows, k, rng)
    begin_row(rows, n)
    for k in old:
        z[k] = 0
    for k in new:
        z[k] = 1
    log_ratio += start(rows, n, z, block)
    for k in old:
        z[k] = 1
    for k in new:
        z[k] = 0
    return np.log(rng.random()) < power * log_ratio


@implements(propose_singletons, None, allocates=False)
def _propose_singletons(rows, n, z, old, new, block, power, rng):  # type: ignore[no-untyped-def]
    return propose_singletons_from_prior(rows, n, z, old, new, block, power, rng)


@implements(integrate_singletons, None, allocates=False)
def _cannot_integrate(rows, count, power):  # type: ignore[no-untyped-def]
    return -1.0


@implements(draw_singletons, None, allocates=False)
def _leave_singletons(rows, n, z, singletons, power, rng):  # type: ignore[no-untyped-def]
    pass
