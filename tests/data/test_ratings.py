"""Sources of every kind become the same Ratings; what is written comes back."""

import gzip
import os
import sqlite3
import subprocess
import sys
import warnings
from collections import namedtuple
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sqlalchemy
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array

from cofill.data import text
from cofill.data.cells import canonical_integers
from cofill.data.interactions import Interactions
from cofill.data.pairs import read_pairs
from cofill.data.ratings import DuplicateRatingsWarning, Ratings, Scale
from cofill.data.sparse import SparseRows
from cofill.data.table import read_raw
from cofill.errors import DataError

INT64 = st.integers(-(2**63), 2**63 - 1)
# Whatever UTF-8 can hold but NUL: quotes, separators, line ends and byte order marks included.
WORDS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6),
    st.text(st.sampled_from("a1,;|:\t\r\n\"' \\#0"), min_size=1, max_size=6),
)
RATING = st.floats(-(2**20), 2**20, width=32)
TIMES = st.one_of(st.integers(-(2**62), 2**62), st.integers(0, 2**31))
Row = tuple[Any, ...]
pytestmark = pytest.mark.filterwarnings("ignore::cofill.data.ratings.UnusualRatingWarning")


def written_as_integer(id: str) -> bool:
    return id.lstrip("-").isascii() and id.lstrip("-").isdigit() and str(int(id)) == id and -(2**63) <= int(id) < 2**63


def type_shows_in_text(ids: list[Any]) -> bool:
    """Strings that are all written as integers would come back from a text file as integers."""
    return isinstance(ids[0], int) or not all(map(written_as_integer, ids))


@st.composite
def rating_rows(draw: st.DrawFn, times: bool | None = None) -> list[Row]:
    """(user, item, rating[, time]) without a pair twice; a column of strings has one that is no integer."""
    columns = []
    for _ in range(2):
        integers = draw(st.booleans())
        ids: st.SearchStrategy[list[Any]] = st.lists(INT64 if integers else WORDS, min_size=1, max_size=6, unique=True)
        columns.append(draw(ids if integers else ids.filter(lambda ids: not all(map(written_as_integer, ids)))))
    users, items = columns
    # Every id is used, so the file shows the whole vocabulary and the type of its ids.
    pairs = {(users[at % len(users)], items[at % len(items)]) for at in range(max(len(users), len(items)))}
    pairs |= set(draw(st.lists(st.tuples(st.sampled_from(users), st.sampled_from(items)), max_size=10)))
    rows: list[Row] = [(user, item, draw(RATING)) for user, item in pairs]
    if draw(st.booleans()) if times is None else times:
        rows = [(*row, draw(TIMES)) for row in rows]
    return draw(st.permutations(rows))


def assert_same(a: Ratings, b: Ratings) -> None:
    assert a.users == b.users
    assert a.items == b.items
    assert np.array_equal(a.user_index, b.user_index)
    assert np.array_equal(a.item_index, b.item_index)
    assert np.array_equal(a.values, b.values)
    assert (a.times is None) == (b.times is None)
    if a.times is not None and b.times is not None:
        assert a.times.dtype == b.times.dtype
        assert np.array_equal(a.times, b.times)
    assert a.scale == b.scale
    assert dict(a.titles) == dict(b.titles)


def assert_well_formed(ratings: Ratings) -> None:
    assert ratings.user_index.dtype == ratings.item_index.dtype == np.int32
    assert ratings.values.dtype == np.float32
    pairs = ratings.user_index.astype(np.int64) * len(ratings.items) + ratings.item_index
    assert (np.diff(pairs) > 0).all()
    assert ratings.scale.low < ratings.scale.high
    assert ratings.users.ids == sorted(ratings.users.ids)
    assert ratings.items.ids == sorted(ratings.items.ids)


