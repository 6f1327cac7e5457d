"""The known ratings of a model that lives on: those it was trained on, and those that came later."""

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


class KnownRatings:
    """Rows and columns of ratings, with later ones laid over those of the training. Grows on both sides."""

    def __init__(self, trained: SparseRows, trained_columns: SparseRows) -> None:
        """`trained_columns` are the same ratings, column by column."""
        self.trained = trained
        self.trained_columns = trained_columns
        self._later_by_row: dict[int, dict[int, float]] = {}
        self._later_by_column: dict[int, dict[int, float]] = {}
        self.rows = trained.rows
        self.columns = trained.columns

    def add(self, row: int, column: int, rating: float) -> None:
        """A rating that came later; it takes the place of an earlier one of the same pair."""
        self._later_by_row.setdefault(row, {})[column] = rating
        self._later_by_column.setdefault(column, {})[row] = rating
        self.grow(row + 1, column + 1)

    def grow(self, rows: int, columns: int) -> None:
        """At least so many rows and columns, new ones without a rating."""
        self.rows = max(self.rows, rows)
        self.columns = max(self.columns, columns)

    def row(self, row: int) -> tuple[Ints, Floats]:
        """Columns (ascending) and ratings of a row, all of them."""
        return _overlaid(self.trained, row, self._later_by_row.get(row))

    def column(self, column: int) -> tuple[Ints, Floats]:
        """Rows (ascending) and ratings of a column, all of them."""
        return _overlaid(self.trained_columns, column, self._later_by_column.get(column))

    def contains(self, rows: Ints, columns: Ints) -> npt.NDArray[np.bool_]:
        """(n,): whether a rating of each pair is known; an index of -1 is never known."""
        base = self.trained
        keys = np.repeat(np.arange(base.rows, dtype=np.int64), base.counts()) * base.columns + base.indices
        wanted = rows.astype(np.int64) * base.columns + columns
        inside = (rows >= 0) & (rows < base.rows) & (columns >= 0) & (columns < base.columns)
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        found: npt.NDArray[np.bool_] = inside & (keys[place] == wanted) if len(keys) else np.zeros(len(rows), np.bool_)
        for position in np.flatnonzero(~found & np.isin(rows, list(self._later_by_row))).tolist():
            found[position] = int(columns[position]) in self._later_by_row[int(rows[position])]
        return found

    def later_in_row(self, row: int) -> dict[int, float]:
        """Columns and ratings that came later."""
        return self._later_by_row.get(row, {})

    def later_in_column(self, column: int) -> dict[int, float]:
        """Rows and ratings that came later."""
        return self._later_by_column.get(column, {})

    def changed_rows(self) -> list[int]:
        return list(self._later_by_row)

    def later(self) -> tuple[Ints, Ints, Floats]:
        """Rows, columns and ratings of everything that came later."""
        triples = [(r, c, v) for r, entries in self._later_by_row.items() for c, v in entries.items()]
        return (
            np.array([t[0] for t in triples], np.int32),
            np.array([t[1] for t in triples], np.int32),
            np.array([t[2] for t in triples], np.float32),
        )


def _overlaid(base: SparseRows, index: int, later: dict[int, float] | None) -> tuple[Ints, Floats]:
    indices, values = base.row(index) if index < base.rows else (np.empty(0, np.int32), np.empty(0, np.float32))
    if not later:
        return indices, values
    merged = dict(zip(indices.tolist(), values.tolist(), strict=True)) | later
    ordered = sorted(merged)
    return np.array(ordered, np.int32), np.array([merged[i] for i in ordered], np.float32)
