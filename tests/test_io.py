"""Tables of users: read as they are meant, refused with the place and the reason, written without surprises."""

from __future__ import annotations

import builtins
import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgfa.io import (
    TableError,
    read_adjacency,
    read_cells,
    read_edges,
    read_matrix,
    read_records,
    safe_cell,
    write_table,
)

TABLE = "mouse,BCL2,DYRK1A\nm1,0.5,1\nm2,NA,-2e-1\n"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        content = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def refused(read, path, **options):
    """The message without the folder, so that tests do not depend on where it is."""
    with pytest.raises(TableError) as caught:
        read(path, **options)
    return str(caught.value).replace(f"{path.parent}/", "")


def check(table):
    assert list(table.index) == ["m1", "m2"]
    assert table.index.name == "mouse"
    assert list(table.columns) == ["BCL2", "DYRK1A"]
    np.testing.assert_array_equal(table.to_numpy(), [[0.5, 1.0], [np.nan, -0.2]])


# --- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", TABLE),
        ("t.CSV", TABLE),
        ("t.tsv", TABLE.replace(",", "\t")),
        ("t.csv.gz", TABLE),
        ("t.tsv.gz", TABLE.replace(",", "\t")),
        ("t.txt", TABLE.replace(",", ";")),
        ("t", TABLE),
        ("windows.csv", TABLE.replace("\n", "\r\n")),
        ("old.csv", TABLE.replace("\n", "\r")),
        ("marked.csv", "\ufeff" + TABLE),
        ("blank-at-the-end.csv", TABLE + "\n\n,,\n"),
        ("no-last-newline.csv", TABLE.rstrip()),
        ("spaces.csv", TABLE.replace(",", " , ")),
        ("quoted.csv", TABLE.replace("m1", '"m1"').replace("0.5", '"0.5"')),
    ],
)
def test_the_same_table_in_many_files(write, name, text):
    check(read_matrix(write(name, text)))


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"mouse": ["m1", "m2"], "BCL2": [0.5, None], "DYRK1A": [1.0, -0.2]})
    table.to_parquet(tmp_path / "column.parquet")
    check(read_matrix(tmp_path / "column.parquet"))
    table.set_index("mouse").to_parquet(tmp_path / "index.pq")
    check(read_matrix(tmp_path / "index.pq"))
    (tmp_path / "packed.parquet.gz").write_bytes(gzip.compress((tmp_path / "index.pq").read_bytes()))
    check(read_matrix(tmp_path / "packed.parquet.gz"))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    assert refused(read_matrix, tmp_path / "bad.parquet") == "bad.parquet is damaged: it cannot be read as Parquet"
    table.assign(BCL2=["high", "low"]).to_parquet(tmp_path / "text.parquet")
    message = refused(read_matrix, tmp_path / "text.parquet", index_column="mouse")
    assert "column 'BCL2': no cell is a number (row 1 has 'high')" in message


