"""Tables for people and JSON for programs, on standard output; notes on standard error."""

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, TextIO

from cofill.errors import DataError
from cofill.interrupts import was_interrupted

_WIDTH_OF_FILES = 120
_LEAST_WIDTH = 30
_BORDERS = 3  # characters that a column takes beside its text


class Stars(float):
    """A rating that somebody would give: two digits are more than anybody can tell apart."""


def stars(rating: float | None) -> Stars | None:
    return None if rating is None else Stars(rating)


class Amount(str):
    """A number with its unit, such as 1 min 20 s, which stands where numbers do."""

    __slots__ = ()


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
    room = known_width(target) or _WIDTH_OF_FILES
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


# Notes


def note(text: str) -> None:
    """Print a note on standard error: in lines that fit a terminal, and elsewhere on one line."""
    width = known_width(sys.stderr) if sys.stderr.isatty() else None
    sys.stderr.write((text if width is None else wrapped(text, width)) + "\n")


@contextmanager
def note_if_stopped(text: str, only_if: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Print a note where a signal stops the block."""
    try:
        yield
    except BaseException as error:
        if (isinstance(error, SystemExit) or was_interrupted(error)) and only_if():
            note(text)
        raise


def known_width(stream: TextIO) -> int | None:
    """Characters in a line of the terminal, or as COLUMNS says; None where it is a file or another program."""
    if stream.isatty() or "COLUMNS" in os.environ:
        return max(get_terminal_size().columns, _LEAST_WIDTH)
    return None


def wrapped(text: str, width: int) -> str:
    """Lines of at most that many characters, broken between words; a line goes on under the text of its first one.

    A command that is broken can be copied all the same: a shell goes on after a backslash.
    """
    lines = []
    for line in text.split("\n"):
        begin = len(line) - len(line.lstrip())
        head, colon, rest = line.partition(":")
        if colon and " " not in head.strip() and rest.startswith(" "):  # next:   cofill ...
            begin = len(line) - len(rest.lstrip())
        goes_on = " \\" if line[begin:].startswith("cofill ") else ""
        parts = textwrap.wrap(
            line,
            width if len(line) <= width else width - len(goes_on),
            subsequent_indent=" " * min(begin, width // 3),
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines.append(f"{goes_on}\n".join(parts))
    return "\n".join(lines)
