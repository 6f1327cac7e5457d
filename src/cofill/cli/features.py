"""cofill features SOURCE"""

import argparse
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from cofill.cli.options import add_output
from cofill.cli.output import note, print_json, print_table
from cofill.cli.side_information import (
    HOW_READ,
    LINKS,
    SOURCE_KINDS,
    TABLE,
    Side,
    SideReader,
    add_feature_reading,
    given_flags,
    show_features,
)
from cofill.errors import DataError, SettingsError

if TYPE_CHECKING:
    from cofill.data.features import FeatureReport, Features, Kind

_LISTED = 12  # categories that a table shows


def add_features(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="a file of side information, a model's folder, or a data set's name"
    )
    parser.add_argument(
        "--kind",
        choices=SOURCE_KINDS,
        help="what the file holds (default: tags if it has a column tag, or a table)",
    )
    add_output(parser, "show no progress and no hints")
    add_feature_reading(parser, alone=True)


def run_features(options: argparse.Namespace) -> int:
    from cofill.data import datasets

    path = Path(options.source)
    if path.is_dir():
        _refuse_reading(options, "a model, which was trained already")
        return _model(path, options)
    if not path.exists() and options.source in datasets.catalogue():
        _refuse_reading(options, "a data set, whose side information is known")
        return _dataset(options)
    if not path.exists() and "/" not in options.source and "." not in options.source:
        raise DataError(f"{path}: neither a file, nor a model's folder, nor a data set; check the path")
    return _file(path, options)


def _file(path: Path, options: argparse.Namespace) -> int:
    if options.one_way_links and options.kind != LINKS:
        raise SettingsError("--one-way-links goes with --kind links; leave it out")
    if options.feature_kind and options.kind not in (None, TABLE):
        raise SettingsError(f"--feature-kind is about the columns of tables; leave it out with --kind {options.kind}")
    reader = SideReader(options)
    features = reader.features(path, options.kind)
    reader.check_columns()
    if options.json:
        print_json(_document(features))
        return 0
    show_features(str(path), features)
    if not options.quiet:
        (source,) = features.sources
        what = "features" if source.kind == TABLE else source.kind
        note(f"next: cofill train ratings.csv --item-{what} {quote(str(path))} --out model  (or --user-{what})")
    return 0


def _dataset(options: argparse.Namespace) -> int:
    from cofill.data import datasets

    brought = datasets.side_information(options.source, quiet=options.quiet)
    sides: dict[Side, Features | None] = {"item": brought.items, "user": brought.users}
    if options.json:
        print_json({f"{side}s": features and _document(features) for side, features in sides.items()})
        return 0
    for side, features in sides.items():
        if features is not None:
            show_features(f"{options.source}, {side}s", features)
    if not options.quiet and brought == (None, None):
        note(f"{options.source} brings no side information")
    return 0


def _model(folder: Path, options: argparse.Namespace) -> int:
    from cofill.models.recommender import Recommender

    model = Recommender.load(folder)
    sides: dict[Side, Features | None] = {"item": model.item_features, "user": model.user_features}
    if options.json:
        print_json(
            {
                f"{side}s": features and _document(features) | _counts(model.data_summary[f"{side}_features"])
                for side, features in sides.items()
            }
        )
        return 0
    hints = []
    for side, features in sides.items():
        if features is not None:
            rows = [_told(column, line.width) for column, line in _columns(features) if column.used]
            columns = ("column", "what belongs there", "columns made", "such as")
            print_table(f"{side.capitalize()}s are described to this model by", columns, rows)
            hints.append(_hint(folder, side, features))
    if not options.quiet:
        note("\n".join(hints) or f"{folder}: was trained without side information")
    return 0


def _refuse_reading(options: argparse.Namespace, what: str) -> None:
    for flag in given_flags(options, ("kind", *HOW_READ)):
        raise SettingsError(f"{options.source} is {what}; leave out {flag}")


def _columns(features: "Features") -> "list[tuple[Kind, FeatureReport]]":
    columns = [column for source in features.sources for column in source.columns]
    return list(zip(columns, features.report(), strict=True))


def _document(features: "Features") -> dict[str, Any]:
    about = [line._asdict() | {"categories": list(column.categories)} for column, line in _columns(features)]
    return {"ids": len(features.ids), "columns": features.width, "names": list(features.names), "about": about}


def _counts(known: dict[str, int]) -> dict[str, int]:
    """Counts for a model, which keeps a row of zeros for every id without features."""
    return {"ids": known["described"] + known["unrated"], **known}


def _told(column: "Kind", width: int) -> tuple[str, str, int, str]:
    """A table row about one column, for people who want to describe a new user or item."""
    known = column.categories
    listed = ", ".join(known[:_LISTED])
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return column.name, column.belongs, width, f"{listed}{more}" or column.example


def _hint(folder: Path, side: Side, features: "Features") -> str:
    model = quote(str(folder))
    if side == "item":
        return f"next: cofill recommend {model} --user ID --item-features new.csv  (a table with these columns)"
    columns = [column for column, _ in _columns(features) if "=" not in column.name and column.name.isprintable()]
    examples = (quote(f"{column.name}={value}") for column in columns if (value := column.suggested()) is not None)
    return f"next: cofill recommend {model} --describe {next(examples, 'COLUMN=VALUE')}"
