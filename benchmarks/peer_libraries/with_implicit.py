"""implicit: factors and neighbours of implicit feedback. https://github.com/benfred/implicit"""

from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from peer_libraries.answering import Ints, Problem, best_of_scores
from peer_libraries.searching import best_setting

GRID = tuple(product((128,), (1.0, 10.0, 100.0), (1.0, 10.0)))  # factors, regularization, alpha


class Factors:
    """The library ranks; it is told what to leave out: everything that was rated, low ratings too."""

    def __init__(self, problem: Problem, model: Any, chosen: str = "") -> None:
        self._known, self._model, self.chosen = problem.matrix(), model, chosen

    def predict(self, users: Ints, items: Ints, days: Ints) -> Any:
        raise NotImplementedError

    def lists(self, users: Ints, n: int) -> Ints:
        n_found = min(n, self._known.shape[1])
        ranked, scores = self._model.recommend(users, self._known[users], N=n_found, filter_already_liked_items=True)
        found = np.full((len(users), n), -1, np.int32)
        found[:, :n_found] = np.where(scores > np.finfo(np.float32).min, ranked, -1)  # it marks what is left out so
        return found


class Neighbours:
    def __init__(self, problem: Problem, model: Any, matrix: Any) -> None:
        self._problem, self._model, self._matrix = problem, model, matrix

    def predict(self, users: Ints, items: Ints, days: Ints) -> Any:
        raise NotImplementedError

    def lists(self, users: Ints, n: int) -> Ints:
        return best_of_scores(
            self._problem, users, n, lambda some: (self._matrix[some] @ self._model.similarity).toarray()
        )


def als(problem: Problem, seed: int) -> Factors:
    """As examples/movielens.py: ratings from 4 on, weighted by BM25."""
    library: Any = import_module("implicit.nearest_neighbours")
    liked = problem.matrix(np.ones(len(problem.user)), problem.rating >= problem.liked_from)
    weighted = (library.bm25_weight(liked.T.tocsr(), B=0.9) * 5).T.tocsr()
    model = import_module("implicit.als").AlternatingLeastSquares(random_state=seed, num_threads=1)
    model.fit(weighted, show_progress=False)
    return Factors(problem, model)


def bm25(problem: Problem, seed: int) -> Neighbours:
    """As examples/movielens.py: neighbours of ratings from 4 on."""
    liked = problem.matrix(np.ones(len(problem.user)), problem.rating >= problem.liked_from)
    model = import_module("implicit.nearest_neighbours").BM25Recommender(B=0.2, num_threads=1)
    model.fit(liked, show_progress=False)
    return Neighbours(problem, model, liked)


def als_searched(problem: Problem, seed: int) -> Factors:
    """Every rating counts, the higher the more; penalty and confidence are chosen on validation ratings."""

    def fit(part: Problem, setting: tuple[int, float, float]) -> Factors:
        factors, regularization, alpha = setting
        grades = 0.1 + 0.9 * (part.rating - part.low) / (part.high - part.low)
        matrix = part.matrix(grades.astype(np.float32))
        model = import_module("implicit.als").AlternatingLeastSquares(
            factors=factors, regularization=regularization, alpha=alpha, random_state=seed, num_threads=1
        )
        model.fit(matrix, show_progress=False)
        return Factors(part, model, f"factors {factors}, regularization {regularization:g}, alpha {alpha:g}")

    return fit(problem, best_setting(problem, seed, GRID, fit))
