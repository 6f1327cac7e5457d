"""Files of side information on the command line: their options, how they are read, and how that is shown."""

import argparse
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from cofill.cli.options import count, name_or_position
from cofill.cli.output import note, print_table
from cofill.data.described import SideInformation
from cofill.data.features.lists import TABLE, column_kinds, whole_sources
from cofill.data.text import UTF_16
from cofill.data.vocabulary import Id
from cofill.errors import DataError, DatasetError, SettingsError

if TYPE_CHECKING:
    from cofill.data.features import Features
    from cofill.data.ratings import Ratings
    from cofill.data.table import Table

Side = Literal["item", "user"]
_Read = TypeVar("_Read")
SIDES: tuple[Side, ...] = ("item", "user")

_SOURCES: dict[str, tuple[str, str]] = {
    "features": (TABLE, "a table with a row for each {side}: numbers, categories, dates, texts"),
    "text": (TABLE, "a table with a text for each {side}, such as a plot or a description"),
    **{called: (called, kind.flag_help) for called, kind in whole_sources().items()},
}
_READ_AS_LATIN_1 = "{path}: is not UTF-8, so it is read as Latin-1; save it as UTF-8 if letters look wrong"
_YEAR_LAST = re.compile(r"\(\d{4}\)\s*$")
_NO_SIDE_INFORMATION = "--without-side-information"


