"""A model on disk: a folder with weights and ratings as safetensors, ids as Parquet, and a JSON that people can read.

    model.json                    what the model is: settings, data, history, measures, and the files that belong to it
    weights-<hash>.safetensors    what was learned: the network and what fold-in needs, or the factors of a baseline
    ratings-<hash>.safetensors    the ratings it was trained on, and those added later
    lists-<hash>.safetensors      the list scorer
    features-<hash>.safetensors   side features and what was learned about their columns, where there are any
    users-<hash>.parquet          ids, in the order of their indices
    items-<hash>.parquet          ids and titles
    attributes-<hash>.parquet     what items are in words, in columns called kind:name, where anything is known
    map-<hash>.safetensors        where the most rated items lie in two dimensions, where that was drawn

Files are named after their content, and model.json takes its place last: a reader sees the old model or the new one,
never a mixture, whenever the writer was stopped. Nothing is ever unpickled.

A model in shards, cut by the columns of its network, may be larger than the memory of one machine. It has the weights,
ratings, features and ids of columns once for each shard. All other files are shared, also what came after the training
(ratings, features, ids); with that, a model is read whole. To read one shard alone there is one more:

    rows-<hash>.safetensors       the rows as all columns read them

Each process writes the columns that it has, as one shard or several; one process writes what all shards share; the
card, last, makes a model of them:

    parts = divided(model)                                       # in every process, of its own columns
    cards = [write_shard(folder, parts, columns) for columns in cut_evenly(parts, shards)]
    shared = write_shared(folder, parts)                         # in one of them
    finish(folder, shared, [*cards of process 0, *cards of process 1, ...])
"""

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import polars as pl
import safetensors.numpy
from pydantic import Field

from cofill.arrays import Arrays, Longs
from cofill.data.attributes import Attributes
from cofill.data.described import SideFeatures
from cofill.data.features import Features
from cofill.data.ratings import Scale
from cofill.data.reading import checked_scale
from cofill.data.sparse import known_from
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import CofillError, ModelFileError, SettingsError
from cofill.files import DRAFTS_OF_SAFETENSORS, replacing
from cofill.interrupts import unfinished
from cofill.manifest import Document, FileCard, Manifest, sha256_of
from cofill.models import algorithm
from cofill.models.lists.feedback import GradedRatings, Sequences
from cofill.models.results import EpochRecord, ItemPlaces

CARD_NAME = "model.json"
FILE_KINDS = ("weights", "ratings", "lists", "features", "users", "items", "attributes", "rows", "map")
"""What the files of a model's folder are called, beside its card; a model has some of them."""
Sides = Literal["users", "items"]
Model = Any
"""A `Recommender`, whose module imports this one."""

_TABLES = ("users", "items", "attributes")
SEQUENCE = "sequence."  # order and times of what users did, in the same file
BESIDE = "beside."  # interactions beside ratings, in the file of the list scorer


# The card


class ShardCard(Document):
    """One shard of a model: some columns of its network, next to each other, and their files by kind."""

    first: int = Field(ge=0)  # of its columns, among those of all shards
    columns: int = Field(ge=0)
    ratings: int = Field(ge=0)
    files: dict[str, FileCard]


class Card(Manifest):
    """model.json"""

    NAME: ClassVar[str] = CARD_NAME
    WHAT: ClassVar[tuple[str, str]] = ("a model", "check the path")
    ERROR: ClassVar[type[CofillError]] = ModelFileError
    REMEDY: ClassVar[str] = "copy or train the model again"
    UNSIGNED: ClassVar[set[str]] = {"sha256", "trained"}  # the same training is the same model

    format: str = "cofill-model"
    kind: str
    settings: dict[str, Any]
    networks: Mapping[str, Mapping[str, Any]] = {}  # of two networks: settings that each has of its own
    scale: tuple[float, float]
    numbers: Mapping[str, float]  # what was learned and is no array; of two networks with their names, as in item.unit
    data: dict[str, Any]
    measures: dict[str, float | int | None]
    history: list[dict[str, Any]]
    trained: datetime | None  # the end of the training
    features: dict[str, dict[str, Any]]  # what was learned about those of "users" and "items"
    columns: Sides | None = None  # what the shards are cut by
    ratings: int | None = None  # of the training, in all shards
    changed: bool = False  # whether there are ratings, features or ids that came after the training
    files: dict[str, FileCard] = Field(default={})  # shared by the shards
    shards: list[ShardCard] = Field(default=[])

    @property
    def parts(self) -> list[int]:
        """How many users each part has that can be loaded alone; none where the model is loaded whole."""
        return [shard.columns for shard in self.shards] if self.columns == "users" and not self.changed else []

    def all_files(self) -> list[FileCard]:
        return [file for files in (self.files, *(shard.files for shard in self.shards)) for file in files.values()]


