"""Interactions: who chose what and how often; read from files of every kind, and told from ratings."""

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofill.data.described import DescribedRatings
from cofill.data.interactions import Interactions, InteractionsRecognisedNote, read_ratings_or_interactions
from cofill.data.ratings import ManyZerosWarning, Ratings, Scale, SkippedLinesWarning
from cofill.data.splits import k_folds, split
from tests.bad_input import BadCall, BadFile, refusal
from tests.data.test_dirty_files import DIRTY
from tests.data.test_ratings import Row, assert_same, assert_well_formed, rating_rows, write

SLOW_FOLDER = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PLAYS = [(1, 10, 17.0), (1, 20, 2.5), (22, 10, 1.0)]
PAIRS = [(1, 10, 2.0), (1, 20, 1.0), (22, 10, 1.0)]
EVENTS = [(1, 10, 2.0), (1, 20, 1.0), (22, 10, 2.0)]
WEIGHED = [(1, 10, 2.0), (1, 20, 5.0), (22, 10, 4.0)]


def recognised(source: object, **options: Any) -> Ratings:
    """What is read where nobody said whether it holds ratings, without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InteractionsRecognisedNote)
        return read_ratings_or_interactions(source, **options)


# Files


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("events.csv", {"time": ""}, EVENTS),
        ("events.csv", {"time": "", "event_weights": {"view": 1, "cart": 3, "purchase": 5}}, WEIGHED),
        ("events.csv", {"time": "", "event_weights": {"view": 0, "cart": 2, "purchase": 5}}, [(1, 20, 5), (22, 10, 2)]),
        ("events.csv", {"time": "", "event": ""}, EVENTS),
        ("events_without_header.tsv", {"time": ""}, EVENTS),
        ("events_without_header.tsv", {"time": "", "event_weights": {"view": 1, "cart": 3, "buy": 5}}, WEIGHED),
        ("play_counts.csv", {}, PLAYS),
        ("play_counts.csv", {"count": ""}, PAIRS),
        ("pairs_without_header.txt", {}, PAIRS),
        ("clicks.jsonl", {}, [("A1", "B10", 2.0), ("A22", "B20", 1.0)]),
        ("padded_ids.csv", {}, [(1, 10, 1.0), (1, 20, 1.0), (22, 10, 1.0)]),  # the ratings are left alone
    ]
)  # fmt: skip
def test_read(name: str, options: dict[str, Any], expected: list[Row]) -> None:
    interactions = Interactions.read(DIRTY / name, **options)
    assert interactions.to_polars().rows() == expected
    assert interactions.scale == Scale(0.0, max(row[2] for row in expected))
    assert_well_formed(interactions)


@pytest.mark.parametrize("name", ["events.csv", "events_without_header.tsv"])
def test_the_latest_time_of_a_pair_is_kept(name: str) -> None:
    times = Interactions.read(DIRTY / name).times
    assert times is not None
    assert times.tolist() == [1704449100, 1704531600, 1704628860]


def test_times_in_the_third_column_of_three() -> None:
    interactions = Interactions.read(DIRTY / "pairs_with_times.csv")
    assert interactions.times is not None
    assert interactions.values.tolist() == [1, 1, 1]


@pytest.mark.parametrize("cells", [("1262649600000000", "1262736000000000"), ("2010/01/05", "2010/01/06")])
def test_times_without_a_header_are_seconds(cells: tuple[str, str], tmp_path: Path) -> None:
    times = Interactions.read(write(tmp_path, f"1,2,{cells[0]}\n1,3,{cells[1]}\n")).times
    assert times is not None
    assert times.tolist() == [1262649600, 1262736000]


@pytest.mark.parametrize("header", [True, False])
def test_text_alone_has_a_header_where_the_caller_says_so(header: bool, tmp_path: Path) -> None:
    path = write(tmp_path, "viewer,watched\nann,Alien\nbob,Heat\n")
    user, item = ("viewer", "watched") if header else (None, None)
    assert len(Interactions.read(path, header=header, user=user, item=item)) == (2 if header else 3)
    assert len(Interactions.read(write(tmp_path, "ann,Alien\nbob,Heat\nann,Heat\n"))) == 3  # ann comes again


def test_counts_are_weighed_by_their_events(tmp_path: Path) -> None:
    path = write(tmp_path, "user,item,action,qty\n1,2,view,3\n1,2,buy,2\n")
    assert Interactions.read(path, event_weights={"view": 1, "buy": 5}).values.tolist() == [13]
    assert Interactions.read(path).values.tolist() == [5]


def test_events_may_be_numbers() -> None:
    frame = pl.DataFrame({"user": [1, 1], "item": [2, 3], "behavior_type": [1, 4]})
    assert Interactions.read(frame, event_weights={"1": 1, "4": 5}).values.tolist() == [1, 5]


def test_bad_lines_are_skipped_if_that_is_said() -> None:
    told = r"3 bad lines were skipped \(line 3, 5, 6\); 2 lines are left"
    with pytest.warns(SkippedLinesWarning, match=told):
        interactions = Interactions.read(DIRTY / "orders_with_returns.csv", skip_bad_lines=3)
    assert interactions.values.tolist() == [3, 1]


def test_every_kind_of_source() -> None:
    rows = [(1, "a", 2.0, 5), (1, "b", 3.0, 6), (2, "a", 1.0, 7), (1, "a", 4.0, 4)]
    for width in (2, 3, 4):
        short = [row[:width] for row in rows]
        whole = Interactions.read(short)
        columns = dict(zip(("user", "item", "count", "time"), map(list, zip(*short, strict=True)), strict=False))
        assert_same(Interactions.read(tuple(columns.values())), whole)
        assert_same(Interactions.read(tuple(np.array(column, object) for column in columns.values())), whole)
        assert_same(Interactions.read(pl.DataFrame(columns)), whole)
        assert_same(Interactions.read(pl.DataFrame(columns).lazy()), whole)
        assert_same(Interactions.read(pd.DataFrame(columns)), whole)
        assert whole.values.tolist() == ([2, 1, 1] if width == 2 else [6, 3, 1])


# Laws


@st.composite
def interaction_rows(draw: st.DrawFn, counts: st.SearchStrategy[float] | None = None) -> list[Row]:
    """(user, item, count[, time]), where pairs may be there several times."""
    weights = st.floats(2**-20, 2**20, width=32) if counts is None else counts
    rows = [(*row[:2], draw(weights), *row[3:]) for row in draw(rating_rows())]
    again = draw(st.lists(st.sampled_from(rows), max_size=8))
    return draw(st.permutations(rows + [(*row[:2], draw(weights), *row[3:]) for row in again]))


@SLOW_FOLDER
@given(rows=interaction_rows(), ending=st.sampled_from([".csv", ".tsv", ".csv.gz", ".parquet"]))
def test_what_is_written_is_read_again(rows: list[Row], ending: str, tmp_path: Path) -> None:
    interactions = Interactions.read(rows)
    assert_well_formed(interactions)
    interactions.write(tmp_path / f"r{ending}")
    again = recognised(tmp_path / f"r{ending}")
    assert type(again) is Interactions
    assert_same(again, interactions)
    assert_same(Interactions.read(tmp_path / f"r{ending}"), interactions)


@SLOW_FOLDER
@given(rows=interaction_rows(), data=st.data())
def test_the_order_of_lines_does_not_matter(rows: list[Row], data: st.DataObject) -> None:
    assert_same(Interactions.read(data.draw(st.permutations(rows))), Interactions.read(rows))


@SLOW_FOLDER
@given(rows=interaction_rows(st.integers(1, 1000).map(float)), data=st.data())
def test_two_parts_together_are_the_whole(rows: list[Row], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    parts = [Interactions.read(part) for part in (rows[:cut], rows[cut:]) if part]
    together = parts[0].merge(parts[1]) if len(parts) == 2 else parts[0]
    assert type(together) is Interactions
    whole = Interactions.read(rows)
    assert sorted(together.to_polars().rows()) == sorted(whole.to_polars().rows())
    assert together.scale == whole.scale
    counted: Counter[tuple[Any, Any]] = Counter()
    for user, item, count, *_ in rows:
        counted[user, item] += count
    assert {(user, item): weight for user, item, weight, *_ in whole.to_polars().rows()} == counted


# The class stays


def test_interactions_stay_interactions() -> None:
    interactions = Interactions.read(DIRTY / "events.csv")
    assert (interactions.rated, Ratings.rated) == (False, True)
    assert repr(interactions) == "Interactions(3 interactions of 2 items by 2 users)"
    assert interactions.to_polars().columns == ["user", "item", "weight", "time"]
    some = interactions.select(np.array([True, False, True]))
    more = interactions.including(items=[30])
    parts = [*split(interactions, "random", 0.5, 0), *split(interactions, "time", 0.5, 0)]
    folds = [part for fold in k_folds(interactions, folds=3) for part in fold]
    for part in (some, more, *parts, *folds):
        assert type(part) is Interactions
        assert part.scale == interactions.scale
    assert len(interactions.select(np.zeros(3, np.bool_)).merge(interactions)) == 3


def test_summary_counts_interactions() -> None:
    summary = Interactions.read(DIRTY / "events.csv", time="").summary()
    assert summary == {
        "users": 2,
        "items": 2,
        "ratings": 3,
        "rated": False,
        "density": 0.75,
        "mean": pytest.approx(5 / 3),
        "scale": [0.0, 2.0],
        "first_time": None,
        "last_time": None,
        "interactions": 3,
        "total_weight": 5.0,
    }


# Ratings or interactions?


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("events.csv", "no column of ratings (its columns: user_id, item_id, event_type, event_time)"),
        ("events_without_header.tsv", "its third column holds events such as 'view'"),
        ("play_counts.csv", "no column of ratings (its columns: user, artist_id, plays)"),
        ("pairs_without_header.txt", "there are two columns"),
        ("pairs_with_times.csv", "its third column holds times"),
        ("clicks.jsonl", "no column of ratings (its columns: user, item, action)"),
        ("thumbs.csv", "all 24 ratings are 1: interactions"),
    ],
)
def test_interactions_are_recognised_and_said(name: str, reason: str) -> None:
    with pytest.warns(InteractionsRecognisedNote) as told:
        found = read_ratings_or_interactions(DIRTY / name)
    assert type(found) is Interactions
    message = str(told[0].message)
    assert message.startswith(f"{DIRTY / name}: ")
    assert reason in message
    assert "\n" not in message
    assert_same(found, Interactions.read(DIRTY / name))


@pytest.mark.parametrize(
    "name", ["aligned.txt", "aligned_without_header.txt", "decimal_commas.csv", "padded_ids.csv", "lines.jsonl",
             "trailing_separator.csv", "trailing_separator.dat", "backslash_quotes.csv", "dates_with_points.csv"]
)  # fmt: skip
def test_ratings_are_read_as_before_without_a_word(name: str) -> None:
    found = read_ratings_or_interactions(DIRTY / name)
    assert type(found) is Ratings
    assert_same(found, Ratings.read(DIRTY / name))


@SLOW_FOLDER
@given(rows=rating_rows(), ending=st.sampled_from([".csv", ".tsv", ".parquet"]))
@pytest.mark.filterwarnings("ignore::cofill.data.ratings.UnusualRatingWarning")
def test_what_ratings_write_is_recognised_as_ratings(rows: list[Row], ending: str, tmp_path: Path) -> None:
    ratings = Ratings.read(rows)
    ratings.write(tmp_path / f"r{ending}")
    for source in (tmp_path / f"r{ending}", rows, ratings.to_polars()):
        found = read_ratings_or_interactions(source)
        assert type(found) is Ratings
        assert_same(found, ratings)


def test_what_is_said_decides() -> None:
    path = DIRTY / "thumbs.csv"
    assert type(read_ratings_or_interactions(path, rating="rating")) is Ratings
    assert type(read_ratings_or_interactions(path, scale=(0, 1))) is Ratings
    assert type(read_ratings_or_interactions(path, rating="")) is Interactions
    assert type(read_ratings_or_interactions(DIRTY / "pairs_with_times.csv", rating=2)) is Ratings
    assert type(read_ratings_or_interactions(DIRTY / "lines.jsonl", count="overall")) is Interactions
    weights = {"view": 1.0, "cart": 3.0, "purchase": 5.0}
    weighed = read_ratings_or_interactions(DIRTY / "events.csv", event_weights=weights)
    assert weighed.values.tolist() == [2, 5, 4]
    assert type(read_ratings_or_interactions(DIRTY / "jester.csv", wide=True, unknown=99)) is Ratings


def test_a_few_equal_ratings_are_ratings() -> None:
    rows = [(user, 1, 5.0) for user in range(20)]
    assert type(read_ratings_or_interactions(rows[:19])) is Ratings
    assert type(recognised(rows)) is Interactions


def test_frames_are_recognised_too() -> None:
    frame = pl.DataFrame({"user": [1, 1, 2], "item": [2, 2, 3], "device": ["a", "b", "c"], "n": [1, 2, 3]})
    for source in (frame, frame.to_pandas(), frame.lazy(), frame.to_arrow()):
        assert recognised(source).values.tolist() == [2, 1]


def test_fitting_recognises_interactions() -> None:
    for source in (DIRTY / "play_counts.csv", pl.read_csv(DIRTY / "events.csv")):
        with pytest.warns(InteractionsRecognisedNote):
            described = DescribedRatings.of(source, user_features=None, item_features=None)
        assert not described.ratings.rated
        assert described.summary["interactions"] == 3


# Zeros


def test_two_thirds_of_zeros_are_asked_about() -> None:
    path = DIRTY / "mostly_zeros.csv"
    told = r"mostly_zeros\.csv: 24 of 32 ratings are 0, which may mean \"not rated\"; pass zero_means='unrated'"
    with pytest.warns(ManyZerosWarning, match=told):
        asked = Ratings.read(path)
    assert_same(asked, Ratings.read(path, zero_means="rating"))
    answered = Ratings.read(path, zero_means="unrated")
    assert (len(answered), answered.scale) == (8, (1, 5))
    assert_same(Ratings.read(path, zero_means="unrated", scale=(1, 5)), answered)
    assert type(read_ratings_or_interactions(path, zero_means="unrated")) is Ratings


def test_fewer_zeros_are_ratings_without_a_word() -> None:
    rows = [(user, 1, float(user % 3 == 0)) for user in range(33)]
    assert len(Ratings.read(rows[:-1])) == 32  # 21 of 32 are 0
    with pytest.warns(ManyZerosWarning):
        Ratings.read(rows)


# What is refused

EVENTS_CSV = (DIRTY / "events.csv").read_text()
REFUSED = {
    "a header that may be data": BadFile("viewer,watched\nann,Alien\nbob,Heat\nann,Heat\n"),
    "a count of 0": BadFile((DIRTY / "orders_with_returns.csv").read_text().replace("two", "2")),
    "a negative count": BadFile("user,item,plays\n1,2,3\n1,3,-1\n"),
    "text as count": BadFile("user,item,plays\n1,2,3\n1,3,two\n"),
    "NaN as count": BadFile("user,item,plays\n1,2,3\n1,3,NaN\n"),
    "an empty count": BadFile("user,item,plays\n1,2,3\n1,3,\n"),
    "an empty event": BadFile("user,item,event\n1,2,view\n1,3,\n"),
    "an event without a weight": BadFile(EVENTS_CSV, {"event_weights": {"view": 1.0, "purchase": 5.0}}),
    "all events left out": BadFile("user,item,event\n1,2,view\n1,3,view\n", {"event_weights": {"view": 0.0}}),
    "weights without events": BadFile("user,item,plays\n1,2,3\n", {"event_weights": {"view": 1.0}}),
    "a header only": BadFile("user,item\n"),
    "an empty file": BadFile(""),
    "words above numbers": BadFile("who,what\n1,2\n"),
    "one column": BadFile("a\nb\n"),
}
UNCLEAR = {
    "a column that may hold ratings": BadFile((DIRTY / "grades.csv").read_text()),
    "a column of true and false": BadFile(  # a dislike is no interaction
        "user,item,like\n1,2,true\n1,3,False\n2,2,true\n"
    ),
    "a scale of interactions": BadFile("user,item\n1,2\n", {"scale": (1, 5)}),
    "zeros of interactions": BadFile("user,item,plays\n1,2,3\n", {"zero_means": "unrated", "count": "plays"}),
    "weights of ratings": BadFile("user,item,rating\n1,2,3\n", {"rating": "rating", "event_weights": {"view": 1.0}}),
    "nothing but zeros": BadFile("user,item,rating\n1,2,0\n1,3,0\n", {"zero_means": "unrated"}),
}
CALLS = {
    "merging ratings with interactions": BadCall(
        lambda: Ratings.read([(1, 2, 3.0)]).merge(Interactions.read([(1, 2)]))
    ),
    "merging interactions with ratings": BadCall(
        lambda: Interactions.read([(1, 2)]).merge(Ratings.read([(1, 2, 3.0)]))
    ),
    "a negative weight": BadCall(
        lambda: Interactions.read(DIRTY / "events.csv", event_weights={"view": -1})
    ),
    "too great a sum": BadCall(
        lambda: Interactions.read([(1, 2, 3e38), (1, 2, 3e38)])
    ),
    "another meaning of zero": BadCall(
        lambda: Ratings.read([(1, 2, 3.0)], zero_means="nothing")  # type: ignore[arg-type]
    ),
    "tuples of one": BadCall(
        lambda: Interactions.read([(1,)])
    ),
    "a number": BadCall(
        lambda: Interactions.read(7)
    ),
}  # fmt: skip


def test_ratings_without_ratings_name_the_other_reader() -> None:
    for name in ("events.csv", "play_counts.csv"):
        assert "Interactions.read" in str(refusal(Ratings.read, DIRTY / name))
