"""Ratings with side information of users and items: what a model is fitted on and keeps up to date."""

import json
import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Floats, Ints, Longs, fingerprint
from cofill.config import Orientation
from cofill.data.features import Features
from cofill.data.interactions import Interactions, read_ratings_or_interactions
from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, DataWarning


class FeatureWidthWarning(DataWarning):
    """So many features, or so few columns of ratings, that the features may outweigh the ratings."""


class SideInformation(NamedTuple):
    """The features of both sides; None for a side without."""

    users: Features | None
    items: Features | None


class SideFeatures:
    """One vector for each row, or for each column, all of one width; zeros where nothing is known. Width 0: none."""

    def __init__(self, trained: Floats, described: Bools | None = None) -> None:
        """`described` (count,) marks the ids with features, even if all of these are zero.

        Without it, ids whose features are all zero count as unknown.
        """
        self.trained = trained  # (count, width)
        self.trained_described: Bools = np.asarray(trained.any(axis=1)) if described is None else described
        self.values, self.described = self.trained, self.trained_described  # the same as they stand now
        self._later: set[int] = set()

    @classmethod
    def none(cls, count: int) -> "SideFeatures":
        return cls(np.zeros((count, 0), np.float32))

    def copy(self) -> "SideFeatures":
        """The same features, whose changes from now on are its own."""
        copied = SideFeatures(self.trained, self.trained_described)
        copied.values, copied.described = self.values.copy(), self.described.copy()
        copied._later = set(self._later)
        return copied

    @property
    def width(self) -> int:
        return int(self.trained.shape[1])

    def grow(self, count: int) -> None:
        """Make room for indices below `count`; new ones have no features."""
        more = count - len(self.values)
        if more > 0:
            self.values = np.concatenate([self.values, np.zeros((more, self.width), np.float32)])
            self.described = np.concatenate([self.described, np.zeros(more, np.bool_)])

    def describe(self, index: int, vector: Floats) -> None:
        """Set the features of one index; NaN throughout: nothing is known of it any more."""
        self.grow(index + 1)
        if self.values is self.trained:
            self.values = self.trained.copy()
        if self.described is self.trained_described:
            self.described = self.trained_described.copy()
        known = not np.isnan(vector).any()
        self.values[index] = vector if known else 0
        self.described[index] = known
        self._later.add(index)

    def later(self) -> tuple[Longs, Floats]:
        """Ints (n,) and vectors (n, width) of everything described after the training."""
        indices = np.array(sorted(self._later), np.int64)
        return indices, self.values[indices]


@dataclass(frozen=True)
class DescribedRatings:
    """Ratings whose vocabularies include cold ids, which have features and no rating."""

    ratings: Ratings
    about_users: Features | None
    about_items: Features | None
    users: SideFeatures  # in the order of the vocabularies
    items: SideFeatures
    summary: dict[str, Any]
    interactions: Ratings | None = None  # of the same people, beside ratings, by the same vocabularies

    @classmethod
    def of(cls, ratings: object, *, user_features: object, item_features: object, interactions: object = None) -> Self:
        """Ratings or interactions, or anything that either is read from; the same for features, or None.

        `interactions` are those of the same people beside ratings.
        """
        read = ratings if isinstance(ratings, Ratings) else read_ratings_or_interactions(ratings)
        if len(read) == 0:
            raise DataError(f"there are no {read.plural} to train on", "give at least one")
        about_users = learned_features(user_features, "user")
        about_items = learned_features(item_features, "item")
        summary = read.summary() | {
            "user_features": matched(about_users, "user", read.users, read.user_index),
            "item_features": matched(about_items, "item", read.items, read.item_index),
        }
        beside = None if interactions is None else _beside(interactions, read)
        if beside is not None:
            read = read.including(users=beside.users, items=beside.items)
            summary["interactions"] = len(beside)
        read = read.including(
            users=about_users.ids if about_users else (), items=about_items.ids if about_items else ()
        )
        return cls(
            read,
            about_users,
            about_items,
            side_of(about_users, read.users),
            side_of(about_items, read.items),
            summary,
            None if beside is None else beside.by_ids_of(read),
        )


