"""Rating scale -> [-1, 1] with the row's mean taken off; and back."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from cofill.config import ScalingSettings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ScaledRows:
    """Rows as the network reads them: scaled values, which are the targets, and how loud each row speaks.

    The input layer meets loudness times value. The more ratings a row has, the more quietly each is heard, so that
    the sums of popular rows do not drown out those of rare ones.
    """

    known: SparseRows
    loudness: Floats  # (rows,)


@dataclass(frozen=True)
class Scaling:
    """x = (r - centre) / half - mean of the row; both ends of the rating scale become -1 and 1 before the mean.

    A row's mean is damped: `damping` ratings of the overall mean are added to it. A row with no ratings has the
    overall mean. A row with n ratings has the loudness (typical_length / n) ** length_power.
    """

    scale: Scale
    damping: float
    length_power: float
    typical_length: float
    overall: float  # mean of all ratings, scaled
    means: Floats  # (rows,) scaled

    @classmethod
    def fit(cls, rows: SparseRows, scale: Scale, settings: ScalingSettings) -> Self:
        scaled = _to_unit(rows.values, scale)
        overall = float(scaled.mean(dtype=np.float64)) if len(scaled) else 0.0
        counts = rows.counts()
        return cls(
            scale=scale,
            damping=settings.mean_damping,
            length_power=settings.length_power,
            typical_length=rows.nnz / max(int((counts > 0).sum()), 1),
            overall=overall,
            means=_damped(rows.row_sums(scaled), counts, settings.mean_damping, overall),
        )

    def mean_of(self, ratings: Floats) -> np.float32:
        """The mean of a row that arrived later, from its ratings."""
        total = _to_unit(ratings, self.scale).sum(dtype=np.float64)
        return np.float32(_damped(np.array([total]), np.array([len(ratings)]), self.damping, self.overall)[0])

    def down(self, rows: SparseRows) -> ScaledRows:
        """The rows that were fitted, as the network reads them."""
        return self.down_with(rows, self.means)

    def down_with(self, rows: SparseRows, means: Floats) -> ScaledRows:
        """Any rows, given their means (rows,)."""
        values = _to_unit(rows.values, self.scale)
        values -= np.repeat(means, rows.counts())
        known = SparseRows(rows.indptr, rows.indices, values, rows.columns)
        lengths = np.maximum(rows.counts(), 1) / max(self.typical_length, 1e-9)
        return ScaledRows(known, (lengths**-self.length_power).astype(np.float32))

    def down_values(self, ratings: Floats, means: Floats) -> Floats:
        """Single ratings, each with the mean of its row."""
        return _to_unit(ratings, self.scale) - means

    def up(self, outputs: Floats, means: np.float32 | Floats) -> Floats:
        """Outputs of the network -> ratings, clipped to the scale."""
        return np.clip(self.unclipped(outputs, means), self.scale.low, self.scale.high)

    def unclipped(self, outputs: Floats, means: np.float32 | Floats) -> Floats:
        low, high = self.scale
        ratings: Floats = (outputs + means) * np.float32((high - low) / 2) + np.float32((high + low) / 2)
        return ratings


def _to_unit(ratings: Floats, scale: Scale) -> Floats:
    unit: Floats = ratings - np.float32((scale.high + scale.low) / 2)
    unit /= np.float32((scale.high - scale.low) / 2)  # in place: the ratings are among the largest arrays there are
    return unit


def _damped(sums: Doubles, counts: Longs, damping: float, overall: float) -> Floats:
    total = counts + damping
    means: Doubles = np.divide(sums + damping * overall, total, out=np.full(len(sums), overall), where=total > 0)
    return np.asarray(means, np.float32)
