"""A training run of several workers on disk: shards and, last, a manifest that makes a checkpoint of them.

    checkpoint.json                     the manifest: which checkpoint, of which columns, and where the run stands
    000012/shard-<worker>.safetensors   what a worker has: the weights of its columns
    000012/shared.safetensors           the weights that all workers have

Every worker writes its shard into a new folder. The manifest is written when all of them are on disk, and the older
folders go after that: whenever workers are killed, there is a whole checkpoint, the last one or the one before.
Another number of workers can go on from it, each from the columns that it has now.
"""

import json
import shutil
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy
from pydantic import BaseModel, ConfigDict, ValidationError

from cofill.errors import CheckpointError, train_anew
from cofill.exchange import Exchange
from cofill.files import json_of, replacing
from cofill.models.cfn.checkpoint import Checkpoint
from cofill.models.cfn.network import BY_COLUMN, Weights

_MANIFEST, _SHARED = "checkpoint.json", "shared.safetensors"


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    run: str
    number: int
    shards: list[tuple[int, int, int]]  # of each worker: the first column, how many, and bytes
    state: dict[str, Any]


class ShardedCheckpoint(Checkpoint):
    """A folder that all workers save and load together; `columns` are those of this worker among all."""

    def __init__(self, folder: Path, *, run: str, seconds: float, columns: range, exchange: Exchange) -> None:
        super().__init__(folder, run=run, seconds=seconds)
        self.folder, self._columns, self._exchange = folder, columns, exchange
        self._loaded: _Manifest | None = None
        self._number = 0

    def due(self) -> bool:
        """Whether the last one is at least `seconds` old, by the clock of the first worker."""
        due = self._exchange.rank == 0 and super().due()
        return bool(self._exchange.max_(np.array([due], np.uint8))[0])

    def save(self, weights: Weights, best: Weights | None, state: dict[str, Any]) -> None:
        number, rank = self._number + 1, self._exchange.rank
        own: Weights = {}
        shared: Weights = {}
        for prefix, kept in (("now.", weights), ("best.", best or {})):
            for name, weight in kept.items():
                (own if name in BY_COLUMN else shared)[prefix + name] = np.ascontiguousarray(weight)
        shard = self._file(number, _shard(rank))
        for path, arrays in ((shard, own), (self._file(number, _SHARED), shared))[: 1 if rank else 2]:
            with replacing(path, CheckpointError) as draft:
                safetensors.numpy.save_file(arrays, draft)
        # Only when every worker has come here are all files on disk.
        mine = np.array([[self._columns.start, len(self._columns), shard.stat().st_size]], np.int64)
        shards = np.concatenate(self._exchange.gather(mine)).tolist()
        self._number, self._saved_at = number, time.monotonic()
        if rank == 0:
            manifest = _Manifest(run=self._run, number=number, shards=shards, state=state)
            with replacing(self.folder / _MANIFEST, CheckpointError) as draft:
                draft.write_text(json.dumps(manifest.model_dump()), encoding="utf-8")  # there may be infinities in it
            for path in self.folder.iterdir():  # that of the next number stays: others may be writing it already
                if path.name.isdecimal() and int(path.name) < number:
                    shutil.rmtree(path, ignore_errors=True)

    def load(self) -> tuple[Weights, dict[str, Any]] | None:
        """What this worker has of the last whole checkpoint, or None where there is nothing to resume."""
        path = self.folder / _MANIFEST
        if not path.exists():
            return None
        try:
            manifest = _Manifest.model_validate(json_of(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, ValidationError) as error:
            raise _unreadable(path, error) from None
        if manifest.run != self._run:
            raise CheckpointError(
                f"{path}: the checkpoint belongs to other ratings, side information or settings",
                train_anew("use those of the first run, or "),
            )
        self._loaded, self._number = manifest, manifest.number
        return self._arrays("now."), manifest.state

    def best_weights(self) -> Weights | None:
        return None if self._loaded is None else self._arrays("best.") or None

    def remove(self) -> None:
        if self._exchange.rank == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise CheckpointError(
                    f"{self.folder}: no checkpoint can be written there: {problem.strerror}; choose another place"
                ) from None
        self._exchange.max_(np.zeros(1, np.uint8))  # no shard is written before the old ones are gone

    def _file(self, number: int, name: str) -> Path:
        return self.folder / f"{number:06d}" / name

    def _arrays(self, prefix: str) -> Weights:
        """The weights whose names begin so: those that all share, and the columns that this worker has now."""
        assert self._loaded is not None
        number = self._loaded.number
        with _opened(self._file(number, _SHARED)) as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 (it is no mapping)
            found: Weights = {name.removeprefix(prefix): file.get_tensor(name) for name in names}
        parts: dict[str, list[npt.NDArray[np.float32]]] = {}
        for rank, (start, columns, size) in enumerate(self._loaded.shards):
            first, last = max(self._columns.start - start, 0), min(self._columns.stop - start, columns)
            if not columns or (first >= last and parts):  # one is read in any case, for the shapes
                continue
            with _opened(self._file(number, _shard(rank)), size) as file:
                for name in BY_COLUMN:
                    if prefix + name not in file.keys():  # noqa: SIM118
                        return {}  # no best weights were kept
                    rows = file.get_slice(prefix + name)[slice(first, last) if first < last else slice(0, 0)]
                    parts.setdefault(name, []).append(rows)
        by_column = {name: np.concatenate(some) for name, some in parts.items()}
        if any(len(array) != len(self._columns) for array in by_column.values()):
            raise _unreadable(self.folder / _MANIFEST, "it lacks some columns")
        return found | by_column


def _shard(rank: int) -> str:
    return f"shard-{rank}.safetensors"


def _opened(path: Path, size: int | None = None) -> Any:
    try:
        if size is not None and path.stat().st_size != size:
            raise _unreadable(path, f"it has {path.stat().st_size:,} bytes, and {size:,} were written")
        return safetensors.safe_open(path, framework="np")
    except (safetensors.SafetensorError, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, problem: object) -> CheckpointError:
    reason = str(problem).splitlines()[0]
    return CheckpointError(f"{path}: the checkpoint cannot be read ({reason})", train_anew("remove it or "))
