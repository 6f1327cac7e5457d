"""A model in shards: cut by the columns of its network, so that it may be larger than any one machine's memory.

Whoever has some of the columns writes them, one shard or several; somebody writes what all shards share; the card,
last, makes a model of them:

    parts = divided(model)                                       # in every process, of its own columns
    cards = [write_shard(folder, parts, columns, run=run) for columns in cut_by_size(parts, most)]
    shared = write_shared(folder, parts, run=run)                # in one of them
    finish(folder, shared, [*cards of process 0, *cards of process 1, ...])

Until the card is there, the folder holds the model that it held before. What came after the training (ratings,
features, ids) is not cut: it is in the shared files, and such a model is read whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.vocabulary import Vocabulary
from cofill.errors import ModelFileError, SettingsError
from cofill.models.card import Card, PartInfo, ShardCard, SharedCard, Sides, part_of, read_card
from cofill.models.file import (
    Arrays,
    Contents,
    Kept,
    checked,
    ids_in,
    load_frame,
    make_folder,
    said_of,
    write_arrays,
    write_attributes,
    write_card,
    write_ids,
)

_ENTRIES = ("indptr", "indices", "values")


class KeptByColumn(NamedTuple):
    """What a file keeps of an algorithm whose model can be cut by columns."""

    kept: Kept  # with the ratings column by column
    columns: Sides  # what the columns are
    by_column: Sequence[str]  # weights that have a place for each column of the training
    by_rating: Sequence[str]  # those that have one for each rating, column by column
    ratings: int  # of the training, in all columns
    rows: Callable[[], Arrays]  # what all columns say of the rows, for those who will have some columns only


@dataclass(frozen=True)
class Divided:
    """A model taken apart, ready to be cut; all of it, or the columns that one process has."""

    contents: Contents
    by: KeptByColumn

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """(columns + 1,): where the ratings of each column begin and end."""
        ends: npt.NDArray[np.int64] = self.contents.arrays["ratings"]["indptr"]
        return ends

    @property
    def columns(self) -> int:
        return len(self.ends) - 1

    @property
    def ids(self) -> Vocabulary:
        """Of the columns, those that came after the training last."""
        return self.contents.users if self.by.columns == "users" else self.contents.items

    def of_shard(self, columns: range) -> dict[str, Arrays]:
        """What belongs to some columns, by kind of file."""
        arrays, by = self.contents.arrays, self.by
        own, ratings = slice(columns.start, columns.stop), _entries(self.ends, columns)
        found: dict[str, Arrays] = {
            "weights": {
                name: array[own if name in by.by_column else ratings]
                for name, array in arrays["weights"].items()
                if name in by.by_column or name in by.by_rating
            },
            "ratings": _cut_rows(arrays["ratings"], columns),
        }
        of_features = {name: arrays["features"][name][own] for name in self._cut_features()}
        of_lists = self._cut_lists()
        lists: Arrays = {}
        if "decay" in of_lists:
            lists["decay"] = arrays["lists"]["decay"][ratings]
        if "beside.indptr" in of_lists:
            beside = {name.removeprefix("beside."): arrays["lists"][name] for name in of_lists if "beside." in name}
            lists |= {f"beside.{name}": array for name, array in _cut_rows(beside, columns).items()}
        return found | ({"features": of_features} if of_features else {}) | ({"lists": lists} if lists else {})

    def sizes(self) -> npt.NDArray[np.int64]:
        """(columns,): bytes of the arrays of each."""
        whole = self.of_shard(range(self.columns))
        of_ratings = {*self.by.by_rating, *_ENTRIES[1:], "decay"}
        sizes, counts = np.zeros(self.columns, np.int64), np.diff(self.ends)
        for kind, own in whole.items():
            beside = np.diff(own["beside.indptr"]) if "beside.indptr" in own else counts
            for name, array in own.items():
                one = array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
                if kind == "lists" and name.startswith("beside."):
                    sizes += one * (beside if name.removeprefix("beside.") in of_ratings else 1)
                else:
                    sizes += one * (counts if name in of_ratings else 1)
        return sizes

    def shared(self) -> dict[str, Arrays]:
        """What belongs to no column, or came after the training, by kind of file."""
        arrays = self.contents.arrays
        cut = {
            "weights": {*self.by.by_column, *self.by.by_rating},
            "ratings": set(_ENTRIES),
            "features": set(self._cut_features()),
            "lists": set(self._cut_lists()),
        }
        found = {
            kind: {name: array for name, array in own.items() if name not in cut.get(kind, ())}
            for kind, own in arrays.items()
        }
        return found | {"rows": self.by.rows()}

    def _cut_features(self) -> list[str]:
        there = self.contents.arrays.get("features", {})
        return [name for name in (f"{self.by.columns}.trained", f"{self.by.columns}.described") if name in there]

    def _cut_lists(self) -> list[str]:
        """What the list scorer's file has of each rating or interaction of people, where the columns are people."""
        if self.by.columns != "users":
            return []
        of_people = ("decay", *(f"beside.{name}" for name in (*_ENTRIES, "decay")))
        return [name for name in of_people if name in self.contents.arrays["lists"]]

    def changed(self) -> bool:
        """Whether there is anything that the training did not know."""
        contents = self.contents
        later = [
            len(array)
            for own in contents.arrays.values()
            for name, array in own.items()
            if "later." in name or "removed." in name
        ]
        columns, rows = contents.arrays["ratings"]["shape"].tolist()
        return any(later) or len(contents.users) + len(contents.items) > columns + rows


