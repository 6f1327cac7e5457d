"""One reader for every table: files, frames, arrays and tuples into columns of cells; and frames back into files.

A file is text with any separator, quoting and encoding (`text.py`), lines of JSON, or Parquet; text may be packed.
What the columns mean is decided by name or position (`columns.py`), and what the cells mean by whoever asked for them
(`cells.py` for ids, ratings and times, `features/` for side information).
"""

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import polars as pl

from cofill.data import cells
from cofill.data.cells import Origin, pandas_values, series_of
from cofill.data.columns import Everything, Wanted, checked_names, listed, recognised, refuse_repeated
from cofill.data.reading import DEFAULTS, ReadOptions
from cofill.data.text import BYTE_ORDER_MARK, ENDINGS, cut_text
from cofill.errors import DataError, Place, quoted
from cofill.files import json_of, replacing

PARQUET = b"PAR1"
PACKED = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"BZh": ("bzip2", ".bz2"),
    b"\xfd7zXZ": ("xz", ".xz"),
    b"PK\x03\x04": ("zip", ".zip"),
}
OLD_WORKBOOK = b"\xd0\xcf\x11\xe0"
OTHER_FORMATS = {
    re.escape(OLD_WORKBOOK): ("an Excel workbook", "save the sheet as CSV"),
    rb"SQLite f": ("an SQLite database", "select the rows in Python and pass them, or write them to a CSV file"),
    rb"\x28\xb5\x2f\xfd": ("a zstd archive", "unpack it, and pass the file in it"),
    rb"7z\xbc\xaf": ("a 7z archive", "unpack it, and pass the file in it"),
    rb"ARROW1": ("an Arrow (Feather) file", "write it as Parquet, or read it with polars and pass the frame"),
    rb"\s*\[\s*\{": ("a JSON array", "write one JSON object in each line, without brackets and commas around them"),
}
"""Formats that are not read, by how a file begins; what to do instead."""
BROKEN = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, OSError, RuntimeError, ValueError)
JSON_BYTES = 1 << 20  # a first line that is longer is no line of a table
SAMPLE_ROWS = 100


