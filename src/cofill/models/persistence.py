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

A model in shards, cut by the columns of its network, may be larger than the memory of one machine. It has the weights,
ratings, features and ids of columns once for each shard; all other files are shared by the shards, and one more:

    rows-<hash>.safetensors       the rows as all columns read them, to read a part of the model

Files are named after their content, and model.json takes its place last: a reader sees the old model or the new one,
never a mixture, whenever the writer was stopped. Nothing is ever unpickled.

Every file is read once when a model is loaded, to compare its SHA-256, files side by side on all cores: hashing is as
fast as a disk, and a remembered check could not see a disk that goes bad. Arrays are then mapped, not read
(copy-on-write): processes that serve the same model share its memory, and what a process never asks for takes none.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cofill import __version__
from cofill.data.attributes import Attributes
from cofill.data.cells import checked_scale
from cofill.data.described import SideFeatures
from cofill.data.features import Features
from cofill.data.ratings import Scale
from cofill.data.vocabulary import Vocabulary
from cofill.errors import CofillError, ModelFileError, SettingsError
from cofill.files import DRAFTS_OF_SAFETENSORS, explain_write_failure, json_of, replacing
from cofill.models import algorithm
from cofill.models.lists.feedback import GradedRatings
from cofill.models.lists.sequences import Sequences
from cofill.models.observed import AllColumns, known_from
from cofill.models.observed import Arrays as Arrays
from cofill.models.results import EpochRecord, ItemPlaces

FORMAT_VERSION = 1
CARD_NAME = "model.json"
FILE_KINDS = ("weights", "ratings", "lists", "features", "users", "items", "attributes", "rows", "map")
"""What the files of a model's folder are called, beside its card; a model has some of them."""
Sides = Literal["users", "items"]
Model = Any
"""A `Recommender`, whose module imports this one."""

_TABLES = ("users", "items", "attributes")
_AGAIN = "copy or train the model again"
_DTYPES: dict[str, Any] = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "BOOL": np.bool_},
    **{f"{sign}{bits}": np.dtype(f"{sign.lower()}{bits // 8}") for sign in "IU" for bits in (8, 16, 32, 64)},
}  # of safetensors
SEQUENCE = "sequence."  # order and times of what users did, in the same file
BESIDE = "beside."  # interactions beside ratings, in the file of the list scorer


# The card


class FileCard(BaseModel):
    """One file of a model's folder."""

    model_config = ConfigDict(extra="forbid")

    name: str
    bytes: int
    sha256: str


class ShardCard(BaseModel):
    """One shard of a model: some columns of its network, next to each other, and their files by kind."""

    model_config = ConfigDict(extra="forbid")

    first: int = Field(ge=0)  # of its columns, among those of all shards
    columns: int = Field(ge=0)
    ratings: int = Field(ge=0)
    files: dict[str, FileCard]


class Card(BaseModel):
    """model.json"""

    model_config = ConfigDict(extra="forbid")

    format: str = "cofill-model"
    format_version: int = FORMAT_VERSION
    cofill_version: str = __version__
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
    files: dict[str, FileCard] = {}  # shared by the shards
    shards: list[ShardCard] = []
    sha256: str = ""  # of this document without this field and without the time: the same training is the same model

    def digest(self) -> str:
        signed = self.model_dump(mode="json", exclude={"sha256", "trained"})
        return hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()

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


def read_card(folder: Path) -> Card:
    """What model.json says, checked; the files that it names are not."""
    path = folder / CARD_NAME
    try:
        document = json_of(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(f"{folder}: not a model, there is no {CARD_NAME} in it; check the path") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ModelFileError(f"{path}: truncated or altered, it is not JSON ({error}); {_AGAIN}") from None
    if not isinstance(document, dict) or document.get("format") != "cofill-model":
        raise ModelFileError(f"{path}: not the description of a cofill model; check the path")
    version = document.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: the model has format {version}, this cofill {__version__} reads up to {FORMAT_VERSION}; "
            f"upgrade cofill (the model was written by {document.get('cofill_version')})"
        )
    try:
        card = Card.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelFileError(f"{path}: altered, {'.'.join(map(str, first['loc']))}: {first['msg']}; {_AGAIN}") from None
    if card.sha256 != card.digest():
        raise ModelFileError(f"{path}: altered since it was written; {_AGAIN}")
    return card


