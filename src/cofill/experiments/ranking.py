"""Lists of recommendations, which the paper names as future work; the models are those of `rmse`."""

from cofill.experiments.lineup import LINEUP
from cofill.experiments.plan import SETTINGS_NOTE, Experiment, Missing, Plan, Result, interval
from cofill.experiments.run import Run
from cofill.experiments.table import Cell, Column, Table

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
    return [plan.run(contender, split) for split in range(plan.splits) for contender in plan.asked(tuple(LINEUP))]


def _show(plan: Plan) -> Result:
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


EXPERIMENT = Experiment(
    name="ranking",
    title="Lists of recommendations",
    claim="NDCG and F-score are sometimes preferred to RMSE and should be benchmarked; no figures.",
    labels=tuple(LINEUP),
    splits=5,
    quick_splits=2,
    runs=_runs,
    show=_show,
)
