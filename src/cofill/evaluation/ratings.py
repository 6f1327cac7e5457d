"""Rating measures over every test rating, cold ones too, and by popularity of the items and users: RMSE, MAE, and how
often prediction intervals hold the rating.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.frames import InFrames
from cofill.data.ratings import Ratings, refuse_unread
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from cofill.models.results import Predicted

CLUSTERS = 5
_PAIRS_AT_ONCE = 500_000
_MEASURED = ("ratings", "rmse", "mae", "within_interval")


class RatingModel(Protocol):
    """The interface of a model whose predictions are measured."""

    users: Vocabulary
    items: Vocabulary

    def predict_indices(self, users: Ints, items: Ints) -> Floats: ...
    def user_counts(self) -> Longs: ...
    def item_counts(self) -> Longs: ...


@runtime_checkable
class IntervalModel(Protocol):
    """The interface of a model whose prediction intervals are measured, too."""

    @property
    def has_intervals(self) -> bool: ...
    def predict_intervals(self, users: Ints, items: Ints) -> "Predicted": ...


@dataclass(frozen=True, kw_only=True)
class Group:
    """Items or users with about the same number of training ratings."""

    share_from: float
    share_to: float
    most_training_ratings: int
    ratings: int


@dataclass(frozen=True, kw_only=True)
class _RatingGroup(Group):
    rmse: float | None  # None where no test rating falls into it
    mae: float | None
    within_interval: float | None = None  # share of the ratings; None where there are no intervals


@dataclass(frozen=True, kw_only=True)
class Cluster(_RatingGroup):
    """A group of items with about the same number of training ratings."""

    items: int


@dataclass(frozen=True, kw_only=True)
class UserCluster(_RatingGroup):
    """A group of users with about the same number of training ratings."""

    users: int


@dataclass(frozen=True)
class Evaluation(InFrames):
    """The measures of one model on one test part."""

    rmse: float
    mae: float
    ratings: int
    cold: int  # ratings whose user or item the model had no rating of
    clusters: list[Cluster]
    user_clusters: list[UserCluster]
    within_interval: float | None = None
    """Share of the ratings that their 90 % prediction interval holds; None where there are no intervals."""

    def to_polars(self) -> "pl.DataFrame":
        """A row for all ratings, then one for each group of items and of users by their training ratings.

        The column of is "all", "items" or "users", and members says how many of them a group has.
        """
        import polars as pl

        rows: list[dict[str, Any]] = [{"of": "all"} | {name: getattr(self, name) for name in _MEASURED}]
        rows += [{"of": "items", "members": one.items} | asdict(one) for one in self.clusters]
        rows += [{"of": "users", "members": one.users} | asdict(one) for one in self.user_clusters]
        whole, shares = ("members", "most_training_ratings", "ratings"), ("share_from", "share_to")
        schema = {"of": pl.String} | dict.fromkeys(shares, pl.Float64) | dict.fromkeys(whole, pl.Int64)
        frame = pl.DataFrame(rows, schema={**schema, **dict.fromkeys(("rmse", "mae", "within_interval"), pl.Float64)})
        return frame.drop("within_interval") if self.within_interval is None else frame

    def as_json(self) -> dict[str, Any]:
        """All of it, ready for JSON; without what was not measured."""
        document = asdict(self)
        if self.within_interval is None:
            for part in (document, *document["clusters"], *document["user_clusters"]):
                del part["within_interval"]
        return document


def evaluate(
    model: RatingModel,
    test: Ratings,
    *,
    intervals: bool = False,
    report: Callable[[float], None] | None = None,
) -> Evaluation:
    """Measure predictions on test ratings. Every one counts.

    `intervals`: measure how often prediction intervals hold the rating, if the model has any;
    `report` is called with the share of it that is done.
    """
    return measured(model, test, predict_test(model, test, intervals=intervals, report=report))


class Predictions(NamedTuple):
    """Of test ratings, all (n,)."""

    ratings: Floats
    within: Bools | None  # whether their intervals hold them; None without intervals


def predict_test(
    model: RatingModel,
    test: Ratings,
    *,
    intervals: bool = False,
    report: Callable[[float], None] | None = None,
) -> Predictions:
    """Predictions of test ratings, asked for as in `evaluate`, in parts of bounded memory."""
    refuse_unread(test)
    if not test.rated:
        raise DataError("interactions have no ratings to compare predictions with", "measure lists: evaluate_ranking")
    if len(test) == 0:
        raise DataError("there are no ratings to evaluate on; give at least one")
    return predict_pairs(model, *_indices(model, test), test.values, intervals=intervals, report=report)


def predict_pairs(
    model: RatingModel,
    users: Ints,
    items: Ints,
    given: Floats,
    *,
    intervals: bool = False,
    report: Callable[[float], None] | None = None,
) -> Predictions:
    """The same for pairs given by index, -1 if unknown, that were rated so."""
    if not isinstance(model, IntervalModel):
        return Predictions(model.predict_indices(users, items), None)
    predicted, within = np.empty(len(users), np.float32), np.zeros(len(users), np.bool_)
    held = intervals and model.has_intervals
    for start in range(0, len(users), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        if held:
            found, rated = model.predict_intervals(users[part], items[part]), given[part]
            predicted[part], within[part] = found.ratings, (found.low <= rated) & (rated <= found.high)
        else:
            predicted[part] = model.predict_indices(users[part], items[part])
        if report is not None:
            report(min(part.stop / len(users), 1.0))
    return Predictions(predicted, within if held else None)


def measured(model: RatingModel, test: Ratings, predictions: Predictions) -> Evaluation:
    """The measures of these predictions of the test ratings."""
    return measured_pairs(*_indices(model, test), test.values, predictions, model.user_counts(), model.item_counts())


def measured_pairs(
    users: Ints, items: Ints, given: Floats, predictions: Predictions, by_user: Longs, by_item: Longs
) -> Evaluation:
    """The same for pairs given by index, -1 if unknown; `by_user` and `by_item` count training ratings."""
    errors, within = predictions.ratings.astype(np.float64) - given, predictions.within
    return Evaluation(
        **_measures(errors, within),
        cold=int((_is_cold(users, by_user) | _is_cold(items, by_item)).sum()),
        clusters=[Cluster(items=size, **group) for size, group in _by_popularity(errors, within, items, by_item)],
        user_clusters=[
            UserCluster(users=size, **group) for size, group in _by_popularity(errors, within, users, by_user)
        ],
    )


def _indices(model: RatingModel, test: Ratings) -> tuple[Ints, Ints]:
    """(n,), (n,): users and items of the test ratings; -1 for those that the model has never seen."""
    return model.users.find(test.users.ids)[test.user_index], model.items.find(test.items.ids)[test.item_index]


def _measures(errors: Doubles, within: Bools | None) -> dict[str, Any]:
    if not len(errors):
        return {"ratings": 0, "rmse": None, "mae": None, "within_interval": None}
    return {
        "ratings": len(errors),
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "mae": float(np.abs(errors).mean()),
        "within_interval": None if within is None else float(within.mean()),
    }


def _by_popularity(
    errors: Doubles, within: Bools | None, members: Ints, counts: Longs
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Measures in the groups of `popularity_groups`: (size of the group, its measures)."""
    groups = popularity_groups(counts, members)
    for number, group in enumerate(groups.members):
        inside = groups.group_of[members] == number
        measures = _measures(errors[inside], None if within is None else within[inside])
        yield len(group), groups.about(number, counts) | measures


