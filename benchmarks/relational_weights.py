"""Which update of the weights V of the relational model gives the most effective draws a second?

    python benchmarks/relational_weights.py [--seconds 10]

Five exact updates are compared with Z held where a short chain has brought it, tau moving along:

- newton: one Metropolis-Hastings step a weight, with slope and curvature matched (what pgfa does);
- random walk: one a weight, its scale the prior's, times a factor tuned for an acceptance rate of 0.44;
- scaled random walk: the same with the scale of each weight from the number of pairs that it touches;
- row blocks: Polya-Gamma augmentation, then the K weights of one row of V after the other;
- joint: Polya-Gamma augmentation, then all K^2 weights at once.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from scipy import linalg

import pgfa
from pgfa._compile import compiled
from pgfa.models.network import make_groups
from pgfa.models.relational_weights import count_links, list_cells, make_cells, move_weights


def effective_draws(draws: np.ndarray) -> np.ndarray:
    """Effective number of draws of each column, by Geyer's initial positive sequence."""
    num_draws = draws.shape[0]
    centred = draws - draws.mean(axis=0)
    spectrum = np.fft.rfft(centred, n=2 * num_draws, axis=0)
    covariance = np.fft.irfft(spectrum * spectrum.conj(), axis=0)[:num_draws].real / num_draws
    effective = np.empty(draws.shape[1])
    for column in range(draws.shape[1]):
        pairs = covariance[: 2 * (num_draws // 2), column].reshape(-1, 2).sum(axis=1) / covariance[0, column]
        stop = np.argmax(pairs <= 0.0) if (pairs <= 0.0).any() else pairs.size
        pairs = np.minimum.accumulate(pairs[:stop])
        effective[column] = num_draws / max(2.0 * pairs.sum() - 1.0, 1.0 / num_draws)
    return effective


# --- random walks ----------------------------------------------------------------------------------------------------


@compiled
def _walk(cells, V, tau, links, factor, scaled, rng):
    index = np.empty(cells.known.size, dtype=np.int64)
    times = np.empty(cells.known.size)
    known, score = cells.known, cells.score
    accepted = 0
    for k in range(V.shape[0]):
        for j in range(V.shape[0]):
            count = list_cells(cells, k, j, False, index, times)
            pairs = 0.0
            for c in range(count):
                pairs += known[index[c]]
            scale = factor / np.sqrt(tau + (0.1 * pairs if scaled else 0.0))
            step = scale * rng.standard_normal()
            change = links[k, j] * step - 0.5 * tau * ((V[k, j] + step) ** 2 - V[k, j] ** 2)
            for c in range(count):
                s = score[index[c]]
                change -= known[index[c]] * (_softplus(s + step) - _softplus(s))
            if np.log(rng.random()) < change:
                accepted += 1
                V[k, j] += step
                for c in range(count):
                    score[index[c]] += step
    return accepted


@compiled
def _softplus(s):
    return max(s, 0.0) + np.log1p(np.exp(-abs(s)))


# --- Polya-Gamma -----------------------------------------------------------------------------------------------------


@compiled
def _series_term(n, x):
    """Terms of the alternating series of the Jacobi density, left and right of 0.64."""
    middle = n + 0.5
    if x > 0.64:
        return math.pi * middle * math.exp(-0.5 * math.pi**2 * middle**2 * x)
    return math.pi * middle * (2.0 / (math.pi * x)) ** 1.5 * math.exp(-2.0 * middle**2 / x)


@compiled
def _normal_cdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@compiled
def _truncated_inverse_gauss(z, rng):
    if z < 1.0 / 0.64:
        while True:
            while True:
                a, b = rng.standard_exponential(), rng.standard_exponential()
                if a * a <= 2.0 * b / 0.64:
                    break
            x = 0.64 / (1.0 + 0.64 * a) ** 2
            if rng.random() <= math.exp(-0.5 * z * z * x):
                return x
    mean = 1.0 / z
    while True:
        y = rng.standard_normal() ** 2
        x = mean + 0.5 * mean * (mean * y - math.sqrt(4.0 * mean * y + (mean * y) ** 2))
        if rng.random() > mean / (mean + x):
            x = mean * mean / x
        if x < 0.64:
            return x


@compiled
def polya_gamma(c, rng):
    """A draw of PG(1, c), by Devroye's method as in Polson, Scott and Windle (2013)."""
    z = 0.5 * abs(c)
    rate = math.pi**2 / 8.0 + 0.5 * z * z
    right = math.pi / (2.0 * rate) * math.exp(-0.64 * rate)
    root = math.sqrt(1.0 / 0.64)
    left = 2.0 * math.exp(-z) * _normal_cdf(root * (0.64 * z - 1.0))
    left += 2.0 * math.exp(z) * _normal_cdf(-root * (0.64 * z + 1.0))
    while True:
        if rng.random() < right / (right + left):
            x = 0.64 + rng.standard_exponential() / rate
        else:
            x = _truncated_inverse_gauss(z, rng)
        total = _series_term(0, x)
        y = rng.random() * total
        n = 0
        while True:
            n += 1
            if n % 2 == 1:
                total -= _series_term(n, x)
                if y <= total:
                    return 0.25 * x
            else:
                total += _series_term(n, x)
                if y > total:
                    break


@compiled
def _augment(cells, omega, rng):
    for cell in range(cells.known.size):
        omega[cell] = 0.0
        for _ in range(int(cells.known[cell])):
            omega[cell] += polya_gamma(cells.score[cell], rng)


@compiled
def _draw_rows(cells, V, tau, links, omega, rng):
    """Row after row of V from its Normal distribution given the others and omega."""
    vectors = cells.vectors
    size, num_features = vectors.shape
    precision = np.empty((num_features, num_features))
    moment = np.empty(num_features)
    for k in range(num_features):
        precision[:] = 0.0
        for j in range(num_features):
            precision[j, j] = tau
            moment[j] = links[k, j]
        for g in range(size):
            if vectors[g, k] == 0:
                continue
            for h in range(size):
                rest = cells.score[g * size + h]
                for j in range(num_features):
                    rest -= V[k, j] * vectors[h, j]
                pull = -0.5 * cells.known[g * size + h] - omega[g * size + h] * rest
                for j in range(num_features):
                    if vectors[h, j] == 1:
                        moment[j] += pull
                        for i in range(num_features):
                            precision[j, i] += omega[g * size + h] * vectors[h, i]
        factor = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, moment)
        noise = np.linalg.solve(factor.T.copy(), rng.standard_normal(num_features))
        for j in range(num_features):
            step = mean[j] + noise[j] - V[k, j]
            V[k, j] += step
            for g in range(size):
                for h in range(size):
                    if vectors[g, k] == 1 and vectors[h, j] == 1:
                        cells.score[g * size + h] += step


@compiled
def _gather_joint(cells, omega, precision, moment):
    vectors = cells.vectors
    size, num_features = vectors.shape
    owned = np.empty((size, num_features), dtype=np.int64)
    num_owned = np.zeros(size, dtype=np.int64)
    for g in range(size):
        for k in range(num_features):
            if vectors[g, k] == 1:
                owned[g, num_owned[g]] = k
                num_owned[g] += 1
    entries = np.empty(num_features * num_features, dtype=np.int64)
    for g in range(size):
        for h in range(size):
            count = 0
            for a in range(num_owned[g]):
                for b in range(num_owned[h]):
                    entries[count] = owned[g, a] * num_features + owned[h, b]
                    count += 1
            for a in range(count):
                moment[entries[a]] -= 0.5 * cells.known[g * size + h]
                for b in range(count):
                    precision[entries[a], entries[b]] += omega[g * size + h]


# --- the race --------------------------------------------------------------------------------------------------------


def make_updates(model: pgfa.Relational, Z: np.ndarray, rng: np.random.Generator) -> dict[str, Callable]:
    """Functions of V and tau that move V in place; each counts and scores its cells anew, as an update has to."""
    network = model._network
    factors = {False: 1.0, True: 1.0}

    def prepare(V):
        groups = make_groups(Z)
        cells = make_cells(network, groups, V, 0.0, False)
        links = np.zeros(V.shape)
        count_links(network, Z, False, links)
        return cells, links

    def newton(V, tau):
        move_weights(network, Z, V, tau, 0.0, False, None, 1.0, 1, rng)

    def walk(V, tau, scaled, adapt):
        cells, links = prepare(V)
        accepted = _walk(cells, V, tau, links, factors[scaled], scaled, rng)
        if adapt:
            factors[scaled] *= np.exp(0.3 * (accepted / V.size - 0.44))

    def rows(V, tau):
        cells, links = prepare(V)
        omega = np.empty(cells.known.shape)
        _augment(cells, omega, rng)
        _draw_rows(cells, V, tau, links, omega, rng)

    def joint(V, tau):
        cells, links = prepare(V)
        omega = np.empty(cells.known.shape)
        _augment(cells, omega, rng)
        precision = tau * np.eye(V.size)
        moment = links.ravel().copy()
        _gather_joint(cells, omega, precision, moment)
        factor = linalg.cholesky(precision, lower=True)
        half = linalg.solve_triangular(factor, moment, lower=True)
        V[:] = linalg.solve_triangular(factor, half + rng.standard_normal(V.size), lower=True, trans="T").reshape(
            V.shape
        )

    return {
        "newton": lambda V, tau, adapt: newton(V, tau),
        "random walk": lambda V, tau, adapt: walk(V, tau, False, adapt),
        "scaled random walk": lambda V, tau, adapt: walk(V, tau, True, adapt),
        "row blocks": lambda V, tau, adapt: rows(V, tau),
        "joint": lambda V, tau, adapt: joint(V, tau),
    }


def race(num_features: int, seconds: float, seed: int, crowded: bool = False) -> None:
    """Print effective draws a second, of the weights of features in use and of the scores of random pairs.

    In a crowded network every node owns three features in ten, and no two nodes the same.
    """
    prior = pgfa.BetaBernoulli(num_features, a=30.0, b=70.0) if crowded else pgfa.BetaBernoulli(num_features)
    truth = pgfa.simulate("relational", prior, rng=seed, num_rows=100, missing=0.05)
    chain = pgfa.Chain(truth.model, prior, seed=seed)
    for power in np.linspace(0.0, 1.0, 100):
        chain.step(warmup=True, power=power)
    chain.step(50)
    state = chain.state
    Z = state.Z
    used = np.flatnonzero(Z.any(axis=0))
    pairs = np.random.default_rng(0).integers(100, size=(2, 200))
    pairs = pairs[:, Z[pairs[0]].any(axis=1) & Z[pairs[1]].any(axis=1)]
    num_groups = len(np.unique(Z, axis=0))
    print(f"K = {num_features}: {used.size} features in use, {Z.sum() / 100:.1f} a node, {num_groups} groups of nodes")
    for name, update in make_updates(truth.model, Z, np.random.default_rng(seed)).items():
        V, tau = state.parameters["V"].copy(), state.parameters["tau"]
        rng = np.random.default_rng(seed)
        weights, scores, moving = [], [], 0.0
        update(V, tau, True)
        begun = time.perf_counter()
        while time.perf_counter() - begun < 1.3 * seconds:
            warmup = time.perf_counter() - begun < 0.3 * seconds
            start = time.thread_time()
            update(V, tau, warmup)
            elapsed = time.thread_time() - start
            tau = rng.gamma(1.0 + 0.5 * V.size, 1.0 / (1.0 + 0.5 * np.vdot(V, V)))
            if not warmup:
                moving += elapsed
                weights.append(V[np.ix_(used, used)].ravel())
                scores.append(np.einsum("pk,kl,pl->p", Z[pairs[0]].astype(float), V, Z[pairs[1]].astype(float)))
        per_second = [effective_draws(np.array(draws)) / moving for draws in (weights, scores)]
        per_update = effective_draws(np.array(weights)) / len(weights)
        worst, middle = (np.percentile(values, q) for values, q in ((per_second[0], 5), (per_second[0], 50)))
        print(
            f"  {name:20s} {1e3 * moving / len(weights):8.3f} ms an update; effective draws a second: weights "
            f"{middle:6.0f} (median) {worst:6.0f} (worst twentieth), scores {np.median(per_second[1]):6.0f}; "
            f"an update {np.median(per_update):.3f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each update and data set")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    for features in (5, 20):
        for seed in arguments.seeds:
            race(features, arguments.seconds, seed)
    race(20, arguments.seconds, arguments.seeds[0], crowded=True)
