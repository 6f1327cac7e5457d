"""Algorithms beside each other: the tables "RMSE", "Side" and "Time" of the paper, and the figure "trainingRatio"."""

from statistics import fmean
from typing import Any

from cofill.charts.graphs import Chart, Dash, Line
from cofill.experiments import paper
from cofill.experiments.plan import (
    AS_PUBLISHED,
    LINEUP,
    PAPER,
    SETTINGS_NOTE,
    VERDICT_NOTE,
    Column,
    Experiment,
    Plan,
    Result,
    Row,
    Table,
    better,
    compared,
    interval,
    mean_seconds,
    verdict,
)

_REFERENCE = "V-CFN"
_MEBIBYTE = 2**20


# All algorithms on the same splits, with and without side information


def _draw_rmse(plan: Plan) -> Result:
    published = paper.RMSE.get(plan.published or "", {})
    reference = plan.rmse(LINEUP[_REFERENCE])
    accuracy: list[Row] = []
    against: list[Row] = []
    for contender in plan.present((*LINEUP, *PAPER)):
        records, errors = plan.records(contender), plan.rmse(contender)
        rmse, seconds = interval(list(errors.values())), mean_seconds(records)
        theirs = published.get(contender.label.removesuffix(AS_PUBLISHED))
        difference = (rmse.mean / theirs.mean - 1) * 100 if rmse and theirs else None
        accuracy.append(
            {
                "algorithm": contender.label,
                "RMSE": rmse,
                "paper's RMSE": theirs,
                Column("difference", 2, " %", signed=True): difference,
                "MAE": interval([record["result"]["mae"] for record in records.values()]),
                Column("seconds", 1): seconds and seconds.mean,
            }
        )
        comparison = compared(errors, reference, plan.overlap())
        if comparison and contender.label != _REFERENCE:
            against.append(
                {
                    "algorithm": contender.label,
                    better(_REFERENCE): comparison.improvement,
                    Column("p", 3): comparison.p_value,
                    "verdict": verdict(comparison),
                }
            )
    notes = (
        "± is the 95 % interval of the mean over the splits, by Student's t. Every test rating counts.",
        SETTINGS_NOTE,
        f"U-CFN and V-CFN{AS_PUBLISHED} are the paper's own network (preset paper); the others have today's defaults.",
        VERDICT_NOTE,
        "SVDFeature++ has the side information that CFN++ has. The paper does not say which its SVDFeature had.",
        "Seconds are those of the training on the machine at hand, where other things may have run; there are none "
        "where the splits were trained with different numbers of threads.",
        *(() if plan.data.described else ("There is no side information, so there is no ++.",)),
    )
    return Result((Table("Accuracy", accuracy), Table(f"Against {_REFERENCE} on the same splits", against)), notes)


RMSE = Experiment(
    name="rmse",
    title="RMSE of all algorithms",
    claim="V-CFN is the best but on the smallest data set, where I-AutoRec is; side information helps a little.",
    labels=(*LINEUP, *PAPER),
    splits=5,
    quick_splits=2,
    draw=_draw_rmse,
)


# Plain against side information by cluster of items, trained on nine tenths and on half

_PAIRS = (("V-CFN", "V-CFN++"), ("U-CFN", "U-CFN++"))
_RATIOS_OF_SIDE: tuple[float | None, ...] = (None, 0.5)  # None: the usual splits, which `rmse` has too
_CLUSTERS = 5


def _draw_side(plan: Plan) -> Result:
    tables = [_of_clusters(plan, plain, hybrid, ratio) for ratio in _RATIOS_OF_SIDE for plain, hybrid in _PAIRS]
    notes = (
        "Clusters are fifths of the rated items, from the least to the most rated in training; items that only have "
        "test ratings belong to the first.",
        SETTINGS_NOTE,
        VERDICT_NOTE,
        *(["The paper's figures are of MovieLens-10M."] if plan.published else []),
    )
    splits = " and ".join(plan.split_words(ratio) for ratio in _RATIOS_OF_SIDE)
    return Result(tuple(table for table in tables if table.rows), notes, splits=splits)


def _of_clusters(plan: Plan, plain: str, hybrid: str, ratio: float | None) -> Table:
    found = [plan.results(LINEUP[label], f"at {plan.split_words(ratio)}", ratio=ratio) for label in (plain, hybrid)]
    theirs = paper.BY_CLUSTER[ratio or 0.9] if plan.published and plain == "V-CFN" else None
    rows: list[Row] = []
    for cluster in range(_CLUSTERS + 1):
        before, after = (_rmse_by_split(results, cluster) for results in found)
        comparison = compared(after, before, plan.overlap(ratio))
        if comparison is None:
            continue
        own = theirs[cluster] if theirs else None
        same = own if plan.published == "ml-10m" else None
        rows.append(
            {
                "items, from the least rated": "all"
                if cluster == _CLUSTERS
                else f"{cluster * 20} to {cluster * 20 + 20} %",
                plain: interval(comparison.other.values),
                hybrid: interval(comparison.one.values),
                Column("improvement", 2, " %", signed=True): comparison.improvement,
                f"{hybrid} is": verdict(comparison),
                f"paper's {plain}": same and same.plain,
                f"paper's {hybrid}": same and same.hybrid,
                Column("paper's improvement", 2, " %", signed=True): own and own.percent,
            }
        )
    return Table(f"{plain} and {hybrid}, {plan.split_words(ratio)}", rows)


