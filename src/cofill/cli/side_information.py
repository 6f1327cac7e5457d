"""Files of side information on the command line: their options, how they are read, and cofill features SOURCE."""

import argparse
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from cofill.cli.options import Group, add_output, count, given_once, name_or_position
from cofill.cli.output import note, print_json, print_table
from cofill.errors import DataError, DatasetError, SettingsError

if TYPE_CHECKING:
    from cofill.data.described import SideInformation
    from cofill.data.features import FeatureReport, Features, Kind
    from cofill.data.ratings import Ratings
    from cofill.data.table import Table
    from cofill.data.vocabulary import Id
    from cofill.models.recommender import Recommender

Side = Literal["item", "user"]
SIDES: tuple[Side, ...] = ("item", "user")
_Read = TypeVar("_Read")
_REDUCED_TO = 50  # columns, unless --feature-size says otherwise
_WITHOUT = "--without-side-information"
TABLE, LINKS = "table", "links"
# By the flag: the kind of the source, and what it is. What the data know is not asked: --help would wait for polars.
_SOURCES: dict[str, tuple[str, str]] = {
    "features": (TABLE, "a table with a row for each {side}; numbers, categories, dates, texts"),
    "text": (TABLE, "a table with a text for each {side}, such as a plot or a description"),
    "tags": ("tags", "a list of {side}, tag[, count]"),
    "links": (LINKS, "a list of {side}, {side}[, weight]: who or what belongs together"),
    "vectors": ("vectors", "a Parquet file with a vector for each {side}, such as an embedding"),
}
SOURCE_KINDS = tuple(dict.fromkeys(kind for kind, _ in _SOURCES.values()))
COLUMN_KINDS = ("image", "skip", "flag", "date", "number", "several", "text", "category")
HOW_READ = (
    "feature_kind", "feature_size", "one_way_links", "id_column", "feature_separator", "feature_header",
    "feature_encoding",
)  # fmt: skip
"""The options that say how files of side information are read."""


# Options


def add_side_information(parser: argparse.ArgumentParser) -> None:
    """Add the flags for files with side information about items and users."""
    group = parser.add_argument_group(
        "side information",
        "What is known about items and users apart from ratings. Each may be given several files. "
        "A data set by its name brings its own, and so does a partition; these files are added to it.",
    )
    for side in SIDES:
        for what, (_, text) in _SOURCES.items():
            several: dict[str, Any] = {"nargs": "+", "action": "extend", "type": Path, "metavar": "FILE"}
            group.add_argument(f"--{side}-{what}", help=text.format(side=side), **several)
    add_feature_reading(group)
    ignored = "ignore the side information of a data set or a partition; use its ratings only"
    group.add_argument(_WITHOUT, action="store_true", help=ignored)


def add_feature_reading(group: Group, *, alone: bool = False) -> None:
    """Add the flags for kinds of columns and the like; `alone`: the command reads no other files."""
    group.add_argument(
        "--feature-kind",
        action="append",
        type=_column_kind,
        metavar="COLUMN=KIND",
        help=f"kind of a column, where it was detected wrongly: {', '.join(COLUMN_KINDS)}",
    )
    size = f"columns that texts, tags or links are reduced to, by truncated SVD (default {_REDUCED_TO})"
    group.add_argument("--feature-size", type=count, metavar="N", help=size)
    links = "links are directed: a link from a to b is not one from b to a"
    group.add_argument("--one-way-links", action="store_true", help=links)
    add_file_reading(group, alone=alone)


