"""The database: what is written is there, in order, once, whoever writes at the same time."""

import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from cofill.errors import CofillError, SettingsError
from cofill.serving.live.events import OTHER, SECONDS_A_DAY, Event, EventLog
from cofill.serving.live.store import (
    Changes,
    ItemToKeep,
    LiveItem,
    LiveUser,
    Store,
    database_url,
    shown_url,
    url_of,
)
from cofill.serving.live.tables import FORMAT
from cofill.serving.live.tombstones import Tombstones
from cofill.serving.settings import live_file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Whose name would mean something else in a URL."""
    return tmp_path / "a model? 100%"


def given(changes: Changes) -> list[tuple[str, str, float | None]]:
    return [(one.user, one.item, one.rating) for one in changes.ratings]


def test_the_file_stands_beside_the_model(store: Store, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "a model? 100%.live.sqlite"
    assert live_file(model) == file
    assert file.exists()
    store.close()
    assert file.read_bytes()[:15] == b"SQLite format 3"


def test_nobody_else_may_read_what_people_rated(store: Store, model: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = [live_file(model).with_name(live_file(model).name + ending) for ending in ("", "-wal", "-shm")]
    store.put_ratings("1", [("a", 3.0)])
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600] * 3
    for path in files:
        path.chmod(0o644)  # as versions before left it
    again = Store(url_of(None, model))
    again.open()
    again.close()
    assert "all users of this machine could read the ratings" in caplog.text
    assert [path.stat().st_mode & 0o777 for path in files] == [0o640] * 3


def test_changes_are_numbered_and_the_last_state_counts(store: Store) -> None:
    assert store.counter()[:2] == (0, 0)
    store.put_ratings("1", [("a", 3.0), ("b", 4.0)])
    store.put_ratings("2", [("a", 1.0)])
    assert store.counter()[:2] == (2, 0)
    store.put_ratings("1", [("b", None)])
    assert given(store.changes_since(0)) == [("1", "a", 3.0), ("2", "a", 1.0), ("1", "b", None)]
    assert given(store.changes_since(2)) == [("1", "b", None)]
    assert given(store.changes_since(3)) == []
    assert store.rating_count() == 2
    assert [(one.item, one.rating) for one in store.ratings_of("1")] == [("b", None), ("a", 3.0)]
    assert store.next_generation() == 1
    assert store.counter()[:2] == (3, 1)


def described(store: Store, since: int) -> list[LiveItem]:
    """Of items that were just added."""
    items = store.changes_since(since).items
    assert all(one.deleted or one.added > 0 for one in items)
    return [one._replace(added=0.0) for one in items]


def test_descriptions_keep_what_is_not_said_again(store: Store) -> None:
    store.put_items([ItemToKeep("a", "Title", {"year": 1999, "genres": ["Drama"]})])
    store.put_items([ItemToKeep("a", None, {"year": 2000})])
    store.put_items([ItemToKeep("a", "Another")])
    store.put_users([("1", None)])
    store.put_users([("1", {"age": 3})])
    changes = store.changes_since(0)
    assert described(store, 0) == [LiveItem("a", "Another", {"year": 2000})]
    assert changes.users == [LiveUser("1", {"age": 3})]


def test_what_is_hidden_or_deleted_is_said_and_comes_back_without_what_was_known(store: Store) -> None:
    store.put_items([ItemToKeep("a", "Title", {"year": 1999}, available=False), ItemToKeep("b", "Other")])
    assert described(store, 0) == [
        LiveItem("a", "Title", {"year": 1999}, available=False),
        LiveItem("b", "Other", None),
    ]
    store.put_items([ItemToKeep("a", available=True)])
    assert described(store, 1) == [LiveItem("a", "Title", {"year": 1999})]
    store.delete_item("a")
    assert described(store, 2) == [LiveItem("a", None, None, deleted=True)]
    store.put_items([ItemToKeep("a", "New"), ItemToKeep("b", available=False)])
    assert described(store, 3) == [LiveItem("a", "New", {}), LiveItem("b", "Other", None, available=False)]


def test_what_is_hidden_and_shown_again_is_not_new(store: Store) -> None:
    def added() -> dict[str, bool]:
        return {one.item: one.added > 0 for one in store.changes_since(0).items}

    store.put_items([ItemToKeep("old", available=False), ItemToKeep("new", "Title")])
    store.put_items([ItemToKeep("old", available=True)])
    assert added() == {"old": False, "new": True}
    store.put_items([ItemToKeep("old", features={"year": 1999})])
    assert added() == {"old": True, "new": True}


def test_of_a_deleted_user_only_hashes_are_left(store: Store, model: Path) -> None:
    jane = "jane@example.org"
    log = EventLog(store)
    store.put_ratings(jane, [("a", 3.0), ("b", None)])
    store.put_users([(jane, {"street": "Unforgettable Lane"})])
    log.put([Event(jane, "Unforgettable Item", "buy", 5.0, id=f"{jane}-7"), Event(jane, "b", "shown", 0.0)])
    log.put([Event("2", "a", "buy", 5.0)])
    store.forget_user(jane)
    for path in live_file(model).parent.glob(f"{live_file(model).name}*"):
        assert b"Unforgettable" not in path.read_bytes(), path
        assert b"jane" not in path.read_bytes(), path
    found = store.changes_since(0)
    assert (found.users, given(found)) == ([], [])
    assert found.forgotten.among(["john", jane]) == [jane]
    assert [(one.user, one.item) for one in found.interactions] == [("2", "a")]
    assert log.shown_to(jane) == []
    store.put_ratings(jane, [("a", 4.0)])  # they come back
    assert store.changes_since(4).forgotten.among([jane]) == [jane]
    assert given(store.changes_since(4)) == [(jane, "a", 4.0)]
    assert store.changes_since(5).forgotten.digests == []  # a process that has forgotten them does not do so again
    store.put_users([(jane, {"age": 4})])
    assert store.changes_since(0, learned=5).users == [LiveUser(jane, {"age": 4})]
    assert store.changes_since(0, learned=5).forgotten.digests == []


def test_an_event_that_is_delivered_again_does_not_bring_a_deleted_user_back(store: Store) -> None:
    log = EventLog(store)
    with_id, with_time = Event("1", "a", "buy", 5.0, id="x"), Event("1", "b", "buy", 5.0, time=time.time() - 60)
    log.put([with_id, with_time])
    store.forget_user("1")
    assert log.put([with_id, with_time, with_time._replace(id="y"), Event("2", "a", "buy", 5.0, time=1.0)]) == 1
    assert [one.user for one in store.changes_since(0).interactions] == ["2"]
    assert log.put([Event("1", "c", "buy", 5.0), Event("1", "d", "buy", 5.0, time=time.time() + 60)]) == 2
    assert {one.item for one in store.changes_since(0).interactions if one.user == "1"} == {"c", "d"}


def test_postgresql_deletes_exports_and_tidies_alike(empty_postgresql: str) -> None:
    store = Store(database_url(empty_postgresql))
    store.open()
    try:
        log = EventLog(store, ["buy"])
        sent = [Event("1", "a", "buy", 5.0, id="x"), Event("1", "b", "buy", 5.0), Event("2", "a", "buy", 1.0)]
        assert log.put(sent) == 3
        assert store.begin_export() == store.begin_export() == 1
        log.put([Event("2", "a", "buy", 2.0)])
        store.forget_user("1")
        assert store.changes_since(0).forgotten.among(["1", "2"]) == ["1"]
        assert log.put([sent[0], sent[1]._replace(time=1.0)]) == 0
        log.tidy(time.time() + 100 * SECONDS_A_DAY)
        assert [one.weight for one in store.changes_since(0, learned=1).interactions] == [2.0]
        assert [(one.user, one.weight) for one in store.changes_since(0).interactions] == [("2", 3.0)]
        assert log.count() == 2  # what came before the export, and what came after
        log.look_after(["m1"])
        log.put([Event("2", "a", "shown", 0.0, model_version=version) for version in ("m1", "m2")])
        assert sorted(log.click_through()) == [("m1", "shown", 1), (OTHER, "shown", 1)]
        database = store.counter().database
        for _ in range(2):
            store.renew(database)
        assert store.counter().database != database
    finally:
        store.close()


def test_what_a_reader_holds_in_the_log_is_removed_later(store: Store, model: Path) -> None:
    log = live_file(model).with_name(live_file(model).name + "-wal")
    store.put_users([("1", {"street": "Unforgettable Lane"})])
    reader = sqlite3.connect(live_file(model), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM cofill_users").fetchall()
    store.forget_user("1")
    assert b"Unforgettable" in log.read_bytes()
    reader.execute("COMMIT")
    reader.close()
    store.empty_log()  # as the follower does
    assert b"Unforgettable" not in log.read_bytes()


def test_a_database_of_another_format_is_refused(store: Store, model: Path) -> None:
    engine = create_engine(url_of(None, model))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE cofill_counter SET format = {FORMAT + 1}")
    engine.dispose()
    with pytest.raises(
        CofillError, match=rf"written by another version of cofill \(format {FORMAT + 1}, not {FORMAT}\)"
    ):
        store.open()


def test_a_file_system_without_a_write_ahead_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofill.serving.live.store._make_durable", lambda connection, _: None)  # as if it had no effect
    store = Store(url_of(None, tmp_path / "model"))
    with pytest.raises(CofillError, match="no write-ahead log can be kept there"):
        store.open()
    store.close()


def test_a_new_user_gets_an_id_that_nobody_has(store: Store) -> None:
    store.put_ratings("1", [("a", 3.0)])
    store.put_users([("2", None)])
    names = iter(["1", "2", "3", "4"])
    assert store.new_user(lambda: next(names), None) == "3"
    assert store.changes_since(2).users == [LiveUser("3", None)]


def test_what_looks_like_sql_is_text(store: Store) -> None:
    nasty = "'; DROP TABLE cofill_ratings; --"
    store.put_ratings(nasty, [(nasty, 3.0)])
    store.put_items([ItemToKeep(nasty, nasty, {nasty: nasty})])
    EventLog(store).put([Event(nasty, nasty, nasty, 1.0, id=nasty, model_version=nasty)])
    assert given(store.changes_since(0)) == [(nasty, nasty, 3.0)]
    assert [one.user for one in store.ratings_of(nasty)] == [nasty]


def test_writers_at_the_same_time_lose_nothing_and_readers_see_numbers_in_order(store: Store, model: Path) -> None:
    other = Store(url_of(None, model))
    seen: list[tuple[int, int]] = []
    stop = threading.Event()

    def write(number: int) -> None:
        for at in range(25):
            (store, other)[number % 2].put_ratings(f"user {number}", [(str(at), 1.0), (str(at + 1), 2.0)])

    def read() -> None:
        while not stop.is_set():
            change = other.counter().change
            seen.append((change, len(store.changes_since(0).ratings)))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    reader = threading.Thread(target=read)
    for thread in [*writers, reader]:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    other.close()
    assert store.counter().change == 100
    assert sorted(given(store.changes_since(0))) == sorted(
        (f"user {number}", str(at), 2.0 if at == 25 else 1.0) for number in range(4) for at in range(26)
    )
    # Every change brings a row of its own, beside one that the next overwrites: what is counted is there.
    assert all(rows >= change for change, rows in seen)
    assert seen == sorted(seen)


def test_a_write_that_fails_leaves_nothing(store: Store) -> None:
    with pytest.raises(SQLAlchemyError):
        store.put_ratings("1", [("a", 3.0), ("b", object())])  # type: ignore[list-item]
    assert store.changes_since(0) == Changes([], [], [], [], Tombstones(store.salt, []), [], [])
    assert store.counter()[:2] == (0, 0)


def test_what_was_written_survives_the_end_of_its_process(store: Store, model: Path) -> None:
    program = (
        "import os, sys\n"
        "from cofill.serving.live.store import url_of\n"
        "from cofill.serving.live.store import Store\n"
        "from pathlib import Path\n"
        "store = Store(url_of(None, Path(sys.argv[1])))\n"
        "for number in range(20):\n"
        "    store.put_ratings('1', [(str(number), 3.0)])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(model)]).returncode == -9
    assert store.rating_count() == 20


def test_urls(tmp_path: Path) -> None:
    url = database_url("postgresql://me:secret@localhost/ratings")
    assert url.drivername == "postgresql+psycopg"
    assert "secret" not in shown_url(url)
    asked = database_url("postgresql://localhost/ratings?password=secret&sslpassword=secret&sslmode=require")
    assert shown_url(asked) == "postgresql+psycopg://localhost/ratings?sslmode=require"
    assert asked.query["password"] == "secret"
    for wrong in ("mysql://localhost/x", "sqlite://", "sqlite:///:memory:", "nonsense"):
        with pytest.raises(SettingsError):
            database_url(wrong)
    folder = Store(database_url(f"sqlite:///{tmp_path}"))
    with pytest.raises(CofillError, match="live ratings cannot be kept there"):
        folder.open()
    folder.close()
