"""SVDFeature: a factorisation whose users and items are sums of features, of which the id itself is one.

Chen, Zhang, Lu, Chen, Zheng, Yu: "SVDFeature: A Toolkit for Feature-based Collaborative Filtering", JMLR 2012.

    rating = mu + sum_f s_f b_f + sum_g t_g c_g + (sum_f s_f p_f) . (sum_g t_g q_g)
    minimise  sum over ratings of (rating - r)^2 + weight_decay * (|b|^2 + |c|^2 + |p|^2 + |q|^2 of its features)

s are the features of the user, t those of the item: 1 for the own id, and the side features as they are given. All of
it is learned by stochastic gradient descent, one rating at a time, as in the paper; features that are zero cost
nothing. The paper's global features belong to a pair of user and item; cofill knows of none, so mu, the mean, is the
only global term.

We differ in the steps. Every epoch takes the ratings in a new random order, with steps that become smaller. Those of
side features are divided by the sum of their squares, if that is above 1 (normalised least mean squares): all of them
together move a prediction about as far as the id alone, however many there are. And no step goes beyond the rating that
it is taken for: with p, q the sums of the pair, a learning rate of at most 1 / (g_s (|q|^2 + 1) + g_t (|p|^2 + 1)),
where g is 1, and at most 2 with side features. Side features start at zero: those that few ratings have say little.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from pydantic import Field

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.models.baselines.base import (
    Baseline,
    Done,
    Factors,
    FoldIn,
    Rated,
    TrainingData,
    ridge,
)
from cofill.models.bias_models import BiasSettings

# Standard deviation of the factors of ids before the first step.
_START = 0.1


class SVDFeatureSettings(BiasSettings):
    """What SVDFeature is given by name."""

    rank: int = Field(default=64, ge=1, description="factors of a user and of an item")
    epochs: int = Field(default=40, ge=1, description="passes over the ratings")
    learning_rate: float = Field(default=0.03, gt=0, description="step size before it decays")
    learning_rate_decay: float = Field(
        default=0.2, ge=0, description="step in epoch t is learning_rate / (1 + t * this)"
    )
    weight_decay: float = Field(default=0.06, ge=0, description="L2 regularisation of factors and biases, a rating")


@dataclass(eq=False)
class SVDFeatureFactors(Factors):
    """(p, mu + b, 1) of a user, (q, 1, c) of an item, sums over all their features."""

    overall_and_decay: Floats  # (2,): mu and weight_decay

    def user_from(self, items: Floats, ratings: Floats, centre: Floats | None = None) -> Floats:
        usual = np.append(np.zeros(items.shape[1] - 2), [self.overall_and_decay[0], 1])
        return self._around(usual if centre is None else centre, -1, items, ratings)

    def item_from(self, users: Floats, ratings: Floats, centre: Floats | None = None) -> Floats:
        usual = np.append(np.zeros(users.shape[1] - 2), [1, 0])
        return self._around(usual if centre is None else centre, -2, users, ratings)

    def moved(self, trained: Floats, before: Rated, after: Rated, fold_in: FoldIn) -> Floats:
        """A user or item that was known by side features alone stays near to what they say."""
        return super().moved(trained, before, after, fold_in) if len(before[1]) else fold_in(*after, centre=trained)

    def _around(self, centre: Floats | Doubles, fixed: int, others: Floats, ratings: Floats) -> Floats:
        """The minimum of the loss of these ratings, with the L2 norm of the difference from a centre."""
        penalty = max(float(self.overall_and_decay[1]) * len(ratings), 1e-6)  # one solution without decay, too
        return ridge(others, ratings, penalty, centre.astype(np.float64), fixed).astype(np.float32)


class SVDFeature(Baseline):
    """A feature-based factorisation with biases.

    >>> SVDFeature(rank=64).fit("ratings.csv", item_features="movies.csv").predict([(42, "Alien")])
    """

    kind = "svdfeature"
    settings_class = SVDFeatureSettings
    _settings: SVDFeatureSettings
    factors_class = SVDFeatureFactors
    takes_features = True

    def _factorise(self, data: TrainingData, done: Done) -> SVDFeatureFactors:
        settings, ratings = self._settings, data.by_user
        rng = np.random.default_rng(settings.seed)
        users = Side.start(ratings.counts() > 0, data.user_features, settings.rank, rng)
        items = Side.start(data.by_item.counts() > 0, data.item_features, settings.rank, rng)
        who = np.repeat(np.arange(ratings.rows, dtype=np.int32), ratings.counts())
        left = ratings.values - np.float32(data.overall)
        for epoch in range(settings.epochs):
            step = np.float32(settings.learning_rate / (1 + epoch * settings.learning_rate_decay))
            order = rng.permutation(len(left))
            descend(users, items, order, who, ratings.indices, left, step, np.float32(settings.weight_decay))
            done(epoch + 1, settings.epochs)
        user_sums, item_sums = users.sums(), items.sums()
        user_sums[:, -1] += np.float32(data.overall)
        return SVDFeatureFactors(
            np.insert(user_sums, user_sums.shape[1], 1, axis=1),
            np.insert(item_sums, -1, 1, axis=1),
            np.array([data.overall, settings.weight_decay], np.float32),
        )


class Side(NamedTuple):
    """What is learned of users, or of items: a row for every id, then one for every side feature."""

    indptr: Longs  # (ids + 1,): id i has the features from indptr[i] to indptr[i + 1], the first of which is its own
    features: Ints  # rows of `factors`
    weights: Floats
    rates: Floats  # (ids,): what the steps of side features are multiplied by
    gains: Floats  # (ids,): how far a step of length 1 moves a sum, the id and all side features together
    factors: Floats  # (ids + features, rank + 1); the last is the bias

    @classmethod
    def start(cls, rated: Bools, features: Floats, rank: int, rng: np.random.Generator) -> "Side":
        from scipy.sparse import csr_array, eye_array, hstack

        ids = len(rated)
        every = hstack([eye_array(ids, dtype=np.float32), csr_array(features)], format="csr")
        every.sort_indices()  # the own feature is the first
        squares = (features**2).sum(1)
        rates: Floats = 1 / np.maximum(squares, np.float32(1))
        factors = np.zeros((every.shape[1], rank + 1), np.float32)
        factors[:ids, :-1] = rng.normal(0, _START, (ids, rank)) * rated[:, None]
        indptr, indices = every.indptr.astype(np.int64), every.indices.astype(np.int32)
        return cls(indptr, indices, every.data, rates, 1 + rates * squares, factors)

    def sums(self) -> Floats:
        """(ids, rank + 1): the sum over the features of an id."""
        from scipy.sparse import csr_array

        shape = len(self.rates), len(self.factors)
        summed: Floats = csr_array((self.weights, self.features, self.indptr), shape=shape) @ self.factors
        return summed


@compiled
def descend(
    users: Side, items: Side, order: Longs, who: Ints, what: Ints, left: Floats, step: np.float32,
    weight_decay: np.float32,
) -> None:  # fmt: skip
    """One epoch over the ratings in that order, in place; `left` are ratings less the mean."""
    rank = users.factors.shape[1] - 1
    one, p, q = np.float32(1), np.empty(rank + 1, np.float32), np.empty(rank + 1, np.float32)
    for entry in order:
        user, item = who[entry], what[entry]
        _sum(users, user, p)
        _sum(items, item, q)
        error = left[entry] - p[rank] - q[rank]
        p[rank] = q[rank] = one  # what the bias of the other side is multiplied by
        squares_p, squares_q = one, one
        for k in range(rank):
            error -= p[k] * q[k]
            squares_p += p[k] * p[k]
            squares_q += q[k] * q[k]
        curvature = users.gains[user] * squares_q + items.gains[item] * squares_p
        move = step * error / max(one, step * curvature)
        _move(users, user, q, move, step * weight_decay)
        _move(items, item, p, move, step * weight_decay)


@compiled
def _sum(side: Side, index: int, total: Floats) -> None:
    """The sum of the factors of an id's features, in place."""
    total[:] = 0
    for f in range(side.indptr[index], side.indptr[index + 1]):
        weight, factors = side.weights[f], side.factors[side.features[f]]
        for k in range(len(total)):
            total[k] += weight * factors[k]


@compiled
def _move(side: Side, index: int, others: Floats, move: np.float32, decay: np.float32) -> None:
    """A step of an id's features against the gradient; `others` is the sum of the factors of the other side, and 1."""
    start, one = side.indptr[index], np.float32(1)
    for f in range(start, side.indptr[index + 1]):
        rate = one if f == start else side.rates[index]
        keep, along, factors = one / (one + rate * decay), rate * move * side.weights[f], side.factors[side.features[f]]
        for k in range(len(others)):
            factors[k] = keep * factors[k] + along * others[k]
