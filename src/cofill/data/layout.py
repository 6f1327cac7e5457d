"""The layout of delimited text: separator, quotes, header and columns, detected from its first lines."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cofill.data.cells import BLANKS, is_number
from cofill.data.roles import Everything, Wanted, without_ratings
from cofill.errors import DataError, Place, quoted

# A blank is a separator only where no other one fits: dates and titles have blanks too. It stands for a run of them.
SEPARATORS = ("::", "\t", ";", "|", ",")
BLANK = " "
ENDINGS = {".csv": ",", ".tsv": "\t"}
SAMPLE_LINES = 100
ESCAPED_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)\\"')
Record = tuple[int, list[str]]
"""The line where a record begins (from 1), and its cells; a blank line has none."""


@dataclass(frozen=True)
class TextOptions:
    """The caller's options for a text file; None means detect."""

    separator: str | None = None
    header: bool | None = None
    encoding: str = "utf-8"
    skip_bad_lines: int | None = None
    """How many lines that are no rows may be left out; None if that cannot be asked for."""


@dataclass(frozen=True)
class Layout:
    """What must be known before a text file can be split into cells."""

    separator: str
    names: tuple[str, ...] | None
    """The header, or None without one."""
    width: int
    """How many cells each line has."""
    columns: dict[str, int]
    """The position of each column in use, by role or name."""
    sample: tuple[tuple[str, ...], ...] = ()
    """The first rows."""
    trailing: bool = False
    """Whether each line ends in a separator, after which there is nothing."""


def records(text: str, separator: str, name: str, first: int = 1) -> Iterator[Record]:
    """The records of `text` one by one; cells may be quoted if the separator is a single character.

    `first` is the line that it begins with.
    """
    if len(separator) > 1:
        for number, line in enumerate(io.StringIO(text, newline=""), first):
            line = line.rstrip("\r\n")
            yield number, [cell.strip(BLANKS) for cell in line.split(separator)] if line else []
        return
    exact = True
    padded = _is_padded(text, separator)

    def lines() -> Iterator[str]:
        nonlocal exact
        for line in io.StringIO(text, newline=""):
            exact = exact or '"' in line
            yield line.rstrip(" \r\n") + "\n" if separator == BLANK else line

    whole = lines() if padded else io.StringIO(text, newline="")  # the latter is quicker
    reader = csv.reader(whole, delimiter=separator, strict=True, skipinitialspace=separator == BLANK)
    while True:
        begin, exact = reader.line_num + first, not padded
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"a quoted cell is not closed properly ({error})",
                'close it, and write a quote inside a cell as ""',
                where=Place(name, "line", begin),
            ) from error
        yield begin, cells if exact else [cell.strip(BLANKS) for cell in cells]


def _is_padded(text: str, separator: str) -> bool:
    """Whether a cell may begin or end in a blank. A handful of plain searches, which is quicker than one pattern."""
    blanks = [blank for blank in BLANKS if blank in text]
    if text[:1] in blanks or text[-1:] in blanks:
        return True
    behind = any(edge + blank in text for blank in blanks for edge in (separator, "\n", "\r"))
    return behind or any(blank + edge in text for blank in blanks for edge in (separator, "\n", "\r"))


class Sample(NamedTuple):
    """The first records of a file as a separator cuts them."""

    records: list[Record]
    stopped: DataError | None
    """Why there are no more: a quoted cell that does not end, at least not within the sample."""

    @property
    def rows(self) -> list[list[str]]:
        """The rows that are not blank."""
        return [cells for _, cells in self.records if cells]


def find_layout(
    text: str, complete: bool, name: str, wanted: Wanted | Everything, options: TextOptions, trailing: bool = True
) -> Layout:
    """The layout of a file that begins with `text`, whole lines of it; `complete`: it is the whole file.

    `trailing`: whether the lines may end in a separator with nothing behind it.
    """
    separator = options.separator
    if separator is not None and (not separator or any(character in '"\r\n' for character in separator)):
        remedy = "use one such as separator=','"
        raise DataError(f"{separator!r} cannot separate columns", remedy, where=name)
    candidates = [separator] if separator else [*SEPARATORS, BLANK]
    samples = {candidate: _first_records(text, candidate, name) for candidate in candidates}
    if separator is None:
        separator = _choose_separator(samples, name, wanted)
    sample = samples[separator]
    if sample.stopped is not None and (not sample.records or (complete and len(sample.records) == 1)):
        raise sample.stopped
    if not sample.records[0][1]:
        raise DataError("the line is empty", "remove it", where=Place(name, "line", sample.records[0][0]))
    first, *below = sample.rows
    width = Counter(map(len, sample.rows)).most_common(1)[0][0]
    if width < wanted.least and isinstance(wanted, Everything):
        raise DataError(
            f"found {width} {'column' if width == 1 else 'columns'} (separator {separator!r}) where {wanted.least} "
            "are needed",
            "pass separator=... if the file has more",
            where=name,
        )
    header = wanted.has_header(first, below, name) if options.header is None else options.header
    rows = below if header else [first, *below]
    trailing = trailing and _end_in_nothing(first if header else None, rows, wanted)
    if trailing:
        rows = [row[:-1] for row in rows]
        width = len(rows[0])
        first = first[:width]
    names = tuple(cell.strip() for cell in first) if header else None
    width = width if names is None else len(names)
    columns = wanted.columns(names, width, rows, name)
    if header and not below and complete:
        missing, more = (f"no {wanted.one}s", f"{wanted.one}s") if isinstance(wanted, Wanted) else ("nothing", "lines")
        remedy = f"add {more}, or pass header=False if line 1 is one"
        raise DataError(f"a header and {missing} below it", remedy, where=name)
    return Layout(separator, names, width, columns, tuple(map(tuple, rows)), trailing)


