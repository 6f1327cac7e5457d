"""Ratings -> what the network reads and predicts, which is what the biases leave over; and back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Arrays, Doubles, Floats, Ints, Longs
from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import KnownRatings, SparseRows
from cofill.exchange import total
from cofill.models.biases import Biases
from cofill.models.rng import Portion
from cofill.models.slopes import FeatureRegression

# The standard deviation that residuals are scaled to. The step size, the noise and the weight decay were found on
# MovieLens-1M, whose residuals have it where the ends of its rating scale are -1 and 1: other scales are brought here.
_SPREAD = 0.45
# The shorter rows are, the more it tells who has rated a row at all beside how: presence is multiplied by (240 / length
# of a typical row) ^ 0.25. The power was chosen on validation ratings of seven data sets, from 3 to 240 ratings a row.
_USUAL_LENGTH = 240.0
_PRESENCE_POWER = 0.25
# The damping of a row's mean where the paper's scaling is asked for and none is given.
_PAPERS_DAMPING = 7.0

NOWHERE = Portion(np.zeros(0, np.uint64), np.zeros(0, np.uint64), 0)
"""For rows that are read and not trained on: nothing is drawn for them."""


@dataclass(frozen=True)
class Matrix:
    """A matrix to be filled in: its known ratings, and what else is known of its rows and columns."""

    known: KnownRatings
    scale: Scale
    row_features: SideFeatures
    column_features: SideFeatures
    portion: Portion = NOWHERE


@dataclass(frozen=True)
class ValidationPart:
    """Ratings that no training sees, sorted by row."""

    entry_rows: Longs
    entry_columns: Ints
    ratings: Floats


def hold_out(rows: SparseRows, held_out: Longs) -> tuple[SparseRows, ValidationPart]:
    """The rows without the ratings at some places, and those ratings."""
    entry_rows = np.repeat(np.arange(rows.rows), rows.counts())
    validation = ValidationPart(entry_rows[held_out], rows.indices[held_out], rows.values[held_out])
    kept = np.ones(rows.nnz, np.bool_)
    kept[held_out] = False
    indptr = np.concatenate([[0], np.cumsum(np.bincount(entry_rows[kept], minlength=rows.rows))]).astype(np.int64)
    return SparseRows(indptr, rows.indices[kept], rows.values[kept], rows.columns), validation


@dataclass(frozen=True)
class ScaledRows:
    """Rows as the network reads them: scaled values, which are the targets, and the input scale of each row.

    The input layer reads input_scale * (value + presence). The more ratings a row has, the smaller its scale, so that
    the sums of long rows do not dwarf those of short ones (input scaling by row length). Presence shows which columns
    a row has rated, whatever the value. The last feature may mark rows of which no rating is shown.

    `known` are the ratings of the columns that this process has, `counts` those of all columns.
    """

    known: SparseRows
    input_scale: Floats  # (rows,)
    features: Floats  # (rows, P), P may be 0
    presence: float
    marks_empty: bool
    counts: Longs  # (rows,)
    portion: Portion
    ends: tuple[float, float]  # of the rating scale, scaled

    @property
    def ratings(self) -> int:
        """Of all columns."""
        return int(self.counts.sum())

    def take(self, chosen: Longs) -> Self:
        """The chosen rows, to be read."""
        return replace(
            self,
            known=self.known.take(chosen),
            input_scale=self.input_scale[chosen],
            features=self.features[chosen],
            counts=self.counts[chosen],
        )

    @cached_property
    def by_column(self) -> SparseRows:
        """The same ratings column by column."""
        return self.known.transpose()


@dataclass(frozen=True)
class Scaling:
    """x = (r - centre) / unit - deviation of the column - mean of the row.

    With the decoder "process" these are the biases with learned variances, and the unit is such that what they leave
    over has a standard deviation of 0.45. With the decoder "network" both ends of the rating scale become -1 and 1,
    and the row's mean alone is taken off, as in the paper.

    A row's mean is damped: `damping` ratings of the value expected from its features are added to it (shrinkage). The
    mean of a row with no ratings is that value; without features it is the overall mean. The input scale of a row
    with n ratings is (min(typical_length, length_cap) / n) ** length_power.

    With `marks_empty`, rows get one feature more: 1 where there is no rating to read, 0 elsewhere. A network that
    sees which columns are rated (presence) can tell by it that a new row has no ratings yet, not that it avoided all.
    """

    scale: Scale
    settings: CFNSettings
    typical_length: float
    marks_empty: bool
    centre: float
    unit: float
    damping: float
    overall: float  # mean of all ratings, scaled
    by_features: FeatureRegression  # what a row's mean exceeds the overall mean by
    columns: Floats  # (columns,) deviations, scaled
    means: Floats  # (rows,) scaled

    @classmethod
    def fit(
        cls,
        rows: SparseRows,
        biases: Biases | None,
        scale: Scale,
        settings: CFNSettings,
        features: Floats,
        portion: Portion,
    ) -> Self:
        """From the ratings and features of the rows: what their biases leave over; without biases, by the scale."""
        counts = portion.row_counts(rows)
        # Only cold rows in training teach the network what the mark means.
        about = scale, settings, typical_length(counts), settings.cold_ratio > 0 and features.shape[1] > 0
        if biases is not None:
            deviations = np.repeat(biases.rows.trained, rows.counts()) + biases.columns.trained[rows.indices]
            left = (rows.values - biases.overall - deviations).astype(np.float64)
            count, summed, squares = total(portion.exchange, len(left), left.sum(), float(left @ left))
            spread = max(squares / max(count, 1) - (summed / max(count, 1)) ** 2, 0.0) ** 0.5
            # Ratings that are all alike leave nothing over: then any unit will do.
            unit = spread / _SPREAD if spread > 1e-6 * (scale.high - scale.low) else (scale.high - scale.low) / 2
            return cls.of_biases(*about, biases, unit)
        centre, unit = _middle(scale)
        sums = portion.exchange.all_reduce(rows.row_sums(_scaled(rows.values, centre, unit)))
        overall = float(sums.sum() / max(counts.sum(), 1))
        surplus = (sums / np.maximum(counts, 1) - overall)[:, None]
        by_features = FeatureRegression.fit(features, surplus, counts, portion.row_keys)
        damping = _PAPERS_DAMPING if settings.mean_damping is None else settings.mean_damping
        means = damped(sums, counts, damping, overall + by_features.expected(features)[:, 0])
        nothing = np.zeros(rows.columns, np.float32)
        return cls(*about, centre, unit, damping, overall, by_features, nothing, means)

    @classmethod
    def of_biases(
        cls, scale: Scale, settings: CFNSettings, length: float, marks_empty: bool, biases: Biases, unit: float
    ) -> Self:
        """For the decoder "process"."""
        by_features = FeatureRegression(biases.rows.by_features.slope / np.float32(unit))
        columns, means = (part / np.float32(unit) for part in (biases.columns.trained, biases.rows.trained))
        about, damping = (scale, settings, length, marks_empty), biases.rows.damping
        return cls(*about, float(biases.overall), unit, damping, 0.0, by_features, columns, means)

    def state(self) -> tuple[Arrays, dict[str, float]]:
        """What a file keeps beside the biases: arrays and numbers."""
        numbers = {"typical_length": self.typical_length}
        if self.settings.decoder == "process":
            return {}, numbers | {"unit": self.unit}
        arrays: Arrays = {"row_means": self.means, "mean_by_features": self.by_features.slope}
        return arrays, numbers | {"overall_mean": self.overall, "mean_damping": self.damping}

    @classmethod
    def restored(
        cls, arrays: Arrays, numbers: Mapping[str, float], matrix: Matrix, settings: CFNSettings, biases: Biases
    ) -> Self:
        """From what a file kept; its own arrays are taken out of the others, which are those of the network."""
        marks_empty = len(arrays.get("input.side", ())) > matrix.row_features.width
        about = matrix.scale, settings, numbers["typical_length"], marks_empty
        if settings.decoder == "process":
            return cls.of_biases(*about, biases, numbers["unit"])
        by_features, means = FeatureRegression(arrays.pop("mean_by_features")), arrays.pop("row_means")
        nothing = np.zeros(matrix.known.trained.columns, np.float32)
        mean = numbers["mean_damping"], numbers["overall_mean"]
        return cls(*about, *_middle(matrix.scale), *mean, by_features, nothing, means)

    def mean_of(self, columns: Ints, ratings: Floats, features: Floats) -> np.float32:
        """The mean of a row that arrived later, from its ratings and its features (P,)."""
        total = self.without_column(columns, ratings).sum(dtype=np.float64)
        expected = self.overall + self.by_features.expected(features[None])[0]
        return np.float32(damped(np.array([total]), np.array([len(ratings)]), self.damping, expected)[0])

    def without_column(self, columns: Ints, ratings: Floats) -> Floats:
        """Scaled ratings (n,) with the deviation of their column taken off; the mean of their row is still in them.

        A column that came after the training has none: it is compared with an average one.
        """
        values = _scaled(ratings, self.centre, self.unit)
        old = columns < len(self.columns)
        if old.all():
            values -= self.columns[columns]
        else:
            values[old] -= self.columns[columns[old]]
        return values

    def down(
        self,
        rows: SparseRows,
        features: Floats,
        portion: Portion = NOWHERE,
        *,
        means: Floats | None = None,
        counts: Longs | None = None,
    ) -> ScaledRows:
        """Rows as the network reads them, from their features (rows, P) before any mark.

        They are the rows that were fitted, or others, whose `means` (rows,) are given. `counts` (rows,) are their
        ratings of all columns, where those are known already.
        """
        means = self.means if means is None else means
        counts = portion.row_counts(rows) if counts is None else counts
        values = self.without_column(rows.indices, rows.values)
        values -= np.repeat(means, rows.counts())
        known = SparseRows(rows.indptr, rows.indices, values, rows.columns)
        if self.marks_empty:
            features = np.column_stack([features, (counts == 0).astype(np.float32)])
        return ScaledRows(
            known,
            self.input_scale(counts),
            features,
            self.presence,
            self.marks_empty,
            counts,
            portion,
            ((self.scale.low - self.centre) / self.unit, (self.scale.high - self.centre) / self.unit),
        )

    @property
    def presence(self) -> float:
        """What is added to every known input; with the decoder "process" more where rows are short."""
        shorter = _USUAL_LENGTH / max(self.typical_length, 1.0) if self.settings.decoder == "process" else 1.0
        return float(self.settings.presence * shorter**_PRESENCE_POWER)

    def input_scale(self, counts: npt.NDArray[np.integer]) -> Floats:
        """(rows,): by what the inputs of rows with so many ratings are multiplied."""
        lengths = np.maximum(counts, 1) / max(min(self.typical_length, self.settings.length_cap), 1e-9)
        return np.asarray(lengths**-self.settings.length_power, np.float32)

    def down_values(self, ratings: Floats, means: Floats) -> Floats:
        """Single ratings, each with the mean of its row taken off; the deviation of its column is still in it."""
        return _scaled(ratings, self.centre, self.unit) - means

    def up(self, outputs: Floats, means: np.float32 | Floats) -> Floats:
        """Outputs of the network and what was taken off -> ratings, clipped to the scale."""
        return np.clip(self.unclipped(outputs, means), self.scale.low, self.scale.high)

    def unclipped(self, outputs: Floats, means: np.float32 | Floats) -> Floats:
        ratings: Floats = (outputs + means) * np.float32(self.unit) + np.float32(self.centre)
        return ratings


@dataclass(frozen=True)
class TrainingPart:
    """Ratings of a matrix to train on, all or some, and what is taken off them."""

    matrix: Matrix
    rows: SparseRows
    by_column: SparseRows
    biases: Biases
    scaling: Scaling

    @classmethod
    def of(cls, matrix: Matrix, rows: SparseRows, by_column: SparseRows, settings: CFNSettings) -> Self:
        features, portion = matrix.row_features.trained, matrix.portion
        about = {"row_features": features, "column_features": matrix.column_features.trained}
        biases = Biases.fit(rows, by_column, settings.mean_damping, **about, portion=portion)
        taken_off = biases if settings.decoder == "process" else None
        return cls(
            matrix, rows, by_column, biases, Scaling.fit(rows, taken_off, matrix.scale, settings, features, portion)
        )

    def scaled(self) -> ScaledRows:
        """As the network reads them."""
        return self.scaling.down(self.rows, self.matrix.row_features.trained, self.matrix.portion)


def _middle(scale: Scale) -> tuple[float, float]:
    """The centre and the unit with which both ends of the scale become -1 and 1."""
    return (scale.high + scale.low) / 2, (scale.high - scale.low) / 2


def _scaled(ratings: Floats, centre: float, unit: float) -> Floats:
    scaled: Floats = ratings - np.float32(centre)
    scaled /= np.float32(unit)  # in place: the ratings are among the largest arrays there are
    return scaled


def typical_length(counts: Longs) -> float:
    """The mean number of ratings of the rows that have any."""
    return int(counts.sum()) / max(int((counts > 0).sum()), 1)


def damped(sums: Doubles, counts: Longs, damping: float, expected: Floats | Doubles) -> Floats:
    """(n,): means as if there were `damping` ratings more, of what is expected; single precision."""
    total = counts + damping
    wanted = expected.astype(np.float64)
    means: Doubles = np.divide(sums + damping * wanted, total, out=wanted.copy(), where=total > 0)
    return np.asarray(means, np.float32)
