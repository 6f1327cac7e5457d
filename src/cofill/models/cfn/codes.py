"""The codes of rows, as they were trained and as they stand now, and the local part of the decoder between them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Floats, Ints, Longs
from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.models.cfn.gp import CodeSpace, LeaveOneOut, local_kernel
from cofill.models.cfn.neighbours import Nearest, Neighbours, nearest_to, pulls_at_pairs, pulls_of_rows, spread_pulls
from cofill.models.cfn.network import CFNetwork, encode_rows
from cofill.models.cfn.scaling import Scaling
from cofill.models.observed import KnownRatings
from cofill.models.predictor import described_as_trained, grown

_CHUNK = 1024
_NO_ROWS, _NO_ALPHA = np.empty(0, np.int32), np.empty(0, np.float32)
# Numbers in the codes of all rows that are kept unasked: 64 MB.
_MOST_KEPT = 16_000_000


@dataclass(frozen=True)
class ReadRows:
    """The rows of the training as the network has read them in all columns; part of a model has some columns only."""

    codes: Floats  # (rows, width)
    left_out: LeaveOneOut

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For the file of a model in shards."""
        return {"codes": self.codes} | self.left_out.arrays()

    @classmethod
    def restored(
        cls,
        arrays: dict[str, npt.NDArray[Any]],
        network: CFNetwork,
        scaling: Scaling,
        known: KnownRatings,
        features: SideFeatures,
    ) -> "ReadRows":
        """From what a file kept; `known` and `features` by the rows of the network."""
        return cls(arrays["codes"], LeaveOneOut.restored(network, scaling, features, known.trained_counts(), arrays))


