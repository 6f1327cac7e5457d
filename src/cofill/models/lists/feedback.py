"""What people did, as grades: known ratings and interactions, those of the training and those that came later.

A grade is how much a known rating or interaction counts for lists, from nearly nothing to about one.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Floats, Ints, Longs
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.lists.sequences import Sequences
from cofill.models.observed import Arrays, KnownRatings, known_arrays

SECONDS_A_DAY = 86_400.0

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


def _together(parts: list[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    if len(parts) == 1:
        return parts[0]
    indices = np.concatenate([index for index, _ in parts])
    grades = np.concatenate([grade for _, grade in parts])
    found, place = np.unique(indices, return_inverse=True)
    best = np.zeros(len(found), np.float32)
    np.maximum.at(best, place, grades)
    return found.astype(np.int32), best
