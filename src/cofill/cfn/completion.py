"""The matrix filled in: a prediction for any row and any column, hot, warm or cold, that follows new ratings."""

import numpy as np
import numpy.typing as npt

from cofill.cfn.fold_in import ColumnPrior, calibration_columns, spread, with_one
from cofill.cfn.network import CFNetwork
from cofill.cfn.row_codes import RowCodes, grown
from cofill.cfn.scaling import Scaling
from cofill.config import ScalingSettings
from cofill.data.known import KnownRatings
from cofill.data.sparse import SparseRows

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

_ROWS_AT_ONCE = 1024
_ENTRIES_AT_ONCE = 8192
# With tanh at the output, a column's weights are found by this many linearised regressions.
_GAUSS_NEWTON_STEPS = 4


class Completion:
    """Predictions in terms of rows and columns, in ratings, not clipped to the scale.

    - A row with ratings is read by the network, as it stands now.
    - A column that was trained has its weights; later ratings move them (see `fold_in`); a new one gets its own.
    - A row or a column with no rating at all leaves the mean of the other one, and two of them the overall mean.

    What is predicted depends on the ratings alone, not on the order in which they came or on what was asked between.
    """

    def __init__(
        self, network: CFNetwork, scaling: Scaling, known: KnownRatings, prior: ColumnPrior | None = None
    ) -> None:
        self.network = network
        self.scaling = scaling
        self.known = known
        self._codes = RowCodes(network, scaling, known)
        # The network's own memory until a column moves: these are the largest arrays there are.
        self._weight = network.output.weight.detach().numpy()  # (columns, width)
        self._bias = network.output.bias.detach().numpy()  # (columns,)
        self._moved: set[int] = set()  # columns whose weights are out of date
        self.row_counts, self._row_means = self._margin(known.trained)
        self.column_counts, self._column_means = self._margin(known.trained_columns)
        self.prior = prior or self._fit_prior()
        later_rows, later_columns, _ = known.later()
        self._take_in(later_rows, later_columns)

    @property
    def rows(self) -> int:
        return self.known.rows

    @property
    def columns(self) -> int:
        return self.known.columns

    # New ratings

    def add(self, rows: Ints, columns: Ints, ratings: Floats) -> None:
        """Ratings that came later, of known rows and columns or of new ones; every prediction follows."""
        for row, column, rating in zip(rows.tolist(), columns.tolist(), ratings.tolist(), strict=True):
            self.known.add(row, column, rating)
        self._take_in(rows, columns)

    def _take_in(self, rows: Ints, columns: Ints) -> None:
        """Bring up to date what depends on the ratings of these rows and columns."""
        self.row_counts = grown(self.row_counts, self.rows)
        self._row_means = grown(self._row_means, self.rows)
        self.column_counts = grown(self.column_counts, self.columns)
        self._column_means = grown(self._column_means, self.columns)
        for row in np.unique(rows).tolist():
            known = self.known.row(row)[1]
            self.row_counts[row], self._row_means[row] = len(known), self._mean_rating(known)
            self._codes.changed(row)
            if not self._codes.was_trained(np.array([row]))[0]:
                self._moved.update(self.known.later_in_row(row))  # they are fitted to this row's code
        for column in np.unique(columns).tolist():
            known = self.known.column(column)[1]
            self.column_counts[column], self._column_means[column] = len(known), self._mean_rating(known)
            self._moved.add(column)

    # Predictions

    def row(self, row: int) -> Floats:
        """Every column (columns,) for one row."""
        return self.new_row(*self.known.row(row))

    def column(self, column: int) -> Floats:
        """Every row (rows,) for one column."""
        if self.column_counts[column] == 0:
            return self._row_means.copy()
        self._settle_columns()
        return self._down_a_column(self._weight[column], self._bias[column], self._column_means[column])

    def new_row(self, columns: Ints, ratings: Floats) -> Floats:
        """Every column (columns,) for a row known only by these ratings."""
        if len(ratings) == 0:
            return self._column_means.copy()
        self._settle_columns()
        code, mean = self._codes.of_ratings(columns, ratings)
        outputs = self._activate(self._weight[: self.columns] @ code + self._bias[: self.columns])
        predicted = self.scaling.unclipped(outputs, mean)
        predicted[self.column_counts == 0] = self._mean_rating(ratings)
        return predicted

    def new_column(self, rows: Ints, ratings: Floats) -> Floats:
        """Every row (rows,) for a column known only by these ratings."""
        if len(ratings) == 0:
            return self._row_means.copy()
        weights = self._weights_from(rows, ratings, self.prior.mean, held=0)
        return self._down_a_column(weights[:-1], weights[-1], self._mean_rating(ratings))

    def entries(self, rows: Ints, columns: Ints) -> Floats:
        """(n,) ratings at pairs; an index of -1 is an id that was never seen."""
        self._settle_columns()
        has_row = (rows >= 0) & (self.row_counts[rows] > 0)
        has_column = (columns >= 0) & (self.column_counts[columns] > 0)
        predicted = np.full(len(rows), self._mean_rating(np.empty(0, np.float32)))
        predicted = np.where(has_row, self._row_means[rows], predicted)
        predicted = np.where(has_column & ~has_row, self._column_means[columns], predicted)
        warm = np.flatnonzero(has_row & has_column)
        distinct, place = np.unique(rows[warm], return_inverse=True)
        by_row = np.argsort(place, kind="stable")
        for first in range(0, len(distinct), _ROWS_AT_ONCE):
            low, high = np.searchsorted(place[by_row], [first, first + _ROWS_AT_ONCE])
            codes, means = self._codes.now(distinct[first : first + _ROWS_AT_ONCE].astype(np.int64))
            for start in range(low, high, _ENTRIES_AT_ONCE):
                chosen = by_row[start : min(start + _ENTRIES_AT_ONCE, high)]
                local, column = place[chosen] - first, columns[warm[chosen]]
                outputs = np.einsum("ij,ij->i", codes[local], self._weight[column]) + self._bias[column]
                predicted[warm[chosen]] = self.scaling.unclipped(self._activate(outputs), means[local])
        return predicted

    def many_rows(self, rows: Longs) -> Floats:
        """(n, columns) for some rows at a time."""
        self._settle_columns()
        codes, means = self._codes.now(rows)
        outputs = codes @ self._weight[: self.columns].T + self._bias[: self.columns]
        predicted = self.scaling.unclipped(self._activate(outputs), means[:, None])
        predicted = np.where(self.column_counts == 0, self._row_means[rows][:, None], predicted)
        predicted[self.row_counts[rows] == 0] = self._column_means
        return predicted

    def many_columns(self, columns: Longs) -> Floats:
        """(n, rows) for some columns at a time."""
        self._settle_columns()
        codes, means = self._codes.all_now()
        outputs = self._weight[columns] @ codes.T + self._bias[columns][:, None]
        predicted = self.scaling.unclipped(self._activate(outputs), means)
        predicted = np.where(self.row_counts == 0, self._column_means[columns][:, None], predicted)
        predicted[self.column_counts[columns] == 0] = self._row_means
        return predicted

    # Representations

    def row_vectors(self) -> Floats:
        """(rows, width): the codes."""
        return self._codes.all_now()[0]

    def column_vectors(self) -> Floats:
        """(columns, width): the output weights."""
        self._settle_columns()
        return self._weight[: self.columns]

    # Weights of columns

    def _settle_columns(self) -> None:
        """Give the columns that have later ratings the weights that fit them."""
        if not self._moved:
            return
        if np.shares_memory(self._weight, self.network.output.weight.detach().numpy()):
            self._weight, self._bias = self._weight.copy(), self._bias.copy()
        if self.columns > len(self._weight):  # with room to spare: the next new column should not copy it all again
            self._weight = grown(self._weight, self.columns + self.columns // 16)
            self._bias = grown(self._bias, self.columns + self.columns // 16)
        for column in self._moved:
            later = self.known.later_in_column(column)
            rows = np.array(sorted(later), np.int32)  # sorted: the order of arrival must not change the rounding
            ratings = np.array([later[row] for row in rows.tolist()], np.float32)
            start, held = self._start_of(column)
            weights = self._weights_from(rows, ratings, start, held)
            self._weight[column], self._bias[column] = weights[:-1], weights[-1]
        self._moved.clear()

    def _start_of(self, column: int) -> tuple[Floats, int]:
        """A column's weights (width + 1,) before any later rating, and how many ratings they were trained on."""
        held = len(self.known.trained_columns.row(column)[0]) if column < self.network.columns else 0
        if held == 0:
            return self.prior.mean, 0
        weight, bias = self.network.output.weight[column], self.network.output.bias[column]
        return np.append(weight.detach().numpy(), np.float32(bias.item())), held

    def _weights_from(self, rows: Ints, ratings: Floats, start: Floats, held: int) -> Floats:
        """Column weights (width + 1,) that follow these ratings as far as the prior believes them."""
        codes, means = self._codes.for_regression(rows.astype(np.int64))
        codes = with_one(codes)
        targets = self.scaling.down_values(ratings, means)
        if not self.network.squash:
            return start + self.prior.solve(codes, targets - codes @ start, held)
        weights = start
        for _ in range(_GAUSS_NEWTON_STEPS):
            outputs = np.tanh(codes @ weights)
            slope = 1 - outputs**2
            # Linearised at the present weights, but pulled towards where they started.
            residuals = targets - outputs + slope * (codes @ (weights - start))
            weights = start + self.prior.solve(codes * slope[:, None], residuals, held)
        return weights

    def _down_a_column(self, weight: Floats, bias: np.float32, own_mean: np.float32) -> Floats:
        codes, means = self._codes.all_now()
        predicted = self.scaling.unclipped(self._activate(codes @ weight + bias), means)
        predicted[self.row_counts == 0] = own_mean
        return predicted

    def _fit_prior(self) -> ColumnPrior:
        by_column = self.known.trained_columns
        columns = [spread(*by_column.row(int(column))) for column in calibration_columns(by_column.counts())]
        needed = np.unique(np.concatenate([rows for rows, _ in columns] or [np.empty(0, np.int32)]))
        codes, means = self._codes.for_regression(needed.astype(np.int64))
        examples = []
        for rows, ratings in columns:
            place = np.searchsorted(needed, rows)
            examples.append((with_one(codes[place]), self.scaling.down_values(ratings, means[place])))
        return ColumnPrior.fit(self._weight, self._bias, by_column.counts() > 0, examples)

    # Means, and the function after the last layer

    def _margin(self, rows: SparseRows) -> tuple[Longs, Floats]:
        """Ratings known (rows,) and damped mean rating (rows,) of every row."""
        margin = Scaling.fit(rows, self.scaling.scale, ScalingSettings(mean_damping=self.scaling.damping))
        return rows.counts(), margin.unclipped(np.zeros(rows.rows, np.float32), margin.means)

    def _mean_rating(self, ratings: Floats) -> np.float32:
        """Damped like a row's mean; of no ratings at all it is the overall mean."""
        mean = self.scaling.mean_of(ratings)
        return np.float32(self.scaling.unclipped(np.zeros(1, np.float32), mean)[0])

    def _activate(self, outputs: Floats) -> Floats:
        return np.tanh(outputs) if self.network.squash else outputs
