"""An acknowledged rating is there however the server ends: killed in the middle of its work, again and again.

Every write has a rating of its own, so what is found at the end tells which write it comes from.
"""

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from sqlalchemy import create_engine, text

from cofill.cli import main
from cofill.serving.live.store import url_of
from tests.serving.conftest import Start
from tests.serving.running_server import Server
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

USERS, ITEMS, RATINGS = 40, 30, 400
WRITERS = 4
ACKNOWLEDGED = 1000
KILLS = 10

Pair = tuple[int, int]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world of which a model is trained and loaded at once."""
    folder = tmp_path_factory.mktemp("killed") / "world"
    words = [f"--users={USERS}", f"--items={ITEMS}", f"--ratings={RATINGS}", f"--out={folder}", "--quiet"]
    assert main(["datasets", "make", *words]) == 0
    words = ["--epochs=1", "--hidden=4", "--threads=1", "--quiet", f"--out={folder / 'model'}"]
    assert main(["train", str(folder / "ratings.csv"), *words]) == 0
    return folder


@pytest.fixture
def killable(small: Path, tmp_path: Path) -> Path:
    return shutil.copytree(small / "model", tmp_path / "model")


@pytest.fixture(scope="module")
def trained_ratings(small: Path) -> dict[Pair, float]:
    frame = pl.read_csv(small / "ratings.csv")
    return {(user, item): rating for user, item, rating in frame.select("user", "item", "rating").iter_rows()}


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str | None:
    """None: the file beside the model."""
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("empty_postgresql")
    return url


class Writer(threading.Thread):
    """Rates, changes and takes back as fast as it can, for users that are its own, and remembers what it was told."""

    def __init__(self, number: int, story: "Story") -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self._random = random.Random(number)
        self._story = story
        # Known ones and new ones, of which each has met known items and a few new ones.
        users = [*range(number + 1, USERS, WRITERS)[:5], 1000 + number, 2000 + number]
        self._pairs = [(user, item) for user in users for item in (*range(1, ITEMS + 1, 2), 901, 902)]
        self.said: dict[Pair, list[tuple[float | None, bool]]] = {}
        """Of each pair, in order: what was written, and whether that was acknowledged."""
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._story.over.is_set():
                with httpx.Client(base_url=self._story.address, timeout=60) as client:
                    self._write_until_cut_off(client)
        except BaseException as error:
            self.failure = error
            raise

    def _write_until_cut_off(self, client: httpx.Client) -> None:
        while not self._story.over.is_set():
            pair = self._random.choice(self._pairs)
            history = self.said.get(pair, [])
            rated = bool(history) and history[-1][0] is not None and history[-1][1]
            rating = None if rated and self._random.random() < 0.3 else self._story.next_rating()
            try:
                self._write(client, pair, rating)
            except httpx.ConnectError:
                self._story.wait_for_another(str(client.base_url))
                return
            except httpx.TransportError:  # whether it was done is for nobody to say
                self.said.setdefault(pair, []).append((rating, False))
                return
            self.said.setdefault(pair, []).append((rating, True))
            self._story.acknowledge()
            if self._random.random() < 0.1:
                self._check(client, pair, rating)

    def _write(self, client: httpx.Client, pair: Pair, rating: float | None) -> None:
        user, item = pair
        if rating is None:
            answer = client.delete("/v1/ratings", params={"user": user, "item": item})
            assert answer.status_code == 204, answer.text
        else:
            body = {"user": user, "ratings": [{"item": item, "rating": rating}]}
            answer = client.put("/v1/ratings", json=body)
            assert (answer.status_code, answer.json()) == (200, {"stored": 1}), answer.text

    def _check(self, client: httpx.Client, pair: Pair, rating: float | None) -> None:
        """The next answer has it already."""
        try:
            found = ratings_of(client, pair[0]).get(pair)
        except httpx.TransportError:
            return
        assert found == (rating if rating is None else round(rating, 6))


class Story:
    """What the writers share: where the server is now, how much was acknowledged, and the next rating."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.over = threading.Event()
        self._changed = threading.Condition()
        self.acknowledged = 0
        self._ratings = 0

    def next_rating(self) -> float:
        """Each of them once; all of them exact in single precision."""
        with self._changed:
            self._ratings += 1
            return 0.5 + self._ratings / 1024

    def acknowledge(self, count: int = 1) -> None:
        with self._changed:
            self.acknowledged += count
            self._changed.notify_all()

    def wait_until(self, acknowledged: int, writers: Sequence[Any]) -> None:
        def enough() -> bool:
            for writer in writers:
                assert writer.failure is None, writer.failure
            return self.acknowledged >= acknowledged

        with self._changed:
            assert self._changed.wait_for(enough, 120), "nothing is acknowledged any more"

    def go_on_at(self, address: str) -> None:
        with self._changed:
            self.address = address
            self._changed.notify_all()

    def wait_for_another(self, address: str) -> None:
        """Than the one where nobody listens."""
        with self._changed:
            self._changed.wait_for(lambda: self.address != address.rstrip("/") or self.over.is_set(), 120)


