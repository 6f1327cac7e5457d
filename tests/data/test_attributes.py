"""What items are in words: as it stood in the file, shown and filtered by."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cofill import Features
from cofill.data.attributes import AttributeColumn, Attributes
from cofill.data.features.kind import MOST_VALUES
from cofill.data.features.kinds import LONGEST_TEXT
from cofill.data.features.lists import MOST_TAGS
from cofill.data.vocabulary import Vocabulary
from cofill.errors import UnknownIdError, UnknownValueError
from tests.bad_input import Said, refusal

FILMS = """\
movieId,title,year,genres,score,released,scary,studio,imdbId,website,plot
1,Alien (1979),1979,Horror|Sci-Fi,8.5,1979-05-25,1,Fox,tt01,http://a.example/1,In space nobody can hear you scream
2,Heat (1995),1995,Crime,8,15-Dec-1995,0,Warner,tt02,http://a.example/2,A thief and a policeman have a coffee together
3,Clue (1985),1985,Comedy|Crime,7,,0,Fox,tt03,http://a.example/3,
4,Nosferatu (1922),1922,Horror,,1922,1,,tt04,http://a.example/4,A count who sleeps by day buys a house in town
5,Unknown,,(no genres listed),NA,NA,,Fox,tt05,http://a.example/5,Nobody knows what it is about but for its makers
"""
TAGS = [(1, "Space"), (1, "space"), (1, "cat"), (2, "coffee"), (4, "SPACE"), (9, "lost")]
ALL_KINDS = ["number", "several", "number", "date", "flag", "category", "text", "several"]


def read_films(folder: Path) -> Features:
    path = folder / "films.csv"
    path.write_text(FILMS)
    return Features.join([Features.read(path), Features.read(TAGS, kind="tags")])


@pytest.fixture
def films(tmp_path: Path) -> Features:
    return read_films(tmp_path)


@pytest.fixture
def attributes(films: Features) -> Attributes:
    """Of items in another order, and of one that the features do not know."""
    return Attributes.of_features(Vocabulary([9, 5, 4, 77, 3, 2, 1]), films)


def found(attributes: Attributes, **conditions: Any) -> set[Any]:
    """The ids that meet the conditions."""
    ids = attributes._items.ids
    return {ids[int(at)] for at in np.flatnonzero(attributes.matching(conditions))}


def of_table(**columns: Any) -> Attributes:
    """A table of items 0, 1, 2..."""
    height = len(next(iter(columns.values())))
    features = Features.read(pl.DataFrame({"item": range(height), **columns}, strict=False))
    return Attributes.of_features(features.ids, features)


# What is kept


def test_cells_come_back_as_they_were(attributes: Attributes) -> None:
    assert attributes.of(1) == {
        "year": 1979,
        "genres": ["Horror", "Sci-Fi"],
        "score": 8.5,
        "released": date(1979, 5, 25),
        "scary": True,
        "studio": "Fox",
        "plot": "In space nobody can hear you scream",
        "tags": ["space", "cat"],
    }
    year = attributes.of(1)["year"]
    assert type(year) is int
    assert attributes.of(2)["released"] == date(1995, 12, 15)
    assert attributes.of(4)["released"] == date(1922, 1, 1)  # a year among days
    assert attributes.of("3")["scary"] is False


def test_what_is_missing_is_none(attributes: Attributes) -> None:
    assert attributes.of(5) == dict.fromkeys(attributes.of(1)) | {
        "studio": "Fox",
        "plot": "Nobody knows what it is about but for its makers",
    }
    assert set(attributes.of(77).values()) == {None}
    assert attributes.of(9) == dict.fromkeys(attributes.of(1)) | {"tags": ["lost"]}
    with pytest.raises(UnknownIdError, match="unknown id 6"):
        attributes.of(6)


def test_the_years_of_titles_are_an_attribute() -> None:
    """As in MovieLens, which has them nowhere else."""
    films = pl.DataFrame({"item": [1, 2, 3], "title": ["Heat (1995)", "Brazil (1985)", "A film without one"]})
    features = Features.read(films, columns={"title": "date"})
    attributes = Attributes.of_features(features.ids, features)
    assert attributes.columns() == [AttributeColumn("year", "number", (), 1985, 1995)]
    assert [attributes.of(item) for item in (1, 2, 3)] == [{"year": 1995}, {"year": 1985}, {"year": None}]
    assert attributes.found({"year": {"min": 1990, "max": 1999}}).tolist() == [True, False, False]
    attributes.describe(np.array([2]), features.in_words([{"title": "Now it has one (2001)"}]))
    assert attributes.of(3) == {"year": 2001}
    own = Features.read(films.with_columns(year=pl.Series([1, 2, 3])), columns={"title": "date", "year": "number"})
    assert Attributes.of_features(own.ids, own).of(1) == {"year": 1}  # a column of that name says it itself


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"genres": "comedy"}, "the filter, 'genres': no item has 'comedy'; did you mean 'Comedy'?"),
        ({"genres": ["Comedy", "Horor"]}, "the filter, 'genres': no item has 'Horor'; did you mean 'Horror'?"),
        ({"genres": "xyz"}, "the filter, 'genres': no item has 'xyz'; there are 'Comedy', 'Crime', 'Horror', 'Sci-Fi'"),
        ({"year": "1950"}, "the filter, 'year': no item has '1950'; the nearest is 1922"),
        ({"year": [1950, 1951]}, "the filter, 'year': no item has 1950; the nearest is 1922"),
        ({"released": "1890-01-01"}, "the filter, 'released': no item has '1890-01-01'; the nearest is 1922-01-01"),
        ({"scary": True, "studio": "fox"}, "the filter, 'studio': no item has 'fox'; did you mean 'Fox'?"),
        ({"tags": "Cat"}, "the filter, 'tags': no item has 'Cat'; did you mean 'cat'?"),
    ],
)
def test_a_value_that_no_item_has_is_told(attributes: Attributes, conditions: Any, said: str) -> None:
    with pytest.raises(UnknownValueError) as caught:
        attributes.found(conditions)
    assert str(caught.value).startswith(said)


def test_conditions_that_no_item_meets_together_are_an_empty_list(attributes: Attributes) -> None:
    """Each value is there: whoever filters by facets may come to a place where nothing is."""
    assert not attributes.found({"genres": "Comedy", "year": {"max": 1930}}).any()
    assert not attributes.found({"year": {"min": 2050}}).any()
    assert not attributes.found({"plot": "unheard of"}).any()
    assert not attributes.found({"year": 1950}, names_only=True).any()
    assert attributes.found({"year": [1950, 1995]}).sum() == 1


def test_titles_skipped_columns_links_and_vectors_are_no_attributes(attributes: Attributes) -> None:
    assert [column.name for column in attributes.columns()] == [
        *("year", "genres", "score", "released", "scary", "studio", "plot", "tags")
    ]
    for other in (
        Features.read({1: [0.5, 1.0], 2: [1.0, 1.0]}),
        Features.read([(1, 2), (2, 3)], kind="links"),
        Features.read((["a", "b"], csr_array(np.eye(2)))),
        Features.read(pl.DataFrame({"item": [1, 2], "title": ["a b c d e f g", "h i j k l m n"]})),
        Features.read(pl.DataFrame({"item": [1, 2], "name": ["a", "b"]}), columns={"name": "category"}),
    ):
        assert Attributes.of_features(other.ids, other).columns() == []
    assert Attributes.of_features(Vocabulary([1, 2]), None).of(2) == {}


def test_columns_say_what_there_is(attributes: Attributes) -> None:
    columns = {column.name: column for column in attributes.columns()}
    assert [column.kind for column in columns.values()] == ALL_KINDS
    assert columns["year"] == AttributeColumn("year", "number", (), 1922, 1995)
    assert columns["score"] == AttributeColumn("score", "number", (), 7.0, 8.5)
    assert columns["released"] == AttributeColumn("released", "date", (), date(1922, 1, 1), date(1995, 12, 15))
    assert columns["genres"].values == (("Crime", 2), ("Horror", 2), ("Comedy", 1), ("Sci-Fi", 1))
    assert columns["scary"].values == ((False, 2), (True, 2))
    assert columns["studio"].values == (("Fox", 3), ("Warner", 1))
    assert columns["tags"].values[0] == ("space", 2)
    assert columns["plot"] == AttributeColumn("plot", "text")
    assert "'year' (number), 'genres' (several)" in repr(attributes)


def test_every_count_is_what_the_filter_finds(attributes: Attributes) -> None:
    for column in attributes.columns():
        for value, count in column.values:
            assert attributes.matching({column.name: value}).sum() == count, (column.name, value)


@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        ([7, 8, None], [7, 8, None]),
        (["7", "8", ""], [7, 8, None]),
        ([7.0, float("nan"), 8.0], [7, None, 8]),  # as pandas writes integers of which one is missing
        (["7", "8.5", "NA"], [7.0, 8.5, None]),
        ([2**53 + 1, 5, -3], [2**53 + 1, 5, -3]),
        ([1e300, 5, -3], [1e300, 5.0, -3.0]),
    ],
)
def test_numbers_are_not_standardised(cells: list[Any], kept: list[Any]) -> None:
    table = of_table(size=cells)
    values = [table.of(item)["size"] for item in range(3)]
    assert values == kept
    assert [type(value) for value in values] == [type(value) for value in kept]


def test_dates_are_days() -> None:
    table = of_table(
        released=[datetime(1999, 5, 6, 23, 30), datetime(2001, 1, 1), None],
        born=["1980-02-29T23:30:00-05:00", "1970-01-01", "1999"],
    )
    assert [table.of(item)["released"] for item in range(3)] == [date(1999, 5, 6), date(2001, 1, 1), None]
    assert [table.of(item)["born"] for item in range(3)] == [date(1980, 3, 1), date(1970, 1, 1), date(1999, 1, 1)]
    assert found(table, released=datetime(1999, 5, 6, 1, tzinfo=UTC)) == {0}


def test_a_column_of_names_with_years_is_a_text() -> None:
    """Years are read from it for the model; nobody has said that the names are the items' own."""
    table = of_table(album=["Abbey Road (1969)", "Blue (1971)", "Blue Train (1958)"])
    assert table.of(0) == {"album": "Abbey Road (1969)"}
    assert table.columns() == [AttributeColumn("album", "text")]


