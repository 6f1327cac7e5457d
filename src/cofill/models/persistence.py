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

    rows-<hash>.safetensors       the rows as all columns read them, for whoever reads a part of the model

Files are named after their content, and model.json takes its place last: whoever reads the folder sees the old model
or the new one, never a mixture, whenever the writer was stopped. Nothing is ever unpickled.

Every file is read once when a model is loaded, as a stream, to compare its SHA-256; files side by side on all cores.
That is always done: a remembered check would have to be stored beside the model, could not see a disk that goes bad,
and saves little, for hashing is as fast as a disk. Arrays are then mapped, not read (copy-on-write): processes that
serve the same model share its memory, and what a process never asks for takes none.
"""

import hashlib
import json
import mmap
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import safetensors.numpy
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cofill import __version__
from cofill.data.attributes import Attributes
from cofill.data.described import SideFeatures
from cofill.data.features import Features
from cofill.data.ratings import Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import CofillError, ModelFileError, SettingsError
from cofill.files import DRAFTS_OF_SAFETENSORS, explain_write_failure, json_of, replacing
from cofill.interrupts import unfinished
from cofill.models import algorithm
from cofill.models.lists.feedback import GradedRatings
from cofill.models.observed import AllColumns, known_from
from cofill.models.results import EpochRecord, ItemPlaces

FORMAT_VERSION = 1
CARD_NAME = "model.json"
FILE_KINDS = ("weights", "ratings", "lists", "features", "users", "items", "attributes", "rows", "map")
"""What the files of a model's folder are called, beside its card; a model has some of them."""
Sides = Literal["users", "items"]
Arrays = dict[str, npt.NDArray[Any]]
Model = Any
"""A `Recommender`, whose module imports this one."""

_TABLES = ("users", "items", "attributes")
_AGAIN = "copy or train the model again"
_DTYPES: dict[str, Any] = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "BOOL": np.bool_},
    **{f"{sign}{bits}": np.dtype(f"{sign.lower()}{bits // 8}") for sign in "IU" for bits in (8, 16, 32, 64)},
}  # of safetensors
_OF_NETWORKS = "networks"  # in the settings of a model file
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

    run: str  # what wrote it: shards of two runs do not become one model
    first: int = Field(ge=0)  # of its columns, among those of all shards
    columns: int = Field(ge=0)
    ratings: int = Field(ge=0)
    files: dict[str, FileCard]


class SharedCard(BaseModel):
    """What model.json says of a model, apart from its shards."""

    model_config = ConfigDict(extra="forbid")

    format: str = "cofill-model"
    format_version: int = FORMAT_VERSION
    cofill_version: str = __version__
    kind: str
    settings: dict[str, Any]
    scale: tuple[float, float]
    numbers: dict[str, float]  # what was learned and is no array; of two networks with their names, as in item.unit
    data: dict[str, Any]
    measures: dict[str, float | int | None]
    history: list[dict[str, Any]]
    trained: datetime | None  # the end of the training
    features: dict[str, dict[str, Any]]  # what was learned about those of "users" and "items"
    columns: Sides | None = None  # what the shards are cut by
    ratings: int | None = None  # of the training, in all shards
    changed: bool = False  # whether there are ratings, features or ids that came after the training
    run: str = ""
    files: dict[str, FileCard] = {}


class Card(SharedCard):
    """model.json"""

    shards: list[ShardCard] = []
    sha256: str = ""  # of this document without this field and without the time: the same training is the same model

    def digest(self) -> str:
        signed = self.model_dump(mode="json", exclude={"sha256", "trained"})
        return hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()

    def all_files(self) -> list[FileCard]:
        return [file for files in (self.files, *(shard.files for shard in self.shards)) for file in files.values()]


class PartInfo(NamedTuple):
    """One part of a model in shards, which can be read alone."""

    number: int  # from 0
    parts: int  # how many there are
    first: int  # of its users, among those of the whole model
    users: int
    ratings: int
    bytes: int  # of the files that it alone has
    shared_bytes: int  # of those that every part has

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
    own, shared = (sum(file.bytes for file in some.files.values()) for some in (shard, card))
    return PartInfo(number, len(card.shards), shard.first, shard.columns, shard.ratings, own, shared)


# A model taken apart


