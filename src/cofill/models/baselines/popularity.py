"""Popularity, and what the baselines of lists share: grades of their own, what is popular, live, and chosen settings.

These baselines are known for their lists, not for ratings: a rating is predicted by the fitted means, and a scorer of
their own ranks items. A user of whom nothing is known gets what is popular; everybody else gets it as a faint hint,
which only decides between items that the baseline scores alike.

Settings are chosen on validation ratings: a tenth of what people did is held out, and lists are to find it. The measure
is NDCG@10 as `cofill.evaluation` defines it: relevant is what was rated in the upper quarter of the scale, and its gain
is the rating less the lowest; of interactions, all are relevant alike. Test ratings are never seen here.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.config import Settings
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.bias_models import Means
from cofill.models.lists.feedback import Feedback, GradedRatings, Grades
from cofill.models.lists.gram import Done
from cofill.models.lists.item_weights import ItemWeights
from cofill.models.lists.scorer import Arrays, ByFeatures, LinearScorer, ListScorer, Sides
from cofill.models.results import best_of

Grading = Literal["graded", "plain", "liked"]

Point = dict[str, float]
"""Settings by name."""

LIKED_SHARE = 0.75
"""Where on the scale, from its lowest to its highest rating, liking begins: 4 of 1 to 5."""

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
    """The least rating that says that somebody liked an item."""
    return float(scale.low + LIKED_SHARE * (scale.high - scale.low))


class ListBaseline(Means):
    """A recommender whose ratings are the fitted means, and whose lists are its own."""

    settings_class: ClassVar[type[Settings]] = ListBaselineSettings
    takes_interactions: ClassVar[bool] = True
    scorer_class: ClassVar[type[ListScorer]]

    @property
    def _damping(self) -> float | None:
        return self._own_settings.mean_damping

    @property
    def _own_settings(self) -> ListBaselineSettings:
        assert isinstance(self._settings, ListBaselineSettings)
        return self._settings

    def _feedback(self, decay: Floats | None, beside: GradedRatings | None) -> Feedback:
        usual = super()._feedback(decay, beside)
        return Feedback(self._graded(usual.main), None if beside is None else self._graded(beside))

    def _graded(self, usual: GradedRatings) -> GradedRatings:
        own, grades = self._own_settings, usual.grades
        if not grades.rated:
            return replace(usual, grades=replace(grades, confidence=own.confidence))
        if own.grading == "graded":
            return usual
        least = liked_from(grades.scale) if own.grading == "liked" else -np.inf
        return replace(usual, grades=OneGrades(grades.scale, least=least))

    @abstractmethod
    def _fit_scorer(self, feedback: Feedback, done: Done) -> ListScorer:
        """The scorer of this baseline."""

    def _load_scorer(self, arrays: Arrays, feedback: Feedback) -> ListScorer:
        return self.scorer_class.restored(arrays, feedback, self._sides)

    def _chosen(
        self,
        feedback: Feedback,
        grids: Mapping[str, Sequence[float]],
        start: Point,
        measure: "Callable[[Validation, Point], float]",
        most: int,
        done: Done,
    ) -> Point:
        """The settings named by `start`: as they are given, and those that are "auto" by the best NDCG on validation
        ratings, which `measure` tells. At most so many points are measured.
        """
        given = {name: getattr(self._settings, name) for name in start}
        point = {name: start[name] if value == "auto" else float(value) for name, value in given.items()}
        open_ = {name: grids[name] for name, value in given.items() if value == "auto"}
        validation = Validation.of(feedback, self._settings.seed) if open_ else None
        if validation is None:
            return point
        return climbed(open_, point, lambda tried: measure(validation, tried), done, most)

    def item_vectors(self) -> Floats:
        vectors = self.scorer.item_vectors()
        return super().item_vectors() if vectors is None else vectors[: len(self.items)]

    def parameters(self) -> int:
        return super().parameters() + sum(array.size for array in self.scorer.arrays().values())


class LivePopularity:
    """The sum of the grades of each item, as it stands now."""

    def __init__(self, feedback: Feedback) -> None:
        self._feedback = feedback
        self._people = max(1, feedback.main.known.trained.rows)
        trained = feedback.trained()
        self._sums: Doubles = np.bincount(trained.indices, trained.values, trained.columns).astype(np.float64)
        self._stale = feedback.changed_items()

    def changed(self, items: Iterable[int]) -> None:
        self._stale |= set(items)

    def sums(self) -> Doubles:
        """(items,)"""
        missing = self._feedback.items - len(self._sums)
        if missing > 0:
            self._sums = np.concatenate([self._sums, np.zeros(missing)])
        for item in self._stale:
            grades = self._feedback.column(item)[1]
            # Added up in the order of the training, so that what came and went leaves no trace in the last bit.
            self._sums[item] = np.bincount(np.zeros(len(grades), np.int64), grades, 1)[0]
        self._stale = set()
        return self._sums

    def hint(self) -> Floats:
        """(items,): the sums as a share of the people in training, made faint."""
        hint: Floats = (self.sums() * (_HINT / self._people)).astype(np.float32)
        return hint


class HintedScorer(LinearScorer):
    """Weights between items, and a faint hint of what is popular; features say nothing."""

    def __init__(self, feedback: Feedback, sides: Sides, weights: ItemWeights) -> None:
        super().__init__(feedback, sides, weights, ByFeatures.nothing(sides, weights.directions.shape[1]))
        self._popularity = LivePopularity(feedback)

    def many(self, done: SparseRows) -> Floats:
        scores = super().of_people(done, None)
        scores += self._popularity.hint()
        return scores

    def of_people(self, done: SparseRows, about: object) -> Floats:
        return self.many(done)

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        items = set(items)
        super().changed(users, items)
        self._popularity.changed(items)

    def arrays(self) -> Arrays:
        return self.weights.arrays()


# Popularity


class PopularityScorer(ListScorer):
    """The same scores for everybody: sums of grades, which follow ratings as they come and go."""

    def __init__(self, feedback: Feedback, sides: Sides) -> None:
        super().__init__(feedback, sides)
        self._popularity = LivePopularity(feedback)

    def many(self, done: SparseRows) -> Floats:
        return np.tile(self._popularity.sums().astype(np.float32), (done.rows, 1))

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        return np.zeros((len(asked), len(items)))

    def scored(self) -> Bools:
        flags: Bools = self._popularity.sums() > 0
        return flags

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        self._popularity.changed(items)

    def arrays(self) -> Arrays:
        return {"sums": self._popularity.sums()}

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "PopularityScorer":
        return cls(feedback, sides)


class Popularity(ListBaseline):
    """Lists of what most people chose, which any list worth its name must beat.

    The score of an item is the sum of the grades that it has: how many people rated it, if all ratings count alike.

    >>> Popularity(grading="plain").fit("ratings.csv").recommend(42)
    """

    kind = "popularity"
    scorer_class = PopularityScorer

    def _fit_scorer(self, feedback: Feedback, done: Done) -> PopularityScorer:
        scorer = PopularityScorer(feedback, self._sides)
        done(1.0)
        return scorer


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
        people = _some_users(known, rng)
        chosen = np.repeat(people, known.counts()) & (rng.random(known.nnz) < _HELD_OUT)
        gains = _gains(feedback, known.values)
        rows = np.repeat(np.arange(known.rows), known.counts())
        relevant = chosen & (gains > 0)
        wanted = np.unique(rows[relevant])
        if not len(wanted):
            return None
        train = _without(graded, people, rows[chosen] * graded.columns + known.indices[chosen])
        if not train.nnz:
            return None
        wanted = np.sort(rng.permutation(wanted)[:_MOST_USERS])
        kept = relevant & np.isin(rows, wanted)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=known.rows)[wanted])])
        found = SparseRows(indptr.astype(np.int64), known.indices[kept], gains[kept], graded.columns)
        return cls(train, wanted.astype(np.int64), found)

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


def _some_users(known: SparseRows, rng: np.random.Generator) -> Bools:
    """(users,): who takes part; all, unless they have done very much together."""
    people = np.ones(known.rows, np.bool_)
    if known.nnz > _MOST_RATINGS:
        order = rng.permutation(known.rows)
        people[order[np.cumsum(known.counts()[order]) > _MOST_RATINGS]] = False
    return people


def _gains(feedback: Feedback, values: Floats) -> Floats:
    grades = feedback.main.grades
    if not grades.rated:
        return np.ones(len(values), np.float32)
    liked = values >= np.float32(liked_from(grades.scale))
    return np.where(liked, values - np.float32(grades.scale.low), np.float32(0)).astype(np.float32)


def _without(graded: SparseRows, people: Bools, held_out: Longs) -> SparseRows:
    """What is left of some people without what was held out, given as row * columns + column."""
    rows = np.repeat(np.arange(graded.rows), graded.counts())
    kept = ~np.isin(rows * graded.columns + graded.indices, held_out)
    kept &= np.append(people, np.ones(graded.rows - len(people), np.bool_))[rows]
    counts = np.bincount(rows[kept], minlength=graded.rows)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return SparseRows(indptr, graded.indices[kept], graded.values[kept], graded.columns)


def climbed(
    grids: Mapping[str, Sequence[float]], start: Point, measure: Callable[[Point], float], done: Done, most: int
) -> Point:
    """The best point found by steps on a grid, one setting at a time, until none is better or `most` were measured.

    A setting without a grid stays where it starts. `done` hears the share of `most` that is measured.
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
