"""The data of an experiment, its runs, and the store of finished ones, one JSON file each.

A run is one algorithm, trained on one part of the data. An interrupted experiment continues, because runs in the
store are not repeated.
"""

import hashlib
import json
import subprocess
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from cofill import __version__
from cofill.arrays import fingerprint
from cofill.data.datasets import UnpublishedFileWarning, catalogue, published_folds
from cofill.data.described import SideInformation
from cofill.data.ratings import Ratings
from cofill.data.splits import Split, StrongSplit, leave_last_out_split, random_split, strong_generalisation_split
from cofill.errors import DataError
from cofill.files import json_of, replacing
from cofill.models import algorithm

Task = Literal["measure", "validate", "cost"]
"""Test a model; train only as far as validation data go, which touches no test rating; time and memory, alone."""

Protocol = Literal["last", "strong"]
"""Protocols of lists beside random splits: the last rating of each user; users who are new to the model."""

# Raised when the same run would leave another record behind.
_FORMAT = 3
# They do not change what is learned, apart from rounding.
_BESIDE_THE_POINT = {"threads", "checkpoint_seconds"}


@dataclass(frozen=True)
class Part:
    """The training and test ratings of a run: a random split, a published fold counted from 0, or a protocol."""

    by: Literal["random", "published"] | Protocol
    ratio: float | None = None
    seed: int | None = None
    fold: int | None = None


_TRAINED, _TESTED = 1, 2  # marks of ratings in a published fold


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
        ratings = self.ratings
        ids: list[npt.NDArray[Any]] = [
            ratings.users.keys(),
            ratings.items.keys(),
            ratings.user_index,
            ratings.item_index,
        ]
        times = [] if ratings.times is None else [ratings.times]
        about = f"{type(ratings).__name__} {ratings.scale} {len(self.folds)}"
        return fingerprint(about, [*ids, ratings.values, *times, *self.folds])

    def side_fingerprint(self) -> str | None:
        if not self.described:
            return None
        about: list[Any] = [features and features.card() for features in self.side]
        known = [features for features in self.side if features is not None]
        arrays = [array for features in known for array in (features.ids.keys(), *features.arrays().values())]
        return fingerprint(json.dumps(about), arrays)


def _marked(whole: Ratings, train: Ratings, test: Ratings) -> npt.NDArray[np.uint8]:
    def pairs(ratings: Ratings) -> npt.NDArray[np.int64]:
        return ratings.user_index.astype(np.int64) * len(whole.items) + ratings.item_index

    marks = np.zeros(len(whole), np.uint8)
    marks[np.isin(pairs(whole), pairs(train))] = _TRAINED
    marks[np.isin(pairs(whole), pairs(test))] = _TESTED
    return marks


@dataclass(frozen=True)
class Run:
    """All that defines a result, and a label for people."""

    label: str
    task: Task
    algorithm: str
    settings: Mapping[str, Any]  # apart from the defaults
    part: Part
    data: str  # fingerprint of the ratings
    side: str | None  # fingerprint of the side information; None: without

    @cached_property
    def all_settings(self) -> dict[str, Any]:
        """All settings of the model, including defaults."""
        dumped = algorithm(self.algorithm).settings_class.of(self.settings).model_dump(mode="json")
        return {name: value for name, value in dumped.items() if name not in _BESIDE_THE_POINT}

    @cached_property
    def digest(self) -> str:
        """A hash of the run; it changes if a default changes."""
        defining = {name: value for name, value in self.as_json().items() if name != "label"}
        defining |= {"settings": self.all_settings, "format": _FORMAT}
        return hashlib.sha256(json.dumps(defining, sort_keys=True).encode()).hexdigest()[:20]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"settings": dict(self.settings)}


Record = dict[str, Any]
"""What a run left behind, as JSON: a result, or the problem that it ended with."""


@cache
def version() -> str:
    """The version of cofill, with the commit where it is run from a checkout."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return __version__
    try:
        words = ["git", "-C", str(root), "rev-parse", "HEAD"]
        commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout[:9]
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return f"{__version__}+{commit}"


class Store:
    """A folder of records, named by the digests of their runs; each says in which session it was made.

    With `fresh`, records of earlier sessions are not looked at, and are replaced.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.folder = folder
        self.session = uuid4().hex[:12]
        self._fresh = fresh

    def path(self, run: Run) -> Path:
        return self.folder / f"{run.digest}.json"

    def find(self, run: Run) -> Record | None:
        """The record of a run, or None if it has not been finished yet."""
        path = self.path(run)
        try:
            record = json_of(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise DataError(f"{path}: not the record of a run ({error}); remove it, and it is run again") from error
        if not isinstance(record, dict) or record.get("digest") != run.digest:
            raise DataError(f"{path}: not the record of the run of that name; remove it, and it is run again")
        return None if self._fresh and record.get("session") != self.session else record

    def keep(self, run: Run, record: Record) -> None:
        document = {
            "digest": run.digest,
            "version": version(),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "session": self.session,
            "run": run.as_json() | {"settings": run.all_settings},
            **record,
        }
        with replacing(self.path(run)) as draft:
            draft.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
