"""The fitted means, which everything must beat: overall, and what a user and an item are above it (biases)."""

from typing import ClassVar

import numpy as np

from cofill.config import Settings
from cofill.models.matrix import Floats
from cofill.models.means import FittedMeans
from cofill.models.rivals.base import Arrays, Done, Factors, Rival, RivalSettings, TrainingData


class MeanFactors(Factors):
    """(overall + deviation, 1) of a user, (1, deviation) of an item."""

    def __init__(
        self, users: Floats, items: Floats, overall_and_damping: Floats, item_damping: Floats | None = None
    ) -> None:
        """The damping is that of users; (1,) that of items, which models of formats 1 to 6 have in common with them."""
        super().__init__(users, items)
        self._overall, self._damping = (float(value) for value in overall_and_damping)
        self._item_damping = self._damping if item_damping is None else float(item_damping[0])

    def user_from(self, items: Floats, ratings: Floats) -> Floats:
        return np.array([self._overall + _damped(ratings - self._overall - items[:, 1], self._damping), 1], np.float32)

    def item_from(self, users: Floats, ratings: Floats) -> Floats:
        return np.array([1, _damped(ratings - users[:, 0], self._item_damping)], np.float32)

    def tastes(self, vectors: Floats) -> Floats:
        return vectors[:, :0]

    def arrays(self) -> Arrays:
        return super().arrays() | {
            "overall_and_damping": np.array([self._overall, self._damping], np.float32),
            "item_damping": np.array([self._item_damping], np.float32),
        }


def _damped(left: Floats, damping: float) -> float:
    return float(left.sum(dtype=np.float64)) / max(len(left) + damping, 1e-9)


class Means(Rival):
    """rating = overall + deviation of the user + deviation of the item, fitted together, with learned variances.

    >>> Means().fit("ratings.csv").predict([(42, "Alien")])
    """

    kind = "means"
    settings_class: ClassVar[type[Settings]] = RivalSettings
    factors_class = MeanFactors

    def _factorise(self, data: TrainingData, done: Done) -> MeanFactors:
        means = FittedMeans(
            data.by_user,
            data.by_item,
            self._damping,
            row_features=np.empty((data.by_user.rows, 0), np.float32),
            column_features=np.empty((data.by_item.rows, 0), np.float32),
        )
        done(1, 1)
        return MeanFactors(
            np.stack([means.overall + means.row, np.ones_like(means.row)], axis=1),
            np.stack([np.ones_like(means.column), means.column], axis=1),
            np.array([means.overall, means.row_damping], np.float32),
            np.array([means.column_damping], np.float32),
        )
