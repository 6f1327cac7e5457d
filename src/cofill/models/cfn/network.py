"""The weights of an autoencoder, and rows read through them. `cfn/torch.py` defines the same in torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Self

import numpy as np

from cofill.arrays import Floats, Ints, Longs
from cofill.config import Activation, NetworkSettings
from cofill.models.cfn.kernels import IDENTITY, SIGMOID, TANH, sum_inputs
from cofill.models.cfn.scaling import ScaledRows
from cofill.models.rng import Keys, seed_of, uniform_rows
from cofill.threads import on_all_cores, one_blas_thread
from cofill.workers import cores

Weights = dict[str, Floats]
"""Weights by name, such as input.weight, as checkpoints and model files have them."""

BY_COLUMN = ("input.weight", "output.weight", "output.bias")
"""The weights that have a row for each column of the ratings."""

ACTIVATIONS: dict[Activation, int] = {"tanh": TANH, "sigmoid": SIGMOID, "identity": IDENTITY}

_ENTRIES_AT_ONCE = 10_000
# Products in a sum of inputs from which on several threads of a kernel are worth the start of numba.
_WORTH_KERNELS = 100_000_000
_HALF = np.float32(0.5)
# The first output weights beside one hidden layer are those of one that is at least so wide. The curvature of the loss
# along the input weights of a row with n ratings is n times the mean square of these: n / (3 width). In narrow layers
# that is more than the learning rate bears: the first epochs turn differences of rounding (1e-7) into some of 1e-2.
_LEAST_WIDTH = 64


def activated(z: Floats, activation: Activation) -> Floats:
    """h = f(z)"""
    if activation == "sigmoid":
        h: Floats = np.tanh(z * _HALF) * _HALF + _HALF  # never overflows
        return h
    return np.tanh(z) if activation == "tanh" else z


@np.errstate(all="ignore")  # a run that diverges is noticed by its loss
def activation_gradient(dh: Floats, h: Floats, activation: Activation) -> Floats:
    """dz = dh f'(z), where h = f(z)."""
    if activation == "identity":
        return dh
    return dh * (1 - h * h if activation == "tanh" else h * (1 - h))


@dataclass
class InputLayer:
    """z = sum_j x_j weight[j] + s side + bias"""

    weight: Floats  # (columns, k)
    bias: Floats  # (k,)
    side: Floats | None  # (P, k); None without features

    def offset(self, features: Floats) -> Floats:
        """What is added whatever the ratings are: (k,) without features, (B, k) with them."""
        return self.bias if self.side is None else features @ self.side + self.bias


@dataclass
class Linear:
    weight: Floats  # (out, in), or (columns, in) at the output
    bias: Floats  # (out,)

    @classmethod
    def drawn(cls, fan_in: int, keys: Keys, seed: np.uint64, least: int = 1) -> Self:
        """Uniform in +-1/sqrt(fan in), which is taken as no less than `least`; an output begins by its key."""
        drawn = uniform_rows(seed, keys, fan_in + 1, 1 / sqrt(max(fan_in, least)))
        return cls(np.ascontiguousarray(drawn[:, :-1]), np.ascontiguousarray(drawn[:, -1]))

    def __call__(self, inputs: Floats) -> Floats:
        """(B, in) -> (B, out)"""
        outputs: Floats = inputs @ self.weight.T + self.bias
        return outputs


