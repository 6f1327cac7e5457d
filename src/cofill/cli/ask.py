"""Commands that ask a model: cofill recommend, similar, predict, explain"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from cofill.charts.markup import shown
from cofill.cli.options import (
    add_count,
    add_model,
    add_output,
    add_reading,
    add_scoring,
    check_folder,
    check_ray,
    count_or_zero,
    division,
    given_once,
    moment,
    pair,
    reading_from,
    share,
    show_scored,
)
from cofill.cli.output import check_table_file, note, print_json, print_table, stars
from cofill.cli.side_information import SIDES, add_file_reading, describe_from
from cofill.errors import DataError, SettingsError
from cofill.progress import share_done
from cofill.progress import shown as progress_shown

if TYPE_CHECKING:
    import polars as pl

    from cofill.cluster.score import ModelOutline
    from cofill.data.vocabulary import Id
    from cofill.models.lists.rules import Rules, SimilarRules
    from cofill.models.recommender import Recommender
    from cofill.models.results import Explanation

COMMON = ("--where", "--exclude", "--diversity", "--boost")


def _add_at(parser: argparse.ArgumentParser) -> None:
    text = (
        "the time of the request, such as 2001-01-31, for lists that follow order and time (default: the latest known)"
    )
    parser.add_argument("--at", type=moment, metavar="TIME", help=text)


# Rules of lists


def _add_rank_by(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--rank-by", choices=("list", "rating"), default="list", help=text)


def _add_rules(parser: argparse.ArgumentParser, *, similar: bool = False) -> None:
    """Add the rules of lists, or those that make sense for lists of `similar` items."""
    group = parser.add_argument_group("rules", "What may be in a list.")
    group.add_argument(
        "--where",
        action="append",
        metavar="COLUMN:VALUE",
        help="only such items: genres:Comedy, year:1990..1999; repeat for more, which all have to "
        "hold, apart from several values of one column; `cofill features MODEL` lists the columns",
    )
    few = "only items that at least N people rated (default 0)"
    group.add_argument("--min-ratings", type=count_or_zero, default=0, metavar="N", help=few)
    group.add_argument("--among", nargs="+", action="extend", metavar="ID", help="only these items")
    group.add_argument("--exclude", nargs="+", action="extend", metavar="ID", help="none of these items")
    most = "at most N items with the same value of a column, such as genres=3; repeat for more"
    group.add_argument("--at-most", action="append", metavar="COLUMN=N", help=most)
    unlike = "how unlike each other items are; from 0 to 1 (default 0)"
    group.add_argument("--diversity", type=share, default=0.0, metavar="SHARE", help=unlike)
    if similar:
        return
    factor = "multiply scores, such as genres:Comedy=1.5; repeat for more"
    group.add_argument("--boost", action="append", metavar="COLUMN:VALUE=FACTOR", help=factor)
    places = "the share of places, from 0 to 1, for items without a rating, scored by their features (default 0)"
    group.add_argument("--new-items", type=share, default=0.0, metavar="SHARE", help=places)


def _similar_rules(options: argparse.Namespace, model: "Recommender | ModelOutline") -> "SimilarRules":
    """The rules that were given, of those that make sense for similar items."""
    from cofill.data.conditions import conditions_in, limits_in

    for flag, ids in (("--among", options.among), ("--exclude", options.exclude)):
        unknown = [item for item in ids or () if item not in model.items]
        if unknown and not options.quiet:
            note(f"{flag}: not in the model, and left out: {', '.join(map(repr, unknown))}")
    return {
        "where": conditions_in(options.where or (), model.item_attributes) or None,
        "min_ratings": options.min_ratings,
        "among": options.among,
        "exclude": options.exclude,
        "at_most": limits_in(options.at_most or ()) or None,
        "diversity": options.diversity,
    }


def _rules(options: argparse.Namespace, model: "Recommender | ModelOutline") -> "Rules":
    """All rules that were given."""
    from cofill.data.conditions import boosts_in

    boosts = boosts_in(options.boost or (), model.item_attributes) or None
    return {**_similar_rules(options, model), "boost": boosts, "new_items": options.new_items}


def _note_nothing_left(options: argparse.Namespace) -> None:
    rules = ("where", "min_ratings", "among", "exclude", "at_most")
    flags = [f"--{name.replace('_', '-')}" for name in rules if getattr(options, name)]
    if not options.quiet:
        fitting = f" that fits {' and '.join(flags)}; ask for less" if flags else "; --include-known shows them all"
        note(f"no item is left{fitting}")


# New users and items


def _add_describe(parser: argparse.ArgumentParser, ratings: str) -> None:
    """Add --describe, for a new user; their ratings, if any, come from another flag."""
    parser.add_argument(
        "--describe",
        action="append",
        type=pair("COLUMN=VALUE", "age=25", str),
        metavar="COLUMN=VALUE",
        help=f"a new user: what is known, such as age=25; with or without {ratings}; "
        "`cofill features MODEL` lists the columns",
    )


def _add_tables(parser: argparse.ArgumentParser) -> None:
    """Add the flags for tables that describe items and users."""
    for side in SIDES:
        text = f"a table of new {side}s; with the columns that the model was trained with (`cofill features MODEL`)"
        parser.add_argument(f"--{side}-features", action="append", type=Path, metavar="FILE", help=text)
    add_file_reading(parser.add_argument_group("reading of side information"))


def _description(options: argparse.Namespace, model: "Recommender") -> dict[str, str | None] | None:
    """All columns that the model knows, with the values given by --describe; None if it is not given."""
    if not options.describe:
        return None
    from cofill.data.columns import USUAL_NAMES, normalised

    about = given_once("--describe", options.describe)
    sources = model.user_features.sources if model.user_features else ()
    columns: dict[str, str | None] = dict.fromkeys(column.name for source in sources for column in source.used)
    ids = {source.id_name for source in sources}
    for column, value in about.items():
        if column not in columns and (column in ids or normalised(column) in ("id", *USUAL_NAMES["user"])):
            raise SettingsError(
                f"--describe {column}={value} is an id, and --describe is for a new user; use --user {value}"
            )
    return columns | about


def _note_unknown(about: Mapping[str, str | None] | None, options: argparse.Namespace) -> None:
    unknown = [column for column, value in (about or {}).items() if value is None]
    if unknown and not options.quiet:
        note(f"not described, so taken as unknown: {', '.join(unknown)}")


# cofill recommend


def add_recommend(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--user", metavar="ID", help="a user of the model; or one that --user-features describes")
    new = "a new user: a file with the columns item and rating, in the order in which things were done or with a time"
    who.add_argument("--ratings", type=Path, metavar="FILE", help=new)
    who.add_argument("--all", action="store_true", help="all users; CSV, or one JSON document a line with --json")
    _add_describe(parser, "--ratings")
    _add_tables(parser)
    add_count(parser)
    _add_rank_by(parser, "what a user would choose (list) or rate highest (default list)")
    _add_at(parser)
    known = "also recommend items that the user has rated"
    parser.add_argument("--include-known", action="store_true", help=known)
    out = "with --all: the file to write; with --ray, a folder of Parquet files"
    parser.add_argument("--out", type=Path, metavar="FILE", help=out)
    add_scoring(parser, "with --all: make the lists by tasks over ranges of users on a Ray cluster, into --out")
    add_output(parser)
    _add_rules(parser)
    add_reading(parser, ("item", "rating", "time"))
    parser.set_defaults(refuse=parser.error)


def run_recommend(options: argparse.Namespace) -> int:
    from cofill.models.recommender import Recommender

    check_ray(options)
    _check_recommend(options)
    if options.ray is not None:
        return _recommend_on_cluster(options)
    model = Recommender.load(options.model)
    describe_from(options, model)
    if options.all:
        return _recommend_to_all(model, options)
    who, title, about, times = options.user, f"For user {options.user}", None, None
    if options.user is None:
        who, times, title, about = _new_user(model, options)
    found = model.recommend(
        who,
        options.n,
        by=options.rank_by,
        features=about,
        times=times,
        at=options.at,
        exclude_known=not options.include_known,
        **_rules(options, model),
    )
    if not (options.user is None or options.user in model.users or options.quiet):
        note(f"user {options.user!r} is not in the model: this is the list of a user without ratings")
    _note_unknown(about, options)
    if not found:
        _note_nothing_left(options)
    if options.json:
        print_json(list(map(_document, found)))
        return 0
    rows = [(at, str(one.item), one.score, stars(one.rating), one.raters, one.title) for at, one in enumerate(found, 1)]
    print_table(title, ("", "item", "score", "predicted rating", "raters", "title"), rows)
    return 0


def _check_recommend(options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    new = options.ratings is not None or options.describe
    if not (new or options.user is not None or options.all):
        options.refuse("one of the arguments --user --ratings --describe --all is required")
    if options.all and options.at is not None:
        raise SettingsError("--at is the time of one request, and --all is of all users; leave out one of them")
    if not options.all and (options.out is not None or options.ray is not None):
        raise SettingsError("--out and --ray go with --all; add --all, or leave them out")
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


def _new_user(
    model: "Recommender", options: argparse.Namespace
) -> "tuple[dict[Id, float], dict[Id, float] | None, str, dict[str, str | None] | None]":
    """A new user's ratings and their times, a title for the table, and their features."""
    from cofill.data.pairs import read_somebody

    ratings: dict[Id, float] = {}
    times, words = None, []
    if options.ratings is not None:
        ratings, times = read_somebody(options.ratings, **reading_from(options))
        words.append(f"{len(ratings)} rating{'s' if len(ratings) > 1 else ''}")
    words += [f"{column} {value or 'unknown'}" for column, value in options.describe or ()]
    return ratings, times, f"For a user with {', '.join(words)}", _description(options, model)


