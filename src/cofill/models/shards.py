"""Writing a model into its folder: in one piece, or in shards, so that it may be larger than one machine's memory.

Shards are cut by the columns of the network. Each process writes the columns that it has, as one shard or several; one
process writes what all shards share; the card, last, makes a model of them:

    parts = divided(model)                                       # in every process, of its own columns
    cards = [write_shard(folder, parts, columns) for columns in cut_by_size(parts, most)]
    shared = write_shared(folder, parts)                         # in one of them
    finish(folder, shared, [*cards of process 0, *cards of process 1, ...])

Until the card is there, the folder holds the model that it held before. What came after the training (ratings,
features, ids) is not cut: it is in the shared files, and such a model is read whole.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import safetensors.numpy

from cofill.arrays import Longs
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import ModelFileError, SettingsError
from cofill.files import replacing
from cofill.interrupts import unfinished
from cofill.models.persistence import (
    BESIDE,
    CARD_NAME,
    SEQUENCE,
    Arrays,
    Card,
    Cut,
    FileCard,
    Model,
    PartInfo,
    ShardCard,
    Sides,
    State,
    make_folder,
    part_of,
    read_card,
    remove_leftovers,
    sha256_of,
)

# A model taken apart


@dataclass(frozen=True)
class Divided:
    """A fitted model as a folder stores it: all of it, or the columns that one process has."""

    model: Model
    card: Card  # files and shards aside
    arrays: Mapping[str, Arrays]  # by kind of file
    cut: Cut | None  # None: in one piece

    @property
    def ends(self) -> Longs:
        """(columns + 1,): where the ratings of each column begin and end."""
        return self.arrays["ratings"]["indptr"]

    @property
    def columns(self) -> int:
        return len(self.ends) - 1

    @cached_property
    def cuts(self) -> dict[tuple[str, str], Longs]:
        """By kind and name, the arrays that are cut: (columns + 1,), where what belongs to each column begins."""
        by, arrays, each, ends = self.cut, self.arrays, np.arange(self.columns + 1), self.ends
        if by is None:
            return {}
        places = {("weights", name): each for name in by.by_column} | {("weights", name): ends for name in by.by_rating}
        places |= {("ratings", "indptr"): each, ("ratings", "indices"): ends, ("ratings", "values"): ends}
        places |= {("features", f"{by.columns}.{name}"): each for name in ("trained", "described")}
        if by.columns == "users":  # who did what
            beside = arrays["lists"].get("beside.indptr", each)
            places |= {("lists", "decay"): ends, ("lists", "beside.indptr"): each}
            places |= {("lists", f"{BESIDE}{name}"): beside for name in ("indices", "values", "decay")}
            sequence = arrays["lists"].get("sequence.indptr", each)
            places |= {("lists", "sequence.indptr"): each}
            places |= {("lists", f"{SEQUENCE}{name}"): sequence for name in ("indices", "values", "times")}
        return {(kind, name): place for (kind, name), place in places.items() if name in arrays.get(kind, {})}

    def of_shard(self, columns: range) -> dict[str, Arrays]:
        """What belongs to some columns, by kind of file."""
        found: dict[str, Arrays] = {}
        for (kind, name), ends in self.cuts.items():
            array, first, last = self.arrays[kind][name], int(ends[columns.start]), int(ends[columns.stop])
            own = array[first : last + 1] - array[first] if name.endswith("indptr") else array[first:last]
            found.setdefault(kind, {})[name] = own
        return found

    def sizes(self) -> Longs:
        """(columns,): bytes of the arrays of each."""
        total = np.zeros(self.columns, np.int64)
        for (kind, name), ends in self.cuts.items():
            array = self.arrays[kind][name]
            total += array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64)) * np.diff(ends)
        return total

    def shared(self) -> dict[str, Arrays]:
        """What belongs to no column, or came after the training, by kind of file."""
        found = {
            kind: {name: array for name, array in own.items() if (kind, name) not in self.cuts}
            for kind, own in self.arrays.items()
        }
        if self.cut is None:
            return found
        found["rows"], beside = self.cut.rows(), self.model.scorer.feedback.beside
        if beside is not None:
            found["rows"][f"{BESIDE}counts"] = beside.known.trained_column_counts()
            found["rows"][f"{BESIDE}spread"] = np.array([beside.known.spread()])
        return found

    def changed(self) -> bool:
        """Whether there is anything that the training did not know."""
        updates = [
            array
            for own in self.arrays.values()
            for name, array in own.items()
            if "later." in name or "removed." in name
        ]
        trained = int(self.arrays["ratings"]["shape"].sum())
        return any(map(len, updates)) or len(self.model.users) + len(self.model.items) > trained


def divided(model: Model, *, whole: bool = False) -> Divided:
    """A model taken apart, to be cut by columns, or not (`whole`); SettingsError if it cannot be cut.

    The model may be part of another itself: that of one of several processes that trained it together.
    """
    state: State = model._state_dict()
    if state.cut is None and not whole:
        raise SettingsError(
            f"a model of {model.kind!r} is saved in one piece, unless it is one network, of one orientation; "
            f"leave out shards"
        )
    arrays = {"weights": state.weights, "ratings": state.ratings, "lists": model.scorer.arrays()}
    feedback = model.scorer.feedback
    if feedback.main.decay is not None:
        arrays["lists"]["decay"] = feedback.main.decay.trained.values
    if feedback.sequences is not None:
        arrays["lists"] |= {f"{SEQUENCE}{name}": array for name, array in feedback.sequences.arrays().items()}
    if feedback.beside is not None:
        arrays["lists"] |= {f"{BESIDE}{name}": array for name, array in feedback.beside.arrays().items()}
    learned_of = {"users": model.user_features, "items": model.item_features}
    learned_of = {side: learned for side, learned in learned_of.items() if learned is not None}
    for side, learned in learned_of.items():
        about = model.predictor.user_features if side == "users" else model.predictor.item_features
        indices, values = about.later()
        own = {name: array for name, array in learned.arrays().items() if name != "values"}
        own |= {"trained": about.trained, "described": about.trained_described, "later.indices": indices}
        # What is no longer described is NaN throughout.
        own["later.values"] = np.where(about.described[indices][:, None], values, np.float32(np.nan))
        arrays.setdefault("features", {}).update({f"{side}.{name}": array for name, array in own.items()})
    if model.item_places is not None:
        arrays["map"] = model.item_places._asdict()
    of_networks = {name for own in state.networks.values() for name in own}
    card = Card(
        kind=model.kind,
        settings=model.settings.model_dump(mode="json", exclude=of_networks),
        networks=state.networks,
        scale=model.scale,
        numbers=state.numbers,
        data=model.data_summary,
        measures=model.measures,
        history=[record.as_json() for record in model.history],
        trained=model.trained,
        features={side: learned.card() for side, learned in learned_of.items()},
    )
    return Divided(model, card, arrays, None if whole else state.cut)


# Where it is cut


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
    total = np.concatenate([[0], np.cumsum(model.sizes())])
    places, first = [], 0
    while first < model.columns:
        first = max(int(np.searchsorted(total, total[first] + most, "right")) - 1, first + 1)
        places.append(first)
    return _between(places[:-1], model.columns)


def _between(places: Sequence[int], columns: int) -> list[range]:
    return [range(first, last) for first, last in pairwise([0, *places, columns])]


# Writing


def save(folder: Path, model: Model, shards: int | None) -> None:
    """Write a model in so many shards, or in one piece; if that fails, only the model that was there before stays."""
    parts = divided(model, whole=shards is None)
    ranges = [] if shards is None else cut_evenly(parts, shards)
    make_folder(folder)
    try:
        cards = [write_shard(folder, parts, columns) for columns in ranges]
        finish(folder, write_shared(folder, parts), cards)
    except BaseException:
        with suppress(ModelFileError):  # of another card
            remove_leftovers(folder, read_card(folder) if (folder / CARD_NAME).exists() else None)
        raise


def write_shard(folder: Path, model: Divided, columns: range) -> ShardCard:
    """Write some of the columns that a process has."""
    assert model.cut is not None
    make_folder(folder)
    files, side = _write_arrays(folder, model.of_shard(columns)), model.cut.columns
    files[side] = _write_ids(folder, side, columns, model.model)
    ratings = int(model.ends[columns.stop] - model.ends[columns.start])
    return ShardCard(first=0, columns=len(columns), ratings=ratings, files=files)


def write_shared(folder: Path, model: Divided) -> Card:
    """Write what all shards share. Until `finish`, the folder holds the model that it held before."""
    make_folder(folder)
    arrays, by = model.shared(), model.cut
    files = _write_arrays(folder, arrays)
    attributes = model.model.item_attributes.frame()
    if attributes is not None and attributes.width:
        files["attributes"] = _write(folder, "attributes", ".parquet", attributes.write_parquet)
    sides: dict[Sides, Vocabulary] = {"users": model.model.users, "items": model.model.items}
    for side, ids in sides.items():
        cut = by is not None and by.columns == side
        if not cut or len(ids) > model.columns:  # those that came after the training are in no shard
            files[side] = _write_ids(folder, side, range(model.columns if cut else 0, len(ids)), model.model)
    if by is None:
        return model.card.model_copy(update={"files": files})
    ratings = int(arrays["rows"]["counts"].sum())
    of_shards = {"columns": by.columns, "ratings": ratings, "changed": model.changed(), "files": files}
    return model.card.model_copy(update=of_shards)


def finish(folder: Path, shared: Card, shards: Sequence[ShardCard]) -> None:
    """Make a model of what was written, in the order of these shards; ModelFileError if they are not all."""
    first, placed = 0, []
    for shard in shards:
        if shard.columns:  # a process may have had nothing to do
            placed.append(shard.model_copy(update={"first": first}))
            first += shard.columns
    found = sum(shard.ratings for shard in placed)
    if shared.columns is not None and (not placed or found != shared.ratings):
        raise ModelFileError(
            f"{folder}: the shards have {first} columns with {found} ratings, and the model has {shared.ratings} "
            f"ratings; write all of its shards first"
        )
    write_card(folder, shared.model_copy(update={"shards": placed}))


def write_card(folder: Path, card: Card) -> None:
    """The last step: from here on the folder holds this model, and no longer the files of another."""
    card.sha256 = card.digest()
    with replacing(folder / CARD_NAME, ModelFileError) as draft:
        draft.write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")
    remove_leftovers(folder, card)


def _write_arrays(folder: Path, arrays: Mapping[str, Arrays]) -> dict[str, FileCard]:
    return {kind: _write(folder, kind, ".safetensors", partial(_save_arrays, own)) for kind, own in arrays.items()}


def _save_arrays(arrays: Arrays, path: Path) -> None:
    safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def _write_ids(folder: Path, side: Sides, indices: range, model: Model) -> FileCard:
    """Ids of users or items; of the latter also the titles. Where strings have joined integers, which are which."""
    known: Vocabulary = model.users if side == "users" else model.items
    ids: list[Id] = known.ids[indices.start : indices.stop]
    if known.mixed:
        columns = [pl.Series("id", map(str, ids), dtype=pl.String)]
        columns.append(pl.Series("integer", [isinstance(id, int) for id in ids], dtype=pl.Boolean))
    else:
        columns = [pl.Series("id", ids, dtype=pl.Int64 if known.integers else pl.String)]
    if side == "items":
        columns.append(pl.Series("title", [model.titles.get(item) for item in ids], dtype=pl.String))
    return _write(folder, side, ".parquet", pl.DataFrame(columns).write_parquet)


def _write(folder: Path, kind: str, suffix: str, write: Callable[[Path], object]) -> FileCard:
    """Write a file under the name of its content; one that is there already is left alone."""
    # Not the number of the process: those of several machines may write into one folder.
    draft = folder / f".{kind}.{secrets.token_hex(8)}{suffix}"
    with unfinished(draft):
        with replacing(draft, ModelFileError) as part:
            write(part)
        digest = sha256_of(draft)
        target = draft.with_name(f"{kind}-{digest[:12]}{suffix}")
        draft.replace(target)
    return FileCard(name=target.name, bytes=target.stat().st_size, sha256=digest)


def parts_of(folder: Path | str) -> list[PartInfo]:
    """The parts of a model in shards that `Recommender.load(folder, part=number)` reads; ModelFileError if none."""
    card = read_card(Path(folder))
    return [part_of(Path(folder), card, number) for number in range(max(len(card.shards), 1))]
