"""What the closed form makes of a column, rating by rating.

The weights of a column are linear in what its ratings exceed the expected ones by (see `fold_in`), and so is its output
at a row: exactly so, or with tanh at the output as the last regression linearises it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.models.cfn.fold_in import ColumnPrior, with_one

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


class SolvedShares(NamedTuple):
    """Of outputs at m rows, in scaled ratings."""

    start: Doubles  # (m,): outputs for a column of which nothing is known
    by_rating: Doubles  # (m, n)
    by_feature: Doubles  # (m, Q)


def of_closed_form(
    prior: ColumnPrior, codes: Floats, targets: Floats, features: Floats, asked: Floats, *, squash: bool
) -> SolvedShares:
    """For a column with scaled ratings (n,) at codes (n, width) and features (Q,), asked at codes (m, width).

    `squash`: tanh follows the output.
    """
    seen, left, wanted = with_one(codes), targets, with_one(asked).astype(np.float64)
    if squash:
        seen, left = prior.linearised(seen, left, prior.expected(features[None])[0])
    nothing = prior.expected(np.zeros((1, len(features)), np.float32))[0].astype(np.float64)
    gain = _gain(prior, seen, wanted)
    by_rating = gain * (left - seen @ nothing)  # (m, n)
    expectation = prior.by_features.slope[:-1].T.astype(np.float64)  # (width + 1, Q)
    # What the ratings tell is taken off what the features had led one to expect.
    by_feature = (wanted @ expectation - gain @ (seen @ expectation)) * features
    start = wanted @ nothing
    if not squash:
        return SolvedShares(start, by_rating, by_feature)
    steepness = _secant(start, start + by_rating.sum(1) + by_feature.sum(1))[:, None]
    return SolvedShares(np.tanh(start), by_rating * steepness, by_feature * steepness)


def _gain(prior: ColumnPrior, seen: Floats, wanted: Doubles) -> Doubles:
    """(m, n): how far a rating at a code moves the output at another. In the dual where ratings are few."""
    along = seen.astype(np.float64) @ prior.factor  # (n, directions)
    aside = wanted @ prior.factor  # (m, directions)
    if len(along) <= along.shape[1]:
        gram = along @ along.T
        gram[np.diag_indices_from(gram)] += prior.noise
        return np.asarray(np.linalg.solve(gram, along @ aside.T).T)
    gram = along.T @ along
    gram[np.diag_indices_from(gram)] += prior.noise
    return np.asarray((along @ np.linalg.solve(gram, aside.T)).T)


def _secant(low: Doubles, high: Doubles) -> Doubles:
    """How steep tanh is between two points, on average."""
    apart = np.abs(high - low) > 1e-9
    rise = np.tanh(high) - np.tanh(low)
    steepness: Doubles = np.divide(rise, high - low, out=1 - np.tanh(low) ** 2, where=apart)
    return steepness
