"""The local kernel, cut to each row's nearest rows: a sparse table, so that a rating costs a few additions."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.compiling import compiled
from cofill.exchange import ALONE, Exchange
from cofill.models.decoder.kernel import local_kernel

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

_AT_ONCE = 8_000_000  # cosines
_UNLIKE = np.float32(-2)  # below every cosine


class Nearest(NamedTuple):
    """Rows and their local kernel with one row, nearest ones not necessarily first."""

    rows: Ints  # (m,)
    kernel: Floats  # (m,)


class Neighbours:
    """For every row of the training the rows most like it, and the other way round: for every row those that it is
    among the nearest of.
    """

    def __init__(self, rows: Ints, kernel: Floats) -> None:
        """(rows, m) both."""
        self.rows, self.kernel = rows, kernel
        flat = rows.ravel()
        order = np.argsort(flat, kind="stable")
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=len(rows)))]).astype(np.int64)
        self.near_to = (order // max(rows.shape[1], 1)).astype(np.int32)
        self.near_kernel = kernel.ravel()[order]

    @classmethod
    def of(
        cls, directions: Floats, most: int, rated: npt.NDArray[np.bool_], exchange: Exchange = ALONE
    ) -> "Neighbours":
        """From directions (rows, width) of length 1; a row is among its own nearest.

        Only rows that are `rated` (rows,) are chosen while there are any: no column has a pull on the others.
        Each process works on some of the rows.
        """
        count = len(directions)
        most = min(most, count)
        begin, end = (count * number // exchange.size for number in (exchange.rank, exchange.rank + 1))
        rows, kernel = np.empty((end - begin, most), np.int32), np.empty((end - begin, most), np.float32)
        step = max(1, _AT_ONCE // max(count, 1))
        for first in range(begin, end, step):
            own = slice(first - begin, min(first + step, end) - begin)
            cosines = directions[first : min(first + step, end)] @ directions.T
            cosines[:, ~rated] = _UNLIKE
            chosen = _largest(cosines, most)
            rows[own] = chosen
            kernel[own] = local_kernel(np.take_along_axis(cosines, chosen, 1))
        if exchange.size > 1:
            rows, kernel = (np.concatenate(exchange.gather(part)) for part in (rows, kernel))
        return cls(rows, kernel)

    def of_row(self, row: int) -> Nearest:
        return Nearest(self.rows[row], self.kernel[row])


def nearest_to(direction: Floats, directions: Floats, most: int, rated: npt.NDArray[np.bool_]) -> Nearest:
    """Of a row (width,) that is not in the table, or has changed, among rows (n, width)."""
    cosines = directions @ direction
    cosines[~rated] = _UNLIKE
    chosen = _largest(cosines[None], min(most, len(cosines)))[0]
    return Nearest(chosen.astype(np.int32), local_kernel(cosines[chosen]))


def _largest(cosines: Floats, most: int) -> Longs:
    """(n, most): places of the largest of each line, in ascending order so that memory is read in order."""
    if most == cosines.shape[1]:
        return np.broadcast_to(np.arange(most), cosines.shape)
    return np.sort(np.argpartition(cosines, cosines.shape[1] - most, axis=1)[:, -most:], axis=1)


@compiled
def spread_pulls(starts: Longs, near_to: Ints, near_kernel: Floats, rated: Ints, pull: Floats, out: Floats) -> None:
    """Add what ratings of some rows mean for all rows that have these among their nearest."""
    for place in range(len(rated)):
        weight = pull[place]
        for at in range(starts[rated[place]], starts[rated[place] + 1]):
            out[near_to[at]] += near_kernel[at] * weight


@compiled
def pulls_at_pairs(
    rows: Ints, kernel: Floats, indptr: Longs, indices: Ints, pull: Floats,
    pair_rows: Ints, pair_columns: Ints, dense: Floats, out: Floats,
) -> None:  # fmt: skip
    """The local part at pairs that are sorted by column; `dense` (rows,) is zero before and after."""
    first = 0
    while first < len(pair_rows):
        column = pair_columns[first]
        for at in range(indptr[column], indptr[column + 1]):
            dense[indices[at]] = pull[at]
        while first < len(pair_rows) and pair_columns[first] == column:
            row = pair_rows[first]
            total = np.float32(0)
            for place in range(rows.shape[1]):
                total += kernel[row, place] * dense[rows[row, place]]
            out[first] = total
            first += 1
        for at in range(indptr[column], indptr[column + 1]):
            dense[indices[at]] = 0


@compiled
def pulls_of_rows(near: Ints, kernel: Floats, indptr: Longs, indices: Ints, pull: Floats, out: Floats) -> None:
    """Add to all columns (columns,) what their ratings of the nearest rows mean for one row; `pull` row by row."""
    for place in range(len(near)):
        for at in range(indptr[near[place]], indptr[near[place] + 1]):
            out[indices[at]] += kernel[place] * pull[at]
