"""The matrix as the Bayesian decoder fills it in, hot, warm or cold; it follows new ratings at once."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.cfn.gp import (
    Amplitudes,
    CodeSpace,
    Decoded,
    Expected,
    LeaveOneOut,
    Posterior,
    Seen,
    expected_of_columns,
)
from cofill.models.cfn.gp_batch import DecodedColumns, RowsOf, Spread, across, posterior_variances, whole_variance
from cofill.models.cfn.local_part import LocalPart
from cofill.models.cfn.neighbours import Neighbours
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.row_codes import ReadRows, RowCodes
from cofill.models.cfn.scaling import Scaling
from cofill.models.cfn.shares import along_the_path, blended, of_damped_mean
from cofill.models.explanation import Given, Shares
from cofill.models.feature_ridge import FeatureRegression
from cofill.models.file import Arrays
from cofill.models.known import KnownRatings
from cofill.models.matrix import FilledMatrix, Flags, Floats, Ints, Longs, grown
from cofill.models.means import FittedMeans

Doubles = npt.NDArray[np.float64]

_ENTRIES_AT_ONCE = 8192
_ENTRIES_READ = 500_000
_NO_ROWS = np.empty(0, np.int32)
_NEVER_SEEN = np.array([-1], np.int32)
_NO_PULL = np.empty(0, np.float32)


@dataclass(frozen=True)
class Decoder:
    """All that a trained network's decoder is made of."""

    space: CodeSpace
    amplitudes: Amplitudes
    columns: DecodedColumns  # as trained
    spread: Spread  # of errors
    near: Neighbours | None  # of the rows of the training, if there is a local kernel

    def arrays(self) -> Arrays:
        """For a model file; the weights of codes are kept in the place of the network's own."""
        near = {} if self.near is None else {"near": self.near.rows, "near_kernel": self.near.kernel}
        return near | {
            "amplitudes": self.amplitudes.as_array(),
            "mean": self.space.mean,
            "by_features": self.space.by_features.slope,
            "factor": self.space.factor,
            "centre": self.space.centre,
            "turn": self.columns.turn,
            "bias": self.columns.bias,
            "pull": self.columns.pull,
            "spread": self.spread.as_array(),
        }

    @classmethod
    def restored(cls, arrays: Arrays, network: Arrays, ratings: int) -> Self:
        """From what a file kept, and the weights of the network; ValueError where they do not fit together."""
        taste = np.column_stack([network["output.weight"], network["output.bias"]])
        columns = DecodedColumns(taste, arrays["turn"], arrays["bias"], arrays["pull"])
        width = taste.shape[1] - 1
        shapes = {
            "turn": (len(taste), width),
            "bias": (len(taste),),
            "pull": (ratings,),
            "mean": (width + 1,),
            "centre": (width,),
            "factor": (width + 1, arrays["factor"].shape[-1]),
            "by_features": (len(arrays["by_features"]), width + 1),
        }
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise ValueError(f"decoder.{name} has shape {list(arrays[name].shape)} instead of {list(shape)}")
        space = CodeSpace(arrays["mean"], FeatureRegression(arrays["by_features"]), arrays["factor"], arrays["centre"])
        amplitudes, spread = Amplitudes.from_array(arrays["amplitudes"]), Spread.from_array(arrays["spread"])
        near = None
        if amplitudes.local:
            rows, kernel = arrays["near"], arrays["near_kernel"]
            if rows.ndim != 2 or rows.shape != kernel.shape or ((rows < 0) | (rows >= len(rows))).any():
                raise ValueError("the table of nearest rows is damaged")
            near = Neighbours(rows, kernel)
        return cls(space, amplitudes, columns, spread, near)


class _OfRows(NamedTuple):
    """Of all rows, as they stand at a version of the codes and with so many rows."""

    version: tuple[int, int]
    trust: Floats  # (rows,)
    lengths: Floats  # (rows,): of the centred codes


