"""From the ratings of a matrix to a trained network: a training without validation ratings, then one on all.

How large a step may be. Along the input weights of a row, the curvature of the loss grows with the number of its
ratings, whose errors are summed in its code, and with the number of rows of the minibatch that share a column, whose
steps then add up instead of averaging out. A row with n ratings on columns that 1 + B d rows of a minibatch of B rows
share (d: density) is pulled by

    m = n (1 + B d) / B

ratings. The largest step that does not diverge falls with m: on ratings made of five tastes and noise from 0.21 at 125
to 0.105 at 364, 0.026 at 1,360 and 0.0066 at 16,600. Short rows do not only bear larger steps, they also need them: see
`rate_factor`. A training that diverges nevertheless begins anew with a lower rate.
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
from cofill.data.sparse import AllColumns, KnownRatings, SparseRows
from cofill.errors import TrainingDivergedError
from cofill.exchange import ALONE, Exchange, total
from cofill.extras import require
from cofill.memory import give_back_large_arrays
from cofill.models.cfn.blend import best_halves, gate
from cofill.models.cfn.checkpoint import Checkpoint, TrainingState
from cofill.models.cfn.codes import ReadRows
from cofill.models.cfn.gp import ColumnWeights, IntervalCalibration, KernelParams, interval_inputs
from cofill.models.cfn.gp_fit import DecoderFit, Learned, first_amplitudes, halves_of
from cofill.models.cfn.network import CFNetwork, Weights, outputs_at
from cofill.models.cfn.predictor import Decoder, UserRows
from cofill.models.cfn.scaling import Matrix, ScaledRows, Scaling, TrainingPart, ValidationPart, hold_out
from cofill.models.cfn.sgd import EpochNoise, FusedEngine, lay_out, shard_count, stack_on
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
    part: TrainingPart  # the last one that it was trained on
    amplitudes: KernelParams | None  # of the decoder "process"
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
    matrix: Matrix,
    settings: CFNSettings,
    *,
    held_out: Longs | None = None,
    checkpoint: Path | Checkpoint | None = None,
    resume: bool = False,
    progress: Progress = unseen,
    new_engine: NewEngine = make_engine,
) -> FitResult:
    """Train on the known ratings of a matrix and the side features of its rows and columns, where there are any.

    With a validation part, a first run on the rest finds the amplitudes of the decoder, or, with the decoder
    "network", the number of epochs. Then, if `refit`, a second run of that length uses every rating. With a
    checkpoint, either run can be killed and resumed; its file is left for the caller to remove once the model is safe.
    Several processes have one checkpoint together.

    If this process has some of the columns only, the portion of the matrix has the exchange with those that have the
    others. All of these do the same, and leave behind what belongs to their columns.

    `held_out` are the places of validation ratings among all, row by row, where another network is to be judged by
    the same; otherwise they are drawn.

    A run that fails for its learning rate begins anew with a lower one, and the second run takes what the first has
    found.
    """
    require_engine(settings)
    rows, portion, process = matrix.known.trained, matrix.portion, settings.decoder == "process"
    if portion.columns * settings.hidden[0] > _MANY_WEIGHTS:
        give_back_large_arrays()
    if isinstance(checkpoint, Path):
        checkpoint = Checkpoint(checkpoint, run=_run_name(matrix, settings), seconds=settings.checkpoint_seconds)
    resumed = checkpoint.load() if checkpoint is not None and resume else None
    if checkpoint is not None and resumed is None:
        checkpoint.remove()  # of an earlier run
    weights, state = (resumed[0], TrainingState.from_dict(resumed[1])) if resumed else (None, TrainingState("search"))
    epochs = settings.epochs or usual_epochs(int((portion.row_counts(rows) > 0).sum()), settings.batch)
    first = (_following_density(settings, rows, portion) if process else settings).changed({"epochs": epochs})

    def train(part: TrainingPart, epochs: int, validation: ValidationPart | None = None) -> CFNetwork:
        run = Training(part.scaled(), part.scaling, first, state, checkpoint, progress, new_engine)
        return run.trained(epochs, weights, validation)

    judging = held_out is not None
    if held_out is None:
        held_out = validation_entries(rows, settings, portion)
    validates = total(portion.exchange, len(held_out))[0] > 0
    if not validates and state.phase == "search":
        state.phase, state.best_epoch = "train", epochs
    if state.phase == "search":
        rest, validation = hold_out(rows, held_out)
        part = TrainingPart.of(matrix, rest, rest.transpose(), settings)
        network, weights = train(part, epochs, validation), None
        if process:
            reached = sum(_share_of("search", settings))
            progress(Step(LEARN, 0.0, 1.0, reached))
            _learn_decoder(network, part, validation, state, judging=judging)
            progress(Step(LEARN, 1.0, 1.0, reached))
        if settings.refit:
            del network, part, rest, validation
            state.phase, state.epoch = "train", 0
    part = TrainingPart.of(matrix, rows, matrix.known.trained_columns, settings)
    if state.phase == "train":
        network = train(part, state.best_epoch)
    if judging and checkpoint is not None:
        checkpoint.save(network.weights(), None, state.as_dict())  # while another network is trained
    amplitudes = None
    if process:
        known = state.amplitudes
        amplitudes = usual_amplitudes(part) if known is None else KernelParams.from_array(np.array(known))
    spread = IntervalCalibration.from_array(np.array(state.spread)) if state.spread else IntervalCalibration.unknown()
    return FitResult(
        network=network,
        part=part,
        amplitudes=amplitudes,
        spread=spread,
        history=state.history,
        epochs=state.best_epoch,
        validation_rmse=state.best_rmse if validates else None,
        judged=state.judged,
    )


def _learn_decoder(
    network: CFNetwork, part: TrainingPart, validation: ValidationPart, state: TrainingState, *, judging: bool
) -> None:
    """Learn the decoder by what it says of validation ratings, into the state of the training."""
    decoder, settings = DecoderFit(network, part), part.scaling.settings
    if settings.refit:  # the codes are read and the space is known, and another network is trained
        network.output.weight = np.empty((0, network.width), np.float32)
    learned = decoder.learn(validation)
    most = None if judging else _ENOUGH_TO_JUDGE
    predicted, spread, rmse, halves = judged_by_halves(decoder, learned, validation, most)
    state.best_rmse = after_refit(rmse, settings)
    amplitudes = replace(learned.amplitudes, row_gate=halves[0], column_gate=halves[1])
    state.amplitudes, state.spread = (found.as_array().tolist() for found in (amplitudes, spread))
    state.judged = predicted if judging else None


def usual_amplitudes(part: TrainingPart) -> KernelParams:
    """Where there are no validation ratings to learn from: between those that MovieLens-100K, MovieLens-1M, Douban and
    MovieTweetings teach, on the side of caution. The first ones, from which learning begins, believe too little.
    """
    first = first_amplitudes(part)
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


def _run_name(matrix: Matrix, settings: CFNSettings) -> str:
    """A name for data and settings together; how often to save does not count."""
    digest, rows = hashlib.sha256(), matrix.known.trained
    features = matrix.row_features.trained, matrix.column_features.trained
    for array in (rows.indptr, rows.indices, rows.values, *features):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    relevant = settings.model_dump(mode="json", exclude={"checkpoint_seconds"}) | {"threads": shard_count(settings)}
    digest.update(json.dumps([relevant, list(matrix.scale)], sort_keys=True).encode())
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


@dataclass
class Training:
    """One run over some rows at one learning rate; `state` says where it stands, and is moved on.

    A learning rate that is too large for the data is a `StepTooLarge`.
    """

    rows: ScaledRows
    scaling: Scaling
    settings: CFNSettings
    state: TrainingState
    checkpoint: Checkpoint | None = None
    progress: Progress = unseen
    new_engine: NewEngine = make_engine

    def trained(
        self, epochs: int, weights: Weights | None = None, validation: ValidationPart | None = None
    ) -> CFNetwork:
        """Train from the weights of a checkpoint, or from new ones; with every lower rate from new ones.

        No checkpoint is needed at that moment: a run that is resumed from before it fails in the same way once more.
        """
        settings, state = self.settings, self.state
        while True:
            share = 1 / _LOWERED_BY**state.lowered
            lower = {"learning_rate": settings.learning_rate * share}
            if settings.pretrain:
                lower["inner_learning_rate"] = settings.inner_learning_rate * share
            run = replace(self, settings=settings.changed(lower))
            try:
                network = run.network(weights)
                run.epochs(network, epochs, validation)
                _forget_untrained_columns(network, self.rows.known)
                return network
            except StepTooLarge as failure:
                rate = lower["learning_rate"]
                if state.lowered == _MOST_LOWERINGS:
                    raise _diverged(failure, settings, rate, self.rows) from None
                state.begin_phase_anew()
                weights = None
                note = (
                    f"training diverged in epoch {failure.epoch} with a learning rate of {rate:.3g}; "
                    f"begins anew with {rate / _LOWERED_BY:.3g}"
                )
                self.progress(Step(_NAMES[failure.phase], 0, 1, 0.0, note=note))

    def network(self, weights: Weights | None = None) -> CFNetwork:
        """A network with these weights, or with its first ones."""
        network = new_network(self.rows, self.settings, self.state.phase)
        if weights is not None:
            network.take(weights)
        elif self.settings.pretrain:
            self._pretrain(network)
        return network

    def _pretrain(self, stack: CFNetwork) -> None:
        """Train its layers pair by pair. The epochs of the outermost pair join the history."""
        settings, epochs = self.settings, self.settings.pretrain_epochs
        alone = settings.changed({"hidden": settings.hidden[:1], "pretrain": False, "epochs": epochs})
        outer = new_network(self.rows, alone, self.state.phase)
        run = Training(self.rows, self.scaling, alone, TrainingState("pretrain"), progress=self.progress)
        run.epochs(outer, epochs)
        self.state.history.extend(run.state.history)
        stack_on(outer, stack, self.rows, settings, epoch_seed(settings, "pretrain", epochs + 1))

    def epochs(self, network: CFNetwork, epochs: int, validation: ValidationPart | None = None) -> None:
        """Train from where the state stands to the last of `epochs`.

        With the decoder "network" and a validation part, it ends when that has not become better for some epochs
        (patience). The best weights are left in the network then, unless it is trained again on everything and only
        the number of epochs matters. The decoder "process" takes what its amplitudes say is of use, and that becomes
        more with every epoch. So all of them are run, and of its validation part only some are looked at.
        """
        settings, state, checkpoint, exchange = self.settings, self.state, self.checkpoint, self.rows.portion.exchange
        stops = validation is not None and settings.decoder == "network"
        keep_best = stops and not settings.refit
        best = checkpoint.best_weights() if keep_best and state.epoch and checkpoint is not None else None
        watched = None if validation is None else self._watched(validation, None if stops else _ENOUGH_TO_WATCH)
        begin, length = _share_of(state.phase, settings)
        engine = self.new_engine(network, settings, exchange)
        first_rate = settings.learning_rate
        if engine.follows_gradient:  # and a step must not flip the weights
            first_rate = min(first_rate * rate_factor(self.rows, settings), 0.9 / max(settings.weight_decay, 1e-9))
        while state.epoch < epochs and not (stops and state.epoch - state.best_epoch >= settings.patience):
            epoch = state.epoch + 1
            started, exchanged = time.perf_counter(), exchange.seconds
            learning_rate = first_rate * rate_of_epoch(settings, epoch)
            loss = self._one_epoch(engine, epoch, learning_rate)
            seconds, exchanged = time.perf_counter() - started, exchange.seconds - exchanged
            rmse = None if watched is None else self._rmse(network, *watched)
            if rmse is not None and not isfinite(rmse):
                raise StepTooLarge(state.phase, epoch, f"the validation RMSE is {rmse:.3g}")
            record = EpochRecord(
                state.phase,
                epoch,
                loss,
                rmse,
                learning_rate,
                seconds,
                self.rows.ratings / max(seconds, 1e-9),
                state.lowered,
                workers=exchange.size,
                exchanging=exchanged / max(seconds, 1e-9),
            )
            state.epoch = epoch
            state.history.append(record)
            if rmse is not None and (not stops or rmse < state.best_rmse):
                state.best_epoch, state.best_rmse = epoch, rmse
                if keep_best:
                    best = best or {name: np.empty_like(weight) for name, weight in network.weights().items()}
                    for name, weight in network.weights().items():
                        best[name][:] = weight  # a third copy would be the most memory of a training
            if checkpoint is not None and checkpoint.due():
                checkpoint.save(network.weights(), best, state.as_dict())
            share, measures = begin + length * epoch / epochs, record.measures()
            self.progress(Step(_NAMES[state.phase], epoch, epochs, share, "epoch", measures, seconds))
        if validation is None:
            self._check_last_step(network)
        if best is not None:
            network.take(best)

    def _one_epoch(self, engine: TrainingEngine, epoch: int, learning_rate: float) -> float:
        """Every row once, in random order; returns the mean loss of a rating.

        All draws of an epoch come from its own seed, so an epoch is the same whatever happened before it.
        """
        rows, seed = self.rows, epoch_seed(self.settings, self.state.phase, epoch)
        noise = EpochNoise.drawn(rows, self.settings, *seed)
        filled = np.flatnonzero(rows.counts)  # a row without ratings has nothing to learn from
        order = filled[np.argsort(draws_of(seed_of(*seed, _ORDER_DRAW), rows.portion.row_keys[filled]), kind="stable")]
        # No learning rate has to answer for the very first loss: it is that of random weights.
        minibatches = -(-len(order) // self.settings.batch)
        judged_from = max(min(_ENOUGH_MINIBATCHES, minibatches) - 1, 1 if epoch == 1 else 0)
        lost, ratings = np.empty(0), np.empty(0)
        for some in lay_out(rows, order, self.settings.batch, noise, engine.cuts(rows)):
            lost = np.append(lost, engine.train(some, learning_rate))
            ratings = np.append(ratings, some.ratings)
            so_far = np.cumsum(lost) / np.maximum(np.cumsum(ratings), 1)
            self._check_loss(epoch, float(so_far[judged_from:].max(initial=0.0)))
        return float(lost.sum()) / max(rows.ratings, 1)

    def _check_loss(self, epoch: int, loss: float) -> None:
        """Of a rating, beside what predicting zero, which is every row's mean, may cost at most.

        First weights are random and cost something even where all ratings are alike: it is never taken to be nothing.
        """
        values = self.rows.known.values
        squared = total(self.rows.portion.exchange, float(values @ values))[0] / max(self.rows.ratings, 1)
        of_zeros = max(self.settings.alpha, self.settings.beta) * max(squared, 0.1)
        if not loss <= _RAN_AWAY * of_zeros:
            found = f"the loss is {loss:.3g}, where predicting every row's mean costs {of_zeros:.3g}"
            raise StepTooLarge(self.state.phase, epoch, found)

    def _check_last_step(self, network: CFNetwork) -> None:
        """The loss of a minibatch is that before its step: without validation, a look at some rows shows the last."""
        filled = np.flatnonzero(self.rows.counts)
        chosen = filled[np.argsort(self.rows.portion.row_keys[filled], kind="stable")][:_ROWS_LOOKED_AT]
        some = self.rows.take(chosen)
        places = np.repeat(np.arange(len(chosen)), some.known.counts())
        with np.errstate(all="ignore"):
            errors = outputs_at(network, some, places, some.known.indices) - some.known.values
            squares = float(np.sum(errors**2, dtype=np.float64))
        squares, count = total(self.rows.portion.exchange, squares, len(errors))
        self._check_loss(self.state.epoch, max(self.settings.alpha, self.settings.beta) * squares / max(count, 1))

    def _watched(self, validation: ValidationPart, most: int | None) -> tuple[Longs, ValidationPart]:
        """The rows that have validation ratings, ascending, and these ratings, or so many rows that they are about
        `most`. All processes have the same rows.
        """
        rows, exchange = self.rows, self.rows.portion.exchange
        asked = np.zeros(rows.known.rows, np.uint8)
        asked[validation.entry_rows] = 1
        if most is not None:
            share = most / max(total(exchange, len(validation.ratings))[0], 1.0)
            asked[uniform_draws(seed_of(_WATCHED_DRAW), rows.portion.row_keys) >= share] = 0
        chosen = np.flatnonzero(exchange.max_(asked))
        at = np.flatnonzero(np.isin(validation.entry_rows, chosen))
        return chosen, ValidationPart(validation.entry_rows[at], validation.entry_columns[at], validation.ratings[at])

    def _rmse(self, network: CFNetwork, chosen: Longs, part: ValidationPart) -> float:
        """Of ratings in the chosen rows."""
        scaling, places = self.scaling, np.searchsorted(chosen, part.entry_rows)
        outputs = outputs_at(network, self.rows.take(chosen), places, part.entry_columns)
        errors = scaling.up(outputs, scaling.means[part.entry_rows] + scaling.columns[part.entry_columns])
        errors -= part.ratings
        squares, count = total(self.rows.portion.exchange, np.sum(errors**2, dtype=np.float64), len(errors))
        return sqrt(squares / max(count, 1))


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


# How well a decoder predicts


def after_refit(rmse: float, settings: CFNSettings) -> float:
    """The expected RMSE of the saved model, which is trained on the validation ratings, too."""
    return rmse * (1 - settings.validation) ** _LEARNING_CURVE if settings.refit else rmse


@one_blas_thread()
def judged_by_halves(
    first: DecoderFit, learned: Learned, validation: ValidationPart, most: int | None = None
) -> tuple[Floats, IntervalCalibration, float, tuple[float, float]]:
    """Predictions (n,) of validation ratings, clipped to the scale, the spread of their errors, and their RMSE; and the
    gate between the network and biases with slopes, which is learned from them.

    Each half of the columns is predicted by kernel parameters that the other half has taught (cross-fitting), with all
    that a saved model has: errors are those of unseen ratings. Where there are more than about `most`, those of some
    columns are enough; then the predictions are of these alone.
    """
    scaling, portion, exchange, seed = first.scaling, first.portion, first.portion.exchange, first.settings.seed
    share = 1.0 if most is None else most / max(total(exchange, len(validation.ratings))[0], 1.0)
    chosen = uniform_draws(seed_of(seed, _COLUMN_DRAW), portion.column_keys) < share
    query = np.flatnonzero(chosen[validation.entry_columns])
    rows, columns = validation.entry_rows[query].astype(np.int32), validation.entry_columns[query]
    known = KnownRatings(first.rows, first.by_column, AllColumns(first.row_counts, 0.0))
    matrix, read = replace(first.part.matrix, known=known), ReadRows(first.codes, first.left_out)
    near = first.neighbours(learned.amplitudes)

    def predictor_of(amplitudes: KernelParams, solved: ColumnWeights) -> UserRows:
        network = replace(first.network, output=replace(first.network.output))  # its output weights are replaced
        decoder = Decoder(first.space, amplitudes, solved, IntervalCalibration.unknown(), near)
        return UserRows(network, matrix, first.biases, scaling, decoder, read)

    predicted, halves = np.empty(len(rows), np.float32), halves_of(seed, portion)
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
    noise, both = learned.amplitudes.noise, (counts, others)
    inputs = interval_inputs(posterior, noise, first.biases, scaling, both, predicted)
    errors = np.concatenate(exchange.gather(predicted - validation.ratings[query]))
    inputs = np.concatenate(exchange.gather(inputs))
    spread = IntervalCalibration.fit(np.asarray(errors / scaling.unit, np.float32), inputs)
    return predicted, spread, float(np.sqrt(np.mean(errors**2, dtype=np.float64))), equal
