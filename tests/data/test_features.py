"""Side information of every kind becomes one matrix, and new ones are described by the same columns."""

import gzip
import json
import os
import warnings
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cofill.data.features import Features, UnknownFeatureWarning
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError

MOVIES = """movieId,title,genres,runtime,colour,released,plot
10,Alien (1979),Horror|Sci-Fi,117,yes,1979-05-25,The crew of a ship meets a deadly alien in space
20,Big (1988),Comedy|Fantasy,104,yes,1988-06-03,A boy wishes to be big and wakes up as a man
30,Casablanca (1942),Drama|Romance,102,no,1942-11-26,A man meets his former love in a town at war
40,Duel (1971),(no genres listed),90,yes,1971-11-13,A man in a car is chased by a deadly truck
50,Evil,Horror,,yes,,
"""
Row = dict[str, Any]


def write(folder: Path, content: str, name: str = "movies.csv") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def column(features: Features, name: str) -> npt.NDArray[np.float32]:
    return features.values[:, features.names.index(name)]


def standardised(*numbers: float) -> list[Any]:
    array = np.array(numbers)
    return [pytest.approx(number, abs=1e-5) for number in (array - array.mean()) / array.std()]


@pytest.fixture
def movies(tmp_path: Path) -> Features:
    return Features.read(write(tmp_path, MOVIES))


def test_the_kinds_of_a_table(movies: Features) -> None:
    kinds = {line.column: line.kind for line in movies.report()}
    assert kinds == {
        "title": "skip",
        "genres": "several",
        "runtime": "number",
        "colour": "flag",
        "released": "date",
        "plot": "text",
    }
    assert movies.ids.ids == [10, 20, 30, 40, 50]
    assert movies.names[:6] == tuple(
        f"genres={genre}" for genre in ("Comedy", "Drama", "Fantasy", "Horror", "Romance", "Sci-Fi")
    )
    assert movies.names[6:9] == ("runtime", "colour", "released")
    assert all(name == f"plot[{at}]" for at, name in enumerate(movies.names[9:]))
    assert movies.values.dtype == np.float32
    assert movies.values.shape == (5, movies.width)
    assert movies.width == len(movies.names)


def test_the_numbers_of_a_table(movies: Features) -> None:
    assert column(movies, "genres=Horror").tolist() == [1, 0, 0, 0, 1]
    assert column(movies, "genres=Sci-Fi").tolist() == [1, 0, 0, 0, 0]
    assert movies.values[3, :6].tolist() == [0] * 6  # "(no genres listed)" is missing
    assert column(movies, "colour").tolist() == [1, 1, 0, 1, 1]
    assert column(movies, "runtime")[:4].tolist() == standardised(117, 104, 102, 90)
    assert column(movies, "runtime")[4] == 0
    years = [1979 + 144 / 365, 1988 + 154 / 366, 1942 + 329 / 365, 1971 + 316 / 365]
    assert column(movies, "released")[:4].tolist() == standardised(*years)
    plots = movies.values[:4, 9:]
    assert np.square(plots).sum(axis=1).mean() == pytest.approx(1, abs=1e-5)
    assert not movies.values[4, 9:].any()


def test_the_report(movies: Features) -> None:
    genres, runtime = movies.report()[1:3]
    assert genres == ("movies.csv", "genres", "several", 6, 6, 1, "Horror|Sci-Fi")
    assert runtime == ("movies.csv", "runtime", "number", 1, 4, 1, "117")
    assert movies.report()[0][3] == 0
    assert movies.report()[5].example == "The crew of a ship meets a deadly ali..."


def test_a_constant_column_is_zeros_and_reported(tmp_path: Path) -> None:
    features = Features.read(write(tmp_path, "id,age,size\n1,5,1\n2,5,2\n"))
    assert column(features, "age").tolist() == [0, 0]
    assert features.report()[0].example == "5 in every row"
    assert features.encode({"age": 9, "size": 1}).tolist() == [0, -1]


def test_outliers_are_clipped() -> None:
    features = Features.read(pl.DataFrame({"id": range(101), "n": [0.0] * 100 + [1e9]}))
    assert column(features, "n")[-1] == 5
    assert features.encode({"n": -1e30}).tolist() == [-5]


