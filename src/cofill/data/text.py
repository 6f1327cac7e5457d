"""Delimited text into columns: separator, quotes, header and columns are detected from the first lines.

polars cuts a regular text: no quotes, every line a row, and as many separators as a table without ragged lines has.
Any other text is cut record by record by `csv`, which knows quoted cells and names the line that is wrong.
Blanks around a cell mean nothing, except in a line that has quotes: there every cell is as it is written.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from cofill.arrays import Longs
from cofill.data.cells import BLANKS, SKIPPING, Origin, is_number
from cofill.data.columns import Everything, Wanted, without_ratings
from cofill.data.reading import ReadOptions
from cofill.errors import DataError, Place, quoted

# A blank is a separator only where no other one fits: dates and titles have blanks too. It stands for a run of them.
SEPARATORS = ("::", "\t", ";", "|", ",")
BLANK = " "
TRAILING = "\0trailing"  # the key of a last column that has nothing in it
ENDINGS = {".csv": ",", ".tsv": "\t"}
SAMPLE_BYTES = 1 << 16
SAMPLE_LINES = 100
RECORDS_AT_ONCE = 200_000
ESCAPED_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)\\"')
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
Record = tuple[int, list[str]]
"""The line where a record begins (from 1), and its cells; a blank line has none."""


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
    trailing: bool = False
    """Whether each line ends in a separator, after which there is nothing: its last cell is empty."""

    @property
    def keys(self) -> dict[str, int]:
        """The position of each column to cut, by role or name."""
        return self.columns | ({TRAILING: self.width - 1} if self.trailing else {})


class Cut(NamedTuple):
    """The columns in use, and their origin."""

    columns: dict[str, pl.Series]
    origin: Origin
    headed: bool
    skipped: tuple[int, ...] = ()
    """Lines that were left out."""


def cut_text(data: bytes, name: str, wanted: Wanted | Everything, options: ReadOptions) -> Cut:
    """The columns of a text file whose bytes are `data`."""
    data = in_utf8(data, name, options.encoding).removeprefix(BYTE_ORDER_MARK)
    layout = first_layout(data, True, name, wanted, options)
    if data.endswith((b"\n\n", b"\n\r\n")):
        data = data.rstrip(b"\r\n") + b"\n"  # blank lines at the end mean nothing
    cut = cut_lines(data, layout, name, wanted, options)
    if layout.trailing and (cut.columns.pop(TRAILING) != "").any():
        layout = first_layout(data, True, name, wanted, options, trailing=False)  # it is a column, in later lines
        return cut_lines(data, layout, name, wanted, options)
    return cut


def first_layout(
    data: bytes, complete: bool, name: str, wanted: Wanted | Everything, options: ReadOptions, trailing: bool = True
) -> Layout:
    """The layout of a text; `complete`: the data is the whole of it."""
    if complete and not data[:SAMPLE_BYTES].strip() and not data.strip():
        raise DataError("the file is empty", wanted.empty.format(unit="line"), where=name)
    end = data.find(b"\n", SAMPLE_BYTES) + 1 or len(data)
    sample = decoded(data[:end], name)
    return find_layout(sample, complete and end == len(data), name, wanted, options, trailing=trailing)


def cut_lines(
    data: bytes, layout: Layout, name: str, wanted: Wanted | Everything, options: ReadOptions, line: int = 1
) -> Cut:
    """The columns of whole lines, of which the first is `line` of the file."""
    skip = options.skip_bad_lines if wanted.skippable else None
    labels = wanted.labels(layout.names, layout.columns)
    origin = Origin(name, "line", line, labels=labels, skippable=skip is not None, without_nul=b"\0" not in data)
    headed = layout.names is not None
    body = data.find(b"\n") + 1 if headed and line == 1 else 0
    columns = _regular(data, body, layout, name, line)
    if columns is not None:
        return Cut(columns, replace(origin, first=line + bool(body)), headed)
    columns, lines, skipped = _careful(decoded(data, name, line), layout, name, skip, line)
    return Cut(columns, replace(origin, lines=lines), headed, skipped)


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
            found = f"a quoted cell is not closed properly ({error})"
            remedy = 'close it, and write a quote inside a cell as ""'
            raise DataError(found, remedy, where=Place(name, "line", begin)) from error
        yield begin, cells if exact else [cell.strip(BLANKS) for cell in cells]


def _is_padded(text: str, separator: str) -> bool:
    """Whether a cell may begin or end in a blank. A handful of plain searches, which is quicker than one pattern."""
    blanks = [blank for blank in BLANKS if blank in text]
    if text[:1] in blanks or text[-1:] in blanks:
        return True
    behind = any(edge + blank in text for blank in blanks for edge in (separator, "\n", "\r"))
    return behind or any(blank + edge in text for blank in blanks for edge in (separator, "\n", "\r"))


def _with_doubled_quotes(text: str) -> str:
    """Quotes that are escaped by a backslash, escaped by a second quote instead."""
    return ESCAPED_QUOTE.sub(r'\1""', text)


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
    text: str, complete: bool, name: str, wanted: Wanted | Everything, options: ReadOptions, trailing: bool = True
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
    return Layout(separator, names, width + trailing, columns, trailing)


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
    escaped = _some_records(_with_doubled_quotes(text), separator, name)
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
        found = f"both {fitting[0]!r} and {fitting[1]!r} could be the separator"
        raise DataError(found, f"pass the right one, such as separator={fitting[0]!r}", where=name)
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
    problem = f"found {quoted('::'.join(cut['::'][0]))}, which no usual separator cuts into {wanted.listed}"
    remedy = f"pass separator=...{without_ratings('rating', wanted) if pairs else ''}"
    raise DataError(problem, remedy, where=Place(name, "line", 1))


def _first_is_usual(rows: Sequence[Sequence[str]]) -> bool:
    return len(rows[0]) == Counter(map(len, rows)).most_common(1)[0][0]


def _regular_share(rows: Sequence[Sequence[str]], least: int) -> float:
    """The share of rows with the most usual number of cells, if that is at least `least`; else 0."""
    counts = Counter(map(len, rows))
    width, regular = counts.most_common(1)[0] if counts else (0, 0)
    return regular / len(rows) if width >= least else 0.0


def in_utf8(data: bytes, name: str, encoding: str) -> bytes:
    """The bytes of a text in another encoding as UTF-8; errors of UTF-8 itself are found later, with their line."""
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        return data
    try:
        return data.decode(encoding).encode()
    except LookupError as error:
        problem = f"there is no encoding {encoding!r}"
        raise DataError(problem, "pass one such as encoding='latin-1'", where=name) from error
    except UnicodeError as error:
        raise not_written_in(encoding, str(error), name) from error


def not_written_in(encoding: str, reason: str, name: str) -> DataError:
    """The error about a text that is in another encoding than was said."""
    remedy = "pass another encoding=..."
    return DataError(f"the file is not written in {encoding} ({reason})", remedy, where=name)


def decoded(data: bytes, name: str, first: int = 1) -> str:
    """The text of `data`, or an error that names the first byte which is not UTF-8 and what it may be instead.

    `first` is the line that it begins with.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        if data.startswith(UTF_16):
            remedy = "pass encoding='utf-16', or save it as UTF-8"
            raise DataError("the file is UTF-16, not UTF-8", remedy, where=name) from error
        line = data.count(b"\n", 0, error.start) + first
        # Windows has letters and quotes where Latin-1 has control characters, which nobody writes.
        likely = "cp1252" if any(0x80 <= byte < 0xA0 for byte in data[error.start : error.start + 1]) else "latin-1"
        raise DataError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            f"if the file is older, pass encoding={likely!r}; or save it as UTF-8",
            where=Place(name, "line", line),
        ) from error


