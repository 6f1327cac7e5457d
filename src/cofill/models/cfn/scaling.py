"""Rating scale -> [-1, 1] with the row's mean taken off; and back."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from cofill.config import ScalingSettings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.feature_ridge import FeatureRegression

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ScaledRows:
    """Rows as the network reads them: scaled values, which are the targets, and the input scale of each row.

    The input layer reads input_scale * (value + presence). The more ratings a row has, the smaller its scale, so that
    the sums of long rows do not dwarf those of short ones (input scaling by row length). Presence shows which columns
    a row has rated, whatever the value. The last feature may mark rows of which no rating is shown.
    """

    known: SparseRows
    input_scale: Floats  # (rows,)
    features: Floats  # (rows, P), P may be 0
    presence: float = 0.0
    marks_empty: bool = False


@dataclass(frozen=True)
class Scaling:
    """x = (r - centre) / half - mean of the row; both ends of the rating scale become -1 and 1 before the mean.

    A row's mean is damped: `damping` ratings of the value expected from its features are added to it (shrinkage). The
    mean of a row with no ratings is that value; without features it is the overall mean. The input scale of a row
    with n ratings is (min(typical_length, length_cap) / n) ** length_power.

    With `marks_empty`, rows get one feature more: 1 where there is no rating to read, 0 elsewhere. A network that
    sees which columns are rated (presence) can tell by it that a new row has no ratings yet, not that it avoided all.
    """

    scale: Scale
    damping: float
    length_power: float
    length_cap: float
    presence: float
    typical_length: float
    overall: float  # mean of all ratings, scaled
    by_features: FeatureRegression  # what a row's mean exceeds the overall mean by
    means: Floats  # (rows,) scaled
    marks_empty: bool

    @classmethod
    def fit(
        cls,
        rows: SparseRows,
        scale: Scale,
        settings: ScalingSettings,
        features: Floats,
        *,
        damping: float,
        marks_empty: bool = False,
    ) -> Self:
        """From the ratings and the features (rows, P) of the rows; P may be 0. The damping may have been learned."""
        scaled = _to_unit(rows.values, scale)
        overall = float(scaled.mean(dtype=np.float64)) if len(scaled) else 0.0
        counts = rows.counts()
        sums = rows.row_sums(scaled)
        by_features = FeatureRegression.fit(features, (sums / np.maximum(counts, 1) - overall)[:, None], counts)
        expected = overall + by_features.expected(features)[:, 0]
        return cls(
            scale=scale,
            damping=damping,
            length_power=settings.length_power,
            length_cap=settings.length_cap,
            presence=settings.presence,
            typical_length=rows.nnz / max(int((counts > 0).sum()), 1),
            overall=overall,
            by_features=by_features,
            means=_damped(sums, counts, damping, expected),
            marks_empty=marks_empty,
        )

    def mean_of(self, ratings: Floats, features: Floats) -> np.float32:
        """The mean of a row that arrived later, from its ratings and its features (P,)."""
        total = _to_unit(ratings, self.scale).sum(dtype=np.float64)
        expected = self.overall + self.by_features.expected(features[None])[0]
        return np.float32(_damped(np.array([total]), np.array([len(ratings)]), self.damping, expected)[0])

    def down(self, rows: SparseRows, features: Floats) -> ScaledRows:
        """The rows that were fitted, as the network reads them."""
        return self.down_with(rows, self.means, features)

    def down_with(self, rows: SparseRows, means: Floats, features: Floats) -> ScaledRows:
        """Any rows, given their means (rows,) and features (rows, P), before any mark."""
        values = _to_unit(rows.values, self.scale)
        values -= np.repeat(means, rows.counts())
        known = SparseRows(rows.indptr, rows.indices, values, rows.columns)
        lengths = np.maximum(rows.counts(), 1) / max(min(self.typical_length, self.length_cap), 1e-9)
        input_scale = (lengths**-self.length_power).astype(np.float32)
        if self.marks_empty:
            features = np.column_stack([features, (rows.counts() == 0).astype(np.float32)])
        return ScaledRows(known, input_scale, features, self.presence, self.marks_empty)

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


def _damped(sums: Doubles, counts: Longs, damping: float, expected: Floats) -> Floats:
    total = counts + damping
    wanted = expected.astype(np.float64)
    means: Doubles = np.divide(sums + damping * wanted, total, out=wanted.copy(), where=total > 0)
    return np.asarray(means, np.float32)
