"""Tables for people and JSON for programs, on standard output."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cofill.cli.notes import known_width
from cofill.cli.notes import note as note  # for commands, which print both
from cofill.cli.table_layout import Layout
from cofill.data.table import check_ending
from cofill.errors import DataError

_WIDTH_OF_FILES = 120


class Stars(float):
    """A rating that somebody would give: two digits are more than anybody can tell apart."""


def stars(rating: float | None) -> Stars | None:
    return None if rating is None else Stars(rating)


class Amount(str):
    """A number with its unit, such as 1 min 20 s, which stands where numbers do."""

    __slots__ = ()


def check_table_file(*paths: Path) -> None:
    """Check before the work starts that the files have a known ending and can be written."""
    for path in paths:
        check_ending(path)
        if path.is_dir():
            raise DataError(f"{path}: this is a folder; name a file")
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)


def print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, beside: bool = False) -> None:
    """Print a table: numbers to the right, text to the left; empty columns are left out.

    `beside`: on standard error, as a remark.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    filled = [at for at in range(len(columns)) if not rows or any(row[at] is not None for row in rows)]
    columns, rows = [columns[at] for at in filled], [[row[at] for at in filled] for row in rows]
    target = sys.stderr if beside else sys.stdout
    room = known_width(target) or _WIDTH_OF_FILES
    cells = tuple(tuple(printable(shown(cell)) for cell in row) for row in rows)
    numeric = tuple(bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(columns)))
    layout = Layout(tuple(columns), cells, numeric).fitted(room)
    table = Table(header_style="bold")
    for name, is_number, width in zip(layout.headers(), layout.numeric, layout.widths, strict=True):
        table.add_column(name, justify="right" if is_number else "left", overflow="fold", width=width)
    for row in layout.rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: a title with [brackets] is no markup
    console = Console(file=target, width=room)
    console.print(Text(printable(title), style="bold"))  # not the table's own title, which is as narrow as the table
    console.print(table)


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | Amount | None)


def printable(text: str) -> str:
    """The text without line ends and terminal control codes."""
    return "".join(character if character.isprintable() else " " for character in text)


def shown(cell: object) -> str:
    """A cell as text: integers with separators, ratings with two digits, other numbers with four, None as a dash.

    A number that rounds to nothing is 0.0000 (`z`): its sign is chance, and differs between processors.
    """
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, Stars):
        return f"{cell:z.2f}"
    return f"{cell:z.4f}" if isinstance(cell, float) else str(cell)
