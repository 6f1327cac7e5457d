"""How the output weights of trained columns differ: what a column looks like before its first rating.

A column's weights and its bias are one vector here, (width + 1,).
"""

from typing import NamedTuple

import numpy as np

from cofill.arrays import Doubles, Floats, Longs
from cofill.exchange import total
from cofill.models.ridge import FeatureRegression
from cofill.models.rng import Portion, Sample, seed_of

_CHUNK = 4096
# Columns from which it is learned how weights follow features; here an example is a whole row of weights.
_REGRESSION_COLUMNS = 10_000
_SEED = seed_of(0xF01D)


class WeightSpread(NamedTuple):
    """How the weights (and biases) of trained columns differ."""

    mean: Floats  # (width + 1,)
    by_features: FeatureRegression  # what a column's weights exceed the mean by
    factor: Doubles  # (width + 1, directions): times itself transposed, the covariance of the rest


def spread_of_weights(weight: Floats, bias: Floats, ratings: Longs, features: Floats, portion: Portion) -> WeightSpread:
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
    ratings: Longs,
    features: Floats,
    columns: Longs,
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
