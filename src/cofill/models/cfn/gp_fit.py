"""The decoder of a network that has just been trained: its amplitudes, its intervals, the weights of its columns.

Amplitudes minimise the squared error of predicting what was held out, with a prior that keeps them where they began if
the data tells little: sum e^2 / (2 noise) + 1/2 sum ((log theta - log theta_0) / 3)^2. Not by the marginal likelihood
of the training ratings: the network has seen these, and would be believed too much. Those of columns with at most 20
ratings, and the power of the shrinkage, are learned on columns and rows that were thinned to so few.

Columns are in two halves (cross-fitting). Each half is predicted by amplitudes that the other one has taught. These
errors are those of unseen ratings, so prediction intervals are calibrated on them. Their RMSE is that of the model
before it is trained again on all ratings; `after_refit` tells what becomes of it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import NamedTuple, Self

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange, total
from cofill.memory import give_back_freed
from cofill.models.cfn.codes import CodeSpace, EncodedRows, LeaveOneOut, encode_trained
from cofill.models.cfn.gp import (
    SHORT,
    BatchRead,
    ColumnBatch,
    ColumnWeights,
    KernelParams,
    KernelParts,
    RatedColumns,
    batches,
    expected_of_columns,
    prior_mean,
    said_by,
    solve_columns,
    solved_batch,
    times_inverse,
)
from cofill.models.cfn.neighbours import MOST_COMPARED, Neighbours
from cofill.models.cfn.network import CFNetwork, Linear
from cofill.models.cfn.scaling import TrainingPart, ValidationPart, damped
from cofill.models.rng import Keys, Portion, Sample, draws_of, draws_of_entries, seed_of, uniform_draws
from cofill.models.slopes import FeatureRegression
from cofill.threads import on_all_cores, one_blas_thread

# Directions in which columns differ the most. With a local kernel, 128 of them predict validation ratings of
# MovieLens-100K, MovieLens-1M and MovieTweetings between .02 % worse and .02 % better than 64. Without one, 64 lose
# .04 % on MovieLens-1M.
_DIRECTIONS, _MORE_DIRECTIONS = 64, 128
_COLUMNS_AT_ONCE = 4096
_DRAWN_AT_ONCE = 500_000  # ratings
# Columns from which it is learned how weights follow features.
_REGRESSION_COLUMNS = 10_000
_REGRESSION_DRAW = seed_of(0xF01D)
# Numbers of the table of nearest rows: with very many rows each has fewer.
_MOST_NEIGHBOURS = 20_000_000
# A sample of columns is enough to learn six numbers: its kernels are kept, so it is bounded by the sum of squares.
_SAMPLE_SQUARES = 6_000_000
_ENOUGH_ASKED = 16
_LONGEST = 500
_PRIOR_WIDTH = 3.0
_FARTHEST = 6.0  # from where it begins, in logarithms
_LARGEST_STEP, _LARGEST_CROSSED_STEP = 1.5, 0.5
_MOST_STEPS = 20
_ENOUGH = 1e-6  # relative improvement of a step below which learning ends
_BEYOND_CHANCE = 2.0  # standard errors
_LEAST_LOCAL_GAIN = 5e-4  # of the squared error
# Numbers of ratings of which it is learned how far to believe rows and columns that have so few.
LENGTHS = (1, 2, 3, 5, 8, 13, 20)
_DRAW, _HALF_DRAW, _THINNING_DRAW = 0xA3B, 0xA1F, 0x7417


class HeldOut(NamedTuple):
    """Validation ratings: which rows and columns, and what is to be predicted: scaled, less the rows' deviations."""

    rows: Longs
    columns: Ints
    targets: Floats
    interactions: Floats  # what features of rows and columns say together, scaled


class Learned(NamedTuple):
    amplitudes: KernelParams
    crossed: tuple[KernelParams, KernelParams]  # learned without the columns of either half (`halves_of`)

    def joined(self, more: "Learned", join: Callable[[KernelParams, KernelParams], KernelParams]) -> "Learned":
        """With what was learned more of each."""
        (one, other), (of_one, of_other) = self.crossed, more.crossed
        return Learned(join(self.amplitudes, more.amplitudes), (join(one, of_one), join(other, of_other)))


