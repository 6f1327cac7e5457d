"""The amplitudes of the decoder's kernel, learned on validation ratings.

They minimise the squared error of predicting what was held out, with a prior that keeps them where they began if the
data tells little: sum e^2 / (2 noise) + 1/2 sum ((log theta - log theta_0) / 3)^2. Not by the marginal likelihood of
the training ratings: the network has seen these, and would be believed too much.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows
from cofill.exchange import Exchange, total
from cofill.models.decoder.inverse import Inverse
from cofill.models.decoder.kernel import Amplitudes, CodeSpace, local_kernel
from cofill.models.decoder.solving import (
    ColumnBatch,
    LeftOut,
    batches,
    diagonals,
    inner_products,
    read_batch,
    said_by,
)
from cofill.models.portion import Portion
from cofill.models.rng import draws_of, seed_of

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]

# A sample of columns is enough to learn six numbers: its kernels are kept, so it is bounded by the sum of squares.
_SAMPLE_SQUARES = 3_000_000
_MORE_SQUARES = 6_000_000
_ENOUGH_ASKED = 16
_LONGEST = 500
_PRIOR_WIDTH = 3.0
_FARTHEST = 6.0  # from where it begins, in logarithms
_MOST_STEPS = 30
_BEYOND_CHANCE = 2.0  # standard errors
_LEAST_LOCAL_GAIN = 5e-4  # of the squared error
_ENOUGH = 1e-6  # relative improvement of a step below which learning ends
# How they settle in the end, in logarithms.
_MOST_SETTLING = 60
_NEARLY_SETTLED = 3e-3
_SETTLED = 1e-6
_HALVINGS = 6
_APART = 1e-2
_LARGEST_STEP = 0.5
_LEAST_CURVATURE = 0.5 / _PRIOR_WIDTH**2  # half of what the prior alone has
_DRAW, _HALF_DRAW = 0xA3B, 0xA1F


ExpectedOf = Callable[[Longs], tuple[Floats, Floats]]
"""Columns -> what their features lead one to expect of their weights and biases."""
Cost = Callable[[Doubles], tuple[float, Doubles]]
"""Logarithms of amplitudes -> what they cost, and its slope."""


class HeldOut(NamedTuple):
    """Validation ratings: which rows and columns, and what is to be predicted: scaled, less the rows' deviations."""

    rows: Longs
    columns: Ints
    targets: Floats


class Learned(NamedTuple):
    amplitudes: Amplitudes
    crossed: tuple[Amplitudes, Amplitudes]  # learned without the columns of either half (`halves_of`)


def halves_of(seed: int, portion: Portion) -> Longs:
    """(own columns,), 0 or 1: which half a column is in. What one half has taught is judged by the other."""
    return (draws_of(seed_of(seed, _HALF_DRAW), portion.column_keys) & np.uint64(1)).astype(np.int64)


def learn(
    by_column: SparseRows,
    scaled: Floats,
    space: CodeSpace,
    first: Amplitudes,
    left_out: LeftOut,
    held_out: HeldOut,
    codes: Floats,
    row_counts: Longs,
    described: Bools,
    expected: "ExpectedOf",
    portion: Portion,
    *,
    seed: int,
    names: tuple[str, ...] = ("bias", "taste", "cosine", "local", "half", "mean"),
) -> Learned:
    """From the training part, column by column, and the codes (rows, width) of its rows; `names` are learned.

    `described` (rows,): which rows have side features.
    `expected` tells weights (n, width + 1) and biases (n,) of columns by their features.
    """
    exchange = portion.exchange
    # Those of a column in an order of their own.
    order = np.lexsort((portion.row_keys[held_out.rows], held_out.columns))
    ends = np.concatenate([[0], np.cumsum(np.bincount(held_out.columns, minlength=by_column.rows))])
    counts = by_column.counts()

    def read(columns: Longs) -> list[_Batch]:
        known = []
        for batch in batches(by_column, columns, len(space.centre), _ENOUGH_ASKED):
            # Of a column with many validation ratings some are enough, or the asked rows would be most of the work.
            # How many is the column's own affair: which others are in its batch depends on the processes.
            enough = np.maximum(_ENOUGH_ASKED, counts[batch.columns] // 4)
            count = np.minimum(ends[batch.columns + 1] - ends[batch.columns], enough)[:, None]
            turn = np.arange(int(count.max()))
            places = np.minimum(ends[batch.columns][:, None] + turn, len(order) - 1)
            asked = np.where(turn < count, order[places], -1)
            known.append(
                _Batch.read(
                    batch, asked, by_column, scaled, space, left_out, held_out, codes, row_counts, described, expected
                )
            )
        return known

    sample, more, whether_more = _samples(by_column, held_out, seed, portion)
    halves = halves_of(seed, portion)
    parts = [read(sample[halves[sample] == half]) for half in (0, 1)]
    known = [*parts[0], *parts[1]]
    if not total(exchange, len(known))[0]:
        return Learned(first, (first, first))
    names = tuple(name for name in names if name not in ("local", "mean") or getattr(first, name))
    begin = np.log([max(getattr(first, name), 1e-8) for name in names])

    def cost(at: Doubles, of: list[_Batch] = known, *, precise: bool = False) -> tuple[float, Doubles]:
        amplitudes = replace(first, **dict(zip(names, np.exp(at).tolist(), strict=True)))
        error, slope = 0.0, np.zeros(len(names))
        for part in of:
            part_error, part_slope = part.error(amplitudes, names, precise=precise)
            error += part_error
            slope += part_slope
        error, *summed = total(exchange, error, *slope)  # so every process goes the same way
        slope = np.array(summed)
        away = (at - begin) / _PRIOR_WIDTH
        return error / (2 * first.noise) + 0.5 * float(away @ away), slope / (2 * first.noise) + away / _PRIOR_WIDTH

    bounds = [(value - _FARTHEST, value + _FARTHEST) for value in begin]
    from scipy.optimize import minimize

    # Most of the way on few columns, the rest on many.
    rough = minimize(
        cost, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _MOST_STEPS, "ftol": _ENOUGH}
    )
    roughly = partial(cost, of=list(known))
    if whether_more:
        for half, part in enumerate(parts):
            part += read(more[halves[more] == half])
        known[:] = [*parts[0], *parts[1]]
    at = _settled(np.asarray(rough.x), cost, partial(cost, precise=True), roughly, bounds)

    def found_at(place: Doubles) -> Amplitudes:
        return replace(first, **dict(zip(names, np.exp(place).tolist(), strict=True)))

    learned = _without_what_is_useless(found_at(at), first.bias, known, exchange)
    # Where one half alone would have settled is a Newton step away.
    value, _ = cost(at)
    curvature = _curvature(at, roughly, value)
    crossed = []
    for own in (parts[1], parts[0]):
        part_value, slope = cost(at, own)
        share = part_value / value if value > 0 else 1.0
        step = -np.linalg.solve(share * curvature + (1 - share) * np.eye(len(at)) / _PRIOR_WIDTH**2, slope)
        step *= min(1.0, _LARGEST_STEP / max(np.abs(step).max(), 1e-12))
        crossed.append(_with_parts_of(found_at(np.clip(at + step, *np.array(bounds).T)), learned))
    return Learned(learned, (crossed[0], crossed[1]))


def _with_parts_of(amplitudes: Amplitudes, learned: Amplitudes) -> Amplitudes:
    """Without the parts of the kernel that were found to be useless."""
    if not learned.taste:
        return learned
    return amplitudes if learned.local else replace(amplitudes, local=0.0)


def _settled(at: Doubles, cost: Cost, precise: Cost, roughly: Cost, bounds: list[tuple[float, float]]) -> Doubles:
    """Where the slopes are zero, by quasi-Newton steps (BFGS) from where a search has ended.

    The search ends where steps gain next to nothing, which may be anywhere on the flat ground around the lowest point:
    rounding, which differs with the number of processes, decides where. Slopes are zero at one point alone.

    Steps follow `cost` as long as they are long, and then `precise`, which is the same in double precision. How slopes
    change is told at first by a cost that is `roughly` a share of the whole, and cheaper than either.
    """
    low, high = np.array(bounds).T
    value, slope = cost(at)
    curvature = _curvature(at, roughly, value)
    for asked, enough in ((cost, _NEARLY_SETTLED), (precise, _SETTLED)):
        if asked is precise:
            value, slope = precise(at)
        for _ in range(_MOST_SETTLING):
            # What presses against a bound stays there.
            free = np.flatnonzero(~(((at <= low) & (slope > 0)) | ((at >= high) & (slope < 0))))
            step = np.zeros_like(at)
            step[free] = -np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
            if np.abs(step).max() < enough:
                break
            step *= min(1.0, _LARGEST_STEP / np.abs(step).max())
            for _ in range(_HALVINGS):
                there = np.clip(at + step, low, high)
                value_there, slope_there = asked(there)
                if value_there <= value:
                    break
                step /= 2
            else:
                break  # nothing lower that way, as far as this precision tells
            moved, change = there - at, slope_there - slope
            at, value, slope = there, value_there, slope_there
            along = curvature @ moved
            if moved @ change > 1e-3 * (moved @ along):  # positive definite it stays
                curvature = (
                    curvature + np.outer(change, change) / (change @ moved) - np.outer(along, along) / (moved @ along)
                )
    return at


def _curvature(at: Doubles, roughly: Cost, whole: float) -> Doubles:
    """(n, n), positive definite: by differences of slopes, of a cost that is `roughly` a share of the whole."""
    part, slope = roughly(at)
    around = at + _APART * np.eye(len(at))
    # Where all ratings are equal nothing is wrong anywhere, and both are 0.
    times, share = (whole, part) if part > 0 else (1.0, 1.0)
    found = np.array([roughly(place)[1] - slope for place in around]) * times / (share * _APART)
    values, vectors = np.linalg.eigh((found + found.T) / 2)
    return np.asarray((vectors * np.maximum(values, _LEAST_CURVATURE)) @ vectors.T)


def _without_what_is_useless(learned: Amplitudes, bias: float, known: list["_Batch"], exchange: Exchange) -> Amplitudes:
    """Taste is kept only if validation ratings gain by it beyond chance, and its local kernel, which costs a table of
    the nearest rows, only if they gain by that.

    Some gain there always is, as the amplitudes were learned on these very ratings. Where it may be chance, the biases
    remain, with their own variance `bias`: with noise alone, following chance costs a tenth of a percent of the RMSE.
    """
    wrong = [part.squared_errors(learned) for part in known]
    gains = [part.squared_errors(biases_of(learned, bias)) - own for part, own in zip(known, wrong, strict=True)]
    # A column's ratings are not independent: chance is that of columns.
    error, gain, chance = total(
        exchange,
        sum(own.sum() for own in wrong),
        sum(gained.sum() for gained in gains),
        sum((gained**2).sum() for gained in gains),
    )
    if gain < _BEYOND_CHANCE * chance**0.5:
        return biases_of(learned, bias)
    if not learned.local:
        return learned
    without = replace(learned, local=0.0)
    after = total(exchange, sum(part.squared_errors(without).sum() for part in known))[0]
    return without if after < (1 + _LEAST_LOCAL_GAIN) * error else learned


def biases_of(amplitudes: Amplitudes, bias: float) -> Amplitudes:
    """Nothing but the columns' deviations, of variance `bias`, and what is expected of them by their features."""
    return replace(amplitudes, bias=bias, taste=0.0, cosine=0.0, local=0.0)


def _samples(by_column: SparseRows, held_out: HeldOut, seed: int, portion: Portion) -> tuple[Longs, Longs, bool]:
    """Some columns of all lengths with ratings of both parts, some more, and whether any process has more."""
    exchange = portion.exchange
    counts = by_column.counts()
    asked = np.bincount(held_out.columns, minlength=by_column.rows) > 0
    candidates = np.flatnonzero(asked & (counts > 0))
    bearable = counts[candidates] <= _LONGEST
    if total(exchange, bearable.sum())[0]:  # where all are longer, the first few of these, or one
        candidates = candidates[bearable]
    draws = draws_of(seed_of(seed, _DRAW), portion.column_keys[candidates])
    order = np.argsort(draws, kind="stable")
    # A column costs its square, and a little for being there. What the first ones of this process cost alone is enough
    # for the sample of all processes.
    costs = counts[candidates[order]].astype(np.float64) ** 2 + 64
    order = order[: int((np.cumsum(costs) <= _MORE_SQUARES).sum()) + 1]
    mine, all_costs = (np.concatenate(exchange.gather(part)) for part in (draws[order], costs[: len(order)]))
    in_all = np.argsort(mine, kind="stable")
    squares = np.cumsum(all_costs[in_all])
    few, many = (int((squares <= most).sum()) for most in (_SAMPLE_SQUARES, _MORE_SQUARES))
    few = max(few, 1)
    last = np.append(mine[in_all], np.uint64(0))  # of no use where there are no columns at all
    of_few = draws[order] <= last[min(few, len(in_all)) - 1]
    of_more = (draws[order] <= last[max(min(many, len(in_all)), few) - 1]) & ~of_few
    chosen = candidates[order]
    return chosen[of_few], chosen[of_more], many > few


