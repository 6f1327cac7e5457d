"""The decoders of all trained columns at once: the same closed form as `kernel.Posterior`, in batches of columns."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cofill.data.sparse import SparseRows
from cofill.models.decoder.kernel import (
    MOST_LOCAL,
    SHARPNESS,
    SHORT,
    Amplitudes,
    CodeSpace,
    Expected,
    Posterior,
    in_primal,
)
from cofill.threads import one_blas_thread

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]

# Numbers in a batch of square matrices: a batch of short columns is large enough to be worth a call of torch, and
# that of long ones small enough to stay in the processor's cache.
_NUMBERS = 1_000_000
_EXPECTED_AT_ONCE = 4096  # columns
_CODE_NUMBERS = 2_000_000  # of which a dozen such arrays are there at a time


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch and of BLAS: those of small batches wait for each other, spinning, longer than they work.

    On MovieLens-100K a training took 25 and 26 s with two of torch, 13 and 14 s with one, in one run.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(before)


class Without(NamedTuple):
    """Rows, each without one of its ratings."""

    codes: Tensor  # (n, width)
    means: Floats  # (n,) scaled
    counts: Longs  # (n,): how many ratings they have then
    described: npt.NDArray[np.bool_]  # (n,): whether they have side features


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
    def there(self) -> npt.NDArray[np.bool_]:
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


class BatchKernel(NamedTuple):
    """What the kernel between the rows of each column of a batch is made of; padded places have trust 0."""

    along: Tensor  # (B, n, directions)
    directions: Tensor  # (B, n, width)
    codes: Tensor  # (B, n, width)
    counts: Tensor  # (B, n): ratings of the rows
    described: Tensor  # (B, n)
    targets: Tensor  # (B, n)
    there: Tensor  # (B, n)

    def trust(self, amplitudes: Amplitudes) -> Tensor:
        """(B, n): `Amplitudes.trust` in torch, and 0 where it is padded."""
        odds = ((self.counts + amplitudes.features * self.described) / max(amplitudes.half, 1e-12)) ** amplitudes.power
        return (1 - 1 / (1 + odds)) * self.there


def read_batch(
    batch: ColumnBatch, by_column: SparseRows, space: CodeSpace, left_out: LeftOut, scaled: Floats
) -> BatchKernel:
    """`scaled` (ratings,): ratings of all columns, scaled, with nothing taken off."""
    there = batch.there
    places = np.maximum(batch.places, 0).ravel()
    columns = np.repeat(batch.columns, there.shape[1]).astype(np.int32)
    without = left_out(by_column.indices[places], columns, by_column.values[places])
    shape = there.shape
    targets = torch.from_numpy(np.where(there, (scaled[places] - without.means).reshape(shape), np.float32(0)))
    along, directions = in_space(space, without.codes)
    return BatchKernel(
        along.view(*shape, -1),
        directions.view(*shape, -1),
        without.codes.view(*shape, -1),
        torch.from_numpy(without.counts.astype(np.float32)).view(shape),
        torch.from_numpy(without.described).view(shape),
        targets,
        torch.from_numpy(there),
    )


def in_space(space: CodeSpace, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Codes (n, width) -> along (n, directions) and directions (n, width): `CodeSpace` in torch."""
    factor = torch.from_numpy(space.factor)
    centred = codes - torch.from_numpy(space.centre)
    return torch.addmm(factor[-1], codes, factor[:-1]), centred / centred.norm(dim=1, keepdim=True).clamp_min(1e-6)


