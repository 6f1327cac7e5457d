"""A training run on disk: killed at any moment, it goes on from its last checkpoint to exactly the same weights."""

import json
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import safetensors
import safetensors.numpy

from cofill.errors import CheckpointError, train_anew
from cofill.files import json_of, replacing
from cofill.models.cfn.network import Weights

_FORMAT = "3"


class TrainingCheckpoint(Protocol):
    """Where a run is kept, and what the training needs of it."""

    def due(self) -> bool:
        """Whether the last one is no longer recent."""

    def save(self, weights: Weights, best: Weights | None, state: dict[str, Any]) -> None:
        """The weights as they are, the best so far where they are kept, and where the run stands.

        The state is ready for JSON, apart from arrays in it.
        """

    def load(self) -> tuple[Weights, dict[str, Any]] | None:
        """Weights and state to go on from, or None where there is nothing to resume."""

    def best_weights(self) -> Weights | None:
        """The best weights of the run that was loaded, where they were kept."""

    def remove(self) -> None:
        """Leave nothing to resume."""


class Checkpoint:
    """One safetensors file: weights, the best weights so far where they are kept, and where the run stands.

    `run` names the data and the settings; a checkpoint of another run is refused.
    """

    def __init__(self, path: Path, *, run: str, seconds: float = 0.0) -> None:
        self.path = path
        self._run = run
        self._seconds = seconds
        self._saved_at = time.monotonic()

    def due(self) -> bool:
        """Whether the last one is at least `seconds` old."""
        return time.monotonic() - self._saved_at >= self._seconds

    def save(self, weights: Weights, best: Weights | None, state: dict[str, Any]) -> None:
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
        return (self._arrays("best.") or None) if self.path.exists() else None

    def remove(self) -> None:
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
