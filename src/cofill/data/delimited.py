"""Delimited text into columns: how it is laid out, and three ways to cut it that agree.

The quickest way that is sure of itself comes first:

1. *typed*: polars parses integers and numbers straight from the bytes. That is trusted only if every byte of
   the file is accounted for: canonical integers, the text of the ratings, separators and line ends add up to
   its size. A leading zero, a blank line, an extra cell or a stray blank would make the file longer.
2. *plain*: polars cuts the lines into strings, if there are no quotes, every line is a row, and the number of
   separators is that of a table without ragged lines.
3. *careful*: record by record. It alone knows quoted cells, and it names the line that is wrong.

Blanks around a cell mean nothing, except in a line that has quotes: there every cell is as it is written.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cofill.data.cells import BLANKS, SKIPPING, Origin, digits_total, is_number
from cofill.data.roles import Everything, Wanted
from cofill.data.vocabulary import CANONICAL_INTEGER
from cofill.errors import DataError, Place, Remedy, quoted

if TYPE_CHECKING:
    import polars as pl

# A blank is a separator only where no other one fits: dates and titles have blanks too. It stands for a run of them.
SEPARATORS = ("::", "\t", ";", "|", ",")
BLANK = " "
ENDINGS = {".csv": ",", ".tsv": "\t"}
SAMPLE_LINES = 100
SAMPLE_BYTES = 1 << 16
COUNT_BYTES = 1 << 20
CAREFUL_RECORDS = 200_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
ESCAPED_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)\\"')
Content = bytes | mmap
"""The bytes of a file. A map spares a copy of them as long as the quickest way succeeds."""
Record = tuple[int, list[str]]
"""The line where a record begins (from 1), and its cells; a blank line has none."""


@dataclass(frozen=True)
class TextOptions:
    """What a caller says of a text file; None where it is to be found out."""

    separator: str | None = None
    header: bool | None = None
    encoding: str = "utf-8"
    skip_bad_lines: int | None = None
    """How many lines that are no rows may be left out; None if that cannot be asked for."""


@dataclass(frozen=True)
class Layout:
    """What must be known before a text file can be cut."""

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


class Cut(NamedTuple):
    """The columns in use, and where they came from."""

    columns: "dict[str, pl.Series]"
    origin: Origin
    headed: bool
    skipped: tuple[int, ...] = ()
    """Lines that were left out."""


def cut_text(data: Content, name: str, wanted: Wanted | Everything, options: TextOptions) -> Cut:
    """The columns of a text file whose bytes are `data`; if that is a map, `name` is the path to the file."""
    data = in_utf8(data, name, options.encoding)
    start = len(BYTE_ORDER_MARK) if data[: len(BYTE_ORDER_MARK)] == BYTE_ORDER_MARK else 0
    if not data[start : start + SAMPLE_BYTES].strip() and not data[start:].strip():
        raise DataError("the file is empty", wanted.empty.format(unit="line"), where=name)
    end = len(data)
    if end - start > SAMPLE_BYTES:
        end = data.find(b"\n", start + SAMPLE_BYTES) + 1 or len(data)
    sample = decoded(data[start:end], name)
    layout = find_layout(sample, end == len(data), name, wanted, options)
    if data[-3:].endswith((b"\n\n", b"\n\r\n")):
        data = data[:].rstrip(b"\r\n") + b"\n"  # blank lines at the end mean nothing
    if layout.trailing:
        trimmed = _without_trailing(data[start:], layout)
        if trimmed is None:
            layout = find_layout(sample, end == len(data), name, wanted, options, trailing=False)
        else:
            data, start = trimmed, 0
    body = start if layout.names is None else data.find(b"\n", start) + 1
    columns = _typed(data, body, layout, name) or _plain(data[:], body, layout, name)
    labels = wanted.labels(layout.names, layout.columns)
    skippable = options.skip_bad_lines is not None
    if columns is None:
        columns, lines, skipped = _careful(data[start:], layout, name, options.skip_bad_lines)
        origin = Origin(name, "line", lines=lines, labels=labels, skippable=skippable)
        return Cut(columns, origin, layout.names is not None, skipped)
    origin = Origin(name, "line", 1 if layout.names is None else 2, labels=labels, skippable=skippable)
    return Cut(columns, origin, layout.names is not None)


def in_utf8(data: Content, name: str, encoding: str) -> Content:
    """The bytes of a text in another encoding as UTF-8; errors of UTF-8 itself are found later, with their line."""
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        return data
    try:
        return data[:].decode(encoding).encode()
    except LookupError as error:
        raise DataError(
            f"there is no encoding {encoding!r}",
            Remedy.passing("pass one such as {encoding}", encoding="latin-1"),
            where=name,
        ) from error
    except UnicodeError as error:
        raise DataError(
            f"the file is not written in {encoding} ({error})",
            Remedy.passing("pass another {encoding}", encoding=...),
            where=name,
        ) from error


def decoded(data: bytes, name: str) -> str:
    """The text of `data`, or an error that names the first byte which is not UTF-8 and what it may be instead."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        if data.startswith(UTF_16):
            remedy = Remedy.passing("pass {encoding}, or save it as UTF-8", encoding="utf-16")
            raise DataError("the file is UTF-16, not UTF-8", remedy, where=name) from error
        line = data.count(b"\n", 0, error.start) + 1
        # Windows has letters and quotes where Latin-1 has control characters, which nobody writes.
        likely = "cp1252" if any(0x80 <= byte < 0xA0 for byte in data[error.start : error.start + 1]) else "latin-1"
        raise DataError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            Remedy.passing("if the file is older, pass {encoding}; or save it as UTF-8", encoding=likely),
            where=Place(name, "line", line),
        ) from error


