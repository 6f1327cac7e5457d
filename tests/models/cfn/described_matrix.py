"""A small matrix whose rows and columns have side features that matter, and a network trained on it.

The last rows and columns have no ratings: of the last but one of each only features are known, of the last nothing.
"""

import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.cfn.completion import Completion
from cofill.models.cfn.decoded import DecodedMatrix, Decoder
from cofill.models.cfn.first_decoder import FirstDecoder
from cofill.models.cfn.fit import Fitted, fit_matrix
from cofill.models.known import KnownRatings
from cofill.models.portion import Portion

Floats = npt.NDArray[np.float32]
ROWS, COLUMNS = 60, 40
P, Q = 3, 2
COLD_ROW, EMPTY_ROW = ROWS - 2, ROWS - 1
COLD_COLUMN, EMPTY_COLUMN = COLUMNS - 2, COLUMNS - 1
SCALE = Scale(1, 5)


@dataclass(frozen=True)
class Matrix:
    """Ratings of a world in which features decide: of whole rows and columns, and of who likes what."""

    rows: SparseRows
    row_features: Floats  # (ROWS, P)
    column_features: Floats  # (COLUMNS, Q)
    truth: Floats  # (ROWS, COLUMNS)


@cache
def matrix() -> Matrix:
    rng = np.random.default_rng(0)
    row_features = rng.normal(size=(ROWS, P)).astype(np.float32)
    column_features = rng.normal(size=(COLUMNS, Q)).astype(np.float32)
    row_features[[10, 20, EMPTY_ROW]] = 0  # of some hot ones there are no features either
    column_features[[10, 20, EMPTY_COLUMN]] = 0
    truth = 3 + 0.3 * row_features[:, :1] - 0.3 * column_features[:, 0] + 0.5 * row_features[:, 1:] @ column_features.T
    truth = np.clip(truth, 1, 5)
    known = rng.random((ROWS, COLUMNS)) < rng.uniform(0.2, 0.9, ROWS)[:, None]
    known[COLD_ROW:], known[:, COLD_COLUMN:] = False, False
    ratings = np.clip(truth + rng.normal(0, 0.2, truth.shape), 1, 5).astype(np.float32)
    row, column = np.nonzero(known)
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    rows = SparseRows(indptr, column.astype(np.int32), ratings[row, column], COLUMNS)
    return Matrix(rows, row_features, column_features, truth.astype(np.float32))


def settings(**changes: Any) -> CFNSettings:
    """Of the former decoder, unless changes say otherwise."""
    quick = {"hidden": 12, "epochs": 25, "validation": 0, "batch": 5, "threads": 1, "weight_decay": 0.05}
    return CFNSettings.of({**quick, "decoder": "network", **changes})


def known_ratings() -> KnownRatings:
    return KnownRatings(matrix().rows, matrix().rows.transpose())


@cache
def _fitted(**changes: Any) -> Fitted:
    return fit_matrix(
        known_ratings(),
        SCALE,
        settings(**changes),
        row_features=SideFeatures(matrix().row_features),
        column_features=SideFeatures(matrix().column_features),
    )


def fitted(**changes: Any) -> Fitted:
    """A network of one's own: a completion moves its output weights in place."""
    return copy.deepcopy(_fitted(**changes))


def completion(*, solved: bool = True, features: bool = True, **changes: Any) -> Completion:
    """As right after a fit; without `features` all of them are zero when it comes to predictions."""
    trained, world = fitted(**changes), matrix()
    of_rows, of_columns = (f.copy() if features else 0 * f for f in (world.row_features, world.column_features))
    made = Completion(
        trained.network,
        trained.scaling,
        known_ratings(),
        settings(**changes),
        row_features=SideFeatures(of_rows),
        column_features=SideFeatures(of_columns),
    )
    if solved:
        made.column_weights.solve_trained()
    return made


def decoded(**changes: Any) -> DecodedMatrix:
    """The same by the Bayesian decoder, as right after a fit."""
    changes = {"decoder": "process", **changes}
    trained, world = fitted(**changes), matrix()
    assert trained.biases is not None
    assert trained.amplitudes is not None
    of_rows, of_columns = SideFeatures(world.row_features.copy()), SideFeatures(world.column_features.copy())
    by_column = world.rows.transpose()
    first = FirstDecoder(
        trained.network,
        trained.scaling,
        trained.biases,
        world.rows,
        by_column,
        of_rows,
        of_columns,
        Portion.of(world.rows),
    )
    return DecodedMatrix(
        trained.network,
        trained.scaling,
        known_ratings(),
        trained.biases,
        Decoder(
            first.space,
            trained.amplitudes,
            first.solve(trained.amplitudes),
            trained.spread,
            first.neighbours(trained.amplitudes, settings(**changes)),
        ),
        settings(**changes),
        row_features=of_rows,
        column_features=of_columns,
    )


def vector(*values: float) -> Floats:
    return np.array(values, np.float32)


def indices(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


NOTHING = (np.empty(0, np.int32), np.empty(0, np.float32))
