"""Events in the database: each counts once, in any order; what was shown is remembered for a while; nothing grows."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from cofill.serving.live import events as event_log
from cofill.serving.live.events import OTHER, SECONDS_A_DAY, Event, EventLog, Retention
from cofill.serving.live.store import LiveInteraction, Store, url_of

KINDS = ("view", "click", "buy")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tmp_path / "model"


@pytest.fixture
def log(store: Store) -> EventLog:
    return EventLog(store, KINDS)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    made = Store(url_of(None, tmp_path_factory.mktemp("events") / "model"))
    made.open()
    yield made
    made.close()


def sums(store: Store, since: int = 0, learned: int = 0) -> dict[tuple[str, str], float]:
    return {(one.user, one.item): one.weight for one in store.changes_since(since, learned).interactions}


def test_an_event_counts_once_by_its_id_and_always_without(log: EventLog, store: Store) -> None:
    assert log.put([Event("1", "a", "view", 1.0, id="x"), Event("1", "a", "view", 1.0, id="x")]) == 1
    assert log.put([Event("1", "a", "buy", 5.0, id="x"), Event("2", "b", "buy", 5.0, id="y")]) == 1
    assert sums(store) == {("1", "a"): 1.0, ("2", "b"): 5.0}
    for _ in range(2):
        assert log.put([Event("1", "a", "view", 1.0)]) == 1
    assert sums(store) == {("1", "a"): 3.0, ("2", "b"): 5.0}


def test_what_is_followed_is_the_whole_sum_of_what_was_touched(log: EventLog, store: Store) -> None:
    log.put([Event("1", "a", "view", 1.0, time=50.0), Event("1", "b", "view", 1.0)])
    log.put([Event("1", "a", "view", 2.0, time=40.0)])
    assert store.changes_since(1).interactions == [LiveInteraction("1", "a", 3.0, 50.0)]
    assert sums(store, since=2) == {}
    assert sums(store, learned=1) == {("1", "a"): 2.0}  # the rest was trained on
    assert sums(store, since=1, learned=1) == {("1", "a"): 2.0}
    log.put([Event("1", "a", "view", 4.0)])
    assert sums(store, since=2, learned=1) == {("1", "a"): 6.0}


EVENTS = st.lists(
    st.tuples(st.sampled_from("123"), st.sampled_from("ab"), st.sampled_from([1.0, 2.0, 5.0]), st.integers(0, 9)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=10, deadline=None)
@given(events=EVENTS, data=st.data())
def test_the_order_and_the_batches_do_not_matter(
    shared: Store, events: list[tuple[str, str, float, int]], data: st.DataObject
) -> None:
    """Each id once: events of the same id say the same."""
    by_id = {id: (user, item, weight) for user, item, weight, id in events}
    story = data.draw(st.uuids()).hex + str(shared.counter().change)  # users of its own
    sent = [Event(story + user, item, "view", weight, id=f"{story}{id}") for id, (user, item, weight) in by_id.items()]
    again = data.draw(st.lists(st.sampled_from(sent), max_size=5))
    order = data.draw(st.permutations([*sent, *again]))
    cut = data.draw(st.integers(0, len(order)))
    log = EventLog(shared, KINDS)
    before = shared.counter().change
    assert sum(log.put(part) for part in (order[:cut], order[cut:]) if part) == len(sent)
    expected: dict[tuple[str, str], float] = {}
    for event in sent:
        expected[event.user, event.item] = expected.get((event.user, event.item), 0.0) + event.weight
    assert sums(shared, since=before) == pytest.approx(expected)


def test_click_through_is_of_what_was_shown(log: EventLog) -> None:
    log.serve(["m1", "m2"], now=0.0)
    log.put([Event("1", item, "shown", 0.0, id=f"s{item}", model_version="m1") for item in "abc"])
    log.put([Event("1", item, "shown", 0.0, id=f"s{item}", model_version="m1") for item in "abc"])  # the same again
    log.put([Event("1", "a", "click", 1.0), Event("1", "z", "click", 1.0)])  # z was not shown
    log.put([Event("1", "b", "buy", 5.0, model_version="m2")])  # not in that list
    log.put([Event("2", "a", "shown", 0.0, model_version="m2"), Event("2", "a", "buy", 5.0, model_version="m2")])
    log.put([Event("1", "c", "whatever", 5.0)])
    assert sorted(log.click_through()) == [
        ("m1", "click", 1),
        ("m1", OTHER, 1),
        ("m1", "shown", 3),
        ("m2", "buy", 1),
        ("m2", "shown", 1),
    ]
    assert sorted(log.shown_to("1")) == ["a", "b", "c"]
    assert log.shown_to("nobody") == []


def test_only_versions_that_were_served_are_told_apart_and_the_oldest_go(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "_MOST_VERSIONS", 3)
    log.put([Event("1", "a", "shown", 0.0, model_version=f"made up {number}") for number in range(10)])
    assert log.click_through() == [(OTHER, "shown", 10)]
    for number in range(5):
        log.serve([f"m{number}"], now=number)
        log.put([Event("1", "a", "shown", 0.0, model_version=f"m{number}")])
    assert sorted(log.click_through()) == [
        ("m2", "shown", 1),
        ("m3", "shown", 1),
        ("m4", "shown", 1),
        (OTHER, "shown", 10),
    ]


def test_what_was_exported_and_what_came_later_are_not_added_up(store: Store, model: Path) -> None:
    """A model that was trained on the export has learned the former."""
    log = EventLog(store, KINDS)
    for weight in (1.0, 2.0):
        log.put([Event("1", "a", "view", weight)])
    learned = store.begin_export()
    assert learned == store.begin_export() == 2
    for weight in (4.0, 8.0):
        log.put([Event("1", "a", "view", weight)])
    _age(model, 100)
    log.tidy()
    assert log.count() == 2
    assert sums(store) == {("1", "a"): 15.0}
    assert sums(store, learned=learned) == {("1", "a"): 12.0}
    log.put([Event("1", "a", "view", 16.0)])
    _age(model, 100)
    log.tidy()
    assert (log.count(), sums(store, learned=learned)) == (2, {("1", "a"): 28.0})


def test_tidying_is_done_by_one_process_though_no_event_comes(
    store: Store, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "_PAIRS_AT_ONCE", 1)
    log, other = EventLog(store, KINDS), EventLog(store, KINDS)
    for item in "ab":
        log.put([Event("1", item, "view", 1.0), Event("1", item, "view", 1.0), Event("1", item, "shown", 0.0)])
    _age(model, 100)
    log.put([Event("2", "c", "view", 1.0)])
    assert log.count() == 7  # whoever sends an event does not wait for it
    counts = []
    for _ in range(3):
        log.look_after(["m1"])
        other.look_after(["m1"])
        counts.append(log.count())
    assert counts == [4, 3, 3]
    assert not other._tidying


def test_old_events_are_added_up_and_what_was_shown_is_forgotten(store: Store, model: Path) -> None:
    log = EventLog(store, KINDS, Retention(shown=1, events=2))
    for number in range(4):
        log.put([Event("1", "a", "view", 1.0, id=str(number)), Event("1", "b", "shown", 0.0, id=f"s{number}")])
    log.put([Event("2", "a", "buy", 5.0, id="lone")])
    before, rows = sums(store), log.count()
    assert rows == 9
    _age(model, 1.5)
    log.tidy()
    assert (log.count(), log.shown_to("1"), sums(store)) == (5, [], before)
    assert log.put([Event("1", "a", "view", 1.0, id="0")]) == 0  # still known
    _age(model, 1)
    log.put([Event("1", "a", "view", 1.0, id="new")])
    log.tidy()
    assert log.count() == 3  # the sum, the lone one, and the new one
    assert sums(store) == {("1", "a"): 5.0, ("2", "a"): 5.0}
    assert log.put([Event("1", "a", "view", 1.0, id="0")]) == 1  # no longer known
    _age(model, 3)
    log.tidy()
    log.tidy()
    assert log.count() == 2
    assert sums(store) == {("1", "a"): 6.0, ("2", "a"): 5.0}


def test_a_pair_without_another_event_is_deleted_in_the_end(store: Store, model: Path) -> None:
    log = EventLog(store, KINDS, Retention(events=1, sums=5))
    log.put([Event("1", "a", "view", 1.0), Event("1", "a", "view", 1.0), Event("2", "a", "buy", 5.0)])
    _age(model, 3)
    log.tidy()
    log.put([Event("1", "a", "view", 1.0)])
    _age(model, 1.5)
    log.tidy()
    assert sums(store) == {("1", "a"): 3.0, ("2", "a"): 5.0}
    _age(model, 1)
    log.tidy()
    assert sums(store) == {("1", "a"): 3.0}  # what people still do is remembered
    _age(model, 3)
    log.tidy()
    assert (log.count(), sums(store)) == (0, {})


def test_click_through_of_old_days_becomes_a_sum_that_goes_on(log: EventLog, store: Store) -> None:
    for _ in range(2):
        log.put([Event("1", item, "shown", 0.0) for item in "abc"])
        log.tidy(time.time() + 91.5 * SECONDS_A_DAY)
        assert log.click_through_by_day() == []
    assert log.click_through() == [(OTHER, "shown", 6)]
    log.put([Event("1", "a", "shown", 0.0)])
    assert [row[3] for row in log.click_through_by_day()] == [1]
    assert log.click_through() == [(OTHER, "shown", 7)]


def test_whoever_asks_while_another_counts_gets_what_was_counted_before(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "_TIMES_AS_LONG", 0)  # it is out of date at once
    log.put([Event("1", "a", "buy", 5.0)])
    assert log.popular(1) == {"a": 1}
    log.put([Event("2", "a", "buy", 5.0)])
    with log._counting:
        assert log.popular(1) == {"a": 1}
    assert log.popular(1) == {"a": 2}


def _age(model: Path, days: float) -> None:
    engine = create_engine(url_of(None, model))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE cofill_events SET received = received - {days * SECONDS_A_DAY}")
    engine.dispose()