class PartInfo(NamedTuple):
    """One part of a model in shards, which can be read alone."""

    number: int  # from 0
    parts: int  # how many there are
    first: int  # of its users, among those of the whole model
    users: int
    ratings: int

    def __str__(self) -> str:
        return f"part {self.number} of {self.parts}"


def parts_of(folder: Path | str, card: Card | None = None) -> list[PartInfo]:
    """The parts of a model that `Recommender.load(folder, part=number)` reads; ModelFileError if it is read whole."""
    card = Card.read(Path(folder)) if card is None else card
    if card.parts:
        parts = enumerate(card.shards)
        return [PartInfo(at, len(card.shards), one.first, one.columns, one.ratings) for at, one in parts]
    why = "this model is in one piece; load it whole"
    if card.changed:
        why = "this model has changed since its training, which all parts would have to know of; load it whole"
    if card.columns == "items":
        why = "the shards of this model hold items, and each user is in all of them; load it whole, or train with "
        why += "orientation 'item'"
    raise ModelFileError(f"{folder}: {why}")


# A model taken apart


class Cut(NamedTuple):
    """How a model is cut into shards, by the columns of its network."""

    columns: Sides  # what the columns are
    by_column: Sequence[str]  # weights that have an entry for each column of the training
    by_rating: Sequence[str]  # those that have one for each rating, column by column
    rows: Callable[[], Arrays]  # what all columns say of the rows, for a part of the model


class State(NamedTuple):
    """What a model folder stores of an algorithm, apart from settings, ids and features."""

    weights: Arrays
    ratings: Arrays
    """What `known_arrays` gives; of a model that can be cut, of the ratings column by column."""
    numbers: Mapping[str, float] = {}
    networks: Mapping[str, Mapping[str, Any]] = {}
    """Of a model of two networks: settings that each has of its own, and the whole has not."""
    cut: Cut | None = None
    """None: it is saved in one piece."""
    rows: Arrays | None = None
    """In part of a model: what all columns say of the rows."""


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
        found["rows"], scorer = self.cut.rows(), self.model._scorer
        if scorer is not None and (beside := scorer.feedback.beside) is not None:
            found["rows"][f"{BESIDE}counts"] = beside.known.transposed().trained_counts()
            found["rows"][f"{BESIDE}spread"] = np.array([beside.known.spread()])
        return found

    def changed(self) -> bool:
        """Whether there is anything that the training did not know."""
        arrays = [(name, array) for own in self.arrays.values() for name, array in own.items()]
        updates = [array for name, array in arrays if "later." in name or "removed." in name]
        trained = int(self.arrays["ratings"]["shape"].sum())
        return any(map(len, updates)) or len(self.model.users) + len(self.model.items) > trained


def divided(model: Model, lists: Arrays | None = None, *, whole: bool = False) -> Divided:
    """A model taken apart, to be cut by columns, or not (`whole`); SettingsError if it cannot be cut.

    The model may be part of another itself: that of one of several processes that trained it together. With `lists`,
    which are cut by columns too, it is divided before its list scorer is fitted (`write_lists`).
    """
    state: State = model._state_dict()
    if state.cut is None and not whole:
        raise SettingsError(
            f"a model of {model.kind!r} is saved in one piece, unless it is one network, of one orientation; "
            f"leave out shards"
        )
    arrays = {"weights": state.weights, "ratings": state.ratings}
    arrays["lists"] = list_arrays(model) if lists is None else lists
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


def list_arrays(model: Model) -> Arrays:
    """The list scorer, and what it knows beside the ratings."""
    arrays: Arrays = model.scorer.arrays()
    feedback = model.scorer.feedback
    if feedback.main.decay is not None:
        arrays["decay"] = feedback.main.decay.trained.values
    if feedback.sequences is not None:
        arrays |= {f"{SEQUENCE}{name}": array for name, array in feedback.sequences.arrays().items()}
    if feedback.beside is not None:
        arrays |= {f"{BESIDE}{name}": array for name, array in feedback.beside.arrays().items()}
    return arrays


