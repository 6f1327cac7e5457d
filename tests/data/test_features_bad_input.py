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
    "empty": BadFile("", Said("", "empty", "one line for each id")),
    "header only": BadFile("id,age\n", Said("", "a header and nothing", "add lines", {"header": False})),
    "one column": BadFile(
        "id\n1\n2\n",
        Said("", "1 column (separator ',') … 2", "", {"separator": ...}),
    ),
    "links of one column": BadFile(
        "1\n2\n",
        Said("", "1 column (separator ',') … 2", "", {"separator": ...}),
        {"kind": "links"},
    ),
    "no id column": BadFile(
        "age,size\n1,2\n",
        Said("", "no column … id … 'age', 'size'", "name or position", {"id": ...}),
    ),
    "a wrong id column": BadFile(
        "id,age\n1,2\n",
        Said("", "no column 'key' … 'id', 'age'", "one of them", {"id": ...}),
        {"id": "key"},
    ),
    "a wrong position": BadFile(
        "id,age\n1,2\n",
        Said("", "5 is not … there are 2", "from 0 to 1", {"id": ...}),
        {"id": 5},
    ),
    "two id columns": BadFile(
        "age,userId,movieId\n1,2,3\n", Said("", "'userId' and 'movieId' … both … id", "", {"id": "userId"})
    ),
    "an id twice": BadFile(
        "id,age\n1,2\n2,3\n1,4\n",
        Said(
            "line 4, column 'id'",
            "the id 1 is there again after line 2, with another 'age'",
            "keep one … tags, or likewise links",
            {"kind": "tags"},
        ),
    ),
    "a missing id": BadFile(
        "id,age\n1,2\n,3\n",
        Said("line 3, column 'id'", "empty … id", "fill … remove the line"),
    ),
    "a word as number": BadFile(
        "id,age\n1,2\n2,old\n",
        Said("line 3, column 'age'", "'old' … number", "correct … leave it empty"),
        {"columns": {"age": "number"}},
    ),
    "the first of several wrong cells": BadFile(
        "id,age\n9,old\n1,2\n2,young\n",
        Said("line 2, column 'age'", "'old' … number", "correct … leave it empty"),
        {"columns": {"age": "number"}},
    ),
    "infinity as number": BadFile(
        "id,age\n1,2\n2,inf\n",
        Said("line 3, column 'age'", "inf … finite number", "correct … leave it empty"),
        {"columns": {"age": "number"}},
    ),
    "no flag": BadFile(
        "id,age\n1,2\n2,1\n",
        Said("line 2, column 'age'", "'2' … yes or no", "correct … leave it empty"),
        {"columns": {"age": "flag"}},
    ),
    "no date": BadFile(
        "id,born\n1,1990\n2,soon; or not\n",
        Said("line 3, column 'born'", "'soon; or not' … year or a date", "correct … leave it empty"),
        {"columns": {"born": "date"}},
    ),
    "an unknown column": BadFile(
        "id,age\n1,2\n",
        Said("", "no column 'aeg' … 'id', 'age'", "one of them", {"columns": ...}),
        {"columns": {"aeg": "number"}},
    ),
    "an unknown kind of column": BadFile(
        "id,age\n1,2\n",
        Said("", "'age' … kind 'float'", "skip, flag, date, number, several, text, category"),
        {"columns": {"age": "float"}},
    ),
    "a kind for the ids": BadFile("id,age\n1,2\n", Said("", "'id' … ids", "no kind"), {"columns": {"id": "category"}}),
    "a header that could be data": BadFile(
        "ann,red\nbob,blue\n",
        Said("line 1", "cannot tell a header … 'ann, red'", "", {"header": True, "no_header": False}),
    ),
    "two columns of one name": BadFile("id,age,age\n1,2,3\n", Said("", "two columns … 'age'", "rename")),
    "a column without a name": BadFile("id,,age\n1,2,3\n", Said("", "column 2 … no name", "give it one")),
    "too few names": BadFile(
        "1,2,3\n", Said("", "2 names for 3 columns", "one for each … id"), {"names": ["id", "age"]}
    ),
    "names that are none": BadFile(
        "1,2\n",
        Said("", "names=[1, 2]", "['id', 'age']"),
        {"names": [1, 2]},
    ),
    "a short line": BadFile(
        "id,age,sex\n1,2,m\n2,3\n",
        Said("line 3", "2 cells … 3 … '2,3'", "fix … remove"),
    ),
    "two separators": BadFile(
        "1,a|b\n2,b|c\n",
        Said("", "both '|' and ',' … separator", "", {"separator": "|"}),
        {},
        "f.dat",
    ),
    "no tags": BadFile("id,tag\n1,\n2, \n", Said("", "no tag … 'tag'", "id, tag[, count]")),
    "five columns of tags": BadFile(
        "1,2,3,4,5\n", Said("", "5 columns without names", "id, tag[, count] … user, id, tag, time"), {"kind": "tags"}
    ),
    "a count that is none": BadFile(
        "id,tag,count\n1,a,2\n2,a,few\n",
        Said("line 3, column 'count'", "'few' … number", "correct … remove"),
    ),
    "a negative count": BadFile(
        "id,tag,count\n1,a,-2\n",
        Said("line 2, column 'count'", "'-2' … from 0 on", "correct … remove"),
    ),
    "counts of zero": BadFile("id,tag,count\n1,a,0\n", Said("", "all counts are 0", "nothing to learn")),
    "links with more columns": BadFile(
        "from,to,why\n1,2,3\n",
        Said("", "id, id[, weight] … 'from', 'to', 'why'", "leave out … columns"),
        {"kind": "links"},
    ),
    "NaN in vectors": BadFile(
        "id,x,y\n1,2,nan\n",
        Said("line 2, column 'y'", "empty … number", "fill … remove"),
        {"kind": "vectors"},
    ),
    "an unusual weight": BadFile(
        "1,2,1\n2,3,1e300\n",
        Said("line 2, column 'column 3'", "'1e300' … weight", "correct … remove"),
        {"kind": "links"},
    ),
    "vectors twice": BadFile(
        "id,x,y\n1,2,3\n1,2,3\n", Said("", "id 1 … line 2 … line 3", "keep one"), {"kind": "vectors"}
    ),
    "latin-1": BadFile(
        "id,land\n1,Österreich\n".encode("latin-1"),
        Said("line 2", "byte 0xd6 … not UTF-8", "save … UTF-8", {"encoding": "latin-1"}),
    ),
    "no encoding": BadFile(
        "id,age\n1,2\n",
        Said("", "no encoding 'klingon'", "", {"encoding": "latin-1"}),
        {"encoding": "klingon"},
    ),
    "an archive": BadFile(b"7z\xbc\xaf....", Said("", "7z archive", "unpack … file with the features"), {}, "f.7z"),
    "not Parquet": BadFile(b"nothing", Said("", "not a Parquet file", "write or fetch … again"), {}, "f.parquet"),
    ".npy without ids": BadFile(b"", Said("", "no ids", "ids=... … path"), {}, "f.npy"),
    "no .npy file": BadFile(
        b"nothing at all",
        Said("", "Python objects … no .npy", "np.save"),
        {"ids": [1]},
        "f.npy",
    ),
}


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_bad_files(case: BadFile, tmp_path: Path) -> None:
    path = case.written(tmp_path)
    case.said.check(refusal(Features.read, path, **case.options), path)


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
        lambda: Features.read(TAGS, kind="tags").encode_table(pl.DataFrame({"id": [3], "Tags": ["a"]})),
        Said("the polars DataFrame", "no column 'tags' … 'Tags'", "did you mean 'tags'? … rename … remove"),
    ),
    "a table that says nothing": BadCall(
        lambda: Features.read(TAGS, kind="tags").encode_table(pl.DataFrame({"id": [3], "age": [4]})),
        Said("the polars DataFrame", "none of its columns", "at least one of 'tags'"),
    ),
    "more ids than rows": BadCall(
        lambda: Features.read(([1, 2, 3], np.zeros((2, 2)))),
        Said("the vectors", "3 ids for 2 rows", "one id for each row"),
    ),
    "NaN in an array": BadCall(
        lambda: Features.read((["a", "b"], np.array([[1, 2], [3, np.nan]]))),
        Said("the vectors", "id 'b' … nan … position 1", "correct … leave the id out"),
    ),
    "too large for float32": BadCall(
        lambda: Features.read({1: [1e300]}),
        Said("the vectors", "id 1 … 1e+300 … position 0", "correct … leave the id out"),
    ),
    "ragged vectors": BadCall(
        lambda: Features.read({1: [1, 2], 2: [3]}),
        Said("the vectors", "id 2 has 1 … 1 has 2", "same length"),
    ),
    "words in vectors": BadCall(
        lambda: Features.read({1: ["a"]}),
        Said("the vectors", "id 1 … ['a']", "plain numbers"),
    ),
    "no vectors": BadCall(
        lambda: Features.read({}),
        Said("the vectors", "none", "at least one … {42: [0.1, 0.7]}"),
    ),
    "vectors of nothing": BadCall(
        lambda: Features.read({1: []}),
        Said("the vectors", "empty", "at least one number"),
    ),
    "a vector twice": BadCall(
        lambda: Features.read(([7, 8, 7], np.zeros((3, 1)))),
        Said("the vectors", "id 7 … row 1 … row 3", "keep one"),
    ),
    "vectors as tags": BadCall(
        lambda: Features.read({1: [1]}, kind="tags"),
        Said("", "kind='tags' … vectors", "kind='vectors'"),
    ),
    "a sparse matrix of negative counts": BadCall(
        lambda: Features.read(([1], csr_array([[-1.0]]))),
        Said("", "sparse matrix … negative, NaN or infinite", "0 or more"),
    ),
    "tuples of unknown kind": BadCall(
        lambda: Features.read([(1, "a")]),
        Said("", "tags or links", "kind='tags' … kind='links'"),
    ),
    "no tuples": BadCall(
        lambda: Features.read([], kind="links"),
        Said("the tuples", "none", "at least one … (id, tag)"),
    ),
    "ragged tuples": BadCall(
        lambda: Features.read([(1, 2), (1, 2, 3)], kind="links"),
        Said("the tuples, row 2", "3 entries … first row has 2", "the same"),
    ),
    "numbers as tags": BadCall(
        lambda: Features.read([(1, "a"), (1, 2)], kind="tags"),
        Said("the tuples, row 2, column 'column 2'", "2 … tag", "convert the column", {"id": ...}),
    ),
    "lists as tags": BadCall(
        lambda: Features.read(pl.DataFrame({"id": [1], "tag": [["a", "b"]]})),
        Said("the polars DataFrame, row 1, column 'tag'", "['a', 'b'] … tag", "each tag a row", {"kind": "table"}),
    ),
    "something else": BadCall(
        lambda: Features.read(5),
        Said("", "cannot read features from int", "a path … DataFrame … tuples … (ids, vectors)"),
    ),
    "an empty frame": BadCall(
        lambda: Features.read(TABLE.clear()),
        Said("the polars DataFrame", "no rows", "each id needs one"),
    ),
    "ids that are floats": BadCall(
        lambda: Features.read(pd.DataFrame({"id": [1.5], "age": [2]})),
        Said(
            "the pandas DataFrame, row 1, column 'id'",
            "floats … 1.5",
            ".cast(pl.Int64) … .astype('int64')",
        ),
    ),
    "an unknown kind": BadCall(
        lambda: Features.read(TABLE, kind="tabel"),
        Said("", "no kind 'tabel'", "table, tags, links, vectors"),
    ),
    "nothing to reduce to": BadCall(
        lambda: Features.read(TABLE, reduce_to=0),
        Said("", "reduce_to=0", "1 or more"),
    ),
    "kinds of columns of links": BadCall(
        lambda: Features.read([(1, 2)], kind="links", columns={"a": "text"}),
        Said("", "columns= … table", "leave it out"),
    ),
    "ids of a table": BadCall(
        lambda: Features.read(TABLE, ids=[1]),
        Said("", "ids= … .npy", "id=..."),
    ),
    "a separator of a frame": BadCall(
        lambda: Features.read(TABLE, separator=","),
        Said("", "separator and header … text files", "leave them out"),
    ),
    "nothing to join": BadCall(lambda: Features.join([]), Said("", "no features", "at least one")),
    "a name twice": BadCall(
        lambda: Features.join([Features.read(TABLE), Features.read(TABLE)]),
        Said("the joined features", "two … 'age'", "rename … name=..."),
    ),
    "a key twice": BadCall(
        lambda: Features.join(
            [
                Features.read(pl.DataFrame({"id": [1, 2], "sex": ["m", "m"]}), columns={"sex": "category"}),
                Features.read(pl.DataFrame({"id": [1, 2], "sex": ["f", "f"]}), columns={"sex": "category"}),
            ]
        ),
        Said("the joined features", "two … 'sex'", "rename … name=..."),
    ),
    "users as items": BadCall(
        lambda: Features.read(pl.DataFrame({"age": [3, 4], "userId": [1, 2]}), about="item"),
        Said(
            "the polars DataFrame",
            "it is given as being about items, but column 'userId' holds ids of users",
            "swap the files … rename … 'item'",
        ),
    ),
    "the tags of items as those of users": BadCall(
        lambda: Features.read(pl.DataFrame({"movie": [3, 4], "tag": ["a", "a"]}), about="user"),
        Said(
            "the polars DataFrame",
            "it is given as being about users, but column 'movie' holds ids of items",
            "swap the files … rename … 'user'",
        ),
    ),
    "no side": BadCall(
        lambda: Features.read(TABLE, about="items"),  # type: ignore[arg-type]
        Said("", "about='items'", "'user' or 'item'"),
    ),
    "vectors in a table": BadCall(
        lambda: Features.read(pl.DataFrame({"id": [1, 2], "v": [None, [0.5, 1.0]]})),
        Said(
            "the polars DataFrame, row 2, column 'v'",
            "(0.5, 1.0) … categories",
            "leave the column out",
            {"kind": "vectors"},
        ),
    ),
    "a word among numbers": BadCall(
        lambda: Features.read(pl.DataFrame({"id": range(10), "age": [*"31234567", "old", "9"]})),
        Said(
            "the polars DataFrame, row 9, column 'age'",
            "'old' … number",
            "correct … leave it empty",
            {"columns": {"age": "category"}},
        ),
    ),
    "infinity among numbers": BadCall(
        lambda: Features.read(pl.DataFrame({"id": range(10), "age": [*map(float, range(9)), float("inf")]})),
        Said(
            "the polars DataFrame, row 10, column 'age'",
            "inf … finite number",
            "correct … leave it empty",
            {"columns": {"age": "category"}},
        ),
    ),
    "a word among years": BadCall(
        lambda: Features.read(pl.DataFrame({"id": range(10), "year": [*["1999", "2001", "1980"] * 3, "soon"]})),
        Said(
            "the polars DataFrame, row 10, column 'year'",
            "'soon' … year or a date",
            "correct … leave it empty",
            {"columns": {"year": "category"}},
        ),
    ),
}


