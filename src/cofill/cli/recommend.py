"""cofill recommend MODEL (--user ID | --ratings FILE | --describe COLUMN=VALUE | --all)"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from cofill.cli.cluster_options import add_scoring, check_folder, check_ray, division, show_scored
from cofill.cli.describing import (
    add_describe,
    add_describing,
    describe_from,
    description,
    note_unknown,
)
from cofill.cli.list_rules import add_by, add_rules, check_by, narrowed, rules_from
from cofill.cli.options import add_count, add_json, add_reading, reading_from
from cofill.cli.output import note, print_json, print_table, stars
from cofill.errors import DataError, SettingsError

if TYPE_CHECKING:
    import polars as pl

    from cofill.data.vocabulary import Id
    from cofill.models.recommender import Recommender
    from cofill.models.results import Recommendation


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model's folder")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--user", metavar="ID", help="a user of the model, or one that --user-features describes")
    who.add_argument("--ratings", type=Path, metavar="FILE", help="a new user: a file with the columns item and rating")
    who.add_argument("--all", action="store_true", help="all users: CSV, or one JSON document a line with --json")
    add_describe(parser, "--ratings")
    add_describing(parser)
    add_count(parser)
    add_by(parser, "rank by what they would choose and like (list, the default), or by what they would rate highest")
    parser.add_argument(
        "--include-known", action="store_true", help="also recommend items that the user has already rated"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="with --all: write to this file instead of printing; with --ray, a folder of Parquet files",
    )
    add_scoring(parser, "with --all: make the lists by tasks over ranges of people on a Ray cluster, into --out")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)
    add_rules(parser)
    add_reading(parser, ("item", "rating"))
    parser.set_defaults(refuse=parser.error)


def run(options: argparse.Namespace) -> int:
    from cofill.models.recommender import Recommender

    check_ray(options)
    _check_call(options)
    if options.ray is not None:
        return _on_cluster(options)
    model = Recommender.load(options.model)
    check_by(options, model)
    describe_from(options, model)
    if options.all:
        return _everybody(model, options)
    if options.user is not None:
        who: Any = options.user
        title = f"For user {options.user}"
        about = None
    else:
        who, title, about = _somebody_new(model, options)
    rules = rules_from(options, model)
    found = model.recommend(
        who, options.n, by=options.rank_by, features=about, exclude_known=not options.include_known, **rules
    )
    if not options.quiet:
        note_unknown(about)
    if options.user is not None and options.user not in model.users and not options.quiet:
        note(f"user {options.user!r} is not in the model: this is the list of a user without ratings")
    if not found and not options.quiet:
        _note_nothing_left(options)
    if options.json:
        print_json([_as_json(entry) for entry in found])
    else:
        print_table(
            title,
            ("", "item", "score", "predicted rating", "raters", "title"),
            [
                (rank, str(entry.item), entry.score, stars(entry.rating), entry.raters, entry.title)
                for rank, entry in enumerate(found, 1)
            ],
        )
    return 0


def _note_nothing_left(options: argparse.Namespace) -> None:
    flags = narrowed(options)
    if flags:
        note(f"no item is left that {' and '.join(flags)} allow{'s' if len(flags) == 1 else ''}; ask for less of them")
    else:
        note("every item is rated already: nothing is left to recommend; --include-known shows them all")


def _check_call(options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    new = options.ratings is not None or options.describe
    if not (new or options.user is not None or options.all):
        options.refuse("one of the arguments --user --ratings --describe --all is required")
    if options.out is not None and not options.all:
        raise SettingsError("--out goes with --all; leave it out, or redirect the output")
    if options.ray is not None and not options.all:
        raise SettingsError("--ray makes the lists of all users; add --all, or leave out --ray")
    if options.describe and (options.user is not None or options.all):
        other = "--all" if options.all else "--user"
        raise SettingsError(
            f"--describe is for a new user; leave out {other}, or describe users by their ids with --user-features"
        )
    if options.user_features and new:
        raise SettingsError(
            "--user-features describes users by their ids; give --user ID or --all with it, or --describe COLUMN=VALUE "
            "instead for a user without an id"
        )


def _somebody_new(
    model: "Recommender", options: argparse.Namespace
) -> "tuple[dict[Id, float], str, dict[str, Any] | None]":
    """A new user's ratings, a title for the table, and their features."""
    ratings: dict[Id, float] = {}
    words = []
    if options.ratings is not None:
        from cofill.data.pairs import read_somebody

        ratings = read_somebody(options.ratings, **reading_from(options))
        words.append(f"{len(ratings)} rating{'s' if len(ratings) > 1 else ''}")
    about = description(options, model)
    words += [f"{column} {value or 'unknown'}" for column, value in options.describe or ()]
    return ratings, f"For a user with {', '.join(words)}", about


def _everybody(model: "Recommender", options: argparse.Namespace) -> int:
    from cofill.files import replacing

    if options.out is None:
        _write_everybody(model, options, sys.stdout)
        return 0
    endings = (".jsonl", ".json") if options.json else (".csv",)
    if options.out.suffix not in endings:
        form = "lines of JSON" if options.json else "CSV; --json gives lines of JSON"
        raise DataError(f"{options.out}: the lists of all users are written as {form}; end the name in {endings[0]}")
    with replacing(options.out) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        _write_everybody(model, options, file)
    if not options.quiet:
        note(f"recommendations for {len(model.users):,} users written to {options.out}")
    return 0


def _on_cluster(options: argparse.Namespace) -> int:
    from cofill.cluster.score import ModelOutline, recommend_everybody
    from cofill.progress import share_done
    from cofill.workers import orderly_termination

    check_folder(options, "the lists of all users")
    outline = ModelOutline(options.model)
    check_by(options, outline)
    rules = rules_from(options, outline)
    with share_done("recommending", options.quiet) as report, orderly_termination():
        scored = recommend_everybody(
            outline, options.out, division(options),
            n=options.n, by=options.rank_by, exclude_known=not options.include_known, rules=rules,
            report=report,
        )  # fmt: skip
    show_scored(options, scored, "lists")
    return 0


def _write_everybody(model: "Recommender", options: argparse.Namespace, file: TextIO) -> None:
    from cofill.data.frames import safe_in_a_spreadsheet
    from cofill.progress import shown

    quiet = options.quiet or (file is sys.stdout and file.isatty())  # the output itself shows how far it is
    rules = rules_from(options, model)
    with shown(quiet, transient=True) as progress:
        everybody = model.recommend_many(
            n=options.n, by=options.rank_by, exclude_known=not options.include_known, progress=progress, **rules
        )
        if options.json:
            for user, found in everybody:
                document = {"user": user, "recommendations": [_as_json(entry) for entry in found]}
                file.write(json.dumps(document, ensure_ascii=False) + "\n")
            return
        file.write(",".join(everybody.schema) + "\n")
        for frame in everybody.frames():
            file.write(safe_in_a_spreadsheet(_rounded(frame)).write_csv(include_header=False))


def _rounded(frame: "pl.DataFrame") -> "pl.DataFrame":
    """With as many digits as mean something."""
    import polars as pl

    digits = [pl.col("score").cast(pl.Float64).round_sig_figs(6)]
    if "rating" in frame.columns:
        digits.append(pl.col("rating").cast(pl.Float64).round(4))
    return frame.with_columns(number.replace(-0.0, 0.0) for number in digits)


def _as_json(entry: "Recommendation") -> dict[str, Any]:
    return {name: value for name, value in entry._asdict().items() if value is not None}
