"""Surprise: rating prediction by the classics. https://surpriselib.com"""

from importlib import import_module
from typing import Any

import numpy as np

from peer_libraries.answering import Doubles, Ints, Problem


class Predicting:
    def __init__(self, model: Any) -> None:
        self._model = model

    def predict(self, users: Ints, items: Ints, days: Ints) -> Doubles:
        """An unknown id, -1, is one that the library has not seen: it predicts from the other side."""
        return np.array([self._model.predict(u, i).est for u, i in zip(users.tolist(), items.tolist(), strict=True)])

    def lists(self, users: Ints, n: int) -> Ints:
        raise NotImplementedError


def svd(problem: Problem, seed: int) -> Predicting:
    return fitted(problem, import_module("surprise").SVD(random_state=seed))


def svd_plus_plus(problem: Problem, seed: int) -> Predicting:
    return fitted(problem, import_module("surprise").SVDpp(random_state=seed, cache_ratings=True))


def fitted(problem: Problem, model: Any) -> Predicting:
    surprise: Any = import_module("surprise")
    data = surprise.Dataset(surprise.Reader(rating_scale=(problem.low, problem.high)))
    rows = zip(problem.user.tolist(), problem.item.tolist(), problem.rating.tolist(), strict=True)
    return Predicting(model.fit(data.construct_trainset([(user, item, rating, None) for user, item, rating in rows])))