def add_file_reading(group: Group, *, alone: bool = False) -> None:
    """Add the flags for the id column and the layout of a file; `alone`: the command reads no other files."""
    group.add_argument(
        "--id-column",
        type=name_or_position,
        metavar="COLUMN",
        help="id column of side information files: a name (for files that have it) or a position from 0",
    )
    layout: dict[str, tuple[str, dict[str, Any]]] = {
        "separator": ("separator between columns of side information files", {"metavar": "TEXT"}),
        "header": ("whether their first line holds column names", {"action": argparse.BooleanOptionalAction}),
        "encoding": ("their character encoding (default utf-8, or else latin-1)", {"metavar": "NAME"}),
    }
    for name, (text, how) in layout.items():
        flags = [f"--{name}", f"--feature-{name}"] if alone else [f"--feature-{name}"]
        group.add_argument(*flags, dest=f"feature_{name}", help=text, **how)


def _column_kind(text: str) -> tuple[str, str]:
    column, _, kind = text.rpartition("=")
    if not column or kind not in COLUMN_KINDS:
        kinds = ", ".join(COLUMN_KINDS)
        raise argparse.ArgumentTypeError(f"must be COLUMN=KIND with a kind among {kinds}, got {text!r}")
    return column, kind


def given_side_information(options: argparse.Namespace) -> list[str]:
    """The side information flags that were given."""
    return [f"--{side}-{what}" for side in SIDES for what in _SOURCES if getattr(options, f"{side}_{what}")]


def given_flags(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Those of these options that were given, as flags."""
    return [f"--{name.replace('_', '-')}" for name in names if getattr(options, name) not in (None, False, [])]


# Reading


class SideReader:
    """Reads files of side information as the options say, and remembers which columns their tables had."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._kinds = given_once("--feature-kind", getattr(options, "feature_kind", None))
        self._columns: set[str] = set()

    def table(self, path: Path, *, familiar: Collection[str] = (), quiet: bool = False) -> "Table":
        """The cells of one file; `familiar` are names that make its first line a header."""
        from cofill.data.table import read_raw

        own, options = self._options.id_column, self._options
        given: dict[str, Any] = {"separator": options.feature_separator, "header": options.feature_header}
        given["familiar"] = familiar if own is None else {*familiar, str(own)}
        return self.decoded(path, lambda encoding: read_raw(path, **given, encoding=encoding), quiet)

    def decoded(self, path: Path, read: Callable[[str], _Read], quiet: bool = False) -> _Read:
        """Call `read` with the given encoding, or else with the first of UTF-8 and Latin-1 that fits."""
        from cofill.data.text import UTF_16

        given = self._options.feature_encoding
        try:
            return read(given or "utf-8")
        except DataError as error:
            cause = error.__cause__
            if given or not isinstance(cause, UnicodeDecodeError) or cause.object.startswith(UTF_16):
                raise
        if not (quiet or self._options.quiet):
            note(f"{path}: is not UTF-8, so it is read as Latin-1; save it as UTF-8 if letters look wrong")
        return read("latin-1")

    def id_in(self, table: "Table") -> str | int | None:
        """The id column given for this table, if any."""
        own: str | int | None = self._options.id_column
        return own if isinstance(own, int) or own in table.names else None

    def features(self, path: Path, kind: str | None, name: str | None = None, about: Side | None = None) -> "Features":
        """The features of one file; whether it is about users or items may be unknown."""
        from cofill.data.features import Features

        if path.suffix == ".npy":
            raise DataError(
                f"{path}: a .npy file has no ids; write a Parquet file with a column of ids, or read it in Python with "
                "Features.read(path, ids=...)"
            )
        table = self.table(path)
        self._columns.update(table.names)
        columns = {column: own for column, own in self._kinds.items() if column in table.names}
        columns = columns if kind in (None, TABLE) else {}
        return Features.read(
            table,
            kind=TABLE if columns else kind,
            id=self.id_in(table),
            columns=columns or None,
            name=name,
            reduce_to=self._options.feature_size or _REDUCED_TO,
            both_ways=not self._options.one_way_links,
            about=about,
        )

    def check_columns(self) -> None:
        """Check, after reading, that --id-column and every --feature-kind named a column of some table."""
        own = self._options.id_column
        flags = {f"--feature-kind {column}={kind}": column for column, kind in self._kinds.items()}
        if isinstance(own, str) and self._columns:
            flags[f"--id-column {own}"] = own
        for flag, column in flags.items():
            if not self._columns:
                raise SettingsError("--feature-kind is about the columns of tables, and none is given; leave it out")
            if column not in self._columns:
                near = get_close_matches(column, self._columns, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(self._columns))}"
                raise DataError(f"{flag}: no table has a column {column!r}; {hint}")

    def titles(self, path: Path, table: "Table | None" = None) -> "dict[Id, str]":
        """The titles in a table of items: in a column that is called so, or that follows the ids and ends in years."""
        from cofill.data.columns import recognised
        from cofill.data.pairs import read_titles

        table = table or self.table(path, quiet=True)
        found = recognised(table.names)["title"]
        titled = bool(found) if table.headed else found == [1]
        try:
            return read_titles(table, item=self.id_in(table)) if titled else {}
        except DataError:
            return {}  # features can be read in more ways than titles


