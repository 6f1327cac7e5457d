"""The tables of the database of live data.

A row of ratings, items and users is the present state of a pair, an item or a user. A row of events is one event: its
id, hashed, keeps it from being counted twice, and its weight adds to those of the same user and item.
"""

from secrets import token_hex

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    insert,
    inspect,
    select,
)

FORMAT = 4

ADDED_UP = ""
"""The kind of a row that stands for several events, whose own rows are gone."""
WITHDRAWN = "(withdrawn)"
"""The kind of a row that takes off what an event that was withdrawn had counted, and of an impression that was."""
FORGOTTEN = "(forgotten)"
"""The kind of an event of a user who was deleted: no more than its hashed id, so that it is not taken again."""

tables = MetaData()
counter = Table(
    "cofill_counter",
    tables,
    Column("id", Integer, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("change", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("database", Text, nullable=False),  # tells this database from others, and from what it was before a restore
    Column("salt", Text, nullable=False),  # the key of hashed ids
    Column("tidied", Double, nullable=False),  # when old events were last added up
)
ratings = Table(
    "cofill_ratings",
    tables,
    Column("user", Text, primary_key=True),
    Column("item", Text, primary_key=True),
    Column("rating", Double),
    Column("time", Double, nullable=False),
    Column("change", BigInteger, nullable=False),
    Index("cofill_ratings_change", "change"),
    Index("cofill_ratings_time", "time"),
)
items = Table(
    "cofill_items",
    tables,
    Column("item", Text, primary_key=True),
    Column("title", Text),
    Column("features", Text),
    Column("available", Integer, nullable=False, server_default="1"),
    Column("available_until", Double),
    Column("added", Double, nullable=False, server_default="0"),  # since when it is in the catalogue
    Column("deleted", Integer, nullable=False, server_default="0"),
    Column("change", BigInteger, nullable=False),
    Index("cofill_items_change", "change"),
)
users = Table(
    "cofill_users",
    tables,
    Column("user", Text, primary_key=True),
    Column("features", Text),
    Column("change", BigInteger, nullable=False),
    Index("cofill_users_change", "change"),
)
forgotten = Table(
    "cofill_forgotten",
    tables,
    Column("digest", BigInteger, primary_key=True, autoincrement=False),  # of a user who was deleted
    Column("time", Double, nullable=False),
    Column("change", BigInteger, nullable=False),
    Index("cofill_forgotten_change", "change"),
)
merges = Table(
    "cofill_merges",
    tables,
    Column("user", Text, primary_key=True),  # an earlier id, under which nothing is kept any more
    Column("into", Text, nullable=False),
    Column("change", BigInteger, nullable=False),
    Index("cofill_merges_change", "change"),
    Index("cofill_merges_into", "into"),
)
exports = Table(
    "cofill_exports",
    tables,
    Column("change", BigInteger, primary_key=True, autoincrement=False),  # up to which an export went
)
events = Table(
    "cofill_events",
    tables,
    Column("id", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("item", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("weight", Double, nullable=False),
    Column("time", Double, nullable=False),  # when it happened, as the caller says
    Column("received", Double, nullable=False),  # when it came
    Column("model_version", Text),
    Column("change", BigInteger, nullable=False),
    Index("cofill_events_change", "change"),
    Index("cofill_events_pair", "user", "item"),
    Index("cofill_events_received", "received"),
    Index("cofill_events_time", "time"),
)
Index(
    "cofill_events_against",
    events.c.user,
    events.c.item,
    sqlite_where=events.c.weight < 0,
    postgresql_where=events.c.weight < 0,
)
click_through = Table(
    "cofill_click_through",
    tables,
    Column("model_version", Text, primary_key=True),
    Column("day", Text, primary_key=True),  # such as 2026-01-31, in UTC, when it came; of all earlier days: empty
    Column("kind", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
)
versions = Table(
    "cofill_versions",
    tables,
    Column("model_version", Text, primary_key=True),  # of a model that is or was served
    Column("served", Double, nullable=False),  # since when, the last time
)


def make_tables(connection: Connection) -> int:
    """Make the tables if they are missing, in one transaction; the format of those that are there."""
    if inspect(connection).has_table(counter.name):
        return int(connection.execute(select(counter.c.format)).scalar_one())
    tables.create_all(connection)
    first = {"id": 1, "format": FORMAT, "change": 0, "generation": 0, "tidied": 0.0}
    connection.execute(insert(counter).values(**first, database=token_hex(16), salt=token_hex(16)))
    return FORMAT
