"""myFM: Bayesian factorisation machines by Gibbs sampling. https://github.com/tohtsky/myFM"""

import contextlib
import io
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from peer_libraries.answering import Doubles, Ints, Problem


def imported() -> Any:
    """It imports two names that it does not use from pkg_resources, which newer setuptools no longer have."""
    if "myfm" not in sys.modules and find_spec("pkg_resources") is None:
        stand_in: Any = ModuleType("pkg_resources")
        stand_in.DistributionNotFound = stand_in.get_distribution = None
        sys.modules["pkg_resources"] = stand_in
        try:
            return import_module("myfm")
        finally:
            del sys.modules["pkg_resources"]
    return import_module("myfm")


class Machine:
    """Ids of users and items; with `implicit`, also who rated an item, what a user rated, and the day."""

    def __init__(self, problem: Problem, seed: int, *, rank: int, turns: int, implicit: bool) -> None:
        self._library = imported()
        self._problem, self._implicit = problem, implicit
        self._days = np.unique(problem.day) if implicit else np.empty(0, np.int32)
        self._sides = self._features()
        groups = [*([len(self._days)] if len(self._days) else []), *self._sizes()]
        self._model = self._library.MyFMRegressor(rank=rank, random_seed=seed)
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
            self._model.fit(
                self._dated(problem.day, len(problem.user)), problem.rating.astype(np.float64),
                X_rel=self._blocks(problem.user, problem.item), group_shapes=groups,
                n_iter=turns, n_kept_samples=turns - 5,
            )  # fmt: skip

    def _features(self) -> tuple[Any, Any]:
        """(users + 1, ...), (items + 1, ...): the last row, of ids that are not known, is empty."""
        from scipy import sparse

        rated = self._problem.matrix(np.ones(len(self._problem.user)))
        sides = []
        for matrix in (rated, rated.T.tocsr()):
            blocks = [sparse.eye(matrix.shape[0], format="csr")]
            if self._implicit:
                lengths = np.maximum(np.diff(matrix.indptr), 1)
                blocks.append(sparse.diags(lengths**-0.5) @ matrix)
            known = sparse.hstack(blocks, format="csr")
            sides.append(sparse.vstack([known, sparse.csr_matrix((1, known.shape[1]))], format="csr"))
        return sides[0], sides[1]

    def _sizes(self) -> list[int]:
        users, items = self._problem.users, self._problem.items
        return [users, items, items, users] if self._implicit else [users, items]

    def _dated(self, days: Ints, rows: int) -> Any:
        from scipy import sparse

        if not len(self._days):
            return None
        place = np.searchsorted(self._days, days)
        place[place == len(self._days)] = 0
        known = np.flatnonzero(self._days[place] == days)
        return sparse.csr_matrix((np.ones(len(known)), (known, place[known])), shape=(rows, len(self._days)))

    def _blocks(self, users: Ints, items: Ints) -> list[Any]:
        blocks = []
        for features, index in zip(self._sides, (users, items), strict=True):
            places, here = np.unique(np.where(index < 0, features.shape[0] - 1, index), return_inverse=True)
            blocks.append(self._library.RelationBlock(here.astype(np.int64), features[places]))
        return blocks

    def predict(self, users: Ints, items: Ints, days: Ints) -> Doubles:
        told: Doubles = self._model.predict(self._dated(days, len(users)), self._blocks(users, items))
        return told

    def lists(self, users: Ints, n: int) -> Ints:
        raise NotImplementedError


def ids(problem: Problem, seed: int) -> Machine:
    return Machine(problem, seed, rank=8, turns=100, implicit=False)


def flipped(problem: Problem, seed: int) -> Machine:
    """Its authors' timeSVD++ flipped, by regression: the day, what a user rated, who rated an item."""
    return Machine(problem, seed, rank=16, turns=200, implicit=True)