def test_texts_are_cut_and_tags_are_those_counted_most() -> None:
    table = of_table(plot=["word " * 400, "one two three four five six seven", None])
    assert len(str(table.of(0)["plot"])) == LONGEST_TEXT
    many = [(1, f"tag {n:03}", n) for n in range(1, 200)] + [(2, f"tag {n:03}", 1) for n in range(1, 200)]
    tagged = Features.read(many, kind="tags", names=["item", "tag", "count"])
    tags = Attributes.of_features(tagged.ids, tagged)
    assert tags.of(1)["tags"] == [f"tag {n:03}" for n in range(199, 199 - MOST_TAGS, -1)]
    assert tags.of(2)["tags"] == [f"tag {n:03}" for n in range(1, MOST_TAGS + 1)]
    assert len(tags.columns()[0].values) <= MOST_VALUES


def test_only_the_most_frequent_values_are_listed() -> None:
    makers = [f"maker {n:03}" for n in range(150)] * 2
    (column,) = of_table(maker=[*makers, "maker 149"]).columns()
    assert len(column.values) == MOST_VALUES
    assert column.values[:2] == (("maker 149", 3), ("maker 000", 2))


def test_half_a_character_does_no_harm() -> None:
    """JSON can say "\\ud800", no file can."""
    tagged = Features.read([(1, "a\ud800"), (2, "b"), (3, "b")], kind="tags")
    tags = Attributes.of_features(tagged.ids, tagged)
    assert tags.of(1) == {"tags": ["a?"]}
    tags.describe(np.array([1], np.int32), tagged.in_words([{"tags": ["b", "c\udfff"]}]))
    assert tags.of(2) == {"tags": ["b", "c?"]}
    assert found(tags, tags="b\udfff") == set()


