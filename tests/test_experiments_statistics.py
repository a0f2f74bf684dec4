"""Tests of samplers against published worked examples, verdicts on traces of which the truth is known, and tables."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pgfa.experiments import figures, report, tables, verdicts
from pgfa.experiments.definition import parse
from pgfa.experiments.scores import SCORES
from pgfa.experiments.statistics import blocks_of, friedman, nemenyi, tables_of_tests
from pgfa.experiments.task import grid
from pgfa.experiments.verdicts import AGREES, DIFFERS, NOT_RUN, OPEN

pytest.importorskip("scikit_posthocs")

# Demšar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7, table 6: areas under the curve
# of four variants of C4.5 on 14 data sets. In the last but one row the third and fourth agree in the digits printed,
# but the paper ranks the third before the fourth.
DEMSAR = pd.DataFrame(
    [
        [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)  # fmt: skip

# Hollander and Wolfe (1973), Nonparametric statistical methods, p. 140: seconds of 22 players to round first base in
# three ways; the example of R's friedman.test, which gives chi-square 11.143 and p = 0.003805.
ROUNDING = pd.DataFrame(
    [
        [5.40, 5.50, 5.55], [5.85, 5.70, 5.75], [5.20, 5.60, 5.50], [5.55, 5.50, 5.40], [5.90, 5.85, 5.70],
        [5.45, 5.55, 5.60], [5.40, 5.40, 5.35], [5.45, 5.50, 5.35], [5.25, 5.15, 5.00], [5.85, 5.80, 5.70],
        [5.25, 5.20, 5.10], [5.65, 5.55, 5.45], [5.60, 5.35, 5.45], [5.05, 5.00, 4.95], [5.50, 5.50, 5.40],
        [5.45, 5.55, 5.50], [5.55, 5.55, 5.35], [5.45, 5.50, 5.55], [5.50, 5.45, 5.25], [5.65, 5.60, 5.40],
        [5.70, 5.65, 5.55], [6.30, 6.30, 6.25],
    ],
    columns=["round out", "narrow angle", "wide angle"],
)  # fmt: skip

HIGHER, LOWER = "relative_log_density", "rmse_missing"


def test_friedman_on_demsars_example():
    found = friedman(DEMSAR, HIGHER)
    np.testing.assert_allclose(found.mean_ranks, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    n, k = DEMSAR.shape
    without_ties = 12 * n / (k * (k + 1)) * (np.sum(found.mean_ranks**2) - k * (k + 1) ** 2 / 4)
    assert without_ties == pytest.approx(9.28, abs=5e-3)
    expected = stats.friedmanchisquare(*DEMSAR.to_numpy().T)
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_nemenyi_on_demsars_example():
    """Critical differences 1.25 at 0.05 (nothing differs) and 1.12 at 0.10 (C4.5 is worse than +m and +m+cf)."""
    pairs = nemenyi(DEMSAR, HIGHER).set_index(["a", "b"])
    p = pairs["p_uncorrected"]
    assert (p > 0.05).all()
    assert set(p.index[p < 0.10]) == {("C4.5", "C4.5+m"), ("C4.5", "C4.5+m+cf")}
    np.testing.assert_allclose(pairs["p"], np.minimum(1.0, 6 * p))
    assert pairs.loc[("C4.5", "C4.5+m"), "rank_difference"] == pytest.approx(-1.143, abs=5e-4)
    assert pairs.loc[("C4.5", "C4.5+m"), "wins"] == pytest.approx((2 + 0.5 * 2) / 14)


@pytest.mark.parametrize(("level", "quantile"), [(0.05, 2.569), (0.10, 2.291)])
def test_nemenyis_p_values_are_those_of_demsars_table_of_quantiles(level, quantile):
    """Two of four samplers apart by just the critical difference."""
    from pgfa.experiments.statistics import _nemenyi_p_values

    num_blocks = 60
    needed = quantile * np.sqrt(4 * 5 / (6 * num_blocks))
    steps = round(needed * num_blocks / 2)
    ranks = np.tile([2.0, 3.0, 1.0, 4.0], (num_blocks, 1))
    ranks[: num_blocks // 2] = [3.0, 2.0, 4.0, 1.0]
    for i in range(steps):  # each move takes two from the difference of the sums of ranks of the first two
        ranks[i] = ranks[i][[1, 0, 2, 3]]
    table = pd.DataFrame(ranks, columns=list("abcd"))
    difference = abs(table["a"].mean() - table["b"].mean())
    p = _nemenyi_p_values(table).loc["a", "b"]
    expected = stats.studentized_range.sf(difference / np.sqrt(4 * 5 / (6 * num_blocks)) * np.sqrt(2), 4, np.inf)
    assert p == pytest.approx(expected)
    assert p == pytest.approx(level, rel=0.25)


def test_friedman_on_the_example_of_hollander_and_wolfe():
    found = friedman(ROUNDING, LOWER)
    assert found.statistic == pytest.approx(11.143, abs=5e-4)
    assert found.p == pytest.approx(0.003805, abs=5e-7)
    assert found.mean_ranks.idxmin() == "wide angle"
    pairs = nemenyi(ROUNDING, LOWER).set_index(["a", "b"])
    assert pairs.loc[("round out", "wide angle"), "rank_difference"] < 0
    assert pairs["p_uncorrected"].idxmin() == ("round out", "wide angle")


def test_less_is_better_where_less_is_better():
    values = pd.DataFrame({"a": np.arange(10.0), "b": np.arange(10.0) + 0.5})
    assert friedman(values, LOWER).mean_ranks["a"] == 1.0
    assert friedman(values, HIGHER).mean_ranks["a"] == 2.0
    assert nemenyi(values, LOWER)["wins"].item() == 1.0


def test_nothing_to_compare():
    same = pd.DataFrame(1.0, index=range(5), columns=["a", "b", "c"])
    assert friedman(same, HIGHER).p == 1.0
    assert (nemenyi(same, HIGHER)["p"] == 1.0).all()
    assert friedman(same.iloc[:1], HIGHER).p == 1.0
    assert (nemenyi(same.iloc[:0], HIGHER)["p"] == 1.0).all()


def test_scores_know_what_is_better():
    assert {name for name, score in SCORES.items() if not score.higher_is_better} == {
        "rmse_missing",
        "reconstruction_error",
    }


# --- verdicts ---------------------------------------------------------------------------------------------------------

DEFINITION = """
title = "Verdicts"
times = [100, 1000, 10000]
metrics = ["rmse_missing"]
[data]
simulation = "linear-gaussian"
num_rows = 10
num_columns = 2
[prior]
name = "IndianBuffet"
"""
LABELS = ("A", "B", "C", "Ours")


def experiment_with(*checks: str, scale: str = "paper"):
    samplers = "".join(
        f'[[samplers]]\nlabel = "{label}"\nname = "Gibbs"\nours = {str(label == "Ours").lower()}\n' for label in LABELS
    )
    findings = "".join(f'[[findings]]\nsays = "{i}"\nchecks = [{check}]\n' for i, check in enumerate(checks))
    return parse(DEFINITION + samplers + findings, source="v.toml", name="v").at_scale(scale)


def make_traces(experiment, levels: dict[str, list[float]], noise: float = 0.1, seed: int = 1) -> pd.DataFrame:
    """Traces of which the relative log density is around a level for each sampler and time, RMSE its opposite."""
    rng = np.random.default_rng(seed)
    num_data, num_starts, num_restarts = experiment.sizes
    rows = []
    for label, of_times in levels.items():
        for block in np.ndindex(num_data, num_starts, num_restarts):
            for time in grid(experiment.times):
                level = of_times[int(np.searchsorted(experiment.times, time))]
                value = level + noise * rng.standard_normal()
                rows.append((label, *block, time, 1, value, 3, -value))
    names = ["sampler", "data", "start", "restart", "time", "iteration", HIGHER, "num_features", LOWER]
    return pd.DataFrame(rows, columns=names)


def judge(check: str, levels: dict[str, list[float]], scale: str = "paper", noise: float = 0.1) -> str:
    experiment = experiment_with(check, scale=scale)
    (verdict,) = verdicts.judge(experiment, make_traces(experiment, levels, noise))
    return verdict.verdict


FLAT = {"A": [0.0] * 3, "B": [0.0] * 3, "C": [0.0] * 3}
A_BEST = {"A": [1.0] * 3, "B": [0.0] * 3, "C": [0.0] * 3}
CROSSING = {"A": [-1.0, 0.0, 1.0], "B": [0.0] * 3, "C": [-2.0, -2.0, -2.0]}


@pytest.mark.parametrize(
    ("check", "levels", "expected"),
    [
        ('{kind="better", samplers=["A"], than=["B", "C"], times="all"}', A_BEST, AGREES),
        ('{kind="better", samplers=["B"], than=["A"]}', A_BEST, DIFFERS),
        ('{kind="better", samplers=["A", "B"], than=["C"]}', A_BEST, DIFFERS),
        ('{kind="better", samplers=["A", "B"], than=["C"], at_least=1}', A_BEST, AGREES),
        ('{kind="better", samplers=["A"], than=["B"]}', FLAT, DIFFERS),
        ('{kind="better", samplers=["A"], than=["B"], times="first"}', CROSSING, DIFFERS),
        ('{kind="better", samplers=["A"], than=["B"], times="last"}', CROSSING, AGREES),
        ('{kind="better", samplers=["B"], than=["A"], times="first"}', CROSSING, AGREES),
        ('{kind="better", samplers=["A"], than=["B"], metric="rmse_missing"}', A_BEST, AGREES),
        ('{kind="alike", samplers=["A", "B", "C"], times="all"}', FLAT, AGREES),
        ('{kind="alike", samplers=["A", "B", "C"]}', A_BEST, DIFFERS),
        ('{kind="alike", samplers=["B", "C"]}', A_BEST, AGREES),
        ('{kind="not-better", samplers=["B"], than=["A"]}', A_BEST, AGREES),
        ('{kind="not-better", samplers=["B"], than=["C"]}', A_BEST, AGREES),
        ('{kind="not-better", samplers=["A"], than=["B"]}', A_BEST, DIFFERS),
        ('{kind="within", samplers=["A"], low=0.0, high=2.0}', A_BEST, AGREES),
        ('{kind="within", samplers=["A"], low=1.0, high=2.0}', A_BEST, DIFFERS),
    ],
)
def test_verdicts_at_the_scale_of_the_paper(check, levels, expected):
    assert judge(check, levels) == expected


@pytest.mark.parametrize(
    ("check", "levels", "noise", "expected"),
    [
        ('{kind="better", samplers=["A"], than=["B"]}', A_BEST, 0.01, AGREES),
        ('{kind="better", samplers=["B"], than=["A"]}', A_BEST, 0.01, DIFFERS),
        ('{kind="better", samplers=["A"], than=["B"]}', A_BEST, 1.5, OPEN),
        ('{kind="better", samplers=["A"], than=["B"]}', FLAT, 0.1, OPEN),
        ('{kind="alike", samplers=["A", "B"]}', A_BEST, 1.0, OPEN),
        ('{kind="alike", samplers=["A", "B"]}', FLAT, 0.1, AGREES),
    ],
)
def test_sixteen_chains_leave_small_differences_open(check, levels, noise, expected):
    assert judge(check, levels, scale="laptop", noise=noise) == expected


IN_ORDER = {"A": [2.0] * 3, "B": [1.0] * 3, "C": [0.0] * 3}


def test_neighbours_in_rank_are_told_apart_by_signs():
    """A always beats B and B always C: with 16 blocks Nemenyi's test does not see it, for they are one rank apart."""
    check = '{kind="better", samplers=["A"], than=["B"]}'
    experiment = experiment_with(check, scale="laptop")
    (verdict,) = verdicts.judge(experiment, make_traces(experiment, IN_ORDER, noise=0.01))
    assert verdict.p > 0.01
    assert verdict.p_sign == pytest.approx(3 * 2 * 0.5**16)
    assert verdict.verdict == AGREES
    assert judge('{kind="better", samplers=["B"], than=["A"]}', IN_ORDER, scale="laptop", noise=0.01) == DIFFERS
    assert judge('{kind="alike", samplers=["A", "B"]}', IN_ORDER, scale="laptop", noise=0.01) == DIFFERS
    assert judge('{kind="not-better", samplers=["A"], than=["B"]}', IN_ORDER, scale="laptop", noise=0.01) == DIFFERS


