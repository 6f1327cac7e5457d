"""Files, frames and tuples of side information -> a table of raw cells and its ids."""

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cofill.data.features.layout import TextOptions, checked_names, cut_text, refuse_repeated
from cofill.data.features.table import RawTable
from cofill.data.origin import Origin, quoted
from cofill.data.reading import PARQUET, explained, pandas_values, refuse_archive, unpacked
from cofill.data.text import decoded
from cofill.errors import DataError

HERE = "the file with the features"


def read_raw(
    source: object,
    *,
    names: Sequence[str] | None,
    separator: str | None,
    header: bool | None,
    encoding: str,
    id: str | int | None = None,
    familiar: Collection[str] = (),
    least: int = 2,
) -> RawTable:
    """The cells of a file, a frame or an iterable of tuples.

    `familiar` are names that make a line a header; a file has at least `least` columns.
    """
    import polars as pl

    if isinstance(source, (str, os.PathLike)):
        if isinstance(id, str) and names is None:
            header = header is not False  # a column that is called by name has one
        text_options = TextOptions(names, separator, header, familiar, least)
        return _read_file(Path(source), encoding, text_options)
    if separator is not None or header is not None:
        raise DataError("separator and header are for text files; leave them out for frames and tuples")
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, pl.DataFrame):
        return _from_columns("the polars DataFrame", source.columns, [column.to_list() for column in source], names)
    pandas = sys.modules.get("pandas")  # whoever hands in a pandas frame has imported it
    if pandas is not None and isinstance(source, pandas.DataFrame):
        frame: Any = source
        columns = [_listed(pandas_values(frame.iloc[:, position])) for position in range(frame.shape[1])]
        return _from_columns("the pandas DataFrame", [str(name) for name in frame.columns], columns, names)
    if isinstance(source, Iterable) and not isinstance(source, (dict, bytes, set, np.ndarray)):
        return _from_tuples(source, names)
    raise DataError(
        f"cannot read features from {type(source).__name__}; pass a path, a polars or pandas DataFrame, tuples of tags "
        "or links, or (ids, vectors)"
    )


def _listed(values: Any) -> list[object]:
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        values = values.astype("datetime64[us]")  # of nanoseconds, Python would make integers
    return list(values) if isinstance(values, list) else list(values.tolist())


def _from_columns(
    name: str, found: Sequence[str], columns: Sequence[Sequence[object]], names: Sequence[str] | None
) -> RawTable:
    if names is not None:
        raise DataError(f"{name}: names= is for files without a header; rename the columns of the frame instead")
    refuse_repeated(found, name)
    if not columns or not len(columns[0]):
        raise DataError(f"{name}: there are no rows; each id needs one")
    return RawTable(tuple(found), tuple(columns), Origin(name), text=False, headed=True)


def _from_tuples(source: Iterable[Any], names: Sequence[str] | None) -> RawTable:
    rows: list[Sequence[Any]] = []
    for number, row in enumerate(source, 1):
        if not isinstance(row, (tuple, list)):
            raise DataError(f"the tuples, row {number}: found {quoted(row)}; pass tuples such as (id, tag)")
        if rows and len(row) != len(rows[0]):
            raise DataError(
                f"the tuples, row {number}: found {len(row)} entries where the first row has {len(rows[0])}; "
                "give all of them the same"
            )
        rows.append(row)
    if not rows or not rows[0]:
        raise DataError("the tuples: there are none; pass at least one, such as (id, tag)")
    columns = tuple(list(column) for column in zip(*rows, strict=True))
    given = checked_names(names, len(columns), "the tuples")
    return RawTable(given, columns, Origin("the tuples"), text=False, headed=False)


def _read_file(path: Path, encoding: str, options: TextOptions) -> RawTable:
    name = str(path)
    with explained(path, HERE), path.open("rb") as file:
        data = file.read()
    if data.startswith(PARQUET) or path.suffix == ".parquet":
        return _read_parquet(data, name, options.names)
    refuse_archive(data[:8], name, HERE)
    return cut_text(_decoded(unpacked(data, path), name, encoding), name, options)


def _decoded(data: bytes, name: str, encoding: str) -> str:
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        return decoded(data, name)
    try:
        return data.decode(encoding)
    except LookupError as error:
        raise DataError(f"{name}: there is no encoding {encoding!r}; pass one such as 'utf-8' or 'latin-1'") from error
    except UnicodeError as error:
        raise DataError(
            f"{name}: the file is not written in {encoding} ({error}); pass another encoding=..."
        ) from error


def _read_parquet(data: bytes, name: str, names: Sequence[str] | None) -> RawTable:
    import polars as pl

    try:
        frame = pl.read_parquet(data)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name}: not a Parquet file, or a broken one ({reason}); write or fetch it again") from error
    return _from_columns(name, frame.columns, [column.to_list() for column in frame], names)
