"""How much a known rating or interaction counts for lists: its grade, from nearly nothing to about one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Scale

Floats = npt.NDArray[np.float32]

SECONDS_A_DAY = 86_400.0

# What a model that was trained on ratings alone takes for as much as the highest rating: a purchase, or five views.
HIGHEST_WEIGHT = 5.0


@dataclass(frozen=True)
class Grades:
    """From ratings or weights of interactions to grades.

    The lowest rating counts `floor` and the highest 1: even a bad rating says that somebody chose the item. Ratings
    between them count floor + (1 - floor) t^power, where t goes from 0 to 1 along the scale. An interaction counts 1,
    however often it happened, or, with `confidence` above 0, the logarithm of its weight to that power. Where no
    interactions were trained on, their weights count as ratings on a scale from 0 to `HIGHEST_WEIGHT`.
    """

    scale: Scale
    rated: bool = True
    floor: float = 0.1
    power: float = 1.15
    confidence: float = 0.0

    def of(self, values: Floats) -> Floats:
        """(n,) ratings or weights -> (n,) grades."""
        if not self.rated:
            if not self.confidence:
                return np.ones(len(values), np.float32)
            return np.asarray((np.log1p(values) / np.log(2.0)) ** self.confidence, np.float32)
        low, high = self.scale
        along = np.clip((values.astype(np.float64) - low) / (high - low), 0.0, 1.0)
        graded: Floats = (self.floor + (1.0 - self.floor) * along**self.power).astype(np.float32)
        return graded


def time_decay(times: npt.NDArray[Any], half_life: float, latest: float | None = None) -> Floats:
    """(n,): what is left of each rating or interaction when it counts half after so many days, from the latest on."""
    seconds = times.astype(np.float64)
    days = ((seconds.max(initial=-np.inf) if latest is None else latest) - seconds) / SECONDS_A_DAY
    left: Floats = np.exp2(-days / half_life).astype(np.float32)
    return left