@pytest.mark.parametrize("name", ["tag", "Tags", "TAG"])
def test_a_source_that_is_nearly_named(name: str) -> None:
    learned = Features.read(TAGS, kind="tags")
    assert learned.encode_table(pl.DataFrame({"id": [3], "tags": ["a"], "other": [1]})).ids.ids == [3]
    said = Said("the polars DataFrame", f"no column 'tags' … {name!r}", "did you mean 'tags'? … rename … remove")
    said.check(refusal(learned.encode_table, pl.DataFrame({"id": [3], name: ["a"]})))


@pytest.mark.parametrize("case", OBJECTS.values(), ids=OBJECTS)
def test_bad_objects(case: BadCall) -> None:
    case.said.check(refusal(case.call))


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
DESCRIPTIONS: dict[str, tuple[dict[str, object], Said]] = {
    "text for a number": (
        {"age": "old"},
        Said("the description, 'age'", "'old' … number", "correct … None"),
    ),
    "an empty list for a number": (
        {"age": []},
        Said("the description, 'age'", "() … number", "correct … None"),
    ),
    "truth for a number": (
        {"age": True},
        Said("the description, 'age'", "True … number", "correct … None"),
    ),
    "a list for a category": (
        {"job": ["cook"]},
        Said("the description, 'job'", "('cook',) … category", "correct … None"),
    ),
    "an unknown category": (
        {"job": "cok"},
        Said("the description, 'job'", "unknown … 'cok'", "did you mean 'cook' … 'cook', 'smith'"),
    ),
    "an unknown one of several": (
        {"genres": ["Drama", "War"]},
        Said("the description, 'genres'", "unknown … 'War'", "'Comedy', 'Drama'"),
    ),
    "a number for a flag": (
        {"ok": 2},
        Said("the description, 'ok'", "2 … yes or no", "correct … None"),
    ),
    "no year": (
        {"born": "late"},
        Said("the description, 'born'", "'late' … year or a date", "correct … None"),
    ),
    "a number for a text": (
        {"plot": 5},
        Said("the description, 'plot'", "5 … text", "correct … None"),
    ),
    "a number for tags": (
        {"tags": 1.5},
        Said("the description, 'tags'", "1.5 … tags", "correct … None"),
    ),
    "a negative count": (
        {"tags": {"a": -1}},
        Said("the description, 'tags'", "-1.0 … tag 'a', 0 or more", "correct … None"),
    ),
    "a float as id": (
        {"links": [1.5]},
        Said("the description, 'links'", "1.5 … id", "correct … None"),
    ),
    "an unusual weight": (
        {"links": {2: 1e300}},
        Said("the description, 'links'", "1e+300 … weight", "correct … None"),
    ),
    "a short vector": (
        {"vectors": [1]},
        Said("the description, 'vectors'", "1 numbers … vector of 2", "correct … None"),
    ),
    "NaN in a vector": (
        {"vectors": [1, float("nan")]},
        Said("the description, 'vectors'", "nan … finite number", "correct … None"),
    ),
    "an unknown key": (
        {"genre": "Drama"},
        Said("the description", "no column 'genre'", "did you mean 'genres'"),
    ),
}


@pytest.mark.parametrize(("wrong", "said"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_bad_descriptions(features: Features, wrong: dict[str, object], said: Said) -> None:
    assert not features.encode(GOOD | {"title": 5, "id": 7}).any()
    said.check(refusal(features.encode, GOOD | wrong))


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
    "a column less": BadFile(
        "id,age,job,genres,ok,born\n1,2,cook,,yes,1990\n",
        Said("", "no column 'plot' … text", "add it … empty cells"),
    ),
    "an unknown category": BadFile(
        "id,age,job,genres,ok,born,plot\n1,2,cook,,yes,1990,\n2,3,baker,,no,1990,\n",
        Said("line 3, column 'job'", "unknown … 'baker'", "'cook', 'smith'"),
    ),
}


@pytest.mark.parametrize("case", NEW_ONES.values(), ids=NEW_ONES)
def test_bad_tables_of_new_ones(case: BadFile, features: Features, tmp_path: Path) -> None:
    path = case.written(tmp_path)
    case.said.check(refusal(features.encode_table, path), path)


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
