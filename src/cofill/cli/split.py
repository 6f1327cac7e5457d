"""cofill split RATINGS --train A --test B"""

import argparse
from pathlib import Path

from cofill.cli.options import add_json, add_reading, add_seed, load_ratings
from cofill.cli.output import check_table_file, print_json, print_table
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
    parser.add_argument("--ratio", type=float, default=0.9, help="share of the training part (default 0.9)")
    add_seed(parser, "start of the random draw")
    parser.add_argument(
        "--by",
        choices=("random", "time", "cold-items", "cold-users"),
        default="random",
        help="random ratings, the latest ratings, or all ratings of some items or users (default random)",
    )
    add_json(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    from cofill.data.splits import split

    if options.train.resolve() == options.test.resolve():
        raise DataError(f"--train and --test are the same file, {options.train}; give two")
    for flag, path in (("--train", options.train), ("--test", options.test)):
        if path.resolve() == Path(options.ratings).resolve():
            raise DataError(f"{flag} is the ratings file itself, {path}; give another, so that the whole is kept")
    check_table_file(options.train, options.test)
    ratings = load_ratings(options.ratings, options)
    parts = split(ratings, options.by, options.ratio, options.seed)
    rows = []
    for path, part in ((options.train, parts.train), (options.test, parts.test)):
        part.write(path)
        rows.append((str(path), len(part), len(set(part.user_index.tolist())), len(set(part.item_index.tolist()))))
    if options.json:
        print_json([dict(zip(("file", "ratings", "users", "items"), row, strict=True)) for row in rows])
    else:
        print_table(f"Split by {options.by}", ("file", "ratings", "users", "items"), rows)
    return 0
