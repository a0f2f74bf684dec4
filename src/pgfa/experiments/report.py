"""From the chains of a run to tables, figures, verdicts and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pgfa.experiments import figures, tables, verdicts
from pgfa.experiments.definition import LOG_DENSITY, SPEED_RATIO, Experiment
from pgfa.experiments.runner import RunError, read_chain
from pgfa.experiments.scores import title_of
from pgfa.experiments.statistics import BLOCK, LEVEL, tables_of_tests
from pgfa.experiments.task import all_keys
from pgfa.experiments.verdicts import Verdict

#: A chain within this relative log density of the truth counts as arrived there.
NEAR_TRUTH = -0.02


#: What columns are called on pages; tables for programs keep their names.
_FOR_PEOPLE = {
    "p_sign": "p of signs",
    "median_difference": "median difference",
    "rank_difference": "difference of mean ranks",
    "chi_square": "chi-square",
    "sooner": "times sooner",
}
_SOONER = (
    "Times sooner is the last time of comparison over the median time of arrival, for samplers of which half of the "
    "chains arrive: with 10, a tenth of the time was enough."
)


class Report(NamedTuple):
    """What the chains of one experiment have shown."""

    experiment: Experiment
    traces: pd.DataFrame
    verdicts: list[Verdict]
    arrivals: pd.DataFrame


def collect(experiment: Experiment, out: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All traces as one tidy table, and a table with a row for each chain."""
    ours = {entry.label: entry.ours for entry in experiment.samplers}
    traces, chains = [], []
    for key in all_keys(experiment):
        found = read_chain(experiment, out, key)
        if found is None:
            continue
        who = {"experiment": experiment.name, "scale": experiment.scale, **key._asdict()}
        trace = pd.DataFrame(found["trace"])
        for i, (name, value) in enumerate(who.items()):
            trace.insert(i, name, value)
        traces.append(trace)
        seed = found["seed"]
        chains.append(
            {
                **who,
                "ours": ours[key.sampler],
                "entropy": str(seed["entropy"]),
                "spawn_key": " ".join(map(str, seed["spawn_key"])),
                "true_log_density": found["true_log_density"],
                "true_num_features": found["true_num_features"],
                "iterations": found["num_iterations"],
                "seconds": found["seconds"],
            }
        )
    if not traces:
        raise RunError(f"{out} holds no chains of {experiment.name} yet: run it first")
    return pd.concat(traces, ignore_index=True), pd.DataFrame(chains)


def arrivals(experiment: Experiment, traces: pd.DataFrame) -> pd.DataFrame:
    """How soon each sampler gets as far as the best of the paper's gets in the whole time.

    For each data set the level is the highest median relative log density, over the paper's samplers, at the last time,
    or if that is higher, near the truth: beyond, chains only fluctuate. A chain arrives when it first reaches it.
    `sooner` is the last time over the median time of arrival, for samplers of which at least half of the chains arrive.
    """
    last = traces[np.isclose(traces["time"], experiment.times[-1])]
    ours = [entry.label for entry in experiment.samplers if entry.ours]
    of_paper = last[~last["sampler"].isin(ours)]
    medians = (of_paper if len(of_paper) else last).groupby(["data", "sampler"])[LOG_DENSITY].median()
    level = traces["data"].map(medians.groupby("data").max().clip(upper=NEAR_TRUTH))
    best = last["data"].map(last.groupby("data")[LOG_DENSITY].max())
    rows: list[dict[str, Any]] = []
    for entry in experiment.samplers:
        chains = traces[traces["sampler"] == entry.label]
        if chains.empty:
            continue
        num_chains = chains.groupby(BLOCK).ngroups
        arrived = first_times(chains[chains[LOG_DENSITY] >= level[chains.index]], num_chains)
        near = first_times(chains[chains[LOG_DENSITY] >= NEAR_TRUTH], num_chains)
        median = time_of_share(arrived, 0.5)
        at_end = last.loc[last["sampler"] == entry.label, LOG_DENSITY]
        rows.append(
            {
                "sampler": entry.label,
                "chains": num_chains,
                "median at the end": float(at_end.median()),
                "share near the truth": float((at_end >= NEAR_TRUTH).mean()),
                "share near the best": float((at_end >= best[at_end.index] + NEAR_TRUTH).mean()),
                "share once near the truth": float(np.isfinite(near).mean()),
                "time until 90% near the truth": time_of_share(near, 0.9),
                "share that arrives": float(np.isfinite(arrived).mean()),
                "median time of arrival": median,
                "sooner": experiment.times[-1] / median,
            }
        )
    return pd.DataFrame(rows)


