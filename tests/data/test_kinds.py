"""A kind of side information is one module and one entry: one that is added here works everywhere."""

import json
import re
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

import cofill
from cofill import CFN, Recommender
from cofill.cli import main
from cofill.client.messages import FilterColumn
from cofill.data.attributes import AttributeColumn, Attributes
from cofill.data.features import Features, Kind, ReadableColumn, lists
from cofill.data.features.columns import Cells, Coded, misplaced
from cofill.data.features.kind import Learn
from cofill.errors import DataError


def minutes(value: object) -> int:
    found = re.fullmatch(r"(\d+)h (\d+)m", value) if isinstance(value, str) else None
    if found is None:
        raise misplaced(value, "a running time such as 1h 30m")
    return 60 * int(found[1]) + int(found[2])


class RunningTime(Kind):
    """How long something takes, such as 1h 30m: encoded as a share of the longest."""

    called: ClassVar[str] = "running-time"
    holds: ClassVar[str] = "a running time"
    types: ClassVar[tuple[Any, ...]] = (pl.Int64,)
    ordered: ClassVar[bool] = True

    longest: int

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        return cls.learn if column.all_read(minutes) else None

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int) -> Self:
        return cls(**cls.seen(name, of), longest=max(of.parsed(name, minutes)))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def numbers(self, value: Any) -> npt.NDArray[np.float64]:
        return np.array([minutes(value) / self.longest])

    def words(self, of: Cells) -> ReadableColumn:
        cells = pl.Series(of.parsed(self.name, minutes), dtype=pl.Int64)
        return ReadableColumn(self.called, cells).taken(of.columns[self.name].codes)

    def suggested(self) -> str:
        return "1h 30m"

    @classmethod
    def condition(cls, value: Any) -> int:
        return minutes(value)


FILMS = pl.DataFrame(
    {"id": [1, 2, 3, 4], "length": ["1h 30m", "2h 0m", None, "3h 0m"], "genre": ["War", "Comedy", "War", "Comedy"]}
)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "KINDS", [RunningTime, *lists.KINDS])  # the one entry


@pytest.fixture
def films(added: None) -> Features:
    return Features.read(FILMS)


def test_it_is_recognised_learned_and_reported(films: Features) -> None:
    line = films.report()[0]
    assert (line.kind, line.width, line.distinct, line.missing, line.example) == ("running-time", 1, 3, 1, "1h 30m")
    np.testing.assert_array_equal(films.values[:, 0], np.array([0.5, 120 / 180, 0.0, 1.0], np.float32))


def test_without_the_entry_it_is_a_category() -> None:
    assert Features.read(FILMS, columns={"length": "category"}).report()[0].kind == "category"
    with pytest.raises(DataError, match="cannot be of kind 'running-time'; the kinds are image, skip, flag"):
        Features.read(FILMS, columns={"length": "running-time"})


def test_it_can_be_told(added: None) -> None:
    assert Features.read(FILMS, columns={"length": "running-time"}).report()[0].kind == "running-time"
    with pytest.raises(DataError, match="row 1, column 'genre': found 'War' where a running time such as 1h 30m"):
        Features.read(FILMS, columns={"genre": "running-time"})


def test_new_ones_are_encoded(films: Features) -> None:
    assert films.encode({"length": "0h 45m", "genre": "War"})[0] == 0.25
    with pytest.raises(DataError, match="the description, 'length': found 'long' where a running time"):
        films.encode({"length": "long", "genre": "War"})
    with pytest.raises(DataError, match="'length' is missing, which holds a running time"):
        films.encode({"genre": "War"})


def test_it_is_read_in_words_and_filtered_by(films: Features) -> None:
    attributes = Attributes.of_features(films.ids, films)
    assert attributes.of(2) == {"length": 120, "genre": "Comedy"}
    column = attributes.columns()[0]
    assert column == AttributeColumn("length", "running-time", low=90, high=180)
    assert column.ordered
    found = {
        "length": attributes.matching({"length": "2h 0m"}),
        "bounds": attributes.matching({"length": {"min": "1h 45m"}, "genre": "Comedy"}),
    }
    assert {name: np.flatnonzero(met).tolist() for name, met in found.items()} == {"length": [1], "bounds": [1, 3]}
    with pytest.raises(DataError, match="found 'long' where a running time belongs; a column of kind running-time"):
        attributes.matching({"length": "long"})
    attributes.describe(np.array([0]), films.in_words([{"length": "4h 0m", "genre": None}]))
    assert attributes.of(1) == {"length": 240, "genre": None}
    again = Attributes.restored(films.ids, attributes.frame())
    assert again.columns() == attributes.columns()


