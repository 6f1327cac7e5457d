"""cofill export-ratings MODEL|--database URL --out FILE"""

import argparse
from pathlib import Path

from cofill.cli.live_source import add_live_source, live_source, note_next_training
from cofill.cli.output import check_table_file, note, print_json


def add_options(parser: argparse.ArgumentParser) -> None:
    add_live_source(parser)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help=".csv, .tsv, .csv.gz, .tsv.gz or .parquet"
    )


def run(options: argparse.Namespace) -> int:
    source = live_source(options)
    check_table_file(options.out)

    from cofill.data.frames import safe_in_a_spreadsheet
    from cofill.data.table import write_frame
    from cofill.serving.live.export import export_frame

    frame = export_frame(source.database, source.model)
    write_frame(frame if options.out.suffix == ".parquet" else safe_in_a_spreadsheet(frame), options.out)
    removed = frame["rating"].null_count()
    if options.json:
        print_json({"file": str(options.out), "ratings": frame.height - removed, "taken_back": removed})
    elif not options.quiet:
        note(f"{frame.height - removed:,} ratings and {removed:,} that were taken back written to {options.out}")
        note_next_training(options.out)
    return 0
