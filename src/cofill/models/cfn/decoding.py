"""The decoder of a trained network: a Gaussian process from the codes of rows to the ratings of columns.

    rating = overall + deviation of the row + unit (bias + trust (code . linear + direction . cosine + local part))

A row is read by the network as it stands now: its ratings, and its side features. The fewer ratings it has, the less
its code is believed; of a row of which nothing is known, nothing but the column's bias is left. A column has weights in
closed form, from its ratings at the codes of the rows as they were trained, without its own rating; of rows that came
later, as they stand now. It is solved again when its ratings or features change.

With `decoder = network`, as in the paper, the linear weights are the network's own, its output function follows them,
and the mean of the row is added. Kernel parameters are fixed: linear weights vary as trained ones do, and codes are
believed as soon as anything is known of their row. A trained column moves by as much as its closed form does. That is
fitted to the ratings themselves where tanh follows: to their inverse, new users and items are predicted no better.

All of this is in rows and columns of the network; `cfn/predictor.py` says which of them are users.
"""

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.models.biases import FittedMeans
from cofill.models.cfn.codes import LocalPart, ReadRows, RowCodes
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
from cofill.models.cfn.neighbours import Neighbours
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.scaling import Scaling
from cofill.models.observed import KnownRatings
from cofill.models.persistence import Arrays
from cofill.models.predictor import Predictor, described_as_trained, grown
from cofill.models.ridge import FeatureRegression

_ENTRIES_AT_ONCE = 8192
_ENTRIES_READ = 500_000
_NO_ROWS = np.empty(0, np.int32)
_NO_RATINGS = np.empty(0, np.float32)

# Of what a file keeps, what has a place for each column, or for each rating column by column: shards cut it there.
BY_COLUMN = ("input.weight", "output.weight", "output.bias", "biases.columns", "decoder.cosine_weights", "decoder.bias")
BY_RATING = ("decoder.alpha",)


@dataclass(frozen=True)
class Decoder:
    """All that a trained network's decoder is made of."""

    space: CodeSpace
    amplitudes: Amplitudes
    columns: DecodedColumns  # as trained
    spread: Spread | None  # of errors; None if nothing is known of these
    near: Neighbours | None  # of the rows of the training, if there is a local kernel

    def arrays(self) -> Arrays:
        """For a model file; the weights of codes are kept in the place of the network's own."""
        found: Arrays = {
            "amplitudes": self.amplitudes.as_array(),
            "mean": self.space.mean,
            "by_features": self.space.by_features.slope,
            "factor": self.space.factor,
            "centre": self.space.centre,
            "cosine_weights": self.columns.turn,
            "bias": self.columns.bias,
        }
        if self.spread is not None:
            found["spread"] = self.spread.as_array()
        if self.near is not None:
            found |= {"near": self.near.rows, "near_kernel": self.near.kernel, "alpha": self.columns.pull}
        return found

    @classmethod
    def restored(cls, arrays: Arrays, network: Arrays) -> Self:
        """From what a file kept, and the weights of the network."""
        linear = np.column_stack([network["output.weight"], network["output.bias"]])
        alpha = arrays.get("alpha", _NO_RATINGS)
        return cls(
            CodeSpace(arrays["mean"], FeatureRegression(arrays["by_features"]), arrays["factor"], arrays["centre"]),
            Amplitudes.from_array(arrays["amplitudes"]),
            DecodedColumns(linear, arrays["cosine_weights"], arrays["bias"], alpha),
            Spread.from_array(arrays["spread"]) if "spread" in arrays else None,
            Neighbours(arrays["near"], arrays["near_kernel"]) if "near" in arrays else None,
        )


class _RowState(NamedTuple):
    """Of all rows, as they stand at a version of the codes and with so many rows."""

    version: tuple[int, int]
    trust: Floats  # (rows,)
    lengths: Floats  # (rows,): of the centred codes


