"""The definition has the gradient of the loss as the paper writes it, found here by moving each weight a little."""

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch

from cofill.config import CFNSettings
from cofill.data.sparse import SparseRows
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.sgd import EpochNoise, Minibatches
from cofill.models.cfn.torch import DenoisingLoss, PlainNetwork
from tests.models.cfn.as_read import as_read, entries_of, gather
from tests.models.cfn.test_kernels import new_network

Doubles = npt.NDArray[np.float64]
Weights = dict[str, Doubles]
ROWS, COLUMNS, LITTLE = 5, 6, 1e-5
FUNCTIONS: dict[str, Callable[[Doubles], Doubles]] = {
    "tanh": np.tanh,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "identity": lambda z: z,
}


def loss_by_hand(weights: Weights, batch: Minibatches, settings: CFNSettings) -> float:
    """sum_e c_e (y_e - x_e)^2 / B row by row, with z = x W_in + s S_in + b_in, h = f(z), features at every layer."""
    f = FUNCTIONS[settings.activation]
    total = 0.0
    entries = entries_of(batch)
    columns = entries.columns
    for row in range(len(batch.rows)):
        mine = entries.rows == row
        side = batch.features[row].astype(np.float64)
        z = entries.inputs[mine] @ weights["input.weight"][columns[mine]] + weights["input.bias"]
        code = np.append(f(z + side @ weights.get("input.side", np.zeros((len(side), len(z))))), side)
        for n in range(len(settings.hidden) - 1):
            code = np.append(f(weights[f"middle.{n}.weight"] @ code + weights[f"middle.{n}.bias"]), side)
        y = weights["output.weight"][columns[mine]] @ code + weights["output.bias"][columns[mine]]
        y = np.tanh(y) if settings.output == "tanh" else y
        emphasis = np.where(entries.corrupted[mine], settings.alpha, settings.beta)
        total += float((emphasis * (y - entries.targets[mine]) ** 2).sum())
    return total / len(batch.rows)


def gradients(weights: Weights, batch: Minibatches, settings: CFNSettings) -> Weights:
    """By central differences, of every single weight."""
    found = {}
    for name, weight in weights.items():
        found[name] = np.zeros_like(weight)
        for place in np.ndindex(weight.shape):
            kept, ends = weight[place], []
            for moved in (kept + LITTLE, kept - LITTLE):
                weight[place] = moved
                ends.append(loss_by_hand(weights, batch, settings))
            weight[place] = kept
            found[name][place] = (ends[0] - ends[1]) / (2 * LITTLE)
    return found


def minibatch(settings: CFNSettings, features: int) -> Minibatches:
    """One row without a rating, one without features, a column that nobody rated, a rating of exactly zero."""
    rng = np.random.default_rng(0)
    known = rng.random((ROWS, COLUMNS)) < 0.7
    known[1], known[:, 4] = False, False
    row, column = np.nonzero(known)
    values = rng.normal(0, 0.6, len(row)).astype(np.float32)
    values[3] = 0
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    side = rng.normal(size=(ROWS, features)).astype(np.float32)
    side[2] = 0
    sparse = SparseRows(indptr, column.astype(np.int32), values, COLUMNS)
    rows = as_read(sparse, side, input_scale=rng.uniform(0.5, 2, ROWS).astype(np.float32), presence=0.4)
    batch = gather(rows, np.arange(ROWS), EpochNoise.drawn(rows, settings, 1))
    assert entries_of(batch).corrupted.any()
    assert not entries_of(batch).corrupted.all()
    return batch


def network_and_settings(
    hidden: tuple[int, ...], activation: str, output: str, features: int
) -> tuple[CFNetwork, CFNSettings]:
    settings = CFNSettings.of(
        {"hidden": hidden, "activation": activation, "output": output, "noise": "gaussian",
         "noise_ratio": 0.4, "cold_ratio": 0.3, "alpha": 1.25, "beta": 0.625, "weight_decay": 0.3, "threads": 2}
    )  # fmt: skip
    return new_network(settings, features=features, columns=COLUMNS, seed=2), settings


def weights_of(network: CFNetwork) -> Weights:
    return {name: weight.astype(np.float64) for name, weight in network.weights().items()}


CASES = list(itertools.product([(4,), (4, 3, 4)], FUNCTIONS, ["tanh", "identity"], [0, 2]))


@pytest.mark.parametrize(("hidden", "activation", "output", "features"), CASES)
def test_the_definition(hidden: tuple[int, ...], activation: str, output: str, features: int) -> None:
    """In double precision, where a wrong gradient cannot hide behind rounding."""
    trained, settings = network_and_settings(hidden, activation, output, features)
    batch = minibatch(settings, features)
    expected = gradients(weights_of(trained), batch, settings)
    network, entries = PlainNetwork(trained).double(), entries_of(batch)
    rows, columns = (torch.from_numpy(a.astype(np.int64)) for a in (entries.rows, entries.columns))
    inputs, side, targets = (
        torch.from_numpy(a.astype(np.float64)) for a in (entries.inputs, batch.features, entries.targets)
    )
    codes = network.encode(rows, columns, inputs, len(batch.rows), side)
    loss = DenoisingLoss(settings.alpha, settings.beta)(
        network.decode(codes, rows, columns), targets, torch.from_numpy(entries.corrupted), len(batch.rows)
    )
    assert loss.item() == pytest.approx(loss_by_hand(weights_of(trained), batch, settings), rel=1e-12)
    loss.backward()
    assert ("input.side" in expected) == (features > 0)
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad.numpy(), expected[name], rtol=1e-6, atol=1e-8, err_msg=name)
        assert np.abs(expected[name]).max() > 1e-6, name  # there was something to find