# Filtering


@pytest.mark.parametrize(
    ("conditions", "ids"),
    [
        ({}, {9, 5, 4, 77, 3, 2, 1}),
        ({"genres": "Crime"}, {2, 3}),
        ({"genres": ["Comedy", "Sci-Fi"]}, {1, 3}),
        ({"genres": ("Western",)}, set()),
        ({"genres": []}, set()),
        ({"genres": "Crime", "studio": "Fox"}, {3}),
        ({"year": 1995}, {2}),
        ({"year": "1995"}, {2}),
        ({"year": 1995.5}, set()),
        ({"year": {"min": 1979, "max": 1985}}, {1, 3}),
        ({"year": {"min": "1985"}}, {2, 3}),
        ({"year": {"min": None, "max": 1979}}, {1, 4}),
        ({"year": {"max": 10**30}}, {1, 2, 3, 4}),
        ({"score": {"min": 8}}, {1, 2}),
        ({"score": {"max": 7.999}}, {3}),
        ({"released": "1979-05-25"}, {1}),
        ({"released": date(1979, 5, 25)}, {1}),
        ({"released": 1995}, {2}),
        ({"released": {"min": 1979, "max": "1995"}}, {1, 2}),
        ({"released": {"min": "1979-05-26"}}, {2}),
        ({"scary": True}, {1, 4}),
        ({"scary": "no"}, {2, 3}),
        ({"scary": [True, 0]}, {1, 2, 3, 4}),
        ({"studio": "Warner"}, {2}),
        ({"studio": "warner"}, set()),
        ({"plot": "COFFEE"}, {2}),
        ({"plot": ["space", "a c"]}, {1, 2, 4}),
        ({"plot": ".*"}, set()),
        ({"tags": "space"}, {1, 4}),
        ({"tags": "space", "scary": 1, "year": {"max": 1950}}, {4}),
    ],
)
def test_matching(attributes: Attributes, conditions: dict[str, Any], ids: set[int]) -> None:
    assert found(attributes, **conditions) == ids
    assert attributes.matching(conditions).dtype == np.bool_


