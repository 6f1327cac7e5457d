"""Every bad input gets one line that names file, line, column, what was found and what to do."""

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cofill.data.ratings import Ratings
from tests.bad_input import BadCall, BadFile, Said, refusal

HEAD = "user,item,rating,time\n"
GOOD = HEAD + "1,2,3,4\n"


SKIPPING = {"skip_bad_lines": 100}
BROKEN_PARQUET = Said("", "not a Parquet file", "write or fetch … again")


def frame(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [3.0, 4.0]} | columns)


def pandas_frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [3.0, 4.0]} | columns)


def parquet(table: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    table.write_parquet(file)
    return file.getvalue()


FILES = {
    "empty file": BadFile("", Said("", "empty", "one line for each rating")),
    "only a byte order mark": BadFile(b"\xef\xbb\xbf", Said("", "empty", "one line for each rating")),
    "only blank lines": BadFile("\n\r\n\n", Said("", "empty", "one line for each rating")),
    "header only": BadFile(HEAD, Said("", "a header and no ratings", "add ratings", {"header": False})),
    "header and blank lines": BadFile(
        HEAD + "\n\n", Said("", "a header and no ratings", "add ratings", {"header": False})
    ),
    "text as rating": BadFile(
        HEAD + "1,2,abc,4\n", Said("line 2, column 'rating'", "'abc' … number", "correct … remove", SKIPPING)
    ),
    "text as rating, late": BadFile(
        HEAD + "1,2,3,4\n" * 500 + "7,7,good,4\n",
        Said("line 502, column 'rating'", "'good' … number", "correct … remove", SKIPPING),
    ),
    "text as rating, no header": BadFile(
        "1,2,abc\n", Said("line 1, column 3 (rating)", "'abc' … number", "correct … remove", SKIPPING)
    ),
    "text as rating, ::": BadFile(
        "1::2::3::4\n1::3::x::4\n",
        Said("line 2, column 3 (rating)", "'x' … number", "correct … remove", SKIPPING),
        {},
        "r.dat",
    ),
    "underscore in a number": BadFile(
        HEAD + "1,2,1_0,4\n", Said("line 2, column 'rating'", "'1_0' … number", "correct … remove", SKIPPING)
    ),
    "decimal comma or thousands": BadFile(
        "1;2;3,500\n", Said("line 1, column 3 (rating)", "'3,500' … number", "correct … remove", SKIPPING)
    ),
    "decimal commas and points": BadFile(
        "1;2;3.5\n1;3;3,5\n", Said("line 2, column 3 (rating)", "'3,5' … number", "correct … remove", SKIPPING)
    ),
    "hexadecimal": BadFile(
        HEAD + "1,2,0x3,4\n", Said("line 2, column 'rating'", "'0x3' … number", "correct … remove", SKIPPING)
    ),
    "NaN": BadFile(
        GOOD + "1,3,NaN,4\n", Said("line 3, column 'rating'", "'NaN' … finite number", "correct … remove", SKIPPING)
    ),
    "NaN first, no header": BadFile(
        "1,3,nan\n", Said("line 1, column 3 (rating)", "'nan' … finite number", "correct … remove", SKIPPING)
    ),
    "infinity": BadFile(
        GOOD + "1,3,-inf,4\n", Said("line 3, column 'rating'", "'-inf' … finite number", "correct … remove", SKIPPING)
    ),
    "too big for a float": BadFile(
        GOOD + "1,3,1e39,4\n", Said("line 3, column 'rating'", "'1e39' … finite number", "correct … remove", SKIPPING)
    ),
    "empty rating": BadFile(
        GOOD + "1,3,,4\n", Said("line 3, column 'rating'", "empty … number", "fill … remove the line", SKIPPING)
    ),
    "empty user": BadFile(
        GOOD + ",3,3,4\n", Said("line 3, column 'user'", "empty … id", "fill … remove the line", SKIPPING)
    ),
    "empty item": BadFile(
        GOOD + "1,,3,4\n", Said("line 3, column 'item'", "empty … id", "fill … remove the line", SKIPPING)
    ),
    "empty quoted item": BadFile(
        GOOD + '1,"",3,4\n', Said("line 3, column 'item'", "empty … id", "fill … remove the line", SKIPPING)
    ),
    "empty time": BadFile(
        GOOD + "1,3,3,\n", Said("line 3, column 'time'", "empty … time", "fill … remove the line", SKIPPING)
    ),
    "text as time": BadFile(
        GOOD + "1,3,3,soon\n",
        Said("line 3, column 'time'", "'soon' … time", "Unix seconds … ISO dates", {"time": "", **SKIPPING}),
    ),
    "no such month": BadFile(
        "user,item,rating,date\n1,2,3,2020-01-01\n1,3,3,2020-13-01\n",
        Said(
            "line 3, column 'date'",
            "'2020-13-01' … time",
            "Unix seconds … ISO dates",
            {"time": "", **SKIPPING},
        ),
    ),
    "no such hour": BadFile(
        "user,item,rating,date\n1,2,3,2020-01-01T25:00\n",
        Said(
            "line 2, column 'date'",
            "'2020-01-01T25:00' … time",
            "Unix seconds … ISO dates",
            {"time": "", **SKIPPING},
        ),
    ),
    "a date among numbers": BadFile(
        GOOD + "1,3,3,2020-01-01\n",
        Said(
            "line 3, column 'time'",
            "'2020-01-01' … time",
            "Unix seconds … ISO dates",
            {"time": "", **SKIPPING},
        ),
    ),
    "infinite time": BadFile(
        GOOD + "1,3,3,inf\n",
        Said("line 3, column 'time'", "'inf' … finite time", "correct … remove", SKIPPING),
    ),
    "too few cells": BadFile(
        GOOD + "1,3,3\n",
        Said("line 3", "3 cells … 4 … '1,3,3'", "fix … remove", SKIPPING),
    ),
    "too many cells": BadFile(
        GOOD + "1,3,3,4,5\n",
        Said("line 3", "5 cells … 4 … '1,3,3,4,5'", "fix … remove", SKIPPING),
    ),
    "one short, one long": BadFile(
        GOOD + "1,3,3\n1,4,3,4,5\n",
        Said("line 3", "3 cells … 4 … '1,3,3'", "fix … remove", SKIPPING),
    ),
    "a comma too many at the end": BadFile(
        GOOD + "1,3,3,4,\n",
        Said("line 3", "5 cells … 4 … '1,3,3,4,'", "fix … remove", SKIPPING),
    ),
    "first line short": BadFile(
        "1,2\n3,4,5\n6,7,8\n",
        Said("line 1", "2 cells … 3 … '1,2'", "fix … remove", SKIPPING),
    ),
    "too many cells, ::": BadFile(
        "1::2::3::4\n1::x::2::4::5\n1::3::3::4\n",
        Said("line 2", "5 cells … 4 … '1::x::2::4::5'", "fix … remove", SKIPPING),
    ),
    "cut off in the last line": BadFile(
        "1::2::3::4\n1::3::3::4\n1::4\n",
        Said("line 3", "2 cells … 4 … '1::4'", "fix … remove", SKIPPING),
    ),
    "short in a column that is not used": BadFile(
        "user,item,rating,note,more\n1,2,3,a,b\n1,3,3,a\n",
        Said("line 3", "4 cells … 5 … '1,3,3,a'", "fix … remove", SKIPPING),
    ),
    "long in a column that is not used": BadFile(
        "user,item,rating,note,more\n1,2,3,a,b\n1,3,3,a,b,c\n",
        Said("line 3", "6 cells … 5 … '1,3,3,a,b,c'", "fix … remove", SKIPPING),
    ),
    "one short, one long in columns that are not used": BadFile(
        "user,item,rating,note,more\n1,2,3,a,b\n1,3,3,a\n1,4,3,a,b,c\n",
        Said("line 3", "4 cells … 5 … '1,3,3,a'", "fix … remove", SKIPPING),
    ),
    "blank line in the middle": BadFile(GOOD + "\n1,3,3,4\n", Said("line 3", "empty", "remove")),
    "blank line at the top": BadFile("\n" + GOOD, Said("line 1", "empty", "remove")),
    "Latin-1": BadFile(
        HEAD.encode() + b"1,caf\xe9,3,4\n",
        Said("line 2", "byte 0xe9 … not UTF-8", "save … UTF-8", {"encoding": "latin-1"}),
    ),
    "Latin-1, late": BadFile(
        HEAD.encode() + b"1,2,3,4\n" * 20_000 + b"1,caf\xe9,3,4\n",
        Said("line 20002", "byte 0xe9 … not UTF-8", "save … UTF-8", {"encoding": "latin-1"}),
    ),
    "Latin-1 below a quote": BadFile(
        HEAD.encode() + b'"1",2,3,4\n' * 20_000 + b"1,\xff,3,4\n",
        Said("line 20002", "byte 0xff … not UTF-8", "save … UTF-8", {"encoding": "latin-1"}),
    ),
    "UTF-16": BadFile(GOOD.encode("utf-16"), Said("", "UTF-16", "save … UTF-8", {"encoding": "utf-16"})),
    "truncated gzip": BadFile(
        gzip.compress(GOOD.encode())[:-6],
        Said("", "gzip data … cut short", "fetch … again"),
        {},
        "r.csv.gz",
    ),
    "not gzip": BadFile(GOOD, Said("", "not gzip", "rename … without .gz … fetch"), {}, "r.csv.gz"),
    "gzip of nothing": BadFile(gzip.compress(b""), Said("", "empty", "one line for each rating"), {}, "r.csv.gz"),
    "broken zip": BadFile(
        b"PK\x03\x04rest",
        Said("", "zip data … cut short", "fetch … again"),
        {},
        "r.zip",
    ),
    "zstd": BadFile(b"\x28\xb5\x2f\xfdrest", Said("", "zstd archive", "unpack … ratings file"), {}, "r.zst"),
    "no Parquet at all": BadFile(b"not Parquet at all", BROKEN_PARQUET, {}, "r.parquet"),
    "only the beginning of Parquet": BadFile(b"PAR1 cut short", BROKEN_PARQUET, {}, "r.parquet"),
    "Parquet of nothing": BadFile(b"PAR1\x00\x00\x00\x00PAR1", BROKEN_PARQUET, {}, "r.parquet"),
    "truncated Parquet": BadFile(parquet(frame())[:-20], BROKEN_PARQUET, {}, "r.parquet"),
    "an empty cell in Parquet": BadFile(
        parquet(frame(rating=[1.0, None])),
        Said("row 2, column 'rating'", "empty … number", "fill … remove the row"),
        {},
        "r.parquet",
    ),
    "empty Parquet": BadFile("", Said("", "empty", "one row for each rating"), {}, "r.parquet"),
    "unknown names": BadFile(
        "a,b,c\n1,2,3\n",
        Said(
            "line 1",
            "cannot tell a header … 'c'",
            "correct the line",
            {"header": True, "user": ..., "item": ..., "rating": ..., "no_header": False},
        ),
    ),
    "a word for a first rating": BadFile(
        "ann,jaws,good\nbob,jaws,3\n",
        Said(
            "line 1",
            "cannot tell a header … 'good'",
            "correct the line",
            {"header": True, "user": ..., "item": ..., "rating": ..., "no_header": False},
        ),
    ),
    "missing column": BadFile(
        "who,item,rating\n1,2,3\n",
        Said("", "no column … user … 'who', 'item', 'rating'", "a name or a position", {"user": ...}),
    ),
    "two columns": BadFile(
        "user,item\n1,2\n",
        Said("", "no column … rating … 'user', 'item'", "a name or a position", {"rating": ...}),
    ),
    "two columns, no header": BadFile(
        "1,2\n3,4\n",
        Said("line 1", "'1,2' … separator", "", {"separator": ...}),
    ),
    "no such column": BadFile(
        GOOD,
        Said(
            "",
            "there is no column 'nope' for the item; found 'user', 'item', 'rating', 'time'",
            "one of them",
            {"item": ...},
        ),
        {"item": "nope"},
    ),
    "no such position": BadFile(GOOD, Said("", "4 is not … there are 4", "from 0 to 3", {"user": ...}), {"user": 4}),
    "negative position": BadFile(GOOD, Said("", "-1 is not … there are 4", "from 0 to 3", {"user": ...}), {"user": -1}),
    "a name without a header": BadFile(
        "1,2,3\n",
        Said("", "'u' … user … no header", "position from 0", {"header": True}),
        {"user": "u", "header": False},
    ),
    "the same column twice": BadFile(
        GOOD,
        Said("", "'user' … both the user and the item", "", {"item": ...}),
        {"user": 0, "item": 0},
    ),
    "two columns of one name": BadFile(
        "user,user,item,rating\n1,2,3,4\n",
        Said("", "2 columns … 'user'", "position from 0", {"user": 0}),
        {"user": "user"},
    ),
    "two candidates": BadFile(
        "user,item,score,rating\n1,2,3,4\n",
        Said("", "'rating' and 'score' … both … rating", "", {"rating": "rating"}),
    ),
    "five columns, no header": BadFile(
        "1,2,3,4,5\n", Said("", "5 columns and no header", "", {"user": 0, "item": 1, "rating": 2})
    ),
    "no column left": BadFile(
        "1,2,3\n",
        Said("", "3 columns … none … user", "position", {"user": ...}),
        {"item": 0},
    ),
    "no separator": BadFile(
        "hello\nworld\n",
        Said("line 1", "'hello' … separator", "", {"separator": ...}),
    ),
    "ambiguous separator": BadFile(
        "1|2,3|4,5|6\n2|2,3|4,5|6\n",
        Said("", "both '|' and ',' … separator", "", {"separator": "|"}),
    ),
    "impossible separator": BadFile(GOOD, Said("", "'' cannot separate", "", {"separator": ","}), {"separator": ""}),
    "a quote that never closes": BadFile(
        GOOD + '"1,3,3,4\n',
        Said("line 3", "not closed", 'close it … ""'),
    ),
    "a quote that closes early": BadFile(
        HEAD + '"1"x,3,3,4\n',
        Said("line 2", "not closed", 'close it … ""'),
    ),
    "below a cell of two lines": BadFile(
        HEAD + '"a\nb",3,3,4\nc,3,x,4\n', Said("line 4, column 'rating'", "'x' … number", "correct … remove", SKIPPING)
    ),
    "outside the scale": BadFile(
        GOOD + "1,3,6,4\n",
        Said(
            "line 3, column 'rating'",
            "'6' outside the scale 1 to 5",
            "correct … widen",
            {"scale": ..., **SKIPPING},
        ),
        {"scale": (1, 5)},
    ),
    "a very long cell": BadFile(
        HEAD + "1,2," + "x" * 1000 + ",4\n",
        Said("line 2, column 'rating'", f"'{'x' * 55}...' … number", "correct … remove", SKIPPING),
    ),
}


@pytest.mark.parametrize("case", FILES.values(), ids=FILES.keys())
def test_bad_files(case: BadFile, tmp_path: Path) -> None:
    path = case.written(tmp_path)
    case.said.check(refusal(Ratings.read, path, **case.options), path)


RATING = [(1, 2, 3.0)]
OBJECTS = {
    "lists of columns": BadCall(
        lambda: Ratings.read([[1, 2, 3, 4, 5], [1, 1, 2, 2, 2], [3, 3, 3, 4, 4]]),
        Said("the tuples, row 1", "[1, 2, 3, 4, 5]", "tuples … columns in a tuple"),
    ),
    "an array of five columns": BadCall(
        lambda: Ratings.read(np.ones((4, 5))), Said("", "an array of the shape (4, 5)", "(user, item, rating[, time])")
    ),
    "null id": BadCall(
        lambda: Ratings.read(frame(user=[1, None])),
        Said("the polars DataFrame, row 2, column 'user'", "empty … id", "fill … remove the row"),
    ),
    "empty id": BadCall(
        lambda: Ratings.read(frame(item=["a", ""])),
        Said("the polars DataFrame, row 2, column 'item'", "empty … id", "fill … remove the row"),
    ),
    "null rating": BadCall(
        lambda: Ratings.read(frame(rating=[None, 3.0])),
        Said("the polars DataFrame, row 1, column 'rating'", "empty … number", "fill … remove the row"),
    ),
    "NaN rating": BadCall(
        lambda: Ratings.read(frame(rating=[1.0, float("nan")])),
        Said("the polars DataFrame, row 2, column 'rating'", "nan … finite number", "correct … remove"),
    ),
    "boolean ratings": BadCall(
        lambda: Ratings.read(frame(rating=[True, False])),
        Said("the polars DataFrame, row 1, column 'rating'", "Boolean", "numbers … convert"),
    ),
    "float ids": BadCall(
        lambda: Ratings.read(frame(user=[1.0, 2.0])),
        Said(
            "the polars DataFrame, row 1, column 'user'",
            "floats … 1.0",
            ".cast(pl.Int64) … .astype('int64')",
        ),
    ),
    "boolean ids": BadCall(
        lambda: Ratings.read(frame(user=[True, False])),
        Said("the polars DataFrame, row 1, column 'user'", "Boolean", "strings or integers … convert"),
    ),
    "ids beyond 64 bits": BadCall(
        lambda: Ratings.read(frame(user=pl.Series([1, 2**63], dtype=pl.UInt64))),
        Said("the polars DataFrame, row 2, column 'user'", "9223372036854775808 … id of 64 bits", "as strings"),
    ),
    "times of another kind": BadCall(
        lambda: Ratings.read(frame(time=[True, False])),
        Said("the polars DataFrame, row 1, column 'time'", "Boolean", "numbers, dates or datetimes"),
    ),
    "frame without rows": BadCall(
        lambda: Ratings.read(frame().clear()),
        Said("the polars DataFrame", "no rows", "each rating needs a row"),
    ),
    "frame without users": BadCall(
        lambda: Ratings.read(frame().drop("user")),
        Said("the polars DataFrame", "no column … user … 'item', 'rating'", "a name or a position", {"user": ...}),
    ),
    "pandas NaN id": BadCall(
        lambda: Ratings.read(pandas_frame(user=[1, None])),
        Said("the pandas DataFrame, row 2, column 'user'", "NaN … id", "drop such rows … .astype('int64')"),
    ),
    "pandas None id": BadCall(
        lambda: Ratings.read(pandas_frame(user=["a", None])),
        Said("the pandas DataFrame, row 2, column 'user'", "empty … id", "fill … remove the row"),
    ),
    "pandas NA id": BadCall(
        lambda: Ratings.read(pandas_frame(user=pd.array([1, None], dtype="Int64"))),
        Said("the pandas DataFrame, row 2, column 'user'", "empty … id", "fill … remove the row"),
    ),
    "pandas NA rating": BadCall(
        lambda: Ratings.read(pandas_frame(rating=pd.array([1.5, None], dtype="Float64"))),
        Said("the pandas DataFrame, row 2, column 'rating'", "empty … number", "fill … remove the row"),
    ),
    "pandas NaN rating": BadCall(
        lambda: Ratings.read(pandas_frame(rating=[1.0, np.nan])),
        Said("the pandas DataFrame, row 2, column 'rating'", "nan … finite number", "correct … remove"),
    ),
    "pandas mixed ids": BadCall(
        lambda: Ratings.read(pandas_frame(user=["a", 3])),
        Said("the pandas DataFrame, row 2, column 'user'", "3 (int) beside 'a'", "one type"),
    ),
    "arrays of different lengths": BadCall(
        lambda: Ratings.read(([1, 2], [3, 4], [1.0])),
        Said("", "length … 2 users, 2 items, 1 ratings", "one entry in every array"),
    ),
    "empty arrays": BadCall(
        lambda: Ratings.read((np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))),
        Said("the arrays", "no rows", "each rating needs a row"),
    ),
    "a matrix among the arrays": BadCall(
        lambda: Ratings.read((np.ones((2, 2), np.int64), [1, 2], [1, 2])),
        Said("the arrays", "users … (2, 2)", "one dimension"),
    ),
    "float ids in arrays": BadCall(
        lambda: Ratings.read((np.array([1.5, 2.5]), [1, 2], [1, 2])),
        Said("the arrays, row 1, the users", "floats … 1.5", ".cast(pl.Int64) … .astype('int64')"),
    ),
    "infinity in arrays": BadCall(
        lambda: Ratings.read(([1, 2], [1, 2], np.array([1.0, np.inf]))),
        Said("the arrays, row 2, the ratings", "inf … finite number", "correct … remove"),
    ),
    "mixed ids in tuples": BadCall(
        lambda: Ratings.read([(1, 2, 3.0), (1, "b", 3.0)]),
        Said("the tuples, row 2, the item", "'b' (str) beside 2", "one type"),
    ),
    "a pair among tuples": BadCall(
        lambda: Ratings.read([(1, 2, 3.0), (1, 3)]),
        Said("the tuples, row 2", "(1, 3)", "(user, item, rating[, time])"),
    ),
    "a time now and then": BadCall(
        lambda: Ratings.read([(1, 2, 3.0), (1, 3, 3.0, 4)]),
        Said("the tuples, row 2", "4 entries … first row has 3", "a time, or none"),
    ),
    "no tuples": BadCall(lambda: Ratings.read(iter([])), Said("the tuples", "none", "at least one")),
    "text as rating in tuples": BadCall(
        lambda: Ratings.read([(1, 2, "x")]),
        Said("the tuples, row 1, the rating", "'x' … number", "correct … remove"),
    ),
    "None in tuples": BadCall(
        lambda: Ratings.read([(None, 2, 3.0)]),
        Said("the tuples, row 1, the user", "empty … id", "fill … remove the row"),
    ),
    "a pandas Series": BadCall(
        lambda: Ratings.read(pandas_frame().set_index(["user", "item"])["rating"]),
        Said("", "Series … one column", "series.reset_index()"),
    ),
    "a number": BadCall(
        lambda: Ratings.read(5), Said("", "cannot read ratings from int", "a path … DataFrame … arrays … tuples")
    ),
    "a dictionary": BadCall(
        lambda: Ratings.read({"user": [1]}),
        Said("the columns", "no column … item … 'user'", "a name or a position", {"item": ...}),
    ),
    "a missing file": BadCall(
        lambda: Ratings.read("nowhere.csv"), Said("nowhere.csv", "no such file", "check the path … current folder")
    ),
    "a folder": BadCall(lambda: Ratings.read("."), Said(".", "folder", "ratings file in it")),
    "a scale upside down": BadCall(
        lambda: Ratings.read(RATING, scale=(5, 1)), Said("", "(5.0, 1.0) … scale", "(1, 5)")
    ),
    "a scale of one rating": BadCall(
        lambda: Ratings.read(RATING, scale=(1, 1)), Said("", "(1.0, 1.0) … scale", "(1, 5)")
    ),
    "a scale from NaN": BadCall(
        lambda: Ratings.read(RATING, scale=(float("nan"), 5)), Said("", "(nan, 5.0) … scale", "(1, 5)")
    ),
    "a scale without an end": BadCall(
        lambda: Ratings.read(RATING, scale=(0, float("inf"))), Said("", "(0.0, inf) … scale", "(1, 5)")
    ),
    "a separator of tuples": BadCall(
        lambda: Ratings.read(RATING, separator=","), Said("", "separator and header … text files", "leave them out")
    ),
    "a column of tuples": BadCall(
        lambda: Ratings.read(RATING, user=0), Said("", "user= names a column", "have an order")
    ),
}


@pytest.mark.parametrize("case", OBJECTS.values(), ids=OBJECTS.keys())
def test_bad_objects(case: BadCall) -> None:
    case.said.check(refusal(case.call))


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    ratings = Ratings.read(RATING)
    path = tmp_path / "r.txt"
    Said("", "format", ".csv, .tsv").check(refusal(ratings.write, path), path)
    (tmp_path / "file").write_text("no folder")
    path = tmp_path / "file" / "r.csv"
    error = refusal(ratings.write, path)
    Said("", "not written", "check the path").check(error, path)
    assert "Not a directory" in error.found or "File exists" in error.found
