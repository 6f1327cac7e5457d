"""New items and users on the command line, described by the feature columns that the model was trained with."""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cofill.cli.output import note
from cofill.cli.side_information import SIDES, FeatureReading, Side, add_file_reading, titles_in
from cofill.data.columns import USUAL_NAMES, normalised
from cofill.errors import DataError, SettingsError

if TYPE_CHECKING:
    from cofill.data.features import Features
    from cofill.data.table import Table
    from cofill.models.recommender import Recommender

_Value = TypeVar("_Value")


def add_describing(parser: argparse.ArgumentParser) -> None:
    """Add the flags for tables that describe items and users."""
    for side in SIDES:
        parser.add_argument(
            f"--{side}-features",
            action="append",
            type=Path,
            metavar="FILE",
            help=f"a table of new {side}s with the columns that the model was trained with (`cofill features MODEL`)",
        )
    add_file_reading(parser.add_argument_group("reading of side information"))


def add_describe(parser: argparse.ArgumentParser, ratings: str) -> None:
    """Add --describe, for a new user; their ratings, if any, come from another flag."""
    parser.add_argument(
        "--describe",
        action="append",
        type=_column_and_value,
        metavar="COLUMN=VALUE",
        help=f"a new user, with or without {ratings}: their features, such as age=25; "
        "`cofill features MODEL` lists the columns",
    )


def given_once(flag: str, pairs: "Iterable[tuple[str, _Value]]") -> "dict[str, _Value]":
    """Names and values of a repeatable NAME=VALUE flag; a repeated name is an error."""
    found: dict[str, _Value] = {}
    for name, value in pairs:
        if name in found:
            raise SettingsError(f"{flag} {name}=... is given twice; keep one of them")
        found[name] = value
    return found


def description(options: argparse.Namespace, model: "Recommender") -> dict[str, str | None] | None:
    """All columns that the model knows, with the values given by --describe; None if it is not given."""
    if not options.describe:
        return None
    about = given_once("--describe", options.describe)
    learned = learned_columns(model, options.model, "user", "--describe")
    columns = [column.name for source in learned.sources for column in source.used]
    ids = {source.id_name for source in learned.sources}
    for column, value in about.items():
        if column not in columns and (column in ids or normalised(column) in ("id", *USUAL_NAMES["user"])):
            raise SettingsError(
                f"--describe {column}={value} is an id, and --describe is for a new user; use --user {value}"
            )
    return dict.fromkeys(columns) | about


def note_unknown(about: Mapping[str, str | None] | None) -> None:
    unknown = [column for column, value in (about or {}).items() if value is None]
    if unknown:
        note(f"not described, so taken as unknown: {', '.join(unknown)}")


def _column_and_value(text: str) -> tuple[str, str]:
    column, equals, value = text.partition("=")
    if not column or not equals:
        raise argparse.ArgumentTypeError(f"must be COLUMN=VALUE, such as age=25, got {text!r}")
    return column, value


def learned_columns(model: "Recommender", folder: Path, side: Side, flag: str) -> "Features":
    """The feature columns of one side that a model learned; an error if it was trained without features."""
    learned = model.item_features if side == "item" else model.user_features
    if learned is None:
        raise DataError(
            f"{folder}: was trained without side information about {side}s, so {flag} cannot tell it anything; "
            f"leave it out, or train again with --{side}-features"
        )
    return learned


def describe_from(options: argparse.Namespace, model: "Recommender") -> None:
    """Add the features in the files of `add_describing` to the model."""
    reading = FeatureReading.of(options)
    for path in options.item_features or ():
        learned = learned_columns(model, options.model, "item", "--item-features")
        table = _table(path, learned, reading)
        model.describe_items(table)
        for item, title in titles_in(table, reading).items():
            if item in model.items:
                model.titles[model.items.id(model.items.index(item))] = title
    for path in options.user_features or ():
        learned = learned_columns(model, options.model, "user", "--user-features")
        model.describe_users(_table(path, learned, reading))


def _table(path: Path, learned: "Features", reading: FeatureReading) -> "Table":
    """A table of new users or items, with the id column named as the model knows it."""
    ids = [source.id_name for source in learned.sources if source.id_name is not None]
    used = [column.name for source in learned.sources for column in source.used]
    table = reading.table(path, familiar={*ids, *used})
    said = reading.id_in(table)
    if said is None:
        return table
    at = table.position(said, "id")
    names = [ids[0] if position == at and ids else name for position, name in enumerate(table.names)]
    return replace(table, found=dict(zip(names, table.found.values(), strict=True)))
