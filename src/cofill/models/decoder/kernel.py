"""Amplitudes of the decoder's kernel, the directions of codes, and the posterior of one column."""

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.models.ridge import FeatureRegression

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# How quickly the local kernel falls with the angle between two codes. Sharp enough to be cut to the nearest rows: what
# is wider than that is seen by the cosine kernel, which costs nothing. Chosen on validation ratings of four data sets.
SHARPNESS = 8.0
_LEAST_LENGTH = 1e-6
# Ratings of a column up to which the local kernel between all of them is worked out.
MOST_LOCAL = 2000
# Ratings up to which a column counts as short.
SHORT = 20


@dataclass(frozen=True)
class Amplitudes:
    """Variances in squares of scaled ratings; `half` and `features` are numbers of ratings."""

    noise: float
    bias: float  # of a column's deviation
    taste: float
    cosine: float
    local: float
    half: float  # ratings with which a row's code is believed half
    mean: float  # share of what all columns have in common, and of what their features lead one to expect
    features: float  # ratings that a row's side features are worth
    power: float = 1.0  # how sharply trust rises with the number of a row's ratings
    short: tuple[float, float, float, float] | None = None  # bias, taste, cosine, local of columns with few ratings

    @classmethod
    def at_first(cls, noise: float, bias: float, *, local: bool, described: bool) -> Self:
        """Before anything is learned: little is believed. `described`: whether columns have side features.

        Without them, what all columns have in common is left to the deviations of the rows, so that somebody of whom
        nothing is known gets the biases.
        """
        some = 0.05 * noise
        return cls(noise, bias, 0.3, some, some if local else 0.0, 3.0, 0.3 if described else 0.0, 0.0)

    def as_array(self) -> Doubles:
        numbers = [getattr(self, field.name) for field in fields(self) if field.name != "short"]
        return np.array([*numbers, *(self.short or ())], np.float64)

    @classmethod
    def from_array(cls, values: Doubles) -> Self:
        """ValueError where they make no sense."""
        count = len(fields(cls)) - 1
        if len(values) not in (count, count + 4) or not np.isfinite(values).all() or (values < 0).any():
            raise ValueError("the amplitudes of the decoder are damaged")
        if values[0] <= 0 or values[count - 1] <= 0:
            raise ValueError("the amplitudes of the decoder are damaged")
        found = cls(*values[:count].tolist())
        return replace(found, short=tuple(values[count:].tolist())) if len(values) > count else found

    def for_column(self, ratings: int) -> "Amplitudes":
        """Those of a column with so many ratings: of few, taste is told apart from chance less easily than of many."""
        if self.short is None or ratings > SHORT:
            return self
        bias, taste, cosine, local = self.short
        return replace(self, bias=bias, taste=taste, cosine=cosine, local=local)

    def trust(self, ratings: npt.NDArray[np.integer] | Floats, described: Bools) -> Floats:
        """(n,): r, how far the codes of rows with so many ratings are believed; features count as some ratings.

        In double precision if the numbers of ratings are.
        """
        odds = ((ratings + self.features * described) / max(self.half, 1e-12)) ** self.power
        return np.asarray(1 - 1 / (1 + odds), np.float64 if ratings.dtype == np.float64 else np.float32)


class Seen(NamedTuple):
    """Rows as the kernel sees them."""

    codes: Floats  # (n, width)
    along: Floats  # (n, directions): a
    directions: Floats  # (n, width): d
    trust: Floats  # (n,): r

    def exact(self) -> "Seen":
        """In double precision: rounding of a kernel that is large beside the noise would make it indefinite."""
        doubles: Any = (part.astype(np.float64) for part in self)
        return Seen(*doubles)


@dataclass(frozen=True)
class CodeSpace:
    """The directions of codes in which columns differ, and what is expected of a column's weights."""

    mean: Floats  # (width + 1,): of the trained output weights and biases
    by_features: FeatureRegression  # what a column's weights exceed the mean by
    factor: Floats  # (width + 1, directions): times itself transposed, it is the covariance of columns' weights
    centre: Floats  # (width,): mean of the codes

    def along(self, codes: Floats) -> Floats:
        """(n, width) -> (n, directions)"""
        along: Floats = codes @ self.factor[:-1] + self.factor[-1]
        return along

    def centred(self, codes: Floats) -> tuple[Floats, Floats]:
        """Codes less their mean (n, width), and the lengths (n,) of that."""
        centred = codes - self.centre
        lengths = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        return centred, np.maximum(lengths, np.float32(_LEAST_LENGTH))

    def directions(self, codes: Floats) -> Floats:
        """(n, width): centred and of length 1."""
        centred, lengths = self.centred(codes)
        centred /= lengths[:, None]
        return centred

    def seen(self, codes: Floats, trust: Floats) -> Seen:
        return Seen(codes, self.along(codes), self.directions(codes), trust)

    def expected(self, features: Floats) -> Floats:
        """Weights (n, width + 1) of columns of which only the features (n, Q) are known."""
        return self.mean + self.by_features.expected(features)