class Kept(NamedTuple):
    """What a model file keeps of an algorithm, apart from settings, ids and features: arrays by file, and numbers."""

    weights: Arrays
    ratings: Arrays
    numbers: Mapping[str, float] = {}
    own_settings: Mapping[str, Mapping[str, Any]] = {}
    """By part, where a model has several: settings that each has of its own, and the whole has not."""
    by_column: bool = False
    """Whether the ratings are column by column."""
    rows: Arrays | None = None
    """In part of a model: what all columns say of the rows."""


@dataclass(frozen=True)
class Contents:
    """What a model's folder holds: a fitted model taken apart, all of it or, of some columns, a part."""

    card: SharedCard  # its files aside
    arrays: dict[str, Arrays]  # by kind of file
    users: Vocabulary
    items: Vocabulary
    titles: Mapping[Id, str]
    attributes: pl.DataFrame | None  # what items are in words
    part: PartInfo | None = None


def contents_of(model: Model, kept: Kept | None = None) -> Contents:
    """What a folder keeps of a model, with what its algorithm keeps in one piece, or this."""
    kept = kept or model._kept()
    features: Arrays = {}
    learned_of = {"users": model.user_features, "items": model.item_features}
    for side, vectors in (("users", model.predictor.user_features), ("items", model.predictor.item_features)):
        learned = learned_of[side]
        if learned is not None:
            own = {name: array for name, array in learned.arrays().items() if name != "values"} | _side_arrays(vectors)
            features |= {f"{side}.{name}": array for name, array in own.items()}
    feedback, lists = model.scorer.feedback, model.scorer.arrays()
    if feedback.main.decay is not None:
        lists["decay"] = feedback.main.decay.trained.values
    if feedback.beside is not None:
        lists |= {f"{BESIDE}{name}": array for name, array in feedback.beside.arrays().items()}
    arrays = {"weights": kept.weights, "ratings": kept.ratings, "lists": lists}
    arrays |= {"features": features} if features else {}
    arrays |= {} if model.item_places is None else {"map": dict(model.item_places._asdict())}
    settings = model.settings.model_dump(mode="json")
    if kept.own_settings:
        taken = {name for part in kept.own_settings.values() for name in part}
        settings = {name: value for name, value in settings.items() if name not in taken}
        settings[_OF_NETWORKS] = kept.own_settings
    card = SharedCard(
        kind=model.kind,
        settings=settings,
        scale=(model.scale.low, model.scale.high),
        numbers=dict(kept.numbers),
        data=model.data_summary,
        measures=model.measures,
        history=[record.as_json() for record in model.history],
        trained=model.trained,
        features={side: learned.card() for side, learned in learned_of.items() if learned is not None},
    )
    return Contents(card, arrays, model.users, model.items, model.titles, model.item_attributes.frame())


def put_together(asked: type[Model], contents: Contents) -> Model:
    """The model of a folder, whole or in part; ValueError and the like where it does not fit together.

    `asked` is the class that was asked to load it.
    """
    card, arrays = contents.card, contents.arrays
    settings = dict(card.settings)
    own_settings = settings.pop(_OF_NETWORKS, {})
    made_by = _maker(asked, card.kind)
    model = made_by(made_by.settings_class.of(settings))
    model.part, model.trained = contents.part, card.trained
    model.users, model.items, model.titles = contents.users, contents.items, dict(contents.titles)
    known = contents.attributes
    model.item_attributes = Attributes(model.items) if known is None else Attributes.restored(model.items, known)
    model.history = [EpochRecord(**record) for record in card.history]
    model.measures, model.data_summary = dict(card.measures), dict(card.data)
    model.item_places = ItemPlaces(**arrays["map"]) if "map" in arrays else None
    features, rows, lists = arrays.get("features", {}), arrays.get("rows"), arrays["lists"]
    kept = Kept(arrays["weights"], arrays["ratings"], card.numbers, own_settings, card.columns is not None, rows)
    of_users, of_items = (_under(f"{side}.", features) for side in ("users", "items"))
    scale, sizes = Scale(*card.scale), (len(model.users), len(model.items))
    _check_indices(arrays["ratings"], sizes)
    model._predictor = model._restored(kept, scale, _side_from(of_users), _side_from(of_items))
    if (model._predictor.known.rows, model._predictor.known.columns) != sizes:
        raise ValueError("there is another number of users and items than the ratings have")
    beside = None
    if own := _under(BESIDE, lists):
        scale = Scale(*own["scale"].tolist())
        whole = None if rows is None else all_columns(rows, BESIDE)
        _check_indices(own, sizes)
        of_beside = known_from(own, *sizes, whole)
        grades = model._grades(scale, rated=not of_beside.trained.nnz)
        beside = GradedRatings.of(of_beside, grades, own.get("decay"))
    model._scorer = model._restored_scorer(lists, model._feedback(lists.get("decay"), beside))
    if "users" in card.features:
        model.user_features = _features_from(card.features["users"], of_users, model.users)
    if "items" in card.features:
        model.item_features = _features_from(card.features["items"], of_items, model.items)
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


