"""Every bad input gets one line that names file, line, column, what was found and what to do."""

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from cofill.data.ratings import Ratings
from tests.bad_input import BadCall, BadFile, Said, refusal

HEAD = "user,item,rating,time\n"
GOOD = HEAD + "1,2,3,4\n"


def frame(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [3.0, 4.0]} | columns)


def pandas_frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [3.0, 4.0]} | columns)


def parquet(table: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    table.write_parquet(file)
    return file.getvalue()


FILES = {
    "empty file": BadFile(""),
    "only a byte order mark": BadFile(b"\xef\xbb\xbf"),
    "only blank lines": BadFile("\n\r\n\n"),
    "header only": BadFile(HEAD),
    "header and blank lines": BadFile(HEAD + "\n\n"),
    "text as rating": BadFile(HEAD + "1,2,abc,4\n"),
    "text as rating, late": BadFile(HEAD + "1,2,3,4\n" * 500 + "7,7,good,4\n"),
    "text as rating, no header": BadFile("1,2,abc\n"),
    "text as rating, ::": BadFile("1::2::3::4\n1::3::x::4\n", {}, "r.dat"),
    "underscore in a number": BadFile(HEAD + "1,2,1_0,4\n"),
    "decimal comma or thousands": BadFile("1;2;3,500\n"),
    "decimal commas and points": BadFile("1;2;3.5\n1;3;3,5\n"),
    "hexadecimal": BadFile(HEAD + "1,2,0x3,4\n"),
    "NaN": BadFile(GOOD + "1,3,NaN,4\n"),
    "NaN first, no header": BadFile("1,3,nan\n"),
    "infinity": BadFile(GOOD + "1,3,-inf,4\n"),
    "too big for a float": BadFile(GOOD + "1,3,1e39,4\n"),
    "empty rating": BadFile(GOOD + "1,3,,4\n"),
    "empty user": BadFile(GOOD + ",3,3,4\n"),
    "empty item": BadFile(GOOD + "1,,3,4\n"),
    "empty quoted item": BadFile(GOOD + '1,"",3,4\n'),
    "empty time": BadFile(GOOD + "1,3,3,\n"),
    "text as time": BadFile(GOOD + "1,3,3,soon\n"),
    "no such month": BadFile("user,item,rating,date\n1,2,3,2020-01-01\n1,3,3,2020-13-01\n"),
    "no such hour": BadFile("user,item,rating,date\n1,2,3,2020-01-01T25:00\n"),
    "a day that is none": BadFile("user,item,rating,date\n1,2,3,20100105\n1,3,3,20100230\n1,4,3,20100301\n"),
    "seconds among days": BadFile("user,item,rating,date\n1,2,3,20100105\n1,3,3,1262649600\n1,4,3,20100301\n"),
    "a day among seconds": BadFile("user,item,rating,date\n1,2,3,1262649600\n1,3,3,20100105\n1,4,3,1262649601\n"),
    "a date among numbers": BadFile(GOOD + "1,3,3,2020-01-01\n"),
    "infinite time": BadFile(GOOD + "1,3,3,inf\n"),
    "too few cells": BadFile(GOOD + "1,3,3\n"),
    "too many cells": BadFile(GOOD + "1,3,3,4,5\n"),
    "one short, one long": BadFile(GOOD + "1,3,3\n1,4,3,4,5\n"),
    "a comma too many at the end": BadFile(GOOD + "1,3,3,4,\n"),
    "first line short": BadFile("1,2\n3,4,5\n6,7,8\n"),
    "too many cells, ::": BadFile("1::2::3::4\n1::x::2::4::5\n1::3::3::4\n"),
    "cut off in the last line": BadFile("1::2::3::4\n1::3::3::4\n1::4\n"),
    "short in a column that is not used": BadFile("user,item,rating,note,more\n1,2,3,a,b\n1,3,3,a\n"),
    "long in a column that is not used": BadFile("user,item,rating,note,more\n1,2,3,a,b\n1,3,3,a,b,c\n"),
    "one short, one long in columns that are not used": BadFile(
        "user,item,rating,note,more\n1,2,3,a,b\n1,3,3,a\n1,4,3,a,b,c\n"
    ),
    "blank line in the middle": BadFile(GOOD + "\n1,3,3,4\n"),
    "blank line at the top": BadFile("\n" + GOOD),
    "Latin-1": BadFile(HEAD.encode() + b"1,caf\xe9,3,4\n"),
    "Latin-1, late": BadFile(HEAD.encode() + b"1,2,3,4\n" * 20_000 + b"1,caf\xe9,3,4\n"),
    "Latin-1 below a quote": BadFile(HEAD.encode() + b'"1",2,3,4\n' * 20_000 + b"1,\xff,3,4\n"),
    "UTF-16": BadFile(GOOD.encode("utf-16")),
    "truncated gzip": BadFile(gzip.compress(GOOD.encode())[:-6], {}, "r.csv.gz"),
    "not gzip": BadFile(GOOD, {}, "r.csv.gz"),
    "gzip of nothing": BadFile(gzip.compress(b""), {}, "r.csv.gz"),
    "broken zip": BadFile(b"PK\x03\x04rest", {}, "r.zip"),
    "zstd": BadFile(b"\x28\xb5\x2f\xfdrest", {}, "r.zst"),
    "no Parquet at all": BadFile(b"not Parquet at all", {}, "r.parquet"),
    "only the beginning of Parquet": BadFile(b"PAR1 cut short", {}, "r.parquet"),
    "Parquet of nothing": BadFile(b"PAR1\x00\x00\x00\x00PAR1", {}, "r.parquet"),
    "truncated Parquet": BadFile(parquet(frame())[:-20], {}, "r.parquet"),
    "an empty cell in Parquet": BadFile(parquet(frame(rating=[1.0, None])), {}, "r.parquet"),
    "empty Parquet": BadFile("", {}, "r.parquet"),
    "unknown names": BadFile("a,b,c\n1,2,3\n"),
    "a word for a first rating": BadFile("ann,jaws,good\nbob,jaws,3\n"),
    "missing column": BadFile("who,item,rating\n1,2,3\n"),
    "two columns": BadFile("user,item\n1,2\n"),
    "two columns, no header": BadFile("1,2\n3,4\n"),
    "no such column": BadFile(GOOD, {"item": "nope"}),
    "no such position": BadFile(GOOD, {"user": 4}),
    "negative position": BadFile(GOOD, {"user": -1}),
    "a name without a header": BadFile("1,2,3\n", {"user": "u", "header": False}),
    "the same column twice": BadFile(GOOD, {"user": 0, "item": 0}),
    "two columns of one name": BadFile("user,user,item,rating\n1,2,3,4\n", {"user": "user"}),
    "two candidates": BadFile("user,item,score,rating\n1,2,3,4\n"),
    "five columns, no header": BadFile("1,2,3,4,5\n"),
    "no column left": BadFile("1,2,3\n", {"item": 0}),
    "no separator": BadFile("hello\nworld\n"),
    "ambiguous separator": BadFile("1|2,3|4,5|6\n2|2,3|4,5|6\n"),
    "impossible separator": BadFile(GOOD, {"separator": ""}),
    "a quote that never closes": BadFile(GOOD + '"1,3,3,4\n'),
    "a quote that closes early": BadFile(HEAD + '"1"x,3,3,4\n'),
    "below a cell of two lines": BadFile(HEAD + '"a\nb",3,3,4\nc,3,x,4\n'),
    "outside the scale": BadFile(GOOD + "1,3,6,4\n", {"scale": (1, 5)}),
    "a very long cell": BadFile(HEAD + "1,2," + "x" * 1000 + ",4\n"),
}


RATING = [(1, 2, 3.0)]
OBJECTS = {
    "lists of columns": BadCall(lambda: Ratings.read([[1, 2, 3, 4, 5], [1, 1, 2, 2, 2], [3, 3, 3, 4, 4]])),
    "an array of five columns": BadCall(lambda: Ratings.read(np.ones((4, 5)))),
    "null id": BadCall(lambda: Ratings.read(frame(user=[1, None]))),
    "empty id": BadCall(lambda: Ratings.read(frame(item=["a", ""]))),
    "null rating": BadCall(lambda: Ratings.read(frame(rating=[None, 3.0]))),
    "NaN rating": BadCall(lambda: Ratings.read(frame(rating=[1.0, float("nan")]))),
    "boolean ratings": BadCall(lambda: Ratings.read(frame(rating=[True, False]))),
    "float ids": BadCall(lambda: Ratings.read(frame(user=[1.0, 2.0]))),
    "boolean ids": BadCall(lambda: Ratings.read(frame(user=[True, False]))),
    "ids beyond 64 bits": BadCall(lambda: Ratings.read(frame(user=pl.Series([1, 2**63], dtype=pl.UInt64)))),
    "times of another kind": BadCall(lambda: Ratings.read(frame(time=[True, False]))),
    "frame without rows": BadCall(lambda: Ratings.read(frame().clear())),
    "frame without users": BadCall(lambda: Ratings.read(frame().drop("user"))),
    "pandas NaN id": BadCall(lambda: Ratings.read(pandas_frame(user=[1, None]))),
    "pandas None id": BadCall(lambda: Ratings.read(pandas_frame(user=["a", None]))),
    "pandas NA id": BadCall(lambda: Ratings.read(pandas_frame(user=pd.array([1, None], dtype="Int64")))),
    "pandas NA rating": BadCall(lambda: Ratings.read(pandas_frame(rating=pd.array([1.5, None], dtype="Float64")))),
    "pandas NaN rating": BadCall(lambda: Ratings.read(pandas_frame(rating=[1.0, np.nan]))),
    "pandas mixed ids": BadCall(lambda: Ratings.read(pandas_frame(user=["a", 3]))),
    "arrays of different lengths": BadCall(lambda: Ratings.read(([1, 2], [3, 4], [1.0]))),
    "empty arrays": BadCall(lambda: Ratings.read((np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)))),
    "a matrix among the arrays": BadCall(lambda: Ratings.read((np.ones((2, 2), np.int64), [1, 2], [1, 2]))),
    "float ids in arrays": BadCall(lambda: Ratings.read((np.array([1.5, 2.5]), [1, 2], [1, 2]))),
    "infinity in arrays": BadCall(lambda: Ratings.read(([1, 2], [1, 2], np.array([1.0, np.inf])))),
    "mixed ids in tuples": BadCall(lambda: Ratings.read([(1, 2, 3.0), (1, "b", 3.0)])),
    "a pair among tuples": BadCall(lambda: Ratings.read([(1, 2, 3.0), (1, 3)])),
    "a time now and then": BadCall(lambda: Ratings.read([(1, 2, 3.0), (1, 3, 3.0, 4)])),
    "a dict without a time": BadCall(
        lambda: Ratings.read([{"user": 1, "item": 2, "rating": 3}, {"user": 1, "item": 3, "rating": 3, "time": 4}])
    ),
    "a tuple among dicts": BadCall(lambda: Ratings.read([{"user": 1, "item": 2, "rating": 3}, (1, 3, 3)])),
    "no tuples": BadCall(lambda: Ratings.read(iter([]))),
    "text as rating in tuples": BadCall(lambda: Ratings.read([(1, 2, "x")])),
    "None in tuples": BadCall(lambda: Ratings.read([(None, 2, 3.0)])),
    "a pandas Series": BadCall(lambda: Ratings.read(pandas_frame().set_index(["user", "item"])["rating"])),
    "a number": BadCall(lambda: Ratings.read(5)),
    "a dictionary": BadCall(lambda: Ratings.read({"user": [1]})),
    "a missing file": BadCall(lambda: Ratings.read("nowhere.csv")),
    "a folder": BadCall(lambda: Ratings.read(".")),
    "a scale upside down": BadCall(lambda: Ratings.read(RATING, scale=(5, 1))),
    "a scale of one rating": BadCall(lambda: Ratings.read(RATING, scale=(1, 1))),
    "a scale from NaN": BadCall(lambda: Ratings.read(RATING, scale=(float("nan"), 5))),
    "a scale without an end": BadCall(lambda: Ratings.read(RATING, scale=(0, float("inf")))),
    "a separator of tuples": BadCall(lambda: Ratings.read(RATING, separator=",")),
    "a column of tuples": BadCall(lambda: Ratings.read(RATING, user=0)),
}


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    ratings = Ratings.read(RATING)
    path = tmp_path / "r.txt"
    Said("", "format", ".csv, .tsv").check(refusal(ratings.write, path), path)
    (tmp_path / "file").write_text("no folder")
    path = tmp_path / "file" / "r.csv"
    error = refusal(ratings.write, path)
    Said("", "not written", "check the path").check(error, path)
    assert "Not a directory" in error.found or "File exists" in error.found
