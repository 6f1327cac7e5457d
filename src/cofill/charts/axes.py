"""Axes of charts: from numbers to positions, with round ticks and their labels."""

from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

_NOTHING = 1e-9


@dataclass(frozen=True)
class Axis:
    """Numbers from low to high, drawn from one place to another, with round numbers marked."""

    low: float
    high: float
    begin: float
    end: float
    ticks: tuple[float, ...]

    def __call__(self, value: float) -> float:
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)


def round_axis(
    low: float, high: float, begin: float, end: float, *, about: int = 5, whole: bool = False, tight: bool = False
) -> Axis:
    """An axis that holds low and high and ends at ticks, or, where it is `tight`, at low and high themselves.

    `whole`: with ticks at whole numbers only.
    """
    inside = (low, high)
    if alike := high - low <= _NOTHING * max(abs(low), abs(high), 1.0):  # nothing between that a picture could show
        around = abs(low) * 0.05 if abs(low) > _NOTHING else 0.5
        low, high = low - around, high + around
    step = round_step((high - low) / about)
    if whole:
        step = max(1.0, step)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    ticks = tuple(float(np.round(number * step, 12)) for number in range(first, max(last, first + 1) + 1))
    if alike or not tight:
        return Axis(ticks[0], ticks[-1], begin, end, ticks)
    slack = (high - low) * 1e-9
    return Axis(*inside, begin, end, tuple(tick for tick in ticks if low - slack <= tick <= high + slack))


def round_step(about: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten that is not smaller."""
    power = 10.0 ** floor(log10(about))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= about * (1 - 1e-9))


def tick_label(value: float) -> str:
    """Short: 12 k, 3.5 M, 0.25."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= unit:
            unit = 1e3 if name == " k" else unit
            return f"{value / unit:.4g}{name}"
    return f"{value:,.0f}" if value == round(value) else f"{value:.4g}"
