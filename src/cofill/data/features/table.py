"""The cells of a source as they were found, before anything is known about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cofill.data import cells
from cofill.data.origin import Origin, quoted
from cofill.data.reading import series_of
from cofill.data.vocabulary import Id
from cofill.errors import DataError


@dataclass(frozen=True)
class RawTable:
    """All cells of a source as they were found."""

    names: tuple[str, ...]
    columns: tuple[Sequence[object], ...]
    origin: Origin
    text: bool
    """Whether all cells are text, so that ids may be integers written as text."""
    headed: bool
    """Whether the names are the source's own."""

    @property
    def height(self) -> int:
        return len(self.columns[0])

    @property
    def label(self) -> str:
        """The source as a report calls it: a file without its folders."""
        return Path(self.origin.name).name if self.origin.unit == "line" or "/" in self.origin.name else "table"

    def error(self, row: int, column: str, problem: str, advice: str) -> DataError:
        """The error about one cell."""
        return self.origin.line_error(self.origin.line(row), f"column {quoted(column)}: {problem}", advice)

    def ids(self, *positions: int) -> list[list[Id]]:
        """The ids in some columns: integers if all of them are, or are written so in a text; else strings."""
        import polars as pl

        found = []
        for position in positions:
            origin = Origin(
                *(self.origin.name, self.origin.unit, self.origin.first, self.origin.lines),
                labels={"item": f"column {quoted(self.names[position])}"},
            )
            series = series_of(self.columns[position], "item", origin)
            read = cells.ids(series, "item", origin, text=self.text)
            found.append((series, read))
        if all(isinstance(read, np.ndarray) for _, read in found):
            return [read.tolist() for _, read in found if isinstance(read, np.ndarray)]
        return [series.cast(pl.String).to_list() for series, _ in found]

    def position(self, column: str | int, keyword: str) -> int:
        """Where a column stands that the caller names, or whose position from 0 is given."""
        if isinstance(column, int):
            if not 0 <= column < len(self.names):
                raise DataError(
                    f"{self.origin.name}: {keyword}={column} is not a column; there are {len(self.names)}: "
                    f"give 0 to {len(self.names) - 1}"
                )
            return column
        if column in self.names:
            return self.names.index(column)
        listed = ", ".join(quoted(name) for name in self.names[:12])
        raise DataError(
            f"{self.origin.name}: there is no column {column!r}; found {listed}; pass one of them as {keyword}=..."
        )
