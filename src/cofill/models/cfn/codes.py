"""The codes of rows: as they were trained, as they stand now, without one of their ratings; and their directions."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Arrays, Bools, Doubles, Floats, Ints, Longs, grown
from cofill.compiling import compiled
from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn.kernels import prefetch_row
from cofill.models.cfn.network import CFNetwork, encode_rows, summed_inputs
from cofill.models.cfn.scaling import NOWHERE, Matrix, ScaledRows, Scaling, damped
from cofill.models.predictor import described_as_trained
from cofill.models.rng import Portion
from cofill.models.slopes import FeatureRegression

_ROWS_AT_ONCE = 1024
_LEAST_LENGTH = np.float32(1e-6)


def encode_trained(
    network: CFNetwork, scaling: Scaling, rows: SparseRows, features: Floats, portion: Portion
) -> Floats:
    """Codes (rows, width) of the rows that were trained on."""
    codes = np.empty((rows.rows, network.width), np.float32)
    counts = portion.row_counts(rows)
    for first in range(0, rows.rows, _ROWS_AT_ONCE):
        chosen = np.arange(first, min(first + _ROWS_AT_ONCE, rows.rows))
        some, means = rows.take(chosen), scaling.means[chosen]
        part = scaling.down(some, features[chosen], portion, means=means, counts=counts[chosen])
        codes[chosen] = encode_rows(network, part)
    return codes


class EncodedRows(NamedTuple):
    """Rows as the network reads them: with all of their ratings, with some, or without one."""

    codes: Floats  # (n, width)
    means: Floats  # (n,) scaled
    counts: Longs  # (n,): how many ratings they have
    described: Bools  # (n,): whether they have side features

    def take(self, rows: Ints | Longs) -> "EncodedRows":
        return EncodedRows(self.codes[rows], self.means[rows], self.counts[rows], self.described[rows])


class LeaveOneOut:
    """The codes of rows of the training, each without the rating of one column: exact, and as cheap as one term.

    What the input layer sums up is kept for every row, once weighted with its ratings and once with ones: the mean of a
    row, which is taken off each of its ratings, changes too when one of them is left out.
    """

    def __init__(
        self, network: CFNetwork, scaling: Scaling, features: SideFeatures, counts: Longs, arrays: Arrays
    ) -> None:
        """From how many ratings the rows have in all columns (rows,), and from the arrays that a file keeps."""
        shape = (len(counts), network.input.weight.shape[1])
        if arrays["totals"].shape != shape[:1] or arrays["sums"].shape != shape or arrays["ones"].shape != shape:
            raise ValueError("the sums of the rows have another shape than the network asks for")
        self._network, self._scaling, self._counts, self.arrays = network, scaling, counts, arrays
        self._features, self._described = features.trained, features.trained_described
        self._expected = scaling.overall + scaling.by_features.expected(features.trained)[:, 0].astype(np.float64)

    @classmethod
    def of(
        cls, network: CFNetwork, scaling: Scaling, rows: SparseRows, features: SideFeatures, exchange: Exchange = ALONE
    ) -> Self:
        """`rows` have the ratings of the columns that this process has."""
        values = scaling.without_column(rows.indices, rows.values)
        arrays: Arrays = {
            name: exchange.all_reduce(summed_inputs(network.input.weight, rows.indptr, rows.indices, each))
            for name, each in (("sums", values), ("ones", np.ones_like(values)))
        }
        arrays["totals"] = exchange.all_reduce(rows.row_sums(values))
        return cls(network, scaling, features, exchange.all_reduce(rows.counts()), arrays)

    def __call__(self, rows: Ints, columns: Ints, ratings: Floats) -> EncodedRows:
        scaling, arrays = self._scaling, self.arrays
        own = scaling.without_column(columns, ratings)
        counts = self._counts[rows] - 1
        means = damped(arrays["totals"][rows] - own, counts, scaling.damping, self._expected[rows])
        z = np.empty((len(rows), arrays["sums"].shape[1]), np.float32)
        _sums_without(
            arrays["sums"], arrays["ones"], self._network.input.weight, rows, columns, own,
            np.float32(scaling.presence) - means, scaling.input_scale(counts), z,
        )  # fmt: skip
        return EncodedRows(self._codes(z, rows, counts), means, counts, self._described[rows])

    def whole(self) -> EncodedRows:
        """All rows, with all of their ratings."""
        scaling, counts, arrays = self._scaling, self._counts, self.arrays
        shift, scale = np.float32(scaling.presence) - scaling.means, scaling.input_scale(counts)
        codes = np.empty((len(counts), self._network.width), np.float32)
        for first in range(0, len(counts), _ROWS_AT_ONCE):
            rows = np.arange(first, min(first + _ROWS_AT_ONCE, len(counts)))
            z = (arrays["ones"][rows] * shift[rows, None] + arrays["sums"][rows]) * scale[rows, None]
            codes[rows] = self._codes(z, rows, counts[rows])
        return EncodedRows(codes, scaling.means, counts, self._described)

    def _codes(self, z: Floats, rows: Ints | Longs, counts: Longs) -> Floats:
        features = self._features[rows]
        if self._scaling.marks_empty:
            features = np.column_stack([features, (counts == 0).astype(np.float32)])
        z += self._network.input.offset(features)
        return self._network.code(z, features)


@compiled
def _sums_without(
    sums: Floats, ones: Floats, weight: Floats, rows: Ints, columns: Ints,
    own: Floats, shift: Floats, scale: Floats, z: Floats,
) -> None:  # fmt: skip
    """What the input layer sums up for rows, each without its `own` rating of a column, with all others shifted."""
    for e in range(len(rows)):
        if e + 1 < len(rows):
            prefetch_row(weight, columns[e + 1])
            prefetch_row(sums, rows[e + 1])
            prefetch_row(ones, rows[e + 1])
        w, z_e, sum_e, one_e = weight[columns[e]], z[e], sums[rows[e]], ones[rows[e]]
        for q in range(z.shape[1]):
            z_e[q] = ((one_e[q] - w[q]) * shift[e] + sum_e[q] - own[e] * w[q]) * scale[e]


@dataclass(frozen=True)
class CodeSpace:
    """The directions of codes in which columns differ, and what is expected of a column's weights."""

    mean: Floats  # (width + 1,): of the trained output weights and biases
    by_features: FeatureRegression  # what a column's weights exceed the mean by
    factor: Floats  # (width + 1, r): times itself transposed, it is the covariance of columns' weights
    centre: Floats  # (width,): mean of the codes

    @classmethod
    def of(cls, mean: Floats, by_features: FeatureRegression, factor: Doubles, centre: Floats) -> Self:
        """From any factor of the covariance. It is turned, so that its columns without the last row are orthogonal."""
        turn = np.linalg.svd(factor[:-1])[2].T
        return cls(mean, by_features, (factor @ turn).astype(np.float32), centre)

    @cached_property
    def _scales(self) -> Floats:
        """(r,): what centred codes along the basis are multiplied by to be codes along the factor."""
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", self.factor[:-1], self.factor[:-1])))

    @cached_property
    def _offset(self) -> Floats:
        """(r,): the centre along the factor."""
        return np.asarray(self.centre @ self.factor[:-1] + self.factor[-1])

    @cached_property
    def basis(self) -> Floats:
        """(width, r): of the directions of the factor, orthonormal, or zero where weights do not differ."""
        scales = self._scales
        real = scales > np.float32(1e-6) * scales.max(initial=np.float32(0))
        return np.asarray(np.where(real, self.factor[:-1], 0) / np.where(real, scales, 1), np.float32)

    def centred(self, codes: Floats) -> Floats:
        """(n, width) -> (n, r): along the basis, less the centre. What codes have beside it is not compared."""
        found = np.empty((len(codes), self.basis.shape[1]), np.float32)
        for first in range(0, len(codes), _ROWS_AT_ONCE):  # what is made on the way is as large as the codes
            some = slice(first, first + _ROWS_AT_ONCE)
            np.matmul(codes[some] - self.centre, self.basis, out=found[some])
        return found

    def split(self, centred: Floats) -> tuple[Floats, Floats]:
        """Centred codes (n, r) -> along the factor (n, r), and their directions (n, r), of length 1 or 0."""
        along: Floats = centred * self._scales
        along += self._offset
        lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", centred, centred)), _LEAST_LENGTH)
        return along, centred / lengths[:, None]

    def projected(self, codes: Floats) -> tuple[Floats, Floats]:
        """Codes (n, width) along the factor, and their directions: (n, r) both."""
        return self.split(self.centred(codes))

    def directions(self, codes: Floats) -> Floats:
        """(n, width) -> (n, r)"""
        return self.split(self.centred(codes))[1]

    @property
    def uses_features(self) -> bool:
        """Whether features tell anything of columns; otherwise the mean of their weights is not used either."""
        return self.by_features.slope[:-1].size > 0

    def expected(self, features: Floats) -> Floats:
        """Weights (n, width + 1) of columns of which only the features (n, Q) are known."""
        return self.mean + self.by_features.expected(features)


