"""Births and deaths of features that a single node owns, in the latent feature relational model.

Values drawn from their prior rarely suit the node, so that such births are rarely accepted. Here the weights of a new
feature of node n come from a Normal approximation of their posterior given the row and the column of n: those towards
the other features, and those from them, are two logistic regressions. Each is fitted by a few Newton steps that start
at zero and never look at the values of the node's present singletons, so that birth and death are each other's reverse
and the Metropolis-Hastings ratio needs only the density of the approximation.
"""

from __future__ import annotations

import numpy as np

from pgfa._compile import compiled, implements
from pgfa.models.relational_rows import CELLS_PER_COLUMN, LinkRows, store_feature
from pgfa.rows import begin_row, propose_singletons, propose_singletons_from_prior, start
from pgfa.small_matrices import factorise, solve_lower, solve_upper
from pgfa.vector_math import exp

#: From zero, so many Newton steps come close enough to the mode; more precision would be no more exact.
_NEWTON_STEPS = 4
#: The longest step that is taken with any weight, lest the first one shoot past the mode.
_LONGEST_STEP = 4.0


@implements(propose_singletons, LinkRows)
def _propose_singletons(rows, n, z, old, new, block, power, rng):  # type: ignore[no-untyped-def]
    if old.size > 1 or new.size > 1 or not rows.fitted_singletons:
        return propose_singletons_from_prior(rows, n, z, old, new, block, power, rng)
    log_ratio = -power * start(rows, n, z, block)
    for k in old:
        z[k] = 0
    num_directions = rows.highest.shape[1]
    for direction in range(num_directions):
        _fit(rows, z, direction, power)
        for k in old:
            log_ratio -= _log_prior_over_fit(rows, k, direction)
        for k in new:
            _draw(rows, k, direction, rng)
            log_ratio += _log_prior_over_fit(rows, k, direction)
    for k in new:
        store_feature(rows, k)
        z[k] = 1
    begin_row(rows, n)
    log_ratio += power * start(rows, n, z, block)
    for k in old:
        z[k] = 1
    for k in new:
        z[k] = 0
    return np.log(rng.random()) < log_ratio


@compiled(liberty="arithmetic", allocates=False)
def _fit(rows, z, direction, power):  # type: ignore[no-untyped-def]
    """Newton steps for the weights of one more feature of the row at hand, whose other features are z.

    Leaves their mode in `fit_mean` and the Cholesky factor of their precision in `fit_factor`. Features that none of
    the cells owns keep their prior.
    """
    num_features = z.size
    mean, factor, slope, step = rows.fit_mean, rows.fit_factor, rows.fit_slope, rows.fit_step
    num_directions = rows.highest.shape[1]
    for k in range(num_features):
        mean[k] = 0.0
    for iteration in range(_NEWTON_STEPS + 1):
        for k in range(num_features):
            slope[k] = power * rows.linked_owners[direction, k] - rows.tau * mean[k]
            for j in range(num_features):
                factor[k, j] = rows.tau if k == j else 0.0
        for group in range(rows.groups.top[0]):
            cell = num_directions * group + direction
            lane, column = cell % CELLS_PER_COLUMN, cell // CELLS_PER_COLUMN
            if rows.weight[lane, column] == 0.0:
                continue
            owns = rows.groups.vectors[group]
            score = rows.bias
            for k in range(num_features):
                score += z[k] * rows.scores[k, lane, column] + owns[k] * mean[k]
            e = exp(-abs(score))
            p = (1.0 if score >= 0.0 else e) / (1.0 + e)
            known = power * rows.weight[lane, column]
            for k in range(num_features):
                if owns[k] == 1:
                    slope[k] -= known * p
                    for j in range(k + 1):
                        factor[k, j] += known * p * (1.0 - p) * owns[j]
        factorise(factor)
        if iteration == _NEWTON_STEPS:
            break
        solve_lower(factor, slope, step)
        solve_upper(factor, step, step)
        for k in range(num_features):
            mean[k] += min(max(step[k], -_LONGEST_STEP), _LONGEST_STEP)


@compiled(allocates=False)
def _weight(rows, k, j, direction):  # type: ignore[no-untyped-def]
    return rows.V[k, j] if direction == 0 else rows.V[j, k]


@compiled(allocates=False)
def _draw(rows, k, direction, rng):  # type: ignore[no-untyped-def]
    """Draw the weights of feature k, towards the others or from them, from the fit."""
    step = rows.fit_step
    for j in range(step.size):
        step[j] = rng.standard_normal()
    solve_upper(rows.fit_factor, step, step)
    for j in range(step.size):
        value = rows.fit_mean[j] + step[j]
        if direction == 0:
            rows.V[k, j] = value
        if direction == 1 and j != k:
            rows.V[j, k] = value
        if rows.symmetric:
            rows.V[j, k] = value


@compiled(allocates=False)
def _log_prior_over_fit(rows, k, direction):  # type: ignore[no-untyped-def]
    """Log ratio of prior to fitted density at the weights of feature k.

    Where the fit is the prior, as for the weight of k with itself, the two cancel.
    """
    factor = rows.fit_factor
    log_ratio = 0.0
    for i in range(factor.shape[0]):
        value = _weight(rows, k, i, direction)
        log_ratio += 0.5 * np.log(rows.tau) - 0.5 * rows.tau * value * value - np.log(factor[i, i])
        # The squared length of factor' (v - mean) is the exponent of the fitted density.
        length = 0.0
        for j in range(i, factor.shape[0]):
            length += factor[j, i] * (_weight(rows, k, j, direction) - rows.fit_mean[j])
        log_ratio += 0.5 * length * length
    return log_ratio
