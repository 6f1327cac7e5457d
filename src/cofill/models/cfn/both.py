"""Two networks in one model: one reads users, one reads items, and a gate decides how much each is believed."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.models.cfn.training import ValidationAnswers
from cofill.models.known import KnownRatings
from cofill.models.matrix import Flags, Floats, Ints, Longs, Matrix
from cofill.models.results import Given, Shares

Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.integer]

_RIDGE = 1.0
# A network whose help lowers the squared error of validation ratings by less than this share is not kept.
_LEAST_HELP = 5e-4


@dataclass(frozen=True)
class Gate:
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
    """What both networks say of validation ratings: which of them are worth keeping, and the gate between them."""

    def __init__(
        self, by_user: Floats, by_item: Floats, actual: Floats, user_counts: Counts, item_counts: Counts
    ) -> None:
        """Of the same ratings, clipped to the scale."""
        self.gate = Gate.fit(by_user, by_item, actual, user_counts, item_counts)
        weight = self.gate.weight(user_counts, item_counts)
        both = by_item + weight * (by_user - by_item)
        self._errors = [float(np.mean((said - actual) ** 2, dtype=np.float64)) for said in (by_user, by_item, both)]

    @classmethod
    def of(cls, by_user: ValidationAnswers, by_item: ValidationAnswers) -> Self:
        """From the answers of a network with rows of users and of one with rows of items."""
        order = np.lexsort((by_item.rows, by_item.columns))
        return cls(
            by_user.predicted, by_item.predicted[order], by_user.ratings, by_user.row_counts, by_user.column_counts
        )

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


class BothMatrix(Matrix):
    """Users x items, predicted by a network with rows of users and one with rows of items."""

    def __init__(self, by_user: Matrix, by_item: Matrix, gate: Gate) -> None:
        """Both are users x items, and have known ratings and features of their own."""
        self.by_user, self.by_item, self.gate = by_user, by_item, gate

    # What there is

    @property
    def known(self) -> KnownRatings:
        return self.by_user.known

    @property
    def scale(self) -> Scale:
        return self.by_user.scale

    @property
    def row_features(self) -> SideFeatures:
        return self.by_user.row_features

    @property
    def column_features(self) -> SideFeatures:
        return self.by_user.column_features

    @property
    def row_counts(self) -> Longs:
        return self.by_user.row_counts

    @property
    def column_counts(self) -> Longs:
        return self.by_user.column_counts

    def row_known(self) -> Flags:
        return self.by_user.row_known()

    def column_known(self) -> Flags:
        return self.by_user.column_known()

    def row_vectors(self) -> Floats:
        return self.by_user.row_vectors()

    def column_vectors(self) -> Floats:
        return self.by_item.column_vectors()

    # Questions

    def row(self, row: int) -> Floats:
        weight = self.gate.weight(self.row_counts[row], self.column_counts)
        return _mixed(self.by_user.row(row), self.by_item.row(row), weight)

    def column(self, column: int) -> Floats:
        weight = self.gate.weight(self.row_counts, self.column_counts[column])
        return _mixed(self.by_user.column(column), self.by_item.column(column), weight)

    def new_row(self, columns: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        weight = self.gate.weight(np.array(len(ratings)), self.column_counts)
        return _mixed(
            self.by_user.new_row(columns, ratings, features), self.by_item.new_row(columns, ratings, features), weight
        )

    def new_column(self, rows: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        weight = self.gate.weight(self.row_counts, np.array(len(ratings)))
        return _mixed(
            self.by_user.new_column(rows, ratings, features), self.by_item.new_column(rows, ratings, features), weight
        )

    def new_row_at(self, columns: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        weight = self.gate.weight(np.array(len(ratings)), self.column_counts[asked])
        return _mixed(
            self.by_user.new_row_at(columns, ratings, features, asked),
            self.by_item.new_row_at(columns, ratings, features, asked),
            weight,
        )

    def new_column_at(self, rows: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        weight = self.gate.weight(self.row_counts[asked], np.array(len(ratings)))
        return _mixed(
            self.by_user.new_column_at(rows, ratings, features, asked),
            self.by_item.new_column_at(rows, ratings, features, asked),
            weight,
        )

    def entries(self, rows: Ints, columns: Ints) -> Floats:
        weight = self._weight_at(rows, columns)
        return _mixed(self.by_user.entries(rows, columns), self.by_item.entries(rows, columns), weight)

    def _weight_at(self, rows: Ints, columns: Ints) -> Floats:
        row_counts = np.where(rows >= 0, self.row_counts[rows], 0)
        column_counts = np.where(columns >= 0, self.column_counts[columns], 0)
        return self.gate.weight(row_counts, column_counts)

    def half_widths(self, rows: Ints, columns: Ints, predicted: Floats) -> Floats | None:
        """The mean of both, weighed by the gate: their mixture is not worse than that."""
        by_user, by_item = (part.half_widths(rows, columns, predicted) for part in self._parts)
        return _mixed_widths(by_user, by_item, self._weight_at(rows, columns))

    def new_row_half_widths(
        self, columns: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        about = (columns, ratings, features, asked, predicted)
        by_user, by_item = (part.new_row_half_widths(*about) for part in self._parts)
        return _mixed_widths(by_user, by_item, self.gate.weight(np.array(len(ratings)), self.column_counts[asked]))

    def new_column_half_widths(
        self, rows: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        about = (rows, ratings, features, asked, predicted)
        by_user, by_item = (part.new_column_half_widths(*about) for part in self._parts)
        return _mixed_widths(by_user, by_item, self.gate.weight(self.row_counts[asked], np.array(len(ratings))))

    def quickest_order(self, rows: Ints, columns: Ints) -> Longs:
        return self.by_item.quickest_order(rows, columns)

    def many_rows(self, rows: Longs) -> Floats:
        weight = self.gate.weight(self.row_counts[rows][:, None], self.column_counts)
        return _mixed(self.by_user.many_rows(rows), self.by_item.many_rows(rows), weight)

    def many_columns(self, columns: Longs) -> Floats:
        weight = self.gate.weight(self.row_counts, self.column_counts[columns][:, None])
        return _mixed(self.by_user.many_columns(columns), self.by_item.many_columns(columns), weight)

    def row_shares(self, given: Given, columns: Ints) -> Shares:
        weight = self.gate.weight(np.array(len(given.ratings)), self.column_counts[columns])
        return _mixed_shares(self.by_user.row_shares(given, columns), self.by_item.row_shares(given, columns), weight)

    def column_shares(self, given: Given, rows: Ints) -> Shares:
        weight = self.gate.weight(self.row_counts[rows], np.array(len(given.ratings)))
        return _mixed_shares(self.by_user.column_shares(given, rows), self.by_item.column_shares(given, rows), weight)

    @property
    def _parts(self) -> tuple[Matrix, Matrix]:
        return self.by_user, self.by_item

    # Changes

    def add(self, rows: Ints, columns: Ints, ratings: Floats) -> None:
        for part in self._parts:
            part.add(rows, columns, ratings)

    def remove(self, rows: Ints, columns: Ints) -> None:
        for part in self._parts:
            part.remove(rows, columns)

    def grow(self, rows: int, columns: int) -> None:
        for part in self._parts:
            part.grow(rows, columns)

    def describe_rows(self, rows: Ints, features: Floats) -> None:
        for part in self._parts:
            part.describe_rows(rows, features)

    def describe_columns(self, columns: Ints, features: Floats) -> None:
        for part in self._parts:
            part.describe_columns(columns, features)


def _mixed(by_user: Floats, by_item: Floats, weight: Floats) -> Floats:
    mixed: Floats = by_item + weight * (by_user - by_item)
    return mixed


def _mixed_widths(by_user: Floats | None, by_item: Floats | None, weight: Floats) -> Floats | None:
    return None if by_user is None or by_item is None else _mixed(by_user, by_item, weight)


def _mixed_shares(by_user: Shares, by_item: Shares, weight: Floats) -> Shares:
    """Shares of a weighted sum are weighted alike. With the gate as it is for these ratings."""
    share = weight.astype(np.float64)[:, None]
    return Shares(*(item + share * (user - item) for user, item in zip(by_user, by_item, strict=True)))
