"""What a user does next: lists measured against later interactions, in their order.

    next   the first test item of each user of the training part
    all    all test items of the same users, from one list at the time of the first
    last   the last test item of every user; what they did before, in training and after it, is folded in

A list is asked for at the time of the item that it should find (`all`: of the first). Test items at the same time
keep the order of their source. Every interaction counts alike, whatever its rating. An item that the model does not
know is missed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.ratings import Ratings
from cofill.errors import DataError
from cofill.evaluation.list_measures import Relevant, item_indices
from cofill.evaluation.ranking import (
    CUTOFFS,
    People,
    RankingEvaluation,
    TrainedUsers,
    check_test,
    first_times,
    known_entries,
    measured,
)

if TYPE_CHECKING:
    from cofill.models.recommender import Recommender

Question = Literal["next", "all", "last"]
Strategy = Literal["last", "time"]
"""How a test part was made: of the last interactions of users, or of all that came after a moment."""
QUESTIONS: Mapping[Strategy, tuple[Question, ...]] = {"last": ("next",), "time": ("next", "all", "last")}


def evaluate_next(
    model: "Recommender",
    test: Ratings,
    *,
    question: Question = "next",
    n: int = 10,
    cutoffs: Sequence[int] = CUTOFFS,
    chunk: int = 256,
    report: Callable[[float], None] | None = None,
) -> RankingEvaluation:
    """Measure lists of the next items of users; the head of this module says which test items each should find.

    With one item to find, `recall` is the hit rate. The other arguments are those of `evaluate_ranking`.
    """
    check_test(test, n, cutoffs, chunk)
    if test.times is None:
        raise DataError("these interactions have no times, so there is no next one", "read them with times")
    if question not in ("next", "all", "last"):
        raise DataError(f"there is no question {question!r}", "use 'next', 'all' or 'last'")
    users = model.users.find(test.users.ids).astype(np.int64)
    known = known_entries(model, users, test.user_index, item_indices(model, test))
    left = test.select(~known)
    chosen = _chosen(left, question, model, users)
    if not chosen.any():
        raise DataError("none of the users of the test part is known to the model", "evaluate the 'last' items")
    asked = left.select(chosen)
    ones = np.ones(len(asked))
    wanted = Relevant.of(asked.user_index, item_indices(model, asked), ones, None, int(known.sum()))
    at = first_times(asked, wanted.people)
    assert at is not None
    told: People = TrainedUsers(model, users[wanted.people], "list", {"at": at} if model.follows_order else {})
    if question == "last":
        told = _Histories(model, left.select(~chosen), wanted.people, users, at)
    return measured(model, asked, wanted, told, lengths=(n, *cutoffs), by="list", chunk=chunk, report=report)


def _chosen(test: Ratings, question: Question, model: "Recommender", users: Longs) -> Bools:
    """(n,): which of the test items are to be found."""
    counts = np.bincount(test.user_index, minlength=len(test.users))
    sequence = test.sequence()
    place = np.empty(len(test), np.int64)
    place[sequence] = np.arange(len(test)) - np.repeat(np.cumsum(counts) - counts, counts)
    if question == "last":
        last: Bools = place == counts[test.user_index] - 1
        return last
    trained = np.zeros(len(users), np.bool_)
    trained[users >= 0] = model.user_counts()[users[users >= 0]] > 0
    returning: Bools = trained[test.user_index]
    return returning & (place == 0) if question == "next" else returning


class _Histories(People):
    """Users by all that they did before the last thing, in training and after it."""

    def __init__(self, model: "Recommender", earlier: Ratings, people: Longs, users: Longs, at: Doubles) -> None:
        """`earlier` is what they did after the training; `users` are the model's indices of its users."""
        self._model, self._people, self._users, self._at = model, people, users, at
        sequence = earlier.sequence()
        assert earlier.times is not None
        times = earlier.times[sequence].astype(np.float64)
        self._earlier = item_indices(model, earlier)[sequence], earlier.values[sequence], times
        self._ends = np.searchsorted(earlier.user_index[sequence], np.arange(len(earlier.users) + 1))

    def _of(self, place: int) -> tuple[Ints, Floats, Doubles]:
        """Items, ratings and times of one user, in their order."""
        person = int(self._people[place])
        user, own = int(self._users[person]), slice(*self._ends[person : person + 2])
        items, values, times = self._earlier
        items, values, times = items[own], values[own], times[own]
        if user >= 0:
            before = self._model.sequence(user)
            items, values = np.concatenate([before[0], items]), np.concatenate([before[1], values])
            times = np.concatenate([before[2], times])
        seen = items >= 0
        return items[seen], values[seen], times[seen]

    def scores(self, first: int, last: int) -> Floats:
        found = []
        for place in range(first, last):
            items, values, times = self._of(place)
            found.append(self._model.new_user_scores(items, values, times=times, at=float(self._at[place])))
        return np.array(found)[:, : len(self._model.items)]

    def known(self, place: int) -> Ints:
        return self._of(place)[0]


BESIDE = ("popularity", "recent-popularity", "markov", "ease", "lists")
"""Algorithms that stand beside every figure, `lists` without order and time."""


def fitted_beside(train: Ratings, report: Callable[[float], None] | None = None) -> "dict[str, Recommender]":
    """The baselines of next items, fitted on the same training part; those that it allows."""
    from cofill.models import algorithm

    found: dict[str, Recommender] = {}
    for number, name in enumerate(BESIDE):
        settings: dict[str, Any] = {"list_goal": "any"} if name == "lists" else {}
        try:
            found["lists, any" if name == "lists" else name] = algorithm(name)(**settings).fit(train)
        except DataError:  # too many items for EASE
            continue
        finally:
            if report:
                report((number + 1) / len(BESIDE))
    return found
