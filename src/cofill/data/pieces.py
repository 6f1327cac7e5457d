"""A file or a folder of files larger than memory, as tables of bounded size that follow each other.

Each piece has the columns in use and knows its lines, so that what is wrong is told as if the file had been read whole.
Text is cut between records: layout and header come from its first lines, as `cut_text` finds them. Parquet is read some
rows at a time, from one file or from all of a folder. What only makes sense as a whole comes as one piece: tables with
a column for each item, and lines of JSON.
"""

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from cofill.data.delimited import (
    BYTE_ORDER_MARK,
    SAMPLE_BYTES,
    Passage,
    cut_lines,
    decoded,
    first_layout,
    in_utf8,
    not_written_in,
    nothing_below,
    without_trailing,
)
from cofill.data.layout import Layout, TextOptions
from cofill.data.other_formats import refuse_other_formats
from cofill.data.roles import Wanted
from cofill.data.table import (
    ARCHIVES,
    BROKEN,
    JSON_BYTES,
    PACKED,
    PARQUET,
    SAMPLE_ROWS,
    Table,
    as_text,
    explained,
    from_frame,
    is_json_lines,
    is_packed,
    only_member,
    read_table,
    unpacked,
)
from cofill.errors import DataError, quoted

PIECE_BYTES = 1 << 24
PIECE_ROWS = 500_000
UTF_8 = ("utf-8", "utf8")
OTHER_ORDER = (codecs.BOM_UTF16[::-1], codecs.BOM_UTF32[::-1])


class Piece(NamedTuple):
    """A part of a table."""

    table: Table
    share: float
    """How much of the whole has been read by now, from 0 to 1."""


@dataclass(frozen=True)
class Cutting:
    """What must be known of a whole text before it can be cut; it is assumed, and corrected by `CutOtherwise`."""

    trailing: bool = True
    """Whether all lines may end in a separator with nothing behind it."""
    instead_of: DataError | None = None
    """Quotes inside cells are escaped by a backslash, for the text cannot be read otherwise: for this reason."""


class CutOtherwise(Exception):
    """The text has to be read again, and cut in another way."""

    def __init__(self, cutting: Cutting) -> None:
        super().__init__(cutting)
        self.cutting = cutting


