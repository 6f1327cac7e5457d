"""Everything that a database of live data holds for the next training, in a folder.

    export.json                   which database, and up to which change
    ratings.csv                   user, item, rating, time; one without a rating was taken back
    interactions.csv              user, item, count, time: what the weights of events add up to
    items.ndjson, users.ndjson    descriptions, a line for each, as the server takes them in bulk
    removed.ndjson                {"user": hash of an id} and {"item": id}: who and what was deleted
    merged.ndjson                 {"user": id, "into": id}: users who became others, under whose ids the rest stands

A folder appears whole or not at all. Only its owner can read it: it is about people.
"""

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import polars as pl

from cofill.data import cells
from cofill.data.columns import Wanted
from cofill.data.described import SideInformation
from cofill.data.features import Features
from cofill.data.frames import safe_in_a_spreadsheet
from cofill.data.interactions import NO_WEIGHT, Interactions
from cofill.data.ratings import Ratings
from cofill.data.reading import Role
from cofill.data.table import Table, read_table, unpacked, write_frame
from cofill.data.vocabulary import CANONICAL_INTEGER, INT64, Id
from cofill.errors import CofillError, DataError
from cofill.files import explain_write_failure, json_of, sync
from cofill.serving.live.tombstones import Tombstones
from cofill.serving.settings import live_file

if TYPE_CHECKING:
    from cofill.serving.live.store import LiveInteraction, LiveRating, Store

MANIFEST = "export.json"
_FORMAT = 1
_COLUMNS: tuple[Role, ...] = ("user", "item", "rating", "time")
_Kind = TypeVar("_Kind", bound=Ratings)
_Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


@contextmanager
def opened(database: str | None, model: Path | None) -> "Iterator[Store]":
    """The database at a URL, or in the file beside a model; it must be there."""
    # Only this needs SQLAlchemy: training does without.
    from cofill.serving.live.store import CHECK_DATABASE, Store, url_of

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


def _frame(rows: "Sequence[LiveRating | LiveInteraction]", value: str) -> pl.DataFrame:
    """user, item, the column `value` and time (seconds)."""
    users, items, values, times = zip(*rows, strict=True) if rows else ((), (), (), ())
    numbers = {name: pl.Series(column, dtype=pl.Float64) for name, column in ((value, values), ("time", times))}
    return pl.DataFrame({"user": id_column(users), "item": id_column(items), **numbers})


def id_column(texts: Sequence[str]) -> pl.Series:
    """Ids as integers if all are written as integers, as in a ratings file; else as text."""
    if all(CANONICAL_INTEGER.fullmatch(text) and INT64.min <= int(text) <= INT64.max for text in texts):
        return pl.Series([int(text) for text in texts], dtype=pl.Int64)
    return pl.Series(list(texts), dtype=pl.String)


class Exported(NamedTuple):
    """How much was written."""

    ratings: int
    taken_back: int
    interactions: int
    items: int
    users: int
    removed: int


class Description(NamedTuple):
    """What was said of an item or a user while it was served."""

    title: str | None
    features: Mapping[str, Any] | None


