"""The table on the first page of the documentation: nine comparisons, from what `pgfa experiment` wrote.

``make arrival`` runs them and this.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from pgfa.experiments.definition import LOG_DENSITY, Experiment, load
from pgfa.experiments.report import NEAR_TRUTH, arrivals, first_times, time_of_share

NAMES = ("lg-5", "lg-20", "lg-ibp", "lfrm-5", "lfrm-20", "lfrm-ibp", "pyclone-4", "pyclone-8", "pyclone-12")
PAPER = ("Gibbs", "RG", "PG", "DPF")
OURS = "pgfa default"


def describe(experiment: Experiment, traces: pd.DataFrame) -> dict[str, object]:
    """The row of one comparison: how many chains get where, and when."""
    arrived = arrivals(experiment, traces).set_index("sampler")
    near = _count(arrived, "share near the truth")
    best = _count(arrived, "share near the best")
    row: dict[str, object] = {sampler: near.get(sampler, "") for sampler in PAPER}
    row["pgfa"] = near[OURS]

    ours = traces[traces["sampler"] == OURS]
    first = first_times(ours[ours[LOG_DENSITY] >= NEAR_TRUTH], int(arrived.loc[OURS, "chains"]))
    row["pgfa, at some time"] = _count(arrived, "share once near the truth")[OURS]
    row["half of them after"] = _seconds(time_of_share(first, 0.5))
    row["all but one after"] = _seconds(float(np.sort(first)[-2]))

    row["near the best: paper's best"] = max(best.get(sampler, 0) for sampler in PAPER)
    row["near the best: pgfa"] = best[OURS]
    score = traces[np.isclose(traces["time"], experiment.times[-1])].groupby("sampler")["b_cubed"]
    row["B-Cubed F: DPF"] = f"{score.median()['DPF']:.3f}"
    row["B-Cubed F: pgfa"] = f"{score.median()[OURS]:.3f}"
    row["least"] = f"{score.min()[OURS]:.3f}"
    return row


def _count(arrived: pd.DataFrame, share: str) -> dict[str, int]:
    """How many chains of each sampler a share stands for."""
    return {str(name): round(value) for name, value in (arrived[share] * arrived["chains"]).items()}


def _seconds(time: float) -> str:
    return f"{time:.2g} s" if np.isfinite(time) else ""


def main(folder: Path, out: Path) -> None:
    """Read the runs in a folder and write table.md and table.csv to another."""
    runs = {name: folder / name / "traces.parquet" for name in NAMES}
    missing = [name for name, path in runs.items() if not path.exists()]
    if missing:
        raise SystemExit(f"{folder} has no traces of {', '.join(missing)}: run `make arrival`")
    rows = {name: describe(load(name).at_scale("laptop"), pd.read_parquet(path)) for name, path in runs.items()}
    table = pd.DataFrame.from_dict(rows, orient="index")
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "table.csv", index_label="data")
    lines = ["| | " + " | ".join(table.columns) + " |", "| --- " * (len(table.columns) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(str(value) for value in row) + " |" for name, row in table.iterrows()]
    (out / "table.md").write_text("\n".join(lines) + "\n")
    print((out / "table.md").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
