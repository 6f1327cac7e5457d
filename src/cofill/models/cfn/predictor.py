"""The decoder of a trained network: a Gaussian process from the codes of rows to the ratings of columns.

    rating = overall + deviation of the row + unit (bias + shrinkage (code . linear + direction . cosine + local part))

A row is read by the network as it stands now: its ratings, and its side features. The fewer ratings it has, the less
its code is believed; of a row of which nothing is known, nothing but the column's bias is left. A column has weights in
closed form, from its ratings at the codes of the rows as they were trained, without its own rating; of rows that came
later, as they stand now. It is solved again when its ratings or features change.

With `decoder = network`, as in the paper, the linear weights are the network's own, its output function follows them,
and the mean of the row is added. Kernel parameters are fixed: linear weights vary as trained ones do, and codes are
believed as soon as anything is known of their row. A trained column moves by as much as its closed form does. That is
fitted to the ratings themselves where tanh follows: to their inverse, new users and items are predicted no better.

Users are the rows of a network, or its columns; `UserRows` and `ItemRows` answer for them.

Attribution: how far each rating and each feature of a row, or of a column, moves a prediction.

    prediction = base + shares of the ratings + shares of the features + remainder

The base is the prediction for a row or column of which nothing is known, that of the fitted means. Everything else is a
blend, and its shares are blended as it is:

- The deviation of the fitted means is a sum over ratings and features already (`of_damped_mean`).
- The network's output for a row is taken apart by integrated gradients (`along_the_path`): inputs and features grow in
  step from nothing to what they are, and each is credited with its value times the slope that it meets on the way, on
  average. Together that is what the outputs have changed by, to the precision of the quadrature: the function along the
  way is smooth, and the points are those of Gauss and Legendre.
- The output for a column is linear in what its ratings exceed the expected ones by: exactly so, or with tanh at the
  output by the slope of the way (`secant`).
- That the network counts at all, and not the means alone, is owed to all alike: its output for a row or column of
  which nothing is known differs from the base, and ratings and features share the difference equally (`blended`).

The remainder is rounding for a row and for a new column. For a column that was trained, with the network's own output,
it is what training knows of it beyond the closed form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from cofill.arrays import Arrays, Bools, Doubles, Floats, Ints, Longs, grown
from cofill.config import CFNSettings, Orientation
from cofill.models.biases import Biases
from cofill.models.cfn.codes import CodeSpace, LeaveOneOut, ReadRows, RowCodes
from cofill.models.cfn.gp import (
    LEFT_OUT,
    ColumnWeights,
    Expected,
    IntervalCalibration,
    KernelInputs,
    KernelParams,
    Posterior,
    RowsOf,
    expected_of_columns,
    interval_inputs,
    posterior_variances,
)
from cofill.models.cfn.neighbours import LocalPart, Neighbours
from cofill.models.cfn.network import CFNetwork, activation_gradient, encode_rows
from cofill.models.cfn.scaling import Matrix, Scaling
from cofill.models.predictor import Given, Predictor, Shares, by_input_column, described_as_trained, or_zeros
from cofill.models.slopes import FeatureRegression

_ENTRIES_AT_ONCE = 8192
_ENTRIES_READ = 500_000
_NO_ROWS = np.empty(0, np.int32)
_NO_RATINGS = np.empty(0, np.float32)

_NEVER_SEEN = np.array([-1], np.int32)
_ABSCISSAS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PLACES: Floats = ((_ABSCISSAS + 1) / 2).astype(np.float32)  # on the way from 0 to 1
_SHARES: Floats = (_WEIGHTS / 2).astype(np.float32)

# Of what a file keeps, what has a place for each column, or for each rating column by column: shards cut it there.
BY_COLUMN = (
    "input.weight", "output.weight", "output.bias", "biases.columns", "biases.column_effects",
    "decoder.cosine_weights", "decoder.bias",
)  # fmt: skip
BY_RATING = ("decoder.alpha",)

_Side = TypeVar("_Side")


@dataclass(frozen=True)
class Decoder:
    """All that a trained network's decoder is made of."""

    space: CodeSpace
    amplitudes: KernelParams
    columns: ColumnWeights  # as trained
    spread: IntervalCalibration | None  # of errors; None if nothing is known of these
    near: Neighbours | None  # of the rows of the training, if there is a local kernel

    def arrays(self) -> Arrays:
        """For a model file; the weights of codes are kept in the place of the network's own."""
        found: Arrays = {
            "amplitudes": self.amplitudes.as_array(),
            "mean": self.space.mean,
            "by_features": self.space.by_features.slope,
            "factor": self.space.factor,
            "centre": self.space.centre,
            "cosine_weights": self.columns.cosine,
            "bias": self.columns.bias,
        }
        if self.spread is not None:
            found["spread"] = self.spread.as_array()
        if self.near is not None:
            found |= {"near": self.near.rows, "near_kernel": self.near.kernel, "alpha": self.columns.alpha}
        return found

    @classmethod
    def restored(cls, arrays: Arrays, network: Arrays) -> Self:
        """From what a file kept, and the weights of the network."""
        linear = np.column_stack([network["output.weight"], network["output.bias"]])
        alpha = arrays.get("alpha", _NO_RATINGS)
        return cls(
            CodeSpace(arrays["mean"], FeatureRegression(arrays["by_features"]), arrays["factor"], arrays["centre"]),
            KernelParams.from_array(arrays["amplitudes"]),
            ColumnWeights(linear, arrays["cosine_weights"], arrays["bias"], alpha),
            IntervalCalibration.from_array(arrays["spread"]) if "spread" in arrays else None,
            Neighbours(arrays["near"], arrays["near_kernel"]) if "near" in arrays else None,
        )