def _side_arrays(features: SideFeatures) -> Arrays:
    """The vectors of one side; what is no longer described is NaN throughout."""
    indices, values = features.later()
    later = np.where(features.described[indices][:, None], values, np.float32(np.nan))
    trained, described = features.trained, features.trained_described
    return {"trained": trained, "described": described, "later.indices": indices, "later.values": later}


def _side_from(arrays: Arrays) -> SideFeatures | None:
    """The vectors of one side, from their arrays; None where there are none."""
    if not arrays:
        return None
    features = SideFeatures(arrays["trained"], arrays["described"])
    for index, vector in zip(arrays["later.indices"].tolist(), arrays["later.values"], strict=True):
        features.describe(index, vector)
    return features


def _features_from(card: dict[str, Any], arrays: Arrays, ids: Vocabulary) -> Features:
    """What was learned about the columns of one side, and the vectors that it was trained with."""
    described = np.flatnonzero(arrays["described"])
    return Features.restored(card, arrays | {"values": arrays["trained"][described]}, ids.only(described.tolist()))


# Writing


def write_model(folder: Path, contents: Contents) -> None:
    """Write a model into a folder, in one piece."""
    make_folder(folder)
    try:
        files = write_arrays(folder, contents.arrays) | write_attributes(folder, contents)
        files["users"] = write_ids(folder, "users", contents.users.ids, contents)
        files["items"] = write_ids(folder, "items", contents.items.ids, contents)
        write_card(folder, contents.card.model_copy(update={"files": files}), [])
    except BaseException:
        with suppress(ModelFileError):  # of another card
            before = read_card(folder).all_files() if (folder / CARD_NAME).exists() else []
            _remove_leftovers(folder, {file.name for file in before})
        raise


def write_card(folder: Path, shared: SharedCard, shards: list[ShardCard]) -> None:
    """The last step: from here on the folder holds this model, and no longer the files of another."""
    card = Card(**dict(shared), shards=shards)
    card.sha256 = card.digest()
    with replacing(folder / CARD_NAME, ModelFileError) as draft:
        draft.write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")
    _remove_leftovers(folder, {file.name for file in card.all_files()})


def make_folder(folder: Path) -> None:
    """Make the folder of a model, if it is not there yet."""
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder}: a model is a folder, but there is a file of that name; choose another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(f"{folder}: cannot be made: {error.strerror}; choose another place") from None


def write_arrays(folder: Path, arrays: Mapping[str, Arrays]) -> dict[str, FileCard]:
    return {kind: _write(folder, kind, ".safetensors", partial(_save_arrays, own)) for kind, own in arrays.items()}


def _save_arrays(arrays: Arrays, path: Path) -> None:
    safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def write_ids(folder: Path, side: Sides, ids: Sequence[Id], contents: Contents) -> FileCard:
    """Ids of users or items; of the latter also the titles. Where strings have joined integers, which are which."""
    known = contents.users if side == "users" else contents.items
    if known.mixed:
        columns = [pl.Series("id", map(str, ids), dtype=pl.String)]
        columns.append(pl.Series("integer", [isinstance(id, int) for id in ids], dtype=pl.Boolean))
    else:
        columns = [pl.Series("id", ids, dtype=pl.Int64 if known.integers else pl.String)]
    if side == "items":
        columns.append(pl.Series("title", [contents.titles.get(item) for item in ids], dtype=pl.String))
    return _write(folder, side, ".parquet", pl.DataFrame(columns).write_parquet)


def write_attributes(folder: Path, contents: Contents) -> dict[str, FileCard]:
    if contents.attributes is None or not contents.attributes.width:
        return {}
    return {"attributes": _write(folder, "attributes", ".parquet", contents.attributes.write_parquet)}


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


