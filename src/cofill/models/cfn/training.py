"""Epochs, schedule, early stop, and the size of steps: the loop that moves the weights.

How large a step may be. Along the input weights of a row, the curvature of the loss grows with the number of its
ratings, whose errors are summed in its code, and with the number of rows of the minibatch that share a column, whose
steps then add up instead of averaging out. A row with n ratings on columns that 1 + B d rows of a minibatch of B rows
share (d: density) is pulled by

    m = n (1 + B d) / B

ratings. The largest step that does not diverge falls with m, and was measured on ratings made of five tastes and noise:

    rows x columns      n    m        stays at     diverges at
    1000 x  50,000   2,000    125       0.21          0.42
     300 x 100,000   5,000    364       0.105         0.21
     100 x  20,000   5,000  1,360       0.026         0.053
     100 x  20,000  18,000 16,600       0.0066        0.013
     300 x  20,000   2,000    245       0.053         0.105      rows of very uneven length

(One draw of each, four epochs.) Short rows do not only bear larger steps, they also need them: see `rate_factor`. A
training that diverges nevertheless begins anew with a lower rate.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from cofill.arrays import Floats, Ints, Longs
from cofill.config import CFNSettings
from cofill.errors import SettingsError, TrainingDivergedError
from cofill.exchange import ALONE, Exchange, total
from cofill.extras import require
from cofill.models.cfn.checkpoint import TrainingCheckpoint
from cofill.models.cfn.gp import Amplitudes
from cofill.models.cfn.network import CFNetwork, Weights, outputs_at
from cofill.models.cfn.scaling import ScaledRows, Scaling
from cofill.models.cfn.sgd import Corruption, EpochNoise, FusedEngine, LossSoFar, lay_out
from cofill.models.history import EpochRecord, LoweredRate, Phase, Report
from cofill.models.rng import draws_of, seed_of

if TYPE_CHECKING:
    from cofill.models.cfn.torch import TorchEngine

_RAN_AWAY = 10.0  # times the loss of predicting zero, from which no training recovers
_ROWS_LOOKED_AT = 50
_ENOUGH_MINIBATCHES = 5  # to judge an epoch by their mean loss: a few rows may cost more than most
_ENOUGH_TO_WATCH = 30_000  # validation ratings, to show how the network gets on

LOWERED_BY = 4  # a divisor that is a power of two is exact, whatever the learning rate
_MOST_LOWERINGS = 8
# m between which rows take the learning rate of the settings as it is, and the power by which it grows below.
_SMALL_PULL, _LARGE_PULL, _POWER_BELOW, _LARGEST_FACTOR = 29.0, 64.0, 0.4, 3.0
_WARM_UP = 0.35  # of the rate, in the first epoch, and twice as much in the second: random weights bear less

_ORDER, _WATCHED = 2, 3  # keep the draws of the order of rows, and of those to watch, apart from those of the noise
_PHASES: tuple[Phase, ...] = ("pretrain", "search", "train")


@dataclass(frozen=True)
class ValidationPart:
    """Ratings that no training sees, sorted by row."""

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
    scale: float = 1.0
    """What the weights of the big layers are still to be multiplied by, as the engine has them."""
    rate_share: float = 1.0
    """Of the learning rate of the settings, after trainings that failed with more."""
    amplitudes: Amplitudes | None = None
    """Of the decoder, once it has been learned."""
    spread: list[float] | None = None
    """Of its errors."""
    judged: Floats | None = None
    """Its predictions of validation ratings, where they are asked for."""

    def begin_phase_anew(self) -> None:
        """As if this phase had not begun yet; what an earlier one has found remains."""
        searched = [at for at, record in enumerate(self.history) if record.phase == "search"]
        del self.history[searched[-1] + 1 if searched and self.phase == "train" else 0 :]
        self.epoch, self.scale = 0, 1.0
        if self.phase == "search":
            self.best_epoch, self.best_rmse = 0, float("inf")

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON, apart from what was judged, which is as long as the validation part."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> "TrainingState":
        history = [EpochRecord(**record) for record in document["history"]]
        lowered = [LoweredRate(**record) for record in document["lowered"]]
        amplitudes = document["amplitudes"]
        known = None
        if amplitudes:
            short = amplitudes["short"]
            known = Amplitudes(**{**amplitudes, "short": None if short is None else tuple(short)})
        return cls(**{**document, "history": history, "lowered": lowered, "amplitudes": known})


TrainingEngine = Union["FusedEngine", "TorchEngine"]
"""What moves the weights. Training happens inside its context."""
NewEngine = Callable[[CFNetwork, CFNSettings, Exchange], TrainingEngine]


def require_engine(settings: CFNSettings) -> None:
    """SettingsError where the engine that the settings ask for is not installed."""
    if settings.engine_used != "fused":
        asked = "engine 'dense'" if settings.engine == "dense" else f"device {settings.device!r}"
        require(asked, "torch", "torch")


def make_engine(network: CFNetwork, settings: CFNSettings, exchange: Exchange = ALONE) -> TrainingEngine:
    """The engine that the settings ask for, to train this network."""
    if settings.engine_used == "fused":
        return FusedEngine(network, settings, exchange)
    if exchange.size > 1:
        raise SettingsError("several workers train with the engine fused, on the CPU. Got 'dense'")
    require_engine(settings)
    from cofill.models.cfn.torch import TorchEngine

    return TorchEngine(network, settings)


class StepTooLarge(Exception):
    """A training that diverges, in the middle of a phase."""

    def __init__(self, phase: Phase, epoch: int, found: str) -> None:
        super().__init__(found)
        self.phase, self.epoch, self.found = phase, epoch, found


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
    new_engine: NewEngine,
) -> None:
    """Train from where `state` stands to the last of `epochs`.

    With the decoder "network" and a validation part, it ends when that has not become better for some epochs
    (patience). The best weights are left in the network then, unless it is trained again on everything and only the
    number of epochs matters. The decoder "process" takes what its amplitudes say is of use, and that becomes more with
    every epoch. So all of them are run, and of its validation part only some are looked at.

    A learning rate that is too large for the data is a `StepTooLarge`.
    """
    stops = validation is not None and settings.decoder == "network"
    keep_best = stops and not settings.refit
    best = _copy_of(network) if keep_best and state.best_epoch == state.epoch else None
    if keep_best and best is None and checkpoint is not None:
        best = checkpoint.best_weights()
    max_loss = _RAN_AWAY * loss_of_zeros(rows, settings)
    exchange = rows.portion.exchange
    watched = None if validation is None else _Watched.of(validation, rows, None if stops else _ENOUGH_TO_WATCH)
    with new_engine(network, settings, exchange) as engine:
        engine.scale = state.scale
        first_rate = settings.learning_rate
        if engine.follows_gradient:  # and a step must not flip the weights
            first_rate = min(first_rate * rate_factor(rows, settings), 0.9 / max(settings.weight_decay, 1e-9))
        while state.epoch < epochs and not (stops and state.epoch - state.best_epoch >= settings.patience):
            epoch = state.epoch + 1
            started, exchanged = time.perf_counter(), exchange.seconds
            learning_rate = first_rate * rate_of_epoch(settings, epoch)
            loss = _one_epoch(engine, rows, settings, state.phase, epoch, learning_rate, max_loss)
            seconds, exchanged = time.perf_counter() - started, exchange.seconds - exchanged
            rmse = watched.rmse(network, engine.saved(), rows, scaling) if watched is not None else None
            if rmse is not None and not isfinite(rmse):
                raise StepTooLarge(state.phase, epoch, f"the validation RMSE is {rmse:.3g}")
            record = EpochRecord(
                state.phase,
                epoch,
                loss,
                rmse,
                learning_rate,
                seconds,
                rows.ratings / max(seconds, 1e-9),
                len(state.lowered),
                workers=exchange.size,
                exchanging=exchanged / max(seconds, 1e-9),
            )
            state.epoch = epoch
            state.history.append(record)
            if rmse is not None and (not stops or rmse < state.best_rmse):
                state.best_epoch, state.best_rmse = epoch, rmse
                if keep_best:
                    engine.flush()
                    best = _copy_of(network, best)
            if checkpoint is not None and checkpoint.due():
                state.scale = engine.saved()
                checkpoint.save(network.weights(), best, state.as_dict())
            if report is not None:
                report(record, epochs)
        if validation is None:
            _check_last_step(network, engine.saved(), rows, settings, state, max_loss)
        engine.flush()
        state.scale = 1.0
    if best is not None:
        network.take(best)


def rate_of_epoch(settings: CFNSettings, epoch: int) -> float:
    """What the first learning rate is multiplied by: it falls linearly to nothing, unless its decay is given."""
    if settings.learning_rate_decay is not None:
        return 1 / (1 + epoch * settings.learning_rate_decay)
    return min(_WARM_UP * epoch, max(1 - (epoch - 1) / settings.epochs, 0.5 / settings.epochs))


def rate_factor(rows: ScaledRows, settings: CFNSettings) -> float:
    """What to multiply the learning rate by so that rows of this length are trained: less for long ones."""
    filled = int((rows.counts > 0).sum())
    if not filled:
        return 1.0
    length = rows.ratings / filled
    pull = length * (1 / min(settings.batch, filled) + length / rows.portion.columns)
    if pull >= _LARGE_PULL:
        return sqrt(_LARGE_PULL / pull)
    if settings.learning_rate_decay is not None:  # then the learning rate is meant as it is
        return 1.0
    return float(min(max((_SMALL_PULL / pull) ** _POWER_BELOW, 1.0), _LARGEST_FACTOR))


def _one_epoch(
    engine: TrainingEngine,
    rows: ScaledRows,
    settings: CFNSettings,
    phase: Phase,
    epoch: int,
    learning_rate: float,
    max_loss: float,
) -> float:
    """Every row once, in random order; returns the mean loss of a rating. A loss above the most ends it early.

    All draws of an epoch come from its own seed, so an epoch is the same whatever happened before it.
    """
    seed = epoch_seed(settings, phase, epoch)
    corruption = Corruption.of(settings, with_features=rows.features.shape[1] > 0)
    noise = EpochNoise.drawn(rows, corruption, *seed)
    filled = np.flatnonzero(rows.counts)  # a row without ratings has nothing to learn from
    order = filled[np.argsort(draws_of(seed_of(*seed, _ORDER), rows.portion.row_keys[filled]), kind="stable")]
    minibatches = -(-len(order) // settings.batch)
    # No learning rate has to answer for the very first loss: it is that of random weights.
    judged_from = max(min(_ENOUGH_MINIBATCHES, minibatches) - 1, 1 if epoch == 1 else 0)
    so_far = LossSoFar(max_loss, judged_from)
    for some in lay_out(rows, order, settings.batch, noise, engine.cuts(rows)):
        engine.train(some, learning_rate, so_far)
        if so_far.diverged:
            raise StepTooLarge(phase, epoch, _told_loss(so_far.lost / max(so_far.ratings, 1), max_loss))
    return so_far.lost / max(rows.ratings, 1)


def loss_of_zeros(rows: ScaledRows, settings: CFNSettings) -> float:
    """The most that predicting zero, which is every row's mean, may cost: the mean of a rating, in scaled ratings.

    First weights are random and cost something even where all ratings are alike, so it is never taken to be nothing.
    """
    values = rows.known.values
    squared = total(rows.portion.exchange, float(values @ values))[0] / max(rows.ratings, 1)
    return max(settings.alpha, settings.beta) * max(squared, 0.1)


def _told_loss(loss: float, max_loss: float) -> str:
    return f"the loss is {loss:.3g}, where predicting every row's mean costs {max_loss / _RAN_AWAY:.3g}"


@dataclass(frozen=True)
class _Watched:
    """Validation ratings, or some of them, as every epoch asks for them."""

    rows: Longs  # ascending
    places: Longs  # (n,) of entries in the rows
    part: ValidationPart

    @classmethod
    def of(cls, validation: ValidationPart, rows: ScaledRows, most: int | None) -> "_Watched":
        """Those of rows with about `most` validation ratings; all processes have the same rows."""
        portion, exchange = rows.portion, rows.portion.exchange
        asked = np.zeros(rows.known.rows, np.uint8)
        asked[validation.entry_rows] = 1
        if most is not None:
            share = most / max(total(exchange, len(validation.ratings))[0], 1.0)
            draws = draws_of(seed_of(_WATCHED), portion.row_keys)
            asked[(draws >> np.uint64(40)) * 2.0**-24 >= share] = 0
        chosen = np.flatnonzero(exchange.max_(asked))
        at = np.flatnonzero(np.isin(validation.entry_rows, chosen)) if most is not None else slice(None)
        part = ValidationPart(validation.entry_rows[at], validation.entry_columns[at], validation.ratings[at])
        return cls(chosen, np.searchsorted(chosen, part.entry_rows), part)

    def rmse(self, network: CFNetwork, scale: float, rows: ScaledRows, scaling: Scaling) -> float:
        part = self.part
        with np.errstate(all="ignore"):  # a run that diverges is noticed by its result
            outputs = outputs_at(network, scale, rows, self.rows, self.places, part.entry_columns)
        errors = scaling.up(outputs, scaling.means[part.entry_rows] + scaling.columns[part.entry_columns])
        errors -= part.ratings
        squares, count = total(rows.portion.exchange, np.sum(errors**2, dtype=np.float64), len(errors))
        return sqrt(squares / max(count, 1))


def _check_last_step(
    network: CFNetwork, scale: float, rows: ScaledRows, settings: CFNSettings, state: TrainingState, max_loss: float
) -> None:
    """The loss of a minibatch is that before its step: without validation, only a look at some rows shows the last."""
    filled = np.flatnonzero(rows.counts)
    chosen = np.sort(filled[np.argsort(rows.portion.row_keys[filled], kind="stable")][:_ROWS_LOOKED_AT])
    some = rows.known.take(chosen)
    places = np.repeat(np.arange(len(chosen)), some.counts())
    with np.errstate(all="ignore"):
        outputs = outputs_at(network, scale, rows, chosen, places, some.indices)
        squares = float(np.sum((outputs - some.values) ** 2, dtype=np.float64))
        squares, count = total(rows.portion.exchange, squares, len(outputs))
    loss = max(settings.alpha, settings.beta) * squares / max(count, 1)
    if not loss <= max_loss:
        raise StepTooLarge(state.phase, state.epoch, _told_loss(loss, max_loss))


def lower(state: TrainingState, failure: StepTooLarge, settings: CFNSettings, *, in_parts: bool) -> LoweredRate:
    """Choose the next learning rate to try, or raise the error that says what to do."""
    before = settings.learning_rate * state.rate_share
    if len(state.lowered) >= _MOST_LOWERINGS:
        raise diverged(failure, settings, before, in_parts=in_parts)
    state.rate_share /= LOWERED_BY
    after = settings.learning_rate * state.rate_share
    state.lowered.append(LoweredRate(failure.phase, failure.epoch, before, after))
    return state.lowered[-1]


def diverged(failure: StepTooLarge, settings: CFNSettings, rate: float, *, in_parts: bool) -> TrainingDivergedError:
    usual = type(settings).model_fields["learning_rate"].default
    lowered = f" at a learning rate that was lowered to {rate:.2g}" if rate < settings.learning_rate else ""
    return TrainingDivergedError(
        f"training diverged in epoch {failure.epoch}{lowered}: {failure.found}. "
        f"Lower learning_rate (now {settings.learning_rate:g}, try {min(usual, rate / LOWERED_BY):.2g})"
        + (f", or raise batch (now {settings.batch})" if in_parts else "")
    )


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
