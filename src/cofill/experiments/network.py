"""What makes the network what it is: table "DAEimpact", figure "converge", and the paper's text on the tanh.

`loss`: what the loss counts, hidden ratings, visible ones or both. The paper's two tables contradict each other in the
share of ratings that is hidden: for MovieLens-10M it is 0 in the supervised variant and 0.25 in the unsupervised one,
for MovieLens-20M the other way round. Only the latter makes sense: where nothing is hidden, a loss of hidden ratings is
always 0 and nothing is learned; and the caption says that the unsupervised setting has no masking noise.

`non-linearity`: the tanh removed, learning rate and weight decay searched anew, all else kept. The search is random and
uses the validation part of split 0's training part; its first trial are the defaults, which a search of about the same
kind found for the tanh. A search for every split would be more than a hundred trainings.

`convergence`: RMSE by epoch, of validation ratings, a tenth of the training part. The paper shows the test part, and
takes the best epoch of it. Here the test part is not touched at all.
"""

import math
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

import numpy as np

from cofill.charts.graphs import Chart, Line
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
    Row,
    Table,
    better,
    compared,
    interval,
    verdict,
)
from cofill.models import Contender

_LABELS = ("V-CFN", "U-CFN")

# Settings of a CFN by which it is the trained network of the paper alone that predicts: by default a decoder is solved
# for in closed form on its codes, whatever the loss was, and what it does not know is left to the biases.
_NETWORK_ALONE: Mapping[str, Any] = {"decoder": "network"}


def _note_alone(variant: str) -> str:
    return (
        "The network alone predicts, as in the paper, by its own output weights (decoder network). "
        f"So {variant} is not the V-CFN of `rmse`."
    )


def _beside(
    plan: Plan,
    contender: Contender,
    variants: Mapping[str, Mapping[str, Any]],
    what: str,
    reference: str,
    about: Mapping[str, str | Column],
) -> Iterator[tuple[str, Row]]:
    """Each variant that shares a split with the reference: its settings, its RMSE, and how it compares."""
    found = {name: plan.rmse(contender, name, **changes) for name, changes in variants.items()}
    for name, changes in variants.items():
        comparison = compared(found[name], found[reference], plan.overlap())
        if comparison is None:
            continue
        settings, other = plan.run(contender, 0, **changes).all_settings, name != reference
        row: dict[str | Column, Cell] = {"network": contender.label, what: name}
        row |= {column: float(settings[setting]) for setting, column in about.items()}
        row["RMSE"] = interval(list(found[name].values()))
        row[better(reference)] = comparison.improvement if other else None
        row[f"than {reference} it is"] = verdict(comparison) if other else None
        yield name, row


# What the loss counts

# alpha weighs the hidden ratings, beta the visible ones; all other settings are kept.
_VARIANTS: dict[str, dict[str, Any]] = {
    "supervised": {"beta": 0.0, **_NETWORK_ALONE},
    "unsupervised": {"alpha": 0.0, "noise_ratio": 0.0, **_NETWORK_ALONE},
    "mixed": {**_NETWORK_ALONE},
}


def _draw_loss(plan: Plan) -> Result:
    rows: list[Row] = []
    about = {"alpha": Column("alpha", 2), "beta": Column("beta", 2), "noise_ratio": Column("hidden share", 2)}
    for contender in plan.present(_LABELS):
        known = plan.published and contender.label == "V-CFN"
        for variant, row in _beside(plan, contender, _VARIANTS, "loss", "mixed", about):
            theirs = {name: of[variant] if known else None for name, of in paper.LOSS.items()}
            rows.append({**row, "paper's, ML-10M": theirs["ml-10m"], "paper's, ML-20M": theirs["ml-20m"]})
    notes = (
        "Supervised: only ratings that were hidden from the network count. Unsupervised: nothing is hidden, all count. "
        "The other settings are those of the mixed loss; epochs are chosen by validation in each.",
        _note_alone("mixed"),
        f"{SETTINGS_NOTE} That was with the mixed loss.",
        "The paper's tables contradict each other in the hidden share of these two (MovieLens-10M: 0 and 0.25; "
        "MovieLens-20M: 0.25 and 0). The second is meant: with nothing hidden, the supervised loss would be 0.",
        VERDICT_NOTE,
    )
    return Result((Table("What the loss counts", rows),), notes)


LOSS = Experiment(
    name="loss",
    title="What the loss counts",
    claim="supervised is poor, unsupervised excellent, mixed best; on MovieLens-1M, which is small, masking may hurt.",
    labels=_LABELS,
    splits=5,
    quick_splits=2,
    draw=_draw_loss,
)


# The network without its tanh

_TRIALS, _QUICK_TRIALS = 12, 3
_LINEAR: dict[str, Any] = {"activation": "identity", **_NETWORK_ALONE}
# Times the default, drawn evenly in the logarithm.
_LEARNING_RATE, _WEIGHT_DECAY = (0.05, 2.0), (0.1, 5.0)


def _trials(plan: Plan, contender: Contender) -> list[dict[str, Any]]:
    defaults = plan.run(contender, 0).all_settings
    rng = np.random.default_rng(0)
    found: list[dict[str, Any]] = [dict(_LINEAR)]
    for _ in range((_QUICK_TRIALS if plan.quick else _TRIALS) - 1):
        steps = [math.exp(rng.uniform(*np.log(limits))) for limits in (_LEARNING_RATE, _WEIGHT_DECAY)]
        drawn = {
            name: float(f"{defaults[name] * step:.4g}")
            for name, step in zip(("learning_rate", "weight_decay"), steps, strict=True)
        }
        found.append(_LINEAR | drawn)
    return found


