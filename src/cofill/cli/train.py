"""cofill train RATINGS --out DIR"""

import argparse
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from cofill.charts.markup import Amount
from cofill.cli.options import (
    LAYOUT,
    add_output,
    add_ray,
    add_reading,
    add_settings,
    count,
    load_ratings,
    reading_from,
    settings_of,
)
from cofill.cli.output import note, note_if_stopped, print_json, print_table
from cofill.cli.side_information import (
    HOW_READ,
    add_side_information,
    given_flags,
    given_side_information,
    matched_side,
    show_side_information,
    side_information_from,
    titles_from,
)
from cofill.errors import DataError, ModelFileError, SettingsError
from cofill.files import DRAFTS_OF_SAFETENSORS, explain_write_failure
from cofill.memory import data_size
from cofill.models import algorithm, algorithms
from cofill.progress import duration, shown

if TYPE_CHECKING:
    from cofill.data.described import SideInformation
    from cofill.data.features import Features
    from cofill.data.ratings import Ratings
    from cofill.models.recommender import Recommender

COMMON = (
    "--config", "--preset", "--set", "--epochs", "--seed", "--item-features", "--user-features",
    "--user-column", "--item-column", "--rating-column", "--separator",
)  # fmt: skip


def add_train(parser: argparse.ArgumentParser) -> None:
    ratings = "a file, a data set's name such as ml-1m, or a partition; a file has ratings or interactions"
    parser.add_argument("ratings", metavar="RATINGS", help=ratings)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the model")
    baselines = ", ".join(name for name in algorithms() if name not in ("cfn", "lists"))
    parser.add_argument(
        "--algorithm",
        choices=tuple(algorithms()),
        metavar="NAME",
        help="cfn (for ratings), lists (interactions), or a baseline; cfn is the network with its lists, lists the "
        f"list scorer alone; the baselines are {baselines}",
    )
    add_titles(parser)
    parser.add_argument(
        "--interactions",
        metavar="FILE",
        help="what the users clicked or bought beside rating; lists learn from both; the flags of "
        "reading are about both files, those of counts and events about this one",
    )
    parser.add_argument(
        "--live-export",
        dest="export",
        type=Path,
        metavar="EXPORT",
        help="what `cofill export` wrote; it overrides older ratings and descriptions, and what was "
        "withdrawn, deleted or forgotten is removed",
    )
    again = "go on from the last checkpoint in DIR"
    parser.add_argument("--resume", action="store_true", help=again)
    cluster = add_ray(parser, "with --workers, the Ray cluster whose machines they are, one a machine")
    cluster.add_argument(
        "--workers",
        type=count,
        metavar="N",
        help="train with so many workers at once on a folder that `cofill partition` made, and write the model in "
        "shards; the model is the same (pip install 'cofill[cluster]')",
    )
    add_output(parser)
    add_side_information(parser)
    add_settings(parser)
    add_reading(parser)


def add_titles(parser: argparse.ArgumentParser) -> None:
    text = "a table with the columns item and title; --item-features may hold titles too"
    parser.add_argument("--titles", type=Path, metavar="FILE", help=text)


