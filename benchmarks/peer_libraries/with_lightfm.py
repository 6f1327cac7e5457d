"""LightFM, in the fork that is kept up to date by the authors of RecTools."""

from importlib import import_module
from typing import Any

import numpy as np

from peer_libraries.answering import Ints, Problem, best_of_scores


class Warp:
    def __init__(self, problem: Problem, model: Any) -> None:
        self._problem = problem
        (self._user_bias, self._user), (self._item_bias, self._item) = (
            model.get_user_representations(),
            model.get_item_representations(),
        )

    def predict(self, users: Ints, items: Ints, days: Ints) -> Any:
        raise NotImplementedError

    def lists(self, users: Ints, n: int) -> Ints:
        return best_of_scores(self._problem, users, n, lambda some: self._user[some] @ self._item.T + self._item_bias)


def warp(problem: Problem, seed: int) -> Warp:
    """As its README and its notebook on the WARP loss; liked ratings alone are positive."""
    liked = problem.matrix(np.ones(len(problem.user), np.float32), problem.rating >= problem.liked_from)
    model = import_module("lightfm").LightFM(
        no_components=32, loss="warp", learning_schedule="adagrad", max_sampled=100,
        user_alpha=1e-5, item_alpha=1e-5, random_state=seed,
    )  # fmt: skip
    model.fit(liked.tocoo(), epochs=30, num_threads=1)
    return Warp(problem, model)
