"""The biases: damped least squares, what side features say of rows and columns without ratings, learned dampings."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.datasets.world import make_world
from cofill.data.sparse import SparseRows
from cofill.data.splits import random_split
from cofill.models.biases import Biases

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Shape = npt.NDArray[np.bool_]
ROWS, COLUMNS = 60, 40


def sparse(known: npt.NDArray[np.bool_], ratings: Doubles) -> SparseRows:
    row, column = np.nonzero(known)
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    return SparseRows(indptr, column.astype(np.int32), ratings[row, column].astype(np.float32), known.shape[1])


def fit(
    rows: SparseRows, damping: float | None, row_features: Floats | None = None, column_features: Floats | None = None
) -> Biases:
    return Biases.fit(
        rows,
        rows.transpose(),
        damping,
        row_features=np.zeros((rows.rows, 0), np.float32) if row_features is None else row_features,
        column_features=np.zeros((rows.columns, 0), np.float32) if column_features is None else column_features,
    )


class Described:
    """Ratings of 3 + row + column, both of which follow features; every fifth row and column has no rating."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.row_features = rng.normal(size=(ROWS, 2)).astype(np.float32)
        self.column_features = rng.normal(size=(COLUMNS, 3)).astype(np.float32)
        self.row = self.row_features @ np.array([0.4, -0.2])
        self.column = self.column_features @ np.array([-0.3, 0.0, 0.5])
        known = rng.random((ROWS, COLUMNS)) < 0.6
        known[::5], known[:, ::5] = False, False
        noise = rng.normal(0, 0.1, (ROWS, COLUMNS))
        self.rows = sparse(known, 3 + self.row[:, None] + self.column + noise)
        self.means = fit(self.rows, 5.0, self.row_features, self.column_features)


def brute_force(rows: SparseRows, dampings: tuple[float, float], overall: float) -> tuple[Doubles, Doubles]:
    """The deviations with the least sum of squared errors + damping * squared deviations, from its normal equations."""
    n, m = rows.rows, rows.columns
    of_row = np.repeat(np.arange(n), rows.counts())
    design = np.zeros((rows.nnz, n + m))
    design[np.arange(rows.nnz), of_row] = 1
    design[np.arange(rows.nnz), n + rows.indices] = 1
    gram = design.T @ design + np.diag(np.repeat(dampings, (n, m)))
    found = np.asarray(np.linalg.solve(gram, design.T @ (rows.values.astype(np.float64) - overall)), np.float64)
    return found[:n], found[n:]


@pytest.mark.parametrize("orientation", ["user", "item"])
@pytest.mark.parametrize("damping", [7.0, 20.0])
def test_rows_and_columns_in_turn_come_to_the_least_squares(damping: float, orientation: str) -> None:
    """In a small world as skewed as real ones, to two hundredths of a rating."""
    ratings = make_world(users=150, items=100, ratings=4_000, seed=1).ratings
    rows = ratings.rows("user" if orientation == "user" else "item")
    means = fit(rows, damping)
    assert means.overall == pytest.approx(rows.values.mean(), abs=1e-5)
    row, column = brute_force(rows, (damping, damping), float(means.overall))
    np.testing.assert_allclose(means.rows.now, row, rtol=0, atol=1e-3)
    np.testing.assert_allclose(means.columns.now, column, rtol=0, atol=1e-3)
    assert np.abs(row).max() > 0.3  # there was something to find
    assert np.abs(column).max() > 0.3


def test_without_features_a_cold_one_deviates_by_nothing() -> None:
    described = Described()
    means = fit(described.rows, 5.0)
    np.testing.assert_array_equal(means.rows.now[::5], 0)
    np.testing.assert_array_equal(means.columns.now[::5], 0)


