"""cofill predict MODEL PAIRS"""

import argparse
import sys
from pathlib import Path

from cofill.cli.cluster_options import add_scoring, check_folder, check_ray, division, show_scored
from cofill.cli.describing import add_describing, describe_from
from cofill.cli.options import add_json, add_reading, reading_from
from cofill.cli.output import check_table_file, note, print_json
from cofill.errors import SettingsError
from cofill.progress import share_done


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model's folder")
    parser.add_argument("pairs", metavar="PAIRS", type=Path, help="a file with the columns user and item")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write to this file (.csv, .tsv, .gz of these, .parquet) instead of printing CSV; with --ray, a folder of "
        "Parquet files",
    )
    parser.add_argument(
        "--interval",
        action="store_true",
        help="add the columns low and high: between which ratings nine tenths of the true ones are expected (90 %% "
        "prediction interval)",
    )
    add_describing(parser)
    add_scoring(parser, "predict by tasks over ranges of people on a Ray cluster, into the folder --out")
    parser.add_argument("--quiet", action="store_true", help="show no progress and print no notes")
    add_json(parser)
    add_reading(parser, ("user", "item"))


def run(options: argparse.Namespace) -> int:
    import polars as pl

    from cofill.data.pairs import read_pairs
    from cofill.data.table import write_frame
    from cofill.models.recommender import Recommender

    check_ray(options)
    if options.ray is not None:
        return _on_cluster(options)
    if options.out is not None:
        if options.json:
            raise SettingsError("--json prints and --out writes a table; leave out one of them")
        check_table_file(options.out)
    model = Recommender.load(options.model)
    describe_from(options, model)
    users, items = read_pairs(options.pairs, **reading_from(options))
    columns: dict[str, object] = {"user": users, "item": items}
    if options.interval:
        found = model.predict((users, items), with_interval=True)
        columns |= {"rating": found.ratings, "low": found.low, "high": found.high}
    else:
        columns["rating"] = model.predict((users, items))
    frame = pl.DataFrame(columns, strict=False)
    new = int(((model.users.find(users) < 0) | (model.items.find(items) < 0)).sum())
    if new and not options.quiet:
        note(f"{new:,} of {len(frame):,} pairs have a user or an item that is not in the model: means stand in")
    if options.json:
        print_json(frame.to_dicts())
    elif options.out is not None:
        write_frame(frame, options.out)
        if not options.quiet:
            note(f"{len(frame):,} predictions written to {options.out}")
    else:
        rounded = frame.with_columns(pl.col(pl.Float32, pl.Float64).round(4).replace(-0.0, 0.0))
        sys.stdout.write(rounded.write_csv(float_precision=4))
    return 0


def _on_cluster(options: argparse.Namespace) -> int:
    import polars as pl

    from cofill.cluster.score import ModelOutline, predict_pairs
    from cofill.data.pairs import read_pairs
    from cofill.workers import orderly_termination

    check_folder(options, "predictions")
    outline = ModelOutline(options.model)
    users, items = read_pairs(options.pairs, **reading_from(options))
    pairs = pl.DataFrame({"user": users, "item": items}, strict=False)
    with share_done("predicting", options.quiet) as report, orderly_termination():
        scored = predict_pairs(
            outline, pairs, options.out, division(options),
            with_interval=options.interval, report=report,
        )  # fmt: skip
    show_scored(options, scored, "predictions")
    return 0
