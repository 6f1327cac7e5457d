"""Data: cofill datasets list|fetch|make, cofill split, cofill partition"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from cofill.charts.markup import Amount
from cofill.cli.options import (
    SHAPES,
    add_json,
    add_output,
    add_reading,
    add_seed,
    count,
    load_ratings,
    moment,
    named_data_set,
    number,
    reading_from,
)
from cofill.cli.output import check_table_file, note, print_json, print_table
from cofill.cli.side_information import (
    SIDES,
    add_side_information,
    show_side_information,
    side_information_from,
    titles_from,
)
from cofill.cli.train import add_titles
from cofill.errors import DataError, SettingsError
from cofill.memory import data_size, peak_bytes
from cofill.progress import duration, share_done, shown

if TYPE_CHECKING:
    from cofill.data.datasets.catalogue import SideSource
    from cofill.data.ratings import Ratings

_WORLD_MARK = "truth.safetensors"  # only a world has it
_MEMORY = "the largest bucket, a piece of the file, the ids of rows, and features; more --buckets need less"
_CHOICE_HELP = (
    "how much people choose films by taste beside popularity, from 0 (by popularity alone) to 10 "
    "(default 2, as in MovieLens)"
)


# cofill datasets


def add_datasets(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    listing = actions.add_parser("list", help="list the data sets whose names can stand in place of a ratings file")
    listing.add_argument("--licences", action="store_true", help="show their licences and checksums instead")
    add_json(listing)
    fetch = actions.add_parser("fetch", help="download a data set")
    fetch.add_argument("name", metavar="NAME", help="such as ml-1m")
    fetch.add_argument("--quiet", action="store_true", help="show no progress and no licence notice")
    make = actions.add_parser("make", help="generate synthetic films, people and ratings")
    make.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for its files")
    make.add_argument("--like", choices=SHAPES, help="the shape of a published data set")
    make.add_argument("--size", type=number(0, 10, above=True), help="with --like: share of its ratings (default 1)")
    make.add_argument("--users", type=count, help="how many people")
    make.add_argument("--items", type=count, help="how many films")
    make.add_argument("--ratings", type=count, help="how many ratings")
    make.add_argument("--choice", type=number(0, 10), metavar="STRENGTH", help=_CHOICE_HELP)
    make.add_argument("--events", action="store_true", help="also write events.csv: what people view and buy")
    add_seed(make, "same seed, same world")
    add_output(make)


def run_datasets(options: argparse.Namespace) -> int:
    if options.action == "list":
        return _list(options)
    if options.action == "fetch":
        return _fetch(options)
    return _make(options)


def _list(options: argparse.Namespace) -> int:
    from cofill.data import datasets

    columns = ("name", "title", "users", "items", "ratings", "on this machine")
    rows, documents, entries = [], [], list(datasets.catalogue().values())
    for entry in entries:
        name = entry.name
        row = (name, entry.title, entry.users, entry.items, entry.ratings, datasets.locate(name) is not None)
        told = {"items": _told(entry.about_items), "users": _told(entry.about_users)}
        terms = {"licence": entry.licence, "md5": entry.md5, "second-hand": list(entry.second_hand)}
        documents.append(dict(zip(columns, row, strict=True)) | {"side information": told} | terms)
        items, users = (", ".join(words) for words in told.values())
        rows.append((name, *row[2:-1], f"{items} | {users}".strip() if users else items, row[-1]))
    if options.json:
        print_json(documents)
    elif options.licences:
        title = (
            "Data sets, their licences, and what of that is second-hand: quoted by others, not read at the publisher"
        )
        terms_of = ((entry.name, entry.licence, entry.md5, ", ".join(entry.second_hand)) for entry in entries)
        print_table(title, ("name", "licence", "MD5", "second-hand"), list(terms_of))
    else:
        title = "Data sets, what they tell about items | users, and whether they are here"
        print_table(title, ("name", *columns[2:-1], "side information", "here"), rows)
    return 0


def _told(sources: "Sequence[SideSource]") -> list[str]:
    return [what for source in sources for what in source.brings]


def _fetch(options: argparse.Namespace) -> int:
    from cofill.data import datasets

    path = datasets.fetch(options.name, quiet=options.quiet)
    sys.stdout.write(f"{path}\n")
    if not options.quiet:
        note(f"next: cofill train {options.name} --out model")
    return 0


def _make(options: argparse.Namespace) -> int:
    from cofill.data.datasets.world import CHOICE, make_world, make_world_like

    counts = {name: getattr(options, name) for name in ("users", "items", "ratings")}
    given = [name for name, value in counts.items() if value is not None]
    if options.like and given:
        raise SettingsError(f"--like gives the shape already; leave out --{given[0]}")
    if not options.like and len(given) < len(counts):
        raise SettingsError("give --like, or all of --users, --items and --ratings")
    if not options.like and options.size is not None:
        raise SettingsError("--size goes with --like; leave it out")
    share = 1.0 if options.size is None else options.size
    out: Path = options.out
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / _WORLD_MARK).exists())):
        raise DataError(f"{out}: exists and is not an earlier world; choose another --out")
    choice = CHOICE if options.choice is None else options.choice
    with share_done("making the world", options.quiet) as progress:
        if options.like:
            world = make_world_like(options.like, share, options.seed, choice=choice, progress=progress)
        else:
            world = make_world(**counts, seed=options.seed, choice=choice, progress=progress)
    world.write(out, events=options.events)
    summary = {"folder": str(out), **world.ratings.summary(), "noise": world.noise}
    if options.json:
        print_json(summary)
    else:
        names = ("folder", "users", "items", "ratings", "mean", "noise")
        print_table("A world of films", ("what", "value"), [(name, summary[name]) for name in names])
        if not options.quiet:
            about = f"--item-features {out / 'movies.csv'} --user-features {out / 'users.csv'}"
            note(f"next: cofill train {out / 'ratings.csv'} {about} --out model")
    return 0


# cofill split


def add_split(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ratings", metavar="RATINGS", help="a ratings file, or a data set's name")
    training = "file for the training part (.csv, .parquet, ...)"
    parser.add_argument("--train", type=Path, required=True, metavar="A", help=training)
    parser.add_argument("--test", type=Path, required=True, metavar="B", help="file for the test part")
    parser.add_argument("--ratio", type=float, help="share of the training part (default 0.9)")
    add_seed(parser, "start of the random draw")
    parser.add_argument(
        "--strategy",
        choices=("random", "time", "last", "cold-items", "cold-users", "strong"),
        default="random",
        help="test random ratings, the latest ratings of all, the last of each user (leave-last-out), all ratings of "
        "some items or users, or some ratings of users who are not trained on (strong generalisation) (default random)",
    )
    parser.add_argument(
        "--last",
        type=count,
        metavar="N",
        help="with --strategy last: how many ratings of each user to test (default 1)",
    )
    parser.add_argument(
        "--fold-in", type=Path, metavar="C", help="with --strategy strong: file for what is told of the users to test"
    )
    parser.add_argument(
        "--fold-in-ratio",
        type=float,
        metavar="SHARE",
        help="with --strategy strong: share of the ratings of each user to test that is told (default 0.8)",
    )
    parser.add_argument(
        "--at",
        type=moment,
        metavar="DATE",
        help="with --strategy time: test what happened from this date on, such as 2001-01-31 or 2001-01-31T18:00 (UTC)",
    )
    add_json(parser)
    add_reading(parser)
    parser.set_defaults(refuse=parser.error)


def run_split(options: argparse.Namespace) -> int:
    _check_split(options)
    paths = {"--train": options.train, "--fold-in": options.fold_in, "--test": options.test}
    files = {flag: path for flag, path in paths.items() if path is not None}
    taken: dict[Path, str] = {}
    for flag, path in files.items():
        if path.resolve() == Path(options.ratings).resolve():
            raise DataError(f"{flag} is the ratings file itself, {path}; give another, so that the whole is kept")
        other = taken.setdefault(path.resolve(), flag)
        if other != flag:
            raise DataError(f"{other} and {flag} are the same file, {path}; give two")
    check_table_file(*files.values())
    parts = _split(load_ratings(options.ratings, options), options)
    rows = []
    for path, part in zip(files.values(), parts, strict=True):
        part.write(path)
        rows.append((str(path), len(part), len(set(part.user_index.tolist())), len(set(part.item_index.tolist()))))
    if options.json:
        print_json([dict(zip(("file", "ratings", "users", "items"), row, strict=True)) for row in rows])
    else:
        print_table(f"Split by {options.strategy}", ("file", parts[0].plural, "users", "items"), rows)
    return 0


def _check_split(options: argparse.Namespace) -> None:
    """Refuse what the split does not make use of."""
    for name, by in (("last", "last"), ("at", "time"), ("fold_in", "strong"), ("fold_in_ratio", "strong")):
        if getattr(options, name) is not None and options.strategy != by:
            options.refuse(f"--{name.replace('_', '-')} belongs to a split by {by}; add --strategy {by}")
    if options.strategy == "last" and options.ratio is not None:
        options.refuse("--ratio says nothing where the last ratings of each user are tested; leave it out")
    if options.at is not None and options.ratio is not None:
        options.refuse("--at and --ratio both say where to cut; leave one of them out")
    if options.strategy == "strong" and options.fold_in is None:
        options.refuse("--strategy strong makes three parts; name the file for the ratings to fold in with --fold-in")


def _split(ratings: "Ratings", options: argparse.Namespace) -> "tuple[Ratings, ...]":
    """In the order training, fold-in where there is one, test."""
    from cofill.data.splits import leave_last_out_split, split, strong_generalisation_split, time_split

    ratio = 0.9 if options.ratio is None else options.ratio
    if options.strategy == "last":
        return leave_last_out_split(ratings, last=options.last or 1)
    if options.at is not None:
        return time_split(ratings, at=options.at)
    if options.strategy == "strong":
        share = 0.8 if options.fold_in_ratio is None else options.fold_in_ratio
        return strong_generalisation_split(ratings, ratio=ratio, fold_in=share, seed=options.seed)
    return split(ratings, options.strategy, ratio, options.seed)


# cofill partition


def add_partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ratings",
        metavar="RATINGS",
        help="a file of ratings, a folder of Parquet files, or a data set's name such as ml-1m; "
        "Parquet and text in UTF-8 may be larger than memory, other files are read whole; of ratings "
        "that repeat a user and item the latest counts, and at equal times the last line",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the partition")
    buckets = "how many parts, each of which one worker reads; more than there will ever be workers (default 256)"
    parser.add_argument("--buckets", type=count, default=256, metavar="N", help=buckets)
    rows = "what the rows of the network will be; the other side are the columns, which are cut into buckets"
    parser.add_argument("--orientation", choices=("item", "user"), default="item", help=f"{rows} (default item)")
    add_titles(parser)
    add_output(parser)
    add_side_information(parser)
    add_reading(parser)


def run_partition(options: argparse.Namespace) -> int:
    from cofill.data.partition import write_partition
    from cofill.data.partition.write import check_folder, refuse_pipe

    check_folder(options.out)  # before a large file is read
    started = time.perf_counter()
    source: Path | Ratings = Path(options.ratings)
    reading: dict[str, Any] = {}
    if named_data_set(options.ratings):
        source = load_ratings(options.ratings, options)
    else:
        refuse_pipe(Path(options.ratings))  # before features are read
        reading = reading_from(options)
    side = side_information_from(options)
    with shown(options.quiet) as progress:
        partition = write_partition(
            source,
            options.out,
            buckets=options.buckets,
            orientation=options.orientation,
            user_features=side.users,
            item_features=side.items,
            titles=titles_from(options),
            titles_source=None if options.titles is None else str(options.titles),
            progress=progress,
            **reading,
        )
    found: dict[str, Any] = {
        "partition": str(options.out),
        "orientation": partition.orientation,
        "buckets": partition.buckets,
        "columns": int(partition.columns_by_bucket.sum()),
        "rows": len(partition.rows),
        "largest_bucket": int(partition.ratings_by_bucket.max()),
        "bytes": partition.bytes,
        "seconds": time.perf_counter() - started,
        "peak_memory_bytes": peak_bytes(),
        "memory_is_bounded_by": _MEMORY,
        **partition.summary,
    }
    if not options.quiet:
        for name, features in zip(SIDES, (side.items, side.users), strict=True):
            show_side_information(name, features, partition.summary[f"{name}_features"])
    if options.json:
        print_json(found)
        return 0
    lines = [(name, found[name]) for name in ("ratings", "users", "items", "buckets")]
    lines += [
        ("ratings in the largest bucket", found["largest_bucket"]),
        ("on disk", Amount(data_size(found["bytes"]))),
        ("time", Amount(duration(found["seconds"]))),
        ("memory at the peak", Amount(data_size(found["peak_memory_bytes"]))),
        ("memory is bounded by", _MEMORY),
    ]
    print_table(f"Partitioned into {options.out}", ("what", "value"), lines)
    if not options.quiet:
        note(f"next: cofill train {quote(str(options.out))} --out model")
    return 0
