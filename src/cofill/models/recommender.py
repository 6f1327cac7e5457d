"""A model as people use it, in their own ids: fit, predict, recommend, similar, explain, follow ratings, save, load.

`CFN` and its rivals are recommenders: each says how it learns, and leaves behind a `Matrix` of users x items to be
asked. An algorithm of somebody else's is a subclass with `kind`, `settings_class`, `_learn`, `_kept` and `_restored`;
docs/rivals.md shows one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from cofill.config import Settings
from cofill.data.attributes import Attributes
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.features import Features, ReadableColumn
from cofill.data.pairs import read_pairs
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, ModelFileError, NotFittedError, SettingsError, UnknownIdError
from cofill.models import algorithm
from cofill.models.explanation import Explanation, Given, explanations
from cofill.models.file import Arrays, Contents, read_model, write_model
from cofill.models.history import EpochRecord
from cofill.models.lists import Recommendation, Similar, best_of, check_count
from cofill.models.matrix import Flags, Floats, Ints, Longs, Matrix
from cofill.progress import Progress, unseen

Side = Literal["user", "item"]

Among = Iterable[Id] | Flags
"""Items to choose from: their ids, or a flag for each item of the model."""

# Users that are scored together when everybody is recommended to: memory is this many times the items.
_CHUNK = 256


class Fitting(NamedTuple):
    """Options of a fit: the progress callback, and the checkpoint to write and to resume from."""

    progress: Progress
    checkpoint: Path | None
    resume: bool


class Kept(NamedTuple):
    """What a model file keeps of an algorithm, apart from settings, ids and features: arrays by file, and numbers."""

    weights: Arrays
    ratings: Arrays
    numbers: Mapping[str, float] = {}


class Recommender(ABC):
    """The interface of every algorithm: fit, predict, recommend, explain, update, save and load.

    A model is asked by one thread at a time: new ratings are worked in when the next question needs them.
    """

    kind: ClassVar[str]
    """Its name in model files, tables and on the command line."""
    settings_class: ClassVar[type[Settings]]
    takes_features: ClassVar[bool] = False
    """Whether it learns from side information."""
    follows_features: ClassVar[bool] = False
    """Whether users and items can be described by features after the training, too."""
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
        self._matrix: Matrix | None = None

    def __repr__(self) -> str:
        state = f"{len(self.users)} users, {len(self.items)} items" if self._matrix else "not fitted"
        return f"{type(self).__name__}({state})"

    @property
    def settings(self) -> Settings:
        return self._settings

    # Fitting

    def fit(
        self,
        ratings: object,
        *,
        item_features: object = None,
        user_features: object = None,
        progress: Progress | None = None,
        checkpoint: Path | str | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from ratings, or from anything that `Ratings.read` takes, and from side features where there are any.

        `item_features` and `user_features` are Features, or anything that `Features.read` takes without being told
        more. Ids with features and without a rating become known to the model: they are the cold ones.

        `progress` is called with a `Step` whenever there is something to tell. `checkpoint` names a file that lets a
        killed run go on with `resume=True`; remove it once the model is saved.
        """
        name = type(self).__name__
        if not self.takes_features and (item_features is not None or user_features is not None):
            raise DataError(f"{name} makes no use of side information; leave the features out")
        if not self.keeps_checkpoints and (checkpoint is not None or resume):
            raise SettingsError(f"{name} is trained in one go; leave out checkpoint and resume")
        if resume and checkpoint is None:
            raise SettingsError("resume needs the checkpoint of the run to go on with; give checkpoint=... too")
        data = DescribedRatings.of(ratings, user_features=user_features, item_features=item_features)
        fitting = Fitting(progress or unseen, Path(checkpoint) if checkpoint else None, resume)
        matrix = self._learn(data, fitting)
        self.users, self.items = data.ratings.users.copy(), data.ratings.items.copy()
        self.titles, self.data_summary = dict(data.ratings.titles), data.summary
        if self.follows_features:
            self.user_features, self.item_features = data.about_users, data.about_items
        self.item_attributes = Attributes.of_features(self.items, data.about_items)
        self._matrix = matrix
        return self

    @abstractmethod
    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Matrix:
        """The matrix of users x items, in the order of the vocabularies of `data.ratings`.

        `history` and `measures` may be set on the way.
        """

    # Asking

    @property
    def matrix(self) -> Matrix:
        """Users x items, filled in, in indices of the vocabularies."""
        if self._matrix is None:
            name = type(self).__name__
            raise NotFittedError(f"this model is not fitted yet; call fit(ratings) first, or {name}.load(folder)")
        return self._matrix

    @property
    def scale(self) -> Scale:
        """The least and the greatest rating."""
        return self.matrix.scale

    def predict(self, pairs: object) -> Floats:
        """Ratings (n,) for pairs of user and item; unknown ids are allowed.

        `pairs` is an iterable of (user, item) tuples, two arrays or lists of ids, a frame, a file, or Ratings.
        """
        users, items = read_pairs(pairs)
        return self.predict_indices(self.users.find(users), self.items.find(items))

    def predict_indices(self, users: Ints, items: Ints) -> Floats:
        """As `predict`, for indices of this model's vocabularies; -1 is an unknown id."""
        predicted = self.matrix.entries(users, items)
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
        self.matrix  # noqa: B018  # a model that is not fitted says so now, not at the first answer
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
        return self.matrix.many_rows(users)

    def stranger_scores(self) -> Floats:
        """(items,): what somebody of whom nothing is known would rate every item, not clipped to the scale."""
        return self.matrix.new_row(np.empty(0, np.int32), np.empty(0, np.float32))

    def known_items(self, user: int) -> Ints:
        """Indices of what a user, given by index, has rated."""
        return self.matrix.known.row(user)[0]

    def explain(
        self, user: Id | Mapping[Any, float], item: Id, *, features: Mapping[str, object] | None = None
    ) -> Explanation:
        """Explain a prediction by the user's ratings and features: base + amounts + remainder = rating.

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
        given, columns = self._given(user, features)
        return explanations(
            given,
            asked,
            self.matrix.row_shares(given, asked),
            columns=columns,
            predicted=scores[asked],
            base=self.stranger_scores()[asked],
            items=self.items,
            titles=self.titles,
            scale=self.scale,
        )

    def similar(self, item: Id, n: int = 10) -> list[Similar]:
        """The n items most similar to this one, by cosine similarity of their embeddings.

        An item without a rating can be asked about, and be an answer, if it has features.
        """
        check_count(n)
        index = self.items.index(item)
        known = self.matrix.column_known()
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
        """(items, width): item embeddings: similar items have similar vectors."""
        return self.matrix.column_vectors()

    def facts(self) -> list[tuple[str, str]]:
        """Facts about the algorithm for the report: name and value."""
        return []

    def item_counts(self) -> Longs:
        """(items,): ratings of each item."""
        return self.matrix.column_counts

    def user_counts(self) -> Longs:
        """(users,): ratings of each user."""
        return self.matrix.row_counts

    def known_pairs(self, ratings: Ratings) -> int:
        """How many of these pairs of user and item have a known rating."""
        users = self.users.find(ratings.users.ids)[ratings.user_index]
        items = self.items.find(ratings.items.ids)[ratings.item_index]
        return int(self.matrix.known.contains(users, items).sum())

    # Following

    def add_ratings(self, ratings: object) -> Self:
        """Add or replace ratings of known or new users and items; predictions follow at once, by fold-in.

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
        for item, title in ratings.titles.items():
            if item in self.items:
                self.titles[self.items.id(self.items.index(item))] = title
        self.matrix.add(users, items, ratings.values)
        return self

    def remove_ratings(self, pairs: object) -> Self:
        """Remove ratings, whether trained on or added later: predictions follow at once.

        `pairs` of user and item are anything that `predict` takes. Where there is no rating, nothing happens. A rating
        that came after the training leaves no trace; of users and items the ids stay known.
        """
        matrix = self.matrix
        users, items = read_pairs(pairs)
        user_index, item_index = self.users.find(users), self.items.find(items)
        seen = (user_index >= 0) & (item_index >= 0)
        matrix.remove(user_index[seen], item_index[seen])
        return self

    def describe_items(self, source: object) -> Self:
        """Set the features of known or new items, by the columns of the training; predictions follow at once.

        `source` is {item: {column: value}}, or a table that has these columns: a file or a frame.
        """
        return self._describe("item", source)

    def describe_users(self, source: object) -> Self:
        """Set the features of known or new users, by the columns of the training; predictions follow at once.

        `source` is {user: {column: value}}, or a table that has these columns: a file or a frame.
        """
        return self._describe("user", source)

    def _describe(self, side: Side, source: object) -> Self:
        matrix, learned = self.matrix, self._learned(side)
        vocabulary = self.users if side == "user" else self.items
        if isinstance(source, Mapping):
            ids: Iterable[Any] = list(source)
            vectors = np.array([learned.encode(about) for about in source.values()], np.float32)
            vectors = vectors.reshape(len(source), learned.width)
            words: Mapping[str, ReadableColumn] = learned.in_words(list(source.values()))
        else:
            described = learned.encode_table(source, unmentioned=np.nan)
            ids, vectors, words = described.ids.array(), described.values, described.readable
        known = vocabulary.find(ids)
        indices = vocabulary.add(ids)
        # A table may say nothing of tags, say: what is known of them stays, and of new ones nothing is known.
        features = matrix.row_features if side == "user" else matrix.column_features
        before = np.where((known >= 0)[:, None], features.values[known], np.float32(0)) if len(known) else vectors
        vectors = np.where(np.isnan(vectors), before, vectors)
        if side == "user":
            matrix.describe_rows(indices, vectors)
        else:
            matrix.describe_columns(indices, vectors)
            self.item_attributes.describe(indices, words)
        return self

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

    # Keeping

    @abstractmethod
    def _kept(self) -> Kept:
        """What a model file keeps of a fitted model."""

    @abstractmethod
    def _restored(self, kept: Kept, scale: Scale, users: SideFeatures | None, items: SideFeatures | None) -> Matrix:
        """The matrix from what a file kept; settings and ids are there already, features where there were any.

        ValueError where it does not fit together.
        """

    @classmethod
    def settings_of_format(cls, settings: Mapping[str, Any], version: int) -> dict[str, Any]:
        """The settings of a model file of an older format, with what was not a setting then."""
        return dict(settings)

    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(array.size for array in self._kept().weights.values())

    def save(self, folder: Path | str) -> None:
        """Write the model into a folder, whole or not at all; an older model there is replaced."""
        matrix, kept = self.matrix, self._kept()
        sides = {
            "users": (self.user_features, matrix.row_features),
            "items": (self.item_features, matrix.column_features),
        }
        features: Arrays = {}
        for side, (learned, vectors) in sides.items():
            if learned is not None:
                features |= {f"{side}.{name}": array for name, array in learned.arrays().items() if name != "values"}
                features |= {f"{side}.{name}": array for name, array in _side_arrays(vectors).items()}
        arrays = {"weights": kept.weights, "ratings": kept.ratings}
        write_model(
            Path(folder),
            Contents(
                kind=self.kind,
                settings=self.settings.model_dump(mode="json"),
                scale=self.scale,
                numbers=kept.numbers,
                data=self.data_summary,
                measures=self.measures,
                history=[record.as_json() for record in self.history],
                learned={side: learned.card() for side, (learned, _) in sides.items() if learned is not None},
                arrays=arrays | ({"features": features} if features else {}),
                users=self.users,
                items=self.items,
                titles=self.titles,
                attributes=self.item_attributes.frame(),
            ),
        )

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """A model from its folder, checked."""
        model = read_model(Path(folder), cls._from)
        if not isinstance(model, cls):
            raise ModelFileError(
                f"{folder}: this is a model of the algorithm {model.kind!r}, not a {cls.__name__}; "
                f"load it with {type(model).__name__}.load, or with Recommender.load"
            )
        return model

    @classmethod
    def _from(cls, contents: Contents) -> "Recommender":
        made_by = cls._maker(contents.kind)
        model = made_by(
            made_by.settings_class.of(made_by.settings_of_format(contents.settings, contents.format_version))
        )
        model.users, model.items, model.titles = contents.users, contents.items, dict(contents.titles)
        known = contents.attributes
        model.item_attributes = Attributes(model.items) if known is None else Attributes.restored(model.items, known)
        model.history = [EpochRecord(**record) for record in contents.history]
        model.measures, model.data_summary = dict(contents.measures), dict(contents.data)
        arrays = contents.arrays
        features = arrays.get("features", {})
        kept = Kept(arrays["weights"], arrays["ratings"], contents.numbers)
        sides = (_side_from(features, side) for side in ("users", "items"))
        model._matrix = model._restored(kept, contents.scale, *sides)
        if model._matrix.known.rows != len(model.users) or model._matrix.known.columns != len(model.items):
            raise ValueError("there is another number of users and items than the ratings have")
        for side, card in contents.learned.items():
            learned = _features_from(card, features, side, model.users if side == "users" else model.items)
            if side == "users":
                model.user_features = learned
            else:
                model.item_features = learned
        return model

    @classmethod
    def _maker(cls, kind: str) -> "type[Recommender]":
        """The class that made a model: a known one, or one of the caller's own that goes by that name."""
        if getattr(cls, "kind", None) == kind:
            return cls
        try:
            return algorithm(kind)
        except SettingsError as error:
            raise ModelFileError(f"{error}; load a model of your own class with that class") from None

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
        return items, self.matrix.new_row(items, ratings, self._encoded(features))

    def _scores_of(self, user: Id) -> tuple[Ints, Floats]:
        """Indices of what a user has rated, and the scores of all items."""
        index = int(self.users.find([user])[0])
        if index < 0:
            return np.empty(0, np.int32), self.stranger_scores()
        return self.known_items(index), self.matrix.row(index)

    def _encoded(self, features: Mapping[str, object] | None) -> Floats | None:
        """(P,): features of somebody new."""
        if features is None:
            return None
        if not self.follows_features:
            raise DataError(f"a model of {self.kind!r} cannot make use of features of somebody new; leave them out")
        return self._learned("user").encode(features)

    def _given(self, user: Id | Mapping[Any, float], features: Mapping[str, object] | None) -> tuple[Given, list[str]]:
        """What is known of somebody, and the names of the columns of their features."""
        vector: Floats | None = None
        if isinstance(user, Mapping):
            items, ratings = self._ratings_of_somebody(user)
            vector = self._encoded(features)
        else:
            index = int(self.users.find([user])[0])
            if index < 0:
                return Given(np.empty(0, np.int32), np.empty(0, np.float32)), []
            items, ratings = self.matrix.known.row(index)
            about = self.matrix.row_features
            if self.user_features is not None and about.described[index]:
                vector = about.values[index]
        if vector is None:
            return Given(items, ratings), []
        columns = [column for source in self._learned("user").sources for column in source.widths()]
        return Given(items, ratings, vector, tuple(width for _, width in columns)), [name for name, _ in columns]

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