class RowCodes:
    """Reads rows through the network. Codes come with the scaled mean of their row."""

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        known: KnownRatings,
        features: SideFeatures,
        read: ReadRows | None = None,
    ) -> None:
        """`read`: in part of a model, which cannot read the rows of the training by itself."""
        self._network, self._scaling = network, scaling
        self._known, self._features = known, features  # by rows
        self.trained_counts = known.trained_counts()
        self._trained = None if read is None else read.codes  # (rows, width), once all of them were needed
        self._current: Floats | None = None  # the same where rows have changed since
        self._current_means = scaling.means
        self._asked = 0  # codes of rows, by now
        self._changed = np.zeros(known.rows, np.bool_)  # (rows,): since the training
        self._stale: set[int] = set()  # rows whose current codes are out of date
        self.version = 0  # rises whenever a row changes

    def row_changed(self, row: int) -> None:
        """The row has other ratings or features than before."""
        self.version += 1
        self._changed = grown(self._changed, self._known.rows)
        self._changed[row] = not (self._known.row_as_trained(row) and described_as_trained(self._features, row))
        if self._current is not None or self._changed[row]:
            self._stale.add(row)
        else:
            self._stale.discard(row)

    def changed(self, rows: npt.NDArray[np.integer]) -> Bools:
        """(n,): whether rows have other ratings or features than in the training."""
        changed: Bools = self._changed[rows]
        return changed

    def of_ratings(self, columns: Ints, ratings: Floats, features: Floats) -> tuple[Floats, np.float32]:
        """Code (width,) and mean of a row that is known only by these ratings and features (P,).

        A column that the network was not trained on tells it nothing.
        """
        mean = self._scaling.mean_of(columns, ratings, features)
        trained = columns < self._network.columns
        row = SparseRows(np.array([0, trained.sum()]), columns[trained], ratings[trained], self._network.columns)
        return encode_rows(self._network, self._scaling.down_with(row, np.array([mean]), features[None]))[0], mean

    def now(self, rows: Longs) -> tuple[Floats, Floats]:
        """Codes (n, width) and means (n,) of rows as they stand now."""
        self._asked += len(rows)
        if self._trained is not None or (self._asked > self._known.rows and self._worth_keeping()):
            codes, means = self.all_now()
            return codes[rows], means[rows]
        return self._mixed(rows, ~self._changed[rows])

    def _worth_keeping(self) -> bool:
        """Whether the codes of all rows take little memory: then they are encoded once, not for every list anew."""
        return self._known.rows * self._network.width <= _MOST_KEPT

    def for_regression(self, rows: Longs) -> tuple[Floats, Floats]:
        """Codes (n, width) and means (n,) of rows as they were trained; of rows that came later, as they stand now.

        The weights of a column are fitted to these, so that they do not depend on what else was asked or rated
        between its ratings.
        """
        return self._mixed(rows, self.was_trained(rows))

    def was_trained(self, rows: npt.NDArray[np.integer]) -> Bools:
        """(n,): whether each row had ratings in the training."""
        trained: Bools = rows < len(self.trained_counts)
        trained[trained] = self.trained_counts[rows[trained]] > 0
        return trained

    def all_now(self) -> tuple[Floats, Floats]:
        """Codes (rows, width) and means (rows,) of every row; kept, and brought up to date where rows changed."""
        if self._trained is None:
            self._trained = self._encode_trained(np.arange(self._known.trained.rows))
        if self._stale:
            if self._current is None:
                self._current, self._current_means = self._trained.copy(), self._scaling.means.copy()
            self._current = grown(self._current, self._known.rows)
            self._current_means = grown(self._current_means, self._known.rows)
            for row in self._stale:
                if self._changed[row]:
                    self._current[row], self._current_means[row] = self._of_row(row)
                else:
                    self._current[row], self._current_means[row] = self._trained[row], self._scaling.means[row]
            self._stale.clear()
        return self._trained if self._current is None else self._current, self._current_means

    def as_trained(self) -> Floats:
        """Codes (rows, width) of every row of the training; not kept if they were not before."""
        kept = self._trained
        return self._encode_trained(np.arange(self._known.trained.rows)) if kept is None else kept

    def _mixed(self, rows: Longs, as_trained: Bools) -> tuple[Floats, Floats]:
        """Some rows as they were trained, the others as they stand now."""
        codes = np.empty((len(rows), self._network.width), np.float32)
        means = np.empty(len(rows), np.float32)
        old = rows[as_trained]
        codes[as_trained] = self._encode_trained(old) if self._trained is None else self._trained[old]
        means[as_trained] = self._scaling.means[old]
        for place in np.flatnonzero(~as_trained).tolist():
            codes[place], means[place] = self._of_row(int(rows[place]))
        return codes, means

    def _of_row(self, row: int) -> tuple[Floats, np.float32]:
        return self.of_ratings(*self._known.row(row), self._features.values[row])

    def _encode_trained(self, rows: Longs) -> Floats:
        codes = np.empty((len(rows), self._network.width), np.float32)
        for first in range(0, len(rows), _CHUNK):
            chosen = rows[first : first + _CHUNK]
            part = self._known.trained.take(chosen)
            scaled = self._scaling.down_with(part, self._scaling.means[chosen], self._features.trained[chosen])
            codes[first : first + _CHUNK] = encode_rows(self._network, scaled)
        return codes


