"""From the ratings of a matrix to a trained network: a training without validation ratings, then one on all.

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

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Union

import numpy as np

from cofill.arrays import Floats, Longs
from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.errors import TrainingDivergedError
from cofill.exchange import ALONE, Exchange, total
from cofill.extras import require
from cofill.memory import give_back_large_arrays
from cofill.models.biases import Biases
from cofill.models.cfn.checkpoint import Checkpoint, TrainingState
from cofill.models.cfn.codes import ReadRows
from cofill.models.cfn.decoding import Decoder
from cofill.models.cfn.gate import best_halves, gate
from cofill.models.cfn.gp import ColumnWeights, KernelParams
from cofill.models.cfn.gp_batch import IntervalCalibration, across, whole_variance
from cofill.models.cfn.gp_fit import DecoderFit, Learned, first_amplitudes, halves_of
from cofill.models.cfn.network import CFNetwork, Weights, outputs_at
from cofill.models.cfn.predictor import UserRows
from cofill.models.cfn.pretrain import stack_on
from cofill.models.cfn.scaling import ScaledRows, Scaling, ValidationPart, hold_out
from cofill.models.cfn.sgd import EpochNoise, FusedEngine, LossSoFar, lay_out, shard_count
from cofill.models.observed import AllColumns, KnownRatings
from cofill.models.results import EpochRecord, Phase
from cofill.models.rng import Portion, are_smallest, draws_of, draws_of_entries, seed_of, uniform_draws
from cofill.progress import Progress, Step, unseen
from cofill.threads import one_blas_thread

if TYPE_CHECKING:
    from cofill.models.cfn.torch import TorchEngine

SEARCH, LEARN, TRAIN, SOLVE = "training for validation", "learning the decoder", "training", "solving the columns"
"""What the parts of a training are called while they run."""
_NAMES: dict[Phase, str] = {"pretrain": "pre-training", "search": SEARCH, "train": TRAIN}
SHARE_OF_SOLVING = 0.1
"""Of the time of a training with the decoder "process", roughly."""

# The share of known ratings for which the default weight decay was found: nine tenths of MovieLens-1M.
_USUAL_DENSITY = 0.0402
# Of a layer, from which on memory is dearer than the time that fresh pages take: a quarter more on MovieLens-100K.
_MANY_WEIGHTS = 10_000_000
_RAN_AWAY = 10.0  # times the loss of predicting zero, from which no training recovers
_ROWS_LOOKED_AT = 50
_ENOUGH_MINIBATCHES = 5  # to judge an epoch by their mean loss: a few rows may cost more than most
_ENOUGH_TO_WATCH = 30_000  # validation ratings, to show how the network gets on
_ENOUGH_TO_JUDGE = 50_000  # validation ratings, for an RMSE that is right to a third of a percent
_LOWERED_BY = 4  # a divisor that is a power of two is exact, whatever the learning rate
_MOST_LOWERINGS = 8
# m between which rows take the learning rate of the settings as it is, and the power by which it grows below.
_SMALL_PULL, _LARGE_PULL, _POWER_BELOW, _LARGEST_FACTOR = 29.0, 64.0, 0.4, 3.0
# Passes over the data, where an epoch has so many minibatches or more; where it has fewer, so many times as many passes
# as the power of what is missing. On validation ratings of worlds with 1,500, 500 and 100 items the RMSE was lowest
# with 45 or more, 30 and 60 passes; with 1,700 items (MovieLens-100K) 15 and 30 are alike.
_EPOCHS, _MOST_EPOCHS, _USUAL_MINIBATCHES, _POWER_OF_FEWER = 15, 60, 84, 0.4
_WARM_UP = 0.35  # of the rate, in the first epoch, and twice as much in the second: random weights bear less
# The RMSE of unseen ratings falls with this power of the number of ratings. Training on a tenth less made it 0.55 %
# (MovieLens-1M), 0.62 % (Douban), 0.67 % (MovieTweetings) and 0.68 % (MovieLens-100K) larger.
_LEARNING_CURVE = 0.06
# Keep draws for one purpose apart from those for others.
_VALIDATION_DRAW, _COLUMN_DRAW, _ORDER_DRAW, _WATCHED_DRAW = 0x56414C, 0x10D6E, 2, 3
_PHASES: tuple[Phase, ...] = ("pretrain", "search", "train")


@dataclass(frozen=True)
class FitResult:
    """What training leaves behind."""

    network: CFNetwork
    scaling: Scaling
    biases: Biases | None  # with the decoder "process"
    amplitudes: KernelParams | None  # of that decoder
    spread: IntervalCalibration  # of its errors
    history: list[EpochRecord]
    epochs: int  # behind the weights that were kept
    validation_rmse: float | None
    judged: Floats | None  # predictions of the ratings to judge by, if these were given


TrainingEngine = Union[FusedEngine, "TorchEngine"]
"""What moves the weights."""
NewEngine = Callable[[CFNetwork, CFNSettings, Exchange], TrainingEngine]


class StepTooLarge(Exception):
    """A training that diverges, in the middle of a phase."""

    def __init__(self, phase: Phase, epoch: int, found: str) -> None:
        super().__init__(found)
        self.phase, self.epoch, self.found = phase, epoch, found


def require_engine(settings: CFNSettings) -> None:
    """SettingsError where the engine that the settings ask for is not installed."""
    if settings.engine_used != "fused":
        asked = "engine 'dense'" if settings.engine == "dense" else f"device {settings.device!r}"
        require(asked, "torch", "torch")


def make_engine(network: CFNetwork, settings: CFNSettings, exchange: Exchange = ALONE) -> TrainingEngine:
    """The engine that the settings ask for, to train this network."""
    if settings.engine_used == "fused":
        return FusedEngine(network, settings, exchange)
    from cofill.models.cfn.torch import TorchEngine

    return TorchEngine(network, settings)


def fit_matrix(
    known: KnownRatings,
    scale: Scale,
    settings: CFNSettings,
    *,
    row_features: SideFeatures,
    column_features: SideFeatures,
    portion: Portion | None = None,
    held_out: Longs | None = None,
    checkpoint: Path | Checkpoint | None = None,
    resume: bool = False,
    progress: Progress = unseen,
    lowers_rate: bool = True,
    new_engine: NewEngine = make_engine,
) -> FitResult:
    """Train on the known ratings of a matrix and the side features of its rows and columns, where there are any.

    With a validation part, a first run on the rest finds the amplitudes of the decoder, or, with the decoder
    "network", the number of epochs. Then, if `refit`, a second run of that length uses every rating. With a
    checkpoint, either run can be killed and resumed; its file is left for the caller to remove once the model is safe.
    Several processes have one checkpoint together.

    `portion` has the keys of rows and columns, and the exchange with the processes that have the other columns of the
    matrix, if this one has some of them only. All of these do the same, and leave behind what belongs to their columns.

    `held_out` are the places of validation ratings among all, row by row, where another network is to be judged by
    the same; otherwise they are drawn.

    A run that fails for its learning rate begins anew with a lower one, and the second run takes what the first has
    found. Without `lowers_rate`, for a search of the learning rate, the first failure is an error.
    """
    require_engine(settings)
    rows, features = known.trained, row_features.trained
    if rows.columns * settings.hidden[0] > _MANY_WEIGHTS:
        give_back_large_arrays()
    portion = Portion.of(rows) if portion is None else portion
    process = settings.decoder == "process"
    if isinstance(checkpoint, Path):
        run = _run_name(rows, (features, column_features.trained), scale, settings)
        checkpoint = Checkpoint(checkpoint, run=run, seconds=settings.checkpoint_seconds)
    resumed = checkpoint.load() if checkpoint is not None and resume else None
    if checkpoint is not None and resumed is None:
        checkpoint.remove()  # of an earlier run
    weights = resumed[0] if resumed else None
    state = TrainingState.from_dict(resumed[1]) if resumed else TrainingState("search")

    epochs = settings.epochs or usual_epochs(int((portion.row_counts(rows) > 0).sum()), settings.batch)
    first = (_following_density(settings, rows, portion) if process else settings).changed({"epochs": epochs})

    def train(
        weights: Weights | None, rows: ScaledRows, scaling: Scaling, last: int, held_out: ValidationPart | None = None
    ) -> CFNetwork:
        """Train from the weights of a checkpoint, or from new ones; with every lower rate from new ones.

        No checkpoint is needed at that moment: a run that is resumed from before it fails in the same way once more.
        """
        while True:
            names = ["learning_rate", *(["inner_learning_rate"] if settings.pretrain else [])]
            share = 1 / _LOWERED_BY**state.lowered
            slower = first.changed({name: getattr(first, name) * share for name in names})
            try:
                if weights is None and settings.pretrain:
                    network = _pretrained_network(rows, scaling, slower, state, progress)
                else:
                    network = new_network(rows, slower, state.phase)
                    if weights is not None:
                        network.take(weights)
                run_epochs(
                    network, rows, scaling, slower, state,
                    epochs=last, validation=held_out, checkpoint=checkpoint, progress=progress, new_engine=new_engine,
                )  # fmt: skip
                return network
            except StepTooLarge as failure:
                rate = settings.learning_rate * share
                if not lowers_rate or state.lowered == _MOST_LOWERINGS:
                    raise _diverged(failure, settings, rate, rows) from None
                state.begin_phase_anew()
                weights = None
                note = (
                    f"training diverged in epoch {failure.epoch} with a learning rate of {rate:.3g}; "
                    f"begins anew with {rate / _LOWERED_BY:.3g}"
                )
                progress(Step(_NAMES[failure.phase], 0, 1, 0.0, note=note))

    # Only cold rows in training teach the network what the mark means.
    marks_empty = settings.cold_ratio > 0 and features.shape[1] > 0

    def scaled_by(part: SparseRows, part_columns: SparseRows) -> tuple[Scaling, Biases | None]:
        if not process:
            return Scaling.of_scale(part, scale, settings, features, portion=portion, marks_empty=marks_empty), None
        biases = Biases(
            part,
            part_columns,
            settings.mean_damping,
            row_features=features,
            column_features=column_features.trained,
            portion=portion,
        )
        return Scaling.of_biases(part, biases, scale, settings, portion=portion, marks_empty=marks_empty), biases

    judging = held_out is not None
    if held_out is None:
        held_out = validation_entries(rows, settings, portion)
    validates = total(portion.exchange, len(held_out))[0] > 0
    if not validates and state.phase == "search":
        state.phase, state.best_epoch = "train", epochs
    trained_on = rows
    if state.phase == "search":
        part, validation = hold_out(rows, held_out)
        part_columns = part.transpose()
        scaling, biases = scaled_by(part, part_columns)
        scaled = scaling.down(part, features, portion)
        network = train(weights, scaled, scaling, epochs, validation)
        weights = None
        trained_on = rows if settings.refit else part
        if biases is not None:
            _forget_untrained_columns(network, part)
            decoder = DecoderFit(network, scaling, biases, part, part_columns, row_features, column_features, portion)
            reached = sum(_share_of("search", settings))
            progress(Step(LEARN, 0.0, 1.0, reached))
            learned = decoder.learn(validation, settings)
            predicted, spread, rmse, halves = judged_by_halves(
                decoder, learned, validation, settings, most=None if judging else _ENOUGH_TO_JUDGE
            )
            state.best_rmse = after_refit(rmse, settings)
            state.amplitudes = replace(learned.amplitudes, row_gate=halves[0], column_gate=halves[1])
            state.spread = spread.as_array().tolist()
            if judging:
                state.judged = predicted
            progress(Step(LEARN, 1.0, 1.0, reached))
            del decoder  # codes and sums of all rows, and what they were made of
        if settings.refit:
            del network, scaled, part, part_columns, validation
            state.phase, state.epoch = "train", 0
    scaling, biases = scaled_by(rows, known.trained_columns)
    if state.phase == "train":
        network = train(weights, scaling.down(rows, features, portion), scaling, state.best_epoch)
    _forget_untrained_columns(network, trained_on)
    if judging and checkpoint is not None:
        checkpoint.save(network.weights(), None, state.as_dict())  # while another network is trained
    amplitudes = None
    if biases is not None:
        amplitudes = state.amplitudes or _usual(first_amplitudes(biases, scaling, settings, column_features))
    return FitResult(
        network=network,
        scaling=scaling,
        biases=biases,
        amplitudes=amplitudes,
        spread=IntervalCalibration.unknown()
        if state.spread is None
        else IntervalCalibration.from_array(np.array(state.spread)),
        history=state.history,
        epochs=state.best_epoch,
        validation_rmse=state.best_rmse if validates else None,
        judged=state.judged,
    )


def _usual(first: KernelParams) -> KernelParams:
    """Where there are no validation ratings to learn from: between those that MovieLens-100K, MovieLens-1M, Douban and
    MovieTweetings teach, on the side of caution. The first ones, from which learning begins, believe too little.
    """
    noise = first.noise
    return replace(
        first, bias=2 * first.bias, taste=2.0, cosine=0.15 * noise, local=0.5 * noise if first.local else 0.0, half=1.0
    )


def _following_density(settings: CFNSettings, rows: SparseRows, portion: Portion) -> CFNSettings:
    """Weight decay is felt at every minibatch, ratings only where they are: where they are few, it is to be less."""
    counts = portion.row_counts(rows)
    columns = total(portion.exchange, (np.bincount(rows.indices, minlength=rows.columns) > 0).sum())[0]
    filled = int((counts > 0).sum()) * int(columns)
    share = (int(counts.sum()) / max(filled, 1) / _USUAL_DENSITY) ** 0.5
    # Not so much that a step flips the weights.
    decay = min(settings.weight_decay * share, 0.5 / settings.learning_rate)
    return settings.changed({"weight_decay": decay})


def validation_entries(rows: SparseRows, settings: CFNSettings, portion: Portion) -> Longs:
    """Positions of the held-out entries, ascending; none where the ratings are too few to spare one."""
    ratings = int(total(portion.exchange, rows.nnz)[0])
    wanted = min(round(ratings * settings.validation), ratings - 1)
    seed = seed_of(settings.seed, _VALIDATION_DRAW)
    draws = draws_of_entries(seed, portion.row_keys, portion.column_keys, rows.indptr, rows.indices)
    return np.flatnonzero(are_smallest(draws, max(wanted, 0), portion.exchange))


def _forget_untrained_columns(network: CFNetwork, rows: SparseRows) -> None:
    """A column without ratings still has its first random weights, which mean nothing: they become zero."""
    untrained = np.bincount(rows.indices, minlength=rows.columns) == 0
    for weights in (network.input.weight, network.output.weight, network.output.bias):
        weights[untrained] = 0


def _run_name(rows: SparseRows, features: tuple[Floats, Floats], scale: Scale, settings: CFNSettings) -> str:
    """A name for data and settings together; how often to save does not count."""
    digest = hashlib.sha256()
    for array in (rows.indptr, rows.indices, rows.values, *features):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    relevant = settings.model_dump(mode="json", exclude={"checkpoint_seconds"}) | {"threads": shard_count(settings)}
    digest.update(json.dumps([relevant, list(scale)], sort_keys=True).encode())
    return digest.hexdigest()


def _diverged(failure: StepTooLarge, settings: CFNSettings, rate: float, rows: ScaledRows) -> TrainingDivergedError:
    usual = type(settings).model_fields["learning_rate"].default
    lowered = f" at a learning rate that was lowered to {rate:.2g}" if rate < settings.learning_rate else ""
    in_parts = settings.batch < int(np.count_nonzero(rows.counts))
    return TrainingDivergedError(
        f"training diverged in epoch {failure.epoch}{lowered}: {failure.found}. "
        f"Lower learning_rate (now {settings.learning_rate:g}, try {min(usual, rate / _LOWERED_BY):.2g})"
        + (f", or raise batch (now {settings.batch})" if in_parts else "")
    )


# Epochs


def epoch_seed(settings: CFNSettings, phase: Phase, epoch: int) -> tuple[int, int, int]:
    """Epoch 0 is the draw of the first weights."""
    return settings.seed, _PHASES.index(phase), epoch


def new_network(rows: ScaledRows, settings: CFNSettings, phase: Phase) -> CFNetwork:
    """A network for such rows with its first weights."""
    portion, seed = rows.portion, epoch_seed(settings, phase, 0)
    return CFNetwork.drawn(
        settings, portion.column_keys, features=rows.features.shape[1], columns=portion.columns, seed=seed
    )


def _pretrained_network(
    rows: ScaledRows, scaling: Scaling, settings: CFNSettings, state: TrainingState, progress: Progress
) -> CFNetwork:
    """A stack whose layers have been trained pair by pair. The epochs of the outermost pair join the history."""
    epochs = settings.pretrain_epochs
    alone = settings.changed({"hidden": settings.hidden[:1], "pretrain": False, "epochs": epochs})
    outer, outer_state = new_network(rows, alone, state.phase), TrainingState("pretrain")
    run_epochs(outer, rows, scaling, alone, outer_state, epochs=epochs, progress=progress)
    state.history.extend(outer_state.history)
    stack, seed = new_network(rows, settings, state.phase), epoch_seed(settings, "pretrain", epochs + 1)
    stack_on(outer, stack, rows, settings, seed)
    return stack


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
    progress: Progress = unseen,
    new_engine: NewEngine = make_engine,
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
    best = checkpoint.best_weights() if keep_best and state.epoch and checkpoint is not None else None
    max_loss = _RAN_AWAY * _loss_of_zeros(rows, settings)
    exchange = rows.portion.exchange
    watched = None if validation is None else _watched(validation, rows, None if stops else _ENOUGH_TO_WATCH)
    begin, length = _share_of(state.phase, settings)
    engine = new_engine(network, settings, exchange)
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
        rmse = None if watched is None else _rmse(network, engine.saved(), rows, scaling, *watched)
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
            state.lowered,
            workers=exchange.size,
            exchanging=exchanged / max(seconds, 1e-9),
        )
        state.epoch = epoch
        state.history.append(record)
        if rmse is not None and (not stops or rmse < state.best_rmse):
            state.best_epoch, state.best_rmse = epoch, rmse
            if keep_best:
                engine.flush()
                best = best or {name: np.empty_like(weight) for name, weight in network.weights().items()}
                for name, weight in network.weights().items():
                    best[name][:] = weight  # a third copy would be the most memory of a training
        if checkpoint is not None and checkpoint.due():
            state.scale = engine.saved()
            checkpoint.save(network.weights(), best, state.as_dict())
        share, measures = begin + length * epoch / epochs, record.measures()
        progress(Step(_NAMES[state.phase], epoch, epochs, share, "epoch", measures, seconds))
    if validation is None:
        _check_last_step(network, engine.saved(), rows, settings, state, max_loss)
    engine.flush()
    state.scale = 1.0
    if best is not None:
        network.take(best)


def _share_of(phase: Phase, settings: CFNSettings) -> tuple[float, float]:
    """Of a whole training: what is done before a phase, and what it takes. A refit does it all once more."""
    whole = 1 - SHARE_OF_SOLVING if settings.decoder == "process" else 1.0
    once = whole / 2 if settings.refit and settings.validation > 0 else whole
    return {"pretrain": (0.0, 0.0), "search": (0.0, once), "train": (whole - once, once)}[phase]


def usual_epochs(rows: int, batch: int) -> int:
    """Passes over so many rows with ratings, unless the settings say."""
    fewer = _USUAL_MINIBATCHES * batch / max(rows, 1)
    return int(min(round(_EPOCHS * max(fewer, 1.0) ** _POWER_OF_FEWER), _MOST_EPOCHS))


def rate_of_epoch(settings: CFNSettings, epoch: int) -> float:
    """What the first learning rate is multiplied by: it falls linearly to nothing, unless its decay is given."""
    if settings.learning_rate_decay is not None:
        return 1 / (1 + epoch * settings.learning_rate_decay)
    epochs = settings.epochs or _EPOCHS
    return min(_WARM_UP * epoch, max(1 - (epoch - 1) / epochs, 0.5 / epochs))


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
    noise = EpochNoise.drawn(rows, settings, *seed)
    filled = np.flatnonzero(rows.counts)  # a row without ratings has nothing to learn from
    order = filled[np.argsort(draws_of(seed_of(*seed, _ORDER_DRAW), rows.portion.row_keys[filled]), kind="stable")]
    minibatches = -(-len(order) // settings.batch)
    # No learning rate has to answer for the very first loss: it is that of random weights.
    judged_from = max(min(_ENOUGH_MINIBATCHES, minibatches) - 1, 1 if epoch == 1 else 0)
    so_far = LossSoFar(max_loss, judged_from)
    for some in lay_out(rows, order, settings.batch, noise, engine.cuts(rows)):
        engine.train(some, learning_rate, so_far)
        if so_far.diverged:
            raise StepTooLarge(phase, epoch, _told_loss(so_far.lost / max(so_far.ratings, 1), max_loss))
    return so_far.lost / max(rows.ratings, 1)


def _loss_of_zeros(rows: ScaledRows, settings: CFNSettings) -> float:
    """The most that predicting zero, which is every row's mean, may cost: the mean of a rating, in scaled ratings.

    First weights are random and cost something even where all ratings are alike, so it is never taken to be nothing.
    """
    values = rows.known.values
    squared = total(rows.portion.exchange, float(values @ values))[0] / max(rows.ratings, 1)
    return max(settings.alpha, settings.beta) * max(squared, 0.1)


def _told_loss(loss: float, max_loss: float) -> str:
    return f"the loss is {loss:.3g}, where predicting every row's mean costs {max_loss / _RAN_AWAY:.3g}"


def _watched(validation: ValidationPart, rows: ScaledRows, most: int | None) -> tuple[Longs, ValidationPart]:
    """The rows that have validation ratings, ascending, and these ratings, or so many rows that they are about `most`.

    All processes have the same rows.
    """
    exchange = rows.portion.exchange
    asked = np.zeros(rows.known.rows, np.uint8)
    asked[validation.entry_rows] = 1
    if most is not None:
        share = most / max(total(exchange, len(validation.ratings))[0], 1.0)
        asked[uniform_draws(seed_of(_WATCHED_DRAW), rows.portion.row_keys) >= share] = 0
    chosen = np.flatnonzero(exchange.max_(asked))
    at = np.flatnonzero(np.isin(validation.entry_rows, chosen))
    return chosen, ValidationPart(validation.entry_rows[at], validation.entry_columns[at], validation.ratings[at])


def _rmse(
    network: CFNetwork, scale: float, rows: ScaledRows, scaling: Scaling, chosen: Longs, part: ValidationPart
) -> float:
    """Of ratings in the chosen rows."""
    places = np.searchsorted(chosen, part.entry_rows)
    outputs = outputs_at(network, scale, rows, chosen, places, part.entry_columns)
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
    outputs = outputs_at(network, scale, rows, chosen, places, some.indices)
    with np.errstate(all="ignore"):
        squares = float(np.sum((outputs - some.values) ** 2, dtype=np.float64))
    squares, count = total(rows.portion.exchange, squares, len(outputs))
    loss = max(settings.alpha, settings.beta) * squares / max(count, 1)
    if not loss <= max_loss:
        raise StepTooLarge(state.phase, state.epoch, _told_loss(loss, max_loss))


# How well a decoder predicts


def after_refit(rmse: float, settings: CFNSettings) -> float:
    """The expected RMSE of the saved model, which is trained on the validation ratings, too."""
    return rmse * (1 - settings.validation) ** _LEARNING_CURVE if settings.refit else rmse


@one_blas_thread()
def judged_by_halves(
    first: DecoderFit, learned: Learned, validation: ValidationPart, settings: CFNSettings, most: int | None = None
) -> tuple[Floats, IntervalCalibration, float, tuple[float, float]]:
    """Predictions (n,) of validation ratings, clipped to the scale, the spread of their errors, and their RMSE; and the
    gate between the network and biases with slopes, which is learned from them.

    Each half of the columns is predicted by kernel parameters that the other half has taught (cross-fitting), with all
    that a saved model has: errors are those of unseen ratings. Where there are more than about `most`, those of some
    columns are enough; then the predictions are of these alone.
    """
    scaling, portion, exchange = first.scaling, first.portion, first.portion.exchange
    share = 1.0 if most is None else most / max(total(exchange, len(validation.ratings))[0], 1.0)
    chosen = uniform_draws(seed_of(settings.seed, _COLUMN_DRAW), portion.column_keys) < share
    query = np.flatnonzero(chosen[validation.entry_columns])
    rows, columns = validation.entry_rows[query].astype(np.int32), validation.entry_columns[query]
    known = KnownRatings(first.rows, first.by_column, AllColumns(first.row_counts, 0.0))
    near = first.neighbours(learned.amplitudes, settings)

    def predictor_of(amplitudes: KernelParams, solved: ColumnWeights) -> UserRows:
        return UserRows(
            replace(first.network, output=replace(first.network.output)),  # its output weights are replaced
            scaling,
            known,
            first.biases,
            Decoder(first.space, amplitudes, solved, IntervalCalibration.unknown(), near),
            settings,
            first.row_features,
            first.column_features,
            ReadRows(first.codes, first.left_out),
        )

    predicted, halves = np.empty(len(rows), np.float32), halves_of(settings.seed, portion)
    for half, amplitudes in enumerate(learned.crossed):
        solved = first.solve(amplitudes, only=chosen & (halves == half))
        at = np.flatnonzero(halves[columns] == half)
        prediction = predictor_of(amplitudes, solved).entries(rows[at], columns[at])
        predicted[at] = np.clip(prediction, scaling.scale.low, scaling.scale.high)
    # Variances are those of the model that is saved: how large they are depends on amplitudes more than errors do.
    posterior = predictor_of(learned.amplitudes, solved).uncertain(rows, columns)
    counts, others = first.row_counts[rows], first.by_column.counts()[columns]
    equal = (0.0, 0.0)  # ratings with which biases with slopes count as much
    if first.biases.slopes is not None:
        by_biases = np.clip(first.biases.at_pairs(rows, columns), scaling.scale.low, scaling.scale.high)
        equal = best_halves(predicted, by_biases, validation.ratings[query], counts, others, exchange)
        predicted = by_biases + gate(equal, counts, others) * (predicted - by_biases)
    variances = whole_variance(posterior, learned.amplitudes, first.biases, scaling, counts)
    own: tuple[Floats, Floats] = predicted - validation.ratings[query], across(predicted, scaling.scale)
    errors, places = (np.concatenate(exchange.gather(part)) for part in own)
    counts, others = (np.concatenate(exchange.gather(part)) for part in (counts, others))
    variances = np.concatenate(exchange.gather(variances))
    spread = IntervalCalibration.fit(np.asarray(errors / scaling.unit, np.float32), variances, counts, others, places)
    return predicted, spread, float(np.sqrt(np.mean(errors**2, dtype=np.float64))), equal
