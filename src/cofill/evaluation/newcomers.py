"""Lists for people whom the model was not trained on (strong generalisation; Marlin 2004, Liang et al. 2018).

Each is folded in with some of their ratings, which are then known, and the lists should find the others. Nothing of one
newcomer changes the list of another. The usual measures are Recall@20 (`recall_capped` at 20) and NDCG@100.
`data.splits` has the split, and cuts what is told of newcomers down to a few ratings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cofill.arrays import Bools, Floats, Ints, Longs
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id
from cofill.errors import DataError
from cofill.evaluation.ranking import CUTOFFS, ListModel, ListsBy, RankingEvaluation, check_test, measured, pairs_of
from cofill.evaluation.relevance import KnowsItems, item_indices, relevant_ratings


class FoldInModel(ListModel, Protocol):
    """The interface of a model that makes lists for people by their ratings alone."""

    def new_user_scores(self, items: Ints, values: Floats, *, by: ListsBy = "list") -> Floats: ...


def evaluate_newcomers(
    model: FoldInModel,
    fold_in: Ratings,
    test: Ratings,
    *,
    n: int = 10,
    cutoffs: Sequence[int] = CUTOFFS,
    relevant: float | None = None,
    by: ListsBy = "list",
    chunk: int = 256,
    report: Callable[[float], None] | None = None,
) -> RankingEvaluation:
    """Measure lists for the users of the test ratings, each folded in with their ratings in `fold_in`.

    The users must be new to the model. Somebody without a rating in `fold_in` gets the list of a stranger; ratings of
    items that the model does not know tell it nothing. `trained_on` counts test ratings that are in `fold_in` too: they
    are left out. The other arguments are those of `evaluate_ranking`.
    """
    check_test(test, n, cutoffs, chunk)
    check_new(model.scale, model.users.find(test.users.ids), model.user_counts(), fold_in, test)
    told = FoldIn.of(model, fold_in, test)
    wanted = relevant_ratings(model, test, told.contains(model, test), relevant)
    ids = [test.users.id(person) for person in wanted.people.tolist()]
    people = Newcomers(model, told.take(wanted.people), ids, by)
    return measured(model, test, wanted, people, lengths=(n, *cutoffs), by=by, chunk=chunk, report=report)


def check_new(scale: Scale, users: Ints, counts: Longs, fold_in: Ratings, test: Ratings) -> None:
    """Check that there is something to measure; `users` are the model's indices of the users of the test part.

    `counts` are the training ratings of the model's users.
    """
    present = np.unique(test.user_index)
    index = users[present]
    trained = int((counts[index[index >= 0]] > 0).sum())
    if trained:
        raise DataError(
            f"the model was trained with {trained:,} of these {len(present):,} users, who should be new to it; "
            f"train it on the training part of a split for strong generalisation"
        )
    told = np.unique(fold_in.user_index)
    if not (test.users.find(fold_in.users.array()[told]) >= 0).any():
        raise DataError(
            f"none of the {len(present):,} users of the test part has a rating to fold in; "
            f"give the fold-in part of the same split"
        )
    low, high = scale
    outside = (fold_in.values < low) | (fold_in.values > high)
    if getattr(fold_in, "rated", True) and outside.any():
        raise DataError(
            f"a rating of {fold_in.values[outside][0]:g} is to be folded in, outside the model's scale of "
            f"{low:g} to {high:g}; correct it"
        )


@dataclass(frozen=True)
class FoldIn:
    """What is told of people, by the model's indices of items."""

    items: Ints
    """(n,): ascending for each person."""
    values: Floats
    ends: Longs
    """(people + 1,): person i owns the entries from ends[i] to ends[i + 1]."""

    @classmethod
    def of(cls, model: KnowsItems, fold_in: Ratings, test: Ratings) -> "FoldIn":
        """Of all users of a test part; ratings of items that the model does not know tell it nothing."""
        users = test.users.find(fold_in.users.ids)[fold_in.user_index].astype(np.int64)
        items = item_indices(model, fold_in)
        kept = np.flatnonzero((users >= 0) & (items >= 0))
        order = kept[np.lexsort((items[kept], users[kept]))]
        ends = np.searchsorted(users[order], np.arange(len(test.users) + 1))
        return cls(items[order], fold_in.values[order], ends)

    def take(self, people: Longs) -> "FoldIn":
        """The same of some of the people."""
        counts = np.diff(self.ends)[people]
        entries = np.concatenate([np.empty(0, np.int64), *(np.arange(*self.ends[one : one + 2]) for one in people)])
        return FoldIn(self.items[entries], self.values[entries], np.concatenate([[0], np.cumsum(counts)]))

    def contains(self, model: KnowsItems, test: Ratings) -> Bools:
        """(n,): the test ratings of items that are folded in for the same user."""
        items, size = item_indices(model, test).astype(np.int64), len(model.items)
        user = np.repeat(np.arange(len(test.users)), np.diff(self.ends))
        folded = user * size + self.items  # ascending
        asked = test.user_index.astype(np.int64) * size + items
        if not len(folded):
            return np.zeros(len(test), np.bool_)
        near = np.minimum(np.searchsorted(folded, asked), len(folded) - 1)
        found: Bools = (folded[near] == asked) & (items >= 0)
        return found


class Newcomers:
    """People by what is told of them."""

    def __init__(self, model: FoldInModel, told: FoldIn, ids: Sequence[Id], by: ListsBy) -> None:
        """`ids` are what messages call them."""
        self._model, self._told, self._ids, self._by = model, told, ids, by

    def scores(self, first: int, last: int) -> Floats:
        size = len(self._model.items)
        scores = np.empty((last - first, size), np.float32)
        # What is told of newcomers is drawn at random: its order means nothing.
        goal: dict[str, Any] = {"goal": "any"} if getattr(self._model, "follows_order", False) else {}
        for row, own in enumerate(self._own(first, last)):
            items, values = self._told.items[own], self._told.values[own]
            found = self._model.new_user_scores(items, values, by=self._by, **goal) if len(items) else self._stranger()
            scores[row] = found[:size]
        return scores

    def known(self, first: int, last: int) -> tuple[Longs, Longs]:
        return pairs_of([self._told.items[own] for own in self._own(first, last)])

    def name(self, place: int) -> str:
        return f"user {self._ids[place]!r}"

    def _own(self, first: int, last: int) -> list[slice]:
        ends = self._told.ends
        return [slice(ends[person], ends[person + 1]) for person in range(first, last)]

    def _stranger(self) -> Floats:
        return self._model.stranger_scores(by=self._by)
