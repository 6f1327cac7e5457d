"""Side information: what is known about users or items apart from ratings, as one matrix of numbers."""

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from cofill.arrays import Floats
from cofill.data.features import lists
from cofill.data.features.columns import Cells, ReadableColumn, coded
from cofill.data.features.lists import Fitted, Reading, is_npy
from cofill.data.features.source import Source, no_block
from cofill.data.frames import InFrames
from cofill.data.table import Table, read_raw
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, Place, quoted

LISTED = 10


class FeatureReport(NamedTuple):
    """How one input column was encoded."""

    source: str
    column: str
    kind: str
    width: int
    """How many feature columns it has; columns that are reduced together each give that of the whole block."""
    distinct: int | None
    """How many different values, categories, tags or targets there are."""
    missing: int
    example: str

    @property
    def used(self) -> bool:
        """Whether a model learns from the column."""
        return lists.kind_called(self.kind).used


@dataclass(frozen=True, eq=False, repr=False)
class Features(InFrames):
    """Features of some ids, with what was learned to encode others in the same way."""

    ids: Vocabulary
    values: Floats
    """(ids, width): finite; zeros where nothing is known."""
    sources: tuple[Source, ...]
    readable: Mapping[str, ReadableColumn] = field(default_factory=dict)
    """What tables and tags say in words, by column, in the order of the ids; a model file does not keep it here."""

    @classmethod
    def read(
        cls,
        source: object,
        *,
        kind: str | None = None,
        id: str | int | None = None,
        ids: Sequence[Id] | npt.NDArray[Any] | str | os.PathLike[str] | None = None,
        columns: Mapping[str, str] | None = None,
        names: Sequence[str] | None = None,
        name: str | None = None,
        reduce_to: int = 50,
        both_ways: bool = True,
        about: Literal["user", "item"] | None = None,
        separator: str | None = None,
        header: bool | None = None,
        encoding: str = "utf-8",
    ) -> "Features":
        """Features from a file, a frame, tuples or vectors.

        `source` is a path (CSV, TSV, `::`, `;`, `|`, gzip of these, Parquet, .npy), a polars or pandas
        DataFrame, an iterable of tuples (tags, links), {id: vector}, (ids, array), or (ids, scipy sparse matrix).

        `kind` says what it holds; by default a source with a column called tag holds tags, arrays hold vectors,
        and all else is a table:

        - table: a row for each id. `columns` sets the kind of a column; that of others is judged by their cells.
          Numbers and dates are standardised and cut off at 5 standard deviations; categories have a column each,
          but more than `reduce_to` of them are reduced, as texts are.
        - tags: id, tag[, count]; without a header also user, id, tag, time.
        - links: id, id[, weight], in both directions unless `both_ways` is False.
        - vectors: an id and its numbers, all divided by one number. A .npy file needs `ids`: a sequence, or a path.

        `id` is the column of the ids, by name or position from 0; usual names are recognised, and without a
        header it is the first. `about` says whose ids they are, where a source has both users and items: without it,
        tags are those of items. `names` gives the columns of a file without header their names. `name` is what
        tags, links or vectors are called in `names` and in descriptions.
        """
        layout = {"names": names, "separator": separator, "header": header, "encoding": encoding}
        reading = Reading(id, ids, name, reduce_to, both_ways, about, layout)
        fitted = _read_source(source, kind, columns, reading)
        return cls(Vocabulary(fitted.ids), fitted.values, (fitted.source,), fitted.readable)

    @classmethod
    def join(cls, parts: "Sequence[Features]") -> "Features":
        """All columns of all parts, for every id of any part; zeros where a part says nothing about one."""
        if not parts:
            raise DataError("there are no features to join", "pass at least one")
        ids = parts[0].ids.copy()
        for part in parts[1:]:
            ids.add(part.ids.array())
        sources = tuple(source for part in parts for source in part.sources)
        _refuse_clash([name for part in parts for name in part.names], "the joined features")
        keys = [column.name for source in sources for column in source.used]
        twice = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
        if twice is not None:
            found = f"two parts have {twice!r}"
            raise DataError(found, "rename the column, or pass another name=... to read", where="the joined features")
        words = {key: column for part in parts for key, column in part.readable_of(ids).items()}
        return cls(ids, np.concatenate([part.aligned(ids) for part in parts], axis=1), sources, words)

    @property
    def width(self) -> int:
        """How many feature columns there are."""
        return int(self.values.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """(width,): the names of the feature columns, such as genres=Comedy, year, tags[0]."""
        return tuple(name for source in self.sources for name in source.names)

    def __repr__(self) -> str:
        widths = [f"{width} of {name}" for source in self.sources for name, width in source.widths()]
        shown = ", ".join(widths[:LISTED]) + (f" and {len(widths) - LISTED} more" if len(widths) > LISTED else "")
        columns = "1 column" if self.width == 1 else f"{self.width} columns"
        return f"Features({len(self.ids)} ids, {columns}{': ' if shown else ''}{shown})"

    def to_polars(self) -> pl.DataFrame:
        """The ids in a column id, and the features as numbers, a column for each of `names`."""
        return pl.DataFrame([self.ids.column().alias("id"), *map(pl.Series, self.names, self.values.T)])

    def aligned(self, ids: Vocabulary) -> Floats:
        """(len(ids), width): the features of `ids` in their order; zeros for those without."""
        found = self.ids.find(ids.array())
        aligned = np.zeros((len(ids), self.width), np.float32)
        aligned[found >= 0] = self.values[found[found >= 0]]
        return aligned

    def readable_of(self, ids: Vocabulary) -> dict[str, ReadableColumn]:
        """`readable` in the order of `ids`, null for those without."""
        found = self.ids.find(ids.array())
        return {key: column.taken(found) for key, column in self.readable.items()}

    def described(self, ids: Vocabulary) -> npt.NDArray[np.bool_]:
        """(len(ids),): which of `ids` have features."""
        return np.asarray(self.ids.find(ids.array()) >= 0)

    def encode(self, description: Mapping[str, object]) -> Floats:
        """(width,): encode a new id, described by the columns of tables and the names of other sources.

        None means unknown. Tags are a list, a mapping to counts or "a|b"; links a list of ids or a mapping to
        weights; vectors a list of numbers.
        """
        used = {column.name: column for source in self.sources for column in source.used}
        ignored = {column.name for source in self.sources for column in source.columns if not column.used}
        ignored |= {source.id_name for source in self.sources if source.id_name is not None}
        for key in description:
            if key not in used and key not in ignored:
                near = difflib.get_close_matches(str(key), used, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(map(repr, used))}"
                raise DataError(f"there is no column {key!r}", f"{hint}", where="the description")
        for key, column in used.items():
            if key not in description:
                found = f"{key!r} is missing, which holds {column.holds}"
                raise DataError(found, "give it, or pass None where it is unknown", where="the description")
        cells = {key: coded([description[key]]) for key in used}
        encoded: Floats = self._encoded(Cells(cells, np.zeros(1, np.int64), _description_error))[0]
        return encoded

    def in_words(self, descriptions: Sequence[Mapping[str, object]]) -> dict[str, ReadableColumn]:
        """Descriptions, as `encode` takes them, as readable columns."""
        columns = tuple(column for source in self.sources for column in source.columns)
        there = tuple(one for one in columns if one.used or all(one.name in about for about in descriptions))
        cells = {column.name: coded(about[column.name] for about in descriptions) for column in there}
        return lists.in_words(there, Cells(cells, np.arange(len(descriptions)), _description_error))

    def updated(self, descriptions: Mapping[Id, Mapping[str, object]], without: Iterable[Id] = ()) -> "Features":
        """The same with some ids described anew, as `encode` takes it, and without others.

        What was learned about the columns stays: a category that only a description names is unknown.
        """
        gone = self.ids.find([*without, *descriptions])
        stays = np.ones(len(self.ids), np.bool_)
        stays[gone[gone >= 0]] = False
        kept = np.flatnonzero(stays)
        ids = self.ids.only(kept.tolist())
        ids.add(list(descriptions))
        encoded = np.array([self.encode(about) for about in descriptions.values()], np.float32)
        values = np.concatenate([self.values[kept], encoded.reshape(len(descriptions), self.width)])
        readable = {key: column.taken(kept) for key, column in self.readable.items()}
        if descriptions:
            words = self.in_words(list(descriptions.values()))
            readable = {
                key: column._replace(cells=column.cells.append(words[key].cells.cast(column.cells.dtype)))
                for key, column in readable.items()
            }
        return Features(ids, values, self.sources, readable)

    def encode_table(
        self,
        source: object,
        *,
        id: str | int | None = None,
        names: Sequence[str] | None = None,
        separator: str | None = None,
        header: bool | None = None,
        encoding: str = "utf-8",
        unmentioned: float = 0.0,
    ) -> "Features":
        """Encode many new ids, from a table with all columns of the tables that these features came from.

        Tags, links and vectors are `unmentioned` unless there is a column of the source's name, with cells like a|b|c.
        """
        known = {column.name for part in self.sources for column in part.used}
        known |= {part.id_name for part in self.sources if part.id_name is not None}
        raw = read_raw(
            source, names=names, separator=separator, header=header, encoding=encoding, familiar=known, id=id
        )
        if id is None:
            id = next((part.id_name for part in self.sources if part.id_name in raw.names), None)
        reading = Reading(id, None, None, 1, both_ways=True, about=None, layout={})
        found, cells = _table_cells(raw, reading.id_position(raw))
        for part in self.sources:
            for column in part.used:
                if part.kind == lists.TABLE and column.name not in cells.columns:
                    problem = f"there is no column {column.name!r}, which holds {column.holds}"
                    raise DataError(problem, "add it, with empty cells where it is unknown", where=raw.origin.name)
        self._refuse_nearly_named(raw, cells)
        values = self._encoded(cells)
        last = 0
        for part in self.sources:
            first, last = last, last + len(part.names)
            if not any(column.name in cells.columns for column in part.used):
                values[:, first:last] = unmentioned
        words = lists.in_words(tuple(column for part in self.sources for column in part.used), cells)
        return Features(Vocabulary(found), values, self.sources, words)

    def _refuse_nearly_named(self, raw: Table, cells: Cells) -> None:
        """DataError if a misspelt column name would leave tags, links or vectors empty, or if no column is known."""
        used = [column.name for part in self.sources for column in part.used]
        familiar = {column.name for part in self.sources for column in part.columns}
        strange = {_loosely(name): name for name in cells.columns if name not in familiar}
        for name in used:
            if name not in cells.columns and _loosely(name) in strange:
                found = f"there is no column {name!r}, but {strange[_loosely(name)]!r}"
                raise DataError(found, f"did you mean {name!r}? rename it, or remove it", where=raw.origin.name)
        if used and not any(name in cells.columns for name in used):
            shown = ", ".join(map(repr, used[:LISTED]))
            raise DataError("none of its columns is known", f"add at least one of {shown}", where=raw.origin.name)

    def _encoded(self, cells: Cells) -> Floats:
        return np.concatenate([source.encoded(cells) for source in self.sources], axis=1)

    def report(self) -> list[FeatureReport]:
        """One line for each input column, also for those that were skipped (width 0)."""
        lines = []
        for source in self.sources:
            for column in source.columns:
                about = (column.kind, source.width_of(column), column.distinct, column.missing, column.example)
                lines.append(FeatureReport(source.name, column.name, *about))
        return lines

    def card(self) -> dict[str, Any]:
        """Everything learned, except arrays, ready for JSON."""
        return {"sources": [source.card() for source in self.sources]}

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes of the same command."""
        return Features.restored, (self.card(), self.arrays(), self.ids)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that belong to the card."""
        arrays: dict[str, npt.NDArray[Any]] = {"values": self.values}
        for position, source in enumerate(self.sources):
            arrays |= {f"{position}.{key}": array for key, array in source.arrays().items()}
        return arrays

    def words(self) -> pl.DataFrame:
        """A frame of the ids and of `readable`, with columns named kind:name."""
        ids = self.ids.column().alias("id")
        return pl.DataFrame([ids, *(cells.alias(f"{kind}:{name}") for name, (kind, cells) in self.readable.items())])

    def with_words(self, frame: pl.DataFrame) -> "Features":
        """The same features with what `words` says of their ids, in the same order."""
        columns = {}
        for series in frame.iter_columns():
            kind, colon, name = series.name.partition(":")
            if colon:
                columns[name] = ReadableColumn(kind, series.alias(""))
        return replace(self, readable=columns)

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], ids: Vocabulary) -> "Features":
        """The inverse of `card` and `arrays`; ValueError if they do not fit together."""
        try:
            sources = tuple(
                _restored_source(
                    part,
                    {key.removeprefix(f"{at}."): array for key, array in arrays.items() if key.startswith(f"{at}.")},
                )
                for at, part in enumerate(card["sources"])
            )
            values = arrays["values"]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"features: a part is missing or of the wrong type ({error})") from error
        restored = cls(ids, values, sources)
        shape = (len(ids), len(restored.names))
        if values.shape != shape or values.dtype != np.float32 or not np.isfinite(values).all():
            raise ValueError(f"features: found values of shape {values.shape} where finite ones of {shape} belong")
        return restored


