"""What tables and tags say in words: their cells as people read them, before they become numbers for a model."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.features import cells as cells
from cofill.data.features.cells import Cells
from cofill.data.features.columns import Column
from cofill.data.roles import USUAL_NAMES, normalised

if TYPE_CHECKING:
    import polars as pl

    from cofill.data.features.source import Matrix

AttributeKind = Literal["number", "category", "several", "flag", "date", "text"]
LONGEST_TEXT = 500
# Of tags that are counted or weighed, an id may have a thousand.
MOST_TAGS = 50
INT64 = np.iinfo(np.int64)
# Of a day that was written as a decimal year.
ROUNDING = 1e-3


class ReadableColumn(NamedTuple):
    """The cells of one column, null where one is missing."""

    kind: AttributeKind
    cells: "pl.Series"
    """Int64 or Float64, String, List(String), Boolean, Date or String, by kind."""

    def taken(self, rows: npt.NDArray[np.integer[Any]]) -> "ReadableColumn":
        """The cells of some rows, in that order; null for -1."""
        import polars as pl

        wanted = pl.Series(rows.astype(np.int64))
        return self._replace(cells=self.cells.gather(wanted.set(wanted < 0, None)))


def readable(columns: Iterable[Column], of: Cells) -> dict[str, ReadableColumn]:
    """The columns that can be read, of those that `of` has: no links, vectors, titles, nor what was skipped."""
    return {
        column.name: _read(column, of)
        for column in columns
        if column.name in of.columns
        and column.kind not in ("skip", "links", "vectors")
        and normalised(column.name) not in USUAL_NAMES["title"]
    }


def readable_tags(terms: Sequence[str], counts: "Matrix") -> ReadableColumn:
    """Of each row of counts (ids, terms) the tags that are counted most, the most counted first."""
    import polars as pl

    rows = []
    for begin, end in zip(counts.indptr[:-1].tolist(), counts.indptr[1:].tolist(), strict=True):
        order = np.lexsort((counts.indices[begin:end], -counts.data[begin:end]))[:MOST_TAGS]
        rows.append([legible(terms[term]) for term in counts.indices[begin:end][order].tolist()] or None)
    return ReadableColumn("several", pl.Series(rows, dtype=pl.List(pl.String)))


def as_kind(column: ReadableColumn, kind: AttributeKind) -> ReadableColumn:
    """A column of bare years beside one of days, or the other way round, becomes what the other is."""
    import polars as pl

    if column.kind == kind:
        return column
    if kind == "number":
        return ReadableColumn(kind, column.cells.dt.year().cast(pl.Int64))
    days = [None if year is None else day_of(float(year)) for year in column.cells.to_list()]
    return ReadableColumn(kind, pl.Series(days, dtype=pl.Date))


def _read(column: Column, of: Cells) -> ReadableColumn:
    import polars as pl

    kind: AttributeKind
    found: list[Any]
    dtype: Any = pl.String
    if column.kind == "date" and not column.lenient:
        found = of.parsed(column.name, lambda value: cells.moment(value, lenient=False))
        if any(isinstance(moment, date) for moment in found):
            kind, found, dtype = "date", [None if moment is None else day_of(moment) for moment in found], pl.Date
        else:
            kind, (found, dtype) = "number", _numbers(found)
    elif column.kind == "number":
        kind, (found, dtype) = "number", _numbers(of.parsed(column.name, written_number))
    elif column.kind == "flag":
        found = of.parsed(column.name, cells.flag)
        kind, found, dtype = "flag", [None if flag is None else bool(flag) for flag in found], pl.Boolean
    elif column.kind in ("several", "tags"):
        read: Callable[[Any], Sequence[str]] = (
            _tags if column.kind == "tags" else lambda value: cells.several(value, column.separator)
        )
        named = of.parsed(column.name, lambda value: [legible(name) for name in read(value)] or None)
        kind, found, dtype = "several", named, pl.List(pl.String)
    elif column.kind == "category":
        kind, found = "category", of.parsed(column.name, lambda value: legible(cells.category(value)))
    else:  # a text, or titles with their years
        kind, found = "text", of.parsed(column.name, lambda value: legible(str(value)[:LONGEST_TEXT]))
    distinct = ReadableColumn(kind, pl.Series(found, dtype=dtype))
    return distinct.taken(of.columns[column.name].codes)


def written_number(value: object) -> float | int | None:
    """As it is written: an integer of any size is one."""
    found = cells.number(value)
    if found is None or isinstance(value, int):
        return value if isinstance(value, int) else None
    try:
        return int(value) if isinstance(value, str) else found
    except ValueError:
        return found


def _numbers(found: Sequence[float | int | None]) -> tuple[list[Any], Any]:
    """Integers if all of them are whole, and the type of the column."""
    import polars as pl

    whole = all(
        number is None or (float(number).is_integer() and INT64.min <= int(number) <= INT64.max) for number in found
    )
    make = int if whole else float
    return [None if number is None else make(number) for number in found], pl.Int64 if whole else pl.Float64


def day_of(moment: float | date) -> date:
    """The day of a date, or that at which a decimal year stands."""
    if isinstance(moment, date):
        return moment.date() if isinstance(moment, datetime) else moment
    year = int(moment)
    return date(year, 1, 1) + timedelta(days=int((moment - year) * cells.days_of(year) + ROUNDING))


def _tags(value: object) -> Sequence[str]:
    counts = cells.tags(value)
    return sorted(counts, key=lambda tag: (-counts[tag], tag))[:MOST_TAGS]


def legible(text: str) -> str:
    """A text that can be written to a file: halves of characters, which JSON can have, are question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