def _best(plan: Plan, contender: Contender) -> dict[str, Any] | None:
    """The settings with the lowest validation RMSE, once every trial is finished."""
    trials = _trials(plan, contender)
    runs = [plan.run(contender, 0, task="validate", refit=False, **changes) for changes in trials]
    records = [plan.record(run, f"{contender.label} without tanh") for run in runs]
    if None in records:
        return None
    results = [(record or {}).get("result") for record in records]
    scores = [(found["validation_rmse"], place) for place, found in enumerate(results) if found]
    return trials[min(scores)[1]] if scores else None


def _draw_tanh(plan: Plan) -> Result:
    rows: list[Row] = []
    about = {"learning_rate": "learning rate", "weight_decay": "weight decay"}
    for contender in plan.present(_LABELS):
        best = _best(plan, contender)
        functions = {"tanh": _NETWORK_ALONE} | ({"none": best} if best else {})
        known = plan.published and contender.label == "V-CFN"
        for name, row in _beside(plan, contender, functions, "function", "tanh", about):
            theirs = paper.TANH if name == "tanh" else paper.LINEAR
            rows.append({**row, "paper's, ML-10M": theirs if known else None})
    trials = _QUICK_TRIALS if plan.quick else _TRIALS
    notes = (
        f"Without tanh, learning rate and weight decay are the best of {trials} trials on a tenth of the training part "
        "of the first split; the first trial are the defaults. All else is kept. The tanh has the defaults.",
        "That training part holds most of the test ratings of the other splits. A search on each split's own would be "
        f"{trials} trainings for each split and network, so there is none.",
        _note_alone("the one with tanh"),
        SETTINGS_NOTE,
        VERDICT_NOTE,
    )
    return Result((Table("With and without tanh", rows),), notes)


NON_LINEARITY = Experiment(
    name="non-linearity",
    title="The network with its tanh removed",
    claim="without the non-linearity, MovieLens-10M has an RMSE of 0.8151, far worse than 0.7767.",
    labels=_LABELS,
    splits=5,
    quick_splits=2,
    draw=_draw_tanh,
)


# RMSE by epoch

_EPOCHS, _QUICK_EPOCHS = 100, 15
_SHOWN = (1, 2, 3, 5, 10, 15, 20, 30, 40, 50, 60, 80, 100)


def _draw_convergence(plan: Plan) -> Result:
    labels = _LABELS[::-1]
    epochs = _QUICK_EPOCHS if plan.quick else _EPOCHS
    every = {"task": "validate", "epochs": epochs, "patience": epochs, "refit": False, **_NETWORK_ALONE}
    curves = {
        label: [one["validation_curve"] for one in plan.results(LINEUP[label], **every).values()] for label in labels
    }
    means = {label: [fmean(at) for at in zip(*found, strict=True)] for label, found in curves.items() if found}
    patience = {label: int(plan.run(LINEUP[label], 0).all_settings["patience"]) for label in labels}
    kept = {label: [_kept(curve, patience[label]) for curve in curves[label]] for label in labels}
    rows: list[Row] = [
        {"epoch": str(epoch), **{label: means[label][epoch - 1] if label in means else None for label in labels}}
        for epoch in _SHOWN
        if epoch <= max(map(len, means.values()), default=0)
    ]
    rows.append({"epoch": "least", **{label: interval([min(curve) for curve in curves[label]]) for label in labels}})
    least = {label: [curve.index(min(curve)) + 1 for curve in curves[label]] for label in labels}
    for what, found in (("epoch of the least", least), ("epoch that early stopping keeps", kept)):
        rows.append({"epoch": what, **{label: _listed(found[label]) for label in labels}})
    notes = (
        "Validation ratings are a tenth of the training part. The test part, which the paper shows, is not touched.",
        *(["Values are means over the splits; the last two rows are of each in turn."] if plan.splits > 1 else []),
        SETTINGS_NOTE,
        "Early stopping ends the search for the number of epochs after "
        f"{' and '.join(map(str, sorted(set(patience.values()))))} epochs without a better RMSE.",
    )
    chart = Chart(
        title=f"{plan.dataset}: validation RMSE by epoch",
        x_label="epoch (passes over the training ratings)",
        y_label="validation RMSE (in ratings)",
        lines=tuple(
            Line(
                label,
                tuple(map(float, range(1, len(curve) + 1))),
                tuple(curve),
                marked=tuple(map(float, sorted(set(kept[label])))),
            )
            for label, curve in means.items()
        ),
        marked="kept by early stopping",
        points=False,
    )
    return Result((Table("Validation RMSE by epoch", rows),), notes, chart=chart if means else None)


def _listed(epochs: list[int]) -> Cell:
    """Those of each split."""
    return ", ".join(map(str, epochs)) if len(epochs) > 1 else epochs[0] if epochs else None


def _kept(curve: list[float], patience: int) -> int:
    """The epoch that early stopping keeps: the first with no better one in the `patience` epochs after it."""
    best = 0
    for epoch in range(1, len(curve)):
        if curve[epoch] < curve[best]:
            best = epoch
        elif epoch - best >= patience:
            break
    return best + 1


CONVERGENCE = Experiment(
    name="convergence",
    title="RMSE by epoch",
    claim="the network quickly converges to a very low RMSE and then refines its prediction over the epochs.",
    labels=_LABELS[::-1],
    splits=1,
    quick_splits=1,
    draw=_draw_convergence,
)
