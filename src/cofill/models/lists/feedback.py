"""What people did, as grades: known ratings and interactions, those of the training and those that came later.

A grade is how much a known rating or interaction counts for lists, from nearly nothing to about one. Scorers that look
at order and time are told these, too. Times of at least `FIRST_DATE` are Unix seconds. Smaller ones are positions,
which say what came first and no more.
"""

import time
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.arrays import Arrays, Bools, Doubles, Floats, Ints, Longs
from cofill.data.cells import CALENDAR
from cofill.data.ratings import Ratings, Scale
from cofill.data.sparse import KnownRatings, SparseRows, known_arrays
from cofill.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SECONDS_A_DAY = 86_400.0
# Up to this share of the dates of a training may lie in the future by mistake. Beyond, they are as they are meant.
_STRAYS = 0.01

# What a model that was trained on ratings alone takes for as much as the highest rating: a purchase, or five views.
HIGHEST_WEIGHT = 5.0


@dataclass(frozen=True)
class Grades:
    """From ratings or weights of interactions to grades.

    The lowest rating counts `floor` and the highest 1: even a bad rating says that a user chose the item. Ratings
    between them count floor + (1 - floor) t^power, where t goes from 0 to 1 along the scale. An interaction counts 1,
    however often it happened, or, with `confidence` above 0, the logarithm of its weight to that power. Where no
    interactions were trained on, their weights count as ratings on a scale from 0 to `HIGHEST_WEIGHT`.
    """

    scale: Scale
    rated: bool = True
    floor: float = 0.1
    power: float = 1.15
    confidence: float = 0.0

    def of(self, values: Floats) -> Floats:
        """(n,) ratings or weights -> (n,) grades."""
        if not self.rated:
            if not self.confidence:
                return np.ones(len(values), np.float32)
            return np.asarray((np.log1p(values) / np.log(2.0)) ** self.confidence, np.float32)
        low, high = self.scale
        along = np.clip((values.astype(np.float64) - low) / (high - low), 0.0, 1.0)
        graded: Floats = (self.floor + (1.0 - self.floor) * along**self.power).astype(np.float32)
        return graded


def time_decay(times: npt.NDArray[Any], half_life: float, latest: float | None = None) -> Floats:
    """(n,): what is left of each rating or interaction when it counts half after so many days, from the latest on."""
    seconds = times.astype(np.float64)
    days = ((seconds.max(initial=-np.inf) if latest is None else latest) - seconds) / SECONDS_A_DAY
    left: Floats = np.exp2(-days / half_life).astype(np.float32)
    return left