def _is_cold(indices: Ints, counts: Longs) -> Bools:
    cold: Bools = (indices < 0) | (np.append(counts, 0)[indices] == 0)
    return cold


# Groups by popularity


class PopularityGroups(NamedTuple):
    """Items, or users, in five groups of equal size by the number of their training ratings, as in the paper.

    From the least to the most rated.
    """

    members: list[Longs]
    """Of each group."""
    group_of: Longs
    """(members + 1,): the last entry, which index -1 finds, is that of one the model has never heard of: group 0."""

    def about(self, number: int, counts: Longs) -> dict[str, Any]:
        """Where a group begins and ends, as shares of all members, and the most training ratings in it."""
        most = int(counts[self.members[number]].max(initial=0))
        return {
            "share_from": number / CLUSTERS,
            "share_to": (number + 1) / CLUSTERS,
            "most_training_ratings": most,
        }


def popularity_groups(counts: Longs, tested: Ints) -> PopularityGroups:
    """Groups by training ratings (members,); `tested` are the members of the test ratings, -1 if unknown.

    Members that have a rating neither in training nor in the test do not count: a model may know them by their
    features. A member that the model has never heard of has no training rating: it belongs to the first group.
    """
    rated = counts > 0
    rated[tested[tested >= 0]] = True
    order = np.argsort(counts, kind="stable")
    groups = np.array_split(order[rated[order]], CLUSTERS)
    group_of = np.zeros(len(counts) + 1, np.int64)
    for number, group in enumerate(groups):
        group_of[group] = number
    return PopularityGroups(groups, group_of)
