"""The fitted means (baseline predictor): overall mean plus row and column deviations."""

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows
from cofill.models.feature_ridge import FeatureRegression

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

# Rows and columns in turn: what is left to settle after this many turns is below a thousandth of a rating.
_TURNS = 4


class FittedMeans:
    """rating = overall + row deviation + column deviation, each fitted to what the other leaves over.

    Both deviations are damped with `damping` ratings of what the features of the row or column lead one to expect,
    which is zero where there are none. A cold one has nothing else.

    Later ratings change both, but a row is always compared with the columns as they were in the training, and a column
    with the rows: so the order in which ratings come makes no difference.
    """

    def __init__(
        self,
        trained: SparseRows,
        trained_columns: SparseRows,
        damping: float,
        *,
        row_features: Floats,
        column_features: Floats,
    ) -> None:
        """Features (rows, P) and (columns, Q); P and Q may be 0."""
        self._damping = damping
        self.overall = np.float32(trained.values.mean(dtype=np.float64)) if trained.nnz else np.float32(0)
        self.trained_row = np.zeros(trained.rows, np.float32)
        rated_rows, rated_columns = trained.counts() > 0, trained_columns.counts() > 0
        row_surprise = np.zeros(trained.rows)
        for _ in range(_TURNS):
            self.by_column_features, self.trained_column, column_surprise = self._fit(
                trained_columns, self.trained_row, column_features
            )
            # What could be added to all columns and taken off all rows would take many turns to find its place.
            shift = row_surprise[rated_rows].sum() - column_surprise[rated_columns].sum()
            self.trained_column[rated_columns] += shift / max(rated_rows.sum() + rated_columns.sum(), 1)
            self.by_row_features, self.trained_row, row_surprise = self._fit(trained, self.trained_column, row_features)
        self.row, self.column = self.trained_row.copy(), self.trained_column.copy()  # as they stand now

    def row_of(self, columns: Ints, ratings: Floats, features: Floats) -> np.float32:
        """The deviation of a row with these ratings and features (P,)."""
        return self._deviation(columns, ratings, self.trained_column, self.by_row_features, features)

    def column_of(self, rows: Ints, ratings: Floats, features: Floats) -> np.float32:
        """The deviation of a column with these ratings and features (Q,)."""
        return self._deviation(rows, ratings, self.trained_row, self.by_column_features, features)

    def row_of_nobody(self) -> np.float32:
        """The deviation of a row of which nothing is known, neither a rating nor a feature."""
        return np.float32(self.by_row_features.slope[-1, 0])

    def column_of_nothing(self) -> np.float32:
        """The deviation of a column of which nothing is known, neither a rating nor a feature."""
        return np.float32(self.by_column_features.slope[-1, 0])

    def _deviation(
        self, others: Ints, ratings: Floats, trained: Floats, by_features: FeatureRegression, features: Floats
    ) -> np.float32:
        usual = np.zeros(len(others), np.float32)
        old = others < len(trained)
        usual[old] = trained[others[old]]
        total = len(ratings) + self._damping
        expected = by_features.expected(features[None])[0, 0]
        sums = (ratings - self.overall - usual).sum(dtype=np.float64) + self._damping * expected
        return np.float32(sums / total if total > 0 else expected)

    def _fit(self, rows: SparseRows, others: Floats, features: Floats) -> tuple[FeatureRegression, Floats, Doubles]:
        """How deviations follow features, the damped deviation of each row (rows,), given those of its columns, and
        what it exceeds the expected one by.
        """
        sums, counts = rows.row_sums(rows.values - self.overall - others[rows.indices]), rows.counts()
        by_features = FeatureRegression.fit(features, (sums / np.maximum(counts, 1))[:, None], counts)
        expected = by_features.expected(features)[:, 0].astype(np.float64)
        totals = counts + self._damping
        found: Doubles = np.divide(sums + self._damping * expected, totals, out=expected.copy(), where=totals > 0)
        return by_features, found.astype(np.float32), found - expected
