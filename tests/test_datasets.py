"""Data sets that ship: complete, credited, and the same as their source."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pgfa
from pgfa.datasets import load_mice_protein

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def test_mice_protein_has_its_known_shape_and_holes():
    mice = load_mice_protein()
    assert mice.data.shape == (1080, 77)
    assert int(mice.data.isna().sum().sum()) == 1396
    assert mice.data["BCL2"].isna().sum() == 285
    assert all(dtype.kind == "f" for dtype in mice.data.dtypes)
    assert mice.data.index.is_unique
    assert mice.data.columns.is_unique


def test_mice_protein_has_its_known_design():
    design = load_mice_protein().design
    assert design["mouse"].nunique() == 72
    assert (design.groupby("mouse").size() == 15).all()
    assert (design.groupby("mouse")["class"].nunique() == 1).all()
    assert design.groupby(["genotype", "treatment", "behaviour"])["class"].nunique().tolist() == [1] * 8
    mice = design.drop_duplicates("mouse")["genotype"].value_counts()
    assert (mice["Control"], mice["Ts65Dn"]) == (38, 34)


def test_mice_protein_is_credited_where_it_ships():
    mice = load_mice_protein()
    licence = resources.files("pgfa.datasets").joinpath("files", "mice_protein", "LICENCE.txt").read_text()
    for text in (mice.credit, licence):
        assert "10.24432/C50S3Z" in text
        assert "Higuera" in text
    assert mice.licence == "CC BY 4.0"
    assert "CC BY 4.0" in licence
    assert repr(mice) == "Dataset(1080 rows, 77 columns: Mice protein expression)"


def test_mice_protein_is_what_the_source_says():
    source = SHARED / "mice_protein" / "mice_protein.csv"
    if not source.exists():
        pytest.skip("the source of the data is not in the folder `shared` beside the project")
    table = pd.read_csv(source)
    np.testing.assert_array_equal(load_mice_protein().data.to_numpy(), table.iloc[:, 1:78].to_numpy())


def test_standardise_centres_and_scales_what_is_observed():
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, 3.0, size=(50, 4))
    X[:10, 1] = np.nan
    before = X.copy()
    S = pgfa.standardise(X)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(np.isnan(S), np.isnan(X))
    np.testing.assert_allclose(np.nanmean(S, axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(S, axis=0), 1.0)


def test_standardise_leaves_columns_without_spread_at_zero():
    X = np.array([[0.1, np.nan, 2.0], [0.1, np.nan, np.nan], [0.1, np.nan, np.nan]])
    np.testing.assert_array_equal(
        pgfa.standardise(X), [[0.0, np.nan, 0.0], [0.0, np.nan, np.nan], [0.0, np.nan, np.nan]]
    )


def test_standardise_keeps_labels():
    table = pd.DataFrame({"a": [1, 2, 3], "b": [1.0, None, 2.0]}, index=["x", "y", "z"])
    result = pgfa.standardise(table)
    assert isinstance(result, pd.DataFrame)
    assert list(result.columns) == ["a", "b"]
    assert list(result.index) == ["x", "y", "z"]
    np.testing.assert_allclose(result["b"], [-1.0, np.nan, 1.0])


def test_standardise_refuses_what_is_no_matrix_of_numbers():
    with pytest.raises(ValueError, match="X must be a matrix"):
        pgfa.standardise([1.0, 2.0])
    with pytest.raises(ValueError, match="X must hold numbers: row 0, column 1 is 'b'"):
        pgfa.standardise(pd.DataFrame({"a": [1], "b": ["b"]}))
