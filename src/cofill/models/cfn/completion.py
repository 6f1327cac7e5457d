"""The matrix filled in: a prediction for any row and any column, hot, warm or cold, that follows new ratings."""

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.cfn.column_weights import ColumnWeights
from cofill.models.cfn.fold_in import ColumnPrior
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.row_codes import ReadRows, RowCodes
from cofill.models.cfn.scaling import Scaling
from cofill.models.cfn.shares import Doubles, along_the_path, blended, of_closed_form, of_damped_mean
from cofill.models.explanation import Given, Shares
from cofill.models.known import KnownRatings
from cofill.models.matrix import FilledMatrix, Flags, Floats, Ints, Longs, grown
from cofill.models.means import FittedMeans
from cofill.models.portion import Portion

_ROWS_AT_ONCE = 1024
_ENTRIES_AT_ONCE = 8192


class Completion(FilledMatrix):
    """Predictions in terms of rows and columns, in ratings, not clipped to the scale.

    - A row is read by the network as it stands now: its ratings, and its side features.
    - A column has its output weights (see `ColumnWeights`), which follow its ratings and its side features.
    - The fewer ratings a row has, the more its fitted means count beside the network: it was trained on longer rows.
    - A row or a column of which nothing is known, no rating and no feature, has its fitted means and nothing else.
    """

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        known: KnownRatings,
        settings: CFNSettings,
        *,
        row_features: SideFeatures,
        column_features: SideFeatures,
        portion: Portion | None = None,
        prior: ColumnPrior | None = None,
        means: FittedMeans | None = None,
        read: ReadRows | None = None,
    ) -> None:
        """Without a prior, and without means, they are fitted.

        `read`: the rows as all columns read them, in part of a model, which has some of the columns.
        """
        portion = Portion.of(known.trained) if portion is None else portion
        means = means or FittedMeans(
            known.trained,
            known.trained_columns,
            settings.mean_damping,
            row_features=row_features.trained,
            column_features=column_features.trained,
            portion=portion,
        )
        super().__init__(known, means, row_features, column_features)
        self.network = network
        self.scaling = scaling
        # With this many ratings, a row without features is half the network's and half the means'.
        self._half_trusted = settings.trust_length * scaling.typical_length
        self._trust_features = settings.trust_features
        self.codes = RowCodes(network, scaling, known, row_features, read)
        self.column_weights = ColumnWeights(network, scaling, known, self.codes, column_features, prior, portion)
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

    def _column_changed(self, column: int, rows: Ints, ratings: Floats) -> None:
        self.column_weights.moved(column)

    def _row_was_trained(self, row: int) -> bool:
        return bool(self.codes.was_trained(np.array([row]))[0])

    # Predictions

    def row(self, row: int) -> Floats:
        features = self.row_features
        return self.new_row(*self.known.row(row), features.values[row] if features.described[row] else None)

    def column(self, column: int) -> Floats:
        weight, bias = self.column_weights.now()
        known = bool(self.column_known()[column])
        return self._down_a_column(weight[column], bias[column], self.means.column[column], known)

    def new_row(self, columns: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self._along_a_row(columns, ratings, features, slice(None))

    def new_row_at(self, columns: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        return self._along_a_row(columns, ratings, features, asked)

    def new_column(self, rows: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self._along_a_column(rows, ratings, features, slice(None))

    def new_column_at(self, rows: Ints, ratings: Floats, features: Floats | None, asked: Ints) -> Floats:
        return self._along_a_column(rows, ratings, features, asked)

    def _along_a_row(self, columns: Ints, ratings: Floats, features: Floats | None, at: Ints | slice) -> Floats:
        described = features is not None
        features = _or_zeros(features, self.row_features.width)
        weight, bias = self.column_weights.now()
        code, mean = self.codes.of_ratings(columns, ratings, features)
        means = self.means.overall + self.means.column[at] + self.means.row_of(columns, ratings, features)
        trust = self.trust(np.array([self._count_read(columns)]), np.array([described]))
        return self._blend(weight[at] @ code + bias[at], mean, means, trust, self.column_known()[at])

    def _along_a_column(self, rows: Ints, ratings: Floats, features: Floats | None, at: Ints | slice) -> Floats:
        described = features is not None
        features = _or_zeros(features, self.column_features.width)
        weights = self.column_weights.of_new(rows, ratings, features)
        deviation = self.means.column_of(rows, ratings, features)
        return self._down_a_column(weights[:-1], weights[-1], deviation, len(ratings) > 0 or described, at)

    def _fill_entries(self, predicted: Floats, seen: Longs, rows: Ints, columns: Ints) -> None:
        weight, bias = self.column_weights.now()
        column_known = self.column_known()
        distinct, place = np.unique(rows[seen], return_inverse=True)
        by_row = np.argsort(place, kind="stable")
        for first in range(0, len(distinct), _ROWS_AT_ONCE):
            low, high = np.searchsorted(place[by_row], [first, first + _ROWS_AT_ONCE])
            codes, means = self.codes.now(distinct[first : first + _ROWS_AT_ONCE].astype(np.int64))
            for start in range(low, high, _ENTRIES_AT_ONCE):
                chosen = by_row[start : min(start + _ENTRIES_AT_ONCE, high)]
                at, local = seen[chosen], place[chosen] - first
                row, column = rows[at], columns[at]
                outputs = np.einsum("ij,ij->i", codes[local], weight[column]) + bias[column]
                trust = self.trust(self._read[row], self.row_features.described[row])
                predicted[at] = self._blend(outputs, means[local], predicted[at], trust, column_known[column])

    def many_rows(self, rows: Longs) -> Floats:
        weight, bias = self.column_weights.now()
        codes, means = self.codes.now(rows)
        fitted = self.means_of_rows(rows)
        trust = self.row_trust()[rows][:, None]
        return self._blend(codes @ weight.T + bias, means[:, None], fitted, trust, self.column_known())

    def many_columns(self, columns: Longs) -> Floats:
        weight, bias = self.column_weights.now()
        codes, means = self.codes.all_now()
        outputs = weight[columns] @ codes.T + bias[columns][:, None]
        fitted = self.means_of_columns(columns)
        return self._blend(outputs, means, fitted, self.row_trust(), self.column_known()[columns][:, None])

    def row_known(self) -> Flags:
        """(rows,): of which rows there is a rating or a feature."""
        known: Flags = (self.row_counts > 0) | self.row_features.described
        return known

    def column_known(self) -> Flags:
        """(columns,): of which columns there is a rating or a feature."""
        known: Flags = (self.column_counts > 0) | self.column_features.described
        return known

    # Shares of ratings and features in a prediction

    def row_shares(self, given: Given, columns: Ints) -> Shares:
        network, scaling, means = self.network, self.scaling, self.means
        features = _or_zeros(given.features, self.row_features.width)
        read = given.others < network.columns
        row = SparseRows(np.array([0, read.sum()]), given.others[read], given.ratings[read], network.columns)
        scaled = scaling.down_with(
            row, np.array([scaling.mean_of(given.others, given.ratings, features)]), features[None]
        )
        weight, bias = self.column_weights.now()
        path = along_the_path(
            network,
            scaled.known.indices,
            (scaled.known.values + np.float32(scaled.presence)) * scaled.input_scale,
            features,
            scaled.features[0, len(features) :],
            weight[columns],
            bias[columns],
            squash=network.squash,
        )
        # The row's own mean comes back on top of what the network says.
        nobody = scaling.mean_of(given.others[:0], given.ratings[:0], np.zeros_like(features))
        surplus = scaling.down_values(given.ratings, np.array(nobody))
        of_mean = of_damped_mean(surplus, features, scaling.by_features, scaling.damping)
        by_rating = np.tile(of_mean.ratings, (len(columns), 1))
        by_rating[:, read] += path.by_input

        usual = np.zeros(len(given.others), np.float32)
        usual[read] = means.trained_column[given.others[read]]
        surplus = given.ratings - means.overall - usual - means.row_of_nobody()
        base = means.overall + means.column[columns] + means.row_of_nobody()
        trust = self.trust(np.array([read.sum()]), np.array([given.features is not None]))
        return blended(
            given,
            trust=trust * self.column_known()[columns],
            of_means=of_damped_mean(surplus, features, means.by_row_features, means.row_damping),
            of_network=self._in_ratings(by_rating, path.by_feature + of_mean.features),
            difference=scaling.unclipped(path.start, nobody) - base,
            read=read,
        )

    def column_shares(self, given: Given, rows: Ints) -> Shares:
        scaling, means, weights = self.scaling, self.means, self.column_weights
        features = _or_zeros(given.features, self.column_features.width)
        codes, seen_means = self.codes.for_regression(given.others.astype(np.int64))
        asked, asked_means = self.codes.now(rows.astype(np.int64))
        targets = scaling.down_values(given.ratings, seen_means)
        output = of_closed_form(weights.prior, codes, targets, features, asked, squash=self.network.squash)

        usual = np.zeros(len(given.others), np.float32)
        old = given.others < len(means.trained_row)
        usual[old] = means.trained_row[given.others[old]]
        surplus = given.ratings - means.overall - usual - means.column_of_nothing()
        base = means.overall + means.row[rows] + means.column_of_nothing()
        known = len(given.ratings) > 0 or given.features is not None
        return blended(
            given,
            trust=self.row_trust()[rows] * np.float32(known),
            of_means=of_damped_mean(surplus, features, means.by_column_features, means.column_damping),
            of_network=self._in_ratings(output.by_rating, output.by_feature),
            difference=scaling.unclipped(output.start.astype(np.float32), asked_means) - base,
            read=np.ones(len(given.ratings), np.bool_),
        )

    def _in_ratings(self, by_rating: Doubles, by_feature: Doubles) -> Shares:
        return Shares(by_rating * self.scaling.unit, by_feature * self.scaling.unit)

    def read_rows(self) -> ReadRows:
        """The rows of the training as all columns read them."""
        return ReadRows(self.codes.as_trained()[0], None)

    # Representations

    def row_vectors(self) -> Floats:
        """(rows, width): the codes."""
        return self.codes.all_now()[0]

    def column_vectors(self) -> Floats:
        """(columns, width): the output weights."""
        return self.column_weights.now()[0]

    # Outputs into ratings

    def _down_a_column(
        self, weight: Floats, bias: np.float32, deviation: np.float32, known: bool, at: Ints | slice = slice(None)
    ) -> Floats:
        codes, means = self.codes.all_now()
        fitted = self.means.overall + deviation + self.means.row[at]
        trust = self.trust(self._read[at], self.row_features.described[at])
        return self._blend(codes[at] @ weight + bias, means[at], fitted, trust, np.array([known]))

    def _blend(
        self,
        outputs: Floats,
        means: np.float32 | Floats,
        fitted: Floats,
        trust: Floats,
        known: npt.NDArray[np.bool_],
    ) -> Floats:
        """The network's rating and that of the fitted means, weighed by the trust in the network.

        `known` says whether anything is known of the column; if not, the network cannot predict it.
        """
        network = self.scaling.unclipped(np.tanh(outputs) if self.network.squash else outputs, means)
        blended: Floats = fitted + trust * known * (network - fitted)
        return blended

    def row_trust(self) -> Floats:
        """(rows,)"""
        return self.trust(self._read, self.row_features.described)

    def trust(self, read: Longs, described: npt.NDArray[np.bool_]) -> Floats:
        """The weight of the network beside the fitted means: shrinkage, by ratings that are read and by features."""
        by_ratings = read / np.maximum(read + self._half_trusted, 1e-9)
        by_features = self._trust_features * described
        trust: Floats = (by_features + (1 - by_features) * by_ratings).astype(np.float32)
        return trust

    def _count_read(self, columns: Ints) -> int:
        return int((columns < self.network.columns).sum())


def _or_zeros(features: Floats | None, width: int) -> Floats:
    return np.zeros(width, np.float32) if features is None else features