def _read_source(source: Any, kind: str | None, columns: Mapping[str, str] | None, reading: Reading) -> Fitted:
    """Features of one source."""
    whole = lists.whole_sources()
    _check(kind, columns, reading)
    if reading.ids is not None and not is_npy(source):
        raise DataError("ids= is for .npy files", "other sources have their ids inside, or say id=... for a column")
    for called, owner in whole.items():
        if owner.takes(source, told=False):
            if kind not in (None, called):
                raise DataError(f"kind={kind!r}, but {owner.taken}")
            return owner.fit(source, reading)
    if kind in whole and whole[kind].takes(source, told=True):
        return whole[kind].fit(source, reading)
    raw = read_raw(source, **reading.layout, id=reading.id)
    if kind is None:
        kind = _guessed(raw)
    if kind in whole:
        return whole[kind].fit_raw(raw, reading)
    return _fit_table(raw, columns or {}, reading)


def _check(kind: str | None, columns: Mapping[str, str] | None, reading: Reading) -> None:
    """DataError if an argument is not valid."""
    if kind is not None and kind not in lists.source_kinds():
        raise DataError(f"there is no kind {kind!r} of features", f"the kinds are {', '.join(lists.source_kinds())}")
    if reading.about not in (None, "user", "item"):
        raise DataError(f"about={reading.about!r} is no side", "give 'user' or 'item', or leave it out")
    reduce_to = reading.reduce_to
    if isinstance(reduce_to, bool) or not isinstance(reduce_to, int) or reduce_to < 1:
        raise DataError(f"reduce_to={reduce_to!r} is no number of columns", "give 1 or more")
    if reading.name is not None and not reading.name.strip():
        raise DataError("name='' names nothing", "leave it out, or give one such as 'tags'")
    if columns and kind not in (None, lists.TABLE):
        raise DataError("columns= sets the kinds of a table's columns", f"leave it out for {kind}")


