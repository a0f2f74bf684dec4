"""From any start to the right answer, on real data: the default against sixteen long chains without its help.

For each data set sixteen chains of the discrete particle filter alone (one start, no annealed warm-up, no moves of
whole columns, nothing renewed) run for a while each, and four chains with the default of `pgfa.sample` for a tenth of
the time that each of them took; and once more for a tenth of what all sixteen took together, shared out among four.
What counts is the log density that they reach: the mean over the later half of a chain's draws, which comes with a
standard error. The default is as high if its best chain is not below the best long chain by more than two standard
errors of the difference. Under the Indian buffet process densities of different numbers of features are hard to
compare, so the number of features is fixed.

Run with ``python examples/arrival.py [--seconds 20] [--starts N] [--data FOLDER] [NAME ...]``; the folder holds bars/,
kinship/, lazega/, mice_protein/ and mixing/. Writes out/arrival.csv.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats

import pgfa

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
NUM_LONG, NUM_SHORT = 16, 4
#: The default gets this share of the time of a long chain, and of that of all long chains.
SHARE = 0.1


def bars(folder: Path) -> tuple[Any, int]:
    return pgfa.LinearGaussian(np.loadtxt(folder / "bars" / "X_1000x36.csv", delimiter=","), intercept=True), 6


def mice(folder: Path) -> tuple[Any, int]:
    table = pd.read_csv(folder / "mice_protein" / "mice_protein.csv")
    values = table[[name for name in table.columns if name.endswith("_N")]].to_numpy(dtype=float)
    scaled = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    return pgfa.LinearGaussian(scaled, intercept=True), 10


def kinship(folder: Path) -> tuple[Any, int]:
    X = np.loadtxt(folder / "kinship" / "kinship_term16_104x104.csv", delimiter=",")
    return pgfa.Relational(X, self_links=False), 10


def lazega(folder: Path) -> tuple[Any, int]:
    X = np.loadtxt(folder / "lazega" / "law_advice.csv", delimiter=",")
    return pgfa.Relational(X, self_links=False, bias=True), 10


def mixing(folder: Path) -> tuple[Any, int]:
    table = pd.read_csv(folder / "mixing" / "mixing.tsv", sep="\t")
    numbers = {mutation: f"m{n}" for n, mutation in enumerate(dict.fromkeys(table["mutation_id"]))}
    table["mutation_id"] = table["mutation_id"].map(numbers)  # the ids say who carries the variant
    return pgfa.PyClone(table.drop(columns=["variant_cases", "genotypes"]), density="beta-binomial"), 6


SOURCES: dict[str, Callable[[Path], tuple[Any, int]]] = {
    "bars": bars,
    "mice_protein": mice,
    "kinship": kinship,
    "lazega": lazega,
    "mixing": mixing,
}


def iterations_in(model: Any, prior: Any, seconds: float, **settings: Any) -> int:
    """How many iterations a chain makes in so many seconds, compilation aside, at the pace that it has once it settles.

    From the prior, where few features are in use, iterations may be several times as fast.
    """
    options = {"chains": 1, "cores": 1, "seed": 99, "progress": False, "check": False, **settings}
    pgfa.sample(model, prior, draws=20, warmup=20, **options)
    times = pgfa.sample(model, prior, draws=100, warmup=200, **options)["sample_stats"]["time"].to_numpy()[0]
    return max(int(seconds * (times.size - 1) / (times[-1] - times[0])), 20)


class Reached(NamedTuple):
    """Log density at the end of every chain, and the standard error of that of the best."""

    densities: np.ndarray
    error: float

    @property
    def best(self) -> float:
        return float(self.densities.max())


def reached(fit: Any) -> Reached:
    """Mean over the later half of the draws of every chain."""
    values = fit["sample_stats"]["lp"].to_numpy()
    later = values[:, values.shape[1] // 2 :]
    densities = later.mean(axis=1)
    return Reached(densities, float(array_stats.mcse(later[densities.argmax()][None, :], method="mean")))


def as_high(ours: Reached, theirs: Reached) -> bool:
    """Whether our best is as high as theirs, as far as the length of the chains can tell."""
    return ours.best > theirs.best - 2.0 * float(np.hypot(ours.error, theirs.error))


def compare(name: str, folder: Path, seconds: float, starts: int | None = None) -> dict[str, Any]:
    """Densities that long chains without help and short default ones reach."""
    model, num_features = SOURCES[name](folder)
    prior = pgfa.BetaBernoulli(num_features)
    alone = {"anneal": False, "starts": 1, "renew": False, "column_moves": False}
    options = {"seed": 1, "progress": False, "check": False}
    length = iterations_in(model, prior, seconds, **alone)
    kept = max(length // 20, 1)
    long = pgfa.sample(model, prior, draws=kept, thin=10, warmup=length // 2, chains=NUM_LONG, **alone, **options)
    taken = float(long["sample_stats"]["time"].isel(draw=-1).median())

    def run_default(seconds: float) -> Any:
        length = iterations_in(model, prior, seconds)
        return pgfa.sample(
            model, prior, draws=length // 3, warmup=length - length // 3, chains=NUM_SHORT, starts=starts, **options
        )

    short, longer = run_default(SHARE * taken), run_default(SHARE * taken * NUM_LONG / NUM_SHORT)
    theirs, ours, given_longer = reached(long), reached(short), reached(longer)
    return {
        "data": name,
        "features": num_features,
        "long_chains_s": taken,
        "median_of_long": np.median(theirs.densities),
        "best_of_long": theirs.best,
        "its_error": theirs.error,
        "default_s": float(short["sample_stats"]["time"].isel(draw=-1).median()),
        "best_of_default": ours.best,
        "error_of_default": ours.error,
        "worst_of_default": ours.densities.min(),
        "default_is_as_high": as_high(ours, theirs),
        "longer_default_s": float(longer["sample_stats"]["time"].isel(draw=-1).median()),
        "best_of_longer_default": given_longer.best,
        "error_of_longer_default": given_longer.error,
        "worst_of_longer_default": given_longer.densities.min(),
        "longer_default_is_as_high": as_high(given_longer, theirs),
        "spread_within_chain": float(short["sample_stats"]["lp"][int(ours.densities.argmax())].std()),
    } | (true_bars(short, folder) if name == "bars" else {})


def true_bars(fit: Any, folder: Path) -> dict[str, int]:
    """How many of the four features the chains have found: columns that are wrong in at most 2% of the rows."""
    truth = np.loadtxt(folder / "bars" / "Z_true_1000x4.csv", delimiter=",").astype(bool)
    last = fit["posterior"]["Z"].isel(draw=-1).to_numpy().astype(bool)
    differs = (truth[None, :, :, None] != last[:, :, None, :]).mean(axis=1)  # chain, true column, column
    # A complement is as good as the column: the intercept makes up for it.
    found = np.minimum(differs, 1.0 - differs).min(axis=2) <= 0.02
    return {"bars_found_by_worst": int(found.sum(axis=1).min()), "bars_found_by_best": int(found.sum(axis=1).max())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SOURCES), metavar="NAME", help=", ".join(SOURCES))
    parser.add_argument("--seconds", type=float, default=20.0, help="time of a long chain")
    parser.add_argument("--starts", type=int, help="that a default chain tries; as many as suit the model unless given")
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    if unknown := set(options.names) - SOURCES.keys():
        parser.error(f"there are no data {', '.join(sorted(unknown))}: choose from {', '.join(SOURCES)}")
    warnings.simplefilter("ignore")
    rows = []
    for name in options.names:
        rows.append(compare(name, options.data, options.seconds, options.starts))
        print(pd.Series(rows[-1]).to_string(), end="\n\n", flush=True)
    Path("out").mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv("out/arrival.csv", index=False)


if __name__ == "__main__":
    main()
