"""Prediction intervals: how far off a prediction may be, from the posterior variance, calibrated on validation ratings.

The amplitudes of the decoder predict best, which does not make its variance that of its errors: errors grow with it,
but also differ by how much is known of either side, and are smaller near the ends of the rating scale. So it is

    log variance = c . [1, log posterior variance, log(1 + ratings of the row), log(1 + ratings of the column), p, p^2]

with p the prediction from -1 to 1 across the scale, fitted by maximum likelihood to the errors on validation ratings,
which others have predicted (`cfn/judging.py`). Nine tenths of these are then within `quantile` standard deviations,
whatever their distribution.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.integer]

COVERED = 0.9
_NORMAL_QUANTILE = 1.6449
# A prior on the coefficients keeps few validation ratings from being overfitted; they are of the order of one.
_PRIOR_WIDTH = 0.5
_NUMBERS = 7


@dataclass(frozen=True)
class Spread:
    """The standard deviation of errors, and the multiple of it that covers nine tenths of them."""

    coefficients: Doubles  # (6,)
    quantile: float

    @classmethod
    def unknown(cls) -> Self:
        """Without validation ratings: the posterior is believed."""
        return cls(np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0]), _NORMAL_QUANTILE)

    @classmethod
    def fit(cls, errors: Floats, variances: Doubles, row_counts: Counts, column_counts: Counts, places: Floats) -> Self:
        """From errors of validation ratings and their posterior variances, (n,), both scaled alike; `places` are the
        predictions from -1 to 1 across the scale.
        """
        begin = cls.unknown()
        if not len(errors):
            return begin
        inputs = _inputs(variances, row_counts, column_counts, places)
        squares = errors.astype(np.float64) ** 2

        def cost(coefficients: Doubles) -> tuple[float, Doubles]:
            logs = inputs @ coefficients
            ratios = squares * np.exp(-np.clip(logs, -60, 60))
            away = (coefficients - begin.coefficients) / _PRIOR_WIDTH
            slope = inputs.T @ (1 - ratios) / 2 + away / _PRIOR_WIDTH
            return float((logs + ratios).sum() / 2 + away @ away / 2), slope

        from scipy.optimize import minimize

        found = minimize(cost, begin.coefficients, jac=True, method="L-BFGS-B", options={"maxiter": 200})
        fitted = cls(found.x, begin.quantile)
        far = np.abs(errors) / fitted.deviation(variances, row_counts, column_counts, places)
        # The finite-sample correction of conformal prediction; with few ratings the normal quantile counts, too.
        rank = min(COVERED * (1 + 1 / len(far)), 1.0)
        believed = len(far) / (len(far) + 20)
        return cls(found.x, float(believed * np.quantile(far, rank) + (1 - believed) * _NORMAL_QUANTILE))

    def deviation(self, variances: Doubles, row_counts: Counts, column_counts: Counts, places: Floats) -> Doubles:
        """(n,): standard deviations, in the unit of the variances."""
        logs = _inputs(variances, row_counts, column_counts, places) @ self.coefficients
        deviation: Doubles = np.exp(np.clip(logs, -60, 60) / 2)
        return deviation

    def as_array(self) -> Doubles:
        return np.append(self.coefficients, self.quantile)

    @classmethod
    def from_array(cls, values: Doubles) -> Self:
        """ValueError where they make no sense."""
        if values.shape != (_NUMBERS,) or not np.isfinite(values).all() or values[-1] < 0:
            raise ValueError("the intervals of the decoder are damaged")
        return cls(np.asarray(values[:-1], np.float64), float(values[-1]))


def _inputs(variances: Doubles, row_counts: Counts, column_counts: Counts, places: Floats) -> Doubles:
    p = np.clip(places.astype(np.float64), -1, 1)
    logs = [np.log(np.maximum(variances, 1e-12)), np.log1p(row_counts), np.log1p(column_counts)]
    return np.column_stack([np.ones(len(p)), *logs, p, p**2])
