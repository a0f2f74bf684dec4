"""Why rows should move as a whole: two features that are the same.

One hundred rows, one column of data, two features with the same value of 100. Half of the rows own the first feature,
half the second. The prior prefers that all rows share one feature, and the likelihood does not care which one a row
owns, so a sampler that mixes collects all rows in one feature. To change from one feature to the other, an entry at a
time, a row must own both or neither on the way, which the data forbid: element-wise Gibbs stays where it began.

Run with ``python examples/toy.py``; writes out/toy.png.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import pgfa
from pgfa.plots import COLOURS

NUM_ROWS = 100
NUM_SWEEPS = 15
SAMPLERS = {
    "Gibbs": pgfa.Gibbs(),
    "RowGibbs": pgfa.RowGibbs(),
    "DiscreteParticleFilter": pgfa.DiscreteParticleFilter(),
}


def make_problem(rng: np.random.Generator) -> tuple[pgfa.LinearGaussian, pgfa.State]:
    """Data, and the state they were drawn from."""
    Z = np.zeros((NUM_ROWS, 2), dtype=np.uint8)
    Z[: NUM_ROWS // 2, 0] = Z[NUM_ROWS // 2 :, 1] = 1
    parameters = {"V": np.full((2, 1), 100.0), "tau_v": 0.25, "tau_x": 25.0}
    X = Z @ parameters["V"] + rng.normal(scale=0.2, size=(NUM_ROWS, 1))
    return pgfa.LinearGaussian(X), pgfa.State(Z, parameters=parameters)


def run(seed: int = 1) -> dict[str, dict[str, np.ndarray]]:
    """For each sampler the owners of both features and the log density, from the start on."""
    model, truth = make_problem(np.random.default_rng(seed))
    prior = pgfa.BetaBernoulli(num_features=2, a=0.5, b=1.0)
    traces = {}
    for name, sampler in SAMPLERS.items():
        chain = pgfa.Chain(model, prior, sampler, seed=seed, state=truth, update="features")
        owners, log_density = [chain.state.Z.sum(axis=0)], [chain.log_density()]
        for _ in range(NUM_SWEEPS):
            chain.step()
            owners.append(chain.state.Z.sum(axis=0))
            log_density.append(chain.log_density())
        traces[name] = {"owners": np.array(owners, dtype=int), "log_density": np.array(log_density)}
    return traces


def draw(traces: dict[str, dict[str, np.ndarray]]) -> Figure:
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, (name, trace) in enumerate(traces.items()):
        left.plot(trace["log_density"], color=COLOURS[i], label=name, linestyle=("-", "-", "--")[i])
        # The two features of element-wise Gibbs would hide each other.
        apart = (0.8, -0.8) if name == "Gibbs" else (0.0, 0.0)
        for k in (0, 1):
            right.plot(trace["owners"][:, k] + apart[k], color=COLOURS[i], linestyle=("-", "-", "--")[i])
    left.set(xlabel="sweep", ylabel="log density")
    right.set(xlabel="sweep", ylabel="rows that own each feature", ylim=(-5, 105))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    traces = run()
    for name, trace in traces.items():
        gathered = np.flatnonzero(trace["owners"].max(axis=1) == NUM_ROWS)
        outcome = f"all rows in one feature after {gathered[0]} sweeps" if gathered.size else "never all in one feature"
        start, end = (" / ".join(map(str, trace["owners"][i])) for i in (0, -1))
        print(f"{name:22s} owners {start} -> {end}: {outcome}; log density {trace['log_density'][-1]:.1f}")
    path = Path("out/toy.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(traces).savefig(path, dpi=150)
    print(f"Written to {path}")


if __name__ == "__main__":
    main()
