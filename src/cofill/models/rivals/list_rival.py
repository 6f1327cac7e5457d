"""What the rivals of lists share: ratings by the fitted means, grades of their own, and what is popular, live.

They are known for their lists, not for ratings: a rating is predicted by the fitted means, and a scorer of their own
ranks items. Somebody of whom nothing is known gets what is popular; everybody else gets it as a faint hint, which
only decides between items that the rival scores alike.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from cofill.config import Settings
from cofill.data.ratings import Scale
from cofill.models.bias_models import Means
from cofill.models.lists.feedback import Feedback, GradedRatings
from cofill.models.lists.grades import Grades
from cofill.models.lists.item_weights import Done
from cofill.models.lists.scorer import Arrays, ListScorer
from cofill.models.matrix import Floats

Doubles = npt.NDArray[np.float64]

Grading = Literal["graded", "plain", "liked"]

LIKED_SHARE = 0.75
"""Where on the scale, from its lowest to its highest rating, liking begins: 4 of 1 to 5."""

# What is popular counts so little beside what a rival says that it only orders what would be equal.
_HINT = 1e-4


class ListRivalSettings(Settings):
    """What every rival of lists is given by name."""

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
class PlainGrades(Grades):
    """1 for every rating."""

    def of(self, values: Floats) -> Floats:
        return np.ones(len(values), np.float32)


@dataclass(frozen=True)
class LikedGrades(Grades):
    """1 from three quarters of the scale on, 0 below."""

    def of(self, values: Floats) -> Floats:
        return (values >= np.float32(liked_from(self.scale))).astype(np.float32)


def liked_from(scale: Scale) -> float:
    """The least rating that says that somebody liked an item."""
    return float(scale.low + LIKED_SHARE * (scale.high - scale.low))


class ListRival(Means):
    """A recommender whose ratings are the fitted means, and whose lists are its own."""

    settings_class: ClassVar[type[Settings]] = ListRivalSettings
    takes_interactions: ClassVar[bool] = True
    scorer_class: ClassVar[type[ListScorer]]

    @property
    def _damping(self) -> float | None:
        return self._own_settings.mean_damping

    @property
    def _own_settings(self) -> ListRivalSettings:
        assert isinstance(self._settings, ListRivalSettings)
        return self._settings

    def _feedback(self, decay: Floats | None, beside: GradedRatings | None) -> Feedback:
        usual = super()._feedback(decay, beside)
        return Feedback(self._graded(usual.main), None if beside is None else self._graded(beside))

    def _graded(self, usual: GradedRatings) -> GradedRatings:
        own, grades = self._own_settings, usual.grades
        if not grades.rated:
            return replace(usual, grades=replace(grades, confidence=own.confidence))
        if own.grading == "plain":
            return replace(usual, grades=PlainGrades(grades.scale))
        if own.grading == "liked":
            return replace(usual, grades=LikedGrades(grades.scale))
        return usual

    @abstractmethod
    def _fit_scorer(self, feedback: Feedback, done: Done) -> ListScorer:
        """The scorer of this rival."""

    def _restored_scorer(self, arrays: Arrays, feedback: Feedback) -> ListScorer:
        return self.scorer_class.restored(arrays, feedback, self._sides)

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
