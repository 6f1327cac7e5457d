"""cofill split RATINGS --train A --test B [--strategy last] [--strategy strong --fold-in C]"""

import argparse
from pathlib import Path

from cofill.cli.options import add_json, add_reading, add_seed, count, load_ratings, moment
from cofill.cli.output import check_table_file, print_json, print_table
from cofill.data.ratings import Ratings
from cofill.errors import DataError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ratings", metavar="RATINGS", help="a ratings file, or a data set's name")
    parser.add_argument(
        "--train",
        type=Path,
        required=True,
        metavar="A",
        help="file for the training part (.csv, .parquet, ...)",
    )
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


def run(options: argparse.Namespace) -> int:
    _check(options)
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
    parts = _parts(load_ratings(options.ratings, options), options)
    rows = []
    for path, part in zip(files.values(), parts, strict=True):
        part.write(path)
        rows.append((str(path), len(part), len(set(part.user_index.tolist())), len(set(part.item_index.tolist()))))
    if options.json:
        print_json([dict(zip(("file", "ratings", "users", "items"), row, strict=True)) for row in rows])
    else:
        print_table(f"Split by {options.strategy}", ("file", parts[0].plural, "users", "items"), rows)
    return 0


def _check(options: argparse.Namespace) -> None:
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


def _parts(ratings: Ratings, options: argparse.Namespace) -> tuple[Ratings, ...]:
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
