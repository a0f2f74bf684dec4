"""Predicted links and how good they are."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgfa import checks

if TYPE_CHECKING:
    import pandas


class LinkScores(NamedTuple):
    """How well held-out links are predicted.

    `auc` and `average_precision` are NaN where the held-out pairs are all linked or all not linked.
    """

    num_pairs: int
    num_links: int
    log_likelihood: float
    auc: float
    average_precision: float
    reconstruction_error: int


def area_under_curve(truth: ArrayLike, score: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a link scores higher than a non-link, ties counting one half.

    Examples
    --------
    >>> area_under_curve([0, 1, 1], [0.1, 0.4, 0.1])
    0.75
    """
    links, scores = _check_pairs(truth, score)
    num_links = int(links.sum())
    num_others = links.size - num_links
    if num_links == 0 or num_others == 0:
        return float("nan")
    _, position, count = np.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(count) - 0.5 * (count - 1)
    return float((mean_rank[position][links].sum() - 0.5 * num_links * (num_links + 1)) / (num_links * num_others))


def average_precision(truth: ArrayLike, score: ArrayLike) -> float:
    """Precision averaged over the links, from the highest score to the lowest; equal scores are taken together.

    Examples
    --------
    >>> round(average_precision([0, 1, 1], [0.2, 0.4, 0.1]), 4)
    0.8333
    """
    links, scores = _check_pairs(truth, score)
    if not links.any():
        return float("nan")
    _, position, count = np.unique(-scores, return_inverse=True, return_counts=True)
    found = np.bincount(position, weights=links, minlength=count.size)
    precision = np.cumsum(found) / np.cumsum(count)
    return float(np.sum(found * precision) / links.sum())


def _check_pairs(truth: ArrayLike, score: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    links, scores = np.asarray(truth), np.asarray(score, dtype=float)
    if links.ndim != 1 or links.shape != scores.shape:
        raise ValueError(
            f"truth and score must be vectors of equal length, got shapes {links.shape} and {scores.shape}"
        )
    if not np.isin(links, (0, 1)).all():
        raise ValueError("truth must hold zeros and ones only")
    if np.isnan(scores).any():
        raise ValueError("score must not hold NaN")
    return links.astype(bool), scores


@dataclass(frozen=True)
class LinkPrediction:
    """Predicted link probabilities of a network, with the labels of its nodes.

    Attributes
    ----------
    probability
        Probability of a link from each node to each other, of shape (N, N); NaN on a diagonal that does not count.
    X
        The data that the prediction was made from, NaN where unknown.
    symmetric
        Whether every pair of nodes counts once.
    labels
        Labels of the nodes, or None.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, np.nan], [np.nan, 1]])
    >>> prediction = LinkPrediction(np.array([[0.9, 0.2], [0.6, 0.8]]), X, symmetric=False, labels=None)
    >>> prediction.score([[1, 0], [1, 1]]).auc
    1.0
    >>> prediction.unknown_links()[0]
    (1, 0, 0.6)
    """

    probability: NDArray[np.float64]
    X: NDArray[np.float64]
    symmetric: bool
    labels: list[Hashable] | None

    def score(self, X_true: Any) -> LinkScores:
        """Score the pairs that were unknown and are known in `X_true`; the reconstruction error counts all pairs.

        Parameters
        ----------
        X_true
            The matrix with its held-out entries, an array or a table with the labels of the model; NaN where even the
            truth is unknown.
        """
        truth = self._check_truth(X_true)
        held_out = self._pairs(np.isnan(self.X) & ~np.isnan(truth))
        if not held_out.any():
            raise ValueError("X_true knows no pair of nodes that was unknown to the model: nothing was held out")
        links, probability = truth[held_out], self.probability[held_out]
        tiny = np.finfo(float).tiny
        of_truth = np.where(links == 1.0, probability, 1.0 - probability)
        return LinkScores(
            num_pairs=links.size,
            num_links=int(links.sum()),
            log_likelihood=float(np.log(np.maximum(of_truth, tiny)).sum()),
            auc=area_under_curve(links, probability),
            average_precision=average_precision(links, probability),
            reconstruction_error=self.reconstruction_error(X_true),
        )

    def reconstruction_error(self, X_true: Any) -> int:
        """Number of wrong entries, held out or not, when every pair of probability 1/2 or more is taken for linked."""
        truth = self._check_truth(X_true)
        known = self._pairs(~np.isnan(truth))
        return int(np.count_nonzero((self.probability[known] >= 0.5) != (truth[known] == 1.0)))

    def unknown_links(self) -> list[tuple[Any, Any, float]]:
        """Pairs of nodes of which no link was known, by label and with their probability, the likeliest first."""
        pairs = np.argwhere(self._pairs(np.isnan(self.X)))
        probability = self.probability[pairs[:, 0], pairs[:, 1]]
        labels = list(range(self.X.shape[0])) if self.labels is None else self.labels
        order = np.argsort(-probability, kind="stable")
        return [(labels[i], labels[j], float(p)) for (i, j), p in zip(pairs[order], probability[order], strict=True)]

    def to_frame(self) -> pandas.DataFrame:
        """The probabilities as a pandas table."""
        import pandas

        return pandas.DataFrame(self.probability, index=self.labels, columns=self.labels)

    def _pairs(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Leave out a diagonal that does not count and, in a symmetric network, the second of two equal entries."""
        mask = mask & ~np.isnan(self.probability)
        return np.triu(mask) if self.symmetric else mask

    def _check_truth(self, X_true: Any) -> NDArray[np.float64]:
        has_labels = hasattr(X_true, "index") and hasattr(X_true, "columns")
        if self.labels is not None and has_labels and not (list(X_true.index) == self.labels == list(X_true.columns)):
            raise ValueError("X_true must carry the labels of the model on its rows and columns, in the same order")
        truth = checks.numeric_matrix("X_true", X_true, missing=True)
        if truth.shape != self.X.shape:
            raise ValueError(f"X_true must have shape {self.X.shape}, got {truth.shape}")
        wrong = (truth != 0.0) & (truth != 1.0) & ~np.isnan(truth)
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(f"X_true has {truth[i, j]:g} in row {i}, column {j}: expected 0, 1 or NaN")
        return truth
