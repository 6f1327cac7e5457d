"""Events in the database: each counted once, what was shown remembered for a while, and old ones added up.

An event with an id of the caller's is written once, however often it is sent. Nothing grows with time: what was shown
is deleted after some days, and the events of a user and an item become one row after some days, which weighs as much
as they did. From then on their ids are no longer known. Likewise the click-through of days becomes a sum. What came
before an export and what came after stay apart: a model may have learned the former. A row without another event is
deleted after two years; a process that has taken it in goes by it until it reads a model again.
"""

import math
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from secrets import token_hex
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, tuple_, union, update

from cofill.serving.live.store import OWN, Clock, Store, now_called
from cofill.serving.live.tables import ADDED_UP, FORGOTTEN, WITHDRAWN
from cofill.serving.live.tables import click_through as _click_through
from cofill.serving.live.tables import counter as _counter
from cofill.serving.live.tables import events as _events
from cofill.serving.live.tables import exports as _exports
from cofill.serving.live.tables import forgotten as _forgotten
from cofill.serving.live.tables import ratings as _ratings
from cofill.serving.live.tables import versions as _versions
from cofill.serving.live.tombstones import digest_of
from cofill.serving.settings import FORGET_EVENTS_DAYS, KEEP_EVENTS_DAYS, KEEP_SHOWN_DAYS, SHOWN

OTHER = "other"
"""What versions that were never served, and kinds beyond those that are told apart, are counted as."""
SECONDS_A_DAY = 86_400.0
_EARLIER = ""  # the day of click-through whose own days are gone; it comes before all of them
_MOST_VERSIONS = 100  # of models whose click-through is kept; the one that was served the longest ago goes first
_MOST_PERIODS = 20  # whose popular items are kept
_TIMES_AS_LONG = 10  # as they take to be counted, they are kept
_PAIRS_AT_ONCE = 500  # that are added up in one go
_SECONDS_BETWEEN_TIDYING = 3600.0  # by whichever process sees first that it is time
_SECONDS_BETWEEN_LOOKS = 60.0  # of each process, whether it is


class Event(NamedTuple):
    """What somebody did with an item, or that it was shown to them."""

    user: str
    item: str
    kind: str
    weight: float
    """0 for what was shown."""
    time: float | None = None
    """When, in seconds; None, and what has not come yet: now."""
    id: str | None = None
    """The caller's own; without one it is counted whenever it is sent."""
    model_version: str | None = None
    """Of the list that it was shown in, if the caller says."""


class Received(NamedTuple):
    """An event as it was written."""

    user: str
    item: str
    kind: str
    weight: float
    time: float
    received: float
    model_version: str | None


class Retention(NamedTuple):
    """For how many days rows are kept."""

    shown: float = KEEP_SHOWN_DAYS
    events: float = KEEP_EVENTS_DAYS
    """One by one; then they are added up."""
    sums: float = FORGET_EVENTS_DAYS


