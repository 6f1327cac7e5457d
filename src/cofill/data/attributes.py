"""Readable attributes of items (genres, years, tags), for display and for filters."""

import difflib
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from cofill.arrays import Bools, Ints
from cofill.data.features.columns import Mismatch, ReadableColumn
from cofill.data.features.lists import kind_called, readable_kinds
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, Place, UnknownValueError, quoted

if TYPE_CHECKING:
    from cofill.data.features import Features

Scalar = str | int | float | bool | date
Value = Scalar | list[str] | None
"""Of a cell; None if it is missing."""
Condition = Scalar | Sequence[Scalar] | Mapping[str, Scalar | None]
"""A value, a list of which any will do, or the bounds {"min": ..., "max": ...}, one of them or both, inclusive."""


class AttributeColumn(NamedTuple):
    """One column that items are described by."""

    name: str
    kind: str
    values: tuple[tuple[str | bool, int], ...] = ()
    """Of what can be listed, such as categories: what items have, and how many have it, the most frequent first."""
    low: int | float | date | None = None
    """The least and the greatest of what has an order, such as a number; None if all are missing."""
    high: int | float | date | None = None

    @property
    def ordered(self) -> bool:
        """Whether a filter on this column can have bounds."""
        return kind_called(self.kind).ordered


class Attributes:
    """The readable attributes of a model's items. Items added later have none until they are described."""

    def __init__(self, items: Vocabulary, columns: Mapping[str, ReadableColumn] | None = None) -> None:
        """`columns` are in the order of `items`; items beyond their end have no attributes."""
        self._items = items
        self._columns = dict(columns or {})
        self._summary: list[AttributeColumn] | None = None

    @classmethod
    def of_features(cls, items: Vocabulary, features: "Features | None") -> "Attributes":
        """Attributes from the tables and tags among the features."""
        return cls(items, features.readable_of(items) if features is not None else None)

    def __repr__(self) -> str:
        return f"Attributes({len(self._items)} items: {self._listed() or 'no columns'})"

    def columns(self) -> list[AttributeColumn]:
        """The columns, and a summary of their values."""
        if self._summary is None:
            self._summary = [
                AttributeColumn(name, kind, *kind_called(kind).summed_up(cells.drop_nulls()))
                for name, (kind, cells) in self._columns.items()
            ]
        return list(self._summary)

    def of(self, item: Id) -> dict[str, Value]:
        """The attributes of one item: a value for each column, None if missing. UnknownIdError for unknown items."""
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
                met = kind_called(column.kind).met(column.cells, condition)
            except Mismatch as problem:
                raise DataError(
                    str(problem), problem.remedy, where=Place("the filter", column=quoted(name))
                ) from problem
            matching[: len(met)] &= met
            matching[len(met) :] = False
        return matching

    def found(self, conditions: Mapping[str, Condition], *, names_only: bool = False) -> Bools:
        """As `matching`; an UnknownValueError about a value that no item has, which names the nearest one.

        Each name has to be there, such as a genre. Of numbers and dates one is enough, and none of them if
        `names_only`. Bounds and words of texts may find nothing.
        """
        matching = self.matching(conditions)
        for name, condition in conditions.items():
            kind, cells = kind_called(self._columns[name].kind), self._columns[name].cells
            if isinstance(condition, Mapping) or kind.searched or (kind.ordered and names_only):
                continue
            wanted = list(condition) if isinstance(condition, list | tuple | set | frozenset) else [condition]
            if len(wanted) == 1 and matching.any():
                continue
            absent = [value for value in wanted if not kind.met(cells, value).any()]
            if absent and (not kind.ordered or len(absent) == len(wanted)):
                where = Place("the filter", column=quoted(name))
                raise UnknownValueError(f"no item has {quoted(absent[0])}", kind.instead(cells, absent[0]), where=where)
        return matching

    def values_of(self, column: str, items: list[int]) -> list[tuple[object, ...]]:
        """What items, given by index, are by one column: a value, several where it holds several, none if missing."""
        found = self._columns.get(column)
        if found is None:
            raise self._no_column(column)
        described = len(found.cells)  # of those that came later nothing is known
        places = pl.Series([item if item < described else None for item in items], dtype=pl.Int64)
        cells = found.cells.gather(places).to_list()
        return [() if cell is None else tuple(cell) if isinstance(cell, list) else (cell,) for cell in cells]

    def describe(self, indices: Ints, said: Mapping[str, ReadableColumn]) -> None:
        """Replace attributes of items (n,); those not `said` stay. Unknown columns are ignored."""
        if not len(indices):
            return
        for name, column in self._columns.items():
            if name in said:
                self._columns[name] = _changed(column, indices, said[name])
        self._summary = None

    def frame(self) -> pl.DataFrame:
        """A frame of all attributes in the order of the items, with columns named kind:name."""
        height = len(self._items)
        return pl.DataFrame(
            {
                f"{column.kind}:{name}": column.cells.extend_constant(None, height - len(column.cells))
                for name, column in self._columns.items()
            }
        )

    @classmethod
    def restored(cls, items: Vocabulary, frame: pl.DataFrame) -> "Attributes":
        """The inverse of `frame`; ValueError if it does not fit these items."""
        types = {kind: kind_called(kind).types for kind in readable_kinds()}
        columns: dict[str, ReadableColumn] = {}
        for series in frame:
            kind, _, name = series.name.partition(":")
            if series.dtype not in types.get(kind, ()) or name in columns:
                raise ValueError(f"attributes: there is a column {series.name!r} of type {series.dtype}")
            if series.dtype.is_float() and not series.drop_nulls().is_finite().all():
                raise ValueError(f"attributes: {name!r} has a number that is none")
            columns[name] = ReadableColumn(kind, series.alias(""))
        if frame.height != len(items):
            raise ValueError(f"attributes: there are {frame.height} rows for {len(items)} items")
        return cls(items, columns)

    def _listed(self) -> str:
        return ", ".join(f"{quoted(name)} ({column.kind})" for name, column in self._columns.items())

    def _no_column(self, name: object) -> DataError:
        if not self._columns:
            return DataError(
                f"there is no column {quoted(name)}, nor any other, for nothing is known of the items but ratings",
                "train the model with item_features=..., or leave the filter out",
                where="the filter",
            )
        near = difflib.get_close_matches(str(name), self._columns, 1)
        hint = f"did you mean {quoted(near[0])}? " if near else ""
        return DataError(
            f"there is no column {quoted(name)}", f"{hint}the columns are {self._listed()}", where="the filter"
        )


def _cell(column: ReadableColumn, index: int) -> Value:
    cell = column.cells[index] if index < len(column.cells) else None
    return cell.to_list() if isinstance(cell, pl.Series) else cell


def _changed(column: ReadableColumn, indices: Ints, said: ReadableColumn) -> ReadableColumn:
    """The column with changed or added cells."""
    if not column.cells.count():  # nothing was said yet, not even whether days or years
        column = ReadableColumn(said.kind, column.cells.cast(said.cells.dtype))
    before, new = column.cells, kind_called(column.kind).converted(said.cells)
    if before.dtype != new.dtype:  # integers, of which one has a fraction from now on
        before, new = before.cast(pl.Float64), new.cast(pl.Float64)
    rows = np.full(max(len(before), int(indices.max()) + 1), -1)
    rows[: len(before)] = np.arange(len(before))
    rows[indices] = len(before) + np.arange(len(new))
    return ReadableColumn(column.kind, pl.concat([before, new])).taken(rows)
