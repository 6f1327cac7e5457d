"""A mean over several runs, with the interval that holds the true mean 95 times of 100 (Student's t)."""

from collections.abc import Sequence
from statistics import mean, stdev

from scipy.stats import t


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Of one value the interval is unknown: NaN."""
    if len(values) < 2:
        return mean(values), float("nan")
    return mean(values), float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