def write(folder: Path, content: str | bytes, name: str = "r.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


SLOW_FOLDER = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SLOW_FOLDER
@given(rows=rating_rows(), ending=st.sampled_from([".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet"]))
def test_what_is_written_is_read_again(rows: list[Row], ending: str, tmp_path: Path) -> None:
    ratings = Ratings.read(rows)
    assert_well_formed(ratings)
    path = tmp_path / f"r{ending}"
    ratings.write(path)
    assert_same(Ratings.read(path), ratings)
    assert [file.name for file in tmp_path.iterdir() if "partial" in file.name] == []


@SLOW_FOLDER
@given(rows=rating_rows(), data=st.data())
def test_the_order_of_rows_does_not_matter(rows: list[Row], data: st.DataObject) -> None:
    assert_same(Ratings.read(data.draw(st.permutations(rows))), Ratings.read(rows))


@SLOW_FOLDER
@given(rows=rating_rows(), other=st.data())
def test_every_kind_of_source_gives_the_same(rows: list[Row], other: st.DataObject) -> None:
    ratings = Ratings.read(rows)
    columns = [list(column) for column in zip(*rows, strict=True)]
    names = ["user", "item", "rating", "time"][: len(columns)]
    assert_same(Ratings.read(tuple(columns)), ratings)
    assert_same(Ratings.read([np.array(column, object) for column in columns]), ratings)
    polars_frame = pl.DataFrame(dict(zip(names, columns, strict=True)), strict=False)
    assert_same(Ratings.read(polars_frame), ratings)
    assert_same(Ratings.read(polars_frame.lazy()), ratings)
    assert_same(Ratings.read(pd.DataFrame(dict(zip(names, columns, strict=True)))), ratings)
    assert_same(Ratings.read(iter(rows)), ratings)
    assert_same(Ratings.read(ratings.to_polars()), ratings)


NEARLY = st.one_of(
    st.integers(-20, 120).map(str),
    st.sampled_from(["0", "00", "01", "-0", "+1", "-01", " 1", "1 ", "9" * 18, "9" * 19, "-" + "9" * 18, "1.0", "x"]),
)


@settings(deadline=None)
@given(st.lists(NEARLY, min_size=1, max_size=8))
@example(["9223372036854775807", "-9223372036854775808"])
@example(["9223372036854775808"])
def test_only_canonical_integers_are_integers(words: list[str]) -> None:
    found = canonical_integers(pl.Series(words))
    if all(map(written_as_integer, words)):
        assert found is not None
        assert found.tolist() == [int(word) for word in words]
    else:
        assert found is None


@st.composite
def nearly_regular_files(draw: st.DrawFn) -> tuple[str, str]:
    """Files that the quick way may take or may not: leading zeros, blanks, mixed line ends, ragged lines."""
    separator = draw(st.sampled_from(["::", ",", "\t", ";"]))
    good = st.integers(0, 200).map(str)
    cell = draw(st.sampled_from([good, good, NEARLY, st.one_of(good, good, good, NEARLY)]))
    rating = draw(st.sampled_from([st.just("3"), st.sampled_from(["1", "2.5", "3", " 4", "5.0", ""])]))
    lines = [[draw(cell), draw(cell), draw(rating), draw(cell)] for _ in range(draw(st.integers(1, 6)))]
    if draw(st.booleans()):
        for _ in range(draw(st.integers(1, 2))):
            ragged = draw(st.sampled_from(lines))
            ragged[:] = draw(st.sampled_from([ragged[:3], [*ragged, "7"], ["", *ragged], [], [*ragged, ""], ["\r"]]))
    ends = draw(st.sampled_from([["\n"], ["\n"], ["\r\n"], ["\n", "\r\n"]]))
    content = "".join(separator.join(line) + draw(st.sampled_from(ends)) for line in lines)
    return content.rstrip("\r\n") if draw(st.booleans()) else content, separator


@settings(max_examples=500, deadline=None)
@given(nearly_regular_files(), st.booleans())
@example(("1::2::3::4\r\n1::03::3::4\n1::5::3::4\n", "::"), False)
@example(("1,2,3\n1,2,3,4,5\n", ","), True)
@example(("1::2::3\r::04\n1::2::3::4\r\n", "::"), False)
def test_the_quick_way_agrees_with_the_careful_one_or_stands_back(file: tuple[str, str], header: bool) -> None:
    body, separator = file
    names = ("user", "item", "rating", "time")
    content = separator.join(names) + "\n" + body if header else body
    positions: dict[str, int] = {"user": 0, "item": 1, "rating": 2, "time": 3}
    layout = text.Layout(separator, names if header else None, 4, positions)
    try:
        careful = text._careful(content, layout, "r", None, 1)[0]
    except DataError:
        careful = {}  # not a table
    quick = text._regular(content.encode(), len(content) - len(body), layout, "r", 1)
    if quick is not None:
        assert {role: cells.to_list() for role, cells in quick.items()} == {
            role: cells.to_list() for role, cells in careful.items()
        }


ROWS = [("ann", 1, 5.0, 10), ("ann", 2, 3.0, 20), ("bob", 1, 1.0, 30)]
BODY = "ann,1,5,10\nann,2,3,20\nbob,1,1,30\n"


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (BODY, {}),
        ("userId,movieId,rating,timestamp\n" + BODY, {}),
        ("USER_ID,Item ID,Stars,unixReviewTime\n" + BODY, {}),
        ("reviewerID,asin,overall,ts\n" + BODY, {}),
        ("customer,SKU,r_ui,time\n" + BODY, {}),
        ("customer_id,business_id,Score,date\n" + BODY, {}),
        ("a,b,c,d\n" + BODY, {"user": "a", "item": "B", "rating": "c", "time": 3}),
        ("a,b,c,d\n" + BODY, {"user": 0, "item": 1, "rating": 2, "time": 3, "header": True}),
        (BODY.replace(",", "\t"), {}),
        (BODY.replace(",", "::"), {}),
        (BODY.replace(",", ";"), {}),
        (BODY.replace(",", "|"), {}),
        (BODY.replace(",", " "), {}),
        (BODY.replace(",", "$$"), {"separator": "$$"}),
        (BODY.replace(",", "::"), {"separator": "::", "header": False}),
        (BODY.replace("\n", "\r\n"), {}),
        (BODY.replace("\n", "\r"), {}),
        ("user,item,rating,time\r\n" + BODY.replace("\n", "\r\n"), {}),
        (BODY.rstrip("\n"), {}),
        (BODY + "\n\n", {}),
        ("\ufeff" + BODY, {}),
        ("\ufeffuser,item,rating,time\n" + BODY, {}),
        ('"user","item","rating","time"\n"ann","1","5","10"\nann,2, 3 ,20\n"bob",1,1.0,30\n', {}),
        (gzip.compress(BODY.encode(), mtime=0), {}),
        ("1,ann,10,5\n2,ann,20,3\n1,bob,30,1\n", {"user": 1, "item": 0, "time": 2, "rating": 3}),
        ("x,ann,1,5,10,\ny,ann,2,3,20,\nz,bob,1,1,30,w\n", {"user": 1, "item": 2, "rating": 3, "time": 4}),
        ("user,item,rating,note,time\nann,1,5,,10\nann,2,3,b,20\nbob,1,1,,30\n", {}),
    ],
)
def test_text_files_of_all_sorts(content: str | bytes, options: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path, content)
    assert_same(Ratings.read(path, **options), Ratings.read(ROWS))
    assert_same(Ratings.read(str(path), **options), Ratings.read(ROWS))


