"""What people of the synthetic world view and buy."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.datasets.world import BUY, VIEW, Events, World, make_world


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(users=500, items=400, ratings=30_000, seed=1)


@pytest.fixture(scope="module")
def events(world: World) -> Events:
    return world.events()


def test_views_are_more_frequent_than_buys(events: Events) -> None:
    views, buys = (events.events == VIEW).sum(), (events.events == BUY).sum()
    assert 60_000 < views < 120_000
    assert 0.05 < buys / views < 0.25


def test_views_are_chosen_and_buys_are_liked_too(world: World, events: Events) -> None:
    everything = world.truth.all_expected(np.arange(500))
    chosen = world.truth.choosing.probabilities(np.arange(500))
    viewed, bought = (
        (events.users[events.events == event], events.items[events.events == event]) for event in (VIEW, BUY)
    )
    assert chosen[viewed].mean() > 2 * chosen.mean()
    assert everything[viewed].mean() > everything.mean() + 0.2
    assert everything[bought].mean() > everything[viewed].mean() + 0.4


def test_people_come_when_they_rate(world: World, events: Events) -> None:
    times = world.ratings.times
    assert times is not None
    first = np.full(500, np.iinfo(np.int64).max)
    np.minimum.at(first, world.ratings.user_index, times)
    assert (events.times >= first[events.users]).all()


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32))
def test_whoever_buys_has_viewed(data: st.DataObject, users: int, items: int, seed: int) -> None:
    ratings = data.draw(st.integers(1, users * items))
    world = make_world(users=users, items=items, ratings=ratings, seed=seed)
    events, again = world.events(), world.events()
    assert (np.diff(events.times) >= 0).all()
    viewed: set[tuple[int, int]] = set()
    bought: Counter[tuple[int, int]] = Counter()
    for user, item, event in zip(events.users.tolist(), events.items.tolist(), events.events.tolist(), strict=True):
        if event == VIEW:
            assert (user, item) not in bought
            viewed.add((user, item))
        else:
            assert (user, item) in viewed
            bought[user, item] += 1
    assert max(bought.values(), default=1) == 1
    assert len(viewed) >= ratings
    for ours, theirs in ((events.users, again.users), (events.items, again.items), (events.times, again.times)):
        np.testing.assert_array_equal(ours, theirs)


def test_events_are_written_beside_the_ratings(tmp_path: Path) -> None:
    world = make_world(users=30, items=20, ratings=200, seed=4)
    without = world.write(tmp_path / "without")
    folder = world.write(tmp_path / "with", events=True)
    assert {path.name for path in folder.iterdir()} - {path.name for path in without.iterdir()} == {"events.csv"}
    assert (folder / "ratings.csv").read_bytes() == (without / "ratings.csv").read_bytes()
    events = world.events()
    with (folder / "events.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["user", "item", "event", "time"]
    assert [int(row["user"]) - 1 for row in rows] == events.users.tolist()
    assert [int(row["item"]) - 1 for row in rows] == events.items.tolist()
    assert [("view", "buy").index(row["event"]) for row in rows] == events.events.tolist()
    assert [int(row["time"]) for row in rows] == events.times.tolist()
    world.write(folder)  # without them: those of the earlier world must not stay
    assert not (folder / "events.csv").exists()
