"""SVDFeature: a factorisation whose users and items are sums of features, of which the id itself is one.

Chen, Zhang, Lu, Chen, Zheng, Yu: "SVDFeature: A Toolkit for Feature-based Collaborative Filtering", JMLR 2012.

    rating = mu + sum_f s_f b_f + sum_g t_g c_g + (sum_f s_f p_f) . (sum_g t_g q_g)
    minimise  sum over ratings of (rating - r)^2 + weight_decay * (|b|^2 + |c|^2 + |p|^2 + |q|^2 of its features)

s are the features of the user, t those of the item: 1 for the own id, and the side features as they are given. All of
it is learned by stochastic gradient descent, one rating at a time, as in the paper; features that are zero cost
nothing. The paper's global features belong to a pair of user and item; cofill knows of none, so mu, the mean, is the
only global term. We differ in the schedule: every epoch takes the ratings in a new random order, with steps that
become smaller.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cofill.arrays import Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.errors import TrainingDivergedError
from cofill.models.baselines.base import STARS, Baseline, BaselineSettings, Done, Factors, Given, TrainingData

# Standard deviation of the factors before the first step.
_START = 0.1


class SVDFeatureSettings(BaselineSettings):
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

    def user_from(self, items: Floats, ratings: Floats) -> Floats:
        centre = np.append(np.zeros(items.shape[1] - 2), [self.overall_and_decay[0], 1])
        return self._around(centre, -1, Given(items, ratings))

    def item_from(self, users: Floats, ratings: Floats) -> Floats:
        return self._around(np.append(np.zeros(users.shape[1] - 2), [1, 0]), -2, Given(users, ratings))

    def user_moved(self, trained: Floats, before: Given, after: Given) -> Floats:
        """A user who was known by side features alone stays near to what they say."""
        return super().user_moved(trained, before, after) if len(before.ratings) else self._around(trained, -1, after)

    def item_moved(self, trained: Floats, before: Given, after: Given) -> Floats:
        return super().item_moved(trained, before, after) if len(before.ratings) else self._around(trained, -2, after)

    def _around(self, centre: npt.NDArray[np.floating], fixed: int, given: Given) -> Floats:
        """The vector that minimises the loss of these ratings, with the L2 norm of what it differs from a centre by.

        The number at the place `fixed` stays 1.
        """
        found = centre.astype(np.float64)
        others, ratings = given
        if len(ratings):
            left = ratings - others @ found
            free = np.delete(np.arange(len(found)), fixed)
            known = others[:, free].astype(np.float64)
            ridge = max(float(self.overall_and_decay[1]) * len(ratings), 1e-6)  # one solution without decay, too
            found[free] += np.linalg.solve(known.T @ known + ridge * np.eye(len(free)), known.T @ left)
        return found.astype(np.float32)


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
        settings = self._settings
        ratings = data.by_user
        rng = np.random.default_rng(settings.seed)
        users = Side.start(ratings.counts() > 0, data.user_features, settings.rank, rng)
        items = Side.start(data.by_item.counts() > 0, data.item_features, settings.rank, rng)
        who = np.repeat(np.arange(ratings.rows, dtype=np.int32), ratings.counts())
        left = ratings.values - np.float32(data.overall)
        most = len(left) * (STARS.high - STARS.low) ** 2  # not even predictions at the wrong end of the scale have more
        for epoch in range(settings.epochs):
            step = np.float32(settings.learning_rate / (1 + epoch * settings.learning_rate_decay))
            order = rng.permutation(len(left))
            loss = descend(users, items, order, who, ratings.indices, left, step, np.float32(settings.weight_decay))
            if not loss <= most:  # nor if it is not a number
                raise TrainingDivergedError(
                    f"the factors ran away in epoch {epoch + 1}; lower learning_rate, which is {settings.learning_rate}"
                )
            done(epoch + 1, settings.epochs)
        user_bias, user_factors = users.summed()
        item_bias, item_factors = items.summed()
        return SVDFeatureFactors(
            np.column_stack([user_factors, np.float32(data.overall) + user_bias, np.ones_like(user_bias)]),
            np.column_stack([item_factors, np.ones_like(item_bias), item_bias]),
            np.array([data.overall, settings.weight_decay], np.float32),
        )


class Side(NamedTuple):
    """What is learned of users, or of items: a row for every id, then one for every side feature."""

    indptr: Longs  # (ids + 1,): id i has the features from indptr[i] to indptr[i + 1]; the own one is not listed
    features: Ints  # rows of the two below
    weights: Floats
    factors: Floats  # (ids + features, rank)
    bias: Floats  # (ids + features,)

    @classmethod
    def start(cls, rated: npt.NDArray[np.bool_], features: Floats, rank: int, rng: np.random.Generator) -> "Side":
        ids = len(rated)
        of, which = np.nonzero(features)
        indptr = np.zeros(ids + 1, np.int64)
        np.cumsum(np.bincount(of, minlength=ids), out=indptr[1:])
        factors = rng.normal(0, _START, (ids + features.shape[1], rank)).astype(np.float32)
        factors[:ids][~rated] = 0  # no rating will ever move them
        return cls(
            indptr,
            (ids + which).astype(np.int32),
            features[of, which],
            factors,
            np.zeros(len(factors), np.float32),
        )

    def summed(self) -> tuple[Floats, Floats]:
        """(ids,) biases and (ids, rank) factors, each the sum over the features of an id."""
        from scipy.sparse import csr_array

        ids = len(self.indptr) - 1
        side = csr_array((self.weights, self.features - ids, self.indptr), shape=(ids, len(self.bias) - ids))
        return self.bias[:ids] + side @ self.bias[ids:], self.factors[:ids] + side @ self.factors[ids:]


@compiled
def descend(
    users: Side,
    items: Side,
    order: Longs,
    who: Ints,
    what: Ints,
    left: Floats,
    step: np.float32,
    weight_decay: np.float32,
) -> float:
    """One epoch over the ratings in that order, in place; `left` are ratings less the mean. Returns the loss."""
    rank = users.factors.shape[1]
    user_sum, item_sum = np.empty(rank, np.float32), np.empty(rank, np.float32)
    keep = np.float32(1) - step * weight_decay
    loss = 0.0
    for entry in order:
        user, item = who[entry], what[entry]
        error = left[entry] - _sum(users, user, user_sum) - _sum(items, item, item_sum)
        for k in range(rank):
            error -= user_sum[k] * item_sum[k]
        loss += error * error
        _move(users, user, item_sum, step * error, keep)
        _move(items, item, user_sum, step * error, keep)
    return loss


@compiled
def _sum(side: Side, index: int, factors: Floats) -> np.float32:
    """The sum of the factors of an id's features, in place, and that of their biases."""
    rank = len(factors)
    bias: np.float32 = side.bias[index]
    for k in range(rank):
        factors[k] = side.factors[index, k]
    for f in range(side.indptr[index], side.indptr[index + 1]):
        weight, feature = side.weights[f], side.features[f]
        bias += weight * side.bias[feature]
        for k in range(rank):
            factors[k] += weight * side.factors[feature, k]
    return bias


@compiled
def _move(side: Side, index: int, others: Floats, move: np.float32, keep: np.float32) -> None:
    """A step of an id's features against the gradient; `others` is the sum of the factors of the other side."""
    rank = len(others)
    side.bias[index] = keep * side.bias[index] + move
    for k in range(rank):
        side.factors[index, k] = keep * side.factors[index, k] + move * others[k]
    for f in range(side.indptr[index], side.indptr[index + 1]):
        move_f, feature = move * side.weights[f], side.features[f]
        side.bias[feature] = keep * side.bias[feature] + move_f
        for k in range(rank):
            side.factors[feature, k] = keep * side.factors[feature, k] + move_f * others[k]