def test_four_chains_decide_nothing():
    for check in ('{kind="alike", samplers=["A", "B"]}', '{kind="better", samplers=["A"], than=["B"]}'):
        assert judge(check, FLAT, scale="smoke") == OPEN
        assert judge(check, A_BEST, scale="smoke", noise=0.01) == OPEN


def test_verdicts_say_where_and_how_much():
    experiment = experiment_with('{kind="better", samplers=["A"], than=["B"], times="last"}')
    (verdict,) = verdicts.judge(experiment, make_traces(experiment, A_BEST))
    assert verdict.p < 0.001
    assert verdict.wins == 1.0
    assert verdict.median_difference == pytest.approx(1.0, abs=0.1)
    assert verdict.where == "A against B, relative log density at 100 s"


def test_our_samplers_do_not_enter_the_family_of_the_paper():
    experiment = experiment_with('{kind="better", samplers=["A"], than=["B"]}')
    levels = A_BEST | {"Ours": [5.0] * 3}
    with_ours = verdicts.judge(experiment, make_traces(experiment, levels))
    without = verdicts.judge(experiment, make_traces(experiment, A_BEST))
    assert with_ours == without


def test_a_finding_on_samplers_that_were_not_run():
    experiment = experiment_with('{kind="better", samplers=["A"], than=["B"]}')
    traces = make_traces(experiment, A_BEST)
    assert verdicts.judge(experiment, traces[traces["sampler"] != "B"])[0].verdict == NOT_RUN
    assert verdicts.judge(experiment, traces[traces["sampler"] == "none"])[0].verdict == NOT_RUN


