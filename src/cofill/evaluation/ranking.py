"""Ranking measures: how good the first n recommendations are, among all items that a user has not rated in training.

For one user, `relevant` items are those whose test rating reaches a threshold, by default the upper quarter of the
scale (4 of 1 to 5); whatever nobody has rated counts as not relevant. The list is what `recommend` gives: the n
highest scores, not clipped to the scale, the lower index first among equals.

precision   relevant items in the list, divided by n
recall      relevant items in the list, divided by all that are relevant
F1          the harmonic mean of these two; 0 if both are
NDCG        the gains in the list, each divided by log2(1 + its place), over the same of the best possible list. The
            gain of a relevant item is its rating less the lowest of the scale, that of any other item 0
MRR         1 / the place of the first relevant item among all items, not only the first n

These are means over the users who have a relevant test rating; of others nothing can be found. A relevant item that
the model does not know cannot be recommended: it is missed, not passed over. Over the lists of the same users:

coverage    the share of the model's items that are in at least one list
novelty     the mean of -log2(share of the training users who rated the item) over the places of a list, then over
            users; an item that nobody rated counts as if one user had
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError
from cofill.models.lists.ranked import best_of, check_count

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

RELEVANT_SHARE = 0.75
"""Where on the scale, from its lowest to its highest rating, relevance begins by default."""


class RankingModel(Protocol):
    """The interface of a model whose lists are measured."""

    users: Vocabulary
    items: Vocabulary

    @property
    def scale(self) -> Scale: ...
    def user_scores(self, users: Longs) -> Floats: ...
    def known_items(self, user: int) -> Ints: ...
    def stranger_scores(self) -> Floats: ...
    def user_counts(self) -> Longs: ...
    def item_counts(self) -> Longs: ...


@dataclass(frozen=True)
class RankingEvaluation:
    """The measures of one model's lists on one test part, as the head of this module defines them."""

    ndcg: float
    precision: float
    recall: float
    f1: float
    mrr: float
    coverage: float
    novelty: float
    n: int
    relevant: float  # the least rating that is relevant
    users: int  # who count: those with a relevant rating
    ratings: int  # relevant ones
    trained_on: int  # test ratings that the model knows, relevant or not: left out
    unknown_items: int  # relevant ratings of items that the model does not know: missed

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def evaluate_ranking(
    model: RankingModel,
    test: Ratings,
    *,
    n: int = 10,
    relevant: float | None = None,
    chunk: int = 256,
    report: Callable[[float], None] | None = None,
) -> RankingEvaluation:
    """Measure the first n recommendations to the users of the test ratings, those unknown to the model too.

    `relevant` is the least rating that counts as relevant. `chunk` users are scored at once: memory is that many times
    the items. `report` is called with the share done.
    """
    check_count(n)
    if not isinstance(chunk, int) or chunk < 1:
        raise DataError(f"chunk must be a whole number of at least 1. Got {chunk!r}")
    if len(test) == 0:
        raise DataError("there are no ratings to evaluate on; give at least one")
    threshold = _threshold(relevant, model.scale)
    left = _Left(model, test, threshold)
    measures = np.empty((len(left.users), len(_Lists.MEASURES)))
    lists = _Lists(model, n)
    for first in range(0, len(left.users), chunk):
        users = left.users[first : first + chunk]
        for place, scores in enumerate(_scores(model, users), first):
            measures[place] = lists.measured(scores, *left.of(place))
        if report:
            report(min(1.0, (first + chunk) / len(left.users)))
    means = dict(zip(_Lists.MEASURES, measures.mean(0).tolist(), strict=True))
    return RankingEvaluation(
        **means,
        coverage=float(lists.recommended.mean()),
        n=int(n),
        relevant=threshold,
        users=len(left.users),
        ratings=len(left.items),
        trained_on=left.trained_on,
        unknown_items=int((left.items < 0).sum()),
    )


