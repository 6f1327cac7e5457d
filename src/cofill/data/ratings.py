"""Ratings: who rated what, how and when, as sorted arrays; from any source, and back to a file."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from cofill.arrays import Ints, Longs
from cofill.config import Orientation
from cofill.data import cells
from cofill.data.columns import Wanted
from cofill.data.frames import InFrames
from cofill.data.reading import ReadOptions, Role, ZeroMeans
from cofill.data.sparse import SparseRows
from cofill.data.table import Table, read_table
from cofill.data.text import too_many
from cofill.data.vocabulary import Id, Vocabulary, by_user_then_item, indexed, last_of_each_pair
from cofill.data.wide import read_wide
from cofill.errors import DataError, DataWarning, Place

Times = npt.NDArray[np.int64] | npt.NDArray[np.float64]
_Kind = TypeVar("_Kind", bound="Ratings")
SHOWN_LINES = 5
UNUSUAL = ((4, 1000.0), (100, 10.0))
"""With so many other ratings: how many times as far as those from each other a rating must lie to be told of."""
FEW_LINES = 20  # fewer show nothing by what they have in common
MANY_ZEROS = 2 / 3  # the share of ratings that are 0 above which that probably means "not rated"
MOST_REPEATS = 0.5  # the share of ratings that repeat others above which columns by position must be wrong ones


class DuplicateRatingsWarning(UserWarning):
    """The same user rated the same item more than once; the latest rating was kept."""


class SkippedLinesWarning(UserWarning):
    """Lines that are not ratings were skipped, as the caller allowed."""


class UnusualRatingWarning(UserWarning):
    """A rating lies far beyond all others, so that the scale is probably wrong."""


class ManyZerosWarning(DataWarning):
    """So many ratings are 0 that it probably means "not rated"."""


class Scale(NamedTuple):
    """The least and the greatest rating that can be given."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Ratings(InFrames):
    """n known ratings of users for items, sorted by user, then by item; no pair is there twice."""

    users: Vocabulary
    items: Vocabulary
    user_index: Ints
    """(n,): who rated."""
    item_index: Ints
    """(n,): what was rated."""
    values: npt.NDArray[np.float32]
    """(n,): the ratings. 0 is a rating like any other."""
    times: Times | None
    """(n,): when, in seconds, or None if nobody wrote it down."""
    scale: Scale
    titles: Mapping[Id, str] = field(default_factory=dict)
    """Of items, by id; for people to read."""
    order: Ints | Longs | None = None
    """(n,): where each stood in its source, which orders what happened at the same time; None: by item."""

    rated: ClassVar[bool] = True
    """Whether the values say how much somebody liked an item; those of interactions say how often it was chosen."""
    value_name: ClassVar[str] = "rating"
    """The column of the values in a frame and in a file."""
    plural: ClassVar[str] = "ratings"

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
        zero_means: ZeroMeans | None = None,
        skip_bad_lines: int = 0,
    ) -> "Ratings":
        """Ratings from a file, a frame, arrays or tuples. Strict: a line that is not a rating is an error.

        `source` is a path (CSV, TSV, `::`, `;`, `|`, columns aligned by blanks, lines of JSON, gzip, bzip2, xz or zip
        of these, or Parquet), a polars or pandas DataFrame (also a pivot table), an Arrow table, a dict of columns, a
        result of SQLAlchemy or a cursor, a data set with columns or rows, a scipy sparse matrix, rows
        (user, item, rating[, time]) as a list, an iterable or an array (n, 3), or columns
        (users, items, ratings[, times]) as a tuple or as arrays.

        `user`, `item`, `rating`, `time` and `title` name a column or give its position from 0. By default
        usual names such as userId, movieId, score and timestamp are recognised; without a header the columns
        are user, item, rating[, time]. `time=""` or `title=""` leaves out a column that would be recognised.

        In a text file, ids are integers if every one in its column is written as an integer would be (42, -3,
        but not 042); else strings as written, without blanks around them unless they are quoted. In a frame they
        are what they are. Vocabularies are in ascending order. Times are numbers, or ISO dates and datetimes, or dates
        with points (5.1.2010), which become Unix seconds (in UTC unless they have an offset).
        Ratings may have decimal commas. Of several titles of an item, the first in alphabetical order counts.

        `encoding` is that of a text file, such as "latin-1". `wide`: there is a row for each user and a column for
        each item; empty cells are unknown, and those that hold the number `unknown`. Up to `skip_bad_lines` lines that
        are no ratings are left out, and a SkippedLinesWarning counts them.

        `scale` is the least and greatest rating possible; a rating outside is an error. By default it is the
        least and greatest seen, except that a scale which ends at 5 or 10 begins at the usual place: at 1 if
        no rating is lower, else at 0.5 (if it ends at 5) or 0. A sample may not show the ends of its scale:
        say what you know. A constant rating c that is neither 5 nor 10 gets c - 1 to c + 1.

        `zero_means="unrated"` leaves out ratings of 0, which some files have for every pair that nobody rated. If two
        thirds are 0, a ManyZerosWarning asks; `zero_means="rating"` answers it.

        Of several ratings of one item by one user the latest wins: by time, or else the last in order. A
        DuplicateRatingsWarning counts the others. If most ratings of a file without header repeat others, its columns
        are in another order, and that is an error.
        """
        options = ReadOptions.of(
            user=user, item=item, rating=rating, time=time, title=title, separator=separator, header=header,
            encoding=encoding, scale=scale, wide=wide, unknown=unknown, zero_means=zero_means,
            skip_bad_lines=skip_bad_lines,
        )  # fmt: skip
        return read_ratings(source, options)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        pairs = f"{len(self)} {self.plural} of {len(self.items)} items by {len(self.users)} users"
        return f"{type(self).__name__}({pairs})"

    def rows(self, orientation: Orientation) -> SparseRows:
        """The matrix with users as rows ("user") or with items as rows ("item")."""
        indptr = np.zeros(len(self.users) + 1, np.int64)
        np.cumsum(np.bincount(self.user_index, minlength=len(self.users)), out=indptr[1:])
        by_user = SparseRows(indptr, self.item_index, self.values, len(self.items))
        return by_user if orientation == "user" else by_user.transpose()

    def select(self, index_or_mask: npt.NDArray[Any]) -> Self:
        """Some of the ratings, by ascending positions or by a mask (n,); vocabularies, titles and scale stay."""
        chosen = np.asarray(index_or_mask)
        if chosen.dtype != np.bool_:
            chosen = np.arange(len(self))[chosen.astype(np.int64)]
            if (np.diff(chosen) <= 0).any():
                raise DataError(
                    "the positions are out of order or repeat, and ratings are sorted by user and item",
                    "pass them ascending, each once, or a mask",
                )
        times = None if self.times is None else self.times[chosen]
        order = None if self.order is None else self.order[chosen]
        user_index, item_index = self.user_index[chosen], self.item_index[chosen]
        return replace(
            self, user_index=user_index, item_index=item_index, values=self.values[chosen], times=times, order=order
        )

    def places(self) -> Ints | Longs:
        """(n,): where each stood in its source, or its own place where that is unknown."""
        return np.arange(len(self)) if self.order is None else self.order

    def sequence(self) -> Longs:
        """(n,): the order of what users did: by user, then by time, then as in the source."""
        keys = (self.places(), self.user_index) if self.times is None else (self.places(), self.times, self.user_index)
        return np.lexsort(keys)

    def in_order(self) -> Self:
        """The same, of a source without times whose lines are in the order in which users did things.

        Their times are positions, from 1 for the first thing that a user did.
        """
        sequence, counts = self.sequence(), np.bincount(self.user_index, minlength=len(self.users))
        times = np.empty(len(self), np.int64)
        times[sequence] = np.arange(len(self)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        return replace(self, times=times)

    def including(self, *, users: Iterable[Id] | None = None, items: Iterable[Id] | None = None) -> Self:
        """The same ratings with more ids, which have no ratings; new ones come last."""
        with_users, with_items = self.users.copy(), self.items.copy()
        with_users.add(users or ())
        with_items.add(items or ())
        return replace(self, users=with_users, items=with_items)

    def by_ids_of(self, other: "Ratings") -> Self:
        """The same by the vocabularies of `other`, which must know all ids that are rated here."""
        users = other.users.find(self.users.array())[self.user_index]
        items = other.items.find(self.items.array())[self.item_index]
        shape = len(other.users), len(other.items)
        sorted_users, sorted_items, order = by_user_then_item(users, items, shape)
        return replace(
            self,
            users=other.users,
            items=other.items,
            user_index=sorted_users,
            item_index=sorted_items,
            values=self.values[order],
            times=None if self.times is None else self.times[order],
            order=self.places()[order],
        )

    def to_polars(self) -> pl.DataFrame:
        """A polars frame with the columns user, item, rating (of interactions: weight) and, if known, time."""

        def column(vocabulary: Vocabulary, index: Ints) -> pl.Series:
            return vocabulary.column().gather(index)

        columns = {
            "user": column(self.users, self.user_index),
            "item": column(self.items, self.item_index),
            self.value_name: pl.Series(self.values),
        }
        if self.times is not None:
            columns["time"] = pl.Series(self.times)
        return pl.DataFrame(columns)

    def write(self, path: str | PathLike[str]) -> None:
        """Write `to_polars()` to a .csv, .tsv, .csv.gz, .tsv.gz or .parquet file: all of it, or nothing.

        Lines are in the order of the source, so that a file keeps what happened first at the same time.
        """
        from cofill.data.table import write_frame

        frame = self.to_polars()
        write_frame(frame if self.order is None else frame[np.argsort(self.order, kind="stable")], path)

    def merge(self, other: "Ratings") -> Self:
        """Both together. Where both have a pair, `other` wins; its new ids come after the known ones.

        The scale spans both. Times remain only if both have them.
        """
        return _last_of_each(self._joined(other))  # by order, not by time: `other` wins even if it is older

    def _joined(self, other: "Ratings") -> Self:
        """The entries of both, one after the other: some pairs may be there twice."""
        if self.rated != other.rated:
            raise DataError(
                f"{self.plural} and {other.plural} cannot be merged: their values mean different things",
                "keep them apart, or read both as interactions",
            )
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
        first = self.places()
        order = np.concatenate([first, other.places() + int(first.max(initial=-1)) + 1])
        pairs: dict[str, Any] = {"user_index": user_index, "item_index": item_index, "values": values, "times": times}
        pairs["order"] = order
        return replace(self, users=users, items=items, scale=scale, titles=titles, **pairs)

    def summary(self) -> dict[str, Any]:
        """The main figures, ready for JSON."""
        pairs = len(self.users) * len(self.items)
        return {
            "users": len(self.users),
            "items": len(self.items),
            "ratings": len(self),
            "rated": self.rated,
            "density": len(self) / pairs if pairs else 0.0,
            "mean": float(self.values.mean(dtype=np.float64)) if len(self) else None,
            "scale": [self.scale.low, self.scale.high],
            "first_time": self.times.min().item() if self.times is not None and len(self) else None,
            "last_time": self.times.max().item() if self.times is not None and len(self) else None,
        }


def refuse_unread(ratings: object) -> None:
    """DataError for a file, a frame or tuples where `Ratings` belong: nobody said yet what their columns are."""
    if not isinstance(ratings, Ratings):
        raise DataError(
            f"found {type(ratings).__name__} where Ratings or Interactions belong",
            "read it first: Ratings.read(...), or Interactions.read(...)",
        )


def read_ratings(source: object, options: ReadOptions) -> Ratings:
    """The ratings of any source."""
    table = read_wide(source, options) if options.wide else read_table(source, Wanted(options.columns), options)
    return sorted_ratings(*unsorted_ratings(table, options), options)


def unsorted_ratings(table: Table, options: ReadOptions) -> tuple[Table, Ratings]:
    """The ratings of a table in its order, and what is left of it without bad lines that may be skipped."""
    limits = options.scale

    def values(columns: Mapping[str, pl.Series], origin: cells.Origin) -> npt.NDArray[np.float32]:
        return cells.ratings(columns["rating"], origin, limits)

    def scale(values: npt.NDArray[np.float32]) -> Scale:
        return Scale(*limits) if limits else usual_scale(float(values.min()), float(values.max()))

    if options.zero_means == "unrated":
        table = _without_zeros(table)
    return without_bad_lines(table, lambda table: in_order(Ratings, table, values, scale), options.skip_bad_lines)


def sorted_ratings(table: Table, ratings: Ratings, options: ReadOptions) -> Ratings:
    """By user, then by item, the latest of each pair, with warnings about what is unusual."""
    # Nobody has said which column is which, so that they may be others.
    by_position = table.text and not table.headed and options.user is None and options.item is None and not options.wide
    warn_of_skipped(table.skipped, table.origin, f"{len(ratings):,} ratings are left")
    values = ratings.values
    if options.scale is None:
        middle = (float(values.min()) + float(values.max())) / 2
        spread = Spread.of(values, middle)
        if (upper := spread.far_side) is not None:
            row = int(np.argmax((values > middle) == upper))
            warn_of_unusual(spread, upper, float(values[row]), table.origin, row)
    if options.zero_means is None:
        warn_of_zeros(int(np.count_nonzero(values == 0)), len(ratings), table.origin.name)
    return _last_of_each(ratings, table.origin.name, by_position=by_position)


def without_bad_lines(table: Table, read: Callable[[Table], _Kind], skip: int) -> tuple[Table, _Kind]:
    """What is read from a table, and what is left of it after up to `skip` bad lines are gone."""
    while True:
        try:
            return table, read(table)
        except cells.BadCellsError as error:
            bad = len(table.skipped) + int(np.count_nonzero(error.rows))
            if not skip or error.rows.all():
                raise
            if bad > skip:
                raise too_many(error, bad) from error
            table = table.without(error.rows)


def in_order(
    kind: type[_Kind],
    table: Table,
    values_of: Callable[[Mapping[str, pl.Series], cells.Origin], npt.NDArray[np.float32]],
    scale_of: Callable[[npt.NDArray[np.float32]], Scale],
) -> _Kind:
    """The ratings (or interactions) of a table with columns by role, in its order."""
    columns, origin = {role: table.series(role) for role in table.names}, table.origin
    if not table.has_any("time"):
        columns.pop("time", None)

    def index(role: Role) -> tuple[Vocabulary, Ints]:
        return indexed(cells.ids(columns[role], role, origin, text=table.text))

    with ThreadPoolExecutor(len(columns)) as threads:  # polars and numpy let go of the interpreter
        valued = threads.submit(values_of, columns, origin)
        timed = threads.submit(cells.times, columns["time"], origin) if "time" in columns else None
        by_user, by_item = threads.submit(index, "user"), threads.submit(index, "item")
    values, times = valued.result(), timed.result() if timed else None
    (users, user_index), (items, item_index) = by_user.result(), by_item.result()
    titles = _titles(columns["title"], items, item_index) if "title" in columns else {}
    return kind(users, items, user_index, item_index, values, times, scale_of(values), titles)


def _without_zeros(table: Table) -> Table:
    """The table without the lines whose rating is 0; those without a number stay, to be told of."""
    zero = zeros_in(table.series("rating"))
    if zero.all():
        raise only_zeros(len(zero), table.origin.name)
    return table.only(~zero) if zero.any() else table


def zeros_in(ratings: pl.Series, decimal: bool | None = None) -> npt.NDArray[np.bool_]:
    """(n,): which cells are a 0; `decimal` as in `cells.with_points`."""
    numbers = cells.with_points(ratings, decimal).str.strip_chars() if ratings.dtype == pl.String else ratings
    return (numbers.cast(pl.Float32, strict=False) == 0).fill_null(False).to_numpy()


def only_zeros(ratings: int, source: str) -> DataError:
    """The error about ratings that are all left out."""
    remedy = "leave out zero_means='unrated' if they are ratings"
    return DataError(f"all {ratings:,} ratings are 0, so that none is left", remedy, where=source)


def warn_of_skipped(lines: Sequence[int], origin: cells.Origin, left: str) -> None:
    """Count the lines that were skipped, if any were."""
    if lines:
        unit = origin.unit
        shown = ", ".join(map(str, lines[:SHOWN_LINES])) + (", ..." if len(lines) > SHOWN_LINES else "")
        what = f"1 bad {unit} was" if len(lines) == 1 else f"{len(lines)} bad {unit}s were"
        told = f"{origin.name}: {what} skipped ({unit} {shown}); {left}"
        warnings.warn(told, SkippedLinesWarning, stacklevel=5)


def warn_of_zeros(zeros: int, ratings: int, source: str) -> None:
    """Ask what 0 means, if most ratings are that."""
    if FEW_LINES <= ratings > zeros >= MANY_ZEROS * ratings:
        remedy = "pass zero_means='unrated' to leave these out, or 'rating' if 0 is the rating that was given"
        found = f'{zeros:,} of {ratings:,} ratings are 0, which may mean "not rated"'
        told = ManyZerosWarning(found, remedy, where=source)
        warnings.warn(told, stacklevel=5)


class Spread(NamedTuple):
    """How many ratings lie in either half of what they span, and how far each half reaches; halves add up."""

    lower: int = 0
    upper: int = 0
    low: float = np.inf
    low_end: float = -np.inf
    high_begin: float = np.inf
    high: float = -np.inf

    @classmethod
    def of(cls, values: npt.NDArray[np.float32], middle: float) -> "Spread":
        """That of some ratings (n,), at least one; `middle` lies in the middle of all of them."""
        upper = values > middle
        below, above = values[~upper], values[upper]
        return cls(
            *(len(below), len(above)),
            *((float(below.min()), float(below.max())) if len(below) else (np.inf, -np.inf)),
            *((float(above.min()), float(above.max())) if len(above) else (np.inf, -np.inf)),
        )

    def __or__(self, other: "Spread") -> "Spread":
        return Spread(
            *(self.lower + other.lower, self.upper + other.upper),
            *(min(self.low, other.low), max(self.low_end, other.low_end)),
            *(min(self.high_begin, other.high_begin), max(self.high, other.high)),
        )

    @property
    def far_side(self) -> bool | None:
        """Whether the upper half (or the lower: False) is a few ratings far away from all others; None if neither."""
        few = max(1, (self.lower + self.upper) // 1000)
        for upper, far, others in ((True, self.upper, self.lower), (False, self.lower, self.upper)):
            if 0 < far <= few:
                spans = [times for least, times in UNUSUAL if others >= least]
                low, high = self.others(upper)
                span = high - low if spans else 0.0
                return upper if span and self.high - self.low > spans[-1] * span else None
        return None

    def others(self, upper: bool) -> tuple[float, float]:
        """The least and the greatest of those that are not in the upper half (or not in the lower)."""
        return (self.low, self.low_end) if upper else (self.high_begin, self.high)


def warn_of_unusual(spread: Spread, upper: bool, found: float, origin: cells.Origin, row: int) -> None:
    """Tell of the first rating far away from all others, at `row` of its origin."""
    place = Place(origin.name, origin.unit, origin.line(row), origin.labels.get("rating"))
    low, high = spread.others(upper)
    others = spread.lower if upper else spread.upper
    told = (
        f"{place}: found {found:g}, while {others:,} other ratings are from {low:g} to {high:g}; it "
        "stretches the scale of the predictions: correct it if it is a slip"
    )
    warnings.warn(told, UnusualRatingWarning, stacklevel=5)


def usual_scale(low: float, high: float) -> Scale:
    """The scale by the rule of `Ratings.read`. No scale begins at 2; samples without the lowest rating are common."""
    if high in (5.0, 10.0) and low >= 0.0:
        begins = 1.0 if low >= 1.0 else 0.5 if low >= 0.5 and high == 5.0 else 0.0
        return Scale(begins, high)
    return Scale(low, high) if low < high else Scale(low - 1.0, high + 1.0)


def _titles(titles: pl.Series, items: Vocabulary, item_index: Ints) -> dict[Id, str]:
    table = pl.DataFrame({"item": item_index, "title": titles.cast(pl.String)})
    table = table.filter(pl.col("title").str.len_bytes() > 0).group_by("item").agg(pl.col("title").min()).sort("item")
    return {items.id(item): title for item, title in table.iter_rows()}


def _last_of_each(ratings: _Kind, source: str | None = None, *, by_position: bool = False) -> _Kind:
    """By user, then by item, the last of each pair; from a `source`, the latest by time, with a warning."""
    shape = len(ratings.users), len(ratings.items)
    users, items, order = by_user_then_item(ratings.user_index, ratings.item_index, shape)
    times = None if ratings.times is None else ratings.times[order]
    ordered = replace(
        ratings,
        user_index=users,
        item_index=items,
        values=ratings.values[order],
        times=times,
        order=order if ratings.order is None else ratings.order[order],
    )
    keep = last_of_each_pair(users, items, times if source is not None else None)
    if keep is None:
        return ordered
    if source is not None:
        extra = len(keep) - int(np.count_nonzero(keep))
        warn_of_repeats(extra, len(keep), source, by_time=times is not None, by_position=by_position)
    return ordered.select(keep)


def warn_of_repeats(extra: int, ratings: int, source: str, *, by_time: bool, by_position: bool) -> None:
    """Count the ratings that repeat a pair; where they are most, and columns go by position, that is an error."""
    if by_position and extra > MOST_REPEATS * ratings:
        raise DataError(
            f"{extra} of {ratings} ratings repeat a user and item if the columns are user, item, rating in this "
            "order, as is usual without a header",
            "say which is which with user=..., item=... and rating=..., by position from 0",
            where=source,
        )
    by = "by time" if by_time else "by order"
    warnings.warn(
        f"{source}: {extra} of {ratings} ratings repeat a user and item; the latest {by} were kept",
        DuplicateRatingsWarning,
        stacklevel=6,
    )
