"""Steps over the whole matrix follow the gradient that torch finds of the loss, each weight at its own pace."""

import numpy as np
import pytest
import torch

from cofill.config import Activation, CFNSettings
from cofill.models.cfn.full_batch import FullBatchEngine
from cofill.models.cfn.loss import DenoisingLoss
from cofill.models.cfn.minibatch import gather
from cofill.models.cfn.network import CFNetwork
from tests.models.cfn.test_kernels import ACTIVATIONS, ROWS, new_network, scaled_rows

STEPS, FIRST_STEP, DECAY, BETA = 6, 0.01, 0.3, 0.7


def settings_of(activation: Activation, threads: int) -> CFNSettings:
    return CFNSettings(
        hidden=(16,), activation=activation, learning_rate=FIRST_STEP, weight_decay=DECAY, beta=BETA, threads=threads
    )


def by_autograd(network: CFNetwork) -> tuple[float, list[torch.Tensor]]:
    """The loss of all rows, and the gradients of loss and decay."""
    batch = gather(scaled_rows(), np.arange(ROWS))
    rows, columns = (torch.from_numpy(a.astype(np.int64)) for a in (batch.entries.rows, batch.entry_columns))
    inputs, targets, corrupted = (
        torch.from_numpy(a) for a in (batch.entries.inputs, batch.entries.targets, batch.entries.corrupted)
    )
    codes = network.encode(rows, columns, inputs, ROWS)
    loss = DenoisingLoss(1.0, BETA)(network.decode(codes, rows, columns), targets, corrupted, ROWS)
    squares = (network.input.weight**2).sum() + (network.output.weight**2).sum()  # of the biases, none
    gradients = torch.autograd.grad(loss + DECAY / 2 * squares, list(network.parameters()))
    return loss.item() * ROWS, list(gradients)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_gradient_is_that_of_autograd_at_every_step(activation: Activation, threads: int) -> None:
    settings = settings_of(activation, threads)
    network = new_network(settings)
    with FullBatchEngine(network, settings) as engine:
        for _ in range(STEPS):
            expected_loss, expected = by_autograd(network)
            loss = engine.step(gather(scaled_rows(), np.arange(ROWS)), FIRST_STEP)
            assert loss == pytest.approx(expected_loss, rel=1e-5)
            for (name, parameter), gradient in zip(network.named_parameters(), expected, strict=True):
                assert gradient.abs().max() > 1e-4, name  # there was something to find
                # RProp sets a gradient aside where its sign changed: then that weight waits.
                assert parameter.grad is not None
                found = torch.where(parameter.grad.bool(), parameter.grad, gradient)
                torch.testing.assert_close(found, gradient, rtol=1e-4, atol=1e-6)


def test_a_weight_hurries_while_its_gradient_keeps_its_sign() -> None:
    """By 1.2 from step to step; all start with the learning rate."""
    settings = settings_of("sigmoid", 1)
    network = new_network(settings)
    engine = FullBatchEngine(network, settings)
    batch, moved, signs = gather(scaled_rows(), np.arange(ROWS)), [], []
    for _ in range(3):
        before = network.input.weight.detach().clone()
        signs.append(torch.sign(by_autograd(network)[1][0]))
        engine.step(batch, FIRST_STEP)
        moved.append(network.input.weight.detach() - before)
    rated = torch.from_numpy(batch.entries.present.astype(np.int64))
    torch.testing.assert_close(moved[0][rated], -FIRST_STEP * signs[0][rated], rtol=0, atol=1e-6)
    steady = (signs[0] == signs[1]) & (signs[1] == signs[2])
    assert steady[rated].float().mean() > 0.1
    torch.testing.assert_close(moved[2][steady], 1.44 * moved[0][steady], rtol=0, atol=1e-6)
