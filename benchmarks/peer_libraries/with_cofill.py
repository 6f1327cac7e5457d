"""cofill itself, with its defaults, and its own means, popularity and EASE."""

from typing import Any

import numpy as np

from cofill import Ratings, algorithm
from peer_libraries.answering import Doubles, Ints, Problem, best_of_scores


class Own:
    def __init__(self, problem: Problem, name: str, seed: int) -> None:
        kind = algorithm(name)
        seeded: dict[str, Any] = {"seed": seed} if "seed" in kind.settings_class.model_fields else {}
        train = Ratings.read((problem.user, problem.item, problem.rating), scale=(problem.low, problem.high))
        self._problem, self._model = problem, kind(**seeded).fit(train)
        # ids are the numbers of the problem, in ascending order, so an index means the same

    def predict(self, users: Ints, items: Ints, days: Ints) -> Doubles:
        order = np.lexsort((users, items))  # as cofill's evaluation asks, which is quicker
        found = np.empty(len(users))
        found[order] = self._model.predict_indices(users[order], items[order])
        return found

    def lists(self, users: Ints, n: int) -> Ints:
        return best_of_scores(
            self._problem, users, n, lambda some: self._model.user_scores(some.astype(np.int64), by="list")
        )

    def stranger_list(self, n: int) -> Ints:
        scores = self._model.stranger_scores(by="list")
        found = np.full(n, -1, np.int32)
        found[: min(n, len(scores))] = np.argsort(-scores, kind="stable")[:n]
        return found


def cfn(problem: Problem, seed: int) -> Own:
    return Own(problem, "cfn", seed)


def lists(problem: Problem, seed: int) -> Own:
    return Own(problem, "lists", seed)


def means(problem: Problem, seed: int) -> Own:
    return Own(problem, "means", seed)


def popularity(problem: Problem, seed: int) -> Own:
    return Own(problem, "popularity", seed)


def ease(problem: Problem, seed: int) -> Own:
    return Own(problem, "ease", seed)
