"""The amplitudes of the decoder's kernel, learned on validation ratings.

They minimise the squared error of predicting what was held out, with a prior that keeps them where they began if the
data tells little: sum e^2 / (2 noise) + 1/2 sum ((log theta - log theta_0) / 3)^2. Not by the marginal likelihood of
the training ratings: the network has seen these, and would be believed too much.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from cofill.data.sparse import SparseRows
from cofill.models.decoder.kernel import SHARPNESS, Amplitudes, CodeSpace
from cofill.models.decoder.solving import ColumnBatch, Inverse, LeftOut, batches, in_space, read_batch

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

# A sample of columns is enough to learn six numbers: its kernels are kept, so it is bounded by the sum of squares.
_SAMPLE_SQUARES = 3_000_000
_MORE_SQUARES = 6_000_000
_ENOUGH_ASKED = 16
_LONGEST = 500
_PRIOR_WIDTH = 3.0
_FARTHEST = 6.0  # from where it begins, in logarithms
_MOST_STEPS = 30
_LAST_STEPS = 6
_LEAST_LOCAL_GAIN = 5e-4  # of the squared error
_ENOUGH = 1e-7  # relative improvement of a step below which learning ends


class HeldOut(NamedTuple):
    """Validation ratings: which rows and columns, and what is to be predicted: scaled, less the rows' deviations."""

    rows: Longs
    columns: Ints
    targets: Floats


class Learned(NamedTuple):
    amplitudes: Amplitudes
    asked: Longs  # places in the held-out part that were used
    predicted: Floats  # there, scaled, less the rows' deviations
    variances: Floats  # posterior ones of that, without noise


def learn(
    by_column: SparseRows,
    scaled: Floats,
    space: CodeSpace,
    first: Amplitudes,
    left_out: LeftOut,
    held_out: HeldOut,
    codes: Floats,
    row_counts: Longs,
    expected: tuple[Floats, Floats],
    *,
    seed: int,
    names: tuple[str, ...] = ("bias", "taste", "cosine", "local", "half", "mean"),
) -> Learned:
    """From the training part, column by column, and the codes (rows, width) of its rows; `names` are learned.

    `expected` are weights (columns, width + 1) and biases (columns,) of columns by their features.
    """
    order = np.argsort(held_out.columns, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(held_out.columns, minlength=by_column.rows))])

    def read(columns: Longs) -> list[_Batch]:
        known = []
        for batch in batches(by_column, columns, len(space.centre)):
            # Of a column with many validation ratings some are enough, or the asked rows would be most of the work.
            enough = max(_ENOUGH_ASKED, batch.places.shape[1] // 4)
            most = min(int((ends[batch.columns + 1] - ends[batch.columns]).max()), enough)
            places = ends[batch.columns][:, None] + np.arange(most)
            asked = np.where(places < ends[batch.columns + 1][:, None], order[np.minimum(places, len(order) - 1)], -1)
            known.append(
                _Batch.read(batch, asked, by_column, scaled, space, left_out, held_out, codes, row_counts, expected)
            )
        return known

    sample, more = _samples(by_column, held_out, seed)
    known = read(sample)
    if not known:
        return Learned(first, np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.float32))
    names = tuple(name for name in names if name not in ("local", "mean") or getattr(first, name))
    begin = np.log([max(getattr(first, name), 1e-8) for name in names])

    def cost(at: Doubles) -> tuple[float, Doubles]:
        amplitudes = replace(first, **dict(zip(names, np.exp(at).tolist(), strict=True)))
        error, slope = 0.0, np.zeros(len(names))
        for part in known:
            part_error, part_slope = part.error(amplitudes, names)
            error += part_error
            slope += part_slope
        away = (at - begin) / _PRIOR_WIDTH
        return error / (2 * first.noise) + 0.5 * float(away @ away), slope / (2 * first.noise) + away / _PRIOR_WIDTH

    def lowest(start: Doubles, steps: int) -> Doubles:
        bounds = [(value - _FARTHEST, value + _FARTHEST) for value in begin]
        found = minimize(
            cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps, "ftol": _ENOUGH}
        )
        return np.asarray(found.x)

    at = lowest(begin, _MOST_STEPS)
    if len(more):  # most of the way on few columns, the rest on many
        known += read(more)
        at = lowest(at, _LAST_STEPS)
    first = replace(first, **dict(zip(names, np.exp(at).tolist(), strict=True)))
    first = _without_local_if_useless(first, known)
    found_at = [part.predicted(first) for part in known]
    return Learned(first, *(np.concatenate(parts) for parts in zip(*found_at, strict=True)))


