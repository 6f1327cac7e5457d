"""Split ratings into a training and a test part: at random, by time, the last of each user, by whole items or users.

All parts keep the vocabularies of the input, so an index means the same in each. Same seed, same split.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.arrays import Ints
from cofill.data.ratings import Ratings, Times, refuse_unread
from cofill.errors import DataError, SettingsError

SplitBy = Literal["random", "time", "last", "cold-items", "cold-users"]


class Split(NamedTuple):
    """Two parts that share no rating and together are all of them."""

    train: Ratings
    test: Ratings


class StrongSplit(NamedTuple):
    """Three parts that share no rating and together are all of them, for strong generalisation."""

    train: Ratings
    """All ratings of most users."""
    fold_in: Ratings
    """What becomes known of each of the other users after the training."""
    test: Ratings
    """The other ratings of the same users."""


def random_split(ratings: Ratings, *, ratio: float = 0.9, seed: int = 0) -> Split:
    """A random share `ratio` of the ratings to train on, the others to test."""
    held_out = _held_out(len(ratings), ratio, seed, "ratings")
    return _divided(ratings, held_out)


def k_folds(ratings: Ratings, *, folds: int = 5, seed: int = 0) -> Iterator[Split]:
    """`folds` splits; each rating is tested exactly once, and the tests differ in size by one at most."""
    refuse_unread(ratings)
    if folds < 2:
        raise DataError(f"folds={folds} leaves nothing to train on", "use at least 2")
    if folds > len(ratings):
        raise DataError(f"{len(ratings)} ratings cannot fill {folds} folds", f"use at most {len(ratings)}")
    fold = _generator(seed).permutation(np.arange(len(ratings)) % folds)
    return (_divided(ratings, fold == number) for number in range(folds))


def time_split(ratings: Ratings, *, ratio: float = 0.9, at: float | None = None) -> Split:
    """About a share `ratio` to train on, all later ratings to test. What happened at once stays together.

    With `at`, in seconds, all ratings before that time are trained on, whatever their share.
    """
    times = _times(ratings)
    if at is not None:
        held_out = times >= at
        if held_out.all() or not held_out.any():
            raise DataError(
                f"all ratings are {'at or after' if held_out.all() else 'before'} the time {at:g}",
                f"give one after {times.min():g}, and not after {times.max():g}",
            )
        return _divided(ratings, held_out)
    wanted = _training_size(len(ratings), ratio, "ratings")
    moments, counts = np.unique(times, return_counts=True)
    if len(moments) < 2:
        raise DataError(f"all {len(ratings)} ratings have the same time ({moments[0]})", "split at random instead")
    # The cut lies between two moments, as near to the wanted size as they allow.
    sizes = np.cumsum(counts)[:-1]
    first_tested = moments[np.argmin(np.abs(sizes - wanted)) + 1]
    return _divided(ratings, times >= first_tested)


def leave_last_out_split(ratings: Ratings, *, last: int = 1) -> Split:
    """The `last` latest ratings of each user to test, all earlier ones to train on (leave-one-out by time).

    Users with no more than `last` ratings are trained on alone. Ratings of a user at the same time are in the order
    of their source.
    """
    _times(ratings)
    if last < 1:
        raise DataError(f"last={last} leaves none to test", "leave out at least 1 rating of each user")
    counts = np.bincount(ratings.user_index, minlength=len(ratings.users))
    later = np.empty(len(ratings), np.int64)
    later[ratings.sequence()] = np.repeat(np.cumsum(counts), counts) - 1 - np.arange(len(ratings))
    held_out = (later < last) & (counts[ratings.user_index] > last)
    if not held_out.any():
        raise DataError(f"no user has more than {last} ratings", "leave out fewer of each, or split at random")
    return _divided(ratings, held_out)


def strong_generalisation_split(
    ratings: Ratings, *, ratio: float = 0.9, fold_in: float = 0.8, seed: int = 0
) -> StrongSplit:
    """A random share `ratio` of the users to train on; of the ratings of each other user a share to fold in.

    Strong generalisation (Marlin 2004; Liang et al. 2018): the model is trained without the people on whom it is
    tested. A random share `fold_in` of the ratings of each is told to it afterwards, the others are to be found. Both
    parts have at least one rating of each person, so users with a single rating are always trained on.
    """
    if not 0.0 < fold_in < 1.0:
        raise DataError(f"fold_in={fold_in} is not a share", "give one between 0 and 1, such as 0.8")
    counts = np.bincount(ratings.user_index, minlength=len(ratings.users))
    several = np.flatnonzero(counts > 1)
    if len(several) < 2:
        raise DataError(
            f"{len(several)} users have at least 2 ratings, to be held out or trained on", "use more ratings"
        )
    held_out = np.zeros(len(counts), np.bool_)
    held_out[several[_held_out(len(several), ratio, seed, "users with at least 2 ratings")]] = True
    given = np.clip(np.rint(counts * fold_in).astype(np.int64), 1, np.maximum(counts - 1, 1))
    tested = held_out[ratings.user_index]
    first = _place_among_own(ratings, seed) < given[ratings.user_index]
    return StrongSplit(ratings.select(~tested), ratings.select(tested & first), ratings.select(tested & ~first))


def at_most_each(ratings: Ratings, *, most: int, seed: int = 0) -> Ratings:
    """At most so many ratings of each user, drawn at random: newcomers of whom little is known yet.

    With the same seed a greater number holds all that a smaller one does. Who has fewer keeps them all.
    """
    if most < 1:
        raise DataError(f"most={most} leaves no rating", "keep at least 1 of each user")
    return ratings.select(_place_among_own(ratings, seed) < most)


def cold_items_split(ratings: Ratings, *, ratio: float = 0.9, seed: int = 0) -> Split:
    """A random share `ratio` of the rated items to train on; all ratings of the others to test."""
    return _cold_split(ratings, ratings.item_index, ratio, seed, "rated items")


def cold_users_split(ratings: Ratings, *, ratio: float = 0.9, seed: int = 0) -> Split:
    """A random share `ratio` of the users who rated to train on; all ratings of the others to test."""
    return _cold_split(ratings, ratings.user_index, ratio, seed, "users who rated")


def split(ratings: Ratings, by: SplitBy, ratio: float, seed: int) -> Split:
    """Cut ratings into a training and a test part; `ratio` is the share of the training part.

    `by` is "random", "time" (the latest ratings are the test), "last" (the last rating of each user), "cold-items" or
    "cold-users" (all ratings of some items or users, which training then knows nothing of). Splits by time and by the
    last of each user ignore the seed, and the latter the ratio.
    """
    refuse_unread(ratings)
    if by == "random":
        return random_split(ratings, ratio=ratio, seed=seed)
    if by == "time":
        return time_split(ratings, ratio=ratio)
    if by == "last":
        return leave_last_out_split(ratings)
    if by == "cold-items":
        return cold_items_split(ratings, ratio=ratio, seed=seed)
    if by == "cold-users":
        return cold_users_split(ratings, ratio=ratio, seed=seed)
    raise DataError(f"there is no split by {by!r}", "use 'random', 'time', 'last', 'cold-items' or 'cold-users'")


def _cold_split(ratings: Ratings, index: Ints, ratio: float, seed: int, what: str) -> Split:
    present = np.unique(index)  # a vocabulary may know ids that have no rating here
    held_out = np.zeros(int(present.max(initial=-1)) + 1, np.bool_)
    held_out[present[_held_out(len(present), ratio, seed, what)]] = True
    return _divided(ratings, held_out[index])


def _times(ratings: Ratings) -> Times:
    if ratings.times is None:
        remedy = "read them with time=..., or split at random"
        raise DataError("these ratings have no times to split by", remedy)
    return ratings.times


def _place_among_own(ratings: Ratings, seed: int) -> npt.NDArray[np.int64]:
    """(n,): which rating of its user each is, from 0, in random order."""
    order = np.lexsort((_generator(seed).permutation(len(ratings)), ratings.user_index))
    starts = np.searchsorted(ratings.user_index, ratings.user_index)  # ratings are sorted by user, as `order` is
    place = np.empty(len(ratings), np.int64)
    place[order] = np.arange(len(ratings)) - starts
    return place


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