def side_information_from(options: argparse.Namespace) -> "SideInformation":
    """The side information of a named data set, joined with that of all files."""
    from cofill.data.described import SideInformation

    given = given_side_information(options)
    if options.without_side_information and given:
        raise SettingsError(f"{_WITHOUT} and {given[0]} exclude each other; leave out one")
    if options.one_way_links and not {"--item-links", "--user-links"} & set(given):
        raise SettingsError("--one-way-links goes with --item-links or --user-links; leave it out")
    if options.feature_size is not None and not given:
        raise SettingsError("--feature-size is for files of side information, and none is given; leave it out")
    brought, reader = _brought(options), SideReader(options)
    items = _joined("item", brought.items, options, reader)
    users = _joined("user", brought.users, options, reader)
    reader.check_columns()
    return SideInformation(users, items)


def _brought(options: argparse.Namespace) -> "SideInformation":
    """The side information that comes with a named data set, or with a partition."""
    from cofill.data import datasets
    from cofill.data.described import SideInformation
    from cofill.data.partition import Partition, is_partition

    name = options.ratings
    if options.without_side_information or Path(name).is_file():
        return SideInformation(None, None)
    if is_partition(Path(name)):
        return SideInformation(*Partition.open(name).read_features())
    if name not in datasets.catalogue():
        return SideInformation(None, None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", datasets.UnpublishedFileWarning)  # the reading of its ratings has said so
            return datasets.side_information(name, quiet=options.quiet)
    except DatasetError as error:
        raise DatasetError(f"{error} Or train on its ratings alone with {_WITHOUT}.") from error


def _joined(
    side: Side, brought: "Features | None", options: argparse.Namespace, reader: SideReader
) -> "Features | None":
    from cofill.data.features import Features

    parts = [] if brought is None else [brought]
    where = dict.fromkeys(_used(parts), str(options.ratings))
    for what, (kind, _) in _SOURCES.items():
        for path in getattr(options, f"{side}_{what}") or ():
            # Tags, links and vectors are called "tags" and so on; those of a second file by its name.
            names = [kind, path.stem, *(f"{path.stem} {number}" for number in range(2, 1000))]
            name = None if kind == TABLE else next(name for name in names if name not in where)
            part = reader.features(path, kind, name, side)
            for column in _used([part]):
                if column in where:
                    raise DataError(f"{path}: its column {column!r} is also in {where[column]}; rename one of them")
                where[column] = str(path)
            parts.append(part)
    return Features.join(parts) if len(parts) > 1 else parts[0] if parts else None


def _used(parts: "Sequence[Features]") -> list[str]:
    return [column.name for part in parts for source in part.sources for column in source.used]


def titles_from(options: argparse.Namespace) -> "dict[Id, str]":
    """Titles from --titles, or else from --item-features."""
    from cofill.data.pairs import read_titles

    reader = SideReader(options)
    found: dict[Id, str] = {}
    if options.titles:
        return reader.decoded(options.titles, lambda encoding: read_titles(options.titles, encoding=encoding))
    for path in options.item_features or ():
        found = reader.titles(path) | found
    return found


def describe_from(options: argparse.Namespace, model: "Recommender") -> None:
    """Add what the tables of --item-features and --user-features say to the model, in the columns that it learned."""
    reader = SideReader(options)
    for side in SIDES:
        learned = model.item_features if side == "item" else model.user_features
        for path in getattr(options, f"{side}_features") or ():
            table = _named_as_learned(path, learned, reader) if learned else reader.table(path)
            if side == "user":
                model.describe_users(table)
                continue
            model.describe_items(table)
            for item, title in reader.titles(path, table).items():
                if item in model.items:
                    model.titles[model.items.id(model.items.index(item))] = title


def _named_as_learned(path: Path, learned: "Features", reader: SideReader) -> "Table":
    """A table of new users or items, with the id column named as the model knows it."""
    ids = [source.id_name for source in learned.sources if source.id_name is not None]
    table = reader.table(path, familiar={*ids, *_used([learned])})
    said = reader.id_in(table)
    if said is None or not ids:
        return table
    at = table.position(said, "id")
    names = [ids[0] if position == at else name for position, name in enumerate(table.names)]
    return replace(table, found=dict(zip(names, table.found.values(), strict=True)))


# What is shown


def matched_side(side: Side, features: "Features | None", ratings: "Ratings") -> dict[str, Any] | None:
    """Count the ids with features and ratings, or with only one of them; an error if none has both."""
    from cofill.data.described import matched

    ids, index = (ratings.items, ratings.item_index) if side == "item" else (ratings.users, ratings.user_index)
    return matched(features, side, ids, index)


def show_side_information(side: Side, features: "Features | None", found: dict[str, Any] | None) -> None:
    """Print on stderr how each column was encoded, and the counts of `matched_side`."""
    if features is None or found is None:
        return
    show_features(f"Side information about {side}s", features, beside=True)
    note(
        f"{side}s: {found['described']:,} with ratings and features, {found['undescribed']:,} with ratings alone "
        f"(zeros stand in for features), {found['unrated']:,} with features alone (kept: they are cold)"
    )


def show_features(title: str, features: "Features", *, beside: bool = False) -> None:
    """Print how each column was encoded."""
    made = "1 column" if features.width == 1 else f"{features.width:,} columns"
    rows = [(line.source, line.column, line.kind, line.width, line.missing, line.example) for line in features.report()]
    columns = ("source", "column", "kind", "columns made", "missing", "example")
    print_table(f"{title}: {len(features.ids):,} ids, {made} made", columns, rows, beside=beside)


# cofill features

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
            rows = [_told(column, line.width) for column, line in _columns_of(features) if column.used]
            columns = ("column", "what belongs there", "columns made", "such as")
            print_table(f"{side.capitalize()}s are described to this model by", columns, rows)
            hints.append(_hint(folder, side, features))
    if not options.quiet:
        note("\n".join(hints) or f"{folder}: was trained without side information")
    return 0


def _refuse_reading(options: argparse.Namespace, what: str) -> None:
    for flag in given_flags(options, ("kind", *HOW_READ)):
        raise SettingsError(f"{options.source} is {what}; leave out {flag}")


def _columns_of(features: "Features") -> "list[tuple[Kind, FeatureReport]]":
    columns = [column for source in features.sources for column in source.columns]
    return list(zip(columns, features.report(), strict=True))


def _document(features: "Features") -> dict[str, Any]:
    about = [line._asdict() | {"categories": list(column.categories)} for column, line in _columns_of(features)]
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
    columns = [column for column, _ in _columns_of(features) if "=" not in column.name and column.name.isprintable()]
    examples = (quote(f"{column.name}={value}") for column in columns if (value := column.suggested()) is not None)
    return f"next: cofill recommend {model} --describe {next(examples, 'COLUMN=VALUE')}"
