"""New columns without training: the weights of a column from the codes of the rows that it rated.

The codes of the rows are fixed and the loss is squared error (`ColumnWeights` checks it), so a column's output weights
are a regression on them. What a column looks like before its first rating is learned from the trained ones: the mean
and the covariance of their weights. That is ridge regression in the directions in which columns really differ, and a
far better guess from few ratings than pulling every weight towards zero alike. A column that was trained is held in
place by the ratings it was trained on.

A column's weights and its bias are one vector here, (width + 1,), and a code has a 1 at its end.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.exchange import Exchange, total
from cofill.models.feature_ridge import FeatureRegression
from cofill.models.portion import Portion
from cofill.models.rng import Sample, seed_of

Floats = npt.NDArray[np.float32]

# With tanh at the output, a column's weights are found by this many linearised regressions.
_GAUSS_NEWTON_STEPS = 4
_NOISES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
_CALIBRATION_COLUMNS = 200
_CALIBRATION_RATINGS = 40
_CHUNK = 4096
# Columns from which it is learned how weights follow features; here an example is a whole row of weights.
_REGRESSION_COLUMNS = 10_000
_SEED = seed_of(0xF01D)


@dataclass(frozen=True)
class ColumnPrior:
    """weights ~ N(expected, factor factor^T), ratings = code . weights + noise of variance `noise`, all scaled.

    What is expected of a column's weights is their mean, or what its side features lead one to expect.
    The directions (columns of `factor`) are chosen so that the codes of rated rows are uncorrelated along them:
    `precision[d]` is their mean square along direction d: what one rating adds to the posterior precision of a column
    there, so that n ratings hold a column in place with n * precision[d].
    """

    mean: Floats  # (width + 1,)
    by_features: FeatureRegression  # what a column's weights exceed the mean by
    factor: Floats  # (width + 1, directions)
    precision: Floats  # (directions,)
    noise: float

    @classmethod
    def fit(
        cls,
        weight: Floats,
        bias: Floats,
        ratings: npt.NDArray[np.int64],
        features: Floats,
        examples: list["ExampleColumn"],
        portion: Portion,
    ) -> Self:
        """From the weights (columns, width) and biases (columns,) of the columns, how many ratings they were trained
        on (columns,), their features (columns, Q), and some of their ratings.
        """
        mean, by_features, factor = spread_of_weights(weight, bias, ratings, features, portion)
        codes = np.concatenate([example.codes for example in examples] or [np.zeros((0, len(mean)), np.float32)])
        along = codes @ factor
        count = total(portion.exchange, len(along))[0]
        precision, turn = np.linalg.eigh(portion.exchange.sum_(along.T @ along) / max(count, 1))
        prior = cls(
            mean=mean,
            by_features=by_features,
            factor=(factor @ turn).astype(np.float32),
            precision=np.maximum(precision, 0).astype(np.float32),
            noise=0.1,
        )
        return prior._calibrated(examples, portion.exchange)

    def expected(self, features: Floats) -> Floats:
        """Weights (n, width + 1) of columns of which only the features (n, Q) are known."""
        return self.mean + self.by_features.expected(features)

    def solve(self, codes: Floats, residuals: Floats, held: int = 0) -> Floats:
        """What to add to a column's weights, (width + 1,), given what its ratings exceed its outputs by.

        codes (n, width + 1), residuals (n,); `held` is how many other ratings the column was trained on.
        """
        return self.solve_along(codes @ self.factor, residuals, held)

    def solve_along(self, along: Floats, residuals: Floats, held: int = 0) -> Floats:
        """As `solve`, given the codes along the directions (n, directions).

        In the dual where there are fewer ratings than directions.
        """
        stiffness = np.float32(self.noise) + held * self.precision  # (directions,)
        if len(along) <= along.shape[1]:
            loose = along / stiffness
            gram = loose @ along.T
            gram[np.diag_indices_from(gram)] += 1
            move = loose.T @ np.linalg.solve(gram, residuals)
        else:
            gram = along.T @ along
            gram[np.diag_indices_from(gram)] += stiffness
            move = np.linalg.solve(gram, along.T @ residuals)
        added: Floats = self.factor @ move
        return added

    def linearised(self, codes: Floats, targets: Floats, start: Floats, held: int = 0) -> tuple[Floats, Floats]:
        """Where tanh follows the output: codes (n, width + 1) and targets (n,) of a regression that has no tanh.

        It gives, from `start`, the weights at which it was linearised, or nearly so.
        """
        weights, seen, left = start, codes, targets
        for _ in range(_GAUSS_NEWTON_STEPS):
            outputs = np.tanh(codes @ weights)
            slope = 1 - outputs**2
            seen, left = codes * slope[:, None], targets - outputs + slope * (codes @ weights)
            weights = start + self.solve(seen, left - seen @ start, held)
        return seen, left

    def _calibrated(self, examples: list["ExampleColumn"], exchange: Exchange) -> Self:
        """With the noise that serves best when half of a known column's ratings predict the other half."""
        long = [example for example in examples if len(example.ratings) >= 4]

        def error(prior: ColumnPrior) -> float:
            wrong = 0.0
            for example in long:
                left = example.ratings - example.codes @ prior.expected(example.features[None])[0]
                moved = prior.solve(example.codes[::2], left[::2])
                wrong += float(((left[1::2] - example.codes[1::2] @ moved) ** 2).sum())
            return total(exchange, wrong)[0]

        candidates = [replace(self, noise=noise) for noise in _NOISES]
        return min(candidates, key=error) if total(exchange, len(long))[0] else self


