"""cofill recommend MODEL (--user ID | --ratings FILE | --all)"""

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from cofill.cli.options import add_count, add_json, add_reading, reading_from
from cofill.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from cofill.recommender import CFN, Recommendation


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model's folder")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--user", metavar="ID", help="somebody the model knows")
    who.add_argument(
        "--ratings", type=Path, metavar="FILE", help="somebody new: a file with the columns item and rating"
    )
    who.add_argument("--all", action="store_true", help="everybody: CSV, or one JSON document a line with --json")
    add_count(parser)
    parser.add_argument("--include-known", action="store_true", help="do not leave out what the user has rated")
    parser.add_argument("--out", type=Path, metavar="FILE", help="with --all: write there instead of printing")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    from cofill.recommender import CFN

    model = CFN.load(options.model)
    if options.all:
        return _everybody(model, options)
    if options.user is not None:
        who: Any = options.user
        title = f"For user {options.user}"
        if options.user not in model.users:
            note(f"user {options.user!r} is not in the model: these are what the means recommend to anybody")
    else:
        from cofill.data.pairs import read_somebody

        reading = reading_from(options)
        who = read_somebody(
            options.ratings,
            item=reading["item"],
            rating=reading["rating"],
            separator=reading["separator"],
            header=reading["header"],
        )
        title = f"For somebody with {len(who)} ratings"
    found = model.recommend(who, options.n, exclude_known=not options.include_known)
    if options.json:
        print_json([_as_json(entry) for entry in found])
    else:
        print_table(
            title,
            ("", "item", "predicted rating", "title"),
            [(rank, str(entry.item), entry.rating, entry.title) for rank, entry in enumerate(found, 1)],
        )
    return 0


def _everybody(model: "CFN", options: argparse.Namespace) -> int:
    from cofill.atomic import replacing

    if options.out is None:
        _write_everybody(model, options, sys.stdout)
        return 0
    with replacing(options.out) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        _write_everybody(model, options, file)
    note(f"recommendations for {len(model.users):,} users written to {options.out}")
    return 0


def _write_everybody(model: "CFN", options: argparse.Namespace, file: TextIO) -> None:
    from cofill.progress import counted

    everybody = model.recommend_all(n=options.n, exclude_known=not options.include_known)
    watched = counted(everybody, len(model.users), "recommending", options.quiet or file is sys.stdout)
    if options.json:
        for user, found in watched:
            document = {"user": user, "recommendations": [_as_json(entry) for entry in found]}
            file.write(json.dumps(document, ensure_ascii=False) + "\n")
        return
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("user", "rank", "item", "rating", "title"))
    for user, found in watched:
        for rank, entry in enumerate(found, 1):
            writer.writerow((user, rank, entry.item, f"{entry.rating:.4f}", entry.title or ""))


def _as_json(entry: "Recommendation") -> dict[str, Any]:
    return {name: value for name, value in entry._asdict().items() if value is not None}
