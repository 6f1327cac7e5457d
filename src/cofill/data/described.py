"""Ratings together with what is known of their users and items: what a model is fitted on."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from cofill.data.features import Features
from cofill.data.features.known import SideFeatures
from cofill.data.features.matching import matched, side_of
from cofill.data.ratings import Ratings
from cofill.errors import DataError


@dataclass(frozen=True)
class DescribedRatings:
    """Ratings whose vocabularies also know the ids that have features and no rating: the cold ones."""

    ratings: Ratings
    about_users: Features | None
    about_items: Features | None
    users: SideFeatures  # in the order of the vocabularies
    items: SideFeatures
    summary: dict[str, Any]

    @classmethod
    def of(cls, ratings: object, *, user_features: object, item_features: object) -> Self:
        """Ratings, or anything that `Ratings.read` takes; features, anything that `Features.read` takes, or None."""
        read = ratings if isinstance(ratings, Ratings) else Ratings.read(ratings)
        if len(read) == 0:
            raise DataError("there are no ratings to train on; give at least one")
        about_users = _features(user_features, "user")
        about_items = _features(item_features, "item")
        summary = read.summary() | {
            "user_features": matched(about_users, "user", read.users, read.user_index),
            "item_features": matched(about_items, "item", read.items, read.item_index),
        }
        read = read.including(
            users=about_users.ids if about_users else (), items=about_items.ids if about_items else ()
        )
        return cls(
            read, about_users, about_items, side_of(about_users, read.users), side_of(about_items, read.items), summary
        )


def _features(source: object, about: Literal["user", "item"]) -> Features | None:
    return source if source is None or isinstance(source, Features) else Features.read(source, about=about)
