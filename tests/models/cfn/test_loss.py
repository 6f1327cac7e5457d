"""The loss by hand, the same for the kernels as in torch, and what holds for squared error alone."""

import numpy as np
import pytest
import torch

from cofill.models.cfn.loss import Loss, loss_and_derivative
from cofill.nn import DenoisingLoss


def test_a_rating_of_zero_is_in_the_loss() -> None:
    loss = DenoisingLoss(alpha=1.0, beta=0.5)
    value = loss(torch.tensor([0.3]), torch.tensor([0.0]), torch.tensor([False]), 1)
    assert value.item() == pytest.approx(0.5 * 0.09)


def test_the_loss_by_hand() -> None:
    outputs = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    corrupted = torch.tensor([True, False, True])
    loss = DenoisingLoss(alpha=3.0, beta=0.5)(outputs, targets, corrupted, 2)
    assert loss.item() == pytest.approx((3 * 1 + 0.5 * 2.25 + 3 * 4) / 2)
    loss.backward()
    assert outputs.grad is not None
    assert outputs.grad.tolist() == pytest.approx([3 * 1, 0.5 * 1.5, 3 * -2])


def test_the_kernels_have_the_loss_of_torch_and_its_derivative() -> None:
    rng = np.random.default_rng(0)
    outputs, targets = rng.uniform(-1, 1, (2, 50)).astype(np.float32)
    corrupted = rng.random(50) < 0.4
    leaf = torch.from_numpy(outputs).requires_grad_()
    total = DenoisingLoss(1.1, 0.6)(leaf, torch.from_numpy(targets), torch.from_numpy(corrupted), 7)
    total.backward()
    entries = zip(outputs, targets, corrupted, strict=True)
    found = np.array([loss_and_derivative(Loss(1.1, 0.6), *entry) for entry in entries])
    assert found[:, 0].sum() / 7 == pytest.approx(total.item(), rel=1e-5)
    assert leaf.grad is not None
    np.testing.assert_allclose(found[:, 1] / 7, leaf.grad.numpy(), rtol=1e-5)
