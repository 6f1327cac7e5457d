"""The fitted means: what is known of a row and of a column apart from each other. Cold ones have nothing else."""

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


class FittedMeans:
    """rating = overall + column deviation + row deviation, both damped with `damping` ratings of deviation zero.

    A column deviates from the overall mean, a row from what its columns get from everybody. Later ratings change
    both, but a row is always compared with the columns as they were in the training: so the order in which ratings
    come makes no difference.
    """

    def __init__(self, trained: SparseRows, trained_columns: SparseRows, damping: float) -> None:
        self._damping = damping
        self.overall = np.float32(trained.values.mean(dtype=np.float64)) if trained.nnz else np.float32(0)
        self._trained_columns = self._deviations(trained_columns, trained_columns.values - self.overall)
        self.column = self._trained_columns.copy()  # (columns,) as they stand now
        left = trained.values - self.overall
        left -= self._trained_columns[trained.indices]
        self.row = self._deviations(trained, left)  # (rows,) as they stand now

    def row_of(self, columns: Ints, ratings: Floats) -> np.float32:
        """The deviation of a row with these ratings."""
        usual = np.zeros(len(columns), np.float32)
        old = columns < len(self._trained_columns)
        usual[old] = self._trained_columns[columns[old]]
        return self._damped(ratings - self.overall - usual)

    def column_of(self, ratings: Floats) -> np.float32:
        """The deviation of a column with these ratings."""
        return self._damped(ratings - self.overall)

    def _damped(self, deviations: Floats) -> np.float32:
        total = len(deviations) + self._damping
        return np.float32(deviations.sum(dtype=np.float64) / total if total > 0 else 0)

    def _deviations(self, rows: SparseRows, values: Floats) -> Floats:
        totals = rows.counts() + self._damping
        found: Doubles = np.divide(rows.row_sums(values), totals, out=np.zeros(rows.rows), where=totals > 0)
        return found.astype(np.float32)
