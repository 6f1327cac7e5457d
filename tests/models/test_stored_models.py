"""The model of format 1 that is kept here loads to the same answers, and the same seed still gives the same weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cofill import Recommender
from tests.models.seeded_weights import NAMES, stored_weights, weights_of
from tests.models.stored_models import make, unpacked

# Processors add in other orders, and solving and training make more of it; another draw makes a difference of tenths.
ROUNDING: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}
AFTER_TRAINING: dict[str, Any] = {"rtol": 2e-3, "atol": 2e-3}


def test_the_stored_model_answers_as_it_did(tmp_path: Path) -> None:
    stored = unpacked(tmp_path)
    model = Recommender.load(tmp_path)
    pairs = [(user, item) for user, item in stored["pairs"]]
    np.testing.assert_allclose(model.predict(pairs), np.array(stored["predicted"], np.float32), **ROUNDING)
    for user, entries in stored["lists"].items():
        found = model.recommend(user, 3)
        assert [entry.item for entry in found] == [item for item, _ in entries]
        np.testing.assert_allclose([entry.score for entry in found], [score for _, score in entries], **ROUNDING)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_weights_that_it_gave(name: str) -> None:
    now = weights_of(make(name))
    for part, array in stored_weights(name).items():
        found = now[part]
        if part.endswith(".factor"):  # its columns are eigenvectors, which may turn: the covariance is unique
            found, array = found @ found.T, array @ array.T
        np.testing.assert_allclose(found, array, **AFTER_TRAINING, err_msg=part)
