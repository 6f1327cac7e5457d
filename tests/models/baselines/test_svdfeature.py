"""SVDFeature keeps the contract, steps as its definition says, and does as well as another implementation."""

import copy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from cofill.data.datasets.world import World, make_world
from cofill.data.features import Features
from cofill.data.splits import cold_items_split
from cofill.models.baselines.base import STARS, rescaled
from cofill.models.baselines.svdfeature import Side, SVDFeature, descend
from tests.models.contract import LearnerContract, cells, kept_in, parts, predict, rmse, rmse_of_means, small_cells

QUICK: dict[str, Any] = {"rank": 8, "epochs": 25, "learning_rate": 0.03, "weight_decay": 0.05}


class TestContract(LearnerContract):
    expected_rmse = 0.855
    reads_users = False
    checkerboard: ClassVar[dict[str, Any]] = {"epochs": 200}

    def make(self, **changes: Any) -> SVDFeature:
        return SVDFeature(**{**QUICK, **changes})


@cache
def described_world() -> tuple[World, dict[str, Any]]:
    with TemporaryDirectory() as folder:
        world = make_world(users=400, items=300, ratings=16_000, seed=3)
        world.write(folder)
        films, people = (Features.read(f"{folder}/{name}.csv") for name in ("movies", "users"))
        return world, {"item_features": films, "user_features": people}


# The definition


@pytest.mark.parametrize("rate_of_learning", [0.05, 2.0])
def test_an_epoch_is_the_definition_taken_rating_by_rating(rate_of_learning: float) -> None:
    rng = np.random.default_rng(0)
    user_features = rng.normal(size=(5, 3)).astype(np.float32) * (rng.random((5, 3)) < 0.6)
    item_features = rng.normal(size=(4, 2)).astype(np.float32)
    users = Side.start(np.ones(5, np.bool_), user_features, 3, rng)
    items = Side.start(np.ones(4, np.bool_), item_features, 3, rng)
    who, what = (index.astype(np.int32) for index in np.divmod(rng.permutation(20)[:13], 4))
    left = rng.normal(size=13).astype(np.float32)
    order = rng.permutation(13)
    # The id is one feature among the others: a row of the matrix is everything that is known of it.
    s, t = np.hstack([np.eye(5), user_features]), np.hstack([np.eye(4), item_features])
    p, q = (side.factors.astype(np.float64) for side in (users, items))
    for e in order:
        s_u, t_i = s[who[e]], t[what[e]]
        sum_p, sum_q = s_u @ p, t_i @ q
        error = left[e] - sum_p[-1] - sum_q[-1] - sum_p[:-1] @ sum_q[:-1]
        sum_p[-1] = sum_q[-1] = 1
        # Steps of side features are divided by the sum of their squares, if that is above 1.
        rate_u, rate_i = (np.append(np.ones(n), np.full(len(x) - n, 1 / max(1, x[n:] @ x[n:])))
                          for n, x in ((5, s_u), (4, t_i)))  # fmt: skip
        gain = (rate_u * s_u**2).sum() * (sum_q @ sum_q) + (rate_i * t_i**2).sum() * (sum_p @ sum_p)
        step = rate_of_learning / max(1, rate_of_learning * gain)
        # A step against the gradient of error^2 / 2, then one of the decay of everything that took part.
        for vectors, x, rate, others in ((p, s_u, rate_u, sum_q), (q, t_i, rate_i, sum_p)):
            vectors /= 1 + rate_of_learning * 0.1 * (rate * (x != 0))[:, None]
            vectors += step * error * np.outer(rate * x, others)
    descend(users, items, order, who, what, left, np.float32(rate_of_learning), np.float32(0.1))
    np.testing.assert_allclose(users.factors, p, atol=1e-5)
    np.testing.assert_allclose(items.factors, q, atol=1e-5)
    np.testing.assert_allclose(users.sums(), s @ p, atol=1e-5)


