"""What people in the synthetic world choose to see, which is not the same as what they would like.

    log_odds(u, i) = appeal[i] + choice tanh(interest[u] . themes[i])

A film is rated by those who chose it, so ratings are missing not at random, as in life: mostly known films, mostly
of the kind that somebody expects to like. Interests are the tastes of `world_liking` and, beside them, habits that
say nothing about liking: what a circle talks about, what is on. So the order by liking and the order by choosing
differ in more than popularity.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cofill.arrays import Doubles, Floats, Longs
from cofill.data.datasets.world_traits import traits_from

Counts = Longs

HABITS = 4
HABIT_SPREAD = 0.6  # standard deviation of the habits' part of interest . themes; that of the tastes is 1.15
STEEPER = 0.08  # per unit of choice: as only some are drawn to a film, famous ones need more fame to be as widely seen
SAMPLE = 256  # people whose choices are worked out for the mean over everybody
PAIRS_AT_ONCE = 1 << 20  # of users and items, for which there are temporary arrays


@dataclass(frozen=True, eq=False)
class Choosing:
    """The formula above. appeal (items,), interest (users, k), themes (items, k); counts (users,): films chosen.

    Each person draws as many films as they rate, without replacement, with probability proportional to exp(log_odds).
    """

    choice: float
    appeal: Floats
    interest: Floats
    themes: Floats
    counts: Counts

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
    counts: Counts, rng: np.random.Generator,
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


def _chosen_by_the_time(weights: Doubles, counts: Counts) -> Doubles:
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
