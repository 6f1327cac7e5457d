"""The loss by hand; that the kernels have its derivative, `test_gradients.py` shows."""

import pytest
import torch

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