@dataclass(frozen=True)
class GradedRatings:
    """Known ratings, or weights of interactions, and what they count for lists."""

    known: KnownRatings  # users x items
    grades: Grades
    decay: KnownRatings | None = None
    """What time has left of each of the training, as factors; what came later counts in full."""
    forgotten: set[int] = field(default_factory=set)
    """Users whose training data does not count any more: what comes of them does not add up with it."""

    @classmethod
    def of(cls, known: KnownRatings, grades: Grades, decay: Floats | None) -> "GradedRatings":
        """`decay` (n,) is in the order of the ratings of the training, row by row."""
        if decay is None:
            return cls(known, grades)
        rows = SparseRows(known.trained.indptr, known.trained.indices, decay, known.trained.columns)
        return cls(known, grades, KnownRatings(rows, rows.transpose()))

    def added_up(self, users: Ints, items: Ints, weights: Floats, *, to_training: bool = False) -> Floats:
        """(n,): the weights of pairs, on top of what is known of them, to at most the greatest of the training.

        With `to_training`, on top of what was known of them in training alone.
        """
        before = [self._value(*pair, to_training) for pair in zip(users.tolist(), items.tolist(), strict=True)]
        total: Floats = np.minimum(np.array(before, np.float32) + weights, np.float32(self.grades.scale.high))
        return total

    def _value(self, user: int, item: int, to_training: bool) -> float:
        if to_training:
            return 0.0 if user in self.forgotten else self.known.trained_rating(user, item) or 0.0
        return self.known.rating(user, item) or 0.0

    def arrays(self) -> Arrays:
        """For the model file, with what time has left of them, and their scale."""
        decay = {} if self.decay is None else {"decay": self.decay.trained.values}
        return known_arrays(self.known) | decay | {"scale": np.array(self.grades.scale, np.float64)}

    def trained(self) -> SparseRows:
        """Grades of the training, users x items."""
        rows = self.known.trained
        values = self.grades.of(rows.values)
        if self.decay is not None:
            values = values * self.decay.trained.values
        return SparseRows(rows.indptr, rows.indices, values, rows.columns)

    def row(self, user: int) -> tuple[Ints, Floats]:
        """Items (ascending) and grades of a user."""
        return self._graded(self.known, self.decay, user)

    def column(self, item: int) -> tuple[Ints, Floats]:
        """Users (ascending) and grades of an item."""
        return self._graded(self.known.transposed(), None if self.decay is None else self.decay.transposed(), item)

    def _graded(self, known: KnownRatings, decay: KnownRatings | None, row: int) -> tuple[Ints, Floats]:
        others, values = known.row(row)
        grades = self.grades.of(values)
        if decay is not None and row < decay.trained.rows:  # what came later does not decay
            trained, factors = decay.trained.row(row)
            old = ~np.isin(others, list(known.later_in_row(row)))
            grades[old] *= factors[np.isin(trained, others[old])]
        return others, grades

    def trained_row(self, user: int) -> tuple[Ints, Floats]:
        """Items and grades of a user in training."""
        if user >= self.known.trained.rows:
            return np.empty(0, np.int32), np.empty(0, np.float32)
        items, values = self.known.trained.row(user)
        grades = self.grades.of(values)
        return items, grades if self.decay is None else grades * self.decay.trained.row(user)[1]


class Feedback:
    """Ratings, interactions, or both: where a user rated and did something too, the higher grade counts."""

    def __init__(self, main: GradedRatings, beside: GradedRatings | None = None) -> None:
        """`main` is what the model as a whole knows; `beside` are interactions of the same people, if there are any."""
        self.main, self.beside = main, beside
        self.sequences: Sequences | None = None
        """In which order and when users did these things, where a scorer asks for it."""

    @property
    def sources(self) -> tuple[GradedRatings, ...]:
        return (self.main,) if self.beside is None else (self.main, self.beside)

    @property
    def items(self) -> int:
        return max(source.known.columns for source in self.sources)

    def trained(self) -> SparseRows:
        """Grades of the training, users x items."""
        if self.beside is None:
            return self.main.trained()
        from scipy.sparse import csr_array

        parts = [source.trained() for source in self.sources]
        shape = max(part.rows for part in parts), max(part.columns for part in parts)
        places = [(np.repeat(np.arange(part.rows), part.counts()), part.indices) for part in parts]
        first, second = (csr_array((p.values, at), shape=shape) for p, at in zip(parts, places, strict=True))
        both = first.maximum(second).tocsr()
        both.sort_indices()
        return SparseRows(both.indptr.astype(np.int64), both.indices.astype(np.int32), both.data, shape[1])

    def row(self, user: int) -> tuple[Ints, Floats]:
        """Items (ascending) and grades of a user."""
        return _together([source.row(user) for source in self.sources])

    def items_of(self, user: int) -> Ints:
        """Items (ascending) that a user rated or did something with."""
        first, *others = (source.known.row(user)[0] for source in self.sources)
        return first if not others else np.union1d(first, others[0])

    def column(self, item: int) -> tuple[Ints, Floats]:
        """Users (ascending) and grades of an item."""
        return _together([source.column(item) for source in self.sources])

    def trained_row(self, user: int) -> tuple[Ints, Floats]:
        """Items and grades of a user in training; nothing of one who came later."""
        return _together([source.trained_row(user) for source in self.sources])

    def rows(self, users: Longs) -> SparseRows:
        """Grades of some users."""
        known = self.main.known
        if self.beside is None and self.main.decay is None and all(map(known.row_as_trained, users.tolist())):
            taken = known.trained.take(users)
            return SparseRows(taken.indptr, taken.indices, self.main.grades.of(taken.values), self.items)
        return joined([self.row(int(user)) for user in users], self.items)

    def changes(self, item: int) -> int:
        """How many ratings and interactions of an item were added, changed or removed since the training."""
        return sum(source.known.changes_in_column(item) for source in self.sources)

    def changed_items(self) -> set[int]:
        """Items of which anything has changed since the training."""
        return {item for source in self.sources for item in source.known.changed_columns().tolist()}

    def later_items(self, user: int) -> set[int]:
        """With which items a user has done something since the training."""
        return {item for source in self.sources for item in source.known.later_in_row(user)}


