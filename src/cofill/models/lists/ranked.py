"""The best of many scores, and the entries of a list."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.vocabulary import Id
from cofill.errors import DataError


class Recommendation(NamedTuple):
    """An item of a list."""

    item: Id
    score: float
    """What the list is ranked by; higher is better. With `by="list"` it says how likely somebody is to choose and like
    the item, on no scale; with `by="rating"` it is the lower bound of the rating.
    """
    rating: float | None
    """The predicted rating; None if the model knows interactions alone."""
    raters: int
    """How many people rated it, or did something with it."""
    title: str | None = None
    """Where the data has one."""


class Similar(NamedTuple):
    """An item, its similarity to the one asked about (1: the same), and its title where the data has one."""

    item: Id
    similarity: float
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
