"""Popularity: everybody is shown what most people chose, which any list worth its name must beat.

The score of an item is the sum of the grades that it has: how many people rated it, if all ratings count alike.
"""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from cofill.config import Settings
from cofill.data.sparse import SparseRows
from cofill.models.lists.feedback import Feedback
from cofill.models.lists.item_weights import Done
from cofill.models.lists.scorer import Arrays, Doubles, Flags, Floats, Ints, ListScorer, Sides
from cofill.models.rivals.list_rival import ListRival, ListRivalSettings, LivePopularity


class PopularityScorer(ListScorer):
    """The same scores for everybody: sums of grades, which follow ratings as they come and go."""

    def __init__(self, feedback: Feedback, sides: Sides) -> None:
        super().__init__(feedback, sides)
        self._popularity = LivePopularity(feedback)

    def many(self, done: SparseRows) -> Floats:
        return np.tile(self._popularity.sums().astype(np.float32), (done.rows, 1))

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        return np.zeros((len(asked), len(items)))

    def scored(self) -> Flags:
        flags: Flags = self._popularity.sums() > 0
        return flags

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        self._popularity.changed(items)

    def arrays(self) -> Arrays:
        return {"sums": self._popularity.sums()}

    @classmethod
    def restored(cls, arrays: Arrays, feedback: Feedback, sides: Sides) -> "PopularityScorer":
        if arrays["sums"].shape != (feedback.items,):
            raise ValueError("there are sums of another number of items than the ratings have")
        return cls(feedback, sides)


class Popularity(ListRival):
    """Lists of what most people chose.

    >>> Popularity(grading="plain").fit("ratings.csv").recommend(42)
    """

    kind = "popularity"
    settings_class: ClassVar[type[Settings]] = ListRivalSettings
    scorer_class = PopularityScorer

    def _fit_scorer(self, feedback: Feedback, done: Done) -> PopularityScorer:
        scorer = PopularityScorer(feedback, self._sides)
        done(1.0)
        return scorer