def test_a_cold_one_has_what_its_features_lead_one_to_expect() -> None:
    described = Described()
    means = described.means
    assert (described.rows.counts()[::5] == 0).all()
    # All ratings have one mean, and it goes with neither side: deviations are compared apart from their own means.
    for found, truth in ((means.rows.now[::5], described.row[::5]), (means.columns.now[::5], described.column[::5])):
        assert np.corrcoef(found, truth)[0, 1] > 0.99
        np.testing.assert_allclose(found - found.mean(), truth - truth.mean(), rtol=0, atol=0.1)
    whole = means.overall + means.rows.now[:, None] + means.columns.now
    np.testing.assert_allclose(whole, 3 + described.row[:, None] + described.column, rtol=0, atol=0.15)


def test_a_later_one_is_as_it_would_have_been() -> None:
    """A row exactly; a column up to the little that the last turn of the rows has moved it by."""
    described = Described()
    means, columns = described.means, described.rows.transpose()
    rows_again = [means.row_of(*described.rows.row(i), described.row_features[i]) for i in range(ROWS)]
    np.testing.assert_allclose(rows_again, means.rows.now, rtol=0, atol=1e-5)
    columns_again = [means.transposed().row_of(*columns.row(j), described.column_features[j]) for j in range(COLUMNS)]
    np.testing.assert_allclose(columns_again, means.columns.now, rtol=0, atol=1e-2)


def test_few_ratings_leave_the_features_their_say_and_many_do_not() -> None:
    described = Described()
    means = described.means
    features = np.array([2.0, -1.0], np.float32)
    nothing = means.row_of(np.empty(0, np.int32), np.empty(0, np.float32), features)
    assert nothing == pytest.approx(float(means.rows.by_features.expected(features[None])[0, 0]), abs=1e-6)
    for n in (1, 5, 20):
        columns = np.arange(n, dtype=np.int32)
        ratings = np.full(n, 1.5, np.float32)
        residual = (ratings - means.overall - means.columns.now[:n]).sum(dtype=np.float64)
        by_hand = (residual + 5 * nothing) / (n + 5)
        assert means.row_of(columns, ratings, features) == pytest.approx(by_hand, abs=1e-5)


def test_what_came_later_is_compared_with_what_was_trained() -> None:
    """A rating of a new column tells nothing but its distance from the overall mean."""
    means = Described().means
    features = np.zeros(2, np.float32)
    expected = means.row_of(np.empty(0, np.int32), np.empty(0, np.float32), features)
    found = means.row_of(np.array([COLUMNS + 3], np.int32), np.array([4.0], np.float32), features)
    assert found == pytest.approx((4.0 - means.overall + 5 * expected) / 6, abs=1e-5)
    before = found
    means.columns.now = np.append(means.columns.now, np.full(5, 9, np.float32))  # as they stand now
    means.columns.now[:] = 9
    assert means.row_of(np.array([COLUMNS + 3], np.int32), np.array([4.0], np.float32), features) == before
    assert means.row_of(np.array([1], np.int32), np.array([4.0], np.float32), features) < 3


@pytest.mark.parametrize("damping", [0.0, 5.0])
def test_without_damping_and_without_ratings_features_still_count(damping: float) -> None:
    described = Described()
    means = fit(described.rows, damping, described.row_features, described.column_features)
    assert np.isfinite(means.rows.now).all()
    assert np.isfinite(means.columns.now).all()
    assert np.corrcoef(means.rows.now[::5], described.row[::5])[0, 1] > 0.99
    nobody = means.row_of(np.empty(0, np.int32), np.empty(0, np.float32), described.row_features[0])
    assert nobody == pytest.approx(means.rows.now[0], abs=1e-6)


