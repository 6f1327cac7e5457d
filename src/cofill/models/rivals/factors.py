"""What a factorisation has learned, and the matrix that it fills in for ids old and new."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.data.known import KnownRatings
from cofill.data.ratings import Scale
from cofill.models.cfn.row_codes import grown
from cofill.models.means import FittedMeans

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


STARS = Scale(1, 5)
"""The scale that all rivals learn on, so that their settings mean the same whatever the ratings are."""


class Stars(NamedTuple):
    """From a rating scale to `STARS`, and back."""

    scale: Scale

    def down(self, ratings: Floats) -> Floats:
        low, high = self.scale
        stars: Floats = (ratings - np.float32(low)) * np.float32((STARS.high - STARS.low) / (high - low))
        stars += np.float32(STARS.low)
        return stars

    def up(self, stars: Floats) -> Floats:
        low, high = self.scale
        ratings: Floats = (stars - np.float32(STARS.low)) * np.float32((high - low) / (STARS.high - STARS.low))
        ratings += np.float32(low)
        return ratings


class Given(NamedTuple):
    """What is known of a user or an item: vectors (n, width) of the other side, and the ratings (n,) in stars."""

    vectors: Floats
    ratings: Floats


class Factors(ABC):
    """A vector for every user and for every item; a rating, in stars, is a function of two of them.

    Vectors hold everything that a prediction needs, biases too: (p, b, 1) . (q, 1, c) = p q + b + c. Those of ids
    without a rating and without features are zero and never asked for.
    """

    def __init__(self, users: Floats, items: Floats) -> None:
        """(users, width), (items, width)"""
        self.users = users
        self.items = items

    def scores(self, users: Floats, items: Floats) -> Floats:
        """(n, m) ratings of vectors (n, width) and (m, width)."""
        scores: Floats = users @ items.T
        return scores

    def pairs(self, users: Floats, items: Floats) -> Floats:
        """(n,) ratings of vectors (n, width), one by one."""
        ratings: Floats = np.einsum("ij,ij->i", users, items)
        return ratings

    @abstractmethod
    def user_from(self, items: Floats, ratings: Floats) -> Floats:
        """The vector (width,) of a user who gave these ratings (n,) to items with these vectors (n, width)."""

    @abstractmethod
    def item_from(self, users: Floats, ratings: Floats) -> Floats:
        """The vector (width,) of an item that has these ratings (n,) by users with these vectors (n, width)."""

    def user_moved(self, trained: Floats, before: Given, after: Given) -> Floats:
        """The vector (width,) of a trained user whose ratings were these and are those now."""
        return trained + self.user_from(*after) - self.user_from(*before)

    def item_moved(self, trained: Floats, before: Given, after: Given) -> Floats:
        """The vector (width,) of a trained item whose ratings were these and are those now."""
        return trained + self.item_from(*after) - self.item_from(*before)

    def tastes(self, vectors: Floats) -> Floats:
        """(n, any width): what of these vectors tells alike from unlike; biases do not."""
        return vectors

    def arrays(self) -> Arrays:
        """For the model file; what a subclass has learned beside the vectors it adds here."""
        return {"users": self.users, "items": self.items}

    @classmethod
    def restored(cls, arrays: Arrays) -> Self:
        return cls(**arrays)


class FactorMatrix:
    """Predictions of a factorisation: rows are users, columns are items.

    Ids that have no ratings and no features get the fitted means. Users and items whose ratings have changed are solved
    for anew while the other side stays as it was trained: one that was trained moves by as much as its closed form
    moves, because training need not have ended at the closed form; a new one gets the closed form itself. Users are
    compared with trained items only, items with users old and new: so the order in which ratings come, and what came
    and went, makes no difference.
    """

    def __init__(
        self,
        factors: Factors,
        known: KnownRatings,
        scale: Scale,
        damping: float,
        *,
        users_described: Flags | None = None,
        items_described: Flags | None = None,
    ) -> None:
        """`users_described` and `items_described` say who has features, which the trained vectors know of."""
        self.factors = factors
        self.known = known
        self.scale = scale
        self._stars = Stars(scale)
        self._means = FittedMeans(
            known.trained,
            known.trained_columns,
            damping,
            row_features=np.empty((known.trained.rows, 0), np.float32),
            column_features=np.empty((known.trained.columns, 0), np.float32),
        )
        self._trained_row_means, self._trained_column_means = self._means.row.copy(), self._means.column.copy()
        self.row_counts = known.trained.counts()
        self.column_counts = known.trained_columns.counts()
        self.users_described = _or_none(users_described, known.trained.rows)
        self.items_described = _or_none(items_described, known.trained.columns)
        self._row_trained = (self.row_counts > 0) | self.users_described
        self._column_trained = (self.column_counts > 0) | self.items_described
        self._row_known, self._column_known = self._row_trained.copy(), self._column_trained.copy()
        self._rows, self._columns = factors.users.copy(), factors.items.copy()  # as they stand now
        self._grow()
        self._take_in(known.changed_rows(), known.changed_columns())

    # What comes later

    def add(self, rows: Ints, columns: Ints, ratings: Floats) -> None:
        """Ratings that came later, of known rows and columns or of new ones; every prediction follows."""
        triples = zip(rows.tolist(), columns.tolist(), ratings.tolist(), strict=True)
        new = np.array([self.known.add(*triple) for triple in triples], np.bool_)
        self._grow()
        self._take_in(rows[new], columns[new])

    def remove(self, rows: Ints, columns: Ints) -> None:
        """The ratings of these pairs are unknown from now on, if they were not before; every prediction follows."""
        pairs = zip(rows.tolist(), columns.tolist(), strict=True)
        gone = np.array([self.known.remove(*pair) for pair in pairs], np.bool_)
        self._take_in(rows[gone], columns[gone])

    def _grow(self) -> None:
        rows, columns = self.known.rows, self.known.columns
        self.row_counts, self.column_counts = grown(self.row_counts, rows), grown(self.column_counts, columns)
        self._row_known, self._column_known = grown(self._row_known, rows), grown(self._column_known, columns)
        self._rows, self._columns = grown(self._rows, rows), grown(self._columns, columns)
        self._means.row, self._means.column = grown(self._means.row, rows), grown(self._means.column, columns)

    def _take_in(self, rows: Ints, columns: Ints) -> None:
        moved = set(columns.tolist())
        for row in np.unique(rows).tolist():
            self._take_in_row(row)
            if not _flag(self._row_trained, row):
                moved |= self.known.later_in_row(row).keys()  # their vectors are fitted to this row's
        for column in sorted(moved):
            self._take_in_column(column)

    def _take_in_row(self, row: int) -> None:
        items, ratings = self.known.row(row)
        self.row_counts[row] = len(items)
        heard = _flags(self._column_trained, items)
        self._row_known[row] = _flag(self.users_described, row) or bool(heard.any())
        if self.known.row_as_trained(row):
            self._means.row[row], self._rows[row] = self._trained_row_means[row], self.factors.users[row]
            return
        self._means.row[row] = self._means.row_of(items, ratings, np.empty(0, np.float32))
        now = self._of_user(items[heard], ratings[heard])
        if _flag(self._row_trained, row):
            before = self._of_user(*self.known.trained.row(row))
            self._rows[row] = self.factors.user_moved(self.factors.users[row], before, now)
        else:
            self._rows[row] = self.factors.user_from(*now)

    def _take_in_column(self, column: int) -> None:
        users, ratings = self.known.column(column)
        self.column_counts[column] = len(users)
        self._column_known[column] = _flag(self.items_described, column) or bool(self._heard_rows(users).any())
        if self.known.column_as_trained(column):
            self._means.column[column] = self._trained_column_means[column]
            self._columns[column] = self.factors.items[column]
            return
        self._means.column[column] = self._means.column_of(users, ratings, np.empty(0, np.float32))
        now = self._of_item(users, ratings)
        if _flag(self._column_trained, column):
            before = self._of_item(*self.known.trained_columns.row(column))
            self._columns[column] = self.factors.item_moved(self.factors.items[column], before, now)
        else:
            self._columns[column] = self.factors.item_from(*now)

    def _of_user(self, items: Ints, ratings: Floats) -> Given:
        return Given(self.factors.items[items], self._stars.down(ratings))

    def _of_item(self, users: Ints, ratings: Floats) -> Given:
        """Users as they were trained, or as they stand now if they came later; strangers say nothing."""
        heard = self._heard_rows(users)
        users, ratings = users[heard], ratings[heard]
        old = _flags(self._row_trained, users)
        vectors = self._rows[users]
        vectors[old] = self.factors.users[users[old]]
        return Given(vectors, self._stars.down(ratings))

    def _heard_rows(self, rows: Ints) -> Flags:
        """(n,): which of these are known, now or from the training; of those that lost all, the latter counts."""
        return self._row_known[rows] | _flags(self._row_trained, rows)

    # Predictions

    def row(self, row: int) -> Floats:
        """Every column (columns,) for one row."""
        scores: Floats = self.many_rows(np.array([row]))[0]
        return scores

    def column(self, column: int) -> Floats:
        """Every row (rows,) for one column."""
        scores: Floats = self.many_columns(np.array([column]))[0]
        return scores

    def new_row(self, columns: Ints, ratings: Floats) -> Floats:
        """Every column (columns,) for a row known only by these ratings."""
        means: Floats = self._means.overall + self._means.column
        means += self._means.row_of(columns, ratings, np.empty(0, np.float32))
        heard = _flags(self._column_trained, columns)
        if not heard.any():
            return means
        user = self.factors.user_from(*self._of_user(columns[heard], ratings[heard]))
        means[self._column_known] = self._scores(user[None], self._columns)[0, self._column_known]
        return means

    def new_column(self, rows: Ints, ratings: Floats) -> Floats:
        """Every row (rows,) for a column known only by these ratings."""
        means: Floats = self._means.overall + self._means.row
        means += self._means.column_of(rows, ratings, np.empty(0, np.float32))
        if not self._heard_rows(rows).any():
            return means
        item = self.factors.item_from(*self._of_item(rows, ratings))
        means[self._row_known] = self._scores(self._rows, item[None])[self._row_known, 0]
        return means

    def entries(self, rows: Ints, columns: Ints) -> Floats:
        """(n,) ratings at pairs; an index of -1 is an id that was never seen."""
        predicted = (
            self._means.overall
            + np.where(rows >= 0, self._means.row[rows], self._means.row_of_nobody())
            + np.where(columns >= 0, self._means.column[columns], self._means.column_of_nothing())
        )
        heard = np.flatnonzero((rows >= 0) & (columns >= 0) & self._row_known[rows] & self._column_known[columns])
        # A chunk of pairs of vectors stays below a hundred megabytes, however wide they are.
        size = max(25_000_000 // max(self._rows.shape[1], 1), 1)
        for first in range(0, len(heard), size):
            at = heard[first : first + size]
            predicted[at] = self._stars.up(self.factors.pairs(self._rows[rows[at]], self._columns[columns[at]]))
        return predicted

    def many_rows(self, rows: Longs) -> Floats:
        """(n, columns) for some rows at a time."""
        means = self._means.overall + self._means.column + self._means.row[rows][:, None]
        heard = self._row_known[rows][:, None] & self._column_known
        np.copyto(means, self._scores(self._rows[rows], self._columns), where=heard)
        return means

    def many_columns(self, columns: Longs) -> Floats:
        """(n, rows) for some columns at a time."""
        means = self._means.overall + self._means.column[columns][:, None] + self._means.row
        heard = self._column_known[columns][:, None] & self._row_known
        np.copyto(means, self._scores(self._rows, self._columns[columns]).T, where=heard)
        return means

    def _scores(self, rows: Floats, columns: Floats) -> Floats:
        return self._stars.up(self.factors.scores(rows, columns))

    # Representations

    def row_vectors(self) -> Floats:
        return self.factors.tastes(self._rows)

    def column_vectors(self) -> Floats:
        return self.factors.tastes(self._columns)

    def row_known(self) -> Flags:
        return self._row_known

    def column_known(self) -> Flags:
        return self._column_known


def _flag(flags: Flags, index: int) -> bool:
    return index < len(flags) and bool(flags[index])


def _flags(flags: Flags, indices: Ints) -> Flags:
    """(n,): the flags at these indices, of which some may have come later."""
    found = indices < len(flags)
    found[found] = flags[indices[found]]
    return found


def _or_none(described: Flags | None, count: int) -> Flags:
    return np.zeros(count, np.bool_) if described is None else described
