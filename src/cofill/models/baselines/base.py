"""What the factorising baselines share: from ratings to factors, the predictor of these for ids old and new, a
model file, and ridge regressions of all rows at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from cofill.arrays import Bools, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.bias_models import BiasSettings
from cofill.models.biases import Biases
from cofill.models.lists.gram import in_threads
from cofill.models.observed import Arrays, KnownRatings, known_arrays, known_from
from cofill.models.predictor import Predictor, grown
from cofill.models.recommender import Fitting, Recommender, State
from cofill.progress import Step
from cofill.workers import cores

Done = Callable[[int, int], None]
"""Called with the number of steps done, and of all."""

STARS = Scale(1, 5)
"""The scale that all baselines learn on, so that their settings mean the same whatever the ratings are."""


def rescaled(ratings: Floats, old: Scale, new: Scale) -> Floats:
    """(n,): from one rating scale to another."""
    moved: Floats = (ratings - np.float32(old.low)) * np.float32((new.high - new.low) / (old.high - old.low))
    moved += np.float32(new.low)
    return moved


class Given(NamedTuple):
    """What is known of a user or an item: vectors (n, width) of the other side, and the ratings (n,) in stars."""

    vectors: Floats
    ratings: Floats


@dataclass(eq=False)
class Factors(ABC):
    """A vector for every user and for every item; a rating, in stars, is a function of two of them.

    Vectors hold everything that a prediction needs, biases too: (p, b, 1) . (q, 1, c) = p q + b + c. Those of ids
    without a rating and without features are zero and never asked for. What a subclass learns beside the vectors are
    further fields, arrays all of them: a model file keeps every field.
    """

    users: Floats  # (users, width)
    items: Floats  # (items, width)

    def scores(self, users: Floats, items: Floats) -> Floats:
        """(n, m) ratings of vectors (n, width) and (m, width)."""
        scores: Floats = users @ items.T
        return scores

    def pairs(self, users: Floats, items: Floats) -> Floats:
        """(n,) ratings of vectors (n, width), one by one."""
        ratings: Floats = np.einsum("ij,ij->i", users, items)
        return ratings

    @abstractmethod
    def user_from(self, items: Floats, ratings: Floats) -> Floats:
        """The vector (width,) of a user who gave these ratings (n,) to items with these vectors (n, width)."""

    @abstractmethod
    def item_from(self, users: Floats, ratings: Floats) -> Floats:
        """The vector (width,) of an item that has these ratings (n,) by users with these vectors (n, width)."""

    def user_moved(self, trained: Floats, before: Given, after: Given) -> Floats:
        """The vector (width,) of a trained user whose ratings were these and are those now."""
        return trained + self.user_from(*after) - self.user_from(*before)

    def item_moved(self, trained: Floats, before: Given, after: Given) -> Floats:
        """The vector (width,) of a trained item whose ratings were these and are those now."""
        return trained + self.item_from(*after) - self.item_from(*before)

    def arrays(self) -> Arrays:
        """For the model file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class _Side:
    """The vectors of users, or of items: as they were trained and as they stand now, and how others are found."""

    def __init__(
        self,
        trained: SparseRows,
        vectors: Floats,
        features: SideFeatures,
        found: Callable[[Floats, Floats], Floats],
        moved: Callable[[Floats, Given, Given], Floats],
    ) -> None:
        """`trained` are the ratings of the training; `found` and `moved` are those of the factors."""
        self.ratings, self.vectors, self.features = trained, vectors, features
        self.found, self.moved = found, moved
        self.trained = (trained.counts() > 0) | features.trained_described
        self.known, self.now = self.trained.copy(), vectors.copy()

    def grow(self, count: int) -> None:
        self.trained, self.known = grown(self.trained, count), grown(self.known, count)
        self.now = grown(self.now, count)