def test_ids_of_a_text_are_kept_as_written(tmp_path: Path) -> None:
    ratings = Ratings.read(write(tmp_path, "1::0054890::9::1\n2::1408101::10::2\n", "ratings.dat"))
    assert ratings.users.ids == [1, 2]
    assert ratings.items.ids == ["0054890", "1408101"]
    assert Ratings.read(write(tmp_path, "10,-3,1\n9,20,1\n")).users.ids == [9, 10]  # by number, not by letter
    assert Ratings.read(write(tmp_path, "10,a,1\n9 ,20,1\n")).users.ids == [9, 10]  # blanks around a cell mean nothing
    assert Ratings.read(write(tmp_path, '10,a,1\n"9 ",20,1\n')).users.ids == ["10", "9 "]  # but between quotes
    assert Ratings.read(write(tmp_path, "a:b::c::3\na:c::c::4\n")).users.ids == ["a:b", "a:c"]
    huge = "99999999999999999999"
    assert Ratings.read(write(tmp_path, f"{huge},1,1\n")).users.ids == [huge]


def test_strings_in_a_frame_stay_strings() -> None:
    assert Ratings.read(pl.DataFrame({"user": ["1"], "item": [1], "rating": [1]})).users.ids == ["1"]
    categories = pl.DataFrame({"user": pl.Series(["b", "a"], dtype=pl.Categorical), "item": [1, 2], "rating": [1, 2]})
    assert Ratings.read(categories).users.ids == ["a", "b"]