@dataclass
class CFNetwork:
    """Sparse row in, hidden code, any of its columns out.

        z = sum_j x_j W_in[j] + s S_in + b_in      h = f(z)
        h' = f([h, s] W + b)                       f = tanh, sigmoid or identity; for every further hidden layer
        y_j = out([h, s] . W_out[j] + b_out[j])    out = tanh or identity

    s are the row's side features, P = `features` of them; they enter at every layer. What the output layer reads,
    [h, s], is the row's code. Both big matrices are stored one row a column of the ratings, (columns, width), so that
    what belongs to a column lies together in memory.
    """

    input: InputLayer
    middle: list[Linear]
    output: Linear
    activation: Activation
    squash: bool  # whether out is tanh

    @classmethod
    def drawn(
        cls, settings: NetworkSettings, column_keys: Keys, *, features: int = 0, columns: int = 0, seed: tuple[int, ...]
    ) -> Self:
        """With its first weights; what a column begins with depends on its key. `columns`: of all processes."""
        widths = settings.hidden
        of_input = 1 / sqrt(max(columns or len(column_keys), 1))
        seeds = [seed_of(*seed, layer) for layer in range(len(widths) + 2)]
        return cls(
            InputLayer(
                uniform_rows(seeds[0], column_keys, widths[0], of_input),
                uniform_rows(seeds[2], np.zeros(1, np.uint64), widths[0], of_input)[0],
                # From zero: at first only the ratings count, and features come in as far as they help.
                np.zeros((features, widths[0]), np.float32) if features else None,
            ),
            [
                Linear.drawn(fan_in + features, np.arange(fan_out, dtype=np.uint64), seed)
                for (fan_in, fan_out), seed in zip(pairwise(widths), seeds[3:], strict=True)
            ],
            Linear.drawn(widths[-1] + features, column_keys, seeds[1], _LEAST_WIDTH if len(widths) == 1 else 1),
            settings.activation,
            settings.output == "tanh",
        )

    @classmethod
    def of(cls, weights: Mapping[str, Floats], settings: NetworkSettings) -> Self:
        """A network with these weights; ValueError where its layers are not those of the settings."""
        network = cls(
            InputLayer(weights["input.weight"], weights["input.bias"], weights.get("input.side")),
            [
                Linear(weights[f"middle.{number}.weight"], weights[f"middle.{number}.bias"])
                for number in range(len(settings.hidden) - 1)
            ],
            Linear(weights["output.weight"], weights["output.bias"]),
            settings.activation,
            settings.output == "tanh",
        )
        widths = tuple(map(len, [network.input.bias, *(layer.bias for layer in network.middle)]))
        if widths != settings.hidden or len(network.weights()) != len(weights):
            raise ValueError("the layers of the network are not those that the settings ask for")
        return network

    @property
    def columns(self) -> int:
        return len(self.input.weight)

    @property
    def features(self) -> int:
        return 0 if self.input.side is None else len(self.input.side)

    @property
    def width(self) -> int:
        """Of a code: the last hidden layer and the features."""
        return int(self.output.weight.shape[1])

    def weights(self) -> Weights:
        """The arrays themselves, by name."""
        found = {"input.weight": self.input.weight, "input.bias": self.input.bias}
        if self.input.side is not None:
            found["input.side"] = self.input.side
        for number, layer in enumerate(self.middle):
            found |= {f"middle.{number}.weight": layer.weight, f"middle.{number}.bias": layer.bias}
        return found | {"output.weight": self.output.weight, "output.bias": self.output.bias}

    def take(self, weights: Mapping[str, Floats]) -> None:
        """Write these over its own, which are of the same shape."""
        for name, own in self.weights().items():
            own[:] = weights[name]

    def hidden(self, z: Floats, features: Floats) -> list[Floats]:
        """What the input layer gives (B, k) -> the hidden units of every layer, (B, width) each."""
        found = [activated(z, self.activation)]
        for layer in self.middle:
            found.append(activated(layer(self.beside(found[-1], features)), self.activation))
        return found

    def code(self, z: Floats, features: Floats) -> Floats:
        """What the input layer gives (B, k) -> codes (B, width)."""
        return self.beside(self.hidden(z, features)[-1], features)

    def beside(self, hidden: Floats, features: Floats) -> Floats:
        """[h, s]"""
        return np.concatenate([hidden, features], axis=1) if self.features else hidden


def encode_rows(network: CFNetwork, rows: ScaledRows) -> Floats:
    """Codes (rows, width), for one row or for millions; an empty row gets the code of knowing nothing.

    Where columns are spread over processes, all of these ask for the same rows.
    """
    known = rows.known
    inputs = (known.values + np.float32(rows.presence)) * np.repeat(rows.input_scale, known.counts())
    z = rows.portion.exchange.all_reduce(summed_inputs(network.input.weight, known.indptr, known.indices, inputs))
    z += network.input.offset(rows.features)
    return network.code(z, rows.features)


@one_blas_thread()
@np.errstate(all="ignore")  # a run that diverges is noticed by its result
def outputs_at(network: CFNetwork, rows: ScaledRows, entry_rows: Longs, entry_columns: Ints) -> Floats:
    """Outputs (n,) at entries of the rows, read without noise. Columns may be spread over processes."""
    codes = encode_rows(network, rows)
    outputs = np.empty(len(entry_rows), np.float32)
    for first in range(0, len(outputs), _ENTRIES_AT_ONCE):
        at = slice(first, first + _ENTRIES_AT_ONCE)
        weight, bias = (part[entry_columns[at]] for part in (network.output.weight, network.output.bias))
        outputs[at] = np.einsum("eq,eq->e", codes[entry_rows[at]], weight) + bias
    return np.tanh(outputs) if network.squash else outputs


def summed_inputs(weight: Floats, indptr: Longs, indices: Ints, inputs: Floats) -> Floats:
    """(rows, k): of each row, the sum of the weights of its columns times its inputs."""
    rows = len(indptr) - 1
    if len(inputs) * weight.shape[1] < _WORTH_KERNELS:
        from scipy.sparse import csr_array

        found: Floats = csr_array((inputs, indices, indptr), (rows, len(weight))) @ weight
        return found
    z = np.empty((rows, weight.shape[1]), np.float32)
    cuts = np.searchsorted(indptr, np.linspace(0, len(inputs), cores() + 1)).clip(0, rows)
    cuts[0], cuts[-1] = 0, rows
    on_all_cores(lambda part: sum_inputs(weight, indptr, indices, inputs, *part, z), pairwise(cuts))
    return z
