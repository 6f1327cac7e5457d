"""The network keeps the contract of a model: both orientations, tanh at the output, and a stack of layers.

Every law runs for each of the four classes below. Tanh and the stack have items as rows, where fold-in of users
goes through the regression, which is the longer way.
"""

from typing import Any, ClassVar

from cofill import CFN
from tests.contract import ModelContract

# One number of epochs for all ratings: the search for it is tested with the training.
QUICK: dict[str, Any] = {"validation": 0, "threads": 1, "noise_ratio": 0.5, "beta": 0.2}


class TestItemOrientation(ModelContract):
    expected_rmse = 0.846
    reads_users = False
    checkerboard: ClassVar[dict[str, Any]] = {"epochs": 60}

    def make(self, **changes: Any) -> CFN:
        quick = {"hidden": 32, "epochs": 20, "batch": 5, "weight_decay": 0.15}
        return CFN(**{"orientation": "item", **QUICK, **quick, **changes})


class TestUserOrientation(ModelContract):
    expected_rmse = 0.858
    checkerboard: ClassVar[dict[str, Any]] = {"epochs": 60}

    def make(self, **changes: Any) -> CFN:
        quick = {"hidden": 32, "epochs": 20, "batch": 10, "learning_rate": 0.06, "weight_decay": 0.05}
        quick["learning_rate_decay"] = 0.2
        return CFN(**{"orientation": "user", **QUICK, **quick, **changes})


class TestItemOrientationWithTanh(TestItemOrientation):
    def make(self, **changes: Any) -> CFN:
        return super().make(**{"output": "tanh", **changes})


class TestStackOfLayers(TestItemOrientation):
    expected_rmse = 0.867

    def make(self, **changes: Any) -> CFN:
        return super().make(**{"hidden": (32, 16, 32), "weight_decay": 0.06, **changes})
