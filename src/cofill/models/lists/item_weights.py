"""The list scorer of every model: a linear autoencoder over items, in closed form (weighted, low-rank EASE).

x (items,) are the grades of what somebody did, 0 elsewhere, and a constant 1 at the end, which learns what is popular.
B (items + 1, items) predicts each of them from the others by ridge regression, and the score of an item is what is
predicted of it, divided by the number of its ratings to a small power, so that what everybody knows does not fill
every list. With the weight of each user w_u = (ratings of u / the mean)^-user_power, so that a few who have seen
everything do not speak for all:

    G = X' W X                                   Lambda = penalty * mean(diag(X' X)) + share * diag(G)
    P = (G + Lambda)^-1                          B_ij = -P_ij / P_jj, 0 where i = j
    score_j = n_j^-popularity * sum_i x_i B_ij

G is kept as F F' + a diagonal, where F (items + 1, rank) holds its largest eigenvectors, scaled. Then, exactly,

    D = max(diag(G) - rowsums(F^2), 0) + Lambda      L L' = I + F' D^-1 F      Q = D^-1 F L^-T
    P = D^-1 - Q Q'                                  B_ij = Q_i . Q_j / P_jj

so that somebody's code is the sum of x_i Q_i, and scores are a product with the vectors of the items: a catalogue
with at most `rank` items gets EASE itself, and cost and memory are linear in the catalogue beyond that.

Related work: Steck 2019 (EASE), 2020 (EDLAE); Woodbury's identity does the rest.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange, total
from cofill.models.draws import Keys, draws_of, normal_rows, seed_of
from cofill.threads import one_blas_thread
from cofill.workers import cores

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]

Done = Callable[[float], None]
"""Called with the share done."""

# Directions beyond the rank, and passes over the data: more of either changed no list that was looked at.
_OVERSAMPLED = 32
_PASSES = 3
# Directions with less than this share of the greatest eigenvalue are rounding of single precision.
_ROUNDING = 1e-7
# Rows of a tall matrix that are turned into double precision at once.
_ROWS_AT_ONCE = 4096
_DRAW, _CONSTANT_KEY = 0x11575, np.uint64(0xC0157A)
# Columns that a thread works on at once: the rows of so many columns of a large catalogue stay in the cache.
_STRIP = 64


class Penalties(NamedTuple):
    """How the closed form is regularised."""

    rank: int = 1024
    penalty: float = 3.3
    """Ridge penalty, in the sums of squared grades that an item has on average."""
    share: float = 1.0
    """Ridge penalty, as a share of an item's own diag(G): what dropout of its ratings would give."""
    user_power: float = 0.25
    popularity: float = 0.15


class ItemVectors(NamedTuple):
    """What is known of one item: how it speaks, and how it is scored."""

    as_input: Floats  # (rank,): what it adds to somebody's code, for a grade of 1
    as_target: Floats  # (rank,): its score is the product of this with somebody's code


