"""What the factorising baselines share: from ratings to factors, the predictor of these for ids old and new, a
model file, and rows shared out among threads.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field

from cofill.arrays import Bools, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.config import ListSettings, Settings
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.biases import FittedMeans
from cofill.models.observed import KnownRatings, known_arrays, known_from
from cofill.models.predictor import Predictor, grown
from cofill.models.recommender import Fitting, Recommender, State
from cofill.progress import Step
from cofill.workers import cores

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]

Done = Callable[[int, int], None]
"""Called with the number of steps done, and of all."""

STARS = Scale(1, 5)
"""The scale that all baselines learn on, so that their settings mean the same whatever the ratings are."""


class Stars(NamedTuple):
    """From a rating scale to `STARS`, and back."""

    scale: Scale

    def down(self, ratings: Floats) -> Floats:
        low, high = self.scale
        stars: Floats = (ratings - np.float32(low)) * np.float32((STARS.high - STARS.low) / (high - low))
        stars += np.float32(STARS.low)
        return stars

    def up(self, stars: Floats) -> Floats:
        low, high = self.scale
        ratings: Floats = (stars - np.float32(STARS.low)) * np.float32((high - low) / (STARS.high - STARS.low))
        ratings += np.float32(low)
        return ratings


class Given(NamedTuple):
    """What is known of a user or an item: vectors (n, width) of the other side, and the ratings (n,) in stars."""

    vectors: Floats
    ratings: Floats


class Factors(ABC):
    """A vector for every user and for every item; a rating, in stars, is a function of two of them.

    Vectors hold everything that a prediction needs, biases too: (p, b, 1) . (q, 1, c) = p q + b + c. Those of ids
    without a rating and without features are zero and never asked for.
    """

    def __init__(self, users: Floats, items: Floats) -> None:
        """(users, width), (items, width)"""
        self.users = users
        self.items = items

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

    def tastes(self, vectors: Floats) -> Floats:
        """(n, any width): what of these vectors tells alike from unlike; biases do not."""
        return vectors

    def arrays(self) -> Arrays:
        """For the model file; what a subclass has learned beside the vectors it adds here."""
        return {"users": self.users, "items": self.items}

    @classmethod
    def restored(cls, arrays: Arrays) -> Self:
        return cls(**arrays)


class FactorMatrix(Predictor):
    """Predictions of a factorisation.

    Ids that have no ratings and no features get the fitted means. Users and items whose ratings have changed are solved
    for anew while the other side stays as it was trained: one that was trained moves by as much as its closed form
    moves, because training need not have ended at the closed form; a new one gets the closed form itself. Users are
    compared with trained items only, items with users old and new: so the order in which ratings come, and what came
    and went, makes no difference.
    """

    def __init__(
        self,
        factors: Factors,
        known: KnownRatings,
        scale: Scale,
        damping: float | None,
        *,
        users_described: Bools | None = None,
        items_described: Bools | None = None,
    ) -> None:
        """`users_described` and `items_described` say who has features, which the trained vectors know of."""
        users, items = (
            _flags_of_features(users_described, known.trained.rows),
            _flags_of_features(items_described, known.trained.columns),
        )
        means = FittedMeans(
            known.trained, known.trained_columns, damping, row_features=users.trained, column_features=items.trained
        )
        super().__init__(known, scale, means, users, items)
        self.factors = factors
        self._stars = Stars(scale)
        self._user_trained = (self.user_counts > 0) | users.trained_described
        self._item_trained = (self.item_counts > 0) | items.trained_described
        self._user_known, self._item_known = self._user_trained.copy(), self._item_trained.copy()
        self._users, self._items = factors.users.copy(), factors.items.copy()  # as they stand now
        self._apply_updates()

    # Changes

    def _make_room(self) -> None:
        users, items = self.known.rows, self.known.columns
        self._user_known, self._item_known = grown(self._user_known, users), grown(self._item_known, items)
        self._users, self._items = grown(self._users, users), grown(self._items, items)

    def _follow(self, users: list[int], items: list[int]) -> None:
        moved = set(items)
        for user in users:
            self._user_changed(user)
            if not _flag(self._user_trained, user):
                moved |= self.known.later_in_row(user).keys()  # what is known of these items is fitted to this user
        for item in sorted(moved):
            self._item_changed(item)

    def _user_changed(self, user: int) -> None:
        items, ratings = self.known.row(user)
        usable = _flags(self._item_trained, items)
        self._user_known[user] = bool(self.user_features.described[user]) or bool(usable.any())
        if self.user_as_trained(user):
            self._users[user] = self.factors.users[user]
            return
        now = self._of_user(items[usable], ratings[usable])
        if _flag(self._user_trained, user):
            before = self._of_user(*self.known.trained.row(user))
            self._users[user] = self.factors.user_moved(self.factors.users[user], before, now)
        elif self._user_known[user]:
            self._users[user] = self.factors.user_from(*now)

    def _item_changed(self, item: int) -> None:
        users, ratings = self.known.column(item)
        self._item_known[item] = self.item_features.described[item] or bool(self._usable_users(users).any())
        if self.item_as_trained(item):
            self._items[item] = self.factors.items[item]
            return
        now = self._of_item(users, ratings)
        if _flag(self._item_trained, item):
            before = self._of_item(*self.known.trained_columns.row(item))
            self._items[item] = self.factors.item_moved(self.factors.items[item], before, now)
        elif self._item_known[item]:
            self._items[item] = self.factors.item_from(*now)

    def _of_user(self, items: Ints, ratings: Floats) -> Given:
        return Given(self.factors.items[items], self._stars.down(ratings))

    def _of_item(self, users: Ints, ratings: Floats) -> Given:
        """Users as they were trained, or as they stand now if they came later; strangers say nothing."""
        usable = self._usable_users(users)
        users, ratings = users[usable], ratings[usable]
        old = _flags(self._user_trained, users)
        vectors = self._users[users]
        vectors[old] = self.factors.users[users[old]]
        return Given(vectors, self._stars.down(ratings))

    def _usable_users(self, users: Ints) -> Bools:
        """(n,): which of these are known, now or from the training; of those that lost all, the latter counts."""
        return self._user_known[users] | _flags(self._user_trained, users)

    # Predictions

    def users(self, users: Longs) -> Floats:
        means = super().users(users)
        usable = self._user_known[users][:, None] & self._item_known
        np.copyto(means, self._scores(self._users[users], self._items), where=usable)
        return means

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        means = super().new_user(items, ratings, np.empty(0, np.float32))
        usable = _flags(self._item_trained, items)
        if usable.any():
            user = self.factors.user_from(*self._of_user(items[usable], ratings[usable]))
            means[self._item_known] = self._scores(user[None], self._items)[0, self._item_known]
        return means

    def _fill_entries(self, predicted: Floats, seen: Longs, users: Ints, items: Ints) -> None:
        usable = seen[self._user_known[users[seen]] & self._item_known[items[seen]]]
        # A chunk of pairs of vectors stays below a hundred megabytes, however wide they are.
        size = max(25_000_000 // max(self._users.shape[1], 1), 1)
        for first in range(0, len(usable), size):
            at = usable[first : first + size]
            predicted[at] = self._stars.up(self.factors.pairs(self._users[users[at]], self._items[items[at]]))

    def _scores(self, users: Floats, items: Floats) -> Floats:
        return self._stars.up(self.factors.scores(users, items))

    # Representations

    def item_vectors(self) -> Floats:
        return self.factors.tastes(self._items)

    def item_known(self) -> Bools:
        return self._item_known


def _flag(flags: Bools, index: int) -> bool:
    return index < len(flags) and bool(flags[index])


def _flags(flags: Bools, indices: Ints) -> Bools:
    """(n,): the flags at these indices, of which some may have come later."""
    found = indices < len(flags)
    found[found] = flags[indices[found]]
    return found


def _flags_of_features(described: Bools | None, count: int) -> SideFeatures:
    """Who has features; what they are the trained vectors know."""
    flags = np.zeros(count, np.bool_) if described is None else described
    return SideFeatures(np.empty((count, 0), np.float32), flags)


# Fitting


class BaselineSettings(ListSettings):
    """What every baseline is given by name."""

    mean_damping: float | None = Field(
        default=None,
        ge=0,
        description="ratings of average value added to the means that an unknown id is left to; unless given, it is "
        "learned from the data, apart for users and items (empirical Bayes, by EM)",
    )


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

    settings_class: ClassVar[type[Settings]]
    factors_class: ClassVar[type[Factors]]

    @abstractmethod
    def _factorise(self, data: TrainingData, done: Done) -> Factors:
        """Learn factors from the ratings."""

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> FactorMatrix:
        given = data.ratings
        by_user, by_item = given.rows("user"), given.rows("item")
        stars = Stars(given.scale)
        training = TrainingData(
            replace(by_user, values=stars.down(by_user.values)),
            replace(by_item, values=stars.down(by_item.values)),
            float(stars.down(given.values).mean(dtype=np.float64)),
            data.users.values,
            data.items.values,
        )

        def done(steps: int, total: int) -> None:
            fitting.progress(Step(f"fitting {self.kind}", steps, total, steps / total))

        return FactorMatrix(
            self._factorise(training, done),
            KnownRatings(by_user, by_item),
            given.scale,
            self._damping,
            users_described=data.users.described,
            items_described=data.items.described,
        )

    @property
    def predictor(self) -> FactorMatrix:
        predictor = super().predictor
        assert isinstance(predictor, FactorMatrix)
        return predictor

    @property
    def _damping(self) -> float | None:
        assert isinstance(self._settings, BaselineSettings)
        return self._settings.mean_damping

    # Keeping

    def parameters(self) -> int:
        return sum(array.size for array in self.predictor.factors.arrays().values())

    def _state_dict(self) -> State:
        predictor = self.predictor
        described = {"users": predictor.user_features, "items": predictor.item_features}
        weights = predictor.factors.arrays()
        weights |= {f"described.{side}": features.trained_described for side, features in described.items()}
        return State(weights, known_arrays(predictor.known))

    def _load_state_dict(self, state: State, scale: Scale, users: object, items: object) -> FactorMatrix:
        weights = dict(state.weights)
        users_described, items_described = weights.pop("described.users"), weights.pop("described.items")
        known = known_from(state.ratings, len(self.users), len(self.items))
        factors = self.factors_class.restored(weights)
        if factors.users.ndim != 2 or factors.items.ndim != 2 or factors.users.shape[1] != factors.items.shape[1]:
            raise ValueError("the vectors of users and items differ in width")
        if (len(factors.users), len(factors.items)) != (known.trained.rows, known.trained.columns):
            raise ValueError("there are vectors of another number of users and items than the ratings have")
        for described, count in ((users_described, known.trained.rows), (items_described, known.trained.columns)):
            if described.dtype != np.bool_ or described.shape != (count,):
                raise ValueError("it is not said of every user and item whether it has features")
        return FactorMatrix(
            factors, known, scale, self._damping, users_described=users_described, items_described=items_described
        )


# A squared gradient that small is zero, also where a zero vector has none: all ratings of the row are 0.
_NOTHING = 1e-20
# More shards than threads: one that finds its core taken by another program leaves its share to the others.
_SHARDS_A_THREAD = 8


class RowShards:
    """Threads that share out the rows of a matrix by the ratings they hold. Work happens inside its context.

    Each row is worked on alone, so the result is that of one thread, bit for bit.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads or cores()

    def __enter__(self) -> "RowShards":
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="cofill-rows")
        return self

    def __exit__(self, *problem: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def run(self, rows: SparseRows, work: Callable[[int, int], object]) -> None:
        """Calls `work(first, last)` for runs of rows that together are all of them."""
        count = self._threads * _SHARDS_A_THREAD if self._threads > 1 else 1
        # A row costs something even if it is empty.
        cost = rows.indptr + np.arange(rows.rows + 1)
        cuts = np.searchsorted(cost, np.linspace(0, cost[-1], count + 1)).tolist()
        list(self._pool.map(work, cuts[:-1], cuts[1:]))


@compiled
def solve_rows(
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
    """Conjugate gradients on the ridge regression of each row from `first` to `last`, from where its vector is:

        minimise over x  sum over entries of confidence (label - x . other)^2 + x' gram x + ridge |x|^2

    `gram` (rank, rank), or empty. At most `steps` steps, fewer where the gradient is down to `tolerance` times its
    length at a vector of zero.
    """
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
