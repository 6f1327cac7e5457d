"""Rules of lists on the command line: what lists are ranked by, which items may be in one, which count for more."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from cofill.cli.options import count_or_zero
from cofill.cli.output import note
from cofill.errors import DataError, SettingsError

if TYPE_CHECKING:
    from cofill.data.attributes import Attributes
    from cofill.data.vocabulary import Vocabulary
    from cofill.models.lists.rules import Rules, SimilarRules

_Found = TypeVar("_Found")


class Rulable(Protocol):
    """What rules need to know of a model, loaded or not."""

    items: "Vocabulary"

    @property
    def item_attributes(self) -> "Attributes": ...
    @property
    def rated(self) -> bool: ...


def add_by(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--rank-by", choices=("list", "rating"), default="list", help=text)


def add_similar_rules(parser: argparse.ArgumentParser) -> None:
    """Add those that make sense for lists of similar items."""
    _add_common(parser.add_argument_group("rules", "What may be in a list."))


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add all of them."""
    group = parser.add_argument_group("rules", "What may be in a list.")
    _add_common(group)
    group.add_argument(
        "--boost",
        action="append",
        metavar="COLUMN:VALUE=FACTOR",
        help="multiply the scores of items that are so, such as genres:Comedy=1.5; repeat for more",
    )
    group.add_argument(
        "--new-items",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="the share of places, from 0 to 1, for items without ratings, scored by their features (default 0)",
    )


def _add_common(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--where",
        action="append",
        metavar="COLUMN:VALUE",
        help="only items that are so, such as genres:Comedy or year:1990..1999; repeat for more, which all have to "
        "hold, apart from several values of one column; `cofill features MODEL` lists the columns",
    )
    group.add_argument(
        "--min-ratings",
        type=count_or_zero,
        default=0,
        metavar="N",
        help="only items that at least N people rated (default 0)",
    )
    group.add_argument("--among", nargs="+", action="extend", metavar="ID", help="only these items")
    group.add_argument("--exclude", nargs="+", action="extend", metavar="ID", help="none of these items")
    group.add_argument(
        "--at-most",
        action="append",
        metavar="COLUMN=N",
        help="at most N items with the same value of a column, such as genres=3; repeat for more",
    )
    group.add_argument(
        "--diversity",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="from 0 to 1: how much being unlike the items before it counts (default 0)",
    )


def check_by(options: argparse.Namespace, model: "Rulable") -> None:
    if options.rank_by == "rating" and not model.rated:
        raise SettingsError(
            f"{options.model}: was trained on interactions, so it knows no ratings; leave out --rank-by rating"
        )


def similar_rules_from(options: argparse.Namespace, model: "Rulable") -> "SimilarRules":
    """The rules of `add_similar_rules` that were given."""
    from cofill.data.conditions import conditions_in, limits_in

    attributes = model.item_attributes
    if not options.quiet:
        _note_unknown_items(options, model)
    return {
        "where": _parsed("--where", options.where, attributes, conditions_in),
        "min_ratings": options.min_ratings,
        "among": options.among,
        "exclude": options.exclude,
        "at_most": _parsed("--at-most", options.at_most, attributes, lambda words, _: limits_in(words)),
        "diversity": options.diversity,
    }


def rules_from(options: argparse.Namespace, model: "Rulable") -> "Rules":
    """All rules that were given."""
    from cofill.data.conditions import boosts_in

    return {
        **similar_rules_from(options, model),
        "boost": _parsed("--boost", options.boost, model.item_attributes, boosts_in),
        "new_items": options.new_items,
    }


def narrowed(options: argparse.Namespace) -> list[str]:
    """The flags that keep items out of lists."""
    given = {"--where": options.where, "--min-ratings": options.min_ratings, "--among": options.among}
    given |= {"--exclude": options.exclude, "--at-most": options.at_most}
    return [flag for flag, value in given.items() if value]


def _parsed(
    flag: str,
    words: Sequence[str] | None,
    attributes: "Attributes",
    read: "Callable[[Sequence[str], Attributes], _Found]",
) -> _Found | None:
    if not words:
        return None
    try:
        return read(words, attributes)
    except DataError as error:
        raise error.said_of(f"{flag} {error.where}") from error


def _note_unknown_items(options: argparse.Namespace, model: "Rulable") -> None:
    for flag, ids in (("--among", options.among), ("--exclude", options.exclude)):
        unknown = [item for item in ids or () if item not in model.items]
        if unknown:
            more = f" and {len(unknown) - 1:,} more of" if len(unknown) > 1 else " of"
            note(f"item {unknown[0]!r}{more} {flag} {'are' if len(unknown) > 1 else 'is'} not in the model: left out")


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, got {text!r}")
    return value
