"""Training by the whole matrix at once: gradients over all known ratings, and resilient propagation."""

import numpy as np

from cofill.arrays import Floats
from cofill.compiling import compiled
from cofill.config import CFNSettings
from cofill.models.cfn.kernels import Entries, Loss, encode
from cofill.models.cfn.network import CFNetwork, Weights, activated, activation_gradient
from cofill.models.cfn.sgd import FusedEngine, LossSoFar, Minibatches

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
    def train(self, minibatches: Minibatches, learning_rate: float, so_far: LossSoFar) -> None:
        """RProp finds the size of every weight's step itself: the learning rate is that of the first one."""
        so_far.lost += self._find_gradients(minibatches)
        so_far.ratings += int(minibatches.ratings.sum())
        so_far.minibatches += 1
        for name, weight in self.network.weights().items():
            step_by_sign(weight.ravel(), *(of[name].ravel() for of in (self.gradients, self._before, self._sizes)))

    def _find_gradients(self, rows: Minibatches) -> float:
        """Of loss and decay; returns the loss, summed over entries."""
        network, found, shards = self.network, self.gradients, rows.shards
        for gradient in found.values():
            gradient[:] = 0
        z = np.empty((len(shards), len(rows.rows), network.width), np.float32)
        self._on_shards(
            lambda s: encode(network.input.weight, 1.0, shards[s], 0, shards[s].starts[-1], z[s]), len(shards)
        )
        hidden = activated(z.sum(0) + network.input.bias, network.activation)
        dh = np.empty((len(shards), *hidden.shape), np.float32)
        losses = self._on_shards(
            lambda s: output_gradients(
                network.output.weight, network.output.bias, self.loss, shards[s], hidden,
                dh[s], found["output.weight"], found["output.bias"],
            ),
            len(shards),
        )  # fmt: skip
        dz = activation_gradient(dh.sum(0), hidden, network.activation)
        found["input.bias"][:] = dz.sum(0)
        self._on_shards(lambda s: input_gradients(shards[s], dz, found["input.weight"]), len(shards))
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
    dh: Floats,
    dweight: Floats,
    dbias: Floats,
) -> float:
    """The gradients of W, b and, over this shard, of h; those of W and b must come as zeros. Returns the loss, summed
    over entries."""
    batch, width = hidden.shape
    per_row = np.float32(1.0 / batch)
    total = 0.0
    dh[:] = 0
    for e in range(len(entries.targets)):
        row, column = entries.rows[e], entries.columns[e]
        dot = bias[column]
        for q in range(width):
            dot += hidden[row, q] * weight[column, q]
        error = dot - entries.targets[e]
        lost = np.float32(loss.alpha if entries.corrupted[e] else loss.beta) * error
        total += float(lost * error)
        g = per_row * 2 * lost
        dbias[column] += g
        for q in range(width):
            dh[row, q] += g * weight[column, q]
            dweight[column, q] += g * hidden[row, q]
    return total


@compiled
def input_gradients(entries: Entries, dz: Floats, dweight: Floats) -> None:
    """dW[j] = sum_i x_ij dz_i; it must come as zeros."""
    for e in range(len(entries.inputs)):
        x, row, column = entries.inputs[e], entries.rows[e], entries.columns[e]
        for q in range(dz.shape[1]):
            dweight[column, q] += x * dz[row, q]
