"""Many columns at once: their weights in closed form, how uncertain they are of rows, and prediction intervals.

The same as `gp.Posterior`, in batches of columns with about as many ratings, each padded to the longest. Directions of
codes are taken along the basis of the code space here, which is shorter than codes are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.biases import Biases
from cofill.models.cfn.codes import LeaveOneOutCodes
from cofill.models.cfn.gp import (
    MOST_LOCAL,
    SHORT,
    CodeSpace,
    ColumnWeights,
    Expected,
    KernelParams,
    Posterior,
    in_primal,
    local_kernel,
)
from cofill.models.cfn.scaling import Scaling
from cofill.threads import on_all_cores

Matrices = Floats | Doubles
Counts = npt.NDArray[np.integer]

# Numbers in a batch of square matrices: a batch of short columns is large enough to be worth a call, and
# that of long ones small enough to stay in the processor's cache.
_NUMBERS = 400_000
_CODE_NUMBERS = 1_000_000
_EXPECTED_AT_ONCE = 4096  # columns
_ROUNDING = 1.2e-7  # of single precision
MOST_READ = 256  # ratings of a column that tell how uncertain it is
COVERED = 0.9
_NORMAL_QUANTILE = 1.6449
# A prior on the coefficients keeps few validation ratings from being overfitted; they are of the order of one.
_PRIOR_WIDTH = 0.5


class ColumnBatch(NamedTuple):
    """Columns with about as many ratings, and the places of these among all ratings, column by column."""

    columns: Longs  # (B,)
    places: Longs  # (B, n), padded with -1

    @property
    def mask(self) -> Bools:
        return self.places >= 0


def batches(
    indptr: Longs, columns: Longs, width: int, asked: int = 0, most: int | None = None
) -> Iterator[ColumnBatch]:
    """The columns in batches, long ones first; with at most so many ratings of each.

    About so many rows are `asked` about beside those that they rated. Short columns are never with others.
    """
    counts = np.diff(indptr)[columns]
    taken = counts if most is None else np.minimum(counts, most)
    order = np.argsort(-taken, kind="stable")
    for part in np.split(order, [int((counts > SHORT).sum())]):
        first = 0
        while first < len(part):
            longest = max(int(taken[part[first]]), 1)
            each = max(longest * longest / _NUMBERS, max(longest, asked) * width / _CODE_NUMBERS)
            chosen = columns[part[first : first + max(int(1 / each), 1)]]
            yield ColumnBatch(chosen, entries(indptr, chosen, most))
            first += len(chosen)


def entries(indptr: Longs, columns: Longs, most: int | None = None) -> Longs:
    """(B, n): of each column its entries, or the `most` of them that are evenly spaced; padded with -1."""
    counts = np.diff(indptr)[columns][:, None]
    taken = counts if most is None else np.minimum(counts, most)
    turn = np.arange(int(taken.max(initial=0)))
    return np.where(turn < taken, indptr[columns][:, None] + turn * counts // np.maximum(taken, 1), -1)


Projected = tuple[Floats, Floats]
"""Rows of each column of a batch along the factor (B, n, directions), and their directions (B, n, r)."""


class BatchRead(NamedTuple):
    """What is known of the rows that each column of a batch has rated, or is asked about."""

    projected: Projected
    said: Floats  # (B, n): what is expected of the column by its features, of its mean's share 1 and of shrinkage 1
    counts: Floats  # (B, n): ratings of the rows
    described: Bools  # (B, n)
    targets: Floats  # (B, n): scaled, less the deviations of the rows and the expected bias of the column
    mask: Bools  # (B, n): padded places are at the end
    interactions: Floats  # (B, n): what features of the rows and the column say together, scaled

    def shrinkage(self, amplitudes: KernelParams) -> Floats:
        """(B, n), 0 in padded places."""
        return amplitudes.shrinkage(self.counts, self.described) * self.mask


@dataclass(frozen=True)
class RatedColumns:
    """The ratings of columns, and what tells how the kernel sees the rows that they have rated."""

    by_column: SparseRows
    scaled: Floats  # (ratings,): scaled, with nothing taken off
    space: CodeSpace
    # Rows without their ratings of columns: a `codes.LeaveOneOut`.
    left_out: Callable[[Ints, Ints, Floats], LeaveOneOutCodes]
    expected: Callable[[Longs], tuple[Floats, Floats]]  # weights (n, width + 1), biases (n,) of columns by features
    # Of rows (..., n) and columns (...), scaled: what their features say together.
    interactions: Callable[[Ints, Longs], Floats]

    def read(self, batch: ColumnBatch) -> BatchRead:
        mask = batch.mask
        shape = mask.shape
        places = np.maximum(batch.places, 0).ravel()
        columns = np.repeat(batch.columns, shape[1]).astype(np.int32)
        without = self.left_out(self.by_column.indices[places], columns, self.by_column.values[places])
        along, directions = self.space.projected(without.codes)
        weights, biases = self.expected(batch.columns)
        targets = (self.scaled[places] - without.means).reshape(shape) - biases[:, None]
        return BatchRead(
            (along.reshape(*shape, -1), directions.reshape(*shape, -1)),
            said_by(weights, without.codes.reshape(*shape, -1)),
            without.counts.astype(np.float32).reshape(shape),
            without.described.reshape(shape),
            np.where(mask, targets, np.float32(0)),
            mask,
            self.interactions(self.by_column.indices[places].reshape(shape), batch.columns) * mask,
        )

    def solved_alone(self, column: int, amplitudes: KernelParams) -> Posterior:
        """Of a column with very many ratings, in double precision."""
        rows, ratings = self.by_column.row(column)
        without = self.left_out(rows, np.full(len(rows), column, np.int32), ratings)
        shrinkage = amplitudes.shrinkage(without.counts, without.described)
        seen = self.space.seen(without.codes, shrinkage)
        weights, biases = self.expected(np.array([column]))
        start = int(self.by_column.indptr[column])
        targets = self.scaled[start : start + len(rows)] - without.means
        about = Expected(weights[0], float(biases[0]), self.interactions(rows[None], np.array([column]))[0])
        return Posterior(self.space, amplitudes, seen, targets, about)


def said_by(weights: Floats, codes: Floats) -> Floats:
    """(B, n): what weights (B, width + 1) say of codes (B, n, width)."""
    said: Floats = (codes @ weights[:, :-1, None])[:, :, 0] + weights[:, -1:]
    return said


def solve_columns(
    data: RatedColumns,
    amplitudes: KernelParams,
    share_done: Callable[[float], None] | None = None,
    *,
    only: Bools | None = None,
) -> ColumnWeights:
    """Of every column, or `only` of some (columns,)."""
    by_column, space = data.by_column, data.space
    columns, (width, directions) = by_column.rows, space.basis.shape
    solved = ColumnWeights(
        np.empty((columns, width + 1), np.float32),
        np.zeros((columns, directions), np.float32),
        np.empty(columns, np.float32),
        np.zeros(by_column.nnz, np.float32),
    )
    for first in range(0, columns, _EXPECTED_AT_ONCE):
        some = np.arange(first, min(first + _EXPECTED_AT_ONCE, columns))
        weights, solved.bias[some] = data.expected(some)
        np.multiply(np.float32(amplitudes.mean), weights, out=solved.linear[first : first + len(some)])
    counts = by_column.counts() if only is None else by_column.counts() * only
    primal = [in_primal(amplitudes.for_column(count), count, space) for count in range(int(counts.max(initial=0)) + 1)]
    alone = (counts > MOST_LOCAL) | np.array(primal, np.bool_)[counts]
    whole, done = max(float((counts.astype(np.float64) ** 1.5).sum()), 1.0), 0.0

    def told(parts: Iterable[ColumnBatch]) -> Iterator[ColumnBatch]:
        nonlocal done
        for batch in parts:
            done += float((counts[batch.columns].astype(np.float64) ** 1.5).sum())
            if share_done is not None:
                share_done(min(done / whole, 1.0))
            yield batch

    def work_alone(batch: ColumnBatch) -> None:
        column = int(batch.columns[0])
        found = data.solved_alone(column, amplitudes.for_column(int(counts[column]))).weights()
        solved.linear[column], solved.cosine[column], solved.bias[column] = found[:3]
        solved.alpha[batch.places[0]] = found.alpha

    def work(batch: ColumnBatch) -> None:
        own, rated = amplitudes.for_column(batch.places.shape[1]), data.read(batch)
        inside = KernelParts.between(rated.projected, rated.projected, local=own.local > 0)
        _, shrinkage, alpha = solved_batch(inside, rated, own)
        weighted = alpha * shrinkage
        along, directions = ((weighted[:, None] @ part)[:, 0] for part in rated.projected)
        at, mask = batch.columns, batch.mask
        solved.linear[at] += np.float32(own.taste) * along @ space.factor.T
        solved.cosine[at] = np.float32(own.cosine) * directions
        solved.bias[at] += np.float32(own.bias) * alpha.sum(1)
        solved.alpha[batch.places[mask]] = np.float32(own.local) * weighted[mask]

    indptr = by_column.indptr
    on_all_cores(
        work_alone, told(ColumnBatch(at, entries(indptr, at)) for at in np.flatnonzero(alone & (counts > 0))[:, None])
    )
    on_all_cores(work, told(batches(indptr, np.flatnonzero(~alone & (counts > 0)), width)))
    return solved


# The kernel between the rows of each column of a batch


class KernelParts(NamedTuple):
    """What amplitudes are multiplied by: between some rows and others of each column, (B, m, n)."""

    taste: Floats
    cosine: Floats
    near: Floats  # the local kernel; where there is none, anything

    @classmethod
    def between(cls, some: Projected, others: Projected, *, local: bool) -> Self:
        taste, cosine = (np.matmul(one, other.transpose(0, 2, 1)) for one, other in zip(some, others, strict=True))
        return cls(taste, cosine, local_kernel(cosine) if local else cosine)

    def combined(
        self, own: KernelParams, shrinkage: Floats, others: Floats, mask: Bools, *, noise: bool = False
    ) -> Floats:
        """(B, m, n): the kernel between rows with such shrinkage, and 0 where the others are padded.

        With noise it is that between the same rows, (B, n, n): 0 above the diagonal, and 1 on it where it is padded.
        """
        out = np.empty_like(self.taste)
        _combine(
            self.taste, self.cosine, self.near, shrinkage, others, mask.sum(1), np.float32(own.bias),
            np.float32(own.taste), np.float32(own.cosine), np.float32(own.local),
            np.float32(own.noise if noise else 0.0), out,
        )  # fmt: skip
        return out


def prior_mean(rows: BatchRead, own: KernelParams, shrinkage: Floats) -> Floats:
    """(B, n): what is expected of columns at rows, beside their biases."""
    found: Floats = np.float32(own.mean) * shrinkage * rows.said + np.float32(own.interactions) * rows.interactions
    return found


def solved_batch(inside: KernelParts, rated: BatchRead, own: KernelParams) -> tuple[Matrices, Floats, Floats]:
    """The factors of the kernel K between the rows that columns have rated, the shrinkage of these rows (B, n), and for
    each K^-1 times what is not expected of it (B, n).
    """
    shrinkage = rated.shrinkage(own)
    factors = cholesky(inside.combined(own, shrinkage, shrinkage, rated.mask, noise=True))
    left = rated.targets - prior_mean(rated, own, shrinkage)
    return factors, shrinkage, times_inverse(factors, left[:, :, None])[:, :, 0]


@compiled
def _combine(
    taste: Floats, cosine: Floats, near: Floats, shrinkage: Floats, others: Floats, lengths: Longs,
    of_bias: np.float32, of_taste: np.float32, of_cosine: np.float32, of_local: np.float32, noise: np.float32,
    out: Floats,
) -> None:  # fmt: skip
    """In one pass over the parts. With noise it is that between the same rows, of which half is enough."""
    for b in range(len(taste)):
        length = lengths[b]
        for i in range(taste.shape[1]):
            mask = length
            if noise > 0:
                mask = i + 1 if i < length else 0
            own, other = shrinkage[b, i], others[b]
            taste_i, cosine_i, near_i, out_i = taste[b, i], cosine[b, i], near[b, i], out[b, i]
            for j in range(mask):
                inner = of_taste * taste_i[j] + of_cosine * cosine_i[j] + of_local * near_i[j]
                out_i[j] = of_bias + own * other[j] * inner
            for j in range(mask, len(out_i)):
                out_i[j] = 0
            if noise > 0:
                out_i[i] = out_i[i] + noise if i < length else np.float32(1)


def cholesky(grams: Matrices) -> Matrices:
    """Lower factors of positive definite matrices (B, n, n), with anything above their diagonals; in double precision
    where rounding would spoil single.
    """
    from scipy.linalg import get_lapack_funcs

    factors: Any = grams.copy()
    factorise: Any = get_lapack_funcs("potrf", (factors,))  # several times as quick as np.linalg.cholesky
    # Rows of ours are columns of LAPACK's: our lower factor is its upper one.
    failed = [factorise(factor.T, lower=False, clean=False, overwrite_a=True)[1] != 0 for factor in factors]
    if not any(failed):
        return np.asarray(factors)
    if grams.dtype == np.float64:
        raise np.linalg.LinAlgError("a kernel is not positive definite")
    exact = grams.astype(np.float64)
    diagonals = np.einsum("bii->bi", exact)
    # Rounding has changed the kernel by as much: where it did harm, it is taken for noise.
    diagonals += (np.array(failed) * (grams.shape[1] * _ROUNDING) * diagonals.max(1))[:, None]
    return cholesky(exact)


def times_inverse(factors: Matrices, right: Floats) -> Floats:
    """K^-1 right, (B, n, m), of the matrices K that have these factors."""
    sides: Any = np.array(right.transpose(0, 2, 1), factors.dtype, order="C")
    _solve_lower(factors, sides)
    _solve_upper(factors, sides)
    return np.asarray(sides.transpose(0, 2, 1), np.float32)


def explained_by(factors: Matrices, between: Floats) -> Doubles:
    """(B, m, n) -> (B, m): b' K^-1 b of each b."""
    sides: Any = np.array(between, factors.dtype, order="C")
    _solve_lower(factors, sides)
    return np.asarray(np.einsum("bmn,bmn->bm", sides, sides, dtype=np.float64))


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
def _solve_upper(factors: Matrices, sides: Matrices) -> None:
    """In place: L' x = side."""
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


