"""AutoRec keeps the contract, minimises what its paper says, and has no other settings."""

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cofill.config import CFNSettings
from cofill.data.ratings import Ratings
from cofill.errors import DataError, SettingsError
from cofill.models.baselines.autorec import AutoRec, AutoRecSettings
from cofill.models.recommender import Recommender
from cofill.progress import Step
from tests.models.contract import LearnerContract, cells, parts, small_cells

# One number of epochs for all ratings: the search for it has a test of its own.
QUICK: dict[str, Any] = {"validation": 0, "threads": 1, "hidden": 32, "learning_rate": 0.01, "epochs": 40}


class TestItemAutoRec(LearnerContract):
    draws_by_ids = True
    expected_rmse = 0.85
    reads_users = False
    checkerboard: ClassVar[dict[str, Any]] = {"epochs": 200}

    def make(self, **changes: Any) -> AutoRec:
        return AutoRec(**{"orientation": "item", "weight_decay": 0.1, **QUICK, **changes})


def objective(model: AutoRec, ratings: Ratings) -> float:
    """sum over rows of |r - h(r)|^2 over what is known / rows + lambda / 2 (|W|^2 + |V|^2), as the paper writes it."""
    network, scaling = model.network_predictor.network, model.network_predictor.scaling
    weights = {name: weight.astype(np.float64) for name, weight in network.weights().items()}
    known = ratings.rows("item" if model.orientation == "item" else "user")
    total = 0.0
    for row in range(known.rows):
        columns, values = known.row(row)
        r = scaling.down_values(values, np.full(len(values), scaling.means[row])).astype(np.float64)
        z = r @ weights["input.weight"][columns] + weights["input.bias"]
        h = weights["output.weight"][columns] @ (1 / (1 + np.exp(-z))) + weights["output.bias"][columns]
        total += float(((r - h) ** 2).sum())
    decay = sum(float((weights[name] ** 2).sum()) for name in ("input.weight", "output.weight"))
    return total / known.rows + model.settings.weight_decay / 2 * decay


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_the_objective_of_the_paper_falls_to_the_same_height_from_anywhere(orientation: str) -> None:
    ratings = cells(small_cells())

    def reached(epochs: int, seed: int = 0) -> float:
        changes = {"orientation": orientation, "weight_decay": 0.2, "epochs": epochs, "seed": seed}
        return objective(AutoRec(**{**QUICK, **changes}).fit(ratings), ratings)

    heights = [reached(epochs) for epochs in (1, 10, 40, 200)]
    assert heights == sorted(heights, reverse=True)
    assert reached(200, seed=5) == pytest.approx(heights[-1], rel=0.01)


def test_validation_finds_the_number_of_epochs_and_all_ratings_are_used_then() -> None:
    seen: list[Step] = []
    changes = QUICK | {"validation": 0.1, "patience": 3, "epochs": 25, "weight_decay": 0.1}
    model = AutoRec(**changes).fit(parts().train, progress=seen.append)
    reported = model.history
    seen = [step for step in seen if step.unit == "epoch"]
    assert [step.done for step in seen] == [record.epoch for record in reported]
    assert [step.measures["loss"] for step in seen] == [record.loss for record in reported]
    search = [record for record in reported if record.phase == "search"]
    errors = [record.validation_rmse for record in search if record.validation_rmse is not None]
    best = int(np.argmin(errors)) + 1
    assert model.measures == {"epochs": best, "validation_rmse": min(errors)}
    assert [record.epoch for record in reported if record.phase == "train"] == list(range(1, best + 1))


def test_the_function_of_the_hidden_layer_can_be_changed_and_is_kept(tmp_path: Path) -> None:
    ratings = cells(small_cells())
    linear, usual = (AutoRec(**QUICK, activation=name).fit(ratings) for name in ("identity", "sigmoid"))
    assert np.abs(linear.predict(ratings) - usual.predict(ratings)).max() > 0.01
    linear.save(tmp_path)
    loaded = Recommender.load(tmp_path)
    assert isinstance(loaded, AutoRec)
    assert loaded.settings == linear.settings
    np.testing.assert_array_equal(loaded.predict(ratings), linear.predict(ratings))


def test_a_file_holds_the_settings_of_autorec_alone(tmp_path: Path) -> None:
    AutoRec(**QUICK).fit(cells(small_cells())).save(tmp_path)
    card = json.loads((tmp_path / "model.json").read_text())
    assert card["kind"] == "autorec"
    assert set(card["settings"]) == set(AutoRecSettings.its_own)


def test_settings_of_a_denoising_network_are_refused() -> None:
    assert set(AutoRecSettings.its_own) <= set(AutoRecSettings.model_fields)
    for name in ("noise", "noise_ratio", "alpha", "beta", "pretrain", "batch", "neighbours", "engine", "nois"):
        with pytest.raises(SettingsError, match=rf"^AutoRec has no setting '{name}'; leave it out. It has seed, "):
            AutoRecSettings.of({name: CFNSettings.model_fields[name].default if name != "nois" else 1})
    with pytest.raises(SettingsError, match=r"the setting 'hidden' .*at most 1 item"):
        AutoRec(hidden=(20, 10, 20))
    with pytest.raises(SettingsError, match="the setting 'weight_decay' must be greater than or equal to 0"):
        AutoRec(weight_decay=-1)
    assert AutoRec(orientation="user").settings.weight_decay != AutoRec().settings.weight_decay
    assert AutoRec(AutoRecSettings(hidden=(5,)), seed=3).settings.hidden == (5,)


def test_features_and_checkpoints_are_refused(tmp_path: Path) -> None:
    ratings = cells(small_cells())
    for features in ({"item_features": {1: {"genre": "Drama"}}}, {"user_features": {1: {"age": 3}}}):
        with pytest.raises(DataError, match=r"^AutoRec makes no use of side information; leave the features out$"):
            AutoRec().fit(ratings, **features)
    with pytest.raises(SettingsError, match=r"^AutoRec is trained in one go; leave out checkpoint and resume$"):
        AutoRec().fit(ratings, checkpoint=tmp_path / "checkpoint")
