"""Lists measured: how good the first n recommendations are, among all items that a user has not rated in training.

Every item that the user has not rated is ranked: nothing is sampled. The list is what `recommend` gives: the n highest
scores, the lower index first among equals. `list_measures` says which test ratings a list should find, and what is
measured. The measures are means over the users who have a relevant test rating; of others nothing can be found. A
relevant item that the model does not know cannot be recommended: it is missed, not passed over.

Beside the lists of the model stand those of **popularity** for the same users: the items with the most training
ratings that the user has not rated, the lower index first among equals. A model that does not beat them has learned
nothing about tastes.

Newcomers are users that the model was not trained on (strong generalisation; Marlin 2004, Liang et al. 2018). Each is
folded in with some of their ratings, which are then known, and the lists should find the others. Nothing of one
newcomer changes the list of another. The usual measures are Recall@20 (`recall_capped` at 20) and NDCG@100.
`data.splits` has the split, and cuts what is told of newcomers down to a few ratings.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.frames import InFrames
from cofill.data.ratings import Ratings, Scale, refuse_unread
from cofill.data.sparse import SparseRows
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError
from cofill.evaluation.list_measures import (
    KnowsItems,
    MeasuredLists,
    Relevant,
    Tally,
    item_indices,
    relevant_ratings,
    without_users,
)
from cofill.evaluation.ratings import PopularityGroups, popularity_groups
from cofill.models.lists.rules import By

if TYPE_CHECKING:
    import polars as pl


# The share of users with a test rating earlier than a known one from which on the test has no order: after a split at
# random most have one, and clocks are off now and then.
_OUT_OF_ORDER = 0.02

CUTOFFS = (20, 100)
"""Lengths that are measured beside n: those of Recall@20 and NDCG@100 in Liang et al. (2018)."""


class RankingModel(KnowsItems, Protocol):
    """The interface of a model whose lists for its own users are measured.

    One that `follows_order` has `user_scores` that take the times of requests (`at`) and a `goal`, too.
    """

    users: Vocabulary

    def user_counts(self) -> Longs: ...
    def item_counts(self) -> Longs: ...
    def known_items(self, user: int) -> Ints: ...
    def user_scores(self, users: Longs, *, by: By = "list") -> Floats: ...
    def stranger_scores(self, *, by: By = "list") -> Floats: ...


class FoldInModel(RankingModel, Protocol):
    """The interface of a model that makes lists for people by their ratings alone."""

    def new_user_scores(self, items: Ints, values: Floats, *, by: By = "list") -> Floats: ...


@dataclass(frozen=True, kw_only=True)
class RankingEvaluation(MeasuredLists, InFrames):
    """The measures of one model's lists on one test part, and of popularity on the same."""

    by: By
    relevant: float | None  # the least rating that is relevant; None where all interactions are
    users: int  # who count: those with a relevant rating
    ratings: int  # relevant ones
    trained_on: int  # test ratings that the model knows, relevant or not: left out
    unknown_items: int  # relevant ratings of items that the model does not know: missed
    popularity: MeasuredLists  # the most rated items, for the same users

    def to_polars(self) -> "pl.DataFrame":
        """A row for each length of the lists, first those of the model, then those of popularity.

        The column lists says whose they are; mrr, which looks at all items, is the same for every length.
        """
        import polars as pl

        both = {"model": self, "popularity": self.popularity}
        return pl.DataFrame(
            [
                {"lists": name, **asdict(cutoff), "mrr": measured.mrr}
                for name, measured in both.items()
                for cutoff in measured.cutoffs
            ]
        )

    def as_json(self) -> dict[str, Any]:
        """All but the values of single users."""
        return without_users(asdict(self)) | {"popularity": self.popularity.as_json()}


class People(ABC):
    """The users of a test part, by the places that they have in `Relevant`."""

    @abstractmethod
    def scores(self, first: int, last: int) -> Floats:
        """(last - first, items): fresh, so that they can be changed."""

    @abstractmethod
    def known(self, place: int) -> Ints:
        """Items that a user knows, and that are not to be ranked."""


def evaluate_ranking(
    model: RankingModel,
    test: Ratings,
    *,
    n: int = 10,
    cutoffs: Sequence[int] = CUTOFFS,
    relevant: float | None = None,
    by: By = "list",
    chunk: int = 256,
    report: Callable[[float], None] | None = None,
) -> RankingEvaluation:
    """Measure the first n recommendations to the users of the test ratings, those unknown to the model too.

    `cutoffs` are further lengths to measure (`at`). `relevant` is the least rating that counts as relevant; of
    interactions all do. `by` is what the lists are sorted by, as in `recommend`. `chunk` users are scored at once:
    memory is that many times the items. `report` is called with the share done.

    A model that follows order and time is asked for the next item, at the time of the first test rating of each user,
    if no user has a test rating earlier than one that it knows. Else order means nothing to the test, as where it was
    drawn at random, and lists are those for anything that a user would choose.
    """
    check_test(test, n, cutoffs, chunk)
    users = model.users.find(test.users.ids).astype(np.int64)
    known = known_entries(model, users, test.user_index, item_indices(model, test))
    wanted = relevant_ratings(model, test, known, relevant)
    own = users[wanted.people]
    people = TrainedUsers(model, own, by, asked_at(model, own, first_times(test, wanted.people)))
    return measured(model, test, wanted, people, lengths=(n, *cutoffs), by=by, chunk=chunk, report=report)


