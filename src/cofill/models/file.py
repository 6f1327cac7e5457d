"""A model on disk: a folder with weights and ratings as safetensors, ids as Parquet, and a JSON that people can read.

    model.json                    what the model is: settings, data, history, measures, and the files that belong to it
    weights-<hash>.safetensors    what was learned: the network and what fold-in needs, or the factors of a rival
    ratings-<hash>.safetensors    the ratings it was trained on, and those added later
    lists-<hash>.safetensors      the list scorer
    features-<hash>.safetensors   side features and what was learned about their columns, where there are any
    users-<hash>.parquet          ids, in the order of their indices
    items-<hash>.parquet          ids and titles
    attributes-<hash>.parquet     what items are in words, in columns called kind:name, where anything is known

The other files are named after their content, and model.json takes its place last: whoever reads the folder sees
the old model or the new one, never a mixture, whenever the writer was stopped. Nothing is ever unpickled.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
import safetensors
import safetensors.numpy
from pydantic import BaseModel, ConfigDict, ValidationError

from cofill import __version__
from cofill.data.ratings import Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import CofillError, ModelFileError
from cofill.files import replacing

# 1 knew no features, 2 no presence, 3 no mark of empty rows, 4 no length_cap, 5 no list scorer, 6 no learned damping
FORMAT_VERSION = 7
_CARD = "model.json"
FILE_KINDS = ("weights", "ratings", "lists", "features", "users", "items", "attributes")
"""What the files of a model's folder are called, beside its card; a model has some of them."""

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    bytes: int
    sha256: str


class _Card(BaseModel):
    """model.json"""

    model_config = ConfigDict(extra="forbid")

    format: str
    format_version: int
    cofill_version: str
    kind: str
    settings: dict[str, Any]
    scale: tuple[float, float]
    overall_mean: float | None = None  # of a network
    typical_length: float | None = None
    mean_damping: float | None = None
    unit: float | None = None
    networks: dict[str, float] = {}  # the same of two networks, such as item.unit
    data: dict[str, Any]
    measures: dict[str, float | int | None]
    history: list[dict[str, Any]]
    features: dict[str, dict[str, Any]] = {}  # what was learned about those of "users" and "items"
    files: dict[str, _File]
    sha256: str  # of this document without this field

    def digest(self) -> str:
        # Fields that an older version did not write are not part of what it signed.
        text = json.dumps(self.model_dump(mode="json", exclude={"sha256"}, exclude_unset=True), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Contents:
    """What a model's folder holds: a fitted model taken apart."""

    kind: str
    settings: Mapping[str, Any]
    scale: Scale
    data: Mapping[str, Any]
    measures: Mapping[str, float | int | None]
    history: Sequence[Mapping[str, Any]]
    learned: Mapping[str, dict[str, Any]]  # about the columns of features of "users" and "items", ready for JSON
    arrays: Mapping[str, Arrays]  # one file each: "weights", "ratings", "lists", "features"
    users: Vocabulary
    items: Vocabulary
    titles: Mapping[Id, str]
    attributes: pl.DataFrame | None  # what items are in words; older models have none
    numbers: Mapping[str, float]  # of a network
    format_version: int = FORMAT_VERSION


def write_model(folder: Path, contents: Contents) -> None:
    """Write a model into a folder."""
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder}: a model is a folder, but there is a file of that name; choose another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(f"{folder}: cannot be made: {error.strerror}; choose another place") from None
    titles = [contents.titles.get(item) for item in contents.items]
    files = {
        kind: _write(folder, kind, ".safetensors", partial(_save_arrays, arrays))
        for kind, arrays in contents.arrays.items()
    }
    files["users"] = _write(folder, "users", ".parquet", _ids_frame(contents.users).write_parquet)
    items = _ids_frame(contents.items).with_columns(title=pl.Series(titles, dtype=pl.String))
    files["items"] = _write(folder, "items", ".parquet", items.write_parquet)
    if contents.attributes is not None and contents.attributes.width:
        files["attributes"] = _write(folder, "attributes", ".parquet", contents.attributes.write_parquet)
    numbers: dict[str, Any] = {name: one for name, one in contents.numbers.items() if name in _Card.model_fields}
    if of_two := {name: one for name, one in contents.numbers.items() if name not in _Card.model_fields}:
        numbers["networks"] = of_two
    card = _Card(
        format="cofill-model",
        format_version=contents.format_version,
        cofill_version=__version__,
        kind=contents.kind,
        settings=dict(contents.settings),
        scale=(contents.scale.low, contents.scale.high),
        **numbers,
        data=dict(contents.data),
        measures=dict(contents.measures),
        history=[dict(record) for record in contents.history],
        features=dict(contents.learned),
        files=files,
        sha256="",
    )
    card.sha256 = card.digest()
    with replacing(folder / _CARD, ModelFileError) as draft:
        draft.write_text(card.model_dump_json(indent=2, exclude_unset=True) + "\n", encoding="utf-8")
    _remove_leftovers(folder, {file.name for file in files.values()})


