"""The decoder of a network that has just been trained: its directions, its amplitudes, the weights of its columns."""

from collections.abc import Callable, Iterator
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
from cofill.models.cfn.scaling import Scaling, typical_length
from cofill.models.cfn.training import ValidationPart
from cofill.models.decoder.amplitudes import HeldOut, learn
from cofill.models.decoder.intervals import Spread
from cofill.models.decoder.kernel import SHORT, Amplitudes, CodeSpace, Decoded, Expected, Posterior, Seen, local_kernel
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
_EXAMPLE_SQUARES = 5_000_000  # each costs the square of its ratings
# Numbers of ratings of which it is learned how far to believe rows and columns that have so few.
LENGTHS = (1, 2, 3, 5, 8, 13, 20)


def first_amplitudes(
    biases: FittedMeans, scaling: Scaling, settings: CFNSettings, column_features: SideFeatures
) -> Amplitudes:
    """Where learning begins, and what is taken where there are no validation ratings to learn from."""
    square = scaling.unit**2
    return Amplitudes.at_first(
        max(biases.noise / square, 1e-4),
        biases.column_variance / square,
        local=settings.neighbours > 0,
        described=column_features.width > 0,
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
            first_amplitudes(self._biases, scaling, settings, self._column_features),
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
        amplitudes = self._with_trust(amplitudes, validation, settings.seed)
        amplitudes = self._with_short(amplitudes, held_out, settings.seed)
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

    def _with_short(self, amplitudes: Amplitudes, held_out: HeldOut, seed: int) -> Amplitudes:
        """With amplitudes for columns with few ratings, learned on columns of which all but a few are left out.

        Where most columns are short, they themselves have told.
        """
        if typical_length(self._by_column) <= 2 * SHORT:
            return amplitudes
        thinned, kept = thinned_rows(self._by_column, LENGTHS, seed)
        learned = learn(
            thinned,
            self._scaled[kept],
            self.space,
            amplitudes,
            self._left_out,
            held_out,
            self._codes,
            self._rows.counts(),
            expected_of_columns(self.space, self._biases, self._scaling, self._column_features.trained),
            seed=seed,
            names=("bias", "taste", "cosine", "local"),
        ).amplitudes
        # The table of nearest rows is there or not: it cannot be for some columns only.
        local = learned.local if amplitudes.local else 0.0
        return replace(amplitudes, short=(learned.bias, learned.taste, learned.cosine, local))

    def _with_trust(self, amplitudes: Amplitudes, validation: ValidationPart, seed: int) -> Amplitudes:
        """With a trust in the codes of rows with few ratings, and of rows with features alone, that predicts best.

        Rows of the training may all be long, and the network is trained on them. So they are read with few of their
        ratings, or with none, and a trust for each length is found by which validation ratings are predicted best: the
        prediction is linear in it. Through these goes a line: log odds of the trust by the logarithm of the length.
        """
        scaling, rows, features = self._scaling, self._rows, self._row_features
        described = features.trained_described
        views = []
        for length in LENGTHS if scaling.typical_length > 2 * SHORT else ():  # shorter rows have told by themselves
            thinned, _ = thinned_rows(rows, (length,), seed)
            codes, means = self._read_rows(thinned)
            views.append((length, codes, means, rows.counts() >= 2 * length))
        if features.width:
            codes, means = self._read_rows(thinned_rows(rows, (0,), seed)[0])
            views.append((0, codes, means, described))
        if not views:
            return amplitudes
        products, squares = np.zeros(len(views)), np.zeros(len(views))
        for found, seen, asked in self._examples(amplitudes, validation):
            for place, (_, codes, means, usable) in enumerate(views):
                at = asked[usable[validation.entry_rows[asked]]]
                entries = validation.entry_rows[at]
                own = codes[entries]
                directions = self.space.directions(own)
                said = own @ found.taste[:-1] + found.taste[-1] + directions @ found.turn
                if amplitudes.local:
                    said += local_kernel(directions @ seen.directions.T) @ found.pull
                left = scaling.down_values(validation.ratings[at], means[entries]) - found.bias
                products[place] += float(said @ left)
                squares[place] += float(said @ said)
        trust = np.clip(np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0), 0.02, 0.95)
        of_length = np.array([length for length, *_ in views], np.float64)
        few = (of_length > 0) & (squares > 0)
        if few.sum() >= 2:
            # As many ratings as a typical row has are trusted as has been learned from all rows.
            usual = max(scaling.typical_length, 2.0 * of_length[few].max())
            logs = np.log(np.append(of_length[few], usual))
            odds = np.append(np.log(trust[few] / (1 - trust[few])), np.log(usual / amplitudes.half))
            weights = np.append(squares[few], squares[few].sum())
            centre, level = np.average(logs, weights=weights), np.average(odds, weights=weights)
            power = float((weights * (logs - centre) * (odds - level)).sum() / (weights * (logs - centre) ** 2).sum())
            power = min(max(power, 0.3), 3.0)
            amplitudes = replace(amplitudes, power=power, half=float(np.exp(centre - level / power)))
        if features.width and squares[-1] > 0 and products[-1] > 0:
            cold = trust[-1]
            worth = amplitudes.half * (cold / (1 - cold)) ** (1 / amplitudes.power)
            amplitudes = replace(amplitudes, features=float(worth))
        return amplitudes

    def _read_rows(self, rows: SparseRows) -> tuple[Floats, Floats]:
        """Codes (rows, width) and means (rows,), scaled, of rows with other ratings than those of the training."""
        scaling, features = self._scaling, self._row_features.trained
        sums, counts = rows.row_sums(scaling.without_column(rows.indices, rows.values)), rows.counts()
        expected = scaling.overall + scaling.by_features.expected(features)[:, 0].astype(np.float64)
        total = counts + scaling.damping
        found = np.divide(sums + scaling.damping * expected, total, out=expected.copy(), where=total > 0)
        means = found.astype(np.float32)
        return encode_trained(self._network, replace(scaling, means=means), rows, features), means

    def _examples(self, amplitudes: Amplitudes, validation: ValidationPart) -> Iterator[tuple[Decoded, Seen, Longs]]:
        """Some columns, as the decoder knows them by their ratings, and the places of their validation ratings."""
        space, scaling = self.space, self._scaling
        counts = self._by_column.counts()
        order = np.argsort(validation.entry_columns, kind="stable")
        columns, starts = np.unique(validation.entry_columns[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        weights, biases = expected_of_columns(space, self._biases, scaling, self._column_features.trained)
        usable = np.flatnonzero((counts[columns] > 0) & (counts[columns] <= _LONGEST_EXAMPLE))
        square = float(np.mean(counts[columns[usable]].astype(np.float64) ** 2)) if len(usable) else 1.0
        most = int(np.clip(_EXAMPLE_SQUARES / square, 50, _EXAMPLES))
        for place in usable[:: max(1, len(usable) // most)].tolist():
            column = int(columns[place])
            rated, ratings = self._by_column.row(column)
            without = self._left_out(rated, np.full(len(rated), column, np.int32), ratings)
            seen = space.seen(without.codes.numpy(), amplitudes.trust(without.counts, without.described))
            about = Expected(weights[column], float(biases[column]))
            targets = scaling.down_values(ratings, without.means)
            posterior = Posterior(space, amplitudes, seen, targets, about)
            yield posterior.decoded(), seen, order[starts[place] : ends[place]]


def thinned_rows(rows: SparseRows, lengths: tuple[int, ...], seed: int) -> tuple[SparseRows, Longs]:
    """Rows with few of their ratings, drawn at random, and the places of these among all.

    A row has one of the `lengths`, or half of its ratings if these are fewer. With one rating alone it keeps that.
    """
    rng = np.random.default_rng([seed, 0x7417])
    counts = rows.counts()
    wanted = np.minimum(rng.choice(lengths, rows.rows), np.maximum(counts // 2, min(1, min(lengths))))
    of_row = np.repeat(np.arange(rows.rows), counts)
    order = np.lexsort((rng.random(rows.nnz), of_row))
    rank = np.arange(rows.nnz) - rows.indptr[of_row]
    kept = np.sort(order[rank < wanted[of_row]])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(of_row[kept], minlength=rows.rows))]).astype(np.int64)
    return SparseRows(indptr, rows.indices[kept], rows.values[kept], rows.columns), kept


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
