"""Delimited text into columns, in three ways that agree.

The quickest way that is sure of itself comes first:

1. *typed*: polars parses integers and numbers straight from the bytes. That is trusted only if every byte of
   the file is accounted for: canonical integers, the text of the ratings, separators and line ends add up to
   its size. A leading zero, a blank line, an extra cell or a stray blank would make the file longer.
2. *plain*: polars cuts the lines into strings, if there are no quotes, every line is a row, and the number of
   separators is that of a table without ragged lines.
3. *careful*: record by record. It alone knows quoted cells, and it names the line that is wrong.

Blanks around a cell mean nothing, except in a line that has quotes: there every cell is as it is written.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cofill.data.cells import BLANKS, SKIPPING, Origin, digits_total, is_number
from cofill.data.layout import BLANK, ESCAPED_QUOTE, Layout, Record, TextOptions, find_layout, records
from cofill.data.roles import Everything, Wanted
from cofill.data.vocabulary import CANONICAL_INTEGER
from cofill.errors import DataError, Place, Remedy, quoted

if TYPE_CHECKING:
    import polars as pl

SAMPLE_BYTES = 1 << 16
COUNT_BYTES = 1 << 20
CAREFUL_RECORDS = 200_000
NUMBERS = ("rating", "count")  # which may have decimals
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
Content = bytes | mmap
"""The bytes of a file. A map spares a copy of them as long as the quickest way succeeds."""


class Cut(NamedTuple):
    """The columns in use, and their origin."""

    columns: "dict[str, pl.Series]"
    origin: Origin
    headed: bool
    skipped: tuple[int, ...] = ()
    """Lines that were left out."""


def cut_text(data: Content, name: str, wanted: Wanted | Everything, options: TextOptions) -> Cut:
    """The columns of a text file whose bytes are `data`; if that is a map, `name` is the path to the file."""
    data = in_utf8(data, name, options.encoding)
    start = len(BYTE_ORDER_MARK) if data[: len(BYTE_ORDER_MARK)] == BYTE_ORDER_MARK else 0
    layout = first_layout(data, start, True, name, wanted, options)
    if data[-3:].endswith((b"\n\n", b"\n\r\n")):
        data = data[:].rstrip(b"\r\n") + b"\n"  # blank lines at the end mean nothing
    if layout.trailing:
        trimmed = without_trailing(data[start:], layout)
        if trimmed is None:
            layout = first_layout(data, start, True, name, wanted, options, trailing=False)
        else:
            data, start = trimmed, 0
    return cut_lines(data, start, layout, Passage(name, wanted, options))


def first_layout(
    data: Content,
    start: int,
    complete: bool,
    name: str,
    wanted: Wanted | Everything,
    options: TextOptions,
    trailing: bool = True,
) -> Layout:
    """The layout of the text that begins at `start`; `complete`: the data is the whole of it."""
    if complete and not data[start : start + SAMPLE_BYTES].strip() and not data[start:].strip():
        raise DataError("the file is empty", wanted.empty.format(unit="line"), where=name)
    end = len(data)
    if end - start > SAMPLE_BYTES:
        end = data.find(b"\n", start + SAMPLE_BYTES) + 1 or len(data)
    sample = decoded(data[start:end], name)
    return find_layout(sample, complete and end == len(data), name, wanted, options, trailing=trailing)


@dataclass
class Passage:
    """Lines of a text file that are cut together: all of them, or one part after the other."""

    name: str
    wanted: Wanted | Everything
    options: TextOptions
    line: int = 1
    """That of the first of them in the file."""
    escaped: bool | None = None
    """Whether quotes inside cells are escaped by a backslash; None: where they cannot be read otherwise."""
    skipped: list[int] = field(default_factory=list)
    """Lines that were left out, those of former parts included."""

    @property
    def begins(self) -> bool:
        """Whether the file begins with them, so that a header would be the first."""
        return self.line == 1


def cut_lines(data: Content, start: int, layout: Layout, passage: Passage) -> Cut:
    """The columns of whole lines, from `start` on."""
    headed, name = layout.names is not None, passage.name
    here = layout if passage.begins else replace(layout, names=None)
    body = start if here.names is None else data.find(b"\n", start) + 1
    columns = _typed(data, body, here, name) or _plain(data[:], body, here, name, passage.line)
    labels = passage.wanted.labels(layout.names, layout.columns)
    known: dict[str, Any] = {"labels": labels, "skippable": passage.options.skip_bad_lines is not None}
    known["without_nul"] = data.find(b"\0") < 0
    if columns is None:
        columns, lines = _careful(data[start:], layout, passage)
        return Cut(columns, Origin(name, "line", lines=lines, **known), headed, tuple(passage.skipped))
    return Cut(columns, Origin(name, "line", passage.line + (here.names is not None), **known), headed)


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
        raise not_written_in(encoding, str(error), name) from error


def not_written_in(encoding: str, reason: str, name: str) -> DataError:
    """The error about a text that is in another encoding than was said."""
    remedy = Remedy.passing("pass another {encoding}", encoding=...)
    return DataError(f"the file is not written in {encoding} ({reason})", remedy, where=name)


def decoded(data: bytes, name: str, first: int = 1) -> str:
    """The text of `data`, or an error that names the first byte which is not UTF-8 and what it may be instead.

    `first` is the line that it begins with.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        if data.startswith(UTF_16):
            remedy = Remedy.passing("pass {encoding}, or save it as UTF-8", encoding="utf-16")
            raise DataError("the file is UTF-16, not UTF-8", remedy, where=name) from error
        line = data.count(b"\n", 0, error.start) + first
        # Windows has letters and quotes where Latin-1 has control characters, which nobody writes.
        likely = "cp1252" if any(0x80 <= byte < 0xA0 for byte in data[error.start : error.start + 1]) else "latin-1"
        raise DataError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            Remedy.passing("if the file is older, pass {encoding}; or save it as UTF-8", encoding=likely),
            where=Place(name, "line", line),
        ) from error


