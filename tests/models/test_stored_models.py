"""What an earlier version saved loads to the same predictions, and the same seed still gives the same weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from cofill import Recommender
from tests.models.stored_models import NAMES, make, unpacked

# On one machine they are the same to the bit; other processors may add in another order.
ROUNDING: dict[str, Any] = {"rtol": 2e-6, "atol": 2e-6}


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_model_predicts_what_it_did(name: str, tmp_path: Path) -> None:
    pairs, predicted = unpacked(name, tmp_path)
    model = Recommender.load(tmp_path)
    np.testing.assert_allclose(model.predict(pairs), np.array(predicted, np.float32), **ROUNDING)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_weights_that_it_gave(name: str, tmp_path: Path) -> None:
    unpacked(name, tmp_path / "then")
    make(name).save(tmp_path / "now")
    then, now = (weights(tmp_path / when) for when in ("then", "now"))
    assert set(then) <= set(now)
    for part, array in then.items():
        np.testing.assert_allclose(now[part], array, **ROUNDING, err_msg=part)


def weights(folder: Path) -> dict[str, Any]:
    card = json.loads((folder / "model.json").read_text())
    return load_file(folder / card["files"]["weights"]["name"])
