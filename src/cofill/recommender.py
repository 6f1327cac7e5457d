"""fit, predict, recommend, similar, fold in, save, load: the model as people use it, in their own ids."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from cofill.answers import Recommendation, Similar, best_of, check_count
from cofill.cfn.completion import Completion
from cofill.cfn.fitting import Fitted, fit_matrix
from cofill.cfn.training import EpochRecord, Report
from cofill.config import CFNSettings, Orientation
from cofill.data.features.known import SideFeatures
from cofill.data.features.matching import matched, side_of, warn_of_width
from cofill.data.known import KnownRatings
from cofill.data.pairs import read_pairs
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, NotFittedError, SettingsError, UnknownIdError

if TYPE_CHECKING:
    from cofill.data.features import Features

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

# Users that are scored together when everybody is recommended to: memory is this many times the items.
_CHUNK = 256


class CFN:
    """An autoencoder that reads the known ratings of a row and fills in the unknown ones.

    >>> model = CFN(orientation="item", epochs=30).fit(Ratings.read("ratings.csv"))
    >>> model.recommend(42, n=10)
    >>> model.recommend({"Alien": 5, "Notting Hill": 1})

    `orientation="item"`: a row is an item (V-CFN); `"user"`: a row is a user (U-CFN). Every field of
    `CFNSettings` can be given by name. Whatever the orientation, users and items that were never seen are folded
    in from their ratings, from what their side features tell, or from both; ids of which nothing is known get the
    fitted means.

    A model is asked by one thread at a time: new ratings are worked in when the next question needs them.
    """

    def __init__(self, settings: CFNSettings | None = None, **changes: Any) -> None:
        if settings is not None and not isinstance(settings, CFNSettings):
            raise SettingsError(f"settings are given by name, such as CFN(orientation='user'). Got {settings!r}")
        self.settings = settings.changed(changes) if settings else CFNSettings.of(changes)
        self.history: list[EpochRecord] = []
        self.measures: dict[str, float | int | None] = {}
        self.data_summary: dict[str, Any] = {}
        self.users = Vocabulary()
        self.items = Vocabulary()
        self.titles: dict[Id, str] = {}
        self.item_features: Features | None = None
        self.user_features: Features | None = None
        self._completion: Completion | None = None

    def __repr__(self) -> str:
        state = f"{len(self.users)} users, {len(self.items)} items" if self._completion else "not fitted"
        return f"CFN(orientation={self.settings.orientation!r}; {state})"

    # Fitting

    def fit(
        self,
        ratings: object,
        *,
        item_features: object = None,
        user_features: object = None,
        checkpoint: Path | str | None = None,
        resume: bool = False,
        report: Report | None = None,
        solved: Callable[[float], None] | None = None,
    ) -> Self:
        """Train on ratings, or on anything that `Ratings.read` takes, and on side features where there are any.

        `item_features` and `user_features` are Features, or anything that `Features.read` takes without being told
        more. Ids with features and without a rating become known to the model: they are the cold ones.

        `checkpoint` names a file that lets a killed run go on with `resume=True`; remove it once the model is saved.
        `report` is called after every epoch with its record and the most epochs that the phase may take, `solved` with
        the share done while the columns are solved for at the end.
        """
        ratings = _as_ratings(ratings)
        if len(ratings) == 0:
            raise DataError("there are no ratings to train on; give at least one")
        if resume and checkpoint is None:
            raise SettingsError("resume needs the checkpoint of the run to go on with; give checkpoint=... too")
        about_users, about_items = _as_features(user_features, "user"), _as_features(item_features, "item")
        summary = ratings.summary() | {
            "user_features": matched(about_users, "user", ratings.users, ratings.user_index),
            "item_features": matched(about_items, "item", ratings.items, ratings.item_index),
        }
        ratings = ratings.including(
            users=about_users.ids if about_users else (), items=about_items.ids if about_items else ()
        )
        of_users, of_items = side_of(about_users, ratings.users), side_of(about_items, ratings.items)
        row_features, column_features = (of_users, of_items) if self.orientation == "user" else (of_items, of_users)
        rows = ratings.rows(self.settings.orientation)
        warn_of_width(row_features.width, self.settings.hidden, rows.columns)
        fitted = fit_matrix(
            rows,
            ratings.scale,
            self.settings,
            features=row_features.values,
            checkpoint_path=Path(checkpoint) if checkpoint else None,
            resume=resume,
            report=report,
        )
        across: Orientation = "item" if self.orientation == "user" else "user"
        self._take(fitted, ratings, KnownRatings(rows, ratings.rows(across)), row_features, column_features)
        self.data_summary, self.user_features, self.item_features = summary, about_users, about_items
        if self.settings.solve_columns:
            self.completion.column_weights.solve_trained(solved)
        return self

    def _take(
        self,
        fitted: Fitted,
        ratings: Ratings,
        known: KnownRatings,
        row_features: SideFeatures,
        column_features: SideFeatures,
    ) -> None:
        self.history = fitted.history
        self.measures = {"epochs": fitted.epochs, "validation_rmse": fitted.validation_rmse}
        self.users, self.items = ratings.users.copy(), ratings.items.copy()
        self.titles = dict(ratings.titles)
        self._completion = Completion(
            fitted.network,
            fitted.scaling,
            known,
            self.settings,
            row_features=row_features,
            column_features=column_features,
        )

    def restore(self, completion: Completion) -> None:
        """Take the place of a fit: what a model file holds."""
        self._completion = completion

    # Asking

    @property
    def completion(self) -> Completion:
        """The filled matrix, in rows and columns."""
        if self._completion is None:
            raise NotFittedError("this model is not fitted yet; call fit(ratings) first, or CFN.load(folder)")
        return self._completion

    @property
    def orientation(self) -> Orientation:
        return self.settings.orientation

    @property
    def scale(self) -> Scale:
        """The least and the greatest rating."""
        return self.completion.scaling.scale

    def predict(self, pairs: object) -> Floats:
        """Ratings (n,) for pairs of user and item; ids that were never seen are welcome.

        `pairs` is an iterable of (user, item) tuples, two arrays or lists of ids, a frame, a file, or Ratings.
        """
        users, items = read_pairs(pairs)
        return self.predict_indices(self.users.find(users), self.items.find(items))

    def predict_indices(self, users: Ints, items: Ints) -> Floats:
        """As `predict`, for indices of this model's vocabularies; -1 is an unknown id."""
        rows, columns = (users, items) if self.orientation == "user" else (items, users)
        return self._clip(self.completion.entries(rows, columns))

    def recommend(
        self,
        user: Id | Mapping[Any, float],
        n: int = 10,
        *,
        features: Mapping[str, object] | None = None,
        exclude_known: bool = True,
    ) -> list[Recommendation]:
        """The n items that a user would rate highest, best first.

        `user` is an id, or the ratings {item: rating} of somebody whom the model has never seen, described by
        `features` {column: value} or not; {} with features is somebody who has rated nothing. An id that is not known
        gets what the means recommend.
        """
        check_count(n)
        if isinstance(user, Mapping):
            items, ratings = self._ratings_of_somebody(user)
            scores = self._scores_of_somebody(items, ratings, features)
        elif features is not None:
            raise DataError(
                f"features describe somebody new, and {user!r} is an id; give ratings with them, or {{}}, "
                f"or tell the model about the user with describe_users first"
            )
        else:
            index = int(self.users.find([user])[0])
            if index < 0:
                items = np.empty(0, np.int32)
                scores = self._scores_of_somebody(*_no_ratings(), None)
            else:
                items, scores = self._known_items(index), self._scores(index)
        return self._best(scores, items if exclude_known else items[:0], n)

    def recommend_all(
        self, users: Iterable[Id] | None = None, n: int = 10, *, exclude_known: bool = True
    ) -> Iterator[tuple[Id, list[Recommendation]]]:
        """Recommendations for many users (all, if None), one after the other, in chunks of bounded memory."""
        check_count(n)
        indices = np.arange(len(self.users), dtype=np.int32) if users is None else self._known_users(users)
        return self._recommend_in_chunks(indices, n, exclude_known)

    def _recommend_in_chunks(
        self, indices: Ints, n: int, exclude_known: bool
    ) -> Iterator[tuple[Id, list[Recommendation]]]:
        many = self.completion.many_rows if self.orientation == "user" else self.completion.many_columns
        for first in range(0, len(indices), _CHUNK):
            chunk = indices[first : first + _CHUNK].astype(np.int64)
            for user, scores in zip(chunk.tolist(), many(chunk), strict=True):
                known = self._known_items(user) if exclude_known else np.empty(0, np.int32)
                yield self.users.id(user), self._best(scores, known, n)

    def similar(self, item: Id, n: int = 10) -> list[Similar]:
        """The n items most like this one: by their codes, or by what the network weighs them with.

        An item without a rating can be asked about, and be an answer, if it has features.
        """
        check_count(n)
        index = self.items.index(item)
        completion = self.completion
        by_row = self.orientation == "item"
        side = completion.row_features if by_row else completion.column_features
        rated = (self.item_counts() > 0) | side.described
        if not rated[index]:
            raise UnknownIdError(f"item {item!r} has no ratings yet, so nothing can be said to be like it")
        vectors = completion.row_vectors() if by_row else completion.column_vectors()
        centred = vectors - vectors[rated].mean(0)
        norms = np.maximum(np.linalg.norm(centred, axis=1), np.finfo(np.float32).tiny)
        likeness = centred @ centred[index] / (norms * norms[index])
        likeness[~rated] = -np.inf
        likeness[index] = -np.inf
        return [
            Similar(item_id := self.items.id(i), float(likeness[i]), self.titles.get(item_id))
            for i in best_of(likeness, n)
        ]

    def add_ratings(self, ratings: object) -> Self:
        """Ratings that came after the training, of users and items known or new: predictions follow at once.

        `ratings` is anything that `Ratings.read` takes.
        """
        ratings = _as_ratings(ratings)
        low, high = self.scale
        outside = (ratings.values < low) | (ratings.values > high)
        if outside.any():
            raise DataError(
                f"a rating of {ratings.values[outside][0]:g} is outside the model's scale of {low:g} to {high:g}; "
                f"correct it, or train again with a wider scale"
            )
        completion = self.completion
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
        completion.add(rows, columns, ratings.values)
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
        completion, learned = self.completion, self._learned(side)
        vocabulary = self.users if side == "user" else self.items
        if isinstance(source, Mapping):
            ids: Iterable[Any] = list(source)
            vectors = np.array([self._encoded(side, about) for about in source.values()], np.float32)
            vectors = vectors.reshape(len(source), learned.width)
        else:
            described = learned.encode_table(source, unmentioned=np.nan)
            ids, vectors = described.ids.array(), described.values
        known = vocabulary.find(ids)
        indices = vocabulary.add(ids)
        # A table may say nothing of tags, say: what is known of them stays, and of new ones nothing is known.
        features = completion.row_features if side == self.orientation else completion.column_features
        before = np.where((known >= 0)[:, None], features.values[known], np.float32(0)) if len(known) else vectors
        vectors = np.where(np.isnan(vectors), before, vectors)
        if side == self.orientation:
            completion.describe_rows(indices, vectors)
        else:
            completion.describe_columns(indices, vectors)
        return self

    def item_counts(self) -> npt.NDArray[np.int64]:
        """(items,): ratings of each item."""
        return self.completion.row_counts if self.orientation == "item" else self.completion.column_counts

    def user_counts(self) -> npt.NDArray[np.int64]:
        """(users,): ratings of each user."""
        return self.completion.row_counts if self.orientation == "user" else self.completion.column_counts

    def known_pairs(self, ratings: Ratings) -> int:
        """How many of these pairs of user and item the model has a rating of."""
        users = self.users.find(ratings.users.ids)[ratings.user_index]
        items = self.items.find(ratings.items.ids)[ratings.item_index]
        rows, columns = (users, items) if self.orientation == "user" else (items, users)
        return int(self.completion.known.contains(rows, columns).sum())

    # Keeping

    def save(self, folder: Path | str) -> None:
        """Write the model into a folder, whole or not at all; an older model there is replaced."""
        from cofill.model_file import save_model

        save_model(self, Path(folder))

    @classmethod
    def load(cls, folder: Path | str) -> "CFN":
        """A model from its folder, checked."""
        from cofill.model_file import load_model

        return load_model(Path(folder))

    # How

    def _scores(self, user: int) -> Floats:
        return self.completion.row(user) if self.orientation == "user" else self.completion.column(user)

    def _scores_of_somebody(self, items: Ints, ratings: Floats, features: Mapping[str, object] | None) -> Floats:
        ask = self.completion.new_row if self.orientation == "user" else self.completion.new_column
        return ask(items, ratings, self._encoded("user", features), features is not None)

    def _learned(self, side: Orientation) -> "Features":
        """What the model learned about the columns that describe its users or its items."""
        learned = self.user_features if side == "user" else self.item_features
        if learned is None:
            raise DataError(
                f"the model was trained without features of {side}s, so it cannot make use of any; "
                f"train it with {side}_features=..."
            )
        return learned

    def _encoded(self, side: Orientation, description: Mapping[str, object] | None) -> Floats:
        """A description as the model reads it; zeros where there is none."""
        if description is not None:
            return self._learned(side).encode(description)
        known = self.completion.row_features if side == self.orientation else self.completion.column_features
        return np.zeros(known.width, np.float32)

    def _known_items(self, user: int) -> Ints:
        known = self.completion.known
        return known.row(user)[0] if self.orientation == "user" else known.column(user)[0]

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

    def _best(self, scores: Floats, excluded: Ints, n: int) -> list[Recommendation]:
        scores = scores[: len(self.items)].copy()
        scores[excluded] = -np.inf
        return [
            Recommendation(item := self.items.id(i), float(np.clip(scores[i], *self.scale)), self.titles.get(item))
            for i in best_of(scores, n)
        ]

    def _clip(self, ratings: Floats) -> Floats:
        return np.clip(ratings, np.float32(self.scale.low), np.float32(self.scale.high))


def _as_ratings(source: object) -> Ratings:
    return source if isinstance(source, Ratings) else Ratings.read(source)


def _as_features(source: object, about: Orientation) -> "Features | None":
    from cofill.data.features import Features

    return source if source is None or isinstance(source, Features) else Features.read(source, about=about)


def _no_ratings() -> tuple[Ints, Floats]:
    return np.empty(0, np.int32), np.empty(0, np.float32)
