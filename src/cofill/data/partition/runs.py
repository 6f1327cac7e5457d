"""Ratings on their way into buckets: runs on disk, each sorted by bucket, so that a bucket is a slice of each run.

A column belongs to the bucket that the hash of its id says, whatever else is in the data. Ids of columns may be more
than fit into memory and are written with every rating; ids of rows are known to everybody, and become codes.
"""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from cofill.config import Orientation
from cofill.data.partition.streaming import Chunk
from cofill.data.ratings import Spread, Times
from cofill.data.vocabulary import Id, id_keys
from cofill.errors import DataError
from cofill.files import explain_write_failure

if TYPE_CHECKING:
    import polars as pl

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
MOST_BUCKETS = 1 << 16
REMEMBERED = 4_000_000
"""Columns whose buckets are remembered; then all are forgotten, so that memory stays bounded."""
BETWEEN = "\0"  # no id has it


def buckets_of(ids: Iterable[Id], buckets: int) -> npt.NDArray[np.uint16]:
    """(n,): the bucket of each id."""
    return np.asarray(id_keys(ids) % np.uint64(buckets), np.uint16)


@dataclass(frozen=True)
class Entries:
    """Some ratings by bucket, and in a bucket in the order in which they were found."""

    buckets: Longs
    """(n,): the bucket of each."""
    columns: "pl.Series"
    """(n,): ids."""
    rows: Ints
    """(n,): codes of row ids, see `Runs.rows`."""
    values: Floats
    times: Times | None


@dataclass(frozen=True)
class _Run:
    """A file: ids of columns, codes of rows, values, times, one array after the other, each by bucket."""

    path: Path
    begins: Longs
    """(buckets + 1,): which entries each bucket has."""
    id_begins: Longs | None
    """(buckets + 1,): the bytes of the ids of each bucket, if they are strings."""
    time_type: str | None

    def entries(self, first: int, last: int) -> Entries:
        """Those of the buckets from `first` to `last`, without it."""
        import polars as pl

        begin, end, count = int(self.begins[first]), int(self.begins[last]), int(self.begins[-1])
        with self.path.open("rb") as file:

            def part(kind: Any, at: int) -> npt.NDArray[Any]:
                item = np.dtype(kind).itemsize
                file.seek(at + begin * item)
                return np.frombuffer(file.read((end - begin) * item), kind)

            if self.id_begins is None:
                columns, at = pl.Series(part(np.int64, 0)), 8 * count
            else:
                at = int(self.id_begins[-1])
                file.seek(int(self.id_begins[first]))
                text = file.read(int(self.id_begins[last] - self.id_begins[first]))
                columns = _apart(text, end - begin)
            rows, values = part(np.int32, at), part(np.float32, at + 4 * count)
            times = None if self.time_type is None else part(self.time_type, at + 8 * count)
        counts = np.diff(self.begins[first : last + 1])
        return Entries(np.repeat(np.arange(first, last), counts), columns, rows, values, times)

    def values(self) -> Floats:
        """All of them."""
        count = int(self.begins[-1])
        at = (8 * count if self.id_begins is None else int(self.id_begins[-1])) + 4 * count
        return np.fromfile(self.path, np.float32, count, offset=at)


def _apart(text: bytes, count: int) -> "pl.Series":
    import polars as pl

    if not count:
        return pl.Series([], dtype=pl.String)
    return pl.Series([text[:-1].decode()]).str.split(BETWEEN).explode()


