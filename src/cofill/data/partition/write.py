"""Ratings into buckets of columns, in memory that does not grow with them: `write_partition`.

A large source is read once, in pieces (`pieces`); others are read whole. Each piece is written to disk, sorted by
bucket (a run), so that a bucket is a slice of each run. Then each bucket is finished on its own: columns in ascending
order of their ids, the latest of ratings that repeat a pair, rows as indices.

The folder is written beside its place and renamed. What is in it depends on the ratings alone, not on their order nor
on the files they came in, with one exception: of ratings that repeat a pair at the same time, or without one, the last
line counts (in a folder, that of the last file by name), as when a file is read as a whole.
"""

import hashlib
import io
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from cofill.arrays import Arrays, Ints, Longs
from cofill.config import Orientation
from cofill.data.described import learned_features, matched_counts, refuse_without_columns
from cofill.data.features import Features
from cofill.data.interactions import read_ratings_or_interactions
from cofill.data.partition.folder import MANIFEST, Partition, PartitionCard, is_partition, packed_ids
from cofill.data.partition.pieces import Pieces, Whole, in_pieces, interactions_error
from cofill.data.ratings import Ratings, Scale, Spread, warn_of_repeats
from cofill.data.vocabulary import Id, Vocabulary, id_keys
from cofill.errors import DataError
from cofill.files import explain_write_failure
from cofill.interrupts import unfinished
from cofill.manifest import FileCard
from cofill.progress import Progress, Step, unseen

if TYPE_CHECKING:
    import polars as pl

BUCKETS = 256
MOST_BUCKETS = 1 << 16
PIECE_BYTES = 1 << 24
PIECE_ROWS = 500_000
GROUP = 2_000_000
"""Ratings of so many buckets are brought into order at a time; a larger bucket alone."""
_OURS = re.compile(
    rf"{re.escape(MANIFEST)}|bucket-\d{{5}}\.safetensors|(rows|titles|(row|column)_(features|words))\.(parquet|safetensors)"
)
_ROWS_AT_ONCE = 1 << 15  # that are read of a run, at least
READING, FINISHING = "reading", "writing buckets"
READING_SHARE = 0.6  # of the whole work
SIDES: tuple[Orientation, Orientation] = ("user", "item")


def write_partition(
    source: object,
    folder: str | os.PathLike[str],
    *,
    buckets: int = BUCKETS,
    orientation: Orientation = "item",
    user_features: object = None,
    item_features: object = None,
    titles: Mapping[Id, str] | None = None,
    titles_source: str | None = None,
    progress: Progress = unseen,
    piece_bytes: int = PIECE_BYTES,
    piece_rows: int = PIECE_ROWS,
    **reading: Any,
) -> Partition:
    """Write ratings into `buckets` of columns, for trainings that share the columns among machines.

    `source` is the path of a file, or of a folder of Parquet files; or Ratings. Parquet and text in UTF-8 may be larger
    than memory, unless bad lines shall be skipped. `reading` are the arguments of `Ratings.read`. The columns are users
    if the `orientation` is "item", else items. Features are those of `fit`; ids that have features and no rating belong
    to the partition, too. `titles` of items win over those that are found beside the ratings; with a `titles_source`,
    which an error names, one of them has to be of use. Of ratings that repeat a user and item the latest counts, and at
    equal times, or without any, the last line. If nothing comes of it, a partition that was there before is as it was.

    Memory is bounded by the largest bucket, a piece of the source (`piece_bytes` of text, `piece_rows` of Parquet), the
    ids of all rows, and the features.
    """
    out = Path(folder)
    if not 1 <= buckets <= MOST_BUCKETS:
        found = f"{buckets} is no number of buckets"
        raise DataError(found, f"give from 1 to {MOST_BUCKETS} with buckets=256")
    check_folder(out)
    features = {"user": learned_features(user_features, "user"), "item": learned_features(item_features, "item")}
    for side in SIDES:
        if (about := features[side]) is not None:
            refuse_without_columns(about, side)
    if not isinstance(source, (str, os.PathLike, Ratings)):
        raise DataError(f"cannot partition {type(source).__name__}", "pass a path, or Ratings")
    name = None if isinstance(source, Ratings) else str(source)
    if reading.get("rating") == "" or any(reading.pop(one, None) for one in ("count", "event", "event_weights")):
        raise interactions_error(name)
    if not isinstance(source, Ratings):
        source = Path(source)
        if is_partition(source):
            raise DataError("this is a partition already", "pass the ratings it was made of", where=str(source))
        refuse_pipe(source)
        if not in_pieces(source, piece_bytes, reading):
            source = read_ratings_or_interactions(source, **reading)
    if isinstance(source, Ratings) and not source.rated:
        raise interactions_error(name)
    place = out.resolve()
    draft = place.with_name(f"{place.name}.part-{uuid4().hex[:12]}")
    with unfinished(draft):
        try:
            (draft / "runs").mkdir(parents=True)
        except OSError as problem:
            raise DataError(explain_write_failure(out, problem)) from problem
        writer = _Writer(draft, buckets, orientation, features)
        if isinstance(source, Ratings):
            whole = _taken(source, writer)
        else:
            pieces = Pieces(source, piece_bytes, piece_rows, reading)
            for frame, share in pieces.frames():
                writer.add(frame)
                progress(Step(READING, share, 1.0, READING_SHARE * share))
            whole = pieces.whole(writer.spread)
        writer.finish(whole, titles or {}, titles_source, progress)
        shutil.rmtree(draft / "runs")
        _put_in_place(draft, place)
    return Partition.open(out)


