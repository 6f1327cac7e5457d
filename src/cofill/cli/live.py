"""What a server has stored, and the keys that open it: cofill export, cofill keys"""

import argparse
import os
import sys
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from cofill.cli.options import add_json
from cofill.cli.output import note, print_json, print_table
from cofill.errors import SettingsError


class LiveSource(NamedTuple):
    """One of them is there."""

    database: str | None
    model: Path | None


def add_live_source(parser: argparse.ArgumentParser) -> None:
    """Add the options of `live_source`, and those of every export."""
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="the folder of a model that was served")
    parser.add_argument("--database", metavar="URL", help="the database, if it is not the file beside MODEL")
    parser.add_argument("--quiet", action="store_true", help="print no notes")
    add_json(parser)


def live_source(options: argparse.Namespace) -> LiveSource:
    """What was given, or the database that the environment names."""
    from cofill.serving.settings import require_sqlalchemy

    require_sqlalchemy()
    database = options.database or (None if options.model else os.environ.get("COFILL_DATABASE"))
    if (options.model is None) == (database is None):
        raise SettingsError("give either the folder of the model that was served, or --database URL")
    return LiveSource(database, options.model)


def note_next_training(out: Path) -> None:
    note(f"next: cofill train RATINGS --live-export {quote(str(out))} --out DIR, RATINGS as at the last training")


def add_export(parser: argparse.ArgumentParser) -> None:
    add_live_source(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv", help="of its tables (default csv)")


def run_export(options: argparse.Namespace) -> int:
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


def add_keys(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    new = actions.add_parser("new", help="make a key; it is printed once, and only its hash is kept")
    rights = new.add_mutually_exclusive_group(required=True)
    for right, may in (
        ("read", "only read"),
        ("write", "read and write: what a storefront needs"),
        ("admin", "also delete users and items, reload and roll back"),
    ):
        rights.add_argument(f"--{right}", dest="right", action="store_const", const=right, help=f"a key that may {may}")
    new.add_argument("--name", required=True, metavar="NAME", help="name of the key; rate limits and removal use it")
    listing = actions.add_parser("list", help="the keys of a file: names and rights")
    remove = actions.add_parser("remove", help="remove a key; a running server refuses it at once")
    remove.add_argument("--name", required=True, metavar="NAME", help="the key's name")
    for action in (new, listing, remove):
        action.add_argument("--file", type=Path, required=True, metavar="FILE", help="the file of keys")
    for action in (new, listing):
        add_json(action)
    for action in (new, remove):
        action.add_argument("--quiet", action="store_true", help="print no notes")


def run_keys(options: argparse.Namespace) -> int:
    from cofill.serving.api.keys import new_key, read_keys, remove_key

    if options.action == "new":
        key = new_key(options.file, options.name, options.right)
        if options.json:
            print_json({"name": options.name, "right": options.right, "key": key})
        else:
            sys.stdout.write(f"{key}\n")
        if not options.quiet:
            note(f"this is the only time it is shown; send it as Authorization: Bearer {key[:10]}...")
    elif options.action == "list":
        keys = read_keys(options.file)
        if options.json:
            print_json([key.model_dump(include={"name", "right", "created"}) for key in keys])
        else:
            rows = [(key.name, key.right, key.created) for key in keys]
            print_table(f"Keys of {options.file}", ("name", "may", "made"), rows)
    else:
        remove_key(options.file, options.name)
        if not options.quiet:
            note(f"{options.name} opens nothing any more")
    return 0