Model = TypeVar("Model")


def read_model(folder: Path, build: Callable[[Contents], Model]) -> Model:
    """What `build` makes of a folder; whatever is missing, altered or from a newer version is refused with a reason."""
    card = _read_card(folder)
    try:
        return _built(folder, card, build)
    except ModelFileError:
        newer = _read_card(folder)
        if newer.sha256 == card.sha256:
            raise
        return _built(folder, newer, build)  # replaced while it was read


def _built(folder: Path, card: _Card, build: Callable[[Contents], Model]) -> Model:
    kinds = ["weights", "ratings"]
    kinds += ["features"] if card.features else []
    kinds += ["lists"] if card.format_version > 5 else []
    arrays = {kind: _load_arrays(_checked(folder, card, kind)) for kind in kinds}
    tables = ("users", "items", "attributes") if "attributes" in card.files else ("users", "items")
    frames = {kind: _load_frame(_checked(folder, card, kind)) for kind in tables}
    try:
        return build(_contents(card, arrays, frames))
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    except (CofillError, LookupError, ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError,
            pl.exceptions.PolarsError) as error:  # fmt: skip
        raise ModelFileError(
            f"{folder}: the parts of this model do not fit together ({error}); train it again"
        ) from error


def _contents(card: _Card, arrays: dict[str, Arrays], frames: dict[str, pl.DataFrame]) -> Contents:
    if not card.scale[0] < card.scale[1]:
        raise ValueError(f"the scale from {card.scale[0]:g} to {card.scale[1]:g} is none")
    for part in arrays.values():
        for name, array in part.items():
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
        learned=card.features,
        arrays=arrays,
        users=Vocabulary(users["id"].to_list()),
        items=Vocabulary(items["id"].to_list()),
        titles={item: title for item, title in zip(items["id"], items["title"], strict=True) if title is not None},
        attributes=frames.get("attributes"),
        numbers={name: value for name, value in numbers.items() if value is not None} | card.networks,
        format_version=card.format_version,
    )


def _read_card(folder: Path) -> _Card:
    path = folder / _CARD
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(f"{folder}: not a model, there is no {_CARD} in it; check the path") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ModelFileError(
            f"{path}: truncated or altered, it is not JSON ({error}); copy or train the model again"
        ) from None
    if not isinstance(document, dict) or document.get("format") != "cofill-model":
        raise ModelFileError(f"{path}: not the description of a cofill model; check the path")
    version = document.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: the model has format {version}, this cofill {__version__} reads up to {FORMAT_VERSION}; "
            f"upgrade cofill (the model was written by {document.get('cofill_version')})"
        )
    try:
        card = _Card.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ModelFileError(f"{path}: altered, {where}: {first['msg']}; copy or train the model again") from None
    if card.sha256 != card.digest():
        raise ModelFileError(f"{path}: altered since it was written; copy or train the model again")
    return card


def _checked(folder: Path, card: _Card, kind: str) -> Path:
    """The path of one of the model's files, after its size and checksum were found right."""
    file = card.files.get(kind)
    if file is None or Path(file.name).name != file.name:
        raise ModelFileError(f"{folder / _CARD}: altered, it names no valid {kind} file; copy or train the model again")
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


def _write(folder: Path, kind: str, suffix: str, write: Any) -> _File:
    """Write a file under the name of its content; one that is there already is left alone."""
    draft = folder / f".{kind}.{os.getpid()}{suffix}"
    with replacing(draft, ModelFileError) as part:
        write(part)
    digest = _sha256(draft)
    target = draft.with_name(f"{kind}-{digest[:12]}{suffix}")
    draft.replace(target)
    return _File(name=target.name, bytes=target.stat().st_size, sha256=digest)


def _remove_leftovers(folder: Path, current: set[str]) -> None:
    """Files of the model that was here before, and drafts of writers that were stopped."""
    for kind in FILE_KINDS:
        for path in [*folder.glob(f"{kind}-????????????.*"), *folder.glob(f".{kind}.*")]:
            if path.name not in current:
                path.unlink(missing_ok=True)
        for path in folder.glob(f"..{kind}.*.part"):
            path.unlink(missing_ok=True)
    for path in folder.glob(f".{_CARD}.*.part"):
        path.unlink(missing_ok=True)


def _save_arrays(arrays: Arrays, path: Path) -> None:
    safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def _load_arrays(path: Path) -> Arrays:
    try:
        return safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, ValueError) as error:
        raise ModelFileError(f"{path}: not a safetensors file ({error}); copy or train the model again") from None


def _load_frame(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ModelFileError(f"{path}: not a Parquet file ({error}); copy or train the model again") from None


def _ids_frame(vocabulary: Vocabulary) -> pl.DataFrame:
    return pl.DataFrame({"id": pl.Series(vocabulary.ids, dtype=pl.Int64 if vocabulary.integers else pl.String)})


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
