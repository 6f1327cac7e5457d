"""cofill partition RATINGS --out DIR [--buckets 256]"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from cofill.cli.options import add_json, add_reading, count, reading_from
from cofill.cli.output import Amount, note, print_json, print_table
from cofill.cli.side_information import (
    FeatureReading,
    add_side_information,
    show_side_information,
    side_information_from,
    titles_in,
)
from cofill.data import datasets
from cofill.errors import DataError
from cofill.memory import data_size, peak_bytes
from cofill.progress import duration, shown

if TYPE_CHECKING:
    from cofill.data.partition import Partition
    from cofill.data.ratings import Ratings
    from cofill.data.vocabulary import Id

BOUND = "the largest bucket, a piece of the file, the ids of rows, and features; more --buckets need less"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ratings",
        metavar="RATINGS",
        help="a file of ratings, a folder of Parquet files, or a data set's name such as ml-1m; "
        "Parquet and text in UTF-8 may be larger than memory, other files are read whole; of ratings "
        "that repeat a user and item the latest counts, and at equal times the last line",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the partition")
    parser.add_argument(
        "--buckets",
        type=count,
        default=256,
        metavar="N",
        help="how many parts, each of which one worker reads; more than there will ever be workers (default 256)",
    )
    parser.add_argument(
        "--orientation",
        choices=("item", "user"),
        default="item",
        help="what the rows of the network will be; the other side are the columns, which are cut into buckets "
        "(default item)",
    )
    parser.add_argument(
        "--titles",
        type=Path,
        metavar="FILE",
        help="a table with the columns item and title, shown beside item ids; --item-features may hold titles too",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)
    add_side_information(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    from cofill.data.partition import write_partition
    from cofill.data.partition.write import check_folder

    check_folder(options.out)  # before a large file is read
    started = time.perf_counter()
    source = _source(options)
    side = side_information_from(options)
    reading = {} if not isinstance(source, Path) else reading_from(options)
    with shown(options.quiet) as progress:
        partition = write_partition(
            source,
            options.out,
            buckets=options.buckets,
            orientation=options.orientation,
            user_features=side.users,
            item_features=side.items,
            titles=_titles(options),
            titles_source=None if options.titles is None else str(options.titles),
            progress=progress,
            **reading,
        )
    seconds = time.perf_counter() - started
    if not options.quiet:
        for about, features in (("item", side.items), ("user", side.users)):
            if features is not None:
                matched = partition.summary[f"{about}_features"]
                show_side_information("item" if about == "item" else "user", features, matched)
    summary = _summary(options.out, partition, seconds)
    if options.json:
        print_json(summary)
    else:
        print_table(f"Partitioned into {options.out}", ("what", "value"), _lines(summary))
        if not options.quiet:
            note(f"next: cofill train {quote(str(options.out))} --out model")
    return 0


def _source(options: argparse.Namespace) -> "Path | Ratings":
    from cofill.data.partition.write import refuse_pipe

    name = options.ratings
    if Path(name).exists() or name not in datasets.catalogue():
        if not Path(name).exists() and "/" not in name and "." not in name:
            known = ", ".join(datasets.catalogue())
            raise DataError(f"{name}: neither a file nor a data set; check the path, or name one of {known}")
        refuse_pipe(Path(name))  # before features are read
        return Path(name)
    for given in reading_from(options):
        raise DataError(f"{name} is a data set, whose columns are known; leave out {given}=...")
    return datasets.load(name, quiet=options.quiet)


def _titles(options: argparse.Namespace) -> "dict[Id, str]":
    """From --titles, or else from --item-features."""
    from cofill.data.pairs import read_titles

    reading = FeatureReading.of(options)
    if options.titles:
        return reading.decoded(options.titles, lambda encoding: read_titles(options.titles, encoding=encoding))
    found: dict[Id, str] = {}
    for path in options.item_features or ():
        found = titles_in(reading.table(path, quiet=True), reading) | found
    return found


def _summary(out: Path, partition: "Partition", seconds: float) -> dict[str, Any]:
    return {
        "partition": str(out),
        "orientation": partition.orientation,
        "buckets": partition.buckets,
        "columns": int(partition.columns_by_bucket.sum()),
        "rows": len(partition.rows),
        "largest_bucket": int(partition.ratings_by_bucket.max()),
        "bytes": partition.bytes,
        "seconds": seconds,
        "peak_memory_bytes": peak_bytes(),
        "memory_is_bounded_by": BOUND,
        **partition.summary,
    }


def _lines(summary: Mapping[str, Any]) -> list[tuple[str, object]]:
    return [
        ("ratings", summary["ratings"]),
        ("users", summary["users"]),
        ("items", summary["items"]),
        ("buckets", summary["buckets"]),
        ("ratings in the largest bucket", summary["largest_bucket"]),
        ("on disk", Amount(data_size(summary["bytes"]))),
        ("time", Amount(duration(summary["seconds"]))),
        ("memory at the peak", Amount(data_size(summary["peak_memory_bytes"]))),
        ("memory is bounded by", BOUND),
    ]