def _rmse_by_split(results: dict[int, dict[str, Any]], cluster: int) -> dict[int, float]:
    """RMSE of a cluster, or of all items; without splits where the cluster has no test rating."""
    found = {
        split: one["rmse"] if cluster == _CLUSTERS else one["clusters"][cluster]["rmse"]
        for split, one in results.items()
    }
    return {split: rmse for split, rmse in found.items() if rmse is not None}


SIDE_INFORMATION = Experiment(
    name="side-information",
    title="What side information is worth",
    claim="the fewer ratings an item has, the more it helps: 1 % for the rarest fifth of items, 0.1 % for the last.",
    labels=("V-CFN", "V-CFN++", "U-CFN", "U-CFN++"),
    splits=5,
    quick_splits=2,
    draw=_draw_side,
    needs_side=True,
)


# RMSE against the share of the ratings trained on, hyperparameters kept

_LABELS = ("fitted means", "ALS-WR", "SVDFeature", "I-AutoRec", "U-CFN", "U-CFN++", "V-CFN", "V-CFN++")
_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_QUICK_RATIOS = (0.1, 0.5, 0.9)


def _draw_ratio(plan: Plan) -> Result:
    ratios = _QUICK_RATIOS if plan.quick else _RATIOS
    present = plan.present(_LABELS)
    found = [
        [interval(list(plan.rmse(one, f"at {ratio:.0%}", ratio=ratio).values())) for ratio in ratios] for one in present
    ]
    rows: list[Row] = [
        {"trained on": f"{ratio:.0%}", **{one.label: of[at] for one, of in zip(present, found, strict=True)}}
        for at, ratio in enumerate(ratios)
    ]
    lines = []
    for contender, intervals in zip(present, found, strict=True):
        points = [(ratio * 100, one) for ratio, one in zip(ratios, intervals, strict=True) if one is not None]
        style: Dash = "dotted" if contender.side else "solid" if contender.algorithm == "cfn" else "dashed"
        if points:
            lines.append(
                Line(
                    contender.label,
                    tuple(x for x, _ in points),
                    tuple(one.mean for _, one in points),
                    tuple(one.half_width for _, one in points),
                    family=contender.label.removesuffix("++"),
                    style=style,
                )
            )
    chart = Chart(
        title=f"{plan.dataset}: RMSE against the share trained on",
        x_label="share of the ratings trained on (%)",
        y_label="RMSE on the rest (in ratings)",
        lines=tuple(lines),
    )
    notes = (
        f"{SETTINGS_NOTE} They are the same at every share.",
        "The test part is all that is not trained on, so it is another one at each share.",
        "± and bars are the 95 % interval of the mean over the splits, by Student's t. In the picture, points of one "
        "share stand side by side so that no bar hides another.",
    )
    splits = "random splits, seed 0" if plan.splits == 1 else f"random splits, seeds 0 to {plan.splits - 1}"
    return Result((Table("RMSE by share trained on", rows),), notes, chart=chart if lines else None, splits=splits)


TRAINING_RATIO = Experiment(
    name="training-ratio",
    title="How much there is to train on",
    claim="CFN and I-AutoRec are very robust to a change in density; SVDFeature is unstable.",
    labels=_LABELS,
    splits=3,
    quick_splits=1,
    draw=_draw_ratio,
)


# Seconds, memory and parameters, each measured alone in a process of its own


def _draw_cost(plan: Plan) -> Result:
    reference = plan.records(LINEUP[_REFERENCE], task="cost")
    published = paper.COST.get(plan.published or "", {})
    rows: list[Row] = []
    for contender in plan.present(tuple(LINEUP)):
        records = plan.records(contender, task="cost")
        found = [record["result"] for record in records.values()]
        theirs = published.get(contender.label)
        same = [  # splits that were measured in one session
            (record["result"]["training_seconds"], reference[split]["result"]["training_seconds"])
            for split, record in records.items()
            if split in reference and record["session"] == reference[split]["session"]
        ]
        times = fmean(own for own, _ in same) / fmean(other for _, other in same) if same else None
        rows.append(
            {
                "algorithm": contender.label,
                "parameters": round(fmean(one["parameters"] for one in found)) if found else None,
                "paper's": theirs and theirs.parameters,
                Column("seconds", 1): mean_seconds(records),
                Column(f"times {_REFERENCE}", 2): times,
                "paper's seconds": theirs and theirs.seconds,
                Column(f"paper's times {_REFERENCE}", 2): theirs and theirs.seconds / published[_REFERENCE].seconds,
                Column("peak MiB", 0): interval([one["peak_bytes"] / _MEBIBYTE for one in found]),
                Column("of these before training", 0): interval([one["bytes_before"] / _MEBIBYTE for one in found]),
                "paper's MiB": theirs and theirs.mebibytes,
            }
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
    return Result((Table("What a training takes", rows),), notes)


COST = Experiment(
    name="cost",
    title="Time, memory and parameters",
    claim="large networks train within minutes on a graphics card; side information adds about 5 %.",
    labels=tuple(LINEUP),
    splits=1,
    quick_splits=1,
    draw=_draw_cost,
)