def cut_evenly(model: Divided, shards: int) -> list[range]:
    """So many ranges of columns, or as many as there are columns, with about as many bytes each."""
    if isinstance(shards, bool) or shards < 1:
        raise SettingsError(f"a model has at least one shard. Got shards={shards!r}")
    columns = model.columns
    shards = min(shards, max(columns, 1))
    number = np.arange(1, shards)
    ends = np.concatenate([[0], np.cumsum(model.sizes())])
    places = np.searchsorted(ends, int(ends[-1]) * number / shards)
    # None is empty, even where nearly all bytes are in a few columns.
    places = np.minimum(np.maximum.accumulate(places - number) + number, columns - shards + number)
    return [range(first, last) for first, last in pairwise([0, *np.maximum(places, number).tolist(), columns])]


# Writing


def save(folder: Path, model: Model, shards: int | None) -> None:
    """Write a model in so many shards, or in one piece; if that fails, only the model that was there before stays."""
    parts = divided(model, whole=shards is None)
    ranges = [] if shards is None else cut_evenly(parts, shards)
    try:
        cards = [write_shard(folder, parts, columns) for columns in ranges]
        finish(folder, write_shared(folder, parts), cards)
    except BaseException:
        with suppress(ModelFileError):  # of another card
            remove_leftovers(folder, Card.read(folder) if (folder / CARD_NAME).exists() else None)
        raise


def write_shard(folder: Path, model: Divided, columns: range) -> ShardCard:
    """Write some of the columns that a process has."""
    assert model.cut is not None
    files, side = _write_arrays(folder, model.of_shard(columns)), model.cut.columns
    files[side] = _write_ids(folder, side, columns, model.model)
    ratings = int(model.ends[columns.stop] - model.ends[columns.start])
    return ShardCard(first=0, columns=len(columns), ratings=ratings, files=files)


def write_shared(folder: Path, model: Divided) -> Card:
    """Write what all shards share. Until `finish`, the folder holds the model that it held before."""
    arrays, by = model.shared(), model.cut
    files = _write_arrays(folder, arrays) | _write_attributes(folder, model.model)
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


def write_lists(folder: Path, model: Model, arrays: Arrays) -> dict[str, FileCard]:
    """Write the list scorer of a model that was divided before it was fitted, and what its items are in words.

    `arrays` take the place of those of this process.
    """
    own = {name: array for name, array in list_arrays(model).items() if name != "decay"}
    return _write_arrays(folder, {"lists": own | arrays}) | _write_attributes(folder, model)


def finish(folder: Path, shared: Card, shards: Sequence[ShardCard]) -> None:
    """Make a model of what was written, in the order of these shards; ModelFileError if they are not all.

    From here on the folder holds this model, and no longer the files of another.
    """
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
    card = shared.model_copy(update={"shards": placed})
    with replacing(folder / CARD_NAME, ModelFileError) as draft:
        draft.write_text(card.signed(), encoding="utf-8")
    remove_leftovers(folder, card)


def _write_attributes(folder: Path, model: Model) -> dict[str, FileCard]:
    frame = model.item_attributes.frame()
    if frame is None or not frame.width:
        return {}
    return {"attributes": _write(folder, "attributes", ".parquet", frame.write_parquet)}


def _write_arrays(folder: Path, arrays: Mapping[str, Arrays]) -> dict[str, FileCard]:
    return {
        kind: _write(folder, kind, ".safetensors", partial(_save_arrays, own)) for kind, own in arrays.items() if own
    }


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
    """Write a file under the name of its content."""
    make_folder(folder)
    # Not the number of the process: those of several machines may write into one folder.
    draft = folder / f".{kind}.{secrets.token_hex(8)}{suffix}"
    with unfinished(draft):
        with replacing(draft, ModelFileError) as part:
            write(part)
        digest = sha256_of(draft)
        target = draft.with_name(f"{kind}-{digest[:12]}{suffix}")
        draft.replace(target)
    return FileCard(name=target.name, bytes=target.stat().st_size, sha256=digest)


# Reading


def read_model(folder: Path, asked: type[Model], part: int | None = None) -> Model:
    """The model of a folder; whatever is missing, altered or from a newer version is refused with a reason.

    With `part`, of one shard of it alone; files of others are not even looked at.
    """
    card = Card.read(folder)
    try:
        return _read(folder, card, asked, part)
    except ModelFileError:
        newer = Card.read(folder)
        if newer.sha256 == card.sha256:
            raise
        return _read(folder, newer, asked, part)  # replaced while it was read