def test_no_ratings_at_all() -> None:
    empty = sparse(np.zeros((3, 4), np.bool_), np.zeros((3, 4)))
    means = fit(empty, 5.0, np.ones((3, 2), np.float32), np.ones((4, 1), np.float32))
    assert means.overall == 0
    assert not means.rows.now.any()
    assert not means.columns.now.any()


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 999), damping=st.sampled_from([5.0, None]))
def test_the_order_of_rows_columns_and_ratings_does_not_matter(seed: int, damping: float | None) -> None:
    described = Described()
    means = fit(described.rows, damping, described.row_features, described.column_features)
    rng = np.random.default_rng(seed)
    by_row, by_column = rng.permutation(ROWS), rng.permutation(COLUMNS)
    known, ratings = np.zeros((ROWS, COLUMNS), np.bool_), np.zeros((ROWS, COLUMNS))
    of_row = np.repeat(np.arange(ROWS), described.rows.counts())
    known[of_row, described.rows.indices], ratings[of_row, described.rows.indices] = True, described.rows.values
    shuffled = fit(
        sparse(known[by_row][:, by_column], ratings[by_row][:, by_column]),
        damping,
        described.row_features[by_row],
        described.column_features[by_column],
    )
    np.testing.assert_allclose(shuffled.rows.now, means.rows.now[by_row], rtol=0, atol=1e-4)
    np.testing.assert_allclose(shuffled.columns.now, means.columns.now[by_column], rtol=0, atol=1e-4)
    columns, values = described.rows.row(1)
    order = rng.permutation(len(columns))
    features = described.row_features[1]
    later = means.row_of(columns[order], values[order], features)
    assert later == pytest.approx(float(means.row_of(columns, values, features)), abs=1e-6)
    assert shuffled.rows.damping == pytest.approx(means.rows.damping, rel=1e-3)
    assert shuffled.columns.damping == pytest.approx(means.columns.damping, rel=1e-3)


# Dampings that are learned


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


@pytest.mark.parametrize(("row", "column"), [(0.05, 0.5), (0.6, 0.1)])
def test_known_variances_are_found_again(row: float, column: float) -> None:
    means = fit(generated(uneven(900, 700, 1), noise=0.8, row=row, column=column, seed=2), None)
    assert means.rows.damping == pytest.approx(0.8 / row, rel=0.15)
    assert means.columns.damping == pytest.approx(0.8 / column, rel=0.15)
    assert means.noise == pytest.approx(0.8, rel=0.05)
    assert means.rows.variance == pytest.approx(row, rel=0.15)
    assert means.columns.variance == pytest.approx(column, rel=0.15)


def test_deviations_are_those_of_least_squares_with_the_learned_dampings() -> None:
    rows = generated(uneven(80, 60, 3), noise=0.8, row=0.1, column=0.4, seed=4)
    means = fit(rows, None)
    row, column = brute_force(rows, (means.rows.damping, means.columns.damping), float(means.overall))
    assert means.rows.damping > 2 * means.columns.damping
    np.testing.assert_allclose(means.rows.now, row, rtol=0, atol=1e-3)
    np.testing.assert_allclose(means.columns.now, column, rtol=0, atol=1e-3)


def test_what_features_explain_is_no_variance() -> None:
    features = np.random.default_rng(5).normal(size=(600, 3)).astype(np.float32)
    expected = features @ np.array([0.6, -0.4, 0.2])
    rows = generated(uneven(600, 400, 6), noise=0.8, row=0.1, column=0.2, seed=7, expected=expected)
    blind, seeing = fit(rows, None), fit(rows, None, features)
    assert seeing.rows.variance == pytest.approx(0.1, rel=0.2)
    assert blind.rows.variance == pytest.approx(0.1 + expected.var(), rel=0.2)
    assert seeing.rows.damping > 4 * blind.rows.damping
    assert seeing.columns.damping == pytest.approx(blind.columns.damping, rel=0.1)


def test_learned_is_better_than_given_where_ratings_are_sparse() -> None:
    """In a world of many people with a handful of ratings."""
    train, test = random_split(make_world(users=3_000, items=400, ratings=15_000, seed=0).ratings)
    error = {}
    for damping in (7.0, None):
        means = fit(train.rows("user"), damping)
        predicted = means.overall + means.rows.now[test.user_index] + means.columns.now[test.item_index]
        error[damping] = float(np.sqrt(np.mean((predicted - test.values) ** 2)))
    assert error[None] < error[7.0]