@dataclass(frozen=True)
class Table:
    """Columns of equal length, as they were found."""

    found: Mapping[str, pl.Series | Sequence[object]]
    """By role, where roles were asked for; else by name."""
    origin: Origin
    text: bool = False
    """Whether all cells are text, so that ids may be integers written as text."""
    headed: bool = True
    """Whether the names are the source's own."""
    skipped: tuple[int, ...] = ()
    """Lines that were left out."""
    of_file: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.found)

    @cached_property
    def columns(self) -> tuple[Sequence[object], ...]:
        """The cells as Python objects."""
        return tuple(cells.to_list() if isinstance(cells, pl.Series) else cells for cells in self.found.values())

    @property
    def height(self) -> int:
        return len(next(iter(self.found.values())))

    @property
    def label(self) -> str:
        """The name of the source for display: a file without its folders."""
        return Path(self.origin.name).name if self.of_file else "table"

    def has_any(self, column: str) -> bool:
        """Whether there is such a column with something in it: Surprise keeps an empty place for times."""
        return column in self.found and self.series(column).null_count() < self.height

    def series(self, column: str) -> pl.Series:
        """The cells of a column for polars."""
        return series_of(self.found[column], column, self.origin)

    def error(self, row: int, column: str, problem: str, remedy: str) -> DataError:
        """The error about one cell."""
        labels = {column: f"column {quoted(column)}"} | dict(self.origin.labels)
        return replace(self.origin, labels=labels).error(row, column, problem, remedy)

    def ids(self, *positions: int) -> list[pl.Series]:
        """The ids in some columns: integers if all of them are, or are written so in a text; else strings."""
        found = []
        for position in positions:
            name = self.names[position]
            origin = replace(self.origin, labels={name: f"column {quoted(name)}"})
            series = series_of(self.found[name], name, origin, ids="alike")
            found.append((series, cells.ids(series, name, origin, text=self.text)))
        integers = all(isinstance(read, np.ndarray) for _, read in found)
        return [pl.Series(read) if integers else series.cast(pl.String) for series, read in found]

    def position(self, column: str | int, keyword: str) -> int:
        """The position of a column that the caller gave by name or position from 0, in the argument `keyword`."""
        if isinstance(column, int):
            if not 0 <= column < len(self.names):
                problem = f"{column} is not the position of a column; there are {len(self.names)}"
                raise DataError(problem, f"pass {keyword}=..., from 0 to {len(self.names) - 1}", where=self.origin.name)
            return column
        if column in self.names:
            return self.names.index(column)
        problem = f"there is no column {column!r}; found {listed(self.names)}"
        raise DataError(problem, f"pass one of them as {keyword}=...", where=self.origin.name)

    def without(self, rows: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> "Table":
        """The table without some rows (n,), whose lines are noted as skipped."""
        gone = tuple(self.origin.line(int(row)) for row in np.flatnonzero(rows))
        return replace(self.only(~rows), skipped=tuple(sorted(self.skipped + gone)))

    def only(self, rows: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> "Table":
        """The table of some rows (n,); the others mean nothing."""
        found = {name: self.series(name).filter(pl.Series(rows)) for name in self.names}
        return replace(self, found=found, origin=self.origin.kept(rows))


def read_table(source: object, wanted: Wanted | Everything, options: ReadOptions = DEFAULTS) -> Table:
    """The wanted columns of `source`, whatever it is: by role, or all of them by name."""
    if isinstance(source, (str, os.PathLike)):
        return replace(_read_file(Path(source), wanted, options), of_file=True)
    if options.separator is not None or options.header is not None:
        raise DataError("separator and header are for text files", "leave them out for frames, arrays and tuples")
    if isinstance(source, Table):
        return _chosen(source, wanted)
    named = _named_columns_of(source, wanted)
    columns = None if named or isinstance(wanted, Everything) else _columns_in_order(source, wanted)
    rows = [] if named or columns is not None else _rows_of(source, wanted)
    named = named or _named_cells_of(rows, wanted)
    if named is not None:
        return _from_columns(*named, wanted)
    if isinstance(wanted, Wanted) and any(column is not None for column in wanted.given.values()):
        said = ", ".join(f"{role}=" for role, column in wanted.given.items() if column is not None)
        raise DataError(f"{said} names a column, which this source does not", "arrays and tuples have an order")
    if columns is not None and isinstance(wanted, Wanted):
        return _from_arrays(columns, wanted)
    return _from_rows(rows, wanted)


def read_raw(
    source: object,
    *,
    names: Sequence[str] | None = None,
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    id: str | int | None = None,
    familiar: Collection[str] = (),
    least: int = 2,
) -> Table:
    """All cells of a file, a frame or an iterable of tuples, by the names of their columns.

    `familiar` are names that make a line a header; a file has at least `least` columns.
    """
    if isinstance(id, str) and names is None and isinstance(source, (str, os.PathLike)):
        header = header is not False  # a column that is called by name has one
    options = ReadOptions.of(separator=separator, header=header, encoding=encoding)
    return read_table(source, Everything(names, familiar, least), options)


class Named(NamedTuple):
    """A source whose columns have names."""

    label: str
    """What errors call it."""
    names: Sequence[str]
    column: Callable[[int], Any]
    """The cells of the column at a position."""


def _named_columns_of(source: Any, wanted: Wanted | Everything) -> Named | None:
    """The columns of a source with names; None without names."""
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, pl.DataFrame):
        return Named("the polars DataFrame", source.columns, source.to_series)
    if type(source).__name__ == "Series" and hasattr(source, "to_frame"):
        raise DataError("found a Series, which is one column", "pass a frame; in pandas, series.reset_index()")
    if _is_pandas(source):
        if isinstance(wanted, Wanted) and _is_pivot(source):
            return None
        # As after groupby or set_index, what is in the index and has a name is a column too.
        index = [name for name in source.index.names if name is not None and name not in source.columns]
        frame = source.reset_index(level=index) if index else source
        return Named("the pandas DataFrame", [*map(str, frame.columns)], lambda at: pandas_values(frame.iloc[:, at]))
    if hasattr(source, "__arrow_c_stream__"):  # pyarrow, duckdb and others: the interface of Arrow for tables
        arrow = pl.DataFrame(source)
        return Named("the Arrow table", arrow.columns, arrow.to_series)
    if hasattr(source, "fetchall") and (hasattr(source, "keys") or getattr(source, "description", None)):
        # A result of SQLAlchemy, or a cursor of a database.
        names = [*source.keys()] if hasattr(source, "keys") else [column[0] for column in source.description]
        rows = [row.values() if isinstance(row, Mapping) else row for row in source.fetchall()]
        cells = [*zip(*rows, strict=True)] or [()] * len(names)
        return Named("the result of the query", names, lambda at: list(cells[at]))
    if fields := getattr(getattr(source, "dtype", None), "names", None):
        return Named("the array", fields, lambda at: source[fields[at]])
    if isinstance(source, Mapping) and not hasattr(source, "tocoo"):
        return Named("the columns", [*map(str, source)], [*source.values()].__getitem__)
    if isinstance(getattr(source, "column_names", None), (list, tuple)) and hasattr(source, "__getitem__"):
        return Named("the data set", source.column_names, lambda at: list(source[source.column_names[at]]))
    return None


def _named_cells_of(rows: Sequence[Any], wanted: Wanted | Everything) -> Named | None:
    """The columns of rows that are dicts, rows of a database or named tuples; None of those without usual names."""
    if rows and all(hasattr(row, "keys") for row in rows):
        names = list(dict.fromkeys(chain.from_iterable(row.keys() for row in rows)))
        return Named("the rows", [*map(str, names)], lambda at: [_cell(row, names[at]) for row in rows])
    fields = getattr(rows[0], "_fields", ()) if rows else ()
    usual = recognised(fields)
    if isinstance(wanted, Everything):
        named = any(usual.values())
    else:
        said = any(column is not None for column in wanted.given.values())
        named = len(fields) > 0 and (said or all(usual[role] for role in wanted.required))
    return Named("the rows", fields, lambda at: [row[at] for row in rows]) if named else None


def _cell(row: Any, name: object) -> Any:
    return row[name] if name in row.keys() else None  # noqa: SIM118  # a row of sqlite3 has keys, and iterates cells


def _is_pandas(source: object) -> bool:
    pandas = sys.modules.get("pandas")  # whoever hands in a pandas frame has imported it
    return pandas is not None and isinstance(source, pandas.DataFrame)


def _is_pivot(frame: Any) -> bool:
    """Whether a pandas frame is a pivot table: rows and columns are ids, and both have names."""
    return frame.columns.name is not None and frame.index.name is not None


def _columns_in_order(source: Any, wanted: Wanted) -> tuple[Any, ...] | None:
    """The columns of a source without names, in the order of `wanted`; None if it has rows."""
    if wanted.required[:2] == ("user", "item"):
        if hasattr(source, "tocoo"):  # a sparse matrix, whose ids are its positions
            matrix = source.tocoo()
            return (matrix.row, matrix.col, matrix.data)[: wanted.lengths[-1]]
        if _is_pandas(source):
            values = source.to_numpy(dtype=np.float64, na_value=np.nan)
            at = np.nonzero(~np.isnan(values))
            found = (source.index.to_numpy()[at[0]], source.columns.to_numpy()[at[1]], values[at])
            return found[: wanted.lengths[-1]]
    if getattr(source, "ndim", 0) == 2 and hasattr(source, "__array__") and not getattr(source, "is_sparse", False):
        return _columns_of(np.asarray(source), wanted)
    source = getattr(source, "tensors", source)  # of a torch TensorDataset
    if not isinstance(source, (tuple, list)):
        return None
    if len(source) not in wanted.lengths:
        if source and all(hasattr(part, "__array__") and hasattr(part, "__len__") for part in source):
            problem = f"found {len(source)} arrays where ({wanted.order('s')}) belong"
            raise DataError(problem, f"pass these, or ({wanted.order()}) tuples")
        return None
    # A list holds rows, unless all of it are arrays; a tuple may hold columns, unless these are rows themselves.
    rows_are = (tuple, str, bytes, dict, set)
    rows = any(
        isinstance(part, rows_are) or hasattr(part, "_fields") or not hasattr(part, "__len__") for part in source
    )
    are_columns = not rows if isinstance(source, tuple) else all(hasattr(part, "__array__") for part in source)
    return tuple(source) if are_columns else None


def _rows_of(source: Any, wanted: Wanted | Everything) -> list[Any]:
    """The rows of a source; DataError if it has none."""
    listed = hasattr(source, "__getitem__") and hasattr(source, "__len__")  # a torch data set
    unreadable = (bytes, set) if isinstance(wanted, Wanted) else (dict, bytes, set, np.ndarray)
    if isinstance(source, unreadable) or not (isinstance(source, Iterable) or listed):
        raise DataError(
            f"cannot read {wanted.what} from {type(source).__name__}",
            f"pass a path, a polars or pandas DataFrame, an Arrow table{wanted.others}",
        )
    return list(source) if isinstance(source, Iterable) else [source[at] for at in range(len(source))]


def _read_file(path: Path, wanted: Wanted | Everything, options: ReadOptions) -> Table:
    with explained(path, wanted.file), path.open("rb") as file:
        magic = file.read(8)
        if magic.startswith(PARQUET) or path.suffix == ".parquet":
            return _read_parquet(path, magic, wanted)
        if magic.startswith(OLD_WORKBOOK) or (magic.startswith(b"PK") and _is_workbook(path)):
            return _read_workbook(path, wanted)
        refuse_other_formats(magic, path)
        if file.seekable():
            file.seek(0)  # a copy less of a large file
            magic = b""
        data = unpacked(magic + file.read(), path, wanted.file)
    name = str(path)
    if is_json_lines(data):
        return _read_json_lines(data.removeprefix(BYTE_ORDER_MARK), name, wanted)
    cut = cut_text(data, name, wanted, options)
    return Table(cut.columns, cut.origin, True, cut.headed, cut.skipped)


def refuse_other_formats(magic: bytes, path: Path) -> None:
    """DataError if a file that begins with `magic` (8 bytes) has a format that is not read."""
    for beginning, (what, remedy) in OTHER_FORMATS.items():
        if re.match(beginning, magic):
            raise DataError(f"this is {what}", remedy, where=str(path))


@contextmanager
def explained(path: Path, wanted: str) -> Iterator[None]:
    """Turn errors of reading `path` into a DataError; `wanted` says which file should be there."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(
            "there is no such file", f"check the path (the current folder is {Path.cwd()})", where=str(path)
        ) from error
    except IsADirectoryError as error:
        raise DataError("this is a folder", f"pass {wanted} in it", where=str(path)) from error
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror})", "check the path and its permissions", where=str(path)
        ) from error


def is_packed(magic: bytes, path: Path) -> bool:
    return magic.startswith(tuple(PACKED)) or path.suffix in {ending for _, ending in PACKED.values()}


def unpacked(data: bytes, path: Path, wanted: str = "the file") -> bytes:
    """The bytes of a file that may be packed: gzip, bzip2, xz, or a zip with one file in it."""
    for signature, (kind, _) in PACKED.items():
        if data.startswith(signature):
            try:
                return _unzipped(data, path, wanted) if kind == "zip" else _UNPACK[kind](data)
            except DataError:
                raise
            except BROKEN as error:
                raise DataError(
                    f"the {kind} data is broken or cut short ({error})", "fetch the file again", where=str(path)
                ) from error
    for kind, ending in PACKED.values():
        if path.suffix == ending and data:
            raise DataError(
                f"this is not {kind} data", f"rename it without {ending}, or fetch the file again", where=str(path)
            )
    return data


def _unzipped(data: bytes, path: Path, wanted: str) -> bytes:
    """The one file in a zip archive; DataError if there are more."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        # A Mac puts what it knows of a file beside it.
        found = [member for member in archive.infolist() if not member.is_dir()]
        members = [member for member in found if not member.filename.startswith("__MACOSX/")]
        if len(members) != 1:
            inside = listed([member.filename for member in members]) or "nothing"
            problem = f"this is a zip archive of {len(members)} files: {inside}"
            raise DataError(problem, f"unpack it and pass {wanted} in it", where=str(path))
        return archive.read(members[0])


_UNPACK = {"gzip": gzip.decompress, "bzip2": bz2.decompress, "xz": lzma.decompress}


def is_json_lines(data: bytes) -> bool:
    """Whether the first line is a JSON object."""
    first = data[:JSON_BYTES].removeprefix(BYTE_ORDER_MARK).lstrip()
    if not first.startswith(b"{"):
        return False
    try:
        return isinstance(json_of(first.partition(b"\n")[0]), dict)
    except ValueError:
        return False


def _read_json_lines(data: bytes, name: str, wanted: Wanted | Everything) -> Table:
    try:
        frame = pl.read_ndjson(data, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as problem:
        for number, line in enumerate(data.splitlines(), 1):
            try:
                whole = not line.strip() or isinstance(json_of(line), dict)
            except ValueError:
                whole = False
            if not whole:
                raise DataError(
                    f"found {quoted(line.decode(errors='replace'))} where a JSON object belongs",
                    'write one in each line, such as {"user": 1, "item": 2, "rating": 3}',
                    where=Place(name, "line", number),
                ) from problem
        raise DataError(
            f"the lines of JSON cannot be read as a table ({str(problem).splitlines()[0]})",
            "give each name values of one kind",
            where=name,
        ) from problem
    table = from_frame(frame, name, wanted)
    filled = [number for number, line in enumerate(data.splitlines(), 1) if line.strip()]
    lines = None if not filled or filled[-1] == len(filled) else np.array(filled, np.int64)
    return replace(table, origin=replace(table.origin, unit="line", lines=lines, skippable=wanted.skippable))


def _read_parquet(path: Path, magic: bytes, wanted: Wanted | Everything) -> Table:
    name = str(path)
    if not magic:
        raise DataError("the file is empty", wanted.empty.format(unit="row"), where=name)
    try:
        names = list(pl.read_parquet_schema(path))
        first = pl.read_parquet(path, n_rows=SAMPLE_ROWS, glob=False) if wanted.judges_cells else None
        used = wanted.columns(names, len(names), () if first is None else as_text(first.rows()), name)
        frame = pl.read_parquet(path, columns=[names[position] for position in used.values()], glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"not a Parquet file, or a broken one ({reason})", "write or fetch it again", where=name
        ) from error
    if isinstance(wanted, Wanted):
        wanted = wanted.settled(used, names)
    return from_frame(frame, name, wanted)


def _is_workbook(path: Path) -> bool:
    """Whether a zip archive is an Excel workbook."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.startswith("xl/workbook.") for name in archive.namelist())


def _read_workbook(path: Path, wanted: Wanted | Everything) -> Table:
    """The one sheet of an Excel workbook that has rows."""
    as_csv = "save the sheet as CSV"
    if find_spec("fastexcel") is None:
        found = "this is an Excel workbook, which is read by a package that is not installed"
        raise DataError(found, f"run pip install fastexcel, or {as_csv}", where=str(path))
    try:
        sheets = pl.read_excel(path, sheet_id=0, raise_if_empty=False)
    except Exception as error:  # fastexcel has a dozen of its own
        found = f"this Excel workbook cannot be read ({next(iter(str(error).splitlines()), type(error).__name__)})"
        raise DataError(found, as_csv, where=str(path)) from error
    filled = [name for name, frame in sheets.items() if frame.height]
    if len(filled) != 1:
        found = f"this Excel workbook has {len(filled)} sheets with rows: {listed(filled) or 'none'}"
        raise DataError(found, f"{as_csv} that has {wanted.what}", where=str(path))
    return from_frame(sheets[filled[0]], str(path), wanted)


def from_frame(frame: pl.DataFrame, name: str, wanted: Wanted | Everything) -> Table:
    """The wanted columns of a frame, which errors call `name`."""
    return _from_columns(name, frame.columns, frame.to_series, wanted)


def _from_columns(name: str, found: Sequence[str], column: Callable[[int], Any], wanted: Wanted | Everything) -> Table:
    """The table of a source whose columns have names; `column` gives the cells of one by its position."""
    if isinstance(wanted, Everything):
        if wanted.names is not None:
            raise DataError(
                "names= is for files without a header", "rename the columns of the frame instead", where=name
            )
        refuse_repeated(found, name)
        table = Table({key: _objects(column(at)) for at, key in enumerate(found)}, Origin(name))
    else:
        shown = range(len(found)) if wanted.judges_cells else ()
        first = [series_of(column(at), "column", Origin(name)).head(SAMPLE_ROWS) for at in shown]
        used = wanted.columns(found, len(found), as_text(zip(*first, strict=True)), name)
        origin = Origin(name, labels=wanted.labels(found, used))
        columns = {role: series_of(column(at), role, origin, ids=wanted.ids_in(role)) for role, at in used.items()}
        table = Table(columns, origin)
    if not table.found or not table.height:
        needed = "each id needs one" if isinstance(wanted, Everything) else _needs_a_row(wanted)
        raise DataError("there are no rows", needed, where=name)
    return table


def _objects(values: Any) -> Any:
    """Cells of any kind, as Python objects unless they are a series."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        values = values.astype("datetime64[us]")  # of nanoseconds, Python would make integers
    return values.tolist() if isinstance(values, np.ndarray) else values


def _needs_a_row(wanted: Wanted) -> str:
    return f"each {wanted.one} needs a row: {', '.join(wanted.required)}"


def as_text(rows: Iterable[Sequence[object]]) -> list[list[str]]:
    """The first rows of a frame as those of a text file."""
    return [["" if cell is None else str(cell) for cell in row] for row in rows]


def _chosen(table: Table, wanted: Wanted | Everything) -> Table:
    """Columns by role of a table whose columns are there by name."""
    if isinstance(wanted, Everything):
        return table
    names = table.names if table.headed else None
    used = wanted.columns(names, len(table.names), (), table.origin.name)
    found = {role: table.found[table.names[at]] for role, at in used.items()}
    return replace(table, found=found, origin=replace(table.origin, labels=wanted.labels(names, used)))


def _columns_of(rows: "np.ndarray[Any, Any]", wanted: Wanted) -> tuple[Any, ...]:
    """The columns of an array (n, columns): ids are integers, also in an array of floats."""
    if rows.shape[1] not in wanted.lengths:
        raise DataError(f"found an array of the shape {rows.shape}", f"the columns are ({wanted.order()})")
    columns: list[Any] = list(rows.T)
    for at, role in enumerate(wanted.by_position[: len(columns)]):
        if rows.dtype == np.object_:
            columns[at] = columns[at].tolist()
        elif wanted.ids_in(role) and rows.dtype.kind == "f" and (columns[at] == np.floor(columns[at])).all():
            columns[at] = columns[at].astype(np.int64)
    return tuple(columns)


def _from_arrays(source: Any, wanted: Wanted) -> Table:
    roles = wanted.by_position[: len(source)]
    origin = Origin("the arrays", labels={role: f"the {role}s" for role in roles})
    lengths = {role: len(part) for role, part in zip(roles, source, strict=True)}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} {role}s" for role, length in lengths.items())
        raise DataError(f"the arrays differ in length: {found}", f"each {wanted.one} needs one entry in every array")
    if not next(iter(lengths.values())):
        raise DataError("there are no rows", _needs_a_row(wanted), where="the arrays")
    columns = zip(roles, source, strict=True)
    return Table({role: series_of(part, role, origin, ids=wanted.ids_in(role)) for role, part in columns}, origin)


def _from_rows(source: Sequence[Any], wanted: Wanted | Everything) -> Table:
    whole = isinstance(wanted, Everything)
    such = "tuples such as (id, tag)" if isinstance(wanted, Everything) else f"({wanted.order()}) tuples"
    lengths = range(sys.maxsize) if isinstance(wanted, Everything) else wanted.lengths
    rows: list[Sequence[Any]] = []
    for number, row in enumerate(source, 1):
        where = Place("the tuples", "row", number)
        if not isinstance(row, Sequence) or isinstance(row, (str, bytes)) or len(row) not in lengths:
            remedy = f"pass {such}"
            if isinstance(wanted, Wanted) and isinstance(row, list):
                remedy += f", or columns in a tuple: ({wanted.order('s')})"
            elif isinstance(wanted, Wanted) and wanted.one == "pair" and isinstance(row, tuple):
                remedy += ", without ratings"
            raise DataError(f"found {quoted(row)}", remedy, where=where)
        if rows and len(row) != len(rows[0]):
            problem = f"found {len(row)} entries where the first row has {len(rows[0])}"
            raise DataError(problem, f"give all of them {'the same' if whole else 'a time, or none'}", where=where)
        rows.append(row)
    if not rows or not rows[0]:
        raise DataError("there are none", f"pass at least one: {such}", where="the tuples")
    columns = [list(column) for column in zip(*rows, strict=True)]
    if isinstance(wanted, Everything):
        given = checked_names(wanted.names, len(columns), "the tuples")
        return Table(dict(zip(given, columns, strict=True)), Origin("the tuples"), headed=False)
    roles = wanted.by_position[: len(columns)]
    origin = Origin("the tuples", labels={role: f"the {role}" for role in roles})
    parts = zip(roles, columns, strict=True)
    return Table({role: series_of(part, role, origin, ids=wanted.ids_in(role)) for role, part in parts}, origin)


# Back to a file


def check_ending(path: Path) -> list[str]:
    """The file extensions that give the format, such as [".csv", ".gz"]; DataError if there are none."""
    endings = path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]
    if endings not in ([".csv"], [".tsv"], [".parquet"], [".csv", ".gz"], [".tsv", ".gz"]):
        raise DataError(
            "cannot tell the format", "end the name in .csv, .tsv, .csv.gz, .tsv.gz or .parquet", where=str(path)
        )
    return endings


def write_frame(frame: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write `frame` to `path`; the ending says how. The file appears when it is complete and on the disk."""
    target = Path(path)
    endings = check_ending(target)
    with replacing(target, DataError) as draft, draft.open("wb") as file:
        if endings[-1] == ".gz":
            # No name and no time inside: the same ratings give the same bytes.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                _write_text(frame, cast(IO[bytes], packed), ENDINGS[endings[0]])
        elif endings[0] == ".parquet":
            frame.write_parquet(file)
        else:
            _write_text(frame, file, ENDINGS[endings[0]])


def _write_text(frame: pl.DataFrame, file: IO[bytes], separator: str) -> None:
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    special = any(frame[name].str.contains(r'[\r\n\t",;|:]|^ | $').any() for name in texts)
    # Quotes throughout if any cell needs them: what a reader has to guess is then the same in every line.
    frame.write_csv(file, separator=separator, quote_style="non_numeric" if special else "never")