def _read(folder: Path, card: Card, asked: type[Model], number: int | None) -> Model:
    part, shards = None, card.shards
    if number is not None:
        parts = parts_of(folder, card)
        if not 0 <= number < len(parts):
            raise ModelFileError(
                f"{folder}: there is no part {number}; the model has {len(parts)}, from 0 to {len(parts) - 1}"
            )
        part, shards = parts[number], [card.shards[number]]
    shared = {kind: file for kind, file in card.files.items() if kind != "rows" or part is not None}
    try:
        made_by = _maker(asked, card.kind)
        Card.verify(folder, [file for files in (shared, *(shard.files for shard in shards)) for file in files.values()])
        arrays = {kind: Card.mapped(folder, file) for kind, file in shared.items() if kind not in _TABLES}
        for kind in [kind for kind in (shards[0].files if shards else ()) if kind not in _TABLES]:
            # One kind after the other: every mapped file is an open one, of which a process may have a thousand.
            arrays[kind] |= _joined([Card.mapped(folder, shard.files[kind]) for shard in shards])
        columns = sum(shard.columns for shard in shards)
        for own, prefix in ((arrays["ratings"], ""), (arrays["lists"], BESIDE)):
            if shards and (not prefix or card.columns == "users") and f"{prefix}shape" in own:
                own[f"{prefix}shape"] = np.array([columns, own[f"{prefix}shape"][1]], np.int64)
        model = _put_together(made_by, card, arrays, _tables(folder, card, shards))
        model.part = part
        return model
    except ModelFileError as error:
        raise ModelFileError(str(error) if str(folder) in str(error) else f"{folder}: {error}") from None
    except (CofillError, LookupError, ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError,
            pl.exceptions.PolarsError) as error:  # fmt: skip
        raise ModelFileError(
            f"{folder}: the parts of this model do not fit together ({error}); train it again"
        ) from error


def _joined(pieces: Sequence[Arrays]) -> Arrays:
    """What shards have, one after the other; of one shard alone as it is, and still mapped."""
    joined = dict(pieces[0])
    for name in joined if len(pieces) > 1 else ():
        found = [piece[name] for piece in pieces]
        if name.endswith("indptr"):  # where one shard ends, the next goes on
            lengths = np.concatenate([np.diff(ends) for ends in found])
            joined[name] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        else:
            joined[name] = np.concatenate(found)
    return joined


def read_tables(folder: Path, card: Card) -> dict[str, pl.DataFrame]:
    """The ids of users and items, and the attributes of items, if any, of a whole model that need not be loaded."""
    files = [card.files, *(shard.files for shard in card.shards)]
    Card.verify(folder, [file for own in files for kind, file in own.items() if kind in _TABLES])
    return _tables(folder, card, card.shards)


def _tables(folder: Path, card: Card, shards: Sequence[ShardCard]) -> dict[str, pl.DataFrame]:
    """Users, items and attributes. The ids of columns are in the shards, and those that came later after them."""
    own = [*(shard.files for shard in shards), card.files]
    files = {kind: [some[kind] for some in own if kind in some] for kind in _TABLES}
    paths = {kind: [Card.path_of(folder, file) for file in found] for kind, found in files.items() if found}
    return {kind: pl.concat(pl.read_parquet(path, glob=False) for path in found) for kind, found in paths.items()}


def ids_in(frame: pl.DataFrame) -> Vocabulary:
    """The vocabulary that a file of ids has."""
    return Vocabulary.restored(frame["id"], frame["integer"] if "integer" in frame.columns else None)


