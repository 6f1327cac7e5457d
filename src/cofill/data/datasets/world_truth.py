"""The truth of the synthetic world: what everybody would think of every film, and what they would choose to see.

Before noise and rounding, on the scale,

    liking(u, i) = mean + user_bias[u] + item_bias[i] + strength tanh(taste[u] . attributes[i])

Taste comes in part from age and occupation, attributes in part from genres and year: that part can be known
of somebody, or of a film, without a single rating. Tags are given by attributes, so they tell still more.

    log_odds(u, i) = appeal[i] + choice tanh(interest[u] . themes[i])

A film is rated by those who chose it, so ratings are missing not at random, as in life: mostly known films, mostly
of the kind that somebody expects to like. Interests are the tastes and, beside them, habits that say nothing about
liking: what a circle talks about, what is on. So the order by liking and the order by choosing differ in more than
popularity.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Longs
from cofill.errors import DataError
from cofill.files import replacing

LOW, HIGH = 0.5, 5.0
DIMENSIONS = 8
MATCH_SPREAD = 1.15  # standard deviation of taste . attributes: far enough out for the tanh to bend
ERA = 0  # the dimension in which people of an age like the films of a time
HABITS = 4
HABIT_SPREAD = 0.6  # standard deviation of the habits' part of interest . themes; that of the tastes is 1.15
STEEPER = 0.08  # per unit of choice: as only some are drawn to a film, famous ones need more fame to be as widely seen
SAMPLE = 256  # people whose choices are worked out for the mean over everybody
PAIRS_AT_ONCE = 1 << 20  # of users and items, for which there are temporary arrays
_NUMBERS = ("mean", "strength", "noise")
_ARRAYS = ("user_bias", "item_bias", "taste", "attributes")
_ARRAYS_OF_CHOOSING = ("appeal", "interest", "themes", "counts")


def backgrounds(ages: npt.NDArray[np.int16], occupations: npt.NDArray[np.int8]) -> Doubles:
    """Decade of age and occupation as columns of 0 and 1: (users, decades and occupations)."""
    decades = np.eye(8)[np.clip(ages // 10, 0, 7)]
    trades = np.eye(int(occupations.max(initial=0)) + 1)[occupations]
    return np.concatenate([decades, trades], axis=1)


def traits_from(known: Doubles, share: float, count: int, rng: np.random.Generator) -> Doubles:
    """Random traits of variance 1, of which `share` is a linear function of the columns `known`: (rows, count)."""
    return mixed(share, standardized(known @ rng.normal(size=(known.shape[1], count))), rng)


def mixed(share: float, explained: Doubles, rng: np.random.Generator) -> Doubles:
    """Variables of variance 1, of which the share is explained and the rest is noise."""
    mix: Doubles = np.sqrt(share) * explained + np.sqrt(1 - share) * rng.normal(size=explained.shape)
    return mix


def standardized(columns: npt.NDArray[np.generic]) -> Doubles:
    """Columns of mean 0 and deviation 1, or of zeros where nothing varies."""
    centred = columns.astype(np.float64) - columns.astype(np.float64).mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(centred / np.where(deviation > 1e-9, deviation, 1.0))


@dataclass(frozen=True, eq=False)
class Liking:
    """The formula of liking. user_bias (users,), item_bias (items,), taste (users, k), attributes (items, k)."""

    mean: float
    strength: float
    noise: float
    user_bias: Floats
    item_bias: Floats
    taste: Floats
    attributes: Floats

    def __call__(self, users: npt.ArrayLike, items: npt.ArrayLike) -> Doubles:
        """The noiseless rating for each pair of indices: (n,)."""
        user_index, item_index = np.asarray(users), np.asarray(items)
        match = np.einsum("nk,nk->n", self.taste[user_index], self.attributes[item_index])
        liking = self.mean + self.user_bias[user_index] + self.item_bias[item_index]
        exact = liking.astype(np.float64) + self.strength * np.tanh(match)
        return np.asarray(np.clip(exact, LOW, HIGH))

    def all_items(self, users: npt.ArrayLike) -> Doubles:
        """The noiseless rating of every item by each of these people: (n, items)."""
        user_index = np.asarray(users)
        match = self.taste[user_index] @ self.attributes.T
        exact = (self.mean + self.user_bias[user_index, None] + self.item_bias).astype(np.float64)
        return np.asarray(np.clip(exact + self.strength * np.tanh(match), LOW, HIGH))

    def expected(self, users: npt.ArrayLike, items: npt.ArrayLike) -> Doubles:
        """The mean of the rating that each pair would give: (n,). No prediction has a smaller squared error.

        It differs from the truth near the ends of the scale, where noise and rounding can only go one way.
        """
        return LOW + self._mean_excess(self(users, items), LOW)

    def all_expected(self, users: npt.ArrayLike) -> Doubles:
        """The mean of the rating that each of these people would give to every item: (n, items)."""
        return LOW + self._mean_excess(self.all_items(users), LOW)

    def all_gains(self, users: npt.ArrayLike, relevant: float) -> Doubles:
        """The mean gain, for each of these people, of every item if it is rated: (n, items).

        The gain of NDCG: the rating less the lowest of the scale where it is at least `relevant`, else 0.
        """
        from scipy.special import ndtr

        exact = self.all_items(users)
        least = np.ceil(2 * np.clip(relevant, LOW, HIGH)) / 2  # ratings are half stars
        reached = ndtr((exact - (least - 0.25)) / self.noise)
        return np.asarray((least - LOW) * reached + self._mean_excess(exact, least))

    def _mean_excess(self, exact: Doubles, least: float) -> Doubles:
        """By how much the rating exceeds `least`, a half star, on average, where falling short counts as 0."""
        from scipy.special import ndtr

        excess = np.zeros_like(exact)
        for step in np.arange(least + 0.25, HIGH, 0.5):  # between two half stars
            excess += 0.5 * ndtr((exact - step) / self.noise)
        return excess


def make_liking(
    *, genres: Bools, years: npt.NDArray[np.int16], ages: npt.NDArray[np.int16],
    occupations: npt.NDArray[np.int8], rng: np.random.Generator,
) -> Liking:  # fmt: skip
    """Draw tastes and biases for people of these ages and occupations and films of these genres and years.

    genres (items, genres), years (items,), ages (users,), occupations (users,).
    """
    about_films = genres.astype(np.float64)
    attributes = traits_from(about_films, 0.55, DIMENSIONS, rng)
    attributes[:, ERA] = mixed(0.7, standardized(years[:, None]), rng)[:, 0]
    about_people = backgrounds(ages, occupations)
    taste = traits_from(about_people, 0.4, DIMENSIONS, rng)
    taste[:, ERA] = mixed(0.6, standardized(-ages[:, None]), rng)[:, 0]
    scale = np.sqrt(MATCH_SPREAD / np.sqrt(DIMENSIONS))
    quality = traits_from(about_films, 0.3, 1, rng)[:, 0]
    mildness = traits_from(about_people, 0.15, 1, rng)[:, 0]
    return Liking(
        mean=3.5,
        strength=0.7,
        noise=0.83,
        user_bias=(0.47 * mildness).astype(np.float32),
        item_bias=(0.56 * quality).astype(np.float32),
        taste=(scale * taste).astype(np.float32),
        attributes=(scale * attributes).astype(np.float32),
    )


@dataclass(frozen=True, eq=False)
class Choosing:
    """The formula of choosing. appeal (items,), interest (users, k), themes (items, k); counts (users,): films chosen.

    Each person draws as many films as they rate, without replacement, with probability proportional to exp(log_odds).
    """

    choice: float
    appeal: Floats
    interest: Floats
    themes: Floats
    counts: Longs

    def log_odds(self, users: npt.ArrayLike, items: npt.ArrayLike) -> Doubles:
        """For each pair of indices, up to a constant of the user: (n,)."""
        user_index, item_index = np.asarray(users), np.asarray(items)
        match = np.einsum("nk,nk->n", self.interest[user_index], self.themes[item_index])
        return np.asarray(self.appeal[item_index] + self.choice * np.tanh(match), np.float64)

    def all_log_odds(self, users: npt.ArrayLike) -> Doubles:
        """For every item, up to a constant of the user: (n, items)."""
        match = self.interest[np.asarray(users)] @ self.themes.T
        return np.asarray(self.appeal + self.choice * np.tanh(match), np.float64)

    def probabilities(self, users: npt.ArrayLike) -> Doubles:
        """How likely each person is to have chosen each item: (n, items), summing to the person's count.

        To draw without replacement by weights w is to take the first to arrive when item i comes after an exponential
        time of rate w_i. Whoever waits until time t has chosen i with probability 1 - exp(-w_i t); t is that by which
        as many as the person's count are expected. (The draw stops at the count instead, which makes little difference
        beyond a few items.)
        """
        user_index = np.asarray(users)
        chosen = np.empty((len(user_index), len(self.appeal)))
        for part in self._parts(len(user_index)):
            odds = self.all_log_odds(user_index[part])
            weights = np.exp(odds - odds.max(axis=1, keepdims=True))
            chosen[part] = _chosen_by_the_time(weights, self.counts[user_index[part]])
        return chosen

    def _parts(self, users: int) -> Iterator[slice]:
        at_once = max(1, PAIRS_AT_ONCE // len(self.appeal))
        return (slice(start, start + at_once) for start in range(0, users, at_once))


def make_choosing(
    choice: float, *, taste: Floats, attributes: Floats, fame: Doubles, about_people: Doubles, about_films: Doubles,
    counts: Longs, rng: np.random.Generator,
) -> Choosing:  # fmt: skip
    """Draw habits, and give each film the appeal by which its share of all choices is about its fame.

    taste (users, k), attributes (items, k); fame (items,), summing to 1; what is known of people (users, b) and films
    (items, g) explains a part of the habits; counts (users,).
    """
    scale = np.sqrt(HABIT_SPREAD / np.sqrt(HABITS))
    habits = scale * traits_from(about_people, 0.4, HABITS, rng)
    scenes = scale * traits_from(about_films, 0.55, HABITS, rng)
    interest = np.concatenate([taste, habits], axis=1).astype(np.float32)
    themes = np.concatenate([attributes, scenes], axis=1).astype(np.float32)
    sample = rng.integers(len(taste), size=SAMPLE)
    drawn = np.zeros(len(fame))
    for start in range(0, SAMPLE, 32):  # 32 x items at once
        drawn += np.exp(choice * np.tanh(interest[sample[start : start + 32]] @ themes.T)).sum(axis=0)
    appeal = (1 + STEEPER * choice) * np.log(np.maximum(fame, 1e-12)) - np.log(drawn / SAMPLE)
    return Choosing(choice, appeal.astype(np.float32), interest, themes, counts)


def _chosen_by_the_time(weights: Doubles, counts: Longs) -> Doubles:
    """1 - exp(-w t), t such that each row sums to its count: (n, items).

    Newton's method on log(sum exp(-w t)) = log(items - count): convex and falling in t, so that from a t too small no
    step goes too far. A row that must sum to all items has no such t, and is all ones.
    """
    items = weights.shape[1]
    left = np.maximum(items - counts, 0)
    target = np.log(np.maximum(left, 1))
    time = counts / weights.sum(axis=1)
    for _ in range(100):
        missing = np.exp(-weights * time[:, None])
        total = missing.sum(axis=1)
        step = (np.log(total) - target) * total / (missing * weights).sum(axis=1)
        time += np.maximum(step, 0)
        if (step <= 1e-9 * time).all():
            break
    return np.where(left[:, None] > 0, -np.expm1(-weights * time[:, None]), 1.0)


@dataclass(frozen=True, eq=False)
class Truth(Liking):
    """`truth(users, items)` are true ratings, `truth.choosing.log_odds(users, items)` how likely a rating is there.

    Liking and choosing are kept apart: predictions of ratings are measured against liking, lists against both.
    """

    choosing: Choosing

    def best_scores(self, users: npt.ArrayLike, *, relevant: float = 4.0, held_out: float = 0.1) -> Doubles:
        """Scores whose order is the best possible list, among the items that were not trained on: (n, items).

        `relevant` is the least rating that counts, `held_out` the share of all ratings that was drawn for the test.

        The score is the mean gain of NDCG: the probability that the item is among the person's held-out ratings, times
        the mean of what it then gains (the rating less the lowest of the scale if it is relevant, else nothing). The
        discounted gain of a list is a sum over its places, of weights that fall from place to place, so no order has a
        higher mean than that by mean gain; and what a person chose and how they liked it is drawn independently given
        the truth, so the two factors multiply. NDCG divides by the gain of the ideal list, which hardly
        depends on any one item: that the best for the one is the best for the other is close to exact, not exact.

        With p the probability that it was chosen at all, an item unknown to the training is held out with probability
        p h / (1 - p (1 - h)), which is close to 1 for an item that this person has almost certainly seen.
        """
        user_index = np.asarray(users)
        chosen = self.choosing.probabilities(user_index)
        chosen *= held_out / (1 - (1 - held_out) * chosen)
        return np.asarray(chosen * self.all_gains(user_index, relevant))

    def write(self, path: Path) -> None:
        """Write a safetensors file from which `read_truth` makes the same truth again."""
        from safetensors.numpy import save

        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {name: getattr(self.choosing, name) for name in _ARRAYS_OF_CHOOSING}
        numbers = {name: repr(getattr(self, name)) for name in _NUMBERS} | {"choice": repr(self.choosing.choice)}
        content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata=numbers)
        with replacing(path, DataError) as draft:
            draft.write_bytes(content)


def read_truth(path: Path) -> Truth:
    """Read what `Truth.write` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            mean, strength, noise, choice = (float(file.metadata()[name]) for name in (*_NUMBERS, "choice"))
            user_bias, item_bias, taste, attributes = (file.get_tensor(name) for name in _ARRAYS)
            choosing = Choosing(choice, *(file.get_tensor(name) for name in _ARRAYS_OF_CHOOSING))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: not the truth of a world ({error}). Name the truth.safetensors that World.write made."
        ) from error
    return Truth(mean, strength, noise, user_bias, item_bias, taste, attributes, choosing)
