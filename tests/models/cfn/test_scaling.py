"""Rating scale -> [-1, 1], and back; damped means, and what features say of them."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.config import CFNSettings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.cfn.scaling import ScaledRows, Scaling
from cofill.models.rng import Portion

Floats = npt.NDArray[np.float32]


def rows_of(*rows: list[float]) -> SparseRows:
    """Rows with these ratings, in the first columns."""
    columns = max((len(row) for row in rows), default=0)
    return SparseRows(
        np.cumsum([0, *map(len, rows)]).astype(np.int64),
        np.concatenate([np.arange(len(row)) for row in rows]).astype(np.int32),
        np.array([rating for row in rows for rating in row], np.float32),
        columns,
    )


def first(count: int) -> npt.NDArray[np.int32]:
    """The first columns."""
    return np.arange(count, dtype=np.int32)


def none(rows: int = 1) -> Floats:
    """Features of rows of which there are none."""
    return np.zeros((rows, 0), np.float32)


def fit(
    rows: SparseRows, scale: Scale, damping: float, length_power: float = 0.0, features: Floats | None = None
) -> Scaling:
    settings = CFNSettings(length_power=length_power, mean_damping=damping, cold_ratio=0.0)
    features = none(rows.rows) if features is None else features
    return Scaling.fit(rows, None, scale, settings, features, Portion.of(rows))


def read(scaling: Scaling, rows: SparseRows, features: Floats | None = None) -> ScaledRows:
    """The rows that were fitted, as the network reads them."""
    return scaling.down(rows, none(rows.rows) if features is None else features, Portion.of(rows))


SCALES = st.tuples(st.integers(-100, 100), st.integers(1, 200)).map(lambda t: Scale(t[0], t[0] + t[1]))
LAW = settings(max_examples=40, deadline=None)


@LAW
@given(scale=SCALES, shares=st.lists(st.lists(st.floats(0, 1), max_size=6), min_size=1, max_size=6),
       damping=st.floats(0, 50))  # fmt: skip
def test_down_and_up_again(scale: Scale, shares: list[list[float]], damping: float) -> None:
    low, high = scale
    rows = rows_of(*[[low + share * (high - low) for share in row] for row in shares])
    scaling = fit(rows, scale, damping)
    down = read(scaling, rows).known
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
    np.testing.assert_allclose(read(scaling, rows).known.values, [-1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(scaling.up(np.array([-7, 7], np.float32), np.float32(0)), scale)
    assert scaling.unclipped(np.array([2], np.float32), np.float32(0))[0] > scale.high


def test_the_damped_mean_by_hand() -> None:
    """On a scale of 1 to 5 a rating r is (r - 3) / 2; the overall mean here is (1 + 1 - 1) / 3."""
    scaling = fit(rows_of([5.0, 5.0], [1.0], []), Scale(1, 5), 5)
    assert scaling.overall == pytest.approx(1 / 3)
    expected = [(2 + 5 / 3) / 7, (-1 + 5 / 3) / 6, 1 / 3]
    np.testing.assert_allclose(scaling.means, expected, rtol=1e-6)
    assert scaling.mean_of(first(2), np.array([5.0, 5.0], np.float32), none()[0]) == pytest.approx(expected[0])
    assert scaling.mean_of(first(0), np.empty(0, np.float32), none()[0]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("damping", [0.0, 5.0])
def test_empty_rows_have_the_overall_mean(damping: float) -> None:
    scaling = fit(rows_of([], [2.0, 3.0], [], [], [4.0], []), Scale(1, 5), damping)
    np.testing.assert_allclose(scaling.means[[0, 2, 3, 5]], scaling.overall, rtol=1e-6)
    assert scaling.overall == pytest.approx(0.0, abs=1e-7)
    if damping == 0:
        np.testing.assert_allclose(scaling.means[[1, 4]], [-0.25, 0.5], rtol=1e-6)
    nothing = fit(rows_of([], []), Scale(1, 5), damping)
    assert (nothing.overall, nothing.means.tolist()) == (0, [0, 0])


def test_the_input_scale_by_hand() -> None:
    """Rows with ratings have two on average; one with twice as many is scaled by 1 / sqrt(2)."""
    rows = rows_of([1.0], [1.0, 2.0, 3.0, 4.0], [], [5.0])
    scaling = fit(rows, Scale(1, 5), 5, length_power=0.5)
    assert scaling.typical_length == 2
    input_scale = read(scaling, rows).input_scale
    np.testing.assert_allclose(input_scale[[0, 1, 3]], [2**0.5, 0.5**0.5, 2**0.5], rtol=1e-6)
    assert np.isfinite(input_scale[2])
    later = scaling.down(rows_of([3.0, 3.0]), none(), means=np.zeros(1, np.float32))
    np.testing.assert_allclose(later.input_scale, [1.0], rtol=1e-6)
    assert read(fit(rows, Scale(1, 5), 5), rows).input_scale.tolist() == [1, 1, 1, 1]  # without a power


def test_where_rows_are_long_a_typical_one_counts_as_one_of_the_cap() -> None:
    rows = rows_of([1.0] * 8, [5.0] * 8)
    settings = {cap: CFNSettings(length_power=0.5, length_cap=cap) for cap in (2.0, 8.0, 300.0)}
    found = {
        cap: read(Scaling.fit(rows, None, Scale(1, 5), of, none(2), Portion.of(rows)), rows).input_scale
        for cap, of in settings.items()
    }
    np.testing.assert_allclose([found[2.0], found[8.0], found[300.0]], [[0.5] * 2, [1.0] * 2, [1.0] * 2], rtol=1e-6)


# Side features


def rows_that_follow_features(count: int, seed: int, width: int = 2) -> tuple[SparseRows, Floats, Floats]:
    """Ratings on a scale of 1 to 5 around 3 + features . (1, -0.5, ...); every fourth row has none. Also the truth."""
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 0.5, (count, width)).astype(np.float32)
    truth = (3 + features @ np.array([1.0, -0.5, *[0] * (width - 2)], np.float32)).astype(np.float32)
    lengths = np.where(np.arange(count) % 4 == 0, 0, rng.integers(1, 12, count))
    rows = [list(np.clip(rng.normal(truth[i], 0.3, n), 1, 5).astype(float)) for i, n in enumerate(lengths.tolist())]
    return rows_of(*rows), features, truth


def test_the_mean_of_a_cold_row_follows_its_features() -> None:
    rows, features, truth = rows_that_follow_features(200, 0)
    scaling = fit(rows, Scale(1, 5), 7.0, features=features)
    cold = rows.counts() == 0
    assert cold.sum() == 50
    as_ratings = scaling.means * 2 + 3
    assert np.corrcoef(as_ratings[cold], truth[cold])[0, 1] > 0.99
    np.testing.assert_allclose(as_ratings[cold], truth[cold], rtol=0, atol=0.15)
    plain = fit(rows, Scale(1, 5), 7.0)
    np.testing.assert_allclose(plain.means[cold], plain.overall, rtol=1e-6)
    assert scaling.overall == plain.overall


def test_ratings_outweigh_features_the_more_there_are() -> None:
    """A row is damped towards what its features lead one to expect, by hand."""
    rows, features, _ = rows_that_follow_features(200, 1)
    scaling = fit(rows, Scale(1, 5), 7.0, features=features)
    expected = scaling.overall + scaling.by_features.expected(features)[:, 0]
    for row in (0, 1, 2, 3):
        ratings = rows.row(row)[1]
        by_hand = (((ratings - 3) / 2).sum() + 7.0 * expected[row]) / (len(ratings) + 7.0)
        assert scaling.means[row] == pytest.approx(by_hand, abs=1e-6)


@LAW
@given(seed=st.integers(0, 99), damping=st.floats(0, 20), width=st.integers(2, 4), known=st.booleans())
def test_a_later_row_has_the_mean_it_would_have_had(seed: int, damping: float, width: int, known: bool) -> None:
    """With features and without."""
    rows, features, _ = rows_that_follow_features(12, seed, width)
    features = features if known else features[:, :0]
    scaling = fit(rows, Scale(1, 5), damping, features=features)
    later = [scaling.mean_of(*rows.row(row), features[row]) for row in range(12)]
    np.testing.assert_allclose(later, scaling.means, rtol=0, atol=1e-5)


def test_rows_without_a_rating_are_marked_where_the_network_learns_what_that_means() -> None:
    rows, features, _ = rows_that_follow_features(12, 0)
    scaling = Scaling.fit(rows, None, Scale(1, 5), CFNSettings(), features, Portion.of(rows))
    down = read(scaling, rows, features)
    assert down.marks_empty
    np.testing.assert_array_equal(down.features[:, :-1], features)
    np.testing.assert_array_equal(down.features[:, -1], rows.counts() == 0)
    nothing = SparseRows(np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), rows.columns)
    later = scaling.down(nothing, features[:1], means=np.zeros(1, np.float32))
    assert later.features.tolist() == [[*features[0].tolist(), 1.0]]


def test_the_features_come_along_untouched() -> None:
    rows, features, _ = rows_that_follow_features(12, 0)
    before = features.copy()
    scaling = fit(rows, Scale(1, 5), 7.0, features=features)
    assert read(scaling, rows, features).features is features
    np.testing.assert_array_equal(features, before)
