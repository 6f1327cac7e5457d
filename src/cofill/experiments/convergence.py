"""Figure "converge": RMSE by epoch. Ours is that of validation ratings, a tenth of the training part.

The paper shows the test part, and takes the best epoch of it. Here the test part is not touched at all.
"""

from collections.abc import Callable
from statistics import fmean

from cofill.charts.graphs import Chart, Line
from cofill.experiments.ablations import NETWORK_ALONE
from cofill.experiments.plan import (
    LINEUP,
    SETTINGS_NOTE,
    Cell,
    Column,
    Experiment,
    Missing,
    Plan,
    Result,
    Table,
    interval,
)
from cofill.experiments.runs import Run

_LABELS = ("U-CFN", "V-CFN")
_EPOCHS, _QUICK_EPOCHS = 100, 15
_SHOWN = (1, 2, 3, 5, 10, 15, 20, 30, 40, 50, 60, 80, 100)


def _run(plan: Plan, label: str, split: int) -> Run:
    """A run of all epochs, without early stopping."""
    epochs = _QUICK_EPOCHS if plan.quick else _EPOCHS
    return plan.run(LINEUP[label], split, task="validate", epochs=epochs, patience=epochs, refit=False, **NETWORK_ALONE)


def _runs(plan: Plan) -> list[Run]:
    return [_run(plan, contender.label, split) for split in range(plan.splits) for contender in plan.asked(_LABELS)]


def _show(plan: Plan) -> Result:
    curves: dict[str, list[list[float]]] = {}
    missing = []
    for label in _LABELS:
        records = [plan.record(_run(plan, label, split)) for split in range(plan.splits)]
        curves[label] = [
            record["result"]["validation_curve"] for record in records if record is not None and "result" in record
        ]
        if len(curves[label]) < plan.splits:
            absent = plan.splits - len(curves[label])
            missing.append(Missing(label, f"{absent} of {plan.splits} splits not run yet, or without a result"))
    means = {label: [fmean(at) for at in zip(*found, strict=True)] for label, found in curves.items() if found}
    patience = {label: int(plan.run(LINEUP[label], 0).all_settings["patience"]) for label in means}
    epochs = max((len(curve) for curve in means.values()), default=0)
    rows: list[list[Cell]] = [
        [str(epoch), *(means[label][epoch - 1] if label in means else None for label in _LABELS)]
        for epoch in _SHOWN
        if epoch <= epochs
    ]
    rows.append(["least", *(interval([min(curve) for curve in curves[label]]) for label in _LABELS)])
    for what, pick in (("epoch of the least", _least), ("epoch that early stopping keeps", _kept)):
        rows.append([what, *(_each(pick, curves[label], patience.get(label, 0)) for label in _LABELS)])
    columns = (Column("epoch"), *(Column(label) for label in _LABELS))
    notes = (
        "Validation ratings are a tenth of the training part. The test part, which the paper shows, is not touched.",
        *(["Values are means over the splits; the last two rows are of each in turn."] if plan.splits > 1 else []),
        SETTINGS_NOTE,
        "Early stopping ends the search for the number of epochs after "
        f"{' and '.join(str(each) for each in sorted(set(patience.values())))} epochs without a better RMSE.",
    )
    return Result(
        (Table("Validation RMSE by epoch", columns, rows),),
        notes,
        tuple(missing),
        _chart(plan, means, {label: [_kept(curve, patience[label]) for curve in curves[label]] for label in means}),
    )


def _each(pick: Callable[[list[float], int], int], curves: list[list[float]], patience: int) -> Cell:
    """The epoch that `pick` chooses in each split."""
    found = [pick(curve, patience) for curve in curves]
    return ", ".join(map(str, found)) if len(found) > 1 else found[0] if found else None


def _chart(plan: Plan, means: dict[str, list[float]], kept: dict[str, list[int]]) -> Chart | None:
    if not means:
        return None
    lines = tuple(
        Line(
            label,
            tuple(float(epoch) for epoch in range(1, len(curve) + 1)),
            tuple(curve),
            marked=tuple(float(epoch) for epoch in sorted(set(kept[label]))),
        )
        for label, curve in means.items()
    )
    return Chart(
        title=f"{plan.dataset}: validation RMSE by epoch",
        x_label="epoch (passes over the training ratings)",
        y_label="validation RMSE (in ratings)",
        lines=lines,
        marked="kept by early stopping",
        points=False,
    )


def _least(curve: list[float], _: int) -> int:
    return min(range(len(curve)), key=curve.__getitem__) + 1


def _kept(curve: list[float], patience: int) -> int:
    """The epoch that early stopping keeps: the first with no better one in the `patience` epochs after it."""
    best = 0
    for epoch in range(1, len(curve)):
        if curve[epoch] < curve[best]:
            best = epoch
        elif epoch - best >= patience:
            break
    return best + 1


EXPERIMENT = Experiment(
    name="convergence",
    title="RMSE by epoch",
    claim="the network quickly converges to a very low RMSE and then refines its prediction over the epochs.",
    labels=_LABELS,
    splits=1,
    quick_splits=1,
    runs=_runs,
    show=_show,
)
