"""Lists of all algorithms that make them: on random splits, by time, and for new users; and lists by predicted rating.

The paper names lists as future work. Popularity stands first in every table: what does not beat it has learned nothing
about tastes.
"""

from typing import Any

from cofill.experiments.plan import (
    LINEUP,
    LISTS,
    SETTINGS_NOTE,
    Cell,
    Column,
    Experiment,
    Missing,
    Plan,
    Result,
    Table,
    interval,
    seconds_of,
)
from cofill.experiments.runs import Protocol, Run
from cofill.models import Contender

_OURS = "cofill"
_MEASURES = (
    ("ndcg", "NDCG@10"),
    ("recall", "recall@10"),
    ("precision", "precision@10"),
    ("mrr", "MRR"),
    ("coverage", "coverage"),
    ("novelty", "novelty"),
)
_AT = ((20, "recall_capped", "recall@20"), (100, "ndcg", "NDCG@100"))
_TITLES: dict[Protocol, str] = {
    "last": "The last rating of each user, by time",
    "strong": "New users, of whose ratings 80 % are told (strong generalisation)",
}


def _protocols(plan: Plan) -> tuple[Protocol, ...]:
    return ("strong",) if plan.data.ratings.times is None else ("last", "strong")


def _runs(plan: Plan) -> list[Run]:
    """Split by split, lists first: they take seconds, where ratings take minutes."""
    lists, ratings = plan.asked(tuple(LISTS)), plan.asked(tuple(LINEUP))
    ways: tuple[Protocol | None, ...] = (None, *_protocols(plan))
    runs = [
        plan.run(contender, split, protocol=way) for split in range(plan.splits) for way in ways for contender in lists
    ]
    return runs + [plan.run(contender, split) for split in range(plan.splits) for contender in ratings]


def _show(plan: Plan) -> Result:
    lists, ratings = plan.present(tuple(LISTS)), plan.present(tuple(LINEUP))
    tables = [_lists_of_ten(plan, lists), _against(plan, lists)]
    tables += [_by_protocol(plan, lists, way) for way in _protocols(plan)]
    tables += [_by_rating(plan, ratings)] if ratings else []
    missing: list[Missing] = []
    for contender in lists:
        missing += plan.missing(contender)
        missing += [one for way in _protocols(plan) for one in plan.missing(contender, way, protocol=way)]
    for contender in (*lists, *ratings):
        problems = [one["ranking_problem"] for one in plan.results(contender).values() if one["ranking"] is None]
        missing += [Missing(contender.label, f"no lists on {len(problems)} splits: {problems[0]}")] if problems else []
    missing += [line for contender in ratings for line in plan.missing(contender)]
    notes = [
        "Every item that a user had not rated in training is ranked; nothing is sampled. Relevant are test ratings in "
        "the upper quarter of the scale, all of interactions; whatever nobody rated counts as not relevant. Novelty is "
        "in bits; recall@20 is divided by at most 20 (Liang et al. 2018).",
        "EASE, iALS and item kNN choose their penalties, factors and neighbours on a validation part of the training "
        "ratings; cofill has one setting for all data.",
        "± is the 95 % interval of the mean over the splits, by Student's t. That of a ratio is widened because splits "
        "share training ratings.",
        f"Lists by rating: the lower bound of the predicted rating, as recommend(by='rating') ranks. {SETTINGS_NOTE}",
    ]
    if plan.data.ratings.times is None:
        notes.append("There are no times, so there is no table by time.")
    return Result(tuple(tables), tuple(notes), tuple(missing))


def _lists(plan: Plan, contender: Contender, which: str = "ranking", **how: Any) -> dict[int, dict[str, Any]]:
    """Measures of lists by split, where there are any."""
    found = plan.results(contender, **how)
    return {split: one[which] for split, one in found.items() if one.get(which) is not None}


def _lists_of_ten(plan: Plan, present: list[Contender]) -> Table:
    rows: list[list[Cell]] = []
    for contender in present:
        lists = list(_lists(plan, contender).values())
        seconds = interval(seconds_of(list(plan.records(contender).values())))
        measured = [interval([one[name] for one in lists]) for name, _ in _MEASURES]
        rows.append([contender.label, *measured, seconds and seconds.mean])
    return Table("Lists of ten", (Column("algorithm"), *_columns(), Column("seconds", 1)), rows)


def _columns() -> tuple[Column, ...]:
    return tuple(Column(label, 2 if name == "novelty" else 4) for name, label in _MEASURES)


def _against(plan: Plan, present: list[Contender]) -> Table:
    """The ratio of our NDCG to that of every other, on the splits that both have."""
    rows: list[list[Cell]] = []
    ways: tuple[Protocol | None, ...] = (None, *_protocols(plan))
    for contender in present:
        if contender.label == _OURS:
            continue
        cells: list[Cell] = [contender.label]
        for way in ways:
            ours, theirs = (_lists(plan, one, protocol=way) for one in (LISTS[_OURS], contender))
            both = sorted(split for split in ours.keys() & theirs.keys() if theirs[split]["ndcg"] > 0)
            ratios = [ours[split]["ndcg"] / theirs[split]["ndcg"] for split in both]
            cells.append(interval(ratios, overlap=plan.overlap(protocol=way)))
        rows.append(cells)
    names = {"last": "by time", "strong": "new users"}
    columns = tuple(Column("random" if way is None else names[way], 3) for way in ways)
    return Table(f"NDCG@10 of {_OURS}, divided by that of others", (Column("algorithm"), *columns), rows)


def _by_protocol(plan: Plan, present: list[Contender], way: Protocol) -> Table:
    rows: list[list[Cell]] = []
    for contender in present:
        lists = list(_lists(plan, contender, protocol=way).values())
        cells: list[Cell] = [contender.label, interval([one["ndcg"] for one in lists])]
        for n, name, _ in _AT:
            cells.append(interval([_at(one, n)[name] for one in lists]))
        rows.append([*cells, interval([one["mrr"] for one in lists])])
    columns = (Column("algorithm"), Column("NDCG@10"), *(Column(label) for *_, label in _AT), Column("MRR"))
    return Table(_TITLES[way], columns, rows)


def _at(lists: dict[str, Any], n: int) -> dict[str, Any]:
    return next(one for one in lists["cutoffs"] if one["n"] == n)


def _by_rating(plan: Plan, present: list[Contender]) -> Table:
    rows: list[list[Cell]] = []
    for contender in present:
        lists = list(_lists(plan, contender, "ranking_by_rating").values())
        rows.append([contender.label, *(interval([one[name] for one in lists]) for name, _ in _MEASURES)])
    return Table("Lists of ten by predicted rating", (Column("algorithm"), *_columns()), rows)


EXPERIMENT = Experiment(
    name="ranking",
    title="Lists of recommendations",
    claim="NDCG and F-score are sometimes preferred to RMSE and should be benchmarked; no figures.",
    labels=(*LISTS, *LINEUP),
    splits=5,
    quick_splits=2,
    runs=_runs,
    show=_show,
)
