"""Gram matrices G = X'X of sparse data: whole, their inverse, their leading directions, and vectors of items."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.rng import Keys, draws_of, normal_rows, seed_of
from cofill.threads import one_blas_thread
from cofill.workers import cores

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")

Done = Callable[[float], None]
"""Called with the share done."""

# Directions beyond the rank, and passes over the data: more of either changed no list that was looked at.
_OVERSAMPLED = 32
_PASSES = 3
# Columns, the most frequent ones, that directions are sought in; the others follow from them in the last pass
# (Nystroem). So only that pass grows with a wide catalogue, most of whose items have a rating or two.
_SOUGHT_IN = 20_000
# Directions with less than this share of the greatest eigenvalue are rounding of single precision.
_ROUNDING = 1e-7
# Rows of a tall matrix that are turned into double precision at once, or of a square one that a thread works on.
_ROWS_AT_ONCE = 4096
_ROWS_OF_SQUARE = 512
# Rows of a square matrix that are eliminated at once.
_BLOCK = 256
# Directions that items are compared along.
_EMBEDDING = 64
_DRAW = 0x11575
# Columns that a thread works on at once: the rows of so many columns of a large catalogue stay in the cache.
_STRIP = 64


def unseen(share: float) -> None:
    """Shows nothing."""


class FitOptions(NamedTuple):
    """How something is fitted."""

    seed: int = 0
    threads: int = 0
    """0: all cores at hand."""
    done: Done = unseen
    exchange: Exchange = ALONE
    """With the processes that have other users."""


def in_threads(work: Callable[[_Part], _Result], parts: Iterable[_Part], threads: int) -> list[_Result]:
    """What `work` makes of each part, in their order. `threads` 0: all cores at hand."""
    if threads == 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads or cores(), thread_name_prefix="cofill-models") as pool:
        return list(pool.map(work, parts))


def as_csr(rows: SparseRows, columns: int | None = None) -> "csr_array":
    """The same for scipy, with so many columns."""
    from scipy.sparse import csr_array

    shape = rows.rows, rows.columns if columns is None else columns
    return csr_array((rows.values, rows.indices, rows.indptr), shape=shape)


def sparse_times(rows: SparseRows, matrix: "Floats | csr_array") -> Floats:
    """X M (rows, width) for a sparse X (rows, columns) and M, which may have rows beyond those columns."""
    product = as_csr(rows, matrix.shape[0]) @ matrix
    return np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), np.float32)


def gram_of(rows: SparseRows, kind: type[np.floating[Any]], threads: int = 0) -> npt.NDArray[Any]:
    """X'X (columns, columns), in single or double precision."""
    matrix = as_csr(rows).astype(kind)
    by_column = matrix.T.tocsr()
    gram = np.empty((rows.columns, rows.columns), kind)

    def part(first: int) -> None:
        gram[first : first + _ROWS_OF_SQUARE] = (by_column[first : first + _ROWS_OF_SQUARE] @ matrix).toarray()

    in_threads(part, range(0, rows.columns, _ROWS_OF_SQUARE), threads)
    return gram


@one_blas_thread()
def regression_weights(ridged: npt.NDArray[Any], threads: int = 0) -> tuple[Floats, Doubles]:
    """B (n, n) with B_ij = -P_ij / P_jj and 0 on the diagonal, and the diagonal of P (n,).

    P is the inverse of a positive definite matrix, which is overwritten.

    It is swept block by block; of what is symmetric, only the lower half is kept up to date.
    """
    size = len(ridged)

    def update(first: int) -> None:
        last = min(first + _ROWS_OF_SQUARE, size)
        ridged[first:last, :last] -= rows[:, first:last].T @ solved[:, :last]

    for start in range(0, size, _BLOCK):
        end = min(start + _BLOCK, size)
        inverse = np.linalg.inv(ridged[start:end, start:end])
        rows = np.concatenate([ridged[start:end, :end], ridged[end:, start:end].T], axis=1)
        solved = inverse @ rows
        in_threads(update, range(0, size, _ROWS_OF_SQUARE), threads)
        ridged[start:end, :end], ridged[end:, start:end] = solved[:, :end], solved[:, end:].T
        ridged[start:end, start:end] = -inverse
    precision = -ridged.diagonal().astype(np.float64)  # a sweep of all leaves the inverse with its sign turned
    # In the memory of the matrix: a second one may be all that there is.
    for start in range(0, size, _BLOCK):
        end = min(start + _BLOCK, size)
        ridged[start:end, end:] = ridged[end:, start:end].T
        inside = np.tril(ridged[start:end, start:end], -1)
        ridged[start:end, start:end] = inside + inside.T
    ridged /= precision.astype(ridged.dtype)
    return np.asarray(ridged, np.float32), precision


