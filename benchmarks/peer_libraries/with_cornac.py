"""Cornac: a comparative framework for recommenders. https://cornac.preferred.ai"""

from importlib import import_module
from typing import Any

import numpy as np

from peer_libraries.answering import Doubles, Ints, Problem, best_of_scores


class Scored:
    def __init__(self, problem: Problem, model: Any, chosen: np.ndarray[Any, Any] | None = None) -> None:
        cornac: Any = import_module("cornac")
        self._problem = problem
        kept = np.ones(len(problem.user), np.bool_) if chosen is None else chosen
        rows = zip(problem.user[kept].tolist(), problem.item[kept].tolist(), problem.rating[kept].tolist(), strict=True)
        self._train = cornac.data.Dataset.from_uir(list(rows), seed=0)
        self._model = model.fit(self._train)
        self._users, self._items = self._train.uid_map, self._train.iid_map

    def predict(self, users: Ints, items: Ints, days: Ints) -> Doubles:
        """It takes its own numbers; unknown ids get ones beyond, for which it falls back by itself."""
        user = [self._users.get(one, self._train.num_users) for one in users.tolist()]
        item = [self._items.get(one, self._train.num_items) for one in items.tolist()]
        return np.array([self._model.rate(u, i, clipping=False) for u, i in zip(user, item, strict=True)], np.float64)

    def lists(self, users: Ints, n: int) -> Ints:
        ours = np.full(self._problem.items, self._train.num_items)
        for item, theirs in self._items.items():
            ours[item] = theirs
        popular = self._problem.popular()
        rank = np.empty(len(popular))
        rank[popular] = -np.arange(len(popular), dtype=np.float64)

        def scores(some: Ints) -> Doubles:
            found = np.empty((len(some), self._problem.items))
            for row, user in enumerate(some.tolist()):
                known = self._users.get(user)
                if known is None:  # who liked nothing gets what is popular
                    found[row] = rank
                    continue
                own = np.append(np.asarray(self._model.score(known), np.float64).ravel(), -1e30)
                found[row] = own[ours]
            return found

        return best_of_scores(self._problem, users, n, scores)


def mf(problem: Problem, seed: int) -> Scored:
    """As its README has it."""
    models: Any = import_module("cornac.models")
    model = models.MF(k=10, max_iter=25, learning_rate=0.01, lambda_reg=0.02, use_bias=True, seed=seed, num_threads=1)
    return Scored(problem, model)


def bpr(problem: Problem, seed: int) -> Scored:
    """As its README has it."""
    models: Any = import_module("cornac.models")
    model = models.BPR(k=10, max_iter=200, learning_rate=0.001, lambda_reg=0.01, seed=seed, num_threads=1)
    return Scored(problem, model)


def ease(problem: Problem, seed: int) -> Scored:
    """As examples/ease_movielens.py has it, negative weights allowed."""
    models: Any = import_module("cornac.models")
    return Scored(problem, models.EASE(lamb=500, posB=False, seed=seed, verbose=False))
