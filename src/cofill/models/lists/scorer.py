"""What scores items for lists: the interface, and the scorer of every model, which follows ratings, people and items.

A `ListScorer` is given what somebody did, as items and grades, and scores every item that the model knows by now. It
is told when ratings or features change, and works that in when it is next asked.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.feature_ridge import FeatureRegression
from cofill.models.lists.feedback import Feedback, joined
from cofill.models.lists.item_weights import Done, ItemVectors, ItemWeights, Penalties
from cofill.models.rng import Keys, Sample, draws_of, seed_of

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def _unseen(share: float) -> None:
    """Shows nothing."""


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
    described: Flags  # (n,): whether anything is known


class ListScorer(ABC):
    """Scores for "would choose and like" of every item, from what somebody did; a higher one is better."""

    def __init__(self, feedback: Feedback, sides: Sides) -> None:
        """Both as they stand now: they grow and change with the model that the scorer belongs to."""
        self.feedback = feedback
        self.sides = sides

    @abstractmethod
    def many(self, done: SparseRows) -> Floats:
        """(n, items): scores for n people, given the grades of what they did; what comes from the item itself is left
        out where they know it already.
        """

    def of_people(self, done: SparseRows, about: About | None) -> Floats:
        """The same for people of whom features are known too; not every scorer makes use of these."""
        return self.many(done)

    def one(self, items: Ints, grades: Floats, about: About | None = None) -> Floats:
        """(items,): the same for one."""
        scores: Floats = self.of_people(joined([(items, grades)], self.feedback.items), about)[0]
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

    def feature_shares(self, done: int, features: Floats, widths: tuple[int, ...], asked: Ints) -> Doubles:
        """(m, input columns): what features (P,) of somebody who did so much add to the scores of items.

        `widths` say how many features each input column has.
        """
        return np.zeros((len(asked), len(widths)))

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
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> Self:
        """From the model file; ValueError where it does not fit together."""


# An item whose ratings have changed by at least this share of those in training is folded in anew.
_CHANGED_SHARE = 0.1
# People of whom the regression on their features learns.
_MOST_PEOPLE = 20_000
_SEED = seed_of(0xBF)


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
    scored by its features: a ridge regression of the vectors of items on them. Likewise a user without ratings has the
    code that the features of users tell, which counts the less the more somebody did.
    """

    def __init__(self, feedback: Feedback, sides: Sides, weights: ItemWeights, by_features: "ByFeatures") -> None:
        super().__init__(feedback, sides)
        self.weights = weights
        self._by_features = by_features
        self._own_shares: Floats = weights.gains * np.einsum("ij,ij->i", weights.vectors[:-1], weights.vectors[:-1])
        """(items,): what a grade of 1 adds to the score of the item itself."""
        self._similar: Floats | None = None  # the vectors of items by which they are alike, once asked for
        self._stale = set(range(feedback.items))
        self._later = _Later({}, self._nothing(0), self._nothing(0))

    @classmethod
    def fit(
        cls,
        feedback: Feedback,
        sides: Sides,
        penalties: Penalties,
        *,
        seed: int = 0,
        threads: int = 0,
        done: Done = _unseen,
        keys: "KeysOfSides | None" = None,
        exchange: Exchange = ALONE,
    ) -> "LinearScorer":
        """`threads` 0: all cores at hand. `done` is called with the share done. Other processes may have other users;
        draws are by the keys.
        """
        graded = feedback.trained()
        if keys is None:
            keys = KeysOfSides(*(draws_of(np.uint64(0), np.arange(n, dtype=np.uint64)) for n in _shape(graded)))
        weights = ItemWeights.fit(graded, penalties, seed, done, threads, keys=keys.items, exchange=exchange)
        return cls(feedback, sides, weights, ByFeatures.fit(graded, sides, weights, keys, exchange))

    # Questions

    def many(self, done: SparseRows) -> Floats:
        return self.of_people(done, None)

    def of_people(self, done: SparseRows, about: About | None) -> Floats:
        later = self._followed()
        weights, fitted = self.weights, self.weights.items
        codes = self._codes(done, later)
        if about is not None and about.features.shape[1]:
            trust = np.where(about.described, _trust_in_features(done.counts()), 0.0).astype(np.float32)
            codes += trust[:, None] * self._by_features.users.expected(about.features)
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

    def feature_shares(self, done: int, features: Floats, widths: tuple[int, ...], asked: Ints) -> Doubles:
        later, slope = self._followed(), self._by_features.users.slope
        targets = np.stack([self._target(int(item), later) for item in asked]).astype(np.float64)
        starts = np.cumsum([0, *widths[:-1]])
        parts = np.add.reduceat(features[:, None] * slope[:-1], starts, axis=0) if len(widths) else slope[:0]
        trust = float(_trust_in_features(np.array([done]))[0])
        shares: Doubles = trust * targets @ parts.T.astype(np.float64)
        return shares

    def scored(self) -> Flags:
        later = self._followed()
        flags = np.zeros(self.feedback.items, np.bool_)
        flags[: self.weights.items] = self.weights.gains > 0
        for item, place in later.place.items():
            flags[item] = bool(later.targets[place].any())
        return flags

    def item_vectors(self) -> Floats:
        later = self._followed()
        if self._similar is not None and len(self._similar) == self.feedback.items:
            return self._similar
        vectors = np.zeros((self.feedback.items, self.weights.rank), np.float32)
        vectors[: self.weights.items] = self.weights.vectors[:-1] * self.weights.gains[:, None]
        for item, place in later.place.items():
            vectors[item] = later.targets[place]
        # Along the axes of F, whose cosine is that of the columns of X: people who chose the one chose the other. That
        # of Q would say which items are left over when all others are accounted for.
        self._similar = vectors @ np.linalg.inv(self.weights.turn)
        return self._similar

    def _nothing(self, count: int) -> Floats:
        return np.zeros((count, self.weights.rank), np.float32)

    def _codes(self, done: SparseRows, later: _Later) -> Floats:
        """(n, rank): the sums of what people did, and the constant."""
        known = done.indices < self.weights.items
        if later.place:
            known &= ~np.isin(done.indices, list(later.place))
        values, indices = np.where(known, done.values, np.float32(0)), np.where(known, done.indices, 0)
        fitted = SparseRows(done.indptr, indices, values, self.weights.items)
        codes = sparse_times(fitted, self.weights.vectors) + self.weights.constant
        people = np.repeat(np.arange(done.rows), done.counts())
        for entry in np.flatnonzero(~known).tolist():
            place = later.place.get(int(done.indices[entry]))
            if place is not None:
                codes[people[entry]] += done.values[entry] * later.inputs[place]
        return codes

    def _without_themselves(self, scores: Floats, done: SparseRows, later: _Later) -> None:
        """Take out of the scores of what people know already what these items themselves add."""
        known = np.unique(done.indices)
        own = np.zeros(len(known), np.float32)
        fitted = known < self.weights.items
        own[fitted] = self._own_shares[known[fitted]]
        for place in np.flatnonzero(np.isin(known, list(later.place))).tolist():
            row = later.place[int(known[place])]
            own[place] = later.inputs[row] @ later.targets[row]
        people = np.repeat(np.arange(done.rows), done.counts())
        scores[people, done.indices] -= done.values * own[np.searchsorted(known, done.indices)]

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
        self._similar = None
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
        target, features = self._nothing(1)[0], self.sides.items
        if features.width and item < len(features.values) and features.described[item]:
            target = self._by_features.items.expected(features.values[item : item + 1])[0]
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
        users, items = self._by_features
        return self.weights.arrays() | {"by_user_features": users.slope, "by_item_features": items.slope}

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "LinearScorer":
        weights = ItemWeights.restored(arrays)
        slopes = arrays["by_user_features"], arrays["by_item_features"]
        if weights.items > feedback.items:
            raise ValueError("the list scorer was fitted on another number of items")
        for slope, side in zip(slopes, sides, strict=True):
            if slope.shape != (side.width + 1, weights.rank):
                raise ValueError("the list scorer knows another number of features")
        return cls(feedback, sides, weights, ByFeatures(*map(FeatureRegression, slopes)))


