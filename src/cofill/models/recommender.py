"""A model as people use it, in their own ids: fit, predict, recommend, similar, explain, follow ratings, save, load.

`CFN` and its rivals are recommenders: each says how it learns, and leaves behind a `Matrix` of users x items to be
asked. An algorithm of somebody else's is a subclass with `kind`, `settings_class`, `_learn`, `_kept` and `_restored`;
docs/explanation/rivals.md shows one.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, Unpack, cast, get_args, overload

import numpy as np

from cofill.config import ListSettings, Settings
from cofill.data.attributes import Attributes
from cofill.data.described import DescribedRatings
from cofill.data.features import Features, ReadableColumn
from cofill.data.interactions import Interactions
from cofill.data.pairs import read_pairs
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, NotFittedError, SettingsError, UnknownIdError
from cofill.exchange import ALONE, Exchange
from cofill.models.explanation import Explanation, Given, Shares, explanations
from cofill.models.file import Arrays
from cofill.models.file import Kept as Kept  # what an algorithm of somebody else's answers `_kept` with
from cofill.models.history import EpochRecord
from cofill.models.item_places import ItemPlaces, most_rated, placed
from cofill.models.keeping import SavedModel
from cofill.models.known import KnownRatings
from cofill.models.lists.feedback import Feedback, GradedRatings
from cofill.models.lists.grades import HIGHEST_WEIGHT, Grades, time_decay
from cofill.models.lists.item_weights import Done, Penalties
from cofill.models.lists.ranked import Recommendation, Similar, check_count
from cofill.models.lists.rules import By, Catalogue, Rules, Selection, SimilarRules
from cofill.models.lists.scorer import About, KeysOfSides, LinearScorer, ListScorer, Sides
from cofill.models.matrix import Floats, Ints, Longs, Matrix
from cofill.progress import Progress, Step, unseen

Side = Literal["user", "item"]

# What is known of a rating is taken to be its prediction less so many standard errors of the item's mean, which has as
# many ratings as the item, and a few that everything is thought to have.
_STANDARD_ERRORS = 1.64
_RATINGS_BEFORE = 7.0

# Users that are scored together when everybody is recommended to: memory is this many times the items.
_CHUNK = 256
_LEAST_LENGTH = 1e-12  # of a vector: its square is still a number in single precision


class Fitting(NamedTuple):
    """Options of a fit: the progress callback, and the checkpoint to write and to resume from."""

    progress: Progress
    checkpoint: Path | None
    resume: bool


class Person(NamedTuple):
    """Somebody, known or new, in indices."""

    number: int  # the index of a user; -1 for somebody new
    items: Ints  # (n,) ascending
    ratings: Floats  # (n,)
    features: Floats | None = None  # (P,): of somebody new


class Predicted(NamedTuple):
    """Predicted ratings with intervals that nine tenths of the true ones are expected in, all (n,)."""

    ratings: Floats
    low: Floats
    high: Floats


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


class Recommender(SavedModel):
    """The interface of every algorithm: fit, predict, recommend, explain, update, save and load.

    A model is asked by one thread at a time: new ratings are worked in when the next question needs them.
    """

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
        self._spread: float | None = None  # standard deviation of the ratings of the training, once asked for
        self.item_places: ItemPlaces | None = None
        self.part = None

    def __repr__(self) -> str:
        state = f"{len(self.users)} users, {len(self.items)} items" if self._matrix else "not fitted"
        state += f"; {self.part}" if self.part else ""
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
                "use ListModel, EASE, IALS, ItemKNN or Popularity for them",
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

    @property
    def rated(self) -> bool:
        """Whether it was trained on ratings; otherwise on interactions, and then there are lists and no ratings."""
        return bool(self.data_summary.get("rated", True))

    @property
    def scorer(self) -> ListScorer:
        """What scores items for lists. A model that was saved before there were lists learns it when first asked."""
        if self._scorer is None:
            self._scorer = self._fit_scorer(self._feedback(None, None), lambda share: None)
        return self._scorer

    @overload
    def predict(self, pairs: object, *, with_interval: Literal[False] = False) -> Floats: ...

    @overload
    def predict(self, pairs: object, *, with_interval: Literal[True]) -> Predicted: ...

    def predict(self, pairs: object, *, with_interval: bool = False) -> Floats | Predicted:
        """Ratings (n,) for pairs of user and item; unknown ids are allowed.

        `pairs` is an iterable of (user, item) tuples, two arrays or lists of ids, a frame, a file, or Ratings. With
        `with_interval` also between which ratings nine tenths of the true ones are expected (prediction interval).
        """
        users, items = read_pairs(pairs)
        indices = self.users.find(users), self.items.find(items)
        return self.predict_intervals(*indices) if with_interval else self.predict_indices(*indices)

    def predict_intervals(self, users: Ints, items: Ints) -> Predicted:
        """As `predict` with intervals, for indices of this model's vocabularies; -1 is an unknown id."""
        ratings = self.predict_indices(users, items)
        found = self._around(ratings, self.matrix.half_widths(users, items, ratings))
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
        return self.rated and self.matrix.half_widths(nobody, nobody, np.zeros(1, np.float32)) is not None

    def quickest_order(self, users: Ints, items: Ints) -> Longs:
        """(n,): the order of pairs, given by index, in which they are predicted most quickly, if in parts."""
        return self.matrix.quickest_order(users, items)

    def predict_indices(self, users: Ints, items: Ints) -> Floats:
        """As `predict`, for indices of this model's vocabularies; -1 is an unknown id."""
        if not self.rated:
            raise DataError("this model was trained on interactions, so it knows no ratings to predict; ask for lists")
        predicted = self.matrix.entries(users, items)
        return np.clip(predicted, np.float32(self.scale.low), np.float32(self.scale.high))

    def recommend(
        self,
        user: Id | Mapping[Any, float],
        n: int = 10,
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
        exclude_known: bool = True,
        **rules: Unpack[Rules],
    ) -> list[Recommendation]:
        """The n items that somebody would choose and like, best first.

        `user` is an id, or the ratings {item: rating} of somebody whom the model has never seen, described by
        `features` {column: value} or not; {} with features is somebody who has rated nothing. An id that is not known
        gets what is recommended to anybody.

        `by="rating"` ranks by what they would rate highest, to be on the safe side: by a lower bound of the rating,
        so that an item of which little is known does not stand above one that thousands love. Items that nobody has
        rated come last, unless `new_items` gives them places. All rules are those of `Rules`: among, where, exclude,
        min_ratings, boost, at_most, diversity, new_items.
        """
        check_count(n)
        self._check_by(by)
        person = self._person(user, features)
        known = self._known_to(person)
        scores = self._person_scores(person, by)
        selection = self._selection(by, rules)
        best = np.array(selection.best(scores, known if exclude_known else known[:0], n), np.int32)
        return self._entries(best, scores[best], self._ratings_at(person, best))

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

    def recommend_all(
        self,
        users: Iterable[Id] | None = None,
        n: int = 10,
        *,
        by: By = "list",
        exclude_known: bool = True,
        **rules: Unpack[Rules],
    ) -> Iterator[tuple[Id, list[Recommendation]]]:
        """Recommendations for many users (all, if None), one after the other, in chunks of bounded memory."""
        check_count(n)
        self._check_by(by)
        self.matrix  # noqa: B018  # a model that is not fitted says so now, not at the first answer
        indices = np.arange(len(self.users), dtype=np.int32) if users is None else self._known_users(users)
        return self._recommend_in_chunks(indices, n, by, exclude_known, self._selection(by, rules))

    def _recommend_in_chunks(
        self, indices: Ints, n: int, by: By, exclude_known: bool, selection: Selection
    ) -> Iterator[tuple[Id, list[Recommendation]]]:
        for first in range(0, len(indices), _CHUNK):
            chunk = indices[first : first + _CHUNK].astype(np.int64)
            chosen, scores = [], []
            for user, own in zip(chunk.tolist(), self._scores_of_users(chunk, by), strict=True):
                known = self.known_items(user) if exclude_known else np.empty(0, np.int32)
                best = np.array(selection.best(own, known, n), np.int32)
                chosen.append(best)
                scores.append(own[best])
            ratings = self._ratings_of(np.repeat(chunk, [len(best) for best in chosen]), np.concatenate(chosen))
            ends = np.cumsum([0, *(len(best) for best in chosen)])
            for place, user in enumerate(chunk.tolist()):
                own_ratings = None if ratings is None else ratings[ends[place] : ends[place + 1]]
                yield self.users.id(user), self._entries(chosen[place], scores[place], own_ratings)

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
            of_users = self.matrix.row_features
            about = About(of_users.values[users], of_users.described[users]) if of_users.width else None
            return self.scorer.of_people(self.scorer.feedback.rows(users), about)[:, : len(self.items)]
        return self._lower_bound(self.matrix.many_rows(users))[:, : len(self.items)]

    def new_user_scores(self, items: Ints, ratings: Floats, *, by: By = "list") -> Floats:
        """(items,): what the list of somebody new is ranked by, who gave these ratings to items, given by index."""
        order = np.argsort(items)
        scores: Floats = self._unrated_last(self._person_scores(Person(-1, items[order], ratings[order]), by)[None])[0]
        return scores

    def stranger_scores(self, *, by: By = "list") -> Floats:
        """(items,): what the list of somebody is ranked by of whom nothing is known."""
        scores: Floats = self._unrated_last(self._person_scores(_nobody(), by)[None])[0]
        return scores

    def known_items(self, user: int) -> Ints:
        """Indices of what a user, given by index, has rated or done something with."""
        return self.scorer.feedback.items_of(user)

    def explain(
        self,
        user: Id | Mapping[Any, float],
        item: Id,
        *,
        by: By = "list",
        features: Mapping[str, object] | None = None,
    ) -> Explanation:
        """Explain why an item is in a list, or its predicted rating: base + amounts + remainder = value.

        The user is given as to `recommend`. Amounts are exact for lists, which are linear in what somebody did. A
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
        person = self._person(user, features)
        wanted = list(items)
        asked = self.items.find(wanted)
        if (asked < 0).any():
            raise UnknownIdError(f"item {wanted[int(np.argmin(asked))]!r} is not in the model; check the id")
        if by == "list":
            given, columns = self._given(person)
            did = self._did(person)
            by_features = np.zeros((len(asked), 0))
            if given.features is not None:
                by_features = self.scorer.feature_shares(len(did[0]), given.features, given.widths, asked)
            shares = Shares(self.scorer.shares(*did, asked), by_features)
            given = given._replace(others=did[0], ratings=_ratings_beside(person, did[0]))
            predicted, base = self._person_scores(person, by), self._person_scores(_nobody(), by)
        else:
            given, columns = self._given(person)
            shares = self.matrix.row_shares(given, asked)
            predicted, base = self._person_ratings(person), self.stranger_ratings()
        found = explanations(
            given,
            asked,
            shares,
            columns=columns,
            predicted=predicted[asked],
            base=base[asked],
            items=self.items,
            titles=self.titles,
            scale=None if by == "list" else self.scale,
        )
        if by == "list" or not with_interval:
            return found
        around = self._person_intervals(person, asked, np.array([one.clipped for one in found], np.float32))
        if around is None:
            return found
        ends = zip(found, around.low.tolist(), around.high.tolist(), strict=True)
        return [one._replace(low=low, high=high) for one, low, high in ends]

    def similar(self, item: Id, n: int = 10, **rules: Unpack[SimilarRules]) -> list[Similar]:
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
        likeness[~known] = -np.inf
        likeness[index] = -np.inf
        some = cast(Rules, rules)  # each of them is one of lists
        best = self._selection("list", some).nearest(likeness[: len(self.items)], n)
        return [Similar(item_id := self.items.id(i), float(likeness[i]), self.titles.get(item_id)) for i in best]

    def item_vectors(self) -> Floats:
        """(items, width): item embeddings: similar items have similar vectors.

        Those of the predictions, or of the lists where predictions know nothing that makes one item like another.
        """
        vectors = self.matrix.column_vectors()
        if vectors.shape[1]:
            return vectors
        of_lists = self.scorer.item_vectors()
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
        self._check_whole()
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
        users = self.users.add(new_users)[user_place]
        items = self.items.add(new_items)[item_place]
        for item, title in ratings.titles.items():
            if item in self.items:
                self.titles[self.items.id(self.items.index(item))] = title
        self.matrix.add(users, items, ratings.values)
        self._tell_scorer(users, items)
        return self

    def add_interactions(self, interactions: object, *, replacing: bool = False) -> Self:
        """Add what known or new people did with known or new items; lists follow at once.

        `interactions` is anything that `Interactions.read` takes. What somebody did again adds up, to at most the
        greatest weight of the training. With `replacing`, they are all that happened to these pairs since the training:
        what was added before is replaced, so that telling the same again changes nothing.

        A model of ratings keeps them beside these, and its predictions stay. If it was trained on ratings alone, a
        weight of 5 or more counts for lists as the highest rating does, and less as a lower one.
        """
        self._check_whole()
        read = interactions if isinstance(interactions, Interactions) else Interactions.read(interactions)
        feedback = self.scorer.feedback
        if self.rated and feedback.beside is None:
            scale = Scale(0.0, HIGHEST_WEIGHT)
            trained = self.matrix.known.trained
            none = KnownRatings.none(trained.rows, trained.columns)
            nothing = GradedRatings.of(none, self._grades_beside(scale, trained=False), None)
            feedback.beside = self._feedback(None, nothing).beside
        users = self.users.add(read.users.array()[np.unique(read.user_index)])
        items = self.items.add(read.items.array()[np.unique(read.item_index)])
        to_users, to_items = (np.zeros(len(vocabulary), np.int32) for vocabulary in (read.users, read.items))
        to_users[np.unique(read.user_index)], to_items[np.unique(read.item_index)] = users, items
        users, items = to_users[read.user_index], to_items[read.item_index]
        self.titles |= {item: title for item, title in read.titles.items() if item in self.items}
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

    def _tell_scorer(self, users: Iterable[Any], items: Iterable[Any]) -> None:
        if self._scorer is not None:
            self._scorer.changed({int(user) for user in users}, {int(item) for item in items})

    def remove_ratings(self, pairs: object) -> Self:
        """Remove ratings, whether trained on or added later: predictions follow at once.

        `pairs` of user and item are anything that `predict` takes. Where there is no rating, nothing happens. A rating
        that came after the training leaves no trace; of users and items the ids stay known. Interactions beside ratings
        stay: that somebody does not rate an item any more does not undo that they bought it.
        """
        self._check_whole()
        matrix = self.matrix
        users, items = read_pairs(pairs)
        user_index, item_index = self.users.find(users), self.items.find(items)
        seen = (user_index >= 0) & (item_index >= 0)
        matrix.remove(user_index[seen], item_index[seen])
        self._tell_scorer(user_index[seen], item_index[seen])
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
        """Remove all that is known of people, trained on or told later: ratings, interactions and features.

        From then on they get what anybody gets, and others get lists and predictions without them, as far as
        these follow changes. What the model learned in training stays learned until the next one. Ids that are not
        known do not count.
        """
        self._check_whole()
        indices = self.users.find(list(users))
        indices = np.unique(indices[indices >= 0])
        touched: set[int] = set()
        for user in indices.tolist():
            rated, did = self.matrix.known.row(user)[0], self.known_items(user)
            self.matrix.remove(np.full(len(rated), user, np.int32), rated)
            self.scorer.feedback.main.forget(user)
            beside = self.scorer.feedback.beside
            if beside is not None:
                beside.remove(np.full(len(did), user, np.int32), did)
                beside.forget(user)
            touched |= set(did.tolist())
        width = self.matrix.row_features.width
        if width and len(indices):
            self.matrix.describe_rows(indices, np.full((len(indices), width), np.nan, np.float32))
        self._tell_scorer(indices, touched)
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
        self._check_whole()
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
            self._tell_scorer((), indices)
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

    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(array.size for array in self._kept().weights.values())

    # How

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
            return _nobody()
        return Person(index, *self.matrix.known.row(index))

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
            return self.matrix.row(person.number)[: len(self.items)]
        return self.matrix.new_row(person.items, person.ratings, person.features)[: len(self.items)]

    def _person_intervals(self, person: Person, items: Ints, predicted: Floats) -> Predicted | None:
        """Around what somebody would rate items, (n,); None where the model has no intervals."""
        if person.number >= 0:
            users = np.full(len(items), person.number, np.int32)
            return self._around(predicted, self.matrix.half_widths(users, items, predicted))
        given = person.items, person.ratings, person.features
        return self._around(predicted, self.matrix.new_row_half_widths(*given, items, predicted))

    def stranger_ratings(self) -> Floats:
        """(items,): what somebody of whom nothing is known would rate every item, not clipped to the scale."""
        return self._person_ratings(_nobody())

    def _lower_bound(self, predicted: Floats) -> Floats:
        """(n, items): ratings less what is uncertain of them, from how many ratings an item has."""
        if self._spread is None:
            self._spread = self.matrix.known.spread()
        error = self._spread / np.sqrt(self.matrix.column_counts + _RATINGS_BEFORE)
        lower: Floats = predicted - (_STANDARD_ERRORS * error).astype(np.float32)
        return lower

    def _ratings_at(self, person: Person, items: Ints) -> Floats | None:
        """(n,): what somebody would rate items; None where the model knows no ratings."""
        if not self.rated:
            return None
        if person.number >= 0:
            return self._ratings_of(np.full(len(items), person.number, np.int64), items)
        return np.clip(
            self.matrix.new_row_at(person.items, person.ratings, person.features, items),
            np.float32(self.scale.low),
            np.float32(self.scale.high),
        )

    def _ratings_of(self, users: Longs, items: Ints) -> Floats | None:
        return self.predict_indices(users.astype(np.int32), items) if self.rated else None

    def _selection(self, by: By, rules: Rules) -> Selection:
        vectors = None
        if rules.get("diversity"):
            vectors = self.scorer.item_vectors()
            vectors = self.item_vectors() if vectors is None else vectors
        return Catalogue(
            self.items,
            self.item_attributes,
            counts=self._people_of_items(),
            placeable=self.matrix.column_features.described,
            vectors=vectors,
            floor=0.0 if by == "list" else self.scale.low,
        ).selection(rules)

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
        about = self.matrix.row_features
        if person.number < 0 or self.user_features is None or not about.described[person.number]:
            return person.features
        vector: Floats = about.values[person.number]
        return vector

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
        counts, beside = self.matrix.column_counts, self.scorer.feedback.beside
        if beside is None:
            return counts
        people = np.zeros(len(counts), np.int64)
        others = beside.counts()
        people[: len(others)] = others
        return np.maximum(counts, people)

    def _entries(self, items: Ints, scores: Floats, ratings: Floats | None) -> list[Recommendation]:
        counts = self._people_of_items()[items].tolist()
        predicted = [None] * len(items) if ratings is None else ratings.tolist()
        return [
            Recommendation(item := self.items.id(index), score, rating, raters, self.titles.get(item))
            for index, score, rating, raters in zip(items.tolist(), scores.tolist(), predicted, counts, strict=True)
        ]


def _nobody() -> Person:
    """Somebody of whom nothing is known."""
    return Person(-1, np.empty(0, np.int32), np.empty(0, np.float32))


def _ratings_beside(person: Person, items: Ints) -> Floats:
    """(n,): what somebody rated items; of what they did without rating it, NaN."""
    found = np.full(len(items), np.nan, np.float32)
    place = np.searchsorted(person.items, items)
    inside = np.minimum(place, max(len(person.items) - 1, 0))
    rated = person.items[inside] == items if len(person.items) else np.zeros(len(items), np.bool_)
    found[rated] = person.ratings[inside[rated]]
    return found
