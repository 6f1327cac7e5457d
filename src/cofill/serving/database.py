"""Live ratings, and descriptions of users and items, in a database that several processes share.

A row is the present state of a pair, an item or a user, with the number of the change that brought it there. The
numbers come from one row that a writer locks until it commits, so their order is that of the commits: whoever has
taken in everything up to a number finds the rest by asking for greater ones. States that were overwritten are gone;
nothing grows with time. A rating that was taken back is a row without a rating: the model may have learned it.
"""

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import PoolProxiedConnection, StaticPool

from cofill.errors import CofillError, DataError, SettingsError
from cofill.files import make_private
from cofill.serving.disk import Disk
from cofill.serving.settings import live_file, require_psycopg
from cofill.serving.wakeup import watch_writes

log = logging.getLogger("cofill.serving")

FORMAT = 1
_COUNTER = "SELECT change, generation FROM cofill_counter"
_LOCK = 0x636F66696C6C  # of PostgreSQL, while tables are made
_SECONDS_TO_CONNECT = 5
_SECONDS_FOR_A_LOCK = 10  # another writer may hold the database for so long
_CONNECTIONS = 8
_IN_MEMORY = ":memory:"
_SECRETS = ("password", "sslpassword")  # that may stand in the query of a URL
_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")

_tables = MetaData()
_counter = Table(
    "cofill_counter",
    _tables,
    Column("id", Integer, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("change", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
)
_ratings = Table(
    "cofill_ratings",
    _tables,
    Column("user", Text, primary_key=True),
    Column("item", Text, primary_key=True),
    Column("rating", Double),
    Column("time", Double, nullable=False),
    Column("change", BigInteger, nullable=False),
    Index("cofill_ratings_change", "change"),
)
_items = Table(
    "cofill_items",
    _tables,
    Column("item", Text, primary_key=True),
    Column("title", Text),
    Column("features", Text),
    Column("change", BigInteger, nullable=False),
    Index("cofill_items_change", "change"),
)
_users = Table(
    "cofill_users",
    _tables,
    Column("user", Text, primary_key=True),
    Column("features", Text),
    Column("change", BigInteger, nullable=False),
    Index("cofill_users_change", "change"),
)


class Counter(NamedTuple):
    """How often something was written, and how often the model was replaced."""

    change: int
    generation: int


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


class LiveUser(NamedTuple):
    user: str
    features: dict[str, Any] | None


class Changes(NamedTuple):
    """What was written, in the order of the commits."""

    ratings: list[LiveRating]
    items: list[LiveItem]
    users: list[LiveUser]


class Store:
    """The database. Any thread may use it."""

    read_only = False
    """Whether it is none, and nothing is kept."""

    def __init__(self, url: URL) -> None:
        self.name = shown_url(url)
        self._engine = open_engine(url)
        self.disk = Disk(self._engine, self.name)
        self.written = watch_writes(self._engine)
        self._reading = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._watching = threading.Lock()
        self._watch: PoolProxiedConnection | None = None
        self._insert = postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert

    def open(self, *, make: bool = True) -> None:
        """Open a database, and create its tables or refuse one without; a `CofillError` if it cannot be used."""
        if make and self._engine.dialect.name == "sqlite" and self._engine.url.database != _IN_MEMORY:
            self._keep_private()
        try:
            with self._engine.begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
                if make:
                    _tables.create_all(connection)
                elif not inspect(connection).has_table(_counter.name):
                    raise DataError(f"{self.name}: no live ratings are kept there; check --database")
                if connection.execute(select(_counter.c.format)).first() is None:
                    connection.execute(insert(_counter).values(id=1, format=FORMAT, change=0, generation=0))
                found = connection.execute(select(_counter.c.format)).scalar_one()
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            reason = " ".join(str(cause).split())
            raise CofillError(f"{self.name}: live ratings cannot be kept there ({reason}); check --database") from None
        if found > FORMAT:
            raise CofillError(f"{self.name}: written by a newer cofill (format {found}); upgrade cofill")

    def close(self) -> None:
        with self._watching:
            self._forget_watch()
        self._engine.dispose()

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
        return Counter(*self._read(select(_counter.c.change, _counter.c.generation)).pop())

    def changes_since(self, change: int) -> Changes:
        """Everything written after a change. It may include changes newer than a counter read before."""
        return Changes(
            [
                LiveRating(*row)
                for row in self._read(
                    select(_ratings.c.user, _ratings.c.item, _ratings.c.rating, _ratings.c.time)
                    .where(_ratings.c.change > change)
                    .order_by(_ratings.c.change)
                )
            ],
            [
                LiveItem(item, title, _described(features))
                for item, title, features in self._read(
                    select(_items.c.item, _items.c.title, _items.c.features)
                    .where(_items.c.change > change)
                    .order_by(_items.c.change)
                )
            ],
            [
                LiveUser(user, _described(features))
                for user, features in self._read(
                    select(_users.c.user, _users.c.features).where(_users.c.change > change).order_by(_users.c.change)
                )
            ],
        )

    def ratings_of(self, user: str) -> list[LiveRating]:
        """The live ratings of a user, newest first, including withdrawn ones."""
        of_user = select(_ratings.c.user, _ratings.c.item, _ratings.c.rating, _ratings.c.time).where(
            _ratings.c.user == user
        )
        return [LiveRating(*row) for row in self._read(of_user.order_by(_ratings.c.change.desc(), _ratings.c.item))]

    def rating_count(self) -> int:
        """The number of live ratings, without withdrawn ones."""
        return int(self._read(select(func.count(_ratings.c.rating))).pop()[0])

    # Writing

    def put_ratings(self, user: str, ratings: Iterable[tuple[str, float | None]]) -> None:
        """Write all ratings or none; None withdraws a rating. They are committed when this returns."""
        now = time.time()
        with self._engine.begin() as connection:
            change = self._next_change(connection)
            rows = [
                {"user": user, "item": item, "rating": rating, "time": now, "change": change}
                for item, rating in sorted(ratings)
            ]
            self._upsert(connection, _ratings, rows)

    def put_item(self, item: str, title: str | None, features: Mapping[str, Any] | None) -> None:
        """Write an item; a title or features of None leave the earlier ones unchanged."""
        with self._engine.begin() as connection:
            row = {"item": item, "change": self._next_change(connection)}
            row |= {} if title is None else {"title": title}
            row |= {} if features is None else {"features": json.dumps(features, allow_nan=False)}
            self._upsert(connection, _items, [row])

    def put_user(self, user: str, features: Mapping[str, Any] | None) -> None:
        """Write a user; features of None leave the earlier ones unchanged."""
        with self._engine.begin() as connection:
            row = {"user": user, "change": self._next_change(connection)}
            row |= {} if features is None else {"features": json.dumps(features, allow_nan=False)}
            self._upsert(connection, _users, [row])

    def new_user(self, candidates: Callable[[], str], features: Mapping[str, Any] | None) -> str:
        """Create a user under the first candidate id that is not in use; returns that id."""
        with self._engine.begin() as connection:
            change = self._next_change(connection)  # whoever else makes a user waits here
            user = candidates()
            while self._taken(connection, user):
                user = candidates()
            described = None if features is None else json.dumps(features, allow_nan=False)
            connection.execute(insert(_users).values(user=user, features=described, change=change))
        return user

    def touch(self) -> None:
        """Write what is there already, to see whether anything can be written."""
        with self._engine.begin() as connection:
            connection.execute(update(_counter).values(format=_counter.c.format))

    def next_generation(self) -> int:
        """Tell every process that the model was replaced."""
        with self._engine.begin() as connection:
            advanced = update(_counter).values(generation=_counter.c.generation + 1)
            return int(connection.execute(advanced.returning(_counter.c.generation)).scalar_one())

    # How

    def _keep_private(self) -> None:
        """SQLite gives the files beside a database (-wal, -shm) the mode of the database itself."""
        path = Path(str(self._engine.url.database))
        with suppress(OSError):  # SQLite itself says what is wrong with the place
            opened = [
                make_private(path),
                *(make_private(beside) for ending in ("-wal", "-shm") if (beside := Path(f"{path}{ending}")).exists()),
            ]
            if any(opened):
                log.warning("%s: everybody on this machine could read people's ratings there; that is mended", path)

    def _forget_watch(self) -> None:
        if self._watch is not None:
            self._watch.invalidate()
            self._watch = None

    def _read(self, query: Any) -> list[Any]:
        try:
            with self._reading.connect() as connection:
                return list(connection.execute(query))
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        with self._reading.connect() as connection:  # the database was restarted; all connections are made anew
            return list(connection.execute(query))

    def _next_change(self, connection: Connection) -> int:
        """The change number of this transaction; the counter row stays locked until it ends."""
        advanced = update(_counter).values(change=_counter.c.change + 1)
        return int(connection.execute(advanced.returning(_counter.c.change)).scalar_one())

    def _upsert(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        adding = self._insert(table)
        keys = [column.name for column in table.primary_key]
        changed = {name: adding.excluded[name] for name in rows[0] if name not in keys}
        connection.execute(adding.on_conflict_do_update(index_elements=keys, set_=changed), rows)

    def _taken(self, connection: Connection, user: str) -> bool:
        described = select(_users.c.user).where(_users.c.user == user)
        rated = select(_ratings.c.user).where(_ratings.c.user == user).limit(1)
        return any(connection.execute(query).first() is not None for query in (described, rated))


def _described(features: str | None) -> dict[str, Any] | None:
    return None if features is None else json.loads(features)


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
        if not url.database or url.database == _IN_MEMORY:
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
    if url.database == _IN_MEMORY:
        return create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
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


def _begin_to_write(connection: Connection) -> None:
    # At once, not at the first write: two that have read the same number would otherwise both count on from it.
    # In autocommit, where only reads are done, every statement is its own transaction.
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
