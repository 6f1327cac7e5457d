"""A model as people use it, in their own ids: fit, predict, recommend, similar, explain, follow ratings, save, load.

    Recommender        settings, fit, and what an algorithm of its own says           here
    FollowingModel     ratings, interactions and descriptions that come later         following
    RecommendingModel  lists of one person and of many, similar items, explanations   recommending
    PredictingModel    predictions, intervals, scores                                 predicting
    SavedModel         the model's folder                                             keeping

`CFN` and its rivals are recommenders: each says how it learns, and leaves behind a `Matrix` of users x items to be
asked. An algorithm of somebody else's is a subclass with `kind`, `settings_class`, `_learn`, `_kept` and `_restored`;
docs/how-to/own-algorithm.md shows one.
"""

from abc import abstractmethod
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from cofill.config import ListSettings, Settings
from cofill.data.attributes import Attributes
from cofill.data.described import DescribedRatings
from cofill.data.features import Features
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, NotFittedError, SettingsError
from cofill.exchange import ALONE, Exchange
from cofill.models.file import Arrays
from cofill.models.file import Kept as Kept  # what an algorithm of somebody else's answers `_kept` with
from cofill.models.following import FollowingModel
from cofill.models.history import EpochRecord
from cofill.models.item_places import ItemPlaces
from cofill.models.known import KnownRatings
from cofill.models.lists.feedback import Feedback, GradedRatings, Grades, time_decay
from cofill.models.lists.gram import Done
from cofill.models.lists.item_weights import Penalties
from cofill.models.lists.scorer import KeysOfSides, LinearScorer, ListScorer, Sides
from cofill.models.matrix import Floats, Matrix
from cofill.progress import Progress, Step, unseen


class Fitting(NamedTuple):
    """Options of a fit: the progress callback, and the checkpoint to write and to resume from."""

    progress: Progress
    checkpoint: Path | None
    resume: bool


class FitsElsewhere(Protocol):
    """What fits a model with several workers: `cofill.Cluster`."""

    def fit(
        self,
        model: Any,
        ratings: object,
        *,
        user_features: object,
        item_features: object,
        progress: Progress,
        resume: bool,
    ) -> "Recommender":
        """A fitted model of the same class and settings."""