def test_ids_far_apart_need_no_big_table() -> None:
    ratings = Ratings.read([(2**62, -(2**62), 1.0), (5, 2**62, 2.0)])
    assert ratings.users.ids == [5, 2**62]
    assert ratings.items.ids == [-(2**62), 2**62]
    assert ratings.values.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("cells", "times"),
    [
        (["10", "20"], [10, 20]),
        (["10.0", "20.0"], [10, 20]),
        (["10.5", "20"], [10.5, 20.0]),
        (["1970-01-02", "1970-01-01"], [86400, 0]),
        (["1970-01-01T00:01", "1970-01-01 00:00:02Z"], [60, 2]),
        (["1970-01-01T02:00:00+02:00", "1969-12-31 19:00:00-0500"], [0, 0]),
        (["1970-01-01 00:00:01 UTC", "1970-01-01 00:00:01.5 UTC"], [1.0, 1.5]),  # as BigQuery writes them to CSV
        (["1970-01-01T00:00:00.25", "1970-01-01"], [0.25, 0.0]),
        (["2024-02-29", "9999-12-31"], [1709164800, 253402214400]),
        (["1262649600000", "1262649601500"], [1262649600.0, 1262649601.5]),  # milliseconds are told by their size
        (["1262649600000000", "1262649601000000000"], [1262649600, 1262649601]),  # micro- and nanoseconds
        (["2010/01/05", "2010/01/05 14:05"], [1262649600, 1262700300]),
        (["2010/1/5", "2010-1-5"], [1262649600, 1262649600]),
    ],
)
def test_times(cells: list[str], times: list[float], tmp_path: Path) -> None:
    content = f"user,item,rating,time\n1,1,1,{cells[0]}\n1,2,2,{cells[1]}\n"
    found = Ratings.read(write(tmp_path, content)).times
    assert found is not None
    assert found.tolist() == times
    assert found.dtype == np.array(times).dtype


def test_times_of_frames_become_unix_seconds() -> None:
    moments = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 0, 0, 1, tzinfo=UTC)]
    base = {"user": [1, 2], "item": [1, 2], "rating": [1, 2]}
    expected = [1577836800, 1577836801]
    plain = [moment.replace(tzinfo=None) for moment in moments]
    sources: list[Any] = [
        pl.DataFrame(base | {"time": moments}),
        pl.DataFrame(base | {"time": plain}),
        pd.DataFrame(base | {"time": plain}),
        pd.DataFrame(base | {"time": pd.to_datetime(moments).tz_convert("Asia/Tokyo")}),
        (*base.values(), np.array(plain, "datetime64[s]")),
        (*base.values(), np.array(expected, np.float64)),
        (*base.values(), np.array(expected) * 1000),
    ]
    for source in sources:
        times = Ratings.read(source).times
        assert times is not None
        assert times.tolist() == expected
        assert times.dtype == np.int64
    assert Ratings.read((*base.values(), [20200105, 20200106])).times is not None  # places in an order, perhaps
    for column in ({"time": [date(1970, 1, 2), date(1970, 1, 1)]}, {"order_date": ["19700102", "19700101"]}):
        days = Ratings.read(pl.DataFrame(base | column)).times
        assert days is not None
        assert days.tolist() == [86400, 0]


