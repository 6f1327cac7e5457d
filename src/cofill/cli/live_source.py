"""Where live ratings are exported from: the file beside a model, or a database."""

import argparse
import os
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from cofill.cli.options import add_json
from cofill.cli.output import note
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
