"""A model measured by tasks over ranges of people on a Ray cluster: the numbers of `cofill.evaluation`.

A task predicts the test ratings of its people, and makes and measures their lists. What it gives back is an entry for
each rating or person, so this process holds as much as the test part and a number for each person.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Longs
from cofill.cluster.score import Division, ModelOutline, ModelParts, Range, Report, do_all
from cofill.cluster.session import workplace
from cofill.data.ratings import Ratings
from cofill.data.sparse import SparseRows
from cofill.errors import DataError
from cofill.evaluation.list_measures import (
    Relevant,
    are_relevant,
    gains_of,
    item_indices,
    relevance_threshold,
    relevant_ratings,
)
from cofill.evaluation.ranking import (
    CUTOFFS,
    Newcomers,
    People,
    RankingEvaluation,
    Tallies,
    TrainedUsers,
    asked_at,
    check_new,
    check_test,
    first_times,
    known_entries,
    told_entries,
    told_ratings,
)
from cofill.evaluation.ratings import Evaluation, Predictions, measured_pairs, popularity_groups, predict_pairs
from cofill.models.lists.rules import By
from cofill.workers import Work

_CHUNK = 256  # people who are scored at once


@dataclass(frozen=True)
class ListQuestion:
    """Which lists are measured, and how."""

    kinds: Sequence[By] = ("list",)
    n: int = 10
    cutoffs: Sequence[int] = CUTOFFS
    relevant: float | None = None
    fold_in: Ratings | None = None
    """What is told of people who are new to the model (strong generalisation); None: they are its own."""


@dataclass(frozen=True)
class Evaluated:
    """What was measured."""

    trained_on: int
    """Test ratings that the model was trained on."""
    ratings: Evaluation | None
    rankings: Mapping[By, RankingEvaluation]


def evaluate_on_cluster(
    outline: ModelOutline,
    test: Ratings,
    division: Division,
    *,
    errors: bool = True,
    lists: ListQuestion | None = None,
    report: Report | None = None,
) -> Evaluated:
    """Measure predictions of the test ratings (`errors`), with intervals, and lists, as `evaluate` and others do."""
    if len(test) == 0:
        raise DataError("there are no ratings to evaluate on; give at least one")
    users, items = outline.find_people(test.users.ids), item_indices(outline, test)
    told: tuple[SparseRows, Bools] | None = None  # what is folded in, and which test ratings that tells
    asked = dict[str, Any]()
    if lists is not None:
        check_test(test, lists.n, lists.cutoffs, _CHUNK)
        asked["kinds"], asked["lengths"] = tuple(lists.kinds), (lists.n, *lists.cutoffs)
        asked["threshold"] = relevance_threshold(test, lists.relevant, outline.scale)
        first = first_times(test, np.arange(len(test.users)))
        if lists.fold_in is not None:
            rows = told_ratings(outline, lists.fold_in, test)
            told = rows, told_entries(rows, outline, test)
    with workplace(division.address) as place:
        ranges = outline.cut(division.number(place, outline.users))
        # Any part can answer for people that the model does not know: they are shared out.
        of_user = np.searchsorted([one.last for one in ranges], users, "right")
        of_user[users < 0] = np.arange(int((users < 0).sum())) % len(ranges)
        order = np.argsort(of_user[test.user_index], kind="stable")
        ends = np.searchsorted(of_user[test.user_index][order], np.arange(len(ranges) + 1))

        def own(number: int) -> tuple[Longs, Longs]:
            """The entries of a task, and the users of the test part that they are of, ascending both."""
            entries = order[slice(*ends[number : number + 2])]
            return entries, np.unique(test.user_index[entries])

        def task(number: int) -> Mapping[str, Any]:
            entries, people = own(number)
            found = {
                **outline.named,
                "range": tuple(ranges[number]),
                "users": users[people],
                "row": np.searchsorted(people, test.user_index[entries]).astype(np.int32),
                "items": items[entries],
                "values": test.values[entries],
                "errors": errors,
            }
            if lists is None:
                return found
            about_lists = asked | {
                "first": None if first is None else first[people],
                "told": None if told is None else (told[0].take(people), told[1][entries]),
            }
            return {**found, "lists": about_lists}

        parts = do_all(place, len(ranges), task, f"{__name__}:begin", division, report)

    def all_of(name: str) -> npt.NDArray[Any]:
        """Of all test ratings, in their order."""
        return np.concatenate([part[name] for part in parts])[np.argsort(order)]

    by_user, by_item = np.concatenate([part["by_user"] for part in parts]), parts[0]["by_item"]
    measured = None
    if errors:
        within = None if parts[0]["within"] is None else all_of("within")
        pairs = users[test.user_index].astype(np.int32), items, test.values
        measured = measured_pairs(*pairs, Predictions(all_of("ratings"), within), by_user, by_item)
    rankings: dict[By, RankingEvaluation] = {}
    if lists is not None:
        if lists.fold_in is not None:
            check_new(outline.scale, users.astype(np.int32), by_user, lists.fold_in, test)
        wanted = relevant_ratings(outline, test, all_of("did"), lists.relevant)
        groups = popularity_groups(by_item, items)
        for by in lists.kinds:
            tallies = Tallies.of(wanted, by_item, asked["lengths"])
            for number, part in enumerate(parts):
                places = np.searchsorted(wanted.people, own(number)[1][part["people"]])
                for tally, arrays in zip((tallies.ours, tallies.popular), part[by], strict=True):
                    tally.join(places, arrays)
            rankings[by] = tallies.result(by, groups, int((by_user > 0).sum()))
    return Evaluated(sum(part["known"] for part in parts), measured, rankings)


# What a worker does


def begin(work: Work, shared: bytes) -> Callable[[Any], Any]:
    """Entry point of a worker."""
    parts = ModelParts()

    def do(task: Mapping[str, Any]) -> dict[str, Any]:
        own = Range(*task["range"])
        model, offset = parts.held_for(task, own)
        users = np.where(task["users"] < 0, -1, task["users"] - offset)
        row, items, values, counts = task["row"], task["items"], task["values"], model.item_counts()
        pairs = users[row].astype(np.int32), items
        result: dict[str, Any] = {
            "by_user": model.user_counts()[own.first - offset : own.last - offset],
            "by_item": counts,
            "known": int(model.predictor.known.contains(*pairs).sum()),
        }
        if task["errors"]:
            found = predict_pairs(model, *pairs, values, intervals=True, report=work.report)
            result |= {"ratings": found.ratings, "within": found.within}
        if "lists" not in task:
            return result
        asked = task["lists"]
        told, did = asked["told"] or (None, known_entries(model, users, row, items))
        chosen = ~did & are_relevant(values, asked["threshold"])
        gains = gains_of(values[chosen], asked["threshold"], model.scale)
        wanted = Relevant.of(row[chosen], items[chosen], gains, asked["threshold"], 0)
        result |= {"did": did, "people": wanted.people}
        users, first = users[wanted.people], asked["first"]
        at = {} if told is not None else asked_at(model, users, None if first is None else first[wanted.people])
        for by in asked["kinds"]:
            people: People = TrainedUsers(model, users, by, at)
            if told is not None:
                people = Newcomers(model, told.take(wanted.people), by)
            tallies = Tallies.of(wanted, counts, asked["lengths"])
            tallies.take(model, people, _CHUNK, work.report)
            result[by] = (tallies.ours.arrays(), tallies.popular.arrays())
        return result

    return do
