"""Side information that cannot be read gets one line that names the place, what was found and what to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from cofill.data.features import Features
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError


class File(NamedTuple):
    """A file with this content, and how it is read. The message begins with its path."""

    content: str | bytes
    message: str
    options: dict[str, Any] = {}  # noqa: RUF012
    name: str = "f.csv"


FILES = {
    "empty": File("", ": the file is empty; it needs one line for each id and what is known about it"),
    "header only": File(
        "id,age\n", ": a header and nothing below it; add lines, or pass header=False if line 1 is one"
    ),
    "one column": File(
        "id\n1\n2\n",
        ": found 1 column (separator ',') where 2 are needed; pass separator=... if the file has more",
    ),
    "links of one column": File(
        "1\n2\n",
        ": found 1 column (separator ',') where 2 are needed; pass separator=... if the file has more",
        {"kind": "links"},
    ),
    "no id column": File(
        "age,size\n1,2\n",
        ": no column is recognised as the id; found 'age', 'size'; say which with id=..., by name or position from 0",
    ),
    "a wrong id column": File(
        "id,age\n1,2\n", ": there is no column 'key'; found 'id', 'age'; pass one of them as id=...", {"id": "key"}
    ),
    "a wrong position": File(
        "id,age\n1,2\n", ": 5 is not the position of a column; there are 2; pass id=..., from 0 to 1", {"id": 5}
    ),
    "two id columns": File(
        "age,userId,movieId\n1,2,3\n", ": 'userId' and 'movieId' could both be the id; choose one with id='userId'"
    ),
    "an id twice": File(
        "id,age\n1,2\n2,3\n1,4\n",
        ", line 4, column 'id': the id 1 is there again after line 2, with another 'age'; keep one of them "
        "(or pass kind=... if these are lists of tags or links)",
    ),
    "a missing id": File(
        "id,age\n1,2\n,3\n",
        ", line 3, column 'id': the cell is empty where an id belongs; fill it in or remove the line",
    ),
    "a word as number": File(
        "id,age\n1,2\n2,old\n",
        ", line 3, column 'age': found 'old' where a number belongs; correct it, or leave it empty",
        {"columns": {"age": "number"}},
    ),
    "the first of several wrong cells": File(
        "id,age\n9,old\n1,2\n2,young\n",
        ", line 2, column 'age': found 'old' where a number belongs; correct it, or leave it empty",
        {"columns": {"age": "number"}},
    ),
    "infinity as number": File(
        "id,age\n1,2\n2,inf\n",
        ", line 3, column 'age': found inf where a finite number belongs; correct it, or leave it empty",
        {"columns": {"age": "number"}},
    ),
    "no flag": File(
        "id,age\n1,2\n2,1\n",
        ", line 2, column 'age': found '2' where 0 or 1, true or false, yes or no belongs; "
        "correct it, or leave it empty",
        {"columns": {"age": "flag"}},
    ),
    "no date": File(
        "id,born\n1,1990\n2,soon; or not\n",
        ", line 3, column 'born': found 'soon; or not' where a year or a date belongs; correct it, or leave it empty",
        {"columns": {"born": "date"}},
    ),
    "an unknown column": File(
        "id,age\n1,2\n",
        ": there is no column 'aeg'; found 'id', 'age'; pass one of them as columns=...",
        {"columns": {"aeg": "number"}},
    ),
    "an unknown kind of column": File(
        "id,age\n1,2\n",
        ": column 'age' cannot be of kind 'float'; the kinds are skip, flag, date, number, several, text, category",
        {"columns": {"age": "float"}},
    ),
    "a kind for the ids": File(
        "id,age\n1,2\n", ": 'id' is the column of the ids; it has no kind", {"columns": {"id": "category"}}
    ),
    "a header that could be data": File(
        "ann,red\nbob,blue\n",
        ", line 1: cannot tell a header from the first line of data: 'ann, red' has no usual name of an id column and "
        "stands above no numbers; pass header=True or header=False",
    ),
    "two columns of one name": File("id,age,age\n1,2,3\n", ": two columns are called 'age'; rename one of them"),
    "a column without a name": File("id,,age\n1,2,3\n", ": column 2 has no name; give it one"),
    "too few names": File(
        "1,2,3\n", ": 2 names for 3 columns; give one for each, that of the id too", {"names": ["id", "age"]}
    ),
    "names that are none": File(
        "1,2\n",
        ": names=[1, 2] are no names of columns; give a list such as ['id', 'age']",
        {"names": [1, 2]},
    ),
    "a short line": File(
        "id,age,sex\n1,2,m\n2,3\n",
        ", line 3: found 2 cells where the header has 3 (separator ','): '2,3'; fix or remove it",
    ),
    "two separators": File(
        "1,a|b\n2,b|c\n",
        ": both '|' and ',' could be the separator; pass the right one, such as separator='|'",
        {},
        "f.dat",
    ),
    "no tags": File("id,tag\n1,\n2, \n", ": there is no tag in column 'tag'; pass id, tag[, count]"),
    "five columns of tags": File(
        "1,2,3,4,5\n", ": 5 columns without names; pass id, tag[, count] or user, id, tag, time", {"kind": "tags"}
    ),
    "a count that is none": File(
        "id,tag,count\n1,a,2\n2,a,few\n",
        ", line 3, column 'count': found 'few' where a number belongs; correct or remove it",
    ),
    "a negative count": File(
        "id,tag,count\n1,a,-2\n",
        ", line 2, column 'count': found '-2' where a number from 0 on belongs; correct or remove it",
    ),
    "counts of zero": File("id,tag,count\n1,a,0\n", ": all counts are 0; there is nothing to learn"),
    "links with more columns": File(
        "from,to,why\n1,2,3\n",
        ": links are id, id[, weight]; found 'from', 'to', 'why'; leave out the other columns",
        {"kind": "links"},
    ),
    "NaN in vectors": File(
        "id,x,y\n1,2,nan\n",
        ", line 2, column 'y': found nan where a finite number belongs; correct it, or leave the id out",
        {"kind": "vectors"},
    ),
    "an unusual weight": File(
        "1,2,1\n2,3,1e300\n",
        ", line 2, column 'column 3': found '1e300' where a weight of ordinary size belongs; correct or remove it",
        {"kind": "links"},
    ),
    "vectors twice": File(
        "id,x,y\n1,2,3\n1,2,3\n", ": the id 1 is in line 2 and in line 3; keep one of them", {"kind": "vectors"}
    ),
    "latin-1": File(
        "id,land\n1,Österreich\n".encode("latin-1"),
        ", line 2: byte 0xd6 is not UTF-8; if the file is older, pass encoding='latin-1'; or save it as UTF-8",
    ),
    "no encoding": File(
        "id,age\n1,2\n",
        ": there is no encoding 'klingon'; pass one such as encoding='latin-1'",
        {"encoding": "klingon"},
    ),
    "an archive": File(
        b"7z\xbc\xaf....", ": this is a 7z archive; unpack it and pass the file with the features in it", {}, "f.7z"
    ),
    "not Parquet": File(b"nothing", ": not a Parquet file, or a broken one (", {}, "f.parquet"),
    ".npy without ids": File(
        b"", ": a .npy file has no ids; pass ids=..., one for each row, or the path of a file of them", {}, "f.npy"
    ),
    "no .npy file": File(
        b"nothing at all",
        ": this holds Python objects or is no .npy file; save plain numbers with "
        "np.save(path, array.astype('float32'))",
        {"ids": [1]},
        "f.npy",
    ),
}


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_bad_files(case: File, tmp_path: Path) -> None:
    path = tmp_path / case.name
    path.write_bytes(case.content if isinstance(case.content, bytes) else case.content.encode())
    with pytest.raises(DataError) as caught:
        Features.read(path, **case.options)
    message = str(caught.value)
    assert (
        message.startswith(f"{path}{case.message}")
        if case.message.endswith("(")
        else message == f"{path}{case.message}"
    )
    assert "\n" not in message


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        Features.read(tmp_path / "nowhere.csv")


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "objects.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"this holds Python objects or is no [.]npy file; save plain numbers"):
        Features.read(path, ids=[1])


def test_identical_lines_are_one(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("id,age\n1,2\n2,3\n1, 2\n")
    assert Features.read(path).ids.ids == [1, 2]


TABLE = pl.DataFrame({"id": [1, 2], "age": [3, 4]})
OBJECTS: dict[str, tuple[Callable[[], object], str]] = {
    "more ids than rows": (
        lambda: Features.read(([1, 2, 3], np.zeros((2, 2)))),
        "the vectors: 3 ids for 2 rows; give one id for each row, in the same order",
    ),
    "NaN in an array": (
        lambda: Features.read((["a", "b"], np.array([[1, 2], [3, np.nan]]))),
        "the vectors: the vector of the id 'b' has nan at position 1; every number must be finite: "
        "correct it, or leave the id out",
    ),
    "too large for float32": (
        lambda: Features.read({1: [1e300]}),
        "the vectors: the vector of the id 1 has 1e+300 at position 0; every number must be finite: "
        "correct it, or leave the id out",
    ),
    "ragged vectors": (
        lambda: Features.read({1: [1, 2], 2: [3]}),
        "the vectors: the vector of the id 2 has 1 numbers where that of 1 has 2; give all of them the same length",
    ),
    "words in vectors": (
        lambda: Features.read({1: ["a"]}),
        "the vectors: the vector of the id 1 is ['a']; pass plain numbers",
    ),
    "no vectors": (
        lambda: Features.read({}),
        "the vectors: there are none; pass at least one, such as {42: [0.1, 0.7]}",
    ),
    "vectors of nothing": (
        lambda: Features.read({1: []}),
        "the vectors: the vectors are empty; each needs at least one number",
    ),
    "a vector twice": (
        lambda: Features.read(([7, 8, 7], np.zeros((3, 1)))),
        "the vectors: the id 7 is in row 1 and in row 3; keep one of them",
    ),
    "vectors as tags": (
        lambda: Features.read({1: [1]}, kind="tags"),
        "kind='tags', but the source holds vectors; pass kind='vectors', or another source",
    ),
    "a sparse matrix of negative counts": (
        lambda: Features.read(([1], csr_array([[-1.0]]))),
        "the sparse matrix has entries that are negative, NaN or infinite; counts are 0 or more",
    ),
    "tuples of unknown kind": (
        lambda: Features.read([(1, "a")]),
        "tuples can be tags or links; say which with kind='tags' or kind='links'",
    ),
    "no tuples": (
        lambda: Features.read([], kind="links"),
        "the tuples: there are none; pass at least one, such as (id, tag)",
    ),
    "ragged tuples": (
        lambda: Features.read([(1, 2), (1, 2, 3)], kind="links"),
        "the tuples, row 2: found 3 entries where the first row has 2; give all of them the same",
    ),
    "numbers as tags": (
        lambda: Features.read([(1, "a"), (1, 2)], kind="tags"),
        "the tuples, row 2, column 'column 2': found 2 where a tag, which is text, belongs; "
        "convert the column, or say which is which with id=...",
    ),
    "lists as tags": (
        lambda: Features.read(pl.DataFrame({"id": [1], "tag": [["a", "b"]]})),
        "the polars DataFrame, row 1, column 'tag': found ['a', 'b'] where one tag belongs; "
        "give each tag a row of its own, or read a column of lists with kind='table'",
    ),
    "something else": (
        lambda: Features.read(5),
        "cannot read features from int; pass a path, a polars or pandas DataFrame, tuples of tags or links, "
        "or (ids, vectors)",
    ),
    "an empty frame": (
        lambda: Features.read(TABLE.clear()),
        "the polars DataFrame: there are no rows; each id needs one",
    ),
    "ids that are floats": (
        lambda: Features.read(pd.DataFrame({"id": [1.5], "age": [2]})),
        "the pandas DataFrame, row 1, column 'id': the ids are floats, the first is 1.5; "
        "ids are strings or integers: .cast(pl.Int64) in polars, .astype('int64') in pandas",
    ),
    "an unknown kind": (
        lambda: Features.read(TABLE, kind="tabel"),
        "there is no kind 'tabel' of features; the kinds are table, tags, links, vectors",
    ),
    "nothing to reduce to": (
        lambda: Features.read(TABLE, reduce_to=0),
        "reduce_to=0 is no number of columns; give 1 or more",
    ),
    "kinds of columns of links": (
        lambda: Features.read([(1, 2)], kind="links", columns={"a": "text"}),
        "columns= sets the kinds of a table's columns; leave it out for links",
    ),
    "ids of a table": (
        lambda: Features.read(TABLE, ids=[1]),
        "ids= is for .npy files; other sources have their ids inside, or say id=... for a column",
    ),
    "a separator of a frame": (
        lambda: Features.read(TABLE, separator=","),
        "separator and header are for text files; leave them out for frames and tuples",
    ),
    "nothing to join": (lambda: Features.join([]), "there are no features to join; pass at least one"),
    "a name twice": (
        lambda: Features.join([Features.read(TABLE), Features.read(TABLE)]),
        "the joined features: two feature columns would be called 'age'; rename a column, or pass name=...",
    ),
    "a key twice": (
        lambda: Features.join(
            [
                Features.read(pl.DataFrame({"id": [1, 2], "sex": ["m", "m"]}), columns={"sex": "category"}),
                Features.read(pl.DataFrame({"id": [1, 2], "sex": ["f", "f"]}), columns={"sex": "category"}),
            ]
        ),
        "the joined features: two parts have 'sex'; rename the column, or pass another name=... to read",
    ),
    "users as items": (
        lambda: Features.read(pl.DataFrame({"age": [3, 4], "userId": [1, 2]}), about="item"),
        "the polars DataFrame: it is given as being about items, but column 'userId' holds ids of users; "
        "swap the files of items and users, or rename the column to 'item'",
    ),
    "the tags of items as those of users": (
        lambda: Features.read(pl.DataFrame({"movie": [3, 4], "tag": ["a", "a"]}), about="user"),
        "the polars DataFrame: it is given as being about users, but column 'movie' holds ids of items; "
        "swap the files of users and items, or rename the column to 'user'",
    ),
    "no side": (
        lambda: Features.read(TABLE, about="items"),  # type: ignore[arg-type]
        "about='items' is no side; give 'user' or 'item', or leave it out",
    ),
    "vectors in a table": (
        lambda: Features.read(pl.DataFrame({"id": [1, 2], "v": [None, [0.5, 1.0]]})),
        "the polars DataFrame, row 2, column 'v': found (0.5, 1.0), a vector, where categories belong; read vectors "
        "with kind='vectors', or leave the column out",
    ),
    "a word among numbers": (
        lambda: Features.read(pl.DataFrame({"id": range(10), "age": [*"31234567", "old", "9"]})),
        "the polars DataFrame, row 9, column 'age': found 'old' where a number belongs; correct it, or leave it "
        "empty, or pass columns={'age': 'category'} if these are categories",
    ),
    "infinity among numbers": (
        lambda: Features.read(pl.DataFrame({"id": range(10), "age": [*map(float, range(9)), float("inf")]})),
        "the polars DataFrame, row 10, column 'age': found inf where a finite number belongs; correct it, or leave it "
        "empty, or pass columns={'age': 'category'} if these are categories",
    ),
    "a word among years": (
        lambda: Features.read(pl.DataFrame({"id": range(10), "year": [*["1999", "2001", "1980"] * 3, "soon"]})),
        "the polars DataFrame, row 10, column 'year': found 'soon' where a year or a date belongs; correct it, or "
        "leave it empty, or pass columns={'year': 'category'} if these are "
        "categories",
    ),
}


@pytest.mark.parametrize("name", ["tag", "Tags", "TAG"])
def test_a_source_that_is_nearly_named(name: str) -> None:
    learned = Features.read([(1, "a"), (2, "a"), (2, "b")], kind="tags")
    assert learned.encode_table(pl.DataFrame({"id": [3], "tags": ["a"], "other": [1]})).ids.ids == [3]
    with pytest.raises(DataError) as caught:
        learned.encode_table(pl.DataFrame({"id": [3], name: ["a"]}))
    assert str(caught.value) == (
        f"the polars DataFrame: there is no column 'tags', but {name!r}; did you mean 'tags'? rename it, or remove it"
    )


def test_a_table_that_says_nothing() -> None:
    learned = Features.read([(1, "a"), (2, "a"), (2, "b")], kind="tags")
    with pytest.raises(DataError) as caught:
        learned.encode_table(pl.DataFrame({"id": [3], "age": [4]}))
    assert str(caught.value) == ("the polars DataFrame: none of its columns is known; add at least one of 'tags'")


@pytest.mark.parametrize(("call", "message"), OBJECTS.values(), ids=OBJECTS)
def test_bad_objects(call: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError) as caught:
        call()
    assert str(caught.value) == message


@pytest.fixture(scope="module")
def features() -> Features:
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


GOOD: dict[str, object] = dict.fromkeys(["age", "job", "genres", "ok", "born", "plot", "tags", "links", "vectors"])
DESCRIPTIONS: dict[str, tuple[dict[str, object], str]] = {
    "text for a number": (
        {"age": "old"},
        ", 'age': found 'old' where a number belongs; correct it, or pass None where it is unknown",
    ),
    "an empty list for a number": (
        {"age": []},
        ", 'age': found () where a number belongs; correct it, or pass None where it is unknown",
    ),
    "truth for a number": (
        {"age": True},
        ", 'age': found True where a number belongs; correct it, or pass None where it is unknown",
    ),
    "a list for a category": (
        {"job": ["cook"]},
        ", 'job': found ('cook',) where one category belongs; correct it, or pass None where it is unknown",
    ),
    "an unknown category": (
        {"job": "cok"},
        ", 'job': found the unknown category 'cok'; did you mean 'cook'? known are 'cook', 'smith'",
    ),
    "an unknown one of several": (
        {"genres": ["Drama", "War"]},
        ", 'genres': found the unknown category 'War'; known are 'Comedy', 'Drama'",
    ),
    "a number for a flag": (
        {"ok": 2},
        ", 'ok': found 2 where 0 or 1, true or false, yes or no belongs; correct it, or pass None where it is unknown",
    ),
    "no year": (
        {"born": "late"},
        ", 'born': found 'late' where a year or a date belongs; correct it, or pass None where it is unknown",
    ),
    "a number for a text": (
        {"plot": 5},
        ", 'plot': found 5 where a text belongs; correct it, or pass None where it is unknown",
    ),
    "a number for tags": (
        {"tags": 1.5},
        ", 'tags': found 1.5 where tags: a list, a mapping of tags to counts, or 'a|b' belongs; "
        "correct it, or pass None where it is unknown",
    ),
    "a negative count": (
        {"tags": {"a": -1}},
        ", 'tags': found -1.0 where the count of the tag 'a', 0 or more, belongs; "
        "correct it, or pass None where it is unknown",
    ),
    "a float as id": (
        {"links": [1.5]},
        ", 'links': found 1.5 where an id, which is a string or an integer, belongs; "
        "correct it, or pass None where it is unknown",
    ),
    "an unusual weight": (
        {"links": {2: 1e300}},
        ", 'links': found 1e+300 where a weight of ordinary size belongs; correct it, or pass None where it is unknown",
    ),
    "a short vector": (
        {"vectors": [1]},
        ", 'vectors': found 1 numbers where a vector of 2 belongs; correct it, or pass None where it is unknown",
    ),
    "NaN in a vector": (
        {"vectors": [1, float("nan")]},
        ", 'vectors': found nan where a finite number belongs; correct it, or pass None where it is unknown",
    ),
    "an unknown key": ({"genre": "Drama"}, ": there is no column 'genre'; did you mean 'genres'?"),
}


@pytest.mark.parametrize(("wrong", "message"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_bad_descriptions(features: Features, wrong: dict[str, object], message: str) -> None:
    assert not features.encode(GOOD | {"title": 5, "id": 7}).any()
    with pytest.raises(DataError) as caught:
        features.encode(GOOD | wrong)
    assert str(caught.value) == f"the description{message}"


def test_a_key_that_is_missing(features: Features) -> None:
    with pytest.raises(DataError) as caught:
        features.encode({key: None for key in GOOD if key != "job"})
    assert str(caught.value) == (
        "the description: 'job' is missing, which holds one category; give it, or pass None where it is unknown"
    )


def test_long_lists_of_categories_are_cut() -> None:
    jobs = [f"job {at:02d}" for at in range(20)] * 2
    features = Features.read(pl.DataFrame({"id": range(40), "job": jobs}))
    with pytest.raises(DataError, match=r"known are 'job 00', .*'job 09' and 10 more$"):
        features.encode({"job": "xyz"})


def test_bad_tables_of_new_ones(features: Features, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("id,age,job,genres,ok,born\n1,2,cook,,yes,1990\n")
    with pytest.raises(DataError) as caught:
        features.encode_table(path)
    assert str(caught.value) == (
        f"{path}: there is no column 'plot', which holds a text; add it, with empty cells where it is unknown"
    )
    path.write_text("id,age,job,genres,ok,born,plot\n1,2,cook,,yes,1990,\n2,3,baker,,no,1990,\n")
    with pytest.raises(DataError) as caught:
        features.encode_table(path)
    assert str(caught.value) == (
        f"{path}, line 3, column 'job': found the unknown category 'baker'; known are 'cook', 'smith'"
    )


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
