"""The linear models of lists, fitted: what each item that somebody did says of every other.

x (items,) are the grades of what somebody did, 0 elsewhere, and a constant 1 at the end, which learns what is popular.
B (items + 1, items) predicts each of them from the others by ridge regression, and the score of an item is what is
predicted of it, divided by the number of its ratings to a small power, so that what everybody knows does not fill
every list. With the weight of each user w_u = (ratings of u / the mean)^-user_power, so that a few who have seen
everything do not speak for all:

    G = X' W X                                   Lambda = penalty * mean(diag(X' X)) + share * diag(G)
    P = (G + Lambda)^-1                          B_ij = -P_ij / P_jj, 0 where i = j
    score_j = n_j^-popularity * sum_i x_i B_ij

A catalogue of up to four times `rank` items keeps B (`ExactWeights`): up to there one inverse takes less time than the
passes over the data below (on MovieLens-1M 1.4 instead of 2.2 seconds of a processor), and lists of people who did
little need few of its rows. Of a larger one G is kept as F F' + a diagonal, where F (items + 1, rank) holds its largest
eigenvectors, scaled (`LowRankWeights`). Then, exactly,

    D = max(diag(G) - rowsums(F^2), 0) + Lambda      L L' = I + F' D^-1 F      Q = D^-1 F L^-T
    P = D^-1 - Q Q'                                  B_ij = Q_i . Q_j / P_jj

so that somebody's code is the sum of x_i Q_i, and scores are a product with the vectors of the items: cost and memory
are linear in the catalogue.

Related work: Steck 2019 (EASE), 2020 (EDLAE); Woodbury's identity does the rest.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange, total
from cofill.models.lists.gram import (
    Done,
    ItemEmbedding,
    gram_factor,
    gram_of,
    keys_by_number,
    leading,
    regression_weights,
    sparse_times,
    tall_times,
    unseen,
)
from cofill.models.rng import Keys
from cofill.threads import one_blas_thread

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]

# Up to so many times the rank, a catalogue is solved exactly.
_EXACT = 4
# Directions that features tell of, where weights are exact.
_DIRECTIONS = 256
_CONSTANT_KEY = np.uint64(0xC0157A)


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
    """An item that was folded in."""

    as_input: Floats  # what it adds, for a grade of 1: to somebody's code, or to the scores of the fitted items
    as_target: Floats  # its score is the product of this with somebody's code, or with what they did
    embedding: Floats  # (width,): items that the same people choose have similar ones


class FoldedIn(NamedTuple):
    """Items that came or changed after the training, k of them: they take the place of those that were fitted."""

    items: Longs  # (k,)
    inputs: Floats  # (k, ...)
    targets: Floats  # (k, ...)


class Heard(NamedTuple):
    """What n people did."""

    fitted: SparseRows  # (n, items): of the items that are as they were fitted
    trained: SparseRows  # (n, items): of all items of the training
    later: "csr_array | None"  # (n, k): of those that were folded in; None if nobody did anything with one
    expected: Floats | None  # (n, code): what the features of people add to their codes


class Scores(NamedTuple):
    """Of n people."""

    fitted: Floats  # (n, items)
    later: Floats  # (n, k)
    codes: Floats  # (n, code): what features of items are scored by


class ItemWeights(ABC):
    """B in some form, of the items that it was fitted on, and what folds in others."""

    ratings: Ints
    """(items,): how many people did something with each."""
    directions: Floats
    """(items + 1, code): what a grade of 1 adds to somebody's code. Features tell of codes."""
    widths: tuple[int, int]
    """How many numbers an item that is folded in has as an input, and as a target."""

    @property
    def items(self) -> int:
        return len(self.ratings)

    @abstractmethod
    def scores(self, heard: Heard, folded: FoldedIn) -> Scores:
        """Scores for people; what comes from an item itself is left out of its score."""

    @abstractmethod
    def between(self, items: Ints, place: Longs, asked: Ints, at: Longs, folded: FoldedIn) -> Doubles:
        """(m, n): what a grade of 1 of n items adds to the scores of m others. `place` and `at` say where among the
        folded ones each of them is; -1: it is as it was fitted.
        """

    @property
    @abstractmethod
    def target_codes(self) -> Floats:
        """(items, code): what a code is multiplied by for the score of each item."""

    @abstractmethod
    def folded_codes(self, folded: FoldedIn) -> tuple[Floats, Floats]:
        """The `directions` and `target_codes` (k, code) of items that were folded in."""

    @abstractmethod
    def folded_in(self, item: int, users: SparseRows, grades: Floats) -> ItemVectors:
        """An item from the grades (n,) that it has from n users, and theirs of the items that were fitted.

        One that was fitted, with the grades that it had then, gets what it had. `item` is -1 for another.
        """

    @abstractmethod
    def embeddings(self) -> Floats:
        """(items, width): items that the same people choose have similar ones."""

    def turned(self, embeddings: Floats) -> Floats:
        """Embeddings of all items, fitted and folded in, so that their cosines compare them."""
        return embeddings

    @abstractmethod
    def arrays(self) -> Arrays:
        """For the model file."""

    def codes_of(self, items: Ints, place: Longs, folded: FoldedIn) -> Floats:
        """(n, code): the codes of people who each did one thing alone."""
        return _replaced(self.directions, items, place, self.folded_codes(folded)[0])

    def from_codes(self, codes: Floats, asked: Ints, at: Longs, folded: FoldedIn) -> Doubles:
        """(m, n): what codes (n, code) add to the scores of m items."""
        targets = _replaced(self.target_codes, asked, at, self.folded_codes(folded)[1])
        found: Doubles = targets.astype(np.float64) @ codes.astype(np.float64).T
        return found