def records(text: str, separator: str, name: str) -> Iterator[Record]:
    """The records of `text` one by one; cells may be quoted if the separator is a single character."""
    if len(separator) > 1:
        for number, line in enumerate(io.StringIO(text, newline=""), 1):
            line = line.rstrip("\r\n")
            yield number, [cell.strip(BLANKS) for cell in line.split(separator)] if line else []
        return
    exact = True
    edge = re.escape(separator) + r"|^|$|\r"
    padded = re.search(rf"(?:{edge})[{BLANKS}]|[{BLANKS}](?:{edge})", text, re.MULTILINE) is not None

    def lines() -> Iterator[str]:
        nonlocal exact
        for line in io.StringIO(text, newline=""):
            exact = exact or '"' in line
            yield line.rstrip(" \r\n") + "\n" if separator == BLANK else line

    whole = lines() if padded else io.StringIO(text, newline="")  # the latter is quicker
    reader = csv.reader(whole, delimiter=separator, strict=True, skipinitialspace=separator == BLANK)
    while True:
        begin, exact = reader.line_num + 1, not padded
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


class Sample(NamedTuple):
    """The first records of a file as a separator cuts them."""

    records: list[Record]
    stopped: DataError | None
    """Why there are no more: a quoted cell that does not end, at least not within the sample."""

    @property
    def rows(self) -> list[list[str]]:
        """Those that are not blank."""
        return [cells for _, cells in self.records if cells]


def find_layout(
    text: str, complete: bool, name: str, wanted: Wanted | Everything, options: TextOptions, trailing: bool = True
) -> Layout:
    """The layout of a file that begins with `text`, whole lines of it; `complete`: it is the whole file.

    `trailing`: whether the lines may end in a separator with nothing behind it.
    """
    separator = options.separator
    if separator is not None and (not separator or any(character in '"\r\n' for character in separator)):
        remedy = Remedy.passing("use one such as {separator}", separator=",")
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
            Remedy.passing("pass {separator} if the file has more", separator=...),
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
        raise DataError(
            f"a header and {'nothing' if isinstance(wanted, Everything) else 'no ratings'} below it",
            Remedy.passing(
                f"add {'lines' if isinstance(wanted, Everything) else 'ratings'}, or pass {{header}} if line 1 is one",
                header=False,
            ),
            where=name,
        )
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


def _without_trailing(data: bytes, layout: Layout) -> bytes | None:
    """The text without the separators at the ends of lines; None unless every line below the header has one."""
    data = data.replace(b"\r\n", b"\n")
    end = layout.separator.encode() + b"\n"
    body = 0 if layout.names is None else data.find(b"\n") + 1
    header, text = data[:body], data[body:] if data.endswith(b"\n") else data[body:] + b"\n"
    if text.count(end) != text.count(b"\n"):
        return None
    return header.replace(end, b"\n") + text.replace(end, b"\n")


def _first_records(text: str, separator: str, name: str) -> Sample:
    """The first records, without blank lines at their end, and what stopped them."""
    plain = _some_records(text, separator, name)
    if len(separator) > 1 or not ESCAPED_QUOTE.search(text):
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
    least = max(2, wanted.least)
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
            Remedy.passing("pass the right one, such as {separator}", separator=fitting[0]),
            where=name,
        )
    return fitting[0]