CONDITIONS: dict[str, tuple[str, Any]] = {
    "a word for a number": ("year", "soon"),
    "truth for a number": ("year", True),
    "None for a number": ("year", None),
    "NA for a number": ("year", "NA"),
    "NaN for a number": ("year", float("nan")),
    "a list in a list of numbers": ("year", [1979, [1980]]),
    "no bounds": ("year", {}),
    "an empty bound": ("year", {"min": None}),
    "an unknown bound": ("year", {"from": 1}),
    "a word for a bound": ("year", {"min": "x"}),
    "bounds upside down": ("year", {"min": 1999, "max": 1990}),
    "no date": ("released", "soon"),
    "a number that is no year": ("released", 12),
    "no flag": ("scary", "very"),
    "bounds of a flag": ("scary", {"min": 0}),
    "bounds of a category": ("studio", {"min": "A"}),
    "a list in a list of categories": ("genres", [["War"]]),
    "an empty text": ("plot", " "),
    "a number for a text": ("plot", 3),
}


def test_an_unknown_column_is_answered_with_the_known_ones(attributes: Attributes) -> None:
    known = (
        "'year' (number), 'genres' (several), 'score' (number), 'released' (date), 'scary' (flag), "
        "'studio' (category), 'plot' (text), 'tags' (several)"
    )
    said = Said("the filter", "no column 'genre'", f"did you mean 'genres'? … {known}")
    said.check(refusal(attributes.matching, {"genre": "War"}))
    error = refusal(Attributes(Vocabulary([1])).matching, {"genre": "War"})
    remedy = "train … leave the filter out"
    said = Said("the filter", "no column 'genre', nor any other", remedy, {"item_features": ...})
    said.check(error)


