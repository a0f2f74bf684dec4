"""Reports on fits: tables and pictures in a folder, and what matters of them on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from rich.console import Console

from pgfa import plots
from pgfa.inference.diagnostics import diagnose
from pgfa.io import write_table
from pgfa.models.base import Model
from pgfa.report import linear_gaussian, overview, pyclone, relational  # noqa: F401  (models' parts register themselves)
from pgfa.report.base import Findings, Fit, Notes, file_names, findings_of
from pgfa.report.text import plain
from pgfa.summary import summarise

__all__ = ["Fit", "Notes", "file_names", "make_fit", "print_report", "write_report"]

_MOST_FEATURES_SHOWN = 20
_MOST_ROWS_ARRANGED = 20_000


def make_fit(
    tree: xr.DataTree, model: Model, notes: Notes | None = None, *, chains: Sequence[int] | None = None
) -> Fit:
    """Summarise draws; of some chains only, if these are given."""
    if chains is not None:
        tree = overview.restrict(tree, chains)
    return Fit(model, tree, summarise(tree), notes or Notes())


def write_report(fit: Fit, out: Path, *, findings: Findings | None = None) -> list[str]:
    """Write tables (CSV) and pictures (PNG) to a folder; returns the names of the files."""
    findings = findings or findings_of(fit)
    diagnostics = overview.with_labels(diagnose(fit.tree), list(fit.summary.owners.index))
    tables = {"diagnostics": diagnostics, **overview.common_tables(fit), **findings.tables}
    lp = np.asarray(fit.tree["sample_stats"].dataset["lp"])
    owners = fit.summary.owners
    figures = {
        "trace": plots.trace(
            {f"chain {chain}": lp[i] for i, chain in enumerate(fit.chains)},
            xlabel="draw",
            title="Log density of the draws",
        ),
        "owners": plots.allocation(
            owners.to_numpy(), row_labels=owners.index, arrange=len(owners) <= _MOST_ROWS_ARRANGED,
            title="Who owns which feature",
        ),
        **findings.figures,
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        write_table(table, out / f"{name}.csv")
    for name, figure in figures.items():
        figure.savefig(out / f"{name}.png", dpi=150)
    return [f"{name}.csv" for name in tables] + [f"{name}.png" for name in figures]


def print_report(fit: Fit, console: Console, *, findings: Findings | None = None, brief: bool = False) -> None:
    """Show what was found on a terminal; if `brief`, without the tables of diagnostics and chains."""
    findings = findings or findings_of(fit)
    diagnostics = diagnose(fit.tree)
    num_chains = len(fit.chains)
    if brief:
        console.print(overview.features_table(fit, findings, _MOST_FEATURES_SHOWN))
        said = overview.features_in_words(fit, _MOST_FEATURES_SHOWN)
        for sentence in [*said, overview.one_line_verdict(diagnostics, fit), *findings.sentences]:
            console.print(plain(sentence))
        return
    console.print(overview.diagnostics_table(diagnostics, num_chains))
    problems = overview.verdict(diagnostics, fit)
    for problem in problems:
        console.print(plain(problem), style="yellow")
    if not problems:
        console.print("The chains agree and are long enough.", style="green")
    console.print()
    console.print(overview.chains_table(fit))
    console.print()
    console.print(overview.features_table(fit, findings, _MOST_FEATURES_SHOWN))
    for sentence in overview.features_in_words(fit, _MOST_FEATURES_SHOWN) + findings.sentences:
        console.print(plain(sentence))
