"""The Bayesian decoder: what a column would rate, from the codes of the rows that it has rated, in closed form.

A column's ratings, less the overall mean and the deviations of the rows, are taken to be a Gaussian process over rows:

    K_ij = noise [i = j] + bias + r_i r_j (taste a_i . a_j + cosine d_i . d_j + local exp(8 (d_i . d_j - 1)))
    prediction at row i = overall + deviation of i + k_i' K^-1 y          r / (1 - r) = (n / half) ^ power

a: a row's code along the directions in which the trained output weights differ; d: its centred code within these
directions, scaled to length 1, so that d_i . d_j is the cosine similarity of two rows; r: shrinkage by the number n of
the row's own ratings. The codes of what a column has rated are those without its own rating (leave-one-out): a network
knows what it was shown. In rows with more than 500 ratings a single one is not seen, and they are read with all.

The amplitudes (bias, taste, cosine, local, half) are learned on validation ratings (`gp_fit`). Where codes say nothing
they go to zero, and the biases remain: that makes the defaults safe on unseen data.
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.models.biases import Biases
from cofill.models.cfn.codes import CodeSpace, EncodedRows
from cofill.models.cfn.scaling import Scaling
from cofill.threads import on_all_cores

Matrices = Floats | Doubles
Counts = npt.NDArray[np.integer]

# How quickly the local kernel falls with the angle between two codes. Sharp enough to be cut to the nearest rows: what
# is wider than that is seen by the cosine kernel, which costs nothing. Chosen on validation ratings of four data sets.
SHARPNESS = 8.0
# Ratings of a column up to which the local kernel between all of them is worked out.
MOST_LOCAL = 2000
# Ratings up to which a column counts as short.
SHORT = 20
# Ratings of a row up to which it is read without that of the column. In longer ones a single rating is not seen:
# the RMSE of MovieLens-1M is .8218 with all left out or with these, and .8221 if only rows of up to 200 are.
LEFT_OUT = 500
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


@dataclass(frozen=True)
class KernelParams:
    """Variances in squares of scaled ratings; `half` and `features` are numbers of ratings."""

    noise: float
    bias: float  # of a column's deviation
    taste: float
    cosine: float
    local: float
    half: float  # ratings with which a row's shrinkage is a half
    mean: float  # share of what all columns have in common, and of what their features lead one to expect
    features: float  # ratings that a row's side features are worth
    interactions: float = 0.0  # share of what features of rows and columns say together (`slopes.py`)
    row_gate: float = 0.0  # ratings of a row with which biases with slopes count as much as the network
    column_gate: float = 0.0  # the same of a column
    power: float = 1.0  # how sharply shrinkage rises with the number of a row's ratings
    short: tuple[float, float, float, float] | None = None  # bias, taste, cosine, local of columns with few ratings

    def as_array(self) -> Doubles:
        numbers = [getattr(self, field.name) for field in fields(self) if field.name != "short"]
        return np.array([*numbers, *(self.short or ())], np.float64)

    @classmethod
    def from_array(cls, values: Doubles) -> Self:
        numbers, count = values.tolist(), len(fields(cls)) - 1
        return replace(cls(*numbers[:count]), short=tuple(numbers[count:]) or None)

    def for_column(self, ratings: int) -> "KernelParams":
        """Those of a column with so many ratings: of few, taste is told apart from chance less easily than of many."""
        if self.short is None or ratings > SHORT:
            return self
        bias, taste, cosine, local = self.short
        return replace(self, bias=bias, taste=taste, cosine=cosine, local=local)

    def shrinkage(self, ratings: npt.NDArray[np.integer] | Floats, described: Bools) -> Floats:
        """(n,): r, how far the codes of rows with so many ratings are believed; features count as some ratings."""
        odds = ((ratings + self.features * described) / max(self.half, 1e-12)) ** self.power
        return np.asarray(1 - 1 / (1 + odds), np.float32)


# Rows as the kernel sees them


class KernelInputs(NamedTuple):
    """Rows as the kernel sees them, for one column."""

    codes: Floats  # (n, width)
    along: Floats  # (n, directions): a
    directions: Floats  # (n, r): d, along the basis of the code space
    shrinkage: Floats  # (n,): r

    @classmethod
    def of(cls, space: CodeSpace, codes: Floats, shrinkage: Floats) -> "KernelInputs":
        return cls(codes, *space.projected(codes), shrinkage)

    def exact(self) -> "KernelInputs":
        """In double precision: rounding of a kernel that is large beside the noise would make it indefinite."""
        doubles: Any = (part.astype(np.float64) for part in self)
        return KernelInputs(*doubles)


def expected_of_columns(space: CodeSpace, biases: Biases, scaling: Scaling, features: Floats) -> tuple[Floats, Floats]:
    """Weights (n, width + 1) and biases (n,), scaled, of columns of which the features (n, Q) are known."""
    return space.expected(features), biases.columns.expected(features) / np.float32(scaling.unit)


def local_kernel(cosines: Floats) -> Floats:
    near: Floats = cosines - np.float32(1)
    near *= np.float32(SHARPNESS)
    return np.asarray(np.exp(near))


def kernel_between(
    amplitudes: KernelParams, some: KernelInputs, others: KernelInputs, local: Floats | None = None
) -> Floats:
    """(m, n): the covariance of a column's ratings at some rows and at others, without noise.

    `local` (m, n) is the local kernel between them where it has been cut; without it, it is worked out.
    """
    cosines = some.directions @ others.directions.T
    inner = np.float32(amplitudes.taste) * (some.along @ others.along.T) + np.float32(amplitudes.cosine) * cosines
    if amplitudes.local:
        if local is None:
            local = local_kernel(cosines)
        inner += np.float32(amplitudes.local) * local
    inner *= others.shrinkage
    inner *= some.shrinkage[:, None]
    inner += np.float32(amplitudes.bias)
    return inner


# The posterior of one column


class ColumnWeights(NamedTuple):
    """What a column says of a row:

        bias + shrinkage * (code . linear[:-1] + linear[-1] + direction . cosine + local part)

    The local part is the sum over rows that it has rated of the local kernel times alpha. Of one column, or of many.
    """

    linear: Floats  # (width + 1,) or (columns, width + 1)
    cosine: Floats  # (r,) or (columns, r)
    bias: Floats  # () or (columns,)
    alpha: Floats  # (ratings,): dual coefficients, column by column

    def at(self, columns: int | Ints | Longs | slice) -> "ColumnWeights":
        """One or some of many, without alpha."""
        return ColumnWeights(self.linear[columns], self.cosine[columns], self.bias[columns], self.alpha[:0])


class Expected(NamedTuple):
    """Of a column, by its features: weights (width + 1,) and bias, scaled."""

    weights: Floats
    bias: float
    interactions: Floats | float = 0.0  # (n,): with features of the rows that it has rated, scaled


def _most_in_dual(space: CodeSpace) -> int:
    """Ratings from which on a column without a local kernel is solved for its weights: that is less work."""
    return 2 * len(space.factor[0]) + 1


class Posterior:
    """Of one column, given its ratings: in the dual with n ratings, or in the primal where they are many.

    A column with more than `MOST_LOCAL` ratings does without the local kernel, which would take their square.
    """

    def __init__(
        self, space: CodeSpace, amplitudes: KernelParams, seen: KernelInputs, targets: Floats, about: Expected
    ) -> None:
        """`targets` (n,): scaled ratings with the deviations of the rows taken off."""
        from scipy.linalg import cho_factor

        if len(targets) > MOST_LOCAL:
            amplitudes = replace(amplitudes, local=0.0)
        self._space, self._amplitudes, self._about = space, amplitudes, about
        self.seen, self.targets = seen, targets
        self.left = targets - self.prior_mean(seen) - np.float32(amplitudes.interactions) * about.interactions
        self._primal = not amplitudes.local and len(targets) > _most_in_dual(space)
        exact, right = seen.exact(), self.left.astype(np.float64)
        if self._primal:
            self._inputs = self._features(exact).astype(np.float64)
            gram, right = self._inputs.T @ self._inputs, self._inputs.T @ right
        else:
            gram = np.asarray(kernel_between(amplitudes, exact, exact), np.float64)
        gram[np.diag_indices_from(gram)] += amplitudes.noise
        self._factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        self._solved = self._solve(right)

    def prior_mean(self, rows: KernelInputs) -> Floats:
        """(n,): what is expected of the column at rows, before its ratings are known."""
        weights = self._about.weights
        said = rows.codes @ weights[:-1] + weights[-1]
        expected: Floats = np.float32(self._about.bias) + np.float32(self._amplitudes.mean) * rows.shrinkage * said
        return expected

    def weights(self) -> ColumnWeights:
        amplitudes, seen, space = self._amplitudes, self.seen, self._space
        if self._primal:
            bias, along, cosine = np.split(self._solved, np.cumsum([1, space.factor.shape[1]]))
            bias, along = bias[0] * np.sqrt(amplitudes.bias), along * np.sqrt(amplitudes.taste)
            cosine = cosine * np.sqrt(amplitudes.cosine)
            alpha = np.zeros(len(self.left))
        else:
            weighted = self._solved * seen.shrinkage
            bias, alpha = amplitudes.bias * self._solved.sum(), amplitudes.local * weighted
            along, cosine = amplitudes.taste * (weighted @ seen.along), amplitudes.cosine * (weighted @ seen.directions)
        linear = amplitudes.mean * self._about.weights + space.factor @ along
        bias = self._about.bias + bias
        return ColumnWeights(*(np.asarray(part, np.float32) for part in (linear, cosine, bias, alpha)))

    def gain(self, rows: KernelInputs, local: Floats | None = None) -> Doubles:
        """(m, n): how far each rating moves the prediction at some rows; `local` as in `kernel_between`."""
        if self._primal:
            return np.asarray(self._features(rows) @ self._solve(self._inputs.T))
        between = kernel_between(self._amplitudes, rows, self.seen, local)
        return np.asarray(self._solve(between.T.astype(np.float64)).T)

    def _features(self, rows: KernelInputs) -> Floats:
        """(n, 1 + directions + r): their inner products are the kernel, without its local part."""
        amplitudes, shrinkage = self._amplitudes, rows.shrinkage[:, None]
        return np.column_stack(
            [
                np.full(len(shrinkage), amplitudes.bias**0.5, shrinkage.dtype),
                shrinkage * amplitudes.taste**0.5 * rows.along,
                shrinkage * amplitudes.cosine**0.5 * rows.directions,
            ]
        )

    def _solve(self, right: Doubles) -> Doubles:
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self._factor, right, check_finite=False))


# Many columns at once: the same, in batches of columns with about as many ratings, each padded to the longest


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
    counts = indptr[columns + 1] - indptr[columns]
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
    counts = (indptr[columns + 1] - indptr[columns])[:, None]
    taken = counts if most is None else np.minimum(counts, most)
    turn = np.arange(int(taken.max(initial=0)))
    return np.where(turn < taken, indptr[columns][:, None] + turn * counts // np.maximum(taken, 1), -1)


Projected = tuple[Floats, Floats]
"""Rows of each column of a batch along the factor, and their directions: (B, n, r) both."""


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
    whole: EncodedRows  # all rows, with all of their ratings
    left_out: Callable[[Ints, Ints, Floats], EncodedRows]  # rows without their ratings of columns: `codes.LeaveOneOut`
    expected: Callable[[Longs], tuple[Floats, Floats]]  # weights (n, width + 1), biases (n,) of columns by features
    # Of rows (..., n) and columns (...), scaled: what their features say together.
    interactions: Callable[[Ints, Longs], Floats]

    @cached_property
    def _long(self) -> tuple[Longs, Floats]:
        """(rows,): the place of each long row, -1 of others, and the centred codes (places, r) of these."""
        counts, codes = self.whole.counts, self.whole.codes
        long = np.flatnonzero(counts > LEFT_OUT)
        places = np.full(len(counts), -1)
        places[long] = np.arange(len(long))
        return places, self.space.centred(np.vstack([codes[long], codes[:1]]))  # the last is for all others

    def seen(self, rows: Ints, columns: Ints, places: Longs) -> tuple[Floats, EncodedRows]:
        """Centred codes (n, r) of rows, and the rows, each without its rating at that place, if it has not very many.

        The codes themselves are of use where columns have features; otherwise there are none.
        """
        whole, (long, of_long) = self.whole, self._long
        means, counts, described = whole.means[rows], whole.counts[rows] - 1, whole.described[rows]
        where = long[rows]
        centred, short = of_long[where], np.flatnonzero(where < 0)
        left = self.left_out(rows[short], columns[short], self.by_column.values[places[short]])
        centred[short] = self.space.centred(left.codes)
        means[short], counts[short], described[short] = left.means, left.counts, left.described
        codes = left.codes if self.space.uses_features else whole.codes[:0]
        if self.space.uses_features and len(short) < len(rows):
            codes = np.empty((len(rows), codes.shape[1]), np.float32)
            codes[short], codes[where >= 0] = left.codes, whole.codes[rows[where >= 0]]
        return centred, EncodedRows(codes, means, counts, described)

    def read(self, batch: ColumnBatch) -> BatchRead:
        mask, shape = batch.mask, batch.places.shape
        places = np.maximum(batch.places, 0).ravel()
        columns = np.repeat(batch.columns, shape[1]).astype(np.int32)
        indices = self.by_column.indices[places]
        centred, rows = self.seen(indices, columns, places)
        along, directions = self.space.split(centred)
        weights, biases = self.expected(batch.columns)
        targets = (self.scaled[places] - rows.means).reshape(shape) - biases[:, None]
        said = said_by(weights, rows.codes.reshape(*shape, -1)) if len(rows.codes) else np.zeros(shape, np.float32)
        return BatchRead(
            (along.reshape(*shape, -1), directions.reshape(*shape, -1)),
            said,
            rows.counts.astype(np.float32).reshape(shape),
            rows.described.reshape(shape),
            np.where(mask, targets, np.float32(0)),
            mask,
            self.interactions(indices.reshape(shape), batch.columns) * mask,
        )

    def solved_alone(self, column: int, amplitudes: KernelParams) -> Posterior:
        """Of a column with very many ratings, in double precision."""
        places = np.arange(*self.by_column.indptr[column : column + 2])
        rows = self.by_column.indices[places]
        centred, found = self.seen(rows, np.full(len(rows), column, np.int32), places)
        weights, biases = self.expected(np.array([column]))
        if not len(found.codes):  # their share of the prior mean is zero
            found = found._replace(codes=np.zeros((len(rows), len(self.space.centre)), np.float32))
        shrinkage = amplitudes.shrinkage(found.counts, found.described)
        seen = KernelInputs(found.codes, *self.space.split(centred), shrinkage)
        about = Expected(weights[0], float(biases[0]), self.interactions(rows[None], np.array([column]))[0])
        return Posterior(self.space, amplitudes, seen, self.scaled[places] - found.means, about)


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
    # Pages of columns that are not asked for stay untouched.
    solved = ColumnWeights(
        np.zeros((columns, width + 1), np.float32),
        np.zeros((columns, directions), np.float32),
        np.zeros(columns, np.float32),
        np.zeros(by_column.nnz, np.float32),
    )
    wanted = np.arange(columns) if only is None else np.flatnonzero(only)
    for first in range(0, len(wanted), _EXPECTED_AT_ONCE):
        some = wanted[first : first + _EXPECTED_AT_ONCE]
        weights, solved.bias[some] = data.expected(some)
        if amplitudes.mean:
            solved.linear[some] = np.float32(amplitudes.mean) * weights
    counts = by_column.counts() if only is None else by_column.counts() * only
    alone = counts > (MOST_LOCAL if amplitudes.local else _most_in_dual(space))
    whole, done = max(float((counts.astype(np.float64) ** 1.5).sum()), 1.0), 0.0

    def all_batches() -> Iterator[ColumnBatch]:
        """Long columns first, so that no thread is left with one in the end."""
        nonlocal done
        single = (ColumnBatch(at, entries(by_column.indptr, at)) for at in np.flatnonzero(alone)[:, None])
        others = batches(by_column.indptr, np.flatnonzero(~alone & (counts > 0)), width)
        for batch in chain(single, others):
            done += float((counts[batch.columns].astype(np.float64) ** 1.5).sum())
            if share_done is not None:
                share_done(min(done / whole, 1.0))
            yield batch

    def work(batch: ColumnBatch) -> None:
        own, at, mask = amplitudes.for_column(batch.places.shape[1]), batch.columns, batch.mask
        if alone[at[0]]:
            found = data.solved_alone(int(at[0]), own).weights()
            solved.linear[at], solved.cosine[at], solved.bias[at], solved.alpha[batch.places[0]] = found
            return
        rated = data.read(batch)
        _, shrinkage, alpha = solved_batch(KernelParts.inside(rated.projected), rated, own)
        weighted = alpha * shrinkage
        along, directions = ((weighted[:, None] @ part)[:, 0] for part in rated.projected)
        solved.linear[at] += np.float32(own.taste) * along @ space.factor.T
        solved.cosine[at] = np.float32(own.cosine) * directions
        solved.bias[at] += np.float32(own.bias) * alpha.sum(1)
        solved.alpha[batch.places[mask]] = np.float32(own.local) * weighted[mask]

    on_all_cores(work, all_batches())
    return solved


# The kernel between the rows of each column of a batch


class KernelParts(NamedTuple):
    """What amplitudes are multiplied by: between some rows and others of each column, (B, m, n).

    The local kernel follows from the cosines.
    """

    taste: Floats
    cosine: Floats

    @classmethod
    def inside(cls, rows: Projected) -> Self:
        """Between the same rows, with anything above the diagonal."""
        from scipy.linalg import get_blas_funcs

        product: Any = get_blas_funcs("syrk", rows)

        def squared(each: Floats) -> Floats:
            found: Any = np.zeros((*each.shape[:2], each.shape[1]), each.dtype)
            if each.size:  # BLAS rejects codes without directions
                for one, out in zip(each, found, strict=True):  # the lower half of ours is the upper of BLAS
                    product(1.0, one.T, 0.0, out.T, trans=1, overwrite_c=1)
            return np.asarray(found)

        return cls(*map(squared, rows))

    @classmethod
    def between(cls, some: Projected, others: Projected) -> Self:
        return cls(*(np.matmul(one, other.transpose(0, 2, 1)) for one, other in zip(some, others, strict=True)))

    def combined(
        self, own: KernelParams, shrinkage: Floats, others: Floats, mask: Bools, *, noise: bool = False
    ) -> Floats:
        """(B, m, n): the kernel between rows with such shrinkage, and 0 where the others are padded.

        With noise it is that between the same rows, (B, n, n): anything above the diagonal, 1 on it where it is padded.
        """
        out = np.empty_like(self.taste)
        _combine(
            self.taste, self.cosine, shrinkage, others, mask.sum(1), np.float32(own.bias), np.float32(own.taste),
            np.float32(own.cosine), np.float32(own.local), np.float32(own.noise if noise else 0.0), out,
        )  # fmt: skip
        return out

    def times(self, vectors: Floats) -> Floats:
        """(3, B, m, k): taste, cosines and the local kernel times vectors (B, n, k)."""
        found = np.empty((3, *self.taste.shape[:2], vectors.shape[2]), np.float32)
        _multiply(self.taste, self.cosine, np.ascontiguousarray(vectors.transpose(0, 2, 1)), found)
        return found


def prior_mean(rows: BatchRead, own: KernelParams, shrinkage: Floats) -> Floats:
    """(B, n): what is expected of columns at rows, beside their biases."""
    found: Floats = np.float32(own.mean) * shrinkage * rows.said + np.float32(own.interactions) * rows.interactions
    return found


def solved_batch(inside: KernelParts, rated: BatchRead, own: KernelParams) -> tuple[Matrices, Floats, Floats]:
    """The factors of the kernel K between the rows that columns have rated, the shrinkage of these rows (B, n), and for
    each K^-1 times what is not expected of it (B, n).
    """
    shrinkage = rated.shrinkage(own)
    factors = cholesky(lambda: inside.combined(own, shrinkage, shrinkage, rated.mask, noise=True))
    left = rated.targets - prior_mean(rated, own, shrinkage)
    return factors, shrinkage, times_inverse(factors, left[:, :, None])[:, :, 0]


@compiled
def _near(cosine: np.float32) -> np.float32:
    """The local kernel: exp(8 (c - 1)) = (exp(c) / e)^8, exp(c) by a polynomial (Chebyshev), right to 5e-6."""
    e = np.float32(2.03993580e-04) * cosine + np.float32(1.43925672e-03)
    e = e * cosine + np.float32(8.32983183e-03)
    e = e * cosine + np.float32(4.16350385e-02)
    e = e * cosine + np.float32(1.66667368e-01)
    e = e * cosine + np.float32(5.00006337e-01)
    e = e * cosine + np.float32(9.99999978e-01)
    e = (e * cosine + np.float32(9.99999802e-01)) * np.float32(0.36787944)
    e *= e
    e *= e
    return e * e


@compiled
def _combine(
    taste: Floats, cosine: Floats, shrinkage: Floats, others: Floats, lengths: Longs, of_bias: np.float32,
    of_taste: np.float32, of_cosine: np.float32, of_local: np.float32, noise: np.float32, out: Floats,
) -> None:  # fmt: skip
    """In one pass over the parts. With noise it is that between the same rows, of which half is enough."""
    for b in range(len(taste)):
        length = lengths[b]
        for i in range(taste.shape[1]):
            known = length
            if noise > 0:
                known = i + 1 if i < length else 0
            own, other = shrinkage[b, i], others[b]
            taste_i, cosine_i, out_i = taste[b, i], cosine[b, i], out[b, i]
            if of_local > 0:
                for j in range(known):
                    inner = of_taste * taste_i[j] + of_cosine * cosine_i[j] + of_local * _near(cosine_i[j])
                    out_i[j] = of_bias + own * other[j] * inner
            else:
                for j in range(known):
                    out_i[j] = of_bias + own * other[j] * (of_taste * taste_i[j] + of_cosine * cosine_i[j])
            for j in range(known, i + 1 if noise > 0 else len(out_i)):
                out_i[j] = 0
            if noise > 0:
                out_i[i] = out_i[i] + noise if i < length else np.float32(1)


@compiled
def _multiply(taste: Floats, cosine: Floats, vectors: Floats, out: Floats) -> None:
    """Parts times vectors (B, k, n), into out (3, B, m, k)."""
    near = np.empty(taste.shape[2], np.float32)
    for b in range(len(taste)):
        for i in range(taste.shape[1]):
            taste_i, cosine_i = taste[b, i], cosine[b, i]
            for j in range(len(near)):
                near[j] = _near(cosine_i[j])
            for k in range(vectors.shape[1]):
                vector = vectors[b, k]
                of_taste, of_cosine, of_local = np.float32(0), np.float32(0), np.float32(0)
                for j in range(len(near)):
                    of_taste += taste_i[j] * vector[j]
                    of_cosine += cosine_i[j] * vector[j]
                    of_local += near[j] * vector[j]
                out[0, b, i, k], out[1, b, i, k], out[2, b, i, k] = of_taste, of_cosine, of_local


def cholesky(make: Callable[[], Matrices]) -> Matrices:
    """Lower factors of the positive definite matrices (B, n, n) that it makes, with anything above their diagonals; in
    double precision where rounding would spoil single.
    """
    from scipy.linalg import get_lapack_funcs

    def failures(matrices: Matrices) -> Bools:
        factorise: Any = get_lapack_funcs("potrf", (matrices,))  # several times as quick as np.linalg.cholesky
        # Rows of ours are columns of LAPACK's: our lower factor is its upper one.
        found = [factorise(matrix.T, lower=False, clean=False, overwrite_a=True)[1] != 0 for matrix in matrices]
        return np.array(found, np.bool_)

    factors = make()
    failed = failures(factors)
    if not failed.any():
        return factors
    with np.errstate(invalid="ignore"):  # above the diagonals there may be anything
        exact = make().astype(np.float64)
    diagonals = np.einsum("bii->bi", exact)
    # Rounding has changed the kernel by as much: where it did harm, it is taken for noise.
    diagonals += (failed * (exact.shape[1] * _ROUNDING) * diagonals.max(1))[:, None]
    if failures(exact).any():
        raise np.linalg.LinAlgError("a kernel is not positive definite")
    return exact


def _solved(name: str, factors: Matrices, sides: Any, **how: Any) -> Any:
    """The LAPACK routine of that name on each factor and its right sides (B, m, n), in their place."""
    from scipy.linalg import get_lapack_funcs

    solve: Any = get_lapack_funcs(name, (factors,))
    if sides.size:
        for factor, side in zip(factors, sides, strict=True):
            solve(factor.T, side.T, lower=False, overwrite_b=True, **how)
    return sides


def times_inverse(factors: Matrices, right: Floats) -> Floats:
    """K^-1 right, (B, n, m), of the matrices K that have these factors."""
    sides = _solved("potrs", factors, np.array(right.transpose(0, 2, 1), factors.dtype, order="C"))
    return np.asarray(sides.transpose(0, 2, 1), np.float32)


def explained_by(factors: Matrices, between: Floats) -> Doubles:
    """(B, m, n) -> (B, m): b' K^-1 b of each b."""
    sides = _solved("trtrs", factors, np.array(between, factors.dtype, order="C"), trans=1)
    return np.asarray(np.einsum("bmn,bmn->bm", sides, sides, dtype=np.float64))


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
        at = entries(asked.starts, batch.columns)
        which, whose = rated.places[batch.places], asked.places[at]
        known, rows = (along[which], directions[which]), (along[whose], directions[whose])
        shrinkage = rated.shrinkage[batch.places]
        inside, between = KernelParts.inside(known), KernelParts.between(rows, known)
        factors = cholesky(lambda: inside.combined(own, shrinkage, shrinkage, batch.mask, noise=True))
        explained = explained_by(factors, between.combined(own, asked.shrinkage[at], shrinkage, batch.mask))
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
    def fit(cls, errors: Floats, inputs: Doubles) -> Self:
        """From scaled errors (n,) of validation ratings, and what they depend on (`interval_inputs`)."""
        begin = cls.unknown()
        if not len(errors):
            return begin
        squares = errors.astype(np.float64) ** 2

        def cost(coefficients: Doubles) -> tuple[float, Doubles]:
            logs = inputs @ coefficients
            ratios = squares * np.exp(-np.clip(logs, -60, 60))
            away = (coefficients - begin.coefficients) / _PRIOR_WIDTH
            slope = inputs.T @ (1 - ratios) / 2 + away / _PRIOR_WIDTH
            return float((logs + ratios).sum() / 2 + away @ away / 2), slope

        from scipy.optimize import minimize

        found = minimize(cost, begin.coefficients, jac=True, method="L-BFGS-B", options={"maxiter": 200})
        far = np.abs(errors) / cls(found.x, begin.quantile).deviation(inputs)
        # The finite-sample correction of conformal prediction; with few ratings the normal quantile counts, too.
        rank = min(COVERED * (1 + 1 / len(far)), 1.0)
        believed = len(far) / (len(far) + 20)
        return cls(found.x, float(believed * np.quantile(far, rank) + (1 - believed) * _NORMAL_QUANTILE))

    def deviation(self, inputs: Doubles) -> Doubles:
        """(n,): standard deviations, in scaled ratings."""
        deviation: Doubles = np.exp(np.clip(inputs @ self.coefficients, -60, 60) / 2)
        return deviation

    def as_array(self) -> Doubles:
        return np.append(self.coefficients, self.quantile)

    @classmethod
    def from_array(cls, values: Doubles) -> Self:
        return cls(values[:-1], float(values[-1]))


def interval_inputs(
    posterior: Doubles, noise: float, biases: Biases, scaling: Scaling, counts: tuple[Counts, Counts], predicted: Floats
) -> Doubles:
    """(n, 6): what errors depend on, from posterior variances, ratings of rows and of columns, and predictions.

    The variance of a rating is that of what the column says, that of the row's deviation, and the noise.
    """
    low, high = scaling.scale
    p = np.asarray((predicted - (high + low) / 2) / ((high - low) / 2), np.float32)  # from -1 to 1 across the scale
    p = np.clip(p.astype(np.float64), -1, 1)
    of_row = biases.noise / scaling.unit**2 / (counts[0] + max(biases.rows.damping, 1e-6))
    variances: Doubles = posterior + of_row + noise
    logs = [np.log(np.maximum(variances, 1e-12)), np.log1p(counts[0]), np.log1p(counts[1])]
    return np.column_stack([np.ones(len(p)), *logs, p, p**2])
