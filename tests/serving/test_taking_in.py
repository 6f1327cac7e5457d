"""What a process takes in of a database: whatever is there, in any mixture, without an error."""

from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from sqlalchemy.exc import OperationalError

from cofill.data.features import Features
from cofill.data.vocabulary import Id
from cofill.models.recommender import Recommender
from cofill.serving.live.events import Event, EventLog
from cofill.serving.live.export import Description, _described
from cofill.serving.live.served import ServedModel
from cofill.serving.live.store import Counter, Store
from tests.serving.conftest import asked, live_model
from tests.serving.running_server import ServedHere, problem
from tests.waiting import wait_until


def test_withdrawals_of_numbers_and_of_texts_go_together(model: Path, store: Store) -> None:
    store.put_ratings("visitor-1", [("5", 4.0)])
    store.put_ratings("visitor-1", [("5", None)])
    store.put_ratings("3", [("5", None)])
    live = live_model(model, store)
    served = asked(live)
    known = served.model
    assert known.items.index(5) not in served.ratings_by(known.users.index(3))[0]
    assert "visitor-1" not in known.users
    store.put_ratings("visitor-1", [("6", None)])
    store.put_ratings("4", [("6", None)])
    served = asked(live)  # both at once, in a process that runs
    assert served.applied == store.counter().change


def test_who_was_forgotten_before_the_training_is_unknown_until_they_come_back(model: Path, store: Store) -> None:
    store.put_users([("visitor-9", None)])
    store.forget_user("visitor-9")
    learned = store.counter().change
    served = ServedModel(model)
    served.apply(store.changes_since(0, learned))
    assert not served.known_user("visitor-9")
    store.put_users([("visitor-9", None)])
    served.apply(store.changes_since(learned, learned))
    assert served.known_user("visitor-9")


def test_who_was_deleted_is_not_known_to_a_model_that_was_trained_on_them(model: Path, store: Store) -> None:
    live = live_model(model, store)
    store.put_users([("visitor-8", None)])
    served = asked(live)
    assert served.known_user("3")
    assert served.known_user("visitor-8")
    for user in ("3", "visitor-8"):
        store.forget_user(user)
    served = asked(live)
    again = live_model(model, store).served
    assert [one.known_user(user) for one in (served, again) for user in ("3", "visitor-8", "4")] == [
        False, False, True, False, False, True,
    ]  # fmt: skip