class Decoded(NamedTuple):
    """What a column says of a row: bias + trust * (code . taste[:-1] + taste[-1] + direction . turn + local part).

    The local part is the sum over rows that it has rated of the local kernel times `pull`.
    """

    taste: Floats  # (width + 1,)
    turn: Floats  # (width,)
    bias: np.float32
    pull: Floats  # (n,)


def kernel_between(amplitudes: Amplitudes, some: Seen, others: Seen, local: Floats | None = None) -> Floats:
    """(m, n): the covariance of a column's ratings at some rows and at others, without noise.

    `local` (m, n) is the local kernel between them where it has been cut; without it, it is worked out.
    """
    cosines = some.directions @ others.directions.T
    inner = np.float32(amplitudes.taste) * (some.along @ others.along.T) + np.float32(amplitudes.cosine) * cosines
    if amplitudes.local:
        if local is None:
            local = local_kernel(cosines)
        inner += np.float32(amplitudes.local) * local
    inner *= others.trust
    inner *= some.trust[:, None]
    inner += np.float32(amplitudes.bias)
    return inner


def local_kernel(cosines: Floats) -> Floats:
    near: Floats = np.exp(np.float32(SHARPNESS) * (cosines - np.float32(1)))
    return near


class Posterior:
    """Of one column, given its ratings: in the dual with n ratings, or in the primal where they are many.

    A column with more than `MOST_LOCAL` ratings does without the local kernel, which would take their square.
    """

    def __init__(
        self, space: CodeSpace, amplitudes: Amplitudes, seen: Seen, targets: Floats, about: "Expected"
    ) -> None:
        """`targets` (n,): scaled ratings with the deviations of the rows taken off."""
        from scipy.linalg import cho_factor

        if len(targets) > MOST_LOCAL:
            amplitudes = replace(amplitudes, local=0.0)
        self._space, self._amplitudes, self._seen, self._about = space, amplitudes, seen, about
        self.left = targets - self.prior_mean(seen)
        self._primal = in_primal(amplitudes, len(targets), space)
        if self._primal:
            self._inputs = self._features(seen.exact()).astype(np.float64)
            gram = self._inputs.T @ self._inputs
            gram[np.diag_indices_from(gram)] += amplitudes.noise
            self._factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
            self._solved = self._solve(self._inputs.T @ self.left.astype(np.float64))
        else:
            exact = seen.exact()
            gram = np.asarray(kernel_between(amplitudes, exact, exact), np.float64)
            gram[np.diag_indices_from(gram)] += amplitudes.noise
            self._factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
            self._solved = self._solve(self.left.astype(np.float64))

    def prior_mean(self, rows: Seen) -> Floats:
        """(n,): what is expected of the column at rows, before its ratings are known."""
        weights = self._about.weights
        said = rows.codes @ weights[:-1] + weights[-1]
        expected: Floats = np.float32(self._about.bias) + np.float32(self._amplitudes.mean) * rows.trust * said
        return expected

    def decoded(self) -> Decoded:
        amplitudes, seen, space = self._amplitudes, self._seen, self._space
        if self._primal:
            bias, along, turn = np.split(self._solved, np.cumsum([1, space.factor.shape[1]]))
            bias, along = bias[0] * np.sqrt(amplitudes.bias), along * np.sqrt(amplitudes.taste)
            turn = turn * np.sqrt(amplitudes.cosine)
            pull = np.zeros(len(self.left), np.float32)
        else:
            weighted = self._solved * seen.trust
            bias = amplitudes.bias * self._solved.sum()
            along, turn = amplitudes.taste * (weighted @ seen.along), amplitudes.cosine * (weighted @ seen.directions)
            pull = (amplitudes.local * weighted).astype(np.float32)
        taste = amplitudes.mean * self._about.weights + space.factor @ along
        return Decoded(taste.astype(np.float32), turn.astype(np.float32), np.float32(self._about.bias + bias), pull)

    def gain(self, rows: Seen, local: Floats | None = None) -> Doubles:
        """(m, n): how far each rating moves the prediction at some rows; `local` as in `kernel_between`."""
        if self._primal:
            return np.asarray(self._features(rows) @ self._solve(self._inputs.T))
        between = kernel_between(self._amplitudes, rows, self._seen, local)
        return np.asarray(self._solve(between.T.astype(np.float64)).T)

    def _features(self, rows: Seen) -> Floats:
        """(n, 1 + directions + width): their inner products are the kernel, without its local part."""
        amplitudes, trust = self._amplitudes, rows.trust[:, None]
        return np.column_stack(
            [
                np.full(len(trust), amplitudes.bias**0.5, trust.dtype),
                trust * amplitudes.taste**0.5 * rows.along,
                trust * amplitudes.cosine**0.5 * rows.directions,
            ]
        )

    def _solve(self, right: Doubles) -> Doubles:
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self._factor, right, check_finite=False))


class Expected(NamedTuple):
    """Of a column, by its features: weights (width + 1,) and bias, scaled."""

    weights: Floats
    bias: float


def in_primal(amplitudes: Amplitudes, ratings: int, space: CodeSpace) -> bool:
    """Whether a column is solved for its weights instead of for a number a rating: where that is less work."""
    return not amplitudes.local and ratings > sum(space.factor.shape)
