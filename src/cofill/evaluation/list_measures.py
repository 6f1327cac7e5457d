"""Ranking measures of the first n items of many rankings at once, at several cut-offs n in one pass.

Of ratings, those from a threshold on are relevant, by default the upper quarter of the scale (4 of 1 to 5), and their
gain is the rating less the lowest of the scale. Of interactions all are relevant, with gain 1 (binary relevance). What
was not rated counts as not relevant. For one user:

precision       relevant items in the list, divided by n
recall          relevant items in the list, divided by all that are relevant
capped recall   relevant items in the list, divided by the most that could be there: n, or all that are relevant
                (what Liang et al. 2018 call Recall@n)
F1              the harmonic mean of precision and recall; 0 if both are
NDCG            the gains in the list, each divided by log2(1 + its place), over the same of the best possible list
MRR             1 / the place of the first relevant item among all items, not only the first n

These are means over users. Over all lists together:

coverage        the share of the model's items that are in at least one list
novelty         the mean of -log2(share of the training users who rated the item) over the places of a list, then over
                users; an item without a rating counts as if it had one
clusters        recall by popularity: of the relevant ratings in each group of items, the share that the lists contain
slots           the shares of the places that go to items with no, 1 to 5, and more training ratings
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError
from cofill.evaluation.intervals import PairedRatio, paired_ratio
from cofill.evaluation.ratings import Group, PopularityGroups
from cofill.models.lists.rules import best_of_rows

FEW = 5
"""Training ratings up to which an item counts as hardly rated."""

RELEVANT_SHARE = 0.75
"""Where on the scale, from its lowest to its highest rating, relevance begins by default."""

_OF_USERS = ("ndcg", "precision", "recall", "recall_capped", "f1", "novelty")


# What is relevant


class KnowsItems(Protocol):
    """What must be known of a model to say which items its lists could contain."""

    items: Vocabulary

    @property
    def scale(self) -> Scale: ...


@dataclass(frozen=True, eq=False)
class Relevant:
    """The relevant test ratings that the model does not know, person by person."""

    threshold: float | None
    """The least rating that is relevant; None where every interaction is."""
    people: Longs
    """(people,): who has a relevant rating, as an index of the test part's users, ascending."""
    ends: Longs
    """(people + 1,): person i owns the entries from ends[i] to ends[i + 1]."""
    items: Ints
    """(entries,): indices in the model; -1 is an item that it does not know."""
    gains: Doubles
    """(entries,): all above 0."""
    left_out: int
    """Test ratings that the model knows, relevant or not."""

    @classmethod
    def of(cls, users: Ints, items: Ints, gains: Doubles, threshold: float | None, left_out: int) -> Self:
        """From entries (n,) in the order of their users."""
        people, counts = np.unique(users, return_counts=True)
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(threshold, people.astype(np.int64), ends, items, gains, left_out)

    def counts(self) -> Longs:
        """(people,): how many relevant items each has."""
        return np.diff(self.ends)


def item_indices(model: KnowsItems, ratings: Ratings) -> Ints:
    """(n,): the model's index of the item of each rating; -1 where it does not know it."""
    return model.items.find(ratings.items.ids)[ratings.item_index]


def relevant_ratings(model: KnowsItems, test: Ratings, known: Bools, least: float | None = None) -> Relevant:
    """What is relevant in a test part; `known` (n,) are the ratings that the model has seen, which do not count."""
    threshold = relevance_threshold(test, least, model.scale)
    left_out = int(known.sum())
    if left_out == len(test):
        raise DataError(
            f"the model was trained on all of these {len(test):,} ratings, so there is nothing left to find; "
            f"cut the data with `cofill split` first, and train on the other part"
        )
    chosen = ~known & are_relevant(test.values, threshold)
    if not chosen.any():
        highest = test.values[~known].max()
        raise DataError(
            f"none of the {len(test) - left_out:,} test ratings is relevant: the highest is {highest:g}, "
            f"and relevant begins at {threshold:g}; give a lower one"
        )
    gains = gains_of(test.values[chosen], threshold, model.scale)
    return Relevant.of(test.user_index[chosen], item_indices(model, test)[chosen], gains, threshold, left_out)


