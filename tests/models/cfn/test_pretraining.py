"""Greedy pre-training of a symmetric stack gives a better start than random weights."""

from typing import Any

import pytest

from cofill import CFN
from cofill.data.datasets.world import make_world
from cofill.data.splits import random_split
from cofill.errors import SettingsError
from tests.models.contract import rmse

QUICK: dict[str, Any] = {
    "batch": 5, "threads": 1, "validation": 0.0, "weight_decay": 0.1, "learning_rate": 0.03,
    "pretrain_epochs": 15, "inner_epochs": 15, "inner_learning_rate": 0.05, "inner_weight_decay": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("orientation", "activation", "by"),
    [("user", "tanh", 0.01), ("item", "sigmoid", 0.005)],
)
def test_a_better_start(orientation: str, activation: str, by: float) -> None:
    """After a single epoch of fine-tuning, on ratings that were held out, by the output of the network itself."""
    settings = QUICK | {"hidden": (24, 16, 24), "epochs": 1, "decoder": "network", "activation": activation}
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
    settings = QUICK | {"pretrain_epochs": 2, "inner_epochs": 2, "validation": 0.1, "epochs": 2}
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