def part_of(folder: Path, card: Card, number: int) -> PartInfo:
    """One part of a model; ModelFileError where it has no parts, or none of that number."""
    if not card.shards:
        raise ModelFileError(f"{folder}: this model is in one piece, it has no part {number}; load it whole")
    if card.columns != "users":
        raise ModelFileError(
            f"{folder}: the rows of this model's network are users, so its shards hold items, and each user is in all "
            f"of them; load it whole, or train with orientation 'item'"
        )
    if card.changed:
        raise ModelFileError(
            f"{folder}: ratings, features or ids were added to this model after its training, which all parts would "
            f"have to know of; load it whole, or train again"
        )
    if not 0 <= number < len(card.shards):
        raise ModelFileError(
            f"{folder}: there is no part {number}; the model has {len(card.shards)}, from 0 to {len(card.shards) - 1}"
        )
    shard = card.shards[number]
    return PartInfo(number, len(card.shards), shard.first, shard.columns, shard.ratings)


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


def put_together(
    asked: type[Model], card: Card, arrays: Mapping[str, Arrays], tables: Mapping[str, pl.DataFrame]
) -> Model:
    """The model of a folder, whole or in part; ValueError and the like where it does not fit together.

    `asked` is the class that was asked to load it.
    """
    made_by = _maker(asked, card.kind)
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
    _check_indices(arrays["ratings"], sizes)
    model._predictor = model._load_state_dict(state, scale, _side_from(of_users), _side_from(of_items))
    if (model._predictor.known.rows, model._predictor.known.columns) != sizes:
        raise ValueError("there is another number of users and items than the ratings have")
    beside = None
    if own := _under(BESIDE, lists):
        _check_indices(own, sizes)
        of_beside = known_from(own, *sizes, None if rows is None else all_columns(rows, BESIDE))
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
        return algorithm(kind)
    except SettingsError as error:
        raise ModelFileError(f"{error}; load a model of your own class with that class") from None


def _check_indices(ratings: Arrays, sizes: tuple[int, int]) -> None:
    """ValueError where ratings lead out of arrays: compiled loops go by them, and the author may be a stranger."""
    ends, indices, (rows, columns) = ratings["indptr"], ratings["indices"], ratings["shape"].tolist()
    entries = len(indices) == len(ratings["values"]) == ends[-1] and len(ends) == rows + 1 and ends[0] == 0
    if not entries or (np.diff(ends) < 0).any() or max(rows, columns) > max(sizes):
        raise ValueError("the ratings have no consistent length")
    if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
        raise ValueError("a rating is of a user or an item that does not exist")
    later = [ratings[f"{when}.{side}"] for when in ("later", "removed") for side in ("rows", "columns")]
    if any(len(one) and not 0 <= one.min() <= one.max() < max(sizes) for one in later):
        raise ValueError("a later rating is of a user or an item that does not exist")


def all_columns(rows: Arrays, prefix: str = "") -> AllColumns:
    """What part of a model keeps of the ratings of all columns."""
    return AllColumns(rows[f"{prefix}counts"], float(rows[f"{prefix}spread"][0]))


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _side_from(arrays: Arrays) -> SideFeatures | None:
    """The vectors of one side, from their arrays; None where there are none."""
    if not arrays:
        return None
    features = SideFeatures(arrays["trained"], arrays["described"])
    for index, vector in zip(arrays["later.indices"].tolist(), arrays["later.values"], strict=True):
        features.describe(index, vector)
    return features


# Reading


def read_model(folder: Path, asked: type[Model], part: int | None = None) -> Model:
    """The model of a folder; whatever is missing, altered or from a newer version is refused with a reason.

    With `part`, of one shard of it alone; files of others are not even looked at.
    """
    card = read_card(folder)
    try:
        return _read(folder, card, asked, part)
    except ModelFileError:
        newer = read_card(folder)
        if newer.sha256 == card.sha256:
            raise
        return _read(folder, newer, asked, part)  # replaced while it was read


