"""Lists of many people, made in batches of bounded memory: one after the other, or as a frame."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cofill.data.frames import InFrames
from cofill.data.vocabulary import Id, Vocabulary
from cofill.models.lists.rules import RankedList, Recommendation, list_columns, list_schema
from cofill.models.matrix import Floats, Ints, Longs
from cofill.progress import Progress, Step, unseen

if TYPE_CHECKING:
    import polars as pl

_MOST_PEOPLE = 256
_SCORES_AT_ONCE = 32_000_000  # 128 MB, however many items there are


class BestItems(NamedTuple):
    """The lists of some people, one after the other, in indices of items."""

    lengths: Longs  # (people,): entries of each
    items: Ints  # (entries,)
    scores: Floats  # (entries,)
    ratings: Floats | None  # (entries,): None where the model knows no ratings
    raters: Longs  # (entries,)


class UserLists(InFrames):
    """What many people are recommended, by `recommend_many`.

    Iterate over it for pairs of a user and their list, call `to_polars` or `to_pandas` for all lists in one frame, or
    `frames` for one frame after the other where they are too many for memory. Lists are made when they are asked for,
    each time anew.
    """

    def __init__(
        self,
        users: Sequence[Id],
        people: Longs,
        best: Callable[[Longs], BestItems],
        *,
        items: Vocabulary,
        titles: Mapping[Id, str],
        integers: bool,
        rated: bool,
        progress: Progress | None,
    ) -> None:
        """`users` are `people` by id; `best` makes the lists of some of `people`; `integers`: the users are numbers."""
        self._users, self._people, self._best = users, people, best
        self._items, self._titles, self._rated = items, titles, rated
        self._integers = [name for name, yes in (("user", integers), ("item", items.integers)) if yes]
        self._progress = progress or unseen

    def __len__(self) -> int:
        """How many people there are."""
        return len(self._users)

    def __repr__(self) -> str:
        return f"UserLists({len(self)} users)"

    def __iter__(self) -> Iterator[tuple[Id, RankedList[Recommendation]]]:
        without = frozenset(() if self._rated else ("rating",))
        for users, found in self._batches():
            ends = np.cumsum(found.lengths).tolist()
            ids = [self._items.id(item) for item in found.items.tolist()]
            ratings = [None] * len(ids) if found.ratings is None else found.ratings.tolist()
            columns = zip(ids, found.scores.tolist(), ratings, found.raters.tolist(), strict=True)
            entries = [Recommendation(*values, self._titles.get(values[0])) for values in columns]
            for user, first, last in zip(users, [0, *ends], ends, strict=False):
                yield (
                    user,
                    RankedList(entries[first:last], Recommendation, integers=self._items.integers, without=without),
                )

    def to_polars(self) -> "pl.DataFrame":
        """A row for each entry of each list: user, rank (from 1), item, score, rating, raters, title.

        There is no column of ratings if the model knows interactions alone. Users follow each other as they were given.
        """
        import polars as pl

        frames = list(self.frames())
        return pl.concat(frames) if frames else pl.DataFrame(schema=self.schema)

    def frames(self) -> "Iterator[pl.DataFrame]":
        """The same in parts, each of a few hundred people."""
        import polars as pl

        schema, known = self.schema, self._items.array()
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
                "title": [self._titles.get(item) for item in items.tolist()],
            }
            yield pl.DataFrame({name: columns[name] for name in schema}, schema=schema)

    @property
    def schema(self) -> "dict[str, pl.DataType]":
        """The columns of the frames, and their types."""
        return list_schema(list_columns(self._rated), integers=self._integers)

    def _batches(self) -> Iterator[tuple[Sequence[Id], BestItems]]:
        size = max(1, min(_MOST_PEOPLE, _SCORES_AT_ONCE // max(1, len(self._items))))
        total = len(self._users)
        for first in range(0, total, size):
            last = min(total, first + size)
            yield self._users[first:last], self._best(self._people[first:last])
            self._progress(Step("recommending", last, total, last / total))