def refuse_pipe(path: Path) -> None:
    """DataError for what is no file."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(
            "a pipe or a device, not a file", "write its content into a file first, and pass that", where=str(path)
        )


def check_folder(folder: Path) -> None:
    """DataError unless a partition can be written there: a new or empty folder, or one with nothing but a partition."""
    if folder.exists() and not folder.is_dir():
        raise DataError(
            "a partition is a folder, but there is a file of that name", "choose another", where=str(folder)
        )
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not _OURS.fullmatch(path.name):  # it would be removed with the partition that is replaced
            raise DataError(
                f"exists and is not a partition's folder (there is {path.name} in it)",
                "choose another, or remove it",
                where=str(folder),
            )


def _taken(ratings: Ratings, writer: "_Writer") -> Whole:
    """Ratings that are in memory already."""
    import polars as pl

    if not len(ratings):
        raise DataError(f"there are no {ratings.plural} to train on", "give at least one")
    users, items = ratings.users.column(), ratings.items.column()
    writer.titles |= {str(item): title for item, title in ratings.titles.items()}
    writer.cold["user"] += ratings.users.ids
    writer.cold["item"] += ratings.items.ids
    for begin in range(0, len(ratings), PIECE_ROWS):
        part = slice(begin, begin + PIECE_ROWS)
        found = {
            "user": users.gather(ratings.user_index[part]),
            "item": items.gather(ratings.item_index[part]),
            "value": ratings.values[part],
        }
        writer.add(pl.DataFrame(found | ({} if ratings.times is None else {"time": ratings.times[part]})))
    return Whole("the ratings", len(ratings), ratings.scale)


def _put_in_place(draft: Path, out: Path) -> None:
    """Rename the folder; one that is there already goes."""
    before = out.with_name(f"{out.name}.part-{uuid4().hex[:12]}")
    try:
        if out.exists():
            out.rename(before)
        draft.rename(out)
    except OSError as problem:
        raise DataError(explain_write_failure(out, problem)) from problem
    shutil.rmtree(before, ignore_errors=True)


def buckets_of(ids: Iterable[Id], buckets: int) -> npt.NDArray[np.uint16]:
    """(n,): the bucket of each id, the same for 42 and "42"."""
    return np.asarray(id_keys(ids) % np.uint64(buckets), np.uint16)


class _Writer:
    """All ratings in runs on disk, one for each piece, sorted by the bucket of their column; then bucket by bucket."""

    def __init__(
        self, folder: Path, buckets: int, orientation: Orientation, features: Mapping[str, Features | None]
    ) -> None:
        import polars as pl

        self._folder, self._buckets = folder, buckets
        self._row_side: Orientation = orientation
        self._column_side: Orientation = "user" if orientation == "item" else "item"
        self._about_rows, self._about_columns = features[self._row_side], features[self._column_side]
        self.cold = {side: [] if about is None else list(about.ids.ids) for side, about in features.items()}
        """Ids that may have no rating, by side."""
        self.titles: dict[str, str] = {}
        """Those of items that were found, by their ids as text; of several, the first in alphabetical order."""
        self._runs: list[pl.LazyFrame] = []
        self._counts: Longs = np.zeros(buckets, np.int64)
        self._rows = pl.Series("id", [], dtype=pl.Int64)  # the ids of all rows
        self._integers = True  # whether the ids of all columns are
        self._time_types: set[str | None] = set()
        # What adds up over buckets
        self._sum = 0.0
        self._times: list[float | int] = []  # the first and the last of each bucket
        self._rated = self._described = 0  # columns with ratings, and those of them with features
        self._first_ids: list[Any] = []
        self._used_titles: dict[Id, str] = {}

    def add(self, frame: "pl.DataFrame") -> None:
        """Write a run of entries: user, item, value, and time and title where there are any."""
        import polars as pl

        if "title" in frame.columns:
            titled = frame.select(pl.col("item").cast(pl.String), "title").filter(pl.col("title").str.len_bytes() > 0)
            for item, title in titled.group_by("item").agg(pl.col("title").min()).iter_rows():
                self.titles[item] = min(title, self.titles.get(item, title))
        frame = frame.select(
            pl.col(self._column_side).alias("column"), pl.col(self._row_side).alias("row"), pl.col("value", "^time$")
        )
        new_rows = frame["row"].unique().alias("id")
        if new_rows.dtype != self._rows.dtype:  # canonical integers stay what they are as text
            new_rows, self._rows = new_rows.cast(pl.String), self._rows.cast(pl.String)
        self._rows = pl.concat([self._rows, new_rows]).unique()
        self._integers = self._integers and frame["column"].dtype == pl.Int64
        self._time_types.add(str(frame["time"].to_numpy().dtype) if "time" in frame.columns else None)
        ids = frame["column"].unique()
        places = pl.DataFrame({"column": ids, "bucket": buckets_of(ids.to_list(), self._buckets)})
        frame = frame.join(places, on="column", how="left", maintain_order="left")
        self._counts += np.bincount(frame["bucket"].to_numpy(), minlength=self._buckets)
        path = self._folder / "runs" / f"{len(self._runs):06d}.parquet"
        try:
            # Sorted, and with statistics of each group of rows: of these, only those of a bucket are read.
            ordered = frame.sort("bucket", maintain_order=True)
            ordered.write_parquet(path, compression="lz4", row_group_size=_ROWS_AT_ONCE)
        except OSError as problem:
            raise DataError(explain_write_failure(path, problem)) from problem
        self._runs.append(pl.scan_parquet(path, glob=False))

    def spread(self, middle: float) -> Spread:
        """How the values lie around the middle of what they span."""
        found = Spread()
        for run in self._runs:
            found |= Spread.of(run.select("value").collect()["value"].to_numpy(), middle)
        return found

    def finish(self, whole: Whole, given: Mapping[Id, str], titles_source: str | None, progress: Progress) -> None:
        """Write all files of the partition; `given` are titles that win over those that were found."""
        import polars as pl

        rated_rows = self._rows
        cold = pl.Series("id", _in_kind(self.cold[self._row_side], rated_rows.dtype == pl.Int64), rated_rows.dtype)
        self._rows = pl.concat([rated_rows, cold]).unique().sort()
        self.titles |= {str(id): title for id, title in given.items()}
        files: list[FileCard] = []
        columns, ratings = [], []
        for bucket, entries in enumerate(self._entries()):
            arrays = self._bucket(bucket, entries)
            files.append(_written(self._folder / f"bucket-{bucket:05d}.safetensors", arrays))
            columns.append(len(arrays["ends"]) - 1)
            ratings.append(len(arrays["values"]))
            share = (bucket + 1) / self._buckets
            progress(Step(FINISHING, share, 1.0, READING_SHARE + (1 - READING_SHARE) * share))
        if extra := whole.count - sum(ratings):
            by_time = self._time_type is not None
            warn_of_repeats(extra, whole.count, whole.name, by_time=by_time, by_position=whole.by_position)
        if self._row_side == "item":
            self._note_titles(self._rows)
        if titles_source is not None and not {*map(str, given)} & {*map(str, self._used_titles)}:
            raise DataError(
                "none of its items is among those that are rated",
                "check the ids, or leave out titles=...",
                where=titles_source,
            )
        card = PartitionCard(
            orientation=self._row_side,
            scale=whole.scale,
            times=self._time_type,
            integer_columns=self._integers,
            summary=self._summary(sum(ratings), rated_rows, whole.scale),
            ratings_by_bucket=ratings,
            columns_by_bucket=columns,
            features={
                f"{side}s": about.card()
                for side, about in (("row", self._about_rows), ("column", self._about_columns))
                if about is not None
            },
            files=self._other_files(),
            buckets=files,
        )
        _write(self._folder / MANIFEST, card.signed().encode())

    @property
    def _time_type(self) -> Literal["int64", "float64"] | None:
        """That of all times; None if there are none."""
        types = self._time_types
        return None if None in types else "float64" if "float64" in types else "int64"

    def _entries(self) -> "Iterator[pl.DataFrame]":
        """Those of each bucket, by column and row, without those that repeat a pair; some buckets are read at once."""
        import polars as pl

        kinds: dict[Any, Any] = {
            "column": pl.Int64 if self._integers else pl.String, "row": self._rows.dtype, "value": pl.Float32
        }  # fmt: skip
        if self._time_type is not None:
            kinds["time"] = pl.Float64 if self._time_type == "float64" else pl.Int64
        order = ["column", "row", *(["time"] if "time" in kinds else [])]
        first = 0
        while first < self._buckets:
            last = first + int(np.searchsorted(np.cumsum(self._counts[first:]), GROUP, "right"))
            last = min(max(first + 1, last), self._buckets)
            own = pl.col("bucket").is_between(first, last - 1)
            found = pl.concat([run.filter(own).select("bucket", *kinds).cast(kinds) for run in self._runs]).collect()
            by_bucket = found.partition_by("bucket", maintain_order=True, include_key=False, as_dict=True)
            for bucket in range(first, last):  # the latest of a pair counts, and at equal times the last line
                entries = by_bucket.get((bucket,), pl.DataFrame(schema=kinds)).sort(order, maintain_order=True)
                yield entries.unique(["column", "row"], keep="last", maintain_order=True)
            first = last

    def _bucket(self, bucket: int, entries: "pl.DataFrame") -> Arrays:
        """The arrays of one bucket."""
        import polars as pl

        rated = entries["column"].unique()
        cold = pl.Series("column", self._cold_columns.get(bucket, []), rated.dtype)
        columns = pl.concat([rated, cold]).unique().sort()
        ends = np.zeros(len(columns) + 1, np.int64)
        np.cumsum(np.bincount(_positions(entries["column"], columns), minlength=len(columns)), out=ends[1:])
        values = entries["value"].to_numpy()
        rows = _positions(entries["row"], self._rows)
        arrays: Arrays = {"ids": packed_ids(columns), "ends": ends, "rows": rows, "values": values}
        if "time" in entries.columns:
            arrays["times"] = times = entries["time"].to_numpy()
            self._times += [times.min().item(), times.max().item()] if len(times) else []
        self._sum += float(values.sum(dtype=np.float64))
        self._rated += len(rated)
        self._first_ids += [rated.min()] if len(rated) else []
        if (about := self._about_columns) is not None:
            found = about.ids.find(columns.to_list())
            arrays["described"] = found >= 0
            arrays["features"] = about.values[found[found >= 0]]
            self._described += int(np.count_nonzero((found >= 0) & (np.diff(ends) > 0)))
        if self._column_side == "item":
            self._note_titles(columns)
        return arrays

    @cached_property
    def _cold_columns(self) -> dict[int, list[Id]]:
        """By bucket."""
        ids = _in_kind(self.cold[self._column_side], self._integers)
        found: dict[int, list[Id]] = {}
        for id, bucket in zip(ids, buckets_of(ids, self._buckets).tolist(), strict=True):
            found.setdefault(bucket, []).append(id)
        return found

    def _note_titles(self, items: "pl.Series") -> None:
        if self.titles:
            found = ((id, self.titles.get(str(id))) for id in items.to_list())
            self._used_titles |= {id: title for id, title in found if title}

    def _summary(self, ratings: int, rated_rows: "pl.Series", scale: Scale) -> dict[str, Any]:
        """That of DescribedRatings."""
        features: dict[str, Any] = dict.fromkeys(SIDES)
        if (about := self._about_rows) is not None:
            both = int(np.count_nonzero(about.ids.find(rated_rows.to_list()) >= 0))
            counts = (both, len(rated_rows), rated_rows.sort()[0])
            features[self._row_side] = matched_counts(about, self._row_side, *counts)
        if (about := self._about_columns) is not None:
            counts = (self._described, self._rated, min(self._first_ids))
            features[self._column_side] = matched_counts(about, self._column_side, *counts)
        sizes = {self._row_side: len(rated_rows), self._column_side: self._rated}
        return {
            "users": sizes["user"],
            "items": sizes["item"],
            "ratings": ratings,
            "rated": True,
            "density": ratings / (sizes["user"] * sizes["item"]),
            "mean": self._sum / ratings,
            "scale": [scale.low, scale.high],
            "first_time": min(self._times, default=None),
            "last_time": max(self._times, default=None),
            "user_features": features["user"],
            "item_features": features["item"],
        }

    def _other_files(self) -> dict[str, FileCard]:
        """All files but the buckets."""
        import polars as pl

        folder, titles = self._folder, self._used_titles
        files = {"rows": _written(folder / "rows.parquet", pl.DataFrame({"id": self._rows}))}
        if titles:
            items = sorted(titles)
            table = pl.DataFrame({"id": items, "title": [titles[item] for item in items]})
            files["titles"] = _written(folder / "titles.parquet", table)
        for side, about in (("row", self._about_rows), ("column", self._about_columns)):
            if about is not None:
                arrays = about.arrays()
                if side == "column":
                    arrays["values"] = arrays["values"][:0]  # the vectors are in the buckets
                files[f"{side}_features"] = _written(folder / f"{side}_features.safetensors", arrays)
                files[f"{side}_words"] = _written(folder / f"{side}_words.parquet", about.words())
        return files


def _written(path: Path, content: "Arrays | pl.DataFrame") -> FileCard:
    """Write a file of arrays, or of a frame."""
    if isinstance(content, dict):
        from safetensors.numpy import save

        return _write(path, save({name: np.ascontiguousarray(array) for name, array in sorted(content.items())}))
    file = io.BytesIO()
    content.write_parquet(file)
    return _write(path, file.getvalue())


def _write(path: Path, data: bytes) -> FileCard:
    try:
        path.write_bytes(data)
    except OSError as problem:
        raise DataError(explain_write_failure(path, problem)) from problem
    return FileCard(name=path.name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _in_kind(ids: Iterable[Id], integers: bool) -> list[Id]:
    """Ids as those that are rated: integers or strings; DataError if one cannot be."""
    known = Vocabulary(np.empty(0, np.int64)) if integers else Vocabulary()
    known.add(ids if integers else map(str, ids))
    return known.ids


def _positions(ids: "pl.Series", among: "pl.Series") -> Ints:
    """(n,): where each id stands among others that include it."""
    import polars as pl

    if ids.dtype == pl.Int64:
        return np.searchsorted(among.to_numpy(), ids.to_numpy()).astype(np.int32)
    numbered = pl.DataFrame({"id": among, "index": np.arange(len(among), dtype=np.int32)})
    joined = pl.DataFrame({"id": ids}).join(numbered, on="id", how="left", maintain_order="left")
    return joined["index"].to_numpy()
