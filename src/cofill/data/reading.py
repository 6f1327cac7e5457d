"""Every source of ratings -> a table of columns: files, frames, arrays, tuples."""

import gzip
import mmap
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from cofill.data.origin import Origin, Role, quoted
from cofill.data.roles import Wanted, columns_by_name
from cofill.data.text import Table, read_text
from cofill.errors import DataError

if TYPE_CHECKING:
    import polars as pl

PARQUET = b"PAR1"
GZIP = b"\x1f\x8b"
ARCHIVES = {
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7z",
}


def read_table(source: object, wanted: Wanted, separator: str | None, header: bool | None) -> Table:
    """The columns of `source`, whatever it is."""
    import polars as pl

    if isinstance(source, (str, os.PathLike)):
        return _read_file(Path(source), wanted, separator, header)
    if separator is not None or header is not None:
        raise DataError("separator and header are for text files; leave them out for frames, arrays and tuples")
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, pl.DataFrame):
        return _from_polars(source, "the polars DataFrame", wanted)
    pandas = sys.modules.get("pandas")  # whoever hands in a pandas frame has imported it
    if pandas is not None and isinstance(source, pandas.DataFrame):
        return _from_pandas(source, wanted)
    if any(column is not None for column in wanted.given.values()):
        raise DataError(
            "user=, item=, rating=, time=, title= are for files and frames; arrays and tuples have an order"
        )
    if _are_columns(source, wanted):
        return _from_arrays(source, wanted)
    if isinstance(source, Iterable) and not isinstance(source, (dict, bytes, set)):
        return _from_tuples(source, wanted)
    raise DataError(
        f"cannot read ratings from {type(source).__name__}; pass a path, a polars or pandas DataFrame, "
        "arrays (users, items, ratings[, times]), or (user, item, rating[, time]) tuples"
    )


def _read_file(path: Path, wanted: Wanted, separator: str | None, header: bool | None) -> Table:
    name = str(path)
    with explained(path, "the ratings file"), path.open("rb") as file:
        magic = file.read(8)
        if magic.startswith(PARQUET) or path.suffix == ".parquet":
            return _read_parquet(path, magic, wanted)
        refuse_archive(magic, name, "the ratings file")
        # A pipe has no size and cannot be mapped.
        if os.fstat(file.fileno()).st_size and not magic.startswith(GZIP) and path.suffix != ".gz":
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return read_text(mapped, name, wanted, separator, header)
        data = magic + file.read()
    return read_text(unpacked(data, path), name, wanted, separator, header)


