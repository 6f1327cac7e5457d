"""The matrix filled in: a prediction for any row and any column, hot, warm or cold, that follows new ratings."""

import numpy as np
import numpy.typing as npt

from cofill.config import CompletionSettings
from cofill.data.features.known import SideFeatures
from cofill.data.known import KnownRatings
from cofill.data.ratings import Scale
from cofill.models.cfn.column_weights import ColumnWeights
from cofill.models.cfn.fold_in import ColumnPrior
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.row_codes import RowCodes, grown
from cofill.models.cfn.scaling import Scaling
from cofill.models.means import FittedMeans

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

_ROWS_AT_ONCE = 1024
_ENTRIES_AT_ONCE = 8192


class Completion:
    """Predictions in terms of rows and columns, in ratings, not clipped to the scale.

    - A row is read by the network as it stands now: its ratings, and its side features.
    - A column has its output weights (see `ColumnWeights`), which follow its ratings and its side features.
    - The fewer ratings a row has, the more its fitted means count beside the network: it was trained on longer rows.
    - A row or a column of which nothing is known, no rating and no feature, has its fitted means and nothing else.

    What is predicted depends on the ratings and features alone, not on the order in which they came, on what came and
    went, or on what was asked between.
    """

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        known: KnownRatings,
        settings: CompletionSettings,
        *,
        row_features: SideFeatures,
        column_features: SideFeatures,
        prior: ColumnPrior | None = None,
    ) -> None:
        """Without a prior, one is fitted."""
        self.network = network
        self.scaling = scaling
        self.known = known
        self.row_features = row_features
        self.column_features = column_features
        # With this many ratings, a row without features is half the network's and half the means'.
        self._half_trusted = settings.trust_length * scaling.typical_length
        self._trust_features = settings.trust_features
        self.codes = RowCodes(network, scaling, known, row_features)
        self.column_weights = ColumnWeights(network, scaling, known, self.codes, column_features, prior)
        self.means = FittedMeans(
            known.trained,
            known.trained_columns,
            scaling.damping,
            row_features=row_features.trained,
            column_features=column_features.trained,
        )
        self.row_counts = known.trained.counts()
        self.column_counts = known.trained_columns.counts()
        self._heard = known.trained.counts()  # (rows,) ratings that the network takes in
        self._grow(len(row_features.values), len(column_features.values))
        self._take_in(
            np.concatenate([known.changed_rows(), row_features.later()[0]]),
            np.concatenate([known.changed_columns(), column_features.later()[0]]),
        )

    @property
    def scale(self) -> Scale:
        return self.scaling.scale

    @property
    def rows(self) -> int:
        return self.known.rows

    @property
    def columns(self) -> int:
        return self.known.columns

    # What comes later

    def add(self, rows: Ints, columns: Ints, ratings: Floats) -> None:
        """Ratings that came later, of known rows and columns or of new ones; every prediction follows."""
        triples = zip(rows.tolist(), columns.tolist(), ratings.tolist(), strict=True)
        new = np.array([self.known.add(*triple) for triple in triples], np.bool_)
        self._grow(self.rows, self.columns)
        self._take_in(rows[new], columns[new])

    def remove(self, rows: Ints, columns: Ints) -> None:
        """The ratings of these pairs are unknown from now on, if they were not before; every prediction follows."""
        pairs = zip(rows.tolist(), columns.tolist(), strict=True)
        gone = np.array([self.known.remove(*pair) for pair in pairs], np.bool_)
        self._take_in(rows[gone], columns[gone])

    def describe_rows(self, rows: Ints, features: Floats) -> None:
        """What is known of some rows, old or new, from now on: (n,), (n, P)."""
        self._grow(int(rows.max(initial=-1)) + 1, 0)
        for row, vector in zip(rows.tolist(), features, strict=True):
            self.row_features.describe(row, vector)
        self._take_in(rows, rows[:0])

    def describe_columns(self, columns: Ints, features: Floats) -> None:
        """What is known of some columns, old or new, from now on: (n,), (n, Q)."""
        self._grow(0, int(columns.max(initial=-1)) + 1)
        for column, vector in zip(columns.tolist(), features, strict=True):
            self.column_features.describe(column, vector)
        self._take_in(columns[:0], columns)

    def _grow(self, rows: int, columns: int) -> None:
        """Make room for more rows and columns; of new ones nothing is known yet."""
        old_rows, old_columns = len(self.row_counts), len(self.column_counts)
        self.known.grow(rows, columns)
        self.row_features.grow(self.rows)
        self.column_features.grow(self.columns)
        self.row_counts, self._heard = grown(self.row_counts, self.rows), grown(self._heard, self.rows)
        self.column_counts = grown(self.column_counts, self.columns)
        self.means.row = grown(self.means.row, self.rows)
        self.means.column = grown(self.means.column, self.columns)
        self._take_in(np.arange(old_rows, self.rows), np.arange(old_columns, self.columns))

    def _take_in(self, rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer]) -> None:
        """Bring up to date what depends on the ratings and features of these rows and columns."""
        for row in np.unique(rows).tolist():
            known = self.known.row(row)
            self.row_counts[row], self._heard[row] = len(known[0]), self._heard_of(known[0])
            if self.codes.is_as_trained(row):
                self.means.row[row] = self.means.trained_row[row]
            else:
                self.means.row[row] = self.means.row_of(*known, self.row_features.values[row])
            self.codes.changed(row)
            if not self.codes.was_trained(np.array([row]))[0]:
                for column in self.known.later_in_row(row):  # their weights are fitted to this row's code
                    self.column_weights.moved(column)
        for column in np.unique(columns).tolist():
            known = self.known.column(column)
            self.column_counts[column] = len(known[0])
            if self.column_weights.is_as_trained(column):
                self.means.column[column] = self.means.trained_column[column]
            else:
                self.means.column[column] = self.means.column_of(*known, self.column_features.values[column])
            self.column_weights.moved(column)

    # Predictions

    def row(self, row: int) -> Floats:
        """Every column (columns,) for one row."""
        features = self.row_features
        return self.new_row(*self.known.row(row), features.values[row] if features.described[row] else None)

    def column(self, column: int) -> Floats:
        """Every row (rows,) for one column."""
        weight, bias = self.column_weights.now()
        known = bool(self.column_known()[column])
        return self._down_a_column(weight[column], bias[column], self.means.column[column], known)

    def new_row(self, columns: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        """Every column (columns,) for a row known only by these ratings and, where there are any, features (P,)."""
        described = features is not None
        features = np.zeros(self.row_features.width, np.float32) if features is None else features
        weight, bias = self.column_weights.now()
        code, mean = self.codes.of_ratings(columns, ratings, features)
        means = self.means.overall + self.means.column + self.means.row_of(columns, ratings, features)
        trust = self.trust(np.array([self._heard_of(columns)]), np.array([described]))
        return self._blend(weight @ code + bias, mean, means, trust, self.column_known())

    def new_column(self, rows: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        """Every row (rows,) for a column known only by these ratings and, where there are any, features (Q,)."""
        described = features is not None
        features = np.zeros(self.column_features.width, np.float32) if features is None else features
        weights = self.column_weights.of_new(rows, ratings, features)
        deviation = self.means.column_of(rows, ratings, features)
        return self._down_a_column(weights[:-1], weights[-1], deviation, len(ratings) > 0 or described)

    def entries(self, rows: Ints, columns: Ints) -> Floats:
        """(n,) ratings at pairs; an index of -1 is an id that was never seen."""
        weight, bias = self.column_weights.now()
        row_means = np.where(rows >= 0, self.means.row[rows], self.means.row_of_nobody())
        column_means = np.where(columns >= 0, self.means.column[columns], self.means.column_of_nothing())
        predicted = self.means.overall + row_means + column_means
        seen = np.flatnonzero((rows >= 0) & (columns >= 0))
        trust, column_known = self.row_trust(), self.column_known()
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
                predicted[at] = self._blend(outputs, means[local], predicted[at], trust[row], column_known[column])
        return predicted

    def many_rows(self, rows: Longs) -> Floats:
        """(n, columns) for some rows at a time."""
        weight, bias = self.column_weights.now()
        codes, means = self.codes.now(rows)
        fitted = self.means.overall + self.means.column + self.means.row[rows][:, None]
        trust = self.row_trust()[rows][:, None]
        return self._blend(codes @ weight.T + bias, means[:, None], fitted, trust, self.column_known())

    def many_columns(self, columns: Longs) -> Floats:
        """(n, rows) for some columns at a time."""
        weight, bias = self.column_weights.now()
        codes, means = self.codes.all_now()
        outputs = weight[columns] @ codes.T + bias[columns][:, None]
        fitted = self.means.overall + self.means.column[columns][:, None] + self.means.row
        return self._blend(outputs, means, fitted, self.row_trust(), self.column_known()[columns][:, None])

    def row_known(self) -> npt.NDArray[np.bool_]:
        """(rows,): of which rows there is a rating or a feature."""
        return (self.row_counts > 0) | self.row_features.described

    def column_known(self) -> npt.NDArray[np.bool_]:
        """(columns,): of which columns there is a rating or a feature."""
        return (self.column_counts > 0) | self.column_features.described

    # Representations

    def row_vectors(self) -> Floats:
        """(rows, width): the codes."""
        return self.codes.all_now()[0]

    def column_vectors(self) -> Floats:
        """(columns, width): the output weights."""
        return self.column_weights.now()[0]

    # Outputs into ratings

    def _down_a_column(self, weight: Floats, bias: np.float32, deviation: np.float32, known: bool) -> Floats:
        codes, means = self.codes.all_now()
        fitted = self.means.overall + deviation + self.means.row
        return self._blend(codes @ weight + bias, means, fitted, self.row_trust(), np.array([known]))

    def _blend(
        self,
        outputs: Floats,
        means: np.float32 | Floats,
        fitted: Floats,
        trust: Floats,
        known: npt.NDArray[np.bool_],
    ) -> Floats:
        """The network's rating and that of the fitted means, weighed by the trust in the network.

        `known` says whether anything is known of the column; if not, the network cannot say anything about it.
        """
        network = self.scaling.unclipped(np.tanh(outputs) if self.network.squash else outputs, means)
        blended: Floats = fitted + trust * known * (network - fitted)
        return blended

    def row_trust(self) -> Floats:
        """(rows,)"""
        return self.trust(self._heard, self.row_features.described)

    def trust(self, heard: Longs, described: npt.NDArray[np.bool_]) -> Floats:
        """How far the network is believed about rows, by the ratings that it reads and whether there are features."""
        by_ratings = heard / np.maximum(heard + self._half_trusted, 1e-9)
        by_features = self._trust_features * described
        trust: Floats = (by_features + (1 - by_features) * by_ratings).astype(np.float32)
        return trust

    def _heard_of(self, columns: Ints) -> int:
        return int((columns < self.network.columns).sum())
