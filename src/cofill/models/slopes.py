"""What is expected from side features: ridge regression, and slopes.

Slopes are how users differ in what they make of features of items, and the reverse (a linear mixed model).

With f = [1, features of a row] and g = [1, features of a column], each less its mean over ratings:

    rating = overall + g'Bf + g'd + f'e + noise,   d ~ N(0, S) of a row, e ~ N(0, O) of a column, B_kl ~ N(0, tau)

B has the main effects of features, in its first row and column, and their interactions. It is estimated with d, and
then once more with e, integrated out; S, O, tau and the noise by mean-field EM (empirical Bayes). So a row without
ratings has what its features lead one to expect of each column, and one with ratings deviates from that.

Of a row with n ratings, K = sum g g' and h = sum g (rating - overall - f'e):

    C = (S^-1 + K / noise)^-1,   d = C (h / noise + S^-1 Bf) - Bf
    B moves by [sum w ff' (x) (S^-1 - S^-1 C S^-1) + 1 / tau]^-1 [sum w f (x) S^-1 d - B / tau]

w = (n + k) / (n + mean n), k = noise / S_00: rows with few ratings are more, and differ from those with many.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange, total
from cofill.models.rng import Keys, Portion, Sample, seed_of
from cofill.threads import on_all_cores
from cofill.workers import cores

_ROUNDS = 5
# Directions of features that are kept of either side: B and the inverses stay small.
_MOST_DIRECTIONS = 32
_LEAST_VARIANCE = 1e-9
_IDS_AT_ONCE = 4096
# Where variances begin, as shares of the variance of the ratings, and how many rows the beginning counts for.
_FIRST_ROW, _FIRST_COLUMN, _FIRST_SLOPE, _FIRST_EFFECT, _FIRST_NOISE = 0.1, 0.2, 0.02, 0.01, 0.8
_WORTH = 5.0
# Numbers in a batch of rows, and of all K that are kept from one round to the next.
_BATCH, _KEPT = 1_000_000, 60_000_000
# Rows that tell the matrix of the normal equations of B. All of them pull B, so some are enough to find the way.
_ROWS_OF_CURVATURE = 8_192

# Examples of a ridge regression: enough for hundreds of features, and a bound on time and memory.
_EXAMPLES = 20_000
_SEED = seed_of(0xFEA)
_PENALTIES = tuple(10.0**power for power in np.arange(-2, 5, 0.5))

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class FeatureRegression:
    """Ridge regression: expected (n, m) = [features (n, P), 1] . slope; zero without features."""

    slope: Floats  # (P + 1, m)

    @classmethod
    def fit(
        cls, features: Floats, targets: Floats | Doubles, ratings: Longs, keys: Keys, exchange: Exchange = ALONE
    ) -> Self:
        """From examples: features (n, P), targets (n, m), and how many ratings each stands for (n,).

        Where all processes have very many, some are chosen by their keys (n,).

        An example with a typical number of ratings counts half of one that has very many.
        The penalty is the one with which the other examples predict each example best, which has a closed form for
        ridge regression. Where none beats expecting zero, the slope is zero.
        """
        nothing = cls(np.zeros((features.shape[1] + 1, targets.shape[1]), np.float32))
        if not features.shape[1]:
            return nothing
        sample = Sample.of(keys, np.flatnonzero(ratings > 0), _EXAMPLES, _SEED, exchange)
        if not len(sample.order):
            return nothing
        f = sample.gathered(features[sample.places]).astype(np.float64)
        f = np.column_stack([f, np.ones(len(f))])
        t = sample.gathered(targets[sample.places]).astype(np.float64)
        counts = sample.gathered(ratings[sample.places])
        w = (counts / (counts + counts.mean()))[:, None]
        values, vectors = np.linalg.eigh((f * w).T @ f)
        values = np.maximum(values, 0)
        turned = f @ vectors  # (n, P + 1): features along the directions along which the penalty acts
        moments = (turned * w).T @ t
        best, best_error = None, float((w * t**2).sum())
        for penalty in _PENALTIES:
            solved = moments / (values + penalty)[:, None]
            leverage = w * (turned**2 / (values + penalty)).sum(1, keepdims=True)  # how much each predicts itself
            left_out = (t - turned @ solved) / np.maximum(1 - leverage, 1e-6)
            error = float((w * left_out**2).sum())
            if error < best_error:
                best, best_error = solved, error
        return nothing if best is None else cls((vectors @ best).astype(np.float32))

    def expected(self, features: Floats) -> Floats:
        """(n, P) -> (n, m)"""
        if not features.shape[1]:
            return np.zeros((len(features), self.slope.shape[1]), np.float32)
        found: Floats = features @ self.slope[:-1] + self.slope[-1]
        return found


@dataclass(frozen=True)
class Design:
    """Features (n, P) -> [1, features less their mean along some directions] (n, 1 + k); zeros say nothing."""

    mean: Floats  # (P,)
    directions: Floats  # (P, k)

    @classmethod
    def of(cls, features: Floats, counts: Longs, means: Doubles, keys: Keys, exchange: Exchange) -> Self:
        """From the features, numbers of ratings and means of ids, of which other processes have others.

        Where there are too many features, the directions in which they vary most are kept, and one more: what a ridge
        regression of the means on all of them makes of them.
        """
        weights = np.where(features.any(1), counts, 0).astype(np.float64)
        width = features.shape[1]
        moments = np.zeros((width + 1, width))
        for first in range(0, len(features), _IDS_AT_ONCE):
            x, w = features[first : first + _IDS_AT_ONCE].astype(np.float64), weights[first : first + _IDS_AT_ONCE]
            moments[0] += w @ x
            moments[1:] += (x * w[:, None]).T @ x
        exchange.all_reduce(moments)
        count = max(total(exchange, weights.sum())[0], 1.0)
        mean = moments[0] / count
        covariance = moments[1:] / count - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(covariance)
        kept = values > _LEAST_VARIANCE * max(values.max(initial=0.0), 1e-30)
        directions: Doubles = np.eye(width)
        if width > _MOST_DIRECTIONS:
            regression = FeatureRegression.fit(features, means[:, None], counts, keys, exchange).slope[:-1, 0]
            spread = float(regression @ covariance @ regression)
            told = regression * (values.max() / spread) ** 0.5 if spread > 0 else regression
            directions = np.column_stack([vectors[:, kept][:, 1 - _MOST_DIRECTIONS :], told])
        return cls(mean.astype(np.float32), np.asarray(directions, np.float32))

    @property
    def width(self) -> int:
        return 1 + int(self.directions.shape[1])

    def __call__(self, features: Floats) -> Floats:
        found = np.ones((len(features), self.width), np.float32)
        found[:, 1:] = ((features - self.mean) @ self.directions) * np.asarray(features.any(1))[:, None]
        return found

    def shares(self, features: Floats, slopes: Floats | Doubles) -> Doubles:
        """(m, P): what features (P,) add to m sums over inputs but the first, of such slopes (m, k).

        That they are told at all takes the mean off: those that are known share this equally.
        """
        slope = slopes @ self.directions.T.astype(np.float64)
        told = features != 0
        return np.asarray(features * slope - told * (slope @ self.mean)[:, None] / max(int(told.sum()), 1))


@dataclass
class Side:
    """Rows, or columns: what features say of them, and how they deviate from that."""

    design: Design
    covariance: Doubles  # (p, p): of effects
    trained_inputs: Floats  # (rows, q): the design at their features
    trained_effects: Floats  # (rows, p)
    inputs: Floats = field(init=False)  # as they stand now
    effects: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.inputs, self.effects = self.trained_inputs.copy(), self.trained_effects.copy()

    def grow(self, count: int) -> None:
        """Make room for so many; of new ones nothing is known."""
        more = count - len(self.inputs)
        if more > 0:
            self.inputs = np.concatenate([self.inputs, _nobody(more, self.inputs.shape[1])])
            self.effects = np.concatenate([self.effects, np.zeros((more, self.effects.shape[1]), np.float32)])

    def as_trained(self, places: Ints) -> tuple[Floats, Floats]:
        """Inputs and effects in the training; of what came later, those of which nothing is known."""
        return _at(places, places < len(self.trained_inputs), self.trained_inputs, self.trained_effects)

    def now(self, places: Ints) -> tuple[Floats, Floats]:
        """Inputs and effects as they stand now; an index of -1 was never seen."""
        return _at(places, places >= 0, self.inputs, self.effects)


def _at(places: Ints, known: Bools, inputs: Floats, effects: Floats) -> tuple[Floats, Floats]:
    """Inputs and effects at places that are known, and elsewhere those of which nothing is known."""
    found = _nobody(len(places), inputs.shape[1]), np.zeros((len(places), effects.shape[1]), np.float32)
    found[0][known], found[1][known] = inputs[places[known]], effects[places[known]]
    return found


def _nobody(count: int, width: int) -> Floats:
    """Inputs of ids of which nothing is known."""
    found = np.zeros((count, width), np.float32)
    found[:, 0] = 1
    return found


@dataclass
class Slopes:
    """A fitted mixed model, as it stands now. What comes later is compared with what was trained."""

    overall: float
    noise: float
    coefficients: Doubles  # B (p, q): p of columns' features, q of rows' features
    rows: Side
    columns: Side

    def transposed(self) -> "Slopes":
        """With rows and columns exchanged: a view, so that each sees every change of the other."""
        return replace(self, coefficients=self.coefficients.T, rows=self.columns, columns=self.rows)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """As they were fitted, for a model file."""
        found = {"coefficients": self.coefficients, "slope_noise": np.array([self.noise])}
        for name, side in (("row", self.rows), ("column", self.columns)):
            found |= {
                f"{name}_mean": side.design.mean,
                f"{name}_directions": side.design.directions,
                f"{name}_covariance": side.covariance,
                f"{name}_effects": side.trained_effects,
            }
        return found

    @classmethod
    def restored(
        cls, arrays: Mapping[str, npt.NDArray[Any]], overall: float, row_features: Floats, column_features: Floats
    ) -> Self:
        """From what a file kept, and the features of the training."""
        sides = []
        for name, features in (("row", row_features), ("column", column_features)):
            design = Design(arrays[f"{name}_mean"], arrays[f"{name}_directions"])
            effects = arrays[f"{name}_effects"]
            if len(effects) != len(features):
                raise ValueError("the biases have slopes for another number of ids than there are features")
            sides.append(Side(design, arrays[f"{name}_covariance"], design(features), effects))
        return cls(overall, float(arrays["slope_noise"][0]), arrays["coefficients"], *sides)

    # Predictions

    def at_pairs(self, rows: Ints, columns: Ints) -> Floats:
        """(n,): ratings at pairs; an index of -1 was never seen."""
        (f, d), (g, e) = self.rows.now(rows), self.columns.now(columns)
        told = d + f @ self.coefficients.T
        return np.asarray(self.overall + np.einsum("ij,ij->i", g, told) + np.einsum("ij,ij->i", f, e), np.float32)

    def of(self, inputs: Floats, effects: Floats, columns: Ints | slice = slice(None)) -> Floats:
        """(n, columns): ratings of rows with such inputs (n, q) and effects (n, p)."""
        told = (effects + inputs @ self.coefficients.T).astype(np.float32)
        of_columns = self.columns.inputs[columns], self.columns.effects[columns]
        found: Floats = np.float32(self.overall) + told @ of_columns[0].T + inputs @ of_columns[1].T
        return found

    def interactions(self, row_inputs: Floats, column_inputs: Floats) -> Floats:
        """(..., n): what features of rows (..., n, q) and of a column (..., p) say together, beyond main effects.

        Of the same rows (n, q) and several columns (m, p): (m, n).
        """
        weights = column_inputs[..., 1:] @ self.coefficients[1:, 1:].astype(np.float32)
        if row_inputs.ndim == weights.ndim == 2:
            return np.asarray(weights @ row_inputs[:, 1:].T)
        return np.asarray((row_inputs[..., 1:] @ weights[..., None])[..., 0], np.float32)

    # What comes later

    def row_of(self, columns: Ints, ratings: Floats, features: Floats) -> tuple[Floats, Floats]:
        """Inputs (q,) and effects (p,) of a row with these ratings and features (P,)."""
        inputs = self.rows.design(features[None])[0]
        if not len(columns):
            return inputs, np.zeros(len(self.coefficients), np.float32)
        g, e = self.columns.as_trained(columns)
        expected = self.coefficients @ inputs
        left = ratings - self.overall - e @ inputs - g @ expected
        effects = np.linalg.solve(self._precision(g), g.T.astype(np.float64) @ left / self.noise)
        return inputs, effects.astype(np.float32)

    def _precision(self, inputs: Floats) -> Doubles:
        """(p, p): of the effects of a row that has rated columns with such inputs (n, p)."""
        exact = inputs.astype(np.float64)
        found: Doubles = np.linalg.inv(self.rows.covariance) + exact.T @ exact / self.noise
        return found

    def shares(self, columns: Ints, ratings: Floats, features: Floats, asked: Ints) -> tuple[Doubles, Doubles]:
        """(m, n) and (m, P): what ratings and features of a row add to its predictions at m columns; exact.

        Beside the prediction for a row of which nothing is known, that is all there is.
        """
        design, inverse = self.rows.design, np.linalg.inv(self.rows.covariance)
        (g, e), nobody = self.columns.as_trained(columns), _nobody(1, design.width)[0]
        wanted, effects = self.columns.inputs[asked].astype(np.float64), self.columns.effects[asked]
        solved = np.linalg.solve(self._precision(g), wanted.T).T  # (m, p)
        gain = solved @ g.T / self.noise
        by_rating = gain * (ratings - self.overall - e @ nobody - g @ (self.coefficients @ nobody))
        slope = effects + solved @ inverse @ self.coefficients - gain @ e
        return by_rating, design.shares(features, slope[:, 1:])

    def main_effects(self) -> tuple[Floats, Floats]:
        """(P + 1,) and (Q + 1,): what features of rows, and of columns, add by themselves; constants are last."""
        both = bool(len(self.rows.design.mean)) + bool(len(self.columns.design.mean))
        found = []
        for side, effects in ((self.rows, self.coefficients[0]), (self.columns, self.coefficients[:, 0])):
            slope = side.design.directions @ effects[1:]
            constant = effects[0] / both - side.design.mean @ slope
            found.append(np.append(slope, constant if len(slope) else 0.0).astype(np.float32))
        return found[0], found[1]


def fit_slopes(
    by_row: SparseRows,
    by_column: SparseRows,
    row_features: Floats,
    column_features: Floats,
    *,
    overall: float,
    spread: float,
    portion: Portion,
    damping: float | None = None,
) -> Slopes:
    """From ratings row by row and column by column, of variance `spread`.

    Of a row every process sees some ratings, of a column one process sees all.
    """
    exchange = portion.exchange
    row_counts, column_counts = exchange.all_reduce(by_row.counts()), by_column.counts()
    row_means, column_means = (
        sums / np.maximum(counts, 1) - overall * (counts > 0)
        for sums, counts in (
            (exchange.all_reduce(by_row.row_sums(by_row.values)), row_counts),
            (by_column.row_sums(by_column.values), column_counts),
        )
    )
    of_rows = Design.of(row_features, row_counts, row_means, portion.row_keys, ALONE)
    of_columns = Design.of(column_features, column_counts, column_means, portion.column_keys, exchange)
    f, g = of_rows(row_features), of_columns(column_features)
    about, keys = (overall, spread, damping), (portion.row_keys, portion.column_keys)
    rows = _Fit(by_row, row_counts, f, g, _FIRST_ROW, about, keys[0], exchange, ALONE)
    columns = _Fit(by_column, column_counts, g, f, _FIRST_COLUMN, about, keys[1], ALONE, exchange)
    noise, tau = _FIRST_NOISE * spread, np.full(3, _FIRST_EFFECT * spread)
    count = max(total(exchange, by_row.nnz)[0], 1.0)
    coefficients = np.zeros((g.shape[1], f.shape[1]))
    for _ in range(_ROUNDS):
        rows.read(columns.effects)
        coefficients, tau = _effects(*rows.equations(coefficients, noise), coefficients, tau)
        rows.update(coefficients, noise)
        columns.read(rows.effects)
        turned, tau = _effects(*columns.equations(coefficients.T, noise), coefficients.T, tau[[1, 0, 2]])
        coefficients, tau = turned.T, tau[[1, 0, 2]]
        columns.update(turned, noise)
        left = columns.error + rows.uncertain + columns.uncertain
        noise = float(np.clip(left / count, 1e-6 * spread, spread))
        rows.damp(noise)
        columns.damp(noise)
    rows.read(columns.effects)
    rows.update(coefficients, noise, last=True)
    sides = (
        Side(design, fit.covariance, fit.inputs, fit.effects.astype(np.float32))
        for design, fit in ((of_rows, rows), (of_columns, columns))
    )
    return Slopes(overall, noise, coefficients, *sides)


class _Fit:
    """The rows of a matrix while they are fitted; of the transposed matrix, the columns."""

    def __init__(
        self,
        known: SparseRows,
        counts: Longs,
        inputs: Floats,
        others: Floats,
        first: float,
        about: tuple[float, float, float | None],
        keys: Keys,
        ratings: Exchange,
        ids: Exchange,
    ) -> None:
        """`about`: the overall mean, the variance of all ratings, and the damping that is given, if one is."""
        self._known, self._counts, self.inputs, self._others = known, counts, inputs, others
        self._overall, spread, self._damping = about
        self._together, self._ids = ratings, ids
        width = others.shape[1]
        self._first = np.diag(np.r_[first * spread, np.full(width - 1, _FIRST_SLOPE * spread)])
        self.covariance = self._first.copy()
        self.effects, self._sums = np.zeros((known.rows, width)), np.zeros((known.rows, width))
        self.error = self.uncertain = self._squares = 0.0
        rated = np.flatnonzero(counts)
        self._rated, ratings_of_all = total(ids, len(rated), counts.sum())
        self._mean_count = ratings_of_all / max(self._rated, 1)
        chosen = np.isin(rated, Sample.of(keys, rated, _ROWS_OF_CURVATURE, _SEED, ids).places)
        self._share = total(ids, chosen.sum())[0] / max(self._rated, 1)
        self._batches = [*_batches(rated[chosen], counts, width, True), *_batches(rated[~chosen], counts, width, False)]
        self._triangle = np.triu_indices(width)
        self._square = _symmetric(self._triangle, width)
        self._grams: dict[int, Floats] = {}
        self._keeps = len(rated) * len(self._triangle[0]) <= _KEPT

    def damp(self, noise: float) -> None:
        """Where a damping is given, the variance of deviations follows from it."""
        if self._damping is not None:
            wanted = noise / max(self._damping, 1e-3)
            factors = np.ones(len(self.covariance))
            factors[0] = (wanted / self.covariance[0, 0]) ** 0.5
            self.covariance *= np.outer(factors, factors)

    def read(self, others: Doubles) -> None:
        """What columns with such effects leave over of the ratings."""
        known, squares = self._known, np.zeros(self._known.rows)
        cuts = np.searchsorted(known.indptr, np.linspace(0, known.nnz, 4 * cores() + 1)).clip(0, known.rows)
        cuts[0], cuts[-1] = 0, known.rows

        def work(part: tuple[int, int]) -> None:
            _add_up(
                known.indptr, known.indices, known.values, self._overall, *part, self.inputs, self._others, others,
                self._sums, squares,
            )  # fmt: skip

        on_all_cores(work, pairwise(cuts.tolist()))
        self._together.all_reduce(self._sums)
        self._squares = float(self._together.all_reduce(squares).sum())

    def equations(self, coefficients: Doubles, noise: float) -> tuple[Doubles, Doubles]:
        """With the effects of rows integrated out, and by B (p, q): the matrix (p, q, p, q) of the normal equations, as
        some rows tell it, and what all rows still pull B by (p, q).
        """
        inverse, damping = np.linalg.inv(self.covariance), noise / self.covariance[0, 0]
        (p, q), (i, j), (m, n) = coefficients.shape, self._triangle, np.triu_indices(coefficients.shape[1])

        def work(batch: "_Batch") -> tuple[Doubles, float, tuple[Doubles, Doubles, Doubles] | None]:
            grams = self._gram(batch)
            covariance = np.asarray(np.linalg.inv(inverse + grams / noise), np.float64) if batch.chosen else None
            found, expected = self._solved(batch, grams, inverse, coefficients, noise, covariance)
            counts, f = self._counts[batch.rows], self.inputs[batch.rows].astype(np.float64)
            weighted = f * ((counts + damping) / (counts + self._mean_count))[:, None]
            told = None
            if covariance is not None:
                products = weighted[:, m] * f[:, n]
                told = covariance[:, i, j].T @ products, products.sum(0), covariance.sum(0)
            return (found - expected).T @ weighted, float(weighted[:, 0].sum()), told

        pull, weight = np.zeros((p, q)), np.zeros(1)
        uncertain, known, self._doubt = np.zeros((len(i), len(m))), np.zeros(len(m)), np.zeros((p, p))
        for one, other, told in self._each(work):
            pull += one
            weight += other
            if told is not None:
                uncertain += told[0]
                known += told[1]
                self._doubt += told[2]
        for summed in (pull, weight, uncertain, known, self._doubt):
            self._ids.all_reduce(summed)
        self._doubt /= max(self._share, 1e-12)
        of_rows = _symmetric((m, n), q)
        uncertain = np.tensordot(np.tensordot(inverse, uncertain[self._square][:, :, of_rows], 1), inverse, (1, 0))
        matrix = inverse[:, None, :, None] * known[of_rows][:, None] - uncertain.transpose(0, 1, 3, 2)
        return matrix * (weight[0] / max(known[0], 1e-12)), inverse @ pull

    def update(self, coefficients: Doubles, noise: float, *, last: bool = False) -> None:
        """The effects of rows, and then their covariance, for which `equations` came before with the same noise.

        The last time their covariance stays.
        """
        inverse = np.linalg.inv(self.covariance)

        def work(batch: "_Batch") -> tuple[Doubles, float]:
            grams = self._gram(batch)
            found, expected = self._solved(batch, grams, inverse, coefficients, noise)
            effects = self.effects[batch.rows] = found - expected
            error = np.einsum("bi,bi->", found, (grams @ found[:, :, None])[:, :, 0] - 2 * self._sums[batch.rows])
            return effects.T @ effects, float(error)

        spread, self.error = np.zeros_like(inverse), self._squares
        for one, error in self._each(work):
            spread += one
            self.error += error
        self._ids.all_reduce(spread)
        self.error = total(self._ids, self.error)[0]
        if last:
            return
        self.uncertain = noise * (len(inverse) * self._rated - float(np.vdot(self._doubt, inverse)))
        self.covariance = (spread + self._doubt + _WORTH * self._first) / (self._rated + _WORTH)
        self.damp(noise)

    def _solved(
        self,
        batch: "_Batch",
        grams: Doubles,
        inverse: Doubles,
        coefficients: Doubles,
        noise: float,
        covariance: Doubles | None = None,
    ) -> tuple[Doubles, Doubles]:
        """(b, p) both: what rows make of columns' inputs, and what their own inputs lead one to expect of that."""
        expected = self.inputs[batch.rows] @ coefficients.T
        right = (self._sums[batch.rows] / noise + expected @ inverse)[:, :, None]
        found = np.linalg.solve(inverse + grams / noise, right) if covariance is None else covariance @ right
        return np.asarray(found[:, :, 0]), np.asarray(expected, np.float64)

    def _each(self, work: Callable[["_Batch"], _Result]) -> list[_Result]:
        if self._together.size == 1:
            return on_all_cores(work, self._batches)
        return [work(batch) for batch in self._batches]  # in step with the other processes

    def _gram(self, batch: "_Batch") -> Doubles:
        """K (b, p, p)"""
        packed = self._grams.get(int(batch.rows[0]))
        if packed is None:
            known = self._known
            starts, counts = known.indptr[batch.rows], np.diff(known.indptr)[batch.rows]
            turn = np.arange(int(counts.max(initial=0)))
            mask = turn < counts[:, None]
            columns = known.indices[np.where(mask, starts[:, None] + turn, 0)] if known.nnz else mask.astype(np.int32)
            g = self._others[columns] * mask[:, :, None]
            packed = self._together.all_reduce(np.matmul(g.transpose(0, 2, 1), g)[:, *self._triangle])
            if self._keeps:
                self._grams[int(batch.rows[0])] = packed
        return np.asarray(packed[:, self._square], np.float64)


