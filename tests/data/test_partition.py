"""Ratings in buckets of columns: the same as from the whole file, whatever it looks like and however it is cut."""

import copy
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofill.config import Orientation
from cofill.data.attributes import Attributes
from cofill.data.described import DescribedRatings
from cofill.data.features import Features
from cofill.data.interactions import Interactions, read_ratings_or_interactions
from cofill.data.partition import Partition, Shard, write_partition
from cofill.data.partition.folder import MANIFEST
from cofill.data.partition.write import buckets_of
from cofill.data.ratings import Ratings
from cofill.data.vocabulary import id_keys
from cofill.errors import DataError
from cofill.progress import Step
from tests.bad_input import refusal
from tests.data.test_dirty_files import DIRTY

FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HEAD = "user,item,rating,time\n"
DATA = Path(os.environ.get("COFILL_DATA") or Path(__file__).parents[3] / "shared" / "data")


def lines(count: int = 300, user: Callable[[int], object] = lambda at: at * 7 % 41) -> list[str]:
    """Ratings of which no two are of one pair; times differ."""
    return [f"{user(at)},{at % 29 + 29 * (at // 41)},{1 + at % 9 / 2},{1000 + at}" for at in range(count)]


def written(path: Path, rows: list[str], head: str = HEAD) -> Path:
    path.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_same(found: DescribedRatings, expected: DescribedRatings) -> None:
    """The same in every respect."""
    ours, theirs = found.ratings, expected.ratings
    assert type(ours) is type(theirs)
    assert ours.to_polars().equals(theirs.to_polars())
    assert (ours.users, ours.items, ours.scale) == (theirs.users, theirs.items, theirs.scale)
    assert ours.titles == theirs.titles
    assert found.summary == expected.summary
    for ours_side, theirs_side in ((found.users, expected.users), (found.items, expected.items)):
        assert np.array_equal(ours_side.values, theirs_side.values)
        assert np.array_equal(ours_side.described, theirs_side.described)
    for about, wanted in ((found.about_users, expected.about_users), (found.about_items, expected.about_items)):
        assert (about is None) == (wanted is None)
        if about is not None and wanted is not None:
            assert (about.ids, about.card()) == (wanted.ids, wanted.card())
            assert about.words().equals(wanted.words())


def read_all(partition: Partition) -> DescribedRatings:
    """What an ordinary model is fitted on."""
    users, items = partition.read_features()
    return DescribedRatings.of(partition.read_ratings(), user_features=users, item_features=items)


def outcome(read: Callable[[], Ratings]) -> tuple[object, list[tuple[str, str]]]:
    """What was read, or the error, and all warnings."""
    found: object
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            ratings = read()
        except DataError as error:
            found = str(error)
        else:
            frame = ratings.to_polars()
            ids = (ratings.users.ids, ratings.items.ids)
            found = (type(ratings), frame.rows(), frame.schema, ratings.scale, dict(ratings.titles), ids)
    return found, sorted((type(one.message).__name__, str(one.message)) for one in seen)


# The same as the whole file


DIRTY_OPTIONS: list[dict[str, Any]] = [
    {},
    {"time": ""},
    {"encoding": "latin-1"},
    {"skip_bad_lines": 3},
    {"zero_means": "unrated"},
    {"wide": True, "unknown": 99},
]


