"""Retraining by the server: when, on what, which model is promoted, and back again."""

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cofill.errors import SettingsError
from cofill.models.recommender import Recommender
from cofill.serving.live.events import SECONDS_A_DAY, Event, EventLog
from cofill.serving.live.store import Store
from cofill.serving.ops.retraining import Retrainer, compare, next_time, read_until, retrain
from cofill.serving.settings import ServingSettings
from tests.serving.conftest import Start
from tests.waiting import wait_until


def test_the_time_of_day_comes_every_day() -> None:
    night = datetime(2026, 1, 31, 2, 59, 59)
    assert next_time("daily@03:00", night) == datetime(2026, 1, 31, 3)
    assert next_time("daily@03:00", datetime(2026, 1, 31, 3)) == datetime(2026, 2, 1, 3)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"retrain": "daily@25:00", "retrain_with": "a.csv"}, "--retrain"),
        ({"retrain": "daily@03:00"}, "go together"),
        ({"retrain": "daily@03:00", "retrain_with": "a.csv", "read_only": True}, "without read-only"),
        ({"retrain": "daily@03:00", "retrain_with": "'a b.csv"}, "no closing quotation"),
    ],
)
def test_settings_that_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        ServingSettings.of({"model": Path("model"), **wrong})


def newest_day(store: Store, users: int) -> int:
    """Users did yesterday what they had always done, and today something else; the change between the two days."""
    log = EventLog(store)
    log.put([Event(f"late-{user}", str(1 + user % 10), "buy", 5.0) for user in range(users)])
    before = store.counter().change
    log.put([Event(f"late-{user}", str(20 + user % 10), "buy", 5.0) for user in range(users)])
    store.put_ratings("late-0", [("3", 4.0)])
    return before


def test_only_a_model_that_is_not_worse_is_promoted(model: Path, store: Store, tmp_path: Path) -> None:
    until = newest_day(store, 30)
    done = store.chosen_after(until, 2.5)
    assert len(done) == 31
    assert len(store.chosen_after(until, 4.5)) == 30
    served = read_until(model, store, until)
    assert len(served.model.known_items(served.model.users.index("late-0"))) == 1
    clairvoyant = Recommender.load(model)
    clairvoyant.add_interactions([(f"other-{n}", 20 + n % 10, 5.0) for n in range(200)])
    clairvoyant.save(tmp_path / "better")
    better = read_until(tmp_path / "better", store, until)
    assert compare(served, served, done).not_worse
    there, back = compare(served, better, done), compare(better, served, done)
    assert (there.users, there.served, there.new) == (30, back.new, back.served)
    assert there.not_worse or back.not_worse
    assert not compare(served, served, done[:5]).not_worse  # nothing to judge by
    reloaded = read_until(model, store, store.counter().change)  # it has learned the newest day
    assert compare(reloaded, better, done).users == compare(better, reloaded, done).users == 0


def test_what_is_newer_than_a_day_is_not_trained_on(model: Path, store: Store) -> None:
    until = newest_day(store, 3)
    now = time.time()
    assert store.change_before(now - SECONDS_A_DAY) == 0
    assert store.change_before(now + 1) == store.counter().change
    changes = store.changes_since(0, until=until)
    assert {one.item for one in changes.interactions} == {"1", "2", "3"}
    assert changes.ratings == []


@pytest.mark.slow
def test_a_server_retrains_promotes_and_goes_back(model: Path, world: Path, start: Start) -> None:
    words = f"{world / 'ratings.csv'} --item-features {world / 'movies.csv'} --epochs 6 --hidden 30"
    server = start(model, "--retrain=daily@03:00", f"--retrain-with={words}")
    version = server.told["version"]
    wanted = [{"user": user, "item": 1 + (user * 7) % 60, "kind": "buy"} for user in range(1, 61)]
    rated = set(pl.read_csv(world / "ratings.csv").select("user", "item").iter_rows())
    unrated = [one for one in wanted if (one["user"], one["item"]) not in rated]
    assert server.client.post("/v1/events", json={"events": wanted}).status_code == 200
    assert server.client.post("/v1/model/retrain").status_code == 202

    def trainings() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = server.client.get("/v1/model/trainings").json()["trainings"]
        return found

    wait_until(lambda: len(trainings()) == 1)
    (told,) = trainings()
    assert told["users"] == len(unrated) < len(wanted)
    assert told["version"] != version
    assert json.loads((model.parent / "model.export" / "export.json").read_text())["change"] == 0
    assert "NDCG@10" in server.errors()
    if told["promoted"]:
        wait_until(lambda: server.client.get("/v1/model").json()["version"] == told["version"])
        assert server.client.post("/v1/model/rollback").json()["version"] == version
    else:
        assert server.client.get("/v1/model").json()["version"] == version


def test_a_training_that_breaks_is_not_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model"
    retrainer = Retrainer(ServingSettings(model=model, retrain="daily@03:00", retrain_with="a.csv"), list)
    asked, begun = tmp_path / "model.retrain", []

    def break_down() -> None:
        begun.append(1)
        if len(begun) == 2:
            retrainer.stop()
        asked.touch()
        raise OSError("no space left on device")

    monkeypatch.setattr(retrainer, "_train", break_down)
    asked.touch()
    retrainer.run()
    assert len(begun) == 2


def test_a_training_that_fails_changes_nothing(model: Path, store: Store) -> None:
    settings = ServingSettings(model=model, retrain="daily@03:00", retrain_with="missing.csv")
    before = (model / "model.json").read_bytes()
    with pytest.raises(ValueError, match="the training failed"):
        retrain(settings)
    assert (model / "model.json").read_bytes() == before
