"""Rules about what items are, written as words."""

from contextlib import suppress
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.attributes import Attributes
from cofill.data.conditions import boosts_in, conditions_in, limits_in
from cofill.data.features import ReadableColumn
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError


@pytest.fixture(scope="module")
def attributes() -> Attributes:
    return Attributes(
        Vocabulary([1, 2, 3]),
        {
            "year": ReadableColumn("number", pl.Series([1979, 1990, 1999])),
            "genres": ReadableColumn("several", pl.Series([["War"], ["War", "Comedy"], ["a=b", "x..y"]])),
            "genres:old": ReadableColumn("category", pl.Series(["A", "B", "B"])),
        },
    )


@pytest.mark.parametrize(
    ("words", "conditions", "ids"),
    [
        ([], {}, {1, 2, 3}),
        (["genres:War"], {"genres": ["War"]}, {1, 2}),
        (["genres:War", "genres:x..y"], {"genres": ["War", "x..y"]}, {1, 2, 3}),
        (["year:1980..1990"], {"year": {"min": "1980", "max": "1990"}}, {2}),
        (["year:1990.."], {"year": {"min": "1990"}}, {2, 3}),
        (["year:..1990", "genres:old:B"], {"year": {"max": "1990"}, "genres:old": ["B"]}, {2}),
        (["year:1979", "year:1999"], {"year": ["1979", "1999"]}, {1, 3}),
    ],
)
def test_conditions(attributes: Attributes, words: list[str], conditions: dict[str, Any], ids: set[int]) -> None:
    assert conditions_in(words, attributes) == conditions
    assert set((attributes.matching(conditions).nonzero()[0] + 1).tolist()) == ids


def test_boosts_and_limits(attributes: Attributes) -> None:
    words = ["genres:War=2", "genres:a=b=0.5", "genres:old:B=1e3"]
    assert boosts_in(words, attributes) == {"genres": {"War": 2.0, "a=b": 0.5}, "genres:old": {"B": 1000.0}}
    assert limits_in(["genres=3", "genres:old=1", "a=b=2"]) == {"genres": 3, "genres:old": 1, "a=b": 2}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["red"], "red: there is no column in it; write COLUMN:VALUE, such as genres:Comedy, or COLUMN:LOW..HIGH"),
        ([":War"], ":War: there is no column in it; write COLUMN:VALUE, such as genres:Comedy, or COLUMN:LOW..HIGH"),
        (["year:.."], "year:..: a range has a beginning, an end, or both, such as year:1990.."),
        (["year:1990..", "year:..2000"], "year:..2000: year has two conditions; give one range"),
        (["year:1990..", "year:1980"], "year:1980: year has two conditions; give one range"),
        (["year:1980", "year:1990.."], "year:1990..: year has two conditions; give one range"),
    ],
)
def test_refused_conditions(attributes: Attributes, words: list[str], found: str) -> None:
    with pytest.raises(DataError) as error:
        conditions_in(words, attributes)
    assert str(error.value) == found


@pytest.mark.parametrize("word", ["genres:War", "genres:War=", "genres:War=0", "genres:War=-1", "=2", "genres:War=nan"])
def test_refused_factors(attributes: Attributes, word: str) -> None:
    with pytest.raises(DataError) as error:
        boosts_in([word], attributes)
    assert str(error.value).startswith(
        f"{word}: a boost is COLUMN:VALUE=FACTOR, where the factor is above 0; write 1.5"
    )


def test_refused_boosts_and_limits(attributes: Attributes) -> None:
    with pytest.raises(DataError, match="War=2: there is no column in it; write COLUMN:VALUE=FACTOR"):
        boosts_in(["War=2"], attributes)
    with pytest.raises(DataError, match="genres:War=3: genres:War is boosted twice; keep one of its factors"):
        boosts_in(["genres:War=2", "genres:War=3"], attributes)
    for word in ("genres", "genres=", "genres=0", "genres=1.5", "=3", "genres=inf"):
        with pytest.raises(DataError, match=f"^{word}: a limit is COLUMN=N, where N is 1 or more; write it so"):
            limits_in([word])
    with pytest.raises(DataError, match="genres=3: genres has two limits; keep one of them"):
        limits_in(["genres=2", "genres=3"])


@settings(max_examples=40)
@given(st.lists(st.text(max_size=20), max_size=4))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    attributes = Attributes(Vocabulary([1]), {"year": ReadableColumn("number", pl.Series([1979]))})
    for read in (
        lambda: conditions_in(words, attributes),
        lambda: boosts_in(words, attributes),
        lambda: limits_in(words),
    ):
        with suppress(DataError):
            assert isinstance(read(), dict)
