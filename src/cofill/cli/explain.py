"""cofill explain MODEL ITEM (--user ID | --rating ITEM=RATING ... | --describe COLUMN=VALUE ...)"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cofill.cli.describing import add_describe, description, given_once, note_unknown
from cofill.cli.list_rules import add_by, check_by
from cofill.cli.options import add_count, add_json
from cofill.cli.output import note, print_json, print_table, shown
from cofill.errors import SettingsError, UnknownIdError

if TYPE_CHECKING:
    from cofill.models.results import Explanation


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model's folder")
    parser.add_argument("item", metavar="ITEM", help="the item to explain")
    add_by(parser, "explain its score in lists (list, the default), or its predicted rating")
    parser.add_argument("--user", metavar="ID", help="a user of the model")
    parser.add_argument(
        "--rating",
        action="append",
        type=_item_and_rating,
        metavar="ITEM=RATING",
        help="a new user: one of their ratings, such as Alien=5; repeat for more",
    )
    add_describe(parser, "--rating")
    add_count(parser)
    parser.add_argument("--quiet", action="store_true", help="print no notes")
    add_json(parser)
    parser.set_defaults(refuse=parser.error)


def run(options: argparse.Namespace) -> int:
    from cofill.models.recommender import Recommender

    new = bool(options.rating or options.describe)
    if not new and options.user is None:
        options.refuse("one of the arguments --user --rating --describe is required")
    if new and options.user is not None:
        other = "--rating" if options.rating else "--describe"
        raise SettingsError(f"{other} is for a new user, and --user for a user of the model; leave out one")
    model = Recommender.load(options.model)
    check_by(options, model)
    if options.item not in model.items:
        raise UnknownIdError(f"item {options.item!r} is not in the model; check the id")
    if new:
        about = description(options, model)
        found = model.explain(
            given_once("--rating", options.rating or ()), options.item, by=options.rank_by, features=about
        )
        if not options.quiet:
            note_unknown(about)
    else:
        found = model.explain(options.user, options.item, by=options.rank_by)
        if options.user not in model.users and not options.quiet:
            note(f"user {options.user!r} is not in the model: this is the score for a user without ratings")
    if options.json:
        print_json(_as_json(found))
    else:
        print_explanation(found, options.n)
    return 0


def print_explanation(found: "Explanation", n: int) -> None:
    """The table of what moves it most, and how far the rest does; a remainder only where it is more than rounding."""
    told, others = found.contributions[:n], found.contributions[n:]

    def row(
        what: str | None, amount: float, rated: float | None = None, title: str | None = None
    ) -> tuple[object, ...]:
        # A list score has no scale, so that only the shares of it can be compared.
        share = f"{amount / found.value:z.1%}" if found.by == "list" and found.value > 0 else None
        return what, None if rated is None else f"{rated:g}", amount, share, title

    rows = [row("base, without ratings", found.base)]
    rows += [
        row(entry.feature if entry.item is None else str(entry.item), entry.amount, entry.rating, entry.title)
        for entry in told
    ]
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


def _as_json(found: "Explanation") -> dict[str, Any]:
    document = {name: value for name, value in found._asdict().items() if value is not None}
    document["contributions"] = [
        {name: value for name, value in entry._asdict().items() if value is not None} for entry in found.contributions
    ]
    return document


def _item_and_rating(text: str) -> tuple[str, float]:
    item, _, rating = text.rpartition("=")  # an id may have one of its own
    try:
        value = float(rating)
    except ValueError:
        item = ""
    if not item:
        raise argparse.ArgumentTypeError(f"must be ITEM=RATING, such as Alien=5, got {text!r}")
    return item, value
