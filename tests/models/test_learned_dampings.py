"""The dampings of the fitted means are learned: true variances are found again, and no ratings are too odd."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.datasets.world import make_world
from cofill.data.sparse import SparseRows
from cofill.data.splits import random_split
from cofill.models.biases import FittedMeans
from tests.models.test_fitted_means import Doubles, Floats, brute_force, fit, sparse

Shape = npt.NDArray[np.bool_]


def generated(
    known: Shape, *, noise: float, row: float, column: float, seed: int, expected: Doubles | None = None
) -> SparseRows:
    """Ratings around 3 that deviate by normal draws of these variances; rows also by what is expected of them."""
    rng = np.random.default_rng(seed)
    rows, columns = known.shape
    ratings = 3 + rng.normal(0, row**0.5, (rows, 1)) + rng.normal(0, column**0.5, columns)
    ratings += 0 if expected is None else expected[:, None]
    return sparse(known, ratings + rng.normal(0, noise**0.5, known.shape))


def uneven(rows: int, columns: int, seed: int) -> Shape:
    """Some rows and columns have many ratings, most have few; about an eighth is known."""
    rng = np.random.default_rng(seed)
    odds = np.outer(rng.lognormal(0, 0.8, rows), rng.lognormal(0, 0.8, columns))
    known: Shape = rng.random((rows, columns)) < np.minimum(odds / odds.mean() / 8, 1)
    return known


@pytest.mark.parametrize(("row", "column"), [(0.2, 0.2), (0.05, 0.5), (0.6, 0.1)])
def test_known_variances_are_found_again(row: float, column: float) -> None:
    means = fit(generated(uneven(900, 700, 1), noise=0.8, row=row, column=column, seed=2), None)
    assert means.row_damping == pytest.approx(0.8 / row, rel=0.15)
    assert means.column_damping == pytest.approx(0.8 / column, rel=0.15)
    assert means.noise == pytest.approx(0.8, rel=0.05)
    assert means.row_variance == pytest.approx(row, rel=0.15)
    assert means.column_variance == pytest.approx(column, rel=0.15)


def test_deviations_are_those_of_least_squares_with_the_learned_dampings() -> None:
    rows = generated(uneven(80, 60, 3), noise=0.8, row=0.1, column=0.4, seed=4)
    means = fit(rows, None)
    row, column = brute_force(rows, (means.row_damping, means.column_damping), float(means.overall))
    assert means.row_damping > 2 * means.column_damping
    np.testing.assert_allclose(means.row, row, rtol=0, atol=1e-3)
    np.testing.assert_allclose(means.column, column, rtol=0, atol=1e-3)


def test_a_later_one_is_damped_as_its_side_is() -> None:
    rows = generated(uneven(80, 60, 3), noise=0.8, row=0.1, column=0.4, seed=4)
    means, nothing = fit(rows, None), np.empty(0, np.float32)
    again = [means.row_of(*rows.row(row), nothing) for row in range(80)]
    np.testing.assert_allclose(again, means.row, rtol=0, atol=1e-5)
    columns = rows.transpose()
    again = [means.column_of(*columns.row(column), nothing) for column in range(60)]
    np.testing.assert_allclose(again, means.column, rtol=0, atol=1e-3)


def test_what_features_explain_is_no_variance() -> None:
    features = np.random.default_rng(5).normal(size=(600, 3)).astype(np.float32)
    expected = features @ np.array([0.6, -0.4, 0.2])
    rows = generated(uneven(600, 400, 6), noise=0.8, row=0.1, column=0.2, seed=7, expected=expected)
    blind, seeing = fit(rows, None), fit(rows, None, features)
    assert seeing.row_variance == pytest.approx(0.1, rel=0.2)
    assert blind.row_variance == pytest.approx(0.1 + expected.var(), rel=0.2)
    assert seeing.row_damping > 4 * blind.row_damping
    assert seeing.column_damping == pytest.approx(blind.column_damping, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_learned_is_better_than_given_where_ratings_are_sparse(seed: int) -> None:
    """In a world of many people with a handful of ratings."""
    train, test = random_split(make_world(users=3_000, items=400, ratings=15_000, seed=seed).ratings)
    error = {}
    for damping in (7.0, None):
        means = fit(train.rows("user"), damping)
        predicted = means.overall + means.row[test.user_index] + means.column[test.item_index]
        error[damping] = float(np.sqrt(np.mean((predicted - test.values) ** 2)))
    assert error[None] < error[7.0]


# Laws

LAW = uneven(40, 30, 8)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999))
def test_the_order_of_rows_and_columns_makes_no_difference(seed: int) -> None:
    ratings = np.random.default_rng(9).integers(1, 6, LAW.shape).astype(np.float64)
    rng = np.random.default_rng(seed)
    by_row, by_column = rng.permutation(LAW.shape[0]), rng.permutation(LAW.shape[1])
    means = fit(sparse(LAW, ratings), None)
    shuffled = fit(sparse(LAW[by_row][:, by_column], ratings[by_row][:, by_column]), None)
    assert shuffled.row_damping == pytest.approx(means.row_damping, rel=1e-3)
    assert shuffled.column_damping == pytest.approx(means.column_damping, rel=1e-3)
    np.testing.assert_allclose(shuffled.row, means.row[by_row], rtol=0, atol=1e-4)
    np.testing.assert_allclose(shuffled.column, means.column[by_column], rtol=0, atol=1e-4)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), shift=st.floats(-100, 100), factor=st.floats(0.01, 100))
def test_another_scale_has_the_same_dampings(seed: int, shift: float, factor: float) -> None:
    """A constant that is added moves the overall mean alone; a factor stretches deviations."""
    rows = generated(LAW, noise=0.8, row=0.2, column=0.3, seed=seed)
    means = fit(rows, None)
    for by, to in ((1.0, shift), (factor, 0.0)):
        changed = fit(replace(rows, values=(rows.values * by + to).astype(np.float32)), None)
        assert changed.overall == pytest.approx(float(means.overall) * by + to, rel=1e-5, abs=1e-4)
        assert changed.row_damping == pytest.approx(means.row_damping, rel=2e-3)
        assert changed.column_damping == pytest.approx(means.column_damping, rel=2e-3)
        np.testing.assert_allclose(changed.row / by, means.row, rtol=0, atol=5e-4)
        np.testing.assert_allclose(changed.column / by, means.column, rtol=0, atol=5e-4)
        assert changed.noise / by**2 == pytest.approx(means.noise, rel=2e-3)


# Odd shapes


def is_sane(means: FittedMeans, rows: SparseRows) -> None:
    spread = float(np.ptp(rows.values)) if rows.nnz else 0.0
    for deviations in (means.row, means.column):
        assert np.isfinite(deviations).all()
        assert np.abs(deviations).max(initial=0) <= spread + 1e-6
    for number in (means.noise, means.row_variance, means.column_variance, means.row_damping, means.column_damping):
        assert isinstance(number, float)
        assert np.isfinite(number)
        assert number > 0
    assert max(means.row_damping, means.column_damping) <= 1e6


def drawn(shape: Shape, seed: int = 0) -> SparseRows:
    return sparse(shape, np.random.default_rng(seed).integers(1, 6, shape.shape).astype(np.float64))


ONE_RATING = np.zeros((3, 4), np.bool_)
ONE_RATING[1, 2] = True
ONE_TO_A_ROW = np.arange(40)[:, None] % 5 == np.arange(5)

SHAPES = {
    "nothing": np.zeros((3, 4), np.bool_),
    "no rows": np.zeros((0, 4), np.bool_),
    "no columns": np.zeros((3, 0), np.bool_),
    "one rating": ONE_RATING,
    "one row": np.ones((1, 30), np.bool_),
    "one column": np.ones((30, 1), np.bool_),
    "one to a row": ONE_TO_A_ROW,
    "one to a column": ONE_TO_A_ROW.T,
    "one to a row and a column": np.eye(20, dtype=np.bool_),
    "two": np.eye(2, dtype=np.bool_),
}


@pytest.mark.parametrize("damping", [None, 0.0, 7.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_odd_shapes(shape: str, damping: float | None) -> None:
    rows = drawn(SHAPES[shape])
    means = fit(rows, damping)
    if damping == 0.0:
        assert means.row_damping == means.column_damping == 0
        assert np.isfinite(means.row).all()
        assert np.isfinite([means.noise, means.row_variance, means.column_variance]).all()
    else:
        is_sane(means, rows)


@pytest.mark.parametrize("value", [0.0, 3.0, 3.3, -1e4])
def test_ratings_that_are_all_alike_leave_the_usual_damping(value: float) -> None:
    rows = sparse(LAW, np.full(LAW.shape, value))
    means = fit(rows, None)
    assert means.row_damping == means.column_damping == 7
    is_sane(means, rows)
    later = means.row_of(np.arange(3, dtype=np.int32), np.full(3, value + 1, np.float32), np.empty(0, np.float32))
    assert later == pytest.approx(0.3, abs=1e-3)


def test_ratings_without_noise() -> None:
    """They are the sum of both deviations: nothing is to be damped."""
    rng = np.random.default_rng(1)
    rows = sparse(LAW, rng.normal(3, 1, (40, 1)) + rng.normal(0, 1, 30))
    means = fit(rows, None)
    is_sane(means, rows)
    assert max(means.row_damping, means.column_damping) < 0.01
    of_row = np.repeat(np.arange(40), rows.counts())
    predicted = means.overall + means.row[of_row] + means.column[rows.indices]
    np.testing.assert_allclose(predicted, rows.values, rtol=0, atol=0.02)


def test_a_single_row_teaches_nothing_of_how_rows_differ() -> None:
    means = fit(drawn(np.ones((1, 200), np.bool_)), None)
    assert 3 < means.row_damping < 30


@pytest.mark.parametrize("width", [1, 6])
def test_more_features_than_rows(width: int) -> None:
    rows = drawn(SHAPES["two"])
    features: Floats = np.ones((2, width), np.float32)
    is_sane(fit(rows, None, features, features), rows)
