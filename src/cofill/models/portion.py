"""The portion of a matrix that this process trains on: all rows, and all columns or some of them."""

from dataclasses import dataclass, field

import numpy as np

from cofill.arrays import Longs
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.rng import Keys, draws_of


@dataclass(frozen=True, eq=False)
class Portion:
    """What belongs to rows is the same in every process; what belongs to columns is where the column is.

    Whatever is summed over columns, or over ratings, is summed over all processes by `exchange`. Draws are made by
    the keys of rows and columns.
    """

    row_keys: Keys  # (rows,)
    column_keys: Keys  # (own columns,)
    columns: int  # of all processes
    exchange: Exchange = field(default=ALONE)

    @classmethod
    def alone(cls, rows: int, columns: int) -> "Portion":
        """One process, for a matrix whose rows and columns have no ids but their numbers."""
        keys = draws_of(np.uint64(0), np.arange(max(rows, columns), dtype=np.uint64))
        return cls(keys[:rows], keys[:columns], columns)

    @classmethod
    def of(cls, rows: SparseRows) -> "Portion":
        return cls.alone(rows.rows, rows.columns)

    def row_counts(self, rows: SparseRows) -> Longs:
        """(rows,): how many ratings each row has, in all processes together."""
        return self.exchange.sum_(rows.counts())
