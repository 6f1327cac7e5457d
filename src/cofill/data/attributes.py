"""What items are in words: their genres, years and tags, to be shown and to be filtered by."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from cofill.data.features import cells as cells
from cofill.data.features.cells import Mismatch
from cofill.data.features.columns import HOLDS
from cofill.data.features.readable import (
    INT64,
    AttributeKind,
    ReadableColumn,
    as_kind,
    day_of,
    legible,
    written_number,
)
from cofill.data.origin import quoted
from cofill.data.vocabulary import Id, Indices, Vocabulary
from cofill.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from cofill.data.features import Features

Bools = npt.NDArray[np.bool_]
Scalar = str | int | float | bool | date
Value = Scalar | list[str] | None
"""Of a cell; None if it is missing."""
Condition = Scalar | Sequence[Scalar] | Mapping[str, Scalar | None]
"""A value, a list of which any will do, or the bounds {"min": ..., "max": ...}, one of them or both, inclusive."""
MOST_VALUES = 100


class AttributeColumn(NamedTuple):
    """One column that items are described by."""

    name: str
    kind: AttributeKind
    values: tuple[tuple[str | bool, int], ...] = ()
    """Of a category, several or a flag: what items have, and how many have it, the most frequent first."""
    low: int | float | date | None = None
    """The least and the greatest of a number or a date; None if all are missing."""
    high: int | float | date | None = None


class Attributes:
    """The readable cells of a model's items. It follows the vocabulary: of items that came later nothing is known."""

    def __init__(self, items: Vocabulary, columns: Mapping[str, ReadableColumn] | None = None) -> None:
        """`columns` are in the order of `items`; where they end, all is missing."""
        self._items = items
        self._columns = dict(columns or {})
        self._summary: list[AttributeColumn] | None = None

    @classmethod
    def of_features(cls, items: Vocabulary, features: "Features | None") -> "Attributes":
        """What the tables and tags among the features say."""
        return cls(items, features.readable_of(items) if features is not None else None)

    def __repr__(self) -> str:
        return f"Attributes({len(self._items)} items: {self._listed() or 'no columns'})"

    def columns(self) -> list[AttributeColumn]:
        """The columns, and what stands in them."""
        if self._summary is None:
            self._summary = [_summed_up(name, column) for name, column in self._columns.items()]
        return list(self._summary)

    def of(self, item: Id) -> dict[str, Value]:
        """What one item is: a value for each column, None where it is missing. UnknownIdError for unknown items."""
        index = self._items.index(item)
        return {name: _cell(column, index) for name, column in self._columns.items()}

    def matching(self, conditions: Mapping[str, Condition]) -> Bools:
        """(items,): which items meet all conditions; a cell that is missing meets none.

        Values may be written as text, as a command line or an address has them. A year stands for all of its days.
        Of a column that holds several, one that is wanted is enough; a text has to contain what is wanted, whether in
        upper or in lower case.
        """
        matching = np.ones(len(self._items), np.bool_)
        for name, condition in conditions.items():
            column = self._columns.get(name)
            if column is None:
                raise self._no_column(name)
            try:
                met = _met(column, condition)
            except Mismatch as problem:
                raise DataError(f"the filter, {quoted(name)}: {problem}; {problem.advice}") from problem
            matching[: len(met)] &= met
            matching[len(met) :] = False
        return matching

    def describe(self, indices: Indices, said: Mapping[str, ReadableColumn]) -> None:
        """What some items (n,) are from now on; what is not `said` of them stays. Columns never seen are left out."""
        if not len(indices):
            return
        for name, column in self._columns.items():
            if name in said:
                self._columns[name] = _changed(column, indices, said[name])
        self._summary = None

    def frame(self) -> "pl.DataFrame":
        """All of it in the order of the items, in columns that are called kind:name."""
        import polars as pl

        height = len(self._items)
        return pl.DataFrame(
            {
                f"{column.kind}:{name}": column.cells.extend_constant(None, height - len(column.cells))
                for name, column in self._columns.items()
            }
        )

    @classmethod
    def restored(cls, items: Vocabulary, frame: "pl.DataFrame") -> "Attributes":
        """The inverse of `frame`; ValueError if it is none of these items'."""
        columns: dict[str, Any] = {}
        for series in frame:
            kind, _, name = series.name.partition(":")
            if series.dtype not in _types().get(kind, ()) or name in columns:
                raise ValueError(f"attributes: there is a column {series.name!r} of type {series.dtype}")
            if series.dtype.is_float() and not series.drop_nulls().is_finite().all():
                raise ValueError(f"attributes: {name!r} has a number that is none")
            columns[name] = ReadableColumn(kind, series.alias(""))  # type: ignore[arg-type]
        if frame.height != len(items):
            raise ValueError(f"attributes: there are {frame.height} rows for {len(items)} items")
        return cls(items, columns)

    def _listed(self) -> str:
        return ", ".join(f"{quoted(name)} ({column.kind})" for name, column in self._columns.items())

    def _no_column(self, name: object) -> DataError:
        if not self._columns:
            return DataError(
                f"the filter: there is no column {quoted(name)}, nor any other, for nothing is known of the items but "
                "ratings; train the model with item_features=..., or leave the filter out"
            )
        near = difflib.get_close_matches(str(name), self._columns, 1)
        hint = f"did you mean {quoted(near[0])}? " if near else ""
        return DataError(f"the filter: there is no column {quoted(name)}; {hint}the columns are {self._listed()}")


