"""What the factorising baselines share: from ratings to factors, the predictor of these for ids old and new, a
model file, and ridge regressions: of one row in closed form, of all rows by conjugate gradients.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
from pydantic import Field

from cofill.arrays import Arrays, Bools, Doubles, Floats, Ints, Longs, grown
from cofill.compiling import compiled
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import KnownRatings, SparseRows, known_arrays, known_from
from cofill.models.bias_models import BiasSettings
from cofill.models.biases import Biases
from cofill.models.predictor import ALL, Predictor
from cofill.models.recommender import Fitting, Recommender, State
from cofill.progress import Step
from cofill.threads import in_threads, one_blas_thread
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


Rated = tuple[Floats, Floats]
"""Vectors (n, width) of the other side, and the ratings (n,) in stars that a user gave, or an item has."""
FoldIn = Callable[..., Floats]
"""`user_from` or `item_from`."""


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
        return self.rating(lambda part: users[:, part] @ items[:, part].T)

    def pairs(self, users: Floats, items: Floats) -> Floats:
        """(n,) ratings of vectors (n, width), one by one."""
        return self.rating(lambda part: np.einsum("ij,ij->i", users[:, part], items[:, part]))

    def rating(self, product: Callable[[slice], Floats]) -> Floats:
        """Ratings from the products of users and items over parts of their vectors."""
        return product(slice(None))

    @abstractmethod
    def user_from(self, items: Floats, ratings: Floats) -> Floats:
        """The vector (width,) of a user who gave these ratings (n,) to items with these vectors (n, width)."""

    @abstractmethod
    def item_from(self, users: Floats, ratings: Floats) -> Floats:
        """The vector (width,) of an item that has these ratings (n,) by users with these vectors (n, width)."""

    def moved(self, trained: Floats, before: Rated, after: Rated, fold_in: FoldIn) -> Floats:
        """The vector (width,) of a trained user or item whose ratings were these and are those now."""
        return trained + fold_in(*after) - fold_in(*before)

    def arrays(self) -> Arrays:
        """For the model file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class _Side:
    """The vectors of users, or of items: as they were trained and as they stand now."""

    def __init__(self, trained: SparseRows, vectors: Floats, described: Bools, fold_in: FoldIn) -> None:
        """`trained` are the ratings of the training, `described` is which ids have features."""
        self.ratings, self.vectors, self.described, self.fold_in = trained, vectors, described, fold_in
        self.trained = (trained.counts() > 0) | described
        self.known, self.now = self.trained.copy(), vectors.copy()

    def grow(self, count: int) -> None:
        self.trained, self.known = grown(self.trained, count), grown(self.known, count)
        self.described, self.now = grown(self.described, count), grown(self.now, count)


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
        means = Biases.fit(
            known.trained, known.trained_columns, damping, row_features=users.trained, column_features=items.trained
        )
        super().__init__(known, scale, means, users, items)
        self.factors = factors
        self._users = _Side(known.trained, factors.users, described[0], factors.user_from)
        self._items = _Side(known.trained_columns, factors.items, described[1], factors.item_from)
        self._apply_updates()

    # Changes

    def _make_room(self) -> None:
        self._users.grow(self.known.rows)
        self._items.grow(self.known.columns)

    def _follow(self, users: list[int], items: list[int]) -> None:
        moved = set(items)
        for user in users:
            self._update(self._users, user, self.known.row(user), self._of_user, self.user_as_trained(user))
            if not self._users.trained[user]:
                moved |= self.known.later_in_row(user).keys()  # what is known of these items is fitted to this user
        for item in sorted(moved):
            self._update(self._items, item, self.known.column(item), self._of_item, self.item_as_trained(item))

    def _update(
        self,
        side: _Side,
        index: int,
        ratings: tuple[Ints, Floats],
        rated: Callable[[Ints, Floats], Rated],
        as_trained: bool,
    ) -> None:
        after = rated(*ratings)
        side.known[index] = side.described[index] or len(after[1]) > 0
        if as_trained:
            side.now[index] = side.vectors[index]
        elif side.trained[index]:
            before = rated(*side.ratings.row(index))
            side.now[index] = self.factors.moved(side.vectors[index], before, after, side.fold_in)
        elif side.known[index]:
            side.now[index] = side.fold_in(*after)

    def _of_user(self, items: Ints, ratings: Floats) -> Rated:
        """Items that were not trained do not count."""
        usable = self._items.trained[items]
        return self.factors.items[items[usable]], rescaled(ratings[usable], self.scale, STARS)

    def _of_item(self, users: Ints, ratings: Floats) -> Rated:
        """Users as they were trained, or as they stand now if they came later; unknown ones do not count."""
        usable = self._users.known[users] | self._users.trained[users]
        users, ratings = users[usable], ratings[usable]
        vectors, old = self._users.now[users], self._users.trained[users]
        vectors[old] = self.factors.users[users[old]]
        return vectors, rescaled(ratings, self.scale, STARS)

    # Predictions

    def users(self, users: Longs) -> Floats:
        means = super().users(users)
        usable = self._users.known[users][:, None] & self._items.known
        scores = self.factors.scores(self._users.now[users], self._items.now)
        np.copyto(means, rescaled(scores, STARS, self.scale), where=usable)
        return means

    def new_user(
        self, items: Ints, ratings: Floats, features: Floats | None = None, asked: Ints | slice = ALL
    ) -> Floats:
        means = super().new_user(items, ratings, np.empty(0, np.float32))
        rated, known = self._of_user(items, ratings), self._items.known
        if len(rated[1]):
            scores = self.factors.scores(self.factors.user_from(*rated)[None], self._items.now)[0]
            means[known] = rescaled(scores[known], STARS, self.scale)
        return means[asked]

    def _fill_entries(self, predicted: Floats, seen: Longs, users: Ints, items: Ints) -> None:
        usable = seen[self._users.known[users[seen]] & self._items.known[items[seen]]]
        # A chunk of pairs of vectors stays below a hundred megabytes, however wide they are.
        size = max(25_000_000 // max(self._users.now.shape[1], 1), 1)
        for first in range(0, len(usable), size):
            at = usable[first : first + size]
            pairs = self.factors.pairs(self._users.now[users[at]], self._items.now[items[at]])
            predicted[at] = rescaled(pairs, STARS, self.scale)

    def item_vectors(self) -> Floats:
        return self._items.now

    def item_known(self) -> Bools:
        return self._items.known


# Fitting


class ThreadedSettings(BiasSettings):
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

    _settings: BiasSettings
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


def ridge(
    others: Floats, ratings: Floats, penalty: float | Doubles, centre: Doubles | None = None, fixed: int | None = None
) -> Doubles:
    """(width,): the closed form of minimising over x  |ratings - others x|^2 + (x - centre)' penalty (x - centre).

    A number is that times the identity; the centre is zero unless given; the coordinate `fixed` stays at the centre's.
    """
    found = np.zeros(others.shape[1]) if centre is None else centre.astype(np.float64)
    free = np.arange(len(found)) if fixed is None else np.delete(np.arange(len(found)), fixed)
    known = others[:, free].astype(np.float64)
    pull = known.T @ (ratings - others @ found)
    penalties = penalty if isinstance(penalty, np.ndarray) else penalty * np.eye(len(free))
    found[free] += np.linalg.solve(known.T @ known + penalties, pull)
    return found


@one_blas_thread()
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
    others: Floats,
    ridges: Floats,
    vectors: Floats,
    *,
    confidence: Floats | None = None,
    gram: Floats | None = None,
    steps: int,
    tolerance: float = 0.0,
    threads: int,
) -> None:
    """Conjugate gradients on the ridge regression of each row, in place, from where its vector is:

        minimise over x  sum over entries of confidence (value - x . other)^2 + x' gram x + ridge |x|^2

    At most `steps` steps, fewer where the gradient is down to `tolerance` times its length at a vector of zero.
    """
    confidence = np.ones_like(rows.values) if confidence is None else confidence
    gram = np.zeros((0, 0), np.float32) if gram is None else gram
    given = (rows.indptr, rows.indices, rows.values, confidence, others, gram, ridges, steps, tolerance)
    in_shards(rows, threads, lambda first, last: _solve_rows(*given, first, last, vectors))


@compiled
def _solve_rows(
    indptr: Longs, indices: Ints, values: Floats, confidence: Floats, others: Floats, gram: Floats, ridges: Floats,
    steps: int, tolerance: float, first: int, last: int, vectors: Floats,
) -> None:  # fmt: skip
    for row in range(first, last):
        entries, x, ridge = slice(indptr[row], indptr[row + 1]), vectors[row], ridges[row]
        if indptr[row] == indptr[row + 1]:
            x[:] = 0
            continue
        known, weights = others[indices[entries]], confidence[entries]
        target = known.T @ (weights * values[entries])
        residual = target - known.T @ (weights * (known @ x)) - ridge * x
        if len(gram):
            residual -= gram @ x
        direction = residual.copy()
        length, goal = residual @ residual, max(tolerance * tolerance * (target @ target), _NOTHING)
        for _ in range(steps):
            if length <= goal:
                break
            image = known.T @ (weights * (known @ direction)) + ridge * direction
            if len(gram):
                image += gram @ direction
            step = length / (direction @ image)
            x += step * direction
            residual -= step * image
            longer, length = length, residual @ residual
            direction = residual + (length / longer) * direction