def _recommend_to_all(model: "Recommender", options: argparse.Namespace) -> int:
    from cofill.files import replacing

    if options.out is None:
        _write_lists(model, options, sys.stdout)
        return 0
    endings = (".jsonl", ".json") if options.json else (".csv",)
    if options.out.suffix not in endings:
        form = "lines of JSON" if options.json else "CSV; --json gives lines of JSON"
        raise DataError(f"{options.out}: lists of all users are written as {form}; end the name in {endings[0]}")
    with replacing(options.out) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        _write_lists(model, options, file)
    if not options.quiet:
        note(f"recommendations for {len(model.users):,} users written to {options.out}")
    return 0


def _write_lists(model: "Recommender", options: argparse.Namespace, file: TextIO) -> None:
    from cofill.data.frames import safe_in_a_spreadsheet

    quiet = options.quiet or (file is sys.stdout and file.isatty())  # the output itself shows how far it is
    rules = _rules(options, model)
    with progress_shown(quiet, transient=True) as progress:
        lists = model.recommend_many(
            n=options.n, by=options.rank_by, exclude_known=not options.include_known, progress=progress, **rules
        )
        if options.json:
            for user, found in lists:
                document = {"user": user, "recommendations": list(map(_document, found))}
                file.write(json.dumps(document, ensure_ascii=False) + "\n")
            return
        file.write(",".join(lists.schema) + "\n")
        for frame in lists.frames():
            file.write(safe_in_a_spreadsheet(_rounded(frame)).write_csv(include_header=False))


