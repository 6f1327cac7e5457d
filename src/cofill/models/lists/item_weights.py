"""The linear models of lists, fitted: what each item that a user did says of every other.

x (items,) are the grades of what a user did, 0 elsewhere, and a constant 1 at the end, which learns what is popular.
B (items + 1, items) predicts each of them from the others by ridge regression, and the score of an item is what is
predicted of it, divided by the number of its ratings to a small power, so that the best known items do not fill
every list. With the weight of each user w_u = (ratings of u / the mean)^-user_power, so that a few who have seen
everything do not speak for all:

    G = X' W X                                   Lambda = penalty * mean(diag(X' X)) + share * diag(G)
    P = (G + Lambda)^-1                          B_ij = -P_ij / P_jj, 0 where i = j
    score_j = n_j^-popularity * sum_i x_i B_ij

A catalogue of up to twenty times `rank` items keeps B (`ExactWeights`): a low rank costs lists of a long tail a sixth
of their NDCG (Amazon Beauty, 12,101 items). That takes one matrix of items x items in single precision, 1.7 GB for
20,480 items, which the model keeps. Of a larger one G is kept as F F' + a diagonal, where F (items + 1, rank) holds
its largest eigenvectors, scaled (`LowRankWeights`). Then, exactly,

    D = max(diag(G) - rowsums(F^2), 0) + Lambda      L L' = I + F' D^-1 F      Q = D^-1 F L^-T
    P = D^-1 - Q Q'                                  B_ij = Q_i . Q_j / P_jj

so that a user's code is the sum of x_i Q_i, and scores are a product with the vectors of the items: cost and memory
are linear in the catalogue.

Related work: Steck 2019 (EASE), 2020 (EDLAE); Woodbury's identity does the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.arrays import Arrays, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange, total
from cofill.models.lists.feedback import sparse_times
from cofill.models.rng import Keys, draws_of, normal_rows, seed_of
from cofill.progress import Done, unseen
from cofill.threads import in_threads, one_blas_thread
from cofill.workers import cores

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
_PANEL = 512
# Directions that items are compared along.
_EMBEDDING = 64
_DRAW = 0x11575
# Columns that a thread works on at once: the rows of so many columns of a large catalogue stay in the cache.
_STRIP = 64
# Up to so many times the rank, a catalogue is solved exactly: 20,480 items by default, in 1.7 GB at most.
_EXACT = 20
# Directions that features tell of, where weights are exact.
_DIRECTIONS = 256
_CONSTANT_KEY = np.uint64(0xC0157A)


class FitOptions(NamedTuple):
    """How something is fitted."""

    seed: int = 0
    threads: int = 0
    """0: all cores at hand."""
    done: Done = unseen
    exchange: Exchange = ALONE
    """With the processes that have other users."""


class Penalties(NamedTuple):
    """How the closed form is regularised."""

    rank: int = 1024
    penalty: float = 3.3
    """Ridge penalty, in the sums of squared grades that an item has on average."""
    share: float = 1.0
    """Ridge penalty, as a share of an item's own diag(G): what dropout of its ratings would give."""
    user_power: float = 0.25
    popularity: float = 0.15


class FoldIn(NamedTuple):
    """The numbers of a regression that an item which comes later is added to it with."""

    ridge: float  # the penalty that is the same for all items
    mean_ratings: float = 1.0  # of a user, to weigh users that come later
    share: float = 0.0
    user_power: float = 0.0
    popularity: float = 0.0


AS_FITTED = -1


class ItemVectors(NamedTuple):
    """An item that was folded in."""

    as_input: Floats  # what it adds, for a grade of 1: to a user's code, or to the scores of the fitted items
    as_target: Floats  # its score is the product of this with a user's code, or with what they did
    embedding: Floats  # (width,): items that the same people choose have similar ones


class FoldedIn(NamedTuple):
    """Items that came or changed after the training, k of them: they take the place of those that were fitted."""

    items: Longs  # (k,)
    inputs: Floats  # (k, ...)
    targets: Floats  # (k, ...)
    place: Longs  # (all items by now,): where among these; AS_FITTED, or below it if neither is known of an item


class History(NamedTuple):
    """What n people did."""

    fitted: SparseRows  # (n, items): of the items that are as they were fitted
    trained: SparseRows  # (n, items): of all items of the training
    later: "csr_array | None"  # (n, k): of those that were folded in; None if there is none
    expected: Floats | None  # (n, code): what the features of people add to their codes


