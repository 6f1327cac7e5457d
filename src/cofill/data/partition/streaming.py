"""Ratings or interactions of a source that is never whole in memory, decided as if it were.

What a whole file decides (decimal commas, how times are written, whether ratings are all the same) is assumed from the
pieces seen so far and checked at the end; if it was wrong, the source is read once more, with what is known by then. A
bad cell is told only when all pieces have passed by: the error is that of the whole file, which has its checks in an
order of their own, and bad lines that the caller lets go are left out of the next reading.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from cofill.data import cells
from cofill.data.cells import BadCellsError, CommaUse, Origin, TimeForm, TimeUse
from cofill.data.delimited import too_many
from cofill.data.interaction_columns import EitherColumns, InteractionColumns
from cofill.data.interactions import (
    all_the_same_note,
    checked_weights,
    first_events,
    interactions_note,
    none_left,
    refuse_others,
    refuse_unweighted,
)
from cofill.data.layout import TextOptions
from cofill.data.pieces import PIECE_BYTES, PIECE_ROWS, CutOtherwise, Cutting, Source
from cofill.data.ratings import (
    FEW_LINES,
    Times,
    ZeroMeans,
    check_reading,
    only_zeros,
    refuse_unknown_alone,
    warn_of_skipped,
    zeros_in,
)
from cofill.data.roles import Given, Wanted
from cofill.data.table import Table
from cofill.data.wide import read_wide
from cofill.errors import DataError, Place

if TYPE_CHECKING:
    import polars as pl

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
EVENT_CHECKS = 10  # come after those of the counts beside them


@dataclass(frozen=True)
class Reading:
    """How a source is read: the arguments of `read_ratings_or_interactions`."""

    user: str | int | None = None
    item: str | int | None = None
    rating: str | int | None = None
    count: str | int | None = None
    event: str | int | None = None
    time: str | int | None = None
    title: str | int | None = None
    event_weights: Mapping[str, float] | None = None
    separator: str | None = None
    header: bool | None = None
    encoding: str = "utf-8"
    scale: tuple[float, float] | None = None
    wide: bool = False
    unknown: float | None = None
    zero_means: ZeroMeans | None = None
    skip_bad_lines: int = 0

    @property
    def said(self) -> Literal["ratings", "interactions"] | None:
        """What the caller says that the source holds; None: its columns tell."""
        if self.rating not in (None, "") or self.wide or self.unknown is not None:
            return "ratings"
        of_interactions = any(value is not None for value in self._of_interactions.values())
        return "interactions" if self.rating == "" or of_interactions else None

    @property
    def _of_interactions(self) -> dict[str, Any]:
        return {"count": self.count, "event": self.event, "event_weights": self.event_weights or None}

    @property
    def _of_ratings(self) -> dict[str, Any]:
        wide = self.wide or None
        return {"scale": self.scale, "wide": wide, "unknown": self.unknown, "zero_means": self.zero_means}

    def wanted(self) -> Wanted:
        """The columns that the source must have; DataError for arguments that do not go together."""
        check_reading(self.skip_bad_lines, self.zero_means)
        either: Given = {"user": self.user, "item": self.item, "time": self.time, "title": self.title}
        if self.said == "ratings":
            refuse_others(self._of_interactions, "ratings have no counts and events")
            refuse_unknown_alone(self.unknown, self.wide)
            return Wanted({**either, "rating": None if self.rating == "" else self.rating})
        if self.said == "interactions":
            refuse_others(self._of_ratings, "interactions have no ratings")
            return InteractionColumns({**either, "count": self.count, "event": self.event})
        return EitherColumns(either)

    def refuse_for_interactions(self, why: str, source: str) -> None:
        """DataError if something is said of ratings, while the columns tell that there are none."""
        refuse_others(self._of_ratings, why, source)

    def source(self, path: Path, piece_bytes: int = PIECE_BYTES, piece_rows: int = PIECE_ROWS) -> Source:
        """The source at `path`, to be read so, in pieces of about that size."""
        wanted = self.wanted()
        options = TextOptions(self.separator, self.header, self.encoding, self.skip_bad_lines)
        whole = partial(read_wide, path, wanted.given, self.unknown, options) if self.wide else None
        return Source(path, wanted, options, whole, piece_bytes, piece_rows)


def refuse_pipe(path: Path) -> None:
    """DataError for what can be read once at most: what is assumed of the beginning may have to be corrected."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(
            "a pipe or a device, not a file, and it may have to be read more than once",
            "write its content into a file first, and pass that",
            where=str(path),
        )


