"""cofill's own evaluation of what a library answered: the same measures for everybody."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cofill.evaluation.list_measures import Tally, relevant_ratings
from cofill.evaluation.ratings import Predictions, measured_pairs
from peer_libraries.answering import BLOCK, LENGTH, Doubles, Ints
from peer_libraries.problems import Part


@dataclass(frozen=True)
class Measured:
    """Means over the test part, and the sums or values of its users, which say how far chance goes."""

    measures: dict[str, float]
    of_users: dict[str, Doubles]


def ratings(part: Part, predicted: Doubles) -> Measured:
    problem, test = part.problem, part.test
    if not np.isfinite(predicted).all():
        raise ArithmeticError(f"{int((~np.isfinite(predicted)).sum()):,} predictions are no finite numbers")
    given = Predictions(predicted.astype(np.float32), None)
    counts = (np.bincount(problem.user), np.bincount(problem.item))
    found = measured_pairs(problem.test_user, problem.test_item, test.values, given, *counts)
    errors = predicted - test.values
    tested = np.unique(test.user_index, return_inverse=True)[1]
    sums = {
        "squares": np.bincount(tested, weights=errors**2).astype(np.float64),
        "absolutes": np.bincount(tested, weights=np.abs(errors)).astype(np.float64),
        "ratings": np.bincount(tested).astype(np.float64),
    }
    return Measured({"rmse": found.rmse, "mae": found.mae}, sums)


def lists(part: Part, answered: Ints) -> Measured:
    """`answered` (people, 10): numbers of the problem. Relevant are liked test ratings, of cold items too."""
    train, test = part.train, part.test
    check_lists(part, answered)
    wanted = relevant_ratings(train_items(part), test, np.zeros(len(test), np.bool_))
    tally = Tally(wanted, np.bincount(train.item_index, minlength=len(train.items)), (LENGTH,))
    for first in range(0, len(answered), BLOCK):
        some = answered[first : first + BLOCK]
        scores = np.full((len(some), len(train.items)), -np.inf, np.float32)
        row, place = np.nonzero(some >= 0)
        scores[row, part.items[some[row, place]]] = -place.astype(np.float32)
        tally.add(first, scores)
    of_users = {name: tally.arrays()[f"{name}@{LENGTH}"].astype(np.float64) for name in ("ndcg", "recall")}
    return Measured({name: float(values.mean()) for name, values in of_users.items()}, of_users)


class Items:
    """What `relevant_ratings` asks of a model: its items and the scale."""

    def __init__(self, part: Part) -> None:
        self.items, self.scale = part.train.items, part.train.scale


def train_items(part: Part) -> Items:
    return Items(part)


def check_lists(part: Part, answered: Ints) -> None:
    """A list has no item twice, and none that its user has rated in training."""
    problem = part.problem
    if answered.shape != (len(problem.asked), LENGTH) or answered.max(initial=-1) >= problem.items:
        raise ValueError(f"the lists have the shape {answered.shape}, or items that nobody knows")
    if not (answered >= 0).any():
        raise ValueError("all lists are empty")
    listed = np.flatnonzero((answered >= 0).ravel())
    row, item = listed // LENGTH, answered.ravel()[listed].astype(np.int64)
    if len(np.unique(row * problem.items + item)) < len(listed):
        raise ValueError("a list has the same item twice")
    known = problem.user.astype(np.int64) * problem.items + problem.item
    asked = problem.asked[row].astype(np.int64)
    again: npt.NDArray[np.bool_] = np.isin(asked * problem.items + item, known) & (asked >= 0)
    if again.any():
        raise ValueError(f"{int(again.sum()):,} places of lists go to items that the user has rated in training")
