"""The demonstration: features in the protein levels of mice, two chains, held-out entries, pictures and tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pgfa import plots
from pgfa.datasets import Dataset, load_mice_protein
from pgfa.inference import Chain
from pgfa.metrics import b_cubed, rmse
from pgfa.models import LinearGaussian
from pgfa.preprocessing import standardise
from pgfa.priors import BetaBernoulli
from pgfa.state import State, select_features

NUM_FEATURES = 10
NUM_CHAINS = 2
HELD_OUT = 0.05
FIRST_POWER = 0.3

#: For each property of the design, the level whose share among the owners of a feature is shown.
SHOWN_LEVELS = {"genotype": "Ts65Dn", "treatment": "Memantine", "behaviour": "C/S"}

#: How to read the names of the classes.
CLASS_NAMES = "control or trisomic - behaviour - memantine or saline"


@dataclass
class ChainRecord:
    """What is kept of one chain: its trace, its best draw, and the mean of the data over the draws after warm-up."""

    label: str
    log_density: list[float] = field(default_factory=list)
    num_features: list[int] = field(default_factory=list)
    power: list[float] = field(default_factory=list)
    best: State | None = None
    best_log_density: float = -np.inf
    num_draws: int = 0
    sum_of_means: NDArray[np.float64] | float = 0.0

    @property
    def mean(self) -> NDArray[np.float64]:
        return np.asarray(self.sum_of_means / self.num_draws)


def run_demo(out: Path, *, seed: int, iterations: int, console: Console | None = None) -> None:
    """Fit, report on the console, and write pictures and tables to the folder `out`."""
    console = console or Console()
    out.mkdir(parents=True, exist_ok=True)
    mice = load_mice_protein()
    full = standardise(mice.data)
    rng = np.random.default_rng(seed)
    held_out = choose_held_out(full.to_numpy(), HELD_OUT, rng)
    model = LinearGaussian(full.mask(held_out), intercept=True)

    console.print(f"[bold]{escape(mice.description)}[/bold]")
    console.print(f"{escape(mice.credit)} ({mice.licence})\n")
    console.print(
        f"{model.num_rows} rows, {model.num_columns} columns, {int(full.isna().to_numpy().sum())} entries missing, "
        f"another {int(held_out.sum())} held out. Columns are standardised."
    )
    console.print(
        f"{NUM_CHAINS} chains of {iterations} iterations, linear Gaussian model with {NUM_FEATURES} features, discrete "
        "particle filter. The first iteration compiles, which takes a while once.\n"
    )

    seeds = np.random.SeedSequence(seed).spawn(NUM_CHAINS)
    with reporting(console, NUM_CHAINS * iterations) as report:
        records = [
            run_chain(f"chain {i + 1}", model, iterations, np.random.default_rng(seeds[i]), report)
            for i in range(NUM_CHAINS)
        ]

    best = max(records, key=lambda record: record.best_log_density).best
    assert best is not None
    best = order_by_owners(best)
    chains = compare_chains(records, full.to_numpy(), held_out, best, warmup=iterations // 3)
    features = describe_features(best, mice)
    print_chains(console, chains)
    print_features(console, features, mice)
    written = write_results(out, records, chains, features, best, mice, warmup=iterations // 3)
    console.print("\nWritten to " + escape(str(out)) + ": " + ", ".join(written))


def choose_held_out(X: NDArray[np.float64], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A share of the observed entries, chosen uniformly at random."""
    observed = np.flatnonzero(~np.isnan(X))
    held_out = np.zeros(X.shape, dtype=bool)
    held_out.flat[rng.choice(observed, size=round(share * observed.size), replace=False)] = True
    return held_out


# --- chains ---------------------------------------------------------------------------------------------------------


class Report(Protocol):
    def __call__(self, label: str, iteration: int, log_density: float) -> None: ...


@contextmanager
def reporting(console: Console, total: int) -> Iterator[Report]:
    """A progress bar on a terminal, a line every tenth of the way elsewhere."""
    done = 0
    if not console.is_terminal:

        def write_line(label: str, iteration: int, log_density: float) -> None:
            nonlocal done
            done += 1
            if done * 10 // total > (done - 1) * 10 // total:
                console.print(f"{label}, iteration {iteration}: log density {log_density:.1f}")

        yield write_line
        return

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("compiling", total=total)

        def move_bar(label: str, iteration: int, log_density: float) -> None:
            progress.update(task, advance=1, description=f"{label}, log density {log_density:.1f}")

        yield move_bar