# How uncertain columns are of rows
#
# What a column thinks of a row is as uncertain as that of any other before its ratings are known, however little the
# code of the row is believed: that shrinks what is explained, not what there is to explain.
#
# Two things are left out, which cost the most and are hardly seen in an interval. A row that a column has rated is read
# with that rating, so that every row is read once for all columns. Of a column with many ratings, `MOST_READ` count,
# evenly spaced. What they are worth is the affair of `IntervalCalibration`, which is calibrated on the same variances.


class RowsOf(NamedTuple):
    """Rows of each of some columns, one column after the other."""

    starts: Longs  # (columns + 1,)
    places: Longs  # (n + 1,): which of the codes; the last is for what is padded
    shrinkage: Floats  # (n + 1,)

    @classmethod
    def of(cls, each: Sequence[Sized], places: Longs, shrinkage: Floats) -> "RowsOf":
        """With as many rows of a column as its part of `each` has."""
        starts = np.concatenate([[0], np.cumsum([len(rows) for rows in each], dtype=np.int64)])
        return cls(starts, np.append(places, 0), np.append(shrinkage, np.float32(0)))


def posterior_variances(
    space: CodeSpace, amplitudes: KernelParams, codes: Floats, rated: RowsOf, asked: RowsOf
) -> Doubles:
    """(asked,): of what columns would say of rows, without noise, in squares of scaled ratings."""
    along, directions = space.projected(codes)
    found = np.empty(int(asked.starts[-1]))
    counts, wanted = np.diff(rated.starts), np.diff(asked.starts)

    def work(batch: ColumnBatch) -> None:
        own = amplitudes.for_column(int(counts[batch.columns].max(initial=0)))
        at, local = entries(asked.starts, batch.columns), own.local > 0
        which, whose = rated.places[batch.places], asked.places[at]
        known, rows = (along[which], directions[which]), (along[whose], directions[whose])
        shrinkage = rated.shrinkage[batch.places]
        inside, between = KernelParts.between(known, known, local=local), KernelParts.between(rows, known, local=local)
        gram = inside.combined(own, shrinkage, shrinkage, batch.mask, noise=True)
        explained = explained_by(cholesky(gram), between.combined(own, asked.shrinkage[at], shrinkage, batch.mask))
        variances = own.bias + own.taste * (rows[0] ** 2).sum(2) + own.cosine + own.local - explained
        found[at[at >= 0]] = np.maximum(variances, 0)[at >= 0]

    width = along.shape[1] + directions.shape[1]
    # Columns that are asked about as many rows go together.
    sizes = np.ceil(np.log2(np.maximum(wanted, 16)))
    for size in np.unique(sizes[wanted > 0]).tolist():
        chosen = np.flatnonzero((wanted > 0) & (sizes == size))
        on_all_cores(work, batches(rated.starts, chosen, width, int(2**size), MOST_READ))
    return found


