"""The Bayesian decoder: what a column would rate, from the codes of the rows that it has rated, in closed form.

A column's ratings, less the overall mean and the deviations of the rows, are taken to be a Gaussian process over rows:

    K_ij = noise [i = j] + bias + r_i r_j (taste a_i . a_j + cosine d_i . d_j + local exp(8 (d_i . d_j - 1)))
    prediction at row i = overall + deviation of i + k_i' K^-1 y          r / (1 - r) = (n / half) ^ power

a: a row's code along the directions in which the trained output weights differ; d: its centred code within these
directions, scaled to length 1, so that d_i . d_j is the cosine similarity of two rows; r: shrinkage by the number n of
the row's own ratings. The codes of what a column has rated are those without its own rating (leave-one-out): a network
knows what it was shown.

The amplitudes (bias, taste, cosine, local, half) are learned on validation ratings (`gp_fit`). Where codes say nothing
they go to zero, and the biases remain: that makes the defaults safe on unseen data.

    gp.py           amplitudes, directions of codes, the kernel, the posterior of one column
    gp_batch.py     many columns at once: weights, posterior variances, prediction intervals
    gp_fit.py       how amplitudes and intervals are learned
    codes.py        codes of rows: as trained, as they stand now, and without one of their ratings
    neighbours.py   the local kernel, cut to the nearest rows, so that scoring stays one pass and a few additions
    decoding.py     all of it together, and how it follows changes
    predictor.py    what users are told, whether they are rows or columns, and why
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.models.biases import Biases
from cofill.models.cfn.scaling import Scaling
from cofill.models.ridge import FeatureRegression

# How quickly the local kernel falls with the angle between two codes. Sharp enough to be cut to the nearest rows: what
# is wider than that is seen by the cosine kernel, which costs nothing. Chosen on validation ratings of four data sets.
SHARPNESS = 8.0
_LEAST_LENGTH = 1e-6
# Ratings of a column up to which the local kernel between all of them is worked out.
MOST_LOCAL = 2000
# Ratings up to which a column counts as short.
SHORT = 20


@dataclass(frozen=True)
class KernelParams:
    """Variances in squares of scaled ratings; `half` and `features` are numbers of ratings."""

    noise: float
    bias: float  # of a column's deviation
    taste: float
    cosine: float
    local: float
    half: float  # ratings with which a row's shrinkage is a half
    mean: float  # share of what all columns have in common, and of what their features lead one to expect
    features: float  # ratings that a row's side features are worth
    interactions: float = 0.0  # share of what features of rows and columns say together (`slopes.py`)
    row_gate: float = 0.0  # ratings of a row with which biases with slopes count as much as the network
    column_gate: float = 0.0  # the same of a column
    power: float = 1.0  # how sharply shrinkage rises with the number of a row's ratings
    short: tuple[float, float, float, float] | None = None  # bias, taste, cosine, local of columns with few ratings

    def as_array(self) -> Doubles:
        numbers = [getattr(self, field.name) for field in fields(self) if field.name != "short"]
        return np.array([*numbers, *(self.short or ())], np.float64)

    @classmethod
    def from_array(cls, values: Doubles) -> Self:
        """ValueError where they make no sense."""
        numbers, count = values.tolist(), len(fields(cls)) - 1
        sensible = bool(np.isfinite(values).all() and (values >= 0).all())
        if len(values) not in (count, count + 4) or not sensible or not values[[0, count - 1]].all():
            raise ValueError("the amplitudes of the decoder are damaged")
        found = cls(*numbers[:count])
        return replace(found, short=tuple(numbers[count:])) if len(numbers) > count else found

    def for_column(self, ratings: int) -> "KernelParams":
        """Those of a column with so many ratings: of few, taste is told apart from chance less easily than of many."""
        if self.short is None or ratings > SHORT:
            return self
        bias, taste, cosine, local = self.short
        return replace(self, bias=bias, taste=taste, cosine=cosine, local=local)

    def shrinkage(self, ratings: npt.NDArray[np.integer] | Floats, described: Bools) -> Floats:
        """(n,): r, how far the codes of rows with so many ratings are believed; features count as some ratings."""
        odds = ((ratings + self.features * described) / max(self.half, 1e-12)) ** self.power
        return np.asarray(1 - 1 / (1 + odds), np.float32)


# Rows as the kernel sees them


class KernelInputs(NamedTuple):
    """Rows as the kernel sees them."""

    codes: Floats  # (n, width)
    along: Floats  # (n, directions): a
    directions: Floats  # (n, r): d, along the basis of the code space
    shrinkage: Floats  # (n,): r

    def exact(self) -> "KernelInputs":
        """In double precision: rounding of a kernel that is large beside the noise would make it indefinite."""
        doubles: Any = (part.astype(np.float64) for part in self)
        return KernelInputs(*doubles)


@dataclass(frozen=True)
class CodeSpace:
    """The directions of codes in which columns differ, and what is expected of a column's weights."""

    mean: Floats  # (width + 1,): of the trained output weights and biases
    by_features: FeatureRegression  # what a column's weights exceed the mean by
    factor: Floats  # (width + 1, directions): times itself transposed, it is the covariance of columns' weights
    centre: Floats  # (width,): mean of the codes

    @cached_property
    def basis(self) -> Floats:
        """(width, r), orthonormal: of the directions of the factor. What codes have beside these is not compared."""
        return np.asarray(np.linalg.qr(self.factor[:-1].astype(np.float64))[0], np.float32)

    @cached_property
    def _turned(self) -> tuple[Floats, Floats]:
        """(r, directions) and (directions,): codes along the factor, from centred codes along the basis."""
        weights: Floats = self.factor[:-1]
        return self.basis.T @ weights, self.centre @ weights + self.factor[-1]

    def _centred(self, codes: Floats) -> tuple[Floats, Floats]:
        """(n, r): codes less their mean along the basis, and how long they are (n,), never 0."""
        centred = np.asarray((codes - self.centre) @ self.basis, np.float32)
        return centred, np.maximum(np.sqrt(np.einsum("ij,ij->i", centred, centred)), np.float32(_LEAST_LENGTH))

    def directions(self, codes: Floats) -> Floats:
        """(n, width) -> (n, r): centred, along the basis, and of length 1."""
        centred, lengths = self._centred(codes)
        centred /= lengths[:, None]
        return centred

    def lengths(self, codes: Floats) -> Floats:
        """(n,): what `directions` divides by."""
        return self._centred(codes)[1]

    def projected(self, codes: Floats) -> tuple[Floats, Floats]:
        """Codes (n, width) along the factor (n, directions), and their directions (n, r)."""
        centred, lengths = self._centred(codes)
        turn, offset = self._turned
        along: Floats = centred @ turn + offset
        centred /= lengths[:, None]
        return along, centred

    def seen(self, codes: Floats, shrinkage: Floats) -> KernelInputs:
        return KernelInputs(codes, *self.projected(codes), shrinkage)

    def expected(self, features: Floats) -> Floats:
        """Weights (n, width + 1) of columns of which only the features (n, Q) are known."""
        return self.mean + self.by_features.expected(features)