class CFNPredictor(Predictor):
    """Codes of rows, weights of columns, and how both follow changes; a subclass says which of them are users."""

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
        """Ratings and biases by the rows and columns of the network, which may be items and users.

        `read`: the rows as all columns read them, in part of a model, which has some of the columns.
        """
        by_user, means, *features = self._by_users(known, biases, row_features, column_features)
        super().__init__(by_user, scaling.scale, means, *features)
        self.network, self.scaling, self.decoder = network, scaling, decoder
        self.by_row, self.biases = known, biases
        self.row_features, self.column_features = row_features, column_features
        # The network's own output weights have done their work: these are the largest arrays there are.
        network.output.weight = decoder.columns.taste[:, :-1]
        network.output.bias = decoder.columns.taste[:, -1]
        self.codes = RowCodes(network, scaling, known, row_features, read)
        self._space, self._amplitudes = decoder.space, decoder.amplitudes
        self._own_output = settings.decoder == "network"
        self._left_out = None if read is None else read.left_out
        self._row_state: _RowState | None = None
        trained = decoder.columns
        # Of columns, as they stand now: (columns, width + 1), (columns, width) or (columns, 0), (columns,)
        self._linear, self._cosine, self._bias = trained.taste, trained.turn, trained.bias
        self._local: LocalPart | None = None
        if decoder.near is not None:
            self._local = LocalPart(decoder.near, trained.pull, decoder.space, known, self.codes, self._lengths)
        self._outdated: set[int] = set()  # columns whose weights are to be solved for again
        self._read = known.trained_counts()  # (rows,) ratings that the network takes in
        self._catch_up()

    def state(self) -> tuple[Arrays, dict[str, float]]:
        """What a file keeps, apart from ratings and features: arrays and numbers."""
        scaling = self.scaling
        arrays: Arrays = self.network.weights() | {
            f"{kind}.{name}": array
            for kind, own in (("biases", self.biases.arrays()), ("decoder", self.decoder.arrays()))
            for name, array in own.items()
        }
        numbers = {"typical_length": scaling.typical_length}
        if not self._own_output:
            return arrays, numbers | {"unit": scaling.unit}
        arrays |= {"row_means": scaling.means, "mean_by_features": scaling.by_features.slope}
        return arrays, numbers | {"overall_mean": scaling.overall, "mean_damping": scaling.damping}

    @classmethod
    def restored(
        cls,
        arrays: Arrays,
        numbers: Mapping[str, float],
        known: KnownRatings,
        scale: Scale,
        settings: CFNSettings,
        *,
        row_features: SideFeatures,
        column_features: SideFeatures,
        read: Arrays | None = None,
    ) -> Self:
        """From what a file kept. `read`: what part of a model keeps of its rows as all columns read them.

        ValueError where ratings lead out of its arrays: compiled loops go by them, and a file may come from anywhere.
        """
        weights = dict(arrays)
        biases = FittedMeans.restored(taken(weights, "biases."))
        decoder = Decoder.restored(taken(weights, "decoder."), weights)
        rows, columns, near = known.trained.rows, known.trained.columns, decoder.near
        if len(weights["input.weight"]) != columns or len(decoder.columns.bias) != columns:
            raise ValueError("the network has another number of columns than the ratings")
        if near is not None:
            if near.rows.shape != near.kernel.shape or len(near.rows) != rows or not _within(near.rows, rows):
                raise ValueError("the table of nearest rows is damaged")
            if len(decoder.columns.pull) != known.trained.nnz:
                raise ValueError("there is another number of coefficients than of ratings")
        marks_empty = len(weights.get("input.side", ())) > row_features.width
        length = numbers["typical_length"]
        if settings.decoder == "process":
            scaling = Scaling.of_biases_in(numbers["unit"], length, biases, scale, settings, marks_empty=marks_empty)
        else:
            scaling = Scaling(
                scale=scale,
                centre=(scale.high + scale.low) / 2,
                unit=(scale.high - scale.low) / 2,
                damping=numbers["mean_damping"],
                typical_length=length,
                overall=numbers["overall_mean"],
                by_features=FeatureRegression(weights.pop("mean_by_features")),
                columns=np.zeros(known.trained.columns, np.float32),
                means=weights.pop("row_means"),
                marks_empty=marks_empty,
                settings=settings,
            )
        network = CFNetwork.of(weights, settings)
        about = {"row_features": row_features, "column_features": column_features}
        read_rows = None if read is None else ReadRows.restored(read, network, scaling, known, row_features)
        return cls(network, scaling, known, biases, decoder, settings, **about, read=read_rows)

    def read_rows(self) -> ReadRows:
        """The rows of the training as all columns read them."""
        return ReadRows(self.codes.as_trained(), self._leave_one_out())

    # Rows and columns, and users and items

    @staticmethod
    @abstractmethod
    def _by_users(
        known: KnownRatings, biases: FittedMeans, row_features: SideFeatures, column_features: SideFeatures
    ) -> tuple[KnownRatings, FittedMeans, SideFeatures, SideFeatures]:
        """Ratings, biases, features of users and of items."""

    @property
    @abstractmethod
    def _row_deviations(self) -> Floats: ...

    @property
    @abstractmethod
    def _column_counts(self) -> Longs: ...

    # Changes

    def _make_room(self) -> None:
        self._read = grown(self._read, self.by_row.rows)

    def _follow_rows(self, rows: list[int], columns: list[int]) -> None:
        for row in rows:
            self._read[row] = self._count_read(self.by_row.row(row)[0])
            self.codes.row_changed(row)
            if self._local is not None:
                self._local.row_changed(row)
            if not self.codes.was_trained(np.array([row]))[0]:
                self._outdated |= self.by_row.later_in_row(row).keys()  # these columns are fitted to this row
        self._outdated |= set(columns)

    def _count_read(self, columns: Ints) -> int:
        return int((columns < self.network.columns).sum())

    def _settle(self) -> None:
        """Give columns the weights that follow what is known of them now."""
        if not self._outdated:
            return
        trained, columns = self.decoder.columns, self.by_row.columns
        if self._linear is trained.taste:  # the file's or the training's own memory until a column changes
            self._linear, self._cosine, self._bias = self._linear.copy(), self._cosine.copy(), self._bias.copy()
        if columns > len(self._bias):  # with room to spare: the next new column should not copy it all again
            room = columns + columns // 16
            self._linear, self._cosine = grown(self._linear, room), grown(self._cosine, room)
            self._bias = grown(self._bias, room)
        for column in self._outdated:
            if self.by_row.column_as_trained(column) and described_as_trained(self.column_features, column):
                if self._local is not None:
                    self._local.column_as_trained(column)
                found = Decoded(trained.taste[column], trained.turn[column], trained.bias[column], _NO_RATINGS)
            else:
                rows, ratings = self.by_row.column(column)
                found = self._moved(column, rows, ratings)
                if self._local is not None:
                    self._local.column_changed(column, rows, found.pull)
            self._linear[column], self._bias[column] = found.taste, found.bias
            self._cosine[column] = found.turn[: self._cosine.shape[1]]
        self._outdated.clear()

    def _moved(self, column: int, rows: Ints, ratings: Floats) -> Decoded:
        """A column that is not as it was trained."""
        found = self._decoded(rows, ratings, self.column_features.values[column], column)
        if not self._own_output or column >= self.network.columns:
            return found
        before = self.by_row.trained_columns.row(column)
        if not np.isin(rows, before[0]).any():  # nothing is left of what it was trained on
            return found
        closed = self._decoded(*before, self.column_features.trained[column], column)
        return found._replace(taste=self.decoder.columns.taste[column] + found.taste - closed.taste)

    # Columns

    def _decoded(self, rows: Ints, ratings: Floats, features: Floats, column: int | None) -> Decoded:
        """The weights of a column with these ratings and features (Q,); `column` where it is a known one."""
        found = self._posterior(rows, ratings, features, column)[0].decoded()
        if not self._own_output:
            return found
        return found._replace(bias=self.biases.column_of(rows, ratings, features) / np.float32(self.scaling.unit))

    def _posterior(
        self, rows: Ints, ratings: Floats, features: Floats, column: int | None
    ) -> tuple[Posterior, Seen, Floats]:
        """Also the rows as the column sees them, and what it says of them (n,), scaled."""
        seen, means = self._seen_by(rows, column)
        targets = self.scaling.down_values(ratings, means)
        amplitudes = self._amplitudes.for_column(len(ratings))
        return Posterior(self._space, amplitudes, seen, targets, self._expected(features)), seen, targets

    @property
    def _squashes(self) -> bool:
        """Whether tanh follows what columns say of rows."""
        return self._own_output and self.network.squash

    def _expected(self, features: Floats) -> Expected:
        weights, biases = expected_of_columns(self._space, self.biases, self.scaling, features[None])
        return Expected(weights[0], 0.0 if self._own_output else float(biases[0]))

    def _seen_by(self, rows: Ints, column: int | None) -> tuple[Seen, Floats]:
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
            if own.any():
                before = own_ratings[np.searchsorted(own_rows, rows[own])]
                without = self._leave_one_out()(rows[own], np.full(int(own.sum()), column, np.int32), before)
                codes[own], means[own], counts[own] = without.codes, without.means, without.counts
        if column is not None:  # rows that came later have this column's rating in them, too
            for place in np.flatnonzero(~old).tolist():
                others, theirs = self.by_row.row(int(rows[place]))
                kept = others != column
                vector = self.row_features.values[rows[place]]
                codes[place], means[place] = self.codes.of_ratings(others[kept], theirs[kept], vector)
                counts[place] = self._count_read(others[kept])
        return self._space.seen(codes, self._amplitudes.trust(counts, described)), means

    def _leave_one_out(self) -> LeaveOneOut:
        if self._left_out is None:
            self._left_out = LeaveOneOut(self.network, self.scaling, self.by_row.trained, self.row_features)
        return self._left_out

    # Rows

    def _rows_now(self) -> _RowState:
        """What is needed of all rows for every list; worked out again when rows have changed."""
        version = (self.codes.version, self.by_row.rows)
        if self._row_state is None or self._row_state.version != version:
            codes, _ = self.codes.all_now()
            trust = self._amplitudes.trust(self._read, self.row_features.described)
            self._row_state = _RowState(version, trust, self._space.centred(codes)[1])
        return self._row_state

    def _trust(self) -> Floats:
        """(rows,)"""
        return self._rows_now().trust

    def _lengths(self) -> Floats:
        """(rows,): of the centred codes."""
        return self._rows_now().lengths

    def _column_known(self) -> Bools:
        """(columns,): of which columns there is a rating or a feature."""
        return np.asarray((self._column_counts > 0) | self.column_features.described)

    # Predictions

    def _ratings(
        self,
        bias: np.float32 | Floats,
        said: Floats,
        trust: np.float32 | Floats,
        deviations: np.float32 | Floats,
        means: np.float32 | Floats,
        known: bool | np.bool_ | Bools,
    ) -> Floats:
        """What columns say of rows -> ratings, from the biases of the columns, and from the trust in the rows, their
        deviations (in ratings) and means (scaled). `known`: whether anything is known of the columns.
        """
        unit = np.float32(self.scaling.unit)
        if not self._own_output:
            ratings: Floats = self.biases.overall + deviations + unit * (bias + trust * said)
            return ratings
        fitted = self.biases.overall + deviations + unit * bias
        output = self.scaling.unclipped(np.tanh(said) if self._squashes else said, means)
        return np.asarray(fitted + trust * np.asarray(known, np.float32) * (output - fitted), np.float32)

    def _column_at(self, found: Decoded, rated: Ints, at: Ints | slice, *, known: bool) -> Floats:
        """(rows,), or at some rows: of a column that need not be a known one."""
        codes, means = self.codes.all_now()
        codes = codes[at]
        said = codes @ found.taste[:-1] + found.taste[-1]
        if self._cosine.shape[1]:
            said += (codes @ found.turn - self._space.centre @ found.turn) / self._lengths()[at]
        if self._local is not None:
            said += self._local.of_column(rated, found.pull)[at]
        return self._ratings(found.bias, said, self._trust()[at], self._row_deviations[at], means[at], known)

    def _entries(self, rows: Ints, columns: Ints) -> Floats:
        """(n,) at pairs; an id that was never seen gets what one of which nothing is known gets."""
        self._settle()
        biases = self.biases
        nowhere = biases.overall + biases.row_of_nobody() + biases.column_of_nothing()
        predicted = np.full(len(rows), nowhere, np.float32)
        nobody = (rows < 0) & (columns >= 0)
        unit = np.float32(self.scaling.unit)
        predicted[nobody] = biases.overall + biases.row_of_nobody() + unit * self._bias[columns[nobody]]
        nothing = (rows >= 0) & (columns < 0)
        if nothing.any():
            asked, place = np.unique(rows[nothing], return_inverse=True)
            found = self._decoded(_NO_ROWS, _NO_RATINGS, np.zeros(self.column_features.width, np.float32), None)
            predicted[nothing] = self._column_at(found, _NO_ROWS, asked, known=False)[place]
        seen = np.flatnonzero((rows >= 0) & (columns >= 0))
        trust, known, deviations = self._trust(), self._column_known(), self._row_deviations
        for first in range(0, len(seen), _ENTRIES_AT_ONCE):
            at = seen[first : first + _ENTRIES_AT_ONCE]
            row, column = rows[at], columns[at]
            distinct, place = np.unique(row, return_inverse=True)
            codes, means = self.codes.now(distinct.astype(np.int64))
            said = np.einsum("ij,ij->i", codes[place], self._linear[column, :-1]) + self._linear[column, -1]
            if self._cosine.shape[1]:
                said += np.einsum("ij,ij->i", self._space.directions(codes)[place], self._cosine[column])
            if self._local is not None:
                said += self._local.at_pairs(row, column)
            predicted[at] = self._ratings(
                self._bias[column], said, trust[row], deviations[row], means[place], known[column]
            )
        return predicted

    # Intervals

    def _radius(self, rows: Ints, columns: Ints, predicted: Floats) -> Floats | None:
        """(n,) at pairs; an index of -1 was never seen."""
        if self.decoder.spread is None:
            return None
        counts = np.where(columns >= 0, self._column_counts[columns], 0)
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

    def _variances(self, rated: list[Ints], columns: Longs, asked: list[Ints], new: Seen | None = None) -> Doubles:
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

    def _in_ratings(self, spread: Spread, posterior: Doubles, read: Longs, counts: Longs, predicted: Floats) -> Floats:
        """(n,): radii, from posterior variances and the numbers of ratings of rows and of columns."""
        variances = whole_variance(posterior, self._amplitudes, self.biases, self.scaling, read)
        deviation = spread.deviation(variances, read, counts, across(predicted, self.scale))
        return np.asarray(spread.quantile * deviation * self.scaling.unit, np.float32)

    @property
    def _tells_taste(self) -> bool:
        """Where validation ratings did not gain by taste, nothing makes one row or column like another."""
        return self._amplitudes.taste > 0 or self._amplitudes.mean > 0


def transposed(means: FittedMeans) -> FittedMeans:
    """With rows and columns exchanged."""
    found = copy(means)
    found.row, found.column = means.column, means.row
    found.trained_row, found.trained_column = means.trained_column, means.trained_row
    found.row_damping, found.column_damping = means.column_damping, means.row_damping
    found.row_variance, found.column_variance = means.column_variance, means.row_variance
    found.by_row_features, found.by_column_features = means.by_column_features, means.by_row_features
    return found


def _within(indices: Ints, count: int) -> bool:
    return not indices.size or 0 <= int(indices.min()) <= int(indices.max()) < count


def taken(weights: Arrays, prefix: str) -> Arrays:
    """The arrays whose names begin so, without that, taken out of the others."""
    names = [name for name in weights if name.startswith(prefix)]
    return {name.removeprefix(prefix): weights.pop(name) for name in names}
