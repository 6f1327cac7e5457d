"""Training by the whole matrix at once: gradients over all known ratings, and resilient propagation."""

import numpy as np
import torch

from cofill.compiling import compiled
from cofill.config import CFNSettings
from cofill.models.cfn.engines import FusedEngine
from cofill.models.cfn.kernels import Entries, Floats
from cofill.models.cfn.layers import activated, activation_gradient
from cofill.models.cfn.loss import Loss, loss_and_derivative
from cofill.models.cfn.minibatch import Minibatch
from cofill.models.cfn.network import CFNetwork


class FullBatchEngine(FusedEngine):
    """Steps of RProp on the loss + weight_decay / 2 (|W_in|^2 + |W_out|^2), biases let alone.

    For networks with one hidden layer, without features and without noise. Both big layers meet known ratings only, on
    shards, as those of the fused engine do.
    """

    follows_gradient: bool = False

    def __init__(self, network: CFNetwork, settings: CFNSettings) -> None:
        super().__init__(network, settings)
        for parameter in network.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self._rprop = torch.optim.Rprop(network.parameters(), lr=settings.learning_rate)

    def __exit__(self, *problem: object) -> None:
        super().__exit__(*problem)
        for parameter in self.network.parameters():
            parameter.grad = None  # as large as the weights themselves

    def step(self, minibatch: Minibatch, learning_rate: float) -> float:
        """RProp finds the size of every weight's step itself: the learning rate is that of the first one."""
        loss = self._find_gradients(minibatch)
        self._rprop.step()
        return loss

    @torch.no_grad()
    def _find_gradients(self, minibatch: Minibatch) -> float:
        """Of loss and decay, into the parameters' own; returns the loss, summed over entries."""
        entries, bounds = minibatch.entries, minibatch.bounds(self.shards)
        network = self.network
        self._rprop.zero_grad(set_to_none=False)
        dw_in, db_in, dw_out, db_out = (
            _gradient(parameter)
            for parameter in (network.input.weight, network.input.bias, network.output.weight, network.output.bias)
        )
        z = torch.from_numpy(self._encode(minibatch, bounds)).add_(network.input.bias)
        hidden = activated(z, network.activation).numpy()
        dh = np.empty((self.shards, *hidden.shape), np.float32)
        losses = self._on_shards(
            lambda s: output_gradients(
                self._output.weight, self._b_out, self.loss, entries, hidden, bounds[s], bounds[s + 1],
                dh[s], dw_out, db_out,
            )
        )  # fmt: skip
        dz = activation_gradient(dh.sum(0), hidden, network.activation)
        db_in[:] = dz.sum(0)
        self._on_shards(lambda s: input_gradients(entries, dz, bounds[s], bounds[s + 1], dw_in))
        for layer in (network.input, network.output):
            torch.from_numpy(_gradient(layer.weight)).add_(layer.weight, alpha=self.settings.weight_decay)
        return sum(losses)


def _gradient(parameter: torch.nn.Parameter) -> Floats:
    assert parameter.grad is not None
    return parameter.grad.numpy()


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
