"""Genes as points of the unit cube: every range mapped to [0, 1], so that one step size fits them all."""

from collections.abc import Mapping
from math import exp, log

import numpy as np
import numpy.typing as npt
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from cofill.errors import SettingsError

Point = npt.NDArray[np.float64]
Space = Mapping[str, BaseDistribution]


def check_space(space: Space) -> None:
    """Raise unless every gene is a number that may lie anywhere in its range."""
    for name, range_ in space.items():
        if not isinstance(range_, FloatDistribution | IntDistribution) or range_.step not in (None, 1):
            raise SettingsError(
                f"the genetic algorithm searches ranges of numbers without steps. Got {range_} for {name!r}; "
                f"use the sampler tpe"
            )


def to_unit(values: Mapping[str, float], space: Space) -> Point:
    """(genes,): where the values lie in their ranges, on a log scale where the range says so."""
    point = np.empty(len(space))
    for place, (name, range_) in enumerate(space.items()):
        low, high = _ends(range_)
        point[place] = (_scaled(values[name], range_) - low) / (high - low) if high > low else 0.5
    return point


def from_unit(point: Point, space: Space) -> dict[str, float]:
    """The values at a point of the cube; whole numbers are rounded, so that each has an equal share of the cube."""
    values: dict[str, float] = {}
    for place, (name, range_) in zip(point.tolist(), space.items(), strict=True):
        low, high = _ends(range_)
        value = low + place * (high - low)
        value = exp(value) if _is_log(range_) else value
        if isinstance(range_, IntDistribution):
            values[name] = min(max(round(value), range_.low), range_.high)
        elif isinstance(range_, FloatDistribution):
            values[name] = min(max(value, range_.low), range_.high)
    return values


def reflected(point: Point) -> Point:
    """A point that left the cube, folded back at the faces: none is worth more than the inside."""
    folded = np.mod(point, 2.0)
    return np.where(folded > 1.0, 2.0 - folded, folded)


def _is_log(range_: BaseDistribution) -> bool:
    return isinstance(range_, FloatDistribution | IntDistribution) and range_.log


def _scaled(value: float, range_: BaseDistribution) -> float:
    return log(value) if _is_log(range_) else float(value)


def _ends(range_: BaseDistribution) -> tuple[float, float]:
    """A whole number stands for everything that is rounded to it."""
    assert isinstance(range_, FloatDistribution | IntDistribution)
    half = 0.5 if isinstance(range_, IntDistribution) else 0.0
    return _scaled(range_.low - half, range_), _scaled(range_.high + half, range_)
