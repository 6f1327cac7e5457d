"""All kinds of side information, and detection of a column's kind.

A new kind is a module with a subclass of `Kind`, and an entry in `KINDS`.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from cofill.data.columns import USUAL_NAMES, normalised
from cofill.data.features.columns import Cells, Coded, ReadableColumn
from cofill.data.features.kind import Kind, Learn
from cofill.data.features.kinds.category import Category
from cofill.data.features.kinds.date import Date
from cofill.data.features.kinds.flag import Flag
from cofill.data.features.kinds.image import Image
from cofill.data.features.kinds.links import Links
from cofill.data.features.kinds.number import MOST, Number
from cofill.data.features.kinds.several import Several
from cofill.data.features.kinds.tags import Tags
from cofill.data.features.kinds.text import Text
from cofill.data.features.kinds.vectors import Vectors
from cofill.data.features.source import WholeSource

TABLE = "table"
NAMES_AN_ADDRESS = re.compile(r"zip|postal|postcode|phone|e-?mail|url$|link$", re.IGNORECASE)


class Skip(Kind):
    """A column that is not used: URLs, ids of other catalogues, titles, and whatever fits no kind."""

    called: ClassVar[str] = "skip"
    holds: ClassVar[str] = "anything"
    used: ClassVar[bool] = False

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        useless = not column.distinct or NAMES_AN_ADDRESS.search(name) or column.share(_is_address) >= MOST
        return cls.learn if useless else None


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


# A column of a table is of the first kind that its cells fit.
KINDS: list[type[Kind]] = [Tags, Links, Image, Skip, Vectors, Flag, Date, Number, Several, Text, Category]


def kind_called(name: str) -> type[Kind]:
    """The kind of that name; ValueError if there is none."""
    for kind in KINDS:
        if kind.called == name:
            return kind
    raise ValueError(f"there is no kind {name!r}; the kinds are {', '.join(kind.called for kind in KINDS)}")


def column_kinds() -> tuple[str, ...]:
    """The kinds that a column of a table can be of."""
    return tuple(kind.called for kind in KINDS if kind.in_tables)


def whole_sources() -> dict[str, type[WholeSource]]:
    """The kinds that take a whole source, not a column of a table."""
    return {kind.called: kind for kind in KINDS if issubclass(kind, WholeSource)}


def source_kinds() -> tuple[str, ...]:
    """What a source can be: a table, or of a kind that has whole sources."""
    return (TABLE, *whole_sources())


def readable_kinds() -> tuple[str, ...]:
    """The kinds that cells in words can be of, which are those that lists can be filtered by."""
    return tuple(kind.called for kind in KINDS if kind.types())


def judged(name: str, column: Coded) -> Learn:
    """Detect how to learn a column whose kind was not given; a constant column, or one of no kind, is skipped."""
    for kind in KINDS:
        learn = kind.fits(name, column)
        if learn is not None:
            return learn
    return Skip.learn


def restored(card: Mapping[str, Any]) -> Kind:
    """The column that has this card; ValueError if it has none."""
    return kind_called(card["kind"]).model_validate(card)


def in_words(columns: tuple[Kind, ...], of: Cells) -> dict[str, ReadableColumn]:
    """The columns that people can read, of those that `of` has; titles are kept elsewhere, apart from their years."""
    titles = [column for column in columns if normalised(column.name) in USUAL_NAMES["title"]]
    found = {column.name: column.words(of) for column in columns if column.name in of.columns and column not in titles}
    own = {column.name for column in columns}
    for title in titles:
        if title.name in of.columns:
            found |= {name: words for name, words in title.also_in_words(of).items() if name not in own}
    return {name: words for name, words in found.items() if words is not None}
