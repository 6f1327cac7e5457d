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

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from cofill.arrays import Arrays, Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.models.lists.feedback import SECONDS_A_DAY, Feedback, Recency, as_csr, entries_where, sparse_times
from cofill.models.lists.item_weights import (
    ExactWeights,
    FitOptions,
    Penalties,
    fit_weights,
)
from cofill.models.lists.scorer import About, KeysOfSides, LinearScorer, ListScorer, ScoreParts, Sides
from cofill.models.rng import Keys
from cofill.progress import unseen
from cofill.threads import in_threads, one_blas_thread

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_Result = TypeVar("_Result")
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
# Terms of G and K below this share are left out, and z is 0 below it: 35 positions ago, or seven sessions.
_NEGLIGIBLE = 1e-3
# Up to so many items G is whole. Beyond, it is 0 for two items that are not both among the most frequent: its penalty
# is far above what they have in common. And S keeps only what is above a share of its greatest entry.
_DENSE = 4_096
_MOST_FREQUENT = 2_048
_LEAST = 2e-4
# Columns of S that are solved at once, terms that are summed at once, and how many at most stand for one interaction.
_COLUMNS = 512
_TERMS = 2**21
_TERMS_EACH = 40
# Validation is on the most frequent items, so many interactions, and lists of so many users.
_VALIDATION_ITEMS = 3_000
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