FOUR = [(1, 10, 5), (1, 20, 4), (2, 10, 3), (2, 20, 1)]


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize(
    "source",
    [
        lambda rows: [list(row) for row in rows],
        lambda rows: tuple(rows),
        lambda rows: np.array(rows),
        lambda rows: np.array(rows, np.float64),
        lambda rows: np.array([(user, item, str(rating)) for user, item, rating in rows], object),
        lambda rows: sqlalchemy_result().all()[: len(rows)],
        lambda rows: tuple([list(column) for column in zip(*rows, strict=True)]),
        lambda rows: [np.array(column) for column in zip(*rows, strict=True)],
    ],
    ids=["lists", "tuples", "array", "floats", "objects", "rows of sqlalchemy", "columns in a tuple", "arrays"],
)
def test_rows_are_never_taken_for_columns(source: Callable[[list[Any]], Any], number: int) -> None:
    """However many there are: a list holds rows; columns are arrays, or stand in a tuple."""
    ratings = Ratings.read(source(FOUR[:number]))
    assert ratings.to_polars().rows() == FOUR[:number]
    assert all(isinstance(user, int) for user in ratings.users.ids)


class ByColumns:
    """A data set that gives its columns by name, as those of Hugging Face do."""

    column_names = ("user", "item", "rating")

    def __getitem__(self, name: str) -> list[Any]:
        return [row[self.column_names.index(name)] for row in FOUR]


class ByRows:
    """A data set of torch."""

    def __len__(self) -> int:
        return len(FOUR)

    def __getitem__(self, at: int) -> Any:
        return tuple(map(np.asarray, FOUR[at]))


def query(connection: Any) -> Any:
    connection.execute("CREATE TABLE r (rating REAL, user INTEGER, item INTEGER)")
    connection.executemany("INSERT INTO r VALUES (?, ?, ?)", [(rating, user, item) for user, item, rating in FOUR])
    return connection.execute("SELECT * FROM r")


def sqlalchemy_result() -> Any:
    engine = sqlalchemy.create_engine("sqlite://")
    rows = " UNION ALL ".join(
        f"SELECT {user} AS user, {item} AS item, {rating} AS rating" for user, item, rating in FOUR
    )
    return engine.connect().execute(sqlalchemy.text(rows))


def as_frame() -> pd.DataFrame:
    return pd.DataFrame(FOUR, columns=["user", "item", "rating"])


def rows_of_sqlite() -> Any:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    return query(connection).fetchall()


class Relation:
    """A relation of DuckDB: a stream of Arrow, which is also a cursor."""

    description = (("rating",), ("user",), ("item",))

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return pl.from_pandas(as_frame()).__arrow_c_stream__(schema)


def tensors() -> Any:
    torch = pytest.importorskip("torch")
    return torch.utils.data.TensorDataset(*(torch.tensor(column) for column in zip(*FOUR, strict=True)))


