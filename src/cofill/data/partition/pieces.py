"""Ratings of a source that is never whole in memory: a large text, Parquet, or a folder of Parquet.

It is read once, some whole lines at a time, by the reader of whole files. The first lines decide: separator, header,
columns, decimal commas, how times are written. A later line that contradicts them is refused with its number.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cofill.data import cells
from cofill.data.cells import CommaUse, Origin, TimeForm, TimeUse
from cofill.data.delimited import BYTE_ORDER_MARK, SAMPLE_BYTES, Passage, cut_lines, first_layout
from cofill.data.interaction_columns import EitherColumns
from cofill.data.layout import TextOptions
from cofill.data.other_formats import refuse_other_formats
from cofill.data.ratings import (
    FEW_LINES,
    Ratings,
    Scale,
    Spread,
    check_reading,
    only_zeros,
    refuse_unknown_alone,
    usual_scale,
    warn_of_unusual,
    warn_of_zeros,
    zeros_in,
)
from cofill.data.roles import Given, Wanted
from cofill.data.table import (
    JSON_BYTES,
    PARQUET,
    SAMPLE_ROWS,
    Table,
    as_text,
    explained,
    from_frame,
    is_json_lines,
    is_packed,
)
from cofill.errors import DataError, quoted

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Whole:
    """What all of a source turned out to be."""

    name: str
    count: int
    """How many ratings were taken, those that repeat a pair included."""
    scale: Scale
    by_position: bool = False
    """Whether the columns were told by their order alone."""


def interactions_error(name: str | None, reason: str = "these are interactions") -> DataError:
    """The refusal of a source without ratings."""
    return DataError(
        f"a partition is for several workers, which train on ratings, and {reason}",
        "train on interactions in one process, without a partition",
        where=name,
    )


def in_pieces(path: Path, piece_bytes: int, reading: Mapping[str, Any]) -> bool:
    """Whether a source is read in pieces: a folder, and a large file of Parquet or of text in UTF-8 that is a table."""
    if path.is_dir():
        return True
    utf_8 = str(reading.get("encoding", "utf-8")).lower().replace("_", "-") in ("utf-8", "utf8")
    with explained(path, "the file"), path.open("rb") as file:
        begin = file.read(JSON_BYTES)
        if os.fstat(file.fileno()).st_size <= piece_bytes or reading.get("wide") or reading.get("skip_bad_lines"):
            return False
    return begin.startswith(PARQUET) or (utf_8 and not is_packed(begin[:8], path) and not is_json_lines(begin))


class Pieces:
    """One reading of a file or a folder of Parquet files, with the arguments of `Ratings.read`."""

    def __init__(self, path: Path, piece_bytes: int, piece_rows: int, reading: Mapping[str, Any]) -> None:
        call = signature(Ratings.read).bind(path, **reading)
        call.apply_defaults()
        asked = call.arguments
        check_reading(asked["skip_bad_lines"], asked["zero_means"])
        refuse_unknown_alone(asked["unknown"], asked["wide"])
        self._path, self._name = path, str(path)
        self._piece_bytes, self._piece_rows = piece_bytes, piece_rows
        self._zero_means = asked["zero_means"]
        self._options = TextOptions(asked["separator"], asked["header"], asked["encoding"], 0)
        self._limits = None if asked["scale"] is None else cells.checked_scale(asked["scale"])
        given: Given = {role: asked[role] for role in ("user", "item", "time", "title")}
        rating = asked["rating"]
        self._wanted = EitherColumns(given) if rating is None else Wanted({**given, "rating": rating})
        self._named = asked["user"] is not None or asked["item"] is not None
        self._by_position = False
        self._decimal: bool | None = None
        self._form: TimeForm | None = None
        self._count = self._zeros = self._lines = 0
        self._ends = list[tuple[float, Origin, int]]()  # the least and the greatest value, and where they are

    def frames(self) -> "Iterator[tuple[pl.DataFrame, float]]":
        """All of it, piece by piece, with the columns user, item, value, and time and title where there are any;
        and how much has been read."""
        text = self._path.is_file()
        if text:
            with self._path.open("rb") as file:
                text = not file.read(len(PARQUET)).startswith(PARQUET)
        for table, share in self._of_text() if text else self._of_parquet():
            if not self._lines:
                self._decide(table)
            self._lines += table.height
            if self._zero_means == "unrated":
                table = table.only(~zeros_in(table.series("rating"), self._decimal))
            if table.height:
                yield self._frame(table), share

    def _of_text(self) -> Iterator[tuple[Table, float]]:
        """Whole lines, some at a time, and how much of the file has been read."""
        with explained(self._path, self._wanted.file), self._path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            refuse_other_formats(file.read(8), self._path)
            file.seek(0)
            layout, line = None, 1
            while lines := file.readlines(self._piece_bytes if layout else self._piece_bytes + SAMPLE_BYTES):
                quotes, limit = sum(one.count(b'"') for one in lines), file.tell() + self._piece_bytes
                while quotes % 2 and file.tell() < limit and (more := file.readline()):  # a quoted cell goes on
                    lines.append(more)
                    quotes += more.count(b'"')
                piece = b"".join(lines)
                if layout is None:
                    piece, ends = piece.removeprefix(BYTE_ORDER_MARK), file.tell() == size
                    layout = first_layout(piece, 0, ends, self._name, self._wanted, self._options, trailing=False)
                if file.tell() == size:
                    piece = piece.rstrip(b"\r\n") + b"\n"  # blank lines at the end mean nothing
                if piece.strip():
                    passage = Passage(self._name, self._wanted, self._options, line)
                    cut = cut_lines(piece, 0, layout, passage)
                    yield Table(cut.columns, cut.origin, True, cut.headed), file.tell() / size
                line += len(lines)

    def _of_parquet(self) -> Iterator[tuple[Table, float]]:
        """Rows of each file, some at a time, and how much has been read."""
        import polars as pl

        files = [self._path] if self._path.is_file() else parquet_files(self._path)
        if not files:
            raise DataError(
                "this is a folder without a Parquet file in it" if self._path.is_dir() else "there is no such file",
                f"pass {self._wanted.file}, or a folder of Parquet files",
                where=self._name,
            )
        roles, settled, integers = dict[str, str](), self._wanted, dict[str, bool]()  # as the first file has them
        rows = 0
        for number, path in enumerate(files):
            try:
                scanned = pl.scan_parquet(path, glob=False)
                types = dict(scanned.collect_schema())
                if not roles:
                    sample = as_text(scanned.head(SAMPLE_ROWS).collect().rows())
                    used = self._wanted.columns(list(types), len(types), sample, str(path))
                    settled = self._wanted.settled(used, list(types))
                    roles = {role: list(types)[at] for role, at in used.items()}
                    integers = {role: types[roles[role]].is_integer() for role in ("user", "item")}
                for role, name in roles.items():
                    if name not in types or types[name].is_integer() != integers.get(role, types[name].is_integer()):
                        kind = "integers" if integers.get(role) else "the same type"
                        found = f"there is no column {quoted(name)} of {kind}, unlike in {files[0].name}"
                        raise DataError(found, "give all files of the folder the same columns", where=str(path))
                height = int(scanned.select(pl.len()).collect().item())
                for begin in range(0, height, self._piece_rows):
                    part = scanned.select(list(dict.fromkeys(roles.values()))).slice(begin, self._piece_rows)
                    table = from_frame(part.collect(), str(path), settled)
                    share = (number + (begin + table.height) / height) / len(files)
                    yield replace(table, origin=replace(table.origin, first=1 + begin)), share
            except (pl.exceptions.PolarsError, OSError) as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise DataError(
                    f"not a Parquet file, or a broken one ({reason})", "write or fetch it again", where=str(path)
                ) from error
            rows += height
        if not rows:
            needed = f"each {self._wanted.one} needs a row: {', '.join(self._wanted.required)}"
            raise DataError("there are no rows", needed, where=self._name)

    def _decide(self, table: Table) -> None:
        """What the first piece decides for all of them."""
        import polars as pl

        if "rating" not in table.names:
            raise interactions_error(self._name, "there is no column of ratings")
        self._by_position = table.text and not table.headed and not self._named
        if (ratings := table.series("rating")).dtype == pl.String:
            use = CommaUse()
            use.see(ratings)
            self._decimal = use.decimal
        if "time" in table.names and (times := table.series("time")).dtype == pl.String:
            form = TimeUse()
            form.see(times)
            self._form = form.form

    def _frame(self, table: Table) -> "pl.DataFrame":
        """The columns user, item, value, and time and title where there are any."""
        import polars as pl

        columns, origin = {role: table.series(role) for role in table.names}, table.origin
        values = cells.ratings(columns["rating"], origin, self._limits, self._decimal)
        found: dict[str, Any] = {"value": values}
        if "time" in columns:
            found["time"] = cells.times(columns["time"], origin, self._form)
        for role in ("user", "item"):
            found[role] = pl.Series(cells.ids(columns[role], role, origin, text=table.text))
        if "title" in columns:
            found["title"] = columns["title"].cast(pl.String)
        self._count += len(values)
        self._zeros += int(np.count_nonzero(values == 0))
        for row in (int(values.argmin()), int(values.argmax())):
            self._ends.append((float(values[row]), origin, row))
        self._ends = [min(self._ends, key=lambda end: end[0]), max(self._ends, key=lambda end: end[0])]
        return pl.DataFrame(found)

    def whole(self, spread: Callable[[float], Spread]) -> Whole:
        """What it is, once all frames have been read; warnings are those of `Ratings.read`.

        `spread` tells how all values lie around a middle.
        """
        if not self._count:
            raise only_zeros(self._lines, self._name)
        (low, _, _), (high, _, _) = self._ends
        unclear = isinstance(self._wanted, EitherColumns) and self._limits is None
        if unclear and low == high and self._count >= FEW_LINES:
            raise interactions_error(self._name, f"all {self._count:,} ratings are {low:g}")
        if self._limits is None:
            around = spread((low + high) / 2)
            if (upper := around.far_side) is not None:
                warn_of_unusual(around, upper, *self._ends[upper])
        if self._zero_means is None:
            warn_of_zeros(self._zeros, self._count, self._name)
        scale = Scale(*self._limits) if self._limits else usual_scale(low, high)
        return Whole(self._name, self._count, scale, self._by_position)


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files in a folder and below, by name; not those that are hidden or marked by an underscore."""
    return sorted(
        path
        for path in folder.rglob("*.parquet")
        if path.is_file() and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )
