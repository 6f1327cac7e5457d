"""The local part of the decoder: what a column's ratings of the rows most like a row mean for that row."""

from collections.abc import Callable

import numpy as np

from cofill.data.described import SideFeatures
from cofill.models.cfn.gp import CodeSpace, local_kernel
from cofill.models.cfn.neighbours import (
    Nearest,
    Neighbours,
    nearest_to,
    pulls_at_pairs,
    pulls_of_rows,
    spread_pulls,
)
from cofill.models.cfn.row_codes import RowCodes
from cofill.models.known import KnownRatings
from cofill.models.matrix import Floats, Ints, Longs

_NO_PULL = np.empty(0, np.float32)


class LocalPart:
    """Between a row that is asked about, as it stands now, and rows that a column has rated.

    Of those that were trained, as they were then, the nearest to the row count; those that came later are few, and all
    count.
    """

    def __init__(
        self,
        table: Neighbours,
        pull: Floats,
        space: CodeSpace,
        known: KnownRatings,
        codes: RowCodes,
        features: SideFeatures,
        lengths: Callable[[], Floats],
    ) -> None:
        """`pull` (ratings of the training,) column by column; `features` of the rows; `lengths` of their centred codes
        (rows,), as they stand when called.
        """
        self.table = table  # of the rows of the training
        self._pull, self._space, self._known, self._codes = pull, space, known, codes
        self._features, self._lengths = features, lengths
        self._rated = known.trained_counts() > 0
        self._pulls: dict[int, tuple[Ints, Floats]] = {}  # of columns that have changed since the training
        self._pull_by_row: Floats | None = None
        self._directions: Floats | None = None
        self._nearest_of_changed: dict[int, Nearest] = {}
        self._later: tuple[Longs, Floats] | None = None

    # Changes

    def row_changed(self, row: int) -> None:
        """The row has other ratings or features than before."""
        self._nearest_of_changed.pop(row, None)
        self._later = None

    def column_changed(self, column: int, rows: Ints, pull: Floats) -> None:
        """The column has rated these rows, with this pull on rows like them."""
        self._pulls[column] = (rows, pull)

    def column_as_trained(self, column: int) -> None:
        """The column is as it was trained again."""
        self._pulls.pop(column, None)

    # Questions

    def pull_of(self, column: int) -> tuple[Ints, Floats]:
        """Rows that a column has rated, and its pull on rows like these."""
        if column in self._pulls:
            return self._pulls[column]
        by_column = self._known.trained_columns
        if column >= by_column.rows:
            return np.empty(0, np.int32), _NO_PULL
        known = slice(int(by_column.indptr[column]), int(by_column.indptr[column + 1]))
        return by_column.indices[known], self._pull[known]

    def _trained_directions(self) -> Floats:
        """(rows of the training, width)"""
        if self._directions is None:
            self._directions = self._space.directions(self._codes.as_trained()[0])
        return self._directions

    def nearest(self, row: int, direction: Floats) -> Nearest:
        """Of a row of the matrix, in its present direction."""
        if self._codes.is_as_trained(row):
            return self.table.of_row(row)
        if row not in self._nearest_of_changed:
            self._nearest_of_changed[row] = self.nearest_now(direction)
        return self._nearest_of_changed[row]

    def nearest_now(self, direction: Floats) -> Nearest:
        """Of any row in this direction."""
        return nearest_to(direction, self._trained_directions(), self.table.rows.shape[1], self._rated)

    def _changed_rows(self) -> Longs:
        """Rows that are not as they were trained, or that the training did not know."""
        changed = {*self._known.changed_rows().tolist(), *self._features.later()[0].tolist()}
        changed |= set(range(self._known.trained.rows, self._known.rows))
        return np.array([row for row in sorted(changed) if not self._codes.is_as_trained(row)], np.int64)

    def of_column(self, rated: Ints, pull: Floats) -> Floats:
        """(rows,): of a column with this pull on rows like those that it has rated."""
        table = self.table
        local = np.zeros(self._known.rows, np.float32)
        old = self._codes.was_trained(rated.astype(np.int64))
        spread_pulls(table.starts, table.near_to, table.near_kernel, rated[old], pull[old], local)
        changed = self._changed_rows()
        if len(changed):
            dense = np.zeros(self._known.trained.rows, np.float32)
            dense[rated[old]] = pull[old]
            near = self._nearest_of_all(changed)
            local[changed] = (near.kernel * dense[near.rows]).sum(1)
        if not old.all():
            codes, _ = self._codes.all_now()
            later = self._space.directions(codes[rated[~old]])
            cosines = codes @ later.T
            cosines -= later @ self._space.centre
            cosines /= self._lengths()[:, None]
            local += local_kernel(cosines) @ pull[~old]
        return local

    def _nearest_of_all(self, changed: Longs) -> Nearest:
        """(n, m) both, of rows that are not as they were trained."""
        unknown = np.array([row for row in changed.tolist() if row not in self._nearest_of_changed], np.int64)
        if len(unknown):
            directions = self._space.directions(self._codes.now(unknown)[0])
            for place, row in enumerate(unknown.tolist()):
                self.nearest(row, directions[place])
        found = [self._nearest_of_changed[row] for row in changed.tolist()]
        return Nearest(np.stack([near.rows for near in found]), np.stack([near.kernel for near in found]))

    def _kernel_with_rated(self, near: Nearest, direction: Floats) -> Floats:
        """(rows,): the local kernel between a row that is asked about and all that a column may have rated."""
        kernel = np.zeros(self._known.rows, np.float32)
        kernel[near.rows] = near.kernel
        later, directions = self._later_rows()
        kernel[later] = local_kernel(directions @ direction)
        return kernel

    def _later_rows(self) -> tuple[Longs, Floats]:
        """Rows (n,) whose first rating came after the training, and their directions (n, width)."""
        if self._later is None:
            changed = self._known.changed_rows().astype(np.int64)
            later = changed[~self._codes.was_trained(changed)]
            self._later = later, self._space.directions(self._codes.now(later)[0])
        return self._later

    def of_row(self, near: Nearest, direction: Floats) -> Floats:
        """(columns,): of a row with these nearest ones."""
        trained = self._known.trained
        if self._pull_by_row is None:
            self._pull_by_row = self._pull[np.argsort(self._known.trained_columns.indices, kind="stable")]
        local = np.zeros(self._known.columns, np.float32)
        pulls_of_rows(near.rows, near.kernel, trained.indptr, trained.indices, self._pull_by_row, local)
        if self._pulls:
            kernel = self._kernel_with_rated(near, direction)
            for column, (rated, pull) in self._pulls.items():
                local[column] = kernel[rated] @ pull
        return local

    def at_pairs(self, row: Ints, column: Ints, distinct: Ints, place: Longs) -> Floats:
        """(n,) at pairs; `place` (n,) says which of the distinct rows each has."""
        table, trained = self.table, self._known.trained
        local = np.zeros(len(row), np.float32)
        changed = np.isin(distinct, self._changed_rows())[place]
        moved = np.isin(column, list(self._pulls)) | (column >= self._known.trained_columns.rows)
        plain = np.flatnonzero(~changed & ~moved)
        plain = plain[np.argsort(column[plain], kind="stable")]
        by_column = self._known.trained_columns
        found = np.zeros(len(plain), np.float32)
        pulls_at_pairs(
            table.rows, table.kernel, by_column.indptr, by_column.indices, self._pull,
            row[plain], column[plain], np.zeros(trained.rows, np.float32), found,
        )  # fmt: skip
        local[plain] = found
        others = np.flatnonzero(changed | moved)
        for one in np.unique(column[others]).tolist():
            chosen = others[column[others] == one]
            local[chosen] = self.of_column(*self.pull_of(one))[row[chosen]]
        return local

    def between(self, rows: Ints, directions: Floats, rated: Ints) -> Floats:
        """(m, n): the local kernel between rows that are asked about and rated ones, as predictions see it."""
        cut = np.empty((len(rows), len(rated)), np.float32)
        for place, row in enumerate(rows.tolist()):
            direction = directions[place]
            cut[place] = self._kernel_with_rated(self.nearest(row, direction), direction)[rated]
        return cut
