"""A model on disk: a folder with weights and ratings as safetensors, ids as Parquet, and a JSON that people can read.

    model.json                    what the model is: settings, data, history, measures, and the files that belong to it
    weights-<hash>.safetensors    what was learned: the network and what fold-in needs, or the factors of a rival
    ratings-<hash>.safetensors    the ratings it was trained on, and those added later
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
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
import safetensors
import safetensors.numpy
from pydantic import BaseModel, ConfigDict, ValidationError

from cofill import __version__
from cofill.data.attributes import Attributes
from cofill.data.ratings import Scale
from cofill.data.vocabulary import Vocabulary
from cofill.errors import CofillError, ModelFileError, SettingsError
from cofill.files import replacing
from cofill.models import algorithm
from cofill.models.cfn.training import EpochRecord
from cofill.models.parts import FILE_KINDS, Arrays, Parts
from cofill.models.recommender import Recommender

_NO_CAP = 1e12
FORMAT_VERSION = 5  # 1 knew no features, 2 no presence, 3 no mark of empty rows, 4 no length_cap
_CARD = "model.json"


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


def save_model(model: Recommender, folder: Path) -> None:
    """Write a fitted model into a folder."""
    parts = model.taken_apart()
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder}: a model is a folder, but there is a file of that name; choose another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(f"{folder}: cannot be made: {error.strerror}; choose another place") from None
    titles = [model.titles.get(item) for item in model.items]
    files = {
        kind: _write(folder, kind, ".safetensors", partial(_save_arrays, arrays))
        for kind, arrays in parts.arrays.items()
    }
    files["users"] = _write(folder, "users", ".parquet", _ids_frame(model.users).write_parquet)
    items = _ids_frame(model.items).with_columns(title=pl.Series(titles, dtype=pl.String))
    files["items"] = _write(folder, "items", ".parquet", items.write_parquet)
    attributes = model.item_attributes.frame()
    if attributes.width:
        files["attributes"] = _write(folder, "attributes", ".parquet", attributes.write_parquet)
    card = _Card(
        format="cofill-model",
        format_version=FORMAT_VERSION,
        cofill_version=__version__,
        kind=model.kind,
        settings=model.settings.model_dump(mode="json"),
        scale=(parts.scale.low, parts.scale.high),
        **parts.numbers,
        data=model.data_summary,
        measures=model.measures,
        history=[record.as_json() for record in model.history],
        features=parts.learned,
        files=files,
        sha256="",
    )
    card.sha256 = card.digest()
    with replacing(folder / _CARD, ModelFileError) as draft:
        draft.write_text(card.model_dump_json(indent=2, exclude_unset=True) + "\n", encoding="utf-8")
    _remove_leftovers(folder, {file.name for file in files.values()})


Kind = TypeVar("Kind", bound=Recommender)


def load_model(folder: Path, wanted: type[Kind]) -> Kind:
    """A model from its folder; whatever is missing, altered or from a newer version is refused with a reason.

    `wanted` is the class that it must have; `Recommender` takes any.
    """
    model = _load(folder, wanted)
    if not isinstance(model, wanted):
        raise ModelFileError(
            f"{folder}: this is a model of the algorithm {model.kind!r}, not a {wanted.__name__}; "
            f"load it with {type(model).__name__}.load, or with Recommender.load"
        )
    return model


def _load(folder: Path, wanted: type[Recommender]) -> Recommender:
    card = _read_card(folder)
    try:
        return _load_as_described(folder, card, wanted)
    except ModelFileError:
        newer = _read_card(folder)
        if newer.sha256 == card.sha256:
            raise
        return _load_as_described(folder, newer, wanted)  # replaced while it was read


def _load_as_described(folder: Path, card: _Card, wanted: type[Recommender]) -> Recommender:
    made_by = _maker(folder, card, wanted)
    kinds = ("weights", "ratings", "features") if card.features else ("weights", "ratings")
    arrays = {kind: _load_arrays(_checked(folder, card, kind)) for kind in kinds}
    tables = ("users", "items", "attributes") if "attributes" in card.files else ("users", "items")
    frames = {kind: _load_frame(_checked(folder, card, kind)) for kind in tables}
    try:
        return _assemble(made_by, card, arrays, frames)
    except (CofillError, LookupError, ValueError, TypeError, ArithmeticError, RuntimeError, MemoryError,
            pl.exceptions.PolarsError) as error:  # fmt: skip
        raise ModelFileError(
            f"{folder}: the parts of this model do not fit together ({error}); train it again"
        ) from error


def _maker(folder: Path, card: _Card, wanted: type[Recommender]) -> type[Recommender]:
    """The class that made a model: a known one, or one of the caller's own that goes by that name."""
    if getattr(wanted, "kind", None) == card.kind:
        return wanted
    try:
        return algorithm(card.kind)
    except SettingsError as error:
        raise ModelFileError(f"{folder}: {error}; load a model of your own class with that class") from None


def _assemble(
    made_by: type[Recommender], card: _Card, arrays: dict[str, Arrays], frames: dict[str, pl.DataFrame]
) -> Recommender:
    if not card.scale[0] < card.scale[1]:
        raise ValueError(f"the scale from {card.scale[0]:g} to {card.scale[1]:g} is none")
    for part in arrays.values():
        for name, array in part.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name} has a number that is none")
    settings = dict(card.settings)
    if card.format_version < 3 and card.kind == "cfn":
        settings.setdefault("presence", 0.0)
    if card.format_version < 5 and card.kind in ("cfn", "autorec"):
        settings.setdefault("length_cap", _NO_CAP)
    model = made_by(made_by.settings_class.of(settings))
    users, items = frames["users"], frames["items"]
    model.users, model.items = Vocabulary(users["id"].to_list()), Vocabulary(items["id"].to_list())
    model.titles = {item: title for item, title in zip(items["id"], items["title"], strict=True) if title is not None}
    known = frames.get("attributes")  # older models have none
    model.item_attributes = Attributes(model.items) if known is None else Attributes.restored(model.items, known)
    model.history = [EpochRecord(**record) for record in card.history]
    model.measures, model.data_summary = card.measures, card.data
    numbers = {"overall_mean": card.overall_mean, "typical_length": card.typical_length}
    model.put_together(
        Parts(
            scale=Scale(*card.scale),
            arrays=arrays,
            numbers={name: value for name, value in numbers.items() if value is not None},
            learned=card.features,
        )
    )
    return model


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
