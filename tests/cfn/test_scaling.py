"""Rating scale -> [-1, 1], and back; damped means."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.cfn.scaling import Scaling
from cofill.config import ScalingSettings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows


def rows_of(*rows: list[float]) -> SparseRows:
    """Rows with these ratings, in the first columns."""
    columns = max((len(row) for row in rows), default=0)
    return SparseRows(
        np.cumsum([0, *map(len, rows)]).astype(np.int64),
        np.concatenate([np.arange(len(row)) for row in rows]).astype(np.int32),
        np.array([rating for row in rows for rating in row], np.float32),
        columns,
    )


def fit(rows: SparseRows, scale: Scale, damping: float, length_power: float = 0.0) -> Scaling:
    return Scaling.fit(rows, scale, ScalingSettings(mean_damping=damping, length_power=length_power))


SCALES = st.tuples(st.integers(-100, 100), st.integers(1, 200)).map(lambda t: Scale(t[0], t[0] + t[1]))
LAW = settings(max_examples=40, deadline=None)


@LAW
@given(scale=SCALES, shares=st.lists(st.lists(st.floats(0, 1), max_size=6), min_size=1, max_size=6),
       damping=st.floats(0, 50))  # fmt: skip
def test_down_and_up_again(scale: Scale, shares: list[list[float]], damping: float) -> None:
    low, high = scale
    rows = rows_of(*[[low + share * (high - low) for share in row] for row in shares])
    scaling = fit(rows, scale, damping)
    down = scaling.down(rows).known
    assert down.indices is rows.indices
    assert np.isfinite(scaling.means).all()
    assert (np.abs(scaling.means) <= 1 + 1e-5).all()
    means = np.repeat(scaling.means, rows.counts())
    tolerance = 1e-5 * max(abs(low), abs(high), 1)
    np.testing.assert_allclose(scaling.up(down.values, means), rows.values, rtol=0, atol=tolerance)


@pytest.mark.parametrize("scale", [Scale(1, 5), Scale(0.5, 5), Scale(0, 100), Scale(-10, 10)])
def test_the_ends_of_the_scale_become_minus_one_and_one(scale: Scale) -> None:
    rows = rows_of([scale.low, scale.high])
    scaling = fit(rows, scale, 0)
    np.testing.assert_allclose(scaling.means, [0.0], atol=1e-6)
    np.testing.assert_allclose(scaling.down(rows).known.values, [-1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(scaling.up(np.array([-7, 7], np.float32), np.float32(0)), scale)
    assert scaling.unclipped(np.array([2], np.float32), np.float32(0))[0] > scale.high


def test_the_damped_mean_by_hand() -> None:
    """On a scale of 1 to 5 a rating r is (r - 3) / 2; the overall mean here is (1 + 1 - 1) / 3."""
    scaling = fit(rows_of([5.0, 5.0], [1.0], []), Scale(1, 5), 5)
    assert scaling.overall == pytest.approx(1 / 3)
    expected = [(2 + 5 / 3) / 7, (-1 + 5 / 3) / 6, 1 / 3]
    np.testing.assert_allclose(scaling.means, expected, rtol=1e-6)
    assert scaling.mean_of(np.array([5.0, 5.0], np.float32)) == pytest.approx(expected[0])
    assert scaling.mean_of(np.empty(0, np.float32)) == pytest.approx(1 / 3)


@pytest.mark.parametrize("damping", [0.0, 5.0])
def test_empty_rows_have_the_overall_mean(damping: float) -> None:
    scaling = fit(rows_of([], [2.0, 3.0], [], [], [4.0], []), Scale(1, 5), damping)
    np.testing.assert_allclose(scaling.means[[0, 2, 3, 5]], scaling.overall, rtol=1e-6)
    assert scaling.overall == pytest.approx(0.0, abs=1e-7)
    if damping == 0:
        np.testing.assert_allclose(scaling.means[[1, 4]], [-0.25, 0.5], rtol=1e-6)


def test_no_ratings_at_all() -> None:
    scaling = fit(rows_of([], []), Scale(1, 5), 5)
    assert scaling.overall == 0
    assert scaling.means.tolist() == [0, 0]


@LAW
@given(shares=st.lists(st.floats(0, 1), max_size=8), damping=st.floats(0, 20))
def test_a_row_that_comes_later_has_the_mean_it_would_have_had(shares: list[float], damping: float) -> None:
    ratings = [1 + 4 * share for share in shares]
    scaling = fit(rows_of([1.0, 2.0, 4.0], ratings), Scale(1, 5), damping)
    later = scaling.mean_of(np.array(ratings, np.float32))
    np.testing.assert_allclose(later, scaling.means[1], rtol=0, atol=1e-5)


def test_the_loudness_by_hand() -> None:
    """Rows with ratings have two on average; one with twice as many speaks at 1 / sqrt(2)."""
    rows = rows_of([1.0], [1.0, 2.0, 3.0, 4.0], [], [5.0])
    scaling = fit(rows, Scale(1, 5), 5, length_power=0.5)
    assert scaling.typical_length == 2
    loudness = scaling.down(rows).loudness
    np.testing.assert_allclose(loudness[[0, 1, 3]], [2**0.5, 0.5**0.5, 2**0.5], rtol=1e-6)
    assert np.isfinite(loudness[2])
    later = scaling.down_with(rows_of([3.0, 3.0]), np.zeros(1, np.float32))
    np.testing.assert_allclose(later.loudness, [1.0], rtol=1e-6)


def test_without_a_power_all_rows_are_equally_loud() -> None:
    rows = rows_of([1.0], [1.0, 2.0, 3.0, 4.0], [])
    assert fit(rows, Scale(1, 5), 5).down(rows).loudness.tolist() == [1, 1, 1]
