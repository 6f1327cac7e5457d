"""Baselines of the next item: what is popular lately, and what most often follows the last thing that a user did.

    recent popularity   score_j = sum over interactions with j before the request, 2^(-age / half-life)
    Markov chain        score_j = how often j came right after the last item; among equals what is popular

The half-life is chosen on validation data: the last interaction of every user is held out, and lists are to find it.
"""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from cofill.arrays import Arrays, Doubles, Floats, Ints, Longs
from cofill.config import Settings
from cofill.data.sparse import SparseRows
from cofill.errors import DataError
from cofill.models.baselines.popularity import BaselineScorer, ListBaseline, ListBaselineSettings, Point
from cofill.models.lists.feedback import SECONDS_A_DAY, Feedback, Recency, Sequences, entries_where, sparse_times
from cofill.models.lists.scorer import ScoreParts, Sides
from cofill.progress import Done

# Half-lives that are tried, in days.
_HALF_LIVES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, np.inf)


def sequences_of(feedback: Feedback, name: str) -> Sequences:
    """The order of what users did; DataError where it is unknown."""
    if feedback.sequences is None:
        raise DataError(f"{name} needs to know when people did things, and there are no times", "use 'popularity'")
    return feedback.sequences


class RecentPopularitySettings(ListBaselineSettings):
    """What `recent-popularity` is given by name."""

    half_life: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        default="auto", description="days after which an interaction counts half; auto: chosen on validation data"
    )


class _SequentialScorer(BaselineScorer):
    """A scorer that knows the order of what users did; among equals what is popular."""

    follows_order = True

    @property
    def sequences(self) -> Sequences:
        assert self.feedback.sequences is not None
        return self.feedback.sequences


class RecentPopularityScorer(_SequentialScorer):
    """The same scores for all users at the same time."""

    def __init__(self, feedback: Feedback, sides: Sides, half_life: float) -> None:
        """With positions instead of dates, all interactions count alike."""
        super().__init__(feedback, sides)
        self._half_life = half_life if self.sequences.dated else np.inf
        order = np.argsort(self.sequences.times, kind="stable")
        self._times, self._items = self.sequences.times[order], self.sequences.rows.indices[order]

    def of_people(self, done: SparseRows, about: object = None, recent: Recency | None = None) -> Floats:
        last = self.sequences.end + 1.0
        if recent is None:
            return np.tile(self._at(last), (done.rows, 1))
        # Requests of the same hour are alike: half-lives are days.
        hours = np.where(recent.at >= self.sequences.end, last, np.floor(recent.at / 3600.0) * 3600.0)
        moments, place = np.unique(hours, return_inverse=True)
        found: Floats = np.array([self._at(moment) for moment in moments.tolist()])[place]
        return found

    def _at(self, moment: float) -> Floats:
        """(items,): popularity at a time."""
        last = int(np.searchsorted(self._times, moment, side="right"))
        age = (moment - self._times[:last]) / SECONDS_A_DAY
        # Shares do not change if all ages are less by the same.
        weights = np.exp2(-(age - age.min(initial=np.inf)) / self._half_life) if last else age
        found = np.zeros(self.feedback.items, np.float32)
        sums = np.bincount(self._items[:last], weights, minlength=1)
        found[: len(sums)] = sums / max(float(sums.sum()), 1e-30)
        return found + self._popularity.hint()

    def parts_of(self, items: Ints, grades: Floats, asked: Ints, recent: Recency | None) -> ScoreParts:
        trend = self.one(items, grades, None, recent)[asked].astype(np.float64)
        nothing = np.zeros((len(asked), len(items)))
        return ScoreParts(trend, np.zeros(len(asked)), nothing, nothing)

    def arrays(self) -> Arrays:
        return {"half_life": np.array([self._half_life])}


class RecentPopularity(ListBaseline):
    """Lists of what people chose lately, which sequence models must beat.

    >>> RecentPopularity().fit("ratings.csv").recommend(42)
    """

    kind = "recent-popularity"
    settings_class: ClassVar[type[Settings]] = RecentPopularitySettings
    _settings: RecentPopularitySettings

    def _fit_scorer(self, feedback: Feedback, done: Done) -> RecentPopularityScorer:
        half_life = self._settings.half_life
        if half_life == "auto":
            half_life = _best_half_life(sequences_of(feedback, self.kind))
        done(1.0)
        return self._fitted_scorer(feedback, {"half_life": float(half_life)}, done)

    def _fitted_scorer(self, feedback: Feedback, point: Point, done: Done) -> RecentPopularityScorer:
        sequences_of(feedback, self.kind)
        return RecentPopularityScorer(feedback, self._sides, point["half_life"])

    def _load_scorer(self, arrays: Arrays, feedback: Feedback) -> RecentPopularityScorer:
        return RecentPopularityScorer(feedback, self._sides, float(arrays["half_life"][0]))


