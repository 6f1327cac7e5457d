"""A training run on disk: killed at any moment, it goes on from its last checkpoint to exactly the same weights."""

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from cofill.arrays import Floats
from cofill.errors import CheckpointError, train_anew
from cofill.files import json_of, replacing
from cofill.models.cfn.network import Weights
from cofill.models.results import EpochRecord, Phase

_FORMAT = "1"


@dataclass
class TrainingState:
    """Where a run stands between two epochs: with the weights, all that is needed to go on."""

    phase: Phase
    epoch: int = 0
    best_epoch: int = 0
    best_rmse: float = float("inf")
    history: list[EpochRecord] = field(default_factory=list)
    lowered: int = 0
    """How often the learning rate was lowered, after trainings that failed with more."""
    amplitudes: list[float] | None = None
    """Of the decoder, once it has been learned (`KernelParams.as_array`)."""
    spread: list[float] | None = None
    """Of its errors (`IntervalCalibration.as_array`)."""
    judged: Floats | None = None
    """Its predictions of validation ratings, where they are asked for."""

    def begin_phase_anew(self) -> None:
        """With a lower rate, as if this phase had not begun yet; what an earlier one has found remains."""
        searched = [at for at, record in enumerate(self.history) if record.phase == "search"]
        del self.history[searched[-1] + 1 if searched and self.phase == "train" else 0 :]
        self.epoch, self.lowered = 0, self.lowered + 1
        if self.phase == "search":
            self.best_epoch, self.best_rmse = 0, float("inf")

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON, apart from what was judged, which is as long as the validation part."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> "TrainingState":
        return cls(**document | {"history": [EpochRecord(**record) for record in document["history"]]})


class Checkpoint:
    """One safetensors file: weights, the best weights so far where they are kept, and where the run stands.

    `run` names the data and the settings; a checkpoint of another run is refused.
    """

    def __init__(self, path: Path, *, run: str, seconds: float) -> None:
        self.path, self._run, self._seconds = path, run, seconds
        self._saved_at = time.monotonic()

    def due(self) -> bool:
        """Whether the last one is at least `seconds` old."""
        return time.monotonic() - self._saved_at >= self._seconds

    def save(self, weights: Weights, best: Weights | None, state: dict[str, Any]) -> None:
        """The weights as they are, the best so far where they are kept, and the state (`TrainingState.as_dict`)."""
        # The head of the file, which holds the rest, must not be longer than 100 MB.
        long = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
        kept = (("now.", weights), ("best.", best or {}), ("state.", long))
        arrays = {prefix + name: np.ascontiguousarray(array) for prefix, some in kept for name, array in some.items()}
        rest = {name: value for name, value in state.items() if name not in long}
        metadata = {"format": _FORMAT, "run": self._run, "state": json.dumps(rest)}
        with replacing(self.path, CheckpointError) as draft:
            safetensors.numpy.save_file(arrays, draft, metadata)
        self._saved_at = time.monotonic()

    def load(self) -> tuple[Weights, dict[str, Any]] | None:
        """Weights and state to go on from, or None where there is nothing to resume."""
        if not self.path.exists():
            return None
        try:
            with safetensors.safe_open(self.path, framework="np") as file:
                metadata = file.metadata() or {}
            weights = self._arrays("now.")
            if metadata.get("format") != _FORMAT:
                raise CheckpointError(f"{self.path}: a checkpoint of another version of cofill", train_anew())
            state: dict[str, Any] = json_of(metadata["state"]) | self._arrays("state.")
        except (safetensors.SafetensorError, OSError, KeyError, ValueError) as error:
            raise CheckpointError(
                f"{self.path}: the checkpoint cannot be read ({error})", train_anew("delete it or ")
            ) from None
        if metadata.get("run") != self._run:
            raise CheckpointError(
                f"{self.path}: the checkpoint belongs to other ratings, side information or settings",
                train_anew("use those of the first run, or "),
            )
        return weights, state

    def best_weights(self) -> Weights | None:
        """Of the run that was loaded, where they were kept."""
        return (self._arrays("best.") or None) if self.path.exists() else None

    def remove(self) -> None:
        """Leave nothing to resume."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as problem:
            raise CheckpointError(
                f"{self.path}: no checkpoint can be written there: {problem.strerror}; choose another place"
            ) from None

    def _arrays(self, prefix: str) -> Weights:
        with safetensors.safe_open(self.path, framework="np") as file:
            return {
                name.removeprefix(prefix): file.get_tensor(name)
                for name in list(file.keys())
                if name.startswith(prefix)
            }
