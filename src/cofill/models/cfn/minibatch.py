"""The known ratings of a few rows, gathered in column order and corrupted: what one step of training reads."""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import torch

from cofill.models.cfn.corruption import Corruption
from cofill.models.cfn.kernels import Entries, Floats, Ints, Longs, gather_by_column
from cofill.models.cfn.scaling import ScaledRows


@dataclass(frozen=True)
class Minibatch:
    """The known entries of B rows. Inputs are the targets with noise, plus presence where they are shown, times the
    input scale of their row (input scaling by row length).
    """

    entries: Entries
    input_scale: Floats  # (B,)
    features: Floats  # (B, P), P may be 0
    presence: float
    marks_empty: bool  # whether the last feature says that a row shows nothing

    def __len__(self) -> int:
        return len(self.entries.targets)

    @property
    def batch(self) -> int:
        """B"""
        return len(self.input_scale)

    @property
    def entry_columns(self) -> Ints:
        """(n,)"""
        return np.repeat(self.entries.present, np.diff(self.entries.starts))

    def bounds(self, shards: int) -> list[int]:
        """Where to cut the columns present so that every shard has about as many entries: shards + 1 of them."""
        starts, share = self.entries.starts, len(self) / shards
        # In the type of the starts: otherwise all of them are converted first.
        inner = [int(starts.searchsorted(starts.dtype.type(ceil(s * share)))) for s in range(1, shards)]
        return [0, *inner, len(self.entries.present)]


def gather(rows: ScaledRows, chosen: Longs) -> Minibatch:
    """The chosen rows as they are, without noise."""
    known = rows.known
    present, starts, entry_rows, targets = gather_by_column(
        known.indptr, known.indices, known.values, chosen, known.columns
    )
    input_scale = rows.input_scale[chosen]
    inputs = (targets + np.float32(rows.presence)) * input_scale[entry_rows]
    clean = np.zeros(len(targets), np.bool_)
    return Minibatch(
        Entries(present, starts, entry_rows, inputs, targets, clean),
        input_scale,
        rows.features[chosen],
        rows.presence,
        rows.marks_empty,
    )


def corrupt(clean: Minibatch, corruption: Corruption, generator: torch.Generator) -> Minibatch:
    """The same entries with noise on their inputs; rows that show nothing after it are marked, where rows are."""
    entries = clean.entries
    rows, targets = torch.from_numpy(entries.rows), torch.from_numpy(entries.targets)
    noisy, corrupted = corruption(rows, targets, clean.batch, generator, presence=clean.presence)
    inputs = noisy.numpy() * clean.input_scale[entries.rows]
    features = clean.features
    if clean.marks_empty:
        shown = noisy.numpy() != 0
        shown |= ~corrupted.numpy()
        empty = np.bincount(entries.rows, shown, clean.batch) == 0
        features = np.column_stack([features[:, :-1], empty.astype(np.float32)])
    return replace(clean, entries=entries._replace(inputs=inputs, corrupted=corrupted.numpy()), features=features)
