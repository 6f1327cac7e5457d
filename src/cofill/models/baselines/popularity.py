"""Popularity, and what the baselines of lists share: grades of their own, what is popular, live, and chosen settings.

These baselines are known for their lists, not for ratings: a rating is predicted by the fitted means, and a scorer of
their own ranks items. An unknown user gets what is popular; all others get it as a faint hint, which only decides
between items that the baseline scores alike.

Settings are chosen on validation ratings: a tenth of what people did is held out, and lists are to find it. The measure
is NDCG@10 as `cofill.evaluation` defines it: relevant is what was rated in the upper quarter of the scale, and its gain
is the rating less the lowest; of interactions, all are relevant alike. Test ratings are never seen here.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from cofill.arrays import Arrays, Doubles, Floats, Ints, Longs
from cofill.config import Settings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.bias_models import Means
from cofill.models.lists.feedback import Feedback, Grades, entries_where
from cofill.models.lists.item_weights import gram_of
from cofill.models.lists.rules import best_of
from cofill.models.lists.scorer import Followed, ListScorer, Sides
from cofill.progress import Done

Grading = Literal["graded", "plain", "liked"]

Point = dict[str, float]
"""Settings by name."""

# Where on the scale, from its lowest to its highest rating, liking begins: 4 of 1 to 5.
_LIKED_SHARE = 0.75
# What is popular counts so little beside what a baseline says that it only orders what would be equal.
_HINT = 1e-4
_HELD_OUT = 0.1
_LENGTH = 10
# So many people tell settings apart that differ; more would take time.
_MOST_USERS = 3000
_MOST_RATINGS = 2_000_000
_CHUNK = 256


class ListBaselineSettings(Settings):
    """What every baseline of lists is given by name."""

    mean_damping: float | None = Field(
        default=None,
        ge=0,
        description="ratings of average value added to the means that predict ratings; unless given, it is learned "
        "from the data, apart for users and items (empirical Bayes, by EM)",
    )
    grading: Grading = Field(
        default="graded",
        description="what a rating counts for lists: graded (the higher, the more), plain (1 for every rating), or "
        "liked (1 from three quarters of the scale on, such as 4 of 5 stars, else nothing)",
    )
    confidence: float = Field(
        default=0.0,
        ge=0,
        le=5,
        description="how much more an interaction counts for lists that happened often: the logarithm of its weight "
        "to this power; 0: all count alike",
    )


@dataclass(frozen=True)
class OneGrades(Grades):
    """1 for every rating from `least` on, 0 below."""

    least: float = -np.inf

    def of(self, values: Floats) -> Floats:
        return (values >= np.float32(self.least)).astype(np.float32)


def liked_from(scale: Scale) -> float:
    """The least rating of an item that a user liked."""
    return float(scale.low + _LIKED_SHARE * (scale.high - scale.low))


class ListBaseline(Means):
    """A recommender whose ratings are the fitted means, and whose lists are its own."""

    settings_class: ClassVar[type[Settings]] = ListBaselineSettings
    takes_interactions: ClassVar[bool] = True
    grids: ClassVar[Mapping[str, Sequence[float]]] = {}
    """The settings that may be "auto", and what is tried of them."""
    start: ClassVar[Mapping[str, float]] = {}
    """What of them is tried first."""
    most_tried: ClassVar[int] = 0
    _settings: ListBaselineSettings

    def _grades(self, scale: Scale, *, rated: bool) -> Grades:
        own, usual = self._settings, super()._grades(scale, rated=rated)
        if not rated:
            return replace(usual, confidence=own.confidence)
        if own.grading == "graded":
            return usual
        return OneGrades(scale, least=liked_from(scale) if own.grading == "liked" else -np.inf)

    def _fit_scorer(self, feedback: Feedback, done: Done) -> ListScorer:
        """With the settings that are given, and those that are "auto" by the best NDCG on validation ratings."""
        given = {name: getattr(self._settings, name) for name in self.start}
        point = {name: self.start[name] if value == "auto" else float(value) for name, value in given.items()}
        open_ = {name: self.grids[name] for name, value in given.items() if value == "auto"}
        validation = Validation.of(feedback, self._settings.seed) if open_ else None
        if validation is not None:
            point = climbed(open_, point, lambda tried: self._validate(validation, tried), done, self.most_tried)
        return self._fitted_scorer(feedback, point, done)

    def _validate(self, validation: "Validation", point: Point) -> float:
        """The NDCG of such settings; of a baseline that has a `start`."""
        raise NotImplementedError

    @abstractmethod
    def _fitted_scorer(self, feedback: Feedback, point: Point, done: Done) -> ListScorer:
        """The scorer of this baseline, with these settings."""

    def parameters(self) -> int:
        return super().parameters() + sum(array.size for array in self.scorer.arrays().values())


class LivePopularity(Followed[float]):
    """The sum of the grades of each item, as it stands now."""

    def __init__(self, feedback: Feedback) -> None:
        trained = feedback.trained()
        ratings = np.bincount(trained.indices, minlength=trained.columns)
        super().__init__(feedback, ratings, self._sum, share=0.0)
        self._people = max(1, feedback.main.known.trained.rows)
        self._trained: Doubles = np.bincount(trained.indices, trained.values, trained.columns).astype(np.float64)

    @staticmethod
    def _sum(item: int, users: Ints, grades: Floats) -> float:
        return float(grades.sum(dtype=np.float64))

    def sums(self) -> Doubles:
        """(items,)"""
        return self.rows(lambda: self._trained, float)

    def hint(self) -> Floats:
        """(items,): the sums as a share of the people in training, made faint."""
        hint: Floats = (self.sums() * (_HINT / self._people)).astype(np.float32)
        return hint


class BaselineScorer(ListScorer):
    """A scorer that knows what is popular."""

    def __init__(self, feedback: Feedback, sides: Sides) -> None:
        super().__init__(feedback, sides)
        self._popularity = LivePopularity(feedback)
        self.following.append(self._popularity)


# Popularity


class PopularityScorer(BaselineScorer):
    """The same scores for all users: sums of grades, which follow ratings as they come and go."""

    def of_people(self, done: SparseRows, about: object = None, recent: object = None) -> Floats:
        return np.tile(self._popularity.sums().astype(np.float32), (done.rows, 1))

    def arrays(self) -> Arrays:
        return {"sums": self._popularity.sums()}


class Popularity(ListBaseline):
    """Lists of what most people chose, which any list worth its name must beat.

    The score of an item is the sum of the grades that it has: how many people rated it, if all ratings count alike.

    >>> Popularity(grading="plain").fit("ratings.csv").recommend(42)
    """

    kind = "popularity"

    def _fitted_scorer(self, feedback: Feedback, point: Point, done: Done) -> PopularityScorer:
        done(1.0)
        return PopularityScorer(feedback, self._sides)

    def _load_scorer(self, arrays: Arrays, feedback: Feedback) -> PopularityScorer:
        return PopularityScorer(feedback, self._sides)


# Choosing settings


@dataclass(frozen=True, eq=False)
class Validation:
    """Grades to learn from, and for some of the users what is to be found."""

    train: SparseRows  # grades, users x items
    users: Longs  # whose lists are measured
    found: SparseRows  # the gains of what was held out, row by row of `users`

    @classmethod
    def of(cls, feedback: Feedback, seed: int) -> "Validation | None":
        """None where there is too little to hold any out."""
        rng = np.random.default_rng(seed)
        known, graded = feedback.main.known.trained, feedback.trained()
        people = np.ones(graded.rows, np.bool_)
        if known.nnz > _MOST_RATINGS:
            order = rng.permutation(known.rows)
            people[order[np.cumsum(known.counts()[order]) > _MOST_RATINGS]] = False
        rows = np.repeat(np.arange(known.rows), known.counts())
        chosen = people[rows] & (rng.random(known.nnz) < _HELD_OUT)
        gains, grades = np.ones(known.nnz, np.float32), feedback.main.grades
        if grades.rated:
            liked = known.values >= np.float32(liked_from(grades.scale))
            gains = np.where(liked, known.values - np.float32(grades.scale.low), np.float32(0))
        wanted = np.unique(rows[chosen & (gains > 0)])
        if not len(wanted):
            return None
        of_grades = np.repeat(np.arange(graded.rows), graded.counts())
        held_out = rows[chosen] * graded.columns + known.indices[chosen]
        learned = people[of_grades] & ~np.isin(of_grades * graded.columns + graded.indices, held_out)
        if not learned.any():
            return None
        wanted = np.sort(rng.permutation(wanted)[:_MOST_USERS])
        found = SparseRows(known.indptr, known.indices, gains, graded.columns)
        return cls(entries_where(graded, learned), wanted, entries_where(found, chosen & (gains > 0)).take(wanted))

    @cached_property
    def gram(self) -> Doubles:
        """X'X (items, items) of the grades to learn from."""
        return gram_of(self.train, np.float64)

    def ndcg(self, scores_of: Callable[[SparseRows], Floats]) -> float:
        """The mean NDCG@10 of the users, by scores (n, items) from the grades of what n of them did."""
        total = 0.0
        discounts = 1.0 / np.log2(np.arange(2, _LENGTH + 2))
        for first in range(0, len(self.users), _CHUNK):
            done = self.train.take(self.users[first : first + _CHUNK])
            for place, scores in enumerate(scores_of(done)):
                scores[done.row(place)[0]] = -np.inf
                items, gains = self.found.row(first + place)
                gain_of = dict(zip(items.tolist(), gains.tolist(), strict=True))
                hits = np.array([gain_of.get(item, 0.0) for item in best_of(scores, _LENGTH)])
                best = np.sort(gains)[::-1][:_LENGTH]
                total += float(hits @ discounts[: len(hits)]) / float(best @ discounts[: len(best)])
        return total / len(self.users)


def climbed(
    grids: Mapping[str, Sequence[float]], start: Point, measure: Callable[[Point], float], done: Done, most: int
) -> Point:
    """The best point found by steps on a grid, one setting at a time, until none is better or `most` were measured.

    A setting without a grid stays where it starts. `done` is called with the share of `most` that is measured.
    """
    measured: dict[tuple[float, ...], float] = {}

    def value(point: Point) -> float:
        key = tuple(point.values())
        if key not in measured:
            if len(measured) >= most:
                return -np.inf
            measured[key] = measure(point)
            done(len(measured) / most)
        return measured[key]

    best, reached = dict(start), value(start)
    improved = True
    while improved and len(measured) < most:
        improved = False
        for name, grid in grids.items():
            for step in (1, -1):
                place = int(np.argmin(np.abs(np.log(np.array(grid) / best[name])))) + step
                while 0 <= place < len(grid):
                    tried = best | {name: grid[place]}
                    if not value(tried) > reached:
                        break
                    best, reached, improved, place = tried, value(tried), True, place + step
    done(1.0)
    return best