def _rounded(frame: "pl.DataFrame") -> "pl.DataFrame":
    """With as many digits as mean something."""
    import polars as pl

    digits = [pl.col("score").cast(pl.Float64).round_sig_figs(6)]
    if "rating" in frame.columns:
        digits.append(pl.col("rating").cast(pl.Float64).round(4))
    return frame.with_columns(number.replace(-0.0, 0.0) for number in digits)


def _recommend_on_cluster(options: argparse.Namespace) -> int:
    from cofill.cluster.score import ModelOutline, recommend_everybody
    from cofill.workers import orderly_termination

    check_folder(options, "lists")
    outline = ModelOutline(options.model)
    rules = _rules(options, outline)
    with share_done("recommending", options.quiet) as report, orderly_termination():
        scored = recommend_everybody(
            outline, options.out, division(options),
            n=options.n, by=options.rank_by, exclude_known=not options.include_known, rules=rules,
            report=report,
        )  # fmt: skip
    show_scored(options, scored, "lists")
    return 0


def _document(entry: Any) -> dict[str, Any]:
    """A named tuple for JSON, without what is unknown."""
    return {name: value for name, value in entry._asdict().items() if value is not None}


# cofill similar


def add_similar(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--item", metavar="ID", required=True, help="the item")
    add_count(parser)
    _add_rules(parser, similar=True)
    add_output(parser, "print no notes")


def run_similar(options: argparse.Namespace) -> int:
    from cofill.models.recommender import Recommender

    model = Recommender.load(options.model)
    found = model.similar(options.item, options.n, **_similar_rules(options, model))
    if not found:
        _note_nothing_left(options)
    if options.json:
        print_json(list(map(_document, found)))
        return 0
    title = model.titles.get(model.items.id(model.items.index(options.item)))
    rows = [(rank, str(entry.item), entry.similarity, entry.title) for rank, entry in enumerate(found, 1)]
    print_table(f"Like {title or options.item}", ("", "item", "similarity", "title"), rows)
    return 0


# cofill predict


def add_predict(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
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
    _add_tables(parser)
    add_scoring(parser, "predict by tasks over ranges of users on a Ray cluster, into the folder --out")
    add_output(parser, "show no progress and print no notes")
    add_reading(parser, ("user", "item"))


def run_predict(options: argparse.Namespace) -> int:
    import polars as pl

    from cofill.data.pairs import read_pairs
    from cofill.data.table import write_frame
    from cofill.models.recommender import Recommender

    check_ray(options)
    if options.ray is not None:
        return _predict_on_cluster(options)
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


def _predict_on_cluster(options: argparse.Namespace) -> int:
    import polars as pl

    from cofill.cluster.score import ModelOutline, predict_pairs
    from cofill.data.pairs import read_pairs
    from cofill.workers import orderly_termination

    check_folder(options, "predictions")
    users, items = read_pairs(options.pairs, **reading_from(options))
    pairs = pl.DataFrame({"user": users, "item": items}, strict=False)
    with share_done("predicting", options.quiet) as report, orderly_termination():
        scored = predict_pairs(
            ModelOutline(options.model), pairs, options.out, division(options),
            with_interval=options.interval, report=report,
        )  # fmt: skip
    show_scored(options, scored, "predictions")
    return 0


# cofill explain


def add_explain(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("item", metavar="ITEM", help="the item to explain")
    _add_rank_by(parser, "explain its score in lists (list, the default), or its predicted rating")
    parser.add_argument("--user", metavar="ID", help="a user of the model")
    parser.add_argument(
        "--rating",
        action="append",
        type=pair("ITEM=RATING", "Alien=5", float),
        metavar="ITEM=RATING",
        help="a new user: one of their ratings, such as Alien=5; repeat for more, in the order in which they rated",
    )
    _add_describe(parser, "--rating")
    _add_at(parser)
    add_count(parser)
    add_output(parser, "print no notes")
    parser.set_defaults(refuse=parser.error)


def run_explain(options: argparse.Namespace) -> int:
    from cofill.models.recommender import Recommender

    new = bool(options.rating or options.describe)
    if not new and options.user is None:
        options.refuse("one of the arguments --user --rating --describe is required")
    if new and options.user is not None:
        other = "--rating" if options.rating else "--describe"
        raise SettingsError(f"{other} is for a new user, and --user for a user of the model; leave out one")
    model = Recommender.load(options.model)
    who: Any = given_once("--rating", options.rating) if new else options.user
    about = _description(options, model)
    found = model.explain(who, options.item, by=options.rank_by, features=about, at=options.at)
    if not (new or options.user in model.users or options.quiet):
        note(f"user {options.user!r} is not in the model: this is the score for a user without ratings")
    _note_unknown(about, options)
    if options.json:
        print_json(_document(found) | {"contributions": list(map(_document, found.contributions))})
    else:
        _print_explanation(found, options.n)
    return 0


def _print_explanation(found: "Explanation", n: int) -> None:
    """The table of what moves it most, and how far the rest does; a remainder only where it is more than rounding."""
    largest, others = found.contributions[:n], found.contributions[n:]

    def row(
        what: str | None, amount: float, rated: float | None = None, title: str | None = None
    ) -> tuple[object, ...]:
        # A list score has no scale, so that only the shares of it can be compared.
        share = f"{amount / found.value:z.1%}" if found.by == "list" and found.value > 0 else None
        return what, None if rated is None else f"{rated:g}", amount, share, title

    rows = [row("base, without ratings", found.base)]
    for one in largest:
        rows.append(row(one.feature if one.item is None else str(one.item), one.amount, one.rating, one.title))
    if others:
        rows.append(row(f"{len(others):,} more", sum(entry.amount for entry in others)))
    if float(shown(found.remainder)):
        rows.append(row("remainder", found.remainder))
    if found.clipped != found.value:
        rows.append(row("beyond the scale", found.clipped - found.value))
    together = "the list score" if found.by == "list" else "the predicted rating"
    rows.append(row(f"together: {together}", found.clipped))
    print_table(f"Why {found.title or found.item}", ("", "rated", "amount", "share", "title"), rows)
    if found.groups is not None:
        groups = ", ".join(f"{name} {shown(amount)}" for name, amount in found.groups.items())
        sys.stdout.write(f"of it: {groups}\n")
    if found.low is not None and found.high is not None:
        sys.stdout.write(f"likely {found.low:z.2f} to {found.high:z.2f} (90 % prediction interval)\n")