@dataclass
class Source:
    """A file or a folder of Parquet files, and how it is read."""

    path: Path
    wanted: Wanted
    options: TextOptions
    whole: Callable[[], Table] | None = None
    """Reads it as one piece, where nothing else makes sense."""
    piece_bytes: int = PIECE_BYTES
    piece_rows: int = PIECE_ROWS
    skipped: list[int] = field(default_factory=list)
    """Lines of a text that were left out so far, in the present reading."""

    def pieces(self, cutting: Cutting) -> Iterator[Piece]:
        """All of it, from the beginning."""
        self.skipped.clear()
        if self.whole is not None:
            return iter([Piece(self.whole(), 1.0)])
        if self.path.is_dir():
            return self._of_folder()
        return self._of_file(cutting)

    def _of_file(self, cutting: Cutting) -> Iterator[Piece]:
        with explained(self.path, self.wanted.file), self.path.open("rb") as file:
            magic = file.read(8)
            if magic.startswith(PARQUET) or self.path.suffix == ".parquet":
                yield from self._of_parquet([self.path])
                return
            text = _Text(self, _unpacking(file, magic, self.path, self.wanted.file))
            if text.is_json_lines:
                yield Piece(read_table(self.path, self.wanted, self.options), 1.0)
                return
            size = os.fstat(file.fileno()).st_size
            for table in text.tables(cutting):
                # A pipe has no size and no place.
                yield Piece(table, min(1.0, file.tell() / size) if size and file.seekable() else 0.0)

    def _of_folder(self) -> Iterator[Piece]:
        files = parquet_files(self.path)
        if not files:
            raise DataError(
                "this is a folder without a Parquet file in it",
                f"pass {self.wanted.file} in it, or a folder of Parquet files",
                where=str(self.path),
            )
        return self._of_parquet(files)

    def _of_parquet(self, files: list[Path]) -> Iterator[Piece]:
        import polars as pl

        sizes = [file.stat().st_size for file in files]
        roles: dict[str, str] = {}
        kinds: dict[str, tuple[bool, Path]] = {}
        done = rows = 0
        for file, size in zip(files, sizes, strict=True):
            with _explained_parquet(file, size, self.wanted):
                schema = pl.read_parquet_schema(file)
                height = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
                names = list(schema)
                if not roles:
                    judges = self.wanted.judges_cells
                    first = pl.read_parquet(file, n_rows=SAMPLE_ROWS, glob=False).rows() if judges else ()
                    used = self.wanted.columns(names, len(names), as_text(first), str(file))
                    roles = {role: names[at] for role, at in used.items()}
                    settled = self.wanted.settled(used, names)
                else:
                    self._refuse_other_columns(roles, names, file, files[0])
                for role in ("user", "item"):
                    _refuse_other_ids(role, roles[role], schema[roles[role]].is_integer(), file, kinds)
                scanned = pl.scan_parquet(file, glob=False).select(list(dict.fromkeys(roles.values())))
            for begin in range(0, height, self.piece_rows):
                with _explained_parquet(file, size, self.wanted):
                    frame = scanned.slice(begin, self.piece_rows).collect()
                table = from_frame(frame, str(file), settled)
                table = replace(table, origin=replace(table.origin, first=1 + begin))
                rows += frame.height
                yield Piece(table, (done + size * (begin + frame.height) / height) / sum(sizes))
            done += size
        if not rows:
            needed = f"each {self.wanted.one} needs a row: {', '.join(self.wanted.required)}"
            raise DataError("there are no rows", needed, where=str(self.path))

    def _refuse_other_columns(self, roles: dict[str, str], names: list[str], file: Path, first: Path) -> None:
        for role, name in roles.items():
            if name not in names:
                raise DataError(
                    f"there is no column {quoted(name)} for the {role}, which {first.name} has",
                    "give all files of the folder the same columns",
                    where=str(file),
                )


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files in a folder and below, by name; not those that are hidden or marked by an underscore."""
    return sorted(
        path
        for path in folder.rglob("*.parquet")
        if path.is_file() and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )


def _refuse_other_ids(role: str, name: str, integers: bool, file: Path, kinds: dict[str, tuple[bool, Path]]) -> None:
    before, first = kinds.setdefault(role, (integers, file))
    if before != integers:
        found = "integers" if integers else "no integers"
        raise DataError(
            f"the ids in column {quoted(name)} are {found}, unlike those in {first.name}",
            "write all files of the folder with ids of one type",
            where=str(file),
        )


class _explained_parquet:
    """Errors of reading a Parquet file, in our words."""

    def __init__(self, path: Path, size: int, wanted: Wanted) -> None:
        self.path, self.size, self.wanted = path, size, wanted

    def __enter__(self) -> None:
        if not self.size:
            raise DataError("the file is empty", self.wanted.empty.format(unit="row"), where=str(self.path))

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        import polars as pl

        if isinstance(error, (pl.exceptions.PolarsError, OSError)):
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(
                f"not a Parquet file, or a broken one ({reason})", "write or fetch it again", where=str(self.path)
            ) from error


# Text


class _Bytes(Protocol):
    """What bytes are read from."""

    def read(self, size: int = -1, /) -> bytes: ...


def _unpacking(file: IO[bytes], magic: bytes, path: Path, wanted: str) -> _Bytes:
    """The unpacked bytes of a file whose first bytes have been read already."""
    refuse_other_formats(magic, path)
    if not is_packed(magic, path):
        return _Rest(magic, file)
    kind = next((kind for signature, (kind, _) in PACKED.items() if magic.startswith(signature)), None)
    if kind is None or magic.startswith(tuple(ARCHIVES)):
        return io.BytesIO(unpacked(magic, path, wanted))  # which is an error, unless the file is empty
    if kind != "zip":
        opened: Any = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}[kind]
        whole = opened(file) if file.seekable() and not file.seek(0) else opened(_Rest(magic, file))
        return _Unpacked(whole, kind, path)
    try:
        file.seek(0)
        archive = zipfile.ZipFile(file)
        return _Unpacked(archive.open(only_member(archive, path, wanted)), kind, path)
    except BROKEN as error:
        if isinstance(error, DataError):
            raise
        raise _broken(kind, error, path) from error


def _broken(kind: str, error: BaseException, path: Path) -> DataError:
    return DataError(f"the {kind} data is broken or cut short ({error})", "fetch the file again", where=str(path))


class _Rest:
    """What has been read of a file already, and the rest of it."""

    def __init__(self, begin: bytes, file: _Bytes) -> None:
        self._begin, self._file = begin, file

    def read(self, size: int = -1) -> bytes:
        if not self._begin:
            return self._file.read(size)
        begin, self._begin = self._begin, b""
        if 0 <= size < len(begin):
            begin, self._begin = begin[:size], begin[size:]
            return begin
        return begin + self._file.read(size - len(begin) if size >= 0 else -1)


class _Unpacked:
    """Unpacked bytes; what goes wrong with them is told as of the packed file."""

    def __init__(self, file: IO[bytes], kind: str, path: Path) -> None:
        self._file, self._kind, self._path = file, kind, path

    def read(self, size: int = -1) -> bytes:
        try:
            return self._file.read(size)
        except BROKEN as error:
            raise _broken(self._kind, error, self._path) from error


class _Text:
    """Delimited text that is read once, from its beginning to its end."""

    def __init__(self, source: Source, file: _Bytes) -> None:
        self._source, self._name = source, str(source.path)
        begin = _read_exactly(file, JSON_BYTES)
        self.is_json_lines = is_json_lines(begin)
        self._read = self._recoded(_Rest(begin, file))
        self._ends = False
        self._line = 1
        self._data = b"" if self.is_json_lines else self._more().removeprefix(BYTE_ORDER_MARK)

    def tables(self, cutting: Cutting) -> Iterator[Table]:
        """The pieces, cut between records."""
        source, rows = self._source, 0
        self._fill(2 * SAMPLE_BYTES)
        while not self._ends and self._data.find(b"\n", SAMPLE_BYTES) < 0:
            self._fill(2 * len(self._data))
        given = (self._name, source.wanted, source.options)
        layout = first_layout(self._data, 0, self._ends, *given, trailing=cutting.trailing)
        reach = source.piece_bytes
        while True:
            self._fill(reach)
            end = self._end_of_lines(reach)
            if not end:
                if self._ends and reach >= len(self._data):
                    break
                reach *= 2  # a long line, or many blank ones
                continue
            last = self._ends and not self._data[end:].strip(b"\r\n")
            table, taken = self._cut(self._data[:end], last, layout, cutting)
            self._line += _line_count(self._data[:taken])
            self._data = b"" if last else self._data[taken:]
            reach = source.piece_bytes if taken else 2 * reach
            if table.height:
                rows += table.height
                yield table
        if not rows:
            raise nothing_below(self._name)

    def _cut(self, lines: bytes, ends: bool, layout: Layout, cutting: Cutting) -> tuple[Table, int]:
        """The table of these lines, and how many of their bytes are in it: a record may go on below them."""
        source = self._source
        escaped = cutting.instead_of is not None
        passage = Passage(self._name, source.wanted, source.options, self._line, ends, escaped, source.skipped)
        body = lines
        if layout.trailing:
            trimmed = without_trailing(lines, layout if passage.begins else replace(layout, names=None))
            if trimmed is None:
                raise CutOtherwise(replace(cutting, trailing=False))
            body = trimmed
        try:
            cut = cut_lines(body, 0, layout, passage)
        except DataError as error:
            if not isinstance(error.__cause__, UnicodeDecodeError):
                self._refuse_undecodable()
                if not escaped and len(layout.separator) == 1:
                    raise CutOtherwise(replace(cutting, instead_of=error)) from None
            raise cutting.instead_of or error from None
        table = Table(cut.columns, cut.origin, True, cut.headed)
        if passage.goes_on is None:
            return table, len(lines)
        before = passage.goes_on - self._line
        text = decoded(lines, self._name, self._line)
        return table, len("".join(islice(io.StringIO(text, newline=""), before)).encode())

    def _end_of_lines(self, reach: int) -> int:
        """Where the whole lines among the first bytes end, without blank ones behind them; 0 if there are none.

        Blank lines are an error if others follow, and mean nothing at the end: they go with what follows.
        """
        everything = self._ends and reach >= len(self._data)
        end = len(self._data) if everything else self._data.rfind(b"\n", 0, reach) + 1
        filled = len(self._data[:end].rstrip(b"\r\n"))
        return (self._data.find(b"\n", filled, end) + 1 or end) if filled else 0

    def _refuse_undecodable(self) -> None:
        """The same error whatever is wrong elsewhere: if a byte anywhere is not UTF-8, that is to be said first."""
        data, line = self._data, self._line
        while data:
            more = self._more()
            end = data.rfind(b"\n") + 1 if more else len(data)
            decoded(data[:end], self._name, line)
            line += data.count(b"\n", 0, end)
            data = data[end:] + more

    def _more(self) -> bytes:
        more = next(self._read, b"")
        self._ends = not more
        return more

    def _fill(self, size: int) -> None:
        """Have `size` bytes at hand, or all that are left."""
        while not self._ends and len(self._data) < size:
            self._data += self._more()

    def _recoded(self, file: _Bytes) -> Iterator[bytes]:
        """The text in UTF-8, some at a time."""
        size, encoding = max(self._source.piece_bytes, SAMPLE_BYTES), self._source.options.encoding
        if encoding.lower().replace("_", "-") in UTF_8:
            while data := _read_exactly(file, size):
                yield data
            return
        in_utf8(b"", self._name, encoding)  # an error if there is no such encoding
        data, before = _read_exactly(file, size), 0
        decoder = codecs.getincrementaldecoder(_with_byte_order(encoding, data))()
        while True:
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeError as error:
                raise not_written_in(encoding, _moved(error, before - pending), self._name) from error
            before += len(data)
            if text:
                yield text.encode()
            if not data:
                return
            data = _read_exactly(file, size)


def _with_byte_order(encoding: str, begin: bytes) -> str:
    """The encoding; if it has two byte orders and no mark tells which, that of this machine, as for a whole text."""
    name = codecs.lookup(encoding).name
    marks = {"utf-16": 2, "utf-32": 4}
    if name not in marks or begin[: marks[name]] in (codecs.BOM_UTF16, codecs.BOM_UTF32, *OTHER_ORDER):
        return encoding
    return f"{name}-{sys.byteorder[0]}e"


def _moved(error: UnicodeError, before: int) -> str:
    """What is wrong with the encoding, with the position in the whole text."""

    def moved(found: "re.Match[str]") -> str:
        return f"position {int(found[1]) + before}" + (f"-{int(found[2]) + before}" if found[2] else "")

    return re.sub(r"position (\d+)(?:-(\d+))?", moved, str(error))


def _read_exactly(file: _Bytes, size: int) -> bytes:
    """`size` bytes, less only at the end; a packed file or a pipe may give fewer at a time."""
    parts, missing = [], size
    while missing and (part := file.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _line_count(data: bytes) -> int:
    """How many lines there are, as the careful reader counts them: a carriage return alone ends one, too."""
    returns = data.count(b"\r") - data.count(b"\r\n")
    return data.count(b"\n") + returns