def _remove_leftovers(folder: Path, current: set[str]) -> None:
    """Files of the model that was here before, and drafts of writers that were stopped."""
    drafts = [f".{CARD_NAME}.*.part", DRAFTS_OF_SAFETENSORS, *(f"..{kind}.*.part" for kind in FILE_KINDS)]
    files = [pattern for kind in FILE_KINDS for pattern in (f"{kind}-????????????.*", f".{kind}.*")]
    for path in [path for pattern in (*files, *drafts) for path in folder.glob(pattern)]:
        if path.name not in current:
            path.unlink(missing_ok=True)


def copy_model(source: Path, folder: Path) -> None:
    """Put the model of one folder into another, in one piece, as hard links where the disk has them."""
    card = read_card(source)
    make_folder(folder)
    before = read_card(folder).all_files() if (folder / CARD_NAME).exists() else []
    for file in card.all_files():
        try:
            _link(_path(source, file), folder / file.name)
        except FileNotFoundError:
            raise ModelFileError(f"{source}: was replaced while it was copied; try again") from None
        except OSError as error:
            raise ModelFileError(explain_write_failure(folder / file.name, error)) from None
    with replacing(folder / CARD_NAME, ModelFileError) as draft:
        draft.write_bytes((source / CARD_NAME).read_bytes())
        shutil.copystat(source / CARD_NAME, draft)
    kept = {file.name for file in card.all_files()}
    for file in before:
        if file.name not in kept:
            _path(folder, file).unlink(missing_ok=True)


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
        tables = _tables(folder, card, shards)
        items, titles = ids_in(tables["items"]), tables["items"]["title"]
        contents = Contents(
            card,
            arrays,
            users=ids_in(tables["users"]),
            items=items,
            titles={item: title for item, title in zip(items, titles, strict=True) if title is not None},
            attributes=tables.get("attributes"),
            part=part,
        )
        return put_together(asked, contents)
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


@dataclass(frozen=True)
class Outline:
    """What can be told of a model without loading it: all but what it learned, and who rated what."""

    digest: str
    """The same for the same model."""
    kind: str
    rated: bool
    scale: Scale
    users: int
    users_are_integers: bool
    items: Vocabulary
    attributes: pl.DataFrame | None
    parts: list[int]
    """How many users each part has that can be loaded alone; none where the model is loaded whole."""


def read_outline(folder: Path) -> Outline:
    """The outline of the model in a folder, checked as far as it goes."""
    card = read_card(folder)
    tables = _verified_tables(folder, card)
    return Outline(
        digest=card.sha256,
        kind=card.kind,
        rated=bool(card.data.get("rated", True)),
        scale=Scale(*card.scale),
        users=len(tables["users"]),
        users_are_integers=tables["users"]["id"].dtype == pl.Int64,
        items=ids_in(tables["items"]),
        attributes=tables.get("attributes"),
        parts=[shard.columns for shard in card.shards] if card.columns == "users" and not card.changed else [],
    )


def read_people(folder: Path) -> Vocabulary:
    """The ids of all users of the model in a folder."""
    return ids_in(_verified_tables(folder, read_card(folder))["users"])


def _verified_tables(folder: Path, card: Card) -> dict[str, pl.DataFrame]:
    files = [card.files, *(shard.files for shard in card.shards)]
    verify(folder, [file for own in files for kind, file in own.items() if kind in _TABLES])
    return _tables(folder, card, card.shards)


def _tables(folder: Path, card: Card, shards: Sequence[ShardCard]) -> dict[str, pl.DataFrame]:
    """Users, items and attributes. The ids of columns are in the shards, and those that came later after them."""
    own = [*(shard.files for shard in shards), card.files]
    files = {kind: [some[kind] for some in own if kind in some] for kind in _TABLES}
    frames = {kind: [load_frame(_path(folder, file)) for file in found] for kind, found in files.items()}
    return {kind: pl.concat(found) for kind, found in frames.items() if found}


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
        with path.open("rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        start = 8 + int.from_bytes(whole[:8], "little")
        data, header = np.frombuffer(whole, np.uint8)[start:], json_of(whole[8:start])
        return {
            name: data[slice(*about["data_offsets"])].view(_DTYPES[about["dtype"]]).reshape(about["shape"])
            for name, about in header.items()
            if name != "__metadata__"
        }
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ModelFileError(f"{path}: not a safetensors file ({error}); {_AGAIN}") from None


def load_frame(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ModelFileError(f"{path}: not a Parquet file ({error}); {_AGAIN}") from None
