"""The layers and the loss: dense equals sparse, right gradients, and nothing from what is unknown."""

import math

import pytest
import torch
from torch import Tensor, nn

from cofill.nn import Corruption, DenoisingLoss, SampledOutput, SparseInput

B, COLUMNS, WIDTH = 3, 7, 4
# The known entries of three rows; the middle row has none. Columns 4 and 6 are nobody's. One value is exactly 0.
ROWS = torch.tensor([0, 0, 0, 2, 2])
KNOWN = torch.tensor([0, 3, 5, 1, 3])
VALUES = torch.tensor([0.5, -1.0, 0.0, 0.25, 0.75], dtype=torch.float64)


def layers(*, dense: bool) -> tuple[SparseInput, SampledOutput]:
    generator = torch.Generator().manual_seed(0)
    return (
        SparseInput(COLUMNS, WIDTH, dense=dense, generator=generator).double(),
        SampledOutput(WIDTH, COLUMNS, dense=dense, generator=generator).double(),
    )


def test_dense_equals_sparse() -> None:
    gradients = []
    outputs = []
    for dense in (True, False):
        first, last = layers(dense=dense)
        out = last(torch.tanh(first(ROWS, KNOWN, VALUES, B)), ROWS, KNOWN)
        out.pow(2).sum().backward()
        outputs.append(out)
        gradients.append([p.grad for p in (*first.parameters(), *last.parameters())])
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(gradients[0], gradients[1])


FEATURES = torch.tensor([[1.0, 0.0], [-2.0, 0.5], [0.0, 0.0]], dtype=torch.float64)  # of the three rows


def with_features(*, dense: bool) -> SparseInput:
    layer = SparseInput(COLUMNS, WIDTH, features=2, dense=dense, generator=torch.Generator().manual_seed(0)).double()
    assert layer.side is not None
    assert not layer.side.any()  # at first the ratings speak alone
    with torch.no_grad():
        layer.side.add_(torch.arange(2 * WIDTH).reshape(2, WIDTH) / 5 - 0.7)
    return layer


@pytest.mark.parametrize("dense", [True, False])
def test_the_input_layer_by_hand(dense: bool) -> None:
    layer, _ = layers(dense=dense)
    z = layer(ROWS, KNOWN, VALUES, B)
    assert z.shape == (B, WIDTH)
    torch.testing.assert_close(z[0], 0.5 * layer.weight[0] - layer.weight[3] + layer.bias)
    torch.testing.assert_close(z[1], layer.bias)
    layer = with_features(dense=dense)
    z = layer(ROWS, KNOWN, VALUES, B, FEATURES)
    assert layer.side is not None
    torch.testing.assert_close(z[0], 0.5 * layer.weight[0] - layer.weight[3] + layer.side[0] + layer.bias)
    torch.testing.assert_close(z[1], -2 * layer.side[0] + 0.5 * layer.side[1] + layer.bias)
    torch.testing.assert_close(z[2], 0.25 * layer.weight[1] + 0.75 * layer.weight[3] + layer.bias)


@pytest.mark.parametrize("dense", [True, False])
def test_the_output_layer_by_hand(dense: bool) -> None:
    _, layer = layers(dense=dense)
    hidden = torch.arange(B * WIDTH, dtype=torch.float64).reshape(B, WIDTH) / 7
    outputs = layer(hidden, ROWS, KNOWN)
    for row, column, output in zip(ROWS.tolist(), KNOWN.tolist(), outputs, strict=True):
        torch.testing.assert_close(output, hidden[row] @ layer.weight[column] + layer.bias[column])
    torch.testing.assert_close(layer.everywhere(hidden)[ROWS, KNOWN], outputs)


def test_the_loss_by_hand() -> None:
    outputs = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    corrupted = torch.tensor([True, False, True])
    loss = DenoisingLoss(alpha=3.0, beta=0.5)(outputs, targets, corrupted, 2)
    assert loss.item() == pytest.approx((3 * 1 + 0.5 * 2.25 + 3 * 4) / 2)
    loss.backward()
    assert outputs.grad is not None
    assert outputs.grad.tolist() == pytest.approx([3 * 1, 0.5 * 1.5, 3 * -2])


def test_the_first_weights() -> None:
    """Uniform in +-1/sqrt(fan in), from the generator and nothing else."""
    one = SparseInput(400, 30, generator=torch.Generator().manual_seed(1))
    same = SparseInput(400, 30, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(one.weight, same.weight, rtol=0, atol=0)
    assert 0.98 / math.sqrt(400) < one.weight.abs().max().item() <= 1 / math.sqrt(400)
    out = SampledOutput(30, 400, generator=torch.Generator().manual_seed(1))
    assert 0.98 / math.sqrt(30) < out.weight.abs().max().item() <= 1 / math.sqrt(30)


class TwoTowers(nn.Module):
    """A network of one's own: two codes of a row, multiplied, between the layers of cofill."""

    def __init__(self, columns: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.left = SparseInput(columns, width, generator=generator)
        self.right = SparseInput(columns, width, generator=generator)
        self.out = SampledOutput(width, columns, generator=generator)

    def forward(self, rows: Tensor, columns: Tensor, values: Tensor, batch: int) -> Tensor:
        left, right = self.left(rows, columns, values, batch), self.right(rows, columns, values, batch)
        out: Tensor = self.out(torch.tanh(left) * torch.sigmoid(right), rows, columns)
        return out


def test_a_network_of_plain_torch_trains() -> None:
    generator = torch.Generator().manual_seed(3)
    known = torch.rand(30, 20, generator=generator) < 0.6
    taste, kind = (torch.randn(n, generator=generator).sign() for n in (30, 20))
    rows, columns = known.nonzero(as_tuple=True)
    targets = taste[rows] * kind[columns]
    network, loss = TwoTowers(20, 8, generator), DenoisingLoss(1.0, 0.5)
    corruption = Corruption("mask", 0.3)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        inputs, corrupted = corruption(rows, targets, 30, generator)
        step = loss(network(rows, columns, inputs, 30), targets, corrupted, 30)
        optimizer.zero_grad()
        step.backward()
        optimizer.step()
        losses.append(step.item())
    assert losses[-1] < losses[0] / 10
