"""What a model answers with: predictions, lists of one user and of many, explanations, the map of the items."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from cofill.arrays import Floats, Ints, Longs
from cofill.data.frames import InFrames, in_pandas
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, DataWarning, UnknownIdError
from cofill.progress import Progress, Step, unseen

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


# Predictions


class Predicted(NamedTuple):
    """Predicted ratings with intervals that nine tenths of the true ones are expected in, all (n,)."""

    ratings: Floats
    low: Floats
    high: Floats

    def to_polars(self) -> "pl.DataFrame":
        """The columns rating, low and high, in the order of the pairs."""
        import polars as pl

        return pl.DataFrame({"rating": self.ratings, "low": self.low, "high": self.high})

    def to_pandas(self) -> "pd.DataFrame":
        """The same as a pandas DataFrame; needs `pip install 'cofill[pandas]'`."""
        return in_pandas(self.to_polars())


# Lists

_MOST_USERS = 256
_SCORES_AT_ONCE = 32_000_000  # 128 MB, however many items there are
_TYPES = {"rank": "Int32", "raters": "Int64", "title": "String"} | dict.fromkeys(
    ("score", "similarity", "rating"), "Float32"
)
"""Of the columns of lists, ids aside."""


class Recommendation(NamedTuple):
    """An item of a list."""

    item: Id
    score: float
    """What the list is ranked by; higher is better. With `by="list"` it is on no scale; with `by="rating"` it is the
    lower bound of the rating.
    """
    rating: float | None
    """The predicted rating; None if the model knows interactions alone."""
    raters: int
    """How many users rated it, or did something with it."""
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

    def __init__(self, entries: Iterable[_Entry], fields: Iterable[str], *, integers: bool) -> None:
        """`fields` are those of the frame; `integers`: the ids of items are numbers."""
        super().__init__(entries)
        self._fields, self._integers = tuple(fields), integers

    def to_polars(self) -> "pl.DataFrame":
        """A row for each entry: its rank from 1, and its fields."""
        import polars as pl

        columns: dict[str, Any] = {"rank": range(1, len(self) + 1)}
        columns |= {name: [getattr(entry, name) for entry in self] for name in self._fields}
        if not self._integers:
            columns["item"] = [str(entry.item) for entry in self]
        return pl.DataFrame(columns, schema=list_schema(columns, integers=["item"] if self._integers else []))


def check_count(n: int) -> None:
    if not isinstance(n, int | np.integer) or n < 1:
        raise DataError(f"n must be a whole number of at least 1. Got {n!r}")


class BestItems(NamedTuple):
    """The lists of some users, one after the other, in indices of items."""

    lengths: Longs  # (users,): entries of each
    items: Ints  # (entries,)
    scores: Floats  # (entries,)
    ratings: Floats | None  # (entries,): None where the model knows no ratings
    raters: Longs  # (entries,)

    def lists(self, items: Vocabulary, titles: Mapping[Id, str]) -> Iterator[RankedList[Recommendation]]:
        """The same in ids, one list for each user."""
        ids = [items.id(item) for item in self.items.tolist()]
        ratings = [None] * len(ids) if self.ratings is None else self.ratings.tolist()
        columns = zip(ids, self.scores.tolist(), ratings, self.raters.tolist(), strict=True)
        entries = [Recommendation(*values, titles.get(values[0])) for values in columns]
        fields = [name for name in Recommendation._fields if name != "rating" or self.ratings is not None]
        for end, length in zip(np.cumsum(self.lengths).tolist(), self.lengths.tolist(), strict=True):
            yield RankedList(entries[end - length : end], fields, integers=items.integers)


UnknownUsers = Literal["refuse", "popular", "skip"]
"""What becomes of ids that the model does not know, where many are asked about."""


def users_asked(users: Iterable[Id] | None, known: Vocabulary, unknown: UnknownUsers) -> tuple[list[Id], Longs]:
    """Ids, and indices (n,), where -1 is an unknown user."""
    if unknown not in get_args(UnknownUsers):
        raise DataError(f"unknown_users must be one of {', '.join(get_args(UnknownUsers))}. Got {unknown!r}")
    if users is None:
        return known.ids, np.arange(len(known), dtype=np.int64)
    if isinstance(users, str | int | Mapping):
        raise DataError(f"users is {users!r}; give a list of ids, or ask recommend about one person")
    if hasattr(users, "columns"):  # whose iteration gives the names of its columns, or the columns
        raise DataError("users is a frame", "give the column of ids, such as frame['user']")
    wanted = list(users)
    indices = known.find(wanted).astype(np.int64)
    ids, new = [known.own(user) for user in wanted], indices < 0
    if not new.any():
        return ids, indices
    first = ids[int(np.argmax(new))]
    some = f"user {first!r} is" if new.sum() == 1 else f"{new.sum():,} users, such as {first!r}, are"
    found = f"{some} not in the model"
    if unknown == "refuse":
        remedy = "check the ids, or pass unknown_users='popular', or 'skip'; recommend takes the ratings of a new user"
        raise UnknownIdError(found, remedy)
    if unknown == "popular":
        warnings.warn(DataWarning(found, "they get what a stranger is recommended"), stacklevel=3)
        return ids, indices
    warnings.warn(DataWarning(found, "they get no list"), stacklevel=3)
    return [ids[place] for place in np.flatnonzero(~new).tolist()], indices[~new]


class UserLists(InFrames):
    """The lists of many users, by `recommend_many`.

    Iterate over it for pairs of a user and their list, call `to_polars` or `to_pandas` for all lists in one frame, or
    `frames` for one frame after the other where they are too many for memory. Lists are computed on every call.
    """

    def __init__(
        self,
        model: Any,
        users: Sequence[Id],
        indices: Longs,
        best: Callable[[Longs], BestItems],
        progress: Progress | None,
    ) -> None:
        """Of `users` of a `Recommender`, and their `indices`; `best` makes the lists of some of these."""
        self._model, self._users, self._indices, self._best = model, users, indices, best
        self._progress = progress or unseen
        integers = {"user": model.users.integers and all(isinstance(user, int) for user in users)}
        integers["item"] = model.items.integers
        self._integers = [name for name, yes in integers.items() if yes]

    def __len__(self) -> int:
        """How many users there are."""
        return len(self._users)

    def __repr__(self) -> str:
        return f"UserLists({len(self)} users)"

    def __iter__(self) -> Iterator[tuple[Id, RankedList[Recommendation]]]:
        for users, found in self._batches():
            yield from zip(users, found.lists(self._model.items, self._model.titles), strict=True)

    def to_polars(self) -> "pl.DataFrame":
        """A row for each entry of each list: user, rank (from 1), item, score, rating, raters, title.

        Users are in the order in which they were given. A model of interactions has no column of ratings.
        """
        import polars as pl

        frames = list(self.frames())
        return pl.concat(frames) if frames else pl.DataFrame(schema=self.schema)

    def frames(self) -> "Iterator[pl.DataFrame]":
        """The same in parts, each of a few hundred users."""
        import polars as pl

        schema, known, titles = self.schema, self._model.items.array(), self._model.titles
        for users, found in self._batches():
            items = known[found.items]
            ids = [str(item) if "item" not in self._integers else item for item in items.tolist()]
            ranks = np.arange(len(ids)) - np.repeat(np.cumsum(found.lengths) - found.lengths, found.lengths) + 1
            columns = {
                "user": pl.Series([str(user) if "user" not in self._integers else user for user in users]).gather(
                    np.repeat(np.arange(len(users)), found.lengths)
                ),
                "rank": ranks,
                "item": ids,
                "score": found.scores,
                "rating": found.ratings,
                "raters": found.raters,
                "title": [titles.get(item) for item in items.tolist()],
            }
            yield pl.DataFrame({name: columns[name] for name in schema}, schema=schema)

    @property
    def schema(self) -> "dict[str, pl.DataType]":
        """The columns of the frames, and their types."""
        return list_schema(list_columns(self._model.rated), integers=self._integers)

    def _batches(self) -> Iterator[tuple[Sequence[Id], BestItems]]:
        size = max(1, min(_MOST_USERS, _SCORES_AT_ONCE // max(1, len(self._model.items))))
        total = len(self._users)
        for first in range(0, total, size):
            last = min(total, first + size)
            yield self._users[first:last], self._best(self._indices[first:last])
            self._progress(Step("recommending", last, total, last / total))


# Explanations


class Contribution(NamedTuple):
    """One of the user's ratings or feature columns, and how far it moves a predicted rating or a list score."""

    amount: float
    """In ratings, or in list scores: above zero it pushes up, below zero down."""
    item: Id | None = None
    """The item that was rated; None if the contribution is that of a feature."""
    rating: float | None = None
    """What the user gave it; None if the user did something else with it."""
    title: str | None = None
    """The item's, where the data has one."""
    feature: str | None = None
    """The column that describes the user, such as age; None if the contribution is that of a rating."""


