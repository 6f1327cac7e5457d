"""What the factorising rivals share: from ratings to factors, and a model file."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cofill.config import Settings
from cofill.data.attributes import Attributes
from cofill.data.described import DescribedRatings
from cofill.data.known import KnownRatings
from cofill.data.known_file import known_arrays, known_from
from cofill.data.sparse import SparseRows
from cofill.errors import DataError
from cofill.models.parts import Parts
from cofill.models.recommender import Recommender
from cofill.models.rivals.factors import FactorMatrix, Factors, Stars

Floats = npt.NDArray[np.float32]

Progress = Callable[[int, int], None]
"""Called with the number of steps done, and of all."""


class RivalSettings(Settings):
    """What every rival is given by name."""

    mean_damping: float = Field(
        default=7.0, ge=0, description="ratings of average value added to the means that an unknown id is left to"
    )


@dataclass(frozen=True)
class TrainingData:
    """What a rival learns from. Users and items without a rating are there too; nothing can be learned of them."""

    by_user: SparseRows  # ratings in stars, not centred
    by_item: SparseRows
    overall: float  # mean of all ratings
    user_features: Floats  # (users, P), P may be 0
    item_features: Floats  # (items, Q), Q may be 0


class Rival(Recommender):
    """A recommender that gives every user and every item a vector."""

    settings_class: ClassVar[type[Settings]]
    factors_class: ClassVar[type[Factors]]

    @abstractmethod
    def _factorise(self, data: TrainingData, progress: Progress) -> Factors:
        """Learn."""

    def fit(
        self,
        ratings: object,
        *,
        item_features: object = None,
        user_features: object = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from ratings, or from anything that `Ratings.read` takes; `progress` is called after every step."""
        if not self.takes_features and (item_features is not None or user_features is not None):
            raise DataError(f"{type(self).__name__} makes no use of side information; leave the features out")
        described = DescribedRatings.of(ratings, user_features=user_features, item_features=item_features)
        given = described.ratings
        by_user, by_item = given.rows("user"), given.rows("item")
        stars = Stars(given.scale)
        data = TrainingData(
            replace(by_user, values=stars.down(by_user.values)),
            replace(by_item, values=stars.down(by_item.values)),
            float(stars.down(given.values).mean(dtype=np.float64)),
            described.users.values,
            described.items.values,
        )
        factors = self._factorise(data, progress or (lambda done, total: None))
        self.users, self.items = given.users.copy(), given.items.copy()
        self.titles, self.data_summary = dict(given.titles), described.summary
        self.item_attributes = Attributes.of_features(self.items, described.about_items)
        self._filled = FactorMatrix(
            factors,
            KnownRatings(by_user, by_item),
            given.scale,
            self._damping,
            users_described=described.users.described,
            items_described=described.items.described,
        )
        return self

    @property
    def matrix(self) -> FactorMatrix:
        """The filled matrix."""
        filled = self.filled
        assert isinstance(filled, FactorMatrix)
        return filled

    @property
    def _damping(self) -> float:
        assert isinstance(self._settings, RivalSettings)
        return self._settings.mean_damping

    # Keeping

    def taken_apart(self) -> Parts:
        matrix = self.matrix
        weights = matrix.factors.arrays()
        weights |= {"described.users": matrix.users_described, "described.items": matrix.items_described}
        return Parts(scale=matrix.scale, arrays={"weights": weights, "ratings": known_arrays(matrix.known)})

    def put_together(self, parts: Parts) -> None:
        weights = dict(parts.arrays["weights"])
        users_described, items_described = weights.pop("described.users"), weights.pop("described.items")
        known = known_from(parts.arrays["ratings"], parts.scale, len(self.users), len(self.items))
        factors = self.factors_class.restored(weights)
        if factors.users.ndim != 2 or factors.items.ndim != 2 or factors.users.shape[1] != factors.items.shape[1]:
            raise ValueError("the vectors of users and items differ in width")
        if (len(factors.users), len(factors.items)) != (known.trained.rows, known.trained.columns):
            raise ValueError("there are vectors of another number of users and items than the ratings have")
        for described, count in ((users_described, known.trained.rows), (items_described, known.trained.columns)):
            if described.dtype != np.bool_ or described.shape != (count,):
                raise ValueError("it is not said of every user and item whether it has features")
        self._filled = FactorMatrix(
            factors,
            known,
            parts.scale,
            self._damping,
            users_described=users_described,
            items_described=items_described,
        )