@dataclass(frozen=True)
class Chunk:
    """What was read from one piece."""

    users: "pl.Series"
    """(n,): ids, integers or strings; in a text, whole numbers here may be strings elsewhere."""
    items: "pl.Series"
    values: Floats
    times: Times | None
    titles: "pl.Series | None"
    origin: Origin


class Taker(Protocol):
    """Where the chunks go."""

    def begin(self) -> None:
        """Forget what has been taken: it comes again."""

    def take(self, chunk: Chunk) -> None: ...


@dataclass(frozen=True)
class Streamed:
    """What the whole of a source turned out to be."""

    name: str
    count: int
    """How many ratings were taken, those that repeat a pair included."""
    rated: bool
    by_position: bool
    """Whether nobody has said which column is which."""
    low: float
    high: float
    zeros: int
    limits: tuple[float, float] | None
    one_each: bool
    """Whether each counts 1, whatever its value: the ratings were all the same, and so are interactions."""
    again: Callable[[], Iterator[Chunk]]
    """Reads it once more."""


@dataclass(frozen=True)
class _Decided:
    """What is known of the whole before a reading; None: it is assumed from what has been seen."""

    cutting: Cutting = field(default_factory=Cutting)
    decimal: bool | None = None
    zero_decimal: bool | None = None
    form: TimeForm | None = None
    removed: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Bad lines that are left out, by source."""


def stream(source: Source, reading: Reading, taker: Taker, progress: Callable[[float], None]) -> Streamed:
    """Read all of a source, and hand it on chunk by chunk; warnings and errors are those of the whole."""
    decided, seen = _Decided(), False
    while True:
        taker.begin()
        passing = _Passing(source, reading, decided, silent=seen)
        try:
            for piece in source.pieces(decided.cutting):
                chunk, seen = passing.read(piece.table), True
                if chunk is not None:
                    taker.take(chunk)
                progress(piece.share)
        except CutOtherwise as otherwise:
            decided = replace(decided, cutting=otherwise.cutting)
            continue
        corrected = passing.corrected()
        if corrected is None:
            return passing.streamed()
        decided = corrected


@dataclass
class _Trouble:
    """The bad cells of the check that comes first, of all that have found any."""

    rank: tuple[int, float]
    error: DataError
    count: int = 0
    lines: dict[str, set[int]] = field(default_factory=dict)


class _Assumed:
    """What is assumed of a column in one reading, and whether that was right."""

    def __init__(self) -> None:
        self.commas, self.zero_commas, self.times = CommaUse(), CommaUse(), TimeUse()
        self.told_decimal: set[bool] = set()
        self.told_zero_decimal: set[bool] = set()
        self.told_form: set[TimeForm] = set()


class _Passing:
    """One reading of a source."""

    def __init__(self, source: Source, reading: Reading, decided: _Decided, *, silent: bool) -> None:
        """`silent`: what its columns are has been said before."""
        self._source, self._reading, self._decided, self._silent = source, reading, decided, silent
        self._limits = None if reading.scale is None else cells.checked_scale(reading.scale)
        self._weights = checked_weights(reading.event_weights) if reading.event_weights else None
        self._assumed = _Assumed()
        self._events: dict[str, Place] = {}  # where each was found first
        self._trouble: _Trouble | None = None
        self._first: Table | None = None
        self._lines = self._weighted = self._taken = self._zeros = 0
        self._low, self._high = math.inf, -math.inf

    # Piece by piece

    def read(self, table: Table) -> Chunk | None:
        """The ratings of one piece; None if there are none, or if something is wrong and is told later."""
        if self._first is None:
            self._first = table
            self._judge(table)
        if gone := self._decided.removed.get(table.origin.name):
            lines = [table.origin.line(row) for row in range(table.height)]
            table = table.only(np.array([line not in gone for line in lines], np.bool_))
        self._lines += table.height
        if self._weights is not None:
            table = self._with_weighted_events(table)
        self._weighted += table.height
        if self._reading.zero_means == "unrated" and table.height:
            table = self._without_zeros(table)
        self._taken += table.height
        if not table.height:
            return None
        columns, origin = {role: table.series(role) for role in table.names}, table.origin
        rank = 0
        try:
            values = self._values(columns, origin)
            rank = 1
            times = self._times(columns["time"], origin) if "time" in columns else None
            rank = 2
            users = _id_series(cells.ids(columns["user"], "user", origin, text=table.text))
            rank = 3
            items = _id_series(cells.ids(columns["item"], "item", origin, text=table.text))
        except DataError as error:
            self._note(rank, error, origin)
            return None
        self._low, self._high = min(self._low, float(values.min())), max(self._high, float(values.max()))
        self._zeros += int(np.count_nonzero(values == 0))
        return Chunk(users, items, values, times, columns.get("title"), origin)

    def _judge(self, table: Table) -> None:
        """Say once whether the columns are those of interactions, if nobody has said so."""
        if self._reading.said is None and "rating" not in table.names:
            self._reading.refuse_for_interactions(self._interactions_found, str(self._source.path))
            if not self._silent:
                interactions_note(self._interactions_found, str(self._source.path))

    def _values(self, columns: "Mapping[str, pl.Series]", origin: Origin) -> Floats:
        if "rating" in columns:
            return cells.ratings(columns["rating"], origin, self._limits, self._decimal(columns["rating"]))
        counts = np.ones(len(columns["user"]), np.float32)
        if "count" in columns:
            counts = cells.counts(columns["count"], origin, self._decimal(columns["count"]))
        if "event" not in columns:
            return counts
        try:
            events = cells.events(columns["event"], origin)
        except BadCellsError as error:
            error.order += EVENT_CHECKS
            raise
        if self._weights is None:
            return counts
        of_events = events.replace_strict(list(self._weights), list(self._weights.values()), default=1.0)
        return np.asarray(counts * of_events.to_numpy(), np.float32)

    def _decimal(self, column: "pl.Series") -> bool | None:
        """Whether commas are decimal commas; None if that is no question."""
        assumed = self._assumed
        return _assumption(column, assumed.commas, self._decided.decimal, assumed.told_decimal)

    def _times(self, column: "pl.Series", origin: Origin) -> Times:
        import polars as pl

        form = None
        if column.dtype == pl.String:
            self._assumed.times.see(column)
            form = self._decided.form or self._assumed.times.form
            self._assumed.told_form.add(form)
        return cells.times(column, origin, form)

    def _with_weighted_events(self, table: Table) -> Table:
        """The lines whose event counts; those without a weight are told of when all have passed by."""
        weights = self._weights
        assert weights is not None
        self._events |= first_events(table, self._events)
        events = cells.words(table.series("event"))
        out = [event for event, weight in weights.items() if weight == 0]
        left_out = events.is_in(out).fill_null(False).to_numpy()
        return table.only(~left_out) if left_out.any() else table

    def _without_zeros(self, table: Table) -> Table:
        column, assumed = table.series("rating"), self._assumed
        decimal = _assumption(column, assumed.zero_commas, self._decided.zero_decimal, assumed.told_zero_decimal)
        zero = zeros_in(column, decimal)
        return table.only(~zero) if zero.any() else table

    def _note(self, role: int, error: DataError, origin: Origin) -> None:
        """Keep the error, if its check comes before those of all errors so far."""
        bad = error if isinstance(error, BadCellsError) else None
        rank = (role, 0.5 if bad is None else float(bad.order))  # what is wrong with a whole column: after empty cells
        if self._trouble is None or rank < self._trouble.rank:
            self._trouble = _Trouble(rank, error)
        if bad is not None and rank == self._trouble.rank:
            trouble = self._trouble
            rows = np.flatnonzero(bad.rows)
            trouble.count += len(rows)
            if trouble.count <= self._reading.skip_bad_lines:
                trouble.lines.setdefault(origin.name, set()).update(origin.line(int(row)) for row in rows)

    # At the end

    def corrected(self) -> _Decided | None:
        """What the next reading has to know; None if this one was right. DataError if the source is."""
        decided, assumed, name = self._decided, self._assumed, str(self._source.path)
        if self._weights is not None:
            refuse_unweighted(self._events, self._weights)
            if not self._weighted:
                raise none_left(self._events, name)
        if assumed.told_zero_decimal - {assumed.zero_commas.decimal}:
            return replace(decided, zero_decimal=assumed.zero_commas.decimal)
        if self._reading.zero_means == "unrated" and not self._taken:
            raise only_zeros(self._weighted, name)
        if assumed.told_decimal - {assumed.commas.decimal}:
            return replace(decided, decimal=assumed.commas.decimal)
        values_wrong = self._trouble is not None and self._trouble.rank[0] == 0
        if not values_wrong and assumed.told_form - {assumed.times.form}:
            return replace(decided, form=assumed.times.form)
        return None if self._trouble is None else self._without(self._trouble)

    def _without(self, trouble: _Trouble) -> _Decided:
        """The next reading leaves out these lines, if the caller lets them go."""
        skip = self._reading.skip_bad_lines
        bad = len(self._skipped()) + trouble.count
        if not skip or not trouble.count or trouble.count == self._taken:
            raise trouble.error
        if bad > skip:
            raise too_many(trouble.error, bad) from trouble.error
        removed = {
            name: self._decided.removed.get(name, frozenset()) | trouble.lines.get(name, set())
            for name in {*self._decided.removed, *trouble.lines}
        }
        return _Decided(self._decided.cutting, removed=removed)

    def _skipped(self) -> list[int]:
        gone = [line for lines in self._decided.removed.values() for line in lines]
        return sorted([*self._source.skipped, *gone])

    @property
    def _interactions_found(self) -> str:
        reasons = self._source.wanted.reasons if isinstance(self._source.wanted, EitherColumns) else []
        found = reasons[0] if reasons else "there are no ratings beside users and items"
        return f"interactions, not ratings: {found}"

    def streamed(self) -> Streamed:
        """What the source is, and warnings about it."""
        first, name, said = self._first, str(self._source.path), self._reading.said
        assert first is not None
        rated = "rating" in first.names
        same = rated and said is None and self._limits is None and self._low == self._high and self._taken >= FEW_LINES
        if same:
            all_the_same_note(self._taken, self._low, name)
        unit = first.origin.unit
        what = "ratings" if rated and not same else "lines" if unit == "line" else "rows"
        warn_of_skipped(self._skipped(), replace(first.origin, name=name), f"{self._taken:,} {what} are left")
        unsaid = self._reading.user is None and self._reading.item is None and not self._reading.wide
        return Streamed(
            name,
            self._taken,
            rated and not same,
            first.text and not first.headed and unsaid,
            self._low,
            self._high,
            self._zeros,
            self._limits,
            same,
            partial(_read_again, self._source, self._reading, self._decided),
        )


def _read_again(source: Source, reading: Reading, decided: _Decided) -> Iterator[Chunk]:
    passing = _Passing(source, reading, decided, silent=True)
    for piece in source.pieces(decided.cutting):
        if (chunk := passing.read(piece.table)) is not None:
            yield chunk


def _assumption(column: "pl.Series", seen: CommaUse, decided: bool | None, told: set[bool]) -> bool | None:
    """Whether commas are decimal commas: as decided, or as all cells tell that have been seen so far."""
    import polars as pl

    if column.dtype != pl.String:
        return None
    if not seen.points:  # else nothing changes any more
        seen.see(column)
    answer = seen.decimal if decided is None else decided
    if seen.commas:
        told.add(answer)
    return answer


def _id_series(ids: "npt.NDArray[np.int64] | pl.Series") -> "pl.Series":
    import polars as pl

    return pl.Series(ids) if isinstance(ids, np.ndarray) else ids
