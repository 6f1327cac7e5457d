"""What features tell of items without ratings: the vectors that other items with such features have."""

import numpy as np
import pytest

from cofill.models.lists.by_features import KernelRegression


def test_vectors_that_are_no_linear_function_of_features_are_found() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(600, 2)).astype(np.float32)
    targets = np.column_stack([features[:, 0] * features[:, 1], np.ones(600)]).astype(np.float32)
    (fit,) = KernelRegression.fits(features[:500], targets[:500], (0.1,))
    left = targets[500:] - fit.expected(features[500:])
    assert (left**2).mean(0).max() < 0.1 * targets[:, 0].var()


def test_a_large_penalty_leaves_the_mean() -> None:
    features = np.arange(12, dtype=np.float32)[:, None]
    (fit,) = KernelRegression.fits(features, features, (1e9,))
    np.testing.assert_allclose(fit.expected(features), 5.5, atol=1e-4)


@pytest.mark.parametrize("count", [1, 3])
def test_items_that_all_have_the_same_features_have_the_same_vector(count: int) -> None:
    features = np.ones((count, 2), np.float32)
    (fit,) = KernelRegression.fits(features, np.arange(count, dtype=np.float32)[:, None], (3.0,))
    np.testing.assert_allclose(fit.expected(features), (count - 1) / 2, atol=1e-5)