def are_relevant(values: Floats, threshold: float | None) -> Bools:
    """(n,): as ratings are kept, in single precision: 3.3 in 32 bits is less than in 64."""
    return np.ones(len(values), np.bool_) if threshold is None else values >= np.float32(threshold)


def gains_of(values: Floats, threshold: float | None, scale: Scale) -> Doubles:
    """(n,): of relevant ratings."""
    return np.ones(len(values)) if threshold is None else values.astype(np.float64) - scale.low


def relevance_threshold(test: Ratings, relevant: float | None, scale: Scale) -> float | None:
    """The least rating that is relevant; None of interactions, which all are."""
    if not getattr(test, "rated", True):
        if relevant is not None:
            raise DataError(f"relevant={relevant:g} is for ratings, and of interactions all are relevant; leave it out")
        return None
    low, high = scale
    if relevant is None:
        return low + RELEVANT_SHARE * (high - low)
    if not np.float32(low) < np.float32(relevant) <= np.float32(high):  # as ratings are kept
        raise DataError(
            f"relevant={relevant:g} must be above the lowest rating, {low:g}, and at most the highest, {high:g}"
        )
    return float(relevant)


# What is measured


@dataclass(frozen=True, kw_only=True)
class CutOff:
    """The measures of the first n of every list."""

    n: int
    ndcg: float
    precision: float
    recall: float
    recall_capped: float
    f1: float
    novelty: float
    coverage: float


@dataclass(frozen=True, kw_only=True)
class ListCluster(Group):
    """Items with about the same number of training ratings, their relevant ratings, and what was found of these."""

    items: int
    found: int
    recall: float | None  # None where nothing is relevant


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Shares of the places of all lists, by training ratings of the item; all 0 where no place was filled."""

    unrated: float
    few: float  # 1 to 5
    more: float


@dataclass(frozen=True, kw_only=True)
class MeasuredLists(CutOff):
    """The measures of lists of n, and of lists of other lengths, as the head of this module defines them."""

    mrr: float
    slots: Slots
    clusters: tuple[ListCluster, ...]
    cutoffs: tuple[CutOff, ...]  # n and the other lengths, ascending
    of_users: Mapping[str, Doubles] = field(repr=False, compare=False)
    """(users,) each: the measures of every user, by names such as "ndcg@10" and "mrr"."""
    people: Longs = field(repr=False, compare=False)
    """(users,): who they are, as indices of the test part's users."""

    def at(self, n: int) -> CutOff:
        """The measures of lists of another length."""
        for cutoff in self.cutoffs:
            if cutoff.n == n:
                return cutoff
        raise DataError(f"lists of {n} were not measured, but of {', '.join(str(one.n) for one in self.cutoffs)}")

    def ratio_to(self, other: "MeasuredLists", measure: str | None = None) -> PairedRatio:
        """The ratio of a measure to that of other lists for the same users, with its 95 % interval over users.

        `measure` is a name in `of_users`; NDCG at n by default.
        """
        name = measure or f"ndcg@{self.n}"
        if name not in self.of_users or name not in other.of_users:
            both = [key for key in self.of_users if key in other.of_users]
            raise DataError(f"{name!r} was not measured for both, but {', '.join(both)}")
        if not np.array_equal(self.people, other.people):
            raise DataError("the lists are of different users, so they cannot be compared; use the same test part")
        return paired_ratio(self.of_users[name], other.of_users[name])

    def as_json(self) -> dict[str, Any]:
        """All but the values of single users."""
        return without_users(asdict(self))


def without_users(document: dict[str, Any]) -> dict[str, Any]:
    """The JSON of lists without the values of single users."""
    return {name: value for name, value in document.items() if name not in ("of_users", "people")}


