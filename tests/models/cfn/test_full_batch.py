"""Steps over the whole matrix follow the gradient that torch finds of the loss, each weight at its own pace."""

import numpy as np
import pytest
import torch

from cofill.arrays import Floats
from cofill.config import Activation, CFNSettings
from cofill.models.baselines.autorec import FullBatchEngine, step_by_sign
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.torch import DenoisingLoss, PlainNetwork
from tests.models.cfn.as_read import entries_of, gather, step
from tests.models.cfn.test_kernels import ACTIVATIONS, COLUMNS, ROWS, new_network, scaled_rows

STEPS, FIRST_STEP, DECAY, BETA = 6, 0.01, 0.3, 0.7


def settings_of(activation: Activation, threads: int) -> CFNSettings:
    return CFNSettings(
        hidden=(16,), activation=activation, learning_rate=FIRST_STEP, weight_decay=DECAY, beta=BETA, threads=threads
    )


def by_autograd(trained: CFNetwork) -> tuple[float, dict[str, Floats]]:
    """The loss of all rows, and the gradients of loss and decay."""
    network = PlainNetwork(trained)
    batch = entries_of(gather(scaled_rows(), np.arange(ROWS)))
    rows, columns = (torch.from_numpy(a.astype(np.int64)) for a in (batch.rows, batch.columns))
    inputs, targets, corrupted = (torch.from_numpy(a) for a in (batch.inputs, batch.targets, batch.corrupted))
    codes = network.encode(rows, columns, inputs, ROWS, torch.zeros(ROWS, 0))
    loss = DenoisingLoss(1.0, BETA)(network.decode(codes, rows, columns), targets, corrupted, ROWS)
    squares = (network.input.weight**2).sum() + (network.output.weight**2).sum()  # of the biases, none
    gradients = torch.autograd.grad(loss + DECAY / 2 * squares, list(network.parameters()))
    return loss.item() * ROWS, {name: g.numpy() for name, g in zip(trained.weights(), gradients, strict=True)}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_gradient_is_that_of_autograd_at_every_step(activation: Activation, threads: int) -> None:
    settings = settings_of(activation, threads)
    network = new_network(settings)
    engine = FullBatchEngine(network, settings)
    for _ in range(STEPS):
        expected_loss, expected = by_autograd(network)
        cuts = np.linspace(0, COLUMNS, threads + 1).astype(np.int64)
        loss = step(engine, gather(scaled_rows(), np.arange(ROWS), cuts=cuts), FIRST_STEP)
        assert loss == pytest.approx(expected_loss, rel=1e-5)
        for name, gradient in expected.items():
            assert np.abs(gradient).max() > 1e-4, name  # there was something to find
            np.testing.assert_allclose(engine.gradients[name], gradient, rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_steps_are_those_of_torch() -> None:
    """Of RProp, for gradients that keep their sign, change it, and are zero; up to its longest and shortest steps."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=400).astype(np.float32)
    leaf = torch.from_numpy(weight.copy()).requires_grad_()
    rprop = torch.optim.Rprop([leaf], lr=FIRST_STEP)
    before, sizes = np.zeros_like(weight), np.full_like(weight, FIRST_STEP)
    steady = np.linspace(-1, 1, 400)
    for turn in range(60):
        gradient = (steady * (rng.random(400) < 0.9) + (turn % 2 - 0.5) * (np.arange(400) % 3 == 0)).astype(np.float32)
        leaf.grad = torch.from_numpy(gradient.copy())
        rprop.step()
        step_by_sign(weight, gradient, before, sizes)
        np.testing.assert_allclose(weight, leaf.detach().numpy(), rtol=1e-5, atol=1e-5)
    assert sizes.max() == 50
    assert sizes.min() == np.float32(1e-6)


def test_a_weight_hurries_while_its_gradient_keeps_its_sign() -> None:
    """By 1.2 from step to step; all start with the learning rate."""
    settings = settings_of("sigmoid", 1)
    network = new_network(settings)
    engine = FullBatchEngine(network, settings)
    batch, moved, signs = gather(scaled_rows(), np.arange(ROWS)), [], []
    for _ in range(3):
        before = network.input.weight.copy()
        signs.append(np.sign(by_autograd(network)[1]["input.weight"]))
        step(engine, batch, FIRST_STEP)
        moved.append(network.input.weight - before)
    rated = np.unique(entries_of(batch).columns)
    np.testing.assert_allclose(moved[0][rated], -FIRST_STEP * signs[0][rated], rtol=0, atol=1e-6)
    steady = (signs[0] == signs[1]) & (signs[1] == signs[2])
    assert steady[rated].mean() > 0.1
    np.testing.assert_allclose(moved[2][steady], 1.44 * moved[0][steady], rtol=0, atol=1e-6)
