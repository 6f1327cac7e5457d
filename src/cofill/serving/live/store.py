"""Live ratings, and descriptions of users and items, in a database that several processes share.

A row is the present state of a pair, an item or a user, with the number of the change that brought it there. The
numbers come from one row that a writer locks until it commits, so their order is that of the commits: whoever has
taken in everything up to a number finds the rest by asking for greater ones. States that were overwritten are gone;
nothing grows with time. A rating that was taken back is a row without a rating: the model may have learned it. Likewise
a deleted item is a row that says so, and so is a deleted user: the hash of an id, and the number of that change.
Events are in `events.py`.
"""

import errno
import json
import logging
import os
import sqlite3
import tempfile
import threading
import time
from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, Self

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Subquery,
    Table,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    union,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as DatabaseTimeoutError
from sqlalchemy.pool import PoolProxiedConnection

from cofill.data.interactions import NO_WEIGHT
from cofill.errors import CofillError, DataError, SettingsError
from cofill.files import make_private
from cofill.serving.live.tables import FORGOTTEN, FORMAT, make_tables
from cofill.serving.live.tables import counter as _counter
from cofill.serving.live.tables import events as _events
from cofill.serving.live.tables import exports as _exports
from cofill.serving.live.tables import forgotten as _forgotten
from cofill.serving.live.tables import items as _items
from cofill.serving.live.tables import merges as _merges
from cofill.serving.live.tables import ratings as _ratings
from cofill.serving.live.tables import users as _users
from cofill.serving.live.tombstones import Tombstones, digest_of
from cofill.serving.settings import SHARED_FOLDER, ServingSettings, live_file, require_psycopg

log = logging.getLogger("cofill.serving")

OWN = "own:"
"""How the id of an event begins that came without one."""
_COUNTER = "SELECT change, generation, database FROM cofill_counter"
_LOCK = 0x636F66696C6C  # of PostgreSQL, while tables are made
CHECK_DATABASE = "check database=..."
_SECONDS_TO_CONNECT = 5
_SECONDS_TO_CLOSE = 1
_SECONDS_FOR_A_LOCK = 10  # another writer may hold the database for so long
_CONNECTIONS = 8
_TICK = 1e-6  # seconds
_LAST = 2**62  # a change that never comes
_MANY, _SECONDS_OF_A_COUNT = 100_000, 60.0  # a count of so many rows holds for so long
_SECRETS = ("password", "sslpassword")  # that may stand in the query of a URL
_POSTGRESQL_IS_FULL = "53100"
_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")


class AlreadyMergedError(CofillError):
    """A user became another one already."""


class Counter(NamedTuple):
    """How often something was written, how often the model was replaced, and in which database."""

    change: int
    generation: int
    database: str


class LiveRating(NamedTuple):
    """A user's rating of an item, or None for a withdrawn one, and when."""

    user: str
    item: str
    rating: float | None
    time: float


class LiveItem(NamedTuple):
    item: str
    title: str | None
    features: dict[str, Any] | None
    available: bool = True
    available_until: float | None = None
    added: float = 0.0
    """Since when it is in the catalogue; 0 if it was never described."""
    deleted: bool = False


class LiveUser(NamedTuple):
    user: str
    features: dict[str, Any] | None


class LiveInteraction(NamedTuple):
    """What all events of a user with an item add up to, maybe below 0, and when the last of them happened."""

    user: str
    item: str
    weight: float
    time: float


class ItemToKeep(NamedTuple):
    """What is said about an item; what is None stays as it was."""

    item: str
    title: str | None = None
    features: Mapping[str, Any] | None = None
    available: bool | None = None
    available_until: float | None = None
    """An item that is shown again without this has no end."""
    added: float | None = None
    """Since when it is in the catalogue; of one that is described for the first time, that is now."""


