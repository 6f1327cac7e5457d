"""Sections about the training data, the model, its side information and its settings."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.charts.graphs import Line, Mark, bars, curves, histogram, round_step, tick_label
from cofill.charts.markup import Amount, Markup, element
from cofill.models.results import EpochRecord
from cofill.progress import duration
from cofill.report.page_parts import code, figure, figures, paragraph, section, table, unfolded
from cofill.report.subject import Subject

MOST_VALUES = 12  # different ratings that get a bar each


def data_section(subject: Subject) -> Markup:
    model = subject.model
    users, items = model.user_counts(), model.item_counts()
    values = subject.known.values
    filled = len(values) / (len(users) * len(items))
    by_popularity = np.sort(items)[::-1]
    fifth = by_popularity[: max(1, round(len(items) / 5))].sum() / max(len(values), 1)
    low, high = model.scale
    return section(
        "data",
        "The data",
        paragraph(
            f"{len(values):,} ratings from {low:g} to {high:g}, {values.mean(dtype=np.float64):z.3f} on average, fill "
            f"{filled:.2%} of the matrix of {len(users):,} users and {len(items):,} items. A user has "
            f"{np.median(users):,.0f} ratings in the median, an item {np.median(items):,.0f}. The most rated fifth of "
            f"the items has {fifth:.0%} of all ratings."
        ),
        figures(
            figure(_values(values), "How often each rating was given."),
            figure(_long_tail(by_popularity), "The long tail: how many of the ratings fall to the most rated items."),
            figure(
                _counts(users, "user"), "How many ratings users have. A bar begins at its label, and ends at the next."
            ),
        ),
    )


def value_groups(values: npt.NDArray[np.float32]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Bins for a histogram of ratings, and the bin of each: one for each value, or round ranges for many values."""
    distinct, group = np.unique(values, return_inverse=True)
    if len(distinct) <= MOST_VALUES:
        return [f"{value:g}" for value in distinct], group.astype(np.int64)
    edges = round_edges(float(values.min()), float(values.max()), MOST_VALUES - 2)
    group = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 2)
    return [f"{low:g} to {high:g}" for low, high in pairwise(edges)], group.astype(np.int64)


def round_edges(low: float, high: float, about: int) -> list[float]:
    """Multiples of a round number, from one that is not above low to one that is not below high."""
    step = round_step(max((high - low) / about, 1e-6))
    first, last = int(np.floor(low / step + 1e-9)), int(np.ceil(high / step - 1e-9))
    return [float(np.round(number * step, 9)) for number in range(first, max(last, first + 1) + 1)]


def _values(values: npt.NDArray[np.float32]) -> Markup:
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) > MOST_VALUES:
        edges = round_edges(float(distinct[0]), float(distinct[-1]), 25)
        spread = np.histogram(values, edges)[0]
        return histogram("Histogram of the ratings.", edges, spread.tolist(), x="rating", y="number of ratings")
    names = [f"{value:g}" for value in distinct]
    about = "Ratings given: " + ", ".join(f"{n}: {c:,}" for n, c in zip(names, counts.tolist(), strict=True))
    shares = [f"{share:.0%}" for share in counts / counts.sum()]
    return bars(about, names, counts.tolist(), x="rating", y="number of ratings", written=shares)


def _counts(counts: npt.NDArray[np.int64], what: str) -> Markup:
    """A histogram of counts in bins that double in width, because counts are very skewed."""
    power = np.zeros(len(counts), np.int64)
    power[counts > 0] = np.floor(np.log2(counts[counts > 0])).astype(np.int64) + 1
    names = ["0", *(tick_label(2.0**at) for at in range(int(power.max(initial=1))))]
    spread = np.bincount(power, minlength=len(names)).tolist()
    first = next((at for at, count in enumerate(spread) if count), 0)
    shown: Sequence[int] = spread[first:]
    about = f"Ratings of each {what}: from {counts.min():,} to {counts.max():,}, median {np.median(counts):,.0f}"
    return bars(about, names[first:], shown, x=f"ratings of {_a(what)} (each bar doubles)", y=f"number of {what}s")


