"""A model as people use it, in their own ids: fit, predict, recommend, similar, explain, follow ratings, save, load.

`CFN`, `Means`, `ListModel` and the rivals are recommenders: each says how it learns, and leaves behind a `Matrix` of
users x items that predicts, and a `ListScorer` that ranks. An algorithm of another package is a subclass with `kind`,
`settings_class`, `_learn`, `_kept` and `_restored`; docs/how-to/own-algorithm.md shows one.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, Unpack, cast, get_args, overload

import numpy as np

from cofill.config import ListSettings, Settings
from cofill.data.attributes import Attributes
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.features import Features, ReadableColumn
from cofill.data.interactions import Interactions
from cofill.data.pairs import read_pairs
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, DataWarning, ModelFileError, NotFittedError, Remedy, SettingsError, UnknownIdError
from cofill.exchange import ALONE, Exchange
from cofill.models.history import EpochRecord
from cofill.models.known import KnownRatings
from cofill.models.lists.feedback import Feedback, GradedRatings
from cofill.models.lists.grades import HIGHEST_WEIGHT, Grades, time_decay
from cofill.models.lists.item_weights import Done, Penalties
from cofill.models.lists.rules import By, Catalogue, Rules, Selection, SimilarRules
from cofill.models.lists.scorer import About, KeysOfSides, LinearScorer, ListScorer, Sides
from cofill.models.matrix import Floats, Ints, Longs, Matrix
from cofill.models.persistence import Arrays, PartInfo, contents_of, read_model, write_model
from cofill.models.persistence import Kept as Kept  # what an algorithm of another package answers `_kept` with
from cofill.models.results import (
    BestItems,
    Explanation,
    Given,
    ItemPlaces,
    Predicted,
    RankedList,
    Recommendation,
    Shares,
    Similar,
    UserLists,
    check_count,
    explanations,
    most_rated,
    placed,
)
from cofill.models.shards import KeptByColumn, divided, save_in_shards
from cofill.progress import Progress, Step, unseen

Side = Literal["user", "item"]
UnknownUsers = Literal["refuse", "anybody", "skip"]
"""What becomes of ids that the model does not know, where many are asked about."""

# A lower bound of a rating is its prediction less so many standard errors of the item's mean, which has as many
# ratings as the item, and a few that everything is thought to have.
_STANDARD_ERRORS = 1.64
_RATINGS_BEFORE = 7.0
_LEAST_LENGTH = 1e-12  # of a vector: its square is still a number in single precision
_STRANGER = Given(np.empty(0, np.int32), np.empty(0, np.float32))  # a user of whom nothing is known


class Fitting(NamedTuple):
    """Options of a fit: the progress callback, and the checkpoint to write and to resume from."""

    progress: Progress
    checkpoint: Path | None
    resume: bool


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
    takes_interactions: ClassVar[bool] = False
    """Whether it can be trained on interactions alone."""
    keeps_checkpoints: ClassVar[bool] = False
    """Whether a fit that was stopped can go on."""
    fits_on_clusters: ClassVar[bool] = False
    """Whether several workers can fit it together."""

    trained: datetime | None
    """The end of its training; None if it is not fitted."""
    item_places: ItemPlaces | None
    """The map of the items; None unless `draw_map` was called, or a file has it."""
    part: PartInfo | None
    """Which part of a model in shards it is, with all items and some of the users; None if it is whole."""

    def __init__(self, settings: Settings | None = None, **changes: Any) -> None:
        name, wanted = type(self).__name__, self.settings_class
        if settings is not None and type(settings) is not wanted:
            raise SettingsError(f"settings are given by name, such as {name}(seed=1). Got {settings!r}")
        self._settings = settings.changed(changes) if settings else wanted.of(changes)
        self.history: list[EpochRecord] = []
        self.measures: dict[str, float | int | None] = {}
        self.data_summary: dict[str, Any] = {}
        self.users, self.items = Vocabulary(), Vocabulary()
        self.titles: dict[Id, str] = {}
        self.user_features: Features | None = None
        self.item_features: Features | None = None
        self.item_attributes = Attributes(self.items)
        self.trained = self.item_places = self.part = None
        self._matrix: Matrix | None = None
        self._scorer: ListScorer | None = None
        self._spread: float | None = None  # standard deviation of the ratings of the training, once asked for

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings.unusual().items())
        state = f"{len(self.users)} users, {len(self.items)} items" if self._matrix else "not fitted"
        parts = [settings, state, str(self.part or "")]
        return f"{type(self).__name__}({'; '.join(part for part in parts if part)})"

    # Settings, as scikit-learn asks for them too

    @property
    def settings(self) -> Settings:
        """Those that it was made with, defaults included."""
        return self._settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All settings by name. `deep` changes nothing: no setting is an estimator itself."""
        return self._settings.by_name()

    def set_params(self, **settings: Any) -> Self:
        """Change settings of a model that is not fitted; those that were not given still follow the others."""
        if settings and self._matrix is not None:
            raise SettingsError(
                "this model is fitted, and was so with the settings it has; set those of sklearn.base.clone(model), "
                f"or of a new {type(self).__name__}"
            )
        self._settings = self._settings.changed(settings)
        return self

    def __sklearn_clone__(self) -> Self:
        """What `sklearn.base.clone` gives: a model that is not fitted, with the same settings."""
        return type(self)(self._settings)

    # What an algorithm says

    @abstractmethod
    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Matrix:
        """The matrix of users x items, in the order of the vocabularies of `data.ratings`.

        `history` and `measures` may be set on the way.
        """

    @abstractmethod
    def _kept(self) -> Kept:
        """What a model file keeps of a fitted model."""

    @abstractmethod
    def _restored(self, kept: Kept, scale: Scale, users: SideFeatures | None, items: SideFeatures | None) -> Matrix:
        """The matrix from what a file kept; settings and ids are there already, features where there were any.

        Arrays are mapped from the file: what is written to them stays with this process.
        """

    def _kept_by_column(self) -> KeptByColumn:
        """What a file keeps of a model in shards; an algorithm whose models can be cut by columns has it."""
        raise SettingsError(f"a model of {self.kind!r} is saved in one piece; leave out shards")

    def _fit_scorer(self, feedback: Feedback, done: Done) -> ListScorer:
        """What scores items for lists, from what users did; an algorithm that ranks in its own way has another."""
        return self._linear_scorer(feedback, done)

    def _restored_scorer(self, arrays: Arrays, feedback: Feedback) -> ListScorer:
        return LinearScorer.restored(arrays, feedback, self._sides)

    def _forecast(self, progress: Progress, data: DescribedRatings) -> Progress:
        """The same, told how long the fit will still take, where an algorithm can say."""
        return progress

    def facts(self) -> list[tuple[str, str]]:
        """Facts about the algorithm for the report: name and value."""
        return []

    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(array.size for array in self._kept().weights.values())

    # Fitting

    def fit(
        self,
        ratings: object,
        *,
        item_features: object = None,
        user_features: object = None,
        interactions: object = None,
        progress: Progress | None = None,
        checkpoint: Path | str | None = None,
        resume: bool = False,
        cluster: Any = None,
    ) -> Self:
        """Learn from ratings, or from anything that `Ratings.read` takes, and from side features where there are any.

        `item_features` and `user_features` are Features, or anything that `Features.read` takes without being told
        more. Ids with features and without a rating become known to the model: they are the cold ones.

        `interactions` are what the same users did beside rating, Interactions or anything that `Interactions.read`
        takes: lists learn from both. Those who rated nothing can be given as `ratings`, if the algorithm takes them.

        `progress` is called with a `Step` whenever there is something to tell. `checkpoint` names a file that lets a
        killed run go on with `resume=True`; remove it once the model is saved.

        With a `cluster`, a `cofill.Cluster`, several workers do it, to the same model; it keeps checkpoints by itself.
        """
        name = type(self).__name__
        if cluster is not None:
            if not self.fits_on_clusters:
                raise SettingsError(f"{name} is trained in one process; leave out cluster")
            if interactions is not None:
                raise SettingsError("several workers learn from ratings alone; leave out interactions, or cluster")
            if checkpoint is not None:
                raise SettingsError("a cluster keeps checkpoints in its own folder; leave out checkpoint")
            about = {"user_features": user_features, "item_features": item_features}
            fitted = cluster.fit(self, ratings, **about, progress=progress or unseen, resume=resume)
            vars(self).update(vars(fitted) | {"_settings": self._settings})
            return self
        if not self.takes_features and (item_features is not None or user_features is not None):
            raise DataError(f"{name} makes no use of side information; leave the features out")
        if not self.keeps_checkpoints and (checkpoint is not None or resume):
            raise SettingsError(f"{name} is trained in one go; leave out checkpoint and resume")
        if resume and checkpoint is None:
            raise SettingsError("resume needs the checkpoint of the run to go on with; give checkpoint=... too")
        data = DescribedRatings.of(
            ratings, user_features=user_features, item_features=item_features, interactions=interactions
        )
        if not data.ratings.rated and not self.takes_interactions:
            raise DataError(
                f"{name} learns from ratings, and these are interactions",
                "use the algorithm 'lists', 'ease', 'ials', 'item-knn' or 'popularity' for them",
            )
        tell = self._forecast(progress, data) if progress is not None else unseen
        matrix = self._learn(data, Fitting(tell, Path(checkpoint) if checkpoint else None, resume))
        self.users, self.items = data.ratings.users.copy(), data.ratings.items.copy()
        self.titles, self.data_summary = dict(data.ratings.titles), data.summary
        if self.follows_features:
            self.user_features, self.item_features = data.about_users, data.about_items
        self.item_attributes = Attributes.of_features(self.items, data.about_items)
        self._matrix, self._spread, self.item_places, self.part = matrix, None, None, None
        feedback = self._feedback(self._decay(data.ratings), self._beside(data.interactions))
        self._scorer = self._fit_scorer(feedback, lambda share: tell(Step("fitting the list scorer", share, 1.0, 1.0)))
        self.trained = datetime.now(UTC)
        return self

    def _linear_scorer(
        self,
        feedback: Feedback,
        done: Done,
        *,
        sides: Sides | None = None,
        keys: KeysOfSides | None = None,
        exchange: Exchange = ALONE,
    ) -> LinearScorer:
        """With the features and keys of this model's users and items, unless others are given. Other processes may
        have other users; all of them come to the same weights.
        """
        own = self._list_settings
        return LinearScorer.fit(
            feedback,
            sides or self._sides,
            Penalties(own.list_rank, own.list_penalty, popularity=own.list_popularity),
            seed=own.seed,
            threads=getattr(self._settings, "threads", 0),
            done=done,
            keys=keys or KeysOfSides(self.users.keys(), self.items.keys()),
            exchange=exchange,
        )

    @property
    def _sides(self) -> Sides:
        return Sides(self.matrix.row_features, self.matrix.column_features)

    @property
    def _list_settings(self) -> ListSettings:
        return self._settings if isinstance(self._settings, ListSettings) else ListSettings(seed=self._settings.seed)

    def _feedback(self, decay: Floats | None, beside: GradedRatings | None) -> Feedback:
        """What users did, from the known ratings and their time decay, and from interactions beside them."""
        return Feedback(GradedRatings.of(self.matrix.known, self._grades(self.scale, rated=self.rated), decay), beside)

    def _beside(self, interactions: Ratings | None) -> GradedRatings | None:
        """The interactions of a training beside its ratings."""
        if interactions is None:
            return None
        known = KnownRatings(interactions.rows("user"), interactions.rows("item"))
        return GradedRatings.of(known, self._grades(interactions.scale, rated=False), self._decay(interactions))

    def _grades(self, scale: Scale, *, rated: bool) -> Grades:
        own = self._list_settings
        return Grades(scale, rated, power=own.list_grade_power, confidence=own.confidence)

    def _decay(self, ratings: Ratings) -> Floats | None:
        half_life = self._list_settings.half_life
        if not half_life:
            return None
        if ratings.times is None:
            raise DataError("half_life needs to know when people rated, and there are no times", "leave it out")
        return time_decay(ratings.times, half_life)

    # What it consists of

    @property
    def matrix(self) -> Matrix:
        """Users x items, filled in, in indices of the vocabularies."""
        if self._matrix is None:
            name = type(self).__name__
            raise NotFittedError(f"this model is not fitted yet; call fit(ratings) first, or {name}.load(folder)")
        return self._matrix

    @property
    def scorer(self) -> ListScorer:
        """What scores items for lists."""
        self.matrix  # noqa: B018  # a model that is not fitted says so
        assert self._scorer is not None
        return self._scorer

    @property
    def scale(self) -> Scale:
        """The least and the greatest rating."""
        return self.matrix.scale

    @property
    def rated(self) -> bool:
        """Whether it was trained on ratings; otherwise on interactions, and then there are lists and no ratings."""
        return bool(self.data_summary.get("rated", True))

    @property
    def has_intervals(self) -> bool:
        """Whether the model knows how far off its predictions may be."""
        unknown = np.array([-1], np.int32)
        return self.rated and self.matrix.half_widths(unknown, unknown, np.zeros(1, np.float32)) is not None

    def item_counts(self) -> Longs:
        """(items,): ratings of each item."""
        return self.matrix.column_counts

    def user_counts(self) -> Longs:
        """(users,): ratings of each user."""
        return self.matrix.row_counts

    def known_items(self, user: int) -> Ints:
        """Indices of what a user, given by index, has rated or done something with."""
        return self.scorer.feedback.items_of(user)

    def known_pairs(self, ratings: Ratings) -> int:
        """How many of these pairs of user and item have a known rating."""
        users = self.users.find(ratings.users.ids)[ratings.user_index]
        items = self.items.find(ratings.items.ids)[ratings.item_index]
        return int(self.matrix.known.contains(users, items).sum())

    def item_vectors(self) -> Floats:
        """(items, width): item embeddings: similar items have similar vectors.

        Those of the predictions, or of the lists where predictions know nothing that makes one item like another.
        """
        vectors = self.matrix.column_vectors()
        of_lists = None if vectors.shape[1] else self.scorer.item_vectors()
        return vectors if of_lists is None else of_lists

    def draw_map(self, progress: Progress | None = None) -> ItemPlaces:
        """Place the most rated items in two dimensions (t-SNE), what is alike close together.

        It is saved with the model, for the page of `cofill serve`. Takes seconds for 1,500 items, which are the most.
        """
        tell = progress or unseen
        vectors = self.item_vectors()
        chosen = most_rated(self.item_counts(), vectors)
        places = placed(vectors[chosen], lambda share: tell(Step("drawing the map", share, 1.0, 1.0)))
        self.item_places = ItemPlaces(chosen, places)
        return self.item_places

    # Predictions

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

    def predict_indices(self, users: Ints, items: Ints) -> Floats:
        """As `predict`, for indices of this model's vocabularies; -1 is an unknown id."""
        if not self.rated:
            raise DataError("this model was trained on interactions, so it knows no ratings to predict; ask for lists")
        return self._clipped(self.matrix.entries(users, items))

    def predict_intervals(self, users: Ints, items: Ints) -> Predicted:
        """As `predict` with intervals, for indices of this model's vocabularies; -1 is an unknown id."""
        ratings = self.predict_indices(users, items)
        half_widths = self.matrix.half_widths(users, items, ratings)
        if half_widths is None:
            raise DataError(
                f"a model of {self.kind!r} does not know how far off its predictions are",
                "train a CFN with the decoder process, which is the default",
            )
        return Predicted(ratings, self._clipped(ratings - half_widths), self._clipped(ratings + half_widths))

    def quickest_order(self, users: Ints, items: Ints) -> Longs:
        """(n,): the order of pairs, given by index, in which they are predicted most quickly, if in parts."""
        return self.matrix.quickest_order(users, items)

    def _pairs(self, pairs: object) -> tuple[Ints, Ints]:
        """Indices (n,) of users and of items; -1 is an unknown id."""
        try:
            users, items = read_pairs(pairs)
        except DataError as error:
            if not {"user", "item"} & error.remedy.arguments.keys():
                raise
            raise DataError(error.found, "name the columns user and item", where=error.where) from None
        return self.users.find(users), self.items.find(items)

    def _clipped(self, ratings: Floats) -> Floats:
        return np.clip(ratings, np.float32(self.scale.low), np.float32(self.scale.high))

    # A user, known or new, as `Given`: `number` is the index of a known one

    def _given(self, user: Id | Mapping[Any, float], features: Mapping[str, object] | None) -> Given:
        if isinstance(user, Mapping):
            vector = None
            if features is not None:
                if not self.follows_features:
                    raise DataError(f"a model of {self.kind!r} cannot use the features of a new user; leave them out")
                vector = self._learned("user").encode(features)
            return Given(*self._ratings_given(user), vector)
        if features is not None:
            raise DataError(
                f"features describe a new user, and {user!r} is an id; give ratings with them, or {{}}, "
                f"or tell the model about the user with describe_users first"
            )
        index = int(self.users.find([user])[0])
        if index < 0:
            return _STRANGER
        about = self.matrix.row_features
        described = self.user_features is not None and about.described[index]
        return Given(*self.matrix.known.row(index), about.values[index] if described else None, number=index)

    def _ratings_given(self, ratings: Mapping[Any, float]) -> tuple[Ints, Floats]:
        """Indices and ratings, ascending."""
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
        if len(np.unique(indices)) < len(indices):
            raise DataError(f"an item is rated twice among {list(ratings)}; keep one rating of each")
        order = np.argsort(indices)
        return indices[order], np.array(list(ratings.values()), np.float32)[order]

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

    def _done_by(self, given: Given) -> tuple[Ints, Floats]:
        """Items and grades of what a user did."""
        feedback = self.scorer.feedback
        if given.number >= 0:
            return feedback.row(given.number)
        return given.others, feedback.main.grades.of(given.ratings)

    def _ratings_by(self, given: Given) -> Floats:
        """(items,): what a user would rate every item, not clipped to the scale."""
        if given.number >= 0:
            return self.matrix.row(given.number)[: len(self.items)]
        return self.matrix.new_row(given.others, given.ratings, given.features)[: len(self.items)]

    def _ratings_at(self, given: Given, items: Ints) -> Floats | None:
        """(n,): what a user would rate items; None where the model knows no ratings."""
        if not self.rated:
            return None
        if given.number >= 0:
            return self.predict_indices(np.full(len(items), given.number, np.int32), items)
        return self._clipped(self.matrix.new_row_at(given.others, given.ratings, given.features, items))

    # Scores, which lists are ranked by

    def score(
        self, user: Id | Mapping[Any, float], *, by: By = "list", features: Mapping[str, object] | None = None
    ) -> Floats:
        """(items,): how a user would choose every item, or what they would rate it, by index; asked as `recommend`.

        Ratings are predictions clipped to the scale, not their lower bounds.
        """
        self._check_by(by)
        given = self._given(user, features)
        return self._scores_for(given, by) if by == "list" else self._clipped(self._ratings_by(given))

    def user_scores(self, users: Longs, *, by: By = "list") -> Floats:
        """(n, items): what lists of some users, given by index, are ranked by, without rules.

        Items without a rating come last, as in `recommend`: their scores are lowered below all others.
        """
        return self._unrated_last(self._scores_of_users(users, by))

    def new_user_scores(self, items: Ints, ratings: Floats, *, by: By = "list") -> Floats:
        """(items,): what the list of a new user is ranked by, who gave these ratings to items, given by index."""
        order = np.argsort(items)
        scores: Floats = self._unrated_last(self._scores_for(Given(items[order], ratings[order]), by)[None])[0]
        return scores

    def stranger_scores(self, *, by: By = "list") -> Floats:
        """(items,): what the list of a user is ranked by of whom nothing is known."""
        scores: Floats = self._unrated_last(self._scores_for(_STRANGER, by)[None])[0]
        return scores

    def stranger_ratings(self) -> Floats:
        """(items,): what a user of whom nothing is known would rate every item, not clipped to the scale."""
        return self._ratings_by(_STRANGER)

    def _scores_for(self, given: Given, by: By) -> Floats:
        """(items,) for one user, known or new."""
        if by == "list":
            about = None if given.features is None else About(given.features[None], np.ones(1, np.bool_))
            return self.scorer.one(*self._done_by(given), about)[: len(self.items)]
        lower: Floats = self._lower_bound(self._ratings_by(given)[None])[0]
        return lower

    def _scores_of_users(self, users: Longs, by: By) -> Floats:
        """(n, items) for some users, given by index."""
        if by == "list":
            of_users = self.matrix.row_features
            about = About(of_users.values[users], of_users.described[users]) if of_users.width else None
            return self.scorer.of_people(self.scorer.feedback.rows(users), about)[:, : len(self.items)]
        return self._lower_bound(self.matrix.many_rows(users)[:, : len(self.items)])

    def _lower_bound(self, predicted: Floats) -> Floats:
        """(n, items): ratings less what is uncertain of them, from how many ratings an item has."""
        if self._spread is None:
            self._spread = self.matrix.known.spread()
        error = self._spread / np.sqrt(self.matrix.column_counts[: predicted.shape[1]] + _RATINGS_BEFORE)
        lower: Floats = predicted - (_STANDARD_ERRORS * error).astype(np.float32)
        return lower

    def _unrated_last(self, scores: Floats) -> Floats:
        unrated = self._raters()[: scores.shape[1]] == 0
        if unrated.all() or not unrated.any():
            return scores
        above = scores[:, unrated].max(1) - scores[:, ~unrated].min(1)
        scores[:, unrated] -= (np.maximum(above, 0) + 1)[:, None]
        return scores

    def _raters(self) -> Longs:
        """(items,): how many users rated each item, or did something with it, whichever are more."""
        counts, beside = self.matrix.column_counts, self.scorer.feedback.beside
        if beside is None:
            return counts
        found = counts.copy()
        others = beside.counts()
        found[: len(others)] = np.maximum(found[: len(others)], others)
        return found

    def _check_by(self, by: str) -> None:
        if by not in get_args(By):
            raise DataError(f"lists are by 'list' or by 'rating'. Got {by!r}")
        if by == "rating" and not self.rated:
            raise DataError(
                "this model was trained on interactions, so it knows no ratings to rank by; use by='list', the default"
            )

    # Lists

    def recommend(
        self,
        user: Id | Mapping[Any, float],
        n: int = 10,
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
        exclude_known: bool = True,
        **rules: Unpack[Rules],
    ) -> RankedList[Recommendation]:
        """The n items that a user would choose and like, best first.

        `user` is an id, or the ratings {item: rating} of a user whom the model has never seen, described by `features`
        {column: value} or not; {} with features is a user who has rated nothing. An id that is not known gets what is
        recommended to a stranger.

        `by="rating"` ranks by what they would rate highest, to be on the safe side: by a lower bound of the rating,
        so that an item of which little is known does not stand above one that thousands love. Items without a rating
        come last, unless `new_items` gives them places. All rules are those of `Rules`: among, where, exclude,
        min_ratings, boost, at_most, diversity, new_items.
        """
        check_count(n)
        self._check_by(by)
        if isinstance(user, Iterable) and not isinstance(user, str | Mapping):
            raise DataError("recommend is about one person, and this may be several", "ask recommend_many about them")
        given, selection = self._given(user, features), self._selection(by, rules)
        known = self.known_items(given.number) if given.number >= 0 else given.others
        scores = self._scores_for(given, by)
        best = np.array(selection.best(scores, known if exclude_known else known[:0], n), np.int32)
        ratings, raters = self._ratings_at(given, best), self._raters()[best]
        found = BestItems(np.array([len(best)]), best, scores[best], ratings, raters)
        return next(found.lists(self.items, self.titles))

    def recommend_many(
        self,
        users: Iterable[Id] | None = None,
        n: int = 10,
        *,
        by: By = "list",
        exclude_known: bool = True,
        unknown_users: UnknownUsers = "refuse",
        progress: Progress | None = None,
        **rules: Unpack[Rules],
    ) -> UserLists:
        """The lists of many users, given by id, or of all: iterate over them, or have them as a frame.

        >>> model.recommend_many([42, 7], n=5).to_pandas()

        They are what `recommend` gives each of them, made in batches of bounded memory. An id that the model does not
        know is an error; `unknown_users="anybody"` gives it what a stranger is recommended, and `"skip"` leaves it
        out, with a warning that counts them. `progress` is called with a `Step` after each batch. Rules are those of
        `recommend`.
        """
        check_count(n)
        self._check_by(by)
        self.matrix  # noqa: B018  # a model that is not fitted says so now, not at the first answer
        ids, indices = self._users_asked(users, unknown_users)
        selection, size = self._selection(by, rules), len(self.items)

        def best(some: Longs) -> BestItems:
            if len(self.items) != size:
                raise DataError("the model has more items than when these lists were asked for", "ask for them again")
            return self._best_of_users(some, n, by, exclude_known, selection)

        return UserLists(
            ids,
            indices,
            best,
            items=self.items,
            titles=self.titles,
            integers=self.users.integers and all(isinstance(user, int) for user in ids),
            rated=self.rated,
            progress=progress,
        )

    def _users_asked(self, users: Iterable[Id] | None, unknown: UnknownUsers) -> tuple[list[Id], Longs]:
        """Ids, and indices (n,), where -1 is an unknown user."""
        if unknown not in get_args(UnknownUsers):
            raise DataError(f"unknown_users must be one of {', '.join(get_args(UnknownUsers))}. Got {unknown!r}")
        if users is None:
            return self.users.ids, np.arange(len(self.users), dtype=np.int64)
        if isinstance(users, str | int | Mapping):
            raise DataError(f"users is {users!r}; give a list of ids, or ask recommend about one person")
        if hasattr(users, "columns"):  # whose iteration gives the names of its columns, or the columns
            raise DataError("users is a frame", "give the column of ids, such as frame['user']")
        wanted = list(users)
        indices = self.users.find(wanted).astype(np.int64)
        ids, new = [self.users.own(user) for user in wanted], indices < 0
        if not new.any():
            return ids, indices
        first = ids[int(np.argmax(new))]
        some = f"user {first!r} is" if new.sum() == 1 else f"{new.sum():,} users, such as {first!r}, are"
        found = f"{some} not in the model"
        if unknown == "refuse":
            remedy = "check the ids, or pass {unknown_users}, or 'skip'; recommend takes the ratings of a new user"
            raise UnknownIdError(found, Remedy.passing(remedy, unknown_users="anybody"))
        if unknown == "anybody":
            warnings.warn(DataWarning(found, "they get what a stranger is recommended"), stacklevel=3)
            return ids, indices
        warnings.warn(DataWarning(found, "they get no list"), stacklevel=3)
        return [ids[place] for place in np.flatnonzero(~new).tolist()], indices[~new]

    def _best_of_users(self, users: Longs, n: int, by: By, exclude_known: bool, selection: Selection) -> BestItems:
        """The lists of some users, given by index; -1 is one of whom nothing is known."""
        known = users >= 0
        scores = np.empty((len(users), len(self.items)), np.float32)
        if known.any():
            scores[known] = self._scores_of_users(users[known], by)
        if not known.all():
            scores[~known] = self._scores_for(_STRANGER, by)
        chosen = [np.empty(0, np.int32)]
        for user, own in zip(users.tolist(), scores, strict=True):
            excluded = self.known_items(user) if exclude_known and user >= 0 else chosen[0]
            chosen.append(np.array(selection.best(own, excluded, n), np.int32))
        lengths, items = np.array([len(best) for best in chosen[1:]], np.int64), np.concatenate(chosen)
        place = np.repeat(np.arange(len(users)), lengths)
        ratings = self.predict_indices(users[place].astype(np.int32), items) if self.rated else None
        return BestItems(lengths, items, scores[place, items], ratings, self._raters()[items])

    def _selection(self, by: By, rules: Rules) -> Selection:
        vectors = None
        if rules.get("diversity"):
            vectors = self.scorer.item_vectors()
            vectors = self.item_vectors() if vectors is None else vectors
        return Catalogue(
            self.items,
            self.item_attributes,
            counts=self._raters(),
            placeable=self.matrix.column_features.described,
            vectors=vectors,
            floor=0.0 if by == "list" else self.scale.low,
        ).selection(rules)

    def similar(self, item: Id, n: int = 10, **rules: Unpack[SimilarRules]) -> RankedList[Similar]:
        """The n items most similar to this one, by cosine similarity of their embeddings.

        An item without a rating can be asked about, and be an answer, if it has features. The rules are those of
        lists, as far as they make sense here (`SimilarRules`): among, where, exclude, min_ratings, at_most, diversity.
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
        norms = np.maximum(np.linalg.norm(centred, axis=1), np.float32(_LEAST_LENGTH))
        likeness = centred @ centred[index] / (norms * norms[index])
        likeness[~known] = likeness[index] = -np.inf
        some = cast(Rules, rules)  # each of them is one of lists
        best = self._selection("list", some).nearest(likeness[: len(self.items)], n)
        entries = [Similar(other := self.items.id(i), float(likeness[i]), self.titles.get(other)) for i in best]
        return RankedList(entries, Similar, integers=self.items.integers)

    # Explanations

    def explain(
        self,
        user: Id | Mapping[Any, float],
        item: Id,
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
    ) -> Explanation:
        """Explain why an item is in a list, or its predicted rating: base + amounts + remainder = value.

        The user is given as to `recommend`. Amounts are exact for lists, which are linear in what a user did. A
        predicted rating comes with its interval, `low` to `high`, where the model has intervals.
        """
        return self.explain_many(user, [item], by=by, features=features, with_interval=True)[0]

    def explain_many(
        self,
        user: Id | Mapping[Any, float],
        items: Iterable[Id],
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
        with_interval: bool = False,
    ) -> list[Explanation]:
        """The same for several items, which costs little more than for one, intervals aside."""
        self._check_by(by)
        given, wanted = self._given(user, features), list(items)
        asked = self.items.find(wanted)
        if (asked < 0).any():
            raise UnknownIdError(f"item {wanted[int(np.argmin(asked))]!r} is not in the model; check the id")
        names: tuple[str, ...] = ()
        if given.features is not None:
            columns = [column for source in self._learned("user").sources for column in source.widths()]
            names, widths = zip(*columns, strict=True)
            given = given._replace(widths=widths)
        if by == "list":
            predicted, base, done = self._scores_for(given, by), self._scores_for(_STRANGER, by), self._done_by(given)
            of_features = np.zeros((len(asked), 0))
            if given.features is not None:
                of_features = self.scorer.feature_shares(len(done[0]), given.features, given.widths, asked)
            shares = Shares(self.scorer.shares(*done, asked), of_features)
            rated = dict(zip(given.others.tolist(), given.ratings.tolist(), strict=True))
            ratings = np.array([rated.get(item, np.nan) for item in done[0].tolist()], np.float32)
            told = given._replace(others=done[0], ratings=ratings)
        else:
            predicted, base, told = self._ratings_by(given), self._ratings_by(_STRANGER), given
            shares = self.matrix.row_shares(given, asked)
        found = explanations(
            told,
            asked,
            shares,
            columns=names,
            predicted=predicted[asked],
            base=base[asked],
            items=self.items,
            titles=self.titles,
            scale=None if by == "list" else self.scale,
        )
        if by == "list" or not with_interval:
            return found
        clipped = np.array([one.clipped for one in found], np.float32)
        if given.number >= 0:
            widths_at = self.matrix.half_widths(np.full(len(asked), given.number, np.int32), asked, clipped)
        else:
            known = given.others, given.ratings, given.features
            widths_at = self.matrix.new_row_half_widths(*known, asked, clipped)
        if widths_at is None:
            return found
        ends = [self._clipped(clipped - widths_at).tolist(), self._clipped(clipped + widths_at).tolist()]
        return [one._replace(low=low, high=high) for one, low, high in zip(found, *ends, strict=True)]

    # What happens after the training

    def add_ratings(self, ratings: object) -> Self:
        """Add or replace ratings of known or new users and items; predictions follow at once, by fold-in.

        `ratings` is anything that `Ratings.read` takes. A rating of a pair that has one takes its place; if they are
        equal, nothing changes at all.
        """
        self._check_whole()
        read = ratings if isinstance(ratings, Ratings) else Ratings.read(ratings)
        low, high = self.scale
        outside = (read.values < low) | (read.values > high)
        if outside.any():
            raise DataError(
                f"a rating of {read.values[outside][0]:g} is outside the model's scale of {low:g} to {high:g}; "
                f"correct it, or train again with a wider scale"
            )
        users, items = self._taken_in(read)
        self.matrix.add(users, items, read.values)
        self._tell_scorer(users, items)
        return self

    def add_interactions(self, interactions: object, *, replacing: bool = False) -> Self:
        """Add what known or new users did with known or new items; lists follow at once.

        `interactions` is anything that `Interactions.read` takes. What a user did again adds up, to at most the
        greatest weight of the training. With `replacing`, they are all that happened to these pairs since the training:
        what was added before is replaced, so that telling the same again changes nothing.

        A model of ratings keeps them beside these, and its predictions stay. If it was trained on ratings alone, a
        weight of 5 or more counts for lists as the highest rating does, and less as a lower one.
        """
        self._check_whole()
        read = interactions if isinstance(interactions, Interactions) else Interactions.read(interactions)
        feedback = self.scorer.feedback
        if self.rated and feedback.beside is None:
            trained = self.matrix.known.trained
            none = KnownRatings.none(trained.rows, trained.columns)
            grades = self._grades(Scale(0.0, HIGHEST_WEIGHT), rated=True)
            feedback.beside = self._feedback(None, GradedRatings.of(none, grades, None)).beside
        users, items = self._taken_in(read)
        graded = feedback.beside if self.rated else feedback.main
        assert graded is not None
        weights = graded.added_up(users, items, read.values, to_training=replacing)
        if self.rated:
            self.matrix.grow(len(self.users), len(self.items))
            graded.add(users, items, weights)
        else:
            self.matrix.add(users, items, weights)
        self._tell_scorer(users, items)
        return self

    def remove_ratings(self, pairs: object) -> Self:
        """Remove ratings, whether trained on or added later: predictions follow at once.

        `pairs` of user and item are anything that `predict` takes. Where there is no rating, nothing happens. A rating
        that came after the training leaves no trace; of users and items the ids stay known. Interactions beside ratings
        stay: that a user does not rate an item any more does not undo that they bought it.
        """
        self._check_whole()
        users, items = self._pairs(pairs)
        seen = (users >= 0) & (items >= 0)
        self.matrix.remove(users[seen], items[seen])
        self._tell_scorer(users[seen], items[seen])
        return self

    def add_items(self, items: Iterable[Id]) -> Self:
        """Make items known of which nothing else is known yet: neither ratings nor features."""
        self._check_whole()
        known = len(self.items)
        self.items.add(items)
        self.matrix.grow(len(self.users), len(self.items))
        self._tell_scorer((), range(known, len(self.items)))
        return self

    def forget_users(self, users: Iterable[Id]) -> Self:
        """Remove all that is known of users, trained on or told later: ratings, interactions and features.

        From then on they get what a stranger gets, and others get lists and predictions without them, as far as
        these follow changes. What the model learned in training stays learned until the next one. Ids that are not
        known do not count.
        """
        self._check_whole()
        indices = self.users.find(list(users))
        indices = np.unique(indices[indices >= 0])
        feedback, touched = self.scorer.feedback, set[int]()
        for user in indices.tolist():
            rated, done = self.matrix.known.row(user)[0], self.known_items(user)
            self.matrix.remove(np.full(len(rated), user, np.int32), rated)
            feedback.main.forget(user)
            if feedback.beside is not None:
                feedback.beside.remove(np.full(len(done), user, np.int32), done)
                feedback.beside.forget(user)
            touched |= set(done.tolist())
        width = self.matrix.row_features.width
        if width and len(indices):
            self.matrix.describe_rows(indices, np.full((len(indices), width), np.nan, np.float32))
        self._tell_scorer(indices, touched)
        return self

    def describe_items(self, source: object) -> Self:
        """Set the features of known or new items, by the columns of the training; predictions follow at once.

        `source` is {item: {column: value}}, or a table that has these columns: a file or a frame.
        """
        indices, vectors, words = self._described("item", source)
        self.matrix.describe_columns(indices, vectors)
        self.item_attributes.describe(indices, words)
        self._tell_scorer((), indices)
        return self

    def describe_users(self, source: object) -> Self:
        """Set the features of known or new users, by the columns of the training; predictions follow at once.

        `source` is {user: {column: value}}, or a table that has these columns: a file or a frame.
        """
        indices, vectors, _ = self._described("user", source)
        self.matrix.describe_rows(indices, vectors)
        return self

    def _described(self, side: Side, source: object) -> tuple[Ints, Floats, Mapping[str, ReadableColumn]]:
        """Indices (n,), features (n, width), and the same in words."""
        self._check_whole()
        matrix, learned = self.matrix, self._learned(side)
        ids, features = (self.users, matrix.row_features) if side == "user" else (self.items, matrix.column_features)
        words: Mapping[str, ReadableColumn]
        if isinstance(source, Mapping):
            told: Any = list(source)
            vectors = np.array([learned.encode(about) for about in source.values()], np.float32)
            vectors = vectors.reshape(len(source), learned.width)
            words = learned.in_words(list(source.values()))
        else:
            described = learned.encode_table(source, unmentioned=np.nan)
            told, vectors, words = described.ids.array(), described.values, described.readable
        known = ids.find(told)
        # A table may say nothing of tags, say: what is known of them stays, and of new ones nothing is known.
        before = np.where((known >= 0)[:, None], features.values[known], np.float32(0)) if len(known) else vectors
        return ids.add(told), np.where(np.isnan(vectors), before, vectors), words

    def _taken_in(self, read: Ratings) -> tuple[Ints, Ints]:
        """Indices (n,) of users and items, new ones too; an id without a rating here stays as unknown as it was."""
        rated_users, user_place = np.unique(read.user_index, return_inverse=True)
        rated_items, item_place = np.unique(read.item_index, return_inverse=True)
        users = self.users.add(read.users.array()[rated_users])[user_place]
        items = self.items.add(read.items.array()[rated_items])[item_place]
        self.titles |= {self.items.own(item): title for item, title in read.titles.items() if item in self.items}
        return users, items

    def _tell_scorer(self, users: Iterable[Any], items: Iterable[Any]) -> None:
        self.scorer.changed({int(user) for user in users}, {int(item) for item in items})

    def _check_whole(self) -> None:
        if self.part is not None:
            raise DataError(
                f"this is {self.part} of a model in shards, to be asked, and neither changed nor saved", "load it whole"
            )

    # On disk

    def save(self, folder: Path | str, *, shards: int | Sequence[int] | None = None) -> None:
        """Write the model into a folder, whole or not at all; an older model there is replaced.

        With `shards` it is cut by the columns of its network, which are users with orientation "item": into so many
        shards with about as many ratings each, or at these columns. `load` takes either form, and a part of the
        latter.
        """
        self._check_whole()
        self.matrix  # noqa: B018  # a model that is not fitted says so before anything is written
        if shards is None:
            write_model(Path(folder), contents_of(self))
        else:
            save_in_shards(Path(folder), divided(self), shards)

    @classmethod
    def load(cls, folder: Path | str, *, part: int | None = None) -> Self:
        """A model from its folder, checked. Its arrays are mapped: processes that load the same model share them.

        Of a model in shards, `part` is one of them: it predicts and recommends for its users as the whole model does,
        and takes up no more memory than that. To it, all others are users whom it has never seen. It cannot change:
        ratings are added to a whole model.
        """
        model = read_model(Path(folder), cls, part)
        if not isinstance(model, cls):
            raise ModelFileError(
                f"{folder}: this is a model of the algorithm {model.kind!r}, not a {cls.__name__}; "
                f"load it with {type(model).__name__}.load, or with Recommender.load"
            )
        return model