@dataclass(frozen=True)
class ItemWeights:
    """A fitted scorer: arrays of the items that it was fitted on, and what folds in others."""

    vectors: Floats  # (items + 1, rank): Q; the last one is that of the constant
    diagonal: Floats  # (items + 1,): D
    gains: Floats  # (items,): n^-popularity / P_jj; 0 for an item without ratings
    ratings: Ints  # (items,): n, how many people did something with it
    lift: Floats  # (rank, rank): L' (F'F)^-1, from sums of codes to F
    turn: Floats  # (rank, rank): L^-T, from F to D Q
    ridge: float  # the penalty that is the same for all items
    mean_ratings: float  # of a user, to weigh users that come later
    penalties: Penalties

    @classmethod
    @one_blas_thread()
    def fit(
        cls,
        graded: SparseRows,
        penalties: Penalties,
        seed: int,
        done: Done,
        threads: int = 0,
        *,
        keys: Keys | None = None,
        exchange: Exchange = ALONE,
    ) -> "ItemWeights":
        """From grades (users x items). `keys` (items,) are what is drawn by; other processes may have other users."""
        counts = graded.counts()
        ratings = exchange.sum_(np.bincount(graded.indices, minlength=graded.columns).astype(np.int64))
        known_items = max(1, int((ratings > 0).sum()))
        squares = (graded.values.astype(np.float64) ** 2).sum()
        everything, people, squares = total(exchange, graded.nnz, (counts > 0).sum(), squares)
        mean_ratings = everything / max(1.0, people)
        ridge = penalties.penalty * squares / known_items
        weighted = _with_constant(graded, user_weights(counts, mean_ratings, penalties.user_power))
        own = np.bincount(weighted.indices, weighted.values.astype(np.float64) ** 2, minlength=weighted.columns)
        own = exchange.sum_(own.astype(np.float64))  # without a single entry, numpy counts in integers
        keys = _by_number(graded.columns) if keys is None else keys
        factor = gram_factor(
            weighted, min(penalties.rank, weighted.columns), seed, done, threads,
            keys=np.append(keys, _CONSTANT_KEY), exchange=exchange,
        )  # fmt: skip
        left_over = np.maximum(own - np.einsum("ij,ij->i", factor, factor, dtype=np.float64), 0.0)
        diagonal = left_over + ridge + penalties.share * own
        rank = factor.shape[1]
        lengths = np.einsum("ij,ij->j", factor, factor, dtype=np.float64)  # F'F is diagonal
        scaled = factor / diagonal[:, None].astype(np.float32)
        inner = np.eye(rank) + (factor.T @ scaled).astype(np.float64)
        del factor
        lower = np.linalg.cholesky((inner + inner.T) / 2)
        turn = np.linalg.inv(lower).T
        vectors = _times(scaled, turn, threads)
        own_precision = 1.0 / diagonal - np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        own_precision = np.maximum(own_precision, 1e-3 / diagonal)  # rounding; above 0 in exact arithmetic
        inverse = np.divide(1.0, lengths, out=np.zeros(rank), where=lengths > 1e-6 * lengths.max(initial=1e-30))
        gains = np.where(ratings > 0, np.maximum(ratings, 1.0) ** -penalties.popularity / own_precision[:-1], 0.0)
        done(1.0)
        return cls(
            vectors=vectors,
            diagonal=diagonal.astype(np.float32),
            gains=gains.astype(np.float32),
            ratings=ratings.astype(np.int32),
            lift=(lower.T * inverse).astype(np.float32),
            turn=turn.astype(np.float32),
            ridge=float(ridge),
            mean_ratings=float(mean_ratings),
            penalties=penalties,
        )

    @property
    def items(self) -> int:
        return len(self.gains)

    @property
    def rank(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def constant(self) -> Floats:
        """(rank,): the code of somebody who did nothing."""
        vector: Floats = self.vectors[-1]
        return vector

    def folded_in(self, item: int, users: SparseRows, grades: Floats, ratings: int) -> ItemVectors:
        """An item from the grades (n,) that it has from n users, and theirs of the items that were fitted.

        One that was fitted, with the grades that it had then, gets the vectors that it had. `item` is -1 for another.
        """
        weights = user_weights(users.counts(), self.mean_ratings, self.penalties.user_power).astype(np.float32)
        own = float((weights * grades**2).sum(dtype=np.float64))
        spread = np.repeat((weights * grades).astype(np.float64), users.counts()) * users.values
        together: Doubles = np.bincount(users.indices, spread, minlength=self.items + 1).astype(np.float64)
        together[-1] = float((weights * grades).sum(dtype=np.float64))
        code = (together.astype(np.float32) * self.diagonal) @ self.vectors
        factor = code @ self.lift
        left_over = max(own - float(factor @ factor), 0.0)
        diagonal = left_over + self.ridge + self.penalties.share * own
        plain: Floats = (factor @ self.turn).astype(np.float32)
        target: Floats = plain
        if item >= 0 and self.gains[item] > 0:  # what it said of itself is taken out first
            before, d = self.vectors[item], float(self.diagonal[item])
            share = d * float(before @ plain) / max(1 - d * float(before @ before), 1e-6)
            target = (plain + before * np.float32(share)).astype(np.float32)
        speaks = target / np.float32(diagonal + float(plain @ target))
        scored = target * np.float32(max(ratings, 1) ** -self.penalties.popularity)
        return ItemVectors(speaks.astype(np.float32), scored.astype(np.float32))

    def arrays(self) -> Arrays:
        numbers = [self.ridge, self.mean_ratings]
        return {
            "vectors": self.vectors,
            "diagonal": self.diagonal,
            "gains": self.gains,
            "ratings": self.ratings,
            "lift": self.lift,
            "turn": self.turn,
            "numbers": np.array(numbers, np.float64),
            "penalties": np.array(self.penalties, np.float64),
        }

    @classmethod
    def restored(cls, arrays: Arrays) -> "ItemWeights":
        """ValueError where the arrays do not fit together."""
        rank, *others = arrays["penalties"].tolist()
        ridge, mean_ratings = arrays["numbers"].tolist()
        found = cls(
            vectors=arrays["vectors"],
            diagonal=arrays["diagonal"],
            gains=arrays["gains"],
            ratings=arrays["ratings"],
            lift=arrays["lift"],
            turn=arrays["turn"],
            ridge=ridge,
            mean_ratings=mean_ratings,
            penalties=Penalties(int(rank), *others),
        )
        items, width = found.items, found.vectors.shape[1]
        if (
            found.vectors.shape != (items + 1, width)
            or found.diagonal.shape != (items + 1,)
            or len(found.ratings) != items
        ):
            raise ValueError("the vectors of the list scorer are of another number of items")
        if found.lift.shape != (width, width) or found.turn.shape != (width, width):
            raise ValueError("the matrices of the list scorer differ in width")
        return found


def user_weights(counts: Longs, mean: float, power: float) -> Doubles:
    """(users,): by their ratings; 0 for somebody without any."""
    weights: Doubles = np.where(counts > 0, (np.maximum(counts, 1) / mean) ** -power, 0.0)
    return weights


def _with_constant(graded: SparseRows, weights: Doubles) -> SparseRows:
    """sqrt(W) [X, 1]: the column of ones comes last in each row, and users without ratings have none."""
    counts = graded.counts()
    rated = counts > 0
    indptr = np.concatenate([[0], np.cumsum(counts + rated)])
    indices = np.full(int(indptr[-1]), graded.columns, np.int32)
    values = np.ones(len(indices), np.float32)
    places = np.arange(graded.nnz) + np.repeat(indptr[:-1] - graded.indptr[:-1], counts)
    indices[places], values[places] = graded.indices, graded.values
    values *= np.repeat(np.sqrt(weights), counts + rated).astype(np.float32)
    return SparseRows(indptr.astype(np.int64), indices, values, graded.columns + 1)


def gram_factor(
    rows: SparseRows,
    rank: int,
    seed: int,
    done: Done,
    threads: int = 0,
    *,
    keys: Keys | None = None,
    exchange: Exchange = ALONE,
) -> Floats:
    """(columns, up to rank): F with F F' close to the best approximation of that rank to G = X'X, and F'F diagonal.

    Block power iteration from random directions, and from its last pass Nystroem's approximation in their range B,
    G B (B' G B)^-1 B' G, which never exceeds G. Where there are as many directions as columns, it is G itself.
    First directions are drawn by the keys of the columns. G is the sum of those of all processes.
    """
    if rank + _OVERSAMPLED >= rows.columns:
        gram = exchange.sum_(gram_times(rows, np.eye(rows.columns, dtype=np.float32), threads)).astype(np.float64)
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        done(0.5)
        scaled = vectors[:, ::-1][:, :rank] * np.sqrt(np.maximum(values[::-1][:rank], 0.0))
        return np.asarray(scaled, np.float32)
    counts = exchange.sum_(np.bincount(rows.indices, minlength=rows.columns).astype(np.int64))
    order = np.argsort(-counts, kind="stable")
    by_popularity = _renumbered(rows, order)
    keys = _by_number(rows.columns) if keys is None else keys
    basis = normal_rows(seed_of(seed, _DRAW), keys[order], rank + _OVERSAMPLED)
    image = exchange.sum_(gram_times(by_popularity, basis, threads))
    for number in range(1, _PASSES):
        done(number / (_PASSES + 1))
        # Singular vectors of the image are close to eigenvectors of G: single precision does for each of them.
        basis = _times(image, _inverse_root(_products(image, image, threads), _ROUNDING**2), threads)
        image = exchange.sum_(gram_times(by_popularity, basis, threads))
    done(_PASSES / (_PASSES + 1))
    root = _inverse_root(_products(basis, image, threads), _ROUNDING)
    del basis
    found = np.linalg.eigh(root.T @ _products(image, image, threads) @ root)[1]
    image = _times(image, root @ found[:, ::-1][:, :rank], threads)
    factor = np.empty(image.shape, np.float32)
    factor[order] = image
    return factor


def _by_number(count: int) -> Keys:
    """Keys of items without ids."""
    return draws_of(np.uint64(0), np.arange(count, dtype=np.uint64))


def _renumbered(rows: SparseRows, order: Longs) -> SparseRows:
    """With columns in another order: what most rows have side by side stays in the cache."""
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return SparseRows(rows.indptr, place[rows.indices], rows.values, rows.columns)


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

    with _pool(threads) as pool:
        at_once = threads or cores()  # a part is as large as the sum
        for place in range(0, len(firsts), at_once):
            for product in pool.map(part, firsts[place : place + at_once]):
                summed += product
    return summed


def _times(tall: Floats, small: Doubles, threads: int) -> Floats:
    """T S for a tall T and an S that is not wider, in the memory of T: a second one would be the most there is."""
    own, width = small.astype(np.float32), small.shape[1]

    def part(first: int) -> None:
        some = tall[first : first + _ROWS_AT_ONCE]
        some[:, :width] = some @ own

    with _pool(threads) as pool:
        list(pool.map(part, range(0, len(tall), _ROWS_AT_ONCE)))
    return tall[:, :width]


def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads or cores(), thread_name_prefix="cofill-lists")


def _inverse_root(matrix: Doubles, least: float) -> Doubles:
    """(width, up to width): R with R' M R = I for a symmetric M, without directions below that share of the greatest
    eigenvalue.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = values > least * values.max(initial=0.0)
    root: Doubles = vectors[:, kept] / np.sqrt(values[kept])
    return root[:, ::-1]


def gram_times(rows: SparseRows, matrix: Floats, threads: int = 0) -> Floats:
    """X'X M (columns, width) for a sparse X (rows, columns) and M (columns, width), without X M in memory.

    Threads share out the columns of M, so that they write to different memory and need no lock.
    """
    product = np.empty_like(matrix)

    def work(first: int) -> None:
        strip = np.ascontiguousarray(matrix[:, first : first + _STRIP])
        out = np.zeros_like(strip)
        _gram_times(rows.indptr, rows.indices, rows.values, strip, out)
        product[:, first : first + _STRIP] = out

    with _pool(threads) as pool:
        list(pool.map(work, range(0, matrix.shape[1], _STRIP)))
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