def _replaced(fitted: Floats, items: Ints, place: Longs, folded: Floats) -> Floats:
    """(n, width): rows of items as they were fitted, or of those that were folded in."""
    found = np.zeros((len(items), fitted.shape[1]), np.float32)
    found[place < 0] = fitted[items[place < 0]]
    found[place >= 0] = folded[place[place >= 0]]
    return found


class _Regression(NamedTuple):
    """What is regressed: sqrt(W) [X, 1], and the penalties of its columns."""

    rows: SparseRows
    own: Doubles  # (columns,): diag(G)
    ratings: Longs  # (items,)
    ridge: float
    mean_ratings: float

    @classmethod
    def of(cls, graded: SparseRows, penalties: Penalties, exchange: Exchange) -> "_Regression":
        counts = graded.counts()
        ratings = exchange.sum_(np.bincount(graded.indices, minlength=graded.columns).astype(np.int64))
        known_items = max(1, int((ratings > 0).sum()))
        squares = (graded.values.astype(np.float64) ** 2).sum()
        everything, people, squares = total(exchange, graded.nnz, (counts > 0).sum(), squares)
        mean_ratings = everything / max(1.0, people)
        rows = _with_constant(graded, user_weights(counts, mean_ratings, penalties.user_power))
        own = np.bincount(rows.indices, rows.values.astype(np.float64) ** 2, minlength=rows.columns)
        squared = exchange.sum_(own.astype(np.float64))  # without a single entry, numpy counts in integers
        return cls(rows, squared, ratings, float(penalties.penalty * squares / known_items), float(mean_ratings))


def fit_weights(
    graded: SparseRows,
    penalties: Penalties,
    seed: int,
    done: Done,
    threads: int = 0,
    *,
    keys: Keys | None = None,
    exchange: Exchange = ALONE,
    described: bool = True,
) -> "ItemWeights":
    """From grades (users x items). `keys` (items,) are what is drawn by; other processes may have other users.

    `described`: somebody or something has features.
    """
    if graded.columns < _EXACT * penalties.rank:
        return ExactWeights.fit(graded, penalties, seed, done, threads, keys, exchange, described=described)
    return LowRankWeights.fit(graded, penalties, seed, done, threads, keys, exchange)


