"""Every source into features: what it holds, where its ids are, and learning from tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cofill.data.features import kinds
from cofill.data.features.columns import Cells, coded
from cofill.data.features.kinds.vectors import is_npy
from cofill.data.features.reading import read_raw
from cofill.data.features.source import Fitted, Reading, Source, no_block
from cofill.data.features.table import RawTable
from cofill.data.origin import quoted
from cofill.data.vocabulary import Id
from cofill.errors import DataError


def read_source(source: Any, kind: str | None, columns: Mapping[str, str] | None, reading: Reading) -> Fitted:
    """Features of one source."""
    whole = kinds.whole_sources()
    _check(kind, columns, reading)
    if reading.ids is not None and not is_npy(source):
        raise DataError("ids= is for .npy files; other sources have their ids inside, or say id=... for a column")
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
    """DataError if the caller asks for what there is not."""
    if kind is not None and kind not in kinds.source_kinds():
        raise DataError(f"there is no kind {kind!r} of features; the kinds are {', '.join(kinds.source_kinds())}")
    if reading.about not in (None, "user", "item"):
        raise DataError(f"about={reading.about!r} is no side; give 'user' or 'item', or leave it out")
    reduce_to = reading.reduce_to
    if isinstance(reduce_to, bool) or not isinstance(reduce_to, int) or reduce_to < 1:
        raise DataError(f"reduce_to={reduce_to!r} is no number of columns; give 1 or more")
    if reading.name is not None and not reading.name.strip():
        raise DataError("name='' names nothing; leave it out, or give one such as 'tags'")
    if columns and kind not in (None, kinds.TABLE):
        raise DataError(f"columns= sets the kinds of a table's columns; leave it out for {kind}")


def _guessed(raw: RawTable) -> str:
    recognised = next((called for called, owner in kinds.whole_sources().items() if owner.recognised(raw)), None)
    if recognised is None and raw.origin.name == "the tuples":
        raise DataError("tuples can be tags or links; say which with kind='tags' or kind='links'")
    return recognised or kinds.TABLE


def _fit_table(raw: RawTable, told: Mapping[str, str], reading: Reading) -> Fitted:
    """A table with a row for each id; `told` are the kinds of columns that the caller sets."""
    id_at = reading.id_position(raw)
    _check_columns(told, raw, id_at)
    ids, of = table_cells(raw, id_at)
    # In the order of the ids whatever the order of the lines: the same table gives the same numbers to the last bit.
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)
    ordered = Cells({key: column.taken(order) for key, column in of.columns.items()}, of.rows[order], of.error)
    columns = []
    for key, column in ordered.columns.items():
        learn = kinds.kind_called(told[key]).told(column) if key in told else kinds.judged(key, column)
        columns.append(learn(key, ordered, reading.reduce_to))
    source = Source(kinds.TABLE, reading.name or raw.label, raw.names[id_at], tuple(columns), *no_block())
    if source.long:
        source = source.with_block(ordered, reading.reduce_to)
    refuse_clash(source.names, raw.origin.name)
    return Fitted(ids, source.encoded(of, new=False), source, kinds.in_words(source.columns, of))


def table_cells(raw: RawTable, id_at: int) -> tuple[list[Id], Cells]:
    """The ids of a table in their order, each once, and the cells of all other columns."""
    ids = raw.ids(id_at)[0]
    columns = {
        name: coded(cells) for at, (name, cells) in enumerate(zip(raw.names, raw.columns, strict=True)) if at != id_at
    }
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
                f"{raw.origin.name}, {unit} {line(row)}, column {quoted(raw.names[id_at])}: the id {quoted(id)} is "
                f"there again after {unit} {line(first)}, with another {quoted(differing)}; keep one of them "
                "(or pass kind='tags' or kind='links' if these are lists of those)"
            )
    rows = np.array(kept, np.int64)
    return [ids[row] for row in kept], Cells(
        {key: column.taken(rows) for key, column in columns.items()}, rows, raw.error
    )


def _check_columns(told: Mapping[str, str], raw: RawTable, id_at: int) -> None:
    for column, kind in told.items():
        if column == raw.names[id_at]:
            raise DataError(f"{raw.origin.name}: {column!r} is the column of the ids; it has no kind")
        raw.position(column, "columns")
        if kind not in kinds.column_kinds():
            known = ", ".join(kinds.column_kinds())
            raise DataError(f"{raw.origin.name}: column {column!r} cannot be of kind {kind!r}; the kinds are {known}")


def refuse_clash(names: Sequence[str], label: str) -> None:
    """DataError if two feature columns have the same name."""
    counts = Counter(names)
    twice = next((name for name in names if counts[name] > 1), None)
    if twice is not None:
        raise DataError(f"{label}: two feature columns would be called {twice!r}; rename a column, or pass name=...")