class Scores(NamedTuple):
    """Of n people."""

    fitted: Floats  # (n, items)
    later: Floats  # (n, k)
    codes: Floats  # (n, code): what features of items are scored by


@dataclass(frozen=True, eq=False)
class ItemWeights(ABC):
    """B in some form, of the items that it was fitted on, and what folds in others. A model file keeps every field."""

    ratings: Ints
    """(items,): how many people did something with each."""
    directions: Floats
    """(items + 1, code): what a grade of 1 adds to a user's code, that of the constant last. Features tell of codes."""

    @property
    def items(self) -> int:
        return len(self.ratings)

    @property
    @abstractmethod
    def widths(self) -> tuple[int, int]:
        """How many numbers an item that is folded in has as an input, and as a target."""

    @abstractmethod
    def scores(self, history: History, folded: FoldedIn) -> Scores:
        """Scores for people; what comes from an item itself is left out of its score."""

    @abstractmethod
    def target_codes(self, items: Ints | slice) -> Floats:
        """(m, code): what a code is multiplied by for the score of each of these items."""

    @abstractmethod
    def folded_codes(self, folded: FoldedIn) -> tuple[Floats, Floats]:
        """The `directions` and `target_codes` (k, code) of items that were folded in."""

    @abstractmethod
    def correct_shares(self, shares: Doubles, items: Ints, asked: Ints, folded: FoldedIn) -> None:
        """From products of codes (m, n) to what a grade of 1 of n items adds to the scores of m others, in place."""

    @abstractmethod
    def folded_in(self, item: int, users: SparseRows, grades: Floats) -> ItemVectors:
        """An item from the grades (n,) that it has from n users, and theirs of the items that were fitted.

        One that was fitted, with the grades that it had then, gets what it had. `item` is -1 for another.
        """

    @abstractmethod
    def embeddings(self) -> Floats:
        """(items, width): items that the same people choose have similar ones, by their cosines."""

    def arrays(self) -> Arrays:
        """For the model file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class _Regression(NamedTuple):
    """What is regressed: sqrt(W) [X, 1], and the penalties of its columns."""

    rows: SparseRows
    own: Doubles  # (columns,): diag(G)
    ratings: Longs  # (items,)
    numbers: FoldIn

    @classmethod
    def of(cls, graded: SparseRows, penalties: Penalties, exchange: Exchange) -> "_Regression":
        counts = graded.counts()
        ratings = exchange.all_reduce(np.bincount(graded.indices, minlength=graded.columns).astype(np.int64))
        known_items = max(1, int((ratings > 0).sum()))
        squares = (graded.values.astype(np.float64) ** 2).sum()
        everything, people, squares = total(exchange, graded.nnz, (counts > 0).sum(), squares)
        mean_ratings = everything / max(1.0, people)
        rows = _with_constant(graded, user_weights(counts, mean_ratings, penalties.user_power))
        own = np.bincount(rows.indices, rows.values.astype(np.float64) ** 2, minlength=rows.columns)
        squared = exchange.all_reduce(own.astype(np.float64))  # without a single entry, numpy counts in integers
        numbers = FoldIn(penalties.penalty * squares / known_items, mean_ratings, *penalties[2:])
        return cls(rows, squared, ratings, numbers)

    @property
    def penalties(self) -> Doubles:
        """(columns,): Lambda"""
        return self.numbers.ridge + self.numbers.share * self.own

    @property
    def held_back(self) -> Doubles:
        """(items,): what scores are multiplied by; 0 for an item without ratings."""
        return np.where(self.ratings > 0, np.maximum(self.ratings, 1.0) ** -self.numbers.popularity, 0.0)


@one_blas_thread()
def fit_weights(
    graded: SparseRows,
    penalties: Penalties,
    how: FitOptions,
    keys: Keys | None = None,
    *,
    described: bool = True,
    exact: bool | None = None,
) -> ItemWeights:
    """From grades (users x items). `keys` (items,) are what is drawn by.

    `described`: there are features of users or items. `exact`: unless given, by the size of the catalogue.
    """
    given = _Regression.of(graded, penalties, how.exchange)
    keys = np.append(keys_by_number(graded.columns) if keys is None else keys, _CONSTANT_KEY)
    if graded.columns < _EXACT * penalties.rank if exact is None else exact:
        return ExactWeights.fit(given, keys, how, described=described)
    return LowRankWeights.fit(given, penalties.rank, keys, how)


def restored_weights(arrays: Arrays) -> ItemWeights:
    """From the model file."""
    form = LowRankWeights if "lift" in arrays else ExactWeights
    return form(**{field.name: arrays[field.name] for field in fields(form)})


# Of low rank


@dataclass(frozen=True, eq=False)
class LowRankWeights(ItemWeights):
    """B as products of vectors: the directions are Q."""

    diagonal: Floats  # (items + 1,): D
    gains: Floats  # (items,): n^-popularity / P_jj; 0 for an item without ratings
    lift: Floats  # (rank, rank): L' (F'F)^-1, from sums of codes to F
    turn: Floats  # (rank, rank): L^-T, from F to D Q
    numbers: Doubles  # those of `FoldIn`

    @classmethod
    def fit(cls, given: _Regression, rank: int, keys: Keys, how: FitOptions) -> "LowRankWeights":
        factor = gram_factor(given.rows, min(rank, given.rows.columns), keys, how)
        left_over = np.maximum(given.own - np.einsum("ij,ij->i", factor, factor, dtype=np.float64), 0.0)
        diagonal = left_over + given.penalties
        rank = factor.shape[1]
        lengths = np.einsum("ij,ij->j", factor, factor, dtype=np.float64)  # F'F is diagonal
        scaled = factor / diagonal[:, None].astype(np.float32)
        inner = np.eye(rank) + (factor.T @ scaled).astype(np.float64)
        del factor
        lower = np.linalg.cholesky((inner + inner.T) / 2)
        turn = np.linalg.inv(lower).T
        vectors = tall_times(scaled, turn, how.threads)
        own_precision = 1.0 / diagonal - np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        own_precision = np.maximum(own_precision, 1e-3 / diagonal)  # rounding; above 0 in exact arithmetic
        inverse = np.divide(1.0, lengths, out=np.zeros(rank), where=lengths > 1e-6 * lengths.max(initial=1e-30))
        how.done(1.0)
        return cls(
            ratings=given.ratings.astype(np.int32),
            directions=vectors,
            diagonal=diagonal.astype(np.float32),
            gains=(given.held_back / own_precision[:-1]).astype(np.float32),
            lift=(lower.T * inverse).astype(np.float32),
            turn=turn.astype(np.float32),
            numbers=np.array(given.numbers),
        )

    @property
    def widths(self) -> tuple[int, int]:
        return self.directions.shape[1], self.directions.shape[1]

    @cached_property
    def _own(self) -> Floats:
        """(items,): what a grade of 1 adds to the score of the item itself."""
        own: Floats = self.gains * np.einsum("ij,ij->i", self.directions[:-1], self.directions[:-1])
        return own

    def scores(self, history: History, folded: FoldedIn) -> Scores:
        codes = sparse_times(history.fitted, self.directions) + self.directions[-1]
        if history.later is not None:
            codes += history.later @ folded.inputs
        if history.expected is not None:
            codes += history.expected
        scores = codes @ self.directions[:-1].T
        scores *= self.gains
        did = history.fitted
        scores[np.repeat(np.arange(did.rows), did.counts()), did.indices] -= did.values * self._own[did.indices]
        later = codes @ folded.targets.T
        if history.later is not None:
            later -= history.later.multiply(np.einsum("ij,ij->i", folded.inputs, folded.targets)).toarray()
        return Scores(scores, later, codes)

    def target_codes(self, items: Ints | slice) -> Floats:
        targets: Floats = self.directions[:-1][items] * self.gains[items, None]
        return targets

    def folded_codes(self, folded: FoldedIn) -> tuple[Floats, Floats]:
        return folded.inputs, folded.targets

    def correct_shares(self, shares: Doubles, items: Ints, asked: Ints, folded: FoldedIn) -> None:
        shares[asked[:, None] == items] = 0.0

    def folded_in(self, item: int, users: SparseRows, grades: Floats) -> ItemVectors:
        numbers = FoldIn(*self.numbers)
        own, together = weighted_sums(users, grades, numbers, self.items)
        factor = (together.astype(np.float32) * self.diagonal) @ self.directions @ self.lift
        left_over = max(own - float(factor @ factor), 0.0)
        diagonal = left_over + numbers.ridge + numbers.share * own
        plain: Floats = (factor @ self.turn).astype(np.float32)
        target: Floats = plain
        if item >= 0 and self.gains[item] > 0:  # what it said of itself is taken out first
            before, d = self.directions[item], float(self.diagonal[item])
            share = d * float(before @ plain) / max(1 - d * float(before @ before), 1e-6)
            target = (plain + before * np.float32(share)).astype(np.float32)
        speaks: Floats = (target / np.float32(diagonal + float(plain @ target))).astype(np.float32)
        scored: Floats = target * np.float32(max(len(grades), 1) ** -numbers.popularity)
        return ItemVectors(speaks, scored, scored @ self._to_axes)

    @cached_property
    def _to_axes(self) -> Floats:
        """(rank, rank): to the axes of F, whose cosine is that of the columns of X: people who chose the one chose the
        other. That of Q would say which items are left over when all others are accounted for.
        """
        return np.asarray(np.linalg.inv(self.turn), np.float32)

    def embeddings(self) -> Floats:
        embeddings: Floats = self.target_codes(slice(None)) @ self._to_axes
        return embeddings


# With a weight for every pair


@dataclass(frozen=True, eq=False)
class PairWeights(ItemWeights):
    """B itself, dense or sparse: a score is the sum of the weights of what a user did."""

    embedding: Floats  # (items, width), and the norms (items,): those of `ItemEmbedding`
    norms: Doubles

    @property
    @abstractmethod
    def matrix(self) -> "Floats | csr_array":
        """(items + 1, items): the last row is that of the constant."""

    @property
    def widths(self) -> tuple[int, int]:
        return self.items, self.items + 1

    @cached_property
    def _target_codes(self) -> Floats:
        return np.asarray(self.matrix.T @ self.directions, np.float32)

    def target_codes(self, items: Ints | slice) -> Floats:
        return self._target_codes[items]

    def folded_codes(self, folded: FoldedIn) -> tuple[Floats, Floats]:
        """What they say is known towards fitted items alone, of which codes know nothing."""
        return np.zeros((len(folded.items), self.directions.shape[1]), np.float32), folded.targets @ self.directions

    def scores(self, history: History, folded: FoldedIn) -> Scores:
        scores = sparse_times(history.fitted, self.matrix) + _dense(self.matrix[[-1]])
        if history.later is not None:
            scores += history.later @ folded.inputs
        later = sparse_times(history.trained, folded.targets.T) + folded.targets[:, -1]
        codes = sparse_times(history.fitted, self.directions) + self.directions[-1]
        if history.expected is not None:
            scores += history.expected @ self._target_codes.T
            later += history.expected @ self.folded_codes(folded)[1].T
            codes += history.expected
        return Scores(scores, later, codes)

    def correct_shares(self, shares: Doubles, items: Ints, asked: Ints, folded: FoldedIn) -> None:
        place, at = folded.place[items], folded.place[asked]
        as_fitted, changed, trained = place == AS_FITTED, place >= 0, (place >= AS_FITTED) & (items < self.items)
        fitted = asked[at == AS_FITTED]
        shares[np.ix_(at == AS_FITTED, as_fitted)] = _dense(self.matrix[items[as_fitted]][:, fitted]).T
        shares[np.ix_(at == AS_FITTED, changed)] = folded.inputs[place[changed]][:, fitted].T
        shares[np.ix_(at >= 0, trained)] = folded.targets[at[at >= 0]][:, items[trained]]

    def embeddings(self) -> Floats:
        return self.embedding


def _dense(matrix: "Floats | csr_array") -> Floats:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


@dataclass(frozen=True, eq=False)
class ExactWeights(PairWeights):
    """n^-popularity B, from one inverse; the directions are orthonormal.

    An item j that came later is added to the regression as it would have been in training, by the inverse of a block
    matrix: with g the sums of its grades times those of the others, s its squared grades, and v = P g,

        B_ij = v_i                  B_jk = v_k / r / (P_kk + v_k^2 / r)              r = s + Lambda_j - g.v

    One that was fitted is taken out first: v_i - P_ij v_j / P_jj. Weights among the others stay as they were fitted.
    """

    weights: Floats  # (items + 1, items)
    precision: Doubles  # (items + 1,): the diagonal of P
    numbers: Doubles  # those of `FoldIn`

    @classmethod
    def fit(cls, given: _Regression, keys: Keys, how: FitOptions, *, described: bool) -> "ExactWeights":
        # One matrix is all that there is: the constant is eliminated first, and the weights take the place of G.
        items, constant = given.rows.columns - 1, float(given.own[-1])
        weights = np.zeros((items + 1, items), np.float32)
        _add_gram(given.rows, weights, how.threads)
        gram, with_constant = how.exchange.all_reduce(weights)[:-1], weights[-1].copy()
        _mirror(gram, how.threads)
        how.done(0.3)
        embedding = ItemEmbedding.of_gram(gram, keys[:-1], how.seed)
        directions: Floats = np.zeros((items + 1, 0), np.float32)
        if described:
            last, quietly = np.append(with_constant, np.float32(constant))[:, None], how._replace(done=unseen)
            found = leading(
                lambda matrix: np.asarray(weights @ matrix[:-1] + last * matrix[-1], np.float32),
                keys,
                min(_DIRECTIONS, items + 1),
                quietly,
            )
            lengths = np.linalg.norm(found, axis=0)
            directions = (found / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        constant += float(given.penalties[-1])
        gram[np.diag_indices_from(gram)] += given.penalties[:-1].astype(np.float32)
        for start in range(0, items, _PANEL):
            gram[start : start + _PANEL] -= np.outer(with_constant[start : start + _PANEL], with_constant / constant)
        gains = given.held_back
        precision = regression_weights(gram, gains, how.threads)
        predicted = with_constant.astype(np.float64) - np.divide(
            with_constant @ gram, gains, out=np.zeros(items), where=gains > 0
        )
        weights[-1] = gains * predicted / constant
        own = (1.0 + float((with_constant * precision) @ predicted) / constant) / constant
        how.done(1.0)
        ratings, numbers = given.ratings.astype(np.int32), np.array(given.numbers)
        return cls(ratings, directions, *embedding, weights, np.append(precision, own), numbers)

    @property
    def matrix(self) -> Floats:
        return self.weights

    @cached_property
    def _scale(self) -> Floats:
        """(items,): n^-popularity"""
        scale: Floats = (np.maximum(self.ratings, 1.0) ** -FoldIn(*self.numbers).popularity).astype(np.float32)
        return scale

    def folded_in(self, item: int, users: SparseRows, grades: Floats) -> ItemVectors:
        numbers = FoldIn(*self.numbers)
        own, sums = weighted_sums(users, grades, numbers, self.items)
        if item >= 0:
            sums[item] = 0.0
        targets, precision = self._inverse_times(sums), self.precision
        if item >= 0:  # without itself
            column: Doubles = -self.weights[:, item].astype(np.float64)  # P e_item
            column *= precision[item] / self._scale[item]
            column[item] = precision[item]
            targets -= column * (targets[item] / column[item])
            precision = precision - column**2 / column[item]
            targets[item] = precision[item] = 0.0
        rest = (1 + numbers.share) * own + numbers.ridge - float(sums @ targets)
        rest = max(rest, 1e-3 * numbers.ridge)  # rounding; at least the ridge in exact arithmetic
        below = precision + targets**2 / rest
        inputs = np.divide(targets / rest, below, out=np.zeros_like(targets), where=below > 0)[:-1] * self._scale
        scored = targets * max(len(grades), 1) ** -numbers.popularity
        embedding = ItemEmbedding(self.embedding, self.norms).folded_in(sums[:-1], own)
        return ItemVectors(inputs.astype(np.float32), scored.astype(np.float32), embedding)

    def _inverse_times(self, vector: Doubles) -> Doubles:
        """P v (items + 1,)."""
        precision, unscaled = self.precision, vector[:-1] / self._scale
        image = precision * vector
        image[:-1] -= precision[:-1] * (vector.astype(np.float32) @ self.weights) / self._scale
        image[-1] -= self.weights[-1].astype(np.float64) @ (precision[:-1] * unscaled)
        return image


def weighted_sums(users: SparseRows, grades: Floats, numbers: FoldIn, items: int) -> tuple[float, Doubles]:
    """For an item with grades (n,) of n users: its squared grades, and (items + 1,) its grades times what these users
    did, the constant last; added up over users by their weights.
    """
    power = numbers.user_power
    counts = users.counts() if power else np.ones(users.rows, np.int64)  # one who did nothing else counts, too
    weights = user_weights(counts, numbers.mean_ratings, power).astype(np.float32)
    spread = np.repeat((weights * grades).astype(np.float64), users.counts()) * users.values
    together: Doubles = np.bincount(users.indices, spread, minlength=items + 1).astype(np.float64)
    together[-1] = float((weights * grades).sum(dtype=np.float64))
    return float((weights * grades**2).sum(dtype=np.float64)), together


def user_weights(counts: Longs, mean: float, power: float) -> Doubles:
    """(users,): by their ratings; 0 for one without any."""
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


# Gram matrices G = X'X of sparse data: whole, their inverse, their leading directions, and vectors of items


def gram_of(rows: SparseRows, kind: type[np.floating[Any]], threads: int = 0) -> npt.NDArray[Any]:
    """X'X (columns, columns), in single or double precision."""
    gram = np.zeros((rows.columns, rows.columns), kind)
    _add_gram(rows, gram, threads)
    _mirror(gram, threads)
    return gram


