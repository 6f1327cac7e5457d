"""The output weights of the columns, as they stand now: trained, solved for, and moved by later ratings."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cofill.data.described import SideFeatures
from cofill.models.cfn.fold_in import (
    ColumnPrior,
    ExampleColumn,
    calibration_columns,
    calibration_ratings,
    with_one,
)
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.row_codes import RowCodes
from cofill.models.cfn.scaling import Scaling
from cofill.models.known import KnownRatings
from cofill.models.matrix import described_as_trained, grown
from cofill.models.portion import Portion

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

# Of a column with few ratings the solved weights count in full, of one with many they count half: training moved the
# former only a few times, and the mean of two good estimates is better than either. Chosen on validation data.
_FEW_RATINGS = 100
# Where ratings of the training have changed, a column with at most so many is regressed on all of them again. Of a
# longer one only the changed ones are, and the others hold it in place: a code for each would take long. With wrong
# ratings removed, validation ratings of MovieLens-100K have an RMSE of 0.8821 instead of 0.8809 if they were a
# twentieth, and of 0.9198 instead of 0.8987 if they were a quarter.
_ALL_AGAIN = 200
_FEW_CHANGES = 0.1
_COLUMNS_PER_REPORT = 256


class ColumnWeights:
    """weight (columns, width) and bias (columns,) for the codes of rows.

    A column that was trained has its weights; later ratings move them (see `fold_in`), and where one that it was
    trained on has changed or is gone, they move by as much as the closed form does. A column that came later, or that
    has lost all it was trained on, gets its own from its ratings and features, and a cold one has what its features
    lead one to expect.
    """

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        known: KnownRatings,
        codes: RowCodes,
        features: SideFeatures,
        prior: ColumnPrior | None,
        portion: Portion,
    ) -> None:
        """Without a prior, one is fitted."""
        self._network = network
        self._scaling = scaling
        self._known = known
        self._codes = codes
        self._features = features
        # The network's own memory until a column moves: these are the largest arrays there are.
        self._weight = network.output.weight
        self._bias = network.output.bias
        self._moved: set[int] = set()  # columns whose weights are out of date
        self.prior = prior or self._fit_prior(portion)
        if prior is None:
            self._expect_of_cold()

    def moved(self, column: int) -> None:
        """The column has other ratings or features than before, which its weights do not follow yet."""
        self._moved.add(column)

    def now(self) -> tuple[Floats, Floats]:
        """Weights (columns, width) and biases (columns,), up to date."""
        if self._moved:
            self._settle()
        columns = self._known.columns
        return self._weight[:columns], self._bias[:columns]

    def of_new(self, rows: Ints, ratings: Floats, features: Floats) -> Floats:
        """Weights (width + 1,) of a column that is known only by these ratings and features (Q,)."""
        return self._following(rows, ratings, self.prior.expected(features[None])[0], held=0)

    def solve_trained(self, share_done: Callable[[float], None] | None = None) -> None:
        """Right after training: let every column's weights follow the closed form too (see `_FEW_RATINGS`)."""
        by_column = self._known.trained_columns
        counts = by_column.counts()
        codes, means = self._codes.as_trained()
        factor = self.prior.factor
        along = codes @ factor[:-1] + factor[-1]  # once for all columns, because that is most of the work
        filled = np.flatnonzero(counts > 0)
        for done, column in enumerate(filled.tolist()):
            rows, ratings = by_column.row(column)
            targets = self._scaling.down_values(ratings, means[rows])
            start = self.prior.expected(self._features.trained[[column]])[0]
            if self._network.squash:
                solved = self._fitted_to(with_one(codes[rows]), targets, start, held=0)
            else:
                left = targets - codes[rows] @ start[:-1] - start[-1]
                solved = start + self.prior.solve_along(along[rows], left)
            share = np.float32((_FEW_RATINGS + counts[column] / 2) / (_FEW_RATINGS + counts[column]))
            self._weight[column] += share * (solved[:-1] - self._weight[column])
            self._bias[column] += share * (solved[-1] - self._bias[column])
            if share_done is not None and done % _COLUMNS_PER_REPORT == 0:
                share_done(done / len(filled))

    def _expect_of_cold(self) -> None:
        """Right after training: a column without ratings has what its features lead one to expect."""
        cold = np.flatnonzero(self._known.trained_columns.counts() == 0)
        expected = self.prior.expected(self._features.trained[cold])
        self._weight[cold], self._bias[cold] = expected[:, :-1], expected[:, -1]

    def _settle(self) -> None:
        """Give the columns that have moved the weights that follow what is known of them now."""
        if np.shares_memory(self._weight, self._network.output.weight):
            self._weight, self._bias = self._weight.copy(), self._bias.copy()
        columns = self._known.columns
        if columns > len(self._weight):  # with room to spare: the next new column should not copy it all again
            self._weight = grown(self._weight, columns + columns // 16)
            self._bias = grown(self._bias, columns + columns // 16)
        for column in self._moved:
            weights = self._of(column)
            self._weight[column], self._bias[column] = weights[:-1], weights[-1]
        self._moved.clear()

    def is_as_trained(self, column: int) -> bool:
        """Whether the column has the ratings and features that it was trained with, and no others."""
        return self._known.column_as_trained(column) and described_as_trained(self._features, column)

    def _of(self, column: int) -> Floats:
        """A column's weights (width + 1,) that follow what is known of it now."""
        if self.is_as_trained(column):
            return self._trained_weights(column)
        rows, ratings = self._known.column(column)
        before = self._trained_of(column)
        old = np.isin(rows, before[0])
        if old.any():
            start = self._trained_weights(column)
            if old.sum() < len(before[0]) or not np.array_equal(ratings[old], before[1]):
                start = start + self._shift(column, before, (rows[old], ratings[old]))
        else:
            start = self.prior.expected(self._features.values[[column]])[0]
        return self._following(rows[~old], ratings[~old], start, held=int(old.sum()))

    def _trained_of(self, column: int) -> tuple[Ints, Floats]:
        """Rows (ascending) and ratings that a column was trained on."""
        if column < self._network.columns:
            return self._known.trained_columns.row(column)
        return np.empty(0, np.int32), np.empty(0, np.float32)

    def _trained_weights(self, column: int) -> Floats:
        """(width + 1,)"""
        return np.append(self._network.output.weight[column], self._network.output.bias[column])

    def _shift(self, column: int, before: tuple[Ints, Floats], after: tuple[Ints, Floats]) -> Floats:
        """By how much the closed form of a trained column's weights moves, (width + 1,).

        `before` are the rows and ratings that it was trained on, `after` those of them that are left, as they are now.
        """
        rows, ratings = before
        left = np.isin(rows, after[0])
        now = ratings.copy()
        now[left] = after[1]
        changed = ~left | (now != ratings)
        if len(rows) <= _ALL_AGAIN or changed.sum() > _FEW_CHANGES * len(rows):
            chosen = np.ones(len(rows), np.bool_)
            start = self.prior.expected(self._features.trained[[column]])[0]
        else:
            chosen, start = changed, self._trained_weights(column)
        codes, means = self._codes.for_regression(rows[chosen].astype(np.int64))
        codes, held = with_one(codes), int((~chosen).sum())
        with_old = self._fitted_to(codes, self._scaling.down_values(ratings[chosen], means), start, held)
        left, now = left[chosen], now[chosen]
        return self._fitted_to(codes[left], self._scaling.down_values(now[left], means[left]), start, held) - with_old

    def _following(self, rows: Ints, ratings: Floats, start: Floats, held: int) -> Floats:
        """Column weights (width + 1,) that follow these ratings as far as the prior believes them."""
        codes, means = self._codes.for_regression(rows.astype(np.int64))
        return self._fitted_to(with_one(codes), self._scaling.down_values(ratings, means), start, held)

    def _fitted_to(self, codes: Floats, targets: Floats, start: Floats, held: int) -> Floats:
        """Column weights (width + 1,) for codes (n, width + 1) and scaled ratings (n,)."""
        if not self._network.squash:
            return start + self.prior.solve(codes, targets - codes @ start, held)
        seen, left = self.prior.linearised(codes, targets, start, held)
        return start + self.prior.solve(seen, left - seen @ start, held)

    def _fit_prior(self, portion: Portion) -> ColumnPrior:
        by_column = self._known.trained_columns
        counts, features = by_column.counts(), self._features.trained
        some = calibration_columns(counts, portion)
        columns = [(int(c), *calibration_ratings(*by_column.row(int(c)), portion)) for c in some]
        needed = np.unique(np.concatenate([rows for _, rows, _ in columns] or [np.empty(0, np.int32)]))
        codes, means = self._codes.for_regression(needed.astype(np.int64))
        examples = []
        for column, rows, ratings in columns:
            place = np.searchsorted(needed, rows)
            targets = self._scaling.down_values(ratings, means[place])
            examples.append(ExampleColumn(with_one(codes[place]), targets, features[column]))
        return ColumnPrior.fit(self._weight, self._bias, counts, features, examples, portion)
