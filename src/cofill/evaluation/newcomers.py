"""Lists for people whom the model was not trained on (strong generalisation; Marlin 2004, Liang et al. 2018).

Each is folded in with some of their ratings, which are then known, and the lists should find the others. Nothing of one
newcomer changes the list of another. The usual measures are Recall@20 (`recall_capped` at 20) and NDCG@100.
`data.splits` has the split, and cuts what is told of newcomers down to a few ratings.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from cofill.data.ratings import Ratings
from cofill.errors import DataError
from cofill.evaluation.ranking import (
    CUTOFFS,
    Flags,
    Floats,
    Ints,
    ListModel,
    ListsBy,
    Longs,
    RankingEvaluation,
    check_test,
    measured,
    pairs_of,
)
from cofill.evaluation.relevance import item_indices, relevant_ratings


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
    _check_new(model, fold_in, test)
    people = _Newcomers(model, fold_in, test, by)
    wanted = relevant_ratings(model, test, people.told(test), relevant)
    people.choose(wanted.people)
    return measured(model, test, wanted, people, lengths=(n, *cutoffs), by=by, chunk=chunk, report=report)


def _check_new(model: FoldInModel, fold_in: Ratings, test: Ratings) -> None:
    present = test.users.array()[np.unique(test.user_index)]
    index = model.users.find(present)
    trained = int((model.user_counts()[index[index >= 0]] > 0).sum())
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
    low, high = model.scale
    outside = (fold_in.values < low) | (fold_in.values > high)
    if getattr(fold_in, "rated", True) and outside.any():
        raise DataError(
            f"a rating of {fold_in.values[outside][0]:g} is to be folded in, outside the model's scale of "
            f"{low:g} to {high:g}; correct it"
        )


class _Newcomers:
    """People by their ratings to fold in, in the order of the test part's users."""

    def __init__(self, model: FoldInModel, fold_in: Ratings, test: Ratings, by: ListsBy) -> None:
        self._model, self._test, self._by = model, test, by
        users = test.users.find(fold_in.users.ids)[fold_in.user_index].astype(np.int64)
        items = item_indices(model, fold_in)
        kept = np.flatnonzero((users >= 0) & (items >= 0))
        order = kept[np.lexsort((items[kept], users[kept]))]
        self._items, self._values = items[order], fold_in.values[order]
        self._ends = np.searchsorted(users[order], np.arange(len(test.users) + 1))
        self._people: Longs = np.arange(len(test.users))

    def told(self, test: Ratings) -> Flags:
        """(n,): the test ratings of items that are folded in for the same user."""
        items, size = item_indices(self._model, test).astype(np.int64), len(self._model.items)
        user = np.repeat(np.arange(len(test.users)), np.diff(self._ends))
        folded = user * size + self._items  # ascending
        asked = test.user_index.astype(np.int64) * size + items
        if not len(folded):
            return np.zeros(len(test), np.bool_)
        near = np.minimum(np.searchsorted(folded, asked), len(folded) - 1)
        found: Flags = (folded[near] == asked) & (items >= 0)
        return found

    def choose(self, people: Longs) -> None:
        """From now on these alone, by their indices in the test part."""
        self._people = people

    def scores(self, first: int, last: int) -> Floats:
        size = len(self._model.items)
        scores = np.empty((last - first, size), np.float32)
        for row, own in enumerate(self._own(first, last)):
            items, values = self._items[own], self._values[own]
            found = self._model.new_user_scores(items, values, by=self._by) if len(items) else self._stranger()
            scores[row] = found[:size]
        return scores

    def known(self, first: int, last: int) -> tuple[Longs, Longs]:
        return pairs_of([self._items[own] for own in self._own(first, last)])

    def name(self, place: int) -> str:
        return f"user {self._test.users.id(int(self._people[place]))!r}"

    def _own(self, first: int, last: int) -> list[slice]:
        return [slice(self._ends[user], self._ends[user + 1]) for user in self._people[first:last].tolist()]

    def _stranger(self) -> Floats:
        return self._model.stranger_scores(by=self._by)
