"""Which samplers differ: Friedman's test over all of them, then Nemenyi's over all pairs."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from pgfa.experiments.scores import higher_is_better

#: Below this p value the paper calls a difference significant.
LEVEL = 0.001

#: What a block is: chains of different samplers in it have data and initial values in common.
BLOCK = ["data", "start", "restart"]


class Friedman(NamedTuple):
    """Friedman's test, corrected for ties.

    Attributes
    ----------
    num_blocks
        Number of blocks that every sampler has a value in.
    mean_ranks
        For each sampler; 1 is best.
    statistic, p
        Chi-square statistic and p value; NaN and 1 where there is nothing to compare.
    """

    num_blocks: int
    mean_ranks: pd.Series
    statistic: float
    p: float


def blocks_of(traces: pd.DataFrame, metric: str, time: float, samplers: list[str]) -> pd.DataFrame:
    """Values at a time with a row for each block that is complete and a column for each sampler."""
    at_time = traces[np.isclose(traces["time"], time, rtol=1e-9) & traces["sampler"].isin(samplers)]
    table = at_time.pivot(index=BLOCK, columns="sampler", values=metric)
    return table.reindex(columns=samplers).dropna()


def rank(values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Ranks within each block: 1 is best, ties share the mean of their ranks."""
    return values.rank(axis=1, ascending=not higher_is_better(metric))


def friedman(values: pd.DataFrame, metric: str) -> Friedman:
    """Whether any of the samplers differs from the others."""
    mean_ranks = rank(values, metric).mean()
    num_blocks, num_samplers = values.shape
    if num_blocks < 2 or num_samplers < 2:
        return Friedman(num_blocks, mean_ranks, float("nan"), 1.0)
    statistic, p = _friedman_statistic(rank(values, metric).to_numpy())
    return Friedman(num_blocks, mean_ranks, statistic, p)


def _friedman_statistic(ranks: NDArray[np.float64]) -> tuple[float, float]:
    """As in scipy, but also for two samplers (a sign test in disguise) and for blocks in which all are equal."""
    n, k = ranks.shape
    squares = n * float(np.sum((ranks.mean(axis=0) - 0.5 * (k + 1)) ** 2))
    spread = float(np.sum((ranks - 0.5 * (k + 1)) ** 2)) / (n * (k - 1))
    if spread == 0.0:
        return float("nan"), 1.0
    statistic = squares / spread
    return statistic, float(stats.chi2.sf(statistic, k - 1))


def nemenyi(values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """P values of Nemenyi's test with Bonferroni's correction, for all pairs: columns a, b, p, p_uncorrected, ...

    Nemenyi's test already takes into account that all pairs are compared. The paper corrects once more, by the number
    of pairs, and so do we: `p` is the corrected value, `p_uncorrected` Nemenyi's own.

    `p_sign` is that of an exact sign test of the pair, with the same correction. Nemenyi's test judges a pair by ranks
    among all samplers, so that neighbours differ by one rank at most however clear the difference is; with few blocks
    it cannot tell them apart, and the sign test can.

    Columns `rank_difference` (of the mean ranks, positive where a is better), `median_difference` (of a over b, in
    units of the metric) and `wins` (share of the blocks in which a is better than b, ties counting one half) tell how
    much.
    """
    samplers = list(values.columns)
    ranks = rank(values, metric)
    mean_ranks = ranks.mean()
    sign = 1.0 if higher_is_better(metric) else -1.0
    p_values = _nemenyi_p_values(ranks)
    pairs = list(combinations(samplers, 2))
    rows: list[dict[str, Any]] = []
    for a, b in pairs:
        gain = sign * (values[a] - values[b])
        p = float(p_values.at[a, b])  # type: ignore[arg-type]
        rows.append(
            {
                "a": a,
                "b": b,
                "p": min(1.0, p * len(pairs)),
                "p_uncorrected": p,
                "p_sign": min(1.0, _sign_test(int(np.sum(gain > 0)), int(np.sum(gain < 0))) * len(pairs)),
                "rank_difference": float(mean_ranks[b] - mean_ranks[a]),
                "median_difference": float((values[a] - values[b]).median()),
                "wins": float(np.mean(gain > 0) + 0.5 * np.mean(gain == 0)) if len(gain) else float("nan"),
            }
        )
    columns = ["a", "b", "p", "p_uncorrected", "p_sign", "rank_difference", "median_difference", "wins"]
    return pd.DataFrame(rows, columns=columns)


def _sign_test(wins: int, losses: int) -> float:
    return float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def _nemenyi_p_values(ranks: pd.DataFrame) -> pd.DataFrame:
    if ranks.shape[0] < 2 or ranks.shape[1] < 2:
        return pd.DataFrame(1.0, index=ranks.columns, columns=ranks.columns)
    try:
        import scikit_posthocs
    except ImportError:
        raise ImportError("the tests of experiments need scikit-posthocs: pip install 'pgfa[experiments]'") from None
    # Ranks have the ranks that the values had, and no metric for which less is better.
    found = scikit_posthocs.posthoc_nemenyi_friedman(ranks.to_numpy())
    found.index = found.columns = ranks.columns
    return found.clip(0.0, 1.0).fillna(1.0)


def tables_of_tests(
    traces: pd.DataFrame, metrics: list[str], times: list[float], samplers: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Friedman's and Nemenyi's tests for each metric and time, as tidy tables."""
    overall, pairwise = [], []
    for metric in metrics:
        for time in times:
            values = blocks_of(traces, metric, time, samplers)
            found = friedman(values, metric)
            overall.append(
                {
                    "metric": metric,
                    "time": time,
                    "blocks": found.num_blocks,
                    "chi_square": found.statistic,
                    "p": found.p,
                }
                | {f"mean rank {label}": value for label, value in found.mean_ranks.items()}
            )
            pairs = nemenyi(values, metric)
            pairs.insert(0, "time", time)
            pairs.insert(0, "metric", metric)
            # The paper looks at pairs only where the test over all of them is significant.
            pairs["significant"] = (pairs["p"] < LEVEL) & (found.p < LEVEL)
            pairwise.append(pairs)
    return pd.DataFrame(overall), pd.concat(pairwise, ignore_index=True)
