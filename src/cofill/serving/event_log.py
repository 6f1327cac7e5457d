"""Events in the database: each counted once, what was shown remembered for a while, and old ones added up.

An event with an id of the caller's is written once, however often it is sent. Nothing grows with time: what was shown
is deleted after some days, and the events of a user and an item become one row after some days, which weighs as much
as they did. From then on their ids are no longer known.
"""

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, tuple_
from sqlalchemy.exc import SQLAlchemyError

from cofill.serving.database import Store
from cofill.serving.event_kinds import KEEP_EVENTS_DAYS, KEEP_SHOWN_DAYS, SHOWN
from cofill.serving.tables import ADDED_UP
from cofill.serving.tables import click_through as _click_through
from cofill.serving.tables import events as _events

log = logging.getLogger("cofill.serving")

OTHER = "other"
"""What versions and kinds beyond those that are told apart are counted as."""
SECONDS_A_DAY = 86_400.0
_MOST_VERSIONS = 100  # of models whose click-through is told apart
_PAIRS_AT_ONCE = 500  # that are added up in one go
_SECONDS_BETWEEN_TIDYING = 3600.0


class Event(NamedTuple):
    """What somebody did with an item, or that it was shown to them."""

    user: str
    item: str
    kind: str
    weight: float
    """0 for what was shown."""
    time: float | None = None
    """When, in seconds; None: now."""
    id: str | None = None
    """The caller's own; without one it is counted whenever it is sent."""
    model_version: str | None = None
    """Of the list that it was shown in, if the caller says."""


class Retention(NamedTuple):
    """For how many days rows are kept."""

    shown: float = KEEP_SHOWN_DAYS
    events: float = KEEP_EVENTS_DAYS