def test_a_change_that_breaks_is_left_out_and_counted(
    model: Path, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    live = live_model(model, store)
    add = Recommender.add_ratings

    def breaking(self: Recommender, given: Any) -> Recommender:
        if "poison" in given.users:
            raise ZeroDivisionError
        return add(self, given)

    monkeypatch.setattr(Recommender, "add_ratings", breaking)
    for user in ("8001", "poison", "8002", "8003"):
        store.put_ratings(user, [("5", 4.0)])
    for served in (live.served, live_model(model, store).served):  # a process that runs, and one that starts
        asked(live)
        assert [served.in_model(user) for user in ("8001", "8002", "8003", "poison")] == [True, True, True, False]
        assert served.refused == 1
    assert "a change of the kind LiveRating: ZeroDivisionError" in caplog.text


def test_a_damaged_description_is_left_out(model: Path, store: Store) -> None:
    store.put_users([("visitor-7", {"age": 30})])
    with store.tidying() as connection:
        connection.exec_driver_sql("UPDATE cofill_users SET features = '{'")
    assert live_model(model, store).served.known_user("visitor-7")


def test_answers_go_on_for_a_while_without_the_database(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(store: Store) -> Counter:
        raise OperationalError("select", {}, Exception("gone"))

    def ask(path: str, **body: Any) -> httpx.Response:
        return server.client.post(path, json=body) if body else server.client.get(path)

    server = ServedHere(model)
    live = server.application.live
    pairs: dict[str, Any] = {"pairs": [{"user": 7, "item": 3}]}
    asked_for: list[tuple[str, dict[str, Any]]] = [
        ("/v1/recommendations?user=7", {}),
        ("/v1/recommendations", {"ratings": [{"item": 3, "rating": 5}]}),
        ("/v1/predictions", pairs),
        ("/v1/why?user=7&item=3", {}),
        ("/v1/similar?item=3", {}),
        ("/v1/item?id=3", {}),
    ]
    try:
        before = [ask(path, **body).json() for path, body in asked_for]
        assert not any("stale" in answer for answer in before)
        with monkeypatch.context() as patched:
            patched.setattr(Store, "counter", gone)
            assert ask("/ready").status_code == 200  # a load balancer shall not drop a server that answers
            assert [ask(path, **body).json() for path, body in asked_for] == [
                answer | {"stale": True} for answer in before
            ]
            assert ask("/v1/model").json()["ratings"]["live"] is None
            patched.setattr(Store, "read", lambda store, query: pytest.fail("a thread that would hang"))
            for path in ("recommendations?user=7&exclude_shown=true", "ratings?user=7", "popular?days=7", "events"):
                assert "the database of live ratings does not answer" in problem(ask(f"/v1/{path}"), 503)
            patched.setattr(live, "_stale_seconds", 0.0)
            for path in ("/v1/recommendations?user=7", "/ready"):
                assert "the database of live ratings does not answer" in problem(ask(path), 503)
        wait_until(lambda: "stale" not in ask("/v1/recommendations?user=7").json())
        server.rate(7, {before[0]["items"][0]["id"]: 5})
        assert server.recommended(7)[0]["id"] != before[0]["items"][0]["id"]
    finally:
        server.stop()


def test_a_database_that_goes_back_is_read_again(model: Path, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """As after a restored backup, or on a replica that lagged behind: change 1 is there, change 2 is another."""
    live, other = live_model(model, store), live_model(model, store)
    before = store.counter().database
    store.put_ratings("8001", [("5", 4.0)])
    store.put_ratings("8002", [("5", 4.0)])
    store.put_ratings("8003", [("5", 4.0)])
    for one in (live, other):
        served = asked(one)
        assert served.in_model("8003")
    with store.tidying() as connection:
        connection.exec_driver_sql("DELETE FROM cofill_ratings WHERE change > 1")
        connection.exec_driver_sql("UPDATE cofill_counter SET change = 1")
    store.put_ratings("8004", [("5", 4.0)])
    served = asked(live)
    assert [served.in_model(user) for user in ("8001", "8002", "8003", "8004")] == [True, False, False, True]
    assert store.counter().database != before
    store.put_ratings("8005", [("5", 4.0)])
    store.put_ratings("8006", [("5", 4.0)])
    served = asked(other)  # which did not see that the counter went back
    assert [served.in_model(user) for user in ("8003", "8004", "8006")] == [False, True, True]
    assert "the database went back from change 3 to 2; all of it is read again" in caplog.text


def test_a_model_that_learned_more_than_the_database_has_takes_all_of_it(
    model: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    EventLog(store).put([Event("8001", "5", "buy", 5.0)])
    database = store.counter().database
    monkeypatch.setattr(ServedModel, "learned_of", lambda self, told: 10 if told == database else 0)
    served = live_model(model, store).served
    assert (served.learned, served.in_model("8001")) == (0, True)
    assert store.counter().database not in ("", database)


def test_a_picture_of_some_items_is_no_matter_to_the_others() -> None:
    table = pl.DataFrame({"item": [1, 2], "year": [1990, 1995], "image": ["/1.jpg", "/2.jpg"]})
    films = Features.read(table, about="item")
    told: dict[Id, Description] = {
        3: Description(None, {"year": 2000, "image": "/3.jpg"}),
        4: Description(None, {"year": 2001}),
    }
    after = _described(films, told, [])
    assert after is not None
    (pictures,) = [column for key, column in after.readable.items() if key.endswith("image")]
    assert dict(zip(after.ids, pictures.cells.to_list(), strict=True)) == {
        1: "/1.jpg",
        2: "/2.jpg",
        3: "/3.jpg",
        4: None,
    }