class Recommender(FollowingModel):
    """The interface of every algorithm: fit, predict, recommend, explain, update, save and load.

    A model is asked by one thread at a time: new ratings are worked in when the next question needs them.
    """

    takes_features: ClassVar[bool] = False
    """Whether it learns from side information."""
    takes_interactions: ClassVar[bool] = False
    """Whether it can be trained on interactions alone."""
    keeps_checkpoints: ClassVar[bool] = False
    """Whether a fit that was stopped can go on."""
    fits_on_clusters: ClassVar[bool] = False
    """Whether several workers can fit it together."""

    def __init__(self, settings: Settings | None = None, **changes: Any) -> None:
        name, wanted = type(self).__name__, self.settings_class
        if settings is not None and type(settings) is not wanted:
            raise SettingsError(f"settings are given by name, such as {name}(seed=1). Got {settings!r}")
        self._settings = settings.changed(changes) if settings else wanted.of(changes)
        self.history: list[EpochRecord] = []
        self.measures: dict[str, float | int | None] = {}
        self.data_summary: dict[str, Any] = {}
        self.trained: datetime | None = None
        self.users = Vocabulary()
        self.items = Vocabulary()
        self.titles: dict[Id, str] = {}
        self.item_features: Features | None = None
        self.user_features: Features | None = None
        self.item_attributes = Attributes(self.items)
        self._matrix: Matrix | None = None
        self._scorer: ListScorer | None = None
        self._spread = None
        self.item_places: ItemPlaces | None = None
        self.part = None

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
        """Change settings of a model that is not fitted; those that nobody gave still follow the others."""
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
        cluster: "FitsElsewhere | None" = None,
    ) -> Self:
        """Learn from ratings, or from anything that `Ratings.read` takes, and from side features where there are any.

        `item_features` and `user_features` are Features, or anything that `Features.read` takes without being told
        more. Ids with features and without a rating become known to the model: they are the cold ones.

        `interactions` are what the same people did beside rating, Interactions or anything that `Interactions.read`
        takes: lists learn from both. Those who rated nothing can be given as `ratings`, if the algorithm takes them.

        `progress` is called with a `Step` whenever there is something to tell. `checkpoint` names a file that lets a
        killed run go on with `resume=True`; remove it once the model is saved.

        With a `cluster`, a `cofill.Cluster`, several workers do it, to the same model; it keeps checkpoints by itself.
        """
        name = type(self).__name__
        if cluster is not None:
            return self._fit_elsewhere(
                cluster, ratings, user_features, item_features, interactions, progress, checkpoint, resume
            )
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
        forecast = self._forecast(progress, data) if progress is not None else unseen
        fitting = Fitting(forecast, Path(checkpoint) if checkpoint else None, resume)
        matrix = self._learn(data, fitting)
        self.users, self.items = data.ratings.users.copy(), data.ratings.items.copy()
        self.titles, self.data_summary = dict(data.ratings.titles), data.summary
        if self.follows_features:
            self.user_features, self.item_features = data.about_users, data.about_items
        self.item_attributes = Attributes.of_features(self.items, data.about_items)
        self._matrix, self._spread, self.item_places, self.part = matrix, None, None, None

        def done(share: float) -> None:
            fitting.progress(Step("fitting the list scorer", share, 1.0, 1.0))

        self._scorer = self._fit_scorer(self._feedback_from(data), done)
        self.trained = datetime.now(UTC)
        return self

    def _fit_elsewhere(
        self,
        cluster: "FitsElsewhere",
        ratings: object,
        user_features: object,
        item_features: object,
        interactions: object,
        progress: Progress | None,
        checkpoint: Path | str | None,
        resume: bool,
    ) -> Self:
        name = type(self).__name__
        if not self.fits_on_clusters:
            raise SettingsError(f"{name} is trained in one process; leave out cluster")
        if interactions is not None:
            raise SettingsError("several workers learn from ratings alone; leave out interactions, or cluster")
        if checkpoint is not None:
            raise SettingsError("a cluster keeps checkpoints in its own folder; leave out checkpoint")
        fitted = cluster.fit(
            self,
            ratings,
            user_features=user_features,
            item_features=item_features,
            progress=progress or unseen,
            resume=resume,
        )
        vars(self).update(vars(fitted) | {"_settings": self._settings})
        return self

    def _forecast(self, progress: Progress, data: DescribedRatings) -> Progress:
        """The same, told how long the fit will still take, where an algorithm can say."""
        return progress

    @abstractmethod
    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Matrix:
        """The matrix of users x items, in the order of the vocabularies of `data.ratings`.

        `history` and `measures` may be set on the way.
        """

    def _fit_scorer(self, feedback: Feedback, done: Done) -> ListScorer:
        """What scores items for lists, from what people did; an algorithm that ranks in its own way has another."""
        return self._linear_scorer(feedback, done)

    def _linear_scorer(
        self,
        feedback: Feedback,
        done: Done,
        *,
        sides: Sides | None = None,
        keys: KeysOfSides | None = None,
        exchange: Exchange = ALONE,
    ) -> LinearScorer:
        """With the features and keys of this model's people and items, unless others are given. Other processes may
        have other people; all of them come to the same weights.
        """
        own = self._list_settings
        penalties = Penalties(own.list_rank, own.list_penalty, popularity=own.list_popularity)
        return LinearScorer.fit(
            feedback,
            sides or self._sides,
            penalties,
            seed=own.seed,
            threads=getattr(self._settings, "threads", 0),
            done=done,
            keys=keys or KeysOfSides(self.users.keys(), self.items.keys()),
            exchange=exchange,
        )

    def _restored_scorer(self, arrays: Arrays, feedback: Feedback) -> ListScorer:
        """The scorer from what a file kept; ValueError where it does not fit together."""
        return LinearScorer.restored(arrays, feedback, self._sides)

    @property
    def _sides(self) -> Sides:
        return Sides(self.matrix.row_features, self.matrix.column_features)

    @property
    def _list_settings(self) -> ListSettings:
        return self._settings if isinstance(self._settings, ListSettings) else ListSettings(seed=self._settings.seed)

    def _feedback_from(self, data: DescribedRatings) -> Feedback:
        beside = data.interactions
        if beside is None:
            return self._feedback(self._decay(data.ratings), None)
        known = KnownRatings(beside.rows("user"), beside.rows("item"))
        graded = GradedRatings.of(known, self._grades_beside(beside.scale, trained=True), self._decay(beside))
        return self._feedback(self._decay(data.ratings), graded)

    def _feedback(self, decay: Floats | None, beside: GradedRatings | None) -> Feedback:
        """What people did, from the known ratings and their time decay, and from interactions beside them."""
        grades = self._grades(self.scale, rated=self.rated)
        return Feedback(GradedRatings.of(self.matrix.known, grades, decay), beside)

    def _grades(self, scale: Scale, *, rated: bool) -> Grades:
        own = self._list_settings
        return Grades(scale, rated, power=own.list_grade_power, confidence=own.confidence)

    def _grades_beside(self, scale: Scale, *, trained: bool) -> Grades:
        """Of interactions beside ratings. If none were trained on, their weights are graded as ratings are."""
        return self._grades(scale, rated=not trained)

    def _decay(self, ratings: Ratings) -> Floats | None:
        half_life = self._list_settings.half_life
        if not half_life:
            return None
        if ratings.times is None:
            raise DataError("half_life needs to know when people rated, and there are no times", "leave it out")
        return time_decay(ratings.times, half_life)

    @property
    def matrix(self) -> Matrix:
        """Users x items, filled in, in indices of the vocabularies."""
        if self._matrix is None:
            name = type(self).__name__
            raise NotFittedError(f"this model is not fitted yet; call fit(ratings) first, or {name}.load(folder)")
        return self._matrix

    @property
    def scorer(self) -> ListScorer:
        """What scores items for lists. A model that was saved before there were lists learns it when first asked."""
        if self._scorer is None:
            self._scorer = self._fit_scorer(self._feedback(None, None), lambda share: None)
        return self._scorer

    def facts(self) -> list[tuple[str, str]]:
        """Facts about the algorithm for the report: name and value."""
        return []

    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(array.size for array in self._kept().weights.values())