def run_train(options: argparse.Namespace) -> int:
    from cofill.data.described import SideInformation

    made_by = algorithm(options.algorithm or "cfn")
    if options.algorithm:
        settings_of(options, made_by.settings_class)  # what is wrong is said before a large file is read
    out: Path = options.out
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not _is_ours(out))):
        raise ModelFileError(f"{out}: exists and is not a model's folder; choose another --out, or remove it")
    if options.workers is not None:
        return _run_with_workers(options)
    if options.ray is not None:
        raise SettingsError("--ray ADDRESS is where workers train; say how many with --workers N")
    export = None
    if options.export is not None:
        from cofill.serving.live.export import read_export

        export = read_export(options.export)
    ratings = load_ratings(options.ratings, _reading_of_ratings(options))
    if export is not None:
        ratings = export.ratings(ratings)
    if not ratings.rated and options.algorithm is None:
        made_by = algorithm("lists")
    settings = settings_of(options, made_by.settings_class)
    _check_call(made_by, options)
    beside = _interactions(options, ratings)
    side = side_information_from(options) if made_by.takes_features else SideInformation(None, None)
    if export is not None:
        beside = export.interactions(beside) if ratings.rated else beside
        side = export.side_information(side)
    found_items = matched_side("item", side.items, ratings)
    found_users = matched_side("user", side.users, ratings)
    ratings = _with_titles(ratings, options, side.items)
    ratings = ratings if export is None else export.titles(ratings)
    _check_writable(out)
    if not options.quiet:
        note(f"{len(ratings):,} {ratings.plural} of {len(ratings.items):,} items by {len(ratings.users):,} users")
        show_side_information("item", side.items, found_items)
        show_side_information("user", side.users, found_users)

    started = time.perf_counter()
    model = _fitted(made_by(settings), ratings, side, beside, options)
    seconds = time.perf_counter() - started
    if export is not None and export.learned is not None:
        model.data_summary["live"] = export.learned
    model.save(out)
    from cofill.cluster.train import CHECKPOINT as CHECKPOINT_OF_WORKERS

    for leftover in [out / CHECKPOINT, *out.glob(".*checkpoint.*")]:  # of a second network and of killed runs, too
        leftover.unlink(missing_ok=True)
    shutil.rmtree(out / CHECKPOINT_OF_WORKERS, ignore_errors=True)  # of a run with --workers that was not finished
    summary = {"model": str(out), "seconds": seconds, **model.measures, **model.data_summary}
    if options.json:
        print_json(summary)
    else:
        print_table(f"Trained {out}", ("what", "value"), _lines(summary))
        if not options.quiet:
            if "lists" in model.data_summary:
                note(model.data_summary["lists"])
            note(f"next: cofill recommend {quote(str(out))} --user {quote(str(ratings.users.id(0)))}")
    return 0


def _run_with_workers(options: argparse.Namespace) -> int:
    """On several machines, or in several processes here."""
    from cofill.cluster.session import require_ray
    from cofill.cluster.train import CHECKPOINT as CHECKPOINT_OF_WORKERS
    from cofill.cluster.train import train_partition
    from cofill.config import CFNSettings
    from cofill.data.datasets import catalogue
    from cofill.data.partition import is_partition

    require_ray()
    if options.algorithm not in (None, "cfn"):
        raise SettingsError(f"{options.algorithm} is trained in one process; leave out --workers")
    apart = {"--titles": options.titles, "--interactions": options.interactions, "--live-export": options.export}
    given = [flag for flag, value in apart.items() if value is not None]
    given += [f"{name}=..." for name in reading_from(options)] + given_side_information(options)
    for flag in given + given_flags(options, (*HOW_READ, "without_side_information")):
        raise SettingsError(f"with --workers, ratings and all about them are in the partition; leave out {flag}")
    source, out = Path(options.ratings), options.out
    if not is_partition(source):
        if not source.exists() and options.ratings not in catalogue():
            raise DataError(f"{source}: there is no such folder; name one that `cofill partition` made")
        raise SettingsError(
            f"{source}: workers read ratings that were cut for them; first: cofill partition {quote(str(source))} "
            f"--out partition, then: cofill train partition --out {quote(str(out))} --workers {options.workers}"
        )
    settings = settings_of(options, CFNSettings)
    _check_writable(out)
    if options.resume and not (out / CHECKPOINT_OF_WORKERS).exists() and not options.quiet:
        note(f"nothing to resume in {out}, starting anew")
    started = time.perf_counter()
    with note_if_stopped(_RESUMED, (out / CHECKPOINT_OF_WORKERS).exists), shown(options.quiet) as progress:
        trained = train_partition(
            source, out, settings,
            workers=options.workers, address=options.ray, progress=progress, resume=options.resume,
        )  # fmt: skip
    summary = {
        "model": str(out),
        "seconds": time.perf_counter() - started,
        "workers": trained.workers,
        "exchange_seconds": trained.exchanging,
        "exchange_bytes": trained.sent,
        "peak_memory_bytes": trained.peak_bytes,
        **trained.measures,
        **trained.data_summary,
    }
    if options.json:
        print_json(summary)
        return 0
    lines = _lines(summary)
    lines += [
        ("workers", trained.workers),
        ("time of the first in exchange", Amount(duration(trained.exchanging))),
        ("sent by it", Amount(data_size(trained.sent))),
        ("memory of a worker, at most", Amount(data_size(max(trained.peak_bytes)))),
    ]
    print_table(f"Trained {out}", ("what", "value"), lines)
    if not options.quiet:
        note(f"next: cofill recommend {quote(str(out))} --all --ray local --out lists")
    return 0


