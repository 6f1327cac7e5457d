"""How the weights of trained columns differ, and what few ratings can do for a new one."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cofill import CFN
from cofill.models.cfn.codes import CodeSpace
from cofill.models.cfn.gp_fit import code_space
from cofill.models.cfn.network import Linear
from cofill.models.rng import Portion, draws_of
from tests.models.contract import cells, predict, small_cells

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
WIDTH = 6


def fit(weight: Floats, bias: Floats, ratings: Longs, features: Floats | None = None) -> CodeSpace:
    features = np.zeros((len(weight), 0), np.float32) if features is None else features
    keys = draws_of(np.uint64(0), np.arange(len(weight), dtype=np.uint64))
    portion = Portion(np.zeros(0, np.uint64), keys, len(weight))
    no_rows = np.zeros((0, WIDTH), np.float32), np.zeros(0, np.int64)
    return code_space(Linear(weight, bias), ratings, features, *no_rows, portion)


def test_the_spread_is_that_of_the_trained_columns() -> None:
    rng = np.random.default_rng(0)
    weight: Floats = (rng.normal(size=(500, WIDTH)) * np.arange(1, WIDTH + 1)).astype(np.float32)
    bias = rng.normal(3, 1, size=500).astype(np.float32)
    weight[400:] = 1e6  # columns without ratings mean nothing
    trained = np.arange(500) < 400
    found = fit(weight, bias, trained.astype(np.int64))
    both = np.column_stack([weight, bias])[trained]
    np.testing.assert_allclose(found.mean, both.mean(0), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.factor @ found.factor.T, np.cov(both.T, bias=True), rtol=0, atol=0.02)


@pytest.mark.parametrize("columns", [0, 1])
def test_a_spread_of_hardly_any_columns(columns: int) -> None:
    weight, bias = np.ones((3, WIDTH), np.float32), np.ones(3, np.float32)
    found = fit(weight, bias, (np.arange(3) < columns).astype(np.int64))
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.factor).all()


def columns_that_follow_features() -> tuple[Floats, Floats, Floats, Floats]:
    """Weights (500, WIDTH), biases (500,), features (500, 3), and how weights and biases follow features."""
    rng = np.random.default_rng(4)
    features = rng.normal(size=(500, 3)).astype(np.float32)
    slope = rng.normal(size=(3, WIDTH + 1)).astype(np.float32)
    both = 0.5 + features @ slope + rng.normal(0, 0.1, (500, WIDTH + 1)).astype(np.float32)
    return both[:, :-1].astype(np.float32), both[:, -1].astype(np.float32), features, slope


def test_weights_are_expected_to_follow_features() -> None:
    weight, bias, features, slope = columns_that_follow_features()
    weight[400:] = 1e6  # columns without ratings mean nothing
    ratings = np.where(np.arange(500) < 400, 20, 0)
    found = fit(weight, bias, ratings, features)
    np.testing.assert_allclose(found.expected(features[400:]), 0.5 + features[400:] @ slope, rtol=0, atol=0.1)
    # What features do not say is all that ratings have left to say: little here, and much without features.
    surprise = np.column_stack([weight, bias])[:400] - found.expected(features[:400])
    np.testing.assert_allclose(found.factor @ found.factor.T, surprise.T @ surprise / 400, rtol=0, atol=1e-3)
    assert np.trace(found.factor @ found.factor.T) < 0.1
    blind = fit(weight, bias, ratings)
    assert np.trace(blind.factor @ blind.factor.T) > 5


def test_features_that_say_nothing_leave_the_mean() -> None:
    weight, bias, features, _ = columns_that_follow_features()
    found = fit(weight, bias, np.full(500, 20), np.roll(features, 7, axis=0))
    assert np.abs(found.expected(features) - found.mean).max() < 0.5
    plain = fit(weight, bias, np.full(500, 20))
    np.testing.assert_array_equal(found.mean, plain.mean)
    np.testing.assert_array_equal(plain.expected(np.zeros((2, 0), np.float32)), np.stack([plain.mean] * 2))


@pytest.mark.parametrize("orientation", ["user", "item"])
@pytest.mark.parametrize(
    "changes",
    [
        {"decoder": "network", "validation": 0},
        {"decoder": "network", "validation": 0, "output": "tanh"},
        {"validation": 0.1},  # without validation ratings, codes are believed less than these deserve
    ],
    ids=["identity", "tanh", "process"],
)
def test_somebody_new_is_on_the_right_side(orientation: str, changes: dict[str, Any]) -> None:
    """Two kinds of users and items: a few ratings tell of which kind somebody is."""
    model = CFN(orientation=orientation, hidden=8, epochs=60, batch=4, threads=1, **changes)
    model.fit(cells(small_cells(users=28, items=22)))  # of fewer, the draw decides what is learned
    odd = {1: 5.0, 3: 5.0, 2: 1.0, 4: 1.0}
    recommended = [int(r.item) for r in model.recommend(odd, n=4, by="rating")]
    assert all(item % 2 for item in recommended[:3]), recommended
    even = {1: 1.0, 3: 1.0, 2: 5.0, 4: 5.0}
    assert all(int(r.item) % 2 == 0 for r in model.recommend(even, n=3, by="rating"))
    model.add_ratings(cells([(99, item, rating) for item, rating in odd.items()]))
    assert [int(r.item) for r in model.recommend(99, n=3, by="rating")] == recommended[:3]
    # An item that users of even number like is liked by the others of even number.
    model.add_ratings(cells([(user, 77, 5.0 if user % 2 == 0 else 1.0) for user in range(8)]))
    predicted = predict(model, [(user, 77) for user in range(8, 14)])
    assert predicted[::2].min() > predicted[1::2].max()
