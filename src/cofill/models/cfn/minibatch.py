"""The known ratings of a few rows, gathered in column order and corrupted: what one step of training reads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import numpy.typing as npt

from cofill.compiling import compiled
from cofill.models.cfn.corruption import Corruption, NoiseDraws
from cofill.models.cfn.kernels import Entries, Flags, Floats, Ints, Longs, gather_by_column
from cofill.models.cfn.scaling import ScaledRows
from cofill.models.draws import Keys, drawn, draws_of, mixed, normal, seed_of, unit

Bytes = npt.NDArray[np.uint8]

# Rows that are encoded together when nothing is trained: enough to read each column's weights once for many rows.
ROWS_AT_ONCE = 1024
_OTHER = np.uint64(0xD1B54A32D192ED03)  # makes a second draw of one that has been used


@dataclass(frozen=True)
class Minibatch:
    """The known entries of B rows. Inputs are the targets with noise, plus presence where they are shown, times the
    input scale of their row (input scaling by row length).
    """

    rows: Longs  # (B,): which rows these are
    entries: Entries
    input_scale: Floats  # (B,)
    features: Floats  # (B, P), P may be 0
    longest: int
    """The most ratings that any of these rows has, in all processes together."""

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
        chosen,
        Entries(present, starts, entry_rows, inputs, targets, clean),
        input_scale,
        rows.features[chosen],
        int(rows.counts[chosen].max(initial=0)),
    )


def chunks_of_rows(entry_rows: Longs, rows: ScaledRows, size: int) -> Iterator[tuple[int, int, Longs, Longs]]:
    """Entries sorted by row, cut at every `size` rows that any process asks for: first, last, the rows, each entry's
    place in them.
    """
    asked = np.zeros(rows.known.rows, np.uint8)
    asked[entry_rows] = 1
    distinct = np.flatnonzero(rows.portion.exchange.max_(asked))
    for low in range(0, len(distinct), size):
        chosen = distinct[low : low + size]
        first, last = (int(place) for place in np.searchsorted(entry_rows, [chosen[0], chosen[-1] + 1]))
        yield first, last, chosen, np.searchsorted(chosen, entry_rows[first:last])


class EpochNoise:
    """The noise of one epoch, drawn by the keys of rows and columns: the same in whatever order they come."""

    def __init__(self, rows: ScaledRows, corruption: Corruption, *seed: int) -> None:
        self._rows, self._corruption = rows, corruption
        self._seed, row_seed = seed_of(*seed, 0), seed_of(*seed, 1)
        portion, known = rows.portion, rows.known
        self._keeps: Flags | None = None
        if corruption.noise == "mask":
            keeps = np.zeros(known.rows, np.uint8)
            _keep_something(
                self._seed, np.float32(corruption.ratio), portion.row_keys, portion.column_keys,
                known.indptr, known.indices, keeps,
            )  # fmt: skip
            self._keeps = portion.exchange.max_(keeps).view(np.bool_)
        self._cold: Flags = np.zeros(0, np.bool_)
        if corruption.cold_ratio:
            bits = draws_of(row_seed, portion.row_keys)
            self._cold = (bits >> np.uint64(40)) * 2.0**-24 < corruption.cold_ratio

    def corrupted(self, clean: Minibatch) -> Minibatch:
        """The same entries with noise on their inputs; rows that show nothing after it are marked, where rows are."""
        entries, corruption, portion = clean.entries, self._corruption, self._rows.portion
        count = len(clean)
        chosen = np.empty(count, np.bool_)
        noise = np.empty(0 if corruption.noise == "mask" else count, np.float32)
        _draw_noise(
            self._seed, np.float32(corruption.ratio), corruption.noise == "gaussian", np.float32(corruption.std),
            np.float32(self._rows.ends[0]), np.float32(self._rows.ends[1]),
            portion.row_keys[clean.rows], portion.column_keys, entries.present, entries.starts, entries.rows,
            chosen, noise,
        )  # fmt: skip
        if self._keeps is not None:
            chosen &= self._keeps[clean.rows][entries.rows]
        cold = self._cold[clean.rows] if corruption.cold_ratio else self._cold
        noisy, corrupted = corruption.applied(
            entries.rows, entries.targets, NoiseDraws(chosen, noise, cold), presence=self._rows.presence
        )
        inputs = noisy * clean.input_scale[entries.rows]
        features = clean.features
        if self._rows.marks_empty and corruption.cold_ratio:
            features = features.copy()
            features[cold, -1] = 1
        return replace(clean, entries=entries._replace(inputs=inputs, corrupted=corrupted), features=features)


@compiled
def _keep_something(
    seed: np.uint64, ratio: np.float32, row_keys: Keys, column_keys: Keys, indptr: Longs, indices: Ints, keeps: Bytes
) -> None:
    """keeps[i] = whether masking leaves row i a rating."""
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            if not unit(drawn(seed, row_keys[row], column_keys[indices[entry]])) < ratio:
                keeps[row] = 1
                break


@compiled
def _draw_noise(
    seed: np.uint64,
    ratio: np.float32,
    gaussian: bool,
    std: np.float32,
    low: np.float32,
    high: np.float32,
    row_keys: Keys,
    column_keys: Keys,
    present: Ints,
    starts: Ints,
    entry_rows: Ints,
    chosen: Flags,
    noise: Floats,
) -> None:
    """Which entries are corrupted, and by what. Salt and pepper are the ends `low` and `high` of the rating scale,
    scaled, whichever side of the row's mean they fall on.
    """
    for c in range(len(present)):
        column = column_keys[present[c]]
        for entry in range(starts[c], starts[c + 1]):
            bits = drawn(seed, row_keys[entry_rows[entry]], column)
            chosen[entry] = unit(bits) < ratio
            if len(noise):
                other = mixed(bits ^ _OTHER)
                if gaussian:
                    noise[entry] = std * normal(other)
                else:
                    noise[entry] = high if unit(other) < np.float32(0.5) else low