def test_parquet_without_pyarrow(write, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    message = refused(read_matrix, write("t.parquet", b"PAR1"))
    assert message == (
        "t.parquet is a Parquet file, and reading these needs pyarrow: pip install pyarrow, or save the table as CSV"
    )


def test_labels_of_rows(write):
    numbers = write("numbers.csv", "a,b\n1,2\n3,4\n")
    assert list(read_matrix(numbers).index) == [1, 2]
    by_name = read_matrix(numbers, index_column="b")
    assert list(by_name.index) == ["2", "4"]
    assert list(by_name.columns) == ["a"]
    nameless = read_matrix(write("nameless.csv", ",a\n7,2\n9,4\n"))
    assert list(nameless.index) == ["7", "9"]
    # R writes no name above the names of rows.
    from_r = read_matrix(write("r.tsv", "a\tb\nx\t1\t2\ny\t3\t4\n"))
    assert list(from_r.index) == ["x", "y"]
    assert list(from_r.columns) == ["a", "b"]
    countries = read_matrix(write("countries.csv", "country,a\nNA,1\nDE,2\n"))
    assert list(countries.index) == ["NA", "DE"]
    all_missing = read_matrix(write("missing.csv", "a,b\nNA,1\n,2\n"))
    assert list(all_missing.columns) == ["a", "b"]
    assert np.isnan(all_missing["a"]).all()


def test_files_without_header(write):
    path = write("plain.csv", "1,2\n3,NaN\n")
    table = read_matrix(path, header=False)
    np.testing.assert_array_equal(table.to_numpy(), [[1.0, 2.0], [3.0, np.nan]])
    assert list(table.index) == [1, 2]
    assert list(table.columns) == [1, 2]
    named = read_matrix(write("named.csv", "x,2\ny,3\n"), header=False)
    assert list(named.index) == ["x", "y"]
    assert list(named.columns) == [2]
    assert read_matrix(path, header=False, drop=["1"]).shape == (2, 1)


def test_columns_can_be_left_out(write):
    path = write("t.csv", TABLE.replace("DYRK1A", "class").replace(",1\n", ",a\n").replace("-2e-1", "b"))
    assert list(read_matrix(path, drop=["class"]).columns) == ["BCL2"]
    assert "no column 'klass'; it has 'mouse', 'BCL2', 'class'" in refused(read_matrix, path, drop=["klass"])
    assert "only labels are left" in refused(read_matrix, path, drop=["class", "BCL2"])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive_the_way_through_a_file(number):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        write_table(pd.DataFrame({"a": [number], "b": [1.0]}), path)
        assert read_matrix(path).iloc[0, 0] == number


# --- what is refused ------------------------------------------------------------------------------------------------


def test_text_where_numbers_are_due(write):
    message = refused(read_matrix, write("t.csv", "name,a,b\nx,1,2\ny,1.5.2,\nz,1,high\n"))
    assert message == (
        "t.csv has 2 problems:\n"
        "  line 3, column 'a': expected a number, got '1.5.2'\n"
        "  line 4, column 'b': expected a number, got 'high'\n"
        "Leave a cell empty, or write NA, where a value is missing. "
        "A column that is no part of the data is left out with --drop NAME."
    )


@pytest.mark.parametrize(
    "cell", ["1,5", "1_000", "0x10", "inf", "-Infinity", "1e999", "1 000", "\u0663", "TRUE", "?", "-"]
)
def test_only_plain_numbers_are_numbers(write, cell):
    message = refused(read_matrix, write("t.csv", f'a,b\n1,2\n"{cell}",2\n'))
    assert f"line 3, column 'a': expected a number, got {cell!r}" in message


def test_no_more_than_ten_problems_are_listed(write):
    rows = "".join(f"{n},x{n}\n" for n in range(30))
    message = refused(read_matrix, write("t.csv", "a,b\n" + rows + "1,2\n"))
    assert message.startswith("t.csv has 30 problems:\n")
    assert message.count("expected a number") == 10
    assert "line 11," in message and "line 12," not in message
    assert "and 20 more" in message


def test_a_column_of_text_is_one_problem(write):
    message = refused(read_matrix, write("t.csv", "a,kind\n" + "1,red\n" * 50))
    assert "t.csv has 1 problem:\n  column 'kind': no cell is a number (line 2 has 'red')" in message


def test_long_cells_are_cut(write):
    message = refused(read_matrix, write("t.csv", "a,b\n1,2\n1," + "x" * 5000 + "\n"))
    assert len(message) < 400


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "t.csv is empty: expected a table"),
        ("t.csv", " \n\n", "t.csv is empty: expected a table"),
        ("t.csv", "a,b\n", "t.csv has a header and no rows"),
        ("t.csv.gz", b"", "t.csv.gz is empty: expected a table"),
        ("t.csv", "a;b;c\n1;2;3\n", "expected columns separated by commas, found none of these, but 2 semicolons"),
        ("t.tsv", "a,b\n1,2\n", "expected columns separated by tabs, found none of these, but 1 commas"),
        ("t.txt", "a b\n1 2\n", "cannot tell what separates the columns"),
        ("t.txt", "a,b;c\n1,2;3\n", "cannot tell what separates the columns"),
        (
            "t.csv",
            "a,b\n1,2\n1\n1,2,3\n\n4,5\n",
            "t.csv has 3 problems:\n  line 3 has 1 cell, expected 2\n  line 4 has 3",
        ),
        ("t.csv", "1,2\n3,4\n", "expected the names of the columns, found only numbers"),
        ("t.csv", "a,a\n1,2\n", "t.csv, line 1: two columns are called 'a'; names must be different"),
        ("t.csv", "a,\n1,2\n", "t.csv, line 1: column 2 has no name"),
        ("t.csv", 'a,b\n1,"2\n3,4\n', "Is a quotation mark left open?"),
        ("t.csv", b"a,b\n1,2\nM\xfcller,3\n", "t.csv, line 3: not text in UTF-8"),
        ("t.csv", b"a,b\n\x00\x01,2\n", "t.csv is not a text file"),
        ("t.csv", "n,a\nx,1\nx,2\n", "line 3, column 'n': the label 'x' is that of line 2 too"),
        ("t.csv", ",a\nx,1\n,2\n", "line 3, column '': expected the label of the row, got nothing"),
    ],
)
def test_files_that_cannot_be_used(write, name, text, message):
    assert message in refused(read_matrix, write(name, text))