def expected_of_columns(space: CodeSpace, biases: Biases, scaling: Scaling, features: Floats) -> tuple[Floats, Floats]:
    """Weights (n, width + 1) and biases (n,), scaled, of columns of which the features (n, Q) are known."""
    return space.expected(features), biases.by_column_features.expected(features)[:, 0] / np.float32(scaling.unit)


def local_kernel(cosines: Floats) -> Floats:
    near: Floats = cosines - np.float32(1)
    near *= np.float32(SHARPNESS)
    return np.asarray(np.exp(near))


def kernel_between(
    amplitudes: KernelParams, some: KernelInputs, others: KernelInputs, local: Floats | None = None
) -> Floats:
    """(m, n): the covariance of a column's ratings at some rows and at others, without noise.

    `local` (m, n) is the local kernel between them where it has been cut; without it, it is worked out.
    """
    cosines = some.directions @ others.directions.T
    inner = np.float32(amplitudes.taste) * (some.along @ others.along.T) + np.float32(amplitudes.cosine) * cosines
    if amplitudes.local:
        if local is None:
            local = local_kernel(cosines)
        inner += np.float32(amplitudes.local) * local
    inner *= others.shrinkage
    inner *= some.shrinkage[:, None]
    inner += np.float32(amplitudes.bias)
    return inner


# The posterior of one column


class ColumnWeights(NamedTuple):
    """What a column says of a row:

        bias + shrinkage * (code . linear[:-1] + linear[-1] + direction . cosine + local part)

    The local part is the sum over rows that it has rated of the local kernel times alpha. Of one column, or of many.
    """

    linear: Floats  # (width + 1,) or (columns, width + 1)
    cosine: Floats  # (r,) or (columns, r)
    bias: Floats  # () or (columns,)
    alpha: Floats  # (ratings,): dual coefficients, column by column

    def at(self, columns: int | Ints | Longs | slice) -> "ColumnWeights":
        """One or some of many, without alpha."""
        return ColumnWeights(self.linear[columns], self.cosine[columns], self.bias[columns], self.alpha[:0])


