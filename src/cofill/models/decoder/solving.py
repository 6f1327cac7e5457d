"""The decoders of all trained columns at once: the same closed form as `kernel.Posterior`, in batches of columns."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows
from cofill.models.decoder.inverse import Inverse
from cofill.models.decoder.kernel import (
    MOST_LOCAL,
    SHORT,
    Amplitudes,
    CodeSpace,
    Expected,
    Posterior,
    in_primal,
    local_kernel,
)
from cofill.threads import on_all_cores

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

# Numbers in a batch of square matrices: a batch of short columns is large enough to be worth a call, and
# that of long ones small enough to stay in the processor's cache.
_NUMBERS = 1_000_000
_EXPECTED_AT_ONCE = 4096  # columns
_CODE_NUMBERS = 2_000_000  # of which a dozen such arrays are there at a time


class Without(NamedTuple):
    """Rows, each without one of its ratings."""

    codes: Floats  # (n, width)
    means: Floats  # (n,) scaled
    counts: Longs  # (n,): how many ratings they have then
    described: Bools  # (n,): whether they have side features


class LeftOut(Protocol):
    """Tells the codes of rows without one of their ratings."""

    def __call__(self, rows: Ints, columns: Ints, ratings: Floats) -> Without: ...


class DecodedColumns(NamedTuple):
    """What `kernel.Decoded` is for one column, for all of them."""

    taste: Floats  # (columns, width + 1)
    turn: Floats  # (columns, width)
    bias: Floats  # (columns,)
    pull: Floats  # (ratings,): in the order of the ratings, column by column


class ColumnBatch(NamedTuple):
    """Columns with about as many ratings, and the places of these among all ratings, column by column."""

    columns: Longs  # (B,)
    places: Longs  # (B, n), padded with -1

    @property
    def there(self) -> Bools:
        return self.places >= 0


def batches(by_column: SparseRows, columns: Longs, width: int, asked: int = 0) -> Iterator[ColumnBatch]:
    """The columns in batches, short ones first. About so many rows are `asked` about beside those that they rated."""
    counts = by_column.counts()
    ordered = columns[np.argsort(counts[columns], kind="stable")]
    first = 0
    while first < len(ordered):
        longest = np.maximum(counts[ordered[first : first + 4096]], 1)
        sizes = np.arange(1, len(longest) + 1)
        codes = np.maximum(longest, asked) * width
        fits = (sizes * longest * longest <= _NUMBERS) & (sizes * codes <= _CODE_NUMBERS)
        last = first + max(int(fits.sum()), 1)
        chosen = ordered[first:last]
        most = int(counts[chosen].max(initial=0))
        places = by_column.indptr[chosen][:, None] + np.arange(most)
        yield ColumnBatch(chosen, np.where(np.arange(most) < counts[chosen][:, None], places, -1))
        first = last


class BatchSeen(NamedTuple):
    """Rows of each column of a batch as the kernel sees them; padded places have trust 0."""

    along: Floats  # (B, n, directions)
    directions: Floats  # (B, n, width)
    trust: Floats  # (B, n)
    there: Bools  # (B, n)


class BatchKernel(NamedTuple):
    """What is known of the rows that each column of a batch has rated."""

    along: Floats  # (B, n, directions)
    directions: Floats  # (B, n, width)
    codes: Floats  # (B, n, width)
    counts: Floats  # (B, n): ratings of the rows
    described: Bools  # (B, n)
    targets: Floats  # (B, n)
    there: Bools  # (B, n)

    def seen(self, amplitudes: Amplitudes) -> BatchSeen:
        trust = amplitudes.trust(self.counts, self.described) * self.there
        return BatchSeen(self.along, self.directions, trust, self.there)


def read_batch(
    batch: ColumnBatch, by_column: SparseRows, space: CodeSpace, left_out: LeftOut, scaled: Floats
) -> BatchKernel:
    """`scaled` (ratings,): ratings of all columns, scaled, with nothing taken off."""
    there = batch.there
    places = np.maximum(batch.places, 0).ravel()
    columns = np.repeat(batch.columns, there.shape[1]).astype(np.int32)
    without = left_out(by_column.indices[places], columns, by_column.values[places])
    shape = there.shape
    return BatchKernel(
        space.along(without.codes).reshape(*shape, -1),
        space.directions(without.codes).reshape(*shape, -1),
        without.codes.reshape(*shape, -1),
        without.counts.astype(np.float32).reshape(shape),
        without.described.reshape(shape),
        np.where(there, (scaled[places] - without.means).reshape(shape), np.float32(0)),
        there,
    )


def solve_columns(
    by_column: SparseRows,
    scaled: Floats,
    space: CodeSpace,
    amplitudes: Amplitudes,
    left_out: LeftOut,
    expected: Callable[[Longs], tuple[Floats, Floats]],
    share_done: Callable[[float], None] | None = None,
    *,
    only: Bools | None = None,
) -> DecodedColumns:
    """Of every column, or `only` of some (columns,).

    `expected` tells weights (n, width + 1) and biases (n,) of columns by their features.
    """
    columns, width = by_column.rows, len(space.centre)
    solved = DecodedColumns(
        np.empty((columns, width + 1), np.float32),
        np.zeros((columns, width), np.float32),
        np.empty(columns, np.float32),
        np.zeros(by_column.nnz, np.float32),
    )
    for first in range(0, columns, _EXPECTED_AT_ONCE):
        some = np.arange(first, min(first + _EXPECTED_AT_ONCE, columns))
        weights, solved.bias[some] = expected(some)
        np.multiply(np.float32(amplitudes.mean), weights, out=solved.taste[first : first + len(some)])
    counts = by_column.counts() if only is None else by_column.counts() * only
    primal = [in_primal(amplitudes.for_column(count), count, space) for count in counts.tolist()]
    alone = (counts > MOST_LOCAL) | np.array(primal, np.bool_)
    together = (counts > 0) & ~alone
    whole, done = max(float((counts.astype(np.float64) ** 1.5).sum()), 1.0), 0.0

    def tell(columns: Longs) -> None:
        nonlocal done
        done += float((counts[columns].astype(np.float64) ** 1.5).sum())
        if share_done is not None:
            share_done(min(done / whole, 1.0))

    def told(chosen: Bools) -> Iterator[ColumnBatch]:
        for batch in batches(by_column, np.flatnonzero(chosen), width):
            tell(batch.columns)
            yield batch

    def work(batch: ColumnBatch) -> None:
        read = read_batch(batch, by_column, space, left_out, scaled)
        own = amplitudes.for_column(batch.places.shape[1])
        _solve_batch(batch, read, space, own, *expected(batch.columns), solved)

    for chosen in (together & (counts <= SHORT), together & (counts > SHORT)):
        on_all_cores(work, told(chosen))
    for column in np.flatnonzero(alone).tolist():
        known = slice(int(by_column.indptr[column]), int(by_column.indptr[column + 1]))
        rows, ratings = by_column.row(column)
        without = left_out(rows, np.full(len(rows), column, np.int32), ratings)
        seen = space.seen(without.codes, amplitudes.trust(without.counts, without.described))
        weights, biases = expected(np.array([column]))
        about = Expected(weights[0], float(biases[0]))
        found = Posterior(space, amplitudes.for_column(len(rows)), seen, scaled[known] - without.means, about).decoded()
        solved.taste[column], solved.turn[column], solved.bias[column] = found.taste, found.turn, found.bias
        solved.pull[known] = found.pull
        tell(np.array([column]))
    return solved


def _solve_batch(
    batch: ColumnBatch,
    read: BatchKernel,
    space: CodeSpace,
    amplitudes: Amplitudes,
    weights: Floats,
    biases: Floats,
    solved: DecodedColumns,
) -> None:
    seen = read.seen(amplitudes)
    expected = np.float32(amplitudes.mean) * seen.trust * said_by(weights, read.codes)
    left = (read.targets - biases[:, None] - expected) * read.there
    alpha = Inverse(gram_of(seen, amplitudes)).times(left[:, :, None])[:, :, 0] * read.there
    weighted = alpha * seen.trust
    along = (weighted[:, None] @ read.along)[:, 0]
    columns = batch.columns
    solved.taste[columns] += np.float32(amplitudes.taste) * along @ space.factor.T
    solved.turn[columns] = np.float32(amplitudes.cosine) * (weighted[:, None] @ read.directions)[:, 0]
    solved.bias[columns] += np.float32(amplitudes.bias) * alpha.sum(1)
    there = batch.there
    solved.pull[batch.places[there]] = np.float32(amplitudes.local) * weighted[there]


def said_by(weights: Floats, codes: Floats) -> Floats:
    """(B, n): what weights (B, width + 1) say of codes (B, n, width)."""
    said: Floats = (codes @ weights[:, :-1, None])[:, :, 0] + weights[:, -1:]
    return said


def gram_of(seen: BatchSeen, amplitudes: Amplitudes) -> Floats:
    """(B, n, n): the kernel between the rows of each column, with noise; 1 on the diagonal where it is padded."""
    gram = kernel_of(amplitudes, seen, seen)
    diagonals(gram)[:] += np.where(seen.there, np.float32(amplitudes.noise), np.float32(1))
    return gram


def kernel_of(amplitudes: Amplitudes, some: BatchSeen, others: BatchSeen) -> Floats:
    """(B, m, n): `kernel.kernel_between` for each column, and 0 where it is padded."""
    cosines = inner_products(some.directions, others.directions)
    inner = inner_products(some.along, others.along)
    inner *= np.float32(amplitudes.taste)
    inner += np.float32(amplitudes.cosine) * cosines
    if amplitudes.local:
        inner += np.float32(amplitudes.local) * local_kernel(cosines)
    inner *= some.trust[:, :, None]
    inner *= others.trust[:, None, :]
    inner += np.float32(amplitudes.bias) * (some.there[:, :, None] & others.there[:, None, :])
    return inner


def inner_products(some: Floats, others: Floats) -> Floats:
    """(B, m, k) and (B, n, k) -> (B, m, n)"""
    return np.asarray(np.matmul(some, others.transpose(0, 2, 1)))


def diagonals(matrices: Floats) -> Floats:
    """(B, n) of (B, n, n), to be read and written."""
    return np.asarray(np.einsum("bii->bi", matrices))
