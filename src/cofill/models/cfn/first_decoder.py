"""The decoder of a network that has just been trained: its directions, its amplitudes, the weights of its columns."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.exchange import total
from cofill.models.cfn.fold_in import spread_of_weights
from cofill.models.cfn.leave_one_out import LeaveOneOut
from cofill.models.cfn.network import CFNetwork, encode_rows
from cofill.models.cfn.scaling import Scaling
from cofill.models.cfn.training import ValidationPart
from cofill.models.decoder.amplitudes import HeldOut, Learned, halves_of, learn
from cofill.models.decoder.kernel import SHORT, Amplitudes, CodeSpace, Decoded, Expected, Posterior, Seen, local_kernel
from cofill.models.decoder.neighbours import Neighbours
from cofill.models.decoder.solving import DecodedColumns, solve_columns
from cofill.models.means import FittedMeans
from cofill.models.portion import Portion
from cofill.models.rng import Sample, draws_of, draws_of_entries, seed_of
from cofill.threads import one_blas_thread

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
_SORTED_AT_ONCE = 1_000_000  # ratings
_THINNING_DRAW, _EXAMPLE_DRAW = 0x7417, 0xE8A


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
    network: CFNetwork,
    by_column: SparseRows,
    column_features: SideFeatures,
    codes: Floats,
    counts: Longs,
    portion: Portion,
) -> CodeSpace:
    """From the trained output weights, and from the codes (rows, width) of rows with so many ratings (rows,)."""
    spread = spread_of_weights(
        network.output.weight,
        network.output.bias,
        by_column.counts(),
        column_features.trained,
        portion,
    )
    rated = counts > 0
    centre = codes[rated].mean(0) if rated.any() else np.zeros(codes.shape[1], np.float32)
    return CodeSpace(spread.mean, spread.by_features, spread.factor.astype(np.float32), centre)


def expected_of_columns(
    space: CodeSpace, biases: FittedMeans, scaling: Scaling, features: Floats
) -> tuple[Floats, Floats]:
    """Weights (n, width + 1) and biases (n,), scaled, of columns of which the features (n, Q) are known."""
    return space.expected(features), biases.by_column_features.expected(features)[:, 0] / np.float32(scaling.unit)


def encode_trained(
    network: CFNetwork, scaling: Scaling, rows: SparseRows, features: Floats, portion: Portion
) -> Floats:
    """Codes (rows, width) of the rows that were trained on."""
    codes = np.empty((rows.rows, network.width), np.float32)
    counts = portion.row_counts(rows)
    for first in range(0, rows.rows, _ROWS_AT_ONCE):
        chosen = np.arange(first, min(first + _ROWS_AT_ONCE, rows.rows))
        part = scaling.down_with(rows.take(chosen), scaling.means[chosen], features[chosen], portion, counts[chosen])
        codes[chosen] = encode_rows(network, part, portion.exchange)
    return codes


class FirstDecoder:
    """Of the ratings that a network was trained on, in the columns that this process has."""

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        biases: FittedMeans,
        rows: SparseRows,
        by_column: SparseRows,
        row_features: SideFeatures,
        column_features: SideFeatures,
        portion: Portion,
    ) -> None:
        self.network, self.scaling, self.biases = network, scaling, biases
        self.rows, self.by_column = rows, by_column
        self.row_features, self.column_features = row_features, column_features
        self.portion, self._exchange = portion, portion.exchange
        self.row_counts = portion.row_counts(rows)
        self.codes = encode_trained(network, scaling, rows, row_features.trained, portion)
        self.space = code_space(network, by_column, column_features, self.codes, self.row_counts, portion)
        self.left_out = LeaveOneOut(network, scaling, rows, row_features, portion.exchange)
        self._scaled = scaling.down_values(by_column.values, np.zeros(1, np.float32))

    @one_blas_thread()
    def learn(self, validation: ValidationPart, settings: CFNSettings) -> Learned:
        """The amplitudes that predict validation ratings best; of all columns, and without those of either half."""
        scaling = self.scaling
        rows, columns = validation.entry_rows, validation.entry_columns
        held_out = HeldOut(rows, columns, scaling.down_values(validation.ratings, scaling.means[rows]))
        learned = learn(
            self.by_column,
            self._scaled,
            self.space,
            first_amplitudes(self.biases, scaling, settings, self.column_features),
            self.left_out,
            held_out,
            self.codes,
            self.row_counts,
            self.row_features.trained_described,
            self._expected,
            self.portion,
            seed=settings.seed,
        )
        return self._with_short(self._with_trust(learned, validation, settings.seed), held_out, settings.seed)

    @one_blas_thread()
    def solve(
        self,
        amplitudes: Amplitudes,
        share_done: Callable[[float], None] | None = None,
        *,
        only: npt.NDArray[np.bool_] | None = None,
    ) -> DecodedColumns:
        """The weights of all columns, or only of some (columns,)."""
        return solve_columns(
            self.by_column, self._scaled, self.space, amplitudes, self.left_out, self._expected, share_done, only=only
        )

    def neighbours(self, amplitudes: Amplitudes, settings: CFNSettings) -> Neighbours | None:
        """The table of nearest rows, if there is a local kernel."""
        if not amplitudes.local:
            return None
        rated = self.row_counts > 0
        directions = self.space.directions(self.codes)
        directions[~rated] = 0
        most = min(settings.neighbours, max(_MOST_NEIGHBOURS // max(len(directions), 1), 10))
        return Neighbours.of(directions, most, rated, self._exchange)

    def _with_short(self, learned: Learned, held_out: HeldOut, seed: int) -> Learned:
        """With amplitudes for columns with few ratings, learned on columns of which all but a few are left out.

        Where most columns are short, they themselves have told; where no column tells of taste, few ratings do not.
        """
        amplitudes = learned.amplitudes
        if not amplitudes.taste:
            return learned
        own = self.by_column.counts()
        ratings, filled = total(self._exchange, own.sum(), (own > 0).sum())
        if ratings / max(filled, 1) <= 2 * SHORT:
            return learned
        portion = self.portion
        turned = Portion(portion.column_keys, portion.row_keys, len(portion.row_keys))  # each has all of its ratings
        thinned, kept = Thinning(self.by_column, max(LENGTHS), seed, turned).rows(LENGTHS)
        of_few = learn(
            thinned,
            self._scaled[kept],
            self.space,
            amplitudes,
            self.left_out,
            held_out,
            self.codes,
            self.row_counts,
            self.row_features.trained_described,
            self._expected,
            portion,
            seed=seed,
            names=("bias", "taste", "cosine", "local"),
        )

        def with_those(of_all: Amplitudes, few: Amplitudes) -> Amplitudes:
            # The table of nearest rows is there or not: it cannot be for some columns only.
            return replace(of_all, short=(few.bias, few.taste, few.cosine, few.local if of_all.local else 0.0))

        one, other = (with_those(*both) for both in zip(learned.crossed, of_few.crossed, strict=True))
        return Learned(with_those(amplitudes, of_few.amplitudes), (one, other))

    def _with_trust(self, learned: Learned, validation: ValidationPart, seed: int) -> Learned:
        """With a trust in the codes of rows with few ratings, and of rows with features alone, that predicts best.

        Rows of the training may all be long, and the network is trained on them. So they are read with few of their
        ratings, or with none, and a trust for each length is found by which validation ratings are predicted best: the
        prediction is linear in it. Through these goes a line: log odds of the trust by the logarithm of the length.
        """
        scaling, rows, features = self.scaling, self.rows, self.row_features
        examples = self._examples(validation, seed)
        # Those that any process asks for, and no others: codes of all rows in all lengths would be the largest arrays.
        flags = np.zeros(rows.rows, np.uint8)
        for _, asked in examples:
            flags[validation.entry_rows[asked]] = 1
        needed = np.flatnonzero(self._exchange.max_(flags))
        views = []
        lengths = LENGTHS if scaling.typical_length > 2 * SHORT else ()  # shorter rows have told by themselves
        thinning = Thinning(rows, max(lengths, default=0), seed, self.portion)
        for length in lengths:
            codes, means = self._read_rows(thinning.rows((length,))[0], needed)
            views.append(_View(length, codes, means, self.row_counts >= 2 * length))
        if features.width:
            codes, means = self._read_rows(thinning.rows((0,))[0], needed)
            views.append(_View(0, codes, means, features.trained_described))
        if not views:
            return learned
        halves = halves_of(seed, self.portion)
        one, other = (
            self._trusting(amplitudes, [at for at in examples if halves[at[0]] != half], validation, views, needed)
            for half, amplitudes in enumerate(learned.crossed)
        )
        return Learned(self._trusting(learned.amplitudes, examples, validation, views, needed), (one, other))

    def _trusting(
        self,
        amplitudes: Amplitudes,
        examples: list[tuple[int, Longs]],
        validation: ValidationPart,
        views: list["_View"],
        needed: Longs,
    ) -> Amplitudes:
        """With the trust that these examples ask for, in views of the rows that are needed."""
        scaling = self.scaling
        products, squares = np.zeros(len(views)), np.zeros(len(views))
        for column, asked in examples:
            found, seen = self._decoded(column, amplitudes)
            for place, (_, codes, means, usable) in enumerate(views):
                at = asked[usable[validation.entry_rows[asked]]]
                entries = np.searchsorted(needed, validation.entry_rows[at])
                own = codes[entries]
                directions = self.space.directions(own)
                said = own @ found.taste[:-1] + found.taste[-1] + directions @ found.turn
                if amplitudes.local:
                    said += local_kernel(directions @ seen.directions.T) @ found.pull
                left = scaling.down_values(validation.ratings[at], means[entries]) - found.bias
                products[place] += float(said @ left)
                squares[place] += float(said @ said)
        self._exchange.sum_(products)
        self._exchange.sum_(squares)
        trust = np.clip(np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0), 0.02, 0.95)
        of_length = np.array([view.length for view in views], np.float64)
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
        if self.row_features.width and squares[-1] > 0 and products[-1] > 0:
            cold = trust[-1]
            worth = amplitudes.half * (cold / (1 - cold)) ** (1 / amplitudes.power)
            amplitudes = replace(amplitudes, features=float(worth))
        return amplitudes

    def _read_rows(self, all_rows: SparseRows, needed: Longs) -> tuple[Floats, Floats]:
        """Codes (n, width) and means (n,), scaled, of some rows with other ratings than those of the training."""
        scaling, features = self.scaling, self.row_features.trained[needed]
        rows = all_rows.take(needed)
        sums = self._exchange.sum_(rows.row_sums(scaling.without_column(rows.indices, rows.values)))
        counts = self.portion.row_counts(rows)
        expected = scaling.overall + scaling.by_features.expected(features)[:, 0].astype(np.float64)
        damped = counts + scaling.damping
        found = np.divide(sums + scaling.damping * expected, damped, out=expected.copy(), where=damped > 0)
        means = found.astype(np.float32)
        return encode_trained(self.network, replace(scaling, means=means), rows, features, self.portion), means

    def _examples(self, validation: ValidationPart, seed: int) -> list[tuple[int, Longs]]:
        """Some columns, and the places of their validation ratings."""
        counts = self.by_column.counts()
        order = np.argsort(validation.entry_columns, kind="stable")
        columns, starts = np.unique(validation.entry_columns[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        usable = np.flatnonzero((counts[columns] > 0) & (counts[columns] <= _LONGEST_EXAMPLE))
        squares, count = total(self._exchange, (counts[columns[usable]].astype(np.float64) ** 2).sum(), len(usable))
        most = int(np.clip(_EXAMPLE_SQUARES / max(squares / max(count, 1), 1.0), 50, _EXAMPLES))
        keys = self.portion.column_keys[columns]
        chosen = Sample.of(keys, usable, most, seed_of(seed, _EXAMPLE_DRAW), self._exchange).places
        return [(int(columns[place]), order[starts[place] : ends[place]]) for place in chosen.tolist()]

    def _decoded(self, column: int, amplitudes: Amplitudes) -> tuple[Decoded, Seen]:
        """A column as the decoder knows it by its ratings, and the rows that it has rated."""
        rated, ratings = self.by_column.row(column)
        without = self.left_out(rated, np.full(len(rated), column, np.int32), ratings)
        seen = self.space.seen(without.codes, amplitudes.trust(without.counts, without.described))
        weights, biases = self._expected(np.array([column]))
        targets = self.scaling.down_values(ratings, without.means)
        about = Expected(weights[0], float(biases[0]))
        return Posterior(self.space, amplitudes, seen, targets, about).decoded(), seen

    def _expected(self, columns: Longs) -> tuple[Floats, Floats]:
        """Weights (n, width + 1) and biases (n,), scaled, of columns by their features."""
        return expected_of_columns(self.space, self.biases, self.scaling, self.column_features.trained[columns])


class _View(NamedTuple):
    """Rows as they are read with few of their ratings."""

    length: int  # ratings of each
    codes: Floats  # (n, width)
    means: Floats  # (n,) scaled
    usable: npt.NDArray[np.bool_]  # (rows,): which have enough others


class Thinning:
    """Leaves rows few of their ratings, drawn at random: those with the smallest draws."""

    def __init__(self, rows: SparseRows, most: int, seed: int, portion: Portion) -> None:
        """Of each row of this process the `most` ratings with the smallest draws, which are all that may be left."""
        self._rows, self._seed, self._portion = rows, seed, portion
        self._counts = portion.row_counts(rows)
        counts = rows.counts()
        self._indptr = np.concatenate([[0], np.cumsum(np.minimum(counts, most))])
        places, draws = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
        first = 0
        while first < rows.rows:  # some rows at a time: a sort of all ratings would take several times their memory
            start = rows.indptr[first]
            last = max(first + 1, int(np.searchsorted(rows.indptr, start + _SORTED_AT_ONCE, "right")) - 1)
            entries = slice(int(start), int(rows.indptr[last]))
            indptr = rows.indptr[first : last + 1] - start
            keys = portion.row_keys[first:last]
            drawn = draws_of_entries(
                seed_of(seed, _THINNING_DRAW, 1), keys, portion.column_keys, indptr, rows.indices[entries]
            )
            of_row = np.repeat(np.arange(last - first), counts[first:last])
            order = np.lexsort((drawn, of_row))
            order = order[np.arange(len(order)) - indptr[of_row] < most]
            places.append(start + order)
            draws.append(drawn[order])
            first = last
        self._places, self._draws = np.concatenate(places), np.concatenate(draws)

    def rows(self, lengths: tuple[int, ...]) -> tuple[SparseRows, Longs]:
        """The rows with few of their ratings, and the places of these among all of this process.

        A row has one of the `lengths`, or half of its ratings if these are fewer. With one rating alone it keeps that.
        """
        rows, portion = self._rows, self._portion
        choice = draws_of(seed_of(self._seed, _THINNING_DRAW, 0), portion.row_keys) % np.uint64(len(lengths))
        wanted = np.minimum(np.array(lengths)[choice], np.maximum(self._counts // 2, min(1, min(lengths))))
        taken = wanted if portion.exchange.size == 1 else self._of_this_process(wanted)
        of_row = np.repeat(np.arange(rows.rows), np.diff(self._indptr))
        rank = np.arange(len(self._places)) - self._indptr[of_row]
        kept = np.sort(self._places[rank < taken[of_row]])
        ends = np.searchsorted(kept, rows.indptr)
        return SparseRows(ends.astype(np.int64), rows.indices[kept], rows.values[kept], rows.columns), kept

    def _of_this_process(self, wanted: Longs) -> Longs:
        """(rows,): how many of the `wanted` smallest draws of each row this process has."""
        exchange = self._portion.exchange
        taken = np.zeros(len(wanted), np.int64)
        counts, starts = np.diff(self._indptr), self._indptr[:-1]
        for turn in range(int(wanted.max(initial=0))):
            there = (turn < wanted) & (taken < counts)
            own = np.full(len(wanted), np.iinfo(np.int64).min)
            # The smallest is the greatest.
            own[there] = ~(self._draws[(starts + taken)[there]] >> np.uint64(1)).astype(np.int64)
            taken += there & (own == exchange.max_(own.copy()))
        return taken


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
