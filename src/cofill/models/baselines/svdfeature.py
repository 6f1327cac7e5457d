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

from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cofill.arrays import Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.config import Settings
from cofill.errors import TrainingDivergedError
from cofill.models.baselines.base import STARS, Arrays, Baseline, BaselineSettings, Done, Factors, Given, TrainingData

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


class SVDFeatureFactors(Factors):
    """(p, mu + b, 1) of a user, (q, 1, c) of an item, sums over all their features."""

    def __init__(self, users: Floats, items: Floats, overall_and_decay: Floats) -> None:
        super().__init__(users, items)
        self._overall, self._weight_decay = (float(value) for value in overall_and_decay)

    def user_from(self, items: Floats, ratings: Floats) -> Floats:
        return self._user_around(np.append(np.zeros(items.shape[1] - 2), [self._overall, 1]), items, ratings)

    def item_from(self, users: Floats, ratings: Floats) -> Floats:
        return self._item_around(np.append(np.zeros(users.shape[1] - 2), [1, 0]), users, ratings)

    def user_moved(self, trained: Floats, before: Given, after: Given) -> Floats:
        """Somebody who was known by side features alone stays near to what they say."""
        if len(before.ratings):
            return super().user_moved(trained, before, after)
        return self._user_around(trained, after.vectors, after.ratings)

    def item_moved(self, trained: Floats, before: Given, after: Given) -> Floats:
        if len(before.ratings):
            return super().item_moved(trained, before, after)
        return self._item_around(trained, after.vectors, after.ratings)

    def _user_around(self, centre: npt.NDArray[np.floating], items: Floats, ratings: Floats) -> Floats:
        free = np.arange(items.shape[1] - 1)  # all but the last, which is 1
        return self._around(centre, free, items, ratings)

    def _item_around(self, centre: npt.NDArray[np.floating], users: Floats, ratings: Floats) -> Floats:
        free = np.append(np.arange(users.shape[1] - 2), users.shape[1] - 1)
        return self._around(centre, free, users, ratings)

    def _around(self, centre: npt.NDArray[np.floating], free: Longs, others: Floats, ratings: Floats) -> Floats:
        """The vector that minimises the loss of these ratings, with the L2 norm of what it differs from a centre by."""
        found = centre.astype(np.float64)
        if len(ratings):
            left = ratings - others @ found
            known = others[:, free].astype(np.float64)
            ridge = max(self._weight_decay * len(ratings), 1e-6)  # so that there is one solution without decay too
            found[free] += np.linalg.solve(known.T @ known + ridge * np.eye(len(free)), known.T @ left)
        return found.astype(np.float32)

    def arrays(self) -> Arrays:
        return super().arrays() | {"overall_and_decay": np.array([self._overall, self._weight_decay], np.float32)}


class SVDFeature(Baseline):
    """A feature-based factorisation with biases.

    >>> SVDFeature(rank=64).fit("ratings.csv", item_features="movies.csv").predict([(42, "Alien")])
    """

    kind = "svdfeature"
    settings_class: ClassVar[type[Settings]] = SVDFeatureSettings
    factors_class = SVDFeatureFactors
    takes_features = True

    def _factorise(self, data: TrainingData, done: Done) -> SVDFeatureFactors:
        settings = self._settings
        assert isinstance(settings, SVDFeatureSettings)
        ratings = data.by_user
        rng = np.random.default_rng(settings.seed)
        users = Side.start(ratings.counts() > 0, data.user_features, settings.rank, rng)
        items = Side.start(data.by_item.counts() > 0, data.item_features, settings.rank, rng)
        who = np.repeat(np.arange(ratings.rows, dtype=np.int32), ratings.counts())
        left = ratings.values - np.float32(data.overall)
        most = len(left) * (STARS.high - STARS.low) ** 2  # not even predictions at the wrong end of the scale have more
        for epoch in range(settings.epochs):
            step = settings.learning_rate / (1 + epoch * settings.learning_rate_decay)
            order = rng.permutation(len(left))
            loss = descend(users, items, order, who, ratings.indices, left, step, settings.weight_decay)
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
        factors[:ids][~rated] = 0  # nobody will ever move them
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


def descend(
    users: Side, items: Side, order: Longs, who: Ints, what: Ints, left: Floats, step: float, weight_decay: float
) -> float:
    """One epoch over the ratings in that order, in place; `left` are ratings less the mean. Returns the loss."""
    return _descend(*users, *items, order, who, what, left, np.float32(step), np.float32(weight_decay))


@compiled
def _descend(
    user_indptr: Longs,
    user_features: Ints,
    user_weights: Floats,
    p: Floats,
    b: Floats,
    item_indptr: Longs,
    item_features: Ints,
    item_weights: Floats,
    q: Floats,
    c: Floats,
    order: Longs,
    who: Ints,
    what: Ints,
    left: Floats,
    step: np.float32,
    weight_decay: np.float32,
) -> float:
    rank = p.shape[1]
    user_sum, item_sum = np.empty(rank, np.float32), np.empty(rank, np.float32)
    keep = np.float32(1) - step * weight_decay
    loss = 0.0
    for entry in order:
        user, item = who[entry], what[entry]
        first_f, last_f = user_indptr[user], user_indptr[user + 1]
        first_g, last_g = item_indptr[item], item_indptr[item + 1]
        bias = b[user] + c[item]
        for k in range(rank):
            user_sum[k] = p[user, k]
            item_sum[k] = q[item, k]
        for f in range(first_f, last_f):
            weight, feature = user_weights[f], user_features[f]
            bias += weight * b[feature]
            for k in range(rank):
                user_sum[k] += weight * p[feature, k]
        for g in range(first_g, last_g):
            weight, feature = item_weights[g], item_features[g]
            bias += weight * c[feature]
            for k in range(rank):
                item_sum[k] += weight * q[feature, k]
        dot = np.float32(0)
        for k in range(rank):
            dot += user_sum[k] * item_sum[k]
        error = left[entry] - bias - dot
        loss += error * error
        move = step * error
        b[user] = keep * b[user] + move
        c[item] = keep * c[item] + move
        for k in range(rank):
            p[user, k] = keep * p[user, k] + move * item_sum[k]
            q[item, k] = keep * q[item, k] + move * user_sum[k]
        for f in range(first_f, last_f):
            move_f, feature = move * user_weights[f], user_features[f]
            b[feature] = keep * b[feature] + move_f
            for k in range(rank):
                p[feature, k] = keep * p[feature, k] + move_f * item_sum[k]
        for g in range(first_g, last_g):
            move_g, feature = move * item_weights[g], item_features[g]
            c[feature] = keep * c[feature] + move_g
            for k in range(rank):
                q[feature, k] = keep * q[feature, k] + move_g * user_sum[k]
    return loss
