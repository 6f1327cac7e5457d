"""Epochs, schedule, early stop: the loop that moves the weights."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import torch

from cofill.config import CFNSettings
from cofill.errors import SettingsError, TrainingDivergedError
from cofill.models.cfn.checkpoint import Checkpoint
from cofill.models.cfn.corruption import Corruption
from cofill.models.cfn.engines import TrainingEngine, make_engine, uses_dense_layers
from cofill.models.cfn.kernels import Floats, Ints, Longs
from cofill.models.cfn.minibatch import corrupt, gather
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.scaling import ScaledRows, Scaling
from cofill.models.history import EpochRecord, Phase, Report

# What predicting every row's mean costs, roughly: a first epoch may by chance cost nothing at all.
_LOSS_OF_KNOWING_NOTHING = 0.1

_PHASES: tuple[Phase, ...] = ("pretrain", "search", "train")


@dataclass(frozen=True)
class ValidationPart:
    """Ratings that choose the number of epochs, sorted by row."""

    entry_rows: Longs
    entry_columns: Ints
    ratings: Floats


@dataclass
class TrainingState:
    """Where a run stands between two epochs: with the weights, all that is needed to go on."""

    phase: Phase
    epoch: int = 0
    best_epoch: int = 0
    best_rmse: float = float("inf")
    history: list[EpochRecord] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "TrainingState":
        return cls(**{**document, "history": [EpochRecord(**record) for record in document["history"]]})


EngineMaker = Callable[[CFNetwork, CFNSettings], TrainingEngine]


def new_network(rows: ScaledRows, settings: CFNSettings, phase: Phase) -> CFNetwork:
    """A network for such rows with its first weights, on the device of the settings."""
    network = CFNetwork(
        rows.known.columns,
        settings,
        features=rows.features.shape[1],
        dense=uses_dense_layers(settings),
        generator=torch.Generator().manual_seed(epoch_seed(settings, phase, 0)),
    )
    try:
        if settings.device == "meta":  # torch knows this device too, but nothing can be computed on it
            raise RuntimeError("it holds no numbers")
        return network.to(settings.device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(
            f"the setting 'device' must name a device that torch can use here, such as cpu or cuda. "
            f"Got {settings.device!r} ({reason})"
        ) from None


def run_epochs(
    network: CFNetwork,
    rows: ScaledRows,
    scaling: Scaling,
    settings: CFNSettings,
    state: TrainingState,
    *,
    epochs: int,
    validation: ValidationPart | None = None,
    checkpoint: Checkpoint | None = None,
    report: Report | None = None,
    new_engine: EngineMaker = make_engine,
) -> None:
    """Train from where `state` stands to the last of `epochs`, or until validation stops getting better.

    With a validation part the best weights are left in the network at the end, unless the
    settings say that it will be trained again on everything and only the number of epochs matters.
    """
    keep_best = validation is not None and not settings.refit
    best = _copy_of(network) if keep_best and state.best_epoch == state.epoch else None
    if keep_best and best is None and checkpoint is not None:
        best = checkpoint.best_weights()
    with new_engine(network, settings) as engine:
        while state.epoch < epochs and not _gave_up(state, settings, validation):
            epoch = state.epoch + 1
            started = time.perf_counter()
            learning_rate = settings.learning_rate / (1 + epoch * settings.learning_rate_decay)
            loss = _one_epoch(engine, rows, settings, state.phase, epoch, learning_rate)
            engine.settle()
            seconds = time.perf_counter() - started
            rmse = _validation_rmse(engine, rows, scaling, validation) if validation is not None else None
            _check_health(loss, rmse, state, epoch, settings, rows)
            record = EpochRecord(
                state.phase, epoch, loss, rmse, learning_rate, seconds, rows.known.nnz / max(seconds, 1e-9)
            )
            state.epoch = epoch
            state.history.append(record)
            if rmse is not None and rmse < state.best_rmse:
                state.best_epoch, state.best_rmse = epoch, rmse
                if keep_best:
                    best = _copy_of(network)
            if checkpoint is not None:
                checkpoint.save_if_due(network.state_dict(), best, state.as_json())
            if report is not None:
                report(record, epochs)
    if best is not None:
        network.load_state_dict(best)


def _one_epoch(
    engine: TrainingEngine,
    rows: ScaledRows,
    settings: CFNSettings,
    phase: Phase,
    epoch: int,
    learning_rate: float,
) -> float:
    """Every row once, in random order; returns the mean loss of a rating.

    All draws of an epoch come from its own generator, so an epoch is the same whatever happened before it.
    """
    generator = torch.Generator().manual_seed(epoch_seed(settings, phase, epoch))
    corruption = Corruption.of(settings, with_features=rows.features.shape[1] > 0)
    filled = np.flatnonzero(rows.known.counts())  # a row without ratings has nothing to learn from
    order = filled[torch.randperm(len(filled), generator=generator).numpy()]
    total = 0.0
    for first in range(0, len(order), settings.batch):
        clean = gather(rows, order[first : first + settings.batch])
        total += engine.step(corrupt(clean, corruption, generator), learning_rate)
        if not isfinite(total):
            break
    return total / rows.known.nnz


def _validation_rmse(engine: TrainingEngine, rows: ScaledRows, scaling: Scaling, validation: ValidationPart) -> float:
    outputs = engine.outputs(rows, validation.entry_rows, validation.entry_columns)
    predicted = scaling.up(outputs, scaling.means[validation.entry_rows])
    return float(np.sqrt(np.mean((predicted - validation.ratings) ** 2, dtype=np.float64)))


def _gave_up(state: TrainingState, settings: CFNSettings, validation: ValidationPart | None) -> bool:
    return validation is not None and state.epoch - state.best_epoch >= settings.patience


def _check_health(
    loss: float, rmse: float | None, state: TrainingState, epoch: int, settings: CFNSettings, rows: ScaledRows
) -> None:
    """A run whose loss is not a number, or ten times that of its first epoch, will not recover."""
    first = next((record.loss for record in state.history if record.phase == state.phase), loss)
    if isfinite(loss) and (rmse is None or isfinite(rmse)) and loss <= 10 * max(first, _LOSS_OF_KNOWING_NOTHING):
        return
    in_parts = settings.batch < np.count_nonzero(rows.known.counts())
    raise TrainingDivergedError(
        f"training diverged in epoch {epoch}: the loss is {loss:.3g} after {first:.3g} in the first epoch. "
        f"Lower learning_rate (now {settings.learning_rate:g}, try {settings.learning_rate / 4:.2g})"
        + (f", or raise batch (now {settings.batch})" if in_parts else "")
    )


def epoch_seed(settings: CFNSettings, phase: Phase, epoch: int) -> int:
    """Epoch 0 is the draw of the first weights."""
    state = np.random.SeedSequence([settings.seed, _PHASES.index(phase), epoch]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))  # torch takes seeds below 2**63


def _copy_of(network: CFNetwork) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in network.state_dict().items()}
