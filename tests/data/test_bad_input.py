"""Every bad input gets one line that names file, line, column, what was found and what to do."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cofill.data import delimited
from cofill.data.ratings import Ratings
from cofill.errors import DataError

HEAD = "user,item,rating,time\n"
GOOD = HEAD + "1,2,3,4\n"


class File(NamedTuple):
    """A file with this content, and how it is read. The message begins with its path."""

    content: str | bytes
    message: str
    options: dict[str, Any] = {}  # noqa: RUF012
    name: str = "r.csv"


SKIPPING = ", or have such lines skipped with skip_bad_lines=100"
NUMBER = "where a number belongs; correct or remove it"
FINITE = "where a finite number belongs; correct or remove it"
EMPTY = "fill it in or remove the line"
TIME = "where a time belongs; write Unix seconds or ISO dates throughout, or leave the column out with time=''"
CLOSE = 'close it, and write a quote inside a cell as ""'
HEADER_ONLY = ": a header and no ratings below it; add ratings, or pass header=False if line 1 is one"
NO_LINES = ": the file is empty; it needs one line for each rating: user, item, rating"
SAVE = "is not UTF-8; if the file is older, pass encoding='latin-1'; or save it as UTF-8"
POSITION = ", by name or position from 0"
UNDECIDED = (
    "is no number, and no cell is a usual column name; pass header=True with user=..., item=..., rating=..., "
    "or header=False and correct the line"
)

FILES = {
    "empty file": File("", NO_LINES),
    "only a byte order mark": File(b"\xef\xbb\xbf", NO_LINES),
    "only blank lines": File("\n\r\n\n", NO_LINES),
    "header only": File(HEAD, HEADER_ONLY),
    "header and blank lines": File(HEAD + "\n\n", HEADER_ONLY),
    "text as rating": File(HEAD + "1,2,abc,4\n", f", line 2, column 'rating': found 'abc' {NUMBER}"),
    "text as rating, late": File(
        HEAD + "1,2,3,4\n" * 500 + "7,7,good,4\n", f", line 502, column 'rating': found 'good' {NUMBER}"
    ),
    "text as rating, no header": File("1,2,abc\n", f", line 1, column 3 (rating): found 'abc' {NUMBER}"),
    "text as rating, ::": File(
        "1::2::3::4\n1::3::x::4\n", f", line 2, column 3 (rating): found 'x' {NUMBER}", {}, "r.dat"
    ),
    "underscore in a number": File(HEAD + "1,2,1_0,4\n", f", line 2, column 'rating': found '1_0' {NUMBER}"),
    "decimal comma or thousands": File("1;2;3,500\n", f", line 1, column 3 (rating): found '3,500' {NUMBER}"),
    "decimal commas and points": File("1;2;3.5\n1;3;3,5\n", f", line 2, column 3 (rating): found '3,5' {NUMBER}"),
    "hexadecimal": File(HEAD + "1,2,0x3,4\n", f", line 2, column 'rating': found '0x3' {NUMBER}"),
    "NaN": File(GOOD + "1,3,NaN,4\n", f", line 3, column 'rating': found 'NaN' {FINITE}"),
    "NaN first, no header": File("1,3,nan\n", f", line 1, column 3 (rating): found 'nan' {FINITE}"),
    "infinity": File(GOOD + "1,3,-inf,4\n", f", line 3, column 'rating': found '-inf' {FINITE}"),
    "too big for a float": File(GOOD + "1,3,1e39,4\n", f", line 3, column 'rating': found '1e39' {FINITE}"),
    "empty rating": File(
        GOOD + "1,3,,4\n", f", line 3, column 'rating': the cell is empty where a number belongs; {EMPTY}"
    ),
    "empty user": File(GOOD + ",3,3,4\n", f", line 3, column 'user': the cell is empty where an id belongs; {EMPTY}"),
    "empty item": File(GOOD + "1,,3,4\n", f", line 3, column 'item': the cell is empty where an id belongs; {EMPTY}"),
    "empty quoted item": File(
        GOOD + '1,"",3,4\n', f", line 3, column 'item': the cell is empty where an id belongs; {EMPTY}"
    ),
    "empty time": File(GOOD + "1,3,3,\n", f", line 3, column 'time': the cell is empty where a time belongs; {EMPTY}"),
    "text as time": File(GOOD + "1,3,3,soon\n", f", line 3, column 'time': found 'soon' {TIME}"),
    "no such month": File(
        "user,item,rating,date\n1,2,3,2020-01-01\n1,3,3,2020-13-01\n",
        f", line 3, column 'date': found '2020-13-01' {TIME}",
    ),
    "no such hour": File(
        "user,item,rating,date\n1,2,3,2020-01-01T25:00\n",
        f", line 2, column 'date': found '2020-01-01T25:00' {TIME}",
    ),
    "a date among numbers": File(GOOD + "1,3,3,2020-01-01\n", f", line 3, column 'time': found '2020-01-01' {TIME}"),
    "infinite time": File(
        GOOD + "1,3,3,inf\n",
        ", line 3, column 'time': found 'inf' where a finite time belongs; correct or remove it",
    ),
    "too few cells": File(
        GOOD + "1,3,3\n",
        ", line 3: found 3 cells where the header has 4 (separator ','): '1,3,3'; fix or remove it",
    ),
    "too many cells": File(
        GOOD + "1,3,3,4,5\n",
        ", line 3: found 5 cells where the header has 4 (separator ','): '1,3,3,4,5'; fix or remove it",
    ),
    "one short, one long": File(
        GOOD + "1,3,3\n1,4,3,4,5\n",
        ", line 3: found 3 cells where the header has 4 (separator ','): '1,3,3'; fix or remove it",
    ),
    "a comma too many at the end": File(
        GOOD + "1,3,3,4,\n",
        ", line 3: found 5 cells where the header has 4 (separator ','): '1,3,3,4,'; fix or remove it",
    ),
    "first line short": File(
        "1,2\n3,4,5\n6,7,8\n",
        ", line 1: found 2 cells where the other lines have 3 (separator ','): '1,2'; fix or remove it",
    ),
    "too many cells, ::": File(
        "1::2::3::4\n1::x::2::4::5\n1::3::3::4\n",
        ", line 2: found 5 cells where the other lines have 4 (separator '::'): '1::x::2::4::5'; fix or remove it",
    ),
    "cut off in the last line": File(
        "1::2::3::4\n1::3::3::4\n1::4\n",
        ", line 3: found 2 cells where the other lines have 4 (separator '::'): '1::4'; fix or remove it",
    ),
    "short in a column that is not used": File(
        "user,item,rating,note,more\n1,2,3,a,b\n1,3,3,a\n",
        ", line 3: found 4 cells where the header has 5 (separator ','): '1,3,3,a'; fix or remove it",
    ),
    "long in a column that is not used": File(
        "user,item,rating,note,more\n1,2,3,a,b\n1,3,3,a,b,c\n",
        ", line 3: found 6 cells where the header has 5 (separator ','): '1,3,3,a,b,c'; fix or remove it",
    ),
    "one short, one long in columns that are not used": File(
        "user,item,rating,note,more\n1,2,3,a,b\n1,3,3,a\n1,4,3,a,b,c\n",
        ", line 3: found 4 cells where the header has 5 (separator ','): '1,3,3,a'; fix or remove it",
    ),
    "blank line in the middle": File(GOOD + "\n1,3,3,4\n", ", line 3: the line is empty; remove it"),
    "blank line at the top": File("\n" + GOOD, ", line 1: the line is empty; remove it"),
    "Latin-1": File(HEAD.encode() + b"1,caf\xe9,3,4\n", f", line 2: byte 0xe9 {SAVE}"),
    "Latin-1, late": File(
        HEAD.encode() + b"1,2,3,4\n" * 20_000 + b"1,caf\xe9,3,4\n", f", line 20002: byte 0xe9 {SAVE}"
    ),
    "Latin-1 below a quote": File(
        HEAD.encode() + b'"1",2,3,4\n' * 20_000 + b"1,\xff,3,4\n", f", line 20002: byte 0xff {SAVE}"
    ),
    "UTF-16": File(
        GOOD.encode("utf-16"), ": the file is UTF-16, not UTF-8; pass encoding='utf-16', or save it as UTF-8"
    ),
    "truncated gzip": File(
        gzip.compress(GOOD.encode())[:-6],
        ": the gzip data is broken or cut short (Compressed file ended before the end-of-stream "
        "marker was reached); "
        "fetch the file again",
        {},
        "r.csv.gz",
    ),
    "not gzip": File(GOOD, ": this is not gzip data; rename it without .gz, or fetch the file again", {}, "r.csv.gz"),
    "gzip of nothing": File(gzip.compress(b""), NO_LINES, {}, "r.csv.gz"),
    "broken zip": File(
        b"PK\x03\x04rest",
        ": the zip data is broken or cut short (File is not a zip file); fetch the file again",
        {},
        "r.zip",
    ),
    "zstd": File(
        b"\x28\xb5\x2f\xfdrest", ": this is a zstd archive; unpack it and pass the ratings file in it", {}, "r.zst"
    ),
    "empty Parquet": File(
        "", ": the file is empty; it needs one row for each rating: user, item, rating", {}, "r.parquet"
    ),
    "unknown names": File("a,b,c\n1,2,3\n", f", line 1: cannot tell a header from a rating: 'c' {UNDECIDED}"),
    "a word for a first rating": File(
        "ann,jaws,good\nbob,jaws,3\n", f", line 1: cannot tell a header from a rating: 'good' {UNDECIDED}"
    ),
    "missing column": File(
        "who,item,rating\n1,2,3\n",
        f": no column is recognised as the user; found 'who', 'item', 'rating'; say which with user=...{POSITION}",
    ),
    "two columns": File(
        "user,item\n1,2\n",
        f": no column is recognised as the rating; found 'user', 'item'; say which with rating=...{POSITION}",
    ),
    "two columns, no header": File(
        "1,2\n3,4\n",
        ", line 1: found '1,2', which no usual separator cuts into user, item and rating; pass separator=...",
    ),
    "no such column": File(
        GOOD,
        ": there is no column 'nope' for the item; found 'user', 'item', 'rating', 'time'; "
        "pass one of them as item=...",
        {"item": "nope"},
    ),
    "no such position": File(
        GOOD, ": 4 is not the position of a column; there are 4; pass user=..., from 0 to 3", {"user": 4}
    ),
    "negative position": File(
        GOOD, ": -1 is not the position of a column; there are 4; pass user=..., from 0 to 3", {"user": -1}
    ),
    "a name without a header": File(
        "1,2,3\n",
        ": 'u', which is to be the user, names a column, but there is no header; "
        "give its position from 0, or header=True",
        {"user": "u", "header": False},
    ),
    "the same column twice": File(
        GOOD,
        ": 'user' would be both the user and the item; choose another with item=...",
        {"user": 0, "item": 0},
    ),
    "two columns of one name": File(
        "user,user,item,rating\n1,2,3,4\n",
        ": 2 columns are called 'user'; choose one by its position from 0, such as user=0",
        {"user": "user"},
    ),
    "two candidates": File(
        "user,item,score,rating\n1,2,3,4\n",
        ": 'rating' and 'score' could both be the rating; choose one with rating='rating'",
    ),
    "five columns, no header": File(
        "1,2,3,4,5\n", ": 5 columns and no header; say which to use, such as user=0, item=1, rating=2"
    ),
    "no column left": File(
        "1,2,3\n",
        ": 3 columns and none is left for the user; user, item and rating are needed: "
        "give a position with user=..., from 0",
        {"item": 0},
    ),
    "no separator": File(
        "hello\nworld\n",
        ", line 1: found 'hello', which no usual separator cuts into user, item and rating; pass separator=...",
    ),
    "ambiguous separator": File(
        "1|2,3|4,5|6\n2|2,3|4,5|6\n",
        ": both '|' and ',' could be the separator; pass the right one, such as separator='|'",
    ),
    "impossible separator": File(
        GOOD, ": '' cannot separate columns; use one such as separator=','", {"separator": ""}
    ),
    "a quote that never closes": File(
        GOOD + '"1,3,3,4\n',
        f", line 3: a quoted cell is not closed properly (unexpected end of data); {CLOSE}",
    ),
    "a quote that closes early": File(
        HEAD + '"1"x,3,3,4\n',
        f""", line 2: a quoted cell is not closed properly (',' expected after '"'); {CLOSE}""",
    ),
    "below a cell of two lines": File(
        HEAD + '"a\nb",3,3,4\nc,3,x,4\n', f", line 4, column 'rating': found 'x' {NUMBER}"
    ),
    "outside the scale": File(
        GOOD + "1,3,6,4\n",
        ", line 3, column 'rating': found '6' outside the scale 1 to 5; correct it, or widen scale=...",
        {"scale": (1, 5)},
    ),
    "a very long cell": File(
        HEAD + "1,2," + "x" * 1000 + ",4\n", f", line 2, column 'rating': found '{'x' * 55}...' {NUMBER}"
    ),
}


@pytest.mark.parametrize("late", [False, True], ids=["", "beyond the sample"])
@pytest.mark.parametrize("case", FILES.values(), ids=FILES.keys())
def test_bad_files(case: File, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if late:  # as if the first lines had all looked well
        monkeypatch.setattr(delimited, "_looks_typed", lambda layout: "title" not in layout.columns)
    path = tmp_path / case.name
    path.write_bytes(case.content if isinstance(case.content, bytes) else case.content.encode())
    with pytest.raises(DataError) as caught:
        Ratings.read(path, **case.options)
    assert str(caught.value).removesuffix(SKIPPING) == f"{path}{case.message}"


def frame(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [3.0, 4.0]} | columns)


def pandas_frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [3.0, 4.0]} | columns)


EMPTY_ROW = "fill it in or remove the row"
CAST = "ids are strings or integers: .cast(pl.Int64) in polars, .astype('int64') in pandas"
PASS = (
    "pass a path, a polars or pandas DataFrame, arrays (users, items, ratings[, times]), "
    "or (user, item, rating[, time]) tuples"
)
MIXED = "ids are all strings or all integers: make them one type"

OBJECTS: dict[str, tuple[Callable[[], object], str]] = {
    "null id": (
        lambda: frame(user=[1, None]),
        f"the polars DataFrame, row 2, column 'user': the cell is empty where an id belongs; {EMPTY_ROW}",
    ),
    "empty id": (
        lambda: frame(item=["a", ""]),
        f"the polars DataFrame, row 2, column 'item': the cell is empty where an id belongs; {EMPTY_ROW}",
    ),
    "null rating": (
        lambda: frame(rating=[None, 3.0]),
        f"the polars DataFrame, row 1, column 'rating': the cell is empty where a number belongs; {EMPTY_ROW}",
    ),
    "NaN rating": (
        lambda: frame(rating=[1.0, float("nan")]),
        f"the polars DataFrame, row 2, column 'rating': found nan {FINITE}",
    ),
    "boolean ratings": (
        lambda: frame(rating=[True, False]),
        "the polars DataFrame, row 1, column 'rating': the ratings are of type Boolean; "
        "ratings are numbers: convert the column",
    ),
    "float ids": (
        lambda: frame(user=[1.0, 2.0]),
        f"the polars DataFrame, row 1, column 'user': the ids are floats, the first is 1.0; {CAST}",
    ),
    "boolean ids": (
        lambda: frame(user=[True, False]),
        "the polars DataFrame, row 1, column 'user': the ids are of type Boolean; "
        "ids are strings or integers: convert the column",
    ),
    "ids beyond 64 bits": (
        lambda: frame(user=pl.Series([1, 2**63], dtype=pl.UInt64)),
        "the polars DataFrame, row 2, column 'user': found 9223372036854775808 where an id of 64 "
        "bits belongs; "
        "pass such ids as strings",
    ),
    "times of another kind": (
        lambda: frame(time=[True, False]),
        "the polars DataFrame, row 1, column 'time': the times are of type Boolean; give numbers, dates or datetimes",
    ),
    "frame without rows": (
        lambda: frame().clear(),
        "the polars DataFrame: there are no rows; each rating needs a row: user, item, rating",
    ),
    "frame without users": (
        lambda: frame().drop("user"),
        "the polars DataFrame: no column is recognised as the user; found 'item', 'rating'; "
        f"say which with user=...{POSITION}",
    ),
    "pandas NaN id": (
        lambda: pandas_frame(user=[1, None]),
        "the pandas DataFrame, row 2, column 'user': found NaN where an id belongs; drop such rows, then "
        ".astype('int64'): pandas makes floats of integers when some are missing",
    ),
    "pandas None id": (
        lambda: pandas_frame(user=["a", None]),
        f"the pandas DataFrame, row 2, column 'user': the cell is empty where an id belongs; {EMPTY_ROW}",
    ),
    "pandas NA id": (
        lambda: pandas_frame(user=pd.array([1, None], dtype="Int64")),
        f"the pandas DataFrame, row 2, column 'user': the cell is empty where an id belongs; {EMPTY_ROW}",
    ),
    "pandas NA rating": (
        lambda: pandas_frame(rating=pd.array([1.5, None], dtype="Float64")),
        f"the pandas DataFrame, row 2, column 'rating': the cell is empty where a number belongs; {EMPTY_ROW}",
    ),
    "pandas NaN rating": (
        lambda: pandas_frame(rating=[1.0, np.nan]),
        f"the pandas DataFrame, row 2, column 'rating': found nan {FINITE}",
    ),
    "pandas mixed ids": (
        lambda: pandas_frame(user=["a", 3]),
        f"the pandas DataFrame, row 2, column 'user': found 3 (int) beside 'a'; {MIXED}",
    ),
    "arrays of different lengths": (
        lambda: ([1, 2], [3, 4], [1.0]),
        "the arrays differ in length: 2 users, 2 items, 1 ratings; each rating needs one entry in every array",
    ),
    "empty arrays": (
        lambda: (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)),
        "the arrays: there are no rows; each rating needs a row: user, item, rating",
    ),
    "a matrix among the arrays": (
        lambda: (np.ones((2, 2), np.int64), [1, 2], [1, 2]),
        "the arrays: the users have shape (2, 2); pass one dimension",
    ),
    "float ids in arrays": (
        lambda: (np.array([1.5, 2.5]), [1, 2], [1, 2]),
        f"the arrays, row 1, the users: the ids are floats, the first is 1.5; {CAST}",
    ),
    "infinity in arrays": (
        lambda: ([1, 2], [1, 2], np.array([1.0, np.inf])),
        f"the arrays, row 2, the ratings: found inf {FINITE}",
    ),
    "mixed ids in tuples": (
        lambda: [(1, 2, 3.0), (1, "b", 3.0)],
        f"the tuples, row 2, the item: found 'b' (str) beside 2; {MIXED}",
    ),
    "a pair among tuples": (
        lambda: [(1, 2, 3.0), (1, 3)],
        "the tuples, row 2: found (1, 3); pass (user, item, rating[, time]) tuples",
    ),
    "a time now and then": (
        lambda: [(1, 2, 3.0), (1, 3, 3.0, 4)],
        "the tuples, row 2: found 4 entries where the first row has 3; give all of them a time, or none",
    ),
    "no tuples": (lambda: iter([]), "the tuples: there are none; pass at least one (user, item, rating)"),
    "text as rating in tuples": (lambda: [(1, 2, "x")], f"the tuples, row 1, the rating: found 'x' {NUMBER}"),
    "None in tuples": (
        lambda: [(None, 2, 3.0)],
        f"the tuples, row 1, the user: the cell is empty where an id belongs; {EMPTY_ROW}",
    ),
    "a number": (lambda: 5, f"cannot read ratings from int; {PASS}"),
    "a dictionary": (lambda: {"user": [1]}, f"cannot read ratings from dict; {PASS}"),
}


@pytest.mark.parametrize(("make", "message"), OBJECTS.values(), ids=OBJECTS.keys())
def test_bad_objects(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError) as caught:
        Ratings.read(make())
    assert str(caught.value) == message


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no\.csv: there is no such file; check the path \(the current folder is "):
        Ratings.read(tmp_path / "no.csv")
    with pytest.raises(DataError, match=r": this is a folder; pass the ratings file in it$"):
        Ratings.read(tmp_path)


@pytest.mark.parametrize("content", [b"not Parquet at all", b"PAR1 cut short", b"PAR1\x00\x00\x00\x00PAR1"])
def test_broken_parquet(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"r\.parquet: not a Parquet file, or a broken one \([^\n]*\); write or fetch"):
        Ratings.read(path)


def test_truncated_parquet(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    frame().write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"r\.parquet: not a Parquet file, or a broken one"):
        Ratings.read(path)


def test_bad_cells_in_parquet_are_named_by_row(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    frame(rating=[1.0, None]).write_parquet(path)
    with pytest.raises(DataError) as caught:
        Ratings.read(path)
    assert str(caught.value) == (
        f"{path}, row 2, column 'rating': the cell is empty where a number belongs; {EMPTY_ROW}"
    )


@pytest.mark.parametrize("scale", [(5, 1), (1, 1), (float("nan"), 5), (0, float("inf"))])
def test_a_scale_that_is_none(scale: tuple[float, float]) -> None:
    with pytest.raises(DataError, match=r"is not a scale; give its least and greatest rating, such as \(1, 5\)$"):
        Ratings.read([(1, 2, 3.0)], scale=scale)


def test_options_that_do_not_belong() -> None:
    with pytest.raises(DataError, match="separator and header are for text files"):
        Ratings.read([(1, 2, 3.0)], separator=",")
    with pytest.raises(DataError, match=r"user=, item=, .* are for files and frames"):
        Ratings.read([(1, 2, 3.0)], user=0)


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    ratings = Ratings.read([(1, 2, 3.0)])
    with pytest.raises(DataError, match=r"r\.txt: cannot tell the format; end the name in \.csv, \.tsv"):
        ratings.write(tmp_path / "r.txt")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataError, match=r"r\.csv: not written \((Not a directory|File exists)\); check the path"):
        ratings.write(tmp_path / "file" / "r.csv")
