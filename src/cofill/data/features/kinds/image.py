"""Pictures: addresses that a page shows, and that nothing is learned from."""

from typing import TYPE_CHECKING, Any, ClassVar

from cofill.data.columns import normalised
from cofill.data.features.columns import Cells, Coded, ReadableColumn, legible, misplaced
from cofill.data.features.kind import Kind, Learn, Summary
from cofill.data.features.kinds.number import MOST

if TYPE_CHECKING:
    import polars as pl

NAMES = frozenset({"image", "imageurl", "cover", "coverurl", "picture", "pictureurl", "poster", "posterurl"})
BEGINNINGS = ("https://", "http://", "data:image/", "/")


def parse_image(value: object) -> str:
    """The address of a picture: on the web, on the server itself, or the picture itself (`data:image/...`)."""
    if not isinstance(value, str) or not value.startswith(BEGINNINGS):
        raise misplaced(value, "the address of a picture")
    return value


class Image(Kind):
    """A picture of an item, such as a poster or a cover, by its address."""

    called: ClassVar[str] = "image"
    holds: ClassVar[str] = "the address of a picture"
    used: ClassVar[bool] = False

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        named = normalised(name) in NAMES and bool(column.distinct)
        return cls.learn if named and column.share(_is_image) >= MOST else None

    def words(self, of: Cells) -> ReadableColumn:
        import polars as pl

        found = [legible(value) if _is_image(value) else None for value in of.columns[self.name].distinct]
        return ReadableColumn(self.called, pl.Series(found, dtype=pl.String)).taken(of.columns[self.name].codes)

    @classmethod
    def types(cls) -> tuple[Any, ...]:
        import polars as pl

        return (pl.String,)

    @classmethod
    def equal(cls, cells: "pl.Series", value: Any) -> "pl.Series":
        met: pl.Series = cells == cls.wanted(parse_image, value)
        return met

    @classmethod
    def summed_up(cls, cells: "pl.Series") -> Summary:
        return Summary()


def _is_image(value: object) -> bool:
    return isinstance(value, str) and value.startswith(BEGINNINGS)