class Explanation(NamedTuple):
    """An explained prediction or list score: base + amounts of the contributions + remainder = value."""

    item: Id
    by: Literal["list", "rating"]
    """Whether the item's list score is explained, or its predicted rating."""
    value: float
    """As the model computes it, a rating before it is clipped to the scale: what the parts add up to."""
    clipped: float
    """A rating as `predict` and `recommend` tell it; a list score as it is."""
    base: float
    """What a user without ratings and features gets for the item."""
    contributions: list[Contribution]
    """All ratings and features of the user, those that move it most first."""
    remainder: float
    """What is not attributed to any of them; docs/explanation/network.md says where it is more than rounding."""
    title: str | None = None
    low: float | None = None
    """Where the interval of a predicted rating begins, in which nine tenths of the true ones are expected."""
    high: float | None = None
    """Where it ends."""
    groups: dict[str, float] | None = None
    """Of a list that follows order and time: how much of the value comes from the "trend", from the "history" as a
    whole, and from the "order" of what was done last. They add up to it.
    """


# The map of the items

MOST_ITEMS = 1500  # more would take long and could not be told apart
_FEWEST_ITEMS = 3


class ItemPlaces(NamedTuple):
    """The items of a map by index, and where each of them lies."""

    items: Longs
    places: Floats
    """(items, 2): from 0 to 1; none where nothing makes one item like another."""


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


# Training

Phase = Literal["pretrain", "search", "train"]
"""Pre-training of the layers; the run that finds the number of epochs; the training that is kept."""


@dataclass(frozen=True)
class EpochRecord:
    """One epoch, as the history of a model keeps it."""

    phase: Phase
    epoch: int
    loss: float  # mean over the ratings, each weighted by alpha or beta, in scaled ratings
    validation_rmse: float | None  # in ratings
    learning_rate: float
    seconds: float
    ratings_per_second: float
    lowered: int = 0  # how often the learning rate had been changed before, because training diverged with it
    rows: str = ""  # which of two networks
    workers: int = 1  # processes that trained together
    exchanging: float = 0.0  # share of the seconds that went into the exchange between them

    def as_json(self) -> dict[str, Any]:
        """What is not as it is usually."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}

    def measures(self) -> dict[str, float]:
        """What a progress display shows of it."""
        found = {"loss": self.loss, "ratings_per_second": self.ratings_per_second}
        if self.validation_rmse is not None:
            found["validation_rmse"] = self.validation_rmse
        return found | ({"workers": self.workers, "exchanging": self.exchanging} if self.workers > 1 else {})
