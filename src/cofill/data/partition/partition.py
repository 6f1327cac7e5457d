"""Ratings in buckets of columns, as `write_partition` leaves them: what everybody needs, and any range of buckets."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cofill.config import Orientation
from cofill.data.described import DescribedRatings, SideFeatures, side_of
from cofill.data.features import Features
from cofill.data.interactions import Interactions
from cofill.data.partition.manifest import Arrays, DamagedError, File, Manifest, read_arrays, read_frame, read_manifest
from cofill.data.partition.runs import BETWEEN
from cofill.data.ratings import Ratings, Scale, Times
from cofill.data.sparse import SparseRows
from cofill.data.vocabulary import Id, Vocabulary, by_user_then_item
from cofill.errors import DataError

if TYPE_CHECKING:
    import polars as pl

Longs = npt.NDArray[np.int64]
READERS = 4  # files that are read and checked at a time


@dataclass(frozen=True)
class Shard:
    """The columns of some buckets that follow each other, with their ratings of all rows."""

    columns: Vocabulary
    """Bucket by bucket, and in ascending order in each."""
    by_row: SparseRows
    """All rows, in the order of `Partition.rows`; columns as numbered here."""
    by_column: SparseRows
    times: Times | None
    """(nnz,): when, in the order of the entries of `by_row`; None if nobody wrote it down."""
    column_features: SideFeatures


class Partition:
    """A folder with ratings in buckets of columns; only the manifest has been read when it is opened."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self._manifest = manifest
        self.orientation: Orientation = manifest.orientation
        """Which side the rows are; the other side are the columns."""
        self.scale = Scale(*manifest.scale)
        self.rated = manifest.rated
        """Whether the values are ratings; else these are interactions, and the values are weights."""
        self.timed = manifest.times is not None
        self.buckets = len(manifest.buckets)
        self.summary: dict[str, Any] = manifest.summary
        """The main figures, as `DescribedRatings.summary` has them."""
        self.ratings_by_bucket: Longs = np.array(manifest.ratings_by_bucket, np.int64)
        self.columns_by_bucket: Longs = np.array(manifest.columns_by_bucket, np.int64)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "Partition":
        """The partition in a folder; DataError if there is none, or one that was altered or is newer than this code."""
        return cls(Path(folder), read_manifest(Path(folder)))

    def __repr__(self) -> str:
        what = "ratings" if self.rated else "interactions"
        counts = f"{self.ratings_by_bucket.sum()} {what}, {self.columns_by_bucket.sum()} columns"
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
        frame, ids = self._with_ids("rows")
        if not frame["id"].is_sorted():
            raise self._damaged(self._manifest.files["rows"], "its ids are not in ascending order")
        return ids

    @cached_property
    def titles(self) -> dict[Id, str]:
        """Of items, by id."""
        import polars as pl

        file = self._manifest.files.get("titles")
        if file is None:
            return {}
        frame, ids = self._with_ids("titles")
        if frame.columns != ["id", "title"] or frame["title"].dtype != pl.String or frame["title"].null_count():
            raise self._damaged(file, "there is not a title for each id")
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

    def read(self, first: int, last: int) -> Shard:
        """The buckets from `first` to `last`, without it, after their checksums were found right."""
        found = self._read(first, last)
        columns = self._vocabulary(found.ids)
        by_column = SparseRows(found.ends, found.rows, found.values, len(self.rows))
        indptr, index, order = _transposed(by_column)
        by_row = SparseRows(indptr, index, found.values[order], len(columns))
        times = None if found.times is None else found.times[order]
        return Shard(columns, by_row, by_column, times, found.features)

    def read_ratings(self) -> Ratings:
        """All ratings in one process, as they would be read from the source; features are apart."""
        return self._ratings(self._read(0, self.buckets))

    def read_features(self) -> tuple[Features | None, Features | None]:
        """The features of all users, and of all items."""
        about_columns = None if self.about_columns is None else self._about_all_columns(self._read(0, self.buckets))
        by_side = {self.orientation: self.about_rows, self._column_side: about_columns}
        return by_side["user"], by_side["item"]

    def read_all(self) -> DescribedRatings:
        """Everything in one process: what an ordinary model is fitted on."""
        found = self._read(0, self.buckets)
        about_columns = None if self.about_columns is None else self._about_all_columns(found)
        by_side = {self.orientation: self.about_rows, self._column_side: about_columns}
        return DescribedRatings.of(self._ratings(found), user_features=by_side["user"], item_features=by_side["item"])

    @property
    def _column_side(self) -> Orientation:
        return "user" if self.orientation == "item" else "item"

    def _learned(self, side: str) -> Arrays | None:
        if f"{side}s" not in self._manifest.features:
            return None
        return read_arrays(self.folder, self._manifest.files[f"{side}_features"])

    def _restored(self, side: str, arrays: Arrays, ids: Vocabulary) -> Features:
        try:
            return Features.restored(self._manifest.features[f"{side}s"], arrays, ids)
        except ValueError as error:
            raise self._damaged(self._manifest.files[f"{side}_features"], str(error)) from error

    def _damaged(self, file: File | None, why: str) -> DamagedError:
        """What is said of a file, or of several together, whose checksums are right and whose content is not."""
        where = self.folder if file is None else self.folder / file.name
        return DamagedError.at(where, f"its parts do not fit together ({why})")

    def _with_ids(self, part: str) -> "tuple[pl.DataFrame, Vocabulary]":
        """A table with a column of ids, each of which is there once; and those."""
        import polars as pl

        file = self._manifest.files[part]
        frame = read_frame(self.folder, file)
        if "id" not in frame.columns or frame["id"].dtype not in (pl.Int64, pl.String) or frame["id"].null_count():
            raise self._damaged(file, "there is no column of ids")
        return frame, self._vocabulary(frame["id"].to_numpy(), file)

    def _vocabulary(self, ids: npt.NDArray[Any], file: File | None = None) -> Vocabulary:
        try:
            return Vocabulary(ids if ids.dtype.kind == "i" else ids.tolist())
        except DataError as error:  # ids that are empty, or there twice
            raise self._damaged(file, str(error)) from error

    def _read(self, first: int, last: int) -> "_Buckets":
        if not 0 <= first <= last <= self.buckets:
            raise DataError(
                f"there is no range of buckets from {first} to {last}",
                f"give one from 0 to {self.buckets}",
                where=str(self.folder),
            )
        rows, width = len(self.rows), None if self.about_columns is None else self.about_columns.width

        def bucket(number: int) -> _Bucket:
            file = self._manifest.buckets[number]
            try:
                found = _Bucket.of(read_arrays(self.folder, file), self._manifest, rows, width)
                found.check_counts(int(self.columns_by_bucket[number]), int(self.ratings_by_bucket[number]))
            except _Misfit as misfit:
                raise self._damaged(file, str(misfit)) from None
            return found

        with ThreadPoolExecutor(READERS) as threads:  # reading and checking let go of the interpreter
            return _Buckets.joined(list(threads.map(bucket, range(first, last))), self._manifest, width)

    def _ratings(self, found: "_Buckets") -> Ratings:
        """With ids in ascending order; then those without ratings and features, if there are any."""
        column_counts, column_ids = np.diff(found.ends), found.ids
        row_ids = self.rows.array()
        row_counts = np.bincount(found.rows, minlength=len(row_ids))
        rated_columns = np.flatnonzero(column_counts)
        rated_columns = rated_columns[np.argsort(column_ids[rated_columns], kind="stable")]
        rated_rows = np.flatnonzero(row_counts)
        new_column, new_row = _numbers(rated_columns, len(column_ids)), _numbers(rated_rows, len(row_ids))
        columns = new_column[np.repeat(np.arange(len(column_ids)), column_counts)]
        rows = new_row[found.rows]
        by_item = self.orientation == "item"
        ids = (column_ids[rated_columns], row_ids[rated_rows])
        users, items = (self._vocabulary(one) for one in (ids if by_item else ids[::-1]))
        pairs = (columns, rows) if by_item else (rows, columns)
        user_index, item_index, order = by_user_then_item(*pairs, (len(users), len(items)))
        times = None if found.times is None else found.times[order]
        kind = Ratings if self.rated else Interactions
        about = (user_index, item_index, found.values[order], times, self.scale, self.titles)
        ratings = kind(users, items, *about)
        bare = column_ids[(column_counts == 0) & ~found.features.described]
        no_features = np.ones(len(row_ids), np.bool_) if self.about_rows is None else ~self.row_features().described
        bare_rows = row_ids[(row_counts == 0) & no_features]
        if not len(bare) and not len(bare_rows):
            return ratings
        more = (bare.tolist(), bare_rows.tolist())
        return ratings.including(users=more[0 if by_item else 1], items=more[1 if by_item else 0])

    def _about_all_columns(self, found: "_Buckets") -> Features:
        """The features of all columns, in the order in which they were given."""
        (words, ids), learned = self._with_ids("column_words"), self._learned("column")
        assert learned is not None
        described = np.flatnonzero(found.features.described)
        values = np.zeros((len(ids), found.features.width), np.float32)
        at = ids.find(found.ids[described])
        if (at < 0).any():
            raise self._damaged(self._manifest.files["column_words"], "a column with features is not among its ids")
        values[at] = found.features.values[described]
        return self._restored("column", learned | {"values": values}, ids).with_words(words)