def test_the_worst_of_several_checks_counts():
    good, bad = '{kind="better", samplers=["A"], than=["B"]}', '{kind="better", samplers=["B"], than=["A"]}'
    assert judge(f"{good}, {bad}", A_BEST) == DIFFERS


def test_blocks_that_are_not_complete_do_not_count():
    experiment = experiment_with('{kind="alike", samplers=["A", "B"]}')
    traces = make_traces(experiment, FLAT)
    kept = traces[~((traces["sampler"] == "A") & (traces["data"] == 0))]
    assert len(blocks_of(kept, HIGHER, experiment.times[0], ["A", "B"])) == 60
    overall, pairs = tables_of_tests(kept, [HIGHER, LOWER], list(experiment.times), ["A", "B", "C"])
    assert (overall["blocks"] == 60).all()
    assert len(pairs) == 2 * 3 * 3


def test_arrivals_say_how_much_sooner():
    experiment = experiment_with('{kind="alike", samplers=["A", "B"]}')
    levels = {"A": [-2.0, -1.5, -1.0], "B": [-3.0] * 3, "Ours": [0.0] * 3}
    found = report.arrivals(experiment, make_traces(experiment, levels, noise=0.001)).set_index("sampler")
    assert found.loc["Ours", "share that arrives"] == 1.0
    assert found.loc["Ours", "median time of arrival"] == pytest.approx(grid(experiment.times)[0])
    assert found.loc["Ours", "sooner"] == pytest.approx(1000.0)
    assert found.loc["Ours", "share near the truth"] == found.loc["Ours", "share near the best"] == 1.0
    assert found.loc["Ours", "time until 90% near the truth"] == pytest.approx(grid(experiment.times)[0])
    assert found.loc["A", "share near the best"] == 0.0
    assert np.isnan(found.loc["A", "time until 90% near the truth"])
    assert found.loc["B", "share that arrives"] == 0.0
    assert np.isnan(found.loc["B", "sooner"])