def test_lines_are_those_of_the_file_also_after_quoted_breaks(write):
    message = refused(read_matrix, write("t.csv", 'n,a\n"one\nname",1\ny,x\nz,2\n'))
    assert "line 4, column 'a': expected a number, got 'x'" in message


def test_files_that_are_not_there(tmp_path):
    assert refused(read_matrix, tmp_path / "nowhere.csv") == "nowhere.csv does not exist"
    (tmp_path / "folder.csv").mkdir()
    assert refused(read_matrix, tmp_path / "folder.csv") == "folder.csv is a folder: expected a file"
    (tmp_path / "t.csv.gz").write_text(TABLE)
    assert "called .gz, but is not compressed" in refused(read_matrix, tmp_path / "t.csv.gz")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(TABLE.encode())[:20])
    assert refused(read_matrix, tmp_path / "cut.csv.gz") == "cut.csv.gz is damaged: it cannot be decompressed"


def test_a_delimiter_can_be_given(write):
    path = write("t.csv", TABLE.replace(",", "|"))
    check(read_matrix(path, delimiter="|"))
    assert read_cells(path, delimiter="|").columns == ["mouse", "BCL2", "DYRK1A"]


# --- networks -------------------------------------------------------------------------------------------------------

NETWORK = "node,ann,bob,cleo\nann,0,1,\nbob,0,0,1\ncleo,NA,1,0\n"


def test_square_tables(write):
    table = read_adjacency(write("n.csv", NETWORK))
    assert list(table.index) == list(table.columns) == ["ann", "bob", "cleo"]
    np.testing.assert_array_equal(table.to_numpy(), [[0, 1, np.nan], [0, 0, 1], [np.nan, 1, 0]])
    headless = read_adjacency(write("h.csv", "0,1\n0,0\n"), header=False)
    assert list(headless.index) == list(headless.columns) == [1, 2]
    unlabelled = read_adjacency(write("u.csv", "ann,bob\n0,1\n0,0\n"))
    assert list(unlabelled.index) == ["ann", "bob"]
    no_names_above = read_adjacency(write("l.csv", "ann,0,1\nbob,0,0\n"), header=False)
    assert list(no_names_above.columns) == ["ann", "bob"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (NETWORK.replace("bob,0,0,1", "bob,0,0,2"), {}, "line 3, column 'cleo': expected 0 or 1, got '2'"),
        ("a,b\n0,1\n", {}, "n.csv has 1 rows and 2 columns: expected a square table"),
        (NETWORK.replace("\nbob", "\nbab"), {}, "row 2 is 'bab' and column 2 is 'bob'"),
        (NETWORK, {"symmetric": True}, "row 'ann', column 'bob' is 1, row 'bob', column 'ann' is 0"),
        (NETWORK.replace("ann,0", "ann,1"), {}, "'ann' is linked with itself: say --self-links"),
    ],
)
def test_networks_that_cannot_be_used(write, text, options, message):
    assert message in refused(read_adjacency, write("n.csv", text), **options)


def test_links_of_nodes_with_themselves_once_it_is_said_what_they_are(write):
    path = write("n.csv", NETWORK.replace("ann,0", "ann,1"))
    for self_links in (True, False):
        assert read_adjacency(path, self_links=self_links).iloc[0, 0] == 1.0