class LocalPart:
    """What a column's ratings of the rows most like a row mean for that row.

    The row is seen as it stands now. Of the rows that a column has rated and that were trained, as they were then, the
    nearest to it count; those that came later are few, and all count.
    """

    def __init__(
        self,
        table: Neighbours,
        alpha: Floats,
        space: CodeSpace,
        known: KnownRatings,
        codes: RowCodes,
        lengths: Callable[[], Floats],
    ) -> None:
        """`alpha` (ratings of the training,): dual coefficients, column by column; `lengths` of the centred codes
        (rows,), as they stand when called.
        """
        self.table = table  # of the rows of the training
        self._alpha, self._space, self._known, self._codes, self._lengths = alpha, space, known, codes, lengths
        self._moved: dict[int, tuple[Ints, Floats]] = {}  # columns that have changed since the training
        self._alpha_by_row: Floats | None = None
        self._directions: Floats | None = None
        self._later: tuple[Longs, Floats] | None = None
        # Rows that have changed since the training, in no order, and what is nearest to each.
        self._places: dict[int, int] = {}
        self._stale: set[int] = set()
        most = table.rows.shape[1]
        self._changed = np.zeros(0, np.int64)
        self._near = Nearest(np.zeros((0, most), np.int32), np.zeros((0, most), np.float32))

    # Changes

    def row_changed(self, row: int) -> None:
        """The row has other ratings or features than before."""
        self._stale.add(row)
        self._later = None

    def column_changed(self, column: int, rows: Ints, alpha: Floats) -> None:
        """The column has rated these rows, with these coefficients."""
        self._moved[column] = (rows, alpha)

    def column_as_trained(self, column: int) -> None:
        """The column is as it was trained again."""
        self._moved.pop(column, None)

    def _settle(self) -> None:
        """Find what is nearest to rows that have changed since the last question."""
        if not self._stale:
            return
        stale = np.array(sorted(self._stale), np.int64)
        self._stale.clear()
        now = stale[self._codes.changed(stale)]
        room = len(self._places) + len(now)
        if room > len(self._changed):
            room += room // 4
            self._changed = grown(self._changed, room)
            self._near = Nearest(grown(self._near.rows, room), grown(self._near.kernel, room))
        for row, direction in zip(now.tolist(), self._space.directions(self._codes.now(now)[0]), strict=True):
            place = self._places.setdefault(row, len(self._places))
            self._changed[place] = row
            self._near.rows[place], self._near.kernel[place] = self.nearest_to(direction)
        for row in stale.tolist():
            if not self._codes.changed(np.array([row]))[0] and row in self._places:
                place, last = self._places.pop(row), len(self._places)
                if place != last:  # the last one takes the place
                    self._changed[place] = self._changed[last]
                    self._places[int(self._changed[last])] = place
                    self._near.rows[place], self._near.kernel[place] = self._near.rows[last], self._near.kernel[last]

    # Questions

    def alpha_of(self, column: int) -> tuple[Ints, Floats]:
        """Rows that a column has rated, and its coefficients there."""
        if column in self._moved:
            return self._moved[column]
        by_column = self._known.trained_columns
        if column >= by_column.rows:
            return _NO_ROWS, _NO_ALPHA
        known = slice(int(by_column.indptr[column]), int(by_column.indptr[column + 1]))
        return by_column.indices[known], self._alpha[known]

    def nearest(self, row: int, direction: Floats) -> Nearest:
        """Of a known row, in its present direction."""
        if not self._codes.changed(np.array([row]))[0]:
            return self.table.of_row(row)
        if row in self._stale or row not in self._places:
            return self.nearest_to(direction)
        place = self._places[row]
        return Nearest(self._near.rows[place], self._near.kernel[place])

    def nearest_to(self, direction: Floats) -> Nearest:
        """Of any row in this direction."""
        if self._directions is None:
            self._directions = self._space.directions(self._codes.as_trained())
        return nearest_to(direction, self._directions, self.table.rows.shape[1], self._codes.trained_counts > 0)

    def of_column(self, rated: Ints, alpha: Floats) -> Floats:
        """(rows,): of a column with these coefficients at the rows that it has rated."""
        self._settle()
        table = self.table
        local = np.zeros(self._known.rows, np.float32)
        old = self._codes.was_trained(rated)
        spread_pulls(table.starts, table.near_to, table.near_kernel, rated[old], alpha[old], local)
        if count := len(self._places):
            dense = np.zeros(self._known.trained.rows, np.float32)
            dense[rated[old]] = alpha[old]
            near = self._near
            local[self._changed[:count]] = (near.kernel[:count] * dense[near.rows[:count]]).sum(1)
        if not old.all():
            codes, _ = self._codes.all_now()
            later = self._space.directions(codes[rated[~old]])
            cosines = codes @ later.T
            cosines -= later @ self._space.centre
            cosines /= self._lengths()[:, None]
            local += local_kernel(cosines) @ alpha[~old]
        return local

    def _kernel_with_rated(self, near: Nearest, direction: Floats) -> Floats:
        """(rows,): the local kernel between a row that is asked about and all that a column may have rated."""
        kernel = np.zeros(self._known.rows, np.float32)
        kernel[near.rows] = near.kernel
        if self._later is None:  # rows whose first rating came after the training
            rated = self._known.changed_rows().astype(np.int64)
            later = rated[~self._codes.was_trained(rated)]
            self._later = later, self._space.directions(self._codes.now(later)[0])
        later, directions = self._later
        kernel[later] = local_kernel(directions @ direction)
        return kernel

    def of_row(self, near: Nearest, direction: Floats) -> Floats:
        """(columns,): of a row with these nearest ones."""
        trained = self._known.trained
        if self._alpha_by_row is None:
            self._alpha_by_row = self._alpha[np.argsort(self._known.trained_columns.indices, kind="stable")]
        local = np.zeros(self._known.columns, np.float32)
        pulls_of_rows(near.rows, near.kernel, trained.indptr, trained.indices, self._alpha_by_row, local)
        if self._moved:
            kernel = self._kernel_with_rated(near, direction)
            for column, (rated, alpha) in self._moved.items():
                local[column] = kernel[rated] @ alpha
        return local

    def at_pairs(self, rows: Ints, columns: Ints) -> Floats:
        """(n,) at pairs."""
        self._settle()
        local = np.zeros(len(rows), np.float32)
        changed = self._codes.changed(rows)
        places = rows.copy()  # in the table, or among what is nearest to changed rows
        places[changed] = [self._places[row] for row in rows[changed].tolist()]
        moved = np.isin(columns, list(self._moved)) | (columns >= self._known.trained_columns.rows)
        asked, among = np.unique(columns[moved], return_inverse=True)
        by_column = self._known.trained_columns
        found = [self.alpha_of(column) for column in asked.tolist()]
        trained = [self._codes.was_trained(rated) for rated, _ in found]
        again = SparseRows(
            np.concatenate([[0], np.cumsum([old.sum() for old in trained], dtype=np.int64)]),
            np.concatenate([_NO_ROWS, *(rated[old] for (rated, _), old in zip(found, trained, strict=True))]),
            np.concatenate([_NO_ALPHA, *(alpha[old] for (_, alpha), old in zip(found, trained, strict=True))]),
            by_column.columns,
        )
        number = columns.copy()  # of the columns of either table
        number[moved] = among
        dense = np.zeros(self._known.trained.rows, np.float32)
        table = Nearest(self.table.rows, self.table.kernel)
        for near, of_rows in ((table, ~changed), (self._near, changed)):
            for given, alpha, of_columns in ((by_column, self._alpha, ~moved), (again, again.values, moved)):
                at = np.flatnonzero(of_rows & of_columns)
                at = at[np.argsort(number[at], kind="stable")]
                part = np.zeros(len(at), np.float32)
                pulls_at_pairs(
                    near.rows, near.kernel, given.indptr, given.indices, alpha, places[at], number[at], dense, part
                )
                local[at] = part
        for place, ((rated, alpha), old) in enumerate(zip(found, trained, strict=True)):
            if not old.all():
                at = np.flatnonzero(moved)[among == place]
                codes, _ = self._codes.all_now()
                later, now = (self._space.directions(codes[some]) for some in (rated[~old], rows[at]))
                local[at] += local_kernel(now @ later.T) @ alpha[~old]
        return local

    def between(self, rows: Ints, directions: Floats, rated: Ints) -> Floats:
        """(m, n): the local kernel between rows that are asked about and rated ones, as predictions see it."""
        cut = np.empty((len(rows), len(rated)), np.float32)
        for place, row in enumerate(rows.tolist()):
            cut[place] = self._kernel_with_rated(self.nearest(row, directions[place]), directions[place])[rated]
        return cut