def _long_tail(by_popularity: npt.NDArray[np.int64]) -> Markup:
    count = len(by_popularity)
    places = np.unique(np.linspace(0, count, min(count, 100) + 1).astype(np.int64))
    sums = np.concatenate([[0], np.cumsum(by_popularity)])
    shares = 100 * sums[places] / max(int(sums[-1]), 1)
    return curves(
        "The share of the ratings that the most rated items have, against their share of the items.",
        [Line("ratings", (100 * places / count).tolist(), shares.tolist())],
        x="most rated items (% of all items)",
        y="their ratings (% of all ratings)",
    )


def _a(what: str) -> str:
    return f"an {what}" if what == "item" else f"a {what}"


_PHASES = {
    "pretrain": "pre-training",
    "search": "training for validation",
    "train": "training on all ratings",
}


def model_section(subject: Subject) -> Markup:
    """What it is, and how it was trained."""
    return section("model", "The model", _about(subject), *_training_parts(subject.model.history))


def _about(subject: Subject) -> Markup:
    model = subject.model
    facts: list[tuple[str, object]] = [*model.facts()]
    epochs, validation = model.measures.get("epochs"), model.measures.get("validation_rmse")
    if epochs is not None:
        facts.append(("epochs of training", f"{epochs:,}"))
    if validation is not None:
        facts.append(("validation RMSE", f"{validation:.4f}"))
    later = len(subject.known) - int(model.data_summary.get("ratings", len(subject.known)))
    if later:
        facts.append(("ratings added after the training, less those removed", f"{later:,}"))
    cold = [("users", int((model.user_counts() == 0).sum())), ("items", int((model.item_counts() == 0).sum()))]
    facts += [(f"{side} without a rating, known by features", f"{count:,}") for side, count in cold if count]
    if subject.version:
        facts.append(("written by", f"cofill {subject.version}"))
    return table("About this model", ("what", "value"), [("kind of model", model.kind), *facts])


def _training_parts(history: Sequence[EpochRecord]) -> list[Markup]:
    if not history:
        return [paragraph("This kind of model keeps no record of its training, so there is no curve.")]
    phases: dict[str, list[EpochRecord]] = {}
    for record in history:
        phases.setdefault(_of_rows(_PHASES.get(record.phase, record.phase), record), []).append(record)
    pictures = [
        figure(
            _losses(phases),
            "The loss: the mean over ratings of the weighted squared error, in scaled ratings.",
        )
    ]
    if any(record.validation_rmse is not None for record in history):
        pictures.insert(
            0, figure(_validation(history), "RMSE of the network on the validation part, which chose its epochs.")
        )
    rows = [
        (
            name,
            len(records),
            records[-1].loss,
            min((r.validation_rmse for r in records if r.validation_rmse is not None), default=None),
            Amount(duration(sum(record.seconds for record in records))),
        )
        for name, records in phases.items()
    ]
    columns = ("phase", "epochs", "last loss", "best validation RMSE", "time in epochs")
    return [*_lowered_rates(history), figures(*pictures), table("Phases of the training", columns, rows)]


def _lowered_rates(history: Sequence[EpochRecord]) -> list[Markup]:
    """Of every network whose training began anew."""
    ends = {record.rows: record for record in history}.values()
    return [
        paragraph(
            f"With the learning rate of the settings {_of_rows('training', end)}{',' if end.rows else ''} diverged, or "
            f"was no better than the means of rows: it began anew "
            f"{'once' if end.lowered == 1 else f'{end.lowered} times'} with another one. The epochs below are those of "
            f"the training that was kept; its last step was {end.learning_rate:.2g}."
        )
        for end in ends
        if end.lowered
    ]


def _of_rows(what: str, record: EpochRecord) -> str:
    """Which network it is of, where there are two."""
    return f"{what}, rows are {record.rows}s" if record.rows else what