def test_edges(write):
    edges = read_edges(write("e.csv", "source,target,value\nann,bob,1\nbob,7,\n7,ann,0\n"))
    assert edges["source"].tolist() == ["ann", "bob", "7"]
    assert edges["target"].tolist() == ["bob", "7", "ann"]
    np.testing.assert_array_equal(edges["value"], [1.0, np.nan, 0.0])
    plain = read_edges(write("p.tsv", "ann\tbob\nbob\tcleo\n"), header=False)
    assert plain["value"].tolist() == [1.0, 1.0]
    loops = write("l.csv", "source,target\na,a\na,b\n")
    assert len(read_edges(loops, self_links=False)) == 1
    assert len(read_edges(loops, self_links=True)) == 2


def test_edges_with_columns_that_are_left_out(write):
    path = write("w.csv", "source,target,weight,since,value\nann,bob,0.5,1990,1\nbob,7,0,1991,0\n")
    edges = read_edges(path, drop=["weight", "since"])
    assert list(edges.columns) == ["source", "target", "value"]
    assert edges["value"].tolist() == [1.0, 0.0]
    assert len(read_edges(write("h.csv", "9,ann,bob\n9,bob,cleo\n"), header=False, drop=["1"])) == 2
    table = read_adjacency(write("n.csv", "node,born,a,b\na,1990,0,1\nb,1991,0,0\n"), drop=["born"])
    assert list(table.columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("from,to\na,b\n", {}, "no column 'source': a list of edges has the columns source, target"),
        ("source,target\na,\n", {}, "line 2, column target: expected the name of a node, got nothing"),
        ("source,target,value\na,b,3\nb,c,1\n", {}, "line 2, column 'value': expected 0 or 1, got '3'"),
        ("source,target\na,a\n", {}, "line 2, node 'a' is linked with itself: say --self-links"),
        ("source,target,value\na,b,1\na,b,0\n", {}, "line 3, 'a' and 'b': value 0, but 1 on line 2"),
        (
            "source,target,value\na,b,1\nb,a,\n",
            {"symmetric": True},
            "line 3, 'b' and 'a': value missing, but 1 on line 2",
        ),
        ("a,b,1,2\n", {"header": False}, "has 4 columns: expected source, target"),
        (
            "source,target,weight\na,b,0.5\nb,c,0\n",
            {},
            "has a column 'weight': a list of edges has the columns source, target and, perhaps, value",
        ),
        ("source,target,w,t\na,b,1,2\n", {}, "has columns 'w', 't': a list of edges"),
        ("source,target\na,b\n", {"drop": ["w"]}, "has no column 'w'"),
        ("source,target\na,b\n", {"drop": ["source"]}, "has no column 'source'"),
    ],
)
def test_edges_that_cannot_be_used(write, text, options, message):
    assert message in refused(read_edges, write("e.csv", text), **options)


def test_records_know_their_lines(write):
    records = read_records(write("r.tsv", "mutation_id\tref\nm 1\t3\n\t4\n"))
    assert list(records.index) == ["line 2", "line 3"]
    assert records.loc["line 2"].tolist() == ["m 1", "3"]


# --- what is written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["=1+1", "+SUM(A1)", "-cmd|' /C calc'!A0", "@x", "\t=1", "\r=1"])
def test_labels_are_no_formulae(text, tmp_path):
    assert safe_cell(text) == "'" + text
    write_table(pd.DataFrame({text: [1.5], "label": [text]}), tmp_path / "t.csv")
    table = pd.read_csv(tmp_path / "t.csv")
    assert table.columns[0] == "'" + text
    assert table["label"][0] == "'" + text


@pytest.mark.parametrize("value", ["BCL2", "-1", "+0.5", "a=b", "", -1.5, 7, None])
def test_everything_else_stays_as_it_is(value):
    assert safe_cell(value) == value


def test_numbers_are_written_as_numbers_and_names_decide_the_format(tmp_path):
    table = pd.DataFrame({"a": [-1.5, np.nan], "b": ["x,y", "z"]})
    write_table(table, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == b'a,b\n-1.5,"x,y"\n,z\n'
    write_table(table, tmp_path / "t.tsv.gz")
    assert gzip.decompress((tmp_path / "t.tsv.gz").read_bytes()) == b"a\tb\n-1.5\tx,y\n\tz\n"
    write_table(table, tmp_path / "again.tsv.gz")
    assert (tmp_path / "again.tsv.gz").read_bytes() == (tmp_path / "t.tsv.gz").read_bytes()
