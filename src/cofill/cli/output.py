"""Tables for people and JSON for programs, on standard output."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cofill.data.table import check_ending
from cofill.errors import DataError

_SHORT = 16  # characters of a cell that is not worth breaking


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
    table = Table(header_style="bold")
    for position, name in enumerate(columns):
        cells = [row[position] for row in rows]
        numeric = all(isinstance(cell, int | float) or cell is None for cell in cells)
        short = numeric or all(len(shown(cell)) <= _SHORT for cell in cells)  # better to fold another column
        table.add_column(name, justify="right" if numeric and rows else "left", overflow="fold", no_wrap=short)
    for row in rows:
        table.add_row(*(Text(printable(shown(cell))) for cell in row))  # Text: a title with [brackets] is no markup
    target = sys.stderr if beside else sys.stdout
    known_width = target.isatty() or "COLUMNS" in os.environ
    console = Console(file=target, width=None if known_width else 120)
    console.print(Text(printable(title), style="bold"))  # not the table's own title, which is as narrow as the table
    console.print(table)


def printable(text: str) -> str:
    """The text without line ends and terminal control codes."""
    return "".join(character if character.isprintable() else " " for character in text)


def shown(cell: object) -> str:
    """A cell as text: integers with separators, other numbers with four digits, None as a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def note(text: str) -> None:
    """Print a note on standard error."""
    sys.stderr.write(text + "\n")