class AskedRows(NamedTuple):
    """Rows that are asked about, as they stand now; or one."""

    codes: Floats  # (n, width)
    directions: Floats  # (n, r)
    shrinkage: Floats | np.float32  # (n,): how far codes are believed
    deviations: Floats | np.float32  # (n,), in ratings
    means: Floats | np.float32  # (n,), scaled


class CFNPredictor(Predictor):
    """Codes of rows, weights of columns, and how both follow changes; a subclass says which of them are users."""

    rows_are: ClassVar[Orientation]

    def __init__(
        self,
        network: CFNetwork,
        matrix: Matrix,
        biases: Biases,
        scaling: Scaling,
        decoder: Decoder,
        read: ReadRows | None = None,
    ) -> None:
        """Ratings and biases by the rows and columns of the network, which may be items and users.

        `read`: the rows as all columns read them, in part of a model, which has some of the columns.
        """
        known, about = matrix.known, (matrix.row_features, matrix.column_features)
        by_user = (known, biases) if self.rows_are == "user" else (known.transposed(), biases.transposed())
        super().__init__(by_user[0], matrix.scale, by_user[1], *self._by_network(*about))
        self.network, self.scaling, self.decoder = network, scaling, decoder
        self.by_row, self.biases = known, biases
        self.row_features, self.column_features = about
        # The network's own output weights have done their work: these are the largest arrays there are.
        network.output.weight = decoder.columns.linear[:, :-1]
        network.output.bias = decoder.columns.linear[:, -1]
        self._space, self._amplitudes = decoder.space, decoder.amplitudes
        self.codes = RowCodes(network, scaling, self._space, matrix, read)
        self.own_output = scaling.settings.decoder == "network"
        self._left_out = None if read is None else read.left_out
        self._weights = decoder.columns  # of columns as they stand now, but alpha, which is in the local part
        self._local: LocalPart | None = None
        if decoder.near is not None:
            self._local = LocalPart(decoder.near, decoder.columns.alpha, known, self.codes)
        self._outdated: set[int] = set()  # columns whose weights are to be solved for again
        self._read = known.trained_counts()  # (rows,) ratings that the network takes in
        self._row_shrinkage: Floats | None = None
        self._apply_updates()

    def _by_network(self, users: _Side, items: _Side) -> tuple[_Side, _Side]:
        """Those of rows and of columns; and from rows and columns those of users and of items."""
        return rows_and_columns(self.rows_are, users, items)

    def state(self) -> tuple[Arrays, dict[str, float]]:
        """What a file keeps, apart from ratings and features: arrays and numbers."""
        arrays: Arrays = self.network.weights() | {
            f"{kind}.{name}": array
            for kind, own in (("biases", self.biases.arrays()), ("decoder", self.decoder.arrays()))
            for name, array in own.items()
        }
        of_scaling, numbers = self.scaling.state()
        return arrays | of_scaling, numbers

    @classmethod
    def restored(
        cls,
        arrays: Arrays,
        numbers: Mapping[str, float],
        matrix: Matrix,
        settings: CFNSettings,
        read: Arrays | None = None,
    ) -> Self:
        """From what a file kept. `read`: what part of a model keeps of its rows as all columns read them.

        ValueError where ratings lead out of its arrays: compiled loops go by them, and a file may come from anywhere.
        """
        known, row_features = matrix.known, matrix.row_features
        weights, (rows, columns) = dict(arrays), (known.trained.rows, known.trained.columns)
        biases = Biases.restored(taken(weights, "biases."), row_features.trained, matrix.column_features.trained)
        decoder = Decoder.restored(taken(weights, "decoder."), weights)
        near = decoder.near
        if len(weights["input.weight"]) != columns or len(decoder.columns.bias) != columns:
            raise ValueError("the network has another number of columns than the ratings")
        if decoder.columns.cosine.shape not in ((columns, 0), (columns, decoder.space.basis.shape[1])):
            raise ValueError("the weights of directions have another shape than the code space asks for")
        if near is not None and len(near.rows) != rows:
            raise ValueError("the table of nearest rows is damaged")
        if near is not None and len(decoder.columns.alpha) != known.trained.nnz:
            raise ValueError("there is another number of coefficients than of ratings")
        scaling = Scaling.restored(weights, numbers, matrix, settings, biases)
        network = CFNetwork.of(weights, settings)
        read_rows = None
        if read is not None:
            left_out = LeaveOneOut(network, scaling, row_features, known.trained_counts(), read)
            read_rows = ReadRows(read["codes"], left_out)
        return cls(network, matrix, biases, scaling, decoder, read_rows)

    def read_rows(self) -> Arrays:
        """The rows of the training as all columns read them, for the file of a model in shards."""
        return {"codes": self.codes.trained().codes} | self._leave_one_out().arrays

    # Changes

    def _make_room(self) -> None:
        self._read = grown(self._read, self.by_row.rows)

    def _follow(self, users: list[int], items: list[int]) -> None:
        rows, columns = self._by_network(users, items)
        for row in rows:
            self._read[row] = self._count_read(self.by_row.row(row)[0])
            self.codes.row_changed(row)
            if self._local is not None:
                self._local.row_changed(row)
            if not self.codes.was_trained(np.array([row]))[0]:
                self._outdated |= self.by_row.later_in_row(row).keys()  # these columns are fitted to this row
        self._outdated |= set(columns)
        self._row_shrinkage = None

    def _count_read(self, columns: Ints) -> int:
        return int((columns < self.network.columns).sum())

    def _flush(self) -> None:
        """Give columns the weights that follow what is known of them now."""
        if not self._outdated:
            return
        trained, now, columns = self.decoder.columns, self._weights, self.by_row.columns
        # The file's or the training's own memory until a column changes; then with room to spare for new ones.
        if now is trained or columns > len(now.bias):
            room = columns + columns // 16 + 1
            linear, cosine, bias = (grown(part, room) for part in now[:3])
            now = self._weights = ColumnWeights(linear, cosine, bias, now.alpha)
        for column in self._outdated:
            if self.by_row.column_as_trained(column) and described_as_trained(self.column_features, column):
                if self._local is not None:
                    self._local.column_as_trained(column)
                found = trained.at(column)
            else:
                rows, ratings = self.by_row.column(column)
                found = self._moved(column, rows, ratings)
                if self._local is not None:
                    self._local.column_changed(column, rows, found.alpha)
            now.linear[column], now.bias[column] = found.linear, found.bias
            now.cosine[column] = found.cosine[: now.cosine.shape[1]]
        self._outdated.clear()

    def _moved(self, column: int, rows: Ints, ratings: Floats) -> ColumnWeights:
        """A column that is not as it was trained."""
        found = self._solved(rows, ratings, self.column_features.values[column], column)
        if not self.own_output or column >= self.network.columns:
            return found
        before = self.by_row.trained_columns.row(column)
        if not np.isin(rows, before[0]).any():  # nothing is left of what it was trained on
            return found
        closed = self._solved(*before, self.column_features.trained[column], column)
        return found._replace(linear=self.decoder.columns.linear[column] + found.linear - closed.linear)

    # Columns

    def _solved(self, rows: Ints, ratings: Floats, features: Floats, column: int | None) -> ColumnWeights:
        """The weights of a column with these ratings and features (Q,); `column` where it is a known one."""
        found = self._posterior(rows, ratings, features, column)[0].weights()
        if not self.own_output:
            return found
        bias = self.biases.transposed().row_of(rows, ratings, features) / np.float32(self.scaling.unit)
        return found._replace(bias=np.asarray(bias))

    def _posterior(
        self, rows: Ints, ratings: Floats, features: Floats, column: int | None
    ) -> tuple[Posterior, KernelInputs, Floats]:
        """Also the rows as the column sees them, and what it says of them (n,), scaled."""
        seen, means = self._seen_by(rows, column)
        targets = self.scaling.down_values(ratings, means)
        amplitudes = self._amplitudes.for_column(len(ratings))
        about = self._expected(features)
        if (slopes := self.biases.slopes) is not None:
            together = slopes.interactions(self._inputs_of(rows), slopes.columns.design(features[None])[0])
            about = about._replace(interactions=together / np.float32(self.scaling.unit))
        return Posterior(self._space, amplitudes, seen, targets, about), seen, targets

    def _inputs_of(self, rows: Ints) -> Floats:
        """(n, q): what slopes see of rows that a column has rated: as trained, or now if they came later."""
        assert self.biases.slopes is not None
        of_rows = self.biases.slopes.rows
        inputs, old = of_rows.now(rows)[0], self.codes.was_trained(rows)
        inputs[old] = of_rows.trained_inputs[rows[old]]
        return inputs

    @property
    def _squashes(self) -> bool:
        """Whether tanh follows what columns say of rows."""
        return self.own_output and self.network.squash

    def _expected(self, features: Floats) -> Expected:
        weights, biases = expected_of_columns(self._space, self.biases, self.scaling, features[None])
        return Expected(weights[0], 0.0 if self.own_output else float(biases[0]))

    def _seen_by(self, rows: Ints, column: int | None) -> tuple[KernelInputs, Floats]:
        """Rows as a column's ratings of them are seen, and their means (n,), scaled."""
        longs = rows.astype(np.int64)
        codes, means = self.codes.for_regression(longs)
        old = self.codes.was_trained(longs)
        counts = self._read[longs]
        counts[old] = self.codes.trained_counts[longs[old]]
        described = self.row_features.described[longs]
        described[old] = self.row_features.trained_described[longs[old]]
        if column is not None and column < self.network.columns:
            own_rows, own_ratings = self.by_row.trained_columns.row(column)
            own = np.isin(rows, own_rows)
            counts[own] -= 1
            own &= counts < LEFT_OUT
            if own.any():
                before = own_ratings[np.searchsorted(own_rows, rows[own])]
                without = self._leave_one_out()(rows[own], np.full(int(own.sum()), column, np.int32), before)
                codes[own], means[own] = without.codes, without.means
        if column is not None:  # rows that came later have this column's rating in them, too
            for place in np.flatnonzero(~old).tolist():
                others, theirs = self.by_row.row(int(rows[place]))
                kept = others != column
                vector = self.row_features.values[rows[place]]
                codes[place], means[place] = self.codes.of_ratings(others[kept], theirs[kept], vector)
                counts[place] = self._count_read(others[kept])
        return KernelInputs.of(self._space, codes, self._amplitudes.shrinkage(counts, described)), means

    def _leave_one_out(self) -> LeaveOneOut:
        if self._left_out is None:
            self._left_out = LeaveOneOut.of(self.network, self.scaling, self.by_row.trained, self.row_features)
        return self._left_out

    # Predictions

    def _shrinkage(self) -> Floats:
        """(rows,)"""
        if self._row_shrinkage is None:
            self._row_shrinkage = self._amplitudes.shrinkage(self._read, self.row_features.described)
        return self._row_shrinkage

    def _column_counts(self) -> Longs:
        """(columns,)"""
        return self._by_network(self.user_counts, self.item_counts)[1]

    def _column_known(self) -> Bools:
        """(columns,): of which columns there is a rating or a feature."""
        return np.asarray((self._column_counts() > 0) | self.column_features.described)

    def _rows(self, at: Ints | Longs | slice) -> AskedRows:
        """Some rows as they stand now."""
        now = self.codes.now()
        deviations = self.biases.rows.now[at]
        return AskedRows(now.codes[at], now.directions[at], self._shrinkage()[at], deviations, now.means[at])

    def _said(self, rows: AskedRows, columns: ColumnWeights) -> Floats:
        """(n, columns), or (n,) of one column: what columns say of rows, without bias and local part."""
        said: Floats = rows.codes @ columns.linear[..., :-1].T + columns.linear[..., -1]
        if columns.cosine.shape[-1]:
            said += rows.directions @ columns.cosine.T
        return said

    def _interactions(self, rows: Floats, columns: Floats) -> Floats | np.float32:
        """(..., n), scaled: what features of rows and columns, by their inputs, add; 0 without slopes."""
        slopes = self.biases.slopes
        if slopes is None or not self._amplitudes.interactions:
            return np.float32(0)
        return slopes.interactions(rows, columns) * np.float32(self._amplitudes.interactions / self.scaling.unit)

    def _ratings(
        self, bias: np.float32 | Floats, said: Floats, rows: AskedRows, known: bool | np.bool_ | Bools
    ) -> Floats:
        """What columns say of rows (..., n) -> ratings, from the biases of the columns.

        `known`: whether anything is known of the columns.
        """
        unit = np.float32(self.scaling.unit)
        if not self.own_output:
            ratings: Floats = self.biases.overall + rows.deviations + unit * (bias + rows.shrinkage * said)
            return ratings
        fitted = self.biases.overall + rows.deviations + unit * bias
        output = self.scaling.unclipped(np.tanh(said) if self._squashes else said, rows.means)
        return np.asarray(fitted + rows.shrinkage * np.asarray(known, np.float32) * (output - fitted), np.float32)

    def _column_at(
        self, found: ColumnWeights, rated: Ints, features: Floats, at: Ints | slice, *, known: bool
    ) -> Floats:
        """(rows,), or at some rows: of a column that need not be a known one, with these features (Q,)."""
        asked = self._rows(at)
        said = self._said(asked, found)
        if self._local is not None:
            said += self._local.of_column(rated, found.alpha)[at]
        bias: Floats | np.float32 = found.bias
        if (slopes := self.biases.slopes) is not None:
            bias = bias + self._interactions(slopes.rows.inputs[at], slopes.columns.design(features[None])[0])
        return self._ratings(bias, said, asked, known)

    def entries(self, users: Ints, items: Ints) -> Floats:
        self._flush()
        biases, weights, (rows, columns) = self.biases, self._weights, self._by_network(users, items)
        nowhere = biases.overall + biases.rows.of_nobody() + biases.columns.of_nobody()
        predicted = np.full(len(rows), nowhere, np.float32)
        nobody = (rows < 0) & (columns >= 0)
        unit = np.float32(self.scaling.unit)
        predicted[nobody] = biases.overall + biases.rows.of_nobody() + unit * weights.bias[columns[nobody]]
        nothing = (rows >= 0) & (columns < 0)
        if nothing.any():
            asked, place = np.unique(rows[nothing], return_inverse=True)
            unknown = np.zeros(self.column_features.width, np.float32)
            found = self._solved(_NO_ROWS, _NO_RATINGS, unknown, None)
            predicted[nothing] = self._column_at(found, _NO_ROWS, unknown, asked, known=False)[place]
        seen = np.flatnonzero((rows >= 0) & (columns >= 0))
        known = self._column_known()
        for first in range(0, len(seen), _ENTRIES_AT_ONCE):
            at = seen[first : first + _ENTRIES_AT_ONCE]
            row, column = rows[at], columns[at]
            asked_rows, own = self._rows(row), weights.at(column)
            said = np.einsum("ij,ij->i", asked_rows.codes, own.linear[:, :-1]) + own.linear[:, -1]
            if weights.cosine.shape[1]:
                said += np.einsum("ij,ij->i", asked_rows.directions, own.cosine)
            if self._local is not None:
                said += self._local.at_pairs(row, column)
            bias = own.bias
            if (slopes := self.biases.slopes) is not None:
                together = self._interactions(slopes.rows.inputs[row][:, None], slopes.columns.inputs[column])
                bias = bias + np.reshape(together, -1)
            predicted[at] = self._ratings(bias, said, asked_rows, known[column])
        return predicted

    # Intervals

    def interval_radius(self, users: Ints, items: Ints, predicted: Floats) -> Floats | None:
        if self.decoder.spread is None:
            return None
        rows, columns = self._by_network(users, items)
        counts = np.where(columns >= 0, self._column_counts()[columns], 0)
        read = np.where(rows >= 0, self._read[rows], 0)
        return self._in_ratings(self.decoder.spread, self.uncertain(rows, columns), read, counts, predicted)

    def uncertain(self, rows: Ints, columns: Ints) -> Doubles:
        """(n,): posterior variances of what columns say of rows, scaled, without noise; -1 was never seen."""
        found = np.empty(len(rows))
        order = np.argsort(columns, kind="stable")
        starts = np.flatnonzero(np.diff(columns[order], prepend=-2))
        asked = columns[order[starts]].astype(np.int64)
        rated = [self.by_row.column(column)[0] if column >= 0 else _NO_ROWS for column in asked.tolist()]
        counts = np.array([len(one) for one in rated], np.int64)
        wanted = np.split(rows[order], starts[1:])
        # As many columns at a time as have not too many ratings together.
        cuts = np.flatnonzero(np.diff(np.cumsum(counts) // _ENTRIES_READ)) + 1
        ends = np.append(starts, len(order))
        for part in np.split(np.arange(len(asked)), cuts):
            if len(part):
                own = slice(int(part[0]), int(part[-1]) + 1)
                of_ratings = np.repeat(asked[own], counts[own])
                found[order[ends[own.start] : ends[own.stop]]] = self._variances(rated[own], of_ratings, wanted[own])
        return found

    def _variances(
        self, rated: list[Ints], columns: Longs, asked: list[Ints], new: tuple[Floats, np.float32] | None = None
    ) -> Doubles:
        """(asked,): of columns that have rated such rows, and are asked about such rows; an index of -1 is the row
        with the code and the shrinkage `new`, or one that was never seen. `columns` are those of the ratings, or -1.
        """
        given, wanted = (np.concatenate([_NO_ROWS, *rows]).astype(np.int64) for rows in (rated, asked))
        distinct, places = np.unique(np.concatenate([[-1], given, wanted]), return_inverse=True)
        codes = np.zeros((len(distinct), self.network.width), np.float32)
        codes[1:] = self.codes.now().codes[distinct[1:]]
        shrinkage = np.append(self._shrinkage(), np.float32(0))
        if new is not None:
            codes[0], shrinkage[-1] = new
        # A row is believed as far as it is without the rating of the column.
        inside = (columns >= 0) & (columns < self.network.columns)
        believed = self._amplitudes.shrinkage(
            np.maximum(self._read[given] - inside, 0), self.row_features.described[given]
        )
        return posterior_variances(
            self._space,
            self._amplitudes,
            codes,
            RowsOf.of(rated, places[1 : len(given) + 1], believed),
            RowsOf.of(asked, places[len(given) + 1 :], shrinkage[wanted]),
        )

    def _in_ratings(
        self, spread: IntervalCalibration, posterior: Doubles, read: Longs, counts: Longs, predicted: Floats
    ) -> Floats:
        """(n,): radii, from posterior variances and the numbers of ratings of rows and of columns."""
        noise, scaling = self._amplitudes.noise, self.scaling
        deviation = spread.deviation(interval_inputs(posterior, noise, self.biases, scaling, (read, counts), predicted))
        return np.asarray(spread.quantile * deviation * scaling.unit, np.float32)

    @property
    def _tells_taste(self) -> bool:
        """Where validation ratings did not gain by taste, nothing makes one row or column like another."""
        return self._amplitudes.taste > 0 or self._amplitudes.mean > 0


class UserRows(CFNPredictor):
    """Users are the rows of the network: the code of a user times the weights of all items."""

    rows_are: ClassVar[Orientation] = "user"

    def item_vectors(self) -> Floats:
        """(items, width): the weights of codes."""
        self._flush()
        return self._weights.linear[: self.known.columns, :-1] if self._tells_taste else super().item_vectors()

    def users(self, users: Longs) -> Floats:
        self._flush()
        rows, items = self._rows(users), self._weights.at(slice(self.known.columns))
        said = self._said(rows, items)
        if self._local is not None:
            for place, user in enumerate(users.tolist()):
                said[place] += self._local.of_row(self._local.nearest(user), rows.directions[place])
        bias = items.bias[:, None]
        if (slopes := self.biases.slopes) is not None:
            bias = bias + self._interactions(slopes.rows.inputs[users], slopes.columns.inputs)
        return self._ratings(bias, said.T, rows, self._column_known()[:, None]).T

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self.new_user_at(items, ratings, features, slice(self.known.columns))

    def new_user_at(self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints | slice) -> Floats:
        self._flush()
        vector = or_zeros(features, self.row_features.width)
        code, mean = self.codes.of_ratings(items, ratings, vector)
        deviation, shrinkage = self.biases.row_of(items, ratings, vector), self._shrinkage_of(items, features)
        row = AskedRows(code[None], self._space.directions(code[None]), shrinkage, deviation, mean)
        weights = self._weights.at(asked)
        said, bias = self._said(row, weights)[0], weights.bias
        if self._local is not None and shrinkage:
            said += self._local.of_row(self._local.nearest_to(row.directions[0]), row.directions[0])[asked]
        if (slopes := self.biases.slopes) is not None:
            together = self._interactions(slopes.rows.design(vector[None]), slopes.columns.inputs[asked])
            bias = bias + np.reshape(together, -1)
        return self._ratings(bias, said, row, self._column_known()[asked])

    def _shrinkage_of(self, items: Ints, features: Floats | None) -> np.float32:
        """Of a user with ratings of these items."""
        read, described = np.array([self._count_read(items)]), np.array([features is not None])
        return np.float32(self._amplitudes.shrinkage(read, described)[0])

    def quickest_order(self, users: Ints, items: Ints) -> Longs:
        return np.lexsort((users, items))  # column by column

    def new_user_interval_radius(
        self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        if self.decoder.spread is None:
            return None
        code, _ = self.codes.of_ratings(items, ratings, or_zeros(features, self.row_features.width))
        rated = [self.by_row.column(item)[0] for item in asked.tolist()]
        own = np.repeat(asked.astype(np.int64), [len(rows) for rows in rated])
        new = code, self._shrinkage_of(items, features)
        posterior = self._variances(rated, own, [_NEVER_SEEN] * len(asked), new)
        read = np.full(len(asked), self._count_read(items))
        return self._in_ratings(self.decoder.spread, posterior, read, self.item_counts[asked], predicted)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """Along the path from nothing to the user through the network, as far as the code is believed in the end."""
        self._flush()
        network, scaling, space, weights = self.network, self.scaling, self._space, self._weights.at(items)
        vector = or_zeros(given.features, self.row_features.width)
        read = given.others < network.columns
        row, _ = self.codes.as_read(given.others, given.ratings, vector)
        code = encode_rows(network, row)
        shrinkage = self._shrinkage_of(given.others, given.features)
        weight, bias = weights.linear[:, :-1], weights.linear[:, -1]
        if weights.cosine.shape[1]:
            cosine: Floats = weights.cosine @ space.basis.T / space.lengths(code)
            weight, bias = weight + cosine, bias - cosine @ space.centre
        believed = np.float32(1) if self.own_output else shrinkage
        path = along_the_path(
            network,
            row.known.indices,
            (row.known.values + np.float32(row.presence)) * row.input_scale,
            vector,
            row.features[0, len(vector) :],
            believed * weight,
            believed * bias,
            squash=self._squashes,
        )
        # The mean of the user comes on top of what the decoder says.
        nobody = scaling.mean_of(given.others[:0], given.ratings[:0], np.zeros_like(vector))
        surplus = scaling.without_column(given.others, given.ratings) - nobody
        of_mean = of_damped_mean(surplus, vector, scaling.by_features, scaling.damping)
        by_rating = np.tile(of_mean.ratings, (len(items), 1))
        by_rating[:, read] += path.by_input
        by_feature = (path.by_feature + of_mean.features) * scaling.unit
        if (slopes := self.biases.slopes) is not None:
            together = slopes.columns.inputs[items, 1:] @ slopes.coefficients[1:, 1:]
            by_feature += slopes.rows.design.shares(vector, self._amplitudes.interactions * together)
        of_network = Shares(by_rating * scaling.unit, by_feature)
        if self.own_output:
            base = self.means.overall + np.float32(scaling.unit) * weights.bias + self.means.rows.of_nobody()
            difference, counts = scaling.unclipped(path.start, nobody) - base, shrinkage * self._column_known()[items]
        else:
            said = path.start
            if self._local is not None and shrinkage:
                direction, local = space.directions(code)[0], self._local
                near = local.nearest(given.number) if given.number >= 0 else local.nearest_to(direction)
                said = said + shrinkage * local.of_row(near, direction)[items]
            difference, counts = np.float32(scaling.unit) * said, np.ones(len(items), np.float32)
        return blended(given, vector, self.means, of_network, shrinkage=counts, difference=difference, read=read)


class ItemRows(CFNPredictor):
    """Items are the rows of the network, and users its columns: the codes of all items times the weights of a user."""

    rows_are: ClassVar[Orientation] = "item"

    def item_vectors(self) -> Floats:
        """(items, width): the codes."""
        return self.codes.now().codes if self._tells_taste else super().item_vectors()

    def users(self, users: Longs) -> Floats:
        self._flush()
        rows, weights = self._rows(slice(None)), self._weights.at(users)
        said = np.ascontiguousarray(self._said(rows, weights).T)
        if self._local is not None:
            for place, user in enumerate(users.tolist()):
                said[place] += self._local.of_column(*self._local.alpha_of(user))
        bias, known = weights.bias[:, None], self._column_known()[users][:, None]
        if (slopes := self.biases.slopes) is not None:
            bias = bias + self._interactions(slopes.rows.inputs, slopes.columns.inputs[users])
        return self._ratings(bias, said, rows, known)

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self.new_user_at(items, ratings, features, slice(None))

    def new_user_at(self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints | slice) -> Floats:
        vector = or_zeros(features, self.column_features.width)
        found = self._solved(items, ratings, vector, None)
        return self._column_at(found, items, vector, asked, known=len(ratings) > 0 or features is not None)

    def new_user_interval_radius(
        self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        if self.decoder.spread is None:
            return None
        posterior = self._variances([items], np.full(len(items), -1), [asked])
        counts = np.full(len(asked), len(items))
        return self._in_ratings(self.decoder.spread, posterior, self._read[asked], counts, predicted)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """Exact: what the user says is a sum over the ratings, each times its gain."""
        self._flush()
        scaling, means, unit = self.scaling, self.means, self.scaling.unit
        vector = or_zeros(given.features, self.column_features.width)
        number = given.number if given.number >= 0 else None
        posterior, seen, targets = self._posterior(given.others, given.ratings, vector, number)
        now = self.codes.now()
        asked = KernelInputs.of(self._space, now.codes[items], self._shrinkage()[items])
        cut = None if self._local is None else self._local.between(items, asked.directions, given.others)
        gain = posterior.gain(asked, cut)
        nothing = self._expected(np.zeros_like(vector))

        def expected(at: KernelInputs, weights: Floats, bias: Floats) -> Floats:
            """(n, Q) or (n, 1): what weights (width + 1, Q) and biases (Q,) say of rows."""
            said = at.codes @ weights[:-1] + weights[-1]
            found: Floats = bias + np.float32(self._amplitudes.mean) * at.shrinkage[:, None] * said
            return found

        of_nothing = nothing.weights[:, None], np.array([nothing.bias], np.float32)
        start = expected(asked, *of_nothing)[:, 0].astype(np.float64)
        by_rating = gain * (targets - expected(seen, *of_nothing)[:, 0])
        # What the ratings tell is taken off what the features had led one to expect.
        of_bias = means.rows.by_features.slope[:-1, 0] / np.float32(unit)
        slope = self._space.by_features.slope[:-1].T, np.zeros_like(of_bias) if self.own_output else of_bias
        by_feature = (expected(asked, *slope) - gain @ expected(seen, *slope)) * vector
        if (slopes := self.biases.slopes) is not None:
            share = self._amplitudes.interactions / unit * slopes.coefficients[1:, 1:].T
            of_asked, of_seen = (
                slopes.columns.design.shares(vector, inputs[:, 1:] @ share)
                for inputs in (slopes.rows.inputs[items], self._inputs_of(given.others))
            )
            by_feature = by_feature + of_asked - gain @ of_seen
        if self._squashes:
            steepness = secant(start, start + by_rating.sum(1) + by_feature.sum(1))[:, None]
            start, by_rating, by_feature = np.tanh(start), by_rating * steepness, by_feature * steepness
        shrinkage, difference = np.ones(len(items), np.float32), np.zeros(len(items), np.float32)
        if self.own_output:
            shrinkage = self._shrinkage()[items] * np.float32(len(given.ratings) > 0 or given.features is not None)
            base = means.overall + means.columns.now[items] + means.rows.of_nobody()
            difference = scaling.unclipped(start.astype(np.float32), now.means[items]) - base
        of_network, read = Shares(by_rating * unit, by_feature * unit), np.ones(len(given.ratings), np.bool_)
        return blended(given, vector, means, of_network, shrinkage=shrinkage, difference=difference, read=read)


class PathShares(NamedTuple):
    """Of outputs at m columns, in scaled ratings."""

    start: Floats  # (m,): outputs for a row of which nothing is known
    by_input: Floats  # (m, n)
    by_feature: Floats  # (m, P)


def along_the_path(
    network: CFNetwork,
    columns: Ints,
    inputs: Floats,
    features: Floats,
    mark: Floats,
    weight: Floats,
    bias: Floats,
    *,
    squash: bool,
) -> PathShares:
    """For inputs (n,) at columns (n,) and features (P,), seen through output weights (m, width) and biases (m,).

    `mark` (0 or 1 of them) are further features that stay as they are all the way. `squash`: tanh follows the output.
    """
    into = network.input.weight[columns]  # (n, k)
    side = network.input.side
    aside = np.zeros((len(features), into.shape[1]), np.float32) if side is None else side
    places: Floats = np.append(_PLACES, np.float32(0))[:, None]  # the last is the start
    beside = np.column_stack([places * features, np.tile(mark, (len(places), 1))])  # (places, P and mark)
    z = places * (inputs @ into) + beside @ aside + network.input.bias

    hidden = network.hidden(z, beside)  # of each layer (places, its width)
    outputs = np.column_stack([hidden[-1], beside]) @ weight.T + bias  # (places, m)

    slope = np.broadcast_to(weight, (len(_PLACES), *weight.shape))  # of the outputs by the code, (points, m, width)
    start = outputs[-1]
    if squash:
        start = np.tanh(start)
        slope = slope * (1 - np.tanh(outputs[:-1]) ** 2)[:, :, None]
    by_beside = np.zeros((len(weight), beside.shape[1]), np.float32)
    for at in range(len(hidden) - 1, -1, -1):
        width = hidden[at].shape[1]
        by_beside += np.tensordot(_SHARES, slope[:, :, width:], 1)
        slope = activation_gradient(slope[:, :, :width], hidden[at][:-1, None], network.activation)
        if at:
            slope = slope @ network.middle[at - 1].weight
    by_sum = np.tensordot(_SHARES, slope, 1)  # (m, k): the slope by what the input layer sums up, on average
    by_beside += by_sum @ aside.T
    return PathShares(start, (by_sum @ into.T) * inputs, by_beside[:, : len(features)] * features)


def secant(low: Doubles, high: Doubles) -> Doubles:
    """How steep tanh is between two points, on average."""
    apart = np.abs(high - low) > 1e-9
    rise = np.tanh(high) - np.tanh(low)
    steepness: Doubles = np.divide(rise, high - low, out=1 - np.tanh(low) ** 2, where=apart)
    return steepness


def of_damped_mean(surplus: Floats, features: Floats, by_features: FeatureRegression, damping: float) -> Shares:
    """Of a damped mean, as far as it differs from that without ratings, which these exceed by `surplus`: (n,), (P,)."""
    total = len(surplus) + damping
    left = damping / total if total > 0 else 1.0
    by_rating = surplus.astype(np.float64) / max(total, 1)
    return Shares(by_rating, left * features.astype(np.float64) * by_features.slope[:-1, 0])


def blended(
    given: Given,
    features: Floats,
    means: Biases,
    of_network: Shares,
    *,
    shrinkage: Floats,
    difference: Floats,
    read: Bools,
) -> Shares:
    """The shares of the network and those of the means, weighed by the shrinkage (m,) of the network.

    `difference` (m,) is what the network exceeds the base by where nothing is known. The ratings that are `read` (n,)
    and the features that tell anything share it.
    """
    surplus = means.surplus(given.others, given.ratings) - means.rows.of_nobody()
    of_means = of_damped_mean(surplus, features, means.rows.by_features, means.rows.damping)
    weight = shrinkage.astype(np.float64)[:, None]
    by_rating, by_feature = (
        weight * network + (1 - weight) * mean for network, mean in zip(of_network, of_means, strict=True)
    )
    told = by_input_column((features != 0)[None].astype(np.float64), given.widths)[0] > 0
    each = weight * difference[:, None] / max(int(read.sum() + told.sum()), 1)
    return Shares(by_rating + each * read, by_input_column(by_feature, given.widths) + each * told)


def rows_and_columns(rows_are: Orientation, users: _Side, items: _Side) -> tuple[_Side, _Side]:
    """Of a network; and from its rows and columns users and items."""
    return (users, items) if rows_are == "user" else (items, users)


def taken(weights: Arrays, prefix: str) -> Arrays:
    """The arrays whose names begin so, without that, taken out of the others."""
    names = [name for name in weights if name.startswith(prefix)]
    return {name.removeprefix(prefix): weights.pop(name) for name in names}
