"""Intervals and paired comparisons against scipy's, and at their ends."""

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from cofill.errors import DataError
from cofill.evaluation import Interval, paired, paired_ratio

VALUES = st.lists(st.integers(1, 1000).map(lambda n: n / 997), min_size=2, max_size=9)
PAIRS = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 1000)), min_size=2, max_size=9)


@settings(max_examples=60, deadline=None)
@given(values=VALUES)
def test_intervals_against_scipy(values: list[float]) -> None:
    assume(len(set(values)) > 1)
    found = Interval.of(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert found.half_width is not None
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx((low, high))
    assert found.values == tuple(values)


def test_an_interval_by_hand() -> None:
    """The RMSE of five splits; t is 2.776 with four degrees of freedom."""
    found = Interval.of([0.8309, 0.8342, 0.8263, 0.8333, 0.8362])
    assert str(found) == "0.8322 ± 0.0047"
    assert found.text(2, " %") == "0.83 ± 0.00 %"


def test_one_value_says_nothing_about_chance() -> None:
    found = Interval.of([0.5])
    assert (found.mean, found.half_width) == (0.5, None)
    assert str(found) == "0.5000 ± unknown"
    assert found.as_json() == {"mean": 0.5, "half_width": None, "values": [0.5]}


def test_the_same_value_again_and_again() -> None:
    assert Interval.of([0.5, 0.5, 0.5]).half_width == 0


def test_overlap_widens() -> None:
    """With five folds there is one test rating for four that were trained on: sqrt(1/5 + 1/4) for sqrt(1/5)."""
    values = [1.0, 2.0, 4.0, 3.0, 2.5]
    plain, widened = Interval.of(values), Interval.of(values, overlap=1 / 4)
    assert plain.half_width is not None
    assert widened.half_width == pytest.approx(plain.half_width * 1.5)


@settings(max_examples=60, deadline=None)
@given(pairs=PAIRS)
def test_comparisons_against_scipy(pairs: list[tuple[int, int]]) -> None:
    one, other = [a / 1000 for a, _ in pairs], [b / 1000 for _, b in pairs]
    assume(np.std(np.subtract(one, other)) > 1e-9)
    found, expected = paired(one, other), stats.ttest_rel(one, other)
    assert found.p_value is not None
    assert found.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert found.difference.half_width is not None
    middle, half = found.difference.mean, found.difference.half_width
    assert (middle - half, middle + half) == pytest.approx((interval.low, interval.high), abs=1e-12)
    if abs(found.p_value - 0.05) > 1e-9:
        assert (found.verdict == "no difference beyond chance") == (abs(middle) < half)
    if found.verdict == "better":
        assert np.mean(one) < np.mean(other)


@settings(max_examples=60, deadline=None)
@given(pairs=PAIRS, overlap=st.sampled_from([0.0, 0.25]))
def test_the_other_way_round(pairs: list[tuple[int, int]], overlap: float) -> None:
    one, other = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    there, back = paired(one, other, overlap=overlap), paired(other, one, overlap=overlap)
    more = paired(one, other, overlap=overlap, less_is_better=False)
    opposite = {"better": "worse", "worse": "better"}
    assert back.verdict == more.verdict == opposite.get(there.verdict, there.verdict)
    assert back.p_value == there.p_value == more.p_value
    assert back.difference.mean == -there.difference.mean


def test_a_comparison_by_hand() -> None:
    before, after = [0.80, 0.90, 1.00], [0.72, 0.81, 0.90]
    found = paired(after, before)
    assert found.improvement is not None
    assert found.improvement.values == pytest.approx((10, 10, 10))
    assert found.difference.values == pytest.approx((-0.08, -0.09, -0.10))
    assert (found.verdict, paired(before, after).verdict) == ("better", "worse")
    assert str(found) == "better, improvement 10.00 ± 0.00 %, difference -0.0900 ± 0.0248, p = 0.0041"
    noisy = paired([0.8, 0.9, 1.0], [0.9, 0.8, 1.01])
    assert noisy.verdict == "no difference beyond chance"
    assert json.loads(json.dumps(noisy.as_json()))["verdict"] == noisy.verdict


def test_improvement_is_up_where_more_is_better() -> None:
    found = paired([0.55, 0.66], [0.5, 0.6], less_is_better=False)
    assert found.improvement is not None
    assert found.improvement.mean == pytest.approx(10)


def test_overlap_makes_the_verdict_more_careful() -> None:
    one, other = [0.80, 0.81, 0.79, 0.82, 0.80], [0.82, 0.82, 0.80, 0.825, 0.83]
    plain, careful = paired(one, other), paired(one, other, overlap=1 / 4)
    assert plain.p_value is not None
    assert careful.p_value is not None
    assert plain.p_value < 0.05 < careful.p_value
    assert (plain.verdict, careful.verdict) == ("better", "no difference beyond chance")


def test_comparisons_at_their_ends() -> None:
    single = paired([0.8], [0.9])
    assert (single.verdict, single.p_value, single.difference.half_width) == ("unknown: a single pair", None, None)
    assert str(single) == "unknown: a single pair, improvement 11.11 ± unknown %, difference -0.1000 ± unknown"
    same = paired([0.5, 0.7], [0.5, 0.7])
    assert (same.verdict, same.p_value) == ("no difference beyond chance", 1.0)
    always = paired([0.5, 0.75], [0.75, 1.0])
    assert (always.verdict, always.p_value) == ("better", 0.0)
    from_nothing = paired([0.5, 0.7], [0.0, 0.1], less_is_better=False)
    assert from_nothing.improvement is None
    assert "improvement" not in str(from_nothing)
    assert from_nothing.as_json()["improvement_percent"] is None


def test_what_is_refused() -> None:
    with pytest.raises(DataError, match="no values to take the mean of; give at least one"):
        Interval.of([])
    with pytest.raises(DataError, match="needs finite values"):
        Interval.of([1.0, float("nan")])
    with pytest.raises(DataError, match="overlap must be 0 or more"):
        Interval.of([1.0, 2.0], overlap=-0.1)
    with pytest.raises(DataError, match="there are 2 and 3; give as many of each"):
        paired([1.0, 2.0], [1.0, 2.0, 3.0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.5, 2.0))
def test_the_interval_of_a_ratio_against_resampled_users(seed: int, factor: float) -> None:
    """The delta method gives about the spread of the ratio over bootstrap samples of the pairs."""
    rng = np.random.default_rng(seed)
    hard = rng.beta(1, 3, 400)
    one, other = (hard * rng.uniform(0.5, 1.5, 400) for _ in range(2))
    found = paired_ratio(factor * one, other)
    drawn = rng.integers(0, 400, (800, 400))
    spread = float((factor * one[drawn].mean(1) / other[drawn].mean(1)).std())
    assert found.ratio == pytest.approx(factor * one.mean() / other.mean())
    assert found.half_width is not None
    assert found.half_width == pytest.approx(1.966 * spread, rel=0.15)
    assert found.pairs == 400
    assert (found.one, found.other) == pytest.approx((factor * one.mean(), other.mean()))
    inverse = paired_ratio(other, factor * one)
    assert inverse.half_width is not None
    assert inverse.half_width / inverse.ratio == pytest.approx(found.half_width / found.ratio)


def test_what_both_find_hard_cancels_out_of_a_ratio() -> None:
    values = np.random.default_rng(0).random(50)
    same = paired_ratio(1.1 * values, values)
    assert same.ratio == pytest.approx(1.1)
    assert same.half_width == pytest.approx(0, abs=1e-12)
    assert same.verdict == "better"
    assert paired_ratio(values, 1.1 * values).verdict == "worse"
    assert paired_ratio(values, values[::-1]).verdict == "no difference beyond chance"
    single = paired_ratio([0.5], [0.25])
    assert (str(single), single.verdict) == ("2.0000 ± unknown", "unknown: a single pair")
    assert json.loads(json.dumps(single.as_json()))["ratio"] == 2


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ([1.0], [1.0, 2.0], "values are compared in pairs: there are 1 and 2; give as many of each"),
        ([], [], "there are no values to take the mean of; give at least one"),
        ([1.0, float("nan")], [1.0, 2.0], "a ratio of means needs finite values; leave out what is none"),
        ([1.0], [0.0], "the mean of the values to compare with is 0, so that there is no ratio to it"),
    ],
)
def test_ratios_that_there_are_none_of(one: list[float], other: list[float], says: str) -> None:
    with pytest.raises(DataError) as refused:
        paired_ratio(one, other)
    assert str(refused.value) == says
