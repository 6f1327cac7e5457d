"""RecTools: EASE, and neighbours on top of the library implicit. https://github.com/MobileTeleSystems/RecTools"""

from importlib import import_module
from typing import Any

import numpy as np

from peer_libraries.answering import Ints, Problem
from peer_libraries.searching import best_setting

PENALTIES = (250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0)


class Recommending:
    """Ratings are weights, as in its README."""

    def __init__(self, problem: Problem, model: Any, chosen: str = "") -> None:
        self.chosen = chosen
        pandas: Any = import_module("pandas")
        frame = pandas.DataFrame(
            {"user_id": problem.user, "item_id": problem.item, "weight": problem.rating - problem.low + 1}
        ).assign(datetime=pandas.Timestamp("2020-01-01"))
        self._data = import_module("rectools.dataset").Dataset.construct(frame)
        self._model = model.fit(self._data)

    def predict(self, users: Ints, items: Ints, days: Ints) -> Any:
        raise NotImplementedError

    def lists(self, users: Ints, n: int) -> Ints:
        told = self._model.recommend(users=users, dataset=self._data, k=n, filter_viewed=True)
        place = {user: row for row, user in enumerate(users.tolist())}
        found = np.full((len(users), n), -1, np.int32)
        rows = told["user_id"].map(place).to_numpy()
        found[rows, told["rank"].to_numpy() - 1] = told["item_id"].to_numpy()
        return found


def ease(problem: Problem, seed: int) -> Recommending:
    model = import_module("rectools.models").EASEModel(regularization=500.0, recommend_n_threads=1)
    return Recommending(problem, model)


def ease_searched(problem: Problem, seed: int) -> Recommending:
    return fitted_ease(problem, best_setting(problem, seed, PENALTIES, fitted_ease))


def fitted_ease(problem: Problem, penalty: float) -> Recommending:
    model = import_module("rectools.models").EASEModel(regularization=penalty, recommend_n_threads=1)
    return Recommending(problem, model, f"regularization {penalty:g}")


def tfidf(problem: Problem, seed: int) -> Recommending:
    """As its README has it."""
    neighbours = import_module("implicit.nearest_neighbours").TFIDFRecommender(K=10, num_threads=1)
    return Recommending(problem, import_module("rectools.models").ImplicitItemKNNWrapperModel(neighbours))
