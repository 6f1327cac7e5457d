"""How a text file of side information is laid out: separator, header, names of the columns; and its cells."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cofill.data.features.table import RawTable
from cofill.data.layout import SEPARATORS, Layout, Record, check_separator, first_records, is_number
from cofill.data.origin import Origin, quoted
from cofill.data.roles import USUAL_NAMES, normalised
from cofill.data.text import SAMPLE_BYTES, checked_records
from cofill.errors import DataError

ID_NAMES = frozenset({"id", *USUAL_NAMES["user"], *USUAL_NAMES["item"]})
OTHER_NAMES = frozenset({"tag", "tags", "source", "target", "from", "to", "genres", *USUAL_NAMES["title"]})
ENDINGS = {".csv": ",", ".tsv": "\t"}


class TextOptions(NamedTuple):
    """What is known of a text file before it is opened."""

    names: Sequence[str] | None
    separator: str | None
    header: bool | None
    familiar: Collection[str]
    """Names that make a line a header."""
    least: int
    """How many columns there must be."""


def cut_text(text: str, name: str, options: TextOptions) -> RawTable:
    """All cells of a file."""
    names, separator, header, familiar, least = options
    if not text.strip():
        raise DataError(f"{name}: the file is empty; it needs one line for each id and what is known about it")
    end = text.find("\n", SAMPLE_BYTES) + 1 or len(text)
    if separator is None:
        separator = _separator(text[:end], name, least)
    check_separator(separator, name)
    sample, stopped = first_records(text[:end], separator, name)
    if stopped is not None and not sample:
        raise stopped
    first = [cell.strip() for cell in sample[0][1]]
    width = Counter(len(row) for _, row in sample if row).most_common(1)[0][0]
    if width < least:
        raise DataError(
            f"{name}: found {width} {'column' if width == 1 else 'columns'} (separator {separator!r}) where "
            f"{least} are needed; pass separator=... (--separator on the command line) if the file has more"
        )
    if header is None:
        header = names is None and _has_header(first, sample[1:], name, familiar)
    width = len(first) if header else width
    given = tuple(first) if header and names is None else checked_names(names, width, name)
    refuse_repeated(given, name)
    rows = checked_records(text, Layout(separator, given if header else None, width, {}, ()), name)
    lines: list[int] = []
    columns: tuple[list[object], ...] = tuple([] for _ in range(width))
    for line, cells in rows:  # nothing but the cells is kept: a million rows would keep the garbage collector busy
        lines.append(line)
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    if header:
        columns = tuple(column[1:] for column in columns)
    if not columns[0]:
        raise DataError(f"{name}: a header and nothing below it; add lines, or pass header=False if line 1 is one")
    origin = Origin(name, "line", lines=np.array(lines[header:], np.int64))
    return RawTable(given, columns, origin, text=True, headed=header)


def _separator(text: str, name: str, least: int) -> str:
    """The separator that cuts most lines into the same number of cells, at least two."""
    shares: dict[str, float] = {}
    firsts: dict[str, list[str]] = {}
    for candidate in SEPARATORS:
        sample, stopped = first_records(text, candidate, name)
        rows = [row for _, row in sample if row]
        if not rows or (stopped is not None and len(rows) < 2):
            continue
        width, regular = Counter(len(row) for row in rows).most_common(1)[0]
        if width >= 2 and len(rows[0]) == width:
            shares[candidate], firsts[candidate] = regular / len(rows), rows[0]
    if not shares:
        return ","  # one column: an error to come says so where more are needed
    best = max(shares.values())
    fitting = [candidate for candidate, share in shares.items() if share == best]
    usual = ENDINGS.get(Path(name.removesuffix(".gz")).suffix)
    if usual in fitting:
        return str(usual)
    if len(fitting) > 1:
        fitting = [one for one in fitting if any(normalised(cell) in ID_NAMES for cell in firsts[one])] or fitting
    if len(fitting) > 1 and least > 1:
        raise DataError(
            f"{name}: both {fitting[0]!r} and {fitting[1]!r} could be the separator; "
            f"pass the right one, such as separator={fitting[0]!r} (--separator on the command line)"
        )
    return fitting[0]


def _has_header(first: Sequence[str], below: Sequence[Record], name: str, familiar: Collection[str]) -> bool:
    if any(is_number(cell) for cell in first):
        return False
    if any(cell in familiar or normalised(cell) in ID_NAMES | OTHER_NAMES for cell in first):
        return True
    if len(first) == 1:
        return False
    rows = [row for _, row in below if len(row) == len(first)]
    for at in range(len(first)):
        cells = [row[at] for row in rows if row[at].strip()]
        if cells and all(is_number(cell) for cell in cells):
            return True
    raise DataError(
        f"{name}, line 1: cannot tell a header from the first line of data: {quoted(', '.join(first))} has no "
        "usual name of an id column and stands above no numbers; pass header=True or header=False"
    )


def checked_names(names: Sequence[str] | None, width: int, source: str) -> tuple[str, ...]:
    """The names that the caller gives to the columns; without any, their numbers."""
    if names is None:
        return tuple(f"column {position + 1}" for position in range(width))
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{source}: names={quoted(names)} are no names of columns; give a list such as ['id', 'age']")
    if len(names) != width:
        raise DataError(f"{source}: {len(names)} names for {width} columns; give one for each, that of the id too")
    refuse_repeated(names, source)
    return tuple(names)


def refuse_repeated(names: Sequence[str], source: str) -> None:
    """DataError if two columns have the same name, or one has none."""
    for position, name in enumerate(names):
        if not name.strip():
            raise DataError(f"{source}: column {position + 1} has no name; give it one")
        if names.index(name) < position:
            raise DataError(f"{source}: two columns are called {name!r}; rename one of them")
