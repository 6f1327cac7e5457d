"""Tables for people and JSON for programs, on standard output."""

import json
import sys
from collections.abc import Sequence
from typing import Any


def print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Numbers to the right, text to the left; a column without a single value is left out."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    filled = [at for at in range(len(columns)) if not rows or any(row[at] is not None for row in rows)]
    columns, rows = [columns[at] for at in filled], [[row[at] for at in filled] for row in rows]
    table = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold")
    for position, name in enumerate(columns):
        numeric = all(isinstance(row[position], int | float) or row[position] is None for row in rows)
        table.add_column(name, justify="right" if numeric and rows else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))  # Text: a title with [brackets] is no markup
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def shown(cell: object) -> str:
    """Integers with separators, other numbers with four digits, nothing as a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def note(text: str) -> None:
    """A remark for the person, beside the output."""
    sys.stderr.write(text + "\n")
