"""The ratings and side information of an experiment, split into parts and serialised for workers."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.data.datasets import UnpublishedFileWarning, catalogue, published_folds
from cofill.data.described import SideInformation
from cofill.data.features import Features
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings, Scale
from cofill.data.splits import Split, StrongSplit, leave_last_out_split, random_split, strong_generalisation_split
from cofill.data.vocabulary import Vocabulary
from cofill.experiments.runs import Part

Arrays = dict[str, npt.NDArray[Any]]

_TRAINED, _TESTED = 1, 2
_ABOUT = "about"


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """The data of an experiment, the same for every run."""

    ratings: Ratings
    side: SideInformation
    folds: tuple[npt.NDArray[np.uint8], ...] = ()  # published: (n,) each, which are trained on and which tested

    @classmethod
    def of(cls, name: str | None, ratings: Ratings, side: SideInformation) -> "ExperimentData":
        """The data, with the published folds of the named data set, if any; None: the ratings come from a file."""
        if name is None or not catalogue()[name].folds:
            return cls(ratings, side)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnpublishedFileWarning)  # the reading of the ratings has said so
            folds = [_marked(ratings, train, test) for train, test in published_folds(name, quiet=True)]
        return cls(ratings, side, tuple(folds))

    @property
    def described(self) -> bool:
        """Whether there is side information of any kind."""
        return self.side.users is not None or self.side.items is not None

    def parts(self, part: Part) -> Split:
        if part.by == "published":
            assert part.fold is not None
            marks = self.folds[part.fold]
            return Split(self.ratings.select(marks == _TRAINED), self.ratings.select(marks == _TESTED))
        assert part.seed is not None
        if part.by == "last":
            return leave_last_out_split(self.ratings)
        assert part.ratio is not None
        return random_split(self.ratings, ratio=part.ratio, seed=part.seed)

    def strong_parts(self, part: Part) -> StrongSplit:
        """Users to train on, and others, of whose ratings some are told and the rest are to be found."""
        assert part.by == "strong"
        assert part.seed is not None
        return strong_generalisation_split(self.ratings, seed=part.seed)

    def fingerprint(self) -> str:
        """A hash of the ratings and folds."""
        return _fingerprint(self._rating_arrays())

    def side_fingerprint(self) -> str | None:
        return _fingerprint(self._side_arrays()) if self.described else None

    def to_bytes(self) -> bytes:
        """The data as bytes for workers."""
        from safetensors.numpy import save

        return bytes(save(self._rating_arrays() | self._side_arrays()))

    @classmethod
    def from_bytes(cls, content: bytes) -> "ExperimentData":
        from safetensors.numpy import load

        arrays: Arrays = load(content)
        about = _from_array(arrays[f"ratings.{_ABOUT}"])
        ratings = (Ratings if about["rated"] else Interactions)(
            users=Vocabulary(about["users"]),
            items=Vocabulary(about["items"]),
            user_index=arrays["ratings.users"],
            item_index=arrays["ratings.items"],
            values=arrays["ratings.values"],
            times=arrays.get("ratings.times"),
            scale=Scale(*about["scale"]),
        )
        side = SideInformation(*(_features(arrays, name) for name in SideInformation._fields))
        return cls(ratings, side, tuple(arrays[f"ratings.fold{at}"] for at in range(about["folds"])))

    def _rating_arrays(self) -> Arrays:
        ratings = self.ratings
        about = {
            "users": ratings.users.ids,
            "items": ratings.items.ids,
            "scale": list(ratings.scale),
            "rated": ratings.rated,
            "folds": len(self.folds),
        }
        return {
            f"ratings.{_ABOUT}": _as_array(about),
            "ratings.users": ratings.user_index,
            "ratings.items": ratings.item_index,
            "ratings.values": ratings.values,
            **({} if ratings.times is None else {"ratings.times": ratings.times}),
            **{f"ratings.fold{at}": fold for at, fold in enumerate(self.folds)},
        }

    def _side_arrays(self) -> Arrays:
        arrays: Arrays = {}
        for name, features in zip(SideInformation._fields, self.side, strict=True):
            if features is not None:
                about = {"ids": features.ids.ids, "card": features.card()}
                arrays |= {f"{name}.{key}": array for key, array in features.arrays().items()}
                arrays[f"{name}.{_ABOUT}"] = _as_array(about)
        return arrays


def _features(arrays: Arrays, name: str) -> Features | None:
    own = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
    if not own:
        return None
    about = _from_array(own.pop(_ABOUT))
    return Features.restored(about["card"], own, Vocabulary(about["ids"]))


def _marked(whole: Ratings, train: Ratings, test: Ratings) -> npt.NDArray[np.uint8]:
    def pairs(ratings: Ratings) -> npt.NDArray[np.int64]:
        return ratings.user_index.astype(np.int64) * len(whole.items) + ratings.item_index

    marks = np.zeros(len(whole), np.uint8)
    marks[np.isin(pairs(whole), pairs(train))] = _TRAINED
    marks[np.isin(pairs(whole), pairs(test))] = _TESTED
    return marks


def _as_array(document: Mapping[str, Any]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(document, sort_keys=True).encode(), np.uint8)


def _from_array(array: npt.NDArray[Any]) -> Any:
    return json.loads(array.tobytes())


def _fingerprint(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()[:20]
