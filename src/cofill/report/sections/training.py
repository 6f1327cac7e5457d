"""What happened during the training, epoch by epoch."""

from collections.abc import Sequence

from cofill.models.history import EpochRecord
from cofill.report.charts import Mark, Series, curves
from cofill.report.markup import Markup, figure, figures, paragraph, section, table
from cofill.report.subject import Subject

_PHASES = {
    "pretrain": "pre-training",
    "search": "finding the epochs",
    "train": "training on all ratings",
}


def training_section(subject: Subject) -> Markup:
    history = subject.model.history
    if not history:
        return section(
            "training",
            "Training",
            paragraph("This kind of model keeps no record of its training, so there is no curve."),
        )
    phases = list(dict.fromkeys(record.phase for record in history))
    pictures = [
        figure(
            _losses(history, phases),
            "The loss: the mean over ratings of the weighted squared error, in scaled ratings.",
        )
    ]
    measured = [(r.validation_rmse, r.epoch) for r in history if r.validation_rmse is not None]
    if measured:
        pictures.insert(
            0,
            figure(
                _validation(measured),
                "RMSE on the validation part, which chose the number of epochs. It is no measure of the model: that "
                "takes ratings with which nothing was chosen.",
            ),
        )
    rows = [
        (
            _PHASES.get(phase, phase),
            len(records := [record for record in history if record.phase == phase]),
            records[-1].loss,
            min((r.validation_rmse for r in records if r.validation_rmse is not None), default=None),
            sum(record.seconds for record in records) / len(records),
        )
        for phase in phases
    ]
    columns = ("phase", "epochs", "last loss", "best validation RMSE", "seconds an epoch")
    return section("training", "Training", figures(*pictures), table("Phases of the training", columns, rows))


def _validation(measured: Sequence[tuple[float, int]]) -> Markup:
    best, epoch = min(measured)
    return curves(
        f"Validation RMSE by epoch; the best is {best:.4f} in epoch {epoch}.",
        [Series("validation", [epoch for _, epoch in measured], [rmse for rmse, _ in measured])],
        x="epoch",
        y="validation RMSE (points of the rating scale)",
        mark=Mark(epoch, best, f"best: {best:.4f} in epoch {epoch}"),
        whole_x=True,
    )


def _losses(history: Sequence[EpochRecord], phases: Sequence[str]) -> Markup:
    series = []
    for phase in phases:
        records = [record for record in history if record.phase == phase]
        series.append(Series(_PHASES.get(phase, phase), [r.epoch for r in records], [r.loss for r in records]))
    return curves("The training loss by epoch.", series, x="epoch", y="loss (scaled, squared)", whole_x=True)
