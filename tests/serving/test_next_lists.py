"""Lists of what comes next, served: an event moves the next list, and every process has the same trend."""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cofill.cli import main
from cofill.client import Client
from cofill.models.bias_models import ListModel
from cofill.models.lists.next import NextScorer
from cofill.models.recommender import Recommender
from cofill.serving.live.events import Event, EventLog
from cofill.serving.live.store import Store
from tests.models.lists.test_next import DAY, START, walks
from tests.serving.conftest import Start, asked, live_model
from tests.serving.running_server import Asked, ServedHere, problem

NOW = START + 500 * DAY  # of every request: when the events of these tests have happened
EVENTS = [("visitor", 7, NOW - 90), ("visitor", 12, NOW - 60), ("other", 12, NOW - 3 * DAY), ("0", 12, NOW - 30)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("next") / "model"
    ListModel(list_goal="next").fit(walks()).save(folder)
    return folder


@pytest.fixture
def server(trained: Path) -> Iterator[ServedHere]:
    running = ServedHere(trained, read_only=True)
    yield running
    running.stop()


def send(server: Asked, events: Sequence[tuple[str, int, float]]) -> None:
    given = [{"user": user, "item": item, "kind": "view", "time": when} for user, item, when in events]
    assert server.client.post("/v1/events", json={"events": given}).json()["stored"] == len(events)


def lists(server: Asked) -> list[Any]:
    return [server.recommended(user, 30, at=NOW, why=True) for user in ("visitor", "other", "0", "1", "unknown")]


def test_events_move_the_next_lists_of_every_process_and_outlive_a_kill(
    trained: Path, tmp_path: Path, start: Start
) -> None:
    database = f"--database=sqlite:///{tmp_path}/live.sqlite"
    one, other = (start(trained, database, "--requests-per-second=0") for _ in range(2))
    before = lists(one)
    send(one, EVENTS[2:])
    assert lists(other) == lists(one)
    send(other, EVENTS[:2])  # older than what was sent first
    found = lists(one)
    assert found[0][0]["id"] == 13  # the one after the last
    assert all(now != earlier for now, earlier in zip(found, before, strict=True))
    assert found[-1][0]["why"]["groups"]["trend"] != before[-1][0]["why"]["groups"]["trend"]
    assert lists(other) == found
    for server in (one, other):
        server.process.kill()
    assert lists(start(trained, database, "--requests-per-second=0")) == found


def trend(live: Any) -> Any:
    scorer = asked(live).model.scorer
    assert isinstance(scorer, NextScorer)
    return scorer.trend.at(np.array([NOW]))[0]


def test_the_trend_is_the_same_whatever_the_batches_and_after_what_is_taken_back(trained: Path, store: Store) -> None:
    log, live = EventLog(store), live_model(trained, store)
    without = trend(live)
    for user, item, when in [*EVENTS, ("other", 12, NOW - 4 * DAY), ("visitor", 3, NOW - 60), ("gone", 3, NOW)]:
        log.put([Event(user, str(item), "view", 1.0, when)])
        asked(live)  # one at a time
    store.forget_user("gone")
    again = live_model(trained, store)  # all at once
    np.testing.assert_array_equal(trend(again), trend(live))
    for user in ("visitor", "other", "0"):
        np.testing.assert_array_equal(asked(again).model.score(user, at=NOW), asked(live).model.score(user, at=NOW))
    for user in ("visitor", "other", "0"):
        store.forget_user(user)
    np.testing.assert_array_equal(trend(live), without)


def test_what_is_taken_back_leaves_the_time_of_the_other(tmp_path: Path, store: Store) -> None:
    """A rating beside an event of the same item: withdrawn, and with an older time."""
    ListModel(list_goal="next").fit(walks(rated=True)).save(tmp_path / "rated")
    log, live = EventLog(store), live_model(tmp_path / "rated", store)
    for user in ("rater", "0"):
        log.put([Event(user, item, "view", 1.0, NOW - 5 * DAY) for item in ("7", "9")])
        asked(live)
        store.put_ratings(user, [("7", 4.0, NOW), ("9", 2.0, NOW)])
        asked(live)
        store.put_ratings(user, [("7", None)])
        store.put_ratings(user, [("9", 5.0, NOW - 9 * DAY)])
    again = live_model(tmp_path / "rated", store)
    np.testing.assert_array_equal(trend(again), trend(live))
    for user in ("rater", "0"):
        np.testing.assert_array_equal(asked(again).model.score(user, at=NOW), asked(live).model.score(user, at=NOW))


def test_what_has_not_happened_yet_happens_now(trained: Path, store: Store) -> None:
    """And what is sent at once stays in its order."""
    log, live = EventLog(store), live_model(trained, store)
    log.put([Event("visitor", item, "view", 1.0, when) for item, when in (("7", 4e9), ("3", None), ("12", 5e9))])
    store.put_ratings("visitor", [("20", 1.0, 6e9)])
    kept = store.changes_since(0)
    told = [row.time for row in kept.interactions] + [row.time for row in kept.ratings]
    assert max(told) <= time.time()
    followed = asked(live).model.scorer.feedback.sequences
    assert followed is not None
    assert [asked(live).model.items.id(item) for item in followed.later[followed.rows.rows]] == [7, 3, 12, 20]


def test_it_is_asked_with_items_in_order_with_times_and_for_a_time(
    trained: Path, server: ServedHere, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same answers in Python, over HTTP, by the client and on the command line."""
    model = Recommender.load(trained)
    times = {3: NOW - 20 * DAY, 12: NOW - 40 * DAY}
    in_order = model.recommend({3: 1, 12: 1}, 5, at=NOW)
    by_times = model.recommend({3: 1, 12: 1}, 5, times=times, at=NOW)
    assert by_times[0].score != in_order[0].score
    assert model.recommend({12: 1, 3: 1}, 5, at=NOW)[0].score not in (by_times[0].score, in_order[0].score)
    client = Client(server.told["address"])
    for expected, when in ((in_order, None), (by_times, times)):
        given = [{"item": item, "rating": 1} | ({} if when is None else {"time": when[item]}) for item in (3, 12)]
        answer = server.client.post("/v1/recommendations", json={"ratings": given, "n": 5, "at": NOW}).json()
        found = client.recommend(ratings={3: 1, 12: 1}, times=when, at=datetime.fromtimestamp(NOW, UTC), n=5)
        (batched,) = client.recommend_many([{"ratings": {3: 1, 12: 1}, "times": when or {}, "at": NOW, "n": 5}]).answers
        file = tmp_path / "mine.csv"
        lines = [f"{item},1" + ("" if when is None else f",{when[item]}") for item in (3, 12)]
        file.write_text("\n".join(["item,rating" + ("" if when is None else ",time"), *lines]))
        moment = datetime.fromtimestamp(NOW, UTC).isoformat()
        assert main(["recommend", str(trained), f"--ratings={file}", f"--at={moment}", "-n=5", "--json"]) == 0
        printed = capsys.readouterr().out
        for one in expected:
            assert f'"score": {one.score!r}' in printed
        scores = pytest.approx([one.score for one in expected], rel=1e-5)
        assert [one["score"] for one in answer["items"]] == scores
        assert [one.score for one in found.items] == scores
        assert [one.score for one in batched.items] == scores
    groups = model.explain(0, 4, at=NOW).groups
    asked_for = {"user": 0, "item": 4, "at": NOW}
    for why in (server.client.get("/v1/why", params=asked_for), server.client.post("/v1/why", json=asked_for)):
        assert why.json()["groups"] == pytest.approx(groups, rel=1e-5)
        assert sum(why.json()["groups"].values()) == pytest.approx(why.json()["unclipped"], rel=1e-4, abs=1e-6)
    assert client.explain(4, 0, at=NOW).groups == pytest.approx(groups, rel=1e-5)
    assert main(["explain", str(trained), "4", "--user=0", f"--at={moment}"]) == 0
    assert "trend" in capsys.readouterr().out
    some = [{"item": 3, "rating": 1, "time": NOW}, {"item": 12, "rating": 1}]
    assert "give all of them one" in problem(server.client.post("/v1/recommendations", json={"ratings": some}), 422)
    client.close()