@pytest.mark.parametrize(
    "source",
    [
        lambda: {
            name: list(column) for name, column in zip(ByColumns.column_names, zip(*FOUR, strict=True), strict=True)
        },
        ByColumns,
        ByRows,
        lambda: query(sqlite3.connect(":memory:")),
        sqlalchemy_result,
        lambda: as_frame().set_index(["user", "item"]),
        lambda: as_frame().set_index("user"),
        lambda: as_frame().pivot_table(index="user", columns="item", values="rating"),
        lambda: coo_array(([row[2] for row in FOUR], tuple(zip(*[row[:2] for row in FOUR], strict=True)))),
        lambda: coo_array(([row[2] for row in FOUR], tuple(zip(*[row[:2] for row in FOUR], strict=True)))).todok(),
        lambda: as_frame().to_records(),
        lambda: as_frame()[["rating", "item", "user"]].to_dict("records"),
        lambda: list(as_frame().itertuples()),
        lambda: sqlalchemy_result().all(),
        lambda: sqlalchemy_result().mappings(),
        rows_of_sqlite,
        Relation,
        tensors,
        lambda: [(*row, None) for row in FOUR],
        lambda: tensors().tensors[0].new_tensor(FOUR),
    ],
    ids=[
        *("dict", "by columns", "by rows", "sqlite3", "sqlalchemy", "index", "index of users", "pivot", "sparse"),
        *("sparse dictionary", "records", "dicts", "named tuples", "rows of sqlalchemy", "mappings of sqlalchemy"),
        *("rows of sqlite3", "duckdb", "tensors", "surprise", "tensor"),
    ],
)
def test_what_other_libraries_give_is_read(source: Callable[[], Any]) -> None:
    assert Ratings.read(source()).to_polars().rows() == FOUR


def test_dicts_need_not_all_have_the_same_names() -> None:
    rows = [{"user": 1, "item": 10, "rating": 5}, {"title": "Heat", "rating": 4, "item": 20, "user": 1}]
    assert Ratings.read(rows).titles == {20: "Heat"}
    with pytest.raises(DataError, match="row 1, column 'count': the cell is empty where a number belongs"):
        Interactions.read([{"user": 1, "item": 10}, {"user": 1, "item": 20, "count": 3}])


def test_named_tuples_with_some_usual_names_are_read_by_position() -> None:
    row_of = namedtuple("row_of", "who item mark")
    assert Ratings.read([row_of(*row) for row in FOUR]).to_polars().rows() == FOUR
    swapped = [row_of(item, user, mark) for user, item, mark in FOUR]
    assert Ratings.read(swapped, user="item", item="who", rating="mark").to_polars().rows() == FOUR


def test_pairs_of_matrices_are_those_that_are_known() -> None:
    pivot = as_frame().iloc[:3].pivot_table(index="user", columns="item", values="rating")
    assert read_pairs(pivot) == ([1, 1, 2], [10, 20, 10])
    assert read_pairs(coo_array(([3.0], ([4], [5])))) == ([4], [5])
    assert Ratings.read(pivot, wide=True).to_polars().rows() == [(1, 10, 5.0), (1, 20, 4.0), (2, 10, 3.0)]


def test_a_dictionary_may_be_wide() -> None:
    assert Ratings.read({"user": [1, 2], "Alien": [5, None]}, wide=True).to_polars().rows() == [(1, "Alien", 5.0)]


def test_a_table_is_called_after_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pl.DataFrame({"item": [1], "year": [1979]})
    frame.write_parquet("films.parquet")
    frame.write_csv("films.csv")
    frame.write_ndjson("films.jsonl")
    for name in ("films.parquet", "films.csv", "films.jsonl"):
        assert read_raw(name).label == read_raw(tmp_path / name).label == name
    assert read_raw(frame).label == "table"


def test_a_column_may_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "user,item,rating,time,title\n1,2,3,someday,Jaws\n")
    assert Ratings.read(path, time="").times is None
    assert Ratings.read(path, time="", title="").titles == {}


