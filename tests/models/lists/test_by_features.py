"""What features tell of items without ratings: the vectors that other items with such features have."""

import numpy as np
import polars as pl
import pytest

from cofill.data.interactions import Interactions
from cofill.models.bias_models import ListModel
from cofill.models.lists import by_features
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


# The penalty


def fitted(items: int, half_life: str = "100d") -> ListModel:
    """Every item has been chosen by ten users, half of whom were there years before the others."""
    day = 86_400
    rows = [
        ((7 * item + n) % 50, item, 1, (12_000 + 3_000 * (n % 2)) * day) for item in range(items) for n in range(10)
    ]
    features = pl.DataFrame({"item": range(items), "x": np.sin(range(items)), "y": np.cos(range(items))})
    return ListModel(half_life=half_life, list_goal="any").fit(Interactions.read(rows), item_features=features)


def test_users_of_whose_grades_time_has_left_nothing_judge_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[float] = []

    def best(worth: list[float]) -> float:
        found.extend(worth)
        return 3.0

    monkeypatch.setattr(by_features, "_best", best)
    fitted(60, "1d")
    assert len(found) > 1
    assert (np.array(found) > 0).all()


def test_few_items_leave_the_usual_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def best(worth: list[float]) -> float:
        asked.append(len(worth))
        return 3.0

    monkeypatch.setattr(by_features, "_best", best)
    fitted(54)
    assert not asked
    fitted(55)  # one in five is held out: eleven
    assert asked


def test_of_penalties_that_rank_alike_the_nearest_to_the_usual_one_is_taken() -> None:
    count = len(by_features._PENALTIES)
    assert by_features._best([0.5] * count) == pytest.approx(10**0.5)
    assert by_features._best([0.5] + [0.4] * (count - 2) + [0.5]) == pytest.approx(0.1)
    assert by_features._best([0.4] * (count - 1) + [0.5]) == by_features._PENALTIES[-1]
