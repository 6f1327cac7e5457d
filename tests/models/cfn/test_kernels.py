"""The fused kernels give the weights of the plain torch network, whatever the noise, the output and the depth."""

import itertools
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from cofill.config import Activation, CFNSettings, Noise, Output
from cofill.data.sparse import SparseRows
from cofill.models.cfn import torch as in_torch
from cofill.models.cfn.fit import TrainingEngine
from cofill.models.cfn.network import CFNetwork, activated, activation_gradient, encode_rows, outputs_at
from cofill.models.cfn.scaling import ScaledRows
from cofill.models.cfn.sgd import EpochNoise, FusedEngine, lay_out
from cofill.models.cfn.torch import PlainNetwork, TorchEngine
from tests.models.cfn.as_read import as_read, entries_of, gather, step

ROWS, COLUMNS = 40, 60
P = 3  # side features, where there are any
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


def scaled_rows(seed: int = 0, *, features: int = 0) -> ScaledRows:
    """Skewed rows: empty ones, one with a single rating, full ones, and ratings that are exactly zero.

    A third of the rows has no features, and the last feature is that of a few rows alone.
    """
    rng = np.random.default_rng(seed)
    known = rng.random((ROWS, COLUMNS)) < np.linspace(0, 1, ROWS)[:, None]
    known[1] = False
    known[1, 7] = True
    values = np.round(rng.normal(0, 0.5, (ROWS, COLUMNS)), 1).astype(np.float32)
    assert (values[known] == 0).any()
    row, column = np.nonzero(known)
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    sparse = SparseRows(indptr, column.astype(np.int32), values[row, column], COLUMNS)
    input_scale = rng.uniform(0.5, 2, ROWS).astype(np.float32)
    side = rng.normal(size=(ROWS, features)).astype(np.float32)
    side[::3] = 0
    side[5:, -1:] = 0
    return as_read(sparse, side, input_scale=input_scale, presence=0.3)


def first_network(settings: CFNSettings, columns: int, *, features: int = 0, seed: int = 1) -> CFNetwork:
    return CFNetwork.drawn(settings, np.arange(columns, dtype=np.uint64), features=features, seed=(seed,))


def new_network(settings: CFNSettings, *, features: int = 0, columns: int = COLUMNS, seed: int = 1) -> CFNetwork:
    """The features' first weights start at zero, where decay does not show: here they start anywhere."""
    network = first_network(settings, columns, features=features, seed=seed)
    if network.input.side is not None:
        network.input.side[:] = np.random.default_rng(seed).uniform(-0.5, 0.5, network.input.side.shape)
    return network