class Tally:
    """Measures rankings block by block of users."""

    def __init__(self, relevant: Relevant, counts: Longs, lengths: Sequence[int]) -> None:
        """`counts` (items,) are the training ratings of the items; `lengths` are the cut-offs, n first."""
        self._relevant = relevant
        self._counts = counts
        self._lengths = lengths
        self._width = min(max(lengths), len(counts))
        self._information = -np.log2(np.maximum(counts, 1))  # without the number of training users
        users = len(relevant.people)
        self._of_users = {f"{name}@{n}": np.zeros(users) for n in lengths for name in _OF_USERS}
        self._of_users["mrr"] = np.zeros(users)
        self._listed = {n: np.zeros(len(counts), np.int64) for n in lengths}  # how often, by item
        self._found = np.zeros(len(counts), np.int64)  # how often in a list of n where it is relevant

    def add(self, first: int, scores: Floats) -> None:
        """Measure users from `first` on, by their scores (users, items); -inf is known, and not ranked."""
        block = _Block(self._relevant, first, scores, self._width)
        novelty = np.cumsum(np.where(block.filled, self._information[block.best], 0.0), axis=1)
        places = np.cumsum(block.filled, axis=1)
        gained = np.cumsum(block.gains / np.log2(np.arange(2, self._width + 2)), axis=1)
        hits = np.cumsum(block.hits, axis=1)
        own = slice(first, first + len(scores))
        for n in self._lengths:
            last = min(n, self._width) - 1
            found, wanted = hits[:, last], block.wanted
            measures = {
                "ndcg": gained[:, last] / block.best_possible(n),
                "precision": found / n,
                "recall": found / wanted,
                "recall_capped": found / np.minimum(wanted, n),
                "f1": 2 * found / (n + wanted),  # the harmonic mean of the two, without a division by 0
                "novelty": np.where(places[:, last], novelty[:, last] / np.maximum(places[:, last], 1), -np.inf),
            }
            for name, values in measures.items():
                self._of_users[f"{name}@{n}"][own] = values
            listed = block.best[:, :n][block.filled[:, :n]]
            self._listed[n] += np.bincount(listed, minlength=len(self._counts))
        n = self._lengths[0]
        self._found += np.bincount(block.best[:, :n][block.hits[:, :n]], minlength=len(self._counts))
        self._of_users["mrr"][own] = block.reciprocal_ranks()

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that was measured, for `join`."""
        listed = {f"listed@{n}": counts for n, counts in self._listed.items()}
        return {**self._of_users, **listed, "found": self._found}

    def join(self, places: Longs, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add what another measured of some of these people, given by their places."""
        for name, values in self._of_users.items():
            values[places] = arrays[name]
        for n, counts in self._listed.items():
            counts += arrays[f"listed@{n}"]
        self._found += arrays["found"]

    def result(self, groups: PopularityGroups, training_users: int) -> MeasuredLists:
        """The measures of all users together, once every user was added."""
        for n in self._lengths:  # of a list without a place there is none
            novelty = self._of_users[f"novelty@{n}"] + np.log2(max(1, training_users))
            self._of_users[f"novelty@{n}"] = np.where(np.isfinite(novelty), novelty, 0.0)
        cutoffs = {n: self._cutoff(n) for n in sorted(self._lengths)}
        n = self._lengths[0]
        return MeasuredLists(
            **asdict(cutoffs[n]),
            mrr=float(self._of_users["mrr"].mean()),
            slots=self._slots(n),
            clusters=tuple(self._clusters(groups)),
            cutoffs=tuple(cutoffs.values()),
            of_users=self._of_users,
            people=self._relevant.people,
        )

    def _cutoff(self, n: int) -> CutOff:
        means = {name: float(self._of_users[f"{name}@{n}"].mean()) for name in _OF_USERS}
        return CutOff(n=int(n), coverage=float((self._listed[n] > 0).mean()), **means)

    def _slots(self, n: int) -> Slots:
        listed, counts = self._listed[n], self._counts
        places = max(1, int(listed.sum()))
        unrated, few = int(listed[counts == 0].sum()), int(listed[(counts > 0) & (counts <= FEW)].sum())
        more = int(listed[counts > FEW].sum())
        return Slots(unrated=unrated / places, few=few / places, more=more / places)

    def _clusters(self, groups: PopularityGroups) -> Iterator[ListCluster]:
        relevant = np.bincount(groups.group_of[self._relevant.items], minlength=len(groups.members))
        for number, members in enumerate(groups.members):
            ratings, found = int(relevant[number]), int(self._found[members].sum())
            recall = found / ratings if ratings else None
            about = groups.about(number, self._counts)
            yield ListCluster(items=len(members), ratings=ratings, found=found, recall=recall, **about)