def _validation(history: Sequence[EpochRecord]) -> Markup:
    """A curve for each network that was trained."""
    measured: dict[str, list[tuple[float, int]]] = {}
    for record in history:
        if record.validation_rmse is not None:
            own = measured.setdefault(_of_rows("validation", record), [])
            own.append((record.validation_rmse, record.epoch))
    best, epoch = min(point for points in measured.values() for point in points)
    return curves(
        f"Validation RMSE by epoch; the best is {best:.4f} in epoch {epoch}.",
        [Line(name, [epoch for _, epoch in points], [rmse for rmse, _ in points]) for name, points in measured.items()],
        x="epoch",
        y="validation RMSE (points of the rating scale)",
        mark=Mark(epoch, best, f"best: {best:.4f} in epoch {epoch}"),
    )


def _losses(phases: Mapping[str, Sequence[EpochRecord]]) -> Markup:
    series = [
        Line(name, [record.epoch for record in records], [record.loss for record in records])
        for name, records in phases.items()
    ]
    return curves("The training loss by epoch.", series, x="epoch", y="loss (scaled, squared)")


def settings_section(subject: Subject) -> Markup:
    """Those that differ from their defaults, the commands that make the model and the page again, and the others."""
    settings = subject.model.settings
    changed, default = settings.unusual(), settings.usual()
    what = {name: field.description or "" for name, field in type(settings).model_fields.items()}
    different = [(code(name), _written(value), _written(default[name]), what[name]) for name, value in changed.items()]
    usual = [(code(name), _written(default[name]), what[name]) for name in what if name not in changed]
    parts: list[Markup] = [paragraph("Every setting has its default.")]
    if different:
        columns = ("setting", "value", "default", "what it does")
        parts = [table("Settings that differ from their defaults", columns, different)]
    page = subject.command or f"cofill report model --test {quote(subject.test_name or 'test.csv')}"
    parts += [
        paragraph(
            "To make it again: the same ratings, version and seed give the same model. It does not keep the names of "
            "the files that it was trained on: put yours in their place."
        ),
        element("pre", f"{_training(subject)}\n{page}", tabindex="0"),
    ]
    if usual:
        whole = table("Settings at their defaults", ("setting", "value", "what it does"), usual)
        count = "1 setting at its default" if len(usual) == 1 else f"{len(usual)} settings at their defaults"
        parts.append(unfolded(count, whole))
    return section("settings", "Settings", *parts)


def features_section(subject: Subject) -> Markup | None:
    """How each source of side information was encoded; None if there was none."""
    parts: list[str] = []
    for side in ("item", "user"):
        features = getattr(subject.model, f"{side}_features", None)
        if features is None:
            continue
        rows = [
            (line.source, line.column, line.kind, line.width, line.distinct, line.missing, line.example)
            for line in features.report()
        ]
        names = ("source", "column", "kind", "feature columns", "different values", "missing", "such as")
        parts.append(table(f"What describes the {side}s: {features.width:,} feature columns", names, rows))
        found = subject.model.data_summary.get(f"{side}_features")
        if found:
            parts.append(
                paragraph(
                    f"{found['described']:,} {side}s have ratings and features, {found['undescribed']:,} have ratings "
                    f"alone, {found['unrated']:,} have features alone."
                )
            )
    return section("features", "Side information", *parts) if parts else None


def _training(subject: Subject) -> str:
    model = subject.model
    about = [side for side in ("item", "user") if getattr(model, f"{side}_features", None) is not None]
    words = ["cofill train ratings.csv --out model", *(f"--{side}-features {side}s.csv" for side in about)]
    words += [] if model.kind == "cfn" else [f"--algorithm {model.kind}"]
    words += [f"--set {quote(f'{name}={_written(value)}')}" for name, value in model.settings.unusual().items()]
    return " \\\n    ".join(words)


def _written(value: Any) -> str:
    """A setting as the command line takes it."""
    if value is None:
        return "by the data"  # unless a number is given
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return repr(value)  # with every digit
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