@pytest.mark.parametrize(
    ("name", "cells", "kind"),
    [
        ("year", ["1999", "2001", "1999"], "date"),
        ("count", ["1999", "2001", "1999"], "number"),
        ("released", ["01-Jan-1995", "31-Dec-1996", ""], "date"),
        ("when", ["1995-01-01", "1996-12-31T10:00:00", ""], "date"),
        ("title", [f"Film {at} (19{at})" for at in range(10, 30)], "date"),
        ("title", [f"Film {at}" for at in range(20)], "skip"),
        ("zip", [f"{at:05d}-A" for at in range(20)], "skip"),
        ("imdbId", [str(at) for at in range(20)], "skip"),
        ("age", [str(at) for at in range(20)], "number"),
        ("empty", ["", "N/A", ""], "skip"),
        ("likes", ["1", "0", "1"], "flag"),
        ("likes", ["Yes", "no", "yes"], "flag"),
        ("likes", ["True", "False", ""], "flag"),
        ("likes", ["1", "yes", "1"], "category"),
        ("sex", ["M", "F", "M"], "category"),
        ("languages", ["English", "English, French", "French", "English, German"], "several"),
        ("languages", ["English; French", "French", "English"], "several"),
        ("title", ["Matrix, The", "Getaway, The", "Heat", "Duel", "Speed", "Jaws"], "skip"),
        ("homepage", [f"http://x.org/{at} (1995)" for at in range(5)], "skip"),
        ("zipcode", ["10115", "10115", "10117"], "skip"),
        ("stars", ["Ann, Bob", "Ann; or so, Bob", *["Bob, Ann"] * 30], "several"),
        ("plot", ["a b c d e f g", "b c|d e f g h", *["c d e f g h"] * 30], "text"),
        ("score", ["1.5", "NA", "2"], "number"),
        ("shelf", ["A12", "A13", "A12"], "category"),
        ("shelf", ["12", "13", "12", "A12"], "category"),
        ("region", [*["NA"] * 30, "EU"], "category"),
        ("code", ["10115", "98107-2117", "10115"], "category"),
        ("code", ["10115", "00501", "10115"], "category"),
        ("code", [*["10115", "98107"] * 9, "00501", "02139"], "category"),  # as many as MovieLens has
        ("price", [*["5", "12"] * 20, "007"], "number"),
        ("price", ["5", "00", "12", "5"], "number"),
        ("imdbId", [*map(str, range(20)), "tt20"], "skip"),
        ("isbn", [*map(str, range(1000, 1020)), "102X"], "skip"),
        (
            "plot",
            ["one two, three four five, six seven", "eight, nine ten eleven twelve thirteen fourteen", ""],
            "text",
        ),
    ],
)
def test_inference(name: str, cells: list[str], kind: str) -> None:
    (line,) = Features.read(pl.DataFrame({"id": range(len(cells)), name: cells})).report()
    assert line.kind == kind


def test_the_kinds_of_typed_columns() -> None:
    frame = pl.DataFrame(
        {
            "id": ["a", "b", "c"],
            "flag": [True, False, None],
            "lists": [["x", "y"], ["y"], None],
            "day": [date(2000, 1, 1), date(2001, 1, 1), None],
            "moment": [datetime(2000, 1, 1), None, datetime(2002, 1, 1)],
            "number": [1, 2, 4],
            "empty": [None, None, None],
        }
    )
    features = Features.read(frame)
    assert [line.kind for line in features.report()] == ["flag", "several", "date", "date", "number", "skip"]
    assert column(features, "day").tolist() == [-1, 1, 0]
    assert column(features, "lists=y").tolist() == [1, 1, 0]
    pandas = Features.read(pd.DataFrame(frame.to_dict(as_series=False)))
    assert pandas.names == features.names
    np.testing.assert_array_equal(pandas.values, features.values)
    np.testing.assert_array_equal(Features.read(frame.to_arrow()).values, features.values)


def test_kinds_can_be_set(tmp_path: Path) -> None:
    path = write(tmp_path, MOVIES)
    features = Features.read(
        path, columns={"runtime": "category", "plot": "skip", "title": "date", "colour": "category"}
    )
    assert {"runtime=102", "colour=no", "title"} <= set(features.names)
    assert not any(name.startswith("plot") for name in features.names)
    assert column(features, "title").tolist() == [*standardised(1979, 1988, 1942, 1971), 0]