def ratings_of(client: httpx.Client, user: int) -> dict[Pair, float]:
    answer = client.get("/v1/ratings", params={"user": user})
    if answer.status_code == 404:  # new, and never rated anything
        return {}
    found = answer.json()["ratings"]
    ratings = {(user, entry["item"]): entry["rating"] for entry in found}
    assert len(ratings) == len(found), "an item stands twice"
    return ratings


@contextmanager
def writing(address: str) -> Iterator[tuple[Story, list[Writer]]]:
    story = Story(address)
    writers = [Writer(number, story) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield story, writers
    finally:
        story.over.set()
        story.go_on_at("")
        for writer in writers:
            writer.join(60)
    assert [writer.failure for writer in writers] == [None] * WRITERS


def options_of(database: str | None) -> list[str]:
    return ["--requests-per-second=0", "--open-catalogue", *([] if database is None else [f"--database={database}"])]


def check(
    running: list[str],
    writers: list[Writer],
    trained: dict[Pair, float],
    model: Path,
    database: str | None,
    tmp_path: Path,
) -> tuple[int, int]:
    """Nothing is lost and nothing is there twice, whoever is asked; returns how much was acknowledged, and in doubt."""
    said = {pair: history for writer in writers for pair, history in writer.said.items()}
    writes = [acknowledged for history in said.values() for _, acknowledged in history]
    certain, in_doubt = sum(writes), len(writes) - sum(writes)

    # The database: one row for each pair, with its last acknowledged state or one that was in doubt after it.
    stored = exported(model, database, tmp_path)
    for pair, history in said.items():
        last = max((at for at, (_, acknowledged) in enumerate(history) if acknowledged), default=-1)
        possible = [rating for rating, _ in history[max(last, 0) :]]
        if last >= 0:
            assert pair in stored, f"{pair} was acknowledged and is lost"
        if pair in stored:
            assert stored[pair] in possible, f"{pair}: {stored[pair]} is none of {possible}"
    assert stored.keys() <= said.keys()
    rows, distinct, newest, counter = numbers(model, database)
    assert rows == distinct == len(stored)  # no change wrote two pairs, no pair has two rows
    assert newest <= counter
    assert certain <= counter <= certain + in_doubt  # each write was done once, or in doubt

    # Every server: the same ratings of every user, and the same number of ratings of every item.
    expected = trained | {pair: round(rating, 6) for pair, rating in stored.items() if rating is not None}
    for pair, rating in stored.items():
        if rating is None:
            expected.pop(pair, None)
    for address in running:
        with httpx.Client(base_url=address, timeout=60) as client:
            users = {user for user, _ in said} | {1, USERS}
            found = {pair: rating for user in users for pair, rating in ratings_of(client, user).items()}
            assert found == {pair: rating for pair, rating in expected.items() if pair[0] in users}
            for item in {item for _, item in expected}:
                count = client.get("/v1/item", params={"id": item}).json()["ratings"]["count"]
                assert count == sum(rated == item for _, rated in expected), item
            live = client.get("/v1/model").json()["ratings"]["live"]
            assert live == sum(rating is not None for rating in stored.values())
    return certain, in_doubt


def exported(model: Path, database: str | None, tmp_path: Path) -> dict[Pair, float | None]:
    folder = tmp_path / f"export-{time.monotonic_ns()}"
    source = [str(model)] if database is None else [f"--database={database}"]
    assert main(["export", *source, "--out", str(folder), "--format=parquet", "--quiet"]) == 0
    frame = pl.read_parquet(folder / "ratings.parquet")
    rows = {(user, item): rating for user, item, rating in frame.select("user", "item", "rating").iter_rows()}
    assert len(rows) == frame.height, "a pair is exported twice"
    return rows


def numbers(model: Path, database: str | None) -> tuple[int, int, int, int]:
    engine = create_engine(url_of(database, model))
    query = "SELECT count(*), count(DISTINCT change), max(change), (SELECT change FROM cofill_counter) FROM"
    with engine.connect() as connection:
        row: Any = connection.execute(text(f"{query} cofill_ratings")).one()
    engine.dispose()
    return int(row[0]), int(row[1]), int(row[2]), int(row[3])


def test_a_thousand_acknowledged_ratings_outlive_ten_kills(
    killable: Path, database: str | None, trained_ratings: dict[Pair, float], tmp_path: Path, start: Start
) -> None:
    moments = random.Random(5)
    options = options_of(database)
    servers = [start(killable, *options)]
    with writing(servers[-1].told["address"]) as (story, writers):
        for kill in range(1, KILLS + 1):
            story.wait_until(kill * ACKNOWLEDGED // (KILLS + 1), writers)
            time.sleep(moments.uniform(0, 0.1))
            servers[-1].stop(signal.SIGKILL)
            servers.append(start(killable, *options))
            story.go_on_at(servers[-1].told["address"])
        story.wait_until(ACKNOWLEDGED, writers)
    servers.append(start(killable, *options))  # which has only what the database has
    running = [server.told["address"] for server in servers[-2:]]
    certain, in_doubt = check(running, writers, trained_ratings, killable, database, tmp_path)
    assert certain >= ACKNOWLEDGED
    assert in_doubt >= 1  # the kills did hit writes
    assert not any("Traceback" in server.errors() for server in servers)


def test_a_worker_that_is_killed_is_replaced_and_agrees(
    killable: Path, database: str | None, trained_ratings: dict[Pair, float], tmp_path: Path, start: Start
) -> None:
    server = start(killable, "--workers=2", *options_of(database))
    with writing(server.told["address"]) as (story, writers):
        story.wait_until(100, writers)
        first, second = children(server)
        os.kill(first, signal.SIGKILL)
        story.wait_until(200, writers)  # by the other
        replaced = other_than(server, {first, second})
        os.kill(second, signal.SIGKILL)
        story.wait_until(400, writers)  # by the one that took the place of the first
        assert replaced in children(server)
    certain, in_doubt = check(
        [server.told["address"]] * 4, writers, trained_ratings, killable, database, tmp_path
    )  # connections meet either worker
    assert certain >= 400
    assert in_doubt >= 1
    assert server.errors().count("a worker is replaced: its process was killed") == 2


def children(server: Server) -> list[int]:
    pid = server.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def other_than(server: Server, known: set[int]) -> int:
    """A worker that was started after those."""
    wait_until(lambda: set(children(server)) - known, "a worker in place of the one that was killed", 60)
    return (set(children(server)) - known).pop()
