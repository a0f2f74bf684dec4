"""What `check_model` found."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pandas as pd


class CheckFailed(AssertionError):
    """A model that did not pass `check_model`; the message is the report."""


@dataclass(frozen=True)
class Check:
    """One test of a model.

    Attributes
    ----------
    name
        What was tested.
    outcome
        ``"passed"``, ``"failed"`` or ``"skipped"``.
    p_value
        Of a statistical test, corrected for the number of quantities that it looks at.
    words
        What holds, what is wrong, or why it could not be tested.
    """

    name: str
    outcome: str
    p_value: float | None
    words: str


@dataclass(frozen=True, repr=False)
class ModelReport:
    """The tests of a model and what came of them. Prints as a table, in colour with `rich.print`.

    Attributes
    ----------
    model
        The model, in words.
    checks
        All tests, in the order in which they were run.
    seconds
        How long they took.
    """

    model: str
    checks: tuple[Check, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no test failed. Those that were skipped are not counted: see `skipped`."""
        return not self.failed

    @property
    def failed(self) -> tuple[Check, ...]:
        """The tests that failed."""
        return tuple(check for check in self.checks if check.outcome == "failed")

    @property
    def skipped(self) -> tuple[Check, ...]:
        """The tests that could not be run."""
        return tuple(check for check in self.checks if check.outcome == "skipped")

    def to_frame(self) -> pd.DataFrame:
        """The tests as a table, indexed by their names."""
        columns = ["outcome", "p_value", "words"]
        rows = {check.name: [check.outcome, check.p_value, check.words] for check in self.checks}
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    @property
    def verdict(self) -> str:
        """The outcome in one sentence."""
        if self.failed:
            return f"{self.model} failed: " + ", ".join(check.name for check in self.failed)
        rest = f"; {len(self.skipped)} tests could not be run, see above" if self.skipped else ""
        return f"{self.model} passed in {self.seconds:.0f} s{rest}"

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for heading, options in (("test", {}), ("outcome", {}), ("p", {"justify": "right"}), ("", {"ratio": 1})):
            table.add_column(heading, **options)  # type: ignore[arg-type]
        colours = {"passed": "green", "failed": "bold red", "skipped": "yellow"}
        for check in self.checks:
            p_value = "" if check.p_value is None else f"{check.p_value:.2g}"
            outcome = f"[{colours[check.outcome]}]{check.outcome}[/]"
            table.add_row(escape(check.name), outcome, p_value, escape(check.words))
        return Group(table, escape(self.verdict))

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=140, no_color=True, highlight=False).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def __repr__(self) -> str:
        return f"<ModelReport: {self.verdict}>"