# Prediction intervals
#
# The amplitudes predict best, which does not make the posterior variance that of the errors: errors grow with it, but
# also differ by how much is known of either side, and are smaller near the ends of the rating scale. So it is
#
#     log variance = c . [1, log posterior variance, log(1 + row's ratings), log(1 + column's ratings), p, p^2]
#
# with p the prediction from -1 to 1 across the scale, fitted by maximum likelihood to the errors on validation
# ratings, which others have predicted (`gp_fit.judged_by_halves`). Nine tenths of these are then within `quantile`
# standard deviations, whatever their distribution.


@dataclass(frozen=True)
class IntervalCalibration:
    """The standard deviation of errors, and the multiple of it that covers nine tenths of them."""

    coefficients: Doubles  # (6,)
    quantile: float

    @classmethod
    def unknown(cls) -> Self:
        """Without validation ratings: the posterior is believed."""
        return cls(np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0]), _NORMAL_QUANTILE)

    @classmethod
    def fit(cls, errors: Floats, variances: Doubles, row_counts: Counts, column_counts: Counts, places: Floats) -> Self:
        """From errors of validation ratings and their posterior variances, (n,), both scaled alike; `places` are the
        predictions from -1 to 1 across the scale.
        """
        begin = cls.unknown()
        if not len(errors):
            return begin
        inputs = _inputs(variances, row_counts, column_counts, places)
        squares = errors.astype(np.float64) ** 2

        def cost(coefficients: Doubles) -> tuple[float, Doubles]:
            logs = inputs @ coefficients
            ratios = squares * np.exp(-np.clip(logs, -60, 60))
            away = (coefficients - begin.coefficients) / _PRIOR_WIDTH
            slope = inputs.T @ (1 - ratios) / 2 + away / _PRIOR_WIDTH
            return float((logs + ratios).sum() / 2 + away @ away / 2), slope

        from scipy.optimize import minimize

        found = minimize(cost, begin.coefficients, jac=True, method="L-BFGS-B", options={"maxiter": 200})
        fitted = cls(found.x, begin.quantile)
        far = np.abs(errors) / fitted.deviation(variances, row_counts, column_counts, places)
        # The finite-sample correction of conformal prediction; with few ratings the normal quantile counts, too.
        rank = min(COVERED * (1 + 1 / len(far)), 1.0)
        believed = len(far) / (len(far) + 20)
        return cls(found.x, float(believed * np.quantile(far, rank) + (1 - believed) * _NORMAL_QUANTILE))

    def deviation(self, variances: Doubles, row_counts: Counts, column_counts: Counts, places: Floats) -> Doubles:
        """(n,): standard deviations, in the unit of the variances."""
        logs = _inputs(variances, row_counts, column_counts, places) @ self.coefficients
        deviation: Doubles = np.exp(np.clip(logs, -60, 60) / 2)
        return deviation

    def as_array(self) -> Doubles:
        return np.append(self.coefficients, self.quantile)

    @classmethod
    def from_array(cls, values: Doubles) -> Self:
        """ValueError where they make no sense."""
        if values.shape != (7,) or not np.isfinite(values).all() or values[-1] < 0:
            raise ValueError("the intervals of the decoder are damaged")
        return cls(values[:-1], float(values[-1]))


def _inputs(variances: Doubles, row_counts: Counts, column_counts: Counts, places: Floats) -> Doubles:
    p = np.clip(places.astype(np.float64), -1, 1)
    logs = [np.log(np.maximum(variances, 1e-12)), np.log1p(row_counts), np.log1p(column_counts)]
    return np.column_stack([np.ones(len(p)), *logs, p, p**2])


def whole_variance(
    posterior: Doubles, amplitudes: KernelParams, biases: Biases, scaling: Scaling, counts: Longs
) -> Doubles:
    """(n,) scaled: of ratings, from what is uncertain of the column, of the row's deviation, and the noise."""
    of_row = biases.noise / scaling.unit**2 / (counts + max(biases.row_damping, 1e-6))
    variance: Doubles = posterior + of_row + amplitudes.noise
    return variance


def across(ratings: Floats, scale: Scale) -> Floats:
    """Ratings -> from -1 to 1 across the scale."""
    low, high = scale
    return np.asarray((ratings - (high + low) / 2) / ((high - low) / 2), np.float32)
