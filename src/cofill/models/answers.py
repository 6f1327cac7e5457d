"""What a model answers: items, best first, and why."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.vocabulary import Id
from cofill.errors import DataError


class Recommendation(NamedTuple):
    """An item, the rating it would get, and its title where the data has one."""

    item: Id
    rating: float
    title: str | None = None


class Similar(NamedTuple):
    """An item, how like it is to the one asked about (1: the same), and its title where the data has one."""

    item: Id
    similarity: float
    title: str | None = None


class Contribution(NamedTuple):
    """One of the user's ratings, or one column of what is known about them, and how far it moves a prediction."""

    amount: float
    """In ratings: above zero it pushes the prediction up, below zero down."""
    item: Id | None = None
    """The item that was rated; None where it is a feature that speaks."""
    rating: float | None = None
    """What the user gave it."""
    title: str | None = None
    """The item's, where the data has one."""
    feature: str | None = None
    """The column that describes the user, such as age; None where it is a rating that speaks."""


class Explanation(NamedTuple):
    """A predicted rating taken apart: base + amounts of the contributions + remainder = rating."""

    item: Id
    rating: float
    """As the model computes it, before it is clipped to the scale: what the parts add up to."""
    clipped: float
    """As `predict` and `recommend` tell it."""
    base: float
    """What somebody without ratings and features gets for the item."""
    contributions: list[Contribution]
    """All ratings and features of the user, those that move it most first."""
    remainder: float
    """What cannot be told apart: docs/network.md says for which models it is more than rounding."""
    title: str | None = None


def best_of(scores: npt.NDArray[np.float32], n: int) -> list[int]:
    """Indices of the n greatest, best first, the lower index first among equals; -inf does not count."""
    if n < len(scores):
        # Everything that ties with the n-th stays a candidate, so that the choice does not depend on the partition.
        threshold = np.partition(scores, len(scores) - n)[len(scores) - n]
        candidates = np.flatnonzero(scores >= threshold)
    else:
        candidates = np.arange(len(scores))
    best = candidates[np.argsort(-scores[candidates], kind="stable")][:n]
    return [int(i) for i in best if scores[i] > -np.inf]


def check_count(n: int) -> None:
    if not isinstance(n, int | np.integer) or n < 1:
        raise DataError(f"n must be a whole number of at least 1. Got {n!r}")