def halves_of(seed: int, portion: Portion) -> Longs:
    """(own columns,), 0 or 1: which half a column is in. What one half has taught is judged by the other."""
    return (draws_of(seed_of(seed, _HALF_DRAW), portion.column_keys) & np.uint64(1)).astype(np.int64)


@dataclass(frozen=True)
class Lesson:
    """What amplitudes are learned from: the training part column by column, and validation ratings."""

    data: RatedColumns
    held_out: HeldOut
    rows: EncodedRows  # that are asked about
    row_keys: Keys  # (rows,)
    portion: Portion
    seed: int
    views: int = 1  # in which every row is asked about

    def learn(
        self,
        first: KernelParams,
        names: Sequence[str] = ("bias", "taste", "cosine", "local", "half", "mean", "interactions"),
    ) -> Learned:
        """Those of the `names`, from where they begin."""
        exchange, halves = self.portion.exchange, halves_of(self.seed, self.portion)
        sample = self.sample()
        parts = [self._read(sample[halves[sample] == half]) for half in (0, 1)]
        if not total(exchange, len(sample))[0]:
            return Learned(first, (first, first))
        names = [name for name in names if getattr(first, name)]
        begin = np.log([max(getattr(first, name), 1e-8) for name in names])

        def at(place: Doubles) -> KernelParams:
            return replace(first, **dict(zip(names, np.exp(place).tolist(), strict=True)))

        def squares_at(place: Doubles) -> Doubles:
            """(2, k + 1, k + 1): of either half, over all processes."""
            own = np.zeros((2, len(names) + 1, len(names) + 1))
            for half, part in enumerate(parts):
                for squares in on_all_cores(lambda batch: batch.squares(at(place), names), part):
                    own[half] += squares
            return exchange.all_reduce(own)

        place, squares = _least(squares_at, begin, first.noise)
        learned = _without_what_is_useless(at(place), first, [*parts[0], *parts[1]], exchange)
        crossed = []
        for own in (squares[1], squares[0]):  # where one half alone would have ended is a Gauss-Newton step away
            _, slope, curvature = _posterior(own, place - begin, first.noise)
            crossed.append(_with_parts_of(at(place + _step(slope, curvature, _LARGEST_CROSSED_STEP)), learned))
        return Learned(learned, (crossed[0], crossed[1]))

    def sample(self) -> Longs:
        """Some columns of all lengths with ratings of both parts: the same in any number of processes."""
        counts = self.data.by_column.counts()
        asked = np.bincount(self.held_out.columns, minlength=len(counts)) > 0
        candidates = np.flatnonzero(asked & (counts > 0))
        short = counts[candidates] <= _LONGEST
        if total(self.portion.exchange, short.sum())[0]:  # where all are longer, some of their ratings count
            candidates = candidates[short]
        # A column costs its square, and a little for being there.
        cost = (np.minimum(counts[candidates], _LONGEST).astype(np.float64) ** 2 + 64).sum()
        share = _SAMPLE_SQUARES / max(total(self.portion.exchange, cost)[0], 1.0)
        return candidates[uniform_draws(seed_of(self.seed, _DRAW), self.portion.column_keys[candidates]) < share]

    def _read(self, columns: Longs) -> list["_Batch"]:
        held_out, space = self.held_out, self.data.space
        order = np.lexsort((self.row_keys[held_out.rows], held_out.columns))
        counts = self.data.by_column.counts()
        ends = np.concatenate([[0], np.cumsum(np.bincount(held_out.columns, minlength=len(counts)))])
        along, directions = space.projected(self.rows.codes)

        def read(batch: ColumnBatch) -> _Batch:
            # Of a column with many validation ratings some are enough, or the asked rows would be most of the work.
            enough = np.maximum(_ENOUGH_ASKED * self.views, counts[batch.columns] // 4)
            asked_counts = np.minimum(ends[batch.columns + 1] - ends[batch.columns], enough)[:, None]
            turn = np.arange(int(asked_counts.max()))
            mask = turn < asked_counts
            places = order[np.where(mask, ends[batch.columns][:, None] + turn, 0)]
            rows = held_out.rows[places]
            weights, biases = self.data.expected(batch.columns)
            asked = BatchRead(
                (along[rows], directions[rows]),
                said_by(weights, self.rows.codes[rows]) if space.uses_features else np.zeros(rows.shape, np.float32),
                self.rows.counts[rows].astype(np.float32),
                self.rows.described[rows],
                (held_out.targets[places] - biases[:, None]) * mask,
                mask,
                held_out.interactions[places] * mask,
            )
            return _Batch.of(self.data.read(batch), asked)

        width = along.shape[1] + directions.shape[1]
        return on_all_cores(
            read, batches(self.data.by_column.indptr, columns, width, _ENOUGH_ASKED * self.views, _LONGEST)
        )


def _posterior(squares: Doubles, away: Doubles, noise: float) -> tuple[float, Doubles, Doubles]:
    """Minus the logarithm of the posterior of amplitudes so far away from the mean of the prior, and its derivatives.

    `squares` (k + 1, k + 1) are the products [J e]'[J e] of errors e and their derivatives J by the logarithms of the
    amplitudes (Gauss-Newton).
    """
    prior = _PRIOR_WIDTH**2
    return (
        float(squares[-1, -1] / noise + away @ away / prior) / 2,
        squares[-1, :-1] / noise + away / prior,
        squares[:-1, :-1] / noise + np.eye(len(away)) / prior,
    )


def _step(slope: Doubles, curvature: Doubles, largest: float = _LARGEST_STEP) -> Doubles:
    step = -np.linalg.solve(curvature, slope)
    return np.asarray(step * min(1.0, largest / max(np.abs(step).max(), 1e-12)))


def _least(squares_at: Callable[[Doubles], Doubles], begin: Doubles, noise: float) -> tuple[Doubles, Doubles]:
    """Where the posterior of amplitudes is largest (Levenberg and Marquardt), and the squares of both halves."""
    place, squares = begin, squares_at(begin)
    value, slope, curvature = _posterior(squares.sum(0), place - begin, noise)
    damping = 0.0
    for _ in range(_MOST_STEPS):
        step = _step(slope, curvature + damping * np.diag(np.diag(curvature)))
        there = np.clip(place + step, begin - _FARTHEST, begin + _FARTHEST)
        squares_there = squares_at(there)
        found = _posterior(squares_there.sum(0), there - begin, noise)
        gained = value - found[0]
        if gained > 0:
            place, squares, (value, slope, curvature) = there, squares_there, found
            damping = damping / 5 if damping > 0.01 else 0.0
        else:
            damping = max(4 * damping, 0.1)
        if abs(gained) <= _ENOUGH * value:
            break
    return place, squares


def _with_parts_of(amplitudes: KernelParams, learned: KernelParams) -> KernelParams:
    """Without the parts of the kernel that were found to be useless."""
    if not learned.taste:
        return learned
    return amplitudes if learned.local else replace(amplitudes, local=0.0)


def _without_what_is_useless(
    learned: KernelParams, first: KernelParams, known: Sequence["_Batch"], exchange: Exchange
) -> KernelParams:
    """Taste is kept only if validation ratings gain by it beyond chance, and its local kernel, which costs a table of
    the nearest rows, only if they gain by that.

    Some gain there always is, as the amplitudes were learned on these very ratings. Where it may be chance, the biases
    remain, with their first variance: with noise alone, following chance costs a tenth of a percent of the RMSE.
    """
    biases = replace(learned, bias=first.bias, taste=0.0, cosine=0.0, local=0.0)
    ways = (learned, biases, replace(learned, local=0.0))
    errors = np.concatenate(
        on_all_cores(lambda batch: np.stack([*map(batch.squared_errors, ways)], 1), known) or [np.empty((0, 3))]
    )
    # A column's ratings are not independent: chance is that of columns.
    gains = errors[:, 1] - errors[:, 0]
    error, after, gain, chance = total(exchange, *errors[:, [0, 2]].sum(0), gains.sum(), (gains**2).sum())
    if gain < _BEYOND_CHANCE * chance**0.5:
        return biases
    return ways[2] if after < (1 + _LEAST_LOCAL_GAIN) * error else learned


class _Solved(NamedTuple):
    """A batch at given amplitudes."""

    factors: Floats | Doubles  # of the kernel between ratings, with noise
    shrinkage: Floats
    alpha: Floats  # (B, n)
    kernel: Floats  # (B, q, n): between asked rows and ratings
    asked_shrinkage: Floats
    errors: Floats  # (B, q)


@dataclass(frozen=True)
class _Batch:
    """A batch of columns with all that amplitudes are multiplied by: between the rows that they rated (n), and between
    these and the rows that are asked about (q). Padded places count nothing.
    """

    inside: KernelParts  # (B, n, n)
    across: KernelParts  # (B, q, n)
    rated: BatchRead
    asked: BatchRead

    @classmethod
    def of(cls, rated: BatchRead, asked: BatchRead) -> Self:
        inside, across = (KernelParts.between(rows.projected, rated.projected) for rows in (rated, asked))
        nothing = (np.empty(0, np.float32),) * 2  # directions are in the kernels now
        return cls(inside, across, *(rows._replace(projected=nothing) for rows in (rated, asked)))

    def squared_errors(self, amplitudes: KernelParams) -> Doubles:
        """(B,): summed over the validation ratings of each column."""
        return np.asarray(np.sum(self._solved(amplitudes).errors.astype(np.float64) ** 2, axis=1))

    def _solved(self, amplitudes: KernelParams) -> _Solved:
        asked, asked_shrinkage = self.asked, self.asked.shrinkage(amplitudes)
        factors, shrinkage, alpha = solved_batch(self.inside, self.rated, amplitudes)
        kernel = self.across.combined(amplitudes, asked_shrinkage, shrinkage, self.rated.mask)
        predicted = (kernel @ alpha[:, :, None])[:, :, 0] + prior_mean(asked, amplitudes, asked_shrinkage)
        return _Solved(factors, shrinkage, alpha, kernel, asked_shrinkage, (predicted - asked.targets) * asked.mask)

    def squares(self, amplitudes: KernelParams, names: Sequence[str]) -> Doubles:
        """(k + 1, k + 1): products of the errors, which are last, and of how they change with amplitudes:

            dB alpha + dm - B K^-1 (dK alpha + dm)

        for the kernels B between asked rows and ratings and K between ratings, and for the prior mean m of both.
        """
        s = self._solved(amplitudes)
        on_ratings = self._changes(amplitudes, names, s, self.inside, self.rated, s.shrinkage)
        on_asked = self._changes(amplitudes, names, s, self.across, self.asked, s.asked_shrinkage)
        slopes = on_asked - s.kernel @ times_inverse(s.factors, on_ratings)
        mask = self.asked.mask
        both = np.column_stack([slopes[mask], s.errors[mask]]).astype(np.float64)
        return np.asarray(both.T @ both)

    def _changes(
        self,
        own: KernelParams,
        names: Sequence[str],
        s: _Solved,
        parts: KernelParts,
        rows: BatchRead,
        shrinkage: Floats,
    ) -> Floats:
        """(B, rows, names): how the kernel of rows with ratings changes, times alpha, and the prior mean of rows.

        By the logarithm of each amplitude. Matrices are only multiplied with vectors here: the kernels that change
        would be the larger part of the work.
        """
        changes, of_ratings = (
            _shrinkage_changes(own, each.counts, each.described, each_shrinkage)
            for each, each_shrinkage in ((rows, shrinkage), (self.rated, s.shrinkage))
        )
        weighted = s.shrinkage * s.alpha
        by_ratings = np.stack([weighted, *(of_ratings[name] * weighted for name in of_ratings if name in names)], 2)
        sizes = np.array([own.taste, own.cosine, own.local], np.float32)
        of_parts = parts.times(by_ratings)
        of_parts *= sizes[:, None, None, None] * shrinkage[:, :, None]
        whole, mean = of_parts.sum(0), np.float32(own.mean) * shrinkage * rows.said
        found = np.zeros((*shrinkage.shape, len(names)), np.float32)
        shrinking = 0
        for place, name in enumerate(names):
            if name == "bias":
                found[:, :, place] = np.float32(own.bias) * s.alpha.sum(1)[:, None] * rows.mask
            elif name == "mean":
                found[:, :, place] = mean
            elif name == "interactions":
                found[:, :, place] = np.float32(own.interactions) * rows.interactions
            elif name in changes:
                shrinking += 1
                found[:, :, place] = changes[name] * (whole[:, :, 0] + mean) + whole[:, :, shrinking]
            else:
                found[:, :, place] = of_parts[("taste", "cosine", "local").index(name), :, :, 0]
        return found


def _shrinkage_changes(own: KernelParams, counts: Floats, described: Bools, shrinkage: Floats) -> dict[str, Floats]:
    """How the logarithm of shrinkage changes with that of half, power and features."""
    read = counts + np.float32(own.features) * described
    doubt = np.float32(own.power) * (1 - shrinkage)
    logs = np.log(np.maximum(read, np.float32(1e-12)) / np.float32(own.half))
    of_features = np.float32(own.features) * described / np.maximum(read, np.float32(1e-12))
    return {"half": -doubt, "power": doubt * logs, "features": doubt * of_features}


# The decoder of a trained network


def first_amplitudes(part: TrainingPart) -> KernelParams:
    """Where learning begins: little is believed.

    Where columns have no features, what all of them have in common is left to the deviations of the rows, so that a
    column of which nothing is known gets the biases.
    """
    biases, square = part.biases, part.scaling.unit**2
    noise = max(biases.noise / square, 1e-4)
    return KernelParams(
        noise=noise,
        bias=biases.columns.variance / square,
        taste=0.3,
        cosine=0.05 * noise,
        local=0.05 * noise if part.scaling.settings.neighbours else 0.0,
        half=3.0,
        mean=0.3 if part.matrix.column_features.width else 0.0,
        features=0.0,
        interactions=0.3 if biases.slopes is not None else 0.0,
    )


@one_blas_thread()
def code_space(
    output: Linear,
    ratings: Longs,
    features: Floats,
    codes: Floats,
    row_counts: Longs,
    portion: Portion,
    directions: int = _MORE_DIRECTIONS,
) -> CodeSpace:
    """From the trained output weights, how many ratings (columns,) and which features (columns, Q) their columns have,
    and from the codes (rows, width) of rows with so many ratings (rows,).
    """
    exchange, columns = portion.exchange, np.flatnonzero(ratings > 0)
    chunks = np.split(columns, range(_COLUMNS_AT_ONCE, len(columns), _COLUMNS_AT_ONCE))
    summed = np.zeros(codes.shape[1] + 2)
    summed[-1] = len(columns)
    for chosen in chunks:  # the weights are the largest thing in memory
        summed[:-1] += _weights_of(output, chosen).sum(0, dtype=np.float64)
    exchange.all_reduce(summed)
    count = max(summed[-1], 1)
    mean = (summed[:-1] / count).astype(np.float32)
    by_features = FeatureRegression(np.zeros((1, len(mean)), np.float32))
    if features.shape[1]:
        # An example is a whole row of weights: only those that are looked at are copied.
        some = Sample.of(portion.column_keys, columns, _REGRESSION_COLUMNS, _REGRESSION_DRAW, exchange).places
        surplus = _weights_of(output, some) - mean
        by_features = FeatureRegression.fit(features[some], surplus, ratings[some], portion.column_keys[some], exchange)
    square = np.zeros((len(mean), len(mean)))
    for chosen in chunks:
        surprise = _weights_of(output, chosen) - mean - by_features.expected(features[chosen])
        square += surprise.T @ surprise
    values, vectors = np.linalg.eigh(exchange.all_reduce(square) / count)
    kept = values > max(values.max(initial=0.0) * 1e-5, 1e-10)
    factor = vectors[:, kept] * np.sqrt(values[kept])
    rated = row_counts > 0
    centre = codes[rated].mean(0) if rated.any() else np.zeros(codes.shape[1], np.float32)
    # Those in which columns differ the most are the last.
    return CodeSpace.of(mean, by_features, factor[:, -directions:], centre)


def _weights_of(output: Linear, columns: Longs) -> Floats:
    """(n, width + 1): weights and biases."""
    return np.column_stack([output.weight[columns], output.bias[columns]])


class DecoderFit:
    """Of the ratings that a network was trained on, in the columns that this process has."""

    def __init__(self, network: CFNetwork, part: TrainingPart) -> None:
        self.network, self.part, self.settings = network, part, part.scaling.settings
        self.rows, self.by_column, self.biases, self.scaling = part.rows, part.by_column, part.biases, part.scaling
        matrix, scaling, by_column = part.matrix, part.scaling, part.by_column
        self.row_features, self.column_features = matrix.row_features, matrix.column_features
        self.portion, self._exchange = matrix.portion, matrix.portion.exchange
        self.row_counts = self.portion.row_counts(self.rows)
        self.left_out = LeaveOneOut.of(network, scaling, self.rows, self.row_features, self._exchange)
        whole = self.left_out.whole()
        self.codes = whole.codes
        local = self.settings.decoder == "process" and self.settings.neighbours
        self.space = code_space(
            network.output,
            by_column.counts(),
            self.column_features.trained,
            self.codes,
            self.row_counts,
            self.portion,
            _DIRECTIONS if local else _MORE_DIRECTIONS,
        )
        scaled = scaling.down_values(by_column.values, np.zeros(1, np.float32))
        biases, space, about_columns = part.biases, self.space, self.column_features.trained

        # No methods: in a circle, all of this, the network too, would stay in memory while the next one is trained.
        def expected(columns: Longs) -> tuple[Floats, Floats]:
            """Weights (n, width + 1) and biases (n,), scaled, of columns by their features."""
            return expected_of_columns(space, biases, scaling, about_columns[columns])

        def interactions(rows: Ints | Longs, columns: Ints | Longs) -> Floats:
            """(..., n), scaled: what features of rows (..., n) and columns (...) say together."""
            slopes = biases.slopes
            if slopes is None:
                return np.zeros(rows.shape, np.float32)
            together = slopes.interactions(slopes.rows.trained_inputs[rows], slopes.columns.trained_inputs[columns])
            return together / np.float32(scaling.unit)

        self._interactions = interactions
        self._data = RatedColumns(by_column, scaled, space, whole, self.left_out, expected, interactions)

    @one_blas_thread()
    def learn(self, validation: ValidationPart) -> Learned:
        """The amplitudes that predict validation ratings best; of all columns, and without those of either half."""
        scaling = self.scaling
        rows, columns = validation.entry_rows, validation.entry_columns
        lesson = Lesson(
            self._data,
            HeldOut(
                rows,
                columns,
                scaling.down_values(validation.ratings, scaling.means[rows]),
                self._interactions(rows[:, None], columns)[:, 0],
            ),
            self._data.whole,
            self.portion.row_keys,
            self.portion,
            self.settings.seed,
        )
        learned = lesson.learn(first_amplitudes(self.part))
        learned = self._with_short(self._with_shrinkage(learned, lesson, validation), lesson)
        give_back_freed()
        return learned

    @one_blas_thread()
    def solve(
        self,
        amplitudes: KernelParams,
        share_done: Callable[[float], None] | None = None,
        *,
        only: Bools | None = None,
    ) -> ColumnWeights:
        """The weights of all columns, or only of some (columns,)."""
        solved = solve_columns(self._data, amplitudes, share_done, only=only)
        give_back_freed()
        return solved

    def neighbours(self, amplitudes: KernelParams) -> Neighbours | None:
        """The table of nearest rows, if there is a local kernel."""
        if not amplitudes.local:
            return None
        directions = self.space.projected(self.codes)[1]
        most = min(self.settings.neighbours, max(_MOST_NEIGHBOURS // max(len(directions), 1), 10))
        rated = self.row_counts > 0
        if rated.sum() > MOST_COMPARED:
            # A row with one rating, read without it, is not believed: no column of the training has an alpha there.
            rated &= (self.row_counts > 1) | self.row_features.trained_described
        return Neighbours.of(directions, most, rated, self._exchange)

    def _with_short(self, learned: Learned, lesson: Lesson) -> Learned:
        """With amplitudes for columns with few ratings, learned on columns of which all but a few are left out.

        Where most columns are short, they themselves have told; where no column tells of taste, few ratings do not.
        """
        by_column, amplitudes = self.by_column, learned.amplitudes
        ratings, filled = total(self._exchange, by_column.nnz, (by_column.counts() > 0).sum())
        if not amplitudes.taste or ratings / max(filled, 1) <= 2 * SHORT:
            return learned
        keys = self.portion.column_keys
        first = first_at_random(by_column, max(LENGTHS), lesson.seed, keys, self.portion.row_keys)
        lengths = np.array(LENGTHS)[draws_of(seed_of(lesson.seed, _THINNING_DRAW, 0), keys) % np.uint64(len(LENGTHS))]
        few, kept = thinned(by_column, first, lengths, by_column.counts())
        data = replace(self._data, by_column=few, scaled=self._data.scaled[kept])
        found = replace(lesson, data=data).learn(amplitudes, ("bias", "taste", "cosine", "local"))

        def with_those(of_all: KernelParams, few: KernelParams) -> KernelParams:
            # The table of nearest rows is there or not: it cannot be for some columns only.
            return replace(of_all, short=(few.bias, few.taste, few.cosine, few.local if of_all.local else 0.0))

        return learned.joined(found, with_those)

    def _with_shrinkage(self, learned: Learned, lesson: Lesson, validation: ValidationPart) -> Learned:
        """With a shrinkage of the codes of rows with few ratings, and of rows with features alone, that predicts best.

        Rows of the training may all be long, and the network is trained on them. So those that are asked about are
        read with few of their ratings, or with none.
        """
        scaling, features, exchange = self.scaling, self.row_features, self._exchange
        few = scaling.typical_length > 2 * SHORT  # shorter rows have told by themselves
        names = (*(("half", "power") if few else ()), *(("features",) if features.width else ()))
        if not learned.amplitudes.taste or not names:
            return learned
        lengths = (*(LENGTHS if few else ()), *((0,) if features.width else ()))
        # Rows that any process asks for, and no others: codes of all rows in all lengths would be the largest arrays.
        asked = np.flatnonzero(np.isin(validation.entry_columns, lesson.sample()))
        flags = np.zeros(self.rows.rows, np.uint8)
        flags[validation.entry_rows[asked]] = 1
        needed = np.flatnonzero(exchange.max_(flags))
        count, views = len(needed), 1 + len(lengths)
        encoded = EncodedRows(*(np.empty((views * count, *part.shape[1:]), part.dtype) for part in lesson.rows))
        for at, view in enumerate(chain(self._views(lengths, needed, lesson.seed), [lesson.rows.take(needed)])):
            own = slice(at * count, (at + 1) * count)
            encoded.codes[own], encoded.means[own], encoded.counts[own], encoded.described[own] = view
        rows = np.searchsorted(needed, validation.entry_rows[asked])
        rows = (rows + count * np.arange(views)[:, None]).ravel()
        asked = np.tile(asked, views)
        targets = scaling.down_values(validation.ratings[asked], encoded.means[rows])
        thin = replace(
            lesson,
            held_out=HeldOut(rows, validation.entry_columns[asked], targets, lesson.held_out.interactions[asked]),
            rows=encoded,
            row_keys=np.tile(lesson.row_keys[needed], views),
            views=views,
        )
        begin = learned.amplitudes
        found = thin.learn(replace(begin, features=begin.half) if features.width else begin, names)

        def with_those(of_all: KernelParams, of_few: KernelParams) -> KernelParams:
            changes = {name: getattr(of_few, name) for name in names}
            return replace(of_all, **changes | {"power": min(max(of_few.power, 0.3), 3.0)})

        return learned.joined(found, with_those)

    def _views(self, lengths: Sequence[int], needed: Longs, seed: int) -> Iterator[EncodedRows]:
        """Rows that are read with so many of their ratings."""
        scaling, exchange, features = self.scaling, self._exchange, self.row_features.trained[needed]
        keys = self.portion.row_keys, self.portion.column_keys
        first = first_at_random(self.rows, max(lengths), seed, *keys, exchange)
        expected = scaling.overall + scaling.by_features.expected(features)[:, 0].astype(np.float64)
        for length in lengths:
            thin, _ = thinned(self.rows, first, np.full(self.rows.rows, length), self.row_counts)
            rows = thin.take(needed)
            sums = exchange.all_reduce(rows.row_sums(scaling.without_column(rows.indices, rows.values)))
            counts = self.portion.row_counts(rows)
            means = damped(sums, counts, scaling.damping, expected)
            codes = encode_trained(self.network, replace(scaling, means=means), rows, features, self.portion)
            yield EncodedRows(codes, means, counts, self.row_features.trained_described[needed])


class First(NamedTuple):
    """The first ratings of each row in a random order: ascending places among all ratings, and ranks, from 0."""

    places: Longs
    ranks: Longs


def first_at_random(
    rows: SparseRows, most: int, seed: int, row_keys: Keys, column_keys: Keys, exchange: Exchange = ALONE
) -> First:
    """At most so many ratings of each row. The exchange is with processes that have other ratings of the same rows."""

    def ranked(of_row: Longs, draws: Keys) -> Longs:
        # Many times as quick as sorting by two keys; what is cut off the draws hardly ever ties.
        bits = np.uint64(max(rows.rows, 1).bit_length())
        order = np.argsort((of_row.astype(np.uint64) << (np.uint64(64) - bits)) | (draws >> bits))
        starts = np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=rows.rows))])
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order)) - starts[of_row[order]]
        return ranks

    draw, parts = seed_of(seed, _THINNING_DRAW, 1), []
    # Some rows at a time: draws of all ratings would be the largest arrays of a training.
    cuts = np.unique(np.searchsorted(rows.indptr, np.arange(0, rows.nnz, _DRAWN_AT_ONCE), "left"))
    for start, end in pairwise([*cuts.tolist(), rows.rows]):
        indptr = rows.indptr[start : end + 1]
        own = slice(int(indptr[0]), int(indptr[-1]))
        draws = draws_of_entries(draw, row_keys[start:end], column_keys, indptr - own.start, rows.indices[own])
        of_row = np.repeat(np.arange(start, end), np.diff(indptr))
        ranks = ranked(of_row, draws)
        few = np.flatnonzero(ranks < most)
        parts.append((few + own.start, ranks[few], of_row[few], draws[few]))
    nothing = np.empty(0, np.int64)
    places, ranks, of_row = (np.concatenate([nothing, *(part[n] for part in parts)]) for n in range(3))
    if exchange.size > 1:
        draws = np.concatenate([np.empty(0, np.uint64), *(part[3] for part in parts)])
        all_rows, all_draws = exchange.gather(of_row), exchange.gather(draws)
        begin = sum(len(part) for part in all_rows[: exchange.rank])
        ranks = ranked(np.concatenate(all_rows), np.concatenate(all_draws))[begin : begin + len(places)]
    return First(places, ranks)


def thinned(rows: SparseRows, first: First, lengths: Longs, counts: Longs) -> tuple[SparseRows, Longs]:
    """Rows of which so many ratings (rows,) are left, drawn at random, and the places of these among all.

    Half of them are left if these are fewer; of a single rating it is that. `counts` (rows,) are of all processes.
    """
    wanted = np.minimum(lengths, np.maximum(counts // 2, 1))
    of_row = np.searchsorted(rows.indptr, first.places, "right") - 1
    kept = first.places[first.ranks < wanted[of_row]]
    ends = np.searchsorted(kept, rows.indptr).astype(np.int64)
    return SparseRows(ends, rows.indices[kept], rows.values[kept], rows.columns), kept
