"""New columns without training: the weights of a column from the codes of the rows that it rated.

The codes of the rows are fixed, so a column's output weights are a regression on them. What a column looks like before
its first rating is learned from the trained ones: the mean and the covariance of their weights. That is ridge
regression in the directions in which columns really differ, and a far better guess from few ratings than pulling
every weight towards zero alike. A column that was trained is held in place by the ratings it was trained on.

A column's weights and its bias are one vector here, (width + 1,), and a code has a 1 at its end.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_NOISES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
_CALIBRATION_COLUMNS = 200
_CALIBRATION_RATINGS = 40
_CHUNK = 4096


@dataclass(frozen=True)
class ColumnPrior:
    """weights ~ N(mean, factor factor^T), ratings = code . weights + noise of variance `noise`, all scaled.

    The directions (columns of `factor`) are chosen so that the codes of rated rows are uncorrelated along them:
    `pull[d]` is their mean square along direction d, and n ratings hold a column in place there with n * pull[d].
    """

    mean: Floats  # (width + 1,)
    factor: Floats  # (width + 1, directions)
    pull: Floats  # (directions,)
    noise: float

    @classmethod
    def fit(
        cls, weight: Floats, bias: Floats, trained: npt.NDArray[np.bool_], examples: list[tuple[Floats, Floats]]
    ) -> Self:
        """From the weights (columns, width) and biases (columns,) of the trained columns, and some of their ratings.

        Each example is a column: the codes (n, width + 1) of rows that it rated, and its ratings (n,), scaled.
        """
        columns = np.flatnonzero(trained)
        total = np.zeros(weight.shape[1] + 1)
        square = np.zeros((len(total), len(total)))
        for first in range(0, len(columns), _CHUNK):  # in chunks: the weights are the largest thing in memory
            chosen = columns[first : first + _CHUNK]
            both = np.column_stack([weight[chosen], bias[chosen]])
            total += both.sum(0, dtype=np.float64)
            square += both.T @ both
        count = max(len(columns), 1)
        mean = total / count
        values, vectors = np.linalg.eigh(square / count - np.outer(mean, mean))
        kept = values > max(values.max(initial=0.0) * 1e-5, 1e-10)
        factor = vectors[:, kept] * np.sqrt(values[kept])
        codes = np.concatenate([codes for codes, _ in examples] or [np.zeros((1, len(total)), np.float32)])
        along = codes @ factor
        pull, turn = np.linalg.eigh(along.T @ along / len(along))
        prior = cls(
            mean=mean.astype(np.float32),
            factor=(factor @ turn).astype(np.float32),
            pull=np.maximum(pull, 0).astype(np.float32),
            noise=0.1,
        )
        return prior._calibrated(examples)

    def solve(self, codes: Floats, residuals: Floats, held: int = 0) -> Floats:
        """What to add to a column's weights, (width + 1,), given what its ratings exceed its outputs by.

        codes (n, width + 1), residuals (n,); `held` is how many other ratings the column was trained on. In the dual
        where there are fewer ratings than directions.
        """
        features = codes @ self.factor  # (n, directions)
        stiffness = np.float32(self.noise) + held * self.pull  # (directions,)
        if len(features) <= features.shape[1]:
            loose = features / stiffness
            gram = loose @ features.T
            gram[np.diag_indices_from(gram)] += 1
            move = loose.T @ np.linalg.solve(gram, residuals)
        else:
            gram = features.T @ features
            gram[np.diag_indices_from(gram)] += stiffness
            move = np.linalg.solve(gram, features.T @ residuals)
        added: Floats = self.factor @ move
        return added

    def _calibrated(self, examples: list[tuple[Floats, Floats]]) -> Self:
        """With the noise that serves best when half of a known column's ratings predict the other half."""
        halves = [(codes[::2], x[::2], codes[1::2], x[1::2]) for codes, x in examples if len(x) >= 4]

        def error(prior: ColumnPrior) -> float:
            return sum(
                float(((x2 - h2 @ (prior.mean + prior.solve(h1, x1 - h1 @ prior.mean))) ** 2).sum())
                for h1, x1, h2, x2 in halves
            )

        candidates = [replace(self, noise=noise) for noise in _NOISES]
        return min(candidates, key=error) if halves else self


def calibration_columns(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Some columns with ratings, spread over all of them; the same ones every time."""
    candidates = np.flatnonzero(counts > 0)
    return candidates[:: max(1, len(candidates) // _CALIBRATION_COLUMNS)]


def spread(rows: npt.NDArray[np.int32], ratings: Floats) -> tuple[npt.NDArray[np.int32], Floats]:
    """At most as many of a column's ratings as calibration needs: a code for each has to be computed."""
    step = max(1, -(-len(rows) // _CALIBRATION_RATINGS))
    return rows[::step], ratings[::step]


def with_one(codes: Floats) -> Floats:
    """(n, width) -> (n, width + 1), with a 1 at the end for the bias."""
    return np.column_stack([codes, np.ones(len(codes), np.float32)])
