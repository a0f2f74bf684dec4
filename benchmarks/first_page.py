"""The table on the first page of the documentation: nine comparisons, from what `pgfa experiment` wrote.

``make arrival`` runs them and this.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

NAMES = ("lg-5", "lg-20", "lg-ibp", "lfrm-5", "lfrm-20", "lfrm-ibp", "pyclone-4", "pyclone-8", "pyclone-12")
PAPER = ("Gibbs", "RG", "PG", "DPF")
OURS = "pgfa default"
#: Near the truth, or near the best chain on the same data, is a relative log density of no less than minus this.
CLOSE = 0.02
CHAIN = ["sampler", "data", "start", "restart"]


def describe(traces: pd.DataFrame) -> dict[str, object]:
    """The row of one comparison: how many chains get where, and when."""
    ends = traces.sort_values("time").groupby(CHAIN, as_index=False).last()
    near = ends["relative_log_density"] >= -CLOSE
    row: dict[str, object] = {}
    for sampler in PAPER:
        row[sampler] = int(near[ends["sampler"] == sampler].sum()) if sampler in set(ends["sampler"]) else ""
    row["pgfa"] = int(near[ends["sampler"] == OURS].sum())

    ours = traces[traces["sampler"] == OURS]
    first = ours[ours["relative_log_density"] >= -CLOSE].groupby(CHAIN)["time"].min()
    chains = ours.groupby(CHAIN).ngroups
    times = np.sort(np.concatenate([first.to_numpy(), np.full(chains - len(first), np.inf)]))
    row["pgfa, at some time"] = len(first)
    row["half of them after"] = _seconds(times[(chains - 1) // 2])
    row["all but one after"] = _seconds(times[chains - 2])

    best = ends.groupby("data")["log_density"].transform("max")
    behind = (ends["log_density"] - best) / best.abs() >= -CLOSE
    by_sampler = behind.groupby(ends["sampler"]).sum()
    row["near the best: paper's best"] = int(by_sampler[by_sampler.index != OURS].max())
    row["near the best: pgfa"] = int(by_sampler[OURS])
    score = ends.groupby("sampler")["b_cubed"]
    row["B-Cubed F: DPF"] = f"{score.median()['DPF']:.3f}"
    row["B-Cubed F: pgfa"] = f"{score.median()[OURS]:.3f}"
    row["least"] = f"{score.min()[OURS]:.3f}"
    return row


def _seconds(time: float) -> str:
    return f"{time:.2g} s" if np.isfinite(time) else ""


def main(folder: Path, out: Path) -> None:
    """Read the runs in a folder and write table.md and table.csv to another."""
    runs = {name: folder / name / "traces.parquet" for name in NAMES}
    missing = [name for name, path in runs.items() if not path.exists()]
    if missing:
        raise SystemExit(f"{folder} has no traces of {', '.join(missing)}: run `make arrival`")
    rows = {name: describe(pd.read_parquet(path)) for name, path in runs.items()}
    table = pd.DataFrame.from_dict(rows, orient="index")
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "table.csv", index_label="data")
    lines = ["| | " + " | ".join(table.columns) + " |", "| --- " * (len(table.columns) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(str(value) for value in row) + " |" for name, row in table.iterrows()]
    (out / "table.md").write_text("\n".join(lines) + "\n")
    print((out / "table.md").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