class Expected(NamedTuple):
    """Of a column, by its features: weights (width + 1,) and bias, scaled."""

    weights: Floats
    bias: float
    interactions: Floats | float = 0.0  # (n,): with features of the rows that it has rated, scaled


def in_primal(amplitudes: KernelParams, ratings: int, space: CodeSpace) -> bool:
    """Whether a column is solved for its weights instead of for a number a rating: where that is less work."""
    return not amplitudes.local and ratings > 2 * space.factor.shape[1] + 1


class Posterior:
    """Of one column, given its ratings: in the dual with n ratings, or in the primal where they are many.

    A column with more than `MOST_LOCAL` ratings does without the local kernel, which would take their square.
    """

    def __init__(
        self, space: CodeSpace, amplitudes: KernelParams, seen: KernelInputs, targets: Floats, about: Expected
    ) -> None:
        """`targets` (n,): scaled ratings with the deviations of the rows taken off."""
        from scipy.linalg import cho_factor

        if len(targets) > MOST_LOCAL:
            amplitudes = replace(amplitudes, local=0.0)
        self._space, self._amplitudes, self._seen, self._about = space, amplitudes, seen, about
        self.left = targets - self.prior_mean(seen) - np.float32(amplitudes.interactions) * about.interactions
        self._primal = in_primal(amplitudes, len(targets), space)
        exact, right = seen.exact(), self.left.astype(np.float64)
        if self._primal:
            self._inputs = self._features(exact).astype(np.float64)
            gram, right = self._inputs.T @ self._inputs, self._inputs.T @ right
        else:
            gram = np.asarray(kernel_between(amplitudes, exact, exact), np.float64)
        gram[np.diag_indices_from(gram)] += amplitudes.noise
        self._factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        self._solved = self._solve(right)

    def prior_mean(self, rows: KernelInputs) -> Floats:
        """(n,): what is expected of the column at rows, before its ratings are known."""
        weights = self._about.weights
        said = rows.codes @ weights[:-1] + weights[-1]
        expected: Floats = np.float32(self._about.bias) + np.float32(self._amplitudes.mean) * rows.shrinkage * said
        return expected

    def weights(self) -> ColumnWeights:
        amplitudes, seen, space = self._amplitudes, self._seen, self._space
        if self._primal:
            bias, along, cosine = np.split(self._solved, np.cumsum([1, space.factor.shape[1]]))
            bias, along = bias[0] * np.sqrt(amplitudes.bias), along * np.sqrt(amplitudes.taste)
            cosine = cosine * np.sqrt(amplitudes.cosine)
            alpha = np.zeros(len(self.left))
        else:
            weighted = self._solved * seen.shrinkage
            bias, alpha = amplitudes.bias * self._solved.sum(), amplitudes.local * weighted
            along, cosine = amplitudes.taste * (weighted @ seen.along), amplitudes.cosine * (weighted @ seen.directions)
        linear = amplitudes.mean * self._about.weights + space.factor @ along
        bias = self._about.bias + bias
        return ColumnWeights(*(np.asarray(part, np.float32) for part in (linear, cosine, bias, alpha)))

    def gain(self, rows: KernelInputs, local: Floats | None = None) -> Doubles:
        """(m, n): how far each rating moves the prediction at some rows; `local` as in `kernel_between`."""
        if self._primal:
            return np.asarray(self._features(rows) @ self._solve(self._inputs.T))
        between = kernel_between(self._amplitudes, rows, self._seen, local)
        return np.asarray(self._solve(between.T.astype(np.float64)).T)

    def _features(self, rows: KernelInputs) -> Floats:
        """(n, 1 + directions + r): their inner products are the kernel, without its local part."""
        amplitudes, shrinkage = self._amplitudes, rows.shrinkage[:, None]
        return np.column_stack(
            [
                np.full(len(shrinkage), amplitudes.bias**0.5, shrinkage.dtype),
                shrinkage * amplitudes.taste**0.5 * rows.along,
                shrinkage * amplitudes.cosine**0.5 * rows.directions,
            ]
        )

    def _solve(self, right: Doubles) -> Doubles:
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self._factor, right, check_finite=False))