@compiled
def _add_up(
    indptr: Longs, indices: Ints, values: Floats, overall: float, first: int, last: int, inputs: Floats,
    others: Floats, effects: Doubles, sums: Doubles, squares: Doubles,
) -> None:  # fmt: skip
    """Of the rows first:last h, and the sums of squares, of what the overall mean and columns' effects leave over."""
    for row in range(first, last):
        f, h = inputs[row], sums[row]
        h[:] = 0
        square = 0.0
        for at in range(indptr[row], indptr[row + 1]):
            e, g = effects[indices[at]], others[indices[at]]
            told = 0.0
            for k in range(len(f)):
                told += e[k] * f[k]
            left = values[at] - overall - told
            square += left * left
            for k in range(len(g)):
                h[k] += left * g[k]
        squares[row] = square


class _Batch(NamedTuple):
    rows: Longs
    chosen: bool  # for the matrix of the normal equations


def _batches(rows: Longs, counts: Longs, width: int, chosen: bool) -> Iterator[_Batch]:
    """Rows with about as many ratings, those with many first."""
    order, first = rows[np.argsort(-counts[rows], kind="stable")], 0
    while first < len(order):
        each = max(int(counts[order[first]]), width) * width
        some = order[first : first + max(_BATCH // each, 1)]
        yield _Batch(some, chosen)
        first += len(some)


def _symmetric(triangle: tuple[Longs, Longs], width: int) -> Longs:
    """(width, width): the place of each number among those of the upper triangle."""
    found = np.empty((width, width), np.int64)
    found[triangle] = found[triangle[::-1]] = np.arange(len(triangle[0]))
    return found


def _effects(whole: Doubles, pull: Doubles, before: Doubles, tau: Doubles) -> tuple[Doubles, Doubles]:
    """B (p, q) and its variances, anew: of main effects of columns' features, of rows' features, of interactions."""
    p, q = pull.shape
    groups = np.full((p, q), 2)
    groups[:, 0], groups[0] = 0, 1
    precision = 1 / tau[groups]
    precision[0, 0] = 1e-9 / tau.max()
    matrix = whole.reshape(p * q, p * q)
    matrix[np.diag_indices(p * q)] += precision.ravel()
    posterior = np.linalg.inv(matrix)
    found = before + (posterior @ (pull - precision * before).ravel()).reshape(p, q)
    squares = found**2 + np.diag(posterior).reshape(p, q)
    groups[0, 0] = -1
    tau = np.array([squares[groups == each].mean() if (groups == each).any() else tau[each] for each in range(3)])
    return found, tau
