"""Side information that cannot be read gets one line that names the place, what was found and what to do."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from cofill.data.features import Features
from cofill.data.vocabulary import Vocabulary
from tests.bad_input import BadCall, BadFile, Said, refusal

FILES = {
    "empty": BadFile(""),
    "header only": BadFile("id,age\n"),
    "one column": BadFile("id\n1\n2\n"),
    "links of one column": BadFile("1\n2\n", {"kind": "links"}),
    "no id column": BadFile("age,size\n1,2\n"),
    "a wrong id column": BadFile("id,age\n1,2\n", {"id": "key"}),
    "a wrong position": BadFile("id,age\n1,2\n", {"id": 5}),
    "two id columns": BadFile("age,userId,movieId\n1,2,3\n"),
    "an id twice": BadFile("id,age\n1,2\n2,3\n1,4\n"),
    "a missing id": BadFile("id,age\n1,2\n,3\n"),
    "a word as number": BadFile("id,age\n1,2\n2,old\n", {"columns": {"age": "number"}}),
    "the first of several wrong cells": BadFile("id,age\n9,old\n1,2\n2,young\n", {"columns": {"age": "number"}}),
    "infinity as number": BadFile("id,age\n1,2\n2,inf\n", {"columns": {"age": "number"}}),
    "no flag": BadFile("id,age\n1,2\n2,1\n", {"columns": {"age": "flag"}}),
    "no date": BadFile("id,born\n1,1990\n2,soon; or not\n", {"columns": {"born": "date"}}),
    "an unknown column": BadFile("id,age\n1,2\n", {"columns": {"aeg": "number"}}),
    "an unknown kind of column": BadFile("id,age\n1,2\n", {"columns": {"age": "float"}}),
    "a kind for the ids": BadFile("id,age\n1,2\n", {"columns": {"id": "category"}}),
    "a header that could be data": BadFile("ann,red\nbob,blue\n"),
    "two columns of one name": BadFile("id,age,age\n1,2,3\n"),
    "a column without a name": BadFile("id,,age\n1,2,3\n"),
    "too few names": BadFile("1,2,3\n", {"names": ["id", "age"]}),
    "names that are none": BadFile("1,2\n", {"names": [1, 2]}),
    "a short line": BadFile("id,age,sex\n1,2,m\n2,3\n"),
    "two separators": BadFile("1,a|b\n2,b|c\n", {}, "f.dat"),
    "no tags": BadFile("id,tag\n1,\n2, \n"),
    "five columns of tags": BadFile("1,2,3,4,5\n", {"kind": "tags"}),
    "a count that is none": BadFile("id,tag,count\n1,a,2\n2,a,few\n"),
    "a negative count": BadFile("id,tag,count\n1,a,-2\n"),
    "counts of zero": BadFile("id,tag,count\n1,a,0\n"),
    "links with more columns": BadFile("from,to,why\n1,2,3\n", {"kind": "links"}),
    "NaN in vectors": BadFile("id,x,y\n1,2,nan\n", {"kind": "vectors"}),
    "an unusual weight": BadFile("1,2,1\n2,3,1e300\n", {"kind": "links"}),
    "vectors twice": BadFile("id,x,y\n1,2,3\n1,2,3\n", {"kind": "vectors"}),
    "latin-1": BadFile("id,land\n1,Österreich\n".encode("latin-1")),
    "no encoding": BadFile("id,age\n1,2\n", {"encoding": "klingon"}),
    "an archive": BadFile(b"7z\xbc\xaf....", {}, "f.7z"),
    "not Parquet": BadFile(b"nothing", {}, "f.parquet"),
    ".npy without ids": BadFile(b"", {}, "f.npy"),
    "no .npy file": BadFile(b"nothing at all", {"ids": [1]}, "f.npy"),
}


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.csv"
    Said("", "no such file", "check the path").check(refusal(Features.read, path), path)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "objects.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    Said("", "Python objects … no .npy", "save plain numbers").check(refusal(Features.read, path, ids=[1]), path)


def test_identical_lines_are_one(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("id,age\n1,2\n2,3\n1, 2\n")
    assert Features.read(path).ids.ids == [1, 2]


TABLE = pl.DataFrame({"id": [1, 2], "age": [3, 4]})
TAGS = [(1, "a"), (2, "a"), (2, "b")]
OBJECTS = {
    "a source that is nearly named": BadCall(
        lambda: Features.read(TAGS, kind="tags").encode_table(pl.DataFrame({"id": [3], "Tags": ["a"]}))
    ),
    "a table that says nothing": BadCall(
        lambda: Features.read(TAGS, kind="tags").encode_table(pl.DataFrame({"id": [3], "age": [4]}))
    ),
    "more ids than rows": BadCall(lambda: Features.read(([1, 2, 3], np.zeros((2, 2))))),
    "NaN in an array": BadCall(lambda: Features.read((["a", "b"], np.array([[1, 2], [3, np.nan]])))),
    "too large for float32": BadCall(lambda: Features.read({1: [1e300]})),
    "ragged vectors": BadCall(lambda: Features.read({1: [1, 2], 2: [3]})),
    "words in vectors": BadCall(lambda: Features.read({1: ["a"]})),
    "no vectors": BadCall(lambda: Features.read({})),
    "vectors of nothing": BadCall(lambda: Features.read({1: []})),
    "a vector twice": BadCall(lambda: Features.read(([7, 8, 7], np.zeros((3, 1))))),
    "vectors as tags": BadCall(lambda: Features.read({1: [1]}, kind="tags")),
    "a sparse matrix of negative counts": BadCall(lambda: Features.read(([1], csr_array([[-1.0]])))),
    "tuples of unknown kind": BadCall(lambda: Features.read([(1, "a")])),
    "no tuples": BadCall(lambda: Features.read([], kind="links")),
    "ragged tuples": BadCall(lambda: Features.read([(1, 2), (1, 2, 3)], kind="links")),
    "numbers as tags": BadCall(lambda: Features.read([(1, "a"), (1, 2)], kind="tags")),
    "lists as tags": BadCall(lambda: Features.read(pl.DataFrame({"id": [1], "tag": [["a", "b"]]}))),
    "something else": BadCall(lambda: Features.read(5)),
    "an empty frame": BadCall(lambda: Features.read(TABLE.clear())),
    "ids that are floats": BadCall(lambda: Features.read(pd.DataFrame({"id": [1.5], "age": [2]}))),
    "an unknown kind": BadCall(lambda: Features.read(TABLE, kind="tabel")),
    "nothing to reduce to": BadCall(lambda: Features.read(TABLE, reduce_to=0)),
    "kinds of columns of links": BadCall(lambda: Features.read([(1, 2)], kind="links", columns={"a": "text"})),
    "ids of a table": BadCall(lambda: Features.read(TABLE, ids=[1])),
    "a separator of a frame": BadCall(lambda: Features.read(TABLE, separator=",")),
    "nothing to join": BadCall(lambda: Features.join([])),
    "a name twice": BadCall(lambda: Features.join([Features.read(TABLE), Features.read(TABLE)])),
    "a key twice": BadCall(
        lambda: Features.join(
            [
                Features.read(pl.DataFrame({"id": [1, 2], "sex": ["m", "m"]}), columns={"sex": "category"}),
                Features.read(pl.DataFrame({"id": [1, 2], "sex": ["f", "f"]}), columns={"sex": "category"}),
            ]
        )
    ),
    "users as items": BadCall(lambda: Features.read(pl.DataFrame({"age": [3, 4], "userId": [1, 2]}), about="item")),
    "the tags of items as those of users": BadCall(
        lambda: Features.read(pl.DataFrame({"movie": [3, 4], "tag": ["a", "a"]}), about="user")
    ),
    "no side": BadCall(lambda: Features.read(TABLE, about="items")),  # type: ignore[arg-type]
    "vectors in a table": BadCall(lambda: Features.read(pl.DataFrame({"id": [1, 2], "v": [None, [0.5, 1.0]]}))),
    "a word among numbers": BadCall(
        lambda: Features.read(pl.DataFrame({"id": range(10), "age": [*"31234567", "old", "9"]}))
    ),
    "infinity among numbers": BadCall(
        lambda: Features.read(pl.DataFrame({"id": range(10), "age": [*map(float, range(9)), float("inf")]}))
    ),
    "a word among years": BadCall(
        lambda: Features.read(pl.DataFrame({"id": range(10), "year": [*["1999", "2001", "1980"] * 3, "soon"]}))
    ),
}


@pytest.mark.parametrize("name", ["tag", "Tags", "TAG"])
def test_a_source_that_is_nearly_named(name: str) -> None:
    learned = Features.read(TAGS, kind="tags")
    assert learned.encode_table(pl.DataFrame({"id": [3], "tags": ["a"], "other": [1]})).ids.ids == [3]
    said = Said("the polars DataFrame", f"no column 'tags' … {name!r}", "did you mean 'tags'? … rename … remove")
    said.check(refusal(learned.encode_table, pl.DataFrame({"id": [3], name: ["a"]})))


@cache
def learned() -> Features:
    """Of all kinds."""
    table = Features.read(
        pl.DataFrame(
            {
                "id": [1, 2, 3, 4],
                "age": [1.0, 2.0, 3.0, 4.0],
                "job": ["cook", "smith", "cook", "smith"],
                "genres": ["Comedy|Drama", "Drama", "Comedy", None],
                "ok": [True, False, True, False],
                "born": [1990, 1991, 1992, 1993],
                "plot": ["a dog runs over the hill and far away", "a dog and a cat on the hill at night", None, None],
                "title": ["w", "x", "y", "z"],
            }
        )
    )
    tags = Features.read([(1, "a"), (2, "a")], kind="tags")
    links = Features.read([(1, 2), (3, 2)], kind="links")
    return Features.join([table, tags, links, Features.read({1: [1.0, 2.0]})])


@pytest.fixture(scope="module")
def features() -> Features:
    return learned()


GOOD: dict[str, object] = dict.fromkeys(["age", "job", "genres", "ok", "born", "plot", "tags", "links", "vectors"])
DESCRIPTIONS: dict[str, dict[str, object]] = {
    "text for a number": {"age": "old"},
    "an empty list for a number": {"age": []},
    "truth for a number": {"age": True},
    "a list for a category": {"job": ["cook"]},
    "an unknown category": {"job": "cok"},
    "an unknown one of several": {"genres": ["Drama", "War"]},
    "a number for a flag": {"ok": 2},
    "no year": {"born": "late"},
    "a number for a text": {"plot": 5},
    "a number for tags": {"tags": 1.5},
    "a negative count": {"tags": {"a": -1}},
    "a float as id": {"links": [1.5]},
    "an unusual weight": {"links": {2: 1e300}},
    "a short vector": {"vectors": [1]},
    "NaN in a vector": {"vectors": [1, float("nan")]},
    "an unknown key": {"genre": "Drama"},
}


def test_a_key_that_is_missing(features: Features) -> None:
    error = refusal(features.encode, {key: None for key in GOOD if key != "job"})
    Said("the description", "'job' … missing … category", "None").check(error)


def test_long_lists_of_categories_are_cut() -> None:
    jobs = [f"job {at:02d}" for at in range(20)] * 2
    features = Features.read(pl.DataFrame({"id": range(40), "job": jobs}))
    error = refusal(features.encode, {"job": "xyz"})
    Said("the description, 'job'", "unknown … 'xyz'", "'job 00', … 'job 09' and 10 more").check(error)
    assert "job 10" not in str(error)


NEW_ONES = {
    "a column less": BadFile("id,age,job,genres,ok,born\n1,2,cook,,yes,1990\n"),
    "an unknown category": BadFile("id,age,job,genres,ok,born,plot\n1,2,cook,,yes,1990,\n2,3,baker,,no,1990,\n"),
}


def altered(features: Features, alter: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    card, arrays = json.loads(json.dumps(features.card())), dict(features.arrays())
    alter(card, arrays)
    Features.restored(card, arrays, features.ids)


ALTERATIONS: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "no sources": lambda card, arrays: card.pop("sources"),
    "a source less": lambda card, arrays: card["sources"].pop(),
    "no values": lambda card, arrays: arrays.pop("values"),
    "short values": lambda card, arrays: arrays.update(values=arrays["values"][1:]),
    "NaN in the values": lambda card, arrays: arrays.update(values=arrays["values"] * np.float32("nan")),
    "values of another type": lambda card, arrays: arrays.update(values=arrays["values"].astype(np.float64)),
    "no base": lambda card, arrays: arrays.pop("1.base"),
    "a short base": lambda card, arrays: arrays.update({"0.base": arrays["0.base"][1:]}),
    "a narrow base": lambda card, arrays: arrays.update({"0.base": arrays["0.base"][:, 1:]}),
    "short weights": lambda card, arrays: arrays.update({"0.weights": arrays["0.weights"][1:]}),
    "infinite weights": lambda card, arrays: arrays.update({"0.weights": arrays["0.weights"] * np.float32("inf")}),
    "an unknown kind of source": lambda card, arrays: card["sources"][0].update(kind="what"),
    "an unknown kind of column": lambda card, arrays: card["sources"][0]["columns"][0].update(kind="what"),
    "a mean that is no number": lambda card, arrays: card["sources"][0]["columns"][0].update(mean="much"),
    "an infinite spread": lambda card, arrays: card["sources"][0]["columns"][0].update(spread=float("inf")),
    "a category twice": lambda card, arrays: card["sources"][0]["columns"][1].update(choices=["cook", "cook"]),
    "a category more": lambda card, arrays: card["sources"][0]["columns"][1]["choices"].append("baker"),
    "no terms": lambda card, arrays: card["sources"][1]["columns"][0].pop("terms"),
    "terms of a number": lambda card, arrays: card["sources"][0]["columns"][0].update(terms=[]),
    "columns of the wrong type": lambda card, arrays: card["sources"][0].update(columns=5),
    "something else": lambda card, arrays: card["sources"][0]["columns"][0].update(extra=1),
}


@pytest.mark.parametrize("alter", ALTERATIONS.values(), ids=ALTERATIONS)
def test_altered_parts_are_refused(
    features: Features, alter: Callable[[dict[str, Any], dict[str, Any]], object]
) -> None:
    altered(features, lambda card, arrays: None)
    with pytest.raises(ValueError):  # noqa: PT011
        altered(features, alter)


def test_other_ids_are_refused(features: Features) -> None:
    with pytest.raises(ValueError, match="values of shape"):
        Features.restored(features.card(), features.arrays(), Vocabulary([1]))
