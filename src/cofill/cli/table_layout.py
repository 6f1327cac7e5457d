"""Tables that fit a terminal without breaking a word: how wide each column is, and what to do where that is not enough.

A header is broken between words, and so is a long text; a number or a short text never is. A table that does not fit
even so is turned on its side, where its rows are few, and otherwise written as one line after the other.
"""

import textwrap
from dataclasses import dataclass, replace

_SHORT = 16  # characters of a cell that is not worth breaking
_BORDERS = 3  # characters that a column takes beside its text
_LEAST_LONG = 12  # what is left of a word that is longer than any terminal


@dataclass(frozen=True)
class Layout:
    """A table as it is drawn: header and cells, and how many characters each column has."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    widths: tuple[int, ...] = ()

    def fitted(self, room: int) -> "Layout":
        """In `room` characters, borders included."""
        widths = self._widths(room)
        if widths is not None:
            return replace(self, widths=widths)
        for other in (self._turned(), self._one_by_one()):
            if other is not None and (widths := other._widths(room)) is not None:
                return replace(other, widths=widths)
        last = self._one_by_one()
        name = min(max(len(row[0]) for row in last.rows), room // 2)
        return replace(last, widths=(name, max(room - 2 * _BORDERS - 1 - name, _LEAST_LONG)))

    def headers(self) -> list[str]:
        """Broken between words, to the widths of the columns."""
        return ["\n".join(_lines(name, width)) for name, width in zip(self.columns, self.widths, strict=True)]

    def _widths(self, room: int) -> tuple[int, ...] | None:
        """None where words would have to be broken."""
        inside = room - _BORDERS * len(self.columns) - 1
        least, most = [], []
        for at, name in enumerate(self.columns):
            cells = [row[at] for row in self.rows]
            whole = self.numeric[at] or all(len(cell) <= _SHORT for cell in cells)
            units = cells if whole else [word for cell in cells for word in cell.split()]
            least.append(max([1, *map(len, units), *map(len, name.split())]))
            most.append(max([1, len(name), *map(len, cells)]))
        if sum(least) > inside:
            return None
        # What is left goes to the texts first, then to the headers; to those first that lack least, who are then whole.
        widths, left = list(least), inside - sum(least)
        for wanted in (self._longest_cells(), most):
            while left and (short := [at for at in range(len(widths)) if widths[at] < wanted[at]]):
                widths[min(short, key=lambda at: wanted[at] - widths[at])] += 1
                left -= 1
        return tuple(widths)

    def _longest_cells(self) -> list[int]:
        return [max([0, *(len(row[at]) for row in self.rows)]) for at in range(len(self.columns))]

    def _turned(self) -> "Layout | None":
        """With the columns as rows, where every row has a name in its first column."""
        if not self.rows or len(self.columns) < 3:
            return None
        names = [row[0] for row in self.rows]
        rows = [(name, *(row[at] for row in self.rows)) for at, name in enumerate(self.columns) if at]
        numbers = all(self.numeric[1:])
        return Layout((self.columns[0], *names), tuple(rows), (False, *(numbers for _ in names)))

    def _one_by_one(self) -> "Layout":
        rows = [(name, row[at]) for row in self.rows for at, name in enumerate(self.columns)]
        return Layout(("what", "value"), tuple(rows) or (("", ""),), (False, False))


def _lines(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