class ByFeatures(NamedTuple):
    """What features tell of somebody's code, and of the vector of an item as a target."""

    users: FeatureRegression
    items: FeatureRegression

    @classmethod
    def fit(
        cls, graded: SparseRows, sides: Sides, weights: ItemWeights, keys: "KeysOfSides", exchange: Exchange
    ) -> "ByFeatures":
        nothing = [FeatureRegression(np.zeros((side.width + 1, weights.rank), np.float32)) for side in sides]
        of_users, of_items = nothing
        if sides.users.width:
            some = np.flatnonzero(sides.users.trained_described & (graded.counts() > 0))
            some = Sample.of(keys.users, some, _MOST_PEOPLE, _SEED, exchange).places
            taken = graded.take(some)
            codes = sparse_times(taken, weights.vectors[:-1])
            features = sides.users.trained[some]
            of_users = FeatureRegression.fit(features, codes, taken.counts(), keys.users[some], exchange)
        if sides.items.width:
            # Every item speaks for its features alike, and what is popular is not held back: on validation items of
            # MovieLens-1M lists among cold items gain 5 to 8 % by that.
            examples = (sides.items.trained_described & (weights.ratings > 0)).astype(np.int64)
            popular = np.maximum(weights.ratings, 1.0) ** weights.penalties.popularity
            targets = weights.vectors[:-1] * (weights.gains * popular)[:, None]
            of_items = FeatureRegression.fit(sides.items.trained, targets.astype(np.float32), examples, keys.items)
        return cls(of_users, of_items)


def _shape(rows: SparseRows) -> tuple[int, int]:
    return rows.rows, rows.columns


def _trust_in_features(done: Longs) -> Doubles:
    """(n,): how much the code that features tell counts beside so much that somebody did."""
    return np.asarray(1.0 / (1.0 + done), np.float64)


def sparse_times(rows: SparseRows, matrix: Floats) -> Floats:
    """X M (rows, width) for a sparse X (rows, columns) and M (columns, width)."""
    from scipy.sparse import csr_array

    sparse = csr_array((rows.values, rows.indices, rows.indptr), shape=(rows.rows, len(matrix)))
    return np.asarray(sparse @ matrix, np.float32)
