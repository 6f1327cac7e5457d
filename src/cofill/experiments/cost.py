"""Table "Time": seconds, memory and parameters, each measured alone in a process of its own."""

from statistics import fmean

from cofill.experiments import paper
from cofill.experiments.lineup import LINEUP
from cofill.experiments.plan import Experiment, Plan, Result, interval
from cofill.experiments.run import Run
from cofill.experiments.table import Cell, Column, Table

_REFERENCE = "V-CFN"
_MEBIBYTE = 2**20


def _runs(plan: Plan) -> list[Run]:
    return [
        plan.run(contender, split, task="cost")
        for split in range(plan.splits)
        for contender in plan.asked(tuple(LINEUP))
    ]


def _show(plan: Plan) -> Result:
    present = plan.present(tuple(LINEUP))
    reference = [one["training_seconds"] for one in plan.results(LINEUP[_REFERENCE], task="cost").values()]
    published = paper.COST.get(plan.dataset, {})
    rows: list[list[Cell]] = []
    for contender in present:
        found = list(plan.results(contender, task="cost").values())
        seconds = interval([one["training_seconds"] for one in found])
        theirs = published.get(contender.label)
        rows.append(
            [
                contender.label,
                round(fmean(one["parameters"] for one in found)) if found else None,
                theirs and theirs.parameters,
                seconds,
                seconds.mean / fmean(reference) if seconds and reference else None,
                theirs and theirs.seconds,
                theirs and theirs.seconds / published[_REFERENCE].seconds,
                interval([one["peak_bytes"] / _MEBIBYTE for one in found]),
                interval([one["bytes_before"] / _MEBIBYTE for one in found]),
                theirs and theirs.mebibytes,
            ]
        )
    columns = (
        Column("algorithm"),
        Column("parameters"),
        Column("paper's"),
        Column("seconds", 1),
        Column(f"times {_REFERENCE}", 2),
        Column("paper's seconds"),
        Column(f"paper's times {_REFERENCE}", 2),
        Column("peak MiB", 0),
        Column("of these before training", 0),
        Column("paper's MiB"),
    )
    notes = (
        "Seconds are of the whole training: with the search for the number of epochs, and the columns solved for. "
        "Compare them with each other only. The paper's are of a graphics card (GTX 980) and 20 to 30 epochs.",
        "Peak memory is that of the process, with its libraries and the ratings; the paper's is that of the card.",
        "Parameters are the weights and biases of a network, or the vectors of all users and items.",
    )
    missing = [line for contender in present for line in plan.missing(contender, task="cost")]
    return Result((Table("What a training takes", columns, rows),), notes, tuple(missing))


EXPERIMENT = Experiment(
    name="cost",
    title="Time, memory and parameters",
    claim="large networks train within minutes on a graphics card; side information adds about 5 %.",
    labels=tuple(LINEUP),
    splits=1,
    quick_splits=1,
    runs=_runs,
    show=_show,
)
