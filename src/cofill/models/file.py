"""A model on disk: a folder with weights and ratings as safetensors, ids as Parquet, and a JSON that people can read.

    model.json                    what the model is: settings, data, history, measures, and the files that belong to it
    weights-<hash>.safetensors    what was learned: the network and what fold-in needs, or the factors of a rival
    ratings-<hash>.safetensors    the ratings it was trained on, and those added later
    lists-<hash>.safetensors      the list scorer
    features-<hash>.safetensors   side features and what was learned about their columns, where there are any
    users-<hash>.parquet          ids, in the order of their indices
    items-<hash>.parquet          ids and titles
    attributes-<hash>.parquet     what items are in words, in columns called kind:name, where anything is known
    map-<hash>.safetensors        where the most rated items lie in two dimensions, where that was drawn

A model in shards (`shards.py`) has some of these once for each shard, a range of the network's columns: their weights,
ratings, features and ids. All others are shared by the shards, and one more:

    rows-<hash>.safetensors       the rows as all columns read them, for whoever reads a part of the model

The other files are named after their content, and model.json takes its place last: whoever reads the folder sees
the old model or the new one, never a mixture, whenever the writer was stopped. Nothing is ever unpickled.
"""

import hashlib
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
import safetensors
import safetensors.numpy

from cofill import __version__
from cofill.data.ratings import Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import CofillError, ModelFileError
from cofill.files import DRAFTS_OF_SAFETENSORS, explain_write_failure, replacing
from cofill.interrupts import unfinished
from cofill.models.card import CARD_NAME, FORMAT_VERSION, Card, FileCard, PartInfo, ShardCard, Sides, part_of, read_card

FILE_KINDS = ("weights", "ratings", "lists", "features", "users", "items", "attributes", "rows", "map")
"""What the files of a model's folder are called, beside its card; a model has some of them."""

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


@dataclass(frozen=True)
class Contents:
    """What a model's folder holds: a fitted model taken apart."""

    kind: str
    settings: Mapping[str, Any]
    scale: Scale
    data: Mapping[str, Any]
    measures: Mapping[str, float | int | None]
    history: Sequence[Mapping[str, Any]]
    trained: datetime | None
    learned: Mapping[str, dict[str, Any]]  # about the columns of features of "users" and "items", ready for JSON
    arrays: Mapping[str, Arrays]  # one file each: "weights", "ratings", "lists", "features", "map"
    users: Vocabulary
    items: Vocabulary
    titles: Mapping[Id, str]
    attributes: pl.DataFrame | None  # what items are in words; older models have none
    numbers: Mapping[str, float]  # of a network
    format_version: int = FORMAT_VERSION
    by_column: bool = False
    """Whether the ratings are column by column, as shards have them; otherwise row by row."""
    part: PartInfo | None = None
    """Which part of a model this is, with all rows and some columns: "rows" has what all columns say of the rows."""


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


def write_model(folder: Path, contents: Contents) -> None:
    """Write a model into a folder, in one piece."""
    make_folder(folder)
    try:
        files = write_arrays(folder, contents.arrays)
        files["users"] = write_ids(folder, "users", contents.users.ids, contents)
        files["items"] = write_ids(folder, "items", contents.items.ids, contents)
        files |= write_attributes(folder, contents)
        write_card(folder, Card(**said_of(contents), files=files, sha256=""))
    except BaseException:
        with suppress(ModelFileError):  # of another card
            before = _files_of(read_card(folder)) if (folder / CARD_NAME).exists() else []
            _remove_leftovers(folder, {file.name for file in before})
        raise


def make_folder(folder: Path) -> None:
    """Make the folder of a model, if it is not there yet."""
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder}: a model is a folder, but there is a file of that name; choose another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(f"{folder}: cannot be made: {error.strerror}; choose another place") from None


def write_arrays(folder: Path, arrays: Mapping[str, Arrays]) -> dict[str, FileCard]:
    """Write arrays, one file for each kind."""
    return {kind: _write(folder, kind, ".safetensors", partial(_save_arrays, own)) for kind, own in arrays.items()}


def write_ids(folder: Path, side: Sides, ids: Sequence[Id], contents: Contents) -> FileCard:
    """Write ids of users or items; of the latter also the titles."""
    vocabulary = contents.users if side == "users" else contents.items
    frame = _ids_frame(ids, vocabulary)
    if side == "items":
        titles = [contents.titles.get(item) for item in ids]
        frame = frame.with_columns(title=pl.Series(titles, dtype=pl.String))
    return _write(folder, side, ".parquet", frame.write_parquet)


