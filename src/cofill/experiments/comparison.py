"""All algorithms on the same splits, with and without side information: table "RMSE", and top-N lists.

Lists of recommendations are what the paper names as future work; the models are the same.
"""

from cofill.evaluation import paired
from cofill.experiments import paper
from cofill.experiments.plan import (
    LINEUP,
    SETTINGS_NOTE,
    VERDICT_NOTE,
    Experiment,
    Missing,
    Plan,
    Result,
    interval,
    seconds_of,
    verdict,
)
from cofill.experiments.result_table import Cell, Column, Table
from cofill.experiments.runs import Run
from cofill.models import Contender

_REFERENCE = "V-CFN"
_MEASURES = (
    ("ndcg", "NDCG@10"),
    ("precision", "precision@10"),
    ("recall", "recall@10"),
    ("f1", "F1@10"),
    ("mrr", "MRR"),
    ("coverage", "coverage"),
    ("novelty", "novelty"),
)


def _runs(plan: Plan) -> list[Run]:
    # Split by split: the first full table is there as soon as possible.
    return [plan.run(contender, split) for split in range(plan.splits) for contender in plan.asked(tuple(LINEUP))]


def _show_rmse(plan: Plan) -> Result:
    present = plan.present(tuple(LINEUP))
    notes = [
        "± is the 95 % interval of the mean over the splits, by Student's t. Every test rating counts.",
        SETTINGS_NOTE,
        VERDICT_NOTE,
        "SVDFeature++ has the side information that CFN++ has. The paper does not say which its SVDFeature had.",
        "Seconds are those of the training on the machine at hand, where other things may have run; there are none "
        "where the splits were trained with different numbers of threads.",
    ]
    if not plan.data.described:
        notes.append("There is no side information, so there is no ++.")
    return Result(
        tables=(_accuracy(plan, present), _compared(plan, present)),
        notes=tuple(notes),
        missing=tuple(line for contender in present for line in plan.missing(contender)),
    )


def _accuracy(plan: Plan, present: list[Contender]) -> Table:
    published = paper.RMSE.get(plan.published or "", {})
    rows: list[list[Cell]] = []
    for contender in present:
        records = list(plan.records(contender).values())
        found, seconds = [record["result"] for record in records], interval(seconds_of(records))
        rmse, theirs = interval([one["rmse"] for one in found]), published.get(contender.label)
        rows.append(
            [
                contender.label,
                rmse,
                theirs,
                (rmse.mean / theirs.mean - 1) * 100 if rmse and theirs else None,
                interval([one["mae"] for one in found]),
                seconds and seconds.mean,
            ]
        )
    columns = (
        Column("algorithm"),
        Column("RMSE"),
        Column("paper's RMSE"),
        Column("difference", 2, " %", signed=True),
        Column("MAE"),
        Column("seconds", 1),
    )
    return Table("Accuracy", columns, rows)


def _compared(plan: Plan, present: list[Contender]) -> Table:
    """Compare every algorithm with one, on the splits that both have."""
    reference = plan.results(LINEUP[_REFERENCE])
    rows: list[list[Cell]] = []
    for contender in present:
        found = plan.results(contender)
        both = sorted(found.keys() & reference.keys())
        if contender.label == _REFERENCE or not both:
            continue
        comparison = paired(
            [found[split]["rmse"] for split in both],
            [reference[split]["rmse"] for split in both],
            overlap=plan.overlap(),
        )
        rows.append([contender.label, comparison.improvement, comparison.p_value, verdict(comparison)])
    columns = (
        Column("algorithm"),
        Column(f"better than {_REFERENCE} by", 2, " %", signed=True),
        Column("p", 3),
        Column("verdict"),
    )
    return Table(f"Against {_REFERENCE} on the same splits", columns, rows)


def _show_lists(plan: Plan) -> Result:
    present = plan.present(tuple(LINEUP))
    rows: list[list[Cell]] = []
    missing: list[Missing] = []
    for contender in present:
        found = plan.results(contender).values()
        lists = [one["ranking"] for one in found if one["ranking"] is not None]
        rows.append([contender.label, *(interval([one[name] for one in lists]) for name, _ in _MEASURES)])
        missing += plan.missing(contender)
        problems = [one["ranking_problem"] for one in found if one["ranking"] is None]
        missing += [Missing(contender.label, f"no lists on {len(problems)} splits: {problems[0]}")] if problems else []
    columns = (Column("algorithm"), *(Column(name, 2 if name == "novelty" else 4) for _, name in _MEASURES))
    notes = (
        "Each user is recommended 10 of all items that they had not rated in training. Relevant are test ratings in "
        "the upper quarter of the scale; whatever nobody rated counts as not relevant. Novelty is in bits.",
        "All algorithms rank by the rating that they predict, which is not what lists are best made by: items that few "
        "people rated highly come first.",
        "± is the 95 % interval of the mean over the splits, by Student's t.",
        f"{SETTINGS_NOTE} They were chosen by RMSE.",
    )
    return Result((Table("Lists of ten", columns, rows),), notes, tuple(missing))


RMSE = Experiment(
    name="rmse",
    title="RMSE of all algorithms",
    claim="V-CFN is the best but on the smallest data set, where I-AutoRec is; side information helps a little.",
    labels=tuple(LINEUP),
    splits=5,
    quick_splits=2,
    runs=_runs,
    show=_show_rmse,
)
RANKING = Experiment(
    name="ranking",
    title="Lists of recommendations",
    claim="NDCG and F-score are sometimes preferred to RMSE and should be benchmarked; no figures.",
    labels=tuple(LINEUP),
    splits=5,
    quick_splits=2,
    runs=_runs,
    show=_show_lists,
)
