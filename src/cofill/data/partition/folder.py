"""Ratings in buckets of columns, as `write_partition` leaves them: what all workers need, and any range of buckets.

    partition.json                  what the partition is: counts, scale, and the files that belong to it; written last
    bucket-00042.safetensors        columns of one bucket: their ids, ratings, times and features
    rows.parquet                    ids of all rows, in ascending order
    titles.parquet                  titles of items, where there are any
    row_features.safetensors        features of rows, and what was learned about them
    row_words.parquet               ids of those features, and what they say in words
    column_features.safetensors     what was learned about the features of columns; their vectors are in the buckets
    column_words.parquet            ids of those features, and what they say in words

A file is read after its size and checksum were found right. Nothing is ever unpickled.
"""

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from cofill.arrays import Arrays, Longs
from cofill.config import Orientation
from cofill.data.described import SideFeatures, side_of
from cofill.data.features import Features
from cofill.data.ratings import Ratings, Scale, Times
from cofill.data.sparse import SparseRows
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import CofillError, DataError
from cofill.manifest import FileCard, Manifest

if TYPE_CHECKING:
    import polars as pl

MANIFEST = "partition.json"
_BETWEEN = "\0"  # ids; no id has it


class PartitionCard(Manifest):
    """partition.json"""

    NAME: ClassVar[str] = MANIFEST
    WHAT: ClassVar[tuple[str, str]] = ("a partition", "make one with `cofill partition`")
    ERROR: ClassVar[type[CofillError]] = DataError
    REMEDY: ClassVar[str] = "copy it again, or run `cofill partition` again"

    format: str = "cofill-partition"
    orientation: Orientation
    scale: tuple[float, float]
    times: Literal["int64", "float64"] | None
    integer_columns: bool
    summary: dict[str, Any]
    ratings_by_bucket: list[int]
    columns_by_bucket: list[int]
    features: dict[str, dict[str, Any]]  # what was learned about those of "rows" and "columns"
    files: dict[str, FileCard]
    buckets: list[FileCard]


def is_partition(folder: Path) -> bool:
    """Whether there is a partition in it."""
    return (folder / MANIFEST).is_file()


@dataclass(frozen=True)
class Shard:
    """The columns of some buckets that follow each other, with their ratings of all rows."""

    columns: Vocabulary
    """Bucket by bucket, and in ascending order in each."""
    by_row: SparseRows
    """All rows, in the order of `Partition.rows`; columns as numbered here."""
    by_column: SparseRows
    times: Times | None
    """(nnz,): when, in the order of the entries of `by_row`; None if it is not known."""
    column_features: SideFeatures


