"""The history of a training run: one record an epoch, and the callbacks that are told."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Phase = Literal["pretrain", "search", "train"]
"""Pre-training of the layers; the run that finds the number of epochs; the training that is kept."""


SEARCH, LEARN, TRAIN, SOLVE = "finding the epochs", "learning the decoder", "training", "solving the columns"
LISTS = "fitting the list scorer"
"""What the parts of a training are called while they run."""


@dataclass(frozen=True)
class EpochRecord:
    """One epoch, as the history of a model keeps it."""

    phase: Phase
    epoch: int
    loss: float  # mean over the ratings, each weighted by alpha or beta, in scaled ratings
    validation_rmse: float | None  # in ratings
    learning_rate: float
    seconds: float
    ratings_per_second: float
    lowered: int = 0  # how often the learning rate had been changed before, because training diverged with it
    rows: str = ""  # which of two networks
    workers: int = 1  # processes that trained together
    exchanging: float = 0.0  # share of the seconds that went into the exchange between them

    def as_json(self) -> dict[str, Any]:
        usual = {"lowered": 0, "rows": "", "workers": 1, "exchanging": 0.0}
        return {name: value for name, value in asdict(self).items() if name not in usual or usual[name] != value}


@dataclass(frozen=True)
class LoweredRate:
    """A training that diverged with one learning rate and began anew with a lower one."""

    phase: Phase
    epoch: int
    """In which it failed."""
    before: float
    after: float

    def __str__(self) -> str:
        return (
            f"training diverged in epoch {self.epoch} with a learning rate of {self.before:.3g}; "
            f"begins anew with {self.after:.3g}"
        )


Report = Callable[[EpochRecord, int], None]
"""Called after every epoch with its record and the most epochs that this phase may take."""

TellLowered = Callable[[LoweredRate], None]
"""Called when a phase begins anew with another learning rate."""
