"""The known ratings row by row, in either orientation; and those of a model, with all that came after its training."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cofill.arrays import Arrays, Bools, Doubles, Floats, Ints, Longs

Updates = dict[int, float | None]
"""Of one row or column, what differs from the training: a rating, or None where the one of the training is gone."""


@dataclass(frozen=True, eq=False)
class SparseRows:
    """The known ratings row by row (CSR). A value of exactly 0 is known; what is not listed is unknown."""

    indptr: Longs
    """(rows + 1,): row i owns the entries from indptr[i] to indptr[i + 1]."""
    indices: Ints
    """(nnz,): the column of each entry, ascending within a row."""
    values: Floats
    """(nnz,): the rating of each entry."""
    columns: int
    """How many columns the matrix has, known or not."""

    @property
    def rows(self) -> int:
        """How many rows the matrix has, empty ones included."""
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """How many ratings are known."""
        return len(self.indices)

    def row(self, i: int) -> tuple[Ints, Floats]:
        """Columns and values of row `i`, both (known in that row,), as views."""
        known = slice(int(self.indptr[i]), int(self.indptr[i + 1]))
        return self.indices[known], self.values[known]

    def take(self, chosen: Longs) -> "SparseRows":
        """The chosen rows, in that order."""
        counts = self.counts()[chosen]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        entries = np.repeat(self.indptr[chosen] - indptr[:-1], counts) + np.arange(indptr[-1])
        return SparseRows(indptr, self.indices[entries], self.values[entries], self.columns)

    def counts(self) -> Longs:
        """(rows,): how many ratings each row knows."""
        return np.diff(self.indptr)

    def row_sums(self, values: Floats) -> Doubles:
        """(rows,): the sums of some value (nnz,) of each entry, row by row; 0 where a row is empty."""
        sums = np.zeros(self.rows)
        filled = self.counts() > 0  # reduceat has no notion of an empty row
        if filled.any():
            sums[filled] = np.add.reduceat(values, self.indptr[:-1][filled], dtype=np.float64)
        return sums

    def transpose(self) -> "SparseRows":
        """The same ratings column by column, in one counting sort; explicit zeros stay."""
        from scipy.sparse import csr_array

        csr = csr_array((self.values, self.indices, self.indptr), shape=(self.rows, self.columns))
        csc = csr.tocsc()
        return SparseRows(
            indptr=np.asarray(csc.indptr, np.int64),
            indices=np.asarray(csc.indices, np.int32),
            values=np.asarray(csc.data, np.float32),
            columns=self.rows,
        )


@dataclass
class _Side:
    """The ratings row by row, or column by column."""

    trained: SparseRows
    trained_counts: Longs  # of each: in part of a model, of all ratings, not only of those at hand
    counts: Longs = field(init=False)  # the same as they stand now
    updates: dict[int, Updates] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = self.trained_counts.copy()

    def grow(self, count: int) -> None:
        more = count - len(self.counts)
        if more > 0:
            self.counts = np.append(self.counts, np.zeros(more, np.int64))

    def as_trained(self, index: int) -> bool:
        return index < self.trained.rows and index not in self.updates

    def ratings(self, index: int) -> tuple[Ints, Floats]:
        """Others (ascending) and ratings, all of them."""
        empty = (np.empty(0, np.int32), np.empty(0, np.float32))
        others, values = self.trained.row(index) if index < self.trained.rows else empty
        if index not in self.updates:
            return others, values
        updates = self.updates[index]
        kept = ~np.isin(others, list(updates))
        later = {other: rating for other, rating in updates.items() if rating is not None}
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
        self._of_rows = _Side(trained, trained.counts() if all_columns is None else all_columns.row_counts)
        self._spread = None if all_columns is None else all_columns.spread
        self._of_columns = _Side(trained_columns, trained_columns.counts())

    @classmethod
    def none(cls, rows: int, columns: int) -> "KnownRatings":
        """Of a training that had so many rows and columns, and none of these ratings."""
        empty = SparseRows(np.zeros(rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), columns)
        return cls(empty, empty.transpose())

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
        """(rows,): ratings of the training of each row, those in columns that are not at hand too; a copy."""
        return self._of_rows.trained_counts.copy()

    def spread(self) -> float:
        """The standard deviation of the ratings of the training."""
        if self._spread is None:
            self._spread = float(self.trained.values.std(dtype=np.float64)) if self.trained.nnz else 0.0
        return self._spread

    @property
    def rows(self) -> int:
        return len(self.row_counts)

    @property
    def columns(self) -> int:
        return len(self.column_counts)

    @property
    def row_counts(self) -> Longs:
        """(rows,): ratings of each row, as they stand now."""
        return self._of_rows.counts

    @property
    def column_counts(self) -> Longs:
        """(columns,): ratings of each column, as they stand now."""
        return self._of_columns.counts

    # What comes later

    def add(self, rows: Ints, columns: Ints, ratings: Floats) -> Bools:
        """Ratings that came later, in the place of earlier ones of the same pairs; (n,): which of them were others."""
        self.grow(int(rows.max(initial=-1)) + 1, int(columns.max(initial=-1)) + 1)
        return self._update(rows, columns, ratings.astype(np.float32).tolist())

    def remove(self, rows: Ints, columns: Ints) -> Bools:
        """The ratings of pairs are unknown from now on; (n,): which of them were known."""
        return self._update(rows, columns, [None] * len(rows))

    def grow(self, rows: int, columns: int) -> None:
        """At least so many rows and columns, new ones without a rating."""
        self._of_rows.grow(rows)
        self._of_columns.grow(columns)

    def _update(self, rows: Ints, columns: Ints, ratings: Sequence[float | None]) -> Bools:
        changed = np.zeros(len(rows), np.bool_)
        for place, (row, column, rating) in enumerate(zip(rows.tolist(), columns.tolist(), ratings, strict=True)):
            trained = self.trained_rating(row, column)
            before = self._of_rows.updates.get(row, {}).get(column, trained)
            if rating == before:
                continue
            changed[place] = True
            for side, one, other in ((self._of_rows, row, column), (self._of_columns, column, row)):
                side.counts[one] += (rating is not None) - (before is not None)
                if rating != trained:
                    side.updates.setdefault(one, {})[other] = rating
                else:
                    del side.updates[one][other]
                    if not side.updates[one]:
                        del side.updates[one]
        return changed

    # What is known now

    def rating(self, row: int, column: int) -> float | None:
        """The rating of a pair; None where it is unknown."""
        return self._of_rows.updates.get(row, {}).get(column, self.trained_rating(row, column))

    def trained_rating(self, row: int, column: int) -> float | None:
        """The rating of a pair in training; None where there was none."""
        if row >= self.trained.rows:
            return None
        columns, ratings = self.trained.row(row)
        place = int(np.searchsorted(columns, column))
        return float(ratings[place]) if place < len(columns) and columns[place] == column else None

    def row(self, row: int) -> tuple[Ints, Floats]:
        """Columns (ascending) and ratings of a row, all of them."""
        return self._of_rows.ratings(row)

    def column(self, column: int) -> tuple[Ints, Floats]:
        """Rows (ascending) and ratings of a column, all of them."""
        return self._of_columns.ratings(column)

    def contains(self, rows: Ints, columns: Ints) -> Bools:
        """(n,): whether a rating of each pair is known; an index of -1 is never known."""
        from scipy.sparse import csr_array

        trained, updates = self.trained, self._of_rows.updates
        ones = np.ones(trained.nnz, np.bool_)  # a rating of 0 is known too
        rated = csr_array((ones, trained.indices, trained.indptr), shape=(trained.rows, trained.columns))
        found: Bools = (rows >= 0) & (rows < trained.rows) & (columns >= 0) & (columns < trained.columns)
        if found.any():
            found[found] = rated[rows[found], columns[found]]
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
        return {column: rating for column, rating in self._of_rows.updates.get(row, {}).items() if rating is not None}

    def updates(self) -> list[tuple[int, int, float | None]]:
        """Row, column and rating, None where it was removed, of all that changed; in the order of rows and columns."""
        rows = sorted(self._of_rows.updates.items())
        return [(row, column, rating) for row, updates in rows for column, rating in sorted(updates.items())]


def known_arrays(known: KnownRatings) -> Arrays:
    """The ratings of the training, row by row, those that came later, and which of the former are gone."""
    updates = known.updates()
    later = [one for one in updates if one[2] is not None]
    removed = [one for one in updates if one[2] is None]
    return {
        "indptr": known.trained.indptr,
        "indices": known.trained.indices,
        "values": known.trained.values,
        "shape": np.array([known.trained.rows, known.trained.columns], np.int64),
        "later.rows": np.array([row for row, _, _ in later], np.int32),
        "later.columns": np.array([column for _, column, _ in later], np.int32),
        "later.ratings": np.array([rating for _, _, rating in later], np.float32),
        "removed.rows": np.array([row for row, _, _ in removed], np.int32),
        "removed.columns": np.array([column for _, column, _ in removed], np.int32),
    }


def known_from(arrays: Arrays, rows: int, columns: int, of_all: Arrays | None = None) -> KnownRatings:
    """Known ratings of so many rows and columns by now, from their arrays; ValueError where these lead nowhere.

    Where the arrays have some of the rows, `of_all` has what all rows say: the "counts" of the columns, the "spread".
    """
    _check_indices(arrays, rows, columns)
    trained = SparseRows(arrays["indptr"], arrays["indices"], arrays["values"], int(arrays["shape"][1]))
    all_rows = None if of_all is None else AllColumns(of_all["counts"], float(of_all["spread"][0]))
    known = KnownRatings(trained.transpose(), trained, all_rows).transposed()
    known.add(*(arrays[f"later.{part}"] for part in ("rows", "columns", "ratings")))
    known.remove(arrays["removed.rows"], arrays["removed.columns"])
    known.grow(rows, columns)
    return known


def _check_indices(arrays: Arrays, rows: int, columns: int) -> None:
    """Compiled loops go by these indices, and the author of a model file may be a stranger."""
    ends, indices, (trained_rows, trained_columns) = arrays["indptr"], arrays["indices"], arrays["shape"].tolist()
    entries = len(indices) == len(arrays["values"]) == ends[-1] and len(ends) == trained_rows + 1 and ends[0] == 0
    if not entries or (np.diff(ends) < 0).any() or trained_rows > rows or trained_columns > columns:
        raise ValueError("the ratings have no consistent length")
    sides = [(indices, trained_columns)]
    sides += [(arrays[f"{when}.rows"], rows) for when in ("later", "removed")]
    sides += [(arrays[f"{when}.columns"], columns) for when in ("later", "removed")]
    if any(len(found) and not 0 <= found.min() <= found.max() < count for found, count in sides):
        raise ValueError("a rating is of a user or an item that does not exist")