def restored_weights(arrays: Arrays) -> "ItemWeights":
    """From the model file."""
    return (LowRankWeights if "lift" in arrays else ExactWeights).restored(arrays)


# Of low rank


@dataclass(frozen=True)
class LowRankWeights(ItemWeights):
    """B as products of vectors."""

    vectors: Floats  # (items + 1, rank): Q; the last one is that of the constant
    diagonal: Floats  # (items + 1,): D
    gains: Floats  # (items,): n^-popularity / P_jj; 0 for an item without ratings
    ratings: Ints
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
        keys: Keys | None = None,
        exchange: Exchange = ALONE,
    ) -> "LowRankWeights":
        """As `fit_weights`."""
        given = _Regression.of(graded, penalties, exchange)
        keys = keys_by_number(graded.columns) if keys is None else keys
        factor = gram_factor(
            given.rows, min(penalties.rank, given.rows.columns), seed, done, threads,
            keys=np.append(keys, _CONSTANT_KEY), exchange=exchange,
        )  # fmt: skip
        left_over = np.maximum(given.own - np.einsum("ij,ij->i", factor, factor, dtype=np.float64), 0.0)
        diagonal = left_over + given.ridge + penalties.share * given.own
        rank = factor.shape[1]
        lengths = np.einsum("ij,ij->j", factor, factor, dtype=np.float64)  # F'F is diagonal
        scaled = factor / diagonal[:, None].astype(np.float32)
        inner = np.eye(rank) + (factor.T @ scaled).astype(np.float64)
        del factor
        lower = np.linalg.cholesky((inner + inner.T) / 2)
        turn = np.linalg.inv(lower).T
        vectors = tall_times(scaled, turn, threads)
        own_precision = 1.0 / diagonal - np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        own_precision = np.maximum(own_precision, 1e-3 / diagonal)  # rounding; above 0 in exact arithmetic
        inverse = np.divide(1.0, lengths, out=np.zeros(rank), where=lengths > 1e-6 * lengths.max(initial=1e-30))
        done(1.0)
        return cls(
            vectors=vectors,
            diagonal=diagonal.astype(np.float32),
            gains=(_held_back(given.ratings, penalties.popularity) / own_precision[:-1]).astype(np.float32),
            ratings=given.ratings.astype(np.int32),
            lift=(lower.T * inverse).astype(np.float32),
            turn=turn.astype(np.float32),
            ridge=given.ridge,
            mean_ratings=given.mean_ratings,
            penalties=penalties,
        )

    @property
    def directions(self) -> Floats:  # type: ignore[override]
        return self.vectors

    @property
    def widths(self) -> tuple[int, int]:  # type: ignore[override]
        return self.vectors.shape[1], self.vectors.shape[1]

    @cached_property
    def _own(self) -> Floats:
        """(items,): what a grade of 1 adds to the score of the item itself."""
        own: Floats = self.gains * np.einsum("ij,ij->i", self.vectors[:-1], self.vectors[:-1])
        return own

    def scores(self, heard: Heard, folded: FoldedIn) -> Scores:
        codes = sparse_times(heard.fitted, self.vectors) + self.vectors[-1]
        if heard.later is not None:
            codes += heard.later @ folded.inputs
        if heard.expected is not None:
            codes += heard.expected
        scores = codes @ self.vectors[:-1].T
        scores *= self.gains
        did = heard.fitted
        scores[np.repeat(np.arange(did.rows), did.counts()), did.indices] -= did.values * self._own[did.indices]
        later = codes @ folded.targets.T
        if heard.later is not None:
            later -= heard.later.multiply(np.einsum("ij,ij->i", folded.inputs, folded.targets)).toarray()
        return Scores(scores, later, codes)

    def between(self, items: Ints, place: Longs, asked: Ints, at: Longs, folded: FoldedIn) -> Doubles:
        found = self.from_codes(self.codes_of(items, place, folded), asked, at, folded)
        found[asked[:, None] == items] = 0.0
        return found

    @property
    def target_codes(self) -> Floats:
        targets: Floats = self.vectors[:-1] * self.gains[:, None]
        return targets

    def folded_codes(self, folded: FoldedIn) -> tuple[Floats, Floats]:
        return folded.inputs, folded.targets

    def from_codes(self, codes: Floats, asked: Ints, at: Longs, folded: FoldedIn) -> Doubles:
        fitted = np.flatnonzero(at < 0)
        targets = _replaced(self.vectors, asked, at, folded.targets).astype(np.float64)
        targets[fitted] *= self.gains[asked[fitted]][:, None]
        found: Doubles = targets @ codes.astype(np.float64).T
        return found

    def folded_in(self, item: int, users: SparseRows, grades: Floats) -> ItemVectors:
        own, together = weighted_sums(users, grades, self.mean_ratings, self.penalties.user_power, self.items)
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
        speaks: Floats = (target / np.float32(diagonal + float(plain @ target))).astype(np.float32)
        scored: Floats = target * np.float32(max(len(grades), 1) ** -self.penalties.popularity)
        return ItemVectors(speaks, scored, scored)

    def embeddings(self) -> Floats:
        return self.target_codes

    def turned(self, embeddings: Floats) -> Floats:
        """Along the axes of F, whose cosine is that of the columns of X: people who chose the one chose the other.

        That of Q would say which items are left over when all others are accounted for.
        """
        turned: Floats = embeddings @ np.linalg.inv(self.turn)
        return turned

    def arrays(self) -> Arrays:
        names = ("vectors", "diagonal", "gains", "ratings", "lift", "turn")
        numbers = np.array([self.ridge, self.mean_ratings], np.float64)
        penalties = np.array(self.penalties, np.float64)
        return {name: getattr(self, name) for name in names} | {"numbers": numbers, "penalties": penalties}

    @classmethod
    def restored(cls, arrays: Arrays) -> "LowRankWeights":
        rank, *others = arrays["penalties"].tolist()
        ridge, mean_ratings = arrays["numbers"].tolist()
        kept = {name: arrays[name] for name in ("vectors", "diagonal", "gains", "ratings", "lift", "turn")}
        return cls(**kept, ridge=ridge, mean_ratings=mean_ratings, penalties=Penalties(int(rank), *others))


