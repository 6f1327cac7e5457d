"""Rating measures over every test rating, cold ones too, and by popularity of the items and users: RMSE, MAE, and how
often prediction intervals hold the rating.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.data.frames import InFrames
from cofill.data.ratings import Ratings, refuse_unread
from cofill.data.vocabulary import Vocabulary
from cofill.errors import DataError
from cofill.evaluation.popularity_groups import PopularityGroups, popularity_groups

if TYPE_CHECKING:
    import polars as pl

Counts = Longs

_PAIRS_AT_ONCE = 50_000
_MEASURED = ("ratings", "rmse", "mae", "within_interval")


class RatingModel(Protocol):
    """The interface of a model whose predictions are measured."""

    users: Vocabulary
    items: Vocabulary

    def predict_indices(self, users: Ints, items: Ints) -> Floats: ...
    def user_counts(self) -> Longs: ...
    def item_counts(self) -> Longs: ...


class Ends(Protocol):
    """Predictions and their intervals, all (n,)."""

    @property
    def ratings(self) -> Floats: ...
    @property
    def low(self) -> Floats: ...
    @property
    def high(self) -> Floats: ...


@runtime_checkable
class IntervalModel(Protocol):
    """The interface of a model whose prediction intervals are measured, too."""

    @property
    def has_intervals(self) -> bool: ...
    def predict_intervals(self, users: Ints, items: Ints) -> Ends: ...
    def quickest_order(self, users: Ints, items: Ints) -> Longs: ...


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Items or users with about the same number of training ratings."""

    share_from: float
    share_to: float
    most_training_ratings: int
    ratings: int
    rmse: float | None  # None where no test rating falls into it
    mae: float | None
    within_interval: float | None = None  # share of the ratings; None where there are no intervals


@dataclass(frozen=True, kw_only=True)
class Cluster(_Group):
    """A group of items with about the same number of training ratings."""

    items: int


@dataclass(frozen=True, kw_only=True)
class UserCluster(_Group):
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
    order = model.quickest_order(users, items)
    for start in range(0, len(order), _PAIRS_AT_ONCE):
        part = order[start : start + _PAIRS_AT_ONCE]
        if held:
            found, rated = model.predict_intervals(users[part], items[part]), given[part]
            predicted[part], within[part] = found.ratings, (found.low <= rated) & (rated <= found.high)
        else:
            predicted[part] = model.predict_indices(users[part], items[part])
        if report is not None:
            report((start + len(part)) / len(order))
    return Predictions(predicted, within if held else None)


def measured(model: RatingModel, test: Ratings, predictions: Predictions) -> Evaluation:
    """The measures of these predictions of the test ratings."""
    return measured_pairs(*_indices(model, test), test.values, predictions, model.user_counts(), model.item_counts())


def measured_pairs(
    users: Ints, items: Ints, given: Floats, predictions: Predictions, by_user: Counts, by_item: Counts
) -> Evaluation:
    """The same for pairs given by index, -1 if unknown; `by_user` and `by_item` count training ratings."""
    found = _Measured(predictions.ratings.astype(np.float64) - given, predictions.within)
    return Evaluation(
        rmse=_rmse(found.errors),
        mae=_mae(found.errors),
        ratings=len(given),
        cold=int((_is_cold(users, by_user) | _is_cold(items, by_item)).sum()),
        clusters=[Cluster(items=size, **group) for size, group in _by_popularity(found, items, by_item)],
        user_clusters=[UserCluster(users=size, **group) for size, group in _by_popularity(found, users, by_user)],
        within_interval=None if found.within is None else float(found.within.mean()),
    )


def _indices(model: RatingModel, test: Ratings) -> tuple[Ints, Ints]:
    """(n,), (n,): users and items of the test ratings; -1 for those that the model has never seen."""
    return model.users.find(test.users.ids)[test.user_index], model.items.find(test.items.ids)[test.item_index]


class _Measured(NamedTuple):
    errors: Doubles
    within: Bools | None


def _by_popularity(found: _Measured, members: Ints, counts: Longs) -> list[tuple[int, dict[str, Any]]]:
    """Measures in the groups of `popularity_groups`: (size of the group, its measures)."""
    groups, group_of = popularity_groups(counts, members)
    measured = []
    for number, group in enumerate(groups):
        inside = group_of[members] == number
        errors = found.errors[inside]
        share_from, share_to = PopularityGroups.share(number)
        measures = {
            "share_from": share_from,
            "share_to": share_to,
            "most_training_ratings": int(counts[group].max(initial=0)),
            "ratings": len(errors),
            "rmse": _rmse(errors) if len(errors) else None,
            "mae": _mae(errors) if len(errors) else None,
            "within_interval": None if found.within is None or not len(errors) else float(found.within[inside].mean()),
        }
        measured.append((len(group), measures))
    return measured


def _is_cold(indices: Ints, counts: Longs) -> Bools:
    cold: Bools = (indices < 0) | (np.append(counts, 0)[indices] == 0)
    return cold


def _rmse(errors: Doubles) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _mae(errors: Doubles) -> float:
    return float(np.abs(errors).mean())
