"""Small tables: user-item pairs, the ratings of one person, titles."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.data import cells
from cofill.data.columns import Rows, Wanted
from cofill.data.ratings import Ratings
from cofill.data.reading import ReadOptions, Role
from cofill.data.table import Table, read_table
from cofill.data.vocabulary import Id
from cofill.errors import DataError

_PAIR: tuple[Role, ...] = ("user", "item")
Ids = Sequence[Id] | npt.NDArray[Any]


def read_pairs(
    source: object,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
) -> tuple[Ids, Ids]:
    """Users and items of pairs, as long as each other.

    `source` is Ratings, or anything that `Ratings.read` takes, without the ratings: a file, a frame, two arrays or
    lists of ids, or an iterable of (user, item) tuples. Other columns of a file or a frame are left alone. Ids of one
    side may be strings and integers: then all of them come back as strings, by which they are found as well.
    """
    if isinstance(source, Ratings):
        return source.users.array()[source.user_index], source.items.array()[source.item_index]
    if isinstance(source, list | tuple | np.ndarray) and all(
        hasattr(part, "__len__") and len(part) == 0 for part in source
    ):
        return [], []  # nothing asked, nothing answered
    wanted = Wanted({"user": user, "item": item}, _PAIR, (), _PAIR, one="pair", skippable=False, mixed_ids=True)
    table = read_table(source, wanted, ReadOptions.of(separator=separator, header=header, encoding=encoding))
    return _ids(table, "user"), _ids(table, "item")


def read_somebody(
    source: object,
    *,
    item: str | int | None = None,
    rating: str | int | None = None,
    time: str | int | None = None,
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
) -> tuple[dict[Id, float], dict[Id, float] | None]:
    """The ratings {item: rating} of one person, from a file or a frame with these two columns, in its order; and their
    times {item: Unix seconds}, if it has a column of these.
    """
    columns: tuple[Role, ...] = ("item", "rating", "time")
    given = dict(zip(columns, (item, rating, time), strict=True))
    wanted = Wanted(given, columns[:2], columns[2:], columns, skippable=False)
    table = read_table(source, wanted, ReadOptions.of(separator=separator, header=header, encoding=encoding))
    items = list(_ids(table, "item"))
    ratings = cells.ratings(table.series("rating"), table.origin, None).tolist()
    somebody = dict(zip(items, ratings, strict=True))
    if len(somebody) < len(items):
        repeated = next(item for position, item in enumerate(items) if item in items[:position])
        found = f"item {repeated!r} is rated more than once"
        raise DataError(found, "keep one of its ratings, and the ratings of one person only", where=table.origin.name)
    if not table.has_any("time"):
        return somebody, None
    return somebody, dict(zip(items, cells.times(table.series("time"), table.origin).tolist(), strict=True))


def read_titles(
    source: object,
    *,
    item: str | int | None = None,
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
) -> dict[Id, str]:
    """The titles of items, from a file or a frame with the columns item (that one, if it is said) and title.

    Without a header they are the first two columns. An empty title is none; of several titles of an item the first
    counts.
    """
    wanted = _TitleColumns({"item": item, "title": None}, ("item", "title"), (), ("item", "title"), skippable=False)
    table = read_table(source, wanted, ReadOptions.of(separator=separator, header=header, encoding=encoding))
    titles: dict[Id, str] = {}
    for item, title in zip(_ids(table, "item"), table.series("title").to_list(), strict=True):
        if title is not None and str(title).strip():
            titles.setdefault(item, str(title))
    return titles


class _TitleColumns(Wanted):
    def columns(self, names: Sequence[str] | None, width: int, below: Rows, source: str) -> dict[str, int]:
        return super().columns(names, width if names else min(width, len(self.by_position)), below, source)


def _ids(table: Table, role: Role) -> Ids:
    found = cells.ids(table.series(role), role, table.origin, text=table.text)
    ids: Ids = found.tolist() if hasattr(found, "tolist") else found.to_list()
    return ids
