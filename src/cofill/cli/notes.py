"""Notes on standard error, in lines that fit a terminal."""

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TextIO

from cofill.interrupts import was_interrupted

_LEAST_WIDTH = 30


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