@torch.no_grad()
def solve_columns(
    by_column: SparseRows,
    scaled: Floats,
    space: CodeSpace,
    amplitudes: Amplitudes,
    left_out: LeftOut,
    expected: Callable[[Longs], tuple[Floats, Floats]],
    share_done: Callable[[float], None] | None = None,
) -> DecodedColumns:
    """Of every column. `expected` tells weights (n, width + 1) and biases (n,) of columns by their features."""
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
    counts = by_column.counts()
    alone = (counts > MOST_LOCAL) | np.array([in_primal(amplitudes, int(n), space) for n in counts], np.bool_)
    together = (counts > 0) & ~alone
    short = amplitudes.for_column(SHORT)
    work, done = max(float((counts.astype(np.float64) ** 1.5).sum()), 1.0), 0.0
    for own, chosen in ((short, together & (counts <= SHORT)), (amplitudes, together & (counts > SHORT))):
        for batch in batches(by_column, np.flatnonzero(chosen), width):
            read = read_batch(batch, by_column, space, left_out, scaled)
            _solve_batch(batch, read, space, own, *expected(batch.columns), solved)
            done += float((counts[batch.columns].astype(np.float64) ** 1.5).sum())
            if share_done is not None:
                share_done(min(done / work, 1.0))
    for column in np.flatnonzero(alone).tolist():
        known = slice(int(by_column.indptr[column]), int(by_column.indptr[column + 1]))
        rows, ratings = by_column.row(column)
        without = left_out(rows, np.full(len(rows), column, np.int32), ratings)
        seen = space.seen(without.codes.numpy(), amplitudes.trust(without.counts, without.described))
        weights, biases = expected(np.array([column]))
        about = Expected(weights[0], float(biases[0]))
        found = Posterior(space, amplitudes, seen, scaled[known] - without.means, about).decoded()
        solved.taste[column], solved.turn[column], solved.bias[column] = found.taste, found.turn, found.bias
        solved.pull[known] = found.pull
        done += float(counts[column]) ** 1.5
        if share_done is not None:
            share_done(min(done / work, 1.0))
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
    about, offset = torch.from_numpy(weights), torch.from_numpy(biases)
    said = torch.bmm(read.codes, about[:, :-1, None])[:, :, 0] + about[:, -1:]
    trust = read.trust(amplitudes)
    left = (read.targets - offset[:, None] - amplitudes.mean * trust * said) * read.there
    alpha = cholesky_solved(gram_of(read, trust, amplitudes), left[:, :, None])[:, :, 0] * read.there
    weighted = alpha * trust
    along = torch.bmm(weighted[:, None], read.along)[:, 0]
    columns = batch.columns
    solved.taste[columns] += (amplitudes.taste * along @ torch.from_numpy(space.factor).T).numpy()
    solved.turn[columns] = (amplitudes.cosine * torch.bmm(weighted[:, None], read.directions)[:, 0]).numpy()
    solved.bias[columns] += (amplitudes.bias * alpha.sum(1)).numpy()
    there = batch.there
    solved.pull[batch.places[there]] = (amplitudes.local * weighted).numpy()[there]


def gram_of(read: BatchKernel, trust: Tensor, amplitudes: Amplitudes) -> Tensor:
    """(B, n, n): the kernel between the rows of each column, with noise; 1 on the diagonal where it is padded."""
    cosines = torch.bmm(read.directions, read.directions.transpose(1, 2))
    inner = torch.baddbmm(
        cosines, read.along, read.along.transpose(1, 2), beta=amplitudes.cosine, alpha=amplitudes.taste
    )
    if amplitudes.local:
        inner += amplitudes.local * torch.exp(SHARPNESS * (cosines - 1))
    inner *= trust[:, :, None]
    inner *= trust[:, None, :]
    there = read.there.float()
    inner += amplitudes.bias * there[:, :, None] * there[:, None, :]
    inner.diagonal(dim1=1, dim2=2).add_(torch.where(read.there, amplitudes.noise, 1.0))
    return inner


class Inverse:
    """K^-1 of positive definite K (B, n, n), for as many right sides as are asked for.

    In double precision where rounding would spoil single.
    """

    def __init__(self, gram: Tensor) -> None:
        self._type = gram.dtype
        self._factor, failed = torch.linalg.cholesky_ex(gram)
        self._exact: Tensor | None = None
        if bool(failed.any()):
            self._exact = gram.double()
            # Rounding has changed the kernel by as much: where it did harm, it is taken for noise.
            rounding = (failed > 0) * gram.shape[-1] * 1.2e-7 * gram.diagonal(dim1=1, dim2=2).amax(1)
            self._exact.diagonal(dim1=1, dim2=2).add_(rounding[:, None])

    def times(self, right: Tensor) -> Tensor:
        """(B, n, m) -> (B, n, m)"""
        if self._exact is None:
            return torch.cholesky_solve(right, self._factor)
        solved: Tensor = torch.linalg.solve(self._exact, right.double())
        return solved.to(self._type)


def cholesky_solved(gram: Tensor, right: Tensor) -> Tensor:
    """K^-1 right, for positive definite K (B, n, n)."""
    return Inverse(gram).times(right)
