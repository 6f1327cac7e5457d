"""Goals of a search (objectives): what a trial is scored by, and whether a higher or a lower score is better."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

GoalName = Literal["rmse", "ndcg"]

LIST_LENGTH = 10
"""How many recommendations count for the goal ndcg."""


@dataclass(frozen=True)
class Goal:
    """The score of a trial: its name for people, in JSON and on a chart, and its direction."""

    name: GoalName
    label: str
    key: str
    axis: str
    direction: Literal["minimize", "maximize"]

    @property
    def sign(self) -> float:
        """Times this, a lower score is better."""
        return 1.0 if self.direction == "minimize" else -1.0

    def best(self, values: Iterable[float]) -> float | None:
        """The best of some scores; None if there are none."""
        return min(values, key=lambda value: self.sign * value, default=None)


GOALS: dict[GoalName, Goal] = {
    "rmse": Goal("rmse", "validation RMSE", "validation_rmse", "validation RMSE (in ratings)", "minimize"),
    "ndcg": Goal(
        "ndcg",
        f"validation NDCG@{LIST_LENGTH}",
        f"validation_ndcg@{LIST_LENGTH}",
        f"validation NDCG@{LIST_LENGTH} (higher is better)",
        "maximize",
    ),
}
