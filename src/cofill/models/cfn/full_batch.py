"""Training by the whole matrix at once: gradients over all known ratings, and resilient propagation."""

import numpy as np

from cofill.compiling import compiled
from cofill.config import CFNSettings
from cofill.models.cfn.activation import activated, activation_gradient
from cofill.models.cfn.engines import FusedEngine
from cofill.models.cfn.kernels import Entries, Floats
from cofill.models.cfn.loss import Loss, loss_and_derivative
from cofill.models.cfn.minibatch import Minibatch
from cofill.models.cfn.network import CFNetwork, Weights

_GROWS, _SHRINKS = np.float32(1.2), np.float32(0.5)
_SMALLEST, _LARGEST = np.float32(1e-6), np.float32(50)


class FullBatchEngine(FusedEngine):
    """Steps of RProp on the loss + weight_decay / 2 (|W_in|^2 + |W_out|^2), biases let alone.

    For networks with one hidden layer, without features and without noise. Both big layers meet known ratings only, on
    shards, as those of the fused engine do.
    """

    follows_gradient: bool = False

    def __init__(self, network: CFNetwork, settings: CFNSettings) -> None:
        super().__init__(network, settings)
        self.gradients = _like(network.weights(), 0.0)
        self._before = _like(network.weights(), 0.0)
        self._sizes = _like(network.weights(), settings.learning_rate)

    @np.errstate(all="ignore")
    def step(self, minibatch: Minibatch, learning_rate: float) -> float:
        """RProp finds the size of every weight's step itself: the learning rate is that of the first one."""
        loss = self._find_gradients(minibatch)
        for name, weight in self.network.weights().items():
            step_by_sign(weight.ravel(), *(of[name].ravel() for of in (self.gradients, self._before, self._sizes)))
        return loss

    def _find_gradients(self, minibatch: Minibatch) -> float:
        """Of loss and decay; returns the loss, summed over entries."""
        entries, bounds = minibatch.entries, minibatch.bounds(self.shards)
        network, found = self.network, self.gradients
        for gradient in found.values():
            gradient[:] = 0
        z = self._encode(minibatch, bounds) + network.input.bias
        hidden = activated(z, network.activation)
        dh = np.empty((self.shards, *hidden.shape), np.float32)
        losses = self._on_shards(
            lambda s: output_gradients(
                self._output.weight, self._b_out, self.loss, entries, hidden, bounds[s], bounds[s + 1],
                dh[s], found["output.weight"], found["output.bias"],
            )
        )  # fmt: skip
        dz = activation_gradient(dh.sum(0), hidden, network.activation)
        found["input.bias"][:] = dz.sum(0)
        self._on_shards(lambda s: input_gradients(entries, dz, bounds[s], bounds[s + 1], found["input.weight"]))
        decay = np.float32(self.settings.weight_decay)
        found["input.weight"] += decay * network.input.weight
        found["output.weight"] += decay * network.output.weight
        return sum(losses)


def _like(weights: Weights, value: float) -> Weights:
    return {name: np.full_like(weight, value) for name, weight in weights.items()}


@compiled
def step_by_sign(weight: Floats, gradient: Floats, before: Floats, sizes: Floats) -> None:
    """One step of RProp (Riedmiller and Braun 1993): a weight's step grows as long as its gradient keeps its sign.

    Where the sign has changed, the step is halved, and the weight stays where it is this time. `before` are the
    gradients that the step before has followed.
    """
    for at in range(len(weight)):
        g = gradient[at]
        agreement = g * before[at]
        if agreement > 0:
            sizes[at] = min(sizes[at] * _GROWS, _LARGEST)
        elif agreement < 0:
            sizes[at] = max(sizes[at] * _SHRINKS, _SMALLEST)
            g = np.float32(0)
        if g > 0:
            weight[at] -= sizes[at]
        elif g < 0:
            weight[at] += sizes[at]
        before[at] = g


@compiled
def output_gradients(
    weight: Floats,
    bias: Floats,
    loss: Loss,
    entries: Entries,
    hidden: Floats,
    first: int,
    last: int,
    dh: Floats,
    dweight: Floats,
    dbias: Floats,
) -> float:
    """The gradients of W, b and, over this shard, of h; those of W must come as zeros. Returns the loss, summed over
    entries."""
    present, starts, entry_rows = entries.present, entries.starts, entries.rows
    targets, corrupted = entries.targets, entries.corrupted
    batch, width = hidden.shape
    per_row = np.float32(1.0 / batch)
    total = 0.0
    dh[:] = 0
    for c in range(first, last):
        column = present[c]
        w, dw = weight[column], dweight[column]
        gradient_sum = np.float32(0)
        for e in range(starts[c], starts[c + 1]):
            h_i, dh_i = hidden[entry_rows[e]], dh[entry_rows[e]]
            dot = np.float32(0)
            for q in range(width):
                dot += h_i[q] * w[q]
            lost, derivative = loss_and_derivative(loss, dot + bias[column], targets[e], corrupted[e])
            total += float(lost)
            g = per_row * derivative
            gradient_sum += g
            for q in range(width):
                dh_i[q] += g * w[q]
                dw[q] += g * h_i[q]
        dbias[column] = gradient_sum
    return total


@compiled
def input_gradients(entries: Entries, dz: Floats, first: int, last: int, dweight: Floats) -> None:
    """dW[j] = sum_i x_ij dz_i; it must come as zeros."""
    present, starts, entry_rows, inputs = entries.present, entries.starts, entries.rows, entries.inputs
    for c in range(first, last):
        dw = dweight[present[c]]
        for e in range(starts[c], starts[c + 1]):
            dz_i = dz[entry_rows[e]]
            x = inputs[e]
            for q in range(dz.shape[1]):
                dw[q] += x * dz_i[q]
