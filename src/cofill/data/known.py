"""The known ratings of a model that lives on: those it was trained on, and what has become of them since."""

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

# What is laid over the ratings of one row or column: a rating, or None where the one of the training is gone.
Overlay = dict[int, float | None]


class KnownRatings:
    """Rows and columns of ratings, with what came later laid over those of the training. Grows on both sides.

    Only what differs from the training is laid over it, so that a rating that came and went has left no trace.
    """

    def __init__(self, trained: SparseRows, trained_columns: SparseRows) -> None:
        """`trained_columns` are the same ratings, column by column."""
        self.trained = trained
        self.trained_columns = trained_columns
        self._by_row: dict[int, Overlay] = {}
        self._by_column: dict[int, Overlay] = {}
        self.rows = trained.rows
        self.columns = trained.columns

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
        self.rows = max(self.rows, rows)
        self.columns = max(self.columns, columns)

    def _lay(self, row: int, column: int, rating: float | None) -> bool:
        trained = self._trained_rating(row, column)
        if rating == self._by_row.get(row, {}).get(column, trained):
            return False
        for overlays, one, other in ((self._by_row, row, column), (self._by_column, column, row)):
            if rating != trained:
                overlays.setdefault(one, {})[other] = rating
            else:
                del overlays[one][other]
                if not overlays[one]:
                    del overlays[one]
        return True

    def _trained_rating(self, row: int, column: int) -> float | None:
        if row >= self.trained.rows:
            return None
        columns, ratings = self.trained.row(row)
        place = int(np.searchsorted(columns, column))
        return float(ratings[place]) if place < len(columns) and columns[place] == column else None

    # What is known now

    def row(self, row: int) -> tuple[Ints, Floats]:
        """Columns (ascending) and ratings of a row, all of them."""
        return _overlaid(self.trained, row, self._by_row.get(row))

    def column(self, column: int) -> tuple[Ints, Floats]:
        """Rows (ascending) and ratings of a column, all of them."""
        return _overlaid(self.trained_columns, column, self._by_column.get(column))

    def contains(self, rows: Ints, columns: Ints) -> npt.NDArray[np.bool_]:
        """(n,): whether a rating of each pair is known; an index of -1 is never known."""
        base = self.trained
        keys = np.repeat(np.arange(base.rows, dtype=np.int64), base.counts()) * base.columns + base.indices
        wanted = rows.astype(np.int64) * base.columns + columns
        inside = (rows >= 0) & (rows < base.rows) & (columns >= 0) & (columns < base.columns)
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        found: npt.NDArray[np.bool_] = inside & (keys[place] == wanted) if len(keys) else np.zeros(len(rows), np.bool_)
        for position in np.flatnonzero(np.isin(rows, list(self._by_row))).tolist():
            overlay, column = self._by_row[int(rows[position])], int(columns[position])
            if column in overlay:
                found[position] = overlay[column] is not None
        return found

    # What differs from the training

    def row_as_trained(self, row: int) -> bool:
        """Whether a row has the ratings that it was trained on, and no others."""
        return row < self.trained.rows and row not in self._by_row

    def column_as_trained(self, column: int) -> bool:
        """Whether a column has the ratings that it was trained on, and no others."""
        return column < self.trained.columns and column not in self._by_column

    def changed_rows(self) -> Ints:
        """Rows (ascending) in which a rating was added, changed or removed."""
        return np.array(sorted(self._by_row), np.int32)

    def changed_columns(self) -> Ints:
        """Columns (ascending) in which a rating was added, changed or removed."""
        return np.array(sorted(self._by_column), np.int32)

    def later_in_row(self, row: int) -> dict[int, float]:
        """Columns and ratings that came later."""
        return _there(self._by_row.get(row, {}))

    def later_in_column(self, column: int) -> dict[int, float]:
        """Rows and ratings that came later."""
        return _there(self._by_column.get(column, {}))

    def later(self) -> tuple[Ints, Ints, Floats]:
        """Rows, columns and ratings of everything that came later; row by row, in the order of the columns."""
        triples = [(r, c, v) for r, overlay in sorted(self._by_row.items()) for c, v in sorted(_there(overlay).items())]
        return (
            np.array([t[0] for t in triples], np.int32),
            np.array([t[1] for t in triples], np.int32),
            np.array([t[2] for t in triples], np.float32),
        )

    def removed(self) -> tuple[Ints, Ints]:
        """Rows and columns of the ratings of the training that are gone; row by row, in the order of the columns."""
        pairs = sorted((r, c) for r, overlay in self._by_row.items() for c, v in overlay.items() if v is None)
        return np.array([r for r, _ in pairs], np.int32), np.array([c for _, c in pairs], np.int32)


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
