"""LensKit: biased ALS, implicit ALS and item neighbours. https://lenskit.org"""

from importlib import import_module
from typing import Any

import numpy as np

from peer_libraries.answering import Doubles, Ints, Problem


class Pipeline:
    """A pipeline of its own making; it folds users in by what they rated, and falls back to biases or popularity."""

    def __init__(self, problem: Problem, scorer: Any, *, rated: bool) -> None:
        pandas: Any = import_module("pandas")
        pipelines: Any = import_module("lenskit.pipeline")
        data: Any = import_module("lenskit.data")
        frame = pandas.DataFrame({"user_id": problem.user, "item_id": problem.item, "rating": problem.rating})
        self._pipe = (pipelines.predict_pipeline if rated else pipelines.topn_pipeline)(scorer)
        self._pipe.train(data.from_interactions_df(frame))

    def predict(self, users: Ints, items: Ints, days: Ints) -> Doubles:
        item_list: Any = import_module("lenskit.data").ItemList
        predict: Any = import_module("lenskit.operations").predict
        found = np.full(len(users), np.nan)
        items = np.where(items < 0, -1 - np.arange(len(items)), items)  # an item may be asked about once
        order = np.argsort(users, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(users[order])) + 1):
            told = predict(self._pipe, int(users[own[0]]), item_list(item_ids=items[own]))
            found[own] = told.scores()
        return found

    def lists(self, users: Ints, n: int) -> Ints:
        recommend: Any = import_module("lenskit.operations").recommend
        found = np.full((len(users), n), -1, np.int32)
        for row, user in enumerate(users.tolist()):
            own = recommend(self._pipe, user, n).ids()
            found[row, : len(own)] = own
        return found


def biased_mf(problem: Problem, seed: int) -> Pipeline:
    """As its first notebook has it."""
    return Pipeline(problem, import_module("lenskit.als").BiasedMFScorer(features=50), rated=True)


def implicit_mf(problem: Problem, seed: int) -> Pipeline:
    return Pipeline(problem, import_module("lenskit.als").ImplicitMFScorer(features=50), rated=False)


def item_knn(problem: Problem, seed: int) -> Pipeline:
    """As its first notebook has it, with the feedback that lists are about."""
    return Pipeline(problem, import_module("lenskit.knn").ItemKNNScorer(k=20, feedback="implicit"), rated=False)