def _read(folder: Path, card: Card, asked: type[Model], number: int | None) -> Model:
    part = None if number is None else part_of(folder, card, number)
    shards = card.shards if part is None else [card.shards[part.number]]
    shared = {kind: file for kind, file in card.files.items() if kind != "rows" or part is not None}
    verify(folder, [file for files in (shared, *(shard.files for shard in shards)) for file in files.values()])
    try:
        arrays = {kind: mapped(_path(folder, file)) for kind, file in shared.items() if kind not in _TABLES}
        for kind in [kind for kind in (shards[0].files if shards else ()) if kind not in _TABLES]:
            # One kind after the other: every mapped file is an open one, of which a process may have a thousand.
            arrays[kind] |= _joined([mapped(_path(folder, shard.files[kind])) for shard in shards])
        columns = sum(shard.columns for shard in shards)
        for own, prefix in ((arrays["ratings"], ""), (arrays["lists"], BESIDE)):
            if shards and (not prefix or card.columns == "users") and f"{prefix}shape" in own:
                own[f"{prefix}shape"] = np.array([columns, own[f"{prefix}shape"][1]], np.int64)
        model = put_together(asked, card, arrays, _tables(folder, card, shards))
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
    verify(folder, [file for own in files for kind, file in own.items() if kind in _TABLES])
    return _tables(folder, card, card.shards)


def _tables(folder: Path, card: Card, shards: Sequence[ShardCard]) -> dict[str, pl.DataFrame]:
    """Users, items and attributes. The ids of columns are in the shards, and those that came later after them."""
    own = [*(shard.files for shard in shards), card.files]
    files = {kind: [some[kind] for some in own if kind in some] for kind in _TABLES}
    paths = {kind: [_path(folder, file) for file in found] for kind, found in files.items() if found}
    return {kind: pl.concat(pl.read_parquet(path, glob=False) for path in found) for kind, found in paths.items()}


def ids_in(frame: pl.DataFrame) -> Vocabulary:
    """The vocabulary that a file of ids has."""
    return Vocabulary.restored(frame["id"], frame["integer"] if "integer" in frame.columns else None)


def verify(folder: Path, files: Sequence[FileCard]) -> None:
    """Read files to the end; ModelFileError names the first that is not as it was written."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(partial(_verify, folder), files))


def _verify(folder: Path, file: FileCard) -> None:
    path = _path(folder, file)
    try:
        size = path.stat().st_size
        if size != file.bytes:
            raise ModelFileError(
                f"{path}: truncated or altered, {size} bytes where {file.bytes} were written; {_AGAIN}"
            )
        if sha256_of(path) != file.sha256:
            raise ModelFileError(f"{path}: altered since it was written; {_AGAIN}")
    except FileNotFoundError:
        raise ModelFileError(f"{path}: missing; copy the whole folder, or train the model again") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None


def _path(folder: Path, file: FileCard) -> Path:
    if Path(file.name).name != file.name:
        raise ModelFileError(f"{folder / CARD_NAME}: altered, it names a file elsewhere; {_AGAIN}")
    return folder / file.name


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mapped(path: Path) -> Arrays:
    """The arrays of a safetensors file, in memory that is shared until it is written to (copy-on-write)."""
    try:
        whole = np.memmap(path, np.uint8, "c").view(np.ndarray)
        start = 8 + int.from_bytes(whole[:8], "little")
        data, header = whole[start:], json_of(whole[8:start].tobytes())
        return {
            name: data[slice(*about["data_offsets"])].view(_DTYPES[about["dtype"]]).reshape(about["shape"])
            for name, about in header.items()
            if name != "__metadata__"
        }
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{path}: not a safetensors file ({error}); {_AGAIN}") from None


# Copying


def copy_model(source: Path, folder: Path) -> None:
    """Put the model of one folder into another, in one piece, as hard links where the disk has them."""
    card = read_card(source)
    make_folder(folder)
    for file in card.all_files():
        try:
            _link(_path(source, file), folder / file.name)
        except FileNotFoundError:
            raise ModelFileError(f"{source}: was replaced while it was copied; try again") from None
        except OSError as error:
            raise ModelFileError(explain_write_failure(folder / file.name, error)) from None
    with replacing(folder / CARD_NAME, ModelFileError) as draft:
        shutil.copy2(source / CARD_NAME, draft)
    remove_leftovers(folder, card)


def _link(source: Path, target: Path) -> None:
    """Files are named after their content: one that is there already is the same."""
    if target.exists():
        return
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or one without links
        with replacing(target, ModelFileError) as draft:
            shutil.copyfile(source, draft)


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
