"""A small matrix whose rows and columns have side features that matter, and predictors of networks trained on it.

Users are its rows, or its columns. The last users and items have no ratings: of the last but one of each only features
are known, of the last nothing.
"""

import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import KnownRatings, SparseRows
from cofill.models.cfn.fit import FitResult, fit_matrix
from cofill.models.cfn.model import fitted_predictor
from cofill.models.cfn.predictor import CFNPredictor
from cofill.models.cfn.scaling import Matrix as Filled
from cofill.models.rng import Portion

Floats = npt.NDArray[np.float32]
ROWS, COLUMNS = 60, 40
P, Q = 3, 2
COLD_ROW, COLD_COLUMN = ROWS - 2, COLUMNS - 2
SCALE = Scale(1, 5)


@dataclass(frozen=True)
class Matrix:
    """Rows and columns as a network has them."""

    rows: SparseRows
    row_features: Floats  # (ROWS, P)
    column_features: Floats  # (COLUMNS, Q)
    truth: Floats  # (ROWS, COLUMNS)


@dataclass(frozen=True)
class World:
    """Ratings of a world in which features decide: of whole users and items, and of who likes what."""

    by_user: SparseRows
    user_features: Floats
    item_features: Floats
    truth: Floats  # (users, items)

    @property
    def users(self) -> int:
        return len(self.user_features)

    @property
    def items(self) -> int:
        return len(self.item_features)

    def pairs_of(self, user: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Users and items of all trained ratings of a user."""
        items = self.by_user.row(user)[0]
        return np.full(len(items), user, np.int32), items


@cache
def world(rows: str = "user") -> World:
    """With users as rows of the network, or with items."""
    if rows == "item":
        turned = world("user")
        return World(turned.by_user.transpose(), turned.item_features, turned.user_features, turned.truth.T)
    rng = np.random.default_rng(0)
    row_features = rng.normal(size=(ROWS, P)).astype(np.float32)
    column_features = rng.normal(size=(COLUMNS, Q)).astype(np.float32)
    row_features[[10, 20, ROWS - 1]] = 0  # of some hot ones there are no features either
    column_features[[10, 20, COLUMNS - 1]] = 0
    truth = 3 + 0.3 * row_features[:, :1] - 0.3 * column_features[:, 0] + 0.5 * row_features[:, 1:] @ column_features.T
    truth = np.clip(truth, 1, 5)
    known = rng.random((ROWS, COLUMNS)) < rng.uniform(0.2, 0.9, ROWS)[:, None]
    known[ROWS - 2 :], known[:, COLUMNS - 2 :] = False, False
    ratings = np.clip(truth + rng.normal(0, 0.2, truth.shape), 1, 5).astype(np.float32)
    row, column = np.nonzero(known)
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    by_user = SparseRows(indptr, column.astype(np.int32), ratings[row, column], COLUMNS)
    return World(by_user, row_features, column_features, truth.astype(np.float32))


def matrix() -> Matrix:
    return Matrix(world().by_user, world().user_features, world().item_features, world().truth)


def settings(**changes: Any) -> CFNSettings:
    """With the network's own output, unless changes say otherwise."""
    quick = {"hidden": 12, "epochs": 25, "validation": 0, "batch": 5, "threads": 1, "weight_decay": 0.05}
    return CFNSettings.of({**quick, "decoder": "network", **changes})


def whole(row_features: Floats, column_features: Floats) -> Filled:
    """All ratings, as a network is given them."""
    rows = matrix().rows
    known, about = KnownRatings(rows, rows.transpose()), (SideFeatures(row_features), SideFeatures(column_features))
    return Filled(known, SCALE, *about, Portion.of(rows))


@cache
def _fitted(**changes: Any) -> FitResult:
    return fit_matrix(whole(world().user_features, world().item_features), settings(**changes))


def fitted(**changes: Any) -> FitResult:
    """A network of one's own: a predictor replaces its output weights."""
    return copy.deepcopy(_fitted(**changes))


def predictor(*, features: bool = True, orientation: str = "item", **changes: Any) -> CFNPredictor:
    """As right after a fit; without `features` all of them are zero when it comes to predictions."""
    changes = {"decoder": "process", "orientation": orientation, **changes}
    of_rows, of_columns = (f.copy() if features else 0 * f for f in (world().user_features, world().item_features))
    trained = fitted(**changes)
    part = replace(trained.part, matrix=whole(of_rows, of_columns))
    return fitted_predictor("user" if orientation == "user" else "item", replace(trained, part=part))


def vector(*values: float) -> Floats:
    return np.array(values, np.float32)


def indices(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)


NOTHING = (np.empty(0, np.int32), np.empty(0, np.float32))
