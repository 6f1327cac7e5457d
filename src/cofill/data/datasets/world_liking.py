"""What every person of the synthetic world would think of every film, before noise and rounding.

    liking(u, i) = mean + user_bias[u] + item_bias[i] + strength tanh(taste[u] . attributes[i]),  on the scale

Taste comes in part from age and occupation, attributes in part from genres and year: that part can be known
of somebody, or of a film, without a single rating. Tags are given by attributes, so they tell still more.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats
from cofill.data.datasets.world_traits import backgrounds, mixed, standardized, traits_from

LOW, HIGH = 0.5, 5.0
DIMENSIONS = 8
MATCH_SPREAD = 1.15  # standard deviation of taste . attributes: far enough out for the tanh to bend
ERA = 0  # the dimension in which people of an age like the films of a time


@dataclass(frozen=True, eq=False)
class Liking:
    """The formula above. user_bias (users,), item_bias (items,), taste (users, k), attributes (items, k)."""

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
