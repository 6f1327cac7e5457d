"""In which order and when users did things: what scorers that know order and time are told.

Times of at least `FIRST_DATE` are Unix seconds. Smaller ones are positions, which say what came first and no more.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.data.ratings import Ratings
from cofill.data.sparse import SparseRows
from cofill.models.observed import Arrays

FIRST_DATE = 1e8
"""Of Unix seconds: March 1973. Data whose latest time is before it has positions."""


class Recency(NamedTuple):
    """Order and time of what n users did, entry by entry of their rows."""

    age: Longs
    """(entries,): how many things a user did later; 0 is the last one."""
    gap: Doubles
    """(n,): seconds from the last thing a user did to the request; infinite if nothing was done, 0 with positions."""
    at: Doubles
    """(n,): the time of the request; that of the latest event known, unless the caller says otherwise."""


@dataclass(eq=False)
class Sequences:
    """The order and the times of the training, users x items, and of what came later."""

    rows: SparseRows
    """(users, items): the values are places in the sequence of a user, from 0."""
    times: Doubles
    """(entries,): Unix seconds, or positions."""
    dated: bool
    """Whether times are dates."""
    later: dict[int, dict[int, float]] = field(default_factory=dict)
    """By user: items that came later, in their order, and when."""
    end: float = 0.0
    """The latest time of all."""

    @classmethod
    def of(cls, ratings: Ratings, beside: Ratings | None = None) -> "Sequences | None":
        """Of ratings, and of interactions of the same users and items beside them; None unless all have times."""
        if ratings.times is None or not len(ratings) or (beside is not None and beside.times is None):
            return None
        parts = [ratings] if beside is None else [ratings, beside]
        users, items = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("user_index", "item_index")
        )
        times = np.concatenate([np.asarray(part.times, np.float64) for part in parts])
        order = np.lexsort((np.concatenate([part.places() for part in parts]), times, users))
        # Where a pair is in both, its first time counts.
        _, first = np.unique(users[order].astype(np.int64) * len(ratings.items) + items[order], return_index=True)
        kept = order[np.sort(first)]
        users, items, times = users[kept], items[kept], times[kept]
        counts = np.bincount(users, minlength=len(ratings.users))
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        place = (np.arange(len(users)) - ends[users]).astype(np.float32)
        by_item = np.lexsort((items, users))
        rows = SparseRows(ends, items[by_item].astype(np.int32), place[by_item], len(ratings.items))
        end = float(times.max())
        return cls(rows, times[by_item], end >= FIRST_DATE, end=end)

    def in_order(self, grades: Floats | None = None) -> tuple[SparseRows, Doubles]:
        """What each user did in training, in its order, with its grades (entries,) or 1, and the times (entries,)."""
        users = np.repeat(np.arange(self.rows.rows), self.rows.counts())
        order = np.lexsort((self.rows.values, users))
        values = np.ones(self.rows.nnz, np.float32) if grades is None else grades[order]
        return SparseRows(self.rows.indptr, self.rows.indices[order], values, self.rows.columns), self.times[order]

    # What comes later

    def add(self, users: Ints | Longs, items: Ints | Longs, times: Doubles | None) -> None:
        """What users did after the training, in its order; without times it is as late as the latest known."""
        when = np.full(len(users), self.end) if times is None else np.asarray(times, np.float64)
        for place in np.argsort(when, kind="stable").tolist():
            own = self.later.setdefault(int(users[place]), {})
            own.pop(int(items[place]), None)
            own[int(items[place])] = float(when[place])
        self.end = max(self.end, float(when.max(initial=self.end)))

    # Of rows that are asked about

    def recency(self, users: Longs, done: SparseRows, at: Doubles | None = None) -> Recency:
        """Of known users and the rows (ascending items) of what they have done by now."""
        parts = [self._of_user(int(user), done.row(place)[0]) for place, user in enumerate(users.tolist())]
        ages = np.concatenate([np.empty(0, np.int64), *(age for age, _ in parts)])
        return self._recency(ages, np.array([last for _, last in parts], np.float64), at)

    def _of_user(self, user: int, items: Ints) -> tuple[Longs, float]:
        """The ages (n,) of what a user did, and the time of the last of it; -infinity if there is none."""
        if not len(items):
            return np.empty(0, np.int64), -np.inf
        key, time = self._places(user, items)
        age = np.empty(len(items), np.int64)
        age[np.argsort(key, kind="stable")] = np.arange(len(items))[::-1]
        return age, float(time.max())

    def _places(self, user: int, items: Ints) -> tuple[Doubles, Doubles]:
        """(n,) each: what orders the things that a user did, and when they were done."""
        later = self.later.get(user, {})
        key, time = np.full(len(items), np.inf), np.full(len(items), self.end)
        if user < self.rows.rows:
            start, stop = self.rows.indptr[user], self.rows.indptr[user + 1]
            known, found = self.rows.indices[start:stop], np.zeros(len(items), np.int64)
            if len(known):
                found = np.minimum(np.searchsorted(known, items), len(known) - 1)
                same = known[found] == items
                key[same] = self.rows.values[start:stop][found[same]]
                time[same] = self.times[start:stop][found[same]]
        if later:
            place = {item: number for number, item in enumerate(later)}
            for entry, item in enumerate(items.tolist()):
                if item in place:
                    key[entry], time[entry] = 1e9 + place[item], later[item]
        return key, time

    def order_of(self, user: int, items: Ints) -> tuple[Longs, Doubles]:
        """(n,): the order in which a user did things with items, and (n,) when."""
        key, time = self._places(user, items)
        return np.argsort(key, kind="stable"), time

    def latest(self, users: Longs) -> Doubles:
        """(n,): when users last did something; -infinity for one who did nothing, or is unknown (-1)."""
        found = np.full(len(users), -np.inf)
        filled = np.flatnonzero(self.rows.counts())
        of_rows = np.full(self.rows.rows, -np.inf)
        if len(filled):
            of_rows[filled] = np.maximum.reduceat(self.times, self.rows.indptr[filled])
        known = (users >= 0) & (users < self.rows.rows)
        found[known] = of_rows[users[known]]
        for place, user in enumerate(users.tolist()):
            found[place] = max([found[place], *self.later.get(user, {}).values()])
        return found

    def of_new_user(self, places: Longs, times: Doubles | None = None, at: float | None = None) -> Recency:
        """Of a user with n things done, given their places in its sequence; without times they were done just now."""
        age = len(places) - 1 - np.argsort(np.argsort(places, kind="stable"), kind="stable")
        now = self.end if at is None else at
        last = now if times is None else float(np.max(times, initial=-np.inf))
        if not len(places):
            last = -np.inf
        return self._recency(age.astype(np.int64), np.array([last]), np.array([now], np.float64))

    def _recency(self, ages: Longs, last: Doubles, at: Doubles | None) -> Recency:
        now = np.full(len(last), self.end) if at is None else np.asarray(at, np.float64)
        gap = np.maximum(now - last, 0.0)
        if not self.dated:
            gap = np.where(np.isinf(last), np.inf, 0.0)
        return Recency(ages, gap, now)

    # Keeping

    def arrays(self) -> Arrays:
        """For the model file."""
        triples = [(user, item, time) for user, own in self.later.items() for item, time in own.items()]
        users, items, times = zip(*triples, strict=True) if triples else ((), (), ())
        return {
            "indptr": self.rows.indptr,
            "indices": self.rows.indices,
            "values": self.rows.values,
            "times": self.times,
            "end": np.array([self.end]),
            "later.rows": np.array(users, np.int64),
            "later.columns": np.array(items, np.int64),
            "later.times": np.array(times, np.float64),
        }

    @classmethod
    def restored(cls, arrays: Arrays, items: int) -> "Sequences":
        """From the model file, with so many items in training."""
        rows = SparseRows(arrays["indptr"], arrays["indices"], arrays["values"], items)
        end = float(arrays["end"][0])  # of all users, where only some are at hand
        found = cls(rows, np.asarray(arrays["times"]), end >= FIRST_DATE, end=end)
        found.add(arrays["later.rows"], arrays["later.columns"], np.asarray(arrays["later.times"]))
        return found
