"""Attribution of a prediction: how far each rating and each feature of a row, or of a column, moves it.

    prediction = base + shares of the ratings + shares of the features + remainder

The base is the prediction for a row or column of which nothing is known, that of the fitted means. Everything else is a
blend, and its shares are blended as it is:

- The deviation of the fitted means is a sum over ratings and features already (`of_damped_mean`).
- The network's output for a row is taken apart by integrated gradients (`along_the_path`): inputs and features grow in
  step from nothing to what they are, and each is credited with its value times the slope that it meets on the way, on
  average. Together that is what the outputs have changed by, to the precision of the quadrature: the function along the
  way is smooth, and the points are those of Gauss and Legendre.
- The output for a column is linear in what its ratings exceed the expected ones by: exactly so, or with tanh at the
  output by the slope of the way (`secant`).
- That the network counts at all, and not the means alone, is owed to all alike: its output for a row or column of
  which nothing is known differs from the base, and ratings and features share the difference equally (`blended`).

The remainder is rounding for a row and for a new column. For a column that was trained, with the network's own output,
it is what training knows of it beyond the closed form.
"""

from typing import NamedTuple

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints
from cofill.models.cfn.network import CFNetwork, activation_gradient
from cofill.models.results import Given, Shares
from cofill.models.ridge import FeatureRegression

_ABSCISSAS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PLACES: Floats = ((_ABSCISSAS + 1) / 2).astype(np.float32)  # on the way from 0 to 1
_SHARES: Floats = (_WEIGHTS / 2).astype(np.float32)


class PathShares(NamedTuple):
    """Of outputs at m columns, in scaled ratings."""

    start: Floats  # (m,): outputs for a row of which nothing is known
    by_input: Floats  # (m, n)
    by_feature: Floats  # (m, P)


def along_the_path(
    network: CFNetwork,
    columns: Ints,
    inputs: Floats,
    features: Floats,
    mark: Floats,
    weight: Floats,
    bias: Floats,
    *,
    squash: bool,
) -> PathShares:
    """For inputs (n,) at columns (n,) and features (P,), seen through output weights (m, width) and biases (m,).

    `mark` (0 or 1 of them) are further features that stay as they are all the way. `squash`: tanh follows the output.
    """
    into = network.input.weight[columns]  # (n, k)
    side = network.input.side
    aside = np.zeros((len(features), into.shape[1]), np.float32) if side is None else side
    places: Floats = np.append(_PLACES, np.float32(0))[:, None]  # the last is the start
    beside = np.column_stack([places * features, np.tile(mark, (len(places), 1))])  # (places, P and mark)
    z = places * (inputs @ into) + beside @ aside + network.input.bias

    hidden = network.hidden(z, beside)  # of each layer (places, its width)
    outputs = np.column_stack([hidden[-1], beside]) @ weight.T + bias  # (places, m)

    slope = np.broadcast_to(weight, (len(_PLACES), *weight.shape))  # of the outputs by the code, (points, m, width)
    start = outputs[-1]
    if squash:
        start = np.tanh(start)
        slope = slope * (1 - np.tanh(outputs[:-1]) ** 2)[:, :, None]
    by_beside = np.zeros((len(weight), beside.shape[1]), np.float32)
    for at in range(len(hidden) - 1, -1, -1):
        width = hidden[at].shape[1]
        by_beside += np.tensordot(_SHARES, slope[:, :, width:], 1)
        slope = activation_gradient(slope[:, :, :width], hidden[at][:-1, None], network.activation)
        if at:
            slope = slope @ network.middle[at - 1].weight
    by_sum = np.tensordot(_SHARES, slope, 1)  # (m, k): the slope by what the input layer sums up, on average
    by_beside += by_sum @ aside.T
    return PathShares(start, (by_sum @ into.T) * inputs, by_beside[:, : len(features)] * features)


def secant(low: Doubles, high: Doubles) -> Doubles:
    """How steep tanh is between two points, on average."""
    apart = np.abs(high - low) > 1e-9
    rise = np.tanh(high) - np.tanh(low)
    steepness: Doubles = np.divide(rise, high - low, out=1 - np.tanh(low) ** 2, where=apart)
    return steepness


def of_damped_mean(surplus: Floats, features: Floats, by_features: FeatureRegression, damping: float) -> Shares:
    """Of a damped mean, as far as it differs from that of nobody, whom n ratings exceed by `surplus`: (n,), (P,)."""
    total = len(surplus) + damping
    left = damping / total if total > 0 else 1.0
    by_rating = surplus.astype(np.float64) / max(total, 1)
    return Shares(by_rating, left * features.astype(np.float64) * by_features.slope[:-1, 0])


def blended(
    given: Given, *, trust: Floats, of_means: Shares, of_network: Shares, difference: Floats, read: Bools
) -> Shares:
    """The shares of the network and those of the means, weighed by the trust (m,) in the network.

    `difference` (m,) is what the network exceeds the base by where nothing is known. The ratings that are `read` (n,)
    and the features that tell anything share it.
    """
    weight = trust.astype(np.float64)[:, None]
    ratings, features = (
        weight * network + (1 - weight) * means for network, means in zip(of_network, of_means, strict=True)
    )
    ends = np.cumsum(given.widths, dtype=np.int64)[:-1]
    columns = [part.sum(1) for part in np.split(features, ends, axis=1)] if given.widths else []
    told = np.zeros(len(columns), np.bool_)
    if given.features is not None and given.widths:
        told = np.array([bool(part.any()) for part in np.split(given.features, ends)])
    each = weight * difference[:, None] / max(int(read.sum() + told.sum()), 1)
    together = np.array(columns).reshape(len(columns), len(trust)).T
    return Shares(ratings + each * read, together + each * told)