def write_attributes(folder: Path, contents: Contents) -> dict[str, FileCard]:
    """Write what items are in words, if anything is known of that."""
    if contents.attributes is None or not contents.attributes.width:
        return {}
    return {"attributes": _write(folder, "attributes", ".parquet", contents.attributes.write_parquet)}


def said_of(contents: Contents) -> dict[str, Any]:
    """What a card says of a model, apart from its files."""
    numbers: dict[str, Any] = {name: one for name, one in contents.numbers.items() if name in Card.model_fields}
    if of_two := {name: one for name, one in contents.numbers.items() if name not in Card.model_fields}:
        numbers["networks"] = of_two
    return {
        "format": "cofill-model",
        "format_version": contents.format_version,
        "cofill_version": __version__,
        "kind": contents.kind,
        "settings": dict(contents.settings),
        "scale": (contents.scale.low, contents.scale.high),
        **numbers,
        "data": dict(contents.data),
        "measures": dict(contents.measures),
        "history": [dict(record) for record in contents.history],
        "features": dict(contents.learned),
        **({} if contents.trained is None else {"trained": contents.trained}),
    }


def write_card(folder: Path, card: Card) -> None:
    """The last step: from here on the folder holds this model, and no longer the files of another."""
    card.sha256 = card.digest()
    with replacing(folder / CARD_NAME, ModelFileError) as draft:
        draft.write_text(card.model_dump_json(indent=2, exclude_unset=True) + "\n", encoding="utf-8")
    _remove_leftovers(folder, {file.name for file in _files_of(card)})


def copy_model(source: Path, folder: Path) -> None:
    """Put the model of one folder into another, in one piece, as hard links where the disk has them."""
    card = read_card(source)
    make_folder(folder)
    before = read_card(folder) if (folder / CARD_NAME).exists() else None
    for file in _files_of(card):
        if Path(file.name).name != file.name:
            raise ModelFileError(f"{source / CARD_NAME}: altered, it names a file elsewhere; copy or train it again")
        try:
            _link(source / file.name, folder / file.name)
        except FileNotFoundError:
            raise ModelFileError(f"{source}: was replaced while it was copied; try again") from None
        except OSError as error:
            raise ModelFileError(explain_write_failure(folder / file.name, error)) from None
    with replacing(folder / CARD_NAME, ModelFileError) as draft:
        draft.write_bytes((source / CARD_NAME).read_bytes())
        shutil.copystat(source / CARD_NAME, draft)
    for file in () if before is None else _files_of(before):
        if file.name not in {kept.name for kept in _files_of(card)} and Path(file.name).name == file.name:
            (folder / file.name).unlink(missing_ok=True)


def _files_of(card: Card) -> list[FileCard]:
    return [file for files in (card.files, *(shard.files for shard in card.shards)) for file in files.values()]


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


Model = TypeVar("Model")


def read_model(folder: Path, build: Callable[[Contents], Model], part: int | None = None) -> Model:
    """What `build` makes of a folder; whatever is missing, altered or from a newer version is refused with a reason.

    With `part`, of one shard of it alone; files of others are not even looked at.
    """
    card = read_card(folder)
    try:
        return _built(folder, card, build, part)
    except ModelFileError:
        newer = read_card(folder)
        if newer.sha256 == card.sha256:
            raise
        return _built(folder, newer, build, part)  # replaced while it was read


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
    attributes = load_frame(checked(folder, card.files, "attributes")) if "attributes" in card.files else None
    people = [pl.scan_parquet(path, glob=False) for path in _tables_of(folder, card, "users")]
    items = pl.concat([load_frame(path) for path in _tables_of(folder, card, "items")])
    return Outline(
        digest=card.sha256,
        kind=card.kind,
        rated=bool(card.data.get("rated", True)),
        scale=Scale(*card.scale),
        users=sum(int(some.select(pl.len()).collect().item()) for some in people),
        users_are_integers=people[0].collect_schema()["id"] == pl.Int64,
        items=ids_in(items),
        attributes=attributes,
        parts=[shard.columns for shard in card.shards] if card.columns == "users" and not card.changed else [],
    )


def read_people(folder: Path) -> Vocabulary:
    """The ids of all people of the model in a folder."""
    return ids_in(pl.concat([load_frame(path) for path in _tables_of(folder, read_card(folder), "users")]))