class Partition:
    """A folder with ratings in buckets of columns; only the manifest has been read when it is opened."""

    def __init__(self, folder: Path, manifest: PartitionCard) -> None:
        self.folder = folder
        self._manifest = manifest
        self.orientation: Orientation = manifest.orientation
        """Which side the rows are; the other side are the columns."""
        self.scale = Scale(*manifest.scale)
        self.timed = manifest.times is not None
        self.buckets = len(manifest.buckets)
        self.summary: dict[str, Any] = manifest.summary
        """The main figures, as `DescribedRatings.summary` has them."""
        self.ratings_by_bucket: Longs = np.array(manifest.ratings_by_bucket, np.int64)
        self.columns_by_bucket: Longs = np.array(manifest.columns_by_bucket, np.int64)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "Partition":
        """The partition in a folder; DataError if there is none, or one that was altered or is newer than this code."""
        return cls(Path(folder), PartitionCard.read(Path(folder)))

    def __repr__(self) -> str:
        counts = f"{self.ratings_by_bucket.sum()} ratings, {self.columns_by_bucket.sum()} columns"
        return f"Partition({counts} in {self.buckets} buckets)"

    @property
    def digest(self) -> str:
        """That of everything in it, which tells it from any other partition."""
        return self._manifest.sha256

    @property
    def bytes(self) -> int:
        """What it takes on disk."""
        return sum(file.bytes for file in (*self._manifest.files.values(), *self._manifest.buckets))

    @cached_property
    def rows(self) -> Vocabulary:
        """The ids of all rows, in ascending order, those without ratings included."""
        return self._with_ids("rows")[1]

    @cached_property
    def titles(self) -> dict[Id, str]:
        """Of items, by id."""
        if "titles" not in self._manifest.files:
            return {}
        frame, ids = self._with_ids("titles")
        return dict(zip(ids, frame["title"].to_list(), strict=True))

    @cached_property
    def about_rows(self) -> Features | None:
        """The features of rows, with what was learned about them."""
        learned = self._learned("row")
        if learned is None:
            return None
        words, ids = self._with_ids("row_words")
        return self._restored("row", learned, ids).with_words(words)

    @cached_property
    def about_columns(self) -> Features | None:
        """What was learned about the features of columns, without those of any id: they are in the shards."""
        learned = self._learned("column")
        return None if learned is None else self._restored("column", learned, Vocabulary())

    def words_of_columns(self) -> "tuple[pl.DataFrame, Vocabulary]":
        """What the features of all columns say in words, and of which ids."""
        return self._with_ids("column_words")

    def row_features(self) -> SideFeatures:
        """Those of all rows, in their order."""
        return side_of(self.about_rows, self.rows)

    def cut(self, workers: int) -> list[tuple[int, int]]:
        """Ranges of buckets that follow each other (first, last), one a worker, with about as many ratings each.

        Each has a bucket of its own as long as there are enough.
        """
        if workers < 1:
            raise DataError(f"{workers} is no number of workers", "give 1 or more")
        ends = np.concatenate([[0], np.cumsum(self.ratings_by_bucket + 1)])  # empty buckets are no reason to pile up
        cuts = [0]
        for worker in range(1, workers):
            wanted = ends[-1] * worker / workers
            at = int(np.searchsorted(ends, wanted))
            nearest = at - 1 if at and wanted - ends[at - 1] <= ends[at] - wanted else at
            if workers <= self.buckets:
                nearest = min(max(nearest, cuts[-1] + 1), self.buckets - (workers - worker))
            cuts.append(max(nearest, cuts[-1]))
        return list(zip(cuts, [*cuts[1:], self.buckets], strict=True))

    def read(self, first: int, last: int, *, times: bool = True, rows: range | None = None) -> Shard:
        """The buckets from `first` to `last`, without it, after their checksums were found right.

        Without `times`, those are left out, and with `rows` all ratings of others: a few buckets at a time, so that no
        more is in memory.
        """
        if not 0 <= first <= last <= self.buckets:
            raise DataError(
                f"there is no range of buckets from {first} to {last}",
                f"give one from 0 to {self.buckets}",
                where=str(self.folder),
            )
        manifest, buckets = self._manifest, self._manifest.buckets[first:last]
        PartitionCard.verify(self.folder, buckets)
        most, at = int(self.ratings_by_bucket[first:last].sum()), 0
        of_rows, values = np.empty(most, np.int32), np.empty(most, np.float32)
        when = np.empty(most, np.dtype(manifest.times)) if times and manifest.times is not None else None
        parts: dict[str, list[npt.NDArray[Any]]] = {"ids": [], "ends": [], "described": [], "features": []}
        for file in buckets:  # one after the other, each let go of at once: every mapped file is an open one
            found = PartitionCard.mapped(self.folder, file)
            own: Any = slice(None)
            if rows is not None:
                own = (found["rows"] >= rows.start) & (found["rows"] < rows.stop)
                found["ends"] = np.concatenate([[0], np.cumsum(own)])[found["ends"]]
            some = found["rows"][own]
            to = slice(at, at := at + len(some))
            of_rows[to], values[to] = some - np.int32(0 if rows is None else rows.start), found["values"][own]
            if when is not None:
                when[to] = found["times"][own]
            for name, arrays in parts.items():
                arrays += [found[name].copy()] if name in found else []
        if manifest.integer_columns:
            columns = Vocabulary(np.concatenate([np.empty(0, np.int64), *parts["ids"]]))
        else:
            columns = Vocabulary([id for ids in parts["ids"] for id in unpacked_ids(ids)])
        counts = np.concatenate([np.empty(0, np.int64), *map(np.diff, parts["ends"])])
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        features = SideFeatures.none(len(columns))
        if self.about_columns is not None:
            vectors = np.zeros((len(columns), self.about_columns.width), np.float32)
            described = np.concatenate([np.empty(0, np.bool_), *parts["described"]])
            vectors[described] = np.concatenate([vectors[:0], *parts["features"]])
            features = SideFeatures(vectors, described)
        height = len(self.rows) if rows is None else len(rows)
        by_column = SparseRows(ends, of_rows[:at], values[:at], height)
        if when is not None:
            when = when[:at][np.argsort(by_column.indices, kind="stable")]
        return Shard(columns, by_column.transpose(), by_column, when, features)

    def read_ratings(self) -> Ratings:
        """All ratings in one process, as they would be read from the source; features are apart.

        Ids are in ascending order; then come those without ratings and features, if there are any.
        """
        import polars as pl

        shard = self.read(0, self.buckets)
        by_row = shard.by_row
        rows = np.repeat(np.arange(by_row.rows), by_row.counts())
        found = {
            self.orientation: self.rows.column().gather(rows),
            self._column_side: shard.columns.column().gather(by_row.indices),
            "rating": by_row.values,
        }
        frame = pl.DataFrame(found | ({} if shard.times is None else {"time": shard.times}))
        ratings = replace(Ratings.read(frame, scale=self.scale, zero_means="rating"), titles=self.titles)
        cold = {
            self.orientation: _without(self.rows, by_row.counts(), self.row_features()),
            self._column_side: _without(shard.columns, shard.by_column.counts(), shard.column_features),
        }
        return ratings.including(users=cold["user"], items=cold["item"])

    def read_features(self) -> tuple[Features | None, Features | None]:
        """The features of all users, and of all items, in the order in which they were given."""
        found = {self.orientation: self.about_rows, self._column_side: None}
        if (learned := self._learned("column")) is not None:
            words, ids = self._with_ids("column_words")
            shard = self.read(0, self.buckets, times=False)
            described = np.flatnonzero(shard.column_features.described)
            values = np.zeros((len(ids), shard.column_features.width), np.float32)
            values[ids.find(shard.columns.array()[described])] = shard.column_features.values[described]
            found[self._column_side] = self._restored("column", learned | {"values": values}, ids).with_words(words)
        return found["user"], found["item"]

    @property
    def _column_side(self) -> Orientation:
        return "user" if self.orientation == "item" else "item"

    def _learned(self, side: str) -> Arrays | None:
        if f"{side}s" not in self._manifest.features:
            return None
        self._verified(f"{side}_features")
        return PartitionCard.mapped(self.folder, self._manifest.files[f"{side}_features"])

    def _verified(self, part: str) -> Path:
        file = self._manifest.files[part]
        PartitionCard.verify(self.folder, [file])
        return PartitionCard.path_of(self.folder, file)

    def _restored(self, side: str, arrays: Arrays, ids: Vocabulary) -> Features:
        return Features.restored(self._manifest.features[f"{side}s"], arrays, ids)

    def _with_ids(self, part: str) -> "tuple[pl.DataFrame, Vocabulary]":
        """A table with a column of ids; and those."""
        import polars as pl

        frame = pl.read_parquet(self._verified(part), glob=False)
        return frame, _vocabulary(frame["id"].to_numpy())


def _without(ids: Vocabulary, counts: Longs, features: SideFeatures) -> list[Id]:
    """The ids that have neither ratings nor features."""
    found: list[Id] = ids.array()[(counts == 0) & ~features.described].tolist()
    return found


def packed_ids(ids: "pl.Series") -> npt.NDArray[Any]:
    """Integers, or the bytes of strings with a NUL between each two."""
    import polars as pl

    if ids.dtype == pl.Int64:
        return ids.to_numpy()
    return np.frombuffer(_BETWEEN.join(ids.to_list()).encode(), np.uint8)


def unpacked_ids(array: npt.NDArray[np.uint8]) -> list[str]:
    return array.tobytes().decode().split(_BETWEEN) if len(array) else []


def _vocabulary(ids: npt.NDArray[Any]) -> Vocabulary:
    return Vocabulary(ids if ids.dtype.kind == "i" else ids.tolist())
