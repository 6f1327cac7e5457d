"""Lists measured: how good the first n recommendations are, among all items that a user has not rated in training.

Every item that the user has not rated is ranked: nothing is sampled. The list is what `recommend` gives: the n highest
scores, the lower index first among equals. `relevance` says which test ratings a list should find, `list_measures`
what is measured. The measures are means over the users who have a relevant test rating; of others nothing can be
found. A relevant item that the model does not know cannot be recommended: it is missed, not passed over.

Beside the lists of the model stand those of **popularity** for the same users: the items with the most training
ratings that the user has not rated, the lower index first among equals. A model that does not beat them has learned
nothing about tastes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.frames import InFrames
from cofill.data.ratings import Ratings, Scale, refuse_unread
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError
from cofill.evaluation.list_measures import MeasuredLists, Tally, without_users
from cofill.evaluation.popularity_groups import PopularityGroups, popularity_groups
from cofill.evaluation.relevance import Relevant, item_indices, relevant_ratings

if TYPE_CHECKING:
    import polars as pl


ListsBy = Literal["list", "rating"]
"""What lists are sorted by: the score for choosing and liking, or the predicted rating."""

# The share of users with a test rating earlier than a known one from which on the test has no order: after a split at
# random most have one, and clocks are off now and then.
_OUT_OF_ORDER = 0.02

CUTOFFS = (20, 100)
"""Lengths that are measured beside n: those of Recall@20 and NDCG@100 in Liang et al. (2018)."""


class ListModel(Protocol):
    """What any model of which lists are measured must tell."""

    users: Vocabulary
    items: Vocabulary

    @property
    def scale(self) -> Scale: ...
    def stranger_scores(self, *, by: ListsBy = "list") -> Floats: ...
    def user_counts(self) -> Longs: ...
    def item_counts(self) -> Longs: ...


class RankingModel(ListModel, Protocol):
    """The interface of a model whose lists for its own users are measured.

    One that `follows_order` has `user_scores` that take the times of requests (`at`) and a `goal`, too.
    """

    def user_scores(self, users: Longs, *, by: ListsBy = "list") -> Floats: ...
    def known_items(self, user: int) -> Ints: ...


@dataclass(frozen=True, kw_only=True)
class RankingEvaluation(MeasuredLists, InFrames):
    """The measures of one model's lists on one test part, and of popularity on the same."""

    by: ListsBy
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


class People(Protocol):
    """The users of a test part, by the places that they have in `Relevant`."""

    def scores(self, first: int, last: int) -> Floats:
        """(last - first, items): fresh, so that they can be changed."""
        ...

    def known(self, first: int, last: int) -> tuple[Longs, Longs]:
        """Pairs of user (from 0) and item that are known, and not to be ranked."""
        ...

    def name(self, place: int) -> str:
        """As a message calls one."""
        ...


