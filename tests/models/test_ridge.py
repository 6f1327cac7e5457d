"""What features lead one to expect: a slope that is there is found, one that is not is left, by leaving out in turn."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.models import slopes as ridge_module
from cofill.models.slopes import FeatureRegression

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Examples = tuple[Floats, Doubles, Longs]
LAW = settings(max_examples=25, deadline=None)


def examples(n: int, seed: int, *, width: int = 3, targets: int = 2, noise: float = 0.5) -> Examples:
    """Features (n, width), targets (n, targets) that follow all features but the first, and ratings (n,)."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, width)).astype(np.float32)
    slope = rng.normal(size=(width, targets))
    slope[0] = 0
    return features, 0.3 + features @ slope + rng.normal(0, noise, (n, targets)), rng.integers(1, 30, n)


def fit(features: Floats, targets: Doubles, ratings: Longs) -> FeatureRegression:
    return FeatureRegression.fit(features, targets, ratings, np.arange(len(features), dtype=np.uint64))


def ridge(features: Floats, targets: Doubles, weights: Doubles, penalty: float) -> Doubles:
    """Slopes (width + 1, m) of the regression on [features, 1], from its normal equations."""
    f = np.column_stack([features, np.ones(len(features))]).astype(np.float64)
    gram = (f * weights[:, None]).T @ f + penalty * np.eye(f.shape[1])
    return np.asarray(np.linalg.solve(gram, (f * weights[:, None]).T @ targets), np.float64)


def weights_of(ratings: Longs) -> Doubles:
    weights: Doubles = ratings / (ratings + ratings.mean())
    return weights


def error_left_out(features: Floats, targets: Doubles, weights: Doubles, penalty: float) -> float:
    """Each example predicted by a regression that really never saw it."""
    total = 0.0
    for one in range(len(features)):
        others = np.arange(len(features)) != one
        slope = ridge(features[others], targets[others], weights[others], penalty)
        predicted = np.append(features[one], 1) @ slope
        total += float(weights[one] * ((targets[one] - predicted) ** 2).sum())
    return total


def test_a_slope_that_is_there_is_found() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 3)).astype(np.float32)
    slope = np.array([[1.0, 0.0], [-2.0, 0.5], [0.25, 0.0], [0.7, -1.0]])  # the last one is what all have
    targets = np.column_stack([features, np.ones(400)]) @ slope
    found = fit(features, targets, np.full(400, 9))
    np.testing.assert_allclose(found.slope, slope, rtol=0, atol=1e-3)
    np.testing.assert_allclose(found.expected(features), targets, rtol=0, atol=2e-3)
    noisy = fit(features, targets + rng.normal(0, 0.5, targets.shape), np.full(400, 9))
    np.testing.assert_allclose(noisy.slope, slope, rtol=0, atol=0.1)


@LAW
@given(seed=st.integers(0, 999), noise=st.sampled_from([0.3, 1.0, 3.0]), width=st.integers(1, 5))
def test_the_penalty_is_that_of_leaving_each_out(seed: int, noise: float, width: int) -> None:
    """Brute force over a fine grid: only the right errors have their least value at the same penalty."""
    features, targets, ratings = examples(14, seed, width=width, noise=noise)
    weights = weights_of(ratings)
    penalties = tuple(10.0**power for power in np.linspace(-2, 3, 41))
    errors = [error_left_out(features, targets, weights, penalty) for penalty in penalties]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ridge_module, "_PENALTIES", penalties)
        found = fit(features, targets, ratings)
    if min(errors) < float((weights[:, None] * targets**2).sum()):
        expected = ridge(features, targets, weights, penalties[int(np.argmin(errors))])
    else:
        expected = np.zeros((width + 1, 2))
    np.testing.assert_allclose(found.slope, expected, rtol=1e-4, atol=1e-5)


def test_features_that_say_nothing_are_not_believed() -> None:
    """Over many draws of pure noise: what is expected is nearly nothing, while least squares would expect much."""
    expected, naive = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        features, targets = rng.normal(size=(60, 20)).astype(np.float32), rng.normal(size=(60, 1))
        found = fit(features, targets, np.full(60, 5))
        expected.append(np.square(found.expected(features)).mean())
        by_least_squares = np.column_stack([features, np.ones(60)]) @ ridge(features, targets, np.ones(60), 0)
        naive.append(np.square(by_least_squares).mean())
    assert np.mean(naive) > 0.25
    assert np.mean(expected) < 0.05
    assert np.median(expected) < 0.01


@LAW
@given(seed=st.integers(0, 999), n=st.integers(15, 25))
def test_the_order_of_examples_and_features_does_not_matter(seed: int, n: int) -> None:
    features, targets, ratings = examples(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    one = fit(features, targets, ratings)
    other = fit(features[order][:, [2, 0, 1]], targets[order], ratings[order])
    np.testing.assert_allclose(one.slope[[2, 0, 1, 3]], other.slope, rtol=1e-4, atol=1e-5)


def test_examples_without_ratings_do_not_count() -> None:
    features, targets, ratings = examples(30, 1)
    more = np.concatenate([features, np.full((5, 3), 7, np.float32)]), np.concatenate([targets, np.full((5, 2), 1e6)])
    with_more = fit(*more, np.append(ratings, np.zeros(5, np.int64)))
    np.testing.assert_allclose(with_more.slope, fit(features, targets, ratings).slope, rtol=1e-6)


def test_examples_with_many_ratings_count_more() -> None:
    """Two kinds of examples that contradict each other."""
    features = np.ones((40, 1), np.float32)
    targets = np.where(np.arange(40) < 20, 1.0, -1.0)[:, None]
    many, few = np.full(20, 900), np.full(20, 3)
    first = fit(features, targets, np.concatenate([many, few])).expected(features[:1])[0, 0]
    second = fit(features, targets, np.concatenate([few, many])).expected(features[:1])[0, 0]
    assert first > 0.5
    assert second == pytest.approx(-first, rel=1e-5)


def test_without_features_nothing_is_expected() -> None:
    found = fit(np.zeros((4, 0), np.float32), np.full((4, 2), 3.0), np.full(4, 9))
    assert found.slope.shape == (1, 2)
    np.testing.assert_array_equal(found.expected(np.zeros((3, 0), np.float32)), np.zeros((3, 2)))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_hardly_any_examples(n: int) -> None:
    features, targets, ratings = examples(2, 0)
    found = fit(features[:n], targets[:n], ratings[:n])
    assert found.slope.shape == (4, 2)
    assert np.isfinite(found.slope).all()
    if n < 2:  # there is no other example to predict it from
        assert not found.slope.any()


def test_features_that_repeat_each_other() -> None:
    """Also a feature that is the same for all: it cannot be told from the one at the end."""
    features, targets, ratings = examples(40, 3)
    doubled = np.column_stack([features, features, np.ones((40, 1), np.float32)])
    found = fit(doubled, targets, ratings)
    assert np.isfinite(found.slope).all()
    plain = fit(features, targets, ratings)
    np.testing.assert_allclose(found.expected(doubled), plain.expected(features), rtol=0, atol=0.2)
