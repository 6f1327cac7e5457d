"""cofill export MODEL|--database URL --out FOLDER"""

import argparse
from pathlib import Path

from cofill.cli.live_source import add_live_source, live_source, note_next_training
from cofill.cli.output import note, print_json


def add_options(parser: argparse.ArgumentParser) -> None:
    add_live_source(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv", help="of its tables (default csv)")


def run(options: argparse.Namespace) -> int:
    source = live_source(options)

    from cofill.serving.live.export import write_export

    found = write_export(options.out, source.database, source.model, options.format)
    if options.json:
        print_json({"folder": str(options.out), **found._asdict()})
    elif not options.quiet:
        note(
            f"{found.ratings:,} ratings, {found.interactions:,} pairs with events, {found.items:,} items and "
            f"{found.users:,} users that were described, {found.taken_back:,} ratings taken back and "
            f"{found.removed:,} people and items removed, written to {options.out}"
        )
        note_next_training(options.out)
    return 0