@dataclass
class FeatureReading:
    """The reading options that the caller gave for files of side information."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    size: int | None = None
    both_ways: bool = True
    quiet: bool = False
    id: str | int | None = None
    """The column of the ids; if it is named, of those files that have it."""
    separator: str | None = None
    header: bool | None = None
    encoding: str | None = None
    """None: UTF-8, or else Latin-1, in which older files are written."""
    _columns: set[str] = field(default_factory=set)  # of all tables that were read

    @classmethod
    def of(cls, options: argparse.Namespace) -> "FeatureReading":
        given = getattr(options, "feature_kind", None) or ()
        kinds = dict(given)
        if len(kinds) < len(given):
            raise SettingsError("--feature-kind sets the kind of a column twice; keep one of them")
        return cls(
            kinds,
            getattr(options, "feature_size", None),
            not getattr(options, "one_way_links", False),
            getattr(options, "quiet", False),
            options.id_column,
            options.feature_separator,
            options.feature_header,
            options.feature_encoding,
        )

    def table(self, path: Path, *, familiar: Collection[str] = (), quiet: bool | None = None) -> "Table":
        """The cells of one file; `familiar` are names that make its first line a header."""
        from cofill.data.table import read_raw

        familiar = {*familiar, str(self.id)} if self.id is not None else familiar
        given: dict[str, Any] = {"separator": self.separator, "header": self.header, "familiar": familiar}
        return self.decoded(path, lambda encoding: read_raw(path, **given, encoding=encoding), quiet)

    def decoded(self, path: Path, read: Callable[[str], _Read], quiet: bool | None = None) -> _Read:
        """Call `read` on the file at `path` with the given encoding, or else with the first that fits."""
        try:
            return read(self.encoding or "utf-8")
        except DataError as error:
            cause = error.__cause__
            if self.encoding or not isinstance(cause, UnicodeDecodeError) or cause.object.startswith(UTF_16):
                raise
        if not (self.quiet if quiet is None else quiet):
            note(_READ_AS_LATIN_1.format(path=path))
        return read("latin-1")

    def id_in(self, table: "Table") -> str | int | None:
        """The id column given for this table, if any."""
        return self.id if isinstance(self.id, int) or self.id in table.names else None

    def read(self, path: Path, kind: str | None, name: str | None = None, about: Side | None = None) -> "Features":
        """The features of one file; whether it is about users or items may be unknown."""
        from cofill.data.features import Features

        if path.suffix == ".npy":
            raise DataError(
                f"{path}: a .npy file has no ids; write a Parquet file with a column of ids, or read it in Python with "
                "Features.read(path, ids=...)"
            )
        table = self.table(path)
        self._columns.update(table.names)
        columns = {column: kind for column, kind in self.kinds.items() if column in table.names}
        columns = columns if kind in (None, TABLE) else {}
        return Features.read(
            table,
            kind=TABLE if columns else kind,
            id=self.id_in(table),
            columns=columns or None,
            name=name,
            reduce_to=_default_size() if self.size is None else self.size,
            both_ways=self.both_ways,
            about=about,
        )

    def check_columns(self) -> None:
        """Check, after reading, that --id-column and every --feature-kind named a column of some file."""
        if isinstance(self.id, str) and self._columns and self.id not in self._columns:
            there = ", ".join(sorted(self._columns))
            raise DataError(f"--id-column {self.id}: no file has a column {self.id!r}; there are {there}")
        for column, kind in self.kinds.items():
            if not self._columns:
                raise SettingsError("--feature-kind is about the columns of tables, and none is given; leave it out")
            if column not in self._columns:
                from difflib import get_close_matches

                near = get_close_matches(column, self._columns, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(self._columns))}"
                raise DataError(f"--feature-kind {column}={kind}: no table has a column {column!r}; {hint}")


def add_side_information(parser: argparse.ArgumentParser) -> None:
    """Add the flags for files with side information about items and users."""
    group = parser.add_argument_group(
        "side information",
        "What is known about items and users apart from ratings. Each may be given several files. "
        "A data set by its name brings its own, and so does a partition; these files are added to it.",
    )
    for side in SIDES:
        for what, (_, text) in _SOURCES.items():
            group.add_argument(
                f"--{side}-{what}", nargs="+", action="extend", type=Path, metavar="FILE", help=text.format(side=side)
            )
    add_feature_reading(group)
    group.add_argument(
        _NO_SIDE_INFORMATION,
        action="store_true",
        help="ignore the side information of a data set or a partition; use its ratings only",
    )


def add_feature_reading(group: "argparse.ArgumentParser | argparse._ArgumentGroup", *, alone: bool = False) -> None:
    """Add the flags for kinds of columns and the like; `alone`: the command reads no other files."""
    kinds = ", ".join(column_kinds())
    group.add_argument(
        "--feature-kind",
        action="append",
        type=_column_kind,
        metavar="COLUMN=KIND",
        help=f"kind of a column, where it was detected wrongly: {kinds}",
    )
    group.add_argument(
        "--feature-size",
        type=count,
        metavar="N",
        help=f"columns that texts, tags or links are reduced to, by truncated SVD (default {_default_size()})",
    )
    group.add_argument(
        "--one-way-links", action="store_true", help="links are directed: a link from a to b is not one from b to a"
    )
    add_file_reading(group, alone=alone)


def add_file_reading(group: "argparse.ArgumentParser | argparse._ArgumentGroup", *, alone: bool = False) -> None:
    """Add the flags for separator, header and encoding; `alone`: the command reads no other files."""

    def flags(name: str) -> list[str]:
        return [f"--{name}", f"--feature-{name}"] if alone else [f"--feature-{name}"]

    group.add_argument(
        "--id-column",
        type=name_or_position,
        metavar="COLUMN",
        help="id column of side information files: a name (for files that have it) or a position from 0",
    )
    group.add_argument(
        *flags("separator"),
        dest="feature_separator",
        metavar="TEXT",
        help="separator between columns of side information files",
    )
    group.add_argument(
        *flags("header"),
        dest="feature_header",
        action=argparse.BooleanOptionalAction,
        help="whether their first line holds column names",
    )
    group.add_argument(
        *flags("encoding"),
        dest="feature_encoding",
        metavar="NAME",
        help="their character encoding (default utf-8, or else latin-1)",
    )


def given_side_information(options: argparse.Namespace) -> list[str]:
    """The side information flags that were given."""
    return [f"--{side}-{what}" for side in SIDES for what in _SOURCES if getattr(options, f"{side}_{what}")]


# How files of side information are read, if there are any.
_READING = (
    "feature_kind", "feature_size", "one_way_links", "id_column", "feature_separator", "feature_header",
    "feature_encoding", "without_side_information",
)  # fmt: skip


def given_reading_of_side_information(options: argparse.Namespace) -> list[str]:
    """The flags that say how side information is read, or not to read it, as far as they were given."""
    return [f"--{name.replace('_', '-')}" for name in _READING if getattr(options, name) not in (None, False, [])]


def side_information_from(options: argparse.Namespace) -> SideInformation:
    """The side information of a named data set, joined with that of all files."""
    given = given_side_information(options)
    if options.without_side_information and given:
        raise SettingsError(f"{_NO_SIDE_INFORMATION} and {given[0]} exclude each other; leave out one")
    if options.one_way_links and not {"--item-links", "--user-links"} & set(given):
        raise SettingsError("--one-way-links goes with --item-links or --user-links; leave it out")
    if options.feature_size is not None and not given:
        raise SettingsError("--feature-size is for files of side information, and none is given; leave it out")
    brought = _brought(options)
    reading = FeatureReading.of(options)
    items = _joined("item", brought.items, options, reading)
    users = _joined("user", brought.users, options, reading)
    reading.check_columns()
    return SideInformation(users, items)


def _brought(options: argparse.Namespace) -> SideInformation:
    """The side information that comes with a named data set, or with a partition."""
    from cofill.data import datasets
    from cofill.data.partition import Partition, is_partition

    name = options.ratings
    if is_partition(Path(name)) and not options.without_side_information:
        return SideInformation(*Partition.open(name).read_features())
    if options.without_side_information or Path(name).is_file() or name not in datasets.catalogue():
        return SideInformation(None, None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", datasets.UnpublishedFileWarning)  # the reading of its ratings has said so
            return datasets.side_information(name, quiet=options.quiet)
    except DatasetError as error:
        raise DatasetError(f"{error} Or train on its ratings alone with {_NO_SIDE_INFORMATION}.") from error


def _joined(
    side: Side, brought: "Features | None", options: argparse.Namespace, reading: FeatureReading
) -> "Features | None":
    from cofill.data.features import Features

    parts = [] if brought is None else [brought]
    where = dict.fromkeys(_used(parts), str(options.ratings))
    for what, (kind, _) in _SOURCES.items():
        for path in getattr(options, f"{side}_{what}") or ():
            part = reading.read(path, kind, None if kind == TABLE else _free_name(kind, path, where), side)
            for column in _used([part]):
                if column in where:
                    raise DataError(f"{path}: its column {column!r} is also in {where[column]}; rename one of them")
                where[column] = str(path)
            parts.append(part)
    return Features.join(parts) if len(parts) > 1 else parts[0] if parts else None


def _used(parts: "Sequence[Features]") -> list[str]:
    return [column.name for part in parts for source in part.sources for column in source.used]


def _free_name(kind: str, path: Path, taken: Iterable[str]) -> str:
    """A feature name for tags, links or vectors: "tags", or the file's own name for a second file."""
    names = [kind, path.stem, *(f"{path.stem} {number}" for number in range(2, 1000))]
    return next(name for name in names if name not in taken)