# Order and time

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
    _told: tuple[dict[int, dict[int, float]], ...] = field(default_factory=lambda: ({}, {}))
    """The same as it was told, apart for ratings and for interactions beside them."""
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
        users, items, times = users[kept], items[kept], _without_strays(times[kept])
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

    def check(self, times: npt.NDArray[Any]) -> None:
        """DataError if times look like days written as numbers, such as 20200105, where the training has dates."""
        bad = (times >= CALENDAR[0]) & (times <= CALENDAR[1])
        if self.dated and bad.any():
            raise DataError(
                f"the time {times[bad][0]:.0f} is of August 1970 in Unix seconds, while the model was trained on dates",
                "write days as 2020-01-05, or call the column a date",
            )

    def add(
        self,
        users: Ints | Longs,
        items: Ints | Longs,
        times: Doubles | None,
        *,
        beside: bool = False,
        replacing: bool = True,
    ) -> None:
        """What users did after the training, in its order; without times it is as late as the latest known.

        Times of ratings, and of interactions `beside` them, are kept apart, and the later one counts. With
        `replacing` a time takes the place of the one before it, otherwise the later one stays.
        """
        when = np.full(len(users), self.end) if times is None else np.asarray(times, np.float64)
        order = np.argsort(when, kind="stable")
        if self.dated:  # one date by a wrong clock would be the whole trend
            when = np.minimum(when, max(time.time(), self.end))
        for place in order.tolist():
            own = self._told[beside].setdefault(int(users[place]), {})
            before = own.pop(int(items[place]), -np.inf)
            own[int(items[place])] = max(float(when[place]), -np.inf if replacing else before)
        for user in np.unique(users).tolist():
            self._put_together(user)
        self.end = max(self.end, float(when.max(initial=self.end)))

    def remove(self, user: int, item: int, *, beside: bool = False) -> None:
        """What came after the training is taken back."""
        if self._told[beside].get(user, {}).pop(item, None) is not None:
            self._put_together(user)

    def forget(self, user: int) -> None:
        """All that a user did after the training."""
        for told in (*self._told, self.later):
            told.pop(user, None)

    def _put_together(self, user: int) -> None:
        both: dict[int, float] = {}
        for item, when in [one for told in self._told for one in told.get(user, {}).items()]:
            both[item] = max(both.get(item, -np.inf), when)
        self.later[user] = dict(sorted(both.items(), key=itemgetter(1)))

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
        key, times = self._places(user, items)
        age = np.empty(len(items), np.int64)
        age[np.argsort(key, kind="stable")] = np.arange(len(items))[::-1]
        return age, float(times.max())

    def _places(self, user: int, items: Ints) -> tuple[Doubles, Doubles]:
        """(n,) each: what orders the things that a user did, and when they were done."""
        later = self.later.get(user, {})
        key, times = np.full(len(items), np.inf), np.full(len(items), self.end)
        if user < self.rows.rows:
            start, stop = self.rows.indptr[user], self.rows.indptr[user + 1]
            known, found = self.rows.indices[start:stop], np.zeros(len(items), np.int64)
            if len(known):
                found = np.minimum(np.searchsorted(known, items), len(known) - 1)
                same = known[found] == items
                key[same] = self.rows.values[start:stop][found[same]]
                times[same] = self.times[start:stop][found[same]]
        if later:
            place = {item: number for number, item in enumerate(later)}
            for entry, item in enumerate(items.tolist()):
                if item in place:
                    key[entry], times[entry] = 1e9 + place[item], later[item]
        return key, times

    def order_of(self, user: int, items: Ints) -> tuple[Longs, Doubles]:
        """(n,): the order in which a user did things with items, and (n,) when."""
        key, times = self._places(user, items)
        return np.argsort(key, kind="stable"), times

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
        told = [
            (user, item, when, beside)
            for beside, of_users in enumerate(self._told)
            for user, own in of_users.items()
            for item, when in own.items()
        ]
        users, items, times, beside = zip(*told, strict=True) if told else ((), (), (), ())
        return {
            "indptr": self.rows.indptr,
            "indices": self.rows.indices,
            "values": self.rows.values,
            "times": self.times,
            "end": np.array([self.end, self.dated]),
            "later.rows": np.array(users, np.int64),
            "later.columns": np.array(items, np.int64),
            "later.times": np.array(times, np.float64),
            "later.beside": np.array(beside, np.bool_),
        }

    @classmethod
    def restored(cls, arrays: Arrays, items: int) -> "Sequences":
        """From the model file, with so many items in training."""
        rows = SparseRows(arrays["indptr"], arrays["indices"], arrays["values"], items)
        end, dated = arrays["end"].tolist()  # of all users, where only some are at hand
        found = cls(rows, np.asarray(arrays["times"]), bool(dated), end=end)
        for beside in (False, True):
            some = arrays["later.beside"] == beside
            told = (arrays[f"later.{name}"][some] for name in ("rows", "columns", "times"))
            found.add(*told, beside=beside)
        return found


