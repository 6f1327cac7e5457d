"""Weighted sums of two predictors, by the numbers of ratings of a user and an item.

`Ensemble`: a network that reads users and one that reads items (stacking). `Gated`: networks, and biases with slopes,
which know features best, in their place where few ratings are known.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.data.sparse import SparseRows
from cofill.exchange import Exchange
from cofill.models.bias_models import BiasPredictor
from cofill.models.cfn.scaling import hold_out
from cofill.models.predictor import ALL, Given, Predictor, Shares

Counts = npt.NDArray[np.integer]

_RIDGE = 1.0
# A network whose help lowers the squared error of validation ratings by less than this share is not kept.
_LEAST_HELP = 5e-4
_HALVES = (0.0, 0.3, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 40.0, 100.0, 300.0, 1000.0)


@dataclass(frozen=True)
class StackingWeight:
    """The weight of the network that reads users, beside the one that reads items, for a user and an item.

        w = a + b log(1 + n_u) + c log(1 + n_i) + d log(1 + n_u) log(1 + n_i), not below 0 and not above 1

    n_u and n_i are the numbers of their ratings, and logarithms are less their mean on validation ratings.
    """

    coefficients: Doubles  # (4,)
    centres: Doubles  # (2,): means of log(1 + n_u) and of log(1 + n_i)

    @classmethod
    def fit(cls, by_user: Floats, by_item: Floats, actual: Floats, user_counts: Counts, item_counts: Counts) -> Self:
        """From two predictions of validation ratings (n,): ridge regression of what one should move towards the other.

        The squared error is quadratic in the coefficients. Of ratings that are few, the ridge leaves the plain mean.
        """
        logs = [np.log1p(counts.astype(np.float64)) for counts in (user_counts, item_counts)]
        centres = np.array([log.mean() if len(log) else 0.0 for log in logs])
        apart = (by_user - by_item).astype(np.float64)
        inputs = _inputs(*(log - centre for log, centre in zip(logs, centres, strict=True))) * apart[:, None]
        begin = np.array([0.5, 0.0, 0.0, 0.0])
        left = actual.astype(np.float64) - by_item - inputs @ begin
        scale = max(float(apart @ apart) / max(len(apart), 1), 1e-12) * _RIDGE * 10
        moved = np.linalg.solve(inputs.T @ inputs + scale * np.eye(4), inputs.T @ left)
        return cls(begin + moved, centres)

    def weight(self, user_counts: Counts, item_counts: Counts) -> Floats:
        """Of the network that reads users, for counts that are broadcast against each other."""
        user, item = (
            np.log1p(counts.astype(np.float64)) - centre
            for counts, centre in zip((user_counts, item_counts), self.centres, strict=True)
        )
        a, b, c, d = self.coefficients
        weight: Floats = np.clip(a + b * user + (c + d * user) * item, 0.0, 1.0).astype(np.float32)
        return weight


def _inputs(user: Doubles, item: Doubles) -> Doubles:
    return np.column_stack([np.ones_like(user), user, item, user * item])


class Judged:
    """What both networks say of validation ratings: which of them are worth keeping, and the weight between them."""

    def __init__(
        self, by_user: Floats, by_item: Floats, actual: Floats, user_counts: Counts, item_counts: Counts
    ) -> None:
        """Of the same ratings, clipped to the scale."""
        self.stacking = StackingWeight.fit(by_user, by_item, actual, user_counts, item_counts)
        weight = self.stacking.weight(user_counts, item_counts)
        both = by_item + weight * (by_user - by_item)
        self._errors = [float(np.mean((said - actual) ** 2, dtype=np.float64)) for said in (by_user, by_item, both)]

    @classmethod
    def of(cls, by_user: Floats, by_item: Floats, rows: SparseRows, held_out: Longs) -> Self:
        """From predictions of ratings that were held out of these rows of users, each in the order of its own rows."""
        part, validation = hold_out(rows, held_out)
        users, items, ordered = validation.entry_rows, validation.entry_columns, np.empty_like(by_item)
        ordered[np.argsort(items, kind="stable")] = by_item
        item_counts = np.bincount(part.indices, minlength=part.columns)
        return cls(by_user, ordered, validation.ratings, part.counts()[users], item_counts[items])

    @property
    def rmse(self) -> float:
        """Of what is kept."""
        return float(np.sqrt(min(self._errors)))

    @property
    def keeps(self) -> tuple[bool, bool]:
        """Whether the network that reads users is worth keeping, and the one that reads items."""
        by_user, by_item, both = self._errors
        if both > (1 - _LEAST_HELP) * min(by_user, by_item):
            return by_user < by_item, by_item <= by_user
        return True, True


def gate(halves: tuple[float, float], some_counts: Counts, other_counts: Counts) -> Floats:
    """The weight of the network: n^2 / (n^2 + half^2) of users times that of items; 0 without ratings of either."""
    some, others = (
        _gate(half, np.asarray(counts)) for half, counts in zip(halves, (some_counts, other_counts), strict=True)
    )
    return np.asarray(some * others, np.float32)


def _gate(half: float, counts: Counts) -> Doubles:
    squares = counts.astype(np.float64) ** 2
    return np.divide(squares, squares + half**2, out=np.zeros(counts.shape), where=counts > 0)


def best_halves(
    network: Floats, biases: Floats, actual: Floats, some_counts: Counts, other_counts: Counts, exchange: Exchange
) -> tuple[float, float]:
    """With which validation ratings of all processes are predicted best."""
    apart, missed = network - biases, biases - actual
    some, others = (
        [_gate(half, counts).astype(np.float32) for half in _HALVES] for counts in (some_counts, other_counts)
    )
    errors = [np.sum((one * other * apart + missed) ** 2, dtype=np.float64) for one in some for other in others]
    best = int(np.argmin(exchange.all_reduce(np.array(errors))))
    return _HALVES[best // len(_HALVES)], _HALVES[best % len(_HALVES)]


class Blend(Predictor):
    """base + weight * (other - base). Both share their known ratings and features, which change here alone."""

    def __init__(self, base: Predictor, other: Predictor) -> None:
        super().__init__(other.known, other.scale, other.means, other.user_features, other.item_features)
        self.base, self.other = base, other

    def weight(self, user_counts: Counts, item_counts: Counts) -> Floats:
        """Of the other, for users and items with so many ratings, which are broadcast against each other."""
        raise NotImplementedError

    def _mixed(self, base: Floats, other: Floats, user_counts: Counts, item_counts: Counts) -> Floats:
        mixed: Floats = base + self.weight(user_counts, item_counts) * (other - base)
        return mixed

    def _counts_at(self, users: Ints, items: Ints) -> tuple[Counts, Counts]:
        return np.where(users >= 0, self.user_counts[users], 0), np.where(items >= 0, self.item_counts[items], 0)

    # Questions

    def users(self, users: Longs) -> Floats:
        counts = self.user_counts[users][:, None], self.item_counts
        return self._mixed(self.base.users(users), self.other.users(users), *counts)

    def new_user(
        self, items: Ints, ratings: Floats, features: Floats | None = None, asked: Ints | slice = ALL
    ) -> Floats:
        given, counts = (items, ratings, features, asked), (np.array(len(ratings)), self.item_counts[asked])
        return self._mixed(self.base.new_user(*given), self.other.new_user(*given), *counts)

    def entries(self, users: Ints, items: Ints) -> Floats:
        base, other = (part.entries(users, items) for part in (self.base, self.other))
        return self._mixed(base, other, *self._counts_at(users, items))

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """Shares of a weighted sum are weighted alike, with the weights as they are for these ratings."""
        weight = self._weight_of(given, items)
        parts = (part.user_shares(given, items) for part in (self.base, self.other))
        return Shares(*(base + weight * (other - base) for base, other in zip(*parts, strict=True)))

    def _weight_of(self, given: Given, items: Ints) -> Doubles:
        """(n, 1): at items, for a user with these ratings."""
        return self.weight(np.array(len(given.ratings)), self.item_counts[items]).astype(np.float64)[:, None]

    # Changes

    @property
    def networks(self) -> tuple[Predictor, ...]:
        """Those that are told of changes."""
        return self.base, self.other

    def _grow(self, users: int, items: int) -> tuple[Longs, Longs]:
        new = super()._grow(users, items)
        for part in self.networks:
            part._grow(users, items)
        return new

    def _follow(self, users: list[int], items: list[int]) -> None:
        for part in self.networks:
            part._refresh(np.array(users, np.int64), np.array(items, np.int64))


class Ensemble(Blend):
    """The weighted sum of a network with rows of users and of one with rows of items (stacking)."""

    def __init__(self, by_user: Predictor, by_item: Predictor, stacking: StackingWeight) -> None:
        super().__init__(by_item, by_user)
        self.by_user, self.by_item, self.stacking = by_user, by_item, stacking

    def weight(self, user_counts: Counts, item_counts: Counts) -> Floats:
        return self.stacking.weight(user_counts, item_counts)

    def item_vectors(self) -> Floats:
        return self.by_item.item_vectors()

    def interval_radius(self, users: Ints, items: Ints, predicted: Floats) -> Floats | None:
        """The mean of both, weighted as they are: that of their sum is not larger."""
        base, other = (part.interval_radius(users, items, predicted) for part in self.networks)
        return None if base is None or other is None else self._mixed(base, other, *self._counts_at(users, items))

    def new_user_interval_radius(self, given: Given, asked: Ints, predicted: Floats) -> Floats | None:
        base, other = (part.new_user_interval_radius(given, asked, predicted) for part in self.networks)
        counts = np.array(len(given.ratings)), self.item_counts[asked]
        return None if base is None or other is None else self._mixed(base, other, *counts)


class Gated(Blend):
    """weight * network + (1 - weight) * biases with slopes: without ratings of a user or an item the biases alone."""

    def __init__(self, network: Predictor, halves: tuple[float, float]) -> None:
        """`halves`: ratings of users, and of items, with which both count as much."""
        about = network.user_features, network.item_features
        super().__init__(BiasPredictor(network.known, network.scale, network.means, *about), network)
        self.network, self.halves = network, halves

    def weight(self, user_counts: Counts, item_counts: Counts) -> Floats:
        return gate(self.halves, user_counts, item_counts)

    @property
    def networks(self) -> tuple[Predictor, ...]:
        return (self.network,)

    def item_vectors(self) -> Floats:
        return self.network.item_vectors()

    def interval_radius(self, users: Ints, items: Ints, predicted: Floats) -> Floats | None:
        return self.network.interval_radius(users, items, predicted)

    def new_user_interval_radius(self, given: Given, asked: Ints, predicted: Floats) -> Floats | None:
        return self.network.new_user_interval_radius(given, asked, predicted)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """What both differ by where nothing is known of the user is owed to all ratings alike."""
        nobody = np.full(len(items), -1, np.int32)
        apart = self.network.entries(nobody, items) - self.base.entries(nobody, items)
        each = self._weight_of(given, items) * apart[:, None] / max(len(given.ratings), 1)
        shares = super().user_shares(given, items)
        return Shares(shares.ratings + each, shares.features)