class EventLog:
    """The events of a store. Any thread may use it."""

    def __init__(self, store: Store, kinds: Collection[str] = (), keep: Retention = Retention()) -> None:  # noqa: B008
        """`kinds` are those whose click-through is told apart."""
        self._store = store
        self._kinds = frozenset(kinds) | {SHOWN}
        self._keep = keep
        self._tidied = 0.0

    # Writing

    def put(self, events: Sequence[Event]) -> int:
        """Write all events or none, each id once; how many were new. They are committed when this returns."""
        now = time.time()
        rows = {_id(event.id): _row(event, now) for event in reversed(events)}  # of the same id the first one counts
        with self._store.writing() as (connection, change):
            known = select(_events.c.id).where(_events.c.id.in_(list(rows)))
            for (id,) in connection.execute(known).all():
                del rows[id]
            new = [row | {"id": id, "change": change} for id, row in reversed(rows.items())]
            if new:
                connection.execute(insert(_events), new)
                self._count_click_through(connection, new)
        self._tidy_now_and_then(now)
        return len(new)

    def _count_click_through(self, connection: Connection, new: Sequence[Mapping[str, Any]]) -> None:
        """Count what was shown, and what people did with what was shown to them, by the version of the model."""
        shown_in = _versions_shown(connection, [row for row in new if row["kind"] != SHOWN])
        counts: Counter[tuple[str, str]] = Counter()
        for row in new:
            given: str | None = row["model_version"]
            if row["kind"] == SHOWN:
                version = given or OTHER
            else:
                versions = shown_in.get((row["user"], row["item"]), [])
                if not versions or (given is not None and given not in versions):
                    continue  # not a list's doing
                version = given or versions[0]
            counts[version, row["kind"] if row["kind"] in self._kinds else OTHER] += 1
        known = {version for (version,) in connection.execute(select(_click_through.c.model_version).distinct())}
        for (version, kind), events in counts.items():
            if version not in known and len(known) >= _MOST_VERSIONS:
                version = OTHER
            known.add(version)
            adding = self._store.inserting(_click_through)
            added = adding.on_conflict_do_update(
                index_elements=["model_version", "kind"],
                set_={"events": _click_through.c.events + adding.excluded.events},
            )
            connection.execute(added, {"model_version": version, "kind": kind, "events": events})

    # Reading

    def shown_to(self, user: str) -> list[str]:
        """The items that somebody was shown, as long as that is remembered."""
        since = time.time() - self._keep.shown * SECONDS_A_DAY
        shown = select(_events.c.item).where(
            _events.c.user == user, _events.c.kind == SHOWN, _events.c.received > since
        )
        return [str(item) for (item,) in self._store.read(shown.distinct())]

    def count(self) -> int:
        """How many rows of events there are, what was shown included."""
        return int(self._store.read(select(func.count()).select_from(_events)).pop()[0])

    def click_through(self) -> list[tuple[str, str, int]]:
        """The versions of models, the kinds of events, and how many there were of them since the database was made."""
        counted = select(_click_through.c.model_version, _click_through.c.kind, _click_through.c.events)
        return [(version, kind, int(events)) for version, kind, events in self._store.read(counted)]

    # Tidying

    def _tidy_now_and_then(self, now: float) -> None:
        if now - self._tidied > _SECONDS_BETWEEN_TIDYING:
            self._tidied = now
            try:
                self.tidy(now)
            except SQLAlchemyError as error:  # what was written is written; the next one tidies up
                log.warning("old events could not be tidied up: %s", str(error).partition("\n")[0])

    def tidy(self, now: float | None = None) -> None:
        """Delete what was shown long ago, and add up old events; nothing that is followed changes by that."""
        now = time.time() if now is None else now
        with self._store.tidying() as connection:
            old = _events.c.received <= now - self._keep.shown * SECONDS_A_DAY
            connection.execute(delete(_events).where(_events.c.kind == SHOWN, old))
        while self._added_up(now - self._keep.events * SECONDS_A_DAY):
            pass

    def _added_up(self, before: float) -> bool:
        """Make one row of the old events of each of some pairs; False if there are none."""
        old = (_events.c.received <= before) & (_events.c.kind != SHOWN)
        pair = tuple_(_events.c.user, _events.c.item)
        with self._store.tidying() as connection:
            single = select(_events.c.user, _events.c.item).where(old, _events.c.kind != ADDED_UP).distinct()
            pairs = [tuple(row) for row in connection.execute(single.limit(_PAIRS_AT_ONCE))]
            if not pairs:
                return False
            latest = (func.max(column) for column in (_events.c.time, _events.c.received, _events.c.change))
            sums = select(_events.c.user, _events.c.item, func.sum(_events.c.weight), *latest).where(
                old, pair.in_(pairs)
            )
            names = ("user", "item", "weight", "time", "received", "change")
            found = connection.execute(sums.group_by(_events.c.user, _events.c.item)).all()
            rows = [dict(zip(names, row, strict=True)) | {"id": _id(None), "kind": ADDED_UP} for row in found]
            connection.execute(delete(_events).where(old, pair.in_(pairs)))
            connection.execute(insert(_events), rows)
            return True


def _id(own: str | None) -> str:
    """An id in the database: the caller's, or one of ours, which never meet."""
    return f"own:{token_hex(16)}" if own is None else f"id:{own}"


def _row(event: Event, now: float) -> dict[str, Any]:
    return {
        "user": event.user,
        "item": event.item,
        "kind": event.kind,
        "weight": event.weight,
        "time": now if event.time is None else event.time,
        "received": now,
        "model_version": event.model_version,
    }


def _versions_shown(connection: Connection, done: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """In which lists the items of events were shown to their users, the latest first."""
    pairs = sorted({(row["user"], row["item"]) for row in done})
    if not pairs:
        return {}
    shown = select(_events.c.user, _events.c.item, _events.c.model_version).where(
        _events.c.kind == SHOWN, tuple_(_events.c.user, _events.c.item).in_(pairs)
    )
    found: dict[tuple[str, str], list[str]] = {}
    for user, item, version in connection.execute(shown.order_by(_events.c.change.desc())):
        found.setdefault((user, item), []).append(version or OTHER)
    return found
