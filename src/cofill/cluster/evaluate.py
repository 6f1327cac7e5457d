"""A model measured by tasks over ranges of people on a Ray cluster: the numbers of `cofill.evaluation`.

Two rounds of tasks. The first counts the training ratings of all people and predicts the test ratings; then it is known
which test ratings count, and which items are popular. The second makes and measures lists. What tasks give back is an
entry for each rating or person, so this process holds as much as the test part and a number for each person.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Ints, Longs
from cofill.cluster.score import Division, ModelOutline, ModelParts, Range, Report, cut_by_person, do_all, people_asked
from cofill.cluster.session import Workplace, workplace
from cofill.data.ratings import Ratings
from cofill.errors import DataError
from cofill.evaluation.list_measures import Relevant, item_indices, relevant_ratings
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
    if lists is not None:
        check_test(test, lists.n, lists.cutoffs, _CHUNK)
    shares = (0.5, 0.5) if lists is not None else (1.0, 0.0)
    with workplace(division.address) as place:
        found = _counted(outline, test, place, division, errors, _part(report, 0.0, shares[0]))
        rankings: Mapping[By, RankingEvaluation] = {}
        if lists is not None:
            rankings = _ranked(outline, test, found, lists, place, division, _part(report, *shares))
    measured = None
    if found.predictions is not None:
        measured = measured_pairs(
            *(found.users[test.user_index].astype(np.int32), found.items, test.values, found.predictions),
            *(found.by_user, found.by_item),
        )
    return Evaluated(found.known, measured, rankings)


def _part(report: Report | None, before: float, share: float) -> Report | None:
    return None if report is None else lambda done: report(before + share * done)


@dataclass
class _Counted:
    """What the first round found."""

    users: Longs  # (test users,): indices in the whole model, -1 if it does not know them
    items: Ints  # (n,): of the test ratings
    by_user: Longs  # training ratings
    by_item: Longs
    known: int  # test ratings that were trained on
    did: Bools  # (n,): which of their items the user has met
    predictions: Predictions | None


# The first round


def _counted(
    outline: ModelOutline, test: Ratings, place: Workplace, division: Division, predict: bool, report: Report | None
) -> _Counted:
    users = outline.find_people(test.users.ids)
    items = item_indices(outline, test)
    people = users[test.user_index]
    order = np.argsort(people, kind="stable")
    ranges = outline.cut(division.number(place, outline.users))
    # People that the model does not know are with the first range: any can answer for them.
    ends = np.searchsorted(people[order], [0, *(one.first for one in ranges[1:]), outline.users])
    ends[0] = 0

    def task(number: int) -> Mapping[str, Any]:
        own = order[ends[number] : ends[number + 1]]
        return {
            **outline.named,
            "range": tuple(ranges[number]),
            "people": people[own],
            "items": items[own],
            "values": test.values[own],
            "predict": predict,
        }

    parts = do_all(place, len(ranges), task, f"{__name__}:begin_counting", division, report)

    def all_of(name: str) -> npt.NDArray[Any]:
        """Of all test ratings, in their order."""
        found = np.concatenate([part[name] for part in parts])
        return found[np.argsort(order)]

    predictions = None
    if predict:
        predictions = Predictions(all_of("ratings"), None if parts[0]["within"] is None else all_of("within"))
    return _Counted(
        users,
        items,
        np.concatenate([part["by_user"] for part in parts]),
        parts[0]["by_item"],
        sum(part["known"] for part in parts),
        all_of("did"),
        predictions,
    )


def begin_counting(work: Work, shared: bytes) -> Callable[[Any], Any]:
    """Entry point of a worker of the first round."""
    parts = ModelParts()

    def do(task: Mapping[str, Any]) -> dict[str, Any]:
        own = Range(*task["range"])
        model, offset = parts.held_for(task, own)
        items, users = task["items"], _local(task["people"], offset).astype(np.int32)
        work.report(0.1)
        different, row = np.unique(users, return_inverse=True)
        result: dict[str, Any] = {
            "by_user": model.user_counts()[own.first - offset : own.last - offset],
            "by_item": model.item_counts(),
            "known": int(model.predictor.known.contains(users, items).sum()),
            "did": known_entries(model, different.astype(np.int64), row.astype(np.int32), items),
        }
        if task["predict"]:
            report = _part(work.report, 0.1, 0.9)
            found = predict_pairs(model, users, items, task["values"], intervals=True, report=report)
            result |= {"ratings": found.ratings, "within": found.within}
        return result

    return do


def _local(people: Longs, offset: int) -> Longs:
    return np.where(people < 0, -1, people - offset)


# The second round


def _ranked(
    outline: ModelOutline,
    test: Ratings,
    found: _Counted,
    lists: ListQuestion,
    place: Workplace,
    division: Division,
    report: Report | None,
) -> Mapping[By, RankingEvaluation]:
    told = None
    if lists.fold_in is not None:
        check_new(outline.scale, found.users.astype(np.int32), found.by_user, lists.fold_in, test)
        told = told_ratings(outline, lists.fold_in, test)
    known = found.did if told is None else told_entries(told, outline, test)
    wanted = relevant_ratings(outline, test, known, lists.relevant)
    lengths = (lists.n, *lists.cutoffs)
    training_users = int((found.by_user > 0).sum())
    tallies = {by: Tallies.of(wanted, found.by_item, training_users, lengths) for by in lists.kinds}
    # By the person's place in the model, so that a task is about people of one part; newcomers can be asked of any.
    people = found.users[wanted.people] if told is None else np.full(len(wanted.people), -1)
    order = np.argsort(people, kind="stable")
    cut_at = people[order] if told is None else order  # all newcomers are -1
    ranges = cut_by_person(cut_at, outline.whole_parts(), division.number(place, len(people)))

    first = first_times(test, wanted.people)

    def task(number: int) -> Mapping[str, Any]:
        places = order[slice(*ranges[number])]
        return {
            **outline.named,
            "people": people[places],
            "first": None if first is None else first[places],
            "wanted": _some_of(wanted, places),
            "told": None if told is None else told.take(wanted.people[places]),
            "kinds": tuple(lists.kinds),
            "lengths": lengths,
            "training_users": training_users,
        }

    counts = np.ascontiguousarray(found.by_item, np.int64).tobytes()
    results = do_all(place, len(ranges), task, f"{__name__}:begin_ranking", division, report, counts)
    for own, result in zip(ranges, results, strict=True):
        for by, (ours, popular) in result.items():
            tallies[by].ours.join(order[slice(*own)], ours)
            tallies[by].popular.join(order[slice(*own)], popular)
    groups = popularity_groups(found.by_item, found.items)
    return {by: one.result(by, groups) for by, one in tallies.items()}


def _some_of(wanted: Relevant, places: Longs) -> Relevant:
    """What is relevant for some of the people, in this order."""
    entries = np.concatenate([np.arange(*wanted.ends[one : one + 2]) for one in places])
    ends = np.concatenate([[0], np.cumsum(wanted.counts()[places])])
    return Relevant(wanted.threshold, places, ends, wanted.items[entries], wanted.gains[entries], 0)


def begin_ranking(work: Work, shared: bytes) -> Callable[[Any], Any]:
    """Entry point of a worker of the second round; shared are the training ratings of the items."""
    parts = ModelParts()
    counts = np.frombuffer(shared, np.int64)

    def do(task: Mapping[str, Any]) -> dict[By, Any]:
        model, offset = parts.held_for(task, people_asked(task["people"]))
        users, kinds, told = _local(task["people"], offset), task["kinds"], task["told"]
        result: dict[By, Any] = {}
        for number, by in enumerate(kinds):
            people: People
            if told is None:
                people = TrainedUsers(model, users, by, asked_at(model, users, task["first"]))
            else:
                people = Newcomers(model, told, by)
            tallies = Tallies.of(task["wanted"], counts, task["training_users"], task["lengths"])
            tallies.take(model, people, _CHUNK, _part(work.report, number / len(kinds), 1 / len(kinds)))
            result[by] = (tallies.ours.arrays(), tallies.popular.arrays())
        return result

    return do
