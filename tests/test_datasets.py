"""Data sets that ship: complete, credited, and the same as their source."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pgfa
from pgfa.datasets import load_lazega, load_mice_protein, load_xenograft

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


@pytest.mark.parametrize(("relation", "links"), [("advice", 892), ("friendship", 575), ("work", 1104)])
def test_lazega_has_its_known_links(relation, links):
    firm = load_lazega(relation)
    assert int(firm.data.sum().sum()) == links
    assert np.isnan(np.diagonal(firm.data)).all()
    assert list(firm.data.index) == list(firm.data.columns) == list(firm.design.index)
    assert firm.design["gender"].value_counts().to_dict() == {"man": 53, "woman": 18}
    assert firm.design["status"].value_counts().to_dict() == {"partner": 36, "associate": 35}
    assert not firm.design.isna().any(axis=None)
    pgfa.Relational(firm.data, self_links=False)


def test_lazega_refuses_other_relations():
    with pytest.raises(ValueError, match="relation must be one of 'advice', 'friendship', 'work', got 'enmity'"):
        load_lazega("enmity")


def test_xenograft_has_its_known_shape():
    leukaemia = load_xenograft()
    assert len(leukaemia.data) == 41 * 13
    assert list(leukaemia.data["mutation_id"].unique()) == list(leukaemia.design.index)
    assert leukaemia.data["sample_id"].nunique() == 13
    assert leukaemia.design.sum().tolist() == [17, 35, 38, 39, 19]
    assert leukaemia.data["tumour_content"].between(0.0, 1.0).all()


@pytest.mark.parametrize(
    ("folder", "load", "names"),
    [
        ("lazega", load_lazega, ("Lazega", "Schoch")),
        ("xenograft", load_xenograft, ("Dobson", "Wintersinger", "Kulman")),
    ],
)
def test_the_others_are_credited_where_they_ship(folder, load, names):
    licence = resources.files("pgfa.datasets").joinpath("files", folder, "LICENCE.txt").read_text()
    assert "MIT License" in licence and "Permission is hereby granted" in licence
    assert load().licence == "MIT"
    for name in names:
        assert name in load().credit
        assert name in licence


def test_the_others_are_what_the_source_says():
    if not (SHARED / "lazega").exists():
        pytest.skip("the source of the data is not in the folder `shared` beside the project")
    for relation, name in (("advice", "law_advice"), ("friendship", "law_friends"), ("work", "law_cowork")):
        source = pd.read_csv(SHARED / "lazega" / f"{name}.csv", header=None).to_numpy()
        np.testing.assert_array_equal(np.nan_to_num(load_lazega(relation).data), source)
    source = pd.read_csv(SHARED / "ball_xenograft" / "SJBALL031.tsv", sep="\t")
    pd.testing.assert_frame_equal(load_xenograft().data, source)


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