class _Misfit(Exception):
    """What does not fit in a bucket."""


@dataclass(frozen=True)
class _Bucket:
    """One bucket, after everything that others rely on was found right: a checksum only tells that it was so before."""

    ids: npt.NDArray[np.int64] | list[str]
    arrays: Arrays

    @classmethod
    def of(cls, arrays: Arrays, manifest: Manifest, rows: int, width: int | None) -> "_Bucket":
        """The bucket of these arrays, of a partition with so many rows and that many features of columns, if any."""
        kinds: dict[str, tuple[Any, int]] = {
            "ids": (np.int64 if manifest.integer_columns else np.uint8, 1),
            "ends": (np.int64, 1),
            "rows": (np.int32, 1),
            "values": (np.float32, 1),
        }
        if manifest.times is not None:
            kinds["times"] = np.dtype(manifest.times), 1
        if width is not None:
            kinds |= {"described": (np.bool_, 1), "features": (np.float32, 2)}
        if set(arrays) != set(kinds):
            raise _Misfit(f"it has the arrays {', '.join(sorted(arrays))}, not {', '.join(sorted(kinds))}")
        for name, (kind, axes) in kinds.items():
            if arrays[name].dtype != kind or arrays[name].ndim != axes:
                raise _Misfit(f"{name} is an array of {arrays[name].dtype} with {arrays[name].ndim} axes")
            if arrays[name].dtype.kind == "f" and not np.isfinite(arrays[name]).all():
                raise _Misfit(f"{name} has a number that is none")
        found = cls(_ids_in(arrays["ids"]), arrays)
        found._check_order(rows)
        # Ratings are compared as they were when they were read, in single precision.
        low, high = np.float32(manifest.scale[0]), np.float32(manifest.scale[1])
        values = arrays["values"]
        if len(values) and not low <= values.min() <= values.max() <= high:
            raise _Misfit(f"a value is outside the scale {low:g} to {high:g}")
        if width is not None:
            described = arrays["described"]
            shape = (np.count_nonzero(described), width)
            if len(described) != len(found.ids) or arrays["features"].shape != shape:
                raise _Misfit("there are not as many features as columns")
        return found

    def _check_order(self, rows: int) -> None:
        ids, ends, index = self.ids, self.arrays["ends"], self.arrays["rows"]
        if not (all(a < b for a, b in pairwise(ids)) if isinstance(ids, list) else (ids[1:] > ids[:-1]).all()):
            raise _Misfit("its ids are not in ascending order")
        if len(ends) != len(ids) + 1 or ends[0] or (ends[1:] < ends[:-1]).any():
            raise _Misfit("the ends of its columns are not in ascending order from 0")
        if any(len(self.arrays[name]) != ends[-1] for name in ("rows", "values", "times") if name in self.arrays):
            raise _Misfit("there are not as many rows, values and times as its columns have")
        if len(index) and not 0 <= index.min() <= index.max() < rows:
            raise _Misfit("a rating is of a row that does not exist")
        falls = index[1:] <= index[:-1]
        falls[ends[1:-1][(ends[1:-1] > 0) & (ends[1:-1] < len(index))] - 1] = False  # there, another column begins
        if falls.any():
            raise _Misfit("the rows of a column are not in ascending order")

    def check_counts(self, columns: int, ratings: int) -> None:
        """Whether there are as many as the manifest says."""
        found = len(self.ids), len(self.arrays["values"])
        if found != (columns, ratings):
            raise _Misfit(f"it has {found[0]} columns and {found[1]} ratings, not {columns} and {ratings}")


