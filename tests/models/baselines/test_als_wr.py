"""ALS-WR keeps the contract, its steps are those of the paper's objective, and cmfrec finds the same minimum."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.arrays import Floats
from cofill.data.ratings import Ratings
from cofill.data.sparse import SparseRows
from cofill.models.baselines.als_wr import ALSWR, ALSWRFactors, first_items
from cofill.models.baselines.base import STARS, rescaled, solve_ridges
from tests.models.contract import LearnerContract, kept_in, parts, rmse


class TestContract(LearnerContract):
    expected_rmse = 0.855

    def make(self, **changes: Any) -> ALSWR:
        if "epochs" in changes:
            changes["iterations"] = changes.pop("epochs")
        return ALSWR(**{"rank": 8, "weight_decay": 0.08, "threads": 1} | changes)


def objective(ratings: Ratings, factors: ALSWRFactors, weight_decay: float) -> float:
    """The paper's, word for word."""
    users, items = factors.users.astype(np.float64), factors.items.astype(np.float64)
    error = ratings.values - (users[ratings.user_index] * items[ratings.item_index]).sum(1)
    user_counts = np.bincount(ratings.user_index, minlength=len(users))
    item_counts = np.bincount(ratings.item_index, minlength=len(items))
    decay = user_counts @ (users**2).sum(1) + item_counts @ (items**2).sum(1)
    return float((error**2).sum() + weight_decay * decay)


def fitted(train: Ratings, **changes: Any) -> ALSWRFactors:
    factors = ALSWR(**{"rank": 8, "weight_decay": 0.08, "threads": 1} | changes).fit(train).predictor.factors
    assert isinstance(factors, ALSWRFactors)
    return factors


def closed_form(others: Floats, ratings: Floats, weight_decay: float) -> npt.NDArray[np.floating]:
    known = others.astype(np.float64)
    ridge = weight_decay * len(ratings) * np.eye(known.shape[1])
    return np.linalg.solve(known.T @ known + ridge, known.T @ ratings)


def solved(rows: SparseRows, others: Floats, weight_decay: float, steps: int, start: Floats | None = None) -> Floats:
    vectors = np.zeros((rows.rows, others.shape[1]), np.float32) if start is None else start.copy()
    ridges = (weight_decay * rows.counts()).astype(np.float32)
    solve_ridges(rows, others, ridges, vectors, steps=steps, tolerance=1e-7, threads=1)
    return vectors


@pytest.mark.parametrize("steps", [1, 3])
def test_the_objective_falls_with_every_iteration(steps: int) -> None:
    train = parts().train
    reached = [objective(train, fitted(train, iterations=n, steps=steps), 0.08) for n in (1, 2, 3, 5, 8, 12)]
    assert all(after < before for before, after in pairwise(reached))


def test_every_user_ends_at_the_closed_form() -> None:
    train = parts().train
    factors, rows = fitted(train, iterations=2), train.rows("user")
    for user in range(0, rows.rows, 29):
        items, ratings = rows.row(user)
        expected = closed_form(factors.items[items], rescaled(ratings, train.scale, STARS), 0.08)
        np.testing.assert_allclose(factors.users[user], expected, rtol=0, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    ratings=st.integers(1, 60),
    rank=st.integers(1, 40),
    weight_decay=st.floats(0.01, 1),
    seed=st.integers(0, 99),
)
def test_a_new_vector_is_the_closed_form(ratings: int, rank: int, weight_decay: float, seed: int) -> None:
    """Whether there are more ratings than factors or fewer."""
    rng = np.random.default_rng(seed)
    others = rng.normal(0, 1 / np.sqrt(rank), (ratings, rank)).astype(np.float32)
    values = rng.integers(1, 6, ratings).astype(np.float32)
    factors = ALSWRFactors(others[:0], others[:0], np.array([weight_decay], np.float32))
    expected = closed_form(others, values, float(np.float32(weight_decay)))
    for found in (factors.user_from(others, values), factors.item_from(others, values)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * max(1, np.abs(expected).max()))