def without_trailing(data: bytes, layout: Layout) -> bytes | None:
    """The text without the separators at the ends of lines; None unless every line below the header has one."""
    data = data.replace(b"\r\n", b"\n")
    end = layout.separator.encode() + b"\n"
    body = 0 if layout.names is None else data.find(b"\n") + 1
    header, text = data[:body], data[body:] if data.endswith(b"\n") else data[body:] + b"\n"
    if text.count(end) != text.count(b"\n"):
        return None
    return header.replace(end, b"\n") + text.replace(end, b"\n")


def _typed(data: Content, start: int, layout: Layout, name: str) -> "dict[str, pl.Series] | None":
    """Integer ids and times, ratings and counts as text; None unless every byte is accounted for."""
    import polars as pl

    separator = layout.separator
    dtypes = {"user": pl.Int64, "item": pl.Int64, "rating": pl.String, "count": pl.String, "time": pl.Int64}
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
        if role in NUMBERS:
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
            is_number(cells[position]) if role in NUMBERS else CANONICAL_INTEGER.fullmatch(cells[position])
            for role, position in layout.columns.items()
        )
        for cells in layout.sample
    )


def _plain(data: bytes, start: int, layout: Layout, name: str, line: int = 1) -> "dict[str, pl.Series] | None":
    """All cells as text; None if the file has quotes or any irregular line."""
    import polars as pl

    if b'"' in data:
        return None
    if not data.isascii():
        decoded(data, name, line)
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
    data: bytes, layout: Layout, passage: Passage
) -> "tuple[dict[str, pl.Series], np.ndarray[tuple[int], np.dtype[np.int64]]]":
    """Read any table with some bad lines, which are skipped as far as that is allowed; else the error names the line.

    The columns, and the line of each row.
    """
    text = decoded(data, passage.name, passage.line)

    def columns(text: str) -> "tuple[dict[str, pl.Series], np.ndarray[tuple[int], np.dtype[np.int64]]]":
        return _careful_columns(records(text, layout.separator, passage.name, passage.line), layout, passage)

    if passage.escaped is None and len(layout.separator) == 1 and ESCAPED_QUOTE.search(text):
        before = list(passage.skipped)
        try:
            return columns(text)
        except DataError as error:
            try:  # quotes inside cells that are escaped by a backslash instead of a second quote
                passage.skipped[:] = before
                return columns(with_doubled_quotes(text))
            except DataError:
                raise error from None
    return columns(with_doubled_quotes(text) if passage.escaped else text)


def with_doubled_quotes(text: str) -> str:
    """Quotes that are escaped by a backslash, escaped by a second quote instead."""
    return ESCAPED_QUOTE.sub(r'\1""', text)


def _careful_columns(
    found: Iterable[Record], layout: Layout, passage: Passage
) -> "tuple[dict[str, pl.Series], np.ndarray[tuple[int], np.dtype[np.int64]]]":
    import polars as pl

    rows = _checked_records(found, layout, passage)
    parts: dict[str, list[pl.Series]] = {key: [pl.Series([], dtype=pl.String)] for key in layout.columns}
    lines: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = [np.empty(0, np.int64)]
    while chunk := list(islice(rows, CAREFUL_RECORDS)):
        lines.append(np.array([line for line, _ in chunk], np.int64))
        for key, position in layout.columns.items():
            parts[key].append(pl.Series([cells[position] for _, cells in chunk], dtype=pl.String))
    if len(lines) == 1 and passage.begins:
        raise nothing_below(passage.name)
    return {key: pl.concat(series) for key, series in parts.items()}, np.concatenate(lines)


def nothing_below(name: str) -> DataError:
    """The error about a header without a single row."""
    remedy = Remedy.passing("add lines, or pass {header}", header=False)
    return DataError("there is nothing below the header", remedy, where=name)


def _checked_records(found: Iterable[Record], layout: Layout, passage: Passage) -> Iterator[Record]:
    """The rows with their lines; a blank line or one with another number of cells is skipped, or an error."""
    rows, skip, name = iter(found), passage.options.skip_bad_lines, passage.name
    if layout.names is not None and passage.begins:
        next(rows, None)
    blank = 0
    for line, cells in rows:
        if not cells:
            blank = blank or line
            continue
        if blank:  # and not at the end
            _skip(DataError("the line is empty", "remove it", where=Place(name, "line", blank)), skip, passage.skipped)
            blank = 0
        if len(cells) == layout.width:
            yield line, cells
            continue
        known = "the header has" if layout.names is not None else "the other lines have"
        plural = "cell" if len(cells) == 1 else "cells"
        error = DataError(
            f"found {len(cells)} {plural} where {known} {layout.width} (separator {layout.separator!r}): "
            f"{quoted(layout.separator.join(cells))}",
            Remedy("fix or remove it") if skip is None else Remedy("fix or remove it").then(SKIPPING),
            where=Place(name, "line", line),
        )
        _skip(error, skip, passage.skipped)


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
    remedy = Remedy.passing("correct them, or raise {skip_bad_lines} if they can be spared", skip_bad_lines=...)
    return DataError(f"{error.found}, and {bad} bad lines or more are too many to skip", remedy, where=error.where)
