"""Rows with made-up codes, columns that rate them, and the decoder's kernel in plain numpy."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows
from cofill.models.cfn.codes import CodeSpace, EncodedRows
from cofill.models.cfn.gp import KernelInputs, KernelParams, RatedColumns
from cofill.models.slopes import FeatureRegression

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

WIDTH, DIRECTIONS = 6, 4
AMPLITUDES = KernelParams(noise=0.25, bias=0.1, taste=0.4, cosine=0.3, local=0.5, half=3.0, mean=0.6, features=0.0)


def some_space(seed: int = 0, width: int = WIDTH, features: int = 0) -> CodeSpace:
    rng = np.random.default_rng([seed, 1])
    return CodeSpace.of(
        rng.normal(0, 0.3, width + 1).astype(np.float32),
        FeatureRegression(rng.normal(0, 0.3, (features + 1, width + 1)).astype(np.float32)),
        rng.normal(0, 0.4, (width + 1, DIRECTIONS)),
        rng.normal(0, 0.2, width).astype(np.float32),
    )


def some_codes(count: int, seed: int = 0, width: int = WIDTH) -> Floats:
    return np.tanh(np.random.default_rng([seed, 2]).normal(size=(count, width))).astype(np.float32)


def some_seen(space: CodeSpace, count: int, seed: int = 0) -> KernelInputs:
    shrinkage = np.random.default_rng([seed, 3]).uniform(0, 1, count).astype(np.float32)
    return KernelInputs.of(space, some_codes(count, seed, len(space.centre)), shrinkage)


def plain_kernel(space: CodeSpace, amplitudes: KernelParams, some: KernelInputs, others: KernelInputs) -> Doubles:
    """bias + r_i r_j (taste a_i . a_j + cosine d_i . d_j + local exp(8 (d_i . d_j - 1))), pair by pair."""
    onto = space.basis.astype(np.float64) @ space.basis.T
    kernel = np.empty((len(some.shrinkage), len(others.shrinkage)))

    def parts(seen: KernelInputs, place: int) -> tuple[Doubles, Doubles, float]:
        code = seen.codes[place].astype(np.float64)
        centred = onto @ (code - space.centre)
        return np.append(code, 1) @ space.factor, centred / np.linalg.norm(centred), float(seen.shrinkage[place])

    for i in range(len(kernel)):
        a, d, r = parts(some, i)
        for j in range(kernel.shape[1]):
            b, e, s = parts(others, j)
            near = np.exp(8 * (d @ e - 1))
            inner = amplitudes.taste * (a @ b) + amplitudes.cosine * (d @ e) + amplitudes.local * near
            kernel[i, j] = amplitudes.bias + r * s * inner
    return kernel


def no_long_rows(rows: int, width: int = WIDTH) -> EncodedRows:
    """Rows that are always read without the rating of a column."""
    nothing = np.zeros(rows, np.int64)
    return EncodedRows(np.zeros((rows, width), np.float32), nothing.astype(np.float32), nothing, nothing > 0)


@dataclass(frozen=True)
class Rated:
    """Columns that have rated rows; every rating has a code of its own, as if it was left out of the row's."""

    by_column: SparseRows
    codes: Floats  # (ratings, width)
    means: Floats  # (ratings,)
    counts: npt.NDArray[np.int64]  # (ratings,)
    described: npt.NDArray[np.bool_]

    def places(self, rows: Ints, columns: Ints) -> npt.NDArray[np.int64]:
        found = []
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            start = int(self.by_column.indptr[column])
            inside = np.flatnonzero(self.by_column.row(column)[0] == row)
            found.append(start + int(inside[0]) if len(inside) else 0)  # what is padded asks for anything
        return np.array(found, np.int64)

    def left_out(self, rows: Ints, columns: Ints, ratings: Floats) -> EncodedRows:
        at = self.places(rows, columns)
        return EncodedRows(self.codes[at], self.means[at], self.counts[at], self.described[at])

    def columns(
        self, space: CodeSpace, expected: Callable[[npt.NDArray[np.int64]], tuple[Floats, Floats]]
    ) -> RatedColumns:
        whole = no_long_rows(self.by_column.columns)
        values = self.by_column.values
        return RatedColumns(self.by_column, values, space, whole, self.left_out, expected, no_interactions)


def no_interactions(rows: Ints, columns: npt.NDArray[np.int64]) -> Floats:
    return np.zeros(rows.shape, np.float32)


def some_ratings(lengths: list[int], rows: int, seed: int = 0, width: int = WIDTH) -> Rated:
    """Columns with so many ratings each."""
    rng = np.random.default_rng([seed, 4])
    indices = [np.sort(rng.choice(rows, length, replace=False)) for length in lengths]
    total = sum(lengths)
    by_column = SparseRows(
        np.cumsum([0, *lengths]).astype(np.int64),
        np.concatenate([*indices, np.empty(0)]).astype(np.int32),
        rng.normal(size=total).astype(np.float32),
        rows,
    )
    return Rated(
        by_column,
        some_codes(total, seed, width),
        rng.normal(0, 0.2, total).astype(np.float32),
        rng.integers(0, 30, total),
        rng.random(total) < 0.5,
    )