def test_it_is_kept_in_a_model_file(films: Features, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ratings = [(user, item, float(1 + (user * item) % 5)) for user in range(6) for item in range(1, 5)]
    model = CFN(hidden=4, epochs=1, threads=1).fit(ratings, item_features=films)
    model.save(tmp_path / "model")
    loaded = Recommender.load(tmp_path / "model")
    assert loaded.item_features is not None
    assert loaded.item_features.card() == films.card()
    assert loaded.item_attributes.of(4) == {"length": 180, "genre": "Comedy"}
    assert main(["features", str(tmp_path / "model"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"]["about"][0]["kind"] == "running-time"


def test_a_card_of_a_kind_that_is_gone(films: Features) -> None:
    card, arrays = films.card(), films.arrays()
    card["sources"][0]["columns"][0]["kind"] = "duration"
    with pytest.raises(ValueError, match="there is no kind 'duration'; the kinds are running-time, tags"):
        Features.restored(card, arrays, films.ids)


def test_nobody_else_compares_the_names_of_kinds() -> None:
    names = "|".join(kind.called for kind in lists.KINDS)
    compared = re.compile(rf"""kind\)? (==|!=|in|not in) \(?(None, )?["'](table|{names})["']""")
    root = Path(cofill.__file__).parent
    found = [path for path in root.rglob("*.py") if compared.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_what_can_be_filtered_by_is_published() -> None:
    published = FilterColumn.model_json_schema()["properties"]["kind"]["enum"]
    assert set(published) == set(lists.readable_kinds())


# Pictures, which are shown and not learned from

SHOWN = pl.DataFrame(
    {
        "item": ["a", "b", "c", "d"],
        "poster_url": ["https://x.org/a.jpg", "/b.png", None, "data:image/png;base64,AAAA"],
        "genre": ["War", "Comedy", "War", "Comedy"],
    }
)


def test_pictures_are_recognised_kept_and_not_learned_from() -> None:
    features = Features.read(SHOWN)
    line = features.report()[0]
    assert (line.kind, line.width, line.missing, line.used) == ("image", 0, 1, False)
    assert features.names == ("genre=Comedy", "genre=War")
    attributes = Attributes.of_features(features.ids, features)
    assert attributes.columns()[0] == AttributeColumn("poster_url", "image")
    assert attributes.of("a")["poster_url"] == "https://x.org/a.jpg"
    assert attributes.of("c")["poster_url"] is None
    assert attributes.matching({"poster_url": "/b.png"}).tolist() == [False, True, False, False]
    with pytest.raises(DataError, match="the address of a picture"):
        attributes.matching({"poster_url": "b.png"})


@pytest.mark.parametrize("cells", [["https://x.org/1", "cover", "none", "no"], ["javascript:1", "x", "y", "z"]])
def test_what_holds_no_addresses_is_no_picture(cells: list[str]) -> None:
    frame = SHOWN.with_columns(poster_url=pl.Series(cells))
    assert Features.read(frame).report()[0].kind != "image"


def test_addresses_under_another_name_are_skipped_as_before() -> None:
    assert Features.read(SHOWN.rename({"poster_url": "homepage"})).report()[0].kind == "skip"
    assert Features.read(SHOWN.rename({"poster_url": "x"}), columns={"x": "image"}).report()[0].kind == "image"


def test_a_picture_can_be_told_later(tmp_path: Path) -> None:
    ratings = [(user, item, 1 + (user + at) % 5) for user in range(8) for at, item in enumerate("abcd")]
    model = CFN(epochs=1, hidden=4, threads=1).fit(ratings, item_features=SHOWN)
    model.describe_items({"c": {"genre": "War", "poster_url": "/c.png"}, "e": {"genre": "War", "poster_url": "/e.png"}})
    model.describe_items({"a": {"genre": "War"}})  # says nothing of the picture, which stays
    model.describe_items({"b": {"genre": "War", "poster_url": "javascript:alert(1)"}})  # no picture
    model.save(tmp_path)
    shown = [Recommender.load(tmp_path).item_attributes.of(item)["poster_url"] for item in "abcde"]
    assert shown == ["https://x.org/a.jpg", None, "/c.png", "data:image/png;base64,AAAA", "/e.png"]
