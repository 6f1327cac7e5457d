"""A model that is replaced while others follow: whatever goes wrong in passing, all serve the same in the end."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from cofill.models.recommender import Recommender
from cofill.serving.api.model import add_model
from cofill.serving.app import new_api
from cofill.serving.live.model import LiveModel
from cofill.serving.live.served import ServedModel
from cofill.serving.live.store import Changes, Store
from tests.serving.conftest import live_model
from tests.waiting import wait_until


@pytest.fixture
def live(model: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveModel]:
    """It looks for others all the time."""
    monkeypatch.setattr("cofill.serving.live.model._SECONDS_BETWEEN_LOOKS", 0.05)
    made = live_model(model, store)
    made.start(lambda live, lag: None)
    # Its first look compares the folder with what it serves: a test that changes the folder waits for it.
    wait_until(lambda: made._generation == store.counter().generation)
    yield made
    made.stop()


def write_again(folder: Path) -> None:
    """The model as it is, but its card says that it is another one."""
    card = json.loads((folder / "model.json").read_text())
    card["trained"] = (datetime.fromisoformat(card["trained"]) + timedelta(hours=1)).isoformat()
    (folder / "new.json").write_text(json.dumps(card))
    (folder / "new.json").replace(folder / "model.json")


@pytest.mark.parametrize("failure", [OperationalError("select", {}, Exception("gone")), RuntimeError("\n")])
def test_a_failure_in_passing_loses_no_reload(
    live: LiveModel, model: Path, store: Store, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = live.served
    failed = threading.Event()

    def failing(change: int, learned: int, read: Callable[[int, int], Changes] = store.changes_since) -> Changes:
        if failed.is_set():
            return read(change, learned)
        failed.set()
        raise failure

    monkeypatch.setattr(store, "changes_since", failing)
    write_again(model)
    store.next_generation()
    wait_until(lambda: live.served is not before)
    assert failed.is_set()
    assert live.served.card != before.card


def test_a_model_in_shards_is_served_as_any_other(live: LiveModel, model: Path, store: Store) -> None:
    before = live.served
    Recommender.load(model).save(model, shards=3)
    store.next_generation()
    wait_until(lambda: live.served is not before)
    assert live.served.card != before.card
    people = before.model.users.ids[:5]
    pairs = [(user, item) for user in people for item in before.model.items]
    np.testing.assert_array_equal(live.served.model.predict(pairs), before.model.predict(pairs))


def test_a_half_written_model_is_tried_again(
    live: LiveModel, model: Path, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    before = live.served
    write_again(model)
    card = (model / "model.json").read_text()
    (model / "model.json").write_text(card[:-20])
    store.next_generation()
    wait_until(lambda: "cannot follow the other processes" in caplog.text)
    assert live.served is before
    (model / "model.json").write_text(card)
    wait_until(lambda: live.served is not before)


def test_a_process_that_starts_later_is_followed_once(
    live: LiveModel, model: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = live.served
    reads: list[Any] = []
    fresh = live._fresh

    def counted(*of: Any) -> ServedModel:
        reads.append(of)
        return fresh(*of)

    monkeypatch.setattr(live, "_fresh", counted)
    write_again(model)
    later = live_model(model, store)
    later.start(lambda live, lag: None)
    try:
        wait_until(lambda: live.served is not before)
        assert live.served.card == later.served.card
        store.next_generation()
        wait_until(lambda: live._generation == store.counter().generation)
        assert len(reads) == 1  # what is there already is not read again
    finally:
        later.stop()


def test_a_reload_that_cannot_be_told_changes_nothing(
    live: LiveModel, model: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> int:
        raise OperationalError("update", {}, Exception("gone"))

    before = live.served
    write_again(model)
    monkeypatch.setattr(store, "next_generation", failing)
    with pytest.raises(OperationalError):
        live.reload()
    assert live.served is before


def test_one_reload_at_a_time_is_waited_for() -> None:
    begun, end = threading.Event(), threading.Event()

    def reload() -> Any:
        begun.set()
        assert end.wait(60)
        return SimpleNamespace(
            name="model", card=SimpleNamespace(version="1"), model=SimpleNamespace(users=[], items=[])
        )

    app = new_api()
    live: Any = SimpleNamespace(reload=lambda model: reload())
    nothing: Any = None
    add_model(app, live, nothing, nothing, nothing)

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            first = asyncio.ensure_future(client.post("/v1/model/reload"))
            await asyncio.to_thread(begun.wait, 60)
            try:
                others = await asyncio.wait_for(
                    asyncio.gather(*(client.post("/v1/model/reload") for _ in range(60))), timeout=60
                )
            finally:
                end.set()
            return [await first, await client.post("/v1/model/reload"), *others]

    first, last, *others = asyncio.run(ask())
    assert (first.status_code, last.status_code) == (200, 200)
    for other in others:
        assert other.status_code == 503
        assert "a model is being read already" in other.json()["detail"]  # without the guard, a request has no id
        assert other.headers["retry-after"] == "1"
