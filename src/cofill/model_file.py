"""A model on disk: a folder with weights and ratings as safetensors, ids as Parquet, and a JSON that people can read.

    model.json                    what the model is: settings, data, history, measures, and the files that belong to it
    weights-<hash>.safetensors    the network and what fold-in needs
    ratings-<hash>.safetensors    the ratings it was trained on, and those added later
    users-<hash>.parquet          ids, in the order of their indices
    items-<hash>.parquet          ids and titles

The other files are named after their content, and model.json takes its place last: whoever reads the folder sees
the old model or the new one, never a mixture, whenever the writer was stopped. Nothing is ever unpickled.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import safetensors
import safetensors.numpy
import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from cofill import __version__
from cofill.atomic import replacing
from cofill.cfn.completion import Completion
from cofill.cfn.fold_in import ColumnPrior
from cofill.cfn.network import CFNetwork
from cofill.cfn.scaling import Scaling
from cofill.cfn.training import EpochRecord
from cofill.config import CFNSettings
from cofill.data.known import KnownRatings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.data.vocabulary import Vocabulary
from cofill.errors import CofillError, ModelFileError
from cofill.recommender import CFN

FORMAT_VERSION = 1
_CARD = "model.json"

_Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


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
    overall_mean: float
    typical_length: float
    data: dict[str, Any]
    measures: dict[str, float | int | None]
    history: list[dict[str, Any]]
    files: dict[str, _File]
    sha256: str  # of this document without this field

    def digest(self) -> str:
        text = json.dumps(self.model_dump(mode="json", exclude={"sha256"}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def save_model(model: CFN, folder: Path) -> None:
    """Write a fitted model into a folder."""
    completion = model.completion
    network, prior, known = completion.network, completion.prior, completion.known
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder}: a model is a folder, but there is a file of that name; choose another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(f"{folder}: cannot be made: {error.strerror}; choose another place") from None
    weights: _Arrays = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    weights |= {
        "row_means": completion.scaling.means,
        "prior.mean": prior.mean,
        "prior.factor": prior.factor,
        "prior.pull": prior.pull,
        "prior.noise": np.array([prior.noise], np.float64),
    }
    later_rows, later_columns, later_ratings = known.later()
    ratings: _Arrays = {
        "indptr": known.trained.indptr,
        "indices": known.trained.indices,
        "values": known.trained.values,
        "shape": np.array([known.trained.rows, known.trained.columns], np.int64),
        "later.rows": later_rows,
        "later.columns": later_columns,
        "later.ratings": later_ratings,
    }
    titles = [model.titles.get(item) for item in model.items]
    files = {
        "weights": _write(folder, "weights", ".safetensors", lambda path: _save_arrays(weights, path)),
        "ratings": _write(folder, "ratings", ".safetensors", lambda path: _save_arrays(ratings, path)),
        "users": _write(folder, "users", ".parquet", _ids_frame(model.users).write_parquet),
        "items": _write(
            folder,
            "items",
            ".parquet",
            _ids_frame(model.items).with_columns(title=pl.Series(titles, dtype=pl.String)).write_parquet,
        ),
    }
    card = _Card(
        format="cofill-model",
        format_version=FORMAT_VERSION,
        cofill_version=__version__,
        kind="cfn",
        settings=model.settings.model_dump(mode="json"),
        scale=(model.scale.low, model.scale.high),
        overall_mean=completion.scaling.overall,
        typical_length=completion.scaling.typical_length,
        data=model.data_summary,
        measures=model.measures,
        history=[record.as_json() for record in model.history],
        files=files,
        sha256="",
    )
    card.sha256 = card.digest()
    with replacing(folder / _CARD, ModelFileError) as draft:
        draft.write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")
    _remove_leftovers(folder, {file.name for file in files.values()})


def load_model(folder: Path) -> CFN:
    """A model from its folder; whatever is missing, altered or from a newer version is refused with a reason."""
    card = _read_card(folder)
    try:
        return _load_as_described(folder, card)
    except ModelFileError:
        newer = _read_card(folder)
        if newer.sha256 == card.sha256:
            raise
        return _load_as_described(folder, newer)  # replaced while it was read


def _load_as_described(folder: Path, card: _Card) -> CFN:
    arrays = {kind: _load_arrays(_checked(folder, card, kind)) for kind in ("weights", "ratings")}
    frames = {kind: _load_frame(_checked(folder, card, kind)) for kind in ("users", "items")}
    try:
        return _assemble(card, arrays["weights"], arrays["ratings"], frames["users"], frames["items"])
    except (CofillError, KeyError, ValueError, TypeError, RuntimeError, pl.exceptions.PolarsError) as error:
        raise ModelFileError(
            f"{folder}: the parts of this model do not fit together ({error}); train it again"
        ) from error


def _assemble(card: _Card, weights: _Arrays, ratings: _Arrays, users: pl.DataFrame, items: pl.DataFrame) -> CFN:
    model = CFN(CFNSettings.of(card.settings))
    rows, columns = (int(size) for size in ratings["shape"])
    trained = SparseRows(ratings["indptr"], ratings["indices"], ratings["values"], columns)
    _check_ratings(trained, rows, weights, ratings)
    prior = ColumnPrior(
        mean=weights.pop("prior.mean"),
        factor=weights.pop("prior.factor"),
        pull=weights.pop("prior.pull"),
        noise=float(weights.pop("prior.noise")[0]),
    )
    scaling = Scaling(
        scale=Scale(*card.scale),
        damping=model.settings.mean_damping,
        length_power=model.settings.length_power,
        typical_length=card.typical_length,
        overall=card.overall_mean,
        means=weights.pop("row_means"),
    )
    network = CFNetwork.of({name: torch.from_numpy(array) for name, array in weights.items()}, model.settings)
    known = KnownRatings(trained, trained.transpose())
    for row, column, rating in zip(
        ratings["later.rows"].tolist(),
        ratings["later.columns"].tolist(),
        ratings["later.ratings"].tolist(),
        strict=True,
    ):
        known.add(row, column, rating)
    model.users, model.items = Vocabulary(users["id"].to_list()), Vocabulary(items["id"].to_list())
    _check_card(card, model, known)
    model.titles = {item: title for item, title in zip(items["id"], items["title"], strict=True) if title is not None}
    model.history = [EpochRecord(**record) for record in card.history]
    model.measures, model.data_summary = card.measures, card.data
    model.restore(Completion(network, scaling, known, trust_length=model.settings.trust_length, prior=prior))
    return model


def _check_card(card: _Card, model: CFN, known: KnownRatings) -> None:
    """What its checksum cannot tell: that the parts are of one model, and of one that is known here."""
    ids = (len(model.users), len(model.items))
    if ids != ((known.rows, known.columns) if model.orientation == "user" else (known.columns, known.rows)):
        raise ValueError("there is another number of users and items than the ratings have")
    if not card.scale[0] < card.scale[1]:
        raise ValueError(f"the scale from {card.scale[0]:g} to {card.scale[1]:g} is none")
    if card.kind != "cfn":
        raise ValueError(f"the kind of model {card.kind!r} is not known")


def _check_ratings(trained: SparseRows, rows: int, weights: _Arrays, ratings: _Arrays) -> None:
    """Indices that point outside would read the wrong memory, or none."""
    ends = np.diff(trained.indptr)
    if len(trained.indptr) != rows + 1 or len(weights["row_means"]) != rows or (ends < 0).any():
        raise ValueError("the rows of the ratings are out of order")
    if not trained.indptr[0] == 0 or not trained.indptr[-1] == len(trained.indices) == len(trained.values):
        raise ValueError("the ratings have no consistent length")
    if trained.nnz and not 0 <= int(trained.indices.min()) <= int(trained.indices.max()) < trained.columns:
        raise ValueError("a rating points at a column that does not exist")
    if any((ratings[name] < 0).any() for name in ("later.rows", "later.columns")):
        raise ValueError("a later rating points at a row or column that does not exist")
    if len(weights["input.weight"]) != trained.columns or len(weights["output.weight"]) != trained.columns:
        raise ValueError("the network has another number of columns than the ratings")


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
    for kind in ("weights", "ratings", "users", "items"):
        for path in [*folder.glob(f"{kind}-????????????.*"), *folder.glob(f".{kind}.*")]:
            if path.name not in current:
                path.unlink(missing_ok=True)
        for path in folder.glob(f"..{kind}.*.part"):
            path.unlink(missing_ok=True)
    for path in folder.glob(f".{_CARD}.*.part"):
        path.unlink(missing_ok=True)


def _save_arrays(arrays: _Arrays, path: Path) -> None:
    safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def _load_arrays(path: Path) -> _Arrays:
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