@dataclass(eq=False)
class Trend:
    """Shares of items in what all users did before a time, each interaction with a half-life; counted in bins.

    Events after the training count at once. They are kept as counts: so their order makes no difference, and what is
    taken back leaves no trace.
    """

    first: float  # when the first bin begins
    width: float  # of a bin, in seconds
    columns: int
    bins: Longs  # (n,): ascending
    items: Ints  # (n,)
    counts: Longs  # (n,): of an item in a bin
    live: dict[int, Counter[int]] = field(default_factory=dict)
    """Events after the training, by bin: how often of each item."""

    @classmethod
    def of(cls, times: Doubles, items: Ints, columns: int) -> "Trend":
        first, last = float(times.min()), float(times.max())
        width = max(SECONDS_A_DAY / 2, (last - first) / 1000)
        bins = np.floor((times - first) / width).astype(np.int64)
        pairs, counts = np.unique(bins * columns + items, return_counts=True)
        return cls(first, width, columns, pairs // columns, (pairs % columns).astype(np.int32), counts)

    @cached_property
    def _rates(self) -> Doubles:
        """(half-lives,): by how many halvings a weight falls from a bin to the next."""
        return np.array([0.0 if np.isinf(days) else 1.0 / days for days in HALF_LIVES]) * self.width / SECONDS_A_DAY

    @cached_property
    def _trained(self) -> Doubles:
        """(half-lives, columns): the sums of weights after the training."""
        return self._sums(0, int(self.bins[-1]) + 1, np.zeros((_TRENDS, self.columns)))

    @cached_property
    def _now(self) -> Floats:
        """(1, half-lives, items): shares in all that is known."""
        trained, width = int(self.bins[-1]) + 1, max([self.columns, *(max(own) + 1 for own in self.live.values())])
        end = max([trained, *self.live])
        sums = np.zeros((_TRENDS, width))
        sums[:, : self.columns] = self._trained * np.exp2(-self._rates * (end - trained))[:, None]
        for place, own in self.live.items():
            counts = np.fromiter(own.values(), np.float64)
            sums[:, np.fromiter(own, np.int64)] += np.exp2(-self._rates * (end - place))[:, None] * counts
        return _as_shares(sums)[None]

    def count(self, item: int, time: float, sign: int) -> None:
        """Add an event after the training, or take it back by a sign of -1."""
        place = int((time - self.first) // self.width)
        own = self.live.setdefault(place, Counter())
        own[item] += sign
        if not own[item]:
            del own[item]
        if not own:
            del self.live[place]
        self.__dict__.pop("_now", None)

    def at(self, times: Doubles) -> tuple[Floats, Longs]:
        """(moments, half-lives, items): shares in the bins before those of the times; (n,): the moment of each.

        At a time after the training, and with events in its last bin, all that is known counts.
        """
        last = int(self.bins[-1]) + 1
        asked = np.clip(np.floor((times - self.first) / self.width), 0, last).astype(np.int64)
        if self.live:
            asked[asked >= last - 1] = last
        moments, place = np.unique(asked, return_inverse=True)
        if moments.tolist() == [last]:
            return self._now, place
        found = np.zeros((len(moments), *self._now.shape[1:]), np.float32)
        sums, before = np.zeros((_TRENDS, self.columns)), 0
        for number, moment in enumerate(moments.tolist()):
            sums, before = self._sums(before, moment, sums), moment
            found[number, :, : self.columns] = _as_shares(sums)
        if moments[-1] == last:
            found[-1] = self._now[0]
        return found, place

    def _sums(self, before: int, moment: int, sums: Doubles) -> Doubles:
        """(half-lives, columns): the sums of weights at the beginning of a bin, from those of an earlier one."""
        start, end = np.searchsorted(self.bins, [before, moment]).tolist()
        items, age = self.items[start:end], moment - self.bins[start:end]
        own = [np.bincount(items, self.counts[start:end] * np.exp2(-rate * age), self.columns) for rate in self._rates]
        found: Doubles = sums * np.exp2(-self._rates * (moment - before))[:, None] + np.array(own)
        return found

    def arrays(self) -> Arrays:
        """For the model file."""
        numbers = np.array([self.first, self.width, self.columns])
        found = {"trend": numbers, "trend.bins": self.bins, "trend.items": self.items, "trend.counts": self.counts}
        live = [(place, item, count) for place, own in self.live.items() for item, count in own.items()]
        return found | {"trend.live": np.array(live, np.int64).reshape(-1, 3)}

    @classmethod
    def restored(cls, arrays: Arrays) -> "Trend":
        """From the model file."""
        first, width, columns = arrays["trend"].tolist()
        bins, items, counts = (arrays[f"trend.{name}"] for name in ("bins", "items", "counts"))
        found = cls(first, width, int(columns), bins, items, counts)
        for place, item, count in arrays["trend.live"].tolist():
            found.live.setdefault(place, Counter())[item] = count
        return found


def _as_shares(sums: Doubles) -> Floats:
    shares: Floats = (sums / np.maximum(sums.sum(1, keepdims=True), 1e-30)).astype(np.float32)
    return shares


# The order


@dataclass(frozen=True, eq=False)
class OrderWeights:
    """S: how far each thing that was done speaks for each item as the next."""

    weights: "csr_array"  # (items, items)

    @classmethod
    def none(cls) -> "OrderWeights":
        from scipy.sparse import csr_array

        return cls(csr_array(np.zeros((0, 0), np.float32)))

    @classmethod
    @one_blas_thread()
    def fit(cls, done: SparseRows, fade: Doubles, threads: int = 0) -> "OrderWeights":
        """From what users did, in its order, with grades (entries,), and f from each to the next (entries,)."""
        place = np.arange(done.columns, dtype=np.int32)
        place[np.argsort(-np.bincount(done.indices, minlength=done.columns), kind="stable")] = place.copy()
        frequent = done.columns if done.columns <= _DENSE else _MOST_FREQUENT
        return cls(_Sums.of(done, place, fade, frequent).solved(threads)[place][:, place])

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
        found[np.ix_(of_asked, of_items)] = self.weights[items[of_items]][:, asked[of_asked]].toarray().T
        return found

    def arrays(self) -> Arrays:
        """For the model file."""
        weights = self.weights
        return {"next.indptr": weights.indptr, "next.indices": weights.indices, "next.values": weights.data}

    @classmethod
    def restored(cls, arrays: Arrays) -> "OrderWeights":
        """From the model file."""
        from scipy.sparse import csr_array

        indptr = arrays["next.indptr"]
        parts = arrays["next.values"], arrays["next.indices"], indptr
        return cls(csr_array(parts, shape=(len(indptr) - 1, len(indptr) - 1)))


class _Sums(NamedTuple):
    """G and K by the places of items, those of frequent items first and dense."""

    gram: Floats  # (k, k): the lower half of G of frequent items, with its penalty
    diagonal: Doubles  # (items,): that of G, with its penalty, of the other items
    followed: Floats  # (k, k): K of frequent items
    rest: "csr_array"  # (items, items): the rest of K

    @classmethod
    def of(cls, done: SparseRows, place: Ints, fade: Doubles, frequent: int) -> "_Sums":
        from scipy.sparse import csr_array

        items, columns = place[done.indices], done.columns
        gram, followed = (np.zeros((frequent, frequent), np.float32) for _ in range(2))
        gram[np.diag_indices_from(gram)] = _PENALTY
        diagonal, shape = np.full(columns, _PENALTY), (columns, columns)
        room = 0 if frequent == columns else max(_TERMS, _TERMS_EACH * int(done.counts().max(initial=0)))
        keys, values, user = np.empty(room, np.int64), np.empty(room, np.float32), 0
        rest = csr_array((values[:0], (keys[:0], keys[:0])), shape=shape)
        while user < done.rows:
            user, found = _add_sequences(
                done.indptr, items, done.values, fade, user, gram, followed, diagonal, keys, values
            )
            cells = keys[:found] // columns, keys[:found] % columns
            rest = csr_array(rest + csr_array((values[:found], cells), shape=shape))
        return cls(gram, diagonal, followed, rest)

    def solved(self, threads: int) -> "csr_array":
        """S by places."""
        from scipy.linalg import cho_factor, cho_solve
        from scipy.sparse import csr_array, diags_array, hstack, vstack

        frequent, columns = len(self.gram), len(self.diagonal)
        least = _LEAST * float(max(self.followed.max(), self.rest.max())) / _PENALTY if frequent < columns else 0.0
        factor = cho_factor(self.gram, lower=True, overwrite_a=True, check_finite=False)
        right = self.rest[:frequent].tocsc()

        def kept(values: "csr_array") -> "csr_array":
            values.data[np.abs(values.data) <= least] = 0
            values.eliminate_zeros()
            return values

        def part(start: int) -> "csr_array":
            some = right[:, start : start + _COLUMNS].toarray()
            dense = self.followed[:, start : start + _COLUMNS]
            some[:, : dense.shape[1]] += dense
            return kept(csr_array(np.asarray(cho_solve(factor, some, overwrite_b=True, check_finite=False))))

        first = hstack(in_threads(part, range(0, columns, _COLUMNS), threads), format="csr")
        others = diags_array((1.0 / self.diagonal[frequent:]).astype(np.float32)) @ self.rest[frequent:]
        return csr_array(vstack([first, kept(csr_array(others))], format="csr"))


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

    Terms of frequent items are added to gram and followed, others of K are listed with the keys of their cells.
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
            if target < frequent:
                for earlier in range(later, start - 1, -1):
                    if weight < _NEGLIGIBLE:
                        break
                    item = items[earlier]
                    if item < frequent:
                        gram[max(item, target), min(item, target)] += weight
                    weight *= step
            else:
                diagonal[target] += weight
            weight, target = fade[later], items[later + 1]
            for earlier in range(later, start - 1, -1):
                if weight < _NEGLIGIBLE:
                    break
                item = items[earlier]
                if item < frequent and target < frequent:
                    followed[item, target] += weight * grades[later + 1]
                else:
                    keys[count], values[count] = np.int64(item) * columns + target, weight * grades[later + 1]
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
        later = {} if self.feedback.sequences is None else self.feedback.sequences.later
        self._counted = {user: dict(own) for user, own in later.items()}  # in the trend

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
            scores[:, : shares.shape[2]] += np.einsum("nh,nhi->ni", own[:, :_TRENDS], shares[place])
        return scores

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        users, sequences = list(users), self.feedback.sequences
        self.usual.changed(users, items)
        for user in users if sequences is not None else []:
            now, before = sequences.later.get(user, {}), self._counted.get(user, {})  # type: ignore[union-attr]
            for events, sign in ((before.items() - now.items(), -1), (now.items() - before.items(), 1)):
                for item, time in events:
                    self.trend.count(item, time, sign)
            self._counted[user] = dict(now)

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
        shares, place = self.trend.at(recent.at)
        inside = asked < shares.shape[2]
        trend[inside] = own[:_TRENDS] @ shares[place[0]][:, asked[inside]]
        inside = asked < trained
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
    return np.where(fading > _NEGLIGIBLE, fading, 0.0).astype(np.float32)


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
    in_order, times = sequences.in_order(feedback.trained().values)
    held = _Held.of(in_order, times, sequences.dated, keys.users)
    choice = Choice("any", {}, 0)
    if len(held.users) >= _FEWEST_USERS:
        validation = _Validation(held, penalties, how._replace(done=unseen), keys)
        choice = validation.choice(goal)
    done(0.3)
    if choice.parts == "any":
        return usual(0.3), choice
    session, order = held.session, OrderWeights.none()
    if choice.parts != "trend":
        order = OrderWeights.fit(in_order, _fades(in_order, times, session, sequences.dated), how.threads)
    done(0.6)
    coefficients = validation.coefficients(choice.parts)
    del validation, held, in_order, times  # before the largest of all
    trend = Trend.of(sequences.times, sequences.rows.indices, sequences.rows.columns)
    return NextScorer(usual(0.6), trend, order, coefficients, session, choice), choice


class _Held(NamedTuple):
    """What users did but for the last thing, which is held out of some."""

    done: SparseRows  # grades, users x the most frequent items, in the order of each user
    times: Doubles  # (entries,)
    dated: bool
    session: float
    items: Longs  # which items these are, ascending
    users: Longs  # (n,): whose last thing is held out
    targets: Ints  # (n,): what that was
    gains: Floats  # (n,): its grade
    at: Doubles  # (n,): when

    @classmethod
    def of(cls, done: SparseRows, times: Doubles, dated: bool, keys: Keys) -> "_Held":
        """Of what users did in their order: of all users, or as many by their keys as have two million interactions."""
        session = session_of(done, times) if dated else np.inf
        order, counts = np.argsort(keys[: done.rows], kind="stable"), done.counts()
        users, items = np.zeros(done.rows, np.bool_), np.zeros(done.columns, np.bool_)
        users[order[np.cumsum(counts[order]) <= _VALIDATION_SIZE]] = True
        of_users = np.repeat(users, counts)
        popular = np.argsort(-np.bincount(done.indices[of_users], minlength=done.columns), kind="stable")
        items[popular[:_VALIDATION_ITEMS]] = True
        inside = of_users & items[done.indices]
        done, times, kept = entries_where(done, inside), times[inside], np.flatnonzero(items)
        done = SparseRows(done.indptr, np.searchsorted(kept, done.indices).astype(np.int32), done.values, len(kept))
        some = np.flatnonzero(done.counts() >= 3)
        last = done.indptr[1:][some] - 1
        inside = np.ones(done.nnz, np.bool_)
        inside[last] = False
        take = np.linspace(0, len(some) - 1, min(len(some), _VALIDATION_USERS)).astype(np.int64)
        last = last[take]
        targets = done.indices[last], done.values[last], times[last]
        return cls(entries_where(done, inside), times[inside], dated, session, kept, some[take], *targets)

    def recent(self, chosen: Longs) -> tuple[SparseRows, Recency]:
        """The rows of some of the users, and their order at the time of what is held out."""
        users = self.users[chosen]
        rows = self.done.take(users)
        age = np.repeat(rows.indptr[1:] - 1, rows.counts()) - np.arange(rows.nnz)
        gap = np.maximum(self.at[chosen] - self.times[self.done.indptr[users + 1] - 1], 0.0)
        return rows, Recency(age, gap if self.dated else np.zeros(len(chosen)), self.at[chosen])


class _Validation:
    """Least squares on the last interactions of users, halved by their keys, and NDCG on the other half."""

    @one_blas_thread()
    def __init__(self, held: _Held, penalties: Penalties, how: FitOptions, keys: KeysOfSides) -> None:
        self._held, self._threads = held, how.threads
        ascending = as_csr(held.done).sorted_indices()
        rows = SparseRows(held.done.indptr, ascending.indices, ascending.data, held.done.columns)
        weights = fit_weights(rows, penalties, how, keys.items[held.items], described=False, exact=True)
        assert isinstance(weights, ExactWeights)
        self._weights = weights.weights
        fades = _fades(held.done, held.times, held.session, held.dated)
        self._order = OrderWeights.fit(held.done, fades, how.threads)
        self._trend = Trend.of(held.times, held.done.indices, held.done.columns) if held.dated else None
        self._half = (keys.users[held.users] & np.uint64(1)).astype(np.int64)
        self._products = np.zeros((2, 2, _FEATURES, _FEATURES))  # by halves and regimes
        self._targets, self._rows = np.zeros((2, 2, _FEATURES)), np.zeros((2, 2), np.int64)

        def products(some: Longs) -> tuple[Longs, Floats, Floats]:
            found, _, regime = self._features(some)
            of_targets = found[np.arange(len(some)), :, held.targets[some]]
            return regime, found @ found.transpose(0, 2, 1), held.gains[some, None] * of_targets

        for some, (regime, squares, of_targets) in zip(self._chunks(), self._of_chunks(products), strict=True):
            group = self._half[some], regime
            np.add.at(self._products, group, squares)
            np.add.at(self._targets, group, of_targets)
            np.add.at(self._rows, group, 1)

    def _chunks(self) -> list[Longs]:
        count = len(self._held.users)
        return np.array_split(np.arange(count), -(-count // _CHUNK))

    def _of_chunks(self, work: Callable[[Longs], _Result]) -> list[_Result]:
        return in_threads(work, self._chunks(), self._threads)

    def _features(self, chosen: Longs) -> tuple[Floats, Bools, Longs]:
        """(n, features, items) of held-out users, 0 where they know the item; (n, items) whether they do; regimes."""
        held = self._held
        rows, recent = held.recent(chosen)
        fading = _fading(rows, recent, held.session)
        found = np.zeros((rows.rows, _FEATURES, rows.columns), np.float32)
        if self._trend is not None:
            shares, place = self._trend.at(recent.at)
            found[:, :_TRENDS] = shares[place]
        found[:, _TRENDS] = sparse_times(rows, self._weights) + self._weights[-1]
        found[:, _TRENDS + 1] = sparse_times(_lately(rows, fading, rows.values), self._weights)
        found[:, _TRENDS + 2] = self._order.scores(_lately(rows, fading))
        seen = np.zeros((rows.rows, rows.columns), np.bool_)
        seen[np.repeat(np.arange(rows.rows), rows.counts()), rows.indices] = True
        found *= ~seen[:, None]
        return found, seen, (recent.gap > held.session).astype(np.int64)

    @one_blas_thread()
    def _ndcg(self, tried: dict[Parts, Doubles]) -> dict[Parts, Doubles]:
        """From coefficients (halves, regimes, features) by parts to NDCG@10 of each user."""
        held = self._held

        def measured(some: Longs) -> list[Doubles]:
            found, seen, regime = self._features(some)
            result = []
            for by_group in tried.values():
                own = by_group[self._half[some], regime].astype(np.float32)
                scores = (own[:, None] @ found)[:, 0]
                scores[seen] = -np.inf
                wanted = scores[np.arange(len(some)), held.targets[some]][:, None]
                rank = (scores > wanted).sum(1) + ((scores == wanted).sum(1) - 1) / 2
                result.append(np.where(rank < _LENGTH, held.gains[some] / np.log2(rank + 2), 0.0))
            return result

        columns = zip(*self._of_chunks(measured), strict=True)
        return {name: np.concatenate(own) for name, own in zip(tried, columns, strict=True)}

    def coefficients(self, parts: Parts, half: int | None = None) -> Doubles:
        """(regimes, features): from all users, or from those of one half."""
        found = np.zeros((2, _FEATURES))
        if parts == "any":
            found[:, _TRENDS] = 1.0
            return found
        halves = [0, 1] if half is None else [half]
        products, targets, rows = (sums[halves].sum(0) for sums in (self._products, self._targets, self._rows))
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
        names: tuple[Parts, ...] = get_args(Parts) if self._held.dated else ("any", "order")
        # Each half is measured with the coefficients of the other.
        tried = {name: np.array([self.coefficients(name, 1 - half) for half in range(2)]) for name in names}
        of_users = self._ndcg(tried)
        means: dict[Parts, float] = {name: float(values.mean()) for name, values in of_users.items()}
        best = max((name for name in names if name != "any"), key=lambda name: means[name])
        gain = of_users[best] - of_users["any"]
        error = float(gain.std(ddof=1)) / np.sqrt(len(gain))
        clear = float(gain.mean()) > _ERRORS * error
        return Choice(best if clear or goal == "next" else "any", means, len(gain))
