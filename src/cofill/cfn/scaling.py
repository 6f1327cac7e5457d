"""Rating scale -> [-1, 1] with the row's mean taken off; and back."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scaling:
    """x = (r - centre) / half - mean of the row; both ends of the rating scale become -1 and 1 before the mean.

    A row's mean is damped: `damping` ratings of the overall mean are added to it. A row with no ratings has the
    overall mean.
    """

    scale: Scale
    damping: float
    overall: float  # mean of all ratings, scaled
    means: Floats  # (rows,) scaled

    @classmethod
    def fit(cls, rows: SparseRows, scale: Scale, damping: float) -> Self:
        blank = cls(scale, damping, 0.0, np.zeros(rows.rows, np.float32))
        scaled = blank._to_unit(rows.values)
        overall = float(scaled.mean(dtype=np.float64)) if len(scaled) else 0.0
        counts = rows.counts()
        sums = np.zeros(rows.rows)
        filled = counts > 0  # reduceat has no notion of an empty row
        if filled.any():
            sums[filled] = np.add.reduceat(scaled, rows.indptr[:-1][filled], dtype=np.float64)
        return replace(blank, overall=overall, means=blank._damped(sums, counts, overall))

    def mean_of(self, ratings: Floats) -> np.float32:
        """The mean of a row that arrived later, from its ratings."""
        sums = self._to_unit(ratings).sum(dtype=np.float64)
        return np.float32(self._damped(np.array([sums]), np.array([len(ratings)]), self.overall)[0])

    def _damped(self, sums: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], overall: float) -> Floats:
        total = np.maximum(counts + self.damping, np.finfo(np.float64).tiny)
        means = np.where(counts + self.damping > 0, (sums + self.damping * overall) / total, overall)
        return means.astype(np.float32)

    def down(self, rows: SparseRows) -> SparseRows:
        """The rows as the network reads them."""
        values = self._to_unit(rows.values)
        values -= np.repeat(self.means, rows.counts())
        return SparseRows(rows.indptr, rows.indices, values, rows.columns)

    def down_values(self, ratings: Floats, mean: np.float32 | Floats) -> Floats:
        return self._to_unit(ratings) - mean

    def up(self, outputs: Floats, means: np.float32 | Floats) -> Floats:
        """Outputs of the network -> ratings, clipped to the scale."""
        return np.clip(self.unclipped(outputs, means), self.scale.low, self.scale.high)

    def unclipped(self, outputs: Floats, means: np.float32 | Floats) -> Floats:
        low, high = self.scale
        ratings: Floats = (outputs + means) * np.float32((high - low) / 2) + np.float32((high + low) / 2)
        return ratings

    def _to_unit(self, ratings: Floats) -> Floats:
        low, high = self.scale
        unit: Floats = ratings - np.float32((high + low) / 2)
        unit /= np.float32((high - low) / 2)  # in place: the ratings are among the largest arrays there are
        return unit