def test_near_the_truth_is_as_good_as_it():
    experiment = experiment_with('{kind="alike", samplers=["A", "B"]}')
    levels = {"A": [-1.0, -1.0, 0.0], "B": [-1.0, -0.015, -0.015]}
    found = report.arrivals(experiment, make_traces(experiment, levels, noise=0.001)).set_index("sampler")
    assert found.loc["B", "share that arrives"] == 1.0
    assert found.loc["B", "median time of arrival"] < found.loc["A", "median time of arrival"]


def test_near_the_best_where_nobody_is_near_the_truth():
    experiment = experiment_with('{kind="alike", samplers=["A", "B"]}')
    levels = {"A": [-1.0, -0.5, -0.5], "B": [-1.0, -0.51, -0.51], "C": [-1.0, -0.6, -0.6]}
    found = report.arrivals(experiment, make_traces(experiment, levels, noise=0.001)).set_index("sampler")
    assert found["share near the truth"].tolist() == [0.0] * 3
    assert found["share near the best"].tolist() == [1.0, 1.0, 0.0]
    assert found["share once near the truth"].tolist() == [0.0] * 3


# --- tables and figures -----------------------------------------------------------------------------------------------


def summarise(experiment, folder):
    traces = make_traces(experiment, A_BEST | {"Ours": [0.0] * 3})
    found = verdicts.judge(experiment, traces)
    report.write_summary([report.Report(experiment, traces, found, report.arrivals(experiment, traces))], folder)
    return (folder / "report.md").read_text()


