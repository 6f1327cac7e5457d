"""All algorithms on the same splits, with and without side information: table "RMSE"."""

from cofill.evaluation import paired
from cofill.experiments import paper
from cofill.experiments.plan import (
    LINEUP,
    SETTINGS_NOTE,
    VERDICT_NOTE,
    Cell,
    Column,
    Experiment,
    Plan,
    Result,
    Table,
    interval,
    seconds_of,
    verdict,
)
from cofill.experiments.runs import Run
from cofill.models import Contender

_REFERENCE = "V-CFN"


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