def _tables_of(folder: Path, card: Card, kind: Sides) -> list[Path]:
    """The files of ids, in the order of their indices: those of columns are in the shards, later ones after them."""
    of_shards = [checked(folder, shard.files, kind) for shard in card.shards] if card.columns == kind else []
    return of_shards + ([checked(folder, card.files, kind)] if kind in card.files or not of_shards else [])


def _built(folder: Path, card: Card, build: Callable[[Contents], Model], number: int | None) -> Model:
    part = None if number is None else part_of(folder, card, number)
    shards = card.shards if part is None else [card.shards[part.number]]
    kinds = ["weights", "ratings"]
    kinds += ["features"] if card.features else []
    kinds += ["lists"] if card.format_version > 5 else []
    kinds += ["rows"] if part is not None else []
    kinds += ["map"] if "map" in card.files else []
    arrays = {kind: _load_arrays(checked(folder, card.files, kind)) for kind in kinds}
    # The ids of columns are in the shards, apart from those that came after the training.
    always = {"users", "items"} - {card.columns}
    tables = [kind for kind in ("users", "items", "attributes") if kind in always or kind in card.files]
    frames: dict[str, list[pl.DataFrame]] = {kind: [load_frame(checked(folder, card.files, kind))] for kind in tables}
    if card.columns is not None:
        of_shards = [load_frame(checked(folder, shard.files, card.columns)) for shard in shards]
        frames[card.columns] = of_shards + frames.get(card.columns, [])
    pieces = [
        {kind: _load_arrays(checked(folder, shard.files, kind)) for kind in _kinds_of_arrays(shard)} for shard in shards
    ]
    try:
        if pieces:
            _join(arrays, pieces, shards)
        together = {kind: pl.concat(parts) for kind, parts in frames.items()}
        return build(_contents(card, arrays, together, part))
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    except (CofillError, LookupError, ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError,
            pl.exceptions.PolarsError) as error:  # fmt: skip
        raise ModelFileError(
            f"{folder}: the parts of this model do not fit together ({error}); train it again"
        ) from error


def _kinds_of_arrays(shard: ShardCard) -> list[str]:
    return ["weights", "ratings", *(kind for kind in ("features", "lists") if kind in shard.files)]


def _join(arrays: dict[str, Arrays], pieces: list[dict[str, Arrays]], shards: Sequence[ShardCard]) -> None:
    """Add what shards have, one after the other, to the arrays that they share; ValueError where they do not fit."""
    for shard, own in zip(shards, pieces, strict=True):
        ends = own["ratings"]["indptr"]
        if len(ends) != shard.columns + 1 or ends[0] or not ends[-1] == len(own["ratings"]["indices"]) == shard.ratings:
            raise ValueError(f"the shard from column {shard.first} on has other ratings than its card says")
        for name, array in own["weights"].items():
            if len(array) not in (shard.columns, shard.ratings):
                raise ValueError(f"{name} of the shard from column {shard.first} on is not of {shard.columns} columns")
    cut = {kind: list(own) for kind, own in pieces[0].items()}
    for kind, names in cut.items():
        for name in names:
            found = [own[kind].pop(name) for own in pieces]  # taken out, so that no more than one is there twice
            if len({array.dtype for array in found}) > 1:
                raise ValueError(f"{name} is of another type in another shard")
            arrays[kind][name] = _one_after_another(found, ends=name.endswith("indptr"))
        if any(own[kind] for own in pieces):
            raise ValueError(f"the {kind} of the shards are not the same arrays")
    columns = sum(shard.columns for shard in shards)
    arrays["ratings"]["shape"] = np.array([columns, arrays["ratings"]["shape"][1]], np.int64)
    if "beside.indptr" in cut.get("lists", ()):
        arrays["lists"]["beside.shape"] = np.array([columns, arrays["lists"]["beside.shape"][1]], np.int64)


def _one_after_another(found: list[np.ndarray[Any, Any]], *, ends: bool) -> np.ndarray[Any, Any]:
    """`ends`: of rows in a sparse matrix, which go on where those of the shard before end."""
    if len(found) == 1:
        return found[0]
    if not ends:
        return np.concatenate(found)
    offsets = np.cumsum([0, *(array[-1] for array in found[:-1])])
    return np.concatenate([found[0][:1], *(array[1:] + offset for array, offset in zip(found, offsets, strict=True))])


