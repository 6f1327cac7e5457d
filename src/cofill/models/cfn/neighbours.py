"""The local kernel, cut to each row's nearest rows, so that a rating costs a few additions; and how it follows changes.

The cut is a sparse table of the rows of the training. Rows that came later are few, and are never cut.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cofill.arrays import Bools, Floats, Ints, Longs, grown
from cofill.compiling import compiled
from cofill.data.sparse import KnownRatings, SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn.codes import RowCodes
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
_FEW = 100  # pairs, for which numba, which takes half a second to start, is not worth it


class Nearest(NamedTuple):
    """Rows and their local kernel with one row, or with each of some; nearest ones not necessarily first."""

    rows: Ints  # (m,) or (n, m)
    kernel: Floats


class Neighbours:
    """For every row of the training the rows most like it, and the other way round: for every row those that it is
    among the nearest of.
    """

    def __init__(self, rows: Ints, kernel: Floats) -> None:
        """(rows, m) both."""
        # Compiled loops go by these indices, and a file may come from anywhere.
        if rows.shape != kernel.shape or (rows.size and not 0 <= rows.min() <= rows.max() < len(rows)):
            raise ValueError("the table of nearest rows is damaged")
        self.rows, self.kernel = rows, kernel

    @cached_property
    def by_rated(self) -> SparseRows:
        """For every row those that it is among the nearest of, and their local kernel with it."""
        count, most = self.rows.shape
        table = SparseRows(np.arange(count + 1) * most, self.rows.ravel(), self.kernel.ravel(), count)
        return table.transpose()

    @classmethod
    def of(cls, directions: Floats, most: int, rated: Bools, exchange: Exchange = ALONE) -> "Neighbours":
        """From directions (rows, width) of length 1; a row is among its own nearest.

        Only rows that are `rated` (rows,) are chosen while there are any: no column has an alpha on the others.
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
def add_rows(indptr: Longs, indices: Ints, values: Floats, rows: Ints, weights: Floats, out: Floats) -> None:
    """Add some sparse rows, each times its weight."""
    for place in range(len(rows)):
        for at in range(indptr[rows[place]], indptr[rows[place] + 1]):
            out[indices[at]] += values[at] * weights[place]


@compiled
def local_at_pairs(
    rows: Ints, kernel: Floats, indptr: Longs, indices: Ints, alpha: Floats,
    pair_rows: Ints, pair_columns: Ints, dense: Floats, out: Floats,
) -> None:  # fmt: skip
    """The local part at pairs that are sorted by column; `dense` (rows,) is zero before and after."""
    first = 0
    while first < len(pair_rows):
        column = pair_columns[first]
        for at in range(indptr[column], indptr[column + 1]):
            dense[indices[at]] = alpha[at]
        while first < len(pair_rows) and pair_columns[first] == column:
            row = pair_rows[first]
            total = np.float32(0)
            for place in range(rows.shape[1]):
                total += kernel[row, place] * dense[rows[row, place]]
            out[first] = total
            first += 1
        for at in range(indptr[column], indptr[column + 1]):
            dense[indices[at]] = 0


