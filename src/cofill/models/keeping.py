"""A recommender taken apart into what a model's folder keeps, and put together from it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from cofill.config import Settings
from cofill.data.attributes import Attributes
from cofill.data.described import SideFeatures
from cofill.data.features import Features
from cofill.data.ratings import Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, ModelFileError, SettingsError
from cofill.models import algorithm
from cofill.models.card import PartInfo
from cofill.models.file import Arrays, Contents, Kept, read_model, write_model
from cofill.models.history import EpochRecord
from cofill.models.item_places import ItemPlaces
from cofill.models.known import AllColumns, known_from
from cofill.models.lists.feedback import Feedback, GradedRatings, Grades
from cofill.models.lists.scorer import ListScorer
from cofill.models.matrix import Floats, Matrix
from cofill.models.shards import Divided, KeptByColumn, save_in_shards

_OF_PARTS = "networks"  # in the settings of a model file
_BESIDE = "beside."  # interactions beside ratings, in the file of the list scorer


class SavedModel(ABC):
    """The half of a recommender that is saved and loaded: what it consists of, and what its algorithm keeps."""

    kind: ClassVar[str]
    """Its name in model files, tables and on the command line."""
    settings_class: ClassVar[type[Settings]]

    users: Vocabulary
    items: Vocabulary
    titles: dict[Id, str]
    user_features: Features | None
    item_features: Features | None
    item_attributes: Attributes
    history: list[EpochRecord]
    measures: dict[str, float | int | None]
    data_summary: dict[str, Any]
    trained: datetime | None
    """The end of its training; None if it is not fitted, or of a file that does not say."""
    item_places: ItemPlaces | None
    """The map of the items; None unless `draw_map` was called, or a file has it."""
    part: PartInfo | None
    """Which part of a model in shards it is, with all items and some of the users; None if it is whole."""
    _matrix: Matrix | None
    _scorer: ListScorer | None

    @abstractmethod
    def __init__(self, settings: Any = None, **changes: Any) -> None: ...

    @property
    @abstractmethod
    def settings(self) -> Settings: ...

    @property
    @abstractmethod
    def matrix(self) -> Matrix: ...

    @property
    @abstractmethod
    def scorer(self) -> ListScorer: ...

    @abstractmethod
    def _feedback(self, decay: Floats | None, beside: GradedRatings | None) -> Feedback: ...

    @abstractmethod
    def _grades_beside(self, scale: Scale, *, trained: bool) -> Grades: ...

    @abstractmethod
    def _restored_scorer(self, arrays: Arrays, feedback: Feedback) -> ListScorer: ...

    @abstractmethod
    def _kept(self) -> Kept:
        """What a model file keeps of a fitted model."""

    @abstractmethod
    def _restored(self, kept: Kept, scale: Scale, users: SideFeatures | None, items: SideFeatures | None) -> Matrix:
        """The matrix from what a file kept; settings and ids are there already, features where there were any.

        ValueError where it does not fit together.
        """

    @classmethod
    def settings_of_format(cls, settings: Mapping[str, Any], version: int) -> dict[str, Any]:
        """The settings of a model file of an older format, with what was not a setting then."""
        return dict(settings)

    def _kept_by_column(self) -> KeptByColumn:
        """What a file keeps of a model in shards; an algorithm whose models can be cut by columns has it."""
        raise SettingsError(f"a model of {self.kind!r} is saved in one piece; leave out shards")

    def save(self, folder: Path | str, *, shards: int | Sequence[int] | None = None) -> None:
        """Write the model into a folder, whole or not at all; an older model there is replaced.

        With `shards` it is cut by the columns of its network, which are users with orientation "item": into so many
        shards with about as many ratings each, or at these columns. `load` takes either form, and a part of the
        latter.
        """
        self._check_whole()
        self.matrix  # noqa: B018  # a model that is not fitted says so before anything is written
        if shards is None:
            write_model(Path(folder), contents_of(self))
        else:
            save_in_shards(Path(folder), divided(self), shards)

    @classmethod
    def load(cls, folder: Path | str, *, part: int | None = None) -> Self:
        """A model from its folder, checked.

        Of a model in shards, `part` is one of them: it predicts and recommends for its users as the whole model does,
        and takes up no more memory than that. To it, all others are users whom it has never seen. It cannot change:
        ratings are added to a whole model.
        """
        model = read_model(Path(folder), partial(_put_together, cls), part)
        if not isinstance(model, cls):
            raise ModelFileError(
                f"{folder}: this is a model of the algorithm {model.kind!r}, not a {cls.__name__}; "
                f"load it with {type(model).__name__}.load, or with Recommender.load"
            )
        return model

    def _check_whole(self) -> None:
        if self.part is not None:
            raise DataError(
                f"this is {self.part} of a model in shards, to be asked, and neither changed nor saved", "load it whole"
            )


def contents_of(model: SavedModel) -> Contents:
    """What a folder keeps of a model, in one piece."""
    return _contents(model, model._kept())


def divided(model: SavedModel) -> Divided:
    """The same, ready to be cut by columns; SettingsError for an algorithm whose models are in one piece.

    The model may be part of another itself: that of one of several processes that trained it together.
    """
    by_column = model._kept_by_column()
    beside = model.scorer.feedback.beside

    def rows() -> Arrays:
        found = by_column.rows()
        if beside is not None:
            counts, spread = beside.known.trained_column_counts(), beside.known.spread()
            found |= {f"{_BESIDE}counts": counts, f"{_BESIDE}spread": np.array([spread])}
        return found

    return Divided(_contents(model, by_column.kept), by_column._replace(rows=rows))


def _contents(model: SavedModel, kept: Kept) -> Contents:
    sides = {
        "users": (model.user_features, model.matrix.row_features),
        "items": (model.item_features, model.matrix.column_features),
    }
    features: Arrays = {}
    for side, (learned, vectors) in sides.items():
        if learned is not None:
            features |= {f"{side}.{name}": array for name, array in learned.arrays().items() if name != "values"}
            features |= {f"{side}.{name}": array for name, array in _side_arrays(vectors).items()}
    arrays = {"weights": kept.weights, "ratings": kept.ratings, "lists": _kept_lists(model)}
    return Contents(
        kind=model.kind,
        settings=_with_those_of_parts(model.settings.model_dump(mode="json"), kept.own_settings),
        scale=model.matrix.scale,
        numbers=kept.numbers,
        data=model.data_summary,
        measures=model.measures,
        history=[record.as_json() for record in model.history],
        trained=model.trained,
        learned={side: learned.card() for side, (learned, _) in sides.items() if learned is not None},
        arrays=arrays | ({"features": features} if features else {}) | _kept_map(model),
        users=model.users,
        items=model.items,
        titles=model.titles,
        attributes=model.item_attributes.frame(),
        by_column=kept.by_column,
    )


def _kept_map(model: SavedModel) -> dict[str, Arrays]:
    return {} if model.item_places is None else {"map": dict(model.item_places._asdict())}


def _kept_lists(model: SavedModel) -> Arrays:
    feedback = model.scorer.feedback
    arrays = model.scorer.arrays()
    if feedback.main.decay is not None:
        arrays["decay"] = feedback.main.decay.trained.values
    if feedback.beside is not None:
        arrays |= {f"{_BESIDE}{name}": array for name, array in feedback.beside.arrays().items()}
    return arrays


def _put_together(asked: type[SavedModel], contents: Contents) -> SavedModel:
    """The model that a folder has kept, whole or in part; ValueError and the like where it does not fit together.

    `asked` is the class that was asked to load it.
    """
    made_by = _maker(asked, contents.kind)
    settings = dict(contents.settings)
    own_settings = settings.pop(_OF_PARTS, {})
    model = made_by(made_by.settings_class.of(made_by.settings_of_format(settings, contents.format_version)))
    model.part = contents.part
    model.users, model.items, model.titles = contents.users, contents.items, dict(contents.titles)
    known = contents.attributes
    model.item_attributes = Attributes(model.items) if known is None else Attributes.restored(model.items, known)
    model.history = [EpochRecord(**record) for record in contents.history]
    model.measures, model.data_summary = dict(contents.measures), dict(contents.data)
    model.trained = contents.trained
    arrays = contents.arrays
    features, rows = arrays.get("features", {}), arrays.get("rows")
    model.item_places = ItemPlaces.restored(arrays["map"], len(model.items)) if "map" in arrays else None
    kept = Kept(arrays["weights"], arrays["ratings"], contents.numbers, own_settings, contents.by_column, rows)
    sides = (_side_from(features, side) for side in ("users", "items"))
    model._matrix = model._restored(kept, contents.scale, *sides)
    if "lists" in arrays:
        lists = arrays["lists"]
        feedback = model._feedback(lists.get("decay"), _restored_beside(model, lists, rows))
        model._scorer = model._restored_scorer(lists, feedback)
    if model._matrix.known.rows != len(model.users) or model._matrix.known.columns != len(model.items):
        raise ValueError("there is another number of users and items than the ratings have")
    for side, card in contents.learned.items():
        learned = _features_from(card, features, side, model.users if side == "users" else model.items)
        if side == "users":
            model.user_features = learned
        else:
            model.item_features = learned
    return model


def all_columns(rows: Arrays, prefix: str = "") -> AllColumns:
    """What part of a model keeps of the ratings of all columns."""
    counts, spread = rows[f"{prefix}counts"], rows[f"{prefix}spread"]
    if counts.dtype != np.int64 or (counts < 0).any():
        raise ValueError("the counts of the ratings of rows are damaged")
    return AllColumns(counts, float(spread[0]))


def _maker(asked: type[SavedModel], kind: str) -> type[SavedModel]:
    """The class that made a model: a known one, or one of the caller's own that goes by that name."""
    if getattr(asked, "kind", None) == kind:
        return asked
    try:
        return algorithm(kind)
    except SettingsError as error:
        raise ModelFileError(f"{error}; load a model of your own class with that class") from None


