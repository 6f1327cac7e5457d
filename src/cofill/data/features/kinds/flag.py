"""Flags: yes or no."""

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from cofill.arrays import Doubles
from cofill.data.features.columns import Cells, Coded, Mismatch, ReadableColumn, misplaced
from cofill.data.features.kind import Kind, Learn
from cofill.data.features.kinds.category import parse_category

if TYPE_CHECKING:
    import polars as pl

FLAGS = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}
PAIRS = ({"0", "1"}, {"false", "true"}, {"no", "yes"})


def parse_flag(value: object) -> float | None:
    """0 or 1; None for NA."""
    if isinstance(value, str) and value.upper() == "NA":
        return None
    key = _plain(value)
    if key not in FLAGS:
        raise misplaced(value, "0 or 1, true or false, yes or no")
    return FLAGS[key]


class Flag(Kind):
    """Yes or no."""

    called: ClassVar[str] = "flag"
    holds: ClassVar[str] = "yes or no"

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        found: set[str] = set()
        for value in column.distinct:
            found.add(_plain_or_none(value))
            if len(found) > 2:
                return None
        return cls.learn if found in PAIRS else None

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int) -> Self:
        of.parsed(name, parse_flag)
        return super().learn(name, of, reduce_to)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def numbers(self, value: Any) -> Doubles:
        return np.array([parse_flag(value) or 0.0])

    def words(self, of: Cells) -> ReadableColumn:
        import polars as pl

        found = [None if flag is None else bool(flag) for flag in of.parsed(self.name, parse_flag)]
        return ReadableColumn(self.called, pl.Series(found, dtype=pl.Boolean)).taken(of.columns[self.name].codes)

    def suggested(self) -> str:
        return "yes"

    @classmethod
    def types(cls) -> tuple[Any, ...]:
        import polars as pl

        return (pl.Boolean,)

    @classmethod
    def equal(cls, cells: "pl.Series", value: Any) -> "pl.Series":
        return cells == bool(cls.wanted(parse_flag, value))


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, (bool, str)) else parse_category(value)


def _plain_or_none(value: object) -> str:
    try:
        return _plain(value)
    except Mismatch:
        return ""