class _Left:
    """The relevant test ratings that the model does not know, user by user."""

    def __init__(self, model: RankingModel, test: Ratings, threshold: float) -> None:
        index_of_user = model.users.find(test.users.ids)
        items = model.items.find(test.items.ids)[test.item_index]
        ends = np.searchsorted(test.user_index, np.arange(len(test.users) + 1))
        known = np.zeros(len(test), np.bool_)
        for user in np.flatnonzero((index_of_user >= 0) & (np.diff(ends) > 0)).tolist():
            own = slice(ends[user], ends[user + 1])
            known[own] = np.isin(items[own], model.known_items(int(index_of_user[user])))
        self.trained_on = int(known.sum())
        if self.trained_on == len(test):
            raise DataError(
                f"the model was trained on all of these {len(test):,} ratings, so there is nothing left to find; "
                f"cut the data with `cofill split` first, and train on the other part"
            )
        # As the ratings are kept: 3.3 in 32 bits is less than 3.3 in 64.
        chosen = ~known & (test.values >= np.float32(threshold))
        if not chosen.any():
            highest = test.values[~known].max()
            raise DataError(
                f"none of the {len(test) - self.trained_on:,} test ratings is relevant: the highest is {highest:g}, "
                f"and relevant begins at {threshold:g}; give a lower one"
            )
        users, counts = np.unique(test.user_index[chosen], return_counts=True)
        self.users: Longs = index_of_user[users].astype(np.int64)
        """(users,): their indices in the model; -1 is unknown."""
        self.items: Ints = items[chosen]
        self.gains: Doubles = test.values[chosen].astype(np.float64) - model.scale.low
        self._ends = np.concatenate([[0], np.cumsum(counts)])

    def of(self, place: int) -> tuple[Ints, Doubles]:
        """Relevant items of a user, and their gains."""
        own = slice(self._ends[place], self._ends[place + 1])
        return self.items[own], self.gains[own]


class _Lists:
    """The first n of each ranking, measured one user at a time; remembers what was recommended to anybody."""

    MEASURES = ("ndcg", "precision", "recall", "f1", "mrr", "novelty")

    def __init__(self, model: RankingModel, n: int) -> None:
        counts = model.item_counts()
        training_users = max(1, int((model.user_counts() > 0).sum()))
        self.recommended = np.zeros(len(counts), np.bool_)
        self._n = n
        self._information = -np.log2(np.maximum(counts, 1) / training_users)
        self._gain = np.zeros(len(counts))  # of one user's items; zeros again after each

    def measured(self, scores: Floats, items: Ints, gains: Doubles) -> tuple[float, ...]:
        """MEASURES of a user with these relevant items, by the scores (items,); -inf is known, and not ranked."""
        best = best_of(scores, self._n)
        self.recommended[best] = True
        reachable = items[items >= 0]
        self._gain[reachable] = gains[items >= 0]
        found = self._gain[best]
        self._gain[reachable] = 0.0
        hits = int((found > 0).sum())
        ndcg = _discounted(found) / _discounted(np.sort(gains)[::-1][: self._n])
        precision, recall = hits / self._n, hits / len(items)
        f1 = 2 * hits / (self._n + len(items))  # the harmonic mean of the two, without a division by 0
        novelty = float(self._information[best].mean()) if best else 0.0
        return ndcg, precision, recall, f1, _reciprocal_rank(scores, reachable), novelty


def _discounted(gains: Doubles) -> float:
    return float(gains @ (1.0 / np.log2(np.arange(2, len(gains) + 2))))


def _reciprocal_rank(scores: Floats, relevant: Ints) -> float:
    """1 / the place of the best of the relevant items; 0 if there is none."""
    if not len(relevant):
        return 0.0
    highest = scores[relevant].max()
    first = relevant[scores[relevant] == highest].min()
    return 1.0 / float(1 + (scores > highest).sum() + (scores[:first] == highest).sum())


def _scores(model: RankingModel, users: Longs) -> Floats:
    """(users, items): -inf for what a user has rated. An unknown user gets the scores of a user without ratings."""
    items = len(model.items)
    scores = np.empty((len(users), items), np.float32)
    known = users >= 0
    if known.any():
        scores[known] = model.user_scores(users[known])
    if not known.all():
        scores[~known] = model.stranger_scores()[:items]
    if not np.isfinite(scores).all():
        place, item = np.argwhere(~np.isfinite(scores))[0].tolist()
        user = "an unknown user" if users[place] < 0 else f"user {model.users.id(int(users[place]))!r}"
        raise DataError(
            f"the model scores item {model.items.id(item)!r} with {scores[place, item]} for {user}; "
            f"a list cannot be made of that: train it again"
        )
    for place in np.flatnonzero(known).tolist():
        scores[place, model.known_items(int(users[place]))] = -np.inf
    return scores


def _threshold(relevant: float | None, scale: Scale) -> float:
    low, high = scale
    if relevant is None:
        return low + RELEVANT_SHARE * (high - low)
    if not np.float32(low) < np.float32(relevant) <= np.float32(high):  # as ratings are kept
        raise DataError(
            f"relevant={relevant:g} must be above the lowest rating, {low:g}, and at most the highest, {high:g}"
        )
    return float(relevant)