class ExportFolder(NamedTuple):
    """A folder that was read again, to be taken into the data of the next training."""

    folder: Path
    rating_table: Path
    interaction_table: Path
    items: dict[Id, Description]
    users: dict[Id, Description]
    removed_users: Tombstones
    removed_items: list[Id]
    merged: dict[Id, Id]
    """Users who became others, and whom."""
    learned: dict[str, Any]
    """For the model that is trained with it: up to which change of which database it knows everything."""

    def ratings(self, ratings: Ratings) -> Ratings:
        """The ratings or interactions to train on, with those that came and without those that went."""
        kept = self._without_removed(ratings)
        if not kept.rated:
            kept = without_withdrawn(kept, self.rating_table)
            for newer in (
                exported_interactions(self.interaction_table, "count"),
                exported_interactions(self.rating_table, "rating"),  # which count as weights to such a model
            ):
                kept = kept if newer is None else kept.merge(newer)
            kept = without_weights(kept, self.interaction_table)
        else:
            kept = with_export(kept, self.rating_table)
        if not len(kept):
            raise DataError(f"{self.folder}: with it nothing is left to train on; leave it out")
        return kept

    def interactions(self, beside: Ratings | None) -> Ratings | None:
        """The interactions beside ratings to train on, likewise."""
        newer = exported_interactions(self.interaction_table, "count")
        if beside is None:
            return newer
        kept = self._without_removed(beside)
        both = without_weights(kept if newer is None else kept.merge(newer), self.interaction_table)
        return both if len(both) else None

    def side_information(self, side: SideInformation) -> SideInformation:
        """The features to train on, with what was described since, and without what was removed."""
        gone = self.removed_users.among(side.users.ids if side.users is not None else ())
        return SideInformation(
            _described(side.users, self.users, gone),
            _described(side.items, self.items, self.removed_items),
        )

    def titles(self, ratings: Ratings) -> Ratings:
        """The same ratings with the titles that were told since."""
        told = {ratings.items.own(item): about.title for item, about in self.items.items() if about.title}
        gone = {ratings.items.own(item) for item in self.removed_items}
        gone |= {ratings.items.own(item) for item, about in self.items.items() if about.title == ""}
        titles = {item: title for item, title in ratings.titles.items() if item not in gone}
        return replace(ratings, titles=titles | told)

    def _without_removed(self, ratings: _Kind) -> _Kind:
        """Without all of those who were forgotten and what was deleted; their ids are not known either."""
        gone = self.removed_users.among(ratings.users)
        moved = self._moved(ratings)
        users = _staying(len(ratings.users), ratings.users.find([*gone, *self.merged]))
        items = _staying(len(ratings.items), ratings.items.find(self.removed_items))
        if users.all() and items.all():
            return ratings
        left_over = self._kept(ratings, users, items)
        return left_over if moved is None else moved.merge(left_over)

    def _moved(self, ratings: _Kind) -> _Kind | None:
        """What users who became others have in the data, as these others'; None if that is nothing."""
        found = {int(ratings.users.find([user])[0]): into for user, into in self.merged.items()}
        theirs = ratings.select(np.isin(ratings.user_index, list(found)))
        deleted = {ratings.items.own(item) for item in self.removed_items}
        sums: dict[tuple[Id, Id], tuple[float, float]] = {}
        times = np.zeros(len(theirs)) if theirs.times is None else theirs.times
        for user, item, value, time in zip(theirs.user_index, theirs.item_index, theirs.values, times, strict=True):
            pair = ratings.users.own(found[int(user)]), ratings.items.id(int(item))
            if pair[1] not in deleted:
                before, when = sums.get(pair, (value if ratings.rated else 0.0, time))
                sums[pair] = (max(before, value) if ratings.rated else before + value), max(when, time)
        if not sums:
            return None
        users, items = zip(*sums, strict=True)
        values, when = (np.array(column) for column in zip(*sums.values(), strict=True))
        columns = (list(users), list(items), values, *(() if theirs.times is None else (when,)))
        if ratings.rated:
            return cast(_Kind, Ratings.read(columns, scale=ratings.scale))
        return cast(_Kind, Interactions.read(columns))

    def _kept(self, ratings: _Kind, users: _Flags, items: _Flags) -> _Kind:
        kept = ratings.select(users[ratings.user_index] & items[ratings.item_index])
        new_users, new_items = (np.cumsum(stays, dtype=np.int32) - np.int32(1) for stays in (users, items))
        left = ratings.items.only(np.flatnonzero(items).tolist())
        return replace(
            kept,
            users=ratings.users.only(np.flatnonzero(users).tolist()),
            items=left,
            user_index=new_users[kept.user_index],
            item_index=new_items[kept.item_index],
            titles={item: title for item, title in ratings.titles.items() if item in left},
        )


def write_export(
    out: Path, database: str | None, model: Path | None, ending: str = "csv", until: int | None = None
) -> Exported:
    """Write the folder; in the place of an earlier export, and of nothing else. `until`: up to a change."""
    if out.exists() and not is_export(out):
        raise DataError(f"{out}: exists and is no export", "choose another out=..., or remove it")
    with opened(database, model) as store:
        change = store.begin_export(until)
        changes = store.changes_since(0, until=change)
        identity, forgotten, meanwhile = store.counter().database, store.forgotten(), store.forgotten(after=change)
    known = {one.user for one in changes.ratings} | {one.user for one in changes.interactions}
    users_gone = set(meanwhile.among(known | {one.user for one in changes.users}))
    deleted = {item.item for item in changes.items if item.deleted}

    def stays(one: "LiveRating | LiveInteraction") -> bool:
        return one.item not in deleted and one.user not in users_gone  # the tables are read one after the other

    merged = dict(changes.merged)
    ratings = [rating for rating in changes.ratings if stays(rating)]
    interactions = [one for one in changes.interactions if stays(one)]
    items = [one for one in changes.items if not one.deleted]
    users = [one for one in changes.users if one.features is not None and one.user not in users_gone]
    frames = {"ratings": _frame(ratings, "rating"), "interactions": _frame(interactions, "count")}
    removed = [{"user": digest} for digest in forgotten.digests] + [{"item": item} for item in sorted(deleted)]
    with _replacing_folder(out) as draft:
        for name, frame in frames.items():
            write_frame(frame if ending == "parquet" else safe_in_a_spreadsheet(frame), draft / f"{name}.{ending}")
        lines = [
            {"id": one.item} | {name: value for name, value in one._asdict().items() if name not in ("item", "deleted")}
            for one in items
        ]
        _write_lines(draft / "items.ndjson", lines)
        _write_lines(draft / "users.ndjson", [{"id": one.user, "features": one.features} for one in users])
        _write_lines(draft / "removed.ndjson", removed)
        _write_lines(draft / "merged.ndjson", [{"user": user, "into": into} for user, into in merged.items()])
        manifest = {"format": "cofill-export", "version": _FORMAT, "database": identity, "change": change}
        manifest |= {"tables": ending, "salt": forgotten.salt}
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    taken_back = sum(rating.rating is None for rating in ratings)
    return Exported(len(ratings) - taken_back, taken_back, len(interactions), len(items), len(users), len(removed))


