"""The observed ratings of a model: those it was trained on, and the updates since; as arrays for its file, and back."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from cofill.arrays import Bools, Floats, Ints, Longs
from cofill.data.sparse import SparseRows

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]

# Of one row or column, what differs from the training: a rating, or None where the one of the training is gone.
Updates = dict[int, float | None]


@dataclass
class _Side:
    """The ratings row by row, or column by column."""

    trained: SparseRows
    count: int  # rows, or columns, by now
    updates: dict[int, Updates] = field(default_factory=dict)
    of_all: Longs | None = None  # how many ratings of the training each has, if more than those at hand

    def trained_counts(self) -> Longs:
        """A copy, which the caller may change."""
        return self.trained.counts() if self.of_all is None else self.of_all.copy()

    def as_trained(self, index: int) -> bool:
        return index < self.trained.rows and index not in self.updates

    def later(self, index: int) -> dict[int, float]:
        return {other: rating for other, rating in self.updates.get(index, {}).items() if rating is not None}

    def ratings(self, index: int) -> tuple[Ints, Floats]:
        """Others (ascending) and ratings, all of them."""
        empty = (np.empty(0, np.int32), np.empty(0, np.float32))
        others, values = self.trained.row(index) if index < self.trained.rows else empty
        if index not in self.updates:
            return others, values
        kept = ~np.isin(others, list(self.updates[index]))
        later = self.later(index)
        merged = np.concatenate([others[kept], np.array(list(later), np.int32)])
        ratings = np.concatenate([values[kept], np.array(list(later.values()), np.float32)])
        order = np.argsort(merged)
        return merged[order], ratings[order]


class AllColumns(NamedTuple):
    """What is to be known of the ratings of all columns where only some columns are at hand: in part of a model."""

    row_counts: Longs  # (rows,): ratings of the training
    spread: float  # the standard deviation of these ratings


class KnownRatings:
    """The ratings of the training, with later changes applied, by row and by column. Grows on both sides.

    Only differences from the training are kept, so that a rating that was added and removed leaves no trace.
    """

    def __init__(self, trained: SparseRows, trained_columns: SparseRows, all_columns: AllColumns | None = None) -> None:
        """`trained_columns` are the same ratings, column by column. In part of a model, what `all_columns` have."""
        self._of_rows = _Side(trained, trained.rows)
        self._of_columns = _Side(trained_columns, trained_columns.rows)
        self._spread: float | None = None
        if all_columns is not None:
            self._of_rows.of_all, self._spread = all_columns

    @classmethod
    def none(cls, rows: int, columns: int) -> "KnownRatings":
        """Of a training that had so many rows and columns, and none of these ratings."""

        def empty(count: int, others: int) -> SparseRows:
            return SparseRows(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), others)

        return cls(empty(rows, columns), empty(columns, rows))

    def transposed(self) -> "KnownRatings":
        """The same ratings with rows and columns exchanged: a view, so that each sees every change of the other."""
        view = object.__new__(KnownRatings)
        view._of_rows, view._of_columns, view._spread = self._of_columns, self._of_rows, self._spread
        return view

    @property
    def trained(self) -> SparseRows:
        """The ratings of the training, row by row."""
        return self._of_rows.trained

    @property
    def trained_columns(self) -> SparseRows:
        """The ratings of the training, column by column."""
        return self._of_columns.trained

    def trained_counts(self) -> Longs:
        """(rows,): ratings of the training of each row, those in columns that are not at hand too."""
        return self._of_rows.trained_counts()

    def trained_column_counts(self) -> Longs:
        """(columns,): ratings of the training of each column, those in rows that are not at hand too."""
        return self._of_columns.trained_counts()

    def spread(self) -> float:
        """The standard deviation of the ratings of the training."""
        if self._spread is None:
            self._spread = float(self.trained.values.std(dtype=np.float64)) if self.trained.nnz else 0.0
        return self._spread

    @property
    def rows(self) -> int:
        return self._of_rows.count

    @property
    def columns(self) -> int:
        return self._of_columns.count

    # What comes later

    def add(self, row: int, column: int, rating: float) -> bool:
        """A rating that came later, in the place of an earlier one of the same pair; False if that one was equal."""
        self.grow(row + 1, column + 1)
        return self._update(row, column, float(np.float32(rating)))

    def remove(self, row: int, column: int) -> bool:
        """The rating of a pair is unknown from now on; False if it was before."""
        return self._update(row, column, None)

    def grow(self, rows: int, columns: int) -> None:
        """At least so many rows and columns, new ones without a rating."""
        self._of_rows.count = max(self.rows, rows)
        self._of_columns.count = max(self.columns, columns)

    def _update(self, row: int, column: int, rating: float | None) -> bool:
        trained = self.trained_rating(row, column)
        if rating == self._of_rows.updates.get(row, {}).get(column, trained):
            return False
        for updates, one, other in ((self._of_rows.updates, row, column), (self._of_columns.updates, column, row)):
            if rating != trained:
                updates.setdefault(one, {})[other] = rating
            else:
                del updates[one][other]
                if not updates[one]:
                    del updates[one]
        return True

    def trained_rating(self, row: int, column: int) -> float | None:
        """The rating of a pair in training; None where there was none."""
        if row >= self.trained.rows:
            return None
        columns, ratings = self.trained.row(row)
        place = int(np.searchsorted(columns, column))
        return float(ratings[place]) if place < len(columns) and columns[place] == column else None

    # What is known now

    def row(self, row: int) -> tuple[Ints, Floats]:
        """Columns (ascending) and ratings of a row, all of them."""
        return self._of_rows.ratings(row)

    def column(self, column: int) -> tuple[Ints, Floats]:
        """Rows (ascending) and ratings of a column, all of them."""
        return self._of_columns.ratings(column)

    def contains(self, rows: Ints, columns: Ints) -> Bools:
        """(n,): whether a rating of each pair is known; an index of -1 is never known."""
        base = self.trained
        found = (rows >= 0) & (rows < base.rows) & (columns >= 0)
        inside = np.flatnonzero(found)
        found[inside] = _contained(base, rows[inside].astype(np.int64), columns[inside])
        updates = self._of_rows.updates
        for place in np.flatnonzero(np.isin(rows, list(updates))).tolist():
            update = updates[int(rows[place])]
            if int(columns[place]) in update:
                found[place] = update[int(columns[place])] is not None
        return found

    def row_as_trained(self, row: int) -> bool:
        """Whether a row has the ratings of the training and no others."""
        return self._of_rows.as_trained(row)

    def column_as_trained(self, column: int) -> bool:
        """Whether a column has the ratings of the training and no others."""
        return self._of_columns.as_trained(column)

    def changed_rows(self) -> Ints:
        """Rows (ascending) in which a rating was added, changed or removed."""
        return np.array(sorted(self._of_rows.updates), np.int32)

    def changed_columns(self) -> Ints:
        """Columns (ascending) in which a rating was added, changed or removed."""
        return np.array(sorted(self._of_columns.updates), np.int32)

    def changes_in_column(self, column: int) -> int:
        """How many ratings of a column were added, changed or removed."""
        return len(self._of_columns.updates.get(column, ()))

    def later_in_row(self, row: int) -> dict[int, float]:
        """Columns and ratings that came later."""
        return self._of_rows.later(row)

    def later_in_column(self, column: int) -> dict[int, float]:
        """Rows and ratings that came later."""
        return self._of_columns.later(column)

    def later(self) -> tuple[Ints, Ints, Floats]:
        """Rows, columns and ratings of everything that came later; row by row, in the order of the columns."""
        triples = sorted((r, c, v) for r in self._of_rows.updates for c, v in self._of_rows.later(r).items())
        rows, columns, ratings = zip(*triples, strict=True) if triples else ((), (), ())
        return np.array(rows, np.int32), np.array(columns, np.int32), np.array(ratings, np.float32)

    def removed(self) -> tuple[Ints, Ints]:
        """Rows and columns of the ratings of the training that are gone; row by row, in the order of the columns."""
        pairs = sorted((r, c) for r, updates in self._of_rows.updates.items() for c, v in updates.items() if v is None)
        return np.array([r for r, _ in pairs], np.int32), np.array([c for _, c in pairs], np.int32)


def _contained(rows: SparseRows, wanted: Longs, columns: Ints) -> Bools:
    """(n,): whether rows have columns, by bisection in all of them at once."""
    low, end = rows.indptr[wanted], rows.indptr[wanted + 1]
    high = end.copy()
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) // 2
        before = low < high
        before[before] = rows.indices[middle[before]] < columns[before]
        low, high = np.where(before, middle + 1, low), np.where(before, high, np.minimum(middle, high))
    found = low < end
    found[found] = rows.indices[low[found]] == columns[found]
    return found


def known_arrays(known: KnownRatings) -> Arrays:
    """The ratings of the training, row by row, those that came later, and which of the former are gone."""
    later_rows, later_columns, later_ratings = known.later()
    removed_rows, removed_columns = known.removed()
    return {
        "indptr": known.trained.indptr,
        "indices": known.trained.indices,
        "values": known.trained.values,
        "shape": np.array([known.trained.rows, known.trained.columns], np.int64),
        "later.rows": later_rows,
        "later.columns": later_columns,
        "later.ratings": later_ratings,
        "removed.rows": removed_rows,
        "removed.columns": removed_columns,
    }


def known_from(arrays: Arrays, rows: int, columns: int, all_rows: AllColumns | None = None) -> KnownRatings:
    """Known ratings of so many rows and columns by now, from their arrays.

    `all_rows`: what is known of the columns from the ratings of all rows, where the arrays have some of these.
    """
    trained = SparseRows(arrays["indptr"], arrays["indices"], arrays["values"], int(arrays["shape"][1]))
    known = KnownRatings(trained.transpose(), trained, all_rows).transposed()
    for row, column, rating in zip(
        *(arrays[f"later.{part}"].tolist() for part in ("rows", "columns", "ratings")), strict=True
    ):
        known.add(row, column, rating)
    for row, column in zip(arrays["removed.rows"].tolist(), arrays["removed.columns"].tolist(), strict=True):
        known.remove(row, column)
    known.grow(rows, columns)
    return known