class EventLog:
    """The events of a store. Any thread may use it."""

    def __init__(self, store: Store, kinds: Collection[str] = (), keep: Retention = Retention()) -> None:  # noqa: B008
        """`kinds` are those whose click-through is told apart."""
        self._store = store
        self._kinds = frozenset(kinds) | {SHOWN}
        self._keep = keep
        self._noted: frozenset[str] = frozenset()
        self._look_at = 0.0
        self._popular: dict[int, tuple[float, dict[str, int]]] = {}  # by days: until when it holds, and what
        self._counting = threading.Lock()
        self._tidying = False

    # Writing

    def put(self, events: Sequence[Event]) -> int:
        """Write all events or none, each id once; how many were new. They are committed when this returns."""
        clock = Clock()
        sent = {self._id(event.id): event for event in reversed(events)}  # of the same id the first one counts
        with self._store.writing() as (connection, change):
            merged = self._store.merged(connection, {event.user for event in sent.values()})
            sent = {id: event._replace(user=merged.get(event.user, event.user)) for id, event in sent.items()}
            known = select(_events.c.id).where(_events.c.id.in_([id for id in sent if not id.startswith(OWN)]))
            for (id,) in connection.execute(known).all():
                del sent[id]
            forgotten = self._forgotten(connection, {event.user for event in sent.values()})
            new = [
                _row(event, clock) | {"id": id, "change": change}
                for id, event in reversed(sent.items())
                if event.time is None or event.time > forgotten.get(event.user, -math.inf)
            ]
            if new:
                connection.execute(insert(_events), new)
                self._count_click_through(connection, new)
        return len(new)

    def withdraw(self, id: str) -> bool:
        """Take off again what an event counted; False if its id is not known, or not any more."""
        own = self._id(id)
        with self._store.writing() as (connection, change):
            found = connection.execute(select(_events).where(_events.c.id == own)).mappings().first()
            if found is None or found["kind"] == FORGOTTEN:
                return False
            if found["weight"]:  # as another event: the model may have learned this one
                back = {"id": f"back:{own}", "kind": WITHDRAWN, "weight": -found["weight"], "change": change}
                adding = self._store.inserting(_events).values(dict(found) | back)
                connection.execute(adding.on_conflict_do_nothing())
            else:
                connection.execute(update(_events).where(_events.c.id == own).values(kind=WITHDRAWN))
        return True

    def _id(self, own: str | None) -> str:
        """An id in the database: ours, or a hash of the caller's, which may name a user; they never meet."""
        if own is None:
            return OWN + token_hex(16)
        return "id:" + blake2b(own.encode(), digest_size=16, key=self._store.salt.encode()).hexdigest()

    def _forgotten(self, connection: Connection, users: Collection[str]) -> dict[str, float]:
        """When users were deleted: what they did before that is not taken again."""
        by_digest = {digest_of(user, self._store.salt): user for user in users}
        found = select(_forgotten.c.digest, _forgotten.c.time).where(_forgotten.c.digest.in_(list(by_digest)))
        return {by_digest[digest]: when for digest, when in connection.execute(found)}

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
        known = {version for (version,) in connection.execute(select(_versions.c.model_version))}
        day = _day(new[0]["received"])
        for (version, kind), events in counts.items():
            adding = self._store.inserting(_click_through)
            added = adding.on_conflict_do_update(
                index_elements=["model_version", "day", "kind"],
                set_={"events": _click_through.c.events + adding.excluded.events},
            )
            told = version if version in known else OTHER
            connection.execute(added, {"model_version": told, "day": day, "kind": kind, "events": events})

    # Reading

    def shown_to(self, user: str) -> list[str]:
        """The items that somebody was shown, as long as that is remembered."""
        since = time.time() - self._keep.shown * SECONDS_A_DAY
        shown = select(_events.c.item).where(
            _events.c.user == now_called(user), _events.c.kind == SHOWN, _events.c.received > since
        )
        return [str(item) for (item,) in self._store.asked(shown.distinct())]

    def popular(self, days: int) -> dict[str, int]:
        """How many users did something with an item in the last days; maybe as it was, where counting takes long.

        One thread counts at a time. Others get what was counted before, or wait if nothing was.
        """
        until, found = self._popular.get(days, (-math.inf, None))
        if found is not None and time.monotonic() < until:
            return found
        if not self._counting.acquire(blocking=found is None):
            assert found is not None
            return found
        try:
            until, found = self._popular.get(days, (-math.inf, None))  # another may have counted meanwhile
            if found is None or time.monotonic() >= until:
                found = self._popular_anew(days)
            return found
        finally:
            self._counting.release()

    def _popular_anew(self, days: int) -> dict[str, int]:
        began = time.monotonic()
        since, of, rated = time.time() - days * SECONDS_A_DAY, _events.c, _ratings.c
        pairs = union(
            select(of.user, of.item).where(of.time > since).group_by(of.user, of.item).having(func.sum(of.weight) > 0),
            select(rated.user, rated.item).where(rated.time > since, rated.rating.is_not(None)),
        ).subquery()
        found = dict(self._store.asked(select(pairs.c.item, func.count()).group_by(pairs.c.item)))
        ended = time.monotonic()
        if len(self._popular) >= _MOST_PERIODS:
            self._popular.clear()
        self._popular[days] = (ended + _TIMES_AS_LONG * (ended - began), found)
        return found

    def count(self) -> int:
        """How many rows of events there are, what was shown included."""
        return self._store.count(_events.c.id)

    def click_through(self) -> list[tuple[str, str, int]]:
        """The versions of models, the kinds of events, and how many there were of them."""
        of = _click_through.c
        total = select(of.model_version, of.kind, func.sum(of.events)).group_by(of.model_version, of.kind)
        return [(version, kind, int(events)) for version, kind, events in self._store.asked(total)]

    def click_through_by_day(self) -> list[tuple[str, str, str, int]]:
        """The same with the day before the kind, the latest day first, as long as single events are kept."""
        of = _click_through.c
        order = of.day.desc(), of.model_version, of.kind
        counted = select(of.model_version, of.day, of.kind, of.events).where(of.day != _EARLIER).order_by(*order)
        return [(version, day, kind, int(events)) for version, day, kind, events in self._store.asked(counted)]

    def latest(self, n: int) -> list[Received]:
        """The latest events, impressions too, the last one first."""
        there = _events.c.kind.not_in([ADDED_UP, FORGOTTEN])
        order = _events.c.change.desc(), _events.c.id
        found = select(*(_events.c[name] for name in Received._fields)).where(there).order_by(*order).limit(n)
        return [Received(*row) for row in self._store.asked(found)]

    # Following

    def look_after(self, versions: Collection[str]) -> None:
        """Note which versions are served, and do a part of the tidying when it is time; called about once a second."""
        now = time.time()
        if self._store.read_only:
            return
        if not self._noted.issuperset(versions):
            self.serve(versions, now)
        if now > self._look_at:
            self._look_at = now + _SECONDS_BETWEEN_LOOKS
            with self._store.tidying() as connection:
                due = update(_counter).where(_counter.c.tidied < now - _SECONDS_BETWEEN_TIDYING).values(tidied=now)
                if connection.execute(due).rowcount:
                    self._tidying = True
                    self._delete_old(connection, now)
        if self._tidying:
            self._tidying = self._added_up(now - self._keep.events * SECONDS_A_DAY)

    def serve(self, versions: Collection[str], now: float) -> None:
        """Tell the click-through of these versions apart from now on."""
        with self._store.tidying() as connection:
            self._store.upsert(connection, _versions, [{"model_version": one, "served": now} for one in versions])
            latest = select(_versions.c.model_version).order_by(_versions.c.served.desc()).limit(_MOST_VERSIONS)
            kept = [version for (version,) in connection.execute(latest)]
            connection.execute(delete(_versions).where(_versions.c.model_version.not_in(kept)))
            connection.execute(delete(_click_through).where(_click_through.c.model_version.not_in([*kept, OTHER])))
        self._noted = frozenset(versions)

    # Tidying

    def tidy(self, now: float | None = None) -> None:
        """Delete what is out of date, and add up old events; nothing that is followed changes by that."""
        now = time.time() if now is None else now
        with self._store.tidying() as connection:
            self._delete_old(connection, now)
        while self._added_up(now - self._keep.events * SECONDS_A_DAY):
            pass

    def _delete_old(self, connection: Connection, now: float) -> None:
        for kind, days in ((SHOWN, self._keep.shown), (FORGOTTEN, self._keep.events)):
            old = _events.c.received <= now - days * SECONDS_A_DAY
            connection.execute(delete(_events).where(_events.c.kind == kind, old))
        connection.execute(delete(_events).where(_events.c.received <= now - self._keep.sums * SECONDS_A_DAY))
        self._add_up_days(connection, _day(now - self._keep.events * SECONDS_A_DAY))

    def _add_up_days(self, connection: Connection, before: str) -> None:
        """Make one row of the click-through of earlier days, for each version and kind; the sum goes on growing."""
        of = _click_through.c
        total = select(of.model_version, of.kind, func.sum(of.events).label("events")).where(of.day < before)
        found = connection.execute(total.group_by(of.model_version, of.kind)).mappings().all()
        if found:
            connection.execute(delete(_click_through).where(of.day < before))
            rows = [dict(row) | {"day": _EARLIER, "events": int(row["events"])} for row in found]
            connection.execute(insert(_click_through), rows)

    def _added_up(self, before: float) -> bool:
        """Make one row of the old events of each of some pairs between two exports; False if there are none."""
        old = (_events.c.received <= before) & _events.c.kind.not_in([SHOWN, FORGOTTEN])
        pair = tuple_(_events.c.user, _events.c.item)
        with self._store.tidying() as connection:
            single = select(_events.c.user, _events.c.item).where(old, _events.c.kind != ADDED_UP).distinct()
            pairs = [tuple(row) for row in connection.execute(single.limit(_PAIRS_AT_ONCE))]
            if not pairs:
                return False
            exports = [change for (change,) in connection.execute(select(_exports).order_by(_exports.c.change))]
            names = ("user", "item", "weight", "time", "received", "change")
            found = select(*(_events.c[name] for name in names)).where(old, pair.in_(pairs))
            sums: dict[tuple[str, str, int], dict[str, Any]] = {}
            for row in connection.execute(found).mappings():
                part = row["user"], row["item"], bisect_left(exports, row["change"])
                so_far = sums.setdefault(part, dict(row) | {"weight": 0.0, "id": self._id(None), "kind": ADDED_UP})
                so_far["weight"] += row["weight"]
                for name in ("time", "received", "change"):
                    so_far[name] = max(so_far[name], row[name])
            connection.execute(delete(_events).where(old, pair.in_(pairs)))
            connection.execute(insert(_events), list(sums.values()))
            return True


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


def _row(event: Event, clock: Clock) -> dict[str, Any]:
    return {
        "user": event.user,
        "item": event.item,
        "kind": event.kind,
        "weight": event.weight,
        "time": clock.of(event.user, event.time),
        "received": clock.now,
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