def _entries(ends: npt.NDArray[np.int64], rows: range) -> slice:
    return slice(int(ends[rows.start]), int(ends[rows.stop]))


def _cut_rows(arrays: Arrays, rows: range) -> Arrays:
    """Some rows of a sparse matrix, and whatever else there is of each of its entries."""
    ends = arrays["indptr"]
    own = _entries(ends, rows)
    cut: Arrays = {"indptr": ends[rows.start : rows.stop + 1] - ends[rows.start]}
    return cut | {name: arrays[name][own] for name in ("indices", "values", "decay") if name in arrays}


# Where to cut


def cut_evenly(model: Divided, shards: int) -> list[range]:
    """So many ranges of columns, or as many as there are columns, with about as many ratings each."""
    if isinstance(shards, bool) or shards < 1:
        raise SettingsError(f"a model has at least one shard. Got shards={shards!r}")
    columns = model.columns
    shards = min(shards, max(columns, 1))
    wanted = int(model.ends[-1]) * np.arange(1, shards) / shards
    places = np.searchsorted(model.ends, wanted)
    # None is empty, even where all the ratings are in a few columns.
    number = np.arange(1, shards)
    places = np.minimum(np.maximum.accumulate(places - number) + number, columns - shards + number)
    return _between(np.maximum(places, number).tolist(), columns)


def cut_by_size(model: Divided, most: int) -> list[range]:
    """Ranges of columns whose files have at most so many bytes each; a column that has more is alone."""
    if most < 1:
        raise SettingsError(f"a shard has at least one byte. Got {most!r}")
    total = np.concatenate([[0], np.cumsum(model.sizes())])
    places, first = [], 0
    while first < model.columns:
        first = max(int(np.searchsorted(total, total[first] + most, "right")) - 1, first + 1)
        places.append(first)
    return _between(places[:-1], model.columns)


def _between(places: Sequence[int], columns: int) -> list[range]:
    ends = [0, *places, columns]
    return [range(first, last) for first, last in pairwise(ends)]


# Writing


def write_shard(folder: Path, model: Divided, columns: range, *, run: str = "") -> ShardCard:
    """Write some of the columns that a process has.

    `run` is the same for all shards of one model: `finish` makes none of those of two.
    """
    make_folder(folder)
    files = write_arrays(folder, model.of_shard(columns))
    ids = [model.ids.id(column) for column in columns]
    files[model.by.columns] = write_ids(folder, model.by.columns, ids, model.contents)
    ratings = _entries(model.ends, columns)
    return ShardCard(run=run, first=0, columns=len(columns), ratings=ratings.stop - ratings.start, files=files)


def write_shared(folder: Path, model: Divided, *, run: str = "") -> SharedCard:
    """Write what all shards share."""
    make_folder(folder)
    contents, by = model.contents, model.by
    files = write_arrays(folder, model.shared())
    if by.columns == "users":
        files["items"] = write_ids(folder, "items", contents.items.ids, contents)
    else:
        files["users"] = write_ids(folder, "users", contents.users.ids, contents)
    if later := [model.ids.id(column) for column in range(model.columns, len(model.ids))]:
        files[by.columns] = write_ids(folder, by.columns, later, contents)
    files |= write_attributes(folder, contents)
    changed = model.changed()
    return SharedCard(
        **said_of(contents), columns=by.columns, ratings=by.ratings, changed=changed, run=run, files=files
    )


def finish(folder: Path, shared: SharedCard, shards: Sequence[ShardCard]) -> None:
    """Make a model of what was written, in the order of these shards.

    ModelFileError if they are of several runs, or not all of one.
    """
    first, placed = 0, []
    for shard in shards:
        if shard.run != shared.run:
            raise ModelFileError(
                f"{folder}: a shard is of the run {shard.run!r}, and what all share of {shared.run!r}; write all again"
            )
        if shard.columns:  # a process may have had nothing to do
            placed.append(shard.model_copy(update={"first": first}))
            first += shard.columns
    found = sum(shard.ratings for shard in placed)
    if not placed or found != shared.ratings:
        raise ModelFileError(
            f"{folder}: the shards have {first} columns with {found} ratings, and the model has {shared.ratings} "
            f"ratings; write all of its shards first"
        )
    said = {name: getattr(shared, name) for name in shared.model_fields_set}
    write_card(folder, Card(**said, shards=placed, sha256=""))


def save_in_shards(folder: Path, model: Divided, shards: int | Sequence[int]) -> None:
    """Write a whole model in so many shards, or in shards that begin at column 0 and at these columns."""
    if isinstance(shards, int):
        ranges = cut_evenly(model, shards)
    else:
        ranges = _between(list(shards), model.columns)
        if not all(ranges):
            raise SettingsError(
                f"shards are cut at columns from 1 to {model.columns - 1}, in ascending order. Got {list(shards)}"
            )
    cards = [write_shard(folder, model, columns) for columns in ranges]
    finish(folder, write_shared(folder, model), cards)


# What there is to read


def parts_of(folder: Path | str) -> list[PartInfo]:
    """The parts of a model in shards that `Recommender.load(folder, part=number)` reads; ModelFileError if none."""
    card = read_card(Path(folder))
    return [part_of(Path(folder), card, number) for number in range(max(len(card.shards), 1))]


def users_of_part(folder: Path | str, part: int) -> Vocabulary:
    """The ids of the users of a part, in the order of their indices, without reading more of it."""
    card = read_card(Path(folder))
    shard = card.shards[part_of(Path(folder), card, part).number]
    return ids_in(load_frame(checked(Path(folder), shard.files, "users")))
