"""Features meet ratings: which ids have both, and whether there are more features than the network can bear."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from cofill.config import Orientation
from cofill.data.features.known import SideFeatures
from cofill.data.vocabulary import Indices, Vocabulary
from cofill.errors import DataError

if TYPE_CHECKING:
    from cofill.data.features import Features


class FeatureWidthWarning(UserWarning):
    """So many features, or so few columns of ratings, that the features may outweigh what the ratings tell."""


def side_of(features: "Features | None", ids: Vocabulary) -> SideFeatures:
    """The features in the order of `ids`, zeros where an id has none."""
    if features is None:
        return SideFeatures.none(len(ids))
    return SideFeatures(features.aligned(ids), features.described(ids))


def matched(features: "Features | None", side: Orientation, ids: Vocabulary, index: Indices) -> dict[str, Any] | None:
    """How many ids have both features and ratings, or only one of them; an error where no id has both.

    `index` (n,) are those of `ids` that the ratings are of.
    """
    if features is None:
        return None
    if not features.width:
        raise DataError(
            f"the features of the {side}s have no column that can be used; see how they were read with report(), "
            f"and set the kinds of columns (--feature-kind on the command line)"
        )
    rated = np.unique(index)
    both = int(features.described(ids)[rated].sum())
    if not both:
        example = f"{features.ids.id(0)!r} here, {ids.id(int(rated[0]))!r} there"
        raise DataError(
            f"none of the {len(features.ids):,} {side}s with features is among the {len(rated):,} with ratings "
            f"({example}); check which column holds the ids"
        )
    return {
        "columns": features.width,
        "described": both,
        "undescribed": len(rated) - both,
        "unrated": len(features.ids) - both,
    }


def warn_of_width(features: int, hidden: tuple[int, ...], columns: int) -> None:
    """The paper's constraint for rows with features: features << hidden << columns of ratings."""
    narrow = min(hidden)
    if features and features >= narrow:
        warnings.warn(
            f"{features} feature columns beside a hidden layer of {narrow} may outweigh what the ratings tell: "
            f"raise hidden (--hidden) above {features}, or read the features with a smaller reduce_to (--feature-size)",
            FeatureWidthWarning,
            stacklevel=3,
        )
    elif features and narrow >= columns:
        warnings.warn(
            f"a hidden layer of {narrow} is not narrower than the {columns} columns of ratings that it reads, so that "
            f"nothing makes the network generalise: lower hidden (--hidden) below {columns}",
            FeatureWidthWarning,
            stacklevel=3,
        )
