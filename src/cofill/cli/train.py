"""cofill train RATINGS --out DIR"""

import argparse
import re
import time
from dataclasses import replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from cofill.atomic import explain_write_failure
from cofill.cli.options import add_json, add_reading, add_settings, load_ratings, settings_from
from cofill.cli.output import note, print_json, print_table
from cofill.errors import DataError, ModelFileError

if TYPE_CHECKING:
    from cofill.data.ratings import Ratings


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
        ratings = _with_titles(ratings, options.titles)
    _check_writable(out)
    if not options.quiet:
        note(f"{len(ratings):,} ratings of {len(ratings.items):,} items by {len(ratings.users):,} users")

    from cofill.progress import training_progress
    from cofill.recommender import CFN

    checkpoint = out / CHECKPOINT
    if options.resume and not checkpoint.exists() and not options.quiet:
        note(f"nothing to resume in {out}, starting anew")
    started = time.perf_counter()
    try:
        with training_progress(options.quiet) as report:
            model = CFN(settings).fit(ratings, checkpoint=checkpoint, resume=options.resume, report=report)
    except KeyboardInterrupt:
        if checkpoint.exists():
            note("the same command with --resume goes on from the last checkpoint")
        raise
    seconds = time.perf_counter() - started
    model.save(out)
    for leftover in [checkpoint, *out.glob(f".{CHECKPOINT}.*")]:
        leftover.unlink(missing_ok=True)
    summary = {"model": str(out), "seconds": seconds, **model.measures, **model.data_summary}
    if options.json:
        print_json(summary)
    else:
        print_table(f"Trained {out}", ("what", "value"), [(name, value) for name, value in _lines(summary)])
        if not options.quiet:
            note(f"next: cofill recommend {quote(str(out))} --user {quote(str(ratings.users.id(0)))}")
    return 0


CHECKPOINT = "checkpoint.safetensors"
_OURS = re.compile(
    r"model\.json|checkpoint\.safetensors|(weights|ratings|users|items)-[0-9a-f]{12}\.(safetensors|parquet)"
    r"|\.+(model|checkpoint|weights|ratings|users|items)\..*"
)


def _is_ours(folder: Path) -> bool:
    """Nothing but what a model, a checkpoint, or a run that was killed while it wrote one of them leaves behind."""
    return all(_OURS.fullmatch(path.name) for path in folder.iterdir())


def _with_titles(ratings: "Ratings", path: Path) -> "Ratings":
    """The ratings with titles from a file, whose ids may be written as integers where those here are strings."""
    from cofill.data.pairs import read_titles

    items = ratings.items
    titles = {items.id(items.index(item)): title for item, title in read_titles(path).items() if item in items}
    if not titles:
        raise DataError(
            f"{path}: none of its items is among those that are rated; check the ids, or leave out --titles"
        )
    return replace(ratings, titles={**ratings.titles, **titles})


def _check_writable(out: Path) -> None:
    """Before hours of training rather than after: a model can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as problem:
        raise ModelFileError(explain_write_failure(out, problem)) from None


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
