"""The known ratings of a model: those it was trained on, and the changes since.

At the end: the same as arrays for a model file, and back, checked.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]

# What is laid over the ratings of one row or column: a rating, or None where the one of the training is gone.
Overlay = dict[int, float | None]


@dataclass
class _Side:
    """The ratings row by row, or column by column."""

    trained: SparseRows
    count: int  # rows, or columns, by now
    overlays: dict[int, Overlay] = field(default_factory=dict)
    of_all: Longs | None = None  # how many ratings of the training each has, if more than those at hand


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
            if all_columns.row_counts.shape != (trained.rows,):
                raise ValueError("the counts of ratings are of another number of rows")
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

    def copied(self) -> "KnownRatings":
        """The same ratings, whose changes from now on are its own."""
        view = object.__new__(KnownRatings)
        view._of_rows, view._of_columns = (
            _Side(
                side.trained,
                side.count,
                {index: dict(overlay) for index, overlay in side.overlays.items()},
                side.of_all,
            )
            for side in (self._of_rows, self._of_columns)
        )
        view._spread = self._spread
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
        return _trained_counts(self._of_rows)

    def trained_column_counts(self) -> Longs:
        """(columns,): ratings of the training of each column, those in rows that are not at hand too."""
        return _trained_counts(self._of_columns)

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
        return self._lay(row, column, float(np.float32(rating)))

    def remove(self, row: int, column: int) -> bool:
        """The rating of a pair is unknown from now on; False if it was before."""
        return self._lay(row, column, None)

    def grow(self, rows: int, columns: int) -> None:
        """At least so many rows and columns, new ones without a rating."""
        self._of_rows.count = max(self.rows, rows)
        self._of_columns.count = max(self.columns, columns)

    def _lay(self, row: int, column: int, rating: float | None) -> bool:
        trained = self.trained_rating(row, column)
        if rating == self._of_rows.overlays.get(row, {}).get(column, trained):
            return False
        for overlays, one, other in ((self._of_rows.overlays, row, column), (self._of_columns.overlays, column, row)):
            if rating != trained:
                overlays.setdefault(one, {})[other] = rating
            else:
                del overlays[one][other]
                if not overlays[one]:
                    del overlays[one]
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
        return _overlaid(self.trained, row, self._of_rows.overlays.get(row))

    def column(self, column: int) -> tuple[Ints, Floats]:
        """Rows (ascending) and ratings of a column, all of them."""
        return _overlaid(self.trained_columns, column, self._of_columns.overlays.get(column))

    def contains(self, rows: Ints, columns: Ints) -> npt.NDArray[np.bool_]:
        """(n,): whether a rating of each pair is known; an index of -1 is never known."""
        base = self.trained
        keys = np.repeat(np.arange(base.rows, dtype=np.int64), base.counts()) * base.columns + base.indices
        wanted = rows.astype(np.int64) * base.columns + columns
        inside = (rows >= 0) & (rows < base.rows) & (columns >= 0) & (columns < base.columns)
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        found: npt.NDArray[np.bool_] = inside & (keys[place] == wanted) if len(keys) else np.zeros(len(rows), np.bool_)
        for position in np.flatnonzero(np.isin(rows, list(self._of_rows.overlays))).tolist():
            overlay, column = self._of_rows.overlays[int(rows[position])], int(columns[position])
            if column in overlay:
                found[position] = overlay[column] is not None
        return found

    # What differs from the training

    def row_as_trained(self, row: int) -> bool:
        """Whether a row has the ratings that it was trained on, and no others."""
        return row < self.trained.rows and row not in self._of_rows.overlays

    def column_as_trained(self, column: int) -> bool:
        """Whether a column has the ratings that it was trained on, and no others."""
        return column < self.trained.columns and column not in self._of_columns.overlays

    def changed_rows(self) -> Ints:
        """Rows (ascending) in which a rating was added, changed or removed."""
        return np.array(sorted(self._of_rows.overlays), np.int32)

    def changed_columns(self) -> Ints:
        """Columns (ascending) in which a rating was added, changed or removed."""
        return np.array(sorted(self._of_columns.overlays), np.int32)

    def changes_in_column(self, column: int) -> int:
        """How many ratings of a column were added, changed or removed."""
        return len(self._of_columns.overlays.get(column, ()))

    def later_in_row(self, row: int) -> dict[int, float]:
        """Columns and ratings that came later."""
        return _there(self._of_rows.overlays.get(row, {}))

    def later_in_column(self, column: int) -> dict[int, float]:
        """Rows and ratings that came later."""
        return _there(self._of_columns.overlays.get(column, {}))

    def later(self) -> tuple[Ints, Ints, Floats]:
        """Rows, columns and ratings of everything that came later; row by row, in the order of the columns."""
        triples = [
            (r, c, v)
            for r, overlay in sorted(self._of_rows.overlays.items())
            for c, v in sorted(_there(overlay).items())
        ]
        return (
            np.array([t[0] for t in triples], np.int32),
            np.array([t[1] for t in triples], np.int32),
            np.array([t[2] for t in triples], np.float32),
        )

    def removed(self) -> tuple[Ints, Ints]:
        """Rows and columns of the ratings of the training that are gone; row by row, in the order of the columns."""
        pairs = sorted((r, c) for r, overlay in self._of_rows.overlays.items() for c, v in overlay.items() if v is None)
        return np.array([r for r, _ in pairs], np.int32), np.array([c for _, c in pairs], np.int32)


def _trained_counts(side: _Side) -> Longs:
    """A copy, which the caller may change."""
    return side.trained.counts() if side.of_all is None else side.of_all.copy()


def _there(overlay: Overlay) -> dict[int, float]:
    return {index: rating for index, rating in overlay.items() if rating is not None}


def _overlaid(base: SparseRows, index: int, overlay: Overlay | None) -> tuple[Ints, Floats]:
    indices, values = base.row(index) if index < base.rows else (np.empty(0, np.int32), np.empty(0, np.float32))
    if not overlay:
        return indices, values
    kept = ~np.isin(indices, list(overlay))
    later = _there(overlay)
    merged = np.concatenate([indices[kept], np.array(list(later), np.int32)])
    ratings = np.concatenate([values[kept], np.array(list(later.values()), np.float32)])
    order = np.argsort(merged)
    return merged[order], ratings[order]


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


def known_from(
    arrays: Arrays, scale: Scale, rows_known: int, columns_known: int, all_rows: AllColumns | None = None
) -> KnownRatings:
    """Known ratings of so many rows and columns, from their arrays; ValueError where they make no sense.

    `all_rows`: what is known of the columns from the ratings of all rows, where the arrays have some of these.
    """
    rows, columns = (int(size) for size in arrays["shape"])
    trained = SparseRows(arrays["indptr"], arrays["indices"], arrays["values"], columns)
    if len(trained.indptr) != rows + 1 or (np.diff(trained.indptr) < 0).any():
        raise ValueError("the rows of the ratings are out of order")
    if not trained.indptr[0] == 0 or not trained.indptr[-1] == len(trained.indices) == len(trained.values):
        raise ValueError("the ratings have no consistent length")
    if trained.nnz and not 0 <= int(trained.indices.min()) <= int(trained.indices.max()) < trained.columns:
        raise ValueError("a rating points at a column that does not exist")
    within = np.diff(trained.indices.astype(np.int64)) > 0
    within[np.setdiff1d(trained.indptr[1:-1], [0, trained.nnz]) - 1] = True  # from one row to the next
    if not within.all():
        raise ValueError("the ratings of a row are out of order")
    for values in (trained.values, arrays["later.ratings"]):
        if values.dtype != np.float32 or not ((values >= scale.low) & (values <= scale.high)).all():
            raise ValueError("a rating is outside the scale")
    for name, most in (("later.rows", rows_known), ("later.columns", columns_known)):
        if ((arrays[name] < 0) | (arrays[name] >= most)).any():
            raise ValueError("a later rating points at a row or column that does not exist")
    if rows > rows_known or columns > columns_known:
        raise ValueError("there is another number of users and items than the ratings have")
    known = KnownRatings(trained.transpose(), trained, all_rows).transposed()
    for row, column, rating in zip(
        arrays["later.rows"].tolist(), arrays["later.columns"].tolist(), arrays["later.ratings"].tolist(), strict=True
    ):
        known.add(row, column, rating)
    _remove(known, arrays)
    known.grow(rows_known, columns_known)
    return known


def _remove(known: KnownRatings, arrays: Arrays) -> None:
    """Take out what is gone; a model that was written before ratings could go says nothing of it."""
    rows, columns = (arrays.get(f"removed.{side}", np.empty(0, np.int32)) for side in ("rows", "columns"))
    if len(rows) != len(columns) or not (rows.dtype.kind == columns.dtype.kind == "i"):
        raise ValueError("the removed ratings have no consistent length")
    later = set(zip(*(indices.tolist() for indices in known.later()[:2]), strict=True))
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        if row < 0 or (row, column) in later or not known.remove(row, column):
            raise ValueError("a rating is said to be removed that was not trained on")
