"""What a fitted model predicts: the rating that any user would give any item, hot, warm or cold."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import KnownRatings
from cofill.models.biases import Biases

# Ratings that are replaced one by one to explain a prediction: each costs a fold-in.
_ONE_BY_ONE = 200


class Given(NamedTuple):
    """A user who is asked about: the index of a known one, or -1 and what is known of a new one."""

    others: Ints  # (n,): the items that they rated
    ratings: Floats  # (n,), NaN for what was done and not rated
    features: Floats | None = None  # (P,), None where nothing is known
    widths: tuple[int, ...] = ()  # how many features each input column has: they are explained as one
    number: int = -1
    places: Longs | None = None  # (n,): in which order a new user did these things; by number if unknown
    times: Doubles | None = None  # (n,): when
    at: float | None = None  # the time of the request; the latest known unless it is given


ALL = slice(None)
STRANGER = Given(np.empty(0, np.int32), np.empty(0, np.float32))
"""An unknown user."""


class Shares(NamedTuple):
    """How far each rating and each input column of features moves m predictions."""

    ratings: Doubles  # (m, n)
    features: Doubles  # (m, input columns)


def by_input_column(shares: Doubles, widths: tuple[int, ...]) -> Doubles:
    """(m, features) -> (m, input columns): features of one input column together; none where no widths are known."""
    if not widths:
        return np.zeros((len(shares), 0))
    return np.column_stack([part.sum(1) for part in np.split(shares, np.cumsum(widths[:-1], dtype=int), axis=1)])


class Predictor:
    """Predictions in ratings, not clipped to the scale, that follow every added rating and feature.

    What is predicted depends on the ratings and features alone, not on the order in which they came, on what came and
    went, or on what was asked between.

    By itself it predicts the biases. An algorithm overrides the questions, and `_follow`, which tells it what has
    changed; it calls `_apply_updates` at the end of its `__init__`.
    """

    def __init__(
        self,
        known: KnownRatings,
        scale: Scale,
        means: Biases,
        user_features: SideFeatures,
        item_features: SideFeatures,
    ) -> None:
        """Rows are users and columns are items, of the ratings and of the means."""
        self.known, self.scale, self.means = known, scale, means
        self.user_features, self.item_features = user_features, item_features

    @property
    def user_counts(self) -> Longs:
        """(users,): ratings of each."""
        return self.known.row_counts

    @property
    def item_counts(self) -> Longs:
        """(items,): ratings of each."""
        return self.known.column_counts

    def item_known(self) -> Bools:
        """(items,): of which items anything is known that the algorithm can make use of."""
        return np.asarray((self.item_counts > 0) | self.item_features.described)

    def item_vectors(self) -> Floats:
        """(items, width): item embeddings: similar items have similar vectors. Width 0: nothing makes them similar."""
        return np.zeros((self.known.columns, 0), np.float32)

    # Questions

    def user(self, user: int) -> Floats:
        """Every item (items,) for one user."""
        alone: Floats = self.users(np.array([user]))[0]
        return alone

    def users(self, users: Longs) -> Floats:
        """(n, items) for some users at a time."""
        return self.means.at_rows(users)

    def new_user(
        self, items: Ints, ratings: Floats, features: Floats | None = None, asked: Ints | slice = ALL
    ) -> Floats:
        """Some items (n,), or all, for a user known only by these ratings and, where there are any, features (P,)."""
        return self.means.of_new_row(items, ratings, or_zeros(features, self.user_features.width), asked)

    def entries(self, users: Ints, items: Ints) -> Floats:
        """(n,) ratings at pairs; an index of -1 is an id that was never seen."""
        predicted = self.means.at_pairs(users, items)
        self._fill_entries(predicted, np.flatnonzero((users >= 0) & (items >= 0)), users, items)
        return predicted

    def _fill_entries(self, predicted: Floats, seen: Longs, users: Ints, items: Ints) -> None:
        """Improve on the biases (n,) of pairs (n,), (n,) at the places `seen`, whose ids are both known."""

    def interval_radius(self, users: Ints, items: Ints, predicted: Floats) -> Floats | None:
        """(n,): how far to either side of predictions at pairs nine tenths of ratings are; None if that is unknown."""
        return None

    def new_user_interval_radius(self, given: Given, asked: Ints, predicted: Floats) -> Floats | None:
        """(n,): the same of a user who is not known by number, at some items."""
        return None

    def of(self, given: Given) -> Floats:
        """Every item (items,) for a user, known or new."""
        return self.user(given.number) if given.number >= 0 else self.new_user(*given[:3])

    def at(self, given: Given, items: Ints) -> Floats:
        """(n,): the same at some items."""
        if given.number >= 0:
            return self.entries(np.full(len(items), given.number, np.int32), items)
        return self.new_user(*given[:3], items)

    def radius_at(self, given: Given, items: Ints, predicted: Floats) -> Floats | None:
        """(n,): how far to either side of these predictions nine tenths of ratings are; None if that is unknown."""
        if given.number >= 0:
            return self.interval_radius(np.full(len(items), given.number, np.int32), items, predicted)
        return self.new_user_interval_radius(given, items, predicted)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """How far the ratings and features of a user, known or new, move the predictions at these items.

        A rating's share is what the prediction loses if it is replaced by the prediction for an unknown user, that of a
        feature what it loses without it. What remains beyond the prediction for an unknown user is shared evenly. Of
        very many ratings, those that are nearest to the unknown user's are replaced together.
        """
        others, ratings, count = given.others, given.ratings, len(given.others)
        vector = or_zeros(given.features, self.user_features.width)
        column_of = np.repeat(np.arange(len(given.widths)), given.widths)
        shares = np.zeros((len(items), count + len(given.widths)))
        told = count + np.unique(column_of[vector[: len(column_of)] != 0])
        if not count + len(told):
            return Shares(shares[:, :0], shares)
        stranger = self.new_user(others[:0], ratings[:0])
        usual = stranger[others]

        def predicted(replaced: Longs) -> Doubles:
            other, features = ratings.copy(), None
            other[replaced[replaced < count]] = usual[replaced[replaced < count]]
            if given.features is not None:
                features = (
                    np.where(np.isin(count + column_of, replaced), np.float32(0), vector) if len(told) else vector
                )
            return np.asarray(self.new_user(others, other, features, items), np.float64)

        whole = predicted(told[:0])
        order = np.argsort(-np.abs(ratings - usual), kind="stable")
        for place in [*order[:_ONE_BY_ONE], *told]:
            shares[:, place] = whole - predicted(np.array([place]))
        rest = order[_ONE_BY_ONE:]
        if len(rest):
            shares[:, rest] = ((whole - predicted(rest)) / len(rest))[:, None]
        left = whole - stranger[items] - shares.sum(1)
        shares[:, np.append(order, told)] += (left / (count + len(told)))[:, None]
        return Shares(shares[:, :count], shares[:, count:])

    # Changes

    def add(self, users: Ints, items: Ints, ratings: Floats) -> None:
        """Add or replace ratings, of known or new users and items; predictions follow at once."""
        new = self.known.add(users, items, ratings)
        new_users, new_items = self._grow(0, 0)
        self._refresh(np.concatenate([new_users, users[new]]), np.concatenate([new_items, items[new]]))

    def remove(self, users: Ints, items: Ints) -> None:
        """Remove the ratings of these pairs, if they are known; predictions follow at once."""
        gone = self.known.remove(users, items)
        self._refresh(users[gone], items[gone])

    def grow(self, users: int, items: int) -> None:
        """Make room for at least so many users and items, new ones without a rating and without features."""
        self._refresh(*self._grow(users, items))

    def describe_users(self, users: Ints, features: Floats) -> None:
        """Set the features of some users, old or new: (n,), (n, P). NaN throughout: a user is no longer described."""
        new_users, new_items = self._grow(int(users.max(initial=-1)) + 1, 0)
        for user, vector in zip(users.tolist(), features, strict=True):
            self.user_features.describe(user, vector)
        self._refresh(np.concatenate([new_users, users]), new_items)

    def describe_items(self, items: Ints, features: Floats) -> None:
        """Set the features of some items, old or new: (n,), (n, Q), likewise."""
        new_users, new_items = self._grow(0, int(items.max(initial=-1)) + 1)
        for item, vector in zip(items.tolist(), features, strict=True):
            self.item_features.describe(item, vector)
        self._refresh(new_users, np.concatenate([new_items, items]))

    def _apply_updates(self) -> None:
        """Apply the changes since the training: a model from a file may have been changed before it was saved."""
        known, of_users, of_items = self.known, self.user_features, self.item_features
        new_users, new_items = self._grow(len(of_users.values), len(of_items.values))
        self._refresh(
            np.concatenate([new_users, known.changed_rows(), of_users.later()[0]]),
            np.concatenate([new_items, known.changed_columns(), of_items.later()[0]]),
        )

    def _grow(self, users: int, items: int) -> tuple[Longs, Longs]:
        """Make room for at least so many users and items. Those that are new, to be refreshed."""
        known, means = self.known, self.means
        old_users, old_items = len(means.rows.now), len(means.columns.now)
        known.grow(users, items)
        self.user_features.grow(known.rows)
        self.item_features.grow(known.columns)
        means.grow(known.rows, known.columns)
        self._make_room()
        return np.arange(old_users, known.rows), np.arange(old_items, known.columns)

    def _refresh(self, users: npt.NDArray[np.integer], items: npt.NDArray[np.integer]) -> None:
        """Bring up to date what depends on the ratings and features of these users and items."""
        known, means = self.known, self.means
        users, items = np.unique(users), np.unique(items)
        for user in users.tolist():
            if self.user_as_trained(user):
                means.reset_row(user)
            else:
                means.set_row(user, *known.row(user), self.user_features.values[user])
        by_item = means.transposed()
        for item in items.tolist():
            if self.item_as_trained(item):
                by_item.reset_row(item)
            else:
                by_item.set_row(item, *known.column(item), self.item_features.values[item])
        self._follow(users.tolist(), items.tolist())

    def _make_room(self) -> None:
        """There are more users or items: arrays that have one entry for each must grow."""

    def _follow(self, users: list[int], items: list[int]) -> None:
        """These users and items, ascending, have other ratings or features than before, or are new."""

    def user_as_trained(self, user: int) -> bool:
        """Whether a user has the ratings and features of the training, and no others."""
        return self.known.row_as_trained(user) and described_as_trained(self.user_features, user)

    def item_as_trained(self, item: int) -> bool:
        """Whether an item has the ratings and features of the training, and no others."""
        return self.known.column_as_trained(item) and described_as_trained(self.item_features, item)


def described_as_trained(features: SideFeatures, index: int) -> bool:
    """Whether a user or an item has the features that it was trained with."""
    return (
        index < len(features.trained)
        and features.described[index] == features.trained_described[index]
        and np.array_equal(features.values[index], features.trained[index])
    )


def or_zeros(features: Floats | None, width: int) -> Floats:
    """Features that say nothing where nothing is known."""
    return np.zeros(width, np.float32) if features is None else features
