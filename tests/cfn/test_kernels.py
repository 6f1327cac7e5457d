"""The fused kernels give the weights of the plain torch network, whatever the noise, the output and the depth."""

import itertools

import numpy as np
import pytest
import torch

from cofill.cfn.corruption import Corruption
from cofill.cfn.engines import FusedEngine, TorchEngine, TrainingEngine
from cofill.cfn.minibatch import corrupt, gather
from cofill.cfn.network import CFNetwork
from cofill.cfn.scaling import ScaledRows
from cofill.config import CFNSettings, Noise, Output
from cofill.data.sparse import SparseRows

ROWS, COLUMNS = 40, 60


def scaled_rows(seed: int = 0) -> ScaledRows:
    """Skewed rows: empty ones, one with a single rating, full ones, and ratings that are exactly zero."""
    rng = np.random.default_rng(seed)
    known = rng.random((ROWS, COLUMNS)) < np.linspace(0, 1, ROWS)[:, None]
    known[1] = False
    known[1, 7] = True
    values = np.round(rng.normal(0, 0.5, (ROWS, COLUMNS)), 1).astype(np.float32)
    assert (values[known] == 0).any()
    row, column = np.nonzero(known)
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    sparse = SparseRows(indptr, column.astype(np.int32), values[row, column], COLUMNS)
    return ScaledRows(sparse, rng.uniform(0.5, 2, ROWS).astype(np.float32))


def trained(settings: CFNSettings, *, fused: bool, dense: bool = False, steps: int = 12) -> CFNetwork:
    network = CFNetwork(COLUMNS, settings, dense=dense, generator=torch.Generator().manual_seed(1))
    engine: TrainingEngine = FusedEngine(network, settings) if fused else TorchEngine(network, settings)
    generator = torch.Generator().manual_seed(2)
    rows = scaled_rows()
    rng = np.random.default_rng(3)
    for step in range(steps):
        minibatch = gather(rows, rng.permutation(ROWS)[:7].astype(np.int64))
        engine.step(corrupt(minibatch, Corruption.of(settings), generator), 0.1 / (1 + step // 4))
    engine.settle()
    return network


def assert_same_weights(ours: CFNetwork, definition: CFNetwork) -> None:
    for (name, a), b in zip(ours.named_parameters(), definition.parameters(), strict=True):
        difference = (a - b).abs().max() / b.abs().max()
        assert difference < 1e-4, f"{name} differs by {difference:.2e}"


def settings_for(noise: Noise, output: Output, hidden: tuple[int, ...], **changes: object) -> CFNSettings:
    return CFNSettings.of(
        {
            "noise": noise,
            "output": output,
            "hidden": hidden,
            "noise_ratio": 0.4,
            "alpha": 1.1,
            "beta": 0.6,
            "weight_decay": 0.2,
            "threads": 1,
        }
        | changes
    )


CASES = list(
    itertools.product(("mask", "gaussian", "salt-and-pepper"), ("tanh", "identity"), ((16,), (16, 9), (16, 9, 16)))
)


@pytest.mark.parametrize(("noise", "output", "hidden"), CASES)
def test_fused_equals_plain_torch(noise: Noise, output: Output, hidden: tuple[int, ...]) -> None:
    settings = settings_for(noise, output, hidden)
    assert_same_weights(trained(settings, fused=True), trained(settings, fused=False))


@pytest.mark.parametrize(("noise", "output", "hidden"), CASES)
def test_two_shards_equal_one(noise: Noise, output: Output, hidden: tuple[int, ...]) -> None:
    one = trained(settings_for(noise, output, hidden), fused=True)
    two = trained(settings_for(noise, output, hidden, threads=2), fused=True)
    assert_same_weights(two, one)


@pytest.mark.parametrize("output", ["tanh", "identity"])
def test_dense_and_sparse_modes_of_the_definition_agree(output: Output) -> None:
    settings = settings_for("mask", output, (16, 9))
    assert_same_weights(trained(settings, fused=False, dense=True), trained(settings, fused=False, dense=False))


def test_training_moves_the_weights() -> None:
    """The tests above could not tell two engines that both do nothing."""
    settings = settings_for("mask", "tanh", (16,))
    start = trained(settings, fused=True, steps=0)
    end = trained(settings, fused=True)
    for name, a in start.named_parameters():
        assert not torch.allclose(a, dict(end.named_parameters())[name], rtol=1e-2), name


def test_shards_that_outnumber_the_columns() -> None:
    many = trained(settings_for("mask", "tanh", (16,), threads=100), fused=True)
    assert_same_weights(many, trained(settings_for("mask", "tanh", (16,)), fused=True))


@pytest.mark.parametrize("fused", [True, False])
def test_outputs_are_those_of_the_definition(fused: bool) -> None:
    settings = settings_for("mask", "tanh", (16, 9))
    network = trained(settings, fused=True)
    rows = scaled_rows()
    engine: TrainingEngine = FusedEngine(network, settings) if fused else TorchEngine(network, settings)
    entry_rows = np.repeat(np.arange(ROWS), 3).astype(np.int64)
    entry_columns = np.random.default_rng(0).integers(0, COLUMNS, len(entry_rows)).astype(np.int32)
    outputs = engine.outputs(rows, entry_rows, entry_columns)
    row_of_entry = np.repeat(np.arange(ROWS), rows.known.counts())
    inputs = rows.known.values * rows.loudness[row_of_entry]
    with torch.no_grad():
        codes = network.encode(
            torch.from_numpy(row_of_entry),
            torch.from_numpy(rows.known.indices.astype(np.int64)),
            torch.from_numpy(inputs),
            ROWS,
        )
        expected = network.decode_everywhere(codes).numpy()[entry_rows, entry_columns]
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-6)
