"""Pairs of user and item, the ratings of one person, titles: from whatever people have."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cofill.data.pairs import read_pairs, read_somebody, read_titles
from cofill.data.ratings import Ratings
from cofill.errors import DataError

USERS, ITEMS = [1, 3, 5], [2, 4, 6]


@pytest.mark.parametrize(
    "source",
    [
        [(1, 2), (3, 4), (5, 6)],
        ((1, 2), (3, 4), (5, 6)),
        iter([(1, 2), (3, 4), (5, 6)]),
        zip(USERS, ITEMS, strict=True),
        (USERS, ITEMS),
        [[1, 2], [3, 4], [5, 6]],
        (np.array(USERS), np.array(ITEMS)),
        [np.array(USERS), np.array(ITEMS)],
        (np.array(USERS, np.uint8), ITEMS),
        np.array([[1, 2], [3, 4], [5, 6]]),
        (range(1, 6, 2), range(2, 7, 2)),
        (pl.Series(USERS), pl.Series(ITEMS)),
        (pd.Series(USERS), pd.Series(ITEMS)),
        pl.DataFrame({"item": ITEMS, "age": USERS, "user": USERS}),
        pl.LazyFrame({"userId": USERS, "movieId": ITEMS}),
        pd.DataFrame({"user": USERS, "item": ITEMS, "rating": ["x", "y", "z"]}),
        Ratings.read((USERS, ITEMS, [1.0, 2.0, 3.0])),
    ],
    ids=lambda source: type(source).__name__,
)
def test_pairs(source: object) -> None:
    users, items = read_pairs(source)
    assert (list(users), list(items)) == (USERS, ITEMS)


def test_two_pairs_of_tuples_are_pairs_and_two_lists_are_columns() -> None:
    assert read_pairs(((1, 2), (3, 4))) == ([1, 3], [2, 4])
    assert read_pairs(([1, 2], [3, 4])) == ([1, 2], [3, 4])
    assert read_pairs([[1, 2], [3, 4]]) == ([1, 3], [2, 4])  # a list holds rows


@pytest.mark.parametrize(
    "source", [[], (), ([], []), [np.array([], np.int64), np.array([], np.int64)], np.empty((0, 2), np.int64)]
)
def test_nothing(source: object) -> None:
    users, items = read_pairs(source)
    assert (len(users), len(items)) == (0, 0)


def test_strings_stay_strings() -> None:
    assert read_pairs([("a", 1), ("b", 2)]) == (["a", "b"], [1, 2])


@pytest.mark.parametrize(
    "source",
    [
        5,
        None,
        {1: 2},
        [1, 2],
        ("ab", "cd"),
        [(1, 2, 3)],
        ([1, 2], [3]),
        ([1.5], [2]),
        np.array([1, 2, 3]),
        pl.DataFrame({"user": [1], "age": [2]}),
    ],
    ids=repr,
)
def test_what_is_no_pairs(source: object) -> None:
    with pytest.raises(DataError, match=r"."):
        read_pairs(source)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ([(1, 2, 3.5)], r"^the tuples, row 1: found \(1, 2, 3\.5\); pass \(user, item\) tuples, without ratings$"),
        ([(1, 2), (1, 2, 3)], r"^the tuples, row 2: found \(1, 2, 3\); pass \(user, item\) tuples, without ratings$"),
        ((1, "x"), r"^found a single pair, \(1, .x.\); pass a list of pairs: \[\(1, .x.\)\]$"),
        (["ann", "x"], r"^found a single pair, \(.ann., .x.\); pass a list of pairs: "),
        (np.array([[1, 2, 3]]), r"^found an array of the shape \(1, 3\); the columns are \(user, item\)$"),
        (
            (np.array([1]), np.array([2]), np.array([3.0])),
            r"^found 3 arrays where \(users, items\) belong; pass these, or \(user, item\) tuples$",
        ),
        ([np.zeros((2, 2))], r"^found 1 arrays where \(users, items\) belong; pass these, or \(user, item\) tuples$"),
        ({1: 2}, r"^the columns: no column is recognised as the user; found '1'; name it"),
        ([("a", 1), (1.5, 2)], r"row 2, the user: found 1\.5 \(float\) beside 'a'"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_wrong_with_pairs(source: object, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_pairs(source)


@pytest.mark.parametrize(
    "source",
    [
        [("a", 1), (2, "b")],
        (["a", 2], [1, "b"]),
        np.array([["a", 1], [2, "b"]], object),
        pd.DataFrame({"user": ["a", 2], "item": [1, "b"]}),
    ],
    ids=lambda source: type(source).__name__,
)
def test_ids_of_both_types(source: object) -> None:
    assert tuple(map(list, read_pairs(source))) == (["a", "2"], ["1", "b"])


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("user,item\n1,2\n3,4\n5,6\n", {}),
        ("1,2\n3,4\n5,6\n", {}),
        ("1\t2\n3\t4\n5\t6\n", {}),
        ("1::2\n3::4\n5::6\n", {}),
        ("film;who;rating\n2;1;x\n4;3;\n6;5;y\n", {"user": "who"}),
        ("0,2,1\n0,4,3\n0,6,5\n", {"user": 2, "item": 1, "header": False}),
    ],
)
def test_files_of_pairs(tmp_path: Path, text: str, options: dict[str, str | int]) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(text)
    assert read_pairs(path, **options) == (USERS, ITEMS)  # type: ignore[arg-type]


def test_somebody(tmp_path: Path) -> None:
    path = tmp_path / "somebody.csv"
    path.write_text("title,rating,item\nAlien,4.5,7\nHeat,1,9\n")
    assert read_somebody(path) == ({7: 4.5, 9: 1.0}, None)
    timed = pl.DataFrame({"item": ["a"], "score": [3], "timestamp": [1_000_000_000]})
    assert read_somebody(timed) == ({"a": 3.0}, {"a": 1e9})
    assert read_somebody(timed.with_columns(timestamp=None)) == ({"a": 3.0}, None)
    path.write_text("item,rating\n7,4\n9,1\n7,5\n")
    with pytest.raises(DataError, match=r"somebody\.csv: item 7 is rated more than once; keep one"):
        read_somebody(path)


def test_titles(tmp_path: Path) -> None:
    path = tmp_path / "titles.csv"
    path.write_text('movieId,title,genres\n1,"Toy Story, the",x\n2,,y\n3," ",y\n1,Again,z\n', encoding="utf-8")
    assert read_titles(path) == {1: "Toy Story, the"}
    assert read_titles(pl.DataFrame({"item": ["a", "b"], "title": [None, "B"]})) == {"b": "B"}
    with pytest.raises(DataError, match="no column is recognised as the title"):
        read_titles(pl.DataFrame({"item": ["a"], "year": [1999]}))