def test_a_step_goes_down_the_gradient_as_far_as_it_is_worth() -> None:
    """The first step of conjugate gradients is steepest descent with the best length, from wherever it starts."""
    rng = np.random.default_rng(0)
    others = rng.normal(0, 0.5, (9, 4)).astype(np.float32)
    values = rng.integers(1, 6, 9).astype(np.float32)
    start = rng.normal(0, 1, (1, 4)).astype(np.float32)
    rows = SparseRows(np.array([0, 9]), np.arange(9, dtype=np.int32), values, 9)
    matrix = others.T @ others + 0.1 * 9 * np.eye(4)
    gradient = others.T @ values - matrix @ start[0]
    expected = start[0] + gradient * (gradient @ gradient) / (gradient @ matrix @ gradient)
    np.testing.assert_allclose(solved(rows, others, 0.1, 1, start)[0], expected, atol=1e-5)
    np.testing.assert_allclose(solved(rows, others, 0.1, 4, start)[0], closed_form(others, values, 0.1), atol=1e-4)


def test_a_few_steps_are_as_good_as_the_closed_form() -> None:
    _, train, test, _, _ = parts()
    quick, exact = (ALSWR(rank=8, weight_decay=0.08, threads=1, steps=steps).fit(train) for steps in (3, 200))
    assert rmse(quick.predict(test), test.values) == pytest.approx(rmse(exact.predict(test), test.values), abs=2e-3)


def test_somebody_who_rates_everything_0_is_understood() -> None:
    """There the right side of the equations is zero, so nothing can be measured by it."""
    factors = fitted(parts().train, iterations=2)
    np.testing.assert_array_equal(factors.user_from(factors.items[:9], np.zeros(9, np.float32)), 0)


def test_items_start_at_their_means() -> None:
    rows = SparseRows(np.array([0, 2, 2, 3]), np.array([0, 1, 1], np.int32), np.array([2, 5, 4], np.float32), 2)
    items = first_items(rows, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(items[:, 0], [3.5, 0, 4])
    np.testing.assert_array_equal(items[1], 0)
    assert 0 < np.abs(items[[0, 2], 1:]).min() < np.abs(items[:, 1:]).max() < 0.1


def test_progress_counts_iterations() -> None:
    seen: list[tuple[float, float]] = []
    ALSWR(rank=2, iterations=3, threads=1).fit(parts().train, progress=kept_in(seen))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_cmfrec_finds_the_same_minimum() -> None:
    cmfrec = pytest.importorskip("cmfrec")
    pandas = pytest.importorskip("pandas")
    _, train, test, _, _ = parts()
    theirs = cmfrec.CMF(
        k=8,
        lambda_=0.08,
        scale_lam=True,
        method="als",
        use_cg=False,
        niter=60,
        user_bias=False,
        item_bias=False,
        center=False,
        nthreads=1,
        random_state=1,
        verbose=False,
    )
    in_stars = replace(train, values=rescaled(train.values, train.scale, STARS), scale=STARS)
    columns = {"UserId": train.user_index, "ItemId": train.item_index, "Rating": in_stars.values.astype(np.float64)}
    theirs.fit(pandas.DataFrame(columns))
    ours = ALSWR(rank=8, weight_decay=0.08, iterations=60, threads=1).fit(train)
    factors = ours.predictor.factors
    assert isinstance(factors, ALSWRFactors)
    users = theirs.A_[np.argsort(theirs.user_mapping_)].astype(np.float32)
    items = theirs.B_[np.argsort(theirs.item_mapping_)].astype(np.float32)
    reached = objective(in_stars, ALSWRFactors(users, items, np.array([0.08], np.float32)), 0.08)
    assert objective(in_stars, factors, 0.08) == pytest.approx(reached, rel=0.002)
    user, item = train.users.find(test.users.ids), train.items.find(test.items.ids)
    predicted = theirs.predict(user[test.user_index], item[test.item_index]).astype(np.float32)
    predicted = rescaled(predicted, STARS, train.scale)
    assert rmse(ours.predict(test), test.values) == pytest.approx(rmse(predicted, test.values), abs=0.002)
