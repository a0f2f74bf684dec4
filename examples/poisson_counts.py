"""A model of your own in one file: counts whose rates are sums of non-negative features.

    X[n, d] ~ Poisson(baseline[d] + sum_k Z[n, k] V[k, d]),   V[k, d] ~ Gamma(shape, rate),   baseline[d] ~ Gamma(1, 1)

Run it with ``python examples/poisson_counts.py``, and with ``--check`` to see whether the model is right, which takes
about a minute. docs/your-own-model.md goes through it line by line.
"""

import math
import sys

import numpy as np

import pgfa


class PoissonCounts(pgfa.AdditiveModel):
    """Counts, NaN where missing."""

    positive = ("V", "baseline")

    def __init__(self, X, shape=2.0, rate=0.5):
        super().__init__(X, shape=shape, rate=rate)

    @staticmethod
    def row_log_likelihood(data, parameters, n, predictor):
        total = 0.0
        for d in range(predictor.size):
            x, mean = data.X[n, d], parameters.baseline[d] + predictor[d]
            if not np.isnan(x):
                total += x * math.log(mean) - mean - math.lgamma(x + 1.0)
        return total

    @staticmethod
    def feature_log_prior(data, parameters, k):
        total = 0.0
        for v in parameters.V[k]:
            total += data.shape * math.log(data.rate) - math.lgamma(data.shape)
            total += (data.shape - 1.0) * math.log(v) - data.rate * v
        return total

    @staticmethod
    def draw_feature(data, parameters, k, rng):
        for d in range(parameters.V.shape[1]):
            parameters.V[k, d] = rng.gamma(data.shape, 1.0 / data.rate)

    def draw_shared(self, rng):
        return {"baseline": rng.standard_exponential(self.num_columns)}

    def shared_log_prior(self, parameters):
        return -parameters["baseline"].sum()

    def sample_data(self, Z, parameters, rng):
        return rng.poisson(parameters["baseline"] + Z @ parameters["V"])


def main():
    rng = np.random.default_rng(1)
    blank = PoissonCounts(np.zeros((60, 6)))
    Z = rng.integers(0, 2, size=(60, 3)).astype(np.uint8)
    truth = blank.sample_parameters(rng, num_features=3)
    model = blank.with_data(blank.sample_data(Z, truth, rng))

    fit = pgfa.sample(model, pgfa.BetaBernoulli(num_features=3), draws=1000, warmup=1000, chains=2, seed=1)
    print(pgfa.diagnose(fit).loc[["lp", "alpha"]].round(2))
    scores = [pgfa.metrics.b_cubed(Z, draw).f for draw in fit["posterior"]["Z"].values[0, ::10]]
    print(f"features of a row against the truth, B-Cubed F: {np.mean(scores):.2f}")
    return fit, scores


if __name__ == "__main__":
    main()
    if "--check" in sys.argv:
        print(pgfa.check_model(PoissonCounts(np.zeros((4, 2)))))
