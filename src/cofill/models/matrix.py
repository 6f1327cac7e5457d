"""The matrix that a fitted model fills in: a prediction for any row and any column, hot, warm or cold.

Above this border everybody sees **users x items**. Below it code speaks of rows and columns: a network whose rows are
items is a `FilledMatrix` of items x users, and its `Transposed` view is what the recommender is given.

    Matrix           the interface: questions and changes
    ├── FilledMatrix   known ratings, fitted means, growth: an algorithm adds what differs (Completion, FactorMatrix)
    └── Transposed     a matrix with rows and columns exchanged
"""

from abc import ABC, abstractmethod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.models.biases import FittedMeans
from cofill.models.known import KnownRatings
from cofill.models.results import Given, Shares, replaced_shares

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Matrix(ABC):
    """Predictions in ratings, not clipped to the scale, that follow every added rating and feature.

    What is predicted depends on the ratings and features alone, not on the order in which they came, on what came and
    went, or on what was asked between.
    """

    # What there is

    @property
    @abstractmethod
    def known(self) -> KnownRatings: ...

    @property
    @abstractmethod
    def scale(self) -> Scale: ...

    @property
    @abstractmethod
    def row_features(self) -> SideFeatures: ...

    @property
    @abstractmethod
    def column_features(self) -> SideFeatures: ...

    @property
    @abstractmethod
    def row_counts(self) -> Longs:
        """(rows,): ratings of each row."""

    @property
    @abstractmethod
    def column_counts(self) -> Longs:
        """(columns,): ratings of each column."""

    @abstractmethod
    def row_known(self) -> Flags:
        """(rows,): of which rows anything is known that the algorithm can make use of."""

    @abstractmethod
    def column_known(self) -> Flags:
        """(columns,): of which columns anything is known that the algorithm can make use of."""

    @abstractmethod
    def row_vectors(self) -> Floats:
        """(rows, width): row embeddings: similar rows have similar vectors."""

    @abstractmethod
    def column_vectors(self) -> Floats:
        """(columns, width): column embeddings: similar columns have similar vectors."""

    # Questions

    @abstractmethod
    def row(self, row: int) -> Floats:
        """Every column (columns,) for one row."""

    @abstractmethod
    def column(self, column: int) -> Floats:
        """Every row (rows,) for one column."""

    @abstractmethod
    def new_row(self, columns: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        """Every column (columns,) for a row known only by these ratings and, where there are any, features (P,)."""

    @abstractmethod
    def new_column(self, rows: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        """Every row (rows,) for a column known only by these ratings and, where there are any, features (Q,)."""

    def new_row_at(self, columns: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        """(n,): as `new_row`, at some columns; an algorithm that need not fill in the others is quicker."""
        return self.new_row(columns, ratings, features)[asked]

    def new_column_at(self, rows: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        """(n,): as `new_column`, at some rows."""
        return self.new_column(rows, ratings, features)[asked]

    @abstractmethod
    def entries(self, rows: Ints, columns: Ints) -> Floats:
        """(n,) ratings at pairs; an index of -1 is an id that was never seen."""

    def half_widths(self, rows: Ints, columns: Ints, predicted: Floats) -> Floats | None:
        """(n,): how far to either side of predictions at pairs nine tenths of ratings are; None if that is unknown."""
        return None

    def new_row_half_widths(
        self, columns: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        """(n,): the same of a row known only by these ratings and features, at some columns."""
        return None

    def new_column_half_widths(
        self, rows: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        """(n,): the same of a column known only by these ratings and features, at some rows."""
        return None

    @abstractmethod
    def quickest_order(self, rows: Ints, columns: Ints) -> Longs:
        """(n,): the order of pairs in which `entries` is quickest, if it is called in parts."""

    @abstractmethod
    def many_rows(self, rows: Longs) -> Floats:
        """(n, columns) for some rows at a time."""

    @abstractmethod
    def many_columns(self, columns: Longs) -> Floats:
        """(n, rows) for some columns at a time."""

    @abstractmethod
    def row_shares(self, given: Given, columns: Ints) -> Shares:
        """How far the ratings and features of a row, known or new, move its predictions at these columns."""

    @abstractmethod
    def column_shares(self, given: Given, rows: Ints) -> Shares:
        """How far the ratings and features of a column, known or new, move its predictions at these rows."""

    # Changes

    @abstractmethod
    def add(self, rows: Ints, columns: Ints, ratings: Floats) -> None:
        """Add or replace ratings, of known or new rows and columns; predictions follow at once."""

    @abstractmethod
    def remove(self, rows: Ints, columns: Ints) -> None:
        """Remove the ratings of these pairs, if they are known; predictions follow at once."""

    @abstractmethod
    def grow(self, rows: int, columns: int) -> None:
        """Make room for at least so many rows and columns, new ones without a rating and without features."""

    @abstractmethod
    def describe_rows(self, rows: Ints, features: Floats) -> None:
        """Set the features of some rows, old or new: (n,), (n, P). NaN throughout: a row is no longer described."""

    @abstractmethod
    def describe_columns(self, columns: Ints, features: Floats) -> None:
        """Set the features of some columns, old or new: (n,), (n, Q), likewise."""

    def transposed(self) -> "Matrix":
        """The same matrix with rows and columns exchanged: a view."""
        return Transposed(self)


class FilledMatrix(Matrix):
    """Known ratings, fitted means and growth, which all algorithms share.

    An algorithm says how it predicts, and is told which rows and columns have changed (`_row_changed`,
    `_column_changed`). It calls `_catch_up` at the end of its `__init__`.
    """

    def __init__(
        self, known: KnownRatings, means: FittedMeans, row_features: SideFeatures, column_features: SideFeatures
    ) -> None:
        self._known = known
        self.means = means
        self._row_features, self._column_features = row_features, column_features
        self._row_counts, self._column_counts = known.trained_counts(), known.trained_column_counts()

    @property
    def known(self) -> KnownRatings:
        return self._known

    @property
    def row_features(self) -> SideFeatures:
        return self._row_features

    @property
    def column_features(self) -> SideFeatures:
        return self._column_features

    @property
    def row_counts(self) -> Longs:
        return self._row_counts

    @property
    def column_counts(self) -> Longs:
        return self._column_counts

    @property
    def rows(self) -> int:
        return self._known.rows

    @property
    def columns(self) -> int:
        return self._known.columns

    # Changes

    def add(self, rows: Ints, columns: Ints, ratings: Floats) -> None:
        triples = zip(rows.tolist(), columns.tolist(), ratings.tolist(), strict=True)
        new = np.array([self._known.add(*triple) for triple in triples], np.bool_)
        new_rows, new_columns = self._grow(self.rows, self.columns)
        self._take_in(np.concatenate([new_rows, rows[new]]), np.concatenate([new_columns, columns[new]]))

    def remove(self, rows: Ints, columns: Ints) -> None:
        pairs = zip(rows.tolist(), columns.tolist(), strict=True)
        gone = np.array([self._known.remove(*pair) for pair in pairs], np.bool_)
        self._take_in(rows[gone], columns[gone])

    def grow(self, rows: int, columns: int) -> None:
        self._take_in(*self._grow(rows, columns))

    def describe_rows(self, rows: Ints, features: Floats) -> None:
        new_rows, new_columns = self._grow(int(rows.max(initial=-1)) + 1, 0)
        for row, vector in zip(rows.tolist(), features, strict=True):
            self._row_features.describe(row, vector)
        self._take_in(np.concatenate([new_rows, rows]), new_columns)

    def describe_columns(self, columns: Ints, features: Floats) -> None:
        new_rows, new_columns = self._grow(0, int(columns.max(initial=-1)) + 1)
        for column, vector in zip(columns.tolist(), features, strict=True):
            self._column_features.describe(column, vector)
        self._take_in(new_rows, np.concatenate([new_columns, columns]))

    def _catch_up(self) -> None:
        """Apply the changes since the training: a model from a file may have been changed before it was saved."""
        known, of_rows, of_columns = self._known, self._row_features, self._column_features
        new_rows, new_columns = self._grow(len(of_rows.values), len(of_columns.values))
        self._take_in(
            np.concatenate([new_rows, known.changed_rows(), of_rows.later()[0]]),
            np.concatenate([new_columns, known.changed_columns(), of_columns.later()[0]]),
        )

    def _grow(self, rows: int, columns: int) -> tuple[Longs, Longs]:
        """Make room for at least so many rows and columns. Those that are new, to be taken in."""
        old_rows, old_columns = len(self._row_counts), len(self._column_counts)
        self._known.grow(rows, columns)
        self._row_features.grow(self.rows)
        self._column_features.grow(self.columns)
        self._row_counts = grown(self._row_counts, self.rows)
        self._column_counts = grown(self._column_counts, self.columns)
        self.means.row = grown(self.means.row, self.rows)
        self.means.column = grown(self.means.column, self.columns)
        self._make_room()
        return np.arange(old_rows, self.rows), np.arange(old_columns, self.columns)

    def _take_in(self, rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer]) -> None:
        """Bring up to date what depends on the ratings and features of these rows and columns."""
        known, means = self._known, self.means
        moved = set(columns.tolist())
        for row in np.unique(rows).tolist():
            others, ratings = known.row(row)
            self._row_counts[row] = len(others)
            if self.row_as_trained(row):
                means.row[row] = means.trained_row[row]
            else:
                means.row[row] = means.row_of(others, ratings, self._row_features.values[row])
            self._row_changed(row, others, ratings)
            if not self._row_was_trained(row):
                moved |= known.later_in_row(row).keys()  # what is known of these columns is fitted to this row
        for column in sorted(moved):
            others, ratings = known.column(column)
            self._column_counts[column] = len(others)
            if self.column_as_trained(column):
                means.column[column] = means.trained_column[column]
            else:
                means.column[column] = means.column_of(others, ratings, self._column_features.values[column])
            self._column_changed(column, others, ratings)

    def row_as_trained(self, row: int) -> bool:
        """Whether a row has the ratings and features that it was trained with, and no others."""
        return self._known.row_as_trained(row) and described_as_trained(self._row_features, row)

    def column_as_trained(self, column: int) -> bool:
        """Whether a column has the ratings and features that it was trained with, and no others."""
        return self._known.column_as_trained(column) and described_as_trained(self._column_features, column)

    @abstractmethod
    def _make_room(self) -> None:
        """The matrix has `rows` and `columns` now: arrays that have one entry for each must follow."""

    @abstractmethod
    def _row_changed(self, row: int, columns: Ints, ratings: Floats) -> None:
        """The row has these ratings, and its `row_features`, from now on."""

    @abstractmethod
    def _column_changed(self, column: int, rows: Ints, ratings: Floats) -> None:
        """The column has these ratings, and its `column_features`, from now on."""

    @abstractmethod
    def _row_was_trained(self, row: int) -> bool:
        """Whether the training knew anything of a row; columns are fitted to the others as they stand now."""

    # Questions

    def entries(self, rows: Ints, columns: Ints) -> Floats:
        means = self.means
        predicted: Floats = (
            means.overall
            + np.where(rows >= 0, means.row[rows], means.row_of_nobody())
            + np.where(columns >= 0, means.column[columns], means.column_of_nothing())
        )
        self._fill_entries(predicted, np.flatnonzero((rows >= 0) & (columns >= 0)), rows, columns)
        return predicted

    def quickest_order(self, rows: Ints, columns: Ints) -> Longs:
        return np.lexsort((columns, rows))  # row by row, so that each row is worked out once

    @abstractmethod
    def _fill_entries(self, predicted: Floats, seen: Longs, rows: Ints, columns: Ints) -> None:
        """Improve on the fitted means (n,) of pairs (n,), (n,) at the places `seen`, whose ids are both known."""

    def means_of_rows(self, rows: Longs) -> Floats:
        """(n, columns): what the fitted means say of some rows."""
        means: Floats = self.means.overall + self.means.column + self.means.row[rows][:, None]
        return means

    def means_of_columns(self, columns: Longs) -> Floats:
        """(n, rows): what the fitted means say of some columns."""
        means: Floats = self.means.overall + self.means.column[columns][:, None] + self.means.row
        return means

    def row_shares(self, given: Given, columns: Ints) -> Shares:
        return replaced_shares(self.new_row, given, columns)

    def column_shares(self, given: Given, rows: Ints) -> Shares:
        return replaced_shares(self.new_column, given, rows)


class Transposed(Matrix):
    """A matrix with rows and columns exchanged."""

    def __init__(self, of: Matrix) -> None:
        self._of = of

    @property
    def known(self) -> KnownRatings:
        return self._of.known.transposed()

    @property
    def scale(self) -> Scale:
        return self._of.scale

    @property
    def row_features(self) -> SideFeatures:
        return self._of.column_features

    @property
    def column_features(self) -> SideFeatures:
        return self._of.row_features

    @property
    def row_counts(self) -> Longs:
        return self._of.column_counts

    @property
    def column_counts(self) -> Longs:
        return self._of.row_counts

    def row_known(self) -> Flags:
        return self._of.column_known()

    def column_known(self) -> Flags:
        return self._of.row_known()

    def row_vectors(self) -> Floats:
        return self._of.column_vectors()

    def column_vectors(self) -> Floats:
        return self._of.row_vectors()

    def row(self, row: int) -> Floats:
        return self._of.column(row)

    def column(self, column: int) -> Floats:
        return self._of.row(column)

    def new_row(self, columns: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self._of.new_column(columns, ratings, features)

    def new_column(self, rows: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self._of.new_row(rows, ratings, features)

    def new_row_at(self, columns: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        return self._of.new_column_at(columns, ratings, features, asked)

    def new_column_at(self, rows: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        return self._of.new_row_at(rows, ratings, features, asked)

    def entries(self, rows: Ints, columns: Ints) -> Floats:
        return self._of.entries(columns, rows)

    def half_widths(self, rows: Ints, columns: Ints, predicted: Floats) -> Floats | None:
        return self._of.half_widths(columns, rows, predicted)

    def new_row_half_widths(
        self, columns: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        return self._of.new_column_half_widths(columns, ratings, features, asked, predicted)

    def new_column_half_widths(
        self, rows: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        return self._of.new_row_half_widths(rows, ratings, features, asked, predicted)

    def quickest_order(self, rows: Ints, columns: Ints) -> Longs:
        return self._of.quickest_order(columns, rows)

    def many_rows(self, rows: Longs) -> Floats:
        return self._of.many_columns(rows)

    def many_columns(self, columns: Longs) -> Floats:
        return self._of.many_rows(columns)

    def row_shares(self, given: Given, columns: Ints) -> Shares:
        return self._of.column_shares(given, columns)

    def column_shares(self, given: Given, rows: Ints) -> Shares:
        return self._of.row_shares(given, rows)

    def add(self, rows: Ints, columns: Ints, ratings: Floats) -> None:
        self._of.add(columns, rows, ratings)

    def remove(self, rows: Ints, columns: Ints) -> None:
        self._of.remove(columns, rows)

    def grow(self, rows: int, columns: int) -> None:
        self._of.grow(columns, rows)

    def describe_rows(self, rows: Ints, features: Floats) -> None:
        self._of.describe_columns(rows, features)

    def describe_columns(self, columns: Ints, features: Floats) -> None:
        self._of.describe_rows(columns, features)

    def transposed(self) -> Matrix:
        return self._of


def described_as_trained(features: SideFeatures, index: int) -> bool:
    """Whether a row or column has the features that it was trained with."""
    return (
        index < len(features.trained)
        and features.described[index] == features.trained_described[index]
        and np.array_equal(features.values[index], features.trained[index])
    )


_Array = TypeVar("_Array", Floats, Longs, Flags)


def grown(array: _Array, size: int) -> _Array:
    """The same with `size` entries along the first axis, new ones zero."""
    if len(array) >= size:
        return array
    larger = np.zeros((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
