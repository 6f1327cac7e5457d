"""The subject of a report: a model, its known ratings and, with a test part, its predictions for that."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cofill.arrays import Doubles, Floats, Ints
from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Id
from cofill.errors import DataError
from cofill.evaluation import Evaluation, RankingEvaluation, evaluate_ranking
from cofill.evaluation.ratings import Predictions, measured, predict_test
from cofill.models.recommender import Recommender
from cofill.progress import share_done
from cofill.report.baselines import MeansAlone, fitted_ease, known_ratings


@dataclass(frozen=True)
class Subject:
    """A fitted model, and how the page presents it."""

    model: Recommender
    name: str
    """What the model is called: its folder, say."""
    test: Ratings | None = None
    test_name: str | None = None
    """Where the test ratings came from."""
    version: str | None = None
    """The cofill that wrote the model."""
    command: str | None = None
    """The one that writes the page of a model in the folder `model`."""
    users: tuple[Id, ...] = ()
    """Whose recommendations are shown; by default of one with few, one with a middling number and one with many."""
    quiet: bool = True

    def __post_init__(self) -> None:
        if self.test is not None and len(self.test) == 0:
            raise DataError(
                f"{self.test_name or 'the test part'}: there are no ratings to measure on; give at least one"
            )

    def title(self, item: int) -> str:
        """The title of an item, by index; its id if it has none."""
        found = self.model.items.id(item)
        return self.model.titles.get(found) or str(found)

    def ratings_of(self, user: int) -> tuple[Ints, Floats]:
        """Items, by index, and what the user gave them."""
        return self.model.predictor.known.row(user)

    @cached_property
    def known(self) -> Ratings:
        """All ratings, or interactions, that the model knows, as they are now."""
        return known_ratings(self.model)

    @cached_property
    def mean_ratings(self) -> Doubles:
        """(items,): NaN where there is none."""
        items, values = self.known.item_index, self.known.values
        counts = np.bincount(items, minlength=len(self.model.items))
        sums = np.bincount(items, weights=values, minlength=len(self.model.items))
        means: Doubles = np.full(len(counts), np.nan)
        return np.divide(sums, counts, out=means, where=counts > 0)

    # The test part

    @property
    def rated(self) -> bool:
        """Whether there are ratings to predict, and to compare predictions with; otherwise lists alone are measured."""
        return self.model.rated and (self.test is None or self.test.rated)

    @property
    def tested(self) -> Ratings:
        assert self.test is not None
        return self.test

    @cached_property
    def test_pairs(self) -> tuple[Ints, Ints]:
        """(n,), (n,): users and items of the test ratings in the model's indices; -1 for those it has never seen."""
        test = self.tested
        users = self.model.users.find(test.users.ids)[test.user_index]
        return users, self.model.items.find(test.items.ids)[test.item_index]

    @cached_property
    def _predicted(self) -> Predictions:
        with share_done("predicting", self.quiet) as report:
            return predict_test(self.model, self.tested, intervals=True, report=report)

    @property
    def predictions(self) -> Floats:
        """(n,): of the test ratings."""
        return self._predicted.ratings

    @cached_property
    def evaluation(self) -> Evaluation:
        return measured(self.model, self.tested, self._predicted)

    @cached_property
    def means_said(self) -> Floats:
        """(n,): what the means alone predict for the test ratings."""
        return MeansAlone(self.known).predictions(*self.test_pairs)

    @cached_property
    def means_evaluation(self) -> Evaluation:
        """The measures of the means alone, in the same groups."""
        return measured(self.model, self.tested, Predictions(self.means_said, None))

    @cached_property
    def ranking(self) -> RankingEvaluation | DataError:
        """Ranking measures of lists of ten, or the reason why there are none, which does not stop the page."""
        try:
            with share_done("ranking", self.quiet) as report:
                return evaluate_ranking(self.model, self.tested, report=report)
        except DataError as error:
            return error

    @cached_property
    def ease_ranking(self) -> RankingEvaluation | None:
        """The lists of EASE on the same ratings; None where it was not fitted."""
        if isinstance(self.ranking, DataError):
            return None
        with share_done("fitting EASE, to compare lists with", self.quiet):
            ease = fitted_ease(self.model, self.known)
        return None if ease is None else evaluate_ranking(ease, self.tested, relevant=self.ranking.relevant)

    @cached_property
    def trained_on(self) -> int:
        """How many test ratings the model was trained on; they say little about new ones."""
        return self.model.known_pairs(self.tested)
