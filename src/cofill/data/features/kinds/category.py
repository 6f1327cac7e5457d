"""Categories: one a cell. Each has a feature column of its own; too many of them are reduced, as texts are."""

import difflib
from abc import abstractmethod
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, StrictStr

from cofill.arrays import Doubles
from cofill.data.columns import USUAL_NAMES, normalised
from cofill.data.features.columns import Cells, Coded, Mismatch, ReadableColumn, legible, misplaced
from cofill.data.features.kind import Learn, TermKind
from cofill.data.features.kinds.number import are_foreign_ids
from cofill.errors import quoted

if TYPE_CHECKING:
    import polars as pl

LISTED = 10


def parse_category(value: object) -> str:
    """The name of a category: 3, 3.0 and "3" are the same."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (str, int, float, Decimal, date)):
        return str(value)
    raise misplaced(value, "one category")


class Choices(TermKind):
    """A kind whose cells name categories, one or more."""

    separator: Annotated[StrictStr, Field(min_length=1)] = "|"
    """Between the categories of a cell, where it can have several."""
    choices: tuple[StrictStr, ...] = ()
    """The categories that have a feature column each."""

    @abstractmethod
    def parse(self, value: Any) -> tuple[str, ...]:
        """The categories of one cell."""

    @classmethod
    def chosen(cls, name: str, of: Cells, choices: set[str], separator: str, reduce_to: int) -> Self:
        """What is learned of a column with these categories; the terms are yet to be chosen if there are many."""
        about = cls.seen(name, of) | {"distinct": len(choices), "separator": separator}
        return cls(**about, terms=()) if len(choices) > reduce_to else cls(**about, choices=tuple(sorted(choices)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={choice}" for choice in self.choices)

    @property
    def categories(self) -> tuple[str, ...]:
        return self.choices

    @property
    def suggestions(self) -> tuple[str, ...]:
        return self.choices or tuple(map(str, self.terms or ()))

    def numbers(self, value: Any) -> Doubles:
        hot = np.zeros(len(self.choices))
        hot[[self._place(name) for name in self.parse(value)]] = 1.0
        return hot

    def counted(self, value: Any) -> dict[Any, float]:
        return dict.fromkeys(self.parse(value), 1.0)

    @cached_property
    def _place_of_choice(self) -> dict[str, int]:
        return {choice: place for place, choice in enumerate(self.choices)}

    def _place(self, name: str) -> int:
        if name not in self._place_of_choice:
            near = difflib.get_close_matches(name, self.choices, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            known = ", ".join(quoted(choice) for choice in self.choices[:LISTED])
            more = f" and {len(self.choices) - LISTED} more" if len(self.choices) > LISTED else ""
            raise Mismatch(f"found the unknown category {quoted(name)}", f"{hint}known are {known}{more}")
        return self._place_of_choice[name]


class Category(Choices):
    """One of several things that exclude each other."""

    called: ClassVar[str] = "category"
    holds: ClassVar[str] = "one category"

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if are_foreign_ids(name, column):
            return None
        if not column.is_text():
            return cls.learn if column.all_read(parse_category) else None
        return None if column.nearly_all_differ() or normalised(name) in USUAL_NAMES["title"] else cls.learn

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int) -> Self:
        return cls.chosen(name, of, set(of.parsed(name, parse_category)), "|", reduce_to)

    def parse(self, value: Any) -> tuple[str, ...]:
        return (parse_category(value),)

    def words(self, of: Cells) -> ReadableColumn:
        import polars as pl

        found = of.parsed(self.name, lambda value: legible(parse_category(value)))
        return ReadableColumn(self.called, pl.Series(found, dtype=pl.String)).taken(of.columns[self.name].codes)

    def suggested(self) -> str | None:
        return next((name for name in map(str, self.choices or self.terms or ()) if name.isprintable()), None)

    @classmethod
    def types(cls) -> tuple[Any, ...]:
        import polars as pl

        return (pl.String,)

    @classmethod
    def equal(cls, cells: "pl.Series", value: Any) -> "pl.Series":
        met: pl.Series = cells == cls.wanted(parse_category, value)
        return met