def _put_together(
    made_by: type[Model], card: Card, arrays: Mapping[str, Arrays], tables: Mapping[str, pl.DataFrame]
) -> Model:
    """The model of a folder, whole or in part; ValueError and the like where it does not fit together."""
    model = made_by(made_by.settings_class.of(card.settings))
    model.users, model.items = ids_in(tables["users"]), ids_in(tables["items"])
    titles = zip(model.items, tables["items"]["title"], strict=True)
    model.titles = {item: title for item, title in titles if title is not None}
    model.item_attributes = Attributes(model.items)
    if "attributes" in tables:
        model.item_attributes = Attributes.restored(model.items, tables["attributes"])
    model.trained = card.trained
    model.history = [EpochRecord(**record) for record in card.history]
    model.measures, model.data_summary = dict(card.measures), dict(card.data)
    model.item_places = ItemPlaces(**arrays["map"]) if "map" in arrays else None
    features, rows, lists = arrays.get("features", {}), arrays.get("rows"), arrays["lists"]
    state = State(arrays["weights"], arrays["ratings"], card.numbers, card.networks, rows=rows)
    of_users, of_items = (_under(f"{side}.", features) for side in ("users", "items"))
    scale, sizes = Scale(*checked_scale(card.scale)), (len(model.users), len(model.items))
    model._predictor = model._load_state_dict(state, scale, _side_from(of_users), _side_from(of_items))
    beside = None
    if own := _under(BESIDE, lists):
        of_beside = known_from(own, *sizes, None if rows is None else _under(BESIDE, rows))
        grades = model._grades(Scale(*own["scale"].tolist()), rated=not of_beside.trained.nnz)
        beside = GradedRatings.of(of_beside, grades, own.get("decay"))
    feedback = model._feedback(lists.get("decay"), beside)
    if own := _under(SEQUENCE, lists):
        feedback.sequences = Sequences.restored(own, model._predictor.known.trained.columns)
    model._scorer = model._load_scorer(lists, feedback)
    for side, own, ids in (("users", of_users, model.users), ("items", of_items, model.items)):
        if side in card.features:
            described = np.flatnonzero(own["described"])
            own["values"] = own["trained"][described]
            learned = Features.restored(card.features[side], own, ids.only(described.tolist()))
            setattr(model, f"{side[:-1]}_features", learned)
    return model


def _maker(asked: type[Model], kind: str) -> type[Model]:
    """The class that made a model: a known one, or one of the caller's own that goes by that name."""
    if getattr(asked, "kind", None) == kind:
        return asked
    try:
        found = algorithm(kind)
    except SettingsError as error:
        raise ModelFileError(f"{error}; load a model of your own class with that class") from None
    if not issubclass(found, asked):
        raise ModelFileError(
            f"this is a model of the algorithm {kind!r}, not a {asked.__name__}; "
            f"load it with {found.__name__}.load, or with Recommender.load"
        )
    return found


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _side_from(arrays: Arrays) -> SideFeatures | None:
    """The vectors of one side, from their arrays; None where there are none."""
    if not arrays:
        return None
    features, later = SideFeatures(arrays["trained"], arrays["described"]), arrays["later.indices"]
    features.grow(int(later.max(initial=-1)) + 1)  # at once, not for each
    for index, vector in zip(later.tolist(), arrays["later.values"], strict=True):
        features.describe(index, vector)
    return features


# Copying


def copy_model(source: Path, folder: Path) -> None:
    """Put the model of one folder into another, in one piece, as hard links where the disk has them."""
    card = Card.read(source)
    make_folder(folder)
    for file in card.all_files():
        original, target = Card.path_of(source, file), folder / file.name
        try:
            with suppress(FileExistsError):  # named after its content: it is the same
                target.hardlink_to(original)
        except FileNotFoundError:
            raise ModelFileError(f"{source}: was replaced while it was copied; try again") from None
        except OSError:  # another disk, or one without links
            with replacing(target, ModelFileError) as draft:
                shutil.copyfile(original, draft)
    with replacing(folder / CARD_NAME, ModelFileError) as draft:
        shutil.copy2(source / CARD_NAME, draft)
    remove_leftovers(folder, card)


def make_folder(folder: Path) -> None:
    """Make the folder of a model, if it is not there yet."""
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder}: a model is a folder, but there is a file of that name; choose another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(f"{folder}: cannot be made: {error.strerror}; choose another place") from None


def remove_leftovers(folder: Path, card: Card | None) -> None:
    """Remove what is not of the model of this card: files of the one before, and drafts of stopped writers."""
    drafts = [f".{CARD_NAME}.*.part", DRAFTS_OF_SAFETENSORS, *(f"..{kind}.*.part" for kind in FILE_KINDS)]
    files = [pattern for kind in FILE_KINDS for pattern in (f"{kind}-????????????.*", f".{kind}.*")]
    current = {file.name for file in card.all_files()} if card else set()
    for path in [path for pattern in (*files, *drafts) for path in folder.glob(pattern)]:
        if path.name not in current:
            path.unlink(missing_ok=True)
