"""Rows as the network reads them, made by hand, and what is drawn by: all columns in one process."""

import numpy as np
import numpy.typing as npt

from cofill import CFN
from cofill.config import LossSettings
from cofill.data.sparse import SparseRows
from cofill.models.cfn.fit import TrainingEngine
from cofill.models.cfn.kernels import Entries
from cofill.models.cfn.scaling import ScaledRows
from cofill.models.cfn.sgd import EpochNoise, Minibatches, lay_out
from cofill.models.rng import Portion

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]


def as_read(
    known: SparseRows,
    features: Floats | None = None,
    *,
    input_scale: Floats | None = None,
    presence: float = 0.0,
    marks_empty: bool = False,
    portion: Portion | None = None,
) -> ScaledRows:
    """Scaled rows; without more they have no features, and an input scale of 1."""
    return ScaledRows(
        known,
        np.ones(known.rows, np.float32) if input_scale is None else input_scale,
        np.zeros((known.rows, 0), np.float32) if features is None else features,
        presence,
        marks_empty,
        known.counts() if portion is None else portion.row_counts(known),
        Portion.of(known) if portion is None else portion,
        (-1.0, 1.0),
    )


def no_noise(rows: ScaledRows) -> EpochNoise:
    return EpochNoise.drawn(rows, LossSettings(noise_ratio=0.0, cold_ratio=0.0), 0)


def gather(rows: ScaledRows, chosen: Longs, noise: EpochNoise | None = None, cuts: Longs | None = None) -> Minibatches:
    """The chosen rows as one minibatch."""
    whole = np.array([0, rows.known.columns])
    (found,) = lay_out(rows, chosen, len(chosen), noise or no_noise(rows), whole if cuts is None else cuts)
    return found


def entries_of(minibatch: Minibatches) -> Entries:
    """Of one minibatch in one shard."""
    (entries,) = minibatch.shards
    return entries


def step(engine: TrainingEngine, minibatch: Minibatches, learning_rate: float) -> float:
    """Move the weights; returns the loss, summed over entries."""
    return float(engine.train(minibatch, learning_rate).sum())


def portion_of(model: CFN) -> Portion:
    """By which the draws of a model with one network were made."""
    users, items = model.users.keys(), model.items.keys()
    row_keys, column_keys = (users, items) if model.orientation == "user" else (items, users)
    return Portion(row_keys, column_keys, len(column_keys))
