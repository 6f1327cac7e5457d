"""The known ratings of a few rows, gathered in column order and corrupted: what one step of training reads."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from cofill.cfn.corruption import Corruption
from cofill.cfn.kernels import Floats, Ints, Longs, gather_by_column
from cofill.data.sparse import SparseRows


@dataclass(frozen=True)
class Minibatch:
    """n known entries of B rows; the entries of the c-th column present are starts[c]:starts[c + 1]."""

    batch: int
    present: Ints  # (C,) ascending
    starts: Ints  # (C + 1,)
    entry_rows: Ints  # (n,) in 0..B-1
    targets: Floats  # (n,)
    inputs: Floats  # (n,) the targets with noise
    corrupted: npt.NDArray[np.bool_]  # (n,)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def entry_columns(self) -> Ints:
        """(n,)"""
        return np.repeat(self.present, np.diff(self.starts))

    def bounds(self, shards: int) -> Longs:
        """Where to cut the columns present so that every shard has about as many entries: (shards + 1,)."""
        cuts = np.searchsorted(self.starts, np.arange(shards + 1) * (len(self) / shards))
        cuts[-1] = len(self.present)
        return cuts.astype(np.int64)


def gather(rows: SparseRows, chosen: Longs) -> Minibatch:
    """The chosen rows as they are, without noise."""
    present, starts, entry_rows, targets = gather_by_column(
        rows.indptr, rows.indices, rows.values, chosen, rows.columns
    )
    nothing = np.zeros(len(targets), np.bool_)
    return Minibatch(len(chosen), present, starts, entry_rows, targets, targets, nothing)


def corrupt(clean: Minibatch, corruption: Corruption, generator: torch.Generator) -> Minibatch:
    """The same entries with noise on their inputs."""
    inputs, corrupted = corruption(
        torch.from_numpy(clean.entry_rows), torch.from_numpy(clean.targets), clean.batch, generator
    )
    return Minibatch(
        clean.batch,
        clean.present,
        clean.starts,
        clean.entry_rows,
        clean.targets,
        inputs.numpy(),
        corrupted.numpy(),
    )