class Runs:
    """All ratings of a source, in a folder of their own."""

    def __init__(self, folder: Path, buckets: int, orientation: Orientation) -> None:
        self.folder, self.buckets, self._orientation = folder, buckets, orientation
        self.begin()

    def begin(self) -> None:
        """Have none."""
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.mkdir(parents=True)
        except OSError as problem:
            raise DataError(explain_write_failure(self.folder, problem)) from problem
        self._runs: list[_Run] = []
        self._rows = _Numbered()
        self._known = _Bucketed(self.buckets)
        self._titles: pl.DataFrame | None = None
        self.counts = np.zeros(self.buckets, np.int64)
        """(buckets,): how many ratings there are, those that repeat a pair included."""
        self.integers = True
        """Whether the ids of all columns are integers."""

    def end(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def rows(self) -> "pl.Series":
        """The ids of rows in the order of their codes."""
        return self._rows.ids

    @property
    def time_type(self) -> Literal["int64", "float64"] | None:
        """That of all times; None if there are none."""
        found = {run.time_type for run in self._runs}
        return None if found == {None} else "float64" if "float64" in found else "int64"

    def titles(self) -> "dict[str, str]":
        """The titles of items that were found, by their ids as text."""
        return {} if self._titles is None else dict(self._titles.iter_rows())

    def take(self, chunk: Chunk) -> None:
        """Write a run."""
        by_item = self._orientation == "item"
        columns, rows = (chunk.users, chunk.items) if by_item else (chunk.items, chunk.users)
        if chunk.titles is not None:
            self._note_titles(chunk.items, chunk.titles)
        self.add(columns, rows, chunk.values, chunk.times)

    def add(self, columns: "pl.Series", rows: "pl.Series", values: Floats, times: Times | None) -> None:
        """Write a run of entries (n,), given by the ids of their columns and rows."""
        import polars as pl

        codes = self._rows.codes(rows)
        bucket = self._known.buckets_of(columns)
        order = np.argsort(bucket, kind="stable")
        begins = np.zeros(self.buckets + 1, np.int64)
        np.cumsum(np.bincount(bucket, minlength=self.buckets), out=begins[1:])
        columns = columns.gather(order)
        path = self.folder / f"run-{len(self._runs):06d}"
        strings = columns.dtype == pl.String
        id_begins: Longs | None = None
        time_type = None if times is None else str(times.dtype)
        try:
            with path.open("wb") as file:
                if strings:
                    lengths = columns.str.len_bytes().to_numpy().astype(np.int64) + 1
                    ends = np.concatenate([[0], np.cumsum(lengths)])
                    id_begins = ends[begins]
                    file.write((columns.str.join(BETWEEN).item() + BETWEEN).encode() if len(columns) else b"")
                else:
                    file.write(columns.to_numpy().tobytes())
                for array in (codes[order], values[order], *([] if times is None else [times[order]])):
                    file.write(array.tobytes())
        except OSError as problem:
            raise DataError(explain_write_failure(path, problem)) from problem
        self._runs.append(_Run(path, begins, id_begins, time_type))
        self.counts += np.diff(begins)
        self.integers = self.integers and not strings

    def entries(self, first: int, last: int) -> Entries:
        """Those of the buckets from `first` to `last`, without it; ids are of one type throughout."""
        import polars as pl

        kind = pl.Int64 if self.integers else pl.String
        parts = [run.entries(first, last) for run in self._runs]
        buckets = np.concatenate([part.buckets for part in parts])
        order = np.argsort(buckets, kind="stable")  # of the runs one after the other: those of a bucket stay in order
        times: Any = None
        if all(part.times is not None for part in parts):
            # Whole seconds become floats where others have fractions.
            times = np.concatenate([np.asarray(part.times, self.time_type) for part in parts])[order]
        return Entries(
            buckets[order],
            pl.concat([part.columns.cast(kind) for part in parts]).gather(order),
            np.concatenate([part.rows for part in parts])[order],
            np.concatenate([part.values for part in parts])[order],
            times,
        )

    def spread(self, middle: float) -> Spread:
        """How the values lie around the middle of what they span."""
        found = Spread()
        for run in self._runs:
            found |= Spread.of(run.values(), middle)
        return found

    def groups(self, most: int) -> Iterator[tuple[int, int]]:
        """Ranges of buckets that follow each other, with at most that many ratings, or one bucket each."""
        first = 0
        while first < self.buckets:
            last, total = first + 1, int(self.counts[first])
            while last < self.buckets and total + self.counts[last] <= most:
                total += int(self.counts[last])
                last += 1
            yield first, last
            first = last

    def _note_titles(self, items: "pl.Series", titles: "pl.Series") -> None:
        """Of several titles of an item, the first in alphabetical order counts."""
        import polars as pl

        found = pl.DataFrame({"item": items.cast(pl.String), "title": titles.cast(pl.String)})
        found = found.filter(pl.col("title").str.len_bytes() > 0)
        known = found if self._titles is None else pl.concat([self._titles, found])
        self._titles = known.group_by("item").agg(pl.col("title").min())


class _Numbered:
    """Ids and their codes, in the order in which they were found first. Integers become strings when one is no integer:
    only canonical integers were taken for some, so that each keeps its code."""

    def __init__(self) -> None:
        import polars as pl

        self.ids = pl.Series([], dtype=pl.Int64)

    def codes(self, ids: "pl.Series") -> Ints:
        import polars as pl

        if ids.dtype != self.ids.dtype:
            ids, self.ids = ids.cast(pl.String), self.ids.cast(pl.String)
        new = ids.unique(maintain_order=True)
        new = new.filter(~new.is_in(self.ids.implode()))
        self.ids = pl.concat([self.ids, new])
        numbered = pl.DataFrame({"id": self.ids, "code": np.arange(len(self.ids), dtype=np.int32)})
        joined = pl.DataFrame({"id": ids}).join(numbered, on="id", how="left", maintain_order="left")
        return joined["code"].to_numpy()


class _Bucketed:
    """Buckets of ids, some of which are remembered."""

    def __init__(self, buckets: int) -> None:
        import polars as pl

        self._buckets = buckets
        self._known = {kind: pl.DataFrame(schema={"id": kind, "bucket": pl.UInt16}) for kind in (pl.Int64, pl.String)}

    def buckets_of(self, ids: "pl.Series") -> npt.NDArray[np.uint16]:
        import polars as pl

        kind = pl.String if ids.dtype == pl.String else pl.Int64
        known = self._known[kind]
        new = ids.unique()
        new = new.filter(~new.is_in(known["id"].implode()))
        found = pl.DataFrame({"id": new, "bucket": buckets_of(new.to_list(), self._buckets)})
        known = pl.concat([known, found])
        joined = pl.DataFrame({"id": ids}).join(known, on="id", how="left", maintain_order="left")
        self._known[kind] = known if known.height <= REMEMBERED else known.clear()
        return joined["bucket"].to_numpy()
