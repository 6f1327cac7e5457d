"""cofill predict MODEL PAIRS"""

import argparse
import sys
from pathlib import Path

from cofill.cli.options import add_json, add_reading, reading_from
from cofill.cli.output import note, print_json


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model's folder")
    parser.add_argument("pairs", metavar="PAIRS", type=Path, help="a file with the columns user and item")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write CSV or Parquet there instead of printing CSV")
    add_json(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    import polars as pl

    from cofill.atomic import replacing
    from cofill.data.pairs import read_pairs
    from cofill.recommender import CFN

    model = CFN.load(options.model)
    reading = reading_from(options)
    users, items = read_pairs(
        options.pairs,
        user=reading["user"],
        item=reading["item"],
        separator=reading["separator"],
        header=reading["header"],
    )
    predicted = model.predict((users, items))
    frame = pl.DataFrame({"user": users, "item": items, "rating": predicted}, strict=False)
    if options.json:
        print_json(frame.to_dicts())
    elif options.out is not None:
        with replacing(options.out) as draft:
            frame.write_parquet(draft) if options.out.suffix == ".parquet" else frame.write_csv(draft)
        note(f"{len(frame):,} predictions written to {options.out}")
    else:
        sys.stdout.write(frame.write_csv(float_precision=4))
    return 0