def _add_gram(rows: SparseRows, gram: npt.NDArray[Any], threads: int) -> None:
    """Add the lower half of X'X to a matrix (columns, columns or one less)."""
    from scipy.sparse import csr_array

    # As small as they may be: beside the matrix, numbers for each rating are the most memory of a training.
    places: Any = np.arange(rows.nnz, dtype=np.int32 if rows.nnz < 2**31 else np.int64)
    entries = csr_array((places, rows.indices, rows.indptr), shape=(rows.rows, rows.columns)).tocsc()
    del places

    def part(start: int) -> None:
        ends = entries.indptr[start : start + _STRIP + 1].astype(np.int64)
        strip = gram[start : start + _STRIP]
        _add_columns(ends, entries.data, entries.indices, rows.indptr, rows.indices, rows.values, strip)

    in_threads(part, range(0, rows.columns, _STRIP), threads)


@compiled
def _add_columns(
    ends: Longs, entries: Ints, of_row: Ints, indptr: Longs, indices: Ints, values: Floats, out: npt.NDArray[Any]
) -> None:
    """Add the products of some columns with those before them, which are ascending in each row. Where their entries
    are, and of which rows, stands column by column.
    """
    width = out.shape[1]
    for column in range(len(ends) - 1):
        for place in range(ends[column], ends[column + 1]):
            entry = entries[place]
            value = values[entry]
            for other in range(indptr[of_row[place]], entry + 1):
                if indices[other] < width:
                    out[column, indices[other]] += value * values[other]