def _best_half_life(sequences: Sequences) -> float:
    """By the mean reciprocal of the places that the last items of users have, at the time before each."""
    if not sequences.dated:
        return float(np.inf)
    done, times = sequences.in_order()
    ends = sequences.rows.indptr[1:][sequences.rows.counts() > 1] - 1
    held_out = np.zeros(done.nnz, np.bool_)
    held_out[ends] = True
    order = np.argsort(times, kind="stable")
    return max(_HALF_LIVES, key=lambda days: _found(order, times, done.indices, held_out, done.columns, days))


def _found(order: Longs, times: Doubles, items: Ints, held_out: np.ndarray, columns: int, days: float) -> float:
    """The mean of 1 / log2(1 + place) of held-out items among all, in one pass over time."""
    counts, total, latest = np.zeros(columns), 0.0, float(times[order[0]])
    day = np.floor(times / SECONDS_A_DAY)
    for start in range(0, len(order), max(1, len(order) // 2000)):
        block = order[start : start + max(1, len(order) // 2000)]
        asked = items[block[held_out[block]]]
        total += float((1.0 / np.log2(2.0 + (counts > counts[asked][:, None]).sum(1))).sum()) if len(asked) else 0.0
        now = float(day[block[-1]] * SECONDS_A_DAY)
        if now > latest:
            counts *= np.exp2(-(now - latest) / SECONDS_A_DAY / days)
            latest = now
        counts += np.bincount(items[block[~held_out[block]]], minlength=columns)
    return total / max(1, int(held_out.sum()))


class MarkovScorer(_SequentialScorer):
    """The items that came right after the last one of a user, by how often they did."""

    def __init__(self, feedback: Feedback, sides: Sides) -> None:
        from scipy.sparse import csr_array

        super().__init__(feedback, sides)
        done, _ = self.sequences.in_order()
        users = np.repeat(np.arange(done.rows), done.counts())
        follows = users[1:] == users[:-1]
        pairs = done.indices[:-1][follows], done.indices[1:][follows]
        ones = np.ones(len(pairs[0]), np.float32)
        self._next = csr_array((ones, pairs), shape=(feedback.items, feedback.items))

    def of_people(self, done: SparseRows, about: object = None, recent: Recency | None = None) -> Floats:
        if recent is None:
            return np.tile(self._popularity.hint(), (done.rows, 1))
        return self._after_the_last(done, recent) + self._popularity.hint()

    def _after_the_last(self, done: SparseRows, recent: Recency) -> Floats:
        """(n, items): how often each item came after the last thing that each did, if both are of the training."""
        trained = self._next.shape[0]
        last = entries_where(done, (recent.age == 0) & (done.indices < trained))
        found = np.zeros((done.rows, self.feedback.items), np.float32)
        found[:, :trained] = sparse_times(replace(last, values=np.ones(last.nnz, np.float32)), self._next)
        return found

    def parts_of(self, items: Ints, grades: Floats, asked: Ints, recent: Recency | None) -> ScoreParts:
        assert recent is not None
        row = SparseRows(np.array([0, len(items)]), items, grades, self.feedback.items)
        found = np.zeros((len(asked), len(items)))
        found[:, recent.age == 0] = self._after_the_last(row, recent)[0][asked][:, None]
        hint = self._popularity.hint()[asked].astype(np.float64)
        return ScoreParts(np.zeros(len(asked)), hint, np.zeros_like(found), found)

    def arrays(self) -> Arrays:
        return {"rows": np.array([self._next.shape[0]])}


class MarkovChain(ListBaseline):
    """Lists of what most often came right after the last thing that a user did.

    >>> MarkovChain().fit("ratings.csv").recommend(42)
    """

    kind = "markov"

    def _fitted_scorer(self, feedback: Feedback, point: Point, done: Done) -> MarkovScorer:
        sequences_of(feedback, self.kind)
        done(1.0)
        return MarkovScorer(feedback, self._sides)

    def _load_scorer(self, arrays: Arrays, feedback: Feedback) -> MarkovScorer:
        return MarkovScorer(feedback, self._sides)
