"""What the network makes of a row, input by input: integrated gradients.

The inputs and features of a row grow in step from nothing to what they are, and each is credited with its value times
the slope that it meets on the way, on average. Together that is what the outputs have changed by, to the precision of
the quadrature: the function along the way is smooth, and the points are those of Gauss and Legendre.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.models.cfn.activation import activated_in_numpy, slope_times
from cofill.models.cfn.network import CFNetwork

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

_ABSCISSAS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PLACES: Floats = ((_ABSCISSAS + 1) / 2).astype(np.float32)  # on the way from 0 to 1
_SHARES: Floats = (_WEIGHTS / 2).astype(np.float32)


class PathShares(NamedTuple):
    """Of outputs at m columns, in scaled ratings."""

    start: Floats  # (m,): outputs for a row of which nothing is known
    by_input: Floats  # (m, n)
    by_feature: Floats  # (m, P)


def along_the_path(
    network: CFNetwork, columns: Ints, inputs: Floats, features: Floats, mark: Floats, weight: Floats, bias: Floats
) -> PathShares:
    """For inputs (n,) at columns (n,) and features (P,), seen through output weights (m, width) and biases (m,).

    `mark` (0 or 1 of them) are further features that stay as they are all the way.
    """
    into = network.input.weight.detach().numpy()[columns]  # (n, k)
    side = network.input.side
    aside = np.zeros((len(features), into.shape[1]), np.float32) if side is None else side.detach().numpy()
    places: Floats = np.append(_PLACES, np.float32(0))[:, None]  # the last is the start
    beside = np.column_stack([places * features, np.tile(mark, (len(places), 1))])  # (places, P and mark)
    z = places * (inputs @ into) + beside @ aside + network.input.bias.detach().numpy()

    hidden = [activated_in_numpy(z, network.activation)]  # of each layer (places, its width)
    middle = [[parameter.detach().numpy() for parameter in layer.parameters()] for layer in network.middle]
    for middle_weight, middle_bias in middle:
        z = np.column_stack([hidden[-1], beside]) @ middle_weight.T + middle_bias
        hidden.append(activated_in_numpy(z, network.activation))
    outputs = np.column_stack([hidden[-1], beside]) @ weight.T + bias  # (places, m)

    slope = np.broadcast_to(weight, (len(_PLACES), *weight.shape))  # of the outputs by the code, (points, m, width)
    start = outputs[-1]
    if network.squash:
        start = np.tanh(start)
        slope = slope * (1 - np.tanh(outputs[:-1]) ** 2)[:, :, None]
    by_beside = np.zeros((len(weight), beside.shape[1]), np.float32)
    for at in range(len(hidden) - 1, -1, -1):
        width = hidden[at].shape[1]
        by_beside += np.tensordot(_SHARES, slope[:, :, width:], 1)
        slope = slope_times(slope[:, :, :width], hidden[at][:-1, None], network.activation)
        if at:
            slope = slope @ middle[at - 1][0]
    by_sum = np.tensordot(_SHARES, slope, 1)  # (m, k): the slope by what the input layer sums up, on average
    by_beside += by_sum @ aside.T
    return PathShares(start, (by_sum @ into.T) * inputs, by_beside[:, : len(features)] * features)
