"""Ratings of a source that is never whole in memory: a large text, Parquet, or a folder of Parquet.

It is read once. The first piece decides: separator, header, columns, decimal commas, how times are written. A later
line that contradicts it is refused with its number.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cofill.data import cells
from cofill.data.cells import BadCellsError, CommaUse, Origin, TimeForm, TimeUse
from cofill.data.delimited import (
    BYTE_ORDER_MARK,
    SAMPLE_BYTES,
    Passage,
    cut_lines,
    first_layout,
    nothing_below,
    too_many,
)
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
    warn_of_skipped,
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
from cofill.errors import DataError, Place, quoted

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
        if os.fstat(file.fileno()).st_size <= piece_bytes or reading.get("wide"):
            return False
    return begin.startswith(PARQUET) or (utf_8 and not is_packed(begin[:8], path) and not is_json_lines(begin))


class Streaming:
    """One reading of a file or a folder of Parquet files, with the arguments of `Ratings.read`."""

    def __init__(self, path: Path, piece_bytes: int, piece_rows: int, reading: Mapping[str, Any]) -> None:
        call = signature(Ratings.read).bind(path, **reading)
        call.apply_defaults()
        asked = call.arguments
        check_reading(asked["skip_bad_lines"], asked["zero_means"])
        refuse_unknown_alone(asked["unknown"], asked["wide"])
        self._path, self._name = path, str(path)
        self._piece_bytes, self._piece_rows = piece_bytes, piece_rows
        self._skip, self._zero_means = asked["skip_bad_lines"], asked["zero_means"]
        self._options = TextOptions(asked["separator"], asked["header"], asked["encoding"], self._skip)
        self._limits = None if asked["scale"] is None else cells.checked_scale(asked["scale"])
        given: Given = {role: asked[role] for role in ("user", "item", "time", "title")}
        rating = asked["rating"]
        self._wanted = EitherColumns(given) if rating is None else Wanted({**given, "rating": rating})
        self._named = asked["user"] is not None or asked["item"] is not None
        self._first: Table | None = None  # what the first piece is, without its rows
        self._decimal: bool | None = None
        self._form: TimeForm | None = None
        self._count = self._zeros = self._lines = 0
        self._ends = list[tuple[float, Origin, int]]()  # the least and the greatest value, and where they are
        self._skipped: list[int] = []

    def frames(self) -> "Iterator[tuple[pl.DataFrame, float]]":
        """All of it, piece by piece, with the columns user, item, value, and time and title where there are any;
        and how much has been read."""
        text = self._path.is_file()
        if text:
            with self._path.open("rb") as file:
                text = not file.read(len(PARQUET)).startswith(PARQUET)
        for table, share in self._of_text() if text else self._of_parquet():
            frame = self._read(table)
            if frame is not None:
                yield frame, share

    def _of_text(self) -> Iterator[tuple[Table, float]]:
        """Whole lines, some at a time, and how much of the file has been read."""
        with explained(self._path, self._wanted.file), self._path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(self._piece_bytes + SAMPLE_BYTES)
            refuse_other_formats(data[:8], self._path)
            data, line, rows = data.removeprefix(BYTE_ORDER_MARK), 1, 0
            ends = file.tell() == size
            layout = first_layout(data, 0, ends, self._name, self._wanted, self._options, trailing=False)
            while data:
                end = len(data) if ends else data.rfind(b"\n") + 1
                piece = data[:end].rstrip(b"\r\n") + b"\n" if ends else data[:end]
                passage = Passage(self._name, self._wanted, self._options, line, ends, skipped=self._skipped)
                taken = 0
                if piece.strip():
                    cut = cut_lines(piece, 0, layout, passage)
                    taken = end
                    if passage.goes_on is not None:  # a quoted cell goes on below
                        taken = sum(len(one) + 1 for one in piece.split(b"\n")[: passage.goes_on - line])
                    table = Table(cut.columns, cut.origin, True, cut.headed)
                    rows += table.height
                    if table.height:
                        yield table, file.tell() / size
                if not taken and not ends and len(data) > 4 * self._piece_bytes:
                    found = f"no line or quoted cell ends within {len(data) >> 20} MB from here"
                    raise DataError(found, "check line ends and quotes", where=Place(self._name, "line", line))
                line += data.count(b"\n", 0, taken)
                data = b"" if ends else data[taken:] + file.read(self._piece_bytes)
                ends = file.tell() == size
            if not rows:
                raise nothing_below(self._name)

    def _of_parquet(self) -> Iterator[tuple[Table, float]]:
        import polars as pl

        files = [self._path] if self._path.is_file() else parquet_files(self._path)
        if not files:
            raise DataError(
                "this is a folder without a Parquet file in it" if self._path.is_dir() else "there is no such file",
                f"pass {self._wanted.file}, or a folder of Parquet files",
                where=self._name,
            )
        sizes = [file.stat().st_size for file in files]
        roles, settled, kinds = dict[str, str](), self._wanted, dict[str, bool]()
        done = rows = 0
        for file, size in zip(files, sizes, strict=True):
            try:
                schema = pl.read_parquet_schema(file)
                names = list(schema)
                scanned = pl.scan_parquet(file, glob=False)
                if not roles:
                    first = pl.read_parquet(file, n_rows=SAMPLE_ROWS, glob=False).rows()
                    used = self._wanted.columns(names, len(names), as_text(first), str(file))
                    roles = {role: names[at] for role, at in used.items()}
                    settled = self._wanted.settled(used, names)
                for role, name in roles.items():
                    if name not in names:
                        found = f"there is no column {quoted(name)} for the {role}, which {files[0].name} has"
                        raise DataError(found, "give all files of the folder the same columns", where=str(file))
                    integers = schema[name].is_integer()
                    if role in ("user", "item") and kinds.setdefault(role, integers) != integers:
                        are = "integers" if integers else "no integers"
                        found = f"the ids in column {quoted(name)} are {are}, unlike those in {files[0].name}"
                        raise DataError(found, "write all files of the folder with ids of one type", where=str(file))
                height = int(scanned.select(pl.len()).collect().item())
                for begin in range(0, height, self._piece_rows):
                    frame = scanned.select(list(dict.fromkeys(roles.values()))).slice(begin, self._piece_rows).collect()
                    table = from_frame(frame, str(file), settled)
                    rows += frame.height
                    share = (done + size * (begin + frame.height) / height) / sum(sizes)
                    yield replace(table, origin=replace(table.origin, first=1 + begin)), share
            except (pl.exceptions.PolarsError, OSError) as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise DataError(
                    f"not a Parquet file, or a broken one ({reason})", "write or fetch it again", where=str(file)
                ) from error
            done += size
        if not rows:
            needed = f"each {self._wanted.one} needs a row: {', '.join(self._wanted.required)}"
            raise DataError("there are no rows", needed, where=self._name)

    def _read(self, table: Table) -> "pl.DataFrame | None":
        """A piece as a frame, without its bad lines; None if nothing is left of it."""
        if self._first is None:
            self._first = table.only(np.zeros(table.height, np.bool_))
            self._decide(table)
        self._lines += table.height
        if self._zero_means == "unrated":
            table = table.only(~zeros_in(table.series("rating"), self._decimal))
        while table.height:
            try:
                frame = self._frame(table)
                break
            except BadCellsError as error:
                bad = len(self._skipped) + int(np.count_nonzero(error.rows))
                if not self._skip or (error.rows.all() and not self._count):
                    raise
                if bad > self._skip:
                    raise too_many(error, bad) from error
                self._skipped += [table.origin.line(int(row)) for row in np.flatnonzero(error.rows)]
                table = table.only(~error.rows)
        else:
            return None
        values = frame["value"].to_numpy()
        self._count += len(values)
        self._zeros += int(np.count_nonzero(values == 0))
        for row in (int(values.argmin()), int(values.argmax())):
            self._ends.append((float(values[row]), table.origin, row))
        self._ends = [min(self._ends, key=lambda end: end[0]), max(self._ends, key=lambda end: end[0])]
        return frame

    def _decide(self, table: Table) -> None:
        """What the first piece decides for all of them."""
        import polars as pl

        if "rating" not in table.names:
            raise interactions_error(self._name, "there is no column of ratings")
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
        found: dict[str, Any] = {"value": cells.ratings(columns["rating"], origin, self._limits, self._decimal)}
        if "time" in columns:
            found["time"] = cells.times(columns["time"], origin, self._form)
        for role in ("user", "item"):
            found[role] = pl.Series(cells.ids(columns[role], role, origin, text=table.text))
        if "title" in columns:
            found["title"] = columns["title"].cast(pl.String)
        return pl.DataFrame(found)

    def whole(self, spread: Callable[[float], Spread]) -> Whole:
        """What it is, once all frames have been read; warnings are those of `Ratings.read`.

        `spread` tells how all values lie around a middle.
        """
        first = self._first
        assert first is not None
        if not self._count:
            raise only_zeros(self._lines, self._name)
        (low, _, _), (high, _, _) = self._ends
        unclear = isinstance(self._wanted, EitherColumns) and self._limits is None
        if unclear and low == high and self._count >= FEW_LINES:
            raise interactions_error(self._name, f"all {self._count:,} ratings are {low:g}")
        origin = replace(first.origin, name=self._name)
        warn_of_skipped(sorted(self._skipped), origin, f"{self._count:,} ratings are left")
        if self._limits is None:
            around = spread((low + high) / 2)
            if (upper := around.far_side) is not None:
                warn_of_unusual(around, upper, *self._ends[upper])
        if self._zero_means is None:
            warn_of_zeros(self._zeros, self._count, self._name)
        scale = Scale(*self._limits) if self._limits else usual_scale(low, high)
        return Whole(self._name, self._count, scale, first.text and not first.headed and not self._named)


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files in a folder and below, by name; not those that are hidden or marked by an underscore."""
    return sorted(
        path
        for path in folder.rglob("*.parquet")
        if path.is_file() and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )
