"""How well a decoder predicts validation ratings, by kernel parameters that these ratings did not choose.

Columns are in two halves, and each is predicted by what the other has taught (cross-fitting). The errors are then
those of unseen ratings: intervals are calibrated on them, and their RMSE is reported.
"""

from dataclasses import replace

import numpy as np

from cofill.arrays import Floats
from cofill.config import CFNSettings
from cofill.exchange import total
from cofill.models.cfn.codes import ReadRows
from cofill.models.cfn.decoding import Decoder
from cofill.models.cfn.gp import Amplitudes, ColumnWeights
from cofill.models.cfn.gp_batch import Spread, across, whole_variance
from cofill.models.cfn.gp_fit import FirstDecoder, Learned, drawn, halves_of
from cofill.models.cfn.predictor import UserRows
from cofill.models.cfn.training import ValidationPart
from cofill.models.observed import AllColumns, KnownRatings
from cofill.models.rng import seed_of
from cofill.threads import one_blas_thread

# The RMSE of unseen ratings falls with this power of the number of ratings. Training on a tenth less made it 0.55 %
# (MovieLens-1M), 0.62 % (Douban), 0.67 % (MovieTweetings) and 0.68 % (MovieLens-100K) larger.
_LEARNING_CURVE = 0.06
_COLUMN_DRAW = 0x10D6E
ENOUGH = 50_000
"""Validation ratings, for an RMSE that is right to a third of a percent."""


def after_refit(rmse: float, settings: CFNSettings) -> float:
    """What the RMSE of validation ratings tells of the model that is saved, which is trained on these, too."""
    return rmse * (1 - settings.validation) ** _LEARNING_CURVE if settings.refit else rmse


@one_blas_thread()
def judged_by_halves(
    first: FirstDecoder, learned: Learned, validation: ValidationPart, settings: CFNSettings, most: int | None = None
) -> tuple[Floats, Spread, float]:
    """Predictions (n,) of validation ratings, clipped to the scale, the spread of their errors, and their RMSE.

    Each half of the columns is predicted by what the other half has taught, with all that a saved model has. Where
    there are more than about `most`, those of some columns are enough; then the predictions are of these alone.
    """
    scaling, portion, exchange = first.scaling, first.portion, first.portion.exchange
    share = 1.0 if most is None else most / max(total(exchange, len(validation.ratings))[0], 1.0)
    chosen = drawn(seed_of(settings.seed, _COLUMN_DRAW), portion.column_keys) < share
    asked = np.flatnonzero(chosen[validation.entry_columns])
    rows, columns = validation.entry_rows[asked].astype(np.int32), validation.entry_columns[asked]
    known = KnownRatings(first.rows, first.by_column, AllColumns(first.row_counts, 0.0))
    near = first.neighbours(learned.amplitudes, settings)

    def predictor_of(amplitudes: Amplitudes, solved: ColumnWeights) -> UserRows:
        return UserRows(
            replace(first.network, output=replace(first.network.output)),  # its output weights are replaced
            scaling,
            known,
            first.biases,
            Decoder(first.space, amplitudes, solved, Spread.unknown(), near),
            settings,
            first.row_features,
            first.column_features,
            ReadRows(first.codes, first.left_out),
        )

    predicted, halves = np.empty(len(rows), np.float32), halves_of(settings.seed, portion)
    for half, amplitudes in enumerate(learned.crossed):
        solved = first.solve(amplitudes, only=chosen & (halves == half))
        at = np.flatnonzero(halves[columns] == half)
        said = predictor_of(amplitudes, solved).entries(rows[at], columns[at])
        predicted[at] = np.clip(said, scaling.scale.low, scaling.scale.high)
    # Variances are those of the model that is saved: how large they are depends on amplitudes more than errors do.
    posterior = predictor_of(learned.amplitudes, solved).uncertain(rows, columns)
    counts, others = first.row_counts[rows], first.by_column.counts()[columns]
    variances = whole_variance(posterior, learned.amplitudes, first.biases, scaling, counts)
    told: tuple[Floats, Floats] = predicted - validation.ratings[asked], across(predicted, scaling.scale)
    errors, places = (np.concatenate(exchange.gather(part)) for part in told)
    counts, others = (np.concatenate(exchange.gather(part)) for part in (counts, others))
    variances = np.concatenate(exchange.gather(variances))
    spread = Spread.fit(np.asarray(errors / scaling.unit, np.float32), variances, counts, others, places)
    return predicted, spread, float(np.sqrt(np.mean(errors**2, dtype=np.float64)))
