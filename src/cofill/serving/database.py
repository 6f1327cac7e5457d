"""A connection to the database of live ratings: SQLite made durable, or PostgreSQL."""

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from cofill.errors import SettingsError
from cofill.serving.requirements import require_psycopg
from cofill.serving.settings import live_file

_SECONDS_TO_CONNECT = 5
_SECONDS_FOR_A_LOCK = 10  # another writer may hold the database for so long
_CONNECTIONS = 8
_SECRETS = ("password", "sslpassword")  # that may stand in the query of a URL
_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")


def url_of(database: str | None, model: Path) -> URL:
    """Of the database that was named, or else of the file beside the model."""
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
    """Without its passwords."""
    return url.difference_update_query(_SECRETS).render_as_string(hide_password=True)


def open_engine(url: URL) -> Engine:
    """Connections to a database, made when they are needed; a transaction that begins is going to write."""
    if url.drivername == "sqlite":
        engine = create_engine(url, pool_size=_CONNECTIONS, connect_args={"timeout": _SECONDS_FOR_A_LOCK})
        event.listen(engine, "connect", _make_durable)
        event.listen(engine, "begin", _begin_to_write)
        return engine
    limits = f"-c lock_timeout={_SECONDS_FOR_A_LOCK}s -c statement_timeout={2 * _SECONDS_FOR_A_LOCK}s"
    return create_engine(
        url,
        pool_size=_CONNECTIONS,
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
