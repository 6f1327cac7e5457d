"""Predict, recommend, similar, follow new ratings, save, load: a model as people use it, in their own ids.

`CFN` and its rivals are recommenders: each says how it fits, and leaves behind a `FilledMatrix` to be asked.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cofill.config import Orientation, Settings
from cofill.data.attributes import Attributes
from cofill.data.pairs import read_pairs
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, NotFittedError, SettingsError, UnknownIdError
from cofill.models.answers import Explanation, Recommendation, Similar, best_of, check_count
from cofill.models.cfn.training import EpochRecord
from cofill.models.explanation import Shares, Somebody, explanations, replaced_shares
from cofill.models.matrix import FilledMatrix
from cofill.models.parts import Parts

if TYPE_CHECKING:
    from cofill.data.features import Features

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Among = Iterable[Id] | Flags
"""Items to choose from: their ids, or a flag for each item of the model."""

# Users that are scored together when everybody is recommended to: memory is this many times the items.
_CHUNK = 256


class Recommender(ABC):
    """What every algorithm can do once it is fitted.

    A model is asked by one thread at a time: new ratings are worked in when the next question needs them.
    """

    kind: ClassVar[str]
    """Its name in model files, tables and on the command line."""
    settings_class: ClassVar[type[Settings]]
    takes_features: ClassVar[bool] = False
    """Whether it learns from side information."""
    keeps_checkpoints: ClassVar[bool] = False
    """Whether a fit that was stopped can go on."""

    def __init__(self, settings: Settings | None = None, **changes: Any) -> None:
        name, wanted = type(self).__name__, self.settings_class
        if settings is not None and type(settings) is not wanted:
            raise SettingsError(f"settings are given by name, such as {name}(seed=1). Got {settings!r}")
        self._settings = settings.changed(changes) if settings else wanted.of(changes)
        self.history: list[EpochRecord] = []
        self.measures: dict[str, float | int | None] = {}
        self.data_summary: dict[str, Any] = {}
        self.users = Vocabulary()
        self.items = Vocabulary()
        self.titles: dict[Id, str] = {}
        self.item_features: Features | None = None
        self.user_features: Features | None = None
        self.item_attributes = Attributes(self.items)
        self._filled: FilledMatrix | None = None

    def __repr__(self) -> str:
        state = f"{len(self.users)} users, {len(self.items)} items" if self._filled else "not fitted"
        return f"{type(self).__name__}({state})"

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def orientation(self) -> Orientation:
        """What a row of the filled matrix is."""
        return "user"

    @abstractmethod
    def fit(self, ratings: object, *, item_features: object = None, user_features: object = None) -> Self:
        """Learn from ratings, or from anything that `Ratings.read` takes."""

    # Asking

    @property
    def filled(self) -> FilledMatrix:
        """The filled matrix, in rows and columns."""
        if self._filled is None:
            name = type(self).__name__
            raise NotFittedError(f"this model is not fitted yet; call fit(ratings) first, or {name}.load(folder)")
        return self._filled

    @property
    def scale(self) -> Scale:
        """The least and the greatest rating."""
        return self.filled.scale

    def predict(self, pairs: object) -> Floats:
        """Ratings (n,) for pairs of user and item; ids that were never seen are welcome.

        `pairs` is an iterable of (user, item) tuples, two arrays or lists of ids, a frame, a file, or Ratings.
        """
        users, items = read_pairs(pairs)
        return self.predict_indices(self.users.find(users), self.items.find(items))

    def predict_indices(self, users: Ints, items: Ints) -> Floats:
        """As `predict`, for indices of this model's vocabularies; -1 is an unknown id."""
        rows, columns = (users, items) if self.orientation == "user" else (items, users)
        predicted = self.filled.entries(rows, columns)
        return np.clip(predicted, np.float32(self.scale.low), np.float32(self.scale.high))

    def recommend(
        self,
        user: Id | Mapping[Any, float],
        n: int = 10,
        *,
        features: Mapping[str, object] | None = None,
        exclude_known: bool = True,
        among: Among | None = None,
    ) -> list[Recommendation]:
        """The n items that a user would rate highest, best first.

        `user` is an id, or the ratings {item: rating} of somebody whom the model has never seen, described by
        `features` {column: value} or not; {} with features is somebody who has rated nothing. An id that is not known
        gets what the means recommend. `among` are the items to choose from: their ids, of which unknown ones do not
        count, or a bool array with one flag for each item of the model, in the order of its vocabulary.
        """
        check_count(n)
        items, scores = self._known_and_scores(user, features)
        return self._best(scores, items if exclude_known else items[:0], self._chosen(among), n)

    def score(self, user: Id | Mapping[Any, float], *, features: Mapping[str, object] | None = None) -> Floats:
        """(items,): what a user would rate every item, by index, clipped to the scale; asked as `recommend` is.

        Where several items reach the end of the scale, `recommend` ranks them by how far they would go beyond it.
        """
        scores = self._known_and_scores(user, features)[1]
        return np.clip(scores[: len(self.items)], np.float32(self.scale.low), np.float32(self.scale.high))

    def recommend_all(
        self,
        users: Iterable[Id] | None = None,
        n: int = 10,
        *,
        exclude_known: bool = True,
        among: Among | None = None,
    ) -> Iterator[tuple[Id, list[Recommendation]]]:
        """Recommendations for many users (all, if None), one after the other, in chunks of bounded memory."""
        check_count(n)
        self.filled  # noqa: B018  # a model that is not fitted says so now, not at the first answer
        indices = np.arange(len(self.users), dtype=np.int32) if users is None else self._known_users(users)
        return self._recommend_in_chunks(indices, n, exclude_known, self._chosen(among))

    def _recommend_in_chunks(
        self, indices: Ints, n: int, exclude_known: bool, chosen: Flags | None
    ) -> Iterator[tuple[Id, list[Recommendation]]]:
        for first in range(0, len(indices), _CHUNK):
            chunk = indices[first : first + _CHUNK].astype(np.int64)
            for user, scores in zip(chunk.tolist(), self.user_scores(chunk), strict=True):
                known = self.known_items(user) if exclude_known else np.empty(0, np.int32)
                yield self.users.id(user), self._best(scores, known, chosen, n)

    def user_scores(self, users: Longs) -> Floats:
        """(n, items): what some users, given by index, would rate every item, not clipped to the scale."""
        return self.filled.many_rows(users) if self.orientation == "user" else self.filled.many_columns(users)

    def stranger_scores(self) -> Floats:
        """(items,): what somebody of whom nothing is known would rate every item, not clipped to the scale."""
        return self._scores_of_somebody(np.empty(0, np.int32), np.empty(0, np.float32))

    def known_items(self, user: int) -> Ints:
        """Indices of what a user, given by index, has rated."""
        known = self.filled.known
        return known.row(user)[0] if self.orientation == "user" else known.column(user)[0]

    def explain(
        self, user: Id | Mapping[Any, float], item: Id, *, features: Mapping[str, object] | None = None
    ) -> Explanation:
        """Which of the user's ratings and features push an item up or down: base + amounts + remainder = rating.

        The user is given as to `recommend`.
        """
        return self.explain_many(user, [item], features=features)[0]

    def explain_many(
        self, user: Id | Mapping[Any, float], items: Iterable[Id], *, features: Mapping[str, object] | None = None
    ) -> list[Explanation]:
        """The same for several items, which costs little more than for one."""
        scores = self._known_and_scores(user, features)[1]
        wanted = list(items)
        asked = self.items.find(wanted)
        if (asked < 0).any():
            raise UnknownIdError(f"item {wanted[int(np.argmin(asked))]!r} is not in the model; check the id")
        somebody = self._somebody(user, features)
        return explanations(
            somebody,
            asked,
            self._shares(somebody, asked),
            predicted=scores[asked],
            base=self.stranger_scores()[asked],
            items=self.items,
            titles=self.titles,
            scale=self.scale,
        )

    def similar(self, item: Id, n: int = 10) -> list[Similar]:
        """The n items most like this one, by the vectors that the model knows them by.

        An item without a rating can be asked about, and be an answer, if it has features.
        """
        check_count(n)
        index = self.items.index(item)
        known = self.filled.column_known() if self.orientation == "user" else self.filled.row_known()
        if not known[index]:
            raise UnknownIdError(f"too little is known of item {item!r} yet: nothing can be said to be like it")
        vectors = self.item_vectors()
        if vectors.shape[1] == 0:
            raise DataError(f"a model of {self.kind!r} knows nothing that makes one item like another; ask a CFN")
        centred = vectors - vectors[known].mean(0)
        norms = np.maximum(np.linalg.norm(centred, axis=1), np.finfo(np.float32).tiny)
        likeness = centred @ centred[index] / (norms * norms[index])
        likeness[~known] = -np.inf
        likeness[index] = -np.inf
        return [
            Similar(item_id := self.items.id(i), float(likeness[i]), self.titles.get(item_id))
            for i in best_of(likeness, n)
        ]

    def item_vectors(self) -> Floats:
        """(items, width): what the model knows an item by, such that like items have like vectors."""
        return self.filled.column_vectors() if self.orientation == "user" else self.filled.row_vectors()

    def item_counts(self) -> Longs:
        """(items,): ratings of each item."""
        return self.filled.column_counts if self.orientation == "user" else self.filled.row_counts

    def user_counts(self) -> Longs:
        """(users,): ratings of each user."""
        return self.filled.row_counts if self.orientation == "user" else self.filled.column_counts

    def known_pairs(self, ratings: Ratings) -> int:
        """How many of these pairs of user and item the model has a rating of."""
        users = self.users.find(ratings.users.ids)[ratings.user_index]
        items = self.items.find(ratings.items.ids)[ratings.item_index]
        rows, columns = (users, items) if self.orientation == "user" else (items, users)
        return int(self.filled.known.contains(rows, columns).sum())

    # Following

    def add_ratings(self, ratings: object) -> Self:
        """Ratings that came after the training, of users and items known or new: predictions follow at once.

        `ratings` is anything that `Ratings.read` takes. A rating of a pair that has one takes its place; if they are
        equal, nothing changes at all.
        """
        ratings = ratings if isinstance(ratings, Ratings) else Ratings.read(ratings)
        low, high = self.scale
        outside = (ratings.values < low) | (ratings.values > high)
        if outside.any():
            raise DataError(
                f"a rating of {ratings.values[outside][0]:g} is outside the model's scale of {low:g} to {high:g}; "
                f"correct it, or train again with a wider scale"
            )
        # Only ids that come with a rating are taken in: a part of a data set knows the ids of the whole.
        rated_users, user_place = np.unique(ratings.user_index, return_inverse=True)
        rated_items, item_place = np.unique(ratings.item_index, return_inverse=True)
        new_users, new_items = ratings.users.array()[rated_users], ratings.items.array()[rated_items]
        if ratings.items.integers != self.items.integers:
            self.items.copy().add(new_items)  # if they are refused, then before the users are taken in
        users = self.users.add(new_users)[user_place]
        items = self.items.add(new_items)[item_place]
        rows, columns = (users, items) if self.orientation == "user" else (items, users)
        for item, title in ratings.titles.items():
            if item in self.items:
                self.titles[self.items.id(self.items.index(item))] = title
        self.filled.add(rows, columns, ratings.values)
        return self

    def remove_ratings(self, pairs: object) -> Self:
        """What was rated by mistake is unknown from now on, trained on or not: predictions follow at once.

        `pairs` of user and item are anything that `predict` takes. Where there is no rating, nothing happens. A rating
        that came after the training leaves no trace; of users and items the ids stay known.
        """
        filled = self.filled
        users, items = read_pairs(pairs)
        user_index, item_index = self.users.find(users), self.items.find(items)
        seen = (user_index >= 0) & (item_index >= 0)
        user_index, item_index = user_index[seen], item_index[seen]
        filled.remove(*((user_index, item_index) if self.orientation == "user" else (item_index, user_index)))
        return self

    def describe_items(self, source: object) -> Self:
        """Items known or new, described by the columns that the model was trained with; predictions follow at once.

        `source` is {item: {column: value}}, or a table that has these columns: a file or a frame.
        """
        return self._describe("item", source)

    def describe_users(self, source: object) -> Self:
        """Users known or new, described by the columns that the model was trained with; predictions follow at once.

        `source` is {user: {column: value}}, or a table that has these columns: a file or a frame.
        """
        return self._describe("user", source)

    def _describe(self, side: Orientation, source: object) -> Self:
        raise DataError(f"a model of {self.kind!r} cannot be told about {side}s by features; train a CFN for that")

    # Keeping

    @abstractmethod
    def taken_apart(self) -> Parts:
        """What a model file keeps of a fitted model."""

    @abstractmethod
    def put_together(self, parts: Parts) -> None:
        """Take the place of a fit; settings and ids are there already. ValueError where the parts do not fit."""

    def save(self, folder: Path | str) -> None:
        """Write the model into a folder, whole or not at all; an older model there is replaced."""
        from cofill.models.file import save_model

        save_model(self, Path(folder))

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """A model from its folder, checked."""
        from cofill.models.file import load_model

        return load_model(Path(folder), cls)

    # How

    def _known_and_scores(
        self, user: Id | Mapping[Any, float], features: Mapping[str, object] | None
    ) -> tuple[Ints, Floats]:
        """Indices of what somebody has rated, and the scores of all items."""
        if not isinstance(user, Mapping):
            if features is not None:
                raise DataError(
                    f"features describe somebody new, and {user!r} is an id; give ratings with them, or {{}}, "
                    f"or tell the model about the user with describe_users first"
                )
            return self._scores_of(user)
        items, ratings = self._ratings_of_somebody(user)
        if features is None:
            return items, self._scores_of_somebody(items, ratings)
        return items, self._scores_of_described(items, ratings, features)

    def _chosen(self, among: Among | None) -> Flags | None:
        """(items,): which items may be recommended; None if any may."""
        if among is None:
            return None
        if isinstance(among, np.ndarray) and among.dtype == np.bool_:
            if among.shape != (len(self.items),):
                raise DataError(
                    f"among has flags of shape {list(among.shape)}, and the model {len(self.items)} items; "
                    f"give one flag for each item, or the ids of items"
                )
            return among
        if isinstance(among, str):
            raise DataError(f"among is the text {among!r}; give a list of the ids of items")
        chosen = np.zeros(len(self.items), np.bool_)
        indices = self.items.find(list(among))
        chosen[indices[indices >= 0]] = True
        return chosen

    def _scores_of(self, user: Id) -> tuple[Ints, Floats]:
        """Indices of what a user has rated, and the scores of all items."""
        index = int(self.users.find([user])[0])
        if index < 0:
            return np.empty(0, np.int32), self.stranger_scores()
        scores = self.filled.row(index) if self.orientation == "user" else self.filled.column(index)
        return self.known_items(index), scores

    def _scores_of_somebody(self, items: Ints, ratings: Floats) -> Floats:
        ask = self.filled.new_row if self.orientation == "user" else self.filled.new_column
        return ask(items, ratings)

    def _somebody(self, user: Id | Mapping[Any, float], features: Mapping[str, object] | None) -> Somebody:
        if isinstance(user, Mapping):
            return Somebody(None, *self._ratings_of_somebody(user), features)
        index = int(self.users.find([user])[0])
        if index < 0:
            return Somebody(None, np.empty(0, np.int32), np.empty(0, np.float32), None)
        known = self.filled.known
        return Somebody(index, *(known.row(index) if self.orientation == "user" else known.column(index)), None)

    def _shares(self, somebody: Somebody, asked: Ints) -> Shares:
        """How far ratings and features move the predictions of the items asked about."""
        return replaced_shares(self._scores_of_somebody, somebody, asked, self.stranger_scores())

    def _scores_of_described(self, items: Ints, ratings: Floats, features: Mapping[str, object]) -> Floats:
        raise DataError(f"a model of {self.kind!r} cannot make use of features of somebody new; leave them out")

    def _known_users(self, users: Iterable[Id]) -> Ints:
        wanted = list(users)
        indices = self.users.find(wanted)
        if (indices < 0).any():
            unknown = wanted[int(np.argmin(indices))]
            raise UnknownIdError(f"user {unknown!r} is not in the model; check the id, or give the user's ratings")
        return indices

    def _ratings_of_somebody(self, ratings: Mapping[Any, float]) -> tuple[Ints, Floats]:
        """Indices and ratings, ascending; an item that nobody has ever rated cannot tell anything."""
        low, high = self.scale
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

    def _best(self, scores: Floats, excluded: Ints, chosen: Flags | None, n: int) -> list[Recommendation]:
        scores = scores[: len(self.items)].copy()
        scores[excluded] = -np.inf
        if chosen is not None:
            scores[~chosen] = -np.inf
        best = best_of(scores, n)
        ratings = np.clip(scores[best], *self.scale).tolist()
        return [
            Recommendation(item := self.items.id(i), rating, self.titles.get(item))
            for i, rating in zip(best, ratings, strict=True)
        ]