def _types() -> dict[str, tuple[Any, ...]]:
    """What the cells of each kind may be."""
    import polars as pl

    types = (pl.Int64, pl.Float64), (pl.String,), (pl.List(pl.String),), (pl.Boolean,), (pl.Date,), (pl.String,)
    return dict(zip(get_args(AttributeKind), types, strict=True))


def _cell(column: ReadableColumn, index: int) -> Value:
    value = column.cells[index] if index < len(column.cells) else None
    return value.to_list() if column.kind == "several" and value is not None else value


def _changed(column: ReadableColumn, indices: Indices, said: ReadableColumn) -> ReadableColumn:
    """The column with other cells, or with more."""
    import polars as pl

    if not column.cells.count():  # nothing was said yet, not even whether days or years
        column = ReadableColumn(said.kind, column.cells.cast(said.cells.dtype))
    before, new = column.cells, as_kind(said, column.kind).cells
    if before.dtype != new.dtype:  # integers, of which one has a fraction from now on
        before, new = before.cast(pl.Float64), new.cast(pl.Float64)
    rows = np.full(max(len(before), int(indices.max()) + 1), -1)
    rows[: len(before)] = np.arange(len(before))
    rows[indices] = len(before) + np.arange(len(new))
    return ReadableColumn(column.kind, pl.concat([before, new])).taken(rows)


def _summed_up(name: str, column: ReadableColumn) -> AttributeColumn:
    there = column.cells.drop_nulls()
    if column.kind in ("number", "date"):
        low: Any = there.min()
        high: Any = there.max()
        return AttributeColumn(name, column.kind, low=low, high=high)
    if column.kind == "text":
        return AttributeColumn(name, column.kind)
    each = there.list.explode().drop_nulls() if column.kind == "several" else there
    found = each.alias("value").value_counts(name="count")
    counted = sorted(found.iter_rows(), key=lambda row: (-row[1], row[0]))
    return AttributeColumn(name, column.kind, tuple(counted[:MOST_VALUES]))


def _met(column: ReadableColumn, condition: object) -> Bools:
    """(n,): which cells meet a condition; Mismatch if it does not fit them."""
    if isinstance(condition, Mapping):
        return _within(column, condition)
    wanted = condition if isinstance(condition, (list, tuple, set, frozenset)) else [condition]
    met = np.zeros(len(column.cells), np.bool_)
    for value in wanted:
        met |= _filled(_equal(column, value))
    return met


def _equal(column: ReadableColumn, value: object) -> "pl.Series":
    cells_of, kind = column.cells, column.kind
    if isinstance(value, str):
        value = legible(value.strip())
    if kind == "date":
        first, last = _days(value)
        return cells_of.is_between(first, last)
    if kind == "number":
        return cells_of == _number(value)
    if kind == "flag":
        return cells_of == bool(_there(cells.flag, value, kind))
    if kind == "text":
        if not isinstance(value, str) or not value:
            raise _misfit(value, kind)
        return cells_of.str.to_lowercase().str.contains(value.lower(), literal=True)
    name = _there(cells.category, value, kind)
    return cells_of.list.contains(name) if kind == "several" else cells_of == name


def _within(column: ReadableColumn, bounds: Mapping[Any, object]) -> Bools:
    given = {key: bound for key, bound in bounds.items() if bound is not None}
    if column.kind not in ("number", "date") or not given or not bounds.keys() <= {"min", "max"}:
        raise _misfit(dict(bounds), column.kind)
    met = np.ones(len(column.cells), np.bool_)
    low: Any = None
    if "min" in given:
        low = _days(given["min"])[0] if column.kind == "date" else _number(given["min"])
        met &= _filled(column.cells >= low)
    if "max" in given:
        high: Any = _days(given["max"])[1] if column.kind == "date" else _number(given["max"])
        if low is not None and low > high:
            raise Mismatch(f"the min {quoted(given['min'])} is above the max {quoted(given['max'])}", "swap them")
        met &= _filled(column.cells <= high)
    return met


def _number(value: object) -> int | float:
    number: int | float = _there(written_number, value, "number")
    return number if INT64.min <= number <= INT64.max else float(number)


def _days(value: object) -> tuple[date, date]:
    """The first and the last day that a date or a year stands for."""
    moment = _there(lambda given: cells.moment(given, lenient=False), value, "date")
    if isinstance(moment, float) and moment.is_integer():
        return date(int(moment), 1, 1), date(int(moment), 12, 31)
    day = day_of(moment)
    return day, day


def _there(parse: Callable[[Any], Any], value: object, kind: AttributeKind) -> Any:
    """The value as a cell of that kind; what counts as missing there is no condition."""
    try:
        found = parse(value)
    except Mismatch:
        found = None
    if found is None:
        raise _misfit(value, kind)
    return found


def _misfit(value: object, kind: AttributeKind) -> Mismatch:
    holds = HOLDS["category" if kind == "several" else kind]
    takes = ", a list of values, or {'min': ..., 'max': ...}" if kind in ("number", "date") else " or a list of values"
    return Mismatch(f"found {quoted(value)} where {holds} belongs", f"a column of kind {kind} takes a value{takes}")


def _filled(met: "pl.Series") -> Bools:
    return met.fill_null(value=False).to_numpy().astype(np.bool_)