def test_a_new_user_is_at_the_minimum_of_the_loss() -> None:
    """The gradient of the objective vanishes there, in the factors and in the bias."""
    model = SVDFeature(**QUICK).fit(parts().train)
    factors = model.predictor.factors
    stars = rescaled(parts().train.values, parts().train.scale, STARS)
    items, ratings = factors.items[:30], stars[:30]
    user = factors.user_from(items, ratings).astype(np.float64)
    left = ratings - items.astype(np.float64) @ user
    own = np.append(user[:-2], user[-2] - stars.mean(dtype=np.float64))
    np.testing.assert_allclose(items[:, :-1].T @ left, QUICK["weight_decay"] * 30 * own, atol=2e-3)
    assert user[-1] == 1


def test_epochs_are_reported() -> None:
    seen: list[tuple[float, float]] = []
    SVDFeature(rank=2, epochs=3).fit(cells(small_cells()), progress=kept_in(seen))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_no_step_is_too_large() -> None:
    """However large the learning rate: what is predicted of known ratings is not far beyond the scale."""
    ratings = cells(small_cells())
    model = SVDFeature(rank=2, epochs=30, learning_rate=9.0).fit(ratings)
    found = model.predictor.users(np.arange(len(ratings.users)))
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 50


# Side information


def test_features_tell_what_to_expect_of_a_cold_item() -> None:
    world, known = described_world()
    train, test = cold_items_split(world.ratings, ratio=0.9, seed=1)
    without = rmse(SVDFeature(**QUICK).fit(train).predict(test), test.values)
    assert rmse(SVDFeature(**QUICK).fit(train, **known).predict(test), test.values) < without - 0.02


def test_many_features_do_not_run_away() -> None:
    """With the defaults, although none of these features says anything."""
    _, train, test, _, _ = parts()
    numbers = np.random.default_rng(0).normal(size=(100, len(train.items)))
    table = pl.DataFrame({"item": list(train.items)} | {f"number {n}": column for n, column in enumerate(numbers)})
    described = SVDFeature().fit(train, item_features=table)
    assert rmse(described.predict(test), test.values) < rmse_of_means(train, test) + 0.01


def test_features_are_kept(tmp_path: Path) -> None:
    world, known = described_world()
    train, test = cold_items_split(world.ratings, ratio=0.9, seed=1)
    model = SVDFeature(**{**QUICK, "epochs": 3}).fit(train, **known)
    model.save(tmp_path)
    np.testing.assert_array_equal(SVDFeature.load(tmp_path).predict(test), model.predict(test))


def test_the_first_rating_of_a_described_item_starts_from_what_its_features_say() -> None:
    """It comes nearer to what was said, and does not count the features twice."""
    world, known = described_world()
    train, test = cold_items_split(world.ratings, ratio=0.9, seed=1)
    model = SVDFeature(**QUICK).fit(train, **known)
    item = test.items.id(int(test.item_index[0]))
    pairs = [(user, item) for user in range(1, 100)]
    before = predict(model, pairs)
    told = copy.deepcopy(model).add_ratings(cells([(1, item, float(before[0]))], (0.5, 5)))
    np.testing.assert_allclose(predict(told, pairs[1:]), before[1:], atol=1e-3)  # nothing new was said
    told = copy.deepcopy(model).add_ratings(cells([(1, item, 0.5)], (0.5, 5)))
    assert (predict(told, pairs) < before).mean() > 0.9


# Another implementation


def test_without_features_as_good_as_surprise() -> None:
    """The same factorisation with the same step, regularisation, rank and epochs, on the same split.

    Ours takes the ratings in a new random order every epoch, theirs user by user, which learns a little less.
    """
    surprise = pytest.importorskip("surprise")
    _, train, test, _, _ = parts()
    reader = surprise.Reader(rating_scale=(0.5, 5))
    frame, asked = train.to_polars().to_pandas(), test.to_polars().to_pandas()
    peer = surprise.SVD(n_factors=10, n_epochs=20, lr_all=0.01, reg_all=0.05, random_state=0)
    peer.fit(surprise.Dataset.load_from_df(frame[["user", "item", "rating"]], reader).build_full_trainset())
    theirs = np.array([peer.predict(u, i).est for u, i in zip(asked["user"], asked["item"], strict=True)])
    ours = SVDFeature(rank=10, epochs=20, learning_rate=0.01, learning_rate_decay=0, weight_decay=0.05).fit(train)
    assert rmse(ours.predict(test), test.values) == pytest.approx(rmse(theirs, test.values), abs=0.01)
    assert rmse(theirs, test.values) < rmse_of_means(train, test) - 0.01
