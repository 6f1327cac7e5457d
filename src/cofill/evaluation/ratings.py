"""Rating measures: RMSE and MAE over every test rating, cold ones too, and by popularity of the items and users."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError
from cofill.evaluation.popularity_groups import PopularityGroups, popularity_groups

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


class RatingModel(Protocol):
    """The interface of a model whose predictions are measured."""

    users: Vocabulary
    items: Vocabulary

    def predict_indices(self, users: Ints, items: Ints) -> Floats: ...
    def user_counts(self) -> npt.NDArray[np.int64]: ...
    def item_counts(self) -> npt.NDArray[np.int64]: ...


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Items or users with about the same number of training ratings."""

    share_from: float
    share_to: float
    most_training_ratings: int
    ratings: int
    rmse: float | None  # None where no test rating falls into it
    mae: float | None


@dataclass(frozen=True, kw_only=True)
class Cluster(_Group):
    """A group of items with about the same number of training ratings."""

    items: int


@dataclass(frozen=True, kw_only=True)
class UserCluster(_Group):
    """A group of users with about the same number of training ratings."""

    users: int


@dataclass(frozen=True)
class Evaluation:
    """The measures of one model on one test part."""

    rmse: float
    mae: float
    ratings: int
    cold: int  # ratings whose user or item the model had no rating of
    clusters: list[Cluster]
    user_clusters: list[UserCluster]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(model: RatingModel, test: Ratings) -> Evaluation:
    """Measure predictions on test ratings. Every one counts."""
    if len(test) == 0:
        raise DataError("there are no ratings to evaluate on; give at least one")
    users = model.users.find(test.users.ids)[test.user_index]
    items = model.items.find(test.items.ids)[test.item_index]
    errors = model.predict_indices(users, items).astype(np.float64) - test.values
    by_user, by_item = model.user_counts(), model.item_counts()
    return Evaluation(
        rmse=_rmse(errors),
        mae=_mae(errors),
        ratings=len(test),
        cold=int((_is_cold(users, by_user) | _is_cold(items, by_item)).sum()),
        clusters=[Cluster(items=size, **group) for size, group in _by_popularity(errors, items, by_item)],
        user_clusters=[UserCluster(users=size, **group) for size, group in _by_popularity(errors, users, by_user)],
    )


def _by_popularity(
    errors: npt.NDArray[np.float64], members: Ints, counts: npt.NDArray[np.int64]
) -> list[tuple[int, dict[str, Any]]]:
    """Errors in the groups of `popularity_groups`: (size of the group, its measures)."""
    groups, group_of = popularity_groups(counts, members)
    found = []
    for number, group in enumerate(groups):
        inside = errors[group_of[members] == number]
        share_from, share_to = PopularityGroups.share(number)
        measures = {
            "share_from": share_from,
            "share_to": share_to,
            "most_training_ratings": int(counts[group].max(initial=0)),
            "ratings": len(inside),
            "rmse": _rmse(inside) if len(inside) else None,
            "mae": _mae(inside) if len(inside) else None,
        }
        found.append((len(group), measures))
    return found


def _is_cold(indices: Ints, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    cold: npt.NDArray[np.bool_] = (indices < 0) | (np.append(counts, 0)[indices] == 0)
    return cold


def _rmse(errors: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _mae(errors: npt.NDArray[np.float64]) -> float:
    return float(np.abs(errors).mean())
