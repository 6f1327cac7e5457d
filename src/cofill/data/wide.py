"""Tables with a row for each user and a column for each item -> one row for each rating."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from cofill.data import cells
from cofill.data.columns import ID_NAMES, Everything, Rows, normalised, recognised, stands_for_unknown
from cofill.data.reading import ReadOptions
from cofill.data.table import Table, read_table
from cofill.errors import DataError, quoted

SHOWN_SHARE = 0.2  # of cells that hold one number far beyond the others: nobody's ratings are so


@dataclass(frozen=True)
class WideColumns(Everything):
    """All columns of a table whose names are items, which may be numbers."""

    empty: str = "it needs one {unit} for each user and a column for each item"
    file: str = "the ratings file"
    what: str = "ratings"
    skippable: bool = True
    others: str = ""

    def has_header(self, first: Sequence[str], below: Rows, source: str) -> bool:
        if normalised(first[0]) in ID_NAMES or not first[0].strip():
            return True
        return not any(cells.is_number(cell) or re.match(cells.DECIMAL_COMMA, cell) for cell in first[1:])

    def columns(self, names: Sequence[str] | None, width: int, below: Rows, source: str) -> dict[str, int]:
        if names is not None and not names[0].strip():
            names = ["user", *names[1:]]  # an index that was written without a name
        return super().columns(names, width, below, source)


def read_wide(source: object, options: ReadOptions) -> Table:
    """The columns user, item and rating of every cell that is a rating.

    Empty cells are unknown, and those that hold `options.unknown`. Users are in the column that is named or recognised,
    else in the first; but if that counts the ratings in its row, it is left out and the rows are numbered from 1.
    """
    unknown = options.unknown
    said = next((role for role, column in options.columns.items() if role != "user" and column is not None), None)
    if said is not None:
        raise DataError(f"a wide table has no column for the {said}", f"leave out {said}=..., or wide=True")
    table = read_table(source, WideColumns(), options)
    user_at = _user_position(table, options.user)
    item_at = [at for at in range(len(table.names)) if at != user_at]
    values = np.stack([_numbers(table, at) for at in item_at], axis=1)  # (rows, items), NaN where a cell is empty
    known = ~np.isnan(values)
    if unknown is not None:
        known &= values != np.float32(unknown)
    else:
        rated = known.copy()
        rated[:, 0] &= user_at is not None  # else the first may hold users
        _refuse_unsaid(values[rated], table)
    counts = known.shape[1] > 1 and bool((values[:, 0] == known[:, 1:].sum(axis=1)).all())
    if user_at is None and (counts or options.user != ""):
        item_at, values, known = item_at[1:], values[:, 1:], known[:, 1:]
        if not counts:
            user_at = 0
            _refuse_repeated_users(table)
    if not known.any():
        raise DataError("there is no rating in it", "check which number stands for unknown", where=table.origin.name)
    rows, columns = np.nonzero(known)
    users = pl.Series(np.arange(1, table.height + 1)) if user_at is None else table.series(table.names[user_at])
    items = [table.names[at] if table.headed else str(number) for number, at in enumerate(item_at, 1)]
    parts = users.gather(rows), pl.Series(items).gather(columns), pl.Series(values[rows, columns])
    found = dict(zip(("user", "item", "rating"), parts, strict=True))
    lines = np.array([table.origin.line(row) for row in range(table.height)], np.int64)[rows]
    labels = {role: f"the {role}" for role in found}
    return replace(table, found=found, text=True, origin=replace(table.origin, lines=lines, labels=labels))


def _user_position(table: Table, said: str | int | None) -> int | None:
    """The position of the user column; None if it was not given and must be detected, or if there is none."""
    if said == "":
        return None
    if said is not None:
        return table.position(said, "user")
    if table.headed and normalised(table.names[0]) in ID_NAMES:
        return 0
    found = recognised(table.names)["user"] if table.headed else ()
    return found[0] if found else None


def _numbers(table: Table, at: int) -> npt.NDArray[np.float32]:
    """(rows,): a column of ratings, NaN where a cell is empty. In the first, which may hold users, also elsewhere."""
    name = table.names[at]
    column = table.series(name)
    if column.dtype == pl.String:
        column = cells.with_points(column).str.strip_chars()
    numbers = column.cast(pl.Float32, strict=False)
    bad = numbers.is_null() & column.is_not_null() & (column.cast(pl.String) != "")
    if bad.any() and at:
        row = int(bad.arg_max() or 0)
        found = f"found {quoted(column[row])} where a rating belongs"
        raise table.error(row, name, found, "correct it, or leave it empty")
    return np.asarray(numbers.fill_null(float("nan")).to_numpy(), np.float32)


def _refuse_repeated_users(table: Table) -> None:
    users = table.series(table.names[0])
    row = users.is_duplicated().arg_max() or 0
    if users.is_duplicated().any():
        found = f"found {quoted(users[row])} in several rows, so that it is no user's id"
        remedy = "say where the users are with user=..., or pass user='' to number the rows"
        unskippable = replace(table, origin=replace(table.origin, skippable=False))  # no line of them is the bad one
        raise unskippable.error(row, table.names[0], found, remedy)


def _refuse_unsaid(values: npt.NDArray[np.float32], table: Table) -> None:
    """DataError if a number seems to mean unknown and the caller has not said so."""
    unknown = stands_for_unknown(values.tolist())
    count = int(np.count_nonzero(values == unknown)) if unknown is not None else 0
    if count > SHOWN_SHARE * len(values):
        found = f"{unknown} is in {count} of {len(values)} cells, far from all other ratings"
        remedy = f"pass unknown={unknown!r} if it stands for unknown, or empty those cells"
        raise DataError(found, remedy, where=table.origin.name)