def _check_call(made_by: "type[Recommender]", options: argparse.Namespace) -> None:
    """Refuse options that the algorithm cannot use; side information of a named data set is silently ignored."""
    if options.resume and not made_by.keeps_checkpoints:
        raise SettingsError(f"{made_by.kind} keeps no checkpoints, so there is nothing to resume; leave out --resume")
    for flag in () if made_by.takes_features else given_side_information(options):
        raise SettingsError(f"{made_by.kind} makes no use of side information; leave out {flag}")


def _interactions(options: argparse.Namespace, ratings: "Ratings") -> "Ratings | None":
    from cofill.data.interactions import Interactions

    if options.interactions is None:
        return None
    if not ratings.rated:
        raise SettingsError(f"{options.ratings} holds interactions already; leave out --interactions, or give ratings")
    how = {name: said for name, said in reading_from(options).items() if name not in _OF_RATINGS}
    return Interactions.read(Path(options.interactions), **how)


def _reading_of_ratings(options: argparse.Namespace) -> argparse.Namespace:
    """How to read the ratings: with --interactions, what is said of counts and events is said of that file."""
    if options.interactions is None:
        return options
    elsewhere = ["event_weights", "event", "count"]
    if not Path(options.ratings).is_file():  # the columns of data sets and partitions are known
        elsewhere += ["user", "item", "time", "skip_bad_lines", *LAYOUT]
    left_out = {f"reading_{name}" for name in elsewhere}
    return argparse.Namespace(**{name: value for name, value in vars(options).items() if name not in left_out})


def _fitted(
    model: "Recommender",
    ratings: "Ratings",
    side: "SideInformation",
    beside: "Ratings | None",
    options: argparse.Namespace,
) -> "Recommender":
    checkpoint = options.out / CHECKPOINT if model.keeps_checkpoints else None
    if options.resume and checkpoint and not checkpoint.exists() and not options.quiet:
        note(f"nothing to resume in {options.out}, starting anew")
    stopped = note_if_stopped(_RESUMED, lambda: checkpoint is not None and checkpoint.exists())
    with stopped, shown(options.quiet) as progress:
        model.fit(
            ratings,
            item_features=side.items,
            user_features=side.users,
            interactions=beside,
            progress=progress,
            checkpoint=checkpoint,
            resume=options.resume,
        )
        model.draw_map(progress)  # so that the first visitor of a server need not wait for it
        return model


_RESUMED = "the same command with --resume goes on from the last checkpoint"
_OF_RATINGS = ("rating", "title", "scale", "wide", "unknown", "zero_means")
CHECKPOINT = "checkpoint.safetensors"


def _is_ours(folder: Path) -> bool:
    """Whether the folder holds only files of a model or a checkpoint, finished or interrupted."""
    from cofill.models.persistence import FILE_KINDS

    kinds = "|".join(FILE_KINDS)
    ours = re.compile(
        rf"model\.json|checkpoint(\.safetensors)?|({kinds})-[0-9a-f]{{12}}\.(safetensors|parquet)"
        rf"|\.+(model|checkpoint|{kinds})\..*"
    )
    return all(ours.fullmatch(path.name) or path.match(DRAFTS_OF_SAFETENSORS) for path in folder.iterdir())


def _with_titles(ratings: "Ratings", options: argparse.Namespace, features: "Features | None") -> "Ratings":
    """The ratings with the titles of items that the model will know. Ids may be integers here and strings there."""
    items = ratings.items if features is None else ratings.including(items=features.ids).items
    found = titles_from(options)
    titles = {items.id(items.index(item)): title for item, title in found.items() if item in items}
    if options.titles and not titles:
        raise DataError(
            f"{options.titles}: none of its items is among those that are rated; check the ids, or leave out --titles"
        )
    return replace(ratings, titles={**ratings.titles, **titles})


def _check_writable(out: Path) -> None:
    """Check before hours of training, not after, that a model can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as problem:
        raise ModelFileError(explain_write_failure(out, problem)) from None


def _lines(summary: dict[str, Any]) -> list[tuple[str, object]]:
    ratings = "ratings" if summary.get("rated", True) else "interactions"
    lines = [("users", summary["users"]), ("items", summary["items"]), (ratings, summary["ratings"])]
    for name, label in (("epochs", "epochs"), ("validation_rmse", "validation RMSE")):
        lines += [(label, summary[name])] if name in summary else []
    lines.append(("time", Amount(duration(summary["seconds"]))))
    for side in ("item", "user"):
        if found := summary.get(f"{side}_features"):
            lines.append((f"feature columns of {side}s", found["columns"]))
            lines.append((f"cold {side}s, with features alone", found["unrated"]))
    return lines
