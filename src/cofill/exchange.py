"""What processes that train one model together tell each other: sums, maxima, and arrays of each.

Every process does the same calls in the same order, and every one gets the same bits. `Alone`, a training in one
process, has nothing to exchange and costs nothing; `cofill.cluster` has one over the network.
"""

from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

_Array = TypeVar("_Array", bound=npt.NDArray[Any])


class Exchange(Protocol):
    """Between `size` processes, of which this is number `rank`."""

    rank: int
    size: int
    sent: int
    """Bytes of this process so far."""
    seconds: float
    """What this process has spent on exchanging so far, waiting for others included."""

    def all_reduce(self, array: _Array) -> _Array:
        """Add up over all processes, in place (float32, float64 or int64, contiguous); returns the array."""

    def max_(self, array: _Array) -> _Array:
        """The greatest of all processes at every place, in place; returns the array."""

    def gather(self, array: _Array) -> list[_Array]:
        """The arrays of all processes, by rank. They may differ in length, but not in type and further shape."""


class Alone:
    """One process: what it has is all there is."""

    rank = 0
    size = 1
    sent = 0
    seconds = 0.0

    def all_reduce(self, array: _Array) -> _Array:
        return array

    def max_(self, array: _Array) -> _Array:
        return array

    def gather(self, array: _Array) -> list[_Array]:
        return [array]


ALONE = Alone()


def total(exchange: Exchange, *numbers: float) -> list[float]:
    """The sums of some numbers over all processes."""
    if exchange.size == 1:
        return [float(number) for number in numbers]
    found: list[float] = exchange.all_reduce(np.array(numbers, np.float64)).tolist()
    return found
