"""Epochs, schedule, early stop: the loop that moves the weights."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import isfinite, sqrt
from typing import Any

import numpy as np

from cofill.config import CFNSettings
from cofill.exchange import Exchange, total
from cofill.models.cfn.checkpoint import TrainingCheckpoint
from cofill.models.cfn.corruption import Corruption
from cofill.models.cfn.engines import TrainingEngine, make_engine
from cofill.models.cfn.gp import Amplitudes
from cofill.models.cfn.kernels import Floats, Ints, Longs
from cofill.models.cfn.minibatch import EpochNoise, gather
from cofill.models.cfn.network import CFNetwork, Weights
from cofill.models.cfn.scaling import ScaledRows, Scaling
from cofill.models.cfn.step_size import StepTooLarge, learns_too_little, loss_of_zeros, share_that_rows_bear
from cofill.models.draws import draws_of, seed_of
from cofill.models.history import EpochRecord, LoweredRate, Phase, Report

_RAN_AWAY = 10.0  # times the loss of predicting zero, from which no training recovers
_ROWS_LOOKED_AT = 50
_ENOUGH_MINIBATCHES = 5  # to judge an epoch by their mean loss: a few rows may cost more than most

_ORDER = 2  # keeps the draw of the order of rows apart from those of the noise
_PHASES: tuple[Phase, ...] = ("pretrain", "search", "train")


@dataclass(frozen=True)
class ValidationPart:
    """Ratings that choose the number of epochs, sorted by row."""

    entry_rows: Longs
    entry_columns: Ints
    ratings: Floats


@dataclass(frozen=True)
class ValidationAnswers:
    """Validation ratings and what a network and its decoder say of them, clipped to the scale; sorted by row."""

    rows: Longs
    columns: Ints
    ratings: Floats
    predicted: Floats
    row_counts: Longs  # ratings that their rows were trained on
    column_counts: Longs


@dataclass
class TrainingState:
    """Where a run stands between two epochs: with the weights, all that is needed to go on."""

    phase: Phase
    epoch: int = 0
    best_epoch: int = 0
    best_rmse: float = float("inf")
    history: list[EpochRecord] = field(default_factory=list)
    lowered: list[LoweredRate] = field(default_factory=list)
    rate_share: float = 1.0
    """Of the learning rate of the settings, after trainings that failed with more."""
    amplitudes: Amplitudes | None = None
    """Of the decoder, once the search has ended."""
    spread: list[float] | None = None
    """Of its errors."""
    judged: Floats | None = None
    """Its predictions of validation ratings, where they are asked for."""

    def begin_phase_anew(self) -> None:
        """As if this phase had not begun yet; what an earlier one has found remains."""
        searched = [at for at, record in enumerate(self.history) if record.phase == "search"]
        del self.history[searched[-1] + 1 if searched and self.phase == "train" else 0 :]
        self.epoch = 0
        if self.phase == "search":
            self.best_epoch, self.best_rmse = 0, float("inf")

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON, apart from what was judged, which is as long as the validation part."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> "TrainingState":
        """Of checkpoints that were written before learning rates could be lowered, too."""
        history = [EpochRecord(**record) for record in document["history"]]
        lowered = [LoweredRate(**record) for record in document.get("lowered", ())]
        amplitudes = document.get("amplitudes")
        known = None
        if amplitudes:
            short = amplitudes["short"]
            known = Amplitudes(**{**amplitudes, "short": None if short is None else tuple(short)})
        return cls(**{**document, "history": history, "lowered": lowered, "amplitudes": known})


EngineMaker = Callable[[CFNetwork, CFNSettings, Exchange], TrainingEngine]


def new_network(rows: ScaledRows, settings: CFNSettings, phase: Phase) -> CFNetwork:
    """A network for such rows with its first weights."""
    portion = rows.portion
    return CFNetwork.drawn(
        settings,
        portion.column_keys,
        features=rows.features.shape[1],
        columns=portion.columns,
        seed=epoch_seed(settings, phase, 0),
    )


def run_epochs(
    network: CFNetwork,
    rows: ScaledRows,
    scaling: Scaling,
    settings: CFNSettings,
    state: TrainingState,
    *,
    epochs: int,
    validation: ValidationPart | None = None,
    checkpoint: TrainingCheckpoint | None = None,
    report: Report | None = None,
    checks_learning: bool = True,
    new_engine: EngineMaker = make_engine,
) -> None:
    """Train from where `state` stands to the last of `epochs`, or until validation stops getting better.

    With a validation part the best weights are left in the network at the end, unless the
    settings say that it will be trained again on everything and only the number of epochs matters.
    A learning rate that is too large for the data is a `StepTooLarge`; with `checks_learning` also one with which
    validation gets no better than the means of rows.
    """
    # The decoder learns its amplitudes from the codes of the best epoch.
    keep_best = validation is not None and (not settings.refit or settings.decoder == "process")
    best = _copy_of(network) if keep_best and state.best_epoch == state.epoch else None
    if keep_best and best is None and checkpoint is not None:
        best = checkpoint.best_weights()
    bearable = _RAN_AWAY * loss_of_zeros(rows, settings)
    exchange = rows.portion.exchange
    means_rmse = _rmse_of_means(scaling, validation, exchange) if validation is not None else 0.0
    with new_engine(network, settings, exchange) as engine:
        first_rate = settings.learning_rate * (share_that_rows_bear(rows, settings) if engine.follows_gradient else 1.0)
        while True:
            if validation is not None and checks_learning:
                _check_that_it_learns(state, settings, epochs, means_rmse)
            if state.epoch >= epochs or _gave_up(state, settings, validation):
                break
            epoch = state.epoch + 1
            started, exchanged = time.perf_counter(), exchange.seconds
            learning_rate = first_rate / (1 + epoch * settings.learning_rate_decay)
            loss = _one_epoch(engine, rows, settings, state.phase, epoch, learning_rate, bearable)
            engine.settle()
            seconds, exchanged = time.perf_counter() - started, exchange.seconds - exchanged
            rmse = _validation_rmse(engine, rows, scaling, validation) if validation is not None else None
            if rmse is not None and not isfinite(rmse):
                raise StepTooLarge(state.phase, epoch, "diverged", f"the validation RMSE is {rmse:.3g}")
            speed = rows.ratings / max(seconds, 1e-9)
            record = EpochRecord(
                state.phase,
                epoch,
                loss,
                rmse,
                learning_rate,
                seconds,
                speed,
                len(state.lowered),
                workers=exchange.size,
                exchanging=exchanged / max(seconds, 1e-9),
            )
            state.epoch = epoch
            state.history.append(record)
            if rmse is not None and rmse < state.best_rmse:
                state.best_epoch, state.best_rmse = epoch, rmse
                if keep_best:
                    best = _copy_of(network, best)
            if checkpoint is not None:
                checkpoint.save_if_due(network.weights(), best, state.as_dict())
            if report is not None:
                report(record, epochs)
        if validation is None:
            _check_last_step(engine, rows, settings, state, bearable)
    if best is not None:
        network.take(best)


def _one_epoch(
    engine: TrainingEngine,
    rows: ScaledRows,
    settings: CFNSettings,
    phase: Phase,
    epoch: int,
    learning_rate: float,
    bearable: float,
) -> float:
    """Every row once, in random order; returns the mean loss of a rating. A loss above what is bearable ends it early.

    All draws of an epoch come from its own seed, so an epoch is the same whatever happened before it.
    """
    seed = epoch_seed(settings, phase, epoch)
    corruption = Corruption.of(settings, with_features=rows.features.shape[1] > 0)
    noise = EpochNoise(rows, corruption, *seed)
    filled = np.flatnonzero(rows.counts)  # a row without ratings has nothing to learn from
    order = filled[np.argsort(draws_of(seed_of(*seed, _ORDER), rows.portion.row_keys[filled]), kind="stable")]
    lost, entries = 0.0, 0
    for number, first in enumerate(range(0, len(order), settings.batch), 1):
        chosen = order[first : first + settings.batch]
        lost += engine.step(noise.corrupted(gather(rows, chosen)), learning_rate)
        entries += int(rows.counts[chosen].sum())
        # No learning rate has to answer for the very first loss: it is that of random weights.
        stepped = epoch > 1 or number > 1
        judged = stepped and (number >= _ENOUGH_MINIBATCHES or first + settings.batch >= len(order))
        if not isfinite(lost) or (judged and lost > bearable * entries):
            raise StepTooLarge(phase, epoch, "diverged", _told_loss(lost / entries, bearable))
    return lost / max(rows.ratings, 1)


def _told_loss(loss: float, bearable: float) -> str:
    return f"the loss is {loss:.3g}, where predicting every row's mean costs {bearable / _RAN_AWAY:.3g}"


def _validation_rmse(engine: TrainingEngine, rows: ScaledRows, scaling: Scaling, validation: ValidationPart) -> float:
    outputs = engine.outputs(rows, validation.entry_rows, validation.entry_columns)
    predicted = scaling.up(outputs, _taken_off(scaling, validation))
    return _rmse(predicted - validation.ratings, rows.portion.exchange)


def _rmse(errors: Floats, exchange: Exchange) -> float:
    squares, count = total(exchange, np.sum(errors**2, dtype=np.float64), len(errors))
    return sqrt(squares / max(count, 1))


def _taken_off(scaling: Scaling, validation: ValidationPart) -> Floats:
    """What the network does not see of validation ratings, scaled."""
    taken: Floats = scaling.means[validation.entry_rows] + scaling.columns[validation.entry_columns]
    return taken


def _gave_up(state: TrainingState, settings: CFNSettings, validation: ValidationPart | None) -> bool:
    return validation is not None and state.epoch - state.best_epoch >= settings.patience


def _rmse_of_means(scaling: Scaling, validation: ValidationPart, exchange: Exchange) -> float:
    """The validation RMSE of a network that outputs zeros."""
    means = _taken_off(scaling, validation)
    return _rmse(scaling.up(np.zeros_like(means), means) - validation.ratings, exchange)


def _check_that_it_learns(state: TrainingState, settings: CFNSettings, epochs: int, means_rmse: float) -> None:
    """Steps that are too large, yet not so large that training diverges, end up worse than the means of rows.

    That is judged after `patience` epochs.
    """
    if state.epoch < settings.patience or state.best_rmse <= means_rmse:
        return
    still_better = state.best_epoch == state.epoch
    if learns_too_little(state, state.best_rmse, still_better=still_better, at_end=state.epoch == epochs):
        found = f"the validation RMSE is {state.best_rmse:.4f}, that of the means of rows {means_rmse:.4f}"
        raise StepTooLarge(state.phase, state.epoch, "learned nothing", found, state.best_rmse)


def _check_last_step(
    engine: TrainingEngine, rows: ScaledRows, settings: CFNSettings, state: TrainingState, bearable: float
) -> None:
    """The loss of a minibatch is that before its step: without validation, only a look at some rows shows the last."""
    filled = np.flatnonzero(rows.counts)
    chosen = np.sort(filled[np.argsort(rows.portion.row_keys[filled], kind="stable")][:_ROWS_LOOKED_AT])
    some = rows.known.take(chosen)
    outputs = engine.outputs(rows, np.repeat(chosen, some.counts()), some.indices)
    with np.errstate(all="ignore"):
        squares = float(np.sum((outputs - some.values) ** 2, dtype=np.float64))
        squares, count = total(rows.portion.exchange, squares, len(outputs))
    loss = max(settings.alpha, settings.beta) * squares / max(count, 1)
    if not loss <= bearable:
        raise StepTooLarge(state.phase, state.epoch, "diverged", _told_loss(loss, bearable))


def epoch_seed(settings: CFNSettings, phase: Phase, epoch: int) -> tuple[int, int, int]:
    """Epoch 0 is the draw of the first weights."""
    return settings.seed, _PHASES.index(phase), epoch


def _copy_of(network: CFNetwork, before: Weights | None = None) -> Weights:
    """The weights, written over those of a copy `before`: a third copy would be the most memory of a training."""
    weights = network.weights()
    if before is None:
        return {name: weight.copy() for name, weight in weights.items()}
    for name, weight in weights.items():
        before[name][:] = weight
    return before