def _without_local_if_useless(learned: Amplitudes, known: list["_Batch"]) -> Amplitudes:
    """The local kernel costs a table of the nearest rows: it is kept only if validation ratings gain by it."""
    if not learned.local:
        return learned
    without = replace(learned, local=0.0)
    before, after = (sum(part.error(one, [])[0] for part in known) for one in (learned, without))
    return without if after < (1 + _LEAST_LOCAL_GAIN) * before else learned


def _samples(by_column: SparseRows, held_out: HeldOut, seed: int) -> tuple[Longs, Longs]:
    """Some columns of all lengths with ratings of both parts, and some more."""
    counts = by_column.counts()
    asked = np.bincount(held_out.columns, minlength=by_column.rows) > 0
    candidates = np.flatnonzero(asked & (counts > 0) & (counts <= _LONGEST))
    if not len(candidates):
        candidates = np.flatnonzero(asked & (counts > 0))[:1]
    shuffled = np.random.default_rng([seed, 0xA3B]).permutation(candidates)
    # A column costs its square, and a little for being there.
    squares = np.cumsum(counts[shuffled].astype(np.float64) ** 2 + 64)
    few, many = (int((squares <= most).sum()) for most in (_SAMPLE_SQUARES, _MORE_SQUARES))
    return shuffled[: max(few, 1)], shuffled[max(few, 1) : many]