def test_titles_come_from_a_column(tmp_path: Path) -> None:
    path = write(tmp_path, 'user,item,rating,title\n1,7,3,"Jaws, 2"\n2,7,4,Jaws\n2,8,4,\n2,9,1,Alien\n')
    assert Ratings.read(path).titles == {7: "Jaws", 9: "Alien"}


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 5], (1, 5)),
        ([3, 5], (1, 5)),
        ([0.5, 5], (0.5, 5)),
        ([0.7, 5], (0.5, 5)),
        ([0, 5], (0, 5)),
        ([5, 5], (1, 5)),
        ([2, 10], (1, 10)),
        ([0.5, 10], (0, 10)),
        ([-1, 5], (-1, 5)),
        ([2, 4], (2, 4)),
        ([0, 1], (0, 1)),
        ([3, 3], (2, 4)),
        ([0, 0], (-1, 1)),
        ([20, 80], (20, 80)),
    ],
)
def test_the_scale_is_inferred(values: list[float], scale: tuple[float, float]) -> None:
    assert Ratings.read(([1, 2], [1, 2], values)).scale == Scale(*scale)


def test_a_given_scale_is_kept() -> None:
    assert Ratings.read([(1, 2, 3.0)], scale=(1, 7)).scale == Scale(1.0, 7.0)
    assert Ratings.read([(1, 2, 0.1)], scale=(0.1, 0.2)).scale == Scale(0.1, 0.2)  # 0.1 is not exact in 32 bits


def test_of_duplicates_the_latest_wins_with_one_warning() -> None:
    timed = [
        (1, 1, 5.0, 30),
        (1, 1, 1.0, 10),
        (2, 1, 2.0, 1),
        (1, 1, 3.0, 20),
        (3, 3, 1.0, 7),
        (3, 3, 2.0, 7),
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ratings = Ratings.read(timed)
    assert [warning.category for warning in caught] == [DuplicateRatingsWarning]
    assert Path(caught[0].filename) == Path(__file__)
    assert str(caught[0].message) == ("the tuples: 3 of 6 ratings repeat a user and item; the latest by time were kept")
    assert ratings.to_polars().rows() == [(1, 1, 5.0, 30), (2, 1, 2.0, 1), (3, 3, 2.0, 7)]
    with pytest.warns(DuplicateRatingsWarning, match="the latest by order were kept"):
        ratings = Ratings.read([row[:3] for row in timed])
    assert ratings.to_polars().rows() == [(1, 1, 3.0), (2, 1, 2.0), (3, 3, 2.0)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 9), st.integers(0, 4)), min_size=1))
def test_duplicates_against_a_dictionary(rows: list[Row]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicateRatingsWarning)
        timed, plain = Ratings.read(rows), Ratings.read([row[:3] for row in rows])
    latest = {(user, item): (rating, time) for user, item, rating, time in sorted(rows, key=lambda row: row[3])}
    assert {row[:2]: row[2:] for row in timed.to_polars().rows()} == latest
    last = {(user, item): rating for user, item, rating, _ in rows}
    assert {row[:2]: row[2] for row in plain.to_polars().rows()} == last


def test_rows_both_ways() -> None:
    ratings = Ratings.read([("a", 1, 0.0), ("a", 3, 2.0), ("c", 2, 5.0), ("c", 1, 4.0)], scale=(0, 5))
    ratings.users.add(["d"])  # a user without ratings
    by_user, by_item = ratings.rows("user"), ratings.rows("item")
    assert (by_user.rows, by_user.columns, by_user.nnz) == (3, 3, 4)
    assert (by_item.rows, by_item.columns, by_item.nnz) == (3, 3, 4)
    assert by_user.counts().tolist() == [2, 2, 0]
    assert by_item.counts().tolist() == [2, 1, 1]
    indices, values = by_user.row(0)
    assert (indices.tolist(), values.tolist()) == ([0, 2], [0.0, 2.0])  # a rating of 0 is known
    indices, values = by_item.row(0)
    assert (indices.tolist(), values.tolist()) == ([0, 1], [0.0, 4.0])
    for rows in (by_user, by_item):
        assert rows.indptr.dtype == np.int64
        assert rows.indices.dtype == np.int32
        assert rows.values.dtype == np.float32


