"""Table "Time": seconds, memory and parameters, each measured alone in a process of its own."""

from statistics import fmean

from cofill.experiments import paper
from cofill.experiments.plan import LINEUP, Cell, Column, Experiment, Plan, Result, Table, interval, seconds_of
from cofill.experiments.runs import Record, Run

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
    reference = plan.records(LINEUP[_REFERENCE], task="cost")
    published = paper.COST.get(plan.published or "", {})
    rows: list[list[Cell]] = []
    for contender in present:
        records = plan.records(contender, task="cost")
        found = [record["result"] for record in records.values()]
        theirs = published.get(contender.label)
        rows.append(
            [
                contender.label,
                round(fmean(one["parameters"] for one in found)) if found else None,
                theirs and theirs.parameters,
                interval(seconds_of(list(records.values()))),
                _times(records, reference),
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
        "What a process does only once, such as compiling, is not counted. The paper's are of a graphics card (GTX "
        "980) and 20 to 30 epochs.",
        f"Machines differ, and so do days: compare by times {_REFERENCE}, which is only there where {_REFERENCE} was "
        "measured by the same command. A command that writes into another folder measures all anew.",
        "Peak memory is that of the process, with its libraries and the ratings; the paper's is that of the card.",
        "Parameters are the weights and biases of a network, or the vectors of all users and items.",
    )
    missing = [line for contender in present for line in plan.missing(contender, task="cost")]
    return Result((Table("What a training takes", columns, rows),), notes, tuple(missing))


def _times(records: dict[int, Record], reference: dict[int, Record]) -> float | None:
    """The ratio of training times, on splits that were measured in one session."""
    both = [
        (record["result"]["training_seconds"], reference[split]["result"]["training_seconds"])
        for split, record in records.items()
        if split in reference and record["session"] == reference[split]["session"]
    ]
    return fmean(own for own, _ in both) / fmean(other for _, other in both) if both else None


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