@dataclass(frozen=True)
class _Batch:
    """A batch of columns with all that amplitudes are multiplied by: between the rows that they rated (n), and between
    these and the rows that are asked about (q). Padded places count nothing.
    """

    taste: Tensor  # (B, n, n)
    cosine: Tensor
    near: Tensor
    asked_taste: Tensor  # (B, q, n)
    asked_cosine: Tensor
    asked_near: Tensor
    asked_square: Tensor  # (B, q): of the lengths of what is seen along the directions
    said: Tensor  # (B, n): what all columns, and columns with such features, are expected to say
    asked_said: Tensor  # (B, q)
    counts: Tensor  # (B, n): ratings of the rows
    asked_counts: Tensor
    targets: Tensor  # (B, n), less the expected bias
    asked_targets: Tensor
    offset: Tensor  # (B, 1): the expected bias
    there: Tensor  # (B, n), 1 or 0
    asked_there: Tensor
    places: Longs  # (B, q), -1 where padded

    @classmethod
    @torch.no_grad()
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
        expected: tuple[Floats, Floats],
    ) -> Self:
        read = read_batch(batch, by_column, space, left_out, scaled)
        places = np.maximum(asked, 0)
        rows = held_out.rows[places]
        asked_codes = torch.from_numpy(codes[rows.ravel()])
        along, directions = (part.view(*asked.shape, -1) for part in in_space(space, asked_codes))
        weights, offset = (torch.from_numpy(part[batch.columns]) for part in expected)
        cosine, asked_cosine = (torch.bmm(d, read.directions.transpose(1, 2)) for d in (read.directions, directions))
        taste, asked_taste = (torch.bmm(a, read.along.transpose(1, 2)) for a in (read.along, along))

        def said(seen: Tensor) -> Tensor:
            return torch.bmm(seen, weights[:, :-1, None])[:, :, 0] + weights[:, -1:]

        return cls(
            taste=taste,
            cosine=cosine,
            near=torch.exp(SHARPNESS * (cosine - 1)),
            asked_taste=asked_taste,
            asked_cosine=asked_cosine,
            asked_near=torch.exp(SHARPNESS * (asked_cosine - 1)),
            asked_square=(along**2).sum(2),
            said=said(read.codes),
            asked_said=said(asked_codes.view(*asked.shape, -1)),
            counts=read.counts,
            asked_counts=torch.from_numpy(row_counts[rows].astype(np.float32)),
            targets=read.targets - offset[:, None],
            asked_targets=torch.from_numpy(held_out.targets[places]) - offset[:, None],
            offset=offset[:, None],
            there=read.there.float(),
            asked_there=torch.from_numpy(asked >= 0).float(),
            places=asked,
        )

    @torch.no_grad()
    def predicted(self, amplitudes: Amplitudes) -> tuple[Longs, Floats, Floats]:
        """Places in the held-out part, what is predicted there, and how uncertain that is."""
        known = self.places >= 0
        s = self._solved(amplitudes)
        inner = amplitudes.taste * self.asked_square + amplitudes.cosine + amplitudes.local
        prior = amplitudes.bias + s.asked_trust**2 * inner
        explained = (s.between * s.inverse.times(s.between.transpose(1, 2)).transpose(1, 2)).sum(2)
        variances = (prior - explained).clamp_min(0)
        return self.places[known], (s.predicted + self.offset).numpy()[known], variances.numpy()[known]

    @torch.no_grad()
    def error(self, amplitudes: Amplitudes, names: Sequence[str]) -> tuple[float, Doubles]:
        """The sum of squared errors, and its slope by the logarithm of each amplitude."""
        s = self._solved(amplitudes)
        wrong = (s.predicted - self.asked_targets) * self.asked_there
        # How an error is felt by the ratings that the prediction was made of.
        back = s.inverse.times(torch.bmm(wrong[:, None], s.between).transpose(1, 2))[:, :, 0]
        slope = []
        for name in names:
            inside, between, own, asked_own = self._slopes(name, amplitudes, s)
            moved = torch.bmm(wrong[:, None], torch.bmm(between, s.alpha[:, :, None]))
            moved = moved - torch.bmm(back[:, None], torch.bmm(inside, s.alpha[:, :, None]))
            total = float(moved.sum())
            if own is not None and asked_own is not None:
                total += float((wrong * asked_own).sum() - (back * own).sum())
            slope.append(2 * total)
        return float((wrong**2).sum()), np.array(slope)

    def _solved(self, amplitudes: Amplitudes) -> "_Solved":
        half, power = amplitudes.half, amplitudes.power
        trust = (1 - 1 / (1 + (self.counts / half) ** power)) * self.there
        asked_trust = 1 - 1 / (1 + (self.asked_counts / half) ** power)
        inner = amplitudes.taste * self.taste + amplitudes.cosine * self.cosine
        asked_inner = amplitudes.taste * self.asked_taste + amplitudes.cosine * self.asked_cosine
        if amplitudes.local:
            inner += amplitudes.local * self.near
            asked_inner += amplitudes.local * self.asked_near
        both, asked_both = trust[:, :, None] * trust[:, None, :], asked_trust[:, :, None] * trust[:, None, :]
        inner *= both
        asked_inner *= asked_both
        pairs = self.there[:, :, None] * self.there[:, None, :]
        gram = inner + amplitudes.bias * pairs
        gram.diagonal(dim1=1, dim2=2).add_(torch.where(self.there > 0, amplitudes.noise, 1.0))
        between = asked_inner + amplitudes.bias * self.there[:, None, :]
        left = (self.targets - amplitudes.mean * trust * self.said) * self.there
        inverse = Inverse(gram)
        alpha = inverse.times(left[:, :, None])[:, :, 0] * self.there
        predicted = torch.bmm(between, alpha[:, :, None])[:, :, 0] + amplitudes.mean * asked_trust * self.asked_said
        return _Solved(
            inverse, between, inner, asked_inner, both, asked_both, pairs, trust, asked_trust, alpha, predicted
        )

    def _slopes(
        self, name: str, amplitudes: Amplitudes, s: "_Solved"
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """By the logarithm of an amplitude: of the kernel between ratings, of that between asked rows and ratings,
        and of what is expected at ratings and at asked rows.
        """
        value = getattr(amplitudes, name)
        if name == "bias":
            return value * s.pairs, (value * self.there)[:, None, :].expand(s.between.shape), None, None
        if name in ("taste", "cosine", "local"):
            inside, between = {
                "taste": (self.taste, self.asked_taste),
                "cosine": (self.cosine, self.asked_cosine),
                "local": (self.near, self.asked_near),
            }[name]
            return value * inside * s.both, value * between * s.asked_both, None, None
        own, asked_own = amplitudes.mean * s.trust * self.said, amplitudes.mean * s.asked_trust * self.asked_said
        if name == "mean":
            return torch.zeros_like(s.inner), torch.zeros_like(s.between), own, asked_own
        # d log trust / d log half
        doubt, asked_doubt = amplitudes.power * (s.trust - 1), amplitudes.power * (s.asked_trust - 1)
        return (
            s.inner * (doubt[:, :, None] + doubt[:, None, :]),
            s.asked_inner * (asked_doubt[:, :, None] + doubt[:, None, :]),
            own * doubt,
            asked_own * asked_doubt,
        )


class _Solved(NamedTuple):
    """A batch at given amplitudes."""

    inverse: Inverse  # of the kernel between ratings, with noise
    between: Tensor
    inner: Tensor
    asked_inner: Tensor
    both: Tensor
    asked_both: Tensor
    pairs: Tensor
    trust: Tensor
    asked_trust: Tensor
    alpha: Tensor
    predicted: Tensor
