"""What the phases of a training cost beside each other, for the forecast of when it will end.

In seconds of a processor that are measured nowhere but here: only their ratios count. They were taken from trainings of
MovieLens-100K, MovieLens-1M and worlds of films, and are right to a factor of two or so; a phase that has begun is
measured by itself (`cofill.progress.Forecast`).
"""

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings, Orientation
from cofill.progress import Phase

Longs = npt.NDArray[np.int64]

SEARCH, LEARN, TRAIN, SOLVE = "finding the epochs", "learning the decoder", "training", "solving the columns"
LISTS = "fitting the list scorer"

_BESIDE_UNITS = 100  # what a rating costs beside its hidden units, in as many of these
_EPOCH = 1.6e-9  # a rating and a hidden unit
_SOLVE = 3.2e-9  # a rating to the power of 1.5 and a hidden unit
_LEARN_AT_ALL = 1.0
_LEARN = 1.2e-6  # a pair of ratings of one column
_MOST_PAIRS = 9_000_000  # that are looked at, of however many
_LONGEST = 500  # ratings of a column of which pairs are looked at
_LISTS = 4e-9  # a rating and a direction
_DIRECTIONS = 1.2e-9  # a direction to the power of 3


def phases_of(settings: CFNSettings, column_counts: Longs, rows: str = "") -> list[Phase]:
    """Of one network with so many ratings in its columns; `rows` says which, where there are two."""
    counts = column_counts.astype(np.float64)
    width = settings.hidden[0] + _BESIDE_UNITS
    epoch = _EPOCH * float(counts.sum()) * width
    validates = settings.validation > 0
    process = settings.decoder == "process"
    found = []
    if validates:
        found.append(Phase(SEARCH, epoch, settings.epochs, may_be_fewer=True))
        if process:
            pairs = float((np.minimum(counts, _LONGEST) ** 2).sum())
            found.append(Phase(LEARN, _LEARN_AT_ALL + _LEARN * min(pairs, _MOST_PAIRS)))
    if settings.refit or not validates:
        found.append(Phase(TRAIN, epoch, settings.epochs, may_be_fewer=validates))
    if process:
        found.append(Phase(SOLVE, _SOLVE * float((counts**1.5).sum()) * width))
    return [phase._replace(what=of_rows(phase.what, rows)) for phase in found]


def of_rows(what: str, rows: str) -> str:
    """Which network it is of, where there are two."""
    return f"{what}, rows are {rows}s" if rows else what


def list_phase(ratings: int, items: int, rank: int) -> Phase:
    directions = float(min(items, rank))
    return Phase(LISTS, _LISTS * ratings * directions + _DIRECTIONS * directions**3)


def sides_of(orientation: str) -> tuple[Orientation, ...]:
    """The networks that are trained, in their order."""
    return ("item", "user") if orientation == "both" else ("item",) if orientation == "item" else ("user",)
