"""What scores items for lists: the interface, and the scorer of every model, which follows ratings, people and items.

A `ListScorer` is given what somebody did, as items and grades, and scores every item that the model knows by now. It
is told when ratings or features change, and works that in when it is next asked.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.lists.feedback import Feedback, joined
from cofill.models.lists.gram import Done, sparse_times, unseen
from cofill.models.lists.item_weights import (
    FoldedIn,
    Heard,
    ItemVectors,
    ItemWeights,
    Penalties,
    fit_weights,
    restored_weights,
)
from cofill.models.ridge import FeatureRegression
from cofill.models.rng import Keys, Sample, draws_of, seed_of

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


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

    @abstractmethod
    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        """(m, n): what each of the things that somebody did adds to the scores of the items asked about."""

    def feature_shares(self, done: int, features: Floats, widths: tuple[int, ...], asked: Ints) -> Doubles:
        """(m, input columns): what features (P,) of somebody who did so much add to the scores of items.

        `widths` say how many features each input column has.
        """
        return np.zeros((len(asked), len(widths)))

    @abstractmethod
    def scored(self) -> Bools:
        """(items,): for which items there is anything to go by."""

    def item_vectors(self) -> Floats | None:
        """(items, width): items that the same people choose have similar vectors; None if there are none."""
        return None

    @abstractmethod
    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        """The ratings or features of these users and items are others from now on."""

    def up_to_date(self) -> None:
        """Work in what has changed now, so that several threads may ask."""
        self.scored()

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

_Folded = TypeVar("_Folded")


class Followed(Generic[_Folded]):
    """Items that are not, or no longer, scored as they were fitted: how every scorer follows what people do.

    An item that is new, or of which a tenth of the ratings has changed, is folded in: from the grades of those who
    rated it and what these did in training (those who came later: what they did since). So what is said depends on
    ratings alone, not on the order they came in, and what came and went leaves no trace.
    """

    def __init__(
        self, feedback: Feedback, ratings: npt.NDArray[np.integer[Any]], fold_in: Callable[[int, Ints, Floats], _Folded]
    ) -> None:
        """`ratings` (fitted items,): how many people did something with each; `fold_in` is given an item, its users
        and their grades.
        """
        self._feedback, self._ratings, self._fold_in = feedback, ratings, fold_in
        self.items: dict[int, _Folded] = {}
        """Items that were folded in."""
        self.unrated: Bools = ratings == 0
        """(items,): those without ratings."""
        self._stale = feedback.changed_items()
        self.version = 0
        """It grows whenever anything is folded in anew."""

    @property
    def fitted(self) -> int:
        return len(self._ratings)

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
        if item >= self.fitted or not self._ratings[item]:
            return True
        return changed and self._feedback.changes(item) >= _CHANGED_SHARE * int(self._ratings[item])

    def did(self, user: int) -> tuple[Ints, Floats]:
        """What a user did in training, or since if that was nothing, of the items that were fitted."""
        items, grades = self._feedback.trained_row(user)
        if not len(items):
            items, grades = self._feedback.row(user)
        fitted = items < self.fitted
        return items[fitted], grades[fitted]


# Where an item is among those that were folded in, if it is not.
_AS_FITTED, _SILENT, _COLD = -1, -2, -3


class _Later(NamedTuple):
    """What takes the place of what was fitted."""

    version: int
    folded: FoldedIn
    place: Longs  # (items,): where among those that were folded in
    cold: Longs  # items without ratings that have features
    silent: Longs  # items of which nothing is known


class LinearScorer(ListScorer):
    """`ItemWeights` that follow: what they say is a sum over what somebody did.

    An item without ratings is scored by its features: a ridge regression of the vectors of items on them. Likewise a
    user without ratings has the code that the features of users tell, which counts the less the more somebody did.
    """

    def __init__(self, feedback: Feedback, sides: Sides, weights: ItemWeights, by_features: "ByFeatures") -> None:
        super().__init__(feedback, sides)
        self.weights = weights
        self._by_features = by_features
        self._followed = Followed(feedback, weights.ratings, self._folded_in)
        self._known_later: _Later | None = None
        self._similar: tuple[int, Floats] | None = None  # the vectors of items by which they are alike, once asked for

    @classmethod
    def fit(
        cls,
        feedback: Feedback,
        sides: Sides,
        penalties: Penalties,
        *,
        seed: int = 0,
        threads: int = 0,
        done: Done = unseen,
        keys: "KeysOfSides | None" = None,
        exchange: Exchange = ALONE,
    ) -> "LinearScorer":
        """`threads` 0: all cores at hand. `done` is called with the share done. Other processes may have other users;
        draws are by the keys.
        """
        graded = feedback.trained()
        if keys is None:
            keys = KeysOfSides(
                *(draws_of(np.uint64(0), np.arange(n, dtype=np.uint64)) for n in (graded.rows, graded.columns))
            )
        described = bool(sides.users.width or sides.items.width)
        weights = fit_weights(
            graded, penalties, seed, done, threads, keys=keys.items, exchange=exchange, described=described
        )
        return cls(feedback, sides, weights, ByFeatures.fit(graded, sides, weights, penalties, keys, exchange))

    # Questions

    def many(self, done: SparseRows) -> Floats:
        return self.of_people(done, None)

    def of_people(self, done: SparseRows, about: About | None) -> Floats:
        later, fitted = self._later(), self.weights.items
        expected = None
        if about is not None and about.features.shape[1]:
            trust = np.where(about.described, _trust_in_features(done.counts()), 0.0).astype(np.float32)
            expected = trust[:, None] * self._by_features.users.expected(about.features)
        found = self.weights.scores(self._heard(done, later, expected), later.folded)
        scores = found.fitted
        if self.feedback.items > fitted:
            scores = np.zeros((done.rows, self.feedback.items), np.float32)
            scores[:, :fitted] = found.fitted
        scores[:, later.folded.items] = found.later
        scores[:, later.silent] = 0
        if len(later.cold):
            features, slope = self.sides.items.values[later.cold], self._by_features.items.slope
            by_feature = found.codes @ slope.T
            scores[:, later.cold] = by_feature[:, :-1] @ features.T + by_feature[:, -1:]
        return scores

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        later = self._later()
        folded, place, at = later.folded, later.place[items], later.place[asked]
        heard, scored, cold = place >= _AS_FITTED, at >= _AS_FITTED, at == _COLD
        found = np.zeros((len(asked), len(items)))
        between = self.weights.between(items[heard], place[heard], asked[scored], at[scored], folded)
        found[np.ix_(scored, heard)] = between
        if cold.any():
            features = self._by_features.items.expected(self.sides.items.values[asked[cold]])
            codes = self.weights.codes_of(items[heard], place[heard], folded)
            found[np.ix_(cold, heard)] = features.astype(np.float64) @ codes.astype(np.float64).T
        return found * grades.astype(np.float64)

    def feature_shares(self, done: int, features: Floats, widths: tuple[int, ...], asked: Ints) -> Doubles:
        later, slope = self._later(), self._by_features.users.slope
        starts = np.cumsum([0, *widths[:-1]])
        parts = np.add.reduceat(features[:, None] * slope[:-1], starts, axis=0) if len(widths) else slope[:0]
        trust = float(_trust_in_features(np.array([done]))[0])
        found = np.zeros((len(asked), len(parts)))
        at = later.place[asked]
        scored, cold = at >= _AS_FITTED, at == _COLD
        found[scored] = self.weights.from_codes(parts, asked[scored], at[scored], later.folded)
        if cold.any():
            found[cold] = self._by_features.items.expected(self.sides.items.values[asked[cold]]) @ parts.T
        return trust * found

    def scored(self) -> Bools:
        later = self._later()
        flags = np.ones(self.feedback.items, np.bool_)
        flags[later.silent] = False
        flags[later.folded.items] = later.folded.targets.any(axis=1)
        flags[later.cold] = self._by_features.items.slope.any()
        return flags

    def item_vectors(self) -> Floats:
        later = self._later()
        if self._similar is None or self._similar[0] != later.version:
            fitted = self.weights.embeddings()
            vectors = np.zeros((self.feedback.items, fitted.shape[1]), np.float32)
            vectors[: len(fitted)] = fitted
            vectors[later.silent] = 0
            for item, folded in self._followed.items.items():
                vectors[item] = folded.embedding
            self._similar = later.version, self.weights.turned(vectors)
        return self._similar[1]

    def _heard(self, done: SparseRows, later: _Later, expected: Floats | None) -> Heard:
        place = later.place[done.indices]
        trained = _some_entries(done, (done.indices < self.weights.items) & (place >= _AS_FITTED))
        if (place == _AS_FITTED).all():
            return Heard(trained, trained, None, expected)
        from scipy.sparse import csr_array

        new = _some_entries(done, place >= 0)
        shape = (done.rows, len(later.folded.items))
        heard = csr_array((new.values, later.place[new.indices], new.indptr), shape=shape)
        return Heard(_some_entries(done, place == _AS_FITTED), trained, heard, expected)

    # Following

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        self._followed.changed(users, items)

    def up_to_date(self) -> None:
        self._later()

    def _later(self) -> _Later:
        followed = self._followed.up_to_date()
        if self._known_later is None or self._known_later.version != followed.version:
            folded, features = followed.items, self.sides.items
            items = np.array(list(folded), np.int64)
            described = np.zeros(self.feedback.items, np.bool_)
            if features.width:
                described[: len(features.described)] = features.described
            cold, silent = np.flatnonzero(followed.unrated & described), np.flatnonzero(followed.unrated & ~described)
            place = np.full(self.feedback.items, _AS_FITTED, np.int64)
            place[items], place[cold], place[silent] = np.arange(len(items)), _COLD, _SILENT
            self._known_later = _Later(
                followed.version,
                FoldedIn(
                    items,
                    _stacked([one.as_input for one in folded.values()], self.weights.widths[0]),
                    _stacked([one.as_target for one in folded.values()], self.weights.widths[1]),
                ),
                place,
                cold,
                silent,
            )
        return self._known_later

    def _folded_in(self, item: int, users: Ints, grades: Floats) -> ItemVectors:
        did = joined([self._followed.did(int(user)) for user in users], self.weights.items)
        return self.weights.folded_in(item if item < self.weights.items else -1, did, grades)

    # Keeping

    def arrays(self) -> Arrays:
        users, items = self._by_features
        return self.weights.arrays() | {"by_user_features": users.slope, "by_item_features": items.slope}

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "LinearScorer":
        weights = restored_weights(arrays)
        slopes = arrays["by_user_features"], arrays["by_item_features"]
        for slope, side in zip(slopes, sides, strict=True):
            if slope.shape != (side.width + 1, weights.directions.shape[1]):
                raise ValueError("the list scorer knows another number of features")
        return cls(feedback, sides, weights, ByFeatures(*map(FeatureRegression, slopes)))


class ByFeatures(NamedTuple):
    """What features tell of somebody's code, and of the vector of an item as a target."""

    users: FeatureRegression
    items: FeatureRegression

    @classmethod
    def nothing(cls, sides: Sides, width: int) -> "ByFeatures":
        return cls(*(FeatureRegression(np.zeros((side.width + 1, width), np.float32)) for side in sides))

    @classmethod
    def fit(
        cls,
        graded: SparseRows,
        sides: Sides,
        weights: ItemWeights,
        penalties: Penalties,
        keys: "KeysOfSides",
        exchange: Exchange,
    ) -> "ByFeatures":
        of_users, of_items = cls.nothing(sides, weights.directions.shape[1])
        if sides.users.width:
            some = np.flatnonzero(sides.users.trained_described & (graded.counts() > 0))
            some = Sample.of(keys.users, some, _MOST_PEOPLE, _SEED, exchange).places
            taken = graded.take(some)
            features = sides.users.trained[some]
            codes = sparse_times(taken, weights.directions)
            of_users = FeatureRegression.fit(features, codes, taken.counts(), keys.users[some], exchange)
        if sides.items.width:
            # Every item speaks for its features alike, and what is popular is not held back: on validation items of
            # MovieLens-1M lists among cold items gain 5 to 8 % by that.
            examples = (sides.items.trained_described & (weights.ratings > 0)).astype(np.int64)
            popular = (np.maximum(weights.ratings, 1.0) ** penalties.popularity).astype(np.float32)
            targets = weights.target_codes * popular[:, None]
            of_items = FeatureRegression.fit(sides.items.trained, targets, examples, keys.items)
        return cls(of_users, of_items)


def _trust_in_features(done: Longs) -> Doubles:
    """(n,): how much the code that features tell counts beside so much that somebody did."""
    return np.asarray(1.0 / (1.0 + done), np.float64)


def _stacked(rows: list[Floats], width: int) -> Floats:
    return np.stack(rows) if rows else np.zeros((0, width), np.float32)


def _some_entries(rows: SparseRows, kept: Bools) -> SparseRows:
    if kept.all():
        return rows
    ends = np.concatenate([[0], np.cumsum(kept)])
    return SparseRows(ends[rows.indptr].astype(np.int64), rows.indices[kept], rows.values[kept], rows.columns)
