"""Training on side features: pre-trained, by either engine, and no trace of them where there are none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from cofill import CFN
from cofill.config import CFNSettings
from cofill.data.datasets.world import make_world
from cofill.data.sparse import SparseRows
from cofill.data.splits import random_split
from cofill.errors import CheckpointError, SettingsError
from cofill.models.cfn.checkpoint import TrainingState
from cofill.models.cfn.fit import FitResult, Training, fit_matrix, new_network, validation_entries
from cofill.models.cfn.network import Linear, encode_rows, outputs_at
from cofill.models.cfn.scaling import Scaling, hold_out
from cofill.models.cfn.sgd import _train_inner_pair
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
from tests.models.contract import rmse

QUICK: dict[str, Any] = {
    "hidden": [8], "epochs": 4, "patience": 4, "batch": 10, "threads": 1, "validation": 0.1, "checkpoint_seconds": 0,
    "learning_rate": 0.05, "cold_ratio": 0.2,
}  # fmt: skip
DEEP: dict[str, Any] = {"hidden": [8, 4, 8], "pretrain": True, "pretrain_epochs": 2, "inner_epochs": 2}


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


# Pre-training


def test_pre_training_reads_the_features() -> None:
    """The outermost pair and every inner one: they start from what was pre-trained, which shuffled features change."""
    one, same = fit(DEEP | {"validation": 0, "epochs": 1}), fit(DEEP | {"validation": 0, "epochs": 1})
    assert weights(one) == weights(same)
    shuffled = fit(DEEP | {"validation": 0, "epochs": 1}, features=np.roll(matrix().row_features, 7, axis=0))
    for name, weight in one.network.weights().items():
        assert not np.allclose(weight, shuffled.network.weights()[name]), name
    assert [w.shape for layer in one.network.middle for w in (layer.weight, layer.bias)] == [
        (4, 8 + P + 1),
        (4,),
        (8, 4 + P + 1),
        (8,),
    ]


def test_the_stack_starts_from_the_outermost_pair() -> None:
    settings, world = CFNSettings.of(QUICK | DEEP), matrix()
    portion = Portion.of(world.rows)
    scaling = Scaling.fit(world.rows, None, SCALE, settings, world.row_features, portion)
    rows = scaling.down(world.rows, world.row_features, portion)
    stack = Training(rows, scaling, settings, TrainingState("train")).network()
    alone = settings.changed({"hidden": [8], "pretrain": False, "epochs": 2})
    outer = new_network(rows, alone, "train")
    Training(rows, scaling, alone, TrainingState("pretrain")).epochs(outer, 2)
    assert outer.input.side is not None
    assert np.abs(outer.input.side).max() > 1e-3
    for name, weight in outer.weights().items():
        np.testing.assert_array_equal(stack.weights()[name], weight, err_msg=name)


def test_an_inner_pair_reads_the_features_on_either_side() -> None:
    """Of hidden units that follow features alone, which the one unit between could not carry."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((300, 3), np.float32)
    hidden = np.tanh(features @ generator.standard_normal((3, 6), np.float32))
    settings = CFNSettings.of(DEEP | {"inner_epochs": 30, "inner_learning_rate": 0.05, "inner_weight_decay": 0.0})
    errors = []
    for side in (features, np.zeros_like(features)):
        encoder, decoder = (
            Linear.drawn(fan_in + 3, np.arange(fan_out, dtype=np.uint64), np.uint64(fan_out))
            for fan_in, fan_out in ((6, 1), (1, 6))
        )
        inner = _train_inner_pair(encoder, decoder, hidden, side, settings, generator)
        np.testing.assert_array_equal(inner, np.tanh(encoder(np.column_stack([hidden, side]))))
        again = np.tanh(decoder(np.column_stack([inner, side])))
        errors.append(float(((again - hidden) ** 2).mean()))
    assert errors[0] < 0.1 * errors[1]


STACK: dict[str, Any] = {
    "batch": 5, "threads": 1, "validation": 0.0, "weight_decay": 0.1, "learning_rate": 0.03,
    "pretrain_epochs": 15, "inner_epochs": 15, "inner_learning_rate": 0.05, "inner_weight_decay": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("orientation", "activation", "by"),
    [("user", "tanh", 0.01), ("item", "sigmoid", 0.005)],
)
def test_a_better_start(orientation: str, activation: str, by: float) -> None:
    """After a single epoch of fine-tuning, on ratings that were held out, by the output of the network itself."""
    settings = STACK | {"hidden": (24, 16, 24), "epochs": 1, "decoder": "network", "activation": activation}
    world = make_world(users=150, items=120, ratings=7_000, seed=4)
    train, test = random_split(world.ratings, ratio=0.9, seed=0)
    reached = {
        pretrain: rmse(
            CFN(**settings, orientation=orientation, pretrain=pretrain).fit(train).predict(test), test.values
        )
        for pretrain in (True, False)
    }
    assert reached[True] < reached[False] - by


def test_five_layers_and_both_phases() -> None:
    phases: list[str] = []
    settings = STACK | {"pretrain_epochs": 2, "inner_epochs": 2, "validation": 0.1, "epochs": 2}
    world = make_world(users=40, items=30, ratings=500, seed=4)
    model = CFN(**settings, hidden=(8, 6, 4, 6, 8), pretrain=True)
    names = {"pre-training": "pretrain", "training for validation": "search", "training": "train"}
    model.fit(world.ratings, progress=lambda step: phases.append(names[step.what]) if step.unit else None)
    # Each run has a pre-training of its own: the second one sees more ratings.
    assert phases[:4] == ["pretrain", "pretrain", "search", "search"]
    assert phases[4:6] == ["pretrain", "pretrain"]
    assert set(phases[6:]) == {"train"}
    assert [r.phase for r in model.history] == phases


@pytest.mark.parametrize("hidden", [8, (8, 4), (8, 4, 9), (8, 4, 4, 8)])
def test_an_asymmetric_stack_is_refused(hidden: Any) -> None:
    with pytest.raises(SettingsError, match="symmetric"):
        CFN(hidden=hidden, pretrain=True)


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
    changes = DEEP
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
