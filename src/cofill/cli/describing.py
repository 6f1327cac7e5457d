"""New items and users, described to a model on the command line by the columns that it was trained with."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cofill.cli.side_information import SIDES, Side, in_utf8, titles_in
from cofill.errors import DataError

if TYPE_CHECKING:
    from cofill.data.features import Features
    from cofill.recommender import Recommender


def add_describing(parser: argparse.ArgumentParser) -> None:
    """Tables that describe items and users to a model."""
    for side in SIDES:
        parser.add_argument(
            f"--{side}-features",
            action="append",
            type=Path,
            metavar="FILE",
            help=f"a table of new {side}s with the columns that the model was trained with (`cofill features MODEL`)",
        )


def learned_columns(model: "Recommender", folder: Path, side: Side, flag: str) -> "Features":
    """What a model learned about the columns of a side; an error if it was trained without."""
    learned = model.item_features if side == "item" else model.user_features
    if learned is None:
        raise DataError(
            f"{folder}: was trained without side information about {side}s, so {flag} cannot tell it anything; "
            f"leave it out, or train again with --{side}-features"
        )
    return learned


def describe_from(options: argparse.Namespace, model: "Recommender") -> None:
    """Tell the model what the files of `add_describing` say."""
    quiet = getattr(options, "quiet", False)
    for path in options.item_features or ():
        learned_columns(model, options.model, "item", "--item-features")
        with in_utf8(path, quiet=quiet) as readable:
            model.describe_items(readable)
            titles = titles_in(readable)
        for item, title in titles.items():
            if item in model.items:
                model.titles[model.items.id(model.items.index(item))] = title
    for path in options.user_features or ():
        learned_columns(model, options.model, "user", "--user-features")
        with in_utf8(path, quiet=quiet) as readable:
            model.describe_users(readable)
