"""What features tell of items and users without ratings: the vector of an item as a target, and the code of a user.

Of items it is kernel ridge regression: with landmarks l_k, some of the items that features and ratings are known of,

    vector = constant + sum_k exp(-|f - l_k|^2 / width) a_k        width = 2 * the mean of |f - l_k|^2

Its penalty is the one with which whole items that it never saw are ranked best for users, by NDCG@10. The penalty that
predicts vectors with the least squared error is far too small for that. Of penalties that rank alike
the nearest to the usual one is taken. Where ten items or fewer can be held out, it is the usual one. On validation
items of MovieLens-1M (genres, year, people, country, language, plot) lists among cold items have .214 by a linear
regression with the least error, .244 by one that ranks best, and .282 by kernels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from cofill.arrays import Arrays, Doubles, Floats, Ints
from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.exchange import Exchange
from cofill.models.lists.feedback import entries_where, sparse_times
from cofill.models.lists.item_weights import ItemWeights
from cofill.models.rng import Keys, Sample, seed_of
from cofill.models.slopes import FeatureRegression

_SEED = seed_of(0xBF)
# Users that the regression on their features learns from, and that judge lists of held-out items.
_MOST_USERS, _JUDGES = 20_000, 2_000
# Items that the regression on their features learns from, those that kernels stand at, and those that are held out.
_MOST_ITEMS, _LANDMARKS, _MOST_HELD_OUT = 20_000, 500, 1_000
_HELD_OUT = 5  # one in so many
_PENALTIES = tuple(10.0**power for power in np.arange(-1, 2.1, 0.5))
_USUAL_PENALTY = 3.0
_WIDTH = 2.0
_AT_ONCE = 4096
_DISCOUNT = 1 / np.log2(np.arange(2, 12))


@dataclass(frozen=True)
class KernelRegression:
    """expected (n, m) = [similarities of features (n, P) to landmarks, 1] . slope"""

    landmarks: Floats  # (l, P)
    slope: Floats  # (l + 1, m)
    width: float

    @classmethod
    def nothing(cls, features: int, targets: int) -> Self:
        return cls(np.zeros((0, features), np.float32), np.zeros((1, targets), np.float32), 1.0)

    def arrays(self) -> Arrays:
        """For the model file."""
        width = np.array([self.width])
        return {"item_landmarks": self.landmarks, "by_item_features": self.slope, "item_width": width}

    @classmethod
    def restored(cls, arrays: Arrays) -> Self:
        return cls(arrays["item_landmarks"], arrays["by_item_features"], float(arrays["item_width"][0]))

    @classmethod
    def fits(cls, features: Floats, targets: Floats, penalties: tuple[float, ...]) -> Iterator[Self]:
        """With each of the penalties, from examples (n, P) and (n, m), of which the first are landmarks."""
        landmarks = features[:_LANDMARKS]
        distance = _distances(features[:_AT_ONCE], landmarks).mean() if len(features) else 0.0
        width = _WIDTH * max(float(distance), 1e-6)
        values, vectors = np.linalg.eigh(_similarities(landmarks, landmarks, width))
        kept = values > 1e-6 * values.max()
        root = vectors[:, kept] / np.sqrt(values[kept])  # along these axes the penalty is that of the kernel
        inputs = _similarities(features, landmarks, width) @ root
        centre, constant = inputs.mean(0), targets.mean(0, dtype=np.float64)
        inputs -= centre
        values, vectors = np.linalg.eigh(inputs.T @ inputs)
        moments = vectors.T @ (inputs.T @ (targets - constant))
        for penalty in penalties:
            solved = vectors @ (moments / (np.maximum(values, 0) + penalty)[:, None])
            slope = np.concatenate([root @ solved, (constant - centre @ solved)[None]])
            yield cls(landmarks, slope.astype(np.float32), width)

    def expected(self, features: Floats) -> Floats:
        """(n, P) -> (n, m)"""
        found = np.tile(self.slope[-1], (len(features), 1))
        if len(self.landmarks):
            for first in range(0, len(features), _AT_ONCE):
                some = slice(first, first + _AT_ONCE)
                found[some] += _similarities(features[some], self.landmarks, self.width) @ self.slope[:-1]
        return found


def _distances(features: Floats, landmarks: Floats) -> Doubles:
    """(n, l): squared."""
    f, of_landmarks = features.astype(np.float64), landmarks.astype(np.float64)
    squares = (f**2).sum(1)[:, None] + (of_landmarks**2).sum(1) - 2 * f @ of_landmarks.T
    return np.asarray(np.maximum(squares, 0.0))


def _similarities(features: Floats, landmarks: Floats, width: float) -> Doubles:
    """(n, l): from 0 to 1."""
    return np.asarray(np.exp(_distances(features, landmarks) / -width))


class ByFeatures(NamedTuple):
    """What features tell of a user's code, and of the vector of an item as a target."""

    users: FeatureRegression
    items: KernelRegression

    @classmethod
    def nothing(cls, users: SideFeatures, items: SideFeatures, weights: ItemWeights) -> "ByFeatures":
        width = weights.directions.shape[1]
        of_users = FeatureRegression(np.zeros((users.width + 1, width), np.float32))
        return cls(of_users, KernelRegression.nothing(items.width, width))

    @classmethod
    def fit(
        cls,
        graded: SparseRows,
        sides: tuple[SideFeatures, SideFeatures],
        weights: ItemWeights,
        popularity: float,
        keys: tuple[Keys, Keys],
        exchange: Exchange,
    ) -> "ByFeatures":
        """`sides` and `keys` are of users and of items; n^-popularity is what scores of items were multiplied by."""
        (users, items), (user_keys, item_keys) = sides, keys
        of_users, of_items = cls.nothing(users, items, weights)
        if users.width:
            some = np.flatnonzero(users.trained_described & (graded.counts() > 0))
            some = Sample.of(user_keys, some, _MOST_USERS, _SEED, exchange).places
            taken = graded.take(some)
            codes = sparse_times(taken, weights.directions)
            of_users = FeatureRegression.fit(users.trained[some], codes, taken.counts(), user_keys[some], exchange)
        rated = np.flatnonzero(items.trained_described & (weights.ratings > 0))
        if items.width and len(rated):
            sample = Sample.of(item_keys, rated, _MOST_ITEMS, _SEED)
            examples = sample.places[sample.order].astype(np.int32)
            # What is popular is not held back: of cold items, features tell that, too.
            popular = (np.maximum(weights.ratings[examples], 1.0) ** popularity).astype(np.float32)
            targets = weights.target_codes(examples) * popular[:, None]
            features = items.trained[examples]
            held_out = min(len(examples) // _HELD_OUT, _MOST_HELD_OUT)
            penalty = _USUAL_PENALTY
            if held_out > len(_DISCOUNT):
                judge = _Judge.of(graded, weights, examples[-held_out:], user_keys, exchange)
                fits = KernelRegression.fits(features[:-held_out], targets[:-held_out], _PENALTIES)
                penalty = _best([judge.ndcg(fit.expected(features[-held_out:])) for fit in fits])
            of_items = next(KernelRegression.fits(features, targets, (penalty,)))
        return cls(of_users, of_items)


def _best(worth: list[float]) -> float:
    """The penalty that ranks best; of several, the nearest to the usual one."""
    unusual = np.abs(np.log(np.array(_PENALTIES) / _USUAL_PENALTY))
    return float(_PENALTIES[int(np.lexsort((unusual, -np.array(worth)))[0])])


class _Judge(NamedTuple):
    """Users who are recommended held-out items, from everything else that they did."""

    codes: Floats  # (n, code)
    gains: Doubles  # (n, items): the grades of what they did
    best: Doubles  # (n,): the sum of discounted gains of the best list
    exchange: Exchange

    @classmethod
    def of(cls, graded: SparseRows, weights: ItemWeights, items: Ints, keys: Keys, exchange: Exchange) -> Self:
        place = np.full(graded.columns, -1)
        place[items] = np.arange(len(items))
        # A grade that time has left nothing of tells nothing.
        told = (place[graded.indices] >= 0) & (graded.values > 0)
        some = np.flatnonzero(entries_where(graded, told).counts())
        taken = graded.take(Sample.of(keys, some, _JUDGES, _SEED, exchange).places)
        held_out = place[taken.indices] >= 0
        gains = np.zeros((taken.rows, len(items)))
        of_users = np.repeat(np.arange(taken.rows), taken.counts())[held_out]
        gains[of_users, place[taken.indices[held_out]]] = taken.values[held_out]
        best = _discounted(-np.sort(-gains, axis=1))
        codes = sparse_times(entries_where(taken, ~held_out), weights.directions) + weights.directions[-1]
        return cls(codes, gains, best, exchange)

    def ndcg(self, vectors: Floats) -> float:
        """Of lists by such vectors of the items, added up over the users of all processes."""
        order = np.argsort(-(self.codes @ vectors.T), axis=1, kind="stable")[:, : len(_DISCOUNT)]
        found = _discounted(np.take_along_axis(self.gains, order, axis=1)) / self.best
        return float(self.exchange.all_reduce(np.array([found.sum()]))[0])


def _discounted(gains: Doubles) -> Doubles:
    """(n,): of lists whose gains are given from the first place on."""
    length = min(gains.shape[1], len(_DISCOUNT))
    return np.asarray(gains[:, :length] @ _DISCOUNT[:length])