def _without_strays(times: Doubles) -> Doubles:
    """A few dates that have not come yet, by a wrong clock, are the latest of the others.

    One alone would be the whole trend. Where many have not come yet, all are as they are: they have their own present.
    """
    future = times > time.time()
    if not 0 < np.count_nonzero(future) <= _STRAYS * len(times):
        return times
    return np.asarray(np.minimum(times, times[~future].max()))


# Sparse rows


def joined(rows: list[tuple[Ints, Floats]], columns: int) -> SparseRows:
    """One sparse matrix of rows given one by one."""
    indptr = np.cumsum([0, *(len(items) for items, _ in rows)]).astype(np.int64)
    indices = np.concatenate([items for items, _ in rows] or [np.empty(0, np.int32)])
    values = np.concatenate([grades for _, grades in rows] or [np.empty(0, np.float32)])
    return SparseRows(indptr, indices.astype(np.int32), values.astype(np.float32), columns)


def entries_where(rows: SparseRows, kept: Bools) -> SparseRows:
    """Some of the entries (nnz,), in the same rows."""
    if kept.all():
        return rows
    ends = np.concatenate([[0], np.cumsum(kept)])
    return SparseRows(ends[rows.indptr].astype(np.int64), rows.indices[kept], rows.values[kept], rows.columns)


def as_csr(rows: SparseRows, columns: int | None = None) -> "csr_array":
    """The same for scipy, with so many columns."""
    from scipy.sparse import csr_array

    shape = rows.rows, rows.columns if columns is None else columns
    return csr_array((rows.values, rows.indices, rows.indptr), shape=shape)


def sparse_times(rows: SparseRows, matrix: "Floats | csr_array") -> Floats:
    """X M (rows, width) for a sparse X (rows, columns) and M, which may have rows beyond those columns."""
    product = as_csr(rows, matrix.shape[0]) @ matrix
    return np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), np.float32)


def _together(parts: list[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    if len(parts) == 1:
        return parts[0]
    indices = np.concatenate([index for index, _ in parts])
    grades = np.concatenate([grade for _, grade in parts])
    found, place = np.unique(indices, return_inverse=True)
    best = np.zeros(len(found), np.float32)
    np.maximum.at(best, place, grades)
    return found.astype(np.int32), best