# With a weight for every pair


class PairWeights(ItemWeights):
    """B itself, dense or sparse: a score is the sum of the weights of what somebody did."""

    def __init__(
        self,
        weights: "Floats | csr_array",
        ratings: Ints,
        embedding: ItemEmbedding,
        directions: Floats | None = None,
    ) -> None:
        self.weights = weights  # (items + 1, items): the last row is that of the constant
        self.ratings, self.embedding = ratings, embedding
        nothing = np.zeros((len(ratings) + 1, 0), np.float32)
        self.directions = nothing if directions is None else directions
        self.widths = len(ratings), len(ratings) + 1

    @cached_property
    def target_codes(self) -> Floats:
        return np.asarray(self.weights.T @ self.directions, np.float32)

    def folded_codes(self, folded: FoldedIn) -> tuple[Floats, Floats]:
        """What they say is known towards fitted items alone, of which codes know nothing."""
        return np.zeros((len(folded.items), self.directions.shape[1]), np.float32), folded.targets @ self.directions

    def products(self, graded: SparseRows) -> Floats:
        """(n, items): x B."""
        from scipy.sparse import csr_array

        did = csr_array((graded.values, graded.indices, graded.indptr), shape=(graded.rows, self.items + 1))
        found = did @ self.weights
        return found if isinstance(found, np.ndarray) else found.toarray()

    def scores(self, heard: Heard, folded: FoldedIn) -> Scores:
        scores = self.products(heard.fitted)
        constant = self.weights[[-1]]
        scores += constant if isinstance(constant, np.ndarray) else constant.toarray()
        if heard.later is not None:
            scores += heard.later @ folded.inputs
        later = sparse_times(heard.trained, folded.targets.T) + folded.targets[:, -1]
        codes = sparse_times(heard.fitted, self.directions) + self.directions[-1]
        if heard.expected is not None:
            scores += heard.expected @ self.target_codes.T
            later += heard.expected @ self.folded_codes(folded)[1].T
            codes += heard.expected
        return Scores(scores, later, codes)

    def between(self, items: Ints, place: Longs, asked: Ints, at: Longs, folded: FoldedIn) -> Doubles:
        as_fitted, changed = place < 0, place >= 0
        found = np.zeros((len(asked), len(items)))
        block = self.weights[items[as_fitted]][:, asked[at < 0]]
        found[np.ix_(at < 0, as_fitted)] = (block if isinstance(block, np.ndarray) else block.toarray()).T
        found[np.ix_(at < 0, changed)] = folded.inputs[place[changed]][:, asked[at < 0]].T
        speaks = items < self.items
        found[np.ix_(at >= 0, speaks)] = folded.targets[at[at >= 0]][:, items[speaks]]
        return found

    def embeddings(self) -> Floats:
        return self.embedding.vectors