class LocalPart:
    """What a column's ratings of the rows most like a row mean for that row.

    The row is seen as it stands now. Of the rows that a column has rated and that were trained, as they were then, the
    nearest to it count; of those that came later, all.
    """

    def __init__(self, table: Neighbours, alpha: Floats, known: KnownRatings, codes: RowCodes) -> None:
        """`alpha` (ratings of the training,): dual coefficients, column by column."""
        self._table, self._alpha, self._known, self._codes = table, alpha, known, codes
        self._near = Nearest(table.rows, table.kernel)  # of all rows as they stand now
        self.stale: set[int] = set()  # rows that have other ratings or features since these were found
        self.moved: dict[int, tuple[Ints, Floats]] = {}  # changed columns: rows that they have rated, and alpha there
        self._alpha_by_row: Floats | None = None

    def _flush(self) -> None:
        """Find what is nearest to rows that have changed since the last question."""
        if not self.stale:
            return
        table, rows = self._table, self._known.rows
        if rows > len(self._near.rows) or self._near.rows is table.rows:  # with room to spare: the next new row is near
            room = rows + rows // 16 + 1
            self._near = Nearest(grown(self._near.rows, room), grown(self._near.kernel, room))
        near, changed, directions = self._near, self._codes.changed(), self._codes.now().directions
        for row in self.stale:
            found = self.nearest_to(directions[row]) if changed[row] else (table.rows[row], table.kernel[row])
            near.rows[row], near.kernel[row] = found
        self.stale.clear()

    def alpha_of(self, column: int) -> tuple[Ints, Floats]:
        """Rows that a column has rated, and its coefficients there."""
        if column in self.moved:
            return self.moved[column]
        by_column = self._known.trained_columns
        if column >= by_column.rows:
            return by_column.indices[:0], self._alpha[:0]
        known = slice(int(by_column.indptr[column]), int(by_column.indptr[column + 1]))
        return by_column.indices[known], self._alpha[known]

    def nearest(self, row: int) -> Nearest:
        """Of a known row."""
        self._flush()
        return Nearest(self._near.rows[row], self._near.kernel[row])

    def nearest_to(self, direction: Floats) -> Nearest:
        """Of any row in this direction."""
        rated = self._codes.trained_counts > 0
        return nearest_to(direction, self._codes.trained().directions, self._table.rows.shape[1], rated)

    def of_column(self, rated: Ints, alpha: Floats) -> Floats:
        """(rows,): of a column with these coefficients at the rows that it has rated."""
        self._flush()
        table, changed = self._table, np.flatnonzero(self._codes.changed())
        local = np.zeros(self._known.rows, np.float32)
        old = self._codes.was_trained(rated)
        near_to = table.by_rated
        add_rows(near_to.indptr, near_to.indices, near_to.values, rated[old], alpha[old], local)
        local[changed] = self._of_nearest(changed, rated[old], alpha[old])
        return local + self._of_later(slice(None), rated[~old], alpha[~old])

    def _of_nearest(self, rows: Ints | Longs, rated: Ints, alpha: Floats) -> Floats:
        """(n,): at rows, of those that were trained."""
        dense = np.zeros(self._known.trained.rows, np.float32)
        dense[rated] = alpha
        local: Floats = (self._near.kernel[rows] * dense[self._near.rows[rows]]).sum(1)
        return local

    def _of_later(self, rows: Ints | slice, rated: Ints, alpha: Floats) -> Floats | np.float32:
        """(n,): at rows, of those that came after the training."""
        if not len(rated):
            return np.float32(0)
        directions = self._codes.now().directions
        local: Floats = local_kernel(directions[rows] @ directions[rated].T) @ alpha
        return local

    def at_pairs(self, rows: Ints, columns: Ints) -> Floats:
        """(n,) at pairs."""
        self._flush()
        near, by_column = self._near, self._known.trained_columns
        local = np.zeros(len(rows), np.float32)
        alone = np.isin(columns, list(self.moved)) | (columns >= by_column.rows) | (len(columns) <= _FEW)
        order = np.argsort(columns, kind="stable")
        at = order[~alone[order]]
        if len(at):
            found, dense = np.zeros(len(at), np.float32), np.zeros(self._known.trained.rows, np.float32)
            local_at_pairs(
                near.rows, near.kernel, by_column.indptr, by_column.indices, self._alpha,
                rows[at], columns[at], dense, found,
            )  # fmt: skip
            local[at] = found
        for column in np.unique(columns[alone]).tolist():
            at = np.flatnonzero(columns == column)
            rated, alpha = self.alpha_of(column)
            old = self._codes.was_trained(rated)
            local[at] = self._of_nearest(rows[at], rated[old], alpha[old])
            local[at] += self._of_later(rows[at], rated[~old], alpha[~old])
        return local

    def of_row(self, near: Nearest, direction: Floats) -> Floats:
        """(columns,): of a row with these nearest ones."""
        trained = self._known.trained
        if self._alpha_by_row is None:
            self._alpha_by_row = self._alpha[np.argsort(self._known.trained_columns.indices, kind="stable")]
        local = np.zeros(self._known.columns, np.float32)
        add_rows(trained.indptr, trained.indices, self._alpha_by_row, near.rows, near.kernel, local)
        if self.moved:
            kernel = self._kernel_with_rated(near, direction)
            for column, (rated, alpha) in self.moved.items():
                local[column] = kernel[rated] @ alpha
        return local

    def between(self, rows: Ints, directions: Floats, rated: Ints) -> Floats:
        """(m, n): the local kernel between known rows and rated ones, as predictions see it."""
        pairs = zip(rows.tolist(), directions, strict=True)
        cut = [self._kernel_with_rated(self.nearest(row), direction)[rated] for row, direction in pairs]
        return np.array(cut, np.float32).reshape(len(rows), len(rated))

    def _kernel_with_rated(self, near: Nearest, direction: Floats) -> Floats:
        """(rows,): the local kernel between a row that is asked about and all that a column may have rated."""
        kernel = np.zeros(self._known.rows, np.float32)
        kernel[near.rows] = near.kernel
        changed = np.flatnonzero(self._codes.changed())
        later = changed[~self._codes.was_trained(changed)]
        kernel[later] = local_kernel(self._codes.now().directions[later] @ direction)
        return kernel
