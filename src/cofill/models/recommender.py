"""A model as people use it, in their own ids: fit, predict, recommend, similar, explain, follow ratings, save, load.

`CFN`, `Means`, `ListModel` and the baselines are recommenders: each says how it learns, and leaves behind a `Predictor`
of users x items that predicts, and a `ListScorer` that ranks. An algorithm of another package is a subclass with
`kind`, `settings_class`, `_learn`, `_state_dict` and `_load_state_dict`; docs/how-to/own-algorithm.md shows one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, Unpack, cast, get_args, overload

import numpy as np

from cofill.arrays import Arrays, Bools, Doubles, Floats, Ints, Longs
from cofill.config import Goal, ListSettings, Settings
from cofill.data.attributes import Attributes
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.features import Features, ReadableColumn
from cofill.data.interactions import NO_WEIGHT, Interactions
from cofill.data.pairs import read_pairs
from cofill.data.ratings import Ratings, Scale
from cofill.data.sparse import KnownRatings
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, NotFittedError, SettingsError, UnknownIdError
from cofill.exchange import ALONE, Exchange
from cofill.models.lists.feedback import (
    HIGHEST_WEIGHT,
    Feedback,
    GradedRatings,
    Grades,
    Recency,
    Sequences,
    joined,
    time_decay,
)
from cofill.models.lists.item_weights import FitOptions, Penalties
from cofill.models.lists.next import NextScorer, fit_scorer
from cofill.models.lists.rules import By, Catalogue, Rules, Selection, SimilarRules
from cofill.models.lists.scorer import About, KeysOfSides, ListScorer, Sides
from cofill.models.persistence import PartInfo, read_model, save
from cofill.models.persistence import State as State  # which an algorithm of another package returns
from cofill.models.predictor import STRANGER, Given, Predictor, Shares
from cofill.models.results import (
    BestItems,
    Contribution,
    EpochRecord,
    Explanation,
    ItemPlaces,
    Predicted,
    RankedList,
    Recommendation,
    Similar,
    UnknownUsers,
    UserLists,
    check_count,
    most_rated,
    placed,
    users_asked,
)
from cofill.progress import Done, Progress, Step, unseen
from cofill.threads import on_all_cores

# A lower bound of a rating is its prediction less so many standard errors of the item's mean, which has as many
# ratings as the item, and a few that everything is thought to have.
_STANDARD_ERRORS = 1.64
_RATINGS_BEFORE = 7.0
_USERS_AT_ONCE = 64  # that a thread makes the lists of
_LEAST_LENGTH = 1e-12  # of a vector: its square is still a number in single precision

Side = Literal["user", "item"]
Time = datetime | float
"""A moment, or Unix seconds."""


def seconds(moment: Time) -> float:
    """Unix seconds; a datetime without a time zone is in UTC."""
    if not isinstance(moment, datetime):
        return float(moment)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


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
        self._predictor: Predictor | None = None
        self._scorer: ListScorer | None = None

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings.unusual().items())
        state = f"{len(self.users)} users, {len(self.items)} items" if self._predictor else "not fitted"
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
        if settings and self._predictor is not None:
            raise SettingsError("cannot change settings of a fitted model; set those of sklearn.base.clone(model)")
        self._settings = self._settings.changed(settings)
        return self

    def __sklearn_clone__(self) -> Self:
        """What `sklearn.base.clone` gives: a model that is not fitted, with the same settings."""
        return type(self)(self._settings)

    # What an algorithm says

    @abstractmethod
    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Predictor:
        """The predictor of users x items, in the order of the ids of `data.ratings`; sets `history` and `measures`."""

    @abstractmethod
    def _state_dict(self) -> State:
        """What a model folder stores of a fitted model."""

    @abstractmethod
    def _load_state_dict(
        self, state: State, scale: Scale, users: SideFeatures | None, items: SideFeatures | None
    ) -> Predictor:
        """The predictor from what a folder stored; settings and ids are there already, features where there were any.

        Arrays are mapped from the file: what is written to them stays with this process.
        """

    def _fit_scorer(self, feedback: Feedback, done: Done) -> ListScorer:
        """What scores items for lists, from what users did; an algorithm that ranks in its own way has another."""
        return self._linear_scorer(feedback, done)

    def _linear_scorer(
        self,
        feedback: Feedback,
        done: Done,
        *,
        sides: Sides | None = None,
        keys: KeysOfSides | None = None,
        exchange: Exchange = ALONE,
    ) -> ListScorer:
        """With the features and keys of this model's users and items, unless others are given. Other processes may
        have other users; all of them come to the same weights.
        """
        own = self._list_settings
        if own.list_goal == "next" and feedback.sequences is None:
            raise DataError("list_goal 'next' needs the order of what people did; there are no times", "leave it out")
        scorer, choice = fit_scorer(
            feedback,
            sides or self._sides,
            Penalties(own.list_rank, own.list_penalty, popularity=own.popularity_discount),
            FitOptions(own.seed, getattr(self._settings, "threads", 0), done, exchange),
            keys or KeysOfSides(self.users.keys(), self.items.keys()),
            own.list_goal,
        )
        if choice is not None:
            self.data_summary["lists"] = str(choice)
        return scorer

    def _load_scorer(self, arrays: Arrays, feedback: Feedback) -> ListScorer:
        return NextScorer.restored(arrays, feedback, self._sides)

    def facts(self) -> list[tuple[str, str]]:
        """Facts about the algorithm for the report: name and value."""
        return []

    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(array.size for array in self._state_dict().weights.values())

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

        `item_features` and `user_features` are Features, or anything that `Features.read` takes by itself. Ids with
        features and without a rating are cold: the model predicts and ranks them by their features.

        `interactions` are what the same users did beside rating, Interactions or anything that `Interactions.read`
        takes: lists learn from both. Interactions alone are given as `ratings`, if the algorithm takes them.

        `progress` is called with a `Step` at every step. `checkpoint` names a file from which a killed run goes on
        with `resume=True`; remove it once the model is saved. With a `cluster`, a `cofill.Cluster`, several workers
        fit the same model, and keep checkpoints of their own.
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
        more = data.interactions
        decay, decay_beside = self._decay(data.ratings), None if more is None else self._decay(more)
        tell = progress or unseen
        predictor = self._learn(data, Fitting(tell, Path(checkpoint) if checkpoint else None, resume))
        self.users, self.items = data.ratings.users.copy(), data.ratings.items.copy()
        self.titles, self.data_summary = dict(data.ratings.titles), data.summary
        if self.follows_features:
            self.user_features, self.item_features = data.about_users, data.about_items
        self.item_attributes = Attributes.of_features(self.items, data.about_items)
        self._predictor, self.item_places, self.part = predictor, None, None
        beside = None
        if more is not None:
            known = KnownRatings(more.rows("user"), more.rows("item"))
            beside = GradedRatings.of(known, self._grades(more.scale, rated=False), decay_beside)
        feedback = self._feedback(decay, beside)
        feedback.sequences = Sequences.of(data.ratings, more)
        self._scorer = self._fit_scorer(feedback, lambda share: tell(Step("fitting the list scorer", share, 1.0, 1.0)))
        if not self._scorer.follows_order:
            feedback.sequences = None
        self.trained = datetime.now(UTC)
        return self

    @property
    def _sides(self) -> Sides:
        return Sides(self.predictor.user_features, self.predictor.item_features)

    @property
    def _list_settings(self) -> ListSettings:
        return self._settings if isinstance(self._settings, ListSettings) else ListSettings(seed=self._settings.seed)

    def _feedback(self, decay: Floats | None, beside: GradedRatings | None) -> Feedback:
        """What users did, from the known ratings and their time decay, and from interactions beside them."""
        grades = self._grades(self.scale, rated=self.rated)
        return Feedback(GradedRatings.of(self.predictor.known, grades, decay), beside)

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
    def predictor(self) -> Predictor:
        """Users x items, filled in, in indices of the vocabularies."""
        if self._predictor is None:
            name = type(self).__name__
            raise NotFittedError(f"this model is not fitted yet; call fit(ratings) first, or {name}.load(folder)")
        return self._predictor

    @property
    def scorer(self) -> ListScorer:
        """What scores items for lists."""
        self.predictor  # noqa: B018  # a model that is not fitted says so
        assert self._scorer is not None
        return self._scorer

    @property
    def scale(self) -> Scale:
        """The least and the greatest rating."""
        return self.predictor.scale

    @property
    def rated(self) -> bool:
        """Whether it was trained on ratings; otherwise on interactions, and then there are lists and no ratings."""
        return bool(self.data_summary.get("rated", True))

    @property
    def has_intervals(self) -> bool:
        """Whether the model knows how far off its predictions may be."""
        unknown = np.array([-1], np.int32)
        return self.rated and self.predictor.interval_radius(unknown, unknown, np.zeros(1, np.float32)) is not None

    def item_counts(self) -> Longs:
        """(items,): ratings of each item."""
        return self.predictor.item_counts

    def user_counts(self) -> Longs:
        """(users,): ratings of each user."""
        return self.predictor.user_counts

    def known_items(self, user: int) -> Ints:
        """Indices of what a user, given by index, has rated or done something with."""
        return self.scorer.feedback.items_of(user)

    def known_pairs(self, ratings: Ratings) -> int:
        """How many of these pairs of user and item have a known rating."""
        users = self.users.find(ratings.users.ids)[ratings.user_index]
        items = self.items.find(ratings.items.ids)[ratings.item_index]
        return int(self.predictor.known.contains(users, items).sum())

    def item_vectors(self) -> Floats:
        """(items, width): item embeddings, of the predictor, or of the list scorer where the predictor has none."""
        vectors = self.predictor.item_vectors()
        of_lists = None if vectors.shape[1] else self.scorer.item_vectors()
        return vectors if of_lists is None else of_lists

    def draw_map(self, progress: Progress | None = None) -> ItemPlaces:
        """Place the most rated items (at most 1,500) in two dimensions (t-SNE), similar items close together.

        It takes seconds, and is saved with the model, for the page of `cofill serve`.
        """
        vectors, tell = self.item_vectors(), progress or unseen
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
        `with_interval` also the prediction intervals, in which nine tenths of the true ratings are expected.
        """
        indices = self._pair_indices(pairs)
        return self.predict_intervals(*indices) if with_interval else self.predict_indices(*indices)

    def predict_indices(self, users: Ints, items: Ints) -> Floats:
        """As `predict`, for indices of this model's vocabularies; -1 is an unknown id."""
        if not self.rated:
            raise DataError("this model was trained on interactions, so it knows no ratings to predict; ask for lists")
        return self._clipped(self.predictor.entries(users, items))

    def predict_intervals(self, users: Ints, items: Ints) -> Predicted:
        """As `predict` with intervals, for indices of this model's vocabularies; -1 is an unknown id."""
        ratings = self.predict_indices(users, items)
        radius = self.predictor.interval_radius(users, items, ratings)
        if radius is None:
            raise DataError(
                f"a model of {self.kind!r} does not know how far off its predictions are",
                "train a CFN with the decoder process, which is the default",
            )
        return Predicted(ratings, self._clipped(ratings - radius), self._clipped(ratings + radius))

    def _clipped(self, ratings: Floats) -> Floats:
        return np.clip(ratings, np.float32(self.scale.low), np.float32(self.scale.high))

    def _pair_indices(self, pairs: object) -> tuple[Ints, Ints]:
        """Indices (n,) of users and of items; -1 is an unknown id."""
        users, items = read_pairs(pairs)
        return self.users.find(users), self.items.find(items)

    # Users who are asked about

    def _given(
        self,
        user: Id | Mapping[Any, float],
        features: Mapping[str, object] | None,
        times: Mapping[Any, Time] | None = None,
        at: Time | None = None,
    ) -> Given:
        """A user, given as to `recommend`."""
        now = None if at is None else seconds(at)
        if isinstance(user, Mapping):
            return self._new_user(user, features, times)._replace(at=now)
        if times is not None:
            raise DataError(f"times are those of a new user, and {user!r} is an id", "leave them out")
        if features is not None:
            raise DataError(
                f"features describe a new user, and {user!r} is an id; give ratings with them, or {{}}, "
                f"or describe the user with describe_users first"
            )
        index, about = int(self.users.find([user])[0]), self.predictor.user_features
        if index < 0:
            return STRANGER._replace(at=now)
        vector = about.values[index] if about.width and about.described[index] else None
        return Given(*self.predictor.known.row(index), vector, number=index, at=now)

    def _new_user(
        self,
        ratings: Mapping[Any, float],
        features: Mapping[str, object] | None,
        times: Mapping[Any, Time] | None,
    ) -> Given:
        """A user with these ratings {item: rating}, in their order or by their times, and features.

        Weights of interactions count up to the greatest.
        """
        if features is not None and not self.follows_features:
            raise DataError(f"a model of {self.kind!r} cannot use the features of a new user; leave them out")
        low, high = self.scale
        most = high if self.rated else np.inf
        for item, rating in ratings.items():
            if not isinstance(rating, int | float | np.number) or not low <= rating <= most:
                wanted = f"the rating of item {item!r} must be between {low:g} and {high:g}"
                if not self.rated:
                    wanted = f"the weight of item {item!r} must be a number of at least {low:g}"
                raise DataError(f"{wanted}. Got {rating!r}")
        indices = self._item_indices(ratings, "check the id, or leave it out")
        if len(np.unique(indices)) < len(indices):
            raise DataError(f"an item is rated twice among {list(ratings)}; keep one rating of each")
        if times is not None and times.keys() != ratings.keys():
            raise DataError("the times are of other items than the ratings", "give the time of each")
        order, values = np.argsort(indices), np.array(list(ratings.values()), np.float32)
        about = None if features is None else self._learned("user").encode(features)
        given = Given(indices[order], np.minimum(values, np.float32(high))[order], about, places=order)
        if times is None:
            return given
        when = np.array([seconds(times[item]) for item in ratings], np.float64)
        places = np.argsort(np.argsort(when, kind="stable"), kind="stable")
        return given._replace(places=places[order], times=when[order])

    def _item_indices(self, items: Iterable[Id], remedy: str = "check the id") -> Ints:
        wanted = list(items)
        indices = self.items.find(wanted)
        if (indices < 0).any():
            raise UnknownIdError(f"item {wanted[int(np.argmin(indices))]!r} is not in the model; {remedy}")
        return indices

    def _learned(self, side: Side) -> Features:
        """The features of users or items, as encoded in training."""
        if not self.follows_features:
            raise DataError(f"a model of {self.kind!r} cannot be told about {side}s by features; train a CFN for that")
        learned = self.user_features if side == "user" else self.item_features
        if learned is None:
            raise DataError(
                f"the model was trained without features of {side}s, so it cannot make use of any; "
                f"train it with {side}_features=..."
            )
        return learned

    # Scores, which lists are ranked by

    def score(
        self,
        user: Id | Mapping[Any, float],
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
        times: Mapping[Any, Time] | None = None,
        at: Time | None = None,
    ) -> Floats:
        """(items,): the list scores of all items for a user given as to `recommend`, or their predicted ratings.

        Ratings are clipped to the scale; they are not the lower bounds that `recommend` ranks by.
        """
        self._check_by(by)
        given = self._given(user, features, times, at)
        return self._scores(given, by) if by == "list" else self._clipped(self.predictor.of(given))

    @property
    def follows_order(self) -> bool:
        """Whether its lists look at the order and the time of what users did."""
        return self.scorer.follows_order

    def user_scores(
        self, users: Longs, *, by: By = "list", at: Doubles | None = None, goal: Goal | None = None
    ) -> Floats:
        """(n, items): what lists of users, given by index, are ranked by, without rules; unrated items come last.

        `at` (n,) are the times of the requests, in Unix seconds. With the goal "any" order and time do not count.
        """
        return self._unrated_last(self._scores_of_users(users, by, at, goal))

    def new_user_scores(
        self,
        items: Ints,
        ratings: Floats,
        *,
        by: By = "list",
        times: Doubles | None = None,
        at: float | None = None,
        goal: Goal | None = None,
    ) -> Floats:
        """(items,): what the list of a new user with these ratings of items, given by index, is ranked by.

        Items are in the order in which they were done, at these times (n,), before the request `at`.
        """
        order = np.argsort(items)
        given = Given(items[order], ratings[order], places=order, at=at)
        if times is not None:
            given = given._replace(times=times[order])
        return self._unrated_last(self._scores(given, by, goal))

    def latest_times(self, users: Longs) -> Doubles:
        """(n,): when users, given by index, last did something; -infinity if they did nothing, or are unknown (-1)."""
        assert self.scorer.feedback.sequences is not None
        return self.scorer.feedback.sequences.latest(users)

    def sequence(self, user: int) -> tuple[Ints, Floats, Doubles]:
        """Items, ratings and times of what a user, given by index, did, in its order if the model follows it."""
        (items, ratings), sequences = self.predictor.known.row(user), self.scorer.feedback.sequences
        if sequences is None:
            return items, ratings, np.zeros(len(items))
        order, times = sequences.order_of(user, items)
        return items[order], ratings[order], times[order]

    def stranger_scores(self, *, by: By = "list") -> Floats:
        """(items,): what the list of an unknown user is ranked by."""
        return self._unrated_last(self._scores(STRANGER, by))

    def _scores(self, given: Given, by: By, goal: Goal | None = None) -> Floats:
        """(items,): what the list of a user is ranked by; with the goal "any" without order and time."""
        if by == "rating":
            return self._lower_bound(self.predictor.of(given))
        about = None if given.features is None else About(given.features[None], np.ones(1, np.bool_))
        return self.scorer.one(*self._done_by(given), about, None if goal == "any" else self._recency(given))

    def _scores_of_users(self, users: Longs, by: By, at: Doubles | None = None, goal: Goal | None = None) -> Floats:
        """(n, items): the same for some users, given by index, at these times (n,), the latest known by default."""
        if by == "rating":
            return self._lower_bound(self.predictor.users(users))
        of_users = self.predictor.user_features
        about = About(of_users.values[users], of_users.described[users]) if of_users.width else None
        done, sequences = self.scorer.feedback.rows(users), self.scorer.feedback.sequences
        recent = None if sequences is None or goal == "any" else sequences.recency(users, done, at)
        return self.scorer.of_people(done, about, recent)

    def _recency(self, given: Given) -> Recency | None:
        """In which order and when a user did what `_done_by` has; None where lists do not follow that."""
        sequences = self.scorer.feedback.sequences
        if sequences is None:
            return None
        if given.number < 0:
            places = np.arange(len(given.others)) if given.places is None else given.places
            return sequences.of_new_user(places, given.times, given.at)
        at = None if given.at is None else np.array([given.at])
        return sequences.recency(np.array([given.number]), joined([self._done_by(given)], len(self.items)), at)

    def _done_by(self, given: Given) -> tuple[Ints, Floats]:
        """Items and grades of what a user did."""
        feedback = self.scorer.feedback
        if given.number >= 0:
            return feedback.row(given.number)
        return given.others, feedback.main.grades.of(given.ratings)

    def _lower_bound(self, predicted: Floats) -> Floats:
        """(..., items): ratings less what is uncertain of them, from how many ratings an item has."""
        error = self.predictor.known.spread() / np.sqrt(self.item_counts() + _RATINGS_BEFORE)
        lower: Floats = predicted - (_STANDARD_ERRORS * error).astype(np.float32)
        return lower

    def raters(self) -> Longs:
        """(items,): how many users rated each item, or did something with it, whichever are more."""
        counts, beside = self.item_counts(), self.scorer.feedback.beside
        if beside is None:
            return counts
        found, others = counts.copy(), beside.known.column_counts
        found[: len(others)] = np.maximum(found[: len(others)], others)
        return found

    def _unrated_last(self, scores: Floats) -> Floats:
        """(..., items): scores (changed in place) in which items without a rating are below all others."""
        unrated = self.raters() == 0
        if unrated.any() and not unrated.all():
            above = scores[..., unrated].max(-1, keepdims=True) - scores[..., ~unrated].min(-1, keepdims=True)
            scores[..., unrated] -= np.maximum(above, 0) + 1
        return scores

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
        times: Mapping[Any, Time] | None = None,
        at: Time | None = None,
        exclude_known: bool = True,
        **rules: Unpack[Rules],
    ) -> RankedList[Recommendation]:
        """The n items that a user would choose and like, best first.

        `user` is an id, or the ratings {item: rating} of a new user, described by `features` {column: value} or not;
        {} with features is a user without ratings. An unknown id gets the list of a user without ratings.

        Where lists follow order and time, the ratings of a new user are in the order in which they were given, just
        now or at `times` {item: time}. `at` is the time of the request: the latest time known, by default.

        `by="rating"` ranks by a lower bound of the predicted rating, so that an item with few ratings does not stand
        above one that thousands love. Items without a rating come last, unless `new_items` gives them places. All
        rules are those of `Rules`: among, where, exclude, min_ratings, boost, at_most, diversity, new_items.
        """
        check_count(n)
        self._check_by(by)
        if isinstance(user, Iterable) and not isinstance(user, str | Mapping):
            raise DataError("recommend is about one person, and this may be several", "ask recommend_many about them")
        given, selection = self._given(user, features, times, at), self._selection(by, rules)
        known = self.known_items(given.number) if given.number >= 0 else given.others
        scores = self._scores(given, by)
        best = np.array(selection.best(scores, known if exclude_known else known[:0], n), np.int32)
        ratings = self._clipped(self.predictor.at(given, best)) if self.rated else None
        found = BestItems(np.array([len(best)]), best, scores[best], ratings, self.raters()[best])
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

        Each is the list of `recommend`, by the same rules; they are made in batches of bounded memory. An unknown id is
        an error; `unknown_users="popular"` gives it the list of a user without ratings, and `"skip"` leaves it out,
        with a warning. `progress` is called with a `Step` after each batch.
        """
        check_count(n)
        self._check_by(by)
        self.predictor  # noqa: B018  # a model that is not fitted says so now, not at the first answer
        ids, indices = users_asked(users, self.users, unknown_users)
        selection, size = self._selection(by, rules), len(self.items)

        def best(some: Longs) -> BestItems:
            if len(self.items) != size:
                raise DataError("the model has more items than when these lists were asked for", "ask for them again")
            return self._best_of_users(some, n, by, exclude_known, selection)

        return UserLists(self, ids, indices, best, progress)

    def _best_of_users(self, users: Longs, n: int, by: By, exclude_known: bool, selection: Selection) -> BestItems:
        """The lists of some users, given by index; -1 is an unknown user."""
        feedback, strangers = self.scorer.feedback, users < 0
        self.scorer.up_to_date()  # before threads ask

        def lists(some: Longs) -> list[tuple[Ints, Floats]]:
            scores = self._scores_of_users(some, by)
            picked = selection.best_of_many(scores, feedback.rows(some) if exclude_known else None, n)
            return [(items, own[items]) for items, own in zip(picked, scores, strict=True)]

        known = users[~strangers]
        # The predictions of a network use all cores by themselves.
        parts = np.array_split(known, -(-len(known) // _USERS_AT_ONCE)) if by == "list" and len(known) else [known]
        found = [one for part in on_all_cores(lists, parts) for one in part]
        if strangers.any():
            scores = self._scores(STRANGER, by)
            items = np.array(selection.best(scores, STRANGER.others, n), np.int32)
            of_known = iter(found)
            found = [(items, scores[items]) if new else next(of_known) for new in strangers.tolist()]
        lengths = np.array([len(items) for items, _ in found], np.int64)
        items = np.concatenate([STRANGER.others, *(items for items, _ in found)])
        chosen = np.concatenate([STRANGER.ratings, *(scores for _, scores in found)])
        ratings = self.predict_indices(np.repeat(users, lengths).astype(np.int32), items) if self.rated else None
        return BestItems(lengths, items, chosen, ratings, self.raters()[items])

    def _selection(self, by: By, rules: Rules) -> Selection:
        """Rules worked out for the items as they are now."""
        vectors = None
        if rules.get("diversity"):
            of_lists = self.scorer.item_vectors()
            vectors = self.item_vectors() if of_lists is None else of_lists
        return Catalogue(
            self.items,
            self.item_attributes,
            counts=self.raters(),
            placeable=self.predictor.item_features.described,
            vectors=vectors,
            floor=0.0 if by == "list" else self.scale.low,
        ).selection(rules)

    def similar(self, item: Id, n: int = 10, **rules: Unpack[SimilarRules]) -> RankedList[Similar]:
        """The n items most similar to this one, by cosine similarity of their embeddings.

        Items without a rating take part if they have features. The rules are those of `SimilarRules`: among, where,
        exclude, min_ratings, at_most, diversity.
        """
        check_count(n)
        index, known, vectors = self.items.index(item), self.predictor.item_known(), self.item_vectors()
        if not known[index]:
            raise UnknownIdError(f"too little is known of item {item!r} yet: nothing can be said to be like it")
        if vectors.shape[1] == 0:
            raise DataError(f"a model of {self.kind!r} knows nothing that makes one item like another; ask a CFN")
        likeness = _likeness_to(index, vectors, known)
        best = self.items_by(likeness, n, **rules)
        entries = [Similar(item, float(likeness[self.items.index(item)]), self.titles.get(item)) for item in best]
        return RankedList(entries, Similar._fields, integers=self.items.integers)

    def items_by(self, scores: Floats, n: int = 10, **rules: Unpack[SimilarRules]) -> list[Id]:
        """The n items with the greatest of your own scores (items,), within rules; -inf is in no list."""
        best = self._selection("list", cast(Rules, rules)).nearest(scores, n)  # each of the rules is one of lists
        return [self.items.id(index) for index in best]

    # Explanations

    def explain(
        self,
        user: Id | Mapping[Any, float],
        item: Id,
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
        times: Mapping[Any, Time] | None = None,
        at: Time | None = None,
    ) -> Explanation:
        """Explain the list score of an item, or its predicted rating: base + amounts + remainder = value.

        The user is given as to `recommend`. Amounts are exact for lists, which are linear in what a user did. A
        predicted rating comes with its interval, `low` to `high`, where the model has intervals. A list score that
        follows order and time has `groups`: trend, history and order, which add up to it.
        """
        return self.explain_many(user, [item], by=by, features=features, times=times, at=at, with_interval=True)[0]

    def explain_many(
        self,
        user: Id | Mapping[Any, float],
        items: Iterable[Id],
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
        times: Mapping[Any, Time] | None = None,
        at: Time | None = None,
        with_interval: bool = False,
    ) -> list[Explanation]:
        """The same for several items, which costs little more than for one, intervals aside."""
        self._check_by(by)
        given, asked = self._given(user, features, times, at), self._item_indices(items)
        columns: list[tuple[str, int]] = []
        if given.features is not None:
            columns = [column for source in self._learned("user").sources for column in source.widths()]
        given = given._replace(widths=tuple(width for _, width in columns))
        groups: list[dict[str, float] | None] = [None] * len(asked)
        if by == "list":
            value = clipped = self._scores(given, by)[asked]
            done, base, shares, groups = self._list_shares(given, asked)
        else:
            value, base = self.predictor.of(given)[asked], self.predictor.of(STRANGER)[asked]
            clipped, done, shares = self._clipped(value), given, self.predictor.user_shares(given, asked)
        radius = self.predictor.radius_at(given, asked, clipped) if with_interval and by == "rating" else None
        ends = [(None, None)] * len(asked)
        if radius is not None:
            low, high = (self._clipped(end).tolist() for end in (clipped - radius, clipped + radius))
            ends = list(zip(low, high, strict=True))
        rated = [self.items.id(item) for item in done.others.tolist()]
        sources = [
            Contribution(0.0, item, None if np.isnan(rating) else rating, self.titles.get(item))
            for item, rating in zip(rated, done.ratings.tolist(), strict=True)
        ]
        sources += [Contribution(0.0, feature=name) for name, _ in columns]
        found = []
        for place, item in enumerate(self.items.id(index) for index in asked.tolist()):
            amounts = np.append(shares.ratings[place], shares.features[place])
            order = np.argsort(-np.abs(amounts), kind="stable").tolist()
            # A column that moves nothing is one of which nothing is known.
            shown = [source for source in order if source < len(rated) or amounts[source] != 0]
            found.append(
                Explanation(
                    item=item,
                    by=by,
                    value=float(value[place]),
                    clipped=float(clipped[place]),
                    base=float(base[place]),
                    contributions=[sources[source]._replace(amount=float(amounts[source])) for source in shown],
                    remainder=float(value[place]) - float(base[place]) - float(amounts.sum()),
                    title=self.titles.get(item),
                    low=ends[place][0],
                    high=ends[place][1],
                    groups=groups[place],
                )
            )
        return found

    def _list_shares(self, given: Given, asked: Ints) -> tuple[Given, Floats, Shares, list[dict[str, float] | None]]:
        """What a user did, the scores of items for an unknown user, and how far each of it and their features move
        these; where lists follow order and time, also the groups that add up to a score.
        """
        items, grades = self._done_by(given)
        parts = self.scorer.parts_of(items, grades, asked, self._recency(given))
        features = np.zeros((len(asked), 0))
        if given.features is not None:
            features = self.scorer.feature_shares(len(items), given.features, given.widths, asked) * parts.features
        groups: list[dict[str, float] | None] = [None] * len(asked)
        if self.follows_order:
            history = parts.constant + parts.history.sum(1) + features.sum(1)
            found = zip(parts.trend.tolist(), history.tolist(), parts.order.sum(1).tolist(), strict=True)
            groups = [{"trend": trend, "history": own, "order": order} for trend, own, order in found]
        rated = dict(zip(given.others.tolist(), given.ratings.tolist(), strict=True))
        ratings = np.array([rated.get(item, np.nan) for item in items.tolist()], np.float32)
        base: Floats = (parts.trend + parts.constant).astype(np.float32)
        shares = Shares(parts.history + parts.order, features)
        return given._replace(others=items, ratings=ratings), base, shares, groups

    # What happens after the training

    def add_ratings(self, ratings: object) -> Self:
        """Add or replace ratings of known or new users and items; predictions follow at once, by fold-in.

        `ratings` is anything that `Ratings.read` takes. A rating replaces an earlier one of the same pair.
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
        self.predictor.add(users, items, read.values)
        self._follow(read, users, items)
        self._tell_scorer(users, items)
        return self

    def add_interactions(self, interactions: object, *, replacing: bool = False) -> Self:
        """Add what known or new users did with known or new items; lists follow at once.

        `interactions` is anything that `Interactions.read` takes. Weights of the same pair add up, to at most the
        greatest weight of the training. With `replacing`, they replace all weights added to these pairs since the
        training, so that adding the same again changes nothing; a pair whose weights add up to 0 or less is removed.

        A model of ratings keeps them beside these, and its predictions stay. If it was trained on ratings alone, a
        weight of 5 or more counts for lists as the highest rating does, and less as a lower one.
        """
        self._check_whole()
        read = interactions if isinstance(interactions, Interactions) else Interactions.read(interactions)
        users, items = self._taken_in(read)
        feedback = self.scorer.feedback
        if self.rated and feedback.beside is None:
            trained = self.predictor.known.trained
            none = KnownRatings.none(trained.rows, trained.columns)
            feedback.beside = GradedRatings(none, self._grades(Scale(0.0, HIGHEST_WEIGHT), rated=True))
        graded = feedback.beside if self.rated else feedback.main
        assert graded is not None
        weights = graded.added_up(users, items, read.values, to_training=replacing)
        self.predictor.grow(len(self.users), len(self.items))
        changed, there = graded.known if self.rated else self.predictor, weights > NO_WEIGHT
        changed.add(users[there], items[there], weights[there])
        changed.remove(users[~there], items[~there])
        self._follow(read, users, items, replacing=replacing)
        if feedback.sequences is not None:
            for user, item in zip(users[~there].tolist(), items[~there].tolist(), strict=True):
                feedback.sequences.remove(user, item, beside=self.rated)
        self._tell_scorer(users, items)
        return self

    def remove_ratings(self, pairs: object) -> Self:
        """Remove ratings, whether trained on or added later: predictions follow at once.

        `pairs` of user and item are anything that `predict` takes; those without a rating change nothing. Ids stay
        known, and interactions beside ratings stay: to take back a rating does not undo a purchase.
        """
        self._check_whole()
        users, items = self._pair_indices(pairs)
        seen = (users >= 0) & (items >= 0)
        self.predictor.remove(users[seen], items[seen])
        feedback = self.scorer.feedback
        if feedback.sequences is not None:
            for user, item in zip(users[seen].tolist(), items[seen].tolist(), strict=True):
                feedback.sequences.remove(user, item)
        self._tell_scorer(users[seen], items[seen])
        return self

    def add_items(self, items: Iterable[Id]) -> Self:
        """Make items known of which nothing else is known yet: neither ratings nor features."""
        self._check_whole()
        known = len(self.items)
        self.items.add(items)
        self.predictor.grow(len(self.users), len(self.items))
        self._tell_scorer((), range(known, len(self.items)))
        return self

    def forget_users(self, users: Iterable[Id]) -> Self:
        """Remove ratings, interactions and features of users, trained on or added later. Unknown ids are ignored.

        From then on they are users without ratings, and lists and predictions of others follow. What the model learned
        from them in training stays until the next training.
        """
        self._check_whole()
        indices = self.users.find(list(users))
        indices = np.unique(indices[indices >= 0])
        predictor, feedback = self.predictor, self.scorer.feedback
        done = [feedback.items_of(user) for user in indices.tolist()]
        pairs = np.repeat(indices, list(map(len, done))), np.concatenate([STRANGER.others, *done])
        predictor.remove(*pairs)
        for graded in feedback.sources:
            graded.known.remove(*pairs)
            graded.forgotten.update(indices.tolist())
        if feedback.sequences is not None:
            for user in indices.tolist():
                feedback.sequences.forget(user)
        width = predictor.user_features.width
        if width and len(indices):
            predictor.describe_users(indices, np.full((len(indices), width), np.nan, np.float32))
        self._tell_scorer(indices, pairs[1])
        return self

    def describe_items(self, source: object) -> Self:
        """Set the features of known or new items, by the columns of the training; predictions follow at once.

        `source` is {item: {column: value}}, or a table that has these columns: a file or a frame.
        """
        self._check_whole()
        indices, vectors, words = _described(source, self._learned("item"), self.items, self.predictor.item_features)
        self.predictor.describe_items(indices, vectors)
        self.item_attributes.describe(indices, words)
        self._tell_scorer((), indices)
        return self

    def describe_users(self, source: object) -> Self:
        """Set the features of known or new users, by the columns of the training; predictions follow at once.

        `source` is {user: {column: value}}, or a table that has these columns: a file or a frame.
        """
        self._check_whole()
        indices, vectors, _ = _described(source, self._learned("user"), self.users, self.predictor.user_features)
        self.predictor.describe_users(indices, vectors)
        return self

    def _taken_in(self, read: Ratings) -> tuple[Ints, Ints]:
        """Indices (n,) of users and items, new ones too; ids that have no rating here are not added."""
        if self.scorer.feedback.sequences is not None and read.times is not None:
            self.scorer.feedback.sequences.check(read.times)
        rated_users, user_place = np.unique(read.user_index, return_inverse=True)
        rated_items, item_place = np.unique(read.item_index, return_inverse=True)
        users = self.users.add(read.users.array()[rated_users])[user_place]
        items = self.items.add(read.items.array()[rated_items])[item_place]
        self.titles |= {self.items.own(item): title for item, title in read.titles.items() if item in self.items}
        return users, items

    def _follow(self, read: Ratings, users: Ints, items: Ints, *, replacing: bool = True) -> None:
        """Tell the scorer in which order and when these things were done, if it looks at that."""
        if self.scorer.feedback.sequences is not None:
            order = np.argsort(read.places(), kind="stable")
            times = None if read.times is None else read.times[order].astype(np.float64)
            beside = self.rated and not read.rated
            self.scorer.feedback.sequences.add(users[order], items[order], times, beside=beside, replacing=replacing)

    def _tell_scorer(self, users: Iterable[Any], items: Iterable[Any]) -> None:
        self.scorer.changed({int(user) for user in users}, {int(item) for item in items})

    def _check_whole(self) -> None:
        if self.part is not None:
            raise DataError(
                f"this is {self.part} of a model in shards, to be asked, and neither changed nor saved", "load it whole"
            )

    # On disk

    def save(self, folder: Path | str, *, shards: int | None = None) -> None:
        """Write the model into a folder, whole or not at all; an older model there is replaced.

        With `shards` it is cut by the columns of its network, which are users with orientation "item", into so many
        shards of about the same size. `load` takes either form, and a part of the latter.
        """
        self._check_whole()
        self.predictor  # noqa: B018  # a model that is not fitted says so before anything is written
        save(Path(folder), self, shards)

    @classmethod
    def load(cls, folder: Path | str, *, part: int | None = None) -> Self:
        """A model from its folder, checked. Its arrays are mapped: processes that load the same model share them.

        Of a model in shards, `part` is one of them, in no more memory than that. It predicts and recommends for its
        users as the whole model does; all others are new users to it. It can be neither changed nor saved.
        """
        model: Self = read_model(Path(folder), cls, part)
        return model