def gram_factor(rows: SparseRows, rank: int, keys: Keys, how: FitOptions) -> Floats:
    """(columns, up to rank): F with F F' close to the best approximation of that rank to G = X'X, and F'F diagonal.

    First directions are drawn by the keys of the columns. G is the sum of those of all processes.
    """
    counts = how.exchange.all_reduce(np.bincount(rows.indices, minlength=rows.columns).astype(np.int64))
    order = np.argsort(-counts, kind="stable")  # what most rows have side by side stays in the cache
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    by_popularity = SparseRows(rows.indptr, place[rows.indices], rows.values, rows.columns)
    frequent = _first_columns(by_popularity, _SOUGHT_IN)

    def times(matrix: Floats, *, every: bool = False) -> Floats:
        return how.exchange.all_reduce(gram_times(by_popularity if every else frequent, matrix, how.threads))

    found = leading(times, keys[order][: frequent.columns], rank, how, lambda matrix: times(matrix, every=True))
    factor = np.empty(found.shape, np.float32)
    factor[order] = found
    return factor


def _first_columns(rows: SparseRows, count: int) -> SparseRows:
    if rows.columns <= count:
        return rows
    kept = rows.indices < count
    indptr = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    return SparseRows(indptr, rows.indices[kept], rows.values[kept], count)


def leading(
    times: Callable[[Floats], Floats],
    keys: Keys,
    rank: int,
    how: FitOptions,
    last: Callable[[Floats], Floats] | None = None,
) -> Floats:
    """F (n, up to rank) of a G of which only products are known: `times` those of its first columns with each other,
    which have the keys, and `last` those of all columns with these, unless these are all.

    Block power iteration from random directions, and from its last pass Nystroem's approximation in their range B,
    G B (B' G B)^-1 B' G, which never exceeds G. Where there are as many directions as columns, it is G itself.
    """
    seed, threads, done, _ = how
    if rank + _OVERSAMPLED >= len(keys):
        gram = times(np.eye(len(keys), dtype=np.float32)).astype(np.float64)
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        done(0.5)
        scaled = vectors[:, ::-1][:, :rank] * np.sqrt(np.maximum(values[::-1][:rank], 0.0))
        return np.asarray(scaled, np.float32)
    basis = normal_rows(seed_of(seed, _DRAW), keys, rank + _OVERSAMPLED)
    for number in range(1, _PASSES):
        image = times(basis)
        done(number / (_PASSES + 1))
        # Singular vectors of the image are close to eigenvectors of G: single precision does for each of them.
        basis = tall_times(image, _inverse_root(_products(image, image, threads), _ROUNDING**2), threads)
    image = (last or times)(basis)
    done(_PASSES / (_PASSES + 1))
    root = _inverse_root(_products(basis, image[: len(basis)], threads), _ROUNDING)
    del basis
    found = np.linalg.eigh(root.T @ _products(image, image, threads) @ root)[1]
    return tall_times(image, root @ found[:, ::-1][:, :rank], threads)


def keys_by_number(count: int) -> Keys:
    """Keys of items without ids."""
    return draws_of(np.uint64(0), np.arange(count, dtype=np.uint64))


def _products(left: Floats, right: Floats, threads: int) -> Doubles:
    """L'R (width, width) of tall matrices, in double precision without a copy of them in it.

    The same to the bit for any number of threads: parts are of the same rows, and added up in their order.
    """
    summed = np.zeros((left.shape[1], right.shape[1]))
    firsts = range(0, len(left), _ROWS_AT_ONCE)

    def part(first: int) -> Doubles:
        some = left[first : first + _ROWS_AT_ONCE].astype(np.float64)
        product: Doubles = some.T @ (some if left is right else right[first : first + _ROWS_AT_ONCE].astype(np.float64))
        return product

    at_once = threads or cores()  # a part is as large as the sum
    for place in range(0, len(firsts), at_once):
        for product in in_threads(part, firsts[place : place + at_once], threads):
            summed += product
    return summed


