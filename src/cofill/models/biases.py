"""Biases (baseline predictor): overall mean plus deviations of users and items, of learned variance."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from cofill.arrays import Arrays, Doubles, Floats, Ints, Longs, grown
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange, total
from cofill.models.rng import Portion
from cofill.models.slopes import FeatureRegression, Slopes, fit_slopes

# With a damping that is given: what is left to settle after this many turns is below a thousandth of a rating.
_TURNS = 4
# With learned ones: turns go on until the dampings move by less than this share.
_SETTLED = 1e-4
_MOST_TURNS = 100
# Where learning begins, and where it stays if ratings tell nothing: none, all alike, or never two of a row.
_USUAL_DAMPING = 7.0
_LARGEST_DAMPING = 1e6
# Nothing is divided by zero: the variance of all ratings is at least this, each part at least this share of it.
_LEAST_SPREAD = 1e-12
_LEAST_SHARE = 1e-6


@dataclass
class Deviations:
    """Of the rows, or of the columns: as they were fitted, and as they stand now."""

    trained: Floats  # (n,)
    damping: float
    variance: float  # of what they exceed the expected ones by
    by_features: FeatureRegression
    now: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.trained.copy()

    def of(self, surplus: Floats, features: Floats) -> np.float32:
        """Of one whose ratings exceed what is usual by so much (n,), and that has these features."""
        expected, total = self.expected(features[None])[0], len(surplus) + self.damping
        sums = surplus.sum(dtype=np.float64) + self.damping * expected
        return np.float32(sums / total if total > 0 else expected)

    def expected(self, features: Floats) -> Floats:
        """(n,): by features (n, P) alone."""
        return self.by_features.expected(features)[:, 0]

    def of_nobody(self) -> np.float32:
        """Of one of which nothing is known, neither a rating nor a feature."""
        return np.float32(self.by_features.slope[-1, 0])

    def at(self, places: Ints) -> Floats:
        """(n,): as they stand now; an index of -1 is an id that was never seen."""
        return np.where(places >= 0, self.now[places], self.of_nobody())

    def usual(self, places: Ints) -> Floats:
        """(n,): in the training; of what came later none."""
        usual = np.zeros(len(places), np.float32)
        old = places < len(self.trained)
        usual[old] = self.trained[places[old]]
        return usual


@dataclass
class Biases:
    """rating = overall + row deviation + column deviation + noise, each fitted to what the others leave over.

    Deviations are damped (shrunk). That of a row is sum(rating - overall - column deviation) / (n + damping): as if
    it had `damping` ratings more, which say what its features lead one to expect. That is zero where there are none,
    and a cold one has nothing else. Columns have a damping of their own.

    With features, `slopes` add how they go together: what is predicted then is that of a linear mixed model, of which
    these deviations have the main effects alone. A network learns what deviations leave over.

    Dampings that are not given are learned (empirical Bayes): deviations and noise are taken to be normal, their
    variances are found by mean-field EM, and the damping of rows is noise / their variance. So the more rows differ,
    the less they are damped. Variances are of what deviations exceed the expected ones by, which `slopes` have found.

    Later ratings change both, but a row is always compared with the columns as they were in the training, and a column
    with the rows: so the order in which ratings come makes no difference.
    """

    overall: np.float32
    noise: float
    rows: Deviations
    columns: Deviations
    slopes: Slopes | None

    @classmethod
    def fit(
        cls,
        trained: SparseRows,
        trained_columns: SparseRows,
        damping: float | None = None,
        *,
        row_features: Floats,
        column_features: Floats,
        portion: Portion | None = None,
    ) -> Self:
        """Features (rows, P) and (columns, Q); P and Q may be 0. A damping that is given is that of both sides."""
        portion = Portion.of(trained) if portion is None else portion
        together = portion.exchange
        count, summed = total(together, trained.nnz, trained.values.sum(dtype=np.float64))
        overall = np.float32(summed / max(count, 1))
        apart = trained.values.astype(np.float64) - summed / max(count, 1)
        spread = total(together, float(apart @ apart))[0] / max(count, 1)
        del apart
        constant = spread <= _LEAST_SPREAD * max(1.0, float(overall) ** 2)
        slopes = None
        main_effects = np.zeros(row_features.shape[1] + 1), np.zeros(column_features.shape[1] + 1)
        if (row_features.shape[1] or column_features.shape[1]) and not constant:
            about = trained, trained_columns, row_features, column_features
            slopes = fit_slopes(*about, overall=float(overall), spread=spread, damping=damping, portion=portion)
            main_effects = slopes.main_effects()
        by_features = [FeatureRegression(slope[:, None].astype(np.float32)) for slope in main_effects]
        # Of a row every process sees some ratings, of a column one process sees all.
        expected = (
            by.expected(features)[:, 0].astype(np.float64)
            for by, features in zip(by_features, (row_features, column_features), strict=True)
        )
        rows = _Side(trained, next(expected), overall, ratings=together, ids=ALONE)
        columns = _Side(trained_columns, next(expected), overall, ratings=ALONE, ids=together)
        if damping is None and constant:
            damping = _USUAL_DAMPING
        spread = max(spread, _LEAST_SPREAD)
        learned = _learn(rows, columns, spread, damping)
        of_rows, of_columns = (
            Deviations(side.deviations.astype(np.float32), side.damping, variance, by)
            for side, variance, by in zip((rows, columns), (learned.row, learned.column), by_features, strict=True)
        )
        return cls(overall, learned.noise, of_rows, of_columns, slopes)

    def arrays(self) -> Arrays:
        """As they were fitted, for a model file."""
        rows, columns = self.rows, self.columns
        numbers = (self.overall, self.noise, rows.variance, columns.variance, rows.damping, columns.damping)
        return {
            "numbers": np.array(numbers, np.float64),
            "rows": rows.trained,
            "columns": columns.trained,
            "by_row_features": rows.by_features.slope,
            "by_column_features": columns.by_features.slope,
            **(self.slopes.arrays() if self.slopes is not None else {}),
        }

    @classmethod
    def restored(cls, arrays: Arrays, row_features: Floats, column_features: Floats) -> Self:
        """From what a file kept, and the features of the training."""
        overall, noise, row_variance, column_variance, row_damping, column_damping = arrays["numbers"].tolist()
        rows = Deviations(arrays["rows"], row_damping, row_variance, FeatureRegression(arrays["by_row_features"]))
        by_columns = FeatureRegression(arrays["by_column_features"])
        columns = Deviations(arrays["columns"], column_damping, column_variance, by_columns)
        kept = "coefficients" in arrays
        slopes = Slopes.restored(arrays, overall, row_features, column_features) if kept else None
        return cls(np.float32(overall), noise, rows, columns, slopes)

    def transposed(self) -> Self:
        """With rows and columns exchanged: a view, so that each sees every change of the other."""
        slopes = None if self.slopes is None else self.slopes.transposed()
        return replace(self, rows=self.columns, columns=self.rows, slopes=slopes)

    # What is predicted by biases alone

    def at_rows(self, rows: Longs) -> Floats:
        """(n, columns): ratings of some rows."""
        if self.slopes is not None:
            return self.slopes.of(self.slopes.rows.inputs[rows], self.slopes.rows.effects[rows])
        found: Floats = self.overall + self.columns.now + self.rows.now[rows][:, None]
        return found

    def at_pairs(self, rows: Ints, columns: Ints) -> Floats:
        """(n,): ratings at pairs; an index of -1 is an id that was never seen."""
        if self.slopes is not None:
            return self.slopes.at_pairs(rows, columns)
        found: Floats = self.overall + self.rows.at(rows) + self.columns.at(columns)
        return found

    def of_new_row(self, columns: Ints, ratings: Floats, features: Floats, asked: Ints | slice) -> Floats:
        """(n,): ratings, at the columns that are asked for, of a row known only by these ratings and features (P,)."""
        if self.slopes is not None:
            inputs, effects = self.slopes.row_of(columns, ratings, features)
            return np.asarray(self.slopes.of(inputs[None], effects[None], asked)[0])
        found: Floats = self.overall + self.columns.now[asked] + self.row_of(columns, ratings, features)
        return found

    def row_of(self, columns: Ints, ratings: Floats, features: Floats) -> np.float32:
        """The deviation of a row with these ratings and features (P,)."""
        return self.rows.of(self.surplus(columns, ratings), features)

    def surplus(self, columns: Ints, ratings: Floats) -> Floats:
        """(n,): what ratings of a row exceed the usual ones of their columns by."""
        surplus: Floats = ratings - self.overall - self.columns.usual(columns)
        return surplus

    def shares(self, columns: Ints, ratings: Floats, features: Floats, asked: Ints) -> tuple[Doubles, Doubles]:
        """(m, n) and (m, P): what the ratings and features of a row add to its predictions at m columns."""
        if self.slopes is not None:
            return self.slopes.shares(columns, ratings, features, asked)
        surplus = self.surplus(columns, ratings)
        by_rating = surplus.astype(np.float64) / max(len(ratings) + self.rows.damping, 1)
        return np.tile(by_rating, (len(asked), 1)), np.zeros((len(asked), len(features)))

    # Changes

    def grow(self, rows: int, columns: int) -> None:
        """Make room for at least so many rows and columns."""
        self.rows.now, self.columns.now = grown(self.rows.now, rows), grown(self.columns.now, columns)
        if self.slopes is not None:
            self.slopes.rows.grow(rows)
            self.slopes.columns.grow(columns)

    def set_row(self, row: int, columns: Ints, ratings: Floats, features: Floats) -> None:
        """A row has other ratings or features than before."""
        self.rows.now[row] = self.row_of(columns, ratings, features)
        if self.slopes is not None:
            side = self.slopes.rows
            side.inputs[row], side.effects[row] = self.slopes.row_of(columns, ratings, features)

    def reset_row(self, row: int) -> None:
        """A row is as it was trained."""
        self.rows.now[row] = self.rows.trained[row]
        if self.slopes is not None:
            side = self.slopes.rows
            side.inputs[row], side.effects[row] = side.trained_inputs[row], side.trained_effects[row]


@dataclass(frozen=True)
class _Variances:
    """The variances that the model is made of."""

    noise: float
    row: float
    column: float

    @classmethod
    def at_first(cls, spread: float) -> "_Variances":
        """Parts of the variance of all ratings, with the usual dampings."""
        part = spread / (_USUAL_DAMPING + 2)
        return cls(_USUAL_DAMPING * part, part, part)


class _Side:
    """The rows of a matrix and their deviations while these are fitted; of the transposed matrix, the columns'.

    Over which processes the ratings of a row are spread, and over which the rows are, `ratings` and `ids` tell.
    """

    def __init__(
        self, known: SparseRows, expected: Doubles, overall: np.float32, *, ratings: Exchange, ids: Exchange
    ) -> None:
        """`expected` (rows,) are deviations by features."""
        self._known, self._expected, self._overall = known, expected, float(overall)
        self._together, self._ids = ratings, ids
        self._counts = ratings.all_reduce(known.counts())
        self.rated = self._counts > 0
        rated, self.ratings = total(ids, self.rated.sum(), self._counts.sum())
        self.rated_count = int(rated)
        self.damping = _USUAL_DAMPING
        self.deviations: Doubles = np.zeros(known.rows)
        self.error = 0.0  # sum of the squares of what is left of all ratings

    def fit(self, others: Doubles) -> None:
        """The damped deviation of each row, given those of the columns."""
        known, counts = self._known, self._counts
        sums, squares = np.zeros(known.rows), np.zeros(known.rows)
        add_up(known.indptr, known.indices, known.values, self._overall, others, sums, squares)
        self._together.all_reduce(sums)
        self._together.all_reduce(squares)
        totals = counts + self.damping
        found = np.divide(sums + self.damping * self._expected, totals, out=self._expected.copy(), where=totals > 0)
        self.deviations = found
        self.error = max(float((squares - 2 * found * sums + counts * found**2).sum()), 0.0)

    def _surprise(self) -> Doubles:
        """(rated rows,): what deviations exceed the expected ones by."""
        surprise: Doubles = (self.deviations - self._expected)[self.rated]
        return surprise

    def surprise(self) -> float:
        """The sum of what deviations exceed the expected ones by."""
        return total(self._ids, self._surprise().sum())[0]

    def _uncertainty(self, noise: float) -> Doubles:
        """(rated rows,): the posterior variance of their deviations."""
        uncertainty: Doubles = np.divide(noise, self._counts[self.rated] + self.damping, dtype=np.float64)
        return uncertainty

    def variance(self, noise: float) -> float:
        """Of what deviations exceed the expected ones by.

        One row more, with the usual damping, keeps this away from zero where there are next to no rows to learn from.
        """
        known = total(self._ids, (self._surprise() ** 2 + self._uncertainty(noise)).sum())[0]
        return (known + noise / _USUAL_DAMPING) / (self.rated_count + 1)

    def uncertainty_of_ratings(self, noise: float) -> float:
        """The sum over all ratings of the posterior variance of their row's deviation."""
        return total(self._ids, (self._counts[self.rated] * self._uncertainty(noise)).sum())[0]


