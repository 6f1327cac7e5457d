"""Traits of people and films in the synthetic world, explained in part by what is known of them."""

import numpy as np
import numpy.typing as npt

from cofill.arrays import Doubles


def backgrounds(ages: npt.NDArray[np.int16], occupations: npt.NDArray[np.int8]) -> Doubles:
    """Decade of age and occupation as columns of 0 and 1: (users, decades and occupations)."""
    decades = np.eye(8)[np.clip(ages // 10, 0, 7)]
    trades = np.eye(int(occupations.max(initial=0)) + 1)[occupations]
    return np.concatenate([decades, trades], axis=1)


def traits_from(known: Doubles, share: float, count: int, rng: np.random.Generator) -> Doubles:
    """Random traits of variance 1, of which `share` is a linear function of the columns `known`: (rows, count)."""
    return mixed(share, standardized(known @ rng.normal(size=(known.shape[1], count))), rng)


def mixed(share: float, explained: Doubles, rng: np.random.Generator) -> Doubles:
    """Variables of variance 1, of which the share is explained and the rest is noise."""
    mix: Doubles = np.sqrt(share) * explained + np.sqrt(1 - share) * rng.normal(size=explained.shape)
    return mix


def standardized(columns: npt.NDArray[np.generic]) -> Doubles:
    """Columns of mean 0 and deviation 1, or of zeros where nothing varies."""
    centred = columns.astype(np.float64) - columns.astype(np.float64).mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(centred / np.where(deviation > 1e-9, deviation, 1.0))