def run_chain(
    label: str, model: LinearGaussian, iterations: int, rng: np.random.Generator, report: Report
) -> ChainRecord:
    """One chain whose first third is annealed: the likelihood counts with a power that grows to one."""
    warmup = iterations // 3
    prior = BetaBernoulli(NUM_FEATURES)
    chain = Chain(model, prior, seed=rng, state=make_neutral_state(model, rng))
    record = ChainRecord(label)
    for i in range(iterations):
        power = min(1.0, FIRST_POWER + (1.0 - FIRST_POWER) * (i + 1) / warmup)
        chain.step(warmup=i < warmup, power=power)
        log_density = chain.log_density()
        state = chain.state
        record.log_density.append(log_density)
        record.num_features.append(int(state.Z.any(axis=0).sum()))
        record.power.append(power)
        if i >= warmup:
            record.num_draws += 1
            record.sum_of_means = record.sum_of_means + model.mean(state)
            if log_density > record.best_log_density:
                record.best, record.best_log_density = state, log_density
        report(label, i + 1, log_density)
    return record


def make_neutral_state(model: LinearGaussian, rng: np.random.Generator) -> State:
    """Random owners of features that have no effect yet.

    From a draw of the prior, whose features point anywhere in 77 dimensions, every row would begin by giving all of
    them up. Here the values of the features are learnt before any row has to decide.
    """
    Z = (rng.random((model.num_rows, NUM_FEATURES)) < 0.5).astype(np.uint8)
    parameters = {"V": np.zeros((NUM_FEATURES, model.num_columns)), "tau_v": 1.0, "tau_x": 1.0}
    parameters["intercept"] = np.zeros(model.num_columns)
    return State(Z, float(NUM_FEATURES), parameters)


def order_by_owners(state: State) -> State:
    """The features in use, the most common one first."""
    owners = state.Z.sum(axis=0, dtype=np.int64)
    order = np.argsort(-owners, kind="stable")
    return select_features(state, LinearGaussian.feature_axes, order[owners[order] > 0])


# --- tables ---------------------------------------------------------------------------------------------------------


def compare_chains(
    records: list[ChainRecord], full: NDArray[np.float64], held_out: NDArray[np.bool_], best: State, *, warmup: int
) -> pd.DataFrame:
    """For each chain its log density, features and error on held-out entries; then both together, then column means."""
    rows = []
    for record in records:
        assert record.best is not None
        kept = np.array(record.log_density[warmup:])
        rows.append(
            {
                "estimate": record.label,
                "log_density": kept.mean(),
                "log_density_sd": kept.std(),
                "num_features": np.mean(record.num_features[warmup:]),
                "b_cubed_with_best": b_cubed(best.Z, record.best.Z).f,
                "rmse": rmse(full, record.mean, held_out),
            }
        )
    together = np.mean([record.mean for record in records], axis=0)
    column_means = np.broadcast_to(np.nanmean(np.where(held_out, np.nan, full), axis=0), full.shape)
    rows.append({"estimate": "both chains", "rmse": rmse(full, together, held_out)})
    rows.append({"estimate": "column means", "rmse": rmse(full, column_means, held_out)})
    return pd.DataFrame(rows)


def describe_features(state: State, mice: Dataset, num_proteins: int = 5) -> pd.DataFrame:
    """For each feature its owners, the share of each class among them, and the proteins that it moves most."""
    V = state.parameters["V"]
    rows = []
    for k, name in enumerate(plots.feature_names(state.num_features)):
        mine = state.Z[:, k] == 1
        row: dict[str, object] = {"feature": name, "owners": int(mine.sum())}
        for kind, level in SHOWN_LEVELS.items():
            row[f"share_{level}"] = float((mice.design[kind][mine] == level).mean())
        for label in sorted(mice.design["class"].unique()):
            row[f"share_{label}"] = float((mice.design["class"][mine] == label).mean())
        top = np.argsort(-np.abs(V[k]))[:num_proteins]
        row["proteins"] = " ".join(f"{'+' if V[k, d] > 0 else '-'}{mice.data.columns[d]}" for d in top)
        rows.append(row)
    return pd.DataFrame(rows)


