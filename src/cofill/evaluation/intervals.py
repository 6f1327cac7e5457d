"""Means of several runs with their 95 % intervals by Student's t, and two models compared pair by pair.

The t interval takes the runs for independent. Folds, and splits of the same data, share training ratings: their
measures are alike, and the plain interval is a little narrower than it should be. `overlap`, the test ratings for each
training rating (1/4 with five folds), widens it as Nadeau and Bengio (2003) propose: the variance of the mean is taken
to be (1/runs + overlap) times that of the runs, instead of 1/runs times.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite, sqrt
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cofill.errors import DataError

CONFIDENCE = 0.95

Verdict = Literal["better", "worse", "no difference beyond chance", "unknown: a single pair"]


@dataclass(frozen=True)
class Interval:
    """A mean of several values; 95 times of 100 the true mean is within `half_width` of it."""

    mean: float
    half_width: float | None  # None: one value says nothing about chance
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float], *, overlap: float = 0.0) -> "Interval":
        """The interval of at least one value; `overlap` as explained at the top of this module."""
        if not values:
            raise DataError("there are no values to take the mean of; give at least one")
        strange = next((value for value in values if not isfinite(value)), None)
        if strange is not None:
            raise DataError(f"a mean needs finite values. Got {strange}")
        if not (overlap >= 0 and isfinite(overlap)):
            raise DataError(f"overlap must be 0 or more: the test ratings for each training rating. Got {overlap}")
        kept = tuple(float(value) for value in values)
        mean = fmean(kept)
        if len(kept) < 2:
            return cls(mean, None, kept)
        from scipy.stats import t

        quantile = float(t.ppf((1 + CONFIDENCE) / 2, len(kept) - 1))
        return cls(mean, quantile * _standard_error(kept, overlap), kept)

    def text(self, digits: int = 4, unit: str = "") -> str:
        """As text: 0.8322 ± 0.0047."""
        half_width = "unknown" if self.half_width is None else f"{self.half_width:.{digits}f}"
        return f"{self.mean:z.{digits}f} ± {half_width}{unit}"

    def __str__(self) -> str:
        return self.text()

    def as_json(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return asdict(self) | {"values": list(self.values)}


@dataclass(frozen=True)
class PairedComparison:
    """One model against another, measured on the same parts of the same data."""

    one: Interval
    other: Interval
    difference: Interval  # one less other, pair by pair
    improvement: Interval | None  # of one over other, in percent, pair by pair; None where other is 0
    p_value: float | None  # of no difference (two-sided); None for a single pair
    verdict: Verdict  # on one
    less_is_better: bool
    overlap: float

    def __str__(self) -> str:
        parts = [str(self.verdict)]
        if self.improvement is not None:
            parts.append(f"improvement {self.improvement.text(2, ' %')}")
        parts.append(f"difference {self.difference}")
        if self.p_value is not None:
            parts.append(f"p = {self.p_value:.2g}")
        return ", ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "one": self.one.as_json(),
            "other": self.other.as_json(),
            "difference": self.difference.as_json(),
            "improvement_percent": None if self.improvement is None else self.improvement.as_json(),
            "p_value": self.p_value,
            "verdict": self.verdict,
            "less_is_better": self.less_is_better,
            "overlap": self.overlap,
        }


def paired(
    one: Sequence[float], other: Sequence[float], *, less_is_better: bool = True, overlap: float = 0.0
) -> PairedComparison:
    """Is `one` better than `other`? Two-sided paired t test at 5 %; each value of one belongs to that of the other.

    Without `overlap` this is the usual paired t test, a little too sure of itself where runs share training ratings.
    """
    if len(one) != len(other):
        raise DataError(f"values are compared in pairs: there are {len(one)} and {len(other)}; give as many of each")
    difference = Interval.of([a - b for a, b in zip(one, other, strict=True)], overlap=overlap)
    improvement = None
    if all(value != 0 for value in other):
        sign = -1 if less_is_better else 1
        shares = [sign * (a - b) / abs(b) * 100 for a, b in zip(one, other, strict=True)]
        improvement = Interval.of(shares, overlap=overlap)
    p_value = _p_value(difference, overlap)
    return PairedComparison(
        one=Interval.of(one, overlap=overlap),
        other=Interval.of(other, overlap=overlap),
        difference=difference,
        improvement=improvement,
        p_value=p_value,
        verdict=_verdict(difference.mean, p_value, less_is_better),
        less_is_better=less_is_better,
        overlap=overlap,
    )


@dataclass(frozen=True)
class PairedRatio:
    """How many times as good one model is as another, by means over the same users, with a 95 % interval."""

    ratio: float
    half_width: float | None  # None: one pair says nothing about chance
    one: float
    other: float
    pairs: int

    @property
    def verdict(self) -> Verdict:
        """On one, where greater is better."""
        if self.half_width is None:
            return "unknown: a single pair"
        if abs(self.ratio - 1) <= self.half_width:
            return "no difference beyond chance"
        return "better" if self.ratio > 1 else "worse"

    def __str__(self) -> str:
        half_width = "unknown" if self.half_width is None else f"{self.half_width:.4f}"
        return f"{self.ratio:.4f} ± {half_width}"

    def as_json(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return asdict(self) | {"verdict": self.verdict}


def paired_ratio(one: npt.ArrayLike, other: npt.ArrayLike) -> PairedRatio:
    """The ratio of two means whose values belong to each other in pairs, such as the NDCG of every user.

    The standard error is that of the delta method: with ratio r, that of the mean of one - r other, divided by the mean
    of other. What makes a user hard for both models cancels out, so it is much narrower than that of either mean. It
    is about chance in the choice of users, not about that of the training data: for the latter repeat the split.
    """
    ours, theirs = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if ours.shape != theirs.shape or ours.ndim != 1:
        raise DataError(f"values are compared in pairs: there are {ours.size} and {theirs.size}; give as many of each")
    if not len(ours):
        raise DataError("there are no values to take the mean of; give at least one")
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        raise DataError("a ratio of means needs finite values; leave out what is none")
    mean, base = float(ours.mean()), float(theirs.mean())
    if base == 0:
        raise DataError("the mean of the values to compare with is 0, so that there is no ratio to it")
    ratio, half_width = mean / base, None
    if len(ours) > 1:
        from scipy.stats import t

        error = float((ours - ratio * theirs).std(ddof=1)) / sqrt(len(ours)) / abs(base)
        half_width = float(t.ppf((1 + CONFIDENCE) / 2, len(ours) - 1)) * error
    return PairedRatio(ratio, half_width, mean, base, len(ours))


def _p_value(difference: Interval, overlap: float) -> float | None:
    if len(difference.values) < 2:
        return None
    error = _standard_error(difference.values, overlap)
    if error == 0:  # the same difference every time: none, or one that chance does not explain
        return 1.0 if difference.mean == 0 else 0.0
    from scipy.stats import t

    return float(2 * t.sf(abs(difference.mean) / error, len(difference.values) - 1))


def _verdict(difference: float, p_value: float | None, less_is_better: bool) -> Verdict:
    if p_value is None:
        return "unknown: a single pair"
    if p_value >= 1 - CONFIDENCE:
        return "no difference beyond chance"
    return "better" if (difference < 0) == less_is_better else "worse"


def _standard_error(values: Sequence[float], overlap: float) -> float:
    return stdev(values) * sqrt(1 / len(values) + overlap)