def _mirror(matrix: npt.NDArray[Any], threads: int) -> None:
    """Copy the lower half of a square matrix to the upper one."""

    def part(start: int) -> None:
        end = start + _PANEL
        matrix[start:end, end:] = matrix[end:, start:end].T
        inside = matrix[start:end, start:end]
        inside[:] = np.tril(inside) + np.tril(inside, -1).T

    in_threads(part, range(0, len(matrix), _PANEL), threads)


@one_blas_thread()
def invert(matrix: npt.NDArray[Any], threads: int = 0) -> None:
    """The inverse of a positive definite matrix in its place; the upper half of what is given is not looked at.

    By halves, A = [T, B'; B, S]: with W = T^-1 B' above the diagonal, S - B W is inverted, and B becomes -S^-1 W'.
    LAPACK alone would need threads of BLAS.
    """
    size, half = len(matrix), -(-len(matrix) // 2)
    if size <= _PANEL:
        _mirror(matrix, 1)
        matrix[:] = np.linalg.inv(matrix)
        _mirror(matrix, 1)
        return
    top, right, left, bottom = matrix[:half, :half], matrix[:half, half:], matrix[half:, :half], matrix[half:, half:]

    def by_panels(work: Callable[[slice, int], None], rows: int) -> None:
        starts = range(0, rows, _PANEL)
        in_threads(lambda start: work(slice(start, start + _PANEL), min(start + _PANEL, rows)), starts, threads)

    def solved(panel: slice, end: int) -> None:
        right[panel] = top[panel] @ left.T

    def reduced(panel: slice, end: int) -> None:
        bottom[panel, :end] -= left[panel] @ right[:, :end]

    def turned(panel: slice, end: int) -> None:
        left[panel] = -bottom[panel] @ right.T

    def completed(panel: slice, end: int) -> None:
        top[panel, :end] -= right[panel] @ left[:, :end]

    invert(top, threads)
    by_panels(solved, half)
    by_panels(reduced, size - half)
    invert(bottom, threads)
    by_panels(turned, size - half)
    by_panels(completed, half)
    _mirror(matrix, threads)


def regression_weights(ridged: npt.NDArray[Any], gains: Doubles, threads: int = 0) -> Doubles:
    """B (n, n) with B_ij = -gains_j P_ij / P_jj, 0 on the diagonal, in the place of a positive definite matrix with the
    inverse P; returns the diagonal of P (n,).
    """
    invert(ridged, threads)
    precision: Doubles = ridged.diagonal().astype(np.float64)
    ridged *= (-gains / precision).astype(ridged.dtype)
    np.fill_diagonal(ridged, 0.0)
    return precision


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
