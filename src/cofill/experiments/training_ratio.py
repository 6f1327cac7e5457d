"""Figure "trainingRatio": RMSE against the share of the ratings trained on, hyperparameters kept."""

from cofill.charts.graphs import Chart, Dash, Line
from cofill.experiments.plan import SETTINGS_NOTE, Cell, Column, Experiment, Plan, Result, Table, interval
from cofill.experiments.runs import Run
from cofill.models import Contender

_LABELS = ("fitted means", "ALS-WR", "SVDFeature", "I-AutoRec", "U-CFN", "U-CFN++", "V-CFN", "V-CFN++")
_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_QUICK_RATIOS = (0.1, 0.5, 0.9)


def _ratios(plan: Plan) -> tuple[float, ...]:
    return _QUICK_RATIOS if plan.quick else _RATIOS


def _runs(plan: Plan) -> list[Run]:
    return [
        plan.run(contender, split, ratio=ratio)
        for split in range(plan.splits)
        for ratio in _ratios(plan)
        for contender in plan.asked(_LABELS)
    ]


def _show(plan: Plan) -> Result:
    present = plan.present(_LABELS)
    rows: list[list[Cell]] = []
    for ratio in _ratios(plan):
        found = [interval([one["rmse"] for one in plan.results(c, ratio=ratio).values()]) for c in present]
        rows.append([f"{ratio:.0%}", *found])
    missing = [
        line
        for contender in present
        for ratio in _ratios(plan)
        for line in plan.missing(contender, f"at {ratio:.0%}", ratio=ratio)
    ]
    notes = (
        f"{SETTINGS_NOTE} They are the same at every share.",
        "The test part is all that is not trained on, so it is another one at each share.",
        "± and bars are the 95 % interval of the mean over the splits, by Student's t. In the picture, points of one "
        "share stand side by side so that no bar hides another.",
    )
    splits = "random splits, seed 0" if plan.splits == 1 else f"random splits, seeds 0 to {plan.splits - 1}"
    columns = (Column("trained on"), *(Column(contender.label) for contender in present))
    lines = tuple(line for contender in present if (line := _line(plan, contender)).x)
    chart = Chart(
        title=f"{plan.dataset}: RMSE against the share trained on",
        x_label="share of the ratings trained on (%)",
        y_label="RMSE on the rest (in ratings)",
        lines=lines,
    )
    return Result(
        (Table("RMSE by share trained on", columns, rows),), notes, tuple(missing), chart if lines else None, splits
    )


def _line(plan: Plan, contender: Contender) -> Line:
    points = []
    for ratio in _ratios(plan):
        found = interval([one["rmse"] for one in plan.results(contender, ratio=ratio).values()])
        if found is not None:
            points.append((ratio * 100, found.mean, found.half_width))
    x, y, errors = zip(*points, strict=True) if points else ((), (), ())
    style: Dash = "dotted" if contender.side else "solid" if contender.algorithm == "cfn" else "dashed"
    return Line(contender.label, x, y, errors, family=contender.label.removesuffix("++"), style=style)


EXPERIMENT = Experiment(
    name="training-ratio",
    title="How much there is to train on",
    claim="CFN and I-AutoRec are very robust to a change in density; SVDFeature is unstable.",
    labels=_LABELS,
    splits=3,
    quick_splits=1,
    runs=_runs,
    show=_show,
)