def _regular(data: bytes, body: int, layout: Layout, name: str, line: int) -> dict[str, pl.Series] | None:
    """All cells as text, below a header that is `body` bytes long; None if there are quotes or any irregular line."""
    if b'"' in data:
        return None
    if not data.isascii():
        decoded(data, name, line)
    if b"\r" in data:
        data, body = data[body:].replace(b"\r\n", b"\n"), 0
        if b"\r" in data:
            return None
    separator = layout.separator.encode()
    if layout.separator == BLANK:
        data, body = re.sub(rb"^ +| +$", b"", re.sub(rb" {2,}", b" ", data[body:]), flags=re.MULTILINE), 0
    if len(separator) > 1:
        free = next((byte for byte in (b"\t", b"\x1f", b"\x1e", b"\x01") if byte not in data), None)
        if free is None:
            return None
        data, body, separator = data[body:].replace(separator, free), 0, free
    try:
        table = pl.read_csv(
            data,
            separator=separator.decode(),
            has_header=False,
            skip_rows=1 if body else 0,
            quote_char=None,
            schema={f"{position}": pl.String for position in range(layout.width)},
            columns=sorted({*layout.columns.values(), layout.width - 1}),
        )
    except pl.exceptions.PolarsError:
        return None
    # A line that is short of cells ends in nulls; one that has too many has more separators.
    short = table[f"{layout.width - 1}"].null_count() and not layout.trailing
    if not table.height or short or data.count(separator, body) != table.height * (layout.width - 1):
        return None
    cells = {key: table[f"{position}"].fill_null("") for key, position in layout.keys.items()}
    if b" " in data or b"\t" in data:
        cells = {key: column.str.strip_chars(BLANKS) for key, column in cells.items()}
    return cells


