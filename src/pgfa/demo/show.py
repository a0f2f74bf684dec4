"""What all shows do alike: introduce the data, fit, and tell of the features by what is known of their owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pgfa.datasets import Dataset
from pgfa.inference.sampling import sample
from pgfa.io import write_table
from pgfa.models.base import Model
from pgfa.priors.base import Prior
from pgfa.report import Fit, Notes, make_fit, print_report, write_report
from pgfa.report.base import findings_of
from pgfa.report.text import plain, show

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_CHAINS = 2

#: Shares of a level among the owners that differ from those among all rows by more than this are marked.
_MARKED = 0.15


@dataclass
class Stage:
    """Where a show is given."""

    console: Console
    out: Path
    seed: int
    draws: int
    written: list[str] = field(default_factory=list)

    def say(self, text: str, style: str = "") -> None:
        self.console.print(plain(text), style=style)

    def introduce(self, data: Dataset) -> None:
        """What the data are, and whom they are owed to."""
        self.console.rule(show(data.description.split(":")[0]), align="left")
        self.say(data.description.split(": ", 1)[1][:1].upper() + data.description.split(": ", 1)[1][1:] + ".")
        self.say(f"{data.credit} ({data.licence}).", style="dim")

    def fit(self, model: Model, prior: Prior, *, row_name: str, warmup: float = 1.0, **options: Any) -> Fit:
        """Draw with two chains, warm-up given in units of the draws; tables and pictures are written."""
        self.say(f"{model!r}, prior {prior!r}, {NUM_CHAINS} chains.")
        tree = sample(
            model, prior, draws=self.draws, warmup=max(1, round(warmup * self.draws)), chains=NUM_CHAINS,
            seed=self.seed, check=False, **options,
        )  # fmt: skip
        fit = make_fit(tree, model, Notes(row_name=row_name))
        findings = findings_of(fit)
        self.written += write_report(fit, self.out, findings=findings)
        print_report(fit, self.console, findings=findings, brief=True)
        return fit

    def write(self, name: str, thing: pd.DataFrame | Figure) -> None:
        """Add a table or picture of this show alone."""
        if isinstance(thing, pd.DataFrame):
            write_table(thing, self.out / f"{name}.csv")
            self.written.append(f"{name}.csv")
        else:
            thing.savefig(self.out / f"{name}.png", dpi=150)
            if f"{name}.png" not in self.written:
                self.written.append(f"{name}.png")

    def compare(self, title: str, headings: list[str], rows: list[list[str]]) -> None:
        """A small table."""
        self.say(title, style="italic")
        table = Table()
        for i, heading in enumerate(headings):
            table.add_column(heading, justify="left" if i == 0 else "right")
        for row in rows:
            table.add_row(*map(plain, row))
        self.console.print(table)

    def tell_who_owns_what(self, fit: Fit, design: pd.DataFrame, levels: Mapping[str, str]) -> None:
        """For each feature the share of some groups among its owners, where the model saw none of these."""
        # The owners that the table of features counts: those in more than half of the draws.
        owners = (fit.summary.owners.to_numpy() > 0.5).astype(np.uint8)
        shares = shares_of_levels(owners, fit.summary.names, design, levels)
        self.say("Who the owners are, which the model was not told", style="italic")
        table = Table()
        table.add_column("")
        table.add_column("owners", justify="right")
        for level in levels.values():
            table.add_column(level, justify="right")
        everybody = shares.iloc[0]
        for row in shares.to_dict("records"):
            cells = [_share(row[level], everybody[level]) for level in levels.values()]
            table.add_row(str(row["feature"]), str(row["owners"]), *cells, end_section=row["feature"] == "all")
        self.console.print(table)
        self.say(f"▲ and ▼ mark shares that differ from those of all rows by more than {_MARKED * 100:.0f} points.")
        self.write("groups", shares)


def shares_of_levels(
    Z: NDArray[np.uint8], names: list[str], design: pd.DataFrame, levels: Mapping[str, str]
) -> pd.DataFrame:
    """For all rows and then for the owners of each feature their number and the share of each level; NaN of nobody."""
    rows = []
    for name, mine in [("all", np.ones(len(Z), dtype=bool)), *((name, Z[:, k] == 1) for k, name in enumerate(names))]:
        row: dict[str, Any] = {"feature": name, "owners": int(mine.sum())}
        for column, level in levels.items():
            row[level] = float((design[column].to_numpy()[mine] == level).mean()) if mine.any() else float("nan")
        rows.append(row)
    return pd.DataFrame(rows)


def _share(share: float, everybody: float) -> Text:
    if share != share:
        return Text("-")
    if abs(share - everybody) <= _MARKED:
        return Text(f"{share:.0%}")
    return Text(f"▲ {share:.0%}", "bold red") if share > everybody else Text(f"▼ {share:.0%}", "bold blue")


def choose_held_out(X: NDArray[np.float64], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A share of the observed entries, chosen uniformly at random."""
    observed = np.flatnonzero(~np.isnan(X))
    held_out = np.zeros(X.shape, dtype=bool)
    held_out.flat[rng.choice(observed, size=round(share * observed.size), replace=False)] = True
    return held_out
