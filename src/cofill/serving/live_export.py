"""Live ratings and interactions as tables, and ratings merged into those of the next training.

A row without a rating is a withdrawn one: it also removes an earlier rating of that pair.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from cofill.data import cells
from cofill.data.columns import Wanted
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings
from cofill.data.reading import Role
from cofill.data.table import Table, read_table, unpacked
from cofill.data.vocabulary import CANONICAL_INTEGER, INT64, Id
from cofill.errors import DataError
from cofill.serving.settings import live_file

if TYPE_CHECKING:
    from cofill.serving.database import LiveRating, Store

_COLUMNS: tuple[Role, ...] = ("user", "item", "rating", "time")
_Kind = TypeVar("_Kind", bound=Ratings)


@contextmanager
def opened(database: str | None, model: Path | None) -> "Iterator[Store]":
    """The database at a URL, or in the file beside a model; it must be there."""
    from cofill.serving.database import (
        CHECK_DATABASE,
        Store,
        url_of,
    )  # only this needs SQLAlchemy: training does without

    if database is None:
        assert model is not None
        if not live_file(model).exists():
            raise DataError(f"{live_file(model)}: there is no such file; has {model} been served without --database?")
    url = url_of(database, model or Path())
    if url.drivername == "sqlite" and not Path(url.database or "").exists():
        raise DataError(f"{url.database}: there is no such file", CHECK_DATABASE)
    store = Store(url)
    try:
        store.open(make=False)
        yield store
    finally:
        store.close()


def export_frame(database: str | None, model: Path | None) -> pl.DataFrame:
    """user, item, rating and time (seconds) of everything in a database, or in the file beside a model."""
    with opened(database, model) as store:
        return rating_frame(store.changes_since(0).ratings)


def rating_frame(ratings: "Sequence[LiveRating]") -> pl.DataFrame:
    """user, item, rating and time (seconds)."""
    return pl.DataFrame(
        {
            "user": id_column([rating.user for rating in ratings]),
            "item": id_column([rating.item for rating in ratings]),
            "rating": pl.Series([rating.rating for rating in ratings], dtype=pl.Float64),
            "time": pl.Series([rating.time for rating in ratings], dtype=pl.Float64),
        }
    )


def id_column(texts: Sequence[str]) -> pl.Series:
    """Ids as integers if all are written as integers, as in a ratings file; else as text."""
    if all(CANONICAL_INTEGER.fullmatch(text) and INT64.min <= int(text) <= INT64.max for text in texts):
        return pl.Series([int(text) for text in texts], dtype=pl.Int64)
    return pl.Series(list(texts), dtype=pl.String)


def exported_interactions(path: Path, weight: Role) -> Interactions | None:
    """The interactions of a table of an export, whose weights are in the column `weight`; None if there are none."""
    if _is_empty(path):
        return None
    table, given = _exported(path, weight)
    if not given.any():
        return None
    table = table.only(given)
    users, items = (list(_ids(table, role)) for role in _COLUMNS[:2])
    weights, times = cells.counts(table.series(weight), table.origin), cells.times(table.series("time"), table.origin)
    return Interactions.read((users, items, weights, times))


def with_export(ratings: Ratings, path: Path) -> Ratings:
    """Merge both: where both have a pair the export wins, and withdrawn pairs are removed.

    Ratings of the export are on the same scale; one outside it is an error.
    """
    if _is_empty(path):
        return ratings
    table, given = _exported(path, "rating")
    users, items = (np.array(list(_ids(table, role)), object) for role in _COLUMNS[:2])
    both = ratings
    if given.any():
        origin = replace(table.origin, lines=np.array([table.origin.line(int(row)) for row in np.flatnonzero(given)]))
        rated, timed = (table.series(role).filter(pl.Series(given)) for role in _COLUMNS[2:])
        values, times = cells.ratings(rated, origin, ratings.scale), cells.times(timed, origin)
        newer = Ratings.read((users[given].tolist(), items[given].tolist(), values, times), scale=ratings.scale)
        both = ratings.merge(newer)
    kept = _without(both, users[~given].tolist(), items[~given].tolist())
    if not len(kept):
        raise DataError(f"{path}: every rating was taken back, so nothing is left to train on; leave the file out")
    return kept


def without_withdrawn(ratings: _Kind, path: Path) -> _Kind:
    """Without the pairs that an export has without a rating."""
    if _is_empty(path):
        return ratings
    table, given = _exported(path, "rating")
    users, items = (np.array(list(_ids(table, role)), object)[~given].tolist() for role in _COLUMNS[:2])
    return _without(ratings, users, items)


def _without(ratings: _Kind, users: list[Id], items: list[Id]) -> _Kind:
    taken_back = _places(ratings, users, items)
    kept = ~np.isin(ratings.user_index.astype(np.int64) * len(ratings.items) + ratings.item_index, taken_back)
    return ratings if kept.all() else ratings.select(kept)


def _exported(path: Path, value: Role) -> tuple[Table, npt.NDArray[np.bool_]]:
    """A table of an export, and which of its rows have a value."""
    columns: tuple[Role, ...] = ("user", "item", value, "time")
    table = read_table(path, Wanted(dict.fromkeys(columns), columns, (), columns))
    if table.text:  # as it was before it was made safe
        safe: dict[str, pl.Series] = {role: table.series(role).str.strip_prefix("'") for role in columns[:2]}
        table = replace(table, found={**table.found, **safe})
    given = [cell is not None and str(cell) != "" for cell in table.series(value).to_list()]
    return table, np.array(given, np.bool_)


def _places(ratings: Ratings, users: list[Id], items: list[Id]) -> npt.NDArray[np.int64]:
    """Where pairs would stand if all rows of the matrix stood one after the other; unknown ones nowhere."""
    user_index, item_index = ratings.users.find(users).astype(np.int64), ratings.items.find(items)
    known = (user_index >= 0) & (item_index >= 0)
    return (user_index * len(ratings.items) + item_index)[known]


def _ids(table: Table, role: Role) -> Iterable[Id]:
    found = cells.ids(table.series(role), role, table.origin, text=table.text)
    return found.tolist() if isinstance(found, np.ndarray) else found.to_list()


def _is_empty(path: Path) -> bool:
    """Whether an export has a header and no ratings."""
    if path.suffix == ".parquet":
        return path.is_file() and pl.read_parquet(path, glob=False).is_empty()
    return path.is_file() and len(unpacked(path.read_bytes(), path).strip().splitlines()) == 1