class ExampleColumn(NamedTuple):
    """A trained column: codes (n, width + 1) of rows that it rated, its ratings (n,), scaled, its features (Q,)."""

    codes: Floats
    ratings: Floats
    features: Floats


class WeightSpread(NamedTuple):
    """How the weights (and biases) of trained columns differ."""

    mean: Floats  # (width + 1,)
    by_features: FeatureRegression  # what a column's weights exceed the mean by
    factor: npt.NDArray[np.float64]  # (width + 1, directions): times itself transposed, the covariance of the rest


def spread_of_weights(
    weight: Floats, bias: Floats, ratings: npt.NDArray[np.int64], features: Floats, portion: Portion
) -> WeightSpread:
    """From weights (columns, width), biases (columns,), how many ratings these had (columns,), and their features."""
    columns = np.flatnonzero(ratings > 0)
    count = total(portion.exchange, len(columns))[0]
    mean, by_features = _expectation(weight, bias, ratings, features, columns, portion)
    square = np.zeros((len(mean), len(mean)))
    for first in range(0, len(columns), _CHUNK):  # in chunks: the weights are the largest thing in memory
        chosen = columns[first : first + _CHUNK]
        surprise = np.column_stack([weight[chosen], bias[chosen]]) - mean - by_features.expected(features[chosen])
        square += surprise.T @ surprise
    values, vectors = np.linalg.eigh(portion.exchange.sum_(square) / max(count, 1))
    kept = values > max(values.max(initial=0.0) * 1e-5, 1e-10)
    return WeightSpread(mean, by_features, vectors[:, kept] * np.sqrt(values[kept]))


def _expectation(
    weight: Floats,
    bias: Floats,
    ratings: npt.NDArray[np.int64],
    features: Floats,
    columns: npt.NDArray[np.int64],
    portion: Portion,
) -> tuple[Floats, FeatureRegression]:
    """The mean of the columns' weights (width + 1,), and how they follow the columns' features."""
    exchange = portion.exchange
    summed = np.zeros(weight.shape[1] + 2)
    summed[-1] = len(columns)
    for first in range(0, len(columns), _CHUNK):
        chosen = columns[first : first + _CHUNK]
        summed[:-2] += weight[chosen].sum(0, dtype=np.float64)
        summed[-2] += bias[chosen].sum(dtype=np.float64)
    exchange.sum_(summed)
    mean = (summed[:-1] / max(summed[-1], 1)).astype(np.float32)
    if not features.shape[1]:
        return mean, FeatureRegression(np.zeros((1, len(mean)), np.float32))
    # An example is a whole row of weights: only those that are looked at are copied.
    some = Sample.of(portion.column_keys, columns, _REGRESSION_COLUMNS, _SEED, exchange).places
    surplus = np.column_stack([weight[some], bias[some]]) - mean
    return mean, FeatureRegression.fit(features[some], surplus, ratings[some], portion.column_keys[some], exchange)


def calibration_columns(counts: npt.NDArray[np.int64], portion: Portion) -> npt.NDArray[np.int64]:
    """Some columns with ratings; the same ones every time."""
    candidates = np.flatnonzero(counts > 0)
    return Sample.of(portion.column_keys, candidates, _CALIBRATION_COLUMNS, _SEED, portion.exchange).places


def calibration_ratings(
    rows: npt.NDArray[np.int32], ratings: Floats, portion: Portion
) -> tuple[npt.NDArray[np.int32], Floats]:
    """At most as many of a column's ratings as calibration needs: a code for each has to be computed."""
    some = np.argsort(portion.row_keys[rows], kind="stable")[:_CALIBRATION_RATINGS]
    return rows[some], ratings[some]


def with_one(codes: Floats) -> Floats:
    """(n, width) -> (n, width + 1), with a 1 at the end for the bias."""
    return np.column_stack([codes, np.ones(len(codes), np.float32)])
