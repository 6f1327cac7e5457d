"""LLORMA keeps the contract, and is its definition written out slowly."""

import copy
from typing import Any

import numpy as np
import pytest

from cofill.arrays import Doubles
from cofill.data.ratings import Ratings
from cofill.models.baselines.base import TrainingData
from cofill.models.baselines.llorma import LLORMA, LLORMASettings, alternate
from tests.models.contract import LearnerContract, cells, kept_in, parts, predict, rmse, small_cells

QUICK: dict[str, Any] = {"rank": 5, "anchors": 8, "iterations": 6, "weight_decay": 0.06, "threads": 1}


class TestContract(LearnerContract):
    expected_rmse = 0.855
    reads_users = False

    def make(self, **changes: Any) -> LLORMA:
        if "epochs" in changes:
            changes["iterations"] = changes.pop("epochs")
        return LLORMA(**{**QUICK, **changes})


# The definition


def slowly_fitted(
    known: Doubles, rating: Doubles, weight: Doubles, start: Doubles, iterations: int, weight_decay: float
) -> tuple[Doubles, Doubles]:
    """Alternating least squares with a weight for every cell, all matrices dense; `known` is 1 where a rating is."""

    def solved(weight: Doubles, rating: Doubles, others: Doubles) -> Doubles:
        found = np.zeros((len(weight), others.shape[1]))
        for row, w in enumerate(weight):
            if w.sum() > 0:
                squares = others.T @ np.diag(w) @ others + weight_decay * w.sum() * np.eye(others.shape[1])
                found[row] = np.linalg.inv(squares) @ others.T @ (w * rating[row])
        return found

    weight, q = known * weight, start
    for _ in range(iterations):
        p = solved(weight, rating, q)
        q = solved(weight.T, rating.T, p)
    return p, q


def slow_llorma(ratings: Ratings, settings: LLORMASettings) -> tuple[Doubles, float]:
    """Every prediction (users, items), and the share of them that an anchor reaches."""
    shape = (len(ratings.users), len(ratings.items))
    known, rating = np.zeros(shape), np.zeros(shape)
    known[ratings.user_index, ratings.item_index] = 1
    rating[ratings.user_index, ratings.item_index] = ratings.values
    rng = np.random.default_rng(settings.seed)
    users, items = np.nonzero(known)
    anchors = rng.choice(len(users), settings.anchors, replace=False)

    def fitted(rating: Doubles, weight: Doubles) -> tuple[Doubles, Doubles]:
        start = rng.random((shape[1], settings.rank), np.float32).astype(np.float64)
        return slowly_fitted(known, rating, weight, start, settings.iterations, settings.weight_decay)

    def kernel(one: Doubles, other: Doubles) -> float:
        angle = np.arccos(np.minimum(one @ other / np.sqrt((one @ one) * (other @ other)), 1))
        return float(1 - (angle / settings.width) ** 2) if angle < settings.width else 0.0

    p, q = fitted(rating, np.ones(shape))
    above, below = np.zeros(shape), np.zeros(shape)
    for anchor in anchors:
        near_user = np.array([kernel(row, p[users[anchor]]) for row in p])
        near_item = np.array([kernel(row, q[items[anchor]]) for row in q])
        weight = np.outer(near_user, near_item)
        local_p, local_q = fitted(rating, weight)
        # A local model that has none of the ratings of a user, or of an item, has nothing to say about it.
        weight = weight * ((known * weight).sum(1) > 0)[:, None] * ((known * weight).sum(0) > 0)
        above += weight * (local_p @ local_q.T)
        below += weight
    reached = below > 0
    return np.where(reached, above / np.where(reached, below, 1), p @ q.T), float(reached.mean())


@pytest.mark.parametrize(("width", "reached"), [(0.1, (0.01, 0.5)), (0.5, (0.3, 1.0)), (2.0, (1.0, 1.0))])
def test_it_is_its_definition(width: float, reached: tuple[float, float]) -> None:
    ratings = cells(small_cells())
    changes: dict[str, Any] = {
        "rank": 2,
        "anchors": 3,
        "iterations": 4,
        "weight_decay": 0.05,
        "width": width,
        "seed": 4,
        "threads": 1,
    }
    model = LLORMA(**changes).fit(ratings)
    expected, share = slow_llorma(ratings, LLORMASettings(**changes))
    assert reached[0] <= share <= reached[1]
    np.testing.assert_allclose(model.predictor.users(np.arange(len(ratings.users))), expected, atol=2e-3)


def test_the_objective_falls_with_every_iteration() -> None:
    train = parts().train
    nothing = np.empty((0, 0), np.float32)
    data = TrainingData(train.rows("user"), train.rows("item"), 3.5, nothing, nothing)
    rng = np.random.default_rng(0)
    user_weights, item_weights = (rng.random(n).astype(np.float32) for n in (data.by_user.rows, data.by_item.rows))
    weight = user_weights[train.user_index] * item_weights[train.item_index]
    values = []
    for iterations in range(1, 8):
        settings = LLORMASettings(rank=4, iterations=iterations, weight_decay=0.05, threads=1)
        p, q = alternate(data, settings, np.random.default_rng(1), user_weights, item_weights)
        p_u, q_i = p[train.user_index].astype(np.float64), q[train.item_index].astype(np.float64)
        errors = (train.values - (p_u * q_i).sum(1)) ** 2
        values.append(float((weight * (errors + 0.05 * ((p_u**2).sum(1) + (q_i**2).sum(1)))).sum()))
    assert (np.diff(values) < 0).all()


# As it is used


def test_local_models_together_are_better_than_one() -> None:
    _, train, test, _, _ = parts()
    quick = {**QUICK, "weight_decay": 0.02}  # so little that each of them alone has learned some of the noise
    reached = [rmse(LLORMA(**{**quick, "anchors": n}).fit(train).predict(test), test.values) for n in (1, 4, 16)]
    assert reached[0] - 0.01 > reached[1] > reached[2]


def test_later_ratings_leave_a_trained_user_where_the_anchors_saw_them() -> None:
    """And the same ratings again change nothing at all."""
    model = LLORMA(**QUICK).fit(parts().train)
    changed = copy.deepcopy(model).add_ratings(cells([(1, 2, 0.5), (1, 3, 5.0), (2, 9, 4.0)], (0.5, 5)))
    reach = slice(QUICK["rank"], QUICK["rank"] + QUICK["anchors"])
    after, before = (one.predictor._users.now[0] for one in (changed, model))
    np.testing.assert_array_equal(after[reach], before[reach])
    assert (after != before).any()
    train = parts().train
    first = train.select(train.user_index == 0)
    again = copy.deepcopy(model).add_ratings(first)
    pairs = [(1, item) for item in train.items]
    np.testing.assert_allclose(predict(again, pairs), predict(model, pairs), atol=1e-5)


def test_anchors_are_reported_one_by_one_and_never_more_than_ratings() -> None:
    seen: list[tuple[float, float]] = []
    LLORMA(**QUICK).fit([(1, 1, 3.0), (1, 2, 4.0)], progress=kept_in(seen))
    assert seen == [(1, 3), (2, 3), (3, 3)]
