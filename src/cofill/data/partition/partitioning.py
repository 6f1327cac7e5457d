"""Ratings into buckets of columns, in memory that does not grow with them: `write_partition`.

First everything goes into runs on disk, sorted by bucket; then each bucket is finished on its own: columns in ascending
order of their ids, the latest of ratings that repeat a pair, rows as indices. What is written depends on the ratings
alone, not on their order nor on the files they came in, with one exception: of ratings that repeat a pair at the same
time, or without one, the last line counts (in a folder, that of the last file by name). So it is when a file is read as
a whole, and a model must not depend on which of the two was done.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cofill import __version__
from cofill.config import Orientation
from cofill.data.cells import Origin
from cofill.data.described import learned_features, matched_counts, refuse_without_columns
from cofill.data.features import Features
from cofill.data.interactions import added_up
from cofill.data.partition.manifest import (
    FORMAT,
    FORMAT_VERSION,
    Additions,
    Arrays,
    File,
    Manifest,
    check_folder,
    is_partition,
    manifest_before,
    one_writer,
    remove_leftovers,
)
from cofill.data.partition.partition import Partition
from cofill.data.partition.runs import BETWEEN, MOST_BUCKETS, Runs, buckets_of
from cofill.data.partition.streaming import Chunk, Reading, Streamed, refuse_pipe, stream
from cofill.data.pieces import PIECE_BYTES, PIECE_ROWS
from cofill.data.ratings import (
    Ratings,
    Scale,
    Times,
    usual_scale,
    warn_of_repeats,
    warn_of_unusual,
    warn_of_zeros,
)
from cofill.data.vocabulary import Id, Vocabulary, by_user_then_item, last_of_each_pair
from cofill.errors import DataError, Remedy
from cofill.progress import Progress, Step, unseen

if TYPE_CHECKING:
    import polars as pl

BUCKETS = 256
GROUP = 2_000_000
"""Ratings of so many buckets are brought into order at a time; a larger bucket alone."""
READING, FINISHING = "reading", "writing buckets"
READING_SHARE = 0.6  # of the whole work


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
    """Write ratings or interactions into `buckets` of columns, for trainings that share the columns among machines.

    `source` is the path of a file, text or Parquet, or of a folder of Parquet files, all of which may be larger than
    memory; or Ratings. `reading` are the arguments of `read_ratings_or_interactions`, and everything is recognised,
    warned of and refused as it does. The columns are users if the `orientation` is "item", else items. Features are
    those of `fit`; ids that have features and no rating belong to the partition, too. `titles` of items win over those
    that are found beside the ratings; with a `titles_source`, which an error names, one of them has to be of use. Of
    ratings that repeat a user and item the latest counts, and at equal times, or without any, the last line.

    One process at a time writes into a folder, and a second is refused. If nothing comes of it, a partition that was
    there before is as it was.

    Memory is bounded by the largest bucket, a piece of the source (`piece_bytes` of text, `piece_rows` of Parquet), the
    ids of all rows, and the features. Tables with a column for each item and lines of JSON are read whole.
    """
    out = Path(folder)
    if not 1 <= buckets <= MOST_BUCKETS:
        found = f"{buckets} is no number of buckets"
        raise DataError(found, Remedy.passing(f"give from 1 to {MOST_BUCKETS} with {{buckets}}", buckets=256))
    check_folder(out)
    read = Reading(**reading)
    features = {"user": learned_features(user_features, "user"), "item": learned_features(item_features, "item")}
    for side, about in (("user", features["user"]), ("item", features["item"])):
        if about is not None:
            refuse_without_columns(about, "user" if side == "user" else "item")
    if not isinstance(source, (str, os.PathLike, Ratings)):
        raise DataError(f"cannot partition {type(source).__name__}", "pass a path, or Ratings")
    if isinstance(source, Ratings):
        titles = {**source.titles, **(titles or {})}
    else:
        source = Path(source)
        if is_partition(source):
            raise DataError("this is a partition already", "pass the ratings it was made of", where=str(source))
        refuse_pipe(source)

    def fill(runs: Runs) -> Streamed:
        if isinstance(source, Ratings):
            return _taken(source, runs)
        opened = read.source(Path(source), piece_bytes, piece_rows)
        whole = stream(opened, read, runs, lambda share: progress(Step(READING, share, 1.0, READING_SHARE * share)))
        _warn(whole, runs, read)
        return whole

    known = _Known(source if isinstance(source, Ratings) else None, features, titles or {}, orientation)
    new = not out.exists()
    try:
        with one_writer(out):
            _write(out, buckets, known, fill, progress, titles_source)
            return Partition.open(out)
    except BaseException:
        if new:
            with suppress(OSError):  # nothing came of it, unless something is in it
                out.rmdir()
        raise


def _write(
    out: Path,
    buckets: int,
    known: "_Known",
    fill: Callable[[Runs], Streamed],
    progress: Progress,
    titles_source: str | None,
) -> None:
    """Write a partition into a folder that nobody else writes to; `fill` brings all ratings into runs."""
    remove_leftovers(out, manifest_before(out))
    additions = Additions(out)
    runs = Runs(additions.runs, buckets, known.orientation)
    try:
        whole = fill(runs)
        _Writer(additions, runs, whole, known, progress).write(known.orientation, titles_source)
    except BaseException:
        additions.undo()
        raise
    finally:
        runs.end()


def _taken(ratings: Ratings, runs: Runs) -> Streamed:
    """Ratings that are in memory already."""

    if not len(ratings):
        raise DataError(f"there are no {ratings.plural} to train on", "give at least one")

    def ids(vocabulary: Vocabulary, index: npt.NDArray[np.int32]) -> "pl.Series":
        return vocabulary.column().gather(index)

    runs.begin()
    for begin in range(0, len(ratings), PIECE_ROWS):
        part = slice(begin, begin + PIECE_ROWS)
        users, items = ids(ratings.users, ratings.user_index[part]), ids(ratings.items, ratings.item_index[part])
        times = None if ratings.times is None else ratings.times[part]
        runs.take(Chunk(users, items, ratings.values[part], times, None, Origin("the ratings")))
    return Streamed(
        name="the ratings",
        count=len(ratings),
        rated=ratings.rated,
        by_position=False,
        low=ratings.scale.low,
        high=ratings.scale.high,
        zeros=0,
        limits=ratings.scale,
        one_each=False,
        again=lambda: iter(()),
    )


def _warn(whole: Streamed, runs: Runs, reading: Reading) -> None:
    """Of what is unusual about ratings, as `Ratings.read` does."""
    if not whole.rated:
        return
    if whole.limits is None:
        middle = (whole.low + whole.high) / 2
        spread = runs.spread(middle)
        if (upper := spread.far_side) is not None:
            for chunk in whole.again():
                far = (chunk.values > middle) == upper
                if far.any():
                    row = int(np.argmax(far))
                    warn_of_unusual(spread, upper, float(chunk.values[row]), chunk.origin, row)
                    break
    if reading.zero_means is None:
        warn_of_zeros(whole.zeros, whole.count, whole.name)


@dataclass(frozen=True)
class _Known:
    """What is known beside the ratings."""

    ratings: Ratings | None
    features: Mapping[str, Features | None]
    titles: Mapping[Id, str]
    orientation: Orientation

    @property
    def row_side(self) -> Orientation:
        return self.orientation

    @property
    def column_side(self) -> Orientation:
        return "user" if self.orientation == "item" else "item"

    @property
    def about_rows(self) -> Features | None:
        return self.features[self.row_side]

    @property
    def about_columns(self) -> Features | None:
        return self.features[self.column_side]

    def cold(self, side: Orientation) -> list[Id]:
        """Ids that may have no rating."""
        about = self.features[side]
        ids = [] if about is None else about.ids.ids
        if self.ratings is not None:
            ids += (self.ratings.users if side == "user" else self.ratings.items).ids
        return ids


@dataclass
class _Totals:
    """What adds up over buckets."""

    ratings: int = 0
    sum: float = 0.0
    greatest: float = 0.0
    first_time: float | int | None = None
    last_time: float | int | None = None
    columns: int = 0
    """Those with ratings."""
    described: int = 0
    """Those of them with features."""
    first: Id | None = None
    titles: dict[Id, str] = field(default_factory=dict)

    def add(self, values: npt.NDArray[np.float32], times: Times | None) -> None:
        if not len(values):
            return
        self.ratings += len(values)
        self.sum += float(values.sum(dtype=np.float64))
        self.greatest = max(self.greatest, float(values.max()))
        if times is not None:
            first, last = times.min().item(), times.max().item()
            self.first_time = first if self.first_time is None else min(self.first_time, first)
            self.last_time = last if self.last_time is None else max(self.last_time, last)

    def see_columns(self, ids: "pl.Series", described: int) -> None:
        self.columns += len(ids)
        self.described += described
        if len(ids):
            self.first = ids[0] if self.first is None else min(self.first, ids[0])


class _Writer:
    """Runs into the files of a partition."""

    def __init__(self, additions: Additions, runs: Runs, whole: Streamed, known: _Known, progress: Progress) -> None:
        import polars as pl

        self._additions, self._runs, self._whole, self._known, self._progress = additions, runs, whole, known, progress
        self._kind = pl.Int64() if runs.integers else pl.String()
        rated_rows = runs.rows
        cold_rows = _in_kind(known.cold(known.row_side), rated_rows.dtype == pl.Int64)
        self._rows = pl.concat([rated_rows, pl.Series(cold_rows, dtype=rated_rows.dtype)]).unique().sort()
        self._row_of_code = _positions(rated_rows, self._rows)
        self._cold = _by_bucket(_in_kind(known.cold(known.column_side), runs.integers), runs.buckets)
        titles = runs.titles() | {str(id): title for id, title in known.titles.items()}
        self._titles = {id: title for id, title in titles.items() if title}
        self._totals = _Totals()

    def write(self, orientation: Orientation, titles_source: str | None) -> None:
        runs, whole, known, totals = self._runs, self._whole, self._known, self._totals
        row_summary = self._row_summary()
        written: list[File] = []
        columns_by_bucket, ratings_by_bucket = [], []
        for first, last in runs.groups(GROUP):
            entries = runs.entries(first, last)
            begins = np.searchsorted(entries.buckets, np.arange(first, last + 1))
            for bucket in range(first, last):
                part = slice(int(begins[bucket - first]), int(begins[bucket - first + 1]))
                times = None if entries.times is None else entries.times[part]
                found = (entries.columns[part], entries.rows[part], entries.values[part], times)
                arrays, columns, ratings = self._bucket(bucket, *found)
                written.append(self._additions.arrays(f"bucket-{bucket:05d}", arrays))
                columns_by_bucket.append(columns)
                ratings_by_bucket.append(ratings)
                done = (bucket + 1) / runs.buckets
                self._progress(Step(FINISHING, done, 1.0, READING_SHARE + (1 - READING_SHARE) * done))
        extra = whole.count - totals.ratings
        if whole.rated and extra:
            by_time = runs.time_type is not None
            warn_of_repeats(extra, whole.count, whole.name, by_time=by_time, by_position=whole.by_position)
        if known.row_side == "item":
            self._note_titles(self._rows)
        if titles_source is not None and not {*map(str, known.titles)} & {*map(str, totals.titles)}:
            self._refuse_titles(titles_source)
        scale = self._scale()
        features, files = self._features()
        manifest = Manifest(
            format=FORMAT,
            format_version=FORMAT_VERSION,
            cofill_version=__version__,
            orientation=orientation,
            rated=whole.rated,
            scale=(scale.low, scale.high),
            times=runs.time_type,
            integer_columns=runs.integers,
            summary=self._summary(scale, row_summary),
            ratings_by_bucket=ratings_by_bucket,
            columns_by_bucket=columns_by_bucket,
            features=features,
            files=files,
            buckets=written,
            sha256="",
        )
        manifest.write(self._additions.folder)

    def _bucket(
        self,
        bucket: int,
        ids: "pl.Series",
        codes: npt.NDArray[np.int32],
        values: npt.NDArray[np.float32],
        times: Times | None,
    ) -> tuple[Arrays, int, int]:
        """The arrays of one bucket, and how many columns and ratings it has."""
        import polars as pl

        cold = pl.Series(self._cold.get(bucket, []), dtype=self._kind)
        rated = ids.unique().sort()
        columns = pl.concat([rated, cold]).unique().sort()
        index, rows, order = by_user_then_item(
            _positions(ids, columns), self._row_of_code[codes], (len(columns), len(self._rows))
        )
        values, times = values[order], None if times is None else times[order]
        if not self._whole.rated:
            values = np.ones(len(values), np.float32) if self._whole.one_each else values
            index, rows, values, times = added_up(index, rows, values, times, self._whole.name)
        elif (keep := last_of_each_pair(index, rows, times)) is not None:
            index, rows, values = index[keep], rows[keep], values[keep]
            times = None if times is None else times[keep]
        ends = np.zeros(len(columns) + 1, np.int64)
        np.cumsum(np.bincount(index, minlength=len(columns)), out=ends[1:])
        self._totals.add(values, times)
        arrays: Arrays = {"ids": _as_array(columns), "ends": ends, "rows": rows, "values": values}
        if times is not None:
            arrays["times"] = times
        described = 0
        if (about := self._known.about_columns) is not None:
            found = about.ids.find(columns.to_list())
            arrays["described"] = found >= 0
            arrays["features"] = about.values[found[found >= 0]]
            described = int(np.count_nonzero((found >= 0) & (np.diff(ends) > 0)))
        self._totals.see_columns(rated, described)
        if self._known.column_side == "item":
            self._note_titles(columns)
        return arrays, len(columns), len(values)

    def _note_titles(self, items: "pl.Series") -> None:
        if self._titles:
            found = ((id, self._titles.get(str(id))) for id in items.to_list())
            self._totals.titles |= {id: title for id, title in found if title is not None}

    def _refuse_titles(self, source: str) -> None:
        raise DataError(
            "none of its items is among those that are rated",
            Remedy.passing("check the ids, or leave out {titles}", titles=...),
            where=source,
        )

    def _scale(self) -> Scale:
        whole = self._whole
        if not whole.rated:
            return Scale(0.0, self._totals.greatest)
        return Scale(*whole.limits) if whole.limits else usual_scale(whole.low, whole.high)

    def _row_summary(self) -> dict[str, Any] | None:
        about, rated = self._known.about_rows, self._runs.rows
        if about is None:
            return None
        both = int(np.count_nonzero(about.ids.find(rated.to_list()) >= 0))
        return matched_counts(about, self._known.row_side, both, len(rated), rated.sort()[0])

    def _summary(self, scale: Scale, row_summary: dict[str, Any] | None) -> dict[str, Any]:
        """That of DescribedRatings."""
        totals, known = self._totals, self._known
        about, column_summary = known.about_columns, None
        if about is not None and totals.first is not None:
            counts = (totals.described, totals.columns, totals.first)
            column_summary = matched_counts(about, known.column_side, *counts)
        sizes = {known.row_side: len(self._runs.rows), known.column_side: totals.columns}
        features = {known.row_side: row_summary, known.column_side: column_summary}
        summary = {
            "users": sizes["user"],
            "items": sizes["item"],
            "ratings": totals.ratings,
            "rated": self._whole.rated,
            "density": totals.ratings / (sizes["user"] * sizes["item"]),
            "mean": totals.sum / totals.ratings,
            "scale": [scale.low, scale.high],
            "first_time": totals.first_time,
            "last_time": totals.last_time,
        }
        if not self._whole.rated:
            summary |= {"interactions": totals.ratings, "total_weight": totals.sum}
        return summary | {"user_features": features["user"], "item_features": features["item"]}

    def _features(self) -> tuple[dict[str, dict[str, Any]], dict[str, File]]:
        """What was learned about features, and all files but the buckets."""
        import polars as pl

        add, titles = self._additions, self._totals.titles
        files = {"rows": add.frame("rows", pl.DataFrame({"id": self._rows}))}
        if titles:
            items = pl.Series(sorted(titles), dtype=self._rows.dtype if self._known.row_side == "item" else self._kind)
            table = pl.DataFrame({"id": items, "title": [titles[item] for item in items.to_list()]})
            files["titles"] = add.frame("titles", table)
        cards = {}
        for side, about in (("row", self._known.about_rows), ("column", self._known.about_columns)):
            if about is None:
                continue
            arrays = about.arrays()
            if side == "column":
                arrays["values"] = arrays["values"][:0]  # the vectors are in the buckets
            cards[f"{side}s"] = about.card()
            files[f"{side}_features"] = add.arrays(f"{side}_features", arrays)
            files[f"{side}_words"] = add.frame(f"{side}_words", about.words())
        return cards, files


def _in_kind(ids: Iterable[Id], integers: bool) -> list[Id]:
    """Ids as those that are rated: integers or strings; DataError if one cannot be."""
    known = Vocabulary(np.empty(0, np.int64)) if integers else Vocabulary()
    known.add(ids if integers else map(str, ids))
    return known.ids


def _by_bucket(ids: list[Id], buckets: int) -> dict[int, list[Id]]:
    found: dict[int, list[Id]] = {}
    for id, bucket in zip(ids, buckets_of(ids, buckets).tolist(), strict=True):
        found.setdefault(bucket, []).append(id)
    return found


def _positions(ids: "pl.Series", among: "pl.Series") -> npt.NDArray[np.int32]:
    """(n,): where each id stands among others that include it."""
    import polars as pl

    if ids.dtype == pl.Int64:
        return np.searchsorted(among.to_numpy(), ids.to_numpy()).astype(np.int32)
    numbered = pl.DataFrame({"id": among, "index": np.arange(len(among), dtype=np.int32)})
    joined = pl.DataFrame({"id": ids}).join(numbered, on="id", how="left", maintain_order="left")
    return joined["index"].to_numpy()


def _as_array(ids: "pl.Series") -> npt.NDArray[Any]:
    """Integers, or the bytes of strings with a NUL between each two."""
    import polars as pl

    if ids.dtype == pl.Int64:
        return ids.to_numpy()
    return np.frombuffer(BETWEEN.join(ids.to_list()).encode(), np.uint8)
