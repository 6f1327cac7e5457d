"""Splits are partitions, repeat with their seed, and keep what they promise to keep together."""

from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.ratings import Ratings
from cofill.data.splits import (
    Split,
    SplitBy,
    at_most_each,
    cold_items_split,
    cold_users_split,
    k_folds,
    leave_last_out_split,
    random_split,
    split,
    strong_generalisation_split,
    time_split,
)
from cofill.errors import DataError


@st.composite
def some_ratings(draw: st.DrawFn) -> Ratings:
    cells = draw(st.lists(st.integers(0, 399), min_size=60, max_size=200, unique=True))
    pairs = np.array(cells)
    times = np.array(draw(st.lists(st.integers(0, 50), min_size=len(pairs), max_size=len(pairs))))
    return Ratings.read((pairs // 20, pairs % 20, pairs % 5 + 1, times))


def moments(ratings: Ratings) -> int:
    assert ratings.times is not None
    return len(set(ratings.times.tolist()))


def keys(ratings: Ratings) -> npt.NDArray[np.int64]:
    return ratings.user_index.astype(np.int64) * len(ratings.items) + ratings.item_index


def assert_partition(ratings: Ratings, parts: Split) -> None:
    together = np.concatenate([keys(parts.train), keys(parts.test)])
    assert np.array_equal(np.sort(together), keys(ratings))
    assert len(parts.train)
    assert len(parts.test)
    for part in parts:
        assert part.users is ratings.users
        assert part.items is ratings.items
        assert part.scale == ratings.scale
        places = np.searchsorted(keys(ratings), keys(part))
        assert np.array_equal(part.values, ratings.values[places])
        assert part.times is not None
        assert ratings.times is not None
        assert np.array_equal(part.times, ratings.times[places])


@settings(max_examples=40, deadline=None)
@given(some_ratings(), st.sampled_from(get_args(SplitBy)), st.floats(0.2, 0.8), st.integers(0, 2**32))
def test_every_split_is_a_partition_and_repeats(ratings: Ratings, by: SplitBy, ratio: float, seed: int) -> None:
    if by == "time" and moments(ratings) < 2:
        return
    parts = split(ratings, by, ratio, seed)
    assert_partition(ratings, parts)
    again = split(ratings, by, ratio, seed)
    assert np.array_equal(keys(parts.test), keys(again.test))


@settings(max_examples=25, deadline=None)
@given(some_ratings(), st.integers(2, 10), st.integers(0, 100))
def test_folds_test_each_rating_once(ratings: Ratings, folds: int, seed: int) -> None:
    splits = list(k_folds(ratings, folds=folds, seed=seed))
    assert len(splits) == folds
    for parts in splits:
        assert_partition(ratings, parts)
    tested = np.sort(np.concatenate([keys(parts.test) for parts in splits]))
    assert np.array_equal(tested, keys(ratings))
    sizes = [len(parts.test) for parts in splits]
    assert max(sizes) - min(sizes) <= 1
    repeated = k_folds(ratings, folds=folds, seed=seed)
    assert all(np.array_equal(keys(a.test), keys(b.test)) for a, b in zip(splits, repeated, strict=True))


@settings(max_examples=25, deadline=None)
@given(some_ratings(), st.floats(0.2, 0.8))
def test_the_test_is_later_than_the_training(ratings: Ratings, ratio: float) -> None:
    if moments(ratings) < 2:
        return
    parts = time_split(ratings, ratio=ratio)
    assert parts.train.times is not None
    assert parts.test.times is not None
    assert parts.train.times.max() < parts.test.times.min()  # strictly: ties stay together


@settings(max_examples=25, deadline=None)
@given(some_ratings(), st.floats(0.2, 0.8), st.integers(0, 100))
def test_cold_rows_are_not_in_the_training_at_all(ratings: Ratings, ratio: float, seed: int) -> None:
    items = cold_items_split(ratings, ratio=ratio, seed=seed)
    assert not set(items.train.item_index) & set(items.test.item_index)
    rated = len(np.unique(ratings.item_index))
    assert len(np.unique(items.train.item_index)) == round(rated * ratio)
    users = cold_users_split(ratings, ratio=ratio, seed=seed)
    assert not set(users.train.user_index) & set(users.test.user_index)


@settings(max_examples=40, deadline=None)
@given(some_ratings(), st.integers(1, 4))
def test_the_last_of_each_user_are_left_out(ratings: Ratings, last: int) -> None:
    counts = np.bincount(ratings.user_index, minlength=len(ratings.users))
    if (counts <= last).all():
        return
    parts = leave_last_out_split(ratings, last=last)
    assert_partition(ratings, parts)
    assert parts.train.times is not None
    assert parts.test.times is not None
    for user, count in enumerate(counts.tolist()):
        trained, tested = (part.times[part.user_index == user] for part in parts if part.times is not None)
        assert len(tested) == (last if count > last else 0)
        assert not len(tested) or trained.max() <= tested.min()


@given(st.permutations([1, 2, 3, 4]))
def test_ratings_of_the_same_time_keep_the_order_of_their_source(items: list[int]) -> None:
    at_once = Ratings.read([(1, 0, 3.0, 5), *((1, item, 3.0, 9) for item in items)])
    assert at_once.items.array()[leave_last_out_split(at_once).test.item_index].tolist() == items[-1:]
    joined = Ratings.read([(1, 9, 3.0, 9)]).merge(at_once)  # what is merged comes later
    assert joined.items.array()[leave_last_out_split(joined).test.item_index].tolist() == items[-1:]


def test_the_order_of_lines_survives_a_file(tmp_path: Path) -> None:
    read = Ratings.read([(1, item, 3.0, 9) for item in (4, 2, 3, 1)] + [(0, 2, 1.0, 9)])
    read.write(tmp_path / "ratings.csv")
    again = Ratings.read(tmp_path / "ratings.csv")
    assert again.item_index[again.sequence()].tolist() == read.item_index[read.sequence()].tolist() == [1, 3, 1, 2, 0]


def test_a_split_at_a_date() -> None:
    ratings = Ratings.read([(1, item, 3.0, item) for item in range(10)])
    assert time_split(ratings, at=7).test.item_index.tolist() == [7, 8, 9]
    with pytest.raises(DataError, match="all ratings are before the time 10"):
        time_split(ratings, at=10)


def test_lines_in_order_are_positions() -> None:
    placed = Ratings.read([(1, 5, 3.0), (2, 5, 1.0), (1, 4, 2.0)]).in_order()
    assert placed.times is not None
    assert dict(zip(placed.item_index[placed.user_index == 0].tolist(), placed.times.tolist(), strict=False)) == {
        0: 2,
        1: 1,
    }


@settings(max_examples=40, deadline=None)
@given(some_ratings(), st.floats(0.2, 0.8), st.floats(0.05, 0.95), st.integers(0, 100))
def test_strong_generalisation_keeps_people_apart(ratings: Ratings, ratio: float, share: float, seed: int) -> None:
    parts = strong_generalisation_split(ratings, ratio=ratio, fold_in=share, seed=seed)
    together = np.concatenate([keys(part) for part in parts])
    assert np.array_equal(np.sort(together), keys(ratings))
    trained, folded, tested = (set(part.user_index.tolist()) for part in parts)
    assert folded == tested
    assert not trained & tested
    counts = np.bincount(ratings.user_index, minlength=len(ratings.users))
    several = int((counts > 1).sum())
    assert len(tested) == several - round(several * ratio)
    for user in tested:
        given_ratings = int((parts.fold_in.user_index == user).sum())
        assert given_ratings == min(max(round(counts[user] * share), 1), counts[user] - 1)
    again = strong_generalisation_split(ratings, ratio=ratio, fold_in=share, seed=seed)
    assert all(np.array_equal(keys(a), keys(b)) for a, b in zip(parts, again, strict=True))


@settings(max_examples=40, deadline=None)
@given(some_ratings(), st.integers(1, 12), st.integers(0, 100))
def test_newcomers_with_few_ratings_are_drawn_one_from_the_other(ratings: Ratings, most: int, seed: int) -> None:
    few, more = (at_most_each(ratings, most=number, seed=seed) for number in (most, most + 3))
    assert set(keys(few).tolist()) <= set(keys(more).tolist())
    counts = np.bincount(ratings.user_index, minlength=len(ratings.users))
    kept = np.bincount(few.user_index, minlength=len(ratings.users))
    assert np.array_equal(kept, np.minimum(counts, most))


def hundred() -> Ratings:
    pairs = np.arange(100)
    return Ratings.read((pairs // 10, pairs % 10, pairs % 5 + 1, pairs))


def test_sizes_seeds_and_defaults() -> None:
    ratings = hundred()
    parts = random_split(ratings)
    assert (len(parts.train), len(parts.test)) == (90, 10)
    assert not np.array_equal(keys(parts.test), keys(random_split(ratings, seed=1).test))
    assert time_split(ratings).test.times.tolist() == list(range(90, 100))  # type: ignore[union-attr]
    assert len(cold_items_split(ratings).test) == len(cold_users_split(ratings).test) == 10
    assert len(list(k_folds(ratings))) == 5


def test_a_part_of_a_split_can_be_split_again() -> None:
    inner = cold_items_split(cold_items_split(hundred(), ratio=0.5).train, ratio=0.6)
    assert len(np.unique(inner.train.item_index)) == 3
    assert len(np.unique(inner.test.item_index)) == 2


def test_impossible_splits_say_what_to_change() -> None:
    ratings = hundred()
    with pytest.raises(DataError, match=r"ratio=1.5 is not a share; give the share to train on"):
        random_split(ratings, ratio=1.5)
    with pytest.raises(DataError, match=r"ratio=0.999 of 100 ratings leaves none to test; use more ratings"):
        random_split(ratings, ratio=0.999)
    with pytest.raises(DataError, match=r"ratio=0.01 of 10 rated items leaves none to train on"):
        cold_items_split(ratings, ratio=0.01)
    with pytest.raises(DataError, match=r"of 10 users who rated leaves none to test"):
        cold_users_split(ratings, ratio=0.99)
    with pytest.raises(DataError, match=r"folds=1 leaves nothing to train on; use at least 2"):
        k_folds(ratings, folds=1)
    with pytest.raises(DataError, match=r"100 ratings cannot fill 101 folds; use at most 100"):
        k_folds(ratings, folds=101)
    with pytest.raises(DataError, match=r"no times to split by; read them with time=..., or split at random"):
        time_split(Ratings.read([(1, 2, 3.0), (1, 3, 4.0)]))
    with pytest.raises(DataError, match=r"all 2 ratings have the same time \(7\); split at random instead"):
        time_split(Ratings.read([(1, 2, 3.0, 7), (1, 3, 4.0, 7)]), ratio=0.5)
    timeless = Ratings.read([(1, 2, 3.0), (1, 3, 4.0)])
    with pytest.raises(DataError, match=r"no times to split by; read them with time=..., or split at random"):
        leave_last_out_split(timeless)
    with pytest.raises(DataError, match=r"last=0 leaves none to test; leave out at least 1"):
        leave_last_out_split(ratings, last=0)
    with pytest.raises(DataError, match=r"no user has more than 10 ratings; leave out fewer of each"):
        leave_last_out_split(ratings, last=10)
    with pytest.raises(DataError, match=r"fold_in=1.0 is not a share; give one between 0 and 1, such as 0.8"):
        strong_generalisation_split(ratings, fold_in=1.0)
    with pytest.raises(DataError, match=r"ratio=0.99 of 10 users with at least 2 ratings leaves none to test"):
        strong_generalisation_split(ratings, ratio=0.99)
    with pytest.raises(DataError, match=r"1 users have at least 2 ratings, to be held out or trained on; use more"):
        strong_generalisation_split(timeless)
    with pytest.raises(DataError, match=r"most=0 leaves no rating; keep at least 1 of each user"):
        at_most_each(ratings, most=0)
    with pytest.raises(DataError, match=r"no split by 'colour'; use 'random', 'time', 'last', 'cold-items' or"):
        split(ratings, "colour", 0.9, 0)  # type: ignore[arg-type]


def test_a_file_that_was_not_read() -> None:
    for cut in (lambda: split("ratings.csv", "random", 0.9, 0), lambda: k_folds([(1, 2, 3.0)], folds=2)):  # type: ignore[arg-type]
        with pytest.raises(DataError, match=r"where Ratings or Interactions belong; .*Ratings\.read"):
            cut()