# What comes later


def test_items_that_came_later_are_unknown(films: Features) -> None:
    items = Vocabulary([1, 2])
    attributes = Attributes.of_features(items, films)
    items.add([500])
    assert set(attributes.of(500).values()) == {None}
    assert attributes.matching({}).tolist() == [True, True, True]
    assert attributes.matching({"year": {"min": 0}}).tolist() == [True, True, False]
    assert attributes.frame().height == 3


def test_descriptions_replace_and_append(films: Features) -> None:
    items = Vocabulary([1, 2])
    attributes = Attributes.of_features(items, films)
    about: dict[str, Any] = dict.fromkeys(["title", *attributes.of(1)])
    told = [
        about | {"year": 2001.5, "genres": ["Crime"], "scary": "no", "released": 1990, "tags": {"b": 1, "a": 3}},
        about | {"studio": "Fox", "released": "1991-02-03", "title": "ignored", "plot": "the coffee of the thief"},
    ]
    before = attributes.of(1)
    attributes.describe(items.add([600, 2]), films.in_words(told))
    assert attributes.of(1) == before
    assert attributes.of(600) == dict.fromkeys(before) | {
        "year": 2001.5,
        "genres": ["Crime"],
        "scary": False,
        "released": date(1990, 1, 1),
        "tags": ["a", "b"],
    }
    assert attributes.of(2) == dict.fromkeys(before) | {
        "studio": "Fox",
        "released": date(1991, 2, 3),
        "plot": "the coffee of the thief",
    }
    assert found(attributes, genres="Crime") == {600}
    assert attributes.columns()[0].high == 2001.5
    attributes.describe(items.add([]), films.in_words([]))
    assert attributes.of(600)["tags"] == ["a", "b"]


def test_days_in_a_column_of_years_are_years() -> None:
    features = Features.read(pl.DataFrame({"item": [1, 2], "year": [1990, 1991]}))
    attributes = Attributes.of_features(features.ids, features)
    attributes.describe(np.array([1], np.int32), features.in_words([{"year": "1999-12-31"}]))
    assert attributes.of(2) == {"year": 1999}


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"number:year": ["1990", "1991"]}),
        pl.DataFrame({"number:year": [1990]}),
        pl.DataFrame({"number:year": [1990, 1991, 1992]}),
        pl.DataFrame({"number:size": [1.0, float("nan")]}),
        pl.DataFrame({"number:size": [1.0, float("inf")]}),
        pl.DataFrame({"colour:size": [1, 2]}),
        pl.DataFrame({"size": [1, 2]}),
        pl.DataFrame({"number:size": [1, 2], "flag:size": [True, False]}),
        pl.DataFrame({"several:genres": ["a", "b"]}),
        pl.DataFrame({"several:genres": [[1], [2]]}),
    ],
)
def test_a_frame_that_is_none_of_these_items(frame: pl.DataFrame) -> None:
    with pytest.raises(ValueError, match="attributes: "):
        Attributes.restored(Vocabulary([1, 2]), frame)


# Laws

NAMES = st.sampled_from(["a", "b", "c", "Ä", "d e"])
ROW = st.fixed_dictionaries(
    {
        "year": st.none() | st.integers(1900, 2100),
        "size": st.none() | st.floats(-1e6, 1e6).map(lambda size: size + 0.25),
        "maker": st.none() | NAMES,
        "genres": st.none() | st.lists(NAMES, min_size=1, max_size=3, unique=True),
        "released": st.none() | st.dates(date(1800, 1, 1), date(2200, 1, 1)),
        "scary": st.none() | st.booleans(),
    }
)
SCHEMA: dict[str, Any] = {
    **{"item": pl.Int64, "year": pl.Int64, "size": pl.Float64, "maker": pl.String},
    **{"genres": pl.List(pl.String), "released": pl.Date, "scary": pl.Boolean},
}
KINDS: dict[str, Any] = {
    "year": "number", "size": "number", "maker": "category", "genres": "several", "released": "date", "scary": "flag"
}  # fmt: skip
TABLES = st.lists(ROW, min_size=1, max_size=12)