def titles_in(table: "Table", reading: FeatureReading) -> dict[Id, str]:
    """The titles in a table of items: in a column that is called so, or that follows the ids and ends in years."""
    from cofill.data.columns import recognised
    from cofill.data.pairs import read_titles

    if table.headed:
        titled = bool(recognised(table.names)["title"])
    else:
        second = [str(cell) for cell in table.columns[1]]
        titled = sum(bool(_YEAR_LAST.search(cell)) for cell in second) >= 0.9 * len(second)
    try:
        return read_titles(table, item=reading.id_in(table)) if titled else {}
    except DataError:
        return {}  # features can be read in more ways than titles, which nobody has asked for


def matched_side(side: Side, features: "Features | None", ratings: "Ratings") -> dict[str, Any] | None:
    """Count the ids with features and ratings, or with only one of them; an error if none has both."""
    from cofill.data.described import matched

    ids, index = (ratings.items, ratings.item_index) if side == "item" else (ratings.users, ratings.user_index)
    return matched(features, side, ids, index)


def show_side_information(side: Side, features: "Features", found: dict[str, Any]) -> None:
    """Print on stderr how each column was encoded, and the counts of `matched_side`."""
    show_features(f"Side information about {side}s", features, beside=True)
    note(
        f"{side}s: {found['described']:,} with ratings and features, {found['undescribed']:,} with ratings alone "
        f"(zeros stand in for features), {found['unrated']:,} with features alone (kept: they are cold)"
    )


def show_features(title: str, features: "Features", *, beside: bool = False) -> None:
    """Print how each column was encoded."""
    made = "1 column" if features.width == 1 else f"{features.width:,} columns"
    print_table(
        f"{title}: {len(features.ids):,} ids, {made} made",
        ("source", "column", "kind", "columns made", "missing", "example"),
        [(line.source, line.column, line.kind, line.width, line.missing, line.example) for line in features.report()],
        beside=beside,
    )


def _column_kind(text: str) -> tuple[str, str]:
    column, _, kind = text.rpartition("=")
    if not column or kind not in column_kinds():
        raise argparse.ArgumentTypeError(
            f"must be COLUMN=KIND with a kind among {', '.join(column_kinds())}, got {text!r}"
        )
    return column, kind


def _default_size() -> int:
    from inspect import signature

    from cofill.data.features import Features

    size: int = signature(Features.read).parameters["reduce_to"].default
    return size
