"""The splits: random 90/10 with the seed of the split's number, the same for everybody.

What a library sees has users and items numbered by the training part, so that it cannot know of a cold one.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from any_data_sets import loaded, repacked
from cofill import Ratings, split
from cofill.data.datasets import locate
from cofill.data.datasets.world import make_world
from cofill.errors import DataError
from cofill.files import replacing
from peer_libraries.answering import Ints, Problem

SECONDS_A_DAY = 86_400


@cache
def world(users: int, items: int, ratings: int) -> Ratings:
    return repacked(make_world(users=users, items=items, ratings=ratings, seed=0).ratings)


DATASETS: Mapping[str, Callable[[], Ratings]] = {
    "ml-100k": partial(loaded, "ml-100k"),
    "world": partial(world, 2_000, 1_000, 100_000),
    "ml-1m": partial(loaded, "ml-1m"),
    "movietweetings": partial(loaded, "movietweetings"),
    "tiny": partial(world, 80, 60, 1_500),
}
USUAL = ("ml-100k", "world", "ml-1m", "movietweetings")


def at_hand(name: str) -> bool:
    return name in ("world", "tiny") or locate(name) is not None


@dataclass(frozen=True)
class Part:
    """A split, and what of it is given to the libraries."""

    train: Ratings
    test: Ratings
    problem: Problem
    items: Ints  # of the training part, by their number in the problem: their index in the vocabulary of the ratings
    people: npt.NDArray[np.int64]  # who wants a list, as an index of the users

    @property
    def cold(self) -> int:
        """Test ratings whose user or item has no training rating."""
        return int(((self.problem.test_user < 0) | (self.problem.test_item < 0)).sum())

    def describe(self) -> dict[str, int]:
        return {
            "users": self.problem.users, "items": self.problem.items, "train": len(self.train),
            "test": len(self.test), "cold": self.cold, "lists": len(self.people),
        }  # fmt: skip


@cache
def part(name: str, seed: int) -> Part:
    train, test = split(DATASETS[name](), "random", 0.9, seed)
    low, high = train.scale
    users, user = np.unique(train.user_index, return_inverse=True)
    items, item = np.unique(train.item_index, return_inverse=True)
    user_number, item_number = numbers(users, len(train.users)), numbers(items, len(train.items))
    people = np.unique(test.user_index[test.values >= low + 0.75 * (high - low)])
    if not len(people):
        raise DataError(f"{name}: nobody has a liked rating in the test part, so there are no lists to measure")
    problem = Problem(
        user=user.astype(np.int32), item=item.astype(np.int32), rating=train.values, day=days(train),
        test_user=user_number[test.user_index], test_item=item_number[test.item_index], test_day=days(test),
        asked=user_number[people], low=float(low), high=float(high),
    )  # fmt: skip
    return Part(train, test, problem, items.astype(np.int32), people.astype(np.int64))


def numbers(present: npt.NDArray[np.int32], count: int) -> Ints:
    """(count,): the place of each among those that are present, or -1."""
    found = np.full(count, -1, np.int32)
    found[present] = np.arange(len(present), dtype=np.int32)
    return found


def days(ratings: Ratings) -> Ints:
    return np.empty(0, np.int32) if ratings.times is None else (ratings.times // SECONDS_A_DAY).astype(np.int32)


def write(problem: Problem, folder: Path) -> Path:
    """Keep it where the process of a library can read it; the name of the file is its fingerprint."""
    arrays = {name: np.asarray(getattr(problem, name)) for name in Problem.__dataclass_fields__}
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(name.encode() + array.tobytes())
    path = folder / f"{digest.hexdigest()[:16]}.npz"
    if not path.exists():
        with replacing(path) as beside, beside.open("wb") as out:
            np.savez_compressed(out, allow_pickle=False, **arrays)
    return path