class ExactWeights(PairWeights):
    """n^-popularity B, from one inverse.

    An item j that came later is added to the regression as it would have been in training, by the inverse of a block
    matrix: with g the sums of its grades times those of the others, s its squared grades, and v = P g,

        B_ij = v_i                  B_jk = v_k / r / (P_kk + v_k^2 / r)              r = s + Lambda_j - g.v

    One that was fitted is taken out first: v_i - P_ij v_j / P_jj. Weights among the others stay as they were fitted.
    """

    weights: Floats

    def __init__(
        self,
        weights: Floats,
        precision: Doubles,
        ratings: Ints,
        embedding: ItemEmbedding,
        directions: Floats,
        numbers: tuple[float, float],
        penalties: Penalties,
    ) -> None:
        """`numbers` are the ridge that is the same for all items, and the mean ratings of a user; `directions` are
        orthonormal.
        """
        super().__init__(weights, ratings, embedding, directions)
        self.precision = precision  # (items + 1,): the diagonal of P
        self.ridge, self.mean_ratings = numbers
        self.penalties = penalties
        held_back = _held_back(ratings, penalties.popularity)
        self._scale = np.where(held_back > 0, held_back, 1.0).astype(np.float32)

    @classmethod
    @one_blas_thread()
    def fit(
        cls,
        graded: SparseRows,
        penalties: Penalties,
        seed: int,
        done: Done,
        threads: int = 0,
        keys: Keys | None = None,
        exchange: Exchange = ALONE,
        *,
        described: bool = True,
    ) -> "ExactWeights":
        """As `fit_weights`."""
        given = _Regression.of(graded, penalties, exchange)
        gram = exchange.sum_(gram_of(given.rows, np.float32, threads))
        done(0.3)
        keys = np.append(keys_by_number(graded.columns) if keys is None else keys, _CONSTANT_KEY)
        embedding = ItemEmbedding.of_gram(gram[:-1, :-1], seed, keys[:-1])
        directions: Floats = np.zeros((len(gram), 0), np.float32)
        if described:
            width = min(_DIRECTIONS, len(gram))
            found = leading(lambda matrix: np.asarray(gram @ matrix, np.float32), keys, width, seed, unseen, threads)
            lengths = np.linalg.norm(found, axis=0)
            directions = (found / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        gram[np.diag_indices_from(gram)] += (given.ridge + penalties.share * given.own).astype(np.float32)
        weights, precision = regression_weights(gram, threads)
        weights = weights[:, :-1]
        weights *= _held_back(given.ratings, penalties.popularity).astype(np.float32)
        done(1.0)
        numbers = given.ridge, given.mean_ratings
        ratings = given.ratings.astype(np.int32)
        return cls(np.ascontiguousarray(weights), precision, ratings, embedding, directions, numbers, penalties)

    def folded_in(self, item: int, users: SparseRows, grades: Floats) -> ItemVectors:
        own, sums = weighted_sums(users, grades, self.mean_ratings, self.penalties.user_power, self.items)
        if item >= 0:
            sums[item] = 0.0
        targets, precision = self._inverse_times(sums), self.precision
        if item >= 0:  # without itself
            column = self._inverse_column(item)
            targets -= column * (targets[item] / column[item])
            precision = precision - column**2 / column[item]
            targets[item] = precision[item] = 0.0
        rest = (1 + self.penalties.share) * own + self.ridge - float(sums @ targets)
        rest = max(rest, 1e-3 * self.ridge)  # rounding; at least the ridge in exact arithmetic
        below = precision + targets**2 / rest
        inputs = np.divide(targets / rest, below, out=np.zeros_like(targets), where=below > 0)[:-1] * self._scale
        scored = targets * max(len(grades), 1) ** -self.penalties.popularity
        return ItemVectors(
            inputs.astype(np.float32), scored.astype(np.float32), self.embedding.folded_in(sums[:-1], own)
        )

    def _inverse_times(self, vector: Doubles) -> Doubles:
        """P v (items + 1,)."""
        precision, unscaled = self.precision, vector[:-1] / self._scale
        image = precision * vector
        image[:-1] -= precision[:-1] * (vector.astype(np.float32) @ self.weights) / self._scale
        image[-1] -= self.weights[-1].astype(np.float64) @ (precision[:-1] * unscaled)
        return image

    def _inverse_column(self, item: int) -> Doubles:
        """P e_item."""
        column: Doubles = -self.weights[:, item].astype(np.float64)
        column *= self.precision[item] / self._scale[item]
        column[item] = self.precision[item]
        return column

    def arrays(self) -> Arrays:
        return {
            "weights": self.weights,
            "precision": self.precision,
            "ratings": self.ratings,
            "embedding": self.embedding.vectors,
            "norms": self.embedding.norms,
            "directions": self.directions,
            "numbers": np.array([self.ridge, self.mean_ratings], np.float64),
            "penalties": np.array(self.penalties, np.float64),
        }

    @classmethod
    def restored(cls, arrays: Arrays) -> "ExactWeights":
        rank, *others = arrays["penalties"].tolist()
        ridge, mean_ratings = arrays["numbers"].tolist()
        embedding = ItemEmbedding(arrays["embedding"], arrays["norms"])
        weights, precision, ratings = (arrays[name] for name in ("weights", "precision", "ratings"))
        numbers, penalties = (ridge, mean_ratings), Penalties(int(rank), *others)
        return cls(weights, precision, ratings, embedding, arrays["directions"], numbers, penalties)


def _held_back(ratings: npt.NDArray[Any], popularity: float) -> Doubles:
    """(items,): what the scores of items with so many ratings are multiplied by; 0 for one without."""
    return np.where(ratings > 0, np.maximum(ratings, 1.0) ** -popularity, 0.0).astype(np.float64)


def weighted_sums(users: SparseRows, grades: Floats, mean: float, power: float, items: int) -> tuple[float, Doubles]:
    """For an item with grades (n,) of n users: its squared grades, and (items + 1,) its grades times what these users
    did, the constant last; added up over users by their weights.
    """
    counts = users.counts() if power else np.ones(users.rows, np.int64)  # one who did nothing else counts, too
    weights = user_weights(counts, mean, power).astype(np.float32)
    spread = np.repeat((weights * grades).astype(np.float64), users.counts()) * users.values
    together: Doubles = np.bincount(users.indices, spread, minlength=items + 1).astype(np.float64)
    together[-1] = float((weights * grades).sum(dtype=np.float64))
    return float((weights * grades**2).sum(dtype=np.float64)), together


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