def evaluate_newcomers(
    model: FoldInModel,
    fold_in: Ratings,
    test: Ratings,
    *,
    n: int = 10,
    cutoffs: Sequence[int] = CUTOFFS,
    relevant: float | None = None,
    by: By = "list",
    chunk: int = 256,
    report: Callable[[float], None] | None = None,
) -> RankingEvaluation:
    """Measure lists for the users of the test ratings, each folded in with their ratings in `fold_in`.

    The users must be new to the model. A user without a rating in `fold_in` gets the list of a stranger; ratings of
    items that the model does not know tell it nothing. `trained_on` counts test ratings that are in `fold_in` too: they
    are left out. The other arguments are those of `evaluate_ranking`.
    """
    check_test(test, n, cutoffs, chunk)
    check_new(model.scale, model.users.find(test.users.ids), model.user_counts(), fold_in, test)
    told = told_ratings(model, fold_in, test)
    wanted = relevant_ratings(model, test, told_entries(told, model, test), relevant)
    people = Newcomers(model, told.take(wanted.people), by)
    return measured(model, test, wanted, people, lengths=(n, *cutoffs), by=by, chunk=chunk, report=report)


def check_test(test: Ratings, n: int, cutoffs: Sequence[int], chunk: int) -> None:
    """Check what every way of measuring lists is given."""
    for name, count in (("n", n), *(("a cut-off", length) for length in cutoffs), ("chunk", chunk)):
        if not isinstance(count, int | np.integer) or count < 1:
            raise DataError(f"{name} must be a whole number of at least 1. Got {count!r}")
    refuse_unread(test)
    if len(test) == 0:
        raise DataError("there are no ratings to evaluate on; give at least one")


def measured(
    model: RankingModel,
    test: Ratings,
    wanted: Relevant,
    people: People,
    *,
    lengths: Sequence[int],
    by: By,
    chunk: int,
    report: Callable[[float], None] | None,
) -> RankingEvaluation:
    """The lists of these people, and those of popularity, in one pass; `lengths` are the cut-offs, n first."""
    counts = model.item_counts()
    tallies = Tallies.of(wanted, counts, lengths)
    tallies.take(model, people, chunk, report)
    training_users = int((model.user_counts() > 0).sum())
    return tallies.result(by, popularity_groups(counts, item_indices(model, test)), training_users)


class Tallies(NamedTuple):
    """Measured lists of the model, and those of popularity for the same people."""

    wanted: Relevant
    counts: Longs  # (items,): training ratings
    ours: Tally
    popular: Tally

    @classmethod
    def of(cls, wanted: Relevant, counts: Longs, lengths: Sequence[int]) -> "Tallies":
        """Nothing is measured yet; `lengths` are the cut-offs, n first."""
        several = tuple(dict.fromkeys(int(length) for length in lengths))
        ours, popular = (Tally(wanted, counts, several) for _ in range(2))
        return cls(wanted, counts, ours, popular)

    def take(
        self, model: RankingModel, people: People, chunk: int, report: Callable[[float], None] | None = None
    ) -> None:
        """Measure the lists of all these people."""
        popularity = _popularity_scores(self.counts)
        total = len(self.wanted.people)
        for first in range(0, total, chunk):
            last = min(total, first + chunk)
            scores, known = people.scores(first, last), pairs_of([people.known(place) for place in range(first, last)])
            _check_finite(scores, model)
            scores[known] = -np.inf
            self.ours.add(first, scores)
            scores[:] = popularity
            scores[known] = -np.inf
            self.popular.add(first, scores)
            if report:
                report(last / total)

    def result(self, by: By, groups: PopularityGroups, training_users: int) -> RankingEvaluation:
        """The measures, once all lists were taken."""
        lists, wanted = self.ours.result(groups, training_users), self.wanted
        return RankingEvaluation(
            **{name: getattr(lists, name) for name in MeasuredLists.__dataclass_fields__},
            by=by,
            relevant=wanted.threshold,
            users=len(wanted.people),
            ratings=len(wanted.items),
            trained_on=wanted.left_out,
            unknown_items=int((wanted.items < 0).sum()),
            popularity=self.popular.result(groups, training_users),
        )


def pairs_of(rows: Sequence[Ints]) -> tuple[Longs, Longs]:
    """The row (from 0) and the item of every entry."""
    row = np.repeat(np.arange(len(rows)), [len(items) for items in rows])
    return row, np.concatenate([np.empty(0, np.int64), *rows])