def _contents(
    card: Card, arrays: dict[str, Arrays], frames: dict[str, pl.DataFrame], part: PartInfo | None
) -> Contents:
    if not card.scale[0] < card.scale[1]:
        raise ValueError(f"the scale from {card.scale[0]:g} to {card.scale[1]:g} is none")
    for own in arrays.values():
        for name, array in own.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name} has a number that is none")
    users, items = frames["users"], frames["items"]
    numbers = {
        "overall_mean": card.overall_mean,
        "typical_length": card.typical_length,
        "mean_damping": card.mean_damping,
        "unit": card.unit,
    }
    return Contents(
        kind=card.kind,
        settings=card.settings,
        scale=Scale(*card.scale),
        data=card.data,
        measures=card.measures,
        history=card.history,
        trained=card.trained,
        learned=card.features,
        arrays=arrays,
        users=ids_in(users),
        items=(known := ids_in(items)),
        titles={item: title for item, title in zip(known, items["title"], strict=True) if title is not None},
        attributes=frames.get("attributes"),
        numbers={name: value for name, value in numbers.items() if value is not None} | card.networks,
        format_version=card.format_version,
        by_column=bool(card.shards),
        part=part,
    )


def checked(folder: Path, files: Mapping[str, FileCard], kind: str) -> Path:
    """The path of one of the model's files, after its size and checksum were found right."""
    file = files.get(kind)
    if file is None or Path(file.name).name != file.name:
        raise ModelFileError(
            f"{folder / CARD_NAME}: altered, it names no valid {kind} file; copy or train the model again"
        )
    path = folder / file.name
    try:
        size = path.stat().st_size
        if size != file.bytes:
            raise ModelFileError(
                f"{path}: truncated or altered, {size} bytes where {file.bytes} were written; "
                f"copy or train the model again"
            )
        if _sha256(path) != file.sha256:
            raise ModelFileError(f"{path}: altered since it was written; copy or train the model again")
    except FileNotFoundError:
        raise ModelFileError(f"{path}: missing; copy the whole folder, or train the model again") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    return path


def _write(folder: Path, kind: str, suffix: str, write: Any) -> FileCard:
    """Write a file under the name of its content; one that is there already is left alone."""
    # Not the number of the process: those of several machines may write into one folder.
    draft = folder / f".{kind}.{secrets.token_hex(8)}{suffix}"
    with unfinished(draft):
        with replacing(draft, ModelFileError) as part:
            write(part)
        digest = _sha256(draft)
        target = draft.with_name(f"{kind}-{digest[:12]}{suffix}")
        draft.replace(target)
    return FileCard(name=target.name, bytes=target.stat().st_size, sha256=digest)


def _remove_leftovers(folder: Path, current: set[str]) -> None:
    """Files of the model that was here before, and drafts of writers that were stopped."""
    for kind in FILE_KINDS:
        for path in [*folder.glob(f"{kind}-????????????.*"), *folder.glob(f".{kind}.*")]:
            if path.name not in current:
                path.unlink(missing_ok=True)
        for path in folder.glob(f"..{kind}.*.part"):
            path.unlink(missing_ok=True)
    for path in [*folder.glob(f".{CARD_NAME}.*.part"), *folder.glob(DRAFTS_OF_SAFETENSORS)]:
        path.unlink(missing_ok=True)


def _save_arrays(arrays: Arrays, path: Path) -> None:
    safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def _load_arrays(path: Path) -> Arrays:
    try:
        return safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, ValueError) as error:
        raise ModelFileError(f"{path}: not a safetensors file ({error}); copy or train the model again") from None


def load_frame(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ModelFileError(f"{path}: not a Parquet file ({error}); copy or train the model again") from None


def _ids_frame(ids: Sequence[Id], of: Vocabulary) -> pl.DataFrame:
    """Some ids of a vocabulary; where strings have joined integers, which are which stands beside them."""
    if not of.mixed:
        return pl.DataFrame({"id": pl.Series(ids, dtype=pl.Int64 if of.integers else pl.String)})
    integers = pl.Series([isinstance(id, int) for id in ids], dtype=pl.Boolean)
    return pl.DataFrame({"id": pl.Series([str(id) for id in ids], dtype=pl.String), "integer": integers})


def ids_in(frame: pl.DataFrame) -> Vocabulary:
    """The vocabulary that `write_ids` wrote."""
    return Vocabulary.restored(frame["id"], frame["integer"] if "integer" in frame.columns else None)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
