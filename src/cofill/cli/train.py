"""cofill train RATINGS --out DIR"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from cofill.cli.options import add_json, add_reading, add_settings, load_ratings, settings_from
from cofill.cli.output import note, print_json, print_table
from cofill.errors import ModelFileError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ratings", metavar="RATINGS", help="a ratings file, or a data set's name such as ml-1m")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the model")
    parser.add_argument(
        "--titles", type=Path, metavar="FILE", help="a table with the columns item and title, for people to read"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with a run that was stopped, from its last checkpoint in DIR",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)
    add_settings(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    settings = settings_from(options)
    out: Path = options.out
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not _is_ours(out))):
        raise ModelFileError(f"{out}: exists and is not a model's folder; choose another --out, or remove it")
    ratings = load_ratings(options.ratings, options)
    if options.titles is not None:
        from cofill.data.pairs import read_titles

        ratings = replace(ratings, titles=read_titles(options.titles))

    from cofill.progress import training_progress
    from cofill.recommender import CFN

    checkpoint = out / CHECKPOINT
    if options.resume and not checkpoint.exists() and not options.quiet:
        note(f"nothing to resume in {out}, starting anew")
    started = time.perf_counter()
    with training_progress(options.quiet) as report:
        model = CFN(settings).fit(ratings, checkpoint=checkpoint, resume=options.resume, report=report)
    seconds = time.perf_counter() - started
    model.save(out)
    checkpoint.unlink(missing_ok=True)
    summary = {"model": str(out), "seconds": seconds, **model.measures, **model.data_summary}
    if options.json:
        print_json(summary)
    else:
        print_table(f"Trained {out}", ("what", "value"), [(name, value) for name, value in _lines(summary)])
        user = ratings.users.id(0)
        note(f"next: cofill recommend {out} --user {user}")
    return 0


CHECKPOINT = "checkpoint.safetensors"


def _is_ours(folder: Path) -> bool:
    return (folder / "model.json").exists() or (folder / CHECKPOINT).exists()


def _lines(summary: dict[str, object]) -> list[tuple[str, object]]:
    names = {
        "users": "users",
        "items": "items",
        "ratings": "ratings",
        "epochs": "epochs",
        "validation_rmse": "validation RMSE",
        "seconds": "seconds",
    }
    return [(label, summary.get(name)) for name, label in names.items()]
