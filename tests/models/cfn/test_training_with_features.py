"""Training on side features: by either engine, and no trace of them where there are none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from cofill.config import CFNSettings
from cofill.data.sparse import SparseRows
from cofill.errors import CheckpointError
from cofill.models.cfn.fit import FitResult, fit_matrix, validation_entries
from cofill.models.cfn.network import encode_rows, outputs_at
from cofill.models.cfn.scaling import Scaling, hold_out
from cofill.models.rng import Portion
from tests.models.cfn.described_matrix import (
    COLD_COLUMN,
    COLD_ROW,
    COLUMNS,
    ROWS,
    SCALE,
    Floats,
    P,
    matrix,
    whole,
)

QUICK: dict[str, Any] = {
    "hidden": [8], "epochs": 4, "patience": 4, "batch": 10, "threads": 1, "validation": 0.1, "checkpoint_seconds": 0,
    "learning_rate": 0.05, "cold_ratio": 0.2,
}  # fmt: skip


def fit(
    changes: dict[str, Any], checkpoint: Path | None = None, *, features: Floats | None = None, **others: Any
) -> FitResult:
    features = matrix().row_features if features is None else features
    given = whole(features, matrix().column_features)
    return fit_matrix(given, CFNSettings.of(QUICK | changes), checkpoint=checkpoint, **others)


def weights(fitted: FitResult) -> bytes:
    """As they would be on disk."""
    return safetensors.numpy.save({name: np.ascontiguousarray(w) for name, w in fitted.network.weights().items()})


def test_a_checkpoint_of_other_features_is_refused(tmp_path: Path) -> None:
    checkpoint, features = tmp_path / "checkpoint.safetensors", matrix().row_features
    fit({}, checkpoint)
    one_number = features.copy()
    one_number[3, 1] += 1
    for other in (one_number, features[::-1].copy(), features[:, :0], features[:, :2].copy()):
        with pytest.raises(CheckpointError, match="other ratings, side information or settings"):
            fit({}, checkpoint, features=other, resume=True)


# Rows that are empty


def test_without_cold_rows_in_training_empty_ones_have_no_mark() -> None:
    """Nothing would teach the network what it means."""
    assert fit({"cold_ratio": 0}).network.features == P
    assert fit({"cold_ratio": 0.1}).network.features == P + 1


# Validation


def test_validation_reads_the_features() -> None:
    """The RMSE that chose the epochs, computed anew from the weights that were kept."""
    changes = {"refit": False, "decoder": "network"}
    fitted, settings, world = fit(changes), CFNSettings.of(QUICK | changes), matrix()
    portion = Portion.of(world.rows)
    part, asked = hold_out(world.rows, validation_entries(world.rows, settings, portion))
    scaling = Scaling.fit(part, None, SCALE, settings, world.row_features, portion)
    rows = scaling.down(part, world.row_features, portion)
    outputs = outputs_at(fitted.network, rows, asked.entry_rows, asked.entry_columns)
    predicted = scaling.up(outputs, scaling.means[asked.entry_rows])
    assert fitted.validation_rmse == pytest.approx(float(np.sqrt(np.mean((predicted - asked.ratings) ** 2))), abs=1e-5)


# Engines, and cold rows


def no_features(width: int = 0) -> Floats:
    return np.zeros((matrix().rows.rows, width), np.float32)


def test_without_features_no_row_is_cold() -> None:
    """Whatever the setting says, to the byte."""
    changes: dict[str, Any] = {"hidden": [8, 4, 8]}
    some, none = (fit(changes | {"cold_ratio": ratio}, features=no_features()) for ratio in (0.5, 0.0))
    assert weights(some) == weights(none)
    assert some.network.input.side is None
    with_features, without = (fit(changes | {"cold_ratio": ratio}) for ratio in (0.5, 0.0))
    assert weights(with_features) != weights(without)


def test_rows_that_were_cold_in_training_teach_it_to_read_features() -> None:
    """Validation does not show it, for its rows have ratings: what a row without any gets does."""
    world, errors = matrix(), []
    for ratio in (0.0, 0.3):
        fitted = fit({"cold_ratio": ratio, "epochs": 60, "validation": 0, "hidden": [16], "decoder": "network"})
        nothing = SparseRows(np.zeros(ROWS + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), COLUMNS)
        cold = fitted.part.scaling.down(nothing, world.row_features)
        outputs = fitted.network.output(encode_rows(fitted.network, cold))
        predicted = fitted.part.scaling.up(outputs, fitted.part.scaling.means[:, None])
        errors.append(float(np.sqrt(np.mean((predicted - world.truth)[:COLD_ROW, :COLD_COLUMN] ** 2))))
    assert errors[1] < 0.9 * errors[0]
