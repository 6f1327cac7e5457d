"""The known ratings row by row, in either orientation."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class SparseRows:
    """The known ratings row by row (CSR). A value of exactly 0 is known; what is not listed is unknown."""

    indptr: npt.NDArray[np.int64]
    """(rows + 1,): row i owns the entries from indptr[i] to indptr[i + 1]."""
    indices: npt.NDArray[np.int32]
    """(nnz,): the column of each entry, ascending within a row."""
    values: npt.NDArray[np.float32]
    """(nnz,): the rating of each entry."""
    columns: int
    """How many columns the matrix has, known or not."""

    @property
    def rows(self) -> int:
        """How many rows the matrix has, empty ones included."""
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """How many ratings are known."""
        return len(self.indices)

    def row(self, i: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Columns and values of row `i`, both (known in that row,), as views."""
        known = slice(int(self.indptr[i]), int(self.indptr[i + 1]))
        return self.indices[known], self.values[known]

    def take(self, chosen: npt.NDArray[np.int64]) -> "SparseRows":
        """The chosen rows, in that order."""
        counts = self.counts()[chosen]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        entries = np.repeat(self.indptr[chosen] - indptr[:-1], counts) + np.arange(indptr[-1])
        return SparseRows(indptr, self.indices[entries], self.values[entries], self.columns)

    def counts(self) -> npt.NDArray[np.int64]:
        """(rows,): how many ratings each row knows."""
        return np.diff(self.indptr)

    def row_sums(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """(rows,): the sums of some value (nnz,) of each entry, row by row; 0 where a row is empty."""
        sums = np.zeros(self.rows)
        filled = self.counts() > 0  # reduceat has no notion of an empty row
        if filled.any():
            sums[filled] = np.add.reduceat(values, self.indptr[:-1][filled], dtype=np.float64)
        return sums

    def transpose(self) -> "SparseRows":
        """The same ratings column by column, in one counting sort; explicit zeros stay."""
        from scipy.sparse import csr_array

        csr = csr_array((self.values, self.indices, self.indptr), shape=(self.rows, self.columns))
        csc = csr.tocsc()
        return SparseRows(
            indptr=np.asarray(csc.indptr, np.int64),
            indices=np.asarray(csc.indices, np.int32),
            values=np.asarray(csc.data, np.float32),
            columns=self.rows,
        )