# Laws

LAW = uneven(40, 30, 8)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), shift=st.floats(-100, 100), factor=st.floats(0.01, 100))
def test_another_scale_has_the_same_dampings(seed: int, shift: float, factor: float) -> None:
    """A constant that is added moves the overall mean alone; a factor stretches deviations."""
    rows = generated(LAW, noise=0.8, row=0.2, column=0.3, seed=seed)
    means = fit(rows, None)
    for by, to in ((1.0, shift), (factor, 0.0)):
        changed = fit(replace(rows, values=(rows.values * by + to).astype(np.float32)), None)
        assert changed.overall == pytest.approx(float(means.overall) * by + to, rel=1e-5, abs=1e-4)
        assert changed.rows.damping == pytest.approx(means.rows.damping, rel=2e-3)
        assert changed.columns.damping == pytest.approx(means.columns.damping, rel=2e-3)
        np.testing.assert_allclose(changed.rows.now / by, means.rows.now, rtol=0, atol=5e-4)
        np.testing.assert_allclose(changed.columns.now / by, means.columns.now, rtol=0, atol=5e-4)
        assert changed.noise / by**2 == pytest.approx(means.noise, rel=2e-3)


# Odd shapes


def is_sane(means: Biases, rows: SparseRows) -> None:
    spread = float(np.ptp(rows.values)) if rows.nnz else 0.0
    for deviations in (means.rows.now, means.columns.now):
        assert np.isfinite(deviations).all()
        assert np.abs(deviations).max(initial=0) <= spread + 1e-6
    for number in (means.noise, means.rows.variance, means.columns.variance, means.rows.damping, means.columns.damping):
        assert isinstance(number, float)
        assert np.isfinite(number)
        assert number > 0
    assert max(means.rows.damping, means.columns.damping) <= 1e6


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
        assert means.rows.damping == means.columns.damping == 0
        assert np.isfinite(means.rows.now).all()
        assert np.isfinite([means.noise, means.rows.variance, means.columns.variance]).all()
    else:
        is_sane(means, rows)


@pytest.mark.parametrize("value", [0.0, 3.0, 3.3, -1e4])
def test_ratings_that_are_all_alike_leave_the_usual_damping(value: float) -> None:
    rows = sparse(LAW, np.full(LAW.shape, value))
    means = fit(rows, None)
    assert means.rows.damping == means.columns.damping == 7
    is_sane(means, rows)
    later = means.row_of(np.arange(3, dtype=np.int32), np.full(3, value + 1, np.float32), np.empty(0, np.float32))
    assert later == pytest.approx(0.3, abs=1e-3)


def test_ratings_without_noise() -> None:
    """They are the sum of both deviations: nothing is to be damped."""
    rng = np.random.default_rng(1)
    rows = sparse(LAW, rng.normal(3, 1, (40, 1)) + rng.normal(0, 1, 30))
    means = fit(rows, None)
    is_sane(means, rows)
    assert max(means.rows.damping, means.columns.damping) < 0.01
    of_row = np.repeat(np.arange(40), rows.counts())
    predicted = means.overall + means.rows.now[of_row] + means.columns.now[rows.indices]
    np.testing.assert_allclose(predicted, rows.values, rtol=0, atol=0.02)


def test_a_single_row_teaches_nothing_of_how_rows_differ() -> None:
    means = fit(drawn(np.ones((1, 200), np.bool_)), None)
    assert 3 < means.rows.damping < 30


@pytest.mark.parametrize("width", [1, 6])
def test_more_features_than_rows(width: int) -> None:
    rows = drawn(SHAPES["two"])
    features: Floats = np.ones((2, width), np.float32)
    is_sane(fit(rows, None, features, features), rows)
