"""Many sparse columns into few dense ones: truncated singular value decomposition."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = npt.NDArray[np.float32]
# Up to this many rows or columns, all products of two of them are found at once; beyond, vectors one by one.
SMALL_SIDE = 1000
# Directions that are weaker than this, relative to the strongest, are rounding errors.
WEAKEST = 1e-5


def reduced_base(matrix: "csr_array[Any, tuple[int, int]]", to: int) -> Floats:
    """(terms, at most `to`): the base B such that `matrix` (ids, terms) @ B are the reduced rows.

    With the decomposition P D Q' they are P D^1/2, so B is Q D^-1/2, up to one factor: the mean squared length
    of the rows that have anything is 1. Of each direction in Q the entry of the largest magnitude is positive.
    """
    if not matrix.nnz:
        return np.zeros((matrix.shape[1], 0), np.float32)
    strengths, directions = _decomposed(matrix.astype(np.float64), to)
    largest = np.argmax(np.abs(directions), axis=0)
    signs = np.where(directions[largest, np.arange(len(strengths))] < 0, -1.0, 1.0)
    base = directions * (signs / np.sqrt(strengths))
    rows = matrix @ base
    filled = np.count_nonzero(np.diff(matrix.indptr))
    length = np.sqrt(np.square(rows).sum() / filled)
    return np.ascontiguousarray(base / length, dtype=np.float32)


def _decomposed(matrix: Any, to: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The greatest singular values (k,), descending, and their right vectors (terms, k)."""
    ids, terms = matrix.shape
    wide = terms > ids  # the shorter side is decomposed, and the other follows from it
    squares, vectors = _eigenvectors(matrix if wide else matrix.T.tocsr(), to)
    strengths = np.sqrt(np.maximum(squares, 0.0))
    kept = np.flatnonzero(strengths > WEAKEST * strengths[0])
    strengths, vectors = strengths[kept], vectors[:, kept]
    return strengths, (matrix.T @ vectors) / strengths if wide else vectors


def _eigenvectors(matrix: Any, to: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The greatest eigenvalues (k,) of the products of all rows with each other, descending, and vectors (rows, k)."""
    rows = matrix.shape[0]
    if rows <= SMALL_SIDE:
        squares, vectors = np.linalg.eigh((matrix @ matrix.T).toarray())
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        across = matrix.T.tocsr()
        products: Any = LinearOperator((rows, rows), matvec=lambda row: matrix @ (across @ row), dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(rows)
        squares, vectors = eigsh(products, k=min(to, rows - 1), v0=start)
    order = np.argsort(-squares, kind="stable")[:to]
    return squares[order], vectors[:, order]