def read(rows: list[dict[str, Any]], order: list[int]) -> Attributes:
    """The attributes of items 0, 1, 2... from a table whose lines stand in some order."""
    table = pl.DataFrame([{"item": at, **rows[at]} for at in order], schema=SCHEMA)
    features = Features.read(table, columns=KINDS)
    return Attributes.of_features(Vocabulary(list(range(len(rows)))), features)


@settings(deadline=None, max_examples=60)
@given(TABLES, st.randoms(use_true_random=False))
def test_law_nothing_is_lost_whatever_the_order_of_the_lines(rows: list[dict[str, Any]], random: Any) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    plain, shuffled = read(rows, list(range(len(rows)))), read(rows, order)
    for item, row in enumerate(rows):
        assert plain.of(item) == shuffled.of(item) == row
    assert plain.columns() == shuffled.columns()
    assert plain.frame().equals(shuffled.frame())
    restored = Attributes.restored(Vocabulary(list(range(len(rows)))), plain.frame())
    assert restored.columns() == plain.columns()
    assert [restored.of(item) for item in order] == [rows[item] for item in order]


@settings(deadline=None, max_examples=60)
@given(TABLES, st.sampled_from(sorted(KINDS)), st.data())
def test_law_a_list_is_the_union_of_its_values(rows: list[dict[str, Any]], column: str, data: st.DataObject) -> None:
    attributes = read(rows, list(range(len(rows))))
    there = [value for row in rows if (value := row[column]) is not None]
    values = [name for value in there for name in value] if column == "genres" else there
    wanted = data.draw(st.lists(st.sampled_from(values), max_size=4)) if values else []
    together = attributes.matching({column: wanted})
    alone = [attributes.matching({column: value}) for value in wanted]
    np.testing.assert_array_equal(together, np.any([np.zeros(len(rows), bool), *alone], axis=0))
    expected = [
        row[column] is not None
        and bool(set(row[column]) & set(wanted) if column == "genres" else row[column] in wanted)
        for row in rows
    ]
    assert together.tolist() == expected


@settings(deadline=None, max_examples=60)
@given(TABLES, st.sampled_from(["year", "size", "released"]), st.data())
def test_law_bounds_are_inclusive(rows: list[dict[str, Any]], column: str, data: st.DataObject) -> None:
    attributes = read(rows, list(range(len(rows))))
    values = [row[column] for row in rows if row[column] is not None]
    if not values:
        return
    low, high = sorted([data.draw(st.sampled_from(values)), data.draw(st.sampled_from(values))])
    both = attributes.matching({column: {"min": low, "max": high}})
    assert both.tolist() == [row[column] is not None and low <= row[column] <= high for row in rows]
    np.testing.assert_array_equal(
        both, attributes.matching({column: {"min": low}}) & attributes.matching({column: {"max": high}})
    )
    written = {"min": str(low), "max": str(high)}
    np.testing.assert_array_equal(both, attributes.matching({column: written}))


@settings(deadline=None, max_examples=40)
@given(TABLES, TABLES, st.data())
def test_law_descriptions_are_as_good_as_a_table(
    rows: list[dict[str, Any]], later: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Whatever was said last of an item is what it is."""
    items = Vocabulary(list(range(len(rows))))
    table = pl.DataFrame([{"item": at, **row} for at, row in enumerate(rows)], schema=SCHEMA)
    features = Features.read(table, columns=KINDS)
    attributes = Attributes.of_features(items, features)
    targets = data.draw(st.lists(st.integers(0, 20), min_size=len(later), max_size=len(later)))
    attributes.describe(items.add(targets), features.in_words(later))
    expected = dict(enumerate(rows)) | dict(zip(targets, later, strict=True))
    assert {item: attributes.of(item) for item in items} == expected
    assert attributes.frame().height == len(items)
