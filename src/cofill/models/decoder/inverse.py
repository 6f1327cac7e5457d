"""Inverses of many small positive definite matrices, by Cholesky factors."""

from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.compiling import compiled

Matrices = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# Rows of a matrix up to which loops of our own are quicker than a call of LAPACK, which is made for larger ones.
_SMALL = 40
_ROUNDING = 1.2e-7  # of single precision


class Inverse:
    """K^-1 of positive definite K (B, n, n), for as many right sides as are asked for.

    In double precision where rounding would spoil single.
    """

    def __init__(self, matrices: Matrices) -> None:
        self._type = matrices.dtype
        self._factors, failed = _factors(matrices)
        if failed.any():
            exact = matrices.astype(np.float64)
            # Rounding has changed the kernel by as much: where it did harm, it is taken for noise.
            diagonals = np.einsum("bii->bi", exact)
            diagonals += (failed * (len(exact[0]) * _ROUNDING) * diagonals.max(1))[:, None]
            self._factors, failed = _factors(exact)
            if failed.any():
                raise np.linalg.LinAlgError("a kernel is not positive definite")

    def times(self, right: Matrices) -> Any:
        """(B, n, m) -> (B, n, m)"""
        sides: Any = np.array(right.transpose(0, 2, 1), self._factors.dtype, order="C")
        _solve(self._factors, sides)
        return sides.transpose(0, 2, 1).astype(self._type, copy=False)

    def explained(self, between: Matrices) -> Doubles:
        """(B, m, n) -> (B, m): b' K^-1 b of each b."""
        sides: Any = np.array(between, self._factors.dtype, order="C")
        if sides.shape[2] <= _SMALL:
            _solve_lower(self._factors, sides)
        else:
            from scipy.linalg import get_blas_funcs

            solve: Any = get_blas_funcs("trsm", (sides,))
            for at, factor in enumerate(self._factors):
                # As above: our rows are its columns, and L x = b is U' x = b there.
                sides[at] = solve(1.0, factor.T, sides[at].T, lower=False, trans_a=1).T
        return np.asarray(np.einsum("bmn,bmn->bm", sides, sides, dtype=np.float64))


def _factors(matrices: Matrices) -> tuple[Matrices, Flags]:
    """Lower Cholesky factors (B, n, n), with anything above their diagonals, and which of them (B,) there are not."""
    factors: Any = np.array(matrices, order="C")
    failed: Flags = np.zeros(len(factors), np.bool_)
    if factors.shape[1] <= _SMALL:
        _factor_small(factors, failed)
        return factors, failed
    from scipy.linalg import get_lapack_funcs

    factorise: Any = get_lapack_funcs("potrf", (factors,))
    for at, factor in enumerate(factors):
        # Rows of ours are columns of LAPACK's: our lower factor is its upper one.
        failed[at] = factorise(factor.T, lower=False, clean=False, overwrite_a=True)[1] != 0
    return factors, failed


@compiled
def _factor_small(matrices: Matrices, failed: Flags) -> None:
    """In place; a matrix that is not positive definite is left half done."""
    for b in range(len(matrices)):
        a = matrices[b]
        for i in range(len(a)):
            row = a[i]
            for j in range(i):
                other = a[j]
                left = row[j]
                for k in range(j):
                    left -= row[k] * other[k]
                row[j] = left / other[j]
            left = row[i]
            for k in range(i):
                left -= row[k] * row[k]
            if not left > 0:
                failed[b] = True
                break
            row[i] = np.sqrt(left)


@compiled
def _solve_lower(factors: Matrices, sides: Matrices) -> None:
    """In place: L x = side, for (B, n, n) and (B, m, n)."""
    for b in range(len(factors)):
        factor = factors[b]
        for m in range(sides.shape[1]):
            x = sides[b, m]
            for i in range(len(x)):
                row, left = factor[i], x[i]
                for k in range(i):
                    left -= row[k] * x[k]
                x[i] = left / row[i]


@compiled
def _solve(factors: Matrices, sides: Matrices) -> None:
    """In place: L L^T x = side, for (B, n, n) and (B, m, n)."""
    _solve_lower(factors, sides)
    for b in range(len(factors)):
        factor = factors[b]
        for m in range(sides.shape[1]):
            x = sides[b, m]
            for i in range(len(x) - 1, -1, -1):
                row = factor[i]
                solved = x[i] / row[i]
                x[i] = solved
                for k in range(i):
                    x[k] -= row[k] * solved
