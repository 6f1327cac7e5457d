"""What somebody, known or new, would rate and choose: predictions, their intervals, and the scores of lists."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args, overload

import numpy as np

from cofill.data.features import Features
from cofill.data.frames import in_pandas
from cofill.data.pairs import read_pairs
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id
from cofill.errors import DataError, UnknownIdError
from cofill.models.explanation import Given
from cofill.models.keeping import SavedModel
from cofill.models.lists.rules import By
from cofill.models.lists.scorer import About
from cofill.models.predictor import Floats, Ints, Longs

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Side = Literal["user", "item"]

# What is known of a rating is taken to be its prediction less so many standard errors of the item's mean, which has as
# many ratings as the item, and a few that everything is thought to have.
_STANDARD_ERRORS = 1.64
_RATINGS_BEFORE = 7.0


class Person(NamedTuple):
    """Somebody, known or new, in indices."""

    number: int  # the index of a user; -1 for somebody new
    items: Ints  # (n,) ascending
    ratings: Floats  # (n,)
    features: Floats | None = None  # (P,): of somebody new


def nobody() -> Person:
    """Somebody of whom nothing is known."""
    return Person(-1, np.empty(0, np.int32), np.empty(0, np.float32))


class Predicted(NamedTuple):
    """Predicted ratings with intervals that nine tenths of the true ones are expected in, all (n,)."""

    ratings: Floats
    low: Floats
    high: Floats

    def to_polars(self) -> "pl.DataFrame":
        """The columns rating, low and high, in the order of the pairs."""
        import polars as pl

        return pl.DataFrame({"rating": self.ratings, "low": self.low, "high": self.high})

    def to_pandas(self) -> "pd.DataFrame":
        """The same as a pandas DataFrame; needs `pip install 'cofill[pandas]'`."""
        return in_pandas(self.to_polars())


class PredictingModel(SavedModel):
    """The half of a recommender that predicts and scores."""

    follows_features: ClassVar[bool] = False
    """Whether users and items can be described by features after the training, too."""

    _spread: float | None  # standard deviation of the ratings of the training, once asked for

    @property
    def scale(self) -> Scale:
        """The least and the greatest rating."""
        return self.predictor.scale

    @property
    def rated(self) -> bool:
        """Whether it was trained on ratings; otherwise on interactions, and then there are lists and no ratings."""
        return bool(self.data_summary.get("rated", True))

    @overload
    def predict(self, pairs: object, *, with_interval: Literal[False] = False) -> Floats: ...

    @overload
    def predict(self, pairs: object, *, with_interval: Literal[True]) -> Predicted: ...

    def predict(self, pairs: object, *, with_interval: bool = False) -> Floats | Predicted:
        """Ratings (n,) for pairs of user and item; unknown ids are allowed.

        `pairs` is an iterable of (user, item) tuples, two arrays or lists of ids, a frame, a file, or Ratings. With
        `with_interval` also between which ratings nine tenths of the true ones are expected (prediction interval).
        """
        indices = self._pairs(pairs)
        return self.predict_intervals(*indices) if with_interval else self.predict_indices(*indices)

    def _pairs(self, pairs: object) -> tuple[Ints, Ints]:
        """Indices (n,) of users and of items; -1 is an unknown id."""
        try:
            users, items = read_pairs(pairs)
        except DataError as error:
            if not {"user", "item"} & error.remedy.arguments.keys():
                raise
            raise DataError(error.found, "name the columns user and item", where=error.where) from None
        return self.users.find(users), self.items.find(items)

    def predict_intervals(self, users: Ints, items: Ints) -> Predicted:
        """As `predict` with intervals, for indices of this model's vocabularies; -1 is an unknown id."""
        ratings = self.predict_indices(users, items)
        found = self._around(ratings, self.predictor.interval_radius(users, items, ratings))
        if found is None:
            raise DataError(
                f"a model of {self.kind!r} does not know how far off its predictions are",
                "train a CFN with the decoder process, which is the default",
            )
        return found

    def _around(self, ratings: Floats, half_widths: Floats | None) -> Predicted | None:
        """Intervals of predictions within the scale; None where nothing is known of them."""
        if half_widths is None:
            return None
        low, high = (np.float32(end) for end in self.scale)
        return Predicted(ratings, np.clip(ratings - half_widths, low, high), np.clip(ratings + half_widths, low, high))

    @property
    def has_intervals(self) -> bool:
        """Whether the model knows how far off its predictions may be."""
        nobody = np.array([-1], np.int32)
        return self.rated and self.predictor.interval_radius(nobody, nobody, np.zeros(1, np.float32)) is not None

    def quickest_order(self, users: Ints, items: Ints) -> Longs:
        """(n,): the order of pairs, given by index, in which they are predicted most quickly, if in parts."""
        return self.predictor.quickest_order(users, items)

    def predict_indices(self, users: Ints, items: Ints) -> Floats:
        """As `predict`, for indices of this model's vocabularies; -1 is an unknown id."""
        if not self.rated:
            raise DataError("this model was trained on interactions, so it knows no ratings to predict; ask for lists")
        predicted = self.predictor.entries(users, items)
        return np.clip(predicted, np.float32(self.scale.low), np.float32(self.scale.high))

    def score(
        self, user: Id | Mapping[Any, float], *, by: By = "list", features: Mapping[str, object] | None = None
    ) -> Floats:
        """(items,): how somebody would choose every item, or what they would rate it, by index; asked as `recommend`.

        Ratings are predictions clipped to the scale, not their lower bounds.
        """
        self._check_by(by)
        person = self._person(user, features)
        if by == "list":
            return self._person_scores(person, by)
        return np.clip(self._person_ratings(person), np.float32(self.scale.low), np.float32(self.scale.high))

    def user_scores(self, users: Longs, *, by: By = "list") -> Floats:
        """(n, items): what lists of some users, given by index, are ranked by, without rules.

        Items that nobody has rated come last, as in `recommend`: their scores are lowered below all others.
        """
        return self._unrated_last(self._scores_of_users(users, by))

    def _unrated_last(self, scores: Floats) -> Floats:
        unrated = self._people_of_items()[: scores.shape[1]] == 0
        if unrated.all() or not unrated.any():
            return scores
        above = scores[:, unrated].max(1) - scores[:, ~unrated].min(1)
        scores[:, unrated] -= (np.maximum(above, 0) + 1)[:, None]
        return scores

    def _scores_of_users(self, users: Longs, by: By) -> Floats:
        """(n, items): scores of some users, given by index."""
        if by == "list":
            of_users = self.predictor.user_features
            about = About(of_users.values[users], of_users.described[users]) if of_users.width else None
            return self.scorer.of_people(self.scorer.feedback.rows(users), about)[:, : len(self.items)]
        return self._lower_bound(self.predictor.users(users))[:, : len(self.items)]

    def new_user_scores(self, items: Ints, ratings: Floats, *, by: By = "list") -> Floats:
        """(items,): what the list of somebody new is ranked by, who gave these ratings to items, given by index."""
        order = np.argsort(items)
        scores: Floats = self._unrated_last(self._person_scores(Person(-1, items[order], ratings[order]), by)[None])[0]
        return scores

    def stranger_scores(self, *, by: By = "list") -> Floats:
        """(items,): what the list of somebody is ranked by of whom nothing is known."""
        scores: Floats = self._unrated_last(self._person_scores(nobody(), by)[None])[0]
        return scores

    def known_items(self, user: int) -> Ints:
        """Indices of what a user, given by index, has rated or done something with."""
        return self.scorer.feedback.items_of(user)

    def item_counts(self) -> Longs:
        """(items,): ratings of each item."""
        return self.predictor.item_counts

    def user_counts(self) -> Longs:
        """(users,): ratings of each user."""
        return self.predictor.user_counts

    def known_pairs(self, ratings: Ratings) -> int:
        """How many of these pairs of user and item have a known rating."""
        users = self.users.find(ratings.users.ids)[ratings.user_index]
        items = self.items.find(ratings.items.ids)[ratings.item_index]
        return int(self.predictor.known.contains(users, items).sum())

    def _learned(self, side: Side) -> Features:
        """What the model learned about the columns that describe its users or its items."""
        if not self.follows_features:
            raise DataError(f"a model of {self.kind!r} cannot be told about {side}s by features; train a CFN for that")
        learned = self.user_features if side == "user" else self.item_features
        if learned is None:
            raise DataError(
                f"the model was trained without features of {side}s, so it cannot make use of any; "
                f"train it with {side}_features=..."
            )
        return learned

    def _check_by(self, by: str) -> None:
        if by not in get_args(By):
            raise DataError(f"lists are by 'list' or by 'rating'. Got {by!r}")
        if by == "rating" and not self.rated:
            raise DataError(
                "this model was trained on interactions, so it knows no ratings to rank by; use by='list', the default"
            )

    def _person(self, user: Id | Mapping[Any, float], features: Mapping[str, object] | None) -> Person:
        if isinstance(user, Mapping):
            items, ratings = self._ratings_of_somebody(user)
            return Person(-1, items, ratings, self._encoded(features))
        if features is not None:
            raise DataError(
                f"features describe somebody new, and {user!r} is an id; give ratings with them, or {{}}, "
                f"or tell the model about the user with describe_users first"
            )
        index = int(self.users.find([user])[0])
        if index < 0:
            return nobody()
        return Person(index, *self.predictor.known.row(index))

    def _did(self, person: Person) -> tuple[Ints, Floats]:
        """What somebody did, as items and grades."""
        feedback = self.scorer.feedback
        return feedback.row(person.number) if person.number >= 0 else (
            person.items, feedback.main.grades.of(person.ratings)
        )  # fmt: skip

    def _known_to(self, person: Person) -> Ints:
        return self.known_items(person.number) if person.number >= 0 else person.items

    def _person_scores(self, person: Person, by: By) -> Floats:
        """(items,): what somebody's list is ranked by."""
        if by == "list":
            features = self._features_of(person)
            about = None if features is None else About(features[None], np.ones(1, np.bool_))
            return self.scorer.one(*self._did(person), about)[: len(self.items)]
        return self._lower_bound(self._person_ratings(person)[None])[0, : len(self.items)]

    def _person_ratings(self, person: Person) -> Floats:
        """(items,): predicted ratings, not clipped to the scale."""
        if person.number >= 0:
            return self.predictor.user(person.number)[: len(self.items)]
        return self.predictor.new_user(person.items, person.ratings, person.features)[: len(self.items)]

    def _person_intervals(self, person: Person, items: Ints, predicted: Floats) -> Predicted | None:
        """Around what somebody would rate items, (n,); None where the model has no intervals."""
        if person.number >= 0:
            users = np.full(len(items), person.number, np.int32)
            return self._around(predicted, self.predictor.interval_radius(users, items, predicted))
        given = person.items, person.ratings, person.features
        return self._around(predicted, self.predictor.new_user_interval_radius(*given, items, predicted))

    def stranger_ratings(self) -> Floats:
        """(items,): what somebody of whom nothing is known would rate every item, not clipped to the scale."""
        return self._person_ratings(nobody())

    def _lower_bound(self, predicted: Floats) -> Floats:
        """(n, items): ratings less what is uncertain of them, from how many ratings an item has."""
        if self._spread is None:
            self._spread = self.predictor.known.spread()
        error = self._spread / np.sqrt(self.predictor.item_counts + _RATINGS_BEFORE)
        lower: Floats = predicted - (_STANDARD_ERRORS * error).astype(np.float32)
        return lower

    def _ratings_at(self, person: Person, items: Ints) -> Floats | None:
        """(n,): what somebody would rate items; None where the model knows no ratings."""
        if not self.rated:
            return None
        if person.number >= 0:
            return self._ratings_of(np.full(len(items), person.number, np.int64), items)
        return np.clip(
            self.predictor.new_user_at(person.items, person.ratings, person.features, items),
            np.float32(self.scale.low),
            np.float32(self.scale.high),
        )

    def _ratings_of(self, users: Longs, items: Ints) -> Floats | None:
        return self.predict_indices(users.astype(np.int32), items) if self.rated else None

    def _encoded(self, features: Mapping[str, object] | None) -> Floats | None:
        """(P,): features of somebody new."""
        if features is None:
            return None
        if not self.follows_features:
            raise DataError(f"a model of {self.kind!r} cannot make use of features of somebody new; leave them out")
        return self._learned("user").encode(features)

    def _given(self, person: Person) -> tuple[Given, list[str]]:
        """What is known of somebody, and the names of the columns of their features."""
        vector = self._features_of(person)
        if vector is None:
            return Given(person.items, person.ratings, number=person.number), []
        columns = [column for source in self._learned("user").sources for column in source.widths()]
        widths = tuple(width for _, width in columns)
        return Given(person.items, person.ratings, vector, widths, person.number), [name for name, _ in columns]

    def _features_of(self, person: Person) -> Floats | None:
        """(P,): what is known of somebody beside what they did."""
        about = self.predictor.user_features
        if person.number < 0 or self.user_features is None or not about.described[person.number]:
            return person.features
        vector: Floats = about.values[person.number]
        return vector

    def _ratings_of_somebody(self, ratings: Mapping[Any, float]) -> tuple[Ints, Floats]:
        """Indices and ratings, ascending; an item that nobody has ever rated cannot tell anything."""
        low, high = self.scale
        if not self.rated:
            ratings = {item: min(weight, high) for item, weight in ratings.items()}
        for item, rating in ratings.items():
            if not isinstance(rating, int | float | np.number) or not low <= rating <= high:
                raise DataError(f"the rating of item {item!r} must be between {low:g} and {high:g}. Got {rating!r}")
        indices = self.items.find(list(ratings))
        if (indices < 0).any():
            unknown = list(ratings)[int(np.argmin(indices))]
            raise UnknownIdError(f"item {unknown!r} is not in the model; check the id, or leave it out")
        order = np.argsort(indices)
        if len(np.unique(indices)) < len(indices):
            raise DataError(f"an item is rated twice among {list(ratings)}; keep one rating of each")
        return indices[order], np.array(list(ratings.values()), np.float32)[order]

    def _people_of_items(self) -> Longs:
        """(items,): how many people rated each item, or did something with it, whichever are more."""
        counts, beside = self.predictor.item_counts, self.scorer.feedback.beside
        if beside is None:
            return counts
        people = np.zeros(len(counts), np.int64)
        others = beside.counts()
        people[: len(others)] = others
        return np.maximum(counts, people)
