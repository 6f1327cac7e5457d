"""cmfrec: collective matrix factorisation, explicit and implicit. https://github.com/david-cortes/cmfrec"""

from importlib import import_module
from typing import Any

import numpy as np

from peer_libraries.answering import Doubles, Ints, Problem, best_of_scores


class Factors:
    def __init__(self, problem: Problem, model: Any) -> None:
        self._problem, self._model = problem, model

    def predict(self, users: Ints, items: Ints, days: Ints) -> Doubles:
        """It has no prediction for ids that it has not seen: where one side is known, its bias stands for the pair."""
        model = self._model
        known = (users >= 0) & (items >= 0)
        found = np.full(len(users), model.glob_mean_, np.float64)
        found += np.where(users >= 0, np.append(model.user_bias_, 0.0)[users], 0.0)
        found += np.where(items >= 0, np.append(model.item_bias_, 0.0)[items], 0.0)
        found[known] = model.predict(users[known], items[known])
        return found

    def lists(self, users: Ints, n: int) -> Ints:
        model = self._model
        return best_of_scores(self._problem, users, n, lambda some: model.A_[some] @ model.B_.T)


def explicit(problem: Problem, seed: int) -> Factors:
    """The best of its authors' benchmark: biases, implicit features, Cholesky."""
    model = import_module("cmfrec").CMF(
        k=50, lambda_=0.05, scale_lam=True, niter=15, use_cg=False, add_implicit_features=True, w_implicit=0.5,
        random_state=seed, nthreads=1, verbose=False,
    )  # fmt: skip
    return Factors(problem, model.fit(problem.matrix().tocoo()))


def implicit(problem: Problem, seed: int) -> Factors:
    model = import_module("cmfrec").CMF_implicit(
        k=50, lambda_=5, niter=15, use_cg=True, random_state=seed, nthreads=1, verbose=False
    )
    weights = problem.rating.astype(np.float64) - problem.low + 1  # above 0 on any scale
    return Factors(problem, model.fit(problem.matrix(weights).tocoo()))
