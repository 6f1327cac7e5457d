"""The local kernel, cut to each row's nearest rows: a sparse table, so that a rating costs a few additions."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from cofill.arrays import Bools, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn.gp import local_kernel
from cofill.threads import on_all_cores

_AT_ONCE = 2_000_000  # cosines
_UNLIKE = np.float32(-2)  # below every cosine
# Rows up to which each is compared with every other. Beyond, rows are put into groups of rows that are alike, and are
# compared with those of the groups nearest to their own: the cost is then in proportion to the rows.
MOST_COMPARED = 20_000
_GROUP = 250  # rows at most
_COMPARED = 3_000  # rows at least
_ROUNDS = 3  # of two-means
_SAMPLE = 4_000  # rows of a group that choose how it is divided


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
        from scipy.sparse import csr_array

        self.rows, self.kernel = rows, kernel
        indptr = np.arange(len(rows) + 1) * rows.shape[1]
        other = csr_array((kernel.ravel(), rows.ravel(), indptr), (len(rows), len(rows))).tocsc()
        self.starts = np.asarray(other.indptr, np.int64)
        self.near_to, self.near_kernel = np.asarray(other.indices, np.int32), np.asarray(other.data, np.float32)

    @classmethod
    def of(cls, directions: Floats, most: int, rated: Bools, exchange: Exchange = ALONE) -> "Neighbours":
        """From directions (rows, width) of length 1; a row is among its own nearest.

        Only rows that are `rated` (rows,) are chosen while there are any: no column has a pull on the others.
        Each process works on some of the rows.
        """
        count = len(directions)
        most = min(most, count)
        candidates = np.flatnonzero(rated)
        if len(candidates) < most:  # the others make up the number, and nothing comes of them
            candidates = np.sort(np.concatenate([candidates, np.flatnonzero(~rated)[: most - len(candidates)]]))
        mine = np.arange(count * exchange.rank // exchange.size, count * (exchange.rank + 1) // exchange.size)
        rows, kernel = np.empty((len(mine), most), np.int32), np.empty((len(mine), most), np.float32)
        few = len(candidates) <= MOST_COMPARED
        parts = [(mine, candidates)] if few else _alike(directions, mine, candidates)

        def work(part: tuple[Longs, Longs]) -> None:
            asked, among = part
            cosines = directions[asked] @ directions[among].T
            cosines[:, ~rated[among]] = _UNLIKE
            chosen = _largest(cosines, most)
            at = asked - mine[0]
            rows[at] = among[chosen]
            kernel[at] = local_kernel(np.take_along_axis(cosines, chosen, 1))

        on_all_cores(work, _in_steps(parts))
        if exchange.size > 1:
            rows, kernel = (np.concatenate(exchange.gather(part)) for part in (rows, kernel))
        return cls(rows, kernel)

    def of_row(self, row: int) -> Nearest:
        return Nearest(self.rows[row], self.kernel[row])


def _in_steps(parts: Iterable[tuple[Longs, Longs]]) -> Iterator[tuple[Longs, Longs]]:
    for asked, among in parts:
        step = max(1, _AT_ONCE // max(len(among), 1))
        for first in range(0, len(asked), step):
            yield asked[first : first + step], among


def _alike(directions: Floats, asked: Longs, candidates: Longs) -> Iterator[tuple[Longs, Longs]]:
    """Asked rows, and candidates among which most of their nearest are: group by group."""
    groups = _groups(directions, candidates)
    centres = np.stack([directions[group].mean(0) for group in groups])
    centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    sizes = np.array([len(group) for group in groups])
    own = np.full(len(directions), -1)
    for number, group in enumerate(groups):
        own[group] = number
    others = np.flatnonzero(own < 0)  # without ratings
    for first in range(0, len(others), _SAMPLE):
        some = others[first : first + _SAMPLE]
        own[some] = (directions[some] @ centres.T).argmax(1)
    own = own[asked]
    order = np.argsort(own, kind="stable")
    ends = np.searchsorted(own[order], np.arange(len(groups) + 1))
    for number, centre in enumerate(centres):
        inside = asked[order[ends[number] : ends[number + 1]]]
        if len(inside):
            nearest = np.argsort(-(centres @ centre), kind="stable")
            enough = int(np.searchsorted(np.cumsum(sizes[nearest]), _COMPARED)) + 1
            yield inside, np.sort(np.concatenate([groups[at] for at in nearest[:enough].tolist()]))


def _groups(directions: Floats, rows: Longs) -> list[Longs]:
    """The rows in groups of rows that are alike: divided in two (two-means) until they are small enough."""
    found, left = [], [rows]
    while left:
        group = left.pop()
        if len(group) <= _GROUP:
            found.append(group)
            continue
        sample = directions[group[:: max(1, len(group) // _SAMPLE)]]
        # From the row that is farthest from the mean, and the one that is farthest from that.
        one = sample[(sample @ sample.mean(0)).argmin()]
        axis = one - sample[(sample @ one).argmin()]
        for _ in range(_ROUNDS):
            along = sample @ axis
            split = along > np.median(along)
            if split.all() or not split.any():
                break
            axis = sample[split].mean(0) - sample[~split].mean(0)
        # Halves of equal size: rows that are all alike are divided, too.
        order = np.argpartition(directions[group] @ axis, len(group) // 2)
        left += [group[order[: len(group) // 2]], group[order[len(group) // 2 :]]]
    return found


def nearest_to(direction: Floats, directions: Floats, most: int, rated: Bools) -> Nearest:
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
