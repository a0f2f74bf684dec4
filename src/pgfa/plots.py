"""Pictures of fits. Every function returns a matplotlib Figure that belongs to nobody else; save it with `savefig`.

Matplotlib is imported inside, so that nothing else pays for it. Labels are shown as they are: a dollar sign in a name
is a dollar sign, never the beginning of a formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Distinguishable also without colour vision (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#666666")


def plain(text: Any) -> str:
    """Text that matplotlib shows as it is."""
    return str(text).replace("$", r"\$")


def trace(values: Mapping[str, Any], *, ylabel: str = "log density", warmup: int = 0, title: str = "") -> Figure:
    """Values of one quantity over the iterations, a line for each chain.

    Parameters
    ----------
    values
        For each label a sequence with one value an iteration.
    warmup
        Number of iterations that are shaded as warm-up. The picture is scaled to what comes after them.

    Examples
    --------
    >>> from pgfa import plots
    >>> figure = plots.trace({"chain 1": [-9.0, -5.0, -4.0, -4.2]}, warmup=1)
    """
    from matplotlib.figure import Figure

    series = {label: np.asarray(line, dtype=float) for label, line in values.items()}
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.subplots()
    for line, colour in zip(series.values(), _cycle(len(series))):
        axes.plot(np.arange(1, line.size + 1), line, color=colour, linewidth=1.0)
    if warmup > 0:
        axes.axvspan(0, warmup, color="0.92", zorder=0, linewidth=0)
        axes.text(warmup / 2, 0.95, "warm-up", transform=axes.get_xaxis_transform(), ha="center", color="0.4")
    _scale_to([line[warmup:] for line in series.values()], axes)
    axes.set(xlabel="iteration", ylabel=plain(ylabel), title=plain(title))
    axes.margins(x=0.0)
    axes.ticklabel_format(style="plain", useOffset=False)
    axes.spines[["top", "right"]].set_visible(False)
    # Matplotlib leaves labels that begin with an underscore out of a legend.
    labels = [plain(f" {label}" if str(label).startswith("_") else label) for label in series]
    axes.legend(axes.lines[: len(series)], labels, frameon=False, loc="lower right")
    return figure


def allocation(
    Z: Any, groups: Iterable[Any] | None = None, *, feature_labels: Iterable[Any] | None = None, title: str = ""
) -> Figure:
    """The feature matrix: dark where a row owns a feature.

    Parameters
    ----------
    Z
        Binary matrix of shape (N, K), or probabilities of owning a feature.
    groups
        Group of each row. Rows are put in order of their group, and otherwise stay in the order they have.
    feature_labels
        Names of the features, "F1", "F2", ... unless given.

    Examples
    --------
    >>> import numpy as np
    >>> from pgfa import plots
    >>> figure = plots.allocation(np.eye(4, 3), groups=["b", "a", "b", "a"])
    """
    from matplotlib.figure import Figure

    matrix = np.asarray(Z, dtype=float)
    names = feature_names(matrix.shape[1]) if feature_labels is None else list(feature_labels)
    figure = Figure(figsize=(max(3.5, 0.42 * matrix.shape[1] + 1.8), 6.5), layout="constrained")
    axes = figure.subplots()
    order, bounds = np.arange(matrix.shape[0]), np.zeros(0)
    if groups is not None:
        labels, code = np.unique(np.asarray([str(group) for group in groups]), return_inverse=True)
        order = np.argsort(code, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(code))])
        axes.set_yticks(0.5 * (bounds[:-1] + bounds[1:]), [plain(label) for label in labels])
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_ylabel("row")
    width, height = max(matrix.shape[1], 1), max(matrix.shape[0], 1)
    if matrix.size:
        extent = (0.0, width, height, 0.0)
        axes.imshow(
            matrix[order], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest", extent=extent
        )
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_xticks(np.arange(matrix.shape[1]) + 0.5, [plain(name) for name in names], fontsize=8)
    axes.tick_params(axis="x", length=0)
    for k in range(1, matrix.shape[1]):
        axes.axvline(k, color="white", linewidth=1.5)
    for bound in bounds[1:-1]:
        axes.axhline(bound, color=COLOURS[1], linewidth=1.0)
    axes.set_title(plain(title), fontsize=10)
    return figure


def loadings(
    V: Any,
    column_labels: Iterable[Any] | None = None,
    *,
    feature_labels: Iterable[Any] | None = None,
    arrange: bool = True,
    title: str = "",
    unit: str = "value",
) -> Figure:
    """The values of the features: red where a feature raises a column of the data, blue where it lowers it.

    Parameters
    ----------
    V
        Matrix of shape (K, D).
    column_labels, feature_labels
        Names of the columns of the data and of the features.
    arrange
        Put columns that the features treat alike next to each other; otherwise they stay in the order they have.
    unit
        What the colours measure.

    Examples
    --------
    >>> import numpy as np
    >>> from pgfa import plots
    >>> figure = plots.loadings(np.random.default_rng(0).normal(size=(3, 5)), ["a", "b", "c", "$d", "e"])
    """
    from matplotlib.figure import Figure

    matrix = np.asarray(V, dtype=float)
    num_features, num_columns = matrix.shape
    names = feature_names(num_features) if feature_labels is None else list(feature_labels)
    columns = np.arange(num_columns) if column_labels is None else np.asarray([str(label) for label in column_labels])
    order = _similar_together(matrix.T) if arrange else np.arange(num_columns)
    size = (max(4.0, 0.15 * num_columns + 1.6), max(2.2, 0.3 * num_features + 1.4))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    largest = float(np.abs(matrix).max(initial=0.0)) or 1.0
    if matrix.size:
        image = axes.imshow(matrix[:, order], cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
        figure.colorbar(image, ax=axes, pad=0.01, aspect=15, label=plain(unit))
    axes.set_yticks(np.arange(num_features), [plain(name) for name in names], fontsize=8)
    axes.set_xticks(np.arange(num_columns), [plain(columns[d]) for d in order], rotation=90, fontsize=7)
    axes.tick_params(length=0)
    axes.set_title(plain(title), fontsize=10)
    return figure


def feature_names(num_features: int) -> list[str]:
    """F1, F2, ..."""
    return [f"F{k}" for k in range(1, num_features + 1)]


def _cycle(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def _scale_to(lines: list[NDArray[np.float64]], axes: Axes) -> None:
    """Choose the vertical range by these values, so that a steep beginning does not flatten all that follows."""
    values = np.concatenate(lines) if lines else np.empty(0)
    values = values[np.isfinite(values)]
    if values.size:
        low, high = float(values.min()), float(values.max())
        margin = 0.15 * (high - low) or max(1.0, 0.01 * abs(high))
        axes.set_ylim(low - margin, high + margin)


def _similar_together(vectors: NDArray[np.float64]) -> NDArray[np.intp]:
    """An order in which similar vectors are neighbours."""
    from scipy.cluster import hierarchy

    if vectors.shape[0] < 3 or vectors.shape[1] == 0:
        return np.arange(vectors.shape[0])
    tree = hierarchy.linkage(vectors, method="average", optimal_ordering=True)
    return np.asarray(hierarchy.leaves_list(tree), dtype=np.intp)
