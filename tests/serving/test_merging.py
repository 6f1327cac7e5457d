"""Two users become one, events are withdrawn, and events speak against items: the same in every process and model."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from cofill import algorithm
from cofill.cli import main
from cofill.client import Client
from cofill.data.interactions import Interactions
from cofill.models.recommender import Recommender
from cofill.serving.live.events import Event, EventLog
from cofill.serving.live.model import LiveModel
from cofill.serving.live.served import ServedModel
from cofill.serving.live.store import AlreadyMergedError, Store, url_of
from tests.serving.conftest import asked, live_model
from tests.serving.running_server import ServedTwice, problem
from tests.serving.test_events import asked_of_both, send


@pytest.fixture
def log(store: Store) -> EventLog:
    return EventLog(store)


@pytest.fixture
def live(model: Path, store: Store) -> LiveModel:
    return live_model(model, store)


@pytest.fixture(scope="module")
def clicks(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of interactions."""
    folder = tmp_path_factory.mktemp("clicks")
    lines = [f"{user},{(user * 7 + step * step) % 30},{1 + step % 3}" for user in range(40) for step in range(6)]
    (folder / "clicks.csv").write_text("user,item,count\n" + "\n".join(lines))
    algorithm("lists")().fit(Interactions.read(folder / "clicks.csv")).save(folder / "model")
    return folder / "model"


def state(served: ServedModel) -> list[Any]:
    """What is known of everybody, and what follows from it."""
    model, known = served.model, served.model.predictor.known
    people = sorted({*map(str, model.users), *served.live_users})
    rows = {}
    for user in people:
        index = int(model.users.find([user])[0])
        done = (
            []
            if index < 0
            else [tuple(map(tuple, row)) for row in (known.row(index), model.scorer.feedback.row(index))]
        )
        if any(map(any, done)):
            rows[user] = done
    lists = [
        [one.item for one in model.recommend(served.person(user), 20)] for user in ("1", "2", "visitor", "customer")
    ]
    disliked = {user: items for user, items in served.disliked.items() if items}
    return [rows, lists, model.raters().tolist(), disliked, served.merged]


def same_everywhere(live: LiveModel, model: Path, store: Store) -> ServedModel:
    """What was followed change by change is what a new process reads, and as answers before it were."""
    served = asked(live)
    assert state(served) == state(asked(live_model(model, store)))
    return served


@pytest.fixture(params=["ratings", "interactions"])
def folder(request: pytest.FixtureRequest, trained: Path, clicks: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained if request.param == "ratings" else clicks, tmp_path / "model")


@pytest.fixture
def model(folder: Path) -> Path:
    return folder


def test_both_histories_count_once(live: LiveModel, model: Path, store: Store, log: EventLog) -> None:
    before = asked(live)
    first, second = (before.model.known_items(before.model.users.index(user)) for user in (1, 2))
    log.put([Event("1", "3", "buy", 5.0, id="a"), Event("2", "3", "view", 1.0), Event("visitor", "5", "buy", 5.0)])
    asked(live)
    assert store.merge_users("1", "2") == "2"
    served = same_everywhere(live, model, store)
    assert served.person(1) == 2
    assert served.in_model(1)
    items = served.model.known_items(served.model.users.index(2)).tolist()
    three = served.model.items.index(3)
    assert items == sorted({*first.tolist(), *second.tolist(), three})
    sums = {(one.user, one.item): one.weight for one in store.changes_since(0).interactions}
    assert sums["2", "3"] == 6.0
    assert not len(served.model.known_items(served.model.users.index(1)))
    # The earlier id goes on as the other one, and an event counts once under either.
    assert log.put([Event("1", "3", "buy", 5.0, id="a"), Event("1", "9", "view", 1.0)]) == 1
    assert store.merge_users("visitor", "1") == "2"
    assert store.merge_users("2", "customer") == "customer"
    assert store.merge_users("1", "customer") == "customer"
    served = same_everywhere(live, model, store)
    assert served.merged == {"1": "customer", "2": "customer", "visitor": "customer"}
    found = served.model.known_items(served.model.users.index("customer")).tolist()
    assert found == sorted({*items, *served.model.items.find([5, 9]).tolist()})
    log.put([Event("visitor", "3", "return", -100.0)])
    served = same_everywhere(live, model, store)
    assert three not in served.model.known_items(served.model.users.index("customer"))
    with pytest.raises(AlreadyMergedError, match="give the next visitor a new id"):
        store.merge_users("visitor", "another customer")
    store.forget_user("visitor")
    served = same_everywhere(live, model, store)
    assert served.merged == {}
    assert not any(served.in_model(user) for user in (1, 2, "visitor", "customer"))


def test_the_same_in_postgresql(clicks: Path, empty_postgresql: str, tmp_path: Path) -> None:
    model = shutil.copytree(clicks, tmp_path / "in-postgresql")
    store = Store(url_of(empty_postgresql, model))
    store.open()
    test_both_histories_count_once(live_model(model, store), model, store, EventLog(store))
    log = EventLog(store)
    log.put([Event("7", "3", "buy", 5.0, id="b"), Event("7", "4", "dismiss", -1.0), Event("8", "5", "view", 1.0)])
    assert log.withdraw("b")
    assert log.popular(1) == {"5": 1}
    assert same_everywhere(live_model(model, store), model, store).disliked[7] == {4}
    assert [one.item for one in log.latest(2)] != []
    assert store.change_before(0.0) == 0
    assert ("8", "5") in store.chosen_after(0, 3.0)
    store.close()


