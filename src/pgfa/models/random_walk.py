"""Random-walk Metropolis for the parameters of an additive model: exact, and nothing to derive.

One entry moves at a time, so that most proposals leave most of the predictors alone. Parameters that are known to be
positive walk on their logarithm.
"""

from __future__ import annotations

import numpy as np

from pgfa._compile import compiled
from pgfa.models.additive_rows import user_feature_log_prior, user_row_log_likelihood
from pgfa.rows import draw_feature


@compiled(allocates=False)
def propose(value, is_positive, step, rng):  # type: ignore[no-untyped-def]
    """A new value, and what the change of variable adds to the log acceptance ratio."""
    move = step * rng.standard_normal()
    if is_positive:
        return value * np.exp(move), move
    return value + move, 0.0


@compiled(allocates=False)
def is_accepted(log_ratio, power, log_likelihood_ratio, rng):  # type: ignore[no-untyped-def]
    """Metropolis decision; what the prior or the likelihood rules out is refused at any power, NaN included."""
    if not (log_ratio > -np.inf and log_likelihood_ratio > -np.inf):
        return False
    return np.log(rng.random()) < log_ratio + power * log_likelihood_ratio


@compiled
def walk_contributions(rows, Z, predictors, is_positive, step, power, rng):  # type: ignore[no-untyped-def]
    """Move every entry of V once and keep the predictors up to date; returns how many moves were accepted and proposed.

    The parameters of features that nobody owns are drawn from their prior, which is their posterior.
    """
    data, parameters, V, scratch = rows.data, rows.parameters, rows.V, rows.scratch
    num_rows, num_dims = predictors.shape
    log_lik = np.empty(num_rows)
    new_log_lik = np.empty(num_rows)
    for n in range(num_rows):
        scratch[:] = predictors[n]
        log_lik[n] = user_row_log_likelihood(data, parameters, n, scratch)
    owners = np.empty(num_rows, dtype=np.int64)
    accepted = 0
    proposed = 0
    for k in range(V.shape[0]):
        count = 0
        for n in range(num_rows):
            if Z[n, k] == 1:
                owners[count] = n
                count += 1
        if count == 0:
            draw_feature(rows, k, rng)
            continue
        log_prior = user_feature_log_prior(data, parameters, k)
        for d in range(num_dims):
            old = V[k, d]
            V[k, d], log_ratio = propose(old, is_positive, step, rng)
            new_log_prior = user_feature_log_prior(data, parameters, k)
            log_ratio += new_log_prior - log_prior
            log_likelihood_ratio = 0.0
            if log_ratio > -np.inf:
                for i in range(count):
                    n = owners[i]
                    scratch[:] = predictors[n]
                    scratch[d] += V[k, d] - old
                    new_log_lik[n] = user_row_log_likelihood(data, parameters, n, scratch)
                    log_likelihood_ratio += new_log_lik[n] - log_lik[n]
            proposed += 1
            if is_accepted(log_ratio, power, log_likelihood_ratio, rng):
                accepted += 1
                log_prior = new_log_prior
                for i in range(count):
                    n = owners[i]
                    predictors[n, d] += V[k, d] - old
                    log_lik[n] = new_log_lik[n]
            else:
                V[k, d] = old
    return accepted, proposed


@compiled(allocates=False)
def walk_feature_parameter(rows, values, is_positive, step, rng):  # type: ignore[no-untyped-def]
    """Move every entry of a parameter of the features, other than V, that enters their prior only."""
    accepted = 0
    proposed = 0
    for k in range(values.shape[0]):
        log_prior = user_feature_log_prior(rows.data, rows.parameters, k)
        for i in range(values.shape[1]):
            old = values[k, i]
            values[k, i], log_ratio = propose(old, is_positive, step, rng)
            new_log_prior = user_feature_log_prior(rows.data, rows.parameters, k)
            proposed += 1
            if is_accepted(log_ratio + new_log_prior - log_prior, 0.0, 0.0, rng):
                accepted += 1
                log_prior = new_log_prior
            else:
                values[k, i] = old
    return accepted, proposed
