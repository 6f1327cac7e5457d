"""The Bayesian decoder: what a column would rate, from the codes of the rows that it has rated, in closed form.

A column's ratings, less the overall mean and the deviations of the rows, are taken to be a Gaussian process over rows:

    K_ij = noise [i = j] + bias + r_i r_j (taste a_i . a_j + cosine d_i . d_j + local exp(8 (d_i . d_j - 1)))
    prediction at row i = overall + deviation of i + k_i' K^-1 y          r / (1 - r) = (n / half) ^ power

a: a row's code along the directions in which the trained output weights differ; d: its centred code within these
directions, scaled to length 1, so that d_i . d_j is the cosine similarity of two rows; r: shrinkage by the number n of
the row's own ratings. The codes of what a column has rated are those without its own rating (leave-one-out): a network
knows what it was shown.

The amplitudes (bias, taste, cosine, local, half) are learned on validation ratings (`gp_fit`). Where codes say nothing
they go to zero, and the biases remain: that is what makes the defaults safe on data that nobody has seen.

    gp.py           amplitudes, directions of codes, the kernel, leave-one-out codes, the posterior of one column
    gp_batch.py     many columns at once: weights, posterior variances, prediction intervals
    gp_fit.py       how amplitudes and intervals are learned
    neighbours.py   the local kernel, cut to the nearest rows, so that scoring stays one pass and a few additions
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.biases import FittedMeans
from cofill.models.cfn.kernels import prefetch_row
from cofill.models.cfn.network import CFNetwork, summed_inputs
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

        Without them, what all columns have in common is left to the deviations of the rows, so that a column of which
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
        """(n,): r, how far the codes of rows with so many ratings are believed; features count as some ratings."""
        odds = ((ratings + self.features * described) / max(self.half, 1e-12)) ** self.power
        return np.asarray(1 - 1 / (1 + odds), np.float32)


# Rows as the kernel sees them


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

    @cached_property
    def basis(self) -> Floats:
        """(width, r), orthonormal: of the directions of the factor. What codes have beside these is not compared."""
        return np.asarray(np.linalg.qr(self.factor[:-1].astype(np.float64))[0], np.float32)

    @cached_property
    def _turned(self) -> tuple[Floats, Floats]:
        """(r, directions) and (directions,): codes along the factor, from centred codes along the basis."""
        weights: Floats = self.factor[:-1]
        return self.basis.T @ weights, self.centre @ weights + self.factor[-1]

    def _inside(self, codes: Floats) -> Floats:
        """(n, r): centred, along the basis."""
        return np.asarray((codes - self.centre) @ self.basis, np.float32)

    def projected(self, codes: Floats) -> tuple[Floats, Floats]:
        """Codes (n, width) along the factor (n, directions), and their directions along the basis (n, r)."""
        centred = self._inside(codes)
        turn, offset = self._turned
        along: Floats = centred @ turn + offset
        centred /= _lengths(centred)[:, None]
        return along, centred

    def along(self, codes: Floats) -> Floats:
        """(n, width) -> (n, directions)"""
        along: Floats = codes @ self.factor[:-1] + self.factor[-1]
        return along

    def centred(self, codes: Floats) -> tuple[Floats, Floats]:
        """Codes less their mean (n, width), within the directions of the basis, and the lengths (n,) of that."""
        inside = self._inside(codes)
        centred: Floats = inside @ self.basis.T
        return centred, _lengths(inside)

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


def _lengths(vectors: Floats) -> Floats:
    """(n,), never 0."""
    return np.asarray(np.maximum(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)), np.float32(_LEAST_LENGTH)))


def expected_of_columns(
    space: CodeSpace, biases: FittedMeans, scaling: Scaling, features: Floats
) -> tuple[Floats, Floats]:
    """Weights (n, width + 1) and biases (n,), scaled, of columns of which the features (n, Q) are known."""
    return space.expected(features), biases.by_column_features.expected(features)[:, 0] / np.float32(scaling.unit)


def local_kernel(cosines: Floats) -> Floats:
    near: Floats = cosines - np.float32(1)
    near *= np.float32(SHARPNESS)
    return np.asarray(np.exp(near))


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


# The posterior of one column


class Decoded(NamedTuple):
    """What a column says of a row: bias + trust * (code . taste[:-1] + taste[-1] + direction . turn + local part).

    The local part is the sum over rows that it has rated of the local kernel times `pull`.
    """

    taste: Floats  # (width + 1,)
    turn: Floats  # (width,)
    bias: np.float32
    pull: Floats  # (n,)


class Expected(NamedTuple):
    """Of a column, by its features: weights (width + 1,) and bias, scaled."""

    weights: Floats
    bias: float


def in_primal(amplitudes: Amplitudes, ratings: int, space: CodeSpace) -> bool:
    """Whether a column is solved for its weights instead of for a number a rating: where that is less work."""
    return not amplitudes.local and ratings > 2 * space.factor.shape[1] + 1


class Posterior:
    """Of one column, given its ratings: in the dual with n ratings, or in the primal where they are many.

    A column with more than `MOST_LOCAL` ratings does without the local kernel, which would take their square.
    """

    def __init__(self, space: CodeSpace, amplitudes: Amplitudes, seen: Seen, targets: Floats, about: Expected) -> None:
        """`targets` (n,): scaled ratings with the deviations of the rows taken off."""
        from scipy.linalg import cho_factor

        if len(targets) > MOST_LOCAL:
            amplitudes = replace(amplitudes, local=0.0)
        self._space, self._amplitudes, self._seen, self._about = space, amplitudes, seen, about
        self.left = targets - self.prior_mean(seen)
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


# Rows without one of their ratings


class Without(NamedTuple):
    """Rows, each without one of its ratings."""

    codes: Floats  # (n, width)
    means: Floats  # (n,) scaled
    counts: Longs  # (n,): how many ratings they have then
    described: Bools  # (n,): whether they have side features


class LeaveOneOut:
    """The codes of rows of the training, each without the rating of one column: exact, and as cheap as one term.

    What the input layer sums up is kept for every row, once weighted with its ratings and once with ones: the mean of a
    row, which is taken off each of its ratings, changes too when one of them is left out.
    """

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        rows: SparseRows,
        features: SideFeatures,
        exchange: Exchange = ALONE,
    ) -> None:
        """`rows` have the ratings of the columns that this process has."""
        values = scaling.without_column(rows.indices, rows.values)
        sums = {
            name: exchange.sum_(summed_inputs(network.input.weight, rows.indptr, rows.indices, each))
            for name, each in (("sums", values), ("ones", np.ones_like(values)))
        }
        totals = exchange.sum_(rows.row_sums(values))
        self._keep(network, scaling, features, exchange.sum_(rows.counts()), {"totals": totals, **sums})

    def _keep(
        self,
        network: CFNetwork,
        scaling: Scaling,
        features: SideFeatures,
        counts: Longs,
        arrays: dict[str, npt.NDArray[Any]],
    ) -> None:
        self._network, self._scaling, self._counts = network, scaling, counts
        self._features, self._described = features.trained, features.trained_described
        self._totals, self._sums, self._ones = arrays["totals"], arrays["sums"], arrays["ones"]  # (rows,), (rows, k)
        self._expected = scaling.overall + scaling.by_features.expected(features.trained)[:, 0].astype(np.float64)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What the rows owe to all columns, for the file of a model in shards."""
        return {"totals": self._totals, "sums": self._sums, "ones": self._ones}

    @classmethod
    def restored(
        cls,
        network: CFNetwork,
        scaling: Scaling,
        features: SideFeatures,
        counts: Longs,
        arrays: dict[str, npt.NDArray[Any]],
    ) -> "LeaveOneOut":
        """From what a file kept, where only some columns are at hand; `counts` (rows,) are of all columns."""
        shape = (len(counts), network.input.weight.shape[1])
        if arrays["totals"].shape != shape[:1] or arrays["sums"].shape != shape or arrays["ones"].shape != shape:
            raise ValueError("the sums of the rows have another shape than the network asks for")
        found = object.__new__(cls)
        found._keep(network, scaling, features, counts, arrays)
        return found

    def __call__(self, rows: Ints, columns: Ints, ratings: Floats) -> Without:
        scaling = self._scaling
        own = scaling.without_column(columns, ratings)
        counts = self._counts[rows] - 1
        total = counts + scaling.damping
        expected = self._expected[rows]
        means = np.divide(
            self._totals[rows] - own + scaling.damping * expected, total, out=expected.copy(), where=total > 0
        ).astype(np.float32)
        z = np.empty((len(rows), self._sums.shape[1]), np.float32)
        _sums_without(
            self._sums, self._ones, self._network.input.weight, rows, columns, own,
            np.float32(scaling.presence) - means, scaling.input_scale(counts), z,
        )  # fmt: skip
        features = self._features[rows]
        if scaling.marks_empty:
            features = np.column_stack([features, (counts == 0).astype(np.float32)])
        z += self._network.input.offset(features)
        return Without(self._network.code(z, features), means, counts, self._described[rows])


@compiled
def _sums_without(
    sums: Floats,
    ones: Floats,
    weight: Floats,
    rows: Ints,
    columns: Ints,
    own: Floats,
    shift: Floats,
    scale: Floats,
    z: Floats,
) -> None:
    """What the input layer sums up for rows, each without its `own` rating of a column, with all others shifted."""
    for e in range(len(rows)):
        if e + 1 < len(rows):
            prefetch_row(weight, columns[e + 1])
            prefetch_row(sums, rows[e + 1])
            prefetch_row(ones, rows[e + 1])
        w, z_e, sum_e, one_e = weight[columns[e]], z[e], sums[rows[e]], ones[rows[e]]
        for q in range(z.shape[1]):
            z_e[q] = ((one_e[q] - w[q]) * shift[e] + sum_e[q] - own[e] * w[q]) * scale[e]