def test_wide_categories_are_reduced() -> None:
    rows = [{"id": at, "director": f"d{at % 7}", "sex": "fm"[at % 2]} for at in range(30)]
    features = Features.read(pl.DataFrame(rows), reduce_to=4)
    assert features.names == ("sex=f", "sex=m", "director[0]", "director[1]", "director[2]", "director[3]")
    assert np.array_equal(features.values[0, 2:], features.values[14, 2:])
    with pytest.warns(UnknownFeatureWarning, match="director"):
        assert not features.encode({"director": "nobody", "sex": None}).any()


@pytest.mark.parametrize("name", ["movies.tsv", "movies.csv.gz", "movies.parquet", "movies.dat", "movies.txt"])
def test_every_format_says_the_same(movies: Features, tmp_path: Path, name: str) -> None:
    frame = pl.read_csv(MOVIES.encode(), infer_schema=False).with_columns(pl.col("movieId").cast(pl.Int64))
    path = tmp_path / name
    if name.endswith(".parquet"):
        frame.write_parquet(path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(MOVIES.encode()))
    else:
        separator = {"tsv": "\t", "dat": "::", "txt": ";"}[name[-3:]]
        rows = [frame.columns, *frame.rows()]
        path.write_text("\n".join(separator.join("" if cell is None else str(cell) for cell in row) for row in rows))
    features = Features.read(path)
    assert (features.ids, features.names) == (movies.ids, movies.names)
    np.testing.assert_array_equal(features.values, movies.values)


def test_a_file_without_header(tmp_path: Path) -> None:
    path = write(tmp_path, "1|24|M\n2|53|F\n3|23|M\n", "u.user")
    assert Features.read(path).names == ("column 2", "column 3=F", "column 3=M")
    named = Features.read(path, names=["id", "age", "sex"])
    assert named.names == ("age", "sex=F", "sex=M")
    new = named.encode_table(write(tmp_path, "9|24|F\n", "new.user"), names=["id", "age", "sex"])
    assert new.ids.ids == [9]
    np.testing.assert_array_equal(new.values, [[named.values[0, 0], 1, 0]])


def test_titles_without_a_header_are_found_by_their_years(tmp_path: Path) -> None:
    path = tmp_path / "u.item"
    path.write_text("1|Heat (1995)|01-Jan-1995||0|1\n2|Duel (1971)|01-Jan-1971||1|0\n3|Jaws (1975)|01-Jan-1975||1|1\n")
    features = Features.read(path)
    assert [(line.column, line.kind) for line in features.report()] == [
        *(("title", "date"), ("column 3", "date"), ("column 4", "skip"), ("column 5", "flag"), ("column 6", "flag"))
    ]
    assert features.readable["year"].cells.to_list() == [1995, 1971, 1975]
    path.write_text("4|Speed (1994)|01-Jan-1994||1|1\n")
    assert features.encode_table(path).names == features.names


def test_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("id,land\n1,Österreich\n2,Österreich\n3,Spanien\n".encode("latin-1"))
    assert Features.read(path, encoding="latin-1").names == ("land=Spanien", "land=Österreich")


# Tags and links


def test_tags_of_every_source(tmp_path: Path) -> None:
    rows = [(1, "Funny "), (1, "space"), (2, "funny"), (2, "funny"), (3, "space"), (3, "dull")]
    features = Features.read(rows, kind="tags")
    assert features.ids.ids == [1, 2, 3]
    assert features.names == ("tags[0]", "tags[1]")  # dull is known of one id only
    movielens = "".join(f"7::{id}::{tag}::978300\n" for id, tag in rows)
    headed = "userId,movieId,tag,timestamp\n" + "".join(f"7,{id},{tag},978300\n" for id, tag in rows)
    counted = "id\ttag\tcount\n1\tfunny\t1\n1\tspace\t1\n2\tfunny\t2\n3\tspace\t1\n3\tdull\t1\n"
    sources: list[tuple[Any, dict[str, Any]]] = [
        (write(tmp_path, movielens, "tags.dat"), {"kind": "tags"}),
        (write(tmp_path, headed, "tags.csv"), {}),
        (write(tmp_path, counted, "tags.tsv"), {}),
        (pl.DataFrame(rows, schema=["item", "tag"], orient="row"), {}),
        (pd.DataFrame(rows, columns=["movie_id", "tag"]), {}),
        ([(id, tag, 1) for id, tag in rows], {"kind": "tags"}),
    ]
    for source, options in sources:
        other = Features.read(source, **options)
        assert other.ids == features.ids
        np.testing.assert_array_equal(other.values, features.values)


