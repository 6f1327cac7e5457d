"""What scores items for lists: the interface, and the scorer of every model, which follows ratings, people and items.

A `ListScorer` is given what a user did, as items and grades, and scores every item that the model knows by now. It
is told when ratings or features change, and works that in when it is next asked.

The way of the usual one: `Feedback` -> its Gram matrix -> weights between items (`ItemWeights`) -> scores.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from cofill.arrays import Arrays, Bools, Doubles, Floats, Ints, Longs, grown
from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.models.lists.by_features import ByFeatures, KernelRegression
from cofill.models.lists.feedback import Feedback, Recency, as_csr, entries_where, joined
from cofill.models.lists.item_weights import (
    AS_FITTED,
    FitOptions,
    FoldedIn,
    History,
    ItemVectors,
    ItemWeights,
    Penalties,
    fit_weights,
    restored_weights,
)
from cofill.models.rng import Keys
from cofill.models.slopes import FeatureRegression


class Sides(NamedTuple):
    """What is known of the users and items of a model beside what people did, as it stands now."""

    users: SideFeatures
    items: SideFeatures


class KeysOfSides(NamedTuple):
    """What is drawn by, for users and for items."""

    users: Keys  # (users,)
    items: Keys  # (items,)


class About(NamedTuple):
    """What is known of n people beside what they did."""

    features: Floats  # (n, P)
    described: Bools  # (n,): whether anything is known


# An item whose ratings have changed by at least this share of those in training is folded in anew.
_CHANGED_SHARE = 0.1

_Folded = TypeVar("_Folded")


class Followed(Generic[_Folded]):
    """Items that are not, or no longer, scored as they were fitted: how every scorer follows what people do.

    An item that is new, or of which a share of the ratings has changed, is folded in: from the grades of those who
    rated it and what these did in training (those who came later: what they did since). So what is said depends on
    ratings alone, not on the order they came in, and what came and went leaves no trace.
    """

    def __init__(
        self,
        feedback: Feedback,
        ratings: npt.NDArray[np.integer[Any]],
        fold_in: Callable[[int, Ints, Floats], _Folded],
        share: float = _CHANGED_SHARE,
    ) -> None:
        """`ratings` (fitted items,): how many people did something with each; `fold_in` is given an item, its users
        and their grades.
        """
        self._feedback, self._ratings, self._fold_in, self._share = feedback, ratings, fold_in, share
        self.items: dict[int, _Folded] = {}
        """Items that were folded in."""
        self.unrated: Bools = ratings == 0
        """(items,): those without ratings."""
        self._stale = feedback.changed_items()
        self.version = 0
        """It grows whenever anything is folded in anew."""
        self._rows: tuple[int, npt.NDArray[Any]] | None = None

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        """The ratings or features of these users and items are others from now on."""
        self._stale.update(items)
        for user in users:
            if not len(self._feedback.trained_row(user)[0]):
                self._stale |= self._feedback.later_items(user)  # what was folded in of these leans on this user

    def up_to_date(self) -> Self:
        """Everything that has changed is folded in."""
        missing = self._feedback.items - len(self.unrated)
        if not self._stale and missing <= 0:
            return self
        self.unrated = np.append(self.unrated, np.ones(max(missing, 0), np.bool_))
        changed = self._feedback.changed_items()
        for item in sorted(self._stale):
            self.items.pop(item, None)
            users, grades = self._feedback.column(item)
            self.unrated[item] = not len(users)
            if len(users) and self._differs(item, item in changed):
                self.items[item] = self._fold_in(item, users, grades)
        self._stale = set()
        self.items = dict(sorted(self.items.items()))
        self.version += 1
        return self

    def _differs(self, item: int, changed: bool) -> bool:
        if item >= len(self._ratings) or not self._ratings[item]:
            return True
        return changed and self._feedback.changes(item) >= self._share * int(self._ratings[item])

    def did(self, user: int) -> tuple[Ints, Floats]:
        """What a user did in training, or since if that was nothing, of the items that were fitted."""
        items, grades = self._feedback.trained_row(user)
        if not len(items):
            items, grades = self._feedback.row(user)
        fitted = items < len(self._ratings)
        return items[fitted], grades[fitted]

    def rows(self, fitted: Callable[[], npt.NDArray[Any]], of: Callable[[_Folded], Any]) -> npt.NDArray[Any]:
        """(items, ...): what was fitted of every item, or folded in; zeros without ratings. Kept until that changes."""
        self.up_to_date()
        if self._rows is None or self._rows[0] != self.version:
            trained = fitted()
            found = np.zeros((self._feedback.items, *trained.shape[1:]), trained.dtype)
            found[: len(trained)] = trained
            found[self.unrated] = 0
            for item, folded in self.items.items():
                found[item] = of(folded)
            self._rows = self.version, found
        return self._rows[1]


class ListScorer(ABC):
    """Scores for "would choose and like" of every item, from what a user did; a higher one is better."""

    def __init__(self, feedback: Feedback, sides: Sides) -> None:
        """Both as they stand now: they grow and change with the model that the scorer belongs to."""
        self.feedback = feedback
        self.sides = sides
        self.following: list[Followed[Any]] = []

    follows_order: ClassVar[bool] = False
    """Whether it makes use of the order and the times of what users did: `feedback.sequences` has them."""

    @abstractmethod
    def of_people(self, done: SparseRows, about: About | None = None, recent: Recency | None = None) -> Floats:
        """(n, items): scores for n people, given the grades of what they did, and their features, order and times if
        the scorer makes use of these; what comes from the item itself is left out where they know it already.

        Without `recent`, order and time do not count.
        """

    def one(self, items: Ints, grades: Floats, about: About | None = None, recent: Recency | None = None) -> Floats:
        """(items,): the same for one."""
        scores: Floats = self.of_people(joined([(items, grades)], self.feedback.items), about, recent)[0]
        return scores

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        """(m, n): what each of the things that a user did adds to the scores of the items asked about."""
        return np.zeros((len(asked), len(items)))

    def parts_of(self, items: Ints, grades: Floats, asked: Ints, recent: Recency | None) -> "ScoreParts":
        """The scores of items (m,) for one user, taken apart."""
        history = self.shares(items, grades, asked)
        constant = self.one(items[:0], grades[:0])[asked].astype(np.float64)
        return ScoreParts(np.zeros(len(asked)), constant, history, np.zeros_like(history))

    def feature_shares(self, done: int, features: Floats, widths: tuple[int, ...], asked: Ints) -> Doubles:
        """(m, input columns): what features (P,) of a user who did so much add to the scores of items.

        `widths` say how many features each input column has.
        """
        return np.zeros((len(asked), len(widths)))

    def item_vectors(self) -> Floats | None:
        """(items, width): items that the same people choose have similar vectors; None if there are none."""
        return None

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        """The ratings or features of these users and items are others from now on."""
        users, items = list(users), list(items)
        for followed in self.following:
            followed.changed(users, items)

    def up_to_date(self) -> None:
        """Work in what has changed now, so that several threads may ask."""
        for followed in self.following:
            followed.up_to_date()

    @abstractmethod
    def arrays(self) -> Arrays:
        """For the model file."""


class ScoreParts(NamedTuple):
    """What the scores of m items for a user who did n things are made of; they add up, features of the user aside."""

    trend: Doubles  # (m,)
    constant: Doubles  # (m,): of the history, what a user has who did nothing
    history: Doubles  # (m, n): what was done, in no order
    order: Doubles  # (m, n): what was done lately
    features: float = 1.0  # what the shares of the user's features are multiplied by


# The place of an item that is neither folded in nor as it was fitted: nothing is known of it, or features alone.
_UNKNOWN, _COLD = -2, -3


class LinearScorer(ListScorer):
    """`ItemWeights` that follow: what they say is a sum over what a user did.

    An item without ratings has the vector that the features of items tell (`ByFeatures`). Likewise a user without
    ratings has the code that the features of users tell, which counts the less the more a user did.
    """

    def __init__(
        self, feedback: Feedback, sides: Sides, weights: ItemWeights, by_features: ByFeatures | None = None
    ) -> None:
        super().__init__(feedback, sides)
        self.weights = weights
        self._by_features = by_features or ByFeatures.nothing(*sides, weights)
        self._followed = Followed(feedback, weights.ratings, self._folded_in)
        self.following.append(self._followed)
        self._folded_at: tuple[int, FoldedIn] | None = None
        # Items of which features alone are known, and their vectors as targets; those told of since then.
        self._cold = np.zeros(0, np.int64), self._by_features.items.expected(sides.items.values[:0])
        self._told: set[int] = set()

    @classmethod
    def fit(
        cls,
        feedback: Feedback,
        sides: Sides,
        penalties: Penalties,
        how: FitOptions,
        keys: KeysOfSides,
    ) -> "LinearScorer":
        """Other processes may have other users; draws are by the keys."""
        graded = feedback.trained()
        described = bool(sides.users.width or sides.items.width)
        weights = fit_weights(graded, penalties, how, keys.items, described=described)
        by_features = ByFeatures.fit(graded, sides, weights, penalties.popularity, keys, how.exchange)
        return cls(feedback, sides, weights, by_features)

    # Questions

    def of_people(self, done: SparseRows, about: About | None = None, recent: Recency | None = None) -> Floats:
        folded, fitted = self._folded(), self.weights.items
        expected = None
        if about is not None and about.features.shape[1]:
            # What features tell counts the less, the more a user did.
            shrinkage = np.where(about.described, 1.0 / (1.0 + done.counts()), 0.0).astype(np.float32)
            expected = shrinkage[:, None] * self._by_features.users.expected(about.features)
        found = self.weights.scores(self._history(done, folded, expected), folded)
        scores = found.fitted
        if self.feedback.items > fitted:
            scores = np.zeros((done.rows, self.feedback.items), np.float32)
            scores[:, :fitted] = found.fitted
        scores[:, folded.items] = found.later
        scores[:, folded.place == _UNKNOWN] = 0
        cold, targets = self._cold
        if len(cold):
            scores[:, cold] = found.codes @ targets.T
        return scores

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        folded, weights = self._folded(), self.weights
        place = folded.place[items]
        inputs = np.zeros((len(items), weights.directions.shape[1]))
        inputs[place == AS_FITTED] = weights.directions[items[place == AS_FITTED]]
        inputs[place >= 0] = weights.folded_codes(folded)[0][place[place >= 0]]
        found: Doubles = self._targets(asked, folded) @ inputs.T
        weights.correct_shares(found, items, asked, folded)
        return found * grades.astype(np.float64)

    def feature_shares(self, done: int, features: Floats, widths: tuple[int, ...], asked: Ints) -> Doubles:
        slope = self._by_features.users.slope
        starts = np.cumsum([0, *widths[:-1]])
        parts = np.add.reduceat(features[:, None] * slope[:-1], starts, axis=0) if len(widths) else slope[:0]
        found: Doubles = self._targets(asked, self._folded()) @ parts.T.astype(np.float64) / (1.0 + done)
        return found

    def _targets(self, asked: Ints, folded: FoldedIn) -> Doubles:
        """(m, code): what a code is multiplied by for the scores of items."""
        at = folded.place[asked]
        found = np.zeros((len(asked), self.weights.directions.shape[1]))
        found[at == AS_FITTED] = self.weights.target_codes(asked[at == AS_FITTED])
        found[at >= 0] = self.weights.folded_codes(folded)[1][at[at >= 0]]
        cold, targets = self._cold
        found[at == _COLD] = targets[np.searchsorted(cold, asked[at == _COLD])]
        return found

    def item_vectors(self) -> Floats:
        return self._followed.rows(self.weights.embeddings, lambda folded: folded.embedding)

    def _history(self, done: SparseRows, folded: FoldedIn, expected: Floats | None) -> History:
        place = folded.place[done.indices]
        trained = entries_where(done, (done.indices < self.weights.items) & (place >= AS_FITTED))
        if (place == AS_FITTED).all():
            return History(trained, trained, None, expected)
        new = entries_where(done, place >= 0)
        new = SparseRows(new.indptr, folded.place[new.indices].astype(np.int32), new.values, len(folded.items))
        return History(entries_where(done, place == AS_FITTED), trained, as_csr(new), expected)

    # Following

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        items = list(items)
        super().changed(users, items)
        self._told.update(items)

    def up_to_date(self) -> None:
        super().up_to_date()
        self._folded()

    def _folded(self) -> FoldedIn:
        """The items that are not scored as they were fitted."""
        followed = self._followed.up_to_date()
        if self._folded_at is None or self._folded_at[0] != followed.version:
            about = self.sides.items
            described = grown(about.described if about.width else np.zeros(0, np.bool_), self.feedback.items)
            place = np.full(self.feedback.items, AS_FITTED, np.int64)
            place[followed.unrated] = np.where(described, _COLD, _UNKNOWN)[followed.unrated]
            items = np.array(list(followed.items), np.int64)
            place[items] = np.arange(len(items))
            vectors = [(one.as_input, one.as_target) for one in followed.items.values()]
            inputs, targets = (
                np.array([both[side] for both in vectors], np.float32).reshape(len(items), width)
                for side, width in enumerate(self.weights.widths)
            )
            self._follow_cold(np.flatnonzero(place == _COLD))
            self._folded_at = followed.version, FoldedIn(items, inputs, targets, place)
        return self._folded_at[1]

    def _follow_cold(self, cold: Longs) -> None:
        """These (ascending) are cold now: vectors are kept but of items that are newly so, or may have new features."""
        before, vectors = self._cold
        kept = np.isin(before, cold) & ~np.isin(before, np.array(list(self._told), np.int64))
        self._told = set()
        if kept.all() and len(before) == len(cold):
            return
        new = ~np.isin(cold, before[kept])
        found = np.empty((len(cold), vectors.shape[1]), np.float32)
        found[~new] = vectors[kept]
        found[new] = self._by_features.items.expected(self.sides.items.values[cold[new]])
        self._cold = cold, found

    def _folded_in(self, item: int, users: Ints, grades: Floats) -> ItemVectors:
        did = joined([self._followed.did(int(user)) for user in users], self.weights.items)
        return self.weights.folded_in(item if item < self.weights.items else -1, did, grades)

    # Keeping

    def arrays(self) -> Arrays:
        users, items = self._by_features
        return self.weights.arrays() | {"by_user_features": users.slope} | items.arrays()

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "LinearScorer":
        """From the model file."""
        by_features = ByFeatures(FeatureRegression(arrays["by_user_features"]), KernelRegression.restored(arrays))
        return cls(feedback, sides, restored_weights(arrays), by_features)
