"""What a user does next: a trend, the history, and its order, each believed as far as held-out interactions show.

A user did s_1 .. s_n, with grades g, the last of it `gap` seconds before the request. With T the length of a session,
max(a day, 5 x the median time between neighbours), f = exp(-gap / T):

    x_i = g_i                                    the history, in no order
    z_i = f exp(-(n - i) / 5)                    the same, the last things first
    p_h                                          shares of items in what all users did before, half-lives h in days
    score = sum_h beta_h p_h  +  kappa x B  +  z (nu g B + eta S)

B are the weights of lists without order (`ItemWeights`, what is popular included in x B). S is a ridge regression of
the next item on z, over all histories s_1 .. s_j with the next item s_(j+1):

    S = (G + 200 I)^-1 K        G = sum z z'        K = sum z y'        y: the grade of the next item

For positions a <= b of a user, G_ab = exp(-(b - a) / 5) V_b with V_b = f_b^2 + exp(-2/5) V_(b+1).

The coefficients are those of least squares, on the last interaction of each user, which B and S were not fitted to;
they differ for requests in a session (gap <= T) and after one. Then B and S are fitted to everything. NDCG@10 on the
same interactions, by coefficients of the other half of the users, decides between

    any      kappa = 1, nothing else: the lists without order      trend    beta and kappa
    order    kappa, nu and eta                                     both     all of them

"any" stays unless another is better by more than three standard errors. Positions instead of dates know no trend, and
one session. Every term is a sum over what a user did, apart from the trend: explanations are exact, and fold-in needs
items, order and times alone.

Related work: EASE (Steck 2019), SLIST (Choi et al. 2021), TALE (Park et al. 2025).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from cofill.arrays import Arrays, Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.models.lists.feedback import SECONDS_A_DAY, Feedback, Recency, Sequences, entries_where, sparse_times
from cofill.models.lists.item_weights import (
    AS_FITTED,
    FitOptions,
    FoldedIn,
    History,
    ItemWeights,
    Penalties,
    fit_weights,
)
from cofill.models.lists.scorer import About, KeysOfSides, LinearScorer, ListScorer, ScoreParts, Sides
from cofill.models.rng import Keys
from cofill.progress import unseen
from cofill.threads import in_threads, one_blas_thread

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Parts = Literal["any", "trend", "order", "both"]

HALF_LIVES = (1.0, 4.0, 16.0, 64.0, np.inf)
"""Of the trend, in days."""
_TRENDS = len(HALF_LIVES)
_FEATURES = _TRENDS + 3  # the trends, x B, z B, z S
_USED: dict[Parts, list[int]] = {
    "trend": [*range(_TRENDS), _TRENDS],
    "order": [_TRENDS, _TRENDS + 1, _TRENDS + 2],
    "both": list(range(_FEATURES)),
}
_POSITIONS = 5.0
_PENALTY = 200.0
# Terms of G and K below this share are left out: 70 positions ago.
_NEGLIGIBLE = 1e-6
# Below it z is 0: 35 positions ago, or after as many fifths of a session.
_FADED = 1e-3
# Up to so many items S is dense and exact. Beyond, G is 0 for two items that are both not among the most frequent: its
# penalty is far above what they have in common. And S keeps what is above a share of its greatest entry.
# On validation items of Amazon Beauty (12,101 items) neither loses anything: NDCG@10 .0676, exactly .0674.
_DENSE = 4_096
_MOST_FREQUENT = 2_048
_LEAST = 1e-3
# Columns of S that are solved at once, terms that are summed at once, and how many at most stand for one interaction.
_COLUMNS = 512
_TERMS = 2**22
_TERMS_EACH = 150
# Validation is on the most frequent items, so many interactions, and lists of so many users.
_VALIDATION_ITEMS = 6_000
_VALIDATION_SIZE = 2_000_000
_VALIDATION_USERS = 4_000
_FEWEST_USERS = 50
_LENGTH = 10
_CHUNK = 256
# Least squares: ridge on features of unit length, and how many rows of both regimes each is shrunk to.
_RIDGE = 0.02
_SHRUNK = 20.0
# Standard errors by which order and time must be better than lists without them.
_ERRORS = 3.0


class Choice(NamedTuple):
    """Which parts of the score are used, and what held-out interactions said of each."""

    parts: Parts
    ndcg: dict[Parts, float]
    """NDCG@10 by parts; empty where nothing was measured."""
    users: int
    """Whose last interactions were held out."""

    def __str__(self) -> str:
        named = {"any": "without order and time", "trend": "trend and history", "order": "history and its order"}
        named["both"] = "trend, history and its order"
        if not self.ndcg:
            return f"lists {named[self.parts]}: too few users did three things or more to hold out the last"
        others = ", ".join(f"{named[name]} {self.ndcg[name]:.4f}" for name in self.ndcg if name != self.parts)
        return (
            f"lists of what comes next by {named[self.parts]}: NDCG@10 {self.ndcg[self.parts]:.4f} on the last "
            f"interactions of {self.users:,} users, held out ({others})"
            if self.parts != "any"
            else f"lists without order and time: NDCG@10 {self.ndcg['any']:.4f} on the last interactions of "
            f"{self.users:,} users, held out, and nothing that uses them is clearly better ({others})"
        )


# The trend


@dataclass(frozen=True, eq=False)
class Trend:
    """Shares of items in what all users did before a time, each interaction with a half-life; counted in bins."""

    first: float  # when the first bin begins
    width: float  # of a bin, in seconds
    columns: int
    bins: Longs  # (n,): ascending
    items: Ints  # (n,)
    counts: Longs  # (n,): of an item in a bin

    @classmethod
    def of(cls, times: Doubles, items: Ints, columns: int) -> "Trend":
        first, last = float(times.min()), float(times.max())
        width = max(SECONDS_A_DAY / 2, (last - first) / 1000)
        bins = np.floor((times - first) / width).astype(np.int64)
        pairs, counts = np.unique(bins * columns + items, return_counts=True)
        return cls(first, width, columns, pairs // columns, (pairs % columns).astype(np.int32), counts)

    @cached_property
    def last(self) -> Floats:
        """(1, half-lives, columns): shares after all of it."""
        return self._shares(self.bins[-1:] + 1)

    def at(self, times: Doubles) -> tuple[Floats, Longs]:
        """(moments, half-lives, columns): shares in the bins before those of the times; (n,): the moment of each."""
        last = int(self.bins[-1]) + 1
        asked = np.clip(np.floor((times - self.first) / self.width), 0, last).astype(np.int64)
        moments, place = np.unique(asked, return_inverse=True)
        return (self.last if moments.tolist() == [last] else self._shares(moments)), place

    def _shares(self, moments: Longs) -> Floats:
        """(moments, half-lives, columns): before these bins, ascending."""
        rates = np.array([0.0 if np.isinf(days) else 1.0 / days for days in HALF_LIVES]) * self.width / SECONDS_A_DAY
        found = np.zeros((len(moments), _TRENDS, self.columns), np.float32)
        sums, now, start = np.zeros((_TRENDS, self.columns)), 0, 0
        for number, moment in enumerate(moments.tolist()):
            end = int(np.searchsorted(self.bins, moment))
            sums *= np.exp2(-rates * (moment - now))[:, None]
            items, age = self.items[start:end], moment - self.bins[start:end]
            for trend, rate in enumerate(rates.tolist()):
                weights = self.counts[start:end] * np.exp2(-rate * age)
                sums[trend] += np.bincount(items, weights, self.columns)
            now, start = moment, end
            found[number] = sums / np.maximum(sums.sum(1, keepdims=True), 1e-30)
        return found

    def arrays(self) -> Arrays:
        """For the model file."""
        numbers = np.array([self.first, self.width, self.columns])
        return {"trend": numbers, "trend.bins": self.bins, "trend.items": self.items, "trend.counts": self.counts}

    @classmethod
    def restored(cls, arrays: Arrays) -> "Trend":
        """From the model file."""
        first, width, columns = arrays["trend"].tolist()
        return cls(first, width, int(columns), arrays["trend.bins"], arrays["trend.items"], arrays["trend.counts"])


# The order


@dataclass(frozen=True, eq=False)
class OrderWeights:
    """S: how far each thing that was done speaks for each item as the next."""

    weights: "Floats | csr_array"  # (items, items): sparse in a large catalogue

    @classmethod
    def none(cls) -> "OrderWeights":
        return cls(np.empty((0, 0), np.float32))

    @classmethod
    @one_blas_thread()
    def fit(cls, done: SparseRows, fade: Doubles, threads: int = 0) -> "OrderWeights":
        """From what users did, in its order, with grades (entries,), and f from each to the next (entries,)."""
        place = np.arange(done.columns, dtype=np.int32)
        if done.columns <= _DENSE:
            sums = _Sums.of(done, place, fade, done.columns)
            solve, followed = _solver(sums.gram), sums.followed
            starts = range(0, done.columns, _COLUMNS)
            parts = in_threads(lambda start: solve(followed[:, start : start + _COLUMNS]), starts, threads)
            return cls(np.concatenate(parts, axis=1))
        place[np.argsort(-np.bincount(done.indices, minlength=done.columns), kind="stable")] = place.copy()
        return cls(_Sums.of(done, place, fade, _MOST_FREQUENT).solved(threads)[place][:, place])

    def scores(self, recent: SparseRows) -> Floats:
        """(n, items): z S for the rows z (n, items) of users."""
        found, known = np.zeros((recent.rows, recent.columns), np.float32), self.weights.shape[0]
        kept = entries_where(recent, recent.indices < known)
        found[:, :known] = sparse_times(SparseRows(kept.indptr, kept.indices, kept.values, known), self.weights)
        return found

    def pairs(self, items: Ints, asked: Ints) -> Doubles:
        """(m, n): S from items to those asked about; 0 where S knows neither."""
        found, known = np.zeros((len(asked), len(items))), self.weights.shape[0]
        of_items, of_asked = items < known, asked < known
        rows = self.weights[items[of_items]]
        found[np.ix_(of_asked, of_items)] = (rows if isinstance(rows, np.ndarray) else rows.toarray())[
            :, asked[of_asked]
        ].T
        return found

    def arrays(self) -> Arrays:
        """For the model file."""
        weights = self.weights
        if isinstance(weights, np.ndarray):
            return {"next.weights": weights}
        return {"next.indptr": weights.indptr, "next.indices": weights.indices, "next.values": weights.data}

    @classmethod
    def restored(cls, arrays: Arrays) -> "OrderWeights":
        """From the model file."""
        from scipy.sparse import csr_array

        if "next.weights" in arrays:
            return cls(arrays["next.weights"])
        indptr = arrays["next.indptr"]
        parts = arrays["next.values"], arrays["next.indices"], indptr
        return cls(csr_array(parts, shape=(len(indptr) - 1, len(indptr) - 1)))


class _Sums(NamedTuple):
    """G and K by the places of items, those of frequent items first and dense."""

    gram: Floats  # (k, k): G of frequent items, with its penalty
    followed: Floats  # (k, k): K of frequent items
    diagonal: Doubles  # (items,): that of G, with its penalty, of the other items
    rest: "csr_array"  # (2 items, items): the rest of G, frequent items by others, and below it that of K

    @classmethod
    def of(cls, done: SparseRows, place: Ints, fade: Doubles, frequent: int) -> "_Sums":
        from scipy.sparse import csr_array

        items, columns = place[done.indices], done.columns
        gram, followed = (np.zeros((frequent, frequent), np.float32) for _ in range(2))
        gram[np.diag_indices_from(gram)] = _PENALTY
        diagonal, shape = np.full(columns, _PENALTY), (2 * columns, columns)
        room = 0 if frequent == columns else max(_TERMS, _TERMS_EACH * int(done.counts().max(initial=0)))
        keys, values, user = np.empty(room, np.int64), np.empty(room, np.float32), 0
        rest = csr_array((values[:0], (keys[:0], keys[:0])), shape=shape)
        while user < done.rows:
            user, found = _add_sequences(
                done.indptr, items, done.values, fade, user, gram, followed, diagonal, keys, values
            )
            cells = keys[:found] // columns, keys[:found] % columns
            rest = csr_array(rest + csr_array((values[:found], cells), shape=shape))
        return cls(gram, followed, diagonal, rest)

    def solved(self, threads: int) -> "csr_array":
        """S by places: other items are eliminated from the equations (a Schur complement), G of two of them being 0."""
        from scipy.sparse import csr_array, diags_array, hstack, vstack

        frequent, columns = len(self.gram), len(self.diagonal)
        least = _LEAST * float(max(self.followed.max(), self.rest.max())) / _PENALTY

        def kept(values: "csr_array") -> "csr_array":
            values.data[np.abs(values.data) <= least] = 0
            values.eliminate_zeros()
            return values

        between, others = self.rest[:frequent, frequent:], self.rest[columns + frequent :]
        inverse = diags_array((1.0 / self.diagonal[frequent:]).astype(np.float32))
        followed = csr_array(self.followed)
        first = csr_array((followed.data, followed.indices, followed.indptr), shape=(frequent, columns))
        first = first + self.rest[columns : columns + frequent] - between @ (inverse @ others)
        right, solve = first.tocsc(), _solver(self.gram - (between @ inverse @ between.T).toarray())
        parts = in_threads(
            lambda start: kept(csr_array(solve(right[:, start : start + _COLUMNS].toarray()))),
            range(0, columns, _COLUMNS),
            threads,
        )
        first = csr_array(hstack(parts, format="csr"))
        return csr_array(vstack([first, kept(csr_array(inverse @ (others - between.T @ first)))], format="csr"))


def _solver(matrix: Floats) -> Callable[[Floats], Floats]:
    """Solves a matrix that is positive definite, and is overwritten."""
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: np.asarray(cho_solve(factor, right, check_finite=False))


@compiled
def _add_sequences(
    indptr: Longs,
    items: Ints,
    grades: Floats,
    fade: Doubles,
    user: int,
    gram: Floats,
    followed: Floats,
    diagonal: Doubles,
    keys: Longs,
    values: Floats,
) -> tuple[int, int]:
    """Add G and K of the users from this one on, until keys have no room for the next; that one, and how many keys.

    Terms of frequent items are added to gram and followed, others are listed with the keys of their cells.
    """
    frequent, columns, count, step = len(gram), len(diagonal), 0, np.exp(-1.0 / _POSITIONS)
    while user < len(indptr) - 1:
        start, end = indptr[user], indptr[user + 1]
        if count > 0 and count + _TERMS_EACH * (end - start) > len(keys):
            break
        passed = 0.0
        for later in range(end - 2, start - 1, -1):
            passed = fade[later] * fade[later] + step * step * passed
            weight, target = passed, items[later]
            for earlier in range(later, start - 1, -1):
                if weight < _NEGLIGIBLE:
                    break
                item = items[earlier]
                low, high = min(item, target), max(item, target)
                if high < frequent:
                    gram[item, target] += weight
                    if earlier != later:
                        gram[target, item] += weight
                elif earlier == later:
                    diagonal[item] += weight
                elif low < frequent:
                    keys[count], values[count] = np.int64(low) * columns + high, weight
                    count += 1
                weight *= step
            weight, target = fade[later], items[later + 1]
            for earlier in range(later, start - 1, -1):
                if weight < _NEGLIGIBLE:
                    break
                item = items[earlier]
                if item < frequent and target < frequent:
                    followed[item, target] += weight * grades[later + 1]
                else:
                    keys[count], values[count] = (columns + item) * columns + target, weight * grades[later + 1]
                    count += 1
                weight *= step
        user += 1
    return user, count


def session_of(done: SparseRows, times: Doubles) -> float:
    """T in seconds; done and times are in order."""
    inside = np.ones(max(done.nnz - 1, 0), np.bool_)
    ends = done.indptr[1:-1]
    inside[ends[(ends > 0) & (ends < done.nnz)] - 1] = False
    gaps = np.diff(times)[inside]
    return max(SECONDS_A_DAY, 5.0 * float(np.median(gaps))) if len(gaps) else SECONDS_A_DAY


def _fades(done: SparseRows, times: Doubles, session: float, dated: bool) -> Doubles:
    """(entries,): f from each to the next; what it is for the last of a user counts nowhere."""
    if not dated:
        return np.ones(done.nnz)
    return np.append(np.exp(-np.maximum(np.diff(times), 0.0) / session), 0.0)


# The scorer


class NextScorer(ListScorer):
    """Lists without order, and what the trend and the order add to them."""

    follows_order = True

    def __init__(
        self,
        usual: LinearScorer,
        trend: Trend,
        order: OrderWeights,
        coefficients: Doubles,
        session: float,
        choice: Choice,
    ) -> None:
        """`coefficients` (2, features): in a session, and after one."""
        super().__init__(usual.feedback, usual.sides)
        self.usual, self.trend, self.order = usual, trend, order
        self.coefficients, self.session, self.choice = coefficients, session, choice
        self.following = usual.following

    def of_people(self, done: SparseRows, about: About | None = None, recent: Recency | None = None) -> Floats:
        usual = self.usual.of_people(done, about)
        if recent is None:
            return usual
        own, trained = self._own(recent), self.trend.columns
        scores = usual * own[:, _TRENDS, None]
        if self.coefficients[:, _TRENDS + 1].any():
            lately = _lately(done, self._fading(done, recent), done.values)
            scores += own[:, _TRENDS + 1, None] * (self.usual.of_people(lately) - self._constant())
        if self.coefficients[:, _TRENDS + 2].any():
            lately = _lately(done, self._fading(done, recent))
            lately = entries_where(lately, lately.indices < trained)
            lately = SparseRows(lately.indptr, lately.indices, lately.values, trained)
            scores[:, :trained] += own[:, _TRENDS + 2, None] * self.order.scores(lately)
        if self.coefficients[:, :_TRENDS].any():
            shares, place = self.trend.at(recent.at)
            scores[:, :trained] += np.einsum("nh,nhi->ni", own[:, :_TRENDS], shares[place])
        return scores

    def _constant(self) -> Floats:
        """(items,): what an unknown user has of the history."""
        return self.usual.one(np.empty(0, np.int32), np.empty(0, np.float32))

    def _own(self, recent: Recency) -> Floats:
        """(n, features): the coefficients of each user."""
        own: Floats = self.coefficients[(recent.gap > self.session).astype(np.int64)].astype(np.float32)
        return own

    def _fading(self, done: SparseRows, recent: Recency) -> Floats:
        """(entries,): z"""
        return _fading(done, recent, self.session)

    # Why

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        return self.usual.shares(items, grades, asked)

    def feature_shares(self, done: int, features: Floats, widths: tuple[int, ...], asked: Ints) -> Doubles:
        return self.usual.feature_shares(done, features, widths, asked)

    def parts_of(self, items: Ints, grades: Floats, asked: Ints, recent: Recency | None) -> ScoreParts:
        assert recent is not None
        row = SparseRows(np.array([0, len(items)]), items, grades, self.feedback.items)
        own, z = self._own(recent)[0].astype(np.float64), self._fading(row, recent).astype(np.float64)
        trend, trained = np.zeros(len(asked)), self.trend.columns
        inside = asked < trained
        shares, place = self.trend.at(recent.at)
        trend[inside] = own[:_TRENDS] @ shares[place[0]][:, asked[inside]]
        weights = self.usual.shares(items, np.ones_like(grades), asked)
        constant = self._constant()[asked] * own[_TRENDS]
        history = weights * grades * own[_TRENDS]
        order = weights * (grades * z) * own[_TRENDS + 1]
        known = items < trained
        order[np.ix_(inside, known)] += self.order.pairs(items[known], asked[inside]) * z[known] * own[_TRENDS + 2]
        return ScoreParts(trend, constant, history, order, float(own[_TRENDS]))

    def item_vectors(self) -> Floats | None:
        return self.usual.item_vectors()

    def up_to_date(self) -> None:
        self.usual.up_to_date()

    # Keeping

    def arrays(self) -> Arrays:
        numbers = {
            "next.coefficients": self.coefficients,
            "next.session": np.array([self.session]),
            "next.parts": np.array([get_args(Parts).index(self.choice.parts), self.choice.users], np.int64),
            "next.ndcg": np.array([self.choice.ndcg.get(name, np.nan) for name in get_args(Parts)]),
        }
        return self.usual.arrays() | self.trend.arrays() | self.order.arrays() | numbers

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> ListScorer:
        """From the model file: the scorer that was chosen."""
        usual = LinearScorer.restored(arrays, feedback, sides)
        if "next.coefficients" not in arrays:
            return usual
        names: tuple[Parts, ...] = get_args(Parts)
        number, users = arrays["next.parts"].tolist()
        ndcg = {name: value for name, value in zip(names, arrays["next.ndcg"].tolist(), strict=True) if value == value}
        trend, order = Trend.restored(arrays), OrderWeights.restored(arrays)
        choice = Choice(names[number], ndcg, users)
        return cls(usual, trend, order, arrays["next.coefficients"], float(arrays["next.session"][0]), choice)


def _fading(done: SparseRows, recent: Recency, session: float) -> Floats:
    """(entries,): z; 0 where it is negligible, so that of long histories little is left."""
    fade = np.exp(-np.minimum(recent.gap / session, 700.0))
    fading = np.exp(-recent.age / _POSITIONS) * np.repeat(fade, done.counts())
    return np.where(fading > _FADED, fading, 0.0).astype(np.float32)


def _lately(done: SparseRows, fading: Floats, grades: Floats | None = None) -> SparseRows:
    """The rows z, or z times grades, without what is 0."""
    values = fading if grades is None else fading * grades
    return entries_where(SparseRows(done.indptr, done.indices, values, done.columns), fading > 0)


# Fitting


def fit_scorer(
    feedback: Feedback,
    sides: Sides,
    penalties: Penalties,
    how: FitOptions,
    keys: KeysOfSides,
    goal: Literal["auto", "next", "any"],
) -> tuple[ListScorer, Choice | None]:
    """The scorer of the lists, and why it is that one; None where there was nothing to choose."""

    def usual(begin: float) -> LinearScorer:
        def later(share: float) -> None:
            done(begin + share * (0.9 - begin))

        return LinearScorer.fit(feedback, sides, penalties, how._replace(done=later) if begin else how, keys)

    sequences, done = feedback.sequences, how.done
    if sequences is None or goal == "any":
        return usual(0.0), None
    validation = _Validation.of(feedback, sequences, penalties, how._replace(done=unseen), keys)
    done(0.3)
    choice = Choice("any", {}, 0) if validation is None else validation.choice(goal)
    if choice.parts == "any" or validation is None:
        return usual(0.3), choice
    done_in_order, times = sequences.in_order(feedback.trained().values)
    session = session_of(done_in_order, times) if sequences.dated else np.inf
    order = OrderWeights.none()
    if choice.parts != "trend":
        order = OrderWeights.fit(done_in_order, _fades(done_in_order, times, session, sequences.dated), how.threads)
    done(0.6)
    trend = Trend.of(sequences.times, sequences.rows.indices, sequences.rows.columns)
    return NextScorer(usual(0.6), trend, order, validation.coefficients(choice.parts), session, choice), choice


@dataclass(frozen=True, eq=False)
class _Validation:
    """Least squares on the last interactions of users, halved by their keys, and NDCG on the other half."""

    products: Doubles  # (halves, regimes, features, features)
    targets: Doubles  # (halves, regimes, features)
    rows: Longs  # (halves, regimes): how many
    ndcg: Callable[[dict[Parts, Doubles]], dict[Parts, Doubles]]
    """From coefficients (halves, regimes, features) by parts to NDCG@10 of each user."""
    dated: bool
    users: int

    @classmethod
    def of(
        cls, feedback: Feedback, sequences: Sequences, penalties: Penalties, how: FitOptions, keys: KeysOfSides
    ) -> "_Validation | None":
        """None where too few users did three things or more."""
        graded = feedback.trained()
        chosen = _sample(graded, keys.users)
        if len(chosen) < _FEWEST_USERS:
            return None
        graded, rows = graded.take(chosen), sequences.rows.take(chosen)
        entries = np.repeat(sequences.rows.indptr[chosen] - rows.indptr[:-1], rows.counts()) + np.arange(rows.nnz)
        frequent = np.argsort(-np.bincount(graded.indices, minlength=graded.columns), kind="stable")
        kept = np.sort(frequent[:_VALIDATION_ITEMS])
        of_rows = Sequences(rows, sequences.times[entries], sequences.dated)
        own = _Held.of(*_some(graded, of_rows, np.isin(graded.indices, kept), kept))
        if len(own.users) < _FEWEST_USERS:
            return None
        weights = fit_weights(own.rows, penalties, how, keys.items[kept], described=False)
        in_order, times = own.sequences.in_order(own.rows.values)
        order = OrderWeights.fit(in_order, _fades(in_order, times, own.session, sequences.dated), how.threads)
        trend = Trend.of(own.sequences.times, own.rows.indices, len(kept)) if sequences.dated else None
        half = (keys.users[chosen][own.users] & np.uint64(1)).astype(np.int64)
        regime = (own.recent(np.arange(len(own.users)))[1].gap > own.session).astype(np.int64)

        def features(places: Longs) -> tuple[Floats, Bools]:
            """(n, features, items) of held-out users, and (n, items) what they know."""
            return _features(own, places, weights, order, trend)

        products = np.zeros((2, 2, _FEATURES, _FEATURES))
        targets, rows_of = np.zeros((2, 2, _FEATURES)), np.zeros((2, 2), np.int64)
        for first in range(0, len(own.users), _CHUNK):
            some = np.arange(first, min(first + _CHUNK, len(own.users)))
            found, _ = features(some)
            for place, one in zip(some.tolist(), found, strict=True):
                group = half[place], regime[place]
                products[group] += one @ one.T
                targets[group] += own.gains[place] * one[:, own.targets[place]]
                rows_of[group] += 1

        def ndcg(coefficients: dict[Parts, Doubles]) -> dict[Parts, Doubles]:
            result = {name: np.zeros(len(own.users)) for name in coefficients}
            for first in range(0, len(own.users), _CHUNK):
                some = np.arange(first, min(first + _CHUNK, len(own.users)))
                found, seen = features(some)
                for name, by_group in coefficients.items():
                    scores = np.einsum("nf,nfi->ni", by_group[half[some], regime[some]].astype(np.float32), found)
                    scores[seen] = -np.inf
                    wanted = scores[np.arange(len(some)), own.targets[some]][:, None]
                    rank = (scores > wanted).sum(1) + ((scores == wanted).sum(1) - 1) / 2
                    result[name][some] = np.where(rank < _LENGTH, own.gains[some] / np.log2(rank + 2), 0.0)
            return result

        return cls(products, targets, rows_of, ndcg, sequences.dated, len(own.users))

    def coefficients(self, parts: Parts, half: int | None = None) -> Doubles:
        """(regimes, features): from all users, or from those of one half."""
        if half is None:
            return self._solved(self.products.sum(0), self.targets.sum(0), self.rows.sum(0), parts)
        return self._solved(self.products[half], self.targets[half], self.rows[half], parts)

    @staticmethod
    def _solved(products: Doubles, targets: Doubles, rows: Longs, parts: Parts) -> Doubles:
        found = np.zeros((2, _FEATURES))
        if parts == "any":
            found[:, _TRENDS] = 1.0
            return found
        used = np.array(_USED[parts])
        shrunk = _SHRUNK / max(1, int(rows.sum()))
        for regime in range(2):
            left = (products[regime] + shrunk * products.sum(0))[np.ix_(used, used)]
            right = (targets[regime] + shrunk * targets.sum(0))[used]
            scale = np.sqrt(np.maximum(left.diagonal(), 1e-30))
            solved = np.linalg.solve(left / scale / scale[:, None] + _RIDGE * np.eye(len(used)), right / scale)
            found[regime, used] = solved / scale
        return found

    def choice(self, goal: Literal["auto", "next", "any"]) -> Choice:
        names: tuple[Parts, ...] = get_args(Parts) if self.dated else ("any", "order")
        # Each half is measured with the coefficients of the other.
        tried = {name: np.array([self.coefficients(name, 1 - half) for half in range(2)]) for name in names}
        of_users = self.ndcg(tried)
        means: dict[Parts, float] = {name: float(values.mean()) for name, values in of_users.items()}
        best = max((name for name in names if name != "any"), key=lambda name: means[name])
        gain = of_users[best] - of_users["any"]
        error = float(gain.std(ddof=1)) / np.sqrt(len(gain))
        clear = float(gain.mean()) > _ERRORS * error
        return Choice(best if clear or goal == "next" else "any", means, self.users)


def _sample(graded: SparseRows, keys: Keys) -> Longs:
    """Users for validation, ascending: all, or as many by their keys as have two million interactions."""
    order = np.argsort(keys[: graded.rows], kind="stable")
    order = order[np.cumsum(graded.counts()[order]) <= _VALIDATION_SIZE]
    return np.sort(order)


def _some(
    graded: SparseRows, sequences: Sequences, inside: Bools, columns: Longs | None = None
) -> tuple[SparseRows, Sequences]:
    """Some of the entries; with `columns`, of these items alone, which are numbered anew."""
    found = []
    for rows in (graded, sequences.rows):
        rows = entries_where(rows, inside)
        if columns is not None:
            numbers = np.searchsorted(columns, rows.indices).astype(np.int32)
            rows = SparseRows(rows.indptr, numbers, rows.values, len(columns))
        found.append(rows)
    return found[0], Sequences(found[1], sequences.times[inside], sequences.dated)


@dataclass(frozen=True, eq=False)
class _Held:
    """What users did but for the last thing, which is held out of some."""

    rows: SparseRows  # grades, users x items
    sequences: Sequences  # of the same entries
    users: Longs  # (n,): whose last thing is held out
    targets: Ints  # (n,): what that was
    gains: Floats  # (n,): its grade
    at: Doubles  # (n,): when
    session: float

    @classmethod
    def of(cls, graded: SparseRows, sequences: Sequences) -> "_Held":
        order = np.lexsort((sequences.rows.values, np.repeat(np.arange(graded.rows), graded.counts())))
        some = np.flatnonzero(graded.counts() >= 3)
        last = order[graded.indptr[1:][some] - 1]
        inside = np.ones(graded.nnz, np.bool_)
        inside[last] = False
        if len(some) > _VALIDATION_USERS:
            take = np.linspace(0, len(some) - 1, _VALIDATION_USERS).astype(np.int64)
            some, last = some[take], last[take]
        session = session_of(*sequences.in_order()) if sequences.dated else np.inf
        targets, gains, at = graded.indices[last], graded.values[last], sequences.times[last]
        return cls(*_some(graded, sequences, inside), some.astype(np.int64), targets, gains, at, session)

    def recent(self, chosen: Longs) -> tuple[SparseRows, Recency]:
        """The rows of some of the users, and their order at the time of what is held out."""
        users = self.users[chosen]
        rows = self.rows.take(users)
        return rows, self.sequences.recency(users, rows, self.at[chosen])


def _features(
    own: _Held, chosen: Longs, weights: ItemWeights, order: OrderWeights, trend: Trend | None
) -> tuple[Floats, Bools]:
    """(n, features, items) of held-out users, 0 where they know the item, and (n, items) whether they do."""
    rows, recent = own.recent(chosen)
    fading = _fading(rows, recent, own.session)
    found = np.zeros((rows.rows, _FEATURES, rows.columns), np.float32)
    if trend is not None:
        shares, place = trend.at(recent.at)
        found[:, :_TRENDS] = shares[place]
    nothing = SparseRows(np.zeros(2, np.int64), rows.indices[:0], rows.values[:0], rows.columns)
    found[:, _TRENDS] = _plain(weights, rows)
    found[:, _TRENDS + 1] = _plain(weights, _lately(rows, fading, rows.values)) - _plain(weights, nothing)
    found[:, _TRENDS + 2] = order.scores(_lately(rows, fading))
    seen = np.zeros((rows.rows, rows.columns), np.bool_)
    seen[np.repeat(np.arange(rows.rows), rows.counts()), rows.indices] = True
    found *= ~seen[:, None]
    return found, seen


def _plain(weights: ItemWeights, rows: SparseRows) -> Floats:
    """(n, items): scores of weights as they were fitted."""
    none = [np.zeros((0, width), np.float32) for width in weights.widths]
    folded = FoldedIn(np.empty(0, np.int64), none[0], none[1], np.full(weights.items, AS_FITTED, np.int64))
    return weights.scores(History(rows, rows, None, None), folded).fitted
