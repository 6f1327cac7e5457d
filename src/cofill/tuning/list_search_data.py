"""What people did, users x items, for a search of the list scorer's settings; and how it is sent to the workers."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings
from cofill.data.features import Features
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings, Scale
from cofill.data.splits import Split, split
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError, SettingsError
from cofill.tuning.space import FeedbackKind

ValidationBy = Literal["random", "time"]
"""How validation ratings are held out: at random, or the latest."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class ListSearchData:
    """What every trial is trained and validated on; ids are indices, since no score depends on what they are."""

    ratings: Ratings
    users: Features | None
    items: Features | None

    @classmethod
    def of(cls, ratings: Ratings, items: Features | None = None, users: Features | None = None) -> Self:
        """The data of a search; ids with features but no rating are there too, as in fitting."""
        whole = ratings.including(users=users.ids if users else (), items=items.ids if items else ())
        numbered = replace(whole, users=_numbers(len(whole.users)), items=_numbers(len(whole.items)), titles={})
        return cls(numbered, _by_number(users, whole.users), _by_number(items, whole.items))

    @property
    def feedback(self) -> FeedbackKind:
        """What the values and times have to tell, on which the search space depends."""
        ratings = self.ratings
        return FeedbackKind(
            rated=ratings.rated,
            weights_differ=not ratings.rated and _differ(ratings.values),
            timed=ratings.times is not None and _differ(ratings.times),
        )

    def parts(self, settings: CFNSettings, by: ValidationBy) -> Split:
        """The same training and validation part for every trial."""
        return split(self.ratings, by, 1.0 - settings.validation, settings.seed)

    def check(self, settings: CFNSettings, by: ValidationBy) -> None:
        """Raise if there is nothing to validate with, or a setting needs what the data does not have."""
        from cofill.evaluation.list_measures import RELEVANT_SHARE

        plural = self.ratings.plural
        if settings.validation == 0:
            raise SettingsError(
                f"a search scores its trials on validation {plural}; set validation above 0, such as 0.1"
            )
        if not 1 <= round(len(self.ratings) * (1.0 - settings.validation)) < len(self.ratings):
            raise DataError(
                f"{len(self.ratings)} {plural} are too few to hold out a share of {settings.validation:g} for "
                f"validation",
                f"give more {plural}, or a larger validation=...",
            )
        if settings.half_life and self.ratings.times is None:
            raise DataError(
                f"half_life needs to know when people did something, and these {plural} have no times; leave it out"
            )
        held_out = self.parts(settings, by).test
        low, high = self.ratings.scale
        threshold = low + RELEVANT_SHARE * (high - low)
        if self.ratings.rated and not (held_out.values >= np.float32(threshold)).any():
            raise DataError(
                f"none of the {len(held_out):,} validation ratings is at least {threshold:g}, so there is nothing that "
                f"lists should find",
                "give more ratings, a larger validation=..., or the scale of the ratings: scale=...",
            )

    def fingerprint(self) -> str:
        """The same for the same ratings, times and features, whatever file they came from."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:16]

    def to_bytes(self) -> bytes:
        from safetensors.numpy import save

        ratings = self.ratings
        arrays: Arrays = {
            "user_index": ratings.user_index, "item_index": ratings.item_index, "values": ratings.values,
            "shape": np.array([len(ratings.users), len(ratings.items)]), "scale": np.array(ratings.scale, np.float64),
            "rated": np.array([ratings.rated]),
        }  # fmt: skip
        if ratings.times is not None:
            arrays["times"] = ratings.times
        for side, features in (("users", self.users), ("items", self.items)):
            if features is not None:
                arrays |= {f"{side}:{name}": array for name, array in features.arrays().items()}
                arrays[f"{side}|ids"] = features.ids.array().astype(np.int64)
                arrays[f"{side}|card"] = np.frombuffer(json.dumps(features.card()).encode(), np.uint8)
        return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        from safetensors.numpy import load

        arrays: Arrays = load(data)
        users, items = arrays["shape"].tolist()
        ratings = (Ratings if arrays["rated"][0] else Interactions)(
            _numbers(users),
            _numbers(items),
            arrays["user_index"],
            arrays["item_index"],
            arrays["values"],
            arrays.get("times"),
            Scale(*arrays["scale"].tolist()),
        )
        return cls(ratings, _features(arrays, "users"), _features(arrays, "items"))


def _numbers(count: int) -> Vocabulary:
    return Vocabulary(np.arange(count))


def _by_number(features: Features | None, ids: Vocabulary) -> Features | None:
    """The same features of ids that are called by their index."""
    if features is None:
        return None
    numbers = ids.find(features.ids.array()).astype(np.int64)
    return Features.restored(features.card(), features.arrays(), Vocabulary(numbers))


def _features(arrays: Arrays, side: str) -> Features | None:
    if f"{side}|card" not in arrays:
        return None
    card = json.loads(arrays[f"{side}|card"].tobytes())
    own = {name.removeprefix(f"{side}:"): array for name, array in arrays.items() if name.startswith(f"{side}:")}
    return Features.restored(card, own, Vocabulary(arrays[f"{side}|ids"]))


def _differ(values: npt.NDArray[Any]) -> bool:
    return bool(values.min() < values.max())
