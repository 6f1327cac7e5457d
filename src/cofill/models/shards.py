"""A model in shards: cut by the columns of its network, so that it may be larger than any one machine's memory.

Each process writes the columns that it has, as one shard or several; one process writes what all shards share; the
card, last, makes a model of them:

    parts = divided(model)                                       # in every process, of its own columns
    cards = [write_shard(folder, parts, columns, run=run) for columns in cut_by_size(parts, most)]
    shared = write_shared(folder, parts, run=run)                # in one of them
    finish(folder, shared, [*cards of process 0, *cards of process 1, ...])

Until the card is there, the folder holds the model that it held before. What came after the training (ratings,
features, ids) is not cut: it is in the shared files, and such a model is read whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from cofill.arrays import Longs
from cofill.data.vocabulary import Vocabulary
from cofill.errors import ModelFileError, SettingsError
from cofill.models.observed import KnownRatings
from cofill.models.persistence import (
    BESIDE,
    Arrays,
    Card,
    Contents,
    Cut,
    Model,
    PartInfo,
    ShardCard,
    Sides,
    State,
    contents_of,
    make_folder,
    part_of,
    read_card,
    write_arrays,
    write_attributes,
    write_card,
    write_ids,
)


@dataclass(frozen=True)
class Divided:
    """A model taken apart, ready to be cut; all of it, or the columns that one process has."""

    contents: Contents
    cut: Cut
    beside: KnownRatings | None = None  # interactions

    @property
    def ends(self) -> Longs:
        """(columns + 1,): where the ratings of each column begin and end."""
        return self.contents.arrays["ratings"]["indptr"]

    @property
    def columns(self) -> int:
        return len(self.ends) - 1

    @property
    def ids(self) -> Vocabulary:
        """Of the columns, those that came after the training last."""
        return self.contents.users if self.cut.columns == "users" else self.contents.items

    @cached_property
    def cuts(self) -> dict[tuple[str, str], Longs]:
        """By kind and name, the arrays that are cut: (columns + 1,), where what belongs to each column begins."""
        by, arrays, each, ends = self.cut, self.contents.arrays, np.arange(self.columns + 1), self.ends
        places = {("weights", name): each for name in by.by_column} | {("weights", name): ends for name in by.by_rating}
        places |= {("ratings", "indptr"): each, ("ratings", "indices"): ends, ("ratings", "values"): ends}
        places |= {("features", f"{by.columns}.{name}"): each for name in ("trained", "described")}
        if by.columns == "users":  # who did what
            beside = arrays["lists"].get("beside.indptr", each)
            places |= {("lists", "decay"): ends, ("lists", "beside.indptr"): each}
            places |= {("lists", f"{BESIDE}{name}"): beside for name in ("indices", "values", "decay")}
        return {(kind, name): place for (kind, name), place in places.items() if name in arrays.get(kind, {})}

    def of_shard(self, columns: range) -> dict[str, Arrays]:
        """What belongs to some columns, by kind of file."""
        found: dict[str, Arrays] = {}
        for (kind, name), ends in self.cuts.items():
            array, first, last = self.contents.arrays[kind][name], int(ends[columns.start]), int(ends[columns.stop])
            own = array[first : last + 1] - array[first] if name.endswith("indptr") else array[first:last]
            found.setdefault(kind, {})[name] = own
        return found

    def sizes(self) -> Longs:
        """(columns,): bytes of the arrays of each."""
        arrays = [(self.contents.arrays[kind][name], ends) for (kind, name), ends in self.cuts.items()]
        sizes = [
            array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64)) * np.diff(ends) for array, ends in arrays
        ]
        total: Longs = np.sum(sizes, axis=0)
        return total

    def shared(self) -> dict[str, Arrays]:
        """What belongs to no column, or came after the training, by kind of file."""
        found = {
            kind: {name: array for name, array in own.items() if (kind, name) not in self.cuts}
            for kind, own in self.contents.arrays.items()
        }
        rows = self.cut.rows()
        if self.beside is not None:
            rows[f"{BESIDE}counts"] = self.beside.trained_column_counts()
            rows[f"{BESIDE}spread"] = np.array([self.beside.spread()])
        return found | {"rows": rows}

    def changed(self) -> bool:
        """Whether there is anything that the training did not know."""
        contents = self.contents
        later = [
            array
            for own in contents.arrays.values()
            for name, array in own.items()
            if "later." in name or "removed." in name
        ]
        known = int(contents.arrays["ratings"]["shape"].sum())
        return any(map(len, later)) or len(contents.users) + len(contents.items) > known


def divided(model: Model) -> Divided:
    """A model ready to be cut by columns; SettingsError for an algorithm whose models are in one piece.

    The model may be part of another itself: that of one of several processes that trained it together.
    """
    state: State = model._state_dict()
    if state.cut is None:
        raise SettingsError(
            f"a model of {model.kind!r} is saved in one piece, unless it is one network, of one orientation; "
            f"leave out shards"
        )
    beside = model.scorer.feedback.beside
    return Divided(contents_of(model, state), state.cut, None if beside is None else beside.known)


def cut_evenly(model: Divided, shards: int) -> list[range]:
    """So many ranges of columns, or as many as there are columns, with about as many ratings each."""
    if isinstance(shards, bool) or shards < 1:
        raise SettingsError(f"a model has at least one shard. Got shards={shards!r}")
    columns = model.columns
    shards = min(shards, max(columns, 1))
    number = np.arange(1, shards)
    places = np.searchsorted(model.ends, int(model.ends[-1]) * number / shards)
    # None is empty, even where all the ratings are in a few columns.
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
    return [range(first, last) for first, last in pairwise([0, *places, columns])]


def save_in_shards(folder: Path, model: Divided, shards: int | Sequence[int]) -> None:
    """Write a whole model in so many shards, or in shards that begin at column 0 and at these columns."""
    ranges = cut_evenly(model, shards) if isinstance(shards, int) else _between(list(shards), model.columns)
    if not all(ranges):
        raise SettingsError(
            f"shards are cut at columns from 1 to {model.columns - 1}, in ascending order. Got {shards}"
        )
    cards = [write_shard(folder, model, columns) for columns in ranges]
    finish(folder, write_shared(folder, model), cards)


def write_shard(folder: Path, model: Divided, columns: range, *, run: str = "") -> ShardCard:
    """Write some of the columns that a process has.

    `run` is the same for all shards of one model: `finish` makes none of those of two.
    """
    make_folder(folder)
    files = write_arrays(folder, model.of_shard(columns))
    ids = [model.ids.id(column) for column in columns]
    files[model.cut.columns] = write_ids(folder, model.cut.columns, ids, model.contents)
    ratings = int(model.ends[columns.stop] - model.ends[columns.start])
    return ShardCard(run=run, first=0, columns=len(columns), ratings=ratings, files=files)


def write_shared(folder: Path, model: Divided, *, run: str = "") -> Card:
    """Write what all shards share. Until `finish`, the folder holds the model that it held before."""
    make_folder(folder)
    contents, arrays, columns = model.contents, model.shared(), model.cut.columns
    files = write_arrays(folder, arrays) | write_attributes(folder, contents)
    others: Sides = "items" if columns == "users" else "users"
    files[others] = write_ids(folder, others, getattr(contents, others).ids, contents)
    if later := model.ids.ids[model.columns :]:
        files[columns] = write_ids(folder, columns, later, contents)
    ratings = int(arrays["rows"]["counts"].sum())
    of_shards = {"columns": columns, "ratings": ratings, "changed": model.changed(), "run": run, "files": files}
    return contents.card.model_copy(update=of_shards)


def finish(folder: Path, shared: Card, shards: Sequence[ShardCard]) -> None:
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
    write_card(folder, shared.model_copy(update={"shards": placed}))


def parts_of(folder: Path | str) -> list[PartInfo]:
    """The parts of a model in shards that `Recommender.load(folder, part=number)` reads; ModelFileError if none."""
    card = read_card(Path(folder))
    return [part_of(Path(folder), card, number) for number in range(max(len(card.shards), 1))]
