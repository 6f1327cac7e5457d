"""Rating measures: RMSE and MAE over every test rating, cold ones too, and RMSE by popularity of the items."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

CLUSTERS = 5


class RatingModel(Protocol):
    """What is asked of a model to measure it."""

    users: Vocabulary
    items: Vocabulary

    def predict_indices(self, users: Ints, items: Ints) -> Floats: ...
    def user_counts(self) -> npt.NDArray[np.int64]: ...
    def item_counts(self) -> npt.NDArray[np.int64]: ...


@dataclass(frozen=True)
class Cluster:
    """A group of items with about the same number of training ratings."""

    share_from: float
    share_to: float
    items: int
    most_training_ratings: int
    ratings: int
    rmse: float | None  # None where no test rating falls into it


@dataclass(frozen=True)
class Evaluation:
    """The measures of one model on one test part."""

    rmse: float
    mae: float
    ratings: int
    cold: int  # ratings whose user or item the model had no rating of
    clusters: list[Cluster]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(model: RatingModel, test: Ratings) -> Evaluation:
    """Measure predictions on test ratings. Every one counts."""
    if len(test) == 0:
        raise DataError("there are no ratings to evaluate on; give at least one")
    users = model.users.find(test.users.ids)[test.user_index]
    items = model.items.find(test.items.ids)[test.item_index]
    errors = model.predict_indices(users, items).astype(np.float64) - test.values
    return Evaluation(
        rmse=_rmse(errors),
        mae=float(np.abs(errors).mean()),
        ratings=len(test),
        cold=int((_is_cold(users, model.user_counts()) | _is_cold(items, model.item_counts())).sum()),
        clusters=_by_popularity(errors, items, model.item_counts()),
    )


def _by_popularity(errors: npt.NDArray[np.float64], items: Ints, counts: npt.NDArray[np.int64]) -> list[Cluster]:
    """Five groups with as many items each, from the least to the most rated, as in the paper.

    Items that are rated neither in training nor in the test do not count: a model may know them by their features. An
    item that the model has never heard of has no training rating: it belongs to the first group.
    """
    rated = counts > 0
    rated[items[items >= 0]] = True
    order = np.argsort(counts, kind="stable")
    groups = np.array_split(order[rated[order]], CLUSTERS)
    group_of = np.zeros(len(counts) + 1, np.int64)  # one more: index -1 is the unknown item, group 0
    for number, group in enumerate(groups):
        group_of[group] = number
    clusters = []
    for number, group in enumerate(groups):
        inside = errors[group_of[items] == number]
        clusters.append(
            Cluster(
                share_from=number / CLUSTERS,
                share_to=(number + 1) / CLUSTERS,
                items=len(group),
                most_training_ratings=int(counts[group].max(initial=0)),
                ratings=len(inside),
                rmse=_rmse(inside) if len(inside) else None,
            )
        )
    return clusters


def _is_cold(indices: Ints, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    cold: npt.NDArray[np.bool_] = (indices < 0) | (np.append(counts, 0)[indices] == 0)
    return cold


def _rmse(errors: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(errors**2)))