def test_ratings_that_both_gave_and_took_back(live: LiveModel, store: Store, trained: Path, tmp_path: Path) -> None:
    model = shutil.copytree(trained, tmp_path / "rated")
    live = live_model(model, store)
    known = asked(live)
    mine, theirs = (known.model.predictor.known.row(known.model.users.index(user)) for user in (1, 2))
    store.put_ratings("1", [("70", 1.0, 100.0), ("71", 2.0, 300.0), ("72", 3.0)])
    store.put_ratings("2", [("70", 5.0, 200.0), ("71", 4.5, 200.0)])
    own = str(known.model.items.id(int(theirs[0][0])))
    store.put_ratings("2", [(own, None)])
    asked(live)
    store.merge_users("1", "2")
    served = same_everywhere(live, model, store)
    items, values = served.ratings_by(served.model.users.index(2))
    found = dict(zip(map(str, map(served.model.items.id, items.tolist())), values.tolist(), strict=True))
    assert (found["70"], found["71"], found["72"]) == (5.0, 2.0, 3.0)
    assert own not in found
    only_mine = (
        set(mine[0].tolist()) - set(theirs[0].tolist()) - set(served.model.items.find([own, 70, 71, 72]).tolist())
    )
    assert {str(served.model.items.id(item)) for item in only_mine} <= found.keys()


def test_an_event_that_is_withdrawn_counts_for_nothing(
    live: LiveModel, model: Path, store: Store, log: EventLog
) -> None:
    untouched = state(asked(live))
    log.put(
        [
            Event("1", "3", "buy", 5.0, id="a"),
            Event("1", "3", "shown", 0.0, id="s"),
            Event("2", "9", "view", 1.0, id="b"),
        ]
    )
    assert log.withdraw("b")
    same_everywhere(live, model, store)
    for id in "assa":
        assert log.withdraw(id)
    assert not log.withdraw("never sent")
    assert log.put([Event("1", "3", "buy", 5.0, id="a")]) == 0
    served = same_everywhere(live, model, store)
    assert state(served)[0] == untouched[0]
    assert log.shown_to("1") == []
    assert log.popular(1) == {}
    # A model that has learned an event is told, too.
    learned = store.changes_since(0, learned=1).interactions
    assert {(one.user, one.item): one.weight for one in learned} == {("1", "3"): -5.0, ("2", "9"): -1.0}


def test_what_speaks_against_an_item_keeps_it_out_of_lists(
    live: LiveModel, model: Path, store: Store, log: EventLog
) -> None:
    best = asked(live).model.recommend("visitor", 3)[0].item
    log.put([Event("visitor", str(best), "view", 1.0), Event("visitor", str(best), "dismiss", -10.0)])
    served = same_everywhere(live, model, store)
    assert served.disliked == {"visitor": {best}}
    store.merge_users("visitor", "customer")
    assert same_everywhere(live, model, store).disliked == {"customer": {best}}
    log.put([Event("customer", str(best), "buy", 20.0)])
    assert same_everywhere(live, model, store).disliked == {"customer": set()}


def test_over_http(shop: ServedTwice) -> None:
    send(
        shop,
        {"user": "cookie", "item": 8, "kind": "buy", "id": "order"},
        {"user": "cookie", "item": 9, "kind": "dismiss"},
    )
    with Client(shop.told["address"]) as client:
        assert client.merge_users("cookie", "ann").id == "ann"
        for first, second in zip(
            *(asked_of_both(shop, "/v1/recommendations", user=user, n=100) for user in ("cookie", "ann")), strict=True
        ):
            assert first == second
            assert not {8, 9} & {item["id"] for item in first["items"]}
        client.withdraw_event("order")
        assert 8 in {item.id for item in client.recommend("ann", n=100).items}
        assert 9 in {item.id for item in client.recommend("cookie", n=100, exclude_known=False).items}
        assert client.predict([("cookie", 3)]).ratings == client.predict([("ann", 3)]).ratings
        assert client.explain(3, "cookie") == client.explain(3, "ann")
        client.put_ratings("cookie", {3: 4.5})
        assert client.ratings("ann").ratings == client.ratings("cookie").ratings != []
    refused = shop.client.post("/v1/users/merge", json={"user": "cookie", "into": "bob"})
    assert "was merged into another user" in problem(refused, 409)
    assert "is not known" in problem(shop.client.delete("/v1/events", params={"id": "nothing"}), 404)


def test_the_next_training_knows_them_as_one(model: Path, store: Store, log: EventLog, tmp_path: Path) -> None:
    rated = Recommender.load(model).rated
    base = tmp_path / ("base.csv" if rated else "counts.csv")
    base.write_text(
        f"user,item,{'rating' if rated else 'count'}\n1,3,4\n1,4,2\n1,9,5\n2,4,5\n2,5,3\n9,7,4\n9,8,1\n8,3,2\n8,7,5\n"
    )
    log.put([Event("9", "8", "return", -5.0), Event("1", "6", "buy", 2.0)])
    store.merge_users("1", "2")
    store.delete_item("9")
    assert main(["export", str(model), "--out", str(tmp_path / "live"), "--quiet"]) == 0
    words = ["--live-export", str(tmp_path / "live"), "--out", str(tmp_path / "next"), "--quiet", "--epochs", "1"]
    assert main(["train", str(base), *(words if rated else [*words[:-2], "--count-column", "count"])]) == 0
    known = Recommender.load(tmp_path / "next")
    assert "1" not in map(str, known.users)
    own = {str(known.items.id(item)) for item in known.known_items(known.users.index(2)).tolist()}
    assert own == {"3", "4", "5", "6"}
    items, values = known.predictor.known.row(known.users.index(2))
    found = dict(zip([str(known.items.id(item)) for item in items.tolist()], values.tolist(), strict=True))
    assert found["4"] == (5.0 if rated else 7.0)
    gone = {str(known.items.id(item)) for item in known.known_items(known.users.index(9)).tolist()}
    assert gone == ({"7", "8"} if rated else {"7"})
