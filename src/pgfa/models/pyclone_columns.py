"""Moves of whole populations: split and merge, birth and death, two told as three.

Row updates keep the columns that they are given. Two populations lumped together in one column, one population torn
into two, or a column that hardly any cell has: no row at a time can mend these, because all owners of a column would
have to move at once. The moves here do that. They are Metropolis-Hastings steps for any prior on Z.

*Split*: a population k becomes two. An owner drawn at random, the anchor, is to have the new one only; what the new one
takes from k is drawn from the density that the anchor's counts give it (see `pyclone_shares`). Then the other owners
decide in random order for k, the new one or both, each by its likelihood and by what the others before it have decided.
*Merge* undoes it: two populations become one that all their owners have.

*Birth*: a column drawn from the prior; what it takes from everyone or from one donor is drawn given its owners. *Death*
undoes it.

Where the number of columns is fixed, a split uses an empty column and a merge leaves one behind, whose share is drawn
given all owners of the other; birth and death become one move that replaces a column. Populations that the same rows
own, *twins*, are one that is told as two. A merger cannot put them together, since none of the two has a row alone;
emptying one of them can, and its reverse gives an empty one the rows of another.

*Regrouping*, where the number of columns is fixed: two populations with many mutations in common are easily told as
three, of which one has what they have in common, and as many cells as both together. Then `propose_two` finds them, and
all shares stay as they are: the third population is left with its cells and without mutations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgfa._compile import compiled
from pgfa.adaptation import StepSize
from pgfa.models.pyclone_likelihood import NUM_SCRATCH, add_entries, varying_log_likelihood
from pgfa.models.pyclone_rows import CloneRows
from pgfa.models.pyclone_shares import (
    EVERYONE,
    SMALLEST,
    draw_logit,
    explore,
    log_density_of_draw,
    log_gamma_density,
    log_prior,
    make_shares,
    raise_table,
    settle,
    weigh,
)
from pgfa.priors.base import Prior
from pgfa.priors.indian_buffet import harmonic
from pgfa.samplers.three_and_two import propose_three, propose_two
from pgfa.state import State

#: What an owner of the population that is split decides for: the old part, the new part, or both.
OLD, NEW, BOTH = range(3)
#: The same by whether it has the old part and the new one.
CHOICES = np.array([[-1, NEW], [OLD, BOTH]])


@compiled
def weigh_split(rows, k, h, anchor, owners, choices, forward, grows, power, rng):  # type: ignore[no-untyped-def]
    """Log weight of a split of column k into k and h, against the merger of the two; proposes whichever is asked for.

    Parameters
    ----------
    owners
        Rows that own k or h, the anchor first.
    choices
        What each of them has, as `OLD`, `NEW` or `BOTH`; drawn here if `forward`.
    forward
        Whether Z and V are those before the split (k has all owners, h none) or those after it.
    grows
        Whether a merger removes h, so that k has all that they have together. If not, h keeps a part.

    Returns
    -------
    The log of ``target(split) proposal(merger) / (target(merger) proposal(split))``, up to the mass of Z and the choice
    of columns and anchor; the logits of h's part after the split, and of its part after the merger.
    """
    V, Z = rows.V, rows.Z
    num_rows = Z.shape[0]
    num_features, num_samples = V.shape
    shares = make_shares(num_rows, num_features, num_samples)
    split_logit = np.empty(num_samples)
    merged_logit = np.full(num_samples, -np.inf)
    is_tabulated = power > 0.0
    log_weight = 0.0
    for m in range(num_samples):
        pool = V[k, m] + V[h, m]
        present = np.log(V[h, m]) - np.log(V[k, m]) if V[h, m] > 0.0 else -np.inf
        for j in range(num_features):
            shares.rest[j] = 0.0 if j == k or j == h else V[j, m]

        # The new part, as the anchor would have it.
        shares.counts[:] = False
        shares.counts[anchor] = True
        shares.owns[anchor] = 1.0
        size = explore(rows, m, k, pool, power, shares) if is_tabulated else 0
        log_total = raise_table(rows, k, pool, 1, size, power, shares)
        r = draw_logit(rows, k, pool, 1, size, log_total, shares, rng) if forward else present
        log_weight -= log_density_of_draw(rows, r, k, pool, 1, size, log_total, shares)
        log_weight += log_prior(r, k, pool, 1, rows.shape, rows.rate)
        split_logit[m] = r

        # What an empty column keeps, as the owners of the merged one would have it.
        if grows:
            log_weight -= log_gamma_density(pool, rows.shape, rows.rate)
        else:
            shares.owns[anchor] = 0.0
            for n in owners:
                shares.counts[n] = True
                shares.gives[n] = 1.0
            size = explore(rows, m, k, pool, power, shares) if is_tabulated else 0
            log_total = raise_table(rows, k, pool, 1, size, power, shares)
            r = present if forward else draw_logit(rows, k, pool, 1, size, log_total, shares, rng)
            log_weight += log_density_of_draw(rows, r, k, pool, 1, size, log_total, shares)
            log_weight -= log_prior(r, k, pool, 1, rows.shape, rows.rate)
            merged_logit[m] = r
            for n in owners:
                shares.gives[n] = 0.0
    log_weight += _weigh_choices(rows, k, h, owners, choices, forward, split_logit, merged_logit, power, rng)
    return log_weight, split_logit, merged_logit


@compiled
def _weigh_choices(rows, k, h, owners, choices, forward, split_logit, merged_logit, power, rng):  # type: ignore[no-untyped-def]
    """Log likelihood of owners after the split less that after the merger and the log probability of the choices."""
    V, Z, layout = rows.V, rows.Z, rows.layouts.by_row
    num_features, num_samples = V.shape
    block = np.empty((num_samples + NUM_SCRATCH, 4))
    log_lik = np.empty(4)
    log_prob = np.empty(3)
    inverse = np.zeros(num_samples)
    for m in range(num_samples):
        for j in range(num_features):
            inverse[m] += V[j, m]
        inverse[m] = 1.0 / inverse[m]
    log_weight = 0.0
    num_old = 0.0
    num_new = 0.0
    for i in range(owners.size):
        n = owners[i]
        for m in range(num_samples):
            base = 0.0
            for j in range(num_features):
                if Z[n, j] == 1 and j != k and j != h:
                    base += V[j, m]
            pool = V[k, m] + V[h, m]
            new = pool / (1.0 + np.exp(-split_logit[m]))
            block[m, OLD] = (base + pool / (1.0 + np.exp(split_logit[m]))) * inverse[m]
            block[m, NEW] = (base + new) * inverse[m]
            block[m, BOTH] = (base + pool) * inverse[m]
            block[m, 3] = (base + pool / (1.0 + np.exp(merged_logit[m]))) * inverse[m]
        log_lik[:] = 0.0
        first, last = layout.row_start[n], layout.row_start[n + 1]
        add_entries(layout, rows.density, first, last, block, rows.nothing, 0.0, 4, block[num_samples:], log_lik)
        if i > 0:
            old_share = (num_old + 1.0) / (i + 2.0)
            new_share = (num_new + 1.0) / (i + 2.0)
            log_prob[OLD] = np.log(old_share * (1.0 - new_share)) + power * log_lik[OLD]
            log_prob[NEW] = np.log((1.0 - old_share) * new_share) + power * log_lik[NEW]
            log_prob[BOTH] = np.log(old_share * new_share) + power * log_lik[BOTH]
            log_total = np.logaddexp(np.logaddexp(log_prob[0], log_prob[1]), log_prob[2])
            if forward:
                u = rng.random()
                choices[i] = BOTH
                for choice in range(2):
                    u -= np.exp(log_prob[choice] - log_total)
                    if u < 0.0:
                        choices[i] = choice
                        break
            log_weight -= log_prob[choices[i]] - log_total
        else:
            choices[i] = NEW
        num_old += 0.0 if choices[i] == NEW else 1.0
        num_new += 0.0 if choices[i] == OLD else 1.0
        log_weight += power * (log_lik[choices[i]] - log_lik[3])
    return log_weight


@compiled
def weigh_column(rows, k, others, donor, drawn, power, rng):  # type: ignore[no-untyped-def]
    """Log weight of column k with its present owners against no such column, and the logits of what it has.

    `others` lists the other columns that are alive. With `drawn` the logits are drawn first; V[k] plays no part then.
    """
    V, Z = rows.V, rows.Z
    num_rows = Z.shape[0]
    num_features, num_samples = V.shape
    shares = make_shares(num_rows, num_features, num_samples)
    for n in range(num_rows):
        shares.owns[n] = Z[n, k]
        shares.gives[n] = Z[n, donor] if donor != EVERYONE else 0.0
    logits = np.empty(num_samples)
    pools = np.empty(num_samples)
    log_weight = 0.0
    for m in range(num_samples):
        pool = 0.0
        for j in others:
            shares.rest[j] = 0.0 if j == donor else V[j, m]
            pool += V[j, m] if donor == EVERYONE or j == donor else 0.0
        taken = 0.0 if drawn else V[k, m]
        r = 0.0
        if donor == EVERYONE:
            pool = pool if others.size > 0 else 1.0
            if not drawn:
                r = np.log(taken) - np.log(pool)
        else:
            if not drawn:
                r = np.log(taken) - np.log(pool)
            pool += taken
        size = explore(rows, m, donor, pool, power, shares) if power > 0.0 and others.size > 0 else 0
        forward, logits[m] = weigh(rows, m, donor, pool, 1, r, drawn, size, power, shares, rng)
        backward, _ = weigh(rows, m, donor, pool, 0, 0.0, False, size, power, shares, rng)
        log_weight += forward - backward
        pools[m] = pool
    return log_weight, logits, pools


# --- the moves ------------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """The state after a move, and whether it is another one."""

    Z: NDArray[np.uint8]
    V: NDArray[np.float64]
    accepted: bool


class Given(NamedTuple):
    """What moves are given beside Z and V: how to make a row view of these, the prior, the power of the likelihood.

    `log_mass` is the log prior mass of a column with 0, 1, ... owners.
    """

    make_rows: Callable[[NDArray[np.uint8], NDArray[np.float64]], CloneRows]
    prior: Prior
    alpha: float
    log_mass: NDArray[np.float64]
    power: float


#: One in this many moves is a birth or death, which looks at all rows; a split looks at the owners of one column.
BIRTH_EVERY = 5
#: Where the number of columns is fixed, one in so many of these empties a twin or makes one.
TWINS_EVERY = 2
#: Of the others, where the number of columns is fixed, one in so many is a regrouping.
REGROUPING_EVERY = 3


def move_whole_columns(
    given: Given, state: State, count: int, rng: np.random.Generator, tallies: dict[str, StepSize]
) -> State:
    """Make `count` moves, most of them splits and mergers; tallies of each kind are kept."""
    Z, V = state.Z, state.parameters["V"]
    for _ in range(count):
        if rng.random() * BIRTH_EVERY < 1.0:
            name, move = "birth", be_born_or_die
        elif not given.prior.grows and rng.random() * REGROUPING_EVERY < 1.0:
            name, move = "regrouping", regroup
        else:
            name, move = "split", split_or_merge
        Z, V, accepted = move(given, Z, V, rng)
        if name in tallies:
            tallies[name].record(int(accepted), 1, adapt=False)
    return State(Z, state.alpha, state.parameters | {"V": V})


def split_or_merge(given: Given, Z: NDArray[np.uint8], V: NDArray[np.float64], rng: np.random.Generator) -> Outcome:
    """Toss a coin, then propose to split a population or to merge two of them."""
    stay = Outcome(Z, V, False)
    in_use = Z.any(axis=0)
    used, empty = np.flatnonzero(in_use), np.flatnonzero(~in_use)
    forward = bool(rng.random() < 0.5)
    if used.size < (1 if forward else 2):
        return stay
    grows = bool(given.prior.grows)
    if forward:
        k = _pick(used, rng)
        if grows:
            Z, V = np.pad(Z, ((0, 0), (0, 1))), np.pad(V, ((0, 1), (0, 0)))
            h = Z.shape[1] - 1
        elif empty.size > 0:
            h = _pick(empty, rng)
        else:
            return stay
        owners = np.flatnonzero(Z[:, k])
        anchor = _pick(owners, rng)
        num_empty, num_used = empty.size, used.size
    else:
        k = _pick(used, rng)
        h = _pick(used[used != k], rng)
        owners = np.flatnonzero(Z[:, k] | Z[:, h])
        anchors = np.flatnonzero(Z[:, h] > Z[:, k])
        if anchors.size == 0:
            return stay
        anchor = _pick(anchors, rng)
        num_empty, num_used = empty.size + 1, used.size - 1
    owners = np.concatenate([[anchor], rng.permutation(owners[owners != anchor])])
    choices = CHOICES[Z[owners, k], Z[owners, h]]

    log_weight, split_logit, merged_logit = weigh_split(
        given.make_rows(Z, V), k, h, anchor, owners, choices, forward, grows, given.power, rng
    )
    num_owners = owners.size
    num_anchors, num_others = np.count_nonzero(choices == NEW), np.count_nonzero(choices == OLD)
    if num_anchors == num_owners:
        return stay
    log_mass = given.log_mass
    log_ratio = log_weight + log_mass[num_owners - num_anchors] + log_mass[num_owners - num_others]
    log_ratio -= log_mass[num_owners] + log_mass[0]
    # Where Z grows, the column that is added could stand anywhere.
    num_slots = 1 if grows else num_empty
    log_ratio += np.log(num_slots * num_owners / ((num_used + 1) * num_anchors))
    if not np.log(rng.random()) < (log_ratio if forward else -log_ratio):
        return stay
    new_Z, new_V = Z.copy(), V.copy()
    new_Z[owners, k], new_Z[owners, h] = (choices != NEW, choices != OLD) if forward else (1, 0)
    pool, logit = V[k] + V[h], split_logit if forward else merged_logit
    with np.errstate(over="ignore"):
        new_V[k], new_V[h] = pool / (1.0 + np.exp(logit)), pool / (1.0 + np.exp(-logit))
    if grows and not forward:
        new_Z, new_V = np.ascontiguousarray(np.delete(new_Z, h, axis=1)), np.delete(new_V, h, axis=0)
    return Outcome(new_Z, np.maximum(new_V, SMALLEST), True)


def _pick(values: NDArray[np.intp], rng: np.random.Generator) -> int:
    """One of the values, all as likely; `rng.choice` looks at its arguments for ten times as long."""
    return int(values[int(rng.random() * values.size)])


def regroup(given: Given, Z: NDArray[np.uint8], V: NDArray[np.float64], rng: np.random.Generator) -> Outcome:
    """Toss a coin, then propose to tell three populations as two or two as three, with all shares as they are."""
    propose = propose_two if rng.random() < 0.5 else propose_three
    proposal = propose(Z, given.log_mass, given.prior.grows, False, rng)
    if proposal is None:
        return Outcome(Z, V, False)
    rows = given.make_rows(Z, V)
    new, old = (
        varying_log_likelihood(rows.layouts.by_sample, rows.density, matrix, rows.F) for matrix in (proposal.Z, Z)
    )
    log_ratio = proposal.log_ratio + proposal.prior_gain(Z, given.log_mass) + given.power * (new - old)
    accepted = bool(np.log(rng.random()) < log_ratio)
    return Outcome(proposal.Z if accepted else Z, V, accepted)


def be_born_or_die(given: Given, Z: NDArray[np.uint8], V: NDArray[np.float64], rng: np.random.Generator) -> Outcome:
    """Propose a new column or the end of one; where the number of columns is fixed, another column in place of one."""
    stay = Outcome(Z, V, False)
    num_rows, num_features = Z.shape
    if not given.prior.grows:
        return _replace(given, Z, V, rng)
    forward = bool(rng.random() < 0.5)
    if forward:
        sizes = np.arange(1, num_rows + 1)
        size = int(rng.choice(sizes, p=1.0 / sizes / np.sum(1.0 / sizes)))
        column = np.zeros((num_rows, 1), dtype=np.uint8)
        column[rng.choice(num_rows, size=size, replace=False)] = 1
        large_Z, large_V, k = np.hstack([Z, column]), np.pad(V, ((0, 1), (0, 0))), num_features
        small_Z = Z
    elif num_features == 0:
        return stay
    else:
        k = int(rng.integers(num_features))
        large_Z, large_V = Z, V.copy()
        small_Z = np.ascontiguousarray(np.delete(Z, k, axis=1))
    others = np.delete(np.arange(large_Z.shape[1]), k)
    donor = _pick(np.append(others, EVERYONE), rng)
    rows = given.make_rows(large_Z, large_V)
    log_weight, logits, pools = weigh_column(rows, k, others, donor, forward, given.power, rng)
    # Owners are drawn as the prior has them; what is left of it is the Poisson number of columns.
    log_ratio = log_weight + np.log(given.alpha * harmonic(num_rows) / large_Z.shape[1])
    if not np.log(rng.random()) < (log_ratio if forward else -log_ratio):
        return stay
    if forward:
        _settle_column(rows, k, donor, pools, logits)
        return Outcome(large_Z, large_V, True)
    if donor != EVERYONE:
        large_V[donor] += large_V[k]
    return Outcome(small_Z, np.delete(large_V, k, axis=0), True)


def _replace(given: Given, Z: NDArray[np.uint8], V: NDArray[np.float64], rng: np.random.Generator) -> Outcome:
    """A column dies and another is born in its place, with owners drawn from the prior, or as twins are made or not."""
    if rng.random() * TWINS_EVERY < 1.0:
        return empty_or_make_twin(given, Z, V, rng)
    k = int(rng.integers(Z.shape[1]))
    donor = _pick(np.append(np.delete(np.arange(Z.shape[1]), k), EVERYONE), rng)
    owners = given.prior.sample(rng, Z.shape[0], given.alpha)[:, 0]
    # What owners have in the prior is how often they are proposed.
    return _change_owners(given, Z, V, k, donor, owners, 0.0, rng)


def empty_or_make_twin(given: Given, Z: NDArray[np.uint8], V: NDArray[np.float64], rng: np.random.Generator) -> Outcome:
    """Toss a coin, then propose to empty one of two populations with the same owners, or to make such a pair."""
    in_use = Z.any(axis=0)
    used, empty = np.flatnonzero(in_use), np.flatnonzero(~in_use)
    in_common = Z.T @ Z.astype(np.float64)
    sizes = in_common.diagonal()
    are_alike = (in_common == sizes) & (in_common == sizes[:, np.newaxis]) & in_use
    np.fill_diagonal(are_alike, False)
    num_twins = np.count_nonzero(are_alike)
    owners = np.zeros(Z.shape[0], dtype=Z.dtype)
    if rng.random() < 0.5:
        if num_twins == 0:
            return Outcome(Z, V, False)
        k, donor = divmod(_pick(np.flatnonzero(are_alike), rng), Z.shape[1])
        log_ratio = np.log(num_twins / ((empty.size + 1) * (used.size - 1)))
    else:
        if used.size == 0 or empty.size == 0:
            return Outcome(Z, V, False)
        k, donor = _pick(empty, rng), _pick(used, rng)
        owners[:] = Z[:, donor]
        later_twins = num_twins + 2 * (1 + np.count_nonzero(are_alike[donor]))
        log_ratio = np.log(empty.size * used.size / later_twins)
    log_ratio += given.log_mass[int(owners.sum())] - given.log_mass[int(sizes[k])]
    return _change_owners(given, Z, V, k, donor, owners, float(log_ratio), rng)


def _change_owners(
    given: Given,
    Z: NDArray[np.uint8],
    V: NDArray[np.float64],
    k: int,
    donor: int,
    owners: NDArray[np.uint8],
    log_ratio: float,
    rng: np.random.Generator,
) -> Outcome:
    """Give population k other owners and another share, taken from the donor.

    `log_ratio` is what the prior of Z and the choice of k, donor and owners say for it.
    """
    others = np.delete(np.arange(Z.shape[1]), k)
    backward, _, _ = weigh_column(given.make_rows(Z, V), k, others, donor, False, given.power, rng)
    new_Z, new_V = Z.copy(), V.copy()
    new_Z[:, k] = owners
    if donor != EVERYONE:
        new_V[donor] += new_V[k]
    new_V[k] = 0.0
    rows = given.make_rows(new_Z, new_V)
    forward, logits, pools = weigh_column(rows, k, others, donor, True, given.power, rng)
    if not np.log(rng.random()) < forward - backward + log_ratio:
        return Outcome(Z, V, False)
    _settle_column(rows, k, donor, pools, logits)
    return Outcome(new_Z, new_V, True)


def _settle_column(rows: CloneRows, k: int, donor: int, pools: NDArray[Any], logits: NDArray[Any]) -> None:
    rows.V[k] = 1.0
    for m in range(rows.V.shape[1]):
        settle(rows, m, donor, pools[m], logits[m], np.array([k]))
