"""What a trained network predicts: codes of rows, weights of columns, and how both follow changes.

    rating = overall + deviation of the row + unit (bias + shrinkage (code . linear + direction . cosine + local part))

A row is read by the network as it stands now: its ratings, and its side features. A column has weights in closed form
(`gp.py`), from its ratings at the codes of the rows as they were trained, without its own rating; of rows that came
later, as they stand now. It is solved again when its ratings or features change.

With `decoder = network`, as in the paper, the linear weights are the network's own, its output function follows them,
and the mean of the row is added. Codes are believed as soon as anything is known of their row. A trained column moves
by as much as its closed form does. That is fitted to the ratings themselves where tanh follows: to their inverse, new
users and items are predicted no better.

Users are the rows of a network, or its columns; `UserRows` and `ItemRows` answer for them.
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
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.scaling import Matrix, Scaling
from cofill.models.predictor import ALL, Given, Predictor, Shares, by_input_column, described_as_trained, or_zeros
from cofill.models.slopes import FeatureRegression, Slopes

_ENTRIES_AT_ONCE = 8192
_ENTRIES_READ = 500_000
_NO_ROWS = np.empty(0, np.int32)
_NO_RATINGS = np.empty(0, np.float32)
_NEVER_SEEN = np.array([-1], np.int32)

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
    inputs: Floats | None  # (n, q): what slopes see of them


class AskedColumns(NamedTuple):
    """Columns that are asked."""

    weights: ColumnWeights
    inputs: Floats | None  # (m, p): what slopes see of them
    known: Bools  # (m,): whether there is a rating or a feature


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
        super().__init__(by_user[0], matrix.scale, by_user[1], *rows_and_columns(self.rows_are, *about))
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
        rows, columns = rows_and_columns(self.rows_are, users, items)
        for row in rows:
            self._read[row] = self._count_read(self.by_row.row(row)[0])
            self.codes.row_changed(row)
            if self._local is not None:
                self._local.stale.add(row)
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
                    self._local.moved.pop(column, None)
                found = trained.at(column)
            else:
                rows, ratings = self.by_row.column(column)
                found = self._moved(column, rows, ratings)
                if self._local is not None:
                    self._local.moved[column] = rows, found.alpha
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
        found = self._posterior(rows, ratings, features, column).weights()
        if not self.own_output:
            return found
        bias = self.biases.transposed().row_of(rows, ratings, features) / np.float32(self.scaling.unit)
        return found._replace(bias=np.asarray(bias))

    def _posterior(self, rows: Ints, ratings: Floats, features: Floats, column: int | None) -> Posterior:
        seen, means = self._seen_by(rows, column)
        about = self._expected(features)
        if (slopes := self.biases.slopes) is not None:
            together = slopes.interactions(self._inputs_of(rows, slopes), slopes.columns.design(features[None])[0])
            about = about._replace(interactions=together / np.float32(self.scaling.unit))
        amplitudes, targets = self._amplitudes.for_column(len(ratings)), self.scaling.down_values(ratings, means)
        return Posterior(self._space, amplitudes, seen, targets, about)

    def _inputs_of(self, rows: Ints, slopes: Slopes) -> Floats:
        """(n, q): what slopes see of rows that a column has rated: as trained, or now if they came later."""
        inputs, old = slopes.rows.now(rows)[0], self.codes.was_trained(rows)
        inputs[old] = slopes.rows.trained_inputs[rows[old]]
        return inputs

    def _expected(self, features: Floats) -> Expected:
        weights, biases = expected_of_columns(self._space, self.biases, self.scaling, features[None])
        return Expected(weights[0], 0.0 if self.own_output else float(biases[0]))

    def _seen_by(self, rows: Ints, column: int | None) -> tuple[KernelInputs, Floats]:
        """Rows as a column's ratings of them are seen, and their means (n,), scaled."""
        longs = rows.astype(np.int64)
        codes, means = self.codes.for_regression(longs)
        old = self.codes.was_trained(longs)
        counts, described = self._read[longs], self.row_features.described[longs]
        counts[old] = self.codes.trained_counts[longs[old]]
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
        return self.by_row.column_counts

    def _rows(self, at: Ints | Longs | slice) -> AskedRows:
        """Some rows as they stand now."""
        now, biases = self.codes.now(), self.biases
        inputs = None if biases.slopes is None else biases.slopes.rows.inputs[at]
        about = self._shrinkage()[at], biases.rows.now[at], now.means[at]
        return AskedRows(now.codes[at], now.directions[at], *about, inputs)

    def _columns(self, at: Ints | Longs | slice) -> AskedColumns:
        """Some columns as they stand now, or all; `_flush` comes before."""
        if isinstance(at, slice):  # beyond them there is room for new ones
            at = slice(self.by_row.columns)
        inputs = None if self.biases.slopes is None else self.biases.slopes.columns.inputs[at]
        known = (self._column_counts()[at] > 0) | self.column_features.described[at]
        return AskedColumns(self._weights.at(at), inputs, known)

    def _new_column(self, rows: Ints, ratings: Floats, features: Floats | None) -> AskedColumns:
        """One that is known only by these ratings and features (Q,)."""
        vector = or_zeros(features, self.column_features.width)
        found, slopes = self._solved(rows, ratings, vector, None), self.biases.slopes
        inputs = None if slopes is None else slopes.columns.design(vector[None])
        known = np.array([len(ratings) > 0 or features is not None])
        return AskedColumns(ColumnWeights(*(part[None] for part in found)), inputs, known)

    def _grid(self, rows: AskedRows, columns: AskedColumns, local: Floats | None) -> Floats:
        """(m, n): ratings by columns of rows; `local` is the local part."""
        weights = columns.weights
        said: Floats = weights.linear[:, :-1] @ rows.codes.T
        said += weights.linear[:, -1:]
        if weights.cosine.shape[1]:
            said += weights.cosine @ rows.directions.T
        if local is not None:
            said += local
        bias = weights.bias[:, None] + self._interactions(rows.inputs, columns.inputs)
        return self._ratings(bias, said, rows, columns.known[:, None])

    def _interactions(self, rows: Floats | None, columns: Floats | None) -> Floats | np.float32:
        """(..., n), scaled: what features of rows and columns, by their inputs, add; 0 without slopes."""
        slopes = self.biases.slopes
        if slopes is None or rows is None or columns is None or not self._amplitudes.interactions:
            return np.float32(0)
        return slopes.interactions(rows, columns) * np.float32(self._amplitudes.interactions / self.scaling.unit)

    def _ratings(self, bias: Floats, said: Floats, rows: AskedRows, known: Bools) -> Floats:
        """What columns say of rows (..., n) -> ratings, from the biases of the columns, and whether they are known."""
        unit = np.float32(self.scaling.unit)
        if not self.own_output:
            return np.asarray(self.biases.overall + rows.deviations + unit * (bias + rows.shrinkage * said), np.float32)
        fitted = self.biases.overall + rows.deviations + unit * bias
        output = self.scaling.unclipped(np.tanh(said) if self.network.squash else said, rows.means)
        return np.asarray(fitted + rows.shrinkage * np.asarray(known, np.float32) * (output - fitted), np.float32)

    def entries(self, users: Ints, items: Ints) -> Floats:
        self._flush()
        biases, (rows, columns) = self.biases, rows_and_columns(self.rows_are, users, items)
        nowhere = biases.overall + biases.rows.of_nobody()
        predicted = np.full(len(rows), nowhere + biases.columns.of_nobody(), np.float32)
        nobody = (rows < 0) & (columns >= 0)
        predicted[nobody] = nowhere + np.float32(self.scaling.unit) * self._weights.bias[columns[nobody]]
        nothing = (rows >= 0) & (columns < 0)
        if nothing.any():
            asked, place = np.unique(rows[nothing], return_inverse=True)
            unknown = self._new_column(_NO_ROWS, _NO_RATINGS, None)
            predicted[nothing] = self._grid(self._rows(asked), unknown, None)[0, place]
        seen = np.flatnonzero((rows >= 0) & (columns >= 0))
        seen = seen[np.argsort(columns[seen], kind="stable")]  # each column is read once
        for first in range(0, len(seen), _ENTRIES_AT_ONCE):
            at = seen[first : first + _ENTRIES_AT_ONCE]
            row, column = self._rows(rows[at]), self._columns(columns[at])
            weights, inputs = column.weights, row.inputs
            said = np.einsum("ij,ij->i", row.codes, weights.linear[:, :-1]) + weights.linear[:, -1]
            if weights.cosine.shape[1]:
                said += np.einsum("ij,ij->i", row.directions, weights.cosine)
            if self._local is not None:
                said += self._local.at_pairs(rows[at], columns[at])
            together = self._interactions(None if inputs is None else inputs[:, None], column.inputs)
            predicted[at] = self._ratings(weights.bias + np.reshape(together, -1), said, row, column.known)
        return predicted

    # Intervals

    def interval_radius(self, users: Ints, items: Ints, predicted: Floats) -> Floats | None:
        if self.decoder.spread is None:
            return None
        rows, columns = rows_and_columns(self.rows_are, users, items)
        counts = np.where(columns >= 0, self._column_counts()[columns], 0)
        read = np.where(rows >= 0, self._read[rows], 0)
        return self._in_ratings(self.decoder.spread, self.uncertain(rows, columns), read, counts, predicted)

    def uncertain(self, rows: Ints, columns: Ints) -> Doubles:
        """(n,): posterior variances of what columns say of rows, scaled, without noise; -1 was never seen."""
        order = np.argsort(columns, kind="stable")
        starts = np.flatnonzero(np.diff(columns[order], prepend=-2))
        asked, wanted = columns[order[starts]].astype(np.int64), np.split(rows[order], starts[1:])
        # As many columns at a time as have not too many ratings together.
        counts = np.where(asked >= 0, self._column_counts()[asked], 0)
        cuts = np.flatnonzero(np.diff(np.cumsum(counts) // _ENTRIES_READ)) + 1
        parts = [slice(int(part[0]), int(part[-1]) + 1) for part in np.split(np.arange(len(asked)), cuts) if len(part)]
        found = np.empty(len(rows))
        found[order] = np.concatenate([np.empty(0), *(self._variances(asked[part], wanted[part]) for part in parts)])
        return found

    def _variances(
        self,
        columns: Longs,
        asked: list[Ints],
        rated: list[Ints] | None = None,
        new: tuple[Floats, np.float32] | None = None,
    ) -> Doubles:
        """(asked,): of columns that are asked about such rows; an index of -1 is the row with the code and shrinkage of
        `new`, or one that was never seen. `rated`: the rows that columns have rated where these are not known ones.
        """
        if rated is None:
            rated = [self.by_row.column(column)[0] if column >= 0 else _NO_ROWS for column in columns.tolist()]
        given, wanted = (np.concatenate([_NO_ROWS, *rows]).astype(np.int64) for rows in (rated, asked))
        distinct, places = np.unique(np.concatenate([[-1], given, wanted]), return_inverse=True)
        codes = np.zeros((len(distinct), self.network.width), np.float32)
        codes[1:] = self.codes.now().codes[distinct[1:]]
        shrinkage = np.append(self._shrinkage(), np.float32(0))
        if new is not None:
            codes[0], shrinkage[-1] = new
        # A row is believed as far as it is without the rating of the column.
        inside = np.repeat((columns >= 0) & (columns < self.network.columns), [len(rows) for rows in rated])
        counts = np.maximum(self._read[given] - inside, 0)
        believed = self._amplitudes.shrinkage(counts, self.row_features.described[given])
        of_ratings, of_asked = places[1 : len(given) + 1], places[len(given) + 1 :]
        both = RowsOf.of(rated, of_ratings, believed), RowsOf.of(asked, of_asked, shrinkage[wanted])
        return posterior_variances(self._space, self._amplitudes, codes, *both)

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
        rows, part, count = self._rows(users), self._local, self.known.columns
        local = None
        if part is not None:
            pairs = zip(users.tolist(), rows.directions, strict=True)
            found = [part.of_row(part.nearest(user), direction) for user, direction in pairs]
            local = np.reshape(np.array(found, np.float32), (len(users), count)).T
        return np.ascontiguousarray(self._grid(rows, self._columns(ALL), local).T)

    def new_user(
        self, items: Ints, ratings: Floats, features: Floats | None = None, asked: Ints | slice = ALL
    ) -> Floats:
        self._flush()
        vector, slopes = or_zeros(features, self.row_features.width), self.biases.slopes
        code, mean = self.codes.of_ratings(items, ratings, vector)
        directions, shrinkage = self._space.directions(code[None]), self._shrinkage_of(items, features)
        inputs = None if slopes is None else slopes.rows.design(vector[None])
        deviation, local = self.biases.row_of(items, ratings, vector), None
        if self._local is not None and shrinkage:
            near = self._local.nearest_to(directions[0])
            local = self._local.of_row(near, directions[0])[asked][:, None]
        row = AskedRows(code[None], directions, shrinkage, deviation, mean, inputs)
        return np.asarray(self._grid(row, self._columns(asked), local)[:, 0])

    def _shrinkage_of(self, items: Ints, features: Floats | None) -> np.float32:
        """Of a user with ratings of these items."""
        read, described = np.array([self._count_read(items)]), np.array([features is not None])
        return np.float32(self._amplitudes.shrinkage(read, described)[0])

    def new_user_interval_radius(self, given: Given, asked: Ints, predicted: Floats) -> Floats | None:
        if self.decoder.spread is None:
            return None
        items, ratings, features = given[:3]
        code, _ = self.codes.of_ratings(items, ratings, or_zeros(features, self.row_features.width))
        new = code, self._shrinkage_of(items, features)
        posterior = self._variances(asked.astype(np.int64), [_NEVER_SEEN] * len(asked), new=new)
        read = np.full(len(asked), self._count_read(items))
        return self._in_ratings(self.decoder.spread, posterior, read, self.item_counts[asked], predicted)


class ItemRows(CFNPredictor):
    """Items are the rows of the network, and users its columns: the codes of all items times the weights of a user."""

    rows_are: ClassVar[Orientation] = "item"

    def item_vectors(self) -> Floats:
        """(items, width): the codes."""
        return self.codes.now().codes if self._tells_taste else super().item_vectors()

    def users(self, users: Longs) -> Floats:
        self._flush()
        rows, part, local = self._rows(slice(None)), self._local, None
        if part is not None:
            found = [part.of_column(*part.alpha_of(user)) for user in users.tolist()]
            local = np.reshape(np.array(found, np.float32), (len(users), len(rows.codes)))
        return self._grid(rows, self._columns(users), local)

    def new_user(
        self, items: Ints, ratings: Floats, features: Floats | None = None, asked: Ints | slice = ALL
    ) -> Floats:
        found = self._new_column(items, ratings, features)
        local = None if self._local is None else self._local.of_column(items, found.weights.alpha[0])[asked]
        return np.asarray(self._grid(self._rows(asked), found, local)[0])

    def new_user_interval_radius(self, given: Given, asked: Ints, predicted: Floats) -> Floats | None:
        if self.decoder.spread is None:
            return None
        posterior = self._variances(np.array([-1]), [asked], [given.others])
        counts = np.full(len(asked), len(given.others))
        return self._in_ratings(self.decoder.spread, posterior, self._read[asked], counts, predicted)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """Exact: what the user says is a sum over the ratings, each times its gain."""
        if self.own_output:
            return super().user_shares(given, items)
        self._flush()
        unit, vector = self.scaling.unit, or_zeros(given.features, self.column_features.width)
        number = given.number if given.number >= 0 else None
        posterior = self._posterior(given.others, given.ratings, vector, number)
        asked = KernelInputs.of(self._space, self.codes.now().codes[items], self._shrinkage()[items])
        cut = None if self._local is None else self._local.between(items, asked.directions, given.others)
        gain = posterior.gain(asked, cut)

        def expected(at: KernelInputs, weights: Floats, bias: Floats) -> Floats:
            """(n, Q) or (n, 1): what weights (width + 1, Q) and biases (Q,) say of rows."""
            said = at.codes @ weights[:-1] + weights[-1]
            found: Floats = bias + np.float32(self._amplitudes.mean) * at.shrinkage[:, None] * said
            return found

        nothing = self._expected(np.zeros_like(vector))
        of_nothing = expected(posterior.seen, nothing.weights[:, None], np.array([nothing.bias], np.float32))[:, 0]
        by_rating = gain * (posterior.targets - of_nothing)
        # What the ratings tell is taken off what the features had led one to expect.
        slope = self._space.by_features.slope[:-1].T, self.means.rows.by_features.slope[:-1, 0] / np.float32(unit)
        by_feature = (expected(asked, *slope) - gain @ expected(posterior.seen, *slope)) * vector
        if (slopes := self.biases.slopes) is not None:
            share = self._amplitudes.interactions / unit * slopes.coefficients[1:, 1:].T
            of_asked, of_seen = (
                slopes.columns.design.shares(vector, inputs[:, 1:] @ share)
                for inputs in (slopes.rows.inputs[items], self._inputs_of(given.others, slopes))
            )
            by_feature = by_feature + of_asked - gain @ of_seen
        return Shares(by_rating * unit, by_input_column(by_feature * unit, given.widths))


def rows_and_columns(rows_are: Orientation, users: _Side, items: _Side) -> tuple[_Side, _Side]:
    """Of a network; and from its rows and columns users and items."""
    return (users, items) if rows_are == "user" else (items, users)


def taken(weights: Arrays, prefix: str) -> Arrays:
    """The arrays whose names begin so, without that, taken out of the others."""
    names = [name for name in weights if name.startswith(prefix)]
    return {name.removeprefix(prefix): weights.pop(name) for name in names}