@dataclass(frozen=True)
class _Batch:
    """A batch of columns with all that amplitudes are multiplied by: between the rows that they rated (n), and between
    these and the rows that are asked about (q). Padded places count nothing.
    """

    taste: Floats  # (B, n, n)
    cosine: Floats
    near: Floats
    asked_taste: Floats  # (B, q, n)
    asked_cosine: Floats
    asked_near: Floats
    said: Floats  # (B, n): what all columns, and columns with such features, are expected to say
    asked_said: Floats  # (B, q)
    counts: Floats  # (B, n): ratings of the rows
    asked_counts: Floats
    described: Bools
    asked_described: Bools
    targets: Floats  # (B, n), less the expected bias
    asked_targets: Floats
    there: Floats  # (B, n), 1 or 0
    asked_there: Floats

    @classmethod
    def read(
        cls,
        batch: ColumnBatch,
        asked: Longs,
        by_column: SparseRows,
        scaled: Floats,
        space: CodeSpace,
        left_out: LeftOut,
        held_out: HeldOut,
        codes: Floats,
        row_counts: Longs,
        described: Bools,
        expected: "ExpectedOf",
    ) -> Self:
        read = read_batch(batch, by_column, space, left_out, scaled)
        places = np.maximum(asked, 0)
        rows = held_out.rows[places]
        asked_codes = codes[rows.ravel()]
        along = space.along(asked_codes).reshape(*asked.shape, -1)
        directions = space.directions(asked_codes).reshape(*asked.shape, -1)
        weights, offset = expected(batch.columns)
        cosine, asked_cosine = (inner_products(part, read.directions) for part in (read.directions, directions))
        return cls(
            taste=inner_products(read.along, read.along),
            cosine=cosine,
            near=local_kernel(cosine),
            asked_taste=inner_products(along, read.along),
            asked_cosine=asked_cosine,
            asked_near=local_kernel(asked_cosine),
            said=said_by(weights, read.codes),
            asked_said=said_by(weights, asked_codes.reshape(*asked.shape, -1)),
            counts=read.counts,
            asked_counts=row_counts[rows].astype(np.float32),
            described=read.described,
            asked_described=described[rows],
            targets=read.targets - offset[:, None],
            asked_targets=held_out.targets[places] - offset[:, None],
            there=read.there.astype(np.float32),
            asked_there=(asked >= 0).astype(np.float32),
        )

    def squared_errors(self, amplitudes: Amplitudes) -> Doubles:
        """(B,): summed over the validation ratings of each column."""
        wrong = (self._solved(amplitudes).predicted - self.asked_targets) * self.asked_there
        return np.asarray(np.sum(wrong.astype(np.float64) ** 2, axis=1))

    def error(self, amplitudes: Amplitudes, names: Sequence[str], *, precise: bool = False) -> tuple[float, Doubles]:
        """The sum of squared errors, and its slope by the logarithm of each amplitude; in double precision or not."""
        return self.in_double()._error(amplitudes, names) if precise else self._error(amplitudes, names)

    def in_double(self) -> Self:
        parts: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        parts |= {name: part.astype(np.float64) for name, part in parts.items() if part.dtype == np.float32}
        return replace(self, **parts)

    def _error(self, amplitudes: Amplitudes, names: Sequence[str]) -> tuple[float, Doubles]:
        s = self._solved(amplitudes)
        wrong = (s.predicted - self.asked_targets) * self.asked_there
        # How an error is felt by the ratings that the prediction was made of.
        back = s.inverse.times((wrong[:, None] @ s.between).transpose(0, 2, 1))[:, :, 0] * self.there
        slope = np.array([2 * self._slope(name, amplitudes, s, wrong, back) for name in names])
        # Sums in double precision: steps are taken until they gain next to nothing, which rounding would hide.
        return _dot(wrong, wrong), slope

    def _solved(self, amplitudes: Amplitudes) -> "_Solved":
        trust = amplitudes.trust(self.counts, self.described) * self.there
        asked_trust = amplitudes.trust(self.asked_counts, self.asked_described)
        inner = self._inner(amplitudes, self.taste, self.cosine, self.near)
        inner *= trust[:, :, None]
        inner *= trust[:, None, :]
        asked_inner = self._inner(amplitudes, self.asked_taste, self.asked_cosine, self.asked_near)
        asked_inner *= asked_trust[:, :, None]
        asked_inner *= trust[:, None, :]
        gram = self.there[:, :, None] * (amplitudes.bias * self.there)[:, None, :]
        gram += inner
        diagonals(gram)[:] += np.where(self.there > 0, amplitudes.noise, 1.0)
        between = asked_inner + amplitudes.bias * self.there[:, None, :]
        left = (self.targets - amplitudes.mean * trust * self.said) * self.there
        inverse = Inverse(gram)
        alpha = inverse.times(left[:, :, None])[:, :, 0] * self.there
        predicted = (between @ alpha[:, :, None])[:, :, 0] + amplitudes.mean * asked_trust * self.asked_said
        return _Solved(inverse, between, inner, asked_inner, trust, asked_trust, alpha, predicted)

    @staticmethod
    def _inner(amplitudes: Amplitudes, taste: Floats, cosine: Floats, near: Floats) -> Floats:
        """The kernel of codes, whatever they are trusted."""
        inner: Floats = amplitudes.taste * taste
        inner += amplitudes.cosine * cosine
        if amplitudes.local:
            inner += amplitudes.local * near
        return inner

    def _slope(self, name: str, amplitudes: Amplitudes, s: "_Solved", wrong: Floats, back: Floats) -> float:
        """Half of that of the squared error, by the logarithm of an amplitude: wrong . dB alpha - back . dK alpha

        for the kernels B between asked rows and ratings and K between ratings, and likewise for what is expected.
        Matrices are only multiplied with vectors here: the kernels that change would be the larger part of the work.
        """
        value: float = getattr(amplitudes, name)
        if name == "bias":
            return value * _dot(wrong.sum(1) - back.sum(1), s.alpha.sum(1))
        if name in ("taste", "cosine", "local"):
            inside, between = {
                "taste": (self.taste, self.asked_taste),
                "cosine": (self.cosine, self.asked_cosine),
                "local": (self.near, self.asked_near),
            }[name]
            weighted = (s.trust * s.alpha)[:, :, None]
            asked, rated = ((kernel @ weighted)[:, :, 0] for kernel in (between, inside))
            return value * (_dot(wrong * s.asked_trust, asked) - _dot(back * s.trust, rated))
        own, asked_own = amplitudes.mean * s.trust * self.said, amplitudes.mean * s.asked_trust * self.asked_said
        if name == "mean":
            return _dot(wrong, asked_own) - _dot(back, own)
        # d log trust / d log half
        doubt, asked_doubt = amplitudes.power * (s.trust - 1), amplitudes.power * (s.asked_trust - 1)
        both = np.stack([s.alpha, doubt * s.alpha], 2)  # (B, n, 2)
        asked, rated = (kernel @ both for kernel in (s.asked_inner, s.inner))
        by_asked = asked_doubt * (asked[:, :, 0] + asked_own) + asked[:, :, 1]
        return _dot(wrong, by_asked) - _dot(back, doubt * (rated[:, :, 0] + own) + rated[:, :, 1])


def _dot(one: Floats, other: Floats) -> float:
    return float(np.sum(one * other, dtype=np.float64))


class _Solved(NamedTuple):
    """A batch at given amplitudes."""

    inverse: Inverse  # of the kernel between ratings, with noise
    between: Floats
    inner: Floats
    asked_inner: Floats
    trust: Floats
    asked_trust: Floats
    alpha: Floats
    predicted: Floats