def tall_times(tall: Floats, small: Doubles, threads: int) -> Floats:
    """T S for a tall T and an S that is not wider, in the memory of T: a second one would be the most there is."""
    own, width = small.astype(np.float32), small.shape[1]

    def part(first: int) -> None:
        some = tall[first : first + _ROWS_AT_ONCE]
        some[:, :width] = some @ own

    in_threads(part, range(0, len(tall), _ROWS_AT_ONCE), threads)
    return tall[:, :width]


def _inverse_root(matrix: Doubles, least: float) -> Doubles:
    """(width, up to width): R with R' M R = I for a symmetric M, without directions below that share of the greatest
    eigenvalue.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = values > least * values.max(initial=0.0)
    root: Doubles = vectors[:, kept] / np.sqrt(values[kept])
    return root[:, ::-1]


def gram_times(rows: SparseRows, matrix: Floats, threads: int = 0) -> Floats:
    """X'X M (columns, width) for a sparse X (rows, columns) and M (up to columns, width; zero below), without X M in
    memory.

    Threads share out the columns of M, so that they write to different memory and need no lock.
    """
    product = np.empty((rows.columns, matrix.shape[1]), np.float32)

    def work(first: int) -> None:
        strip = np.zeros((rows.columns, min(_STRIP, matrix.shape[1] - first)), np.float32)
        strip[: len(matrix)] = matrix[:, first : first + _STRIP]
        out = np.zeros_like(strip)
        _gram_times(rows.indptr, rows.indices, rows.values, strip, out)
        product[:, first : first + _STRIP] = out

    in_threads(work, range(0, matrix.shape[1], _STRIP), threads)
    return product


@compiled
def _gram_times(indptr: Longs, indices: Ints, values: Floats, strip: Floats, out: Floats) -> None:
    width = strip.shape[1]
    image = np.empty(width, np.float32)
    for row in range(len(indptr) - 1):
        start, end = indptr[row], indptr[row + 1]
        image[:] = 0
        for entry in range(start, end):
            column, value = indices[entry], values[entry]
            for place in range(width):
                image[place] += value * strip[column, place]
        for entry in range(start, end):
            column, value = indices[entry], values[entry]
            for place in range(width):
                out[column, place] += value * image[place]


class ItemEmbedding(NamedTuple):
    """A vector for every item that was fitted, by who chose it; zero for one without ratings.

    The cosines of items over users are C = N'N, where the columns of N are those of the grades at length one. Vectors
    are its largest eigenvectors, scaled: F F' is the best approximation to C of that rank. An item that came later, of
    which the cosines c with the others are known, has the vector c F (F'F)^-1.
    """

    vectors: Floats  # (items, width)
    norms: Doubles  # (items,): the length of the column of each

    @classmethod
    def of_gram(cls, gram: Floats | Doubles, keys: Keys, seed: int) -> "ItemEmbedding":
        """From the products (items, items) of columns with each other."""
        norms = np.sqrt(gram.diagonal().astype(np.float64))
        inverse = np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > 0).astype(np.float32)[:, None]

        def times(matrix: Floats) -> Floats:
            return np.asarray(inverse * (gram @ (inverse * matrix)), np.float32)

        return cls(leading(times, keys, min(_EMBEDDING, len(norms)), FitOptions(seed, threads=1)), norms)

    @classmethod
    def of(cls, graded: SparseRows, seed: int) -> "ItemEmbedding":
        """From grades (users x items)."""
        norms = column_lengths(graded)
        lengths = np.where(norms > 0, norms, 1.0)[graded.indices]
        unit = SparseRows(graded.indptr, graded.indices, (graded.values / lengths).astype(np.float32), graded.columns)
        keys = keys_by_number(graded.columns)
        return cls(gram_factor(unit, min(_EMBEDDING, len(keys)), keys, FitOptions(seed, threads=1)), norms)

    def folded_in(self, sums: Doubles, own: float) -> Floats:
        """(width,): the vector of an item, given its products (items,) with the others and with itself."""
        below = self.norms * np.sqrt(own)
        cosines = np.divide(sums, below, out=np.zeros(len(sums)), where=below > 0).astype(np.float32)
        lengths = (self.vectors.astype(np.float64) ** 2).sum(0)
        inverse = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 1e-6 * lengths.max(initial=1e-30))
        vector: Floats = ((cosines @ self.vectors) * inverse).astype(np.float32)
        return vector


def column_lengths(graded: SparseRows) -> Doubles:
    """(items,): the length of the column of grades of each item."""
    squares = np.bincount(graded.indices, graded.values.astype(np.float64) ** 2, graded.columns)
    return np.sqrt(squares.astype(np.float64))
