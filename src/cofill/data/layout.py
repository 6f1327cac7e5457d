"""How a text file is laid out: its separator, whether it has a header, which column is which."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from cofill.data.origin import Role, quoted
from cofill.data.roles import Wanted, columns_by_name, columns_by_position, recognised
from cofill.errors import DataError

# A blank is a separator only where no other one fits: dates and titles have blanks too.
SEPARATORS = ("::", "\t", ";", "|", ",")
SAMPLE_LINES = 100
Record = tuple[int, list[str]]
"""The line where a record begins (from 1), and its cells; a blank line has none."""


@dataclass(frozen=True)
class Layout:
    """What must be known before a text file can be read."""

    separator: str
    names: tuple[str, ...] | None
    """The header, or None without one."""
    width: int
    """How many cells each line has."""
    columns: dict[Role, int]
    """The position of each column in use."""
    sample: tuple[tuple[str, ...], ...]
    """The first ratings, as cells."""

    @property
    def labels(self) -> dict[Role, str]:
        """The columns in use, as an error message calls them."""
        if self.names is None:
            return {role: f"column {position + 1} ({role})" for role, position in self.columns.items()}
        return {role: f"column {quoted(self.names[position])}" for role, position in self.columns.items()}


class Sample(NamedTuple):
    """The first records of a file as a separator cuts them."""

    records: list[Record]
    stopped: DataError | None
    """Why there are no more: a quoted cell that does not end, at least not within the sample."""


def records(text: str, separator: str, name: str) -> Iterator[Record]:
    """The records of `text` one by one; cells may be quoted if the separator is a single character."""
    if len(separator) > 1:
        for number, line in enumerate(io.StringIO(text, newline=""), 1):
            line = line.rstrip("\r\n")
            yield number, line.split(separator) if line else []
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"{name}, line {begin}: a quoted cell is not closed properly ({error}); "
                'close it, and write a quote inside a cell as ""'
            ) from error
        yield begin, cells


def find_layout(
    text: str, complete: bool, name: str, wanted: Wanted, separator: str | None, header: bool | None
) -> Layout:
    """The layout of a file that begins with `text`, whole lines of it; `complete`: it is the whole file."""
    if separator is not None:
        check_separator(separator, name)
    candidates = [separator] if separator else [*SEPARATORS, " "]
    samples = {candidate: first_records(text, candidate, name) for candidate in candidates}
    if separator is None:
        separator = _choose_separator(samples, name, wanted)
    sample, stopped = samples[separator]
    if stopped is not None and (not sample or (complete and len(sample) == 1)):
        raise stopped
    if not sample[0][1]:
        raise DataError(f"{name}, line {sample[0][0]}: the line is empty; remove it")
    first = sample[0][1]
    width = Counter(len(cells) for _, cells in sample if cells).most_common(1)[0][0]
    if header is None:
        header = _has_header(first, name, wanted)
    if not header:
        columns = columns_by_position(width, wanted, name)
        return Layout(separator, None, width, columns, tuple(tuple(cells) for _, cells in sample))
    names = tuple(cell.strip() for cell in first)
    columns = columns_by_name(names, wanted, name)
    if len(sample) == 1 and complete:
        raise DataError(f"{name}: a header and no ratings below it; add ratings, or pass header=False if line 1 is one")
    return Layout(separator, names, len(names), columns, tuple(tuple(cells) for _, cells in sample[1:]))


def check_separator(separator: str, name: str) -> None:
    """DataError if no file can be cut at `separator`."""
    if not separator or any(character in '"\r\n' for character in separator):
        raise DataError(f"{name}: {separator!r} cannot separate columns; use one such as ',' or '::'")


def first_records(text: str, separator: str, name: str) -> Sample:
    """The first records, without blank lines at their end, and what stopped them."""
    found: list[Record] = []
    stopped: DataError | None = None
    try:
        found.extend(islice(records(text, separator, name), SAMPLE_LINES))
    except DataError as error:
        stopped = error
    while len(found) > 1 and not found[-1][1]:
        found.pop()
    return Sample(found, stopped)


def _choose_separator(samples: dict[str, Sample], name: str, wanted: Wanted) -> str:
    cut = {separator: [cells for _, cells in sample.records if cells] for separator, sample in samples.items()}
    cut = {separator: rows for separator, rows in cut.items() if rows}
    shares = {separator: _regular_share(rows, least=len(wanted.required)) for separator, rows in cut.items()}
    blank_share = shares.pop(" ", 0.0)
    best = max(shares.values(), default=0.0)
    if best == 0.0 and blank_share > 0.0:
        return " "
    if best == 0.0:
        short = [separator for separator, rows in cut.items() if len(rows[0]) == 2 and _makes_sense(rows, wanted)]
        if short:
            return short[0]  # a header that is short of a column: the error to come says which
        if samples[SEPARATORS[-1]].stopped is not None:
            return SEPARATORS[-1]  # a broken quoted cell: the error to come says where
        raise DataError(
            f"{name}, line 1: found {quoted('::'.join(cut['::'][0]))}, which no usual separator cuts into "
            f"{wanted.listed}; pass separator=... (--separator on the command line)"
        )
    fitting = [separator for separator, share in shares.items() if share == best]
    if len(fitting) > 1:
        fitting = [separator for separator in fitting if _makes_sense(cut[separator], wanted)] or fitting
    if len(fitting) > 1:
        raise DataError(
            f"{name}: both {fitting[0]!r} and {fitting[1]!r} could be the separator; "
            f"pass the right one, such as separator={fitting[0]!r} (--separator on the command line)"
        )
    return fitting[0]


def _regular_share(rows: Sequence[Sequence[str]], least: int) -> float:
    """The share of rows with the most usual number of cells, if that is at least `least`; else 0."""
    counts = Counter(len(row) for row in rows)
    width, regular = counts.most_common(1)[0] if counts else (0, 0)
    return regular / len(rows) if width >= least else 0.0


def _makes_sense(rows: Sequence[Sequence[str]], wanted: Wanted) -> bool:
    named = [column for column in wanted.given.values() if isinstance(column, str) and column]
    if named and all(column in rows[0] for column in named):
        return True
    usual = recognised(rows[0])
    if sum(bool(usual[role]) for role in wanted.required) >= 2:
        return True
    position = wanted.rating_position
    return position is None or all(position < len(row) and is_number(row[position]) for row in rows)


def _has_header(first: Sequence[str], name: str, wanted: Wanted) -> bool:
    if any(isinstance(column, str) and column for column in wanted.given.values()):
        return True
    found = recognised(first)
    if any(is_number(cell) for cell in first):
        return False
    if any(found[role] for role in wanted.required):
        return True
    position = wanted.rating_position
    if position is None or position >= len(first) or not first[position].strip():
        return False
    raise DataError(
        f"{name}, line 1: cannot tell a header from a rating: {quoted(first[position])} is no number, and no "
        "cell is a usual column name; pass header=True with user=..., item=..., rating=..., "
        "or header=False and correct the line"
    )


def is_number(cell: str) -> bool:
    """Whether a cell is written as a number, NaN and infinity included."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
