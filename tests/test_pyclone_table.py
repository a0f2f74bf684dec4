"""Tables of allele counts: what is read, and what is refused and how."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pgfa
from pgfa.models.pyclone_table import read_counts, write_counts

HEADER = "mutation_id\tsample_id\tref_counts\talt_counts\tmajor_cn\tminor_cn\tnormal_cn"


def frame(**changes):
    """Two mutations in two samples; keyword arguments replace columns."""
    columns = {
        "mutation_id": ["m1", "m1", "m2", "m2"],
        "sample_id": ["s1", "s2", "s1", "s2"],
        "ref_counts": [10, 20, 30, 40],
        "alt_counts": [1, 2, 3, 4],
        "major_cn": [1, 2, 1, 3],
        "minor_cn": [1, 0, 1, 1],
        "normal_cn": [2, 2, 2, 2],
    }
    return pd.DataFrame(columns | changes)


def write(tmp_path, *lines, header=HEADER):
    path = tmp_path / "tumour.tsv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_a_table_and_its_file_are_the_same(tmp_path):
    path = tmp_path / "counts.tsv"
    frame(tumour_content=[0.5, 1.0, 0.5, 1.0]).to_csv(path, sep="\t", index=False)
    from_file, from_frame = read_counts(path), read_counts(frame(tumour_content=[0.5, 1.0, 0.5, 1.0]))
    for ours, theirs in zip(from_file, from_frame):
        assert np.array_equal(ours, theirs)


def test_defaults_and_other_columns(tmp_path):
    counts = read_counts(frame(genotype=["AB"] * 4))
    assert np.all(counts.tumour_content == 1.0) and np.all(counts.error_rate == 0.001)


def test_ids_keep_their_order_and_type():
    counts = read_counts(frame(mutation_id=[7, 7, 3, 3], sample_id=["b", "a", "b", "a"]))
    assert counts.mutation_ids == [7, 3] and counts.sample_ids == ["b", "a"]


def test_a_mutation_without_a_sample_is_kept():
    model = pgfa.PyClone(frame().iloc[:3])
    assert (model.num_rows, model.num_samples) == (2, 2)
    assert "1 missing" in repr(model)


def test_rows_may_come_in_any_order():
    shuffled = frame().iloc[[2, 0, 3, 1]]
    counts = read_counts(shuffled)
    assert counts.mutation_ids == ["m2", "m1"]
    assert counts.alt.tolist() == [3, 4, 1, 2]


def test_whole_numbers_may_be_floats():
    assert read_counts(frame(ref_counts=[10.0, 20.0, 30.0, 40.0])).ref.tolist() == [10, 20, 30, 40]


def test_what_is_written_is_read_again():
    counts = read_counts(frame().iloc[[0, 1, 3]])
    for ours, theirs in zip(read_counts(write_counts(counts)), counts):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("changes", "row", "column", "expected"),
    [
        ({"ref_counts": [10, -2, 30, 40]}, 1, "ref_counts", "at least 0, got -2"),
        ({"alt_counts": [1, 2, 3, 4.5]}, 3, "alt_counts", "whole number of at least 0, got 4.5"),
        ({"alt_counts": [1, 2, np.nan, 4]}, 2, "alt_counts", "got nan"),
        ({"alt_counts": [True, 2, 3, 4]}, 0, "alt_counts", "got True"),
        ({"alt_counts": ["1", "2", "three", "4"]}, 2, "alt_counts", "got 'three'"),
        ({"alt_counts": ["1", "2", "1_0", "4"]}, 2, "alt_counts", "got '1_0'"),
        ({"minor_cn": [1, 3, 1, 1]}, 1, "major_cn", "at least minor_cn (3), got 2"),
        ({"major_cn": [0, 2, 1, 3], "minor_cn": [0, 0, 1, 1]}, 0, "major_cn", "total copy number 0, yet 11 reads"),
        ({"normal_cn": [2, 2, 0, 2]}, 2, "normal_cn", "at least 1, got 0"),
        ({"tumour_content": [1.0, 0.0, 0.5, 1.0]}, 1, "tumour_content", "above 0 and at most 1, got 0.0"),
        ({"tumour_content": [1.0, 0.5, 1.5, 1.0]}, 2, "tumour_content", "got 1.5"),
        ({"error_rate": [0.1, 0.0, 0.1, 0.1]}, 1, "error_rate", "above 0 and below 0.5, got 0.0"),
        ({"mutation_id": ["m1", None, "m2", "m2"]}, 1, "mutation_id", "expected an identifier"),
        ({"sample_id": ["s1", "s2", pd.NA, "s2"]}, 2, "sample_id", "expected an identifier"),
        ({"alt_counts": pd.array([1, 2, pd.NA, 4], dtype="Int64")}, 2, "alt_counts", "got <NA>"),
        ({"sample_id": ["s1", "s2", "s1", "s1"]}, 3, "mutation_id", "appears a second time, first on row 2"),
    ],
)
def test_what_is_wrong_is_named(changes, row, column, expected):
    with pytest.raises(ValueError, match="table has 1 problem") as error:
        pgfa.PyClone(frame(**changes))
    assert f"row {row}, column {column}:" in str(error.value)
    assert expected in str(error.value)


def test_lines_of_files_are_counted_from_the_header(tmp_path):
    path = write(tmp_path, "m1\ts1\t10\t-1\t1\t1\t2", "m1\ts2\t10\t1\t1\t1\t2")
    with pytest.raises(ValueError, match=r"tumour\.tsv has 1 problem") as error:
        pgfa.PyClone(path)
    assert "line 2, column alt_counts: expected a whole number of at least 0, got '-1'" in str(error.value)


def test_ten_problems_at_once(tmp_path):
    lines = [f"m{n}\ts1\tx\t{n - 20}\t1\t1\t2" for n in range(8)]
    with pytest.raises(ValueError, match="16 problems") as error:
        pgfa.PyClone(write(tmp_path, *lines))
    message = str(error.value).splitlines()
    assert len(message) == 12
    assert message[-1].strip() == "and 6 more"
    assert message[1].strip().startswith("line 2, column ref_counts") and "line 6" in message[10]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        (HEADER + "\n", "has a header and no rows"),
        ("mutation_id\tsample_id\nm1\ts1\n", "lacks the columns ref_counts, alt_counts"),
        (HEADER.replace("normal_cn", "normal") + "\nm1\ts1\t1\t1\t1\t1\t2\n", "lacks the column normal_cn"),
        (HEADER + "\tsample_id\nm1\ts1\t1\t1\t1\t1\t2\ts1\n", "the column sample_id appears more than once"),
        (HEADER + "\nm1\ts1\t1\t1\t1\t1\n", "line 2, 6 fields, expected 7"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, expected):
    path = tmp_path / "tumour.tsv"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"tumour\.tsv") as error:
        pgfa.PyClone(path)
    assert expected in str(error.value)


def test_binary_files_and_other_things(tmp_path):
    path = tmp_path / "tumour.tsv"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ValueError, match="not a text file"):
        pgfa.PyClone(path)
    with pytest.raises(ValueError, match="table must be a pandas table or the path of a TSV file, got int"):
        pgfa.PyClone(3)
    with pytest.raises(
        FileNotFoundError, match=r"table must be the path of a TSV file, but .*nowhere\.tsv cannot be read"
    ):
        pgfa.PyClone(tmp_path / "nowhere.tsv")


def test_windows_line_ends_and_byte_order_marks(tmp_path):
    path = tmp_path / "tumour.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + HEADER.encode() + b"\r\nm1\ts1\t10\t1\t1\t1\t2\r\n\r\n")
    counts = read_counts(path)
    assert counts.mutation_ids == ["m1"] and counts.normal.tolist() == [2]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"density": "poisson"}, "density must be one of 'binomial', 'beta-binomial', got 'poisson'"),
        ({"v_prior": (1.0, 0.0)}, r"v_prior\[1\] \(rate\) must be a positive finite number"),
        ({"precision_prior": 3.0}, "precision_prior must be a pair"),
        ({"moves": ("langevin", "jump")}, "moves must be one of"),
        ({"moves": ()}, "moves must name at least one move of V, got none"),
        ({"singletons": "none"}, "singletons must be one of"),
        ({"column_moves": -1}, "column_moves must be a whole number of at least 0"),
    ],
)
def test_settings_are_checked(options, expected):
    with pytest.raises(ValueError, match=expected):
        pgfa.PyClone(frame(), **options)
