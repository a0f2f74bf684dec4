"""Pictures of a comparison, in the layout of the paper: box plots at the times compared, and traces."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pgfa.experiments.definition import LOG_DENSITY, Experiment
from pgfa.experiments.scores import title_of
from pgfa.plots import COLOURS, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Where the relative log density turns from a linear to a logarithmic axis: within one percent of the truth it hardly
#: matters how far a chain is from it, and the worst chains are hundreds of times further away.
_LINEAR = 0.01

#: Enough for the longest comparison of the paper.
_PALETTE = (*COLOURS, "#882255", "#44AA99")
_OF_PAPER, _OURS = "0.6", COLOURS[1]


def save(figure: Figure, path: Path) -> None:
    """Write a PNG file with a palette of 64 colours, a quarter of the size: a report has many pictures."""
    from PIL import Image

    with BytesIO() as buffer:
        figure.savefig(buffer, format="png", dpi=130)
        with Image.open(buffer) as picture:
            picture.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


def box_plots(experiment: Experiment, traces: pd.DataFrame, metric: str) -> Figure:
    """The values of all chains at each of the times, one box a sampler."""
    from matplotlib.figure import Figure

    labels = _labels(experiment, traces)
    times = list(experiment.times)
    width = max(2.6, 0.42 * len(labels) + 0.8)
    figure = Figure(figsize=(width * len(times), 3.9), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(times), sharey=True))
    for axes, time in zip(panels, times):
        at = traces[np.isclose(traces["time"], time)]
        values = [at.loc[at["sampler"] == label, metric].dropna().to_numpy() for label in labels]
        boxes = axes.boxplot(
            values, widths=0.65, patch_artist=True, medianprops={"color": "black"},
            flierprops={"marker": ".", "markersize": 4, "markeredgecolor": "0.4"},
        )  # fmt: skip
        for box, colour in zip(boxes["boxes"], _colours(experiment, labels)):
            box.set(facecolor=colour, alpha=0.75)
        axes.set_xticks(np.arange(1, len(labels) + 1), [plain(label) for label in labels], rotation=60, ha="right")
        axes.set_title(f"{time:g} s", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        _mark_truth(axes, metric)
    _scale(panels[0], traces, metric)
    panels[0].set_ylabel(title_of(metric))
    figure.suptitle(plain(experiment.title), fontsize=11)
    return figure


def trace_plots(experiment: Experiment, traces: pd.DataFrame, metric: str) -> Figure:
    """Traces over time: a row for each data set, a column for each set of initial values, a band over the restarts."""
    from matplotlib.figure import Figure

    labels = _labels(experiment, traces)
    data_sets, starts = sorted(traces["data"].unique()), sorted(traces["start"].unique())
    size = (2.7 * len(starts) + 1.8, 2.0 * len(data_sets) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(data_sets), len(starts), sharex=True, sharey="row", squeeze=False)
    groups = dict(list(traces.groupby(["data", "start", "sampler"])))
    for row, data in zip(panels, data_sets):
        for axes, start in zip(row, starts):
            for label, colour, style in zip(labels, _colours(experiment, labels), _styles(experiment, labels)):
                if (data, start, label) in groups:
                    _draw_band(axes, groups[data, start, label], metric, colour, style, plain(label))
            for time in experiment.times:
                axes.axvline(time, color="0.85", linewidth=0.8, zorder=0)
            _scale_time(axes)
            _mark_truth(axes, metric)
            axes.spines[["top", "right"]].set_visible(False)
        _scale(row[0], traces[traces["data"] == data], metric)
        row[0].set_ylabel(f"data set {data + 1}", fontsize=9)
    for axes, start in zip(panels[0], starts):
        axes.set_title(f"initial values {start + 1}", fontsize=9)
    figure.supxlabel("processor time in seconds", fontsize=10)
    figure.supylabel(title_of(metric), fontsize=10)
    figure.suptitle(plain(experiment.title), fontsize=11)
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=9)
    return figure


def arrival_plots(compared: list[tuple[Experiment, pd.DataFrame]], near: float) -> Figure:
    """All chains of several comparisons over time: those of the paper's samplers, and over them those of our default.

    The band lies within `near` of the truth.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    num_columns = min(3, len(compared))
    num_rows = -(-len(compared) // num_columns)
    figure = Figure(figsize=(3.4 * num_columns, 2.3 * num_rows + 0.6), layout="constrained")
    panels = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    for axes in panels[len(compared) :]:
        axes.set_axis_off()
    for axes, (experiment, traces) in zip(panels, compared):
        ours = [entry.label for entry in experiment.samplers if entry.name == "default"]
        of_paper = [entry.label for entry in experiment.samplers if not entry.ours]
        for labels, colour, layer in ((of_paper, _OF_PAPER, 1), (ours, _OURS, 2)):
            shown = traces[traces["sampler"].isin(labels)]
            for _, chain in shown.groupby(["sampler", "data", "start", "restart"]):
                axes.plot(chain["time"], chain[LOG_DENSITY], color=colour, linewidth=0.8, alpha=0.6, zorder=layer)
        axes.axhspan(near, -near, color="0.9", linewidth=0, zorder=0)
        _mark_truth(axes, LOG_DENSITY)
        _scale_time(axes)
        _scale(axes, traces, LOG_DENSITY)
        axes.set_title(plain(experiment.name), fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    handles = [Line2D([], [], color=colour) for colour in (_OF_PAPER, _OURS)]
    names = ["samplers of the paper", "default of pgfa"]
    figure.legend(handles, names, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.supxlabel("processor time in seconds", fontsize=10)
    figure.supylabel(title_of(LOG_DENSITY), fontsize=10)
    return figure


def _draw_band(axes: Axes, chains: pd.DataFrame, metric: str, colour: str, style: str, label: str) -> None:
    """The median over the restarts, and where there are several, the range that they span."""
    over_restarts = chains.groupby("time")[metric]
    middle = over_restarts.median()
    axes.plot(middle.index, middle.to_numpy(), color=colour, linestyle=style, linewidth=1.3, label=label)
    if chains["restart"].nunique() > 1:
        axes.fill_between(middle.index, over_restarts.min(), over_restarts.max(), color=colour, alpha=0.18, linewidth=0)


def _labels(experiment: Experiment, traces: pd.DataFrame) -> list[str]:
    present = set(traces["sampler"])
    return [entry.label for entry in experiment.samplers if entry.label in present]


def _colours(experiment: Experiment, labels: list[str]) -> list[str]:
    """One colour a sampler, whichever others are shown."""
    order = [entry.label for entry in experiment.samplers]
    return [_PALETTE[order.index(label) % len(_PALETTE)] for label in labels]


def _styles(experiment: Experiment, labels: list[str]) -> list[str]:
    """Dashed for samplers that the paper does not have; dotted where colours come round again."""
    order = [entry.label for entry in experiment.samplers]
    ours = {entry.label for entry in experiment.samplers if entry.ours}
    again = {label for label in labels if order.index(label) >= len(_PALETTE)}
    return ["-." if label in again else "--" if label in ours else "-" for label in labels]


def _scale(axes: Axes, traces: pd.DataFrame, metric: str) -> None:
    """An axis on which both those near the truth and those far from it can be told apart."""
    if metric != LOG_DENSITY:
        return
    values = traces[metric].replace([np.inf, -np.inf], np.nan).dropna()
    if len(values) and values.abs().max() > 10 * _LINEAR:
        axes.set_yscale("symlog", linthresh=_LINEAR, linscale=0.6)
        axes.set_ylim(min(1.6 * values.min(), -_LINEAR), max(1.6 * values.max(), 2.0 * _LINEAR))
        axes.yaxis.set_major_formatter(_short_number)


def _scale_time(axes: Axes) -> None:
    """A logarithmic axis with few labels: those of its own between powers of ten overprint each other."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    first, last = axes.get_xlim()
    if last < 30.0 * first:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(_short_number)
    axes.xaxis.set_minor_formatter(NullFormatter())


def _mark_truth(axes: Axes, metric: str) -> None:
    if metric == LOG_DENSITY:
        axes.axhline(0.0, color="0.5", linewidth=0.8, zorder=0)


def _short_number(value: float, _: Any = None) -> str:
    return f"{value:g}"
