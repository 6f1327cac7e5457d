"""Split ratings into a training and a test part: at random, by time, by whole items or users.

Both parts keep the vocabularies of the input, so an index means the same in each. Same seed, same split.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Indices
from cofill.errors import DataError, Remedy, SettingsError

SplitBy = Literal["random", "time", "cold-items", "cold-users"]


class Split(NamedTuple):
    """Two parts that share no rating and together are all of them."""

    train: Ratings
    test: Ratings


def random_split(ratings: Ratings, *, ratio: float = 0.9, seed: int = 0) -> Split:
    """A random share `ratio` of the ratings to train on, the others to test."""
    held_out = _held_out(len(ratings), ratio, seed, "ratings")
    return _divided(ratings, held_out)


def k_folds(ratings: Ratings, *, folds: int = 5, seed: int = 0) -> Iterator[Split]:
    """`folds` splits; each rating is tested exactly once, and the tests differ in size by one at most."""
    if folds < 2:
        raise DataError(f"folds={folds} leaves nothing to train on", "use at least 2")
    if folds > len(ratings):
        raise DataError(f"{len(ratings)} ratings cannot fill {folds} folds", f"use at most {len(ratings)}")
    fold = _generator(seed).permutation(np.arange(len(ratings)) % folds)
    return (_divided(ratings, fold == number) for number in range(folds))


def time_split(ratings: Ratings, *, ratio: float = 0.9) -> Split:
    """About a share `ratio` to train on, all later ratings to test. What happened at once stays together."""
    if ratings.times is None:
        remedy = Remedy.passing("read them with {time}, or split at random", time=...)
        raise DataError("these ratings have no times to split by", remedy)
    wanted = _training_size(len(ratings), ratio, "ratings")
    moments, counts = np.unique(ratings.times, return_counts=True)
    if len(moments) < 2:
        raise DataError(f"all {len(ratings)} ratings have the same time ({moments[0]})", "split at random instead")
    # The cut lies between two moments, as near to the wanted size as they allow.
    sizes = np.cumsum(counts)[:-1]
    first_tested = moments[np.argmin(np.abs(sizes - wanted)) + 1]
    return _divided(ratings, ratings.times >= first_tested)


def cold_items_split(ratings: Ratings, *, ratio: float = 0.9, seed: int = 0) -> Split:
    """A random share `ratio` of the rated items to train on; all ratings of the others to test."""
    return _cold_split(ratings, ratings.item_index, ratio, seed, "rated items")


def cold_users_split(ratings: Ratings, *, ratio: float = 0.9, seed: int = 0) -> Split:
    """A random share `ratio` of the users who rated to train on; all ratings of the others to test."""
    return _cold_split(ratings, ratings.user_index, ratio, seed, "users who rated")


def split(ratings: Ratings, by: SplitBy, ratio: float, seed: int) -> Split:
    """The split of that name; a split by time is not random and ignores the seed."""
    if by == "random":
        return random_split(ratings, ratio=ratio, seed=seed)
    if by == "time":
        return time_split(ratings, ratio=ratio)
    if by == "cold-items":
        return cold_items_split(ratings, ratio=ratio, seed=seed)
    if by == "cold-users":
        return cold_users_split(ratings, ratio=ratio, seed=seed)
    raise DataError(f"there is no split by {by!r}", "use 'random', 'time', 'cold-items' or 'cold-users'")


def _cold_split(ratings: Ratings, index: Indices, ratio: float, seed: int, what: str) -> Split:
    present = np.unique(index)  # a vocabulary may know ids that have no rating here
    held_out = np.zeros(int(present.max(initial=-1)) + 1, np.bool_)
    held_out[present[_held_out(len(present), ratio, seed, what)]] = True
    return _divided(ratings, held_out[index])


def _training_size(total: int, ratio: float, what: str) -> int:
    if not 0.0 < ratio < 1.0:
        raise DataError(f"ratio={ratio} is not a share", "give the share to train on, between 0 and 1, such as 0.9")
    size = round(total * ratio)
    if not 0 < size < total:
        empty = "test" if size else "train on"
        raise DataError(
            f"ratio={ratio:g} of {total} {what} leaves none to {empty}", f"use more {what} or another ratio"
        )
    return size


def _held_out(total: int, ratio: float, seed: int, what: str) -> npt.NDArray[np.bool_]:
    """(total,): a random mask of those to test."""
    size = _training_size(total, ratio, what)
    mask = np.arange(total) >= size
    return _generator(seed).permutation(mask)


def _divided(ratings: Ratings, held_out: npt.NDArray[np.bool_]) -> Split:
    return Split(ratings.select(~held_out), ratings.select(held_out))


def _generator(seed: int) -> np.random.Generator:
    if seed < 0:
        raise SettingsError(f"a seed must be 0 or more. Got {seed}")
    return np.random.default_rng(seed)
