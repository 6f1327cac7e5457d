"""What an earlier version saved loads to the same predictions, and the same seed still gives the same weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cofill import Recommender
from tests.models import seeded_weights
from tests.models.seeded_weights import stored_weights, weights_in, weights_of
from tests.models.stored_models import NAMES, OF_FORMAT_7, make, unpacked

# Processors add in other orders, and solving and training make more of it; another draw makes a difference of tenths.
ROUNDING: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}
AFTER_TRAINING: dict[str, Any] = {"rtol": 2e-3, "atol": 2e-3}


@pytest.mark.parametrize("name", [*NAMES, *OF_FORMAT_7])
def test_a_stored_model_predicts_what_it_did(name: str, tmp_path: Path) -> None:
    pairs, predicted = unpacked(name, tmp_path)
    model = Recommender.load(tmp_path)
    np.testing.assert_allclose(model.predict(pairs), np.array(predicted, np.float32), **ROUNDING)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_weights_that_it_gave(name: str, tmp_path: Path) -> None:
    """Since version 0.1.0, or since draws are made by ids."""
    if name in seeded_weights.NAMES:
        then = stored_weights(name)
    else:
        unpacked(name, tmp_path)
        then = weights_in(tmp_path)
    now = weights_of(make(name))
    assert set(then) <= set(now)
    for part, array in then.items():
        found = now[part]
        if part.endswith(".factor"):  # its columns are eigenvectors, which may turn: the covariance is unique
            found, array = found @ found.T, array @ array.T
        np.testing.assert_allclose(found, array, **AFTER_TRAINING, err_msg=part)
