"""Several categories a cell, such as Comedy|Drama."""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cofill.data.features.columns import MISSING, Cells, Coded, ReadableColumn, Weighted, legible, misplaced
from cofill.data.features.kind import Learn, Summary
from cofill.data.features.kinds.category import Category, Choices, parse_category

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = ("|", ";", ", ")
# Lists in cells: how many cells are one, how long a part is, how many parts stand in other cells too.
LISTS_AT_LEAST = 0.05
LIST_PART_WORDS = 4.0
LIST_PARTS_REPEATED = 0.3


def parse_several(value: object, separator: str) -> tuple[str, ...]:
    """Categories without repetition: a cell such as Comedy|Drama, or a list of them."""
    parts = value.split(separator) if isinstance(value, str) else value
    if isinstance(parts, Weighted):
        raise misplaced(value, "a list of categories")
    named = (parse_category(part).strip() for part in (parts if isinstance(parts, (tuple, list)) else (parts,)))
    return tuple(dict.fromkeys(part for part in named if part not in MISSING))


class Several(Choices):
    """Things that do not exclude each other."""

    called: ClassVar[str] = "several"
    holds: ClassVar[str] = "categories"
    one: ClassVar[str] = Category.holds

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if all(isinstance(value, tuple) for value in column.distinct):
            return cls.learn if column.all_read(lambda value: parse_several(value, "|")) else None
        if not column.is_text():
            return None
        separator = next((mark for mark in SEPARATORS if _holds_lists(column, mark)), None)
        return None if separator is None else partial(cls.learn, separator=separator)

    @classmethod
    def told(cls, column: Coded) -> Learn:
        return partial(cls.learn, separator=max(SEPARATORS, key=lambda mark: _lists(column, mark)))

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int, separator: str = "|") -> Self:
        found = of.parsed(name, lambda value: parse_several(value, separator))
        return cls.chosen(name, of, {choice for each in found for choice in each}, separator, reduce_to)

    def parse(self, value: Any) -> tuple[str, ...]:
        return parse_several(value, self.separator)

    def words(self, of: Cells) -> ReadableColumn:
        found = of.parsed(self.name, lambda value: [legible(name) for name in self.parse(value)])
        return lists_in_words(found).taken(of.columns[self.name].codes)

    @property
    def belongs(self) -> str:
        return f"{self.holds} with {self.separator!r} between them"

    def suggested(self) -> str | None:
        return suggested_part(self.choices or self.terms or (), self.separator)

    @classmethod
    def types(cls) -> tuple[Any, ...]:
        import polars as pl

        return (pl.List(pl.String),)

    @classmethod
    def equal(cls, cells: "pl.Series", value: Any) -> "pl.Series":
        return cells.list.contains(cls.wanted(parse_category, value))

    @classmethod
    def summed_up(cls, cells: "pl.Series") -> Summary:
        return super().summed_up(cells.list.explode().drop_nulls())

    @classmethod
    def names_of(cls, cells: "pl.Series") -> list[str]:
        return super().names_of(cells.list.explode())

    @classmethod
    def shown(cls, cell: Any) -> Any:
        return cell.to_list()


def lists_in_words(found: "list[list[str]]") -> ReadableColumn:
    """Lists of categories or tags; an empty one is missing."""
    import polars as pl

    return ReadableColumn(Several.called, pl.Series([each or None for each in found], dtype=pl.List(pl.String)))


def suggested_part(parts: tuple[Any, ...], separator: str) -> str | None:
    """One of those that can stand between separators."""
    return next((part for part in map(str, parts) if part.isprintable() and separator not in part), None)


def _lists(column: Coded, separator: str) -> float:
    """The share of cells that have a separator."""
    return column.share(lambda value: isinstance(value, str) and separator in value)


def _holds_lists(column: Coded, separator: str) -> bool:
    """Whether cells are lists of categories. A text has commas as well, but its parts are long and differ."""
    if _lists(column, separator) < LISTS_AT_LEAST:
        return False
    found: Counter[str] = Counter()
    for value, count in zip(column.distinct, column.counts().tolist(), strict=True):
        for part in parse_several(value, separator):
            found[part] += count
    parts = max(found.total(), 1)
    length = sum(len(part.split()) * count for part, count in found.items()) / parts
    repeated = sum(count for count in found.values() if count > 1) / parts
    return length <= LIST_PART_WORDS and (separator == "|" or repeated >= LIST_PARTS_REPEATED)