def _side_arrays(features: SideFeatures) -> Arrays:
    """The vectors of one side as a model file keeps them."""
    indices, values = features.later()
    return {
        "trained": features.trained,
        "described": features.trained_described,
        "later.indices": indices,
        "later.values": values,
    }


def _side_from(arrays: Arrays, side: str) -> SideFeatures | None:
    """The vectors of one side, from their arrays; None where there are none."""
    if f"{side}.trained" not in arrays:
        return None
    trained, described = arrays[f"{side}.trained"], arrays[f"{side}.described"]
    indices, vectors = arrays[f"{side}.later.indices"], arrays[f"{side}.later.values"]
    if len(trained) != len(described) or (indices < 0).any() or not np.isfinite(vectors).all():
        raise ValueError(f"the features of the {side} do not fit the ratings")
    features = SideFeatures(trained, described)
    features.grow(int(indices.max(initial=-1)) + 1)
    for index, vector in zip(indices.tolist(), vectors, strict=True):
        features.describe(index, vector)
    return features


def _features_from(card: dict[str, Any], arrays: Arrays, side: str, ids: Vocabulary) -> Features:
    """What was learned about the columns of one side, and the vectors that it was trained with."""
    own = {name.removeprefix(f"{side}."): array for name, array in arrays.items() if name.startswith(f"{side}.")}
    described = np.flatnonzero(own["described"])
    values = {"values": own["trained"][described]}
    return Features.restored(card, {**own, **values}, Vocabulary([ids.id(int(i)) for i in described]))
