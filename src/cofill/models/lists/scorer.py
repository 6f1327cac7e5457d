"""What scores items for lists: the interface, and the scorer of every model, which follows ratings, people and items.

A `ListScorer` is given what somebody did, as items and grades, and scores every item that the model knows by now. It
is told when ratings or features change, and works that in when it is next asked.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.models.feature_ridge import FeatureRegression
from cofill.models.lists.feedback import Feedback, joined
from cofill.models.lists.item_weights import Done, ItemVectors, ItemWeights, Penalties

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def _unseen(share: float) -> None:
    """Shows nothing."""


class ListScorer(ABC):
    """Scores for "would choose and like" of every item, from what somebody did; a higher one is better."""

    kind: ClassVar[str]
    """Its name in model files."""

    def __init__(self, feedback: Feedback, item_features: SideFeatures) -> None:
        """Both as they stand now: they grow and change with the model that the scorer belongs to."""
        self.feedback = feedback
        self.item_features = item_features

    @abstractmethod
    def many(self, done: SparseRows) -> Floats:
        """(n, items): scores for n people, given the grades of what they did; what comes from the item itself is left
        out where they know it already.
        """

    def one(self, items: Ints, grades: Floats) -> Floats:
        """(items,): the same for one."""
        scores: Floats = self.many(joined([(items, grades)], self.feedback.items))[0]
        return scores

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        """(m, n): what each of the things that somebody did adds to the scores of the items asked about.

        Exact where the scorer is linear. Here, for any: what would be lost without it.
        """
        whole = self.one(items, grades)[asked].astype(np.float64)
        found = np.empty((len(asked), len(items)))
        for place in range(len(items)):
            others = np.arange(len(items)) != place
            found[:, place] = whole - self.one(items[others], grades[others])[asked]
        return found

    @abstractmethod
    def scored(self) -> Flags:
        """(items,): for which items there is anything to go by."""

    def item_vectors(self) -> Floats | None:
        """(items, width): items that the same people choose have similar vectors; None if there are none."""
        return None

    @abstractmethod
    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        """The ratings or features of these users and items are others from now on."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """For the model file."""

    @classmethod
    @abstractmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, item_features: SideFeatures) -> Self:
        """From the model file; ValueError where it does not fit together."""


# An item whose ratings have changed by at least this share of those in training is folded in anew.
_CHANGED_SHARE = 0.1


@dataclass
class _Later:
    """Items that came or changed after the training: vectors in the place of, or beyond, those that were fitted."""

    place: dict[int, int]  # of an item among the vectors
    inputs: Floats  # (n, rank)
    targets: Floats  # (n, rank)


class LinearScorer(ListScorer):
    """`ItemWeights` that follow. What it says depends on ratings and features alone, not on the order they came in.

    An item that is new, or of which a tenth of the ratings has changed, is folded in: from the grades of those who
    rated it and what these did in training (those who came later: what they did since). An item without ratings is
    scored by its features: a ridge regression of the vectors of items on them.
    """

    kind = "linear"

    def __init__(
        self, feedback: Feedback, item_features: SideFeatures, weights: ItemWeights, by_features: FeatureRegression
    ) -> None:
        """`by_features` tells the vectors of items, as targets, from their features."""
        super().__init__(feedback, item_features)
        self.weights = weights
        self._by_features = by_features
        self._stale = set(range(feedback.items))
        self._later = _Later({}, self._nothing(0), self._nothing(0))

    @classmethod
    def fit(
        cls, feedback: Feedback, item_features: SideFeatures, penalties: Penalties, seed: int = 0, done: Done = _unseen
    ) -> "LinearScorer":
        graded = feedback.trained()
        weights = ItemWeights.fit(graded, penalties, seed, done)
        nothing = FeatureRegression(np.zeros((item_features.width + 1, weights.rank), np.float32))
        if not item_features.width:
            return cls(feedback, item_features, weights, nothing)
        counts = np.bincount(graded.indices, minlength=graded.columns)
        targets = weights.vectors[:-1] * weights.gains[:, None]
        described = np.where(item_features.trained_described, counts, 0)
        return cls(feedback, item_features, weights, FeatureRegression.fit(item_features.trained, targets, described))

    # Questions

    def many(self, done: SparseRows) -> Floats:
        later = self._followed()
        weights, fitted = self.weights, self.weights.items
        codes = self._codes(done, later)
        scores = np.zeros((done.rows, self.feedback.items), np.float32)
        np.matmul(codes, weights.vectors[:-1].T, out=scores[:, :fitted])
        scores[:, :fitted] *= weights.gains
        places = np.array(list(later.place), np.int64)
        if len(places):
            scores[:, places] = codes @ later.targets.T
        self._without_themselves(scores, done, later)
        return scores

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        later = self._followed()
        targets = np.stack([self._target(int(item), later) for item in asked]) if len(asked) else self._nothing(0)
        inputs = np.stack([self._input(int(item), later) for item in items]) if len(items) else self._nothing(0)
        found: Doubles = targets.astype(np.float64) @ (inputs * grades[:, None]).astype(np.float64).T
        found[asked[:, None] == items] = 0.0
        return found

    def scored(self) -> Flags:
        later = self._followed()
        flags = np.zeros(self.feedback.items, np.bool_)
        flags[: self.weights.items] = self.weights.gains > 0
        for item, place in later.place.items():
            flags[item] = bool(later.targets[place].any())
        return flags

    def item_vectors(self) -> Floats:
        later = self._followed()
        vectors = np.zeros((self.feedback.items, self.weights.rank), np.float32)
        vectors[: self.weights.items] = self.weights.vectors[:-1] * self.weights.gains[:, None]
        for item, place in later.place.items():
            vectors[item] = later.targets[place]
        return vectors

    def _nothing(self, count: int) -> Floats:
        return np.zeros((count, self.weights.rank), np.float32)

    def _codes(self, done: SparseRows, later: _Later) -> Floats:
        """(n, rank): the sums of what people did, and the constant."""
        from scipy.sparse import csr_array

        known = done.indices < self.weights.items
        if later.place:
            known &= ~np.isin(done.indices, list(later.place))
        values = np.where(known, done.values, np.float32(0))
        indices = np.where(known, done.indices, 0)
        matrix = csr_array((values, indices, done.indptr), shape=(done.rows, self.weights.items + 1))
        codes: Floats = np.asarray(matrix @ self.weights.vectors, np.float32) + self.weights.constant
        people = np.repeat(np.arange(done.rows), done.counts())
        for entry in np.flatnonzero(~known).tolist():
            place = later.place.get(int(done.indices[entry]))
            if place is not None:
                codes[people[entry]] += done.values[entry] * later.inputs[place]
        return codes

    def _without_themselves(self, scores: Floats, done: SparseRows, later: _Later) -> None:
        """Take out of the scores of what people know already what these items themselves add."""
        own = np.zeros(scores.shape[1], np.float32)
        own[: self.weights.items] = np.einsum("ij,ij->i", self.weights.vectors[:-1], self.weights.vectors[:-1])
        own[: self.weights.items] *= self.weights.gains
        for item, place in later.place.items():
            own[item] = later.inputs[place] @ later.targets[place]
        people = np.repeat(np.arange(done.rows), done.counts())
        scores[people, done.indices] -= done.values * own[done.indices]

    def _target(self, item: int, later: _Later) -> Floats:
        place, weights = later.place.get(item), self.weights
        vector: Floats = weights.vectors[item] * weights.gains[item] if place is None else later.targets[place]
        return vector

    def _input(self, item: int, later: _Later) -> Floats:
        place = later.place.get(item)
        vector: Floats = self.weights.vectors[item] if place is None else later.inputs[place]
        return vector

    # Following

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        self._stale |= set(items)
        for user in users:
            if not len(self.feedback.trained_row(user)[0]):
                self._stale |= self.feedback.later_items(user)  # their vectors lean on what this user did

    def _to_fold_in(self, items: Iterable[int]) -> list[int]:
        """Which of these items are not, or no longer, scored as they were fitted."""
        changed = self.feedback.changed_items()
        return [item for item in items if self._differs(item, item in changed)]

    def _differs(self, item: int, changed: bool) -> bool:
        weights = self.weights
        if item >= weights.items or not weights.gains[item] > 0:
            return True
        return changed and self.feedback.changes(item) >= _CHANGED_SHARE * weights.ratings[item]

    def _followed(self) -> _Later:
        if not self._stale:
            return self._later
        later, stale = self._later, sorted(self._stale)
        self._stale = set()
        wanted = set(self._to_fold_in(stale))
        found = {item: self._folded_in(item) for item in wanted}
        asked_anew = set(stale)
        kept = [item for item in later.place if item not in asked_anew]
        items = kept + sorted(found)
        inputs, targets = self._nothing(len(items)), self._nothing(len(items))
        for place, item in enumerate(items):
            if item in found:
                inputs[place], targets[place] = found[item]
            else:
                inputs[place], targets[place] = later.inputs[later.place[item]], later.targets[later.place[item]]
        self._later = _Later({item: place for place, item in enumerate(items)}, inputs, targets)
        return self._later

    def _folded_in(self, item: int) -> ItemVectors:
        users, grades = self.feedback.column(item)
        if len(users):
            did = joined([self._did_in_training(int(user)) for user in users], self.weights.items)
            fitted = item if item < self.weights.items else -1
            return self.weights.folded_in(fitted, did, grades, len(users))
        target, features = self._nothing(1)[0], self.item_features
        if features.width and item < len(features.values) and features.described[item]:
            target = self._by_features.expected(features.values[item : item + 1])[0]
        return ItemVectors(self._nothing(1)[0], target)

    def _did_in_training(self, user: int) -> tuple[Ints, Floats]:
        """What a user did in training, or since if that was nothing, of the items that were fitted."""
        items, grades = self.feedback.trained_row(user)
        if not len(items):
            items, grades = self.feedback.row(user)
            fitted = items < self.weights.items
            items, grades = items[fitted], grades[fitted]
        return items, grades

    # Keeping

    def arrays(self) -> Arrays:
        return self.weights.arrays() | {"by_features": self._by_features.slope}

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, item_features: SideFeatures) -> "LinearScorer":
        weights = ItemWeights.restored(arrays)
        slope = arrays["by_features"]
        if weights.items > feedback.items:
            raise ValueError("the list scorer was fitted on another number of items")
        if slope.shape != (item_features.width + 1, weights.rank):
            raise ValueError("the list scorer knows another number of features")
        return cls(feedback, item_features, weights, FeatureRegression(slope))