def _learn(rows: _Side, columns: _Side, spread: float, damping: float | None) -> _Variances:
    """Fit both sides, and their dampings too, unless these are given."""
    variances = _Variances.at_first(spread)
    if damping is not None:
        rows.damping = columns.damping = damping
    for _ in range(_MOST_TURNS if damping is None else _TURNS):
        _turn(rows, columns)
        variances = _variances_of(rows, columns, variances.noise, spread)
        if damping is not None:
            continue
        found = [min(variances.noise / part, _LARGEST_DAMPING) for part in (variances.row, variances.column)]
        if max(abs(rows.damping / found[0] - 1), abs(columns.damping / found[1] - 1)) < _SETTLED:
            return variances  # with the dampings that deviations were fitted with
        rows.damping, columns.damping = found
    if damping is None:
        rows.fit(columns.deviations)
    return variances


def _turn(rows: _Side, columns: _Side) -> None:
    columns.fit(rows.deviations)
    # What could be added to all columns and taken off all rows would take many turns to find its place.
    row_weight, column_weight = (rows.damping, columns.damping) if rows.damping + columns.damping > 0 else (1.0, 1.0)
    shift = row_weight * rows.surprise() - column_weight * columns.surprise()
    columns.deviations[columns.rated] += shift / max(
        row_weight * rows.rated_count + column_weight * columns.rated_count, 1e-9
    )
    rows.fit(columns.deviations)


def _variances_of(rows: _Side, columns: _Side, noise: float, spread: float) -> _Variances:
    """The variances under which deviations that are that large, and that uncertain, are likeliest."""
    left = rows.error + rows.uncertainty_of_ratings(noise) + columns.uncertainty_of_ratings(noise)
    # Where as much is fitted as there are ratings, all that is left over is uncertainty, which would grow and grow.
    parts = (min(left / max(rows.ratings, 1), spread), rows.variance(noise), columns.variance(noise))
    return _Variances(*(max(part, _LEAST_SHARE * spread) for part in parts))


@compiled
def add_up(
    indptr: Longs, indices: Ints, values: Floats, overall: float, others: Doubles, sums: Doubles, squares: Doubles
) -> None:
    """The sums and sums of squares, row by row, of what the overall mean and the columns' deviations leave over."""
    for row in range(len(indptr) - 1):
        total = square = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            left = values[at] - overall - others[indices[at]]
            total += left
            square += left * left
        sums[row] = total
        squares[row] = square
