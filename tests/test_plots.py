"""Pictures: they show what they are given, and text stays text."""

from __future__ import annotations

import io

import numpy as np
import pytest

from pgfa import plots


def render(figure):
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def test_rows_are_put_in_order_of_their_group():
    Z = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    figure = plots.allocation(Z, groups=["b", "a", "b", "a"])
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), Z[[1, 3, 0, 2]])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["F1", "F2"]
    assert render(figure)


def test_columns_that_are_alike_stand_together():
    V = np.array([[1.0, -1.0, 1.1, -1.1], [2.0, -2.0, 2.0, -2.0]])
    labels = [tick.get_text() for tick in plots.loadings(V, list("abcd")).axes[0].get_xticklabels()]
    assert {frozenset(labels[:2]), frozenset(labels[2:])} == {frozenset("ac"), frozenset("bd")}
    as_given = plots.loadings(V, list("abcd"), arrange=False)
    assert [tick.get_text() for tick in as_given.axes[0].get_xticklabels()] == list("abcd")
    np.testing.assert_array_equal(as_given.axes[0].images[0].get_array(), V)


def test_a_trace_is_scaled_to_what_follows_the_warmup():
    line = np.concatenate([np.linspace(-1e6, -10.0, 50), np.full(50, -5.0), [-4.0]])
    axes = plots.trace({"one": line, "two": line - 1.0}, warmup=50).axes[0]
    low, high = axes.get_ylim()
    assert -10.0 < low < -6.0
    assert -4.0 < high < 0.0
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]


@pytest.mark.parametrize("name", ["$x$", "a $ b $ c", r"\frac{$}{$}", r"\$x\$", "$\\frac$", "_^{}%#&~"])
def test_names_are_never_read_as_formulae(name):
    V = np.random.default_rng(0).normal(size=(2, 3))
    assert render(plots.loadings(V, [name] * 3, feature_labels=[name] * 2, title=name, unit=name))
    assert render(plots.allocation(V > 0, groups=[name] * 2, feature_labels=[name] * 3, title=name))
    assert render(plots.trace({name: [1.0, 2.0]}, ylabel=name, title=name))
    # What is drawn is the name itself, without its escapes.
    figure = plots.allocation(V > 0, title=name)
    figure.draw_without_rendering()
    text = figure._suptitle
    assert text._preprocess_math(text.get_text()) == (name, False)


@pytest.mark.parametrize("title", ["In which share of the cells a mutation is found", "Who owns which feature\n" * 2])
def test_titles_fit_beside_long_labels(title):
    phi, labels = np.full((3, 2), 0.5), ["NA12156,NA12878,NA18507,NA19240:chr10"] * 3
    for figure in (
        plots.allocation(phi, row_labels=labels, title=title),
        plots.prevalences(phi, labels, ["a", "b"], title=title),
        plots.loadings(phi, ["a", "b"], feature_labels=labels, title=title),
        plots.populations(phi, ["a", "b"], feature_labels=labels, title=title),
        plots.network(np.eye(3), np.eye(3), labels=labels, title=title),
        plots.trace({labels[0]: [1.0, 2.0], "b": [2.0, 1.0]}, title=title * 3),
    ):
        figure.draw_without_rendering()
        box = figure._suptitle.get_window_extent()
        assert box.x0 >= 0.0 and box.x1 <= figure.bbox.width
        assert box.y1 <= figure.bbox.height
        # Nor does it cover what is below it.
        assert all(axes.get_window_extent().y1 <= box.y0 + 1.0 for axes in figure.axes)


def test_degenerate_pictures_can_be_drawn():
    assert render(plots.loadings(np.zeros((1, 1))))
    assert render(plots.loadings(np.zeros((0, 3))))
    assert render(plots.allocation(np.zeros((3, 0))))
    assert render(plots.trace({"flat": [1.0, 1.0]}))
    assert render(plots.trace({"nothing": []}))


def test_pictures_are_kept_by_nobody_else():
    import sys

    plots.trace({"a": [1.0]})
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