def print_chains(console: Console, chains: pd.DataFrame) -> None:
    table = Table(title="Do the chains agree, and what do they predict?", title_justify="left")
    table.add_column("")
    for heading in ("log density", "features", "B-Cubed F with best draw", "RMSE of held-out entries"):
        table.add_column(heading, justify="right")
    for row in chains.itertuples():
        is_chain = str(row.estimate).startswith("chain")
        table.add_row(
            escape(str(row.estimate)),
            f"{row.log_density:.0f} ± {row.log_density_sd:.0f}" if is_chain else "",
            f"{row.num_features:.1f}" if is_chain else "",
            f"{row.b_cubed_with_best:.2f}" if is_chain else "",
            f"{row.rmse:.3f}",
        )
    console.print(table)
    per_chain = chains.dropna(subset=["log_density"])
    apart = per_chain["log_density"].max() - per_chain["log_density"].min()
    if apart > 3.0 * per_chain["log_density_sd"].max():
        console.print("The chains have settled in different places: each is one explanation of the data among several.")
    console.print()


def print_features(console: Console, features: pd.DataFrame, mice: Dataset) -> None:
    table = Table(title="Features of the best draw, and who owns them", title_justify="left")
    table.add_column("")
    table.add_column("owners", justify="right")
    base_rates = {}
    for kind, level in SHOWN_LEVELS.items():
        table.add_column(level, justify="right")
        base_rates[level] = float((mice.design[kind] == level).mean())
    table.add_column("proteins it moves most")
    table.add_row("all", str(len(mice.data)), *(f"{rate:.0%}" for rate in base_rates.values()), "", end_section=True)
    for row in features.to_dict("records"):
        shares = [_show_share(row[f"share_{level}"], rate) for level, rate in base_rates.items()]
        table.add_row(str(row["feature"]), str(row["owners"]), *shares, escape(str(row["proteins"])))
    console.print(table)
    console.print("Shares are among the owners; ▲ and ▼ mark those that differ from all rows by more than 15 points.")


def _show_share(share: float, base_rate: float) -> str:
    if abs(share - base_rate) <= 0.15:
        return f"{share:.0%}"
    return f"[bold red]▲ {share:.0%}[/]" if share > base_rate else f"[bold blue]▼ {share:.0%}[/]"


def write_results(
    out: Path,
    records: list[ChainRecord],
    chains: pd.DataFrame,
    features: pd.DataFrame,
    best: State,
    mice: Dataset,
    *,
    warmup: int,
) -> list[str]:
    """Write tables and pictures; returns the names of the files."""
    names = plots.feature_names(best.num_features)
    trace = pd.concat(
        pd.DataFrame(
            {
                "chain": record.label,
                "iteration": np.arange(1, len(record.log_density) + 1),
                "power": record.power,
                "log_density": record.log_density,
                "num_features": record.num_features,
            }
        )
        for record in records
    )
    tables = {
        "chains": chains,
        "features": features,
        "trace": trace,
        "allocation": pd.DataFrame(best.Z, index=mice.data.index, columns=names).reset_index(),
        "loadings": pd.DataFrame(best.parameters["V"].T, index=mice.data.columns, columns=names)
        .rename_axis("protein")
        .reset_index(),
    }
    figures = {
        "trace": plots.trace({record.label: record.log_density for record in records}, warmup=warmup),
        "allocation": plots.allocation(best.Z, mice.design["class"], title=f"Who owns which feature\n({CLASS_NAMES})"),
        "loadings": plots.loadings(
            best.parameters["V"],
            mice.data.columns,
            title="What each feature adds to the level of each protein",
            unit="standard deviations",
        ),
    }
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
    for name, figure in figures.items():
        figure.savefig(out / f"{name}.png", dpi=150)
    return [f"{name}.csv" for name in tables] + [f"{name}.png" for name in figures]