def _guessed(raw: Table) -> str:
    recognised = next((called for called, owner in lists.whole_sources().items() if owner.recognised(raw)), None)
    if recognised is None and raw.origin.name == "the tuples":
        raise DataError("tuples can be tags or links", "say which with kind='tags' or kind='links'")
    return recognised or lists.TABLE


def _fit_table(raw: Table, told: Mapping[str, str], reading: Reading) -> Fitted:
    """A table with a row for each id; `told` are the kinds of columns that the caller sets."""
    id_at = reading.id_position(raw)
    _check_columns(told, raw, id_at)
    ids, of = _table_cells(raw, id_at)
    # In the order of the ids whatever the order of the lines: the same table gives the same numbers to the last bit.
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)
    ordered = Cells({key: column.taken(order) for key, column in of.columns.items()}, of.rows[order], of.error)
    columns = []
    for key, column in ordered.columns.items():
        learn = lists.kind_called(told[key]).told(column) if key in told else lists.judged(key, column)
        columns.append(learn(key, ordered, reading.reduce_to))
    source = Source(lists.TABLE, reading.name or raw.label, raw.names[id_at], tuple(columns), *no_block())
    if source.long:
        source = source.with_block(ordered, reading.reduce_to)
    _refuse_clash(source.names, raw.origin.name)
    return Fitted(ids, source.encoded(of, new=False), source, lists.in_words(source.columns, of))


