"""The decoder of a network that has just been trained: its directions, its amplitudes, the weights of its columns."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.cfn.fold_in import spread_of_weights
from cofill.models.cfn.leave_one_out import LeaveOneOut
from cofill.models.cfn.network import CFNetwork, encode_rows
from cofill.models.cfn.scaling import Scaling
from cofill.models.cfn.training import ValidationPart
from cofill.models.decoder.amplitudes import HeldOut, learn
from cofill.models.decoder.intervals import Spread
from cofill.models.decoder.kernel import Amplitudes, CodeSpace, Expected, Posterior, local_kernel
from cofill.models.decoder.neighbours import Neighbours
from cofill.models.decoder.solving import DecodedColumns, solve_columns
from cofill.models.means import FittedMeans

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

_ROWS_AT_ONCE = 1024
# Numbers of the table of nearest rows: with very many rows each has fewer.
_MOST_NEIGHBOURS = 20_000_000
# Columns from which it is learned how far to believe features alone, and the most ratings of each.
_EXAMPLES = 400
_LONGEST_EXAMPLE = 500
_MOST_TRUST = 0.95


def first_amplitudes(biases: FittedMeans, scaling: Scaling, settings: CFNSettings) -> Amplitudes:
    """Where learning begins, and what is taken where there are no validation ratings to learn from."""
    square = scaling.unit**2
    return Amplitudes.at_first(
        max(biases.noise / square, 1e-4), biases.column_variance / square, local=settings.neighbours > 0
    )


def code_space(
    network: CFNetwork, by_column: SparseRows, column_features: SideFeatures, codes: Floats, counts: Longs
) -> CodeSpace:
    """From the trained output weights, and from the codes (rows, width) of rows with so many ratings (rows,)."""
    spread = spread_of_weights(
        network.output.weight.detach().numpy(),
        network.output.bias.detach().numpy(),
        by_column.counts(),
        column_features.trained,
    )
    rated = counts > 0
    centre = codes[rated].mean(0) if rated.any() else np.zeros(codes.shape[1], np.float32)
    return CodeSpace(spread.mean, spread.by_features, spread.factor.astype(np.float32), centre)


def expected_of_columns(
    space: CodeSpace, biases: FittedMeans, scaling: Scaling, features: Floats
) -> tuple[Floats, Floats]:
    """Weights (n, width + 1) and biases (n,), scaled, of columns of which the features (n, Q) are known."""
    return space.expected(features), biases.by_column_features.expected(features)[:, 0] / np.float32(scaling.unit)


def encode_trained(network: CFNetwork, scaling: Scaling, rows: SparseRows, features: Floats) -> Floats:
    """Codes (rows, width) of the rows that were trained on."""
    codes = np.empty((rows.rows, network.width), np.float32)
    for first in range(0, rows.rows, _ROWS_AT_ONCE):
        chosen = np.arange(first, min(first + _ROWS_AT_ONCE, rows.rows))
        part = scaling.down_with(rows.take(chosen), scaling.means[chosen], features[chosen])
        codes[chosen] = encode_rows(network, part)
    return codes


class FirstDecoder:
    """Of the ratings that a network was trained on."""

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        biases: FittedMeans,
        rows: SparseRows,
        by_column: SparseRows,
        row_features: SideFeatures,
        column_features: SideFeatures,
    ) -> None:
        self._network, self._scaling, self._biases = network, scaling, biases
        self._rows, self._by_column = rows, by_column
        self._row_features, self._column_features = row_features, column_features
        self._codes = encode_trained(network, scaling, rows, row_features.trained)
        self.space = code_space(network, by_column, column_features, self._codes, rows.counts())
        self._left_out = LeaveOneOut(network, scaling, rows, row_features)
        self._scaled = scaling.down_values(by_column.values, np.zeros(1, np.float32))

    def learn(self, validation: ValidationPart, settings: CFNSettings) -> tuple[Amplitudes, Spread, float]:
        """The amplitudes that predict validation ratings best, how far off they are, and the RMSE of doing so."""
        scaling = self._scaling
        rows, columns = validation.entry_rows, validation.entry_columns
        held_out = HeldOut(rows, columns, scaling.down_values(validation.ratings, scaling.means[rows]))
        learned = learn(
            self._by_column,
            self._scaled,
            self.space,
            first_amplitudes(self._biases, scaling, settings),
            self._left_out,
            held_out,
            self._codes,
            self._rows.counts(),
            expected_of_columns(self.space, self._biases, scaling, self._column_features.trained),
            seed=settings.seed,
        )
        at, found, uncertain = learned.asked, learned.predicted, learned.variances
        if not len(at):  # no column has ratings in both parts: of such columns the rows' deviations are all there is
            at, found = np.arange(len(rows)), np.zeros(len(rows), np.float32)
            uncertain = np.full(len(rows), learned.amplitudes.bias, np.float32)
        predicted = scaling.up(found, scaling.means[rows[at]])
        errors = predicted - validation.ratings[at]
        amplitudes = learned.amplitudes
        counts, others = self._rows.counts()[rows[at]], self._by_column.counts()[columns[at]]
        variances = whole_variance(uncertain.astype(np.float64), amplitudes, self._biases, scaling, counts)
        spread = Spread.fit(
            errors / np.float32(scaling.unit), variances, counts, others, across(predicted, scaling.scale)
        )
        if self._row_features.width:
            amplitudes = replace(amplitudes, features=self._worth_of_features(amplitudes, validation))
        return amplitudes, spread, float(np.sqrt(np.mean(errors**2, dtype=np.float64)))

    def solve(self, amplitudes: Amplitudes, share_done: Callable[[float], None] | None = None) -> DecodedColumns:
        """The weights of all columns."""

        def expected(columns: Longs) -> tuple[Floats, Floats]:
            return expected_of_columns(self.space, self._biases, self._scaling, self._column_features.trained[columns])

        return solve_columns(
            self._by_column, self._scaled, self.space, amplitudes, self._left_out, expected, share_done
        )

    def neighbours(self, amplitudes: Amplitudes, settings: CFNSettings) -> Neighbours | None:
        """The table of nearest rows, if there is a local kernel."""
        if not amplitudes.local:
            return None
        rated = self._rows.counts() > 0
        directions = self.space.directions(self._codes)
        directions[~rated] = 0
        most = min(settings.neighbours, max(_MOST_NEIGHBOURS // max(len(directions), 1), 10))
        return Neighbours.of(directions, most, rated)

    def _worth_of_features(self, amplitudes: Amplitudes, validation: ValidationPart) -> float:
        """How many ratings the features of a row are worth: by what they alone tell of validation ratings.

        Of rows that are read as if they had no ratings, a trust of r = features / (features + half) predicts best.
        """
        scaling, space = self._scaling, self.space
        features = self._row_features
        nothing = SparseRows(np.zeros(self._rows.rows + 1, np.int64), *_no_entries(), self._rows.columns)
        means = (
            np.full(self._rows.rows, scaling.overall, np.float32) + scaling.by_features.expected(features.trained)[:, 0]
        )
        cold = encode_rows(self._network, scaling.down_with(nothing, means, features.trained))
        counts, described = self._by_column.counts(), features.trained_described
        order = np.argsort(validation.entry_columns, kind="stable")
        columns, starts = np.unique(validation.entry_columns[order], return_index=True)
        weights, biases = expected_of_columns(space, self._biases, scaling, self._column_features.trained)
        products = squares = 0.0
        usable = np.flatnonzero((counts[columns] > 0) & (counts[columns] <= _LONGEST_EXAMPLE))
        for place in usable[:: max(1, len(usable) // _EXAMPLES)].tolist():
            column = int(columns[place])
            end = starts[place + 1] if place + 1 < len(starts) else len(order)
            asked = order[starts[place] : end]
            asked = asked[described[validation.entry_rows[asked]]]
            rated, ratings = self._by_column.row(column)
            without = self._left_out(rated, np.full(len(rated), column, np.int32), ratings)
            seen = space.seen(without.codes.numpy(), amplitudes.trust(without.counts, without.described))
            known = scaling.down_values(ratings, without.means)
            about = Expected(weights[column], float(biases[column]))
            found = Posterior(space, amplitudes, seen, known, about).decoded()
            rows = validation.entry_rows[asked]
            codes = cold[rows]
            directions = space.directions(codes)
            said = codes @ found.taste[:-1] + found.taste[-1] + directions @ found.turn
            if amplitudes.local:
                said += local_kernel(directions @ seen.directions.T) @ found.pull
            left = scaling.down_values(validation.ratings[asked], means[rows]) - found.bias
            products += float(said @ left)
            squares += float(said @ said)
        trust = min(max(products / squares, 0.0), _MOST_TRUST) if squares > 0 else 0.0
        return amplitudes.half * trust / (1 - trust)


def whole_variance(
    posterior: Doubles, amplitudes: Amplitudes, biases: FittedMeans, scaling: Scaling, counts: Longs
) -> Doubles:
    """(n,) scaled: of ratings, from what is uncertain of the column, of the row's deviation, and the noise."""
    of_row = biases.noise / scaling.unit**2 / (counts + max(biases.row_damping, 1e-6))
    variance: Doubles = posterior + of_row + amplitudes.noise
    return variance


def across(ratings: Floats, scale: Scale) -> Floats:
    """Ratings -> from -1 to 1 across the scale."""
    low, high = scale
    return np.asarray((ratings - (high + low) / 2) / ((high - low) / 2), np.float32)


def _no_entries() -> tuple[npt.NDArray[np.int32], Floats]:
    return np.empty(0, np.int32), np.empty(0, np.float32)
