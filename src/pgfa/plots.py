"""Pictures of fits. Every function returns a matplotlib Figure that belongs to nobody else; save it with `savefig`.

Matplotlib is imported inside, so that nothing else pays for it. Labels are shown as they are: a dollar sign in a name
is a dollar sign, never the beginning of a formula.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Distinguishable also without colour vision (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#666666")


#: Labels of more rows or columns than this are left out: nobody could read them.
MOST_LABELS = 150
_WIDEST = 30.0


def plain(text: Any) -> str:
    """Text that matplotlib shows as it is."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in str(text)).replace("$", r"\$")


def short(text: Any, length: int = 28) -> str:
    """Text for a tick: one line, and not longer than there is room for."""
    line = " ".join(str(text).split())
    return plain(line if len(line) <= length else line[: length - 1] + "…")


def trace(
    values: Mapping[str, Any],
    *,
    xlabel: str = "iteration",
    ylabel: str = "log density",
    warmup: int = 0,
    title: str = "",
) -> Figure:
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
    axes.set(xlabel=plain(xlabel), ylabel=plain(ylabel))
    _put_title(figure, title, size=12)
    axes.margins(x=0.0)
    axes.ticklabel_format(style="plain", useOffset=False)
    axes.spines[["top", "right"]].set_visible(False)
    # Matplotlib leaves labels that begin with an underscore out of a legend.
    labels = [plain(f" {label}" if str(label).startswith("_") else label) for label in series]
    axes.legend(axes.lines[: len(series)], labels, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def allocation(
    Z: Any,
    groups: Iterable[Any] | None = None,
    *,
    row_labels: Iterable[Any] | None = None,
    feature_labels: Iterable[Any] | None = None,
    arrange: bool = False,
    title: str = "",
) -> Figure:
    """The feature matrix: dark where a row owns a feature.

    Parameters
    ----------
    Z
        Binary matrix of shape (N, K), or probabilities of owning a feature.
    groups
        Group of each row. Rows are put in order of their group, and otherwise stay in the order they have.
    row_labels
        Names of the rows, shown where there are no groups and not too many rows.
    feature_labels
        Names of the features, "F1", "F2", ... unless given.
    arrange
        Put rows with the same features next to each other (within their group).

    Examples
    --------
    >>> import numpy as np
    >>> from pgfa import plots
    >>> figure = plots.allocation(np.eye(4, 3), groups=["b", "a", "b", "a"])
    """
    from matplotlib.figure import Figure

    matrix = np.asarray(Z, dtype=float)
    names = feature_names(matrix.shape[1]) if feature_labels is None else list(feature_labels)
    rows = None if row_labels is None or groups is not None else [short(label) for label in row_labels]
    has_row_labels = rows is not None and len(rows) <= MOST_LABELS
    height = max(2.5, 0.13 * matrix.shape[0] + 1.0) if has_row_labels else 6.5
    figure = Figure(figsize=(min(_WIDEST, max(3.5, 0.42 * matrix.shape[1] + 1.8)), height), layout="constrained")
    axes = figure.subplots()
    order = _owners_together(matrix) if arrange else np.arange(matrix.shape[0])
    bounds = np.zeros(0)
    if groups is not None:
        labels, code = np.unique(np.asarray([str(group) for group in groups]), return_inverse=True)
        order = order[np.argsort(code[order], kind="stable")]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(code))])
        axes.set_yticks(0.5 * (bounds[:-1] + bounds[1:]), [plain(label) for label in labels])
        axes.tick_params(axis="y", length=0)
    elif rows is not None and has_row_labels:
        axes.set_yticks(np.arange(len(rows)) + 0.5, [rows[n] for n in order], fontsize=7)
        axes.tick_params(axis="y", length=0)
    elif arrange:
        axes.set(ylabel=f"{matrix.shape[0]} rows, those with the same features together", yticks=[])
    else:
        axes.set_ylabel("row")
    width, num_rows = max(matrix.shape[1], 1), max(matrix.shape[0], 1)
    if matrix.size:
        extent = (0.0, width, num_rows, 0.0)
        image = axes.imshow(
            matrix[order], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest", extent=extent
        )
        if ((matrix > 0.0) & (matrix < 1.0)).any():
            figure.colorbar(image, ax=axes, pad=0.02, aspect=20, shrink=0.5, anchor=(0.0, 1.0), label="probability")
    axes.set(xlim=(0, width), ylim=(num_rows, 0))
    axes.set_xticks(np.arange(matrix.shape[1]) + 0.5, [plain(name) for name in names], fontsize=8)
    axes.tick_params(axis="x", length=0)
    for k in range(1, matrix.shape[1]):
        axes.axvline(k, color="white", linewidth=1.5)
    for bound in bounds[1:-1]:
        axes.axhline(bound, color=COLOURS[1], linewidth=1.0)
    _put_title(figure, title)
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
    size = (min(_WIDEST, max(4.0, 0.15 * num_columns + 1.6)), min(_WIDEST, max(2.2, 0.3 * num_features + 1.4)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    largest = float(np.abs(matrix).max(initial=0.0)) or 1.0
    if matrix.size:
        image = axes.imshow(matrix[:, order], cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
        figure.colorbar(image, ax=axes, pad=0.01, aspect=15, label=plain(unit))
    axes.set_yticks(np.arange(num_features), [plain(name) for name in names], fontsize=8)
    if num_columns <= MOST_LABELS:
        axes.set_xticks(np.arange(num_columns), [short(columns[d]) for d in order], rotation=90, fontsize=7)
    else:
        axes.set(xticks=[], xlabel=f"{num_columns} columns")
    axes.tick_params(length=0)
    _put_title(figure, title)
    return figure


def network(
    X: Any, probability: Any, owners: Any = None, *, labels: Iterable[Any] | None = None, title: str = ""
) -> Figure:
    """A network beside the probabilities of its links, nodes with the same features next to each other.

    Parameters
    ----------
    X
        Matrix of shape (N, N): 1 for a link, 0 for none, NaN for unknown.
    probability
        Probability of each link.
    owners
        Matrix of shape (N, K) with the features of each node, by which they are put in order.
    labels
        Names of the nodes, shown where there are not too many.

    Examples
    --------
    >>> import numpy as np
    >>> from pgfa import plots
    >>> figure = plots.network(np.eye(3), np.full((3, 3), 0.5), np.eye(3))
    """
    from matplotlib.figure import Figure

    links, expected = np.asarray(X, dtype=float), np.asarray(probability, dtype=float)
    size = links.shape[0]
    order = np.arange(size) if owners is None else _owners_together(np.asarray(owners, dtype=float))
    names = [short(label, 16) for label in labels] if labels is not None and size <= MOST_LABELS // 2 else None
    side = 4.6 if names is None else min(9.0, max(4.6, 0.11 * size + 1.0))
    figure = Figure(figsize=(2.0 * side + 0.6, side + 0.5), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, matrix, caption in zip(panels, (links, expected), ("links (grey: unknown)", "probability of a link")):
        axes.set_facecolor("0.8")
        image = axes.imshow(matrix[np.ix_(order, order)], cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
        axes.set_title(caption, fontsize=10)
        axes.set(xlabel="to", ylabel="from", xticks=[], yticks=[])
        if names is not None:
            axes.set_yticks(np.arange(size), [names[n] for n in order], fontsize=6)
            axes.set_xticks(np.arange(size), [names[n] for n in order], fontsize=6, rotation=90)
        axes.tick_params(length=0)
    figure.colorbar(image, ax=list(panels), pad=0.01, aspect=25, shrink=0.6)
    _put_title(figure, title)
    return figure


def prevalences(
    phi: Any,
    row_labels: Iterable[Any] | None = None,
    sample_labels: Iterable[Any] | None = None,
    *,
    owners: Any = None,
    title: str = "",
) -> Figure:
    """In which share of the cells of each sample a mutation is found.

    Parameters
    ----------
    phi
        Matrix of shape (N, M), between 0 and 1.
    row_labels, sample_labels
        Names of mutations and samples.
    owners
        Matrix of shape (N, K) by which the mutations are put in order.

    Examples
    --------
    >>> import numpy as np
    >>> from pgfa import plots
    >>> figure = plots.prevalences(np.random.default_rng(0).random((4, 2)), sample_labels=["primary", "relapse"])
    """
    from matplotlib.figure import Figure

    matrix = np.asarray(phi, dtype=float)
    num_rows, num_samples = matrix.shape
    order = np.arange(num_rows) if owners is None else _owners_together(np.asarray(owners, dtype=float))
    height = min(_WIDEST, max(2.5, 0.13 * num_rows + 1.5)) if num_rows <= MOST_LABELS else 8.0
    figure = Figure(figsize=(min(_WIDEST, max(3.5, 0.3 * num_samples + 2.6)), height), layout="constrained")
    axes = figure.subplots()
    if matrix.size:
        image = axes.imshow(matrix[order], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        figure.colorbar(image, ax=axes, pad=0.02, aspect=25, label="share of the cells")
    axes.set(xticks=[], yticks=[])
    if row_labels is not None and num_rows <= MOST_LABELS:
        names = [short(label) for label in row_labels]
        axes.set_yticks(np.arange(num_rows), [names[n] for n in order], fontsize=7)
    if sample_labels is not None and num_samples <= MOST_LABELS:
        axes.set_xticks(np.arange(num_samples), [short(label) for label in sample_labels], fontsize=7, rotation=90)
    axes.tick_params(length=0)
    _put_title(figure, title)
    return figure


def populations(
    F: Any,
    sample_labels: Iterable[Any] | None = None,
    *,
    feature_labels: Iterable[Any] | None = None,
    title: str = "",
) -> Figure:
    """Of which populations the cells of each sample are made up.

    Parameters
    ----------
    F
        Matrix of shape (K, M) whose columns add up to at most one.
    sample_labels, feature_labels
        Names of samples and populations.

    Examples
    --------
    >>> from pgfa import plots
    >>> figure = plots.populations([[0.2, 0.9], [0.8, 0.1]], ["primary", "relapse"])
    """
    from matplotlib.figure import Figure

    shares = np.asarray(F, dtype=float)
    num_features, num_samples = shares.shape
    names = feature_names(num_features) if feature_labels is None else list(feature_labels)
    figure = Figure(figsize=(7.5, min(_WIDEST, max(2.2, 0.28 * num_samples + 1.2))), layout="constrained")
    axes = figure.subplots()
    left = np.zeros(num_samples)
    for k, colour in enumerate(_cycle(num_features)):
        # Colours come round again after eight; hatching tells the rounds apart.
        axes.barh(
            np.arange(num_samples), shares[k], left=left, color=colour, edgecolor="white", linewidth=0.6,
            hatch=("", "///", "...", "xxx")[k // len(COLOURS) % 4], label=plain(names[k]),
        )  # fmt: skip
        left = left + np.nan_to_num(shares[k])
    if sample_labels is not None and num_samples <= MOST_LABELS:
        axes.set_yticks(np.arange(num_samples), [short(label) for label in sample_labels], fontsize=8)
    axes.set(xlim=(0, 1), ylim=(num_samples - 0.5, -0.5), xlabel="share of the cells")
    axes.spines[["top", "right"]].set_visible(False)
    if num_features:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    _put_title(figure, title)
    return figure


def feature_names(num_features: int) -> list[str]:
    """F1, F2, ..."""
    return [f"F{k}" for k in range(1, num_features + 1)]


def _put_title(figure: Figure, title: str, size: int = 10) -> None:
    """A title over the whole picture, in as many lines as it needs: axes beside long labels may be narrower than it."""
    if not title:
        return
    # A letter is 0.6 times as wide as it is high, on the average.
    room = max(10, int((figure.get_figwidth() - 0.2) / (0.6 * size / 72.0)))
    lines = [part for line in title.split("\n") for part in textwrap.wrap(line, room) or [""]]
    figure.suptitle(plain("\n".join(lines)), fontsize=size)


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


def _owners_together(owners: NDArray[np.float64]) -> NDArray[np.intp]:
    """An order in which rows with the same features are neighbours: owners of the first feature first, and so on."""
    patterns = (owners > 0.5).astype(np.uint8)
    return np.lexsort(1 - patterns.T[::-1]) if patterns.shape[1] else np.arange(patterns.shape[0])


def _similar_together(vectors: NDArray[np.float64]) -> NDArray[np.intp]:
    """An order in which similar vectors are neighbours."""
    from scipy.cluster import hierarchy

    if not 3 <= vectors.shape[0] <= 2000 or vectors.shape[1] == 0 or not np.isfinite(vectors).all():
        return np.arange(vectors.shape[0])
    tree = hierarchy.linkage(vectors, method="average", optimal_ordering=True)
    return np.asarray(hierarchy.leaves_list(tree), dtype=np.intp)