def _last_resort(
    samples: dict[str, Sample], cut: dict[str, list[list[str]]], blank_share: float, name: str, wanted: object
) -> str:
    """Where none of the usual separators fits: blanks, or the one that the error to come is to speak of."""
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
    raise DataError(
        f"found {quoted('::'.join(cut['::'][0]))}, which no usual separator cuts into {wanted.listed}",
        Remedy.passing("pass {separator}", separator=...),
        where=Place(name, "line", 1),
    )


def _first_is_usual(rows: Sequence[Sequence[str]]) -> bool:
    return len(rows[0]) == Counter(map(len, rows)).most_common(1)[0][0]


def _regular_share(rows: Sequence[Sequence[str]], least: int) -> float:
    """The share of rows with the most usual number of cells, if that is at least `least`; else 0."""
    counts = Counter(map(len, rows))
    width, regular = counts.most_common(1)[0] if counts else (0, 0)
    return regular / len(rows) if width >= least else 0.0


def _typed(data: Content, start: int, layout: Layout, name: str) -> "dict[str, pl.Series] | None":
    """Integer ids and times, ratings as text; None unless every byte is accounted for."""
    import polars as pl

    separator = layout.separator
    dtypes = {"user": pl.Int64, "item": pl.Int64, "rating": pl.String, "time": pl.Int64}
    if (
        len(set(separator)) != 1
        or len(layout.columns) != layout.width
        or not layout.columns.keys() <= dtypes.keys()
        or not _looks_typed(layout)
        or data.find(b'"') >= 0
    ):
        return None
    ends_in_return = data.find(b"\r") >= 0
    if ends_in_return:
        data = data[:]
        if not data.count(b"\r\n") == data.count(b"\r") == data.count(b"\n"):
            return None
    step = len(separator)  # '::' is ':' with an empty column between each two
    roles = {position * step: role for role, position in layout.columns.items()}
    schema = {
        roles.get(position, f"gap {position}"): dtypes[roles[position]] if position in roles else pl.String
        for position in range(step * (layout.width - 1) + 1)
    }
    try:
        table = pl.read_csv(
            data if isinstance(data, bytes) else Path(name).absolute(),
            glob=False,
            separator=separator[0],
            has_header=False,
            skip_rows=0 if layout.names is None else 1,
            quote_char=None,
            schema=schema,
            columns=sorted(roles),
        )
    except pl.exceptions.PolarsError:
        return None
    if not table.height or any(table.null_count().row(0)):
        return None
    columns: dict[str, pl.Series] = {role: table[role] for role in layout.columns}
    del table
    accounted = 0
    for role, column in columns.items():
        if role == "rating":
            accounted += int(column.str.len_bytes().cast(pl.Int64).sum())
        else:
            accounted += sum(digits_total(chunk.to_numpy()) for chunk in column.get_chunks())
    line_end = 2 if ends_in_return else 1
    accounted += len(next(iter(columns.values()))) * (step * (layout.width - 1) + line_end)
    if data[-1:] != b"\n":
        accounted -= line_end
    return columns if accounted == len(data) - start else None


def _looks_typed(layout: Layout) -> bool:
    """Whether the first lines look like integers and numbers: a try is costly if it fails late."""
    return all(
        len(cells) == layout.width
        and all(
            is_number(cells[position]) if role == "rating" else CANONICAL_INTEGER.fullmatch(cells[position])
            for role, position in layout.columns.items()
        )
        for cells in layout.sample
    )


def _plain(data: bytes, start: int, layout: Layout, name: str) -> "dict[str, pl.Series] | None":
    """All cells as text; None if the file has quotes or any irregular line."""
    import polars as pl

    if b'"' in data:
        return None
    if not data.isascii():
        decoded(data, name)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        if b"\r" in data:
            return None
        if layout.names is not None:
            start = data.find(b"\n") + 1
    body = data[start:]
    del data
    separator = layout.separator.encode()
    if layout.separator == BLANK:
        body = re.sub(rb"^ +| +$", b"", re.sub(rb" {2,}", b" ", body), flags=re.MULTILINE)
    if len(separator) > 1:
        free = next((byte for byte in (b"\t", b"\x1f", b"\x1e", b"\x01") if byte not in body), None)
        if free is None:
            return None
        body, separator = body.replace(separator, free), free
    rows = _count(body, b"\n") + (not body.endswith(b"\n"))
    if _count(body, separator) != rows * (layout.width - 1):
        return None
    wanted = sorted({*layout.columns.values(), layout.width - 1})
    try:
        table = pl.read_csv(
            body,
            separator=separator.decode(),
            has_header=False,
            quote_char=None,
            schema={f"{position}": pl.String for position in range(layout.width)},
            columns=wanted,
        )
    except pl.exceptions.PolarsError:
        return None
    # A line that is short of cells ends in nulls, and then another one may hide its extra separators.
    if table.height != rows or table[f"{layout.width - 1}"].null_count():
        return None
    cells = {name: table[f"{position}"].fill_null("") for name, position in layout.columns.items()}
    if b" " in body or b"\t" in body:
        cells = {name: column.str.strip_chars(BLANKS) for name, column in cells.items()}
    return cells