class ReadRows(NamedTuple):
    """The rows of the training as the network has read them in all columns; part of a model has some columns only."""

    codes: Floats  # (rows, width)
    left_out: LeaveOneOut


class Rows(NamedTuple):
    """What is known of all rows."""

    codes: Floats  # (rows, width)
    means: Floats  # (rows,), scaled
    directions: Floats  # (rows, r)


class RowCodes:
    """Reads rows through the network, once they are asked for, and again when they have changed."""

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        space: CodeSpace,
        matrix: Matrix,
        read: ReadRows | None = None,
    ) -> None:
        """`read`: in part of a model, which cannot read the rows by itself."""
        self._network, self._scaling, self._space = network, scaling, space
        self._known, self._features, self._read = matrix.known, matrix.row_features, read
        self.trained_counts = self._known.trained_counts()
        self._trained: Rows | None = None
        self._now: Rows | None = None
        self._changed = np.zeros(self._known.rows, np.bool_)  # (rows,): since the training
        self._stale: set[int] = set()  # rows that are not in `_now` as they stand

    def row_changed(self, row: int) -> None:
        """The row has other ratings or features than before."""
        self._changed = grown(self._changed, self._known.rows)
        self._changed[row] = not (self._known.row_as_trained(row) and described_as_trained(self._features, row))
        self._stale.add(row)

    def changed(self) -> Bools:
        """(rows,): which rows have other ratings or features than in the training."""
        return self._changed

    def was_trained(self, rows: npt.NDArray[np.integer]) -> Bools:
        """(n,): whether each row had ratings in the training."""
        trained: Bools = rows < len(self.trained_counts)
        trained[trained] = self.trained_counts[rows[trained]] > 0
        return trained

    def as_read(self, columns: Ints, ratings: Floats, features: Floats) -> tuple[ScaledRows, np.float32]:
        """A row that is known only by these ratings and features (P,), as the network reads it, and its mean.

        A column that the network was not trained on tells it nothing.
        """
        mean = self._scaling.mean_of(columns, ratings, features)
        trained = columns < self._network.columns
        row = SparseRows(np.array([0, trained.sum()]), columns[trained], ratings[trained], self._network.columns)
        return self._scaling.down(row, features[None], means=np.array([mean])), mean

    def of_ratings(self, columns: Ints, ratings: Floats, features: Floats) -> tuple[Floats, np.float32]:
        """Code (width,) and mean of such a row."""
        row, mean = self.as_read(columns, ratings, features)
        return encode_rows(self._network, row)[0], mean

    def trained(self) -> Rows:
        """Of the training, as they were then."""
        if self._trained is None:
            rows, scaling = self._known.trained, self._scaling
            if self._read is None:
                codes = encode_trained(self._network, scaling, rows, self._features.trained, NOWHERE)
            else:
                codes = self._read.codes
            self._trained = Rows(codes, scaling.means, self._space.directions(codes))
        return self._trained

    def now(self) -> Rows:
        """All rows as they stand now."""
        trained = self.trained()
        if self._stale:
            count = self._known.rows
            codes, means, directions = (
                grown(part.copy() if part is old else part, count)
                for part, old in zip(self._now or trained, trained, strict=True)
            )
            for row in self._stale:
                if self._changed[row]:
                    codes[row], means[row] = self.of_ratings(*self._known.row(row), self._features.values[row])
                    directions[row] = self._space.directions(codes[row : row + 1])[0]
                else:
                    codes[row], means[row], directions[row] = (part[row] for part in trained)
            self._now = Rows(codes, means, directions)
            self._stale.clear()
        return self._now or trained

    def for_regression(self, rows: Longs) -> tuple[Floats, Floats]:
        """Codes (n, width) and means (n,) of rows as they were trained; of rows that came later, as they stand now.

        The weights of a column are fitted to these, so that they do not depend on what else was asked or rated
        between its ratings.
        """
        now, trained, old = self.now(), self.trained(), self.was_trained(rows)
        codes, means = now.codes[rows], now.means[rows]
        codes[old], means[old] = trained.codes[rows[old]], trained.means[rows[old]]
        return codes, means
