"""The network keeps the contract of a model: both orientations, one or two of them, and its own output.

Every law runs for each of the four classes below. The one with its own output has items as rows, where fold-in of users
goes through the closed form, which is the longer way, and tanh at the output. `cfn/test_predictor.py` has stacks.
"""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from cofill import CFN
from cofill.errors import CofillError
from cofill.nn import Corruption
from tests.models.contract import LearnerContract, RecommenderContract

# One number of epochs for all ratings: the search for it is tested with the training.
QUICK: dict[str, Any] = {"validation": 0, "threads": 1, "noise_ratio": 0.5, "beta": 0.2}


class TestItemOrientation(LearnerContract, RecommenderContract):
    draws_by_ids = True
    expected_rmse = 0.839  # with the usual amplitudes of the decoder, of which none is learned here
    reads_users = False
    near_means = 0.25  # biases are posterior means beside tastes, and all columns have some taste in common
    checkerboard: ClassVar[dict[str, Any]] = {"epochs": 100}

    def make(self, **changes: Any) -> CFN:
        quick = {"hidden": 32, "epochs": 20, "batch": 5, "weight_decay": 0.045}
        return CFN(**{"orientation": "item", **QUICK, **quick, **changes})


class TestUserOrientation(LearnerContract):
    draws_by_ids = True
    expected_rmse = 0.839
    near_means = 0.25
    rated_alike = 0.1  # the codes of the users who rated an item are those without its own ratings
    checkerboard: ClassVar[dict[str, Any]] = {"epochs": 60}

    def make(self, **changes: Any) -> CFN:
        quick = {"hidden": 32, "epochs": 20, "batch": 10, "learning_rate": 0.06, "weight_decay": 0.015}
        quick["learning_rate_decay"] = 0.2
        return CFN(**{"orientation": "user", **QUICK, **quick, **changes})


class TestOwnOutput(TestItemOrientation):
    expected_rmse = 0.836
    near_means = 1e-3

    def make(self, **changes: Any) -> CFN:
        return super().make(**{"decoder": "network", "output": "tanh", "weight_decay": 0.25, **changes})


class TestBothOrientations(LearnerContract):
    """Without validation ratings, so that both networks are there in every law, each with half a say."""

    draws_by_ids = True
    expected_rmse = 0.8315
    reads_users = False
    near_means = 0.25
    rated_alike = 0.1
    checkerboard: ClassVar[dict[str, Any]] = {"epochs": 60}

    def make(self, **changes: Any) -> CFN:
        quick = {"hidden": 32, "epochs": 12, "batch": 10, "learning_rate": 0.1, "weight_decay": 0.045}
        return CFN(**{"orientation": "both", **QUICK, **quick, **changes})


def small_model() -> CFN:
    return CFN(epochs=1, hidden=4, threads=1).fit(
        [(user, item, 3.0 + item % 2) for user in range(5) for item in range(6)]
    )


def test_what_is_wrong_is_said_in_our_words(tmp_path: Path) -> None:
    model = small_model()
    wrong: Any = {1: "5"}
    calls: list[Any] = [
        lambda: model.recommend({1: 4.0, "1": 3.0}),
        lambda: model.recommend(wrong),
        lambda: model.recommend(1, n=2.5),  # type: ignore[arg-type]
        lambda: model.recommend_many([999]),
        lambda: CFN("user"),  # type: ignore[arg-type]
        lambda: CFN(engine="fused", device="cuda"),
        lambda: CFN().fit([(1, 1, 1.0)], resume=True),
        lambda: Corruption("masking"),  # type: ignore[arg-type]
        lambda: Corruption("mask", ratio=2),
    ]
    for call in calls:
        with pytest.raises(CofillError):
            call()


def test_titles_come_with_later_ratings_in_the_ids_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "later.csv").write_text("user,item,rating,title\n1,77,3,Heat\nx,78,4,Ronin\n".replace("x", "2"))
    model = small_model()
    model.add_ratings(tmp_path / "later.csv")
    assert model.titles == {77: "Heat", 78: "Ronin"}
    model.save(tmp_path / "model")
    assert CFN.load(tmp_path / "model").titles == model.titles