def _ids_in(array: npt.NDArray[Any]) -> npt.NDArray[np.int64] | list[str]:
    if array.dtype == np.int64:
        return array
    try:
        return array.tobytes().decode().split(BETWEEN) if len(array) else []
    except UnicodeDecodeError as error:
        raise _Misfit(f"its ids are not UTF-8 ({error.reason})") from None


@dataclass(frozen=True)
class _Buckets:
    """Buckets one after the other."""

    ids: npt.NDArray[np.int64] | npt.NDArray[np.object_]
    ends: Longs
    rows: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    times: Times | None
    features: SideFeatures

    @classmethod
    def joined(cls, parts: list[_Bucket], manifest: Manifest, width: int | None) -> "_Buckets":
        def all_of(name: str, kind: Any) -> npt.NDArray[Any]:
            return _end_to_end([part.arrays[name] for part in parts], kind)

        ids: npt.NDArray[Any] = (
            all_of("ids", np.int64)
            if manifest.integer_columns
            else np.array([id for part in parts for id in part.ids], np.object_)
        )
        counts = _end_to_end([np.diff(part.arrays["ends"]) for part in parts], np.int64)
        if width is None:
            features = SideFeatures.none(len(ids))
        else:
            vectors, described = np.zeros((len(ids), width), np.float32), all_of("described", np.bool_)
            if described.any():
                vectors[described] = np.concatenate([part.arrays["features"] for part in parts])
            features = SideFeatures(vectors, described)
        return cls(
            ids,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            all_of("rows", np.int32),
            all_of("values", np.float32),
            None if manifest.times is None else all_of("times", np.dtype(manifest.times)),
            features,
        )


def _end_to_end(arrays: list[npt.NDArray[Any]], kind: Any) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *arrays]).astype(kind, copy=False)


def _numbers(chosen: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int32]:
    """(count,): the place of each index among the chosen."""
    numbers = np.full(count, -1, np.int32)
    numbers[chosen] = np.arange(len(chosen), dtype=np.int32)
    return numbers


def _transposed(matrix: SparseRows) -> tuple[Longs, npt.NDArray[np.int32], npt.NDArray[Any]]:
    """The same entries column by column: where each column begins, rows, and where each entry was before."""
    from scipy.sparse import csr_array

    places: Any = (np.arange(matrix.nnz), matrix.indices, matrix.indptr)
    turned: Any = csr_array(places, shape=(matrix.rows, matrix.columns)).tocsc()
    return turned.indptr.astype(np.int64), turned.indices.astype(np.int32), turned.data