def first_times(there: pd.DataFrame, num_chains: int) -> np.ndarray:
    """For each chain the first time among the rows of a trace that are there; infinity if there are none."""
    first = there.groupby(BLOCK)["time"].min().to_numpy()
    return np.concatenate([first, np.full(num_chains - len(first), np.inf)])


def time_of_share(first: np.ndarray, share: float) -> float:
    """When at least this share of the chains has been there for the first time; NaN if it never has."""
    time = float(np.quantile(first, share, method="inverted_cdf"))
    return time if np.isfinite(time) else float("nan")


def speeds(chains: pd.DataFrame) -> pd.DataFrame:
    """Iterations a second of each sampler."""
    totals = chains.groupby("sampler", sort=False)[["iterations", "seconds"]].sum()
    rate = totals["iterations"] / totals["seconds"]
    return pd.DataFrame({"sampler": totals.index, "iterations a second": rate.to_numpy()})


def medians(experiment: Experiment, traces: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Median of a metric over all chains of each sampler, at each time."""
    at = traces[np.isclose(traces["time"].to_numpy()[:, None], experiment.times).any(axis=1)]
    table = at.pivot_table(index="sampler", columns="time", values=metric, aggfunc="median", dropna=False)
    order = [entry.label for entry in experiment.samplers if entry.label in table.index]
    table = table.reindex(order)
    table.columns = [f"{time:g} s" for time in table.columns]
    return table.reset_index()


def write_report(experiment: Experiment, out: Path) -> Report:
    """Write traces, tables, figures and the report into the folder of the run."""
    traces, chains = collect(experiment, out)
    tables.write_table(traces, out / "traces.csv.gz")
    tables.write_table(chains, out / "chains.csv")
    _write_parquet(traces, out / "traces.parquet")

    metrics = [LOG_DENSITY, *experiment.metrics]
    present = [entry for entry in experiment.samplers if (traces["sampler"] == entry.label).any()]
    families = {"paper": [entry.label for entry in present if not entry.ours], "all": [e.label for e in present]}
    tests = {
        name: tables_of_tests(traces, metrics, list(experiment.times), labels)
        for name, labels in families.items()
        if len(labels) > 1
    }
    for name, (overall, pairs) in tests.items():
        tables.write_all(overall, out / "tables", f"friedman-{name}")
        tables.write_all(pairs, out / "tables", f"nemenyi-{name}")
    found = verdicts.judge(experiment, traces)
    tables.write_all(verdicts.to_table(found), out / "tables", "verdicts")
    arrived = arrivals(experiment, traces)
    tables.write_all(arrived, out / "tables", "arrivals")

    (out / "figures").mkdir(exist_ok=True)
    pictures = []
    for metric in metrics:
        for kind, draw in (("box", figures.box_plots), ("trace", figures.trace_plots)):
            path = f"figures/{kind}-{metric}.png"
            figures.save(draw(experiment, traces, metric), out / path)
            pictures.append((metric, kind, path))
    _page(experiment, traces, chains, tests, found, arrived, pictures).write(out)
    return Report(experiment, traces, found, arrived)


def _write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Parquet where pyarrow is installed; the CSV file says the same."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return
    table.to_parquet(path, index=False)


def _page(
    experiment: Experiment,
    traces: pd.DataFrame,
    chains: pd.DataFrame,
    tests: dict[str, tuple[pd.DataFrame, pd.DataFrame]],
    found: list[Verdict],
    arrived: pd.DataFrame,
    pictures: list[tuple[str, str, str]],
) -> tables.Page:
    page = tables.Page(experiment.title)
    num_data, num_starts, num_restarts = experiment.sizes
    page.paragraph(experiment.about)
    page.paragraph(
        f"Scale {experiment.scale}: {len(chains)} of {experiment.num_chains} chains; for each sampler {num_data} data "
        f"sets, {num_starts} sets of initial values, restarts: {num_restarts}. Times of comparison: "
        f"{', '.join(f'{time:g}' for time in experiment.times)} s of processor time on one core, compilation not "
        f"counted (in the paper {', '.join(f'{time:g}' for time in experiment.paper_times)} s, which the paper scale "
        f"divides by {SPEED_RATIO:g}). Seed {experiment.seed}; the seed of every chain is in chains.csv."
    )
    if found:
        page.heading("What the paper found, and what we found")
        page.paragraph(
            "For the pair that decides, p is that of Nemenyi's test and p of signs that of a sign test, both with "
            "Bonferroni's correction. Wins is the share of blocks (same data, initial values and restart) in which its "
            "first sampler is better, and the median difference is by how much its values exceed those of the second."
        )
        page.table(for_people(verdicts.to_table(found).drop(columns=["experiment"])))
    if _has_far_to_go(experiment):
        page.heading("How soon they arrive")
        page.paragraph(
            "A chain arrives when its relative log density first reaches the best median that a sampler of the paper "
            "has at the last time for the same data set, or comes near the truth, if that is sooner. Near the truth "
            f"means a relative log density of {NEAR_TRUTH:g} or more, and near the best as little below the best chain "
            "of all samplers with the same data. Both shares are those at the last time. Where the true log density is "
            "small, draws of the posterior come and go, so that there is also the share that was once near the truth. "
            f"{_SOONER}"
        )
        page.table(for_people(arrived.merge(speeds(chains), on="sampler")))
    else:
        page.heading("How fast they are")
        page.table(speeds(chains))
    for metric in dict.fromkeys(metric for metric, _, _ in pictures):
        page.heading(title_of(metric)[0].upper() + title_of(metric)[1:])
        page.paragraph("Medians over all chains:")
        page.table(medians(experiment, traces, metric))
        for of_metric, kind, path in pictures:
            if of_metric == metric:
                page.picture(path, f"{'Box plots' if kind == 'box' else 'Traces'} of the {title_of(metric)}")
    page.heading("Tests")
    page.paragraph(
        "Friedman's test over all samplers of a family, then Nemenyi's of all pairs with Bonferroni's correction; "
        f"both at p < {LEVEL:g}. The family of the paper has the samplers of the paper only. All p values are in "
        "tables/. Chi-square is the statistic of Friedman's test."
    )
    for name, (overall, pairs) in tests.items():
        page.paragraph(f"Family: {name}. Mean ranks, 1 is best:")
        page.table(for_people(overall))
        significant = pairs[pairs["significant"]]
        if len(significant):
            page.paragraph(
                "Pairs that differ. The difference of mean ranks is above 0 where a is better than b, the median "
                "difference is by how much the values of a are above those of b, and wins is the share of blocks in "
                "which a is better."
            )
            page.table(for_people(significant.drop(columns=["significant", "p_uncorrected", "p_sign"])))
        else:
            page.paragraph("No pair differs significantly.")
    return page


def write_summary(reports: list[Report], out: Path) -> None:
    """One page over all experiments of a folder: verdicts, arrivals and links."""
    page = tables.Page("All experiments")
    table = verdicts.to_table([verdict for report in reports for verdict in report.verdicts])
    counts = table["verdict"].value_counts()
    page.paragraph("; ".join(f"{verdict}: {count}" for verdict, count in counts.items()) or "No findings.")
    page.links({f"{report.experiment.name}/report": report.experiment.name for report in reports})
    compared = [report for report in reports if _compares_kinds(report.experiment)]
    if compared:
        picture = figures.arrival_plots([(report.experiment, report.traces) for report in compared], NEAR_TRUTH)
        figures.save(picture, out / "arrivals.png")
        page.picture("arrivals.png", "Relative log density of all chains over time")
    page.heading("Verdicts")
    page.table(for_people(table))
    tables.write_all(table, out / "tables", "verdicts")
    arrived = []
    for report in reports:
        named = report.arrivals.copy()
        named.insert(0, "experiment", report.experiment.name)
        arrived.append(named)
    together = pd.concat(arrived, ignore_index=True)
    tables.write_all(together, out / "tables", "arrivals")
    far = [report.experiment.name for report in reports if _has_far_to_go(report.experiment)]
    if far:
        page.heading("How soon they arrive")
        page.paragraph(_SOONER)
        page.table(for_people(together[together["experiment"].isin(far)]))
    page.write(out)


def for_people(table: pd.DataFrame) -> pd.DataFrame:
    """The table with names of columns and metrics in plain words."""
    named = table.rename(columns=_FOR_PEOPLE)
    if "metric" in named.columns:
        named["metric"] = named["metric"].map(title_of)
    return named


def _has_far_to_go(experiment: Experiment) -> bool:
    """Whether chains start anywhere but at the truth, where all of them would have arrived."""
    return bool(experiment.initial.get("from") != "truth")


def _compares_kinds(experiment: Experiment) -> bool:
    """Whether several kinds of samplers stand beside the default of pgfa; other experiments tune one kind."""
    kinds = {entry.name for entry in experiment.samplers if not entry.ours}
    return len(kinds) > 1 and any(entry.name == "default" for entry in experiment.samplers)
