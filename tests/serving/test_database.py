"""The database: what is written is there, in order, once, whoever writes at the same time."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from cofill.errors import CofillError, SettingsError
from cofill.serving.database import (
    Changes,
    ItemToKeep,
    LiveItem,
    LiveUser,
    Store,
    database_url,
    shown_url,
    url_of,
)
from cofill.serving.event_log import Event, EventLog
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
    assert "everybody on this machine could read people's ratings" in caplog.text
    assert [path.stat().st_mode & 0o777 for path in files] == [0o640] * 3


def test_changes_are_numbered_and_the_last_state_counts(store: Store) -> None:
    assert store.counter() == (0, 0)
    store.put_ratings("1", [("a", 3.0), ("b", 4.0)])
    store.put_ratings("2", [("a", 1.0)])
    assert store.counter() == (2, 0)
    store.put_ratings("1", [("b", None)])
    assert given(store.changes_since(0)) == [("1", "a", 3.0), ("2", "a", 1.0), ("1", "b", None)]
    assert given(store.changes_since(2)) == [("1", "b", None)]
    assert given(store.changes_since(3)) == []
    assert store.rating_count() == 2
    assert [(one.item, one.rating) for one in store.ratings_of("1")] == [("b", None), ("a", 3.0)]
    assert store.next_generation() == 1
    assert store.counter() == (3, 1)


def test_descriptions_keep_what_is_not_said_again(store: Store) -> None:
    store.put_items([ItemToKeep("a", "Title", {"year": 1999, "genres": ["Drama"]})])
    store.put_items([ItemToKeep("a", None, {"year": 2000})])
    store.put_items([ItemToKeep("a", "Another")])
    store.put_users([("1", None)])
    store.put_users([("1", {"age": 3})])
    changes = store.changes_since(0)
    assert changes.items == [LiveItem("a", "Another", {"year": 2000})]
    assert changes.users == [LiveUser("1", {"age": 3})]


def test_what_is_hidden_or_deleted_is_said_and_comes_back_without_what_was_known(store: Store) -> None:
    store.put_items([ItemToKeep("a", "Title", {"year": 1999}, available=False), ItemToKeep("b", "Other")])
    assert store.changes_since(0).items == [
        LiveItem("a", "Title", {"year": 1999}, available=False),
        LiveItem("b", "Other", None),
    ]
    store.put_items([ItemToKeep("a", available=True)])
    assert store.changes_since(1).items == [LiveItem("a", "Title", {"year": 1999})]
    store.delete_item("a")
    assert store.changes_since(2).items == [LiveItem("a", None, None, deleted=True)]
    store.put_items([ItemToKeep("a", "New"), ItemToKeep("b", available=False)])
    assert store.changes_since(3).items == [LiveItem("a", "New", {}), LiveItem("b", "Other", None, available=False)]


def test_of_somebody_forgotten_only_the_id_is_left(store: Store) -> None:
    log = EventLog(store)
    store.put_ratings("1", [("a", 3.0), ("b", None)])
    store.put_users([("1", {"age": 3})])
    log.put([Event("1", "a", "buy", 5.0, id="x"), Event("1", "b", "shown", 0.0), Event("2", "a", "buy", 5.0)])
    store.forget_user("1")
    assert store.changes_since(0).users == [LiveUser("1", None, forgotten=True, there=False)]
    assert given(store.changes_since(0)) == []
    assert [(one.user, one.item) for one in store.changes_since(0).interactions] == [("2", "a")]
    assert log.shown_to("1") == []
    assert store.forgotten() == ["1"]
    store.put_ratings("1", [("a", 4.0)])  # somebody comes back
    back = store.changes_since(3)
    assert (back.users, given(back)) == ([LiveUser("1", None, forgotten=True, there=False)], [("1", "a", 4.0)])
    assert store.changes_since(4).users == []  # whoever has forgotten them does not forget them again
    store.put_users([("1", {"age": 4})])
    assert store.changes_since(4).users == [LiveUser("1", {"age": 4})]
    assert store.changes_since(0, learned=4).users == [LiveUser("1", {"age": 4})]


FORMAT_1 = """
CREATE TABLE cofill_counter (
    id INTEGER NOT NULL, format INTEGER NOT NULL, change BIGINT NOT NULL, generation BIGINT NOT NULL, PRIMARY KEY (id));
CREATE TABLE cofill_ratings (
    "user" TEXT NOT NULL, item TEXT NOT NULL, rating DOUBLE PRECISION, time DOUBLE PRECISION NOT NULL,
    change BIGINT NOT NULL, PRIMARY KEY ("user", item));
CREATE INDEX cofill_ratings_change ON cofill_ratings (change);
CREATE TABLE cofill_items (
    item TEXT NOT NULL, title TEXT, features TEXT, change BIGINT NOT NULL, PRIMARY KEY (item));
CREATE INDEX cofill_items_change ON cofill_items (change);
CREATE TABLE cofill_users ("user" TEXT NOT NULL, features TEXT, change BIGINT NOT NULL, PRIMARY KEY ("user"));
CREATE INDEX cofill_users_change ON cofill_users (change);
INSERT INTO cofill_counter VALUES (1, 1, 4, 2);
INSERT INTO cofill_ratings VALUES ('1', 'a', 3.5, 1000.0, 1), ('1', 'b', NULL, 1001.0, 2);
INSERT INTO cofill_items VALUES ('a', 'Title', '{"year": 1999}', 3);
INSERT INTO cofill_users VALUES ('1', '{"age": 3}', 4);
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_of_format_1_goes_on(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """As the first cofill made it, word by word."""
    url = database_url(f"sqlite:///{tmp_path}/old.sqlite")
    if kind == "postgresql":
        url = database_url(request.getfixturevalue("postgresql"))
    engine = create_engine(url)
    with engine.begin() as connection:
        if kind == "postgresql":
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
        for statement in FORMAT_1.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    for _ in range(2):  # the second time it is of this format already
        store = Store(url)
        store.open()
        changes = store.changes_since(0)
        assert given(changes) == [("1", "a", 3.5), ("1", "b", None)]
        assert [one.time for one in changes.ratings] == [1000.0, 1001.0]
        assert changes.items == [LiveItem("a", "Title", {"year": 1999})]
        assert changes.users == [LiveUser("1", {"age": 3})]
        assert store.counter() == (4, 2)
        identity = store.identity()
        store.close()
    assert len(identity) == 32
    store = Store(url)
    store.open()
    assert store.identity() == identity
    EventLog(store).put([Event("1", "a", "buy", 5.0)])
    store.delete_item("a")
    store.forget_user("1")
    assert store.counter() == (7, 2)
    store.close()
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE cofill_counter SET format = 3")
    engine.dispose()
    newer = Store(url)
    with pytest.raises(CofillError, match=r"written by a newer cofill \(format 3\); upgrade cofill"):
        newer.open()
    newer.close()


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
    assert store.changes_since(0) == Changes([], [], [], [])
    assert store.counter() == (0, 0)


def test_what_was_written_survives_the_end_of_its_process(store: Store, model: Path) -> None:
    program = (
        "import os, sys\n"
        "from cofill.serving.database import url_of\n"
        "from cofill.serving.database import Store\n"
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