@settings(max_examples=40, deadline=None)
@given(rating_rows())
def test_a_transpose_of_a_transpose_is_the_same(rows: list[Row]) -> None:
    def equal(a: SparseRows, b: SparseRows) -> bool:
        pairs: list[tuple[Any, Any]] = [(a.indptr, b.indptr), (a.indices, b.indices), (a.values, b.values)]
        return a.columns == b.columns and all(np.array_equal(one, other) for one, other in pairs)

    ratings = Ratings.read(rows)
    by_user, by_item = ratings.rows("user"), ratings.rows("item")
    assert equal(by_user.transpose(), by_item)
    assert equal(by_item.transpose(), by_user)
    assert all((np.diff(by_item.row(row)[0]) > 0).all() for row in range(by_item.rows))


def test_select_by_mask_and_by_position() -> None:
    ratings = Ratings.read(ROWS)
    picked = ratings.select(np.array([0, 2]))
    assert picked.to_polars().rows() == [ROWS[0], ROWS[2]]
    assert picked.users is ratings.users
    assert_same(picked, ratings.select(np.array([True, False, True])))
    empty = ratings.select(np.zeros(3, bool))
    assert len(empty) == 0
    assert empty.rows("item").rows == 2
    assert empty.summary()["mean"] is None


def test_merge_lets_the_other_win() -> None:
    old = Ratings.read([("b", 1, 1.0, 50), ("b", 2, 2.0, 50)], scale=(1, 5))
    new = Ratings.read([("a", 1, 3.0, 10), ("b", 2, 7.0, 10), ("b", 3, 4.0, 10)], scale=(2, 7))
    both = old.merge(new)
    assert both.users.ids == ["b", "a"]
    assert both.items.ids == [1, 2, 3]
    assert both.to_polars().rows() == [("b", 1, 1.0, 50), ("b", 2, 7.0, 10), ("b", 3, 4.0, 10), ("a", 1, 3.0, 10)]
    assert both.scale == Scale(1, 7)
    assert old.users.ids == ["b"]
    assert old.merge(Ratings.read([("b", 1, 2.0)])).times is None
    newcomers = old.merge(Ratings.read([("b", "x", 2.0)]))  # text ids join integers
    assert newcomers.items.ids == [1, 2, "x"]
    assert newcomers.to_polars()["item"].to_list() == ["1", "2", "x"]


@settings(max_examples=30, deadline=None)
@given(rating_rows(times=True))
def test_merging_with_itself_changes_nothing(rows: list[Row]) -> None:
    ratings = Ratings.read(rows)
    assert_same(ratings.merge(ratings), ratings)


@pytest.mark.parametrize("positions", [[1, 0], [0, 0], [-1, 0]])
def test_positions_whose_order_would_be_lost_are_refused(positions: list[int]) -> None:
    with pytest.raises(DataError, match="ascending, each once"):
        Ratings.read(FOUR).select(np.array(positions))


def test_summary_is_plain() -> None:
    assert Ratings.read(ROWS).summary() == {
        "users": 2,
        "items": 2,
        "ratings": 3,
        "rated": True,
        "density": 0.75,
        "mean": 3.0,
        "scale": [1.0, 5.0],
        "first_time": 10,
        "last_time": 30,
    }
    assert Ratings.read([row[:3] for row in ROWS]).summary()["first_time"] is None
    assert repr(Ratings.read(ROWS)) == "Ratings(3 ratings of 2 items by 2 users)"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.csv"
    Ratings.read(ROWS).write(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"r\.csv: not written, the disk is full; free some space"):
        Ratings.read(ROWS[:1]).write(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["r.csv"]


def test_gzip_files_do_not_depend_on_the_clock(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        Ratings.read(ROWS).write(tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_pandas_is_not_imported_for_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, BODY)
    code = (
        "import sys; from cofill.data.ratings import Ratings; "
        "print(sorted({'pandas', 'scipy'} & set(sys.modules))); "
        f"Ratings.read({str(path)!r}).write({str(tmp_path / 'out.csv')!r}); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "False"]
