"""The matrix filled in: a prediction for any row and any column, hot, warm or cold, that follows new ratings."""

import numpy as np
import numpy.typing as npt

from cofill.cfn.fold_in import ColumnPrior, calibration_columns, spread, with_one
from cofill.cfn.means import FittedMeans
from cofill.cfn.network import CFNetwork
from cofill.cfn.row_codes import RowCodes, grown
from cofill.cfn.scaling import Scaling
from cofill.data.known import KnownRatings

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
    - The fewer ratings a row has, the more its fitted means count beside the network: it was trained on longer rows.
    - A row or a column with no rating at all has its fitted means and nothing else.

    What is predicted depends on the ratings alone, not on the order in which they came or on what was asked between.
    """

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        known: KnownRatings,
        *,
        trust_length: float,
        prior: ColumnPrior | None = None,
    ) -> None:
        """With `trust_length` times the ratings of a typical row, a row is half the network's and half the means'."""
        self.network = network
        self.scaling = scaling
        self.known = known
        self._half_trusted = trust_length * scaling.typical_length
        self._codes = RowCodes(network, scaling, known)
        # The network's own memory until a column moves: these are the largest arrays there are.
        self._weight = network.output.weight.detach().numpy()  # (columns, width)
        self._bias = network.output.bias.detach().numpy()  # (columns,)
        self._moved: set[int] = set()  # columns whose weights are out of date
        self._means = FittedMeans(known.trained, known.trained_columns, scaling.damping)
        self.row_counts = known.trained.counts()
        self.column_counts = known.trained_columns.counts()
        self._heard = known.trained.counts()  # (rows,) ratings that the network takes in
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
        self.row_counts, self._heard = grown(self.row_counts, self.rows), grown(self._heard, self.rows)
        self._means.row = grown(self._means.row, self.rows)
        self.column_counts = grown(self.column_counts, self.columns)
        self._means.column = grown(self._means.column, self.columns)
        for row in np.unique(rows).tolist():
            known = self.known.row(row)
            self.row_counts[row], self._heard[row] = len(known[0]), self._heard_of(known[0])
            self._means.row[row] = self._means.row_of(*known)
            self._codes.changed(row)
            if not self._codes.was_trained(np.array([row]))[0]:
                self._moved.update(self.known.later_in_row(row))  # they are fitted to this row's code
        for column in np.unique(columns).tolist():
            ratings = self.known.column(column)[1]
            self.column_counts[column], self._means.column[column] = len(ratings), self._means.column_of(ratings)
            self._moved.add(column)

    # Predictions

    def row(self, row: int) -> Floats:
        """Every column (columns,) for one row."""
        return self.new_row(*self.known.row(row))

    def column(self, column: int) -> Floats:
        """Every row (rows,) for one column."""
        self._settle_columns()
        weight, bias = self._weight[column], self._bias[column]
        known = self.column_counts[column] > 0
        return self._down_a_column(weight, bias, self._means.column[column], known)

    def new_row(self, columns: Ints, ratings: Floats) -> Floats:
        """Every column (columns,) for a row known only by these ratings."""
        self._settle_columns()
        code, mean = self._codes.of_ratings(columns, ratings)
        outputs = self._weight[: self.columns] @ code + self._bias[: self.columns]
        means = self._means.overall + self._means.column + self._means.row_of(columns, ratings)
        heard = np.array([self._heard_of(columns)])
        return self._blend(outputs, mean, means, heard, self.column_counts > 0)

    def new_column(self, rows: Ints, ratings: Floats) -> Floats:
        """Every row (rows,) for a column known only by these ratings."""
        weights = self._weights_from(rows, ratings, self.prior.mean, held=0)
        return self._down_a_column(weights[:-1], weights[-1], self._means.column_of(ratings), len(ratings) > 0)

    def entries(self, rows: Ints, columns: Ints) -> Floats:
        """(n,) ratings at pairs; an index of -1 is an id that was never seen."""
        self._settle_columns()
        row_means = np.where(rows >= 0, self._means.row[rows], np.float32(0))
        predicted = self._means.overall + row_means + np.where(columns >= 0, self._means.column[columns], np.float32(0))
        warm = np.flatnonzero((rows >= 0) & (columns >= 0))
        distinct, place = np.unique(rows[warm], return_inverse=True)
        by_row = np.argsort(place, kind="stable")
        for first in range(0, len(distinct), _ROWS_AT_ONCE):
            low, high = np.searchsorted(place[by_row], [first, first + _ROWS_AT_ONCE])
            codes, means = self._codes.now(distinct[first : first + _ROWS_AT_ONCE].astype(np.int64))
            for start in range(low, high, _ENTRIES_AT_ONCE):
                chosen = by_row[start : min(start + _ENTRIES_AT_ONCE, high)]
                at, local = warm[chosen], place[chosen] - first
                row, column = rows[at], columns[at]
                outputs = np.einsum("ij,ij->i", codes[local], self._weight[column]) + self._bias[column]
                known = self.column_counts[column] > 0
                predicted[at] = self._blend(outputs, means[local], predicted[at], self._heard[row], known)
        return predicted

    def many_rows(self, rows: Longs) -> Floats:
        """(n, columns) for some rows at a time."""
        self._settle_columns()
        codes, means = self._codes.now(rows)
        outputs = codes @ self._weight[: self.columns].T + self._bias[: self.columns]
        fitted = self._means.overall + self._means.column + self._means.row[rows][:, None]
        return self._blend(outputs, means[:, None], fitted, self._heard[rows][:, None], self.column_counts > 0)

    def many_columns(self, columns: Longs) -> Floats:
        """(n, rows) for some columns at a time."""
        self._settle_columns()
        codes, means = self._codes.all_now()
        outputs = self._weight[columns] @ codes.T + self._bias[columns][:, None]
        fitted = self._means.overall + self._means.column[columns][:, None] + self._means.row
        return self._blend(outputs, means, fitted, self._heard, (self.column_counts[columns] > 0)[:, None])

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

    def _down_a_column(self, weight: Floats, bias: np.float32, deviation: np.float32, known: bool) -> Floats:
        codes, means = self._codes.all_now()
        fitted = self._means.overall + deviation + self._means.row
        return self._blend(codes @ weight + bias, means, fitted, self._heard, np.array([known]))

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

    # Outputs into ratings

    def _blend(
        self,
        outputs: Floats,
        means: np.float32 | Floats,
        fitted: Floats,
        heard: Longs,
        known: npt.NDArray[np.bool_],
    ) -> Floats:
        """The network's rating and that of the fitted means, weighed by what the network has heard of the row.

        `known` says whether the column has any rating; without one the network cannot say anything about it.
        """
        network = self.scaling.unclipped(self._activate(outputs), means)
        trust = (heard / np.maximum(heard + self._half_trusted, 1e-9)).astype(np.float32) * known
        blended: Floats = fitted + trust * (network - fitted)
        return blended

    def _heard_of(self, columns: Ints) -> int:
        return int((columns < self.network.columns).sum())

    def _activate(self, outputs: Floats) -> Floats:
        return np.tanh(outputs) if self.network.squash else outputs