def read_in_pieces(path: Path, out: Path, options: dict[str, Any]) -> tuple[object, list[tuple[str, str]]]:
    """The outcome where the first piece is half of a file, and each other one a fifth."""
    size = path.stat().st_size
    pieces: dict[str, Any] = {"piece_bytes": max(16, size // 5), "piece_rows": 2 if size < 3000 else 100_000}
    return outcome(lambda: write_partition(path, out, buckets=2, **pieces, **options).read_ratings())


def check_read_or_refused(path: Path, out: Path, options: dict[str, Any]) -> None:
    """A file is read in pieces as it is read whole, or refused with its name: never taken for something else."""
    expected, _ = outcome(lambda: read_ratings_or_interactions(path, **options))
    found, _ = read_in_pieces(path, out, options)
    if isinstance(found, str):
        assert found.startswith(str(path)) or found == expected, found
    else:
        assert found == expected


@pytest.mark.parametrize("path", sorted(DIRTY.iterdir()), ids=lambda path: path.name)
def test_dirty_files_are_read_or_refused(path: Path, tmp_path: Path) -> None:
    for number, options in enumerate(DIRTY_OPTIONS):
        check_read_or_refused(path, tmp_path / str(number), options)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["1,1,good,5"], "line 5002, column 'rating': found 'good'"),
        (["1,,3,5"], "line 5002, column 'item': the cell is empty"),
        (["1,1,3"], "line 5002: found 3 cells where the header has 4"),
        (['1,"1,3,4'], "line 5002"),
        (['1,1,"3,5",4'], "line 5002, column 'rating': found '3,5'"),
        (["1,1,3,2020-01-01"], "line 5002, column 'time': found '2020-01-01'"),
        (["", "1,1,3,5"], "line 5002: the line is empty"),
    ],
)
def test_a_line_that_contradicts_the_beginning_is_named(rows: list[str], said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", [*lines(5000), *rows, *lines(5000)])
    error = str(refusal(write_partition, path, tmp_path / "out", piece_bytes=30_000))
    assert error.startswith(f"{path}, {said}"), error
    assert ";" in error  # and a way out
    assert sorted(tmp_path.iterdir()) == [path]


def test_bad_lines_that_may_go(tmp_path: Path) -> None:
    rows = lines(2000)
    bad = {3: "1,2,x,6", 700: "2,1,,7", 701: "7", 1500: ",2,4,9"}
    path = written(tmp_path / "r.csv", [bad.get(at, row) for at, row in enumerate(rows)])
    options: dict[str, Any] = {"skip_bad_lines": 4}
    expected = outcome(lambda: read_ratings_or_interactions(path, **options))
    assert read_in_pieces(path, tmp_path / "out", options) == expected
    error = refusal(write_partition, path, tmp_path / "other", piece_bytes=5000, skip_bad_lines=3)
    assert "4 bad lines or more are too many to skip" in str(error)


@pytest.mark.parametrize(
    ("rows", "head"),
    [
        (["1,1,3,5", '"1,\n2",2,3,4', '"x ""y""",1,2,3', "5,1,2,3"], HEAD),
        (["1,1,3,5", r'"a \"b\"",2,3,4', "5,1,2,3"], HEAD),
        (["1,1,3,5", "2,1,3,6", "01,1,3,5", "x,2,3,5"], HEAD),  # strings throughout, for one is no integer
        (["1,1,3,5", "2,1,3,5", "3,2,3,5", "4,1,3,1.5"], HEAD),  # floats throughout
        (["1;1;3,5", "2;1;4", "2;2;1,25", "3;2;4,75"], "user;item;rating\n"),
        (["1,1,3,1", "2,1,3,2", "3,2,3,3", "5,3,4,5", "4,2,1000,4", "6,3,3.001,6"], HEAD),
    ],
)
def test_what_later_pieces_may_change(rows: list[str], head: str, tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", rows, head)
    assert read_in_pieces(path, tmp_path / "out", {}) == outcome(lambda: read_ratings_or_interactions(path))


def test_quoted_cells_may_go_on_beyond_a_piece(tmp_path: Path) -> None:
    rows = [f'{at % 97},{at // 97},{1 + at % 5},"Film\n{at // 97}"' for at in range(9000)]
    path = written(tmp_path / "r.csv", rows, "user,item,rating,title\n")
    found = outcome(lambda: write_partition(path, tmp_path / "out", buckets=2, piece_bytes=20_000).read_ratings())
    assert found == outcome(lambda: read_ratings_or_interactions(path))


@pytest.mark.parametrize("orientation", ["item", "user"])
@pytest.mark.parametrize(
    "user", [lambda at: at * 7 % 41, lambda at: f"u{at * 7 % 41}", lambda at: f"0{at % 41}" if at % 2 else at % 41]
)
def test_everything_is_as_from_the_whole_file(
    orientation: Orientation, user: Callable[[int], object], tmp_path: Path
) -> None:
    rows = lines(user=user)
    path = written(tmp_path / "r.csv", [*rows, rows[5].replace(",1005", ",999"), rows[6].replace(",1006", ",2000")])
    films = [
        f"{item},Film {item},{1950 + item},{'Comedy|Drama' if item % 3 else 'Horror'}" for item in range(400, -3, -2)
    ]
    items = Features.read(written(tmp_path / "films.csv", films, "item,title,year,genres\n"))
    people = [
        f"{one},{20 + number},{'artist' if number % 2 else 'doctor'}"
        for number, one in enumerate(dict.fromkeys(map(user, range(50))))
    ]
    extra = ["999,70,artist"] if isinstance(user(0), int) else ["zed,70,artist"]
    users = Features.read(written(tmp_path / "people.csv", [*people[:30], *extra], "user,age,job\n"))
    with pytest.warns(UserWarning, match="repeat a user and item"):
        expected = DescribedRatings.of(path, user_features=users, item_features=items)
    with pytest.warns(UserWarning, match="2 of 302 ratings repeat a user and item; the latest by time were kept"):
        partition = write_partition(
            path,
            tmp_path / "out",
            buckets=7,
            orientation=orientation,
            user_features=users,
            item_features=items,
            piece_bytes=500,
        )
    found = read_all(partition)
    assert_same(found, expected)
    assert partition.summary == expected.summary
    columns = Attributes.of_features(found.ratings.items, found.about_items).columns()
    assert columns == Attributes.of_features(expected.ratings.items, items).columns()


def test_titles(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", ["1,7,3,B", "2,7,4,A", "2,8,4,", "3,9,5,C"], "user,item,rating,title\n")
    for orientation in ("item", "user"):
        made = write_partition(
            path, tmp_path / orientation, buckets=3, orientation=orientation, titles={"9": "Nine", 4: "Four"}
        )
        assert made.titles == {7: "A", 9: "Nine"}
    with pytest.raises(DataError, match=r"t\.csv: none of its items is among those that are rated"):
        write_partition(path, tmp_path / "out", buckets=3, titles={4: "Four"}, titles_source="t.csv")
    assert not (tmp_path / "out").exists()


# However it is ordered and cut


@settings(parent=FEW, max_examples=8)
@given(
    rows=st.permutations(lines(60)),
    buckets=st.sampled_from([1, 7, 256]),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    piece=st.sampled_from([50, 200, 1 << 20]),
)
def test_the_order_of_the_input_means_nothing(
    rows: list[str], buckets: int, cuts: list[int], piece: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("order")
    expected = write_partition(written(folder / "r.csv", lines(60)), folder / "a", buckets=buckets)
    write_partition(written(folder / "s.csv", rows), folder / "b", buckets=buckets, piece_bytes=piece)
    assert content(folder / "b") == content(folder / "a")
    ends = sorted({0, *cuts, len(rows)})
    (folder / "parts" / "below").mkdir(parents=True)
    for number, (first, last) in enumerate(pairwise(ends)):
        part = pl.read_csv(written(folder / "t.csv", rows[first:last])).with_columns(pl.col("rating").cast(pl.Float32))
        part.write_parquet(folder / "parts" / ("below" if number % 2 else "") / f"{number}.parquet")
    again = write_partition(folder / "parts", folder / "c", buckets=buckets, piece_rows=piece)
    assert content(folder / "c") == content(folder / "a")
    assert again.digest == expected.digest
    shutil.rmtree(folder)


def test_packed_files(tmp_path: Path) -> None:
    plain = written(tmp_path / "r.csv", lines())
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    with zipfile.ZipFile(tmp_path / "r.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(plain, "r.csv")
    digests = {
        write_partition(tmp_path / name, tmp_path / "out", buckets=3).digest for name in ("r.csv", "r.csv.gz", "r.zip")
    }
    assert len(digests) == 1
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(plain.read_bytes())[:-20])
    said = str(refusal(write_partition, tmp_path / "r.csv.gz", tmp_path / "new"))
    assert said == str(refusal(Ratings.read, tmp_path / "r.csv.gz"))


def test_folders_that_do_not_fit_together(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    assert "without a Parquet file" in str(refusal(write_partition, folder, tmp_path / "out"))
    frame = pl.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [3.0, 4.0]})
    frame.write_parquet(folder / "a.parquet")
    frame.rename({"item": "film"}).write_parquet(folder / "b.parquet")
    error = str(refusal(write_partition, folder, tmp_path / "out"))
    assert f"{folder / 'b.parquet'}: there is no column 'item' of integers, unlike in a.parquet" in error
    frame.cast({"user": pl.String}).write_parquet(folder / "b.parquet")
    error = str(refusal(write_partition, folder, tmp_path / "out"))
    assert "there is no column 'user' of integers, unlike in a.parquet" in error
    frame.with_columns(rating=pl.Series([1.0, None])).write_parquet(folder / "b.parquet")
    error = str(refusal(write_partition, folder, tmp_path / "out", piece_rows=1))
    assert error.startswith(f"{folder / 'b.parquet'}, row 2, column 'rating': the cell is empty")
    (folder / "b.parquet").write_bytes((folder / "a.parquet").read_bytes()[:-30])
    assert "b.parquet: not a Parquet file, or a broken one" in str(refusal(write_partition, folder, tmp_path / "out"))


# What workers read


def partitioned(tmp_path: Path, buckets: int = 7, orientation: Orientation = "item", count: int = 300) -> Partition:
    path = written(tmp_path / "r.csv", lines(count))
    return write_partition(path, tmp_path / "out", buckets=buckets, orientation=orientation)


def triples(partition: Partition, shard: Shard) -> set[tuple[object, object, float, float]]:
    rows = np.repeat(np.arange(shard.by_row.rows), shard.by_row.counts())
    assert shard.times is not None
    return {
        (shard.columns.id(int(column)), partition.rows.id(int(row)), float(value), float(when))
        for row, column, value, when in zip(rows, shard.by_row.indices, shard.by_row.values, shard.times, strict=True)
    }


@pytest.mark.parametrize("workers", [1, 2, 4, 9])
def test_shards_are_the_whole(workers: int, tmp_path: Path) -> None:
    partition = partitioned(tmp_path)
    ranges = partition.cut(workers)
    assert [first for first, _ in ranges] == [0, *(last for _, last in ranges[:-1])]
    assert ranges[-1][1] == partition.buckets
    shards = [partition.read(first, last) for first, last in ranges]
    found = [triples(partition, shard) for shard in shards]
    assert set().union(*found) == set(partition.read_ratings().to_polars().rows())
    assert sum(map(len, found)) == 300
    ids = [id for shard in shards for id in shard.columns]
    assert ids == partition.read(0, partition.buckets).columns.ids  # numbered alike in every worker
    for shard in shards:
        turned = shard.by_row.transpose()
        assert np.array_equal(turned.indices, shard.by_column.indices)
        assert np.array_equal(turned.indptr, shard.by_column.indptr)
        assert np.array_equal(turned.values, shard.by_column.values)
        assert (shard.by_row.rows, shard.by_row.columns) == (len(partition.rows), len(shard.columns))
        assert shard.column_features.width == 0


def test_some_rows_of_all_columns(tmp_path: Path) -> None:
    partition = partitioned(tmp_path)
    whole, some = (partition.read(0, partition.buckets, rows=rows) for rows in (None, range(3, 11)))
    entries = slice(*whole.by_row.indptr[[3, 11]])
    assert some.columns == whole.columns
    assert np.array_equal(some.by_row.indptr, whole.by_row.indptr[3:12] - entries.start)
    assert np.array_equal(some.by_row.indices, whole.by_row.indices[entries])
    assert np.array_equal(some.by_row.values, whole.by_row.values[entries])
    assert some.times is not None
    assert whole.times is not None
    assert np.array_equal(some.times, whole.times[entries])


def test_a_column_is_in_the_bucket_that_its_id_says(tmp_path: Path) -> None:
    partition = partitioned(tmp_path)
    assert partition.rows.ids == sorted(partition.rows.ids)
    for bucket in range(partition.buckets):
        ids = partition.read(bucket, bucket + 1).columns.ids
        assert ids == sorted(ids)
        assert set(buckets_of(ids, 7).tolist()) <= {bucket}
        assert len(ids) == partition.columns_by_bucket[bucket]
    assert id_keys([42]).tolist() == id_keys(["42"]).tolist() == [8820412187630416983]


@FEW
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(1, 50))
def test_cuts_are_about_equal(ratings: list[int], workers: int) -> None:
    partition = Partition.__new__(Partition)
    partition.ratings_by_bucket, partition.buckets = np.array(ratings, np.int64), len(ratings)
    ranges = partition.cut(workers)
    assert len(ranges) == workers
    assert (ranges[0][0], ranges[-1][1]) == (0, len(ratings))
    assert all(first <= last for first, last in ranges)
    assert all(one[1] == other[0] for one, other in pairwise(ranges))
    if workers <= len(ratings):
        assert all(first < last for first, last in ranges)
        fair = sum(ratings) / workers
        most = max(sum(ratings[first:last]) for first, last in ranges)
        assert most <= fair + len(ratings) + 2 * max(ratings) + 1


def test_one_rating_and_empty_buckets(tmp_path: Path) -> None:
    made = write_partition(written(tmp_path / "r.csv", ["ann,Alien,4,5"]), tmp_path / "out", buckets=5)
    assert sorted(made.ratings_by_bucket.tolist()) == [0, 0, 0, 0, 1]
    for bucket in range(5):
        shard = made.read(bucket, bucket + 1)
        assert shard.by_row.nnz == made.ratings_by_bucket[bucket]
        assert len(shard.columns) == made.columns_by_bucket[bucket]
    assert made.read_ratings().to_polars().rows() == [("ann", "Alien", 4.0, 5)]
    assert made.read(2, 2).by_row.nnz == 0


@pytest.mark.filterwarnings("ignore:.*interactions")
def test_interactions_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", ["1,2", "1,2", "2,3", "9,2"], "user,item\n")
    same = written(tmp_path / "s.csv", [f"{at},{at},1,{at}" for at in range(30)])
    for piece in (16, 1 << 20):
        for source in (path, same):
            error = str(refusal(write_partition, source, tmp_path / "out", piece_bytes=piece))
            assert error.startswith(f"{source}: a partition is for several workers, which train on ratings"), error
    cases: list[tuple[object, dict[str, Any]]] = [(Interactions.read(path), {}), (path, {"rating": ""})]
    for data, options in (*cases, (path, {"count": "n"})):
        assert "in one process" in str(refusal(write_partition, data, tmp_path / "out", **options))
    assert write_partition(same, tmp_path / "out", rating="rating").scale == (0.0, 2.0)


def test_ratings_in_memory(tmp_path: Path) -> None:
    ratings = Ratings.read(written(tmp_path / "r.csv", lines())).including(users=[-5], items=[100_000])
    for orientation in ("item", "user"):
        made = write_partition(ratings, tmp_path / orientation, buckets=4, orientation=orientation)
        assert_same(read_all(made), DescribedRatings.of(ratings, user_features=None, item_features=None))


# What goes wrong


def test_what_is_no_partition(tmp_path: Path) -> None:
    assert "there is no partition.json in it; make one" in str(refusal(Partition.open, tmp_path))
    written(tmp_path / "r.csv", lines())
    assert "not a partition's folder (there is r.csv in it)" in str(
        refusal(write_partition, tmp_path / "r.csv", tmp_path)
    )
    partition = partitioned(tmp_path)
    assert "this is a partition already" in str(refusal(write_partition, partition.folder, tmp_path / "other"))
    assert "no range of buckets from 3 to 8" in str(refusal(partition.read, 3, 8))
    assert "0 is no number of buckets" in str(refusal(write_partition, "r.csv", tmp_path / "new", buckets=0))


def test_altered_and_newer_manifests(tmp_path: Path) -> None:
    partition = partitioned(tmp_path)
    path = partition.folder / MANIFEST
    good = path.read_text()
    for change, said in (
        ({"orientation": "user"}, "altered since it was written"),
        ({"format_version": 99, "cofill_version": "9.9"}, "of format 99, … upgrade cofill (it was written by 9.9)"),
        ({"format": "other"}, "not the description of a partition"),
        ({"rated": "perhaps"}, "altered, rated"),
    ):
        path.write_text(json.dumps(json.loads(good) | change))
        error = str(refusal(Partition.open, partition.folder))
        assert all(part in error for part in said.split(" … ")), error
    path.write_text(good[: len(good) // 2])
    assert "truncated or altered" in str(refusal(Partition.open, partition.folder))


def test_altered_buckets(tmp_path: Path) -> None:
    partition = partitioned(tmp_path)
    path = partition.folder / "bucket-00003.safetensors"
    good = path.read_bytes()
    path.write_bytes(good[:-5])
    assert "truncated or altered" in str(refusal(partition.read, 0, 7))
    assert partition.read(4, 7).by_row.nnz
    path.write_bytes(good[:-5] + b"xxxxx")
    error = refusal(partition.read, 3, 4)
    assert f"{path}: altered since it was written; copy it again" in str(error)
    assert str(copy.copy(error)) == str(error)  # as it is when a worker hands it on
    path.unlink()
    assert f"{path}: missing" in str(refusal(partition.read_ratings))


KILLED = """
import sys
from cofill.data.partition import write_partition

def waits(step):
    if step.share > 0.9:
        print("now", flush=True)
        sys.stdin.read()

write_partition(sys.argv[1], sys.argv[2], buckets=7, progress=waits)
"""


def test_a_killed_run_leaves_the_old_partition_or_none(tmp_path: Path) -> None:
    path, out = written(tmp_path / "r.csv", lines()), tmp_path / "out"

    def killed() -> None:
        command = [sys.executable, "-c", KILLED, str(path), str(out)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "now\n"
            process.send_signal(signal.SIGKILL)

    killed()
    assert not out.exists()
    write_partition(path, out, buckets=7)
    before = content(out)
    written(path, lines(200))
    killed()
    assert content(out) == before
    assert write_partition(path, out, buckets=3).read_ratings().to_polars().height == 200
    assert len(content(out)) == 5  # three buckets, rows and the manifest


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    path, out = written(tmp_path / "r.csv", lines()), tmp_path / "out"

    def stop(_: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_partition(path, out, progress=stop)
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    """The one that ends last counts."""
    path, out = written(tmp_path / "r.csv", lines()), tmp_path / "out"
    others: list[int] = []

    def meanwhile(_: Step) -> None:
        if not others:
            others.append(0)
            others.append(write_partition(path, out, buckets=3).buckets)

    assert write_partition(path, out, buckets=7, progress=meanwhile).buckets == 7
    assert others == [0, 3]
    assert Partition.open(out).read_ratings().to_polars().height == 300
    assert sorted(tmp_path.iterdir()) == [out, path]


def test_a_damaged_manifest_is_replaced_and_a_strange_file_is_not(tmp_path: Path) -> None:
    partition = partitioned(tmp_path)
    (partition.folder / MANIFEST).write_text("{")
    assert "run `cofill partition` again" in str(refusal(Partition.open, partition.folder))
    before = content(partition.folder)
    refusal(write_partition, written(tmp_path / "bad.csv", ["1,1,x,1"]), partition.folder)
    assert content(partition.folder) == before
    assert partitioned(tmp_path).read_ratings().to_polars().height == 300
    (partition.folder / "diary.txt").touch()
    assert "(there is diary.txt in it)" in str(refusal(partitioned, tmp_path))


# What is read


def test_the_last_line_counts_at_equal_times(tmp_path: Path) -> None:
    """As in one process, so that a model does not depend on whether its ratings were cut before."""
    for number, rows in enumerate([["1,1,2,9", "2,1,3,9", "1,1,5,9"], ["1,1,5,9", "2,1,3,9", "1,1,2,9"]]):
        path = written(tmp_path / "r.csv", rows)
        read_in_pieces(path, tmp_path / str(number), {"scale": (1, 5)})
        found = dict(zip((1, 2), Partition.open(tmp_path / str(number)).read_ratings().values.tolist(), strict=True))
        assert found == {1: float(rows[-1].split(",")[2]), 2: 3.0}


def test_pipes_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path(os.devnull), tmp_path / "pipe"):  # the device first: without the check, a pipe waits forever
        said = f"{path}: a pipe or a device, not a file; write its content into a file first, and pass that"
        error = str(refusal(write_partition, path, tmp_path / "out"))
        assert error == said
        assert not (tmp_path / "out").exists()


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "r.csv", lines())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    error = str(refusal(write_partition, path, tmp_path / "out"))
    assert "not written, the disk is full; free some space" in error
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.real_data
def test_movielens_1m(tmp_path: Path) -> None:
    source = DATA / "ml-1m" / "ml-1m.zip"
    if not source.is_file():
        pytest.skip("MovieLens-1M is not here")
    with zipfile.ZipFile(source) as archive:
        for name in ("ratings.dat", "users.dat", "movies.dat"):
            (tmp_path / name).write_bytes(archive.read(f"ml-1m/{name}"))
    about: dict[str, Any] = {
        "user_features": Features.read(tmp_path / "users.dat", names=["user", "gender", "age", "job", "zip"]),
        "item_features": Features.read(tmp_path / "movies.dat", encoding="latin-1"),
    }
    partition = write_partition(tmp_path / "ratings.dat", tmp_path / "out", piece_bytes=3_000_000, **about)
    expected = DescribedRatings.of(tmp_path / "ratings.dat", **about)
    assert_same(read_all(partition), expected)
    assert partition.summary == expected.summary
    shards = [partition.read(first, last) for first, last in partition.cut(4)]
    assert sum(shard.by_row.nnz for shard in shards) == 1_000_209
    assert max(shard.by_row.nnz for shard in shards) < 1.05 * 1_000_209 / 4
    assert all(
        shard.column_features.width == partition.about_columns.width for shard in shards if partition.about_columns
    )
