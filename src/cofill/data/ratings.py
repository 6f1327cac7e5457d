"""Ratings: who rated what, how and when, as sorted arrays; from any source, and back to a file."""

import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.config import Orientation
from cofill.data import cells
from cofill.data.delimited import too_many
from cofill.data.layout import TextOptions
from cofill.data.roles import Role, Wanted
from cofill.data.sparse import SparseRows
from cofill.data.table import Table, read_table
from cofill.data.vocabulary import Id, Indices, Vocabulary, by_user_then_item, indexed, last_of_each_pair
from cofill.data.wide import read_wide
from cofill.errors import DataError, Place, Remedy

if TYPE_CHECKING:
    import polars as pl

Times = npt.NDArray[np.int64] | npt.NDArray[np.float64]
SHOWN_LINES = 5
UNUSUAL = ((4, 1000.0), (100, 10.0))
"""With so many other ratings: how many times as far as those from each other a rating must lie to be told of."""
MOST_REPEATS = 0.5  # the share of ratings that repeat others above which columns by position must be wrong ones


class DuplicateRatingsWarning(UserWarning):
    """The same user rated the same item more than once; the latest rating was kept."""


class SkippedLinesWarning(UserWarning):
    """Lines that are not ratings were skipped, as the caller allowed."""


class UnusualRatingWarning(UserWarning):
    """A rating lies far beyond all others, so that the scale is probably wrong."""