def evaluate_ranking(
    model: RankingModel,
    test: Ratings,
    *,
    n: int = 10,
    cutoffs: Sequence[int] = CUTOFFS,
    relevant: float | None = None,
    by: ListsBy = "list",
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
    known = known_entries(model, users, test.user_index, item_indices(model, test), chunk)
    wanted = relevant_ratings(model, test, known, relevant)
    own = users[wanted.people]
    people = TrainedUsers(model, own, by, asked_at(model, own, first_times(test, wanted.people)))
    return measured(model, test, wanted, people, lengths=(n, *cutoffs), by=by, chunk=chunk, report=report)


def check_test(test: Ratings, n: int, cutoffs: Sequence[int], chunk: int) -> None:
    """Check what both ways of measuring lists are given."""
    for name, count in (("n", n), *(("a cut-off", length) for length in cutoffs), ("chunk", chunk)):
        if not isinstance(count, int | np.integer) or count < 1:
            raise DataError(f"{name} must be a whole number of at least 1. Got {count!r}")
    refuse_unread(test)
    if len(test) == 0:
        raise DataError("there are no ratings to evaluate on; give at least one")


def measured(
    model: ListModel,
    test: Ratings,
    wanted: Relevant,
    people: People,
    *,
    lengths: Sequence[int],
    by: ListsBy,
    chunk: int,
    report: Callable[[float], None] | None,
) -> RankingEvaluation:
    """The lists of these people, and those of popularity, in one pass; `lengths` are the cut-offs, n first."""
    counts = model.item_counts()
    training_users = int((model.user_counts() > 0).sum())
    tallies = Tallies.of(wanted, counts, training_users, lengths)
    tallies.take(model, people, chunk, report)
    return tallies.result(by, popularity_groups(counts, item_indices(model, test)))


class Tallies(NamedTuple):
    """Measured lists of the model, and those of popularity for the same people."""

    wanted: Relevant
    counts: Longs  # (items,): training ratings
    ours: Tally
    popular: Tally

    @classmethod
    def of(cls, wanted: Relevant, counts: Longs, training_users: int, lengths: Sequence[int]) -> "Tallies":
        """Nothing is measured yet; `lengths` are the cut-offs, n first."""
        several = tuple(dict.fromkeys(int(length) for length in lengths))
        ours, popular = (Tally(wanted, counts, training_users, several) for _ in range(2))
        return cls(wanted, counts, ours, popular)

    def take(self, model: ListModel, people: People, chunk: int, report: Callable[[float], None] | None = None) -> None:
        """Measure the lists of all these people."""
        popularity = _popularity_scores(self.counts)
        total = len(self.wanted.people)
        for first in range(0, total, chunk):
            last = min(total, first + chunk)
            scores, known = people.scores(first, last), people.known(first, last)
            _check_finite(scores, model, people, first)
            scores[known] = -np.inf
            self.ours.add(first, scores)
            scores[:] = popularity
            scores[known] = -np.inf
            self.popular.add(first, scores)
            if report:
                report(last / total)

    def result(self, by: ListsBy, groups: PopularityGroups) -> RankingEvaluation:
        """The measures, once everybody was taken."""
        lists, wanted = self.ours.result(groups), self.wanted
        return RankingEvaluation(
            **{name: getattr(lists, name) for name in MeasuredLists.__dataclass_fields__},
            by=by,
            relevant=wanted.threshold,
            users=len(wanted.people),
            ratings=len(wanted.items),
            trained_on=wanted.left_out,
            unknown_items=int((wanted.items < 0).sum()),
            popularity=self.popular.result(groups),
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


def _check_finite(scores: Floats, model: ListModel, people: People, first: int) -> None:
    if not np.isfinite(scores).all():
        place, item = np.argwhere(~np.isfinite(scores))[0].tolist()
        raise DataError(
            f"the model scores item {model.items.id(item)!r} with {scores[place, item]} for "
            f"{people.name(first + place)}; a list cannot be made of that: train it again"
        )


def first_times(test: Ratings, people: Longs) -> Doubles | None:
    """(n,): when users of a test part first did something in it; None where it has no times."""
    if test.times is None:
        return None
    first = np.full(len(test.users), np.inf)
    np.minimum.at(first, test.user_index, test.times)
    times: Doubles = first[people]
    return times


def asked_at(model: RankingModel, users: Longs, first: Doubles | None) -> Mapping[str, Any]:
    """What a model that follows order is told beside users: the times (n,) of the requests, or a goal without order.

    `users` (n,) are indices of the model, `first` (n,) are the times of their first test ratings.
    """
    if not getattr(model, "follows_order", False) or first is None:
        return {}
    latest: Doubles = model.latest_times(users)  # type: ignore[attr-defined]
    return {"goal": "any"} if (latest > first).mean() > _OUT_OF_ORDER else {"at": first}


class TrainedUsers:
    """Users of the model by their indices; -1 is one whom it does not know, who has rated nothing."""

    def __init__(self, model: RankingModel, users: Longs, by: ListsBy, asked: Mapping[str, Any] | None = None) -> None:
        """`asked` is what the model is told beside the users, as `asked_at` has it."""
        self._model, self._users, self._by = model, users, by
        self._asked = asked or {}

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

    def known(self, first: int, last: int) -> tuple[Longs, Longs]:
        return pairs_of(_known_of(self._model, self._users[first:last]))

    def name(self, place: int) -> str:
        user = int(self._users[place])
        return "an unknown user" if user < 0 else f"user {self._model.users.id(user)!r}"


def _known_of(model: RankingModel, users: Longs) -> list[Ints]:
    nothing = np.empty(0, np.int32)
    return [model.known_items(user) if user >= 0 else nothing for user in users.tolist()]


def known_entries(model: RankingModel, users: Longs, row: Ints, items: Ints, chunk: int = 256) -> Bools:
    """(n,): which entries the model knows, by the place of their user in `users`, ascending, and their item.

    `users` and `items` are indices of the model, -1 if it does not know them.
    """
    known = np.zeros(len(row), np.bool_)
    ends = np.searchsorted(row, np.arange(len(users) + 1))
    for first in range(0, len(users), chunk):
        last = min(len(users), first + chunk)
        own = slice(ends[first], ends[last])
        rated = np.zeros((last - first, len(model.items)), np.bool_)
        rated[pairs_of(_known_of(model, users[first:last]))] = True
        known[own] = rated[row[own] - first, items[own]] & (items[own] >= 0)
    return known
