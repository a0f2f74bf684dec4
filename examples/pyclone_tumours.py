"""Which cells carry which mutation, in three real data sets: how close to the truth, and how long it takes.

- *mixing*: cells of four people, mixed in known proportions and sequenced deeply. Who carries which variant is known.
- *xenograft*: a leukaemia (SJBALL031) grown in mice. Experts drew a tree of its clones by hand.
- *tracerx*: a lung tumour with 2458 mutations in three samples of low purity. No truth, but a test of size.

Scores are extended B-Cubed F of the populations that `PyClone.summarise` reports, which merges those that carry the
same mutations and leaves out those that hardly any cell belongs to.

Run with ``python examples/pyclone_tumours.py``, followed by the names of data sets unless you want them all, and by
--quick for fewer settings; writes out/pyclone_tumours.csv. The data are read from the folder shared/data beside the
project.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import pgfa

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
DENSITIES = ("binomial", "beta-binomial")
NUM_PARTICLES = 20
SAMPLERS: dict[str, Any] = {
    "Gibbs": pgfa.Gibbs(),
    "RowGibbs": pgfa.RowGibbs(),
    "ParticleGibbs": pgfa.ParticleGibbs(NUM_PARTICLES),
    "DiscreteParticleFilter": pgfa.DiscreteParticleFilter(NUM_PARTICLES),
}


class Tumour(NamedTuple):
    """Counts, and for each mutation (in order of appearance) the populations that carry it, where that is known."""

    table: pd.DataFrame
    truth: np.ndarray | None


def load(name: str) -> Tumour:
    """One of the data sets, with ids that tell nothing."""
    files = {
        "mixing": ("mixing/mixing.tsv", "mixing/mixing_true_Z.tsv"),
        "xenograft": ("ball_xenograft/SJBALL031.tsv", "ball_xenograft/SJBALL031_expert_Z.tsv"),
        "tracerx": ("tracerx/tracerx.tsv", None),
    }
    counts, truth = files[name]
    table = pd.read_csv(DATA / counts, sep="\t")
    ids = list(dict.fromkeys(table["mutation_id"]))
    Z = None if truth is None else pd.read_csv(DATA / truth, sep="\t", index_col=0).loc[ids].to_numpy()
    wanted = [column for column in table.columns if column not in ("mutation_id", "variant_cases", "genotypes")]
    # The ids of the mixing data say who carries the variant.
    numbers = table["mutation_id"].map({mutation: f"m{n}" for n, mutation in enumerate(ids)})
    return Tumour(table[wanted].assign(mutation_id=numbers), Z)


def fit(
    tumour: Tumour,
    density: str,
    prior: pgfa.IndianBuffet | pgfa.BetaBernoulli,
    sampler: Any = None,
    *,
    draws: int = 200,
    warmup: int = 300,
    chains: int = 2,
    seed: int = 1,
) -> tuple[dict[str, Any], Any]:
    """Fit, summarise and score; returns what was measured, and the summary."""
    model = pgfa.PyClone(tumour.table, density)
    began, cpu = time.perf_counter(), time.process_time()
    fitted = pgfa.sample(
        model, prior, sampler, draws=draws, warmup=warmup, chains=chains, seed=seed, progress=False, check=False
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    summary = model.summarise(fitted)
    measured: dict[str, Any] = {
        "density": density,
        "features": getattr(prior, "num_features", "any"),
        "sampler": "DiscreteParticleFilter" if sampler is None else type(sampler).__name__,
        "populations": summary.Z.shape[1],
        "F": np.nan,
        "log density": float(fitted["sample_stats"]["lp"].mean()),
        "seconds": seconds,
        "cpu seconds": cpu,
    }
    stats = fitted["sample_stats"].dataset
    for name in stats.data_vars:
        if str(name).startswith("acceptance"):
            measured[str(name)] = float(stats[name].mean())
    if tumour.truth is not None:
        measured["F"] = pgfa.metrics.b_cubed(tumour.truth, summary.Z).f
    return measured, summary


def study(name: str, quick: bool = False) -> pd.DataFrame:
    """All densities, priors and samplers on one data set."""
    tumour = load(name)
    rows = []
    if name == "tracerx":
        length = {"draws": 20, "warmup": 30} if quick else {"draws": 1000, "warmup": 500}
        measured, _ = fit(tumour, "beta-binomial", pgfa.BetaBernoulli(10), chains=2 if quick else 4, **length)
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append({"data": name, **measured, "megabytes": megabytes})
    else:
        for density in DENSITIES:
            for num_features in (4, 8) if quick else (4, 5, 6, 7, 8, 9, 10):
                for label, sampler in SAMPLERS.items():
                    if quick and label not in ("Gibbs", "DiscreteParticleFilter"):
                        continue
                    measured, _ = fit(tumour, density, pgfa.BetaBernoulli(num_features), sampler)
                    rows.append({"data": name, **measured})
                    print(pd.DataFrame(rows[-1:]).to_string(header=len(rows) == 1, index=False), flush=True)
            for label, sampler in SAMPLERS.items():
                if quick and label not in ("Gibbs", "DiscreteParticleFilter"):
                    continue
                measured, _ = fit(tumour, density, pgfa.IndianBuffet(), sampler)
                rows.append({"data": name, **measured})
                print(pd.DataFrame(rows[-1:]).to_string(header=False, index=False), flush=True)
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=["mixing", "xenograft", "tracerx"])
    parser.add_argument("--quick", action="store_true", help="fewer settings, and a short run of the large data set")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit("The data are not here: expected the folder shared/data beside the project.")
    results = pd.concat([study(name, arguments.quick) for name in arguments.data])
    print(results.to_string(index=False, float_format="{:.3g}".format))
    path = Path("out/pyclone_tumours.csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    results.to_csv(path, index=False)
    print(f"Written to {path}")


if __name__ == "__main__":
    main()