def _beside(interactions: object, ratings: Ratings) -> Ratings:
    if not ratings.rated:
        raise DataError("these are interactions beside interactions", "merge them, or give ratings first")
    read = interactions if isinstance(interactions, Interactions) else Interactions.read(interactions)
    if len(read) == 0:
        raise DataError("there are no interactions to train on", "give at least one, or leave them out")
    return read


def learned_features(source: object, about: Literal["user", "item"]) -> Features | None:
    """Features, or anything that they are read from; None stays None."""
    return source if source is None or isinstance(source, Features) else Features.read(source, about=about)


def side_of(features: Features | None, ids: Vocabulary) -> SideFeatures:
    """The features in the order of `ids`, zeros where an id has none."""
    if features is None:
        return SideFeatures.none(len(ids))
    return SideFeatures(features.aligned(ids), features.described(ids))


def matched(features: Features | None, side: Orientation, ids: Vocabulary, index: Ints) -> dict[str, Any] | None:
    """How many ids have both features and ratings, or only one of them; an error where no id has both.

    `index` (n,) are those of `ids` that the ratings are of.
    """
    if features is None:
        return None
    refuse_without_columns(features, side)
    rated = np.unique(index)
    return matched_counts(features, side, int(features.described(ids)[rated].sum()), len(rated), ids.id(int(rated[0])))


def refuse_without_columns(features: Features, side: Orientation) -> None:
    """DataError if nothing can be learned from the features."""
    if not features.width:
        raise DataError(
            f"the features of the {side}s have no column that can be used",
            "see how they were read with report(), and set kinds of columns: columns=...",
        )


def matched_counts(features: Features, side: Orientation, both: int, rated: int, first: Id) -> dict[str, Any]:
    """The counts of `matched`, if `both` of `rated` ids, the first of which is given, have features."""
    if not both:
        example = f"{features.ids.id(0)!r} here, {first!r} there"
        raise DataError(
            f"none of the {len(features.ids):,} {side}s with features is among the {rated:,} with ratings ({example})",
            "check which column holds the ids",
        )
    return {
        "columns": features.width,
        "described": both,
        "undescribed": rated - both,
        "unrated": len(features.ids) - both,
    }


def warn_of_width(features: int, hidden: tuple[int, ...], columns: int) -> None:
    """The paper's constraint for rows with features: features << hidden << columns of ratings."""
    narrow = min(hidden)
    if features and features >= narrow:
        remedy = f"raise hidden=... above {features}, or read the features with a smaller reduce_to=..."
        found = f"{features} feature columns beside a hidden layer of {narrow} may outweigh what the ratings tell"
        warnings.warn(FeatureWidthWarning(found, remedy), stacklevel=3)
    elif features and narrow >= columns:
        found = (
            f"a hidden layer of {narrow} is not narrower than the {columns} columns of ratings that it reads, so that "
            f"nothing makes the network generalise"
        )
        lower = f"lower hidden=... below {columns}"
        warnings.warn(FeatureWidthWarning(found, lower), stacklevel=3)


def fingerprint_of(*parts: Ratings | Features | npt.NDArray[Any] | None) -> str:
    """The same for the same ratings with their times, features and arrays, whatever file they came from."""
    about: list[Any] = []
    arrays: list[npt.NDArray[Any]] = []
    for part in parts:
        if isinstance(part, Ratings):
            about.append([type(part).__name__, part.scale])
            arrays += [part.users.keys(), part.items.keys(), part.user_index, part.item_index, part.values]
            arrays += [] if part.times is None else [part.times]
        elif isinstance(part, Features):
            about.append(part.card())
            arrays += [part.ids.keys(), *part.arrays().values()]
        else:
            about.append(part is not None)
            arrays += [] if part is None else [part]
    return fingerprint(json.dumps(about), arrays)