def _end_in_nothing(header: Sequence[str] | None, rows: Sequence[Sequence[str]], wanted: Wanted | Everything) -> bool:
    """Whether all rows end in a separator, so that there seems to be one more column, without a name."""
    width = len(rows[0]) if rows else 0
    if width <= wanted.least or any(len(row) != width or row[-1].strip() for row in rows):
        return False
    if isinstance(wanted, Wanted) and width - 1 in wanted.given.values():
        return False
    if header is None:
        return not (isinstance(wanted, Everything) and wanted.names is not None and len(wanted.names) == width)
    return len(header) == width - 1 or (len(header) == width and not header[-1].strip())


def _first_records(text: str, separator: str, name: str) -> Sample:
    """The first records, without blank lines at their end, and what stopped them."""
    plain = _some_records(text, separator, name)
    if len(separator) > 1 or '\\"' not in text:
        return plain
    escaped = _some_records(ESCAPED_QUOTE.sub(r'\1""', text), separator, name)
    return escaped if _regular_share(escaped.rows, 2) > _regular_share(plain.rows, 2) or plain.stopped else plain


def _some_records(text: str, separator: str, name: str) -> Sample:
    found: list[Record] = []
    stopped: DataError | None = None
    try:
        found.extend(islice(records(text, separator, name), SAMPLE_LINES))
    except DataError as error:
        stopped = error
    while len(found) > 1 and not found[-1][1]:
        found.pop()
    return Sample(found, stopped)


def _choose_separator(samples: dict[str, Sample], name: str, wanted: Wanted | Everything) -> str:
    """The separator that cuts most lines into the same number of cells."""
    cut = {separator: sample.rows for separator, sample in samples.items() if sample.rows}
    usual_cuts = [rows for separator, rows in cut.items() if separator != BLANK]
    least = max(2, wanted.least)
    if isinstance(wanted, Wanted):
        least = wanted.likely_width(
            lambda width: max((_regular_share(rows, width) for rows in usual_cuts), default=0.0)
        )
    shares = {separator: _regular_share(rows, least) for separator, rows in cut.items()}
    blank_share = shares.pop(BLANK, 0.0)
    best = max(shares.values(), default=0.0)
    if best == 0.0:
        return _last_resort(samples, cut, blank_share, name, wanted)
    fitting = [separator for separator, share in shares.items() if share == best]
    if len(fitting) > 1:
        fitting = [separator for separator in fitting if _first_is_usual(cut[separator])] or fitting
    if isinstance(wanted, Everything) and len(fitting) > 1:
        usual = ENDINGS.get(Path(name.removesuffix(".gz")).suffix)
        fitting = [separator for separator in fitting if separator == usual] or fitting
    if len(fitting) > 1:
        fitting = [separator for separator in fitting if wanted.makes_sense(cut[separator])] or fitting
    if len(fitting) > 1 and wanted.least > 1:
        raise DataError(
            f"both {fitting[0]!r} and {fitting[1]!r} could be the separator",
            f"pass the right one, such as separator={fitting[0]!r}",
            where=name,
        )
    return fitting[0]


def _last_resort(
    samples: dict[str, Sample], cut: dict[str, list[list[str]]], blank_share: float, name: str, wanted: object
) -> str:
    """If no usual separator fits: blanks, or the one to name in the error that follows."""
    if isinstance(wanted, Everything):
        # Words of a text are separated by blanks too; a table has equally many in each line, or begins with numbers.
        numbers = all(is_number(cell) for cell in cut[BLANK][0]) if blank_share else False
        return BLANK if wanted.least > 1 and (blank_share == 1.0 or numbers) else ","
    assert isinstance(wanted, Wanted)
    if blank_share > 0.0:
        return BLANK
    short = [separator for separator, rows in cut.items() if len(rows[0]) == 2 and wanted.makes_sense(rows)]
    if short:
        return short[0]  # a header that is short of a column: the error to come says which
    if samples[SEPARATORS[-1]].stopped is not None:
        return SEPARATORS[-1]  # a broken quoted cell: the error to come says where
    pairs = any(_regular_share(rows, 2) > 0.0 for rows in cut.values())
    raise DataError(
        f"found {quoted('::'.join(cut['::'][0]))}, which no usual separator cuts into {wanted.listed}",
        f"pass separator=...{without_ratings('rating', wanted) if pairs else ''}",
        where=Place(name, "line", 1),
    )


def _first_is_usual(rows: Sequence[Sequence[str]]) -> bool:
    return len(rows[0]) == Counter(map(len, rows)).most_common(1)[0][0]


def _regular_share(rows: Sequence[Sequence[str]], least: int) -> float:
    """The share of rows with the most usual number of cells, if that is at least `least`; else 0."""
    counts = Counter(map(len, rows))
    width, regular = counts.most_common(1)[0] if counts else (0, 0)
    return regular / len(rows) if width >= least else 0.0
