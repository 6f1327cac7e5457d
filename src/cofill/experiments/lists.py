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
    Row,
    Table,
    interval,
    mean_seconds,
)
from cofill.experiments.runs import Protocol
from cofill.models import Contender

_OURS = "cofill"
_MEASURES: dict[str, str | Column] = {
    "ndcg": "NDCG@10",
    "recall": "recall@10",
    "precision": "precision@10",
    "mrr": "MRR",
    "coverage": "coverage",
    "novelty": Column("novelty", 2),
}
_AT = ((20, "recall_capped", "recall@20"), (100, "ndcg", "NDCG@100"))
_TITLES: dict[Protocol, str] = {
    "last": "The last rating of each user, by time",
    "strong": "New users, of whose ratings 80 % are told (strong generalisation)",
}
_WAYS: dict[Protocol | None, str] = {None: "random", "last": "by time", "strong": "new users"}


def _draw(plan: Plan) -> Result:
    lists, ratings = plan.present(tuple(LISTS)), plan.present(tuple(LINEUP))
    ways = [way for way in _WAYS if way != "last" or plan.data.ratings.times is not None]
    tables = [Table("Lists of ten", [_of_ten(plan, one) for one in lists]), _against(plan, lists, ways)]
    tables += [_by_protocol(plan, lists, way) for way in ways if way]
    by_rating = [_of_ten(plan, one, "ranking_by_rating") for one in ratings]
    tables += [Table("Lists of ten by predicted rating", by_rating)] if ratings else []
    missing = []
    for contender in (*lists, *ratings):
        problems = [one["ranking_problem"] for one in plan.results(contender).values() if one["ranking"] is None]
        missing += [Missing(contender.label, f"no lists on {len(problems)} splits: {problems[0]}")] if problems else []
    notes = [
        "Every item that a user had not rated in training is ranked; nothing is sampled. Relevant are test ratings in "
        "the upper quarter of the scale, all of interactions; whatever was not rated counts as not relevant. Novelty "
        "is in bits; recall@20 is divided by at most 20 (Liang et al. 2018).",
        "EASE, iALS and item kNN choose their penalties, factors and neighbours on a validation part of the training "
        "ratings; cofill has one setting for all data.",
        "± is the 95 % interval of the mean over the splits, by Student's t. That of a ratio is widened because splits "
        "share training ratings.",
        f"Lists by rating: the lower bound of the predicted rating, as recommend(by='rating') ranks. {SETTINGS_NOTE}",
    ]
    if plan.data.ratings.times is None:
        notes.append("There are no times, so there is no table by time.")
    return Result(tuple(tables), tuple(notes), tuple(missing))


def _lists(
    plan: Plan, contender: Contender, way: Protocol | None = None, which: str = "ranking"
) -> dict[int, dict[str, Any]]:
    """Measures of lists by split, where there are any."""
    found = plan.results(contender, way or "", protocol=way)
    return {split: one[which] for split, one in found.items() if one.get(which) is not None}


def _of_ten(plan: Plan, contender: Contender, which: str = "ranking") -> Row:
    lists = list(_lists(plan, contender, which=which).values())
    row: dict[str | Column, Cell] = {"algorithm": contender.label}
    row |= {column: interval([one[name] for one in lists]) for name, column in _MEASURES.items()}
    seconds = mean_seconds(plan.records(contender)) if which == "ranking" else None
    return row | {Column("seconds", 1): seconds and seconds.mean}


def _against(plan: Plan, present: list[Contender], ways: list[Protocol | None]) -> Table:
    """The ratio of our NDCG to that of every other, on the splits that both have."""
    rows: list[Row] = []
    for contender in present:
        if contender.label == _OURS:
            continue
        row: dict[str | Column, Cell] = {"algorithm": contender.label}
        for way in ways:
            ours, theirs = (_lists(plan, one, way) for one in (LISTS[_OURS], contender))
            both = sorted(split for split in ours.keys() & theirs.keys() if theirs[split]["ndcg"] > 0)
            ratios = [ours[split]["ndcg"] / theirs[split]["ndcg"] for split in both]
            row[Column(_WAYS[way], 3)] = interval(ratios, overlap=plan.overlap(protocol=way))
        rows.append(row)
    return Table(f"NDCG@10 of {_OURS}, divided by that of others", rows)


def _by_protocol(plan: Plan, present: list[Contender], way: Protocol) -> Table:
    rows: list[Row] = []
    for contender in present:
        lists = list(_lists(plan, contender, way).values())
        at = [{one["n"]: one for one in found["cutoffs"]} for found in lists]
        row: dict[str | Column, Cell] = {"algorithm": contender.label}
        row["NDCG@10"] = interval([one["ndcg"] for one in lists])
        row |= {label: interval([one[n][name] for one in at]) for n, name, label in _AT}
        rows.append(row | {"MRR": interval([one["mrr"] for one in lists])})
    return Table(_TITLES[way], rows)


RANKING = Experiment(
    name="ranking",
    title="Lists of recommendations",
    claim="NDCG and F-score are sometimes preferred to RMSE and should be benchmarked; no figures.",
    labels=(*LISTS, *LINEUP),
    splits=5,
    quick_splits=2,
    draw=_draw,
)
