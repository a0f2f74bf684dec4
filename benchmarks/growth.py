"""How the time of a DPF sweep grows with the size of the problem: slopes on log axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import pgfa
from benchmarks.suites import Result, median_milliseconds, suite

#: The size that is varied, the values it takes, and the steepest slope that is allowed.
GROWTH: dict[str, tuple[tuple[float, ...], float | None]] = {
    "rows": ((500, 1000, 2000, 4000, 8000), 1.1),
    "features": ((10, 20, 40, 80), 1.1),
    "dimensions": ((10, 30, 100, 300, 1000), None),
    "particles": ((5, 10, 20, 40, 80), None),
}
USUAL = {"rows": 1000, "features": 20, "dimensions": 10, "particles": 20, "missing": 0.1}
#: A thousand dimensions may cost so many times what ten do, where all is observed; holes, so many times what none do.
DEARER_BY_DIMENSIONS, DEARER_BY_HOLES = 3.0, 2.0


@suite("growth", daily=True)
def measure_growth(quick: bool) -> Result:
    repeats = 3 if quick else 9
    rows = []
    curves = {}
    for what, (values, steepest) in GROWTH.items():
        complete = {"missing": 0.0} if what == "dimensions" else {}
        times = [time_sweep(repeats, **(USUAL | complete | {what: value})) for value in values]
        curves[what] = values, times
        slope = slope_of(values, times)
        dearer = times[-1] / times[0]
        met = dearer <= DEARER_BY_DIMENSIONS if what == "dimensions" else steepest is None or slope <= steepest
        rows.append(_row(what, values, times, slope, dearer, met))
    values, steepest = GROWTH["features"]
    times = [time_sweep(repeats, dense=True, **(USUAL | {"features": value})) for value in values]
    curves["features, all in use"] = values, times
    slope = slope_of(values, times)
    rows.append(_row("features, all in use", values, times, slope, times[-1] / times[0], slope <= (steepest or np.inf)))
    shares = (0.0, 0.01, 0.1, 0.3, 0.6)
    times = [time_sweep(repeats, **(USUAL | {"missing": share})) for share in shares]
    rows.append(_row("missing", shares, times, float("nan"), max(times) / times[0], max(times) <= 2.0 * times[0]))
    return Result(
        "Growth: one DPF sweep on the linear Gaussian model",
        pd.DataFrame(rows),
        [
            "Everything but what is varied: 1000 rows, 20 features, 10 dimensions, 20 particles, 10% missing (none "
            "where the dimensions vary), data from the prior with alpha = 2. Medians on one core, in milliseconds, of "
            "the sweep in a chain that moves parameters as well; the slope is that of a line through the logarithms.",
            "Of a generous number of features most are empty and go through no row, so that the time hardly grows with "
            "it. Where each row owns three features in ten and none is empty, it does: with 20 particles the first "
            "four columns are enumerated and cost next to nothing, and from 10 features to 80 the number of columns "
            "beyond these grows by 12.",
            f"Required: slopes of at most 1.1 in rows and features; {DEARER_BY_DIMENSIONS:.0f} times the time of 10 "
            f"dimensions at 1000; {DEARER_BY_HOLES:.0f} times that of complete data with holes.",
        ],
        picture=draw_curves(curves),
    )


def draw_curves(curves: dict[str, tuple[Iterable[float], list[float]]]) -> Figure:
    """A panel for each size that is varied, with logarithmic axes; a dotted line grows in proportion."""
    figure = Figure(figsize=(11.0, 2.8), layout="constrained")
    for axes, (what, (values, times)) in zip(figure.subplots(1, len(curves), sharey=True), curves.items()):
        sizes = np.array(list(values), dtype=float)
        axes.loglog(sizes, times, "o-", color="tab:orange", label="one sweep")
        axes.loglog(sizes, times[-1] * sizes / sizes[-1], ":", color="0.5", label="in proportion")
        axes.set_xlabel(what)
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes], minor=False)
        axes.minorticks_off()
        if what == next(iter(curves)):
            axes.set_ylabel("milliseconds")
            axes.legend(frameon=False, fontsize=8)
    return figure


def slope_of(sizes: Iterable[float], times: Iterable[float]) -> float:
    """Slope of the regression line of log time on log size."""
    return float(np.polyfit(np.log(list(sizes)), np.log(list(times)), 1)[0])


def time_sweep(
    repeats: int, *, rows: int, features: int, dimensions: int, particles: int, missing: float, dense: bool = False
) -> float:
    """Milliseconds of one sweep from the truth, or from rows that own three features in ten each."""
    prior = pgfa.BetaBernoulli(int(features))
    truth = pgfa.simulate(
        "linear-gaussian", prior, rng=1, num_rows=int(rows), num_columns=int(dimensions), missing=missing
    )
    state, model = truth.state, truth.model
    if dense:
        rng = np.random.default_rng(2)
        state.Z[...] = rng.random(state.Z.shape) < 0.3
        data = model.sample_data(state.Z, state.parameters, rng)
        model = model.with_data(np.where(np.isnan(truth.data), np.nan, data))
    sampler = pgfa.DiscreteParticleFilter(int(particles))
    chain = pgfa.Chain(model, prior, sampler, seed=1, state=state, update=("features", "parameters"))
    chain.step(2)
    # The update of the parameters is left out: with 80 features it takes as long as the sweep.
    return median_milliseconds(lambda: chain._update_features(1.0, False), repeats)


def time_features(chain: pgfa.Chain, repeats: int) -> float:
    """Milliseconds of one iteration of a chain, after compilation."""
    chain.step(2)
    step: Callable[[], Any] = chain.step
    return median_milliseconds(step, repeats)


def _row(
    what: str, values: Iterable[float], times: Iterable[float], slope: float, dearer: float, met: bool
) -> dict[str, Any]:
    return {
        "against": what,
        "values": " ".join(f"{value:g}" for value in values),
        "milliseconds": " ".join(f"{time:.3g}" for time in times),
        "slope": slope,
        "last_to_first": dearer,
        "met": met,
    }