class Changes(NamedTuple):
    """What was written, in the order of the commits."""

    ratings: list[LiveRating]
    items: list[LiveItem]
    users: list[LiveUser]
    interactions: list[LiveInteraction]
    forgotten: Tombstones
    """The users whose earlier data are removed first."""
    merged: list[tuple[str, str]]
    """Users who became others, and whom; then come the rest."""
    disliked: list[tuple[str, str, bool]]
    """Users and items of which an event said something against, and whether that is more than all that was for it."""


class Clock:
    """When what is written at once happened, so that each user's things stay in their order."""

    def __init__(self) -> None:
        self.now = time.time()
        self._at: Counts[tuple[str, float]] = Counts()

    def of(self, user: str, when: float | None = None) -> float:
        """A time until now, a little later than that of what the user did before it at the same time.

        What has not happened yet, by a wrong clock, happens now: one alone would be the whole trend.
        """
        when = self.now if when is None else min(when, self.now)
        self._at[user, when] += 1
        return when + _TICK * (self._at[user, when] - 1)


class Store:
    """The database. Any thread may use it."""

    read_only = False
    """Whether nothing is kept."""

    def __init__(self, url: URL) -> None:
        self.name = shown_url(url)
        self._engine = open_engine(url)
        self.disk_full = False
        """Whether the last transaction failed for want of space."""
        event.listen(self._engine, "handle_error", self._note_full_disk)
        self.away = False
        """Whether the database did not answer when it was last asked; until it does, all but `read` fails at once."""
        self.written = threading.Event()
        """Set after each change of this process, so that its model follows before anybody asks."""
        self._reading = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._watching = threading.Lock()
        self._watch: PoolProxiedConnection | None = None
        self._counts: dict[Column[Any], tuple[int, float]] = {}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._in_log = self._in_file  # what was deleted may still be there; also what another process left
        self.inserting = postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert

    @classmethod
    def of(cls, settings: ServingSettings) -> Self:
        """The database of a server. Without one, a temporary file, which all its processes share, stays empty."""
        if not settings.read_only:
            return cls(url_of(settings.database, settings.model))
        temporary = None if SHARED_FOLDER in os.environ else tempfile.TemporaryDirectory(prefix="cofill-")
        folder = os.environ[SHARED_FOLDER] if temporary is None else temporary.name
        store = cls(URL.create("sqlite", database=f"{folder}/read-only.sqlite"))
        store.read_only, store.name, store._temporary = True, "no database (read-only)", temporary
        return store

    def open(self, *, make: bool = True) -> None:
        """Open a database, and create its tables or refuse one without; a `CofillError` if it cannot be used."""
        if make and self._in_file:
            self._keep_private()
        try:
            with self._engine.begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
                if not make and not inspect(connection).has_table(_counter.name):
                    raise DataError(f"{self.name}: no live ratings are kept there", CHECK_DATABASE)
                found = make_tables(connection)
                mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar() if self._in_file else "wal"
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            reason = " ".join(str(cause).split())
            raise CofillError(f"{self.name}: live ratings cannot be kept there ({reason})", CHECK_DATABASE) from None
        if mode != "wal":
            raise CofillError(f"{self.name}: no write-ahead log can be kept there, as on some network file systems")
        if found != FORMAT:
            raise CofillError(f"{self.name}: written by another version of cofill (format {found}, not {FORMAT})")

    def close(self) -> None:
        if self._watching.acquire(timeout=_SECONDS_TO_CLOSE):  # a look at a database that hangs holds it
            self._forget_watch()
            self._watching.release()
        self._engine.dispose()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _note_full_disk(self, context: ExceptionContext) -> None:
        if is_disk_full(context.original_exception):
            if not self.disk_full:
                log.error("%s: the disk is full: writes fail until there is space", self.name)
            self.disk_full = True

    def free_bytes(self) -> int | None:
        """The space left for a file of SQLite; None elsewhere, where the database knows."""
        if not self._in_file:
            return None
        try:
            found = os.statvfs(Path(str(self._engine.url.database)).absolute().parent)
        except OSError:
            return None
        return found.f_bavail * found.f_frsize

    # Reading

    def counter(self) -> Counter:
        """The counter, read before every answer over a connection of its own."""
        with self._watching:
            try:
                if self._watch is None:
                    self._watch = self._reading.raw_connection()
                    if self._engine.dialect.name == "postgresql":
                        self._watch.driver_connection.autocommit = True  # type: ignore[union-attr]
                cursor = self._watch.cursor()
                cursor.execute(_COUNTER)
                (found,) = cursor.fetchall()  # to the end, so that nothing is held open
                return Counter(*found)
            except Exception:  # of either driver: asked again below, with the errors of SQLAlchemy
                self._forget_watch()
        return Counter(*self.read(select(_counter.c.change, _counter.c.generation, _counter.c.database)).pop())

    @cached_property
    def salt(self) -> str:
        """The key of hashed ids."""
        return str(self.read(select(_counter.c.salt)).pop()[0])

    def changes_since(self, change: int, learned: int = 0, until: int | None = None) -> Changes:
        """Everything written after a change. It may include changes newer than a counter read before.

        `learned` is the change up to which the model was trained on what is here: events until then are in it already,
        and so is who was forgotten. Of ratings the last one counts, so that it does not matter. With `until`, ratings
        and events after that change are left out.
        """
        return Changes(
            [
                LiveRating(*row)
                for row in self.read(
                    select(_ratings.c.user, _ratings.c.item, _ratings.c.rating, _ratings.c.time)
                    .where(_ratings.c.change > change, _ratings.c.change <= (_LAST if until is None else until))
                    .order_by(_ratings.c.change)
                )
            ],
            [
                LiveItem(item, title, _described(features), bool(available), until, added, bool(deleted))
                for item, title, features, available, until, added, deleted in self.read(
                    select(*(_items.c[name] for name in LiveItem._fields))
                    .where(_items.c.change > change)
                    .order_by(_items.c.change)
                )
            ],
            [
                LiveUser(user, _described(features))
                for user, features in self.read(
                    select(_users.c.user, _users.c.features).where(_users.c.change > change).order_by(_users.c.change)
                )
            ],
            self._interactions_since(change, learned, until),
            self.forgotten(max(change, learned)),
            self._merged_since(change),
            self._disliked_since(change, until),
        )

    def change_before(self, moment: float) -> int:
        """The last change before anything was done after a moment."""
        first = [
            self.read(select(func.min(_events.c.change)).where(_events.c.received > moment)).pop()[0],
            self.read(select(func.min(_ratings.c.change)).where(_ratings.c.time > moment)).pop()[0],
        ]
        return min([self.counter().change + 1, *(int(change) for change in first if change is not None)]) - 1

    def chosen_after(self, change: int, liked: float) -> list[tuple[str, str]]:
        """Users and the items that they did something with after a change, or rated at least so high."""
        of, rated = _events.c, _ratings.c
        pairs = union(
            select(of.user, of.item)
            .where(of.change > change)
            .group_by(of.user, of.item)
            .having(func.sum(of.weight) > 0),
            select(rated.user, rated.item).where(rated.change > change, rated.rating >= liked),
        )
        return [(user, item) for user, item in self.read(pairs)]

    def _merged_since(self, change: int) -> list[tuple[str, str]]:
        merged = select(_merges.c.user, _merges.c.into).where(_merges.c.change > change).order_by(_merges.c.user)
        return [(user, into) for user, into in self.read(merged)]

    def _touched_since(self, change: int) -> Subquery:
        """Pairs with an event after a change, and all pairs of users whom another became after it."""
        pairs = select(_events.c.user, _events.c.item)
        into = select(_merges.c.into).where(_merges.c.change > change)
        return union(pairs.where(_events.c.change > change), pairs.where(_events.c.user.in_(into))).subquery()

    def _disliked_since(self, change: int, until: int | None) -> list[tuple[str, str, bool]]:
        pair = _events.c.user, _events.c.item
        against = select(*pair).where(_events.c.weight < 0).distinct().subquery()
        sums = select(*pair, func.sum(_events.c.weight)).join(
            against, (against.c.user == _events.c.user) & (against.c.item == _events.c.item)
        )
        if until is not None:
            sums = sums.where(_events.c.change <= until)
        if change:
            touched = self._touched_since(change)
            sums = sums.join(touched, (touched.c.user == _events.c.user) & (touched.c.item == _events.c.item))
        return [(user, item, weight < -NO_WEIGHT) for user, item, weight in self.read(sums.group_by(*pair))]

    def _interactions_since(self, change: int, learned: int, until: int | None) -> list[LiveInteraction]:
        """The sums of all pairs with an event after a change."""
        last = func.max(_events.c.change)
        sums = select(_events.c.user, _events.c.item, func.sum(_events.c.weight), func.max(_events.c.time)).where(
            _events.c.weight != 0, _events.c.change > learned
        )
        if until is not None:
            sums = sums.where(_events.c.change <= until)
        if change > learned:
            touched = self._touched_since(change)
            sums = sums.join(touched, (touched.c.user == _events.c.user) & (touched.c.item == _events.c.item))
        pair = _events.c.user, _events.c.item
        return [LiveInteraction(*row) for row in self.read(sums.group_by(*pair).order_by(last, *pair))]

    def ratings_of(self, user: str) -> list[LiveRating]:
        """The live ratings of a user, newest first, including withdrawn ones."""
        of_user = select(_ratings.c.user, _ratings.c.item, _ratings.c.rating, _ratings.c.time).where(
            _ratings.c.user == now_called(user)
        )
        return [LiveRating(*row) for row in self.asked(of_user.order_by(_ratings.c.change.desc(), _ratings.c.item))]

    def rating_count(self) -> int:
        """The number of live ratings, without withdrawn ones."""
        return self.count(_ratings.c.rating)

    def count(self, column: Column[Any]) -> int:
        """How many values a column has; if they are many, at some time in the last minute: counting reads them all."""
        counted, since = self._counts.get(column, (0, 0.0))
        if counted < _MANY or time.monotonic() - since > _SECONDS_OF_A_COUNT:
            counted = int(self.asked(select(func.count(column))).pop()[0])
            self._counts[column] = counted, time.monotonic()
        return counted

    def forgotten(self, after: int = 0) -> Tombstones:
        """Who was deleted after a change, the longest ago first; they may have come back since."""
        gone = select(_forgotten.c.digest).where(_forgotten.c.change > after).order_by(_forgotten.c.change)
        return Tombstones(self.salt, [int(digest) for (digest,) in self.read(gone)])

    # Writing

    def put_ratings(self, user: str, ratings: Iterable[tuple[str, float | None] | tuple[str, float, float]]) -> None:
        """Write all ratings or none; None withdraws a rating. They are committed when this returns.

        A third number says when somebody rated; otherwise, and at most, that is now.
        """
        clock = Clock()
        told = [(item, rating, clock.of(user, *when)) for item, rating, *when in ratings]
        with self.writing() as (connection, change):
            user = self.merged(connection, [user]).get(user, user)
            rows = [
                {"user": user, "item": item, "rating": rating, "time": when, "change": change}
                for item, rating, when in sorted(told, key=lambda given: given[0])
            ]
            self.upsert(connection, _ratings, rows)

    def put_items(self, items: Iterable[ItemToKeep]) -> None:
        """Write all items or none. One that was deleted is there again, with what is said about it now alone."""
        told, now = list(items), time.time()
        with self.writing() as (connection, change):
            columns = _items.c.item, _items.c.deleted, _items.c.added
            some = select(*columns).where(_items.c.item.in_([one.item for one in told]))
            known = {item: (bool(gone), added) for item, gone, added in connection.execute(some)}
            rows = []
            for one in told:
                title, features = one.title, one.features
                deleted, added = known.get(one.item, (False, 0.0))
                if deleted:  # what was known before, in training too, is not to come back with it
                    title, features = title or "", features or {}
                row: dict[str, Any] = {"item": one.item, "change": change, "deleted": 0}
                row |= {} if title is None else {"title": title}
                row |= {} if features is None else {"features": json.dumps(features, allow_nan=False)}
                row |= {} if one.available is None else {"available": int(one.available)}
                if one.available or one.available_until is not None:
                    row["available_until"] = one.available_until
                described = title is not None or features is not None  # hidden or shown alone, it is no new one
                if one.added is not None or (described and (deleted or not added)):
                    row["added"] = now if one.added is None else one.added
                rows.append(row)
            self.upsert(connection, _items, rows)

    def delete_item(self, item: str) -> None:
        """Remove what was said about an item, and keep that it is deleted."""
        with self.writing() as (connection, change):
            nothing = {"title": None, "features": None, "available": 1, "available_until": None}
            self.upsert(connection, _items, [{"item": item, **nothing, "deleted": 1, "change": change}])

    def put_users(self, users: Iterable[tuple[str, Mapping[str, Any] | None]]) -> None:
        """Write all users or none; features of None leave the earlier ones unchanged."""
        told = list(users)
        with self.writing() as (connection, change):
            merged = self.merged(connection, [user for user, _ in told])
            rows = [
                {"user": merged.get(user, user), "change": change}
                | ({} if features is None else {"features": json.dumps(features, allow_nan=False)})
                for user, features in told
            ]
            self.upsert(connection, _users, rows)

    def merged(self, connection: Connection, users: Collection[str]) -> dict[str, str]:
        """Those of some users who became others, and whom."""
        found = select(_merges.c.user, _merges.c.into).where(_merges.c.user.in_(users))
        return {row[0]: row[1] for row in connection.execute(found)}

    def merge_users(self, user: str, into: str) -> str:
        """Make one user of two: all that the first one did is the second one's. The id under which they go on."""
        with self.writing() as (connection, change):
            known = self.merged(connection, [user, into])
            into = known.get(into, into)
            if known.get(user, into) != into:
                raise AlreadyMergedError(f"user {user!r} was merged into another user; give the next visitor a new id")
            if user in known or user == into:
                return into
            both = _ratings.c.user.in_([user, into])
            newest: dict[str, dict[str, Any]] = {}
            for row in connection.execute(select(_ratings).where(both)).mappings():
                before = newest.get(row["item"])
                if before is None or (row["time"], row["user"] == into) > (before["time"], before["user"] == into):
                    newest[row["item"]] = dict(row)
            features = dict(
                connection.execute(
                    select(_users.c.user, _users.c.features).where(_users.c.user.in_([user, into]))
                ).all()
            )
            for table in (_ratings, _users):
                connection.execute(delete(table).where(table.c.user == user))
            # All ratings are told again: what came of them depends on those of the training.
            self.upsert(connection, _ratings, [row | {"user": into, "change": change} for row in newest.values()])
            own = features.get(into) or features.get(user)
            self.upsert(connection, _users, [{"user": into, "features": own, "change": change}])
            # Events keep their changes, by which it is known what a model has learned.
            connection.execute(update(_events).where(_events.c.user == user).values(user=into))
            connection.execute(update(_merges).where(_merges.c.into == user).values(into=into, change=change))
            connection.execute(insert(_merges).values(user=user, into=into, change=change))
        return into

    def forget_user(self, user: str) -> None:
        """Remove ratings, events and description of a user. What is left are hashes of their id and of their events."""
        with self.writing() as (connection, change):
            user = self.merged(connection, [user]).get(user, user)
            earlier = [id for (id,) in connection.execute(select(_merges.c.user).where(_merges.c.into == user))]
            connection.execute(delete(_merges).where(_merges.c.into == user))
            for table in (_ratings, _users):
                connection.execute(delete(table).where(table.c.user == user))
            theirs = _events.c.user == user
            connection.execute(delete(_events).where(theirs, _events.c.id.startswith(OWN)))
            nothing = {"user": "", "item": "", "kind": FORGOTTEN, "weight": 0.0, "model_version": None}
            connection.execute(update(_events).where(theirs).values(nothing))
            row = {"time": time.time(), "change": change}
            self.upsert(
                connection, _forgotten, [{"digest": digest_of(id, self.salt), **row} for id in (user, *earlier)]
            )
        self._in_log = self._in_file
        self.empty_log()

    def empty_log(self) -> None:
        """Empty SQLite's write-ahead log if it may have what was deleted in the tables; again if others read it."""
        if not self._in_log:
            return
        with self._reading.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout=100")  # writers wait as long
            busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
            connection.exec_driver_sql(f"PRAGMA busy_timeout={1000 * _SECONDS_FOR_A_LOCK}")
        self._in_log = bool(busy)

    def new_user(self, candidates: Callable[[], str], features: Mapping[str, Any] | None) -> str:
        """Create a user under the first candidate id that is not in use; returns that id."""
        with self.writing() as (connection, change):  # whoever else makes a user waits here
            user = candidates()
            while self._taken(connection, user):
                user = candidates()
            described = None if features is None else json.dumps(features, allow_nan=False)
            connection.execute(insert(_users).values(user=user, features=described, change=change))
        return user

    def next_generation(self) -> int:
        """Tell every process that the model was replaced."""
        with self._transaction() as connection:
            advanced = update(_counter).values(generation=_counter.c.generation + 1)
            return int(connection.execute(advanced.returning(_counter.c.generation)).scalar_one())

    def renew(self, database: str) -> None:
        """Give the database another identity, if it still has that one: it was restored, and all read it again."""
        with self._transaction() as connection:
            connection.execute(update(_counter).where(_counter.c.database == database).values(database=token_hex(16)))

    def begin_export(self, until: int | None = None) -> int:
        """The change up to which an export goes. What came before is never added up with what comes after."""
        with self.tidying() as connection:
            change = int(connection.execute(select(_counter.c.change)).scalar_one()) if until is None else until
            connection.execute(self.inserting(_exports).values(change=change).on_conflict_do_nothing())
        return change

    # How

    @property
    def _in_file(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    def _check_there(self) -> None:
        if self.away:
            raise DatabaseTimeoutError(f"{self.name}: did not answer a moment ago")

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        self._check_there()
        with self._engine.begin() as connection:
            yield connection
        if self.disk_full:
            self.disk_full = False
            log.warning("%s: there is space on the disk again; writes are taken", self.name)

    @contextmanager
    def writing(self) -> Iterator[tuple[Connection, int]]:
        """A transaction and the number of its change; other writers wait until it ends."""
        with self._transaction() as connection:
            advanced = update(_counter).values(change=_counter.c.change + 1)
            yield connection, int(connection.execute(advanced.returning(_counter.c.change)).scalar_one())
        self.written.set()

    @contextmanager
    def tidying(self) -> Iterator[Connection]:
        """A transaction that changes nothing that anybody follows; writers wait until it ends."""
        with self._transaction() as connection:
            connection.execute(update(_counter).values(change=_counter.c.change))
            yield connection

    def _keep_private(self) -> None:
        """SQLite gives the files beside a database (-wal, -shm) the mode of the database itself."""
        path = Path(str(self._engine.url.database))
        with suppress(OSError):  # SQLite itself says what is wrong with the place
            opened = [
                make_private(path),
                *(make_private(beside) for ending in ("-wal", "-shm") if (beside := Path(f"{path}{ending}")).exists()),
            ]
            if any(opened):
                log.warning("%s: all users of this machine could read the ratings there; that is mended", path)

    def _forget_watch(self) -> None:
        if self._watch is not None:
            self._watch.invalidate()
            self._watch = None

    def asked(self, query: Any) -> list[Any]:
        """What a request asks for: while the database is away, it shall not take the threads of the others."""
        self._check_there()
        return self.read(query)

    def read(self, query: Any) -> list[Any]:
        """All rows that a query finds, also to notice that the database is back."""
        try:
            with self._reading.connect() as connection:
                return list(connection.execute(query))
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        with self._reading.connect() as connection:  # the database was restarted; all connections are made anew
            return list(connection.execute(query))

    def upsert(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows in the place of those with the same keys; columns that are not given stay as they were."""
        keys = [column.name for column in table.primary_key]
        alike: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for row in rows:
            alike.setdefault(tuple(row), []).append(row)
        for names, some in alike.items():
            adding = self.inserting(table)
            changed = {name: adding.excluded[name] for name in names if name not in keys}
            connection.execute(adding.on_conflict_do_update(index_elements=keys, set_=changed), some)

    def _taken(self, connection: Connection, user: str) -> bool:
        described = select(_users.c.user).where(_users.c.user == user)
        did = (select(table.c.user).where(table.c.user == user).limit(1) for table in (_ratings, _events, _merges))
        return any(connection.execute(query).first() is not None for query in (described, *did))


def now_called(user: str) -> ColumnElement[str]:
    """The id of a user, or of the user that they became."""
    return func.coalesce(select(_merges.c.into).where(_merges.c.user == user).scalar_subquery(), user)


def _described(features: str | None) -> dict[str, Any] | None:
    try:
        described = None if features is None else json.loads(features)
    except ValueError:
        described = features
    if described is None or isinstance(described, dict):
        return described
    log.error("a description in the database is damaged, and left out")
    return None


# Where it is, and how it is reached: SQLite made durable, or PostgreSQL


def url_of(database: str | None, model: Path) -> URL:
    """The URL of the given database, or of the default file beside the model."""
    if database is not None:
        return database_url(database)
    return URL.create("sqlite", database=str(live_file(model)))


def database_url(text: str) -> URL:
    """The URL of a database that can hold live ratings."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise SettingsError(
            "the database's URL is none; write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
        ) from None
    if url.drivername == "sqlite":
        if not url.database or url.database == ":memory:":
            raise SettingsError("live ratings need a file to survive in; write sqlite:///FILE")
        return url
    if url.drivername in _POSTGRESQL:
        require_psycopg()
        return url.set(drivername="postgresql+psycopg")
    raise SettingsError(
        f"live ratings cannot be kept in {url.drivername!r}; write sqlite:///FILE or "
        "postgresql://USER:PASSWORD@HOST/NAME"
    )


def shown_url(url: URL) -> str:
    """The URL without passwords."""
    return url.difference_update_query(_SECRETS).render_as_string(hide_password=True)


def open_engine(url: URL) -> Engine:
    """A database engine that connects lazily; on SQLite, a transaction takes the write lock when it begins."""
    if url.drivername == "sqlite":
        engine = create_engine(
            url, pool_size=_CONNECTIONS, connect_args={"timeout": _SECONDS_FOR_A_LOCK}, hide_parameters=True
        )
        event.listen(engine, "connect", _make_durable)
        event.listen(engine, "begin", _begin_to_write)
        return engine
    limits = f"-c lock_timeout={_SECONDS_FOR_A_LOCK}s -c statement_timeout={2 * _SECONDS_FOR_A_LOCK}s"
    return create_engine(
        url,
        pool_size=_CONNECTIONS,
        hide_parameters=True,  # in logs of errors: what people rated is nobody's business there
        pool_pre_ping=True,  # a server that was restarted is noticed before a write, not by it
        connect_args={
            "connect_timeout": _SECONDS_TO_CONNECT,
            "options": limits,
            "tcp_user_timeout": 2000 * _SECONDS_FOR_A_LOCK,  # milliseconds: a machine that is gone says nothing
        },
    )


def _make_durable(connection: Any, _: object) -> None:
    assert isinstance(connection, sqlite3.Connection)
    connection.isolation_level = None  # transactions are begun here, not by the driver
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")  # a commit that was answered is on the disk
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA secure_delete=ON")  # what is deleted is overwritten: people may ask for it


def _begin_to_write(connection: Connection) -> None:
    # At once, not at the first write: two that have read the same number would otherwise both count on from it.
    # In autocommit, where only reads are done, every statement is its own transaction.
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error of SQLAlchemy, or of a driver, says so."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(cause, "sqlstate", None) == _POSTGRESQL_IS_FULL
