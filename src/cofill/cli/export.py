"""cofill export MODEL|--database URL --out FOLDER"""

import argparse
import os
from pathlib import Path
from shlex import quote

from cofill.cli.options import add_json
from cofill.cli.output import note, print_json
from cofill.errors import SettingsError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="the folder of a model that was served")
    parser.add_argument("--database", metavar="URL", help="the database, if it is not the file beside MODEL")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv", help="of its tables (default csv)")
    parser.add_argument("--quiet", action="store_true", help="print no notes")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    from cofill.serving.settings import require_sqlalchemy

    require_sqlalchemy()
    database = options.database or (None if options.model else os.environ.get("COFILL_DATABASE"))
    if (options.model is None) == (database is None):
        raise SettingsError("give either the folder of the model that was served, or --database URL")

    from cofill.serving.export_folder import write_export

    found = write_export(options.out, database, options.model, options.format)
    if options.json:
        print_json({"folder": str(options.out), **found._asdict()})
    elif not options.quiet:
        note(
            f"{found.ratings:,} ratings, {found.interactions:,} pairs with events, {found.items:,} items and "
            f"{found.users:,} users that were described, {found.taken_back:,} ratings taken back and "
            f"{found.removed:,} people and items removed, written to {options.out}"
        )
        note(f"next: cofill train RATINGS --with {quote(str(options.out))} --out DIR, RATINGS as at the last training")
    return 0
