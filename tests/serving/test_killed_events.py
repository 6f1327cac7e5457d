"""Acknowledged events over many kill -9 of the process that writes them: none is lost, and none counts twice.

A client that hears nothing sends the same events again, with the same ids, until they are acknowledged.
"""

import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from sqlalchemy import create_engine, text

from cofill.cli import main
from cofill.serving.live.store import url_of
from tests.serving.conftest import ITEMS, USERS, Start
from tests.serving.test_killed import Story

WRITERS, BATCH = 4, 50
WEIGHTS = {"view": 1.0, "click": 1.0, "play": 3.0, "buy": 5.0, "shown": 0.0}


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/events.sqlite"
    url: str = request.getfixturevalue("empty_postgresql")
    return url


class Writer(threading.Thread):
    """Sends its batches one after the other, each until it is acknowledged."""

    def __init__(self, number: int, batches: int, story: Story) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        draw = random.Random(number)
        self._story = story
        self.batches = [
            [
                {
                    "id": f"{number}-{batch}-{at}",
                    "user": draw.choice([draw.randint(1, USERS), f"visitor-{draw.randint(1, 30)}"]),
                    "item": draw.randint(1, ITEMS),
                    "kind": draw.choice(list(WEIGHTS)),
                    "model_version": "m1",
                }
                for at in range(BATCH)
            ]
            for batch in range(batches)
        ]
        self.cut_off = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx.Client(timeout=60) as client:
                for batch in self.batches:
                    while not self._acknowledged(client, batch):
                        self.cut_off += 1
        except BaseException as error:
            self.failure = error
            raise

    def _acknowledged(self, client: httpx.Client, batch: list[dict[str, Any]]) -> bool:
        address = self._story.address
        try:
            answer = client.post(f"{address}/v1/events", json={"events": batch})
        except httpx.TransportError:
            self._story.wait_for_another(address)
            return False
        assert answer.status_code == 200, answer.text
        counted = answer.json()
        assert counted["stored"] + counted["repeated"] == BATCH
        assert counted["stored"] in (0, BATCH), "a part of a batch was written"
        self._story.acknowledge(BATCH)
        return True


@pytest.mark.parametrize(("kills", "batches"), [(2, 4), pytest.param(50, 50, marks=pytest.mark.slow)])
def test_acknowledged_events_outlive_kills(
    kills: int, batches: int, model: Path, database: str, tmp_path: Path, start: Start
) -> None:
    every = WRITERS * batches * BATCH
    moments = random.Random(7)
    server = start(model, f"--database={database}", "--requests-per-second=0")
    story = Story(server.told["address"])
    writers = [Writer(number, batches, story) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for kill in range(1, kills + 1):
        # Kills come faster than batches towards the end: whatever was acknowledged by then, each meets a writer.
        story.wait_until(min(kill, kills - 1) * (every // (kills + 2)), writers)
        time.sleep(moments.uniform(0, 0.02))
        server.process.kill()
        server = start(model, f"--database={database}", "--requests-per-second=0")
        story.go_on_at(server.told["address"])
    for writer in writers:
        writer.join(120)
    assert [writer.failure for writer in writers] == [None] * WRITERS
    assert story.acknowledged == every
    assert sum(writer.cut_off for writer in writers) >= 1  # the kills did hit writes

    sent = [event for writer in writers for batch in writer.batches for event in batch]
    engine = create_engine(url_of(database, Path()))
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT id FROM cofill_events")).scalars().all()
    engine.dispose()
    assert len(rows) == len(set(rows)) == len(sent)

    # What comes of it: the sums of an export, and what a whole server counts.
    expected: Counter[tuple[str, str]] = Counter()
    for event in sent:
        expected[str(event["user"]), str(event["item"])] += int(WEIGHTS[str(event["kind"])])
    folder = tmp_path / "export"
    assert main(["export", f"--database={database}", "--out", str(folder), "--format=parquet", "--quiet"]) == 0
    frame = pl.read_parquet(folder / "interactions.parquet")
    found = {(str(user), str(item)): count for user, item, count, _ in frame.iter_rows()}
    assert found == {pair: weight for pair, weight in expected.items() if weight}
    metrics = server.client.get("/metrics").text
    assert f"cofill_live_events {float(every)}" in metrics
    shown = sum(event["kind"] == "shown" for event in sent)
    assert f'cofill_shown_total{{model_version="other"}} {float(shown)}' in metrics
    assert server.client.get("/v1/recommendations?user=visitor-1").json()["known"] is True