def _count(data: bytes, byte: bytes) -> int:
    array = np.frombuffer(data, np.uint8)
    code = byte[0]
    return sum(
        int(np.count_nonzero(array[begin : begin + COUNT_BYTES] == code)) for begin in range(0, len(array), COUNT_BYTES)
    )


def _careful(
    data: bytes, layout: Layout, name: str, skip: int | None = None
) -> "tuple[dict[str, pl.Series], np.ndarray[tuple[int], np.dtype[np.int64]], tuple[int, ...]]":
    """Any file that is a table at all, up to `skip` bad lines; or the exact line that is not part of one.

    The columns, the line of each row, and the lines that were skipped.
    """
    text = decoded(data, name)
    try:
        return _careful_columns(records(text, layout.separator, name), layout, name, skip)
    except DataError:
        if len(layout.separator) > 1 or not ESCAPED_QUOTE.search(text):
            raise
        try:  # quotes inside cells that are escaped by a backslash instead of a second quote
            unescaped = ESCAPED_QUOTE.sub(r'\1""', text)
            return _careful_columns(records(unescaped, layout.separator, name), layout, name, skip)
        except DataError:
            pass
        raise


def _careful_columns(
    found: Iterable[Record], layout: Layout, name: str, skip: int | None
) -> "tuple[dict[str, pl.Series], np.ndarray[tuple[int], np.dtype[np.int64]], tuple[int, ...]]":
    import polars as pl

    skipped: list[int] = []
    rows = _checked_records(found, layout, name, skip, skipped)
    parts: dict[str, list[pl.Series]] = {key: [] for key in layout.columns}
    lines: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    while chunk := list(islice(rows, CAREFUL_RECORDS)):
        lines.append(np.array([line for line, _ in chunk], np.int64))
        for key, position in layout.columns.items():
            parts[key].append(pl.Series([cells[position] for _, cells in chunk], dtype=pl.String))
    if not lines:
        remedy = Remedy.passing("add lines, or pass {header}", header=False)
        raise DataError("there is nothing below the header", remedy, where=name)
    return {key: pl.concat(series) for key, series in parts.items()}, np.concatenate(lines), tuple(skipped)


def _checked_records(
    found: Iterable[Record], layout: Layout, name: str, skip: int | None, skipped: list[int]
) -> Iterator[Record]:
    """The rows with their lines; a blank line or one with another number of cells is skipped, or an error."""
    rows = iter(found)
    if layout.names is not None:
        next(rows)
    blank = 0
    for line, cells in rows:
        if not cells:
            blank = blank or line
            continue
        if blank:  # and not at the end
            _skip(DataError("the line is empty", "remove it", where=Place(name, "line", blank)), skip, skipped)
            blank = 0
        if len(cells) == layout.width:
            yield line, cells
            continue
        known = "the header has" if layout.names is not None else "the other lines have"
        plural = "cell" if len(cells) == 1 else "cells"
        error = DataError(
            f"found {len(cells)} {plural} where {known} {layout.width} (separator {layout.separator!r}): "
            f"{quoted(layout.separator.join(cells))}",
            Remedy("fix or remove it") + (Remedy("") if skip is None else SKIPPING),
            where=Place(name, "line", line),
        )
        _skip(error, skip, skipped)


def _skip(error: DataError, skip: int | None, skipped: list[int]) -> None:
    """Leave out the line of `error`, unless so many were left out already."""
    if not skip:
        raise error
    if len(skipped) >= skip:
        raise too_many(error, len(skipped) + 1)
    assert error.where is not None
    assert error.where.number is not None
    skipped.append(error.where.number)


def too_many(error: DataError, bad: int) -> DataError:
    """The error about a bad line where more are bad than are to be skipped."""
    remedy = Remedy.passing("correct them, or raise {skip_bad_lines} if they can be spared", skip_bad_lines=...)
    return DataError(f"{error.found}, and {bad} bad lines or more are too many to skip", remedy, where=error.where)
