"""The best of many scores, and the entries of a list."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cofill.data.frames import InFrames
from cofill.data.vocabulary import Id
from cofill.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_TYPES = {
    **{"rank": "Int32", "score": "Float32", "similarity": "Float32", "rating": "Float32", "raters": "Int64"},
    "title": "String",
}
"""Of the columns of lists, ids aside."""


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


_Entry = TypeVar("_Entry", bound=Recommendation | Similar)


def list_columns(rated: bool) -> tuple[str, ...]:
    """The columns of a frame of the lists of many; a model of interactions knows no ratings."""
    return ("user", "rank", "item", "score", *(("rating",) if rated else ()), "raters", "title")


def list_schema(names: Iterable[str], *, integers: Iterable[str]) -> "dict[str, pl.DataType]":
    """The types of the columns of lists; ids are text, apart from those in the columns of `integers`."""
    import polars as pl

    whole = set(integers)
    return {name: getattr(pl, _TYPES.get(name, "Int64" if name in whole else "String"))() for name in names}


class RankedList(list[_Entry], InFrames):
    """The entries of one list, best first: a Python list like any other, which can be had as a frame."""

    def __init__(
        self, entries: Iterable[_Entry], kind: type[_Entry], *, integers: bool, without: frozenset[str] = frozenset()
    ) -> None:
        """`integers`: the ids of items are numbers; `without`: fields that the frame leaves out."""
        super().__init__(entries)
        self._names = [name for name in kind._fields if name not in without]
        self._integers = ("item",) if integers else ()

    def to_polars(self) -> "pl.DataFrame":
        """A row for each entry: its rank from 1, and its fields."""
        import polars as pl

        rows: list[tuple[Any, ...]] = [
            (rank, *(getattr(entry, name) for name in self._names)) for rank, entry in enumerate(self, 1)
        ]
        schema = list_schema(("rank", *self._names), integers=self._integers)
        if not self._integers:
            place = 1 + self._names.index("item")
            rows = [(*row[:place], str(row[place]), *row[place + 1 :]) for row in rows]
        return pl.DataFrame(rows, schema=schema, orient="row")


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
