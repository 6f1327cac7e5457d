"""LLORMA: a weighted sum of low-rank models, each of which is about one region of the matrix.

Lee, Kim, Lebanon, Singer: "Local Low-Rank Matrix Approximation", ICML 2013.

Anchors are pairs (a, b) drawn from the known ratings. A global factorisation of the ratings gives every user and every
item a vector; the distance between two of them is the angle between their vectors, and K(d) = 1 - d^2 / width^2 inside
the width, 0 outside (Epanechnikov) says how near they are. Each anchor t has a model of its own, fitted by

    minimise over p_t, q_t  sum over known (u, i) of K_t(u) K_t(i) (r_ui - p_t(u) . q_t(i))^2
                            + weight_decay * (sum_u w_t(u) |p_t(u)|^2 + sum_i w_t(i) |q_t(i)|^2)

    rating = sum_t K_t(u) K_t(i) p_t(u) . q_t(i) / sum_t K_t(u) K_t(i)

where w_t(u) sums K_t(u) K_t(i) over the ratings of u. Where no anchor reaches, the global model predicts. Taken
from the paper: anchors, distances, kernel, local models fitted apart from each other (its parallel version), and their
combination. We differ in how the models are fitted, which is by alternating least squares in closed form: it needs
few iterations instead of a hundred, and no learning rate. Regularisation is in proportion to the weight of the ratings,
so that it does not drag those at the rim of a region to zero stars. The width is in radians; the authors' 0.8, in right
angles, is 1.26. With 30 anchors, on validation ratings of MovieLens-1M: 1.0 0.8453, 1.2 0.8395, 1.4 0.8387.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from pydantic import Field

from cofill.arrays import Floats
from cofill.data.sparse import SparseRows
from cofill.errors import TrainingDivergedError
from cofill.models.baselines.base import (
    Baseline,
    Done,
    Factors,
    FoldIn,
    Rated,
    ThreadedSettings,
    TrainingData,
    ridge,
    solve_ridges,
)

# A vector is solved for down to a gradient of this share of that of a zero vector.
_EXACT = 1e-5
_MOST_STEPS = 100


class LLORMASettings(ThreadedSettings):
    """What LLORMA is given by name."""

    rank: int = Field(default=20, ge=1, description="rank of the global model and of each local one")
    anchors: int = Field(default=30, ge=1, description="local models")
    width: float = Field(default=1.4, gt=0, description="angle, in radians, at which an anchor's reach ends")
    weight_decay: float = Field(
        default=0.035, gt=0, description="L2 regularisation of a vector, for each of its ratings"
    )
    iterations: int = Field(default=8, ge=1, description="times that all users and all items are solved for")


@dataclass(eq=False)
class LLORMAFactors(Factors):
    """(global vector, K_t, K_t times its local vector) with t over all anchors: of a user, and of an item."""

    anchor_users: Floats  # (anchors, rank): global vectors of the anchors' users
    anchor_items: Floats  # (anchors, rank)
    numbers: Floats  # (2,): width and weight decay

    def __post_init__(self) -> None:
        self._width, self._weight_decay = (float(value) for value in self.numbers)
        anchors, self._rank = self.anchor_users.shape
        self._whole, self._reach = slice(0, self._rank), slice(self._rank, self._rank + anchors)
        self._local = slice(self._rank + anchors, None)

    def rating(self, product: Callable[[slice], Floats]) -> Floats:
        reach, local = product(self._reach), product(self._local)
        reached = reach > 0
        return np.where(reached, local / np.where(reached, reach, 1), product(self._whole))

    # Ratings that came later

    def user_from(self, items: Floats, ratings: Floats) -> Floats:
        return self._found(self.anchor_users, items, ratings)

    def item_from(self, users: Floats, ratings: Floats) -> Floats:
        return self._found(self.anchor_items, users, ratings)

    def moved(self, trained: Floats, before: Rated, after: Rated, fold_in: FoldIn) -> Floats:
        """The anchors' reach stays what it was: the place in the matrix was learned, and weights do not add."""
        reach = trained[self._reach]
        return trained + self._solved(reach, *after) - self._solved(reach, *before)

    def _found(self, anchors: Floats, others: Floats, ratings: Floats) -> Floats:
        whole = self._ridge(others[:, self._whole], ratings, np.ones_like(ratings))
        reach = kernel(whole[None], anchors, self._width)[0]
        reach[others[:, self._reach].sum(0) == 0] = 0  # a model without a rating of it has no say
        found = self._solved(reach, others, ratings)
        found[self._reach] = reach
        return found

    def _solved(self, reach: Floats, others: Floats, ratings: Floats) -> Floats:
        """The vector of a row with these ratings and this place among the anchors, with nothing in place of K."""
        whole = self._ridge(others[:, self._whole], ratings, np.ones_like(ratings))
        local = np.zeros((len(reach), self._rank), np.float32)
        theirs = others[:, self._local].reshape(len(others), *local.shape)
        for t in np.flatnonzero(reach):
            weights = others[:, self._reach][:, t]
            rated = weights > 0
            vectors = theirs[rated, t] / weights[rated, None]
            local[t] = reach[t] * self._ridge(vectors, ratings[rated], weights[rated])
        return np.concatenate([whole, np.zeros_like(reach), local.ravel()])

    def _ridge(self, vectors: Floats, ratings: Floats, weights: Floats) -> Floats:
        """What minimises sum_n weights_n ((ratings_n - x . vectors_n)^2 + weight_decay |x|^2); zero if n is."""
        roots, penalty = np.sqrt(weights), self._weight_decay * float(weights.sum(dtype=np.float64))
        return ridge(vectors * roots[:, None], ratings * roots, penalty or 1.0).astype(np.float32)