class _Block:
    """The rankings of some users, and what is relevant in them."""

    def __init__(self, relevant: Relevant, first: int, scores: Floats, width: int) -> None:
        users, items = scores.shape
        entries = slice(relevant.ends[first], relevant.ends[first + users])
        self.wanted: Longs = relevant.counts()[first : first + users]
        """(users,): how many items are relevant."""
        self._scores = scores
        self._user = np.repeat(np.arange(users), self.wanted)
        self._item = relevant.items[entries].astype(np.int64)
        self._gain = relevant.gains[entries]
        self.best = best_of_rows(scores, width)
        """(users, width): best first; -1 where nothing is left to recommend."""
        self.filled: Bools = self.best >= 0
        self.hits, self.gains = self._found(items)
        """(users, width): whether the item is relevant, and its gain."""
        self._ideal = self._in_best_order()

    def _found(self, items: int) -> tuple[Bools, Doubles]:
        keys = self._user * items + self._item
        order = np.argsort(keys)
        order = order[self._item[order] >= 0]
        listed = np.arange(len(self.best))[:, None] * items + self.best
        if not len(order):
            return np.zeros(listed.shape, np.bool_), np.zeros(listed.shape)
        keys, gains = keys[order], self._gain[order]
        near = np.minimum(np.searchsorted(keys, listed), len(keys) - 1)
        hits: Bools = (keys[near] == listed) & self.filled
        return hits, np.where(hits, gains[near], 0.0)

    def _in_best_order(self) -> tuple[Longs, Doubles]:
        """(entries,): places from 0 of the relevant items in the best possible list, and their discounted gains."""
        order = np.lexsort((-self._gain, self._user))
        starts = np.cumsum(self.wanted) - self.wanted
        place = np.arange(len(order)) - np.repeat(starts, self.wanted)
        return place, self._gain[order] / np.log2(place + 2)

    def best_possible(self, n: int) -> Doubles:
        """(users,): the discounted gain of the best list of n."""
        place, gains = self._ideal
        best: Doubles = np.bincount(self._user, np.where(place < n, gains, 0.0), len(self.wanted)).astype(np.float64)
        return best

    def reciprocal_ranks(self) -> Doubles:
        """(users,): 1 / the place of the first relevant item among all that are ranked; 0 if there is none."""
        found: Bools = np.asarray(self.hits.any(axis=1))
        ranks = np.where(found, self.hits.argmax(axis=1) + 1.0, np.inf)
        ranked = (self._item >= 0) & ~found[self._user]
        user, item = self._user[ranked], self._item[ranked]
        if len(user):  # who must be counted out: all their relevant items lie behind the longest list
            score = self._scores[user, item]
            highest = np.full(len(found), -np.inf, np.float32)
            np.maximum.at(highest, user, score)
            first = np.full(len(found), self._scores.shape[1])
            top = score == highest[user]
            np.minimum.at(first, user[top], item[top])
            rows = np.unique(user)
            scores, limit = self._scores[rows], highest[rows, None]
            before = (scores == limit) & (np.arange(scores.shape[1]) < first[rows, None])
            ranks[rows] = 1 + (scores > limit).sum(axis=1) + before.sum(axis=1)
        return 1.0 / ranks
