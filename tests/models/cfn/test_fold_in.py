"""Weights of new columns: the ridge regression by hand, both ways of solving it, and what few ratings can do."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill import CFN
from cofill.models.cfn.fold_in import ColumnPrior, ExampleColumn, calibration_columns, calibration_ratings, with_one
from cofill.models.portion import Portion
from cofill.models.ridge import FeatureRegression
from tests.models.contract import cells, predict, small_cells

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
WIDTH = 6


def prior(noise: float = 0.1, directions: int = 4) -> ColumnPrior:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=WIDTH + 1).astype(np.float32)
    factor = rng.normal(size=(WIDTH + 1, directions)).astype(np.float32)
    nothing = FeatureRegression(np.zeros((1, WIDTH + 1), np.float32))
    return ColumnPrior(mean, nothing, factor, rng.uniform(0.1, 2, directions).astype(np.float32), noise)


def fit(
    weight: Floats, bias: Floats, ratings: Longs, examples: list[tuple[Floats, Floats]], features: Floats | None = None
) -> ColumnPrior:
    """A prior; examples have no features of their own."""
    features = np.zeros((len(weight), 0), np.float32) if features is None else features
    nothing = np.zeros(features.shape[1], np.float32)
    columns = [ExampleColumn(*example, nothing) for example in examples]
    return ColumnPrior.fit(weight, bias, ratings, features, columns, Portion.alone(0, len(weight)))


def example(n: int, seed: int = 1) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    codes = with_one(np.tanh(rng.normal(size=(n, WIDTH))).astype(np.float32))
    return codes, rng.normal(size=n).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 12), noise=st.floats(0.01, 2), seed=st.integers(0, 99))
def test_it_is_the_posterior_mean(n: int, noise: float, seed: int) -> None:
    """Of weights ~ N(0, F F^T) given codes . weights + noise, whether there are more ratings than directions or not."""
    codes, residuals = example(n, seed)
    p = prior(noise)
    covariance = (p.factor @ p.factor.T).astype(np.float64)
    gain = covariance @ codes.T @ np.linalg.inv(codes @ covariance @ codes.T + noise * np.eye(n))
    np.testing.assert_allclose(p.solve(codes, residuals), gain @ residuals, rtol=0, atol=2e-3)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 12), held=st.integers(1, 30), seed=st.integers(0, 99))
def test_ratings_of_the_training_hold_a_column_in_place(n: int, held: int, seed: int) -> None:
    """By as much as if they were given again where the column is: here, literally, with the codes behind `pull`."""
    codes, residuals = example(n, seed)
    old, _ = example(400, 7)
    weight = np.random.default_rng(3).normal(size=(50, WIDTH)).astype(np.float32)
    p = fit(weight, weight[:, 0], np.ones(50, np.int64), [(old, np.zeros(400, np.float32))])
    features, stale = (codes @ p.factor).astype(np.float64), (old @ p.factor).astype(np.float64)
    precision = features.T @ features + held * stale.T @ stale / 400 + p.noise * np.eye(len(p.precision))
    expected = p.factor @ np.linalg.solve(precision, features.T @ residuals)
    np.testing.assert_allclose(p.solve(codes, residuals, held), expected, rtol=0, atol=2e-3)


def test_the_order_of_ratings_does_not_matter() -> None:
    codes, residuals = example(9)
    order = np.random.default_rng(0).permutation(9)
    np.testing.assert_allclose(
        prior().solve(codes[order], residuals[order]), prior().solve(codes, residuals), rtol=0, atol=1e-4
    )


def test_much_noise_means_little_trust() -> None:
    codes, residuals = example(5)
    moves = [float(np.linalg.norm(prior(noise).solve(codes, residuals))) for noise in (0.01, 1, 100, 1e6)]
    assert moves == sorted(moves, reverse=True)
    assert moves[-1] < 1e-3


def test_many_exact_ratings_are_believed() -> None:
    codes, _ = example(200)
    p = prior(directions=WIDTH + 1)
    wanted = np.random.default_rng(5).normal(size=WIDTH + 1).astype(np.float32)
    np.testing.assert_allclose(replace(p, noise=1e-4).solve(codes, codes @ wanted), wanted, atol=0.02)


def test_the_prior_is_that_of_the_trained_columns() -> None:
    rng = np.random.default_rng(0)
    weight: Floats = (rng.normal(size=(500, WIDTH)) * np.arange(1, WIDTH + 1)).astype(np.float32)
    bias = rng.normal(3, 1, size=500).astype(np.float32)
    weight[400:] = 1e6  # columns without ratings mean nothing
    trained = np.arange(500) < 400
    found = fit(weight, bias, trained.astype(np.int64), [example(30)])
    both = np.column_stack([weight, bias])[trained]
    np.testing.assert_allclose(found.mean, both.mean(0), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.factor @ found.factor.T, np.cov(both.T, bias=True), rtol=0, atol=0.02)


@pytest.mark.parametrize("columns", [0, 1])
def test_a_prior_of_hardly_any_columns(columns: int) -> None:
    weight, bias = np.ones((3, WIDTH), np.float32), np.ones(3, np.float32)
    found = fit(weight, bias, (np.arange(3) < columns).astype(np.int64), [])
    assert np.isfinite(found.mean).all()
    codes, residuals = example(4)
    assert np.isfinite(found.solve(codes, residuals)).all()


def test_calibration_finds_the_noise() -> None:
    """Ratings made with much noise are trusted less than those made with little."""
    rng = np.random.default_rng(2)
    p = prior()
    columns = p.mean + rng.normal(size=(400, 4)).astype(np.float32) @ p.factor.T
    found = []
    for noise in (0.01, 0.3):
        examples = []
        for number in range(150):
            codes, _ = example(12, number)
            weights = p.mean + p.factor @ rng.normal(size=4).astype(np.float32)
            ratings = codes @ weights + rng.normal(0, np.sqrt(noise), 12).astype(np.float32)
            examples.append((codes, ratings.astype(np.float32)))
        fitted = fit(columns[:, :-1], columns[:, -1], np.ones(400, np.int64), examples)
        found.append(fitted.noise)
    assert found[0] <= 0.03
    assert found[1] >= 0.15


def test_calibration_without_enough_ratings_keeps_the_usual_noise() -> None:
    weight, bias, trained = np.eye(WIDTH, dtype=np.float32), np.ones(WIDTH, np.float32), np.ones(WIDTH, np.int64)
    portion = Portion.alone(1000, 3)
    usual = fit(weight, bias, trained, []).noise
    assert fit(weight, bias, trained, [example(3)]).noise == usual  # too few to be halved
    assert calibration_columns(np.array([4, 0, 9]), portion).tolist() == [0, 2]
    rows, ratings = calibration_ratings(np.arange(1000, dtype=np.int32), np.ones(1000, np.float32), portion)
    assert len(rows) == len(ratings) == 40
    assert len(calibration_ratings(rows[:3], ratings[:3], portion)[0]) == 3


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
    found = fit(weight, bias, ratings, [example(30)], features)
    np.testing.assert_allclose(found.expected(features[400:]), 0.5 + features[400:] @ slope, rtol=0, atol=0.1)
    # What features do not say is all that ratings have left to say: little here, and much without features.
    surprise = np.column_stack([weight, bias])[:400] - found.expected(features[:400])
    np.testing.assert_allclose(found.factor @ found.factor.T, surprise.T @ surprise / 400, rtol=0, atol=1e-3)
    assert np.trace(found.factor @ found.factor.T) < 0.1
    blind = fit(weight, bias, ratings, [example(30)])
    assert np.trace(blind.factor @ blind.factor.T) > 5


def test_calibration_reckons_with_the_features_of_the_examples() -> None:
    """Where features say it all, ratings need not be followed; with somebody else's features they must be."""
    weight, bias, features, _ = columns_that_follow_features()
    rng = np.random.default_rng(6)
    examples = []
    for column in range(150):
        codes, _ = example(12, column)
        ratings = codes @ np.append(weight[column], bias[column]) + rng.normal(0, np.sqrt(0.3), 12)
        examples.append(ExampleColumn(codes, ratings.astype(np.float32), features[column]))
    others = [e._replace(features=features[-1 - column]) for column, e in enumerate(examples)]
    portion = Portion.alone(0, 500)
    right, wrong = (ColumnPrior.fit(weight, bias, np.full(500, 20), features, e, portion) for e in (examples, others))
    assert right.noise >= 0.2
    assert wrong.noise <= 0.02


def test_features_that_say_nothing_leave_the_mean() -> None:
    weight, bias, features, _ = columns_that_follow_features()
    found = fit(weight, bias, np.full(500, 20), [example(30)], np.roll(features, 7, axis=0))
    assert np.abs(found.expected(features) - found.mean).max() < 0.5
    plain = fit(weight, bias, np.full(500, 20), [example(30)])
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
