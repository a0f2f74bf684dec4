"""Scores: worked examples, brute force, and what must hold for any matrices."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pgfa.metrics import b_cubed, relative_log_density, rmse


def b_cubed_by_hand(Z_true, Z):
    """The definition, one pair of rows after the other."""

    def average(claimed, other):
        per_row = []
        for e in range(len(claimed)):
            terms = []
            for f in range(len(claimed)):
                shared = int(np.sum(claimed[e] & claimed[f]))
                if shared > 0:
                    terms.append(min(shared, int(np.sum(other[e] & other[f]))) / shared)
            if terms:
                per_row.append(np.mean(terms))
        return np.mean(per_row) if per_row else 1.0

    precision, recall = average(Z, Z_true), average(Z_true, Z)
    f = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return f, precision, recall


def pairs_of_matrices(max_rows=8, max_columns=4):
    bits = st.integers(0, 1)

    def draw(num_rows):
        widths = st.integers(0, max_columns)
        matrix = widths.flatmap(lambda width: hnp.arrays(np.uint8, (num_rows, width), elements=bits))
        return st.tuples(matrix, matrix)

    return st.integers(1, max_rows).flatmap(draw)


def test_b_cubed_of_a_worked_example():
    # Rows a, b, c. Truth: a = {1}, b = {1, 2}, c = {2}. Found: a = {1, 2}, b = {1, 2}, c = {2}.
    Z_true = np.array([[1, 0], [1, 1], [0, 1]])
    Z = np.array([[1, 1], [1, 1], [0, 1]])
    # Precision of a: with itself 1/2, with b 1/2, with c 0/1. Of b: with a 1/2, itself 2/2, c 1/1. Of c: 0, 1, 1.
    precision = np.mean([np.mean([1 / 2, 1 / 2, 0]), np.mean([1 / 2, 1, 1]), np.mean([0, 1, 1])])
    # Recall: all that is shared in the truth is shared in what was found.
    score = b_cubed(Z_true, Z)
    assert score.precision == pytest.approx(precision, abs=1e-15)
    assert score.recall == 1.0
    assert score.f == pytest.approx(2 * precision / (1 + precision), abs=1e-15)


def test_b_cubed_of_partitions_is_the_usual_b_cubed():
    labels_true, labels = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 1])
    same_true, same = labels_true[:, None] == labels_true, labels[:, None] == labels
    score = b_cubed(np.eye(3)[labels_true], np.eye(2)[labels])
    assert score.precision == pytest.approx(np.mean((same & same_true).sum(1) / same.sum(1)))
    assert score.recall == pytest.approx(np.mean((same & same_true).sum(1) / same_true.sum(1)))


@given(pairs_of_matrices())
@settings(max_examples=200, deadline=None)
def test_b_cubed_is_what_a_double_loop_gives(pair):
    assert b_cubed(*pair) == pytest.approx(b_cubed_by_hand(*pair), abs=1e-12)


@given(pairs_of_matrices(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_b_cubed_does_not_care_for_the_order_of_columns_and_stays_in_bounds(pair, random):
    Z_true, Z = pair
    score = b_cubed(Z_true, Z)
    assert all(0.0 <= value <= 1.0 for value in score)
    columns = random.sample(range(Z.shape[1]), Z.shape[1])
    assert b_cubed(Z_true, Z[:, columns]) == pytest.approx(score, abs=1e-12)
    assert b_cubed(Z, Z_true) == pytest.approx((score.f, score.recall, score.precision), abs=1e-12)
    assert b_cubed(Z, Z[:, columns]) == (1.0, 1.0, 1.0)


def test_b_cubed_across_chunks_of_rows():
    rng = np.random.default_rng(3)
    Z_true, Z = (rng.random((300, 4)) < 0.4).astype(int), (rng.random((300, 3)) < 0.4).astype(int)
    assert b_cubed(Z_true, Z) == pytest.approx(b_cubed_by_hand(Z_true, Z), abs=1e-12)


def test_b_cubed_of_rows_without_features():
    nothing, everything = np.zeros((3, 2)), np.ones((3, 2))
    assert b_cubed(nothing, nothing) == (1.0, 1.0, 1.0)
    assert b_cubed(everything, nothing) == (0.0, 1.0, 0.0)
    assert b_cubed(nothing, everything) == (0.0, 0.0, 1.0)
    # A row that is left empty costs recall, not precision.
    score = b_cubed([[1], [1], [1]], [[1], [1], [0]])
    assert score.precision == 1.0
    assert score.recall == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


def test_b_cubed_of_a_large_matrix_is_quick():
    Z = (np.random.default_rng(0).random((2000, 20)) < 0.2).astype(np.uint8)
    begin = time.perf_counter()
    assert b_cubed(Z, Z[:, ::-1]).f == 1.0
    assert time.perf_counter() - begin < 1.0


@pytest.mark.parametrize(
    ("Z_true", "Z", "message"),
    [
        (np.eye(3), np.eye(2), "Z must be a binary matrix with 3 rows"),
        (np.eye(3), 2 * np.eye(3), "Z has 2.0 in row 0, column 0: expected 0 or 1"),
        ([1, 0], np.eye(2), "Z_true must be a binary matrix"),
        (0, np.eye(2), "Z_true must be a binary matrix"),
    ],
)
def test_b_cubed_refuses_what_is_no_pair_of_binary_matrices(Z_true, Z, message):
    with pytest.raises(ValueError, match=message):
        b_cubed(Z_true, Z)


def test_relative_log_density_is_positive_above_the_truth():
    assert relative_log_density(-90.0, -100.0) == pytest.approx(0.1)
    assert relative_log_density(110.0, 100.0) == pytest.approx(0.1)
    np.testing.assert_allclose(relative_log_density([-100.0, -300.0], -100.0), [0.0, -2.0])
    with pytest.raises(ValueError, match="true must not be zero"):
        relative_log_density(-1.0, 0.0)


def test_rmse_counts_only_the_chosen_entries():
    truth, estimate = np.zeros((2, 2)), np.array([[3.0, 100.0], [4.0, np.nan]])
    assert rmse(truth, estimate, where=[[True, False], [True, False]]) == pytest.approx(np.sqrt(12.5))
    assert rmse([1.0, 1.0], [1.0, 3.0]) == pytest.approx(np.sqrt(2.0))


@pytest.mark.parametrize(
    ("truth", "estimate", "where", "message"),
    [
        ([1.0], [1.0, 2.0], None, "same shape"),
        ([1.0], [2.0], [1], "where must be boolean"),
        ([1.0], [2.0], [False], "at least one entry"),
        ([np.nan], [2.0], [True], "must not be NaN"),
    ],
)
def test_rmse_refuses_what_it_cannot_compare(truth, estimate, where, message):
    with pytest.raises(ValueError, match=message):
        rmse(truth, estimate, where)