def trained(settings: CFNSettings, *, fused: bool, features: int = 0, steps: int = 12) -> CFNetwork:
    """As many shards as there are threads."""
    network = new_network(settings, features=features)
    engine: TrainingEngine = FusedEngine(network, settings) if fused else TorchEngine(network, settings)
    cuts = np.linspace(0, COLUMNS, settings.threads + 1 if fused else 2).astype(np.int64)
    rows = scaled_rows(features=features)
    rng = np.random.default_rng(3)
    for number in range(steps):
        noise = EpochNoise.drawn(rows, settings, 2, number)
        minibatch = gather(rows, rng.permutation(ROWS)[:7].astype(np.int64), noise, cuts)
        step(engine, minibatch, 0.1 / (1 + number // 4))
    return network


def assert_same_weights(ours: CFNetwork, definition: CFNetwork, within: float = 1e-4) -> None:
    assert list(ours.weights()) == list(definition.weights())
    for name, b in definition.weights().items():
        difference = np.abs(ours.weights()[name] - b).max() / np.abs(b).max()
        assert difference < within, f"{name} differs by {difference:.2e}"


def settings_for(noise: Noise, output: Output, hidden: tuple[int, ...], **changes: object) -> CFNSettings:
    return CFNSettings.of(
        {
            "noise": noise,
            "output": output,
            "hidden": hidden,
            "noise_ratio": 0.4,
            "cold_ratio": 0.2,
            "alpha": 1.1,
            "beta": 0.6,
            "weight_decay": 0.2,
            "threads": 1,
        }
        | changes
    )


CASES = [
    *itertools.product(("mask", "gaussian", "salt-and-pepper"), ("tanh", "identity"), ((16,), (16, 9, 16)), ("tanh",)),
    *itertools.product(("mask",), ("identity",), ((16,), (16, 9)), ("sigmoid", "identity")),
]


@pytest.mark.parametrize("features", [0, P])
@pytest.mark.parametrize(("noise", "output", "hidden", "activation"), CASES)
def test_fused_equals_plain_torch(
    noise: Noise, output: Output, hidden: tuple[int, ...], activation: Activation, features: int
) -> None:
    """With any number of shards, also with more than there are columns."""
    settings = settings_for(noise, output, hidden, activation=activation)
    definition = trained(settings, fused=False, features=features)
    for threads in (1, 2, 100):
        assert_same_weights(trained(settings.changed({"threads": threads}), fused=True, features=features), definition)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("features", [0, P])
def test_many_minibatches_in_one_call_are_the_same_one_by_one(features: int, threads: int) -> None:
    """Also where decay is so strong that the weights have to be made current on the way."""
    settings = settings_for("mask", "identity", (16,), weight_decay=6.0)
    rows = scaled_rows(features=features)
    noise = EpochNoise.drawn(rows, settings, 2)
    order = np.random.default_rng(0).permutation(ROWS)
    cuts = np.linspace(0, COLUMNS, threads + 1).astype(np.int64)
    together, apart = (new_network(settings, features=features) for _ in range(2))
    engine, other = (FusedEngine(network, settings) for network in (together, apart))
    for _ in range(3):
        some = list(lay_out(rows, order, 4, noise, cuts, most=400))
        together_lost = sum(engine.train(each, 0.1).sum() for each in some)
        lost = [step(other, gather(rows, order[first : first + 4], noise), 0.1) for first in range(0, ROWS, 4)]
        assert together_lost == pytest.approx(sum(lost), rel=1e-5)
        assert sum(len(each) for each in some) == ROWS // 4
        assert sum(each.ratings.sum() for each in some) == rows.known.nnz
    assert_same_weights(together, apart)


def test_features_of_zero_are_no_features() -> None:
    """A network that reads rows of which nothing is known learns what one without features learns."""
    settings = settings_for("mask", "identity", (16,))
    plain, reads_features = new_network(settings), new_network(settings, features=P)
    for name, weight in plain.weights().items():
        other = reads_features.weights()[name]
        other[:] = weight if other.shape == weight.shape else np.pad(weight, ((0, 0), (0, P)))
    known = scaled_rows()
    for network, features in ((plain, 0), (reads_features, P)):
        rows = replace(known, features=np.zeros((ROWS, features), np.float32))
        engine = FusedEngine(network, settings)
        for _ in range(5):
            step(engine, gather(rows, np.arange(ROWS)), 0.1)
    for name, weight in plain.weights().items():
        learned = reads_features.weights()[name]
        learned = learned[:, :16] if name == "output.weight" else learned
        np.testing.assert_allclose(learned, weight, rtol=1.3e-6, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("features", [0, P])
@pytest.mark.parametrize("hidden", [(16,), (16, 9, 16)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_codes_and_outputs_are_those_of_the_definition(
    activation: Activation, hidden: tuple[int, ...], features: int
) -> None:
    """Of one row and of many. [h, s]: the features stand at the end of a code as they are."""
    settings = settings_for("mask", "tanh", hidden, activation=activation)
    network, rows = trained(settings, fused=True, features=features), scaled_rows(features=features)
    known = entries_of(gather(rows, np.arange(ROWS)))
    given = (torch.from_numpy(known.rows.astype(np.int64)), torch.from_numpy(known.columns.astype(np.int64)))
    plain = PlainNetwork(network)
    with torch.no_grad():
        codes = plain.encode(*given, torch.from_numpy(known.inputs), ROWS, torch.from_numpy(rows.features))
        outputs = torch.tanh(plain.output.everywhere(codes)).numpy()
    expected = codes.numpy()
    assert expected.shape == (ROWS, network.width) == (ROWS, hidden[-1] + features)
    np.testing.assert_array_equal(expected[:, hidden[-1] :], rows.features)
    np.testing.assert_allclose(encode_rows(network, rows), expected, rtol=0, atol=1e-5)
    for row in range(ROWS):
        np.testing.assert_allclose(
            encode_rows(network, rows.take(np.array([row])))[0], expected[row], rtol=0, atol=1e-5
        )
    at = np.repeat(np.arange(ROWS), 3), np.random.default_rng(0).integers(0, COLUMNS, 3 * ROWS).astype(np.int32)
    np.testing.assert_allclose(outputs_at(network, rows, *at), outputs[at], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_function_of_hidden_layers_and_its_slope_are_those_of_torch(activation: Activation) -> None:
    """Far out, too."""
    z = np.concatenate([np.linspace(-6, 6, 101), [-1e4, 1e4]]).astype(np.float32)
    leaf = torch.from_numpy(z).requires_grad_()
    h = in_torch.activated(leaf, activation)
    h.sum().backward()
    found = activated(z, activation)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, h.detach().numpy(), rtol=0, atol=1e-6)
    assert leaf.grad is not None
    slope = activation_gradient(np.full_like(z, 3), h.detach().numpy(), activation)
    np.testing.assert_allclose(slope, 3 * leaf.grad.numpy(), rtol=0, atol=1e-6)


# Sums of very many ratings


def long_row(ratings: int) -> ScaledRows:
    """One row with so many ratings, all of them on one side, and a second one with a few."""
    rng = np.random.default_rng(5)
    values = rng.uniform(0.2, 1.0, ratings + 3).astype(np.float32)
    indices = np.append(np.arange(ratings), [0, 5, 9]).astype(np.int32)
    sparse = SparseRows(np.array([0, ratings, ratings + 3]), indices, values, ratings)
    return as_read(sparse, input_scale=np.array([(300 / ratings) ** 0.5, 1], np.float32))


def after_one_step(rows: ScaledRows, settings: CFNSettings, *, fused: bool) -> CFNetwork:
    network = first_network(settings, rows.known.columns)
    network.input.weight += 0.01  # so that hidden units are far from zero, and gradients of a row add up
    engine: TrainingEngine = FusedEngine(network, settings) if fused else TorchEngine(network, settings)
    step(engine, gather(rows, np.arange(2), cuts=engine.cuts(rows)), 1e-3)
    return network


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("ratings", [1_000, 100_000])
def test_rows_of_any_length_equal_plain_torch(ratings: int, threads: int) -> None:
    settings = settings_for("mask", "identity", (16,), weight_decay=0.0, threads=threads)
    rows = long_row(ratings)
    ours, definition = (after_one_step(rows, settings, fused=fused) for fused in (True, False))
    assert_same_weights(ours, definition, within=1e-3)  # a sum of so many is rounded as often
