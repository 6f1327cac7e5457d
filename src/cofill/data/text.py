"""Text files into columns: three ways that agree, the quickest one that is sure of itself first.

1. *typed*: polars parses integers and numbers straight from the bytes. That is trusted only if every byte of
   the file is accounted for: canonical integers, the text of the ratings, separators and line ends add up to
   its size. A leading zero, a blank line, an extra cell or a stray blank would make the file longer.
2. *plain*: polars cuts the lines into strings, if there are no quotes, every line is a row, and the number of
   separators is that of a table without ragged lines.
3. *careful*: record by record. It alone knows quoted cells, and it names the line that is wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cofill.data.cells import digits_total
from cofill.data.layout import Layout, find_layout, is_number, records
from cofill.data.origin import Origin, Role, quoted
from cofill.data.roles import Wanted
from cofill.data.vocabulary import CANONICAL_INTEGER
from cofill.errors import DataError

if TYPE_CHECKING:
    import polars as pl

SAMPLE_BYTES = 1 << 16
COUNT_BYTES = 1 << 20
CAREFUL_RECORDS = 200_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Content = bytes | mmap
"""The bytes of a file. A map spares a copy of them as long as the quickest way succeeds."""


@dataclass(frozen=True)
class Table:
    """The columns in use, of equal length, and where they came from."""

    columns: "dict[Role, pl.Series]"
    origin: Origin
    text: bool
    """Whether ids may be integers that are written as text."""


def read_text(data: Content, name: str, wanted: Wanted, separator: str | None, header: bool | None) -> Table:
    """The columns of a text file whose bytes are `data`; if that is a map, `name` is the path to the file."""
    start = len(BYTE_ORDER_MARK) if data[: len(BYTE_ORDER_MARK)] == BYTE_ORDER_MARK else 0
    if not data[start : start + SAMPLE_BYTES].strip() and not data[start:].strip():
        raise DataError(f"{name}: the file is empty; it needs one line for each rating: user, item, rating")
    end = len(data)
    if end - start > SAMPLE_BYTES:
        end = data.find(b"\n", start + SAMPLE_BYTES) + 1 or len(data)
    sample = decoded(data[start:end], name)
    layout = find_layout(sample, end == len(data), name, wanted, separator, header)
    if data[-3:].endswith((b"\n\n", b"\n\r\n")):
        data = data[:].rstrip(b"\r\n") + b"\n"  # blank lines at the end mean nothing
    if layout.names is not None:
        start = data.find(b"\n", start) + 1
    columns = _typed(data, start, layout, name) or _plain(data[:], start, layout, name)
    if columns is None:
        return _careful(data[:], layout, name)
    origin = Origin(name, "line", first=1 if layout.names is None else 2, labels=layout.labels)
    return Table(columns, origin, text=True)


def decoded(data: bytes, name: str) -> str:
    """The text of `data`, or an error that names the first byte which is not UTF-8."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise DataError(f"{name}: the file is UTF-16, not UTF-8; save it as UTF-8") from error
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8; "
            "save the file as UTF-8, for example with iconv -f latin1 -t utf-8"
        ) from error


def _typed(data: Content, start: int, layout: Layout, name: str) -> "dict[Role, pl.Series] | None":
    """Integer ids and times, ratings as text; None unless every byte is accounted for."""
    import polars as pl

    separator = layout.separator
    if (
        len(set(separator)) != 1
        or len(layout.columns) != layout.width
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
    dtypes: dict[Role, type[pl.DataType]] = {
        "user": pl.Int64,
        "item": pl.Int64,
        "rating": pl.String,
        "time": pl.Int64,
    }
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
    columns: dict[Role, pl.Series] = {role: table[role] for role in layout.columns}
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
    if "title" in layout.columns:
        return False
    return all(
        len(cells) == layout.width
        and all(
            is_number(cells[position]) if role == "rating" else CANONICAL_INTEGER.fullmatch(cells[position])
            for role, position in layout.columns.items()
        )
        for cells in layout.sample
    )


def _plain(data: bytes, start: int, layout: Layout, name: str) -> "dict[Role, pl.Series] | None":
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
    separator = layout.separator.encode()
    if len(separator) > 1:
        free = next((byte for byte in (b"\t", b"\x1f", b"\x1e", b"\x01") if byte not in body), None)
        if free is None:
            return None
        body, separator = body.replace(separator, free), free
    del data
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
    return {role: table[f"{position}"] for role, position in layout.columns.items()}


def _count(data: bytes, byte: bytes) -> int:
    array = np.frombuffer(data, np.uint8)
    code = byte[0]
    return sum(
        int(np.count_nonzero(array[begin : begin + COUNT_BYTES] == code)) for begin in range(0, len(array), COUNT_BYTES)
    )


def _careful(data: bytes, layout: Layout, name: str) -> Table:
    """Any file that is a table at all; or the exact line that is not."""
    import polars as pl

    rows = checked_records(decoded(data, name), layout, name)
    if layout.names is not None:
        next(rows)
    parts: dict[Role, list[pl.Series]] = {role: [] for role in layout.columns}
    lines: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    while chunk := list(islice(rows, CAREFUL_RECORDS)):
        lines.append(np.array([line for line, _ in chunk], np.int64))
        for role, position in layout.columns.items():
            parts[role].append(pl.Series([cells[position] for _, cells in chunk], dtype=pl.String))
    if not lines:
        raise DataError(f"{name}: a header and no ratings below it; add ratings, or pass header=False")
    origin = Origin(name, "line", lines=np.concatenate(lines), labels=layout.labels)
    return Table({role: pl.concat(series) for role, series in parts.items()}, origin, text=True)


def checked_records(text: str, layout: Layout, name: str) -> Iterator[tuple[int, list[str]]]:
    """The records of `text` with their lines; a blank line or one with another number of cells is an error."""
    blank = 0
    for line, cells in records(text, layout.separator, name):
        if not cells:
            blank = blank or line
            continue
        if blank:
            raise DataError(f"{name}, line {blank}: the line is empty; remove it")
        if len(cells) != layout.width:
            known = "the header has" if layout.names is not None else "the other lines have"
            plural = "cell" if len(cells) == 1 else "cells"
            raise DataError(
                f"{name}, line {line}: found {len(cells)} {plural} where {known} {layout.width} "
                f"(separator {layout.separator!r}): {quoted(layout.separator.join(cells))}; fix or remove it"
            )
        yield line, cells
