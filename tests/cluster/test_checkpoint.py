"""Checkpoints of several workers: shards of all sizes, none among them, and what was damaged is not taken for whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cofill.cluster.train import ShardedCheckpoint
from cofill.errors import CheckpointError
from cofill.models.cfn.network import Weights
from tests.models.several_processes import Played, together

WIDTH = 3


def weights_of(columns: range) -> Weights:
    own = np.arange(columns.start, columns.stop, dtype=np.float32)
    return {
        "input.weight": own[:, None].repeat(WIDTH, axis=1),
        "output.weight": -own[:, None].repeat(WIDTH, axis=1),
        "output.bias": own / np.float32(2),
        "input.bias": np.full(WIDTH, 7, np.float32),
    }


def checkpoint_of(folder: Path, exchange: Played, ends: list[int], run: str = "run") -> tuple[ShardedCheckpoint, range]:
    columns = range(ends[exchange.rank], ends[exchange.rank + 1])
    return ShardedCheckpoint(folder, run=run, seconds=0.0, columns=columns, exchange=exchange), columns


def save(folder: Path, ends: list[int]) -> None:
    def work(exchange: Played) -> None:
        checkpoint, columns = checkpoint_of(folder, exchange, ends)
        checkpoint.remove()
        for epoch in (1, 2):
            checkpoint.save(weights_of(columns), None, {"epoch": epoch})

    together(len(ends) - 1, work)


def load(folder: Path, ends: list[int], run: str = "run") -> list[tuple[range, Any]]:
    def work(exchange: Played) -> tuple[range, Any]:
        checkpoint, columns = checkpoint_of(folder, exchange, ends, run)
        return columns, checkpoint.load()

    return together(len(ends) - 1, work)


@pytest.mark.parametrize("now", [[0, 10], [0, 0, 10], [0, 4, 4, 10], [0, 10, 10]], ids=str)
@pytest.mark.parametrize("before", [[0, 10], [0, 0, 10], [0, 1, 1, 5, 10], [0, 0, 0, 10]], ids=str)
def test_every_worker_gets_its_columns_back(tmp_path: Path, before: list[int], now: list[int]) -> None:
    """Also where some have none, which begin where the next one does."""
    save(tmp_path, before)
    for columns, found in load(tmp_path, now):
        weights, state = found
        assert state == {"epoch": 2}
        for name, weight in weights_of(columns).items():
            np.testing.assert_array_equal(weights[name], weight)


def test_a_shard_that_is_not_what_was_written_and_another_run_are_told(tmp_path: Path) -> None:
    save(tmp_path, [0, 4, 10])
    with pytest.raises(CheckpointError, match="belongs to other ratings"):
        load(tmp_path, [0, 3, 10], "another run")
    first, second = sorted(tmp_path.glob("*/*.safetensors"))
    second.write_bytes(first.read_bytes())
    with pytest.raises(CheckpointError, match=r"worker 2 has 4 columns and not 6\); remove it or train"):
        load(tmp_path, [0, 10])


def test_drafts_of_workers_that_were_killed_are_removed(tmp_path: Path) -> None:
    (tmp_path / "000007").mkdir()
    (tmp_path / "000007" / ".tmpaB3xY9").touch()
    save(tmp_path, [0, 4, 10])
    left = ["0.safetensors", "000002", "1.safetensors", "checkpoint.json"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == left
