"""Populations that only one mutation has, born and dying under the Indian buffet process.

A proposal for row n removes its singletons and puts others in their place. Call the state without them the *rest*. What
the proposal depends on is the rest and a donor drawn at random from it, everyone included; so, given these, it is an
independence sampler. With the number of new singletons drawn from its prior, the Metropolis-Hastings ratio is that of
``prior(V) likelihood / proposal(V)`` after and before.

Where one population gives, whether row n owns it is proposed anew as well: a mutation that splits off from a population
leaves that population.
"""

from __future__ import annotations

import numpy as np

from pgfa._compile import compiled, implements
from pgfa.models.pyclone_rows import CloneRows, normalise
from pgfa.models.pyclone_shares import EVERYONE, SMALLEST, explore, make_shares, settle, weigh
from pgfa.rows import propose_singletons


@compiled(allocates=False)
def list_rest(V, old, members):  # type: ignore[no-untyped-def]
    """The populations that are alive and not among the old ones; returns how many there are."""
    count = 0
    for k in range(V.shape[0]):
        is_old = False
        for h in old:
            is_old = is_old or h == k
        if not is_old and V[k, 0] > 0.0:
            members[count] = k
            count += 1
    return count


@compiled(allocates=False)
def sum_over(V, m, columns):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in columns:
        total += V[k, m]
    return total


@implements(propose_singletons, CloneRows)
def _propose_singletons(rows, n, z, old, new, block, power, rng):  # type: ignore[no-untyped-def]
    V, Z = rows.V, rows.Z
    num_rows = Z.shape[0]
    num_features, num_samples = V.shape
    members = np.empty(num_features, dtype=np.int64)
    rest = members[: list_rest(V, old, members)]
    donor = EVERYONE
    if rows.informed:
        choice = int(rng.random() * (rest.size + 1))
        donor = rest[choice] if choice < rest.size else EVERYONE
    is_tabulated = rows.informed and power > 0.0 and rest.size > 0

    shares = make_shares(num_rows, num_features, num_samples)
    shares.owns[n] = 1.0
    owned_before = 0.0
    owned_after = 0.0
    log_ratio = 0.0
    if donor != EVERYONE:
        others = 0.0
        for row in range(num_rows):
            shares.gives[row] = Z[row, donor]
            others += Z[row, donor] if row != n else 0.0
        owned_before = shares.gives[n]
        owned_after = 1.0 if rng.random() < 0.5 else 0.0
        log_ratio = (owned_after - owned_before) * (np.log(others) - np.log(num_rows - others))

    pools = np.empty(num_samples)
    drawn = np.empty(num_samples)
    for m in range(num_samples):
        for k in rest:
            shares.rest[k] = 0.0 if k == donor else V[k, m]
        taken = sum_over(V, m, old)
        if rest.size == 0:
            pool = 1.0  # Singletons have all of the sample, however large they are.
        elif donor == EVERYONE:
            pool = sum_over(V, m, rest)
        else:
            pool = V[donor, m] + taken
        pools[m] = pool
        old_logit = 0.0
        if old.size > 0:
            old_logit = np.log(taken) - np.log(pool if donor == EVERYONE else V[donor, m])

        shares.gives[n] = owned_after
        size = explore(rows, m, donor, pool, power, shares) if is_tabulated else 0
        forward, drawn[m] = weigh(rows, m, donor, pool, new.size, 0.0, True, size, power, shares, rng)
        shares.gives[n] = owned_before
        if is_tabulated and owned_before != owned_after:
            size = explore(rows, m, donor, pool, power, shares)
        backward, _ = weigh(rows, m, donor, pool, old.size, old_logit, False, size, power, shares, rng)
        log_ratio += forward - backward
    if not np.log(rng.random()) < log_ratio:
        return False

    if donor != EVERYONE:
        z[donor] = 1 if owned_after > 0.0 else 0
    for m in range(num_samples):
        for k in old:
            V[k, m] = 0.0
        # How several singletons divide what they have is drawn from the prior, and plays no part in the ratio.
        for k in new:
            V[k, m] = max(rng.gamma(rows.shape, 1.0), SMALLEST)
        settle(rows, m, donor, pools[m], drawn[m], new)
    normalise(V, rows.F)
    return True
