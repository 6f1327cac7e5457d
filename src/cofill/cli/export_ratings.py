"""cofill export-ratings MODEL|--database URL --out FILE"""

import argparse
import os
from pathlib import Path
from shlex import quote

from cofill.cli.options import add_json
from cofill.cli.output import check_table_file, note, print_json
from cofill.errors import SettingsError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="the folder of a model that was served")
    parser.add_argument("--database", metavar="URL", help="the database, if it is not the file beside MODEL")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help=".csv, .tsv, .csv.gz, .tsv.gz or .parquet"
    )
    parser.add_argument("--quiet", action="store_true", help="print no notes")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    from cofill.serving.settings import require_sqlalchemy

    require_sqlalchemy()
    database = options.database or (None if options.model else os.environ.get("COFILL_DATABASE"))
    if (options.model is None) == (database is None):
        raise SettingsError("give either the folder of the model that was served, or --database URL")
    check_table_file(options.out)

    from cofill.data.frames import safe_in_a_spreadsheet
    from cofill.data.table import write_frame
    from cofill.serving.live_export import export_frame

    frame = export_frame(database, options.model)
    write_frame(frame if options.out.suffix == ".parquet" else safe_in_a_spreadsheet(frame), options.out)
    removed = frame["rating"].null_count()
    if options.json:
        print_json({"file": str(options.out), "ratings": frame.height - removed, "taken_back": removed})
    elif not options.quiet:
        note(f"{frame.height - removed:,} ratings and {removed:,} that were taken back written to {options.out}")
        note(f"next: cofill train RATINGS --with {quote(str(options.out))} --out DIR, RATINGS as at the last training")
    return 0
