"""A training run of several workers on disk: a checkpoint of each and, last, a manifest that makes one of them.

    checkpoint.json               the manifest: which of them, and the columns of each
    000012/<worker>.safetensors   what a worker has: the weights of its columns, and those that all have

Every worker writes its file into a new folder. The manifest is written when all of them are on disk, and the older
folders go after that: whenever workers are killed, there is a whole checkpoint, the last one or the one before.
Another number of workers can go on from it, each from the columns that it has now.
"""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from cofill.errors import CheckpointError, train_anew
from cofill.exchange import Exchange
from cofill.files import json_of, replacing
from cofill.models.cfn.checkpoint import Checkpoint
from cofill.models.cfn.network import BY_COLUMN, Weights


class ShardedCheckpoint(Checkpoint):
    """A folder that all workers save and load together; `columns` are those of this worker among all."""

    def __init__(self, folder: Path, *, run: str, seconds: float, columns: range, exchange: Exchange) -> None:
        super().__init__(folder / "checkpoint.json", run=run, seconds=seconds)
        self.folder, self._columns, self._exchange = folder, columns, exchange
        self._number = 0
        self._shards: list[tuple[int, int]] = []  # of each worker whose weights were loaded: the first column, how many

    def due(self) -> bool:
        """Whether the last one is at least `seconds` old, by the clock of the first worker."""
        due = self._exchange.rank == 0 and super().due()
        return bool(self._exchange.max_(np.array([due], np.uint8))[0])

    def save(self, weights: Weights, best: Weights | None, state: dict[str, Any]) -> None:
        self._number += 1
        self._shard(self._exchange.rank).save(weights, best, state)
        # Only when every worker has come here are all files on disk.
        shards = self._exchange.gather(np.array([[self._columns.start, len(self._columns)]], np.int64))
        self._saved_at = time.monotonic()
        if self._exchange.rank == 0:
            manifest = {"number": self._number, "shards": np.concatenate(shards).tolist()}
            with replacing(self.path, CheckpointError) as draft:
                draft.write_text(json.dumps(manifest), encoding="utf-8")
            for path in self.folder.iterdir():  # that of the next number stays: others may be writing it already
                if path.name.isdecimal() and int(path.name) < self._number:
                    shutil.rmtree(path, ignore_errors=True)

    def load(self) -> tuple[Weights, dict[str, Any]] | None:
        """What this worker has of the last whole checkpoint, or None where there is nothing to resume."""
        if not self.path.exists():
            return None
        try:
            manifest = json_of(self.path.read_text(encoding="utf-8"))
            self._number, self._shards = manifest["number"], [(first, count) for first, count in manifest["shards"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._unreadable(error) from None
        own = self._shard(min(self._exchange.rank, len(self._shards) - 1)).load()  # is it of this run?
        if own is None:
            raise self._unreadable("a file is missing")
        state = own[1]
        del own  # before its weights are read again, with those of other columns
        return self._arrays("now."), state

    def best_weights(self) -> Weights | None:
        return (self._arrays("best.") or None) if self._shards else None

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

    def _shard(self, rank: int) -> Checkpoint:
        path = self.folder / f"{self._number:06d}" / f"{rank}.safetensors"
        return Checkpoint(path, run=self._run, seconds=self._seconds)

    def _arrays(self, prefix: str) -> Weights:
        """The weights whose names begin so: those that all share, and the columns that this worker has now."""
        found: Weights = {}
        for rank, (start, count) in enumerate(self._shards):
            first, last = max(self._columns.start - start, 0), min(self._columns.stop - start, count)
            if found and first >= last:  # one is read in any case, for the shapes
                continue
            try:
                some = self._shard(rank)._arrays(prefix)
            except (OSError, safetensors.SafetensorError) as error:
                raise self._unreadable(error) from None
            for name in filter(some.__contains__, BY_COLUMN):
                if len(some[name]) != count:
                    raise self._unreadable(f"worker {rank + 1} has {len(some[name])} columns and not {count}")
                own = some[name][first : max(first, last)]
                some[name] = np.concatenate([found[name], own]) if found else own
            found |= some
        return found

    def _unreadable(self, problem: object) -> CheckpointError:
        return CheckpointError(f"{self.path}: the checkpoint cannot be read ({problem})", train_anew("remove it or "))