def _table_cells(raw: Table, id_at: int) -> tuple[list[Id], Cells]:
    """The ids of a table in their order, each once, and the cells of all other columns."""
    ids = raw.ids(id_at)[0].to_list()
    columns = {name: coded(cells) for at, (name, cells) in enumerate(raw.found.items()) if at != id_at}
    first_of: dict[Id, int] = {}
    kept = []
    for row, id in enumerate(ids):
        first = first_of.setdefault(id, row)
        if first == row:
            kept.append(row)
        elif differing := next(
            (key for key, column in columns.items() if column.codes[first] != column.codes[row]), None
        ):
            unit, line = raw.origin.unit, raw.origin.line
            raise DataError(
                f"the id {quoted(id)} is there again after {unit} {line(first)}, with another {quoted(differing)}",
                "keep one of them (or pass kind='tags' if these are tags, or likewise links)",
                where=Place(raw.origin.name, unit, line(row), f"column {quoted(raw.names[id_at])}"),
            )
    rows = np.array(kept, np.int64)
    return [ids[row] for row in kept], Cells(
        {key: column.taken(rows) for key, column in columns.items()}, rows, raw.error
    )


def _check_columns(told: Mapping[str, str], raw: Table, id_at: int) -> None:
    for column, kind in told.items():
        if column == raw.names[id_at]:
            raise DataError(f"{column!r} is the column of the ids", "it has no kind", where=raw.origin.name)
        raw.position(column, "columns")
        if kind not in lists.column_kinds():
            known = ", ".join(lists.column_kinds())
            raise DataError(
                f"column {column!r} cannot be of kind {kind!r}", f"the kinds are {known}", where=raw.origin.name
            )


def _refuse_clash(names: Sequence[str], label: str) -> None:
    """DataError if two feature columns have the same name."""
    counts = Counter(names)
    twice = next((name for name in names if counts[name] > 1), None)
    if twice is not None:
        raise DataError(
            f"two feature columns would be called {twice!r}", "rename a column, or pass name=...", where=label
        )


def _restored_source(card: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Source:
    if card["kind"] not in lists.source_kinds():
        raise ValueError(f"features: there is no source of kind {card['kind']!r}")
    return Source.restored(
        card, [lists.kind_called(column["kind"]).model_validate(column) for column in card["columns"]], arrays
    )


def _loosely(name: str) -> str:
    return name.strip().casefold().removesuffix("s")


def _description_error(_: int, column: str, problem: str, remedy: str) -> DataError:
    return DataError(problem, remedy, where=f"the description, {quoted(column)}")
