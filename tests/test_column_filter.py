"""The filter behind `ColumnBlock`: its recursions against the Normal posterior in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pgfa.samplers import column_filter
from pgfa.samplers.column_filter import make_workspace

TAU_V = 0.7


@pytest.mark.parametrize("num_dims", [1, 10, 16, 37])
@pytest.mark.parametrize("tau_x", [0.3, 1e5], ids=["noisy", "hardly any noise"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_moments_and_predictions(size, tau_x, num_dims):
    """More dimensions than fit into one stretch, some of them missing, and determinants that have to be cut off."""
    rng = np.random.default_rng(size)
    work = make_workspace(2, size, 8, num_dims)
    mean, covariance = work.means[0], work.covariances[0]
    out_mean, out_covariance = work.next_means[0], work.next_covariances[0]
    for i in range(size):
        covariance[column_filter._pair(i, i)] = 1.0 / TAU_V
    precision = np.tile(TAU_V * np.eye(size), (num_dims, 1, 1))
    moment = np.zeros((num_dims, size))
    for pattern in [*range(1, 2**size), 2**size - 1, 1]:
        bits = np.array([(pattern >> i) & 1 for i in range(size)], dtype=float)
        seen = rng.random(num_dims) < 0.7
        residual = np.where(seen, rng.normal(size=num_dims), 0.0)
        work.residual[:num_dims], work.is_observed[:num_dims] = residual, seen

        spread = np.linalg.inv(precision) @ bits @ bits
        expected = np.einsum("dij,dj->di", np.linalg.inv(precision), moment) @ bits
        density = stats.norm.logpdf(residual, expected, np.sqrt(1.0 / tau_x + spread))
        gain = np.sum(np.where(seen, density - stats.norm.logpdf(residual, 0.0, np.sqrt(1.0 / tau_x)), 0.0))
        total, determinant = column_filter._predict(mean, covariance, pattern, work.residual, work.is_observed, tau_x)
        assert 0.5 * (total - np.log(determinant)) == pytest.approx(gain, rel=1e-6, abs=1e-9)

        column_filter._absorb(
            mean, covariance, pattern, work.residual, work.is_observed, tau_x, work.gain, out_mean, out_covariance
        )
        mean, out_mean, covariance, out_covariance = out_mean, mean, out_covariance, covariance
        precision += tau_x * seen[:, None, None] * np.outer(bits, bits)
        moment += tau_x * residual[:, None] * bits
        exact = np.linalg.inv(precision)
        for i in range(size):
            np.testing.assert_allclose(
                mean[i, :num_dims], np.einsum("dj,dj->d", exact[:, i], moment), rtol=1e-5, atol=1e-6
            )
            for j in range(i + 1):
                mine = covariance[column_filter._pair(i, j), :num_dims]
                np.testing.assert_allclose(mine, exact[:, i, j], rtol=1e-5, atol=1e-6)