class Scale(NamedTuple):
    """The least and the greatest rating that can be given."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Ratings:
    """n known ratings of users for items, sorted by user, then by item; no pair is there twice."""

    users: Vocabulary
    items: Vocabulary
    user_index: Indices
    """(n,): who rated."""
    item_index: Indices
    """(n,): what was rated."""
    values: npt.NDArray[np.float32]
    """(n,): the ratings. 0 is a rating like any other."""
    times: Times | None
    """(n,): when, in seconds, or None if nobody wrote it down."""
    scale: Scale
    titles: Mapping[Id, str] = field(default_factory=dict)
    """Of items, by id; for people to read."""

    @classmethod
    def read(
        cls,
        source: object,
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        rating: str | int | None = None,
        time: str | int | None = None,
        title: str | int | None = None,
        separator: str | None = None,
        header: bool | None = None,
        encoding: str = "utf-8",
        scale: tuple[float, float] | None = None,
        wide: bool = False,
        unknown: float | None = None,
        skip_bad_lines: int = 0,
    ) -> "Ratings":
        """Ratings from a file, a frame, arrays or tuples. Strict: a line that is not a rating is an error.

        `source` is a path (CSV, TSV, `::`, `;`, `|`, columns aligned by blanks, lines of JSON, gzip, bzip2, xz or zip
        of these, or Parquet), a polars or pandas DataFrame, a tuple or list of arrays or lists
        (users, items, ratings[, times]), or an iterable of tuples (user, item, rating[, time]).

        `user`, `item`, `rating`, `time` and `title` name a column or give its position from 0. By default
        usual names such as userId, movieId, score and timestamp are recognised; without a header the columns
        are user, item, rating[, time]. `time=""` or `title=""` leaves out a column that would be recognised.

        In a text file, ids are integers if every one in its column is written as an integer would be (42, -3,
        but not 042); else strings as written, without blanks around them unless they are quoted. In a frame they
        are what they are. Vocabularies are in ascending order. Times are numbers, or ISO dates and datetimes, or dates
        with the name of the month (5 January 2010), which become Unix seconds (in UTC unless they have an offset).
        Ratings may have decimal commas. Of several titles of an item, the first in alphabetical order counts.

        `encoding` is that of a text file, such as "latin-1". `wide`: there is a row for each user and a column for
        each item; empty cells are unknown, and those that hold the number `unknown`. Up to `skip_bad_lines` lines that
        are no ratings are left out, and a SkippedLinesWarning counts them.

        `scale` is the least and greatest rating possible; a rating outside is an error. By default it is the
        least and greatest seen, except that a scale which ends at 5 or 10 begins at the usual place: at 1 if
        no rating is lower, else at 0.5 (if it ends at 5) or 0. A sample may not show the ends of its scale:
        say what you know. A constant rating c that is neither 5 nor 10 gets c - 1 to c + 1.

        Of several ratings of one item by one user the latest wins: by time, or else the last in order. A
        DuplicateRatingsWarning counts the others. If most ratings of a file without header repeat others, its columns
        are in another order, and that is an error.
        """
        limits = None if scale is None else cells.checked_scale(scale)
        given: dict[Role, str | int | None] = {
            "user": user, "item": item, "rating": rating, "time": time, "title": title
        }  # fmt: skip
        if skip_bad_lines < 0:
            raise DataError(f"skip_bad_lines={skip_bad_lines} is no number of lines", "give 0 or more")
        if unknown is not None and not wide:
            raise DataError(
                "a number for unknown is for wide tables", Remedy.passing("pass {wide} too, or leave it out", wide=True)
            )
        options = TextOptions(separator, header, encoding, skip_bad_lines)
        table = read_wide(source, given, unknown, options) if wide else read_table(source, Wanted(given), options)
        by_position = table.text and not table.headed and user is None and item is None and not wide
        table, unsorted = _without_bad_lines(table, limits, skip_bad_lines)
        if table.skipped:
            warnings.warn(_told_skipped(table, len(unsorted)), SkippedLinesWarning, stacklevel=2)
        if limits is None and (far := _far_beyond(unsorted.values)) is not None:
            warnings.warn(_told_unusual(table, unsorted.values, far), UnusualRatingWarning, stacklevel=2)
        return _sorted(unsorted, table.origin.name, by_position=by_position)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Ratings({len(self)} ratings of {len(self.items)} items by {len(self.users)} users)"

    def rows(self, orientation: Orientation) -> SparseRows:
        """The matrix with users as rows ("user") or with items as rows ("item")."""
        indptr = np.zeros(len(self.users) + 1, np.int64)
        np.cumsum(np.bincount(self.user_index, minlength=len(self.users)), out=indptr[1:])
        by_user = SparseRows(indptr, self.item_index, self.values, len(self.items))
        return by_user if orientation == "user" else by_user.transpose()

    def select(self, index_or_mask: npt.NDArray[Any]) -> "Ratings":
        """Some of the ratings, by positions or by a mask (n,); vocabularies, titles and scale stay."""
        mask = np.asarray(index_or_mask)
        if mask.dtype != np.bool_:
            mask = np.zeros(len(self), np.bool_)
            mask[np.asarray(index_or_mask, np.int64)] = True
        times = None if self.times is None else self.times[mask]
        return Ratings(
            *(self.users, self.items, self.user_index[mask], self.item_index[mask], self.values[mask], times),
            *(self.scale, self.titles),
        )

    def including(self, *, users: Iterable[Id] | None = None, items: Iterable[Id] | None = None) -> "Ratings":
        """The same ratings with more ids, which have no ratings; new ones come last."""
        with_users, with_items = self.users.copy(), self.items.copy()
        with_users.add(users or ())
        with_items.add(items or ())
        return replace(self, users=with_users, items=with_items)

    def frame(self) -> "pl.DataFrame":
        """A polars frame with the columns user, item, rating and, if known, time."""
        import polars as pl

        def column(vocabulary: Vocabulary, index: Indices) -> pl.Series:
            ids = pl.Series(vocabulary.ids, dtype=pl.Int64 if vocabulary.integers else pl.String)
            return ids.gather(index)

        columns = {
            "user": column(self.users, self.user_index),
            "item": column(self.items, self.item_index),
            "rating": pl.Series(self.values),
        }
        if self.times is not None:
            columns["time"] = pl.Series(self.times)
        return pl.DataFrame(columns)

    def write(self, path: str | PathLike[str]) -> None:
        """Write `frame()` to a .csv, .tsv, .csv.gz, .tsv.gz or .parquet file: all of it, or nothing."""
        from cofill.data.table import write_frame

        write_frame(self.frame(), path)

    def merge(self, other: "Ratings") -> "Ratings":
        """Both together. Where both have a pair, `other` wins; its new ids come after the known ones.

        The scale spans both. Times remain only if both have them.
        """
        users, items = self.users.copy(), self.items.copy()
        their_users, their_items = users.add(other.users.array()), items.add(other.items.array())
        user_index = np.concatenate([self.user_index, their_users[other.user_index]])
        item_index = np.concatenate([self.item_index, their_items[other.item_index]])
        times: Times | None = None
        if self.times is not None and other.times is not None:
            times = np.concatenate([self.times, other.times])
        titles = dict(self.titles) | {
            items.id(items.index(id)) if id in items else id: title for id, title in other.titles.items()
        }
        scale = Scale(min(self.scale.low, other.scale.low), max(self.scale.high, other.scale.high))
        values = np.concatenate([self.values, other.values])
        both = Ratings(users, items, user_index, item_index, values, times, scale, titles)
        return _sorted(both, None)  # by order, not by time: `other` wins even if it is older

    def summary(self) -> dict[str, Any]:
        """The main figures, ready for JSON."""
        pairs = len(self.users) * len(self.items)
        return {
            "users": len(self.users),
            "items": len(self.items),
            "ratings": len(self),
            "density": len(self) / pairs if pairs else 0.0,
            "mean": float(self.values.mean(dtype=np.float64)) if len(self) else None,
            "scale": [self.scale.low, self.scale.high],
            "first_time": self.times.min().item() if self.times is not None and len(self) else None,
            "last_time": self.times.max().item() if self.times is not None and len(self) else None,
        }


def _without_bad_lines(table: Table, limits: tuple[float, float] | None, skip: int) -> tuple[Table, Ratings]:
    """The ratings of a table, unsorted, and what is left of it after up to `skip` bad lines are gone."""
    while True:
        try:
            return table, _unsorted(table, limits)
        except cells.BadCellsError as error:
            bad = len(table.skipped) + int(np.count_nonzero(error.rows))
            if not skip or error.rows.all():
                raise
            if bad > skip:
                raise too_many(error, bad) from error
            table = table.without(error.rows)


def _unsorted(table: Table, limits: tuple[float, float] | None) -> Ratings:
    """The ratings of a table with columns by role, in its order."""
    columns, origin = {role: table.series(role) for role in table.names}, table.origin

    def index(role: Role) -> tuple[Vocabulary, Indices]:
        return indexed(cells.ids(columns[role], role, origin, text=table.text))

    with ThreadPoolExecutor(len(columns)) as threads:  # polars and numpy let go of the interpreter
        rated = threads.submit(cells.ratings, columns["rating"], origin, limits)
        timed = threads.submit(cells.times, columns["time"], origin) if "time" in columns else None
        by_user, by_item = threads.submit(index, "user"), threads.submit(index, "item")
    values, times = rated.result(), timed.result() if timed else None
    (users, user_index), (items, item_index) = by_user.result(), by_item.result()
    titles = _titles(columns["title"], items, item_index) if "title" in columns else {}
    found = Scale(*limits) if limits else _usual_scale(float(values.min()), float(values.max()))
    return Ratings(users, items, user_index, item_index, values, times, found, titles)


def _told_skipped(table: Table, kept: int) -> str:
    bad, unit = table.skipped, table.origin.unit
    shown = ", ".join(map(str, bad[:SHOWN_LINES])) + (", ..." if len(bad) > SHOWN_LINES else "")
    what = f"1 bad {unit} was" if len(bad) == 1 else f"{len(bad)} bad {unit}s were"
    return f"{table.origin.name}: {what} skipped ({unit} {shown}); {kept:,} ratings are left"


def _far_beyond(values: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_] | None:
    """(n,): the few ratings, if there are any, that lie far away from all others."""
    low, high = float(values.min()), float(values.max())
    upper = values > (low + high) / 2
    few = max(1, len(values) // 1000)
    for far in (upper, ~upper):
        if 0 < np.count_nonzero(far) <= few:
            others = values[~far]
            spans = [times for least, times in UNUSUAL if len(others) >= least]
            span = float(others.max()) - float(others.min()) if spans else 0.0
            return far if span and high - low > spans[-1] * span else None
    return None


def _told_unusual(table: Table, values: npt.NDArray[np.float32], far: npt.NDArray[np.bool_]) -> str:
    row = int(np.argmax(far))
    others = values[~far]
    place = Place(table.origin.name, table.origin.unit, table.origin.line(row), table.origin.labels.get("rating"))
    return (
        f"{place}: found {values[row]:g}, while {len(others):,} other ratings are from {others.min():g} to "
        f"{others.max():g}; it stretches the scale of the predictions: correct it if it is a slip"
    )


def _usual_scale(low: float, high: float) -> Scale:
    """The scale by the rule of `Ratings.read`. No scale begins at 2; samples without the lowest rating are common."""
    if high in (5.0, 10.0) and low >= 0.0:
        begins = 1.0 if low >= 1.0 else 0.5 if low >= 0.5 and high == 5.0 else 0.0
        return Scale(begins, high)
    return Scale(low, high) if low < high else Scale(low - 1.0, high + 1.0)


def _titles(titles: "pl.Series", items: Vocabulary, item_index: Indices) -> dict[Id, str]:
    import polars as pl

    table = pl.DataFrame({"item": item_index, "title": titles.cast(pl.String)})
    table = table.filter(pl.col("title").str.len_bytes() > 0).group_by("item").agg(pl.col("title").min()).sort("item")
    return {items.id(item): title for item, title in table.iter_rows()}


def _sorted(ratings: Ratings, source: str | None, *, by_position: bool = False) -> Ratings:
    """By user, then by item, the last of each pair; from a `source`, the latest by time, with a warning.

    `by_position`: nobody has said which column is which, so that they may be others.
    """
    shape = len(ratings.users), len(ratings.items)
    users, items, order = by_user_then_item(ratings.user_index, ratings.item_index, shape)
    times = None if ratings.times is None else ratings.times[order]
    ordered = replace(ratings, user_index=users, item_index=items, values=ratings.values[order], times=times)
    keep = last_of_each_pair(users, items, times if source is not None else None)
    if keep is None:
        return ordered
    if source is not None:
        by = "by order" if times is None else "by time"
        extra = len(keep) - np.count_nonzero(keep)
        if by_position and extra > MOST_REPEATS * len(keep):
            columns: dict[str, Any] = dict.fromkeys(("user", "item", "rating"), ...)
            raise DataError(
                f"{extra} of {len(keep)} ratings repeat a user and item if the columns are user, item, rating in this "
                "order, as is usual without a header",
                Remedy.passing("say which is which with {user}, {item} and {rating}, by position from 0", **columns),
                where=source,
            )
        warnings.warn(
            f"{source}: {extra} of {len(keep)} ratings repeat a user and item; the latest {by} were kept",
            DuplicateRatingsWarning,
            stacklevel=3,
        )
    return ordered.select(keep)
