"""The ratings or interactions of a search, with side information: what every trial is trained and validated on."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings
from cofill.data.described import SideFeatures, fingerprint_of, side_of
from cofill.data.features import Features
from cofill.data.ratings import Ratings
from cofill.data.splits import Split, split
from cofill.errors import DataError, SettingsError
from cofill.evaluation.list_measures import RELEVANT_SHARE
from cofill.models.rng import Portion

ValidationBy = Literal["random", "time"]
"""How validation ratings are held out: at random, or the latest."""

LIST_LENGTH = 10
"""How many recommendations count for the goal ndcg."""


@dataclass(frozen=True, eq=False)
class SearchData:
    """What every trial is trained and validated on; ids with features but no rating are there too, as in fitting."""

    ratings: Ratings
    users: Features | None
    items: Features | None

    @classmethod
    def of(cls, ratings: Ratings, items: Features | None = None, users: Features | None = None) -> Self:
        whole = ratings.including(users=users.ids if users else (), items=items.ids if items else ())
        return cls(whole, users, items)

    @property
    def weights_differ(self) -> bool:
        """Whether interactions have weights that tell them apart."""
        return not self.ratings.rated and _differ(self.ratings.values)

    @property
    def times_differ(self) -> bool:
        return self.ratings.times is not None and _differ(self.ratings.times)

    def sides(self, settings: CFNSettings) -> tuple[SideFeatures, SideFeatures]:
        """The features of the rows and of the columns of a network."""
        users, items = side_of(self.users, self.ratings.users), side_of(self.items, self.ratings.items)
        return (items, users) if settings.orientation == "item" else (users, items)

    def has_row_features(self, settings: CFNSettings) -> bool:
        return bool(self.sides(settings)[0].trained.shape[1])

    def portion(self, settings: CFNSettings) -> Portion:
        """The keys by which a network draws: those of a fit."""
        keys = self.ratings.users.keys(), self.ratings.items.keys()
        rows, columns = keys[::-1] if settings.orientation == "item" else keys
        return Portion(rows, columns, columns=len(columns))

    def parts(self, settings: CFNSettings, by: ValidationBy) -> Split:
        """The same training and validation part for every trial of lists."""
        return split(self.ratings, by, 1.0 - settings.validation, settings.seed)

    def check(self, settings: CFNSettings, by: ValidationBy | None = None) -> None:
        """Raise if there is nothing to validate with; `by` says how lists are, whose validation part is cut here."""
        ratings = self.ratings
        if settings.validation == 0:
            raise SettingsError(
                f"a search scores its trials on validation {ratings.plural}; set validation above 0, such as 0.1"
            )
        if not 1 <= round(len(ratings) * settings.validation) < len(ratings):
            raise DataError(
                f"{len(ratings)} {ratings.plural} are too few to hold out a share of {settings.validation:g} for "
                f"validation",
                f"give more {ratings.plural}, or a larger validation=...",
            )
        if by is None:
            return
        if settings.half_life and ratings.times is None:
            raise DataError(
                f"half_life needs to know when people did something, and these {ratings.plural} have no times",
                "leave it out",
            )
        held_out, (low, high) = self.parts(settings, by).test, ratings.scale
        threshold = low + RELEVANT_SHARE * (high - low)
        if ratings.rated and not (held_out.values >= np.float32(threshold)).any():
            raise DataError(
                f"none of the {len(held_out):,} validation ratings is at least {threshold:g}, so there is nothing that "
                f"lists should find",
                "give more ratings, a larger validation=..., or the scale of the ratings: scale=...",
            )

    def fingerprint(self) -> str:
        """The same for the same ratings, times and features, whatever file they came from."""
        return fingerprint_of(self.ratings, self.users, self.items)


def _differ(values: npt.NDArray[Any]) -> bool:
    return bool(values.min() < values.max())
