"""The history of a training run: one record an epoch, and the callback that receives it. Nothing here needs torch."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Phase = Literal["pretrain", "search", "train"]
"""Pre-training of the layers; the run that finds the number of epochs; the training that is kept."""


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

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


Report = Callable[[EpochRecord, int], None]
"""Called after every epoch with its record and the most epochs that this phase may take."""