@contextmanager
def explained(path: Path, wanted: str) -> Iterator[None]:
    """Whatever keeps `path` from being read becomes a DataError; `wanted` is the file that should be there."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(
            f"{path}: there is no such file; check the path (the current folder is {Path.cwd()})"
        ) from error
    except IsADirectoryError as error:
        raise DataError(f"{path}: this is a folder; pass {wanted} in it") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error


def refuse_archive(magic: bytes, name: str, wanted: str) -> None:
    """DataError if a file that begins with `magic` is an archive other than gzip."""
    for signature, kind in ARCHIVES.items():
        if magic.startswith(signature):
            raise DataError(f"{name}: this is a {kind} archive; unpack it and pass {wanted} in it")


def unpacked(data: bytes, path: Path) -> bytes:
    """The bytes of a file that may be gzip data."""
    if data.startswith(GZIP):
        try:
            return gzip.decompress(data)
        except (EOFError, zlib.error, OSError) as error:
            raise DataError(f"{path}: the gzip data is broken or cut short ({error}); fetch the file again") from error
    if path.suffix == ".gz" and data:
        raise DataError(f"{path}: this is not gzip data; rename it without .gz, or fetch the file again")
    return data


def _read_parquet(path: Path, magic: bytes, wanted: Wanted) -> Table:
    import polars as pl

    name = str(path)
    if not magic:
        raise DataError(f"{name}: the file is empty; it needs one row for each rating: user, item, rating")
    try:
        names = list(pl.read_parquet_schema(path))
        columns = columns_by_name(names, wanted, name)
        table = pl.read_parquet(path, columns=[names[position] for position in columns.values()], glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name}: not a Parquet file, or a broken one ({reason}); write or fetch it again") from error
    return _from_polars(table, name, replace(wanted, given={role: names[at] for role, at in columns.items()}))


def _from_polars(frame: "pl.DataFrame", name: str, wanted: Wanted) -> Table:
    columns = columns_by_name(frame.columns, wanted, name)
    origin = Origin(name, labels={role: f"column {quoted(frame.columns[at])}" for role, at in columns.items()})
    return _table({role: frame.to_series(position) for role, position in columns.items()}, origin)


def _from_pandas(frame: Any, wanted: Wanted) -> Table:
    import polars as pl

    names = [str(name) for name in frame.columns]
    columns = columns_by_name(names, wanted, "the pandas DataFrame")
    origin = Origin(
        "the pandas DataFrame", labels={role: f"column {quoted(names[at])}" for role, at in columns.items()}
    )
    series: dict[Role, pl.Series] = {}
    for role, position in columns.items():
        values = pandas_values(frame.iloc[:, position])
        series[role] = series_of(values, role, origin)
    return _table(series, origin)


def pandas_values(column: Any) -> Any:
    """The cells of a pandas column as an array, or as a list where some are missing: each of those is None."""
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    missing = column.isna().to_numpy()
    if missing.any() and not (isinstance(column.dtype, np.dtype) and column.dtype.kind == "f"):
        # None, NaN, NaT and pandas.NA all mean the same; polars only knows None.
        return [None if gone else value for value, gone in zip(column.tolist(), missing, strict=True)]
    return column.to_numpy()


def _are_columns(source: object, wanted: Wanted) -> bool:
    """Arrays and lists are columns; tuples are rows."""
    return (
        isinstance(source, (tuple, list))
        and len(source) in wanted.lengths
        and all(hasattr(part, "__len__") and not isinstance(part, (tuple, str, bytes, dict, set)) for part in source)
    )


def _from_arrays(source: Any, wanted: Wanted) -> Table:
    roles = wanted.by_position[: len(source)]
    origin = Origin("the arrays", labels={role: f"the {role}s" for role in roles})
    lengths = {role: len(part) for role, part in zip(roles, source, strict=True)}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} {role}s" for role, length in lengths.items())
        raise DataError(f"the arrays differ in length: {found}; each rating needs one entry in every array")
    return _table({role: series_of(part, role, origin) for role, part in zip(roles, source, strict=True)}, origin)


def _from_tuples(source: Iterable[Any], wanted: Wanted) -> Table:
    origin = Origin("the tuples", labels={role: f"the {role}" for role in wanted.by_position})
    rows: list[Sequence[Any]] = []
    for number, row in enumerate(source, 1):
        if not isinstance(row, (tuple, list)) or len(row) not in wanted.lengths:
            raise DataError(f"the tuples, row {number}: found {quoted(row)}; pass (user, item, rating[, time]) tuples")
        if rows and len(row) != len(rows[0]):
            raise DataError(
                f"the tuples, row {number}: found {len(row)} entries where the first row has {len(rows[0])}; "
                "give all of them a time, or none"
            )
        rows.append(row)
    if not rows:
        raise DataError("the tuples: there are none; pass at least one (user, item, rating)")
    roles = wanted.by_position[: len(rows[0])]
    return _table({role: series_of([row[at] for row in rows], role, origin) for at, role in enumerate(roles)}, origin)


def series_of(values: Any, role: Role, origin: Origin) -> "pl.Series":
    """Values of any kind as a series; ids that are neither all strings nor all integers are refused."""
    import polars as pl

    if isinstance(values, pl.Series):
        return values
    array = values if isinstance(values, (np.ndarray, list)) else np.asarray(values)
    if isinstance(array, np.ndarray):
        if array.ndim != 1:
            raise DataError(f"{origin.name}: the {role}s have shape {array.shape}; pass one dimension")
        if array.dtype.kind == "M":
            return pl.Series(array.astype("datetime64[us]"))
        if array.dtype.kind in "iufb" and array.dtype != np.float16:
            return pl.Series(np.ascontiguousarray(array))
        array = array.tolist()
    plain = [value.item() if isinstance(value, np.generic) else value for value in array]
    if role in ("user", "item"):
        _refuse_mixed(plain, role, origin)
    try:
        return pl.Series(plain, strict=role in ("user", "item"))
    except (TypeError, OverflowError, pl.exceptions.PolarsError, UnicodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{origin.name}: the {role}s cannot be read ({reason}); pass plain numbers and strings"
        ) from error


def _refuse_mixed(ids: Sequence[Any], role: Role, origin: Origin) -> None:
    first_of: dict[type, int] = {}
    for row, id in enumerate(ids):
        if id is not None:
            first_of.setdefault(type(id), row)
    if len(first_of) > 1:
        first, row = sorted(first_of.values())[:2]
        raise origin.error(
            *(row, role, f"found {quoted(ids[row])} ({type(ids[row]).__name__}) beside {quoted(ids[first])}"),
            "ids are all strings or all integers: make them one type",
        )


def _table(columns: "dict[Role, pl.Series]", origin: Origin) -> Table:
    if not len(next(iter(columns.values()))):
        raise DataError(f"{origin.name}: there are no rows; each rating needs a row: user, item, rating")
    ordered: dict[Role, pl.Series] = {role: columns[role] for role in get_args(Role) if role in columns}
    return Table(ordered, origin, text=False)
