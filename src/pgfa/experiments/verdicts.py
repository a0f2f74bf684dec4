"""What the paper found beside what we found: agrees, differs, or not decided at this scale.

Each finding of a definition lists checks, of which there are four kinds:

``better``
    Every one of `samplers` is better than every one of `than`, or, with `at_least`, so many of the pairs are.
``alike``
    No two of `samplers` differ.
``not-better``
    None of `samplers` is better than any of `than`.
``within``
    The metric of every chain of `samplers` lies between `low` and `high`.

Two samplers differ where Friedman's test over the paper's samplers and Nemenyi's of the pair are significant, as in the
paper. With fewer blocks than the paper has, Nemenyi's test hardly tells neighbours in rank apart, so there a
significant sign test of the pair is as good; and that a difference is not significant says little there, so samplers
count as alike only if neither wins much more often than the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pgfa.experiments.definition import LOG_DENSITY, Experiment, Finding
from pgfa.experiments.scores import title_of
from pgfa.experiments.statistics import LEVEL, tables_of_tests

AGREES, DIFFERS, OPEN, NOT_RUN = "agrees", "differs", "not decided at this scale", "not run"

#: Number of blocks of the paper: a difference that is not significant with so many contradicts one that was.
_BLOCKS_OF_PAPER = 80

#: With fewer, samplers count as alike only if neither wins in more than this share of the blocks,
_MOST_WINS = 0.75

#: and with fewer than these nothing is known of how alike they are.
_FEWEST_BLOCKS = 10


@dataclass(frozen=True)
class Verdict:
    """A finding with what became of it; `p`, `wins` and `where` are those of the pair that matters most."""

    experiment: str
    finding: str
    verdict: str
    p: float
    p_sign: float
    wins: float
    median_difference: float
    where: str


def times_of(experiment: Experiment, which: str) -> list[float]:
    """The times that a check looks at."""
    times = list(experiment.times)
    middle = len(times) // 2
    chosen = {"first": times[:1], "middle": times[middle : middle + 1], "last": times[-1:], "later": times[1:]}
    return chosen.get(which, times) or times[-1:]


def judge(experiment: Experiment, traces: pd.DataFrame) -> list[Verdict]:
    """A verdict on every finding of the experiment."""
    labels = [entry.label for entry in experiment.samplers if not entry.ours]
    present = [label for label in labels if (traces["sampler"] == label).any()]
    if len(present) < 1:
        return [_not_run(experiment, finding) for finding in experiment.findings]
    overall, pairs = tables_of_tests(traces, [LOG_DENSITY, *experiment.metrics], list(experiment.times), present)
    return [_judge_finding(experiment, finding, traces, overall, pairs) for finding in experiment.findings]


def _not_run(experiment: Experiment, finding: Finding) -> Verdict:
    return Verdict(experiment.name, finding.says, NOT_RUN, np.nan, np.nan, np.nan, np.nan, "")


def _judge_finding(
    experiment: Experiment, finding: Finding, traces: pd.DataFrame, overall: pd.DataFrame, pairs: pd.DataFrame
) -> Verdict:
    """The worst of its checks: one that differs makes the finding differ."""
    outcomes = []
    for check in finding.checks:
        needed = [*check["samplers"], *check.get("than", [])]
        if any(not (traces["sampler"] == label).any() for label in needed):
            return _not_run(experiment, finding)
        outcomes.append(_KINDS[check["kind"]](experiment, check, traces, overall, pairs))
    order = [DIFFERS, OPEN, AGREES]
    return min(outcomes, key=lambda outcome: order.index(outcome.verdict)).to_verdict(experiment, finding)


@dataclass(frozen=True)
class _Outcome:
    verdict: str
    p: float = float("nan")
    p_sign: float = float("nan")
    wins: float = float("nan")
    median_difference: float = float("nan")
    where: str = ""

    def to_verdict(self, experiment: Experiment, finding: Finding) -> Verdict:
        return Verdict(experiment.name, finding.says, **vars(self))


@dataclass(frozen=True)
class _Pair:
    """Two samplers at a time, from the point of view of the first."""

    a: str
    b: str
    time: float
    p: float
    p_sign: float
    significant: bool
    wins: float
    rank_difference: float
    median_difference: float
    num_blocks: int

    @property
    def differs(self) -> bool:
        return self.significant or (self.num_blocks < _BLOCKS_OF_PAPER and self.p_sign < LEVEL)

    @property
    def lead(self) -> float:
        """Positive where the first is better."""
        return self.rank_difference if self.significant else self.wins - 0.5

    @property
    def ahead(self) -> bool:
        return self.differs and self.lead > 0.0

    @property
    def behind(self) -> bool:
        return self.differs and self.lead < 0.0

    def is_decided(self, wins: float) -> bool:
        """Whether a difference that is not significant and shows in so many blocks is none."""
        return self.num_blocks >= _BLOCKS_OF_PAPER or (self.num_blocks >= _FEWEST_BLOCKS and wins <= _MOST_WINS)

    def outcome(self, verdict: str, metric: str) -> _Outcome:
        where = f"{self.a} against {self.b}, {title_of(metric)} at {self.time:g} s"
        return _Outcome(verdict, self.p, self.p_sign, self.wins, self.median_difference, where)


def _look_up(
    overall: pd.DataFrame, pairs: pd.DataFrame, metric: str, time: float, a: str, b: str
) -> _Pair:  # fmt: skip
    at = pairs[(pairs["metric"] == metric) & (pairs["time"] == time)]
    test = overall[(overall["metric"] == metric) & (overall["time"] == time)].iloc[0]
    num_blocks = int(test["blocks"])
    for first, second, sign in ((a, b, 1.0), (b, a, -1.0)):
        found = at[(at["a"] == first) & (at["b"] == second)]
        if len(found):
            row = found.iloc[0]
            wins = float(row["wins"]) if sign > 0 else 1.0 - float(row["wins"])
            differences = sign * float(row["rank_difference"]), sign * float(row["median_difference"])
            p_values = float(row["p"]), float(row["p_sign"])
            return _Pair(a, b, time, *p_values, bool(row["significant"]), wins, *differences, num_blocks)
    raise KeyError((a, b))


def _better(
    experiment: Experiment, check: dict[str, Any], traces: pd.DataFrame, overall: pd.DataFrame, pairs: pd.DataFrame
) -> _Outcome:
    metric = check.get("metric", LOG_DENSITY)
    outcomes = []
    for time in times_of(experiment, check.get("times", "last")):
        found = [
            _look_up(overall, pairs, metric, time, a, b) for a in check["samplers"] for b in check["than"]
        ]  # fmt: skip
        needed = min(int(check.get("at_least", len(found))), len(found))
        # The pair that makes the finding stand or fall: as many as are needed do at least as well.
        found.sort(key=lambda pair: (-pair.ahead, pair.behind, pair.p if pair.lead > 0 else 2.0 - pair.p))
        decisive = found[needed - 1]
        if decisive.ahead:
            verdict = AGREES
        elif decisive.behind or decisive.num_blocks >= _BLOCKS_OF_PAPER:
            verdict = DIFFERS
        else:
            verdict = OPEN
        outcomes.append(decisive.outcome(verdict, metric))
    return _worst(outcomes)


def _alike(
    experiment: Experiment, check: dict[str, Any], traces: pd.DataFrame, overall: pd.DataFrame, pairs: pd.DataFrame
) -> _Outcome:
    metric = check.get("metric", LOG_DENSITY)
    labels = check["samplers"]
    outcomes = []
    for time in times_of(experiment, check.get("times", "last")):
        found = [
            _look_up(overall, pairs, metric, time, a, b) for i, a in enumerate(labels) for b in labels[i + 1 :]
        ]  # fmt: skip
        furthest = min(found, key=lambda pair: (not pair.differs, -abs(pair.wins - 0.5), pair.p))
        if furthest.differs:
            verdict = DIFFERS
        else:
            verdict = AGREES if furthest.is_decided(0.5 + abs(furthest.wins - 0.5)) else OPEN
        outcomes.append(furthest.outcome(verdict, metric))
    return _worst(outcomes)


def _not_better(
    experiment: Experiment, check: dict[str, Any], traces: pd.DataFrame, overall: pd.DataFrame, pairs: pd.DataFrame
) -> _Outcome:
    metric = check.get("metric", LOG_DENSITY)
    outcomes = []
    for time in times_of(experiment, check.get("times", "last")):
        found = [
            _look_up(overall, pairs, metric, time, a, b) for a in check["samplers"] for b in check["than"]
        ]  # fmt: skip
        best = max(found, key=lambda pair: (pair.ahead, pair.wins, -pair.p))
        if best.ahead:
            verdict = DIFFERS
        else:
            verdict = AGREES if best.is_decided(best.wins) else OPEN
        outcomes.append(best.outcome(verdict, metric))
    return _worst(outcomes)


def _within(
    experiment: Experiment, check: dict[str, Any], traces: pd.DataFrame, overall: pd.DataFrame, pairs: pd.DataFrame
) -> _Outcome:
    metric = check.get("metric", LOG_DENSITY)
    times = times_of(experiment, check.get("times", "last"))
    at = traces[
        traces["sampler"].isin(check["samplers"]) & np.isclose(traces["time"].to_numpy()[:, None], times).any(1)
    ]
    values = at[metric]
    low, high = check.get("low", -np.inf), check.get("high", np.inf)
    inside = (values >= low - 1e-12) & (values <= high + 1e-12)
    where = (
        f"{title_of(metric)} of all chains of {', '.join(check['samplers'])}: {values.min():.3g} to {values.max():.3g}"
    )
    return _Outcome(AGREES if inside.all() else DIFFERS, wins=float(inside.mean()), where=where)


_KINDS: dict[str, Callable[..., _Outcome]] = {
    "better": _better,
    "alike": _alike,
    "not-better": _not_better,
    "within": _within,
}


def _worst(outcomes: list[_Outcome]) -> _Outcome:
    order = [DIFFERS, OPEN, AGREES]
    return min(outcomes, key=lambda outcome: order.index(outcome.verdict))


def to_table(verdicts: list[Verdict]) -> pd.DataFrame:
    """Verdicts as a table; `wins` is the share of blocks in which the first of the pair is better."""
    columns = ["experiment", "finding", "verdict", "p", "p_sign", "wins", "median_difference", "where"]
    return pd.DataFrame([vars(verdict) for verdict in verdicts], columns=columns)
