"""From the ratings of a matrix to a trained network: a training without validation ratings, then one on all."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cofill.arrays import Floats, Longs
from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.exchange import total
from cofill.memory import give_back_large_arrays
from cofill.models.biases import FittedMeans
from cofill.models.cfn.checkpoint import Checkpoint, TrainingCheckpoint
from cofill.models.cfn.gp import Amplitudes
from cofill.models.cfn.gp_batch import Spread
from cofill.models.cfn.gp_fit import FirstDecoder, first_amplitudes
from cofill.models.cfn.judging import ENOUGH, after_refit, judged_by_halves
from cofill.models.cfn.network import CFNetwork, Weights
from cofill.models.cfn.pretrain import pretrained_network
from cofill.models.cfn.scaling import ScaledRows, Scaling
from cofill.models.cfn.sgd import shard_count
from cofill.models.cfn.training import (
    NewEngine,
    StepTooLarge,
    TrainingState,
    ValidationAnswers,
    ValidationPart,
    diverged,
    lower,
    make_engine,
    new_network,
    require_engine,
    run_epochs,
)
from cofill.models.history import EpochRecord, Report, TellLowered
from cofill.models.observed import KnownRatings
from cofill.models.rng import Portion, are_smallest, draws_of_entries, seed_of

# The share of known ratings for which the default weight decay was found: nine tenths of MovieLens-1M.
_USUAL_DENSITY = 0.0402
# Of a layer, from which on memory is dearer than the time that fresh pages take: a quarter more on MovieLens-100K.
_MANY_WEIGHTS = 10_000_000
_VALIDATION_DRAW = 0x56414C  # keeps the draw of the validation part apart from those of the epochs


@dataclass(frozen=True)
class Fitted:
    """What training leaves behind."""

    network: CFNetwork
    scaling: Scaling
    biases: FittedMeans | None  # with the decoder "process"
    amplitudes: Amplitudes | None  # of that decoder
    spread: Spread  # of its errors
    history: list[EpochRecord]
    epochs: int  # behind the weights that were kept
    validation_rmse: float | None
    judged: ValidationAnswers | None  # if ratings to judge by were given


def fit_matrix(
    known: KnownRatings,
    scale: Scale,
    settings: CFNSettings,
    *,
    row_features: SideFeatures,
    column_features: SideFeatures,
    portion: Portion | None = None,
    held_out: Longs | None = None,
    checkpoint_path: Path | None = None,
    checkpoint: TrainingCheckpoint | None = None,
    resume: bool = False,
    report: Report | None = None,
    tell_lowered: TellLowered | None = None,
    tell_decoder: Callable[[float], None] | None = None,
    lowers_rate: bool = True,
    new_engine: NewEngine = make_engine,
) -> Fitted:
    """Train on the known ratings of a matrix and the side features of its rows and columns, where there are any.

    With a validation part, a first run on the rest finds the amplitudes of the decoder, or, with the decoder
    "network", the number of epochs. Then, if `refit`, a second run of that length uses every rating. With a checkpoint
    path, either run can be killed and resumed; the file is left for the caller to remove once the model is safe.
    Several processes have one `checkpoint` together.

    `portion` tells the keys of rows and columns, and which processes have the other columns of the matrix, if this
    one has some of them only. All of these do the same, and leave behind what belongs to their columns.

    `held_out` are the places of validation ratings among all, row by row, where another network is to be judged by
    the same; otherwise they are drawn.

    A run that fails for its learning rate begins anew with a lower one, and the second run takes what the first has
    found. Without `lowers_rate`, which is for whoever searches for a learning rate, the first failure is an error.

    `tell_decoder` is called with the share that has been learned of the decoder.
    """
    require_engine(settings)
    rows, features = known.trained, row_features.trained
    if rows.columns * settings.hidden[0] > _MANY_WEIGHTS:
        give_back_large_arrays()
    portion = Portion.of(rows) if portion is None else portion
    process = settings.decoder == "process"
    resumed = None
    if checkpoint is None and checkpoint_path is not None:
        run = _run_name(rows, (features, column_features.trained), scale, settings)
        checkpoint = Checkpoint(checkpoint_path, run=run, seconds=settings.checkpoint_seconds)
    if checkpoint is not None:
        resumed = checkpoint.load() if resume else None
        if resumed is None:
            checkpoint.remove()  # of an earlier run, which nobody asked to go on with
    weights = resumed[0] if resumed else None
    state = TrainingState.from_dict(resumed[1]) if resumed else TrainingState("search")

    first = _following_density(settings, rows, portion) if process else settings

    def train(
        weights: Weights | None, rows: ScaledRows, scaling: Scaling, epochs: int, held_out: ValidationPart | None = None
    ) -> CFNetwork:
        """Train from the weights of a checkpoint, or from new ones; with every lower rate from new ones.

        No checkpoint is needed at that moment: a run that is resumed from before it fails in the same way once more.
        """
        while True:
            names = ["learning_rate", *(["inner_learning_rate"] if settings.pretrain else [])]
            slower = first.changed({name: getattr(first, name) * state.rate_share for name in names})
            try:
                if weights is None and settings.pretrain:
                    network = pretrained_network(rows, scaling, slower, state.phase, state.history, report)
                else:
                    network = new_network(rows, slower, state.phase)
                    if weights is not None:
                        network.take(weights)
                run_epochs(
                    network, rows, scaling, slower, state,
                    epochs=epochs, validation=held_out, checkpoint=checkpoint, report=report, new_engine=new_engine,
                )  # fmt: skip
                return network
            except StepTooLarge as failure:
                in_parts = settings.batch < int(np.count_nonzero(rows.counts))
                if not lowers_rate:
                    raise diverged(failure, settings, settings.learning_rate, in_parts=in_parts) from None
                lowered = lower(state, failure, settings, in_parts=in_parts)
                state.begin_phase_anew()
                weights = None
                if tell_lowered is not None:
                    tell_lowered(lowered)

    # Only cold rows in training teach the network what the mark means.
    marks_empty = settings.cold_ratio > 0 and features.shape[1] > 0

    def scaled_by(part: SparseRows, part_columns: SparseRows) -> tuple[Scaling, FittedMeans | None]:
        if not process:
            return Scaling.of_scale(part, scale, settings, features, portion=portion, marks_empty=marks_empty), None
        biases = FittedMeans(
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
        state.phase, state.best_epoch = "train", settings.epochs
    trained_on = rows
    if state.phase == "search":
        part, validation = _hold_out(rows, held_out)
        part_columns = part.transpose()
        scaling, biases = scaled_by(part, part_columns)
        scaled = scaling.down(part, features, portion)
        network = train(weights, scaled, scaling, settings.epochs, validation)
        weights = None
        trained_on = rows if settings.refit else part
        if biases is not None:
            _forget_untrained_columns(network, part)
            decoder = FirstDecoder(network, scaling, biases, part, part_columns, row_features, column_features, portion)
            if tell_decoder is not None:
                tell_decoder(0.0)
            learned = decoder.learn(validation, settings)
            said, spread, rmse = judged_by_halves(
                decoder, learned, validation, settings, most=None if judging else ENOUGH
            )
            state.best_rmse = after_refit(rmse, settings)
            state.amplitudes, state.spread = learned.amplitudes, spread.as_array().tolist()
            if judging:
                state.judged = said
            if tell_decoder is not None:
                tell_decoder(1.0)
            del decoder  # codes and sums of all rows, and what they were made of
        if settings.refit:
            del network, scaled, part, part_columns, validation
            state.phase, state.epoch = "train", 0
    scaling, biases = scaled_by(rows, known.trained_columns)
    if state.phase == "train":
        scaled = scaling.down(rows, features, portion)
        network = train(weights, scaled, scaling, state.best_epoch)
    _forget_untrained_columns(network, trained_on)
    if judging and checkpoint is not None:
        checkpoint.save(network.weights(), None, state.as_dict())  # while another network is trained
    amplitudes, judged = None, None
    if state.judged is not None:
        part, validation = _hold_out(rows, held_out)
        judged = ValidationAnswers(
            rows=validation.entry_rows,
            columns=validation.entry_columns,
            ratings=validation.ratings,
            predicted=state.judged,
            row_counts=part.counts()[validation.entry_rows],
            column_counts=np.bincount(part.indices, minlength=part.columns)[validation.entry_columns],
        )
    if biases is not None:
        amplitudes = state.amplitudes or _usual(first_amplitudes(biases, scaling, settings, column_features))
    return Fitted(
        network=network,
        scaling=scaling,
        biases=biases,
        amplitudes=amplitudes,
        spread=Spread.unknown() if state.spread is None else Spread.from_array(np.array(state.spread)),
        history=state.history,
        epochs=state.best_epoch,
        validation_rmse=state.best_rmse if validates else None,
        judged=judged,
    )


def _usual(first: Amplitudes) -> Amplitudes:
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


def _hold_out(rows: SparseRows, held_out: Longs) -> tuple[SparseRows, ValidationPart]:
    entry_rows = np.repeat(np.arange(rows.rows), rows.counts())
    validation = ValidationPart(entry_rows[held_out], rows.indices[held_out], rows.values[held_out])
    kept = np.ones(rows.nnz, np.bool_)
    kept[held_out] = False
    indptr = np.concatenate([[0], np.cumsum(np.bincount(entry_rows[kept], minlength=rows.rows))]).astype(np.int64)
    return SparseRows(indptr, rows.indices[kept], rows.values[kept], rows.columns), validation


def _forget_untrained_columns(network: CFNetwork, rows: SparseRows) -> None:
    """A column without ratings still has its first random weights: they mean nothing, so they say nothing."""
    untrained = np.bincount(rows.indices, minlength=rows.columns) == 0
    for weights in (network.input.weight, network.output.weight, network.output.bias):
        weights[untrained] = 0


def _run_name(rows: SparseRows, features: tuple[Floats, Floats], scale: Scale, settings: CFNSettings) -> str:
    """A name for data and settings together; what only says how often to save does not count."""
    digest = hashlib.sha256()
    for array in (rows.indptr, rows.indices, rows.values, *features):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    relevant = settings.model_dump(mode="json", exclude={"checkpoint_seconds"}) | {"threads": shard_count(settings)}
    digest.update(json.dumps([relevant, list(scale)], sort_keys=True).encode())
    return digest.hexdigest()