def is_export(path: Path) -> bool:
    """Whether a folder was written as an export."""
    return (path / MANIFEST).is_file()


def read_export(folder: Path) -> ExportFolder:
    """The folder, checked as far as it is read here."""
    if not is_export(folder):
        raise DataError(f"{folder}: is no export; `cofill export` makes one")
    try:
        manifest = json_of((folder / MANIFEST).read_text(encoding="utf-8"))
        version, ending = int(manifest["version"]), str(manifest["tables"])
        learned = {"database": str(manifest["database"]), "change": int(manifest["change"])}
        salt = str(manifest["salt"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{folder / MANIFEST}: is damaged; export again") from None
    if version > _FORMAT or ending not in ("csv", "parquet"):
        raise DataError(f"{folder}: written by a newer cofill (format {version}); upgrade cofill")
    removed = list(_lines(folder / "removed.ndjson"))
    return ExportFolder(
        folder,
        folder / f"ratings.{ending}",
        folder / f"interactions.{ending}",
        _descriptions(folder / "items.ndjson"),
        _descriptions(folder / "users.ndjson"),
        Tombstones(salt, [line["user"] for line in removed if "user" in line]),
        [line["item"] for line in removed if "item" in line],
        {line["user"]: line["into"] for line in _lines(folder / "merged.ndjson")},
        learned,
    )


def _descriptions(path: Path) -> dict[Id, Description]:
    try:
        return {line["id"]: Description(line.get("title"), line.get("features")) for line in _lines(path)}
    except KeyError:
        raise DataError(f"{path}: is damaged; export again") from None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json_of(line)
    except (OSError, ValueError):
        raise DataError(f"{path}: is missing or damaged; export again") from None


def _write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            said = {name: value for name, value in line.items() if value is not None}
            file.write(json.dumps(said, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def _replacing_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target`, which takes its place once the block has ended well."""
    draft = target.with_name(f".{target.name}.{uuid4().hex[:12]}.part")
    before = draft.with_suffix(".before")
    try:
        draft.mkdir(mode=0o700, parents=True)
        yield draft
        for path in (*draft.iterdir(), draft):
            sync(path)
        if target.exists():
            target.rename(before)
        draft.rename(target)
        sync(target.parent)
    except CofillError:
        raise
    except OSError as problem:
        raise DataError(explain_write_failure(target, problem)) from problem
    finally:
        for leftover in (draft, before):
            shutil.rmtree(leftover, ignore_errors=True)


# Its tables. A row without a rating is a withdrawn one: it also removes an earlier rating of that pair.


def exported_interactions(path: Path, weight: Role) -> Interactions | None:
    """The interactions of a table of an export, whose weights are in the column `weight`; None if there are none."""
    if _is_empty(path):
        return None
    table, given = _exported(path, weight)
    if weight == "count":
        given &= _weights(table) > 0
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


def without_weights(ratings: _Kind, path: Path) -> _Kind:
    """Without what events speak against: weights below 0 of the table are taken off, and what is left is above 0."""
    if _is_empty(path):
        return ratings
    table, _ = _exported(path, "count")
    weights = _weights(table)
    against = weights < 0
    users, items = (np.array(list(_ids(table, role)), object)[against].tolist() for role in _COLUMNS[:2])
    known = (ratings.users.find(users) >= 0) & (ratings.items.find(items) >= 0)
    places, taken = _places(ratings, users, items), weights[against][known]
    own = ratings.user_index.astype(np.int64) * len(ratings.items) + ratings.item_index  # ascending
    found = np.searchsorted(own, places)
    there = found < len(own)
    there[there] = own[found[there]] == places[there]
    values = ratings.values.copy()
    values[found[there]] += taken[there].astype(np.float32)
    return replace(ratings, values=np.maximum(values, 0)).select(values > NO_WEIGHT) if there.any() else ratings


def _weights(table: Table) -> npt.NDArray[np.float64]:
    return table.series("count").cast(pl.Float64).to_numpy()


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


def _staying(count: int, gone: "np.ndarray[Any, np.dtype[np.int32]]") -> "np.ndarray[Any, np.dtype[np.bool_]]":
    stays = np.ones(count, np.bool_)
    stays[gone[gone >= 0]] = False
    return stays


def _described(features: Features | None, told: Mapping[Id, Description], gone: Collection[Id]) -> Features | None:
    """Features with descriptions that came later; columns and categories stay those that were learned."""
    if features is None:
        return None
    columns = [column.name for source in features.sources for column in source.columns if column.used or column.types]
    fitting: dict[Id, dict[str, Any]] = {}
    for id, about in told.items():
        said = dict(about.features or {})
        if about.title is not None and "title" in columns:
            said.setdefault("title", about.title)
        known = {name: value for name, value in said.items() if name in columns}
        if about.features is None or (said and not known):
            continue
        try:
            features.encode(dict.fromkeys(columns) | known)
        except CofillError:
            continue  # it did not fit the model that was served either
        fitting[features.ids.own(id)] = dict.fromkeys(columns) | known
    return features.updated(fitting, gone)