def test_the_summary_shows_the_chains_of_comparisons_with_our_default(tmp_path):
    experiment = experiment_with('{kind="better", samplers=["A"], than=["B"]}', scale="laptop")
    assert "arrivals.png" not in summarise(experiment, tmp_path)
    one_kind = [replace(e, name="default" if e.ours else "Gibbs") for e in experiment.samplers]
    assert "arrivals.png" not in summarise(replace(experiment, samplers=tuple(one_kind)), tmp_path)
    kinds = [replace(e, name="ParticleGibbs") if e.label == "B" else e for e in one_kind]
    assert "(arrivals.png)" in summarise(replace(experiment, samplers=tuple(kinds)), tmp_path)
    assert (tmp_path / "arrivals.png").read_bytes().startswith(b"\x89PNG")


def test_tables_are_escaped(tmp_path):
    table = pd.DataFrame({"a_b": ["<script>", "50% & $x$", "=1+1", "a|b"], "p": [1e-9, 0.5, np.nan, 2.0]})
    tables.write_all(table, tmp_path, "t")
    latex = (tmp_path / "t.tex").read_text()
    assert r"a\_b" in latex
    assert r"50\% \& \$x\$" in latex
    assert r"\textless{}script\textgreater{}" in latex
    html = (tmp_path / "t.html").read_text()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "'=1+1" in (tmp_path / "t.csv").read_text()
    assert r"a\|b" in tables.to_markdown(table)
    assert "&lt;script&gt;" in tables.to_markdown(table)
    assert pd.read_csv(tmp_path / "t.csv")["p"].tolist()[:2] == [1e-9, 0.5]


@pytest.mark.parametrize("decades", [0.4, 0.8, 1.2, 3.0])
def test_labels_of_times_do_not_overprint(decades):
    experiment = experiment_with('{kind="alike", samplers=["A", "B"]}')
    times = (0.02, 0.02 * 10 ** (decades / 2), 0.02 * 10**decades)
    experiment = replace(experiment, times=times)
    traces = make_traces(experiment, A_BEST | {"Ours": [0.0] * 3})
    traces = traces[traces["time"] >= times[0]]
    for figure in (
        figures.trace_plots(experiment, traces, LOWER),
        figures.arrival_plots([(experiment, traces)] * 3, -0.02),
    ):
        figure.draw_without_rendering()
        for axes in figure.axes[-3:]:
            low, high = axes.get_xlim()
            ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
            boxes = sorted(
                (tick.label1.get_window_extent().extents for tick in ticks
                 if tick.label1.get_text() and low <= tick.get_loc() <= high),
                key=lambda box: box[0],
            )  # fmt: skip
            assert len(boxes) >= 2
            assert all(left[2] < right[0] for left, right in pairwise(boxes))


def test_text_in_markdown_is_no_link_and_no_formula():
    text = "[a](http://b.c) ![d](e) $f$ `g` www.h.i"
    shown = tables.markdown_escape(text)
    assert shown == r"\[a\](http:\//b.c) !\[d\](e) \$f\$ \`g\` www\.h.i"
    assert r"\$f\$" in tables.to_markdown(pd.DataFrame({text: [text]}))


def test_pages_speak_in_plain_words(tmp_path):
    experiment = experiment_with('{kind="better", samplers=["A"], than=["B"]}')
    page = summarise(experiment, tmp_path)
    assert "p of signs" in page and "Times sooner is" in page
    assert not any(name in page for name in ("p_sign", "median_difference"))
    assert "How soon" not in summarise(replace(experiment, initial={"from": "truth"}), tmp_path)


def test_pages_are_escaped():
    page = tables.Page("<b>")
    page.paragraph("<i> & so on")
    page.heading("<u>")
    page.code("a < b")
    page.picture("figures/a.png", '"quoted"')
    assert "<i>" not in page.to_html()
    assert "<u>" not in page.to_html()
    assert "<b>" not in page.to_html()
    assert "&quot;quoted&quot;" in page.to_html()
    assert "<i>" not in page.to_markdown()


def test_figures_have_the_layout_of_the_paper():
    experiment = experiment_with('{kind="alike", samplers=["A", "B"]}')
    traces = make_traces(experiment, A_BEST | {"Ours": [5.0] * 3})
    boxes = figures.box_plots(experiment, traces, HIGHER)
    assert len(boxes.axes) == 3
    assert [label.get_text() for label in boxes.axes[0].get_xticklabels()] == list(LABELS)
    lines = figures.trace_plots(experiment, traces, LOWER)
    assert len(lines.axes) == 16
    assert len(lines.axes[0].collections) == 4  # a band over the restarts for each sampler
    laptop = experiment.at_scale("laptop")
    one = traces[traces["restart"] == 0]
    assert len(figures.trace_plots(laptop, one, LOWER).axes[0].collections) == 0
