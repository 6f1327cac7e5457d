"""Tables for people and JSON for programs, on standard output; notes on standard error."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from cofill.charts.markup import Amount, Stars, shown
from cofill.errors import DataError
from cofill.interrupts import was_interrupted

_WIDTH_OF_FILES = 120
_LEAST_WIDTH = 30
_BORDERS = 3  # characters that a column takes beside its text


def stars(rating: float | None) -> Stars | None:
    return None if rating is None else Stars(rating)


def check_table_file(*paths: Path) -> None:
    """Check before the work starts that the files have a known ending and can be written."""
    from cofill.data.table import check_ending

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
    target = sys.stderr if beside else sys.stdout
    known = target.isatty() or "COLUMNS" in os.environ  # not for a file or another program
    room = max(get_terminal_size().columns, _LEAST_WIDTH) if known else _WIDTH_OF_FILES
    names = [columns[at] for at in filled]
    cells = [[printable(shown(row[at])) for at in filled] for row in rows]
    numeric = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in filled]
    if rows and len(names) > 2 and sum(_least_widths(names, cells)) > room:  # turned on its side
        numeric = [False] + [all(numeric[1:])] * len(rows)
        turned = [[name, *column] for name, *column in zip(names, *cells, strict=True)]
        (names, *cells) = turned
    least = _least_widths(names, cells)
    table = Table(header_style="bold")
    for name, is_number, width in zip(names, numeric, least, strict=True):
        whole = width - _BORDERS if sum(least) <= room else None
        table.add_column(Text(name), justify="right" if is_number else "left", overflow="fold", min_width=whole)
    for line in cells:
        table.add_row(*map(Text, line))  # Text: a title with [brackets] is no markup
    console = Console(file=target, width=room)
    console.print(Text(printable(title), style="bold"))  # not the table's own title, which is as narrow as the table
    console.print(table)


def _least_widths(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Characters that each column takes where no word is broken, with its borders."""
    columns = zip(names, *cells, strict=True)
    return [_BORDERS + max(len(word) for text in column for word in [*text.split(), ""]) for column in columns]


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | Amount | None)


def printable(text: str) -> str:
    """The text without line ends and terminal control codes."""
    return "".join(character if character.isprintable() else " " for character in text)


# Notes


def note(text: str) -> None:
    """Print a note on standard error."""
    sys.stderr.write(f"{text}\n")


@contextmanager
def note_if_stopped(text: str, only_if: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Print a note where a signal stops the block."""
    try:
        yield
    except BaseException as error:
        if (isinstance(error, SystemExit) or was_interrupted(error)) and only_if():
            note(text)
        raise
