"""The tables of the database of live data, and how one of an earlier format becomes one of this.

A row of ratings, items and users is the present state of a pair, an item or a user. A row of events is one event: its
id keeps it from being counted twice, and its weight adds to those of the same user and item.
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
    text,
    update,
)
from sqlalchemy.schema import CreateColumn

FORMAT = 2
"""1: ratings, items and users. 2: also events, hidden and deleted items, and people who were forgotten."""

ADDED_UP = ""
"""The kind of a row that stands for several events, whose own rows are gone."""

tables = MetaData()
counter = Table(
    "cofill_counter",
    tables,
    Column("id", Integer, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("change", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("database", Text, nullable=False, server_default=""),  # tells this database from others
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
)
items = Table(
    "cofill_items",
    tables,
    Column("item", Text, primary_key=True),
    Column("title", Text),
    Column("features", Text),
    Column("available", Integer, nullable=False, server_default="1"),
    Column("deleted", Integer, nullable=False, server_default="0"),
    Column("change", BigInteger, nullable=False),
    Index("cofill_items_change", "change"),
)
users = Table(
    "cofill_users",
    tables,
    Column("user", Text, primary_key=True),
    Column("features", Text),
    Column("forgotten", BigInteger),  # the change that removed all that was known of them until then
    Column("change", BigInteger, nullable=False),
    Index("cofill_users_change", "change"),
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
)
click_through = Table(
    "cofill_click_through",
    tables,
    Column("model_version", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("events", BigInteger, nullable=False),
)


def make_tables(connection: Connection) -> int:
    """Make what is missing, and bring an earlier format up to this one, in one transaction; the format found before.

    A newer format is left as it is.
    """
    if inspect(connection).has_table(counter.name):
        found = connection.execute(text(f"SELECT format FROM {counter.name}")).scalar()
        if found is not None and int(found) > FORMAT:
            return int(found)
        _add_columns(connection)
    tables.create_all(connection)
    row = connection.execute(select(counter.c.format, counter.c.database)).first()
    if row is None:
        connection.execute(insert(counter).values(id=1, format=FORMAT, change=0, generation=0, database=token_hex(16)))
        return FORMAT
    connection.execute(update(counter).values(format=FORMAT, database=row.database or token_hex(16)))
    return FORMAT


def _add_columns(connection: Connection) -> None:
    """Of tables that there are already: the columns that have come since. All may be empty or have a default."""
    inspected = inspect(connection)
    for table in tables.sorted_tables:
        if not inspected.has_table(table.name):
            continue
        there = {column["name"] for column in inspected.get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                said = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {said}"))