class DecodedMatrix(FilledMatrix):
    """Predictions in terms of rows and columns, in ratings, not clipped to the scale.

        overall + deviation of the row + unit * (bias + trust (code . taste + direction . turn + local part))

    - A row is read by the network as it stands now: its ratings, and its side features. The fewer ratings it has, the
      less its code is believed; of a row of which nothing is known, nothing but the column's bias is left.
    - A column has weights in closed form, from its ratings at the codes of the rows as they were trained, without its
      own rating; of rows that came later, as they stand now. It is solved again when its ratings or features change.
    """

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        known: KnownRatings,
        biases: FittedMeans,
        decoder: Decoder,
        settings: CFNSettings,
        *,
        row_features: SideFeatures,
        column_features: SideFeatures,
        read: ReadRows | None = None,
    ) -> None:
        """`read`: the rows as all columns read them, in part of a model, which has some of the columns."""
        super().__init__(known, biases, row_features, column_features)
        self.network, self.scaling, self.decoder = network, scaling, decoder
        # The network's own output weights have done their work: these are the largest arrays there are.
        network.output.weight = decoder.columns.taste[:, :-1]
        network.output.bias = decoder.columns.taste[:, -1]
        self.codes = RowCodes(network, scaling, known, row_features, read)
        self._space, self._amplitudes = decoder.space, decoder.amplitudes
        self._left_out = None if read is None else read.left_out
        self._rows_now: _OfRows | None = None
        trained = decoder.columns
        self._taste, self._turn, self._bias = trained.taste, trained.turn, trained.bias
        self._local: LocalPart | None = None
        if decoder.near is not None:
            self._local = LocalPart(
                decoder.near, trained.pull, decoder.space, known, self.codes, row_features, self._lengths
            )
        self._moved: set[int] = set()  # columns whose weights are out of date
        self._read = known.trained_counts()  # (rows,) ratings that the network takes in
        self._catch_up()

    @property
    def scale(self) -> Scale:
        return self.scaling.scale

    # Changes

    def _make_room(self) -> None:
        self._read = grown(self._read, self.rows)

    def _row_changed(self, row: int, columns: Ints, ratings: Floats) -> None:
        self._read[row] = self._count_read(columns)
        self.codes.changed(row)
        if self._local is not None:
            self._local.row_changed(row)

    def _column_changed(self, column: int, rows: Ints, ratings: Floats) -> None:
        self._moved.add(column)

    def _row_was_trained(self, row: int) -> bool:
        return bool(self.codes.was_trained(np.array([row]))[0])

    def _settle(self) -> None:
        """Give the columns that have moved the weights that follow what is known of them now."""
        if not self._moved:
            return
        trained = self.decoder.columns
        if self._taste is trained.taste:  # the file's or the training's own memory until a column moves
            self._taste, self._turn, self._bias = self._taste.copy(), self._turn.copy(), self._bias.copy()
        if self.columns > len(self._bias):  # with room to spare: the next new column should not copy it all again
            room = self.columns + self.columns // 16
            self._taste, self._turn, self._bias = (grown(part, room) for part in (self._taste, self._turn, self._bias))
        for column in self._moved:
            if self.column_as_trained(column):
                if self._local is not None:
                    self._local.column_as_trained(column)
                found = Decoded(trained.taste[column], trained.turn[column], trained.bias[column], _NO_PULL)
            else:
                rows, ratings = self.known.column(column)
                posterior = self._posterior(rows, ratings, self.column_features.values[column], column)
                found = posterior.decoded()
                if self._local is not None:
                    self._local.column_changed(column, rows, found.pull)
            self._taste[column], self._turn[column], self._bias[column] = found.taste, found.turn, found.bias
        self._moved.clear()

    # Columns

    def _posterior(self, rows: Ints, ratings: Floats, features: Floats, column: int | None) -> Posterior:
        """Of a column with these ratings and features (Q,); `column` where it is one of the matrix."""
        seen, means = self._seen_by(rows, ratings, column)
        targets = self.scaling.down_values(ratings, means)
        amplitudes = self._amplitudes.for_column(len(ratings))
        return Posterior(self._space, amplitudes, seen, targets, self._expected(features))

    def _expected(self, features: Floats) -> Expected:
        weights, biases = expected_of_columns(self._space, self.means, self.scaling, features[None])
        return Expected(weights[0], float(biases[0]))

    def _seen_by(self, rows: Ints, ratings: Floats, column: int | None) -> tuple[Seen, Floats]:
        """Rows as a column's ratings of them are seen, and their means (n,), scaled."""
        longs = rows.astype(np.int64)
        codes, means = self.codes.for_regression(longs)
        old = self.codes.was_trained(longs)
        counts = np.zeros(len(rows), np.int64)
        counts[old] = self.known.trained_counts()[longs[old]]
        counts[~old] = self._read[longs[~old]]
        described = self.row_features.described[longs]
        described[old] = self.row_features.trained_described[longs[old]]
        if column is not None and column < self.network.columns:
            own_rows, own_ratings = self.known.trained_columns.row(column)
            own = np.isin(rows, own_rows)
            if own.any():
                before = own_ratings[np.searchsorted(own_rows, rows[own])]
                without = self._leave_one_out()(rows[own], np.full(int(own.sum()), column, np.int32), before)
                codes[own], means[own], counts[own] = without.codes, without.means, without.counts
        if column is not None:  # rows that came later have this column's rating in them, too
            for place in np.flatnonzero(~old).tolist():
                others, theirs = self.known.row(int(rows[place]))
                kept = others != column
                vector = self.row_features.values[rows[place]]
                codes[place], means[place] = self.codes.of_ratings(others[kept], theirs[kept], vector)
                counts[place] = self._count_read(others[kept])
        return self._space.seen(codes, self._amplitudes.trust(counts, described)), means

    def _leave_one_out(self) -> LeaveOneOut:
        if self._left_out is None:
            self._left_out = LeaveOneOut(self.network, self.scaling, self.known.trained, self.row_features)
        return self._left_out

    # Rows

    def read_rows(self) -> ReadRows:
        """The rows of the training as all columns read them."""
        return ReadRows(self.codes.as_trained()[0], self._leave_one_out())

    def _trust(self) -> Floats:
        """(rows,)"""
        return self._of_rows().trust

    def _of_rows(self) -> "_OfRows":
        """What is needed of all rows for every list; worked out again when rows have changed."""
        version = (self.codes.version, self.rows)
        if self._rows_now is None or self._rows_now.version != version:
            codes, _ = self.codes.all_now()
            trust = self._amplitudes.trust(self._read, self.row_features.described)
            self._rows_now = _OfRows(version, trust, self._space.centred(codes)[1])
        return self._rows_now

    def _count_read(self, columns: Ints) -> int:
        return int((columns < self.network.columns).sum())

    # Predictions

    def row(self, row: int) -> Floats:
        alone: Floats = self.many_rows(np.array([row]))[0]
        return alone

    def column(self, column: int) -> Floats:
        self._settle()
        rated, pull = (_NO_ROWS, _NO_PULL) if self._local is None else self._local.pull_of(column)
        found = Decoded(self._taste[column], self._turn[column], self._bias[column], pull)
        return self._down_a_column(found, rated, slice(None))

    def new_row(self, columns: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self._along_a_row(columns, ratings, features, slice(None))

    def new_row_at(self, columns: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        return self._along_a_row(columns, ratings, features, asked)

    def new_column(self, rows: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self._along_a_column(rows, ratings, features, slice(None))

    def new_column_at(self, rows: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        return self._along_a_column(rows, ratings, features, asked)

    def _along_a_row(self, columns: Ints, ratings: Floats, features: Floats | None, at: Ints | slice) -> Floats:
        self._settle()
        described = features is not None
        vector = _or_zeros(features, self.row_features.width)
        code, _ = self.codes.of_ratings(columns, ratings, vector)
        trust = self._amplitudes.trust(np.array([self._count_read(columns)]), np.array([described]))[0]
        direction = self._space.directions(code[None])[0]
        known = slice(self.columns) if isinstance(at, slice) else at
        said = self._taste[known, :-1] @ code + self._taste[known, -1] + self._turn[known] @ direction
        if self._local is not None and trust:
            said += self._local.of_row(self._local.nearest_now(direction), direction)[known]
        deviation = self.means.row_of(columns, ratings, vector)
        return self._up(self._bias[known] + trust * said, deviation)

    def _along_a_column(self, rows: Ints, ratings: Floats, features: Floats | None, at: Ints | slice) -> Floats:
        vector = _or_zeros(features, self.column_features.width)
        return self._down_a_column(self._posterior(rows, ratings, vector, None).decoded(), rows, at)

    def _down_a_column(self, found: Decoded, rated: Ints, at: Ints | slice) -> Floats:
        codes, _ = self.codes.all_now()
        codes = codes[at]
        said = codes @ found.taste[:-1] + found.taste[-1]
        said += (codes @ found.turn - self._space.centre @ found.turn) / self._lengths()[at]
        if self._local is not None:
            said += self._local.of_column(rated, found.pull)[at]
        return self._up(found.bias + self._trust()[at] * said, self.means.row[at])

    def _lengths(self) -> Floats:
        """(rows,): of the centred codes."""
        return self._of_rows().lengths

    def _up(self, scaled: Floats, deviations: np.float32 | Floats) -> Floats:
        """Scaled predictions without the row's deviation, which is in ratings -> ratings."""
        ratings: Floats = self.means.overall + deviations + np.float32(self.scaling.unit) * scaled
        return ratings

    def entries(self, rows: Ints, columns: Ints) -> Floats:
        """An id that was never seen gets what one of which nothing is known gets."""
        predicted = super().entries(rows, columns)
        self._settle()
        nobody = (rows < 0) & (columns >= 0)
        predicted[nobody] = self._up(self._bias[columns[nobody]], self.means.row_of_nobody())
        nothing = (rows >= 0) & (columns < 0)
        if nothing.any():
            asked, place = np.unique(rows[nothing], return_inverse=True)
            predicted[nothing] = self.new_column_at(asked[:0], _NO_PULL, None, asked)[place]
        return predicted

    def _fill_entries(self, predicted: Floats, seen: Longs, rows: Ints, columns: Ints) -> None:
        self._settle()
        trust = self._trust()
        for first in range(0, len(seen), _ENTRIES_AT_ONCE):
            at = seen[first : first + _ENTRIES_AT_ONCE]
            row, column = rows[at], columns[at]
            distinct, place = np.unique(row, return_inverse=True)
            codes, _ = self.codes.now(distinct.astype(np.int64))
            directions = self._space.directions(codes)
            said = np.einsum("ij,ij->i", codes[place], self._taste[column, :-1]) + self._taste[column, -1]
            said += np.einsum("ij,ij->i", directions[place], self._turn[column])
            if self._local is not None:
                said += self._local.at_pairs(row, column, distinct, place)
            predicted[at] = self._up(self._bias[column] + trust[row] * said, self.means.row[row])

    def quickest_order(self, rows: Ints, columns: Ints) -> Longs:
        return np.lexsort((rows, columns))

    def half_widths(self, rows: Ints, columns: Ints, predicted: Floats) -> Floats:
        """(n,): how far to either side of predictions nine tenths of ratings are; an index of -1 was never seen."""
        counts = np.where(columns >= 0, self.column_counts[columns], 0)
        return self._widths(self.uncertain(rows, columns), self.read_of(rows), counts, predicted)

    def read_of(self, rows: Ints) -> Longs:
        """(n,): how many ratings of each row the network takes in; an index of -1 was never seen."""
        return np.where(rows >= 0, self._read[rows], 0)

    def uncertain(self, rows: Ints, columns: Ints) -> Doubles:
        """(n,): posterior variances of what columns say of rows, scaled, without noise; -1 was never seen."""
        found = np.empty(len(rows))
        order = np.argsort(columns, kind="stable")
        starts = np.flatnonzero(np.diff(columns[order], prepend=-2))
        asked = columns[order[starts]].astype(np.int64)
        rated = [self.known.column(column)[0] if column >= 0 else _NO_ROWS for column in asked.tolist()]
        counts = np.array([len(one) for one in rated], np.int64)
        wanted = np.split(rows[order], starts[1:])
        # As many columns at a time as have not too many ratings together.
        cuts = np.flatnonzero(np.diff(np.cumsum(counts) // _ENTRIES_READ)) + 1
        ends = np.append(starts, len(order))
        for part in np.split(np.arange(len(asked)), cuts):
            if len(part):
                own = slice(int(part[0]), int(part[-1]) + 1)
                of_ratings = np.repeat(asked[own], counts[own])
                found[order[ends[own.start] : ends[own.stop]]] = self._uncertain(rated[own], of_ratings, wanted[own])
        return found

    def _uncertain(self, rated: list[Ints], columns: Longs, asked: list[Ints], new: Seen | None = None) -> Doubles:
        """(asked,): of columns that have rated such rows, and are asked about such rows; an index of -1 is the row
        `new`, or one that was never seen. `columns` are those of the ratings, or -1.
        """
        given, wanted = (np.concatenate([_NO_ROWS, *rows]).astype(np.int64) for rows in (rated, asked))
        distinct, places = np.unique(np.concatenate([[-1], given, wanted]), return_inverse=True)
        codes = np.zeros((len(distinct), self.network.width), np.float32)
        codes[1:] = self.codes.now(distinct[1:])[0]
        trust = np.append(self._trust(), np.float32(0))
        if new is not None:
            codes[0], trust[-1] = new.codes[0], new.trust[0]
        # A row is believed as far as it is without the rating of the column.
        inside = (columns >= 0) & (columns < self.network.columns)
        believed = self._amplitudes.trust(np.maximum(self._read[given] - inside, 0), self.row_features.described[given])
        return posterior_variances(
            self._space,
            self._amplitudes,
            codes,
            RowsOf.of(rated, places[1 : len(given) + 1], believed),
            RowsOf.of(asked, places[len(given) + 1 :], trust[wanted]),
        )

    def new_row_half_widths(
        self, columns: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats:
        code, _ = self.codes.of_ratings(columns, ratings, _or_zeros(features, self.row_features.width))
        read = np.array([self._count_read(columns)])
        row = self._space.seen(code[None], self._amplitudes.trust(read, np.array([features is not None])))
        rated = [self.known.column(column)[0] for column in asked.tolist()]
        own = np.repeat(asked.astype(np.int64), [len(rows) for rows in rated])
        posterior = self._uncertain(rated, own, [_NEVER_SEEN] * len(asked), row)
        return self._widths(posterior, np.repeat(read, len(asked)), self.column_counts[asked], predicted)

    def new_column_half_widths(
        self, rows: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats:
        posterior = self._uncertain([rows], np.full(len(rows), -1), [asked])
        return self._widths(posterior, self._read[asked], np.full(len(asked), len(rows)), predicted)

    def _widths(self, posterior: Doubles, read: Longs, counts: Longs, predicted: Floats) -> Floats:
        """(n,): in ratings, from posterior variances and the numbers of ratings of rows and of columns."""
        spread = self.decoder.spread
        variances = whole_variance(posterior, self._amplitudes, self.means, self.scaling, read)
        deviation = spread.deviation(variances, read, counts, across(predicted, self.scale))
        return np.asarray(spread.quantile * deviation * self.scaling.unit, np.float32)

    def many_rows(self, rows: Longs) -> Floats:
        self._settle()
        codes, _ = self.codes.now(rows)
        directions = self._space.directions(codes)
        known = slice(self.columns)
        said = codes @ self._taste[known, :-1].T + self._taste[known, -1] + directions @ self._turn[known].T
        if self._local is not None:
            for place, row in enumerate(rows.tolist()):
                near = self._local.nearest(row, directions[place])
                said[place] += self._local.of_row(near, directions[place])
        scaled = self._bias[known] + self._trust()[rows][:, None] * said
        return self._up(scaled, self.means.row[rows][:, None])

    def many_columns(self, columns: Longs) -> Floats:
        self._settle()
        codes, _ = self.codes.all_now()
        turn = self._turn[columns]
        said = self._taste[columns, :-1] @ codes.T + self._taste[columns, -1:]
        said += (turn @ codes.T - (turn @ self._space.centre)[:, None]) / self._lengths()
        if self._local is not None:
            for place, column in enumerate(columns.tolist()):
                said[place] += self._local.of_column(*self._local.pull_of(column))
        return self._up(self._bias[columns][:, None] + self._trust() * said, self.means.row)

    def row_known(self) -> Flags:
        """(rows,): of which rows there is a rating or a feature."""
        known: Flags = (self.row_counts > 0) | self.row_features.described
        return known

    def column_known(self) -> Flags:
        """(columns,): of which columns there is a rating or a feature."""
        known: Flags = (self.column_counts > 0) | self.column_features.described
        return known

    # Shares of ratings and features in a prediction

    def column_shares(self, given: Given, rows: Ints) -> Shares:
        """Exact: a prediction is a sum over the column's ratings, each times its gain."""
        self._settle()
        scaling, amplitudes = self.scaling, self._amplitudes
        vector = _or_zeros(given.features, self.column_features.width)
        column = given.number if given.number >= 0 else None
        posterior = self._posterior(given.others, given.ratings, vector, column)
        codes, _ = self.codes.now(rows.astype(np.int64))
        asked = self._space.seen(codes, self._trust()[rows])
        cut = None if self._local is None else self._local.between(rows, asked.directions, given.others)
        gain = posterior.gain(asked, cut)
        seen, means = self._seen_by(given.others, given.ratings, column)
        nothing = self._expected(np.zeros_like(vector))

        def expected(at: Seen, about: Floats, bias: Floats) -> Floats:
            """(n, Q) or (n, 1): what weights (width + 1, Q) and biases (Q,) say of rows."""
            said = at.codes @ about[:-1] + about[-1]
            found: Floats = bias + np.float32(amplitudes.mean) * at.trust[:, None] * said
            return found

        weights, bias = nothing.weights[:, None], np.array([nothing.bias], np.float32)
        left = scaling.down_values(given.ratings, means) - expected(seen, weights, bias)[:, 0]
        by_rating = gain * left
        # What the ratings tell is taken off what the features had led one to expect.
        slope = self._space.by_features.slope[:-1].T
        slope_of_bias = self.means.by_column_features.slope[:-1, 0] / np.float32(scaling.unit)
        by_feature = (expected(asked, slope, slope_of_bias) - gain @ expected(seen, slope, slope_of_bias)) * vector
        return _in_columns(given, by_rating * scaling.unit, by_feature * scaling.unit)

    def row_shares(self, given: Given, columns: Ints) -> Shares:
        """Along the path from nothing to the row through the network, as far as its code is believed in the end."""
        self._settle()
        network, scaling, space = self.network, self.scaling, self._space
        vector = _or_zeros(given.features, self.row_features.width)
        read = given.others < network.columns
        row = SparseRows(np.array([0, read.sum()]), given.others[read], given.ratings[read], network.columns)
        mean = scaling.mean_of(given.others, given.ratings, vector)
        scaled = scaling.down_with(row, np.array([mean]), vector[None])
        code, _ = self.codes.of_ratings(given.others, given.ratings, vector)
        trust = self._amplitudes.trust(np.array([read.sum()]), np.array([given.features is not None]))[0]
        length = space.centred(code[None])[1][0]
        turn = self._turn[columns] / length
        path = along_the_path(
            network,
            scaled.known.indices,
            (scaled.known.values + np.float32(scaled.presence)) * scaled.input_scale,
            vector,
            scaled.features[0, len(vector) :],
            trust * (self._taste[columns, :-1] + turn),
            trust * (self._taste[columns, -1] - turn @ space.centre),
            squash=False,
        )
        # The row's own deviation comes on top of what the decoder says.
        nobody = scaling.mean_of(given.others[:0], given.ratings[:0], np.zeros_like(vector))
        surplus = scaling.without_column(given.others, given.ratings) - nobody
        of_mean = of_damped_mean(surplus, vector, scaling.by_features, scaling.damping)
        by_rating = np.tile(of_mean.ratings, (len(columns), 1))
        by_rating[:, read] += path.by_input
        by_feature = path.by_feature + of_mean.features
        local = np.zeros(len(columns), np.float32)
        if self._local is not None and trust:
            direction = space.directions(code[None])[0]
            known = given.number >= 0
            near = self._local.nearest(given.number, direction) if known else self._local.nearest_now(direction)
            local = trust * self._local.of_row(near, direction)[columns]
        return blended(
            given,
            trust=np.ones(len(columns), np.float32),
            of_means=of_mean,
            of_network=Shares(by_rating * scaling.unit, by_feature * scaling.unit),
            difference=np.float32(scaling.unit) * (path.start + local),
            read=read,
        )

    # Representations

    def row_vectors(self) -> Floats:
        """(rows, width): the codes."""
        return self.codes.all_now()[0] if self._tells_taste else np.zeros((self.rows, 0), np.float32)

    def column_vectors(self) -> Floats:
        """(columns, width): the weights of codes."""
        self._settle()
        return self._taste[: self.columns, :-1] if self._tells_taste else np.zeros((self.columns, 0), np.float32)

    @property
    def _tells_taste(self) -> bool:
        """Where validation ratings did not gain by taste, nothing makes one row or column like another."""
        return self._amplitudes.taste > 0 or self._amplitudes.mean > 0


def _or_zeros(features: Floats | None, width: int) -> Floats:
    return np.zeros(width, np.float32) if features is None else features


def _in_columns(given: Given, by_rating: npt.NDArray[np.float64], by_feature: npt.NDArray[np.float64]) -> Shares:
    """Features of one input column are explained as one."""
    ends = np.cumsum(given.widths, dtype=np.int64)[:-1]
    parts = [part.sum(1) for part in np.split(by_feature, ends, axis=1)] if given.widths else []
    return Shares(by_rating, np.array(parts).reshape(len(parts), len(by_rating)).T)
