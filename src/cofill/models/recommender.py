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

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.config import Goal, ListSettings, Settings
from cofill.data.attributes import Attributes
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.features import Features
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, ModelFileError, NotFittedError, SettingsError, UnknownIdError
from cofill.exchange import ALONE, Exchange
from cofill.models.lists.feedback import HIGHEST_WEIGHT, Feedback, GradedRatings, Grades, time_decay
from cofill.models.lists.gram import Done
from cofill.models.lists.item_weights import Penalties
from cofill.models.lists.next import NextScorer, fit_scorer
from cofill.models.lists.rules import By, Rules, Selection, SimilarRules
from cofill.models.lists.scorer import KeysOfSides, LinearScorer, ListScorer, SequentialScorer, Sides
from cofill.models.lists.sequences import Sequences
from cofill.models.observed import KnownRatings
from cofill.models.persistence import Arrays, PartInfo, read_model
from cofill.models.persistence import State as State  # which an algorithm of another package returns
from cofill.models.predictor import Predictor
from cofill.models.results import (
    BestItems,
    EpochRecord,
    Explanation,
    Given,
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
from cofill.models.scoring import STRANGER, Scoring, described, likeness_to, pair_indices, taken_in
from cofill.models.shards import save
from cofill.progress import Progress, Step, unseen

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
        own = self._list_settings
        if own.list_goal == "next" and feedback.sequences is None:
            raise DataError("list_goal 'next' needs the order of what people did; there are no times", "leave it out")
        scorer, choice = fit_scorer(
            feedback,
            self._sides,
            Penalties(own.list_rank, own.list_penalty, popularity=own.list_popularity),
            keys=KeysOfSides(self.users.keys(), self.items.keys()),
            goal=own.list_goal,
            seed=own.seed,
            threads=getattr(self._settings, "threads", 0),
            done=done,
        )
        if choice is not None:
            self.data_summary["lists"] = str(choice)
        return scorer

    def _load_scorer(self, arrays: Arrays, feedback: Feedback) -> ListScorer:
        return NextScorer.restored(arrays, feedback, self._sides)

    def _forecast(self, progress: Progress, data: DescribedRatings) -> Progress:
        """The same, told how long the fit will still take, where an algorithm can say."""
        return progress

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
        tell = self._forecast(progress, data) if progress is not None else unseen
        predictor = self._learn(data, Fitting(tell, Path(checkpoint) if checkpoint else None, resume))
        self.users, self.items = data.ratings.users.copy(), data.ratings.items.copy()
        self.titles, self.data_summary = dict(data.ratings.titles), data.summary
        if self.follows_features:
            self.user_features, self.item_features = data.about_users, data.about_items
        self.item_attributes = Attributes.of_features(self.items, data.about_items)
        self._predictor, self.item_places, self.part = predictor, None, None
        beside, more = None, data.interactions
        if more is not None:
            known = KnownRatings(more.rows("user"), more.rows("item"))
            beside = GradedRatings.of(known, self._grades(more.scale, rated=False), self._decay(more))
        feedback = self._feedback(self._decay(data.ratings), beside)
        feedback.sequences = Sequences.of(data.ratings, more)
        self._scorer = self._fit_scorer(feedback, lambda share: tell(Step("fitting the list scorer", share, 1.0, 1.0)))
        if not isinstance(self._scorer, SequentialScorer):
            feedback.sequences = None
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
    def _scoring(self) -> Scoring:
        return Scoring(self.predictor, self.scorer, self.items, self.rated)

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
        indices = pair_indices(pairs, self.users, self.items)
        return self.predict_intervals(*indices) if with_interval else self.predict_indices(*indices)

    def predict_indices(self, users: Ints, items: Ints) -> Floats:
        """As `predict`, for indices of this model's vocabularies; -1 is an unknown id."""
        if not self.rated:
            raise DataError("this model was trained on interactions, so it knows no ratings to predict; ask for lists")
        return self._scoring.clipped(self.predictor.entries(users, items))

    def predict_intervals(self, users: Ints, items: Ints) -> Predicted:
        """As `predict` with intervals, for indices of this model's vocabularies; -1 is an unknown id."""
        ratings = self.predict_indices(users, items)
        radius = self.predictor.interval_radius(users, items, ratings)
        if radius is None:
            raise DataError(
                f"a model of {self.kind!r} does not know how far off its predictions are",
                "train a CFN with the decoder process, which is the default",
            )
        return Predicted(ratings, *self._scoring.interval(ratings, radius))

    def quickest_order(self, users: Ints, items: Ints) -> Longs:
        """(n,): the order of pairs, given by index, in which they are predicted fastest, if in parts."""
        return self.predictor.quickest_order(users, items)

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
            if features is not None and not self.follows_features:
                raise DataError(f"a model of {self.kind!r} cannot use the features of a new user; leave them out")
            vector = None if features is None else self._learned("user").encode(features)
            when = None if times is None else {item: seconds(time) for item, time in times.items()}
            return self._scoring.new_user(user, vector, when)._replace(at=now)
        if times is not None:
            raise DataError(f"times are those of a new user, and {user!r} is an id", "leave them out")
        if features is not None:
            raise DataError(
                f"features describe a new user, and {user!r} is an id; give ratings with them, or {{}}, "
                f"or describe the user with describe_users first"
            )
        index = int(self.users.find([user])[0])
        return (STRANGER if index < 0 else self._scoring.known_user(index))._replace(at=now)

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
        given, scoring = self._given(user, features, times, at), self._scoring
        return scoring.scores(given, by) if by == "list" else scoring.clipped(scoring.ratings(given))

    @property
    def follows_order(self) -> bool:
        """Whether its lists look at the order and the time of what users did."""
        return isinstance(self.scorer, SequentialScorer)

    def user_scores(
        self, users: Longs, *, by: By = "list", at: Doubles | None = None, goal: Goal | None = None
    ) -> Floats:
        """(n, items): what lists of users, given by index, are ranked by, without rules; unrated items come last.

        `at` (n,) are the times of the requests, in Unix seconds. With the goal "any" order and time do not count.
        """
        return self._scoring.unrated_last(self._scoring.scores_of_users(users, by, at, goal))

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
        alone: Floats = self._scoring.unrated_last(self._scoring.scores(given, by, goal)[None])[0]
        return alone

    def latest_times(self, users: Longs) -> Doubles:
        """(n,): when users, given by index, last did something; -infinity if they did nothing, or are unknown (-1)."""
        assert isinstance(self.scorer, SequentialScorer)
        return self.scorer.sequences.latest(users)

    def sequence(self, user: int) -> tuple[Ints, Floats, Doubles]:
        """Items, ratings and times of what a user, given by index, did, in its order; of a model that follows it."""
        assert isinstance(self.scorer, SequentialScorer)
        items, ratings = self.predictor.known.row(user)
        order, times = self.scorer.sequences.order_of(user, items)
        return items[order], ratings[order], times[order]

    def stranger_scores(self, *, by: By = "list") -> Floats:
        """(items,): what the list of an unknown user is ranked by."""
        return self.new_user_scores(STRANGER.others, STRANGER.ratings, by=by)

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
        given = self._given(user, features, times, at)
        found = self._scoring.best_for(given, n, by, exclude_known, self._selection(by, rules))
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
        an error; `unknown_users="anybody"` gives it the list of a user without ratings, and `"skip"` leaves it out,
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
            return self._scoring.best_of_users(some, n, by, exclude_known, selection)

        return UserLists(self, ids, indices, best, progress)

    def _selection(self, by: By, rules: Rules) -> Selection:
        vectors = None
        if rules.get("diversity"):
            of_lists = self.scorer.item_vectors()
            vectors = self.item_vectors() if of_lists is None else of_lists
        return self._scoring.selection(rules, by, self.item_attributes, vectors)

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
        likeness = likeness_to(index, vectors, known)[: len(self.items)]
        best = self._selection("list", cast(Rules, rules)).nearest(likeness, n)  # each of the rules is one of lists
        entries = [Similar(other := self.items.id(i), float(likeness[i]), self.titles.get(other)) for i in best]
        return RankedList(entries, Similar._fields, integers=self.items.integers)

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
        given, wanted = self._given(user, features, times, at), list(items)
        asked = self.items.find(wanted)
        if (asked < 0).any():
            raise UnknownIdError(f"item {wanted[int(np.argmin(asked))]!r} is not in the model; check the id")
        columns: list[tuple[str, int]] = []
        if given.features is not None:
            columns = [column for source in self._learned("user").sources for column in source.widths()]
        return self._scoring.explain(given, asked, by, columns, self.titles, with_interval=with_interval)

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
        users, items = taken_in(read, self.users, self.items, self.titles)
        self.predictor.add(users, items, read.values)
        self._follow(read, users, items)
        self._tell_scorer(users, items)
        return self

    def add_interactions(self, interactions: object, *, replacing: bool = False) -> Self:
        """Add what known or new users did with known or new items; lists follow at once.

        `interactions` is anything that `Interactions.read` takes. Weights of the same pair add up, to at most the
        greatest weight of the training. With `replacing`, they replace all weights added to these pairs since the
        training, so that adding the same again changes nothing.

        A model of ratings keeps them beside these, and its predictions stay. If it was trained on ratings alone, a
        weight of 5 or more counts for lists as the highest rating does, and less as a lower one.
        """
        self._check_whole()
        read = interactions if isinstance(interactions, Interactions) else Interactions.read(interactions)
        feedback = self.scorer.feedback
        if self.rated and feedback.beside is None:
            trained = self.predictor.known.trained
            none = KnownRatings.none(trained.rows, trained.columns)
            grades = self._grades(Scale(0.0, HIGHEST_WEIGHT), rated=True)
            feedback.beside = self._feedback(None, GradedRatings.of(none, grades, None)).beside
        users, items = taken_in(read, self.users, self.items, self.titles)
        graded = feedback.beside if self.rated else feedback.main
        assert graded is not None
        weights = graded.added_up(users, items, read.values, to_training=replacing)
        if self.rated:
            self.predictor.grow(len(self.users), len(self.items))
            graded.add(users, items, weights)
        else:
            self.predictor.add(users, items, weights)
        self._follow(read, users, items)
        self._tell_scorer(users, items)
        return self

    def remove_ratings(self, pairs: object) -> Self:
        """Remove ratings, whether trained on or added later: predictions follow at once.

        `pairs` of user and item are anything that `predict` takes; those without a rating change nothing. Ids stay
        known, and interactions beside ratings stay: to take back a rating does not undo a purchase.
        """
        self._check_whole()
        users, items = pair_indices(pairs, self.users, self.items)
        seen = (users >= 0) & (items >= 0)
        self.predictor.remove(users[seen], items[seen])
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
        self._tell_scorer(indices, self._scoring.forget(indices))
        return self

    def describe_items(self, source: object) -> Self:
        """Set the features of known or new items, by the columns of the training; predictions follow at once.

        `source` is {item: {column: value}}, or a table that has these columns: a file or a frame.
        """
        self._check_whole()
        learned = self._learned("item")
        indices, vectors, words = described(source, learned, self.items, self.predictor.item_features)
        self.predictor.describe_items(indices, vectors)
        self.item_attributes.describe(indices, words)
        self._tell_scorer((), indices)
        return self

    def describe_users(self, source: object) -> Self:
        """Set the features of known or new users, by the columns of the training; predictions follow at once.

        `source` is {user: {column: value}}, or a table that has these columns: a file or a frame.
        """
        self._check_whole()
        learned = self._learned("user")
        indices, vectors, _ = described(source, learned, self.users, self.predictor.user_features)
        self.predictor.describe_users(indices, vectors)
        return self

    def _follow(self, read: Ratings, users: Ints, items: Ints) -> None:
        """Tell the scorer in which order and when these things were done, if it looks at that."""
        if isinstance(self.scorer, SequentialScorer):
            order = np.argsort(read.places(), kind="stable")
            times = None if read.times is None else read.times[order].astype(np.float64)
            self.scorer.sequences.add(users[order], items[order], times)

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
        shards with about as many ratings each. `load` takes either form, and a part of the latter.
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
        model = read_model(Path(folder), cls, part)
        if not isinstance(model, cls):
            raise ModelFileError(
                f"{folder}: this is a model of the algorithm {model.kind!r}, not a {cls.__name__}; "
                f"load it with {type(model).__name__}.load, or with Recommender.load"
            )
        return model
