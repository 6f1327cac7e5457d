"""The map of the items: where the most rated of them lie in two dimensions, what is alike close together."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cofill.models.file import Arrays

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]

MOST_ITEMS = 1500  # more would take long and could not be told apart
_FEWEST_ITEMS = 3


class ItemPlaces(NamedTuple):
    """The items of a map by index, and where each of them lies."""

    items: Longs
    places: Floats
    """(items, 2): from 0 to 1; none where nothing makes one item like another."""

    @classmethod
    def restored(cls, arrays: "Arrays", items: int) -> "ItemPlaces":
        """From what a file kept of it; ValueError if that does not fit a model of so many items."""
        found = cls(arrays["items"], arrays["places"])
        if found.items.dtype != np.int64 or found.places.shape != (len(found.items), 2):
            raise ValueError("the map of the items is damaged")
        if len(found.items) and not 0 <= found.items.min() <= found.items.max() < items:
            raise ValueError("the map has items that the model does not have")
        return found


def most_rated(counts: Longs, vectors: Floats) -> Longs:
    """The items that a map has, by index, the most rated first; none where there would be nothing to see."""
    chosen = np.argsort(-counts, kind="stable")[: min(MOST_ITEMS, int((counts > 0).sum()))]
    if len(chosen) < _FEWEST_ITEMS or not vectors.shape[1] or not np.ptp(vectors[chosen], axis=0).any():
        return chosen[:0]
    return chosen


def placed(vectors: Floats, progress: Callable[[float], None] | None = None) -> Floats:
    """(n, 2): a place from 0 to 1 for each of the vectors (n, width)."""
    from cofill.charts.neighbour_map import map_of  # compiled: no business of those who draw no map

    if not len(vectors):
        return np.zeros((0, 2), np.float32)
    places = map_of(vectors.astype(np.float32), progress)
    low, high = places.min(0), places.max(0)
    spread: Floats = ((places - low) / np.maximum(high - low, 1e-12)).astype(np.float32)
    return spread
