"""The PyClone model: sweeps and updates beside plain NumPy, and how fast the moves of V mix."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import oracle
import oracle_pyclone
import pandas as pd

import pgfa
from benchmarks.suites import Result, median_milliseconds, suite

NUM_ROWS = 200
NUM_PARTICLES = 20

#: Samples and features of the paper's three settings.
SETTINGS = {"pyclone-4": (4, 4), "pyclone-8": (10, 8), "pyclone-12": (10, 12)}

#: Sampler, row kernel of the oracle, and the ratio that is required of it.
SAMPLERS: dict[str, tuple[Any, Any, float | None]] = {
    "Gibbs": (pgfa.Gibbs(), oracle.gibbs_row, None),
    "ParticleGibbs": (
        pgfa.ParticleGibbs(NUM_PARTICLES),
        partial(oracle.particle_gibbs_row, num_particles=NUM_PARTICLES),
        60.0,
    ),
    "DiscreteParticleFilter": (
        pgfa.DiscreteParticleFilter(NUM_PARTICLES),
        partial(oracle.dpf_row, num_particles=NUM_PARTICLES),
        60.0,
    ),
}

#: Moves of V that are compared: the paper's, ours, and the default.
KERNELS: dict[str, tuple[str, ...]] = {
    "random walks, single": ("single",),
    "random walks, blocks": ("block", "single"),
    "the paper's": ("single", "block", "permutation", "multiple-try"),
    "exchange": ("exchange",),
    "langevin": ("langevin",),
    "default": ("langevin", "langevin", "exchange", "copies"),
}


def simulate(num_samples: int, num_features: int) -> pgfa.Simulation:
    prior = pgfa.BetaBernoulli(num_features)
    return pgfa.simulate("pyclone", prior, rng=1, num_rows=NUM_ROWS, num_samples=num_samples, alpha=2.0)


@suite("pyclone", daily=True)
def compare_with_oracle(quick: bool) -> Result:
    num_samples, num_features = SETTINGS["pyclone-12"]
    truth = simulate(num_samples, num_features)
    V = truth.state.parameters["V"]
    plain_rows = oracle_pyclone.make_rows(truth.data)
    prior = pgfa.BetaBernoulli(num_features)
    repeats = 5 if quick else 21
    # Column moves are no part of a sweep over the rows.
    model = pgfa.PyClone(truth.data, column_moves=0)
    rows = []
    for name, (sampler, row_kernel, required) in SAMPLERS.items():
        chain = pgfa.Chain(model, prior, sampler, seed=1, state=truth.state, update="features")
        chain.step(3)
        ours = median_milliseconds(lambda chain=chain: chain.step(2), repeats) / 2
        num_timed = 6 if quick else 20
        timed = np.linspace(0, NUM_ROWS - 1, num_timed).astype(int)
        predictive = partial(oracle.fbb_predictive, N=NUM_ROWS, a=truth.state.alpha / num_features, b=1.0)
        sweep = partial(
            oracle_pyclone.sweep, plain_rows, truth.state.Z, V, predictive, row_kernel, np.random.default_rng(1), timed
        )
        plain = median_milliseconds(sweep, 1 if quick else 3) * NUM_ROWS / num_timed
        rows.append(_row(name, ours, plain, required))

    update = partial(oracle_pyclone.update_parameters, plain_rows, truth.state.Z.astype(float), V)
    plain = median_milliseconds(lambda: update(np.random.default_rng(1)), 2 if quick else 5)
    for name in ("the paper's", "default"):
        model = pgfa.PyClone(truth.data, moves=KERNELS[name])
        chain = pgfa.Chain(model, prior, seed=1, state=truth.state, update="parameters")
        chain.step(5)
        ours = median_milliseconds(lambda chain=chain: chain.step(10), repeats) / 10
        rows.append(_row(f"parameters, {name} moves", ours, plain, 100.0))
    return Result(
        "PyClone model: one sweep over the rows, and one update of the parameters",
        pd.DataFrame(rows),
        [
            f"{NUM_ROWS} mutations, {num_samples} samples, {num_features} features, {NUM_PARTICLES} particles; "
            "binomial; medians on one core, in milliseconds, after compilation.",
            "The sweep in plain NumPy (`tests/oracle_pyclone.py`) is timed on some of the rows and scaled up to all of "
            "them. Its update of the parameters makes the moves of the paper once each: random walks on single entries "
            "and on blocks, a permutation and a multiple-try step with five tries.",
        ],
    )


@suite("pyclone-moves")
def compare_moves(quick: bool) -> Result:
    num_draws = 500 if quick else 4000
    rows = []
    for setting, (num_samples, num_features) in SETTINGS.items():
        truth = simulate(num_samples, num_features)
        for name, moves in KERNELS.items():
            if quick and name in ("random walks, blocks", "exchange"):
                continue
            model = pgfa.PyClone(truth.data, moves=moves)
            chain = pgfa.Chain(model, pgfa.BetaBernoulli(num_features), seed=1, state=truth.state, update="parameters")
            chain.step(300, warmup=True)
            began = time.thread_time()
            F = np.empty((num_draws, num_features, num_samples))
            for i in range(num_draws):
                chain.step()
                V = chain.state.parameters["V"]
                F[i] = V / V.sum(axis=0)
            seconds = time.thread_time() - began
            # Populations with the same mutations share what they have at random: their sum is what mixes or not.
            merged = _merge(F, truth.state.Z)
            sizes = [_effective_size(merged[:, k, m]) for k in range(merged.shape[1]) for m in range(num_samples)]
            rows.append(
                {
                    "setting": setting,
                    "moves": name,
                    "ms_per_update": 1000.0 * seconds / num_draws,
                    "median_per_second": float(np.median(sizes) / seconds),
                    "least_per_second": float(np.min(sizes) / seconds),
                }
            )
    return Result(
        "PyClone model: effective draws of the shares F a second, given Z",
        pd.DataFrame(rows),
        ["Over all populations and samples, the median and the least; step sizes tuned in 300 updates before."],
    )


def _merge(F: np.ndarray, Z: np.ndarray) -> np.ndarray:
    _, groups = np.unique(Z, axis=1, return_inverse=True)
    return np.stack([F[:, groups.ravel() == g].sum(axis=1) for g in range(groups.max() + 1)], axis=1)


def _effective_size(x: np.ndarray) -> float:
    """Length over the sum of autocorrelations, up to the first pair of lags whose sum is not positive."""
    x = x - x.mean()
    length = x.size
    spectrum = np.abs(np.fft.rfft(x, 2 * length)) ** 2
    correlation = np.fft.irfft(spectrum)[:length]
    if correlation[0] <= 0.0:
        return 1.0
    correlation /= correlation[0]
    pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
    last = int(np.argmax(pairs <= 0.0)) if (pairs <= 0.0).any() else pairs.size
    return float(length / max(2.0 * pairs[:last].sum() - 1.0, 1.0 / length))


def _row(name: str, ours: float, plain: float, required: float | None) -> dict[str, Any]:
    ratio = plain / ours
    return {
        "what": name,
        "pgfa_ms": ours,
        "numpy_ms": plain,
        "ratio": ratio,
        "required": np.nan if required is None else required,
        "met": required is None or ratio >= required,
    }


@suite("pyclone-buffet")
def compare_singletons(quick: bool) -> Result:
    """What is found with singletons from the prior or informed, with and without column moves."""
    length = {"warmup": 100, "draws": 50} if quick else {"warmup": 300, "draws": 200}
    rows = []
    for setting, (num_samples, num_features) in SETTINGS.items():
        if quick and setting != "pyclone-4":
            continue
        truth = simulate(num_samples, num_features)
        num_true = int(np.unique(truth.state.Z[:, truth.state.Z.any(axis=0)], axis=1).shape[1])
        for singletons, column_moves in (("prior", 0), ("informed", 0), ("prior", 5), ("informed", 5)):
            model = pgfa.PyClone(truth.data, singletons=singletons, column_moves=column_moves)
            fit = pgfa.sample(
                model, pgfa.IndianBuffet(), chains=2, seed=1, save_warmup=True, progress=False, check=False, **length
            )
            summary = model.summarise(fit)
            rows.append(
                {
                    "setting": setting,
                    "true_populations": num_true,
                    "singletons": singletons,
                    "column_moves": column_moves,
                    "accepted_in_warmup": float(fit["warmup_sample_stats"]["acceptance_singletons"].mean()),
                    "accepted_after": float(fit["sample_stats"]["acceptance_singletons"].mean()),
                    "features": float(fit["posterior"]["num_features"].mean()),
                    "populations": summary.Z.shape[1],
                    "b_cubed_f": pgfa.metrics.b_cubed(truth.state.Z, summary.Z).f,
                    "log_density": float(fit["sample_stats"]["lp"].mean()),
                }
            )
    return Result(
        "PyClone model under the Indian buffet process: singletons and what is found",
        pd.DataFrame(rows),
        [
            "Two chains from the prior. Acceptance counts proposals that change the populations that only one "
            "mutation has; populations are those of the summary.",
        ],
    )