def _restored_beside(model: SavedModel, lists: Arrays, rows: Arrays | None) -> GradedRatings | None:
    """The interactions beside ratings that a file kept; None where there were none."""
    own = {name.removeprefix(_BESIDE): array for name, array in lists.items() if name.startswith(_BESIDE)}
    if not own:
        return None
    scale = Scale(*own["scale"].tolist())
    whole = None if rows is None else all_columns(rows, _BESIDE)
    known = known_from(own, scale, len(model.users), len(model.items), whole)
    return GradedRatings.of(known, model._grades_beside(scale, trained=known.trained.nnz > 0), own.get("decay"))


def _with_those_of_parts(settings: dict[str, Any], own: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if not own:
        return settings
    taken = {name for part in own.values() for name in part}
    return {name: value for name, value in settings.items() if name not in taken} | {_OF_PARTS: own}


def _side_arrays(features: SideFeatures) -> Arrays:
    """The vectors of one side as a model file keeps them."""
    indices, values = features.later()
    forgotten = indices[~features.described[indices]]
    return {
        "trained": features.trained,
        "described": features.trained_described,
        "later.indices": indices,
        "later.values": values,
    } | ({"later.forgotten": forgotten} if len(forgotten) else {})


def _side_from(arrays: Arrays, side: str) -> SideFeatures | None:
    """The vectors of one side, from their arrays; None where there are none."""
    if f"{side}.trained" not in arrays:
        return None
    trained, described = arrays[f"{side}.trained"], arrays[f"{side}.described"]
    indices, vectors = arrays[f"{side}.later.indices"], arrays[f"{side}.later.values"]
    if len(trained) != len(described) or (indices < 0).any() or not np.isfinite(vectors).all():
        raise ValueError(f"the features of the {side} do not fit the ratings")
    features = SideFeatures(trained, described)
    features.grow(int(indices.max(initial=-1)) + 1)
    for index, vector in zip(indices.tolist(), vectors, strict=True):
        features.describe(index, vector)
    for index in arrays.get(f"{side}.later.forgotten", np.empty(0, np.int64)).tolist():
        if index not in indices:
            raise ValueError(f"the features of the {side} are said to be forgotten where there are none")
        features.describe(index, np.full(features.width, np.nan, np.float32))
    return features


def _features_from(card: dict[str, Any], arrays: Arrays, side: str, ids: Vocabulary) -> Features:
    """What was learned about the columns of one side, and the vectors that it was trained with."""
    own = {name.removeprefix(f"{side}."): array for name, array in arrays.items() if name.startswith(f"{side}.")}
    described = np.flatnonzero(own["described"])
    values = {"values": own["trained"][described]}
    return Features.restored(card, {**own, **values}, ids.only(described.tolist()))