def test_the_tags_of_users(tmp_path: Path) -> None:
    path = write(tmp_path, "userId,movieId,tag\n7,1,a\n8,2,a\n7,2,b\n", "tags.csv")
    assert Features.read(path, id="userId").ids.ids == [7, 8]


def test_whose_ids_they_are(tmp_path: Path) -> None:
    tags = write(tmp_path, "userId,movieId,tag,timestamp\n1,70,dark,3\n2,80,dark,4\n2,90,slow,4\n", "tags.csv")
    bare = write(tmp_path, "1,70,dark,3\n2,80,dark,4\n2,90,slow,4\n", "bare.csv")
    for path in (tags, bare):
        assert Features.read(path, kind="tags").ids.ids == [70, 80, 90]
        assert Features.read(path, kind="tags", about="item").ids.ids == [70, 80, 90]
        assert Features.read(path, kind="tags", about="user").ids.ids == [1, 2]
    table = pl.DataFrame({"age": [30, 40], "user": [1, 2], "movie": [70, 80]})
    assert Features.read(table, about="user").ids.ids == [1, 2]
    assert Features.read(table, about="item").ids.ids == [70, 80]
    assert Features.read(table, about="item", id="user").ids.ids == [1, 2]
    for about in ("user", "item"):
        assert Features.read(table.rename({"user": "id"}), about=about).ids.ids == [1, 2]


def test_reduction_is_that_of_the_paper() -> None:
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.7, (40, 25))
    features = Features.read((np.arange(40), csr_array(counts)), reduce_to=5)
    left, singular_values, _ = np.linalg.svd(np.log1p(counts), full_matrices=False)
    expected = left[:, :5] * np.sqrt(singular_values[:5])
    expected /= np.sqrt(np.square(expected).sum(axis=1).mean())
    np.testing.assert_allclose(np.abs(features.values), np.abs(expected), atol=1e-5)
    assert features.width == 5


