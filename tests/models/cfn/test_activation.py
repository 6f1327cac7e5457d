"""The function of the hidden layers: in numpy as in torch, far out too; in a file."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from cofill import CFN
from cofill.config import Activation
from cofill.data.datasets.world import make_world
from cofill.errors import SettingsError
from cofill.models.cfn import network as in_numpy
from cofill.models.cfn.torch import activated

ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
QUICK: dict[str, Any] = {"hidden": 8, "epochs": 2, "validation": 0, "threads": 1}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_numpy_and_the_slope_are_those_of_torch(activation: Activation) -> None:
    z = np.concatenate([np.linspace(-6, 6, 101), [-1e4, 1e4]]).astype(np.float32)
    leaf = torch.from_numpy(z).requires_grad_()
    h = activated(leaf, activation)
    h.sum().backward()
    found = in_numpy.activated(z, activation)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, h.detach().numpy(), rtol=0, atol=1e-6)
    assert leaf.grad is not None
    slope = in_numpy.activation_gradient(np.full_like(z, 3), h.detach().numpy(), activation)
    np.testing.assert_allclose(slope, 3 * leaf.grad.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_file_brings_back_the_function(activation: Activation, tmp_path: Path) -> None:
    ratings = make_world(users=40, items=30, ratings=500, seed=4).ratings
    model = CFN(**QUICK, activation=activation).fit(ratings)
    model.save(tmp_path)
    loaded = CFN.load(tmp_path)
    assert loaded.settings.activation == activation
    np.testing.assert_array_equal(loaded.predict(ratings), model.predict(ratings))
    assert [r.item for r in loaded.recommend({3: 5.0, 7: 1.0})] == [r.item for r in model.recommend({3: 5.0, 7: 1.0})]


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"the setting 'activation' must be 'tanh', 'sigmoid' or 'identity'"):
        CFN(activation="relu")
