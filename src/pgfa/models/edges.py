"""Adjacency matrices from lists of edges and from graphs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgfa import checks

_COLUMNS = ("source", "target", "value")


def adjacency_from_edges(
    edges: Any, symmetric: bool, self_links: bool, nodes: Sequence[Hashable] | None, unlisted: Any
) -> tuple[NDArray[np.float64], list[Hashable]]:
    """The matrix of a list of edges, and the label of each node."""
    rows = _read_edges(edges)
    background = _check_value("unlisted", unlisted)
    if nodes is None:
        labels = list(dict.fromkeys(end for source, target, _ in rows for end in (source, target)))
    else:
        labels = list(nodes)
        checks.distinct("nodes", labels)
    if not labels:
        raise ValueError("edges must hold at least one edge, or nodes at least one node")
    number = {label: i for i, label in enumerate(labels)}

    X = np.full((len(labels), len(labels)), background)
    listed: dict[tuple[int, int], int] = {}
    for e, (source, target, value) in enumerate(rows):
        for end, role in ((source, "source"), (target, "target")):
            if end not in number:
                raise ValueError(f"edges, row {e}: {role} {end!r} is not among nodes")
        i, j = number[source], number[target]
        if i == j and not self_links:
            raise ValueError(
                f"edges, row {e}: {source!r} is linked with itself; leave such edges out or set self_links=True"
            )
        pair = (min(i, j), max(i, j)) if symmetric else (i, j)
        before = listed.setdefault(pair, e)
        if not _same(rows[before][2], value):
            raise ValueError(
                f"edges, rows {before} and {e} contradict each other: {source!r} and {target!r} "
                f"have the values {rows[before][2]:g} and {value:g}"
            )
        X[i, j] = value
        if symmetric:
            X[j, i] = value
    return X, labels


def _same(a: float, b: float) -> bool:
    return a == b or (np.isnan(a) and np.isnan(b))


def _check_value(name: str, value: Any) -> float:
    if value is None or type(value).__name__ == "NAType":
        return float("nan")
    if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)) or not (
        value == 0 or value == 1 or np.isnan(value)
    ):
        raise ValueError(f"{name} must be 0, 1 or NaN for an unknown link, got {value!r}")
    return float(value)


def _read_edges(edges: Any) -> list[tuple[Hashable, Hashable, float]]:
    if hasattr(edges, "columns"):
        names = [str(name) for name in edges.columns]
        for name in _COLUMNS[:2]:
            if name not in names:
                raise ValueError(
                    f"edges must have the columns source and target, and may have value; got {', '.join(names)}"
                )
        # Left out in silence, a weight of zero would become a link.
        further = [name for j, name in enumerate(names) if name not in _COLUMNS or name in names[:j]]
        if further:
            raise ValueError(
                "edges must have the columns source and target, may have value (1, 0 or NaN), and no others: leave "
                f"{', '.join(map(repr, further))} out"
            )
        raw: Iterable[Any] = zip(*(list(edges[name]) for name in _COLUMNS if name in names), strict=True)
    else:
        raw = edges
    rows: list[tuple[Hashable, Hashable, float]] = []
    for e, row in enumerate(raw):
        parts = _parts(row)
        if len(parts) not in (2, 3):
            raise ValueError(f"edges, row {e} must be (source, target) or (source, target, value), got {row!r}")
        for end, role in zip(parts, _COLUMNS[:2], strict=False):
            if end is None or not isinstance(end, Hashable) or end != end:
                raise ValueError(f"edges, row {e}: {role} must be a label, got {end!r}")
        value = _check_value(f"edges, row {e}: value", parts[2]) if len(parts) == 3 else 1.0
        rows.append((parts[0], parts[1], value))
    return rows


def _parts(row: Any) -> tuple[Any, ...]:
    if isinstance(row, (str, bytes)):
        return ()
    try:
        return tuple(row.tolist() if isinstance(row, np.ndarray) else row)
    except TypeError:
        return ()


def edges_of_graph(
    graph: Any, value: str | None, unobserved: Iterable[tuple[Hashable, Hashable]]
) -> tuple[list[tuple[Hashable, Hashable, Any]], list[Hashable], bool]:
    """Edges with values, nodes, and whether edges have a direction."""
    try:
        import networkx
    except ImportError:
        raise ImportError("from_networkx needs networkx: pip install networkx") from None
    if not isinstance(graph, networkx.Graph):
        raise ValueError(f"graph must be a networkx Graph or DiGraph, got {graph!r}")
    edges: list[tuple[Hashable, Hashable, Any]] = []
    for source, target, attributes in graph.edges(data=True):
        if value is not None and value not in attributes:
            raise ValueError(f"the edge {source!r}, {target!r} has no attribute {value!r}")
        edges.append((source, target, 1.0 if value is None else attributes[value]))
    for pair in unobserved:
        parts = _parts(pair)
        if len(parts) != 2:
            raise ValueError(f"unobserved must hold pairs of nodes, got {pair!r}")
        for node in parts:
            if node not in graph:
                raise ValueError(f"unobserved: {node!r} is not a node of the graph")
        edges.append((parts[0], parts[1], float("nan")))
    return edges, list(graph.nodes), graph.is_directed()