class LLORMA(Baseline):
    """Local low-rank models around anchors, weighted by how near they are.

    >>> LLORMA(rank=20, anchors=30).fit("ratings.csv").predict([(42, "Alien")])
    """

    kind = "llorma"
    settings_class = LLORMASettings
    _settings: LLORMASettings
    factors_class = LLORMAFactors

    def _factorise(self, data: TrainingData, done: Done) -> LLORMAFactors:
        settings = self._settings
        by_user = data.by_user
        rng = np.random.default_rng(settings.seed)
        chosen = rng.choice(by_user.nnz, min(settings.anchors, by_user.nnz), replace=False)
        anchor_users = np.searchsorted(by_user.indptr, chosen, side="right") - 1
        anchor_items = by_user.indices[chosen]
        rated_users, rated_items = ((rows.counts() > 0).astype(np.float32) for rows in (by_user, data.by_item))
        fit = partial(alternate, data, settings, rng)
        users, items = fit(rated_users, rated_items)
        done(1, len(chosen) + 1)
        user_reach = kernel(users, users[anchor_users], settings.width) * rated_users[:, None]
        item_reach = kernel(items, items[anchor_items], settings.width) * rated_items[:, None]
        local_users, local_items = [], []
        for t in range(len(chosen)):
            near_users, near_items = user_reach[:, t].copy(), item_reach[:, t].copy()
            p, q = fit(near_users, near_items)
            user_reach[:, t], item_reach[:, t] = near_users, near_items
            local_users.append(near_users[:, None] * p)
            local_items.append(near_items[:, None] * q)
            done(t + 2, len(chosen) + 1)
        return LLORMAFactors(
            np.hstack([users, user_reach, *local_users]),
            np.hstack([items, item_reach, *local_items]),
            users[anchor_users],
            items[anchor_items],
            np.array([settings.width, settings.weight_decay], np.float32),
        )


def kernel(vectors: Floats, anchors: Floats, width: float) -> Floats:
    """(n, anchors): the kernel of the angles between vectors (n, rank) and those of anchors (anchors, rank)."""
    lengths = np.linalg.norm(vectors, axis=1)[:, None] * np.linalg.norm(anchors, axis=1)
    with np.errstate(invalid="ignore"):  # BLAS has raised the flag once where it came to numbers; they are looked at
        products = vectors @ anchors.T
    if not np.isfinite(products).all():
        raise TrainingDivergedError("the vectors of users or items are no finite numbers; give a larger weight_decay")
    cosines = np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    angles = np.arccos(np.clip(cosines, -1, 1))
    near: Floats = np.maximum(1 - (angles / np.float32(width)) ** 2, 0).astype(np.float32)
    return near


def alternate(
    data: TrainingData,
    settings: LLORMASettings,
    rng: np.random.Generator,
    user_weights: Floats,
    item_weights: Floats,
) -> tuple[Floats, Floats]:
    """Vectors (users, rank) and (items, rank) of one weighted model.

    Rows that share no region with any row that they are compared with get a weight of zero.
    """
    by_user, by_item = data.by_user, data.by_item
    users = np.zeros((by_user.rows, settings.rank), np.float32)
    items = rng.random((by_item.rows, settings.rank), np.float32)
    for rows, own, others in ((by_user, user_weights, item_weights), (by_item, item_weights, user_weights)):
        own[rows.row_sums(others[rows.indices]) == 0] = 0

    def solve(rows: SparseRows, own: Floats, mine: Floats, weights: Floats, others: Floats) -> None:
        """The ridge regression of each row; the row's own weight cancels out."""
        confidence = weights[rows.indices]
        ridges = (settings.weight_decay * rows.row_sums(confidence)).astype(np.float32)
        solve_ridges(
            rows, others, ridges, mine, confidence=confidence, steps=_MOST_STEPS, tolerance=_EXACT,
            threads=settings.threads,
        )  # fmt: skip
        mine[own == 0] = 0

    for _ in range(settings.iterations):
        solve(by_user, user_weights, users, item_weights, items)
        solve(by_item, item_weights, items, user_weights, users)
    return users, items