class FactorPredictor(Predictor):
    """Predictions of a factorisation.

    Ids that have no ratings and no features get the fitted means. Users and items whose ratings have changed are solved
    for anew while the other side stays as it was trained: one that was trained moves by as much as its closed form
    moves, because training need not have ended at the closed form; a new one gets the closed form itself. Users are
    compared with trained items only, items with users old and new: so the order in which ratings come, and what came
    and went, makes no difference.
    """

    def __init__(
        self, factors: Factors, known: KnownRatings, scale: Scale, damping: float | None, *described: Bools
    ) -> None:
        """`described` are two: which users, and which items, have features, which the trained vectors know of."""
        users, items = (SideFeatures(np.empty((len(flags), 0), np.float32), flags) for flags in described)
        means = Biases(
            known.trained, known.trained_columns, damping, row_features=users.trained, column_features=items.trained
        )
        super().__init__(known, scale, means, users, items)
        self.factors = factors
        self._users = _Side(known.trained, factors.users, users, factors.user_from, factors.user_moved)
        self._items = _Side(known.trained_columns, factors.items, items, factors.item_from, factors.item_moved)
        self._apply_updates()

    # Changes

    def _make_room(self) -> None:
        self._users.grow(self.known.rows)
        self._items.grow(self.known.columns)

    def _follow(self, users: list[int], items: list[int]) -> None:
        moved = set(items)
        for user in users:
            now = self._of_user(*self.known.row(user))
            self._update(self._users, user, now, self._of_user, as_trained=self.user_as_trained(user))
            if not self._users.trained[user]:
                moved |= self.known.later_in_row(user).keys()  # what is known of these items is fitted to this user
        for item in sorted(moved):
            now = self._of_item(*self.known.column(item))
            self._update(self._items, item, now, self._of_item, as_trained=self.item_as_trained(item))

    @staticmethod
    def _update(
        side: _Side, index: int, now: Given, given: Callable[[Ints, Floats], Given], *, as_trained: bool
    ) -> None:
        side.known[index] = bool(side.features.described[index]) or len(now.ratings) > 0
        if as_trained:
            side.now[index] = side.vectors[index]
        elif side.trained[index]:
            side.now[index] = side.moved(side.vectors[index], given(*side.ratings.row(index)), now)
        elif side.known[index]:
            side.now[index] = side.found(*now)

    def _of_user(self, items: Ints, ratings: Floats) -> Given:
        """Items that were not trained do not count."""
        usable = self._items.trained[items]
        return Given(self.factors.items[items[usable]], self._in_stars(ratings[usable]))

    def _of_item(self, users: Ints, ratings: Floats) -> Given:
        """Users as they were trained, or as they stand now if they came later; unknown ones do not count."""
        usable = self._users.known[users] | self._users.trained[users]
        users, ratings = users[usable], ratings[usable]
        vectors, old = self._users.now[users], self._users.trained[users]
        vectors[old] = self.factors.users[users[old]]
        return Given(vectors, self._in_stars(ratings))

    def _in_stars(self, ratings: Floats) -> Floats:
        return rescaled(ratings, self.scale, STARS)

    # Predictions

    def users(self, users: Longs) -> Floats:
        means = super().users(users)
        usable = self._users.known[users][:, None] & self._items.known
        scores = self.factors.scores(self._users.now[users], self._items.now)
        np.copyto(means, rescaled(scores, STARS, self.scale), where=usable)
        return means

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        means = super().new_user(items, ratings, np.empty(0, np.float32))
        given, known = self._of_user(items, ratings), self._items.known
        if len(given.ratings):
            scores = self.factors.scores(self.factors.user_from(*given)[None], self._items.now)[0]
            means[known] = rescaled(scores[known], STARS, self.scale)
        return means

    def _fill_entries(self, predicted: Floats, seen: Longs, users: Ints, items: Ints) -> None:
        usable = seen[self._users.known[users[seen]] & self._items.known[items[seen]]]
        # A chunk of pairs of vectors stays below a hundred megabytes, however wide they are.
        size = max(25_000_000 // max(self._users.now.shape[1], 1), 1)
        for first in range(0, len(usable), size):
            at = usable[first : first + size]
            pairs = self.factors.pairs(self._users.now[users[at]], self._items.now[items[at]])
            predicted[at] = rescaled(pairs, STARS, self.scale)

    # Representations

    def item_vectors(self) -> Floats:
        return self._items.now

    def item_known(self) -> Bools:
        return self._items.known


# Fitting


class BaselineSettings(BiasSettings):
    """What every baseline is given by name."""


class ThreadedSettings(BaselineSettings):
    """Settings of a baseline that works on several rows at once."""

    threads: int = Field(default=0, ge=0, le=1024, description="threads that share the work; 0: all cores at hand")


@dataclass(frozen=True)
class TrainingData:
    """What a baseline learns from. Users and items without a rating are there too; nothing can be learned of them."""

    by_user: SparseRows  # ratings in stars, not centred
    by_item: SparseRows
    overall: float  # mean of all ratings
    user_features: Floats  # (users, P), P may be 0
    item_features: Floats  # (items, Q), Q may be 0


class Baseline(Recommender):
    """A recommender that gives every user and every item a vector."""

    _settings: BaselineSettings
    factors_class: ClassVar[type[Factors]]

    @abstractmethod
    def _factorise(self, data: TrainingData, done: Done) -> Factors:
        """Learn factors from the ratings."""

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> FactorPredictor:
        given = data.ratings
        known = KnownRatings(given.rows("user"), given.rows("item"))
        by_user, by_item = (
            replace(rows, values=rescaled(rows.values, given.scale, STARS))
            for rows in (known.trained, known.trained_columns)
        )
        overall = float(by_user.values.mean(dtype=np.float64))
        training = TrainingData(by_user, by_item, overall, data.users.values, data.items.values)

        def done(steps: int, total: int) -> None:
            fitting.progress(Step(f"fitting {self.kind}", steps, total, steps / total))

        factors, described = self._factorise(training, done), (data.users.described, data.items.described)
        return FactorPredictor(factors, known, given.scale, self._settings.mean_damping, *described)

    @property
    def predictor(self) -> FactorPredictor:
        predictor = super().predictor
        assert isinstance(predictor, FactorPredictor)
        return predictor

    # Keeping

    def parameters(self) -> int:
        return sum(array.size for array in self.predictor.factors.arrays().values())

    def _state_dict(self) -> State:
        predictor = self.predictor
        users, items = predictor.user_features.trained_described, predictor.item_features.trained_described
        weights = predictor.factors.arrays() | {"described.users": users, "described.items": items}
        return State(weights, known_arrays(predictor.known))

    def _load_state_dict(self, state: State, scale: Scale, users: object, items: object) -> FactorPredictor:
        weights = dict(state.weights)
        described = weights.pop("described.users"), weights.pop("described.items")
        known = known_from(state.ratings, len(self.users), len(self.items))
        return FactorPredictor(self.factors_class(**weights), known, scale, self._settings.mean_damping, *described)


# Ridge regressions

# A squared gradient that small is zero, also where a zero vector has none: all ratings of the row are 0.
_NOTHING = 1e-20
# More shards than threads: one that finds its core taken by another program leaves its share to the others.
_SHARDS_A_THREAD = 8


def in_shards(rows: SparseRows, threads: int, work: Callable[[int, int], object]) -> None:
    """Calls `work(first, last)` in threads, for runs of rows with about as many ratings that together are all of them.

    Each row is worked on alone, so the result is that of one thread, bit for bit.
    """
    threads = threads or cores()
    # A row costs something even if it is empty.
    cost = rows.indptr + np.arange(rows.rows + 1)
    shards = threads * _SHARDS_A_THREAD if threads > 1 else 1
    cuts = np.searchsorted(cost, np.linspace(0, cost[-1], shards + 1)).tolist()
    in_threads(lambda ends: work(*ends), pairwise(cuts), threads)


def solve_ridges(
    rows: SparseRows,
    confidence: Floats,
    others: Floats,
    ridges: Floats,
    vectors: Floats,
    *,
    gram: Floats | None = None,
    steps: int,
    tolerance: float = 0.0,
    threads: int,
) -> None:
    """Conjugate gradients on the ridge regression of each row, in place, from where its vector is:

        minimise over x  sum over entries of confidence (value - x . other)^2 + x' gram x + ridge |x|^2

    At most `steps` steps, fewer where the gradient is down to `tolerance` times its length at a vector of zero.
    """
    gram = np.zeros((0, 0), np.float32) if gram is None else gram
    given = (rows.indptr, rows.indices, confidence, rows.values, others, gram, ridges, steps, tolerance)
    in_shards(rows, threads, lambda first, last: _solve_rows(*given, first, last, vectors))


@compiled
def _solve_rows(
    indptr: Longs,
    indices: Ints,
    confidence: Floats,
    labels: Floats,
    others: Floats,
    gram: Floats,
    ridges: Floats,
    steps: int,
    tolerance: float,
    first: int,
    last: int,
    vectors: Floats,
) -> None:
    rank = others.shape[1]
    residual = np.empty(rank, np.float32)
    direction = np.empty(rank, np.float32)
    image = np.empty(rank, np.float32)
    target = np.empty(rank, np.float32)
    for row in range(first, last):
        start, end = indptr[row], indptr[row + 1]
        x = vectors[row]
        if start == end:
            x[:] = 0
            continue
        target[:] = 0
        for q in range(rank):
            residual[q] = -ridges[row] * x[q]
        for p in range(len(gram)):
            along = x[p]
            for q in range(rank):
                residual[q] -= along * gram[p, q]
        for entry in range(start, end):
            other = others[indices[entry]]
            predicted = np.float32(0)
            for q in range(rank):
                predicted += other[q] * x[q]
            left = confidence[entry] * (labels[entry] - predicted)
            whole = confidence[entry] * labels[entry]
            for q in range(rank):
                residual[q] += left * other[q]
                target[q] += whole * other[q]
        length, goal = 0.0, 0.0
        for q in range(rank):
            direction[q] = residual[q]
            length += residual[q] * residual[q]
            goal += target[q] * target[q]
        goal = max(goal * tolerance * tolerance, _NOTHING)
        for _ in range(steps):
            if length <= goal:
                break
            for q in range(rank):
                image[q] = ridges[row] * direction[q]
            for p in range(len(gram)):
                along = direction[p]
                for q in range(rank):
                    image[q] += along * gram[p, q]
            for entry in range(start, end):
                other = others[indices[entry]]
                along = np.float32(0)
                for q in range(rank):
                    along += other[q] * direction[q]
                along *= confidence[entry]
                for q in range(rank):
                    image[q] += along * other[q]
            curvature = 0.0
            for q in range(rank):
                curvature += direction[q] * image[q]
            step = np.float32(length / curvature)
            longer = length
            length = 0.0
            for q in range(rank):
                x[q] += step * direction[q]
                residual[q] -= step * image[q]
                length += residual[q] * residual[q]
            turn = np.float32(length / longer)
            for q in range(rank):
                direction[q] = residual[q] + turn * direction[q]