def _likeness_to(index: int, vectors: Floats, known: Bools) -> Floats:
    """(n,): the cosine of vectors (n, width), about the mean of the known ones, to one; -inf of that and of unknown."""
    centred = vectors - vectors[known].mean(0)
    norms = np.maximum(np.linalg.norm(centred, axis=1), np.float32(_LEAST_LENGTH))
    likeness: Floats = centred @ centred[index] / (norms * norms[index])
    likeness[~known] = likeness[index] = -np.inf
    return likeness


def _described(
    source: object, learned: Features, ids: Vocabulary, features: SideFeatures
) -> tuple[Ints, Floats, Mapping[str, ReadableColumn]]:
    """Indices (n,), features (n, width) and their words, from {id: {column: value}} or a table. New ids are added."""
    words: Mapping[str, ReadableColumn]
    if isinstance(source, Mapping):
        named: Any = list(source)
        vectors = np.array([learned.encode(about) for about in source.values()], np.float32)
        vectors, words = vectors.reshape(len(source), learned.width), learned.in_words(list(source.values()))
    else:
        read = learned.encode_table(source, unmentioned=np.nan)
        named, vectors, words = read.ids.array(), read.values, read.readable
    known = ids.find(named)
    # A table may say nothing of tags, say: what is known of them stays, and of new ones nothing is known.
    before = np.where((known >= 0)[:, None], features.values[known], np.float32(0)) if len(known) else vectors
    return ids.add(named), np.where(np.isnan(vectors), before, vectors), words