def test_many_rows_are_reduced_like_few(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = csr_array(np.random.default_rng(4).poisson(0.7, (60, 45)))
    few = Features.read((np.arange(60), counts), reduce_to=6)
    monkeypatch.setattr("cofill.data.features.source.SMALL_SIDE", 10)
    np.testing.assert_allclose(Features.read((np.arange(60), counts), reduce_to=6).values, few.values, atol=1e-5)
    turned = Features.read((np.arange(45), csr_array(counts.T)), reduce_to=6)
    monkeypatch.undo()
    np.testing.assert_allclose(
        turned.values, Features.read((np.arange(45), csr_array(counts.T)), reduce_to=6).values, atol=1e-5
    )


def test_links(tmp_path: Path) -> None:
    path = write(tmp_path, "user_id,friend_id\n1,2\n1,3\n4,2\n", "friends.csv")
    both = Features.read(path, kind="links", name="friends")
    assert both.ids.ids == [1, 2, 3, 4]
    assert both.names == ("friends[0]", "friends[1]")
    one_way = Features.read(path, kind="links", both_ways=False)
    assert one_way.ids.ids == [1, 4]
    assert one_way.values[:, 0].tolist() == [1, 1]  # 3 is the friend of one alone
    new = both.encode({"friends": [1]})
    np.testing.assert_allclose(new, both.values[both.ids.index(3)], atol=1e-5)
    np.testing.assert_array_equal(new, both.encode({"friends": {"1": 1.0}}))


# Vectors


def test_vectors_of_every_source(tmp_path: Path) -> None:
    array = np.array([[0.5, 1.0], [2.0, -3.0]], np.float32)
    features = Features.read((["a", "b"], array))
    assert features.names == ("vectors[0]", "vectors[1]")
    length = np.sqrt((array**2).sum(axis=1).mean())
    np.testing.assert_allclose(features.values, array / length, rtol=1e-6)
    np.save(tmp_path / "v.npy", array)
    pl.DataFrame({"id": ["a", "b"], "v": array.tolist()}).write_parquet(tmp_path / "lists.parquet")
    pl.DataFrame({"id": ["a", "b"], "x": array[:, 0], "y": array[:, 1]}).write_parquet(tmp_path / "many.parquet")
    for other in (
        Features.read({"a": [0.5, 1], "b": (2, -3)}),
        Features.read(tmp_path / "v.npy", ids=["a", "b"]),
        Features.read(tmp_path / "v.npy", ids=write(tmp_path, "a\nb\n", "ids.txt")),
        Features.read(tmp_path / "v.npy", ids=write(tmp_path, "id,name\na,x\nb,y\n", "ids.csv")),
        Features.read(tmp_path / "lists.parquet", kind="vectors"),
        Features.read(tmp_path / "many.parquet", kind="vectors"),
        Features.read(write(tmp_path, "id,x,y\na,0.5,1\nb,2,-3\n", "v.csv"), kind="vectors"),
    ):
        assert other.ids.ids == ["a", "b"]
        np.testing.assert_array_equal(other.values, features.values)
    np.testing.assert_allclose(features.encode({"vectors": [4, 5]}), [4 / length, 5 / length], rtol=1e-6)
    assert features.encode({"vectors": None}).tolist() == [0, 0]


# Joined, aligned, encoded


@pytest.fixture
def joined(movies: Features) -> Features:
    tags = Features.read([(10, "dark"), (20, "fun"), (60, "dark"), (60, "fun")], kind="tags")
    return Features.join([movies, tags, Features.read({30: [1.0], 70: [2.0]})])


def test_join(movies: Features, joined: Features) -> None:
    assert joined.ids.ids == [10, 20, 30, 40, 50, 60, 70]
    assert joined.names == (*movies.names, "tags[0]", "tags[1]", "vectors[0]")
    np.testing.assert_array_equal(joined.values[:5, : movies.width], movies.values)
    assert not joined.values[5:, : movies.width].any()
    np.testing.assert_allclose(joined.values[:, -1], np.array([0, 0, 1, 0, 0, 0, 2]) / np.sqrt(2.5), rtol=1e-6)


def test_join_is_associative() -> None:
    parts = [Features.read({at: [1.0 + at], 5: [9.0]}, name=f"v{at}") for at in range(3)]
    left = Features.join([Features.join(parts[:2]), parts[2]])
    right = Features.join([parts[0], Features.join(parts[1:])])
    assert left.ids == right.ids
    assert left.names == right.names
    np.testing.assert_array_equal(left.values, right.values)


def test_alignment(movies: Features) -> None:
    ids = Vocabulary([99, 30, 10])
    assert movies.described(ids).tolist() == [False, True, True]
    np.testing.assert_array_equal(movies.aligned(ids), [np.zeros(movies.width), movies.values[2], movies.values[0]])
    np.testing.assert_array_equal(movies.aligned(Vocabulary(["30"])), movies.values[2:3])


def test_a_new_one(joined: Features) -> None:
    described: Row = {
        "genres": ["Horror", "Sci-Fi"],
        "runtime": 117,
        "colour": True,
        "released": date(1979, 5, 25),
        "plot": "The crew of a ship meets a deadly alien in space",
        "tags": {"DARK": 1},
        "vectors": None,
    }
    np.testing.assert_allclose(joined.encode(described), joined.values[0], atol=1e-4)
    as_text = described | {"genres": "Horror|Sci-Fi", "runtime": "117", "colour": "yes", "tags": "dark", "title": "x"}
    np.testing.assert_allclose(joined.encode(as_text), joined.values[0], atol=1e-4)
    assert not joined.encode(dict.fromkeys(described)).any()


def test_new_ones_from_a_table(joined: Features, tmp_path: Path) -> None:
    new = joined.encode_table(write(tmp_path, MOVIES.replace("\n10,", "\n100,"), "new.csv"))
    assert new.names == joined.names
    assert new.ids.ids == [100, 20, 30, 40, 50]
    movies_width = joined.width - 3
    np.testing.assert_allclose(new.values[:, :movies_width], joined.values[:5, :movies_width], atol=1e-4)
    assert not new.values[:, movies_width:].any()
    rows = [
        dict.fromkeys(("genres", "runtime", "colour", "released", "plot")) | {"id": 1, "tags": "dark", "vectors": "7"}
    ]
    (row,) = joined.encode_table(pl.DataFrame(rows)).values
    np.testing.assert_allclose(row[-3:-1], joined.values[0, -3:-1], atol=1e-4)
    np.testing.assert_allclose(row[-1], 7 / np.sqrt(2.5), rtol=1e-6)


def test_a_table_of_new_ones_has_the_same_id_column(tmp_path: Path) -> None:
    features = Features.read(write(tmp_path, "name,key,job\nx,ann,cook\ny,bob,cook\nz,cid,smith\n"), id="key")
    new = features.encode_table(write(tmp_path, "job,key\nsmith,dan\n", "new.csv"))
    assert new.ids.ids == ["dan"]
    assert new.values.tolist() == [[0, 1]]


def test_unknown_words_are_warned_of_once(joined: Features) -> None:
    nothing: Row = dict.fromkeys(("genres", "runtime", "colour", "released", "plot", "tags", "vectors"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not joined.encode(nothing | {"tags": ["new", "newer"]}).any()
        joined.encode(nothing | {"tags": ["new", "dark"]})
        assert not joined.encode(nothing | {"tags": []}).any()
    assert [str(warning.message) for warning in caught] == [
        "tags: nothing in a description is known from two ids or more, such as 'new'; tags says nothing there"
    ]
    assert caught[0].category is UnknownFeatureWarning


# Laws

WORDS = st.sampled_from(["sun", "moon", "star", "sea", "hill", "dog", "cat", "owl", "été", "Öl"])
TEXTS = st.lists(WORDS, min_size=0, max_size=9).map(" ".join)
FLOATS = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    ids = draw(st.lists(st.integers(0, 10**6), min_size=1, max_size=12, unique=True))
    return [
        {
            "id": id,
            "number": draw(FLOATS),
            "flag": draw(st.none() | st.booleans()),
            "category": draw(st.none() | WORDS),
            "many": draw(st.none() | st.lists(WORDS, max_size=4, unique=True).map("|".join)),
            "date": draw(st.none() | st.dates(date(1900, 1, 1), date(2100, 1, 1))),
            "text": draw(st.none() | TEXTS),
        }
        for id in ids
    ]


SCHEMA = {
    "id": pl.Int64,
    "number": pl.Float64,
    "flag": pl.Boolean,
    "category": pl.String,
    "many": pl.String,
    "date": pl.Date,
    "text": pl.String,
}
KINDS: dict[str, Any] = {
    "number": "number",
    "flag": "flag",
    "category": "category",
    "many": "several",
    "date": "date",
    "text": "text",
}


def read_table(rows: list[Row], reduce_to: int) -> Features:
    return Features.read(pl.DataFrame(rows, schema=SCHEMA), columns=KINDS, reduce_to=reduce_to)


def read_again(features: Features) -> Features:
    arrays = features.arrays()
    assert all(array.dtype.kind in "fiu" for array in arrays.values())
    return Features.restored(json.loads(json.dumps(features.card())), arrays, Vocabulary(features.ids.ids))


@given(tables(), st.sampled_from([2, 5, 50]))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
@pytest.mark.filterwarnings("ignore::cofill.data.features.UnknownFeatureWarning")
def test_a_row_is_encoded_as_it_was_read(rows: list[Row], reduce_to: int) -> None:
    features = read_table(rows, reduce_to)
    assert np.isfinite(features.values).all()
    restored = read_again(features)
    assert (restored.names, restored.report()) == (features.names, features.report())
    np.testing.assert_array_equal(restored.values, features.values)
    for row, values in zip(rows, features.values, strict=True):
        np.testing.assert_allclose(features.encode(row), values, atol=1e-4)
        np.testing.assert_array_equal(restored.encode(row), features.encode(row))
    again = features.encode_table(pl.DataFrame(rows, schema=SCHEMA))
    assert again.ids == features.ids
    np.testing.assert_allclose(again.values, features.values, atol=1e-4)


@given(tables(), st.randoms(use_true_random=False), st.sampled_from([2, 50]))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
def test_the_order_of_lines_does_not_matter(rows: list[Row], random: Any, reduce_to: int) -> None:
    features = read_table(rows, reduce_to)
    shuffled = random.sample(rows, len(rows))
    other = read_table(shuffled, reduce_to)
    assert other.ids.ids == [row["id"] for row in shuffled]
    assert other.names == features.names
    assert other.report() == features.report()
    np.testing.assert_array_equal(other.aligned(features.ids), features.values)


PAIRS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.floats(0.125, 50)), min_size=1, max_size=25)


@given(PAIRS, st.randoms(use_true_random=False), st.sampled_from([1, 3, 50]))
@settings(deadline=None, max_examples=40)
@pytest.mark.filterwarnings("ignore::cofill.data.features.UnknownFeatureWarning")
def test_tags_are_encoded_as_they_were_read(rows: list[tuple[int, int, float]], random: Any, reduce_to: int) -> None:
    named = [(id, f"tag {tag}", count) for id, tag, count in rows]
    features = Features.read(named, kind="tags", reduce_to=reduce_to)
    restored = read_again(features)
    for id in features.ids:
        counts: Counter[str] = Counter()
        for owner, tag, count in named:
            counts[tag] += count * (owner == id)  # type: ignore[assignment]
        np.testing.assert_allclose(
            features.encode({"tags": counts}), features.values[features.ids.index(id)], atol=1e-4
        )
        np.testing.assert_array_equal(restored.encode({"tags": counts}), features.encode({"tags": counts}))
    other = Features.read(random.sample(named, len(named)), kind="tags", reduce_to=reduce_to)
    np.testing.assert_array_equal(other.aligned(features.ids), features.values)


@given(PAIRS, st.randoms(use_true_random=False), st.booleans())
@settings(deadline=None, max_examples=40)
@pytest.mark.filterwarnings("ignore::cofill.data.features.UnknownFeatureWarning")
def test_links_are_encoded_as_they_were_read(rows: list[tuple[int, int, float]], random: Any, both_ways: bool) -> None:
    features = Features.read(rows, kind="links", both_ways=both_ways)
    restored = read_again(features)
    all_links = rows + [(end, begin, weight) for begin, end, weight in rows] * both_ways
    assert set(features.ids) == {begin for begin, _, _ in all_links}
    for id in features.ids:
        weights: dict[int, float] = {}
        for begin, end, weight in all_links:
            if begin == id:
                weights[end] = weights.get(end, 0.0) + weight
        np.testing.assert_allclose(
            features.encode({"links": weights}), features.values[features.ids.index(id)], atol=1e-4
        )
        np.testing.assert_array_equal(restored.encode({"links": weights}), features.encode({"links": weights}))
    other = Features.read(random.sample(rows, len(rows)), kind="links", both_ways=both_ways)
    np.testing.assert_array_equal(other.aligned(features.ids), features.values)


# The real thing


def real_file(relative: str) -> Path:
    folder = os.environ.get("COFILL_DATA") or Path(__file__).parents[3] / "shared" / "data"
    path = Path(folder) / relative
    if not path.exists():
        pytest.skip(f"{relative} is not in $COFILL_DATA or beside the repository in shared/data")
    return path


@pytest.mark.real_data
def test_the_texts_of_movielens() -> None:
    features = Features.read(real_file("ml-1m/movie-texts.csv"))
    assert {line.column: line.kind for line in features.report()} == {
        "plot": "text",
        "director": "several",
        "writer": "several",
        "actors": "several",
        "language": "several",
        "country": "several",
        "runtime_minutes": "number",
    }
    assert features.values.shape == (3883, 51)
    assert np.isfinite(features.values).all()
    toy_story, again = features.values[features.ids.index(1), 1:], features.values[features.ids.index(3114), 1:]
    similarity = features.values[:, 1:] @ toy_story
    assert toy_story @ again > np.quantile(similarity, 0.99)  # Toy Story 2 is like Toy Story


@pytest.mark.real_data
def test_movielens_10m_with_tags() -> None:
    movies = Features.read(real_file("ml-10m-side/movies.dat"), names=["movieId", "title", "genres"])
    tags = Features.read(real_file("ml-10m-side/tags.dat"), kind="tags")
    features = Features.join([movies, tags])
    assert repr(features) == "Features(10681 ids, 70 columns: 1 of title, 19 of genres, 50 of tags)"
    assert len(tags.ids) == 7601
    assert np.isfinite(features.values).all()
    new = features.encode({"title": "New (1995)", "genres": ["Comedy"], "tags": ["funny", "pixar"]})
    similarity = tags.values @ new[20:]
    assert similarity[tags.ids.index(1)] > np.quantile(similarity, 0.99)  # Toy Story
    assert new[0] == pytest.approx(features.values[0, 0])


def test_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("id;weight\n" + "".join(f"{n};{n},5\n" for n in range(9)))
    points = tmp_path / "p.csv"
    points.write_text(path.read_text().replace(",", "."))
    commas, plain = (
        Features.read(path, columns={"weight": "number"}),
        Features.read(points, columns={"weight": "number"}),
    )
    np.testing.assert_array_equal(commas.values, plain.values)
    assert [line.kind for line in Features.read(path).report()] == ["number"]
    path.write_text("id;weight\n1;1,000\n2;2,5\n")
    with pytest.raises(DataError, match="found '1,000' where a number belongs"):
        Features.read(path, columns={"weight": "number"})