def _popularity_scores(counts: Longs) -> Floats:
    """(items,): the more training ratings the higher, without ties: 32 bits cannot tell great numbers apart."""
    scores = np.empty(len(counts), np.float32)
    scores[np.argsort(-counts, kind="stable")] = -np.arange(len(counts), dtype=np.float32)
    return scores


def _check_finite(scores: Floats, model: RankingModel) -> None:
    if not np.isfinite(scores).all():
        place, item = np.argwhere(~np.isfinite(scores))[0].tolist()
        raise DataError(
            f"the model scores item {model.items.id(item)!r} with {scores[place, item]}; a list cannot be made of "
            f"that: train it again"
        )


def first_times(test: Ratings, people: Longs) -> Doubles | None:
    """(n,): when users of a test part first did something in it; None where it has no times."""
    if test.times is None:
        return None
    first = np.full(len(test.users), np.inf)
    np.minimum.at(first, test.user_index, test.times)
    times: Doubles = first[people]
    return times


# Who is asked about


def asked_at(model: RankingModel, users: Longs, first: Doubles | None) -> Mapping[str, Any]:
    """What a model that follows order is told beside users: the times (n,) of the requests, or a goal without order.

    `users` (n,) are indices of the model, `first` (n,) are the times of their first test ratings.
    """
    if not getattr(model, "follows_order", False) or first is None:
        return {}
    latest: Doubles = model.latest_times(users)  # type: ignore[attr-defined]
    return {"goal": "any"} if (latest > first).mean() > _OUT_OF_ORDER else {"at": first}


class TrainedUsers(People):
    """Users of the model by their indices; -1 is one that it does not know, who has rated nothing."""

    def __init__(self, model: RankingModel, users: Longs, by: By, asked: Mapping[str, Any]) -> None:
        """`asked` is what the model is told beside the users, as `asked_at` has it."""
        self._model, self._users, self._by, self._asked = model, users, by, asked

    def scores(self, first: int, last: int) -> Floats:
        users, items = self._users[first:last], len(self._model.items)
        scores = np.empty((len(users), items), np.float32)
        known = users >= 0
        if known.any():
            asked = dict(self._asked)
            if "at" in asked:
                asked["at"] = asked["at"][first:last][known]
            scores[known] = self._model.user_scores(users[known], by=self._by, **asked)[:, :items]
        if not known.all():
            scores[~known] = self._model.stranger_scores(by=self._by)[:items]
        return scores

    def known(self, place: int) -> Ints:
        return _known_items(self._model, int(self._users[place]))


def _known_items(model: RankingModel, user: int) -> Ints:
    return model.known_items(user) if user >= 0 else np.empty(0, np.int32)


def known_entries(model: RankingModel, users: Longs, row: Ints, items: Ints) -> Bools:
    """(n,): which entries the model knows, by the place of their user in `users`, ascending, and their item.

    `users` and `items` are indices of the model, -1 if it does not know them.
    """
    known = np.zeros(len(row), np.bool_)
    ends = np.searchsorted(row, np.arange(len(users) + 1)).tolist()
    for user, (start, end) in zip(users.tolist(), pairwise(ends), strict=True):
        known[start:end] = np.isin(items[start:end], _known_items(model, user))
    return known


class Newcomers(People):
    """People by what is told of them, row by row."""

    def __init__(self, model: FoldInModel, told: SparseRows, by: By) -> None:
        self._model, self._told, self._by = model, told, by
        # What is told of newcomers is drawn at random: its order means nothing.
        self._goal: dict[str, Any] = {"goal": "any"} if getattr(model, "follows_order", False) else {}

    def scores(self, first: int, last: int) -> Floats:
        return np.array([self._scores(*self._told.row(place)) for place in range(first, last)])

    def _scores(self, items: Ints, values: Floats) -> Floats:
        size = len(self._model.items)
        if not len(items):
            return self._model.stranger_scores(by=self._by)[:size]
        return self._model.new_user_scores(items, values, by=self._by, **self._goal)[:size]

    def known(self, place: int) -> Ints:
        return self._told.row(place)[0]


def told_ratings(model: KnowsItems, fold_in: Ratings, test: Ratings) -> SparseRows:
    """What is folded in of each user of a test part; ratings of items that the model does not know tell it nothing."""
    users = test.users.find(fold_in.users.ids)[fold_in.user_index].astype(np.int64)
    items = item_indices(model, fold_in)
    kept = np.flatnonzero((users >= 0) & (items >= 0))
    order = kept[np.lexsort((items[kept], users[kept]))]
    ends = np.searchsorted(users[order], np.arange(len(test.users) + 1))
    return SparseRows(ends, items[order], fold_in.values[order], len(model.items))


def told_entries(told: SparseRows, model: KnowsItems, test: Ratings) -> Bools:
    """(n,): the test ratings of items that are folded in for the same user."""
    items = item_indices(model, test).astype(np.int64)
    user = np.repeat(np.arange(told.rows), told.counts())
    asked = test.user_index.astype(np.int64) * told.columns + items
    found: Bools = np.isin(asked, user * told.columns + told.indices) & (items >= 0)
    return found


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