def _careful(
    text: str, layout: Layout, name: str, skip: int | None, line: int
) -> tuple[dict[str, pl.Series], Longs, tuple[int, ...]]:
    """The columns, the line of each row, and lines that were skipped, as far as that is allowed.

    Quotes inside cells may be escaped by a backslash instead of a second quote, where the text cannot be read
    otherwise.
    """
    try:
        return _careful_columns(records(text, layout.separator, name, line), layout, name, skip, line)
    except DataError as error:
        if len(layout.separator) > 1 or not ESCAPED_QUOTE.search(text):
            raise
        try:
            found = records(_with_doubled_quotes(text), layout.separator, name, line)
            return _careful_columns(found, layout, name, skip, line)
        except DataError:
            raise error from None


def _careful_columns(
    found: Iterator[Record], layout: Layout, name: str, skip: int | None, line: int
) -> tuple[dict[str, pl.Series], Longs, tuple[int, ...]]:
    if layout.names is not None and line == 1:
        next(found, None)
    skipped: list[int] = []
    rows = _checked_records(found, layout, name, skip, skipped)
    parts: dict[str, list[pl.Series]] = {key: [pl.Series([], dtype=pl.String)] for key in layout.keys}
    lines = [np.empty(0, np.int64)]
    while chunk := list(islice(rows, RECORDS_AT_ONCE)):
        lines.append(np.array([number for number, _ in chunk], np.int64))
        for key, position in layout.keys.items():
            parts[key].append(pl.Series([cells[position] for _, cells in chunk], dtype=pl.String))
    if len(lines) == 1 and line == 1:
        raise DataError("there is nothing below the header", "add lines, or pass header=False", where=name)
    return {key: pl.concat(series) for key, series in parts.items()}, np.concatenate(lines), tuple(skipped)


def _checked_records(
    found: Iterable[Record], layout: Layout, name: str, skip: int | None, skipped: list[int]
) -> Iterator[Record]:
    """The rows with their lines; a blank line or one with another number of cells is skipped, or an error."""
    known = "the header has" if layout.names is not None else "the other lines have"
    blank = 0
    for line, cells in found:
        if not cells:
            blank = blank or line
            continue
        if blank:  # and not at the end
            _skip(DataError("the line is empty", "remove it", where=Place(name, "line", blank)), skip, skipped)
            blank = 0
        if len(cells) == layout.width:
            yield line, cells
            continue
        plural = "cell" if len(cells) == 1 else "cells"
        error = DataError(
            f"found {len(cells)} {plural} where {known} {layout.width} (separator {layout.separator!r}): "
            f"{quoted(layout.separator.join(cells))}",
            "fix or remove it" if skip is None else f"fix or remove it{SKIPPING}",
            where=Place(name, "line", line),
        )
        _skip(error, skip, skipped)


def _skip(error: DataError, skip: int | None, skipped: list[int]) -> None:
    """Skip the line of `error`, unless the limit is reached."""
    if not skip:
        raise error
    if len(skipped) >= skip:
        raise too_many(error, len(skipped) + 1)
    assert error.where is not None
    assert error.where.number is not None
    skipped.append(error.where.number)


def too_many(error: DataError, bad: int) -> DataError:
    """The error about a bad line beyond the limit of skipped lines."""
    remedy = "correct them, or raise skip_bad_lines=... if they can be spared"
    return DataError(f"{error.found}, and {bad} bad lines or more are too many to skip", remedy, where=error.where)
