"""Two networks in one model: one reads users, one reads items, and a weight for each pair (stacking)."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.data.sparse import SparseRows
from cofill.models.cfn.scaling import hold_out
from cofill.models.predictor import Given, Predictor, Shares

Counts = npt.NDArray[np.integer]

_RIDGE = 1.0
# A network whose help lowers the squared error of validation ratings by less than this share is not kept.
_LEAST_HELP = 5e-4


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


class Ensemble(Predictor):
    """The weighted sum of a network with rows of users and of one with rows of items (stacking)."""

    def __init__(self, by_user: Predictor, by_item: Predictor, stacking: StackingWeight) -> None:
        """Both share their known ratings and features, which change here alone."""
        super().__init__(by_user.known, by_user.scale, by_user.means, by_user.user_features, by_user.item_features)
        self.by_user, self.by_item, self.stacking = by_user, by_item, stacking

    def item_vectors(self) -> Floats:
        return self.by_item.item_vectors()

    # Questions

    def users(self, users: Longs) -> Floats:
        weight = self.stacking.weight(self.user_counts[users][:, None], self.item_counts)
        return _mixed(self.by_user.users(users), self.by_item.users(users), weight)

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        given = (items, ratings, features)
        weight = self.stacking.weight(np.array(len(ratings)), self.item_counts)
        return _mixed(self.by_user.new_user(*given), self.by_item.new_user(*given), weight)

    def new_user_at(self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        given = (items, ratings, features, asked)
        weight = self.stacking.weight(np.array(len(ratings)), self.item_counts[asked])
        return _mixed(self.by_user.new_user_at(*given), self.by_item.new_user_at(*given), weight)

    def entries(self, users: Ints, items: Ints) -> Floats:
        return _mixed(
            self.by_user.entries(users, items), self.by_item.entries(users, items), self._weight_at(users, items)
        )

    def _weight_at(self, users: Ints, items: Ints) -> Floats:
        user_counts = np.where(users >= 0, self.user_counts[users], 0)
        item_counts = np.where(items >= 0, self.item_counts[items], 0)
        return self.stacking.weight(user_counts, item_counts)

    def interval_radius(self, users: Ints, items: Ints, predicted: Floats) -> Floats | None:
        """The mean of both, weighted as they are: that of their sum is not larger."""
        by_user, by_item = (part.interval_radius(users, items, predicted) for part in self._parts)
        return None if by_user is None or by_item is None else _mixed(by_user, by_item, self._weight_at(users, items))

    def new_user_interval_radius(
        self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        given = (items, ratings, features, asked, predicted)
        by_user, by_item = (part.new_user_interval_radius(*given) for part in self._parts)
        weight = self.stacking.weight(np.array(len(ratings)), self.item_counts[asked])
        return None if by_user is None or by_item is None else _mixed(by_user, by_item, weight)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """Shares of a weighted sum are weighted alike, with the weights as they are for these ratings."""
        weight = self.stacking.weight(np.array(len(given.ratings)), self.item_counts[items]).astype(np.float64)[:, None]
        parts = (part.user_shares(given, items) for part in self._parts)
        return Shares(*(by_item + weight * (by_user - by_item) for by_user, by_item in zip(*parts, strict=True)))

    # Changes

    @property
    def _parts(self) -> tuple[Predictor, Predictor]:
        return self.by_user, self.by_item

    def _grow(self, users: int, items: int) -> tuple[Longs, Longs]:
        new = super()._grow(users, items)
        for part in self._parts:
            part._grow(users, items)
        return new

    def _follow(self, users: list[int], items: list[int]) -> None:
        for part in self._parts:
            part._refresh(np.array(users, np.int64), np.array(items, np.int64))


def _mixed(by_user: Floats, by_item: Floats, weight: Floats) -> Floats:
    mixed: Floats = by_item + weight * (by_user - by_item)
    return mixed
