"""Where few ratings are known, biases with slopes beside the network: they know features best."""

import numpy as np
import numpy.typing as npt

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.exchange import Exchange
from cofill.models.predictor import Given, Predictor, Shares, by_input_column, or_zeros

_HALVES = (0.0, 0.3, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 40.0, 100.0, 300.0, 1000.0)
Counts = npt.NDArray[np.integer]


def gate(halves: tuple[float, float], some_counts: Counts, other_counts: Counts) -> Floats:
    """The weight of the network: n^2 / (n^2 + half^2) of users times that of items; 0 without ratings of either."""
    some, others = (
        _weight(half, np.asarray(counts)) for half, counts in zip(halves, (some_counts, other_counts), strict=True)
    )
    return np.asarray(some * others, np.float32)


def _weight(half: float, counts: Counts) -> Doubles:
    squares = counts.astype(np.float64) ** 2
    return np.divide(squares, squares + half**2, out=np.zeros(counts.shape), where=counts > 0)


def best_halves(
    network: Floats, biases: Floats, actual: Floats, some_counts: Counts, other_counts: Counts, exchange: Exchange
) -> tuple[float, float]:
    """With which validation ratings of all processes are predicted best."""
    apart, missed = network - biases, biases - actual
    some, others = (
        [_weight(half, counts).astype(np.float32) for half in _HALVES] for counts in (some_counts, other_counts)
    )
    errors = [np.sum((one * other * apart + missed) ** 2, dtype=np.float64) for one in some for other in others]
    best = int(np.argmin(exchange.all_reduce(np.array(errors))))
    return _HALVES[best // len(_HALVES)], _HALVES[best % len(_HALVES)]


class Gated(Predictor):
    """weight * network + (1 - weight) * biases with slopes: without ratings of a user or an item the biases alone."""

    def __init__(self, network: Predictor, halves: tuple[float, float]) -> None:
        """Both share their known ratings, features and biases, which change here alone. `halves`: users, items."""
        super().__init__(network.known, network.scale, network.means, network.user_features, network.item_features)
        self.network, self.halves = network, halves

    def item_vectors(self) -> Floats:
        return self.network.item_vectors()

    # Questions

    def _mixed(self, network: Floats, biases: Floats, user_counts: Counts, item_counts: Counts) -> Floats:
        mixed: Floats = biases + gate(self.halves, user_counts, item_counts) * (network - biases)
        return mixed

    def users(self, users: Longs) -> Floats:
        counts = self.user_counts[users][:, None]
        return self._mixed(self.network.users(users), super().users(users), counts, self.item_counts)

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        given = (items, ratings, features)
        counts = np.array(len(ratings)), self.item_counts
        return self._mixed(self.network.new_user(*given), super().new_user(*given), *counts)

    def new_user_at(self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        network = self.network.new_user_at(items, ratings, features, asked)
        biases = self.means.of_new_row(items, ratings, or_zeros(features, self.user_features.width), asked)
        return self._mixed(network, biases, np.array(len(ratings)), self.item_counts[asked])

    def entries(self, users: Ints, items: Ints) -> Floats:
        counts = np.where(users >= 0, self.user_counts[users], 0), np.where(items >= 0, self.item_counts[items], 0)
        return self._mixed(self.network.entries(users, items), super().entries(users, items), *counts)

    def interval_radius(self, users: Ints, items: Ints, predicted: Floats) -> Floats | None:
        return self.network.interval_radius(users, items, predicted)

    def new_user_interval_radius(
        self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        return self.network.new_user_interval_radius(items, ratings, features, asked, predicted)

    def quickest_order(self, users: Ints, items: Ints) -> Longs:
        return self.network.quickest_order(users, items)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """Both weighted alike. What they differ by where nothing is known of the user is owed to all ratings alike."""
        vector = or_zeros(given.features, self.user_features.width)
        by_rating, by_feature = self.means.shares(given.others, given.ratings, vector, items)
        biases = Shares(by_rating, by_input_column(by_feature, given.widths))
        network = self.network.user_shares(given, items)
        weight = gate(self.halves, np.array(len(given.ratings)), self.item_counts[items]).astype(np.float64)[:, None]
        nobody = np.full(len(items), -1, np.int32)
        apart = self.network.entries(nobody, items) - super().entries(nobody, items)
        each = weight * apart[:, None] / max(len(given.ratings), 1)
        ratings, features = (of + weight * (by - of) for by, of in zip(network, biases, strict=True))
        return Shares(ratings + each, features)

    # Changes

    def _grow(self, users: int, items: int) -> tuple[Longs, Longs]:
        new = super()._grow(users, items)
        self.network._grow(users, items)
        return new

    def _follow(self, users: list[int], items: list[int]) -> None:
        self.network._refresh(np.array(users, np.int64), np.array(items, np.int64))
